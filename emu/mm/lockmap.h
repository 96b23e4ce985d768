/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which pages of an address space are locked: a sparse bitmap in pages of the world. */
#ifndef EMU_MM_LOCKMAP_H
#define EMU_MM_LOCKMAP_H

#include <stdbool.h>
#include <stdint.h>

struct mm_struct;

/*
 * Pages are numbered by address >> PAGE_SHIFT, ranges are [first, end). Everything here is
 * lock-free and async-signal-safe; how the changes of several threads add up is the business of
 * the caller, who is told exactly how many bits it was that changed them.
 *
 * One leaf covers 128 MiB of addresses; MM_DIRS full directories cover 512 GiB of locked ranges.
 * A range that needs more, or a world without free pages, is -ENOMEM.
 */
#define PAGE_SHIFT        12
#define PAGE_SIZE         (1ull << PAGE_SHIFT)
#define PAGE_ALIGN(bytes) (((bytes) + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1))
#define LOCKMAP_END       (1ull << (64 - PAGE_SHIFT)) /* above every page number */

/* What lockmap_clear() took away, as far as it lies within 4096 pages. */
#define LOCKMAP_UNDO_WORDS 64
struct lockmap_undo {
	uint64_t base; /* number of the first word */
	uint64_t bits[LOCKMAP_UNDO_WORDS];
	bool lost; /* there was more */
};

static inline bool lockmap_undo_test(const struct lockmap_undo *undo, uint64_t page)
{
	uint64_t word = page / 64 - undo->base;

	return word < LOCKMAP_UNDO_WORDS && (undo->bits[word] >> page % 64 & 1);
}

/* lockmap_prepare - see that every bit of the range has memory. 0 or -ENOMEM; no bit changes. */
int lockmap_prepare(struct mm_struct *mm, uint64_t first, uint64_t end);

/* lockmap_set - set the range, which was prepared. Returns how many bits were clear before. */
uint64_t lockmap_set(struct mm_struct *mm, uint64_t first, uint64_t end);

/*
 * lockmap_clear - clear the range. Returns how many bits were set before; @undo, which may be
 * NULL, remembers which.
 */
uint64_t lockmap_clear(struct mm_struct *mm, uint64_t first, uint64_t end,
		       struct lockmap_undo *undo);

/* lockmap_restore - set what @undo remembers. Returns how many bits were clear before. */
uint64_t lockmap_restore(struct mm_struct *mm, const struct lockmap_undo *undo);

/* lockmap_count - how many bits of the range are set. */
uint64_t lockmap_count(struct mm_struct *mm, uint64_t first, uint64_t end);

/* lockmap_first_clear - the first page of the range that is not locked; @end if all are. */
uint64_t lockmap_first_clear(struct mm_struct *mm, uint64_t first, uint64_t end);

static inline bool lockmap_test(struct mm_struct *mm, uint64_t page)
{
	return lockmap_count(mm, page, page + 1);
}

/*
 * lockmap_free - give every page of the map back. For an mm that nobody uses any more; may be
 * repeated after a death in the middle of it.
 */
void lockmap_free(struct mm_struct *mm);

#endif
