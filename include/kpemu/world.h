/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The world: the one shared segment of a `kpemu run`. Layout, slots, and how it is found again. */
#ifndef KPEMU_WORLD_H
#define KPEMU_WORLD_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kpemu/atomic.h>
#include <kpemu/libc.h>

/*
 * Everything shared lives in tables of fixed-size slots, reached by offset and index, never by
 * pointer. A slot says of itself whether it is free, being made, live or being released, and by
 * whom: allocation and release are one compare-and-swap each, there is no free list, and a death
 * at any point leaves a slot that names its dead owner. Counters are never the only record of a
 * charge: they can be recomputed from the slots (recover.c).
 *
 * The file is as long as the largest world, but sparse: pages are populated as tables grow, so
 * that a full /dev/shm is -ENOMEM at the allocation and never SIGBUS at the store.
 */
#define WORLD_MAGIC    0x646c72776d65706bull /* "kpemwrld" */
#define WORLD_ABI      6
#define WORLD_DIR      "/dev/shm"
#define WORLD_PREFIX   "kpemu."
#define WORLD_NAME_MAX 48 /* longest --world NAME, bytes without the terminating 0 */
#define WORLD_PATH_MAX 96 /* WORLD_DIR/kpemu.UID.NAME */

/* Slot word: state in bits 0-7, generation in 8-31, owner (a slot_ref()) in 32-63. */
enum slot_state {
	SLOT_FREE,
	SLOT_NEW, /* being made by the owner */
	SLOT_LIVE,
	SLOT_RELEASING, /* being released by the owner */
	SLOT_OBSERVER, /* tasks only: the launcher or a command looking in; never counted */
};

static inline unsigned int slot_state(uint64_t w)
{
	return w & 0xff;
}

static inline uint32_t slot_gen(uint64_t w)
{
	return w >> 8 & 0xffffff;
}

static inline uint32_t slot_owner(uint64_t w)
{
	return w >> 32;
}

/*
 * What a slot names another by: index and low generation, never 0. It goes stale when the slot
 * is reused; 16 bits of generation make a false match a matter of 65536 reuses in between.
 */
static inline uint32_t slot_ref(uint32_t idx, uint64_t w)
{
	return (slot_gen(w) & 0xffff) << 16 | idx;
}

static inline uint64_t slot_word(unsigned int state, uint32_t gen, uint32_t owner)
{
	return (uint64_t)owner << 32 | (uint64_t)(gen & 0xffffff) << 8 | state;
}

/*
 * The constant part: written for verification, never read back for addressing. The first slots of
 * every table lie near the header, at the end of the file, and the others far from it.
 */
struct table_layout {
	uint64_t near; /* offset of the end of slot 0, page aligned: slot 1 lies below it */
	uint64_t far; /* of slot nr_near */
	uint32_t nr_near; /* slots near the header */
	uint32_t capacity; /* slots */
	uint32_t size; /* bytes per slot */
	uint32_t pad;
};

struct world_table {
	struct table_layout layout;
	uint32_t populated; /* slots whose memory is there */
	uint32_t high_water; /* slots ever used: scans end here */
	uint32_t hint; /* a slot at or below the lowest free one, most of the time */
	uint32_t pad;
};

/*
 * Sizes are part of the ABI; each subsystem asserts that its struct has this size. A table's first
 * slots (_NEAR) serve the usual world; the others cost address space only.
 */
enum {
	WORLD_TASK_SIZE = 1024,
	WORLD_TASKS = 16384,
	WORLD_TASKS_NEAR = 64,
	WORLD_MM_SIZE = 128,
	WORLD_MMS = 16384,
	WORLD_MMS_NEAR = 64,
	WORLD_MQUEUE_SIZE = 384,
	WORLD_MQUEUES = 4096,
	WORLD_MQUEUES_NEAR = 32,
	WORLD_UCOUNTS_SIZE = 384,
	WORLD_UCOUNTS = 4096,
	WORLD_RECORDS_NEAR = 32,
	WORLD_UCOUNTS_HASH = 8192,
	WORLD_UCOUNTS_CPU_SIZE = 64,
	WORLD_UCOUNTS_CPUS = 131072, /* lines of one record and one CPU */
	WORLD_UCOUNTS_CPUS_NEAR = 512,
	WORLD_UCOUNTS_PERCPU_SIZE = 512,
	WORLD_PERCPU_PAGES = 2048,
	WORLD_PAGES = 4096,
	WORLD_REFUSAL_SIZE = 128,
	WORLD_REFUSALS = 256,
	WORLD_PIDS = 16384,
	WORLD_SIGPENDING_SIZE = 1152, /* one for each task */
	WORLD_TIMER_SIZE = 64,
	WORLD_TIMERS = 65536,
	WORLD_TIMERS_NEAR = 64,
	WORLD_USER_NS_SIZE = 1024,
	WORLD_USER_NSS = 2048,
	WORLD_USER_NSS_NEAR = 4,
	WORLD_NS_SIZE = 128,
	WORLD_NSS = 4096,
	WORLD_NSS_NEAR = 32,
	WORLD_SHM_SIZE = 64,
	WORLD_SHMS = 4096, /* a kernel's default SHMMNI */
};

enum world_table_id {
	TABLE_TASK,
	TABLE_MM,
	TABLE_MQUEUE,
	TABLE_UCOUNTS,
	TABLE_UCOUNTS_HASH, /* (namespace, uid) -> record number + 1 */
	TABLE_UCOUNTS_CPU, /* of record r, CPU c: r * CPUs + c */
	TABLE_PAGE_DESC, /* one slot word per page of TABLE_PAGE; the owner is the mm that uses it */
	TABLE_PAGE,
	TABLE_REFUSAL,
	TABLE_PID, /* hints: pid -> task index */
	TABLE_SIGPENDING, /* what waits for the task of the same index */
	TABLE_TIMER,
	TABLE_USER_NS, /* slot 0 is the initial one */
	TABLE_NS, /* namespaces of other kinds, inotify instances; slot 0 is the initial ipc namespace */
	TABLE_SHM, /* System V segments that are locked */
	TABLE_UCOUNTS_PERCPU, /* percpu_counters of the record of the same index (`percpu-rfc`) */
	TABLE_PERCPU_PAGE, /* the area that these have their per-CPU memory in */
	NR_TABLES,
};

enum world_state {
	WORLD_BORN, /* the launcher is filling it in */
	WORLD_RUNNING,
	WORLD_ENDING, /* being taken down; nobody attaches any more */
};

/* What the model and the host did not agree on, and what it could not see. Monotonic. */
struct world_counts {
	atomic64_t uncovered; /* programs that could not be entered */
	atomic64_t adopted; /* tasks found running without a slot */
	atomic64_t host_collisions; /* calls that the model allowed and the host refused */
	atomic64_t mq_clamped; /* queues made with smaller attributes than the model's */
	atomic64_t recoveries; /* counters recomputed after a death inside an update */
	atomic64_t reaped_dead; /* tasks found gone and released by somebody else's look */
};

/* A program that exec_kind() has found fit to be entered, until its file changes. */
struct known_program {
	uint64_t dev, ino, ctime_ns;
	uint64_t check; /* known_check() of the three; anything else: the entry is being written */
};
#define WORLD_KNOWN_PROGRAMS 32

struct world_lock {
	uint64_t owner; /* slot_ref() of the holding task; 0 = free */
};

struct world_header {
	uint64_t magic; /* with abi in the first bytes of the last page, whatever the ABI */
	uint32_t abi;
	uint32_t header_size;
	uint64_t size; /* of the file, bytes */
	uint64_t id; /* random: tells a world from a later one of the same name */
	uint32_t state;
	uint32_t uid; /* real uid of the launcher */
	int32_t launcher_pid;
	uint32_t init_task; /* index of the program's task */
	uint64_t created_ns;
	char name[WORLD_NAME_MAX + 1];
	char pad[23];
	struct world_table table[NR_TABLES];
	struct world_counts counts;
	atomic64_t retreats; /* objects changed back because of a recovery (kpemu/ucount.h) */
	struct world_lock mq_lock;
	struct world_lock ns_lock; /* of namespaces and what is charged for them */
	uint32_t ucounts_alg; /* enum ucounts_alg */
	uint32_t nr_cpus; /* emulated CPUs; 0: nothing is kept for each of them */
	uint64_t ns_serial; /* last number given to a namespace of any kind */
	uint64_t mq_serial; /* last number given to a queue */
	uint64_t mq_dev; /* st_dev of the host's mqueue file system; 0 = not seen yet */
	uint32_t mq_unlinked; /* queues without a name that somebody may still hold; a hint */
	uint32_t refusals_lost; /* distinct refusals that found the table full */
	int64_t host_mq_msg_max;
	int64_t host_mq_msgsize_max;
	struct libc_offsets libc;
	pthread_mutex_t life; /* held by the launcher; the kernel marks it when the launcher ends */
	struct known_program known[WORLD_KNOWN_PROGRAMS];
	char preload_path[512]; /* of the preload library, as the launcher gave it */
};
static_assert(sizeof(struct world_header) <= 4096, "the header is one page");
static_assert(offsetof(struct world_header, table) == 128, "ABI");
static_assert(sizeof(struct world_table) == 48, "ABI");

/*
 * The header is the last page of the file, and the near slots lie before it: the kernel places a
 * mapping below the ones that are there, so what every process touches shares page tables with its
 * libraries. A page table of its own costs more than all the rest of the attachment.
 */
#define WORLD_PAGE          4096ull
#define WORLD_SIZE          (80ull << 20)
#define WORLD_HEADER_OFFSET (WORLD_SIZE - WORLD_PAGE)

#define world_page_up(n) (((n) + WORLD_PAGE - 1) & ~(WORLD_PAGE - 1))

/* A table of @n slots of @size bytes, the first @near of them near the header. */
#define WORLD_FAR_BYTES(size, n, near) world_page_up((uint64_t)(size) * ((n) - (near)))
#define WORLD_NEAR_BYTES(size, near)   world_page_up((uint64_t)(size) * (near))

/* From the start of the file upwards. */
#define WORLD_TASK_FAR 0
#define WORLD_MM_FAR \
	(WORLD_TASK_FAR + WORLD_FAR_BYTES(WORLD_TASK_SIZE, WORLD_TASKS, WORLD_TASKS_NEAR))
#define WORLD_MQUEUE_FAR (WORLD_MM_FAR + WORLD_FAR_BYTES(WORLD_MM_SIZE, WORLD_MMS, WORLD_MMS_NEAR))
#define WORLD_UCOUNTS_FAR \
	(WORLD_MQUEUE_FAR + WORLD_FAR_BYTES(WORLD_MQUEUE_SIZE, WORLD_MQUEUES, WORLD_MQUEUES_NEAR))
#define WORLD_DESC_FAR \
	(WORLD_UCOUNTS_FAR + WORLD_FAR_BYTES(WORLD_UCOUNTS_SIZE, WORLD_UCOUNTS, WORLD_RECORDS_NEAR))
#define WORLD_PAGE_FAR (WORLD_DESC_FAR + WORLD_FAR_BYTES(sizeof(uint64_t), WORLD_PAGES, 0))
#define WORLD_SIGPENDING_FAR (WORLD_PAGE_FAR + WORLD_PAGE * WORLD_PAGES)
#define WORLD_TIMER_FAR                                                                            \
	(WORLD_SIGPENDING_FAR +                                                                    \
	 WORLD_FAR_BYTES(WORLD_SIGPENDING_SIZE, WORLD_TASKS, WORLD_TASKS_NEAR))
#define WORLD_USER_NS_FAR                                                                          \
	(WORLD_TIMER_FAR + WORLD_FAR_BYTES(WORLD_TIMER_SIZE, WORLD_TIMERS, WORLD_TIMERS_NEAR))
#define WORLD_NS_FAR                                                                               \
	(WORLD_USER_NS_FAR +                                                                       \
	 WORLD_FAR_BYTES(WORLD_USER_NS_SIZE, WORLD_USER_NSS, WORLD_USER_NSS_NEAR))
#define WORLD_SHM_FAR (WORLD_NS_FAR + WORLD_FAR_BYTES(WORLD_NS_SIZE, WORLD_NSS, WORLD_NSS_NEAR))
#define WORLD_CPU_FAR (WORLD_SHM_FAR + WORLD_FAR_BYTES(WORLD_SHM_SIZE, WORLD_SHMS, 0))
#define WORLD_PERCPU_FAR                                                                           \
	(WORLD_CPU_FAR +                                                                           \
	 WORLD_FAR_BYTES(WORLD_UCOUNTS_CPU_SIZE, WORLD_UCOUNTS_CPUS, WORLD_UCOUNTS_CPUS_NEAR))
#define WORLD_PERCPU_PAGE_FAR \
	(WORLD_PERCPU_FAR + WORLD_FAR_BYTES(WORLD_UCOUNTS_PERCPU_SIZE, WORLD_UCOUNTS, 0))
#define WORLD_FAR_END (WORLD_PERCPU_PAGE_FAR + WORLD_PAGE * WORLD_PERCPU_PAGES)

/*
 * From the header downwards, what every process touches first; slot 0 of each table at its upper
 * end. The kernel faults pages in by groups: the usual process touches one group.
 */
#define WORLD_MM_NEAR   WORLD_HEADER_OFFSET
#define WORLD_TASK_NEAR (WORLD_MM_NEAR - WORLD_NEAR_BYTES(WORLD_MM_SIZE, WORLD_MMS_NEAR))
#define WORLD_UCOUNTS_NEAR \
	(WORLD_TASK_NEAR - WORLD_NEAR_BYTES(WORLD_TASK_SIZE, WORLD_TASKS_NEAR))
#define WORLD_HASH_NEAR \
	(WORLD_UCOUNTS_NEAR - WORLD_NEAR_BYTES(WORLD_UCOUNTS_SIZE, WORLD_RECORDS_NEAR))
#define WORLD_PID_NEAR (WORLD_HASH_NEAR - WORLD_NEAR_BYTES(sizeof(uint32_t), WORLD_UCOUNTS_HASH))
#define WORLD_MQUEUE_NEAR  (WORLD_PID_NEAR - WORLD_NEAR_BYTES(sizeof(uint32_t), WORLD_PIDS))
#define WORLD_REFUSAL_NEAR \
	(WORLD_MQUEUE_NEAR - WORLD_NEAR_BYTES(WORLD_MQUEUE_SIZE, WORLD_MQUEUES_NEAR))
#define WORLD_SIGPENDING_NEAR \
	(WORLD_REFUSAL_NEAR - WORLD_NEAR_BYTES(WORLD_REFUSAL_SIZE, WORLD_REFUSALS))
#define WORLD_TIMER_NEAR \
	(WORLD_SIGPENDING_NEAR - WORLD_NEAR_BYTES(WORLD_SIGPENDING_SIZE, WORLD_TASKS_NEAR))
#define WORLD_USER_NS_NEAR \
	(WORLD_TIMER_NEAR - WORLD_NEAR_BYTES(WORLD_TIMER_SIZE, WORLD_TIMERS_NEAR))
#define WORLD_NS_NEAR \
	(WORLD_USER_NS_NEAR - WORLD_NEAR_BYTES(WORLD_USER_NS_SIZE, WORLD_USER_NSS_NEAR))
#define WORLD_CPU_NEAR (WORLD_NS_NEAR - WORLD_NEAR_BYTES(WORLD_NS_SIZE, WORLD_NSS_NEAR))
#define WORLD_NEAR_START \
	(WORLD_CPU_NEAR - WORLD_NEAR_BYTES(WORLD_UCOUNTS_CPU_SIZE, WORLD_UCOUNTS_CPUS_NEAR))

/*
 * In the header, so that a table named by a constant costs no look-up: the table itself would lie
 * on a page that a new process has not touched yet.
 */
static const struct table_layout world_layout[NR_TABLES] __attribute__((unused)) = {
	[TABLE_TASK] = { WORLD_TASK_NEAR, WORLD_TASK_FAR, WORLD_TASKS_NEAR, WORLD_TASKS,
			 WORLD_TASK_SIZE, 0 },
	[TABLE_MM] = { WORLD_MM_NEAR, WORLD_MM_FAR, WORLD_MMS_NEAR, WORLD_MMS, WORLD_MM_SIZE, 0 },
	[TABLE_MQUEUE] = { WORLD_MQUEUE_NEAR, WORLD_MQUEUE_FAR, WORLD_MQUEUES_NEAR, WORLD_MQUEUES,
			   WORLD_MQUEUE_SIZE, 0 },
	[TABLE_UCOUNTS] = { WORLD_UCOUNTS_NEAR, WORLD_UCOUNTS_FAR, WORLD_RECORDS_NEAR,
			    WORLD_UCOUNTS, WORLD_UCOUNTS_SIZE, 0 },
	[TABLE_UCOUNTS_HASH] = { WORLD_HASH_NEAR, 0, WORLD_UCOUNTS_HASH, WORLD_UCOUNTS_HASH,
				 sizeof(uint32_t), 0 },
	[TABLE_UCOUNTS_CPU] = { WORLD_CPU_NEAR, WORLD_CPU_FAR, WORLD_UCOUNTS_CPUS_NEAR,
				WORLD_UCOUNTS_CPUS, WORLD_UCOUNTS_CPU_SIZE, 0 },
	[TABLE_PAGE_DESC] = { 0, WORLD_DESC_FAR, 0, WORLD_PAGES, sizeof(uint64_t), 0 },
	[TABLE_PAGE] = { 0, WORLD_PAGE_FAR, 0, WORLD_PAGES, WORLD_PAGE, 0 },
	[TABLE_REFUSAL] = { WORLD_REFUSAL_NEAR, 0, WORLD_REFUSALS, WORLD_REFUSALS,
			    WORLD_REFUSAL_SIZE, 0 },
	[TABLE_PID] = { WORLD_PID_NEAR, 0, WORLD_PIDS, WORLD_PIDS, sizeof(uint32_t), 0 },
	[TABLE_SIGPENDING] = { WORLD_SIGPENDING_NEAR, WORLD_SIGPENDING_FAR, WORLD_TASKS_NEAR,
			       WORLD_TASKS, WORLD_SIGPENDING_SIZE, 0 },
	[TABLE_TIMER] = { WORLD_TIMER_NEAR, WORLD_TIMER_FAR, WORLD_TIMERS_NEAR, WORLD_TIMERS,
			  WORLD_TIMER_SIZE, 0 },
	[TABLE_USER_NS] = { WORLD_USER_NS_NEAR, WORLD_USER_NS_FAR, WORLD_USER_NSS_NEAR,
			    WORLD_USER_NSS, WORLD_USER_NS_SIZE, 0 },
	[TABLE_NS] = { WORLD_NS_NEAR, WORLD_NS_FAR, WORLD_NSS_NEAR, WORLD_NSS, WORLD_NS_SIZE, 0 },
	[TABLE_SHM] = { 0, WORLD_SHM_FAR, 0, WORLD_SHMS, WORLD_SHM_SIZE, 0 },
	[TABLE_UCOUNTS_PERCPU] = { 0, WORLD_PERCPU_FAR, 0, WORLD_UCOUNTS, WORLD_UCOUNTS_PERCPU_SIZE,
				   0 },
	[TABLE_PERCPU_PAGE] = { 0, WORLD_PERCPU_PAGE_FAR, 0, WORLD_PERCPU_PAGES, WORLD_PAGE, 0 },
};

/* Mapped world of this process; NULL = none. Set once by world_map() or world_create(). */
extern struct world_header *world;

/* Scans read this once and look at slots below it. Never beyond the table, whatever the file says. */
static inline uint32_t table_high_water(enum world_table_id id)
{
	uint32_t n = smp_load_acquire(&world->table[id].high_water);

	return n < world_layout[id].capacity ? n : world_layout[id].capacity;
}

static inline char *world_at(uint64_t offset)
{
	return (char *)world + (int64_t)(offset - WORLD_HEADER_OFFSET);
}

/* world_overlaps - does the address range touch the mapping of the world? */
static inline bool world_overlaps(uintptr_t start, uintptr_t end)
{
	return start < (uintptr_t)world_at(WORLD_SIZE) && end > (uintptr_t)world_at(0);
}

/* The slot at @idx; NULL if no such slot was ever used. The check is what a torn world needs. */
static inline void *table_slot(enum world_table_id id, uint32_t idx)
{
	const struct table_layout *l = &world_layout[id];

	if (idx >= table_high_water(id))
		return NULL;
	if (idx < l->nr_near)
		return world_at(l->near - (uint64_t)(idx + 1) * l->size);
	return world_at(l->far + (uint64_t)(idx - l->nr_near) * l->size);
}

static inline uint32_t table_index(enum world_table_id id, const void *slot)
{
	const struct table_layout *l = &world_layout[id];
	uint64_t offset = WORLD_HEADER_OFFSET + ((const char *)slot - (char *)world);

	if (offset < l->near && offset >= l->near - (uint64_t)l->nr_near * l->size)
		return (l->near - offset) / l->size - 1;
	return l->nr_near + (offset - l->far) / l->size;
}

/*
 * table_alloc - claim a free slot of @id.
 *
 * Returns the slot in state SLOT_NEW owned by @owner with a fresh generation, its other bytes as
 * the last user left them; NULL if the table or /dev/shm is full (nothing is then changed).
 * Lock-free, async-signal-safe. The slot word is the first 8 bytes of every slot.
 */
void *table_alloc(enum world_table_id id, uint32_t owner);

/* table_free - give a slot back. The caller owns it (SLOT_NEW or SLOT_RELEASING). */
void table_free(enum world_table_id id, void *slot);

/*
 * table_reserve - see that slots below @n have memory.
 * Returns 0 or -ENOMEM (the capacity or /dev/shm is exhausted). Async-signal-safe.
 */
int table_reserve(enum world_table_id id, uint32_t n);

/*
 * world_create - make /dev/shm/kpemu.UID.NAME and map it. O_EXCL: an existing file is -EEXIST.
 * On success the returned descriptor holds the launcher's lock, the world's life sign: keep it.
 * Returns a descriptor or -errno; on failure no file is left.
 */
int world_create(const char *name, unsigned int uid);

/*
 * world_map - map the world open at @fd and verify it; the descriptor stays the caller's.
 * Returns 0, -ENOEXEC (not a world: too short, wrong magic, inconsistent sizes), -EPROTO (of
 * another ABI) or another -errno. Every size is checked against the file before use.
 */
int world_map(int fd);

/* world_unmap - forget the mapped world. */
void world_unmap(void);

/* world_map_private - a world in private memory, for tests and the simulator. 0 or -errno. */
int world_map_private(void);

/* world_path - the path of the world NAME of @uid into @buf of WORLD_PATH_MAX bytes. */
void world_path(char *buf, unsigned int uid, const char *name);

/* world_name_valid - letters, digits, '-', '_' and inner '.', 1..WORLD_NAME_MAX bytes. */
bool world_name_valid(const char *name);

/*
 * world_sign_life - the caller is the launcher: from now until it ends, however it does,
 * world_launcher_ended() is false.
 */
void world_sign_life(void);

/* world_launcher_ended - of the mapped world; costs no system call. Async-signal-safe. */
static inline bool world_launcher_ended(void)
{
	return READ_ONCE(world->life.__data.__lock) & 0x40000000; /* FUTEX_OWNER_DIED */
}

/* Is the launcher of the world open at @fd alive? (It holds an exclusive lock on the file.) */
bool world_launcher_alive(int fd);

#endif
