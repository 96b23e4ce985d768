/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Operations as they take effect. */
#include <limits.h>

#include "emu/sim/explore/tests/monitor.h"

#define OPS_MAX 16

/* Nobody else looks at what is noted here, so it is not seen as accesses: the order does not matter. */
#define UNSEEN __attribute__((no_sanitize("thread")))

enum result {
	IN_FLIGHT,
	ACCEPTED,
	REFUSED,
};

struct op {
	long v;
	bool keep, was_full;
	enum result result;
	enum {
		NEW,
		WAITS, /* for its first step */
		RUNS,
	} stage;
	long limit[MONITOR_COUNTERS], added[MONITOR_COUNTERS];
	bool over[MONITOR_COUNTERS];
};

static struct {
	long use[MONITOR_COUNTERS]; /* after the last step */
	long sum[MONITOR_COUNTERS]; /* what has been accepted, less what has been released */
	unsigned int begun[EXPLORE_CPUS_MAX], judged[EXPLORE_CPUS_MAX];
	struct op op[EXPLORE_CPUS_MAX][OPS_MAX];
} seen EXPLORE_STATE;

/* Of a counter that is one word, @word. */
static struct counter {
	struct split s;
	const uint64_t *slot[MONITOR_SLOTS];
	const int64_t *word;
} counter[MONITOR_COUNTERS];
static unsigned int nr_counters;
static bool announced; /* the explorer knows what is looked at after each step */

static unsigned int add(struct counter *c)
{
	unsigned int i = nr_counters++;

	counter[i] = *c;
	seen.use[i] = seen.sum[i] = monitor_use(i);
	return i;
}

unsigned int monitor_split(const struct split *s)
{
	struct counter c = { .s = *s };

	if (s->nr > MONITOR_SLOTS)
		explore_fail("too many slots");
	for (unsigned int i = 0; i < s->nr; i++)
		c.slot[i] = s->slot(s, i);
	return add(&c);
}

unsigned int monitor_word(const int64_t *word)
{
	return add(&(struct counter){ .word = word });
}

static void announce(const struct counter *c)
{
	if (c->word) {
		READ_ONCE(*c->word);
		return;
	}
	READ_ONCE(c->s.c->word[0]);
	READ_ONCE(c->s.c->word[1]);
	for (unsigned int i = 0; i < c->s.nr; i++)
		if (c->slot[i])
			READ_ONCE(*c->slot[i]);
}

UNSEEN void monitor_begin(unsigned int cpu, long v, bool keep, const long *limit)
{
	struct op *op = &seen.op[cpu][seen.begun[cpu]++];

	op->v = v;
	op->keep = keep;
	for (unsigned int i = 0; i < nr_counters; i++)
		op->limit[i] = limit[i];
}

UNSEEN void monitor_end(unsigned int cpu, bool accepted)
{
	seen.op[cpu][seen.begun[cpu] - 1].result = accepted ? ACCEPTED : REFUSED;
}

/* The operation that is to be judged next; NULL: none. */
static UNSEEN struct op *present(int cpu)
{
	return cpu >= 0 && cpu < (int)explore_cpus() && seen.judged[cpu] < seen.begun[cpu] ?
		       &seen.op[cpu][seen.judged[cpu]] :
		       NULL;
}

static UNSEEN void note_change(struct op *op, unsigned int i, long use)
{
	long by = use - seen.use[i];

	if (op && op->v && op->limit[i] != MONITOR_ABSENT && by == op->v && !op->added[i]) {
		op->added[i] = by;
		op->over[i] = by > 0 && !op->keep && use > op->limit[i];
	} else if (op && op->v > 0 && by == -op->added[i]) {
		op->added[i] = 0;
	} else {
		explore_fail("P1: counter %u goes from %ld to %ld, by nobody's operation", i,
			     seen.use[i], use);
	}
}

/* Is a level full for it, whatever it has added itself? */
static UNSEEN bool full(const struct op *op, const long *use)
{
	for (unsigned int i = 0; i < nr_counters; i++)
		if (op->limit[i] != MONITOR_ABSENT && use[i] - op->added[i] + op->v > op->limit[i])
			return true;
	return false;
}

static UNSEEN void judge(const struct op *op)
{
	for (unsigned int i = 0; i < nr_counters; i++) {
		if (op->limit[i] == MONITOR_ABSENT)
			continue;
		if (op->result == REFUSED && op->added[i])
			explore_fail("P4: refused, and counter %u has %ld of it", i, op->added[i]);
		if (op->result == ACCEPTED && op->added[i] != op->v)
			explore_fail("P1: done, and counter %u has %ld of %ld", i, op->added[i],
				     op->v);
		if (op->result == ACCEPTED && op->over[i])
			explore_fail("P2: accepted above the limit of %ld of counter %u",
				     op->limit[i], i);
		seen.sum[i] += op->added[i];
	}
	if (op->result == REFUSED && (op->keep || !op->was_full))
		explore_fail("P3: refused, and no limit was reached");
}

/* @before and @use: of the counters, before the step that CPU @last has taken and after it. */
static UNSEEN void follow(int cpu, int last, const long *before, const long *use)
{
	struct op *op = present(cpu);

	if (op && op->stage == WAITS && cpu == last) {
		op->was_full = full(op, before);
		op->stage = RUNS;
	}
	if (op && op->stage == RUNS)
		op->was_full |= full(op, use);
	if (op && op->result) {
		judge(op);
		seen.judged[cpu]++;
		op = present(cpu);
	}
	if (op && op->stage == NEW)
		op->stage = WAITS;
}

UNSEEN void monitor_step(void)
{
	long before[MONITOR_COUNTERS];
	int last = explore_last();
	struct op *op = present(last);

	for (unsigned int i = 0; !announced && i < nr_counters; i++)
		announce(&counter[i]);
	announced = true;
	for (unsigned int i = 0; i < nr_counters; i++) {
		long use = monitor_use(i);

		before[i] = seen.use[i];
		if (use != before[i])
			note_change(op, i, use);
		seen.use[i] = use;
	}
	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		follow(cpu, last, before, seen.use);
}

void monitor_check(void)
{
	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++) {
		struct op *op = present(cpu);

		explore_check(!op || explore_killed(cpu));
		for (unsigned int i = 0; op && i < nr_counters; i++)
			seen.sum[i] += op->added[i];
	}
	for (unsigned int i = 0; i < nr_counters; i++)
		explore_equal(monitor_use(i), seen.sum[i]);
}

/* --- split counters: emu/lib/split_counter.c says how they are written --- */

enum {
	JOINED,
	SPLIT,
	JOINING,
	MOVING,
	COLLECT = 127,
};

struct slot_word {
	bool open;
	uint64_t tag;
	long ceiling, adds;
};

static UNSEEN struct slot_word slot_word(const struct counter *c, unsigned int i)
{
	uint64_t w = c->slot[i] ? *c->slot[i] : 0;

	return (struct slot_word){
		.open = w >> 33 & 1,
		.tag = w >> 34 & ((1u << 29) - 1),
		.ceiling = split_ceiling(w >> 16 & 0x1ffff),
		.adds = c->s.batch ? (int16_t)w : -(long)(w & 0xff),
	};
}

/* The words are those of a counter that is in order, whatever it has. */
static UNSEEN void check_slot(const struct slot_word *w, unsigned int mode, long ceiling)
{
	if (w->open && (mode == JOINED || w->ceiling != ceiling))
		explore_fail("split: a slot is open for %ld, in mode %u, %ld", w->ceiling, mode,
			     ceiling);
}

static UNSEEN long split_use(const struct counter *c)
{
	uint64_t lo = c->s.c->word[0], hi = c->s.c->word[1];
	unsigned int mode = lo & 3, moved = mode == MOVING ? hi >> 7 & 2047 : c->s.nr;
	unsigned int amount = hi & 127;
	long use = (int64_t)lo >> 13, ceiling = split_ceiling(hi >> 18 & 0x1ffff);

	if ((mode == SPLIT || mode == MOVING) && use + (long)c->s.nr * c->s.batch > ceiling)
		explore_fail("split: %ld is too near to the ceiling of %ld", use, ceiling);
	for (unsigned int i = 0; i < c->s.nr; i++) {
		struct slot_word w = slot_word(c, i);
		bool done = w.tag == hi >> 35; /* what the counter's word says, with this slot */

		check_slot(&w, mode, ceiling);
		if (w.open || (done && mode == JOINING) ||
		    (done && i == moved && amount == COLLECT))
			use += w.adds;
		if (i == moved && amount != COLLECT && !(w.open && done))
			use -= amount; /* it is in the base and not in the slot yet */
	}
	return use;
}

UNSEEN long monitor_use(unsigned int i)
{
	return counter[i].word ? *counter[i].word : split_use(&counter[i]);
}
