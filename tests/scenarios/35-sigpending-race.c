// SPDX-License-Identifier: GPL-2.0-or-later
/* 35: four processes race for one budget: the total accepted must be exactly the
 * limit (the property an inexact counter can break; Chen Ridong percpu_counter and
 * rlimit-cache patches, 2025).
 * limits: sigpending=64.
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
	int up[2], got[4], tot = 0;
	char q[64];
	sigset_t s;
	union sigval v = { 0 };
	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &s, NULL);
	if (pipe(up)) return 2;
	pid_t k[4];
	for (int i = 0; i < 4; i++)
		if (!(k[i] = fork())) {
			int n = 0, miss = 0;
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			while (miss < 500)
				if (sigqueue(getpid(), SIGRTMIN, v)) miss++;
				else { n++; miss = 0; }
			if (write(up[1], &n, sizeof n) != sizeof n) _exit(1);
			for (;;) pause();
		}
	for (int i = 0; i < 4; i++) {
		if (read(up[0], &got[i], sizeof got[i]) != sizeof got[i]) return 2;
		tot += got[i];
	}
	status(0, "SigQ", q, sizeof q);
	for (int i = 0; i < 4; i++) if (k[i] > 0) { kill(k[i], SIGKILL); waitpid(k[i], NULL, 0); }
	printf("35 procs=4 total=%d SigQ=%s after_kill=%s\n", tot, q, status(0, "SigQ", (char[64]){0}, 64));
	return 0;
}
