/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Namespaces. Those of users and of ipc are the model's alone; the others are made for real where
 * the real caller may. Where it may not, UTS, cgroup and time namespaces are charged and go without
 * effect; the others would be missed, and are refused.
 */
#include <linux/capability.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <kpemu/inotify.h>
#include <kpemu/proc.h>

#include "preload/hook.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define NS_GET_NSTYPE _IO(0xb7, 0x3)

#define EMULATED_KINDS (CLONE_NEWUSER | CLONE_NEWIPC)
#define FAKED_KINDS    (CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWTIME)
#define MISSED_KINDS   (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET)

/* host_flags - what of clone(2)'s @flags the host is asked for; -EPERM. */
long host_flags(uint64_t flags)
{
	uint64_t real = flags & ~(uint64_t)EMULATED_KINDS;

	if (!(real & (FAKED_KINDS | MISSED_KINDS)) || host_capable(CAP_SYS_ADMIN))
		return real;
	if (real & MISSED_KINDS) {
		host_collision();
		return -EPERM;
	}
	return real & ~(uint64_t)FAKED_KINDS;
}

static long unshare_real(uint64_t flags)
{
	long real = host_flags(flags), ret;

	if (real <= 0)
		return real;
	ret = sys_call(__NR_unshare, real);
	if (ret == -EPERM && !(real & MISSED_KINDS))
		ret = sys_call(__NR_unshare, real & ~FAKED_KINDS);
	if (ret)
		host_collision();
	return ret;
}

/* Also those that are being made. */
static unsigned int count_threads(void)
{
	uint32_t group = READ_ONCE(current->group_leader);
	struct task_struct *t;
	unsigned int n = 0;

	for_each_task(i, t)
		n += slot_state(READ_ONCE(t->slot)) != SLOT_FREE &&
		     READ_ONCE(t->group_leader) == group;
	return n;
}

/* Threads that have ended count until somebody looks. Callers block signals. */
static bool has_threads(void)
{
	return count_threads() > 1 && (!reap_dead(-1) || count_threads() > 1);
}

long hook_unshare(int flags)
{
	struct ns_change change;
	struct refusal why;
	uint64_t mask;
	long ret;
	int err;

	block_signals(&mask);
	ret = unshare_begin(current, (unsigned int)flags, has_threads(), &change, &why);
	if (!ret) {
		ret = unshare_real((unsigned int)flags);
		err = unshare_end(current, &change, !ret);
		if (!ret)
			ret = err;
	}
	restore_signals(&mask);
	refusal_log(&why, "unshare");
	return ret;
}

/* --- setns --- */

static long enter(enum proc_file kind, uint32_t number, uint64_t serial)
{
	uint64_t mask;
	long ret;

	block_signals(&mask);
	ret = kind == PROC_NS_USER ? enter_user_ns(current, number, serial, has_threads()) :
				     enter_ipc_ns(current, number, serial);
	restore_signals(&mask);
	return ret;
}

static long setns_emulated(enum proc_file kind, uint32_t number, uint64_t serial, int type)
{
	if (type && type != (kind == PROC_NS_USER ? CLONE_NEWUSER : CLONE_NEWIPC))
		return -EINVAL;
	return enter(kind, number, serial);
}

/* Of a process of the world: the emulated kinds here, the others by the host. */
static long setns_pidfd(int fd, struct task_struct *t, unsigned int types)
{
	unsigned int real = types & ~EMULATED_KINDS;
	uint32_t user = READ_ONCE(t->cred.user_ns), ipc = READ_ONCE(t->ns[NS_IPC]);
	long ret = 0;

	if (types & CLONE_NEWUSER)
		ret = enter(PROC_NS_USER, user, user_ns_of(user)->serial);
	if (!ret && types & CLONE_NEWIPC)
		ret = enter(PROC_NS_IPC, ipc, ((struct ns_common *)table_slot(TABLE_NS, ipc))->serial);
	if (!ret && real)
		ret = sys_call(__NR_setns, fd, real);
	return ret;
}

long hook_setns(int fd, int type)
{
	struct task_struct *t;
	enum proc_file kind;
	uint64_t serial;
	uint32_t number;
	pid_t pid;

	kind = proc_ns_target(fd, &number, &serial);
	if (kind != PROC_NONE)
		return setns_emulated(kind, number, serial, type);
	switch (sys_call(__NR_ioctl, fd, NS_GET_NSTYPE)) {
	case CLONE_NEWUSER:
		return setns_emulated(PROC_NS_USER, INIT_USER_NS, 0, type);
	case CLONE_NEWIPC:
		return setns_emulated(PROC_NS_IPC, INIT_IPC_NS, 0, type);
	}
	pid = pid_behind(fd);
	t = pid > 0 ? find_task_by_vpid(pid) : NULL;
	if (t && type & EMULATED_KINDS)
		return setns_pidfd(fd, t, type);
	return sys_call(__NR_setns, fd, type);
}

/* --- chroot --- */

static bool same_root(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

long hook_chroot(const char *path)
{
	struct stat before = { 0 }, after = { 0 };
	struct task_struct *leader = task_leader(current);
	long ret;

	sys_call(__NR_newfstatat, AT_FDCWD, "/", &before, 0);
	ret = sys_call(__NR_chroot, path);
	if (ret)
		return ret;
	sys_call(__NR_newfstatat, AT_FDCWD, "/", &after, 0);
	if (same_root(&before, &after))
		return 0;
	fetch_or(&current->flags, (uint32_t)PF_CHROOTED);
	fetch_or(&leader->flags, (uint32_t)PF_CHROOTED);
	return 0;
}

/* --- inotify --- */

long hook_inotify_init1(int flags)
{
	struct refusal why = { 0 };
	uint64_t mask;
	long fd;

	block_signals(&mask);
	fd = sys_call(__NR_inotify_init1, flags);
	if (fd >= 0 && inotify_instance(current, fd, &why)) {
		sys_close(fd);
		fd = -EMFILE;
	}
	restore_signals(&mask);
	refusal_log(&why, "inotify_init");
	return fd;
}

long hook_inotify_init(void)
{
	return hook_inotify_init1(0);
}

long hook_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	struct refusal why = { 0 };
	uint64_t old;
	long wd;

	block_signals(&old);
	wd = sys_call(__NR_inotify_add_watch, fd, path, mask);
	if (wd >= 0 && inotify_watch(current, fd, &why)) {
		sys_call(__NR_inotify_rm_watch, fd, wd);
		wd = -ENOSPC;
	}
	restore_signals(&old);
	refusal_log(&why, "inotify_add_watch");
	return wd;
}
