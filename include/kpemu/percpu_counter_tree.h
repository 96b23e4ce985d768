/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters that many CPUs add to, as a tree: approximate sums cheap, their error bounded. */
#ifndef KPEMU_PERCPU_COUNTER_TREE_H
#define KPEMU_PERCPU_COUNTER_TREE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kpemu/atomic.h>

#define PERCPU_COUNTER_TREE_CPUS_MAX    1024
#define PERCPU_COUNTER_TREE_FANOUTS_MAX 10 /* log2 of the CPUs: fan-outs of 2 all the way */

/*
 * The form of a tree. Level 0 is one byte for each CPU. Each fan-out makes a level of nodes above
 * the one before it, with as many nodes as the fan-out leaves of the CPUs rounded up to a power of
 * two; the last level is one node, the root. In a level of L nodes CPU c belongs to node
 * c & (L - 1): neighbours are spread. With one CPU there is no level at all, order 0.
 */
struct percpu_counter_tree_shape {
	uint16_t nr_cpus; /* 1 to PERCPU_COUNTER_TREE_CPUS_MAX */
	uint8_t order; /* log2 of nr_cpus rounded up to a power of two: the sum of fanout_order[] */
	uint8_t nr_fanouts;
	uint8_t fanout_order[PERCPU_COUNTER_TREE_FANOUTS_MAX]; /* log2, from the bytes up */
};
static_assert(sizeof(struct percpu_counter_tree_shape) == 14, "ABI");

/*
 * percpu_counter_tree_shape_init - the form of trees for @nr_cpus CPUs, from the table by order.
 * 0, or -EINVAL (@nr_cpus is 0 or too large) with @shape unchanged. Async-signal-safe.
 * The five published forms (seeds/001) and rules between them that kernel/rss.md 3.1 proposes.
 */
int percpu_counter_tree_shape_init(struct percpu_counter_tree_shape *shape, unsigned int nr_cpus);

/*
 * percpu_counter_tree_shape_parse - the form that @arity names: fan-outs from the bytes to the
 * root, "8,8,8". Each is a power of two from 2, their product @nr_cpus rounded up to a power of
 * two; so there is none for one CPU. 0, or -EINVAL with @shape unchanged. Async-signal-safe.
 * The rule is that of the kernel's boot parameter percpu_counter_tree.arity (kernel/rss.md 3).
 */
int percpu_counter_tree_shape_parse(struct percpu_counter_tree_shape *shape, unsigned int nr_cpus,
				    const char *arity);

/* percpu_counter_tree_shape_nodes - nodes of all levels above the bytes, the root included. */
unsigned int percpu_counter_tree_shape_nodes(const struct percpu_counter_tree_shape *shape);

#endif
