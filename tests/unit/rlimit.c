/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits: their names, reading and setting them, and who may. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include <kpemu/sched.h>

#include "tests/unit/unit_world.h"

#define TYPE   UCOUNT_RLIMIT_SIGPENDING
#define CAP(n) (1ull << CAP_##n)

static void setup(void)
{
	unit_world();
}

TestSuite(rlimit, .init = setup, .timeout = 60);

/* A task that only exists on paper; the soft and hard limits of each type are different. */
static struct task_struct *task(uint32_t uid, uint32_t gid)
{
	struct task_struct *t = table_alloc(TABLE_TASK, 0);

	cr_assert_not_null(t);
	t->group_leader = task_ref(t);
	cred_init(&t->cred, uid, gid);
	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		t->rlim[i] = (struct rlim){ 10 + i, 20 + i };
	return t;
}

static struct task_struct *thread_of(struct task_struct *leader)
{
	struct task_struct *t = task(leader->cred.uid, leader->cred.gid);

	t->group_leader = task_ref(leader);
	return t;
}

#define assert_rlim(r, soft, hard)                       \
	do {                                             \
		cr_assert_eq((r).cur, (uint64_t)(soft)); \
		cr_assert_eq((r).max, (uint64_t)(hard)); \
	} while (0)

static long set(struct task_struct *t, uint64_t soft, uint64_t hard)
{
	struct rlim new = { soft, hard };

	return do_prlimit(t, t, TYPE, &new, NULL);
}

Test(rlimit, name_of_each_type)
{
	cr_assert_str_eq(rlimit_name(UCOUNT_RLIMIT_NPROC), "nproc");
	cr_assert_str_eq(rlimit_name(UCOUNT_RLIMIT_MSGQUEUE), "msgqueue");
	cr_assert_str_eq(rlimit_name(UCOUNT_RLIMIT_SIGPENDING), "sigpending");
	cr_assert_str_eq(rlimit_name(UCOUNT_RLIMIT_MEMLOCK), "memlock");
	cr_assert_not_null(rlimit_name(UCOUNT_RLIMIT_COUNTS), "never a null pointer");
	cr_assert_not_null(rlimit_name(-1));
}

Test(rlimit, type_of_the_four_and_no_other)
{
	cr_assert_eq(rlimit_type_of(RLIMIT_NPROC), UCOUNT_RLIMIT_NPROC);
	cr_assert_eq(rlimit_type_of(RLIMIT_MSGQUEUE), UCOUNT_RLIMIT_MSGQUEUE);
	cr_assert_eq(rlimit_type_of(RLIMIT_SIGPENDING), UCOUNT_RLIMIT_SIGPENDING);
	cr_assert_eq(rlimit_type_of(RLIMIT_MEMLOCK), UCOUNT_RLIMIT_MEMLOCK);
	for (unsigned int r = 0; r < 20; r++)
		if (r != RLIMIT_NPROC && r != RLIMIT_MSGQUEUE && r != RLIMIT_SIGPENDING &&
		    r != RLIMIT_MEMLOCK)
			cr_assert_eq(rlimit_type_of(r), -1, "%u", r);
	cr_assert_eq(rlimit_type_of(UINT32_MAX), -1);
}

Test(rlimit, get_reads_the_type_asked_for)
{
	struct task_struct *t = task(1000, 1000);
	struct rlim old;

	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++) {
		cr_assert_eq(do_prlimit(t, t, i, NULL, &old), 0);
		assert_rlim(old, 10 + i, 20 + i);
		cr_assert_eq(rlimit(t, i), 10u + i);
	}
	cr_assert_eq(do_prlimit(t, t, TYPE, NULL, NULL), 0);
}

Test(rlimit, set_returns_what_it_replaced)
{
	struct task_struct *t = task(1000, 1000);
	struct rlim new = { 5, 6 }, old;

	cr_assert_eq(do_prlimit(t, t, TYPE, &new, &old), 0);
	assert_rlim(old, 12, 22);
	assert_rlim(t->rlim[TYPE], 5, 6);
	assert_rlim(new, 5, 6);
	assert_rlim(t->rlim[UCOUNT_RLIMIT_NPROC], 10, 20);
	assert_rlim(t->rlim[UCOUNT_RLIMIT_MSGQUEUE], 11, 21);
	assert_rlim(t->rlim[UCOUNT_RLIMIT_MEMLOCK], 13, 23);
}

Test(rlimit, soft_moves_freely_up_to_hard)
{
	struct task_struct *t = task(1000, 1000);

	cr_assert_eq(set(t, 0, 22), 0);
	assert_rlim(t->rlim[TYPE], 0, 22);
	cr_assert_eq(set(t, 22, 22), 0);
	assert_rlim(t->rlim[TYPE], 22, 22);
	cr_assert_eq(set(t, 22, 22), 0);
}

Test(rlimit, soft_above_hard_is_invalid)
{
	struct task_struct *t = task(0, 0);
	struct rlim new = { 7, 6 }, old = { 1, 2 };

	cr_assert_eq(do_prlimit(t, t, TYPE, &new, &old), -EINVAL);
	assert_rlim(t->rlim[TYPE], 12, 22);
	assert_rlim(old, 1, 2);
	cr_assert_eq(set(t, RLIM_INF, RLIM_INF - 1), -EINVAL);
	/* Also where raising the hard limit would be refused: this comes first. */
	t->cred.cap_effective = 0;
	cr_assert_eq(set(t, 101, 100), -EINVAL);
}

Test(rlimit, raising_hard_needs_the_capability)
{
	struct task_struct *t = task(1000, 1000);
	struct rlim new = { 5, 23 }, old = { 1, 2 };

	cr_assert_eq(do_prlimit(t, t, TYPE, &new, &old), -EPERM);
	assert_rlim(t->rlim[TYPE], 12, 22);
	assert_rlim(old, 1, 2);
	cr_assert_eq(set(t, 5, RLIM_INF), -EPERM);
	t->cred.cap_effective = CAP_FULL_SET & ~CAP(SYS_RESOURCE);
	cr_assert_eq(set(t, 5, 23), -EPERM);
	t->cred.cap_effective = CAP(SYS_RESOURCE);
	cr_assert_eq(set(t, 23, 23), 0);
	assert_rlim(t->rlim[TYPE], 23, 23);
	cr_assert_eq(set(t, RLIM_INF, RLIM_INF), 0);
	assert_rlim(t->rlim[TYPE], RLIM_INF, RLIM_INF);
}

Test(rlimit, raising_hard_needs_it_in_the_initial_namespace)
{
	struct task_struct *t = task(0, 0);

	t->cred.user_ns = 1;
	cr_assert_eq(set(t, 5, 23), -EPERM);
	cr_assert_eq(set(t, 5, 22), 0);
}

Test(rlimit, raising_hard_is_by_the_callers_capability)
{
	struct task_struct *root = task(0, 0), *user = task(1000, 1000);
	struct rlim new = { 30, 40 };

	cr_assert_eq(do_prlimit(user, root, TYPE, &new, NULL), -EPERM);
	assert_rlim(root->rlim[TYPE], 12, 22);
	cr_assert_eq(do_prlimit(root, user, TYPE, &new, NULL), 0);
	assert_rlim(user->rlim[TYPE], 30, 40);
	assert_rlim(root->rlim[TYPE], 12, 22);
}

Test(rlimit, lowered_hard_stays_lowered)
{
	struct task_struct *t = task(1000, 1000);

	cr_assert_eq(set(t, 3, 5), 0);
	cr_assert_eq(set(t, 3, 6), -EPERM);
	cr_assert_eq(set(t, 5, 5), 0);
	cr_assert_eq(set(t, 0, 0), 0);
	assert_rlim(t->rlim[TYPE], 0, 0);
}

Test(rlimit, threads_share_the_leaders)
{
	struct task_struct *leader = task(1000, 1000), *t = thread_of(leader);
	struct rlim old;

	t->rlim[TYPE] = (struct rlim){ 77, 77 };
	cr_assert_eq(set(t, 1, 2), 0);
	assert_rlim(leader->rlim[TYPE], 1, 2);
	assert_rlim(t->rlim[TYPE], 77, 77);
	cr_assert_eq(do_prlimit(leader, t, TYPE, NULL, &old), 0);
	assert_rlim(old, 1, 2);
	cr_assert_eq(rlimit(t, TYPE), 1);
}

Test(rlimit, permission_for_oneself_is_never_asked)
{
	struct task_struct *t = task(1, 1);

	t->cred.euid = 2;
	t->cred.suid = 3;
	t->cred.sgid = 4;
	cr_assert_eq(check_prlimit_permission(t, t), 0);
}

Test(rlimit, permission_by_the_callers_real_ids)
{
	struct task_struct *me = task(1, 2), *it = task(1, 2);

	cr_assert_eq(check_prlimit_permission(me, it), 0);
	/* The caller's other ids do not matter, the target's file-system ids neither. */
	me->cred.euid = me->cred.suid = me->cred.fsuid = 8;
	me->cred.egid = me->cred.sgid = me->cred.fsgid = 9;
	it->cred.fsuid = it->cred.fsgid = 7;
	cr_assert_eq(check_prlimit_permission(me, it), 0);
	cr_assert_eq(check_prlimit_permission(it, me), -EPERM);
}

Test(rlimit, permission_needs_every_id_of_the_target)
{
	struct task_struct *me = task(1, 2), *it = task(1, 2);
	uint32_t *const ids[] = { &it->cred.uid, &it->cred.euid, &it->cred.suid,
				  &it->cred.gid, &it->cred.egid, &it->cred.sgid };

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		uint32_t was = *ids[i];

		*ids[i] = 3;
		cr_assert_eq(check_prlimit_permission(me, it), -EPERM, "id %zu", i);
		*ids[i] = was;
		cr_assert_eq(check_prlimit_permission(me, it), 0, "id %zu", i);
	}
}

Test(rlimit, permission_by_capability)
{
	struct task_struct *me = task(1000, 1000), *it = task(0, 0);

	cr_assert_eq(check_prlimit_permission(me, it), -EPERM);
	me->cred.cap_permitted = CAP_FULL_SET;
	me->cred.cap_effective = CAP_FULL_SET & ~CAP(SYS_RESOURCE);
	cr_assert_eq(check_prlimit_permission(me, it), -EPERM);
	me->cred.cap_effective = CAP(SYS_RESOURCE);
	cr_assert_eq(check_prlimit_permission(me, it), 0);
}

Test(rlimit, permission_by_capability_over_the_targets_namespace)
{
	struct task_struct *me = task(0, 0), *it = task(1000, 1000);
	struct user_namespace *ns = table_alloc(TABLE_USER_NS, 0);

	cr_assert_not_null(ns);
	cr_assert_eq(table_index(TABLE_USER_NS, ns), 1);
	ns->level = 1;
	it->cred.user_ns = 1;
	cr_assert_eq(check_prlimit_permission(me, it), 0, "from above");
	me->cred.user_ns = 1;
	cr_assert_eq(check_prlimit_permission(me, it), 0, "from inside");
	it->cred.user_ns = INIT_USER_NS;
	cr_assert_eq(check_prlimit_permission(me, it), -EPERM, "from below");
}

Test(rlimit, permission_for_a_fellow_thread_is_asked)
{
	struct task_struct *leader = task(1, 1), *t = thread_of(leader);

	cr_assert_eq(check_prlimit_permission(t, leader), 0);
	leader->cred.suid = 2;
	cr_assert_eq(check_prlimit_permission(t, leader), -EPERM);
}

#define READS 3000000

static const struct rlim first = { 1, 2 }, second = { 100, 200 };
static uint32_t done;

/* Assertions are the test thread's; the other one only changes things. */
static void *set_alternately(void *task)
{
	for (int i = 0; !READ_ONCE(done); i++)
		do_prlimit(task, task, TYPE, i & 1 ? &first : &second, NULL);
	return NULL;
}

Test(rlimit, racing_reader_sees_no_soft_above_hard)
{
	struct task_struct *t = task(0, 0);
	pthread_t thread;
	struct rlim now;

	cr_assert_eq(pthread_create(&thread, NULL, set_alternately, t), 0);
	for (int i = 0; i < READS; i++) {
		cr_assert_eq(do_prlimit(t, t, TYPE, NULL, &now), 0);
		cr_assert_leq(now.cur, now.max);
	}
	WRITE_ONCE(done, 1);
	pthread_join(thread, NULL);
}
