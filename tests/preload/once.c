/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is peculiar to single creation calls: shared memory, sessions, arguments, bad arguments. */
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <wordexp.h>

#include "tests/preload/children.h"

/* SYSTEM_REFUSED in the environment: the status that system(3) gives when there can be no child. */

static int all; /* units free at the start */
static char *self;

#define check_left(name, gone) check_eq(name, all - (gone), forks_left())
#define STACK (64 * 1024)

static char *new_stack(void)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		die("mmap");
	return stack + STACK;
}

static int status_of(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) > 0 ? status : -1;
}

/* --- system and popen --- */

static void system_statuses(void)
{
	check_eq("shell_there", true, system(NULL) != 0);
	check_eq("exit", 42 << 8, system("exit 42"));
	check_eq("killed", SIGKILL, system("kill -KILL $$"));
	check_eq("interrupted", SIGINT, system("kill -INT $$"));
	check_eq("not_found", 127 << 8, system("exec /nowhere/at/all 2>/dev/null"));
	check_eq("empty", 0, system(""));
	check_left("left", 0);
}

static int interrupts;

static void count_interrupt(int sig)
{
	(void)sig;
	interrupts++;
}

/* While system() waits, the caller ignores INT and QUIT and blocks CHLD; afterwards nothing stays. */
static void system_signals(void)
{
	struct sigaction sa = { .sa_handler = count_interrupt }, now;
	sigset_t mask;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGQUIT, &sa, NULL);
	check_eq("status", 0, system("kill -INT $PPID; kill -QUIT $PPID; kill -CHLD $PPID"));
	check_eq("ignored", 0, interrupts);
	sigaction(SIGINT, NULL, &now);
	check_eq("int_handler", true, now.sa_handler == count_interrupt);
	sigaction(SIGQUIT, NULL, &now);
	check_eq("quit_handler", true, now.sa_handler == count_interrupt);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	check_eq("chld_unblocked", 0, sigismember(&mask, SIGCHLD));
}

static void system_refused(void)
{
	const char *want = getenv("SYSTEM_REFUSED");
	pid_t pid[CHILDREN_MAX];
	int n = fill(pid);

	errno = 0;
	check_eq("status", want ? atoi(want) : -1, system("exit 0"));
	check_err("errno", EAGAIN, errno);
	kill_child(pid[--n]);
	check_eq("one_free", 42 << 8, system("exit 42"));
	drain(pid, n);
	check_left("left", 0);
}

static void popen_directions(void)
{
	char text[64] = "";
	FILE *in = popen("echo to you; exit 3", "r"), *out;

	check_eq("read", true, in && fgets(text, sizeof(text), in) && !strcmp(text, "to you\n"));
	check_eq("status", 3 << 8, pclose(in));
	out = popen("read a; test \"$a\" = hello", "w");
	check_eq("write", true, out && fputs("hello\n", out) >= 0);
	check_eq("write_status", 0, pclose(out));
	check_left("left", 0);
}

static void popen_modes(void)
{
	FILE *e = popen(":", "re"), *plain = popen(":", "r");

	check_eq("cloexec", FD_CLOEXEC, fcntl(fileno(e), F_GETFD));
	check_eq("no_cloexec", 0, fcntl(fileno(plain), F_GETFD));
	check_eq("first", 0, pclose(e));
	check_eq("second", 0, pclose(plain));
	check_err("no_mode", EINVAL, popen(":", "") ? 0 : errno);
	check_err("bad_mode", EINVAL, popen(":", "x") ? 0 : errno);
	check_err("both", EINVAL, popen(":", "rw") ? 0 : errno);
	check_left("left", 0);
}

/* POSIX: a later child does not hold the pipe of an earlier one, which would never see its end. */
static void popen_closes_earlier_streams(void)
{
	FILE *first = popen("cat >/dev/null", "w"), *second = popen("read a; exit 4", "w");

	alarm(10);
	check_eq("first_ends", 0, pclose(first));
	check_eq("second_ends", 4 << 8, pclose(second));
	check_left("left", 0);
}

/* A stream of popen may be closed by fclose: that waits for the child. */
static void popen_and_fclose(void)
{
	int (*volatile close_it)(FILE *) = fclose;

	check_eq("fclose", 0, close_it(popen("exit 0", "r")));
	check_err("no_child", ECHILD, err_of(wait(NULL)));
	check_left("left", 0);
}

/* --- daemon and forkpty --- */

static void daemon_is_a_session_of_its_own(void)
{
	struct line l = line_open();
	pid_t pid = fork();
	struct stat null, st;
	char cwd[8] = "";

	if (!pid) {
		if (daemon(0, 0))
			_exit(1);
		line_say(&l, getpid());
		line_say(&l, getsid(0));
		line_say(&l, getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, "/"));
		stat("/dev/null", &null);
		line_say(&l, !fstat(0, &st) && st.st_rdev == null.st_rdev);
		_exit(0);
	}
	check_eq("parent_ends", 0, status_of(pid));
	check_eq("session", line_hear(&l), line_hear(&l));
	check_eq("cwd", 1, line_hear(&l));
	check_eq("stdin", 1, line_hear(&l));
	until(forks_left() == all);
	check_left("left", 0);
}

static void daemon_keeps_what_it_is_told_to(void)
{
	struct line l = line_open();
	char before[4096], after[4096] = "";
	struct stat old, st;
	pid_t pid;

	if (!getcwd(before, sizeof(before)) || fstat(0, &old))
		die("getcwd");
	pid = fork();
	if (!pid) {
		if (daemon(1, 1))
			_exit(1);
		line_say(&l, getcwd(after, sizeof(after)) && !strcmp(after, before));
		line_say(&l, !fstat(0, &st) && st.st_ino == old.st_ino);
		_exit(0);
	}
	check_eq("parent_ends", 0, status_of(pid));
	check_eq("cwd", 1, line_hear(&l));
	check_eq("stdin", 1, line_hear(&l));
}

static void daemon_refused(void)
{
	struct line l = line_open();
	pid_t pid = fork(), more[CHILDREN_MAX];

	if (!pid) {
		int n = fill(more);

		line_say(&l, daemon(0, 0));
		line_say(&l, errno);
		drain(more, n);
		_exit(5);
	}
	check_eq("result", -1, line_hear(&l));
	check_err("errno", EAGAIN, line_hear(&l));
	check_eq("goes_on", 5 << 8, status_of(pid));
	check_left("left", 0);
}

static void forkpty_arguments(void)
{
	struct winsize size = { .ws_row = 12, .ws_col = 34 }, got;
	struct termios raw = { 0 };
	char name[64] = "", heard[64] = "";
	int master = -1;
	pid_t pid;

	cfmakeraw(&raw);
	raw.c_cflag |= CREAD;
	pid = forkpty(&master, name, &raw, &size);
	if (!pid) {
		ioctl(0, TIOCGWINSZ, &got);
		printf("%s %d %d %d\n", ttyname(0), got.ws_row, got.ws_col,
		       getsid(0) == getpid() && tcgetpgrp(0) == getpid());
		exit(6);
	}
	check_eq("pid", true, pid > 0);
	verdict(!strncmp(name, "/dev/pts/", 9), "name", "%s", name);
	for (size_t n = 0; n < sizeof(heard) - 1 && !strchr(heard, '\n'); n++)
		if (!read_within(master, heard + n, 1, 5000))
			break;
	strcat(name, " 12 34 1\n");
	verdict(!strcmp(heard, name), "terminal", "want %s, got %s", name, heard);
	check_eq("status", 6 << 8, status_of(pid));
	close(master);
	check_left("left", 0);
}

/* --- vfork and clone --- */

static volatile int shared;

__attribute__((noinline)) static pid_t vfork_and_store(void)
{
	pid_t pid = vfork();

	if (!pid) {
		shared = getpid();
		_exit(9);
	}
	return pid;
}

static void vfork_shares_memory(void)
{
	pid_t pid = vfork_and_store();

	check_eq("child_pid", pid, shared);
	check_left("zombie", 1);
	check_eq("status", 9 << 8, status_of(pid));
	check_left("left", 0);
}

/* What the child does to itself is not its parent's. */
__attribute__((noinline)) static pid_t vfork_and_lower(void)
{
	struct rlimit one = { 1, 1 };
	pid_t pid = vfork();

	if (!pid) {
		shared = setrlimit(RLIMIT_NPROC, &one) || fork() != -1 || errno != EAGAIN;
		_exit(0);
	}
	return pid;
}

static void vfork_child_is_not_its_parent(void)
{
	pid_t pid = vfork_and_lower();

	check_eq("child_refused", 0, shared);
	check_eq("limit_kept", all + 1, nproc_limit());
	check_eq("status", 0, status_of(pid));
	check_left("left", 0);
}

static int vfork_child_fn(void *arg)
{
	shared = getpid();
	return (long)arg;
}

static void clone_vfork_waits(void)
{
	pid_t pid = clone(vfork_child_fn, new_stack(), CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)8);

	check_eq("child_pid", pid, shared);
	check_left("zombie", 1);
	check_eq("status", 8 << 8, status_of(pid));
	check_left("left", 0);
}

/* A thread without pthread: it may only make system calls. */
static struct line thread_line, thread_end;

static int raw_thread(void *arg)
{
	char byte;

	(void)arg;
	line_say(&thread_line, gettid());
	return read(thread_end.fd[0], &byte, 1) == 1 ? 0 : 1;
}

static void clone_thread_counts(void)
{
	pid_t tid;

	thread_line = line_open();
	thread_end = line_open();
	tid = clone(raw_thread, new_stack(),
		    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			    CLONE_SYSVSEM,
		    NULL);
	check_eq("tid", tid, line_hear(&thread_line));
	check_left("lives", 1);
	line_say(&thread_end, 0);
	check_eq("ends", true, until(syscall(SYS_tgkill, getpid(), tid, 0) && errno == ESRCH));
	check_left("left", 0);
}

static void clone_wrong_arguments(void)
{
	check_err("no_function", EINVAL, err_of(clone(NULL, new_stack(), SIGCHLD, NULL)));
	check_err("no_stack", EINVAL, err_of(clone(vfork_child_fn, NULL, SIGCHLD, NULL)));
	check_err("flags", EINVAL,
		  err_of(clone(vfork_child_fn, new_stack(), CLONE_SIGHAND | SIGCHLD, NULL)));
	check_err("number_flags", EINVAL,
		  err_of(syscall(SYS_clone, CLONE_THREAD | SIGCHLD, 0, 0, 0, 0)));
	check_left("left", 0);
}

static void clone3_wrong_arguments(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD, .flags = CLONE_SIGHAND };

	check_err("no_size", EINVAL, err_of(syscall(SYS_clone3, &args, 0)));
	check_err("short", EINVAL, err_of(syscall(SYS_clone3, &args, 8)));
	check_err("flags", EINVAL, err_of(syscall(SYS_clone3, &args, sizeof(args))));
	check_left("left", 0);
}

static void clone3_unreadable_arguments(void)
{
	check_err("null", EFAULT, err_of(syscall(SYS_clone3, NULL, sizeof(struct clone_args))));
	check_left("left", 0);
}

static void clone3_pidfd(void)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD,
		.pidfd = (uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	siginfo_t info = { 0 };
	pid_t pid = syscall(SYS_clone3, &args, sizeof(args));

	if (!pid)
		_exit(4);
	check_err("waitid", 0, err_of(waitid(P_PIDFD, pidfd, &info, WEXITED)));
	check_eq("pid", pid, info.si_pid);
	check_eq("status", 4, info.si_status);
	check_left("left", 0);
}

/* By number vfork returns twice on one stack: a child that calls nothing is all that works. */
__attribute__((noinline)) static pid_t number_vfork(void)
{
	long pid = syscall(SYS_vfork);

	if (!pid)
		__asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(11) : "rcx", "r11");
	return pid;
}

static void syscall_vfork(void)
{
	pid_t pid = number_vfork();

	check_eq("pid", true, pid > 0);
	check_left("zombie", 1);
	check_eq("status", 11 << 8, status_of(pid));
	check_left("left", 0);
}

static void syscall_vfork_refused(void)
{
	pid_t pid[CHILDREN_MAX];
	int n = fill(pid), i;

	for (i = 0; i < 3; i++)
		check_err("refused", EAGAIN, err_of(number_vfork()));
	drain(pid, n);
	check_left("left", 0);
}

/* --- posix_spawn --- */

static void spawn_missing_program(void)
{
	char *argv[] = { "nothing", NULL };
	pid_t pid = 4711;

	setenv("PATH", "/usr/bin:/bin", 1);
	check_err("posix_spawn", ENOENT,
		  posix_spawn(&pid, "/nowhere/nothing", NULL, NULL, argv, environ));
	check_err("posix_spawnp", ENOENT,
		  posix_spawnp(&pid, "kpemu-no-such-program", NULL, NULL, argv, environ));
	check_err("directory", EACCES, posix_spawn(&pid, "/tmp", NULL, NULL, argv, environ));
	check_err("no_zombie", ECHILD, err_of(wait(NULL)));
	check_left("left", 0);
}

/* What spawn_arguments() asks for, seen from inside. */
static int spawned(char **argv)
{
	sigset_t mask;
	struct sigaction sa;
	char text[8] = "";

	sigprocmask(SIG_BLOCK, NULL, &mask);
	sigaction(SIGUSR1, NULL, &sa);
	if (strcmp(argv[0], "zeroth") || !argv[2] || strcmp(argv[2], "second argument"))
		return 1;
	if (!getenv("ONLY") || strcmp(getenv("ONLY"), "this") || getenv("HOME"))
		return 2;
	if (getpgrp() != getpid())
		return 3;
	if (!sigismember(&mask, SIGUSR2) || sigismember(&mask, SIGHUP))
		return 4;
	if (sa.sa_handler != SIG_DFL)
		return 5;
	if (read(5, text, 4) != 4 || strcmp(text, "file"))
		return 6;
	if (fcntl(6, F_GETFD) >= 0)
		return 7;
	return 77;
}

static void spawn_arguments(void)
{
	char *argv[] = { "zeroth", "--spawned", "second argument", NULL };
	char *env[] = { "ONLY=this", NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t mask, dfl;
	int fds[2];
	pid_t pid;

	if (pipe(fds) || dup2(fds[0], 6) < 0 || write(fds[1], "filefile", 8) != 8)
		die("pipe");
	signal(SIGUSR1, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	sigemptyset(&dfl);
	sigaddset(&dfl, SIGUSR1);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &mask);
	posix_spawnattr_setsigdefault(&attr, &dfl);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, 6, 5);
	posix_spawn_file_actions_addclose(&actions, 6);
	check_err("spawn", 0, posix_spawn(&pid, self, &actions, &attr, argv, env));
	check_eq("status", 77 << 8, status_of(pid));
	check_err("no_pid_wanted", 0, posix_spawn(NULL, self, &actions, &attr, argv, env));
	check_eq("no_pid_status", 77 << 8, status_of(-1));
	check_left("left", 0);
}

/* --- signal masks, handlers, atfork --- */

static bool hup_blocked(void)
{
	sigset_t mask;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	return sigismember(&mask, SIGHUP) && !sigismember(&mask, SIGTERM) &&
	       !sigismember(&mask, SIGCHLD);
}

static void *mask_of_thread(void *arg)
{
	return hup_blocked() ? arg : NULL;
}

static int mask_of_clone(void *arg)
{
	(void)arg;
	return !hup_blocked();
}

__attribute__((noinline)) static pid_t mask_of_vfork(void)
{
	pid_t pid = vfork();

	if (!pid)
		_exit(!hup_blocked());
	return pid;
}

static void signal_masks(void)
{
	char *argv[] = { self, "--mask", NULL };
	pthread_t thread;
	sigset_t hup;
	void *ret;
	pid_t pid;

	sigemptyset(&hup);
	sigaddset(&hup, SIGHUP);
	sigprocmask(SIG_BLOCK, &hup, NULL);
	pid = fork();
	if (!pid)
		_exit(!hup_blocked());
	check_eq("fork", 0, status_of(pid));
	pid = _Fork();
	if (!pid)
		_exit(!hup_blocked());
	check_eq("_Fork", 0, status_of(pid));
	check_eq("vfork", 0, status_of(mask_of_vfork()));
	check_eq("clone", 0, status_of(clone(mask_of_clone, new_stack(), SIGCHLD, NULL)));
	pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid)
		_exit(!hup_blocked());
	check_eq("number", 0, status_of(pid));
	check_err("spawn_error", 0, posix_spawn(&pid, self, NULL, NULL, argv, environ));
	check_eq("spawn", 0, status_of(pid));
	pthread_create(&thread, NULL, mask_of_thread, self);
	pthread_join(thread, &ret);
	check_eq("thread", true, ret == self);
	check_eq("own", true, hup_blocked());
}

static pid_t forked_in_handler;

static void fork_in_handler(int sig)
{
	(void)sig;
	forked_in_handler = fork();
	if (!forked_in_handler)
		_exit(12);
}

static void fork_in_a_handler(void)
{
	signal(SIGUSR1, fork_in_handler);
	raise(SIGUSR1);
	check_eq("status", 12 << 8, status_of(forked_in_handler));
	check_left("left", 0);
}

static int prepared, in_parent, in_child;

static void prepare(void)
{
	prepared++;
}

static void parent(void)
{
	in_parent++;
}

static void child(void)
{
	in_child++;
}

static void atfork_handlers(void)
{
	pid_t pid;

	pthread_atfork(prepare, parent, child);
	pid = fork();
	if (!pid)
		_exit(in_child == 1 && !in_parent ? 0 : 1);
	check_eq("fork_child", 0, status_of(pid));
	check_eq("fork_parent", 11, prepared * 10 + in_parent);
	pid = _Fork();
	if (!pid)
		_exit(in_child);
	check_eq("_Fork_child", 0, status_of(pid));
	check_eq("_Fork_parent", 11, prepared * 10 + in_parent);
}

/* The shell of a command substitution is started inside libc. */
static void wordexp_command(void)
{
	wordexp_t w;

	check_eq("wordexp", 0, wordexp("$(echo a b)", &w, 0));
	check_eq("words", 2, w.we_wordc);
	check_left("left", 0);
}

static void errno_is_kept(void)
{
	pid_t pid;

	errno = 4711;
	pid = fork();
	if (!pid)
		_exit(errno == 4711 ? 0 : 1);
	check_eq("fork_parent", 4711, errno);
	check_eq("fork_child", 0, status_of(pid));
	check_eq("wait", 4711, errno);
}

static const struct test_case test[] = {
	{ "system_statuses", system_statuses },
	{ "system_signals", system_signals },
	{ "system_refused", system_refused },
	{ "popen_directions", popen_directions },
	{ "popen_modes", popen_modes },
	{ "popen_closes_earlier_streams", popen_closes_earlier_streams },
	{ "popen_and_fclose", popen_and_fclose },
	{ "daemon_is_a_session_of_its_own", daemon_is_a_session_of_its_own },
	{ "daemon_keeps_what_it_is_told_to", daemon_keeps_what_it_is_told_to },
	{ "daemon_refused", daemon_refused },
	{ "forkpty_arguments", forkpty_arguments },
	{ "vfork_shares_memory", vfork_shares_memory },
	{ "vfork_child_is_not_its_parent", vfork_child_is_not_its_parent },
	{ "clone_vfork_waits", clone_vfork_waits },
	{ "clone_thread_counts", clone_thread_counts },
	{ "clone_wrong_arguments", clone_wrong_arguments },
	{ "clone3_wrong_arguments", clone3_wrong_arguments },
	{ "clone3_unreadable_arguments", clone3_unreadable_arguments },
	{ "clone3_pidfd", clone3_pidfd },
	{ "syscall_vfork", syscall_vfork },
	{ "syscall_vfork_refused", syscall_vfork_refused },
	{ "spawn_missing_program", spawn_missing_program },
	{ "spawn_arguments", spawn_arguments },
	{ "signal_masks", signal_masks },
	{ "fork_in_a_handler", fork_in_a_handler },
	{ "atfork_handlers", atfork_handlers },
	{ "wordexp_command", wordexp_command },
	{ "errno_is_kept", errno_is_kept },
};

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--spawned"))
		return spawned(argv);
	if (argc > 1 && !strcmp(argv[1], "--mask"))
		return !hup_blocked();
	all = nproc_limit() - 1;
	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
