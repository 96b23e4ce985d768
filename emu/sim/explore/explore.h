/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a test for the interleaving explorer is written: docs/explorer.md. */
#ifndef EMU_SIM_EXPLORE_EXPLORE_H
#define EMU_SIM_EXPLORE_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kpemu/percpu_counter_tree.h>

#define EXPLORE_CPUS_MAX    4 /* virtual CPUs of a test ... */
#define EXPLORE_HELPERS_MAX 2 /* ... and threads that kill or move them */

/*
 * A test. setup() runs once; then, for each interleaving from the same memory, thread() on each
 * virtual CPU at once and check() when all have ended. What differs between interleavings lies in
 * variables marked EXPLORE_STATE, in explore_alloc()ed memory or in the world.
 */
struct explore_test {
	const char *name, *about;
	unsigned int cpus_min, cpus_max; /* 0: 2 and EXPLORE_CPUS_MAX */
	void (*setup)(void);
	void (*thread)(unsigned int cpu); /* a helper's @cpu is explore_cpus() or more */
	void (*check)(void);
	/* What must hold between any two steps. Makes the order of all writes matter: costly. */
	void (*step)(void);
	unsigned int helpers;
	unsigned int mortal; /* mask of the CPUs that a helper kills */
	bool moves; /* a helper moves threads from CPU to CPU */
	const char *finds; /* what the test is to show: status 1 is the expected one; else NULL */
};

/* EXPLORE_TEST(x) = { .name = "x", ... }; puts a test on the list. */
#define EXPLORE_TEST(ident)                                                      \
	static const struct explore_test ident##_test;                           \
	static const struct explore_test *const ident##_entry                    \
		__attribute__((section("explore_tests"), used)) = &ident##_test; \
	static const struct explore_test ident##_test

/* Memory that each interleaving finds as setup() left it. */
#define EXPLORE_STATE __attribute__((section("explore_state"), aligned(16)))

/* How many CPUs there are, and how many operations each is to do (3 on two CPUs, 2 on three). */
unsigned int explore_cpus(void);
unsigned int explore_ops(void);

/* Zeroed memory, 64-byte aligned; a leak, a use after free and a double free are findings. */
void *explore_alloc(size_t size);
void explore_free(void *p, size_t size);

/* An area of @nr_cpus emulated CPUs, whose slots must be allocated when they are used. */
struct percpu_area *explore_area(unsigned int nr_cpus, enum percpu_mode mode);
/* Memory for trees on it. */
const struct percpu_counter_tree_memory *explore_tree_memory(struct percpu_area *area);

/* For setup(): @thread is on emulated CPU @cpu; without this, on that of its own number. */
void explore_place(unsigned int thread, unsigned int cpu);

/* Does @ok hold? If not, the interleaving is a finding, and explore_check() does not return. */
void explore_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define explore_check(ok)                                                             \
	do {                                                                          \
		if (!(ok))                                                            \
			explore_fail("%s:%d: not true: %s", __FILE__, __LINE__, #ok); \
	} while (0)
/* The same for two integers, which are then named. */
#define explore_equal(a, b)                                                                        \
	do {                                                                                       \
		long a_ = (a), b_ = (b);                                                           \
		if (a_ != b_)                                                                      \
			explore_fail("%s:%d: %s is %ld, not %ld", __FILE__, __LINE__, #a, a_, b_); \
	} while (0)

/* Steps of helpers: @thread never takes another step; it goes on on CPU @cpu. */
void explore_kill(unsigned int thread);
void explore_move(unsigned int thread, unsigned int cpu);
/* Has it been killed? A step of its own. Outside of threads: a plain question. */
bool explore_killed(unsigned int thread);

/* For step(): the thread that has taken the last step; -1: none has. */
int explore_last(void);
/* How many steps the calling thread has taken in the @size bytes at @p; NULL: anywhere. */
unsigned int explore_steps(const void *p, size_t size);

/* --- the world (standins.c) --- */

struct task_struct;
struct ucounts;

/* explore_world - a private world with a task for each CPU; @current is each thread's own. */
void explore_world(void);
struct task_struct *explore_task(unsigned int cpu);

/* explore_world_percpu - after the records have been made: their counters are state too (percpu-rfc). */
void explore_world_percpu(void);

/* explore_user_ns - a namespace that @creator has made, with @max for all it is charged. Its number. */
uint32_t explore_user_ns(const struct ucounts *creator, long max);

/* A pending signal for each CPU: index + 1 of the record that it is charged to. */
extern uint32_t explore_signal[EXPLORE_CPUS_MAX];

#endif
