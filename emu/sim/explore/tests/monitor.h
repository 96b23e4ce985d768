/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Charges and releases as they take effect, step by step, and what must hold of each. */
#ifndef EMU_SIM_EXPLORE_TESTS_MONITOR_H
#define EMU_SIM_EXPLORE_TESTS_MONITOR_H

#include <kpemu/split_counter.h>

#include "emu/sim/explore/explore.h"

/*
 * After each step, what every counter has is taken from its words. A change of it must be that of
 * the operation that the CPU of this step is in, once, and by nothing else. So
 *
 *   P1  counter and operations agree after every step, whoever is killed where
 *   P2  what is accepted was not above the limit of that charge when it was added
 *   P3  what is refused would have been above a limit at some moment of the call
 *   P4  what is refused has left nothing at any level
 *
 * (kernel/algorithms.md). Counters that are one word are higher for a moment by what is about to be
 * refused, as in the kernel; for P3 that counts as used.
 */
#define MONITOR_COUNTERS 3
#define MONITOR_ABSENT   (-1) /* as a limit: the operation does not come through this counter */

/* For setup(): a counter more; its number. One that is split has up to MONITOR_SLOTS slots. */
#define MONITOR_SLOTS 4
unsigned int monitor_split(const struct split *s);
unsigned int monitor_word(const int64_t *word);

/*
 * monitor_begin - an operation of @cpu: @v above 0 is charged, below 0 released, 0: nothing may
 * change. @limit: of each counter; @keep: whatever they are. monitor_end - it has returned.
 */
void monitor_begin(unsigned int cpu, long v, bool keep, const long *limit);
void monitor_end(unsigned int cpu, bool accepted);

/* For step(). */
void monitor_step(void);

/* monitor_use - what counter @i has now, according to its words. */
long monitor_use(unsigned int i);

/* For check(): all that has been done is in the counters. */
void monitor_check(void);

/* A test about a struct scene of the file's own: what remains of the arguments, for scene_setup(). */
#define SCENE_OF(ident, title, what, the_thread, the_check, the_step, deaths, ...) \
	static const struct scene ident##_scene = __VA_ARGS__;                     \
	static void ident##_setup(void)                                            \
	{                                                                          \
		scene_setup(&ident##_scene);                                       \
	}                                                                          \
	EXPLORE_TEST(ident) = { .name = title,                                     \
				.about = what,                                     \
				.cpus_min = 2,                                     \
				.cpus_max = 3,                                     \
				.setup = ident##_setup,                            \
				.thread = the_thread,                              \
				.check = the_check,                                \
				.step = the_step,                                  \
				.helpers = deaths,                                 \
				.mortal = deaths }

#endif
