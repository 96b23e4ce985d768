/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Making, finding and verifying the shared segment; slot allocation. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <kpemu/world.h>

#include "emu/lib/rawsys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096ull
#define page_up(n) (((n) + PAGE - 1) & ~(PAGE - 1))
#define POPULATE_CHUNK (64 * 1024ull) /* bytes made present at a time as a table grows */

struct world_header *world;

/* Each table starts where the one before it ends. */
/* Each table starts where the one before it ends. */
#define TASK_OFF PAGE
#define MM_OFF (TASK_OFF + page_up(WORLD_TASK_SIZE * WORLD_TASKS))
#define MQUEUE_OFF (MM_OFF + page_up(WORLD_MM_SIZE * WORLD_MMS))
#define UCOUNTS_OFF (MQUEUE_OFF + page_up(WORLD_MQUEUE_SIZE * WORLD_MQUEUES))
#define HASH_OFF (UCOUNTS_OFF + page_up(WORLD_UCOUNTS_SIZE * WORLD_UCOUNTS))
#define DESC_OFF (HASH_OFF + page_up(sizeof(uint32_t) * WORLD_UCOUNTS_HASH))
#define PAGE_OFF (DESC_OFF + page_up(sizeof(uint64_t) * WORLD_PAGES))
#define REFUSAL_OFF (PAGE_OFF + PAGE * WORLD_PAGES)
#define PID_OFF (REFUSAL_OFF + page_up(WORLD_REFUSAL_SIZE * WORLD_REFUSALS))
#define WORLD_SIZE (PID_OFF + page_up(sizeof(uint32_t) * WORLD_PIDS))

const struct table_layout world_layout[NR_TABLES] = {
	[TABLE_TASK] = { TASK_OFF, WORLD_TASK_SIZE, WORLD_TASKS },
	[TABLE_MM] = { MM_OFF, WORLD_MM_SIZE, WORLD_MMS },
	[TABLE_MQUEUE] = { MQUEUE_OFF, WORLD_MQUEUE_SIZE, WORLD_MQUEUES },
	[TABLE_UCOUNTS] = { UCOUNTS_OFF, WORLD_UCOUNTS_SIZE, WORLD_UCOUNTS },
	[TABLE_UCOUNTS_HASH] = { HASH_OFF, sizeof(uint32_t), WORLD_UCOUNTS_HASH },
	[TABLE_PAGE_DESC] = { DESC_OFF, sizeof(uint64_t), WORLD_PAGES },
	[TABLE_PAGE] = { PAGE_OFF, PAGE, WORLD_PAGES },
	[TABLE_REFUSAL] = { REFUSAL_OFF, WORLD_REFUSAL_SIZE, WORLD_REFUSALS },
	[TABLE_PID] = { PID_OFF, sizeof(uint32_t), WORLD_PIDS },
};

/* Addressed by a key instead of being allocated: all of their slots are in use from the start. */
static bool is_index_table(int id)
{
	return id == TABLE_UCOUNTS_HASH || id == TABLE_PAGE || id == TABLE_PID;
}

/*
 * Populating is by MADV_POPULATE_WRITE: it needs no descriptor, and a full file system is an
 * error instead of a signal. Two processes may populate the same chunk: that is harmless.
 */
static int populate(uint64_t from, uint64_t to)
{
	uint64_t start = from & ~(PAGE - 1);

	if (SYS_ERR(sys_call(__NR_madvise, (char *)world + start, page_up(to) - start,
			     MADV_POPULATE_WRITE)))
		return -ENOMEM;
	return 0;
}

int table_reserve(enum world_table_id id, uint32_t n)
{
	const struct table_layout *l = &world_layout[id];
	struct world_table *t = &world->table[id];
	uint32_t have = smp_load_acquire(&t->populated);
	uint64_t bytes;
	uint32_t got;

	if (n <= have)
		return 0;
	if (n > l->capacity)
		return -ENOMEM;
	bytes = ((uint64_t)n * l->size + POPULATE_CHUNK - 1) / POPULATE_CHUNK * POPULATE_CHUNK;
	if (bytes > (uint64_t)l->capacity * l->size)
		bytes = (uint64_t)l->capacity * l->size;
	if (populate(l->offset + (uint64_t)have * l->size, l->offset + bytes))
		return -ENOMEM;
	got = bytes / l->size;
	while (have < got && !try_cmpxchg(&t->populated, &have, got))
		;
	return 0;
}

static bool claim(void *slot, uint32_t owner)
{
	uint64_t w = READ_ONCE(*(uint64_t *)slot);
	uint32_t gen = slot_gen(w) + 1;

	if (!(gen & 0xffff))
		gen++; /* so that a reference (slot_ref()) is never 0 */
	return slot_state(w) == SLOT_FREE &&
	       cmpxchg((uint64_t *)slot, w, slot_word(SLOT_NEW, gen, owner)) == w;
}

static void *claim_fresh(enum world_table_id id, uint32_t owner)
{
	struct world_table *t = &world->table[id];
	void *slot;

	for (;;) {
		uint32_t n = smp_load_acquire(&t->high_water);

		if (table_reserve(id, n + 1))
			return NULL;
		/* Raised before the claim: a scan never misses a slot in use. */
		if (cmpxchg(&t->high_water, n, n + 1) != n)
			continue;
		slot = table_slot(id, n);
		if (slot && claim(slot, owner))
			return slot;
	}
}

void *table_alloc(enum world_table_id id, uint32_t owner)
{
	struct world_table *t = &world->table[id];
	uint32_t n = table_high_water(id), start = READ_ONCE(t->hint);

	for (uint32_t i = start; i < n; i++) {
		void *slot = table_slot(id, i);

		if (!claim(slot, owner))
			continue;
		/* A stale hint costs a longer scan or a slot further up, nothing else. */
		cmpxchg(&t->hint, start, i + 1);
		return slot;
	}
	if (start) {
		cmpxchg(&t->hint, start, 0);
		for (uint32_t i = 0; i < start && i < n; i++) {
			void *slot = table_slot(id, i);

			if (claim(slot, owner))
				return slot;
		}
	}
	return claim_fresh(id, owner);
}

void table_free(enum world_table_id id, void *slot)
{
	struct world_table *t = &world->table[id];
	uint32_t i = table_index(id, slot), hint;
	uint64_t w = READ_ONCE(*(uint64_t *)slot);

	smp_store_release((uint64_t *)slot, slot_word(SLOT_FREE, slot_gen(w), 0));
	hint = READ_ONCE(t->hint);
	while (i < hint && !try_cmpxchg(&t->hint, &hint, i))
		;
}

bool world_name_valid(const char *name)
{
	size_t n = strlen(name);

	if (n < 1 || n > WORLD_NAME_MAX || name[0] == '.' || name[n - 1] == '.')
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
	       n;
}

void world_path(char *buf, unsigned int uid, const char *name)
{
	snprintf(buf, WORLD_PATH_MAX, WORLD_DIR "/" WORLD_PREFIX "%u.%s", uid, name);
}

static int map_world(int fd, int flags)
{
	long p = sys_call(__NR_mmap, 0, WORLD_SIZE, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE,
			  fd, 0);

	if (SYS_ERR(p))
		return p;
	world = (struct world_header *)p;
	return 0;
}

void world_unmap(void)
{
	if (world)
		sys_call(__NR_munmap, world, WORLD_SIZE);
	world = NULL;
}

/* The header is written last, its magic at the very end: a torn birth is not a world. */
static int format(const char *name, unsigned int uid)
{
	struct world_header *h = world;

	if (populate(0, PAGE))
		return -ENOMEM;
	h->abi = WORLD_ABI;
	h->header_size = sizeof(*h);
	h->size = WORLD_SIZE;
	h->uid = uid;
	h->created_ns = boottime_ns();
	sys_call(__NR_getrandom, &h->id, sizeof(h->id), 0);
	snprintf(h->name, sizeof(h->name), "%s", name);
	libc_find_offsets(&h->libc);
	for (int i = 0; i < NR_TABLES; i++)
		h->table[i].layout = world_layout[i];
	for (int i = 0; i < NR_TABLES; i++)
		if (is_index_table(i))
			h->table[i].high_water = world_layout[i].capacity;
	if (table_reserve(TABLE_PID, WORLD_PIDS) ||
	    table_reserve(TABLE_UCOUNTS_HASH, WORLD_UCOUNTS_HASH))
		return -ENOMEM;
	h->state = WORLD_BORN;
	smp_store_release(&h->magic, WORLD_MAGIC);
	return 0;
}

int world_create(const char *name, unsigned int uid)
{
	char path[WORLD_PATH_MAX];
	int fd, ret;

	world_path(path, uid, name);
	fd = sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fd;
	ret = sys_call(__NR_flock, fd, LOCK_EX | LOCK_NB);
	if (!ret)
		ret = sys_call(__NR_ftruncate, fd, WORLD_SIZE);
	if (!ret)
		ret = map_world(fd, MAP_SHARED);
	if (!ret)
		ret = format(name, uid);
	if (!ret)
		return fd;
	world_unmap();
	sys_call(__NR_unlinkat, AT_FDCWD, path, 0);
	sys_close(fd);
	return ret;
}

static int verify(const struct world_header *h)
{
	if (h->magic != WORLD_MAGIC)
		return -ENOEXEC;
	if (h->abi != WORLD_ABI)
		return -EPROTO;
	if (h->header_size != sizeof(*h) || h->size != WORLD_SIZE || h->name[WORLD_NAME_MAX] ||
	    !world_name_valid(h->name) || h->preload_path[sizeof(h->preload_path) - 1])
		return -ENOEXEC;
	for (int i = 0; i < NR_TABLES; i++)
		if (memcmp(&h->table[i].layout, &world_layout[i], sizeof(world_layout[i])))
			return -ENOEXEC;
	return 0;
}

int world_map(int fd)
{
	struct world_header *before = world;
	struct stat st;
	int ret;

	ret = sys_call(__NR_fstat, fd, &st);
	if (ret)
		return ret;
	/* A file of another length has no header that could be read without care. */
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)PAGE)
		return -ENOEXEC;
	ret = map_world(fd, MAP_SHARED);
	if (ret)
		return ret;
	ret = verify(world);
	if (!ret && (uint64_t)st.st_size != WORLD_SIZE)
		ret = -ENOEXEC;
	if (ret) {
		world_unmap();
		world = before;
	}
	return ret;
}

int world_map_private(void)
{
	int ret = map_world(-1, MAP_PRIVATE | MAP_ANONYMOUS);

	if (!ret)
		ret = format("private", 0);
	if (ret)
		world_unmap();
	return ret;
}

bool world_launcher_alive(int fd)
{
	/* The lock belongs to the launcher's open file; ours, on another, can only be refused. */
	if (sys_call(__NR_flock, fd, LOCK_SH | LOCK_NB) < 0)
		return true;
	sys_call(__NR_flock, fd, LOCK_UN);
	return false;
}
