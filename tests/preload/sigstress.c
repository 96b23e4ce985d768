/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes with threads send each other signals and take them in every way there is. After each
 * round everybody stands still, and the number of pending signals that programs read has to be the
 * real kernel's, which is read past every library. Natively the two are the same.
 *
 * usage: sigstress [--rounds N] [--ops N] [--processes N] [--threads N] [--seed N] [--ignored]
 *                  [--with OP,OP...] [--without OP,OP...] [--list]
 *
 * --ops counts the operations of a process in a round. --ignored: SIG_IGN and SIG_DFL of signals
 * that are ignored by default, too. Exit status 0: equal in all rounds, and at the end nothing is
 * left. The same seed makes the same choices; how they interleave stays the scheduler's.
 */
#include <getopt.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "emu/lib/rawsys.h"
#include "tests/preload/check.h"

#define PROCESSES_MAX 16
#define THREADS_MAX   8
#define STALL_SECONDS 30
#define DIAGNOSES     3 /* as many differences are told at length */

/*
 * Real-time signals with a rule of their own. GUARD is never ignored and reaches its thread only by
 * a private send, so that whoever has sent it to itself can wait without a limit in time. ONCE can
 * be SA_RESETHAND although it kills by default: it is unblocked in first threads only, these alone
 * send it, to themselves, and its handler blocks everything. (A send by anybody else would find the
 * default action before the kernel has blocked the signal for the handler.) LOSSY is what is sent
 * to those who will not take it: children and threads about to end.
 */
#define GUARD (SIGRTMIN + 2)
#define ONCE  (SIGRTMIN + 4)
#define LOSSY (SIGRTMIN + 1)

static int sigs[32];
static int nr_sigs;
static int legacy_sigs; /* the first so many of sigs[] */

static int rounds = 100, processes = 6, threads = 3, ops = 200;
static bool ignored;
static uint64_t seed;

/* What all processes share. */
struct shared {
	atomic_int round; /* futex: whoever stands still goes on when it changes */
	atomic_int arrived; /* futex: threads that stand still */
	atomic_int quiet; /* handlers do nothing but count */
	atomic_int pid[PROCESSES_MAX];
	atomic_int tid[PROCESSES_MAX][THREADS_MAX];
	atomic_int doing[PROCESSES_MAX][THREADS_MAX]; /* index in op[], -1 */
	atomic_int forking, grouping; /* threads inside fork, inside a send to the group */
	/* Of each thread: its child, who is sending to it just now, and its short-lived thread. */
	atomic_int child[PROCESSES_MAX][THREADS_MAX];
	atomic_int chasing[PROCESSES_MAX][THREADS_MAX];
	atomic_int short_tid[PROCESSES_MAX][THREADS_MAX];
	atomic_long sent[_NSIG], got[_NSIG];
	atomic_long sends, refused, failed, handled, taken, nested, jumps, children, zombies;
	atomic_long bad_info;
	atomic_int bad[4]; /* the first bad siginfo: signal, code, pid, uid */
};
static struct shared *all;

/* A thread; NULL where it has not begun yet and in the judge. */
struct self {
	int p, t;
	uint64_t rng;
	volatile int depth; /* handlers it is in */
	volatile sig_atomic_t jump_ok;
	bool brief; /* a short-lived thread, which sends less */
	pid_t zombie; /* a child that has ended and stays so through the comparison */
	int sfd, sfd_dup, epfd;
	sigjmp_buf env;
};
static __thread struct self *self;

static pthread_t own_threads[THREADS_MAX];
static int pidfd[PROCESSES_MAX];
static uid_t my_uid;
static pid_t my_pid; /* of the process, also in its children */

/* --- chance --- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

static unsigned int below(unsigned int n)
{
	self->rng += 0x9e3779b97f4a7c15;
	return (mix(self->rng) >> 32) % n;
}

/* one_in - true once in @n times. */
static bool one_in(unsigned int n)
{
	return !below(n);
}

static int any_sig(void)
{
	return sigs[below(nr_sigs)];
}

/* For those who may end before they have taken it. */
static int any_lossy(void)
{
	return one_in(2) ? LOSSY : sigs[below(legacy_sigs)];
}

/* The random set @set, as thick as @of = 0 .. 4 quarters. */
static void any_set(sigset_t *set, unsigned int of)
{
	sigemptyset(set);
	for (int i = 0; i < nr_sigs; i++)
		if (below(4) < of)
			sigaddset(set, sigs[i]);
}

static bool owns_once(void)
{
	return self->t == 0 && !self->brief && !self->depth;
}

/* A mask that keeps the rules of GUARD and ONCE. */
static void any_mask(sigset_t *mask)
{
	any_set(mask, below(4));
	if (!owns_once())
		sigaddset(mask, ONCE);
	if (self->depth)
		sigaddset(mask, GUARD);
}

/* --- what is sent and what comes --- */

/* A handler may run in a child before the child itself has begun. */
static bool in_child(void)
{
	return getpid() != my_pid;
}

static int value_of(int sig)
{
	return sig * 1000003 + 7;
}

static bool has_value(const siginfo_t *info)
{
	return info->si_code < 0 && info->si_code != SI_TKILL;
}

static void check_info(int sig, const siginfo_t *info)
{
	bool good = info->si_signo == sig && info->si_pid > 0 && info->si_uid == my_uid;

	if (has_value(info))
		good &= info->si_value.sival_int == value_of(sig);
	if (good || atomic_fetch_add(&all->bad_info, 1))
		return;
	all->bad[0] = sig;
	all->bad[1] = info->si_code;
	all->bad[2] = info->si_pid;
	all->bad[3] = info->si_uid;
}

static void came(int sig, const siginfo_t *info)
{
	if (info)
		check_info(sig, info);
	if (!in_child())
		atomic_fetch_add(&all->got[sig], 1);
}

/* sent - @n entries at most have been sent; @err is errno, 0 for success. */
static void sent(int sig, int n, int err)
{
	atomic_fetch_add(&all->sends, 1);
	if (!err)
		atomic_fetch_add(&all->sent[sig], n);
	else if (err == EAGAIN)
		atomic_fetch_add(&all->refused, 1);
	else if (err != ESRCH)
		atomic_fetch_add(&all->failed, 1);
}

static void fill_info(siginfo_t *info, int sig)
{
	static const int code[] = { SI_QUEUE, SI_MESGQ, SI_ASYNCIO, -60, -77 };

	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = code[below(sizeof(code) / sizeof(*code))];
	info->si_pid = getpid();
	info->si_uid = my_uid;
	info->si_value.sival_int = value_of(sig);
}

static int to_process(int p, pid_t pid, int sig)
{
	union sigval value = { .sival_int = value_of(sig) };
	siginfo_t info;

	switch (below(p >= 0 && pidfd[p] >= 0 ? 5 : 3)) {
	case 0:
		return err_of(kill(pid, sig));
	case 1:
		return err_of(sigqueue(pid, sig, value));
	case 2:
		fill_info(&info, sig);
		return err_of(syscall(SYS_rt_sigqueueinfo, pid, sig, &info));
	case 3:
		return err_of(syscall(SYS_pidfd_send_signal, pidfd[p], sig, NULL, 0));
	default:
		fill_info(&info, sig);
		return err_of(syscall(SYS_pidfd_send_signal, pidfd[p], sig, &info, 0));
	}
}

static int to_thread(pid_t pid, pid_t tid, int sig)
{
	siginfo_t info;

	switch (below(4)) {
	case 0:
		return err_of(syscall(SYS_tkill, tid, sig));
	case 1:
		fill_info(&info, sig);
		return err_of(syscall(SYS_rt_tgsigqueueinfo, pid, tid, sig, &info));
	case 2:
		return err_of(syscall(SYS_tgkill, pid, tid, sig));
	default:
		return err_of(tgkill(pid, tid, sig));
	}
}

static int to_own_thread(int t, int sig)
{
	union sigval value = { .sival_int = value_of(sig) };

	if (one_in(2))
		return pthread_kill(own_threads[t], sig);
	return pthread_sigqueue(own_threads[t], sig, value);
}

static int to_self(int sig)
{
	union sigval value = { .sival_int = value_of(sig) };

	switch (below(4)) {
	case 0:
		return err_of(raise(sig));
	case 1:
		return pthread_kill(pthread_self(), sig);
	case 2:
		return pthread_sigqueue(pthread_self(), sig, value);
	default:
		return to_thread(getpid(), gettid(), sig);
	}
}

static int any_sig_for_others(void)
{
	int sig;

	do
		sig = any_sig();
	while (sig == GUARD || sig == ONCE);
	return sig;
}

static int any_sig_for_self(void)
{
	int sig;

	if (self->brief)
		return any_lossy();
	do
		sig = any_sig();
	while (sig == ONCE && self->t != 0);
	return sig;
}

/* --- sends --- */

static void op_process(void)
{
	int p = below(processes), sig = any_sig_for_others();

	sent(sig, 1, to_process(p, all->pid[p], sig));
}

static void op_own(void)
{
	int sig = any_sig_for_self();

	if (sig == GUARD)
		sig = LOSSY;
	sent(sig, 1, to_process(self->p, getpid(), sig));
}

static void op_thread(void)
{
	int p = below(processes), t = below(threads), sig = any_sig_for_others();

	sent(sig, 1, to_thread(all->pid[p], all->tid[p][t], sig));
}

static void op_pthread(void)
{
	int sig = any_sig_for_others();

	sent(sig, 1, to_own_thread(below(threads), sig));
}

static void op_raise(void)
{
	int sig = any_sig_for_self();

	sent(sig, 1, to_self(sig));
}

/*
 * Who forks while the group is sent a signal gets it in the child as a mere bit, with no entry and
 * no siginfo (kernel/fork.c, struct multiprocess_signals). Unless that is wanted, one waits.
 */
static bool forkgroup;

static void op_group(void)
{
	int sig = any_sig_for_others(), jump_ok = self->jump_ok, err = ESRCH;

	self->jump_ok = 0;
	atomic_fetch_add(&all->grouping, 1);
	if (forkgroup || !all->forking) {
		switch (below(3)) {
		case 0:
			err = err_of(killpg(all->pid[0], sig));
			break;
		case 1:
			err = err_of(kill(-all->pid[0], sig));
			break;
		default:
			err = err_of(kill(0, sig));
		}
	}
	atomic_fetch_sub(&all->grouping, 1);
	sent(sig, processes, err);
	self->jump_ok = jump_ok;
}

/* Somebody's short-lived thread, which may end before, during or after. */
static void op_brief(void)
{
	int p = below(processes), t = below(threads), sig = any_lossy();
	pid_t tid = all->short_tid[p][t];

	if (tid)
		sent(sig, 1, to_thread(all->pid[p], tid, sig));
}

static bool chase; /* also children that may be ending just now */

/* Somebody's child, which waits for us before it ends. */
static void op_child(void)
{
	int p = below(processes), t = below(threads), sig = any_lossy();
	int jump_ok = self->jump_ok;
	pid_t pid;

	self->jump_ok = 0;
	atomic_fetch_add(&all->chasing[p][t], 1);
	pid = all->child[p][t];
	if (pid)
		sent(sig, 1, to_process(-1, pid, sig));
	atomic_fetch_sub(&all->chasing[p][t], 1);
	self->jump_ok = jump_ok;
}

/* --- handlers --- */

enum {
	NESTED,
	JUMP,
	HANDLER_MASK,
	UCONTEXT,
	NR_HABITS
};
static const char *const habit_name[NR_HABITS] = { "nested", "jump", "handlermask", "ucontext" };
static bool habit[NR_HABITS] = { true, true, true, true };

static void handle(int sig, siginfo_t *info, void *uc);
static void handle_plain(int sig)
{
	handle(sig, NULL, NULL);
}

static void fill_action(struct sigaction *sa, int sig)
{
	memset(sa, 0, sizeof(*sa));
	if (!self || one_in(2)) {
		sa->sa_sigaction = handle;
		sa->sa_flags = SA_SIGINFO;
	} else {
		sa->sa_handler = handle_plain;
	}
	sigfillset(&sa->sa_mask);
	if (!self)
		return;
	if (one_in(2))
		sa->sa_flags |= SA_RESTART;
	if (sig == ONCE) {
		sa->sa_flags |= one_in(2) ? SA_RESETHAND : 0;
		return;
	}
	if (one_in(3))
		sa->sa_flags |= SA_NODEFER;
	any_set(&sa->sa_mask, below(4));
}

static bool ignored_by_default(int sig)
{
	return sig == SIGCHLD || sig == SIGURG || sig == SIGWINCH || sig == SIGCONT;
}

static void arm(int sig)
{
	struct sigaction sa;

	fill_action(&sa, sig);
	if (self && ignored && ignored_by_default(sig) && one_in(4))
		sa.sa_flags |= SA_RESETHAND;
	if (sigaction(sig, &sa, NULL))
		_exit(97);
}

/* Nobody who jumps away may leave something of ours half done: then jump_ok is 0. */
static void nested_deeds(void *uc)
{
	sigset_t mask, old;

	if (habit[NESTED] && one_in(6) && self->depth < 3 && !self->brief && !in_child()) {
		atomic_fetch_add(&all->nested, 1);
		switch (below(5)) {
		case 0:
			op_own();
			break;
		case 1:
			op_thread();
			break;
		case 2:
			op_pthread();
			break;
		case 3:
			op_raise();
			break;
		default:
			op_process();
		}
	}
	if (habit[HANDLER_MASK] && one_in(20)) {
		any_mask(&mask);
		pthread_sigmask(SIG_SETMASK, &mask, &old);
		if (one_in(2))
			pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (habit[UCONTEXT] && uc && one_in(20)) {
		int sig = any_sig_for_others();

		if (sig != ONCE && one_in(2))
			sigdelset(&((ucontext_t *)uc)->uc_sigmask, sig);
		else if (sig != ONCE)
			sigaddset(&((ucontext_t *)uc)->uc_sigmask, sig);
	}
}

static void handle(int sig, siginfo_t *info, void *uc)
{
	int err = errno;

	if (sig == ONCE)
		arm(ONCE);
	came(sig, info);
	atomic_fetch_add(&all->handled, 1);
	if (self && !all->quiet) {
		self->depth++;
		nested_deeds(uc);
		if (habit[JUMP] && self->jump_ok && one_in(40))
			siglongjmp(self->env, 1);
		self->depth--;
	}
	errno = err;
}

/* --- dispositions and masks --- */

static void op_action(void)
{
	int sig = any_sig();

	if (ignored && sig != GUARD && one_in(2)) {
		struct sigaction sa = { .sa_handler = SIG_IGN };

		if (ignored_by_default(sig) && one_in(2))
			sa.sa_handler = SIG_DFL;
		if (one_in(4))
			signal(sig, sa.sa_handler);
		else
			sigaction(sig, &sa, NULL);
	} else if (sig != ONCE && sig != GUARD && one_in(4)) {
		signal(sig, handle_plain);
	} else {
		arm(sig);
	}
}

static void op_mask(void)
{
	sigset_t set;
	int how = below(3);

	any_mask(&set);
	if (how == SIG_UNBLOCK && !owns_once())
		sigdelset(&set, ONCE);
	if (one_in(2))
		sigprocmask(how, &set, NULL);
	else
		pthread_sigmask(how, &set, NULL);
}

/* --- receipts --- */

static void took(int sig, const siginfo_t *info)
{
	atomic_fetch_add(&all->taken, 1);
	came(sig, info);
}

static void op_timedwait(void)
{
	struct timespec zero = { 0 }, little = { .tv_nsec = 50000 };
	siginfo_t info;
	sigset_t set;
	bool want_info = one_in(2);
	int sig;

	any_set(&set, 1 + below(4));
	sig = sigtimedwait(&set, want_info ? &info : NULL, one_in(4) ? &little : &zero);
	if (sig > 0)
		took(sig, want_info ? &info : NULL);
}

/* guard_self - GUARD waits in our own queue, and no handler will take it away. */
static bool guard_self(void)
{
	sigset_t guard;
	int err;

	sigemptyset(&guard);
	sigaddset(&guard, GUARD);
	pthread_sigmask(SIG_BLOCK, &guard, NULL);
	err = to_self(GUARD);
	sent(GUARD, 1, err);
	return !err;
}

/* Something is pending for certain: a wait without a limit ends. */
static void op_wait(void)
{
	siginfo_t info;
	sigset_t set, waits;
	int sig;

	if (!guard_self())
		return;
	sigpending(&waits);
	any_set(&set, 1 + below(4));
	sigaddset(&set, GUARD);
	if (!sigismember(&waits, GUARD))
		return;
	switch (below(3)) {
	case 0:
		if (!sigwait(&set, &sig))
			took(sig, NULL);
		return;
	case 1:
		sig = sigwaitinfo(&set, NULL);
		if (sig > 0)
			took(sig, NULL);
		return;
	default:
		sig = sigwaitinfo(&set, &info);
		if (sig > 0)
			took(sig, &info);
	}
}

static void op_suspend(void)
{
	sigset_t mask;

	if (!guard_self())
		return;
	any_mask(&mask);
	sigdelset(&mask, GUARD);
	sigsuspend(&mask);
}

static void op_signalfd(void)
{
	struct signalfd_siginfo info[3];
	sigset_t set;
	ssize_t n;
	int fd = self->sfd;

	if (one_in(3)) {
		any_set(&set, 1 + below(4));
		signalfd(self->sfd, &set, 0);
	}
	n = read(fd, info, (1 + below(3)) * sizeof(info[0]));
	for (int i = 0; i < n / (ssize_t)sizeof(info[0]); i++) {
		siginfo_t si = { .si_signo = info[i].ssi_signo, .si_code = info[i].ssi_code };

		si.si_pid = info[i].ssi_pid;
		si.si_uid = info[i].ssi_uid;
		if (has_value(&si))
			si.si_value.sival_int = info[i].ssi_int;
		took(info[i].ssi_signo, &si);
	}
}

static void op_dup(void)
{
	int fd = self->sfd;

	self->sfd = self->sfd_dup;
	op_signalfd();
	self->sfd_dup = self->sfd;
	self->sfd = fd;
}

static void op_poll(void)
{
	struct timespec t = { .tv_nsec = one_in(3) ? 0 : below(200000) };
	struct pollfd pfd = { .fd = self->sfd, .events = POLLIN };
	struct epoll_event event;
	sigset_t mask;
	fd_set fds;

	any_mask(&mask);
	switch (below(4)) {
	case 0:
		ppoll(&pfd, 1, &t, &mask);
		break;
	case 1:
		FD_ZERO(&fds);
		FD_SET(self->sfd, &fds);
		pselect(self->sfd + 1, &fds, NULL, NULL, &t, &mask);
		break;
	case 2:
		epoll_pwait(self->epfd, &event, 1, t.tv_nsec ? 1 : 0, &mask);
		break;
	default:
#if __GLIBC_PREREQ(2, 35)
		epoll_pwait2(self->epfd, &event, 1, &t, &mask);
#else
		epoll_pwait(self->epfd, &event, 1, t.tv_nsec ? 1 : 0, &mask);
#endif
	}
}

/* --- short lives --- */

static void reap_zombie(void)
{
	if (!self->zombie)
		return;
	while (waitpid(self->zombie, NULL, 0) < 0 && errno == EINTR)
		;
	self->zombie = 0;
}

/* In a child: what it does to itself, and the end with something pending. */
static void child_life(void)
{
	atomic_int *mine = &all->child[self->p][self->t];
	sigset_t set;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	self->zombie = 0;
	if (!chase)
		setpgid(0, 0);
	atomic_store(mine, getpid());
	any_mask(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	for (int i = below(4); i; i--) {
		int sig = any_lossy();

		if (one_in(2))
			to_self(sig);
		else
			to_process(-1, getpid(), sig);
		if (one_in(4))
			op_signalfd();
	}
	atomic_store(mine, 0);
	while (!chase && atomic_load(&all->chasing[self->p][self->t]))
		sched_yield();
	_exit(0);
}

static pid_t fork_outside_groups(void)
{
	pid_t pid;

	atomic_fetch_add(&all->forking, 1);
	while (!forkgroup && all->grouping)
		sched_yield();
	pid = fork();
	if (pid)
		atomic_fetch_sub(&all->forking, 1);
	return pid;
}

static void op_fork(void)
{
	int jump_ok = self->jump_ok, err;
	siginfo_t info;
	pid_t pid;

	self->jump_ok = 0;
	reap_zombie();
	pid = fork_outside_groups();
	if (!pid)
		child_life();
	if (pid > 0) {
		atomic_fetch_add(&all->children, 1);
		do
			err = err_of(waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
		while (err == EINTR);
		/* ECHILD: SIGCHLD was ignored, the child is gone. */
		if (!err)
			self->zombie = pid;
		if (one_in(2))
			reap_zombie();
		else
			atomic_fetch_add(&all->zombies, self->zombie != 0);
	}
	self->jump_ok = jump_ok;
}

static void *brief_life(void *arg)
{
	struct self me = *(struct self *)arg;
	sigset_t mask;

	me.brief = true;
	me.zombie = 0;
	me.depth = 0;
	me.rng = mix(me.rng);
	self = &me;
	atomic_store(&all->short_tid[me.p][me.t], gettid());
	any_mask(&mask);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	for (int i = below(4); i; i--) {
		if (one_in(3))
			op_process();
		else
			op_raise();
	}
	/* A handler that still runs here finds no thread of ours, and only counts. */
	atomic_store(&all->short_tid[me.p][me.t], 0);
	self = NULL;
	return NULL;
}

static void op_create(void)
{
	int jump_ok = self->jump_ok;
	sigset_t once, old;
	pthread_t thread;

	self->jump_ok = 0;
	/* The new thread inherits the mask; only first threads may have ONCE unblocked. */
	sigemptyset(&once);
	sigaddset(&once, ONCE);
	pthread_sigmask(SIG_BLOCK, &once, &old);
	if (!pthread_create(&thread, NULL, brief_life, self)) {
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		pthread_join(thread, NULL);
	} else {
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	self->jump_ok = jump_ok;
}

/* --- the work --- */

static struct op {
	const char *name;
	void (*run)(void);
	int weight; /* 0: only --with it */
	int usual; /* the weight then */
} op[] = {
	{ "process", op_process, 24, 24 },
	{ "own", op_own, 8, 8 },
	{ "thread", op_thread, 16, 16 },
	{ "pthread", op_pthread, 10, 10 },
	{ "raise", op_raise, 12, 12 },
	{ "group", op_group, 2, 2 },
	{ "brief", op_brief, 3, 3 },
	{ "child", op_child, 3, 3 },
	{ "action", op_action, 10, 10 },
	{ "mask", op_mask, 16, 16 },
	{ "timedwait", op_timedwait, 16, 16 },
	{ "wait", op_wait, 10, 10 },
	{ "suspend", op_suspend, 6, 6 },
	{ "signalfd", op_signalfd, 14, 14 },
	{ "dup", op_dup, 0, 6 },
	{ "poll", op_poll, 10, 10 },
	{ "fork", op_fork, 2, 2 },
	{ "create", op_create, 2, 2 },
};
#define NR_OPS ((int)(sizeof(op) / sizeof(op[0])))

static void any_op(void)
{
	int total = 0, n;

	for (int i = 0; i < NR_OPS; i++)
		total += op[i].weight;
	n = below(total);
	for (int i = 0; i < NR_OPS; i++) {
		n -= op[i].weight;
		if (n >= 0)
			continue;
		all->doing[self->p][self->t] = i;
		op[i].run();
		return;
	}
}

static void work(int n)
{
	volatile int i = 0;

	if (sigsetjmp(self->env, 1))
		atomic_fetch_add(&all->jumps, 1);
	self->depth = 0;
	self->jump_ok = 1;
	while (i < n) {
		i = i + 1;
		any_op();
	}
	self->jump_ok = 0;
	all->doing[self->p][self->t] = -1;
}

/* --- standing still --- */

static void futex_wait(atomic_int *at, int value, long ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	sys_call(__NR_futex, at, FUTEX_WAIT, value, ms ? &t : NULL);
}

static void futex_wake(atomic_int *at)
{
	sys_call(__NR_futex, at, FUTEX_WAKE, INT_MAX);
}

/*
 * Blocking everything takes nothing out of a queue, and whoever has come back from it is in no
 * handler and has sent what it had to send.
 */
static void stand_still(void)
{
	int round = all->round;
	sigset_t every, old;

	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &old);
	atomic_fetch_add(&all->arrived, 1);
	futex_wake(&all->arrived);
	while (atomic_load(&all->round) == round)
		futex_wait(&all->round, round, 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Whatever we can take is taken. Handlers are quiet now. */
static void take_all(void)
{
	struct timespec zero = { 0 };
	sigset_t none, once;
	int sig;

	sigemptyset(&once);
	sigaddset(&once, ONCE);
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, self->t == 0 ? &none : &once, NULL);
	while ((sig = sigtimedwait(&once, NULL, &zero)) > 0 || errno == EINTR)
		if (sig > 0)
			took(sig, NULL);
}

static void thread_life(struct self *me)
{
	int share = (ops + threads - 1) / threads;

	me->sfd = signalfd(-1, &(sigset_t){ 0 }, SFD_NONBLOCK | SFD_CLOEXEC);
	me->sfd_dup = dup(me->sfd);
	me->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (me->sfd < 0 || me->sfd_dup < 0 || me->epfd < 0 ||
	    epoll_ctl(me->epfd, EPOLL_CTL_ADD, me->sfd, &(struct epoll_event){ .events = EPOLLIN }))
		_exit(98);
	all->tid[me->p][me->t] = gettid();
	stand_still();
	if (me->t == 0)
		for (int p = 0; p < processes; p++)
			pidfd[p] = syscall(SYS_pidfd_open, all->pid[p], 0);
	for (int round = 1; round <= rounds; round++) {
		me->rng = mix(mix(seed * 1000003 + round) + me->p * THREADS_MAX + me->t);
		work(share);
		stand_still();
	}
	reap_zombie();
	/* Half of the processes end with what they have. */
	if (!habit[JUMP] || me->p % 2 == 0)
		take_all();
	stand_still();
}

static void *thread_main(void *arg)
{
	struct self me = { .p = *(int *)arg / THREADS_MAX, .t = *(int *)arg % THREADS_MAX };

	self = &me;
	thread_life(&me);
	self = NULL;
	return NULL;
}

static void process_life(int p)
{
	struct self me = { .p = p };
	int who[THREADS_MAX];
	sigset_t once;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	my_pid = getpid();
	setpgid(0, p ? all->pid[0] : 0);
	all->pid[p] = my_pid;
	memset(pidfd, -1, sizeof(pidfd));
	sigemptyset(&once);
	sigaddset(&once, ONCE);
	pthread_sigmask(SIG_BLOCK, &once, NULL);
	own_threads[0] = pthread_self();
	for (int t = 1; t < threads; t++) {
		who[t] = p * THREADS_MAX + t;
		if (pthread_create(&own_threads[t], NULL, thread_main, &who[t]))
			_exit(96);
	}
	self = &me;
	thread_life(&me);
	self = NULL;
	for (int t = 1; t < threads; t++)
		pthread_join(own_threads[t], NULL);
	_exit(0);
}

/* --- the judge --- */

/* The file as the kernel shows it: no library sees these calls. */
static void real_status(const char *path, char *text, size_t size)
{
	int fd = sys_open(path, O_RDONLY, 0);
	long n, len = 0;

	while (fd >= 0 && len < (long)size - 1 &&
	       (n = sys_read(fd, text + len, size - 1 - len)) > 0)
		len += n;
	text[len] = 0;
	if (fd >= 0)
		sys_close(fd);
}

static void emulated_status(char *text, size_t size)
{
	int fd = open("/proc/self/status", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
}

static const char *value_in(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	if (!at)
		die(key);
	return at + strlen(key);
}

static long sigq_in(const char *text)
{
	return strtol(value_in(text, "\nSigQ:"), NULL, 10);
}

static long real_sigq(void)
{
	char text[4096];

	real_status("/proc/self/status", text, sizeof(text));
	return sigq_in(text);
}

static long emulated_sigq(void)
{
	char text[4096];

	emulated_status(text, sizeof(text));
	return sigq_in(text);
}

static long real_base, emulated_base;
static long most, total, nonzero, settled, equal, compared, changes, last_difference;

/* tell_task - its queues, if there is something in them; the legacy entries in private ones. */
static int tell_task(int p, int t)
{
	unsigned long long own, process, legacy = 0x7fffffff;
	char path[80], text[4096];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", all->pid[p], all->tid[p][t]);
	real_status(path, text, sizeof(text));
	if (!text[0]) {
		printf("  %d.%d %s: gone\n", p, t, path);
		return 0;
	}
	own = strtoull(value_in(text, "\nSigPnd:"), NULL, 16);
	process = strtoull(value_in(text, "\nShdPnd:"), NULL, 16);
	if (own || (process && t == 0))
		printf("  %d.%d tid %d: SigPnd %016llx ShdPnd %016llx SigIgn %.16s\n", p, t,
		       all->tid[p][t], own, process, value_in(text, "\nSigIgn:\t"));
	return __builtin_popcountll(own & legacy) +
	       (t == 0 ? __builtin_popcountll(process & legacy) : 0);
}

static void diagnose(const char *when, long real, long emulated)
{
	int legacy = 0;

	printf("%s: real %ld, emulated %ld, difference %+ld (before: %+ld)\n", when, real, emulated,
	       emulated - real, last_difference);
	for (int p = 0; p < processes; p++)
		for (int t = 0; t < threads && all->pid[p]; t++)
			legacy += tell_task(p, t);
	printf("  %d legacy entries without children's; again: real %ld, emulated %ld\n", legacy,
	       real_sigq() - real_base, emulated_sigq() - emulated_base);
}

/*
 * compare - the real number may still change where others of the real uid, or a thread that has
 * been joined and is not quite gone, are behind it: it is given a fifth of a second to settle.
 */
static bool compare(const char *when)
{
	long real = real_sigq() - real_base, emulated = emulated_sigq() - emulated_base;
	bool first = real == emulated;

	for (int ms = 1; ms < 150 && real != emulated; ms *= 2) {
		pause_ms(ms);
		real = real_sigq() - real_base;
	}
	settled += !first && real == emulated;
	compared++;
	total += real;
	nonzero += real != 0;
	if (real > most)
		most = real;
	equal += real == emulated;
	if (emulated - real != last_difference) {
		if (changes++ < DIAGNOSES)
			diagnose(when, real, emulated);
		last_difference = emulated - real;
	}
	return real == emulated;
}

static int worker_status(int p)
{
	int status;

	if (waitpid(all->pid[p], &status, WNOHANG) != all->pid[p])
		return -1;
	all->pid[p] = 0;
	return status;
}

__attribute__((noreturn)) static void give_up(void)
{
	for (int p = 0; p < processes; p++)
		for (int t = 0; t < threads && all->pid[p]; t++)
			printf("  %d.%d tid %d: %s\n", p, t, all->tid[p][t],
			       all->doing[p][t] < 0 ? "-" : op[all->doing[p][t]].name);
	diagnose("given up", real_sigq() - real_base, emulated_sigq() - emulated_base);
	for (int p = 0; p < processes; p++)
		if (all->pid[p])
			kill(all->pid[p], SIGKILL);
	while (wait(NULL) > 0)
		;
	printf("rounds=%d equal=%ld\n", rounds, equal);
	fflush(stdout);
	_exit(1);
}

/* Wait until all threads stand still. */
static void wait_for_all(const char *when)
{
	long long end = now_ms() + STALL_SECONDS * 1000;
	int n, status;

	while ((n = all->arrived) < processes * threads) {
		futex_wait(&all->arrived, n, 200);
		for (int p = 0; p < processes; p++) {
			status = worker_status(p);
			if (status == -1)
				continue;
			printf("%s: process %d has ended, status %#x\n", when, p, status);
			give_up();
		}
		if (now_ms() > end) {
			printf("%s: nothing moves\n", when);
			give_up();
		}
	}
}

static void let_go(void)
{
	all->arrived = 0;
	atomic_fetch_add(&all->round, 1);
	futex_wake(&all->round);
}

static bool kept(int sig)
{
	if (sig == LOSSY || sig < SIGRTMIN)
		return false;
	return !ignored || sig == GUARD;
}

/* Entries that were sent and came nowhere. A jump can hide either end: then there is no telling. */
static long lost(void)
{
	long n = 0;

	for (int i = 0; i < nr_sigs; i++)
		if (kept(sigs[i]))
			n += labs(all->sent[sigs[i]] - all->got[sigs[i]]);
	return n;
}

static void tell(void)
{
	if (all->bad_info)
		printf("bad siginfo: signal %d code %d pid %d uid %d\n", all->bad[0], all->bad[1],
		       all->bad[2], all->bad[3]);
	printf("sends=%ld refused=%ld failed=%ld handled=%ld taken=%ld nested=%ld jumps=%ld\n",
	       all->sends, all->refused, all->failed, all->handled, all->taken, all->nested,
	       all->jumps);
	printf("children=%ld zombies=%ld max=%ld mean=%ld nonzero=%ld settled=%ld changes=%ld\n",
	       all->children, all->zombies, most, total / compared, nonzero, settled, changes);
	if (habit[JUMP])
		printf("badinfo=%ld\n", all->bad_info);
	else
		printf("badinfo=%ld lost=%ld\n", all->bad_info, lost());
	printf("rounds=%d equal=%ld\n", rounds, equal);
}

static void start_all(void)
{
	pid_t pid;

	for (int i = 0; i < nr_sigs; i++)
		arm(sigs[i]);
	for (int p = 0; p < processes; p++) {
		pid = fork();
		if (pid < 0)
			die("fork");
		if (!pid)
			process_life(p);
		all->pid[p] = pid;
		setpgid(pid, all->pid[0]);
	}
	signal(SIGCHLD, SIG_DFL);
}

static int judge(void)
{
	char when[40];
	bool good;
	long in_rounds;

	real_base = real_sigq();
	emulated_base = emulated_sigq();
	start_all();
	wait_for_all("start");
	for (int round = 1; round <= rounds; round++) {
		let_go();
		snprintf(when, sizeof(when), "round %d", round);
		wait_for_all(when);
		compare(when);
		fflush(stdout);
	}
	in_rounds = equal;
	all->quiet = 1;
	let_go();
	wait_for_all("drained");
	good = compare("drained");
	let_go();
	for (int p = 0; p < processes; p++) {
		int status = 0;

		while (waitpid(all->pid[p], &status, 0) < 0 && errno == EINTR)
			;
		if (status) {
			printf("process %d ended with status %#x\n", p, status);
			good = false;
		}
	}
	good &= compare("ended");
	if (real_sigq() != real_base || emulated_sigq() != emulated_base) {
		printf("at the end: real %ld, emulated %ld\n", real_sigq() - real_base,
		       emulated_sigq() - emulated_base);
		good = false;
	}
	equal = in_rounds;
	tell();
	return good && equal == rounds && !all->failed ? 0 : 1;
}

/* --- options --- */

/* What even the real kernel answers as chance has it. */
static const struct race {
	const char *name;
	bool *on;
} race[] = { { "chase", &chase }, { "forkgroup", &forkgroup } };
#define NR_RACES 2

static void choose(char *names, bool on)
{
	for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
		bool known = false;

		for (int i = 0; i < NR_RACES; i++)
			if (!strcmp(name, race[i].name)) {
				*race[i].on = on;
				known = true;
			}
		for (int i = 0; i < NR_OPS; i++)
			if (!strcmp(name, op[i].name)) {
				op[i].weight = on ? op[i].usual : 0;
				known = true;
			}
		for (int i = 0; i < NR_HABITS; i++)
			if (!strcmp(name, habit_name[i])) {
				habit[i] = on;
				known = true;
			}
		if (!known) {
			fprintf(stderr, "sigstress: no operation %s\n", name);
			exit(2);
		}
	}
}

static void list_ops(void)
{
	for (int i = 0; i < NR_OPS; i++)
		printf("%s%s\n", op[i].name, op[i].weight ? "" : " (off)");
	for (int i = 0; i < NR_HABITS; i++)
		puts(habit_name[i]);
	for (int i = 0; i < NR_RACES; i++)
		printf("%s (off)\n", race[i].name);
}

static int number(const char *text, int from, int to)
{
	long n = strtol(text, NULL, 0);

	if (n < from || n > to) {
		fprintf(stderr, "sigstress: %s is not in %d .. %d\n", text, from, to);
		exit(2);
	}
	return n;
}

static void options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "rounds", 1, NULL, 'r' },    { "ops", 1, NULL, 'o' },
		{ "processes", 1, NULL, 'p' }, { "threads", 1, NULL, 't' },
		{ "seed", 1, NULL, 's' },      { "ignored", 0, NULL, 'i' },
		{ "with", 1, NULL, 'w' },      { "without", 1, NULL, 'x' },
		{ "list", 0, NULL, 'l' },      { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (c) {
		case 'r':
			rounds = number(optarg, 1, INT_MAX);
			break;
		case 'o':
			ops = number(optarg, 1, INT_MAX);
			break;
		case 'p':
			processes = number(optarg, 1, PROCESSES_MAX);
			break;
		case 't':
			threads = number(optarg, 1, THREADS_MAX);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'i':
			ignored = true;
			break;
		case 'w':
			choose(optarg, true);
			break;
		case 'x':
			choose(optarg, false);
			break;
		case 'l':
			list_ops();
			exit(0);
		default:
			exit(2);
		}
	if (optind < argc) {
		fprintf(stderr, "sigstress: what is %s?\n", argv[optind]);
		exit(2);
	}
}

static void choose_signals(void)
{
	static const int legacy[] = { SIGUSR1, SIGUSR2, SIGHUP,  SIGWINCH, SIGPWR,
				      SIGURG,  SIGCHLD, SIGCONT, SIGTSTP,  SIGIO };
	const int rt[] = { SIGRTMIN, LOSSY, GUARD, ONCE, SIGRTMIN + 6, SIGRTMAX };

	for (size_t i = 0; i < sizeof(legacy) / sizeof(legacy[0]); i++)
		sigs[nr_sigs++] = legacy[i];
	legacy_sigs = nr_sigs;
	for (size_t i = 0; i < sizeof(rt) / sizeof(rt[0]); i++)
		sigs[nr_sigs++] = rt[i];
}

int main(int argc, char **argv)
{
	sigset_t none;

	seed = time(NULL) ^ (uint64_t)getpid() << 20;
	options(argc, argv);
	choose_signals();
	my_uid = getuid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		die("mmap");
	printf("seed=%llu mode=%s\n", (unsigned long long)seed, ignored ? "ignored" : "plain");
	fflush(stdout);
	return judge();
}
