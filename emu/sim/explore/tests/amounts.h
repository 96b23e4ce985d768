/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What has been added so far, for tests that sum meanwhile. */
#ifndef EMU_SIM_EXPLORE_TESTS_AMOUNTS_H
#define EMU_SIM_EXPLORE_TESTS_AMOUNTS_H

#include <kpemu/atomic.h>

#include "emu/sim/explore/explore.h"

/*
 * Amounts whose additions have begun and have ended, by CPU: only the own CPU writes them, so they
 * bring CPUs that only add no order which they have not by themselves.
 */
static struct {
	long begun[EXPLORE_CPUS_MAX], ended[EXPLORE_CPUS_MAX];
} amounts EXPLORE_STATE;

static inline void amount_begin(unsigned int cpu, long v)
{
	WRITE_ONCE(amounts.begun[cpu], amounts.begun[cpu] + v);
}

static inline void amount_end(unsigned int cpu, long v)
{
	WRITE_ONCE(amounts.ended[cpu], amounts.ended[cpu] + v);
}

static inline long amounts_begun(void)
{
	long sum = 0;

	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		sum += READ_ONCE(amounts.begun[cpu]);
	return sum;
}

static inline long amounts_ended(void)
{
	long sum = 0;

	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		sum += READ_ONCE(amounts.ended[cpu]);
	return sum;
}

#endif
