/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The emulated files under /proc: which paths name them, their text, and its refreshing. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kpemu/mlock.h>
#include <kpemu/proc.h>
#include <kpemu/sched.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>
#include <kpemu/world.h>

#include "tests/unit/unit_world.h"

#define TEXT_MAX 65536

static void enter_world(void)
{
	unit_world();
	world->id = 0x1234;
	current = task_adopt(NULL, getpid(), getpid());
	cr_assert_not_null(current);
}

TestSuite(proc, .init = enter_world, .timeout = 30);

static struct proc_target own(enum proc_file file)
{
	return (struct proc_target){ file, getpid(), getpid() };
}

/* All of @fd from its start; the file position is left alone. */
static const char *text_of(int fd, char *buf)
{
	ssize_t n = 0, more;

	while ((more = pread(fd, buf + n, TEXT_MAX - 1 - n, n)) > 0)
		n += more;
	buf[n] = '\0';
	return buf;
}

static const char *snapshot(const struct proc_target *target, char *buf)
{
	int fd = proc_open(current, target, 0);

	cr_assert_geq(fd, 0, "proc_open: %d", fd);
	text_of(fd, buf);
	close(fd);
	return buf;
}

static const char *real_text(const char *path, char *buf)
{
	int fd = open(path, O_RDONLY);

	cr_assert_geq(fd, 0, "%s", path);
	text_of(fd, buf);
	close(fd);
	return buf;
}

/* The line of @text that starts with @start, without its newline; "" if there is none. */
static const char *line_of(const char *text, const char *start)
{
	static char line[TEXT_MAX];
	const char *p = text;

	while (p && strncmp(p, start, strlen(start))) {
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	snprintf(line, sizeof(line), "%.*s", p ? (int)strcspn(p, "\n") : 0, p ? p : "");
	return line;
}

static int starts_with_any(const char *line, const char *const *start)
{
	for (; *start; start++)
		if (!strncmp(line, *start, strlen(*start)))
			return 1;
	return 0;
}

/* Both texts have the same lines, except that those in @differ need only begin alike. */
static void assert_same_lines(const char *real, const char *ours, const char *const *differ)
{
	while (*real && *ours) {
		int n = strcspn(real, "\n"), m = strcspn(ours, "\n");

		if (starts_with_any(real, differ)) {
			int name = strcspn(real, ":");

			cr_assert(!strncmp(real, ours, name), "%.*s: %.*s", n, real, m, ours);
		} else {
			cr_assert(n == m && !strncmp(real, ours, n), "%.*s: %.*s", n, real, m,
				  ours);
		}
		cr_assert_eq(ours[m], '\n');
		real += n + 1;
		ours += m + 1;
	}
	cr_assert(!*real && !*ours, "%s|%s", real, ours);
}

static const char *const changing_lines[] = {
	"State:", "Uid:", "Gid:",      "Groups:",      "Vm",           "Rss", "Threads:",
	"SigQ:",  "Cap",  "voluntary", "nonvoluntary", "Cpus_allowed", NULL
};

Test(proc, status_keeps_the_other_lines)
{
	static char real[TEXT_MAX], ours[TEXT_MAX];
	struct proc_target target = own(PROC_STATUS);

	current->cred.uid = 4294967294u; /* longer than the real lines */
	current->rlim[UCOUNT_RLIMIT_SIGPENDING].cur = RLIM_INF;
	real_text("/proc/self/status", real);
	snapshot(&target, ours);
	assert_same_lines(real, ours, changing_lines);
}

Test(proc, status_shows_the_model)
{
	static char ours[TEXT_MAX];
	struct proc_target target = own(PROC_STATUS);
	struct cred *c = &current->cred;

	c->uid = 1000, c->euid = 1001, c->suid = 1002, c->fsuid = 1003;
	c->gid = 2000, c->egid = 2001, c->sgid = 2002, c->fsgid = 4294967294u;
	c->cap_inheritable = 1, c->cap_permitted = 0x1ffffffffff, c->cap_effective = 0x4000;
	c->cap_bset = 0x1fffeffffff, c->cap_ambient = 0x10;
	c->ngroups = 3, c->groups[0] = 4, c->groups[1] = 24, c->groups[2] = 100000;
	current->rlim[UCOUNT_RLIMIT_SIGPENDING] = (struct rlim){ 17, 20 };
	snapshot(&target, ours);
	cr_expect_str_eq(line_of(ours, "Uid:"), "Uid:\t1000\t1001\t1002\t1003");
	cr_expect_str_eq(line_of(ours, "Gid:"), "Gid:\t2000\t2001\t2002\t4294967294");
	cr_expect_str_eq(line_of(ours, "Groups:"), "Groups:\t4 24 100000 ");
	cr_expect_str_eq(line_of(ours, "VmLck:"), "VmLck:\t       0 kB");
	/* The test runner's own second thread is not one of the world. */
	cr_expect_str_eq(line_of(ours, "Threads:"), "Threads:\t1");
	cr_expect_str_eq(strchr(line_of(ours, "SigQ:"), '/'), "/17");
	cr_expect_str_eq(line_of(ours, "CapInh:"), "CapInh:\t0000000000000001");
	cr_expect_str_eq(line_of(ours, "CapPrm:"), "CapPrm:\t000001ffffffffff");
	cr_expect_str_eq(line_of(ours, "CapEff:"), "CapEff:\t0000000000004000");
	cr_expect_str_eq(line_of(ours, "CapBnd:"), "CapBnd:\t000001fffeffffff");
	cr_expect_str_eq(line_of(ours, "CapAmb:"), "CapAmb:\t0000000000000010");
}

Test(proc, status_no_groups_and_all_groups)
{
	static char ours[TEXT_MAX], want[TEXT_MAX];
	struct proc_target target = own(PROC_STATUS);
	struct cred *c = &current->cred;
	int n;

	c->ngroups = 0;
	cr_expect_str_eq(line_of(snapshot(&target, ours), "Groups:"), "Groups:\t ");
	n = sprintf(want, "Groups:\t");
	for (c->ngroups = 0; c->ngroups < CRED_NGROUPS_MAX; c->ngroups++) {
		c->groups[c->ngroups] = 4294967000u + c->ngroups;
		n += sprintf(want + n, "%u ", c->groups[c->ngroups]);
	}
	cr_expect_str_eq(line_of(snapshot(&target, ours), "Groups:"), want);
}

static void charge_signals(long n)
{
	struct ucounts *uc = alloc_ucounts(current->cred.user_ns, current->cred.uid);
	struct refusal why;
	int err;

	current->rlim[UCOUNT_RLIMIT_SIGPENDING].cur = RLIM_INF;
	cr_assert_eq(current->ucounts, ucounts_index(uc) + 1);
	while (n--)
		posix_timer_made(posix_timer_charge(0, 0, &err, &why), n);
}

Test(proc, status_pending_signals_are_those_of_the_record)
{
	static char ours[TEXT_MAX];
	struct proc_target target = own(PROC_STATUS);

	current->rlim[UCOUNT_RLIMIT_SIGPENDING].cur = RLIM_INF;
	cr_expect_str_eq(line_of(snapshot(&target, ours), "SigQ:"),
			 "SigQ:\t0/18446744073709551615");
	charge_signals(2);
	current->rlim[UCOUNT_RLIMIT_SIGPENDING].cur = 1;
	cr_expect_str_eq(line_of(snapshot(&target, ours), "SigQ:"), "SigQ:\t2/1");
	exit_itimers(current);
	cr_expect_str_eq(line_of(snapshot(&target, ours), "SigQ:"), "SigQ:\t0/1");
}

struct thread_case {
	pthread_barrier_t made, done;
	pid_t tid;
};

static void *be_a_thread(void *arg)
{
	struct thread_case *c = arg;

	c->tid = gettid();
	pthread_barrier_wait(&c->made);
	pthread_barrier_wait(&c->done);
	return NULL;
}

Test(proc, status_of_a_thread)
{
	static char ours[TEXT_MAX], want[64];
	struct task_struct *leader = current, *t;
	struct proc_target target;
	struct thread_case c;
	pthread_t thread;
	char path[64];

	pthread_barrier_init(&c.made, NULL, 2);
	pthread_barrier_init(&c.done, NULL, 2);
	cr_assert_eq(pthread_create(&thread, NULL, be_a_thread, &c), 0);
	pthread_barrier_wait(&c.made);
	t = task_adopt(leader, c.tid, getpid());
	cr_assert_not_null(t);
	t->cred.uid = 77;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", c.tid);
	cr_assert(proc_resolve(leader, AT_FDCWD, path, &target));
	cr_expect_eq(target.tgid, getpid());
	cr_expect_eq(target.tid, c.tid);
	snapshot(&target, ours);
	snprintf(want, sizeof(want), "Pid:\t%d", c.tid);
	cr_expect_str_eq(line_of(ours, "Pid:"), want);
	cr_expect_str_eq(line_of(ours, "Threads:"), "Threads:\t2");
	cr_expect(!strncmp(line_of(ours, "Uid:"), "Uid:\t77\t", 8));

	/* The thread as the reader, and named by its number alone, as the kernel allows. */
	cr_assert(proc_resolve(t, AT_FDCWD, "/proc/thread-self/status", &target));
	cr_expect(target.tgid == getpid() && target.tid == c.tid);
	cr_assert(proc_resolve(t, AT_FDCWD, "/proc/self/status", &target));
	cr_expect(target.tgid == getpid() && target.tid == getpid());
	snprintf(path, sizeof(path), "/proc/%d/status", c.tid);
	cr_assert(proc_resolve(leader, AT_FDCWD, path, &target));
	cr_expect(target.tgid == getpid() && target.tid == c.tid);

	/* A descriptor is every thread's: all look closer from now on. */
	cr_expect(t->flags & PF_PROC_READER);

	/* Limits are the process's, whichever thread is looked at. */
	leader->rlim[UCOUNT_RLIMIT_NPROC] = (struct rlim){ 3, 4 };
	target = (struct proc_target){ PROC_LIMITS, getpid(), c.tid };
	snapshot(&target, ours);
	cr_expect_str_eq(
		line_of(ours, "Max processes"),
		"Max processes             3                    4                    processes ");
	pthread_barrier_wait(&c.done);
	pthread_join(thread, NULL);
}

static pid_t stopped_child(void)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	cr_assert_gt(pid, 0);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(proc, status_threads_that_ended_unseen_are_not_counted)
{
	static char ours[TEXT_MAX];
	pid_t pid = stopped_child(), gone = stopped_child();
	struct proc_target target = { PROC_STATUS, pid, pid };

	end_child(gone);
	cr_assert_not_null(task_adopt(current, pid, pid));
	cr_assert_not_null(task_adopt(current, gone, pid));
	cr_expect_eq(nr_threads(find_task_by_vpid(pid)), 2);
	cr_expect_str_eq(line_of(snapshot(&target, ours), "Threads:"), "Threads:\t1");
	cr_expect_null(find_task_by_vpid(gone));
	end_child(pid);
}

Test(proc, status_of_a_zombie_has_no_locked_memory)
{
	static char real[TEXT_MAX], ours[TEXT_MAX];
	struct proc_target target;
	siginfo_t info;
	char path[64];
	pid_t pid = stopped_child();

	cr_assert_not_null(task_adopt(current, pid, pid));
	kill(pid, SIGKILL);
	cr_assert_eq(waitid(P_PID, pid, &info, WEXITED | WNOWAIT), 0);
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	cr_assert(proc_resolve(current, AT_FDCWD, path, &target));
	snapshot(&target, ours);
	assert_same_lines(real_text(path, real), ours, changing_lines);
	cr_expect_str_eq(line_of(ours, "VmLck:"), "");
	cr_expect_str_eq(line_of(ours, "State:"), "State:\tZ (zombie)");
	cr_expect_str_eq(line_of(ours, "Threads:"), "Threads:\t1");
	waitpid(pid, NULL, 0);
	cr_expect_not(proc_resolve(current, AT_FDCWD, path, &target));
	cr_expect_lt(proc_open(current, &target, 0), 0);
}

/* A real Groups line of some 50 kB: longer than every buffer. */
Test(proc, status_long_line_is_replaced_whole)
{
	static char real[TEXT_MAX], ours[TEXT_MAX];
	static gid_t groups[5000];
	struct proc_target target = { .file = PROC_STATUS };
	char path[64];
	int ready[2];
	pid_t pid;

	if (geteuid())
		cr_skip_test("only root can have real groups at will");
	for (int i = 0; i < 5000; i++)
		groups[i] = 100000000 + i;
	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		if (setgroups(5000, groups) || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], path, 1), 1);
	cr_assert_not_null(task_adopt(current, pid, pid));
	target.tgid = target.tid = pid;
	snapshot(&target, ours);
	cr_expect_str_eq(line_of(ours, "Groups:"), "Groups:\t ");
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	real_text(path, real);
	cr_assert_gt(strlen(real), 50000);
	assert_same_lines(real, ours, changing_lines);
	end_child(pid);
}

static const struct {
	enum rlimit_type type;
	int resource;
} limit_pairs[] = {
	{ UCOUNT_RLIMIT_NPROC, RLIMIT_NPROC },
	{ UCOUNT_RLIMIT_MSGQUEUE, RLIMIT_MSGQUEUE },
	{ UCOUNT_RLIMIT_SIGPENDING, RLIMIT_SIGPENDING },
	{ UCOUNT_RLIMIT_MEMLOCK, RLIMIT_MEMLOCK },
};

/* With the real limits in the model the text is the real file, to the byte. */
Test(proc, limits_format_is_the_kernels)
{
	static const struct rlimit tries[] = {
		{ 0, 0 },
		{ 1, 819200 },
		{ 12345, 67890 },
		{ 0, 800000 },
		{ RLIM_INFINITY, RLIM_INFINITY },
	};
	static char real[TEXT_MAX], ours[TEXT_MAX];
	struct proc_target target = { .file = PROC_LIMITS };
	char path[64];
	pid_t pid = stopped_child();
	struct task_struct *t = task_adopt(current, pid, pid);

	cr_assert_not_null(t);
	target.tgid = target.tid = pid;
	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	for (int i = sizeof(tries) / sizeof(*tries) - 1; i >= 0; i--) {
		for (unsigned int j = 0; j < 4; j++) {
			struct rlimit r;

			/* Only root may raise: anyone else compares what the limits were. */
			prlimit(pid, limit_pairs[j].resource, &tries[i], NULL);
			cr_assert_eq(prlimit(pid, limit_pairs[j].resource, NULL, &r), 0);
			t->rlim[limit_pairs[j].type] = (struct rlim){ r.rlim_cur, r.rlim_max };
		}
		cr_expect_str_eq(snapshot(&target, ours), real_text(path, real));
	}
	end_child(pid);
}

Test(proc, limits_shows_the_model)
{
	static const char *const rows[] = { "Max processes", "Max locked memory",
					    "Max pending signals", "Max msgqueue size", NULL };
	static char real[TEXT_MAX], ours[TEXT_MAX];
	struct proc_target target = own(PROC_LIMITS);

	current->rlim[UCOUNT_RLIMIT_NPROC] = (struct rlim){ 5, RLIM_INF };
	current->rlim[UCOUNT_RLIMIT_MEMLOCK] = (struct rlim){ 65536, 131072 };
	current->rlim[UCOUNT_RLIMIT_SIGPENDING] = (struct rlim){ 0, 1 };
	current->rlim[UCOUNT_RLIMIT_MSGQUEUE] = (struct rlim){ RLIM_INF - 1, RLIM_INF };
	snapshot(&target, ours);
	cr_expect_str_eq(
		line_of(ours, rows[0]),
		"Max processes             5                    unlimited            processes ");
	cr_expect_str_eq(
		line_of(ours, rows[1]),
		"Max locked memory         65536                131072               bytes     ");
	cr_expect_str_eq(
		line_of(ours, rows[2]),
		"Max pending signals       0                    1                    signals   ");
	cr_expect_str_eq(
		line_of(ours, rows[3]),
		"Max msgqueue size         18446744073709551614 unlimited            bytes     ");
	/* Other rows are the real ones: take the four out of both. */
	real_text("/proc/self/limits", real);
	for (int i = 0; rows[i]; i++) {
		char *a = strstr(real, rows[i]), *b = strstr(ours, rows[i]);

		cr_assert(a && b);
		memmove(a, strchr(a, '\n') + 1, strlen(strchr(a, '\n')));
		memmove(b, strchr(b, '\n') + 1, strlen(strchr(b, '\n')));
	}
	cr_expect_str_eq(real, ours);
}

Test(proc, open_gives_the_lowest_descriptor)
{
	struct proc_target target = own(PROC_STATUS);
	int lowest = open("/dev/null", O_RDONLY), fd;
	char c;

	close(lowest);
	fd = proc_open(current, &target, 0);
	cr_assert_eq(fd, lowest);
	cr_expect_eq(fcntl(fd, F_GETFD), 0);
	cr_expect_eq(lseek(fd, 0, SEEK_CUR), 0);
	cr_expect(read(fd, &c, 1) == 1 && c == 'N');
	close(fd);
	fd = proc_open(current, &target, O_CLOEXEC);
	cr_assert_eq(fd, lowest);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	cr_expect(current->flags & PF_PROC_READER);
}

Test(proc, open_without_a_descriptor_left)
{
	struct proc_target target = own(PROC_STATUS);
	struct rlimit r = { 0, 0 };
	int lowest = open("/dev/null", O_RDONLY), err;

	close(lowest);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &r), 0);
	for (int left = 0; left < 2; left++) {
		struct rlimit few = { lowest + left, r.rlim_max };

		setrlimit(RLIMIT_NOFILE, &few);
		err = proc_open(current, &target, 0);
		setrlimit(RLIMIT_NOFILE, &r);
		cr_expect_eq(err, -EMFILE);
		cr_expect_eq(open("/dev/null", O_RDONLY), lowest, "a descriptor was left open");
		close(lowest);
	}
}

/* What the kernel calls the file that it opens for @path; "" if it opens none. */
static const char *kernel_name(int dirfd, const char *path)
{
	static char name[PATH_MAX];
	char link[64];
	int fd = openat(dirfd, path, O_RDONLY | O_NONBLOCK);

	name[0] = '\0';
	if (fd >= 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		name[readlink(link, name, sizeof(name) - 1)] = '\0';
		close(fd);
	}
	return name;
}

/* What resolves is what the kernel opens for @path, and nothing else does. */
static void check_path(int dirfd, const char *path, int emulated)
{
	const char *name = kernel_name(dirfd, path);
	struct proc_target target;
	char want[64];

	if (!proc_resolve(current, dirfd, path, &target)) {
		cr_expect_not(emulated, "%.80s is %s", path, name);
		return;
	}
	cr_expect(emulated, "%.80s is %s", path, name);
	snprintf(want, sizeof(want), "/proc/%d/%s", target.tgid,
		 target.file == PROC_STATUS ? "status" : "limits");
	if (strcmp(name, want))
		snprintf(want, sizeof(want), "/proc/%d/task/%d/%s", target.tgid, target.tid,
			 target.file == PROC_STATUS ? "status" : "limits");
	cr_expect_str_eq(name, want, "%.80s: %s, not %s", path, name, want);
}

Test(proc, resolve_absolute)
{
	static const char *const yes[] = {
		"/proc/self/status",
		"/proc/self/limits",
		"/proc/thread-self/status",
		"//proc//self///status",
		"/./proc/./self/./status",
		"/proc/../proc/self/../self/status",
		"/../../proc/self/status",
		"/tmp/../proc/self/status",
		"/proc/self/task/../status",
		"/proc/self/fd/../status",
		"/proc/thread-self/../../status",
		"/proc/thread-self/../../task/../limits",
		"/proc/sys/kernel/../../self/limits",
		"/proc/self/root/proc/self/status",
		"/proc/self/cwd/proc/self/status",
		"/dev/fd/../status",
	};
	static const char *const no[] = {
		"",
		"/",
		"status",
		"/status",
		"/proc/status",
		"/proc/self",
		"/proc/self/",
		"/proc/self/status/",
		"/proc/self/status/.",
		"/proc/self/status/../status",
		"/proc/self/statusx",
		"/proc/self/statu",
		"/proc/self/stat",
		"/proc/self/cwd/../status",
		"/proc/missing/../self/status",
		"/proc/self/status/../../self/status",
		"/proc/self/fd/0/../../status",
		"/proc/thread-self/task/status",
		"/proc/self/tasks/1/status",
		"/proc/self/exe/../status",
		"/proc/self/task/status",
		"/proc/self/task/self/status",
		"/proc/selfish/status",
		"/proc/self/self/status",
		"/proc/0/status",
		"/proc/-1/status",
		"/proc/+1/status",
		"/proc/4294967297/status",
		"/proc/99999999999999999999/status",
		"/proc/thread-self/../status",
		"/proc/sys/self/status",
		"/tmp/proc/self/status",
		"/proc/1/status",
		"/PROC/self/status",
		"/proc/self/task/1/status",
	};

	cr_assert_eq(chdir("/"), 0);
	for (unsigned int i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		check_path(AT_FDCWD, yes[i], 1);
	for (unsigned int i = 0; i < sizeof(no) / sizeof(*no); i++)
		check_path(AT_FDCWD, no[i], 0);
	cr_expect_not(proc_resolve(current, AT_FDCWD, NULL, &(struct proc_target){ 0 }));
	cr_expect_not(proc_resolve(NULL, AT_FDCWD, yes[0], &(struct proc_target){ 0 }));
}

Test(proc, resolve_numbers)
{
	static const struct {
		const char *format;
		int emulated;
	} cases[] = {
		{ "/proc/%1$d/status", 1 },
		{ "/proc/%1$d/task/%1$d/status", 1 },
		{ "/proc/self/task/%1$d/limits", 1 },
		{ "/proc/%1$d/task/../limits", 1 },
		{ "/proc/0%1$d/status", 0 },
		{ "/proc/%1$d /status", 0 },
		{ "/proc/%1$d/task/0%1$d/status", 0 },
		{ "/proc/%1$d/task/%1$d/task/%1$d/status", 0 },
		{ "/proc/%2$d/status", 0 },
		{ "/proc/%1$d/task/%2$d/status", 0 },
		{ "/proc/%2$d/task/%1$d/status", 0 },
		{ "/proc/%2$d/task/%2$d/status", 0 },
	};
	char path[128];

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(path, sizeof(path), cases[i].format, getpid(), getppid());
#pragma GCC diagnostic pop
		check_path(AT_FDCWD, path, cases[i].emulated);
	}
}

Test(proc, resolve_another_process)
{
	struct proc_target target;
	pid_t pid = stopped_child();
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	check_path(AT_FDCWD, path, 0);
	cr_assert_not_null(task_adopt(current, pid, pid));
	check_path(AT_FDCWD, path, 1);
	/* A thread of one process is not below another. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", pid);
	check_path(AT_FDCWD, path, 0);
	end_child(pid);
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	cr_expect_not(proc_resolve(current, AT_FDCWD, path, &target));
}

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);

	cr_assert_geq(fd, 0, "%s", path);
	return fd;
}

Test(proc, resolve_from_a_descriptor)
{
	static const struct {
		const char *dir, *path;
		int emulated;
	} cases[] = {
		{ "/proc/self", "status", 1 },
		{ "/proc/self", "./limits", 1 },
		{ "/proc", "self/status", 1 },
		{ "/proc", "thread-self/status", 1 },
		{ "/", "proc/self/status", 1 },
		{ "/tmp", "../proc/self/status", 1 },
		{ "/proc/self/fd", "../status", 1 },
		{ "/proc/thread-self", "status", 1 },
		{ "/proc/self/task", "../limits", 1 },
		{ "/tmp", "/proc/self/status", 1 },
		{ "/tmp", "status", 0 },
		{ "/proc", "status", 0 },
		{ "/proc/sys", "status", 0 },
		{ "/proc/1", "status", 0 },
		{ "/proc/self", "status/", 0 },
		{ "/proc/self", "", 0 },
	};
	struct proc_target target;
	int pipes[2], closed;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int fd = open_dir(cases[i].dir);

		check_path(fd, cases[i].path, cases[i].emulated);
		close(fd);
	}
	cr_assert_eq(pipe(pipes), 0);
	closed = dup(pipes[0]);
	close(closed);
	check_path(pipes[0], "status", 0);
	check_path(closed, "status", 0);
	check_path(-1, "status", 0);
	cr_expect(proc_resolve(current, -1, "/proc/self/status", &target));
}

Test(proc, resolve_from_the_working_directory)
{
	cr_assert_eq(chdir("/proc/self"), 0);
	check_path(AT_FDCWD, "status", 1);
	check_path(AT_FDCWD, ".//limits", 1);
	check_path(AT_FDCWD, "../self/status", 1);
	check_path(AT_FDCWD, "task/../status", 1);
	check_path(AT_FDCWD, "stat", 0);
	cr_assert_eq(chdir("/proc/self/task"), 0);
	check_path(AT_FDCWD, "../status", 1);
	check_path(AT_FDCWD, "status", 0);
	cr_assert_eq(chdir("/usr/share"), 0);
	check_path(AT_FDCWD, "../../proc/self/status", 1);
	check_path(AT_FDCWD, "../../../../proc/self/status", 1);
	check_path(AT_FDCWD, "../proc/self/status", 0);
	cr_assert_eq(chdir("/proc"), 0);
	check_path(AT_FDCWD, "self/status", 1);
	check_path(AT_FDCWD, "status", 0);
}

static const char *random_path(char *path, size_t size)
{
	static const char *const part[] = {
		"proc", "self", "thread-self", "task", ".",       "..",     "..",     "",  "fd",
		"cwd",  "root", "sys",         "tmp",  "missing", "status", "limits", "0",
	};
	const unsigned int n = sizeof(part) / sizeof(*part);
	int len = snprintf(path, size, "%s", rand() % 4 ? "/proc" : "");

	for (int i = rand() % 6; i >= 0; i--) {
		unsigned int pick = rand() % (n + 2);

		if (pick < n)
			len += snprintf(path + len, size - len, "/%s", part[pick]);
		else
			len += snprintf(path + len, size - len, "/%d", getpid());
	}
	snprintf(path + len, size - len, "/%s", rand() % 2 ? "status" : "limits");
	return path + (rand() % 8 == 0); /* relative to the root then */
}

/* Whatever the path, the answer is the kernel's. */
Test(proc, resolve_any_path)
{
	char path[256], task[64];
	int emulated = 0, own_file;

	cr_assert_eq(chdir("/"), 0);
	srand(1);
	snprintf(task, sizeof(task), "/proc/%d/", getpid());
	for (int i = 0; i < 20000; i++) {
		const char *p = random_path(path, sizeof(path));

		own_file = !strncmp(kernel_name(AT_FDCWD, p), task, strlen(task));
		check_path(AT_FDCWD, p, own_file);
		emulated += own_file;
	}
	cr_expect_gt(emulated, 500);
}

Test(proc, resolve_through_links)
{
	char top[] = "/tmp/kpemu-unit-XXXXXX", command[64];

	cr_assert_not_null(mkdtemp(top));
	cr_assert_eq(chdir(top), 0);
	cr_assert(!symlink("/proc/self", "dir") && !symlink("/proc/self/status", "status"));
	cr_assert(!symlink("limits", "limits") && !symlink("/proc/1/status", "other"));
	check_path(AT_FDCWD, "dir/status", 1);
	check_path(AT_FDCWD, "dir/../self/status", 1);
	check_path(AT_FDCWD, "status", 1);
	check_path(AT_FDCWD, "limits", 0);
	check_path(AT_FDCWD, "other", 0);
	check_path(AT_FDCWD, "../proc/self/status", 0);
	check_path(AT_FDCWD, "../../proc/self/status", 1);
	cr_assert_eq(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	cr_expect_eq(system(command), 0);
}

Test(proc, resolve_leaves_no_descriptor_open)
{
	int before = open("/dev/null", O_RDONLY), after;

	close(before);
	check_path(AT_FDCWD, "/proc//self/status", 1);
	check_path(AT_FDCWD, "/etc/status", 0);
	check_path(AT_FDCWD, "/etc/security/limits", 0);
	proc_task_dir(current, AT_FDCWD, "/proc/self");
	after = open("/dev/null", O_RDONLY);
	cr_expect_eq(after, before);
}

Test(proc, resolve_long_path)
{
	static char path[3 * PATH_MAX];
	static const char end[] = "proc/self/status";
	int n;

	for (n = 0; n + sizeof(end) + 1 < PATH_MAX; n += 2)
		memcpy(path + n, "/.", 2);
	path[n++] = '/';
	strcpy(path + n, end);
	cr_assert_lt(strlen(path), PATH_MAX);
	check_path(AT_FDCWD, path, 1);
	memset(path, '/', sizeof(path));
	strcpy(path + PATH_MAX - sizeof(end), end);
	cr_assert_eq(strlen(path), PATH_MAX - 1);
	check_path(AT_FDCWD, path, 1);
	memset(path, '/', sizeof(path));
	strcpy(path + PATH_MAX - sizeof(end) + 1, end);
	cr_assert_eq(strlen(path), PATH_MAX);
	check_path(AT_FDCWD, path, 0);
	memset(path, '/', sizeof(path));
	strcpy(path + sizeof(path) - sizeof(end), end);
	check_path(AT_FDCWD, path, 0);
}

/* There the world's numbers are not those that the reader sees. */
Test(proc, resolve_in_another_pid_namespace)
{
	struct proc_target target;
	char path[64];

	current->flags |= PF_PIDNS;
	current->pid = current->tgid = 999999999;
	cr_expect(proc_resolve(current, AT_FDCWD, "/proc/self/status", &target));
	cr_expect(proc_resolve(current, AT_FDCWD, "/proc/thread-self/limits", &target));
	snprintf(path, sizeof(path), "/proc/%d/status", getpid());
	cr_expect(proc_resolve(current, AT_FDCWD, path, &target));
	cr_expect(target.tgid == 999999999 && target.tid == 999999999);
	cr_expect_geq(proc_open(current, &target, 0), 0);
	cr_expect_not(proc_resolve(current, AT_FDCWD, "/proc/999999999/status", &target));
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", getpid(), getppid());
	cr_expect_not(proc_resolve(current, AT_FDCWD, path, &target));
}

Test(proc, resolve_task_of_another_pid_namespace)
{
	pid_t pid = stopped_child();
	struct task_struct *t = task_adopt(current, pid, pid);
	char path[64];

	cr_assert_not_null(t);
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	check_path(AT_FDCWD, path, 1);
	t->flags |= PF_PIDNS; /* it may be a number that only that namespace knows */
	check_path(AT_FDCWD, path, 0);
	end_child(pid);
}

Test(proc, refresh_shows_the_present)
{
	static char before[TEXT_MAX], after[TEXT_MAX];
	struct proc_target target = own(PROC_STATUS);
	int fd;

	current->cred.ngroups = CRED_NGROUPS_MAX;
	for (int i = 0; i < CRED_NGROUPS_MAX; i++)
		current->cred.groups[i] = 1000000000;
	fd = proc_open(current, &target, 0);
	cr_assert_geq(fd, 0);
	text_of(fd, before);
	cr_assert_eq(lseek(fd, 17, SEEK_SET), 17);
	current->cred.ngroups = 0;
	current->cred.uid = 5;
	cr_expect_str_eq(text_of(fd, after), before, "it is a snapshot");
	cr_expect_eq(proc_refresh(current, fd), 1);
	cr_expect_eq(lseek(fd, 0, SEEK_CUR), 17);
	text_of(fd, after);
	cr_expect(!strncmp(line_of(after, "Uid:"), "Uid:\t5\t", 7));
	cr_expect_str_eq(line_of(after, "Groups:"), "Groups:\t ");
	cr_expect_lt(strlen(after), strlen(before));
	cr_expect_eq((size_t)lseek(fd, 0, SEEK_END), strlen(after), "a tail is left");
	assert_same_lines(before, after, changing_lines);
	current->cred.ngroups = 100;
	cr_expect_eq(proc_refresh(current, fd), 1);
	cr_expect_gt(strlen(text_of(fd, after)), 1000);
}

Test(proc, refresh_after_dup_and_fork)
{
	static char text[TEXT_MAX];
	struct proc_target target = own(PROC_STATUS);
	int fd = dup2(proc_open(current, &target, 0), 200), status;
	pid_t pid;

	cr_assert_eq(fd, 200);
	current->cred.uid = 6;
	cr_expect_eq(proc_refresh(current, fd), 1);
	cr_expect(!strncmp(line_of(text_of(fd, text), "Uid:"), "Uid:\t6\t", 7));
	/* The child is another reader; the file stays that of its parent. */
	current->cred.uid = 8;
	pid = fork();
	if (!pid)
		_exit(proc_refresh(current, fd));
	waitpid(pid, &status, 0);
	cr_expect_eq(WEXITSTATUS(status), 1);
	cr_expect(!strncmp(line_of(text_of(fd, text), "Uid:"), "Uid:\t8\t", 7));
	snprintf(text, sizeof(text), "%s", line_of(text_of(fd, text), "Pid:"));
	cr_expect_eq(atoi(text + 5), getpid());
}

static int memfd_named(const char *format, int pid)
{
	char name[128];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(name, sizeof(name), format, pid);
#pragma GCC diagnostic pop
	return memfd_create(name, 0);
}

Test(proc, refresh_leaves_other_files_alone)
{
	static const char *const names[] = {
		"plain",
		"kpemu:",
		"kpemu:status",
		"kpemu:status:",
		"kpemu:status:%1$d:%1$d",
		"kpemu:status:%1$d:%1$d:0000000000001235",
		"kpemu:status:%1$d:%1$d:1234",
		"kpemu:status:%1$d:%1$d:0000000000001234x",
		"kpemu:status:0%1$d:%1$d:0000000000001234",
		"kpemu:status:-%1$d:%1$d:0000000000001234",
		"kpemu:status:%1$d::0000000000001234",
		"kpemu:nothing:%1$d:%1$d:0000000000001234",
		"kpemu::%1$d:%1$d:0000000000001234",
	};
	static char text[TEXT_MAX];
	int fd, pipes[2];

	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		fd = memfd_named(names[i], getpid());
		cr_assert_eq(write(fd, "kept", 4), 4);
		cr_expect_eq(proc_refresh(current, fd), 0, "%s", names[i]);
		cr_expect_str_eq(text_of(fd, text), "kept");
		close(fd);
	}
	fd = memfd_named("kpemu:status:%1$d:%1$d:0000000000001234", getpid());
	cr_expect_eq(proc_refresh(current, fd), 1);
	close(fd);
	cr_expect_eq(proc_refresh(current, fd), 0);
	cr_expect_eq(proc_refresh(current, -1), 0);
	cr_assert_eq(pipe(pipes), 0);
	cr_expect_eq(proc_refresh(current, pipes[0]), 0);
	fd = open("/proc/self/status", O_RDONLY);
	cr_expect_eq(proc_refresh(current, fd), 0);
}

Test(proc, refresh_when_the_task_is_gone)
{
	static char before[TEXT_MAX], after[TEXT_MAX];
	pid_t pid = stopped_child();
	struct proc_target target = { PROC_STATUS, pid, pid };
	struct task_struct *t = task_adopt(current, pid, pid);
	int fd;

	cr_assert_not_null(t);
	fd = proc_open(current, &target, 0);
	cr_assert_geq(fd, 0);
	text_of(fd, before);
	end_child(pid);
	cr_expect_lt(proc_refresh(current, fd), 0);
	release_task(t);
	cr_expect_eq(proc_refresh(current, fd), -ESRCH);
	cr_expect_str_eq(text_of(fd, after), before);
}

static void check_dir(int dirfd, const char *path, struct task_struct *want)
{
	cr_expect_eq(proc_task_dir(current, dirfd, path), want, "%s", path);
}

Test(proc, task_dir_of_own_files)
{
	static const char *const yes[] = { "/proc/self",        "/proc/self/",
					   "/proc/self/.",      "/proc/self/fd",
					   "/proc/self/stat",   "/proc/self/status",
					   "/proc/self/task",   "/proc/self/task/..",
					   "/proc/thread-self", "/proc/thread-self/stat",
					   "/proc/self/ns",     "/proc/self/root/proc/self/stat" };
	static const char *const no[] = { "/",
					  "/proc",
					  "/proc/",
					  "/proc/1",
					  "/proc/1/stat",
					  "/proc/self/..",
					  "/proc/stat",
					  "/proc/self/exe",
					  "/proc/self/cwd",
					  "/proc/self/root/etc",
					  "/proc/self/fd/0",
					  "/proc/self/ns/user",
					  "/tmp",
					  "/proc/sys/user",
					  "/proc/self/status/x",
					  "/missing",
					  "" };
	int fd = open_dir("/proc/self/fd");

	for (unsigned int i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		check_dir(AT_FDCWD, yes[i], current);
	for (unsigned int i = 0; i < sizeof(no) / sizeof(*no); i++)
		check_dir(AT_FDCWD, no[i], NULL);
	check_dir(fd, "", current);
	check_dir(fd, "..", current);
	check_dir(fd, "../..", NULL);
	check_dir(fd, "0", NULL);
	check_dir(open("/proc/self/stat", O_RDONLY), "", current);
	cr_assert_eq(chdir("/proc/self"), 0);
	check_dir(AT_FDCWD, "stat", current);
	check_dir(AT_FDCWD, "../1", NULL);
}

Test(proc, task_dir_of_others)
{
	pid_t pid = stopped_child();
	struct task_struct *t = task_adopt(current, pid, pid);
	char path[64];

	cr_assert_not_null(t);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	check_dir(AT_FDCWD, path, t);
	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, pid);
	check_dir(AT_FDCWD, path, t);
	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, getpid());
	check_dir(AT_FDCWD, path, NULL);
	end_child(pid);
	snprintf(path, sizeof(path), "/proc/%d", pid);
	check_dir(AT_FDCWD, path, NULL);
}

/* --- /proc/kpemu --- */

static void check_world_path(enum proc_file want, int dirfd, const char *path)
{
	enum proc_file got = proc_world_path(dirfd, path);

	cr_expect_eq(got, want, "%s: want %d, got %d", path, want, got);
}

Test(proc, world_paths)
{
	int slash = open_dir("/"), proc = open_dir("/proc");
	struct proc_target target;

	check_world_path(PROC_UCOUNTS, AT_FDCWD, "/proc/kpemu/ucounts");
	check_world_path(PROC_EVENTS, AT_FDCWD, "/proc/kpemu/events");
	check_world_path(PROC_EVENTS, AT_FDCWD, "//proc//kpemu//events");
	check_world_path(PROC_EVENTS, AT_FDCWD, "/proc/self/../kpemu/events");
	check_world_path(PROC_EVENTS, slash, "proc/kpemu/events");
	check_world_path(PROC_EVENTS, proc, "kpemu/events");
	check_world_path(PROC_DIR, AT_FDCWD, "/proc/kpemu");
	check_world_path(PROC_DIR, AT_FDCWD, "/proc/kpemu/");
	check_world_path(PROC_DIR, proc, "kpemu");
	check_world_path(PROC_NO_FILE, AT_FDCWD, "/proc/kpemu/status");
	check_world_path(PROC_NO_FILE, AT_FDCWD, "/proc/kpemu/event");
	check_world_path(PROC_NO_FILE, AT_FDCWD, "/proc/kpemu/eventss");
	check_world_path(PROC_NONE, AT_FDCWD, "/proc/kpemu/x/events");
	check_world_path(PROC_NONE, AT_FDCWD, "/proc/kpemux/events");
	check_world_path(PROC_NONE, AT_FDCWD, "/proc/xkpemu/events");
	check_world_path(PROC_NONE, AT_FDCWD, "/proc/self/kpemu/events");
	check_world_path(PROC_NONE, AT_FDCWD, "/tmp/kpemu/events");
	check_world_path(PROC_NONE, AT_FDCWD, "/missing/kpemu/events");
	check_world_path(PROC_NONE, AT_FDCWD, "/proc/events");
	check_world_path(PROC_NONE, AT_FDCWD, "/proc");
	check_world_path(PROC_NONE, slash, "kpemu/events");
	check_world_path(PROC_NONE, AT_FDCWD, "events");
	check_world_path(PROC_NONE, AT_FDCWD, "/");
	check_world_path(PROC_NONE, AT_FDCWD, "");
	check_world_path(PROC_NONE, AT_FDCWD, NULL);
	cr_assert_eq(chdir("/proc"), 0);
	check_world_path(PROC_UCOUNTS, AT_FDCWD, "kpemu/ucounts");
	check_world_path(PROC_UCOUNTS, AT_FDCWD, "./kpemu/ucounts");

	cr_assert(proc_resolve(current, AT_FDCWD, "/proc/kpemu/events", &target));
	cr_expect_eq(target.file, PROC_EVENTS);
	cr_expect_not(proc_resolve(current, AT_FDCWD, "/proc/self/events", &target));
	cr_expect_not(proc_resolve(current, AT_FDCWD, "/proc/kpemu", &target));
	cr_expect_not(proc_resolve(current, AT_FDCWD, "/proc/kpemu/status", &target));
}

static const struct proc_target ucounts_file = { PROC_UCOUNTS, 1, 1 };
static const struct proc_target events_file = { PROC_EVENTS, 1, 1 };

/* The number in the column @name of the first line that starts with @ns and @uid; -1: none. */
static long long in_column(const char *text, unsigned int ns, unsigned int uid, const char *name)
{
	char header[2048], line[2048], *key, *value, *k, *v;
	const char *at = text;
	unsigned int n, u;

	snprintf(header, sizeof(header), "%.*s", (int)strcspn(text, "\n"), text);
	do {
		at = strchr(at, '\n');
		if (!at++ || sscanf(at, "%u %u", &n, &u) != 2)
			return -1;
	} while (n != ns || u != uid);
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
	key = strtok_r(header, " ", &k);
	value = strtok_r(line, " ", &v);
	while (key && value && strcmp(key, name)) {
		key = strtok_r(NULL, " ", &k);
		value = strtok_r(NULL, " ", &v);
	}
	return key && value ? atoll(value) : -1;
}

/* What is used, and what is only held: together they are what the counter has taken. */
Test(proc, ucounts_shows_what_is_held)
{
	unsigned int uid = current->cred.uid;
	static char text[TEXT_MAX];
	long long held;

	charge_signals(10);
	snapshot(&ucounts_file, text);
	held = in_column(text, 0, uid, "sigpending_held");
	cr_expect_eq(in_column(text, 0, uid, "sigpending"), 10);
	if (world->ucounts_alg == UCOUNTS_STOCK)
		cr_expect(held > 0 && held < 2 * SPLIT_STOCK_MAX, "%lld", held);
	else
		cr_expect_eq(held, world->ucounts_alg == UCOUNTS_CACHE ? 0 : -1);
}

Test(proc, ucounts_has_a_line_for_each_record)
{
	struct ucounts *uc = alloc_ucounts(3, 4294967294u);
	static char text[TEXT_MAX];
	unsigned int uid = current->cred.uid;

	charge_signals(2);
	exit_itimers(current);
	charge_signals(1);
	atomic64_set(&uc->rlimit[UCOUNT_RLIMIT_MEMLOCK], 5);
	atomic64_set(&uc->peak[UCOUNT_RLIMIT_MEMLOCK], 6);
	atomic64_set(&uc->refused[UCOUNT_RLIMIT_MEMLOCK], 7);
	atomic64_set(&uc->rlimit[UCOUNT_RLIMIT_MSGQUEUE], INT64_MAX);
	snapshot(&ucounts_file, text);
	cr_expect_eq(in_column(text, 0, uid, "nproc"), 1);
	cr_expect_eq(in_column(text, 0, uid, "nproc_peak"), 1);
	cr_expect_eq(in_column(text, 0, uid, "sigpending"), 1);
	cr_expect_eq(in_column(text, 0, uid, "sigpending_peak"), 2);
	cr_expect_eq(in_column(text, 0, uid, "sigpending_refused"), 0);
	cr_expect_eq(in_column(text, 3, 4294967294u, "memlock_kb"), 20);
	cr_expect_eq(in_column(text, 3, 4294967294u, "memlock_kb_peak"), 24);
	cr_expect_eq(in_column(text, 3, 4294967294u, "memlock_refused"), 7);
	cr_expect_eq(in_column(text, 3, 4294967294u, "msgqueue"), INT64_MAX);
	cr_expect_eq(in_column(text, 3, 1, "nproc"), -1);
}

Test(proc, ucounts_columns_are_aligned)
{
	static char text[TEXT_MAX];
	size_t width;

	alloc_ucounts(12, 77);
	snapshot(&ucounts_file, text);
	width = strcspn(text, "\n");
	for (const char *at = text; *at; at += width + 1)
		cr_assert_eq(strcspn(at, "\n"), width, "%s", text);
}

Test(proc, events_has_refusals_and_counts)
{
	struct refusal why = { .err = EMFILE, .type = UCOUNT_RLIMIT_MSGQUEUE, .level = 1, .ns = 2,
			       .uid = 1000, .pid = 99, .use = 97, .limit = 100, .asked = 98 };
	static char text[TEXT_MAX];

	refusal_log(&why, "mq_open");
	refusal_log(&why, "mq_open");
	why.type = UCOUNT_RLIMIT_MEMLOCK;
	refusal_log(&why, "odd\n\033call");
	uncovered_log("static", "/bin/busybox");
	snapshot(&events_file, text);
	cr_expect(!strncmp(text, "limit ", 6));
	cr_expect_str_eq(line_of(text, "msgqueue"),
			 "msgqueue       1    2       1000           97          100           98 "
			 "EMFILE mq_open              99       2 unit");
	cr_expect_str_eq(line_of(text, "memlock"),
			 "memlock        1    2       1000          388          400          392 "
			 "EMFILE odd??call            99       1 unit");
	cr_expect_str_eq(line_of(text, "uncovered"), "uncovered       1");
	cr_expect_str_eq(line_of(text, "adopted"), "adopted         1");
	cr_expect_null(strstr(text, "busybox"));
	cr_expect_not_null(strstr(text, "unit\n\nuncovered"));
}

Test(proc, world_files_are_refreshed)
{
	static char text[TEXT_MAX];
	unsigned int uid = current->cred.uid;
	int fd = proc_open(current, &ucounts_file, O_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	cr_expect_eq(write(fd, "x", 1), -1);
	cr_expect_eq(in_column(text_of(fd, text), 0, uid, "sigpending"), 0);
	charge_signals(3);
	cr_expect_eq(in_column(text_of(fd, text), 0, uid, "sigpending"), 0);
	cr_expect_eq(proc_refresh(current, fd), 1);
	cr_expect_eq(in_column(text_of(fd, text), 0, uid, "sigpending"), 3);
	alloc_ucounts(0, 4242);
	cr_expect_eq(proc_refresh(current, fd), 1);
	cr_expect_eq(in_column(text_of(fd, text), 0, 4242, "nproc"), 0);
}

Test(proc, world_files_look_for_the_dead)
{
	static char text[TEXT_MAX];
	pid_t pid = stopped_child();

	cr_assert_not_null(task_adopt(current, pid, pid));
	end_child(pid);
	snapshot(&ucounts_file, text);
	cr_expect_eq(in_column(text, 0, current->cred.uid, "nproc"), 1);
	cr_expect_eq(in_column(text, 0, current->cred.uid, "nproc_peak"), 2);
}

Test(proc, world_stat)
{
	struct stat st, proc;

	cr_assert_eq(stat("/proc", &proc), 0);
	cr_assert(proc_world_stat(PROC_EVENTS, &st));
	cr_expect_eq(st.st_mode, S_IFREG | 0444);
	cr_expect_eq(st.st_uid, 0u);
	cr_expect_eq(st.st_size, 0);
	cr_expect_eq(st.st_dev, proc.st_dev);
	cr_assert(proc_world_stat(PROC_DIR, &st));
	cr_expect_eq(st.st_mode, S_IFDIR | 0555);
	cr_expect_not(proc_world_stat(PROC_NONE, &st));
	cr_expect_not(proc_world_stat(PROC_STATUS, &st));
	cr_expect_not(proc_world_stat(PROC_NO_FILE, &st));
}
