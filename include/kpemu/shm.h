/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System V shared memory: who owns a segment, and the MEMLOCK charge of SHM_LOCK. */
#ifndef KPEMU_SHM_H
#define KPEMU_SHM_H

#include <stdint.h>
#include <sys/shm.h>

#include <kpemu/refusal.h>
#include <kpemu/world.h>

struct task_struct;

/* A segment that a task of the world has made. The memory, and who may attach it, are the host's. */
struct shmid_kernel {
	uint64_t slot;
	int32_t id;
	uint32_t uid, gid, cuid, cgid; /* owner and creator, of the initial user namespace */
	uint32_t hugetlb; /* is never charged */
	uint32_t ucounts; /* index + 1 of the record charged; 0: not locked */
	uint32_t ipc_user_ns; /* number of the one that owns the ipc namespace it was made in */
	uint64_t pages; /* charged */
	uint64_t ipc_ns; /* serial of the ipc namespace it was made in; 0: the initial one */
	uint64_t pad;
};
static_assert(sizeof(struct shmid_kernel) == WORLD_SHM_SIZE, "ABI");

#define for_each_shm(i, shp)                                                                       \
	for (uint32_t i = 0; ((shp) = table_slot(TABLE_SHM, i)); i++)

/*
 * shm_made - the real shmget(2) of @t has answered @id; if the segment is new, its owner is @t. A
 * full table leaves it unknown: it then belongs to everybody. Callers block signals.
 */
void shm_made(struct task_struct *t, int id, int flags);

/*
 * shm_ctl - shmctl(2) of @t with SHM_LOCK, SHM_UNLOCK or IPC_RMID, the real call included: 0 or
 * -errno in the kernel's order. The host may refuse to lock: the emulated answer stands. What has
 * been destroyed is released before a refusal. (kernel/ucounts.md 5.2)
 */
long shm_ctl(struct task_struct *t, int id, int cmd, struct refusal *why);

/* shm_owner - the model's owner and creator, as @t calls them, into what IPC_STAT has said of @id. */
void shm_owner(const struct task_struct *t, int id, struct ipc_perm *perm);

/*
 * shm_reap - release and uncharge segments that the host has no more, and destroy those of ipc
 * namespaces that have gone. How many. Callers block signals.
 */
int shm_reap(struct task_struct *t);

/*
 * shm_destroy_all - the world ends: what was made in ipc namespaces of its own is destroyed. What
 * was made in the initial one stays, as segments do.
 */
void shm_destroy_all(struct task_struct *t);

/* derive_memlock - pages of locked segments charged to @uc, or through it. */
struct ucounts;
long derive_memlock(const struct ucounts *uc);

#endif
