// SPDX-License-Identifier: GPL-2.0-or-later
/* 32: counters must return to zero ("BUG: Bad rss-counter state" is printed by the
 * kernel when they do not: openwrt 24360, tempesta 2653). 80 short processes that fork,
 * map, COW, remap and exit; a native kernel prints nothing, an emulator must report 0.
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

int main(void)
{
	int bad = 0;
	status_l(0, "RssAnon");
	long a = status_l(0, "RssAnon");
	for (int i = 0; i < 80; i++) {
		pid_t c = fork();
		if (!c) {
			char *p = mmap(NULL, 32 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memset(p, 1, 32 * 4096);
			pid_t g = fork();
			if (!g) {
				memset(p, 2, 16 * 4096);
				_exit(0);
			}
			p = mremap(p, 32 * 4096, 64 * 4096, MREMAP_MAYMOVE);
			waitpid(g, NULL, 0);
			_exit(p == MAP_FAILED);
		}
		int st;
		waitpid(c, &st, 0);
		bad += st != 0;
	}
	long b = status_l(0, "RssAnon");
	printf("32 rounds=80 bad=%d parent_growth_lt_256kB=%s\n", bad, labs(b - a) < 256 ? "yes" : "no");
	return 0;
}
