// SPDX-License-Identifier: GPL-2.0-or-later
/* 15: inside a user namespace SigQ looks fine but the parent level is full.
 * (Gladkov series, RLIMIT_SIGPENDING on ucounts).
 * limits: sigpending=16. outside holds 10, inside soft limit 16.
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

/* value text of one line of /proc/<pid>/status */
static char *status(pid_t pid, const char *key, char *out, size_t n)
{
	char path[64], line[256];
	size_t k = strlen(key);
	snprintf(path, sizeof path, "/proc/%d/status", pid ? (int)pid : (int)getpid());
	FILE *f = fopen(path, "r");
	snprintf(out, n, "?");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, key, k) && line[k] == ':') {
			char *v = line + k + 1;
			v += strspn(v, " \t");
			v[strcspn(v, "\n")] = 0;
			snprintf(out, n, "%s", v);
		}
	if (f)
		fclose(f);
	return out;
}
static __attribute__((unused)) long status_l(pid_t pid, const char *key)
{
	char b[128];
	return atol(status(pid, key, b, sizeof b));
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
	sigset_t s;
	union sigval v = { 0 };
	char q[64], q0[64];
	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &s, NULL);
	for (int i = 0; i < 10; i++)
		sigqueue(getpid(), SIGRTMIN, v);
	pid_t p = fork();
	if (!p) {
		int n = 0, e;
		if (new_userns(0)) { printf("15 unshare %s\n", en(errno)); fflush(stdout); _exit(1); }
		while (n < 100 && !sigqueue(getpid(), SIGRTMIN, v))
			n++;
		e = errno;
		status(0, "SigQ", q, sizeof q);
		status(getppid(), "SigQ", q0, sizeof q0);
		printf("15 inside=%d err=%s inside_SigQ=%s outside_SigQ=%s\n", n, en(e), q, q0);
		fflush(stdout);
		_exit(0);
	}
	waitpid(p, NULL, 0);
	return 0;
}
