/* SPDX-License-Identifier: GPL-2.0-or-later */
/* emu/lib/rawsys.h as the explorer has it: no system call reaches the kernel from here. */
#ifndef EMU_LIB_RAWSYS_H
#define EMU_LIB_RAWSYS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "emu/sim/explore/seam.h"

/* sys_call(nr, ...): the first three arguments are passed on. */
#define sys_call_of(nr, a, b, c, d, e, f, ...) \
	((void)(d), (void)(e), (void)(f),      \
	 seam_sys(SEAM_SITE("system call"), nr, (long)(a), (long)(b), (long)(c)))
#define sys_call(...) sys_call_of(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

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

/* No signal arrives at a virtual CPU. */
static inline void block_signals(uint64_t *old)
{
	*old = 0;
}

static inline void restore_signals(const uint64_t *old)
{
	(void)old;
}

static inline uint64_t boottime_ns(void)
{
	return 1;
}

#endif
