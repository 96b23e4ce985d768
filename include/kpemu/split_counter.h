/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A bounded count that is split over slots, and joined again before anything is refused. */
#ifndef KPEMU_SPLIT_COUNTER_H
#define KPEMU_SPLIT_COUNTER_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <kpemu/atomic.h>

/*
 * What is used is a base, in the counter's own line, and what the slots add to it. Each slot is one
 * word in a line of its own, used by one CPU or by one namespace:
 *
 *   stocks    a slot holds units that the base counts and nobody uses yet: used = base - units
 *   deferred  a slot holds a difference of less than a batch:              used = base + differences
 *
 * A charge says its own limit L. It is accepted in an open slot if L is not below the ceiling C
 * that is written in that slot, and the slot has the room. For that to be right, while any slot is
 * open,
 *
 *	base + reserve <= C,  reserve = 0 for stocks, slots * batch for differences
 *
 * so that used <= C <= L whatever the slots do. C is the same in all open slots: it changes only
 * while all are closed, and a charge that looked before finds another word in its slot after.
 *
 *   SPLIT    slots may be open. The base rises up to C: for a stock that a slot gets, or a charge
 *            that takes no slot.
 *   MOVING   a slot is being given a stock (GRANT), or what is in it is being taken to the base.
 *   JOINING  all slots are being closed, and what is in them is taken to the base.
 *   JOINED   no slot is open: the base is what is used, every charge changes that one word,
 *            and only here is anything refused. (Or where used >= L for sure.)
 *
 * A move has two words to change. So the counter's word says first what is to be done, and whoever
 * comes finishes it before anything else: nobody waits for anybody, and a death at any point leaves
 * what the next one completes. The number of the change is written into the slot with it (its tag),
 * so that nobody does it twice, however late he comes; it wraps after 2^29.
 *
 * What is released goes to the base if there is no slot for it, in any mode: all others allow for a
 * base that has become smaller.
 *
 * Joining costs a look at each slot. It pays: it is done again only after as many charges as there
 * are slots, or after a slot has gone through a whole batch.
 */
struct split_counter {
	uint64_t word[2]; /* base, credit, mode; tag, ceiling, slot, amount */
	uint32_t active; /* slots that were open when it was last joined; a hint */
	uint32_t pad0;
	atomic64_t most; /* more has never been used while it was split */
	uint64_t pad1[4];
} __attribute__((aligned(64)));
static_assert(sizeof(struct split_counter) == 64, "ABI");

#define SPLIT_SLOTS_MAX 2047
#define SPLIT_STOCK_MAX 64

/* A counter, its slots, and who asks. */
struct split {
	struct split_counter *c;
	/* Slot @i; NULL: there is none of that number. */
	uint64_t *(*slot)(const struct split *s, unsigned int i);
	/* How many there are now, where more may come; NULL: @nr. */
	unsigned int (*slots)(const struct split *s);
	const void *of; /* for slot() */
	uint64_t *mine; /* the caller's slot; NULL: it has none */
	unsigned int index; /* of @mine */
	unsigned int nr; /* slots, up to SPLIT_SLOTS_MAX; 0: the counter is never split */
	int batch; /* above 0: differences below it; 0: stocks */
	unsigned int stock; /* units to get at once; 0: as the room is */
	atomic64_t *peak; /* raised to what is known to have been used; or NULL */
};

enum {
	/* of a slot */
	SPLIT_OPEN_BIT = 33,
	SPLIT_CEILING_SHIFT = 16,
	/* of word[0] */
	SPLIT_MODE_MASK = 3, /* 0: JOINED */
	SPLIT_CREDIT_SHIFT = 2,
	SPLIT_CREDIT_MAX = 2047,
	SPLIT_BASE_SHIFT = 13,
};

/*
 * Ceilings are kept in 17 bits, as a float: exact below 2048, above at most 1/1024 lower than what
 * was asked for. Up to there a counter is split, and from there to the limit it is joined.
 */
static inline long split_ceiling(uint64_t code)
{
	return (long)(code & 2047) << (code >> 11 & 63);
}

/*
 * split_take, split_give - charge or release one unit in an open slot. False: not here.
 * Never touch the counter's line. @limit: of the charge, LONG_MAX = none.
 */
static inline bool split_take(uint64_t *slot, int batch, long limit)
{
	uint64_t w = READ_ONCE(*slot), new;

	do {
		if (unlikely(!(w >> SPLIT_OPEN_BIT & 1)) ||
		    unlikely(split_ceiling(w >> SPLIT_CEILING_SHIFT & 0x1ffff) > limit))
			return false;
		if (batch) {
			int d = (int16_t)w + 1;

			if (unlikely(d >= batch))
				return false;
			new = (w & ~0xffffull) | (uint16_t)d;
		} else {
			if (unlikely(!(w & 0xff)))
				return false;
			new = w - 1;
		}
	} while (!try_cmpxchg(slot, &w, new));
	return true;
}

static inline bool split_give(uint64_t *slot, int batch)
{
	uint64_t w = READ_ONCE(*slot), new;

	do {
		if (unlikely(!(w >> SPLIT_OPEN_BIT & 1)))
			return false;
		if (batch) {
			int d = (int16_t)w - 1;

			if (unlikely(d <= -batch))
				return false;
			new = (w & ~0xffffull) | (uint16_t)d;
		} else {
			if (unlikely((w & 0xff) >= (w >> 8 & 0xff)))
				return false;
			new = w + 1;
		}
	} while (!try_cmpxchg(slot, &w, new));
	return true;
}

static inline long split_base(uint64_t lo)
{
	return (int64_t)lo >> SPLIT_BASE_SHIFT;
}

static inline unsigned int split_credit(uint64_t lo)
{
	return lo >> SPLIT_CREDIT_SHIFT & SPLIT_CREDIT_MAX;
}

/* word[0] after @v more, by one operation. */
static inline uint64_t split_moved_base(uint64_t lo, long v)
{
	return lo + ((uint64_t)v << SPLIT_BASE_SHIFT) +
	       (split_credit(lo) < SPLIT_CREDIT_MAX ? 1u << SPLIT_CREDIT_SHIFT : 0);
}

/* Room below the limit from which on slots are opened. */
static inline long split_room(const struct split_counter *c, unsigned int nr, int batch)
{
	unsigned int active = READ_ONCE(c->active);

	return batch ? (long)nr * batch : 2 * (long)(active ? active : 1);
}

enum split_answer {
	SPLIT_ELSEWHERE, /* nothing is done: it goes another way, or again */
	SPLIT_ACCEPTED,
	SPLIT_REFUSED,
};

/* Added first and judged by the sum, as `atomic` does: it may be refused for another's sake. */
static inline enum split_answer split_add_joined(struct split_counter *c, long limit, bool keep,
						 long *use)
{
	uint64_t lo = fetch_add(&c->word[0], 1ull << SPLIT_BASE_SHIFT);

	*use = split_base(lo);
	if (likely(!(lo & SPLIT_MODE_MASK) && (*use < limit || keep)))
		return SPLIT_ACCEPTED;
	fetch_add(&c->word[0], -(1ull << SPLIT_BASE_SHIFT));
	return lo & SPLIT_MODE_MASK ? SPLIT_ELSEWHERE : SPLIT_REFUSED;
}

/*
 * split_take_joined - charge one unit, if no slot is open and there is no room to open them. @nr,
 * @batch, @peak as in struct split; @nr SPLIT_NEVER: they are not to be opened. *@use is what was
 * used before.
 */
#define SPLIT_NEVER UINT_MAX

static inline enum split_answer split_take_joined(struct split_counter *c, unsigned int nr,
						  int batch, long limit, bool keep,
						  atomic64_t *peak, long *use)
{
	enum split_answer answer = SPLIT_ACCEPTED;
	uint64_t lo;

	prefetchw(&c->word[0]);
	lo = READ_ONCE(c->word[0]);
	do {
		*use = split_base(lo);
		if (unlikely(lo & SPLIT_MODE_MASK))
			return SPLIT_ELSEWHERE;
		if (unlikely(*use >= limit) && !keep)
			return SPLIT_REFUSED;
		if (split_credit(lo) >= nr) {
			if (limit - *use >= split_room(c, nr, batch))
				return SPLIT_ELSEWHERE;
			answer = split_add_joined(c, limit, keep, use);
			break;
		}
	} while (!try_cmpxchg(&c->word[0], &lo, split_moved_base(lo, 1)));
	if (answer == SPLIT_ACCEPTED && unlikely(*use + 1 > atomic64_read(peak)))
		atomic64_max(peak, *use + 1);
	return answer;
}

/*
 * split_give_joined - release one unit to the base: always right, and where no slot is open as it
 * should be. True if that is so.
 */
static inline bool split_give_joined(struct split_counter *c)
{
	return !(fetch_add(&c->word[0], -(1ull << SPLIT_BASE_SHIFT)) & SPLIT_MODE_MASK);
}

/* split_is_joined - was no slot open just now? */
static inline bool split_is_joined(const struct split_counter *c)
{
	return !(READ_ONCE(c->word[0]) & SPLIT_MODE_MASK);
}

/*
 * split_charge - add @v > 0 if what is used does not pass @limit; @keep: in any case. False: it
 * would; *@use is what was used then. At the moment of acceptance used <= @limit; at that of a
 * refusal used + @v > @limit. Lock-free, async-signal-safe, as all here.
 */
bool split_charge(const struct split *s, long v, long limit, bool keep, long *use);

/* split_uncharge - take @v > 0 from it. */
void split_uncharge(const struct split *s, long v);

/* split_read - what is used: exact when nobody charges or releases. Closes and takes nothing. */
long split_read(const struct split *s);

/* split_held - by how much the base is higher than that: what lies in the slots. */
long split_held(const struct split *s);

/* split_join - close all slots. When it returns, they have been closed at some moment since. */
void split_join(const struct split *s);

/*
 * split_slot_forget - a closed slot that will be one of another counter: its tag and what it held
 * mean nothing there, and nobody who looked at it before can change it.
 */
void split_slot_forget(uint64_t *slot);

/* split_set - what is used becomes @v. Nobody charges or releases meanwhile. */
void split_set(const struct split *s, long v);

#endif
