/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A world of the test's own, with the counter algorithm that $KPEMU_UNIT_UCOUNTS names. */
#ifndef TESTS_UNIT_UNIT_WORLD_H
#define TESTS_UNIT_UNIT_WORLD_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include <kpemu/ucount.h>
#include <kpemu/world.h>

static inline void unit_world(void)
{
	const char *name = getenv("KPEMU_UNIT_UCOUNTS");
	int alg = name ? ucounts_alg_of(name) : UCOUNTS_PERCPU;

	cr_assert_eq(world_map_private(), 0);
	cr_assert_geq(alg, 0, "no algorithm %s", name);
	world->ucounts_alg = alg;
	world->nr_cpus = 2;
}

#endif
