/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Restartable sequences: one change of the slot of the CPU that the thread really runs on. */
#ifndef KPEMU_RSEQ_H
#define KPEMU_RSEQ_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Each function is one critical section over glibc's registered area (sys/rseq.h), whose offset
 * from the thread pointer is @at. The kernel sends a thread that is preempted, migrated or signalled
 * inside it to the abort label, before anything else runs on that CPU; so load and store act as one
 * instruction towards all threads of all processes on the same CPU. The last instruction is the
 * only store. The CPU is rseq's cpu_id, the number of the machine's CPU, which means the same in
 * every process; mm_cid counts within one address space and does not.
 *
 * The slot is at @base + cpu_id * @stride, and must be changed in this way only. False: nothing was
 * stored, because the thread was interrupted, the CPU is not below @cpus (which is also so for a
 * thread without a registered area, whose cpu_id is negative), or the condition does not hold.
 *
 * Async-signal-safe. Memory order: relaxed.
 */

/* KPEMU_NO_RSEQ builds what other architectures have. */
#if defined(__x86_64__) && !defined(KPEMU_NO_RSEQ)

/*
 * What the kernel finds before an abort label: RSEQ_SIG, as the operand of an instruction that
 * cannot be executed.
 */
#define RSEQ_X86_SIG "0x53053053"

/* From here to RSEQ_CS_END all is done again or not done. Leaves the slot's offset in rax. */
#define RSEQ_CS_BEGIN                                              \
	".pushsection .data.rel.ro.rseq_cs, \"aw\", @progbits\n\t" \
	".balign 32\n"                                             \
	"3:\n\t"                                                   \
	".long 0, 0\n\t"                                           \
	".quad 1f, 2f - 1f, 4f\n\t"                                \
	".popsection\n\t"                                          \
	"leaq 3b(%%rip), %%rax\n\t"                                \
	"movq %%rax, %%fs:8(%[at])\n"                              \
	"1:\n\t"                                                   \
	"movl %%fs:4(%[at]), %%eax\n\t"                            \
	"cmpl %[cpus], %%eax\n\t"                                  \
	"jae %l[out]\n\t"                                          \
	"imull %[stride], %%eax\n\t"

#define RSEQ_CS_END                                                     \
	"2:\n\t"                                                        \
	".pushsection .text.unlikely.rseq_abort, \"ax\", @progbits\n\t" \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                    \
	".long " RSEQ_X86_SIG "\n"                                      \
	"4:\n\t"                                                        \
	"jmp %l[out]\n\t"                                               \
	".popsection\n\t"

#define RSEQ_CS_WHERE    [at] "r"(at), [base] "r"(base), [stride] "m"(*stride), [cpus] "m"(*cpus)
#define RSEQ_CS_CLOBBERS "memory", "cc", "rax", "rcx", "rdx"

#define RSEQ_CS_ARGS long at, char *base, const uint32_t *stride, const uint32_t *cpus

/* One section: @op works on the slot at (%[base], %%rax), and its last instruction is the store. */
#define RSEQ_CS(op, ...)                                          \
	do {                                                      \
		__asm__ goto(RSEQ_CS_BEGIN op "\n" RSEQ_CS_END    \
			     :                                    \
			     : RSEQ_CS_WHERE, __VA_ARGS__         \
			     : RSEQ_CS_CLOBBERS                   \
			     : out);                              \
		return true;                                      \
	out:                                                      \
		return false;                                     \
	} while (0)

/* rseq_add64, rseq_add32 - slot += @v. */
static inline bool rseq_add64(RSEQ_CS_ARGS, int64_t v)
{
	RSEQ_CS("addq %[v], (%[base], %%rax)", [v] "er"(v));
}

static inline bool rseq_add32(RSEQ_CS_ARGS, int32_t v)
{
	RSEQ_CS("addl %[v], (%[base], %%rax)", [v] "ir"(v));
}

/* Into rdx with @load, and out of it with @store if -@bound <= slot + @v <= @bound. */
#define RSEQ_CS_ADD_WITHIN(load, store)                           \
	RSEQ_CS(load " (%[base], %%rax), %%rdx\n\t"               \
		     "addq %[v], %%rdx\n\t"                       \
		     "leaq (%%rdx, %[bound]), %%rcx\n\t"          \
		     "cmpq %[width], %%rcx\n\t"                   \
		     "ja %l[out]\n\t" store ", (%[base], %%rax)", \
		[v] "er"(v), [bound] "r"(bound), [width] "er"(2 * bound))

/* rseq_add_within32, 8 - slot += @v, if that leaves it in -@bound..@bound (for 8 up to 127). */
static inline bool rseq_add_within32(RSEQ_CS_ARGS, int64_t v, int64_t bound)
{
	RSEQ_CS_ADD_WITHIN("movslq", "movl %%edx");
}

static inline bool rseq_add_within8(RSEQ_CS_ARGS, int64_t v, int64_t bound)
{
	RSEQ_CS_ADD_WITHIN("movsbq", "movb %%dl");
}

/* rseq_cmpxchg32, 8 - slot = @new, if it is @old. */
#define RSEQ_CS_CMPXCHG(size, regs)                        \
	RSEQ_CS("cmp" size " %[old], (%[base], %%rax)\n\t" \
		"jne %l[out]\n\t"                          \
		"mov" size " %[new], (%[base], %%rax)",    \
		[old] regs(old), [new] regs(new))

static inline bool rseq_cmpxchg32(RSEQ_CS_ARGS, int32_t old, int32_t new)
{
	RSEQ_CS_CMPXCHG("l", "r");
}

static inline bool rseq_cmpxchg8(RSEQ_CS_ARGS, int8_t old, int8_t new)
{
	RSEQ_CS_CMPXCHG("b", "q");
}

/* rseq_cpu_id - the CPU that the thread runs on; negative where nothing is registered. */
static inline int rseq_cpu_id(long at)
{
	return *(volatile int *)((char *)__builtin_thread_pointer() + at + 4);
}

#define RSEQ_HERE 1

#else

/* No critical sections: areas are made for atomics, and nothing is ever stored in this way. */
#define RSEQ_HERE 0

#define RSEQ_NEVER(name, type)                                                                     \
	static inline bool name(long at, char *base, const uint32_t *stride, const uint32_t *cpus, \
				type a)                                                            \
	{                                                                                          \
		return (void)at, (void)base, (void)stride, (void)cpus, (void)a, false;             \
	}
#define RSEQ_NEVER2(name, type)                                                                    \
	static inline bool name(long at, char *base, const uint32_t *stride, const uint32_t *cpus, \
				type a, type b)                                                    \
	{                                                                                          \
		return (void)at, (void)base, (void)stride, (void)cpus, (void)a, (void)b, false;    \
	}
RSEQ_NEVER(rseq_add64, int64_t)
RSEQ_NEVER(rseq_add32, int32_t)
RSEQ_NEVER2(rseq_add_within32, int64_t)
RSEQ_NEVER2(rseq_add_within8, int64_t)
RSEQ_NEVER2(rseq_cmpxchg32, int32_t)
RSEQ_NEVER2(rseq_cmpxchg8, int8_t)

static inline int rseq_cpu_id(long at)
{
	return (void)at, -1;
}

#endif

#endif
