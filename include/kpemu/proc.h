/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of every emulated file under /proc. */
#ifndef KPEMU_PROC_H
#define KPEMU_PROC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct task_struct;

enum proc_file {
	PROC_NONE, /* not emulated: the real file */
	PROC_STATUS,
	PROC_LIMITS,
	PROC_UID_MAP,
	PROC_GID_MAP,
	PROC_SETGROUPS,
	PROC_NS_USER, /* /proc/PID/ns/user, of a task in a nested user namespace */
	PROC_NS_IPC, /* the same of an ipc namespace */
	PROC_SYSCTL, /* user/max_... and fs/mqueue/... in /proc/sys */
	PROC_UCOUNTS, /* /proc/kpemu/ucounts: the records of the world and their counters */
	PROC_EVENTS, /* /proc/kpemu/events: its refusals, and what it could not do */
	NR_PROC_FILES,
	PROC_DIR = NR_PROC_FILES, /* /proc/kpemu, which can be asked about, but not opened */
	PROC_NO_FILE, /* another name in it */
};

/* What a path names: an emulated file of a task of the world. */
struct proc_target {
	enum proc_file file;
	/*
	 * The task whose file it is; tid == tgid unless a thread was named. Of a world's files 1; of a
	 * namespace its number and its serial; of a sysctl its number + 1, and 1.
	 */
	int32_t tgid, tid;
};

/*
 * proc_world_path - what @path (looked up from @dirfd) names in /proc/kpemu, a directory that only
 * the world has: PROC_UCOUNTS, PROC_EVENTS, PROC_DIR, PROC_NO_FILE; else PROC_NONE. Costs system
 * calls only where the last names are "kpemu" and not behind a plain /proc. Async-signal-safe.
 */
enum proc_file proc_world_path(int dirfd, const char *path);

/* proc_world_stat - what stat(2) says of one of these; false unless it is a file or the directory. */
_Bool proc_world_stat(enum proc_file file, struct stat *st);

/*
 * proc_resolve - does @path (looked up from @dirfd as openat(2) does) name an emulated file?
 *
 * Fast when the answer is no: one look at the last component. Paths such as /proc/self/status and
 * /proc/PID/task/TID/status are read as they are, all others (relative, with links, "..", double
 * slashes) cost three system calls, because the kernel is asked where they lead. A /proc mounted
 * elsewhere is not emulated, nor are tasks outside the world, and what the kernel would refuse is
 * answered with false: the caller makes the real call. Returns true and fills *@target (which is
 * undefined after false); @t is the reader. Async-signal-safe, no allocation.
 */
_Bool proc_resolve(struct task_struct *t, int dirfd, const char *path, struct proc_target *target);

/*
 * proc_task_dir - does @path lie in (or name) /proc/PID of a task of the world? Then its files
 * belong to the task's emulated effective ids: that task (of PID/task/TID the thread), else NULL.
 *
 * Links are followed: exe, cwd and the entries of fd are what they lead to, so NULL as a rule. An
 * empty @path is @dirfd itself. Costs system calls every time: whoever has a stat of the file asks
 * proc_maybe() first, which also keeps links into /proc apart from what they lead to.
 * Async-signal-safe.
 */
struct task_struct *proc_task_dir(struct task_struct *t, int dirfd, const char *path);

/* proc_maybe - can a file of this st_blksize be on procfs? Hardly any other has blocks of 1 KiB. */
static inline _Bool proc_maybe(uint64_t st_blksize)
{
	return st_blksize == 1024;
}

/*
 * proc_open - a snapshot of the emulated file as a fresh descriptor positioned at its start.
 *
 * @oflag: only O_CLOEXEC and the access mode count. What is open for writing takes what is written
 * to it by proc_write(); open for nothing else, it has no content. -EACCES if the file, or the
 * caller, is not for that. It is the lowest free descriptor, as of any open. It carries its
 * own identity, proc_refresh() finds it again after dup, fork and exec; @t and the other threads of
 * its process are marked PF_PROC_READER. Returns the descriptor or -errno: that of memfd_create,
 * of opening and reading the real file (-ENOENT, -ESRCH), -ESRCH if the task has left the world.
 * Callers block signals (reap_dead() may run). Async-signal-safe.
 */
int proc_open(struct task_struct *t, const struct proc_target *target, int oflag);

/*
 * proc_refresh - if @fd is a descriptor made by proc_open(), replace its content by the present
 * text and return 1; 0 if it is not or /proc cannot say; -errno, -ESRCH when the task is gone (the
 * content is then as it was). The file position is left alone. As proc_open() otherwise.
 */
int proc_refresh(struct task_struct *t, int fd);

/* proc_is_written - can a file of this kind be opened for writing? */
_Bool proc_is_written(enum proc_file file);

/*
 * proc_write - @n bytes to @fd, made by proc_open() for writing: what the kernel's file answers, and
 * the position moves (@pos < 0) or not. -EBADF: @fd is nothing of the kind, the caller writes to it.
 * Callers block signals.
 */
long proc_write(struct task_struct *t, int fd, const void *text, size_t n, int64_t pos);

/*
 * proc_flush - what stdio has put into @fd past proc_write() is written by it now: 0, or its -errno.
 * 0 also for any other descriptor. Callers block signals.
 */
long proc_flush(struct task_struct *t, int fd);

/*
 * proc_readlink - where the link of an emulated namespace leads, as readlink(2) answers: the length
 * in @buf of @size bytes, or 0 if the link is not emulated.
 */
long proc_readlink(struct task_struct *t, int dirfd, const char *path, char *buf, size_t size);

/*
 * proc_ns_target - is @fd one that proc_open() made of a namespace? PROC_NS_USER or PROC_NS_IPC with
 * its number and serial; else PROC_NONE.
 */
enum proc_file proc_ns_target(int fd, uint32_t *number, uint64_t *serial);

/* proc_ns_is_open - has any process of the world a descriptor of this namespace? */
_Bool proc_ns_is_open(enum proc_file file, uint32_t number, uint64_t serial);

/* proc_fd_is_inotify - is descriptor @fd of process @tgid an inotify instance? */
_Bool proc_fd_is_inotify(int tgid, int fd);

#endif
