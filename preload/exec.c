/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The exec family: the environment that lets the new program find its world again. */
#include <alloca.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kpemu/exec.h>

#include "emu/world/handover.h"
#include "preload/exec.h"
#include "preload/hook.h"

#define DEFAULT_PATH "/bin:/usr/bin" /* of a program without PATH, as libc's */

char *const *exec_environ(void)
{
	static char *const none[] = { NULL };

	return environ ? environ : none;
}

/*
 * The library's path as the new program will see it. After chroot it may be gone: then the
 * launcher hands over a descriptor, and the loader opens it through /proc. NULL: it cannot be had.
 */
static const char *library_path(struct exec_handover *h)
{
	const char *path = world->preload_path;
	char world_file[WORLD_PATH_MAX];

	h->fd = -1;
	if (!sys_call(__NR_faccessat, AT_FDCWD, path, R_OK))
		return path;
	world_path(world_file, world->uid, world->name);
	h->fd = handover_request(world_file, HANDOVER_PRELOAD);
	if (h->fd < 0)
		return NULL;
	sys_call(__NR_fcntl, h->fd, F_SETFD, 0);
	snprintf(h->path, sizeof(h->path), "/proc/self/fd/%d", h->fd);
	return sys_call(__NR_faccessat, AT_FDCWD, h->path, R_OK) ? NULL : h->path;
}

const char *exec_prepare(struct exec_handover *h, int dirfd, const char *path)
{
	enum exec_kind kind = exec_kind(dirfd, path);
	const char *library;

	h->fd = -1;
	if (kind != EXEC_ENTERED && kind != EXEC_UNKNOWN)
		uncovered_log(exec_kind_name(kind), path);
	/* A static program cannot load it, but what it starts may. */
	if (kind == EXEC_FOREIGN || kind == EXEC_SETID)
		return NULL;
	library = library_path(h);
	if (!library)
		uncovered_log("without the library", path);
	return library;
}

void exec_failed(struct exec_handover *h)
{
	if (h->fd >= 0)
		sys_close(h->fd);
}

static long exec_allowed(void)
{
	struct refusal why;
	uint64_t mask;
	long ret;

	if (likely(!(READ_ONCE(current->flags) & PF_NPROC_EXCEEDED)))
		return 0;
	block_signals(&mask);
	ret = exec_nproc_check(current, &why);
	restore_signals(&mask);
	refusal_log(&why, "execve");
	return ret;
}

/* The environment and the call are in one frame: what exec_env() makes lives on this stack. */
static long exec_at(int dirfd, const char *path, char *const argv[], char *const envp[], int flags,
		    const char *look_at)
{
	static char *const none[] = { NULL };
	struct exec_env scratch;
	struct exec_handover h;
	const char *library;
	char **env;
	long ret = exec_allowed();

	if (ret)
		return ret;
	library = exec_prepare(&h, dirfd, look_at);

	if (!envp)
		envp = none;
	env = alloca((exec_env_count(envp) + EXEC_ENV_EXTRA) * sizeof(*env));
	ret = exec_env(&scratch, envp, env, current, library);
	if (!ret && dirfd == AT_FDCWD && !flags)
		ret = sys_call(__NR_execve, path, argv, env);
	else if (!ret)
		ret = sys_call(__NR_execveat, dirfd, path, argv, env, flags);
	exec_failed(&h);
	return ret;
}

long hook_execve(const char *path, char *const argv[], char *const envp[])
{
	return exec_at(AT_FDCWD, path, argv, envp, 0, path);
}

long hook_execv(const char *path, char *const argv[])
{
	return hook_execve(path, argv, exec_environ());
}

long hook_execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
	char self[40];

	if (!(flags & AT_EMPTY_PATH) || !path || *path)
		return exec_at(dirfd, path, argv, envp, flags, path);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", dirfd);
	return exec_at(dirfd, path, argv, envp, flags, self);
}

long hook_fexecve(int fd, char *const argv[], char *const envp[])
{
	if (fd < 0 || !argv || !envp)
		return -EINVAL;
	return hook_execveat(fd, "", argv, envp, AT_EMPTY_PATH);
}

/* A file that is no program is a script of the shell, says execvp(3). */
static long exec_script(const char *path, char *const argv[], char *const envp[])
{
	size_t n = 0;
	char **args;

	while (argv[n])
		n++;
	args = alloca((n + 3) * sizeof(*args));
	args[0] = (char *)"/bin/sh";
	args[1] = (char *)path;
	if (n > 1)
		memcpy(args + 2, argv + 1, (n - 1) * sizeof(*args));
	args[n > 1 ? n + 1 : 2] = NULL;
	return hook_execve(args[0], args, envp);
}

static long exec_or_script(const char *path, char *const argv[], char *const envp[])
{
	long ret = hook_execve(path, argv, envp);

	return ret == -ENOEXEC ? exec_script(path, argv, envp) : ret;
}

const char *path_next(const char *dirs, const char *file, char *buf, size_t size)
{
	size_t n = strcspn(dirs, ":"), len = strlen(file);

	if (n + len + 2 > size) {
		buf[0] = 0;
	} else {
		memcpy(buf, dirs, n);
		if (n)
			buf[n++] = '/';
		memcpy(buf + n, file, len + 1);
	}
	dirs += strcspn(dirs, ":");
	return *dirs ? dirs + 1 : NULL;
}

const char *path_dirs(void)
{
	const char *dirs = getenv("PATH");

	return dirs ? dirs : DEFAULT_PATH;
}

long hook_execvpe(const char *file, char *const argv[], char *const envp[])
{
	char buf[PATH_MAX];
	bool denied = false;
	long ret = -ENOENT;

	if (!*file)
		return -ENOENT;
	if (strchr(file, '/'))
		return exec_or_script(file, argv, envp);
	if (strlen(file) > NAME_MAX)
		return -ENAMETOOLONG;
	for (const char *dirs = path_dirs(); dirs;) {
		dirs = path_next(dirs, file, buf, sizeof(buf));
		if (!buf[0])
			continue;
		ret = exec_or_script(buf, argv, envp);
		switch (-ret) {
		case EACCES:
			denied = true;
			break;
		case ENOENT:
		case ESTALE:
		case ENOTDIR:
		case ENODEV:
		case ETIMEDOUT:
			break;
		default:
			return ret;
		}
	}
	return denied ? -EACCES : ret;
}

long hook_execvp(const char *file, char *const argv[])
{
	return hook_execvpe(file, argv, exec_environ());
}

/*
 * The list forms collect their arguments on the stack. Not attached they go the same way: an exec
 * without a world is a plain execve.
 */
static long list_exec(const char *file, char *const argv[], char *const envp[], bool search)
{
	if (!task_here()) {
		if (search)
			return ((int (*)(const char *, char *const[], char *const[]))find_next(
				"execvpe"))(file, argv, envp);
		return errno_ret(sys_call(__NR_execve, file, argv, envp));
	}
	return errno_ret(search ? hook_execvpe(file, argv, envp) : hook_execve(file, argv, envp));
}

#define LIST_EXEC(file, arg, search, envp_after_list)                                              \
	({                                                                                         \
		va_list ap, count;                                                                 \
		size_t n = 1;                                                                      \
		char **argv;                                                                       \
                                                                                                   \
		va_start(ap, arg);                                                                 \
		va_copy(count, ap);                                                                \
		for (const char *a = arg; a; n++)                                                  \
			a = va_arg(count, const char *);                                           \
		va_end(count);                                                                     \
		argv = alloca(n * sizeof(*argv));                                                  \
		argv[0] = (char *)arg;                                                             \
		for (size_t i = 0; argv[i]; i++)                                                   \
			argv[i + 1] = va_arg(ap, char *);                                          \
		char *const *list_env =                                                            \
			envp_after_list ? va_arg(ap, char *const *) : exec_environ();              \
		va_end(ap);                                                                        \
		list_exec(file, argv, list_env, search);                                           \
	})

EXPORT int execl(const char *path, const char *arg, ...)
{
	return LIST_EXEC(path, arg, false, false);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	return LIST_EXEC(file, arg, true, false);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	return LIST_EXEC(path, arg, false, true);
}
