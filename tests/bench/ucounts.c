// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The charges and releases of signals that ucounts.py times.
 *
 * An operation is charge_rlimit_ucounts() and dec_rlimit_ucounts() of one signal, as for every
 * signal, in a namespace at the first level: its own record is charged and that of its creator.
 * What surrounds them (the task's word, the gates, the signal's own place) is the same whatever the
 * algorithm, and left out.
 *
 * ucounts reads lines and answers each with one:
 *
 *   algorithms           their names, and "none": the loop alone
 *   about                CPUs, and how many processes there can be
 *   ALGORITHM PATTERN RELATION FLOWS LIMIT ROOM COUNT
 *                        for each process the nanoseconds that one of its operations took, COUNT of
 *                        them rounded up to full bursts, and which part of that time it ran, all
 *                        others having begun; and the part of all charges that was refused. Or
 *                        "error: ..."
 *
 * LIMIT is that of the namespace's record and what the namespace may hold of its creator's. ROOM is
 * what is free in the creator's record, of LIMIT; -1: all is. With a ROOM, the limit of the
 * namespace's own record is 1.
 *
 * FLOWS is 1 or 2: two are in sibling namespaces, unless the relation is one_namespace. Each
 * belongs to a process that is pinned to a CPU of its own, and all use one shared mapping. In the
 * pattern cross, one process charges and the other releases: both of two flows, or one does the one
 * and one the other. A charge becomes known to the other eight at a time. Where there is only one
 * to charge, the other process runs an empty loop, so that the machine is as busy, and with nothing
 * else.
 */
#include "tests/bench/processes.h"
#include "tests/bench/ucounts.h"

#define WINDOW 16 /* units of a flow in pattern cross that wait to be released */
#define BLOCK  8

struct flow {
	long charged ALONE, released ALONE;
};

static struct {
	struct flow flow[MAX_PROCESSES];
	long refused[MAX_PROCESSES] ALONE; /* charges of each in the last sample */
} * shared;

static int nr_running; /* processes that there are */

/* --- what they charge --- */

/* A world for each algorithm, and the records there: of the first flow, and of the second. */
static struct world_header *worlds[NR_UCOUNTS_ALGS];
static struct {
	struct ucounts *creator[MAX_PROCESSES];
	struct ucounts *first, *sibling, *stranger;
} records[NR_UCOUNTS_ALGS];

/* Shared by the processes, and nobody else finds it. */
static void make_world(int alg)
{
	char name[32], path[WORLD_PATH_MAX];
	int fd;

	snprintf(name, sizeof(name), "bench-ucounts-%d-%d", getpid(), alg);
	world = NULL;
	fd = world_create(name, getuid());
	check(fd >= 0, "a world");
	world_path(path, getuid(), name);
	unlink(path);
	close(fd);
	world->ucounts_alg = alg;
	world->nr_cpus = percpu_machine_cpus();
	records[alg].creator[0] = creator_record(CREATOR);
	records[alg].creator[1] = creator_record(CREATOR + 1);
	records[alg].first = make_leaf(CREATOR);
	records[alg].sibling = make_leaf(CREATOR);
	records[alg].stranger = make_leaf(CREATOR + 1);
	worlds[alg] = world;
}

struct request {
	int alg; /* NR_UCOUNTS_ALGS: none */
	enum pattern pattern;
	enum relation relation;
	int flows;
	long limit, room;
	long count;
};

/* How many have a time that is asked for: the others keep them company. */
static int processes(const struct request *r)
{
	return r->pattern == CROSS ? MAX_PROCESSES : r->flows;
}

static struct ucounts *leaf_of(const struct request *r, int flow)
{
	if (!flow || r->relation == ONE_NAMESPACE)
		return records[r->alg].first;
	return r->relation == ONE_CREATOR ? records[r->alg].sibling : records[r->alg].stranger;
}

static void prepare(const struct request *r)
{
	memset(shared->flow, 0, sizeof(shared->flow));
	if (r->alg == NR_UCOUNTS_ALGS)
		return;
	world = worlds[r->alg];
	for (int i = 0; i < MAX_PROCESSES; i++) {
		begin_with(leaf_of(r, i), 0);
		wear_in(records[r->alg].creator[i], world->nr_cpus);
		begin_with(records[r->alg].creator[i], r->room < 0 ? 0 : r->limit - r->room);
		set_max_above(leaf_of(r, i), r->limit);
	}
}

/* --- the loops --- */

/* What a loop works on: the record to charge, the one to release, and the two flows of these. */
struct work {
	struct ucounts *charge, *release;
	struct flow *in, *out;
	uint64_t limit;
	bool charges, releases; /* of pattern cross */
};

static long refused;

/* !@real: what the loops take without. Barriers keep operations from being joined. */
static inline __attribute__((always_inline)) bool charge(const struct work *w, bool real)
{
	struct refusal why;
	bool done = !real || charge_rlimit_ucounts(w->charge, SIGNALS, 1, w->limit, false, &why);

	__asm__ volatile("" ::: "memory");
	refused += !done;
	return done;
}

static inline __attribute__((always_inline)) void release(const struct work *w, bool real)
{
	if (real)
		dec_rlimit_ucounts(w->release, SIGNALS, 1);
	__asm__ volatile("" ::: "memory");
}

static inline __attribute__((always_inline)) void same(const struct work *w, long n, bool real)
{
	do
		if (charge(w, real))
			release(w, real);
	while (--n);
}

static inline __attribute__((always_inline)) void burst(const struct work *w, long n, bool real)
{
	for (; n > 0; n -= BURST) {
		int taken = 0;

		for (int i = 0; i < BURST; i++)
			taken += charge(w, real);
		while (taken--)
			release(w, real);
	}
}

/* What the other has done is looked at only where one waits for it. */
static inline __attribute__((always_inline)) void cross(const struct work *w, long n, bool real)
{
	long in = w->in->charged, in_end = w->charges ? in + n : in, in_seen = in;
	long out = w->out->released, out_end = w->releases ? out + n : out, out_seen = 0;

	while (in < in_end || out < out_end) {
		if (in < in_end && in - in_seen < WINDOW) {
			/* There may be less room than for all that waits, and all is released. */
			if (!charge(w, real))
				inc_rlimit_ucounts(w->charge, SIGNALS, 1);
			if (!(++in % BLOCK) || in == in_end)
				smp_store_release(&w->in->charged, in);
		} else if (in < in_end) {
			in_seen = smp_load_acquire(&w->in->released);
		}
		if (out < out_end && out < out_seen) {
			release(w, real);
			if (!(++out % BLOCK) || out == out_end)
				smp_store_release(&w->out->released, out);
		} else if (out < out_end) {
			out_seen = smp_load_acquire(&w->out->charged);
		}
	}
}

/* Loops begin at a line's start, so that all pay the same for them. */
#define LOOP(name)                                                                        \
	static __attribute__((noinline, optimize("align-loops=64"))) void name##_charge(  \
		const struct work *w, long n)                                             \
	{                                                                                 \
		name(w, n, true);                                                         \
	}                                                                                 \
	static __attribute__((noinline, optimize("align-loops=64"))) void name##_nothing( \
		const struct work *w, long n)                                             \
	{                                                                                 \
		name(w, n, false);                                                        \
	}
LOOP(same)
LOOP(burst)
LOOP(cross)

typedef void loop_fn(const struct work *w, long n);

static loop_fn *const loops[NR_PATTERNS][2] = {
	[SAME] = { same_charge, same_nothing },
	[CROSS] = { cross_charge, cross_nothing },
	[BURSTS] = { burst_charge, burst_nothing },
};

/* --- a sample --- */

static struct work work_of(const struct request *r)
{
	int other = r->pattern == CROSS ? !me : me;
	struct work w = {
		.in = &shared->flow[me],
		.out = &shared->flow[other],
		.limit = r->room < 0 ? r->limit : 1,
		.charges = r->flows > 1 || !me,
		.releases = r->flows > 1 || me,
	};

	if (r->alg < NR_UCOUNTS_ALGS) {
		world = worlds[r->alg];
		w.charge = leaf_of(r, me);
		w.release = leaf_of(r, other);
	}
	return w;
}

static void sample(const struct request *r)
{
	bool idle = r->alg == NR_UCOUNTS_ALGS || me >= processes(r);
	loop_fn *loop = loops[r->pattern][idle];
	struct work w = work_of(r);

	loop(&w, r->count / 4 / BURST * BURST + BURST);
	begin_together(nr_running);
	refused = 0;
	loop(&w, r->count);
	end_own();
	shared->refused[me] = refused;
	while (r->pattern != CROSS && !all_done(nr_running))
		loop(&w, BURST);
}

/* --- requests --- */

static void answer_sample(const struct request *r)
{
	long all_refused = 0;

	prepare(r);
	run_processes(nr_running, r, sizeof(*r));
	print_times(nr_running, processes(r), r->count);
	for (int i = 0; i < processes(r); i++)
		all_refused += shared->refused[i];
	printf(" %.4f\n", (double)all_refused / r->flows / r->count);
}

static int alg_of(const char *name)
{
	return strcmp(name, "none") ? ucounts_alg_of(name) : NR_UCOUNTS_ALGS;
}

static bool parse(const char *line, struct request *r)
{
	char alg[32], pattern[32], relation[32];
	int p, q;

	if (sscanf(line, "%31s %31s %31s %d %ld %ld %ld", alg, pattern, relation, &r->flows,
		   &r->limit, &r->room, &r->count) != 7)
		return false;
	r->alg = alg_of(alg);
	p = name_index(pattern_names, NR_PATTERNS, pattern);
	q = name_index(relation_names, NR_RELATIONS, relation);
	r->pattern = p;
	r->relation = q;
	r->count = (r->count + BURST - 1) / BURST * BURST;
	return r->alg >= 0 && p >= 0 && q >= 0 && r->flows >= 1 && r->flows <= 2 && r->count > 0 &&
	       r->limit > 0 && processes(r) <= nr_running;
}

static void answer(const char *line)
{
	struct request r;

	if (!strcmp(line, "algorithms\n")) {
		for (uint32_t i = 0; i < NR_UCOUNTS_ALGS; i++)
			printf("%s ", ucounts_ops_of(i)->name);
		printf("none\n");
	} else if (!strcmp(line, "about\n")) {
		printf("%u %d\n", percpu_machine_cpus(), nr_running);
	} else if (parse(line, &r)) {
		answer_sample(&r);
	} else {
		printf("error: no such request: %s", line);
	}
}

int main(void)
{
	struct request r;
	char line[160];

	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	check(shared != MAP_FAILED, "mmap");
	for (int i = 0; i < NR_UCOUNTS_ALGS; i++)
		make_world(i);
	nr_running = nr_processes();
	make_processes(nr_running, &r, sizeof(r));
	while (fgets(line, sizeof(line), stdin))
		answer(line);
	return 0;
}
