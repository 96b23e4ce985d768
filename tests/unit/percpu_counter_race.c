/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The published race of percpu_counter_limited_add(), stepped. */

/*
 * A copy of the code whose stores are steps, as in the kill build, under other names; here a step
 * does not kill, but lets another thread go first.
 */
#ifndef KPEMU_KILL_STEPS
#define KPEMU_KILL_STEPS
#endif
#define step                         race_step
#define percpu_counter_add_slow      race_add_slow
#define percpu_counter_init_many     race_init_many
#define percpu_counter_destroy_many  race_destroy_many
#define percpu_counter_sum           race_sum
#define percpu_counter_sync          race_sync
#define percpu_counter_set           race_set
#define __percpu_counter_compare     race_compare
#define __percpu_counter_limited_add race_limited_add
#define percpu_counter_cpu_dead      race_cpu_dead

#include "emu/lib/percpu_counter.c"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>

/* Steps until the thread stops; 0 = it does not. */
static __thread int stops_in;
static sem_t has_stopped, goes_on;

void race_step(void)
{
	if (!stops_in || --stops_in)
		return;
	sem_post(&has_stopped);
	sem_wait(&goes_on);
}

TestSuite(percpu_counter_race, .timeout = 60);

#define LIMIT 100
#define BATCH 4

static struct percpu_area *area;
static struct percpu_counter counter;

/* Looks at the count, finds room for all CPUs, and then is overtaken. */
static void *adds_late(void *cpu)
{
	percpu_set_cpu((long)cpu);
	stops_in = 1;
	return (void *)(long)__percpu_counter_limited_add(&counter, LIMIT, BATCH, BATCH);
}

static long fill_up(void)
{
	long added = 0;

	while (__percpu_counter_limited_add(&counter, LIMIT, 1, BATCH))
		added++;
	return added;
}

static void start(void)
{
	area = percpu_area_new(3, 64, PERCPU_ATOMIC);
	cr_assert_eq(percpu_counter_init(&counter, area, LIMIT - 3 * BATCH), 0);
	sem_init(&has_stopped, 0, 0);
	sem_init(&goes_on, 0, 0);
	percpu_set_cpu(2);
}

Test(percpu_counter_race, limited_add_passes_the_limit, .init = start)
{
	pthread_t late[2];
	void *added;

	for (long cpu = 0; cpu < 2; cpu++) {
		cr_assert_eq(pthread_create(&late[cpu], NULL, adds_late, (void *)cpu), 0);
		sem_wait(&has_stopped);
	}
	/* Both are past their look at the count, and have added nothing. */
	cr_assert_eq(percpu_counter_sum(&counter), LIMIT - 3 * BATCH);
	cr_assert_eq(fill_up(), 3 * BATCH);
	cr_assert_eq(percpu_counter_sum(&counter), LIMIT);
	for (int i = 0; i < 2; i++)
		sem_post(&goes_on);
	for (int i = 0; i < 2; i++) {
		pthread_join(late[i], &added);
		cr_assert(added, "it took the quick path");
	}
	cr_assert_eq(percpu_counter_sum(&counter), LIMIT + 2 * BATCH);
	cr_assert_eq(fill_up(), 0);
}

/* One after the other they do not. */
Test(percpu_counter_race, limited_add_in_turn_keeps_the_limit, .init = start)
{
	for (int cpu = 0; cpu < 3; cpu++) {
		percpu_set_cpu(cpu);
		fill_up();
	}
	cr_assert_eq(percpu_counter_sum(&counter), LIMIT);
}

/* What is decided by a sum keeps it, though another has added in between. */
Test(percpu_counter_race, limited_add_by_sum_sees_the_other, .init = start)
{
	pthread_t late;
	void *added;

	cr_assert_eq(fill_up(), 3 * BATCH);
	cr_assert(__percpu_counter_limited_add(&counter, 0, -BATCH, BATCH));
	cr_assert_eq(pthread_create(&late, NULL, adds_late, (void *)1l), 0);
	sem_wait(&has_stopped); /* it has found room by the sum */
	cr_assert_eq(fill_up(), BATCH);
	sem_post(&goes_on);
	pthread_join(late, &added);
	cr_assert_not(added);
	cr_assert_eq(percpu_counter_sum(&counter), LIMIT);
}

/* Takes what is on its CPU, and is held up before it comes to the count. */
static void *moves_late(void *unused)
{
	percpu_set_cpu(0);
	percpu_counter_add_batch(&counter, BATCH - 1, BATCH);
	stops_in = 3; /* the quick path's, the beginning of the move, its end */
	percpu_counter_add_batch(&counter, 1, BATCH);
	return unused;
}

Test(percpu_counter_race, sum_misses_a_move_that_is_held_up, .init = start)
{
	int64_t first = percpu_counter_read(&counter);
	pthread_t late;

	cr_assert_eq(pthread_create(&late, NULL, moves_late, NULL), 0);
	sem_wait(&has_stopped);
	cr_assert_eq(percpu_read32(&counter.counters, 0), 0);
	cr_assert_eq(percpu_counter_read(&counter), first);
	cr_assert_eq(percpu_counter_sum(&counter), first, "it does not wait for ever");
	cr_assert(percpu_counter_add_batch(&counter, 1, 1) == 0, "nor does who moves");
	cr_assert(__percpu_counter_limited_add(&counter, LIMIT, 2 * BATCH, BATCH), "or looks");
	sem_post(&goes_on);
	pthread_join(late, NULL);
	cr_assert_eq(percpu_counter_sum(&counter), first + 3 * BATCH + 1);
}
