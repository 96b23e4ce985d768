// SPDX-License-Identifier: GPL-2.0-or-later
/* 01: fork until RLIMIT_NPROC stops it (LTP fork12/setrlimit01, node spawn EAGAIN).
 * limits: nproc=8, ordinary uid. prints how many children fit and the errno.
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

int main(void)
{
	pid_t v[64];
	int n = 0, e = 0;
	while (n < 64) {
		pid_t p = sleeper();
		if (p < 0) { e = errno; break; }
		v[n++] = p;
	}
	reap(v, n);
	pid_t p = sleeper();		/* the slots came back */
	int again = p > 0;
	if (again) reap(&p, 1);
	printf("01 children=%d err=%s after_reap=%s\n", n, en(e), again ? "ok" : "fail");
	return 0;
}
