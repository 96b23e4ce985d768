/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does the explorer itself see what it must? Small programs with known answers. */
#include <kpemu/atomic.h>

#include "emu/sim/explore/explore.h"

static struct {
	uint64_t x, y, seen[EXPLORE_CPUS_MAX];
} s EXPLORE_STATE;

static void store_buffer(unsigned int cpu)
{
	WRITE_ONCE(*(cpu ? &s.y : &s.x), 1);
	s.seen[cpu] = READ_ONCE(*(cpu ? &s.x : &s.y));
}

static void one_sees_the_other(void)
{
	explore_check(s.seen[0] || s.seen[1]);
}

EXPLORE_TEST(litmus_store_buffer) = {
	.name = "litmus-store-buffer",
	.about = "of two CPUs that store and then look, one sees the other: not under --tso",
	.cpus_min = 2,
	.cpus_max = 2,
	.thread = store_buffer,
	.check = one_sees_the_other,
};

static void store_buffer_mb(unsigned int cpu)
{
	WRITE_ONCE(*(cpu ? &s.y : &s.x), 1);
	smp_mb();
	s.seen[cpu] = READ_ONCE(*(cpu ? &s.x : &s.y));
}

EXPLORE_TEST(litmus_store_buffer_mb) = {
	.name = "litmus-store-buffer-mb",
	.about = "the same with barriers: one sees the other in either memory model",
	.cpus_min = 2,
	.cpus_max = 2,
	.thread = store_buffer_mb,
	.check = one_sees_the_other,
};

static void message(unsigned int cpu)
{
	if (!cpu) {
		WRITE_ONCE(s.x, 1);
		smp_store_release(&s.y, 1);
	} else {
		s.seen[0] = smp_load_acquire(&s.y);
		s.seen[1] = READ_ONCE(s.x);
	}
}

static void message_is_whole(void)
{
	explore_check(!s.seen[0] || s.seen[1]);
}

EXPLORE_TEST(litmus_message) = {
	.name = "litmus-message",
	.about = "who sees the flag sees what was stored before it",
	.cpus_min = 2,
	.cpus_max = 2,
	.thread = message,
	.check = message_is_whole,
};

/* CPU 0 tells the others in turn; each waits for the one before it. */
static void relay(unsigned int cpu)
{
	while (READ_ONCE(s.x) != cpu)
		cpu_relax();
	WRITE_ONCE(s.x, cpu + 1);
}

static void relay_arrived(void)
{
	explore_equal(s.x, explore_cpus());
}

EXPLORE_TEST(litmus_relay) = {
	.name = "litmus-relay",
	.about = "CPUs that wait for each other in a spin loop all end",
	.cpus_min = 2,
	.cpus_max = 4,
	.thread = relay,
	.check = relay_arrived,
};

static void lost_update(unsigned int cpu)
{
	(void)cpu;
	for (unsigned int i = 0; i < explore_ops(); i++)
		WRITE_ONCE(s.x, READ_ONCE(s.x) + 1);
}

static void nothing_lost(void)
{
	explore_equal(s.x, explore_cpus() * explore_ops());
}

EXPLORE_TEST(litmus_lost_update) = {
	.name = "litmus-lost-update",
	.about = "plain additions to one word by several CPUs; to be found",
	.cpus_min = 2,
	.cpus_max = 4,
	.thread = lost_update,
	.check = nothing_lost,
	.finds = "an addition in two steps loses updates",
};

/* No invariant: for the comparison of searches by what they can end in. */
static void mix(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++) {
		uint64_t v = READ_ONCE(s.x);

		WRITE_ONCE(s.y, v * 3 + cpu + 1);
		if (READ_ONCE(s.y) & 1)
			fetch_add(&s.x, 1 + cpu);
	}
	s.seen[cpu] = READ_ONCE(s.x);
}

EXPLORE_TEST(litmus_mix) = {
	.name = "litmus-mix",
	.about = "reads, stores and atomics on two words: all searches must see the same ends",
	.cpus_min = 2,
	.cpus_max = 3,
	.thread = mix,
};

/* Waits that one of several stores ends. */
static void wait_mix(unsigned int cpu)
{
	if (cpu == 1) {
		while (!(READ_ONCE(s.x) | READ_ONCE(s.y)))
			cpu_relax();
		s.seen[0] = READ_ONCE(s.x);
		s.seen[1] = READ_ONCE(s.y);
	} else {
		WRITE_ONCE(*(cpu ? &s.y : &s.x), 1);
		if (!cpu)
			WRITE_ONCE(s.x, 2);
	}
}

EXPLORE_TEST(litmus_wait) = {
	.name = "litmus-wait",
	.about = "a wait that one of several stores ends: all searches must see the same ends",
	.cpus_min = 2,
	.cpus_max = 3,
	.thread = wait_mix,
};
