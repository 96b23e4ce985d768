// SPDX-License-Identifier: GPL-2.0-or-later
/* 11: every POSIX timer holds one slot of RLIMIT_SIGPENDING
 * (php/frankenphp 440 "SigQ eventually gets full", ClickHouse CANNOT_CREATE_TIMER).
 * limits: sigpending=8.
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
#include <time.h>

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
	timer_t t[64];
	char q[64], q2[64];
	int n = 0, e = 0;
	struct sigevent sv;
	memset(&sv, 0, sizeof sv);
	sv.sigev_notify = SIGEV_SIGNAL;
	sv.sigev_signo = SIGUSR1;
	while (n < 64 && !timer_create(CLOCK_MONOTONIC, &sv, &t[n]))
		n++;
	e = n < 64 ? errno : 0;
	status(0, "SigQ", q, sizeof q);
	for (int i = 0; i < n; i++)
		timer_delete(t[i]);
	status(0, "SigQ", q2, sizeof q2);
	printf("11 timers=%d err=%s SigQ=%s after_delete=%s\n", n, en(e), q, q2);
	return 0;
}
