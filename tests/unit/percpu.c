/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Per-CPU memory: the allocator, both kinds of areas, several processes, whatever disturbs them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kpemu/percpu.h>
#include <kpemu/percpu_counter.h>

#include "tests/unit/chance.h"

TestSuite(percpu, .timeout = 60);

/* Small, the machine's own, odd ones, and the largest. */
static const unsigned int cpu_counts[] = { 1, 2, 3, 7, 16, 64, 65, 384, 1000, 1024 };
#define NR_COUNTS (sizeof(cpu_counts) / sizeof(cpu_counts[0]))

static struct percpu_area *new_area(unsigned int cpus, size_t run, enum percpu_mode mode)
{
	struct percpu_area *area = percpu_area_new(cpus, run, mode);

	cr_assert_not_null(area, "%u CPUs", cpus);
	return area;
}

static struct percpu_area *new_rseq_area(unsigned int cpus)
{
	struct percpu_area *area = percpu_area_new(cpus, 4096, PERCPU_RSEQ);

	if (!area)
		cr_skip("this process has no registered rseq area");
	return area;
}

static struct percpu_ptr *new_ptr(struct percpu_area *area, size_t size)
{
	struct percpu_ptr *p = calloc(1, sizeof(*p));
	long off = percpu_alloc(area, size, size);

	cr_assert_geq(off, 0);
	percpu_ptr_set(p, area, off);
	return p;
}

/* --- areas and the allocator --- */

Test(percpu, area_size_out_of_range)
{
	cr_assert_eq(percpu_area_size(0, 64), 0);
	cr_assert_eq(percpu_area_size(1025, 64), 0);
	cr_assert_eq(percpu_area_size(-1, 64), 0);
	cr_assert_eq(percpu_area_size(1, 0), 0);
	cr_assert_eq(percpu_area_size(1, PERCPU_MAX_RUN + 1), 0);
	cr_assert_gt(percpu_area_size(1024, PERCPU_MAX_RUN), 1024 * PERCPU_MAX_RUN);
	cr_assert_null(percpu_area_new(0, 64, PERCPU_ATOMIC));
	cr_assert_null(percpu_area_new(1025, 64, PERCPU_ATOMIC));
}

Test(percpu, area_init_bad_arguments)
{
	size_t size = percpu_area_size(4, 256);
	char *mem = aligned_alloc(64, size + 64), *zero = calloc(1, size + 64);
	struct percpu_area *area = (struct percpu_area *)mem;

	memset(mem, 0, size + 64);
	cr_assert_eq(percpu_area_init(NULL, size, 4, 256, PERCPU_ATOMIC), -EINVAL);
	cr_assert_eq(percpu_area_init(area, size, 0, 256, PERCPU_ATOMIC), -EINVAL);
	cr_assert_eq(percpu_area_init(area, size, 1025, 256, PERCPU_ATOMIC), -EINVAL);
	cr_assert_eq(percpu_area_init(area, size, 4, 0, PERCPU_ATOMIC), -EINVAL);
	cr_assert_eq(percpu_area_init(area, size - 1, 4, 256, PERCPU_ATOMIC), -EINVAL);
	cr_assert_eq(percpu_area_init(area, size, 4, 256, 3), -EINVAL);
	cr_assert_eq(percpu_area_init((void *)(mem + 8), size, 4, 256, PERCPU_ATOMIC), -EINVAL);
	cr_assert_eq(memcmp(mem, zero, size + 64), 0);

	cr_assert_eq(percpu_area_init(area, size, 4, 256, PERCPU_ATOMIC), 0);
	memcpy(zero, mem, size);
	cr_assert_eq(percpu_area_init(area, size, 4, 256, PERCPU_ATOMIC), -EINVAL, "twice");
	cr_assert_eq(memcmp(mem, zero, size), 0);
}

Test(percpu, area_auto_is_rseq_for_the_machines_cpus_only)
{
	unsigned int here = percpu_machine_cpus();
	struct percpu_area *area = new_area(here, 64, PERCPU_AUTO);
	struct percpu_area *forced = percpu_area_new(here, 64, PERCPU_RSEQ);

	cr_assert_leq(here, sysconf(_SC_NPROCESSORS_CONF));
	cr_assert_eq(area->rseq_cpus, forced ? here : 0);
	cr_assert_eq(new_area(here == 384 ? 383 : 384, 64, PERCPU_AUTO)->rseq_cpus, 0);
	cr_assert_eq(new_area(here, 64, PERCPU_ATOMIC)->rseq_cpus, 0);
}

Test(percpu, runs_share_no_line_and_end_in_the_area)
{
	for (unsigned int i = 0; i < NR_COUNTS; i++) {
		for (size_t run = 1; run <= 4096; run += 1 + run / 2) {
			unsigned int cpus = cpu_counts[i];
			struct percpu_area *area = new_area(cpus, run, PERCPU_ATOMIC);
			char *end = (char *)area + percpu_area_size(cpus, run);
			struct percpu_ptr p = { 0 };

			percpu_ptr_set(&p, area, 0);
			cr_assert_eq(percpu_ptr_area(&p), area);
			cr_assert_eq(percpu_ptr_off(&p), 0);
			for (unsigned int cpu = 0; cpu <= cpus; cpu++) {
				char *at = per_cpu_ptr(&p, cpu);

				cr_assert_eq((uintptr_t)at % 64, 0);
				cr_assert_leq(at + area->run, end);
				cr_assert(cpu == cpus ||
					  (char *)per_cpu_ptr(&p, cpu + 1) >= at + area->run);
			}
			cr_assert_geq(area->run, run);
			percpu_area_delete(area);
		}
	}
}

Test(percpu, alloc_bad_arguments)
{
	struct percpu_area *area = new_area(3, 128, PERCPU_ATOMIC);

	cr_assert_eq(percpu_alloc(area, 0, 4), -EINVAL);
	cr_assert_eq(percpu_alloc(area, 4, 0), -EINVAL);
	cr_assert_eq(percpu_alloc(area, 4, 3), -EINVAL);
	cr_assert_eq(percpu_alloc(area, 4, 128), -EINVAL);
	cr_assert_eq(percpu_alloc(area, 129, 4), -ENOMEM);
	cr_assert_eq(percpu_alloc(area, SIZE_MAX, 4), -ENOMEM);
	cr_assert_eq(percpu_used(area), 0);
	cr_assert_eq(percpu_alloc(area, 12, 4), 0);
	cr_assert_eq(percpu_free(area, -4, 4), -EINVAL);
	cr_assert_eq(percpu_free(area, 2, 4), -EINVAL);
	cr_assert_eq(percpu_free(area, 0, 0), -EINVAL);
	cr_assert_eq(percpu_free(area, 0, 16), -EINVAL, "more than was allocated");
	cr_assert_eq(percpu_free(area, 124, 8), -EINVAL);
	cr_assert_eq(percpu_free(area, LONG_MAX - 3, 4), -EINVAL);
	cr_assert_eq(percpu_free(area, 0, SIZE_MAX), -EINVAL);
	cr_assert_eq(percpu_used(area), 12);
	cr_assert_eq(percpu_free(area, 0, 12), 0);
	cr_assert_eq(percpu_free(area, 0, 12), -EINVAL, "twice");
	cr_assert_eq(percpu_used(area), 0);
}

Test(percpu, alloc_is_aligned_and_never_overlaps)
{
	struct percpu_area *area = new_area(2, 4096, PERCPU_ATOMIC);
	static unsigned char owner[4096];
	struct {
		long off;
		size_t size;
	} got[64] = { 0 };

	for (int round = 0; round < 20000; round++) {
		unsigned int i = rnd(64);
		size_t size = 1 + rnd(rnd(8) ? 24 : 700), align = 1u << rnd(7);
		long off;

		if (got[i].size) {
			memset(owner + got[i].off, 0, got[i].size);
			cr_assert_eq(percpu_free(area, got[i].off, got[i].size), 0);
			got[i].size = 0;
			continue;
		}
		off = percpu_alloc(area, size, align);
		if (off == -ENOMEM)
			continue;
		cr_assert_geq(off, 0);
		cr_assert_eq(off % align, 0);
		cr_assert_leq(off + size, 4096);
		for (size_t b = 0; b < size; b++)
			cr_assert_eq(owner[off + b]++, 0);
		got[i].off = off;
		got[i].size = size;
	}
	for (unsigned int i = 0; i < 64; i++)
		if (got[i].size)
			cr_assert_eq(percpu_free(area, got[i].off, got[i].size), 0);
	cr_assert_eq(percpu_used(area), 0);
	cr_assert_eq(percpu_alloc(area, 4096, 64), 0, "all in one piece again");
}

Test(percpu, alloc_gives_zeroes_and_all_there_is)
{
	struct percpu_area *area = new_area(7, 256, PERCPU_ATOMIC);
	struct percpu_ptr p = { 0 };

	for (int round = 0; round < 2; round++) {
		for (long i = 0; i < 64; i++) {
			cr_assert_eq(percpu_alloc(area, 4, 4), i * 4);
			percpu_ptr_set(&p, area, i * 4);
			for (unsigned int cpu = 0; cpu <= 7; cpu++) {
				cr_assert_eq(percpu_read32(&p, cpu), 0);
				percpu_xchg32(&p, cpu, -1);
			}
		}
		cr_assert_eq(percpu_alloc(area, 1, 1), -ENOMEM);
		cr_assert_eq(percpu_free(area, 0, 256), 0, "together what was allocated apart");
	}
}

Test(percpu, alloc_nth_fails)
{
	struct percpu_area *area = new_area(2, 4096, PERCPU_ATOMIC);

	for (unsigned int n = 1; n <= 10; n++) {
		percpu_fail_nth(area, n);
		for (unsigned int i = 1; i <= 10; i++) {
			long off = percpu_alloc(area, 8, 8);

			cr_assert_eq(off == -ENOMEM, i == n);
		}
		cr_assert_eq(percpu_used(area), 9 * 8);
		cr_assert_eq(percpu_free(area, 0, 9 * 8), 0);
	}
}

/* Allocates, marks, looks whether the marks are its own, frees. */
static int alloc_all_the_time(struct percpu_area *area, int mark)
{
	struct percpu_ptr p = { 0 };

	for (int round = 0; round < 20000; round++) {
		size_t size = 8 << (round + mark) % 7; /* up to two words of the bitmap */
		long off = percpu_alloc(area, size, 8);

		if (off < 0)
			continue;
		percpu_ptr_set(&p, area, off);
		for (size_t b = 0; b < size; b += 8)
			if (xchg((int64_t *)((char *)per_cpu_ptr(&p, 1) + b), mark) != 0)
				return 1;
		for (size_t b = 0; b < size; b += 8)
			if (xchg((int64_t *)((char *)per_cpu_ptr(&p, 1) + b), 0) != mark)
				return 2;
		if (percpu_free(area, off, size))
			return 3;
	}
	return 0;
}

static void *map_shared(size_t size)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(mem, MAP_FAILED);
	return mem;
}

static void wait_for(pid_t pid)
{
	int status;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

Test(percpu, alloc_by_several_processes)
{
	size_t size = percpu_area_size(2, 1024);
	struct percpu_area *area = map_shared(size);
	pid_t pids[4];

	cr_assert_eq(percpu_area_init(area, size, 2, 1024, PERCPU_ATOMIC), 0);
	for (int i = 0; i < 4; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(alloc_all_the_time(area, i + 1));
	}
	for (int i = 0; i < 4; i++)
		wait_for(pids[i]);
	cr_assert_eq(percpu_used(area), 0);
}

/* --- adds --- */

static void add_and_compare(struct percpu_area *area, bool spread)
{
	struct percpu_ptr *p32 = new_ptr(area, 4), *p64 = new_ptr(area, 8);
	int64_t want64 = 0;
	uint32_t want32 = 0;

	for (int i = 0; i < 20000; i++) {
		int64_t v = (int64_t)rnd(1u << 31) * (rnd(2) ? 1 : -1) * (1 + rnd(1u << 20));

		if (spread)
			percpu_set_cpu(rnd(area->nr_cpus));
		this_cpu_add64(p64, v);
		this_cpu_add32(p32, v);
		want64 += v;
		want32 += (uint32_t)v;
	}
	cr_assert_eq(percpu_sum64(p64), want64);
	cr_assert_eq((uint32_t)percpu_sum32(p32), want32);
	percpu_set_cpu(-1);
}

Test(percpu, add_by_atomics_sums_exactly)
{
	for (unsigned int i = 0; i < NR_COUNTS; i++)
		add_and_compare(new_area(cpu_counts[i], 64, PERCPU_ATOMIC), true);
}

Test(percpu, add_by_rseq_sums_exactly)
{
	add_and_compare(new_rseq_area(percpu_machine_cpus()), false);
	add_and_compare(new_rseq_area(1024), false);
}

Test(percpu, add_goes_to_the_cpu_that_was_set)
{
	struct percpu_area *area = new_area(384, 64, PERCPU_ATOMIC);
	struct percpu_ptr *p = new_ptr(area, 8);

	for (unsigned int cpu = 0; cpu < 384; cpu++) {
		percpu_set_cpu(cpu);
		cr_assert_eq(percpu_this_cpu(area), cpu);
		this_cpu_add64(p, cpu + 1);
	}
	percpu_set_cpu(384 + 5);
	cr_assert_eq(percpu_this_cpu(area), 5);
	this_cpu_add64(p, 1000);
	for (unsigned int cpu = 0; cpu < 384; cpu++)
		cr_assert_eq(percpu_read64(p, cpu), cpu + 1 + (cpu == 5 ? 1000 : 0));
	percpu_set_cpu(-1);
	cr_assert_lt(percpu_this_cpu(area), percpu_machine_cpus());
	cr_assert_eq(percpu_this_cpu(new_area(1, 64, PERCPU_ATOMIC)), 0);
}

/* Each state of a slot, each amount around the bounds, against the rule written down plainly. */
static void carry8_as_the_rule_says(struct percpu_area *area, int cpu)
{
	struct percpu_ptr *p = new_ptr(area, 1);

	for (long batch = 2; batch <= 128; batch *= 2) {
		for (long old = 1 - batch; old < batch; old++) {
			for (long v = -3 * batch - 1; v <= 3 * batch + 1; v++) {
				long r = old + v, carry = 0;

				if (labs(r) >= batch)
					carry = (r < 0 ? -1 : 1) * (labs(r) / batch) * batch;
				percpu_xchg8(p, cpu, old);
				cr_assert_eq(percpu_add_carry8(p, v, batch), carry);
				cr_assert_eq(percpu_read8(p, cpu), r - carry);
			}
		}
		percpu_xchg8(p, cpu, -1);
		cr_assert_eq(percpu_add_carry8(p, 1l << 60, batch), (1l << 60) - batch);
		cr_assert_eq(percpu_read8(p, cpu), batch - 1);
		percpu_xchg8(p, cpu, 0);
		cr_assert_eq(percpu_add_carry8(p, -(1l << 60) - 1, batch), -(1l << 60));
		cr_assert_eq(percpu_read8(p, cpu), -1);
	}
}

static void batch32_as_the_rule_says(struct percpu_area *area, int cpu)
{
	static const int32_t batches[] = { 1, 2, 32, 33 };
	struct percpu_ptr *p = new_ptr(area, 4);

	for (unsigned int i = 0; i < 4; i++) {
		long batch = batches[i];

		for (long old = -batch - 3; old <= batch + 3; old++) {
			for (long v = -2 * batch - 9; v <= 2 * batch + 9; v++) {
				long r = old + v, whole = labs(r) >= batch ? r : 0;

				percpu_xchg32(p, cpu, old);
				cr_assert_eq(percpu_add_batch32(p, v, batch), whole);
				cr_assert_eq(percpu_read32(p, cpu), r - whole);
				percpu_xchg32(p, cpu, old);
				cr_assert_eq(percpu_add_within32(p, v, batch), labs(r) <= batch);
				cr_assert_eq(percpu_read32(p, cpu), labs(r) <= batch ? r : old);
			}
		}
	}
	percpu_xchg32(p, cpu, 1);
	cr_assert_eq(percpu_add_batch32(p, INT32_MAX - 2, INT32_MAX), 0);
	cr_assert_eq(percpu_read32(p, cpu), INT32_MAX - 1);
	cr_assert_eq(percpu_add_batch32(p, 1, INT32_MAX), INT32_MAX);
	cr_assert_eq(percpu_add_batch32(p, -(1l << 61), INT32_MAX), -(1l << 61));
	cr_assert_eq(percpu_read32(p, cpu), 0);
	cr_assert(percpu_add_within32(p, -INT32_MAX, INT32_MAX));
	cr_assert_not(percpu_add_within32(p, -1, INT32_MAX));
	cr_assert_eq(percpu_take32(p), -INT32_MAX);
	cr_assert_eq(percpu_read32(p, cpu), 0);
	cr_assert_eq(percpu_take32(p), 0);
}

/* This thread stays where it is; the number of its CPU. */
static int stay(void)
{
	int cpu = sched_getcpu();
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	return cpu;
}

Test(percpu, carry8_and_batch32_by_atomics)
{
	struct percpu_area *area = new_area(5, 64, PERCPU_ATOMIC);

	percpu_set_cpu(3);
	carry8_as_the_rule_says(area, 3);
	batch32_as_the_rule_says(area, 3);
}

Test(percpu, carry8_and_batch32_by_rseq)
{
	struct percpu_area *area = new_rseq_area(percpu_machine_cpus());
	int cpu = stay();

	carry8_as_the_rule_says(area, cpu);
	batch32_as_the_rule_says(area, cpu);
}

Test(percpu, neighbours_in_a_line_are_left_alone)
{
	struct percpu_area *area = new_rseq_area(percpu_machine_cpus());
	long off = percpu_alloc(area, 4, 4);
	static const int want[] = { 1, -29, 8, 31 };
	struct percpu_ptr p[4] = { 0 };
	int cpu = stay();

	for (int i = 0; i < 4; i++)
		percpu_ptr_set(&p[i], area, off + i);
	for (int i = 0; i < 4; i++)
		percpu_xchg8(&p[i], cpu, 10 * i + 1);
	cr_assert_eq(percpu_add_carry8(&p[1], -40, 32), 0);
	cr_assert_eq(percpu_add_carry8(&p[2], 19, 32), 32);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(percpu_read8(&p[i], cpu), want[i]);
}

/* --- who has no slot in an area in rseq mode --- */

static void has_no_slot(struct percpu_area *area)
{
	struct percpu_ptr *p64 = new_ptr(area, 8), *p32 = new_ptr(area, 4), *p8 = new_ptr(area, 1);

	this_cpu_add64(p64, 5);
	this_cpu_add32(p32, -5);
	cr_assert_eq(percpu_read64(p64, area->nr_cpus), 5, "in the spare run");
	cr_assert_eq(percpu_read32(p32, area->nr_cpus), -5);
	cr_assert_eq(percpu_sum64(p64), 5);
	cr_assert_eq(percpu_sum32(p32), -5);
	cr_assert_eq(percpu_add_carry8(p8, 1, 32), PERCPU_NO_SLOT);
	cr_assert_eq(percpu_sum8(p8), 0);
	percpu_xchg32(p32, area->nr_cpus, 0);
	cr_assert_eq(percpu_add_batch32(p32, 3, 32), 3);
	cr_assert_not(percpu_add_within32(p32, 1, 32));
	cr_assert_eq(percpu_take32(p32), 0);
	cr_assert_eq(percpu_sum32(p32), 0);
}

Test(percpu, no_slot_with_an_emulated_cpu)
{
	struct percpu_area *area = new_rseq_area(percpu_machine_cpus());
	struct percpu_ptr *p = new_ptr(area, 8);

	percpu_set_cpu(0);
	has_no_slot(area);
	percpu_set_cpu(-1);
	this_cpu_add64(p, 7);
	cr_assert_eq(percpu_read64(p, area->nr_cpus), 0, "on its CPU again");
	cr_assert_eq(percpu_sum64(p), 7);
}

Test(percpu, no_slot_while_rseq_is_suspended)
{
	struct percpu_area *area = new_rseq_area(percpu_machine_cpus());
	struct percpu_ptr *p = new_ptr(area, 8);
	int old, inner;

	this_cpu_add64(p, 1);
	old = percpu_suspend_rseq();
	has_no_slot(area);
	inner = percpu_suspend_rseq();
	percpu_resume_rseq(inner);
	cr_assert_eq(percpu_add_carry8(new_ptr(area, 1), 1, 32), PERCPU_NO_SLOT, "nested");
	percpu_resume_rseq(old);
	this_cpu_add64(p, 2);
	cr_assert_eq(percpu_read64(p, area->nr_cpus), 0);
	cr_assert_eq(percpu_sum64(p), 3);
}

Test(percpu, no_slot_on_a_cpu_beyond_the_area)
{
	struct percpu_area *area = new_rseq_area(1);
	cpu_set_t last;

	CPU_ZERO(&last);
	CPU_SET(percpu_machine_cpus() - 1, &last);
	if (percpu_machine_cpus() < 2 || sched_setaffinity(0, sizeof(last), &last))
		cr_skip("no second CPU to run on");
	has_no_slot(area);
}

/* --- hotplug --- */

Test(percpu, cpu_down_and_up)
{
	struct percpu_area *area = new_area(100, 64, PERCPU_ATOMIC);

	cr_assert_eq(area->nr_online, 100);
	cr_assert_eq(percpu_cpu_up(area, 0), -EINVAL);
	cr_assert_eq(percpu_cpu_up(area, 100), -EINVAL);
	cr_assert_eq(percpu_cpu_down(area, 100), -EINVAL);
	cr_assert_eq(percpu_cpu_down(area, -1), -EINVAL);
	cr_assert_eq(percpu_cpu_down(area, 70), 0);
	cr_assert_eq(percpu_cpu_down(area, 70), -EINVAL);
	cr_assert_eq(percpu_cpu_down(area, 71), 0);
	cr_assert_not(percpu_cpu_online(area, 70));
	cr_assert_eq(area->nr_online, 98);
	percpu_set_cpu(70);
	cr_assert_eq(percpu_this_cpu(area), 72);
	cr_assert_eq(percpu_cpu_down(area, 99), 0);
	percpu_set_cpu(99);
	cr_assert_eq(percpu_this_cpu(area), 0);
	cr_assert_eq(percpu_cpu_up(area, 70), 0);
	percpu_set_cpu(70);
	cr_assert_eq(percpu_this_cpu(area), 70);
	for (unsigned int cpu = 1; cpu < 100; cpu++)
		if (percpu_cpu_online(area, cpu))
			cr_assert_eq(percpu_cpu_down(area, cpu), 0);
	cr_assert_eq(percpu_cpu_down(area, 0), -EBUSY);
	cr_assert_eq(area->nr_online, 1);
	cr_assert_eq(percpu_this_cpu(area), 0);
}

/* --- several processes, disturbed --- */

/* What they share, in one mapping with the area, which follows at the next line. */
struct shared {
	uint32_t go;
	struct percpu_ptr p64, p8;
	struct percpu_counter counter;
	atomic64_t above; /* where carries of p8 go */
	struct {
		int64_t n; /* adds of each kind */
	} __attribute__((aligned(64))) done[8];
} __attribute__((aligned(64)));

#define RUN 256

static size_t shared_size(unsigned int cpus)
{
	return sizeof(struct shared) + percpu_area_size(cpus, RUN);
}

static struct percpu_area *area_in(struct shared *s)
{
	return (struct percpu_area *)(s + 1);
}

/* A file of memory with an area and counters in it. NULL: no rseq. */
static struct shared *make_shared(int *fd, unsigned int cpus, enum percpu_mode mode)
{
	size_t size = shared_size(cpus);
	struct shared *s;
	int ret;

	*fd = memfd_create("percpu", 0);
	cr_assert_geq(*fd, 0);
	cr_assert_eq(ftruncate(*fd, size), 0);
	s = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	cr_assert_neq(s, MAP_FAILED);
	ret = percpu_area_init(area_in(s), size - sizeof(*s), cpus, RUN, mode);
	if (ret == -ENOSYS)
		return NULL;
	cr_assert_eq(ret, 0);
	percpu_ptr_set(&s->p64, area_in(s), percpu_alloc(area_in(s), 8, 8));
	percpu_ptr_set(&s->p8, area_in(s), percpu_alloc(area_in(s), 1, 1));
	cr_assert_eq(percpu_counter_init(&s->counter, area_in(s), 0), 0);
	return s;
}

/* One add of each kind; carries may be lost to a death, the rest not. */
static void add_each(struct shared *s, long v)
{
	long carry;

	this_cpu_add64(&s->p64, v);
	carry = percpu_add_carry8(&s->p8, v, 32);
	if (carry)
		atomic64_add_return(carry == PERCPU_NO_SLOT ? v : carry, &s->above);
	percpu_counter_add(&s->counter, v);
}

/* The life of an adder: maps the file elsewhere, waits for the others, adds and takes away. */
static int adder(int fd, size_t size, struct shared *old, int me, long adds)
{
	struct shared *s = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (s == MAP_FAILED || s == old)
		return 1;
	if (old)
		munmap(old, size);
	percpu_set_cpu(area_in(s)->rseq_cpus ? -1 : 5 * me);
	fetch_add(&s->go, 1u);
	while (READ_ONCE(s->go) < 1000)
		sched_yield();
	for (long i = 0; i < adds; i++) {
		add_each(s, i % 5 == 4 ? -3 : 1); /* 1 for every 5 */
		WRITE_ONCE(s->done[me].n, i + 1);
		if (!area_in(s)->rseq_cpus && i % 64 == 0)
			percpu_set_cpu(5 * me + i / 64); /* emulated CPUs meet, too */
	}
	return 0;
}

static void move(pid_t pid)
{
	cpu_set_t all, one;
	int cpu;

	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	do
		cpu = rnd(CPU_SETSIZE);
	while (!CPU_ISSET(cpu, &all));
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(pid, sizeof(one), &one);
}

/* Move, stop and continue them until they are through. */
static void disturb(pid_t *pids, int n)
{
	int left = n, status;

	while (left) {
		int i = rnd(n);

		if (!pids[i])
			continue;
		move(pids[i]);
		if (rnd(4) == 0) {
			kill(pids[i], SIGSTOP);
			usleep(100);
			kill(pids[i], SIGCONT);
		}
		usleep(50);
		for (i = 0; i < n; i++) {
			if (!pids[i] || waitpid(pids[i], &status, WNOHANG) != pids[i])
				continue;
			cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "%#x", status);
			pids[i] = 0;
			left--;
		}
	}
}

static void wait_until_ready(struct shared *s, uint32_t n)
{
	while (READ_ONCE(s->go) < n)
		sched_yield();
	WRITE_ONCE(s->go, 1000);
}

static long adds_of_each(void)
{
	const char *asked = getenv("PERCPU_ADDS");

	return (asked ? strtol(asked, NULL, 10) : 200000) / 5 * 5;
}

static void everything_is(struct shared *s, long want)
{
	long n = area_in(s)->nr_cpus;

	cr_assert_eq(percpu_sum64(&s->p64), want);
	cr_assert_eq(percpu_sum8(&s->p8) + atomic64_read(&s->above), want);
	cr_assert_leq(labs(percpu_sum8(&s->p8)), n * 31);
	cr_assert_eq(percpu_counter_sum(&s->counter), want);
	cr_assert_leq(labs(percpu_counter_read(&s->counter) - want),
		      n * (percpu_counter_batch(area_in(s)) - 1));
}

static void adds_are_exact(unsigned int cpus, enum percpu_mode mode)
{
	long adds = adds_of_each();
	pid_t pids[8];
	int fd;
	struct shared *s = make_shared(&fd, cpus, mode);

	if (!s)
		cr_skip("this process has no registered rseq area");
	add_each(s, 1); /* children of a thread that has counted before */
	for (int i = 0; i < 8; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(adder(fd, shared_size(cpus), s, i, adds));
	}
	wait_until_ready(s, 8);
	disturb(pids, 8);
	everything_is(s, 8 * adds / 5 + 1);
}

Test(percpu, processes_at_different_addresses_rseq, .timeout = 1800)
{
	adds_are_exact(percpu_machine_cpus(), PERCPU_RSEQ);
}

Test(percpu, processes_at_different_addresses_atomic, .timeout = 1800)
{
	adds_are_exact(7, PERCPU_ATOMIC);
}

/*
 * This program again, without rseq, as one of the adders. Before main(), because main() is
 * Criterion's.
 */
__attribute__((constructor)) static void be_an_adder(void)
{
	const char *what = getenv("PERCPU_ADDER");
	int fd, me;
	long adds;
	size_t size;

	if (!what || sscanf(what, "%d %zu %d %ld", &fd, &size, &me, &adds) != 4)
		return;
	if (percpu_area_new(2, 64, PERCPU_RSEQ))
		_exit(77);
	_exit(adder(fd, size, NULL, me, adds));
}

static void exec_adder(int fd, size_t size, int me, long adds)
{
	char what[80], *argv[] = { "unit", NULL };
	char *env[] = { what, "GLIBC_TUNABLES=glibc.pthread.rseq=0", NULL };

	snprintf(what, sizeof(what), "PERCPU_ADDER=%d %zu %d %ld", fd, size, me, adds);
	execve("/proc/self/exe", argv, env);
	_exit(127);
}

Test(percpu, process_without_rseq_shares_an_rseq_area)
{
	unsigned int cpus = percpu_machine_cpus();
	long adds = 200000;
	pid_t pids[3];
	int fd, status;
	struct shared *s = make_shared(&fd, cpus, PERCPU_RSEQ);

	if (!s)
		cr_skip("this process has no registered rseq area");
	for (int i = 0; i < 3; i++) {
		pids[i] = fork();
		if (!pids[i] && i == 0)
			exec_adder(fd, shared_size(cpus), i, adds);
		if (!pids[i])
			_exit(adder(fd, shared_size(cpus), s, i, adds));
	}
	while (READ_ONCE(s->go) < 3) {
		if (waitpid(pids[0], &status, WNOHANG) == pids[0] && WEXITSTATUS(status) == 77) {
			kill(pids[1], SIGKILL);
			kill(pids[2], SIGKILL);
			cr_skip("this glibc cannot be kept from registering rseq");
		}
		sched_yield();
	}
	WRITE_ONCE(s->go, 1000);
	disturb(pids, 3);
	everything_is(s, 3 * adds / 5);
	cr_assert_eq(percpu_read64(&s->p64, cpus), adds / 5, "one of them had no slot");
}

Test(percpu, vfork_child_is_suspended)
{
	unsigned int cpus = percpu_machine_cpus();
	int fd, old, status;
	struct shared *s = make_shared(&fd, cpus, PERCPU_RSEQ);
	volatile pid_t pid;

	if (!s)
		cr_skip("this process has no registered rseq area");
	add_each(s, 1);
	old = percpu_suspend_rseq();
	pid = vfork();
	if (!pid) {
		add_each(s, 1);
		_exit(0);
	}
	percpu_resume_rseq(old);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	add_each(s, 1);
	everything_is(s, 3);
	cr_assert_eq(percpu_read64(&s->p64, cpus), 1);
}

/* A debugger's steps end every critical section; the adds must get through without. */
Test(percpu, single_stepped_adder_gets_through)
{
	int fd, status;
	long steps = 0;
	struct shared *s = make_shared(&fd, percpu_machine_cpus(), PERCPU_RSEQ);
	pid_t pid;

	if (!s)
		cr_skip("this process has no registered rseq area");
	pid = fork();
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(77);
		raise(SIGSTOP);
		add_each(s, 1);
		add_each(s, 1);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		cr_skip("no ptrace here");
	while (WIFSTOPPED(status) && steps++ < 1000000) {
		cr_assert_eq(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
	}
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%#x", status);
	everything_is(s, 2);
	cr_log_info("%ld steps, %ld adds without a slot\n", steps,
		    (long)percpu_read64(&s->p64, percpu_machine_cpus()));
}

/* A handler that adds to the same slots, wherever it comes in. */
static struct shared *in_handler;
static volatile long handled;

static void add_in_handler(int sig)
{
	(void)sig;
	add_each(in_handler, 1);
	handled++;
}

static void handlers_add(unsigned int cpus, enum percpu_mode mode)
{
	struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { 0 };
	long adds = 0;
	int fd;

	in_handler = make_shared(&fd, cpus, mode);
	if (!in_handler)
		return;
	handled = 0;
	signal(SIGALRM, add_in_handler);
	setitimer(ITIMER_REAL, &often, NULL);
	while (handled < 300) {
		add_each(in_handler, 1);
		adds++;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	everything_is(in_handler, adds + handled);
}

Test(percpu, adds_in_handlers)
{
	handlers_add(percpu_machine_cpus(), PERCPU_RSEQ);
	handlers_add(3, PERCPU_ATOMIC);
}

static void killed_adders(unsigned int cpus, enum percpu_mode mode)
{
	long least = 0, low, sum;
	pid_t pids[4];
	int fd, status;
	struct shared *s = make_shared(&fd, cpus, mode);

	if (!s)
		return;
	for (int i = 0; i < 4; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(adder(fd, shared_size(cpus), s, i, LONG_MAX));
	}
	wait_until_ready(s, 4);
	usleep(20000);
	for (int i = 0; i < 4; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], &status, 0);
		least += s->done[i].n / 5 + s->done[i].n % 5;
	}
	/* Of each: an add of 1 or -3 more than it said, and one carry on its way. */
	low = 32 + percpu_counter_batch(area_in(s)) + 3;
	sum = percpu_sum64(&s->p64);
	cr_assert(sum >= least - 4 * 3 && sum <= least + 4, "%ld, %ld", sum, least);
	sum = percpu_sum8(&s->p8) + atomic64_read(&s->above);
	cr_assert(labs(sum - least) <= 4 * low, "%ld, %ld", sum, least);
	sum = percpu_counter_sum(&s->counter);
	cr_assert(labs(sum - least) <= 4 * low, "%ld, %ld", sum, least);
}

Test(percpu, killed_adders_lose_a_carry_at_most)
{
	for (int i = 0; i < 5; i++) {
		killed_adders(percpu_machine_cpus(), PERCPU_RSEQ);
		killed_adders(3, PERCPU_ATOMIC);
	}
}

Test(percpu, fence)
{
	int ret = percpu_fence();

	if (ret == -ENOSYS || ret == -EINVAL)
		cr_skip("no membarrier for rseq here");
	cr_assert_eq(ret, 0);
	cr_assert_eq(percpu_fence(), 0);
}
