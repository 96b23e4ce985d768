/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory that each interleaving finds as setup() left it, and what may be done to it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emu/sim/explore/engine.h"

#define CHUNK      (64 * 1024) /* of each thread, so that addresses do not depend on the order */
#define REDZONE    64
#define POISON     0xdd
#define BLOCKS_MAX 256
#define PARTS_MAX  16
#define AREAS_MAX  4

struct block {
	char *p;
	size_t size;
	bool freed;
};

struct part {
	char *p, *copy;
	size_t size;
};

/*
 * Chunk 0 is setup()'s, the others the threads'. Static, as all else is that threads share: the
 * offsets that the sources keep are then the same in each run of the program.
 */
static char arena[CHUNK * (THREADS_MAX + 1)] __attribute__((aligned(4096)));
static size_t used[THREADS_MAX + 1], used_at_setup;
static struct block blocks[BLOCKS_MAX];
static unsigned int nr_blocks, nr_setup_blocks;
static bool setup_freed[BLOCKS_MAX];
static struct part parts[PARTS_MAX];
static unsigned int nr_parts;
static char *mapping; /* memory_map() */
static size_t mapping_size;
static struct percpu_area *areas[AREAS_MAX];
static unsigned int nr_areas;

extern char __start_explore_state[], __stop_explore_state[];

void memory_init(void)
{
	memory_part(__start_explore_state, __stop_explore_state - __start_explore_state);
}

void memory_part(void *p, size_t size)
{
	if (nr_parts == PARTS_MAX)
		abort();
	parts[nr_parts++] = (struct part){ p, malloc(size), size };
}

void memory_snapshot(void)
{
	memory_part(arena, used[0]);
	used_at_setup = used[0];
	nr_setup_blocks = nr_blocks;
	for (unsigned int i = 0; i < nr_blocks; i++)
		setup_freed[i] = blocks[i].freed;
	for (unsigned int i = 0; i < nr_parts; i++)
		memcpy(parts[i].copy, parts[i].p, parts[i].size);
}

void memory_restore(void)
{
	for (unsigned int i = 0; i < nr_parts; i++)
		memcpy(parts[i].p, parts[i].copy, parts[i].size);
	memset(arena + used_at_setup, 0, used[0] - used_at_setup);
	used[0] = used_at_setup;
	for (int i = 1; i <= THREADS_MAX; i++) {
		memset(arena + i * CHUNK, 0, used[i]);
		used[i] = 0;
	}
	nr_blocks = nr_setup_blocks;
	for (unsigned int i = 0; i < nr_blocks; i++)
		blocks[i].freed = setup_freed[i];
}

static bool in_arena(const void *p)
{
	return (const char *)p >= arena && (const char *)p < arena + sizeof(arena);
}

static bool in_state(const void *p)
{
	return (const char *)p >= __start_explore_state && (const char *)p < __stop_explore_state;
}

static bool in_mapping(const void *p)
{
	return mapping && (const char *)p >= mapping && (const char *)p < mapping + mapping_size;
}

/* A thread's stack and its thread-local memory are its own. */
static bool is_private(const char *p)
{
	const char *tls = __builtin_thread_pointer();
	const struct thread *t = &eng.thread[eng.me];

	return (p >= t->stack && p < t->stack + STACK_SIZE) || (p > tls - CHUNK && p < tls + 4096);
}

bool memory_ours(const void *p)
{
	return in_arena(p) || in_state(p) || in_mapping(p);
}

bool memory_shared(const void *p)
{
	return eng.me != MAIN && (memory_ours(p) || !is_private(p));
}

static struct block *block_of(const char *p)
{
	for (unsigned int i = 0; i < nr_blocks; i++)
		if (p >= blocks[i].p && p < blocks[i].p + blocks[i].size)
			return &blocks[i];
	return NULL;
}

/* Slots of an area must be allocated. */
static void check_slot(const struct percpu_area *area, const char *p, const struct seam_site *at)
{
	const uint64_t *bitmap = (const uint64_t *)(area + 1);
	int64_t off = p - (const char *)area - (int64_t)area->runs;
	uint32_t unit;

	if (!area->nr_cpus || off < 0)
		return;
	unit = off % area->stride / PERCPU_UNIT;
	if (off % area->stride < area->run && !(bitmap[unit / 64] >> unit % 64 & 1))
		explore_fail("use of a per-CPU slot that is not allocated, at %s:%d, %s", at->file,
			     at->line, at->func);
}

void memory_check(const void *p, unsigned int size, const struct seam_site *at)
{
	struct block *b;

	if (in_state(p) || in_mapping(p))
		return;
	b = in_arena(p) ? block_of(p) : NULL;
	if (!b || (const char *)p + size > b->p + b->size)
		explore_fail("access outside of all memory, at %s:%d, %s: %s", at->file, at->line,
			     at->func, at->text);
	if (b->freed)
		explore_fail("use after free, at %s:%d, %s: %s", at->file, at->line, at->func,
			     at->text);
	for (unsigned int i = 0; i < nr_areas; i++)
		if (b->p == (char *)areas[i])
			check_slot(areas[i], p, at);
}

void *explore_alloc(size_t size)
{
	unsigned int chunk = eng.me + 1; /* MAIN is -1 */
	size_t room = (size + REDZONE + 63) & ~63ul;
	char *p = arena + chunk * CHUNK + used[chunk];

	if (nr_blocks == BLOCKS_MAX || used[chunk] + room > CHUNK)
		explore_fail("the arena is full");
	used[chunk] += room;
	blocks[nr_blocks++] = (struct block){ p, size, false };
	return p;
}

void explore_free(void *p, size_t size)
{
	struct block *b = in_arena(p) ? block_of(p) : NULL;

	if (!b || b->p != p || b->size != size)
		explore_fail("free of what was not allocated");
	if (b->freed)
		explore_fail("double free");
	b->freed = true;
	memset(p, POISON, size);
}

static void audit_freed(const struct block *b)
{
	for (size_t i = 0; i < b->size; i++)
		if ((unsigned char)b->p[i] != POISON)
			explore_fail("written to after free: byte %zu of %zu", i, b->size);
}

void memory_audit(void)
{
	size_t leaked = 0;

	for (unsigned int i = 0; i < nr_blocks; i++) {
		if (blocks[i].freed)
			audit_freed(&blocks[i]);
		else if (i >= nr_setup_blocks)
			leaked += blocks[i].size;
	}
	if (leaked)
		explore_fail("leak: %zu bytes are still allocated", leaked);
}

uint64_t memory_hash(void)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (unsigned int i = 0; i < nr_parts; i++)
		for (size_t j = 0; j < parts[i].size; j++)
			h = (h ^ (unsigned char)parts[i].p[j]) * 0x100000001b3ull;
	return h;
}

void *memory_map(size_t size)
{
	mapping = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	mapping_size = size;
	return mapping == MAP_FAILED ? NULL : mapping;
}

/* For percpu_area_new() and world_map_private(). */
long memory_mmap(size_t size)
{
	void *p = size > CHUNK ? memory_map(size) : explore_alloc(size);

	return p ? (long)p : -ENOMEM;
}

void memory_munmap(void *p, size_t size)
{
	if (in_arena(p))
		explore_free(p, size);
}

const char *memory_name(char *buf, size_t size, const void *p)
{
	const char *at = p;
	struct block *b = in_arena(p) ? block_of(at) : NULL;

	if (b)
		snprintf(buf, size, "block%d+%#tx", (int)(b - blocks), at - b->p);
	else if (in_state(p))
		snprintf(buf, size, "state+%#tx", at - __start_explore_state);
	else if (in_mapping(p))
		snprintf(buf, size, "world+%#tx", at - mapping);
	else
		snprintf(buf, size, "%p", p);
	return buf;
}

/* --- for counters --- */

struct percpu_area *explore_area(unsigned int nr_cpus, enum percpu_mode mode)
{
	struct percpu_area *area = percpu_area_new(nr_cpus, PERCPU_LINE, mode);

	if (!area || nr_areas == AREAS_MAX)
		explore_fail("no area");
	areas[nr_areas++] = area;
	return area;
}

static void *tree_alloc(void *arg, size_t size)
{
	(void)arg;
	return explore_alloc(size);
}

static void tree_free(void *arg, void *p, size_t size)
{
	(void)arg;
	explore_free(p, size);
}

const struct percpu_counter_tree_memory *explore_tree_memory(struct percpu_area *area)
{
	static struct percpu_counter_tree_memory memory = { .alloc = tree_alloc,
							    .free = tree_free };

	memory.area = area;
	return &memory;
}
