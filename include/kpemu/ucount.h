/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ucounts: one record per (user namespace, uid), and the counters on it. */
#ifndef KPEMU_UCOUNT_H
#define KPEMU_UCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include <kpemu/refusal.h>
#include <kpemu/split_counter.h>
#include <kpemu/user_namespace.h>
#include <kpemu/world.h>

struct task_struct;

/* Units: tasks, bytes, signals, pages. */
struct ucounts {
	uint64_t slot;
	uint32_t ns;  /* number of the user namespace */
	uint32_t uid; /* kuid */
	uint64_t gate[UCOUNT_RLIMIT_COUNTS]; /* slot_ref() of the task that recomputes; 0 = open */
	uint32_t nr_cpus; /* CPUs that have something for it, in TABLE_UCOUNTS_CPU or elsewhere */
	uint32_t pad0[3];
	atomic64_t rlimit[UCOUNT_RLIMIT_COUNTS]; /* of those that are not split */
	uint64_t pad1[4];
	atomic64_t peak[UCOUNT_RLIMIT_COUNTS];	  /* highest value known to have been held */
	atomic64_t refused[UCOUNT_RLIMIT_COUNTS]; /* charges refused because this level was full */
	struct split_counter split[UCOUNT_SPLIT_COUNTS];
	uint64_t pad2[8];
};
static_assert(sizeof(struct ucounts) == WORLD_UCOUNTS_SIZE, "ABI");

/* What a CPU has for itself of the counters of one record. */
struct ucounts_cpu {
	uint64_t slot[UCOUNT_SPLIT_COUNTS];
	uint64_t pad[8 - UCOUNT_SPLIT_COUNTS];
};
static_assert(sizeof(struct ucounts_cpu) == WORLD_UCOUNTS_CPU_SIZE, "ABI");

/* How counters are kept (kernel/algorithms.md). The world says which; one file each. */
enum ucounts_alg {
	UCOUNTS_ATOMIC,
	UCOUNTS_PERCPU,
	UCOUNTS_CACHE,
	UCOUNTS_STOCK,
	UCOUNTS_PERCPU_RFC,
	UCOUNTS_CACHE_RFC,
	NR_UCOUNTS_ALGS,
};

struct ucounts_ops {
	const char *name;
	const char *about;
	bool per_cpu; /* a record needs lines in TABLE_UCOUNTS_CPU */
	bool drifts; /* by design: its counters do not stay what the objects say */

	/*
	 * Memory of its own for a record that nobody sees yet: 0 or -ENOMEM. It goes back if the
	 * record is not wanted. NULL: none is needed.
	 */
	int (*init)(struct ucounts *uc);
	void (*destroy)(struct ucounts *uc);

	/* As charge_rlimit_ucounts() and its kin below. */
	bool (*charge)(struct ucounts *uc, enum rlimit_type type, long v, uint64_t rlimit, bool keep,
		       struct refusal *why);
	void (*uncharge)(struct ucounts *uc, enum rlimit_type type, long v);

	/* Of one record alone: what is charged to it; make it @v, with the gate closed. */
	long (*read)(struct ucounts *uc, enum rlimit_type type);
	void (*set)(struct ucounts *uc, enum rlimit_type type, long v);

	/* Is it more than @max? NULL: what read() says is, or is negative. */
	bool (*above)(struct ucounts *uc, enum rlimit_type type, long max);

	/*
	 * The counter of one level, for a charge that comes through @below (NULL: none). False: it is
	 * a word. NULL: all are.
	 */
	bool (*split)(struct split *s, struct ucounts *uc, const struct ucounts *below,
		      enum rlimit_type type);

	/* Units that the counter has taken from the limit and nobody uses; NULL: there are none. */
	long (*held)(struct ucounts *uc, enum rlimit_type type);

	/* A namespace whose creator's record this is goes. NULL: nothing is kept for it. */
	void (*forget_ns)(struct ucounts *uc, uint32_t ns);
};

extern const struct ucounts_ops ucounts_atomic, ucounts_percpu, ucounts_cache, ucounts_stock;
extern const struct ucounts_ops ucounts_percpu_rfc, ucounts_cache_rfc;

/* ucounts_ops_of - the algorithm @alg; of the world: ucounts_ops(). */
const struct ucounts_ops *ucounts_ops_of(uint32_t alg);

static inline const struct ucounts_ops *ucounts_ops(void)
{
	return ucounts_ops_of(READ_ONCE(world->ucounts_alg));
}

/* ucounts_alg_of - the algorithm called @name; -1: there is none. */
int ucounts_alg_of(const char *name);

static inline uint32_t ucounts_index(const struct ucounts *uc)
{
	return table_index(TABLE_UCOUNTS, uc);
}

/* ucounts_of - the record that an object names by index + 1; NULL for 0. */
static inline struct ucounts *ucounts_of(uint32_t record)
{
	return record ? table_slot(TABLE_UCOUNTS, record - 1) : NULL;
}

#define for_each_ucounts(i, uc)                                                                    \
	for (uint32_t i = 0; ((uc) = table_slot(TABLE_UCOUNTS, i)); i++)

/*
 * alloc_ucounts - find or make the record of (@ns, @uid). There is never a second one.
 * NULL when the world is full. Lock-free, async-signal-safe. (kernel/ucounts.md 1.1, 1.2)
 */
struct ucounts *alloc_ucounts(uint32_t ns, uint32_t uid);

/*
 * ucounts_covers - is what is charged to @record (index + 1; 0: nobody) charged to @uc as well: is
 * @uc that record, or on its chain? (kernel/ucounts.md 1.1)
 */
bool ucounts_covers(const struct ucounts *uc, uint32_t record);

/* ucounts_related - have two records (index + 1) a level in common? Room in one is room in both. */
bool ucounts_related(uint32_t a, uint32_t b);

/*
 * Between ucounts_begin() and ucounts_end() task @t may change counter @type of the chain that
 * starts at @uc, together with the object that the charge belongs to. A death in between makes
 * that counter unsure, and reap_dead() recomputes it from the objects. Never nested: callers
 * block signals. Waits (bounded by the recovery) while the counter is being recomputed.
 */
void ucounts_begin(struct task_struct *t, struct ucounts *uc, enum rlimit_type type);

/*
 * The same without a fence of its own, for paths where one would be felt:
 *
 *	ucounts_enter(current, record, type);
 *	change the object, by a fully ordered operation
 *	if (!ucounts_admitted(uc, type)) {
 *		change the object back
 *		ucounts_retreat(current, uc, type);
 *		start again
 *	}
 *	change the counter; ucounts_end(current);
 *
 * A recovery that may have seen the object in between looks again. ucounts_retreat() waits as
 * ucounts_begin() does.
 */
void ucounts_enter(struct task_struct *t, uint32_t record, enum rlimit_type type);
bool ucounts_admitted(struct ucounts *uc, enum rlimit_type type);
void ucounts_retreat(struct task_struct *t, struct ucounts *uc, enum rlimit_type type);

/* ucounts_begin_move - the same for two counters at once: a charge goes from @from to @to. */
void ucounts_begin_move(struct task_struct *t, struct ucounts *from, struct ucounts *to,
			enum rlimit_type type);
void ucounts_end(struct task_struct *t);

/*
 * charge_rlimit_ucounts - charge @v at every level: the leaf's limit is @rlimit, that of each level
 * above what the namespace below it may cost it. False: a level has no room; nothing is charged,
 * and *@why (which may be NULL) says which, but for err and pid. @keep: charged in any case. Inside
 * ucounts_begin(). (kernel/ucounts.md 1.4, inc_rlimit_ucounts(), inc_rlimit_get_ucounts())
 */
static inline bool charge_rlimit_ucounts(struct ucounts *uc, enum rlimit_type type, long v,
					 uint64_t rlimit, bool keep, struct refusal *why)
{
	return ucounts_ops()->charge(uc, type, v, rlimit, keep, why);
}

/* inc_rlimit_ucounts - charge @v at every level, whatever the limits. */
static inline void inc_rlimit_ucounts(struct ucounts *uc, enum rlimit_type type, long v)
{
	ucounts_ops()->charge(uc, type, v, UINT64_MAX, true, NULL);
}

/* dec_rlimit_ucounts - give @v back at every level. */
static inline void dec_rlimit_ucounts(struct ucounts *uc, enum rlimit_type type, long v)
{
	ucounts_ops()->uncharge(uc, type, v);
}

/*
 * ucounts_charge - charge_rlimit_ucounts() for an object that names its record, index + 1, in
 * @record. Not inside an update.
 *
 * ucounts_uncharge - give @v of an object back; nothing if it is not charged.
 */
bool ucounts_charge(struct task_struct *t, struct ucounts *uc, enum rlimit_type type,
		    uint32_t *record, long v, uint64_t rlimit, bool keep, struct refusal *why);
void ucounts_uncharge(struct task_struct *t, enum rlimit_type type, uint32_t *record, long v);

/*
 * is_rlimit_overlimit - is the leaf above @rlimit, or an ancestor above the maximum of the
 * namespace below it? At a limit is not over. Fills level, record, use and limit of *@why (which
 * may be NULL); @asked is what the caller has just added.
 */
bool is_rlimit_overlimit(struct ucounts *uc, enum rlimit_type type, uint64_t rlimit, long asked,
			 struct refusal *why);

/* ucounts_count_refusal - count @why (if it is one) at the record that was full. */
void ucounts_count_refusal(const struct refusal *why);

/*
 * inc_ucount - may @n more of @type be charged to (@ns, @uid)? Its record, which the caller writes
 * into the object that is counted; NULL: some level has no room, *@why says which (err is ENOSPC),
 * or the world is full (err 0). What nobody can reach any more is released before a refusal. These
 * counts are not kept but taken from the objects every time: both happen inside ns_lock(), so none
 * is ever too high, and giving one back is releasing the object. Here record and maximum are of
 * the same namespace. (kernel/ucounts.md 1.3)
 */
struct ucounts *inc_ucount(uint32_t ns, uint32_t uid, enum ucount_type type, long n,
			   struct refusal *why);

/* ucount_value - how many of @type are charged to @uc, or through it. Inside ns_lock(). */
long ucount_value(const struct ucounts *uc, enum ucount_type type);

/*
 * ucounts_peak - the highest value that the counter is known to have had. Split counters are looked
 * at where they are joined, and here: what they had may have been higher, by less than the room for
 * which they are split.
 */
long ucounts_peak(struct ucounts *uc, enum rlimit_type type);

/* get_rlimit_value - the leaf counter, never negative. One pass over the CPUs; closes nothing. */
long get_rlimit_value(struct ucounts *uc, enum rlimit_type type);

/*
 * ucounts_derive - what counter @type of record @uc must be according to the objects: those charged
 * to it, and to records whose chains lead through it.
 */
long ucounts_derive(struct ucounts *uc, enum rlimit_type type);

/*
 * ucounts_recover - recompute the counter that @word (a dead task's `updating`) names, and those of
 * the levels above it. 0; -EAGAIN: a living task has stayed inside an update of it, try again later.
 */
int ucounts_recover(uint64_t word);

/*
 * ucounts_check - compare counter with objects, with the counter's gate closed.
 * Returns 0 and both numbers; -EAGAIN as above ("recovery pending").
 */
int ucounts_check(struct ucounts *uc, enum rlimit_type type, long *counter, long *objects);

#endif
