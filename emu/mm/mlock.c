/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locked memory per address space: admission, the account, and its reconciliation with the host. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>

#include <kpemu/mlock.h>
#include <kpemu/sched.h>

#include "emu/lib/rawsys.h"
#include "emu/mm/lockmap.h"
#include "emu/mm/vma.h"

/*
 * locked_vm is the number of bits in the map plus what calls in progress have charged and not
 * settled. A charge is a compare-and-swap that never passes the limit, so two threads cannot
 * pass it together; bits change afterwards, each counted by the one thread that changed it.
 *
 * What that leaves open is a refusal that would not have happened one call after the other: two
 * threads that lock the same pages are both charged for a moment. And the map goes stale when
 * libc unmaps by itself. So a refusal is decided alone: the gate is closed, the calls of other
 * threads are waited for (each has its reference in updater[]), the map is reconciled with the
 * kernel's, and the charge is tried again. All waits are bounded; who loses patience goes on.
 *
 * Nothing here blocks signals. A handler that locks memory while its own thread is inside such a
 * call finds that thread's entry and neither waits nor reconciles.
 */
#define PATIENCE 300 /* pauses: 64 yields, then sleeps of 0.1 ms */

struct mm_struct *mm_alloc(uint32_t owner)
{
	struct mm_struct *mm = table_alloc(TABLE_MM, owner);

	if (!mm)
		return NULL;
	atomic64_set(&mm->locked_vm, 0);
	WRITE_ONCE(mm->def_flags, 0);
	WRITE_ONCE(mm->flags, 0);
	WRITE_ONCE(mm->gate, 0);
	WRITE_ONCE(mm->forced, 0);
	for (int i = 0; i < MM_DIRS; i++)
		WRITE_ONCE(mm->dir[i], 0);
	for (int i = 0; i < MM_UPDATERS; i++)
		WRITE_ONCE(mm->updater[i], 0);
	return mm;
}

void mm_free(struct mm_struct *mm)
{
	lockmap_free(mm);
	table_free(TABLE_MM, mm);
}

struct mm_struct *task_mm(const struct task_struct *t)
{
	uint32_t idx = READ_ONCE(t->mm);

	return idx ? table_slot(TABLE_MM, idx - 1) : NULL;
}

unsigned long mm_locked_kb(const struct task_struct *t)
{
	const struct mm_struct *mm = task_mm(t);
	int64_t pages = mm ? atomic64_read(&mm->locked_vm) : 0;

	return pages > 0 ? pages << (PAGE_SHIFT - 10) : 0;
}

/* Waiting for another thread: false when the patience is at its end. */
static bool pause_a_little(unsigned int *n)
{
	const struct timespec ts = { 0, 100000 };

	if (++*n > PATIENCE)
		return false;
	if (*n <= 64)
		sys_call(__NR_sched_yield);
	else
		sys_call(__NR_nanosleep, &ts, NULL);
	return true;
}

/* Wait until *@ref is 0 or names a dead task, which is then put to 0. */
static bool wait_for_zero(uint32_t *ref)
{
	unsigned int n = 0;
	uint32_t who;

	while ((who = READ_ONCE(*ref))) {
		if (n % 64 == 63 && !task_owner_alive(who) && cmpxchg(ref, who, 0) == who)
			break;
		if (!pause_a_little(&n))
			return false;
	}
	return true;
}

static bool is_updater(struct mm_struct *mm, uint32_t me)
{
	for (int i = 0; i < MM_UPDATERS; i++)
		if (READ_ONCE(mm->updater[i]) == me)
			return true;
	return false;
}

static int enter_updater(struct mm_struct *mm, uint32_t me)
{
	for (int i = 0; i < MM_UPDATERS; i++)
		if (!READ_ONCE(mm->updater[i]) && !cmpxchg(&mm->updater[i], 0, me))
			return i;
	return -1;
}

static void leave_updater(struct mlock_op *op)
{
	if (op->updater >= 0)
		smp_store_release(&op->mm->updater[op->updater], 0);
	op->updater = -1;
}

static void enter(struct mlock_op *op)
{
	struct mm_struct *mm = op->mm;
	uint32_t me = task_ref(op->task);
	unsigned int n = 0;

	if (is_updater(mm, me))
		return;
	for (;;) {
		uint32_t gate;

		op->updater = enter_updater(mm, me);
		gate = READ_ONCE(mm->gate);
		if (op->updater >= 0 && !gate)
			return;
		if (gate == me)
			break;
		leave_updater(op);
		if (gate ? !wait_for_zero(&mm->gate) : !pause_a_little(&n))
			break;
	}
	/* A reconciliation that is under way has to look again. */
	fetch_add(&mm->forced, 1);
	if (op->updater < 0)
		op->updater = enter_updater(mm, me);
}

void mlock_begin(struct mlock_op *op, struct task_struct *t, struct mm_struct *mm)
{
	*op = (struct mlock_op){ .task = t, .mm = mm, .updater = -1 };
	enter(op);
}

void mlock_end(struct mlock_op *op)
{
	leave_updater(op);
}

/* Close the gate and see everybody else out. */
static bool close_gate(struct mm_struct *mm, uint32_t me)
{
	uint32_t found;

	while ((found = cmpxchg(&mm->gate, 0, me)))
		if (found == me || !wait_for_zero(&mm->gate))
			return false;
	for (int i = 0; i < MM_UPDATERS; i++)
		if (READ_ONCE(mm->updater[i]) == me || !wait_for_zero(&mm->updater[i])) {
			smp_store_release(&mm->gate, 0);
			return false;
		}
	return true;
}

static void open_gate(struct mm_struct *mm)
{
	smp_store_release(&mm->gate, 0);
}

struct reconciliation {
	struct mm_struct *mm;
	uint64_t done; /* pages below are as the kernel says */
};

static bool is_world(const struct vma *vma)
{
	return world_overlaps(vma->start, vma->end);
}

static int reconcile_vma(const struct vma *vma, void *arg)
{
	struct reconciliation *r = arg;
	uint64_t first = vma->start >> PAGE_SHIFT, end = vma->end >> PAGE_SHIFT;
	bool refused = READ_ONCE(r->mm->flags) & MM_HOST_REFUSED;

	lockmap_clear(r->mm, r->done, first, NULL);
	r->done = end;
	if (vma->special || (!vma->locked && !refused))
		lockmap_clear(r->mm, first, end, NULL);
	else if (vma->locked && !is_world(vma) && !lockmap_prepare(r->mm, first, end))
		lockmap_set(r->mm, first, end);
	return 0;
}

/*
 * Behind the closed gate. A handler may still break in: then once more. A program that is refused
 * again and again pays for the long way only if the kernel's count says that something is wrong;
 * where the host has refused, that count means nothing, and what is mapped is all there is to see.
 */
static void reconcile(struct mm_struct *mm)
{
	for (int tries = 0; tries < 3; tries++) {
		bool refused = READ_ONCE(mm->flags) & MM_HOST_REFUSED;
		struct reconciliation r = { .mm = mm };
		uint32_t forced = READ_ONCE(mm->forced);
		int64_t v = atomic64_read(&mm->locked_vm);

		if (!refused && host_locked_vm() == v)
			break;
		if (vma_walk(!refused, reconcile_vma, &r) > 0)
			lockmap_clear(mm, r.done, LOCKMAP_END, NULL);
		if (atomic64_cmpxchg(&mm->locked_vm, v, lockmap_count(mm, 0, LOCKMAP_END)) == v &&
		    READ_ONCE(mm->forced) == forced)
			break;
	}
}

void mlock_reconcile(struct task_struct *t)
{
	struct mm_struct *mm = task_mm(t);

	if (!mm || mm_idle(mm) || !close_gate(mm, task_ref(t)))
		return;
	reconcile(mm);
	open_gate(mm);
}

static uint64_t limit_pages(struct task_struct *t)
{
	if (capable(t, CAP_IPC_LOCK))
		return INT64_MAX;
	return rlimit(t, UCOUNT_RLIMIT_MEMLOCK) >> PAGE_SHIFT;
}

/* Pages of a range that are locked already do not count twice. */
static uint64_t new_pages(struct mlock_op *op, uint64_t pages)
{
	return pages - lockmap_count(op->mm, op->first, op->end);
}

static bool try_charge(struct mlock_op *op, uint64_t pages)
{
	uint64_t limit = limit_pages(op->task), asked = new_pages(op, pages);
	int64_t v = atomic64_read(&op->mm->locked_vm);

	do {
		if ((v > 0 ? v : 0) + asked > limit)
			return false;
	} while (!try_cmpxchg(&op->mm->locked_vm.counter, &v, v + (int64_t)asked));
	op->charged += asked;
	return true;
}

static bool charge(struct mlock_op *op, uint64_t pages)
{
	uint32_t me = task_ref(op->task);
	bool ok;

	if (try_charge(op, pages))
		return true;
	if (op->updater < 0)
		return false;
	leave_updater(op);
	if (!close_gate(op->mm, me)) {
		enter(op);
		return try_charge(op, pages);
	}
	reconcile(op->mm);
	ok = try_charge(op, pages);
	op->updater = enter_updater(op->mm, me);
	open_gate(op->mm);
	return ok;
}

static long refuse(struct mlock_op *op, int err, uint64_t asked, struct refusal *why)
{
	struct task_struct *t = op->task;
	int64_t use = atomic64_read(&op->mm->locked_vm);

	*why = (struct refusal){
		.err = err,
		.type = UCOUNT_RLIMIT_MEMLOCK,
		.ns = t->cred.user_ns,
		.uid = t->cred.uid,
		.pid = t->pid,
		.use = use > 0 ? use : 0,
		.limit = rlimit(t, UCOUNT_RLIMIT_MEMLOCK) >> PAGE_SHIFT,
		.asked = asked,
	};
	return -err;
}

long can_do_mlock(struct mlock_op *op, uint64_t pages, struct refusal *why)
{
	if (rlimit(op->task, UCOUNT_RLIMIT_MEMLOCK) || capable(op->task, CAP_IPC_LOCK))
		return 0;
	return refuse(op, EPERM, pages, why);
}

long mlock_charge(struct mlock_op *op, uint64_t start, uint64_t len, struct refusal *why)
{
	uint64_t pages;
	long ret;

	len = PAGE_ALIGN(len + start % PAGE_SIZE);
	pages = len >> PAGE_SHIFT;
	start &= ~(PAGE_SIZE - 1);
	ret = can_do_mlock(op, pages, why);
	if (ret)
		return ret;
	op->first = start >> PAGE_SHIFT;
	op->end = op->first + pages;
	if (!charge(op, pages))
		return refuse(op, ENOMEM, new_pages(op, pages), why);
	if (start + len < start) {
		mlock_cancel(op);
		return -EINVAL;
	}
	op->first_new = lockmap_first_clear(op->mm, op->first, op->end);
	return 0;
}

long mlock_future_charge(struct mlock_op *op, uint64_t pages, int err, struct refusal *why)
{
	return charge(op, pages) ? 0 : refuse(op, err, pages, why);
}

/* @n bits have become set. */
static void pay(struct mlock_op *op, int64_t n)
{
	if (n > op->charged)
		atomic64_add_return(n - op->charged, &op->mm->locked_vm);
	op->charged -= n < op->charged ? n : op->charged;
}

long mlock_place(struct mlock_op *op, uint64_t first, uint64_t end)
{
	if (lockmap_prepare(op->mm, first, end))
		return -ENOMEM;
	pay(op, lockmap_set(op->mm, first, end));
	return 0;
}

long mlock_settle(struct mlock_op *op, uint64_t first, uint64_t end)
{
	long ret = mlock_place(op, first, end);

	mlock_cancel(op);
	return ret;
}

void mlock_cancel(struct mlock_op *op)
{
	if (op->charged)
		atomic64_sub_return(op->charged, &op->mm->locked_vm);
	op->charged = 0;
}

uint64_t mlock_release(struct mlock_op *op, uint64_t first, uint64_t end, struct lockmap_undo *undo)
{
	uint64_t n = lockmap_clear(op->mm, first, end, undo);

	if (n)
		atomic64_sub_return(n, &op->mm->locked_vm);
	return n;
}

void mlock_restore(struct mlock_op *op, const struct lockmap_undo *undo)
{
	uint64_t n = lockmap_restore(op->mm, undo);

	if (n)
		atomic64_add_return(n, &op->mm->locked_vm);
}

uint64_t mlock_lift(struct mlock_op *op, uint64_t first, uint64_t end, struct lockmap_undo *undo)
{
	uint64_t n = lockmap_clear(op->mm, first, end, undo);

	op->charged += n;
	return n;
}

void mlock_drop(struct mlock_op *op, const struct lockmap_undo *undo)
{
	pay(op, lockmap_restore(op->mm, undo));
}

long mlockall_check(struct mlock_op *op, int flags, uint64_t total_vm, struct refusal *why)
{
	int64_t use = atomic64_read(&op->mm->locked_vm);
	long ret;

	if (!flags || (flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) || flags == MCL_ONFAULT)
		return -EINVAL;
	ret = can_do_mlock(op, flags & MCL_CURRENT ? total_vm : 0, why);
	if (ret)
		return ret;
	if (!(flags & MCL_CURRENT) || total_vm <= limit_pages(op->task))
		return 0;
	/* The sum of use and asked is what is compared: everything that is mapped. */
	return refuse(op, ENOMEM, (int64_t)total_vm > use ? total_vm - use : 0, why);
}
