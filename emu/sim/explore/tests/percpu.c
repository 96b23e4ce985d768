/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Per-CPU memory and percpu_counter: additions, sums, CPUs that go offline. */
#include <kpemu/percpu_counter.h>

#include "emu/sim/explore/explore.h"
#include "emu/sim/explore/tests/amounts.h"

static struct {
	struct percpu_ptr slots;
	struct percpu_counter counter;
	struct percpu_area *area;
} s EXPLORE_STATE;

/* --- per-CPU memory --- */

static void slots_setup(enum percpu_mode mode)
{
	s.area = explore_area(explore_cpus(), mode);
	percpu_ptr_set(&s.slots, s.area, percpu_alloc(s.area, sizeof(int64_t), sizeof(int64_t)));
}

static void slots_rseq(void)
{
	slots_setup(PERCPU_RSEQ);
}

static void slots_atomic(void)
{
	slots_setup(PERCPU_ATOMIC);
}

static void slots_add(unsigned int cpu)
{
	if (cpu == explore_cpus()) { /* the helper, where there is one */
		explore_move(0, 1);
		explore_move(0, 0);
		return;
	}
	for (unsigned int i = 0; i < explore_ops(); i++) {
		long before, sum;

		if (cpu && cpu == explore_cpus() - 1) {
			before = amounts_ended();
			sum = percpu_sum64(&s.slots);
			explore_check(sum >= before && sum <= amounts_begun());
			continue;
		}
		amount_begin(cpu, 1);
		this_cpu_add64(&s.slots, 1);
		amount_end(cpu, 1);
	}
}

static void slots_sum(void)
{
	explore_equal(percpu_sum64(&s.slots), amounts_ended());
}

EXPLORE_TEST(percpu_add) = {
	.name = "percpu-add",
	.about = "additions in critical sections and sums: a sum lies between ended and begun",
	.cpus_min = 2,
	.cpus_max = 4,
	.setup = slots_rseq,
	.thread = slots_add,
	.check = slots_sum,
};

EXPLORE_TEST(percpu_add_atomic) = {
	.name = "percpu-add-atomic",
	.about = "the same by atomics on the slot of the CPU",
	.cpus_min = 2,
	.cpus_max = 4,
	.setup = slots_atomic,
	.thread = slots_add,
	.check = slots_sum,
};

EXPLORE_TEST(percpu_add_moved) = {
	.name = "percpu-add-moved",
	.about = "additions of a thread that is moved to another CPU and back at any step",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = slots_rseq,
	.thread = slots_add,
	.check = slots_sum,
	.helpers = 1,
	.moves = true,
};

/* --- the allocator --- */

static long offset[EXPLORE_CPUS_MAX][4] EXPLORE_STATE;

static void alloc_thread(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++) {
		offset[cpu][i] = percpu_alloc(s.area, 8, 8);
		explore_check(offset[cpu][i] >= 0);
		if (i == 1)
			explore_check(!percpu_free(s.area, offset[cpu][0], 8));
	}
}

static bool alloc_kept(unsigned int i)
{
	return i || explore_ops() < 2;
}

static void alloc_check(void)
{
	unsigned int n = 0;
	uint64_t seen = 0;

	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		for (unsigned int i = 0; i < explore_ops(); i++)
			if (alloc_kept(i)) {
				explore_check(!(seen >> offset[cpu][i] / 8 & 1));
				seen |= 1ull << offset[cpu][i] / 8;
				n++;
			}
	explore_equal(percpu_used(s.area), 8 * n);
}

static void alloc_setup(void)
{
	s.area = explore_area(explore_cpus(), PERCPU_ATOMIC);
}

EXPLORE_TEST(percpu_alloc_free) = {
	.name = "percpu-alloc",
	.about = "allocations and a release of per-CPU memory: none is given out twice",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = alloc_setup,
	.thread = alloc_thread,
	.check = alloc_check,
};

/* --- percpu_counter --- */

#define BATCH 2

static long added[EXPLORE_CPUS_MAX] EXPLORE_STATE; /* each by its own CPU */

static void counter_setup(enum percpu_mode mode)
{
	s.area = explore_area(explore_cpus(), mode);
	if (percpu_counter_init(&s.counter, s.area, 0))
		explore_fail("no counter");
}

static void counter_rseq(void)
{
	counter_setup(PERCPU_RSEQ);
}

static void counter_atomic(void)
{
	counter_setup(PERCPU_ATOMIC);
}

/* Additions of 1 with a batch of 2: every second one moves to the count. */
static void counter_add_thread(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++) {
		percpu_counter_add_batch(&s.counter, 1, BATCH);
		added[cpu]++;
	}
}

static long all_added(void)
{
	long all = 0;

	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		all += added[cpu];
	return all;
}

static void counter_check(void)
{
	long sum = percpu_counter_sum(&s.counter);

	explore_equal(sum, all_added());
	explore_check(sum - percpu_counter_read(&s.counter) <= (BATCH - 1) * explore_cpus());
}

static void counter_sum_thread(unsigned int cpu)
{
	long sum, before;

	for (unsigned int i = 0; cpu && i < explore_ops(); i++) {
		amount_begin(cpu, 1);
		percpu_counter_add_batch(&s.counter, 1, BATCH);
		amount_end(cpu, 1);
		added[cpu]++;
	}
	if (cpu)
		return;
	before = amounts_ended();
	sum = percpu_counter_sum(&s.counter);
	explore_check(sum >= before && sum <= amounts_begun());
}

EXPLORE_TEST(counter_add_rseq) = {
	.name = "counter-add",
	.about = "percpu_counter: additions that move to the count, none is lost",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = counter_rseq,
	.thread = counter_add_thread,
	.check = counter_check,
};

EXPLORE_TEST(counter_add_atomics) = {
	.name = "counter-add-atomic",
	.about = "the same by atomics",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = counter_atomic,
	.thread = counter_add_thread,
	.check = counter_check,
};

EXPLORE_TEST(counter_sum) = {
	.name = "counter-sum",
	.about = "percpu_counter: a sum that races with moves lies between ended and begun",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = counter_rseq,
	.thread = counter_sum_thread,
	.check = counter_check,
};

static void offline_thread(unsigned int cpu)
{
	if (!cpu)
		explore_check(!percpu_cpu_down(s.area, 1));
	else
		counter_add_thread(cpu);
}

/* In rseq mode nobody may run on a CPU that goes; with atomics it may be late. */
EXPLORE_TEST(counter_offline) = {
	.name = "counter-offline",
	.about = "percpu_counter: a CPU goes offline while additions on it are under way",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = counter_atomic,
	.thread = offline_thread,
	.check = counter_check,
};

/* --- percpu_counter_limited_add --- */

#define LIMIT 6

static void limited_setup(void)
{
	counter_setup(PERCPU_ATOMIC);
	percpu_counter_add_batch(&s.counter, LIMIT - BATCH * explore_cpus(), BATCH);
}

static void limited_thread(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++)
		if (__percpu_counter_limited_add(&s.counter, LIMIT, BATCH, BATCH))
			added[cpu] += BATCH;
}

static void limited_check(void)
{
	long sum = percpu_counter_sum(&s.counter);

	/* what was accepted is there */
	explore_equal(sum, LIMIT - BATCH * explore_cpus() + all_added());
	explore_check(sum <= LIMIT);
}

EXPLORE_TEST(limited_add_race) = {
	.name = "limited-add-race",
	.about = "percpu_counter_limited_add: the published race passes the limit; to be found",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = limited_setup,
	.thread = limited_thread,
	.check = limited_check,
	.finds = "the quick path reads the count once and adds to its CPU later",
};
