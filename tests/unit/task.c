/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tasks and the NPROC account: charging, releasing, and what the dead leave behind. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kpemu/mlock.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "tests/unit/one_task.h"

static struct task_struct *me;
static struct ucounts *uc;

/* A world with one task, this process, of uid 1000 and limit @limit. */
static void one_task(void)
{
	me = make_one_task(UCOUNT_RLIMIT_NPROC, 3);
	uc = alloc_ucounts(INIT_USER_NS, 1000);
}

TestSuite(task, .timeout = 60, .init = one_task);

static long nproc(void)
{
	return counted(uc, UCOUNT_RLIMIT_NPROC);
}

static struct task_struct *forked(uint64_t flags)
{
	struct refusal why;
	int err;

	return copy_process(me, flags, &err, &why);
}

Test(task, task_first_is_nproc_1)
{
	cr_assert_eq(nproc(), 1);
	cr_assert_eq(nr_threads(me), 1);
	cr_assert_eq(find_task_by_vpid(getpid()), me);
}

Test(task, copy_process_fills_to_the_limit_and_says_why_not)
{
	struct refusal why;
	int err;

	cr_assert_not_null(forked(SIGCHLD));
	cr_assert_not_null(forked(CLONE_VM | CLONE_THREAD | CLONE_SIGHAND));
	cr_assert_null(copy_process(me, SIGCHLD, &err, &why));
	cr_assert_eq(err, -EAGAIN);
	cr_assert_eq(why.err, EAGAIN);
	cr_assert_eq(why.type, (uint32_t)UCOUNT_RLIMIT_NPROC);
	cr_assert_eq(why.level, 0);
	cr_assert_eq(why.uid, 1000u);
	cr_assert_eq(why.use, 3);
	cr_assert_eq(why.limit, 3);
	cr_assert_eq(why.asked, 1);
	cr_assert_eq(why.pid, getpid());
	cr_assert_eq(nproc(), 3);
	cr_assert_eq(atomic64_read(&uc->peak[UCOUNT_RLIMIT_NPROC]), 3);
	cr_assert_eq(atomic64_read(&uc->refused[UCOUNT_RLIMIT_NPROC]), 1);
}

Test(task, copy_process_unlimited_is_never_refused)
{
	me->rlim[UCOUNT_RLIMIT_NPROC].cur = RLIM_INF;
	for (int i = 0; i < 1000; i++)
		cr_assert_not_null(forked(SIGCHLD));
	cr_assert_eq(nproc(), 1001);
}

Test(task, copy_process_refusals_leak_no_slot_and_no_unit)
{
	uint32_t tasks, mms;

	me->rlim[UCOUNT_RLIMIT_NPROC].cur = 1;
	forked(SIGCHLD);
	tasks = table_high_water(TABLE_TASK);
	mms = table_high_water(TABLE_MM);
	for (int i = 0; i < 1000; i++)
		cr_assert_null(forked(SIGCHLD));
	cr_assert_eq(nproc(), 1);
	cr_assert_eq(table_high_water(TABLE_TASK), tasks);
	cr_assert_eq(table_high_water(TABLE_MM), mms);
}

Test(task, copy_process_exempt_is_counted_over_the_limit)
{
	me->rlim[UCOUNT_RLIMIT_NPROC].cur = 0;
	cr_assert_null(forked(SIGCHLD));
	me->cred.cap_effective = 1ull << 21; /* CAP_SYS_ADMIN */
	cr_assert_not_null(forked(SIGCHLD));
	cr_assert_eq(nproc(), 2);
	me->cred.cap_effective = 1ull << 24; /* CAP_SYS_RESOURCE */
	cr_assert_not_null(forked(SIGCHLD));
	me->cred.cap_effective = 1ull << 14; /* CAP_IPC_LOCK does not help here */
	cr_assert_null(forked(SIGCHLD));
	me->cred.uid = 0;
	me->cred.cap_effective = 0;
	cr_assert_not_null(forked(SIGCHLD), "real uid 0 is exempt without any capability");
}

Test(task, copy_process_inherits_and_clears_nproc_exceeded)
{
	struct task_struct *t;

	me->flags |= PF_NPROC_EXCEEDED;
	t = forked(SIGCHLD);
	cr_assert(t->flags & PF_NPROC_EXCEEDED);
	cr_assert_not(me->flags & PF_NPROC_EXCEEDED);
	me->flags |= PF_NPROC_EXCEEDED;
	me->rlim[UCOUNT_RLIMIT_NPROC].cur = 1;
	cr_assert_null(forked(SIGCHLD));
	cr_assert(me->flags & PF_NPROC_EXCEEDED, "a refused fork leaves the flag");
}

Test(task, copy_process_thread_shares_mm_and_limits)
{
	struct task_struct *t = forked(CLONE_VM | CLONE_THREAD | CLONE_SIGHAND);

	cr_assert(task_born(t, task_ref(t), getpid() + 1, getpid()));
	cr_assert_eq(task_mm(t), task_mm(me));
	cr_assert_eq(task_leader(t), me);
	cr_assert_eq(rlimit(t, UCOUNT_RLIMIT_NPROC), 3);
	me->rlim[UCOUNT_RLIMIT_NPROC].cur = 7;
	cr_assert_eq(rlimit(t, UCOUNT_RLIMIT_NPROC), 7);
	cr_assert_eq(nr_threads(me), 2);
	exit_thread(t);
	cr_assert_eq(nproc(), 1);
	cr_assert_eq(slot_state(task_mm(me)->slot), SLOT_LIVE);
}

Test(task, copy_process_child_has_its_own_mm_and_limits)
{
	struct task_struct *t = forked(SIGCHLD);

	cr_assert_neq(task_mm(t), task_mm(me));
	me->rlim[UCOUNT_RLIMIT_NPROC].cur = 7;
	cr_assert_eq(rlimit(t, UCOUNT_RLIMIT_NPROC), 3);
	cr_assert_eq(task_get(t->parent), me);
}

Test(task, release_task_last_user_of_a_shared_mm_frees_it)
{
	struct task_struct *t = forked(CLONE_VM | CLONE_VFORK);
	struct mm_struct *mm = task_mm(me);

	cr_assert_eq(task_mm(t), mm);
	release_task(t);
	cr_assert_eq(slot_state(mm->slot), SLOT_LIVE);
	release_task(t);
	cr_assert_eq(nproc(), 1, "a second release is no release");
	release_task(me);
	cr_assert_eq(slot_state(mm->slot), SLOT_FREE);
}

Test(task, task_born_late_report_does_not_touch_a_reused_slot)
{
	struct task_struct *t = forked(SIGCHLD), *again;
	uint32_t ref = task_ref(t);

	release_task(t);
	again = forked(SIGCHLD);
	cr_assert_eq(again, t);
	cr_assert_not(task_born(t, ref, 4242, 4242));
	cr_assert_eq(again->pid, 0);
	cr_assert_eq(slot_state(again->slot), SLOT_NEW);
}

Test(task, task_get_stale_reference_is_null)
{
	struct task_struct *t = forked(SIGCHLD);
	uint32_t ref = task_ref(t);

	cr_assert_eq(task_get(ref), t);
	release_task(t);
	cr_assert_null(task_get(ref));
	cr_assert_null(task_get(0));
	cr_assert_null(task_get(0xffffffff));
}

static pid_t idle_child(void)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	return pid;
}

static struct task_struct *task_of(pid_t pid)
{
	struct task_struct *t = forked(SIGCHLD);

	cr_assert(task_born(t, task_ref(t), pid, pid));
	return t;
}

Test(task, reap_dead_zombie_counts_until_it_is_reaped)
{
	pid_t pid = idle_child();
	struct task_struct *t = task_of(pid);
	siginfo_t info;

	cr_assert_not(task_gone(t));
	cr_assert_not(task_dead(t));
	kill(pid, SIGKILL);
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	cr_assert_not(task_gone(t));
	cr_assert(task_dead(t));
	cr_assert_eq(reap_dead(-1), 0);
	cr_assert_eq(nproc(), 2);
	waitpid(pid, NULL, 0);
	cr_assert(task_gone(t));
	cr_assert_eq(reap_dead(ucounts_index(uc)), 1);
	cr_assert_eq(nproc(), 1);
}

Test(task, copy_process_looks_for_the_dead_before_it_refuses)
{
	pid_t pid = idle_child();

	task_of(pid);
	me->rlim[UCOUNT_RLIMIT_NPROC].cur = 2;
	cr_assert_null(forked(SIGCHLD));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_assert_not_null(forked(SIGCHLD), "nobody told the model of the death");
	cr_assert_eq(nproc(), 2);
}

Test(task, task_gone_sees_a_reused_pid)
{
	struct task_struct *t = task_of(getppid());

	cr_assert_not(task_gone(t));
	t->born_ns = 1000000000; /* seen running one second after boot: that was somebody else */
	cr_assert(task_gone(t));
}

Test(task, release_group_living_group_stays)
{
	pid_t pid = idle_child();

	task_of(pid);
	release_group(pid);
	cr_assert_eq(nproc(), 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	release_group(pid);
	cr_assert_eq(nproc(), 1);
}

/* A task that died at some point leaves its slot in the state that it had then. */
Test(task, reap_dead_new_slot_of_a_dead_maker_is_taken_back)
{
	pid_t pid = idle_child();
	struct task_struct *maker = task_of(pid), *t;

	current = maker;
	t = forked(SIGCHLD);
	current = me;
	cr_assert_not_null(t);
	cr_assert_eq(reap_dead(-1), 0, "its maker lives");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_assert_eq(reap_dead(-1), 2);
	cr_assert_eq(nproc(), 1);
	cr_assert_eq(slot_state(t->slot), SLOT_FREE);
}

Test(task, reap_dead_counter_of_an_interrupted_update_is_recomputed)
{
	pid_t pid = idle_child();
	struct task_struct *t = task_of(pid);

	/* died between the addition and the mark on its object */
	ucounts_begin(t, uc, UCOUNT_RLIMIT_NPROC);
	inc_rlimit_ucounts(uc, UCOUNT_RLIMIT_NPROC, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_assert_eq(get_rlimit_value(uc, UCOUNT_RLIMIT_NPROC), 3);
	cr_assert_eq(reap_dead(-1), 1);
	cr_assert_eq(nproc(), 1);
	cr_assert_eq(atomic64_read(&world->counts.recoveries), 1);
}

Test(task, reap_dead_zombie_inside_an_update_keeps_its_unit)
{
	pid_t pid = idle_child();
	struct task_struct *t = task_of(pid);
	siginfo_t info;

	ucounts_begin(t, uc, UCOUNT_RLIMIT_NPROC);
	inc_rlimit_ucounts(uc, UCOUNT_RLIMIT_NPROC, 1);
	kill(pid, SIGKILL);
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	cr_assert_eq(reap_dead(-1), 0);
	cr_assert_eq(nproc(), 2);
	waitpid(pid, NULL, 0);
}

Test(task, ucounts_recover_living_updater_defers)
{
	pid_t pid = idle_child();
	struct task_struct *t = task_of(pid);
	long counter, objects;

	kill(pid, SIGSTOP);
	ucounts_begin(t, uc, UCOUNT_RLIMIT_NPROC);
	cr_assert_eq(ucounts_check(uc, UCOUNT_RLIMIT_NPROC, &counter, &objects), -EAGAIN);
	cr_assert_eq(uc->gate[UCOUNT_RLIMIT_NPROC], 0, "nobody is kept waiting");
	cr_assert_not_null(forked(SIGCHLD));
	ucounts_end(t);
	cr_assert_eq(nproc(), 3);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(task, ucounts_begin_gate_of_a_dead_recoverer_is_opened)
{
	pid_t pid = idle_child();
	struct task_struct *t = task_of(pid);

	uc->gate[UCOUNT_RLIMIT_NPROC] = task_ref(t);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_assert_not_null(forked(SIGCHLD));
	cr_assert_eq(uc->gate[UCOUNT_RLIMIT_NPROC], 0);
}

Test(task, task_adopt_is_counted_without_a_check)
{
	struct task_struct *t;

	me->rlim[UCOUNT_RLIMIT_NPROC].cur = 0;
	t = task_adopt(me, getppid(), getppid());
	cr_assert_not_null(t);
	cr_assert_eq(nproc(), 2);
	cr_assert_eq(t->cred.uid, 1000u);
	cr_assert(t->flags & PF_ADOPTED);
	cr_assert_eq(atomic64_read(&world->counts.adopted), 1);
}

Test(task, begin_new_exec_only_the_leader_goes_on)
{
	struct task_struct *t = forked(CLONE_VM | CLONE_THREAD | CLONE_SIGHAND);
	struct mm_struct *old = task_mm(me);

	cr_assert(task_born(t, task_ref(t), getpid() + 1, getpid()));
	old->def_flags = 2;
	cr_assert_eq(begin_new_exec(t), me, "a thread that execs takes its leader's place");
	cr_assert_eq(nproc(), 1);
	cr_assert_eq(slot_state(t->slot), SLOT_FREE);
	cr_assert_eq(task_mm(me)->def_flags, 0);
}

Test(task, task_observer_is_never_counted)
{
	struct task_struct *o = task_observer(getpid());

	cr_assert_not_null(o);
	cr_assert_not(task_counted(o));
	cr_assert_eq(nproc(), 1);
	release_task(me);
	cr_assert_not(world_has_tasks());
}

Test(task, alloc_ucounts_one_record_for_a_key)
{
	cr_assert_eq(alloc_ucounts(INIT_USER_NS, 1000), uc);
	for (uint32_t uid = 0; uid < 2000; uid++)
		cr_assert_eq(alloc_ucounts(0, uid)->uid, uid);
	for (uint32_t uid = 0; uid < 2000; uid++)
		cr_assert_eq(alloc_ucounts(0, uid), alloc_ucounts(0, uid));
	cr_assert_eq(table_high_water(TABLE_UCOUNTS), 2000);
}

static void *find_many(void *arg)
{
	struct ucounts **found = arg;

	for (uint32_t i = 0; i < 1000; i++)
		found[i] = alloc_ucounts(0, 5000 + i);
	return NULL;
}

Test(task, alloc_ucounts_racing_makers_agree)
{
	static struct ucounts *found[4][1000];
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, find_many, found[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (int k = 0; k < 1000; k++)
		for (int i = 1; i < 4; i++)
			cr_assert_eq(found[i][k], found[0][k]);
}

Test(task, refusal_log_repeats_only_count)
{
	struct refusal r = { .err = EAGAIN, .limit = 3, .uid = 1000 };
	struct refusal_record *rec;

	for (int i = 0; i < 5; i++)
		refusal_log(&r, "fork");
	refusal_log(&r, "vfork");
	r.err = 0;
	refusal_log(&r, "fork");
	rec = table_slot(TABLE_REFUSAL, 0);
	cr_assert_str_eq(rec->call, "fork");
	cr_assert_eq(atomic64_read(&rec->count), 5);
	rec = table_slot(TABLE_REFUSAL, 1);
	cr_assert_str_eq(rec->call, "vfork");
	cr_assert_null(table_slot(TABLE_REFUSAL, 2));
}
