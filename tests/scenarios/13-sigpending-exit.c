// SPDX-License-Identifier: GPL-2.0-or-later
/* 13: pending signals of a dead process must be uncharged (ucounts leak fixes:
 * "ucounts: Fix signal ucount refcounting"). 50 rounds must not leak.
 * limits: sigpending=16.
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

int main(void)
{
	char q[64], m[64] = "?";
	int bad = 0;
	union sigval v = { 0 };
	for (int i = 0; i < 50; i++) {
		pid_t p = fork();
		if (!p) {
			sigset_t s;
			sigemptyset(&s);
			sigaddset(&s, SIGRTMIN);
			sigprocmask(SIG_BLOCK, &s, NULL);
			int n = 0;
			while (n < 10 && !sigqueue(getpid(), SIGRTMIN, v))
				n++;
			_exit(n);
		}
		int st;
		waitpid(p, &st, 0);
		bad += WEXITSTATUS(st) != 10;
		status(0, "SigQ", m, sizeof m);
	}
	status(0, "SigQ", q, sizeof q);
	printf("13 rounds=50 bad=%d SigQ=%s\n", bad, q);
	return 0;
}
