/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the signal tests share: masks, the count of pending signals, and what was received. */
#ifndef TESTS_PRELOAD_SIGNALS_H
#define TESTS_PRELOAD_SIGNALS_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/preload/children.h"

/*
 * Both programs are started with a soft limit of LIMIT signals (hard: MOST) by a user alone in its
 * account, which SigQ in /proc/PID/status therefore counts exactly.
 */
#define LIMIT         8
#define MOST          100
#define RT            SIGRTMIN
#define VALUE         4711
#define KERNEL_SIGSET 8 /* bytes of a signal set for raw system calls */

/* --- masks --- */

static inline sigset_t set_of(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	return set;
}

static inline void block(int sig)
{
	sigset_t set = set_of(sig);

	if (pthread_sigmask(SIG_BLOCK, &set, NULL))
		die("pthread_sigmask");
}

static inline void unblock(int sig)
{
	sigset_t set = set_of(sig);

	if (sigprocmask(SIG_UNBLOCK, &set, NULL))
		die("sigprocmask");
}

static inline void block_ours(void)
{
	block(SIGUSR1);
	block(SIGUSR2);
	for (int i = 0; i < 4; i++)
		block(RT + i);
}

static inline bool is_blocked(int sig)
{
	sigset_t set;

	if (pthread_sigmask(SIG_BLOCK, NULL, &set))
		die("pthread_sigmask");
	return sigismember(&set, sig);
}

static inline bool is_pending(int sig)
{
	sigset_t set;

	if (sigpending(&set))
		die("sigpending");
	return sigismember(&set, sig);
}

/* --- the limit and what is charged to it --- */

/* set_limit - the soft one. */
static inline void set_limit(long n)
{
	if (setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){ n, MOST }))
		die("setrlimit");
}

/* status_line - what follows @key, "SigQ:" for one, in /proc/@pid/status (0: the thread's own). */
static inline void status_line(pid_t pid, const char *key, char *value, size_t size)
{
	char path[64], line[4096];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(pid ? path : "/proc/thread-self/status", "r");
	*value = 0;
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			snprintf(value, size, "%.63s", line + strlen(key) + 1);
	if (f)
		fclose(f);
}

/* sigq_of - how many signals the user of @pid has pending; -1 when there is no such process. */
static inline int sigq_of(pid_t pid)
{
	char value[64];

	status_line(pid, "SigQ:", value, sizeof(value));
	return *value ? atoi(value) : -1;
}

static inline int sigq(void)
{
	return sigq_of(getpid());
}

#define check_sigq(name, want) check_eq(name, want, sigq())
#define check_sigq_soon(name, want)                \
	({                                         \
		int sigq_;                         \
		until((sigq_ = sigq()) == (want)); \
		check_eq(name, want, sigq_);       \
	})

/* waits_in - is @sig in the queue of this thread ("SigPnd:") or of the process ("ShdPnd:")? */
static inline bool waits_in(const char *queue, int sig)
{
	char value[64];

	status_line(0, queue, value, sizeof(value));
	return strtoull(value, NULL, 16) >> (sig - 1) & 1;
}

/* send_value - sigqueue(). An errno. */
static inline int send_value(pid_t pid, int sig, int value)
{
	return err_of(sigqueue(pid, sig, (union sigval){ .sival_int = value }));
}

/* fill_queue - @sig to @pid with values 1, 2, 3 ... until it is refused, @most times; how many. */
static inline int fill_queue(pid_t pid, int sig, int most)
{
	int n = 0;

	while (n < most && !send_value(pid, sig, n + 1))
		n++;
	return n;
}

/* --- receiving --- */

/* take - the next @sig that waits, at once; si_signo 0 when there is none. */
static inline siginfo_t take(int sig)
{
	sigset_t set = set_of(sig);
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	if (sigtimedwait(&set, &info, &(struct timespec){ 0 }) < 0)
		info.si_signo = 0;
	return info;
}

/* take_raw - the same without libc, which makes SI_USER of SI_TKILL. */
static inline siginfo_t take_raw(int sig)
{
	sigset_t set = set_of(sig);
	struct timespec now = { 0 };
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	if (syscall(SYS_rt_sigtimedwait, &set, &info, &now, KERNEL_SIGSET) < 0)
		info.si_signo = 0;
	return info;
}

/* take_all - how many @sig waited. */
static inline int take_all(int sig)
{
	int n = 0;

	while (n < MOST && take(sig).si_signo)
		n++;
	return n;
}

/* check_info - what came: from @pid and the emulated @uid; from nobody when both are 0. */
static inline void check_info(const char *name, const siginfo_t *info, int sig, int code, pid_t pid,
			      uid_t uid)
{
	verdict(info->si_signo == sig && info->si_code == code && info->si_pid == pid &&
			info->si_uid == uid,
		name, "want signal %d code %d pid %d uid %u, got %d %d %d %u", sig, code, pid, uid,
		info->si_signo, info->si_code, info->si_pid, info->si_uid);
}

static inline void check_own(const char *name, const siginfo_t *info, int sig, int code)
{
	check_info(name, info, sig, code, getpid(), getuid());
}

/* check_lost - only the fact of a signal has arrived. */
static inline void check_lost(const char *name, const siginfo_t *info, int sig)
{
	check_info(name, info, sig, SI_USER, 0, 0);
	check_eq(name, 0, info->si_value.sival_int);
}

/* What the handler record() saw. */
#define RECORDED 64
static volatile sig_atomic_t recorded;
static siginfo_t record_of[RECORDED];

static inline void record(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	record_of[recorded++ % RECORDED] = *info;
}

static inline void install_with(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction act = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	sigemptyset(&act.sa_mask);
	if (sigaction(sig, &act, NULL))
		die("sigaction");
}

static inline void install(int sig)
{
	install_with(sig, record, 0);
}

/* --- children --- */

/* A child that has said it is ready and does as it is told. */
struct helper {
	pid_t pid;
	struct line to, from;
};

static inline struct helper helper_start(void (*body)(struct helper *h))
{
	struct helper h = { .to = line_open(), .from = line_open() };

	h.pid = fork();
	if (h.pid < 0)
		die("fork");
	if (!h.pid) {
		failures = 0;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body(&h);
		_exit(failures != 0);
	}
	return h;
}

/* helper_ends - wait for it; its failures are ours. */
static inline void helper_ends(const char *name, struct helper *h)
{
	int status;

	if (waitpid(h->pid, &status, 0) != h->pid)
		die("waitpid");
	check_eq(name, 0, status);
	for (int i = 0; i < 2; i++) {
		close(h->to.fd[i]);
		close(h->from.fd[i]);
	}
}

static inline void helper_kill(struct helper *h)
{
	kill_child(h->pid);
}

/*
 * One that blocks our signals, says so and waits; the body of many a helper. It ends with the last
 * who could tell it anything: SIGKILL at the death of a parent does not pass between users.
 */
static inline void helper_holds(struct helper *h)
{
	block_ours();
	line_say(&h->from, 1);
	close(h->to.fd[1]);
	while (read(h->to.fd[0], &(char){ 0 }, 1) && errno == EINTR)
		;
}

#endif
