// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The additions and sums that counters.py times.
 *
 * counters reads lines and answers each with one:
 *
 *   rows                 names of the rows, each followed by the processes it can be run with
 *   about                the mode of per-CPU memory, its CPUs, and how many processes there can be
 *   ROW PROCESSES COUNT  for each process the nanoseconds that one of its COUNT operations took, and
 *                        which part of that time it ran, all others having begun; or "error: ..."
 *
 * Processes are made at the start. Each is pinned to a CPU of its own, and all use one shared
 * mapping. Each row is the same loop about one operation, and process 0 alone or all run it, after
 * a sixteenth of it for the caches. Who has done its count goes on until all have.
 */
#include <string.h>

#include <kpemu/percpu.h>
#include <kpemu/percpu_counter.h>
#include <kpemu/percpu_counter_tree.h>

#include "tests/bench/processes.h"

#define RUN        4096 /* bytes of a CPU: a page each, as where there are many counters */
#define BATCH      1024 /* of the split counter and of one row */
#define TREE_BATCH 32 /* that of an mm's counters */
#define MEMORY     (32ul << 20)

static const unsigned int sum_cpus[] = { 2, 64, 384, 1024 };
#define NR_SUMS (sizeof(sum_cpus) / sizeof(sum_cpus[0]))

struct own {
	int64_t slot; /* the floor: a thread's own word */
	struct percpu_counter_tree lazy ALONE; /* its own, as a process has an mm of its own */
};

struct split {
	atomic64_t add ALONE;
};

/* Everything that processes share; areas and nodes follow it. */
struct shared {
	struct own own[MAX_PROCESSES] ALONE;
	atomic64_t one ALONE;
	atomic64_t split_count ALONE;
	struct split split[PERCPU_MAX_CPUS];
	struct percpu_ptr slots ALONE;
	struct percpu_ptr atomic_slots ALONE;
	struct percpu_counter counter ALONE;
	struct percpu_counter default_counter ALONE;
	struct percpu_counter_tree tree ALONE;
	struct percpu_counter_tree lazy ALONE;
	struct {
		struct percpu_counter counter ALONE;
		struct percpu_counter_tree tree ALONE;
	} sum[NR_SUMS];
};

static struct shared *shared;
static size_t used; /* bytes of the mapping */
static struct percpu_area *area; /* of the rows that add */

/* --- the rows --- */

/*
 * The loop is never unrolled, and begins at a line's start, so that all rows pay the same for it.
 * The barrier keeps an operation from being joined with the next.
 */
#define LOOP(name, what, operation)                                                    \
	__attribute__((noinline, optimize("align-loops=64"))) static void name(long n) \
	{                                                                              \
		what;                                                                  \
                                                                                       \
		do {                                                                   \
			operation;                                                     \
			__asm__ volatile("" ::: "memory");                             \
		} while (--n);                                                         \
	}

/* A value that is needed, but nowhere. */
static inline void use(int64_t v)
{
	__asm__ volatile("" : : "r"(v));
}

static inline void thread_slot_add(int64_t *slot)
{
	WRITE_ONCE(*slot, READ_ONCE(*slot) + 1);
}

/* As in liburcu's rculfhash: an atomic on the CPU's word, each 1024th goes to the count too. */
static inline void split_add(struct shared *s)
{
	struct split *split = &s->split[sched_getcpu() % PERCPU_MAX_CPUS];

	if (!(atomic64_add_return(1, &split->add) % BATCH))
		atomic64_add_return(BATCH, &s->split_count);
}

LOOP(loop_nothing, (void)0, (void)0)
LOOP(loop_thread_slot, int64_t *p = &shared->own[me].slot, thread_slot_add(p))
LOOP(loop_atomic, atomic64_t *p = &shared->one, atomic64_inc(p))
LOOP(loop_split, struct shared *p = shared, split_add(p))
LOOP(loop_percpu, struct percpu_ptr *p = &shared->slots, this_cpu_add64(p, 1))
LOOP(loop_percpu_atomic, struct percpu_ptr *p = &shared->atomic_slots, this_cpu_add64(p, 1))
LOOP(loop_counter, struct percpu_counter *p = &shared->counter,
     percpu_counter_add_batch(p, 1, BATCH))
LOOP(loop_counter_default, struct percpu_counter *p = &shared->default_counter,
     percpu_counter_add(p, 1))
LOOP(loop_tree, struct percpu_counter_tree *p = &shared->tree, percpu_counter_tree_add(p, 1))
LOOP(loop_owner, struct percpu_counter_tree *p = &shared->own[me].lazy,
     percpu_counter_tree_add_owner(p, 1))
LOOP(loop_other, struct percpu_counter_tree *p = &shared->lazy, percpu_counter_tree_add(p, 1))
LOOP(loop_lazy_sum, struct percpu_counter_tree *p = &shared->lazy,
     use(percpu_counter_tree_precise_sum(p)))

#define SUM_LOOPS(i)                                                                     \
	LOOP(loop_read_##i, struct percpu_counter *p = &shared->sum[i].counter,          \
	     use(percpu_counter_read(p)))                                                \
	LOOP(loop_sum_##i, struct percpu_counter *p = &shared->sum[i].counter,           \
	     use(percpu_counter_sum(p)))                                                 \
	LOOP(loop_approximate_##i, struct percpu_counter_tree *p = &shared->sum[i].tree, \
	     use(percpu_counter_tree_approximate_sum(p)))                                \
	LOOP(loop_precise_##i, struct percpu_counter_tree *p = &shared->sum[i].tree,     \
	     use(percpu_counter_tree_precise_sum(p)))
SUM_LOOPS(0)
SUM_LOOPS(1)
SUM_LOOPS(2)
SUM_LOOPS(3)

static const struct row {
	const char *name;
	int max_processes;
	void (*loop)(long n);
} rows[] = {
	{ "empty_loop", MAX_PROCESSES, loop_nothing },
	{ "thread_slot", MAX_PROCESSES, loop_thread_slot },
	{ "shared_atomic", MAX_PROCESSES, loop_atomic },
	{ "split_counter", MAX_PROCESSES, loop_split },
	{ "percpu_add", MAX_PROCESSES, loop_percpu },
	{ "percpu_add_atomic", MAX_PROCESSES, loop_percpu_atomic },
	{ "percpu_counter_add_1024", MAX_PROCESSES, loop_counter },
	{ "percpu_counter_add", MAX_PROCESSES, loop_counter_default },
	{ "tree_add", MAX_PROCESSES, loop_tree },
	{ "lazy_add_owner", MAX_PROCESSES, loop_owner },
	{ "lazy_add_other", MAX_PROCESSES, loop_other },
	{ "lazy_sum", 1, loop_lazy_sum },
	{ "read/2", 1, loop_read_0 },
	{ "sum/2", 1, loop_sum_0 },
	{ "approximate_sum/2", 1, loop_approximate_0 },
	{ "precise_sum/2", 1, loop_precise_0 },
	{ "read/64", 1, loop_read_1 },
	{ "sum/64", 1, loop_sum_1 },
	{ "approximate_sum/64", 1, loop_approximate_1 },
	{ "precise_sum/64", 1, loop_precise_1 },
	{ "read/384", 1, loop_read_2 },
	{ "sum/384", 1, loop_sum_2 },
	{ "approximate_sum/384", 1, loop_approximate_2 },
	{ "precise_sum/384", 1, loop_precise_2 },
	{ "read/1024", 1, loop_read_3 },
	{ "sum/1024", 1, loop_sum_3 },
	{ "approximate_sum/1024", 1, loop_approximate_3 },
	{ "precise_sum/1024", 1, loop_precise_3 },
};
#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

/* --- what they work on --- */

/* Of the mapping, which is zero; nothing is given back before the end. */
static void *take(void *arg, size_t size)
{
	void *p = (char *)shared + used;

	(void)arg;
	size = (size + 127) & ~(size_t)127;
	if (size > MEMORY - used)
		return NULL;
	used += size;
	return p;
}

static void keep(void *arg, void *p, size_t size)
{
	(void)arg, (void)p, (void)size;
}

static struct percpu_area *make_area(unsigned int cpus, enum percpu_mode mode)
{
	size_t size = percpu_area_size(cpus, RUN);
	struct percpu_area *a = take(NULL, size);

	check(a && !percpu_area_init(a, size, cpus, RUN, mode), "an area");
	return a;
}

static void make_slots(struct percpu_ptr *p, struct percpu_area *a)
{
	long off = percpu_alloc(a, sizeof(int64_t), sizeof(int64_t));

	check(off >= 0, "slots");
	percpu_ptr_set(p, a, off);
}

static void make_counter(struct percpu_counter *c, struct percpu_area *a)
{
	check(!percpu_counter_init(c, a, 0), "a percpu_counter");
}

static void make_tree(struct percpu_counter_tree *t, struct percpu_area *a, bool lazy)
{
	struct percpu_counter_tree_memory memory = { .area = a, .alloc = take, .free = keep };
	struct percpu_counter_tree_shape shape;

	check(!percpu_counter_tree_shape_init(&shape, a->nr_cpus) &&
		      !percpu_counter_tree_init_lazy(t, TREE_BATCH, &shape) &&
		      (lazy || !percpu_counter_tree_activate(t, &memory)),
	      "a counter tree");
}

static void make_all(void)
{
	unsigned int cpus = percpu_machine_cpus();

	shared = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(shared != MAP_FAILED, "mmap");
	used = sizeof(*shared);
	area = make_area(cpus, PERCPU_AUTO);
	make_slots(&shared->slots, area);
	make_slots(&shared->atomic_slots, make_area(cpus, PERCPU_ATOMIC));
	make_counter(&shared->counter, area);
	make_counter(&shared->default_counter, area);
	make_tree(&shared->tree, area, false);
	make_tree(&shared->lazy, area, true);
	for (int i = 0; i < MAX_PROCESSES; i++)
		make_tree(&shared->own[i].lazy, area, true);
	for (unsigned int i = 0; i < NR_SUMS; i++) {
		struct percpu_area *a = make_area(sum_cpus[i], PERCPU_ATOMIC);

		make_counter(&shared->sum[i].counter, a);
		make_tree(&shared->sum[i].tree, a, false);
	}
}

/* --- a sample --- */

struct request {
	const struct row *row;
	int processes;
	long count;
};

static void sample(const struct request *r)
{
	r->row->loop(r->count / 16 + 1);
	begin_together(r->processes);
	r->row->loop(r->count);
	end_own();
	while (!all_done(r->processes))
		r->row->loop(r->count / 64 + 1);
}

/* --- requests --- */

static void answer_sample(const struct request *r)
{
	run_processes(r->processes, r, sizeof(*r));
	print_times(r->processes, r->processes, r->count);
	printf("\n");
}

static const struct row *find_row(const char *name)
{
	for (size_t i = 0; i < NR_ROWS; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

static void answer_rows(void)
{
	for (size_t i = 0; i < NR_ROWS; i++)
		printf("%s%s %d", i ? " " : "", rows[i].name, rows[i].max_processes);
	printf("\n");
}

static void answer(const char *line, int max_processes)
{
	struct request r;
	char name[32];

	if (!strcmp(line, "rows\n"))
		answer_rows();
	else if (!strcmp(line, "about\n"))
		printf("%s %u %d\n", area->rseq_cpus ? "rseq" : "atomic", area->nr_cpus,
		       max_processes);
	else if (sscanf(line, "%31s %d %ld", name, &r.processes, &r.count) != 3 || r.count < 1 ||
		 !(r.row = find_row(name)) || r.processes < 1 || r.processes > max_processes ||
		 r.processes > r.row->max_processes)
		printf("error: no such request: %s", line);
	else
		answer_sample(&r);
}

int main(void)
{
	int max_processes = nr_processes();
	struct request r;
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	make_all();
	make_processes(max_processes, &r, sizeof(r));
	while (fgets(line, sizeof(line), stdin))
		answer(line, max_processes);
	return 0;
}
