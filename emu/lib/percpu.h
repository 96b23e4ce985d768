/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What areas of per-CPU memory and percpu_counters know of each other. */
#ifndef EMU_LIB_PERCPU_H
#define EMU_LIB_PERCPU_H

#include <kpemu/percpu.h>

/*
 * percpu_owners - for each unit of a run, where the percpu_counter is that it belongs to: bytes
 * from the entry; 0 = none. This is the kernel's list of counters, as a table, because a death
 * in the middle of a change must not leave half a list.
 */
int64_t *percpu_owners(const struct percpu_area *area);

#endif
