/* SPDX-License-Identifier: GPL-2.0-or-later */
/* posix_spawn, and system and popen rebuilt on it, since libc's own would not pass through us. */
#include <alloca.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <kpemu/exec.h>

#include "preload/exec.h"
#include "preload/hook.h"

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
		     const posix_spawnattr_t *, char *const[], char *const[]);

/* Effective ids of the child are reset by libc for real; in the model here. */
static void apply_attributes(struct task_struct *t, const posix_spawnattr_t *attr)
{
	short flags = 0;

	if (attr)
		next_posix_spawnattr_getflags(attr, &flags);
	if (!(flags & POSIX_SPAWN_RESETIDS))
		return;
	sys_setresuid(t, -1, from_kuid(t->cred.user_ns, t->cred.uid), -1);
	sys_setresgid(t, -1, from_kgid(t->cred.user_ns, t->cred.gid), -1);
}

static int spawn_task(struct new_task *n, const posix_spawnattr_t *attr, const char *call)
{
	struct refusal why = { 0 };
	uint64_t mask;
	int err;

	block_signals(&mask);
	err = new_task(n, SIGCHLD, call);
	if (!err) {
		apply_attributes(n->t, attr);
		err = exec_nproc_check(n->t, &why);
		if (err)
			new_task_failed(n, 0);
	}
	restore_signals(&mask);
	if (err && why.err)
		refusal_log(&why, "execve");
	return -err;
}

static void spawn_done(const struct new_task *n, int err, pid_t pid)
{
	uint64_t mask;

	block_signals(&mask);
	if (err)
		new_task_failed(n, err);
	else
		task_born(n->t, n->ref, pid, pid);
	restore_signals(&mask);
}

static int spawn(spawn_fn *real, const char *call, pid_t *pid, const char *file, const char *path,
		 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
		 char *const argv[], char *const envp[])
{
	struct exec_env scratch;
	struct exec_handover h;
	struct new_task n;
	const char *library;
	char **env;
	pid_t child;
	int err = spawn_task(&n, attr, call);

	if (err)
		return err;
	if (!envp)
		envp = exec_environ();
	library = exec_prepare(&h, AT_FDCWD, path);
	env = alloca((exec_env_count(envp) + EXEC_ENV_EXTRA) * sizeof(*env));
	err = -exec_env(&scratch, envp, env, n.t, library);
	if (!err)
		err = real(&child, file, actions, attr, argv, env);
	exec_failed(&h);
	spawn_done(&n, err, child);
	if (!err && pid)
		*pid = child;
	return err;
}

int hook_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	return spawn(next_posix_spawn, "posix_spawn", pid, path, path, actions, attr, argv, envp);
}

/* The file that the search will find, for a look at it. */
static const char *search_path(const char *file, char *buf, size_t size)
{
	if (strchr(file, '/'))
		return file;
	for (const char *dirs = path_dirs(); dirs;) {
		dirs = path_next(dirs, file, buf, size);
		if (buf[0] && !sys_call(__NR_faccessat, AT_FDCWD, buf, X_OK))
			return buf;
	}
	return file;
}

int hook_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
		      const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	char buf[PATH_MAX];

	return spawn(next_posix_spawnp, "posix_spawnp", pid, file,
		     search_path(file, buf, sizeof(buf)), actions, attr, argv, envp);
}

/*
 * While any thread is in system(), INT and QUIT are ignored: the first one in saves them, the last
 * one out restores them.
 */
static struct {
	struct process_lock lock;
	int users;
	struct sigaction intr, quit;
} system_state;

static void system_enter(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	uint64_t mask;

	block_signals(&mask);
	process_lock(&system_state.lock);
	if (!system_state.users++) {
		next_sigaction(SIGINT, &ignore, &system_state.intr);
		next_sigaction(SIGQUIT, &ignore, &system_state.quit);
	}
	process_unlock(&system_state.lock);
	restore_signals(&mask);
}

static void system_leave(void)
{
	uint64_t mask;

	block_signals(&mask);
	process_lock(&system_state.lock);
	if (!--system_state.users) {
		next_sigaction(SIGINT, &system_state.intr, NULL);
		next_sigaction(SIGQUIT, &system_state.quit, NULL);
	}
	process_unlock(&system_state.lock);
	restore_signals(&mask);
}

#define BIT(sig) (1ull << ((sig)-1))

static uint64_t change_mask(int how, uint64_t set)
{
	uint64_t old;

	sys_call(__NR_rt_sigprocmask, how, &set, &old, sizeof(set));
	return old;
}

/* What the child gets back, if the program did not ignore it before. */
static void system_attributes(posix_spawnattr_t *attr, uint64_t mask)
{
	sigset_t reset = { { 0 } }, old = { { mask } };

	if (system_state.intr.sa_handler != SIG_IGN)
		reset.__val[0] |= BIT(SIGINT);
	if (system_state.quit.sa_handler != SIG_IGN)
		reset.__val[0] |= BIT(SIGQUIT);
	next_posix_spawnattr_init(attr);
	next_posix_spawnattr_setsigmask(attr, &old);
	next_posix_spawnattr_setsigdefault(attr, &reset);
	next_posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

struct system_cleanup {
	pid_t pid;
	uint64_t mask;
};

static void system_cancelled(void *arg)
{
	struct system_cleanup *c = arg;

	sys_call(__NR_kill, c->pid, SIGKILL);
	sys_call(__NR_wait4, c->pid, 0, 0, 0);
	reaped(c->pid);
	system_leave();
	change_mask(SIG_SETMASK, c->mask);
}

/* A shell that cannot be started is one that exited with 127, and errno says why (POSIX, libc). */
static int run_shell(const char *command)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"--", (char *)command, NULL };
	int status = W_EXITCODE(127, 0), err;
	struct system_cleanup c;
	posix_spawnattr_t attr;

	system_enter();
	c.mask = change_mask(SIG_BLOCK, BIT(SIGCHLD));
	system_attributes(&attr, c.mask);
	err = hook_posix_spawn(&c.pid, "/bin/sh", NULL, &attr, argv, exec_environ());
	next_posix_spawnattr_destroy(&attr);
	if (!err) {
		status = -1;
		pthread_cleanup_push(system_cancelled, &c);
		while (hook_wait4(c.pid, &status, 0, NULL) < 0 && errno == EINTR)
			;
		pthread_cleanup_pop(0);
	}
	system_leave();
	change_mask(SIG_SETMASK, c.mask);
	if (err)
		errno = err;
	return status;
}

int hook_system(const char *command)
{
	if (!command)
		return run_shell("exit 0") == 0;
	return run_shell(command);
}

/*
 * Streams of popen and their children. Entries are claimed by compare-and-swap and never move;
 * more come in blocks that are kept.
 */
struct popened {
	FILE *stream; /* NULL = free, RESERVED = being made */
	int fd;
	pid_t pid;
};
#define RESERVED ((FILE *)-1)
#define POPEN_BLOCK 21 /* the first block is in every process's only page of data */

struct popen_block {
	struct popened entry[POPEN_BLOCK];
	struct popen_block *next;
};
static struct popen_block popen_blocks;
static int popen_used; /* 0: no stream was ever made, so that fclose() need not search */

static struct popen_block *popen_grow(struct popen_block *last)
{
	struct popen_block *none = NULL;
	long p = sys_call(__NR_mmap, 0, sizeof(*last), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (SYS_ERR(p))
		return NULL;
	if (try_cmpxchg(&last->next, &none, (struct popen_block *)p))
		return (struct popen_block *)p;
	sys_call(__NR_munmap, p, sizeof(*last));
	return none;
}

/* The entry whose stream is @stream (RESERVED: claim a free one, making room if need be). */
static struct popened *popen_entry(FILE *stream)
{
	FILE *want = stream == RESERVED ? NULL : stream;

	for (struct popen_block *b = &popen_blocks; b;) {
		for (int i = 0; i < POPEN_BLOCK; i++) {
			struct popened *e = &b->entry[i];

			if (READ_ONCE(e->stream) == want && cmpxchg(&e->stream, want, RESERVED) == want)
				return e;
		}
		b = b->next ? b->next : stream == RESERVED ? popen_grow(b) : NULL;
	}
	return NULL;
}

/* POSIX: streams of earlier calls are closed in the new child. */
static void close_others(posix_spawn_file_actions_t *actions, int except)
{
	for (struct popen_block *b = &popen_blocks; b; b = b->next)
		for (int i = 0; i < POPEN_BLOCK; i++) {
			FILE *f = READ_ONCE(b->entry[i].stream);

			if (f && f != RESERVED && b->entry[i].fd != except)
				next_posix_spawn_file_actions_addclose(actions, b->entry[i].fd);
		}
}

/* "r" or "w", with "e" anywhere: 1 = write, 0 = read, -1 = neither or both. */
static int popen_mode(const char *mode, bool *cloexec)
{
	int write = -1;

	*cloexec = false;
	for (; *mode; mode++) {
		if (*mode == 'e')
			*cloexec = true;
		else if ((*mode == 'r' || *mode == 'w') && write < 0)
			write = *mode == 'w';
		else
			return -1;
	}
	return write;
}

static int popen_spawn(pid_t *pid, const char *command, int child_end, int parent_end, int target)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"--", (char *)command, NULL };
	posix_spawn_file_actions_t actions;
	int err;

	next_posix_spawn_file_actions_init(&actions);
	close_others(&actions, parent_end);
	/* dup2 onto itself clears close-on-exec there, as posix_spawn says */
	next_posix_spawn_file_actions_adddup2(&actions, child_end, target);
	err = hook_posix_spawn(pid, "/bin/sh", &actions, NULL, argv, exec_environ());
	next_posix_spawn_file_actions_destroy(&actions);
	return err;
}

static FILE *popen_stream(struct popened *e, const char *command, int write, bool cloexec)
{
	int fds[2], err, mine, theirs;
	FILE *f;

	if (errno_ret(sys_call(__NR_pipe2, fds, O_CLOEXEC)) < 0)
		return NULL;
	mine = fds[write];
	theirs = fds[!write];
	f = next_fdopen(mine, write ? "w" : "r");
	err = f ? popen_spawn(&e->pid, command, theirs, mine, write ? 0 : 1) : errno;
	sys_close(theirs);
	if (err) {
		if (f)
			next_fclose(f);
		else
			sys_close(mine);
		errno = ENOMEM; /* whatever it was: so says libc */
		return NULL;
	}
	if (!cloexec)
		sys_call(__NR_fcntl, mine, F_SETFD, 0);
	e->fd = mine;
	return f;
}

FILE *hook_popen(const char *command, const char *mode)
{
	bool cloexec;
	int write = popen_mode(mode, &cloexec);
	struct popened *e;
	FILE *f;

	if (write < 0) {
		errno = EINVAL;
		return NULL;
	}
	WRITE_ONCE(popen_used, 1);
	e = popen_entry(RESERVED);
	if (!e) {
		errno = ENOMEM;
		return NULL;
	}
	f = popen_stream(e, command, write, cloexec);
	smp_store_release(&e->stream, f);
	return f;
}

/* Close @stream and, if popen made it, wait for its child; *@status is then the child's. */
static int close_stream(FILE *stream, int *status)
{
	struct popened *e = READ_ONCE(popen_used) ? popen_entry(stream) : NULL;
	int ret, wstatus;
	pid_t pid;

	if (!e) {
		*status = -1;
		errno = EINVAL;
		return 1;
	}
	pid = e->pid;
	smp_store_release(&e->stream, NULL);
	ret = next_fclose(stream);
	do {
		*status = hook_wait4(pid, &wstatus, 0, NULL) < 0 ? -1 : wstatus;
	} while (*status < 0 && errno == EINTR);
	return ret;
}

int hook_pclose(FILE *stream)
{
	int status;

	close_stream(stream, &status);
	return status;
}

static int close_any(FILE *stream)
{
	int status, ret = stream ? close_stream(stream, &status) : 1;

	return ret == 1 ? next_fclose(stream) : ret;
}

/* An emulated file gets what the stream still holds while there is a descriptor. */
int hook_fclose(FILE *stream)
{
	bool lost = stream && unlikely(READ_ONCE(current->flags) & PF_PROC_WRITER) &&
		    hook_fflush(stream);
	int err = errno, ret = close_any(stream);

	if (!lost)
		return ret;
	errno = err;
	return EOF;
}
