/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The life of a record as posted with the per-CPU ucounts of 2025, and as the kernel has it. */
#include <kpemu/atomic.h>

#include "emu/sim/explore/explore.h"

/*
 * A record has references, and pending signals that are counted on each CPU. As posted, signals
 * hold no reference: a record is freed when its last reference has gone and no signal is pending;
 * the last put and each signal that is taken look, and a word says who frees. The counter's memory
 * goes at once, the record itself after a grace period, as long as nobody is inside anything; here
 * that is the end of the interleaving. (kernel/ucounts.md 9.1, 6)
 */
#define RECORDS 2

struct record {
	int64_t refs; /* 0: dead, and never again anything else */
	uint32_t freed;
	int64_t *pending; /* of each CPU */
};

static struct {
	struct record record[RECORDS]; /* of one key */
	uint32_t nr;
	bool waits; /* the counter's memory is left for the grace period too */
} s EXPLORE_STATE;

static void make(struct record *r, int64_t refs, int64_t pending)
{
	r->pending = explore_alloc(EXPLORE_CPUS_MAX * sizeof(*r->pending));
	r->pending[0] = pending;
	WRITE_ONCE(r->refs, refs);
}

static int64_t sum(const struct record *r)
{
	int64_t n = 0;

	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		n += READ_ONCE(r->pending[cpu]);
	return n;
}

static void free_once(struct record *r)
{
	if (!cmpxchg(&r->freed, 0, 1) && !s.waits)
		explore_free(r->pending, EXPLORE_CPUS_MAX * sizeof(*r->pending));
}

static void free_unused(struct record *r)
{
	if (!READ_ONCE(r->refs) && sum(r) <= 0)
		free_once(r);
}

static void put(struct record *r)
{
	fetch_add(&r->refs, -1);
	free_unused(r);
}

static bool get_unless_dead(struct record *r)
{
	int64_t refs = READ_ONCE(r->refs);

	while (refs)
		if (try_cmpxchg(&r->refs, &refs, refs + 1))
			return true;
	return false;
}

/* A signal is taken on @cpu: an addition on a CPU is no barrier. */
static void dec_pending(struct record *r, unsigned int cpu)
{
	WRITE_ONCE(r->pending[cpu], READ_ONCE(r->pending[cpu]) - 1);
	free_unused(r);
}

/* --- as posted: a second record --- */

static void second_setup(void)
{
	make(&s.record[0], 1, 1);
	s.nr = 1;
}

static void second_thread(unsigned int cpu)
{
	struct record *r = &s.record[0];

	if (!cpu) {
		put(r); /* the last task of the user ends; its signal stays */
	} else if (cpu == 1 && !get_unless_dead(r)) {
		make(&s.record[1], 1, 0); /* who comes finds a dead record, and makes one */
		WRITE_ONCE(s.nr, 2);
	}
}

/* What is pending for a user limits the user: it must be in the record that is found. */
static void second_check(void)
{
	explore_check(s.nr == 1 || !sum(&s.record[0]));
}

EXPLORE_TEST(second) = {
	.name = "rfc-second-record",
	.about =
		"the posted life of records: a user's record with signals is not found; to be found",
	.cpus_min = 2,
	.cpus_max = 2,
	.setup = second_setup,
	.thread = second_thread,
	.check = second_check,
	.finds = "pending signals hold no reference, and a dead record is not found again",
};

/* --- as posted: use after free --- */

static void taken_setup(void)
{
	make(&s.record[0], 0, 0);
	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		s.record[0].pending[cpu] = 1;
}

static void taken_thread(unsigned int cpu)
{
	dec_pending(&s.record[0], cpu);
}

EXPLORE_TEST(taken) = {
	.name = "rfc-use-after-free",
	.about =
		"the posted life of records: signals of a dead record are taken at once; to be found",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = taken_setup,
	.thread = taken_thread,
	.finds =
		"the counter's memory goes at once, and another one who takes a signal still sums it",
};

/* --- as posted: a leak, with store buffers --- */

static void leak_setup(void)
{
	make(&s.record[0], 1, 1);
	s.waits = true;
}

static void leak_thread(unsigned int cpu)
{
	if (!cpu)
		dec_pending(&s.record[0], cpu);
	else if (cpu == 1)
		put(&s.record[0]);
}

static void leak_check(void)
{
	explore_equal(s.record[0].freed, 1);
}

EXPLORE_TEST(leak) = {
	.name = "rfc-leak",
	.about =
		"the posted life of records: the last signal and the last put; to be found with --tso",
	.cpus_min = 2,
	.cpus_max = 2,
	.setup = leak_setup,
	.thread = leak_thread,
	.check = leak_check,
	.finds =
		"the subtraction on the CPU is no barrier: each may miss the other, and nobody frees",
};

/* --- as the kernel has it: the first signal takes a reference, and the last one drops it --- */

static void kernel_put(struct record *r)
{
	if (fetch_add(&r->refs, -1) == 1)
		free_once(r);
}

static void kernel_setup(void)
{
	make(&s.record[0], 2, 2); /* of a task, and of two signals */
	s.nr = 1;
}

static void kernel_thread(unsigned int cpu)
{
	struct record *r = &s.record[0];

	if (!cpu) {
		kernel_put(r);
		return;
	}
	if (cpu == explore_cpus() - 1 && !get_unless_dead(r))
		WRITE_ONCE(s.nr, 2);
	if (fetch_add(&r->pending[0], -1) == 1)
		kernel_put(r);
}

static void kernel_check(void)
{
	struct record *r = &s.record[0];

	explore_equal(s.nr, 1);
	explore_equal(r->freed, r->refs == 0);
	if (explore_cpus() == 2)
		explore_equal(sum(r), 1);
}

EXPLORE_TEST(kernel) = {
	.name = "record-life-kernel",
	.about =
		"the kernel's life of records: found as long as a signal is pending, and freed once",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = kernel_setup,
	.thread = kernel_thread,
	.check = kernel_check,
};
