/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Started as uid 0: who is exempt from the process limit, and what a change of uid moves. */
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "tests/preload/children.h"

#define A 61235u
#define B 61236u
#define MORE_THAN_LIMIT 10

static int limit;

/* left_as - how many forks a task of @uid has left, its own unit taken. */
static int left_as(uid_t uid)
{
	struct line l = line_open();
	pid_t pid = fork();
	int left;

	if (!pid) {
		if (setresuid(uid, uid, uid))
			_exit(1);
		line_say(&l, forks_left());
		_exit(0);
	}
	left = line_hear(&l);
	waitpid(pid, NULL, 0);
	close(l.fd[0]);
	close(l.fd[1]);
	return left;
}

static int forks_of_exempt(void)
{
	pid_t pid[MORE_THAN_LIMIT];
	int n = 0;

	while (n < MORE_THAN_LIMIT && (pid[n] = hold_child()) > 0)
		n++;
	drain(pid, n);
	return n;
}

static void root_is_exempt(void)
{
	check_eq("forks", MORE_THAN_LIMIT, forks_of_exempt());
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };

	return syscall(SYS_capset, &h, none);
}

static void root_without_capabilities_is_exempt(void)
{
	check_eq("capset", 0, drop_capabilities());
	check_eq("forks", MORE_THAN_LIMIT, forks_of_exempt());
}

static void effective_uid_alone_is_exempt(void)
{
	check_eq("seteuid", 0, seteuid(A));
	check_eq("forks", MORE_THAN_LIMIT, forks_of_exempt());
	check_eq("back", 0, seteuid(0));
	check_eq("nothing_moved", limit - 1, left_as(A));
}

/* --- each call moves the unit of its caller --- */

static int by_setuid(void)
{
	return setuid(A);
}

static int by_setreuid(void)
{
	return setreuid(A, A);
}

static int by_setresuid(void)
{
	return setresuid(A, A, A);
}

static int by_number_setuid(void)
{
	return syscall(SYS_setuid, A);
}

static int by_number_setreuid(void)
{
	return syscall(SYS_setreuid, A, A);
}

static int by_number_setresuid(void)
{
	return syscall(SYS_setresuid, A, A, A);
}

static void moves(const char *name, int (*call)(void))
{
	struct line l = line_open(), end = line_open();
	pid_t pid = fork();

	if (!pid) {
		line_say(&l, call());
		line_say(&l, forks_left());
		line_hear(&end);
		_exit(0);
	}
	check_eq(name, 0, line_hear(&l));
	check_eq("left_in_mover", limit - 1, line_hear(&l));
	check_eq("left_beside_mover", limit - 2, left_as(A));
	line_say(&end, 0);
	waitpid(pid, NULL, 0);
	check_eq("left_after_mover", limit - 1, left_as(A));
}

static void every_call_moves(void)
{
	moves("setuid", by_setuid);
	moves("setreuid", by_setreuid);
	moves("setresuid", by_setresuid);
	moves("number_setuid", by_number_setuid);
	moves("number_setreuid", by_number_setreuid);
	moves("number_setresuid", by_number_setresuid);
}

/* The caller's capabilities exempt as well, but its children count where its real uid is. */
static void real_uid_alone_counts(void)
{
	struct line l = line_open(), end = line_open();
	pid_t pid = fork();

	if (!pid) {
		pid_t held[CHILDREN_MAX];
		int n = 0;

		line_say(&l, setresuid(A, 0, 0));
		while (n < limit + 1 && (held[n] = hold_child()) > 0)
			n++;
		line_say(&l, n);
		line_hear(&end);
		drain(held, n);
		line_say(&l, setresuid(0, 0, 0));
		line_hear(&end);
		_exit(0);
	}
	check_eq("setresuid", 0, line_hear(&l));
	check_eq("forks", limit + 1, line_hear(&l));
	check_eq("over_the_limit", 0, left_as(A));
	line_say(&end, 0);
	check_eq("back", 0, line_hear(&l));
	check_eq("moved_back", limit - 1, left_as(A));
	line_say(&end, 0);
	waitpid(pid, NULL, 0);
}

static void setuid_at_the_limit_succeeds(void)
{
	struct line l = line_open();
	pid_t pid[CHILDREN_MAX], last;

	for (int i = 0; i < limit; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			line_say(&l, setuid(A));
			for (;;)
				pause();
		}
		check_eq("setuid", 0, line_hear(&l));
	}
	last = fork();
	if (!last) {
		line_say(&l, setuid(A));
		line_say(&l, fork() == -1 ? errno : 0);
		_exit(0);
	}
	check_eq("one_too_many", 0, line_hear(&l));
	check_err("its_fork", EAGAIN, line_hear(&l));
	waitpid(last, NULL, 0);
	drain(pid, limit);
	check_eq("left", limit - 1, left_as(A));
}

static void zombie_counts_where_it_was(void)
{
	pid_t pid = fork();
	siginfo_t info;

	if (!pid)
		_exit(setuid(A));
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	check_eq("zombie", limit - 2, left_as(A));
	waitpid(pid, NULL, 0);
	check_eq("reaped", limit - 1, left_as(A));
}

/* --- threads --- */

static struct line says;

static void *hold_thread(void *arg)
{
	line_say(&says, gettid());
	for (;;)
		pause();
	return arg;
}

static void *raw_setresuid(void *arg)
{
	line_say(&says, syscall(SYS_setresuid, A, A, A));
	line_say(&says, getuid());
	for (;;)
		pause();
	return arg;
}

static void start_thread(void *(*start)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, start, NULL))
		die("pthread_create");
}

static void threads_move_together(void)
{
	struct line l = line_open();
	pid_t pid = fork();

	if (!pid) {
		for (int i = 0; i < 2; i++) {
			start_thread(hold_thread);
			line_hear(&says);
		}
		line_say(&l, setuid(A));
		for (;;)
			pause();
	}
	check_eq("setuid", 0, line_hear(&l));
	check_eq("three_moved", limit - 4, left_as(A));
	kill_child(pid);
	check_eq("left", true, until(left_as(A) == limit - 1));
}

static void by_number_one_thread_moves(void)
{
	struct line l = line_open();
	pid_t pid = fork();

	if (!pid) {
		start_thread(raw_setresuid);
		line_say(&l, line_hear(&says));
		line_say(&l, line_hear(&says));
		line_say(&l, getuid());
		for (;;)
			pause();
	}
	check_eq("setresuid", 0, line_hear(&l));
	check_eq("uid_of_thread", A, line_hear(&l));
	check_eq("uid_of_leader", 0, line_hear(&l));
	check_eq("one_moved", limit - 2, left_as(A));
	kill_child(pid);
	check_eq("left", true, until(left_as(A) == limit - 1));
}

static void two_uids_count_apart(void)
{
	struct line l = line_open();
	pid_t pid = fork();

	if (!pid) {
		pid_t held[CHILDREN_MAX];
		int n;

		line_say(&l, setuid(B));
		n = fill(held);
		line_say(&l, n);
		line_hear(&says);
		drain(held, n);
		_exit(0);
	}
	check_eq("setuid", 0, line_hear(&l));
	check_eq("filled", limit - 1, line_hear(&l));
	check_eq("other_uid", limit - 1, left_as(A));
	check_eq("same_uid", 0, left_as(B));
	line_say(&says, 0);
	waitpid(pid, NULL, 0);
	check_eq("left", limit - 1, left_as(B));
}

static const struct test_case test[] = {
	{ "root_is_exempt", root_is_exempt },
	{ "root_without_capabilities_is_exempt", root_without_capabilities_is_exempt },
	{ "effective_uid_alone_is_exempt", effective_uid_alone_is_exempt },
	{ "every_call_moves", every_call_moves },
	{ "real_uid_alone_counts", real_uid_alone_counts },
	{ "setuid_at_the_limit_succeeds", setuid_at_the_limit_succeeds },
	{ "zombie_counts_where_it_was", zombie_counts_where_it_was },
	{ "threads_move_together", threads_move_together },
	{ "by_number_one_thread_moves", by_number_one_thread_moves },
	{ "two_uids_count_apart", two_uids_count_apart },
};

int main(int argc, char **argv)
{
	says = line_open();
	limit = nproc_limit();
	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
