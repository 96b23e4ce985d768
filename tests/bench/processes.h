/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes that take samples together: each is pinned to a CPU of its own, they begin together,
 * and who has done his part goes on until all have. For programs of one source file.
 */
#ifndef TESTS_BENCH_PROCESSES_H
#define TESTS_BENCH_PROCESSES_H

#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <kpemu/atomic.h>

#include "tests/bench/check.h"

#define MAX_PROCESSES 2

/* Two lines: the neighbour of a line may be fetched with it. */
#define ALONE __attribute__((aligned(128)))

static struct {
	struct {
		int64_t seen ALONE; /* when it last looked for the others */
		int64_t start, end, ran; /* of its sample; ran: how long it had a CPU */
	} own[MAX_PROCESSES];
	int64_t start_at ALONE; /* when all begin; 0 = not known yet */
	int done; /* processes that have done their count */
} * timing;

static int me; /* this process's number */
static int requests[MAX_PROCESSES]; /* the ends where they are written */
static int answers; /* where a byte is read from each */

static inline int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static inline int64_t now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* --- in each of them --- */

/* Have all looked for each other within some microseconds, so that they run just now? */
static inline bool all_run(int n)
{
	int64_t t = now();

	WRITE_ONCE(timing->own[me].seen, t);
	for (int i = 0; i < n; i++)
		if (t - READ_ONCE(timing->own[i].seen) > 3000)
			return false;
	return true;
}

/*
 * All @n begin together, and not while one of them waits for its CPU; but on a machine that is never
 * free for all at once, each begins when it can.
 */
static inline void begin_together(int n)
{
	int64_t give_up = now() + 20000000, start_at;

	while (!(start_at = READ_ONCE(timing->start_at)))
		if (all_run(n) || now() > give_up)
			cmpxchg(&timing->start_at, 0, now() + 3000);
	while (now() < start_at)
		;
	timing->own[me].ran = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	timing->own[me].start = now();
}

static inline void end_own(void)
{
	timing->own[me].end = now();
	timing->own[me].ran = clock_ns(CLOCK_THREAD_CPUTIME_ID) - timing->own[me].ran;
	fetch_add(&timing->done, 1);
}

static inline bool all_done(int n)
{
	return READ_ONCE(timing->done) >= n;
}

/* To the CPU of its number among those that it may run on. */
static inline void pin(void)
{
	int left = me;
	cpu_set_t set;

	check(!sched_getaffinity(0, sizeof(set), &set), "sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set) || left--)
			continue;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		break;
	}
	check(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
}

struct request;
static void sample(const struct request *r);

static inline void serve(void *request, size_t size, int in, int out)
{
	pin();
	while (read(in, request, size) == (ssize_t)size) {
		sample(request);
		check(write(out, "", 1) == 1, "write");
	}
	_exit(0);
}

/* --- in the program --- */

static inline int nr_processes(void)
{
	cpu_set_t set;

	check(!sched_getaffinity(0, sizeof(set), &set), "sched_getaffinity");
	return CPU_COUNT(&set) < MAX_PROCESSES ? CPU_COUNT(&set) : MAX_PROCESSES;
}

/*
 * @n of them, whose requests are read to @request. They end with the program, which holds the other
 * ends of their pipes.
 */
static inline void make_processes(int n, void *request, size_t size)
{
	int out[2], in[2];

	timing = mmap(NULL, sizeof(*timing), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	check(timing != MAP_FAILED, "mmap");
	check(!pipe(out), "pipe");
	for (int i = 0; i < n; i++) {
		pid_t pid;

		check(!pipe(in) && (pid = fork()) >= 0, "a process");
		if (!pid) {
			me = i;
			close(in[1]);
			while (i--)
				close(requests[i]);
			serve(request, size, in[0], out[1]);
		}
		close(in[0]);
		requests[i] = in[1];
	}
	close(out[1]);
	answers = out[0];
}

/* The first @n take a sample of what @request says. */
static inline void run_processes(int n, const void *request, size_t size)
{
	char byte;

	timing->start_at = 0;
	timing->done = 0;
	for (int i = 0; i < n; i++)
		timing->own[i].seen = 0;
	for (int i = 0; i < n; i++)
		check(write(requests[i], request, size) == (ssize_t)size, "write");
	for (int i = 0; i < n; i++)
		check(read(answers, &byte, 1) == 1, "a process");
}

/*
 * Of the first @shown of @n that ran: nanoseconds for one of @count operations, and which part of
 * the time since all had begun it had its CPU.
 */
static inline void print_times(int n, int shown, long count)
{
	int64_t last_start = 0;

	for (int i = 0; i < n; i++)
		if (timing->own[i].start > last_start)
			last_start = timing->own[i].start;
	for (int i = 0; i < shown; i++) {
		double time = timing->own[i].end - timing->own[i].start;
		double together = timing->own[i].end - last_start, ran = timing->own[i].ran;

		ran = ran < together ? ran : together;
		printf("%s%.4f %.3f", i ? " " : "", time / count, ran > 0 ? ran / time : 0);
	}
}

#endif
