/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads: made through ours, seen to end by a thread-specific value's destructor. */
#include <limits.h>
#include <linux/sched.h>
#include <string.h>

#include "preload/hook.h"
#include "preload/signal.h"
#include "preload/thread.h"

#define THREAD_FLAGS                                                                               \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |        \
	 CLONE_SETTLS)

/* Its value in a thread is that thread's task. */
static pthread_key_t exit_key;
static enum { KEY_NOT_TRIED, KEY_BEING_MADE, KEY_MADE, KEY_NONE } exit_key_state;

static __thread int exit_rounds;

/*
 * Destructors of the program may still create threads or lock memory, so ours sets its value again
 * until the last round that libc makes, and lets go only then. Later calls of this thread count as
 * its leader's.
 */
static void thread_exits(void *task)
{
	struct task_struct *t = current, *leader;
	uint64_t mask;

	if (++exit_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
		pthread_setspecific(exit_key, task);
		return;
	}
	/* Not @task: in a child that this thread forked it is the parent's. */
	if (!t)
		return;
	leader = task_leader(t);
	/* Where a mask decides whether signals stay, this thread's is known for the last time. */
	if (signal_mask_matters(leader))
		last_mask();
	block_signals(&mask);
	exit_thread(t);
	current = leader;
	if (!signal_mask_matters(leader))
		restore_signals(&mask);
}

/* Only programs with threads pay for it. Whoever comes while it is made goes without. */
static void need_exit_key(void)
{
	if (READ_ONCE(exit_key_state) != KEY_NOT_TRIED ||
	    cmpxchg(&exit_key_state, KEY_NOT_TRIED, KEY_BEING_MADE) != KEY_NOT_TRIED)
		return;
	smp_store_release(&exit_key_state,
			  pthread_key_create(&exit_key, thread_exits) ? KEY_NONE : KEY_MADE);
}

static void see_exit(struct task_struct *t)
{
	if (READ_ONCE(exit_key_state) == KEY_MADE && t)
		pthread_setspecific(exit_key, t);
}

void thread_adopt(void)
{
	int pid = sys_call(__NR_gettid), tgid = sys_call(__NR_getpid);
	uint64_t mask;

	need_exit_key();
	block_signals(&mask);
	current = find_task_by_vpid(pid);
	if (!current)
		current = task_adopt(NULL, pid, tgid);
	if (pid != tgid)
		see_exit(current);
	restore_signals(&mask);
}

/* It starts with all signals blocked: a handler must not run before the thread knows who it is. */
static void thread_starts(struct task_struct *t)
{
	struct new_task n = { t, task_ref(t) };
	uint64_t mask = t->start_mask;

	child_starts(&n);
	see_exit(current);
	restore_signals(&mask);
}

static void *start_pthread(void *arg)
{
	struct task_struct *t = arg;
	void *(*start)(void *) = (void *(*)(void *))t->start_fn;
	void *start_arg = (void *)t->start_arg;

	thread_starts(t);
	return start(start_arg);
}

static int start_thrd(void *arg)
{
	struct task_struct *t = arg;
	thrd_start_t start = (thrd_start_t)t->start_fn;
	void *start_arg = (void *)t->start_arg;

	thread_starts(t);
	return start(start_arg);
}

/* With all signals blocked; *@mask is to be restored after the real call. 0 or -errno. */
static int new_thread(struct new_task *n, const void *start, void *arg, const char *call,
		      uint64_t *mask)
{
	int err;

	need_exit_key();
	block_signals(mask);
	err = new_task(n, THREAD_FLAGS, call);
	if (err) {
		restore_signals(mask);
		return err;
	}
	n->t->start_fn = (uint64_t)start;
	n->t->start_arg = (uint64_t)arg;
	n->t->start_mask = n->t->sig_blocked = *mask;
	return 0;
}

/* A mask in the attributes is the one to start with; libc then gives the thread that from the start. */
static void mask_of_attributes(const pthread_attr_t *attr, struct task_struct *t)
{
	sigset_t set;

	if (attr && !pthread_attr_getsigmask_np(attr, &set))
		memcpy(&t->start_mask, &set, sizeof(t->start_mask));
}

int hook_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			void *arg)
{
	struct new_task n;
	uint64_t mask;
	int err = new_thread(&n, (const void *)start, arg, "pthread_create", &mask);

	if (err)
		return -err;
	mask_of_attributes(attr, n.t);
	err = next_pthread_create(thread, attr, start_pthread, n.t);
	if (err)
		new_task_failed(&n, err);
	restore_signals(&mask);
	return err;
}

int hook_thrd_create(thrd_t *thread, thrd_start_t start, void *arg)
{
	struct new_task n;
	uint64_t mask;
	int err = new_thread(&n, (const void *)start, arg, "thrd_create", &mask);

	/* thrd_create(3) has no word for EAGAIN: as libc, anything but ENOMEM is an error */
	if (err)
		return err == -ENOMEM ? thrd_nomem : thrd_error;
	err = next_thrd_create(thread, start_thrd, n.t);
	if (err != thrd_success)
		new_task_failed(&n, EAGAIN);
	restore_signals(&mask);
	return err;
}

pid_t hook_forkpty(int *amaster, char *name, const struct termios *termp,
		   const struct winsize *winp)
{
	int master, terminal;
	pid_t pid;

	if (next_openpty(&master, &terminal, name, termp, winp) < 0)
		return -1;
	pid = hook_fork();
	if (pid == 0) {
		sys_close(master);
		if (next_login_tty(terminal) < 0)
			sys_call(__NR_exit_group, 1);
		return 0;
	}
	sys_close(terminal);
	if (pid < 0)
		sys_close(master);
	else
		*amaster = master;
	return pid;
}

static bool is_held(int tid)
{
	struct task_struct *t = find_task_by_vpid(tid);

	return t && READ_ONCE(t->tgid) == current->tgid;
}

void process_lock(struct process_lock *lock)
{
	int holder = 0;

	while (!try_cmpxchg(&lock->tid, &holder, current->pid)) {
		if (!is_held(holder) && cmpxchg(&lock->tid, holder, current->pid) == holder)
			return;
		sys_call(__NR_sched_yield);
		holder = 0;
	}
}

void process_unlock(struct process_lock *lock)
{
	smp_store_release(&lock->tid, 0);
}
