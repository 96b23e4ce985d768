/* SPDX-License-Identifier: GPL-2.0-or-later */
/* POSIX timers: charged before the real call, found again by the number that it answers. */
#include <signal.h>
#include <time.h>

#include <kpemu/signal.h>

#include "emu/lib/uaccess.h"
#include "preload/hook.h"

struct new_timer {
	struct k_itimer *tmr;
	uint64_t mask; /* of the program: all signals are blocked from begin to end */
};

/*
 * The kernel refuses a bad clock before it looks at the limit, and without an address for the
 * number it gets just past the clock: -EFAULT, nothing made. The usual clocks need no asking.
 */
static long check_clock(clockid_t clock)
{
	long ret;

	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_MONOTONIC:
	case CLOCK_PROCESS_CPUTIME_ID:
	case CLOCK_THREAD_CPUTIME_ID:
	case CLOCK_BOOTTIME:
		return 0;
	}
	ret = sys_call(__NR_timer_create, clock, NULL, NULL);
	return ret == -EINVAL || ret == -EOPNOTSUPP ? ret : 0;
}

/* @signo, @tid: what it will send to which thread, 0 for none. What is odd the kernel refuses. */
static long timer_begin(struct new_timer *n, clockid_t clock, int signo, int tid)
{
	long ret = check_clock(clock);
	struct refusal why;
	int err;

	if (ret)
		return ret;
	block_signals(&n->mask);
	n->tmr = posix_timer_charge(signo, tid, &err, &why);
	if (n->tmr)
		return 0;
	restore_signals(&n->mask);
	refusal_log(&why, "timer_create");
	return err;
}

/* @err: what the real call said, positive; 0: it made timer @id. */
static void timer_end(struct new_timer *n, int err, uint64_t id)
{
	if (!err) {
		posix_timer_made(n->tmr, id);
	} else {
		posix_timer_free(n->tmr);
		if (err == EAGAIN)
			host_collision();
	}
	restore_signals(&n->mask);
}

static int thread_of(const struct sigevent *ev)
{
	return ev && ev->sigev_notify & SIGEV_THREAD_ID ? ev->_sigev_un._tid : 0;
}

/* To the kernel SIGEV_THREAD is as SIGEV_SIGNAL. */
static int signal_of(const struct sigevent *ev)
{
	if (!ev)
		return SIGALRM;
	return ev->sigev_notify == SIGEV_NONE ? 0 : ev->sigev_signo;
}

/*
 * For libc's SIGEV_THREAD a helper thread of its own takes a signal of its own: nothing that the
 * program sees.
 */
int hook_timer_create(clockid_t clock, struct sigevent *ev, timer_t *id)
{
	bool helper = ev && ev->sigev_notify == SIGEV_THREAD;
	struct new_timer n;
	long err = timer_begin(&n, clock, helper ? 0 : signal_of(ev), thread_of(ev));
	int ret;

	if (err)
		return errno_ret(err);
	ret = next_timer_create(clock, ev, id);
	timer_end(&n, ret ? errno : 0, ret ? 0 : (uint64_t)*id);
	return ret;
}

long hook_sys_timer_create(clockid_t clock, const struct sigevent *ev, int *id)
{
	struct sigevent copy;
	struct new_timer n;
	int made = 0;
	long ret;

	if (ev) {
		ret = copy_from_user(&copy, ev, sizeof(copy));
		if (ret)
			return ret;
		ev = &copy;
	}
	ret = timer_begin(&n, clock, signal_of(ev), thread_of(ev));
	if (ret)
		return ret;
	ret = sys_call(__NR_timer_create, clock, ev, id ? &made : NULL);
	if (!ret && copy_to_user(id, &made, sizeof(made))) {
		sys_call(__NR_timer_delete, made);
		ret = -EFAULT;
	}
	timer_end(&n, -ret, made);
	return ret;
}

/* The number may be given again as soon as the real timer is gone. */
static struct k_itimer *find(uint64_t id)
{
	return posix_timer_find(task_leader(current), id);
}

static bool has_timers(void)
{
	return READ_ONCE(task_leader(current)->nr_timers);
}

int hook_timer_delete(timer_t id)
{
	struct k_itimer *tmr;
	uint64_t mask;
	int ret;

	if (!has_timers())
		return next_timer_delete(id);
	block_signals(&mask);
	tmr = find((uint64_t)id);
	ret = next_timer_delete(id);
	if (!ret && tmr)
		posix_timer_deleted(tmr);
	restore_signals(&mask);
	return ret;
}

long hook_sys_timer_delete(int id)
{
	struct k_itimer *tmr;
	uint64_t mask;
	long ret;

	if (!has_timers())
		return sys_call(__NR_timer_delete, id);
	block_signals(&mask);
	tmr = find(id);
	ret = sys_call(__NR_timer_delete, id);
	if (!ret && tmr)
		posix_timer_deleted(tmr);
	restore_signals(&mask);
	return ret;
}
