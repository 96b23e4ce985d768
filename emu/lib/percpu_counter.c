/* SPDX-License-Identifier: GPL-2.0-or-later */
/* percpu_counter: what does not belong into the header. */
#include <errno.h>

#include <kpemu/percpu_counter.h>

#include "emu/lib/percpu.h"
#include "emu/lib/rawsys.h"

/* Looks at a move that does not end before it is taken for one that never will. */
#define LOOKS 100
/* Sums that moves may spoil before one is taken as it is. */
#define SUMS 10

/* --- moves from a CPU to the count --- */

#define MOVE_BEGUN (1ull << 32) /* what is carried out of the word is of no use */

static uint64_t move_ended(uint64_t moves)
{
	return (moves & ~0xffffffffull) | (uint32_t)(moves + 1);
}

static bool moves_pending(uint64_t moves)
{
	return (uint32_t)moves != moves >> 32;
}

/* Count and moves of one moment; true if then no move was on its way. */
static bool look(const struct percpu_counter *c, int64_t *count, uint64_t *moves)
{
	do {
		*moves = smp_load_acquire(&c->moves);
		*count = smp_load_acquire(&c->count.counter);
	} while (READ_ONCE(c->moves) != *moves);
	return !moves_pending(*moves);
}

static void look_for_the_end(const struct percpu_counter *c, int64_t *count, uint64_t *moves)
{
	for (int i = 0; i < LOOKS && !look(c, count, moves); i++) {
		if (i < LOOKS / 2)
			cpu_relax();
		else
			sys_call(__NR_sched_yield);
	}
}

static bool set_both(struct percpu_counter *c, int64_t count, uint64_t moves, int64_t new_count,
		     uint64_t new_moves)
{
	return try_cmpxchg128((uint64_t *)&c->count, count, moves, new_count, new_moves);
}

/* Before something is taken from a CPU. */
static void move_begin(struct percpu_counter *c)
{
	fetch_add(&c->moves, MOVE_BEGUN);
}

static void move_end(struct percpu_counter *c, int64_t v)
{
	int64_t count;
	uint64_t moves;

	do
		look(c, &count, &moves);
	while (!set_both(c, count, moves, count + v, move_ended(moves)));
}

void percpu_counter_add_slow(struct percpu_counter *c, int64_t amount, int32_t batch)
{
	/* in rseq mode the header has tried that, and the CPU is full most of the time */
	if (!c->counters.rseq_cpus &&
	    percpu_add_within32_slow(&c->counters, amount, (int64_t)batch - 1))
		return;
	move_begin(c);
	move_end(c, percpu_add_batch32_slow(&c->counters, amount, batch));
}

/* --- making and ending --- */

/* Where the area names the owner of the counter's unit. */
static int64_t *owner_of(const struct percpu_counter *c)
{
	const struct percpu_area *area = percpu_ptr_area(&c->counters);

	return &percpu_owners(area)[percpu_ptr_off(&c->counters) / PERCPU_UNIT];
}

static void init_one(struct percpu_counter *c, struct percpu_area *area, int64_t amount, long off)
{
	int64_t *owner;

	WRITE_ONCE(c->moves, 0);
	atomic64_set(&c->count, amount);
	percpu_ptr_set(&c->counters, area, off);
	owner = owner_of(c);
	WRITE_ONCE(*owner, (char *)c - (char *)owner);
}

int percpu_counter_init_many(struct percpu_counter *c, struct percpu_area *area, int64_t amount,
			     unsigned int n)
{
	long off;

	if (!c || !area || !n)
		return -EINVAL;
	for (unsigned int i = 0; i < n; i++)
		if (percpu_counter_initialized(&c[i]))
			return -EINVAL;
	off = percpu_alloc(area, n * sizeof(int32_t), sizeof(int32_t));
	if (off < 0)
		return off;
	for (unsigned int i = 0; i < n; i++)
		init_one(&c[i], area, amount, off + i * sizeof(int32_t));
	return 0;
}

static void destroy_one(struct percpu_counter *c)
{
	struct percpu_area *area = percpu_ptr_area(&c->counters);
	long off = percpu_ptr_off(&c->counters);

	WRITE_ONCE(*owner_of(c), 0);
	percpu_ptr_clear(&c->counters);
	percpu_free(area, off, sizeof(int32_t));
}

void percpu_counter_destroy_many(struct percpu_counter *c, unsigned int n)
{
	for (unsigned int i = 0; c && i < n; i++)
		if (percpu_counter_initialized(&c[i]))
			destroy_one(&c[i]);
}

/* --- reading and setting --- */

int64_t percpu_counter_sum(const struct percpu_counter *c)
{
	int64_t count, cpus = 0;
	uint64_t moves;

	for (int i = 0; i < SUMS; i++) {
		look_for_the_end(c, &count, &moves);
		cpus = percpu_sum32(&c->counters);
		smp_rmb();
		if (READ_ONCE(c->moves) == moves)
			break;
	}
	return count + cpus;
}

void percpu_counter_sync(struct percpu_counter *c)
{
	move_begin(c);
	move_end(c, percpu_take32(&c->counters));
}

void percpu_counter_set(struct percpu_counter *c, int64_t amount)
{
	const struct percpu_area *area = percpu_ptr_area(&c->counters);
	int64_t count;
	uint64_t moves;

	for (unsigned int cpu = 0; cpu < area->nr_cpus; cpu++)
		percpu_xchg32(&c->counters, cpu, 0);
	do
		look(c, &count, &moves);
	while (!set_both(c, count, moves, amount, (moves >> 32) * (MOVE_BEGUN + 1)));
}

/* The most that @batch lets the online CPUs keep to themselves. */
static int64_t unknown(const struct percpu_counter *c, int32_t batch)
{
	return (int64_t)batch * READ_ONCE(percpu_ptr_area(&c->counters)->nr_online);
}

static int sign(int64_t v)
{
	return (v > 0) - (v < 0);
}

int __percpu_counter_compare(const struct percpu_counter *c, int64_t rhs, int32_t batch)
{
	int64_t rough = percpu_counter_read(c) - rhs;

	if (batch > 0 && (rough < 0 ? -rough : rough) > unknown(c, batch))
		return sign(rough);
	return sign(percpu_counter_sum(c) - rhs);
}

/* Does @v keep @limit, seen in the direction of @amount? */
static bool keeps(int64_t v, int64_t limit, int64_t amount)
{
	return amount > 0 ? v <= limit : v >= limit;
}

/*
 * May @amount be added to @count and what is on the CPUs? The CPUs are asked only if the answer
 * depends on them.
 */
static bool may_add(const struct percpu_counter *c, int64_t count, int64_t limit, int64_t amount,
		    int64_t slack)
{
	int64_t v = count + amount;

	if (amount < 0)
		slack = -slack;
	if (!keeps(v - slack, limit, amount))
		return false;
	if (keeps(v + slack, limit, amount))
		return true;
	return keeps(v + percpu_sum32(&c->counters), limit, amount);
}

/*
 * Add @amount to the count if it may be. A change of count or CPUs' moves after the look makes the
 * exchange fail, and a refusal that was worked out meanwhile is none.
 */
static bool add_to_count(struct percpu_counter *c, int64_t limit, int64_t amount, int64_t slack)
{
	int64_t count;
	uint64_t moves;

	for (;;) {
		look_for_the_end(c, &count, &moves);
		if (may_add(c, count, limit, amount, slack)) {
			if (set_both(c, count, moves, count + amount,
				     move_ended(moves + MOVE_BEGUN)))
				return true;
		} else {
			smp_rmb();
			if (READ_ONCE(c->moves) == moves)
				return false;
		}
	}
}

bool __percpu_counter_limited_add(struct percpu_counter *c, int64_t limit, int64_t amount,
				  int32_t batch)
{
	int64_t slack = unknown(c, batch), count = percpu_counter_read(c);

	if (!amount || batch < 1)
		return !amount;
	if (keeps(count + (amount > 0 ? slack : -slack), limit, amount) &&
	    percpu_add_within32(&c->counters, amount, batch))
		return true;
	if (!add_to_count(c, limit, amount, slack))
		return false;
	percpu_counter_sync(c);
	return true;
}

/* --- hotplug --- */

static void fold(struct percpu_counter *c, unsigned int cpu)
{
	move_begin(c);
	move_end(c, percpu_xchg32(&c->counters, cpu, 0));
}

void percpu_counter_cpu_dead(struct percpu_area *area, unsigned int cpu)
{
	int64_t *owners = percpu_owners(area);

	for (unsigned int u = 0; u < area->run / PERCPU_UNIT; u++) {
		int64_t where = READ_ONCE(owners[u]);

		if (where)
			fold(percpu_away(&owners[u], where), cpu);
	}
}
