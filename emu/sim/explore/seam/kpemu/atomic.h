/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * include/kpemu/atomic.h as the explorer has it: every access is a call that says where it is and
 * what it is, and may let other virtual CPUs run first. This directory comes first in the include
 * path of emu/sim/explore's build, so the sources of emu/ are the very ones that run.
 */
#ifndef KPEMU_ATOMIC_H
#define KPEMU_ATOMIC_H

#include <stdint.h>

#include "emu/sim/explore/seam.h"

static inline void step(void)
{
}

typedef struct {
	int64_t counter;
} atomic64_t;

typedef struct {
	int32_t counter;
} atomic_t;

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define READ_ONCE(x)            ((__typeof__(x))seam_load(&(x), sizeof(x), SEAM_SITE(#x)))
#define WRITE_ONCE(x, v)        seam_store(&(x), sizeof(x), (uint64_t)(v), SEAM_SITE(#x))
#define smp_load_acquire(p)     ((__typeof__(*(p)))seam_load((p), sizeof(*(p)), SEAM_SITE("*(" #p ")")))
#define smp_store_release(p, v) seam_store((p), sizeof(*(p)), (uint64_t)(v), SEAM_SITE("*(" #p ")"))
#define smp_mb()                seam_mb(SEAM_SITE("smp_mb"))
#define smp_rmb()               ((void)0) /* loads stay in order: the memory is SC or TSO */
#define cpu_relax()             seam_yield(SEAM_SITE("cpu_relax"))
#define prefetchw(p)            ((void)(p))

/* (A statement, so that a result may be left unused.) */
#define seam_rmw_of(op, p, v)                                                          \
	({                                                                             \
		__typeof__(*(p)) was_ = (__typeof__(*(p)))seam_rmw(                    \
			op, (p), sizeof(*(p)), (uint64_t)(v), SEAM_SITE("*(" #p ")")); \
		was_;                                                                  \
	})

#define cmpxchg(p, old, new)                                                                       \
	({                                                                                         \
		uint64_t found_ = (uint64_t)(old);                                                 \
		seam_cmpxchg((p), sizeof(*(p)), &found_, (uint64_t)(new), SEAM_SITE("*(" #p ")")); \
		__typeof__(*(p)) was_ = (__typeof__(*(p)))found_;                                  \
		was_;                                                                              \
	})
#define try_cmpxchg(p, oldp, new)                                                       \
	({                                                                              \
		uint64_t found_ = (uint64_t) * (oldp);                                  \
		_Bool done_ = seam_cmpxchg((p), sizeof(*(p)), &found_, (uint64_t)(new), \
					   SEAM_SITE("*(" #p ")"));                     \
		*(oldp) = (__typeof__(*(p)))found_;                                     \
		done_;                                                                  \
	})
#define try_cmpxchg_relaxed(p, oldp, new) try_cmpxchg(p, oldp, new)
#define fetch_add_relaxed(p, v)           seam_rmw_of(SEAM_ADD, p, v)
#define xchg(p, v)                        seam_rmw_of(SEAM_XCHG, p, v)
#define fetch_or(p, v)                    seam_rmw_of(SEAM_OR, p, v)
#define fetch_andnot(p, v)                seam_rmw_of(SEAM_ANDNOT, p, v)
#define fetch_add(p, v)                   seam_rmw_of(SEAM_ADD, p, v)

#define try_cmpxchg128(p, old0, old1, new0, new1)                                  \
	seam_cmpxchg128((p), (uint64_t)(old0), (uint64_t)(old1), (uint64_t)(new0), \
			(uint64_t)(new1), SEAM_SITE("*(" #p ")"))

/* Macros, so that a trace shows the caller. */
#define atomic64_read(v) READ_ONCE((v)->counter)
#define atomic64_set(v, i) \
	((void)seam_rmw(SEAM_XCHG, &(v)->counter, 8, (uint64_t)(i), SEAM_SITE("(" #v ")->counter")))
#define atomic64_add_return(i, v)                                                           \
	({                                                                                  \
		int64_t by_ = (i);                                                          \
		int64_t now_ = (int64_t)seam_rmw(SEAM_ADD, &(v)->counter, 8, (uint64_t)by_, \
						 SEAM_SITE("(" #v ")->counter")) +          \
			       by_;                                                         \
		now_;                                                                       \
	})
#define atomic64_sub_return(i, v)     atomic64_add_return(-(int64_t)(i), v)
#define atomic64_inc(v)               ((void)atomic64_add_return(1, v))
#define atomic64_cmpxchg(v, old, new) cmpxchg(&(v)->counter, old, new)

static inline void atomic64_max(atomic64_t *v, int64_t i)
{
	int64_t old = atomic64_read(v);

	while (old < i && !try_cmpxchg(&v->counter, &old, i))
		;
}

#endif
