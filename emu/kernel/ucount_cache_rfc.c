/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `cache-rfc`: the rlimit cache of 2025 as posted, to be compared with. */
#include "emu/kernel/ucount.h"

#define BATCH      16
#define SIGPENDING UCOUNT_RLIMIT_SIGPENDING

/*
 * A user namespace has a stock of pending signals that all records above it are charged for, 16 at
 * a time. A task in it takes one from the stock and charges its own record only; without stock, or
 * above its limit, it charges every level, and where a level is full all stocks of the namespaces
 * below are drained first. Released units go to the stock, and 16 of 17 further up. Other limits
 * are as with `atomic`. What is wrong with that is kept, and numbered as in kernel/ucounts.md 9.2:
 *
 *  1  a stock is charged under the maxima of the wrong namespaces, each level's own: next to the
 *     initial one there are none, and those of its creation do not count;
 *  2  what takes units off several levels takes all of them off the first one;
 *  3  the level that refuses keeps what was added to it, one unit or the 16 of a stock;
 *  4  a record that the stock has carried above the task's limit is then charged once more;
 *  5  the limit is signed, and with RLIM_INFINITY all are above it: each signal counts twice;
 *  7  counts of the records above have the stocks in them, and nobody can tell;
 *  8  above the task's limit each level drains what is below it, to no end.
 *
 * Records are not reference counted here, so nothing can fail in the middle (6). The judgement on
 * the task's limit, which the posted code leaves to the caller, is in charge().
 */

static inline struct ucounts *creator_of(const struct user_namespace *ns)
{
	return ucounts_of(READ_ONCE(ns->ucounts));
}

/* The namespace that has a stock for records like this; NULL: it is the initial one. */
static inline struct user_namespace *stocked_ns(const struct ucounts *uc)
{
	uint32_t n = READ_ONCE(uc->ns);

	return likely(n == INIT_USER_NS) ? NULL : user_ns_of(n);
}

/* Meant: @v off each level from @uc up to, but without, @end. */
static void put_levels(struct ucounts *uc, const struct ucounts *end, long v)
{
	struct ucounts *iter;

	for (iter = uc; iter && iter != end; iter = ucounts_parent(iter))
		word_uncharge(uc, NULL, SIGPENDING, v);
}

static inline long add_level(struct ucounts *uc, long v)
{
	return atomic64_add_return(v, &uc->rlimit[SIGPENDING]);
}

/* --- stocks --- */

static bool stock_take(struct user_namespace *ns)
{
	if ((int64_t)fetch_add(&ns->stock, -1ull) > 0)
		return true;
	fetch_add(&ns->stock, 1);
	return false;
}

/* One back; if that makes it too many, a batch goes to the records above. */
static void stock_put(struct user_namespace *ns)
{
	int64_t left = (int64_t)fetch_add(&ns->stock, 1) + 1 - BATCH;

	if (left <= 0)
		return;
	if ((int64_t)fetch_add(&ns->stock, -(uint64_t)BATCH) > BATCH)
		put_levels(creator_of(ns), NULL, BATCH);
	else
		fetch_add(&ns->stock, BATCH);
}

static bool stock_fill(struct user_namespace *ns)
{
	struct ucounts *creator = creator_of(ns), *iter;

	for_each_level(iter, creator) {
		long new = add_level(iter, BATCH);

		if (new <= 0 || new > max_above(iter, SIGPENDING)) {
			put_levels(creator, iter, BATCH);
			return false;
		}
	}
	fetch_add(&ns->stock, BATCH);
	return true;
}

static bool stock_empty(struct user_namespace *ns)
{
	int64_t n = READ_ONCE(ns->stock);

	while (n > 0 && !try_cmpxchg(&ns->stock, (uint64_t *)&n, 0))
		;
	if (n > 0)
		put_levels(creator_of(ns), NULL, n);
	return n > 0;
}

/* Is namespace @n below @top, or the same? */
static bool is_within(uint32_t n, uint32_t top)
{
	struct user_namespace *ns = user_ns_of(n);

	for (int i = 0; ns && n != top && n != INIT_USER_NS && i <= USER_NS_LEVELS; i++) {
		n = READ_ONCE(ns->parent);
		ns = user_ns_of(n);
	}
	return n == top;
}

/* All stocks in @top and below; was there any? */
static bool drain(uint32_t top)
{
	struct user_namespace *ns;
	bool any = false;

	for_each_user_ns(i, ns)
		if ((int64_t)READ_ONCE(ns->stock) > 0 && is_within(i, top))
			any |= stock_empty(ns);
	return any;
}

/* --- charging --- */

/* One unit at each level: what the leaf has then; 0: a level is full, which *@why is about. */
static long charge_every_level(struct ucounts *uc, long limit, bool keep, struct refusal *why)
{
	struct ucounts *iter;
	long max = LONG_MAX, leaf = 0;
	int level = 0;

	for_each_level(iter, uc) {
		long new = add_level(iter, 1);

		leaf = level ? leaf : new;
		while ((new > max || leaf > limit) && drain(READ_ONCE(iter->ns))) {
			new = word_read(iter, SIGPENDING);
			leaf = level ? leaf : new;
		}
		if (new <= 0 || new > max) {
			put_levels(uc, iter, 1);
			fill_refusal(why, iter, SIGPENDING, level, new - 1, max, 1);
			return 0;
		}
		ucounts_note_peak(iter, SIGPENDING, new);
		max = keep ? LONG_MAX : max_above(iter, SIGPENDING);
		level++;
	}
	return leaf;
}

/* From the stock: below its limit the leaf has one more then, above it too. */
static bool charge_leaf(struct ucounts *uc, struct user_namespace *ns, long limit)
{
	long new;

	if (!stock_take(ns) && !(stock_fill(ns) && stock_take(ns)))
		return false;
	new = add_level(uc, 1);
	if (new <= limit) {
		ucounts_note_peak(uc, SIGPENDING, new);
		return true;
	}
	fetch_add(&ns->stock, 1);
	return false;
}

static void uncharge_one(struct ucounts *uc)
{
	struct user_namespace *ns = stocked_ns(uc);

	word_uncharge(uc, NULL, SIGPENDING, 1);
	if (ns)
		stock_put(ns);
}

static bool charge_signal(struct ucounts *uc, uint64_t rlimit, bool keep, struct refusal *why)
{
	struct user_namespace *ns = stocked_ns(uc);
	/* What asks for no limit, instead of having none: callers that the kernel does not have. */
	long limit = keep && rlimit == UINT64_MAX ? LONG_MAX : (long)rlimit, leaf;

	if (ns && charge_leaf(uc, ns, limit))
		return true;
	leaf = charge_every_level(uc, limit, keep, why);
	if (leaf && (keep || (uint64_t)leaf <= rlimit))
		return true;
	if (leaf) {
		uncharge_one(uc);
		fill_refusal(why, uc, SIGPENDING, 0, leaf - 1, limit, 1);
	}
	return false;
}

static const struct level_ops words = { word_charge, word_uncharge };

static bool charge(struct ucounts *uc, enum rlimit_type type, long v, uint64_t rlimit, bool keep,
		   struct refusal *why)
{
	if (type == SIGPENDING)
		return charge_signal(uc, rlimit, keep, why);
	return charge_levels(uc, type, v, rlimit, keep, why, &words);
}

static void uncharge(struct ucounts *uc, enum rlimit_type type, long v)
{
	if (type != SIGPENDING)
		uncharge_levels(uc, NULL, type, v, &words);
	else
		while (v-- > 0)
			uncharge_one(uc);
}

/* What the stocks below have is part of the count, and comes off it when they are drained. */
static void set(struct ucounts *uc, enum rlimit_type type, long v)
{
	struct user_namespace *ns;

	if (type == SIGPENDING)
		for_each_user_ns(i, ns)
			if (ucounts_covers(uc, READ_ONCE(ns->ucounts)))
				v += (int64_t)READ_ONCE(ns->stock);
	word_set(uc, type, v);
}

static void forget_ns(struct ucounts *uc, uint32_t ns)
{
	(void)uc;
	stock_empty(user_ns_of(ns));
	WRITE_ONCE(user_ns_of(ns)->stock, 0);
}

const struct ucounts_ops ucounts_cache_rfc = {
	.name = "cache-rfc",
	.about = "the rlimit cache of 2025 as posted, with its defects",
	.drifts = true,
	.charge = charge,
	.uncharge = uncharge,
	.read = word_read,
	.set = set,
	.forget_ns = forget_ns,
};
