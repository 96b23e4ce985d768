// SPDX-License-Identifier: GPL-2.0-or-later
/* 29: ru_maxrss of a tiny child is the parent's peak; VmHWM is not
 * (bun 43304, golang/go 32054, rbx 726).
 * no limits. run with no arguments.
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

int main(int ac, char **av)
{
	struct rusage u;
	if (ac > 1) {		/* the exec'd child */
		getrusage(RUSAGE_SELF, &u);
		printf("29 child maxrss_ge_64M=%s VmHWM_lt_32M=%s", u.ru_maxrss >= 65536 ? "yes" : "no",
		       status_l(0, "VmHWM") < 32768 ? "yes" : "no");
		fflush(stdout);
		return 0;
	}
	char *p = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(p, 1, 64 << 20);
	int st;
	pid_t c = fork();
	if (!c) {
		execl("/proc/self/exe", av[0], "child", NULL);
		_exit(1);
	}
	wait4(c, &st, 0, &u);
	printf(" wait4_maxrss_ge_64M=%s\n", u.ru_maxrss >= 65536 ? "yes" : "no");
	return 0;
}
