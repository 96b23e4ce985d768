/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Levels whose counters are split, by CPUs or by namespaces, as the world's algorithm says. */
#include <kpemu/percpu.h>

#include "emu/kernel/ucount.h"

static inline uint64_t *slot_of_cpu(const struct ucounts *uc, unsigned int cpu, int index)
{
	struct ucounts_cpu *line = table_slot(TABLE_UCOUNTS_CPU, uc->cpu_lines + cpu);

	return line ? &line->slot[index] : NULL;
}

static uint64_t *cpu_slot(const struct split *s, unsigned int i)
{
	const struct ucounts *uc = s->of;

	return slot_of_cpu(uc, i, s->c - uc->split);
}

/* A number below uc->nr_cpus, which is not 0. */
static inline unsigned int this_cpu(const struct ucounts *uc)
{
	unsigned int cpu = percpu_cpu();

	return likely(cpu < uc->nr_cpus) ? cpu : cpu % uc->nr_cpus;
}

/* One unit in the slot of this CPU, which is where nearly all of them go. */
static inline bool take_here(const struct ucounts *uc, int index, long max)
{
	uint64_t *slot;

	if (unlikely(!uc->nr_cpus || index < 0))
		return false;
	slot = slot_of_cpu(uc, this_cpu(uc), index);
	return slot && split_take(slot, uc->batch, max);
}

static inline bool give_here(const struct ucounts *uc, int index)
{
	uint64_t *slot;

	if (unlikely(!uc->nr_cpus || index < 0))
		return false;
	slot = slot_of_cpu(uc, this_cpu(uc), index);
	return slot && split_give(slot, uc->batch);
}

bool ucounts_cpu_split(struct split *s, struct ucounts *uc, const struct ucounts *below,
		       enum rlimit_type type)
{
	int index = split_index(type);
	unsigned int cpu = uc->nr_cpus ? this_cpu(uc) : 0;

	(void)below;
	if (index < 0)
		return false;
	*s = (struct split){
		.c = &uc->split[index],
		.slot = cpu_slot,
		.of = uc,
		.mine = uc->nr_cpus ? slot_of_cpu(uc, cpu, index) : NULL,
		.index = cpu,
		.nr = uc->nr_cpus,
		.batch = uc->batch,
		.peak = &uc->peak[type],
	};
	return true;
}

static inline bool split_of(struct split *s, struct ucounts *uc, const struct ucounts *below,
			    enum rlimit_type type)
{
	return ucounts_ops()->split(s, uc, below, type);
}

__attribute__((noinline)) static bool level_charge_slow(struct ucounts *uc,
							const struct ucounts *below,
							enum rlimit_type type, long v, long max,
							bool keep, long *use)
{
	struct split s;

	return split_of(&s, uc, below, type) ? split_charge(&s, v, max, keep, use) :
					       word_charge(uc, below, type, v, max, keep, use);
}

static inline bool level_charge(struct ucounts *uc, const struct ucounts *below,
				enum rlimit_type type, long v, long max, bool keep, long *use)
{
	return (v == 1 && likely(take_here(uc, split_index(type), keep ? LONG_MAX : max))) ||
	       level_charge_slow(uc, below, type, v, max, keep, use);
}

__attribute__((noinline)) static void
level_uncharge_slow(struct ucounts *uc, const struct ucounts *below, enum rlimit_type type, long v)
{
	struct split s;

	if (split_of(&s, uc, below, type))
		split_uncharge(&s, v);
	else
		word_uncharge(uc, below, type, v);
}

static inline void level_uncharge(struct ucounts *uc, const struct ucounts *below,
				  enum rlimit_type type, long v)
{
	if (v != 1 || unlikely(!give_here(uc, split_index(type))))
		level_uncharge_slow(uc, below, type, v);
}

static const struct level_ops levels = { level_charge, level_uncharge };

bool split_levels_charge(struct ucounts *uc, enum rlimit_type type, long v, uint64_t rlimit,
			 bool keep, struct refusal *why)
{
	return charge_levels(uc, type, v, rlimit, keep, why, &levels);
}

void split_levels_uncharge(struct ucounts *uc, enum rlimit_type type, long v)
{
	uncharge_levels(uc, NULL, type, v, &levels);
}

long split_level_read(struct ucounts *uc, enum rlimit_type type)
{
	struct split s;

	return split_of(&s, uc, NULL, type) ? split_read(&s) : word_read(uc, type);
}

void split_level_set(struct ucounts *uc, enum rlimit_type type, long v)
{
	struct split s;

	if (split_of(&s, uc, NULL, type))
		split_set(&s, v);
	else
		word_set(uc, type, v);
}
