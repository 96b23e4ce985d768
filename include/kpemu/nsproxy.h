/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Namespaces of all kinds: who may make which, what they are charged to, how long they live. */
#ifndef KPEMU_NSPROXY_H
#define KPEMU_NSPROXY_H

#include <stdbool.h>
#include <stdint.h>

#include <kpemu/refusal.h>
#include <kpemu/user_namespace.h>

struct task_struct;

/* The kinds besides user namespaces, in the order in which the kernel makes them. */
enum ns_kind {
	NS_MNT,
	NS_UTS,
	NS_IPC,
	NS_PID,
	NS_CGROUP,
	NS_NET,
	NS_TIME,
	NR_NS_KINDS,
};

/* What /proc/sys/fs/mqueue has, in the order of its files' names in sysctl.c. */
enum mq_sysctl {
	MQ_QUEUES_MAX,
	MQ_MSG_MAX,
	MQ_MSGSIZE_MAX,
	MQ_MSG_DEFAULT,
	MQ_MSGSIZE_DEFAULT,
	NR_MQ_SYSCTLS,
};

/* A namespace that is not a user namespace, or an inotify instance: one unit of ucount @type. */
struct ns_common {
	uint64_t slot;
	uint64_t serial; /* never given twice; 0: the initial one */
	uint32_t type; /* enum ucount_type */
	uint32_t ucounts; /* index + 1 of the record charged */
	uint32_t user_ns; /* number of the one that owns it */
	uint32_t maker; /* fsuid of who made it (kuid) */
	uint32_t mq[NR_MQ_SYSCTLS]; /* of an ipc namespace: the values + 1; 0: the default */
	int32_t tgid, fd; /* of an inotify instance: where it was made */
	uint32_t watches;
	uint32_t opened; /* somebody has, or had, a descriptor of it */
	uint8_t reserved[128 - 68];
};
static_assert(sizeof(struct ns_common) == WORLD_NS_SIZE, "ABI");

#define for_each_ns(i, ns)                                                                         \
	for (uint32_t i = 0; ((ns) = table_slot(TABLE_NS, i)); i++)

/*
 * One lock for everything that makes, enters or releases namespaces or counts through them. It is
 * held by a reference, as the queues' is, and taken over from the dead: what they left half made
 * is released by ns_reap(). Callers block signals; a holder that is stopped keeps others waiting.
 */
void ns_lock(struct task_struct *t);
void ns_unlock(void);

/*
 * check_clone_flags - flags that do not go together, where the model takes NEWUSER away from the
 * real call. 0 or -EINVAL. (kernel/fork.c, kernel/ucounts.md 6.1)
 */
int check_clone_flags(uint64_t flags);

/*
 * copy_namespaces - the namespaces that @flags ask for, for the new task @t of `current`, whose
 * user namespace has been made: the rest. 0; -EPERM: no CAP_SYS_ADMIN over @t's user namespace;
 * -ENOSPC: *@why is filled; nothing is then made. (6.2)
 */
int copy_namespaces(struct task_struct *t, uint64_t flags, struct refusal *why);

/*
 * create_user_ns - a user namespace below @t's own, charged to @t's effective id there. -ENOSPC
 * (too deep; or too many, *@why filled), -EPERM (chroot, unmapped ids), -ENOMEM (the world is
 * full). Inside ns_lock(): until it is unlocked something must refer to the new one, or it goes.
 */
int create_user_ns(struct task_struct *t, uint32_t *number, struct refusal *why);

/* The changes of one unshare(2), made but not yet the caller's. */
struct ns_change {
	bool user; /* a user namespace is among them */
	uint32_t user_ns;
	uint32_t made; /* bits of enum ns_kind */
	uint32_t ns[NR_NS_KINDS]; /* numbers */
};

/*
 * unshare_begin - what unshare(@flags) makes, in the kernel's order of checks: 0 or -EINVAL,
 * -ENOSPC, -EPERM, -ENOMEM with nothing made. On success ns_lock() is held until unshare_end(),
 * which with @commit makes it the caller's. @threads: the process has others.
 */
int unshare_begin(struct task_struct *t, uint64_t flags, bool threads, struct ns_change *change,
		  struct refusal *why);
int unshare_end(struct task_struct *t, const struct ns_change *change, bool commit);

/* enter_new_user_ns - @t makes a user namespace and is in it. Errors are create_user_ns()'s. */
int enter_new_user_ns(struct task_struct *t, struct refusal *why);

/*
 * enter_user_ns - setns(2) to the user namespace @number with @serial: 0, -EINVAL (one's own,
 * gone), -EPERM. (6.3)
 */
int enter_user_ns(struct task_struct *t, uint32_t number, uint64_t serial, bool threads);

/* enter_ipc_ns - the same for an ipc namespace: 0, -EINVAL (gone), -EPERM. */
int enter_ipc_ns(struct task_struct *t, uint32_t number, uint64_t serial);

/* ns_release - @ns goes, whoever may be in it. Inside ns_lock(). */
void ns_release(struct ns_common *ns);

/*
 * ns_reap - release namespaces that nobody can reach any more: no task is in them, no namespace
 * below, nothing is charged to their records, no descriptor is open. Inside ns_lock(). How many.
 */
int ns_reap(void);

/* ipc_ns_gone - has the ipc namespace with this serial been released? */
bool ipc_ns_gone(uint64_t serial);

/* ucount_max - what the records of namespace @n may hold of @type (kernel/ucounts.md 1.3). */
int32_t ucount_max(uint32_t n, enum ucount_type type);

/* mq_sysctl - a value of the ipc namespace that @t is in. */
int32_t mq_sysctl_value(const struct task_struct *t, enum mq_sysctl which);

#endif
