/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pending signals: what waits, where, and which record each of them is charged to. */
#ifndef KPEMU_SIGNAL_H
#define KPEMU_SIGNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <kpemu/refusal.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#define KPEMU_NSIG 64 /* highest signal number */
#define KPEMU_RTMIN 32 /* the kernel's: below it a signal waits at most once in a queue */

#define sig_bit(sig) (1ull << ((sig) - 1))

/* The first two real-time signals libc keeps for itself; programs can neither send nor block them. */
#define INTERNAL_SIGNALS (sig_bit(32) | sig_bit(33))
#define RT_SIGNALS	 (~(sig_bit(KPEMU_RTMIN) - 1) & ~INTERNAL_SIGNALS)

enum sig_queue {
	PENDING_PRIVATE, /* task->pending: sent to a thread */
	PENDING_SHARED, /* signal->shared_pending: sent to a process, kept in its leader's slot */
	NR_SIG_QUEUES,
};

/*
 * What waits in the two queues of a task. Slot n belongs to task n. A word of `pending` has
 *
 *   bits 0-23   entries charged and not yet seen to leave
 *   bits 24-39  the record they are charged to, index + 1; 0 when there are none
 *   bit 40      a signal without an entry waits (its siginfo was lost to the limit)
 *   bit 41      an entry was found waiting that no call of ours had sent
 *   bit 42      there are entries in `older`
 *   bits 43-47  the epoch: counts how often the queue was found or made empty of this signal
 *   bits 48-63  counts the changes
 *
 * When the task changes to another record while entries wait, these go to `older`: bits 0-23 and
 * 24-39 as above, bits 40-46 the signal, bit 47 the queue; 0 = free. They are the first to leave.
 */
#define PENDING_OLDER 16
struct sigpending_slot {
	uint64_t pending[NR_SIG_QUEUES][KPEMU_NSIG]; /* [sig - 1] */
	uint64_t older[PENDING_OLDER];
};
static_assert(sizeof(struct sigpending_slot) == WORLD_SIGPENDING_SIZE, "ABI");

/* A POSIX timer: charged to whoever made it, whatever it notifies by. (kernel/ucounts.md 2.3) */
struct k_itimer {
	uint64_t slot;
	uint32_t owner; /* slot_ref() of the leader of the process that made it */
	uint32_t ucounts; /* index + 1 of the record that holds the charge; 0 = none */
	int32_t signo; /* 0: it sends none (SIGEV_NONE, SIGEV_THREAD) */
	int32_t tid; /* of SIGEV_THREAD_ID, else 0 */
	uint64_t id; /* the timer_t */
	uint64_t pad[4];
};
static_assert(sizeof(struct k_itimer) == WORLD_TIMER_SIZE, "ABI");

#define for_each_timer(i, tmr)                                                                     \
	for (uint32_t i = 0; ((tmr) = table_slot(TABLE_TIMER, i)); i++)

/*
 * All functions that change something: lock-free, async-signal-safe, and not to be interrupted by
 * a handler that calls them for the same `current` (callers block or defer signals). `current`
 * makes the change; it may be an observer.
 */

enum send_result {
	SEND_QUEUED, /* charged: make the real call */
	SEND_COALESCED, /* waits already: make the real call, nothing is charged */
	SEND_IGNORED, /* will be dropped: make the real call, nothing is charged */
	SEND_LOST, /* over the limit: only the fact of the signal arrives; nothing is charged */
	SEND_MERGED, /* over the limit, and waits already: make no call, it is a success */
	/* -EAGAIN: over the limit, @why filled; make no call */
};

/*
 * send_signal - a signal is about to be sent (kernel/signal.c, __send_signal_locked()).
 *
 * @t is the target: the leader for PENDING_SHARED. @sig is 1 .. 64, @code the si_code that the
 * receiver will see. Charged to @t's record and judged by @t's limit; entries that left unseen are
 * looked for before a refusal. *@mark, if not 0, must be the si_errno of what is really sent, with
 * si_code SI_QUEUE instead of SI_USER or SI_TKILL: the receiver's side then knows exactly what has
 * arrived. Whatever it returns, the caller calls sent_signal() when the real call is over, and runs
 * nobody else's code before that. (kernel/ucounts.md 2.1)
 */
int send_signal(struct task_struct *t, enum sig_queue q, int sig, int code, int *mark,
		struct refusal *why);

/*
 * sent_signal - the end of a send. @undo: send_signal() said SEND_QUEUED or SEND_LOST, and the real
 * call failed.
 */
void sent_signal(struct task_struct *t, enum sig_queue q, int sig, int result, bool undo);

/* check_kill_permission - may `current`'s process send @sig to @t? 0, -EINVAL, -EPERM. */
int check_kill_permission(struct task_struct *t, int sig);

/*
 * signal_received - the calling task @t has got @info from the kernel, by whatever means: its
 * entry, if it is one, is given back, and *@info becomes what the program must see.
 * False: there is no such signal for the program; forget it.
 */
bool signal_received(struct task_struct *t, siginfo_t *info);

/*
 * sender_uid - the emulated uid for a siginfo with @pid and the real uid @uid in it, as `current`'s
 * user namespace calls it.
 */
uint32_t sender_uid(int pid, uint32_t uid);

/*
 * signal_reconcile - make @t's queues agree with what the kernel says waits in them: what has left
 * unseen is given back, what is there unknown is charged. Exact for signals below KPEMU_RTMIN; of
 * the others it sees whether any wait. Nothing happens while somebody is sending to @t's process.
 */
void signal_reconcile(struct task_struct *t);

/* What the kernel says of a task: its queues, its blocked and ignored signals, and how it is. */
struct kernel_sets {
	uint64_t pending[NR_SIG_QUEUES];
	uint64_t blocked, ignored;
	bool dead; /* a zombie */
	bool running; /* or would, if a processor were free */
};

/* read_kernel_sets - from the status file at @path. 0 or -errno, the sets are then empty. */
int read_kernel_sets(const char *path, struct kernel_sets *sets);

/* signal_is_known - is there an entry, or a loss, that would make the kernel say that @sig waits? */
bool signal_is_known(struct task_struct *t, enum sig_queue q, int sig);

/* signal_reconcile_record - the same for all tasks that charge, or would charge, record @uc. */
void signal_reconcile_record(struct ucounts *uc);

/*
 * signal_reconcile_all - the same for all tasks; before a reading of all counters. Timers of the
 * dead are for reap_dead(), which callers of the two call next.
 */
void signal_reconcile_all(void);

/*
 * Dispositions. The set of ignored signals is kept for the process (in its leader), and is exact;
 * handlers are the program's own business.
 *
 * signal_ignore - before (@done false) and after (true) a sigaction that makes @sig ignored (@on)
 * or not. Between the two calls nobody sends @sig's kind to the process, unless it is a signal
 * below KPEMU_RTMIN. An ignored signal leaves all queues.
 */
void signal_ignore_begin(struct task_struct *leader, int sig);
void signal_ignore_end(struct task_struct *leader, int sig, bool ignored, bool flush);

/*
 * Does the process ignore a real-time signal? Then a mask decides whether entries stay, and must be
 * told: signal_mask_begin(), then signal_mask_end() with the new mask, both by the thread @t itself,
 * after what it blocks is really blocked, and before what it unblocks is.
 */
static inline bool signal_mask_matters(const struct task_struct *leader)
{
	return READ_ONCE(leader->sig_ignored) & RT_SIGNALS;
}
void signal_mask_begin(struct task_struct *leader);
void signal_mask_end(struct task_struct *t, struct task_struct *leader, uint64_t mask);

/*
 * signal_mask_will_be - the calling thread @t leaves a handler or jumps, which makes its mask @mask:
 * who wants to learn it looks here, not at the kernel. To be called before it looks whether masks
 * matter. signal_mask_unknown - it is about to change in another way, or has changed.
 */
static inline void signal_mask_will_be(struct task_struct *t, uint64_t mask)
{
	WRITE_ONCE(t->sig_mask_next, mask);
	WRITE_ONCE(t->sig_mask_known, 1);
}

static inline void signal_mask_unknown(struct task_struct *t)
{
	WRITE_ONCE(t->sig_mask_known, 0);
}

/* signal_init - @t's ignored signals and mask as the kernel knows them now (the first task). */
void signal_init(struct task_struct *t);

/* signal_fork - what the new task @t takes over from @parent. (kernel/ucounts.md 2.2) */
void signal_fork(struct task_struct *t, const struct task_struct *parent, bool thread);

/* signal_exec - @to, the leader, goes on after an exec by thread @t of its process. */
void signal_exec(struct task_struct *to, struct task_struct *t);

/* signal_dead - @leader's process has been seen as a zombie, or is ending: it takes no more signals. */
void signal_dead(struct task_struct *leader);

/* signal_flush - everything that waits in @t's queues is given back: @t is gone. */
void signal_flush(struct task_struct *t);

/*
 * signal_adopt_entry - a charge that record (index + 1) @record already carries becomes an entry of
 * @t's queue. Inside ucounts_begin() of that record; no counter changes.
 */
void signal_adopt_entry(struct task_struct *t, enum sig_queue q, int sig, uint32_t record);

/* derive_sigpending - entries and timers that are charged to @uc, or through it. */
long derive_sigpending(const struct ucounts *uc);

/*
 * Timers (kernel/time/posix-timers.c).
 *
 * posix_timer_charge - a timer of `current`'s process, about to be made. NULL: *@err is -EAGAIN and
 * @why filled (over the limit), or *@why is empty (the world is full).
 */
struct k_itimer *posix_timer_charge(int signo, int tid, int *err, struct refusal *why);

/* posix_timer_made - the real timer_create() answered @id: from now on it can be found. */
void posix_timer_made(struct k_itimer *tmr, uint64_t id);

/* posix_timer_free - give it back: the real call failed, or it was deleted. */
void posix_timer_free(struct k_itimer *tmr);

/*
 * posix_timer_deleted - after a successful timer_delete(). If its signal still waits, the charge
 * stays with the signal until that leaves.
 */
void posix_timer_deleted(struct k_itimer *tmr);

/* posix_timer_find - the timer @id of @leader's process; NULL. */
struct k_itimer *posix_timer_find(const struct task_struct *leader, uint64_t id);

/* exit_itimers - all timers of @leader's process go: exec, exit. */
void exit_itimers(struct task_struct *leader);

/* posix_timer_sends - does a timer of @leader's process send @sig ? */
bool posix_timer_sends(const struct task_struct *leader, int sig);

/*
 * reap_timers - give back what the dead have left: timers half made or half deleted, and those of
 * processes that have ended (a zombie has none). @record: only those that share a level with it
 * (index); -1: all. How many; part of reap_dead().
 */
int reap_timers(int64_t record);

#endif
