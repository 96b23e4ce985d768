/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counter trees: forms, carries, the bounds of their error, lazy counters and their activation. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kpemu/percpu_counter_tree.h>

TestSuite(tree_shape, .timeout = 30);

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
