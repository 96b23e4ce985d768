// SPDX-License-Identifier: GPL-2.0-or-later
/* 06: going over the limit with setuid is noticed only at execve
 * (PF_NPROC_EXCEEDED; systemd 22494 shows it as status=203/EXEC EAGAIN).
 * start as root. uid 47106 already has 3 tasks, limit 2.
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

#define UID 47106
int main(void)
{
	pid_t h = fork();
	if (!h) {
		if (setresgid(UID, UID, UID) || setresuid(UID, UID, UID)) _exit(9);
		sleeper(); sleeper();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) pause();
	}
	usleep(200000);
	pid_t b = fork();
	if (!b) {
		char *av[] = { "true", NULL }, *ev[] = { NULL };
		soft(RLIMIT_NPROC, 2);
		int r = setresgid(UID, UID, UID) || setresuid(UID, UID, UID);
		int se = r ? errno : 0;
		execve("/bin/true", av, ev);
		int e1 = errno;
		soft(RLIMIT_NPROC, 10);
		execve("/bin/true", av, ev);	/* flag is dropped if below the limit now */
		printf("06 second exec failed %s\n", en(errno));
		fflush(stdout);
		_exit(e1 == EAGAIN && !se ? 21 : 22);
	}
	int st;
	waitpid(b, &st, 0);
	/* first exec failing and second one working gives exit status 0 of true;
	 * to tell it apart from the first exec working, repeat without the raise */
	pid_t c = fork();
	if (!c) {
		char *av[] = { "true", NULL }, *ev[] = { NULL };
		soft(RLIMIT_NPROC, 2);
		if (setresgid(UID, UID, UID) || setresuid(UID, UID, UID)) _exit(30 + (errno == EAGAIN));
		execve("/bin/true", av, ev);
		_exit(errno == EAGAIN ? 11 : 12);
	}
	int st2;
	waitpid(c, &st2, 0);
	if (h > 0) { kill(h, SIGKILL); waitpid(h, NULL, 0); }
	printf("06 setuid=%s exec_over_limit=%s exec_after_raise=%s\n",
	       WEXITSTATUS(st2) >= 30 ? "fail" : "ok",
	       WEXITSTATUS(st2) == 11 ? "EAGAIN" : WEXITSTATUS(st2) == 0 ? "ok" : "?",
	       WEXITSTATUS(st) == 0 ? "ok" : "fail");
	return 0;
}
