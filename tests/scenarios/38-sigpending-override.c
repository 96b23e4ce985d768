// SPDX-License-Identifier: GPL-2.0-or-later
/* 38: standard signals may go over the limit and keep their siginfo, also when a
 * parent level is full ("signal: restore the override_rlimit logic", 2024: before the fix
 * the info was lost inside user namespaces).
 * limits: sigpending=16. outside holds all 16.
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
	sigset_t s, u;
	siginfo_t si;
	union sigval v = { 0 };
	struct timespec z = { 0, 0 };
	char q[64];
	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN);
	sigaddset(&s, SIGUSR1);
	sigaddset(&s, SIGUSR2);
	sigprocmask(SIG_BLOCK, &s, NULL);
	sigemptyset(&u);
	sigaddset(&u, SIGUSR1);
	sigaddset(&u, SIGUSR2);
	while (!sigqueue(getpid(), SIGRTMIN, v))
		;
	pid_t p = fork();
	if (!p) {
		int q1, q2, pid1 = -1;
		if (new_userns(0)) { printf("38 unshare %s\n", en(errno)); fflush(stdout); _exit(1); }
		q1 = kill(getpid(), SIGUSR1) ? errno : 0;
		v.sival_int = 77;
		q2 = sigqueue(getpid(), SIGUSR2, v) ? errno : 0;
		status(0, "SigQ", q, sizeof q);
		int val = -1, r;
		while (memset(&si, 0, sizeof si), (r = sigtimedwait(&u, &si, &z)) > 0)
			if (r == SIGUSR1) pid1 = si.si_pid;
			else val = si.si_value.sival_int;
		printf("38 kill=%s si_pid=%s sigqueue_usr2=%s value=%d SigQ=%s\n", en(q1),
		       pid1 == getpid() ? "self" : pid1 == 0 ? "0" : "?", en(q2), val, q);
		fflush(stdout);
		_exit(0);
	}
	waitpid(p, NULL, 0);
	return 0;
}
