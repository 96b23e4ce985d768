// SPDX-License-Identifier: GPL-2.0-or-later
/* 31: a thread that hops between CPUs while mapping and unmapping: how far is
 * /proc/self/stat (approximate) from smaps_rollup (exact)? (Sweet Tea Dorminy report,
 * Desnoyers hierarchical per-cpu counters v12-v16.)
 * no limits; prints the bound, not the value.
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

static long statm_res(void)
{
	long a = 0, b = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (fscanf(f, "%ld %ld", &a, &b) != 2) b = -1;
	fclose(f);
	return b;
}
static long stat_rss(void)
{
	char b[1024], *p;
	FILE *f = fopen("/proc/self/stat", "r");
	size_t n = fread(b, 1, sizeof b - 1, f);
	fclose(f);
	b[n] = 0;
	p = strrchr(b, ')');
	int i = 2;
	while (i < 24) { p = strchr(p + 1, ' '); i++; }
	return atol(p);
}

static long exact(void)
{
	char l[256];
	long v = 0;
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	while (fgets(l, sizeof l, f))
		if (sscanf(l, "Rss: %ld", &v) == 1)
			break;
	fclose(f);
	return v / 4;
}
int main(void)
{
	int nc = sysconf(_SC_NPROCESSORS_ONLN);
	for (int i = 0; i < 3; i++) { exact(); stat_rss(); statm_res(); }
	long worst = 0, worst_m = 0, batch = 2 * nc > 32 ? 2 * nc : 32;
	for (int i = 0; i < 200; i++) {
		cpu_set_t s;
		CPU_ZERO(&s);
		CPU_SET(i % nc, &s);
		sched_setaffinity(0, sizeof s, &s);
		int n = 1 + (i * 7) % 60;
		char *p = mmap(NULL, n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (int k = 0; k < n; k++) p[k * 4096] = 1;
		long m0 = statm_res(), e = exact(), m = statm_res(), a = stat_rss();
		if (m0 != m) continue;	/* something else was mapped meanwhile */
		if (labs(e - a) > worst) worst = labs(e - a);
		if (labs(e - m) > worst_m) worst_m = labs(e - m);
		if (i % 3) munmap(p, n * 4096);
	}
	/* three counters (file, anon, shmem), each off by at most batch-1 per cpu */
	printf("31 stat_error_within_3*batch*ncpu=%s statm_error_within_8_pages=%s\n",
	       worst <= 3 * batch * nc ? "yes" : "no", worst_m <= 8 ? "yes" : "no");
	fprintf(stderr, "31 detail: ncpu=%d batch=%ld worst_stat=%ld worst_statm=%ld pages\n", nc, batch, worst, worst_m);
	return 0;
}
