// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How often charging and releasing a signal touches a cache line that several CPUs use.
 *
 * One process plays all CPUs, in turns, so that the numbers are the same each time. It is linked
 * with the counters compiled once more, with an atomic.h that tells of every access (seam/). What
 * counts are the lines of the world that more than one CPU accesses, and that somebody writes,
 * after the counters have settled. usage: ucounts-lines [CPUS...]; prints lines of
 *
 *   ALGORITHM CPUS PATTERN RELATION ROOM  units  accesses  transfers  refused
 *
 * of which the last three are for one charge and one release. Transfers are accesses for which
 * the line must come from another CPU: reads by one that has no copy, writes by one that is not the
 * only one to have it. Each CPU uses one unit at a time, or BURST; ROOM is what the limits leave,
 * in units beyond those in use:
 *
 *   last      one unit for all, who take it in turns
 *   full      nothing: all that there is, one for each CPU, is in use at once
 *   stock     one more for each CPU, so two with the one in use: what `stock` needs
 *   percpu    a batch more for each CPU: what `percpu` needs
 *   plenty    a million more
 */
#include "tests/bench/ucounts.h"

#define MAX_CPUS 256
#define NR_LINES 32768 /* a power of two */
#define SETTLE   64 /* rounds before it counts */
#define ROUNDS   64 /* as many as a stock has units */
#define HELD     1000 /* units that somebody has all the time */

/* --- lines --- */

struct line {
	uintptr_t number; /* 0 = none */
	long accesses, transfers;
	int cpu; /* that came first; -1 = none has */
	bool several, written;
	uint64_t copies[MAX_CPUS / 64];
};

static struct line lines[NR_LINES];
static unsigned int nr_lines, cpu;
static bool counting;

static struct line *line_of(uintptr_t number)
{
	uintptr_t i = number * 0x9e3779b97f4a7c15 >> 40;

	for (;; i++) {
		struct line *l = &lines[i % NR_LINES];

		if (l->number == number)
			return l;
		if (l->number)
			continue;
		check(++nr_lines < NR_LINES / 2, "counting so many lines");
		l->number = number;
		l->cpu = -1;
		return l;
	}
}

static struct line *touched(const volatile void *p)
{
	struct line *l;

	if (!counting || !world_overlaps((uintptr_t)p, (uintptr_t)p + 1))
		return NULL;
	l = line_of((uintptr_t)p / 64);
	l->accesses++;
	if (l->cpu < 0)
		l->cpu = cpu;
	l->several |= l->cpu != (int)cpu;
	return l;
}

static bool has_copy(const struct line *l)
{
	return l->copies[cpu / 64] >> cpu % 64 & 1;
}

static bool has_only_copy(const struct line *l)
{
	for (int i = 0; i < MAX_CPUS / 64; i++)
		if (l->copies[i] & ~(i == (int)cpu / 64 ? 1ull << cpu % 64 : 0))
			return false;
	return has_copy(l);
}

void line_read(const volatile void *p)
{
	struct line *l = touched(p);

	if (!l)
		return;
	l->transfers += !has_copy(l);
	l->copies[cpu / 64] |= 1ull << cpu % 64;
}

void line_written(const volatile void *p)
{
	struct line *l = touched(p);

	if (!l)
		return;
	l->transfers += !has_only_copy(l);
	l->written = true;
	memset(l->copies, 0, sizeof(l->copies));
	l->copies[cpu / 64] = 1ull << cpu % 64;
}

/* Copies stay where they are. */
static void count_from_here(void)
{
	for (int i = 0; i < NR_LINES; i++) {
		lines[i].accesses = lines[i].transfers = 0;
		lines[i].several = lines[i].written = false;
		lines[i].cpu = -1;
	}
}

/* --- what is done --- */

struct play {
	enum pattern pattern;
	enum relation relation;
	unsigned int cpus;
	bool in_turns; /* a CPU charges when the one before it has released */
	long limit; /* of each charge */
	long refused; /* charges: an algorithm may be less than exact */
	int taken[MAX_CPUS];
	struct ucounts *leaf[MAX_CPUS];
};

static void play_cpu(unsigned int c)
{
	cpu = c;
	percpu_set_cpu(c);
}

static int times(const struct play *p)
{
	return p->pattern == BURSTS ? BURST : 1;
}

static void play_charges(struct play *p, unsigned int c)
{
	play_cpu(c);
	for (int i = 0; i < times(p); i++) {
		bool done = charge_rlimit_ucounts(p->leaf[c], SIGNALS, 1, p->limit, false, NULL);

		p->taken[c] += done;
		p->refused += !done;
	}
}

static void play_releases(struct play *p, unsigned int c)
{
	play_cpu(p->pattern == CROSS ? (c + 1) % p->cpus : c);
	for (; p->taken[c]; p->taken[c]--)
		dec_rlimit_ucounts(p->leaf[c], SIGNALS, 1);
}

static void play_round(struct play *p)
{
	for (unsigned int c = 0; c < p->cpus; c++) {
		play_charges(p, c);
		if (p->in_turns)
			play_releases(p, c);
	}
	for (unsigned int c = 0; c < p->cpus && !p->in_turns; c++)
		play_releases(p, c);
}

static void tell(struct play *p, const char *room, long units)
{
	int part = p->pattern == BURSTS ? 4 : 1;
	double operations = (double)ROUNDS / part * p->cpus * times(p);
	long accesses = 0, transfers = 0;

	memset(lines, 0, sizeof(lines));
	nr_lines = 0;
	counting = true;
	/* and until each leaf may be split: after a charge for each CPU */
	for (unsigned int i = 0; i < SETTLE / part + p->cpus; i++)
		play_round(p);
	count_from_here();
	p->refused = 0;
	for (int i = 0; i < ROUNDS / part; i++)
		play_round(p);
	counting = false;
	for (int i = 0; i < NR_LINES; i++)
		if (lines[i].several && lines[i].written) {
			accesses += lines[i].accesses;
			transfers += lines[i].transfers;
		}
	printf("%s %u %s %s %s %ld %.3f %.3f %.3f\n", ucounts_ops()->name, p->cpus,
	       pattern_names[p->pattern], relation_names[p->relation], room, units,
	       accesses / operations, transfers / operations, p->refused / operations);
}

/* @units more than what is in use. */
static void with_room(struct play *p, const char *room, long units)
{
	long of_one = times(p), of_all = p->in_turns ? of_one : of_one * p->cpus;
	bool own = p->relation == OWN_CREATORS, together = p->relation == ONE_NAMESPACE;

	for (unsigned int c = 0; c < p->cpus; c++) {
		struct ucounts *creator = creator_record(CREATOR + (own ? c : 0));

		if (!own && !c)
			wear_in(creator, p->cpus);
		begin_with(p->leaf[c], 0);
		begin_with(creator, HELD);
		set_max_above(p->leaf[c], HELD + (own ? of_one : of_all) + units);
	}
	p->limit = (together ? of_all : of_one) + units;
	tell(p, room, units);
}

/* Limits are rounded down to ceilings, large ones by up to 1/1024. */
static long rounded_up(long units)
{
	return units + (units + HELD) / 512;
}

static void with_relation(unsigned int cpus, enum relation relation)
{
	long batch = 2 * cpus > 32 ? 2 * cpus : 32;
	struct play p = { .relation = relation, .cpus = cpus };

	for (unsigned int c = 0; c < cpus; c++)
		p.leaf[c] = relation == ONE_NAMESPACE && c ?
				    p.leaf[0] :
				    make_leaf(CREATOR + (relation == OWN_CREATORS ? c : 0));
	for (int i = 0; i < NR_PATTERNS; i++) {
		p.pattern = i;
		p.in_turns = true;
		with_room(&p, "last", 0);
		p.in_turns = false;
		with_room(&p, "full", 0);
		with_room(&p, "stock", cpus);
		with_room(&p, "percpu", rounded_up(cpus * batch));
		with_room(&p, "plenty", 1000000);
	}
}

static void with_world(uint32_t alg, unsigned int cpus, enum relation relation)
{
	check(!world_map_private(), "a world");
	world->ucounts_alg = alg;
	world->nr_cpus = cpus;
	with_relation(cpus, relation);
	world_unmap();
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int cpus = atoi(argv[i]);

		/* Each may have two records, and each of these has a line of each CPU. */
		check(cpus >= 1 && 2 * cpus * cpus <= WORLD_UCOUNTS_CPUS, "that number of CPUs");
		for (uint32_t alg = 0; alg < NR_UCOUNTS_ALGS; alg++)
			for (int r = 0; r < NR_RELATIONS; r++)
				with_world(alg, cpus, r);
	}
	return 0;
}
