/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The calling process's real mappings, as the kernel lists them. */
#ifndef EMU_MM_VMA_H
#define EMU_MM_VMA_H

#include <stdbool.h>
#include <stdint.h>

struct vma {
	uint64_t start, end; /* addresses */
	bool read, write, exec, shared;
	/* From smaps only: */
	bool locked;
	bool special; /* mlock() skips it: device memory, the vdso, huge pages ... */
};

/*
 * vma_walk - call @fn(vma, @arg) for every mapping of the calling process, in order.
 *
 * Reads smaps if @flags, else maps, which costs less and does not say what is locked. Stops when
 * @fn returns something else than 0. The list is not one snapshot: the kernel finds its way back
 * by address after each KiB of text. Returns how many mappings it went through, or -errno when
 * the list could not be read to its end (no /proc, no descriptor left); @fn may have been called
 * by then. Async-signal-safe, about 1.5 KiB of stack.
 */
int vma_walk(bool flags, int (*fn)(const struct vma *vma, void *arg), void *arg);

/*
 * host_locked_vm - how many pages the kernel has locked for the calling process, or -errno. A
 * hundredth of the cost of walking smaps. Async-signal-safe, about 1.5 KiB of stack.
 */
int64_t host_locked_vm(void);

#endif
