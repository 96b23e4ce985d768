/* SPDX-License-Identifier: GPL-2.0-or-later */
/* POSIX timers: each holds a unit of its maker's pending signals, from creation to deletion. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>

#include <kpemu/sched.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"

/* The record of @t's real uid, which holds its process unit too. */
static struct ucounts *task_ucounts(const struct task_struct *t)
{
	struct ucounts *uc = ucounts_of(READ_ONCE(t->ucounts));

	return uc ? uc : alloc_ucounts(t->cred.user_ns, t->cred.uid);
}

static void uncharge(struct task_struct *me, struct k_itimer *tmr)
{
	ucounts_uncharge(me, UCOUNT_RLIMIT_SIGPENDING, &tmr->ucounts, 1);
}

/*
 * Become the releaser of a slot that was found as @w. What is being made or released belongs to
 * whoever does that, unless he is dead.
 */
static bool claim(struct task_struct *me, struct k_itimer *tmr, uint64_t w)
{
	bool busy = slot_state(w) != SLOT_LIVE && slot_owner(w) != task_ref(me) &&
		    task_owner_alive(slot_owner(w));

	return slot_state(w) != SLOT_FREE && !busy &&
	       cmpxchg(&tmr->slot, w, slot_word(SLOT_RELEASING, slot_gen(w), task_ref(me))) == w;
}

/* Free slots are charged to nobody: the sums over the table count on that. */
static bool release(struct task_struct *me, struct k_itimer *tmr, uint64_t w)
{
	if (!claim(me, tmr, w))
		return false;
	uncharge(me, tmr);
	table_free(TABLE_TIMER, tmr);
	return true;
}

static struct k_itimer *alloc_timer(int signo, int tid)
{
	struct task_struct *leader = task_leader(current);
	struct k_itimer *tmr = table_alloc(TABLE_TIMER, task_ref(current));

	if (!tmr && reap_timers(-1))
		tmr = table_alloc(TABLE_TIMER, task_ref(current));
	if (!tmr)
		return NULL;
	fetch_add(&leader->nr_timers, 1);
	WRITE_ONCE(tmr->owner, task_ref(leader));
	WRITE_ONCE(tmr->signo, signo);
	WRITE_ONCE(tmr->tid, tid);
	return tmr;
}

static int charge(struct k_itimer *tmr, struct ucounts *uc, struct refusal *why)
{
	uint64_t limit = rlimit(current, UCOUNT_RLIMIT_SIGPENDING);

	if (ucounts_charge(current, uc, UCOUNT_RLIMIT_SIGPENDING, &tmr->ucounts, 1, limit, false,
			   why))
		return 0;
	return -EAGAIN;
}

static int charge_or_reap(struct k_itimer *tmr, struct refusal *why)
{
	struct ucounts *uc = task_ucounts(current);
	int err;

	if (!uc)
		return -EAGAIN;
	err = charge(tmr, uc, why);
	if (!err)
		return 0;
	signal_reconcile_record(uc);
	reap_dead(ucounts_index(uc));
	err = charge(tmr, uc, why);
	if (!err)
		return 0;
	why->err = -err;
	why->pid = current->pid;
	ucounts_count_refusal(why);
	return err;
}

struct k_itimer *posix_timer_charge(int signo, int tid, int *err, struct refusal *why)
{
	struct k_itimer *tmr = alloc_timer(signo, tid);

	*err = -EAGAIN;
	why->err = 0;
	if (!tmr)
		return NULL;
	*err = charge_or_reap(tmr, why);
	if (!*err)
		return tmr;
	posix_timer_free(tmr);
	return NULL;
}

void posix_timer_made(struct k_itimer *tmr, uint64_t id)
{
	WRITE_ONCE(tmr->id, id);
	smp_store_release(&tmr->slot, slot_word(SLOT_LIVE, slot_gen(READ_ONCE(tmr->slot)), 0));
}

/*
 * The number of timers is corrected last, and by the process itself: a death before it leaves the
 * number too high, which only costs a look.
 */
void posix_timer_free(struct k_itimer *tmr)
{
	struct task_struct *leader = task_leader(current);
	bool ours = READ_ONCE(tmr->owner) == task_ref(leader);

	if (release(current, tmr, READ_ONCE(tmr->slot)) && ours)
		fetch_add(&leader->nr_timers, -1u);
}

/* What the kernel has in the queue; everything when it cannot be asked. */
static uint64_t kernel_queue(int tid)
{
	struct kernel_sets sets;
	char path[40];

	snprintf(path, sizeof(path), tid ? "/proc/self/task/%d/status" : "/proc/thread-self/status",
		 tid);
	if (read_kernel_sets(path, &sets))
		return ~0ull;
	return sets.pending[tid ? PENDING_PRIVATE : PENDING_SHARED];
}

/*
 * Does @sig wait for the process, or for its thread @tid? Callers have all signals blocked, so the
 * short question answers most cases: it knows the shared queue and the caller's own.
 */
static bool is_waiting(int sig, int tid)
{
	uint64_t set = 0;

	if ((!tid || tid == sys_call(__NR_gettid)) &&
	    !sys_call(__NR_rt_sigpending, &set, sizeof(set)) && !(set & sig_bit(sig)))
		return false;
	return kernel_queue(tid) & sig_bit(sig);
}

/* The charge goes over to the signal, which leaves without being seen by the program. */
static void leave_to_signal(struct k_itimer *tmr, uint64_t w, struct task_struct *t,
			    enum sig_queue q, int sig)
{
	uint32_t idx = READ_ONCE(tmr->ucounts);
	struct ucounts *uc = ucounts_of(idx);

	if (!uc || !claim(current, tmr, w))
		return;
	ucounts_begin(current, uc, UCOUNT_RLIMIT_SIGPENDING);
	WRITE_ONCE(tmr->ucounts, 0);
	signal_adopt_entry(t, q, sig, idx);
	ucounts_end(current);
}

void posix_timer_deleted(struct k_itimer *tmr)
{
	int sig = READ_ONCE(tmr->signo), tid = READ_ONCE(tmr->tid);
	enum sig_queue q = tid ? PENDING_PRIVATE : PENDING_SHARED;
	struct task_struct *t;

	if (sig > 0 && sig <= KPEMU_NSIG && is_waiting(sig, tid)) {
		t = tid ? find_task_by_vpid(tid) : task_leader(current);
		if (t && !signal_is_known(t, q, sig))
			leave_to_signal(tmr, READ_ONCE(tmr->slot), t, q, sig);
	}
	posix_timer_free(tmr);
}

static bool is_timer_of(const struct k_itimer *tmr, uint32_t leader)
{
	return slot_state(READ_ONCE(tmr->slot)) == SLOT_LIVE && READ_ONCE(tmr->owner) == leader;
}

struct k_itimer *posix_timer_find(const struct task_struct *leader, uint64_t id)
{
	uint32_t ref = task_ref(leader);
	struct k_itimer *tmr;

	if (!READ_ONCE(leader->nr_timers))
		return NULL;
	for_each_timer(i, tmr)
		if (is_timer_of(tmr, ref) && READ_ONCE(tmr->id) == id)
			return tmr;
	return NULL;
}

bool posix_timer_sends(const struct task_struct *leader, int sig)
{
	uint32_t ref = task_ref(leader);
	struct k_itimer *tmr;

	if (!READ_ONCE(leader->nr_timers))
		return false;
	for_each_timer(i, tmr)
		if (is_timer_of(tmr, ref) && READ_ONCE(tmr->signo) == sig)
			return true;
	return false;
}

/* Timers that a killed thread of the process was making are among them. */
void exit_itimers(struct task_struct *leader)
{
	struct task_struct *me = current ? current : leader;
	uint32_t ref = task_ref(leader);
	struct k_itimer *tmr;

	if (!READ_ONCE(leader->nr_timers))
		return;
	for_each_timer(i, tmr) {
		uint64_t w = READ_ONCE(tmr->slot);

		if (READ_ONCE(tmr->owner) == ref)
			release(me, tmr, w);
	}
	WRITE_ONCE(leader->nr_timers, 0);
}

/* Has the process no thread left that will take a step? A zombie holds no timers. */
static bool process_dead(uint32_t ref)
{
	struct task_struct *leader = task_get(ref), *t;

	if (!leader)
		return true;
	if (!task_dead(leader))
		return false;
	for_each_task(i, t)
		if (t != leader && READ_ONCE(t->group_leader) == ref &&
		    slot_state(READ_ONCE(t->slot)) == SLOT_LIVE && !task_dead(t))
			return false;
	return true;
}

/* Neighbours are of one process as a rule, and the kernel need not be asked for each. */
struct asked {
	uint32_t ref;
	bool dead;
};

static bool is_left_behind(const struct k_itimer *tmr, uint64_t w, struct asked *last)
{
	uint32_t ref = READ_ONCE(tmr->owner);

	switch (slot_state(w)) {
	case SLOT_NEW:
	case SLOT_RELEASING:
		return !task_owner_alive(slot_owner(w));
	case SLOT_LIVE:
		if (last->ref != ref)
			*last = (struct asked){ ref, process_dead(ref) };
		return last->dead;
	}
	return false;
}

/* A signal that waits for a zombie waits until it is reaped, and holds what its timer held. */
static void leave_to_zombie(struct k_itimer *tmr, uint64_t w)
{
	struct task_struct *leader = task_get(READ_ONCE(tmr->owner));
	int sig = READ_ONCE(tmr->signo), tid = READ_ONCE(tmr->tid);
	enum sig_queue q = tid ? PENDING_PRIVATE : PENDING_SHARED;
	struct kernel_sets sets;
	char path[40];

	if (!leader || sig < 1 || sig > KPEMU_NSIG || task_gone(leader) ||
	    (tid && tid != READ_ONCE(leader->pid)))
		return;
	snprintf(path, sizeof(path), "/proc/%d/status", READ_ONCE(leader->pid));
	if (!read_kernel_sets(path, &sets) && sets.pending[q] & sig_bit(sig) &&
	    !signal_is_known(leader, q, sig))
		leave_to_signal(tmr, w, leader, q, sig);
}

int reap_timers(int64_t record)
{
	struct asked last = { 0, true };
	struct k_itimer *tmr;
	int n = 0;

	if (!current)
		return 0; /* nobody who could own what changes */
	for_each_timer(i, tmr) {
		uint64_t w = READ_ONCE(tmr->slot);
		bool concerns = record < 0 || ucounts_related(READ_ONCE(tmr->ucounts), record + 1);

		if (!concerns || !is_left_behind(tmr, w, &last))
			continue;
		if (slot_state(w) == SLOT_LIVE)
			leave_to_zombie(tmr, w);
		if (slot_gen(READ_ONCE(tmr->slot)) == slot_gen(w))
			n += release(current, tmr, READ_ONCE(tmr->slot));
	}
	return n;
}
