/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tasks: the objects that NPROC is derived from, and the owners of everything being changed. */
#ifndef KPEMU_SCHED_H
#define KPEMU_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include <kpemu/cred.h>
#include <kpemu/nsproxy.h>
#include <kpemu/refusal.h>
#include <kpemu/user_namespace.h>
#include <kpemu/world.h>

/* Soft and hard limit, in the unit of the limit; RLIM64_INFINITY (all ones) = unlimited. */
struct rlim {
	uint64_t cur, max;
};
#define RLIM_INF UINT64_MAX

enum {
	PF_FORKNOEXEC = 1 << 0,	  /* has not exec'd since it was made */
	PF_NPROC_EXCEEDED = 1 << 1,
	PF_ADOPTED = 1 << 2,	  /* found running, not made by a call of ours */
	PF_PROC_READER = 1 << 3,  /* has opened an emulated /proc file: lseek and pread look closer */
	PF_PIDNS = 1 << 4,	  /* in a pid namespace below the launcher's ... */
	PF_PIDNS_INIT = 1 << 5,	  /* ... as its first: pid is the maker's number for it, not 1 */
	PF_SIGNALFD = 1 << 6,	  /* may have a signalfd: read() looks closer */
	PF_DEAD = 1 << 7,	  /* the leader's: ended, not reaped, as far as anybody has seen */
	PF_CHROOTED = 1 << 8,	  /* has changed its root: it may not make user namespaces */
	PF_PROC_WRITER = 1 << 9,  /* may have an emulated file open for writing: write() looks closer */
	PF_INOTIFY = 1 << 10,	  /* has made an inotify instance that is counted */
};

/*
 * A free slot has pid, group_leader, mm, ucounts, updating and alloc_ns 0, so that a slot whose maker
 * dies before filling it in holds nothing.
 */
struct task_struct {
	uint64_t slot;
	int32_t pid, tgid;	/* 0 while SLOT_NEW: the new task has not been seen running */
	uint32_t parent;	/* slot_ref() of the parent's leader; 0 = the launcher */
	uint32_t group_leader;	/* slot_ref(); its own for a leader */
	uint32_t mm;		/* index + 1; 0 = none */
	uint32_t ucounts;	/* index + 1 of the record that holds the NPROC charge; 0 = none */
	uint64_t updating;	/* the counter this task is inside of (update_word()); 0 = none */
	uint64_t alloc_ns;	/* boot time before the real clone ... */
	uint64_t born_ns;	/* ... and after it, UINT64_MAX = not known: start lies between */
	uint32_t flags;
	uint32_t pad;
	uint64_t start_fn, start_arg; /* of a new thread; private addresses of its process */
	uint64_t start_flags;	      /* the clone flags it was made with */
	uint64_t start_mask;	      /* of a new thread: the signals it starts with blocked */
	uint64_t moving;	      /* as updating: the counter that a charge is moved from */
	struct rlim rlim[UCOUNT_RLIMIT_COUNTS]; /* the leader's are the process's */
	struct cred cred;
	uint32_t sending; /* slot_ref() of the process it is sending a signal to */
	uint32_t sig_mask_known; /* sig_mask_next is what the thread has, or has in a moment */
	uint64_t sig_used[2]; /* signals that may wait in each of its queues (enum sig_queue) */
	uint64_t sig_ignored; /* the leader's is the process's: signals set to SIG_IGN */
	uint64_t sig_blocked; /* true only while signal_mask_matters() */
	uint32_t sig_gate; /* the leader's: slot_ref() of the task that nobody may disturb by sending */
	uint32_t nr_timers; /* the leader's: a process with 0 has none; else it may have */
	uint64_t sig_mask_next;
	uint32_t ns[NR_NS_KINDS]; /* numbers of its namespaces; 0: the initial ones */
	uint32_t pad1;
	uint64_t clone_args[11]; /* what a new task's real clone3() is called with */
	uint8_t reserved[1024 - 96 - 64 - sizeof(struct cred) - 64 - 32 - 88];
};
static_assert(sizeof(struct task_struct) == WORLD_TASK_SIZE, "ABI");

/*
 * current - the calling thread's task; NULL = not attached, every call passes through.
 * Owner: preload/ (or the command, which is an observer).
 */
extern __thread struct task_struct *current __attribute__((tls_model("initial-exec")));

static inline uint32_t task_ref(const struct task_struct *t)
{
	return slot_ref(table_index(TABLE_TASK, t), READ_ONCE(t->slot));
}

/* task_get - the task that @ref names; NULL if it is gone or @ref is 0. */
static inline struct task_struct *task_get(uint32_t ref)
{
	struct task_struct *t = ref ? table_slot(TABLE_TASK, ref & 0xffff) : NULL;

	return t && slot_state(READ_ONCE(t->slot)) != SLOT_FREE && task_ref(t) == ref ? t : NULL;
}

static inline struct task_struct *task_leader(struct task_struct *t)
{
	int pid = READ_ONCE(t->pid);
	struct task_struct *l;

	if (pid && pid == READ_ONCE(t->tgid))
		return t;
	l = task_get(READ_ONCE(t->group_leader));
	return l ? l : t;
}

/* task_counted - a task as the kernel counts them (not an observer, not free)? */
static inline bool task_counted(const struct task_struct *t)
{
	unsigned int s = slot_state(READ_ONCE(t->slot));

	return s == SLOT_NEW || s == SLOT_LIVE || s == SLOT_RELEASING;
}

#define for_each_task(i, t)                                                                        \
	for (uint32_t i = 0; ((t) = table_slot(TABLE_TASK, i)); i++)

/* find_task_by_vpid - the live task with thread id @pid; NULL. O(1) as a rule, else a scan. */
struct task_struct *find_task_by_vpid(int pid);

/*
 * copy_process - what clone(2) does to the accounts, before the real call (kernel/fork.c).
 *
 * A new task of @parent: credentials and limits copied, the address space shared or new as
 * @clone_flags say, one unit of NPROC charged to every level. Over the limit and not exempt:
 * NULL, *@err = -EAGAIN, *@why filled, nothing charged; -EAGAIN also when the world has no slot
 * left. The record's dead tasks are looked for before a refusal. On success the caller makes the
 * real call and then either task_born() (parent and child, whoever is first) or
 * release_task() on failure. Lock-free; callers block signals.
 */
struct task_struct *copy_process(struct task_struct *parent, uint64_t clone_flags, int *err,
				 struct refusal *why);

/*
 * task_born - the new task @t (made with reference @ref) runs as @pid of group @tgid.
 * Returns false if somebody took the slot back because its maker died: the caller adopts.
 */
bool task_born(struct task_struct *t, uint32_t ref, int pid, int tgid);

/*
 * task_adopt - a slot for a running task that no call of ours made; charged without a check.
 * @parent may be NULL. NULL when the world is full. The caller is then not attached.
 */
struct task_struct *task_adopt(struct task_struct *parent, int pid, int tgid);

/*
 * task_first - the program's first task, NPROC 1, not yet running: the child of the launcher
 * calls task_born(). NULL when the world is full. Only the launcher calls this.
 */
struct task_struct *task_first(const struct cred *cred,
			       const struct rlim rlim[UCOUNT_RLIMIT_COUNTS]);

/* task_observer - a slot for the launcher or a command: never counted, owns what it changes. */
struct task_struct *task_observer(int pid);

/*
 * begin_new_exec - in the new image, after a successful exec of @t: the group's other tasks go,
 * the address space is a new one, exec's rules for credentials apply. Returns the task that goes
 * on, the group's leader (a thread that execs takes its place), or NULL when the world is full.
 */
struct task_struct *begin_new_exec(struct task_struct *t);

/*
 * release_task - give back all that @t holds: the NPROC unit, its address space, the slot.
 * Only the caller that wins the slot does it; safe to call twice and after the death of another
 * releaser. Lock-free; callers block signals. (kernel/exit.c)
 */
void release_task(struct task_struct *t);

/* release_group - release the tasks of the group that was @tgid, if the kernel says it is gone. */
void release_group(int tgid);

/* exit_thread - the calling thread @t ends; its process goes on. A leader stays until reaped. */
void exit_thread(struct task_struct *t);

/* task_gone - has the kernel no such task any more (or another one under its number)? */
bool task_gone(struct task_struct *t);

/* task_dead - will it never take another step (gone, or a zombie that nobody has reaped)? */
bool task_dead(struct task_struct *t);

/*
 * reap_dead - release every task that is gone, finish what dead owners left half done, recompute
 * the counters they died in. @record: only tasks that share a level with this record
 * (index); -1: all.
 * Returns how many tasks were released. Done before every refusal and every read for a person.
 */
int reap_dead(int64_t record);

/* task_owner_alive - can the task named in a slot word or lock still take a step? */
bool task_owner_alive(uint32_t ref);

/*
 * world_lock - take a lock of the world for the task that @me names; it waits, asleep, for a living
 * holder. Callers block signals. True: a dead one had it, and left its work half done.
 */
bool world_lock(struct world_lock *lock, uint32_t me);
void world_unlock(struct world_lock *lock);

/* nr_threads - live tasks of @t's group. */
unsigned int nr_threads(struct task_struct *t);

/* world_has_tasks - is any counted task left? */
bool world_has_tasks(void);

/*
 * do_prlimit - get and set one of the four limits of @t's process (kernel/sys.c).
 * @new, @old may be NULL. 0, -EINVAL (soft above hard), -EPERM (raising hard without
 * CAP_SYS_RESOURCE of @caller). Readers on other CPUs may see one of the two numbers change first,
 * never soft above hard.
 */
long do_prlimit(struct task_struct *caller, struct task_struct *t, enum rlimit_type type,
		const struct rlim *new, struct rlim *old);

/* check_prlimit_permission - may @caller read or set the limits of @t? 0 or -EPERM. */
long check_prlimit_permission(struct task_struct *caller, struct task_struct *t);

/* rlimit - soft limit of @t's process. */
static inline uint64_t rlimit(struct task_struct *t, enum rlimit_type type)
{
	return READ_ONCE(task_leader(t)->rlim[type].cur);
}

#endif
