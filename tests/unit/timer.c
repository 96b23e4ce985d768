/* SPDX-License-Identifier: GPL-2.0-or-later */
/* POSIX timers: who pays, until when, and what the dead leave. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kpemu/sched.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#include "tests/unit/one_task.h"

#define LIMIT 3

static struct task_struct *me;
static struct ucounts *uc;
static struct refusal why;

static void one_task(void)
{
	me = make_one_task(UCOUNT_RLIMIT_SIGPENDING, LIMIT);
	uc = alloc_ucounts(INIT_USER_NS, 1000);
}

TestSuite(timer, .timeout = 60, .init = one_task);

static struct k_itimer *charge(int signo, int tid)
{
	int err;

	return posix_timer_charge(signo, tid, &err, &why);
}

static struct k_itimer *make(uint64_t id)
{
	struct k_itimer *tmr = charge(SIGALRM, 0);

	cr_assert_not_null(tmr);
	posix_timer_made(tmr, id);
	return tmr;
}

static long charged(struct ucounts *to)
{
	return counted(to, UCOUNT_RLIMIT_SIGPENDING);
}

static int slots_in_use(void)
{
	struct k_itimer *tmr;
	int n = 0;

	for_each_timer(i, tmr)
		n += slot_state(tmr->slot) != SLOT_FREE;
	return n;
}

Test(timer, charge_up_to_the_limit_whatever_it_notifies_by)
{
	int err = 0;

	cr_assert_not_null(charge(SIGALRM, 0));
	cr_assert_not_null(charge(0, 0), "SIGEV_NONE costs as much");
	cr_assert_not_null(charge(SIGRTMIN, getpid()));
	cr_assert_eq(charged(uc), LIMIT);
	cr_assert_null(posix_timer_charge(SIGALRM, 0, &err, &why));
	cr_assert_eq(err, -EAGAIN);
	cr_assert_eq(why.err, EAGAIN);
	cr_assert_eq(why.type, UCOUNT_RLIMIT_SIGPENDING);
	cr_assert_eq(why.use, LIMIT);
	cr_assert_eq(why.limit, LIMIT);
	cr_assert_eq(why.asked, 1);
	cr_assert_eq(why.uid, 1000u);
	cr_assert_eq(why.pid, getpid());
	cr_assert_eq(charged(uc), LIMIT);
	cr_assert_eq(slots_in_use(), LIMIT);
	cr_assert_eq(atomic64_read(&uc->refused[UCOUNT_RLIMIT_SIGPENDING]), 1);
	cr_assert_eq(atomic64_read(&uc->peak[UCOUNT_RLIMIT_SIGPENDING]), LIMIT);
}

Test(timer, charge_root_is_not_exempt)
{
	cred_init(&me->cred, 0, 0);
	me->rlim[UCOUNT_RLIMIT_SIGPENDING].cur = 0;
	cr_assert_null(charge(SIGALRM, 0));
	cr_assert_eq(why.err, EAGAIN);
}

Test(timer, charge_of_a_thread_is_its_process_s)
{
	struct task_struct *t;
	int err;

	t = copy_process(me, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND, &err, &why);
	cr_assert_not_null(t);
	cr_assert(task_born(t, task_ref(t), 4194303, getpid()));
	make(1);
	current = t;
	make(2);
	cr_assert_not_null(posix_timer_find(me, 1));
	cr_assert_not_null(posix_timer_find(me, 2));
	cr_assert_null(posix_timer_find(t, 2), "a thread is not asked");
	make(3);
	cr_assert_null(charge(SIGALRM, 0));
	current = me;
	cr_assert_null(charge(SIGALRM, 0));
	exit_itimers(me);
	cr_assert_eq(charged(uc), 0);
}

Test(timer, free_after_the_real_call_failed)
{
	struct k_itimer *tmr = charge(SIGALRM, 0);

	posix_timer_free(tmr);
	cr_assert_eq(charged(uc), 0);
	cr_assert_eq(slots_in_use(), 0);
	cr_assert_eq(me->nr_timers, 0u);
	posix_timer_free(tmr);
	cr_assert_eq(charged(uc), 0);
	cr_assert_eq(me->nr_timers, 0u);
}

Test(timer, find_only_what_is_made_and_ones_own)
{
	struct k_itimer *tmr = charge(SIGALRM, 0);
	struct task_struct *child;
	int err;

	tmr->id = 7;
	cr_assert_null(posix_timer_find(me, 7));
	posix_timer_made(tmr, 7);
	cr_assert_eq(posix_timer_find(me, 7), tmr);
	cr_assert_null(posix_timer_find(me, 8));
	child = copy_process(me, 0, &err, &why);
	cr_assert(task_born(child, task_ref(child), 4194303, 4194303));
	cr_assert_null(posix_timer_find(child, 7));
	child->nr_timers = 1;
	cr_assert_null(posix_timer_find(child, 7), "fork passes none on");
	child->nr_timers = 0;
}

Test(timer, sends_says_which_signals)
{
	struct k_itimer *tmr = make(1);

	cr_assert(posix_timer_sends(me, SIGALRM));
	cr_assert_not(posix_timer_sends(me, SIGUSR1));
	posix_timer_free(tmr);
	cr_assert_not(posix_timer_sends(me, SIGALRM));
	posix_timer_made(charge(0, 0), 2);
	cr_assert_not(posix_timer_sends(me, 0) && posix_timer_sends(me, SIGALRM));
}

Test(timer, exit_takes_all_of_the_process_and_no_other)
{
	struct task_struct *child;
	int err;

	make(1);
	charge(SIGALRM, 0);
	child = copy_process(me, 0, &err, &why);
	cr_assert(task_born(child, task_ref(child), getppid(), getppid()));
	current = child;
	make(1);
	current = me;
	exit_itimers(me);
	cr_assert_eq(charged(uc), 1);
	cr_assert_eq(me->nr_timers, 0u);
	cr_assert_not_null(posix_timer_find(child, 1));
	exit_itimers(me);
	exit_itimers(child);
	cr_assert_eq(charged(uc), 0);
	cr_assert_eq(slots_in_use(), 0);
}

Test(timer, uncharge_at_the_record_that_was_charged)
{
	struct ucounts *other = alloc_ucounts(INIT_USER_NS, 2000);
	struct k_itimer *tmr = make(1);

	me->ucounts = ucounts_index(other) + 1;
	make(2);
	cr_assert_eq(charged(uc), 1);
	cr_assert_eq(charged(other), 1);
	posix_timer_free(tmr);
	cr_assert_eq(charged(uc), 0);
	cr_assert_eq(charged(other), 1);
	exit_itimers(me);
	cr_assert_eq(charged(other), 0);
}

/* --- deleted while the signal waits --- */

static timer_t expire(int signo, int tid)
{
	struct sigevent ev = { .sigev_notify = tid ? SIGEV_THREAD_ID : SIGEV_SIGNAL,
			       .sigev_signo = signo };
	struct itimerspec at = { .it_value.tv_nsec = 1 };
	struct timespec soon = { .tv_nsec = 20000000 };
	timer_t id;

	ev._sigev_un._tid = tid;
	cr_assert_eq(timer_create(CLOCK_MONOTONIC, &ev, &id), 0);
	cr_assert_eq(timer_settime(id, 0, &at, NULL), 0);
	nanosleep(&soon, NULL);
	return id;
}

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static uint64_t pending(enum sig_queue q, int sig)
{
	struct sigpending_slot *s = table_slot(TABLE_SIGPENDING, table_index(TABLE_TASK, me));

	return s ? s->pending[q][sig - 1] & 0xffffff : 0;
}

Test(timer, deleted_without_a_signal_is_given_back)
{
	block_all();
	posix_timer_deleted(make(1));
	cr_assert_eq(charged(uc), 0);
	cr_assert_eq(pending(PENDING_SHARED, SIGALRM), 0u);
	cr_assert_eq(me->nr_timers, 0u);
}

Test(timer, deleted_while_the_signal_waits_leaves_the_charge_to_it)
{
	struct k_itimer *tmr = charge(SIGRTMIN, 0);
	timer_t id;

	block_all();
	id = expire(SIGRTMIN, 0);
	posix_timer_made(tmr, (uint64_t)id);
	timer_delete(id);
	posix_timer_deleted(tmr);
	cr_assert_eq(slots_in_use(), 0);
	cr_assert_eq(me->nr_timers, 0u);
	cr_assert_eq(charged(uc), 1);
	cr_assert_eq(pending(PENDING_SHARED, SIGRTMIN), 1u);
	/* Whatever waits now is known: the next one has no claim to it. */
	posix_timer_made(tmr = charge(SIGRTMIN, 0), 5);
	posix_timer_deleted(tmr);
	cr_assert_eq(charged(uc), 1);
}

Test(timer, deleted_while_the_signal_waits_for_a_thread)
{
	struct k_itimer *tmr = charge(SIGUSR1, gettid());
	timer_t id;

	block_all();
	id = expire(SIGUSR1, gettid());
	posix_timer_made(tmr, (uint64_t)id);
	timer_delete(id);
	posix_timer_deleted(tmr);
	cr_assert_eq(charged(uc), 1);
	cr_assert_eq(pending(PENDING_PRIVATE, SIGUSR1), 1u);
	cr_assert_eq(pending(PENDING_SHARED, SIGUSR1), 0u);
}

/* It waits, but for the thread: a timer of the process has nothing to do with it. */
Test(timer, deleted_while_the_signal_waits_in_the_other_queue)
{
	struct k_itimer *tmr = charge(SIGUSR1, 0);

	block_all();
	cr_assert_eq(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1), 0);
	posix_timer_made(tmr, 1);
	posix_timer_deleted(tmr);
	cr_assert_eq(charged(uc), 0);
	cr_assert_eq(pending(PENDING_SHARED, SIGUSR1), 0u);
}

/* --- the dead --- */

static pid_t ended_child(bool reaped)
{
	siginfo_t info;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	cr_assert_eq(waitid(P_PID, pid, &info, WEXITED | (reaped ? 0 : WNOWAIT)), 0);
	return pid;
}

static struct task_struct *dead_task(bool reaped)
{
	pid_t pid = ended_child(reaped);
	struct task_struct *t;
	int err;

	t = copy_process(me, 0, &err, &why);
	cr_assert_not_null(t);
	cr_assert(task_born(t, task_ref(t), pid, pid));
	return t;
}

Test(timer, reap_what_a_dead_maker_left_half_made)
{
	struct task_struct *t = dead_task(true);

	current = t;
	charge(SIGALRM, 0);
	current = me;
	make(1);
	charge(SIGALRM, 0);
	cr_assert_eq(reap_timers(ucounts_index(uc) + 1), 0, "another record");
	cr_assert_eq(reap_timers(ucounts_index(uc)), 1);
	cr_assert_eq(charged(uc), 2);
	cr_assert_eq(reap_timers(-1), 0);
}

Test(timer, reap_what_a_dead_releaser_left)
{
	struct task_struct *t = dead_task(true);
	struct k_itimer *tmr = make(1);

	tmr->slot = slot_word(SLOT_RELEASING, slot_gen(tmr->slot), task_ref(t));
	cr_assert_eq(reap_timers(-1), 1);
	cr_assert_eq(charged(uc), 0);
	cr_assert_eq(slots_in_use(), 0);
}

Test(timer, reap_those_of_a_zombie)
{
	current = dead_task(false);
	make(1);
	make(2);
	current = me;
	make(3);
	cr_assert_eq(reap_timers(-1), 2);
	cr_assert_eq(charged(uc), 1);
	cr_assert_eq(slots_in_use(), 1);
}

Test(timer, reap_leaves_those_of_a_process_whose_leader_only_has_ended)
{
	struct task_struct *t = dead_task(false), *thread;
	int err;

	current = t;
	make(1);
	thread = copy_process(t, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND, &err, &why);
	cr_assert(task_born(thread, task_ref(thread), getppid(), getppid()));
	current = me;
	cr_assert_eq(reap_timers(-1), 0);
	cr_assert_eq(charged(uc), 1);
}

Test(timer, reap_those_whose_task_slot_is_gone)
{
	struct task_struct *t = dead_task(true);

	current = t;
	make(1);
	current = me;
	t->nr_timers = 0; /* so that its release does not look */
	release_task(t);
	reap_timers(-1);
	cr_assert_eq(charged(uc), 0);
}

Test(timer, charge_looks_for_the_dead_before_it_refuses)
{
	struct task_struct *t = dead_task(true);

	current = t;
	make(1);
	make(2);
	make(3);
	current = me;
	cr_assert_not_null(charge(SIGALRM, 0));
	cr_assert_eq(charged(uc), 1);
	cr_assert_eq(atomic64_read(&uc->refused[UCOUNT_RLIMIT_SIGPENDING]), 0);
}

Test(timer, world_full_is_no_refusal)
{
	struct k_itimer *tmr;
	int err = 0;

	cr_assert_eq(table_reserve(TABLE_TIMER, WORLD_TIMERS), 0);
	world->table[TABLE_TIMER].high_water = WORLD_TIMERS;
	for_each_timer(i, tmr) {
		tmr->slot = slot_word(SLOT_LIVE, 1, 0);
		tmr->owner = task_ref(me);
	}
	cr_assert_null(posix_timer_charge(SIGALRM, 0, &err, &why));
	cr_assert_eq(err, -EAGAIN);
	cr_assert_eq(why.err, 0);
	cr_assert_eq(charged(uc), 0);
	cr_assert_eq(atomic64_read(&uc->refused[UCOUNT_RLIMIT_SIGPENDING]), 0);
}
