/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signals that are waited for, or read: sigwait(3) and its kin, signalfd(2). */
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/single_threaded.h>
#include <sys/uio.h>

#include "preload/hook.h"
#include "preload/signal.h"

/* The thread is cancelled inside @call, or in a handler that has interrupted it. */
static void cancelled(void *call)
{
	end_signal_call(call);
}

/*
 * The raw call, so that a handler can tell whether it has been made. @cancellable: it is a
 * cancellation point, as libc's; a thread that is alone cannot be cancelled.
 */
static inline void taking_call(long nr, long a0, long a1, long a2, long a3,
			       struct signal_call *call, bool cancellable)
{
	int type;

	if (!cancellable || __libc_single_threaded) {
		signal_call(nr, a0, a1, a2, a3, call);
		return;
	}
	pthread_cleanup_push(cancelled, call);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	signal_call(nr, a0, a1, a2, a3, call);
	pthread_setcanceltype(type, NULL);
	pthread_cleanup_pop(0);
}

/* A wait for a signal; also because libc replaces SI_TKILL before anybody can see it. */
struct wait {
	struct signal_call call;
	siginfo_t *info;
	bool real;
};

static void complete_wait(struct signal_call *call)
{
	struct wait *w = (struct wait *)call;

	w->real = call->ret <= 0 || signal_arrives(w->info);
}

static inline long next_signal(const sigset_t *set, siginfo_t *info, const struct timespec *timeout,
			       size_t size, bool cancellable)
{
	struct wait w = { .info = info };

	do {
		signal_call_begins(&w.call, complete_wait);
		taking_call(__NR_rt_sigtimedwait, (long)set, (long)info, (long)timeout, size,
			    &w.call, cancellable);
		end_signal_call(&w.call);
	} while (!w.real);
	/* Who has learned our mask meanwhile has missed what we waited for: the kernel unblocks that. */
	mask_changed();
	return w.call.ret;
}

long hook_sys_rt_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout,
			      size_t size)
{
	siginfo_t own;
	long ret = next_signal(set, &own, timeout, size, false);

	if (ret > 0 && info)
		*info = own;
	return ret;
}

long hook_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	siginfo_t own;
	long ret = next_signal(set, &own, timeout, sizeof(uint64_t), true);

	if (ret <= 0)
		return ret;
	if (own.si_code == SI_TKILL)
		own.si_code = SI_USER; /* as libc's */
	if (info)
		*info = own;
	return ret;
}

long hook_sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	return hook_sigtimedwait(set, info, NULL);
}

int hook_sigwait(const sigset_t *set, int *sig)
{
	long ret;

	do
		ret = hook_sigtimedwait(set, NULL, NULL);
	while (ret == -EINTR);
	if (ret < 0)
		return -ret;
	*sig = ret;
	return 0;
}

/* --- signalfd --- */

/* Until the process has a signalfd, read(2) has nothing to look for. */
static bool signalfd_seen;

static bool may_have_signalfd(void)
{
	return signalfd_seen || unlikely(READ_ONCE(current->flags) & PF_SIGNALFD);
}

int hook_signalfd(int fd, const sigset_t *mask, int flags)
{
	int ret = next_signalfd(fd, mask, flags);
	struct task_struct *t;

	if (ret < 0 || signalfd_seen)
		return ret;
	signalfd_seen = true;
	/* Children and programs to come have it as well. */
	for_each_task(i, t)
		if (READ_ONCE(t->tgid) == current->tgid)
			fetch_or(&t->flags, (uint32_t)PF_SIGNALFD);
	return ret;
}

long hook_sys_signalfd4(int fd, const sigset_t *mask, size_t size, int flags)
{
	int ret;

	if (size != sizeof(uint64_t))
		return -EINVAL;
	ret = hook_signalfd(fd, mask, flags);
	return ret < 0 ? -errno : ret;
}

static bool is_signalfd(int fd)
{
	static const char name[] = "anon_inode:[signalfd]";
	char path[40], link[sizeof(name)];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return sys_call(__NR_readlink, path, link, sizeof(link)) == sizeof(name) - 1 &&
	       !memcmp(link, name, sizeof(name) - 1);
}

/* One signal read; false: the program must not see it. */
static bool read_arrives(struct signalfd_siginfo *ssi)
{
	siginfo_t info;
	bool real;

	memset(&info, 0, sizeof(info));
	info.si_signo = ssi->ssi_signo;
	info.si_errno = ssi->ssi_errno;
	info.si_code = ssi->ssi_code;
	info.si_pid = ssi->ssi_pid;
	info.si_uid = ssi->ssi_uid;
	real = signal_arrives(&info);
	if (ssi->ssi_errno != info.si_errno && info.si_code >= 0 && !info.si_pid)
		*ssi = (struct signalfd_siginfo){ .ssi_signo = ssi->ssi_signo };
	if (info.si_code != ssi->ssi_code)
		ssi->ssi_int = ssi->ssi_ptr = 0;
	ssi->ssi_errno = info.si_errno;
	ssi->ssi_code = info.si_code;
	ssi->ssi_uid = info.si_uid;
	return real;
}

/* A read that may be one of signals. */
struct reading {
	struct signal_call call;
	int fd;
	void *buf;
	bool again; /* there was nothing for the program in it */
};

/* Of signals, those that the program must see are left. If it has been made. */
static void complete_reading(struct signal_call *call)
{
	struct reading *r = (struct reading *)call;
	struct signalfd_siginfo *in = r->buf, *out = in, *end;

	if (call->ret <= 0 || call->ret % sizeof(*in) || !is_signalfd(r->fd))
		return;
	for (end = in + call->ret / sizeof(*in); in < end; in++)
		if (read_arrives(in))
			*out++ = *in;
	call->ret = (char *)out - (char *)r->buf;
	r->again = !call->ret;
}

/* What read(2) answers. */
static long read_signals(int fd, void *buf, size_t n, bool cancellable)
{
	struct reading r = { .fd = fd, .buf = buf };

	do {
		r.again = false;
		signal_call_begins(&r.call, complete_reading);
		taking_call(__NR_read, fd, (long)buf, n, 0, &r.call, cancellable);
		end_signal_call(&r.call);
	} while (r.again);
	return r.call.ret;
}

ssize_t hook_read(int fd, void *buf, size_t n)
{
	long ret;

	if (likely(!may_have_signalfd()))
		return next_read(fd, buf, n);
	ret = read_signals(fd, buf, n, true);
	if (!SYS_ERR(ret))
		return ret;
	errno = -ret;
	return -1;
}

long hook_sys_read(int fd, void *buf, size_t n)
{
	if (likely(!may_have_signalfd()))
		return sys_call(__NR_read, fd, buf, n);
	return read_signals(fd, buf, n, false);
}

/* Scattered pieces of signals are put together first. */
ssize_t hook_readv(int fd, const struct iovec *iov, int n)
{
	struct signalfd_siginfo one[16];
	size_t room = 0, at = 0;
	ssize_t ret;

	if (likely(!may_have_signalfd()) || n < 1 || !is_signalfd(fd))
		return next_readv(fd, iov, n);
	for (int i = 0; i < n; i++)
		room += iov[i].iov_len;
	ret = hook_read(fd, one, room < sizeof(one) ? room : sizeof(one));
	for (int i = 0; ret > 0 && i < n && at < (size_t)ret; i++) {
		size_t part = (size_t)ret - at < iov[i].iov_len ? (size_t)ret - at : iov[i].iov_len;

		memcpy(iov[i].iov_base, (char *)one + at, part);
		at += part;
	}
	return ret;
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t buflen);
EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t buflen)
{
	if (n > buflen)
		__chk_fail();
	if (!task_here())
		return ((__typeof__(read) *)find_next("read"))(fd, buf, n);
	return hook_read(fd, buf, n);
}
