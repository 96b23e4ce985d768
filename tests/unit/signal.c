/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pending signals: who pays, what is refused, what a receipt gives back. (kernel/ucounts.md 2) */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <kpemu/sched.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#include "tests/unit/one_task.h"

#define LIMIT 3
#define RT    40

static struct task_struct *me;
static struct ucounts *uc;
static struct refusal why;
static int mark;

/* All signals are blocked: what the tests really send waits, and disturbs nobody. */
static void one_task(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	me = make_one_task(UCOUNT_RLIMIT_SIGPENDING, LIMIT);
	uc = alloc_ucounts(INIT_USER_NS, 1000);
}

TestSuite(signal, .timeout = 60, .init = one_task);

static long charged_to(struct ucounts *to)
{
	return counted(to, UCOUNT_RLIMIT_SIGPENDING);
}

static long charged(void)
{
	return charged_to(uc);
}

/* A send that the kernel takes: it really waits, so that a look at the kernel finds it. */
static int send_code(enum sig_queue q, int sig, int code)
{
	int how = send_signal(me, q, sig, code, &mark, &why);
	siginfo_t info;

	if (how == SEND_QUEUED || how == SEND_LOST || how == SEND_COALESCED) {
		memset(&info, 0, sizeof(info));
		info.si_code = SI_QUEUE;
		info.si_errno = mark;
		info.si_pid = getpid();
		if (q == PENDING_SHARED)
			syscall(SYS_rt_sigqueueinfo, getpid(), sig, &info);
		else
			syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, &info);
	}
	sent_signal(me, q, sig, how, false);
	return how;
}

static int send_to(enum sig_queue q, int sig)
{
	return send_code(q, sig, SI_QUEUE);
}

/* The next signal that the kernel has: the model's word on it, and what the program would see. */
static bool receive(int sig, siginfo_t *info)
{
	const struct timespec zero = { 0 };
	uint64_t set = sig_bit(sig);

	cr_assert_eq(syscall(SYS_rt_sigtimedwait, &set, info, &zero, sizeof(set)), sig);
	return signal_received(me, info);
}

Test(signal, real_time_ones_all_count)
{
	siginfo_t info;

	for (int i = 1; i <= LIMIT; i++) {
		cr_assert_eq(send_to(PENDING_SHARED, RT), SEND_QUEUED);
		cr_assert_eq(charged(), i);
	}
	for (int i = LIMIT - 1; i >= 0; i--) {
		cr_assert(receive(RT, &info));
		cr_assert_eq(info.si_errno, 0);
		cr_assert_eq(charged(), i);
	}
}

Test(signal, at_the_limit_is_allowed_and_over_it_is_not)
{
	for (int i = 0; i < LIMIT; i++)
		send_to(PENDING_SHARED, RT);
	cr_assert_eq(send_to(PENDING_PRIVATE, RT + 1), -EAGAIN);
	cr_assert_eq(why.err, EAGAIN);
	cr_assert_eq(why.use, LIMIT);
	cr_assert_eq(why.limit, LIMIT);
	cr_assert_eq(why.uid, 1000);
	cr_assert_eq(charged(), LIMIT);
	cr_assert_eq(atomic64_read(&uc->refused[UCOUNT_RLIMIT_SIGPENDING]), 1);
	cr_assert_eq(atomic64_read(&uc->peak[UCOUNT_RLIMIT_SIGPENDING]), LIMIT);
}

Test(signal, unlimited_is_not_minus_one)
{
	me->rlim[UCOUNT_RLIMIT_SIGPENDING].cur = RLIM_INF;
	cr_assert_eq(send_to(PENDING_SHARED, RT), SEND_QUEUED);
	me->rlim[UCOUNT_RLIMIT_SIGPENDING].cur = (uint64_t)LONG_MAX + 1;
	cr_assert_eq(send_to(PENDING_SHARED, RT), SEND_QUEUED);
	me->rlim[UCOUNT_RLIMIT_SIGPENDING].cur = 0;
	cr_assert_eq(send_to(PENDING_SHARED, RT), -EAGAIN);
}

Test(signal, standard_ones_wait_once_in_each_queue)
{
	cr_assert_eq(send_to(PENDING_SHARED, SIGUSR1), SEND_QUEUED);
	cr_assert_eq(send_to(PENDING_SHARED, SIGUSR1), SEND_COALESCED);
	cr_assert_eq(send_to(PENDING_PRIVATE, SIGUSR1), SEND_QUEUED);
	cr_assert_eq(send_to(PENDING_PRIVATE, SIGUSR1), SEND_COALESCED);
	cr_assert_eq(charged(), 2);
}

Test(signal, kill_of_a_standard_one_overrides)
{
	for (int i = 0; i < LIMIT; i++)
		send_to(PENDING_SHARED, RT);
	cr_assert_eq(send_code(PENDING_SHARED, SIGUSR1, SI_USER), SEND_QUEUED);
	cr_assert_eq(charged(), LIMIT + 1);
	/* tgkill and sigqueue do not: only the fact arrives */
	cr_assert_eq(send_code(PENDING_PRIVATE, SIGUSR2, SI_TKILL), SEND_LOST);
	cr_assert_eq(send_code(PENDING_PRIVATE, SIGUSR2, SI_TKILL), SEND_COALESCED);
	cr_assert_eq(charged(), LIMIT + 1);
}

Test(signal, kill_of_a_real_time_one_loses_its_info)
{
	siginfo_t info;

	for (int i = 0; i < LIMIT; i++)
		send_to(PENDING_SHARED, RT + 1);
	cr_assert_eq(send_code(PENDING_SHARED, RT, SI_USER), SEND_LOST);
	cr_assert_eq(send_code(PENDING_SHARED, RT, SI_USER), SEND_MERGED);
	cr_assert_eq(charged(), LIMIT);
	cr_assert(receive(RT, &info));
	cr_assert_eq(info.si_code, SI_USER);
	cr_assert_eq(info.si_pid, 0);
	cr_assert_eq(info.si_errno, 0);
	cr_assert_eq(charged(), LIMIT);
	cr_assert_eq(send_code(PENDING_SHARED, RT, SI_USER), SEND_LOST);
}

Test(signal, a_loss_merges_with_what_waits)
{
	siginfo_t info;

	for (int i = 0; i < LIMIT; i++)
		send_to(PENDING_SHARED, RT);
	cr_assert_eq(send_code(PENDING_SHARED, RT, SI_USER), SEND_MERGED);
	/* ... and with what comes later: the program sees one signal */
	cr_assert_eq(send_code(PENDING_SHARED, RT + 1, SI_USER), SEND_LOST);
	cr_assert(receive(RT, &info));
	cr_assert_eq(send_to(PENDING_SHARED, RT + 1), SEND_QUEUED);
	cr_assert_not(receive(RT + 1, &info));
	cr_assert(receive(RT + 1, &info));
	cr_assert_eq(charged(), LIMIT - 1);
}

Test(signal, sigkill_costs_nothing)
{
	me->rlim[UCOUNT_RLIMIT_SIGPENDING].cur = 0;
	cr_assert_eq(send_signal(me, PENDING_SHARED, SIGKILL, SI_USER, &mark, &why),
		     SEND_COALESCED);
	sent_signal(me, PENDING_SHARED, SIGKILL, SEND_COALESCED, false);
	cr_assert_eq(charged(), 0);
	cr_assert_eq(me->sending, 0);
}

Test(signal, a_failed_call_is_undone)
{
	int how = send_signal(me, PENDING_SHARED, RT, SI_QUEUE, &mark, &why);

	cr_assert_eq(charged(), 1);
	sent_signal(me, PENDING_SHARED, RT, how, true);
	cr_assert_eq(charged(), 0);
	cr_assert_eq(me->sending, 0);
}

Test(signal, codes_of_kill_and_tgkill_are_put_back)
{
	siginfo_t info;

	send_code(PENDING_SHARED, RT, SI_USER);
	cr_assert(receive(RT, &info));
	cr_assert_eq(info.si_code, SI_USER);
	send_code(PENDING_PRIVATE, RT, SI_TKILL);
	cr_assert(receive(RT, &info));
	cr_assert_eq(info.si_code, SI_TKILL);
	cr_assert_eq(charged(), 0);
}

Test(signal, entries_keep_the_record_they_were_charged_to)
{
	struct ucounts *other = alloc_ucounts(INIT_USER_NS, 2000);
	siginfo_t info;

	send_to(PENDING_SHARED, RT);
	send_to(PENDING_SHARED, RT);
	me->ucounts = ucounts_index(other) + 1;
	cr_assert_eq(send_to(PENDING_SHARED, RT), SEND_QUEUED);
	cr_assert_eq(charged(), 2);
	cr_assert_eq(charged_to(other), 1);
	cr_assert(receive(RT, &info));
	cr_assert_eq(charged(), 1);
	cr_assert(receive(RT, &info));
	cr_assert_eq(charged(), 0);
	cr_assert_eq(charged_to(other), 1);
	cr_assert(receive(RT, &info));
	cr_assert_eq(charged_to(other), 0);
}

Test(signal, what_left_unseen_is_found)
{
	const struct timespec zero = { 0 };
	uint64_t set = sig_bit(SIGUSR1) | sig_bit(RT);

	send_to(PENDING_SHARED, SIGUSR1);
	send_to(PENDING_PRIVATE, RT);
	while (syscall(SYS_rt_sigtimedwait, &set, NULL, &zero, sizeof(set)) > 0)
		;
	cr_assert_eq(charged(), 2);
	signal_reconcile_record(uc);
	cr_assert_eq(charged(), 0);
}

Test(signal, what_came_unseen_is_found_and_given_back)
{
	siginfo_t info;

	syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
	syscall(SYS_kill, getpid(), RT);
	signal_reconcile_all();
	cr_assert_eq(charged(), 2);
	cr_assert(receive(SIGUSR1, &info));
	cr_assert_eq(charged(), 1);
	cr_assert(receive(RT, &info));
	cr_assert_eq(charged(), 0);
}

Test(signal, strangers_give_nothing_back)
{
	siginfo_t info;

	syscall(SYS_kill, getpid(), RT);
	send_to(PENDING_SHARED, RT);
	cr_assert(receive(RT, &info));
	cr_assert_eq(charged(), 1);
	cr_assert(receive(RT, &info));
	cr_assert_eq(charged(), 0);
}

Test(signal, a_receipt_from_before_a_flush_takes_nothing_of_later_sends)
{
	const struct timespec zero = { 0 };
	uint64_t set = sig_bit(RT);
	siginfo_t info;

	send_to(PENDING_SHARED, RT);
	cr_assert_eq(syscall(SYS_rt_sigtimedwait, &set, &info, &zero, sizeof(set)), RT);
	signal_reconcile(me);
	cr_assert_eq(charged(), 0);
	send_to(PENDING_SHARED, RT);
	cr_assert(signal_received(me, &info));
	cr_assert_eq(charged(), 1);
}

Test(signal, ignoring_flushes_and_then_drops_what_nobody_blocks)
{
	send_to(PENDING_SHARED, RT);
	send_to(PENDING_PRIVATE, RT);
	signal_ignore_begin(me, RT);
	signal(RT, SIG_IGN);
	signal_ignore_end(me, RT, true, true);
	cr_assert_eq(charged(), 0);
	cr_assert(signal_mask_matters(me));
	/* blocked: it stays */
	cr_assert_eq(send_to(PENDING_SHARED, RT), SEND_QUEUED);
	/* unblocked: gone, and the next ones with it */
	signal_mask_begin(me);
	signal_mask_end(me, me, ~sig_bit(RT));
	cr_assert_eq(charged(), 0);
	cr_assert_eq(send_to(PENDING_SHARED, RT), SEND_IGNORED);
	cr_assert_eq(send_to(PENDING_PRIVATE, RT), SEND_IGNORED);
	signal_ignore_begin(me, RT);
	signal_ignore_end(me, RT, false, false);
	cr_assert_not(signal_mask_matters(me));
	cr_assert_eq(send_to(PENDING_SHARED, RT), SEND_QUEUED);
}

/* --- while counters are recomputed --- */

static int storming;

/* A thread that sends itself what it then receives, as the kernel would have it. */
static void *storm(void *arg)
{
	siginfo_t info;
	struct refusal no;
	int how, marked;

	current = arg;
	task_born(current, task_ref(me), getpid(), gettid());
	for (int i = 0; i < 1000000; i++) {
		how = send_signal(current, PENDING_PRIVATE, RT, SI_TKILL, &marked, &no);
		sent_signal(current, PENDING_PRIVATE, RT, how, false);
		info = (siginfo_t){ .si_signo = RT, .si_code = SI_QUEUE, .si_errno = marked };
		signal_received(current, &info);
	}
	__atomic_fetch_sub(&storming, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* An update that finds its gate closed takes its object back, and no look is fooled by that. */
Test(signal, recounts_are_right_amid_sends)
{
	enum rlimit_type type = UCOUNT_RLIMIT_SIGPENDING;
	long counter, objects, looks = 0;
	pthread_t thread[2];
	int err;

	me->rlim[type] = (struct rlim){ RLIM_INF, RLIM_INF };
	storming = 2;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, storm,
			       copy_process(me, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND, &err,
					    &why));
	for (; READ_ONCE(storming); usleep(50)) {
		if (looks++ % 2)
			ucounts_recover(1ull << 63 | (uint64_t)type << 32 | ucounts_index(uc));
		else if (!ucounts_check(uc, type, &counter, &objects))
			cr_assert_eq(counter, objects);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	cr_log_info("%ld looks, %ld retreats", looks, (long)atomic64_read(&world->retreats));
	cr_assert_eq(charged(), 0);
}

Test(signal, permission_is_by_the_emulated_ids)
{
	struct cred cred;
	struct task_struct *other = task_adopt(me, getppid(), getppid());

	cr_assert_not_null(other);
	cred_init(&cred, 1000, 1000);
	me->cred = cred;
	cred_init(&cred, 2000, 2000);
	other->cred = cred;
	cr_assert_eq(check_kill_permission(me, SIGUSR1), 0);
	cr_assert_eq(check_kill_permission(other, 65), -EINVAL);
	cr_assert_eq(check_kill_permission(other, SIGUSR1), -EPERM);
	other->cred.suid = 1000;
	cr_assert_eq(check_kill_permission(other, SIGUSR1), 0);
	other->cred.suid = 2000;
	me->cred.euid = 2000;
	cr_assert_eq(check_kill_permission(other, SIGUSR1), 0);
}

Test(signal, everything_goes_with_the_task)
{
	send_to(PENDING_SHARED, RT);
	send_to(PENDING_PRIVATE, RT);
	send_to(PENDING_SHARED, SIGUSR1);
	signal_flush(me);
	cr_assert_eq(charged(), 0);
	cr_assert_eq(me->sig_used[PENDING_SHARED], 0);
}

/* Whoever releases a task may have flushed its queues already: nothing comes into them any more. */
Test(signal, nothing_is_charged_to_a_task_that_is_being_released)
{
	struct task_struct *t = copy_process(me, SIGCHLD, &(int){ 0 }, &why);
	uint64_t slot;
	int how;

	cr_assert(task_born(t, task_ref(t), getpid() + 1, getpid() + 1));
	slot = t->slot;
	t->slot = slot_word(SLOT_RELEASING, slot_gen(slot), task_ref(me));
	how = send_signal(t, PENDING_SHARED, RT, SI_QUEUE, &mark, &why);
	cr_assert_eq(how, SEND_COALESCED);
	sent_signal(t, PENDING_SHARED, RT, how, false);
	t->slot = slot;
	cr_assert_eq(charged(), 0);
	cr_assert(!signal_is_known(t, PENDING_SHARED, RT));
}

Test(signal, the_dead_keep_nothing)
{
	signal_dead(me);
	cr_assert_eq(send_to(PENDING_SHARED, RT), SEND_COALESCED);
	cr_assert_eq(charged(), 0);
}

/* A process can be in thousands of groups, and what we want comes after them. */
Test(signal, sets_are_found_behind_a_long_line)
{
	char path[] = "/tmp/kpemu-status-XXXXXX";
	struct kernel_sets sets;
	FILE *f = fdopen(mkstemp(path), "w");

	cr_assert_not_null(f);
	fputs("Name:\tx\nState:\tZ (zombie)\nGroups:\t", f);
	for (int i = 0; i < 5000; i++)
		fprintf(f, "%d ", i);
	fputs("\nSigPnd:\t0000000000000200\nShdPnd:\t8000000000000001\n"
	      "SigBlk:\t00000000000000f0\nSigIgn:\t0000000000001000\n",
	      f);
	fclose(f);
	cr_assert_eq(read_kernel_sets(path, &sets), 0);
	unlink(path);
	cr_assert(sets.dead);
	cr_assert_eq(sets.pending[PENDING_PRIVATE], 0x200);
	cr_assert_eq(sets.pending[PENDING_SHARED], 0x8000000000000001);
	cr_assert_eq(sets.blocked, 0xf0);
	cr_assert_eq(sets.ignored, 0x1000);
	cr_assert_eq(read_kernel_sets(path, &sets), -ENOENT);
}
