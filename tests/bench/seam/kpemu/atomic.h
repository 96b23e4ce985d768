/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * include/kpemu/atomic.h that tells tests/bench/ucounts-lines.c of every access. This directory
 * comes first in the include path of its build of the counters.
 */
#ifndef TESTS_BENCH_SEAM_ATOMIC_H
#define TESTS_BENCH_SEAM_ATOMIC_H

#include_next <kpemu/atomic.h>

/* A compare-and-swap that fails has had the line for itself too: it counts as written. */
void line_read(const volatile void *p);
void line_written(const volatile void *p);

#undef READ_ONCE
#undef WRITE_ONCE
#undef smp_load_acquire
#undef smp_store_release
#undef cmpxchg
#undef try_cmpxchg
#undef try_cmpxchg_relaxed
#undef fetch_add_relaxed
#undef xchg
#undef fetch_or
#undef fetch_andnot
#undef fetch_add

#define READ_ONCE(x)            (line_read(&(x)), __atomic_load_n(&(x), __ATOMIC_RELAXED))
#define WRITE_ONCE(x, v)        (line_written(&(x)), __atomic_store_n(&(x), (v), __ATOMIC_RELAXED))
#define smp_load_acquire(p)     (line_read(p), __atomic_load_n((p), __ATOMIC_ACQUIRE))
#define smp_store_release(p, v) (line_written(p), __atomic_store_n((p), (v), __ATOMIC_RELEASE))
#define cmpxchg(p, old, new)                          \
	({                                            \
		__typeof__(*(p)) old_ = (old);        \
		(void)try_cmpxchg((p), &old_, (new)); \
		old_;                                 \
	})
#define try_cmpxchg(p, oldp, new) \
	(line_written(p),         \
	 __atomic_compare_exchange_n((p), (oldp), (new), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define try_cmpxchg_relaxed(p, oldp, new) try_cmpxchg(p, oldp, new)
#define fetch_add_relaxed(p, v)           fetch_add(p, v)
#define xchg(p, v)                        (line_written(p), __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))
#define fetch_or(p, v)                    (line_written(p), __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST))
#define fetch_andnot(p, v)                (line_written(p), __atomic_fetch_and((p), ~(v), __ATOMIC_SEQ_CST))
#define fetch_add(p, v)                   (line_written(p), __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))

/* Functions of the real header, which do not see the above. */
#define try_cmpxchg128(p, ...)    (line_written(p), try_cmpxchg128((p), __VA_ARGS__))
#define atomic64_read(v)          (line_read(v), atomic64_read(v))
#define atomic64_set(v, i)        (line_written(v), atomic64_set((v), (i)))
#define atomic64_add_return(i, v) (line_written(v), atomic64_add_return((i), (v)))
#define atomic64_sub_return(i, v) (line_written(v), atomic64_sub_return((i), (v)))
#define atomic64_inc(v)           (line_written(v), atomic64_inc(v))
#define atomic64_cmpxchg(v, o, n) (line_written(v), atomic64_cmpxchg((v), (o), (n)))
#define atomic64_max(v, i)        (line_written(v), atomic64_max((v), (i)))

#endif
