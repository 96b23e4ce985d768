/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Children that hold their unit of the process limit, and how many more there can be. */
#ifndef TESTS_PRELOAD_CHILDREN_H
#define TESTS_PRELOAD_CHILDREN_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/preload/check.h"

#define CHILDREN_MAX 40

static inline long nproc_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NPROC, &r))
		die("getrlimit");
	return r.rlim_cur;
}

/* hold_child - a child that waits to be killed. Its pid, or -1. */
static inline pid_t hold_child(void)
{
	pid_t pid = fork();

	while (!pid)
		pause();
	return pid;
}

static inline void kill_child(pid_t pid)
{
	kill(pid, SIGKILL);
	if (waitpid(pid, NULL, 0) != pid)
		die("waitpid");
}

/* zombie_child - a child that has ended and that nobody has waited for. */
static inline pid_t zombie_child(void)
{
	pid_t pid = fork();
	siginfo_t info;

	if (pid < 0)
		die("fork");
	if (!pid)
		_exit(7);
	if (waitid(P_PID, pid, &info, WEXITED | WNOWAIT))
		die("waitid");
	return pid;
}

/* fill - children until fork is refused; how many. drain() ends them. */
static inline int fill(pid_t *pid)
{
	int n = 0;

	while (n < CHILDREN_MAX && (pid[n] = hold_child()) > 0)
		n++;
	return n;
}

static inline void drain(const pid_t *pid, int n)
{
	while (n--)
		kill_child(pid[n]);
}

/*
 * forks_left - how many children there can be now. All of them have ended afterwards. @errno_now:
 * what the last fork said, 0 if CHILDREN_MAX were not refused.
 */
static inline int forks_left_err(int *errno_now)
{
	pid_t pid[CHILDREN_MAX];
	int n = fill(pid);

	*errno_now = n < CHILDREN_MAX ? errno : 0;
	drain(pid, n);
	return n;
}

static inline int forks_left(void)
{
	int err, n = forks_left_err(&err);

	if (err != EAGAIN)
		check_err("fork_at_limit", EAGAIN, err);
	return n;
}

/* A pipe for one word between relatives. */
struct line {
	int fd[2];
};

static inline struct line line_open(void)
{
	struct line l;

	if (pipe(l.fd))
		die("pipe");
	return l;
}

static inline void line_say(const struct line *l, int word)
{
	if (write(l->fd[1], &word, sizeof(word)) != sizeof(word))
		_exit(99);
}

/* line_hear - the next word; -1000 when none comes. */
static inline int line_hear(const struct line *l)
{
	int word;

	return read_within(l->fd[0], &word, sizeof(word), 5000) ? word : -1000;
}

#endif
