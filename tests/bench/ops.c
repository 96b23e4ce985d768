// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The operations that bench.py times.
 *
 *   ops          reads lines "OP COUNT" and answers each with the nanoseconds that one OP took, or
 *                with "error: ..."; ends with its input
 *   ops OP COUNT does that once, without a word: for counting system calls
 */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* What the last failed operation was about, for the answer; errno goes with it. */
static const char *failed_call;

static int fail(const char *call)
{
	failed_call = call;
	return -1;
}

static int op_getppid(void)
{
	return getppid() < 0 ? fail("getppid") : 0;
}

static int op_mq(void)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	static char name[32];
	mqd_t queue;

	if (!name[0])
		snprintf(name, sizeof(name), "/kpemu-bench-%d", (int)getpid());
	queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
	if (queue == (mqd_t)-1)
		return fail("mq_open");
	if (mq_close(queue))
		return fail("mq_close");
	return mq_unlink(name) ? fail("mq_unlink") : 0;
}

static int op_mlock(void)
{
	static char page[4096] __attribute__((aligned(4096)));

	page[0] = 1;
	if (mlock(page, sizeof(page)))
		return fail("mlock");
	return munlock(page, sizeof(page)) ? fail("munlock") : 0;
}

/* Waits for a child that should have ended with 0. */
static int reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return fail("waitpid");
	errno = ECHILD;
	return status ? fail("the child") : 0;
}

static int op_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		return fail("fork");
	if (!pid)
		_exit(0);
	return reap(pid);
}

static int op_exec(void)
{
	char *argv[] = { (char *)"true", NULL };
	pid_t pid = fork();

	if (pid < 0)
		return fail("fork");
	if (!pid) {
		execve("/bin/true", argv, environ);
		_exit(127);
	}
	return reap(pid);
}

static void *nothing(void *arg)
{
	return arg;
}

static int op_thread(void)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, nothing, NULL);
	if (errno)
		return fail("pthread_create");
	errno = pthread_join(thread, NULL);
	return errno ? fail("pthread_join") : 0;
}

static volatile sig_atomic_t handled;

static void on_signal(int sig)
{
	handled = sig;
}

/* What the signal operations need, once: a handler for SIGUSR1, a blocked real-time signal. */
static sigset_t *signals_ready(void)
{
	struct sigaction act = { .sa_handler = on_signal };
	static sigset_t waited_for;
	static bool ready;

	if (!ready) {
		sigemptyset(&act.sa_mask);
		sigemptyset(&waited_for);
		sigaddset(&waited_for, SIGRTMIN);
		if (sigaction(SIGUSR1, &act, NULL) || sigprocmask(SIG_BLOCK, &waited_for, NULL))
			return NULL;
		ready = true;
	}
	handled = 0;
	return &waited_for;
}

/* A system call less for the program itself. */
static pid_t own_pid(void)
{
	static pid_t pid;

	if (!pid)
		pid = getpid();
	return pid;
}

static int handled_or_fail(const char *call)
{
	errno = ENOMSG;
	return handled == SIGUSR1 ? 0 : fail(call);
}

static int op_kill(void)
{
	if (!signals_ready() || kill(own_pid(), SIGUSR1))
		return fail("kill");
	return handled_or_fail("kill");
}

static int op_raise(void)
{
	if (!signals_ready() || raise(SIGUSR1))
		return fail("raise");
	return handled_or_fail("raise");
}

static int receive(const sigset_t *set)
{
	siginfo_t info;

	return sigtimedwait(set, &info, &(struct timespec){ 0 }) < 0 ? fail("sigtimedwait") : 0;
}

static int op_sigqueue(void)
{
	sigset_t *set = signals_ready();

	if (!set || sigqueue(own_pid(), SIGRTMIN, (union sigval){ 0 }))
		return fail("sigqueue");
	return receive(set);
}

static int op_pending(void)
{
	sigset_t *set = signals_ready();

	if (!set || kill(own_pid(), SIGRTMIN))
		return fail("kill");
	return receive(set);
}

static const struct op {
	const char *name;
	int (*run)(void);
} ops[] = {
	{ "getppid", op_getppid }, { "mq", op_mq },       { "mlock", op_mlock },
	{ "fork", op_fork },       { "exec", op_exec },   { "thread", op_thread },
	{ "kill", op_kill },       { "raise", op_raise }, { "sigqueue", op_sigqueue },
	{ "pending", op_pending },
};

static const struct op *find_op(const char *name)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].name, name))
			return &ops[i];
	return NULL;
}

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static int repeat(const struct op *op, long count)
{
	for (long i = 0; i < count; i++)
		if (op->run())
			return -1;
	return 0;
}

static void answer(const char *line)
{
	const struct op *op;
	char name[16];
	double start;
	long count;

	if (sscanf(line, "%15s %ld", name, &count) != 2 || count < 1 || !(op = find_op(name))) {
		printf("error: no such request: %s", line);
		return;
	}
	start = now_ns();
	if (repeat(op, count))
		printf("error: %s: %s\n", failed_call, strerror(errno));
	else
		printf("%.2f\n", (now_ns() - start) / count);
}

int main(int argc, char **argv)
{
	const struct op *op;
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3) {
		op = find_op(argv[1]);
		if (op && !repeat(op, atol(argv[2])))
			return 0;
		fprintf(stderr, "ops: %s: %s\n", op ? failed_call : argv[1], strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof(line), stdin))
		answer(line);
	return 0;
}
