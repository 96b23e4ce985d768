/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The wait family: who has been reaped is released; and the ends of processes. */
#include <unistd.h>

#include <kpemu/signal.h>

#include "preload/hook.h"
#include "preload/thread.h"

/* reaped - @pid has been waited for. Only what the kernel no longer knows is released. */
void reaped(pid_t pid)
{
	uint64_t mask;

	block_signals(&mask);
	release_group(pid);
	restore_signals(&mask);
}

static bool ended(int status)
{
	return WIFEXITED(status) || WIFSIGNALED(status);
}

/* libc's own call, because it is a cancellation point. */
pid_t hook_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	int own_status;
	pid_t ret;

	if (!status)
		status = &own_status;
	ret = next_wait4(pid, status, options, usage);
	if (ret > 0 && ended(*status))
		reaped(ret);
	return ret;
}

pid_t hook_wait3(int *status, int options, struct rusage *usage)
{
	return hook_wait4(-1, status, options, usage);
}

pid_t hook_waitpid(pid_t pid, int *status, int options)
{
	return hook_wait4(pid, status, options, NULL);
}

pid_t hook_wait(int *status)
{
	return hook_wait4(-1, status, 0, NULL);
}

/* What a child's end, or a look at it, tells us and the program. */
static void child_seen(siginfo_t *info, int options)
{
	bool ended = info->si_pid > 0 &&
		     (info->si_code == CLD_EXITED || info->si_code == CLD_KILLED ||
		      info->si_code == CLD_DUMPED);
	struct task_struct *t = ended && options & WNOWAIT ? find_task_by_vpid(info->si_pid) : NULL;

	info->si_uid = sender_uid(info->si_pid, info->si_uid);
	if (t)
		signal_dead(t);
	if (ended && !(options & WNOWAIT))
		reaped(info->si_pid);
}

int hook_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	siginfo_t own = { 0 };
	int ret;

	if (!info)
		info = &own;
	ret = next_waitid(type, id, info, options);
	if (!ret)
		child_seen(info, options);
	return ret;
}

long hook_sys_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	int own_status;
	long ret;

	if (!status)
		status = &own_status;
	ret = sys_call(__NR_wait4, pid, status, options, usage);
	if (ret > 0 && ended(*status))
		reaped(ret);
	return ret;
}

long hook_sys_waitid(int type, id_t id, siginfo_t *info, int options, struct rusage *usage)
{
	siginfo_t own = { 0 };
	long ret;

	if (!info)
		info = &own;
	ret = sys_call(__NR_waitid, type, id, info, options, usage);
	if (!ret)
		child_seen(info, options);
	return ret;
}

/* Orphans go to the launcher, which the program must not see: its tasks are init's children then. */
long hook_getppid(void)
{
	long ppid = sys_call(__NR_getppid);
	bool first = task_ref(task_leader(current)) == READ_ONCE(world->init_task);

	return ppid == world->launcher_pid && !first ? 1 : ppid;
}

EXPORT void _exit(int status)
{
	if (current)
		signal_dead(task_leader(current));
	last_task_out();
	for (;;)
		sys_call(__NR_exit_group, status);
}
