/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the explorer know of each other. */
#ifndef EMU_SIM_EXPLORE_ENGINE_H
#define EMU_SIM_EXPLORE_ENGINE_H

#include <signal.h>
#include <stdio.h>

#include "emu/sim/explore/explore.h"
#include "emu/sim/explore/seam.h"

/*
 * Threads are virtual CPUs, helpers and, under TSO, one for each virtual CPU that takes stores
 * from its buffer to memory: thread t + FLUSHER writes what t has stored.
 */
#define THREADS_MAX (EXPLORE_CPUS_MAX + EXPLORE_HELPERS_MAX)
#define FLUSHER     8
#define IDS_MAX     16
#define STEPS_MAX   6000
#define POOL_MAX    (STEPS_MAX * 16)
#define BUFFER_MAX  8
#define READS_MAX   64
#define EARLY_MAX   16
#define WAITED_MAX  4 /* waits of one thread before an interleaving is unfair */
#define MAIN        (-1)
#define STACK_SIZE  (64 * 1024)

typedef uint16_t mask_t; /* of thread ids */

struct access {
	uintptr_t addr;
	uint16_t size;
	bool write;
	bool own; /* read from the own store buffer: only its flush is in conflict */
};

/* A step that has been taken. */
struct event {
	uint8_t id;
	bool forced; /* ordered after all before it */
	uint16_t seq; /* its number among the thread's, from 1 */
	uint32_t first, n; /* its accesses in the pool */
	uint16_t clock[IDS_MAX]; /* for each thread, how many of its steps happen before this one */
};

/* What a step that sleeps would access; more than fit in are in conflict with everything. */
#define FOOTPRINT_MAX 24
struct footprint {
	uint8_t n;
	bool all;
	struct access a[FOOTPRINT_MAX];
};

/* A state on the way, and what has been and is to be tried from there. */
struct node {
	mask_t enabled, todo, done, sleep;
	int8_t chosen;
	int8_t before; /* whose step led here; MAIN at the start */
	bool before_goes_on; /* and could it go on? else a switch is no preemption */
	uint16_t preemptions;
	struct footprint slept[IDS_MAX];
};

/* For a change of what it has read; for its own store buffer, or its victim's, to be empty. */
enum waits {
	WAITS_NOT,
	WAITS_CHANGE,
	WAITS_FLUSH,
	WAITS_VICTIM
};

struct buffered {
	void *p;
	uint8_t size;
	bool fresh; /* stored in the step that is not over yet */
	uint64_t v, memory; /* while its thread runs, memory has v, as the thread sees it */
	const struct seam_site *at;
	uint16_t clock[IDS_MAX];
};

struct thread {
	void *sp;
	char *stack;
	bool ended;
	/* the step it is about to take */
	enum waits waits;
	bool woken;
	unsigned int waited; /* waits that a change has ended */
	int victim;
	unsigned int killed_at; /* the step that has stopped it */
	/* what it has read since it last had to wait */
	unsigned int nr_reads;
	bool reads_all;
	unsigned int nr_early; /* plain accesses before the first step */
	struct access early[EARLY_MAX];
	struct access reads[READS_MAX];
	struct buffered buffer[BUFFER_MAX];
	unsigned int buffer_first, buffer_n;
	/* its thread-local memory */
	struct percpu_self self;
	struct task_struct *task;
};

enum mode {
	MODE_DPOR,
	MODE_BOUND,
	MODE_RANDOM,
	MODE_PCT,
	MODE_REPLAY
};

/*
 * How an interleaving ended. UNFAIR: threads have woken each other over and over while another one
 * could have gone on; a scheduler that is fair lets it.
 */
enum verdict {
	HELD,
	FAILED,
	REDUNDANT,
	UNFAIR
};

struct engine {
	const struct explore_test *test;
	unsigned int cpus, ops, threads;
	bool tso;

	/* the interleaving that is running */
	int me; /* MAIN, or the id of the thread */
	struct thread thread[THREADS_MAX];
	unsigned int depth; /* steps taken */
	unsigned int pool_n;
	unsigned int forced; /* steps that only waiting threads were left for */
	mask_t asked; /* those that have had such a step since the last other one */
	uint16_t last_clock[IDS_MAX][IDS_MAX];
	bool record; /* for the trace */
	enum verdict verdict;
	char why[512];
	void *main_sp;
	struct task_struct *main_task; /* of setup() and checks */
	struct event *open; /* the step that the running thread has begun and not left */
	const struct seam_site *at; /* where */
	unsigned int chosen; /* steps that have been chosen, the one that fails included */
	bool in_step; /* the test's step() is running */
	bool watched_grew; /* it has looked at something new: what was explored is void */
	bool starting; /* threads run up to their first step */
	int running; /* the last thread that took a step, but for flushers; MAIN at the start */

	/* the search */
	enum mode mode;
	unsigned int nr_nodes; /* choices that are made already; steps before the last one are old */
	unsigned int bound; /* preemptions */
	uint64_t rng;
	int8_t schedule[STEPS_MAX]; /* of the interleaving that is running */
	unsigned int schedule_n;
	int8_t replay[STEPS_MAX]; /* what MODE_REPLAY does first */
	unsigned int replay_n;
	bool replay_wrong; /* a replayed choice was not possible */
	unsigned int priority[IDS_MAX], change[3];

	uint64_t schedules, redundant, unfair;
	unsigned int deepest;
	volatile sig_atomic_t interrupted;
};
extern struct engine eng;
extern struct event events[STEPS_MAX];
extern struct node nodes[STEPS_MAX + 1];
extern struct access pool[POOL_MAX];

/* --- memory.c --- */

void memory_init(void);
/* What setup() has left is what each interleaving finds. */
void memory_snapshot(void);
void memory_restore(void);
/* Is it memory that threads share? */
bool memory_shared(const void *p);
/* Can it be memory that threads share? */
bool memory_ours(const void *p);
/* A finding if the bytes may not be accessed. */
void memory_check(const void *p, unsigned int size, const struct seam_site *at);
/* At the end: leaks, writes after free. */
void memory_audit(void);
uint64_t memory_hash(void);
/* A mapping of its own, of which the named parts are restored. */
void *memory_map(size_t size);
void memory_part(void *p, size_t size);
long memory_mmap(size_t size);
void memory_munmap(void *p, size_t size);
/* "arena+0x40", for a trace. */
const char *memory_name(char *buf, size_t size, const void *p);

/* --- vcpu.c --- */

void vcpu_init(void);
/* Run the test's setup(). False: eng.why says what went wrong. */
bool vcpu_setup(void);
/* Run one interleaving; eng.verdict and eng.why say how it ended. */
void vcpu_run(void);

/* All threads have ended, before check(). (main.c) */
void explore_note_end(void);

/* --- dpor.c --- */

/* Who of @enabled is next? MAIN: nobody, this interleaving is redundant. */
int dpor_choose(mask_t enabled);
bool accesses_conflict(const struct access *a, int a_id, const struct access *b, int b_id);
/* Step @e at the present depth has been taken: order it, and see to what it races with. */
void dpor_step(struct event *e);
/* Thread @id would have taken a step after @clock, had it not been for step @i. */
void dpor_never(int id, unsigned int i, const uint16_t *clock);
void clock_join(uint16_t *clock, const uint16_t *other);
/* On to the next interleaving; false: all have been explored. */
bool dpor_next(void);

/* --- search.c --- */

int search_choose(mask_t enabled);
bool search_next(void);
void search_restart(enum mode mode);
/* What MODE_REPLAY does is what was done last. */
void search_keep(void);
/* The shortest interleaving with the fewest switches that fails, from the one that has failed. */
void search_shrink(void);

/* --- trace.c --- */

void trace_reset(void);
void trace_step(int id, const struct seam_site *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void trace_print(FILE *out);
/* A schedule as text: letters and how often; A is CPU 0, a its store buffer. */
void seed_print(FILE *out);
bool seed_parse(const char *text);

#endif
