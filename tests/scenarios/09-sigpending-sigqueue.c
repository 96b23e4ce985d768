// SPDX-License-Identifier: GPL-2.0-or-later
/* 09: real-time signals pile up behind a blocked reader until sigqueue fails
 * (971-Robot-Code 25 "Ran out of signals").
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
	sigset_t s;
	union sigval v = { 0 };
	char q[64], q2[64];
	int n = 0, e = 0;
	struct timespec z = { 0, 0 };
	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN);
	sigaddset(&s, SIGUSR1);
	sigprocmask(SIG_BLOCK, &s, NULL);
	while (n < 1000 && !sigqueue(getpid(), SIGRTMIN, v))
		n++;
	e = n < 1000 ? errno : 0;
	status(0, "SigQ", q, sizeof q);
	int k = kill(getpid(), SIGUSR1);	/* plain kill still gets through */
	sigset_t p;
	sigpending(&p);
	int got = 0;
	while (sigtimedwait(&s, NULL, &z) > 0)
		got++;
	status(0, "SigQ", q2, sizeof q2);
	printf("09 queued=%d err=%s SigQ=%s kill=%s usr1_pending=%d drained=%d SigQ=%s\n",
	       n, en(e), q, k ? "fail" : "ok", sigismember(&p, SIGUSR1), got, q2);
	return 0;
}
