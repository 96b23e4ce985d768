/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Simulations: what counters cost and how far they are off, on machines that are not at hand. */
#ifndef EMU_SIM_SIM_H
#define EMU_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kpemu/percpu_counter_tree.h>

/*
 * sim_arity_text - the fan-outs of @shape as the option has them, "8,8,8", from the bytes to the
 * root; "1" with one CPU, which has none. Returns @buf, of at least SIM_ARITY_TEXT bytes.
 */
#define SIM_ARITY_TEXT 64
const char *sim_arity_text(char *buf, const struct percpu_counter_tree_shape *shape);

/*
 * sim_tree_memory - where the trees of simulations come from: @m becomes an area of its own for
 * @nr_cpus CPUs, with a run of @run bytes for each, and nodes from malloc(3), of which *@bytes has
 * the bytes in use. 0, or -ENOMEM. sim_tree_memory_free() gives the area back.
 */
int sim_tree_memory(struct percpu_counter_tree_memory *m, size_t *bytes, unsigned int nr_cpus,
		    size_t run, enum percpu_mode mode);
void sim_tree_memory_free(struct percpu_counter_tree_memory *m);

/* --- memory --- */

/* Bytes that the four RSS counters of an mm take, in the kernel's layout (RFC v23 07/10). */
struct sim_mm_bytes {
	struct percpu_counter_tree_shape shape;
	unsigned int one_thread; /* lazy counters, inactive */
	unsigned int threads; /* with their tree */
	unsigned int upstream; /* struct percpu_counter */
};

/*
 * sim_mm_bytes - make the counters of an mm for @nr_cpus CPUs, activate them, and count what the
 * tree allocates. 0, -EINVAL (@nr_cpus) or -ENOMEM.
 */
int sim_mm_bytes(struct sim_mm_bytes *b, unsigned int nr_cpus);

/* sim_ucounts_bytes - counters of a ucounts record: one long each, or percpu_counters. */
void sim_ucounts_bytes(unsigned int nr_cpus, unsigned int *shared, unsigned int *percpu);

/* sim_memory - both tables, as CSV with an empty line between, to @out. 0 or -errno. */
int sim_memory(FILE *out);

/* --- drift --- */

/*
 * A workload of our own (kernel/rss.md 8), not the program behind the published figures: each step
 * runs on a CPU chosen at random and populates @step pages; when @pages are populated, all are
 * unmapped on one CPU; and so on. One thread.
 */
#define SIM_PAGES_MAX 1000000000 /* 3.7 TiB */
#define SIM_STEPS_MAX 100000000000

struct sim_drift_options {
	struct percpu_counter_tree_shape shape; /* its nr_cpus are the CPUs */
	unsigned int step; /* pages, 1 or more */
	unsigned int pages; /* 1 or more */
	uint64_t steps;
	uint64_t seed;
};

/* The largest |precise - approximate| seen after a step or an unmapping, and what is possible. */
struct sim_drift_error {
	int64_t max; /* pages */
	int64_t bound; /* pages */
	unsigned int batch; /* of a CPU; 0: nothing is held back */
};

struct sim_drift {
	struct sim_drift_error upstream, tree, lazy;
};

/*
 * sim_drift - the same steps for a percpu_counter, a tree that is active from the start, and a
 * lazy counter of which the thread is the owner. 0 or -ENOMEM; -EIO: a precise sum was not the
 * number of pages, which is a bug.
 */
int sim_drift(const struct sim_drift_options *o, struct sim_drift *d);

/* sim_drift_print - what was done and what came out, as text with a CSV table, to @out. */
void sim_drift_print(FILE *out, const struct sim_drift_options *o, const struct sim_drift *d);

/* --- activation --- */

#define SIM_UPDATERS 3 /* 1, 2 and 4 threads */

struct sim_activation_options {
	unsigned int nr_cpus; /* of the tree; at least those of this machine */
	unsigned int adds; /* of each thread in each measurement */
	unsigned int rounds; /* medians are of this many, at most SIM_ROUNDS_MAX */
};
#define SIM_ROUNDS_MAX 99

/*
 * What a lazy counter costs on this machine, in nanoseconds of CPU time: medians.
 *
 * Remote updaters are threads that are not the owner, all at once: before the activation each
 * addition is an atomic on one word. The owner pays for the tree as long as the process lives,
 * because it stays when the second thread has gone; what it would cost instead to give it back at
 * each return to one thread and make it anew is measured too, without the wait for remote
 * updaters that giving it back would need.
 */
struct sim_activation {
	bool rseq; /* additions are critical sections; else atomics on the CPU's byte */
	unsigned int updaters[SIM_UPDATERS];
	double remote_before[SIM_UPDATERS], remote_after[SIM_UPDATERS]; /* ns of one addition */
	double owner_before, owner_after; /* ns of one addition */
	double sum_before, sum_after; /* ns of one precise sum */
	double first_thread; /* ns: the activation */
	double later_thread; /* ns: it is active already */
	double made_anew; /* ns: destroy, lazy init and activation */
	size_t tree_bytes; /* of the tree of four counters, from the activation on */
	unsigned long bound; /* pages that each approximate sum can be off from then on */
};

/* sim_activation - measure. 0; -EINVAL: @nr_cpus; -ENOMEM; -EAGAIN: no more threads. */
int sim_activation(const struct sim_activation_options *o, struct sim_activation *a);

/* sim_activation_print - as CSV tables with comments, to @out. */
void sim_activation_print(FILE *out, const struct sim_activation_options *o,
			  const struct sim_activation *a);

#endif
