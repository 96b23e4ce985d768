/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User namespaces: chains of records, creation, maps, ids. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/unit/one_task.h"

#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#define NPROC    UCOUNT_RLIMIT_NPROC
#define MSGQUEUE UCOUNT_RLIMIT_MSGQUEUE
#define MEMLOCK  UCOUNT_RLIMIT_MEMLOCK

static void setup(void)
{
	make_one_task(NPROC, RLIM_INF);
}

TestSuite(user_namespace, .init = setup, .timeout = 20);

/* A namespace below @parent, made by @uid, that lets @max of everything through. */
static uint32_t below(uint32_t parent, uint32_t uid, uint64_t max)
{
	struct user_namespace *ns = table_alloc(TABLE_USER_NS, task_ref(current));

	ns->parent = parent;
	ns->level = user_ns_level(parent) + 1;
	ns->ucounts = ucounts_index(alloc_ucounts(parent, uid)) + 1;
	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		ns->rlimit_max[i] = max;
	ns->slot = slot_word(SLOT_LIVE, slot_gen(ns->slot), 0);
	return table_index(TABLE_USER_NS, ns);
}

static long inc(struct ucounts *uc, enum rlimit_type type, long v)
{
	long ret;

	ucounts_begin(current, uc, type);
	ret = inc_rlimit_ucounts(uc, type, v);
	ucounts_end(current);
	return ret;
}

static void dec(struct ucounts *uc, enum rlimit_type type, long v)
{
	ucounts_begin(current, uc, type);
	dec_rlimit_ucounts(uc, type, v);
	ucounts_end(current);
}

static long value(struct ucounts *uc, enum rlimit_type type)
{
	return get_rlimit_value(uc, type);
}

Test(user_namespace, charge_touches_every_level)
{
	uint32_t a = below(INIT_USER_NS, 1000, 100), b = below(a, 1001, 100);
	struct ucounts *leaf = alloc_ucounts(b, 7), *mid = alloc_ucounts(a, 1001);
	struct ucounts *top = alloc_ucounts(INIT_USER_NS, 1000);

	cr_assert_eq(inc(leaf, MSGQUEUE, 5), 5);
	cr_assert_eq(inc(mid, MSGQUEUE, 2), 7);
	cr_assert_eq(value(leaf, MSGQUEUE), 5);
	cr_assert_eq(value(mid, MSGQUEUE), 7);
	cr_assert_eq(value(top, MSGQUEUE), 7);
	dec(leaf, MSGQUEUE, 5);
	dec(mid, MSGQUEUE, 2);
	cr_assert_eq(value(leaf, MSGQUEUE) + value(mid, MSGQUEUE) + value(top, MSGQUEUE), 0);
}

Test(user_namespace, ancestor_is_bound_by_the_namespace_below)
{
	uint32_t a = below(INIT_USER_NS, 1000, 4), b = below(a, 1000, 10);
	struct ucounts *leaf = alloc_ucounts(b, 1000);
	struct refusal why = { 0 };

	cr_assert_eq(inc(leaf, MSGQUEUE, 4), 4);
	cr_assert(!is_rlimit_overlimit(leaf, MSGQUEUE, 20, 4, &why), "at the maximum is not over");
	cr_assert_eq(inc(leaf, MSGQUEUE, 1), LONG_MAX);
	cr_assert(is_rlimit_overlimit(leaf, MSGQUEUE, 20, 1, &why));
	cr_assert_eq(why.level, 2);
	cr_assert_eq(why.ns, INIT_USER_NS);
	cr_assert_eq(why.uid, 1000);
	cr_assert_eq(why.limit, 4);
	cr_assert_eq(why.use, 4);
	/* What others charge to the ancestor counts; the task's own limit is the leaf's alone. */
	dec(leaf, MSGQUEUE, 5);
	inc(alloc_ucounts(a, 1000), MSGQUEUE, 3);
	inc(leaf, MSGQUEUE, 1);
	cr_assert(!is_rlimit_overlimit(leaf, MSGQUEUE, 1, 1, &why));
	cr_assert_eq(inc(leaf, MSGQUEUE, 1), LONG_MAX);
}

Test(user_namespace, memlock_maximum_is_compared_as_it_is)
{
	uint32_t a = below(INIT_USER_NS, 1000, 6);
	struct ucounts *leaf = alloc_ucounts(a, 1000);

	cr_assert_eq(inc(leaf, MEMLOCK, 6), 6, "six bytes let six pages through");
	cr_assert_eq(inc(leaf, MEMLOCK, 1), LONG_MAX);
	dec(leaf, MEMLOCK, 7);
}

Test(user_namespace, infinite_limits_bind_nothing)
{
	uint32_t a = below(INIT_USER_NS, 1000, RLIM_INF);
	struct ucounts *leaf = alloc_ucounts(a, 1000);

	cr_assert_eq(inc(leaf, MSGQUEUE, LONG_MAX / 2), LONG_MAX / 2);
	cr_assert(!is_rlimit_overlimit(leaf, MSGQUEUE, RLIM_INF, 1, NULL));
}

Test(user_namespace, covers_and_related_follow_the_chain)
{
	uint32_t a = below(INIT_USER_NS, 1000, 6), b = below(a, 1001, 6);
	struct ucounts *leaf = alloc_ucounts(b, 7), *top = alloc_ucounts(INIT_USER_NS, 1000);
	struct ucounts *other = alloc_ucounts(INIT_USER_NS, 7), *beside = alloc_ucounts(a, 3);

	cr_assert(ucounts_covers(top, ucounts_index(leaf) + 1));
	cr_assert(!ucounts_covers(leaf, ucounts_index(top) + 1));
	cr_assert(!ucounts_covers(other, ucounts_index(leaf) + 1));
	cr_assert(!ucounts_covers(top, 0));
	cr_assert(ucounts_related(ucounts_index(beside) + 1, ucounts_index(leaf) + 1));
	cr_assert(!ucounts_related(ucounts_index(other) + 1, ucounts_index(leaf) + 1));
}

Test(user_namespace, circle_of_a_torn_world_ends)
{
	uint32_t a = below(INIT_USER_NS, 1000, 6);
	struct ucounts *leaf = alloc_ucounts(a, 7);

	user_ns_of(a)->ucounts = ucounts_index(leaf) + 1;
	cr_assert_eq(inc(leaf, MSGQUEUE, 1), 1);
}

/* Everything that @t's record is charged for, at every level. */
Test(user_namespace, derived_and_recovered_at_every_level)
{
	uint32_t a = below(INIT_USER_NS, 1000, 50);
	struct ucounts *leaf = alloc_ucounts(a, 1000), *top = alloc_ucounts(INIT_USER_NS, 1000);
	struct refusal why;
	struct task_struct *t;
	long counter, objects;
	int err;

	t = copy_process(current, 0, &err, &why);
	cr_assert_not_null(t);
	ucounts_begin_move(current, ucounts_of(t->ucounts), leaf, NPROC);
	inc_rlimit_ucounts(leaf, NPROC, 1);
	dec_rlimit_ucounts(ucounts_of(t->ucounts), NPROC, 1);
	t->ucounts = ucounts_index(leaf) + 1;
	ucounts_end(current);
	cr_assert_eq(ucounts_derive(leaf, NPROC), 1);
	cr_assert_eq(ucounts_derive(top, NPROC), 2);
	atomic64_set(&leaf->rlimit[NPROC], 77);
	atomic64_set(&top->rlimit[NPROC], 78);
	cr_assert_eq(ucounts_recover(1ull << 63 | (uint64_t)NPROC << 32 | ucounts_index(leaf)), 0);
	cr_assert_eq(value(leaf, NPROC), 1);
	cr_assert_eq(value(top, NPROC), 2);
	cr_assert_eq(ucounts_check(top, NPROC, &counter, &objects), 0);
	cr_assert_eq(counter, objects);
}
