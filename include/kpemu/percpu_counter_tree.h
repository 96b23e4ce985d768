/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters that many CPUs add to, as a tree: approximate sums cheap, their error bounded. */
#ifndef KPEMU_PERCPU_COUNTER_TREE_H
#define KPEMU_PERCPU_COUNTER_TREE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kpemu/atomic.h>
#include <kpemu/percpu.h>

/*
 * A counter is the sum of a byte for each CPU, of words in the nodes of a tree above these, and of
 * two single words, its biases. An addition goes to the byte of its CPU. When that leaves
 * -(batch-1) .. batch-1, the part of it that is a multiple of the batch moves up to a node, whose
 * batch is larger by the fan-out, and so on up to the root; what stays has the sign that it had.
 * The root and the biases are the approximate sum: one look at one place. What the bytes and the
 * other nodes hold is its error, and it cannot be more than they have room for.
 *
 * The counters of one init_many() share their nodes, 64 bytes each, and their CPUs' lines.
 *
 * A lazy counter begins as its biases alone and is exact, whoever reads it, until
 * percpu_counter_tree_activate_many() gives it a tree. Nothing is moved then and nothing later, so
 * additions that race with it are counted wherever they land. It never goes back.
 *
 * Sources: RFC v23 07/10; kernel/rss.md 3, "v23 form". Choices where these are silent: the
 * remainder is that of a division that truncates (rss.md calls it trunc); a carry that leaves
 * nothing at a node goes through it all the same.
 *
 * Everything is found by offsets from where it is said: counters, nodes and area may lie in memory
 * that several processes share at different addresses, as long as it is one mapping.
 *
 * Values. Amounts and sums are in the caller's unit, pages for an mm; each within -2^62 .. 2^62.
 *
 * Context. add, add_owner, active, all sums and comparisons are async-signal-safe and lock-free,
 * except that add_owner's callers must not overlap, a handler included. init, activate and destroy
 * are for one context at a time.
 *
 * Memory order. Additions are relaxed; a sum is exact if the additions happened before it by other
 * means and nobody adds. One that races with additions may miss or see twice a carry that is on its
 * way. Activation is a release, paired with an acquire in whoever uses the tree.
 *
 * Death. A process killed while a carry is on its way loses the carry (percpu.h says why); one
 * killed in activate_many() leaves counters that can be activated again, at the cost of what it
 * had allocated and not yet published.
 */
#define PERCPU_COUNTER_TREE_CPUS_MAX    PERCPU_MAX_CPUS
#define PERCPU_COUNTER_TREE_FANOUTS_MAX 10 /* log2 of the CPUs: fan-outs of 2 all the way */
#define PERCPU_COUNTER_TREE_MANY_MAX    8 /* counters that share nodes: longs in a line */
#define PERCPU_COUNTER_TREE_BATCH_MAX   128 /* a byte holds one less, of either sign */

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
 * The five published forms (RFC v23 07/10) and rules between them that kernel/rss.md 3.1 proposes.
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

/* A node of all counters of one init_many(), on a line of its own. */
struct percpu_counter_tree_node {
	atomic64_t count[PERCPU_COUNTER_TREE_MANY_MAX]; /* by the counter's index */
} __attribute__((aligned(64)));
static_assert(sizeof(struct percpu_counter_tree_node) == 64, "one line");

/*
 * Where trees come from: bytes from the area, nodes from alloc(), which gives @size bytes, zero and
 * aligned to 64, or NULL; free() gets the same size. In shared memory all in one mapping. The
 * struct itself belongs to one process and is not kept.
 */
struct percpu_counter_tree_memory {
	struct percpu_area *area;
	void *(*alloc)(void *arg, size_t size);
	void (*free)(void *arg, void *p, size_t size);
	void *arg;
};

/* All bytes 0 is no counter; destroying it does nothing. It must stay where it was made. */
struct percpu_counter_tree {
	int64_t bias; /* add_owner() before the tree, and set() */
	atomic64_t atomic_bias; /* add() before the tree, or without one */
	int64_t nodes; /* bytes from here to the root; 0 = inactive; or PERCPU_COUNTER_TREE_PLAIN */
	struct percpu_ptr level0; /* published before nodes */
	struct percpu_counter_tree_shape shape;
	uint8_t batch; /* of level 0 */
	uint8_t index; /* of this counter in each node */
};
static_assert(sizeof(struct percpu_counter_tree) == 64, "ABI");

/* nodes of an active counter of order 0: it needs none, and atomic_bias has everything. */
#define PERCPU_COUNTER_TREE_PLAIN 1

/*
 * percpu_counter_tree_init_many_lazy - @n counters (1..8) of value 0 without a tree, exact until
 * they are activated. Allocates nothing. @batch of level 0: a power of two, 2..128.
 * 0; -EINVAL (@n, @batch, @shape) with the counters unchanged. (RFC v23 07/10)
 */
int percpu_counter_tree_init_many_lazy(struct percpu_counter_tree *c, unsigned int n,
				       unsigned int batch,
				       const struct percpu_counter_tree_shape *shape);

/*
 * percpu_counter_tree_init_many - the same, active from the start.
 * 0; -EINVAL, also if the area of @memory has another number of CPUs than @shape; -ENOMEM. On
 * failure nothing stays allocated and the counters are unchanged.
 */
int percpu_counter_tree_init_many(struct percpu_counter_tree *c, unsigned int n, unsigned int batch,
				  const struct percpu_counter_tree_shape *shape,
				  const struct percpu_counter_tree_memory *memory);

/*
 * percpu_counter_tree_activate_many - give the @n counters at @c, all that were made together, a
 * tree. Everything is allocated first; then the counters are published, from the first to the
 * last, so the last one is active when all are. Additions may go on meanwhile, activations not:
 * the caller serialises them.
 * 0, at once if the last one is active already; -EINVAL: not the counters of one init_many, or the
 * area has another number of CPUs; -ENOMEM. On failure nothing stays allocated and the counters
 * are unchanged. (RFC v23 07/10, kernel/rss.md 3)
 */
int percpu_counter_tree_activate_many(struct percpu_counter_tree *c, unsigned int n,
				      const struct percpu_counter_tree_memory *memory);

/*
 * percpu_counter_tree_destroy_many - give the tree of the @n counters made together back and make
 * them all bytes 0. Nobody may use them any more.
 */
void percpu_counter_tree_destroy_many(struct percpu_counter_tree *c, unsigned int n,
				      const struct percpu_counter_tree_memory *memory);

/* percpu_counter_tree_active - has it a tree? An acquire. Once true, always true. */
static inline bool percpu_counter_tree_active(const struct percpu_counter_tree *c)
{
	return smp_load_acquire(&c->nodes) != 0;
}

/* The way up from the bytes: percpu_add_carry8() gave @carry when it was to add @v. */
void percpu_counter_tree_climb(struct percpu_counter_tree *c, long v, long carry);

/*
 * percpu_counter_tree_add - add @v, from any thread. With a tree: one critical section on this
 * CPU's byte, and every batch/@v times or so a walk up. Without: an atomic on one shared word,
 * which many that add at once contend for.
 */
static inline void percpu_counter_tree_add(struct percpu_counter_tree *c, long v)
{
	long carry;

	if (unlikely(!percpu_ptr_valid(&c->level0))) {
		atomic64_add_return(v, &c->atomic_bias);
		return;
	}
	carry = percpu_add_carry8(&c->level0, v, c->batch);
	if (unlikely(carry))
		percpu_counter_tree_climb(c, v, carry);
}

/*
 * percpu_counter_tree_add_owner - add @v, by the counter's owner: a plain addition while there is
 * no tree. No two of its callers may overlap, nor one with set(): one task, in no handler.
 */
static inline void percpu_counter_tree_add_owner(struct percpu_counter_tree *c, long v)
{
	if (likely(!percpu_counter_tree_active(c)))
		WRITE_ONCE(c->bias, c->bias + v);
	else
		percpu_counter_tree_add(c, v);
}

/*
 * percpu_counter_tree_approximate_sum - the value, off by at most the accuracy; exact without a
 * tree. A few loads. _positive: 0 where that is negative, as it may be for a moment.
 */
long percpu_counter_tree_approximate_sum(const struct percpu_counter_tree *c);
long percpu_counter_tree_approximate_sum_positive(const struct percpu_counter_tree *c);

/*
 * percpu_counter_tree_precise_sum - the value. Looks at each CPU and node, except without a tree.
 */
long percpu_counter_tree_precise_sum(const struct percpu_counter_tree *c);
long percpu_counter_tree_precise_sum_positive(const struct percpu_counter_tree *c);

/*
 * percpu_counter_tree_set - make the precise sum @v, by the owner or where nobody adds. The error
 * of the approximate sum stays what it is.
 */
void percpu_counter_tree_set(struct percpu_counter_tree *c, long v);

/*
 * percpu_counter_tree_approximate_accuracy_range - add to *@under how much the approximate sum can
 * be below the precise one, and to *@over how much above. Both are the room of bytes and nodes: the
 * sum over the levels l below the root of n_l * (B_l - B_(l-1)), where n_0 is the number of CPUs,
 * n_l of nodes, B_l the batch of a level and B_(-1) is 1. For a lazy counter, those of its tree,
 * active or not. (kernel/rss.md 3)
 */
void percpu_counter_tree_approximate_accuracy_range(const struct percpu_counter_tree *c,
						    unsigned long *under, unsigned long *over);

/*
 * percpu_counter_tree_approximate_compare - 1: @a is greater than @b, -1: it is less, 0: the
 * approximate sums are too close to tell. Right for counters to which nobody adds.
 * percpu_counter_tree_precise_compare - 0: they are equal. Sums precisely only as far as it must.
 */
int percpu_counter_tree_approximate_compare(const struct percpu_counter_tree *a,
					    const struct percpu_counter_tree *b);
int percpu_counter_tree_precise_compare(const struct percpu_counter_tree *a,
					const struct percpu_counter_tree *b);

/*
 * The same for a counter and a value, seen from the value, as in the kernel: 1: @v is greater than
 * the counter, -1: it is less.
 */
int percpu_counter_tree_approximate_compare_value(const struct percpu_counter_tree *c, long v);
int percpu_counter_tree_precise_compare_value(const struct percpu_counter_tree *c, long v);

/* One counter alone. */
static inline int percpu_counter_tree_init_lazy(struct percpu_counter_tree *c, unsigned int batch,
						const struct percpu_counter_tree_shape *shape)
{
	return percpu_counter_tree_init_many_lazy(c, 1, batch, shape);
}

static inline int percpu_counter_tree_init(struct percpu_counter_tree *c, unsigned int batch,
					   const struct percpu_counter_tree_shape *shape,
					   const struct percpu_counter_tree_memory *memory)
{
	return percpu_counter_tree_init_many(c, 1, batch, shape, memory);
}

static inline int percpu_counter_tree_activate(struct percpu_counter_tree *c,
					       const struct percpu_counter_tree_memory *memory)
{
	return percpu_counter_tree_activate_many(c, 1, memory);
}

static inline void percpu_counter_tree_destroy(struct percpu_counter_tree *c,
					       const struct percpu_counter_tree_memory *memory)
{
	percpu_counter_tree_destroy_many(c, 1, memory);
}

#endif
