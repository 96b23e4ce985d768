/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Message queues: checks in the kernel's order, the charge, the real queue behind each name. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"

/*
 * One lock, as in the kernel. A holder that dies is found by the next one, who finishes or undoes
 * what it left: a queue in SLOT_NEW or SLOT_RELEASING whose owner is dead is destroyed.
 *
 * The last close is not seen. Every open descriptor carries a shared flock instead, which survives
 * dup, fork and exec and goes with the last descriptor, however its holder ends; so the real queue
 * keeps its name after the program has unlinked it, until an exclusive lock proves that nobody
 * holds it. That is asked at unlink and close, and before a refusal or a reading.
 */

/* What a message costs beside its bytes: struct msg_msg and struct posix_msg_tree_node. */
#define MSG_COST 48
#define TREE_NODE_COST 48
#define MQ_PRIO_MAX_NODES 32768

static void recover(struct task_struct *t);

static void mq_lock(struct task_struct *t)
{
	if (world_lock(&world->mq_lock, task_ref(t)))
		recover(t);
}

static void mq_unlock(void)
{
	world_unlock(&world->mq_lock);
}

static bool is_live(const struct mqueue_inode *q)
{
	return slot_state(READ_ONCE(q->slot)) == SLOT_LIVE;
}

static void own(struct mqueue_inode *q, enum slot_state state, uint32_t owner)
{
	smp_store_release(&q->slot, slot_word(state, slot_gen(READ_ONCE(q->slot)), owner));
}

struct mqueue_inode *mqueue_by_inode(uint64_t ino)
{
	struct mqueue_inode *q;

	for_each_mqueue(i, q)
		if (is_live(q) && READ_ONCE(q->ino) == ino)
			return q;
	return NULL;
}

static uint64_t name_hash(const char *s)
{
	uint64_t h = 14695981039346656037ull;

	while (*s)
		h = (h ^ (unsigned char)*s++) * 1099511628211ull;
	return h;
}

void mqueue_real_name(char *buf, const struct mqueue_inode *q)
{
	int n = snprintf(buf, 256, "/" WORLD_PREFIX "%u.%s.%u.%llu.", world->uid, world->name,
			 q->ipc_ns, (unsigned long long)q->serial);

	if (n + strlen(q->name) < 256)
		strcpy(buf + n, q->name);
	else
		snprintf(buf + n, 256 - n, "%016llx", (unsigned long long)name_hash(q->name));
}

static long real_open(const struct mqueue_inode *q, int oflag, unsigned int mode,
		      const struct mq_attr *attr)
{
	char name[256];

	mqueue_real_name(name, q);
	return sys_call(__NR_mq_open, name + 1, oflag, mode, attr);
}

static void real_unlink(const struct mqueue_inode *q)
{
	char name[256];

	mqueue_real_name(name, q);
	sys_call(__NR_mq_unlink, name + 1);
}

static int charge(struct task_struct *t, struct mqueue_inode *q, uint64_t bytes,
		  struct refusal *why)
{
	struct ucounts *uc = alloc_ucounts(t->cred.user_ns, t->cred.uid);
	uint64_t limit = rlimit(t, UCOUNT_RLIMIT_MSGQUEUE);

	if (!uc)
		return -ENOMEM;
	WRITE_ONCE(q->bytes, bytes);
	if (ucounts_charge(t, uc, UCOUNT_RLIMIT_MSGQUEUE, &q->ucounts, bytes, limit, false, why))
		return 0;
	why->err = EMFILE;
	why->pid = t->pid;
	return -EMFILE;
}

static void uncharge(struct task_struct *t, struct mqueue_inode *q)
{
	ucounts_uncharge(t, UCOUNT_RLIMIT_MSGQUEUE, &q->ucounts, READ_ONCE(q->bytes));
}

/* The end of a queue, from any state; a destroyer that dies here is followed by recover(). */
static void destroy(struct task_struct *t, struct mqueue_inode *q)
{
	own(q, SLOT_RELEASING, task_ref(t));
	if (q->serial)
		real_unlink(q);
	uncharge(t, q);
	WRITE_ONCE(q->ino, 0);
	WRITE_ONCE(q->serial, 0);
	table_free(TABLE_MQUEUE, q);
}

static void recover(struct task_struct *t)
{
	struct mqueue_inode *q;

	for_each_mqueue(i, q) {
		uint64_t w = READ_ONCE(q->slot);
		bool half = slot_state(w) == SLOT_NEW || slot_state(w) == SLOT_RELEASING;

		if (half && !task_owner_alive(slot_owner(w)))
			destroy(t, q);
	}
}

/* Does anybody have the queue open? Yes as well when it cannot be found out. */
static bool is_held(const struct mqueue_inode *q)
{
	long fd = real_open(q, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, NULL);
	bool held;

	if (fd == -ENOENT)
		return false; /* somebody removed the real queue past us */
	if (fd < 0)
		return true;
	held = sys_call(__NR_flock, fd, LOCK_EX | LOCK_NB) < 0;
	sys_close(fd);
	return held;
}

static void unlink_lost(struct task_struct *t);

static unsigned int reap_unlinked(struct task_struct *t)
{
	struct mqueue_inode *q;
	unsigned int n = 0, left = 0;

	for_each_mqueue(i, q) {
		if (!is_live(q) || !READ_ONCE(q->unlinked))
			continue;
		if (is_held(q)) {
			left++;
			continue;
		}
		destroy(t, q);
		n++;
	}
	WRITE_ONCE(world->mq_unlinked, left);
	return n;
}

void mqueue_reap_unlinked(struct task_struct *t)
{
	mq_lock(t);
	recover(t);
	unlink_lost(t);
	reap_unlinked(t);
	mq_unlock();
}

unsigned int mqueue_destroy_all(struct task_struct *t)
{
	struct mqueue_inode *q;
	unsigned int n = 0;

	mq_lock(t);
	for_each_mqueue(i, q) {
		if (slot_state(READ_ONCE(q->slot)) == SLOT_FREE)
			continue;
		destroy(t, q);
		n++;
	}
	mq_unlock();
	return n;
}

/* Serials are never given twice: a queue is not mistaken for one of a later namespace. */
static uint32_t ipc_ns_of(const struct task_struct *t)
{
	struct ns_common *ns = table_slot(TABLE_NS, READ_ONCE(t->ns[NS_IPC]));

	return ns && READ_ONCE(t->ns[NS_IPC]) != INIT_IPC_NS ? ns->serial : INIT_IPC_NS;
}

/* Queues of ipc namespaces that have ended lose their names, as all there do. */
static void unlink_lost(struct task_struct *t)
{
	struct mqueue_inode *q;

	ns_lock(t);
	ns_reap();
	for_each_mqueue(i, q)
		if (is_live(q) && !q->unlinked && ipc_ns_gone(q->ipc_ns))
			WRITE_ONCE(q->unlinked, 1);
	ns_unlock();
}

static struct mqueue_inode *lookup(uint32_t ipc_ns, const char *name)
{
	struct mqueue_inode *q;

	for_each_mqueue(i, q)
		if (is_live(q) && !q->unlinked && q->ipc_ns == ipc_ns && !strcmp(q->name, name))
			return q;
	return NULL;
}

static unsigned int queues_count(uint32_t ipc_ns)
{
	struct mqueue_inode *q;
	unsigned int n = 0;

	for_each_mqueue(i, q)
		n += is_live(q) && q->ipc_ns == ipc_ns;
	return n;
}

/* A queue has no owner whom the namespace that owns all of them does not know. */
static bool has_no_name(const struct task_struct *t)
{
	struct ns_common *ns = table_slot(TABLE_NS, READ_ONCE(t->ns[NS_IPC]));

	return ns && (from_kuid(ns->user_ns, t->cred.fsuid) == INVALID_ID ||
		      from_kgid(ns->user_ns, t->cred.fsgid) == INVALID_ID);
}

/* What getname() says of a path. */
static int check_path(const char *name)
{
	if (!*name)
		return -ENOENT;
	return strnlen(name, PATH_MAX) == PATH_MAX ? -ENAMETOOLONG : 0;
}

/* What a look-up of one component says of it. */
static int check_component(const char *name)
{
	if (!strcmp(name, ".") || !strcmp(name, "..") || strchr(name, '/'))
		return -EACCES;
	return strlen(name) > MQ_NAME_MAX ? -ENAMETOOLONG : 0;
}

/* inode_permission() of a queue for read (4) and write (2). */
static int check_permission(const struct task_struct *t, const struct mqueue_inode *q, int want)
{
	unsigned int mode = q->mode;

	if (t->cred.fsuid == q->uid)
		mode >>= 6;
	else if (in_group_p(&t->cred, q->gid))
		mode >>= 3;
	if ((mode & want) == (unsigned int)want || capable_wrt(t, q->uid, q->gid, CAP_DAC_OVERRIDE))
		return 0;
	return want == 4 && capable_wrt(t, q->uid, q->gid, CAP_DAC_READ_SEARCH) ? 0 : -EACCES;
}

static int wanted(int oflag)
{
	switch (oflag & O_ACCMODE) {
	case O_RDONLY:
		return 4;
	case O_WRONLY:
		return 2;
	}
	return 4 | 2;
}

/* A new descriptor tells the world that it is open. */
static long hold(long fd)
{
	if (fd >= 0)
		sys_call(__NR_flock, fd, LOCK_SH | LOCK_NB);
	return fd;
}

static long open_existing(struct task_struct *t, const struct mqueue_inode *q, int oflag)
{
	int err;

	if ((oflag & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return -EEXIST;
	if ((oflag & O_ACCMODE) == (O_RDWR | O_WRONLY))
		return -EINVAL;
	err = check_permission(t, q, wanted(oflag));
	return err ? err : hold(real_open(q, oflag & ~(O_CREAT | O_EXCL), 0, NULL));
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The attributes of a new queue into @q, and its cost in bytes. 0, -EINVAL, -EOVERFLOW. */
static int new_attributes(struct task_struct *t, struct mqueue_inode *q, const struct mq_attr *attr,
			  uint64_t *bytes)
{
	int64_t msg_max = mq_sysctl_value(t, MQ_MSG_MAX);
	int64_t msgsize_max = mq_sysctl_value(t, MQ_MSGSIZE_MAX);
	bool big = capable(t, CAP_SYS_RESOURCE);
	uint64_t nodes, size, overhead;

	if (attr) {
		q->maxmsg = attr->mq_maxmsg;
		q->msgsize = attr->mq_msgsize;
	} else {
		q->maxmsg = least(msg_max, mq_sysctl_value(t, MQ_MSG_DEFAULT));
		q->msgsize = least(msgsize_max, mq_sysctl_value(t, MQ_MSGSIZE_DEFAULT));
	}
	if (q->maxmsg <= 0 || q->msgsize <= 0 || q->maxmsg > (big ? MQ_HARD_MSGMAX : msg_max) ||
	    q->msgsize > (big ? MQ_HARD_MSGSIZEMAX : msgsize_max))
		return -EINVAL;
	nodes = q->maxmsg < MQ_PRIO_MAX_NODES ? q->maxmsg : MQ_PRIO_MAX_NODES;
	overhead = q->maxmsg * MSG_COST + nodes * TREE_NODE_COST;
	if (__builtin_mul_overflow((uint64_t)q->maxmsg, (uint64_t)q->msgsize, &size) ||
	    __builtin_add_overflow(size, overhead, bytes))
		return -EOVERFLOW;
	return 0;
}

/* As large as the model's queue, but no larger than the host lets it be. */
static struct mq_attr real_attributes(struct mqueue_inode *q)
{
	struct mq_attr a = { .mq_maxmsg = q->maxmsg, .mq_msgsize = q->msgsize };

	if (a.mq_maxmsg > world->host_mq_msg_max)
		a.mq_maxmsg = world->host_mq_msg_max;
	if (a.mq_msgsize > world->host_mq_msgsize_max)
		a.mq_msgsize = world->host_mq_msgsize_max;
	q->clamped = a.mq_maxmsg < q->maxmsg || a.mq_msgsize < q->msgsize;
	return a;
}

/* The host's umask shows in the real queue's mode, which must then let every task of ours in. */
static long create_real(struct mqueue_inode *q, int oflag, unsigned int mode)
{
	struct mq_attr a = real_attributes(q);
	struct stat st;
	long fd = real_open(q, oflag | O_CREAT | O_EXCL, mode, &a);

	if (fd == -EEXIST) {
		/* Left by an earlier world of this name: nobody else makes such names. */
		real_unlink(q);
		fd = real_open(q, oflag | O_CREAT | O_EXCL, mode, &a);
	}
	if (fd < 0)
		return fd;
	hold(fd);
	if (sys_call(__NR_fstat, fd, &st) == 0) {
		q->mode = st.st_mode & 07777;
		WRITE_ONCE(q->ino, st.st_ino);
		WRITE_ONCE(world->mq_dev, st.st_dev);
	}
	if ((q->mode & 0600) != 0600)
		sys_call(__NR_fchmod, fd, q->mode | 0600);
	return fd;
}

static struct mqueue_inode *new_queue(struct task_struct *t, const char *name)
{
	struct mqueue_inode *q = table_alloc(TABLE_MQUEUE, task_ref(t));

	if (!q)
		return NULL;
	q->ipc_ns = ipc_ns_of(t);
	q->uid = t->cred.fsuid;
	q->gid = t->cred.fsgid;
	q->unlinked = 0;
	strcpy(q->name, name);
	WRITE_ONCE(q->serial, fetch_add(&world->mq_serial, 1) + 1);
	return q;
}

static long create_queue(struct task_struct *t, const char *name, int oflag, unsigned int mode,
			 const struct mq_attr *attr, struct refusal *why)
{
	struct mqueue_inode *q;
	uint64_t bytes;
	long ret;

	if (queues_count(ipc_ns_of(t)) >= (uint32_t)mq_sysctl_value(t, MQ_QUEUES_MAX) &&
	    !capable(t, CAP_SYS_RESOURCE))
		return -ENOSPC;
	q = new_queue(t, name);
	if (!q)
		return -ENOSPC;
	ret = new_attributes(t, q, attr, &bytes);
	if (!ret)
		ret = charge(t, q, bytes, why);
	if (!ret) {
		ret = create_real(q, oflag, mode);
		if (ret < 0)
			atomic64_inc(&world->counts.host_collisions);
	}
	if (ret < 0) {
		destroy(t, q);
		return ret;
	}
	if (q->clamped)
		atomic64_inc(&world->counts.mq_clamped);
	own(q, SLOT_LIVE, 0);
	return ret;
}

static long open_or_create(struct task_struct *t, const char *name, int oflag, unsigned int mode,
			   const struct mq_attr *attr, struct refusal *why)
{
	struct mqueue_inode *q;
	long ret = check_component(name);

	if (ret)
		return ret;
	q = lookup(ipc_ns_of(t), name);
	if (q)
		return open_existing(t, q, oflag);
	if (!(oflag & O_CREAT))
		return -ENOENT;
	if (has_no_name(t))
		return -EOVERFLOW;
	ret = create_queue(t, name, oflag, mode, attr, why);
	/* Full: do queues that nobody holds any more still count? */
	if (why->err || ret == -ENOSPC)
		unlink_lost(t);
	if ((why->err || ret == -ENOSPC) && reap_unlinked(t)) {
		why->err = 0;
		ret = create_queue(t, name, oflag, mode, attr, why);
	}
	return ret;
}

/* The kernel takes a descriptor before it looks at anything: a full table is the first error. */
static int check_descriptor(void)
{
	int fd = sys_open("/", O_PATH | O_CLOEXEC, 0);

	if (fd == -EMFILE || fd == -ENFILE)
		return fd;
	if (fd >= 0)
		sys_close(fd);
	return 0;
}

long do_mq_open(struct task_struct *t, const char *name, int oflag, unsigned int mode,
		const struct mq_attr *attr, struct refusal *why)
{
	long ret = check_path(name);
	int full;

	if (ret)
		return ret;
	mq_lock(t);
	ret = open_or_create(t, name, oflag, mode, attr, why);
	mq_unlock();
	if (ret >= 0)
		return ret;
	full = check_descriptor();
	if (full) {
		why->err = 0; /* the same errno, and another reason */
		return full;
	}
	ucounts_count_refusal(why);
	return ret;
}

/* The mqueue directory is sticky and belongs to who made the ipc namespace: only owners delete. */
static bool may_unlink(const struct task_struct *t, const struct mqueue_inode *q)
{
	struct ns_common *ns = table_slot(TABLE_NS, READ_ONCE(t->ns[NS_IPC]));
	uint32_t directory = ns ? ns->maker : 0;

	return t->cred.fsuid == q->uid || t->cred.fsuid == directory ||
	       capable_wrt(t, q->uid, q->gid, CAP_FOWNER);
}

static long unlink_name(struct task_struct *t, const char *name)
{
	struct mqueue_inode *q;
	long ret = check_component(name);

	if (ret)
		return ret;
	q = lookup(ipc_ns_of(t), name);
	if (!q)
		return -ENOENT;
	if (!may_unlink(t, q))
		return -EPERM;
	WRITE_ONCE(q->unlinked, 1);
	reap_unlinked(t);
	return 0;
}

long do_mq_unlink(struct task_struct *t, const char *name)
{
	long ret = check_path(name);

	if (ret)
		return ret;
	mq_lock(t);
	ret = unlink_name(t, name);
	mq_unlock();
	return ret;
}

long do_mq_getsetattr(int fd, const struct mq_attr *new, struct mq_attr *old)
{
	long ret = sys_call(__NR_mq_getsetattr, fd, new, old);
	struct mqueue_inode *q;
	struct stat st;

	if (ret || !old || !atomic64_read(&world->counts.mq_clamped))
		return ret;
	if (sys_call(__NR_fstat, fd, &st) || st.st_dev != READ_ONCE(world->mq_dev))
		return ret;
	q = mqueue_by_inode(st.st_ino);
	if (q) {
		old->mq_maxmsg = q->maxmsg;
		old->mq_msgsize = q->msgsize;
	}
	return ret;
}

long mqueue_chmod(struct task_struct *t, struct mqueue_inode *q, unsigned int mode)
{
	if (t->cred.fsuid != q->uid && !capable_wrt(t, q->uid, q->gid, CAP_FOWNER))
		return -EPERM;
	if (!in_group_p(&t->cred, q->gid) && !capable_wrt(t, q->uid, q->gid, CAP_FSETID))
		mode &= ~S_ISGID;
	WRITE_ONCE(q->mode, mode & 07777);
	return 0;
}

/* To whom one may give it without CAP_CHOWN: oneself, and a group that one is in. */
long mqueue_chown(struct task_struct *t, struct mqueue_inode *q, uint32_t uid, uint32_t gid)
{
	const uint32_t keep = -1;
	bool mine = t->cred.fsuid == q->uid;

	uid = uid == keep ? q->uid : make_kuid(t->cred.user_ns, uid);
	gid = gid == keep ? q->gid : make_kgid(t->cred.user_ns, gid);
	if (uid == INVALID_ID || gid == INVALID_ID)
		return -EINVAL;
	if (!capable_wrt(t, q->uid, q->gid, CAP_CHOWN) &&
	    (!mine || uid != q->uid || (gid != q->gid && !in_group_p(&t->cred, gid))))
		return -EPERM;
	WRITE_ONCE(q->uid, uid);
	WRITE_ONCE(q->gid, gid);
	return 0;
}
