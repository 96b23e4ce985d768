/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the preload library share: attachment, real functions, prototypes of hooks. */
#ifndef PRELOAD_HOOK_H
#define PRELOAD_HOOK_H

#include <errno.h>
#include <mqueue.h>
#include <stdarg.h>
#include <poll.h>
#include <setjmp.h>
#include <pthread.h>
#include <spawn.h>
#include <grp.h>
#include <pty.h>
#include <sched.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/auxv.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <threads.h>
#include <unistd.h>
#include <utmp.h>

#include <kpemu/sched.h>
#include <kpemu/world.h>

#include "emu/lib/rawsys.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * task_here - the calling thread's task. Attaches the process at its first call (a constructor of
 * another library may be earlier than ours) and a thread that libc made behind our back.
 * NULL: this process has no world, and every call passes through.
 */
struct task_struct *attach(void);
static inline struct task_struct *task_here(void)
{
	return likely(current) ? current : attach();
}

/* Not in a header of libc's without fortification. */
void __longjmp_chk(struct __jmp_buf_tag env[1], int val) __attribute__((noreturn));
int __vdprintf_chk(int fd, int flag, const char *format, va_list args);
void __chk_fail(void) __attribute__((noreturn));

/* libc's own functions, where a raw system call cannot stand for them. Found at attachment. */
#define X(name) extern __typeof__(name) *next_##name;
REAL_FUNCTIONS(X)
#undef X

/* find_next - the next definition of @name after ours. Ends the process if there is none. */
void *find_next(const char *name);

/* errno_ret - a system call's answer as a C function gives it. */
static inline long errno_ret(long r)
{
	if (SYS_ERR(r)) {
		errno = -r;
		return -1;
	}
	return r;
}

/* host_capable - has the real caller capability @cap (below 32)? A system call. */
bool host_capable(int cap);

/* host_collision - the model allowed what the host then refused. */
static inline void host_collision(void)
{
	atomic64_inc(&world->counts.host_collisions);
}

/*
 * A lock among the threads of a process, held with signals blocked. It is the holder's thread id,
 * so that a child forked meanwhile, in which that thread does not exist, is not locked out.
 */
struct process_lock {
	int tid; /* 0 = free */
};
void process_lock(struct process_lock *lock);
void process_unlock(struct process_lock *lock);

/* Parts of one hook that another needs. */
struct new_task {
	struct task_struct *t;
	uint32_t ref;
};
int new_task(struct new_task *n, uint64_t clone_flags, const char *call);
void new_task_failed(const struct new_task *n, int err);
void child_starts(const struct new_task *n);
void reaped(pid_t pid);
int flush_emulated(int fd);
long host_flags(uint64_t flags);
pid_t pid_behind(int fd);
char *const *exec_environ(void);

/* The hooks that have no entry of type SYS or FUN in names.def, or another prototype there. */
#define SYS(name, type, proto, args) long hook_##name proto;
#define FUN(name, type, proto, args) type hook_##name proto;
#define HAND(name)
#define ALIAS(name, target)
#define CALL(number, call)
#define LEFT(name, reason)
#include "preload/names.def"
#undef SYS
#undef FUN
#undef HAND
#undef ALIAS
#undef CALL
#undef LEFT

long hook_sys_wait4(pid_t pid, int *status, int options, struct rusage *usage);
long hook_sys_waitid(int type, id_t id, siginfo_t *info, int options, struct rusage *usage);
long hook_sys_setuid(uid_t uid);
long hook_sys_setreuid(uid_t ruid, uid_t euid);
long hook_sys_setresuid(uid_t ruid, uid_t euid, uid_t suid);
long hook_sys_setgid(gid_t gid);
long hook_sys_setregid(gid_t rgid, gid_t egid);
long hook_sys_setresgid(gid_t rgid, gid_t egid, gid_t sgid);
long hook_sys_setgroups(long n, const gid_t *list);
long hook_sys_getrlimit(unsigned int resource, struct rlimit *rlim);
long hook_sys_setrlimit(unsigned int resource, const struct rlimit *rlim);
long hook_prctl(int option, unsigned long a2, unsigned long a3, unsigned long a4, unsigned long a5);
long hook_mq_open(const char *name, int oflag, mode_t mode, const struct mq_attr *attr);
long hook_sys_mq_open(const char *name, int oflag, mode_t mode, const struct mq_attr *attr);
long hook_sys_mq_unlink(const char *name);
long hook_sys_timer_create(clockid_t clock, const struct sigevent *ev, int *id);
long hook_sys_timer_delete(int id);
long hook_mremap(void *old, size_t old_len, size_t new_len, int flags, void *new_addr);
long hook_brk_sys(void *addr);
int hook_open(const char *path, int oflag, mode_t mode);
int hook_openat(int dirfd, const char *path, int oflag, mode_t mode);
long hook_sys_open(const char *path, int oflag, mode_t mode);
long hook_sys_tkill(pid_t tid, int sig);
long hook_sys_rt_sigqueueinfo(pid_t pid, int sig, const void *info);
long hook_sys_rt_tgsigqueueinfo(pid_t tgid, pid_t tid, int sig, const void *info);
long hook_sys_rt_sigaction(int sig, const void *act, void *old, size_t size);
long hook_sys_rt_sigprocmask(int how, const void *set, void *old, size_t size);
long hook_sys_rt_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout,
			      size_t size);
long hook_sys_signalfd4(int fd, const sigset_t *mask, size_t size, int flags);
long hook_sys_read(int fd, void *buf, size_t n);
long hook_sys_write(int fd, const void *buf, size_t n);
long hook_sys_openat(int dirfd, const char *path, int oflag, mode_t mode);

#endif
