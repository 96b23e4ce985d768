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

/* Namespaces' slots are opened, and found, on the long way only. */
static inline bool may_be_joined(const struct ucounts *uc, const struct ucounts *below)
{
	return uc->nr_cpus || !below;
}

/* One unit in the slot of this CPU, or where none is open: that is where nearly all of them go. */
static inline enum split_answer take_here(struct ucounts *uc, const struct ucounts *below,
					  enum rlimit_type type, int index, long max, bool keep,
					  long *use)
{
	unsigned int nr = uc->nr_cpus;
	uint64_t *slot;

	if (READ_ONCE(uc->joined[index]) && may_be_joined(uc, below))
		return split_take_joined(&uc->split[index], nr ? nr : SPLIT_NEVER, uc->batch, max,
					 keep, &uc->peak[type], use);
	if (unlikely(!nr))
		return SPLIT_ELSEWHERE;
	slot = slot_of_cpu(uc, this_cpu(uc), index);
	return slot && split_take(slot, uc->batch, keep ? LONG_MAX : max) ? SPLIT_ACCEPTED :
									    SPLIT_ELSEWHERE;
}

static inline bool give_here(struct ucounts *uc, const struct ucounts *below, int index)
{
	uint64_t *slot;

	if (READ_ONCE(uc->joined[index]) && may_be_joined(uc, below)) {
		if (unlikely(!split_give_joined(&uc->split[index])))
			WRITE_ONCE(uc->joined[index], 0);
		return true;
	}
	if (unlikely(!uc->nr_cpus))
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

/* Who finds the hint wrong comes this way, and puts it right. */
static void note_joined(struct ucounts *uc, const struct ucounts *below, const struct split *s)
{
	uint8_t *hint = &uc->joined[s->c - uc->split], joined;

	if (!may_be_joined(uc, below))
		return;
	joined = split_is_joined(s->c);
	if (READ_ONCE(*hint) != joined)
		WRITE_ONCE(*hint, joined);
}

__attribute__((noinline)) static bool level_charge_slow(struct ucounts *uc,
							const struct ucounts *below,
							enum rlimit_type type, long v, long max,
							bool keep, long *use)
{
	struct split s;
	bool done;

	if (!split_of(&s, uc, below, type))
		return word_charge(uc, below, type, v, max, keep, use);
	done = split_charge(&s, v, max, keep, use);
	note_joined(uc, below, &s);
	return done;
}

static inline bool level_charge(struct ucounts *uc, const struct ucounts *below,
				enum rlimit_type type, long v, long max, bool keep, long *use)
{
	int index = split_index(type);
	enum split_answer answer = SPLIT_ELSEWHERE;

	if (likely(v == 1 && index >= 0))
		answer = take_here(uc, below, type, index, max, keep, use);
	if (likely(answer != SPLIT_ELSEWHERE))
		return answer == SPLIT_ACCEPTED;
	return level_charge_slow(uc, below, type, v, max, keep, use);
}

__attribute__((noinline)) static void
level_uncharge_slow(struct ucounts *uc, const struct ucounts *below, enum rlimit_type type, long v)
{
	struct split s;

	if (!split_of(&s, uc, below, type)) {
		word_uncharge(uc, below, type, v);
		return;
	}
	split_uncharge(&s, v);
	note_joined(uc, below, &s);
}

static inline void level_uncharge(struct ucounts *uc, const struct ucounts *below,
				  enum rlimit_type type, long v)
{
	int index = split_index(type);

	if (v != 1 || index < 0 || unlikely(!give_here(uc, below, index)))
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

long split_level_held(struct ucounts *uc, enum rlimit_type type)
{
	struct split s;

	return split_of(&s, uc, NULL, type) ? split_held(&s) : 0;
}
