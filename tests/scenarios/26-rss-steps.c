// SPDX-License-Identifier: GPL-2.0-or-later
/* 26: is a page fault visible at once? /proc/<pid>/status, statm and stat after
 * touching 1, 10 and 100 pages (dotnet/runtime 83129: VmRSS 0 after start since 6.2;
 * asterinas 3026 RSS_DEVIATION_KB; linux "fix the inaccurate memory statistics").
 * no limits.
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

int main(void)
{
	char *p = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(p, 4 << 20, MADV_NOHUGEPAGE);
	int step[] = { 1, 10, 100 }, off = 0;
	status_l(0, "RssAnon"); statm_res(); stat_rss();
	status_l(0, "RssAnon"); statm_res(); stat_rss();
	printf("26");
	for (int i = 0; i < 3; i++) {
		long a = status_l(0, "RssAnon"), m = statm_res(), s = stat_rss();
		for (int k = 0; k < step[i]; k++)
			p[(off++) * 4096] = 1;
		long a2 = status_l(0, "RssAnon"), m2 = statm_res(), s2 = stat_rss();
		long ds = s2 - s - step[i];
		printf(" touch%d: status%s statm%s stat%s;", step[i],
		       (a2 - a) / 4 == step[i] ? "=exact" : "=off",
		       m2 - m == step[i] ? "=exact" : "=off",
		       labs(ds) <= 64 ? "=within64" : "=off");
	}
	printf("\n");
	return 0;
}
