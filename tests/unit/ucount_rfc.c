/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The posted counter designs: each defect, and the right value from the repaired one beside it. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <criterion/criterion.h>

#include <kpemu/percpu_counter.h>

#include "tests/unit/one_task.h"

#define NPROC      UCOUNT_RLIMIT_NPROC
#define MSGQUEUE   UCOUNT_RLIMIT_MSGQUEUE
#define SIGPENDING UCOUNT_RLIMIT_SIGPENDING
#define MEMLOCK    UCOUNT_RLIMIT_MEMLOCK

TestSuite(ucount_rfc, .timeout = 60);

/* What a test does, in a world with algorithm @alg. */
static void world_with(const char *alg)
{
	setenv("KPEMU_UNIT_UCOUNTS", alg, 1);
	make_one_task(NPROC, RLIM_INF);
}

/* The same test with two algorithms, one world after the other; @posted has the defect. */
static void both(const char *alg, const char *repaired, void (*test)(bool posted))
{
	world_with(alg);
	test(true);
	world_unmap();
	current = NULL;
	world_with(repaired);
	test(false);
}

/* A namespace below @parent, made by uid 1000, that lets @max of everything through. */
static uint32_t below(uint32_t parent, uint64_t max)
{
	struct user_namespace *ns = table_alloc(TABLE_USER_NS, task_ref(current));

	ns->parent = parent;
	ns->level = user_ns_level(parent) + 1;
	ns->ucounts = ucounts_index(alloc_ucounts(parent, 1000)) + 1;
	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		ns->rlimit_max[i] = max;
	ns->slot = slot_word(SLOT_LIVE, slot_gen(ns->slot), 0);
	return table_index(TABLE_USER_NS, ns);
}

static struct refusal why;

static bool charge(struct ucounts *uc, enum rlimit_type type, long v, uint64_t limit, bool keep)
{
	uint32_t record;

	return ucounts_charge(current, uc, type, &record, v, limit, keep, &why);
}

static void uncharge(struct ucounts *uc, enum rlimit_type type, long v)
{
	uint32_t record = ucounts_index(uc) + 1;

	ucounts_uncharge(current, type, &record, v);
}

/* How many of @n charges of one are accepted. */
static int fill(struct ucounts *uc, enum rlimit_type type, int n, uint64_t limit)
{
	int done = 0;

	while (n--)
		done += charge(uc, type, 1, limit, false);
	return done;
}

/* What the counter says; below 0 too. */
static long raw(struct ucounts *uc, enum rlimit_type type)
{
	return ucounts_ops()->read(uc, type);
}

static struct ucounts *top_record(void)
{
	return alloc_ucounts(INIT_USER_NS, 1000);
}

/* --- percpu-rfc --- */

static void infinity_refuses(bool posted)
{
	static const enum rlimit_type types[] = { MSGQUEUE, SIGPENDING, MEMLOCK };

	for (int i = 0; i < 3; i++)
		cr_assert(charge(top_record(), types[i], 1, RLIM_INF, false) == !posted);
	cr_assert(charge(top_record(), NPROC, 1, RLIM_INF, false));
}

Test(ucount_rfc, percpu_1_infinity_refuses_all_but_tasks)
{
	both("percpu-rfc", "percpu", infinity_refuses);
}

static void every_second(bool posted)
{
	struct ucounts *uc = top_record();
	int done = 0;

	cr_assert(charge(uc, MSGQUEUE, 97, 97, false));
	for (int i = 0; i < 2000; i++)
		done += charge(uc, MSGQUEUE, 97, 97, false);
	cr_assert(done == (posted ? 1000 : 0));
	cr_assert(raw(uc, MSGQUEUE) == 97);
	cr_assert(!charge(uc, MSGQUEUE, 97, 97, false));
	cr_assert(raw(uc, MSGQUEUE) == (posted ? 0 : 97));
	cr_assert(why.use == 97 && why.limit == 97 && why.level == 0);
}

Test(ucount_rfc, percpu_2_refused_charge_is_taken_off)
{
	both("percpu-rfc", "percpu", every_second);
}

static void tasks_pass(bool posted)
{
	struct ucounts *leaf = alloc_ucounts(below(INIT_USER_NS, 4), 1000);

	/* The test is a task of the level above. */
	cr_assert(fill(leaf, NPROC, 30, 20) == (posted ? 20 : 3));
	uncharge(leaf, NPROC, raw(leaf, NPROC));
	cr_assert(raw(leaf, NPROC) == 0);
	/* It had 4 at most, lost one with the first that failed, and 20 with those that ended. */
	cr_assert(raw(top_record(), NPROC) == (posted ? -17 : 1));
	cr_assert(get_rlimit_value(top_record(), NPROC) == (posted ? 0 : 1));
}

Test(ucount_rfc, percpu_3_full_level_does_not_stop_tasks)
{
	both("percpu-rfc", "percpu", tasks_pass);
}

static void task_limit_above(bool posted)
{
	struct ucounts *leaf = alloc_ucounts(below(INIT_USER_NS, 60), 1000);

	cr_assert(fill(top_record(), SIGPENDING, 50, 60) == 50);
	cr_assert(charge(leaf, SIGPENDING, 1, 10, false) == !posted);
	if (posted)
		cr_assert(why.level == 1 && why.limit == 10 && why.use == 50);
	cr_assert(raw(leaf, SIGPENDING) == !posted &&
		  raw(top_record(), SIGPENDING) == 50 + !posted);
}

Test(ucount_rfc, percpu_4_limit_of_the_task_binds_its_ancestors)
{
	both("percpu-rfc", "percpu", task_limit_above);
}

static void locked_over_limit(bool posted)
{
	struct ucounts *uc = top_record();

	cr_assert(charge(uc, MEMLOCK, 8, 4, true));
	cr_assert(raw(uc, MEMLOCK) == (posted ? 0 : 8));
	uncharge(uc, MEMLOCK, 8);
	cr_assert(raw(uc, MEMLOCK) == (posted ? -8 : 0));
	cr_assert(get_rlimit_value(uc, MEMLOCK) == 0);
}

Test(ucount_rfc, percpu_5_capability_is_not_charged_but_uncharged)
{
	both("percpu-rfc", "percpu", locked_over_limit);
}

/* Signals over the limit are charged, and a refused one takes back what it added. */
static void signals_are_right(bool posted)
{
	struct ucounts *leaf = alloc_ucounts(below(INIT_USER_NS, 4), 1000);

	(void)posted;
	cr_assert(fill(leaf, SIGPENDING, 9, 20) == 4);
	cr_assert(raw(leaf, SIGPENDING) == 4 && raw(top_record(), SIGPENDING) == 4);
	for (int i = 0; i < 3; i++)
		cr_assert(charge(leaf, SIGPENDING, 1, 2, true));
	cr_assert(raw(leaf, SIGPENDING) == 7 && raw(top_record(), SIGPENDING) == 7);
	uncharge(leaf, SIGPENDING, 7);
	cr_assert(raw(leaf, SIGPENDING) == 0 && raw(top_record(), SIGPENDING) == 0);
}

Test(ucount_rfc, percpu_override_and_unwinding_are_as_upstream)
{
	both("percpu-rfc", "percpu", signals_are_right);
}

/* The counter that is made last is forgotten; none is with the allocation that makes all. */
Test(ucount_rfc, percpu_7_failed_record_loses_a_counter)
{
	struct percpu_counter c[UCOUNT_RLIMIT_COUNTS] = { 0 };
	struct percpu_area *area;
	struct ucounts *uc;
	size_t used;

	world_with("percpu-rfc");
	area = table_slot(TABLE_PERCPU_PAGE, 0);
	for (int nth = 1; nth <= UCOUNT_RLIMIT_COUNTS; nth++) {
		used = percpu_used(area);
		percpu_fail_nth(area, nth);
		cr_assert_null(alloc_ucounts(INIT_USER_NS, 5));
		cr_assert_eq(percpu_used(area) - used, nth > 1 ? sizeof(int32_t) : 0);
		used = percpu_used(area);
		percpu_fail_nth(area, 1);
		cr_assert_eq(percpu_counter_init_many(c, area, 0, UCOUNT_RLIMIT_COUNTS), -ENOMEM);
		cr_assert_eq(percpu_used(area), used);
	}
	/* The record's slot is as good as new. */
	uc = alloc_ucounts(INIT_USER_NS, 5);
	cr_assert_not_null(uc);
	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		cr_assert_eq(raw(uc, i), 0);
	cr_assert(charge(uc, MEMLOCK, 7, 9, false));
	cr_assert_eq(raw(uc, MEMLOCK), 7);
}

/* Each record has memory for as long as there is any, and then there are no more records. */
Test(ucount_rfc, percpu_records_end_with_the_memory)
{
	struct ucounts *uc;
	uint32_t n = 1;

	setenv("KPEMU_UNIT_UCOUNTS", "percpu-rfc", 1);
	unit_world();
	world->nr_cpus = 1024;
	while ((uc = alloc_ucounts(INIT_USER_NS, n)))
		n++;
	cr_assert_gt(n, 400);
	cr_assert_lt(n, 600);
	uc = alloc_ucounts(INIT_USER_NS, n - 1);
	cr_assert_not_null(uc, "those that are there are found");
	cr_assert_eq(raw(uc, NPROC), 0);
}

Test(ucount_rfc, percpu_all_records_have_memory_with_few_cpus)
{
	uint32_t n = 1;

	setenv("KPEMU_UNIT_UCOUNTS", "percpu-rfc", 1);
	unit_world();
	world->nr_cpus = 100;
	while (alloc_ucounts(INIT_USER_NS, n))
		n++;
	cr_assert_eq(n, WORLD_UCOUNTS + 1);
}

/* What the CPUs keep is part of the count and of a comparison. */
Test(ucount_rfc, percpu_counts_are_sums)
{
	struct ucounts *uc;

	world_with("percpu-rfc");
	uc = top_record();
	for (int i = 0; i < 100; i++) {
		percpu_set_cpu(i % 2);
		cr_assert(charge(uc, SIGPENDING, 1, 100000, false));
	}
	cr_assert_eq(raw(uc, SIGPENDING), 100);
	cr_assert(!is_rlimit_overlimit(uc, SIGPENDING, 100, 0, NULL));
	cr_assert(is_rlimit_overlimit(uc, SIGPENDING, 99, 1, &why));
	cr_assert_eq(why.use, 99);
	percpu_set_cpu(0);
	uncharge(uc, SIGPENDING, 100);
	cr_assert_eq(raw(uc, SIGPENDING), 0);
	/* Less than nothing is not above a limit (10). */
	uncharge(uc, SIGPENDING, 5);
	cr_assert_eq(raw(uc, SIGPENDING), -5);
	cr_assert(!is_rlimit_overlimit(uc, SIGPENDING, 3, 0, NULL));
}

/* --- cache-rfc --- */

static void creation_limit(bool posted)
{
	struct ucounts *leaf = alloc_ucounts(below(INIT_USER_NS, 4), 1000);

	cr_assert(fill(leaf, SIGPENDING, 60, 50) == (posted ? 50 : 4));
}

Test(ucount_rfc, cache_1_creation_limit_does_not_bind)
{
	both("cache-rfc", "cache", creation_limit);
}

static void two_levels(bool posted)
{
	uint32_t a = below(INIT_USER_NS, 1000), b = below(a, 1000);
	struct ucounts *leaf = alloc_ucounts(b, 1000), *mid = alloc_ucounts(a, 1000);

	cr_assert(fill(leaf, SIGPENDING, 60, 100) == 60);
	uncharge(leaf, SIGPENDING, 60);
	cr_assert(raw(leaf, SIGPENDING) == 0);
	cr_assert(raw(mid, SIGPENDING) == (posted ? -32 : 0));
	cr_assert(raw(top_record(), SIGPENDING) == (posted ? 64 : 0));
}

Test(ucount_rfc, cache_2_first_level_pays_for_all)
{
	both("cache-rfc", "cache", two_levels);
}

static void refused_stock(bool posted)
{
	uint32_t a = below(INIT_USER_NS, 4), b = below(a, 1000);
	struct ucounts *leaf = alloc_ucounts(b, 1000), *mid = alloc_ucounts(a, 1000);

	cr_assert(charge(leaf, SIGPENDING, 1, 100, false));
	cr_assert(raw(mid, SIGPENDING) == (posted ? 17 : 1));
	cr_assert(raw(leaf, SIGPENDING) == 1 && raw(top_record(), SIGPENDING) == 1);
}

Test(ucount_rfc, cache_3_level_that_refuses_a_stock_keeps_it)
{
	both("cache-rfc", "cache", refused_stock);
}

/* Over the limit of the leaf, so that every level is charged, and at that of the namespace. */
static void refused_unit(bool posted)
{
	struct ucounts *leaf = alloc_ucounts(below(INIT_USER_NS, 4), 1000);

	cr_assert(fill(top_record(), SIGPENDING, 4, 100) == 4);
	cr_assert(!charge(leaf, SIGPENDING, 1, 0, false));
	cr_assert(raw(top_record(), SIGPENDING) == (posted ? 5 : 4));
	cr_assert(raw(leaf, SIGPENDING) == (posted ? 1 : 0));
}

Test(ucount_rfc, cache_3_level_that_refuses_a_signal_keeps_it)
{
	both("cache-rfc", "cache", refused_unit);
}

static void over_limit(bool posted)
{
	struct ucounts *leaf = alloc_ucounts(below(INIT_USER_NS, 100), 1000);

	cr_assert(fill(leaf, SIGPENDING, 8, 3) == 3);
	cr_assert(raw(leaf, SIGPENDING) == (posted ? 8 : 3));
	/* One that is charged in any case counts twice. */
	cr_assert(charge(leaf, SIGPENDING, 1, 3, true));
	cr_assert(raw(leaf, SIGPENDING) == (posted ? 10 : 4));
}

Test(ucount_rfc, cache_4_refused_signals_stay_in_the_leaf)
{
	both("cache-rfc", "cache", over_limit);
}

static void infinity_counts_twice(bool posted)
{
	struct ucounts *leaf = alloc_ucounts(below(INIT_USER_NS, 100), 1000);

	cr_assert(fill(leaf, SIGPENDING, 3, RLIM_INF) == 3);
	cr_assert(raw(leaf, SIGPENDING) == (posted ? 6 : 3));
	inc_rlimit_ucounts(leaf, SIGPENDING, 1);
	cr_assert(raw(leaf, SIGPENDING) == (posted ? 7 : 4));
}

Test(ucount_rfc, cache_5_infinity_counts_twice)
{
	both("cache-rfc", "cache", infinity_counts_twice);
}

static void stock_is_seen_above(bool posted)
{
	uint32_t n = below(INIT_USER_NS, 100);
	struct ucounts *leaf = alloc_ucounts(n, 1000), *top = top_record();

	cr_assert(charge(leaf, SIGPENDING, 1, 100, false));
	cr_assert(raw(leaf, SIGPENDING) == 1);
	cr_assert(raw(top, SIGPENDING) == (posted ? 16 : 1));
	uncharge(leaf, SIGPENDING, 1);
	cr_assert(raw(leaf, SIGPENDING) == 0);
	cr_assert(raw(top, SIGPENDING) == (posted ? 16 : 0));
	/* Who needs the room gets it. */
	cr_assert(fill(top, SIGPENDING, 30, 20) == 20);
	cr_assert(raw(top, SIGPENDING) == 20);
	cr_assert(user_ns_of(n)->stock == 0 || !posted);
}

Test(ucount_rfc, cache_stock_is_seen_above_and_drained)
{
	both("cache-rfc", "cache", stock_is_seen_above);
}

Test(ucount_rfc, cache_stock_goes_with_its_namespace)
{
	struct ucounts *leaf, *top;
	uint32_t n;

	world_with("cache-rfc");
	n = below(INIT_USER_NS, 100);
	leaf = alloc_ucounts(n, 1000);
	top = top_record();
	cr_assert(charge(leaf, SIGPENDING, 1, 100, false));
	uncharge(leaf, SIGPENDING, 1);
	cr_assert_eq(raw(top, SIGPENDING), 16);
	ns_lock(current);
	cr_assert_eq(ns_reap(), 1);
	ns_unlock();
	cr_assert_eq(raw(top, SIGPENDING), 0);
	cr_assert_eq(user_ns_of(n)->stock, 0);
}

/* Other limits know nothing of stocks. */
static void others_are_words(bool posted)
{
	struct ucounts *leaf = alloc_ucounts(below(INIT_USER_NS, 5), 1000);

	(void)posted;
	cr_assert(fill(leaf, NPROC, 9, 20) == 4);
	cr_assert(fill(leaf, MSGQUEUE, 9, 20) == 5);
	cr_assert(fill(leaf, MEMLOCK, 9, 3) == 3);
	cr_assert(raw(top_record(), NPROC) == 5 && raw(top_record(), MSGQUEUE) == 5 &&
		  raw(top_record(), MEMLOCK) == 3);
}

Test(ucount_rfc, cache_other_limits_are_exact)
{
	both("cache-rfc", "cache", others_are_words);
}

/* --- both --- */

/* After a death the counter is what the objects say, and what the stock has. */
static void recovered(const char *alg, long stock)
{
	struct ucounts *leaf, *top;
	long counter, objects;

	world_with(alg);
	leaf = alloc_ucounts(below(INIT_USER_NS, 100), 1000);
	top = top_record();
	cr_assert(charge(leaf, SIGPENDING, 1, 100, false)); /* of no object */
	cr_assert_eq(ucounts_recover(1ull << 63 | (uint64_t)SIGPENDING << 32 | ucounts_index(leaf)),
		     0);
	cr_assert_eq(raw(leaf, SIGPENDING), 0);
	cr_assert_eq(raw(top, SIGPENDING), stock);
	cr_assert_eq(ucounts_check(top, SIGPENDING, &counter, &objects), 0);
	cr_assert_eq(counter - objects, stock);
}

Test(ucount_rfc, percpu_is_recovered)
{
	recovered("percpu-rfc", 0);
}

Test(ucount_rfc, cache_is_recovered)
{
	recovered("cache-rfc", 15);
}

Test(ucount_rfc, only_the_posted_ones_drift)
{
	for (int i = 0; i < NR_UCOUNTS_ALGS; i++)
		cr_assert_eq(ucounts_ops_of(i)->drifts, i >= UCOUNTS_PERCPU_RFC);
	cr_assert_eq(ucounts_alg_of("percpu-rfc"), UCOUNTS_PERCPU_RFC);
	cr_assert_eq(ucounts_alg_of("cache-rfc"), UCOUNTS_CACHE_RFC);
}
