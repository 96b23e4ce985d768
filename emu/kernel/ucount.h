/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the counter algorithms share: the levels of a charge, and counters that are one word. */
#ifndef EMU_KERNEL_UCOUNT_H
#define EMU_KERNEL_UCOUNT_H

#include <limits.h>

#include <kpemu/ucount.h>

/*
 * The record one level up: of the one who made @uc's namespace. Records of the initial namespace
 * have none, and do not look at a namespace at all.
 */
static inline struct ucounts *ucounts_parent(const struct ucounts *uc)
{
	uint32_t ns = READ_ONCE(uc->ns);

	return likely(ns == INIT_USER_NS) ? NULL : user_ns_nested_ucounts(ns);
}

#define for_each_level(iter, uc) for ((iter) = (uc); (iter); (iter) = ucounts_parent(iter))

/* What the level above @uc may hold of what comes through it. */
static inline long max_above(const struct ucounts *uc, enum rlimit_type type)
{
	uint32_t ns = READ_ONCE(uc->ns);

	return likely(ns == INIT_USER_NS) ? LONG_MAX : userns_rlimit_max(ns, type);
}

/* Fills all but err and pid; nothing if @why is NULL. */
void fill_refusal(struct refusal *why, const struct ucounts *uc, uint32_t type, int level, long use,
		  long limit, long asked);

/*
 * One level of a charge: @below is the record that it comes through, NULL at the leaf. A charge
 * that is refused has changed nothing, and says what was used.
 */
struct level_ops {
	bool (*charge)(struct ucounts *uc, const struct ucounts *below, enum rlimit_type type,
		       long v, long max, bool keep, long *use);
	void (*uncharge)(struct ucounts *uc, const struct ucounts *below, enum rlimit_type type,
			 long v);
};

/* From @uc up to, but without, @end; NULL is above the top. */
static inline __attribute__((always_inline)) void uncharge_levels(struct ucounts *uc,
								  const struct ucounts *end,
								  enum rlimit_type type, long v,
								  const struct level_ops *ops)
{
	struct ucounts *iter, *below = NULL;

	for (iter = uc; iter && iter != end; iter = ucounts_parent(iter)) {
		ops->uncharge(iter, below, type, v);
		below = iter;
	}
}

/* From the leaf up; the first level without room ends it, and those below take theirs back. */
static inline __attribute__((always_inline)) bool
charge_levels(struct ucounts *uc, enum rlimit_type type, long v, uint64_t rlimit, bool keep,
	      struct refusal *why, const struct level_ops *ops)
{
	long max = rlimit < LONG_MAX ? rlimit : LONG_MAX, use;
	struct ucounts *iter, *below = NULL;
	int level = 0;

	for_each_level(iter, uc) {
		if (unlikely(!ops->charge(iter, below, type, v, max, keep, &use))) {
			uncharge_levels(uc, iter, type, v, ops);
			fill_refusal(why, iter, type, level, use, max, v);
			return false;
		}
		max = max_above(iter, type);
		below = iter;
		level++;
	}
	return true;
}

static inline void ucounts_note_peak(struct ucounts *uc, enum rlimit_type type, long use)
{
	if (unlikely(use > atomic64_read(&uc->peak[type])))
		atomic64_max(&uc->peak[type], use);
}

/*
 * A level that is one word, as the kernel has it: added first and judged by the sum, so racing
 * charges fill a limit exactly, and may be refused for each other's sake before they take back.
 */
static inline bool word_charge(struct ucounts *uc, const struct ucounts *below,
			       enum rlimit_type type, long v, long max, bool keep, long *use)
{
	long new = atomic64_add_return(v, &uc->rlimit[type]);

	(void)below;
	if (unlikely((new < 0 || new > max) && !keep)) {
		atomic64_sub_return(v, &uc->rlimit[type]);
		*use = new - v;
		return false;
	}
	ucounts_note_peak(uc, type, new);
	return true;
}

static inline void word_uncharge(struct ucounts *uc, const struct ucounts *below,
				 enum rlimit_type type, long v)
{
	(void)below;
	atomic64_sub_return(v, &uc->rlimit[type]);
}

static inline long word_read(struct ucounts *uc, enum rlimit_type type)
{
	return atomic64_read(&uc->rlimit[type]);
}

static inline void word_set(struct ucounts *uc, enum rlimit_type type, long v)
{
	atomic64_set(&uc->rlimit[type], v);
}

/* Which split counter @type has; -1: it is a word with every algorithm. */
static inline int split_index(enum rlimit_type type)
{
	switch (type) {
	case UCOUNT_RLIMIT_NPROC:
		return UCOUNT_SPLIT_NPROC;
	case UCOUNT_RLIMIT_SIGPENDING:
		return UCOUNT_SPLIT_SIGPENDING;
	default:
		return -1;
	}
}

/* ucounts_cpu_split - split() of the algorithms that split by CPU, for a caller on this one. */
bool ucounts_cpu_split(struct split *s, struct ucounts *uc, const struct ucounts *below,
		       enum rlimit_type type);

/* What a struct ucounts_ops with split() has for the rest (kernel/ucount_split.c). */
bool split_levels_charge(struct ucounts *uc, enum rlimit_type type, long v, uint64_t rlimit,
			 bool keep, struct refusal *why);
void split_levels_uncharge(struct ucounts *uc, enum rlimit_type type, long v);
long split_level_read(struct ucounts *uc, enum rlimit_type type);
void split_level_set(struct ucounts *uc, enum rlimit_type type, long v);
long split_level_held(struct ucounts *uc, enum rlimit_type type);

#endif
