/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When a task stops counting: reaped, released at once, orphaned, killed, joined. */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>

#include "tests/preload/children.h"

/* Every case is alone in its account; all but the caller's own unit is free at the start. */
static int all;

#define check_left(name, gone) check_eq(name, all - (gone), forks_left())
/* For what the kernel does a moment later: the end of a thread, an orphan reaped by init. */
#define check_left_soon(name, gone)                                                                \
	({                                                                                         \
		int left_;                                                                         \
		until((left_ = forks_left()) == all - (gone));                                     \
		check_eq(name, all - (gone), left_);                                               \
	})

/* --- zombies and the calls that reap them --- */

static pid_t wait_any(int *status)
{
	return wait(status);
}

static pid_t wait_three(int *status)
{
	struct rusage usage;

	return wait3(status, 0, &usage);
}

static pid_t wait_four(int *status)
{
	struct rusage usage;

	return wait4(-1, status, 0, &usage);
}

static pid_t wait_group(int *status)
{
	return waitpid(0, status, WNOHANG | WUNTRACED);
}

static pid_t wait_id(int *status)
{
	siginfo_t info = { 0 };

	if (waitid(P_ALL, 0, &info, WEXITED))
		return -1;
	*status = info.si_status << 8;
	return info.si_pid;
}

static pid_t wait_number(int *status)
{
	return syscall(SYS_wait4, -1, status, 0, NULL);
}

static pid_t wait_id_number(int *status)
{
	siginfo_t info = { 0 };

	if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED, NULL))
		return -1;
	*status = info.si_status << 8;
	return info.si_pid;
}

static void reaped_by(pid_t (*call)(int *status))
{
	pid_t pid = zombie_child();
	int status = -1;

	check_left("zombie_counts", 1);
	check_eq("pid", pid, call(&status));
	check_eq("status", 7 << 8, status);
	check_left("reaped", 0);
}

#define REAPED_BY(name, call)                                                                      \
	static void name(void)                                                                     \
	{                                                                                          \
		reaped_by(call);                                                                   \
	}
REAPED_BY(reaped_by_wait, wait_any)
REAPED_BY(reaped_by_wait3, wait_three)
REAPED_BY(reaped_by_wait4, wait_four)
REAPED_BY(reaped_by_waitpid, wait_group)
REAPED_BY(reaped_by_waitid, wait_id)
REAPED_BY(reaped_by_number, wait_number)
REAPED_BY(reaped_by_waitid_number, wait_id_number)

static void reaped_without_status(void)
{
	pid_t pid = zombie_child();

	check_eq("waitpid", pid, waitpid(pid, NULL, 0));
	check_left("waitpid_left", 0);
	zombie_child();
	check_eq("waitid", 0, waitid(P_ALL, 0, NULL, WEXITED));
	check_left("waitid_left", 0);
	pid = zombie_child();
	check_eq("wait4", pid, wait4(-1, NULL, 0, NULL));
	check_left("wait4_left", 0);
}

static void wnowait_releases_nothing(void)
{
	siginfo_t info = { 0 };
	pid_t pid = zombie_child();

	for (int i = 0; i < 3; i++) {
		check_err("waitid", 0, err_of(waitid(P_PID, pid, &info, WEXITED | WNOWAIT)));
		check_eq("pid", pid, info.si_pid);
		check_left("left", 1);
	}
	waitpid(pid, NULL, 0);
	check_left("reaped", 0);
}

static void running_child_counts(void)
{
	pid_t pid = hold_child();
	int status = 4711;

	check_eq("nobody_ended", 0, waitpid(pid, &status, WNOHANG));
	check_eq("status_untouched", 4711, status);
	check_left("left", 1);
	kill_child(pid);
	check_left("reaped", 0);
}

static void stopped_child_counts(void)
{
	pid_t pid = hold_child();
	siginfo_t info = { 0 };
	int status;

	kill(pid, SIGSTOP);
	check_eq("stopped", pid, waitpid(pid, &status, WUNTRACED));
	check_eq("stopped_status", true, WIFSTOPPED(status));
	check_left("left_stopped", 1);
	kill(pid, SIGCONT);
	check_err("continued", 0, err_of(waitid(P_PID, pid, &info, WCONTINUED)));
	check_left("left_continued", 1);
	kill_child(pid);
	check_left("reaped", 0);
}

static void no_child_is_echild(void)
{
	check_err("wait", ECHILD, err_of(wait(NULL)));
	check_err("waitpid", ECHILD, err_of(waitpid(getppid(), NULL, 0)));
	check_err("waitid", ECHILD, err_of(waitid(P_ALL, 0, NULL, WEXITED)));
	check_err("bad_option", EINVAL, err_of(wait4(-1, NULL, 0x40000, NULL)));
	check_left("left", 0);
}

static void *wait_there(void *pid)
{
	return (void *)(long)waitpid((long)pid, NULL, 0);
}

static void reaped_by_another_thread(void)
{
	long pid = zombie_child();
	pthread_t thread;
	void *ret;

	pthread_create(&thread, NULL, wait_there, (void *)pid);
	pthread_join(thread, &ret);
	check_eq("pid", pid, (long)ret);
	check_left_soon("left", 0);
}

static volatile sig_atomic_t reaped_in_handler;

static void reap_all(int sig)
{
	int saved = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		reaped_in_handler++;
	errno = saved;
}

static void reaped_in_a_handler(void)
{
	signal(SIGCHLD, reap_all);
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (!verdict(pid > 0, "fork", "number %d: %s", i, strerror(errno)))
			break;
		until(reaped_in_handler > i);
	}
	check_eq("reaped", 50, reaped_in_handler);
	signal(SIGCHLD, SIG_DFL);
	check_left("left", 0);
}

/* A system call that nobody sees: the count is put right before a refusal. */
static void reaped_behind_our_back(void)
{
	pid_t pid = zombie_child();
	long ret;

	__asm__ volatile("xor %%r10d, %%r10d; syscall"
			 : "=a"(ret)
			 : "a"(SYS_wait4), "D"(-1), "S"(NULL), "d"(0)
			 : "rcx", "r10", "r11", "memory");
	check_eq("pid", pid, ret);
	check_left("left", 0);
}

/* --- released at once --- */

static void auto_reaped(void)
{
	struct line l = line_open();

	for (int i = 0; i < all; i++)
		if (!fork()) {
			line_say(&l, getpid());
			_exit(0);
		}
	for (int i = 0; i < all; i++) {
		pid_t pid = line_hear(&l);

		verdict(until(kill(pid, 0) && errno == ESRCH), "gone", "child %d stays", pid);
	}
}

static void sigchld_ignored(void)
{
	pid_t pid;

	signal(SIGCHLD, SIG_IGN);
	auto_reaped();
	check_err("no_child_left", ECHILD, err_of(wait(NULL)));
	pid = hold_child();
	verdict(pid > 0, "fork", "%s", strerror(errno));
	kill(pid, SIGKILL);
	check_err("wait_until_gone", ECHILD, err_of(waitpid(pid, NULL, 0)));
	signal(SIGCHLD, SIG_DFL);
	check_left("left", 0);
}

static void no_zombies_asked_for(void)
{
	struct sigaction sa = { .sa_handler = reap_all, .sa_flags = SA_NOCLDWAIT };

	sigaction(SIGCHLD, &sa, NULL);
	auto_reaped();
	signal(SIGCHLD, SIG_DFL);
	check_left("left", 0);
}

/* --- killed --- */

static void sigkilled_child(void)
{
	pid_t pid = hold_child();
	siginfo_t info;

	kill(pid, SIGKILL);
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	check_left("unreaped", 1);
	waitpid(pid, NULL, 0);
	check_left("reaped", 0);
}

static void all_children_sigkilled(void)
{
	pid_t pid[CHILDREN_MAX];
	int n = fill(pid);

	check_eq("filled", all, n);
	for (int i = 0; i < n; i++)
		kill(pid[i], SIGKILL);
	for (int i = 0; i < n; i++)
		check_eq("wait", true, wait(NULL) > 0);
	check_left("left", 0);
}

/* --- orphans --- */

/* A child that ends at once and leaves a grandchild, whose pid it says. */
static pid_t orphan(void (*life)(const struct line *l), const struct line *l)
{
	pid_t pid = fork();

	if (!pid) {
		if (!fork()) {
			line_say(l, getpid());
			life(l);
			_exit(0);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return line_hear(l);
}

static void lives_on(const struct line *l)
{
	(void)l;
	for (;;)
		pause();
}

static void ends_when_told(const struct line *l)
{
	char byte;

	if (read(l->fd[0], &byte, 1) == 1)
		_exit(0);
}

static void orphan_counts_until_it_ends(void)
{
	struct line l = line_open(), end = line_open();
	pid_t pid = fork(), orphaned;

	if (!pid) {
		if (!fork()) {
			line_say(&l, getpid());
			ends_when_told(&end);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	orphaned = line_hear(&l);
	check_left("lives", 1);
	line_say(&end, 0);
	verdict(until(kill(orphaned, 0) && errno == ESRCH), "reaped_by_init", "%d stays", orphaned);
	check_left_soon("ended", 0);
}

static void orphan_killed(void)
{
	struct line l = line_open();
	pid_t pid = orphan(lives_on, &l);

	check_left("lives", 1);
	kill(pid, SIGKILL);
	check_left_soon("killed", 0);
}

static void orphaned_zombie(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		zombie_child();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	check_left_soon("left", 0);
}

static void orphan_says_parent_is_not_us(void)
{
	struct line l = line_open(), parent = line_open();
	pid_t pid = fork();

	if (!pid) {
		if (!fork()) {
			line_say(&l, getpid());
			until(getppid() == 1);
			line_say(&parent, getppid());
			_exit(0);
		}
		line_hear(&l);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	check_eq("getppid", 1, line_hear(&parent));
}

/* --- threads --- */

static struct line thread_says;

static void *thread_returns(void *arg)
{
	return arg;
}

static void *thread_exits(void *arg)
{
	pthread_exit(arg);
}

static void *thread_holds(void *arg)
{
	line_say(&thread_says, gettid());
	for (;;)
		pause();
	return arg;
}

static pthread_t holding_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_holds, NULL))
		die("pthread_create");
	line_hear(&thread_says);
	return thread;
}

static void threads_joined(void *(*start)(void *))
{
	pthread_t thread;
	int err = 0;

	for (int i = 0; i < 20 && !err; i++) {
		until((err = pthread_create(&thread, NULL, start, NULL)) != EAGAIN);
		if (!err)
			pthread_join(thread, NULL);
	}
	check_err("pthread_create", 0, err);
	check_left_soon("left", 0);
}

static void thread_joined(void)
{
	threads_joined(thread_returns);
}

static void thread_pthread_exit(void)
{
	threads_joined(thread_exits);
}

static void thread_cancelled(void)
{
	pthread_t thread = holding_thread();
	void *ret;

	check_left("lives", 1);
	pthread_cancel(thread);
	pthread_join(thread, &ret);
	check_eq("cancelled", true, ret == PTHREAD_CANCELED);
	check_left_soon("left", 0);
}

static void thread_detached(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 20; i++) {
		int err;

		until((err = pthread_create(&thread, &attr, thread_returns, NULL)) != EAGAIN);
		if (err) {
			check_err("pthread_create", 0, err);
			break;
		}
	}
	check_left_soon("left", 0);
}

/* The destructor of a value of the program may itself start a thread. */
static pthread_key_t key;
static pthread_t made_by_destructor;

static void destructor(void *arg)
{
	if (pthread_create(&made_by_destructor, NULL, thread_returns, arg))
		line_say(&thread_says, -1);
	else
		line_say(&thread_says, 1);
}

static void *sets_value(void *arg)
{
	pthread_setspecific(key, &key);
	return arg;
}

static void thread_made_in_destructor(void)
{
	pthread_t thread;

	pthread_key_create(&key, destructor);
	pthread_create(&thread, NULL, sets_value, NULL);
	check_eq("made", 1, line_hear(&thread_says));
	pthread_join(thread, NULL);
	pthread_join(made_by_destructor, NULL);
	check_left_soon("left", 0);
}

static void threads_of_a_zombie_are_released(void)
{
	pid_t pid = fork();
	siginfo_t info;

	if (!pid) {
		holding_thread();
		holding_thread();
		_exit(0);
	}
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	check_left_soon("zombie", 1);
	waitpid(pid, NULL, 0);
	check_left("reaped", 0);
}

static void threads_of_a_killed_process(void)
{
	struct line l = line_open();
	pid_t pid = fork();

	if (!pid) {
		holding_thread();
		holding_thread();
		line_say(&l, 1);
		lives_on(&l);
	}
	line_hear(&l);
	check_left("alive", 3);
	kill_child(pid);
	check_left_soon("killed", 0);
}

static void leader_gone_counts(void)
{
	struct line l = line_open();
	pid_t pid = fork();

	if (!pid) {
		holding_thread();
		line_say(&l, 1);
		pthread_exit(NULL);
	}
	line_hear(&l);
	pause_ms(50);
	check_left("thread_goes_on", 2);
	kill_child(pid);
	check_left_soon("killed", 0);
}

static void fork_of_a_threaded_process(void)
{
	struct line l = line_open();
	pid_t pid;

	holding_thread();
	pid = fork();
	if (!pid) {
		line_say(&l, forks_left());
		_exit(0);
	}
	check_eq("left_in_child", all - 2, line_hear(&l));
	waitpid(pid, NULL, 0);
	check_left("left", 1);
}

/* --- cancelled, without descriptors, at the end --- */

static void *waits_for_ever(void *pid)
{
	waitpid((long)pid, NULL, 0);
	return NULL;
}

static void cancelled_wait(void)
{
	long pid = hold_child();
	pthread_t thread;
	void *ret;

	pthread_create(&thread, NULL, waits_for_ever, (void *)pid);
	pause_ms(50);
	pthread_cancel(thread);
	pthread_join(thread, &ret);
	check_eq("cancelled", true, ret == PTHREAD_CANCELED);
	check_left_soon("child_counts", 1);
	kill_child(pid);
	check_left("reaped", 0);
}

static void *system_for_ever(void *command)
{
	system(command);
	return command;
}

/* The shell is killed and reaped, and the signals are as they were. */
static void cancelled_system(void)
{
	struct sigaction sa;
	char command[64], c;
	pthread_t thread;
	int begun[2];
	void *ret;

	/* To count the forks that are left takes them all: not while the shell is being made. */
	if (pipe(begun))
		die("pipe");
	snprintf(command, sizeof(command), "echo >&%d; exec sleep 60", begun[1]);
	pthread_create(&thread, NULL, system_for_ever, command);
	if (read(begun[0], &c, 1) != 1)
		die("read");
	until(forks_left() == all - 2);
	pause_ms(50);
	pthread_cancel(thread);
	pthread_join(thread, &ret);
	check_eq("cancelled", true, ret == PTHREAD_CANCELED);
	sigaction(SIGINT, NULL, &sa);
	check_eq("interrupt", true, sa.sa_handler == SIG_DFL);
	check_left_soon("left", 0);
	check_err("no_child", ECHILD, err_of(wait(NULL)));
}

static void with_no_descriptor_left(void)
{
	pid_t pid = zombie_child();
	int n = dup(0);

	close(n);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ n, n });
	check_left("zombie", 1);
	waitpid(pid, NULL, 0);
	check_left("reaped", 0);
	pid = hold_child();
	kill(pid, SIGKILL);
	until(waitpid(pid, NULL, WNOHANG));
	check_left("left", 0);
}

static struct line at_exit_says;

static void fork_at_exit(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	line_say(&at_exit_says, pid > 0 && waitpid(pid, NULL, 0) == pid);
	line_say(&at_exit_says, forks_left());
}

static void forks_at_the_end(void)
{
	pid_t pid;

	at_exit_says = line_open();
	pid = fork();
	if (!pid) {
		atexit(fork_at_exit);
		exit(0);
	}
	check_eq("fork", 1, line_hear(&at_exit_says));
	check_eq("left_there", all - 1, line_hear(&at_exit_says));
	waitpid(pid, NULL, 0);
	check_left("left", 0);
}

/* --- refusals and repetitions --- */

static void *never(void *arg)
{
	verdict(false, "refused_thread", "it runs");
	return arg;
}

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Of its own, because parent and child share what is live across it. */
__attribute__((noinline)) static bool vfork_refused(void)
{
	pid_t pid = vfork();

	if (!pid)
		_exit(1);
	return pid < 0 && errno == EAGAIN;
}

static void refused_forks_leak_nothing(void)
{
	char *argv[] = { "true", NULL };
	pid_t pid[CHILDREN_MAX], other;
	int n = fill(pid), wrong = 0, files = open_files();
	pthread_t thread;

	check_eq("filled", all, n);
	for (int i = 0; i < 200; i++) {
		wrong += fork() != -1 || errno != EAGAIN;
		wrong += _Fork() != -1 || errno != EAGAIN;
		wrong += !vfork_refused();
		wrong += syscall(SYS_fork) != -1 || errno != EAGAIN;
		wrong += pthread_create(&thread, NULL, never, NULL) != EAGAIN;
		wrong += posix_spawn(&other, "/bin/true", NULL, NULL, argv, environ) != EAGAIN;
		wrong += system("exit 0") == 0 || errno != EAGAIN;
		wrong += popen("exit 0", "r") != NULL;
	}
	check_eq("refusals", 0, wrong);
	check_eq("descriptors", files, open_files());
	drain(pid, n);
	check_left("left", 0);
}

static void freed_unit_is_one(void)
{
	pid_t pid[CHILDREN_MAX], one;
	int n = fill(pid);

	kill_child(pid[--n]);
	one = hold_child();
	verdict(one > 0, "one_more", "%s", strerror(errno));
	check_err("not_two", EAGAIN, err_of(hold_child()));
	kill_child(one);
	drain(pid, n);
}

static void sequence_at_the_limit(void)
{
	struct rlimit two = { 2, 2 };
	int done = 0;

	if (setrlimit(RLIMIT_NPROC, &two))
		die("setrlimit");
	while (done < 300) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			break;
		done++;
	}
	check_eq("forks", 300, done);
}

/* With limit L there can be L tasks: the first is the caller. */
static void exactly_the_limit(void)
{
	struct rlimit r = { 0, 5 };

	if (all < 4)
		die("limit");
	for (r.rlim_cur = 0; r.rlim_cur < 5; r.rlim_cur++) {
		int want = r.rlim_cur > 1 ? r.rlim_cur - 1 : 0;

		setrlimit(RLIMIT_NPROC, &r);
		check_eq("forks", want, forks_left());
	}
}

static const struct test_case test[] = {
	{ "reaped_by_wait", reaped_by_wait },
	{ "reaped_by_wait3", reaped_by_wait3 },
	{ "reaped_by_wait4", reaped_by_wait4 },
	{ "reaped_by_waitpid", reaped_by_waitpid },
	{ "reaped_by_waitid", reaped_by_waitid },
	{ "reaped_by_number", reaped_by_number },
	{ "reaped_by_waitid_number", reaped_by_waitid_number },
	{ "reaped_without_status", reaped_without_status },
	{ "wnowait_releases_nothing", wnowait_releases_nothing },
	{ "running_child_counts", running_child_counts },
	{ "stopped_child_counts", stopped_child_counts },
	{ "no_child_is_echild", no_child_is_echild },
	{ "reaped_by_another_thread", reaped_by_another_thread },
	{ "reaped_in_a_handler", reaped_in_a_handler },
	{ "reaped_behind_our_back", reaped_behind_our_back },
	{ "sigchld_ignored", sigchld_ignored },
	{ "no_zombies_asked_for", no_zombies_asked_for },
	{ "sigkilled_child", sigkilled_child },
	{ "all_children_sigkilled", all_children_sigkilled },
	{ "orphan_counts_until_it_ends", orphan_counts_until_it_ends },
	{ "orphan_killed", orphan_killed },
	{ "orphaned_zombie", orphaned_zombie },
	{ "thread_joined", thread_joined },
	{ "thread_pthread_exit", thread_pthread_exit },
	{ "thread_cancelled", thread_cancelled },
	{ "thread_detached", thread_detached },
	{ "thread_made_in_destructor", thread_made_in_destructor },
	{ "threads_of_a_zombie_are_released", threads_of_a_zombie_are_released },
	{ "threads_of_a_killed_process", threads_of_a_killed_process },
	{ "leader_gone_counts", leader_gone_counts },
	{ "fork_of_a_threaded_process", fork_of_a_threaded_process },
	{ "cancelled_wait", cancelled_wait },
	{ "cancelled_system", cancelled_system },
	{ "with_no_descriptor_left", with_no_descriptor_left },
	{ "forks_at_the_end", forks_at_the_end },
	{ "refused_forks_leak_nothing", refused_forks_leak_nothing },
	{ "freed_unit_is_one", freed_unit_is_one },
	{ "sequence_at_the_limit", sequence_at_the_limit },
	{ "exactly_the_limit", exactly_the_limit },
	/* Only in a world: elsewhere a subreaper may have another number. */
	{ "orphan_says_parent_is_not_us", orphan_says_parent_is_not_us },
};

int main(int argc, char **argv)
{
	thread_says = line_open();
	all = nproc_limit() - 1;
	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
