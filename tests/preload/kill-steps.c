/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lets a child die at the n-th step of one operation, and tells what survivors find afterwards. */
#include <fcntl.h>
#include <grp.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "emu/lib/step.h"
#include "tests/preload/children.h"

/*
 * usage: kill-steps           commands on standard input, an answer of one line to each
 *        kill-steps --list    the operations
 *
 *   run OPERATION N [K]   died, child (a child of it died), done (N was beyond its end), failed
 *   verify                forks=F queues=Q pages=P: how much a user has left, alone in its account;
 *                         and signals=S, if that is not all of it
 *
 * It runs as uid 0, so that it can make victims and witnesses of another uid, which alone is
 * limited. Needs the kill build.
 */
#define USER  1000
#define PAGE  4096
#define STACK (64 * 1024)
#define QUEUE "/victim"

/* Exit statuses of a victim. */
enum {
	DONE,
	CHILD_DIED = 33,
	FAILED,
};

static char *self;
static long kill_step, early_step; /* N and K */
static struct mq_attr small = { .mq_maxmsg = 1, .mq_msgsize = 1 };

static void arm(long n)
{
	prctl(PR_KILL_AT, n, 0, 0, 0);
}

static void must(bool good)
{
	if (!good)
		_exit(FAILED);
}

static int status_of(pid_t pid)
{
	int status;

	must(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGKILL ? CHILD_DIED : FAILED;
	return WEXITSTATUS(status);
}

/* --- operations: do_x() is armed, set_x() comes before; what do_x() returns is the exit status --- */

static pid_t prepared_child;
static mqd_t queue;
static char *memory;

static void set_nothing(void)
{
}

static int after_fork(pid_t pid)
{
	arm(0);
	if (!pid)
		_exit(DONE);
	must(pid > 0);
	return status_of(pid);
}

static int do_fork(void)
{
	return after_fork(fork());
}

static int do__Fork(void)
{
	return after_fork(_Fork());
}

static int do_syscall_clone(void)
{
	return after_fork(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

static int do_vfork(void)
{
	pid_t pid = vfork();

	if (!pid)
		_exit(DONE);
	arm(0);
	must(pid > 0);
	return status_of(pid);
}

static int clone_child(void *arg)
{
	if (!arg)
		arm(0);
	return DONE;
}

static int clone_with(int flags)
{
	pid_t pid = clone(clone_child, memory + STACK, flags | SIGCHLD,
			  flags & CLONE_VM ? memory : NULL);

	arm(0);
	must(pid > 0);
	return status_of(pid);
}

static void set_stack(void)
{
	memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED);
}

static int do_clone(void)
{
	return clone_with(0);
}

static int do_clone_vm(void)
{
	return clone_with(CLONE_VM);
}

static void *thread_ends(void *arg)
{
	return arg;
}

static int do_pthread(void)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, thread_ends, NULL));
	must(!pthread_join(thread, NULL));
	return DONE;
}

static struct line to_thread, from_thread;

static void *thread_waits(void *arg)
{
	line_say(&from_thread, 0);
	line_hear(&to_thread);
	return arg;
}

static pthread_t waiting;

static void set_thread(void)
{
	to_thread = line_open();
	from_thread = line_open();
	must(!pthread_create(&waiting, NULL, thread_waits, NULL));
	line_hear(&from_thread);
}

static int do_thread_exit(void)
{
	line_say(&to_thread, 0);
	must(!pthread_join(waiting, NULL));
	return DONE;
}

static int do_posix_spawn(void)
{
	char *argv[] = { self, "--nothing", NULL };
	pid_t pid;

	must(!posix_spawn(&pid, self, NULL, NULL, argv, environ));
	arm(0);
	return status_of(pid);
}

static int do_system(void)
{
	must(system("exit 0") == 0);
	return DONE;
}

/* The new program is armed as it starts: its attachment and its end are what is stepped through. */
static int do_exec(void)
{
	char n[32];

	arm(0);
	snprintf(n, sizeof(n), "%ld", kill_step);
	setenv("KPEMU_KILL_AT", n, 1);
	execl(self, self, "--nothing", NULL);
	return FAILED;
}

static int do_exec_in_a_thread(void)
{
	return do_exec();
}

static int do_vfork_exec(void)
{
	char n[32];
	pid_t pid;

	arm(0);
	snprintf(n, sizeof(n), "%ld", kill_step);
	setenv("KPEMU_KILL_AT", n, 1);
	pid = vfork();
	if (!pid) {
		execl(self, self, "--nothing", NULL);
		_exit(FAILED);
	}
	must(pid > 0);
	return status_of(pid);
}

/* A child goes with its parent: at once or, if that was faster, as soon as it sees a stranger's. */
__attribute__((noreturn)) static void live_as_long_as(pid_t parent)
{
	arm(0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		pause();
	_exit(0);
}

static void set_zombie(void)
{
	prepared_child = zombie_child();
}

static int do_wait(void)
{
	must(waitpid(prepared_child, NULL, 0) == prepared_child);
	return DONE;
}

static int do_exit(void)
{
	exit(DONE);
}

static int do_setuid(void)
{
	must(!setuid(USER));
	return DONE;
}

static int do_setresuid(void)
{
	must(!setresuid(USER, 0, 0));
	return DONE;
}

static void set_two_threads(void)
{
	set_thread();
	set_thread();
}

static int do_setgroups(void)
{
	must(!setgroups(2, (gid_t[]){ 5, 6 }) && !setgid(7));
	return DONE;
}

static int do_setrlimit(void)
{
	must(!setrlimit(RLIMIT_NPROC, &(struct rlimit){ 5, 5 }));
	return DONE;
}

static int make_queue(void)
{
	queue = mq_open(QUEUE, O_RDWR | O_CREAT | O_EXCL, 0600, &small);
	return queue;
}

static void set_queue(void)
{
	must(make_queue() >= 0);
}

static void set_closed_queue(void)
{
	set_queue();
	must(!mq_close(queue));
}

static void set_unlinked_queue(void)
{
	set_queue();
	must(!mq_unlink(QUEUE));
}

static int do_mq_create(void)
{
	must(make_queue() >= 0);
	return DONE;
}

static int do_mq_refused(void)
{
	must(mq_open(QUEUE, O_RDWR | O_CREAT, 0600, NULL) < 0 && errno == EMFILE);
	return DONE;
}

static int do_mq_open(void)
{
	must(mq_open(QUEUE, O_RDWR) >= 0);
	return DONE;
}

static int do_mq_unlink(void)
{
	must(!mq_unlink(QUEUE));
	return DONE;
}

static int do_mq_close(void)
{
	must(!mq_close(queue));
	return DONE;
}

static void set_memory(void)
{
	memory = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED);
}

static void set_locked(void)
{
	set_memory();
	must(!mlock(memory, 8 * PAGE));
}

static int do_mlock(void)
{
	must(!mlock(memory, 3 * PAGE));
	return DONE;
}

static int do_munlock(void)
{
	must(!munlock(memory + PAGE, 2 * PAGE));
	return DONE;
}

static int do_mlock_refused(void)
{
	must(mlock(memory, 16 * PAGE) < 0 && errno == ENOMEM);
	return DONE;
}

static void set_low_memlock(void)
{
	set_memory();
	must(!setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ 8 * PAGE, 16 * PAGE }));
}

static void set_much_memlock(void)
{
	set_memory();
	must(!setuid(0) && !setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ -1, -1 }));
}

static int do_mlockall(void)
{
	must(!mlockall(MCL_FUTURE));
	must(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	     MAP_FAILED);
	return DONE;
}

static int do_mlockall_current(void)
{
	must(!mlockall(MCL_CURRENT));
	return DONE;
}

static void set_all_locked(void)
{
	set_locked();
	must(!mlockall(MCL_FUTURE));
}

static int do_munlockall(void)
{
	must(!munlockall());
	return DONE;
}

static int do_mmap_locked(void)
{
	must(mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED,
		  -1, 0) != MAP_FAILED);
	return DONE;
}

static int do_munmap(void)
{
	must(!munmap(memory + 2 * PAGE, 4 * PAGE));
	return DONE;
}

static int do_mremap(void)
{
	must(munmap(memory + 8 * PAGE, 8 * PAGE) == 0);
	memory = mremap(memory, 8 * PAGE, 12 * PAGE, MREMAP_MAYMOVE);
	must(memory != MAP_FAILED);
	must(mremap(memory, 12 * PAGE, 4 * PAGE, 0) == memory);
	return DONE;
}

static int do_proc_status(void)
{
	char text[4096];
	int fd = open("/proc/self/status", O_RDONLY);

	must(fd >= 0 && read(fd, text, sizeof(text)) > 0);
	must(lseek(fd, 0, SEEK_SET) == 0);
	return DONE;
}

/* --- signals --- */

#define RT      SIGRTMIN
#define SIGNALS 4

static volatile sig_atomic_t handled;
static struct line from_child;
static timer_t timer;
static int signal_fd;

static void on_signal(int sig)
{
	handled = sig;
}

static sigset_t only_rt(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, RT);
	return set;
}

static int send_rt(pid_t pid)
{
	return sigqueue(pid, RT, (union sigval){ 0 });
}

static void set_blocked(void)
{
	sigset_t set = only_rt();

	must(!sigprocmask(SIG_BLOCK, &set, NULL));
}

static void set_pending(void)
{
	set_blocked();
	must(!send_rt(getpid()) && !send_rt(getpid()) && !raise(RT));
}

static int do_send_and_receive(void)
{
	sigset_t set = only_rt();

	must(!send_rt(getpid()));
	must(sigtimedwait(&set, NULL, &(struct timespec){ 0 }) == RT);
	return DONE;
}

static void set_handler(void)
{
	must(signal(SIGUSR1, on_signal) != SIG_ERR && signal(RT, on_signal) != SIG_ERR);
}

static int do_kill_and_handle(void)
{
	must(!kill(getpid(), SIGUSR1) && handled == SIGUSR1);
	return DONE;
}

static void set_handler_and_pending(void)
{
	set_handler();
	set_pending();
}

static int do_unblock(void)
{
	sigset_t set = only_rt();

	must(!sigprocmask(SIG_UNBLOCK, &set, NULL));
	return DONE;
}

/* A child that blocks the signal and lives as long as this one. */
static void set_child(void)
{
	pid_t parent = getpid();

	from_child = line_open();
	set_blocked();
	prepared_child = fork();
	must(prepared_child >= 0);
	if (!prepared_child) {
		line_say(&from_child, 0);
		live_as_long_as(parent);
	}
	line_hear(&from_child);
}

static int do_send_to_child(void)
{
	must(!send_rt(prepared_child));
	arm(0);
	kill_child(prepared_child);
	return DONE;
}

static void set_zombie_with_pending(void)
{
	siginfo_t info;

	set_child();
	must(!send_rt(prepared_child) && !send_rt(prepared_child));
	must(!kill(prepared_child, SIGKILL));
	must(!waitid(P_PID, prepared_child, &info, WEXITED | WNOWAIT));
}

static void set_full(void)
{
	set_blocked();
	must(!setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){ SIGNALS, SIGNALS }));
	for (int i = 0; i < SIGNALS; i++)
		must(!send_rt(getpid()));
}

static int do_send_refused(void)
{
	must(send_rt(getpid()) < 0 && errno == EAGAIN);
	return DONE;
}

static void set_full_with_handler(void)
{
	must(signal(RT + 1, on_signal) != SIG_ERR);
	set_full();
}

static int do_send_lost(void)
{
	must(!kill(getpid(), RT + 1) && handled == RT + 1);
	return DONE;
}

static void set_thread_with_pending(void)
{
	set_blocked();
	set_thread();
	must(!pthread_kill(waiting, RT) && !pthread_kill(waiting, RT));
}

static int do_ignore(void)
{
	must(signal(RT, SIG_IGN) != SIG_ERR);
	return DONE;
}

static void set_ignored_and_pending(void)
{
	do_ignore();
	set_pending();
}

static void set_signalfd(void)
{
	sigset_t set = only_rt();

	set_pending();
	signal_fd = signalfd(-1, &set, SFD_NONBLOCK);
	must(signal_fd >= 0);
}

static int do_read_signalfd(void)
{
	struct signalfd_siginfo got[4];

	must(read(signal_fd, got, sizeof(got)) == 3 * sizeof(got[0]));
	return DONE;
}

static int do_timer_create(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = RT };

	must(!timer_create(CLOCK_MONOTONIC, &event, &timer));
	return DONE;
}

static void set_timer(void)
{
	set_blocked();
	do_timer_create();
}

/* One that has fired: its signal waits. */
static void set_fired_timer(void)
{
	sigset_t set;

	set_timer();
	must(!timer_settime(timer, 0, &(struct itimerspec){ .it_value = { 0, 1 } }, NULL));
	must(until(!sigpending(&set) && sigismember(&set, RT)));
}

static int do_timer_delete(void)
{
	must(!timer_delete(timer));
	return DONE;
}

static void set_timer_and_pending(void)
{
	set_timer();
	set_pending();
}

/* --- namespaces --- */

#define NAMESPACES 3 /* user namespaces that a user may have: verify() sets this */

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n;
}

static int do_unshare(void)
{
	must(!unshare(CLONE_NEWUSER));
	return DONE;
}

static int do_unshare_more(void)
{
	must(!unshare(CLONE_NEWUSER | CLONE_NEWIPC));
	must(!unshare(CLONE_NEWIPC));
	return DONE;
}

static int do_clone_newuser(void)
{
	return after_fork(syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWIPC | SIGCHLD, 0, 0, 0, 0));
}

static void set_unshared(void)
{
	must(!unshare(CLONE_NEWUSER | CLONE_NEWIPC));
}

static int do_write_maps(void)
{
	must(put("/proc/self/setgroups", "deny") > 0);
	must(put("/proc/self/uid_map", "0 1000 1") > 0);
	must(put("/proc/self/gid_map", "0 1000 1") > 0);
	must(put("/proc/sys/user/max_user_namespaces", "7") > 0);
	return DONE;
}

static void set_inside(void)
{
	set_unshared();
	do_write_maps();
}

static int setns_fd;

static void set_other(void)
{
	char path[40];

	to_thread = line_open();
	prepared_child = fork();
	must(prepared_child >= 0);
	if (!prepared_child) {
		pid_t parent = getppid();

		must(!unshare(CLONE_NEWUSER));
		line_say(&to_thread, 1);
		live_as_long_as(parent);
	}
	line_hear(&to_thread);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", prepared_child);
	setns_fd = open(path, O_RDONLY);
	must(setns_fd >= 0);
}

static int do_setns(void)
{
	must(!setns(setns_fd, CLONE_NEWUSER));
	return DONE;
}

/* One that holds everything, so that each level is charged. */
static int do_all_inside(void)
{
	must(make_queue() >= 0);
	must(!mq_unlink(QUEUE) && !mq_close(queue));
	return after_fork(fork());
}

static int do_send_inside(void)
{
	set_blocked();
	return do_send_and_receive();
}

/* --- many signals: slots of counters run full and empty, and are closed before a refusal --- */

#define BURST 34 /* more than the smallest batch */
#define ROOM  12
#define ROOM_INSIDE 20 /* more than a namespace takes at a time */

static void set_soft_sigpending(rlim_t soft)
{
	struct rlimit r;

	must(!getrlimit(RLIMIT_SIGPENDING, &r));
	r.rlim_cur = soft < r.rlim_max ? soft : r.rlim_max;
	must(!setrlimit(RLIMIT_SIGPENDING, &r));
}

/* Up to @most, or as many as there is room for; then all are taken. */
static int send_and_take(int most)
{
	sigset_t set = only_rt();
	int n = 0;

	while (n < most && !send_rt(getpid()))
		n++;
	for (int i = 0; i < n; i++)
		must(sigtimedwait(&set, NULL, &(struct timespec){ 0 }) == RT);
	return n;
}

static int do_burst(void)
{
	must(send_and_take(BURST) == BURST);
	return DONE;
}

static void set_room(void)
{
	set_blocked();
	set_soft_sigpending(ROOM);
}

static int do_fill(void)
{
	must(send_and_take(BURST) == ROOM && send_and_take(1) == 1);
	return DONE;
}

/* The namespace is made with the smaller limit, and inside there is none. */
static void set_room_inside(void)
{
	set_blocked();
	set_soft_sigpending(ROOM_INSIDE);
	set_inside();
	set_soft_sigpending(RLIM_INFINITY);
}

static int do_fill_inside(void)
{
	must(send_and_take(BURST) == ROOM_INSIDE && send_and_take(1) == 1);
	return DONE;
}

static int segment;

static void set_segment(void)
{
	segment = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
	must(segment >= 0);
	/* It goes with its last attachment, however this one ends. */
	must(shmat(segment, NULL, 0) != (void *)-1 && !shmctl(segment, IPC_RMID, NULL));
}

static int do_shm_lock(void)
{
	must(!shmctl(segment, SHM_LOCK, NULL));
	must(!shmctl(segment, SHM_UNLOCK, NULL));
	must(!shmctl(segment, SHM_LOCK, NULL));
	return DONE;
}

static int do_ns_refused(void)
{
	must(!unshare(CLONE_NEWUSER));
	must(put("/proc/self/setgroups", "deny") > 0);
	must(put("/proc/self/uid_map", "0 1000 1") > 0);
	must(put("/proc/self/gid_map", "0 1000 1") > 0);
	must(put("/proc/sys/user/max_user_namespaces", "0") > 0);
	must(unshare(CLONE_NEWUSER) && errno == ENOSPC);
	return DONE;
}

/*
 * One that died at its own step K while it forked, before this one begins: whoever asks next has
 * to put right what it left, and may die over that.
 */
static void set_one_died(void)
{
	pid_t pid = fork();

	must(pid >= 0);
	if (!pid) {
		arm(early_step);
		pid = fork();
		_exit(0);
	}
	status_of(pid);
}

static int do_recovery(void)
{
	pid_t pid[CHILDREN_MAX], parent = getpid();
	int n = 0;

	/* The children do not count steps: it is this one's death that is wanted. */
	while (n < CHILDREN_MAX && (pid[n] = fork()) > 0)
		n++;
	if (n < CHILDREN_MAX && !pid[n])
		live_as_long_as(parent);
	arm(0);
	drain(pid, n);
	return errno == EAGAIN ? DONE : FAILED;
}

static const struct operation {
	const char *name;
	void (*set)(void);
	int (*act)(void);
	bool as_root;
} operations[] = {
	{ "fork", set_nothing, do_fork, false },
	{ "_Fork", set_nothing, do__Fork, false },
	{ "syscall_clone", set_nothing, do_syscall_clone, false },
	{ "vfork", set_nothing, do_vfork, false },
	{ "clone", set_stack, do_clone, false },
	{ "clone_vm", set_stack, do_clone_vm, false },
	{ "pthread_create_join", set_nothing, do_pthread, false },
	{ "thread_exit", set_thread, do_thread_exit, false },
	{ "posix_spawn", set_nothing, do_posix_spawn, false },
	{ "system", set_nothing, do_system, false },
	{ "exec", set_nothing, do_exec, false },
	{ "exec_with_threads", set_two_threads, do_exec_in_a_thread, false },
	{ "exec_with_locked_memory", set_locked, do_exec, false },
	{ "vfork_exec", set_nothing, do_vfork_exec, false },
	{ "wait", set_zombie, do_wait, false },
	{ "exit", set_nothing, do_exit, false },
	{ "exit_with_threads", set_two_threads, do_exit, false },
	{ "setuid", set_nothing, do_setuid, true },
	{ "setuid_with_threads", set_two_threads, do_setuid, true },
	{ "setresuid", set_nothing, do_setresuid, true },
	{ "setgroups", set_nothing, do_setgroups, true },
	{ "setrlimit", set_nothing, do_setrlimit, false },
	{ "mq_open_create", set_nothing, do_mq_create, false },
	{ "mq_open_refused", set_nothing, do_mq_refused, false },
	{ "mq_open_existing", set_closed_queue, do_mq_open, false },
	{ "mq_unlink", set_closed_queue, do_mq_unlink, false },
	{ "mq_unlink_open", set_queue, do_mq_unlink, false },
	{ "mq_close_unlinked", set_unlinked_queue, do_mq_close, false },
	{ "mlock", set_memory, do_mlock, false },
	{ "mlock_refused", set_low_memlock, do_mlock_refused, false },
	{ "munlock", set_locked, do_munlock, false },
	{ "mlockall_future", set_memory, do_mlockall, false },
	{ "mlockall_current", set_much_memlock, do_mlockall_current, true },
	{ "munlockall", set_all_locked, do_munlockall, false },
	{ "mmap_locked", set_nothing, do_mmap_locked, false },
	{ "munmap_locked", set_locked, do_munmap, false },
	{ "mremap_locked", set_locked, do_mremap, false },
	{ "proc_status", set_nothing, do_proc_status, false },
	{ "signal_send_receive", set_blocked, do_send_and_receive, false },
	{ "signal_kill_handler", set_handler, do_kill_and_handle, false },
	{ "signal_unblock_handler", set_handler_and_pending, do_unblock, false },
	{ "signal_to_child", set_child, do_send_to_child, false },
	{ "signal_refused", set_full, do_send_refused, false },
	{ "signal_lost", set_full_with_handler, do_send_lost, false },
	{ "signal_ignore", set_pending, do_ignore, false },
	{ "signal_unblock_ignored", set_ignored_and_pending, do_unblock, false },
	{ "signal_read_signalfd", set_signalfd, do_read_signalfd, false },
	{ "thread_exit_with_pending", set_thread_with_pending, do_thread_exit, false },
	{ "wait_with_pending", set_zombie_with_pending, do_wait, false },
	{ "exit_with_pending", set_pending, do_exit, false },
	{ "setuid_with_pending", set_pending, do_setuid, true },
	{ "timer_create", set_nothing, do_timer_create, false },
	{ "timer_delete", set_timer, do_timer_delete, false },
	{ "timer_delete_fired", set_fired_timer, do_timer_delete, false },
	{ "exec_with_timer", set_timer_and_pending, do_exec, false },
	{ "exit_with_timer", set_timer_and_pending, do_exit, false },
	{ "unshare_user", set_nothing, do_unshare, false },
	{ "unshare_user_ipc", set_nothing, do_unshare_more, false },
	{ "unshare_user_with_pending", set_pending, do_unshare, false },
	{ "unshare_refused", set_nothing, do_ns_refused, false },
	{ "clone_newuser", set_nothing, do_clone_newuser, false },
	{ "write_maps", set_unshared, do_write_maps, false },
	{ "setns", set_other, do_setns, false },
	{ "nested_charges", set_inside, do_all_inside, false },
	{ "shm_lock", set_segment, do_shm_lock, false },
	{ "nested_signals", set_inside, do_send_inside, false },
	{ "nested_exec", set_inside, do_exec, false },
	{ "signal_burst", set_blocked, do_burst, false },
	{ "signal_fill", set_room, do_fill, false },
	{ "nested_fill", set_room_inside, do_fill_inside, false },
	{ "recovery", set_one_died, do_recovery, false },
};
#define NR_OPERATIONS (sizeof(operations) / sizeof(*operations))

/* --- the survivor --- */

static void victim(const struct operation *op)
{
	int ret;

	must(op->as_root || (!setgid(USER) && !setuid(USER)));
	op->set();
	arm(kill_step);
	ret = op->act();
	arm(0);
	_exit(ret);
}

/* Everybody who comes from the victim holds the pipe; it ends with the last of them. */
static const char *run(const struct operation *op)
{
	int life[2], status;
	char byte;
	pid_t pid;

	if (pipe(life))
		return "failed pipe";
	pid = fork();
	if (!pid) {
		close(life[0]);
		victim(op);
	}
	close(life[1]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return "failed wait";
	if (read(life[0], &byte, 1) != 0)
		return "failed end";
	close(life[0]);
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGKILL ? "died" : "failed signal";
	switch (WEXITSTATUS(status)) {
	case DONE:
		return "done";
	case CHILD_DIED:
		return "child";
	}
	return "failed status";
}

/* --- the witness --- */

static int queues_left(void)
{
	static const char *const path[] = { "/w1", "/w2", "/w3", "/w4", "/w5" };
	int n = 0;

	mq_unlink(QUEUE);
	while (n < 5) {
		mqd_t q = mq_open(path[n], O_RDWR | O_CREAT | O_EXCL, 0600, &small);

		if (q < 0)
			break;
		mq_close(q);
		n++;
	}
	for (int i = 0; i < n; i++)
		mq_unlink(path[i]);
	return n;
}

static int pages_left(void)
{
	int n = 0;

	memory = mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	while (n < 32 && !mlock(memory + n * PAGE, PAGE))
		n++;
	return n;
}

/* Signals and timers of the dead would be in the way of these. */
static int signals_left(void)
{
	int n = 0;

	set_blocked();
	must(!setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){ SIGNALS, SIGNALS }));
	while (n < SIGNALS && !send_rt(getpid()))
		n++;
	return n;
}

/* As many children as may have one. */
static int namespaces_left(void)
{
	pid_t pid[NAMESPACES + 1], parent = getpid();
	struct line l = line_open();
	int n = 0, made = 0;

	while (n <= NAMESPACES && (pid[n] = fork()) >= 0) {
		if (!pid[n]) {
			line_say(&l, !unshare(CLONE_NEWUSER));
			live_as_long_as(parent);
		}
		made++;
		if (!line_hear(&l))
			break;
		n++;
	}
	/* Nobody may be left who would be in the way of the next witness. */
	drain(pid, made);
	close(l.fd[0]);
	close(l.fd[1]);
	return n;
}

/* 16 pages are what a user may lock in segments, besides those that a process locks itself. */
static bool segments_free(void)
{
	int id = shmget(IPC_PRIVATE, 16 * PAGE, IPC_CREAT | 0600);
	bool all = id >= 0 && !shmctl(id, SHM_LOCK, NULL);

	shmctl(id, IPC_RMID, NULL);
	return all;
}

static void verify(char *text, size_t size)
{
	struct line l = line_open();
	pid_t pid = fork();
	int n, left;

	if (!pid) {
		must(!setgid(USER) && !setuid(USER));
		line_say(&l, forks_left());
		line_say(&l, queues_left());
		line_say(&l, pages_left());
		line_say(&l, signals_left());
		line_say(&l, segments_free() ? namespaces_left() : -1);
		_exit(0);
	}
	snprintf(text, size, "forks=%d", line_hear(&l));
	snprintf(text + strlen(text), size - strlen(text), " queues=%d", line_hear(&l));
	snprintf(text + strlen(text), size - strlen(text), " pages=%d", line_hear(&l));
	n = line_hear(&l);
	if (n != SIGNALS)
		snprintf(text + strlen(text), size - strlen(text), " signals=%d", n);
	left = line_hear(&l);
	if (left != NAMESPACES)
		snprintf(text + strlen(text), size - strlen(text), " namespaces=%d", left);
	waitpid(pid, NULL, 0);
	close(l.fd[0]);
	close(l.fd[1]);
}

static void answer(const char *command)
{
	char name[64] = "", text[128] = "failed command";

	if (!strncmp(command, "verify", 6))
		verify(text, sizeof(text));
	else if (sscanf(command, "run %63s %ld %ld", name, &kill_step, &early_step) >= 2)
		for (size_t i = 0; i < NR_OPERATIONS; i++)
			if (!strcmp(operations[i].name, name))
				snprintf(text, sizeof(text), "%s", run(&operations[i]));
	puts(text);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char command[128];

	self = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--nothing"))
		return 0;
	if (argc > 1 && !strcmp(argv[1], "--list")) {
		for (size_t i = 0; i < NR_OPERATIONS; i++)
			puts(operations[i].name);
		return 0;
	}
	must(put("/proc/sys/user/max_user_namespaces", "3") > 0);
	while (fgets(command, sizeof(command), stdin))
		answer(command);
	return 0;
}
