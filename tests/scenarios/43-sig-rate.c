// SPDX-License-Identifier: GPL-2.0-or-later
/* 43: will-it-scale signal1 in small: N processes of one uid send themselves a queued
 * signal and take it back (Chen Ridong: 380068 -> 129152 per container from 1 to 64).
 * limits: sigpending=1024. rate goes to stderr.
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
	int n = sysconf(_SC_NPROCESSORS_ONLN), up[2];
	char q[64];
	long tot = 0, r;
	if (n > 8) n = 8;
	if (pipe(up)) return 2;
	for (int i = 0; i < n; i++)
		if (!fork()) {
			sigset_t s;
			union sigval v = { 0 };
			struct timespec t0, t;
			long c = 0, bad = 0;
			sigemptyset(&s);
			sigaddset(&s, SIGRTMIN);
			sigprocmask(SIG_BLOCK, &s, NULL);
			clock_gettime(CLOCK_MONOTONIC, &t0);
			do {
				for (int k = 0; k < 100; k++) {
					bad += sigqueue(getpid(), SIGRTMIN, v) != 0;
					bad += sigwaitinfo(&s, NULL) != SIGRTMIN;
					c++;
				}
				clock_gettime(CLOCK_MONOTONIC, &t);
			} while (t.tv_sec - t0.tv_sec + (t.tv_nsec - t0.tv_nsec) / 1e9 < 0.7);
			r = bad ? -1 : c;
			if (write(up[1], &r, sizeof r) != sizeof r) _exit(1);
			_exit(0);
		}
	int bad = 0;
	for (int i = 0; i < n; i++) {
		if (read(up[0], &r, sizeof r) != sizeof r) return 2;
		if (r < 0) bad++; else tot += r;
	}
	while (wait(NULL) > 0)
		;
	printf("43 bad=%d SigQ=%s\n", bad, status(0, "SigQ", q, sizeof q));
	fprintf(stderr, "43 detail: procs=%d pairs_per_second_per_proc=%ld\n", n, (long)(tot / 0.7 / n));
	return 0;
}
