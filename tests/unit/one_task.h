/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A world of the test's own, with the test process as its only task. */
#ifndef TESTS_UNIT_ONE_TASK_H
#define TESTS_UNIT_ONE_TASK_H

#include <criterion/criterion.h>
#include <unistd.h>

#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "tests/unit/unit_world.h"

/* Of uid 1000, with no limit but the soft one of @type. It is `current`. */
static inline struct task_struct *make_one_task(enum rlimit_type type, uint64_t soft)
{
	struct rlim rlim[UCOUNT_RLIMIT_COUNTS];
	struct task_struct *t;
	struct cred cred;

	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		rlim[i] = (struct rlim){ RLIM_INF, RLIM_INF };
	rlim[type].cur = soft;
	unit_world();
	cred_init(&cred, 1000, 1000);
	t = task_first(&cred, rlim);
	cr_assert_not_null(t);
	cr_assert(task_born(t, task_ref(t), getpid(), getpid()));
	current = t;
	return t;
}

/* What a counter says, which must be what its objects say. */
static inline long counted(struct ucounts *uc, enum rlimit_type type)
{
	long counter, objects;

	cr_assert_eq(ucounts_check(uc, type, &counter, &objects), 0);
	cr_assert_eq(counter, objects);
	return counter;
}

#endif
