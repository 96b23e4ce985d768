// SPDX-License-Identifier: GPL-2.0-or-later
/* 05: the namespace is below its limit but the level above is full
 * (podman 28940/29209: leaked conmon processes make crun clone fail).
 * limits: nproc=10. outside: main + 5; inside soft limit stays 10.
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

/* new user namespace, caller's uid mapped to root inside */
static int new_userns(int extra)
{
	char b[64];
	int u = geteuid(), g = getegid(), fd;
	if (unshare(CLONE_NEWUSER | extra))
		return -1;
	if ((fd = open("/proc/self/setgroups", O_WRONLY)) >= 0) {
		if (write(fd, "deny", 4) < 0) perror("setgroups");
		close(fd);
	}
	snprintf(b, sizeof b, "0 %d 1", u);
	fd = open("/proc/self/uid_map", O_WRONLY);
	if (fd < 0 || write(fd, b, strlen(b)) < 0)
		return -1;
	close(fd);
	snprintf(b, sizeof b, "0 %d 1", g);
	fd = open("/proc/self/gid_map", O_WRONLY);
	if (fd < 0 || write(fd, b, strlen(b)) < 0)
		return -1;
	close(fd);
	return 0;
}

int main(void)
{
	pid_t a[5];
	for (int i = 0; i < 5; i++)
		a[i] = sleeper();
	pid_t b = fork();
	if (!b) {
		pid_t v[32];
		int n = 0, e = 0;
		if (new_userns(0)) { printf("05 unshare %s\n", en(errno)); fflush(stdout); _exit(1); }
		while (n < 32 && (v[n] = sleeper()) > 0)
			n++;
		e = n < 32 ? errno : 0;
		reap(v, n);
		printf("05 inside_tasks=%d of limit=10 children=%d err=%s\n", n + 1, n, en(e));
		fflush(stdout);
		_exit(0);
	}
	waitpid(b, NULL, 0);
	reap(a, 5);
	return 0;
}
