/* SPDX-License-Identifier: GPL-2.0-or-later */
/* getrlimit, setrlimit, prlimit: values, rules, inheritance, and the names and numbers of the calls. */
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "tests/preload/children.h"

/* Started with these, by a user without capabilities. */
static const struct limit {
	const char *name;
	int resource;
	rlim_t soft, hard;
} limits[] = {
	{ "nproc", RLIMIT_NPROC, 20, 30 },
	{ "memlock", RLIMIT_MEMLOCK, 65536, 131072 },
	{ "sigpending", RLIMIT_SIGPENDING, 33, 44 },
	{ "msgqueue", RLIMIT_MSGQUEUE, 5000, 6000 },
};
#define for_each_limit(l) for (const struct limit *l = limits; l < limits + 4; l++)

static char *self;

static bool is_now(int resource, rlim_t soft, rlim_t hard)
{
	struct rlimit r;

	return !getrlimit(resource, &r) && r.rlim_cur == soft && r.rlim_max == hard;
}

#define check_now(l, soft, hard) verdict(is_now((l)->resource, soft, hard), (l)->name, "changed")

/* --- every way to ask and to set --- */

static int get_function(int resource, struct rlimit *r)
{
	return getrlimit(resource, r);
}

static int get_function64(int resource, struct rlimit *r)
{
	return getrlimit64(resource, (struct rlimit64 *)r);
}

static int get_prlimit(int resource, struct rlimit *r)
{
	return prlimit(0, resource, NULL, r);
}

static int get_prlimit64(int resource, struct rlimit *r)
{
	return prlimit64(0, resource, NULL, (struct rlimit64 *)r);
}

static int get_own_pid(int resource, struct rlimit *r)
{
	return prlimit(getpid(), resource, NULL, r);
}

static int get_number(int resource, struct rlimit *r)
{
	return syscall(SYS_getrlimit, resource, r);
}

static int get_prlimit_number(int resource, struct rlimit *r)
{
	return syscall(SYS_prlimit64, 0, resource, NULL, r);
}

static int (*const getters[])(int resource, struct rlimit *r) = {
	get_function, get_function64,	get_prlimit,	    get_prlimit64,
	get_own_pid,  get_number, get_prlimit_number,
};

static int set_function(int resource, const struct rlimit *r)
{
	return setrlimit(resource, r);
}

static int set_function64(int resource, const struct rlimit *r)
{
	return setrlimit64(resource, (const struct rlimit64 *)r);
}

static int set_prlimit(int resource, const struct rlimit *r)
{
	return prlimit(0, resource, r, NULL);
}

static int set_own_pid(int resource, const struct rlimit *r)
{
	return prlimit(getpid(), resource, r, NULL);
}

static int set_number(int resource, const struct rlimit *r)
{
	return syscall(SYS_setrlimit, resource, r);
}

static int set_prlimit_number(int resource, const struct rlimit *r)
{
	return syscall(SYS_prlimit64, 0, resource, r, NULL);
}

static int (*const setters[])(int resource, const struct rlimit *r) = {
	set_function, set_function64, set_prlimit, set_own_pid, set_number, set_prlimit_number,
};

#define for_each_getter(get) for (size_t get = 0; get < sizeof(getters) / sizeof(*getters); get++)
#define for_each_setter(set) for (size_t set = 0; set < sizeof(setters) / sizeof(*setters); set++)

static void every_getter_agrees(void)
{
	for_each_limit(l)
		for_each_getter(get) {
			struct rlimit r = { 0 };

			check_err(l->name, 0, err_of(getters[get](l->resource, &r)));
			check_eq(l->name, l->soft, r.rlim_cur);
			check_eq(l->name, l->hard, r.rlim_max);
		}
}

static void every_setter_sets(void)
{
	for_each_limit(l)
		for_each_setter(set) {
			struct rlimit r = { l->soft - set, l->hard - set };

			check_err(l->name, 0, err_of(setters[set](l->resource, &r)));
			check_now(l, l->soft - set, l->hard - set);
		}
}

static void soft_above_hard_is_einval(void)
{
	for_each_limit(l)
		for_each_setter(set) {
			struct rlimit above = { l->hard + 1, l->hard };
			struct rlimit infinite = { RLIM_INFINITY, l->hard };

			check_err(l->name, EINVAL, err_of(setters[set](l->resource, &above)));
			check_err(l->name, EINVAL, err_of(setters[set](l->resource, &infinite)));
			check_now(l, l->soft, l->hard);
		}
}

static void raising_hard_is_eperm(void)
{
	for_each_limit(l)
		for_each_setter(set) {
			struct rlimit more = { l->soft, l->hard + 1 };
			struct rlimit infinite = { l->soft, RLIM_INFINITY };

			check_err(l->name, EPERM, err_of(setters[set](l->resource, &more)));
			check_err(l->name, EPERM, err_of(setters[set](l->resource, &infinite)));
			check_now(l, l->soft, l->hard);
		}
}

static void lowering_hard_is_for_good(void)
{
	for_each_limit(l) {
		struct rlimit raised = { l->hard, l->hard }, low = { 1, 2 }, zero = { 0, 0 };

		check_err(l->name, 0, err_of(setrlimit(l->resource, &raised)));
		check_now(l, l->hard, l->hard);
		check_err(l->name, 0, err_of(setrlimit(l->resource, &low)));
		check_now(l, 1, 2);
		check_err(l->name, EPERM, err_of(setrlimit(l->resource, &raised)));
		check_now(l, 1, 2);
		check_err(l->name, 0, err_of(setrlimit(l->resource, &zero)));
		check_now(l, 0, 0);
	}
}

static void prlimit_gets_what_was(void)
{
	for_each_limit(l) {
		struct rlimit new = { l->soft - 1, l->hard - 1 }, old = { 0 };

		check_err(l->name, 0, err_of(prlimit(0, l->resource, &new, &old)));
		check_eq(l->name, l->soft, old.rlim_cur);
		check_eq(l->name, l->hard, old.rlim_max);
		check_now(l, l->soft - 1, l->hard - 1);
		check_err(l->name, 0, err_of(prlimit(0, l->resource, NULL, NULL)));
		check_now(l, l->soft - 1, l->hard - 1);
	}
}

static void no_such_limit_is_einval(void)
{
	static const int bad[] = { RLIM_NLIMITS, 99, -1 };

	for (int i = 0; i < 3; i++) {
		struct rlimit r = { 0 };

		for_each_getter(get)
			check_err("get", EINVAL, err_of(getters[get](bad[i], &r)));
		for_each_setter(set)
			check_err("set", EINVAL, err_of(setters[set](bad[i], &r)));
	}
}

static void unreadable_memory_is_efault(void)
{
	struct rlimit *volatile bad = (struct rlimit *)8;

	for_each_limit(l) {
		for_each_getter(get)
			check_err(l->name, EFAULT, err_of(getters[get](l->resource, bad)));
		for_each_setter(set)
			check_err(l->name, EFAULT, err_of(setters[set](l->resource, bad)));
		check_now(l, l->soft, l->hard);
	}
}

static void null_memory(void)
{
	struct rlimit *volatile null = NULL;

	for_each_limit(l) {
		check_err(l->name, EFAULT, err_of(syscall(SYS_getrlimit, l->resource, null)));
		check_err(l->name, EFAULT, err_of(syscall(SYS_setrlimit, l->resource, null)));
	}
}

/* --- whose they are --- */

static int status_of(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void child_inherits_and_has_its_own(void)
{
	for_each_limit(l) {
		struct rlimit changed = { l->soft - 1, l->hard - 1 }, low = { 3, 3 };
		pid_t pid;

		setrlimit(l->resource, &changed);
		pid = fork();
		if (!pid)
			_exit(!is_now(l->resource, l->soft - 1, l->hard - 1) ||
			      setrlimit(l->resource, &low) || !is_now(l->resource, 3, 3));
		check_eq(l->name, 0, status_of(pid));
		check_now(l, l->soft - 1, l->hard - 1);
	}
}

static int show(void)
{
	for_each_limit(l)
		if (!is_now(l->resource, l->soft - 2, l->hard - 2))
			return 1;
	return 42;
}

static void program_started_keeps_them(void)
{
	pid_t pid;

	for_each_limit(l) {
		struct rlimit changed = { l->soft - 2, l->hard - 2 };

		setrlimit(l->resource, &changed);
	}
	pid = fork();
	if (!pid) {
		char *const none[] = { NULL };

		execle(self, self, "--show", NULL, none);
		_exit(1);
	}
	check_eq("exec", 42, status_of(pid));
}

static struct line to_thread, from_thread;

static void *other_thread(void *arg)
{
	(void)arg;
	for_each_limit(l) {
		struct rlimit mine = { 7, 8 };

		line_hear(&to_thread);
		line_say(&from_thread, is_now(l->resource, 9, 10));
		line_say(&from_thread, setrlimit(l->resource, &mine));
	}
	return NULL;
}

static void threads_share_them(void)
{
	pthread_t thread;

	to_thread = line_open();
	from_thread = line_open();
	pthread_create(&thread, NULL, other_thread, NULL);
	for_each_limit(l) {
		struct rlimit r = { 9, 10 };

		setrlimit(l->resource, &r);
		line_say(&to_thread, 0);
		check_eq(l->name, 1, line_hear(&from_thread));
		check_eq(l->name, 0, line_hear(&from_thread));
		check_now(l, 7, 8);
	}
	pthread_join(thread, NULL);
}

static void another_process(void)
{
	pid_t pid = hold_child(), parent = getpid();

	for_each_limit(l) {
		struct rlimit r = { 0 }, low = { 4, 5 };

		check_err(l->name, 0, err_of(prlimit(pid, l->resource, &low, &r)));
		check_eq(l->name, l->soft, r.rlim_cur);
		check_err(l->name, 0, err_of(prlimit(pid, l->resource, NULL, &r)));
		check_eq(l->name, 4, r.rlim_cur);
		check_eq(l->name, 5, r.rlim_max);
		check_err(l->name, EPERM,
			  err_of(prlimit(pid, l->resource, &(struct rlimit){ 6, 6 }, NULL)));
		check_err(l->name, EINVAL,
			  err_of(prlimit(pid, l->resource, &(struct rlimit){ 5, 4 }, NULL)));
		check_now(l, l->soft, l->hard);
	}
	kill_child(pid);
	check_err("gone", ESRCH, err_of(prlimit(pid, RLIMIT_NPROC, NULL, &(struct rlimit){ 0 })));
	pid = fork();
	if (!pid)
		_exit(prlimit(parent, RLIMIT_NPROC, &(struct rlimit){ 10, 11 }, NULL) != 0);
	check_eq("child_sets", 0, status_of(pid));
	verdict(is_now(RLIMIT_NPROC, 10, 11), "parent_is_set", "nothing changed");
}

/* A child that has set its own limit is bound by it, not by its parent's. */
static void the_forker_s_limit_binds(void)
{
	pid_t pid = fork();

	if (!pid) {
		setrlimit(RLIMIT_NPROC, &(struct rlimit){ 4, 4 });
		_exit(forks_left());
	}
	check_eq("child_of_low_limit", 2, status_of(pid));
	check_eq("own", 19, forks_left());
}

static void sysconf_knows_two(void)
{
	check_eq("child_max", 20, sysconf(_SC_CHILD_MAX));
	check_eq("sigqueue_max", 33, sysconf(_SC_SIGQUEUE_MAX));
	setrlimit(RLIMIT_NPROC, &(struct rlimit){ 11, 12 });
	setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){ 13, 14 });
	check_eq("child_max_set", 11, sysconf(_SC_CHILD_MAX));
	check_eq("sigqueue_max_set", 13, sysconf(_SC_SIGQUEUE_MAX));
	check_eq("page_size", 4096, sysconf(_SC_PAGESIZE));
}

/* All others are the kernel's: what is set there binds. */
static void other_limits_are_the_kernel_s(void)
{
	struct rlimit r = { 9, 9 }, got;

	check_err("setrlimit", 0, err_of(setrlimit(RLIMIT_NOFILE, &r)));
	check_err("prlimit", 0, err_of(prlimit(getpid(), RLIMIT_NOFILE, NULL, &got)));
	check_eq("soft", 9, got.rlim_cur);
	while (dup(0) >= 0)
		;
	check_err("dup", EMFILE, errno);
	check_eq("sysconf", 9, sysconf(_SC_OPEN_MAX));
}

static const struct test_case test[] = {
	{ "every_getter_agrees", every_getter_agrees },
	{ "every_setter_sets", every_setter_sets },
	{ "soft_above_hard_is_einval", soft_above_hard_is_einval },
	{ "raising_hard_is_eperm", raising_hard_is_eperm },
	{ "lowering_hard_is_for_good", lowering_hard_is_for_good },
	{ "prlimit_gets_what_was", prlimit_gets_what_was },
	{ "no_such_limit_is_einval", no_such_limit_is_einval },
	{ "unreadable_memory_is_efault", unreadable_memory_is_efault },
	{ "null_memory", null_memory },
	{ "child_inherits_and_has_its_own", child_inherits_and_has_its_own },
	{ "program_started_keeps_them", program_started_keeps_them },
	{ "threads_share_them", threads_share_them },
	{ "another_process", another_process },
	{ "the_forker_s_limit_binds", the_forker_s_limit_binds },
	{ "sysconf_knows_two", sysconf_knows_two },
	{ "other_limits_are_the_kernel_s", other_limits_are_the_kernel_s },
};

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--show"))
		return show();
	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
