/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Per-CPU memory, stepped: races that must be there and races that must not, and death at each step. */

/*
 * A copy of the code whose stores are steps, as in the kill build, under other names; here a step
 * kills, or lets another thread go first.
 */
#ifndef KPEMU_KILL_STEPS
#define KPEMU_KILL_STEPS
#endif
#define step                         stepped_step
#define percpu_set_cpu               stepped_set_cpu
#define percpu_suspend_rseq          stepped_suspend_rseq
#define percpu_resume_rseq           stepped_resume_rseq
#define percpu_cpu_slow              stepped_cpu_slow
#define percpu_this_cpu              stepped_this_cpu
#define percpu_fence                 stepped_fence
#define percpu_machine_cpus          stepped_machine_cpus
#define percpu_owners                stepped_owners
#define percpu_area_size             stepped_area_size
#define percpu_area_init             stepped_area_init
#define percpu_area_new              stepped_area_new
#define percpu_area_delete           stepped_area_delete
#define percpu_alloc                 stepped_alloc
#define percpu_free                  stepped_free
#define percpu_used                  stepped_used
#define percpu_fail_nth              stepped_fail_nth
#define percpu_cpu_up                stepped_cpu_up
#define percpu_cpu_down              stepped_cpu_down
#define percpu_ptr_set               stepped_ptr_set
#define percpu_ptr_clear             stepped_ptr_clear
#define percpu_sum8                  stepped_sum8
#define percpu_sum32                 stepped_sum32
#define percpu_sum64                 stepped_sum64
#define percpu_add32_slow            stepped_add32_slow
#define percpu_add64_slow            stepped_add64_slow
#define percpu_add_within32_slow     stepped_add_within32_slow
#define percpu_add_batch32_slow      stepped_add_batch32_slow
#define percpu_add_carry8_slow       stepped_add_carry8_slow
#define percpu_take32                stepped_take32
#define percpu_self                  stepped_self
#define percpu_counter_add_slow      stepped_counter_add_slow
#define percpu_counter_init_many     stepped_counter_init_many
#define percpu_counter_destroy_many  stepped_counter_destroy_many
#define percpu_counter_sum           stepped_counter_sum
#define percpu_counter_sync          stepped_counter_sync
#define percpu_counter_set           stepped_counter_set
#define percpu_counter_cpu_dead      stepped_counter_cpu_dead
#define __percpu_counter_compare     stepped_compare
#define __percpu_counter_limited_add stepped_limited_add

#include "emu/lib/percpu.c"
#include "emu/lib/percpu_counter.c"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Steps until the thread stops, or dies; 0 = it does not. */
static __thread int stops_in;
static int dies_in;
static sem_t has_stopped, goes_on;

void stepped_step(void)
{
	if (dies_in && --dies_in == 0)
		kill(getpid(), SIGKILL);
	if (!stops_in || --stops_in)
		return;
	sem_post(&has_stopped);
	sem_wait(&goes_on);
}

TestSuite(percpu_steps, .timeout = 60);

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

Test(percpu_steps, limited_add_passes_the_limit, .init = start)
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
Test(percpu_steps, limited_add_in_turn_keeps_the_limit, .init = start)
{
	for (int cpu = 0; cpu < 3; cpu++) {
		percpu_set_cpu(cpu);
		fill_up();
	}
	cr_assert_eq(percpu_counter_sum(&counter), LIMIT);
}

/* What is decided by a sum keeps it, though another has added in between. */
Test(percpu_steps, limited_add_by_sum_sees_the_other, .init = start)
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
	stops_in = 4; /* the quick path's, the beginning of the move, the CPU's, its end */
	percpu_counter_add_batch(&counter, 1, BATCH);
	return unused;
}

Test(percpu_steps, sum_misses_a_move_that_is_held_up, .init = start)
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

/* --- death at each step --- */

struct shared {
	struct percpu_counter c[3];
	struct percpu_ptr p64, p8;
	atomic64_t above;
} __attribute__((aligned(64)));

#define CPUS 3
#define RUN  1024

static struct percpu_area *area_of(struct shared *s)
{
	return (struct percpu_area *)(s + 1);
}

static size_t bytes(void)
{
	return sizeof(struct shared) + percpu_area_size(CPUS, RUN);
}

static void add_all(struct shared *s, long v)
{
	long carry = percpu_add_carry8(&s->p8, v, 32);

	if (carry)
		atomic64_add_return(carry == PERCPU_NO_SLOT ? v : carry, &s->above);
	this_cpu_add64(&s->p64, v);
	for (int i = 0; i < 3; i++)
		percpu_counter_add(&s->c[i], v);
}

/* Everything that changes shared memory. Ends with nothing allocated. */
static void live(struct shared *s)
{
	struct percpu_area *a = area_of(s);
	long off = percpu_alloc(a, 600, 4); /* three words of the bitmap */

	percpu_ptr_set(&s->p64, a, percpu_alloc(a, 8, 8));
	percpu_ptr_set(&s->p8, a, percpu_alloc(a, 1, 1));
	percpu_counter_init_many(s->c, a, 0, 3);
	for (int i = 0; i < 3; i++)
		add_all(s, 20);
	percpu_counter_sync(&s->c[0]);
	percpu_counter_limited_add(&s->c[1], 70, 10);
	percpu_counter_limited_add(&s->c[1], 70, 10);
	if (!a->rseq_cpus) {
		percpu_cpu_down(a, 1);
		percpu_cpu_up(a, 1);
	}
	percpu_counter_set(&s->c[2], 5);
	percpu_counter_destroy_many(s->c, 3);
	percpu_free(a, percpu_ptr_off(&s->p64), 8);
	percpu_ptr_clear(&s->p64);
	percpu_free(a, percpu_ptr_off(&s->p8), 1);
	percpu_ptr_clear(&s->p8);
	percpu_free(a, off, 600);
}

/* Whatever is left is of use: counters add and end, CPUs come and go, memory is given out. */
static void goes_on_working(struct shared *s, bool whole)
{
	struct percpu_area *a = area_of(s);

	for (int i = 0; i < 3; i++) {
		struct percpu_counter *c = &s->c[i];
		int64_t sum;

		if (!percpu_counter_initialized(c))
			continue;
		sum = percpu_counter_sum(c);
		cr_assert(sum >= 0 && sum <= 70, "%ld", (long)sum);
		percpu_counter_add(c, 1000);
		cr_assert_eq(percpu_counter_sum(c), sum + 1000);
		percpu_counter_destroy(c);
	}
	if (!a->rseq_cpus && !percpu_cpu_online(a, 1))
		cr_assert_eq(percpu_cpu_up(a, 1), 0);
	cr_assert_eq(percpu_cpu_down(a, 0), 0);
	cr_assert_eq(a->nr_online, CPUS - 1);
	cr_assert_leq(percpu_used(a), whole ? 0 : 600 + 8 + 4 + 12);
	cr_assert_eq(percpu_counter_init_many(s->c, a, 7, 3), 0);
	percpu_counter_inc(&s->c[2]);
	cr_assert_eq(percpu_counter_sum(&s->c[2]), 8);
}

/* True: it has lived through all steps. */
static bool die_at(int n, enum percpu_mode mode)
{
	struct shared *s =
		mmap(NULL, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	cr_assert_neq(s, MAP_FAILED);
	cr_assert_eq(percpu_area_init(area_of(s), bytes() - sizeof(*s), CPUS, RUN, mode), 0);
	pid = fork();
	if (!pid) {
		dies_in = n;
		live(s);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
	goes_on_working(s, !WIFSIGNALED(status));
	munmap(s, bytes());
	return !WIFSIGNALED(status);
}

static void die_everywhere(enum percpu_mode mode)
{
	int n = 1;

	percpu_set_cpu(mode == PERCPU_RSEQ ? -1 : 1);
	while (!die_at(n, mode))
		n++;
	cr_assert_gt(n, 60, "only %d steps", n);
}

Test(percpu_steps, death_at_each_atomic)
{
	die_everywhere(PERCPU_ATOMIC);
}

Test(percpu_steps, death_at_each_rseq)
{
	if (registered_cpu() < 0 || percpu_machine_cpus() > CPUS)
		cr_skip("no rseq on at most %d CPUs here", CPUS);
	die_everywhere(PERCPU_RSEQ);
}
