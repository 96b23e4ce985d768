/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the stand-ins of atomic.h, rseq.h and rawsys.h call: one function for each kind of step. */
#ifndef EMU_SIM_EXPLORE_SEAM_H
#define EMU_SIM_EXPLORE_SEAM_H

#include <stdbool.h>
#include <stdint.h>

/* Where in the sources a step is, and how the sources call what it is about. */
struct seam_site {
	const char *file, *func, *text;
	int line;
};

#define SEAM_SITE(what)                                                                       \
	({                                                                                    \
		static const struct seam_site site_ = { __FILE__, __func__, what, __LINE__ }; \
		&site_;                                                                       \
	})

enum seam_op {
	SEAM_XCHG,
	SEAM_ADD,
	SEAM_OR,
	SEAM_ANDNOT
};

/*
 * Accesses of @size bytes at @p. Each is a step: others may run before it. Outside of a virtual CPU
 * (setup and checks of a test), and to what only one virtual CPU can see, it is a plain access.
 */
uint64_t seam_load(const void *p, unsigned int size, const struct seam_site *at);
/* A plain store; under TSO it waits in the virtual CPU's store buffer. */
void seam_store(void *p, unsigned int size, uint64_t v, const struct seam_site *at);
/* Locked operations; what was there before. */
uint64_t seam_rmw(enum seam_op op, void *p, unsigned int size, uint64_t v,
		  const struct seam_site *at);
/* True: *@old was there, and is now @new. False: *@old becomes what was there. */
bool seam_cmpxchg(void *p, unsigned int size, uint64_t *old, uint64_t new,
		  const struct seam_site *at);
bool seam_cmpxchg128(void *p, uint64_t old0, uint64_t old1, uint64_t new0, uint64_t new1,
		     const struct seam_site *at);
void seam_mb(const struct seam_site *at);
/* The caller has nothing to do before somebody else changes something that it has read. */
void seam_yield(const struct seam_site *at);

/* The virtual CPU that the caller is on. */
int seam_cpu(const struct seam_site *at);

/*
 * A restartable sequence on the slot of the CPU that the caller is on, @base + cpu * *@stride: one
 * step, as the kernel guarantees. SLOT_WITHIN adds @a if that leaves the slot in -@b..@b;
 * SLOT_CMPXCHG stores @b where @a is. False: nothing stored.
 */
enum seam_slot_op {
	SLOT_ADD,
	SLOT_WITHIN,
	SLOT_CMPXCHG
};
bool seam_slot(enum seam_slot_op op, char *base, const uint32_t *stride, const uint32_t *cpus,
	       unsigned int size, int64_t a, int64_t b, const struct seam_site *at);

/* System calls: memory comes from the explorer's arena, sched_yield is seam_yield(). */
long seam_sys(const struct seam_site *at, long nr, long a, long b, long c);

/* What a virtual CPU finds where glibc says how large its rseq area is. */
extern const long seam_rseq_offset;
extern const unsigned int seam_rseq_size;

#endif
