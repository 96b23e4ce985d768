/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The launcher: starts the program, stands in for it towards the shell, and ends as it ended. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kpemu/teardown.h>

#include "emu/cmd/cmd.h"
#include "emu/cmd/run.h"

#define GRACE_LOOKS    5
#define GRACE_PAUSE_NS 2000000
#define WATCH_PAUSE_NS 50000000

/*
 * The launcher shares the program's process group, so the terminal's signals reach both. Those that
 * the program decides about must not end or stop the launcher on their own.
 */
static const int ignored[] = { SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE };
static const int forwarded[] = { SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT };
#define NR_IGNORED   (sizeof(ignored) / sizeof(*ignored))
#define NR_FORWARDED (sizeof(forwarded) / sizeof(*forwarded))

struct launcher {
	struct launch *launch;
	struct sigaction was[NR_IGNORED], was_chld; /* the caller's, for the program */
	pid_t pid; /* of the program; 0 = not started */
	int signals; /* signalfd */
	struct handover handover;
	bool ended;
	int status; /* of the program, as wait(2) gives it */
};

/* --- signals --- */

static int take_signals(struct launcher *s)
{
	struct sigaction ign = { .sa_handler = SIG_IGN }, dfl = { .sa_handler = SIG_DFL };
	sigset_t set;

	for (size_t i = 0; i < NR_IGNORED; i++)
		sigaction(ignored[i], &ign, &s->was[i]);
	/* A caller may ignore its children: then wait(2) would tell us nothing. */
	sigaction(SIGCHLD, &dfl, &s->was_chld);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < NR_FORWARDED; i++)
		sigaddset(&set, forwarded[i]);
	s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return s->signals < 0 ? cmd_error("signalfd: %s", strerror(errno)) : 0;
}

/* In the child: what the program would have found without us. */
static void give_signals_back(const struct launcher *s)
{
	for (size_t i = 0; i < NR_IGNORED; i++)
		sigaction(ignored[i], &s->was[i], NULL);
	sigaction(SIGCHLD, &s->was_chld, NULL);
	sigprocmask(SIG_SETMASK, &s->launch->mask, NULL);
}

/*
 * Did the sender mean the program? What the kernel sends goes to the whole group, or, at the end of
 * a session, to its leader, which without us would be the program. What the program's own tasks
 * send to their group has reached it already.
 */
static bool is_for_program(const struct signalfd_siginfo *si)
{
	if (si->ssi_code == SI_KERNEL)
		return si->ssi_signo == SIGHUP && getsid(0) == getpid();
	return !find_task_by_vpid(si->ssi_pid);
}

static bool program_stopped(pid_t pid)
{
	char path[40], buf[512], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	p = strrchr(buf, ')');
	return p && !strncmp(p, ") T", 3);
}

static void forward_signals(struct launcher *s)
{
	struct signalfd_siginfo si;

	while (read(s->signals, &si, sizeof(si)) == sizeof(si)) {
		bool wanted;

		switch (si.ssi_signo) {
		case SIGCHLD:
			continue;
		case SIGCONT: /* which one to the group has done already */
			wanted = program_stopped(s->pid);
			break;
		default:
			wanted = is_for_program(&si);
		}
		if (wanted)
			kill(s->pid, si.ssi_signo);
	}
}

/* --- stopping --- */

/*
 * Who is stopped cannot see that the program was continued or killed. While the launcher is, a
 * child of it watches, and wakes it. Without the child, whoever stopped the launcher must.
 */
static pid_t start_watcher(const struct launcher *s)
{
	const struct timespec pause = { .tv_nsec = WATCH_PAUSE_NS };
	pid_t launcher = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	close(s->launch->world_fd); /* the life sign is the launcher's alone */
	/* Again and again: a SIGCONT that comes before the launcher has stopped is lost. */
	while (getppid() == launcher) {
		nanosleep(&pause, NULL);
		if (!program_stopped(s->pid))
			kill(launcher, SIGCONT);
	}
	_exit(0);
}

/* The program stopped: so does the launcher, by the same signal, for whoever waits for it. */
static void stop_like(const struct launcher *s, int sig)
{
	pid_t watcher = start_watcher(s);
	sigset_t set;

	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(sig, SIG_IGN);
	if (watcher < 0)
		return;
	kill(watcher, SIGKILL);
	waitpid(watcher, NULL, 0);
}

/* --- children --- */

/* Reap the program and, being a subreaper, its orphans. */
static void reap_children(struct launcher *s)
{
	int status, stopped = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (WIFSTOPPED(status)) {
			if (pid == s->pid)
				stopped = WSTOPSIG(status);
			continue;
		}
		release_group(pid);
		if (pid != s->pid)
			continue;
		s->ended = true;
		s->status = status;
	}
	if (stopped && !s->ended)
		stop_like(s, stopped);
}

static void see_to_end(struct launcher *s)
{
	struct pollfd fds[2 + HANDOVER_PEERS];
	int n;

	for (;;) {
		reap_children(s);
		if (s->ended)
			return;
		fds[0] = (struct pollfd){ s->signals, POLLIN, 0 };
		n = handover_poll(&s->handover, fds + 1);
		if (poll(fds, 1 + n, -1) < 0)
			continue;
		forward_signals(s);
		handover_serve(&s->handover, s->launch->world_fd);
	}
}

/* --- the start --- */

/* What the child could not do, through the pipe; nothing comes when the program runs. */
struct failure {
	int err;
	int resource; /* RLIMIT_* that could not be set; -1: exec failed */
};

/*
 * The emulated limits must bite before the real ones do: in the program's process the real soft
 * limits of the same four are raised to the hard ones (`kpemu doctor` says so too). The real hard
 * limits stay. All other limits are the kernel's.
 */
static int set_real_limits(const struct run_options *options)
{
	struct rlimit rl;

	for (int i = 0; i < RLIM_NLIMITS; i++) {
		if (rlimit_type_of(i) >= 0 && !getrlimit(i, &rl)) {
			rl.rlim_cur = rl.rlim_max;
			setrlimit(i, &rl);
		}
	}
	/* Last, because one of them may be what getrlimit() or exec would trip over. */
	for (int i = 0; i < RLIM_NLIMITS; i++)
		if (options->real[i].set && setrlimit(i, &options->real[i].value))
			return i;
	return -1;
}

/* As execvp(3): a text file without "#!" is a script of the shell. */
static void exec_program(const struct launch *l, char **env)
{
	size_t argc = exec_env_count(l->argv);
	char **argv;

	execve(l->path, l->argv, env);
	argv = errno == ENOEXEC ? calloc(argc + 2, sizeof(*argv)) : NULL;
	if (!argv)
		return;
	argv[0] = "/bin/sh";
	argv[1] = (char *)l->path;
	memcpy(argv + 2, l->argv + 1, argc * sizeof(*argv));
	execve(argv[0], argv, env);
}

static void child(struct launcher *s, uint32_t ref, char **env, int pipe_fd)
{
	const struct launch *l = s->launch;
	struct failure f;

	current = l->task;
	task_born(l->task, ref, getpid(), getpid());
	f.resource = set_real_limits(l->options);
	if (f.resource < 0) {
		give_signals_back(s);
		exec_program(l, env);
	}
	f.err = errno;
	/* Shorter than PIPE_BUF: all or nothing. */
	_exit(write(pipe_fd, &f, sizeof(f)) == sizeof(f) ? CMD_ERROR : CMD_CANNOT_EXEC);
}

static int complain(const struct launch *l, const struct failure *f)
{
	if (f->resource >= 0)
		return run_limit_refused(l->options, f->resource, f->err);
	if (f->err == ENOENT && !access(l->path, F_OK))
		cmd_error("%s: its interpreter or loader does not exist", l->argv[0]);
	else
		cmd_error("%s: %s", l->argv[0], strerror(f->err));
	return f->err == ENOENT ? CMD_NOT_FOUND : CMD_CANNOT_EXEC;
}

/* Fork, and wait until the child has become the program. 0 or an exit status after a message. */
static int spawn(struct launcher *s, char **env)
{
	struct task_struct *task = s->launch->task;
	uint32_t ref = task_ref(task);
	struct failure f;
	int fds[2], ret = 0;

	if (pipe2(fds, O_CLOEXEC))
		return cmd_error("pipe: %s", strerror(errno));
	s->pid = fork();
	if (!s->pid)
		child(s, ref, env, fds[1]);
	close(fds[1]);
	if (s->pid < 0)
		ret = cmd_error("fork: %s", strerror(errno));
	else
		task_born(task, ref, s->pid, s->pid);
	if (!ret && read(fds[0], &f, sizeof(f)) == sizeof(f))
		ret = complain(s->launch, &f);
	close(fds[0]);
	return ret;
}

static int start(struct launcher *s)
{
	const struct launch *l = s->launch;
	/* A static program cannot load the library, but what it starts may. */
	bool hand_on = l->kind != EXEC_FOREIGN && l->kind != EXEC_SETID;
	char **env = calloc(exec_env_count(environ) + EXEC_ENV_EXTRA, sizeof(*env));
	struct exec_env scratch;
	int ret;

	if (!env)
		return cmd_error("out of memory");
	ret = exec_env(&scratch, environ, env, l->task, hand_on ? world->preload_path : NULL);
	if (ret)
		ret = cmd_error("LD_PRELOAD: %s", strerror(-ret));
	else
		ret = spawn(s, env);
	free(env);
	return ret;
}

/* --- the end --- */

/* What was killed together with the program needs a moment to die. */
static void wait_for_dying(struct launcher *s)
{
	const struct timespec pause = { .tv_nsec = GRACE_PAUSE_NS };

	for (int i = 0; i < GRACE_LOOKS; i++) {
		reap_children(s);
		reap_dead(-1);
		if (!world_in_use(0))
			return;
		nanosleep(&pause, NULL);
	}
}

/* The report is written down first and printed last: a reader that blocks us keeps no world. */
static void end_world(struct launcher *s, bool report)
{
	char *text = NULL;
	size_t size;
	FILE *out = report ? open_memstream(&text, &size) : NULL;

	if (out) {
		report_print(out, !world_in_use(0));
		fclose(out);
	}
	/*
	 * The second call is for a task that died after the first one found it alive, and that
	 * could not remove the world because the lock was still ours.
	 */
	if (world_remove(s->launch->world_fd, 0) == -EBUSY)
		world_remove(s->launch->world_fd, 0);
	if (text)
		fputs(text, stderr);
	free(text);
}

/* End as the program ended. A core file of the launcher would be nobody's wish. */
static int end_like(int status)
{
	const struct rlimit none = { 0 };
	sigset_t set;
	int sig;

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	sig = WTERMSIG(status);
	setrlimit(RLIMIT_CORE, &none);
	/* Where cores go to a program, the limit does not count. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 128 + sig;
}

int launcher_run(struct launch *l)
{
	struct launcher s = { .launch = l };
	int ret;

	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	handover_open(&s.handover);
	ret = take_signals(&s);
	if (!ret)
		ret = start(&s);
	if (!ret) {
		see_to_end(&s);
		wait_for_dying(&s);
	} else {
		if (s.pid > 0)
			waitpid(s.pid, NULL, 0);
		release_task(l->task);
	}
	handover_close(&s.handover);
	end_world(&s, !ret && !l->options->quiet);
	return ret ? ret : end_like(s.status);
}
