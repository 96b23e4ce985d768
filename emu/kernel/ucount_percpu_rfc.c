/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `percpu-rfc`: the per-CPU ucounts of 2025 as posted, to be compared with. */
#include <errno.h>

#include <kpemu/percpu_counter.h>

#include "emu/kernel/ucount.h"

/*
 * All four limits of a record are percpu_counters, and a charge is a percpu_counter_limited_add()
 * at each level, which adds nothing where there is no room. What follows from that is kept, and
 * numbered as in kernel/ucounts.md 9.1:
 *
 *  1  limits are signed, and RLIM_INFINITY is -1: queues, signals and locked segments of those
 *     without a limit are all refused;
 *  2  queues and segments go on to the levels above one that refuses, and take the charge off all
 *     levels afterwards, so that those that have refused lose what they never had;
 *  3  tasks are charged first, whatever the answer, and then compared: a full level stays at its
 *     limit, is never above it, and loses a unit with each task that it has not counted;
 *  4  the limit of the task is carried to every level above the leaf;
 *  5  a segment that CAP_IPC_LOCK lets over the limit is not charged where there was no room, but
 *     uncharged there;
 *  7  of a record whose counters cannot all be made, the last one made is forgotten;
 *  8  the quick path needs CPUs * batch of room, and every reading is a sum over the CPUs;
 *  9  percpu_counter_limited_add() has its race;
 * 10  no counter is looked at for being negative.
 *
 * The life of records (6) is not the posted one: they stay for as long as the world. In the posted
 * code 2, 3 and 5 are spread over the callers; here they are in charge(), so that no caller knows.
 * The per-CPU memory is one area in the world, in atomic mode, since several processes share it.
 */

#define AREA_BYTES (WORLD_PAGE * WORLD_PERCPU_PAGES)

static_assert(UCOUNT_RLIMIT_COUNTS * sizeof(struct percpu_counter) == WORLD_UCOUNTS_PERCPU_SIZE,
	      "ABI");

/* --- memory --- */

static struct percpu_counter *counters_of(const struct ucounts *uc)
{
	return table_slot(TABLE_UCOUNTS_PERCPU, ucounts_index(uc));
}

static inline struct percpu_counter *counter_of(const struct ucounts *uc, enum rlimit_type type)
{
	return counters_of(uc) + type;
}

/* Bytes of each CPU: for all records, or as many as fit. */
static size_t area_run(unsigned int nr_cpus)
{
	size_t run = (AREA_BYTES / (nr_cpus + 4) - 2 * PERCPU_LINE) & ~(size_t)(PERCPU_LINE - 1);

	return run < PERCPU_MAX_RUN ? run : PERCPU_MAX_RUN;
}

/* Made with the first record, by whoever makes the world. NULL: no memory. */
static struct percpu_area *area_of_world(void)
{
	unsigned int nr = world->nr_cpus < PERCPU_MAX_CPUS ? world->nr_cpus : PERCPU_MAX_CPUS;
	struct percpu_area *area = table_slot(TABLE_PERCPU_PAGE, 0);
	size_t run, size;

	nr = nr ? nr : 1;
	run = area_run(nr);
	size = world_page_up(percpu_area_size(nr, run));
	if (table_reserve(TABLE_PERCPU_PAGE, size / WORLD_PAGE))
		return NULL;
	if (!READ_ONCE(area->nr_cpus) && percpu_area_init(area, size, nr, run, PERCPU_ATOMIC))
		return NULL;
	return area;
}

/* How many of them there are now. What a failure has left in the slot is lost. */
static int make_counters(struct percpu_counter *c, struct percpu_area *area)
{
	int i;

	for (i = 0; i < UCOUNT_RLIMIT_COUNTS; i++) {
		percpu_ptr_clear(&c[i].counters);
		if (percpu_counter_init(&c[i], area, 0))
			break;
	}
	return i;
}

static int init(struct ucounts *uc)
{
	struct percpu_area *area = area_of_world();
	struct percpu_counter *c = counters_of(uc);
	int made;

	if (!area || table_reserve(TABLE_UCOUNTS_PERCPU, ucounts_index(uc) + 1))
		return -ENOMEM;
	made = make_counters(c, area);
	if (made < UCOUNT_RLIMIT_COUNTS) {
		percpu_counter_destroy_many(c, made ? made - 1 : 0);
		return -ENOMEM;
	}
	WRITE_ONCE(uc->nr_cpus, area->nr_cpus);
	return 0;
}

static void destroy(struct ucounts *uc)
{
	WRITE_ONCE(uc->nr_cpus, 0);
	percpu_counter_destroy_many(counters_of(uc), UCOUNT_RLIMIT_COUNTS);
}

/* --- charging --- */

static long read(struct ucounts *uc, enum rlimit_type type)
{
	return READ_ONCE(uc->nr_cpus) ? percpu_counter_sum(counter_of(uc, type)) : 0;
}

static void set(struct ucounts *uc, enum rlimit_type type, long v)
{
	percpu_counter_set(counter_of(uc, type), v);
}

static bool above(struct ucounts *uc, enum rlimit_type type, long max)
{
	return percpu_counter_compare(counter_of(uc, type), max) > 0;
}

static void sub_level(struct ucounts *uc, const struct ucounts *below, enum rlimit_type type,
		      long v)
{
	(void)below;
	percpu_counter_sub(counter_of(uc, type), v);
}

static const struct level_ops levels = { .uncharge = sub_level };

static void uncharge(struct ucounts *uc, enum rlimit_type type, long v)
{
	uncharge_levels(uc, NULL, type, v, &levels);
}

/* Where there is room. The first level that had none, which *@why is about; NULL: all had. */
static struct ucounts *add_levels(struct ucounts *uc, enum rlimit_type type, long v, long limit,
				  bool keep, bool stop, struct refusal *why)
{
	struct ucounts *iter, *full = NULL;
	long max = LONG_MAX;
	int level = 0;

	for_each_level(iter, uc) {
		if (max > limit)
			max = limit;
		if (!percpu_counter_limited_add(counter_of(iter, type), max, v) && !full) {
			full = iter;
			fill_refusal(why, iter, type, level, read(iter, type), max, v);
			if (stop)
				break;
		}
		max = keep ? LONG_MAX : max_above(iter, type);
		level++;
	}
	return full;
}

static bool charge_signal(struct ucounts *uc, long v, long limit, bool keep, struct refusal *why)
{
	const enum rlimit_type type = UCOUNT_RLIMIT_SIGPENDING;
	struct ucounts *full = add_levels(uc, type, v, keep ? LONG_MAX : limit, keep, true, why);

	if (full)
		uncharge_levels(uc, full, type, v, &levels);
	return !full;
}

/* Whether there is room at all levels is not asked, but whether one is above its limit now. */
static bool charge_task(struct ucounts *uc, long v, uint64_t rlimit, bool keep, struct refusal *why)
{
	const enum rlimit_type type = UCOUNT_RLIMIT_NPROC;

	add_levels(uc, type, v, LONG_MAX, false, false, NULL);
	if (keep || !is_rlimit_overlimit(uc, type, rlimit, v, why))
		return true;
	uncharge(uc, type, v);
	return false;
}

static bool charge(struct ucounts *uc, enum rlimit_type type, long v, uint64_t rlimit, bool keep,
		   struct refusal *why)
{
	if (type == UCOUNT_RLIMIT_SIGPENDING)
		return charge_signal(uc, v, rlimit, keep, why);
	if (type == UCOUNT_RLIMIT_NPROC)
		return charge_task(uc, v, rlimit, keep, why);
	if (!add_levels(uc, type, v, rlimit, false, false, why) || keep)
		return true;
	uncharge(uc, type, v);
	return false;
}

const struct ucounts_ops ucounts_percpu_rfc = {
	.name = "percpu-rfc",
	.about = "the per-CPU counters of 2025 as posted, with their defects",
	.drifts = true,
	.init = init,
	.destroy = destroy,
	.charge = charge,
	.uncharge = uncharge,
	.read = read,
	.set = set,
	.above = above,
};
