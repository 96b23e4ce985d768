/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fork and its kin: a slot and a charge before the real call, a birth or an undo after it. */
#include <linux/sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "emu/lib/uaccess.h"
#include "preload/hook.h"
#include "preload/signal.h"
#include "preload/thread.h"

/* new_task - copy_process() for the caller; logs a refusal by @call. 0 or -errno. */
int new_task(struct new_task *n, uint64_t clone_flags, const char *call)
{
	struct refusal why;
	int err;

	n->t = copy_process(current, clone_flags, &err, &why);
	if (!n->t) {
		refusal_log(&why, call);
		return err;
	}
	n->ref = task_ref(n->t);
	return 0;
}

/* new_task_failed - the host refused with @err (positive) what the model allowed: undo. */
void new_task_failed(const struct new_task *n, int err)
{
	if (err == EAGAIN || err == ENOMEM)
		host_collision();
	release_task(n->t);
}

/* child_starts - in the new task: it is `current` from here on. */
void child_starts(const struct new_task *n)
{
	struct task_struct *leader = task_leader(n->t);
	int pid = sys_call(__NR_gettid), tgid = leader == n->t ? pid : leader->tgid;

	current = n->t;
	if (pid == 1) {
		/* First of a pid namespace: the parent knows the number that we have outside. */
		fetch_or(&n->t->flags, PF_PIDNS | PF_PIDNS_INIT);
		return;
	}
	if (task_born(n->t, n->ref, pid, tgid))
		return;
	/* The parent was killed, and somebody took the slot back before we came to run. */
	current = NULL;
	current = task_adopt(NULL, pid, tgid);
}

static pid_t fork_with(pid_t (*real)(void), const char *call)
{
	struct new_task n;
	uint64_t mask;
	pid_t pid;
	int err;

	block_signals(&mask);
	err = new_task(&n, SIGCHLD, call);
	if (err) {
		restore_signals(&mask);
		errno = -err;
		return -1;
	}
	pid = real();
	if (pid == 0) {
		child_starts(&n);
		signals_in_child();
	} else if (pid < 0) {
		new_task_failed(&n, errno);
	} else {
		task_born(n.t, n.ref, pid, pid);
	}
	restore_signals(&mask);
	return pid;
}

pid_t hook_fork(void)
{
	return fork_with(next_fork, "fork");
}

pid_t hook__Fork(void)
{
	return fork_with(next__Fork, "_Fork");
}

/*
 * The three C parts of a call made in syscall.S. A reference to the slot is all that lives across
 * the call, in a register; 0 means that the process is not attached.
 */
long clone_enter(long nr, long a1, long *frame);
void clone_child(uint32_t ref);
long clone_parent(uint32_t ref, long ret);

static const char *clone_name(long nr)
{
	switch (nr) {
	case __NR_clone:
		return "clone";
	case __NR_clone3:
		return "clone3";
	case __NR_vfork:
		return "vfork";
	}
	return "fork";
}

/* Flags that cannot be read are none: the kernel will refuse the call. */
static uint64_t flags_of(long nr, long a1)
{
	uint64_t flags;

	switch (nr) {
	case __NR_clone:
		return a1 & ~CSIGNAL;
	case __NR_clone3:
		return copy_from_user(&flags, (const void *)a1, sizeof(flags)) ? 0 : flags;
	case __NR_vfork:
		return CLONE_VM | CLONE_VFORK;
	}
	return 0;
}

/*
 * The call goes with other arguments than the program's: @frame[0] is a1, @frame[-1] a2. The slot of
 * the new task has room for those of clone3(), for as long as anybody needs them.
 */
static long replace_flags(struct task_struct *t, long nr, long *frame, uint64_t flags, uint64_t real)
{
	size_t size = frame[-1];

	if (nr == __NR_clone) {
		frame[0] = (frame[0] & ~(long)flags) | (long)real;
		return 0;
	}
	if (size > sizeof(t->clone_args))
		return -E2BIG;
	if (copy_from_user(t->clone_args, (const void *)frame[0], size))
		return -EFAULT;
	t->clone_args[0] = real;
	frame[0] = (long)t->clone_args;
	return 0;
}

#define NAMESPACE_FLAGS                                                                      \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |       \
	 CLONE_NEWPID | CLONE_NEWNET)

/* 0 or -errno; the new task is then gone. */
static long make_host_call(const struct new_task *n, long nr, long *frame, uint64_t flags)
{
	long real;

	if (likely(!(flags & NAMESPACE_FLAGS)) || !frame)
		return 0;
	real = host_flags(flags);
	if (real >= 0 && (uint64_t)real != flags)
		real = replace_flags(n->t, nr, frame, flags, real);
	if (real < 0)
		new_task_failed(n, -real);
	return real < 0 ? real : 0;
}

long clone_enter(long nr, long a1, long *frame)
{
	struct new_task n;
	uint64_t mask, flags;
	long err;

	if (!task_here())
		return 0;
	block_signals(&mask);
	flags = flags_of(nr, a1);
	err = new_task(&n, flags, clone_name(nr));
	if (!err)
		err = make_host_call(&n, nr, frame, flags);
	if (!err)
		n.t->start_flags = flags;
	restore_signals(&mask);
	return err ? err : n.ref;
}

static bool shares_tls(uint64_t flags)
{
	return (flags & CLONE_VM) && !(flags & CLONE_SETTLS);
}

/*
 * A child that runs beside its parent on the same thread-local storage cannot have a `current` of
 * its own: its calls count as its parent's. With CLONE_VFORK the parent waits, and takes its
 * `current` back afterwards.
 */
void clone_child(uint32_t ref)
{
	struct task_struct *t = task_get(ref);
	struct new_task n = { t, ref };
	uint64_t mask;

	if (!ref)
		return;
	block_signals(&mask);
	if (!t || !shares_tls(t->start_flags) || (t->start_flags & CLONE_VFORK)) {
		if (t)
			child_starts(&n);
	} else {
		task_born(t, ref, sys_call(__NR_gettid), sys_call(__NR_getpid));
	}
	restore_signals(&mask);
}

long clone_parent(uint32_t ref, long ret)
{
	struct new_task n = { task_get(ref), ref };
	struct task_struct *self;
	uint64_t mask;

	if (!ref)
		return errno_ret(ret);
	block_signals(&mask);
	/* A vfork child had `current` meanwhile. */
	self = find_task_by_vpid(sys_call(__NR_gettid));
	if (self)
		current = self;
	if (n.t && ret < 0)
		new_task_failed(&n, -ret);
	else if (n.t)
		task_born(n.t, ref, ret, n.t->start_flags & CLONE_THREAD ? current->tgid : ret);
	restore_signals(&mask);
	return errno_ret(ret);
}

/* clone(3): the child begins in a function of ours, on the stack that the program gave. */
static int clone_start(void *arg)
{
	struct task_struct *t = arg;
	int (*fn)(void *) = (int (*)(void *))t->start_fn;
	void *fn_arg = (void *)t->start_arg;
	bool thread = t->start_flags & CLONE_THREAD;
	uint32_t ref = task_ref(t);
	int ret;

	clone_child(ref);
	ret = fn(fn_arg);
	if (thread && task_get(ref) == t)
		exit_thread(t);
	return ret;
}

static int clone_attached(int (*fn)(void *), void *stack, int flags, void *arg, pid_t *ptid,
			  void *tls, pid_t *ctid)
{
	long frame[2] = { 0, (unsigned int)flags };
	long ref = clone_enter(__NR_clone, (unsigned int)flags, &frame[1]);
	struct task_struct *t;

	if (ref < 0)
		return errno_ret(ref);
	t = task_get(ref);
	t->start_fn = (uint64_t)fn;
	t->start_arg = (uint64_t)arg;
	return clone_parent(ref, ({
		int pid = next_clone(clone_start, stack, (int)frame[1], t, ptid, tls, ctid);

		pid < 0 ? -errno : pid;
	}));
}

EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	static int (*next)(int (*)(void *), void *, int, void *, ...);
	pid_t *ptid, *ctid;
	void *tls;
	va_list ap;

	va_start(ap, arg);
	ptid = va_arg(ap, pid_t *);
	tls = va_arg(ap, void *);
	ctid = va_arg(ap, pid_t *);
	va_end(ap);
	if (fn && stack && task_here())
		return clone_attached(fn, stack, flags, arg, ptid, tls, ctid);
	if (!next)
		next = (int (*)(int (*)(void *), void *, int, void *, ...))find_next("clone");
	return next(fn, stack, flags, arg, ptid, tls, ctid);
}

int hook_daemon(int nochdir, int noclose)
{
	int fd;

	switch (hook_fork()) {
	case -1:
		return -1;
	case 0:
		break;
	default:
		sys_call(__NR_exit_group, 0);
	}
	if (errno_ret(sys_call(__NR_setsid)) < 0)
		return -1;
	if (!nochdir)
		sys_call(__NR_chdir, "/");
	if (noclose)
		return 0;
	fd = errno_ret(sys_open("/dev/null", O_RDWR, 0));
	if (fd < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		sys_call(__NR_dup2, fd, i);
	if (fd > 2)
		sys_close(fd);
	return 0;
}
