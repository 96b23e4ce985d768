/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counter trees: forms, carries, the bounds of their error, lazy counters and their activation. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kpemu/percpu_counter_tree.h>

#include "emu/sim/sim.h"
#include "tests/unit/chance.h"

TestSuite(tree_shape, .timeout = 30);
TestSuite(tree, .timeout = 60);
TestSuite(tree_lazy, .timeout = 60);
TestSuite(tree_race, .timeout = 600);
TestSuite(tree_sim, .timeout = 60);

/* Longer forms: `TREE_ADDS=10000000 build/tests/unit --filter 'tree_race*'`. */
static unsigned long from_environment(const char *name, unsigned long otherwise)
{
	const char *v = getenv(name);

	return v ? strtoul(v, NULL, 10) : otherwise;
}

/* --- forms --- */

static struct percpu_counter_tree_shape shape_of(unsigned int nr_cpus, const char *arity)
{
	struct percpu_counter_tree_shape s;

	cr_assert_eq(arity ? percpu_counter_tree_shape_parse(&s, nr_cpus, arity) :
			     percpu_counter_tree_shape_init(&s, nr_cpus),
		     0, "%u CPUs, arity %s", nr_cpus, arity);
	return s;
}

/* "8,8,8" */
static const char *fanouts_of(const struct percpu_counter_tree_shape *s, char *buf)
{
	char *p = buf;

	*buf = 0;
	for (int i = 0; i < s->nr_fanouts; i++)
		p += sprintf(p, "%s%d", i ? "," : "", 1 << s->fanout_order[i]);
	return buf;
}

/* The published table; and what our table says between its rows. */
static const struct {
	unsigned int cpus;
	const char *fanouts;
	unsigned int order, nodes;
} forms[] = {
	{ 1, "", 0, 0 },
	{ 2, "2", 1, 1 },
	{ 3, "4", 2, 1 },
	{ 4, "4", 2, 1 },
	{ 7, "8", 3, 1 },
	{ 8, "8", 3, 1 },
	{ 9, "16", 4, 1 },
	{ 16, "16", 4, 1 },
	{ 17, "16,2", 5, 3 },
	{ 64, "16,4", 6, 5 },
	{ 65, "16,8", 7, 9 },
	{ 192, "16,16", 8, 17 },
	{ 256, "16,16", 8, 17 },
	{ 257, "8,8,8", 9, 73 },
	{ 384, "8,8,8", 9, 73 },
	{ 1000, "8,8,16", 10, 145 },
	{ 1024, "8,8,16", 10, 145 },
};

Test(tree_shape, table_by_order)
{
	char buf[64];

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		struct percpu_counter_tree_shape s = shape_of(forms[i].cpus, NULL);

		cr_assert_str_eq(fanouts_of(&s, buf), forms[i].fanouts, "%u CPUs: %s",
				 forms[i].cpus, buf);
		cr_assert_eq(s.nr_cpus, forms[i].cpus);
		cr_assert_eq(s.order, forms[i].order);
		cr_assert_eq(percpu_counter_tree_shape_nodes(&s), forms[i].nodes, "%u CPUs",
			     forms[i].cpus);
	}
}

Test(tree_shape, every_cpu_count_has_one)
{
	for (unsigned int cpus = 1; cpus <= 1024; cpus++) {
		struct percpu_counter_tree_shape s = shape_of(cpus, NULL);
		unsigned int order = 0;

		for (int i = 0; i < s.nr_fanouts; i++)
			order += s.fanout_order[i];
		cr_assert_eq(order, s.order);
		cr_assert(1u << order >= cpus && (order == 0 || 1u << order < 2 * cpus));
	}
}

Test(tree_shape, arity_overrides)
{
	static const struct {
		unsigned int cpus;
		const char *arity;
		unsigned int nodes;
	} good[] = {
		{ 2, "2", 1 },       { 16, "4,4", 5 },      { 16, "2,2,2,2", 15 },
		{ 384, "512", 1 },   { 384, "2,256", 257 }, { 1024, "2,2,2,2,2,2,2,2,2,2", 1023 },
		{ 1024, "1024", 1 },
	};
	char buf[64];

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct percpu_counter_tree_shape s = shape_of(good[i].cpus, good[i].arity);

		cr_assert_str_eq(fanouts_of(&s, buf), good[i].arity);
		cr_assert_eq(percpu_counter_tree_shape_nodes(&s), good[i].nodes);
	}
}

Test(tree_shape, bad_arguments_change_nothing)
{
	static const struct {
		unsigned int cpus;
		const char *arity;
	} bad[] = {
		{ 384, "" },
		{ 384, "8" },
		{ 384, "8,8" },
		{ 384, "8,8,8," },
		{ 384, ",8,8,8" },
		{ 384, "8,,8,8" },
		{ 384, "8,8,8,2" },
		{ 384, "8, 8,8" },
		{ 384, "8;8;8" },
		{ 384, "384" },
		{ 384, "1,512" },
		{ 384, "-8,8,8" },
		{ 384, "0,8,8" },
		{ 384, "8,8,8x" },
		{ 384, "1024" },
		{ 384, "6,8,8" },
		{ 384, "4294967304,8,8" },
		{ 512, "8,8,16" },
		{ 513, "8,8,8" },
		{ 1, "1" },
		{ 1, "" },
		{ 1, "2" },
		{ 2, "1,2" },
		{ 0, "2" },
		{ 1025, "2048" },
		{ 1025, "8,8,8,4" },
		{ 1024, "2,2,2,2,2,2,2,2,2,2,2" },
	};
	struct percpu_counter_tree_shape s, before;

	memset(&before, 0xa5, sizeof(before));
	s = before;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert_eq(percpu_counter_tree_shape_parse(&s, bad[i].cpus, bad[i].arity),
			     -EINVAL, "%u CPUs, %s", bad[i].cpus, bad[i].arity);
	cr_assert_eq(percpu_counter_tree_shape_init(&s, 0), -EINVAL);
	cr_assert_eq(percpu_counter_tree_shape_init(&s, 1025), -EINVAL);
	cr_assert_eq(percpu_counter_tree_shape_init(&s, 65536 + 2), -EINVAL);
	cr_assert_eq(memcmp(&s, &before, sizeof(s)), 0);
}

/* --- where the trees of these tests come from --- */

static size_t heap_bytes;
static unsigned int heap_fail_nth; /* allocations until one fails; 0 = none does */

static void *heap_alloc(void *arg, size_t size)
{
	void *p;

	(void)arg;
	if (heap_fail_nth && !--heap_fail_nth)
		return NULL;
	p = aligned_alloc(64, size);
	cr_assert_not_null(p);
	heap_bytes += size;
	return memset(p, 0, size);
}

static void heap_free(void *arg, void *p, size_t size)
{
	(void)arg;
	heap_bytes -= size;
	free(p);
}

static struct percpu_counter_tree_memory memory_for(unsigned int cpus, enum percpu_mode mode)
{
	struct percpu_counter_tree_memory m = { percpu_area_new(cpus, 256, mode), heap_alloc,
						heap_free, NULL };

	cr_assert_not_null(m.area, "%u CPUs", cpus);
	return m;
}

/* Everything is given back. */
static void memory_done(struct percpu_counter_tree_memory *m)
{
	percpu_set_cpu(-1);
	cr_assert_eq(percpu_used(m->area), 0);
	cr_assert_eq(heap_bytes, 0);
	percpu_area_delete(m->area);
}

static void add_on(struct percpu_counter_tree *c, unsigned int cpu, long v)
{
	percpu_set_cpu(cpu);
	percpu_counter_tree_add(c, v);
}

static long range_of(const struct percpu_counter_tree *c)
{
	unsigned long under = 0, over = 0;

	percpu_counter_tree_approximate_accuracy_range(c, &under, &over);
	cr_assert_eq(under, over);
	return over;
}

static long error_of(const struct percpu_counter_tree *c)
{
	return percpu_counter_tree_precise_sum(c) - percpu_counter_tree_approximate_sum(c);
}

/* --- a plain reference --- */

/* The tree again as arrays, with C's own division. A level of L nodes is at node[L]. */
struct model {
	struct percpu_counter_tree_shape shape;
	long batch;
	long byte[1024];
	long node[1024]; /* L nodes at L .. 2L-1, the root at 1 */
};

static void model_add(struct model *m, unsigned int cpu, long v)
{
	long batch = m->batch, nodes = 1L << m->shape.order, r = m->byte[cpu] + v;

	m->byte[cpu] = r % batch;
	for (int i = 0; i < m->shape.nr_fanouts; i++) {
		long carry = r / batch * batch;
		long *node;

		if (!carry)
			return;
		nodes >>= m->shape.fanout_order[i];
		batch <<= m->shape.fanout_order[i];
		node = &m->node[nodes + cpu % nodes];
		r = *node + carry;
		*node = nodes == 1 ? r : r % batch;
	}
}

/* All bytes and nodes of @c are those of the model. */
static void check_model(const struct model *m, const struct percpu_counter_tree *c)
{
	const struct percpu_counter_tree_node *node =
		(const struct percpu_counter_tree_node *)((const char *)c + c->nodes);
	unsigned int order = m->shape.order, at = percpu_counter_tree_shape_nodes(&m->shape);
	long sum = 0;

	for (unsigned int cpu = 0; cpu < m->shape.nr_cpus; cpu++) {
		cr_assert_eq(percpu_read8(&c->level0, cpu), m->byte[cpu]);
		sum += m->byte[cpu];
	}
	for (int i = 0; i < m->shape.nr_fanouts; i++) {
		order -= m->shape.fanout_order[i];
		at -= 1u << order;
		for (unsigned int j = 0; j < 1u << order; j++) {
			cr_assert_eq(atomic64_read(&node[at + j].count[c->index]),
				     m->node[(1u << order) + j]);
			sum += m->node[(1u << order) + j];
		}
	}
	cr_assert_eq(at, 0);
	cr_assert_eq(percpu_counter_tree_precise_sum(c), sum);
	cr_assert_eq(percpu_counter_tree_approximate_sum(c), m->node[1]);
}

static struct model *model_new(unsigned int cpus, const char *arity, unsigned int batch)
{
	struct model *m = calloc(1, sizeof(*m));

	cr_assert_not_null(m);
	m->shape = shape_of(cpus, arity);
	m->batch = batch;
	return m;
}

/* Every residue of a byte and every amount up to four batches, then of a node likewise. */
Test(tree, carry_of_a_byte_exhaustively)
{
	struct percpu_counter_tree_memory memory = memory_for(2, PERCPU_ATOMIC);

	for (long batch = 2; batch <= 128; batch *= 2) {
		struct percpu_counter_tree_shape shape = shape_of(2, NULL);
		struct percpu_counter_tree c;

		cr_assert_eq(percpu_counter_tree_init(&c, batch, &shape, &memory), 0);
		for (long r = -batch + 1; r < batch; r++) {
			for (long v = -4 * batch; v <= 4 * batch; v++) {
				long before, now = percpu_read8(&c.level0, 1);

				add_on(&c, 1, r - now);
				/* r - now may have left another residue of the same class. */
				if (percpu_read8(&c.level0, 1) != r)
					add_on(&c, 1, r - percpu_read8(&c.level0, 1));
				cr_assert_eq(percpu_read8(&c.level0, 1), r);
				before = percpu_counter_tree_approximate_sum(&c);
				add_on(&c, 1, v);
				cr_assert_eq(percpu_read8(&c.level0, 1), (r + v) % batch,
					     "batch %ld: %ld + %ld", batch, r, v);
				cr_assert_eq(percpu_counter_tree_approximate_sum(&c) - before,
					     (r + v) / batch * batch);
			}
		}
		percpu_counter_tree_destroy(&c, &memory);
	}
	memory_done(&memory);
}

/* All sequences of four additions of -5..5 on either of two CPUs that share nodes or not. */
static void sequences(struct percpu_counter_tree_memory *memory, const char *arity)
{
	struct model *m = model_new(4, arity, 2);
	struct percpu_counter_tree c;
	const int choices = 2 * 11, all = choices * choices * choices * choices;

	for (int s = 0; s < all; s += 1) {
		struct percpu_counter_tree_shape shape = m->shape;

		*m = (struct model){ .shape = shape, .batch = 2 };
		cr_assert_eq(percpu_counter_tree_init(&c, 2, &shape, memory), 0);
		for (int i = 0, rest = s; i < 4; i++, rest /= choices) {
			unsigned int cpu = rest % choices / 11 * 2 + i % 2;
			long v = rest % 11 - 5;

			add_on(&c, cpu, v);
			model_add(m, cpu, v);
		}
		check_model(m, &c);
		percpu_counter_tree_destroy(&c, memory);
	}
	free(m);
}

Test(tree, short_sequences_exhaustively)
{
	struct percpu_counter_tree_memory memory = memory_for(4, PERCPU_ATOMIC);

	sequences(&memory, "2,2");
	memory_done(&memory);
}

Test(tree, random_sequences_agree_with_reference)
{
	static const struct {
		unsigned int cpus, batch;
		const char *arity;
	} trees[] = {
		{ 3, 2, "2,2" },       { 7, 4, "2,4" },
		{ 64, 2, NULL },       { 64, 128, "2,2,2,2,2,2" },
		{ 192, 8, "4,4,4,4" }, { 384, 32, NULL },
		{ 384, 2, "2,256" },   { 1000, 16, NULL },
		{ 1024, 128, NULL },
	};

	seed = 3;
	for (size_t i = 0; i < sizeof(trees) / sizeof(*trees); i++) {
		struct percpu_counter_tree_memory memory = memory_for(trees[i].cpus, PERCPU_ATOMIC);
		struct model *m = model_new(trees[i].cpus, trees[i].arity, trees[i].batch);
		struct percpu_counter_tree c;

		cr_assert_eq(percpu_counter_tree_init(&c, trees[i].batch, &m->shape, &memory), 0);
		for (int step = 0; step < 20000; step++) {
			unsigned int cpu = rnd(trees[i].cpus);
			uint32_t size = 1u << rnd(14);
			long v = (long)rnd(2 * size + 1) - size;

			add_on(&c, cpu, v);
			model_add(m, cpu, v);
			if (step % 1000 == 0)
				check_model(m, &c);
		}
		check_model(m, &c);
		percpu_counter_tree_destroy(&c, &memory);
		memory_done(&memory);
		free(m);
	}
}

/* --- the error --- */

static const unsigned int cpu_counts[] = { 1, 2, 3, 7, 8, 16, 64, 192, 384, 1000, 1024 };

/* Fan-outs for @cpus CPUs in @buf: 0 the table's (NULL), 1 flat, 2 all of two, else any. */
static const char *some_arity(char *buf, unsigned int cpus, int kind)
{
	unsigned int order = 0;
	char *p = buf;

	while (1u << order < cpus)
		order++;
	if (kind == 0 || order == 0)
		return NULL;
	while (order) {
		unsigned int f = kind == 1 ? order : kind == 2 ? 1 : 1 + rnd(order);

		p += sprintf(p, "%s%u", p == buf ? "" : ",", 1u << f);
		order -= f;
	}
	return buf;
}

/* Each tree of many, given to @test with a counter in the middle of three. */
static void for_trees(void (*test)(struct percpu_counter_tree *c))
{
	char arity[64];

	seed = 1;
	for (size_t i = 0; i < sizeof(cpu_counts) / sizeof(*cpu_counts); i++) {
		struct percpu_counter_tree_memory memory = memory_for(cpu_counts[i], PERCPU_ATOMIC);

		for (unsigned int batch = 2; batch <= 128; batch *= 2) {
			for (int kind = 0; kind < 5; kind++) {
				struct percpu_counter_tree_shape shape = shape_of(
					cpu_counts[i], some_arity(arity, cpu_counts[i], kind));
				struct percpu_counter_tree c[3];

				cr_assert_eq(percpu_counter_tree_init_many(c, 3, batch, &shape,
									   &memory),
					     0);
				test(&c[1]);
				cr_assert_eq(percpu_counter_tree_precise_sum(&c[0]), 0);
				cr_assert_eq(percpu_counter_tree_precise_sum(&c[2]), 0);
				percpu_counter_tree_destroy_many(c, 3, &memory);
			}
		}
		memory_done(&memory);
	}
}

static void random_adds(struct percpu_counter_tree *c)
{
	long range = range_of(c), sum = 0;
	int up = rnd(5); /* tendency: mostly down .. mostly up */

	for (int step = 0; step < 2000; step++) {
		uint32_t size = 1u << rnd(13);
		long v = rnd(4) < (uint32_t)up ? (long)rnd(size) : -(long)rnd(size);
		long error;

		add_on(c, rnd(c->shape.nr_cpus), v);
		sum += v;
		error = sum - percpu_counter_tree_approximate_sum(c);
		cr_assert(labs(error) <= range, "%u CPUs, batch %u: error %ld, range %ld",
			  c->shape.nr_cpus, c->batch, error, range);
	}
	cr_assert_eq(percpu_counter_tree_precise_sum(c), sum);
}

Test(tree, error_stays_in_range_and_sum_is_exact)
{
	for_trees(random_adds);
}

/* Fill every node and byte with what it has room for, from the top. */
static long fill(struct percpu_counter_tree *c, int sign)
{
	long batch[12], nodes[12], sum = 0;
	int n = 0;

	batch[0] = c->batch;
	nodes[0] = 1L << c->shape.order;
	for (; n < c->shape.nr_fanouts; n++) {
		batch[n + 1] = batch[n] << c->shape.fanout_order[n];
		nodes[n + 1] = nodes[n] >> c->shape.fanout_order[n];
	}
	for (int l = n - 1; l >= 0; l--) {
		long v = sign * (batch[l] - (l ? batch[l - 1] : 1));
		unsigned int cpus = l ? nodes[l] : c->shape.nr_cpus;

		for (unsigned int cpu = 0; cpu < cpus; cpu++, sum += v)
			add_on(c, cpu, v);
	}
	return sum;
}

static void fill_both_ways(struct percpu_counter_tree *c)
{
	long range = range_of(c), sum = fill(c, 1);

	cr_assert_eq(error_of(c), range, "%u CPUs, batch %u: %ld of %ld", c->shape.nr_cpus,
		     c->batch, error_of(c), range);
	cr_assert_eq(percpu_counter_tree_precise_sum(c), sum);
	/* Down again, and as far to the other side. */
	fill(c, -1);
	cr_assert_eq(percpu_counter_tree_precise_sum(c), 0);
	cr_assert_eq(error_of(c), 0);
	fill(c, -1);
	cr_assert_eq(error_of(c), -range);
	cr_assert_eq(percpu_counter_tree_precise_sum(c), -sum);
	cr_assert_eq(percpu_counter_tree_precise_sum_positive(c), 0);
}

Test(tree, whole_range_is_reached)
{
	for_trees(fill_both_ways);
}

/* The same by pages alone, as faults come: 384 CPUs, the default tree. */
Test(tree, whole_range_is_reached_by_ones)
{
	struct percpu_counter_tree_memory memory = memory_for(384, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(384, NULL);
	struct percpu_counter_tree c;
	static const unsigned int cpus[] = { 8, 64, 384 };
	static const int ones[] = { 2048 - 256, 256 - 32, 31 };

	cr_assert_eq(percpu_counter_tree_init(&c, 32, &shape, &memory), 0);
	for (int level = 0; level < 3; level++)
		for (unsigned int cpu = 0; cpu < cpus[level]; cpu++)
			for (int i = 0; i < ones[level]; i++)
				add_on(&c, cpu, 1);
	cr_assert_eq(range_of(&c), 40576); /* kernel/rss.md 3: 158.5 MiB */
	cr_assert_eq(error_of(&c), 40576);
	cr_assert_eq(percpu_counter_tree_approximate_sum(&c), 0);
	percpu_counter_tree_destroy(&c, &memory);
	memory_done(&memory);
}

Test(tree, one_cpu_is_plain)
{
	struct percpu_counter_tree_memory memory = memory_for(1, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(1, NULL);
	struct percpu_counter_tree c[4];

	cr_assert_eq(percpu_counter_tree_init_many(c, 4, 32, &shape, &memory), 0);
	cr_assert_eq(percpu_used(memory.area) + heap_bytes, 0);
	for (int i = 0; i < 4; i++) {
		cr_assert(percpu_counter_tree_active(&c[i]));
		add_on(&c[i], 0, 31 + i);
		percpu_counter_tree_add_owner(&c[i], -1);
		cr_assert_eq(percpu_counter_tree_approximate_sum(&c[i]), 30 + i);
		cr_assert_eq(range_of(&c[i]), 0);
	}
	percpu_counter_tree_destroy_many(c, 4, &memory);
	memory_done(&memory);
}

/* Where the emulated CPUs are the machine's, and for a thread that has no slot there. */
Test(tree, real_cpus)
{
	unsigned int cpus = percpu_machine_cpus();
	struct percpu_counter_tree_memory memory = memory_for(cpus, PERCPU_AUTO);
	struct percpu_counter_tree_shape shape = shape_of(cpus, NULL);
	struct percpu_counter_tree c;
	long sum = 0;

	seed = 2;
	cr_assert_eq(percpu_counter_tree_init(&c, 32, &shape, &memory), 0);
	for (int i = 0; i < 100000; i++) {
		long v = (long)rnd(200) - 90;

		percpu_set_cpu(i % 1000 < 10 ? 0 : -1);
		percpu_counter_tree_add(&c, v);
		sum += v;
		cr_assert(labs(sum - percpu_counter_tree_approximate_sum(&c)) <= range_of(&c));
	}
	cr_assert_eq(percpu_counter_tree_precise_sum(&c), sum);
	percpu_counter_tree_destroy(&c, &memory);
	memory_done(&memory);
}

static void set_values(struct percpu_counter_tree *c)
{
	long error;

	fill(c, 1);
	error = error_of(c);
	percpu_counter_tree_set(c, -5);
	cr_assert_eq(percpu_counter_tree_precise_sum(c), -5);
	cr_assert_eq(error_of(c), error);
	cr_assert_eq(percpu_counter_tree_approximate_sum_positive(c), 0);
	add_on(c, c->shape.nr_cpus - 1, 12);
	cr_assert_eq(percpu_counter_tree_precise_sum_positive(c), 7);
	percpu_counter_tree_set(c, 0);
	cr_assert_eq(percpu_counter_tree_precise_sum(c), 0);
}

Test(tree, set_gives_the_precise_sum)
{
	for_trees(set_values);
}

Test(tree, amounts_far_beyond_a_batch)
{
	struct percpu_counter_tree_memory memory = memory_for(384, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(384, NULL);
	struct percpu_counter_tree c;
	const long huge = 1L << 61;

	cr_assert_eq(percpu_counter_tree_init(&c, 128, &shape, &memory), 0);
	add_on(&c, 5, 1);
	add_on(&c, 5, huge);
	cr_assert_eq(percpu_counter_tree_precise_sum(&c), huge + 1);
	cr_assert_eq(percpu_counter_tree_approximate_sum(&c), huge);
	add_on(&c, 200, -2 * huge);
	cr_assert_eq(percpu_counter_tree_precise_sum(&c), -huge + 1);
	percpu_counter_tree_destroy(&c, &memory);
	memory_done(&memory);
}

/* --- comparing --- */

static int sign(long v)
{
	return (v > 0) - (v < 0);
}

static void compare(struct percpu_counter_tree *a, struct percpu_counter_tree *b)
{
	long va = percpu_counter_tree_precise_sum(a), vb = percpu_counter_tree_precise_sum(b);
	long range = range_of(a) + range_of(b);
	int rough = percpu_counter_tree_approximate_compare(a, b);

	cr_assert_eq(percpu_counter_tree_precise_compare(a, b), sign(va - vb));
	cr_assert(rough == 0 || rough == sign(va - vb));
	cr_assert(labs(va - vb) <= 2 * range || rough != 0);
}

static void compare_value(struct percpu_counter_tree *c, long v)
{
	long sum = percpu_counter_tree_precise_sum(c);
	int rough = percpu_counter_tree_approximate_compare_value(c, v);

	cr_assert_eq(percpu_counter_tree_precise_compare_value(c, v), sign(v - sum));
	cr_assert(rough == 0 || rough == sign(v - sum));
	cr_assert(labs(v - sum) <= 2 * range_of(c) || rough != 0);
}

/* Values at and beside where answers change, with errors of all kinds. */
Test(tree, compare_is_never_wrong)
{
	struct percpu_counter_tree_memory memory = memory_for(64, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(64, NULL), wide = shape_of(64, "2,2,16");
	struct percpu_counter_tree a, b;

	seed = 4;
	for (int round = 0; round < 300; round++) {
		long range, distance;

		cr_assert_eq(percpu_counter_tree_init(&a, 2u << rnd(7), &shape, &memory), 0);
		cr_assert_eq(percpu_counter_tree_init(&b, 2u << rnd(7), &wide, &memory), 0);
		fill(&a, 1 - rnd(3));
		fill(&b, 1 - rnd(3));
		range = range_of(&a) + range_of(&b);
		for (int i = -2; i <= 2; i++) {
			for (distance = i * range - 2; distance <= i * range + 2; distance++) {
				long base = rnd(1000);

				percpu_counter_tree_set(&a, base);
				percpu_counter_tree_set(&b, base + distance);
				compare(&a, &b);
				compare(&b, &a);
				compare_value(&a, base + distance);
				compare_value(&b, base);
			}
		}
		percpu_counter_tree_destroy(&a, &memory);
		percpu_counter_tree_destroy(&b, &memory);
	}
	memory_done(&memory);
}

/* The limits themselves: 0 up to the range, and the sign is that of the value. */
Test(tree, compare_at_the_limits)
{
	struct percpu_counter_tree_memory memory = memory_for(384, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(384, NULL);
	struct percpu_counter_tree a, b;
	const long range = 40576;

	cr_assert_eq(percpu_counter_tree_init(&a, 32, &shape, &memory), 0);
	cr_assert_eq(percpu_counter_tree_init(&b, 32, &shape, &memory), 0);
	cr_assert_eq(percpu_counter_tree_approximate_compare_value(&a, range), 0);
	cr_assert_eq(percpu_counter_tree_approximate_compare_value(&a, range + 1), 1);
	cr_assert_eq(percpu_counter_tree_approximate_compare_value(&a, -range), 0);
	cr_assert_eq(percpu_counter_tree_approximate_compare_value(&a, -range - 1), -1);
	percpu_counter_tree_set(&a, 2 * range);
	cr_assert_eq(percpu_counter_tree_approximate_compare(&a, &b), 0);
	cr_assert_eq(percpu_counter_tree_precise_compare(&a, &b), 1);
	percpu_counter_tree_set(&a, 2 * range + 1);
	cr_assert_eq(percpu_counter_tree_approximate_compare(&a, &b), 1);
	cr_assert_eq(percpu_counter_tree_approximate_compare(&b, &a), -1);
	percpu_counter_tree_destroy(&a, &memory);
	percpu_counter_tree_destroy(&b, &memory);
	memory_done(&memory);
}

/* --- lazy counters --- */

Test(tree_lazy, exact_before_and_continuous_at_activation)
{
	struct percpu_counter_tree_memory memory = memory_for(384, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(384, NULL);
	struct percpu_counter_tree c[4];
	long sum[4] = { 0 };

	seed = 5;
	cr_assert_eq(percpu_counter_tree_init_many_lazy(c, 4, 32, &shape), 0);
	cr_assert_eq(range_of(&c[0]), 40576);
	for (int i = 0; i < 40000; i++) {
		struct percpu_counter_tree *k = &c[i % 4];
		long v = (long)rnd(3000) - 1000;

		percpu_set_cpu(rnd(384));
		if (rnd(2))
			percpu_counter_tree_add_owner(k, v);
		else
			percpu_counter_tree_add(k, v);
		sum[i % 4] += v;
		cr_assert_eq(percpu_counter_tree_approximate_sum(k), sum[i % 4]);
		cr_assert_eq(percpu_counter_tree_precise_sum(k), sum[i % 4]);
	}
	cr_assert_eq(percpu_used(memory.area) + heap_bytes, 0);
	for (int i = 0; i < 4; i++) {
		cr_assert(!percpu_counter_tree_active(&c[i]));
		cr_assert_neq(c[i].bias, 0);
		cr_assert_neq(atomic64_read(&c[i].atomic_bias), 0);
	}

	int64_t bias = c[2].bias, atomic_bias = atomic64_read(&c[2].atomic_bias);

	cr_assert_eq(percpu_counter_tree_activate_many(c, 4, &memory), 0);
	cr_assert_eq(percpu_used(memory.area), 4); /* a byte each */
	cr_assert_eq(heap_bytes, 73 * 64);
	for (int i = 0; i < 4; i++) {
		cr_assert(percpu_counter_tree_active(&c[i]));
		cr_assert_eq(percpu_counter_tree_approximate_sum(&c[i]), sum[i]);
		cr_assert_eq(percpu_counter_tree_precise_sum(&c[i]), sum[i]);
	}
	/* From now on all goes to the tree, the owner's too. */
	for (unsigned int cpu = 0; cpu < 384; cpu++) {
		percpu_set_cpu(cpu);
		percpu_counter_tree_add_owner(&c[2], 31);
	}
	cr_assert_eq(c[2].bias, bias);
	cr_assert_eq(atomic64_read(&c[2].atomic_bias), atomic_bias);
	cr_assert_eq(percpu_counter_tree_approximate_sum(&c[2]), sum[2]);
	cr_assert_eq(percpu_counter_tree_precise_sum(&c[2]), sum[2] + 384 * 31);
	percpu_counter_tree_destroy_many(c, 4, &memory);
	memory_done(&memory);
}

Test(tree_lazy, second_activation_does_nothing)
{
	struct percpu_counter_tree_memory memory = memory_for(64, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(64, NULL);
	struct percpu_counter_tree c[2], before[2];

	cr_assert_eq(percpu_counter_tree_init_many(c, 2, 8, &shape, &memory), 0);
	add_on(&c[1], 3, 100);
	memcpy(before, c, sizeof(c));
	percpu_fail_nth(memory.area, 1);
	heap_fail_nth = 1;
	cr_assert_eq(percpu_counter_tree_activate_many(c, 2, &memory), 0);
	percpu_fail_nth(memory.area, 0);
	heap_fail_nth = 0;
	cr_assert_eq(memcmp(before, c, sizeof(c)), 0);
	cr_assert_eq(heap_bytes, 5 * 64);
	percpu_counter_tree_destroy_many(c, 2, &memory);
	memory_done(&memory);
}

/* An activation that was killed: what is published stays, the rest follows. */
Test(tree_lazy, activation_that_was_killed_is_finished)
{
	struct percpu_counter_tree_memory memory = memory_for(64, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(64, NULL);

	for (int done = 1; done < 4; done++) {
		for (int half = 0; half < 2; half++) {
			struct percpu_counter_tree c[4];

			cr_assert_eq(percpu_counter_tree_init_many(c, 4, 8, &shape, &memory), 0);
			for (int i = done; i < 4; i++)
				c[i].nodes = 0;
			for (int i = done + half; i < 4; i++)
				percpu_ptr_clear(&c[i].level0);
			for (int i = 0; i < 4; i++)
				add_on(&c[i], i, 100);
			cr_assert_eq(percpu_counter_tree_activate_many(c, 4, &memory), 0);
			for (int i = 0; i < 4; i++) {
				cr_assert(percpu_counter_tree_active(&c[i]));
				add_on(&c[i], i, -60);
				cr_assert_eq(percpu_counter_tree_precise_sum(&c[i]), 40);
			}
			percpu_counter_tree_destroy_many(c, 4, &memory);
		}
	}
	memory_done(&memory);
}

/* The n-th allocation fails, until none does. */
Test(tree_lazy, nth_allocation_fails)
{
	struct percpu_counter_tree_memory memory = memory_for(384, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(384, NULL);
	struct percpu_counter_tree c[4], before[4];
	int failed = 0;

	for (unsigned int n = 1; n <= 3; n++) {
		int err;

		cr_assert_eq(percpu_counter_tree_init_many_lazy(c, 4, 32, &shape), 0);
		percpu_counter_tree_add(&c[0], 1000);
		percpu_counter_tree_add_owner(&c[3], 7);
		memcpy(before, c, sizeof(c));
		/* Level 0 is the first allocation, the nodes are the second. */
		percpu_fail_nth(memory.area, n == 1);
		heap_fail_nth = n == 2;
		err = percpu_counter_tree_activate_many(c, 4, &memory);
		if (n == 3) {
			cr_assert_eq(err, 0);
			break;
		}
		failed++;
		cr_assert_eq(err, -ENOMEM);
		cr_assert_eq(percpu_used(memory.area) + heap_bytes, 0);
		cr_assert_eq(memcmp(before, c, sizeof(c)), 0);
		percpu_counter_tree_add(&c[0], 1);
		cr_assert_eq(percpu_counter_tree_approximate_sum(&c[0]), 1001);

		memset(c, 0x5a, sizeof(c));
		memcpy(before, c, sizeof(c));
		percpu_fail_nth(memory.area, n == 1);
		heap_fail_nth = n == 2;
		cr_assert_eq(percpu_counter_tree_init_many(c, 4, 32, &shape, &memory), -ENOMEM);
		cr_assert_eq(percpu_used(memory.area) + heap_bytes, 0);
		cr_assert_eq(memcmp(before, c, sizeof(c)), 0);
	}
	cr_assert_eq(failed, 2);
	cr_assert_eq(percpu_counter_tree_precise_sum(&c[0]), 1000);
	percpu_counter_tree_destroy_many(c, 4, &memory);
	memory_done(&memory);
}

Test(tree_lazy, bad_arguments_change_nothing)
{
	static const unsigned int batches[] = { 0, 1, 3, 31, 33, 127, 129, 256, 1u << 31 };
	struct percpu_counter_tree_memory memory = memory_for(64, PERCPU_ATOMIC);
	struct percpu_counter_tree_shape shape = shape_of(64, NULL), bad;
	struct percpu_counter_tree c[9], before[9];

	memset(c, 0x5a, sizeof(c));
	memcpy(before, c, sizeof(c));
	for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); i++) {
		cr_assert_eq(percpu_counter_tree_init_many_lazy(c, 4, batches[i], &shape), -EINVAL);
		cr_assert_eq(percpu_counter_tree_init_many(c, 4, batches[i], &shape, &memory),
			     -EINVAL);
	}
	cr_assert_eq(percpu_counter_tree_init_many_lazy(c, 0, 32, &shape), -EINVAL);
	cr_assert_eq(percpu_counter_tree_init_many_lazy(c, 9, 32, &shape), -EINVAL);
	cr_assert_eq(percpu_counter_tree_init_many(c, 0, 32, &shape, &memory), -EINVAL);
	cr_assert_eq(percpu_counter_tree_init_many(c, 9, 32, &shape, &memory), -EINVAL);
	bad = shape_of(63, NULL); /* the area has 64 */
	cr_assert_eq(percpu_counter_tree_init_many(c, 4, 32, &bad, &memory), -EINVAL);
	for (int i = 0; i < 4; i++) {
		bad = shape;
		bad.order += i == 0;
		bad.nr_fanouts = i == 1 ? 11 : bad.nr_fanouts;
		bad.nr_cpus = i == 2 ? 65 : bad.nr_cpus;
		bad.fanout_order[0] = i == 3 ? 0 : bad.fanout_order[0];
		cr_assert_eq(percpu_counter_tree_init_many_lazy(c, 4, 32, &bad), -EINVAL, "%d", i);
	}
	cr_assert_eq(memcmp(before, c, sizeof(c)), 0);
	cr_assert_eq(percpu_used(memory.area) + heap_bytes, 0);

	/* Not those of one init_many(), and for another area. */
	cr_assert_eq(percpu_counter_tree_init_many_lazy(c, 4, 32, &shape), 0);
	cr_assert_eq(percpu_counter_tree_init_many_lazy(c + 4, 4, 32, &shape), 0);
	memcpy(before, c, sizeof(c));
	cr_assert_eq(percpu_counter_tree_activate_many(c, 8, &memory), -EINVAL);
	cr_assert_eq(percpu_counter_tree_activate_many(c + 1, 3, &memory), -EINVAL);
	cr_assert_eq(percpu_counter_tree_activate_many(c, 0, &memory), -EINVAL);
	cr_assert_eq(percpu_counter_tree_activate_many(c, 9, &memory), -EINVAL);
	cr_assert_eq(memcmp(before, c, sizeof(c)), 0);
	cr_assert_eq(percpu_used(memory.area) + heap_bytes, 0);
	memory_done(&memory);

	struct percpu_counter_tree none[2] = { 0 };

	percpu_counter_tree_destroy_many(none, 2, NULL);
	percpu_counter_tree_destroy_many(c, 4, NULL); /* never active */
}

/* --- shared memory --- */

/* Nodes in the mapping: behind each other, never given back. */
static void *bump_alloc(void *at, size_t size)
{
	char *p = *(char **)at;

	*(char **)at = p + size;
	return p;
}

static void bump_free(void *at, void *p, size_t size)
{
	(void)at, (void)p, (void)size;
}

/* A shared mapping with an area of @cpus, four lazy counters behind it, and room for nodes. */
struct shared {
	char *at; /* the mapping */
	int fd;
	char *free;
	struct percpu_counter_tree *c;
	struct percpu_counter_tree_memory memory;
};
#define SHARED_SIZE (1 << 20)

static void shared_init(struct shared *s, unsigned int cpus, enum percpu_mode mode)
{
	const size_t area_size = (percpu_area_size(cpus, 64) + 63) / 64 * 64;
	struct percpu_counter_tree_shape shape = shape_of(cpus, NULL);

	s->fd = memfd_create("tree", MFD_CLOEXEC);
	cr_assert(s->fd >= 0 && !ftruncate(s->fd, SHARED_SIZE));
	s->at = mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	cr_assert(s->at != MAP_FAILED);
	cr_assert_eq(percpu_area_init((void *)s->at, area_size, cpus, 64, mode), 0);
	s->c = (void *)(s->at + area_size);
	s->free = (char *)(s->c + 4);
	s->memory = (struct percpu_counter_tree_memory){ (void *)s->at, bump_alloc, bump_free,
							 &s->free };
	cr_assert_eq(percpu_counter_tree_init_many_lazy(s->c, 4, 32, &shape), 0);
}

/* Two mappings of the same memory, as two processes have it: activated in one, used in both. */
Test(tree_lazy, works_at_any_address)
{
	struct percpu_counter_tree *here, *there;
	struct shared s;
	char *other;

	shared_init(&s, 384, PERCPU_ATOMIC);
	other = mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	cr_assert(other != MAP_FAILED);
	here = &s.c[3];
	there = (void *)(other + ((char *)here - s.at));
	percpu_counter_tree_add(there, 5);
	percpu_counter_tree_add_owner(here, 6);
	cr_assert_eq(percpu_counter_tree_activate_many(s.c, 4, &s.memory), 0);
	cr_assert(percpu_counter_tree_active(there));
	for (unsigned int cpu = 0; cpu < 384; cpu++) {
		add_on(here, cpu, 1000);
		add_on(there, cpu, -300);
	}
	cr_assert_eq(percpu_counter_tree_precise_sum(here), 11 + 384 * 700);
	cr_assert_eq(percpu_counter_tree_precise_sum(there), 11 + 384 * 700);
	cr_assert_eq(percpu_counter_tree_approximate_sum(here),
		     percpu_counter_tree_approximate_sum(there));
	percpu_set_cpu(-1);
}

/* Processes add while another one activates. */
Test(tree_race, processes_and_activation)
{
	enum {
		PROCESSES = 4,
		ADDS = 100000
	};
	struct shared s;

	shared_init(&s, percpu_machine_cpus(), PERCPU_AUTO);
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		cr_assert(pid >= 0);
		if (pid)
			continue;
		for (int k = 0; k < ADDS; k++)
			percpu_counter_tree_add(&s.c[1], k % 7 - 2);
		_exit(0);
	}
	while (!percpu_counter_tree_approximate_sum(&s.c[1]))
		sched_yield();
	cr_assert_eq(percpu_counter_tree_activate_many(s.c, 4, &s.memory), 0);
	for (int i = 0; i < PROCESSES; i++) {
		int status;

		cr_assert(wait(&status) > 0);
		cr_assert_eq(status, 0);
	}

	long sum = 0;

	for (int k = 0; k < ADDS; k++)
		sum += PROCESSES * (k % 7 - 2);
	cr_assert_eq(percpu_counter_tree_precise_sum(&s.c[1]), sum);
	cr_assert(labs(error_of(&s.c[1])) <= range_of(&s.c[1]));
}

/* --- races --- */

struct adders {
	struct percpu_counter_tree *c;
	unsigned long adds; /* of each thread, on each of two counters */
	unsigned int started;
	int first_cpu; /* -1: the real ones */
};

static void *adder(void *arg)
{
	struct adders *a = arg;
	unsigned int nr = __atomic_fetch_add(&a->started, 1, __ATOMIC_SEQ_CST);

	for (unsigned long i = 0; i < a->adds; i++) {
		if (a->first_cpu >= 0 && i % 64 == 0)
			percpu_set_cpu((nr * 131 + i / 64) % 384);
		percpu_counter_tree_add(&a->c[0], 1);
		percpu_counter_tree_add(&a->c[3], nr % 2 ? 3 : -2);
	}
	return NULL;
}

/* The owner adds and then activates, the others add all the time. Did they meet? */
static bool race(struct percpu_counter_tree_memory *memory, unsigned long adds, int first_cpu)
{
	struct percpu_counter_tree_shape shape = shape_of(memory->area->nr_cpus, NULL);
	struct percpu_counter_tree c[4];
	struct adders a = { c, adds, 0, first_cpu };
	pthread_t thread[4];
	long owned = 0, single;

	cr_assert_eq(percpu_counter_tree_init_many_lazy(c, 4, 32, &shape), 0);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, adder, &a), 0);
	while (__atomic_load_n(&a.started, __ATOMIC_SEQ_CST) < 2)
		;
	for (unsigned long i = 0; i < adds / 2; i++, owned++)
		percpu_counter_tree_add_owner(&c[0], 1);
	cr_assert_eq(percpu_counter_tree_activate_many(c, 4, memory), 0);
	for (unsigned long i = 0; i < adds / 2; i++, owned++)
		percpu_counter_tree_add_owner(&c[0], 1);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	cr_assert_eq(percpu_counter_tree_precise_sum(&c[0]), (long)(4 * adds) + owned);
	cr_assert_eq(percpu_counter_tree_precise_sum(&c[3]), (long)(2 * adds));
	cr_assert(labs(error_of(&c[0])) <= range_of(&c[0]));
	cr_assert(labs(error_of(&c[3])) <= range_of(&c[3]));
	single = atomic64_read(&c[0].atomic_bias);
	percpu_counter_tree_destroy_many(c, 4, memory);
	return single > 0 && single < (long)(4 * adds);
}

/* TREE_ADDS: additions that race with activations, altogether. */
static void races(struct percpu_counter_tree_memory *memory, int first_cpu)
{
	unsigned long total = from_environment("TREE_ADDS", 400000), done = 0;
	int rounds = 0, met = 0;

	/* About half of the rounds meet; on a busy machine it may take more of them. */
	while (done < total || (!met && rounds < 5000)) {
		unsigned long adds = 500 + rnd(2000);

		met += race(memory, adds, first_cpu);
		rounds++;
		done += 9 * adds;
	}
	cr_assert(met > 0, "in none of %d rounds additions and activation met", rounds);
	memory_done(memory);
}

Test(tree_race, adds_and_activation_on_emulated_cpus)
{
	struct percpu_counter_tree_memory memory = memory_for(384, PERCPU_ATOMIC);

	seed = 6;
	races(&memory, 0);
}

Test(tree_race, adds_and_activation_on_real_cpus)
{
	struct percpu_counter_tree_memory memory = memory_for(percpu_machine_cpus(), PERCPU_AUTO);

	seed = 7;
	races(&memory, -1);
}

/* --- simulations --- */

/* The published table (RFC v23 07/10, "Memory Use"), and ours of ucounts records. */
static const char memory_text[] = "nr_cpus,fan_out,one_thread,threads,upstream\n"
				  "2,2,192,264,192\n"
				  "16,16,192,320,416\n"
				  "64,\"16,4\",192,768,1184\n"
				  "384,\"8,8,8\",192,6400,6304\n"
				  "1024,\"8,8,16\",192,13568,16544\n"
				  "\n"
				  "nr_cpus,shared,percpu_counter\n"
				  "2,32,192\n"
				  "16,32,416\n"
				  "64,32,1184\n"
				  "384,32,6304\n"
				  "1024,32,16544\n";

Test(tree_sim, memory_is_the_published_table)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_not_null(out);
	cr_assert_eq(sim_memory(out), 0);
	fclose(out);
	cr_assert_str_eq(text, memory_text);
	free(text);
}

Test(tree_sim, memory_of_other_machines)
{
	struct sim_mm_bytes b;

	cr_assert_eq(sim_mm_bytes(&b, 0), -EINVAL);
	cr_assert_eq(sim_mm_bytes(&b, 1025), -EINVAL);
	cr_assert_eq(sim_mm_bytes(&b, 1), 0);
	cr_assert_eq(b.one_thread, 192);
	cr_assert_eq(b.threads, 192);
	cr_assert_eq(sim_mm_bytes(&b, 192), 0);
	cr_assert_eq(b.threads, 192 + 4 * 192 + 64 * 17);
}

/* kernel/rss.md 8: the ranges of our workload over seeds, and what is never passed. */
Test(tree_sim, drift_is_in_its_ranges)
{
	struct sim_drift_options o = { .step = 16, .pages = 65536, .steps = 400000 };
	struct sim_drift d, again;

	o.shape = shape_of(384, NULL);
	for (o.seed = 1; o.seed <= 4; o.seed++) {
		cr_assert_eq(sim_drift(&o, &d), 0);
		cr_assert(d.upstream.max >= 820 * 256 && d.upstream.max <= 870 * 256, "%ld",
			  (long)d.upstream.max);
		cr_assert(d.tree.max >= 90 * 256 && d.tree.max <= 100 * 256, "%ld",
			  (long)d.tree.max);
		cr_assert_eq(d.lazy.max, 0);
		cr_assert_eq(d.upstream.bound, 384 * 767);
		cr_assert_eq(d.tree.bound, 40576);
		cr_assert_eq(sim_drift(&o, &again), 0);
		cr_assert_eq(memcmp(&d, &again, sizeof(d)), 0);
	}
}

Test(tree_sim, drift_of_odd_machines_stays_within_bounds)
{
	seed = 8;
	for (int i = 0; i < 40; i++) {
		unsigned int cpus = cpu_counts[rnd(sizeof(cpu_counts) / sizeof(*cpu_counts))];
		struct sim_drift_options o = {
			.shape = shape_of(cpus, NULL),
			.step = 1 + rnd(700),
			.pages = 1 + rnd(100000),
			.steps = 20000,
			.seed = i,
		};
		struct sim_drift d;

		cr_assert_eq(sim_drift(&o, &d), 0);
		cr_assert(d.upstream.max <= d.upstream.bound);
		cr_assert(d.tree.max <= d.tree.bound);
		cr_assert_eq(d.lazy.max, 0);
	}
}
