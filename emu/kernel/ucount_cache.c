/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `cache`: each user namespace has units that its ancestors have been charged for. */
#include "emu/kernel/ucount.h"

#define BATCH 16

/*
 * The rlimit cache of 2025, with its defects repaired, for pending signals as there. A namespace
 * takes 16 units from the record above it at a time; its tasks charge their own record, exactly,
 * and the namespace's stock. What they release goes back to the stock, and from 16 on to the record
 * above. So what namespaces of one creator do does not meet in the creator's record each time; but
 * it is one word for all CPUs of the namespace.
 *
 * As posted, one stock stands for all levels above; here it stands for one, whose own namespace has
 * a stock against the next: so a namespace's stock is spent under one limit, and the tree of
 * namespaces is drained by closing the stocks of one record's children, level by level. The units
 * are in the count of the record above until then, and are shown as held; they are subtracted where
 * the record is read. Before anything is refused they are all taken in, and while that record has
 * charges beyond what a child may cost it, the children's stocks are closed: the ceiling is the
 * lowest limit that spends from them. (kernel/ucounts.md 9.2, kernel/algorithms.md)
 */

/* The stock of namespace @i against the record; NULL: it is not made by that one. */
static uint64_t *stock_of(const struct split *s, unsigned int i)
{
	struct user_namespace *ns = user_ns_of(i);

	return ns && READ_ONCE(ns->ucounts) == ucounts_index(s->of) + 1 ? &ns->stock : NULL;
}

static unsigned int stocks(const struct split *s)
{
	uint32_t nr = table_high_water(TABLE_USER_NS);

	(void)s;
	return nr < SPLIT_SLOTS_MAX ? nr : SPLIT_SLOTS_MAX;
}

static bool split(struct split *s, struct ucounts *uc, const struct ucounts *below,
		  enum rlimit_type type)
{
	struct user_namespace *ns = below ? user_ns_of(READ_ONCE(below->ns)) : NULL;

	if (type != UCOUNT_RLIMIT_SIGPENDING)
		return false;
	if (ns && below->ns >= SPLIT_SLOTS_MAX)
		ns = NULL;
	*s = (struct split){
		.c = &uc->split[UCOUNT_SPLIT_SIGPENDING],
		.slot = stock_of,
		.slots = stocks,
		.of = uc,
		.mine = ns ? &ns->stock : NULL,
		.index = ns ? below->ns : 0,
		.nr = stocks(NULL),
		.stock = BATCH,
		.peak = &uc->peak[type],
	};
	return true;
}

/* The number may mean another creator's namespace next. */
static void forget_ns(struct ucounts *uc, uint32_t ns)
{
	struct split s;

	if (split(&s, uc, NULL, UCOUNT_RLIMIT_SIGPENDING)) {
		split_join(&s);
		split_slot_forget(&user_ns_of(ns)->stock);
	}
}

const struct ucounts_ops ucounts_cache = {
	.name = "cache",
	.about = "units of each user namespace that its ancestors are charged for",
	.split = split,
	.charge = split_levels_charge,
	.uncharge = split_levels_uncharge,
	.read = split_level_read,
	.set = split_level_set,
	.held = split_level_held,
	.forget_ns = forget_ns,
};
