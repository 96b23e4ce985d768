/* SPDX-License-Identifier: GPL-2.0-or-later */
/* POSIX message queues: the model's names, owners, attributes, and the MSGQUEUE charge. */
#ifndef KPEMU_MQUEUE_H
#define KPEMU_MQUEUE_H

#include <mqueue.h>
#include <stdbool.h>
#include <stdint.h>

#include <kpemu/refusal.h>
#include <kpemu/world.h>

struct task_struct;

#define MQ_NAME_MAX 255	 /* a name without its slash, bytes (NAME_MAX) */
#define MQ_HARD_MSGMAX 65536
#define MQ_HARD_MSGSIZEMAX (16 * 1024 * 1024)

struct mqueue_inode {
	uint64_t slot;
	uint64_t ino;	  /* of the real queue; 0 = not made yet */
	uint64_t serial;  /* makes the real name unique; order of creation */
	int64_t maxmsg, msgsize; /* the model's; the real queue's may be clamped */
	uint64_t bytes;	  /* charged */
	uint32_t ucounts; /* index + 1 of the record charged; 0 = not charged */
	uint32_t ipc_ns; /* serial of the ipc namespace; INIT_IPC_NS: the initial one */
	uint32_t uid, gid, mode;
	uint32_t clamped;  /* the real queue is smaller */
	uint32_t unlinked; /* has no name any more; lives until the last close */
	uint32_t pad;
	char name[MQ_NAME_MAX + 1];
	uint8_t reserved[384 - 80 - 256];
};
static_assert(sizeof(struct mqueue_inode) == WORLD_MQUEUE_SIZE, "ABI");

#define for_each_mqueue(i, q)                                                                      \
	for (uint32_t i = 0; ((q) = table_slot(TABLE_MQUEUE, i)); i++)

/*
 * The calls behind mq_open(3) and mq_unlink(3), for @t, as the system call answers: a descriptor,
 * 0, or -errno in the kernel's order of checks (kernel/ucounts.md section 3). @name is without its
 * slash. A refusal by the limit fills *@why. What the model allows and the host refuses is undone
 * and counted as a host collision. Callers block signals; the world's mq_lock is taken inside.
 */
long do_mq_open(struct task_struct *t, const char *name, int oflag, unsigned int mode,
		const struct mq_attr *attr, struct refusal *why);
long do_mq_unlink(struct task_struct *t, const char *name);

/* do_mq_getsetattr - the system call, with the model's maxmsg and msgsize in *@old. */
long do_mq_getsetattr(int fd, const struct mq_attr *new, struct mq_attr *old);

/* mqueue_reap_unlinked - destroy and uncharge nameless queues that nobody holds open any more. */
void mqueue_reap_unlinked(struct task_struct *t);

/*
 * mqueue_chmod, mqueue_chown - fchmod(2) and fchown(2) of a queue, for @t: 0, -EPERM or -EINVAL, by the
 * model's ids. The real queue stays as it is: its permissions let every task of the world in.
 */
long mqueue_chmod(struct task_struct *t, struct mqueue_inode *q, unsigned int mode);
long mqueue_chown(struct task_struct *t, struct mqueue_inode *q, uint32_t uid, uint32_t gid);

/* mqueue_by_inode - the live queue whose real queue has this inode number; NULL. */
struct mqueue_inode *mqueue_by_inode(uint64_t ino);

/* mqueue_real_name - name (with slash) of the real queue behind @q into @buf of 256 bytes. */
void mqueue_real_name(char *buf, const struct mqueue_inode *q);

/* mqueue_destroy_all - unlink every real queue of a world that is being taken down. Returns how many. */
unsigned int mqueue_destroy_all(struct task_struct *t);

#endif
