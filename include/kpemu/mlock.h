/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Address spaces and their locked pages: the MEMLOCK account that belongs to an mm. */
#ifndef KPEMU_MLOCK_H
#define KPEMU_MLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kpemu/refusal.h>
#include <kpemu/world.h>

struct lockmap_undo;
struct task_struct;

enum {
	MM_SHARED = 1 << 0, /* more than one task has used it: look before freeing */
	MM_HOST_REFUSED = 1 << 1, /* the host did not lock all that the model says is locked */
	MM_HOST_FUTURE = 1 << 2, /* the host's own MCL_FUTURE is set */
	MM_MAP = 1 << 3, /* pages of the map may exist: mm_free() looks for them */
};

#define MM_DIRS     8
#define MM_UPDATERS 14

struct mm_struct {
	uint64_t slot;
	atomic64_t locked_vm; /* pages */
	uint32_t def_flags; /* MCL_FUTURE | MCL_ONFAULT in force, else 0 */
	uint32_t flags; /* MM_* */
	uint32_t dir[MM_DIRS]; /* pages of the locked-page map: index + 1; 0 = none */
	uint32_t gate; /* task that reconciles alone; 0 = open */
	uint32_t forced; /* updates that went through a closed gate */
	uint32_t updater[MM_UPDATERS]; /* tasks inside a call that changes the account; 0 = free */
	uint8_t reserved[128 - 32 - 4 * MM_DIRS - 4 * MM_UPDATERS];
};
static_assert(sizeof(struct mm_struct) == WORLD_MM_SIZE, "ABI");

#define for_each_mm(i, mm) for (uint32_t i = 0; ((mm) = table_slot(TABLE_MM, i)); i++)

/* mm_alloc - a new, empty address space made by @owner (a task reference); NULL if none is left. */
struct mm_struct *mm_alloc(uint32_t owner);

/* mm_free - give the mm and its map back; the caller has claimed it (SLOT_NEW or SLOT_RELEASING). */
void mm_free(struct mm_struct *mm);

/* task_mm - the mm of @t; NULL if it has none (it is exiting). */
struct mm_struct *task_mm(const struct task_struct *t);

/* mm_locked_kb - VmLck of @t in kB as /proc/PID/status shows it. */
unsigned long mm_locked_kb(const struct task_struct *t);

/* mm_idle - is nothing locked, and nothing going to be? Then memory calls have no account to keep. */
static inline bool mm_idle(const struct mm_struct *mm)
{
	return !(atomic64_read(&mm->locked_vm) | READ_ONCE(mm->def_flags));
}

/*
 * One call that changes what is locked. It lives on the caller's stack between mlock_begin() and
 * mlock_end(), which tell a reconciliation to wait for it; in between are the charge, the real
 * call, and one of mlock_settle() or mlock_cancel(). All of it is async-signal-safe, and makes
 * no system call unless it has to wait for a reconciliation or is refused.
 */
struct mlock_op {
	struct task_struct *task;
	struct mm_struct *mm;
	int updater; /* index of our entry; -1 = none */
	uint64_t first, end; /* pages asked for (mlock_charge()) */
	uint64_t first_new; /* the first of them that was not locked */
	int64_t charged; /* pages in locked_vm that no bit stands for yet */
};

void mlock_begin(struct mlock_op *op, struct task_struct *t, struct mm_struct *mm);
void mlock_end(struct mlock_op *op);

/*
 * mlock_charge - the checks of mlock(2) for @len bytes at @start, in the kernel's order.
 *
 * 0: op->first and op->end are the range in pages (empty for length 0) and what is not locked of
 * it is charged. -EPERM (soft limit 0), -ENOMEM (over the limit), both without CAP_IPC_LOCK and
 * with *@why filled; -EINVAL (the range wraps): nothing is charged. Before a refusal the account
 * is reconciled. (kernel/ucounts.md 5.1; mm/mlock.c, do_mlock())
 */
long mlock_charge(struct mlock_op *op, uint64_t start, uint64_t len, struct refusal *why);

/* can_do_mlock - 0, or -EPERM with *@why filled: a soft limit of 0 and no CAP_IPC_LOCK. */
long can_do_mlock(struct mlock_op *op, uint64_t pages, struct refusal *why);

/*
 * mlock_future_charge - charge @pages that a mapping will lock as it is made or grows.
 * 0, or -@err with *@why filled and nothing charged. (mm/mmap.c, mlock_future_ok())
 */
long mlock_future_charge(struct mlock_op *op, uint64_t pages, int err, struct refusal *why);

/*
 * mlock_place - the pages [@first, @end) are locked now. Those that were not before are paid from
 * the charge, and beyond it without a check. 0, or -ENOMEM: the world has no room for the map,
 * nothing is changed.
 */
long mlock_place(struct mlock_op *op, uint64_t first, uint64_t end);

/* mlock_settle - mlock_place(), and what is left of the charge is given back, whatever happens. */
long mlock_settle(struct mlock_op *op, uint64_t first, uint64_t end);

/* mlock_cancel - give the charge back. */
void mlock_cancel(struct mlock_op *op);

/*
 * mlock_release - the pages [@first, @end) are not locked any more; returns how many were.
 * @undo may be NULL. mlock_restore() takes it back, beyond the limit if need be.
 */
uint64_t mlock_release(struct mlock_op *op, uint64_t first, uint64_t end,
		       struct lockmap_undo *undo);
void mlock_restore(struct mlock_op *op, const struct lockmap_undo *undo);

/*
 * mlock_lift - take the pages out of the map and keep them charged to @op: they are moving.
 * Returns how many were locked. mlock_drop() puts back what @undo remembers.
 */
uint64_t mlock_lift(struct mlock_op *op, uint64_t first, uint64_t end, struct lockmap_undo *undo);
void mlock_drop(struct mlock_op *op, const struct lockmap_undo *undo);

/*
 * mlockall_check - may @op's task call mlockall(@flags) with @total_vm pages mapped?
 * 0, -EINVAL, -EPERM, -ENOMEM as the system call; *@why is filled for the last two.
 */
long mlockall_check(struct mlock_op *op, int flags, uint64_t total_vm, struct refusal *why);

/*
 * mlock_reconcile - make the account of @t's address space agree with the kernel's list of
 * mappings: bits of what is no longer mapped or locked go, locks made behind our back are taken
 * over (where the host has refused to lock: only what is mapped counts). @t belongs to the calling
 * process. Nothing happens when nothing is locked, when /proc cannot be read or when another
 * thread stays inside a call that locks. Async-signal-safe.
 */
void mlock_reconcile(struct task_struct *t);

#endif
