/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sending signals: a charge to the target before the real call, and back if that fails. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "emu/lib/uaccess.h"
#include "preload/hook.h"
#include "preload/signal.h"

pid_t own_tgid(void)
{
	return READ_ONCE(current->flags) & PF_PIDNS ? sys_call(__NR_getpid) : current->tgid;
}

pid_t own_tid(void)
{
	return READ_ONCE(current->flags) & PF_PIDNS ? sys_call(__NR_gettid) : current->pid;
}

__thread struct signal_call *signal_call_now __attribute__((tls_model("initial-exec")));

void complete_signal_call(struct signal_call *call)
{
	if (call->told)
		return;
	call->complete(call);
	call->told = call->ret != SIGNAL_CALL_OPEN;
}

void end_signal_call(struct signal_call *call)
{
	defer_signals();
	complete_signal_call(call);
	signal_call_ends();
	allow_signals();
}

/* A signal on its way: the model's view of it, and the call that really sends it. */
struct send {
	struct signal_call call;
	struct task_struct *t;
	enum sig_queue q;
	int sig, code;
	pid_t tgid, tid; /* as the caller names the target */
	siginfo_t *info; /* a copy of the program's; NULL: the kernel makes one */
	long nr, a[4];
	int how, mark; /* send_signal()'s answer */
};

/* What @uid, a name in the caller's user namespace, is called in that of the target. */
static uint32_t target_uid(const struct task_struct *t, uint32_t uid)
{
	uint32_t from = current->cred.user_ns, to = READ_ONCE(t->cred.user_ns);

	return likely(from == to) ? uid : from_kuid_munged(to, make_kuid(from, uid));
}

static void sender_info(siginfo_t *info, int sig)
{
	memset(info, 0, INFO_LENGTH);
	info->si_signo = sig;
	info->si_code = SI_QUEUE;
	info->si_pid = own_tgid();
	info->si_uid = from_kuid_munged(current->cred.user_ns, current->cred.uid);
}

/* With a mark for the receiver's side, which puts in what the program is to see. */
static void marked_send(struct send *s)
{
	siginfo_t info;

	if (s->info)
		info = *s->info;
	else
		sender_info(&info, s->sig);
	if (!s->info)
		info.si_uid = target_uid(s->t, info.si_uid);
	info.si_signo = s->sig;
	if (s->code == SI_USER || s->code == SI_TKILL)
		info.si_code = SI_QUEUE;
	if (!info.si_errno)
		info.si_errno = s->mark;
	if (s->q == PENDING_SHARED)
		signal_call(__NR_rt_sigqueueinfo, s->tgid, s->sig, (long)&info, 0, &s->call);
	else
		signal_call(__NR_rt_tgsigqueueinfo, s->tgid, s->tid, s->sig, (long)&info, &s->call);
}

/* Whatever it is: s->call.ret is the answer. */
static inline void real_send(struct send *s)
{
	if (unlikely(s->how < 0 || s->how == SEND_MERGED))
		s->call.ret = s->how < 0 ? s->how : 0;
	else if (s->mark)
		marked_send(s);
	else
		signal_call(s->nr, s->a[0], s->a[1], s->a[2], s->a[3], &s->call);
}

static void complete_send(struct signal_call *call)
{
	struct send *s = (struct send *)call;

	if (call->ret == SIGNAL_CALL_OPEN)
		real_send(s);
	sent_signal(s->t, s->q, s->sig, s->how, call->ret < 0);
}

static const char *call_name(const struct send *s)
{
	switch (s->nr) {
	case __NR_kill:
		return "kill";
	case __NR_tkill:
	case __NR_tgkill:
		return "tgkill";
	case __NR_rt_sigqueueinfo:
		return "rt_sigqueueinfo";
	case __NR_rt_tgsigqueueinfo:
		return "rt_tgsigqueueinfo";
	}
	return "pidfd_send_signal";
}

/* To a task that is not of the world (NULL) the call goes as it is. */
static long send(struct send *s)
{
	long ret = s->t ? check_kill_permission(s->t, s->sig) : 0;
	struct refusal why;

	if (ret)
		return ret;
	if (s->t && s->info)
		s->info->si_uid = target_uid(s->t, s->info->si_uid);
	if (!s->t || !s->sig)
		return sys_call(s->nr, s->a[0], s->a[1], s->a[2], s->a[3]);
	defer_signals();
	s->how = send_signal(s->t, s->q, s->sig, s->code, &s->mark, &why);
	signal_call_begins(&s->call, complete_send);
	allow_signals();
	if (unlikely(s->how < 0))
		refusal_log(&why, call_name(s));
	real_send(s);
	if (likely(s->call.ret >= 0)) {
		if (!s->call.told)
			sent_signal(s->t, s->q, s->sig, s->how, false);
		signal_call_ends();
		return s->call.ret;
	}
	end_signal_call(&s->call);
	if (s->call.ret == -EAGAIN && s->how >= 0)
		host_collision();
	return s->call.ret;
}

/* --- to a process --- */

static struct task_struct *process_of(pid_t pid)
{
	struct task_struct *t = pid == current->tgid ? current : find_task_by_vpid(pid);

	return t ? task_leader(t) : NULL;
}

static long kill_one(struct task_struct *t, pid_t pid, int sig)
{
	return send(&(struct send){ .t = t,
				    .q = PENDING_SHARED,
				    .sig = sig,
				    .code = SI_USER,
				    .tgid = pid,
				    .nr = __NR_kill,
				    .a = { pid, sig } });
}

static bool is_leader(const struct task_struct *t)
{
	return slot_state(READ_ONCE(t->slot)) == SLOT_LIVE && READ_ONCE(t->pid) &&
	       READ_ONCE(t->group_leader) == task_ref(t);
}

/* What has become of a send to several: one that arrives makes it good. */
struct group_result {
	long ret;
	bool done;
};

static void kill_member(struct task_struct *t, pid_t pgrp, int sig, struct group_result *r)
{
	pid_t pid = READ_ONCE(t->pid);
	long err;

	if (!is_leader(t) || sys_call(__NR_getpgid, pid) != pgrp)
		return;
	err = kill_one(t, pid, sig);
	if (err == -ESRCH)
		return;
	r->done |= !err;
	r->ret = err;
}

/*
 * The members that the world has; a group without any is somebody else's. The caller's own process
 * is the last: what it sends to itself may end it.
 */
static long kill_group(pid_t pgrp, int sig)
{
	struct group_result r = { -ESRCH, false };
	struct task_struct *t;

	for_each_task(i, t)
		if (READ_ONCE(t->tgid) != current->tgid)
			kill_member(t, pgrp, sig, &r);
	kill_member(task_leader(current), pgrp, sig, &r);
	if (r.ret == -ESRCH)
		return sys_call(__NR_kill, -pgrp, sig);
	return r.done ? 0 : r.ret;
}

/* Everybody in the world but the caller's own process. Never passed on. */
static long kill_all(int sig)
{
	struct task_struct *t;
	bool any = false;
	long ret = 0, err;

	for_each_task(i, t) {
		if (!is_leader(t) || READ_ONCE(t->tgid) == current->tgid)
			continue;
		err = kill_one(t, READ_ONCE(t->pid), sig);
		if (err == -ESRCH)
			continue;
		any = true;
		if (err != -EPERM)
			ret = err;
	}
	return any ? ret : -ESRCH;
}

long hook_kill(pid_t pid, int sig)
{
	if (pid == INT_MIN)
		return -ESRCH;
	if (pid == -1)
		return kill_all(sig);
	if (pid <= 0)
		return kill_group(pid ? -pid : sys_call(__NR_getpgid, 0), sig);
	return kill_one(process_of(pid), pid, sig);
}

long hook_killpg(pid_t pgrp, int sig)
{
	return pgrp < 0 ? -EINVAL : hook_kill(-pgrp, sig);
}

/* Nobody may claim for another process that the kernel or a tgkill was the sender. */
static bool may_claim(const siginfo_t *info, bool itself)
{
	return itself || (info->si_code < 0 && info->si_code != SI_TKILL);
}

static long queue_to_process(pid_t pid, int sig, siginfo_t *info)
{
	/* The kernel compares with the caller's own number: a thread that is not the first is another. */
	if (!may_claim(info, pid == own_tid()))
		return -EPERM;
	return send(&(struct send){ .t = pid > 0 ? process_of(pid) : NULL,
				    .q = PENDING_SHARED,
				    .sig = sig,
				    .code = info->si_code,
				    .tgid = pid,
				    .info = info,
				    .nr = __NR_rt_sigqueueinfo,
				    .a = { pid, sig, (long)info } });
}

static void queued_info(siginfo_t *info, int sig, union sigval value)
{
	sender_info(info, sig);
	info->si_value = value;
}

long hook_sigqueue(pid_t pid, int sig, const union sigval value)
{
	siginfo_t info;

	queued_info(&info, sig, value);
	return queue_to_process(pid, sig, &info);
}

long hook_sys_rt_sigqueueinfo(pid_t pid, int sig, const void *uinfo)
{
	siginfo_t info;

	if (copy_from_user(&info, uinfo, sizeof(info)))
		return -EFAULT;
	return queue_to_process(pid, sig, &info);
}

/* --- to a thread --- */

/* The two that libc uses itself, and hides. */
static bool is_internal(int sig)
{
	return sig > 0 && sig <= KPEMU_NSIG && sig_bit(sig) & INTERNAL_SIGNALS;
}

static struct task_struct *thread_of(pid_t tgid, pid_t tid)
{
	struct task_struct *t;

	if (tid == current->pid)
		t = current;
	else
		t = tid > 0 ? find_task_by_vpid(tid) : NULL;
	if (!t || tgid < 0)
		return t;
	return task_leader(t) == process_of(tgid) ? t : NULL;
}

long hook_tgkill(pid_t tgid, pid_t tid, int sig)
{
	return send(&(struct send){ .t = tgid > 0 ? thread_of(tgid, tid) : NULL,
				    .q = PENDING_PRIVATE,
				    .sig = sig,
				    .code = SI_TKILL,
				    .tgid = tgid,
				    .tid = tid,
				    .nr = __NR_tgkill,
				    .a = { tgid, tid, sig } });
}

long hook_sys_tkill(pid_t tid, int sig)
{
	struct task_struct *t = thread_of(-1, tid);

	return send(&(struct send){ .t = t,
				    .q = PENDING_PRIVATE,
				    .sig = sig,
				    .code = SI_TKILL,
				    .tgid = t ? READ_ONCE(t->tgid) : 0,
				    .tid = tid,
				    .nr = __NR_tkill,
				    .a = { tid, sig } });
}

long hook_raise(int sig)
{
	return is_internal(sig) ? -EINVAL : hook_tgkill(own_tgid(), own_tid(), sig);
}

static long queue_to_thread(pid_t tgid, pid_t tid, int sig, siginfo_t *info)
{
	if (tgid <= 0 || tid <= 0)
		return -EINVAL;
	if (!may_claim(info, tid == own_tid()))
		return -EPERM;
	return send(&(struct send){ .t = thread_of(tgid, tid),
				    .q = PENDING_PRIVATE,
				    .sig = sig,
				    .code = info->si_code,
				    .tgid = tgid,
				    .tid = tid,
				    .info = info,
				    .nr = __NR_rt_tgsigqueueinfo,
				    .a = { tgid, tid, sig, (long)info } });
}

long hook_sys_rt_tgsigqueueinfo(pid_t tgid, pid_t tid, int sig, const void *uinfo)
{
	siginfo_t info;

	if (copy_from_user(&info, uinfo, sizeof(info)))
		return -EFAULT;
	return queue_to_thread(tgid, tid, sig, &info);
}

/*
 * The thread id behind a pthread_t: the id of a thread's clock has it, and no system call is needed
 * to ask for that. 0: the thread has ended.
 */
static pid_t tid_of(pthread_t thread)
{
	clockid_t clock;

	if (pthread_equal(thread, pthread_self()))
		return own_tid();
	return pthread_getcpuclockid(thread, &clock) ? 0 : ~(clock >> 3);
}

/* A thread that has ended but can still be joined takes any signal, says libc since 2.34. */
static int thread_ret(long ret)
{
	return ret == -ESRCH ? 0 : -ret;
}

int hook_pthread_kill(pthread_t thread, int sig)
{
	pid_t tid = tid_of(thread);

	if (is_internal(sig))
		return EINVAL;
	return tid > 0 ? thread_ret(hook_tgkill(own_tgid(), tid, sig)) : 0;
}

int hook_pthread_sigqueue(pthread_t thread, int sig, const union sigval value)
{
	pid_t tid = tid_of(thread);
	siginfo_t info;

	if (is_internal(sig))
		return EINVAL;
	if (tid <= 0)
		return ESRCH;
	queued_info(&info, sig, value);
	return -queue_to_thread(own_tgid(), tid, sig, &info);
}

/* --- to a pidfd --- */

#define SIGNAL_THREAD       1u /* PIDFD_SIGNAL_THREAD */
#define SIGNAL_THREAD_GROUP 2u

/* pid_behind - the number that a pidfd stands for; <= 0: none that we could know. */
pid_t pid_behind(int fd)
{
	char path[40], text[512];
	const char *p;
	long n;
	int f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (f < 0)
		return 0;
	n = sys_read(f, text, sizeof(text) - 1);
	sys_close(f);
	text[n > 0 ? n : 0] = 0;
	p = strstr(text, "\nPid:");
	return p ? atoi(p + 5) : 0;
}

static struct task_struct *pidfd_target(int fd, unsigned int flags, struct send *s)
{
	pid_t pid = pid_behind(fd);
	struct task_struct *t;

	if (pid <= 0)
		return NULL;
	t = flags & SIGNAL_THREAD ? thread_of(-1, pid) : process_of(pid);
	s->q = flags & SIGNAL_THREAD ? PENDING_PRIVATE : PENDING_SHARED;
	s->t = t;
	s->tid = pid;
	s->tgid = flags & SIGNAL_THREAD && t ? READ_ONCE(t->tgid) : pid;
	return t;
}

long hook_pidfd_send_signal(int fd, int sig, siginfo_t *uinfo, unsigned int flags)
{
	struct send s = { .sig = sig,
			  .code = SI_USER,
			  .nr = __NR_pidfd_send_signal,
			  .a = { fd, sig, (long)uinfo, flags } };
	siginfo_t info;

	if ((flags & ~(SIGNAL_THREAD | SIGNAL_THREAD_GROUP)) || !pidfd_target(fd, flags, &s))
		return send(&s);
	if (uinfo) {
		if (copy_from_user(&info, uinfo, sizeof(info)))
			return -EFAULT;
		if (info.si_signo != sig)
			return -EINVAL;
		if (!may_claim(&info, s.tid == own_tid()))
			return -EPERM;
		s.code = info.si_code;
		s.info = &info;
		s.a[2] = (long)&info;
	}
	return send(&s);
}

/* abort(3): the handler runs once; whether it returns or not, the process ends. */
EXPORT void abort(void)
{
	struct sigaction act = { .sa_handler = SIG_DFL };
	uint64_t set = sig_bit(SIGABRT);

	if (!task_here())
		((void (*)(void))find_next("abort"))();
	sys_call(__NR_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, sizeof(set));
	hook_raise(SIGABRT);
	hook_sigaction(SIGABRT, &act, NULL);
	sys_call(__NR_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, sizeof(set));
	hook_raise(SIGABRT);
	for (;;)
		sys_call(__NR_exit_group, 127);
}
