// SPDX-License-Identifier: GPL-2.0-or-later
/* 20: mlock ENOMEM (vault 97, elasticsearch 9357, WSL 6723).
 * limits: memlock=65536 (16 pages).
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
	char *p = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char b[64];
	int n = 0, e = 0;
	while (n < 64 && !mlock(p + n * 4096, 4096))
		n++;
	e = n < 64 ? errno : 0;
	int dup = mlock(p, 4096) ? errno : 0;	/* already locked: no new charge */
	status(0, "VmLck", b, sizeof b);
	int all = mlockall(MCL_CURRENT) ? errno : 0;
	munlock(p, 4 * 4096);
	int again = mlock(p + 40 * 4096, 4 * 4096) ? errno : 0;
	struct rlimit z = { 0, 0 };
	munlockall();
	setrlimit(RLIMIT_MEMLOCK, &z);
	int zero = mlock(p, 4096) ? errno : 0;
	printf("20 pages=%d err=%s relock=%s VmLck=%s mlockall=%s after_munlock4=%s limit0=%s\n",
	       n, en(e), en(dup), b, en(all), en(again), en(zero));
	return 0;
}
