/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records, their look-up, the charge walk, and recomputing a counter after a death. */
#include <errno.h>
#include <limits.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"

#define RECOVERY_YIELDS 2000 /* how long a recovery waits for living updaters before it gives up */

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

static uint64_t record_word(uint32_t index, enum rlimit_type type)
{
	return 1ull << 63 | (uint64_t)type << 32 | index;
}

static uint64_t update_word(const struct ucounts *uc, enum rlimit_type type)
{
	return record_word(ucounts_index(uc), type);
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

void ucounts_enter(struct task_struct *t, uint32_t record, enum rlimit_type type)
{
	WRITE_ONCE(t->updating, record_word(record - 1, type));
}

bool ucounts_admitted(struct ucounts *uc, enum rlimit_type type)
{
	return gates_open(uc, type);
}

void ucounts_retreat(struct task_struct *t, struct ucounts *uc, enum rlimit_type type)
{
	atomic64_inc(&world->retreats);
	ucounts_end(t);
	wait_for_gates(uc, type);
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

/* Close the gate of a counter. 0 or -EAGAIN. */
static int gate_close(struct ucounts *uc, enum rlimit_type type)
{
	uint64_t old = READ_ONCE(uc->gate[type]), me = task_ref(current);

	if (old && old != me && task_owner_alive(old))
		return -EAGAIN;
	return cmpxchg(&uc->gate[type], old, me) == old ? 0 : -EAGAIN;
}

static void gate_open(struct ucounts *uc, enum rlimit_type type)
{
	smp_store_release(&uc->gate[type], 0);
}

/*
 * Behind a closed gate: what the objects say while nobody alive is inside an update. Whoever comes
 * now may still change an object before it sees the gate, and change it back: then once more.
 * 0 or -EAGAIN.
 */
static int derive_undisturbed(struct ucounts *uc, enum rlimit_type type, long *objects)
{
	uint64_t word = update_word(uc, type);
	int64_t retreats;
	int yields = 0;

	do {
		for (smp_mb(); living_updater(word); yields++) {
			if (yields == RECOVERY_YIELDS)
				return -EAGAIN;
			sys_call(__NR_sched_yield);
		}
		retreats = atomic64_read(&world->retreats);
		*objects = ucounts_derive(uc, type);
		smp_mb();
	} while (living_updater(word) || atomic64_read(&world->retreats) != retreats);
	return 0;
}

int ucounts_recover(uint64_t word)
{
	enum rlimit_type type = word >> 32 & 0xff;
	struct ucounts *uc = table_slot(TABLE_UCOUNTS, (uint32_t)word);
	long objects;
	int err;

	if (!uc || type >= UCOUNT_RLIMIT_COUNTS)
		return 0;
	err = gate_close(uc, type);
	if (err)
		return err;
	err = derive_undisturbed(uc, type, &objects);
	if (!err) {
		atomic64_set(&uc->rlimit[type], objects);
		atomic64_inc(&world->counts.recoveries);
	}
	gate_open(uc, type);
	return err;
}

int ucounts_check(struct ucounts *uc, enum rlimit_type type, long *counter, long *objects)
{
	int err = gate_close(uc, type);

	if (err)
		return err;
	err = derive_undisturbed(uc, type, objects);
	*counter = atomic64_read(&uc->rlimit[type]);
	gate_open(uc, type);
	return err;
}
