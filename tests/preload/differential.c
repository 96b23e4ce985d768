/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interprets programs of the calls that are accounted. What it prints natively and what it prints in
 * a world must be equal: differential.py makes the programs and compares.
 *
 * usage: differential --uid BASE [--span N] FILE
 *
 * A file holds programs. A line `program NAME KIND WORD...` begins one: KIND is how its first process
 * starts (user, saved, caps, ns, rootns), words are `ipc` and NAME=SOFT:HARD for its limits. Each
 * other line is a step: WHO OP ARG..., where WHO is one of SLOTS tasks (0 is the first process) or c,
 * the controller, which starts and judges everything; or `race WHO,WHO... OP ARG...`, which several
 * do at once. A step that cannot be done, because a task is not there, says `skip`; so any line can be
 * left out. After each step everybody stands still, and what has changed in /proc/PID/status is
 * printed for every task. Programs see no process ids: tasks go by their slots, uids are u0, u1, u2
 * and u3, of which each program has its own.
 */
#include <ctype.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "emu/lib/rawsys.h"
#include "tests/preload/check.h"

#define SLOTS      12
#define CONTROLLER SLOTS
#define WORDS      12
#define UIDS       4
#define HANDLES    8
#define AREA_PAGES 16
#define PAGE       4096
#define STALL_MS   10000
#define RACER      8 /* value of the signals of a race */
#define ASYNC_MS   400 /* how long what the kernel releases in its own time may take */
#define RT         SIGRTMIN
#define KERNEL_SET 8 /* bytes of a signal set for raw system calls */

/* Descriptors of every worker, also after exec. */
#define FD_SHARED  200
#define FD_ANSWER  201
#define FD_LIFE    202 /* a pipe: its end is that of the controller */
#define FD_COMMAND 210

extern char **environ;

/* What a handler saw. */
struct note {
	int sig, code, pid, uid, value;
};

/* Where a task gets its commands. Those of a process are counted at its leader's. */
struct slot {
	atomic_int pid, tid;
	atomic_int answered;
	int number; /* of a race */
	struct rlimit sigpending, msgqueue; /* at the last rest */
	int error; /* of an exec in a child that shares memory */
	uint64_t timer_sigs; /* signals that timers of the process have sent, or will */
	char command[200];
	char answer[1600];
	atomic_uint nr_notes;
	struct note notes[64];
};

struct shared {
	struct slot slot[SLOTS + 1];
	uid_t base;
	int program;
	pid_t controller;
	long long loose_user, loose_ipc; /* until then such namespaces may be being released */
	bool nested; /* somebody has made a user namespace */
	bool moved; /* somebody has other ids, or is in another namespace, than at first */
	atomic_int arrived, expected; /* at the start of a race */
	int shm[HANDLES]; /* identifiers, -1 */
	int shm_ns[HANDLES];
	bool shm_for_all[HANDLES];
};
static struct shared *shared;

static __thread int me; /* slot of this thread */
static __thread bool racing;
static int home; /* slot of the process */
static char self_path[400];
static uid_t outer_uid; /* effective ids before the last namespace */
static gid_t outer_gid;
static int life_end = -1; /* the controller's end of FD_LIFE */
/* Made past libc, which does not know its first thread: nor can it tell it of new ids. */
static bool unknown_to_libc;

/* What a process has. */
static pthread_t handle_of[SLOTS + 1];
static char *area;
static timer_t timers[64];
static int nr_timers;
static bool has_timer[_NSIG]; /* and had one since the process began */
static mqd_t queues[64];
static int nr_queues;
static int sfds[HANDLES];
static int nr_sfds;
static void *maps[HANDLES];
static int map_pages[HANDLES];
static int nr_maps;
static int instances[HANDLES];
static int nr_instances;
static void *attached[HANDLES];

/* --- words --- */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	char *answer = shared->slot[me].answer;
	size_t used = strlen(answer), room = sizeof(shared->slot[me].answer) - used;
	va_list ap;

	if (used && room > 1) {
		strcpy(answer + used, " ");
		used++;
		room--;
	}
	va_start(ap, format);
	vsnprintf(answer + used, room, format, ap);
	va_end(ap);
}

static const char *result(long ret)
{
	return ret == -1 ? err_name(errno) : "ok";
}

/* outcome - an errno, 0 for success. */
static const char *outcome(int err)
{
	return err ? err_name(err) : "ok";
}

static const char *sig_name(int sig)
{
	static __thread char name[8][8];
	static __thread int next;
	char *n = name[next++ % 8];

	if (sig >= RT)
		snprintf(n, 8, "R%d", (sig - RT) & 63);
	else
		snprintf(n, 8, "%d", sig & 63);
	return n;
}

static int sig_of(const char *word)
{
	return *word == 'R' ? RT + atoi(word + 1) : atoi(word);
}

static sigset_t set_of(const char *words)
{
	sigset_t set;

	sigfillset(&set);
	if (!strcmp(words, "all"))
		return set;
	sigemptyset(&set);
	while (*words) {
		sigaddset(&set, sig_of(words));
		words += strcspn(words, ",");
		words += *words == ',';
	}
	return set;
}

static const char *uid_name(uid_t uid)
{
	static __thread char name[8][16];
	static __thread int next;
	char *n = name[next++ % 8];

	if (uid >= shared->base && uid < shared->base + UIDS)
		snprintf(n, 16, "u%u", uid - shared->base);
	else
		snprintf(n, 16, "%u", uid);
	return n;
}

static uid_t uid_of(const char *word)
{
	if (*word == '-')
		return -1;
	return *word == 'u' ? shared->base + atoi(word + 1) : (uid_t)atoi(word);
}

/* A task by its pid; a pid that nobody has told is a child of a probe. */
static const char *pid_name(pid_t pid)
{
	static __thread char name[4][12];
	static __thread int next;
	char *n = name[next++ % 4];

	if (!pid || pid == shared->controller)
		return pid ? "c" : "0";
	for (int i = 0; i < SLOTS; i++)
		if (shared->slot[i].pid == pid && shared->slot[i].tid == pid) {
			snprintf(n, 12, "p%d", i);
			return n;
		}
	return "other";
}

/*
 * Who sent what: by name, unless chance decides it. A world says whose uid it is when the signal is
 * taken, the kernel when it was sent; so it is left out as soon as that is not the same.
 */
static void say_sender(int sig, int code, pid_t pid, uid_t uid, int value)
{
	/* Of children that end at once, one tells for all. */
	if (sig == SIGCHLD && code > 0)
		say("17/child");
	else if (value == RACER)
		say("%s/%d/racer", sig_name(sig), code);
	else
		say("%s/%d/%s/%s/%d", sig_name(sig), code, pid_name(pid),
		    shared->moved ? "" : uid_name(uid), value);
}

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), ret, err;

	if (fd < 0)
		return -1;
	ret = write(fd, text, strlen(text));
	err = errno;
	close(fd);
	errno = err;
	return ret < 0 ? -1 : 0;
}

/* raw - past libc, which keeps the ids of threads it made. */
#define raw(...) syscall(__VA_ARGS__)

static pid_t pid_at(const char *word)
{
	return shared->slot[atoi(word)].pid;
}

/* any_of - which of @n a program means by any number. */
static int any_of(const char *word, int n)
{
	return n ? (unsigned int)atoi(word) % n : 0;
}

/* --- workers --- */

static void answer(void)
{
	uint64_t one = 1;

	shared->slot[me].answered = 1;
	/* Past libc, as all that follows until the next command: who has answered is at rest. */
	if (sys_call(SYS_write, FD_ANSWER, &one, sizeof(one)) != sizeof(one))
		_exit(98);
}

static void perform(char *line);

static void new_area(void)
{
	area = mmap(NULL, AREA_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
}

/* Do as told for ever. The end of the controller is everybody's. */
__attribute__((noreturn)) static void work(void)
{
	struct pollfd p[2] = { { .fd = FD_COMMAND + me, .events = POLLIN },
			       { .fd = FD_LIFE, .events = POLLIN } };
	struct slot *slot = &shared->slot[me];
	char line[sizeof(slot->command)];
	uint64_t n;

	for (;;) {
		if (sys_call(SYS_poll, p, 2, -1) < 0)
			continue;
		if (p[1].revents)
			_exit(0);
		if (!p[0].revents ||
		    sys_call(SYS_read, FD_COMMAND + me, &n, sizeof(n)) != sizeof(n))
			continue;
		strcpy(line, slot->command);
		*slot->answer = 0;
		perform(line);
		answer();
	}
}

/* become - the caller, a new process, is @slot from now on. */
__attribute__((noreturn)) static void become(int slot, const char *text)
{
	me = home = slot;
	shared->slot[slot].nr_notes = 0;
	strcpy(shared->slot[slot].answer, text);
	nr_timers = 0;
	memset(has_timer, 0, sizeof(has_timer));
	memset(attached, 0, sizeof(attached));
	prctl(PR_SET_DUMPABLE, 1);
	shared->slot[slot].pid = raw(SYS_getpid);
	shared->slot[slot].tid = raw(SYS_getpid);
	answer();
	work();
}

static void hold(void)
{
	struct pollfd p = { .fd = FD_LIFE, .events = POLLIN };

	while (poll(&p, 1, -1) < 1)
		;
	_exit(0);
}

/* patiently - once more while a release that the kernel makes in its own time may give room. */
#define patiently(ret, errs, loose)                                                \
	({                                                                         \
		long ret_;                                                         \
		while ((ret_ = (ret)) == -1 && (errs) && now_ms() < shared->loose) \
			pause_ms(2);                                               \
		ret_;                                                              \
	})

/* soon - wait for what takes microseconds as a rule. */
#define soon(condition)                                 \
	({                                              \
		long long end_ = now_ms() + 5000;       \
		while (!(condition) && now_ms() < end_) \
			usleep(30);                     \
	})

/* --- operations: processes --- */

typedef char **words;

static void op_ping(words w)
{
	(void)w;
	getrlimit(RLIMIT_SIGPENDING, &shared->slot[me].sigpending);
	getrlimit(RLIMIT_MSGQUEUE, &shared->slot[me].msgqueue);
}

static char **worker_argv(const char *slot)
{
	static char *argv[4];

	argv[0] = self_path;
	argv[1] = (char *)"--worker";
	argv[2] = (char *)slot;
	return argv;
}

static long raw_clone(uint64_t flags, bool three)
{
	struct clone_args args = { .flags = flags, .exit_signal = SIGCHLD };

	return three ? raw(SYS_clone3, &args, sizeof(args)) :
		       raw(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

static pid_t vfork_worker(int slot, char **argv)
{
	volatile pid_t pid;
	struct slot *s = &shared->slot[slot];

	s->error = 0;
	pid = vfork();
	if (!pid) {
		execv(self_path, argv);
		s->error = errno;
		_exit(127);
	}
	if (pid > 0 && s->error) {
		waitpid(pid, NULL, 0);
		say("exec");
		errno = s->error;
		pid = -1;
	}
	return pid;
}

/* spawn SLOT HOW: a child. */
static void op_spawn(words w)
{
	int slot = atoi(w[1]), err;
	uint64_t flags = 0;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	pid_t pid = -1;

	if (strstr(w[2], "user"))
		flags |= CLONE_NEWUSER;
	if (strstr(w[2], "ipc"))
		flags |= CLONE_NEWIPC;
	if (strstr(w[2], "uts"))
		flags |= CLONE_NEWUTS;
	if (!strcmp(w[2], "fork")) {
		pid = fork();
	} else if (!strcmp(w[2], "vfork")) {
		pid = vfork_worker(slot, worker_argv(w[1]));
	} else if (!strcmp(w[2], "posix")) {
		err = posix_spawn(&pid, self_path, NULL, NULL, worker_argv(w[1]), environ);
		if (err) {
			pid = -1;
			errno = err;
		}
	} else {
		pid = patiently(raw_clone(flags, strchr(w[2], '3')), errno == ENOSPC, loose_user);
	}
	if (!pid) {
		if (flags & CLONE_NEWUSER) {
			outer_uid = uid;
			outer_gid = gid;
		}
		unknown_to_libc = strncmp(w[2], "fork", 4);
		become(slot, "");
	}
	say("%s", result(pid));
}

static void *thread_main(void *arg)
{
	me = (intptr_t)arg;
	shared->slot[me].pid = getpid();
	shared->slot[me].tid = raw(SYS_gettid);
	*shared->slot[me].answer = 0;
	answer();
	work();
}

static int make_thread(pthread_t *t, void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	err = pthread_create(t, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return err;
}

/* thread SLOT */
static void op_thread(words w)
{
	intptr_t slot = atoi(w[1]);

	say("%s", outcome(make_thread(&handle_of[slot], thread_main, (void *)slot)));
}

static void op_texit(words w)
{
	(void)w;
	pthread_detach(pthread_self());
	pthread_exit(NULL);
}

/* join SLOT: it is told to end. */
static void op_join(words w)
{
	int slot = atoi(w[1]);
	uint64_t one = 1;

	strcpy(shared->slot[slot].command, "tend");
	if (write(FD_COMMAND + slot, &one, sizeof(one)) != sizeof(one))
		_exit(97);
	say("%s", outcome(pthread_join(handle_of[slot], NULL)));
}

static void op_tend(words w)
{
	(void)w;
	pthread_exit(NULL);
}

static void op_exit(words w)
{
	_exit(atoi(w[1]));
}

/* wait SLOT HOW: never blocks. */
static void op_wait(words w)
{
	pid_t pid = pid_at(w[1]), ret;
	siginfo_t info = { 0 };
	int status = 0;

	if (!strcmp(w[2], "waitid")) {
		ret = waitid(P_PID, pid, &info, WEXITED | WNOHANG);
		if (!ret && info.si_pid)
			say("reaped %d/%d/%s", info.si_code, info.si_status, uid_name(info.si_uid));
		else
			say("%s", ret ? result(ret) : "none");
		return;
	}
	ret = waitpid(!strcmp(w[2], "any") ? -1 : pid, &status, WNOHANG | __WALL);
	if (ret > 0 && WIFEXITED(status))
		say("reaped %s exit %d", pid_name(ret), WEXITSTATUS(status));
	else if (ret > 0)
		say("reaped %s signal %d", pid_name(ret), WTERMSIG(status));
	else
		say("%s", ret ? result(ret) : "none");
}

/* settle PID: until the death of the child has been told. */
static void op_settle(words w)
{
	siginfo_t info;

	while (waitid(P_PID, atoi(w[1]), &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
}

/* exec HOW: the new program answers. */
static void op_exec(words w)
{
	char slot[8];
	int fd;

	snprintf(slot, sizeof(slot), "%d", me);
	if (!strcmp(w[1], "fd")) {
		fd = open(self_path, O_PATH | O_CLOEXEC);
		fexecve(fd, worker_argv(slot), environ);
		say("%s", result(-1));
		close(fd);
		return;
	}
	execv(self_path, worker_argv(slot));
	say("%s", result(-1));
}

static void gone(pid_t pid)
{
	soon(kill(pid, 0) && errno == ESRCH);
}

static int status_number(const char *path, const char *key)
{
	char text[4096], *at;
	int fd = open(path, O_RDONLY), n;

	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	at = strstr(text, key);
	return at ? atoi(at + strlen(key)) : -1;
}

/* forks N: how many children there can be. */
static void op_forks(words w)
{
	pid_t pid[64];
	int most = atoi(w[1]), n = 0, err = 0;

	for (; n < most && n < 64; n++) {
		pid[n] = fork();
		if (!pid[n])
			hold();
		if (pid[n] < 0) {
			err = errno;
			break;
		}
	}
	for (int i = 0; i < n; i++) {
		kill(pid[i], SIGKILL);
		while (waitpid(pid[i], NULL, 0) < 0 && errno == EINTR)
			;
		gone(pid[i]);
	}
	shared->slot[me].number = n;
	say("%d %s", n, outcome(err));
}

static void *thread_hold(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };

	while (poll(&p, 1, -1) < 1)
		;
	return NULL;
}

/* threads N: how many there can be. */
static void op_threads(words w)
{
	int most = atoi(w[1]), n = 0, err = 0, fd[2], before;
	pthread_t t[64];

	before = status_number("/proc/self/status", "\nThreads:");
	if (pipe2(fd, O_CLOEXEC))
		return;
	for (; n < most && n < 64; n++) {
		err = make_thread(&t[n], thread_hold, &fd[0]);
		if (err)
			break;
	}
	close(fd[1]);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	soon(status_number("/proc/self/status", "\nThreads:") == before);
	close(fd[0]);
	say("%d %s", n, outcome(err));
}

/* churn N: children that come and go. */
static void op_churn(words w)
{
	int n = 0;

	for (int i = atoi(w[1]); i > 0; i--) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (pid < 0)
			continue;
		n++;
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		gone(pid);
	}
	shared->slot[me].number = n;
	say("%d", n);
}

/* --- operations: ids and namespaces --- */

/*
 * libc tells other threads of new ids by a signal, which the kernel refuses as any other: then they
 * keep theirs and nobody hears of it. A world has no such threads.
 */
static bool libc_reaches_threads(void)
{
	struct rlimit r;

	if (status_number("/proc/self/status", "\nThreads:") == 1)
		return true;
	return !unknown_to_libc && !shared->nested && !getrlimit(RLIMIT_SIGPENDING, &r) &&
	       status_number("/proc/self/status", "\nSigQ:") + SLOTS < (long long)r.rlim_cur;
}

/* ids CALL A B C: of the whole process. */
static void op_ids(words w)
{
	uid_t a = uid_of(w[2]), b = w[3] ? uid_of(w[3]) : 0, c = w[3] && w[4] ? uid_of(w[4]) : 0;
	bool alone = unknown_to_libc;
	int ret;

	if (!libc_reaches_threads()) {
		say("skip");
		return;
	}

	if (!strcmp(w[1], "setuid"))
		ret = alone ? raw(SYS_setuid, a) : setuid(a);
	else if (!strcmp(w[1], "seteuid"))
		ret = alone ? raw(SYS_setresuid, -1, a, -1) : seteuid(a);
	else if (!strcmp(w[1], "setreuid"))
		ret = alone ? raw(SYS_setreuid, a, b) : setreuid(a, b);
	else
		ret = alone ? raw(SYS_setresuid, a, b, c) : setresuid(a, b, c);
	say("%s", result(ret));
	prctl(PR_SET_DUMPABLE, 1);
}

static int flags_of(const char *text)
{
	static const struct {
		const char *name;
		int flag;
	} flags[] = {
		{ "user", CLONE_NEWUSER }, { "ipc", CLONE_NEWIPC }, { "uts", CLONE_NEWUTS },
		{ "net", CLONE_NEWNET },   { "mnt", CLONE_NEWNS },  { "cgroup", CLONE_NEWCGROUP },
		{ "fs", CLONE_FS },
	};
	int all = 0;

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (strstr(text, flags[i].name))
			all |= flags[i].flag;
	return all;
}

/* unshare FLAG+FLAG... */
static void op_unshare(words w)
{
	int flags = flags_of(w[1]), ret;
	uid_t uid = geteuid();
	gid_t gid = getegid();

	ret = patiently(unshare(flags), errno == ENOSPC, loose_user);
	say("%s", result(ret));
	if (!ret && flags & CLONE_NEWUSER) {
		outer_uid = uid;
		outer_gid = gid;
		prctl(PR_SET_DUMPABLE, 1);
	}
}

static const char *put_map(pid_t pid, const char *file, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	return result(put(path, text));
}

/* map SLOT HOW: who made the namespace as 0, the program's four uids as 0..3 or as they are. */
static void op_map(words w)
{
	bool self = atoi(w[1]) == home && me != CONTROLLER;
	uid_t uid = self ? outer_uid : geteuid();
	gid_t gid = self ? outer_gid : getegid();
	pid_t pid = pid_at(w[1]);
	char text[80];

	if (!strcmp(w[2], "one")) {
		snprintf(text, sizeof(text), "0 %u 1\n", uid);
		say("%s", put_map(pid, "setgroups", "deny"));
	} else if (!strcmp(w[2], "own")) {
		snprintf(text, sizeof(text), "%u %u 1\n", uid, uid);
		say("%s", put_map(pid, "setgroups", "deny"));
	} else if (!strcmp(w[2], "four")) {
		snprintf(text, sizeof(text), "0 %u %d\n", shared->base, UIDS);
	} else if (!strcmp(w[2], "same")) {
		snprintf(text, sizeof(text), "%u %u %d\n", shared->base, shared->base, UIDS);
	} else {
		snprintf(text, sizeof(text), "0 1 2\n2 0 1\n");
	}
	say("%s", put_map(pid, "uid_map", text));
	if (!strcmp(w[2], "one"))
		snprintf(text, sizeof(text), "0 %u 1\n", gid);
	else if (!strcmp(w[2], "own"))
		snprintf(text, sizeof(text), "%u %u 1\n", gid, gid);
	say("%s", put_map(pid, "gid_map", text));
}

/* setns SLOT KIND: a world lets one open what it then lets nobody enter. */
static void op_setns(words w)
{
	char path[64];
	int fd, ret;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid_at(w[1]), w[2]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ret = fd < 0 ? fd : setns(fd, 0);
	if (ret && (errno == EACCES || errno == EPERM || errno == EINVAL || errno == ENOENT))
		say("refused");
	else
		say("%s", result(ret));
	if (fd >= 0)
		close(fd);
	prctl(PR_SET_DUMPABLE, 1);
}

/* max KIND VALUE */
static void op_max(words w)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/sys/user/max_%s%s", w[1],
		 strncmp(w[1], "inotify", 7) ? "_namespaces" : "");
	say("%s", result(put(path, w[2])));
}

/* mqsys NAME VALUE */
static void op_mqsys(words w)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/sys/fs/mqueue/%s", w[1]);
	say("%s", result(put(path, w[2])));
}

/* inotify, watch J PATH, notclose J */
static void op_inotify(words w)
{
	int fd;

	(void)w;
	if (nr_instances == HANDLES) {
		say("skip");
		return;
	}
	fd = patiently(inotify_init1(IN_CLOEXEC), errno == EMFILE, loose_user);
	say("%s", result(fd));
	if (fd >= 0)
		instances[nr_instances++] = fd;
}

static void op_watch(words w)
{
	int j = any_of(w[1], nr_instances);

	if (!nr_instances)
		say("skip");
	else
		say("%s", result(inotify_add_watch(instances[j], w[2], IN_DELETE_SELF)));
}

static void op_notclose(words w)
{
	int j = any_of(w[1], nr_instances);

	if (!nr_instances) {
		say("skip");
		return;
	}
	say("%s", result(close(instances[j])));
	memmove(&instances[j], &instances[j + 1], (--nr_instances - j) * sizeof(*instances));
}

/* cap drop|raise N: in the effective set. */
static void op_cap(words w)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	int cap = atoi(w[2]);

	/* libc ends a process whose threads cannot all do the same. */
	if (status_number("/proc/self/status", "\nThreads:") > 1) {
		say("skip");
		return;
	}
	if (raw(SYS_capget, &head, data)) {
		say("capget %s", result(-1));
		return;
	}
	if (*w[1] == 'd')
		data[cap / 32].effective &= ~(1u << cap % 32);
	else
		data[cap / 32].effective |= 1u << cap % 32;
	say("%s", result(raw(SYS_capset, &head, data)));
}

/* --- operations: limits --- */

static int resource_of(const char *name)
{
	switch (*name) {
	case 'n':
		return RLIMIT_NPROC;
	case 's':
		return RLIMIT_SIGPENDING;
	case 'm':
		return strncmp(name, "mem", 3) ? RLIMIT_MSGQUEUE : RLIMIT_MEMLOCK;
	default:
		return -1;
	}
}

static rlim_t limit_of(const char *word, rlim_t kept)
{
	if (*word == '-')
		return kept;
	return !strcmp(word, "inf") ? RLIM_INFINITY : strtoull(word, NULL, 10);
}

/* limit SLOT RESOURCE SOFT HARD */
static void op_limit(words w)
{
	int resource = resource_of(w[2]);
	pid_t pid = pid_at(w[1]);
	struct rlimit r;

	if (prlimit(pid, resource, NULL, &r)) {
		say("read %s", result(-1));
		return;
	}
	r.rlim_cur = limit_of(w[3], r.rlim_cur);
	r.rlim_max = limit_of(w[4], r.rlim_max);
	if (atoi(w[1]) == home && me != CONTROLLER)
		say("%s", result(setrlimit(resource, &r)));
	else
		say("%s", result(prlimit(pid, resource, &r, NULL)));
	prlimit(pid, resource, NULL, &r);
	say("%lld:%lld", (long long)r.rlim_cur, (long long)r.rlim_max);
}

/* --- operations: signals --- */

static void handler(int sig, siginfo_t *info, void *context)
{
	struct slot *s = &shared->slot[home];
	unsigned int i = s->nr_notes++;
	int err = errno;

	(void)context;
	if (i < sizeof(s->notes) / sizeof(*s->notes))
		s->notes[i] =
			(struct note){ sig, info->si_code, info->si_pid, info->si_uid,
				       info->si_code == SI_QUEUE ? info->si_value.sival_int : 0 };
	errno = err;
}

/*
 * mask block|unblock SIGS. A world does not see which of several that wait was taken out by the
 * kernel to kill somebody, and counts it until he is reaped; so none is unblocked.
 */
static void op_mask(words w)
{
	sigset_t set = set_of(w[2]), waiting;
	struct sigaction act;

	sigpending(&waiting);
	for (int sig = RT; sig < RT + 4; sig++)
		if (sigismember(&waiting, sig) && !sigaction(sig, NULL, &act) &&
		    act.sa_handler == SIG_DFL)
			sigdelset(&set, sig);

	say("%s", outcome(pthread_sigmask(*w[1] == 'b' ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL)));
}

/* action SIG ign|dfl|count|nocldwait */
static void op_action(words w)
{
	struct sigaction act = { .sa_flags = SA_SIGINFO, .sa_sigaction = handler };

	sigfillset(&act.sa_mask);
	if (!strcmp(w[2], "ign"))
		act = (struct sigaction){ .sa_handler = SIG_IGN };
	else if (!strcmp(w[2], "dfl"))
		act = (struct sigaction){ .sa_handler = SIG_DFL };
	else if (!strcmp(w[2], "nocldwait"))
		act = (struct sigaction){ .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT };
	say("%s", result(sigaction(sig_of(w[1]), &act, NULL)));
}

static void fill_info(siginfo_t *info, int sig, int code)
{
	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = code;
	info->si_pid = raw(SYS_getpid);
	info->si_uid = getuid();
	info->si_value.sival_int = racing ? RACER : 9;
}

static int pidfd_send(pid_t pid, int sig, siginfo_t *info)
{
	int fd = raw(SYS_pidfd_open, pid, 0), ret, err;

	if (fd < 0)
		return -1;
	ret = raw(SYS_pidfd_send_signal, fd, sig, info, 0);
	err = errno;
	close(fd);
	errno = err;
	return ret;
}

static int with_errno(int err)
{
	errno = err;
	return err ? -1 : 0;
}

static int send_by(const char *how, int slot, int sig)
{
	pid_t pid = shared->slot[slot].pid, tid = shared->slot[slot].tid;
	union sigval value = { .sival_int = racing ? RACER : 7 };
	siginfo_t info;

	if (!strcmp(how, "kill"))
		return kill(pid, sig);
	if (!strcmp(how, "group"))
		return kill(0, sig); /* the first process has made one for all */
	if (!strcmp(how, "queue"))
		return sigqueue(pid, sig, value);
	if (!strcmp(how, "tgkill"))
		return tgkill(pid, tid, sig);
	if (!strcmp(how, "tkill"))
		return raw(SYS_tkill, tid, sig);
	if (!strcmp(how, "pkill"))
		return with_errno(pthread_kill(handle_of[slot], sig));
	if (!strcmp(how, "pqueue"))
		return with_errno(pthread_sigqueue(handle_of[slot], sig, value));
	if (!strcmp(how, "pidfd"))
		return pidfd_send(pid, sig, NULL);
	if (!strncmp(how, "pidinfo", 7)) {
		fill_info(&info, sig, atoi(how + 7));
		return pidfd_send(pid, sig, &info);
	}
	if (!strncmp(how, "info", 4)) {
		fill_info(&info, sig, atoi(how + 4));
		return raw(SYS_rt_sigqueueinfo, pid, sig, &info);
	}
	fill_info(&info, sig, atoi(how + 5));
	return raw(SYS_rt_tgsigqueueinfo, pid, tid, sig, &info);
}

/* send HOW SLOT SIG */
static void op_send(words w)
{
	say("%s", result(send_by(w[1], atoi(w[2]), sig_of(w[3]))));
}

/* fill HOW SLOT SIG N: until it is refused. */
static void op_fill(words w)
{
	int most = atoi(w[4]), n = 0, err = 0;

	while (n < most && !err)
		if (send_by(w[1], atoi(w[2]), sig_of(w[3])))
			err = errno;
		else
			n++;
	shared->slot[me].number = n;
	say("%d %s", n, outcome(err));
}

/* What came with it: a value, or the status of a child. */
static int info_number(const siginfo_t *info)
{
	if (info->si_signo == SIGCHLD && info->si_code > 0)
		return info->si_status;
	return info->si_code < 0 && info->si_code != SI_TKILL ? info->si_value.sival_int : 0;
}

/* take SIGS N */
static void op_take(words w)
{
	sigset_t set = set_of(w[1]);
	struct timespec now = { 0 };
	siginfo_t info;
	int most = atoi(w[2]), i;

	for (i = 0; i < most; i++) {
		memset(&info, 0, sizeof(info));
		if (raw(SYS_rt_sigtimedwait, &set, &info, &now, KERNEL_SET) < 0)
			break;
		if (info.si_code == SI_TIMER)
			say("%s/timer", sig_name(info.si_signo));
		else
			say_sender(info.si_signo, info.si_code, info.si_pid, info.si_uid,
				   info_number(&info));
	}
	say("%d", i);
}

/* sfd SIGS, sfdread J N */
static void op_sfd(words w)
{
	sigset_t set = set_of(w[1]);
	int fd;

	if (nr_sfds == HANDLES) {
		say("skip");
		return;
	}
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	say("%s", result(fd));
	if (fd >= 0)
		sfds[nr_sfds++] = fd;
}

static void op_sfdread(words w)
{
	int j = any_of(w[1], nr_sfds), most = atoi(w[2]), n;
	struct signalfd_siginfo info[8];

	if (!nr_sfds) {
		say("skip");
		return;
	}
	n = read(sfds[j], info, (most < 8 ? most : 8) * sizeof(*info));
	if (n < 0) {
		say("%s", result(n));
		return;
	}
	for (int i = 0; i < n / (int)sizeof(*info); i++)
		if (info[i].ssi_code == SI_TIMER)
			say("%s/timer", sig_name(info[i].ssi_signo));
		else
			say_sender(info[i].ssi_signo, info[i].ssi_code, info[i].ssi_pid,
				   info[i].ssi_uid,
				   info[i].ssi_code == SI_TKILL ? 0 : info[i].ssi_int);
	say("%d", n / (int)sizeof(*info));
}

static int new_timer(const char *kind, int sig)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig };
	sigset_t waiting;

	/* Nothing tells a world which of several timers with one signal it is that waits. */
	sigpending(&waiting);
	if (nr_timers == 64 || (*kind != 'n' && (has_timer[sig] || sigismember(&waiting, sig))))
		return with_errno(EBUSY);
	if (!strcmp(kind, "none"))
		ev.sigev_notify = SIGEV_NONE;
	if (!strcmp(kind, "tid")) {
		ev.sigev_notify = SIGEV_THREAD_ID;
		ev._sigev_un._tid = raw(SYS_gettid);
	}
	if (timer_create(CLOCK_MONOTONIC, &ev, &timers[nr_timers]))
		return -1;
	nr_timers++;
	has_timer[sig] |= *kind != 'n';
	if (*kind != 'n')
		shared->slot[home].timer_sigs |= 1ull << (sig - 1);
	return 0;
}

/* timer KIND SIG, timers KIND SIG N, timerfire J, timerdel J */
static void op_timer(words w)
{
	say("%s", result(new_timer(w[1], sig_of(w[2]))));
}

static void op_timers(words w)
{
	int n = 0, err = 0;

	while (n < atoi(w[3]) && !err)
		if (new_timer(w[1], sig_of(w[2])))
			err = errno;
		else
			n++;
	say("%d %s", n, outcome(err));
}

static void op_timerfire(words w)
{
	struct itimerspec t = { .it_value.tv_nsec = 1 };
	int j = any_of(w[1], nr_timers);

	if (!nr_timers) {
		say("skip");
		return;
	}
	say("%s", result(timer_settime(timers[j], 0, &t, NULL)));
	soon(!timer_gettime(timers[j], &t) && !t.it_value.tv_nsec && !t.it_value.tv_sec);
}

static void op_timerdel(words w)
{
	int j = any_of(w[1], nr_timers);

	if (!nr_timers) {
		say("skip");
		return;
	}
	say("%s", result(timer_delete(timers[j])));
	memmove(&timers[j], &timers[j + 1], (--nr_timers - j) * sizeof(*timers));
}

/* alarm: SIGALRM by the kernel. */
static void op_alarm(words w)
{
	struct itimerval t = { .it_value.tv_usec = 1 };

	(void)w;
	say("%s", result(setitimer(ITIMER_REAL, &t, NULL)));
	soon(!getitimer(ITIMER_REAL, &t) && !t.it_value.tv_usec);
}

/* sigchurn SIG N: sent to oneself and taken. */
static void op_sigchurn(words w)
{
	int sig = sig_of(w[1]), n = 0;
	sigset_t set = set_of(w[1]);
	struct timespec now = { 0 };

	for (int i = atoi(w[2]); i > 0; i--)
		if (!send_by("queue", me, sig)) {
			sigtimedwait(&set, NULL, &now);
			n++;
		}
	shared->slot[me].number = n;
	say("%d", n);
}

/* --- operations: message queues --- */

static const char *queue_name(const char *word)
{
	static __thread char name[60];

	snprintf(name, sizeof(name), "/kpd-%d-%d-%s", shared->controller, shared->program, word);
	return name;
}

static mqd_t open_queue(const char *name, const char *how, long most, long size)
{
	struct mq_attr attr = { .mq_maxmsg = most, .mq_msgsize = size };
	int flags = O_RDWR | O_NONBLOCK;

	if (strchr(how, 'c'))
		flags |= O_CREAT;
	if (strchr(how, 'x'))
		flags |= O_EXCL;
	return patiently(mq_open(name, flags, strchr(how, 'p') ? 0600 : 0666,
				 strchr(how, 'n') ? NULL : &attr),
			 errno == EMFILE || errno == ENOSPC, loose_ipc);
}

/* mqopen NAME HOW MOST SIZE */
static void op_mqopen(words w)
{
	mqd_t q;

	if (nr_queues == 64) {
		say("skip");
		return;
	}
	q = open_queue(queue_name(w[1]), w[2], atol(w[3]), atol(w[4]));
	say("%s", result(q));
	if (q != (mqd_t)-1)
		queues[nr_queues++] = q;
}

static void op_mqclose(words w)
{
	int j = any_of(w[1], nr_queues);

	if (!nr_queues) {
		say("skip");
		return;
	}
	say("%s", result(mq_close(queues[j])));
	memmove(&queues[j], &queues[j + 1], (--nr_queues - j) * sizeof(*queues));
}

static void op_mqunlink(words w)
{
	say("%s", result(mq_unlink(queue_name(w[1]))));
}

/* mqfill N MOST SIZE: how many there can be. */
static void op_mqfill(words w)
{
	int most = atoi(w[1]), n = 0, err = 0;
	char word[24];
	mqd_t q[64];

	for (; n < most && n < 64; n++) {
		snprintf(word, sizeof(word), "f%d-%d", me, n);
		q[n] = open_queue(queue_name(word), "cx", atol(w[2]), atol(w[3]));
		if (q[n] == (mqd_t)-1) {
			err = errno;
			break;
		}
	}
	for (int i = 0; i < n; i++) {
		snprintf(word, sizeof(word), "f%d-%d", me, i);
		mq_close(q[i]);
		mq_unlink(queue_name(word));
	}
	say("%d %s", n, outcome(err));
}

/* mqgrab N MOST SIZE: in a race, and they stay until mqdrop N. */
static void op_mqgrab(words w)
{
	char word[24];
	int n = 0;

	for (int i = atoi(w[1]); i > 0; i--) {
		mqd_t q;

		snprintf(word, sizeof(word), "g%d-%d", me, i);
		q = open_queue(queue_name(word), "c", atol(w[2]), atol(w[3]));
		if (q == (mqd_t)-1)
			continue;
		mq_close(q);
		n++;
	}
	shared->slot[me].number = n;
	say("%d", n);
}

static void op_mqdrop(words w)
{
	char word[24];
	int n = 0;

	for (int i = atoi(w[1]); i > 0; i--) {
		snprintf(word, sizeof(word), "g%d-%d", me, i);
		n += !mq_unlink(queue_name(word));
	}
	shared->slot[me].number = n;
	say("%d", n);
}

/* --- operations: locked memory --- */

/* mlock FROM N, mlock2 FROM N, munlock FROM N */
static void op_mlock(words w)
{
	void *from = area + atoi(w[1]) * PAGE;
	size_t n = atoi(w[2]) * PAGE;

	if (!strcmp(w[0], "mlock"))
		say("%s", result(mlock(from, n)));
	else if (!strcmp(w[0], "mlock2"))
		say("%s", result(mlock2(from, n, MLOCK_ONFAULT)));
	else
		say("%s", result(munlock(from, n)));
}

static void op_munlockall(words w)
{
	(void)w;
	say("%s", result(munlockall()));
}

/* future N: mlockall(MCL_FUTURE) and a mapping, then all is undone. */
static void op_future(words w)
{
	size_t n = atoi(w[1]) * PAGE;
	void *at;

	say("%s", result(mlockall(MCL_FUTURE)));
	at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("%s", result((long)at));
	if (at != MAP_FAILED)
		munmap(at, n);
	munlockall();
}

/* maplock N, unmap J */
static void op_maplock(words w)
{
	int n = atoi(w[1]);
	void *at;

	if (nr_maps == HANDLES) {
		say("skip");
		return;
	}
	at = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED,
		  -1, 0);
	say("%s", result((long)at));
	if (at == MAP_FAILED)
		return;
	map_pages[nr_maps] = n;
	maps[nr_maps++] = at;
}

static void op_unmap(words w)
{
	int j = any_of(w[1], nr_maps);

	if (!nr_maps) {
		say("skip");
		return;
	}
	say("%s", result(munmap(maps[j], map_pages[j] * PAGE)));
	nr_maps--;
	memmove(&maps[j], &maps[j + 1], (nr_maps - j) * sizeof(*maps));
	memmove(&map_pages[j], &map_pages[j + 1], (nr_maps - j) * sizeof(*map_pages));
}

/* shmget H BYTES MODE, shmlock H, shmunlock H, shmrm H, shmat H, shmdt H */
static void op_shmget(words w)
{
	int id = shmget(IPC_PRIVATE, atol(w[2]), IPC_CREAT | strtol(w[3], NULL, 8));

	say("%s", result(id));
	shared->shm[atoi(w[1])] = id;
	shared->shm_for_all[atoi(w[1])] = !strcmp(w[3], "666");
}

static void op_shmctl(words w)
{
	int id = shared->shm[atoi(w[1])];

	if (!strcmp(w[0], "shmlock"))
		say("%s",
		    result(patiently(shmctl(id, SHM_LOCK, NULL), errno == ENOMEM, loose_ipc)));
	else if (!strcmp(w[0], "shmunlock"))
		say("%s", result(shmctl(id, SHM_UNLOCK, NULL)));
	else
		say("%s", result(shmctl(id, IPC_RMID, NULL)));
}

static void op_shmat(words w)
{
	int h = atoi(w[1]);

	/* Files and segments are checked with the real ids, which are everybody's in a world. */
	if (!shared->shm_for_all[h]) {
		say("skip");
		return;
	}
	if (attached[h]) {
		say("%s", result(shmdt(attached[h])));
		attached[h] = NULL;
		return;
	}
	attached[h] = shmat(shared->shm[h], NULL, 0);
	say("%s", result((long)attached[h]));
	if (attached[h] == (void *)-1)
		attached[h] = NULL;
}

/* --- the table --- */

/* What the first argument must be. */
enum needs {
	NOTHING,
	NEW, /* a free slot */
	TASK, /* a task that is there, living or not */
	PROCESS, /* such a process */
	SIBLING, /* another thread of the process */
	SECOND, /* the second argument is a task that is there */
	SHM_NEW,
	SHM, /* of the same ipc namespace */
	LEADER, /* only the first thread does it */
	FOLLOWER, /* only another does it */
	OWN_USER_NS, /* not in the initial one, whose values are the machine's */
	OWN_IPC_NS,
	IDS, /* not to become real uid 0 in the initial namespace, whose records are everybody's */
	UNSHARE, /* nor make a namespace there as root */
};

static const struct op {
	const char *name;
	void (*run)(words w);
	enum needs needs;
	int args;
} ops[] = {
	{ "ping", op_ping, NOTHING, 0 },
	{ "spawn", op_spawn, NEW, 2 },
	{ "thread", op_thread, NEW, 1 },
	{ "texit", op_texit, FOLLOWER, 0 },
	{ "join", op_join, SIBLING, 1 },
	{ "tend", op_tend, FOLLOWER, 0 },
	{ "exit", op_exit, NOTHING, 1 },
	{ "wait", op_wait, PROCESS, 2 },
	{ "settle", op_settle, NOTHING, 1 },
	{ "exec", op_exec, LEADER, 1 },
	{ "forks", op_forks, NOTHING, 1 },
	{ "threads", op_threads, NOTHING, 1 },
	{ "churn", op_churn, NOTHING, 1 },
	{ "ids", op_ids, IDS, 2 },
	{ "unshare", op_unshare, UNSHARE, 1 },
	{ "map", op_map, PROCESS, 2 },
	{ "setns", op_setns, PROCESS, 2 },
	{ "max", op_max, OWN_USER_NS, 2 },
	{ "inotify", op_inotify, NOTHING, 0 },
	{ "watch", op_watch, NOTHING, 2 },
	{ "notclose", op_notclose, NOTHING, 1 },
	{ "cap", op_cap, NOTHING, 2 },
	{ "mqsys", op_mqsys, OWN_IPC_NS, 2 },
	{ "limit", op_limit, PROCESS, 4 },
	{ "mask", op_mask, NOTHING, 2 },
	{ "action", op_action, NOTHING, 2 },
	{ "send", op_send, SECOND, 3 },
	{ "fill", op_fill, SECOND, 4 },
	{ "take", op_take, NOTHING, 2 },
	{ "sfd", op_sfd, NOTHING, 1 },
	{ "sfdread", op_sfdread, NOTHING, 2 },
	{ "timer", op_timer, NOTHING, 2 },
	{ "timers", op_timers, NOTHING, 3 },
	{ "timerfire", op_timerfire, NOTHING, 1 },
	{ "timerdel", op_timerdel, NOTHING, 1 },
	{ "alarm", op_alarm, NOTHING, 0 },
	{ "sigchurn", op_sigchurn, NOTHING, 2 },
	{ "mqopen", op_mqopen, NOTHING, 4 },
	{ "mqclose", op_mqclose, NOTHING, 1 },
	{ "mqunlink", op_mqunlink, NOTHING, 1 },
	{ "mqfill", op_mqfill, NOTHING, 3 },
	{ "mqgrab", op_mqgrab, NOTHING, 3 },
	{ "mqdrop", op_mqdrop, NOTHING, 1 },
	{ "mlock", op_mlock, NOTHING, 2 },
	{ "mlock2", op_mlock, NOTHING, 2 },
	{ "munlock", op_mlock, NOTHING, 2 },
	{ "munlockall", op_munlockall, NOTHING, 0 },
	{ "future", op_future, NOTHING, 1 },
	{ "maplock", op_maplock, NOTHING, 1 },
	{ "unmap", op_unmap, NOTHING, 1 },
	{ "shmget", op_shmget, SHM_NEW, 3 },
	{ "shmlock", op_shmctl, SHM, 1 },
	{ "shmunlock", op_shmctl, SHM, 1 },
	{ "shmrm", op_shmctl, SHM, 1 },
	{ "shmat", op_shmat, SHM, 1 },
};

static const struct op *op_of(const char *name)
{
	for (size_t i = 0; name && i < sizeof(ops) / sizeof(*ops); i++)
		if (!strcmp(ops[i].name, name))
			return &ops[i];
	return NULL;
}

static int split(char *line, char **w)
{
	char *rest;
	int n = 0;

	for (char *at = strtok_r(line, " \n", &rest); at && n < WORDS;
	     at = strtok_r(NULL, " \n", &rest))
		w[n++] = at;
	w[n] = NULL;
	return n;
}

/* A line that begins with @ waits until all who race are there. */
static void perform(char *line)
{
	char *w[WORDS + 1];
	const struct op *op;

	racing = *line == '@';
	if (racing) {
		shared->arrived++;
		while (shared->arrived < shared->expected)
			sched_yield();
		line++;
	}
	split(line, w);
	op = op_of(w[0]);
	if (op)
		op->run(w);
}

/* --- the controller --- */

enum state {
	NONE,
	LIVE,
	ZOMBIE
};

/* What the controller knows of a slot. */
static struct view {
	enum state state;
	int leader, parent; /* slots */
	int pidfd;
	int user_ns, ipc_ns; /* numbers, 0 for the initial ones */
	bool had_threads;
	uid_t ruid, euid;
	uint64_t open; /* signals that are not blocked */
	int sigq;
	char seen[400];
} view[SLOTS + 1];

static int next_ns;
static bool root;
static bool grabbed; /* queues with names for each slot */

static void command(int slot, const char *text)
{
	uint64_t one = 1;

	shared->slot[slot].answered = 0;
	snprintf(shared->slot[slot].command, sizeof(shared->slot[slot].command), "%s", text);
	if (write(FD_COMMAND + slot, &one, sizeof(one)) != sizeof(one))
		die("command");
}

/* One that died may have left a command, which is not for who gets its slot. */
static void vacate(int slot)
{
	uint64_t n;

	shared->slot[slot].answered = 0;
	if (read(FD_COMMAND + slot, &n, sizeof(n)) < 0 && errno != EAGAIN)
		die("vacate");
}

static void stall(const char *where)
{
	printf("TIMEOUT %s\n", where);
	fflush(stdout);
	_exit(3);
}

static bool has_ended(int slot)
{
	struct pollfd p = { .fd = view[view[slot].leader].pidfd, .events = POLLIN };

	return p.fd >= 0 && poll(&p, 1, 0) == 1;
}

/* Until each slot of the set has answered or its process has ended. */
static void answers(unsigned int set, const char *where)
{
	long long end = now_ms() + STALL_MS;
	struct pollfd p[SLOTS + 1];
	unsigned int waiting;
	uint64_t n;

	for (;;) {
		int fds = 1;

		waiting = 0;
		p[0] = (struct pollfd){ .fd = FD_ANSWER, .events = POLLIN };
		for (int i = 0; i < SLOTS; i++) {
			if (!(set >> i & 1) || shared->slot[i].answered)
				continue;
			if (has_ended(i) && !shared->slot[i].answered)
				continue;
			waiting |= 1u << i;
			p[fds++] = (struct pollfd){ .fd = view[view[i].leader].pidfd,
						    .events = POLLIN };
		}
		if (!waiting)
			return;
		if (now_ms() > end)
			stall(where);
		if (poll(p, fds, 1000) > 0 && p[0].revents)
			if (read(FD_ANSWER, &n, sizeof(n)) < 0 && errno != EAGAIN)
				die("answer");
	}
}

static bool said(int slot, const char *text)
{
	return shared->slot[slot].answered && !strcmp(shared->slot[slot].answer, text);
}

/* The last one has left namespaces: what they hold is released in the kernel's own time. */
static void left_namespaces(int user, int ipc)
{
	for (int i = 0; i < SLOTS; i++) {
		if (view[i].state != LIVE)
			continue;
		user = user == view[i].user_ns ? 0 : user;
		ipc = ipc == view[i].ipc_ns ? 0 : ipc;
	}
	if (user)
		shared->loose_user = now_ms() + ASYNC_MS;
	if (ipc)
		shared->loose_ipc = now_ms() + ASYNC_MS;
}

static void slot_gone(int slot)
{
	int user = view[slot].user_ns, ipc = view[slot].ipc_ns;

	if (view[slot].pidfd >= 0 && view[slot].leader == slot)
		close(view[slot].pidfd);
	view[slot] = (struct view){ .pidfd = -1 };
	left_namespaces(user, ipc);
}

static void up(int slot, int parent, int leader)
{
	struct view *v = &view[slot];

	*v = (struct view){ .state = LIVE,
			    .leader = leader,
			    .parent = parent,
			    .user_ns = view[parent].user_ns,
			    .ipc_ns = view[parent].ipc_ns,
			    .pidfd = -1 };
	if (leader != slot)
		return;
	shared->slot[slot].timer_sigs = 0;
	answers(1u << slot, "a new process");
	v->pidfd = raw(SYS_pidfd_open, shared->slot[slot].pid, 0);
	if (v->pidfd < 0)
		die("pidfd_open");
}

/* The kernel may tell of an end before it has given back everything. */
static void let_release(void)
{
	pause_ms(2);
}

static bool is_there(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	return !access(path, F_OK);
}

static void thread_gone(int slot)
{
	struct slot *s = &shared->slot[slot];

	if (!until(!is_there(s->pid, s->tid)))
		stall("the end of a thread");
	let_release();
	view[view[slot].leader].had_threads = true;
	slot_gone(slot);
}

static bool is_zombie(pid_t pid)
{
	siginfo_t info;

	return !waitid(P_PID, pid, &info, WEXITED | WNOWAIT | WNOHANG) && info.si_pid;
}

/* A thread of the process that can be told something. */
static int any_thread(int leader)
{
	for (int i = 0; i < SLOTS; i++)
		if (view[i].state == LIVE && view[i].leader == leader)
			return i;
	return -1;
}

/* The process has ended: its threads are no more, its children are the controller's. */
static void process_died(int slot)
{
	pid_t pid = shared->slot[slot].pid;
	int parent = view[slot].parent, teller;
	bool threads = view[slot].had_threads;
	char text[40];

	for (int i = 0; i < SLOTS; i++) {
		if (view[i].state == LIVE && view[i].leader == slot && i != slot) {
			threads = true;
			slot_gone(i);
		}
		if (view[i].state != NONE && view[i].leader == i && view[i].parent == slot)
			view[i].parent = CONTROLLER;
	}
	view[slot].state = ZOMBIE;
	left_namespaces(view[slot].user_ns, view[slot].ipc_ns);
	teller = parent == CONTROLLER ? -1 : any_thread(parent);
	if (teller >= 0) {
		snprintf(text, sizeof(text), "settle %d", pid);
		command(teller, text);
		answers(1u << teller, "the end of a child");
	} else {
		siginfo_t info;

		waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	}
	if (threads)
		let_release();
}

/* Those that nobody need reap have gone. */
static void find_gone(void)
{
	for (int i = 0; i < SLOTS; i++) {
		char path[40], text[200] = "";
		int fd, n;

		if (view[i].state != ZOMBIE)
			continue;
		if (view[i].parent == CONTROLLER && is_zombie(shared->slot[i].pid))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/stat", shared->slot[i].pid);
		for (int tries = 0; tries < 50; tries++) {
			fd = open(path, O_RDONLY);
			n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
			close(fd);
			if (n < 0 || strstr(text, ") Z "))
				break;
			pause_ms(1); /* it is dead, and being released */
		}
		if (n >= 0)
			continue;
		let_release();
		slot_gone(i);
	}
}

/* Everybody has done what he had to do. */
static void come_to_rest(void)
{
	bool again = true;

	while (again) {
		unsigned int set = 0;

		again = false;
		for (int i = 0; i < SLOTS; i++)
			if (view[i].state == LIVE) {
				set |= 1u << i;
				command(i, "ping");
			}
		answers(set, "a ping");
		for (int i = 0; i < SLOTS; i++)
			if (view[i].state == LIVE && view[i].leader == i && has_ended(i)) {
				process_died(i);
				again = true;
			}
	}
	find_gone();
}

/* --- what is seen --- */

static void put_set(char *to, size_t size, uint64_t set)
{
	size_t used = 0;

	*to = 0;
	for (int sig = 1; sig <= 64 && used < size; sig++)
		if (set >> (sig - 1) & 1)
			used += snprintf(to + used, size - used, "%s%s", used ? "," : "",
					 sig_name(sig));
}

static const char *line_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? at + strlen(key) + strspn(at + strlen(key), "\t ") : NULL;
}

static uint64_t set_in(const char *text, const char *key)
{
	const char *at = line_of(text, key);

	return at ? strtoull(at, NULL, 16) : 0;
}

static void see(int slot, char *seen, size_t size)
{
	static const uint64_t never = 1ull << 8 | 1ull << 18 | 3ull << 31; /* cannot be blocked */
	char text[4096], path[64], pending[80], all_pending[80], open_sigs[200];
	struct slot *s = &shared->slot[slot];
	const char *sigq, *lck, *thr, *uid;
	uid_t r = 0, e = 0, sv = 0;
	int fd, n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", s->pid, s->tid);
	if (view[slot].leader == slot)
		snprintf(path, sizeof(path), "/proc/%d/status", s->pid);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0) {
		snprintf(seen, size, "unreadable");
		return;
	}
	text[n] = 0;
	sigq = line_of(text, "\nSigQ:");
	lck = line_of(text, "\nVmLck:");
	thr = line_of(text, "\nThreads:");
	uid = line_of(text, "\nUid:");
	if (uid)
		sscanf(uid, "%u %u %u", &r, &e, &sv);
	view[slot].ruid = r;
	view[slot].euid = e;
	view[slot].sigq = sigq ? atoi(sigq) : 0;
	view[slot].open = ~set_in(text, "\nSigBlk:") & ~never;
	put_set(pending, sizeof(pending), set_in(text, "\nSigPnd:"));
	put_set(all_pending, sizeof(all_pending), set_in(text, "\nShdPnd:"));
	put_set(open_sigs, sizeof(open_sigs), view[slot].open);
	snprintf(seen, size, "%s SigQ=%.*s Thr=%d Lck=%d Uid=%s,%s,%s Pnd=%s Shd=%s Open=%.60s",
		 view[slot].state == ZOMBIE ? "zombie" : "live",
		 sigq ? (int)strcspn(sigq, "\n") : 1, sigq ? sigq : "?", thr ? atoi(thr) : -1,
		 lck ? atoi(lck) : -1, uid_name(r), uid_name(e), uid_name(sv), pending, all_pending,
		 view[slot].state == ZOMBIE ? "" : open_sigs);
}

static int by_note(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct note));
}

/* What handlers saw, in an order of its own where threads could have shared it. */
static void tell_notes(int slot)
{
	struct slot *s = &shared->slot[slot];
	unsigned int n = s->nr_notes;

	if (!n)
		return;
	me = CONTROLLER;
	*shared->slot[me].answer = 0;
	if (n > 64)
		n = 64;
	if (view[slot].had_threads)
		qsort(s->notes, n, sizeof(*s->notes), by_note);
	for (unsigned int i = 0; i < n; i++) {
		if (i && s->notes[i].sig == SIGCHLD && s->notes[i].code > 0 &&
		    s->notes[i - 1].sig == SIGCHLD)
			continue;
		say_sender(s->notes[i].sig, s->notes[i].code, s->notes[i].pid, s->notes[i].uid,
			   s->notes[i].value);
	}
	printf("  %d handled %s\n", slot, shared->slot[me].answer);
	s->nr_notes = 0;
}

static void tell_changes(void)
{
	char seen[sizeof(view->seen)];

	for (int i = 0; i < SLOTS; i++) {
		if (view[i].state == NONE)
			continue;
		see(i, seen, sizeof(seen));
		if (strcmp(seen, view[i].seen))
			printf("  %d %s\n", i, seen);
		strcpy(view[i].seen, seen);
		if (view[i].leader == i)
			tell_notes(i);
	}
}

/* --- steps --- */

static bool is_slot(const char *word)
{
	return word && isdigit((unsigned char)*word) && atoi(word) < SLOTS;
}

/* Who makes a namespace is charged by his effective uid. */
static bool is_global_root(const struct view *v)
{
	return !v->user_ns && !v->euid;
}

/* Records of the uids of a program are its own; of root there must be nothing but effective ids. */
static bool has_own_ids(char **w)
{
	for (int i = 2; w[i]; i++)
		if (isdigit((unsigned char)*w[i]) && strcmp(w[i], "0"))
			return false;
	return !strcmp(w[1], "seteuid") || strcmp(w[2], "0");
}

/* Does any thread of the process of @task, but @except, not block @sig? */
static bool taken_at_once(int task, int sig, int except)
{
	for (int i = 0; i < SLOTS; i++)
		if (i != except && view[i].state == LIVE && view[i].leader == view[task].leader &&
		    view[i].open >> (sig - 1) & 1)
			return true;
	return false;
}

static bool is_for_controller(const char *op)
{
	static const char *const names[] = { "send",     "fill",    "wait",      "map",  "limit",
					     "mqunlink", "shmlock", "shmunlock", "shmrm" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(op, names[i]))
			return true;
	return false;
}

static bool can_do(int who, const struct op *op, char **w, int n)
{
	struct view *v = &view[who];
	int arg, h;

	if (!op || n <= op->args || (who != CONTROLLER && v->state != LIVE))
		return false;
	if (who == CONTROLLER && !is_for_controller(op->name))
		return false;
	switch (op->needs) {
	case NOTHING:
		return true;
	case NEW:
		return is_slot(w[1]) && view[atoi(w[1])].state == NONE &&
		       !(w[2] && strstr(w[2], "user") && is_global_root(v));
	case TASK:
		return is_slot(w[1]) && view[atoi(w[1])].state != NONE;
	case PROCESS:
		arg = is_slot(w[1]) ? atoi(w[1]) : 0;
		return is_slot(w[1]) && view[arg].state != NONE && view[arg].leader == arg;
	case SECOND:
		arg = is_slot(w[2]) ? atoi(w[2]) : 0;
		if (!is_slot(w[2]) || view[arg].state == NONE)
			return false;
		/* The controller is in that of whoever runs the test. A world has an order of its own. */
		if (!strcmp(w[1], "group") && (who == CONTROLLER || sig_of(w[3]) >= RT))
			return false;
		/* A world does not see which of those that wait is a timer's. */
		if (shared->slot[view[arg].leader].timer_sigs >> ((sig_of(w[3]) - 1) & 63) & 1)
			return false;
		/*
		 * Nor does it see a process die before it has; and how many come one by one to
		 * who takes them is chance.
		 */
		if (!strcmp(op->name, "fill") && taken_at_once(arg, sig_of(w[3]), who))
			return false;
		return *w[1] != 'p' || w[1][1] == 'i' ||
		       (arg != v->leader && view[arg].state == LIVE &&
			view[arg].leader == v->leader);
	case SIBLING:
		arg = is_slot(w[1]) ? atoi(w[1]) : 0;
		return is_slot(w[1]) && view[arg].state == LIVE && arg != who && arg != v->leader &&
		       view[arg].leader == v->leader;
	case SHM_NEW:
		h = atoi(w[1]);
		return h >= 0 && h < HANDLES && shared->shm[h] == -1;
	case SHM:
		h = atoi(w[1]);
		return h >= 0 && h < HANDLES && shared->shm[h] != -1 &&
		       shared->shm_ns[h] == v->ipc_ns;
	case LEADER:
		return v->leader == who && who != CONTROLLER;
	case FOLLOWER:
		return v->leader != who && who != CONTROLLER;
	case OWN_USER_NS:
		return v->user_ns;
	case OWN_IPC_NS:
		return v->ipc_ns;
	case IDS:
		return v->user_ns || has_own_ids(w);
	case UNSHARE:
		/* Mounts are the real ones. */
		return (!strstr(w[1], "user") || !is_global_root(v)) &&
		       (root || !strstr(w[1], "mnt"));
	}
	return false;
}

static void new_namespaces(int slot, const char *flags)
{
	int user = strstr(flags, "user") ? ++next_ns : view[slot].user_ns;
	int ipc = strstr(flags, "ipc") ? ++next_ns : view[slot].ipc_ns;
	int old_user = view[slot].user_ns, old_ipc = view[slot].ipc_ns;

	for (int i = 0; i < SLOTS; i++) {
		if (view[i].state == NONE || view[i].leader != view[slot].leader)
			continue;
		view[i].user_ns = user;
	}
	view[slot].ipc_ns = ipc; /* each thread's own */
	left_namespaces(old_user, old_ipc);
	shared->nested |= user != old_user;
	shared->moved |= user != old_user;
}

/* What a step that was done has changed. */
static void follow(int who, char **w)
{
	int arg = is_slot(w[1]) ? atoi(w[1]) : 0;

	/* A namespace is made before a process is refused. */
	if (!strcmp(w[0], "spawn") && strstr(w[2], "user"))
		shared->loose_user = now_ms() + ASYNC_MS;
	if (!strcmp(w[0], "spawn") && said(who, "ok")) {
		up(arg, view[who].leader, arg);
		view[arg].ipc_ns = view[who].ipc_ns;
		if (strstr(w[2], "user") || strstr(w[2], "ipc"))
			new_namespaces(arg, w[2]);
	} else if (!strcmp(w[0], "thread") && said(who, "ok")) {
		up(arg, view[who].leader, view[who].leader);
		view[arg].ipc_ns = view[who].ipc_ns;
		answers(1u << arg, "a new thread");
		view[view[who].leader].had_threads = true;
	} else if (!strcmp(w[0], "join")) {
		thread_gone(arg);
	} else if (!strcmp(w[0], "texit")) {
		thread_gone(who);
	} else if (!strcmp(w[0], "exec") && said(who, "up")) {
		for (int i = 0; i < SLOTS; i++)
			if (i != who && view[i].state == LIVE && view[i].leader == who)
				slot_gone(i);
		if (view[who].had_threads)
			let_release();
		view[who].had_threads = false;
	} else if (!strcmp(w[0], "unshare") && said(who, "ok")) {
		new_namespaces(who, w[1]);
	} else if (!strcmp(w[0], "setns") && said(who, "ok")) {
		int old_user = view[who].user_ns, old_ipc = view[who].ipc_ns;

		if (*w[2] == 'u')
			view[who].user_ns = view[arg].user_ns;
		else
			view[who].ipc_ns = view[arg].ipc_ns;
		left_namespaces(old_user, old_ipc);
		shared->moved = true;
	} else if (!strcmp(w[0], "ids") || !strcmp(w[0], "map")) {
		shared->moved = true;
	} else if (!strcmp(w[0], "shmget") && said(who, "ok")) {
		shared->shm_ns[atoi(w[1])] = view[who].ipc_ns;
	}
}

/* Who was reaped is known by what /proc no longer has. */
static void do_step(int who, char **w, int n, const char *text)
{
	const struct op *op = op_of(w[0]);

	if (!can_do(who, op, w, n)) {
		printf("skip\n");
		return;
	}
	if (who == CONTROLLER) {
		char line[200];

		me = home = CONTROLLER;
		*shared->slot[me].answer = 0;
		snprintf(line, sizeof(line), "%s", text);
		perform(line);
		printf("%s\n", shared->slot[me].answer);
		return;
	}
	if (!strcmp(w[0], "spawn") || !strcmp(w[0], "thread"))
		vacate(atoi(w[1]));
	command(who, text);
	if (!strcmp(w[0], "texit"))
		printf("\n");
	else
		answers(1u << who, text);
	if (strcmp(w[0], "texit"))
		printf("%s\n", shared->slot[who].answered ? shared->slot[who].answer : "ended");
	follow(who, w);
}

/* Does it matter in no way who is first? */
static bool is_fair(int who, int first, char **w)
{
	const struct view *v = &view[who], *f = &view[first];

	if (!strcmp(w[0], "mqgrab"))
		return v->user_ns == f->user_ns && v->ruid == f->ruid && v->ipc_ns == f->ipc_ns &&
		       shared->slot[who].msgqueue.rlim_cur == shared->slot[first].msgqueue.rlim_cur;
	if (!strcmp(w[0], "sigchurn"))
		return !v->user_ns && !shared->nested && !(v->open >> (sig_of(w[1]) - 1) & 1) &&
		       v->sigq + SLOTS <= (int)shared->slot[who].sigpending.rlim_cur;
	return !strcmp(w[0], "fill") && !taken_at_once(atoi(w[2]), sig_of(w[3]), -1);
}

static void race(const char *list, char **w, int n, const char *text)
{
	char line[200], who_text[40];
	unsigned int set = 0;
	int sum = 0, count = 0, first_one = -1;

	snprintf(who_text, sizeof(who_text), "%s", list);
	for (char *at = strtok(who_text, ","); at; at = strtok(NULL, ",")) {
		int who = atoi(at);

		if (!is_slot(at) || set >> who & 1 || !can_do(who, op_of(w[0]), w, n))
			continue;
		if (!is_fair(who, first_one < 0 ? who : first_one, w))
			continue;
		if (first_one < 0)
			first_one = who;
		set |= 1u << who;
		count++;
	}
	shared->arrived = 0;
	shared->expected = count;
	snprintf(line, sizeof(line), "@%s", text);
	for (int i = 0; i < SLOTS; i++)
		if (set >> i & 1) {
			shared->slot[i].number = 0;
			command(i, line);
		}
	answers(set, text);
	for (int i = 0; i < SLOTS; i++)
		if (set >> i & 1)
			sum += shared->slot[i].number;
	printf("%d by %d\n", sum, count);
	if (strcmp(w[0], "mqgrab"))
		return;
	snprintf(line, sizeof(line), "mqdrop %s", w[1]); /* who got which is chance */
	for (int i = 0; i < SLOTS; i++)
		if (set >> i & 1)
			command(i, line);
	answers(set, line);
}

static void step(char *text)
{
	char line[200], *w[WORDS + 1], *rest;
	int n, skipped, who;

	text[strcspn(text, "\n")] = 0;
	snprintf(line, sizeof(line), "%s", text);
	n = split(line, w);
	if (n < 2)
		return;
	printf("%s = ", text);
	skipped = *w[0] == 'r' ? 2 : 1;
	rest = text;
	for (int i = 0; i < skipped; i++)
		rest += strcspn(rest, " ") + 1;
	if (*w[0] == 'r') {
		race(w[1], w + 2, n - 2, rest);
	} else {
		who = *w[0] == 'c' ? CONTROLLER : atoi(w[0]);
		if (who != CONTROLLER && !is_slot(w[0]))
			printf("skip\n");
		else
			do_step(who, w + 1, n - 1, rest);
	}
	come_to_rest();
	tell_changes();
}

/* --- programs --- */

static void set_limits(char **w, int n)
{
	for (int i = 0; i < n; i++) {
		char *eq = strchr(w[i], '='), *colon = strchr(w[i], ':');
		struct rlimit r;

		if (!eq || !colon)
			continue;
		r.rlim_cur = limit_of(eq + 1, 0);
		r.rlim_max = limit_of(colon + 1, 0);
		if (setrlimit(resource_of(w[i]), &r))
			say("limits %s", result(-1));
	}
}

static bool has_word(const char *word, char **w, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(word, w[i]))
			return true;
	return false;
}

/* first - the first process of kind @kind. What it says here is printed. */
__attribute__((noreturn)) static void first(const char *kind, char **w, int n)
{
	bool ns = strstr(kind, "ns"), caps = !strcmp(kind, "caps"), saved = !strcmp(kind, "saved");
	bool ipc = has_word("ipc", w, n);
	/* If not, what other processes of the real uid have must not matter to its namespace. */
	bool alone = root && strcmp(kind, "rootns");
	char *map_words[] = { (char *)"map", (char *)"0", (char *)"one", NULL };
	char *unshare_words[] = { (char *)"unshare", (char *)(ipc ? "user+ipc" : "user"), NULL };
	uid_t u = shared->base;
	sigset_t all;

	me = home = 0;
	setsid();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	shared->slot[0].nr_notes = 0;
	*shared->slot[0].answer = 0;
	shared->slot[0].pid = shared->slot[0].tid = raw(SYS_getpid);
	if (ipc && !ns && unshare(CLONE_NEWIPC))
		say("unshare %s", result(-1));
	if (alone) {
		if (setgroups(0, NULL) || setresgid(u, u, u))
			say("setresgid %s", result(-1));
		if (setresuid(u, caps ? 0 : u, caps || saved ? 0 : u))
			say("setresuid %s", result(-1));
	}
	if (alone)
		set_limits(w, n);
	prctl(PR_SET_DUMPABLE, 1);
	if (ns) {
		op_unshare(unshare_words);
		op_map(map_words);
	}
	if (!alone)
		set_limits(w, n);
	new_area();
	answer();
	work();
}

static void remove_objects(void)
{
	char word[24];

	for (int i = 0; i < HANDLES; i++) {
		if (shared->shm[i] != -1 && !shared->shm_ns[i])
			shmctl(shared->shm[i], IPC_RMID, NULL);
		shared->shm[i] = -1;
		snprintf(word, sizeof(word), "q%d", i);
		mq_unlink(queue_name(word));
	}
	for (int slot = 0; slot < SLOTS && grabbed; slot++)
		for (int i = 0; i <= 10; i++) {
			snprintf(word, sizeof(word), "g%d-%d", slot, i);
			mq_unlink(queue_name(word));
		}
}

/* Whoever is still there is killed; the orphans are the controller's. */
static void end_all(void)
{
	long long end = now_ms() + STALL_MS;

	for (int i = 0; i < SLOTS; i++) {
		if (view[i].state == LIVE && view[i].leader == i)
			kill(shared->slot[i].pid, SIGKILL);
		if (view[i].pidfd >= 0 && view[i].leader == i)
			close(view[i].pidfd);
		view[i] = (struct view){ .pidfd = -1 };
	}
	while (waitpid(-1, NULL, WNOHANG | __WALL) != -1)
		if (now_ms() > end)
			stall("the end");
		else
			sched_yield();
}

/* Nothing is counted for @uid any more: what fits into the smallest limits. */
static void left_of(uid_t uid)
{
	static const int kinds[] = { RLIMIT_NPROC, RLIMIT_MSGQUEUE, RLIMIT_MEMLOCK };
	static const rlim_t small[] = { 2, 97, PAGE };
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	int sigq, forked = 0, queue, locked, id, status;
	pid_t pid;

	for (int i = 0; i < 3; i++)
		setrlimit(kinds[i], &(struct rlimit){ small[i], small[i] });
	if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		_exit(1);
	until(!(sigq = status_number("/proc/self/status", "\nSigQ:")));
	until((pid = fork()) >= 0);
	if (!pid) {
		pid = fork();
		if (!pid)
			_exit(0);
		_exit(pid < 0 ? 0 : 5);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid)
		forked = WEXITSTATUS(status) ? 2 : 1;
	queue = until(mq_open(queue_name("left"), O_CREAT | O_RDWR, 0600, &attr) != (mqd_t)-1);
	mq_unlink(queue_name("left"));
	id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
	locked = until(!shmctl(id, SHM_LOCK, NULL));
	shmctl(id, IPC_RMID, NULL);
	printf("left of %s: SigQ=%d forks=%d queues=%d locked=%d\n", uid_name(uid), sigq, forked,
	       queue, locked);
	fflush(stdout);
	_exit(0);
}

static void tell_left(bool used[UIDS])
{
	for (int i = 0; i < UIDS; i++) {
		pid_t pid;

		if (!used[i])
			continue;
		fflush(stdout);
		pid = fork();
		if (!pid)
			left_of(shared->base + i);
		waitpid(pid, NULL, 0);
	}
}

static void begin(char *line)
{
	char *w[WORDS + 1];
	int n = split(line, w);
	pid_t pid;

	for (int i = 0; i < SLOTS; i++)
		view[i] = (struct view){ .pidfd = -1 };
	for (int i = 0; i < HANDLES; i++)
		shared->shm[i] = -1;
	next_ns = 0;
	shared->loose_user = shared->loose_ipc = 0;
	shared->nested = n > 2 && strstr(w[2], "ns");
	shared->moved = false;
	view[CONTROLLER].user_ns = view[CONTROLLER].ipc_ns = 0;
	shared->program++;
	printf("program %s\n", n > 1 ? w[1] : "");
	if (n < 3)
		return;
	fflush(stdout);
	vacate(0);
	pid = fork();
	if (!pid) {
		close(life_end);
		first(w[2], w + 3, n - 3);
	}
	if (pid < 0)
		die("fork");
	up(0, CONTROLLER, 0);
	if (strstr(w[2], "ns"))
		view[0].user_ns = ++next_ns;
	if (has_word("ipc", w + 3, n - 3))
		view[0].ipc_ns = ++next_ns;
	if (*shared->slot[0].answer)
		printf("%s\n", shared->slot[0].answer);
	come_to_rest();
	tell_changes();
}

static void finish_program(bool used[UIDS])
{
	end_all();
	remove_objects();
	if (root)
		tell_left(used);
	printf("end\n");
	fflush(stdout);
	memset(used, 0, UIDS * sizeof(*used));
}

static void run_file(const char *path, uid_t base, int span)
{
	bool used[UIDS] = { false }, running = false;
	FILE *f = fopen(path, "re");
	char line[200];
	int n = 0;

	if (!f)
		die(path);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "program ", 8)) {
			if (running)
				finish_program(used);
			running = true;
			shared->base = base + n++ * UIDS % span;
			used[0] = true;
			begin(line);
			continue;
		}
		if (*line == '#' || *line == '\n' || !running)
			continue;
		for (int i = 1; i < UIDS; i++)
			used[i] |= !!strstr(line, (char[]){ 'u', '0' + i, 0 });
		grabbed |= !!strstr(line, "mqgrab");
		step(line);
	}
	fclose(f);
	if (running)
		finish_program(used);
}

/* --- start --- */

static void map_shared(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, FD_SHARED, 0);
	if (shared == MAP_FAILED)
		die("shared memory");
}

static void as_fd(int fd, int number)
{
	if (fd < 0 || dup2(fd, number) != number)
		die("descriptors");
	close(fd);
}

/* The end that makes the life pipe hang up is the controller's alone: workers never have it. */
static void prepare(void)
{
	int life[2];

	as_fd(memfd_create("differential", 0), FD_SHARED);
	if (ftruncate(FD_SHARED, sizeof(*shared)))
		die("ftruncate");
	map_shared();
	as_fd(eventfd(0, EFD_NONBLOCK), FD_ANSWER);
	for (int i = 0; i < SLOTS; i++)
		as_fd(eventfd(0, EFD_NONBLOCK), FD_COMMAND + i);
	if (pipe2(life, O_CLOEXEC))
		die("pipe");
	as_fd(life[0], FD_LIFE);
	life_end = life[1];
}

int main(int argc, char **argv)
{
	uid_t base = 62000;
	int span = 400, i;

	/* Relative, if it was found so: nobody need be let into the directories above. */
	snprintf(self_path, sizeof(self_path), "%s", argv[0]);
	if (argc == 3 && !strcmp(argv[1], "--worker")) {
		map_shared();
		new_area();
		become(atoi(argv[2]), "up");
	}
	for (i = 1; i + 1 < argc && *argv[i] == '-'; i += 2)
		if (!strcmp(argv[i], "--uid"))
			base = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--span"))
			span = atoi(argv[i + 1]);
	if (i != argc - 1)
		return 2;
	root = !getuid();
	me = home = CONTROLLER;
	umask(0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prepare();
	shared->controller = getpid();
	run_file(argv[i], base, span);
	return 0;
}
