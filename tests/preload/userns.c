/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User namespaces as a program sees them. A case prints one line of facts; the script compares what
 * it prints in a world with what it prints on the real kernel.
 *
 * usage: userns --list | userns CASE
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <grp.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/sched.h>

static uid_t uid;
static gid_t gid;

static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar(' ');
	fflush(stdout);
}

static const char *errno_name(int err)
{
	return err ? strerrorname_np(err) : "ok";
}

static const char *result(long ret)
{
	return errno_name(ret < 0 ? errno : 0);
}

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), ret;

	if (fd < 0)
		return -1;
	ret = write(fd, text, strlen(text));
	if (ret < 0) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	close(fd);
	return ret;
}

static const char *get(const char *path)
{
	static char text[4][400];
	static int next;
	char *t = text[next++ % 4], *to = t;
	int fd = open(path, O_RDONLY), n;

	strcpy(t, "unreadable");
	if (fd < 0)
		return t;
	n = read(fd, t, 399);
	close(fd);
	t[n > 0 ? n : 0] = 0;
	for (char *from = t; *from; from++)
		if (*from == '\n')
			*to++ = from[1] ? ',' : 0;
		else if (*from != ' ' || (to > t && to[-1] != ' ' && to[-1] != ','))
			*to++ = *from;
	*to = 0;
	return t;
}

static int enter(int more)
{
	char map[64];
	uid_t u = geteuid();
	gid_t g = getegid();

	if (unshare(CLONE_NEWUSER | more))
		return -1;
	prctl(PR_SET_DUMPABLE, 1);
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1\n", u);
	if (put("/proc/self/uid_map", map) < 0)
		return -1;
	snprintf(map, sizeof(map), "0 %u 1\n", g);
	return put("/proc/self/gid_map", map) < 0 ? -1 : 0;
}

static void soft(int resource, rlim_t value)
{
	struct rlimit r;

	getrlimit(resource, &r);
	r.rlim_cur = value;
	if (setrlimit(resource, &r))
		say("setrlimit=%s", errno_name(errno));
}

static void block_all(void)
{
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static const char *field(pid_t pid, const char *key)
{
	static char value[8][120];
	static int next;
	char path[40], line[400], *v = value[next++ % 8];
	FILE *f;

	snprintf(path, sizeof(path), pid ? "/proc/%d/status" : "/proc/self/status", pid);
	strcpy(v, "?");
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':') {
			snprintf(v, 120, "%s", line + strlen(key) + 2);
			v[strcspn(v, "\n")] = 0;
			for (char *c = v; *c; c++)
				if (*c == '\t')
					*c = '/';
		}
	if (f)
		fclose(f);
	return v;
}

static int fill(pid_t pid, int max)
{
	union sigval v = { 1 };
	int n = 0;

	while (n < max && !sigqueue(pid, SIGRTMIN, v))
		n++;
	return n;
}

/* A child that does @fn, says so, and waits for its end. */
static pid_t helper(void (*fn)(void))
{
	int fds[2];
	char c;
	pid_t pid;

	if (pipe(fds))
		exit(2);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn();
		prctl(PR_SET_DUMPABLE, 1);
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	if (read(fds[0], &c, 1) != 1)
		say("helper died");
	close(fds[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int forks(pid_t *pids, int max)
{
	int n = 0;

	for (; n < max; n++) {
		pids[n] = fork();
		if (!pids[n])
			for (;;)
				pause();
		if (pids[n] < 0)
			break;
	}
	return n;
}

/* --- cases --- */

static void plain(void)
{
	if (unshare(CLONE_NEWUSER))
		say("unshare=%s", errno_name(errno));
}

static void inside(void)
{
	if (enter(0))
		say("enter=%s", errno_name(errno));
}

static void do_ids(void)
{
	say("unshare=%s", result(unshare(CLONE_NEWUSER)));
	say("%d/%d/%d/%d", getuid(), geteuid(), getgid(), getegid());
	say("Uid=%s Gid=%s", field(0, "Uid"), field(0, "Gid"));
	say("caps=%s %s %s %s", field(0, "CapPrm"), field(0, "CapEff"), field(0, "CapInh"),
	    field(0, "CapAmb"));
	say("uid_map='%s' setgroups=%s", get("/proc/self/uid_map"), get("/proc/self/setgroups"));
	say("setuid0=%s setuid5=%s", result(setuid(0)), result(setuid(5)));
	say("setgroups=%s", result(setgroups(0, NULL)));
}

static void do_maps(void)
{
	char map[80];

	say("init '%s'", get("/proc/self/uid_map"));
	plain();
	prctl(PR_SET_DUMPABLE, 1);
	say("bad=%s", result(put("/proc/self/uid_map", "0 x 1")));
	say("empty=%s", result(put("/proc/self/uid_map", "\n")));
	say("count0=%s", result(put("/proc/self/uid_map", "0 0 0")));
	say("wrap=%s", result(put("/proc/self/uid_map", "4294967290 0 10")));
	snprintf(map, sizeof(map), "0 %u 1\n0 %u 1", uid, uid + 1);
	say("overlap=%s", result(put("/proc/self/uid_map", map)));
	snprintf(map, sizeof(map), "0 %u 1\n1 %u 1", uid, uid + 1);
	say("two=%s", result(put("/proc/self/uid_map", map)));
	say("other=%s", result(put("/proc/self/uid_map", "0 4242 1")));
	snprintf(map, sizeof(map), "0 %u 1", gid);
	say("gid_before_deny=%s", result(put("/proc/self/gid_map", map)));
	say("rubbish=%s", result(put("/proc/self/setgroups", "denied")));
	say("allow=%s", result(put("/proc/self/setgroups", "allow\n")));
	say("deny=%s", result(put("/proc/self/setgroups", "deny\n")));
	say("allow_again=%s", result(put("/proc/self/setgroups", "allow")));
	say("gid=%s", result(put("/proc/self/gid_map", map)));
	say("deny_late=%s", result(put("/proc/self/setgroups", "deny")));
	snprintf(map, sizeof(map), " 7\t%u  1 \n", uid);
	say("uid=%s", result(put("/proc/self/uid_map", map)));
	say("again=%s", result(put("/proc/self/uid_map", map)));
	say("%d %d '%s' '%s'", getuid(), getgid(), get("/proc/self/uid_map"), get("/proc/self/gid_map"));
	say("setuid0=%s setuid7=%s setresuid=%s", result(setuid(0)), result(setuid(7)),
	    result(setresuid(-1, 7, 7)));
	say("setgroups=%s", result(setgroups(0, NULL)));
}

static void do_map_of_child(void)
{
	pid_t pid = helper(plain);
	char path[40], map[60];

	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	snprintf(map, sizeof(map), "0 %u 1", uid);
	say("other=%s", result(put(path, "0 4242 1")));
	say("range=%s", result(put(path, "0 4242 10")));
	say("self=%s '%s'", result(put(path, map)), get(path));
	say("Uid=%s", field(pid, "Uid"));
	say("grand=%s", result(put("/proc/self/uid_map", map)));
	end(pid);
}

static void do_stdio(void)
{
	char map[60];
	FILE *f;
	int fd, n;

	plain();
	prctl(PR_SET_DUMPABLE, 1);
	f = fopen("/proc/self/setgroups", "w");
	if (f) {
		fputs("deny", f);
		n = fclose(f);
		say("setgroups=%d %s", n, get("/proc/self/setgroups"));
	}
	f = fopen("/proc/self/uid_map", "w");
	if (f) {
		fprintf(f, "0 %u 2", uid);
		n = fclose(f);
		say("bad=%d", n);
	}
	f = fopen("/proc/self/uid_map", "w");
	if (f) {
		fprintf(f, "0 %u 1", uid);
		n = fflush(f);
		say("good=%d", n);
		fclose(f);
	}
	fd = open("/proc/self/gid_map", O_WRONLY);
	snprintf(map, sizeof(map), "0 %u 1\n", gid);
	n = dprintf(fd, "%s", map);
	say("dprintf=%d", n > 0);
	n = write(fd, map, strlen(map));
	say("at_the_end=%s %d %d", result(n), getuid(), getgid());
	close(fd);
	say("rdwr=%s", result(open("/proc/self/uid_map", O_RDWR)));
	say("rdonly_write=%s", result(write(open("/proc/self/uid_map", O_RDONLY), "x", 1)));
}

static void do_depth(void)
{
	int n = 0;

	while (n < 40 && !enter(0))
		n++;
	say("levels=%d %s uid=%d", n, errno_name(errno), getuid());
}

static void do_max_users(void)
{
	pid_t a;
	int fd;

	inside();
	say("max=%s", get("/proc/sys/user/max_user_namespaces"));
	say("set=%s", result(put("/proc/sys/user/max_user_namespaces", "1\n")));
	say("max=%s", get("/proc/sys/user/max_user_namespaces"));
	a = helper(inside);
	say("2nd=%s", result(unshare(CLONE_NEWUSER)));
	end(a);
	for (int i = 0; i < 100 && (fd = unshare(CLONE_NEWUSER)); i++)
		usleep(10000);
	say("after=%s", result(fd));
	say("max=%s", get("/proc/sys/user/max_user_namespaces"));
}


static void do_max_nested(void)
{
	inside();
	put("/proc/sys/user/max_user_namespaces", "2");
	say("1st=%s", result(enter(0)));
	say("inner=%s", get("/proc/sys/user/max_user_namespaces"));
	say("2nd=%s", result(enter(0)));
	say("3rd=%s", result(enter(0)));
}

static void do_sysctls(void)
{
	static const char *const bad[] = { "-1", "2147483648", "x", "", "5x", "0x10", "010", " 7 ", "7 8" };

	say("init_write=%s", result(put("/proc/sys/user/max_uts_namespaces", "5")));
	inside();
	say("%s %s", get("/proc/sys/user/max_uts_namespaces"), get("/proc/sys/user/max_inotify_watches"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		int ret = put("/proc/sys/user/max_uts_namespaces", bad[i]);

		say("'%s'=%s:%s", bad[i], result(ret), get("/proc/sys/user/max_uts_namespaces"));
	}
	say("deeper=%s %s", result(enter(0)), get("/proc/sys/user/max_uts_namespaces"));
	say("mq=%s", result(put("/proc/sys/fs/mqueue/queues_max", "5")));
}

static void do_ipc(void)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	char name[40];
	int n = 0;

	say("enter=%s", result(enter(CLONE_NEWIPC)));
	say("%s %s", get("/proc/sys/fs/mqueue/queues_max"), get("/proc/sys/fs/mqueue/msg_max"));
	say("set=%s", result(put("/proc/sys/fs/mqueue/queues_max", "2")));
	say("range=%s", result(put("/proc/sys/fs/mqueue/msg_max", "65537")));
	for (; n < 5; n++) {
		snprintf(name, sizeof(name), "/userns-%d-%d", getpid(), n);
		if (mq_open(name, O_CREAT | O_RDWR, 0600, &attr) < 0)
			break;
	}
	say("queues=%d %s", n, errno_name(errno));
	say("again=%s %s", result(unshare(CLONE_NEWIPC)), get("/proc/sys/fs/mqueue/queues_max"));
	snprintf(name, sizeof(name), "/userns-%d-0", getpid());
	say("gone=%s", result(mq_open(name, O_RDWR)));
}

static void do_setns(void)
{
	pid_t a = helper(inside), b;
	char path[40], mine[60] = "", other[60] = "";
	int own, fd;
	char hidden;

	own = open("/proc/self/ns/user", O_RDONLY);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", a);
	if (readlink("/proc/self/ns/user", mine, 59) < 0 || readlink(path, other, 59) < 0)
		say("readlink=%s", errno_name(errno));
	say("differ=%d form=%d", !!strcmp(mine, other), sscanf(other, "user:[%*u%c", &hidden));
	fd = open(path, O_RDONLY);
	say("own=%s", result(setns(own, CLONE_NEWUSER)));
	say("type=%s", result(setns(fd, CLONE_NEWUTS)));
	say("child=%s", result(setns(fd, 0)));
	say("uid=%d CapEff=%s", getuid(), field(0, "CapEff"));
	say("again=%s back=%s", result(setns(fd, CLONE_NEWUSER)), result(setns(own, CLONE_NEWUSER)));
	b = fork();
	if (!b) {
		say("deeper=%s", result(enter(0)));
		say("up=%s", result(setns(fd, CLONE_NEWUSER)));
		_exit(0);
	}
	waitpid(b, NULL, 0);
	end(a);
	say("Uid=%s", field(0, "Uid"));
	say("bad=%s file=%s", result(setns(-1, 0)), result(setns(open("/proc/self/status", O_RDONLY), 0)));
}

/* A namespace that is only held by a descriptor. */
static void do_setns_held(void)
{
	pid_t a = helper(inside);
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", a);
	fd = open(path, O_RDONLY);
	end(a);
	say("setns=%s uid=%d", result(setns(fd, CLONE_NEWUSER)), getuid());
}

static void do_caps(void)
{
	static const int flags[] = { CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWCGROUP };

	for (int i = 0; i < 3; i++)
		say("%s", result(unshare(flags[i])));
	say("NS=%s NET=%s PID=%s", result(unshare(CLONE_NEWNS)), result(unshare(CLONE_NEWNET)),
	    result(unshare(CLONE_NEWPID)));
	say("together=%s", result(unshare(CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWIPC)));
	say("inside=%s %s", result(unshare(CLONE_NEWUTS)), result(unshare(CLONE_NEWIPC)));
	say("bad=%s", result(unshare(0x40000000 | 1)));
	say("none=%s", result(unshare(0)));
	say("files=%s", result(unshare(CLONE_FILES | CLONE_FS)));
}

static void do_clone_flags(void)
{
	struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	pid_t pid;
	int status = -1;

	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (!pid)
		_exit(getuid() == 65534 ? 7 : 8);
	say("clone3=%s", result(pid));
	waitpid(pid, &status, 0);
	say("%d", WEXITSTATUS(status));
	pid = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWIPC | SIGCHLD, 0, 0, 0, 0);
	if (!pid)
		_exit(getuid() == 65534 ? 7 : 8);
	say("clone=%s", result(pid));
	waitpid(pid, &status, 0);
	say("%d", WEXITSTATUS(status));
	args.flags = CLONE_NEWUSER | CLONE_FS;
	say("FS=%s", result(syscall(SYS_clone3, &args, sizeof(args))));
	args.flags = CLONE_NEWIPC;
	say("IPC=%s uid=%d", result(syscall(SYS_clone3, &args, sizeof(args))), getuid() == uid);
	say("THREAD=%s", result(syscall(SYS_clone, CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM,
					0, 0, 0, 0)));
}

static void *thread(void *arg)
{
	pause();
	return arg;
}

static void do_threads(void)
{
	pthread_t t;
	pid_t a = helper(inside);
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", a);
	fd = open(path, O_RDONLY);
	pthread_create(&t, NULL, thread, NULL);
	say("unshare=%s", result(unshare(CLONE_NEWUSER)));
	say("uts=%s", result(unshare(CLONE_NEWUTS)));
	say("setns=%s", result(setns(fd, CLONE_NEWUSER)));
	pthread_cancel(t);
	pthread_join(t, NULL);
	for (int i = 0; i < 100 && unshare(CLONE_NEWUSER); i++)
		usleep(1000);
	say("alone=%d", getuid());
	end(a);
}

static void do_nproc(void)
{
	pid_t pids[20];
	int n;

	soft(RLIMIT_NPROC, 6);
	inside();
	soft(RLIMIT_NPROC, 3);
	n = forks(pids, 20);
	say("soft3=%d %s", n, errno_name(errno));
	for (int i = 0; i < n; i++)
		end(pids[i]);
	soft(RLIMIT_NPROC, 20);
	n = forks(pids, 20);
	say("creator6=%d %s", n, errno_name(errno));
	for (int i = 0; i < n; i++)
		end(pids[i]);
	n = forks(pids, 2);
	say("again=%d", n);
	for (int i = 0; i < n; i++)
		end(pids[i]);
}

static void do_signals(void)
{
	pid_t child;
	int n;

	block_all();
	soft(RLIMIT_SIGPENDING, 8);
	fill(getpid(), 2);
	child = helper(inside);
	n = fill(child, 3);
	say("child=%d SigQ=%s me=%s", n, field(child, "SigQ"), field(0, "SigQ"));
	n = fill(child, 20);
	say("more=%d %s", n, errno_name(errno));
	say("SigQ=%s me=%s", field(child, "SigQ"), field(0, "SigQ"));
	say("self=%d", fill(getpid(), 20));
	end(child);
	say("after=%s", field(0, "SigQ"));
	inside();
	say("inside=%s", field(0, "SigQ"));
	say("room=%d", fill(getpid(), 20));
}

static void do_prior_pending(void)
{
	struct timespec zero = { 0 };
	sigset_t set;
	int n, refused;

	block_all();
	soft(RLIMIT_SIGPENDING, 6);
	fill(getpid(), 4);
	inside();
	say("SigQ=%s", field(0, "SigQ"));
	errno = 0;
	n = fill(getpid(), 20);
	refused = errno;
	say("more=%d %s %s", n, errno_name(refused), field(0, "SigQ"));
	sigfillset(&set);
	for (int i = 0; i < 4; i++)
		sigtimedwait(&set, NULL, &zero);
	n = fill(getpid(), 20);
	say("after=%d %s", n, field(0, "SigQ"));
}

static void do_created_over_limit(void)
{
	siginfo_t info;
	struct timespec zero = { 0 };
	sigset_t set;

	block_all();
	soft(RLIMIT_SIGPENDING, 3);
	fill(getpid(), 3);
	soft(RLIMIT_SIGPENDING, 1);
	say("enter=%s", result(enter(0)));
	soft(RLIMIT_SIGPENDING, 50);
	say("queue=%s", result(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ 1 })));
	say("kill=%s", result(kill(getpid(), SIGRTMIN + 2)));
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 2);
	memset(&info, 0, sizeof(info));
	sigtimedwait(&set, &info, &zero);
	say("info=%d/%d", info.si_code, info.si_pid == getpid());
	say("usr1=%s SigQ=%s", result(kill(getpid(), SIGUSR1)), field(0, "SigQ"));
}

static void do_siginfo(void)
{
	struct timespec second = { .tv_sec = 1 };
	sigset_t set;
	siginfo_t info;
	pid_t parent = getpid(), pid;

	block_all();
	pid = fork();
	if (!pid) {
		inside();
		kill(parent, SIGUSR1);
		sigqueue(parent, SIGRTMIN, (union sigval){ 1 });
		kill(parent, SIGRTMIN + 1);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	sigfillset(&set);
	sigdelset(&set, SIGCHLD);
	while (sigtimedwait(&set, &info, &second) > 0 && info.si_signo != SIGRTMIN + 1)
		say("%d:%d", info.si_code, info.si_uid == uid);
	say("last:%d:%d", info.si_code, info.si_uid == uid);
	plain();
	kill(getpid(), SIGUSR1);
	sigtimedwait(&set, &info, &second);
	say("inside:%u", info.si_uid);
}

static void outside(void)
{
}

static void do_kill(void)
{
	pid_t a = helper(inside), b = helper(outside);

	say("own=%s", result(kill(a, 0)));
	inside();
	say("sibling=%s outside=%s", result(kill(a, 0)), result(kill(b, 0)));
	end(a);
	end(b);
}

static void do_queues(void)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	char name[40];
	int n = 0;

	soft(RLIMIT_MSGQUEUE, 300);
	inside();
	soft(RLIMIT_MSGQUEUE, 800);
	for (; n < 9; n++) {
		snprintf(name, sizeof(name), "/userns-%d-%d", getpid(), n);
		if (mq_open(name, O_CREAT | O_RDWR, 0600, &attr) < 0)
			break;
	}
	say("queues=%d %s", n, errno_name(errno));
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "/userns-%d-%d", getpid(), i);
		mq_unlink(name);
	}
}

static void do_limits(void)
{
	pid_t a = helper(inside), b = helper(outside);
	struct rlimit r;

	say("below=%s", result(prlimit(a, RLIMIT_NPROC, NULL, &r)));
	inside();
	getrlimit(RLIMIT_NPROC, &r);
	r.rlim_max++;
	say("hard=%s", result(setrlimit(RLIMIT_NPROC, &r)));
	say("sibling=%s", result(prlimit(a, RLIMIT_NPROC, NULL, &r)));
	say("outside=%s", result(prlimit(b, RLIMIT_NPROC, NULL, &r)));
	end(a);
	end(b);
}

static void do_inotify(void)
{
	int a, b;

	inside();
	put("/proc/sys/user/max_inotify_instances", "2");
	put("/proc/sys/user/max_inotify_watches", "2");
	a = inotify_init1(IN_CLOEXEC);
	b = inotify_init();
	say("1=%s 2=%s", result(a), result(b));
	say("3=%s", result(inotify_init()));
	close(b);
	b = inotify_init();
	say("closed=%s", result(b));
	say("w1=%s", result(inotify_add_watch(a, "/tmp", IN_OPEN)));
	say("same=%s", result(inotify_add_watch(a, "/tmp", IN_CREATE)));
	say("w2=%s", result(inotify_add_watch(b, "/", IN_OPEN)));
	say("w3=%s", result(inotify_add_watch(a, "/proc", IN_OPEN)));
	close(b);
	say("closed=%s", result(inotify_add_watch(a, "/proc", IN_OPEN)));
}

static void do_owner(void)
{
	struct stat st;
	char path[40];

	plain();
	snprintf(path, sizeof(path), "/tmp");
	stat(path, &st);
	say("tmp=%u", st.st_uid);
	inside();
	say("denied=%d", getuid());
}

static void do_exec(void)
{
	inside();
	fflush(stdout);
	execl("/bin/sh", "sh", "-c",
	      "id -u; grep -E 'CapEff|^Uid' /proc/self/status | tr '\\n' ' '; "
	      "cat /proc/self/uid_map; cat /proc/self/setgroups; readlink /proc/self/ns/user | "
	      "sed 's/[0-9]//g'", NULL);
}

/* A shell's own echo writes through stdio, /bin/echo is a program of its own. */
static void do_shell(void)
{
	pid_t child = helper(plain), shell;
	char command[300];

	snprintf(command, sizeof(command),
		 "cd /proc/%d && echo deny >setgroups && echo 0 %u 1 >uid_map && "
		 "/bin/echo 0 %u 1 >gid_map; echo $?; echo 0 %u 1 2>/dev/null >uid_map; echo $?; "
		 "cat setgroups uid_map gid_map | tr -s ' '",
		 child, uid, gid, uid);
	fflush(stdout);
	shell = fork();
	if (!shell) {
		execlp("bash", "bash", "-c", command, NULL);
		_exit(127);
	}
	waitpid(shell, NULL, 0);
	end(child);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "ids", do_ids },
	{ "maps", do_maps },
	{ "map_of_child", do_map_of_child },
	{ "stdio", do_stdio },
	{ "depth", do_depth },
	{ "max_users", do_max_users },
	{ "max_nested", do_max_nested },
	{ "sysctls", do_sysctls },
	{ "ipc", do_ipc },
	{ "setns", do_setns },
	{ "setns_held", do_setns_held },
	{ "caps", do_caps },
	{ "clone_flags", do_clone_flags },
	{ "threads", do_threads },
	{ "nproc", do_nproc },
	{ "signals", do_signals },
	{ "prior_pending", do_prior_pending },
	{ "created_over_limit", do_created_over_limit },
	{ "siginfo", do_siginfo },
	{ "kill", do_kill },
	{ "queues", do_queues },
	{ "limits", do_limits },
	{ "inotify", do_inotify },
	{ "owner", do_owner },
	{ "exec", do_exec },
	{ "shell", do_shell },
};

int main(int argc, char **argv)
{
	uid = getuid();
	gid = getgid();
	alarm(20);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (argc > 1 && !strcmp(argv[1], "--list"))
			puts(cases[i].name);
		else if (argc > 1 && !strcmp(argv[1], cases[i].name))
			cases[i].run();
	}
	return 0;
}
