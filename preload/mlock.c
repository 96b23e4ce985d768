/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mlock and the calls that make, move and unmake locked memory. */
#include <linux/capability.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <kpemu/mlock.h>

#include "preload/hook.h"
#include "emu/mm/lockmap.h"
#include "emu/mm/vma.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/*
 * The model says whether a call is allowed and what is locked; the real call then really locks.
 * Where the host has less to give than the model, the emulated answer stands and the memory is
 * only populated: it is resident, as the program expects, but can be swapped. MM_HOST_REFUSED
 * remembers that the host's view of what is locked is no longer the model's.
 */

static unsigned long addr_of(uint64_t page)
{
	return page << PAGE_SHIFT;
}

static uint64_t page_of(uint64_t addr)
{
	return addr >> PAGE_SHIFT;
}

static long host_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	return sys_call(__NR_mmap, addr, len, prot, flags, fd, off);
}

static long host_munmap(const void *addr, size_t len)
{
	return sys_call(__NR_munmap, addr, len);
}

static long host_mremap(void *old, size_t old_len, size_t new_len, int flags, void *new_addr)
{
	return sys_call(__NR_mremap, old, old_len, new_len, flags, new_addr);
}

static long host_mlock(uint64_t first, uint64_t end, unsigned int flags)
{
	if (flags)
		return sys_call(__NR_mlock2, addr_of(first), addr_of(end - first), flags);
	return sys_call(__NR_mlock, addr_of(first), addr_of(end - first));
}

static long host_munlock(uint64_t first, uint64_t end)
{
	return sys_call(__NR_munlock, addr_of(first), addr_of(end - first));
}

static void note_host_refused(struct mm_struct *mm)
{
	if (!(READ_ONCE(mm->flags) & MM_HOST_REFUSED))
		fetch_or(&mm->flags, (uint32_t)MM_HOST_REFUSED);
	host_collision();
}

/* Is the page really locked? What msync() would invalidate must not be locked memory. */
static bool host_has_locked(uint64_t page)
{
	return sys_call(__NR_msync, addr_of(page), PAGE_SIZE, MS_ASYNC | MS_INVALIDATE) == -EBUSY;
}

static bool host_has_mapped(uint64_t first, uint64_t end)
{
	return !sys_call(__NR_msync, addr_of(first), addr_of(end - first), MS_ASYNC);
}

/* The first page of the range that is not mapped; @end if all are. */
static uint64_t first_hole(uint64_t first, uint64_t end)
{
	uint64_t hole = end, mid;

	if (host_has_mapped(first, end))
		return end;
	while (first < hole) {
		mid = first + (hole - first) / 2;
		if (host_has_mapped(first, mid + 1))
			first = mid + 1;
		else
			hole = mid;
	}
	return first;
}

struct populate {
	uint64_t start, end; /* addresses */
	long ret;
};

/* As the kernel populates locked memory: private writable pages are made, others only read. */
static long populate_part(const struct vma *vma, uint64_t start, uint64_t end)
{
	bool write = vma->write && !vma->shared;
	long r;

	if (!vma->read && !vma->write && !vma->exec)
		return -ENOMEM;
	r = sys_call(__NR_madvise, start, end - start,
		     write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	switch (r) {
	case -ENOMEM:
		return -EAGAIN;
	case -EFAULT:
		return -ENOMEM;
	default:
		return 0; /* special memory, or a kernel that cannot populate */
	}
}

static int populate_vma(const struct vma *vma, void *arg)
{
	struct populate *p = arg;

	if (vma->end <= p->start)
		return 0;
	if (vma->start >= p->end)
		return 1;
	p->ret = populate_part(vma, vma->start > p->start ? vma->start : p->start,
			       vma->end < p->end ? vma->end : p->end);
	return p->ret != 0;
}

/* 0, -ENOMEM or -EAGAIN, as mlock() answers when it has locked but could not populate. */
static long populate(uint64_t first, uint64_t end)
{
	struct populate p = { addr_of(first), addr_of(end), 0 };

	if (vma_walk(false, populate_vma, &p) < 0)
		sys_call(__NR_madvise, p.start, p.end - p.start, MADV_POPULATE_READ);
	return p.ret;
}

/*
 * The real call has failed on a range that the model allowed: because of a hole, because the
 * pages could not be populated, or because the host's limit is lower? Only then is the first page
 * that was to be locked mapped and not locked. Where the host has refused before, the model's
 * pages say nothing about that, and populating once more gives the right answer too.
 */
static long mlock_failed(struct mlock_op *op, long ret, uint64_t *end, unsigned int flags)
{
	uint64_t probe = op->first_new;

	if (ret != -ENOMEM && ret != -EPERM && ret != -EAGAIN) {
		*end = op->first;
		return ret;
	}
	*end = first_hole(op->first, op->end);
	if (*end == op->first)
		return -ENOMEM;
	if (probe >= *end)
		probe = op->first;
	if (!(READ_ONCE(op->mm->flags) & MM_HOST_REFUSED) && host_has_locked(probe))
		return ret;
	note_host_refused(op->mm);
	ret = flags & MLOCK_ONFAULT ? 0 : populate(op->first, *end);
	return *end < op->end ? -ENOMEM : ret;
}

static long mlock_for_real(struct mlock_op *op, unsigned int flags)
{
	bool fresh = op->charged == (int64_t)(op->end - op->first);
	long ret = host_mlock(op->first, op->end, flags);
	uint64_t end = op->end;

	if (ret)
		ret = mlock_failed(op, ret, &end, flags);
	if (!mlock_settle(op, op->first, end))
		return ret;
	/* No room in the world to remember it. */
	if (fresh)
		host_munlock(op->first, end);
	return -ENOMEM;
}

static long do_mlock(const void *addr, size_t len, unsigned int flags, const char *call)
{
	struct mm_struct *mm = task_mm(current);
	struct refusal why = { 0 };
	struct mlock_op op;
	long ret;

	if (!mm)
		return flags ? sys_call(__NR_mlock2, addr, len, flags) :
			       sys_call(__NR_mlock, addr, len);
	mlock_begin(&op, current, mm);
	ret = mlock_charge(&op, (uintptr_t)addr, len, &why);
	if (!ret && op.first != op.end)
		ret = mlock_for_real(&op, flags);
	mlock_end(&op);
	refusal_log(&why, call);
	return ret;
}

long hook_mlock(const void *addr, size_t len)
{
	return do_mlock(addr, len, 0, "mlock");
}

long hook_mlock2(const void *addr, size_t len, unsigned int flags)
{
	if (flags & ~MLOCK_ONFAULT)
		return -EINVAL;
	return do_mlock(addr, len, flags, "mlock2");
}

long hook_munlock(const void *addr, size_t len)
{
	struct mm_struct *mm = task_mm(current);
	long ret = sys_call(__NR_munlock, addr, len);
	uint64_t first, end;
	struct mlock_op op;

	if (!mm || mm_idle(mm) || (ret && ret != -ENOMEM))
		return ret;
	first = page_of((uintptr_t)addr);
	end = first + page_of(PAGE_ALIGN(len + (uintptr_t)addr % PAGE_SIZE));
	if (ret) {
		/* The part before a hole is unlocked; without a hole nothing is known. */
		uint64_t hole = first_hole(first, end);

		end = hole < end ? hole : first;
	}
	mlock_begin(&op, current, mm);
	mlock_release(&op, first, end, NULL);
	mlock_end(&op);
	return ret;
}

/* mlockall */

/* Ours are not the program's: the world is sparse and large, and locking it would fill it. */
static bool is_own(const struct vma *vma)
{
	extern const char __ehdr_start[] __attribute__((visibility("hidden")));
	extern const char _end[] __attribute__((visibility("hidden")));

	if (world_overlaps(vma->start, vma->end))
		return true;
	return vma->start >= (uintptr_t)__ehdr_start && vma->end <= PAGE_ALIGN((uintptr_t)_end);
}

static int add_vma(const struct vma *vma, void *arg)
{
	uint64_t *pages = arg;

	/* The vsyscall page, in the kernel's half, is no mapping of the process. */
	if (!is_own(vma) && (int64_t)vma->start >= 0)
		*pages += page_of(vma->end - vma->start);
	return 0;
}

/* All that the program has mapped, in pages; 0 without /proc. */
static uint64_t total_vm(void)
{
	uint64_t pages = 0;

	return vma_walk(false, add_vma, &pages) < 0 ? 0 : pages;
}

struct lock_all {
	struct mlock_op *op;
	unsigned int flags; /* of mlock2() */
	bool refused;
};

static int lock_vma(const struct vma *vma, void *arg)
{
	struct lock_all *all = arg;
	uint64_t first = page_of(vma->start), end = page_of(vma->end);

	if (vma->special || is_own(vma) || (int64_t)vma->start < 0 ||
	    mlock_settle(all->op, first, end))
		return 0;
	if (!host_mlock(first, end, all->flags) || host_has_locked(first))
		return 0;
	all->refused = true;
	if (!all->flags)
		populate_part(vma, vma->start, vma->end);
	return 0;
}

bool host_capable(int cap)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	return !sys_call(__NR_capget, &hdr, data) && (data[0].effective & 1u << cap);
}

/*
 * Can the host lock as much as the model allows? If not, its MCL_FUTURE must stay off: it would
 * refuse mappings that libc makes for itself, out of our sight.
 */
static bool host_can_hold(void)
{
	uint64_t limit = rlimit(current, UCOUNT_RLIMIT_MEMLOCK);
	struct rlim host;

	if (host_capable(CAP_IPC_LOCK))
		return true;
	if (sys_call(__NR_prlimit64, 0, RLIMIT_MEMLOCK, NULL, &host))
		return false;
	return host.cur >= (capable(current, CAP_IPC_LOCK) ? RLIM_INF : limit);
}

static void drop_host_future(struct mm_struct *mm)
{
	if (!(READ_ONCE(mm->flags) & MM_HOST_FUTURE))
		return;
	sys_call(__NR_munlockall);
	fetch_andnot(&mm->flags, (uint32_t)MM_HOST_FUTURE);
}

/* Give the host the MCL_FUTURE part of @flags. False if it will not have it. */
static bool set_host_future(struct mm_struct *mm, int flags)
{
	if (!(flags & MCL_FUTURE)) {
		/* What this unlocks, the rest of the call (MCL_CURRENT) locks again. */
		drop_host_future(mm);
		return true;
	}
	if (!host_can_hold() || sys_call(__NR_mlockall, flags & ~MCL_CURRENT)) {
		drop_host_future(mm);
		return false;
	}
	fetch_or(&mm->flags, (uint32_t)MM_HOST_FUTURE);
	return true;
}

static void mlockall_for_real(struct mlock_op *op, int flags)
{
	struct lock_all all = { op, flags & MCL_ONFAULT ? MLOCK_ONFAULT : 0, false };

	WRITE_ONCE(op->mm->def_flags, flags & MCL_FUTURE ? flags & ~MCL_CURRENT : 0);
	all.refused = !set_host_future(op->mm, flags);
	if ((flags & MCL_CURRENT) && vma_walk(true, lock_vma, &all) < 0)
		all.refused = true;
	if (all.refused)
		note_host_refused(op->mm);
}

long hook_mlockall(int flags)
{
	struct mm_struct *mm = task_mm(current);
	struct refusal why = { 0 };
	struct mlock_op op;
	long ret;

	if (!mm)
		return sys_call(__NR_mlockall, flags);
	mlock_begin(&op, current, mm);
	ret = mlockall_check(&op, flags, flags & MCL_CURRENT ? total_vm() : 0, &why);
	if (!ret)
		mlockall_for_real(&op, flags);
	mlock_end(&op);
	refusal_log(&why, "mlockall");
	return ret;
}

long hook_munlockall(void)
{
	struct mm_struct *mm = task_mm(current);
	long ret = sys_call(__NR_munlockall);
	struct mlock_op op;

	if (ret || !mm || mm_idle(mm))
		return ret;
	mlock_begin(&op, current, mm);
	WRITE_ONCE(mm->def_flags, 0);
	mlock_release(&op, 0, LOCKMAP_END, NULL);
	/* Nothing is locked, here and there: the two agree again. */
	fetch_andnot(&mm->flags, (uint32_t)(MM_HOST_FUTURE | MM_HOST_REFUSED));
	mlock_end(&op);
	return 0;
}

/* Mappings */

/* What the model has locked as it was made and the host has not yet. */
static void lock_made(struct mm_struct *mm, uint64_t first, uint64_t end)
{
	unsigned int flags = READ_ONCE(mm->def_flags) & MCL_ONFAULT ? MLOCK_ONFAULT : 0;

	if (!host_mlock(first, end, flags) || host_has_locked(first))
		return;
	note_host_refused(mm);
	if (!flags)
		populate(first, end);
}

struct mmap_args {
	void *addr;
	size_t len;
	int prot, flags, fd;
	off_t off;
};

static long real_mmap(const struct mmap_args *a, int flags)
{
	return host_mmap(a->addr, a->len, a->prot, flags, a->fd, a->off);
}

/* MCL_ONFAULT without the host's MCL_FUTURE: no flag of mmap() locks without populating. */
static long mmap_onfault(struct mm_struct *mm, const struct mmap_args *a)
{
	long ret = real_mmap(a, a->flags & ~MAP_LOCKED);

	if (!SYS_ERR(ret))
		lock_made(mm, page_of(ret), page_of(ret + PAGE_ALIGN(a->len)));
	return ret;
}

static long mmap_locked(struct mm_struct *mm, const struct mmap_args *a)
{
	bool onfault = READ_ONCE(mm->def_flags) & MCL_ONFAULT;
	bool future = READ_ONCE(mm->flags) & MM_HOST_FUTURE;
	int flags = a->flags;
	long ret;

	if (onfault && !future)
		return mmap_onfault(mm, a);
	if (!future)
		flags |= MAP_LOCKED;
	ret = real_mmap(a, flags);
	if (ret != -EAGAIN && (ret != -EPERM || !(flags & MAP_LOCKED)))
		return ret;
	if (ret == -EAGAIN)
		drop_host_future(mm);
	ret = real_mmap(a, (a->flags & ~MAP_LOCKED) | (onfault ? 0 : MAP_POPULATE));
	if (!SYS_ERR(ret))
		note_host_refused(mm);
	return ret;
}

/* What the kernel finds wrong before it looks at the limit; asked only before a refusal. */
static long mmap_earlier_error(const struct mmap_args *a)
{
	if (!(a->flags & MAP_ANONYMOUS) && SYS_ERR(sys_call(__NR_fcntl, a->fd, F_GETFD)))
		return -EBADF;
	if ((a->flags & MAP_FIXED) && (uintptr_t)a->addr % PAGE_SIZE)
		return -EINVAL;
	return 0;
}

static long charge_mmap(struct mlock_op *op, const struct mmap_args *a, struct refusal *why)
{
	uint64_t pages = page_of(PAGE_ALIGN(a->len));
	long ret = a->flags & MAP_LOCKED ? can_do_mlock(op, pages, why) : 0, err;

	if (!ret)
		ret = mlock_future_charge(op, pages, EAGAIN, why);
	err = ret ? mmap_earlier_error(a) : 0;
	if (!err)
		return ret;
	why->err = 0;
	return err;
}

static long do_mmap_locked(struct mlock_op *op, const struct mmap_args *a, struct refusal *why)
{
	uint64_t first, end;
	long ret = charge_mmap(op, a, why);

	if (ret)
		return ret;
	ret = mmap_locked(op->mm, a);
	if (SYS_ERR(ret)) {
		mlock_cancel(op);
		return ret;
	}
	first = page_of(ret);
	end = first + page_of(PAGE_ALIGN(a->len));
	if (a->flags & MAP_HUGETLB) {
		mlock_cancel(op);
		mlock_release(op, first, end, NULL);
		return ret;
	}
	if (!mlock_settle(op, first, end))
		return ret;
	/* No room in the world. What a fixed mapping has replaced is gone: keep its place. */
	if (a->flags & MAP_FIXED)
		host_munlock(first, end);
	else
		host_munmap((void *)ret, a->len);
	return -ENOMEM;
}

/* Bits in the range of a new mapping belong to what was there before. */
static long do_mmap_unlocked(struct mlock_op *op, const struct mmap_args *a)
{
	long ret = real_mmap(a, a->flags);

	if (!SYS_ERR(ret))
		mlock_release(op, page_of(ret), page_of(ret + PAGE_ALIGN(a->len)), NULL);
	return ret;
}

long hook_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	const struct mmap_args a = { addr, len, prot, flags, fd, off };
	struct mm_struct *mm = task_mm(current);
	struct refusal why = { 0 };
	struct mlock_op op;
	long ret;

	if (!mm || (!(flags & MAP_LOCKED) && mm_idle(mm)) || !PAGE_ALIGN(len))
		return real_mmap(&a, flags);
	mlock_begin(&op, current, mm);
	if ((flags & MAP_LOCKED) || READ_ONCE(mm->def_flags))
		ret = do_mmap_locked(&op, &a, &why);
	else
		ret = do_mmap_unlocked(&op, &a);
	mlock_end(&op);
	refusal_log(&why, "mmap");
	return ret;
}

struct mremap_args {
	void *old;
	size_t old_len, new_len;
	int flags;
	void *new_addr;
};

static long real_mremap(const struct mremap_args *a)
{
	return host_mremap(a->old, a->old_len, a->new_len, a->flags, a->new_addr);
}

/*
 * munmap(), or the mremap() that shrinks in place. The bits go first: as soon as the range is
 * unmapped another thread may get it. A failure puts them back; of a range too large to remember,
 * what the host says is locked.
 */
static long unmap(struct mm_struct *mm, uint64_t first, uint64_t end, const struct mremap_args *a)
{
	struct lockmap_undo undo;
	struct mlock_op op;
	long ret;

	mlock_begin(&op, current, mm);
	mlock_release(&op, first, end, &undo);
	ret = a ? real_mremap(a) : host_munmap((void *)addr_of(first), addr_of(end - first));
	if (SYS_ERR(ret))
		mlock_restore(&op, &undo);
	mlock_end(&op);
	if (SYS_ERR(ret) && undo.lost)
		mlock_reconcile(current);
	return ret;
}

long hook_munmap(void *addr, size_t len)
{
	uint64_t first = page_of((uintptr_t)addr), end = first + page_of(PAGE_ALIGN(len));
	struct mm_struct *mm = task_mm(current);

	if (!mm || mm_idle(mm) || (uintptr_t)addr % PAGE_SIZE || first >= end)
		return host_munmap(addr, len);
	return unmap(mm, first, end, NULL);
}

/* Pages on their way from one place to another. */
struct move {
	struct mlock_op op;
	uint64_t first, old, new; /* pages */
	uint64_t lifted;
	bool locked; /* the area is, and so will be what it grows by */
	struct lockmap_undo was;
};

/* Growth of locked memory that the host refuses: without the lock, which is then tried again. */
static long mremap_locked(struct move *m, const struct mremap_args *a)
{
	long ret = real_mremap(a);

	if (ret != -EAGAIN || !m->locked)
		return ret;
	host_munlock(m->first, m->first + m->old);
	ret = real_mremap(a);
	if (!SYS_ERR(ret))
		lock_made(m->op.mm, page_of(ret), page_of(ret) + m->new);
	else
		host_mlock(m->first, m->first + m->old, 0);
	return ret;
}

/* No room in the world: the move cannot be undone, so the pages are not locked any more. */
static void place(struct move *m, uint64_t first, uint64_t end)
{
	if (first < end && mlock_place(&m->op, first, end))
		host_munlock(first, end);
}

/* Since 6.17 several areas can move in one call, and of what the host refused one area is both. */
static void place_as_it_was(struct move *m, uint64_t to)
{
	uint64_t kept = m->old < m->new ? m->old : m->new, run = 0;

	if (m->lifted == m->old) {
		place(m, to, to + kept);
		return;
	}
	for (uint64_t i = 0; i < kept && m->lifted && !m->was.lost; i++) {
		if (lockmap_undo_test(&m->was, m->first + i))
			continue;
		place(m, to + run, to + i);
		run = i + 1;
	}
	if (m->lifted && !m->was.lost)
		place(m, to + run, to + kept);
}

static void moved(struct move *m, uint64_t to)
{
	uint64_t grown = to + m->old, end = to + m->new;

	mlock_release(&m->op, to, end, NULL);
	place_as_it_was(m, to);
	if (!m->locked || grown >= end)
		return;
	place(m, grown, end);
	if (READ_ONCE(m->op.mm->flags) & MM_HOST_REFUSED)
		populate(grown, end);
}

static void not_moved(struct move *m)
{
	if (m->lifted == m->old)
		place(m, m->first, m->first + m->old);
	else
		mlock_drop(&m->op, &m->was);
}

struct span {
	uint64_t start, end; /* addresses */
	bool within;
};

static int find_span(const struct vma *vma, void *arg)
{
	struct span *s = arg;

	if (vma->end <= s->start)
		return 0;
	s->within = vma->start <= s->start && vma->end >= s->end;
	return 1;
}

/* mm/mremap.c: a grown area is charged the difference, after a look whether it is one area. */
static long charge_mremap(struct move *m, struct refusal *why)
{
	struct span span = { addr_of(m->first), addr_of(m->first + m->old), false };
	long ret;

	if (!m->locked || m->new <= m->old)
		return 0;
	ret = mlock_future_charge(&m->op, m->new - m->old, EAGAIN, why);
	if (!ret || vma_walk(false, find_span, &span) < 0 || span.within)
		return ret;
	why->err = 0;
	return -EFAULT;
}

static long do_mremap(struct move *m, const struct mremap_args *a, struct refusal *why)
{
	long ret;

	m->locked = lockmap_test(m->op.mm, m->first);
	ret = charge_mremap(m, why);
	if (ret)
		return ret;
	m->lifted = mlock_lift(&m->op, m->first, m->first + m->old, &m->was);
	ret = mremap_locked(m, a);
	if (SYS_ERR(ret))
		not_moved(m);
	else
		moved(m, page_of(ret));
	mlock_cancel(&m->op);
	return ret;
}

/*
 * A failed move may have unmapped its target or moved a part; one of several areas leaves in the
 * target what lies opposite the gaps.
 */
static bool unsure(const struct move *m, const struct mremap_args *a, long ret)
{
	if (m->was.lost)
		return true;
	return (a->flags & MREMAP_FIXED) &&
	       (SYS_ERR(ret) || (m->old == m->new && m->lifted != m->old));
}

static long move(struct mm_struct *mm, const struct mremap_args *a)
{
	struct move m = {
		.first = page_of((uintptr_t)a->old),
		.old = page_of(PAGE_ALIGN(a->old_len)),
		.new = page_of(PAGE_ALIGN(a->new_len)),
	};
	struct refusal why = { 0 };
	long ret;

	mlock_begin(&m.op, current, mm);
	ret = do_mremap(&m, a, &why);
	mlock_end(&m.op);
	refusal_log(&why, "mremap");
	if (unsure(&m, a, ret))
		mlock_reconcile(current);
	return ret;
}

long hook_mremap(void *old, size_t old_len, size_t new_len, int flags, void *new_addr)
{
	const struct mremap_args a = { old, old_len, new_len, flags, new_addr };
	uint64_t first = page_of((uintptr_t)old), end = first + page_of(PAGE_ALIGN(old_len));
	uint64_t new_end = first + page_of(PAGE_ALIGN(new_len));
	struct mm_struct *mm = task_mm(current);

	if (!mm || mm_idle(mm) || (uintptr_t)old % PAGE_SIZE || new_end == first || end < first ||
	    new_end < first || (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP)))
		return real_mremap(&a);
	if (new_end < end && !(flags & MREMAP_FIXED))
		return unmap(mm, new_end, end, &a);
	return move(mm, &a);
}

/* The break */

struct brk_change {
	struct mlock_op op;
	uint64_t from, to; /* pages */
};

/*
 * Before the break of the calling process moves from @from to @to. Returns false if the account
 * does not allow it (the refusal is logged); otherwise brk_end() must follow.
 */
static bool brk_begin(struct brk_change *c, struct mm_struct *mm, uint64_t from, uint64_t to)
{
	struct refusal why = { 0 };
	long ret = 0;

	c->from = page_of(PAGE_ALIGN(from));
	c->to = page_of(PAGE_ALIGN(to));
	mlock_begin(&c->op, current, mm);
	if (c->to > c->from && READ_ONCE(mm->def_flags))
		ret = mlock_future_charge(&c->op, c->to - c->from, ENOMEM, &why);
	if (ret)
		mlock_end(&c->op);
	refusal_log(&why, "brk");
	return !ret;
}

/* Is a failed growth worth another try, because the host's own MCL_FUTURE has just gone? */
static bool brk_retry(struct brk_change *c)
{
	if (!c->op.charged || !(READ_ONCE(c->op.mm->flags) & MM_HOST_FUTURE))
		return false;
	drop_host_future(c->op.mm);
	return true;
}

static void brk_moved(struct brk_change *c)
{
	struct mlock_op *op = &c->op;

	if (!op->charged) {
		/* Gone, or new and not locked: what bits there are are old. */
		mlock_release(op, c->from < c->to ? c->from : c->to,
			      c->from < c->to ? c->to : c->from, NULL);
		return;
	}
	if (!mlock_settle(op, c->from, c->to) && !(READ_ONCE(op->mm->flags) & MM_HOST_FUTURE))
		lock_made(op->mm, c->from, c->to);
}

static void brk_end(struct brk_change *c, bool ok)
{
	if (ok)
		brk_moved(c);
	else
		mlock_cancel(&c->op);
	mlock_end(&c->op);
}

static long host_brk(void *addr)
{
	return sys_call(__NR_brk, addr);
}

long hook_brk_sys(void *addr)
{
	struct mm_struct *mm = task_mm(current);
	struct brk_change c;
	long from, ret;

	if (!mm || mm_idle(mm) || !addr)
		return host_brk(addr);
	from = host_brk(NULL);
	if (!brk_begin(&c, mm, from, (uintptr_t)addr))
		return from;
	ret = host_brk(addr);
	if (ret != (long)addr && brk_retry(&c))
		ret = host_brk(addr);
	brk_end(&c, ret == (long)addr);
	return ret;
}

int hook_brk(void *addr)
{
	struct mm_struct *mm = task_mm(current);
	struct brk_change c;
	int ret;

	if (!mm || mm_idle(mm))
		return next_brk(addr);
	if (!brk_begin(&c, mm, (uintptr_t)next_sbrk(0), (uintptr_t)addr)) {
		errno = ENOMEM;
		return -1;
	}
	ret = next_brk(addr);
	if (ret && brk_retry(&c))
		ret = next_brk(addr);
	brk_end(&c, !ret);
	return ret;
}

void *hook_sbrk(intptr_t increment)
{
	struct mm_struct *mm = task_mm(current);
	struct brk_change c;
	uintptr_t from;
	void *ret;

	if (!mm || mm_idle(mm) || !increment)
		return next_sbrk(increment);
	from = (uintptr_t)next_sbrk(0);
	if (!brk_begin(&c, mm, from, from + increment)) {
		errno = ENOMEM;
		return (void *)-1;
	}
	ret = next_sbrk(increment);
	if (ret == (void *)-1 && brk_retry(&c))
		ret = next_sbrk(increment);
	brk_end(&c, ret != (void *)-1);
	return ret;
}

EXPORT void *mremap(void *old, size_t old_len, size_t new_len, int flags, ...)
{
	void *new_addr = NULL;
	va_list ap;

	if (flags & MREMAP_FIXED) {
		va_start(ap, flags);
		new_addr = va_arg(ap, void *);
		va_end(ap);
	}
	if (task_here())
		return (void *)errno_ret(hook_mremap(old, old_len, new_len, flags, new_addr));
	return (void *)errno_ret(
		sys_call(__NR_mremap, old, old_len, new_len, flags, new_addr));
}
