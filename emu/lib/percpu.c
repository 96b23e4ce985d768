/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Per-CPU memory: areas, the allocator in them, emulated CPUs, and adds that the header leaves. */
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>

#include <kpemu/percpu.h>
#include <kpemu/percpu_counter.h>

#include "emu/lib/percpu.h"
#include "emu/lib/rawsys.h"

/* Attempts at a change before a thread goes without a slot: a debugger may step through each. */
#define TRIES 20
/* Adds for which an answer of getcpu(2) is good. Any slot is right; its own is the quick one. */
#define ASK_EVERY 64

__thread struct percpu_self percpu_self __attribute__((tls_model("initial-exec")));

/* glibc's, since 2.35. Weak, so that older ones will do and the dynamic linker is not needed. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* --- who runs where --- */

/* Bytes from the thread pointer to a registered area; 0 = this process has none. */
static long rseq_offset(void)
{
	/* cpu_id_start, cpu_id and rseq_cs are in the first 16 bytes */
	if (!RSEQ_HERE || !&__rseq_size || __rseq_size < 16)
		return 0;
	return __rseq_offset;
}

/* The CPU that the thread really runs on, if the kernel keeps it up to date; else negative. */
static int registered_cpu(void)
{
	long at = rseq_offset();

	return at ? rseq_cpu_id(at) : -1;
}

/* Where this thread's rseq area is, if it may have critical sections; else 0. */
static long rseq_begin(void)
{
	struct percpu_self *self = &percpu_self;
	long at = rseq_offset();

	if (!at || READ_ONCE(self->suspended) || READ_ONCE(self->set_cpu) || rseq_cpu_id(at) < 0)
		return 0;
	self->rseq_at = at; /* from now on the header knows it */
	return at;
}

static unsigned int real_cpu(void)
{
	struct percpu_self *self = &percpu_self;
	int cpu = registered_cpu();
	unsigned int answer;

	if (cpu >= 0)
		return cpu;
	if (self->asked++ % ASK_EVERY == 0 && !sys_call(__NR_getcpu, &answer, NULL, NULL))
		self->real_cpu = answer;
	return self->real_cpu;
}

void percpu_set_cpu(int cpu)
{
	percpu_self.set_cpu = cpu < 0 ? 0 : cpu + 1;
	if (cpu >= 0)
		percpu_self.rseq_at = 0;
}

int percpu_suspend_rseq(void)
{
	int old = percpu_self.suspended;

	percpu_self.suspended = 1;
	percpu_self.rseq_at = 0;
	return old;
}

void percpu_resume_rseq(int old)
{
	percpu_self.suspended = old;
}

/* The first CPU from @cpu on that is online; @cpu if none is. */
static unsigned int next_online(const struct percpu_area *area, unsigned int cpu)
{
	for (unsigned int i = 0; i < area->nr_cpus; i++) {
		unsigned int next = (cpu + i) % area->nr_cpus;

		if (percpu_cpu_online(area, next))
			return next;
	}
	return cpu;
}

unsigned int percpu_cpu_slow(void)
{
	int set = percpu_self.set_cpu;

	rseq_begin(); /* the header knows the way the next time */
	return set ? (unsigned int)set - 1 : real_cpu();
}

unsigned int percpu_this_cpu(const struct percpu_area *area)
{
	unsigned int cpu = percpu_cpu();

	if (cpu >= area->nr_cpus)
		cpu %= area->nr_cpus;
	return likely(percpu_cpu_online(area, cpu)) ? cpu : next_online(area, cpu);
}

int percpu_fence(void)
{
	int ret = sys_call(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);

	if (ret != -EPERM)
		return ret;
	ret = sys_call(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
	return ret ? ret : sys_call(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
}

/* The highest number in a list like "0-3,8-11", + 1; 0 if it cannot be read. */
static unsigned int highest_cpu(const char *path)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	unsigned int cpu = 0;
	char list[4096];
	long n;

	if (fd < 0)
		return 0;
	n = sys_read(fd, list, sizeof(list));
	sys_close(fd);
	for (long i = 0; i < n && list[i] != '\n'; i++)
		cpu = list[i] < '0' || list[i] > '9' ? 0 : cpu * 10 + (list[i] - '0');
	return n > 0 ? cpu + 1 : 0;
}

/* Where /sys is not to be seen: the highest CPU that this thread may run on, + 1. */
static unsigned int highest_allowed(void)
{
	unsigned char mask[1024];
	long n = sys_call(__NR_sched_getaffinity, 0, sizeof(mask), mask);

	for (long i = n * 8 - 1; i >= 0; i--)
		if (mask[i / 8] >> i % 8 & 1)
			return i + 1;
	return 1;
}

unsigned int percpu_machine_cpus(void)
{
	unsigned int n = highest_cpu("/sys/devices/system/cpu/online");

	return n ? n : highest_allowed();
}

/* --- areas --- */

#define WORD_UNITS 64u /* units in a word of the bitmap */

static unsigned int nr_units(const struct percpu_area *area)
{
	return area->run / PERCPU_UNIT;
}

static size_t line_up(size_t n)
{
	return (n + PERCPU_LINE - 1) & ~(size_t)(PERCPU_LINE - 1);
}

static size_t bitmap_bytes(size_t run)
{
	return (run / PERCPU_UNIT + WORD_UNITS - 1) / WORD_UNITS * sizeof(uint64_t);
}

static uint64_t *bitmap(const struct percpu_area *area)
{
	return (uint64_t *)(area + 1);
}

int64_t *percpu_owners(const struct percpu_area *area)
{
	return (int64_t *)((char *)(area + 1) + bitmap_bytes(area->run));
}

/* Where runs begin in an area with (rounded) runs of @run bytes. */
static size_t runs_at(size_t run)
{
	return line_up(sizeof(struct percpu_area) + bitmap_bytes(run) +
		       run / PERCPU_UNIT * sizeof(int64_t));
}

/*
 * An odd number of lines from run to run. With a power of two, one slot of all CPUs would lie in
 * one set of the cache, and each sum would miss it.
 */
static size_t stride_of(size_t run)
{
	return run | PERCPU_LINE;
}

size_t percpu_area_size(unsigned int nr_cpus, size_t run)
{
	if (!nr_cpus || nr_cpus > PERCPU_MAX_CPUS || !run || run > PERCPU_MAX_RUN)
		return 0;
	run = line_up(run);
	return runs_at(run) + (nr_cpus + 1) * stride_of(run);
}

static bool wants_rseq(enum percpu_mode mode, unsigned int nr_cpus)
{
	if (mode != PERCPU_AUTO)
		return mode == PERCPU_RSEQ;
	if (registered_cpu() < 0)
		return false;
	return nr_cpus == percpu_machine_cpus() ||
	       (nr_cpus > percpu_machine_cpus() &&
		nr_cpus <= highest_cpu("/sys/devices/system/cpu/possible"));
}

int percpu_area_init(struct percpu_area *area, size_t size, unsigned int nr_cpus, size_t run,
		     enum percpu_mode mode)
{
	size_t need = percpu_area_size(nr_cpus, run);

	if (!area || !need || size < need || (uintptr_t)area % PERCPU_LINE ||
	    (unsigned int)mode > PERCPU_RSEQ || READ_ONCE(area->nr_cpus))
		return -EINVAL;
	if (mode == PERCPU_RSEQ && registered_cpu() < 0)
		return -ENOSYS;
	run = line_up(run);
	area->rseq_cpus = wants_rseq(mode, nr_cpus) ? nr_cpus : 0;
	area->stride = stride_of(run);
	area->run = run;
	area->runs = runs_at(run);
	area->nr_online = nr_cpus;
	for (unsigned int cpu = 0; cpu < nr_cpus; cpu++)
		area->online[cpu / 64] |= 1ull << cpu % 64;
	smp_store_release(&area->nr_cpus, nr_cpus);
	return 0;
}

struct percpu_area *percpu_area_new(unsigned int nr_cpus, size_t run, enum percpu_mode mode)
{
	size_t size = percpu_area_size(nr_cpus, run);
	long mem;

	if (!size)
		return NULL;
	mem = sys_call(__NR_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (SYS_ERR(mem))
		return NULL;
	if (percpu_area_init((struct percpu_area *)mem, size, nr_cpus, run, mode)) {
		sys_call(__NR_munmap, mem, size);
		return NULL;
	}
	return (struct percpu_area *)mem;
}

void percpu_area_delete(struct percpu_area *area)
{
	if (area)
		sys_call(__NR_munmap, area, percpu_area_size(area->nr_cpus, area->run));
}

/* --- the allocator: a bitmap of units, first fit --- */

/* The bits of units @first..@first+@n-1 that are in the word of @first. */
static uint64_t units_mask(unsigned int first, unsigned int n)
{
	uint64_t mask = n >= WORD_UNITS ? ~0ull : (1ull << n) - 1;

	return mask << first % WORD_UNITS;
}

static unsigned int units_in_word(unsigned int first, unsigned int n)
{
	unsigned int left = WORD_UNITS - first % WORD_UNITS;

	return n < left ? n : left;
}

/* Do all (or, if !@set, none) of the units belong to somebody? */
static bool units_are(const struct percpu_area *area, bool set, unsigned int first, unsigned int n)
{
	while (n) {
		uint64_t mask = units_mask(first, n);
		unsigned int here = units_in_word(first, n);

		if ((READ_ONCE(bitmap(area)[first / WORD_UNITS]) & mask) != (set ? mask : 0))
			return false;
		first += here;
		n -= here;
	}
	return true;
}

static void put_units(struct percpu_area *area, unsigned int first, unsigned int n)
{
	while (n) {
		unsigned int here = units_in_word(first, n);

		fetch_andnot(&bitmap(area)[first / WORD_UNITS], units_mask(first, n));
		first += here;
		n -= here;
	}
}

/* Take all or none of them. */
static bool take_units(struct percpu_area *area, unsigned int first, unsigned int n)
{
	unsigned int taken = 0;

	while (taken < n) {
		uint64_t *word = &bitmap(area)[(first + taken) / WORD_UNITS];
		uint64_t mask = units_mask(first + taken, n - taken);
		uint64_t old = READ_ONCE(*word);

		do {
			if (old & mask) {
				put_units(area, first, taken);
				return false;
			}
		} while (!try_cmpxchg(word, &old, old | mask));
		taken += units_in_word(first + taken, n - taken);
	}
	return true;
}

static char *run_of(const struct percpu_area *area, unsigned int cpu)
{
	return (char *)area + area->runs + (uint64_t)cpu * area->stride;
}

/* Nobody uses these slots yet, on no CPU. */
static void clear_slots(struct percpu_area *area, unsigned int off, size_t bytes)
{
	for (unsigned int cpu = 0; cpu <= area->nr_cpus; cpu++)
		memset(run_of(area, cpu) + off, 0, bytes);
	memset(&percpu_owners(area)[off / PERCPU_UNIT], 0, bytes / PERCPU_UNIT * sizeof(int64_t));
}

static unsigned int units_of(size_t bytes)
{
	return (bytes + PERCPU_UNIT - 1) / PERCPU_UNIT;
}

/* Is it this allocation that is to fail? */
static bool made_to_fail(struct percpu_area *area)
{
	return unlikely(area->fail_nth) && --area->fail_nth == 0;
}

long percpu_alloc(struct percpu_area *area, size_t size, size_t align)
{
	unsigned int step_units = align > PERCPU_UNIT ? align / PERCPU_UNIT : 1;
	unsigned int units;

	if (!size || !align || align > PERCPU_LINE || align & (align - 1))
		return -EINVAL;
	if (size > area->run || made_to_fail(area))
		return -ENOMEM;
	units = units_of(size);
	for (unsigned int u = 0; u + units <= nr_units(area); u += step_units) {
		if (!units_are(area, false, u, units) || !take_units(area, u, units))
			continue;
		clear_slots(area, u * PERCPU_UNIT, units * PERCPU_UNIT);
		return (long)u * PERCPU_UNIT;
	}
	return -ENOMEM;
}

int percpu_free(struct percpu_area *area, long off, size_t size)
{
	if (off < 0 || off % PERCPU_UNIT || !size || size > area->run ||
	    off > (long)(area->run - units_of(size) * PERCPU_UNIT) ||
	    !units_are(area, true, off / PERCPU_UNIT, units_of(size)))
		return -EINVAL;
	put_units(area, off / PERCPU_UNIT, units_of(size));
	return 0;
}

size_t percpu_used(const struct percpu_area *area)
{
	size_t used = 0;

	for (unsigned int u = 0; u < nr_units(area); u += WORD_UNITS)
		used += __builtin_popcountll(READ_ONCE(bitmap(area)[u / WORD_UNITS]));
	return used * PERCPU_UNIT;
}

void percpu_fail_nth(struct percpu_area *area, unsigned int n)
{
	area->fail_nth = n;
}

/* --- hotplug --- */

/* A death before this is mended by the next change. */
static void count_online(struct percpu_area *area)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < PERCPU_MAX_CPUS / 64; i++)
		n += __builtin_popcountll(READ_ONCE(area->online[i]));
	WRITE_ONCE(area->nr_online, n);
}

int percpu_cpu_up(struct percpu_area *area, unsigned int cpu)
{
	if (cpu >= area->nr_cpus || percpu_cpu_online(area, cpu))
		return -EINVAL;
	fetch_or(&area->online[cpu / 64], 1ull << cpu % 64);
	count_online(area);
	return 0;
}

int percpu_cpu_down(struct percpu_area *area, unsigned int cpu)
{
	if (!percpu_cpu_online(area, cpu))
		return -EINVAL;
	if (area->nr_online == 1)
		return -EBUSY;
	fetch_andnot(&area->online[cpu / 64], 1ull << cpu % 64);
	count_online(area);
	percpu_counter_cpu_dead(area, cpu);
	return 0;
}

/* --- slots --- */

void percpu_ptr_set(struct percpu_ptr *p, struct percpu_area *area, long off)
{
	WRITE_ONCE(p->area, (char *)area - (char *)p);
	WRITE_ONCE(p->stride, area->stride);
	WRITE_ONCE(p->rseq_cpus, area->rseq_cpus);
	smp_store_release(&p->slot, run_of(area, 0) + off - (char *)p);
}

void percpu_ptr_clear(struct percpu_ptr *p)
{
	WRITE_ONCE(p->slot, 0);
}

#define PERCPU_SUM(bits, last)                                         \
	int64_t percpu_sum##bits(const struct percpu_ptr *p)           \
	{                                                              \
		unsigned int n = percpu_ptr_area(p)->nr_cpus + (last); \
		uint64_t sum = 0;                                      \
                                                                       \
		for (unsigned int cpu = 0; cpu < n; cpu++)             \
			sum += percpu_read##bits(p, cpu);              \
		return sum;                                            \
	}
PERCPU_SUM(8, 0)
PERCPU_SUM(32, 1)
PERCPU_SUM(64, 1)

/*
 * This thread's slot; NULL: it has none. *@at is 0 in atomic mode, else only a critical section may
 * change the slot.
 */
static void *this_slot(const struct percpu_ptr *p, long *at)
{
	int cpu;

	*at = 0;
	if (!p->rseq_cpus)
		return per_cpu_ptr(p, percpu_this_cpu(percpu_ptr_area(p)));
	*at = rseq_begin();
	if (!*at)
		return NULL;
	cpu = rseq_cpu_id(*at);
	return (uint32_t)cpu < p->rseq_cpus ? per_cpu_ptr(p, cpu) : NULL;
}

/* Change @slot, or in rseq mode the slot where we are now, which is as good if it holds the same. */
#define SLOT_CMPXCHG(bits)                                                                         \
	static bool slot_cmpxchg##bits(struct percpu_ptr *p, long at, int##bits##_t *slot,         \
				       int##bits##_t old, int##bits##_t new)                       \
	{                                                                                          \
		if (!at)                                                                           \
			return try_cmpxchg_relaxed(slot, &old, new);                               \
		step();                                                                            \
		return rseq_cmpxchg##bits(at, (char *)p + p->slot, &p->stride, &p->rseq_cpus, old, \
					  new);                                                    \
	}
SLOT_CMPXCHG(8)
SLOT_CMPXCHG(32)

/* In rseq mode a critical section, or the spare run; else an atomic. */
#define PERCPU_ADD_SLOW(bits)                                                                      \
	void percpu_add##bits##_slow(struct percpu_ptr *p, int##bits##_t v)                        \
	{                                                                                          \
		int##bits##_t *slot = per_cpu_ptr(p, percpu_ptr_area(p)->nr_cpus);                 \
		long at;                                                                           \
                                                                                                   \
		if (!p->rseq_cpus)                                                                 \
			slot = this_slot(p, &at);                                                  \
		for (int i = 0; p->rseq_cpus && i < TRIES && (at = rseq_begin()); i++)             \
			if (rseq_add##bits(at, (char *)p + p->slot, &p->stride, &p->rseq_cpus, v)) \
				return;                                                            \
		fetch_add_relaxed(slot, v);                                                        \
	}
PERCPU_ADD_SLOW(32)
PERCPU_ADD_SLOW(64)

bool percpu_add_within32_slow(struct percpu_ptr *p, int64_t v, int64_t bound)
{
	long at;

	for (int i = 0; i < TRIES; i++) {
		int32_t *slot = this_slot(p, &at), old;
		int64_t r;

		if (!slot)
			return false;
		old = READ_ONCE(*slot);
		r = old + v;
		if (r < -bound || r > bound)
			return false;
		if (slot_cmpxchg32(p, at, slot, old, r))
			return true;
	}
	return false;
}

int64_t percpu_add_batch32_slow(struct percpu_ptr *p, int64_t v, int32_t batch)
{
	long at;

	for (int i = 0; i < TRIES; i++) {
		int32_t *slot = this_slot(p, &at), old;
		int64_t r;
		bool whole;

		if (!slot)
			break;
		old = READ_ONCE(*slot);
		r = old + v;
		whole = r >= batch || r <= -(int64_t)batch;
		if (slot_cmpxchg32(p, at, slot, old, whole ? 0 : r))
			return whole ? r : 0;
	}
	return v;
}

long percpu_add_carry8_slow(struct percpu_ptr *p, long v, unsigned int batch)
{
	long at;

	for (int i = 0; i < TRIES; i++) {
		int8_t *slot = this_slot(p, &at), old;
		long r, rest;

		if (!slot)
			break;
		old = READ_ONCE(*slot);
		r = old + v;
		rest = r % (long)batch; /* has the sign of r */
		if (slot_cmpxchg8(p, at, slot, old, rest))
			return r - rest;
	}
	return PERCPU_NO_SLOT;
}

int32_t percpu_take32(struct percpu_ptr *p)
{
	long at;

	for (int i = 0; i < TRIES; i++) {
		int32_t *slot = this_slot(p, &at), old;

		if (!slot)
			break;
		old = READ_ONCE(*slot);
		if (!old || slot_cmpxchg32(p, at, slot, old, 0))
			return old;
	}
	return 0;
}
