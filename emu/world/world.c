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
#include "emu/lib/text.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE           WORLD_PAGE
#define page_up(n)     world_page_up(n)
#define POPULATE_CHUNK (64 * 1024ull) /* bytes made present at a time as a table grows */

struct world_header *world;

static_assert(WORLD_FAR_END <= WORLD_NEAR_START, "the file holds all tables");

/* Addressed by a key instead of being allocated: all of their slots are in use from the start. */
static bool is_index_table(int id)
{
	return id == TABLE_UCOUNTS_HASH || id == TABLE_UCOUNTS_CPU || id == TABLE_PAGE ||
	       id == TABLE_PID || id == TABLE_SIGPENDING || id == TABLE_UCOUNTS_PERCPU ||
	       id == TABLE_PERCPU_PAGE;
}

/*
 * Populating is by MADV_POPULATE_WRITE: it needs no descriptor, and a full file system is an
 * error instead of a signal. Two processes may populate the same chunk: that is harmless.
 */
static int populate(uint64_t from, uint64_t to)
{
	uint64_t start = from & ~(PAGE - 1);

	if (SYS_ERR(sys_call(__NR_madvise, world_at(start), page_up(to) - start,
			     MADV_POPULATE_WRITE)))
		return -ENOMEM;
	return 0;
}

int table_reserve(enum world_table_id id, uint32_t n)
{
	const struct table_layout *l = &world_layout[id];
	struct world_table *t = &world->table[id];
	uint32_t have = smp_load_acquire(&t->populated);
	uint64_t from, bytes, all = (uint64_t)(l->capacity - l->nr_near) * l->size;
	uint32_t got;

	if (n <= have)
		return 0;
	if (n > l->capacity)
		return -ENOMEM;
	from = (uint64_t)(have - l->nr_near) * l->size;
	bytes = (uint64_t)(n - l->nr_near) * l->size;
	bytes = (bytes + POPULATE_CHUNK - 1) / POPULATE_CHUNK * POPULATE_CHUNK;
	if (bytes > all)
		bytes = all;
	if (populate(l->far + from, l->far + bytes))
		return -ENOMEM;
	got = l->nr_near + bytes / l->size;
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

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_' || c == '.';
}

bool world_name_valid(const char *name)
{
	size_t n = 0;

	while (is_name_char(name[n]))
		n++;
	return !name[n] && n >= 1 && n <= WORLD_NAME_MAX && name[0] != '.' && name[n - 1] != '.';
}

void world_path(char *buf, unsigned int uid, const char *name)
{
	char *p = text_put_number(text_put(buf, WORLD_DIR "/" WORLD_PREFIX), uid);

	text_put(text_put(p, "."), name);
}

static int map_world(int fd, int flags)
{
	long p = sys_call(__NR_mmap, 0, WORLD_SIZE, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE,
			  fd, 0);

	if (SYS_ERR(p))
		return p;
	world = (struct world_header *)((char *)p + WORLD_HEADER_OFFSET);
	return 0;
}

void world_unmap(void)
{
	if (world)
		sys_call(__NR_munmap, world_at(0), WORLD_SIZE);
	world = NULL;
}

/* Tables whose slot 0 is there from the start: what is not made by anybody. */
static void make_initial(enum world_table_id id)
{
	struct world_table *t = &world->table[id];

	t->high_water = t->hint = 1;
	*(uint64_t *)table_slot(id, 0) = slot_word(SLOT_LIVE, 1, 0);
}

/* The header is written last, its magic at the very end: a torn birth is not a world. */
static int format(const char *name, unsigned int uid)
{
	struct world_header *h = world;

	if (populate(WORLD_NEAR_START, WORLD_SIZE))
		return -ENOMEM;
	h->abi = WORLD_ABI;
	h->header_size = sizeof(*h);
	h->size = WORLD_SIZE;
	h->uid = uid;
	h->created_ns = boottime_ns();
	sys_call(__NR_getrandom, &h->id, sizeof(h->id), 0);
	snprintf(h->name, sizeof(h->name), "%s", name);
	for (int i = 0; i < NR_TABLES; i++) {
		h->table[i].layout = world_layout[i];
		h->table[i].populated = world_layout[i].nr_near;
	}
	for (int i = 0; i < NR_TABLES; i++)
		if (is_index_table(i))
			h->table[i].high_water = world_layout[i].capacity;
	make_initial(TABLE_USER_NS);
	make_initial(TABLE_NS);
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

/* A file of another length: not a world, or one of another ABI, whose last page says so too. */
static int foreign_world(int fd, off_t size)
{
	struct world_header h;
	const size_t n = offsetof(struct world_header, header_size);

	if (size < (off_t)PAGE ||
	    sys_call(__NR_pread64, fd, &h, n, size - (off_t)PAGE) != (long)n ||
	    h.magic != WORLD_MAGIC || h.abi == WORLD_ABI)
		return -ENOEXEC;
	return -EPROTO;
}

static bool same_layout(const struct table_layout *a, const struct table_layout *b)
{
	return a->near == b->near && a->far == b->far && a->nr_near == b->nr_near &&
	       a->capacity == b->capacity && a->size == b->size;
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
#pragma GCC unroll 32
	for (int i = 0; i < NR_TABLES; i++)
		if (!same_layout(&h->table[i].layout, &world_layout[i]))
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
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != WORLD_SIZE)
		return foreign_world(fd, st.st_size);
	ret = map_world(fd, MAP_SHARED);
	if (ret)
		return ret;
	ret = verify(world);
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

void world_sign_life(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&world->life, &attr);
	pthread_mutex_lock(&world->life);
}
