/* SPDX-License-Identifier: GPL-2.0-or-later */
/* percpu_counter_tree: carries, sums and their bounds, and lazy activation. */
#include <kpemu/percpu_counter_tree.h>

#include "emu/sim/explore/explore.h"
#include "emu/sim/explore/tests/amounts.h"

#define BATCH 2

/* The smallest tree with nodes below the root. CPUs 0 and 2 share one, as do 1 and 3. */
#define TREE_CPUS 4
static const uint8_t place[EXPLORE_CPUS_MAX] = { 0, 2, 1, 3 };

static long added[EXPLORE_CPUS_MAX] EXPLORE_STATE; /* each by its own CPU */
static struct {
	struct percpu_counter_tree counter[2];
	struct percpu_area *area;
} s EXPLORE_STATE;

static const struct percpu_counter_tree_memory *memory(void)
{
	return explore_tree_memory(s.area);
}

static void make_lazy_with(unsigned int batch)
{
	struct percpu_counter_tree_shape shape;

	s.area = explore_area(TREE_CPUS, PERCPU_RSEQ);
	for (unsigned int thread = 0; thread < explore_cpus(); thread++)
		explore_place(thread, place[thread]);
	if (percpu_counter_tree_shape_parse(&shape, TREE_CPUS, "2,2") ||
	    percpu_counter_tree_init_many_lazy(s.counter, 2, batch, &shape))
		explore_fail("no counters");
}

static void make_lazy(void)
{
	make_lazy_with(BATCH);
}

/* Nothing is carried, so nothing is on its way when somebody sums. */
static void make_lazy_wide(void)
{
	make_lazy_with(PERCPU_COUNTER_TREE_BATCH_MAX);
}

static void make_tree(void)
{
	make_lazy();
	if (percpu_counter_tree_activate_many(s.counter, 2, memory()))
		explore_fail("no tree");
}

static void add(unsigned int cpu, long v)
{
	percpu_counter_tree_add(s.counter, v);
	added[cpu] += v;
}

static void add_owner(unsigned int cpu, long v)
{
	percpu_counter_tree_add_owner(s.counter, v);
	added[cpu] += v;
}

static long all_added(void)
{
	long all = 0;

	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		all += added[cpu];
	return all;
}

static void exact_at_the_end(void)
{
	unsigned long under = 0, over = 0;
	long sum = percpu_counter_tree_precise_sum(s.counter), rough;

	explore_equal(sum, all_added());
	rough = percpu_counter_tree_approximate_sum(s.counter);
	percpu_counter_tree_approximate_accuracy_range(s.counter, &under, &over);
	explore_check(rough - sum <= (long)over && sum - rough <= (long)under);
	explore_equal(percpu_counter_tree_precise_sum(&s.counter[1]), 0);
	percpu_counter_tree_destroy_many(s.counter, 2, memory());
	explore_equal(percpu_used(s.area), 0);
}

/* --- with a tree from the start --- */

static void tree_add(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++)
		add(cpu, 1);
}

EXPLORE_TEST(tree_adds) = {
	.name = "tree-add",
	.about = "percpu_counter_tree: additions that carry into shared nodes, none is lost",
	.cpus_min = 2,
	.cpus_max = 4,
	.setup = make_tree,
	.thread = tree_add,
	.check = exact_at_the_end,
};

/* Up and down again: carries of both signs meet in the nodes. */
static void tree_add_sub(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++)
		add(cpu, (cpu + i) % 2 ? -3 : 3);
}

EXPLORE_TEST(tree_adds_and_subs) = {
	.name = "tree-add-sub",
	.about = "percpu_counter_tree: carries of both signs in the same nodes",
	.cpus_min = 2,
	.cpus_max = 4,
	.setup = make_tree,
	.thread = tree_add_sub,
	.check = exact_at_the_end,
};

/* An addition, said to those who sum meanwhile. */
static void add_openly(unsigned int cpu, long v)
{
	amount_begin(cpu, v);
	add(cpu, v);
	amount_end(cpu, v);
}

static void tree_add_openly(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++)
		add_openly(cpu, 1);
}

#define CARRY_MAX (2 * BATCH) /* of an addition of 1: what a node passes on */

/* A carry that is on its way is in no part of the tree. */
static void within_bounds(void)
{
	unsigned long under = 0, over = 0;
	long rough = percpu_counter_tree_approximate_sum(s.counter);
	long adding = amounts_begun() - amounts_ended();

	percpu_counter_tree_approximate_accuracy_range(s.counter, &under, &over);
	explore_check(rough <= amounts_begun() + (long)over);
	explore_check(rough >= amounts_ended() - (long)under - adding * CARRY_MAX);
}

EXPLORE_TEST(tree_bounds) = {
	.name = "tree-bounds",
	.about = "percpu_counter_tree: the approximate sum keeps its bound at each step",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = make_tree,
	.thread = tree_add_openly,
	.check = exact_at_the_end,
	.step = within_bounds,
};

/* A precise sum may miss, or see twice, what moves meanwhile. */
static void tree_sum(unsigned int cpu)
{
	long sum, before, moved;

	if (cpu) {
		tree_add_openly(cpu);
		return;
	}
	before = amounts_ended();
	sum = percpu_counter_tree_precise_sum(s.counter);
	moved = (amounts_begun() - before) * CARRY_MAX;
	explore_check(sum >= before - moved && sum <= before + moved);
}

EXPLORE_TEST(tree_sums) = {
	.name = "tree-sum",
	.about = "percpu_counter_tree: a precise sum is off by no more than what moves meanwhile",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = make_tree,
	.thread = tree_sum,
	.check = exact_at_the_end,
};

/* --- lazy activation --- */

/* CPU 0 owns the counters; it activates them as its second operation. The others are remote. */
static void activate_thread(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++) {
		if (cpu)
			add(cpu, 1);
		else if (i == 1)
			explore_check(!percpu_counter_tree_activate_many(s.counter, 2, memory()));
		else
			add_owner(cpu, 1);
	}
}

EXPLORE_TEST(lazy_activation) = {
	.name = "lazy-activation",
	.about = "the owner adds and activates while others add: no update is lost",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = make_lazy,
	.thread = activate_thread,
	.check = exact_at_the_end,
};

/* Somebody else activates while the owner adds and another adds from outside. */
static void activate_remote_thread(unsigned int cpu)
{
	if (cpu == 1) {
		explore_check(!percpu_counter_tree_activate_many(s.counter, 2, memory()));
		return;
	}
	for (unsigned int i = 0; i < explore_ops(); i++)
		cpu ? add(cpu, 1) : add_owner(cpu, 1);
}

EXPLORE_TEST(lazy_activation_remote) = {
	.name = "lazy-activation-remote",
	.about = "another CPU activates while the owner and others add: no update is lost",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = make_lazy,
	.thread = activate_remote_thread,
	.check = exact_at_the_end,
};

/* CPU 1 sums while CPU 0 adds and activates: nothing is moved, so no sum is too low. */
static void activate_sum_thread(unsigned int cpu)
{
	long sum, before;

	for (unsigned int i = 0; i < explore_ops(); i++) {
		if (cpu == 1) {
			before = amounts_ended();
			sum = percpu_counter_tree_precise_sum(s.counter);
			explore_check(sum >= before && sum <= amounts_begun());
		} else if (!cpu && i == 1) {
			explore_check(!percpu_counter_tree_activate_many(s.counter, 2, memory()));
		} else {
			amount_begin(cpu, 1);
			cpu ? add(cpu, 1) : add_owner(cpu, 1);
			amount_end(cpu, 1);
		}
	}
}

EXPLORE_TEST(lazy_activation_sum) = {
	.name = "lazy-activation-sum",
	.about = "sums during the activation: between what has ended and what has begun",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = make_lazy_wide,
	.thread = activate_sum_thread,
	.check = exact_at_the_end,
};
