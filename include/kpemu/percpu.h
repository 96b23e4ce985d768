/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Per-CPU memory for 1 to 1024 emulated CPUs, in shared or private memory. */
#ifndef KPEMU_PERCPU_H
#define KPEMU_PERCPU_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kpemu/atomic.h>
#include <kpemu/rseq.h>

/*
 * An area gives each emulated CPU a run of bytes of its own, as a chunk of the kernel's does.
 * percpu_alloc() gives an offset, and behind it each CPU has a slot in its run. Runs begin at 64
 * bytes and share no cache line; allocations may share lines of one CPU. Everything is found by
 * offsets from where it is said, so an area, and what refers to it from the same mapping, works at
 * any address in any process.
 *
 * There are two modes, and an area is in one of them from the beginning to the end, because a slot
 * is either changed by critical sections of its own CPU or by atomics, never by both:
 *
 *   rseq     Emulated CPUs are the machine's. Who cannot have a critical section (no registered
 *            area: glibc.pthread.rseq=0, glibc before 2.35, a thread that glibc has not made; an
 *            emulated CPU of its own; a CPU that the area does not have; a debugger that steps) has
 *            no slot: see PERCPU_NO_SLOT and the spare run.
 *   atomic   A relaxed atomic on the slot of the thread's emulated CPU, percpu_this_cpu().
 *
 * All operations on slots are async-signal-safe, lock-free, and order nothing: a sum is exact when
 * nobody adds and the adds happened before it by other means. Only init, alloc, free and hotplug
 * are meant for one context at a time where it is said.
 *
 * A process that is killed leaves each slot before or after an operation, never between. What an
 * operation has taken out of a slot for a shared level (a carry) is lost if the process dies before
 * it adds it there: the shared level is then too low (or high) by that carry for good, until who
 * owns the counter sets it to what its objects say. The order cannot be turned round: added above
 * first, the amount would be seen twice instead.
 *
 * A child of vfork, or of clone(CLONE_VM) without a thread pointer of its own, shares its parent's
 * rseq area but is not registered: see percpu_suspend_rseq().
 */
#define PERCPU_MAX_CPUS 1024
#define PERCPU_MAX_RUN  65536 /* bytes of a run */
#define PERCPU_LINE     64
#define PERCPU_UNIT     4 /* bytes: what the allocator counts in, as the kernel's */

/* An area; the bitmap of units, the owners of units and the runs follow it. */
struct percpu_area {
	uint32_t nr_cpus; /* possible CPUs; 0 until the area is made */
	uint32_t rseq_cpus; /* nr_cpus in rseq mode, else 0 */
	uint32_t stride; /* bytes from a CPU's run to the next */
	uint32_t run; /* bytes of a run, multiple of PERCPU_LINE */
	uint32_t nr_online;
	uint32_t fail_nth; /* allocations until one fails; 0 = none does */
	uint64_t runs; /* bytes from here to CPU 0's run */
	uint64_t pad[4];
	uint64_t online[PERCPU_MAX_CPUS / 64];
};
static_assert(sizeof(struct percpu_area) == 192, "ABI");

/*
 * A slot of each CPU. It must stay where it was set, and where several processes use it, it must
 * lie in the mapping of its area. All bytes 0 = none.
 */
struct percpu_ptr {
	int64_t slot; /* bytes from here to CPU 0's slot; 0 = none */
	int64_t area; /* bytes from here to the area */
	uint32_t stride; /* of the area */
	uint32_t rseq_cpus; /* of the area */
};
static_assert(sizeof(struct percpu_ptr) == 24, "ABI");

enum percpu_mode {
	PERCPU_AUTO, /* rseq where it is to be had and the emulated CPUs are the machine's */
	PERCPU_ATOMIC,
	PERCPU_RSEQ, /* whatever the number of CPUs */
};

/* --- areas --- */

/*
 * percpu_area_size - bytes of an area of @nr_cpus (1..PERCPU_MAX_CPUS) with @run bytes
 * (1..PERCPU_MAX_RUN) for each; 0 if one of the two is out of range.
 */
size_t percpu_area_size(unsigned int nr_cpus, size_t run);

/*
 * percpu_area_init - make an area in @size bytes at @area: 64-byte-aligned, zero, and populated if
 * it is shared memory (a full /dev/shm must not be found by a store). All CPUs are online.
 * 0; -EINVAL: bad numbers, alignment, mode, not enough bytes, or there is an area already; -ENOSYS:
 * PERCPU_RSEQ, and this process has no registered rseq area. Nothing is changed then.
 * PERCPU_AUTO takes rseq if @nr_cpus lies between the machine's online and possible CPUs.
 */
int percpu_area_init(struct percpu_area *area, size_t size, unsigned int nr_cpus, size_t run,
		     enum percpu_mode mode);

/* percpu_area_new - an area in private memory of its own; NULL: bad arguments or no memory. */
struct percpu_area *percpu_area_new(unsigned int nr_cpus, size_t run, enum percpu_mode mode);

/* percpu_area_delete - gives that memory back. NULL is nothing. */
void percpu_area_delete(struct percpu_area *area);

/*
 * percpu_alloc - @size bytes for each CPU, zero, aligned to @align (a power of two up to 64).
 * An offset >= 0; -ENOMEM: full, or made to fail; -EINVAL. Lock-free, any process, any time; two
 * allocations of more than 256 bytes at once can both fail where one would fit. A death in between
 * leaks what was being allocated. (mm/percpu.c)
 */
long percpu_alloc(struct percpu_area *area, size_t size, size_t align);

/*
 * percpu_free - give back what percpu_alloc() gave, or a part of it in whole units. Nobody may use
 * the slots any more. 0; -EINVAL, with nothing changed, if it is not all allocated.
 */
int percpu_free(struct percpu_area *area, long off, size_t size);

/* percpu_used - bytes of a run that are allocated. */
size_t percpu_used(const struct percpu_area *area);

/* percpu_fail_nth - for tests: the @n-th allocation from now fails; 0 = none. */
void percpu_fail_nth(struct percpu_area *area, unsigned int n);

/* percpu_machine_cpus - the machine's CPUs: the highest one online + 1. */
unsigned int percpu_machine_cpus(void);

/* --- emulated CPUs --- */

/* What a thread knows of itself. All 0 at its start. */
struct percpu_self {
	long rseq_at; /* bytes from the thread pointer to its rseq area; 0 = not known, or not used */
	int set_cpu; /* emulated CPU + 1; 0 = the real one */
	int suspended; /* no critical sections now */
	unsigned int real_cpu; /* last answer of getcpu(2), without rseq */
	unsigned int asked; /* calls since then */
};
extern __thread struct percpu_self percpu_self __attribute__((tls_model("initial-exec")));

/*
 * percpu_cpu - this thread's emulated CPU: the one that was set, else the real one. A hint: it may
 * be another when the function returns, and in a child of vfork it is whatever the parent's was.
 */
unsigned int percpu_cpu_slow(void);

static inline unsigned int percpu_cpu(void)
{
	long at = READ_ONCE(percpu_self.rseq_at);
	int cpu = likely(at) ? rseq_cpu_id(at) : -1;

	return likely(cpu >= 0) ? (unsigned int)cpu : percpu_cpu_slow();
}

/*
 * percpu_set_cpu - this thread's emulated CPU, from now on and after a fork, modulo an area's CPUs;
 * -1 = the real one again. In an area in rseq mode the thread then has no slot.
 */
void percpu_set_cpu(int cpu);

/*
 * percpu_this_cpu - this thread's emulated CPU in @area: the one that was set, else the real one,
 * modulo the number of CPUs; the next one that is online if that is not. It may have changed when
 * the function returns. Without rseq the real CPU is asked for now and then only.
 */
unsigned int percpu_this_cpu(const struct percpu_area *area);

static inline bool percpu_cpu_online(const struct percpu_area *area, unsigned int cpu)
{
	return cpu < area->nr_cpus && READ_ONCE(area->online[cpu / 64]) >> cpu % 64 & 1;
}

/*
 * percpu_cpu_up, percpu_cpu_down - take an emulated CPU on- or offline. 0; -EINVAL: no such CPU, or
 * it is so already; -EBUSY: the last one does not go. One context at a time, and none that makes
 * or destroys a percpu_counter of this area.
 *
 * When a CPU goes, its slots of percpu_counters are folded into their counts; other slots stay as
 * they are. In atomic mode threads on it count on the next online CPU, but one that has looked
 * before may still add to the old slot, so sums look at all possible CPUs. In rseq mode no thread
 * may run on it, as in the kernel: the fold would race with its critical sections.
 * (kernel/rss.md 1, lib/percpu_counter.c)
 */
int percpu_cpu_up(struct percpu_area *area, unsigned int cpu);
int percpu_cpu_down(struct percpu_area *area, unsigned int cpu);

/*
 * percpu_suspend_rseq - this thread has no slot in areas in rseq mode until the returned value is
 * given to percpu_resume_rseq(). To be called before vfork by the parent and ended by it when it
 * runs again: the child works with the parent's thread-local memory, whose cpu_id nobody keeps
 * right for it. (kernel/rseq.c, rseq_fork())
 */
int percpu_suspend_rseq(void);
void percpu_resume_rseq(int old);

/*
 * percpu_fence - when it returns 0, no thread of this process is in a critical section that began
 * before the call. -errno: not known (no membarrier for rseq, Linux before 5.10). It says nothing
 * of other processes: there only a stop of their threads helps, outside of the sections, which
 * cannot be seen. A system call.
 */
int percpu_fence(void);

/* --- slots --- */

/*
 * percpu_ptr_set - make @p mean the slots at @off of @area. The last store is a release: who sees
 * percpu_ptr_valid() may use it, though it was set meanwhile. Never set twice while it is in use.
 */
void percpu_ptr_set(struct percpu_ptr *p, struct percpu_area *area, long off);
void percpu_ptr_clear(struct percpu_ptr *p);

/* percpu_ptr_valid - is it set? An acquire. */
static inline bool percpu_ptr_valid(const struct percpu_ptr *p)
{
	return smp_load_acquire(&p->slot) != 0;
}

/* What lies @off bytes from @p is another object; the compiler must not conclude from @p on it. */
static inline void *percpu_away(const void *p, int64_t off)
{
	char *at = (char *)p;

	__asm__("" : "+r"(at));
	return at + off;
}

/* percpu_ptr_area, percpu_ptr_off - what it was set to. It must be valid. */
static inline struct percpu_area *percpu_ptr_area(const struct percpu_ptr *p)
{
	return percpu_away(p, p->area);
}

static inline long percpu_ptr_off(const struct percpu_ptr *p)
{
	return p->slot - p->area - (long)percpu_ptr_area(p)->runs;
}

/*
 * per_cpu_ptr - the slot of @cpu, which is below nr_cpus; nr_cpus itself is the spare run, where
 * this_cpu_add32() and 64 of those without a slot go.
 */
static inline void *per_cpu_ptr(const struct percpu_ptr *p, unsigned int cpu)
{
	return percpu_away(p, p->slot + (int64_t)cpu * p->stride);
}

/* percpu_read8, percpu_read32 - a CPU's slot, at any time. */
static inline int percpu_read8(const struct percpu_ptr *p, unsigned int cpu)
{
	return READ_ONCE(*(int8_t *)per_cpu_ptr(p, cpu));
}

static inline int32_t percpu_read32(const struct percpu_ptr *p, unsigned int cpu)
{
	return READ_ONCE(*(int32_t *)per_cpu_ptr(p, cpu));
}

static inline int64_t percpu_read64(const struct percpu_ptr *p, unsigned int cpu)
{
	return READ_ONCE(*(int64_t *)per_cpu_ptr(p, cpu));
}

/* percpu_sum8, 32, 64 - all possible CPUs' slots, with the spare one for 32 and 64. */
int64_t percpu_sum8(const struct percpu_ptr *p);
int64_t percpu_sum32(const struct percpu_ptr *p);
int64_t percpu_sum64(const struct percpu_ptr *p);

/*
 * percpu_xchg8, percpu_xchg32 - set a CPU's slot to @v; what it was. Exact at any time in atomic
 * mode. In rseq mode a critical section on that CPU can overwrite it with a sum of what was there
 * before: allowed only while no thread of any process can be in one on that CPU, because they are
 * elsewhere, or have stopped to use this slot and then been fenced (percpu_fence()).
 */
static inline int percpu_xchg8(struct percpu_ptr *p, unsigned int cpu, int8_t v)
{
	return xchg((int8_t *)per_cpu_ptr(p, cpu), v);
}

static inline int32_t percpu_xchg32(struct percpu_ptr *p, unsigned int cpu, int32_t v)
{
	return xchg((int32_t *)per_cpu_ptr(p, cpu), v);
}

/* The same operations for whoever has not been served in the header. */
void percpu_add32_slow(struct percpu_ptr *p, int32_t v);
void percpu_add64_slow(struct percpu_ptr *p, int64_t v);
bool percpu_add_within32_slow(struct percpu_ptr *p, int64_t v, int64_t bound);
long percpu_add_carry8_slow(struct percpu_ptr *p, long v, unsigned int batch);
int64_t percpu_add_batch32_slow(struct percpu_ptr *p, int64_t v, int32_t batch);

/* Read once: a handler that runs next may change it, and 0 must not get through. */
#define percpu_try(p, op, ...)                                                       \
	({                                                                           \
		long at_ = READ_ONCE(percpu_self.rseq_at);                           \
		step();                                                              \
		likely(at_) && likely(op(at_, (char *)(p) + (p)->slot, &(p)->stride, \
					 &(p)->rseq_cpus, __VA_ARGS__));             \
	})

/*
 * this_cpu_add32, this_cpu_add64 - add to this CPU's slot, which wraps. Without a slot: to that of
 * the spare run, by an atomic. Nothing ever leaves a slot; percpu_sum32(), 64 is the result.
 */
static inline void this_cpu_add32(struct percpu_ptr *p, int32_t v)
{
	if (unlikely(!percpu_try(p, rseq_add32, v)))
		percpu_add32_slow(p, v);
}

static inline void this_cpu_add64(struct percpu_ptr *p, int64_t v)
{
	if (unlikely(!percpu_try(p, rseq_add64, v)))
		percpu_add64_slow(p, v);
}

/* What percpu_add_carry8() answers when it has added nothing anywhere. */
#define PERCPU_NO_SLOT LONG_MIN

/*
 * percpu_add_carry8 - level 0 of a counter tree: a signed byte that stays within -(@batch-1) ..
 * @batch-1. Adds @v (up to 2^62) and, if the sum r leaves that range, takes trunc(r / @batch) *
 * @batch out again: the slot keeps the remainder with r's sign. @batch is a power of two, 2..128.
 *
 * The carry that the caller must add to the level above, 0 most of the time; or PERCPU_NO_SLOT: the
 * thread has no slot, and the caller adds @v itself to the shared total, past the levels whose
 * residues are multiples of a batch. (kernel/rss.md 3)
 */
static inline long percpu_add_carry8(struct percpu_ptr *p, long v, unsigned int batch)
{
	if (likely(percpu_try(p, rseq_add_within8, v, (int64_t)batch - 1)))
		return 0;
	return percpu_add_carry8_slow(p, v, batch);
}

/*
 * percpu_add_batch32 - a percpu_counter's slot, which stays within -(@batch-1) .. @batch-1: adds @v
 * (up to 2^62), and if the sum leaves that range, the slot becomes 0. @batch is 1..INT_MAX.
 * What the caller must add to the count: the whole sum or 0; without a slot, @v. (kernel/rss.md 1)
 */
static inline int64_t percpu_add_batch32(struct percpu_ptr *p, int64_t v, int32_t batch)
{
	if (likely(percpu_try(p, rseq_add_within32, v, (int64_t)batch - 1)))
		return 0;
	return percpu_add_batch32_slow(p, v, batch);
}

/*
 * percpu_add_within32 - add @v to this CPU's slot if that leaves it in -@bound..@bound (at most
 * INT_MAX). False: not added, because it would not, or because the thread has no slot.
 */
static inline bool percpu_add_within32(struct percpu_ptr *p, int64_t v, int64_t bound)
{
	return likely(percpu_try(p, rseq_add_within32, v, bound)) ||
	       percpu_add_within32_slow(p, v, bound);
}

/* percpu_take32 - take this CPU's slot to 0; what it was. 0 without a slot. */
int32_t percpu_take32(struct percpu_ptr *p);

#endif
