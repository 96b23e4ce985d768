/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records of the world: look-up, charges and releases, and the gate that recoveries close. */
#include <errno.h>

#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/sim/explore/explore.h"

#define NPROC UCOUNT_RLIMIT_NPROC

static struct {
	struct ucounts *uc;
	struct ucounts *found[EXPLORE_CPUS_MAX][4];
	long objects[EXPLORE_CPUS_MAX]; /* units that the CPU's task holds */
} s EXPLORE_STATE;

/* --- look-up --- */

static void lookup_thread(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++)
		s.found[cpu][i] = alloc_ucounts(0, 1000 + i % 2);
}

static unsigned int records_of(uint32_t uid)
{
	struct ucounts *uc;
	unsigned int n = 0;

	for_each_ucounts(i, uc)
		n += slot_state(uc->slot) == SLOT_LIVE && uc->uid == uid;
	return n;
}

static void lookup_check(void)
{
	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		for (unsigned int i = 0; i < explore_ops(); i++) {
			struct ucounts *uc = s.found[cpu][i];

			explore_check(uc && uc == s.found[0][i]);
			explore_equal(uc->uid, 1000 + i % 2);
			explore_equal(slot_state(uc->slot), SLOT_LIVE);
		}
	explore_equal(records_of(1000), 1);
}

EXPLORE_TEST(ucounts_lookup) = {
	.name = "ucounts-lookup",
	.about = "makers of the records of the same uids: there is never a second record",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = explore_world,
	.thread = lookup_thread,
	.check = lookup_check,
};

/* --- charges --- */

static void record_setup(void)
{
	explore_world();
	s.uc = alloc_ucounts(0, 1000);
}

/* A task takes its unit or gives it back, as copy_process() and release_task() do. */
static void charge(unsigned int cpu)
{
	struct task_struct *t = explore_task(cpu);

	ucounts_begin(t, s.uc, NPROC);
	WRITE_ONCE(t->ucounts, ucounts_index(s.uc) + 1);
	inc_rlimit_ucounts(s.uc, NPROC, 1);
	ucounts_end(t);
}

static void uncharge(unsigned int cpu)
{
	struct task_struct *t = explore_task(cpu);
	uint32_t record = ucounts_index(s.uc) + 1;

	ucounts_begin(t, s.uc, NPROC);
	if (cmpxchg(&t->ucounts, record, 0) == record)
		dec_rlimit_ucounts(s.uc, NPROC, 1);
	ucounts_end(t);
}

/* The same by the protocol without a fence, as a signal's charge does. */
static void charge_quickly(unsigned int cpu)
{
	struct task_struct *t = explore_task(cpu);
	uint32_t record = ucounts_index(s.uc) + 1;

	for (;;) {
		ucounts_enter(t, record, NPROC);
		xchg(&t->ucounts, record);
		if (ucounts_admitted(s.uc, NPROC))
			break;
		xchg(&t->ucounts, 0);
		ucounts_retreat(t, s.uc, NPROC);
	}
	inc_rlimit_ucounts(s.uc, NPROC, 1);
	ucounts_end(t);
}

static void counter_is_objects(void)
{
	long objects = ucounts_derive(s.uc, NPROC);
	struct task_struct *t;

	explore_equal(s.uc->rlimit[NPROC].counter, objects);
	explore_equal(s.uc->gate[NPROC], 0);
	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++) {
		t = explore_task(cpu);
		explore_check(explore_killed(cpu) || (!t->updating && !t->moving));
	}
}

static void charge_thread(unsigned int cpu)
{
	for (unsigned int i = 0; i < explore_ops(); i++)
		i % 2 ? uncharge(cpu) : charge(cpu);
}

EXPLORE_TEST(ucounts_charge) = {
	.name = "ucounts-charge",
	.about = "charges and releases of tasks of one record: counter equals objects",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = record_setup,
	.thread = charge_thread,
	.check = counter_is_objects,
};

/* --- the gate --- */

/* The last CPU recomputes the counter, or checks it, while the others change it. */
static void gate_thread(unsigned int cpu, void (*change)(unsigned int cpu), bool checks)
{
	uint64_t word = 1ull << 63 | (uint64_t)NPROC << 32 | ucounts_index(s.uc);
	long counter, objects;

	if (cpu != explore_cpus() - 1) {
		change(cpu);
		if (explore_ops() > 2)
			uncharge(cpu);
	} else if (!checks) {
		ucounts_recover(word);
	} else if (!ucounts_check(s.uc, NPROC, &counter, &objects)) {
		explore_equal(counter, objects);
	}
}

static void recover_thread(unsigned int cpu)
{
	gate_thread(cpu, charge, false);
}

static void recover_quick_thread(unsigned int cpu)
{
	gate_thread(cpu, charge_quickly, false);
}

static void check_thread(unsigned int cpu)
{
	gate_thread(cpu, charge, true);
}

static void check_quick_thread(unsigned int cpu)
{
	gate_thread(cpu, charge_quickly, true);
}

EXPLORE_TEST(ucounts_gate_recover) = {
	.name = "ucounts-gate-recover",
	.about = "ucounts_begin() and ucounts_end() against ucounts_recover()",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = record_setup,
	.thread = recover_thread,
	.check = counter_is_objects,
};

EXPLORE_TEST(ucounts_gate_recover_quick) = {
	.name = "ucounts-gate-recover-quick",
	.about = "ucounts_enter(), admitted and retreat against ucounts_recover()",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = record_setup,
	.thread = recover_quick_thread,
	.check = counter_is_objects,
};

EXPLORE_TEST(ucounts_gate_check) = {
	.name = "ucounts-gate-check",
	.about = "ucounts_begin() and ucounts_end() against ucounts_check(): both numbers agree",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = record_setup,
	.thread = check_thread,
	.check = counter_is_objects,
};

EXPLORE_TEST(ucounts_gate_check_quick) = {
	.name = "ucounts-gate-check-quick",
	.about = "ucounts_enter(), admitted and retreat against ucounts_check(): both agree",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = record_setup,
	.thread = check_quick_thread,
	.check = counter_is_objects,
};

/* Several recompute it at once while CPU 0 changes it: one closes the gate, the others are told so. */
static void closers_thread(unsigned int cpu)
{
	uint64_t word = 1ull << 63 | (uint64_t)NPROC << 32 | ucounts_index(s.uc);
	int err;

	if (!cpu) {
		charge(cpu);
		return;
	}
	for (unsigned int i = 0; i < explore_ops() / 2; i++) {
		err = ucounts_recover(word);
		explore_check(!err || err == -EAGAIN);
	}
}

EXPLORE_TEST(ucounts_gate_closers) = {
	.name = "ucounts-gate-closers",
	.about = "CPUs that recompute a counter at once, while it is changed",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = record_setup,
	.thread = closers_thread,
	.check = counter_is_objects,
};

/* --- deaths --- */

/* CPU 0 is killed at any step of a charge; CPU 1 goes on charging; then the dead are looked for. */
static void death_thread(unsigned int cpu)
{
	if (cpu == explore_cpus())
		explore_kill(0);
	else if (cpu == 1 && explore_ops() > 1)
		charge_thread(cpu);
	else
		charge(cpu);
}

static void death_check(void)
{
	reap_dead(-1);
	counter_is_objects();
	explore_equal(s.uc->rlimit[NPROC].counter, explore_task(1)->ucounts != 0);
	explore_equal(slot_state(explore_task(0)->slot), SLOT_FREE);
}

EXPLORE_TEST(ucounts_death) = {
	.name = "ucounts-death",
	.about = "a death at any step of a charge, then reap_dead(): counter equals objects",
	.cpus_min = 2,
	.cpus_max = 2,
	.setup = record_setup,
	.thread = death_thread,
	.check = death_check,
	.helpers = 1,
	.mortal = 1,
};

/* The same with the others looking for the dead at once. */
static void reap_thread(unsigned int cpu)
{
	if (cpu == explore_cpus())
		explore_kill(0);
	else if (!cpu)
		charge(cpu);
	else
		reap_dead(-1);
}

EXPLORE_TEST(ucounts_release) = {
	.name = "ucounts-release",
	.about = "CPUs that look for the dead at once, while one dies inside an update",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = record_setup,
	.thread = reap_thread,
	.check = death_check,
	.helpers = 1,
	.mortal = 1,
};

/* A death inside the quick protocol, which the other CPU finds behind the gate it has closed. */
static void reap_quick_thread(unsigned int cpu)
{
	if (cpu == explore_cpus())
		explore_kill(0);
	else if (!cpu)
		charge_quickly(cpu);
	else
		reap_dead(-1);
}

EXPLORE_TEST(ucounts_release_quick) = {
	.name = "ucounts-release-quick",
	.about = "the same with a death between ucounts_enter() and ucounts_end()",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = record_setup,
	.thread = reap_quick_thread,
	.check = death_check,
	.helpers = 1,
	.mortal = 1,
};

/* CPU 0 dies while it recomputes; who waits at the gate that it has closed takes it over. */
static void closer_dies_thread(unsigned int cpu)
{
	if (cpu == explore_cpus())
		explore_kill(0);
	else if (!cpu)
		ucounts_recover(1ull << 63 | (uint64_t)NPROC << 32 | ucounts_index(s.uc));
	else
		charge(cpu);
}

static void closer_dies_check(void)
{
	reap_dead(-1);
	if (s.uc->gate[NPROC]) /* nobody has needed the counter since */
		explore_equal(ucounts_recover(1ull << 63 | (uint64_t)NPROC << 32 |
					      ucounts_index(s.uc)),
			      0);
	counter_is_objects();
	explore_equal(s.uc->rlimit[NPROC].counter, explore_cpus() - 1);
}

EXPLORE_TEST(ucounts_closer_dies) = {
	.name = "ucounts-closer-dies",
	.about = "a death at any step of a recovery: who waits at its gate goes on",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = record_setup,
	.thread = closer_dies_thread,
	.check = closer_dies_check,
	.helpers = 1,
	.mortal = 1,
};
