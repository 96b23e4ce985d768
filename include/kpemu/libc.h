/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where libc has the functions that the preload library calls for real. */
#ifndef KPEMU_LIBC_H
#define KPEMU_LIBC_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Looking a name up costs about a microsecond, in every new program, whether dlsym() does it or
 * the loader; so the launcher does it once and leaves offsets, with the build-id of the libc that
 * they belong to. Functions that few programs need are here too, though nobody wraps them.
 */
#define REAL_FUNCTIONS(X)                                                                          \
	X(fork)                                                                                    \
	X(_Fork)                                                                                   \
	X(clone)                                                                                   \
	X(pthread_create)                                                                          \
	X(thrd_create)                                                                             \
	X(posix_spawn)                                                                             \
	X(posix_spawnp)                                                                            \
	X(wait4)                                                                                   \
	X(waitid)                                                                                  \
	X(openat)                                                                                  \
	X(fopen)                                                                                   \
	X(freopen)                                                                                 \
	X(fclose)                                                                                  \
	X(rewind)                                                                                  \
	X(fseeko)                                                                                  \
	X(brk)                                                                                     \
	X(sbrk)                                                                                    \
	X(sysconf)                                                                                 \
	X(getauxval)                                                                               \
	X(fdopen)                                                                                  \
	X(openpty)                                                                                 \
	X(login_tty)                                                                               \
	X(getgrouplist)                                                                            \
	X(sigaction)                                                                               \
	X(sigprocmask)                                                                             \
	X(pthread_sigmask)                                                                         \
	X(sigsuspend)                                                                              \
	X(ppoll)                                                                                   \
	X(pselect)                                                                                 \
	X(epoll_pwait)                                                                             \
	X(epoll_pwait2)                                                                            \
	X(siglongjmp)                                                                              \
	X(__longjmp_chk)                                                                           \
	X(signalfd)                                                                                \
	X(read)                                                                                    \
	X(readv)                                                                                   \
	X(write)                                                                                   \
	X(writev)                                                                                  \
	X(fflush)                                                                                  \
	X(vdprintf)                                                                                \
	X(__vdprintf_chk)                                                                          \
	X(timer_create)                                                                            \
	X(timer_delete)                                                                            \
	X(posix_spawnattr_init)                                                                    \
	X(posix_spawnattr_destroy)                                                                 \
	X(posix_spawnattr_getflags)                                                                \
	X(posix_spawnattr_setflags)                                                                \
	X(posix_spawnattr_setsigdefault)                                                           \
	X(posix_spawnattr_setsigmask)                                                              \
	X(posix_spawn_file_actions_init)                                                           \
	X(posix_spawn_file_actions_destroy)                                                        \
	X(posix_spawn_file_actions_addclose)                                                       \
	X(posix_spawn_file_actions_adddup2)

enum real_function {
#define X(name) REAL_##name,
	REAL_FUNCTIONS(X)
#undef X
	NR_REAL_FUNCTIONS,
};

#define LIBC_BUILD_ID 20 /* bytes of a GNU build-id */

struct libc_offsets {
	uint32_t valid;
	uint32_t id_offset; /* of the build-id, from the start of libc's mapping */
	uint8_t build_id[LIBC_BUILD_ID];
	uint32_t function[NR_REAL_FUNCTIONS];
};

/* libc_find_offsets - fill @o from the caller's own libc; o->valid stays 0 if anything is odd. */
void libc_find_offsets(struct libc_offsets *o);

/*
 * libc_base - start of the caller's libc, if it is the one that @o describes; else NULL.
 * Async-signal-safe, no look-up of names.
 */
char *libc_base(const struct libc_offsets *o);

#endif
