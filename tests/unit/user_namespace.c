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

static struct refusal refused;

/* Under a limit of the task's own. */
static bool charge(struct ucounts *uc, enum rlimit_type type, long v, uint64_t limit)
{
	bool done;

	ucounts_begin(current, uc, type);
	done = charge_rlimit_ucounts(uc, type, v, limit, false, &refused);
	ucounts_end(current);
	return done;
}

static bool inc(struct ucounts *uc, enum rlimit_type type, long v)
{
	return charge(uc, type, v, RLIM_INF);
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

	cr_assert(inc(leaf, MSGQUEUE, 5));
	cr_assert(inc(mid, MSGQUEUE, 2));
	cr_assert_eq(value(leaf, MSGQUEUE), 5);
	cr_assert_eq(value(mid, MSGQUEUE), 7);
	cr_assert_eq(value(top, MSGQUEUE), 7);
	dec(leaf, MSGQUEUE, 5);
	dec(mid, MSGQUEUE, 2);
	cr_assert_eq(value(leaf, MSGQUEUE) + value(mid, MSGQUEUE) + value(top, MSGQUEUE), 0);
}

static void ancestor_is_bound(enum rlimit_type type)
{
	uint32_t a = below(INIT_USER_NS, 77, 4), b = below(a, 77, 10);
	struct ucounts *leaf = alloc_ucounts(b, 77);

	for (int i = 0; i < 4; i++)
		cr_assert(charge(leaf, type, 1, 20));
	cr_assert(!is_rlimit_overlimit(leaf, type, 20, 0, NULL), "at the maximum is not over");
	cr_assert(!charge(leaf, type, 1, 20));
	cr_assert_eq(refused.type, type);
	cr_assert_eq(refused.level, 2);
	cr_assert_eq(refused.ns, INIT_USER_NS);
	cr_assert_eq(refused.uid, 77);
	cr_assert_eq(refused.limit, 4);
	cr_assert_eq(refused.use, 4);
	cr_assert_eq(refused.asked, 1);
	for (struct ucounts *uc = leaf; uc; uc = user_ns_nested_ucounts(uc->ns))
		cr_assert_eq(value(uc, type), 4, "a refused charge changes no level");
	/* What is charged in any case counts. */
	inc_rlimit_ucounts(leaf, type, 1);
	cr_assert(is_rlimit_overlimit(leaf, type, 20, 1, &refused));
	cr_assert_eq(refused.level, 2);
	cr_assert_eq(refused.use, 4);
	/* What others charge to the ancestor counts; the task's own limit is the leaf's alone. */
	dec(leaf, type, 5);
	for (int i = 0; i < 3; i++)
		cr_assert(inc(alloc_ucounts(a, 77), type, 1));
	cr_assert(charge(leaf, type, 1, 1));
	cr_assert(!charge(leaf, type, 1, 1));
	cr_assert_eq(refused.level, 0);
	cr_assert(!charge(leaf, type, 1, 2));
	cr_assert_eq(refused.level, 2);
	dec(leaf, type, 1);
	dec(alloc_ucounts(a, 77), type, 3);
	for (struct ucounts *uc = leaf; uc; uc = user_ns_nested_ucounts(uc->ns))
		cr_assert_eq(value(uc, type), 0);
}

Test(user_namespace, ancestor_is_bound_by_the_namespace_below)
{
	ancestor_is_bound(MSGQUEUE);
}

Test(user_namespace, ancestor_is_bound_for_signals)
{
	ancestor_is_bound(UCOUNT_RLIMIT_SIGPENDING);
}

Test(user_namespace, ancestor_is_bound_for_tasks)
{
	ancestor_is_bound(NPROC);
}

Test(user_namespace, memlock_maximum_is_compared_as_it_is)
{
	uint32_t a = below(INIT_USER_NS, 1000, 6);
	struct ucounts *leaf = alloc_ucounts(a, 1000);

	cr_assert(inc(leaf, MEMLOCK, 6), "six bytes let six pages through");
	cr_assert(!inc(leaf, MEMLOCK, 1));
	dec(leaf, MEMLOCK, 6);
}

Test(user_namespace, infinite_limits_bind_nothing)
{
	uint32_t a = below(INIT_USER_NS, 1000, RLIM_INF);
	struct ucounts *leaf = alloc_ucounts(a, 1000);

	cr_assert(inc(leaf, MSGQUEUE, LONG_MAX / 2));
	cr_assert_eq(value(leaf, MSGQUEUE), LONG_MAX / 2);
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
	cr_assert(inc(leaf, MSGQUEUE, 1));
	cr_assert_eq(value(leaf, MSGQUEUE), 1);
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
	ucounts_ops()->set(leaf, NPROC, 77);
	ucounts_ops()->set(top, NPROC, 78);
	cr_assert_eq(ucounts_recover(1ull << 63 | (uint64_t)NPROC << 32 | ucounts_index(leaf)), 0);
	cr_assert_eq(value(leaf, NPROC), 1);
	cr_assert_eq(value(top, NPROC), 2);
	cr_assert_eq(ucounts_check(top, NPROC, &counter, &objects), 0);
	cr_assert_eq(counter, objects);
}

/* --- creation, ids, maps --- */

static int enter_new(void)
{
	struct ns_change change;
	struct refusal why;
	int err = unshare_begin(current, 0x10000000, false, &change, &why);

	return err ? err : unshare_end(current, &change, true);
}

static long map(enum map_file file, const char *text)
{
	return map_write(current, current->cred.user_ns, file, text, strlen(text), 0);
}

Test(user_namespace, creation_takes_soft_limits_and_gives_capabilities)
{
	struct user_namespace *ns;

	current->rlim[MSGQUEUE].cur = 300;
	cr_assert_eq(enter_new(), 0);
	ns = user_ns_of(current->cred.user_ns);
	cr_assert_eq(ns->level, 1);
	cr_assert_eq(ns->owner, 1000);
	cr_assert_eq(userns_rlimit_max(current->cred.user_ns, MSGQUEUE), 300);
	cr_assert(ns_capable(current, current->cred.user_ns, 21));
	cr_assert(!capable(current, 21));
	cr_assert(!ns_capable(current, INIT_USER_NS, 21));
	cr_assert_eq(counted(alloc_ucounts(INIT_USER_NS, 1000), NPROC), 1);
	cr_assert_eq(counted(alloc_ucounts(current->cred.user_ns, 1000), NPROC), 1);
}

Test(user_namespace, unmapped_creator_is_refused)
{
	cr_assert_eq(enter_new(), 0);
	cr_assert_eq(enter_new(), -EPERM);
}

Test(user_namespace, thirty_three_levels)
{
	for (int i = 0; i < 33; i++) {
		cr_assert_eq(enter_new(), 0);
		cr_assert_gt(map(MAP_SETGROUPS, "deny"), 0);
		cr_assert_gt(map(MAP_UID, i ? "0 0 1" : "0 1000 1"), 0);
		cr_assert_gt(map(MAP_GID, i ? "0 0 1" : "0 1000 1"), 0);
	}
	cr_assert_eq(enter_new(), -ENOSPC);
	cr_assert_eq(counted(alloc_ucounts(INIT_USER_NS, 1000), NPROC), 1);
}

Test(user_namespace, left_ones_are_released_when_room_is_wanted)
{
	struct user_namespace *init = user_ns_of(INIT_USER_NS);
	struct task_struct *t;
	struct refusal why;
	uint32_t first;
	int err;

	init->ucount_max[UCOUNT_USER_NAMESPACES] = 1 + 1;
	t = copy_process(current, 0x10000000, &err, &why);
	cr_assert_not_null(t);
	first = t->cred.user_ns;
	cr_assert_null(copy_process(current, 0x10000000, &err, &why));
	cr_assert_eq(err, -ENOSPC);
	cr_assert_eq(why.type, REFUSAL_UCOUNT(UCOUNT_USER_NAMESPACES));
	release_task(t);
	cr_assert_eq(enter_new(), 0);
	cr_assert_eq(current->cred.user_ns, first, "the slot is used again");
}

Test(user_namespace, charge_keeps_its_namespace)
{
	uint32_t n;

	cr_assert_eq(enter_new(), 0);
	n = current->cred.user_ns;
	inc(alloc_ucounts(n, 1000), MSGQUEUE, 5);
	cr_assert_eq(cred_enter_user_ns(current, INIT_USER_NS), 0);
	ns_lock(current);
	cr_assert_eq(ns_reap(), 0);
	dec(alloc_ucounts(n, 1000), MSGQUEUE, 5);
	cr_assert_eq(ns_reap(), 1);
	ns_unlock();
}

Test(user_namespace, ids_go_both_ways_through_nested_maps)
{
	uint32_t n;

	cr_assert_eq(enter_new(), 0);
	n = current->cred.user_ns;
	cr_assert_eq(from_kuid_munged(n, 1000), OVERFLOW_ID);
	cr_assert_eq(map(MAP_UID, "7 1000 1\n"), 9);
	cr_assert_eq(make_kuid(n, 7), 1000);
	cr_assert_eq(from_kuid(n, 1000), 7);
	cr_assert_eq(make_kuid(n, 8), INVALID_ID);
	cr_assert_eq(sys_setuid(current, 0), -EINVAL);
	cr_assert_eq(sys_setuid(current, 7), 0);
	cr_assert_eq(map(MAP_UID, "7 1000 1\n"), -EPERM, "once");
	cr_assert_eq(map(MAP_GID, "0 1000 1"), -EPERM, "setgroups is not denied");
}

Test(user_namespace, other_kinds_are_charged_in_the_owning_namespace)
{
	struct ns_change change;
	struct refusal why;

	cr_assert_eq(unshare_begin(current, 0x04000000, false, &change, &why), -EPERM);
	cr_assert_eq(enter_new(), 0);
	user_ns_of(current->cred.user_ns)->ucount_max[UCOUNT_UTS_NAMESPACES] = 1 + 1;
	cr_assert_eq(unshare_begin(current, 0x04000000, false, &change, &why), 0);
	cr_assert_eq(unshare_end(current, &change, true), 0);
	cr_assert_eq(unshare_begin(current, 0x04000000, false, &change, &why), -ENOSPC);
	cr_assert_eq(why.level, 0);
}
