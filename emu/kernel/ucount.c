/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records, their look-up, updates of their counters, and recomputing one after a death. */
#include <errno.h>
#include <limits.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/shm.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#include "emu/kernel/ucount.h"
#include "emu/lib/rawsys.h"
#include "emu/lib/text.h"

#define RECOVERY_YIELDS 2000 /* how long a recovery waits for living updaters before it gives up */

static const struct ucounts_ops *const algs[NR_UCOUNTS_ALGS] = {
	[UCOUNTS_ATOMIC] = &ucounts_atomic,
	[UCOUNTS_PERCPU] = &ucounts_percpu,
	[UCOUNTS_CACHE] = &ucounts_cache,
	[UCOUNTS_STOCK] = &ucounts_stock,
	[UCOUNTS_PERCPU_RFC] = &ucounts_percpu_rfc,
	[UCOUNTS_CACHE_RFC] = &ucounts_cache_rfc,
};

const struct ucounts_ops *ucounts_ops_of(uint32_t alg)
{
	return algs[likely(alg < NR_UCOUNTS_ALGS) ? alg : UCOUNTS_ATOMIC];
}

int ucounts_alg_of(const char *name)
{
	for (int i = 0; i < NR_UCOUNTS_ALGS; i++)
		if (text_equal(algs[i]->name, name))
			return i;
	return -1;
}

static uint32_t hash(uint32_t ns, uint32_t uid)
{
	return (uid * 2654435761u + ns * 40503u) >> 7;
}

static uint32_t *hash_cell(uint32_t i)
{
	return table_slot(TABLE_UCOUNTS_HASH, i % WORLD_UCOUNTS_HASH);
}

/*
 * How many lines the record at @index has, one for each CPU or none: a world with many CPUs has
 * them for its first records only. Counters without are never split.
 */
static uint32_t cpu_lines(uint32_t index)
{
	uint64_t nr = world->nr_cpus;

	if (!ucounts_ops()->per_cpu || nr > SPLIT_SLOTS_MAX ||
	    (index + 1) * nr > WORLD_UCOUNTS_CPUS ||
	    table_reserve(TABLE_UCOUNTS_CPU, (index + 1) * nr))
		return 0;
	return nr;
}

static struct ucounts *new_record(uint32_t ns, uint32_t uid)
{
	struct ucounts *uc = table_alloc(TABLE_UCOUNTS, current ? task_ref(current) : 0);

	if (!uc)
		return NULL;
	uc->ns = ns;
	uc->uid = uid;
	uc->nr_cpus = cpu_lines(ucounts_index(uc));
	if (ucounts_ops()->init && ucounts_ops()->init(uc)) {
		table_free(TABLE_UCOUNTS, uc);
		return NULL;
	}
	smp_store_release(&uc->slot, slot_word(SLOT_LIVE, slot_gen(uc->slot), 0));
	return uc;
}

static void discard_record(struct ucounts *uc)
{
	if (ucounts_ops()->destroy)
		ucounts_ops()->destroy(uc);
	table_free(TABLE_UCOUNTS, uc);
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
			discard_record(mine);
		return uc;
	}
	return NULL;
}

bool ucounts_covers(const struct ucounts *uc, uint32_t record)
{
	struct ucounts *iter;

	if (record == ucounts_index(uc) + 1)
		return true;
	for_each_level(iter, ucounts_of(record))
		if (iter == uc)
			return true;
	return false;
}

/* Whatever is charged anywhere in a tree of namespaces is charged to the records at its top. */
static struct ucounts *top_level(uint32_t record)
{
	struct ucounts *iter, *top = NULL;

	for_each_level(iter, ucounts_of(record))
		top = iter;
	return top;
}

bool ucounts_related(uint32_t a, uint32_t b)
{
	return a == b || (a && b && top_level(a) == top_level(b));
}

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

static int recover_level(struct ucounts *uc, enum rlimit_type type);

/* A gate whose closer died is opened by finishing its work. */
static void wait_for_gates(struct ucounts *uc, enum rlimit_type type)
{
	struct ucounts *iter;

	for_each_level(iter, uc) {
		uint64_t closer = READ_ONCE(iter->gate[type]);

		if (closer && !task_owner_alive(closer))
			recover_level(iter, type);
	}
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

void fill_refusal(struct refusal *why, const struct ucounts *uc, uint32_t type, int level, long use,
		  long limit, long asked)
{
	if (!why)
		return;
	*why = (struct refusal){
		.type = type,
		.level = level,
		.ns = uc->ns,
		.uid = uc->uid,
		.use = use,
		.limit = limit,
		.asked = asked,
	};
}

static bool is_above(struct ucounts *uc, enum rlimit_type type, long max)
{
	long val;

	if (ucounts_ops()->above)
		return ucounts_ops()->above(uc, type, max);
	val = ucounts_ops()->read(uc, type);
	return val < 0 || val > max;
}

bool is_rlimit_overlimit(struct ucounts *uc, enum rlimit_type type, uint64_t rlimit, long asked,
			 struct refusal *why)
{
	long max = rlimit < LONG_MAX ? rlimit : LONG_MAX;
	struct ucounts *iter;
	int level = 0;

	for_each_level(iter, uc) {
		if (is_above(iter, type, max)) {
			fill_refusal(why, iter, type, level,
				     ucounts_ops()->read(iter, type) - asked, max, asked);
			return true;
		}
		max = max_above(iter, type);
		level++;
	}
	return false;
}

bool ucounts_charge(struct task_struct *t, struct ucounts *uc, enum rlimit_type type,
		    uint32_t *record, long v, uint64_t rlimit, bool keep, struct refusal *why)
{
	bool done;

	ucounts_begin(t, uc, type);
	WRITE_ONCE(*record, ucounts_index(uc) + 1);
	done = charge_rlimit_ucounts(uc, type, v, rlimit, keep, why);
	if (!done)
		WRITE_ONCE(*record, 0);
	ucounts_end(t);
	return done;
}

void ucounts_uncharge(struct task_struct *t, enum rlimit_type type, uint32_t *record, long v)
{
	struct ucounts *uc = ucounts_of(READ_ONCE(*record));

	if (!uc)
		return;
	ucounts_begin(t, uc, type);
	WRITE_ONCE(*record, 0);
	dec_rlimit_ucounts(uc, type, v);
	ucounts_end(t);
}

void ucounts_count_refusal(const struct refusal *why)
{
	struct ucounts *uc;

	if (!why->err || why->type >= UCOUNT_RLIMIT_COUNTS)
		return;
	uc = alloc_ucounts(why->ns, why->uid);
	if (uc)
		atomic64_inc(&uc->refused[why->type]);
}

/* The level that has no room for @n more; NULL: all have. */
static struct ucounts *full_level(struct ucounts *uc, enum ucount_type type, long n,
				  struct refusal *why)
{
	struct ucounts *iter;
	int level = 0;

	for_each_level(iter, uc) {
		long use = ucount_value(iter, type), max = ucount_max(iter->ns, type);

		if (use + n > max) {
			fill_refusal(why, iter, REFUSAL_UCOUNT(type), level, use, max, n);
			return iter;
		}
		level++;
	}
	return NULL;
}

struct ucounts *inc_ucount(uint32_t ns, uint32_t uid, enum ucount_type type, long n,
			   struct refusal *why)
{
	struct ucounts *uc = alloc_ucounts(ns, uid);

	if (!uc)
		return NULL;
	if (!full_level(uc, type, n, why) || (ns_reap() && !full_level(uc, type, n, why))) {
		why->err = 0;
		return uc;
	}
	why->err = ENOSPC;
	why->pid = current ? current->pid : 0;
	return NULL;
}

long ucounts_peak(struct ucounts *uc, enum rlimit_type type)
{
	ucounts_note_peak(uc, type, ucounts_ops()->read(uc, type));
	return atomic64_read(&uc->peak[type]);
}

long get_rlimit_value(struct ucounts *uc, enum rlimit_type type)
{
	long v = ucounts_ops()->read(uc, type);

	return v > 0 ? v : 0;
}

static long derive_nproc(const struct ucounts *uc)
{
	struct task_struct *t;
	long n = 0;

	for_each_task(i, t)
		n += ucounts_covers(uc, READ_ONCE(t->ucounts));
	return n;
}

static long derive_msgqueue(const struct ucounts *uc)
{
	struct mqueue_inode *q;
	long n = 0;

	for_each_mqueue(i, q)
		if (ucounts_covers(uc, READ_ONCE(q->ucounts)))
			n += READ_ONCE(q->bytes);
	return n;
}

long ucounts_derive(struct ucounts *uc, enum rlimit_type type)
{
	switch (type) {
	case UCOUNT_RLIMIT_NPROC:
		return derive_nproc(uc);
	case UCOUNT_RLIMIT_MSGQUEUE:
		return derive_msgqueue(uc);
	case UCOUNT_RLIMIT_SIGPENDING:
		return derive_sigpending(uc);
	case UCOUNT_RLIMIT_MEMLOCK:
		return derive_memlock(uc);
	default:
		return 0;
	}
}

/* An update of a record is one of all levels above it. */
static bool word_touches(uint64_t word, const struct ucounts *uc, enum rlimit_type type)
{
	return word && (word >> 32 & 0xff) == type && ucounts_covers(uc, (uint32_t)word + 1);
}

/* A task inside an update of the counter that can still finish it; the caller's own does not count. */
static bool living_updater(const struct ucounts *uc, enum rlimit_type type)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (t != current &&
		    (word_touches(READ_ONCE(t->updating), uc, type) ||
		     word_touches(READ_ONCE(t->moving), uc, type)) &&
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
	int64_t retreats;
	int yields = 0;

	do {
		for (smp_mb(); living_updater(uc, type); yields++) {
			if (yields == RECOVERY_YIELDS)
				return -EAGAIN;
			sys_call(__NR_sched_yield);
		}
		retreats = atomic64_read(&world->retreats);
		*objects = ucounts_derive(uc, type);
		smp_mb();
	} while (living_updater(uc, type) || atomic64_read(&world->retreats) != retreats);
	return 0;
}

static int recover_level(struct ucounts *uc, enum rlimit_type type)
{
	long objects;
	int err = gate_close(uc, type);

	if (err)
		return err;
	err = derive_undisturbed(uc, type, &objects);
	if (!err) {
		ucounts_ops()->set(uc, type, objects);
		atomic64_inc(&world->counts.recoveries);
	}
	gate_open(uc, type);
	return err;
}

/*
 * Level by level: what is right stays right, as those who come now change all levels alike. After a
 * failure half way the word still names them all.
 */
int ucounts_recover(uint64_t word)
{
	enum rlimit_type type = word >> 32 & 0xff;
	struct ucounts *iter;
	int err = 0;

	if (type >= UCOUNT_RLIMIT_COUNTS)
		return 0;
	for_each_level(iter, table_slot(TABLE_UCOUNTS, (uint32_t)word)) {
		err = recover_level(iter, type);
		if (err)
			break;
	}
	return err;
}

int ucounts_check(struct ucounts *uc, enum rlimit_type type, long *counter, long *objects)
{
	int err = gate_close(uc, type);

	if (err)
		return err;
	err = derive_undisturbed(uc, type, objects);
	*counter = ucounts_ops()->read(uc, type);
	gate_open(uc, type);
	return err;
}
