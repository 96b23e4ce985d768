/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The map of locked pages: directories of leaves, bits set and cleared word by word. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <kpemu/mlock.h>

#include "emu/mm/lockmap.h"

/*
 * A directory is an open hash table of 512 entries, a leaf 512 words of 64 bits. An entry is
 * written once and never moves until the mm is gone, so that a lookup needs no lock: it ends at
 * the first empty entry. mlock() may be called in signal handlers and by many threads, and a
 * tree with a lock in it would have to block signals, which is two system calls. Pages are not
 * given back when their last bit is cleared, for the same reason.
 *
 * A page belongs to the mm by the owner in its descriptor, not by the entry that leads to it:
 * one that was lost by a death between allocation and insertion is freed with the others.
 */
#define LEAF_SHIFT  15 /* pages per leaf */
#define WORD_BITS   64
#define DIR_ENTRIES 512
#define MANY_LEAVES 64 /* a range of more than these is done by looking at the leaves there are */

enum sweep_op {
	SWEEP_COUNT,
	SWEEP_SET,
	SWEEP_CLEAR,
};

struct sweep {
	enum sweep_op op;
	uint64_t first, end;
	uint64_t n; /* bits found set, or changed */
	struct lockmap_undo *undo;
};

static uint64_t dir_entry(uint64_t leaf, uint32_t page)
{
	return (leaf + 1) << 16 | page;
}

static uint64_t entry_leaf(uint64_t entry)
{
	return (entry >> 16) - 1;
}

static uint64_t *entry_page(uint64_t entry)
{
	return table_slot(TABLE_PAGE, entry & 0xffff);
}

static uint64_t *dir_page(struct mm_struct *mm, int k)
{
	uint32_t idx = smp_load_acquire(&mm->dir[k]);

	return idx ? table_slot(TABLE_PAGE, idx - 1) : NULL;
}

static uint32_t mm_ref(struct mm_struct *mm)
{
	return slot_ref(table_index(TABLE_MM, mm), READ_ONCE(mm->slot));
}

/* A page of zeros that belongs to @mm: index + 1, or 0. Nobody sees it before it is linked. */
static uint32_t new_page(struct mm_struct *mm)
{
	uint64_t *desc;
	uint32_t idx;

	if (!(READ_ONCE(mm->flags) & MM_MAP))
		fetch_or(&mm->flags, (uint32_t)MM_MAP);
	desc = table_alloc(TABLE_PAGE_DESC, mm_ref(mm));
	if (!desc)
		return 0;
	idx = table_index(TABLE_PAGE_DESC, desc);
	if (table_reserve(TABLE_PAGE, idx + 1)) {
		table_free(TABLE_PAGE_DESC, desc);
		return 0;
	}
	memset(table_slot(TABLE_PAGE, idx), 0, PAGE_SIZE);
	return idx + 1;
}

static void drop_page(uint32_t idx)
{
	if (idx)
		table_free(TABLE_PAGE_DESC, table_slot(TABLE_PAGE_DESC, idx - 1));
}

/* The entry of @leaf, or the empty one where it belongs; NULL if @dir is full of others. */
static uint64_t *dir_probe(uint64_t *dir, uint64_t leaf)
{
	uint32_t at = leaf * 0x9e3779b97f4a7c15ull >> 55;

	for (int n = 0; n < DIR_ENTRIES; n++) {
		uint64_t *entry = &dir[(at + n) % DIR_ENTRIES];
		uint64_t e = smp_load_acquire(entry);

		if (!e || entry_leaf(e) == leaf)
			return entry;
	}
	return NULL;
}

static uint64_t *leaf_find(struct mm_struct *mm, uint64_t leaf)
{
	for (int k = 0; k < MM_DIRS; k++) {
		uint64_t *dir = dir_page(mm, k), *entry, e;

		if (!dir)
			return NULL;
		entry = dir_probe(dir, leaf);
		if (!entry)
			continue;
		e = smp_load_acquire(entry);
		return e && entry_leaf(e) == leaf ? entry_page(e) : NULL;
	}
	return NULL;
}

static uint64_t *dir_get(struct mm_struct *mm, int k)
{
	uint32_t fresh;

	if (!READ_ONCE(mm->dir[k])) {
		fresh = new_page(mm);
		if (!fresh)
			return NULL;
		if (cmpxchg(&mm->dir[k], 0, fresh))
			drop_page(fresh);
	}
	return dir_page(mm, k);
}

static uint64_t *leaf_insert(struct mm_struct *mm, uint64_t leaf)
{
	uint32_t fresh = new_page(mm);

	for (int k = 0; fresh && k < MM_DIRS; k++) {
		uint64_t *dir = dir_get(mm, k), *entry, e;

		while (dir && (entry = dir_probe(dir, leaf))) {
			e = cmpxchg(entry, 0, dir_entry(leaf, fresh - 1));
			if (!e)
				return entry_page(fresh - 1);
			if (entry_leaf(e) == leaf) {
				drop_page(fresh);
				return entry_page(e);
			}
		}
		if (!dir)
			break;
	}
	drop_page(fresh);
	return NULL;
}

int lockmap_prepare(struct mm_struct *mm, uint64_t first, uint64_t end)
{
	uint64_t leaf = first >> LEAF_SHIFT, last = (end - 1) >> LEAF_SHIFT;

	if (first >= end)
		return 0;
	if (last - leaf >= MM_DIRS * DIR_ENTRIES)
		return -ENOMEM;
	for (; leaf <= last; leaf++)
		if (!leaf_find(mm, leaf) && !leaf_insert(mm, leaf))
			return -ENOMEM;
	return 0;
}

static void note_undo(struct lockmap_undo *undo, uint64_t word, uint64_t bits)
{
	if (!undo)
		return;
	if (word - undo->base < LOCKMAP_UNDO_WORDS)
		undo->bits[word - undo->base] |= bits;
	else
		undo->lost = true;
}

/* Words that need no change are only read: relocking what is locked writes nothing. */
static void sweep_word(struct sweep *s, uint64_t *w, uint64_t mask, uint64_t word)
{
	uint64_t had = READ_ONCE(*w) & mask;

	switch (s->op) {
	case SWEEP_COUNT:
		break;
	case SWEEP_SET:
		if (had == mask)
			return;
		had = mask & ~fetch_or(w, mask);
		break;
	case SWEEP_CLEAR:
		if (!had)
			return;
		had = mask & fetch_andnot(w, mask);
		note_undo(s->undo, word, had);
		break;
	}
	s->n += __builtin_popcountll(had);
}

static void sweep_leaf(struct sweep *s, uint64_t *words, uint64_t leaf)
{
	uint64_t page = leaf << LEAF_SHIFT, end = (leaf + 1) << LEAF_SHIFT, next;

	if (page < s->first)
		page = s->first;
	if (end > s->end)
		end = s->end;
	for (; page < end; page = next) {
		uint64_t mask = ~0ull << page % WORD_BITS;

		next = (page | (WORD_BITS - 1)) + 1;
		if (next > end) {
			mask &= ~0ull >> (next - end);
			next = end;
		}
		sweep_word(s, &words[page / WORD_BITS % (PAGE_SIZE / 8)], mask, page / WORD_BITS);
	}
}

static void sweep_dir(struct sweep *s, uint64_t *dir)
{
	for (int i = 0; i < DIR_ENTRIES; i++) {
		uint64_t e = smp_load_acquire(&dir[i]), *words = e ? entry_page(e) : NULL;

		if (words)
			sweep_leaf(s, words, entry_leaf(e));
	}
}

static uint64_t sweep(struct mm_struct *mm, enum sweep_op op, uint64_t first, uint64_t end,
		      struct lockmap_undo *undo)
{
	struct sweep s = { op, first, end, 0, undo };
	uint64_t leaf = first >> LEAF_SHIFT, last = (end - 1) >> LEAF_SHIFT, *words;

	if (first >= end)
		return 0;
	if (last - leaf >= MANY_LEAVES) {
		for (int k = 0; k < MM_DIRS && dir_page(mm, k); k++)
			sweep_dir(&s, dir_page(mm, k));
		return s.n;
	}
	for (; leaf <= last; leaf++) {
		words = leaf_find(mm, leaf);
		if (words)
			sweep_leaf(&s, words, leaf);
	}
	return s.n;
}

uint64_t lockmap_set(struct mm_struct *mm, uint64_t first, uint64_t end)
{
	return sweep(mm, SWEEP_SET, first, end, NULL);
}

uint64_t lockmap_clear(struct mm_struct *mm, uint64_t first, uint64_t end,
		       struct lockmap_undo *undo)
{
	if (undo) {
		memset(undo, 0, sizeof(*undo));
		undo->base = first / WORD_BITS;
	}
	return sweep(mm, SWEEP_CLEAR, first, end, undo);
}

uint64_t lockmap_restore(struct mm_struct *mm, const struct lockmap_undo *undo)
{
	struct sweep s = { .op = SWEEP_SET };

	for (int i = 0; i < LOCKMAP_UNDO_WORDS; i++) {
		uint64_t word = undo->base + i, *words;

		if (!undo->bits[i])
			continue;
		words = leaf_find(mm, word * WORD_BITS >> LEAF_SHIFT);
		if (words)
			sweep_word(&s, &words[word % (PAGE_SIZE / 8)], undo->bits[i], word);
	}
	return s.n;
}

uint64_t lockmap_count(struct mm_struct *mm, uint64_t first, uint64_t end)
{
	return sweep(mm, SWEEP_COUNT, first, end, NULL);
}

uint64_t lockmap_first_clear(struct mm_struct *mm, uint64_t first, uint64_t end)
{
	while (first < end) {
		uint64_t *words = leaf_find(mm, first >> LEAF_SHIFT), gap;

		if (!words)
			return first;
		gap = ~READ_ONCE(words[first / WORD_BITS % (PAGE_SIZE / 8)]) >> first % WORD_BITS;
		if (gap) {
			first += __builtin_ctzll(gap);
			break;
		}
		first = (first | (WORD_BITS - 1)) + 1;
	}
	return first < end ? first : end;
}

void lockmap_free(struct mm_struct *mm)
{
	uint32_t me = mm_ref(mm), n = table_high_water(TABLE_PAGE_DESC);

	if (!(READ_ONCE(mm->flags) & MM_MAP))
		return;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t *desc = table_slot(TABLE_PAGE_DESC, i), w = desc ? READ_ONCE(*desc) : 0;

		if (slot_state(w) != SLOT_FREE && slot_owner(w) == me)
			table_free(TABLE_PAGE_DESC, desc);
	}
	for (int k = 0; k < MM_DIRS; k++)
		WRITE_ONCE(mm->dir[k], 0);
	fetch_andnot(&mm->flags, (uint32_t)MM_MAP);
}
