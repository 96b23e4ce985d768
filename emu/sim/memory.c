/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bytes per mm and per ucounts record, from the kernel's layouts and the trees that really run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/sim/layout.h"
#include "emu/sim/sim.h"

/* The machines of the published table (RFC v23 07/10, "Memory Use"). */
static const unsigned int machines[] = { 2, 16, 64, 384, 1024 };
#define NR_MACHINES (sizeof(machines) / sizeof(*machines))

const char *sim_arity_text(char *buf, const struct percpu_counter_tree_shape *shape)
{
	char *p = buf;

	for (int i = 0; i < shape->nr_fanouts; i++)
		p += sprintf(p, "%s%u", i ? "," : "", 1u << shape->fanout_order[i]);
	if (!shape->nr_fanouts)
		sprintf(p, "1");
	return buf;
}

static void *tree_alloc(void *bytes, size_t size)
{
	void *p = aligned_alloc(KERNEL_CACHE_LINE, size);

	if (p)
		*(size_t *)bytes += size;
	return p ? memset(p, 0, size) : NULL;
}

static void tree_free(void *bytes, void *p, size_t size)
{
	*(size_t *)bytes -= size;
	free(p);
}

int sim_tree_memory(struct percpu_counter_tree_memory *m, size_t *bytes, unsigned int nr_cpus,
		    size_t run, enum percpu_mode mode)
{
	*bytes = 0;
	*m = (struct percpu_counter_tree_memory){ percpu_area_new(nr_cpus, run, mode), tree_alloc,
						  tree_free, bytes };
	return m->area ? 0 : -ENOMEM;
}

void sim_tree_memory_free(struct percpu_counter_tree_memory *m)
{
	percpu_area_delete(m->area);
}

int sim_mm_bytes(struct sim_mm_bytes *b, unsigned int nr_cpus)
{
	struct percpu_counter_tree c[KERNEL_MM_COUNTERS];
	struct percpu_counter_tree_memory m;
	size_t node_bytes;
	int err = percpu_counter_tree_shape_init(&b->shape, nr_cpus);

	if (err)
		return err;
	err = sim_tree_memory(&m, &node_bytes, nr_cpus, KERNEL_CACHE_LINE, PERCPU_ATOMIC);
	if (err)
		return err;
	percpu_counter_tree_init_many_lazy(c, KERNEL_MM_COUNTERS, 32, &b->shape);
	b->one_thread = sizeof(struct kernel_mm_lazy) + nr_cpus * percpu_used(m.area) + node_bytes;
	err = percpu_counter_tree_activate_many(c, KERNEL_MM_COUNTERS, &m);
	b->threads = sizeof(struct kernel_mm_lazy) + nr_cpus * percpu_used(m.area) + node_bytes;
	b->upstream = sizeof(struct kernel_mm_upstream) +
		      KERNEL_MM_COUNTERS * nr_cpus * sizeof(kernel_percpu_counter_slot);
	percpu_counter_tree_destroy_many(c, KERNEL_MM_COUNTERS, &m);
	sim_tree_memory_free(&m);
	return err;
}

void sim_ucounts_bytes(unsigned int nr_cpus, unsigned int *shared, unsigned int *percpu)
{
	*shared = sizeof(struct kernel_ucounts_shared);
	*percpu = sizeof(struct kernel_ucounts_percpu) +
		  KERNEL_UCOUNT_RLIMITS * nr_cpus * sizeof(kernel_percpu_counter_slot);
}

/* As the published file has it: a list with commas stands in quotes, a single number does not. */
static void print_mm(FILE *out, const struct sim_mm_bytes *b)
{
	char arity[SIM_ARITY_TEXT];
	const char *quote = b->shape.nr_fanouts > 1 ? "\"" : "";

	fprintf(out, "%u,%s%s%s,%u,%u,%u\n", b->shape.nr_cpus, quote,
		sim_arity_text(arity, &b->shape), quote, b->one_thread, b->threads, b->upstream);
}

int sim_memory(FILE *out)
{
	struct sim_mm_bytes b[NR_MACHINES];
	unsigned int shared, percpu;

	for (size_t i = 0; i < NR_MACHINES; i++) {
		int err = sim_mm_bytes(&b[i], machines[i]);

		if (err)
			return err;
	}
	fprintf(out, "nr_cpus,fan_out,one_thread,threads,upstream\n");
	for (size_t i = 0; i < NR_MACHINES; i++)
		print_mm(out, &b[i]);
	fprintf(out, "\nnr_cpus,shared,percpu_counter\n");
	for (size_t i = 0; i < NR_MACHINES; i++) {
		sim_ucounts_bytes(machines[i], &shared, &percpu);
		fprintf(out, "%u,%u,%u\n", machines[i], shared, percpu);
	}
	return 0;
}
