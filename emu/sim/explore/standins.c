/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A world for the explorer, and what the sources that run in it call of those that do not. */
#include <stdlib.h>

#include <kpemu/mlock.h>
#include <kpemu/sched.h>
#include <kpemu/shm.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#include "emu/sim/explore/engine.h"

#define PID_FIRST 1000 /* of the task of CPU 0; vcpu.c */

__thread struct task_struct *current __attribute__((tls_model("initial-exec")));

static struct task_struct *tasks[EXPLORE_CPUS_MAX + 1];

static struct task_struct *make_task(int pid)
{
	struct task_struct *t = table_alloc(TABLE_TASK, 0);

	if (!t)
		explore_fail("no task");
	t->pid = t->tgid = pid;
	t->group_leader = task_ref(t);
	t->born_ns = UINT64_MAX;
	t->slot = slot_word(pid ? SLOT_LIVE : SLOT_OBSERVER, slot_gen(t->slot), 0);
	return t;
}

void explore_world(void)
{
	unsigned int slots = explore_cpus() + 4;
	uint64_t lines = 8 * EXPLORE_CPUS_MAX * WORLD_UCOUNTS_CPU_SIZE;
	uint64_t namespaces = WORLD_USER_NSS_NEAR * WORLD_USER_NS_SIZE;

	if (world_map_private())
		explore_fail("no world");
	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		tasks[cpu] = make_task(PID_FIRST + cpu);
	eng.main_task = current = make_task(0);
	memory_part(world, sizeof(*world));
	memory_part(world_at(WORLD_TASK_NEAR - slots * WORLD_TASK_SIZE), slots * WORLD_TASK_SIZE);
	memory_part(world_at(WORLD_UCOUNTS_NEAR - 8 * WORLD_UCOUNTS_SIZE), 8 * WORLD_UCOUNTS_SIZE);
	memory_part(world_at(WORLD_CPU_NEAR - lines), lines);
	memory_part(world_at(WORLD_USER_NS_NEAR - namespaces), namespaces);
	memory_part(world_at(WORLD_HASH_NEAR - 4ull * WORLD_UCOUNTS_HASH), 4 * WORLD_UCOUNTS_HASH);
}

void explore_world_percpu(void)
{
	struct percpu_area *area = table_slot(TABLE_PERCPU_PAGE, 0);

	memory_part(world_at(WORLD_PERCPU_FAR), 8 * WORLD_UCOUNTS_PERCPU_SIZE);
	for (unsigned int cpu = 0; cpu < area->nr_cpus; cpu++)
		memory_part((char *)area + area->runs + cpu * area->stride, 8 * PERCPU_LINE);
}

struct task_struct *explore_task(unsigned int cpu)
{
	return tasks[cpu];
}

uint32_t explore_user_ns(const struct ucounts *creator, long max)
{
	struct user_namespace *ns = table_alloc(TABLE_USER_NS, task_ref(current));

	if (!ns)
		explore_fail("no namespace");
	ns->parent = creator->ns;
	ns->level = user_ns_level(creator->ns) + 1;
	WRITE_ONCE(ns->ucounts, ucounts_index(creator) + 1);
	for (int type = 0; type < UCOUNT_RLIMIT_COUNTS; type++)
		ns->rlimit_max[type] = max;
	smp_store_release(&ns->slot, slot_word(SLOT_LIVE, slot_gen(ns->slot), 0));
	return table_index(TABLE_USER_NS, ns);
}

/* --- tasks here have no mm and no timers, and signals that tests count --- */

uint32_t explore_signal[EXPLORE_CPUS_MAX] EXPLORE_STATE;

long derive_sigpending(const struct ucounts *uc)
{
	long n = 0;

	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		n += ucounts_covers(uc, READ_ONCE(explore_signal[cpu]));
	return n;
}

long derive_memlock(const struct ucounts *uc)
{
	return (void)uc, 0;
}

void signal_flush(struct task_struct *t)
{
	(void)t;
}

void exit_itimers(struct task_struct *t)
{
	(void)t;
}

int reap_timers(int64_t record)
{
	return (void)record, 0;
}

void mm_free(struct mm_struct *mm)
{
	(void)mm;
}

struct task_struct *find_task_by_vpid(int pid)
{
	return pid >= PID_FIRST && pid < PID_FIRST + (int)explore_cpus() ? tasks[pid - PID_FIRST] :
									   NULL;
}
