/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Raw system calls: they answer as the kernel does (>= 0 or -errno), touch no errno and no libc. */
#ifndef EMU_LIB_RAWSYS_H
#define EMU_LIB_RAWSYS_H

#include <signal.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef __x86_64__
#error "kpemu's raw system calls, vfork and clone are written for x86-64"
#endif

static inline long sys_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/* sys_call(nr, ...) with up to six arguments of any integer or pointer type. */
#define sys_arg(x) ((long)(x))
#define sys_call_1(nr) sys_call6(nr, 0, 0, 0, 0, 0, 0)
#define sys_call_2(nr, a) sys_call6(nr, sys_arg(a), 0, 0, 0, 0, 0)
#define sys_call_3(nr, a, b) sys_call6(nr, sys_arg(a), sys_arg(b), 0, 0, 0, 0)
#define sys_call_4(nr, a, b, c) sys_call6(nr, sys_arg(a), sys_arg(b), sys_arg(c), 0, 0, 0)
#define sys_call_5(nr, a, b, c, d)                                                                 \
	sys_call6(nr, sys_arg(a), sys_arg(b), sys_arg(c), sys_arg(d), 0, 0)
#define sys_call_6(nr, a, b, c, d, e)                                                              \
	sys_call6(nr, sys_arg(a), sys_arg(b), sys_arg(c), sys_arg(d), sys_arg(e), 0)
#define sys_call_7(nr, a, b, c, d, e, f)                                                           \
	sys_call6(nr, sys_arg(a), sys_arg(b), sys_arg(c), sys_arg(d), sys_arg(e), sys_arg(f))
#define sys_call_n(_1, _2, _3, _4, _5, _6, _7, n, ...) sys_call_##n
#define sys_call(...) sys_call_n(__VA_ARGS__, 7, 6, 5, 4, 3, 2, 1)(__VA_ARGS__)

#define SYS_ERR(r) ((unsigned long)(r) > -4096UL)

static inline int sys_open(const char *path, int flags, int mode)
{
	return sys_call(__NR_openat, AT_FDCWD, path, flags, mode);
}

static inline long sys_read(int fd, void *buf, size_t n)
{
	return sys_call(__NR_read, fd, buf, n);
}

static inline int sys_close(int fd)
{
	return sys_call(__NR_close, fd);
}

/* block_signals, restore_signals - around changes that a handler must not see half done. */
static inline void block_signals(uint64_t *old)
{
	uint64_t all = ~0ull;

	sys_call(__NR_rt_sigprocmask, SIG_BLOCK, &all, old, sizeof(all));
}

static inline void restore_signals(const uint64_t *old)
{
	sys_call(__NR_rt_sigprocmask, SIG_SETMASK, old, NULL, sizeof(*old));
}

/* CLOCK_BOOTTIME in nanoseconds: the clock that /proc/PID/stat field 22 counts. vdso, signal-safe. */
static inline uint64_t boottime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

#endif
