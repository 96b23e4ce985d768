/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files: emulated /proc files instead of the real ones, owners as the model has them. */
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <kpemu/mqueue.h>
#include <kpemu/proc.h>

#include "preload/hook.h"

/* Anything but reading, as procfs answers it for a file that is there, and only for reading. */
static int refuse_emulated(int dirfd, const char *path, int oflag)
{
	enum proc_file file = proc_world_path(dirfd, path);

	if (file == PROC_NONE || oflag & O_PATH)
		return -ENOENT;
	if (file == PROC_NO_FILE)
		return oflag & O_CREAT ? -EACCES : -ENOENT;
	if ((oflag & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return -EEXIST;
	if (file == PROC_DIR)
		return (oflag & O_ACCMODE) == O_RDONLY && !(oflag & O_CREAT) ? -EACCES : -EISDIR;
	return oflag & O_DIRECTORY ? -ENOTDIR : -EACCES;
}

/* A snapshot of an emulated file, or -ENOENT: it is for the kernel to open (or to refuse). */
static int open_emulated(int dirfd, const char *path, int oflag)
{
	struct proc_target target;
	int fd;

	if (!path)
		return -ENOENT;
	if (oflag & (O_PATH | O_DIRECTORY) || (oflag & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return refuse_emulated(dirfd, path, oflag);
	if (!proc_resolve(current, dirfd, path, &target))
		return oflag & (O_ACCMODE | O_CREAT) ? refuse_emulated(dirfd, path, oflag) : -ENOENT;
	if ((oflag & O_ACCMODE) != O_RDONLY && !proc_is_written(target.file))
		return refuse_emulated(dirfd, path, oflag);
	/* Signals stay as they are: the real file, from which the text is made, shows the mask. */
	fd = proc_open(current, &target, oflag);
	return fd == -ESRCH ? -ENOENT : fd;
}

static bool has_mode(int oflag)
{
	return (oflag & O_CREAT) || (oflag & __O_TMPFILE) == __O_TMPFILE;
}

/* libc's openat for all the others: it is a cancellation point. */
int hook_openat(int dirfd, const char *path, int oflag, mode_t mode)
{
	int fd = open_emulated(dirfd, path, oflag);

	return fd == -ENOENT ? next_openat(dirfd, path, oflag, mode) : (int)errno_ret(fd);
}

int hook_open(const char *path, int oflag, mode_t mode)
{
	return hook_openat(AT_FDCWD, path, oflag, mode);
}

long hook_sys_openat(int dirfd, const char *path, int oflag, mode_t mode)
{
	int fd = open_emulated(dirfd, path, oflag);

	return fd == -ENOENT ? sys_call(__NR_openat, dirfd, path, oflag, mode) : fd;
}

long hook_sys_open(const char *path, int oflag, mode_t mode)
{
	return hook_sys_openat(AT_FDCWD, path, oflag, mode);
}

#define MODE_ARGUMENT(oflag)                                                                       \
	({                                                                                         \
		mode_t m = 0;                                                                      \
		if (has_mode(oflag)) {                                                             \
			va_list ap;                                                                \
			va_start(ap, oflag);                                                       \
			m = va_arg(ap, mode_t);                                                    \
			va_end(ap);                                                                \
		}                                                                                  \
		m;                                                                                 \
	})

EXPORT int open(const char *path, int oflag, ...)
{
	mode_t mode = MODE_ARGUMENT(oflag);

	if (task_here())
		return hook_open(path, oflag, mode);
	return errno_ret(sys_open(path, oflag, mode));
}

EXPORT int openat(int dirfd, const char *path, int oflag, ...)
{
	mode_t mode = MODE_ARGUMENT(oflag);

	if (task_here())
		return hook_openat(dirfd, path, oflag, mode);
	return errno_ret(sys_call(__NR_openat, dirfd, path, oflag, mode));
}

int hook___open_2(const char *path, int oflag)
{
	if (has_mode(oflag))
		__chk_fail();
	return hook_open(path, oflag, 0);
}

int hook___openat_2(int dirfd, const char *path, int oflag)
{
	if (has_mode(oflag))
		__chk_fail();
	return hook_openat(dirfd, path, oflag, 0);
}

static int mode_flags(const char *mode)
{
	int flags = strpbrk(mode, "wa") ? O_WRONLY : O_RDONLY;

	if (strchr(mode, '+'))
		flags = O_RDWR;
	return flags | (strchr(mode, 'e') ? O_CLOEXEC : 0);
}

FILE *hook_fopen(const char *path, const char *mode)
{
	int fd = open_emulated(AT_FDCWD, path, mode_flags(mode));
	FILE *f;

	if (fd == -ENOENT)
		return next_fopen(path, mode);
	if (fd < 0)
		return errno_ret(fd), NULL;
	f = next_fdopen(fd, mode);
	if (!f)
		sys_close(fd);
	return f;
}

/* The stream is moved to the snapshot by its name in /proc. */
FILE *hook_freopen(const char *path, const char *mode, FILE *stream)
{
	int fd = open_emulated(AT_FDCWD, path, mode_flags(mode));
	char name[32];
	FILE *f;

	if (fd < 0)
		return next_freopen(path, mode, stream);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	f = next_freopen(name, mode, stream);
	sys_close(fd);
	return f;
}

/* Files below /proc/PID of a task belong to its effective ids. */
static void proc_owner(int dirfd, const char *path, uint32_t *uid, uint32_t *gid)
{
	struct task_struct *t = proc_task_dir(current, dirfd, path);

	if (!t)
		return;
	*uid = t->cred.euid;
	*gid = t->cred.egid;
}

/* Owners are shown as the caller's user namespace calls them. */
static inline void shown_owner(uint32_t *uid, uint32_t *gid)
{
	uint32_t n = READ_ONCE(current->cred.user_ns);

	if (likely(n == INIT_USER_NS))
		return;
	*uid = from_kuid_munged(n, *uid);
	*gid = from_kgid_munged(n, *gid);
}

/* A descriptor of a queue: owner and mode are the model's. */
static void queue_owner(struct stat *st)
{
	struct mqueue_inode *q;

	if (!READ_ONCE(world->mq_dev) || st->st_dev != READ_ONCE(world->mq_dev))
		return;
	q = mqueue_by_inode(st->st_ino);
	if (!q)
		return;
	st->st_uid = q->uid;
	st->st_gid = q->gid;
	st->st_mode = (st->st_mode & S_IFMT) | q->mode;
	st->st_nlink = !READ_ONCE(q->unlinked);
}

long hook_fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
	long ret = sys_call(__NR_newfstatat, dirfd, path, st, flags);

	if (ret == -ENOENT && proc_world_stat(proc_world_path(dirfd, path), st))
		return 0;
	if (ret)
		return ret;
	if (proc_maybe(st->st_blksize))
		proc_owner(dirfd, path ? path : "", &st->st_uid, &st->st_gid);
	else if (!path || !*path)
		queue_owner(st);
	shown_owner(&st->st_uid, &st->st_gid);
	return 0;
}

long hook_stat(const char *path, struct stat *st)
{
	return hook_fstatat(AT_FDCWD, path, st, 0);
}

long hook_lstat(const char *path, struct stat *st)
{
	return hook_fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

long hook_fstat(int fd, struct stat *st)
{
	long ret = sys_call(__NR_fstat, fd, st);

	if (ret)
		return ret;
	if (proc_maybe(st->st_blksize))
		proc_owner(fd, "", &st->st_uid, &st->st_gid);
	else
		queue_owner(st);
	shown_owner(&st->st_uid, &st->st_gid);
	return 0;
}

/* The queue behind a descriptor, if it is one of ours; no system call before the first queue. */
static struct mqueue_inode *queue_of(int fd)
{
	struct stat st;

	if (!READ_ONCE(world->mq_dev) || sys_call(__NR_fstat, fd, &st) ||
	    st.st_dev != READ_ONCE(world->mq_dev))
		return NULL;
	return mqueue_by_inode(st.st_ino);
}

long hook_fchmod(int fd, mode_t mode)
{
	struct mqueue_inode *q = queue_of(fd);

	return q ? mqueue_chmod(current, q, mode) : sys_call(__NR_fchmod, fd, mode);
}

long hook_fchown(int fd, uid_t uid, gid_t gid)
{
	struct mqueue_inode *q = queue_of(fd);

	return q ? mqueue_chown(current, q, uid, gid) : sys_call(__NR_fchown, fd, uid, gid);
}

static long world_statx(int dirfd, const char *path, struct statx *stx)
{
	struct statx_timestamp now;
	struct stat st;

	if (!proc_world_stat(proc_world_path(dirfd, path), &st))
		return -ENOENT;
	now = (struct statx_timestamp){ .tv_sec = st.st_mtim.tv_sec,
					.tv_nsec = st.st_mtim.tv_nsec };
	*stx = (struct statx){
		.stx_mask = STATX_BASIC_STATS,
		.stx_blksize = st.st_blksize,
		.stx_nlink = st.st_nlink,
		.stx_mode = st.st_mode,
		.stx_ino = st.st_ino,
		.stx_atime = now,
		.stx_ctime = now,
		.stx_mtime = now,
		.stx_dev_major = major(st.st_dev),
		.stx_dev_minor = minor(st.st_dev),
	};
	return 0;
}

long hook_statx(int dirfd, const char *path, int flags, unsigned int mask, struct statx *stx)
{
	long ret = sys_call(__NR_statx, dirfd, path, flags, mask, stx);

	if (ret == -ENOENT)
		return world_statx(dirfd, path, stx);
	if (!ret && proc_maybe(stx->stx_blksize))
		proc_owner(dirfd, path ? path : "", &stx->stx_uid, &stx->stx_gid);
	if (!ret)
		shown_owner(&stx->stx_uid, &stx->stx_gid);
	return ret;
}

/* The names that programs linked before glibc 2.33 use; version 0 or 1 is the only layout here. */
#define OLD_STAT(name, proto, real, raw)                                                           \
	EXPORT int name proto;                                                                     \
	EXPORT int name proto                                                                      \
	{                                                                                          \
		if ((unsigned int)ver > 1)                                                         \
			return errno_ret(-EINVAL);                                                 \
		return errno_ret(task_here() ? (real) : (raw));                                    \
	}
OLD_STAT(__xstat, (int ver, const char *path, struct stat *st), hook_stat(path, st),
	 sys_call(__NR_newfstatat, AT_FDCWD, path, st, 0))
OLD_STAT(__lxstat, (int ver, const char *path, struct stat *st), hook_lstat(path, st),
	 sys_call(__NR_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW))
OLD_STAT(__fxstat, (int ver, int fd, struct stat *st), hook_fstat(fd, st),
	 sys_call(__NR_fstat, fd, st))
OLD_STAT(__fxstatat, (int ver, int dirfd, const char *path, struct stat *st, int flags),
	 hook_fstatat(dirfd, path, st, flags), sys_call(__NR_newfstatat, dirfd, path, st, flags))

/* Reading a /proc file again from its start shows the present, not the time of the open. */
static void refresh(int fd)
{
	if (unlikely(READ_ONCE(current->flags) & PF_PROC_READER))
		proc_refresh(current, fd);
}

void hook_rewind(FILE *stream)
{
	if (READ_ONCE(current->flags) & PF_PROC_READER)
		refresh(fileno(stream));
	next_rewind(stream);
}

int hook_fseeko(FILE *stream, off_t offset, int whence)
{
	if (offset == 0 && whence == SEEK_SET && (READ_ONCE(current->flags) & PF_PROC_READER))
		refresh(fileno(stream));
	return next_fseeko(stream, offset, whence);
}

int hook_fseek(FILE *stream, long offset, int whence)
{
	return hook_fseeko(stream, offset, whence);
}

long hook_lseek(int fd, off_t offset, int whence)
{
	if (offset == 0 && whence == SEEK_SET)
		refresh(fd);
	return sys_call(__NR_lseek, fd, offset, whence);
}

long hook_pread(int fd, void *buf, size_t n, off_t offset)
{
	if (offset == 0)
		refresh(fd);
	return sys_call(__NR_pread64, fd, buf, n, offset);
}

EXPORT ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t buflen);
EXPORT ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t buflen)
{
	if (n > buflen)
		__chk_fail();
	if (!task_here())
		return errno_ret(sys_call(__NR_pread64, fd, buf, n, offset));
	return errno_ret(hook_pread(fd, buf, n, offset));
}

/* --- writing: only for processes that have opened an emulated file for it --- */

static inline bool may_have_written(void)
{
	return unlikely(READ_ONCE(current->flags) & PF_PROC_WRITER);
}

static long write_emulated(int fd, const void *buf, size_t n, off_t offset)
{
	uint64_t mask;
	long ret;

	block_signals(&mask);
	ret = proc_write(current, fd, buf, n, offset);
	restore_signals(&mask);
	return ret;
}

ssize_t hook_write(int fd, const void *buf, size_t n)
{
	long ret = may_have_written() ? write_emulated(fd, buf, n, -1) : -EBADF;

	return ret == -EBADF ? next_write(fd, buf, n) : errno_ret(ret);
}

long hook_sys_write(int fd, const void *buf, size_t n)
{
	long ret = may_have_written() ? write_emulated(fd, buf, n, -1) : -EBADF;

	return ret == -EBADF ? sys_call(__NR_write, fd, buf, n) : ret;
}

long hook_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
	long ret = may_have_written() && offset >= 0 ? write_emulated(fd, buf, n, offset) : -EBADF;

	return ret == -EBADF ? sys_call(__NR_pwrite64, fd, buf, n, offset) : ret;
}

/* Piece by piece, as the kernel does with files of its own. */
static long writev_emulated(int fd, const struct iovec *iov, int n)
{
	long done = 0, ret = -EBADF;

	for (int i = 0; i < n; i++) {
		if (!iov[i].iov_len && i + 1 < n)
			continue;
		ret = write_emulated(fd, iov[i].iov_base, iov[i].iov_len, -1);
		if (ret < 0)
			return done ? done : ret;
		done += ret;
	}
	return ret < 0 ? ret : done;
}

ssize_t hook_writev(int fd, const struct iovec *iov, int n)
{
	long ret = may_have_written() ? writev_emulated(fd, iov, n) : -EBADF;

	return ret == -EBADF ? next_writev(fd, iov, n) : errno_ret(ret);
}

/* What stdio has written itself. 0, or -1 and errno. */
int flush_emulated(int fd)
{
	uint64_t mask;
	long ret;

	if (!may_have_written() || fd < 0)
		return 0;
	block_signals(&mask);
	ret = proc_flush(current, fd);
	restore_signals(&mask);
	return errno_ret(ret);
}

int hook_fflush(FILE *stream)
{
	int ret = next_fflush(stream);

	if (!stream || !flush_emulated(fileno(stream)))
		return ret;
	stream->_flags |= _IO_ERR_SEEN; /* some only ask ferror(3) */
	return EOF;
}

int hook_vdprintf(int fd, const char *format, va_list args)
{
	int ret = next_vdprintf(fd, format, args);

	return flush_emulated(fd) ? -1 : ret;
}

EXPORT int dprintf(int fd, const char *format, ...)
{
	va_list args;
	int ret;

	va_start(args, format);
	ret = task_here() ? hook_vdprintf(fd, format, args) :
			    ((__typeof__(vdprintf) *)find_next("vdprintf"))(fd, format, args);
	va_end(args);
	return ret;
}

int hook___vdprintf_chk(int fd, int flag, const char *format, va_list args)
{
	int ret = next___vdprintf_chk(fd, flag, format, args);

	return flush_emulated(fd) ? -1 : ret;
}

EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...);
EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list args;
	int ret;

	va_start(args, format);
	ret = task_here() ? hook___vdprintf_chk(fd, flag, format, args) :
			    ((__typeof__(__vdprintf_chk) *)find_next("__vdprintf_chk"))(
				    fd, flag, format, args);
	va_end(args);
	return ret;
}

/* --- links of namespaces --- */

long hook_readlinkat(int dirfd, const char *path, char *buf, size_t size)
{
	long ret = proc_readlink(current, dirfd, path, buf, size);

	return ret ? ret : sys_call(__NR_readlinkat, dirfd, path, buf, size);
}

long hook_readlink(const char *path, char *buf, size_t size)
{
	return hook_readlinkat(AT_FDCWD, path, buf, size);
}

EXPORT ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t size, size_t buflen);
EXPORT ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t size, size_t buflen)
{
	if (size > buflen)
		__chk_fail();
	if (!task_here())
		return errno_ret(sys_call(__NR_readlinkat, dirfd, path, buf, size));
	return errno_ret(hook_readlinkat(dirfd, path, buf, size));
}

EXPORT ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t buflen);
EXPORT ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t buflen)
{
	if (size > buflen)
		__chk_fail();
	if (!task_here())
		return errno_ret(sys_call(__NR_readlinkat, AT_FDCWD, path, buf, size));
	return errno_ret(hook_readlinkat(AT_FDCWD, path, buf, size));
}
