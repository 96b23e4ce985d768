/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes tasks by one call until it is refused: exactly as many as the limit, each really running. */
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>

#include "tests/preload/check.h"

/*
 * usage: create CALL UID [ERRNO]   the soft limit of processes says how many; alone in its account,
 *                                  as UID; a refusal says ERRNO, as a rule EAGAIN
 *        create --list             the calls
 *        create --child            what the calls that start a program start
 *        create --libc             what libc's own popen and system say when there may be no child
 *
 * Each child reports on one pipe and waits for a byte on another. Both have fixed numbers, so that
 * programs started find them.
 */
#define REPORT_IN 60
#define REPORT_OUT 61
#define HOLD_IN 62
#define HOLD_OUT 63
#define CHILD_STATUS 23
#define MAX 16
#define WAIT_MS 5000

struct report {
	pid_t pid, tid, ppid;
	uid_t uid;
};

static char *self;
static int limit; /* tasks, the program itself included */
static uid_t uid;
static int refused_errno = EAGAIN;

/* What the children of one round were made as. */
static struct made {
	pid_t pid; /* 0: the call does not tell, or a thread */
	pthread_t thread;
	thrd_t thrd;
	FILE *stream;
	int master;
	char *stack;
} made[MAX];

/* Report and hold; only system calls, for children on borrowed memory. */
static void child_body(void)
{
	struct report r = { getpid(), gettid(), getppid(), getuid() };
	char byte;

	if (write(REPORT_OUT, &r, sizeof(r)) != sizeof(r))
		_exit(1);
	while (read(HOLD_IN, &byte, 1) != 1)
		;
}

__attribute__((noreturn)) static void child(void)
{
	child_body();
	_exit(CHILD_STATUS);
}

static int child_fn(void *arg)
{
	(void)arg;
	child_body();
	return CHILD_STATUS;
}

static void *thread_fn(void *arg)
{
	child_body();
	return arg;
}

/* --- the calls: 0 or the error, as the call tells it --- */

#define FORK_LIKE(name, call)                                                                      \
	static int make_##name(struct made *m)                                                     \
	{                                                                                          \
		m->pid = (call);                                                                   \
		if (!m->pid)                                                                       \
			child();                                                                   \
		return m->pid < 0 ? errno : 0;                                                     \
	}
FORK_LIKE(fork, fork())
FORK_LIKE(_Fork, _Fork())
FORK_LIKE(syscall_fork, syscall(SYS_fork))
FORK_LIKE(syscall_clone, syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))

static struct clone_args args_fork = { .exit_signal = SIGCHLD };
FORK_LIKE(syscall_clone3, syscall(SYS_clone3, &args_fork, sizeof(args_fork)))

/* The child may do little but exec. */
static int make_vfork(struct made *m)
{
	m->pid = vfork();
	if (!m->pid) {
		execl(self, self, "--child", NULL);
		_exit(1);
	}
	return m->pid < 0 ? errno : 0;
}

#define STACK (64 * 1024)

static int make_clone_with(struct made *m, int flags)
{
	pid_t told = 0;

	m->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m->stack == MAP_FAILED)
		die("mmap");
	m->pid = clone(child_fn, m->stack + STACK, flags | CLONE_PARENT_SETTID | SIGCHLD, NULL,
		       &told);
	if (m->pid >= 0 && told != m->pid)
		verdict(false, "clone_parent_tid", "want %d, got %d", m->pid, told);
	return m->pid < 0 ? errno : 0;
}

static int make_clone(struct made *m)
{
	return make_clone_with(m, 0);
}

static int make_clone_vm(struct made *m)
{
	return make_clone_with(m, CLONE_VM);
}

static int make_clone_files_fs(struct made *m)
{
	return make_clone_with(m, CLONE_FILES | CLONE_FS);
}

static int make_pthread_create(struct made *m)
{
	return pthread_create(&m->thread, NULL, thread_fn, m);
}

/* C11 threads know success, no memory, and "error" for all else. */
static int make_thrd_create(struct made *m)
{
	int ret = thrd_create(&m->thrd, child_fn, NULL);

	return ret == thrd_success ? 0 : ret == thrd_error ? EAGAIN : ENOMEM;
}

static int make_posix_spawn(struct made *m)
{
	char *argv[] = { self, "--child", NULL };

	return posix_spawn(&m->pid, self, NULL, NULL, argv, environ);
}

static int make_posix_spawnp(struct made *m)
{
	char *slash = strrchr(self, '/'), *argv[] = { self, "--child", NULL };
	char path[4096];

	snprintf(path, sizeof(path), "/nowhere:%.*s", (int)(slash - self), self);
	setenv("PATH", path, 1);
	return posix_spawnp(&m->pid, slash + 1, NULL, NULL, argv, environ);
}

static int make_popen(struct made *m)
{
	char command[4096];

	snprintf(command, sizeof(command), "exec '%s' --child", self);
	errno = 0;
	m->stream = popen(command, "r");
	return m->stream ? 0 : errno;
}

static int make_forkpty(struct made *m)
{
	m->pid = forkpty(&m->master, NULL, NULL, NULL);
	if (!m->pid) {
		if (!isatty(STDIN_FILENO) || getsid(0) != getpid())
			_exit(1);
		child();
	}
	return m->pid < 0 ? errno : 0;
}

/* --- how they end --- */

static int process_status(struct made *m)
{
	int status;

	if (waitpid(m->pid, &status, 0) != m->pid)
		return -1;
	return status;
}

static int end_process(struct made *m)
{
	int status = process_status(m);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int end_clone(struct made *m)
{
	int status = end_process(m);

	munmap(m->stack, STACK);
	return status;
}

static int end_pthread(struct made *m)
{
	void *ret;

	return !pthread_join(m->thread, &ret) && ret == m ? CHILD_STATUS : -1;
}

static int end_thrd(struct made *m)
{
	int ret;

	return thrd_join(m->thrd, &ret) == thrd_success ? ret : -1;
}

static int end_popen(struct made *m)
{
	int status = pclose(m->stream);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int end_forkpty(struct made *m)
{
	int status = end_process(m);

	close(m->master);
	return status;
}

/* --- one test --- */

static const struct call {
	const char *name;
	int (*make)(struct made *m);
	int (*end)(struct made *m);
	bool thread;
} calls[] = {
	{ "fork", make_fork, end_process, false },
	{ "_Fork", make__Fork, end_process, false },
	{ "vfork", make_vfork, end_process, false },
	{ "clone", make_clone, end_clone, false },
	{ "clone_vm", make_clone_vm, end_clone, false },
	{ "clone_files_fs", make_clone_files_fs, end_clone, false },
	{ "syscall_fork", make_syscall_fork, end_process, false },
	{ "syscall_clone", make_syscall_clone, end_process, false },
	{ "syscall_clone3", make_syscall_clone3, end_process, false },
	{ "pthread_create", make_pthread_create, end_pthread, true },
	{ "thrd_create", make_thrd_create, end_thrd, true },
	{ "posix_spawn", make_posix_spawn, end_process, false },
	{ "posix_spawnp", make_posix_spawnp, end_process, false },
	{ "popen", make_popen, end_popen, false },
	{ "forkpty", make_forkpty, end_forkpty, false },
};
#define NR_CALLS (sizeof(calls) / sizeof(*calls))

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void check_report(const struct call *c, const struct made *m)
{
	struct report r;

	if (!read_within(REPORT_IN, &r, sizeof(r), WAIT_MS)) {
		verdict(false, "child_runs", "nothing heard of it");
		return;
	}
	if (m->pid)
		check_eq("pid_returned", r.pid, m->pid);
	if (c->thread) {
		check_eq("thread_pid", getpid(), r.pid);
		verdict(r.tid != r.pid, "thread_id", "it is the leader's");
	} else {
		check_eq("parent", getpid(), r.ppid);
	}
	check_eq("child_uid", uid, r.uid);
}

static void make_one(const struct call *c, struct made *m)
{
	memset(m, 0, sizeof(*m));
	if (check_err("make", 0, c->make(m)))
		check_report(c, m);
}

static void end_all(const struct call *c, int n)
{
	static const char bytes[MAX];

	if (write(HOLD_OUT, bytes, n) != n)
		die("write");
	for (int i = 0; i < n; i++)
		check_eq("status", CHILD_STATUS, c->end(&made[i]));
}

/* The kernel may count a thread a moment longer than pthread_join waits. */
static void make_again(const struct call *c)
{
	int err;

	memset(&made[0], 0, sizeof(made[0]));
	until((err = c->make(&made[0])) != refused_errno);
	if (check_err("make_after_end", 0, err)) {
		check_report(c, &made[0]);
		end_all(c, 1);
	}
}

static void test(const struct call *c)
{
	struct made refused = { 0 };
	int files;

	for (int round = 0; round < 2; round++) {
		files = open_files();
		for (int i = 0; i < limit - 1; i++)
			make_one(c, &made[i]);
		files += c->make == make_popen || c->make == make_forkpty ? limit - 1 : 0;
		for (int i = 0; i < 3; i++)
			check_err("refused", refused_errno, c->make(&refused));
		check_eq("open_files", files, open_files());
		end_all(c, limit - 1);
	}
	make_again(c);
}

static void place_pipe(int in, int out)
{
	int fds[2];

	if (pipe(fds) || dup2(fds[0], in) < 0 || dup2(fds[1], out) < 0)
		die("pipe");
	close(fds[0]);
	close(fds[1]);
}

static int list(void)
{
	for (size_t i = 0; i < NR_CALLS; i++)
		puts(calls[i].name);
	return 0;
}

/* The errno of popen and the status of system. Not for root, whom no limit stops. */
static int refusals_of_libc(void)
{
	struct rlimit none = { 0 };
	int popen_errno;

	if (setrlimit(RLIMIT_NPROC, &none) || popen(":", "r"))
		return 1;
	popen_errno = errno;
	printf("%d %d\n", popen_errno, system(":"));
	return 0;
}

int main(int argc, char **argv)
{
	struct rlimit r;

	self = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--child"))
		child();
	if (argc > 1 && !strcmp(argv[1], "--list"))
		return list();
	if (argc > 1 && !strcmp(argv[1], "--libc"))
		return refusals_of_libc();
	if (argc < 3 || getrlimit(RLIMIT_NPROC, &r))
		return 2;
	limit = r.rlim_cur;
	uid = atoi(argv[2]);
	if (argc > 3)
		refused_errno = atoi(argv[3]);
	if (limit > MAX)
		die("limit");
	place_pipe(REPORT_IN, REPORT_OUT);
	place_pipe(HOLD_IN, HOLD_OUT);
	for (size_t i = 0; i < NR_CALLS; i++)
		if (!strcmp(calls[i].name, argv[1]))
			test(&calls[i]);
	return failures != 0;
}
