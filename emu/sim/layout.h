/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Structs as the kernel lays them out on x86-64, for their sizes alone. Nothing here is ever
 * filled in: the emulation's own structs hold offsets where these hold pointers.
 */
#ifndef EMU_SIM_LAYOUT_H
#define EMU_SIM_LAYOUT_H

#include <assert.h>
#include <stdint.h>

typedef uint64_t kernel_pointer;
typedef int64_t kernel_long;

enum {
	KERNEL_CACHE_LINE = 64, /* one tree node of all counters of an mm */
	KERNEL_MM_COUNTERS = 4, /* NR_MM_COUNTERS */
	KERNEL_UCOUNT_RLIMITS = 4, /* UCOUNT_RLIMIT_COUNTS */
};

/* struct percpu_counter: its per-cpu part is an s32 (kernel/rss.md 1). */
struct kernel_percpu_counter {
	uint32_t lock;
	int64_t count;
	kernel_pointer list_next, list_prev;
	kernel_pointer counters;
};
static_assert(sizeof(struct kernel_percpu_counter) == 40, "160 bytes for four, RFC v23 07/10");
typedef int32_t kernel_percpu_counter_slot;

/* struct percpu_counter_tree: its per-cpu part, a byte, is counted where it is allocated. */
struct kernel_percpu_counter_tree {
	kernel_pointer level0;
	kernel_pointer items;
	kernel_long bias;
	kernel_long atomic_bias;
	uint32_t batch;
	uint32_t index; /* of the counter in each node */
};
static_assert(sizeof(struct kernel_percpu_counter_tree) == 40,
	      "192 = 4 * 40 + 8 + 24, RFC v23 07/10");

/* struct mutex where waiters hang on one pointer: the 24 bytes that RFC v23 07/10 counts. */
struct kernel_mutex {
	kernel_long owner;
	uint32_t wait_lock;
	uint32_t osq;
	kernel_pointer first_waiter;
};
static_assert(sizeof(struct kernel_mutex) == 24, "RFC v23 07/10");

/* What an mm_struct holds for its RSS: upstream, and with lazy trees. */
struct kernel_mm_upstream {
	struct kernel_percpu_counter rss_stat[KERNEL_MM_COUNTERS];
};

struct kernel_mm_lazy {
	struct kernel_percpu_counter_tree rss_stat[KERNEL_MM_COUNTERS];
	kernel_pointer rss_owner;
	struct kernel_mutex rss_stat_mutex;
};
static_assert(sizeof(struct kernel_mm_upstream) == 160, "RFC v23 07/10");
static_assert(sizeof(struct kernel_mm_lazy) == 192, "RFC v23 07/10, without padding");

/* The rlimit counters of struct ucounts today. */
struct kernel_ucounts_shared {
	kernel_long rlimit[KERNEL_UCOUNT_RLIMITS];
};
static_assert(sizeof(struct kernel_ucounts_shared) == 32, "four longs");

/* And as one percpu_counter for each type. */
struct kernel_ucounts_percpu {
	struct kernel_percpu_counter rlimit[KERNEL_UCOUNT_RLIMITS];
};

#endif
