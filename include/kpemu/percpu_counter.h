/* SPDX-License-Identifier: GPL-2.0-or-later */
/* percpu_counter: a count that lags behind by what the CPUs keep to themselves. */
#ifndef KPEMU_PERCPU_COUNTER_H
#define KPEMU_PERCPU_COUNTER_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <kpemu/percpu.h>

/*
 * Each CPU collects what is added on it, in 32 bits, and moves all of it to the count when it
 * reaches the batch in either direction. So, when nobody adds,
 *
 *	|percpu_counter_read() - percpu_counter_sum()| <= CPUs * (batch - 1)
 *
 * with CPUs the number of online ones; CPUs * batch once percpu_counter_limited_add() is used,
 * which may leave exactly the batch on a CPU; and with the older, larger batch for what was added
 * before CPUs went offline. The sum is what was added.
 *
 * Counts and amounts are in the caller's unit, of a size below 2^62. Functions that change an
 * initialised counter are lock-free and async-signal-safe, and order nothing.
 *
 * Instead of the kernel's lock, whose holder could be killed or interrupted by a handler that adds,
 * a word next to the count says how many moves from a CPU to the count have begun and ended. Who
 * needs count and CPUs together looks again if it has changed; and waits, some microseconds, for
 * moves that have not ended. So a sum misses a move only if its process is stopped or not running
 * just then. If it is killed then, what it moved is lost (kpemu/percpu.h).
 *
 * A counter lies in the mapping of its area and is zero before percpu_counter_init().
 * (kernel/rss.md 1, lib/percpu_counter.c)
 */
struct percpu_counter {
	atomic64_t count;
	uint64_t moves; /* begun in the upper, ended in the lower half; ended changes with count */
	/* An int32_t for each CPU. Each add reads this, each move writes the line above. */
	struct percpu_ptr counters __attribute__((aligned(PERCPU_LINE)));
} __attribute__((aligned(PERCPU_LINE)));
static_assert(sizeof(struct percpu_counter) == 2 * PERCPU_LINE, "ABI");

/*
 * percpu_counter_init, ..._init_many - a counter, or @n in a row, that start at @amount, with
 * per-CPU memory of @area: one allocation for all. 0; -ENOMEM: the area is full; -EINVAL: @n is 0,
 * or one is initialised already. The counters are unchanged then. Not while CPUs go on- or offline.
 */
int percpu_counter_init_many(struct percpu_counter *c, struct percpu_area *area, int64_t amount,
			     unsigned int n);

static inline int percpu_counter_init(struct percpu_counter *c, struct percpu_area *area,
				      int64_t amount)
{
	return percpu_counter_init_many(c, area, amount, 1);
}

/*
 * percpu_counter_destroy, ..._destroy_many - give the memory back; the counts stay readable. Nobody
 * adds any more. Of counters that are NULL or not initialised: nothing. Not while CPUs go on- or
 * offline.
 */
void percpu_counter_destroy_many(struct percpu_counter *c, unsigned int n);

static inline void percpu_counter_destroy(struct percpu_counter *c)
{
	percpu_counter_destroy_many(c, 1);
}

static inline bool percpu_counter_initialized(const struct percpu_counter *c)
{
	return percpu_ptr_valid(&c->counters);
}

/* percpu_counter_batch - the batch of counters in @area: follows the number of online CPUs. */
static inline int32_t percpu_counter_batch(const struct percpu_area *area)
{
	int32_t twice = 2 * READ_ONCE(area->nr_online);

	return twice > 32 ? twice : 32;
}

static inline int32_t percpu_counter_batch_of(const struct percpu_counter *c)
{
	return percpu_counter_batch(percpu_ptr_area(&c->counters));
}

/* For what the header leaves: a full CPU, or one that takes no critical section. */
void percpu_counter_add_slow(struct percpu_counter *c, int64_t amount, int32_t batch);

/* percpu_counter_add_batch - add with a batch of one's own. 0; -EINVAL: @batch < 1, nothing done. */
static inline int percpu_counter_add_batch(struct percpu_counter *c, int64_t amount, int32_t batch)
{
	if (unlikely(batch < 1))
		return -EINVAL;
	if (unlikely(!percpu_try(&c->counters, rseq_add_within32, amount, (int64_t)batch - 1)))
		percpu_counter_add_slow(c, amount, batch);
	return 0;
}

static inline void percpu_counter_add(struct percpu_counter *c, int64_t amount)
{
	percpu_counter_add_batch(c, amount, percpu_counter_batch_of(c));
}

static inline void percpu_counter_sub(struct percpu_counter *c, int64_t amount)
{
	percpu_counter_add(c, -amount);
}

static inline void percpu_counter_inc(struct percpu_counter *c)
{
	percpu_counter_add(c, 1);
}

static inline void percpu_counter_dec(struct percpu_counter *c)
{
	percpu_counter_add(c, -1);
}

/* percpu_counter_add_local, ..._sub_local - as far as an int32_t goes, all stays on the CPU. */
static inline void percpu_counter_add_local(struct percpu_counter *c, int64_t amount)
{
	percpu_counter_add_batch(c, amount, INT32_MAX);
}

static inline void percpu_counter_sub_local(struct percpu_counter *c, int64_t amount)
{
	percpu_counter_add_local(c, -amount);
}

/* percpu_counter_read - the count, without what is on the CPUs. ..._positive: 0 if negative. */
static inline int64_t percpu_counter_read(const struct percpu_counter *c)
{
	return atomic64_read(&c->count);
}

static inline int64_t percpu_counter_read_positive(const struct percpu_counter *c)
{
	int64_t v = percpu_counter_read(c);

	return v > 0 ? v : 0;
}

/*
 * percpu_counter_sum - count and CPUs. ..._positive: 0 if negative. Looks at every possible CPU,
 * where the kernel looks at those online or dying: an emulated add can be late for its CPU.
 */
int64_t percpu_counter_sum(const struct percpu_counter *c);

static inline int64_t percpu_counter_sum_positive(const struct percpu_counter *c)
{
	int64_t v = percpu_counter_sum(c);

	return v > 0 ? v : 0;
}

/* percpu_counter_sync - move what this CPU has to the count. */
void percpu_counter_sync(struct percpu_counter *c);

/*
 * percpu_counter_set - the sum becomes @amount, and no move is said to be on its way. Not exact
 * against concurrent adds, as in the kernel; in an area in rseq mode even their former residue may
 * come back (percpu_xchg32()).
 */
void percpu_counter_set(struct percpu_counter *c, int64_t amount);

/*
 * percpu_counter_compare - 1, 0 or -1: the sum is above, at or below @rhs. Sums only where the
 * count is nearer than @batch * online CPUs; a @batch < 1 always sums.
 */
int __percpu_counter_compare(const struct percpu_counter *c, int64_t rhs, int32_t batch);

static inline int percpu_counter_compare(const struct percpu_counter *c, int64_t rhs)
{
	return __percpu_counter_compare(c, rhs, percpu_counter_batch_of(c));
}

/*
 * percpu_counter_limited_add - add @amount, if the sum does not pass @limit: upwards for an amount
 * above 0, downwards below 0. True: added, or @amount is 0. False, nothing changed: it would pass,
 * or @batch < 1.
 *
 * The published race (2024) is kept: the quick path reads the count once and adds to its CPU
 * later; who adds in between is not seen, and together both can pass the limit.
 */
bool __percpu_counter_limited_add(struct percpu_counter *c, int64_t limit, int64_t amount,
				  int32_t batch);

static inline bool percpu_counter_limited_add(struct percpu_counter *c, int64_t limit,
					      int64_t amount)
{
	return __percpu_counter_limited_add(c, limit, amount, percpu_counter_batch_of(c));
}

/*
 * percpu_counter_cpu_dead - fold the slots of @cpu into their counters: all counters of @area.
 * For percpu_cpu_down(), which says when.
 */
void percpu_counter_cpu_dead(struct percpu_area *area, unsigned int cpu);

#endif
