/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What both benchmarks of ucounts charge: records of namespaces, and of those who made these. */
#ifndef TESTS_BENCH_UCOUNTS_H
#define TESTS_BENCH_UCOUNTS_H

#include <limits.h>
#include <string.h>

#include <kpemu/percpu.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "tests/bench/check.h"

#define SIGNALS UCOUNT_RLIMIT_SIGPENDING
#define CREATOR 1000 /* uid of the first one */
#define BURST   16 /* charges, then as many releases */

/* Which CPU releases what one has charged. */
enum pattern {
	SAME, /* itself, at once */
	CROSS, /* another one */
	BURSTS, /* itself, BURST of them */
	NR_PATTERNS,
};

/* What those who charge have in common. */
enum relation {
	ONE_NAMESPACE, /* all: they are in one namespace */
	ONE_CREATOR, /* the record that their namespaces are charged through */
	OWN_CREATORS, /* nothing */
	NR_RELATIONS,
};

static const char *const pattern_names[NR_PATTERNS] = { "same", "cross", "burst" };
static const char *const relation_names[NR_RELATIONS] = { "one_namespace", "one_creator",
							  "own_creators" };

/* The index of @name; -1: there is none. */
static inline int name_index(const char *const names[], int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

static inline struct ucounts *creator_record(uint32_t uid)
{
	struct ucounts *uc = alloc_ucounts(INIT_USER_NS, uid);

	check(uc, "a creator's record");
	return uc;
}

/* The record of uid @creator in a new namespace that it has made. */
static inline struct ucounts *make_leaf(uint32_t creator)
{
	struct user_namespace *ns = table_alloc(TABLE_USER_NS, 0);
	struct ucounts *leaf;

	check(ns, "a namespace");
	ns->level = 1;
	ns->ucounts = ucounts_index(creator_record(creator)) + 1;
	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		ns->rlimit_max[i] = UINT64_MAX;
	WRITE_ONCE(ns->slot, slot_word(SLOT_LIVE, slot_gen(ns->slot), 0));
	leaf = alloc_ucounts(table_index(TABLE_USER_NS, ns), creator);
	check(leaf, "a record");
	return leaf;
}

/* What all that is charged to @leaf may hold, and what is charged through its namespace. */
static inline void set_max_above(const struct ucounts *leaf, uint64_t max)
{
	WRITE_ONCE(user_ns_of(leaf->ns)->rlimit_max[SIGNALS], max);
}

/* As if all CPUs had charged it lately: how many did so says from which room on it is split. */
static inline void wear_in(struct ucounts *uc, unsigned int cpus)
{
	for (unsigned int i = 0; i < 3 * cpus; i++) {
		percpu_set_cpu(i % cpus);
		/* (No limit would be one that percpu-rfc refuses.) */
		check(charge_rlimit_ucounts(uc, SIGNALS, 1, LONG_MAX, false, NULL), "a charge");
		dec_rlimit_ucounts(uc, SIGNALS, 1);
	}
	percpu_set_cpu(-1);
}

/* Nothing is charged to it but @v. */
static inline void begin_with(struct ucounts *uc, long v)
{
	ucounts_ops()->set(uc, SIGNALS, 0);
	if (v)
		inc_rlimit_ucounts(uc, SIGNALS, v);
}

#endif
