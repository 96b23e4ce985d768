/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Split counters: opening, moving, joining, and what is done while the slots are closed. */
#include <stddef.h>

#include <kpemu/split_counter.h>

#define READS 10 /* sums that changes of the counter may spoil before one is taken as it is */

/* --- the words --- */

enum mode {
	JOINED,
	SPLIT,
	JOINING,
	MOVING,
};

/*
 * word[0]: the base in bits 13-63, credit in 2-12, the mode in 0-1. Credit is how many charges have
 * gone through this word since the slots were closed, or opened; with as many as there are
 * slots the next closing is paid for.
 *
 * word[1]: the tag in bits 35-63, the ceiling in 18-34, in MOVING a slot in 7-17 and in 0-6 how
 * much it is granted. A tag belongs to one closing, opening or move, and this word changes together
 * with it and the other word.
 */
struct state {
	uint64_t lo, hi;
};

#define TAG_MASK     ((1ull << 29) - 1)
#define COLLECT      127 /* the amount of a move in the other direction: all */
#define SLOT_OPEN    (1ull << SPLIT_OPEN_BIT)
#define SLOT_TAG(t)  ((t) << (SPLIT_OPEN_BIT + 1))
#define SLOT_VALUE   0xffffull
#define SLOT_CEILING (0x1ffffull << SPLIT_CEILING_SHIFT)

static enum mode mode_of(struct state st)
{
	return st.lo & SPLIT_MODE_MASK;
}

static unsigned int credit_of(struct state st)
{
	return split_credit(st.lo);
}

static long base_of(struct state st)
{
	return split_base(st.lo);
}

static uint64_t tag_of(struct state st)
{
	return st.hi >> 35;
}

static uint64_t ceiling_code(struct state st)
{
	return st.hi >> 18 & 0x1ffff;
}

static long ceiling_of(struct state st)
{
	return split_ceiling(ceiling_code(st));
}

static unsigned int index_of(struct state st)
{
	return st.hi >> 7 & SPLIT_SLOTS_MAX;
}

static unsigned int amount_of(struct state st)
{
	return st.hi & 127;
}

static uint64_t make_lo(enum mode mode, unsigned int credit, long base)
{
	return (uint64_t)base << SPLIT_BASE_SHIFT |
	       (uint64_t)(credit < SPLIT_CREDIT_MAX ? credit : SPLIT_CREDIT_MAX)
		       << SPLIT_CREDIT_SHIFT |
	       mode;
}

static uint64_t make_hi(uint64_t tag, uint64_t ceiling, unsigned int index, unsigned int amount)
{
	return tag << 35 | ceiling << 18 | (uint64_t)index << 7 | amount;
}

/* 0 is the tag of slots that have never been open. */
static uint64_t next_tag(struct state st)
{
	uint64_t tag = (tag_of(st) + 1) & TAG_MASK;

	return tag ? tag : 1;
}

static uint64_t slot_tag(uint64_t w)
{
	return w >> (SPLIT_OPEN_BIT + 1) & TAG_MASK;
}

/* The highest ceiling that is not above @limit. */
static uint64_t floor_code(long limit)
{
	int shift;

	if (limit < 2048)
		return limit < 0 ? 0 : limit;
	shift = 63 - __builtin_clzl(limit) - 10;
	return (uint64_t)shift << 11 | limit >> shift;
}

/* Both words as they were at one moment: the second changes with every tag, and those are unique. */
static struct state look(const struct split_counter *c)
{
	struct state st;

	do {
		st.hi = smp_load_acquire(&c->word[1]);
		st.lo = smp_load_acquire(&c->word[0]);
	} while (READ_ONCE(c->word[1]) != st.hi);
	return st;
}

/* Has @st, one of MOVING or JOINING, been going on from that look until now? */
static bool is_still(const struct split_counter *c, struct state st)
{
	return (smp_load_acquire(&c->word[0]) & SPLIT_MODE_MASK) == mode_of(st) &&
	       READ_ONCE(c->word[1]) == st.hi;
}

static bool change(struct split_counter *c, struct state st, uint64_t lo, uint64_t hi)
{
	return try_cmpxchg128(c->word, st.lo, st.hi, lo, hi);
}

/* --- slots --- */

/* A slot that is open was there before the change that the caller has seen in the counter's word. */
static unsigned int slots(const struct split *s)
{
	return s->slots ? s->slots(s) : s->nr;
}

/* What the slot adds to the base. */
static long held(const struct split *s, uint64_t w)
{
	return s->batch ? (int16_t)w : -(long)(w & 0xff);
}

static long reserve(const struct split *s)
{
	return (long)s->nr * s->batch;
}

static unsigned int stock_cap(const struct split *s, struct state st)
{
	long cap = (ceiling_of(st) - base_of(st)) / (2 * (long)s->nr);

	if (s->stock)
		return s->stock;
	return cap < 1 ? 1 : cap > SPLIT_STOCK_MAX ? SPLIT_STOCK_MAX : cap;
}

static uint64_t closed(uint64_t w, struct state st)
{
	return (w & (SLOT_VALUE | SLOT_CEILING)) | SLOT_TAG(tag_of(st));
}

/* The slot after the grant that @st says; what a closed one had is with the base already. */
static uint64_t granted(const struct split *s, uint64_t w, struct state st)
{
	uint64_t value = w & SLOT_OPEN ? w & SLOT_VALUE : 0;

	if (!s->batch)
		value = stock_cap(s, st) << 8 | ((value & 0xff) + amount_of(st));
	return SLOT_OPEN | SLOT_TAG(tag_of(st)) | ceiling_code(st) << SPLIT_CEILING_SHIFT | value;
}

/*
 * Close @slot for @st, and add what it held to *@sum. A slot that was closed for an earlier reason
 * holds nothing. False: others have finished all of @st.
 */
static bool close_slot(const struct split *s, uint64_t *slot, struct state st, long *sum)
{
	uint64_t w = READ_ONCE(*slot);

	while (w & SLOT_OPEN) {
		if (!is_still(s->c, st))
			return false;
		if (try_cmpxchg(slot, &w, closed(w, st)))
			w = closed(w, st);
	}
	if (slot_tag(w) == tag_of(st))
		*sum += held(s, w);
	return true;
}

static void note_peak(const struct split *s, long use)
{
	if (s->peak && use > atomic64_read(s->peak))
		atomic64_max(s->peak, use);
}

/* Before the base becomes @base while slots may be open. */
static void note_most(const struct split *s, long base)
{
	if (base + reserve(s) > atomic64_read(&s->c->most))
		atomic64_max(&s->c->most, base + reserve(s));
}

/* --- what anybody finishes --- */

/* What is going on may end as @st says: again, if only releases have changed the base. */
static bool look_again(const struct split *s, struct state *st)
{
	struct state now = look(s->c);
	bool same = now.hi == st->hi && mode_of(now) == mode_of(*st);

	*st = now;
	return same;
}

static void finish_joining(const struct split *s, struct state st)
{
	unsigned int active = 0, nr = slots(s);
	long sum = 0;

	for (unsigned int i = 0; i < nr; i++) {
		uint64_t *slot = s->slot(s, i);

		if (!slot)
			continue;
		if (!close_slot(s, slot, st, &sum))
			return;
		active += slot_tag(READ_ONCE(*slot)) == tag_of(st);
	}
	do {
		long base = base_of(st) + sum;

		if (change(s->c, st, make_lo(JOINED, credit_of(st), base), st.hi)) {
			WRITE_ONCE(s->c->active, active);
			note_peak(s, base);
			return;
		}
	} while (look_again(s, &st));
}

/* @sum: what was in the slot. False: not @st any more. */
static bool end_moving(const struct split *s, struct state st, long sum)
{
	long base = base_of(st) + sum;

	/* A difference may have been turned round between the look at it and its being taken in. */
	if (base + reserve(s) > ceiling_of(st))
		return change(s->c, st, make_lo(JOINING, s->nr, base),
			      make_hi(next_tag(st), ceiling_code(st), 0, 0));
	return change(s->c, st, make_lo(SPLIT, credit_of(st), base), st.hi);
}

static void finish_moving(const struct split *s, struct state st)
{
	uint64_t *slot = s->slot(s, index_of(st)), w;
	long sum = 0;

	if (slot && amount_of(st) == COLLECT) {
		if (!close_slot(s, slot, st, &sum))
			return;
		note_most(s, base_of(st) + sum);
	} else if (slot) {
		w = READ_ONCE(*slot);
		do {
			if (!is_still(s->c, st))
				return;
			if (w & SLOT_OPEN && slot_tag(w) == tag_of(st))
				break;
		} while (!try_cmpxchg(slot, &w, granted(s, w, st)));
	}
	while (!end_moving(s, st, sum) && look_again(s, &st))
		;
}

/* True: there was something to finish, so look again. */
static bool finish(const struct split *s, struct state st)
{
	switch (mode_of(st)) {
	case JOINING:
		finish_joining(s, st);
		return true;
	case MOVING:
		finish_moving(s, st);
		return true;
	default:
		return false;
	}
}

/* --- what is begun in SPLIT and JOINED --- */

static void begin_joining(const struct split *s, struct state st, bool paid)
{
	change(s->c, st, make_lo(JOINING, paid ? s->nr : 0, base_of(st)),
	       make_hi(next_tag(st), ceiling_code(st), 0, 0));
}

/* @amount is in the base from now on. */
static void begin_grant(const struct split *s, struct state st, unsigned int amount)
{
	note_most(s, base_of(st) + amount);
	change(s->c, st, make_lo(MOVING, credit_of(st), base_of(st) + amount),
	       make_hi(next_tag(st), ceiling_code(st), s->index, amount));
}

static void begin_collect(const struct split *s, struct state st)
{
	change(s->c, st, make_lo(MOVING, credit_of(st), base_of(st)),
	       make_hi(next_tag(st), ceiling_code(st), s->index, COLLECT));
}

static bool may_open(const struct split *s, struct state st, long limit)
{
	return s->mine && s->nr && credit_of(st) >= s->nr &&
	       split_ceiling(floor_code(limit)) - base_of(st) >= split_room(s->c, s->nr, s->batch);
}

static void open_slots(const struct split *s, struct state st, long limit)
{
	note_most(s, base_of(st));
	change(s->c, st, make_lo(SPLIT, 0, base_of(st)),
	       make_hi(next_tag(st), floor_code(limit), 0, 0));
}

/* While all slots are closed: the first word alone. */
static bool add_to_base(const struct split *s, struct state st, long v)
{
	return try_cmpxchg(&s->c->word[0], &st.lo, split_moved_base(st.lo, v));
}

/* --- charges --- */

/*
 * What a charge asks: @limit says when the slots are opened, @bound when it is refused. The answer
 * SPLIT_ELSEWHERE is to look again.
 */
struct ask {
	long v, limit, bound;
	long *use;
};

static enum split_answer charge_joined(const struct split *s, struct state st, const struct ask *a)
{
	long use = base_of(st);

	if (use + a->v > a->bound) {
		*a->use = use;
		return SPLIT_REFUSED;
	}
	if (a->v == 1 && may_open(s, st, a->limit)) {
		open_slots(s, st, a->limit);
		return SPLIT_ELSEWHERE;
	}
	if (!add_to_base(s, st, a->v))
		return SPLIT_ELSEWHERE;
	note_peak(s, use + a->v);
	return SPLIT_ACCEPTED;
}

/* The caller's slot has no room: for differences it is full, a stock has run out. */
static void make_room(const struct split *s, struct state st)
{
	long room = ceiling_of(st) - base_of(st);
	long amount = s->stock ? s->stock : (stock_cap(s, st) + 1) / 2;

	if (s->batch && room - reserve(s) >= s->batch)
		begin_collect(s, st);
	else if (s->batch)
		begin_joining(s, st, true);
	else if (room > 0)
		begin_grant(s, st, room < amount ? room : amount);
	else
		begin_joining(s, st, false);
}

/* One that takes no slot: the base grows for it, or everything is joined for it. */
static enum split_answer charge_base(const struct split *s, struct state st, const struct ask *a)
{
	long least = base_of(st) - (long)slots(s) * (s->batch ? s->batch : 2 * SPLIT_STOCK_MAX);
	long most = base_of(st) + a->v + reserve(s);
	bool paid = credit_of(st) >= s->nr;

	if (least >= a->bound) {
		*a->use = split_read(s);
		return SPLIT_REFUSED;
	}
	/* With the lower ceiling that others like this one need, once that is paid for. */
	if (most > a->bound || most > ceiling_of(st) ||
	    (s->mine && a->limit < ceiling_of(st) && paid)) {
		begin_joining(s, st, paid);
		return SPLIT_ELSEWHERE;
	}
	note_most(s, base_of(st) + a->v);
	return change(s->c, st, make_lo(SPLIT, credit_of(st) + 1, base_of(st) + a->v), st.hi) ?
		       SPLIT_ACCEPTED :
		       SPLIT_ELSEWHERE;
}

static enum split_answer charge_split(const struct split *s, struct state st, const struct ask *a)
{
	if (a->v != 1 || !s->mine || a->bound < ceiling_of(st))
		return charge_base(s, st, a);
	if (split_take(s->mine, s->batch, a->bound))
		return SPLIT_ACCEPTED;
	if (s->batch && !(READ_ONCE(*s->mine) & SLOT_OPEN))
		begin_grant(s, st, 0);
	else
		make_room(s, st);
	return SPLIT_ELSEWHERE;
}

bool split_charge(const struct split *s, long v, long limit, bool keep, long *use)
{
	struct ask ask = { v, limit, keep ? LONG_MAX : limit, use };
	enum split_answer answer = SPLIT_ELSEWHERE;

	if (v == 1 && s->mine && split_take(s->mine, s->batch, ask.bound))
		return true;
	while (answer == SPLIT_ELSEWHERE) {
		struct state st = look(s->c);

		if (!finish(s, st))
			answer = mode_of(st) == JOINED ? charge_joined(s, st, &ask) :
							 charge_split(s, st, &ask);
	}
	return answer == SPLIT_ACCEPTED;
}

/* --- releases --- */

/* To the base, whatever is going on: who is about to change it looks again. */
static void give_to_base(const struct split *s, long v)
{
	fetch_add(&s->c->word[0], -((uint64_t)v << SPLIT_BASE_SHIFT));
}

void split_uncharge(const struct split *s, long v)
{
	if (v != 1 || !s->mine) {
		give_to_base(s, v);
		return;
	}
	while (!split_give(s->mine, s->batch)) {
		struct state st = look(s->c);

		if (finish(s, st))
			continue;
		if (mode_of(st) == JOINED) {
			give_to_base(s, v);
			return;
		}
		if (READ_ONCE(*s->mine) & SLOT_OPEN)
			begin_collect(s, st);
		else
			begin_grant(s, st, 0);
	}
}

/* --- all of it --- */

/* What the slots add to the base of @st. */
static long sum_slots(const struct split *s, struct state st)
{
	unsigned int nr = slots(s);
	long sum = 0;

	for (unsigned int i = 0; i < nr; i++) {
		uint64_t *slot = s->slot(s, i), w = slot ? READ_ONCE(*slot) : 0;

		if (w & SLOT_OPEN || (mode_of(st) == JOINING && slot_tag(w) == tag_of(st)))
			sum += held(s, w);
	}
	return sum;
}

static long read_all(const struct split *s, long *base)
{
	struct state st;
	long sum = 0;

	for (int i = 0; i < READS; i++) {
		st = look(s->c);
		if (mode_of(st) == MOVING && finish(s, st))
			continue;
		sum = mode_of(st) == JOINED ? 0 : sum_slots(s, st);
		if (READ_ONCE(s->c->word[1]) == st.hi)
			break;
	}
	*base = base_of(st);
	return *base + sum;
}

long split_read(const struct split *s)
{
	long base;

	return read_all(s, &base);
}

long split_held(const struct split *s)
{
	long base, use = read_all(s, &base);

	return base - use;
}

void split_join(const struct split *s)
{
	for (;;) {
		struct state st = look(s->c);

		if (mode_of(st) == JOINED)
			return;
		if (!finish(s, st))
			begin_joining(s, st, false);
	}
}

void split_slot_forget(uint64_t *slot)
{
	uint64_t w = READ_ONCE(*slot);

	WRITE_ONCE(*slot, SLOT_TAG((slot_tag(w) + 1) & TAG_MASK));
}

void split_set(const struct split *s, long v)
{
	for (;;) {
		struct state st = look(s->c);

		if (mode_of(st) != JOINED)
			split_join(s);
		else if (try_cmpxchg(&s->c->word[0], &st.lo, make_lo(JOINED, credit_of(st), v)))
			return;
	}
}
