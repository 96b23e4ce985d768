/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records, their look-up, the charge walk, and recomputing a counter after a death. */
#include <errno.h>
#include <limits.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"

#define RECOVERY_YIELDS 2000 /* how long a recovery waits for a living updater before it gives up */

static uint32_t hash(uint32_t ns, uint32_t uid)
{
	return (uid * 2654435761u + ns * 40503u) >> 7;
}

static uint32_t *hash_cell(uint32_t i)
{
	return table_slot(TABLE_UCOUNTS_HASH, i % WORLD_UCOUNTS_HASH);
}

static struct ucounts *new_record(uint32_t ns, uint32_t uid)
{
	struct ucounts *uc = table_alloc(TABLE_UCOUNTS, current ? task_ref(current) : 0);

	if (!uc)
		return NULL;
	uc->ns = ns;
	uc->uid = uid;
	smp_store_release(&uc->slot, slot_word(SLOT_LIVE, slot_gen(uc->slot), 0));
	return uc;
}

/*
 * Open addressing without removal: the first empty cell of a probe sequence ends every search, and
 * it is filled by compare-and-swap, so two makers of one key agree on the winner's record.
 */
struct ucounts *alloc_ucounts(uint32_t ns, uint32_t uid)
{
	struct ucounts *mine = NULL, *uc;

	for (uint32_t i = hash(ns, uid), n = 0; n < WORLD_UCOUNTS_HASH; i++, n++) {
		uint32_t *cell = hash_cell(i), v = smp_load_acquire(cell);

		if (!v) {
			if (!mine && !(mine = new_record(ns, uid)))
				return NULL;
			v = cmpxchg(cell, 0, ucounts_index(mine) + 1);
			if (!v)
				return mine;
		}
		uc = table_slot(TABLE_UCOUNTS, v - 1);
		if (!uc || uc->ns != ns || uc->uid != uid)
			continue;
		if (mine)
			table_free(TABLE_UCOUNTS, mine);
		return uc;
	}
	return NULL;
}

/* The record one level up: whose owner made @uc's namespace. The initial namespace has none. */
static struct ucounts *ucounts_parent(const struct ucounts *uc)
{
	(void)uc;
	return NULL; /* every record is in the initial namespace */
}

#define for_each_level(iter, uc) for ((iter) = (uc); (iter); (iter) = ucounts_parent(iter))

static uint64_t update_word(const struct ucounts *uc, enum rlimit_type type)
{
	return 1ull << 63 | (uint64_t)type << 32 | ucounts_index(uc);
}

static bool gates_open(struct ucounts *uc, enum rlimit_type type)
{
	struct ucounts *iter;

	for_each_level(iter, uc)
		if (READ_ONCE(iter->gate[type]))
			return false;
	return true;
}

/* A gate whose closer died is opened by finishing its work. */
static void wait_for_gates(struct ucounts *uc, enum rlimit_type type)
{
	uint64_t closer = READ_ONCE(uc->gate[type]);

	if (closer && !task_owner_alive(closer))
		ucounts_recover(update_word(uc, type));
	sys_call(__NR_sched_yield);
}

void ucounts_begin(struct task_struct *t, struct ucounts *uc, enum rlimit_type type)
{
	for (;;) {
		WRITE_ONCE(t->updating, update_word(uc, type));
		smp_mb(); /* pairs with the one in gate_close(): we see the gate or it sees us */
		if (gates_open(uc, type))
			return;
		ucounts_end(t);
		wait_for_gates(uc, type);
	}
}

void ucounts_begin_move(struct task_struct *t, struct ucounts *from, struct ucounts *to,
			enum rlimit_type type)
{
	for (;;) {
		WRITE_ONCE(t->moving, update_word(from, type));
		WRITE_ONCE(t->updating, update_word(to, type));
		smp_mb();
		if (gates_open(from, type) && gates_open(to, type))
			return;
		ucounts_end(t);
		wait_for_gates(from, type);
		wait_for_gates(to, type);
	}
}

void ucounts_end(struct task_struct *t)
{
	if (READ_ONCE(t->moving))
		smp_store_release(&t->moving, 0);
	smp_store_release(&t->updating, 0);
}

long inc_rlimit_ucounts(struct ucounts *uc, enum rlimit_type type, long v)
{
	struct ucounts *iter;
	long ret = 0;

	for_each_level(iter, uc) {
		long new = atomic64_add_return(v, &iter->rlimit[type]);

		if (new < 0)
			ret = LONG_MAX;
		else if (iter == uc && ret != LONG_MAX)
			ret = new;
	}
	return ret;
}

bool dec_rlimit_ucounts(struct ucounts *uc, enum rlimit_type type, long v)
{
	struct ucounts *iter;
	long leaf = 0;

	for_each_level(iter, uc) {
		long new = atomic64_sub_return(v, &iter->rlimit[type]);

		if (iter == uc)
			leaf = new;
	}
	return leaf == 0;
}

bool is_rlimit_overlimit(struct ucounts *uc, enum rlimit_type type, uint64_t rlimit, long asked,
			 struct refusal *why)
{
	uint64_t max = rlimit < LONG_MAX ? rlimit : LONG_MAX;
	long val = atomic64_read(&uc->rlimit[type]);

	if (val >= 0 && (uint64_t)val <= max)
		return false;
	if (!why)
		return true;
	*why = (struct refusal){
		.type = type,
		.level = 0,
		.ns = uc->ns,
		.uid = uc->uid,
		.use = val - asked,
		.limit = max,
		.asked = asked,
	};
	return true;
}

void ucounts_note_peak(struct ucounts *uc, enum rlimit_type type)
{
	struct ucounts *iter;

	for_each_level(iter, uc)
		atomic64_max(&iter->peak[type], atomic64_read(&iter->rlimit[type]));
}

long get_rlimit_value(struct ucounts *uc, enum rlimit_type type)
{
	long v = atomic64_read(&uc->rlimit[type]);

	return v > 0 ? v : 0;
}

static long derive_nproc(uint32_t record)
{
	struct task_struct *t;
	long n = 0;

	for_each_task(i, t)
		n += READ_ONCE(t->ucounts) == record;
	return n;
}

static long derive_msgqueue(uint32_t record)
{
	struct mqueue_inode *q;
	long n = 0;

	for_each_mqueue(i, q)
		if (READ_ONCE(q->ucounts) == record)
			n += READ_ONCE(q->bytes);
	return n;
}

long ucounts_derive(struct ucounts *uc, enum rlimit_type type)
{
	switch (type) {
	case UCOUNT_RLIMIT_NPROC:
		return derive_nproc(ucounts_index(uc) + 1);
	case UCOUNT_RLIMIT_MSGQUEUE:
		return derive_msgqueue(ucounts_index(uc) + 1);
	case UCOUNT_RLIMIT_SIGPENDING:
		return derive_sigpending(ucounts_index(uc) + 1);
	default:
		return 0; /* no object charges these yet */
	}
}

/* A task inside an update of @word that can still finish it; the caller's own does not count. */
static bool living_updater(uint64_t word)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (t != current && (READ_ONCE(t->updating) == word || READ_ONCE(t->moving) == word) &&
		    !task_dead(t))
			return true;
	return false;
}

/* Close the gate of a counter and wait until nobody alive is inside. 0 or -EAGAIN (gate open). */
static int gate_close(struct ucounts *uc, enum rlimit_type type)
{
	uint64_t old = READ_ONCE(uc->gate[type]), me = task_ref(current);

	if (old && old != me && task_owner_alive(old))
		return -EAGAIN;
	if (cmpxchg(&uc->gate[type], old, me) != old)
		return -EAGAIN;
	smp_mb();
	for (int n = 0; living_updater(update_word(uc, type)); n++) {
		if (n == RECOVERY_YIELDS) {
			smp_store_release(&uc->gate[type], 0);
			return -EAGAIN;
		}
		sys_call(__NR_sched_yield);
	}
	return 0;
}

int ucounts_recover(uint64_t word)
{
	enum rlimit_type type = word >> 32 & 0xff;
	struct ucounts *uc = table_slot(TABLE_UCOUNTS, (uint32_t)word);

	if (!uc || type >= UCOUNT_RLIMIT_COUNTS)
		return 0;
	if (gate_close(uc, type))
		return -EAGAIN;
	atomic64_set(&uc->rlimit[type], ucounts_derive(uc, type));
	atomic64_inc(&world->counts.recoveries);
	smp_store_release(&uc->gate[type], 0);
	return 0;
}

int ucounts_check(struct ucounts *uc, enum rlimit_type type, long *counter, long *objects)
{
	if (gate_close(uc, type))
		return -EAGAIN;
	*counter = atomic64_read(&uc->rlimit[type]);
	*objects = ucounts_derive(uc, type);
	smp_store_release(&uc->gate[type], 0);
	return 0;
}
