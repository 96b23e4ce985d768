/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one seam between the model and the machine: every shared access of emu/ goes through here. */
#ifndef KPEMU_ATOMIC_H
#define KPEMU_ATOMIC_H

#include <stdint.h>

/*
 * step() marks each store to shared memory. Test builds (KPEMU_KILL_STEPS) count the marks and
 * kill the process at the n-th one, so that every point between two stores is a place to die.
 */
#ifdef KPEMU_KILL_STEPS
void step(void);
#else
static inline void step(void)
{
}
#endif

typedef struct {
	int64_t counter;
} atomic64_t;

typedef struct {
	int32_t counter;
} atomic_t;

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) (step(), __atomic_store_n(&(x), (v), __ATOMIC_RELAXED))
#define smp_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) (step(), __atomic_store_n((p), (v), __ATOMIC_RELEASE))
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define cpu_relax() __builtin_ia32_pause()
/* prefetchw - the line of @p, to be written soon. Older processors do nothing then. */
#define prefetchw(p) __asm__ volatile("prefetchw %0" : : "m"(*(p)))

/* cmpxchg - fully ordered; returns the value found, which is @old exactly when it succeeded. */
#define cmpxchg(p, old, new)                                                                       \
	({                                                                                         \
		__typeof__(*(p)) __old = (old);                                                    \
		step();                                                                            \
		__atomic_compare_exchange_n((p), &__old, (new), 0, __ATOMIC_SEQ_CST,               \
					    __ATOMIC_SEQ_CST);                                     \
		__old;                                                                             \
	})
/* try_cmpxchg - fully ordered; on failure *@oldp becomes the value found. */
#define try_cmpxchg(p, oldp, new)                                                                  \
	(step(), __atomic_compare_exchange_n((p), (oldp), (new), 0, __ATOMIC_SEQ_CST,              \
					     __ATOMIC_SEQ_CST))
/* ..._relaxed - atomic only: for numbers that order nothing. */
#define try_cmpxchg_relaxed(p, oldp, new)                                                          \
	(step(), __atomic_compare_exchange_n((p), (oldp), (new), 0, __ATOMIC_RELAXED,              \
					     __ATOMIC_RELAXED))
#define fetch_add_relaxed(p, v) (step(), __atomic_fetch_add((p), (v), __ATOMIC_RELAXED))
#define xchg(p, v) (step(), __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))
#define fetch_or(p, v) (step(), __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST))
#define fetch_andnot(p, v) (step(), __atomic_fetch_and((p), ~(v), __ATOMIC_SEQ_CST))
#define fetch_add(p, v) (step(), __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))

/*
 * try_cmpxchg128 - compare and swap the two words at @p, 16 bytes aligned; true on success.
 * For what must change together with the word that says whose it is.
 */
static inline _Bool try_cmpxchg128(uint64_t *p, uint64_t old0, uint64_t old1, uint64_t new0,
				   uint64_t new1)
{
	_Bool ok;

	step();
	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(ok), "+m"(*(unsigned __int128 *)p), "+a"(old0), "+d"(old1)
			 : "b"(new0), "c"(new1)
			 : "memory");
	return ok;
}

static inline int64_t atomic64_read(const atomic64_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);
}

static inline void atomic64_set(atomic64_t *v, int64_t i)
{
	step();
	__atomic_store_n(&v->counter, i, __ATOMIC_SEQ_CST);
}

static inline int64_t atomic64_add_return(int64_t i, atomic64_t *v)
{
	step();
	return __atomic_add_fetch(&v->counter, i, __ATOMIC_SEQ_CST);
}

static inline int64_t atomic64_sub_return(int64_t i, atomic64_t *v)
{
	return atomic64_add_return(-i, v);
}

static inline void atomic64_inc(atomic64_t *v)
{
	atomic64_add_return(1, v);
}

static inline int64_t atomic64_cmpxchg(atomic64_t *v, int64_t old, int64_t new)
{
	return cmpxchg(&v->counter, old, new);
}

/* atomic64_max - raise @v to at least @i; for high-water marks. */
static inline void atomic64_max(atomic64_t *v, int64_t i)
{
	int64_t old = atomic64_read(v);

	while (old < i && !try_cmpxchg(&v->counter, &old, i))
		;
}

#endif
