/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The world: slots, verification of what is mapped, names. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kpemu/world.h>

TestSuite(world, .timeout = 60);

static void private_world(void)
{
	cr_assert_eq(world_map_private(), 0);
}

Test(world, table_alloc_fresh_slots_have_nonzero_references, .init = private_world)
{
	for (int i = 0; i < 100; i++) {
		uint64_t *slot = table_alloc(TABLE_MM, 7);

		cr_assert_not_null(slot);
		cr_assert_eq(slot_state(*slot), SLOT_NEW);
		cr_assert_eq(slot_owner(*slot), 7);
		cr_assert_neq(slot_ref(table_index(TABLE_MM, slot), *slot), 0);
	}
	cr_assert_eq(table_high_water(TABLE_MM), 100);
}

Test(world, table_free_slot_is_reused_with_a_new_generation, .init = private_world)
{
	uint64_t *a = table_alloc(TABLE_MM, 1), *b = table_alloc(TABLE_MM, 1);
	uint64_t before = *a;

	table_free(TABLE_MM, a);
	cr_assert_eq(slot_state(*a), SLOT_FREE);
	cr_assert_eq(table_alloc(TABLE_MM, 2), a);
	cr_assert_eq(slot_gen(*a), slot_gen(before) + 1);
	cr_assert_neq(b, a);
}

Test(world, generation_never_makes_a_zero_reference, .init = private_world)
{
	uint64_t *a = table_alloc(TABLE_MM, 1);

	cr_assert_eq(table_index(TABLE_MM, a), 0);
	for (int i = 0; i < 70000; i++) {
		table_free(TABLE_MM, a);
		cr_assert_eq(table_alloc(TABLE_MM, 1), a);
		cr_assert_neq(slot_ref(0, *a), 0);
	}
}

Test(world, table_alloc_full_table_is_null_and_recovers, .init = private_world)
{
	uint64_t *last = NULL, *slot;
	unsigned int n = 0;

	while ((slot = table_alloc(TABLE_REFUSAL, 1))) {
		last = slot;
		n++;
	}
	cr_assert_eq(n, WORLD_REFUSALS);
	table_free(TABLE_REFUSAL, last);
	cr_assert_eq(table_alloc(TABLE_REFUSAL, 1), last);
	cr_assert_null(table_alloc(TABLE_REFUSAL, 1));
}

Test(world, table_slot_outside_of_what_was_used_is_null, .init = private_world)
{
	table_alloc(TABLE_MM, 1);
	cr_assert_not_null(table_slot(TABLE_MM, 0));
	cr_assert_null(table_slot(TABLE_MM, 1));
	world->table[TABLE_MM].high_water = UINT32_MAX; /* a hostile file */
	cr_assert_not_null(table_slot(TABLE_MM, WORLD_MMS - 1));
	cr_assert_null(table_slot(TABLE_MM, WORLD_MMS));
}

#define THREADS 4
#define ROUNDS 20000

static void *alloc_and_free(void *arg)
{
	uint32_t me = (uintptr_t)arg;
	long bad = 0;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t *a = table_alloc(TABLE_MM, me), *b = table_alloc(TABLE_MM, me);

		bad += !a || !b || a == b || slot_owner(*a) != me || slot_owner(*b) != me;
		if (a)
			table_free(TABLE_MM, a);
		if (b)
			table_free(TABLE_MM, b);
	}
	return (void *)bad;
}

Test(world, table_alloc_racing_threads_never_share_a_slot, .init = private_world)
{
	pthread_t t[THREADS];
	void *bad;

	for (uintptr_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, alloc_and_free, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &bad);
		cr_assert_null(bad);
	}
	for (uint32_t i = 0; i < table_high_water(TABLE_MM); i++)
		cr_assert_eq(slot_state(*(uint64_t *)table_slot(TABLE_MM, i)), SLOT_FREE);
}

static char name[32];
static int fd = -1;

static void shared_world(void)
{
	snprintf(name, sizeof(name), "unit-%d", (int)getpid());
	fd = world_create(name, getuid());
	cr_assert_geq(fd, 0);
}

static void remove_world(void)
{
	char path[WORLD_PATH_MAX];

	world_path(path, getuid(), name);
	unlink(path);
	close(fd);
}

Test(world, world_create_file_is_private_and_exclusive, .init = shared_world, .fini = remove_world)
{
	char path[WORLD_PATH_MAX];
	struct stat st;

	world_path(path, getuid(), name);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	cr_assert_eq(world_create(name, getuid()), -EEXIST);
}

Test(world, world_map_finds_what_was_written, .init = shared_world, .fini = remove_world)
{
	struct world_header *first = world;
	int other = dup(fd);

	first->counts.adopted.counter = 42;
	cr_assert_eq(world_map(other), 0);
	cr_assert_neq(world, first);
	cr_assert_eq(world->counts.adopted.counter, 42);
	cr_assert_eq(world->id, first->id);
	close(other);
}

Test(world, world_map_damaged_header_is_refused, .init = shared_world, .fini = remove_world)
{
	struct world_header good = *world;

#define REFUSES(change, err)                                                                       \
	do {                                                                                       \
		struct world_header bad = good;                                                    \
		bad.change;                                                                        \
		cr_assert_eq(pwrite(fd, &bad, sizeof(bad), WORLD_HEADER_OFFSET), (ssize_t)sizeof(bad));               \
		cr_assert_eq(world_map(fd), err, #change);                                         \
	} while (0)
	REFUSES(magic = 0, -ENOEXEC);
	REFUSES(abi = WORLD_ABI + 1, -EPROTO);
	REFUSES(header_size = 8, -ENOEXEC);
	REFUSES(size = 4096, -ENOEXEC);
	REFUSES(name[0] = '/', -ENOEXEC);
	REFUSES(name[WORLD_NAME_MAX] = 'x', -ENOEXEC);
	REFUSES(table[TABLE_TASK].layout.near = UINT64_MAX, -ENOEXEC);
	REFUSES(table[TABLE_PID].layout.capacity = UINT32_MAX, -ENOEXEC);
	REFUSES(preload_path[511] = 'x', -ENOEXEC);
	cr_assert_eq(pwrite(fd, &good, sizeof(good), WORLD_HEADER_OFFSET), (ssize_t)sizeof(good));
	cr_assert_eq(world_map(fd), 0);
}

Test(world, world_map_truncated_file_is_refused, .init = shared_world, .fini = remove_world)
{
	cr_assert_eq(ftruncate(fd, WORLD_SIZE - 1), 0);
	cr_assert_eq(world_map(fd), -ENOEXEC);
	cr_assert_eq(ftruncate(fd, 100), 0);
	cr_assert_eq(world_map(fd), -ENOEXEC);
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(world_map(fd), -ENOEXEC);
}

Test(world, world_launcher_alive_is_the_lock_of_the_open_file, .init = shared_world,
     .fini = remove_world)
{
	char path[WORLD_PATH_MAX];
	int other;

	world_path(path, getuid(), name);
	other = open(path, O_RDWR | O_CLOEXEC);
	cr_assert(world_launcher_alive(other));
	close(fd);
	world_unmap(); /* a mapping keeps the open file, and so the lock */
	cr_assert_not(world_launcher_alive(other));
	fd = other;
}

Test(world, world_name_valid_words)
{
	static const char *const good[] = { "a", "A-1_b", "a.b", "0" };
	static const char *const bad[] = { "", ".", ".a", "a.", "a/b", "a b", "\xc3\xa4",
					   "0123456789012345678901234567890123456789012345678" };

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		cr_assert(world_name_valid(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert_not(world_name_valid(bad[i]), "%s", bad[i]);
}
