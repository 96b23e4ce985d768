/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How far approximate sums are off under a workload that hops over CPUs. */
#include <errno.h>
#include <inttypes.h>

#include <kpemu/percpu_counter.h>

#include "emu/sim/sim.h"

#define BATCH         32 /* of a tree's bytes: RSS_STAT_BATCH_SIZE */
#define PAGES_PER_PTE 512 /* page table entries that one pass of an unmapping looks at */
#define AREA_RUN      64 /* bytes of a CPU: 4 of the percpu_counter, 1 of the tree */
#define CHECK_STEPS   65536 /* steps from one look at precise sums to the next */

/* The three counters, which get the same additions on the same CPUs. */
struct machine {
	struct percpu_counter_tree_memory memory;
	size_t node_bytes;
	struct percpu_counter upstream;
	struct percpu_counter_tree tree, lazy;
	uint64_t random;
};

/* splitmix64: each seed gives another sequence, without a run-in. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void hop(struct machine *m)
{
	uint64_t cpus = m->memory.area->nr_cpus;

	percpu_set_cpu((next_random(&m->random) >> 32) * cpus >> 32);
}

static void add(struct machine *m, int64_t pages)
{
	percpu_counter_add(&m->upstream, pages);
	percpu_counter_tree_add(&m->tree, pages);
	percpu_counter_tree_add_owner(&m->lazy, pages);
}

/* As the kernel unmaps: one addition for each page table that it goes through. */
static void unmap(struct machine *m, int64_t pages)
{
	for (; pages > PAGES_PER_PTE; pages -= PAGES_PER_PTE)
		add(m, -PAGES_PER_PTE);
	add(m, -pages);
}

static void note(struct sim_drift_error *e, int64_t error)
{
	if (error < 0)
		error = -error;
	if (error > e->max)
		e->max = error;
}

static void look(struct machine *m, struct sim_drift *d, int64_t pages)
{
	note(&d->upstream, percpu_counter_read(&m->upstream) - pages);
	note(&d->tree, percpu_counter_tree_approximate_sum(&m->tree) - pages);
	note(&d->lazy, percpu_counter_tree_approximate_sum(&m->lazy) - pages);
}

static bool sums_are(struct machine *m, int64_t pages)
{
	return percpu_counter_sum(&m->upstream) == pages &&
	       percpu_counter_tree_precise_sum(&m->tree) == pages &&
	       percpu_counter_tree_precise_sum(&m->lazy) == pages;
}

static int run(struct machine *m, const struct sim_drift_options *o, struct sim_drift *d)
{
	int64_t populated = 0;

	for (uint64_t i = 1; i <= o->steps; i++) {
		int64_t step = o->pages - populated;

		if (step > o->step)
			step = o->step;
		hop(m);
		add(m, step);
		populated += step;
		look(m, d, populated);
		if ((i % CHECK_STEPS == 0 || i == o->steps) && !sums_are(m, populated))
			return -EIO;
		if (populated < o->pages)
			continue;
		hop(m);
		unmap(m, populated);
		populated = 0;
		look(m, d, populated);
	}
	return 0;
}

static void bounds(struct machine *m, struct sim_drift *d)
{
	unsigned long under = 0, over = 0;

	d->upstream.batch = percpu_counter_batch(m->memory.area);
	d->upstream.bound = (int64_t)m->memory.area->nr_cpus * (d->upstream.batch - 1);
	percpu_counter_tree_approximate_accuracy_range(&m->tree, &under, &over);
	d->tree.batch = BATCH;
	d->tree.bound = over;
}

static int make_counters(struct machine *m, const struct percpu_counter_tree_shape *shape)
{
	int err = percpu_counter_init(&m->upstream, m->memory.area, 0);

	if (err)
		return err;
	percpu_counter_tree_init_lazy(&m->lazy, BATCH, shape);
	err = percpu_counter_tree_init(&m->tree, BATCH, shape, &m->memory);
	if (err)
		percpu_counter_destroy(&m->upstream);
	return err;
}

int sim_drift(const struct sim_drift_options *o, struct sim_drift *d)
{
	struct machine m = { .random = o->seed };
	int err = sim_tree_memory(&m.memory, &m.node_bytes, o->shape.nr_cpus, AREA_RUN,
				  PERCPU_ATOMIC);

	*d = (struct sim_drift){ 0 };
	if (err)
		return err;
	err = make_counters(&m, &o->shape);
	if (!err) {
		bounds(&m, d);
		err = run(&m, o, d);
		percpu_set_cpu(-1);
		percpu_counter_tree_destroy(&m.tree, &m.memory);
		percpu_counter_destroy(&m.upstream);
	}
	sim_tree_memory_free(&m.memory);
	return err;
}

static void print_error(FILE *out, const char *name, const struct sim_drift_error *e)
{
	fprintf(out, "%s,%u,%.1f,%.1f\n", name, e->batch, e->max / 256.0, e->bound / 256.0);
}

void sim_drift_print(FILE *out, const struct sim_drift_options *o, const struct sim_drift *d)
{
	char arity[SIM_ARITY_TEXT];

	fprintf(out,
		"# kpemu's own workload, not the program behind any published figure.\n"
		"# One thread, %u CPU%s: each step populates %u pages on a CPU chosen at random; when %u\n"
		"# are populated, all are unmapped on one CPU. %" PRIu64 " steps, seed %" PRIu64
		"; tree of fan-outs %s.\n"
		"# The largest |precise - approximate| seen, and what is possible.\n"
		"counter,batch,max_delta_mib,bound_mib\n",
		o->shape.nr_cpus, o->shape.nr_cpus == 1 ? "" : "s", o->step, o->pages, o->steps,
		o->seed, sim_arity_text(arity, &o->shape));
	print_error(out, "percpu_counter", &d->upstream);
	print_error(out, "percpu_counter_tree", &d->tree);
	print_error(out, "lazy single-threaded", &d->lazy);
}
