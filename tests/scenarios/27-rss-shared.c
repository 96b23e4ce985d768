// SPDX-License-Identifier: GPL-2.0-or-later
/* 27: the sum of RSS counts shared pages once per process (pg_exporter 36,
 * netdata 3244, netxms 3558: "3.3x physical RAM").
 * no limits. 8 MiB shared, 1 parent + 4 children, 1 MiB private each.
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

static long pss(pid_t p)
{
	char path[64], l[256];
	long v = 0;
	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", p);
	FILE *f = fopen(path, "r");
	while (f && fgets(l, sizeof l, f))
		if (sscanf(l, "Pss: %ld", &v) == 1)
			break;
	if (f) fclose(f);
	return v;
}
int main(void)
{
	size_t S = 8 << 20, P = 1 << 20;
	int up[2];
	char c;
	char *s = mmap(NULL, S, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(s, 1, S);
	pid_t k[4];
	if (pipe(up)) return 2;
	for (int i = 0; i < 4; i++)
		if (!(k[i] = fork())) {
			volatile char sum = 0;
			for (size_t o = 0; o < S; o += 4096) sum += s[o];
			char *q = mmap(NULL, P, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memset(q, 1, P);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (write(up[1], "x", 1) != 1) _exit(1);
			for (;;) pause();
		}
	for (int i = 0; i < 4; i++) if (read(up[0], &c, 1) != 1) return 2;
	long shm = status_l(0, "RssShmem"), sum = shm, sp = pss(getpid());
	for (int i = 0; i < 4; i++) {
		sum += status_l(k[i], "RssShmem");
		sp += pss(k[i]);
	}
	for (int i = 0; i < 4; i++) if (k[i] > 0) { kill(k[i], SIGKILL); waitpid(k[i], NULL, 0); }
	printf("27 RssShmem_each=%ldkB sum=%ldkB real=8192kB pss_sum_below_24MiB=%s\n",
	       shm, sum, sp > 0 && sp < 24576 ? "yes" : "no");
	return 0;
}
