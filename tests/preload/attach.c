/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Goes through one or several changes that could lose the world, then tells what it still sees. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "emu/lib/rawsys.h"
#include "tests/preload/check.h"

/*
 * usage: attach STEP...
 * The last step is look, which prints one line, or hold, which prints the pid and waits for the end
 * of standard input. A step that starts a program starts this one again with the steps behind it.
 */
#define MANY 20 /* forks without a refusal: there is no limit */

static char *self;

static void same_program(char **rest, char *const *env)
{
	char *argv[32] = { self };
	int n = 1;

	while (*rest && n < 31)
		argv[n++] = *rest++;
	argv[n] = NULL;
	if (env)
		execve(self, argv, env);
	else
		execv(self, argv);
	die("exec");
}

/* The variadic form, whose environment comes behind its list. */
static void same_program_list(char **rest)
{
	char *none[] = { NULL };

	execle(self, self, rest[0], rest[0] ? rest[1] : NULL, NULL, none);
	die("execle");
}

/* The child goes on; its parent waits for it and ends as it does. */
static void step_fork(void)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		die("fork");
	if (!pid)
		return;
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

/*
 * A daemon by two forks goes on. Who started it waits until it has ended, so that the launcher and
 * the world outlive it.
 */
static void step_daemon(void)
{
	pid_t pid, between;
	int said[2];

	if (pipe(said))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid) {
		waitpid(pid, NULL, 0);
		if (!read_within(said[0], &pid, sizeof(pid), 5000))
			die("daemon");
		exit(until(kill(pid, 0) && errno == ESRCH) ? 0 : 98);
	}
	if (setsid() < 0)
		die("setsid");
	between = getpid();
	pid = fork();
	if (pid < 0)
		die("fork in session");
	if (pid)
		_exit(0);
	/* It counts until it has been waited for. */
	if (!until(kill(between, 0) && errno == ESRCH))
		die("the process between");
	pid = getpid();
	if (write(said[1], &pid, sizeof(pid)) != sizeof(pid))
		die("write");
	close(said[0]);
	close(said[1]);
}

static void step_chroot(const char *dir)
{
	if (chroot(dir) || chdir("/"))
		die("chroot");
}

/* Past the library, which would ask whether the emulated user may. */
static void step_shm(void)
{
	if (sys_call(__NR_unshare, CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev/shm", "tmpfs", 0, NULL))
		die("private /dev/shm");
}

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void step_threads(void)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, sleeper, NULL))
			die("pthread_create");
}

static void *exec_here(void *rest)
{
	same_program(rest, NULL);
	return NULL;
}

static void step_thread_exec(char **rest)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, exec_here, rest))
		die("pthread_create");
	for (;;)
		pause();
}

/* The real uid that the status file tells; -1 without /proc. */
static long status_uid(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long uid = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %ld", &uid) == 1)
			break;
	if (f)
		fclose(f);
	return uid;
}

static int count_forks(void)
{
	pid_t pid[MANY];
	int n = 0;

	while (n < MANY && (pid[n] = fork()) >= 0) {
		if (!pid[n])
			sleeper(NULL);
		n++;
	}
	for (int i = 0; i < n; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	return n;
}

static void look(void)
{
	struct rlimit r;
	uid_t ruid, euid, suid;

	if (getrlimit(RLIMIT_NPROC, &r) || getresuid(&ruid, &euid, &suid))
		die("look");
	printf("nproc=%lld uid=%u,%u,%u status=%ld forks=%d\n", (long long)r.rlim_cur, ruid, euid,
	       suid, status_uid(), count_forks());
}

static void hold(void)
{
	char byte;

	printf("pid %d\n", getpid());
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	static char *none[] = { NULL };

	self = argv[0];
	for (int i = 1; i < argc; i++) {
		char **rest = argv + i + 1, *step = argv[i];

		if (!strcmp(step, "fork"))
			step_fork();
		else if (!strcmp(step, "exec"))
			same_program(rest, NULL);
		else if (!strcmp(step, "execve-empty"))
			same_program(rest, none);
		else if (!strcmp(step, "execle-empty"))
			same_program_list(rest);
		else if (!strcmp(step, "close-range"))
			close_range(3, ~0U, 0);
		else if (!strcmp(step, "close-on-exec"))
			close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
		else if (!strcmp(step, "close-from"))
			closefrom(3);
		else if (!strcmp(step, "daemon"))
			step_daemon();
		else if (!strncmp(step, "chroot=", 7))
			step_chroot(step + 7);
		else if (!strcmp(step, "shm"))
			step_shm();
		else if (!strcmp(step, "threads"))
			step_threads();
		else if (!strcmp(step, "thread-exec"))
			step_thread_exec(rest);
		else if (!strcmp(step, "clear-environment"))
			clearenv();
		else if (!strcmp(step, "look"))
			look();
		else if (!strcmp(step, "hold"))
			hold();
		else
			return 97;
	}
	return 0;
}
