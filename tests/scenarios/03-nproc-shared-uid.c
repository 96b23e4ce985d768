// SPDX-License-Identifier: GPL-2.0-or-later
/* 03: two "containers" with one uid share the count, the limit is per process
 * (moby 31424, docker/for-linux 654, openedx/codejail 239).
 * limits: nproc=64. A holds 5 children; B lowers its own soft limit to 4.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

static __attribute__((unused)) const char *en(int e)
{
	switch (e) {
	case 0: return "ok";
	case EAGAIN: return "EAGAIN";
	case ENOMEM: return "ENOMEM";
	case EMFILE: return "EMFILE";
	case EPERM: return "EPERM";
	case ENOSPC: return "ENOSPC";
	case EINVAL: return "EINVAL";
	case ENOSYS: return "ENOSYS";
	case EEXIST: return "EEXIST";
	case EACCES: return "EACCES";
	default: return strerror(e);
	}
}

/* fork a child that only sleeps; -1 and errno on failure */
static pid_t sleeper(void)
{
	pid_t me = getpid(), p = fork();
	if (p == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != me)
			_exit(0);
		for (;;)
			pause();
	}
	return p;
}

static __attribute__((unused)) void reap(pid_t *v, int n)
{
	for (int i = 0; i < n; i++) {
		if (v[i] <= 0)		/* never kill(-1) */
			continue;
		kill(v[i], SIGKILL);
		waitpid(v[i], NULL, 0);
	}
}

static void soft(int r, rlim_t v)
{
	struct rlimit l;
	getrlimit(r, &l);
	l.rlim_cur = v;
	if (setrlimit(r, &l))
		perror("setrlimit");
}

int main(void)
{
	pid_t a[5];
	for (int i = 0; i < 5; i++)
		a[i] = sleeper();
	fflush(stdout);
	pid_t b = fork();
	if (!b) {
		pid_t p;
		int before, after;
		soft(RLIMIT_NPROC, 4);
		p = sleeper();
		before = p < 0 ? errno : 0;
		soft(RLIMIT_NPROC, 8);		/* main + 5 + B = 7, one slot left */
		p = sleeper();
		after = p < 0 ? errno : 0;
		if (p > 0) reap(&p, 1);
		printf("03 B own_children=0 limit4=%s limit8=%s\n", en(before), en(after));
		fflush(stdout);
		_exit(0);
	}
	waitpid(b, NULL, 0);
	reap(a, 5);
	return 0;
}
