/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pending signals: sending, leaving, and agreeing with the kernel about what waits. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/capability.h>
#include <linux/membarrier.h>

#include <kpemu/signal.h>

#include "emu/lib/rawsys.h"

#define SIGPENDING UCOUNT_RLIMIT_SIGPENDING
/* How long anybody waits for a sender that may be stopped, and for one that runs. */
#define PATIENCE_NS      200000000ull
#define LONG_PATIENCE_NS 10000000000ull
#define WORD_COUNT       0xffffffull
#define WORD_LOST        (1ull << 40)
#define WORD_FOUND       (1ull << 41)
#define WORD_OLDER       (1ull << 42)
#define WORD_FLAGS       (WORD_LOST | WORD_FOUND | WORD_OLDER)
#define WORD_EPOCH       (0x1full << 43)
#define WORD_CHANGES     48

static uint32_t word_count(uint64_t w)
{
	return w & WORD_COUNT;
}

static uint32_t word_record(uint64_t w)
{
	return w >> 24 & 0xffff;
}

/* What follows @w: @n entries of @record and these flags. */
static uint64_t word_next(uint64_t w, uint32_t n, uint32_t record, uint64_t flags)
{
	uint64_t changes = (w >> WORD_CHANGES) + 1;

	return changes << WORD_CHANGES | (w & WORD_EPOCH) | flags |
	       (n ? (uint64_t)record << 24 | n : 0);
}

static unsigned int word_epoch(uint64_t w)
{
	return w >> 43 & 0x1f;
}

/* Empty: entries that were taken out of the kernel's queue before, and come to us later, are gone. */
static uint64_t word_flushed(uint64_t w)
{
	uint64_t epoch = (uint64_t)((word_epoch(w) + 1) & 0x1f) << 43;

	return (word_next(w, 0, 0, 0) & ~WORD_EPOCH) | epoch;
}

/*
 * The mark that a real-time signal carries in si_errno, which the kernel passes on: whose it is,
 * what the program must see instead, and the queue and epoch of its entry.
 *
 *   bits 16-31  MARK_MAGIC
 *   bits 8-9    enum mark_kind
 *   bit 5       the queue
 *   bits 0-4    the epoch of its word when it was sent
 */
#define MARK_MAGIC 0x6b70
enum mark_kind {
	MARK_OWN, /* si_code is the program's own */
	MARK_KILL, /* SI_USER */
	MARK_TKILL, /* SI_TKILL */
	MARK_LOST, /* nothing but the fact of the signal */
};

static int make_mark(enum mark_kind kind, enum sig_queue q, unsigned int epoch)
{
	return MARK_MAGIC << 16 | kind << 8 | q << 5 | epoch;
}

static bool is_marked(const siginfo_t *info)
{
	return (unsigned int)info->si_errno >> 16 == MARK_MAGIC;
}

static int read_sets(const struct task_struct *t, struct kernel_sets *sets);

static uint64_t older_key(enum sig_queue q, int sig)
{
	return (uint64_t)q << 47 | (uint64_t)sig << 40;
}

#define OLDER_KEY (0xffull << 40)

static inline struct sigpending_slot *pending_of(const struct task_struct *t)
{
	return table_slot(TABLE_SIGPENDING, table_index(TABLE_TASK, t));
}

static inline uint64_t *pending_word(const struct task_struct *t, enum sig_queue q, int sig)
{
	return &pending_of(t)->pending[q][sig - 1];
}

static void mark_used(struct task_struct *t, enum sig_queue q, int sig)
{
	if (!(READ_ONCE(t->sig_used[q]) & sig_bit(sig)))
		fetch_or(&t->sig_used[q], sig_bit(sig));
}

/* --- senders, and who must not be disturbed by them --- */

static void announce(uint32_t group)
{
	WRITE_ONCE(current->sending, group);
}

static void unannounce(void)
{
	WRITE_ONCE(current->sending, 0);
}

static bool is_running(const struct task_struct *t)
{
	struct kernel_sets sets;

	return !read_sets(t, &sets) && sets.running;
}

/* Waiting for @t, since the time @since, makes no sense any more: it is stopped, or stuck. */
static bool in_vain(const struct task_struct *t, uint64_t since)
{
	uint64_t waited = boottime_ns() - since;

	return waited > PATIENCE_NS && (waited > LONG_PATIENCE_NS || !is_running(t));
}

/* @since: leave out those who are waited for in vain; 0: nobody. */
static bool somebody_sends_to(uint32_t group, uint64_t since)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (t != current && READ_ONCE(t->sending) == group &&
		    slot_state(READ_ONCE(t->slot)) == SLOT_LIVE && !task_dead(t) &&
		    (!since || !in_vain(t, since)))
			return true;
	return false;
}

static bool holds_in_vain(uint32_t holder, uint64_t since)
{
	struct task_struct *t = task_get(holder);

	return !t || !task_owner_alive(holder) || in_vain(t, since);
}

/*
 * From here on nobody sends a signal to the process. A sender announces itself and then looks at
 * the gate, so one of the two sees the other.
 */
static void gate_close(struct task_struct *leader)
{
	uint32_t me = task_ref(current), group = task_ref(leader), holder = 0;
	uint64_t since = boottime_ns();

	while (!try_cmpxchg(&leader->sig_gate, &holder, me)) {
		if (holds_in_vain(holder, since)) {
			cmpxchg(&leader->sig_gate, holder, 0);
			since = boottime_ns();
		}
		sys_call(__NR_sched_yield);
		holder = 0;
	}
	smp_mb();
	since = boottime_ns();
	while (somebody_sends_to(group, since))
		sys_call(__NR_sched_yield);
}

static void gate_open(struct task_struct *leader)
{
	smp_store_release(&leader->sig_gate, 0);
}

/* After a full barrier. */
static bool gate_is_closed(struct task_struct *leader)
{
	uint32_t holder = smp_load_acquire(&leader->sig_gate);

	return holder && holder != task_ref(current);
}

__attribute__((cold)) static void wait_for_gate(struct task_struct *leader)
{
	uint32_t holder = READ_ONCE(leader->sig_gate);

	if (holder && !task_owner_alive(holder))
		cmpxchg(&leader->sig_gate, holder, 0);
	sys_call(__NR_sched_yield);
}

/* --- entries --- */

/*
 * The entries of a word keep the record that they were charged to, though the task has another one
 * now. False: no room; the next entry is then charged with them. Inside an update of their record.
 */
static bool set_aside(struct task_struct *t, enum sig_queue q, int sig, uint64_t w)
{
	struct sigpending_slot *s = pending_of(t);
	uint64_t entry = older_key(q, sig) | (uint64_t)word_record(w) << 24 | word_count(w);

	for (int i = 0; i < PENDING_OLDER; i++) {
		if (READ_ONCE(s->older[i]) || cmpxchg(&s->older[i], 0, entry))
			continue;
		if (cmpxchg(&s->pending[q][sig - 1], w,
			    word_next(w, 0, 0, (w & WORD_FLAGS) | WORD_OLDER)) != w)
			WRITE_ONCE(s->older[i], 0);
		return true;
	}
	return false;
}

/* The record to charge, after entries of another one have been set aside. */
__attribute__((cold)) static uint32_t one_record(struct task_struct *t, enum sig_queue q, int sig)
{
	for (;;) {
		uint64_t w = READ_ONCE(*pending_word(t, q, sig));
		uint32_t record = READ_ONCE(t->ucounts), old = word_record(w);
		bool done;

		if (!word_count(w) || old == record || !ucounts_of(old))
			return record;
		ucounts_begin(current, ucounts_of(old), SIGPENDING);
		done = set_aside(t, q, sig, w);
		ucounts_end(current);
		if (!done)
			return old;
	}
}

/* One entry less; false: the word no longer is as it was, or it is not the time. */
static bool take_one(struct task_struct *t, enum sig_queue q, int sig, uint64_t w, uint64_t flags)
{
	uint32_t record = word_record(w);
	struct ucounts *uc = ucounts_of(record);
	bool done;

	if (!uc)
		return false;
	ucounts_enter(current, record, SIGPENDING);
	done = cmpxchg(pending_word(t, q, sig), w,
		       word_next(w, word_count(w) - 1, record, flags)) == w;
	if (done && unlikely(!ucounts_admitted(uc, SIGPENDING))) {
		signal_adopt_entry(t, q, sig, record);
		fetch_or(pending_word(t, q, sig), w & (WORD_LOST | WORD_FOUND));
		ucounts_retreat(current, uc, SIGPENDING);
		return false;
	}
	if (done)
		dec_rlimit_ucounts(uc, SIGPENDING, 1);
	ucounts_end(current);
	return done;
}

/* Take @n (0 = all) of the entries at older[@i]; false if there are none any more. */
static bool take_older(uint64_t *older, uint32_t n)
{
	uint64_t e = READ_ONCE(*older), rest;
	struct ucounts *uc = ucounts_of(word_record(e));
	bool done;

	if (!uc || !word_count(e))
		return false;
	if (!n)
		n = word_count(e);
	rest = word_count(e) > n ? e - n : 0;
	ucounts_begin(current, uc, SIGPENDING);
	done = cmpxchg(older, e, rest) == e;
	if (done)
		dec_rlimit_ucounts(uc, SIGPENDING, n);
	ucounts_end(current);
	return done || take_older(older, n);
}

/* The oldest entry of the signal that was charged to an earlier record of the task. */
static bool take_oldest(struct task_struct *t, enum sig_queue q, int sig)
{
	struct sigpending_slot *s = pending_of(t);

	for (int i = 0; i < PENDING_OLDER; i++)
		if ((READ_ONCE(s->older[i]) & OLDER_KEY) == older_key(q, sig) &&
		    take_older(&s->older[i], 1))
			return true;
	return false;
}

/* An entry of the signal leaves the queue; nothing happens if none is known. */
static void dequeue(struct task_struct *t, enum sig_queue q, int sig, uint64_t drop_flags)
{
	uint64_t *word = pending_word(t, q, sig), w, flags;

	if (sig < KPEMU_RTMIN)
		drop_flags |= WORD_LOST | WORD_FOUND;
	for (;;) {
		w = READ_ONCE(*word);
		if (unlikely(w & WORD_OLDER) && take_oldest(t, q, sig))
			return;
		flags = w & WORD_FLAGS & ~(drop_flags | WORD_OLDER);
		if (word_count(w) == 1)
			flags &= ~WORD_FOUND;
		if (word_count(w) ? take_one(t, q, sig, w, flags) :
				    flags == (w & WORD_FLAGS) ||
					    cmpxchg(word, w, word_next(w, 0, 0, flags)) == w)
			return;
	}
}

/* The entry just charged does not come to be. */
static void uncharge(struct task_struct *t, enum sig_queue q, int sig)
{
	uint64_t w;

	do
		w = READ_ONCE(*pending_word(t, q, sig));
	while (word_count(w) && !take_one(t, q, sig, w, w & WORD_FLAGS));
}

/* All entries of the signal leave the queue, if it still is as in @w. */
static bool dequeue_all(struct task_struct *t, enum sig_queue q, int sig, uint64_t w)
{
	struct sigpending_slot *s = pending_of(t);
	uint64_t *word = pending_word(t, q, sig);
	struct ucounts *uc = ucounts_of(word_record(w));
	bool done;

	if (uc)
		ucounts_begin(current, uc, SIGPENDING);
	done = cmpxchg(word, w, word_flushed(w)) == w;
	if (uc && done && word_count(w))
		dec_rlimit_ucounts(uc, SIGPENDING, word_count(w));
	if (uc)
		ucounts_end(current);
	if (!done || !(w & WORD_OLDER))
		return done;
	for (int i = 0; i < PENDING_OLDER; i++)
		if ((READ_ONCE(s->older[i]) & OLDER_KEY) == older_key(q, sig))
			take_older(&s->older[i], 0);
	return true;
}

static void flush_signal(struct task_struct *t, enum sig_queue q, int sig)
{
	uint64_t *word = pending_word(t, q, sig), w;

	do {
		w = READ_ONCE(*word);
		if (!word_count(w) && !(w & WORD_FLAGS))
			return;
	} while (!dequeue_all(t, q, sig, w));
}

static void flush_queue(struct task_struct *t, enum sig_queue q)
{
	uint64_t used = READ_ONCE(t->sig_used[q]);

	for (; used; used &= used - 1)
		flush_signal(t, q, __builtin_ctzll(used) + 1);
}

void signal_flush(struct task_struct *t)
{
	struct sigpending_slot *s = pending_of(t);

	if (!s)
		return;
	flush_queue(t, PENDING_PRIVATE);
	flush_queue(t, PENDING_SHARED);
	WRITE_ONCE(t->sig_used[PENDING_PRIVATE], 0);
	WRITE_ONCE(t->sig_used[PENDING_SHARED], 0);
}

void signal_adopt_entry(struct task_struct *t, enum sig_queue q, int sig, uint32_t record)
{
	struct sigpending_slot *s = pending_of(t);
	uint64_t w = READ_ONCE(s->pending[q][sig - 1]);
	uint64_t entry = older_key(q, sig) | (uint64_t)record << 24 | 1;

	mark_used(t, q, sig);
	do {
		if (word_count(w) && word_record(w) != record)
			break;
		if (try_cmpxchg(&s->pending[q][sig - 1], &w,
				word_next(w, word_count(w) + 1, record, w & WORD_FLAGS)))
			return;
	} while (true);
	fetch_or(&s->pending[q][sig - 1], WORD_OLDER);
	for (int i = 0; i < PENDING_OLDER; i++)
		if (!READ_ONCE(s->older[i]) && !cmpxchg(&s->older[i], 0, entry))
			return;
}

/* --- sending --- */

/*
 * An ignored signal stays in its queue only while every thread that could take it blocks it; else
 * whoever does not drops it at once.
 */
__attribute__((cold)) static bool stays(struct task_struct *t, enum sig_queue q, int sig)
{
	uint32_t group = task_ref(t);
	struct task_struct *other;

	if (q == PENDING_PRIVATE)
		return READ_ONCE(t->sig_blocked) & sig_bit(sig);
	for_each_task(i, other)
		if (READ_ONCE(other->group_leader) == group && task_counted(other) &&
		    !(READ_ONCE(other->sig_blocked) & sig_bit(sig)))
			return false;
	return true;
}

static bool is_ignored(struct task_struct *leader, int sig)
{
	return unlikely(READ_ONCE(leader->sig_ignored) & RT_SIGNALS & sig_bit(sig));
}

/* An entry that was made and is not charged goes. False: somebody has given it back meanwhile. */
static bool unmake_entry(struct task_struct *t, enum sig_queue q, int sig)
{
	uint64_t *word = pending_word(t, q, sig), w = READ_ONCE(*word);

	while (word_count(w))
		if (try_cmpxchg(word, &w, word_next(w, word_count(w) - 1, word_record(w),
						    w & WORD_FLAGS)))
			return true;
	return false;
}

/* The record is being recomputed. Who has given the entry back did so with a charge that it never had. */
__attribute__((cold)) static void retreat(struct task_struct *t, enum sig_queue q, int sig,
					  struct ucounts *uc)
{
	bool unmade = unmake_entry(t, q, sig);

	ucounts_retreat(current, uc, SIGPENDING);
	if (unmade)
		return;
	ucounts_begin(current, uc, SIGPENDING);
	inc_rlimit_ucounts(uc, SIGPENDING, 1);
	ucounts_end(current);
}

/* Inside an update, which ends here. */
__attribute__((cold)) static int refused(struct task_struct *t, enum sig_queue q, int sig,
					 struct ucounts *uc, struct refusal *why)
{
	if (!unmake_entry(t, q, sig))
		inc_rlimit_ucounts(uc, SIGPENDING, 1);
	ucounts_end(current);
	why->err = EAGAIN;
	why->pid = current->pid;
	return -EAGAIN;
}

/*
 * Charge one entry: racing senders fill a limit exactly. @ignored: what the caller has decided by. Announced. SEND_QUEUED, SEND_COALESCED, -EAGAIN
 * with *@why filled; -ERANGE: entries of another record wait; -EBUSY: not the time.
 */
static int charge(struct task_struct *t, struct task_struct *leader, enum sig_queue q, int sig,
		  uint32_t record, bool override, bool ignored, unsigned int *epoch,
		  struct refusal *why)
{
	struct ucounts *uc = ucounts_of(record);
	uint64_t *word = pending_word(t, q, sig), w = READ_ONCE(*word), slot = READ_ONCE(t->slot);
	uint64_t limit = rlimit(t, SIGPENDING);
	int ret = -EAGAIN;

	if (unlikely(!uc || (slot_state(slot) != SLOT_LIVE && slot_state(slot) != SLOT_NEW)))
		return SEND_COALESCED; /* it is on its way out */
	ucounts_enter(current, record, SIGPENDING);
	do {
		if (sig < KPEMU_RTMIN && (word_count(w) || w & WORD_LOST))
			ret = SEND_COALESCED;
		else if (word_count(w) && word_record(w) != record)
			ret = -ERANGE;
		if (ret != -EAGAIN) {
			ucounts_end(current);
			return ret;
		}
	} while (!try_cmpxchg(word, &w, word_next(w, word_count(w) + 1, record, w & WORD_FLAGS)));
	/* Fully ordered: who minds has seen that we are here, or we see that somebody minds. */
	if (unlikely(!ucounts_admitted(uc, SIGPENDING))) {
		retreat(t, q, sig, uc);
		return -EBUSY;
	}
	*epoch = word_epoch(w);
	if (unlikely(!charge_rlimit_ucounts(uc, SIGPENDING, 1, limit, override, why)))
		return refused(t, q, sig, uc, why);
	if (unlikely(gate_is_closed(leader) || is_ignored(leader, sig) != ignored))
		ret = -EBUSY;
	else if (unlikely(READ_ONCE(t->slot) != slot))
		ret = SEND_COALESCED; /* the slot is another task's by now, or nobody's */
	else
		ret = SEND_QUEUED;
	ucounts_end(current);
	if (unlikely(ret != SEND_QUEUED))
		uncharge(t, q, sig);
	return ret;
}

/* Announced if the result is none of an error; as charge(). */
static int announced_send(struct task_struct *t, struct task_struct *leader, enum sig_queue q,
			  int sig, uint32_t record, bool override, unsigned int *epoch,
			  struct refusal *why)
{
	bool ignored = is_ignored(leader, sig);
	int ret;

	announce(task_ref(leader));
	if (unlikely(ignored)) {
		smp_mb();
		if (!gate_is_closed(leader) && !stays(t, q, sig))
			return SEND_IGNORED;
	}
	ret = charge(t, leader, q, sig, record, override, ignored, epoch, why);
	if (unlikely(ret < 0))
		unannounce();
	return ret;
}

static int try_send(struct task_struct *t, struct task_struct *leader, enum sig_queue q, int sig,
		    bool override, unsigned int *epoch, struct refusal *why)
{
	uint32_t record = READ_ONCE(t->ucounts);
	int ret;

	for (;;) {
		ret = announced_send(t, leader, q, sig, record, override, epoch, why);
		if (ret == -ERANGE)
			record = one_record(t, q, sig);
		else if (ret == -EBUSY)
			wait_for_gate(leader);
		else
			return ret;
	}
}

/* Only the fact of the signal arrives; if it waits already, nothing does. */
static int lose(struct task_struct *t, enum sig_queue q, int sig)
{
	uint64_t *word = pending_word(t, q, sig), w = READ_ONCE(*word);

	do {
		if (word_count(w) || w & (WORD_LOST | WORD_OLDER))
			return SEND_MERGED;
	} while (!try_cmpxchg(word, &w, word_next(w, 0, 0, (w & WORD_FLAGS) | WORD_LOST)));
	return SEND_LOST;
}

/* Signals below KPEMU_RTMIN need no mark: what the kernel says of them is all there is to know. */
static int mark_for(enum sig_queue q, int sig, int code, int result, unsigned int epoch)
{
	if (result == SEND_LOST)
		return make_mark(MARK_LOST, q, epoch);
	if (sig < KPEMU_RTMIN || result != SEND_QUEUED)
		return 0;
	return make_mark(code == SI_USER  ? MARK_KILL :
			 code == SI_TKILL ? MARK_TKILL :
					    MARK_OWN,
			 q, epoch);
}

/*
 * Stop signals and SIGCONT drive each other out of all queues of the process before the limit is
 * looked at. The kernel does so at the real send, which comes after.
 */
static void flush_opposites(struct task_struct *leader, int sig)
{
	uint64_t stops = sig_bit(SIGSTOP) | sig_bit(SIGTSTP) | sig_bit(SIGTTIN) | sig_bit(SIGTTOU);
	uint64_t gone = sig == SIGCONT ? stops : stops & sig_bit(sig) ? sig_bit(SIGCONT) : 0;
	struct task_struct *t;

	for (; gone; gone &= gone - 1) {
		int other = __builtin_ctzll(gone) + 1;

		flush_signal(leader, PENDING_SHARED, other);
		for_each_task(i, t)
			if (READ_ONCE(t->group_leader) == task_ref(leader))
				flush_signal(t, PENDING_PRIVATE, other);
	}
}

static void reconcile_holders(struct ucounts *uc);

/* Over the limit: once more, without what has left unseen; else the fact alone. */
__attribute__((cold)) static int send_refused(struct task_struct *t, struct task_struct *leader,
					      enum sig_queue q, int sig, int code,
					      unsigned int *epoch, struct refusal *why)
{
	struct ucounts *uc = ucounts_of(READ_ONCE(t->ucounts));
	int ret;

	if (uc)
		reconcile_holders(uc);
	announce(task_ref(leader)); /* or what has just been flushed would be found waiting */
	flush_opposites(leader, sig);
	ret = try_send(t, leader, q, sig, false, epoch, why);
	if (ret >= 0)
		return ret;
	announce(task_ref(leader)); /* until sent_signal(), as in all other cases */
	if (sig < KPEMU_RTMIN || code == SI_USER)
		return lose(t, q, sig);
	ucounts_count_refusal(why);
	return ret;
}

int send_signal(struct task_struct *t, enum sig_queue q, int sig, int code, int *mark,
		struct refusal *why)
{
	struct task_struct *leader = q == PENDING_SHARED ? t : task_leader(t);
	bool override = sig < KPEMU_RTMIN && code >= 0;
	unsigned int epoch = 0;
	int ret;

	why->err = 0;
	*mark = 0;
	/* The dead take any signal, and keep none. */
	if (sig == SIGKILL || READ_ONCE(leader->flags) & PF_DEAD) {
		announce(task_ref(leader));
		return SEND_COALESCED;
	}
	mark_used(t, q, sig);
	ret = try_send(t, leader, q, sig, override, &epoch, why);
	if (unlikely(ret < 0))
		ret = send_refused(t, leader, q, sig, code, &epoch, why);
	if (ret >= 0)
		*mark = mark_for(q, sig, code, ret, epoch);
	return ret;
}

void sent_signal(struct task_struct *t, enum sig_queue q, int sig, int result, bool undo)
{
	if (undo && result == SEND_QUEUED)
		uncharge(t, q, sig);
	else if (undo && result == SEND_LOST)
		fetch_andnot(pending_word(t, q, sig), WORD_LOST);
	unannounce();
}

/* kernel/signal.c: real or effective uid of the sender against real or saved uid of the target. */
static bool kill_ok_by_cred(const struct task_struct *t)
{
	const struct cred *me = &current->cred;
	uint32_t uid = READ_ONCE(t->cred.uid), suid = READ_ONCE(t->cred.suid);

	return me->euid == suid || me->euid == uid || me->uid == suid || me->uid == uid ||
	       ns_capable(current, READ_ONCE(t->cred.user_ns), CAP_KILL);
}

int check_kill_permission(struct task_struct *t, int sig)
{
	if (sig < 0 || sig > KPEMU_NSIG)
		return -EINVAL;
	if (READ_ONCE(t->tgid) == current->tgid || kill_ok_by_cred(t))
		return 0;
	if (sig == SIGCONT && sys_call(__NR_getsid, READ_ONCE(t->tgid)) == sys_call(__NR_getsid, 0))
		return 0;
	return -EPERM;
}

/* --- receiving --- */

static uint32_t sender_kuid(int pid, uint32_t uid)
{
	struct task_struct *t;

	if (uid != world->uid || !pid)
		return uid;
	if (pid == current->tgid)
		return current->cred.uid;
	t = find_task_by_vpid(pid);
	if (t)
		return READ_ONCE(t->cred.uid);
	/* One of us that has ended, as a rule of the same uid; or somebody outside, who has this. */
	return sys_call(__NR_kill, pid, 0) == -ESRCH ? current->cred.uid : uid;
}

uint32_t sender_uid(int pid, uint32_t uid)
{
	if (pid == current->tgid && uid != world->uid)
		return uid; /* what one says of oneself is passed on as it is */
	return from_kuid_munged(current->cred.user_ns, sender_kuid(pid, uid));
}

/* The fact of a signal, without an entry. It is nothing if it has merged with later entries. */
static bool lost_received(struct task_struct *t, enum sig_queue q, siginfo_t *info)
{
	int sig = info->si_signo;
	uint64_t w = fetch_andnot(pending_word(t, q, sig), WORD_LOST);

	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	return !word_count(w);
}

static bool marked_received(struct task_struct *t, struct task_struct *leader, siginfo_t *info)
{
	enum mark_kind kind = info->si_errno >> 8 & 3;
	enum sig_queue q = info->si_errno >> 5 & 1;
	unsigned int epoch = info->si_errno & 0x1f;
	int sig = info->si_signo;

	if (q == PENDING_SHARED)
		t = leader;
	if (kind == MARK_LOST)
		return lost_received(t, q, info);
	if (word_epoch(READ_ONCE(*pending_word(t, q, sig))) == epoch)
		dequeue(t, q, sig, 0);
	info->si_errno = 0;
	if (kind == MARK_OWN)
		return true;
	info->si_code = kind == MARK_KILL ? SI_USER : SI_TKILL;
	info->si_value.sival_ptr = NULL;
	return true;
}

/* Has the kernel put its sender's uid in? The programs write their own into the others. */
static bool has_real_uid(const siginfo_t *info)
{
	return info->si_code == SI_USER || info->si_code == SI_TKILL || info->si_code == SI_MESGQ ||
	       (info->si_signo == SIGCHLD && info->si_code > 0);
}

static bool has_entry(struct task_struct *t, enum sig_queue q, int sig)
{
	uint64_t w = READ_ONCE(*pending_word(t, q, sig));

	return word_count(w) || w & WORD_OLDER;
}

bool signal_is_known(struct task_struct *t, enum sig_queue q, int sig)
{
	struct sigpending_slot *s = pending_of(t);
	uint64_t w = READ_ONCE(s->pending[q][sig - 1]);

	for (int i = 0; i < PENDING_OLDER; i++) {
		uint64_t e = READ_ONCE(s->older[i]);

		if (word_count(e) && (e & OLDER_KEY) == older_key(q, sig))
			return true;
	}
	return word_count(w) || w & WORD_LOST;
}

/*
 * Without a mark: one below KPEMU_RTMIN, or one that is not ours, or one whose sender has put
 * something else there. The kernel takes from the thread's own queue first; the code says where
 * kill(2) and tgkill(2) put it, but a program can claim either.
 */
static void entry_leaves(struct task_struct *t, struct task_struct *leader, const siginfo_t *info)
{
	int sig = info->si_signo;
	bool own = has_entry(t, PENDING_PRIVATE, sig);
	enum sig_queue q;

	if (info->si_code == SI_TIMER)
		return;
	if (info->si_code == SI_USER && has_entry(leader, PENDING_SHARED, sig))
		own = false;
	q = own ? PENDING_PRIVATE : PENDING_SHARED;
	t = own ? t : leader;
	if (sig < KPEMU_RTMIN || info->si_errno || READ_ONCE(*pending_word(t, q, sig)) & WORD_FOUND)
		dequeue(t, q, sig, WORD_FOUND);
}

bool signal_received(struct task_struct *t, siginfo_t *info)
{
	struct task_struct *leader = task_leader(t);

	if (info->si_signo < 1 || info->si_signo > KPEMU_NSIG)
		return true;
	if (is_marked(info))
		return marked_received(t, leader, info);
	entry_leaves(t, leader, info);
	if (has_real_uid(info))
		info->si_uid = sender_uid(info->si_pid, info->si_uid);
	return true;
}

void signal_dead(struct task_struct *leader)
{
	if (!(READ_ONCE(leader->flags) & PF_DEAD))
		fetch_or(&leader->flags, (uint32_t)PF_DEAD);
}

/* --- what the kernel says --- */

static void take_line(struct kernel_sets *sets, const char *line)
{
	static const struct {
		const char *name;
		size_t at;
	} set[] = {
		{ "SigPnd:\t", offsetof(struct kernel_sets, pending[PENDING_PRIVATE]) },
		{ "ShdPnd:\t", offsetof(struct kernel_sets, pending[PENDING_SHARED]) },
		{ "SigBlk:\t", offsetof(struct kernel_sets, blocked) },
		{ "SigIgn:\t", offsetof(struct kernel_sets, ignored) },
	};

	if (!strncmp(line, "State:\t", 7)) {
		sets->dead = line[7] == 'Z' || line[7] == 'X';
		sets->running = line[7] == 'R' || line[7] == 'D';
	}
	for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++) {
		size_t n = strlen(set[i].name);

		if (!strncmp(line, set[i].name, n))
			*(uint64_t *)((char *)sets + set[i].at) = strtoull(line + n, NULL, 16);
	}
}

/* Line by line: that of the groups may be longer than any buffer, and what we want comes after it. */
int read_kernel_sets(const char *path, struct kernel_sets *sets)
{
	bool whole = true; /* the buffer begins where a line does */
	char text[1024], *line, *nl;
	size_t have = 0;
	long n;
	int fd;

	*sets = (struct kernel_sets){ 0 };
	fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	while ((n = sys_read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		have += n;
		text[have] = 0;
		for (line = text; (nl = strchr(line, '\n')); line = nl + 1) {
			if (whole)
				take_line(sets, line);
			whole = true;
		}
		have -= line - text;
		memmove(text, line, have);
		if (have == sizeof(text) - 1) {
			whole = false;
			have = 0;
		}
	}
	sys_close(fd);
	return n;
}

/* 0 or -errno. */
static int read_sets(const struct task_struct *t, struct kernel_sets *sets)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", READ_ONCE(t->tgid),
		 READ_ONCE(t->pid));
	return read_kernel_sets(path, sets);
}

/*
 * Found waiting: the kernel sent it, or somebody outside. Charged as the kernel would, unjudged.
 * @slot: of the task that was looked at, which may be gone by now.
 */
static void found_waiting(struct task_struct *t, uint64_t slot, enum sig_queue q, int sig,
			  uint64_t w)
{
	uint32_t record = READ_ONCE(t->ucounts);
	struct ucounts *uc = ucounts_of(record);

	if (!uc)
		return;
	mark_used(t, q, sig);
	ucounts_begin(current, uc, SIGPENDING);
	if (cmpxchg(pending_word(t, q, sig), w,
		    word_next(w, 1, record, (w & WORD_FLAGS) | WORD_FOUND)) == w)
		inc_rlimit_ucounts(uc, SIGPENDING, 1);
	ucounts_end(current);
	if (READ_ONCE(t->slot) != slot)
		uncharge(t, q, sig);
}

/* The signals that programs can send and see: not the two that libc keeps for itself. */
#define COUNTED_SIGNALS (~(sig_bit(SIGKILL) | INTERNAL_SIGNALS))

static void agree(struct task_struct *t, uint64_t slot, struct task_struct *leader,
		  enum sig_queue q, const uint64_t *seen, uint64_t pending)
{
	uint64_t look = (READ_ONCE(t->sig_used[q]) | pending) & COUNTED_SIGNALS;

	for (; look; look &= look - 1) {
		int sig = __builtin_ctzll(look) + 1;
		uint64_t w = seen[sig - 1];
		bool known = word_count(w) || w & WORD_FLAGS;

		if (!(pending & sig_bit(sig)) && known)
			dequeue_all(t, q, sig, w);
		else if (pending & sig_bit(sig) && !known && !posix_timer_sends(leader, sig))
			found_waiting(t, slot, q, sig, w);
	}
}

/* Numbers of another pid namespace mean nothing here. */
static bool can_ask(const struct task_struct *t)
{
	return !((READ_ONCE(t->flags) | READ_ONCE(current->flags)) & PF_PIDNS);
}

/*
 * What is in the words was sent before we look at the kernel, if nobody is sending; and a word that
 * somebody changes meanwhile is left alone.
 */
void signal_reconcile(struct task_struct *t)
{
	struct task_struct *leader = task_leader(t);
	struct sigpending_slot *s = pending_of(t), seen;
	uint64_t slot = READ_ONCE(t->slot);
	struct kernel_sets sets;
	int err;

	if (slot_state(slot) != SLOT_LIVE || !READ_ONCE(t->pid) || !can_ask(t))
		return;
	for (int q = 0; q < NR_SIG_QUEUES; q++)
		for (int i = 0; i < KPEMU_NSIG; i++)
			seen.pending[q][i] = READ_ONCE(s->pending[q][i]);
	smp_mb();
	if (somebody_sends_to(task_ref(leader), 0))
		return;
	err = read_sets(t, &sets);
	if (err) {
		if (task_gone(t))
			release_task(t);
		return;
	}
	if (sets.dead && t == leader)
		signal_dead(leader);
	agree(t, slot, leader, PENDING_PRIVATE, seen.pending[PENDING_PRIVATE],
	      sets.pending[PENDING_PRIVATE]);
	if (t == leader)
		agree(t, slot, leader, PENDING_SHARED, seen.pending[PENDING_SHARED],
		      sets.pending[PENDING_SHARED]);
}

static bool may_hold(const struct task_struct *t)
{
	return READ_ONCE(t->sig_used[PENDING_PRIVATE]) | READ_ONCE(t->sig_used[PENDING_SHARED]);
}

/* Before a refusal: only what has left unseen matters. */
static void reconcile_holders(struct ucounts *uc)
{
	struct task_struct *t;

	for_each_task(i, t) {
		if (READ_ONCE(t->updating) && t != current && task_dead(t))
			reap_dead(ucounts_index(uc));
		if (may_hold(t))
			signal_reconcile(t);
	}
	reap_timers(ucounts_index(uc));
}

void signal_reconcile_record(struct ucounts *uc)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (ucounts_related(READ_ONCE(t->ucounts), ucounts_index(uc) + 1) || may_hold(t))
			signal_reconcile(t);
}

void signal_reconcile_all(void)
{
	struct task_struct *t;

	for_each_task(i, t)
		signal_reconcile(t);
}

/* --- dispositions and masks --- */

#define for_each_thread(i, t, leader)                                   \
	for_each_task(i, t)                                             \
		if (READ_ONCE((t)->group_leader) == task_ref(leader) && \
		    slot_state(READ_ONCE((t)->slot)) == SLOT_LIVE)

/* Who blocks even the signals that libc keeps for itself is inside it, or us, for a moment. */
static void learn_mask(struct task_struct *t)
{
	struct kernel_sets sets;

	for (uint64_t since = boottime_ns(); !read_sets(t, &sets) && !in_vain(t, since);) {
		WRITE_ONCE(t->sig_blocked, sets.blocked);
		if (t == current || (sets.blocked & INTERNAL_SIGNALS) != INTERNAL_SIGNALS)
			return;
		sys_call(__NR_sched_yield);
	}
}

/*
 * Of all threads of the calling process. One that is leaving a handler has said what its mask will
 * be before it looked whether that matters, and a barrier in all threads is what makes the order
 * of the two mean anything to us.
 */
static void learn_masks(struct task_struct *leader)
{
	struct task_struct *t;

	sys_call(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	sys_call(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	for_each_thread(i, t, leader) {
		if (t != current && READ_ONCE(t->sig_mask_known))
			WRITE_ONCE(t->sig_blocked, READ_ONCE(t->sig_mask_next));
		else
			learn_mask(t);
	}
}

void signal_ignore_begin(struct task_struct *leader, int sig)
{
	if (sig >= KPEMU_RTMIN)
		gate_close(leader);
}

void signal_ignore_end(struct task_struct *leader, int sig, bool ignored, bool flush)
{
	bool mattered = signal_mask_matters(leader);
	struct task_struct *t;

	if (ignored)
		fetch_or(&leader->sig_ignored, sig_bit(sig));
	else if (READ_ONCE(leader->sig_ignored) & sig_bit(sig))
		fetch_andnot(&leader->sig_ignored, sig_bit(sig));
	if (!mattered && signal_mask_matters(leader))
		learn_masks(leader);
	if (flush)
		for_each_thread(i, t, leader) {
			flush_signal(t, PENDING_PRIVATE, sig);
			flush_signal(t, PENDING_SHARED, sig);
		}
	if (sig >= KPEMU_RTMIN)
		gate_open(leader);
}

void signal_mask_begin(struct task_struct *leader)
{
	gate_close(leader);
}

static bool nothing_known(struct task_struct *t, struct task_struct *leader, int sig)
{
	return !has_entry(t, PENDING_PRIVATE, sig) && !has_entry(leader, PENDING_SHARED, sig);
}

/*
 * The kernel blocks signals when it calls a handler, and we hear of it later: what was sent in
 * between waits, though we said that it would be dropped. Drop it: it came a moment earlier.
 */
static void drop_waiting(struct task_struct *t, struct task_struct *leader, uint64_t signals)
{
	const struct timespec zero = { 0 };
	uint64_t drop = 0;

	for (; signals; signals &= signals - 1) {
		int sig = __builtin_ctzll(signals) + 1;

		if (nothing_known(t, leader, sig))
			drop |= sig_bit(sig);
	}
	while (drop && sys_call(__NR_rt_sigtimedwait, &drop, NULL, &zero, sizeof(drop)) > 0)
		;
}

/* Ignored signals that are unblocked now are dropped by this thread, whoever they were sent to. */
static void forget_dropped(struct task_struct *t, struct task_struct *leader, uint64_t signals)
{
	for (; signals; signals &= signals - 1) {
		flush_signal(t, PENDING_PRIVATE, __builtin_ctzll(signals) + 1);
		flush_signal(leader, PENDING_SHARED, __builtin_ctzll(signals) + 1);
	}
}

void signal_mask_end(struct task_struct *t, struct task_struct *leader, uint64_t mask)
{
	uint64_t ignored = READ_ONCE(leader->sig_ignored) & RT_SIGNALS;
	uint64_t was = READ_ONCE(t->sig_blocked);

	drop_waiting(t, leader, ignored & mask & ~was);
	WRITE_ONCE(t->sig_blocked, mask);
	signal_mask_will_be(t, mask);
	forget_dropped(t, leader, ignored & ~mask);
	gate_open(leader);
}

/* --- the life of a task --- */

void signal_init(struct task_struct *t)
{
	struct kernel_sets sets;

	if (read_sets(t, &sets))
		return;
	WRITE_ONCE(t->sig_ignored, sets.ignored);
	WRITE_ONCE(t->sig_blocked, sets.blocked);
}

void signal_fork(struct task_struct *t, const struct task_struct *parent, bool thread)
{
	const struct task_struct *leader = task_leader((struct task_struct *)parent);

	t->sig_ignored = thread ? 0 : READ_ONCE(leader->sig_ignored);
	t->sig_blocked = READ_ONCE(parent->sig_blocked);
}

/* An entry goes with its thread to the place of the leader. */
static void move_private(struct task_struct *to, struct task_struct *t, int sig)
{
	uint64_t w = READ_ONCE(*pending_word(t, PENDING_PRIVATE, sig));
	struct ucounts *uc = ucounts_of(word_record(w));

	if (uc) {
		ucounts_begin(current, uc, SIGPENDING);
		WRITE_ONCE(*pending_word(t, PENDING_PRIVATE, sig), word_next(w, 0, 0, 0));
		WRITE_ONCE(*pending_word(to, PENDING_PRIVATE, sig), w & ~WORD_OLDER);
		ucounts_end(current);
	}
	mark_used(to, PENDING_PRIVATE, sig);
}

void signal_exec(struct task_struct *to, struct task_struct *t)
{
	uint64_t used = READ_ONCE(t->sig_used[PENDING_PRIVATE]);

	exit_itimers(to);
	if (to != t)
		flush_queue(to, PENDING_PRIVATE);
	for (; to != t && used; used &= used - 1)
		move_private(to, t, __builtin_ctzll(used) + 1);
	signal_mask_unknown(to);
	if (signal_mask_matters(to))
		learn_mask(to);
}

long derive_sigpending(const struct ucounts *uc)
{
	struct task_struct *t;
	struct k_itimer *tmr;
	long n = 0;

	for_each_task(i, t) {
		struct sigpending_slot *s = pending_of(t);

		if (!s || !may_hold(t))
			continue;
		for (int q = 0; q < NR_SIG_QUEUES; q++)
			for (int sig = 0; sig < KPEMU_NSIG; sig++) {
				uint64_t w = READ_ONCE(s->pending[q][sig]);

				if (word_count(w) && ucounts_covers(uc, word_record(w)))
					n += word_count(w);
			}
		for (int j = 0; j < PENDING_OLDER; j++) {
			uint64_t e = READ_ONCE(s->older[j]);

			if (word_count(e) && ucounts_covers(uc, word_record(e)))
				n += word_count(e);
		}
	}
	for_each_timer(i, tmr)
		n += ucounts_covers(uc, READ_ONCE(tmr->ucounts));
	return n;
}
