/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads on per-CPU memory and percpu_counters, for the thread sanitizer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <kpemu/percpu_counter.h>

#define THREADS 4
#define ADDS    20000

static struct percpu_area *area;
static struct percpu_ptr slot64, slot8;
static struct percpu_counter counter;
static atomic64_t above;
static int passed, failed;

static void is(const char *what, int64_t got, int64_t want)
{
	if (got == want) {
		passed++;
		return;
	}
	failed++;
	printf("FAIL %s: %ld, not %ld\n", what, (long)got, (long)want);
}

static void carry8(long v)
{
	long carry = percpu_add_carry8(&slot8, v, 32);

	if (carry)
		atomic64_add_return(carry == PERCPU_NO_SLOT ? v : carry, &above);
}

/* Adds, reads what others add, makes and ends counters of its own. */
static void *work(void *arg)
{
	struct percpu_counter *own = arg;
	int64_t seen = 0;

	for (int i = 0; i < ADDS; i++) {
		if (!area->rseq_cpus)
			percpu_set_cpu(i);
		this_cpu_add64(&slot64, 1);
		carry8(1);
		percpu_counter_add(&counter, 1);
		if (i % 100)
			continue;
		if (!percpu_counter_init_many(own, area, 1, 2))
			percpu_counter_inc(own);
		percpu_counter_destroy_many(own, 2);
		seen |= percpu_counter_sum(&counter) | percpu_sum64(&slot64) |
			percpu_counter_read(&counter);
	}
	return seen ? arg : NULL;
}

static void round_of(unsigned int cpus, enum percpu_mode mode)
{
	static struct percpu_counter own[THREADS][2];
	pthread_t threads[THREADS];

	area = percpu_area_new(cpus, 256, mode);
	if (!area)
		return;
	percpu_ptr_set(&slot64, area, percpu_alloc(area, 8, 8));
	percpu_ptr_set(&slot8, area, percpu_alloc(area, 1, 1));
	atomic64_set(&above, 0);
	percpu_counter_init(&counter, area, 0);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, own[i]))
			abort();
	for (int i = 0; i < 200; i++) {
		percpu_counter_limited_add(&counter, INT64_MAX, 1);
		percpu_counter_sync(&counter);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is("add64", percpu_sum64(&slot64), THREADS * ADDS);
	is("carry8", percpu_sum8(&slot8) + atomic64_read(&above), THREADS * ADDS);
	is("percpu_counter", percpu_counter_sum(&counter), THREADS * ADDS + 200);
	percpu_counter_destroy(&counter);
	is("what is left allocated", percpu_used(area), 12);
	percpu_area_delete(area);
}

int main(void)
{
	round_of(percpu_machine_cpus(), PERCPU_RSEQ);
	round_of(5, PERCPU_ATOMIC);
	printf("%d passed, %d failed\n", passed, failed);
	return failed || !passed;
}
