// SPDX-License-Identifier: GPL-2.0-or-later
/* 44: four threads pinned over the CPUs touch memory at once, then one of them unmaps
 * all of it: the sum must be right and must not go below zero (the reason RSS became a
 * percpu_counter in 6.2).
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
#include <pthread.h>

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

#define N 4
#define P 300
static pthread_barrier_t b;
static char *m;
static void *work(void *a)
{
	long i = (long)a;
	cpu_set_t s;
	CPU_ZERO(&s);
	CPU_SET(i % sysconf(_SC_NPROCESSORS_ONLN), &s);
	sched_setaffinity(0, sizeof s, &s);
	pthread_barrier_wait(&b);
	pthread_barrier_wait(&b);
	for (int k = 0; k < P; k++)
		m[(i * P + k) * 4096] = 1;
	pthread_barrier_wait(&b);
	pthread_barrier_wait(&b);
	return NULL;
}
int main(void)
{
	pthread_t t[N];
	pthread_barrier_init(&b, NULL, N + 1);
	m = mmap(NULL, N * P * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(m, N * P * 4096, MADV_NOHUGEPAGE);
	for (long i = 0; i < N; i++) pthread_create(&t[i], NULL, work, (void *)i);
	pthread_barrier_wait(&b);
	status_l(0, "RssAnon");
	long a = status_l(0, "RssAnon");
	pthread_barrier_wait(&b);
	pthread_barrier_wait(&b);
	long c = status_l(0, "RssAnon");
	munmap(m, N * P * 4096);
	long d = status_l(0, "RssAnon");
	pthread_barrier_wait(&b);
	for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
	long up = c - a - N * P * 4, dn = c - d - N * P * 4;
	printf("44 touch_within_64kB=%s unmap_exact=%s\n", labs(up) <= 64 ? "yes" : "no", dn == 0 ? "yes" : "no");
	fprintf(stderr, "44 detail: touch_error=%ldkB unmap_error=%ldkB\n", up, dn);
	return 0;
}
