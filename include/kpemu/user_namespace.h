/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User namespaces: whose maxima bound which charges, and which ids mean whom. */
#ifndef KPEMU_USER_NAMESPACE_H
#define KPEMU_USER_NAMESPACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kpemu/world.h>

struct refusal;
struct task_struct;
struct ucounts;

enum {
	INIT_USER_NS = 0, /* number of the world's initial user namespace */
	INIT_IPC_NS = 0,
};

#define USER_NS_LEVELS 33 /* deepest level; the initial namespace is at 0 (kernel/ucounts.md 6.1) */
#define OVERFLOW_ID    65534 /* the kernel's overflowuid and overflowgid: ids without a name here */
#define INVALID_ID     UINT32_MAX /* nobody has this id */

/* Counters that task limits bound. */
enum rlimit_type {
	UCOUNT_RLIMIT_NPROC,
	UCOUNT_RLIMIT_MSGQUEUE,
	UCOUNT_RLIMIT_SIGPENDING,
	UCOUNT_RLIMIT_MEMLOCK,
	UCOUNT_RLIMIT_COUNTS,
};

/* Those worth making scalable: the others change under a lock in the kernel, and by many at once. */
enum {
	UCOUNT_SPLIT_NPROC,
	UCOUNT_SPLIT_SIGPENDING,
	UCOUNT_SPLIT_COUNTS,
};

/* What /proc/sys/user/max_* bounds, in the kernel's order. */
enum ucount_type {
	UCOUNT_USER_NAMESPACES,
	UCOUNT_PID_NAMESPACES,
	UCOUNT_UTS_NAMESPACES,
	UCOUNT_IPC_NAMESPACES,
	UCOUNT_NET_NAMESPACES,
	UCOUNT_MNT_NAMESPACES,
	UCOUNT_CGROUP_NAMESPACES,
	UCOUNT_TIME_NAMESPACES,
	UCOUNT_INOTIFY_INSTANCES,
	UCOUNT_INOTIFY_WATCHES,
	UCOUNT_FANOTIFY_GROUPS,
	UCOUNT_FANOTIFY_MARKS,
	UCOUNT_COUNTS,
};

/* In a struct refusal, a ucount_type comes after the rlimit_types. */
#define REFUSAL_UCOUNT(type) (UCOUNT_RLIMIT_COUNTS + (type))

/*
 * rlimit_name - "nproc", "msgqueue", "sigpending", "memlock": the words of --rlimit and reports;
 * of a REFUSAL_UCOUNT() "user_namespaces" and so on: the file in /proc/sys/user without "max_".
 */
const char *rlimit_name(enum rlimit_type type);

/* ucount_name - "user_namespaces"; NULL if there is no such type. */
const char *ucount_name(unsigned int type);

/* rlimit_type_of - the type of RLIMIT_* number @resource; -1 if the model does not keep it. */
int rlimit_type_of(unsigned int resource);

/* Ids @first to @first + @count - 1 inside are @lower_first and on in the initial namespace. */
struct uid_gid_extent {
	uint32_t first, lower_first, count;
};

/* The kernel takes 340 lines. A namespace is one slot here; 32 are four times what tools write. */
#define USER_NS_EXTENTS 32

struct uid_gid_map {
	uint32_t nr_extents; /* 0: not written yet; set last, and never changed again */
	uint32_t pad;
	struct uid_gid_extent extent[USER_NS_EXTENTS];
};

enum {
	USERNS_SETGROUPS_ALLOWED = 1 << 0,
	USERNS_PARENT_SETFCAP = 1 << 1, /* its creator had CAP_SETFCAP */
	USERNS_OPENED = 1 << 2, /* somebody has, or had, a descriptor of it */
};

/*
 * Numbers of namespaces are indices of slots, and are used again when a namespace has gone; its
 * serial is not. Slot 0 has its constants in the code: only its ucount_max is ever written.
 */
struct user_namespace {
	uint64_t slot;
	uint32_t parent; /* number */
	uint32_t level;
	uint32_t owner, group; /* the creator's effective ids (kuid, kgid) */
	uint32_t ucounts; /* index + 1 of the creator's record in the parent; 0: holds no charge */
	uint32_t flags;
	uint64_t serial;
	uint64_t rlimit_max[UCOUNT_RLIMIT_COUNTS]; /* MEMLOCK in bytes, against pages (1.5) */
	uint32_t ucount_max[UCOUNT_COUNTS]; /* + 1; 0: of the initial namespace, as the host has it */
	uint32_t pad[2];
	struct uid_gid_map uid_map, gid_map;
	uint8_t reserved[1024 - 128 - 64 - 2 * sizeof(struct uid_gid_map)];
	/* In a line of its own: a slot of the SIGPENDING counter of @ucounts (`cache`), or units that
	 * all records above have been charged for (`cache-rfc`). */
	uint64_t stock;
	uint64_t pad1[7];
};
static_assert(sizeof(struct user_namespace) == WORLD_USER_NS_SIZE, "ABI");

#define for_each_user_ns(i, ns)                                                                    \
	for (uint32_t i = 0; ((ns) = table_slot(TABLE_USER_NS, i)); i++)

/* user_ns_of - the namespace with number @n, the initial one included; NULL if there never was one. */
static inline struct user_namespace *user_ns_of(uint32_t n)
{
	return table_slot(TABLE_USER_NS, n);
}

static inline uint32_t user_ns_level(uint32_t n)
{
	struct user_namespace *ns = n == INIT_USER_NS ? NULL : user_ns_of(n);

	return ns ? READ_ONCE(ns->level) : 0;
}

/*
 * make_kuid, make_kgid - whom id @id means in namespace @n; INVALID_ID: nobody. from_kuid, from_kgid
 * - what that one is called in @n; INVALID_ID: it has no name there. ..._munged: OVERFLOW_ID then,
 * as everything shows it that programs read. (kernel/user_namespace.c)
 */
uint32_t map_id_down(uint32_t n, bool gid, uint32_t id);
uint32_t map_id_up(uint32_t n, bool gid, uint32_t id);

static inline uint32_t make_kuid(uint32_t n, uint32_t uid)
{
	return likely(n == INIT_USER_NS) ? uid : map_id_down(n, false, uid);
}

static inline uint32_t make_kgid(uint32_t n, uint32_t gid)
{
	return likely(n == INIT_USER_NS) ? gid : map_id_down(n, true, gid);
}

static inline uint32_t from_kuid(uint32_t n, uint32_t kuid)
{
	return likely(n == INIT_USER_NS) ? kuid : map_id_up(n, false, kuid);
}

static inline uint32_t from_kgid(uint32_t n, uint32_t kgid)
{
	return likely(n == INIT_USER_NS) ? kgid : map_id_up(n, true, kgid);
}

static inline uint32_t from_kuid_munged(uint32_t n, uint32_t kuid)
{
	uint32_t id = from_kuid(n, kuid);

	return id == INVALID_ID ? OVERFLOW_ID : id;
}

static inline uint32_t from_kgid_munged(uint32_t n, uint32_t kgid)
{
	uint32_t id = from_kgid(n, kgid);

	return id == INVALID_ID ? OVERFLOW_ID : id;
}

/* userns_may_setgroups - has @n a gid map, and is setgroups(2) not denied in it? */
bool userns_may_setgroups(uint32_t n);

/* What is written to uid_map, gid_map and setgroups. */
enum map_file {
	MAP_UID,
	MAP_GID,
	MAP_SETGROUPS,
};

/*
 * map_write - @t writes @n bytes of @text at position @pos to the file of namespace @number: @n,
 * -EINVAL, -EPERM; more than USER_NS_EXTENTS lines: -ENOMEM. Takes ns_lock().
 */
long map_write(struct task_struct *t, uint32_t number, enum map_file file, const char *text,
	       size_t n, uint64_t pos);

/*
 * userns_rlimit_max - what namespace @n lets the records of its ancestors hold on its account; the
 * initial one has no ancestors, and no maximum. Tasks, bytes, signals; of MEMLOCK a number of bytes
 * that the kernel compares with pages. (kernel/ucounts.md 1.4, 1.5)
 */
long userns_rlimit_max(uint32_t n, enum rlimit_type type);

/* user_ns_nested_ucounts - the record that the records of @n are charged through; NULL at the top. */
struct ucounts *user_ns_nested_ucounts(uint32_t n);

#endif
