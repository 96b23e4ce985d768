// SPDX-License-Identifier: GPL-2.0-or-later
/* 02: threads count as processes (OpenBLAS blas_thread_init, Go newosproc).
 * limits: nproc=6. a program with threads then cannot even fork a helper.
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
#include <pthread.h>

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

static void *idle(void *a) { (void)a; pause(); return NULL; }
int main(void)
{
	pthread_t t;
	int n = 0, e = 0;
	while (n < 64 && !(e = pthread_create(&t, NULL, idle, NULL)))
		n++;
	pid_t p = sleeper();
	int fe = p < 0 ? errno : 0;
	if (p > 0) reap(&p, 1);
	printf("02 threads=%d err=%s then_fork=%s\n", n, en(e), en(fe));
	fflush(stdout);
	_exit(0);
}
