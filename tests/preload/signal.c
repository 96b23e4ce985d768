/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sending signals: every way, what each of them charges, refuses or loses, and who may. */
#include <grp.h>
#include <sched.h>
#include <sys/pidfd.h>

#include "tests/preload/signals.h"

/* Cases whose names begin with root_ run as uid 0 and make their users: each run its own two. */
#define A ((uid_t)(2000000 + getpid() * 2))

int gsignal(int sig);

/* --- every way to send --- */

enum way_flags {
	PRIVATE = 1, /* to a thread */
	SELF_ONLY = 2, /* to nobody else, */
	GROUP = 4, /* or to the own group */
};

struct way {
	int (*send)(pid_t pid, pid_t tid, int sig); /* an errno */
	int code; /* that the receiver sees */
	int flags;
};

static int by_kill(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return err_of(kill(pid, sig));
}

static int by_kill_tid(pid_t pid, pid_t tid, int sig)
{
	(void)pid;
	return err_of(kill(tid, sig));
}

static int by_kill_zero(pid_t pid, pid_t tid, int sig)
{
	(void)pid;
	(void)tid;
	return err_of(kill(0, sig));
}

static int by_kill_group(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return err_of(kill(-getpgid(pid), sig));
}

static int by_killpg(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return err_of(killpg(getpgid(pid), sig));
}

static int by_killpg_zero(pid_t pid, pid_t tid, int sig)
{
	(void)pid;
	(void)tid;
	return err_of(killpg(0, sig));
}

static int by_syscall_kill(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return err_of(syscall(SYS_kill, pid, sig));
}

static int by_tgkill(pid_t pid, pid_t tid, int sig)
{
	return err_of(tgkill(pid, tid, sig));
}

static int by_syscall_tgkill(pid_t pid, pid_t tid, int sig)
{
	return err_of(syscall(SYS_tgkill, pid, tid, sig));
}

static int by_syscall_tkill(pid_t pid, pid_t tid, int sig)
{
	(void)pid;
	return err_of(syscall(SYS_tkill, tid, sig));
}

static int by_raise(pid_t pid, pid_t tid, int sig)
{
	(void)pid;
	(void)tid;
	return raise(sig) ? errno : 0;
}

static int by_gsignal(pid_t pid, pid_t tid, int sig)
{
	(void)pid;
	(void)tid;
	return gsignal(sig) ? errno : 0;
}

static int by_pthread_kill(pid_t pid, pid_t tid, int sig)
{
	(void)pid;
	(void)tid;
	return pthread_kill(pthread_self(), sig);
}

static int by_sigqueue(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return send_value(pid, sig, VALUE);
}

static int by_pthread_sigqueue(pid_t pid, pid_t tid, int sig)
{
	(void)pid;
	(void)tid;
	return pthread_sigqueue(pthread_self(), sig, (union sigval){ .sival_int = VALUE });
}

static siginfo_t made_up(int sig, int code)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = sig;
	info.si_code = code;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = VALUE;
	return info;
}

static int rt_sigqueueinfo(pid_t pid, int sig, int code)
{
	siginfo_t info = made_up(sig, code);

	return err_of(syscall(SYS_rt_sigqueueinfo, pid, sig, &info));
}

static int rt_tgsigqueueinfo(pid_t pid, pid_t tid, int sig, int code)
{
	siginfo_t info = made_up(sig, code);

	return err_of(syscall(SYS_rt_tgsigqueueinfo, pid, tid, sig, &info));
}

static int by_rt_sigqueueinfo(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return rt_sigqueueinfo(pid, sig, SI_QUEUE);
}

static int by_rt_tgsigqueueinfo(pid_t pid, pid_t tid, int sig)
{
	return rt_tgsigqueueinfo(pid, tid, sig, SI_QUEUE);
}

/* To oneself codes are free. */
static int by_rt_sigqueueinfo_user(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return rt_sigqueueinfo(pid, sig, SI_USER);
}

static int by_rt_sigqueueinfo_five(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return rt_sigqueueinfo(pid, sig, 5);
}

static int by_rt_tgsigqueueinfo_tkill(pid_t pid, pid_t tid, int sig)
{
	return rt_tgsigqueueinfo(pid, tid, sig, SI_TKILL);
}

static int pidfd_send(pid_t pid, int sig, siginfo_t *info, bool raw)
{
	int fd = pidfd_open(pid, 0), err;

	if (fd < 0)
		die("pidfd_open");
	if (raw)
		err = err_of(syscall(SYS_pidfd_send_signal, fd, sig, info, 0));
	else
		err = err_of(pidfd_send_signal(fd, sig, info, 0));
	close(fd);
	return err;
}

static int by_pidfd(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return pidfd_send(pid, sig, NULL, false);
}

static int by_pidfd_info(pid_t pid, pid_t tid, int sig)
{
	siginfo_t info = made_up(sig, SI_QUEUE);

	(void)tid;
	return pidfd_send(pid, sig, &info, false);
}

static int by_syscall_pidfd(pid_t pid, pid_t tid, int sig)
{
	(void)tid;
	return pidfd_send(pid, sig, NULL, true);
}

/* name, code, flags */
/* clang-format off */
#define WAYS(way)                                                                                  \
	way(kill, SI_USER, 0)                                                                      \
	way(kill_tid, SI_USER, 0)                                                                  \
	way(kill_zero, SI_USER, SELF_ONLY | GROUP)                                                 \
	way(kill_group, SI_USER, GROUP)                                                            \
	way(killpg, SI_USER, GROUP)                                                                \
	way(killpg_zero, SI_USER, SELF_ONLY | GROUP)                                               \
	way(syscall_kill, SI_USER, 0)                                                              \
	way(tgkill, SI_TKILL, PRIVATE)                                                             \
	way(syscall_tgkill, SI_TKILL, PRIVATE)                                                     \
	way(syscall_tkill, SI_TKILL, PRIVATE)                                                      \
	way(raise, SI_TKILL, PRIVATE | SELF_ONLY)                                                  \
	way(gsignal, SI_TKILL, PRIVATE | SELF_ONLY)                                                \
	way(pthread_kill, SI_TKILL, PRIVATE | SELF_ONLY)                                           \
	way(sigqueue, SI_QUEUE, 0)                                                                 \
	way(pthread_sigqueue, SI_QUEUE, PRIVATE | SELF_ONLY)                                       \
	way(rt_sigqueueinfo, SI_QUEUE, 0)                                                          \
	way(rt_tgsigqueueinfo, SI_QUEUE, PRIVATE)                                                  \
	way(rt_sigqueueinfo_user, SI_USER, SELF_ONLY)                                              \
	way(rt_sigqueueinfo_five, 5, SELF_ONLY)                                                    \
	way(rt_tgsigqueueinfo_tkill, SI_TKILL, PRIVATE | SELF_ONLY)                                \
	way(pidfd, SI_USER, 0)                                                                     \
	way(pidfd_info, SI_QUEUE, 0)                                                               \
	way(syscall_pidfd, SI_USER, 0)
/* clang-format on */

#define WAY_NUMBER(name, code, flags) WAY_##name,
enum {
	WAYS(WAY_NUMBER) NR_WAYS
};

#define WAY_STRUCT(name, code, flags) { by_##name, code, flags },
static const struct way ways[] = { WAYS(WAY_STRUCT) };

static int send_self(const struct way *w, int sig)
{
	return w->send(getpid(), gettid(), sig);
}

/* A signal below the real-time ones: one entry, in the queue that it was sent to. */
static void check_legacy(const struct way *w)
{
	siginfo_t info;

	check_err("legacy", 0, send_self(w, SIGUSR1));
	check_err("legacy_again", 0, send_self(w, SIGUSR1));
	check_sigq("legacy_entry", 1);
	check_eq("legacy_private", !!(w->flags & PRIVATE), waits_in("SigPnd:", SIGUSR1));
	check_eq("legacy_shared", !(w->flags & PRIVATE), waits_in("ShdPnd:", SIGUSR1));
	info = take_raw(SIGUSR1);
	check_own("legacy_info", &info, SIGUSR1, w->code);
	check_sigq("legacy_taken", 0);
}

static void check_real_time(const struct way *w)
{
	siginfo_t info;

	for (int i = 0; i < 3; i++) {
		check_err("rt", 0, send_self(w, RT));
		check_sigq("rt_entries", i + 1);
	}
	for (int i = 3; i--;) {
		info = take_raw(RT);
		check_own("rt_info", &info, RT, w->code);
		if (w->code == SI_QUEUE)
			check_eq("value", VALUE, info.si_value.sival_int);
		check_sigq("rt_taken", i);
	}
	check_eq("rt_no_more", 0, take(RT).si_signo);
}

static void check_at_the_limit(const struct way *w)
{
	bool override = w->code >= 0, refused = w->code != SI_USER;
	siginfo_t info;

	check_eq("filled", LIMIT, fill_queue(getpid(), RT + 1, MOST));
	check_err("rt_at_limit", refused ? EAGAIN : 0, send_self(w, RT));
	check_sigq("rt_not_charged", LIMIT);
	info = take_raw(RT);
	if (refused)
		check_eq("rt_not_sent", 0, info.si_signo);
	else
		check_lost("rt_lost", &info, RT);
	check_err("legacy_at_limit", 0, send_self(w, SIGUSR1));
	check_sigq("legacy_charged", LIMIT + override);
	info = take_raw(SIGUSR1);
	if (override)
		check_own("legacy_info_at_limit", &info, SIGUSR1, w->code);
	else
		check_lost("legacy_lost", &info, SIGUSR1);
	check_sigq("after", LIMIT);
	check_eq("all_taken", LIMIT, take_all(RT + 1));
	check_sigq("end", 0);
}

static void check_to_handler(const struct way *w)
{
	install(SIGUSR2);
	install(RT + 2);
	unblock(SIGUSR2);
	unblock(RT + 2);
	recorded = 0;
	check_err("handled", 0, send_self(w, SIGUSR2));
	check_err("handled_rt", 0, send_self(w, RT + 2));
	check_eq("handlers_ran", 2, recorded);
	check_own("handler_info", &record_of[0], SIGUSR2, w->code);
	check_own("handler_info_rt", &record_of[1], RT + 2, w->code);
	check_sigq("handled_all", 0);
}

static void check_way(const struct way *w)
{
	setpgid(0, 0);
	block_ours();
	check_err("zero", 0, send_self(w, 0));
	check_err("sixty_five", EINVAL, send_self(w, 65));
	check_err("negative", EINVAL, send_self(w, -1));
	check_sigq("nothing", 0);
	check_legacy(w);
	check_real_time(w);
	check_at_the_limit(w);
	check_to_handler(w);
}

#define WAY_CASE(name, code, flags)             \
	static void by_##name##_to_itself(void) \
	{                                       \
		check_way(&ways[WAY_##name]);   \
	}
WAYS(WAY_CASE)

/* --- to others --- */

/* Takes what it is told of: the signal number, and the code to expect. */
static void helper_takes(struct helper *h)
{
	siginfo_t info;
	int sig;

	block_ours();
	line_say(&h->from, 1);
	while ((sig = line_hear(&h->to)) > 0) {
		int code = line_hear(&h->to);

		info = take_raw(sig);
		check_info("received", &info, sig, code, getppid(), getuid());
		line_say(&h->from, 1);
	}
}

static void helper_take(struct helper *h, int sig, int code)
{
	line_say(&h->to, sig);
	line_say(&h->to, code);
	line_hear(&h->from);
}

static void every_way_to_a_child(void)
{
	struct helper h = helper_start(helper_takes);

	line_hear(&h.from);
	setpgid(h.pid, h.pid);
	for (int i = 0; i < NR_WAYS; i++) {
		const struct way *w = &ways[i];

		if (w->flags & SELF_ONLY)
			continue;
		check_err("legacy", 0, w->send(h.pid, h.pid, SIGUSR1));
		check_err("rt", 0, w->send(h.pid, h.pid, RT));
		check_sigq("charged", 2);
		check_eq("child_is_charged", 2, sigq_of(h.pid));
		helper_take(&h, SIGUSR1, w->code);
		check_sigq("one_taken", 1);
		helper_take(&h, RT, w->code);
		check_sigq("taken", 0);
	}
	line_say(&h.to, 0);
	helper_ends("child", &h);
}

static void a_group_gets_one_each(void)
{
	struct helper h[2];
	siginfo_t info;

	setpgid(0, 0);
	block_ours();
	for (int i = 0; i < 2; i++) {
		h[i] = helper_start(helper_takes);
		line_hear(&h[i].from);
	}
	for (int i = 0; i < 4; i++) {
		int (*send[])(pid_t, pid_t, int) = { by_kill_zero, by_kill_group, by_killpg,
						     by_killpg_zero };

		check_err("send", 0, send[i](getpid(), 0, RT));
		check_sigq("three", 3);
		info = take(RT);
		check_own("own", &info, RT, SI_USER);
		helper_take(&h[0], RT, SI_USER);
		helper_take(&h[1], RT, SI_USER);
		check_sigq("none", 0);
	}
	for (int i = 0; i < 2; i++) {
		line_say(&h[i].to, 0);
		helper_ends("child", &h[i]);
	}
	check_err("no_such_group", ESRCH, err_of(kill(-0x3fffff, RT)));
	check_err("no_such_group_killpg", ESRCH, err_of(killpg(0x3fffff, RT)));
	check_err("negative_group", EINVAL, err_of(killpg(-3, RT)));
}

static struct line from_thread, to_thread;
static volatile pid_t thread_tid;

static void *thread_holds(void *arg)
{
	thread_tid = gettid();
	line_say(&from_thread, 1);
	line_hear(&to_thread);
	return arg;
}

static pthread_t start_thread(void)
{
	pthread_t thread;

	from_thread = line_open();
	to_thread = line_open();
	errno = pthread_create(&thread, NULL, thread_holds, NULL);
	if (errno)
		die("pthread_create");
	line_hear(&from_thread);
	return thread;
}

static void end_thread(pthread_t thread)
{
	line_say(&to_thread, 1);
	pthread_join(thread, NULL);
}

static void to_another_thread(void)
{
	union sigval value = { .sival_int = VALUE };
	pthread_t thread;

	block_ours();
	thread = start_thread();
	check_err("pthread_kill", 0, pthread_kill(thread, RT));
	check_err("pthread_sigqueue", 0, pthread_sigqueue(thread, RT, value));
	check_err("tgkill", 0, err_of(tgkill(getpid(), thread_tid, RT)));
	check_err("tkill", 0, err_of(syscall(SYS_tkill, thread_tid, RT)));
	check_err("tgsigqueue", 0, rt_tgsigqueueinfo(getpid(), thread_tid, RT, SI_QUEUE));
	check_sigq("five", 5);
	check_eq("not_ours", 0, take(RT).si_signo);
	check_err("kill_of_a_thread_is_for_all", 0, err_of(kill(thread_tid, RT)));
	check_err("so_is_sigqueue", 0, send_value(thread_tid, RT, 1));
	check_sigq("seven", 7);
	check_eq("ours", 2, take_all(RT));
	check_sigq("five_left", 5);
	end_thread(thread);
	check_sigq_soon("gone_with_the_thread", 0);
}

/* --- rules, one by one --- */

static void child_exits(struct helper *h)
{
	(void)h;
}

static void errors_in_order(void)
{
	struct helper h;
	siginfo_t info = made_up(RT, SI_QUEUE);
	const pid_t none = 0x3fffff;
	int fd;

	block_ours();
	set_limit(0);
	for (int i = 0; i < NR_WAYS; i++) {
		const struct way *w = &ways[i];

		if (w->flags & (SELF_ONLY | GROUP) || i == WAY_pidfd || i == WAY_pidfd_info ||
		    i == WAY_syscall_pidfd)
			continue;
		check_err("nobody", ESRCH, w->send(none, none, RT));
		check_err("nobody_before_number", ESRCH, w->send(none, none, 65));
		check_err("nobody_and_zero", ESRCH, w->send(none, none, 0));
	}
	check_err("tgkill_wrong_thread", ESRCH, err_of(tgkill(getpid(), getppid(), RT)));
	check_err("tgkill_zero", EINVAL, err_of(tgkill(0, gettid(), RT)));
	check_err("tgkill_zero_thread", EINVAL, err_of(tgkill(getpid(), 0, RT)));
	check_err("tkill_zero", EINVAL, err_of(syscall(SYS_tkill, 0, RT)));
	check_err("tgsigqueue_zero", EINVAL, rt_tgsigqueueinfo(0, gettid(), RT, SI_QUEUE));
	check_err("bad_info", EFAULT, err_of(syscall(SYS_rt_sigqueueinfo, getpid(), RT, 8)));
	check_err("bad_info_first", EFAULT, err_of(syscall(SYS_rt_sigqueueinfo, none, RT, 8)));

	fd = pidfd_open(getpid(), 0);
	check_err("pidfd_flags", EINVAL, err_of(pidfd_send_signal(fd, RT, NULL, 0x8000)));
	check_err("pidfd_other_number", EINVAL, err_of(pidfd_send_signal(fd, RT + 1, &info, 0)));
	check_err("pidfd_bad_info", EFAULT, err_of(pidfd_send_signal(fd, RT, (void *)8, 0)));
	close(fd);
	check_err("pidfd_closed", EBADF, err_of(pidfd_send_signal(fd, RT, NULL, 0)));

	h = helper_start(child_exits);
	fd = pidfd_open(h.pid, 0);
	helper_ends("child", &h);
	check_err("pidfd_of_the_reaped", ESRCH, err_of(pidfd_send_signal(fd, RT, NULL, 0)));
	check_err("kill_of_the_reaped", ESRCH, err_of(kill(h.pid, RT)));
	close(fd);
	check_sigq("nothing", 0);
}

/* SIGEV_THREAD, pthread_cancel and set*id use 32 and 33. */
static void numbers_of_libc(void)
{
	union sigval value = { 0 };

	check_err("pthread_kill", EINVAL, pthread_kill(pthread_self(), 32));
	check_err("pthread_kill_33", EINVAL, pthread_kill(pthread_self(), 33));
	check_err("pthread_kill_65", EINVAL, pthread_kill(pthread_self(), 65));
	check_err("pthread_sigqueue", EINVAL, pthread_sigqueue(pthread_self(), 32, value));
	check_err("raise", EINVAL, raise(32) ? errno : 0);
	check_eq("rtmin", 34, SIGRTMIN);
	check_eq("rtmax", 64, SIGRTMAX);
}

static void codes_to_others(void)
{
	struct helper h = helper_start(helper_holds);
	siginfo_t info = made_up(RT, SI_USER);

	line_hear(&h.from);
	check_err("user", EPERM, rt_sigqueueinfo(h.pid, RT, SI_USER));
	check_err("positive", EPERM, rt_sigqueueinfo(h.pid, RT, 5));
	check_err("kernel", EPERM, rt_sigqueueinfo(h.pid, RT, SI_KERNEL));
	check_err("tkill", EPERM, rt_sigqueueinfo(h.pid, RT, SI_TKILL));
	check_err("thread_user", EPERM, rt_tgsigqueueinfo(h.pid, h.pid, RT, SI_USER));
	check_err("thread_tkill", EPERM, rt_tgsigqueueinfo(h.pid, h.pid, RT, SI_TKILL));
	check_err("pidfd", EPERM, pidfd_send(h.pid, RT, &info, false));
	check_err("before_nobody", EPERM, rt_sigqueueinfo(0x3fffff, RT, SI_USER));
	check_sigq("nothing", 0);
	check_err("timer", 0, rt_sigqueueinfo(h.pid, RT, SI_TIMER));
	check_err("mesgq", 0, rt_sigqueueinfo(h.pid, RT, SI_MESGQ));
	check_sigq("two", 2);
	helper_kill(&h);
	check_sigq("reaped", 0);
}

static void exactly_the_limit(void)
{
	block_ours();
	for (int i = 0; i <= LIMIT; i++) {
		set_limit(i);
		check_eq("accepted", i, fill_queue(getpid(), RT, MOST));
		check_err("then", EAGAIN, send_value(getpid(), RT, 0));
		check_sigq("pending", i);
		for (int k = 0; k < i; k++)
			check_eq("value_in_order", k + 1, take(RT).si_value.sival_int);
		check_sigq("none", 0);
	}
}

static void lowered_and_raised_limit(void)
{
	block_ours();
	fill_queue(getpid(), RT, 5);
	set_limit(2);
	check_sigq("stays", 5);
	check_err("refused", EAGAIN, send_value(getpid(), RT, 0));
	for (int i = 0; i < 4; i++)
		take(RT);
	check_err("fits", 0, send_value(getpid(), RT, 0));
	check_err("full", EAGAIN, send_value(getpid(), RT, 0));
	set_limit(3);
	check_err("fits_again", 0, send_value(getpid(), RT, 0));
	check_sigq("three", 3);
}

/* The kernel adds these two to what waits, each in a queue of its own. */
static void queues_of_process_and_thread(void)
{
	siginfo_t info;

	block_ours();
	kill(getpid(), SIGUSR1);
	raise(SIGUSR1);
	check_sigq("both", 2);
	check_err("third", 0, send_value(getpid(), SIGUSR1, 5));
	check_err("fourth", 0, pthread_sigqueue(pthread_self(), SIGUSR1, (union sigval){ 0 }));
	check_sigq("still_both", 2);
	info = take_raw(SIGUSR1);
	check_own("private_first", &info, SIGUSR1, SI_TKILL);
	check_sigq("one", 1);
	info = take_raw(SIGUSR1);
	check_own("then_shared", &info, SIGUSR1, SI_USER);
	check_sigq("none", 0);

	send_value(getpid(), RT, 1);
	pthread_sigqueue(pthread_self(), RT, (union sigval){ .sival_int = 2 });
	send_value(getpid(), RT, 3);
	check_sigq("three", 3);
	check_eq("private_rt", 2, take(RT).si_value.sival_int);
	check_eq("shared_rt", 1, take(RT).si_value.sival_int);
	check_eq("shared_rt_last", 3, take(RT).si_value.sival_int);
	check_sigq("end", 0);
}

static void ignored_is_dropped(void)
{
	signal(RT, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	for (int i = 0; i < LIMIT + 3; i++)
		check_err("rt", 0, send_value(getpid(), RT, i));
	check_err("legacy", 0, err_of(kill(getpid(), SIGUSR1)));
	check_err("raised", 0, raise(RT) ? errno : 0);
	check_sigq("nothing", 0);
	set_limit(0);
	check_err("at_limit_zero", 0, send_value(getpid(), RT, 0));
	check_sigq("still_nothing", 0);
}

static void ignored_by_default(void)
{
	static const int sig[] = { SIGCHLD, SIGCONT, SIGURG, SIGWINCH };

	set_limit(0);
	for (int i = 0; i < 4; i++)
		check_err("kill", 0, err_of(kill(getpid(), sig[i])));
	check_sigq("nothing", 0);
	set_limit(LIMIT);
	for (int i = 0; i < 4; i++) {
		block(sig[i]);
		check_err("blocked", 0, err_of(kill(getpid(), sig[i])));
	}
	check_sigq("blocked_is_not_ignored", 4);
	for (int i = 0; i < 4; i++)
		unblock(sig[i]);
	check_sigq("dropped", 0);
}

static void blocked_is_not_ignored(void)
{
	block(RT);
	signal(RT, SIG_IGN);
	check_eq("queued", LIMIT, fill_queue(getpid(), RT, MOST));
	check_sigq("charged", LIMIT);
	unblock(RT);
	check_sigq("unblocked", 0);
	check_eq("goes_through", LIMIT + 1, fill_queue(getpid(), RT, LIMIT + 1));
	check_sigq("nothing", 0);
}

static void stop_and_continue_flush(void)
{
	static const int stop[] = { SIGTSTP, SIGTTIN, SIGTTOU };

	block(SIGCONT);
	for (int i = 0; i < 3; i++) {
		block(stop[i]);
		kill(getpid(), stop[i]);
		raise(stop[i]);
	}
	check_sigq("stops", 6);
	kill(getpid(), SIGCONT);
	check_sigq("continue_flushes", 1);
	raise(SIGCONT);
	check_sigq("two", 2);
	kill(getpid(), SIGTTIN);
	check_sigq("stop_flushes", 1);
	check_eq("waits", SIGTTIN, take(SIGTTIN).si_signo);
	check_sigq("none", 0);
}

/* A stopped process keeps what it is sent; SIGKILL takes no entry. */
static void stopped_child(void)
{
	struct helper h = helper_start(helper_holds);
	int status;

	line_hear(&h.from);
	check_err("stop", 0, err_of(kill(h.pid, SIGSTOP)));
	check_eq("stopped", h.pid, waitpid(h.pid, &status, WUNTRACED));
	check_eq("by_stop", true, WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	check_eq("filled", LIMIT, fill_queue(h.pid, RT, MOST));
	check_err("term", 0, err_of(kill(h.pid, SIGTERM)));
	check_sigq("over", LIMIT + 1);
	check_err("kill", 0, send_value(h.pid, SIGKILL, 0));
	check_eq("ended", h.pid, waitpid(h.pid, &status, 0));
	check_eq("by_kill", true, WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	check_sigq("reaped", 0);
}

static void kill_is_not_charged(void)
{
	struct helper h = helper_start(helper_holds);
	siginfo_t info;

	line_hear(&h.from);
	set_limit(0);
	check_err("kill", 0, err_of(kill(h.pid, SIGKILL)));
	waitid(P_PID, h.pid, &info, WEXITED | WNOWAIT);
	check_sigq("nothing", 0);
	check_eq("by_kill", SIGKILL, info.si_status);
	check_eq("uid_of_the_child", getuid(), info.si_uid);
	waitpid(h.pid, NULL, 0);
}

static void override_beyond_the_limit(void)
{
	static const int sig[] = { SIGUSR1, SIGUSR2, SIGHUP, SIGTERM };
	siginfo_t info;

	block_ours();
	block(SIGHUP);
	block(SIGTERM);
	fill_queue(getpid(), RT, MOST);
	for (int i = 0; i < 4; i++) {
		check_err("kill", 0, err_of(kill(getpid(), sig[i])));
		check_sigq("over", LIMIT + i + 1);
	}
	check_err("rt_is_not", EAGAIN, send_value(getpid(), RT, 0));
	take(RT);
	check_err("rt_is_still_not", EAGAIN, send_value(getpid(), RT, 0));
	for (int i = 0; i < 4; i++) {
		info = take(sig[i]);
		check_own("info", &info, sig[i], SI_USER);
	}
	check_sigq("below", LIMIT - 1);
	check_err("rt", 0, send_value(getpid(), RT, 0));
}

static void losses_seen_by_handler(void)
{
	block_ours();
	install(RT);
	install(SIGUSR1);
	install(SIGUSR2);
	fill_queue(getpid(), RT + 1, MOST);
	check_err("kill_rt", 0, err_of(kill(getpid(), RT)));
	check_err("sigqueue", 0, send_value(getpid(), SIGUSR1, VALUE));
	check_err("raise", 0, raise(SIGUSR2) ? errno : 0);
	check_sigq("not_charged", LIMIT);
	recorded = 0;
	unblock(SIGUSR1);
	unblock(SIGUSR2);
	unblock(RT);
	check_eq("all_came", 3, recorded);
	check_lost("sigqueue_info", &record_of[0], SIGUSR1);
	check_lost("raise_info", &record_of[1], SIGUSR2);
	check_lost("kill_rt_info", &record_of[2], RT);
	check_sigq("not_released", LIMIT);
	check_eq("others_untouched", LIMIT, take_all(RT + 1));
}

static void losses_seen_by_sigwaitinfo(void)
{
	sigset_t set = set_of(RT);
	siginfo_t info;
	int sig;

	block_ours();
	fill_queue(getpid(), RT + 1, MOST);
	kill(getpid(), RT);
	check_eq("sigwaitinfo", RT, sigwaitinfo(&set, &info));
	check_lost("info", &info, RT);
	kill(getpid(), RT);
	check_err("sigwait", 0, sigwait(&set, &sig));
	check_eq("sig", RT, sig);
	check_eq("no_more", 0, take(RT).si_signo);
	check_sigq("not_released", LIMIT);
}

static void losses_seen_by_signalfd(void)
{
	struct signalfd_siginfo got;
	sigset_t set = set_of(RT);
	int fd = signalfd(-1, &set, SFD_NONBLOCK);

	block_ours();
	fill_queue(getpid(), RT + 1, MOST);
	kill(getpid(), RT);
	check_eq("read", sizeof(got), read(fd, &got, sizeof(got)));
	check_eq("signo", RT, got.ssi_signo);
	check_eq("code", 0, got.ssi_code);
	check_eq("pid", 0, got.ssi_pid);
	check_eq("uid", 0, got.ssi_uid);
	check_eq("int", 0, got.ssi_int);
	check_err("no_more", EAGAIN, err_of(read(fd, &got, sizeof(got))));
	check_sigq("not_released", LIMIT);
	close(fd);
}

static void losses_collapse(void)
{
	siginfo_t info;

	block_ours();
	fill_queue(getpid(), RT + 1, MOST);
	for (int i = 0; i < 5; i++)
		check_err("kill", 0, err_of(kill(getpid(), RT)));
	for (int i = 0; i < 5; i++)
		check_err("to_thread", EAGAIN, raise(RT) ? errno : 0);
	check_sigq("not_charged", LIMIT);
	info = take(RT);
	check_lost("first", &info, RT);
	check_eq("only_one", 0, take(RT).si_signo);
	check_eq("all", LIMIT, take_all(RT + 1));
	check_sigq("end", 0);
}

/* 2 entries wait: 5 more over the limit are seen as nothing but these. */
static void losses_merge_into_entries(void)
{
	siginfo_t info;

	block_ours();
	check_eq("two", 2, fill_queue(getpid(), RT, 2));
	check_eq("rest", LIMIT - 2, fill_queue(getpid(), RT + 1, MOST));
	for (int i = 0; i < 5; i++)
		check_err("kill", 0, err_of(kill(getpid(), RT)));
	for (int i = 0; i < 2; i++) {
		info = take(RT);
		check_own("entry", &info, RT, SI_QUEUE);
		check_eq("value", i + 1, info.si_value.sival_int);
	}
	check_eq("no_more", 0, take(RT).si_signo);
	check_sigq("rest_left", LIMIT - 2);
}

/* An entry that comes after a loss: two deliveries, of which the entry is the first. */
static void entry_after_a_loss(void)
{
	block_ours();
	fill_queue(getpid(), RT + 1, MOST);
	kill(getpid(), RT);
	take(RT + 1);
	check_err("fits", 0, send_value(getpid(), RT, VALUE));
	check_sigq("full", LIMIT);
	check_eq("entry", VALUE, take(RT).si_value.sival_int);
	check_eq("nothing_after_it", 0, take(RT).si_signo);
	check_sigq("one_less", LIMIT - 1);
}

static void loss_of_a_coalesced_signal(void)
{
	siginfo_t info;

	block_ours();
	check_err("entry", 0, err_of(kill(getpid(), SIGUSR1)));
	fill_queue(getpid(), RT, MOST);
	check_sigq("full", LIMIT);
	check_err("coalesces", 0, send_value(getpid(), SIGUSR1, VALUE));
	info = take(SIGUSR1);
	check_own("first_entry", &info, SIGUSR1, SI_USER);
	check_eq("no_more", 0, take(SIGUSR1).si_signo);
	check_err("room", 0, send_value(getpid(), RT, 0));
	/* Lost first, then a kill: the bit is there, so that nothing is added. */
	check_err("lost", 0, send_value(getpid(), SIGUSR1, VALUE));
	check_err("kill", 0, err_of(kill(getpid(), SIGUSR1)));
	check_sigq("not_charged", LIMIT);
	info = take(SIGUSR1);
	check_lost("info", &info, SIGUSR1);
	check_eq("no_second", 0, take(SIGUSR1).si_signo);
}

static void helper_low(struct helper *h)
{
	set_limit(2);
	helper_holds(h);
}

static void limit_of_the_target(void)
{
	struct helper low = helper_start(helper_low);

	line_hear(&low.from);
	block_ours();
	check_eq("by_its_limit", 2, fill_queue(low.pid, RT, MOST));
	check_err("refused", EAGAIN, send_value(low.pid, RT, 0));
	check_err("own_is_higher", 0, send_value(getpid(), RT, 0));
	check_sigq("one_account", 3);
	set_limit(0);
	take(RT);
	check_err("own_is_zero", EAGAIN, send_value(getpid(), RT, 0));
	helper_kill(&low);
	check_sigq("none", 0);
	low = helper_start(helper_low);
	line_hear(&low.from);
	check_eq("sender_s_does_not_count", 2, fill_queue(low.pid, RT, MOST));
	helper_kill(&low);
}

static void zombie_holds_shared(void)
{
	struct helper h = helper_start(helper_holds);
	siginfo_t info;

	line_hear(&h.from);
	check_eq("queued", 3, fill_queue(h.pid, RT, 3));
	kill(h.pid, SIGKILL);
	waitid(P_PID, h.pid, &info, WEXITED | WNOWAIT);
	check_sigq("unreaped", 3);
	check_err("zombies_take_all", 0, send_value(h.pid, RT, 0));
	check_err("kill_too", 0, err_of(kill(h.pid, SIGUSR1)));
	check_sigq("uncharged", 3);
	check_eq("full", LIMIT - 3, ({
			 block_ours();
			 fill_queue(getpid(), RT, MOST);
		 }));
	waitpid(h.pid, NULL, 0);
	check_sigq("reaped", LIMIT - 3);
	check_eq("room", 3, fill_queue(getpid(), RT, MOST));
}

static void own_child_exits_with_pending(struct helper *h)
{
	(void)h;
	block_ours();
	fill_queue(getpid(), RT, 3);
}

static void exit_with_pending(void)
{
	struct helper h = helper_start(own_child_exits_with_pending);
	siginfo_t info;

	waitid(P_PID, h.pid, &info, WEXITED | WNOWAIT);
	check_sigq("zombie", 3);
	check_sigq("twice", 3);
	helper_ends("child", &h);
	check_sigq("reaped", 0);
}

static void orphan_with_pending(void)
{
	struct line l = line_open();
	pid_t pid = fork();

	if (!pid) {
		if (!fork()) {
			block_ours();
			line_say(&l, fill_queue(getpid(), RT, 3));
			pause_ms(100);
			_exit(0);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	check_eq("queued", 3, line_hear(&l));
	check_sigq_soon("released", 0);
}

/* Blocked SIGCHLD is charged like any other, over the limit too, and once for several children. */
static void blocked_sigchld(void)
{
	struct helper h[2];
	siginfo_t info;

	block(SIGCHLD);
	set_limit(0);
	for (int i = 0; i < 2; i++) {
		h[i] = helper_start(child_exits);
		waitid(P_PID, h[i].pid, &info, WEXITED | WNOWAIT);
	}
	check_sigq("charged_once", 1);
	info = take(SIGCHLD);
	check_info("info", &info, SIGCHLD, CLD_EXITED, h[0].pid, getuid());
	check_sigq("none", 0);
	for (int i = 0; i < 2; i++)
		helper_ends("child", &h[i]);
}

static void alarm_at_limit_zero(void)
{
	struct itimerval soon = { .it_value = { 0, 1000 } };
	siginfo_t info;

	block(SIGALRM);
	set_limit(0);
	setitimer(ITIMER_REAL, &soon, NULL);
	check_eq("fired", true, until(is_pending(SIGALRM)));
	check_sigq("charged", 1);
	info = take(SIGALRM);
	check_eq("signo", SIGALRM, info.si_signo);
	check_eq("code", SI_KERNEL, info.si_code);
	check_sigq("none", 0);
}

static void child_starts_empty(void)
{
	struct helper h;
	bool waits;

	block_ours();
	fill_queue(getpid(), RT, 3);
	raise(SIGUSR1);
	check_sigq("four", 4);
	h = helper_start(helper_holds);
	waits = line_hear(&h.from);
	check_eq("ready", true, waits);
	check_sigq("still_four", 4);
	helper_kill(&h);
	check_sigq("four_left", 4);

	pid_t pid = fork();

	if (!pid)
		_exit(is_pending(RT) || is_pending(SIGUSR1) || take(RT).si_signo);
	check_eq("nothing_in_the_child", 0, ({
			 int status;

			 waitpid(pid, &status, 0);
			 status;
		 }));
}

/* The child takes the uid of nobody else with it: its entries stay with the account they are in. */
static void threads_exit_with_private(void)
{
	block_ours();
	for (int i = 0; i < 20; i++) {
		pthread_t thread = start_thread();

		pthread_kill(thread, RT);
		pthread_kill(thread, SIGUSR1);
		pthread_sigqueue(thread, RT, (union sigval){ 0 });
		check_sigq("three", 3);
		end_thread(thread);
		check_sigq_soon("gone", 0);
	}
}

/* --- timers --- */

static int make_timer(timer_t *t, int notify, int sig)
{
	struct sigevent ev = { .sigev_notify = notify, .sigev_signo = sig };

	ev.sigev_value.sival_int = VALUE;
	return err_of(timer_create(CLOCK_MONOTONIC, &ev, t));
}

static void arm_timer(timer_t t, long ns)
{
	struct itimerspec once = { .it_value = { 0, ns } };

	if (timer_settime(t, 0, &once, NULL))
		die("timer_settime");
}

static void timers_are_charged(void)
{
	timer_t t[LIMIT + 1];

	block_ours();
	for (int i = 0; i < LIMIT; i++) {
		check_err("create", 0, make_timer(&t[i], i % 2 ? SIGEV_NONE : SIGEV_SIGNAL, RT));
		check_sigq("charged", i + 1);
	}
	check_err("refused", EAGAIN, make_timer(&t[LIMIT], SIGEV_NONE, 0));
	check_err("signals_too", EAGAIN, send_value(getpid(), RT, 0));
	check_err("default_event", EAGAIN, err_of(timer_create(CLOCK_REALTIME, NULL, &t[LIMIT])));
	check_err("delete", 0, err_of(timer_delete(t[3])));
	check_sigq("one_less", LIMIT - 1);
	check_err("default_event_fits", 0, err_of(timer_create(CLOCK_REALTIME, NULL, &t[3])));
	for (int i = 0; i < LIMIT; i++)
		check_err("delete_all", 0, err_of(timer_delete(t[i])));
	check_sigq("none", 0);
	check_err("gone", EINVAL, err_of(timer_delete(t[0])));
	check_err("bad_clock", EINVAL, err_of(timer_create(4711, NULL, &t[0])));
	check_err("bad_signal", EINVAL, make_timer(&t[0], SIGEV_SIGNAL, 65));
	check_sigq("nothing_leaks", 0);
}

static void expiry_adds_nothing(void)
{
	siginfo_t info;
	timer_t t;

	block_ours();
	set_limit(1);
	check_err("create", 0, make_timer(&t, SIGEV_SIGNAL, RT));
	arm_timer(t, 1000000);
	check_eq("fired", true, until(is_pending(RT)));
	check_sigq("one", 1);
	info = take(RT);
	check_eq("signo", RT, info.si_signo);
	check_eq("code", SI_TIMER, info.si_code);
	check_eq("value", VALUE, info.si_value.sival_int);
	check_sigq("still_one", 1);
	install(RT);
	unblock(RT);
	arm_timer(t, 1000000);
	check_eq("handled", true, until(recorded == 1));
	check_eq("code_in_handler", SI_TIMER, record_of[0].si_code);
	check_sigq("one_after_handler", 1);
	timer_delete(t);
	check_sigq("none", 0);
}

static void deleted_while_pending(void)
{
	timer_t t;

	block_ours();
	check_err("create", 0, make_timer(&t, SIGEV_SIGNAL, RT));
	arm_timer(t, 1000000);
	check_eq("fired", true, until(is_pending(RT)));
	timer_delete(t);
	take(RT);
	check_sigq("none", 0);
	/* Others in the same queue keep their entries. */
	check_err("create_again", 0, make_timer(&t, SIGEV_SIGNAL, RT));
	arm_timer(t, 1000000);
	check_eq("fired_again", true, until(is_pending(RT)));
	check_eq("two", 2, fill_queue(getpid(), RT, 2));
	timer_delete(t);
	take_all(RT);
	check_sigq("none_again", 0);
}

static void helper_with_timers(struct helper *h)
{
	timer_t t;

	for (int i = 0; i < 3; i++)
		make_timer(&t, SIGEV_SIGNAL, RT);
	line_say(&h->from, 1);
	line_hear(&h->to);
}

static void timers_go_with_the_process(void)
{
	struct helper h = helper_start(helper_with_timers);
	siginfo_t info;
	timer_t t;

	line_hear(&h.from);
	check_sigq("three", 3);
	line_say(&h.to, 1);
	waitid(P_PID, h.pid, &info, WEXITED | WNOWAIT);
	check_sigq("zombies_have_none", 0);
	helper_ends("child", &h);
	h = helper_start(helper_with_timers);
	line_hear(&h.from);
	helper_kill(&h);
	check_sigq("killed", 0);

	/* fork() does not copy them. */
	check_err("create", 0, make_timer(&t, SIGEV_SIGNAL, RT));
	pid_t pid = fork();

	if (!pid)
		_exit(timer_delete(t) == 0);
	check_eq("not_in_the_child", 0, ({
			 int status;

			 waitpid(pid, &status, 0);
			 status;
		 }));
	check_sigq("parent_has_it", 1);
}

static void nothing_done(union sigval value)
{
	(void)value;
}

static void timers_of_threads(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD,
			       .sigev_notify_function = nothing_done };
	struct sigevent to_tid = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = RT };
	pthread_t thread;
	timer_t t, u;

	block_ours();
	check_err("create", 0, err_of(timer_create(CLOCK_MONOTONIC, &ev, &t)));
	check_sigq("charged", 1);
	arm_timer(t, 1000000);
	pause_ms(20);
	check_sigq("expiry_adds_nothing", 1);
	timer_delete(t);
	check_sigq("none", 0);

	thread = start_thread();
	to_tid._sigev_un._tid = thread_tid;
	check_err("create_for_thread", 0, err_of(timer_create(CLOCK_MONOTONIC, &to_tid, &u)));
	arm_timer(u, 1000000);
	pause_ms(20);
	check_eq("not_ours", 0, take(RT).si_signo);
	check_sigq("one", 1);
	end_thread(thread);
	pause_ms(20);
	check_sigq("timer_stays", 1);
	timer_delete(u);
	check_sigq_soon("all_gone", 0);
}

/* --- exec --- */

static char *self;

static void exec_keeps_pending(void)
{
	timer_t t;

	block_ours();
	fill_queue(getpid(), RT, 3);
	raise(SIGUSR1);
	kill(getpid(), SIGUSR1);
	make_timer(&t, SIGEV_SIGNAL, RT);
	check_sigq("before", 6);
	signal(RT + 1, SIG_IGN);
	install(SIGUSR1);
	execl(self, self, "--after-exec", NULL);
	die("execl");
}

/* By another thread: that one's private entries come along, those of the others go. */
static void *thread_execs(void *arg)
{
	raise(SIGUSR1);
	raise(RT);
	check_sigq("all_threads", 6);
	execl(self, self, "--after-exec", NULL);
	die("execl");
	return arg;
}

static void exec_by_a_thread(void)
{
	pthread_t thread;

	block_ours();
	signal(RT + 1, SIG_IGN);
	fill_queue(getpid(), RT, 2);
	kill(getpid(), SIGUSR1);
	raise(SIGUSR2);
	pthread_create(&thread, NULL, thread_execs, NULL);
	for (;;)
		pause();
}

static int after_exec(void)
{
	struct sigaction act;
	siginfo_t info;

	check_sigq("after", 5);
	check_eq("still_blocked", true, is_blocked(RT) && is_blocked(SIGUSR1));
	sigaction(SIGUSR1, NULL, &act);
	check_eq("handler_is_gone", true, act.sa_handler == SIG_DFL);
	sigaction(RT + 1, NULL, &act);
	check_eq("ignored_stays", true, act.sa_handler == SIG_IGN);
	info = take_raw(SIGUSR1);
	check_own("private", &info, SIGUSR1, SI_TKILL);
	info = take_raw(SIGUSR1);
	check_own("shared", &info, SIGUSR1, SI_USER);
	check_sigq("three", 3);
	check_eq("rt", 3, take_all(RT));
	check_eq("not_of_the_others", 0, take(SIGUSR2).si_signo);
	check_sigq("none", 0);
	return failures != 0;
}

/* --- abort --- */

static void on_abort(int sig)
{
	(void)sig;
	if (write(STDERR_FILENO, "", 0))
		_exit(98);
	recorded++;
}

/* How a child ends that calls abort() after @before; the rest of it is in the exit status. */
static int status_of_abort(void (*before)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		before();
		abort();
	}
	waitpid(pid, &status, 0);
	return status;
}

static void no_handler(void)
{
}

static void returning_handler(void)
{
	signal(SIGABRT, on_abort);
}

static void exits_77(int sig)
{
	(void)sig;
	_exit(77);
}

static void leaving_handler(void)
{
	signal(SIGABRT, exits_77);
}

static void ignoring(void)
{
	signal(SIGABRT, SIG_IGN);
}

static void blocking(void)
{
	block(SIGABRT);
}

static void all_taken(void)
{
	block_ours();
	fill_queue(getpid(), RT, MOST);
	signal(SIGABRT, on_abort);
}

static void abort_ends_the_process(void)
{
	void (*before[])(void) = { no_handler, returning_handler, ignoring, blocking, all_taken };

	for (int i = 0; i < 5; i++) {
		int status = status_of_abort(before[i]);

		verdict(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "aborted",
			"way %d, status %x", i, status);
		check_sigq("nothing_left", 0);
	}
	check_eq("handler_may_leave", 77 << 8, status_of_abort(leaving_handler));
}

/* --- between users --- */

static void become(uid_t uid)
{
	if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		die("setresuid");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static uid_t helper_uid[3];
static long helper_limit = LIMIT;

static void helper_as(struct helper *h)
{
	set_limit(helper_limit);
	become(helper_uid[0]);
	helper_holds(h);
}

static void helper_as_three(struct helper *h)
{
	if (setresuid(helper_uid[0], helper_uid[1], helper_uid[2]))
		die("setresuid");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	helper_holds(h);
}

static struct helper start_as(uid_t uid)
{
	struct helper h;

	helper_uid[0] = uid;
	h = helper_start(helper_as);
	line_hear(&h.from);
	return h;
}

static void root_other_users_are_refused(void)
{
	uid_t a = A;
	struct helper h = start_as(a + 1);

	setpgid(h.pid, h.pid);
	become(a);
	for (int i = 0; i < NR_WAYS; i++) {
		const struct way *w = &ways[i];

		if (w->flags & SELF_ONLY)
			continue;
		check_err("refused", EPERM, w->send(h.pid, h.pid, RT));
		check_err("legacy", EPERM, w->send(h.pid, h.pid, SIGUSR1));
		check_err("kill", EPERM, w->send(h.pid, h.pid, SIGKILL));
		check_err("zero", EPERM, w->send(h.pid, h.pid, 0));
		check_err("number_first", EINVAL, w->send(h.pid, h.pid, 65));
	}
	check_eq("nothing", 0, sigq_of(h.pid));
	set_limit(0);
	check_err("before_the_limit", EPERM, send_value(h.pid, RT, 0));
	check_err("continue_in_session", 0, err_of(kill(h.pid, SIGCONT)));
	check_err("continue_with_value", 0, send_value(h.pid, SIGCONT, 0));
	check_err("stop_is_refused", EPERM, err_of(kill(h.pid, SIGSTOP)));
}

static void helper_in_session(struct helper *h)
{
	setsid();
	helper_as(h);
}

static void root_continue_of_another_session(void)
{
	uid_t a = A;
	struct helper h;

	helper_uid[0] = a + 1;
	h = helper_start(helper_in_session);
	line_hear(&h.from);
	become(a);
	check_err("continue", EPERM, err_of(kill(h.pid, SIGCONT)));
	check_err("group", EPERM, err_of(kill(-h.pid, SIGCONT)));
}

static void root_which_ids_count(void)
{
	/* target's real, effective, saved; sender's real, effective; allowed */
	static const struct {
		int target[3], sender[2];
		bool good;
	} rule[] = {
		{ { 0, 1, 1 }, { 0, 0 }, true }, /* by its real */
		{ { 1, 1, 0 }, { 0, 0 }, true }, /* by its saved */
		{ { 1, 0, 1 }, { 0, 0 }, false }, /* its effective does not count */
		{ { 1, 1, 1 }, { 0, 1 }, true }, /* by the sender's effective */
		{ { 1, 1, 1 }, { 1, 0 }, true }, /* by the sender's real */
	};
	uid_t a = A;

	for (size_t i = 0; i < sizeof(rule) / sizeof(*rule); i++) {
		struct helper h;
		pid_t pid;
		int status;

		for (int k = 0; k < 3; k++)
			helper_uid[k] = a + rule[i].target[k];
		h = helper_start(helper_as_three);
		line_hear(&h.from);
		pid = fork();
		if (!pid) {
			uid_t ruid = a + rule[i].sender[0], euid = a + rule[i].sender[1];

			if (setresuid(ruid, euid, euid))
				_exit(1);
			_exit(kill(h.pid, RT) ? errno : 0);
		}
		waitpid(pid, &status, 0);
		check_err("rule", rule[i].good ? 0 : EPERM, WEXITSTATUS(status));
		check_eq("charged_to_its_real_uid", rule[i].good, sigq_of(h.pid));
		helper_kill(&h);
	}
}

static void root_group_of_two_users(void)
{
	uid_t a = A;
	struct helper one = start_as(a), other = start_as(a + 1);

	setpgid(one.pid, one.pid);
	setpgid(other.pid, one.pid);
	become(a);
	check_err("one_is_enough", 0, err_of(kill(-one.pid, RT)));
	check_eq("own", 1, sigq_of(one.pid));
	check_eq("not_the_other", 0, sigq_of(other.pid));
	check_err("killed", 0, err_of(kill(one.pid, SIGKILL)));
	waitpid(one.pid, NULL, 0);
	check_err("none_left", EPERM, err_of(kill(-one.pid, RT)));
}

static void root_is_bound_by_the_target(void)
{
	struct helper h;

	helper_limit = 2;
	h = start_as(A);
	check_eq("accepted", 2, fill_queue(h.pid, RT, MOST));
	check_err("then", EAGAIN, send_value(h.pid, RT, 0));
	check_eq("charged", 2, sigq_of(h.pid));
	check_err("kill", 0, err_of(kill(h.pid, SIGUSR1)));
	check_eq("over", 3, sigq_of(h.pid));
	helper_kill(&h);
}

static void root_at_limit_zero(void)
{
	block_ours();
	set_limit(0);
	check_err("sigqueue", EAGAIN, send_value(getpid(), RT, 0));
	check_err("kill", 0, err_of(kill(getpid(), RT)));
	check_eq("lost", 0, take(RT).si_pid);
}

/* Says what it was sent, in the words of its siginfo. */
static void helper_tells(struct helper *h)
{
	siginfo_t info;
	sigset_t set = set_of(RT);

	become(helper_uid[0]);
	block_ours();
	line_say(&h->from, 1);
	while (sigwaitinfo(&set, &info) == RT) {
		line_say(&h->from, info.si_pid);
		line_say(&h->from, info.si_uid);
	}
}

static void root_uid_of_the_sender(void)
{
	uid_t a = A;
	struct helper h;
	pid_t pid;

	helper_uid[0] = a;
	h = helper_start(helper_tells);
	line_hear(&h.from);
	kill(h.pid, RT);
	check_eq("root_pid", getpid(), line_hear(&h.from));
	check_eq("root_uid", 0, line_hear(&h.from));
	pid = fork();
	if (!pid) {
		if (setresuid(a + 1, a, a))
			_exit(1);
		_exit(kill(h.pid, RT));
	}
	check_eq("pid", pid, line_hear(&h.from));
	check_eq("real_uid", a + 1, line_hear(&h.from));
	waitpid(pid, NULL, 0);
	/* sigqueue() fills in what getuid() says; what a program makes up stays. */
	pid = fork();
	if (!pid) {
		become(a);
		_exit(send_value(h.pid, RT, 0));
	}
	check_eq("sigqueue_pid", pid, line_hear(&h.from));
	check_eq("sigqueue_uid", a, line_hear(&h.from));
	waitpid(pid, NULL, 0);
	helper_kill(&h);
}

/* Entries stay with the record that they were charged to. */
static void root_setuid_keeps_the_old_record(void)
{
	uid_t a = A;
	struct helper of_a = start_as(a);

	block_ours();
	if (setresuid(a, 0, 0))
		die("setresuid");
	check_eq("queued", 2, fill_queue(getpid(), RT, 2));
	check_eq("peer", 2, sigq_of(of_a.pid));
	if (setresuid(a + 1, a + 1, a + 1))
		die("setresuid");
	check_eq("peer_still", 2, sigq_of(of_a.pid));
	check_sigq("own", 0);
	check_eq("queued_as_b", 1, fill_queue(getpid(), RT, 1));
	check_sigq("own_one", 1);
	take(RT);
	check_eq("oldest_first", 1, sigq_of(of_a.pid));
	check_sigq("own_stays", 1);
	take(RT);
	check_eq("peer_none", 0, sigq_of(of_a.pid));
	take(RT);
	check_sigq("none", 0);
}

static void root_effective_uid_is_not_charged(void)
{
	uid_t a = A;
	struct helper of_a = start_as(a), of_b = start_as(a + 1);

	block_ours();
	if (setresuid(a, a + 1, a + 1))
		die("setresuid");
	check_eq("queued", 2, fill_queue(getpid(), RT, 2));
	check_eq("real", 2, sigq_of(of_a.pid));
	check_eq("effective", 0, sigq_of(of_b.pid));
}

#define WAY_ENTRY(name, code, flags) { #name "_to_itself", by_##name##_to_itself },
#define CASE(name)          \
	{                   \
#name, name \
	}

int main(int argc, char **argv)
{
	static const struct test_case test[] = {
		WAYS(WAY_ENTRY) CASE(every_way_to_a_child),
		CASE(a_group_gets_one_each),
		CASE(to_another_thread),
		CASE(errors_in_order),
		CASE(numbers_of_libc),
		CASE(codes_to_others),
		CASE(exactly_the_limit),
		CASE(lowered_and_raised_limit),
		CASE(queues_of_process_and_thread),
		CASE(ignored_is_dropped),
		CASE(ignored_by_default),
		CASE(blocked_is_not_ignored),
		CASE(stop_and_continue_flush),
		CASE(stopped_child),
		CASE(kill_is_not_charged),
		CASE(override_beyond_the_limit),
		CASE(losses_seen_by_handler),
		CASE(losses_seen_by_sigwaitinfo),
		CASE(losses_seen_by_signalfd),
		CASE(losses_collapse),
		CASE(losses_merge_into_entries),
		CASE(entry_after_a_loss),
		CASE(loss_of_a_coalesced_signal),
		CASE(limit_of_the_target),
		CASE(zombie_holds_shared),
		CASE(exit_with_pending),
		CASE(orphan_with_pending),
		CASE(blocked_sigchld),
		CASE(alarm_at_limit_zero),
		CASE(child_starts_empty),
		CASE(threads_exit_with_private),
		CASE(timers_are_charged),
		CASE(expiry_adds_nothing),
		CASE(deleted_while_pending),
		CASE(timers_go_with_the_process),
		CASE(timers_of_threads),
		CASE(exec_keeps_pending),
		CASE(exec_by_a_thread),
		CASE(abort_ends_the_process),
		CASE(root_other_users_are_refused),
		CASE(root_continue_of_another_session),
		CASE(root_which_ids_count),
		CASE(root_group_of_two_users),
		CASE(root_is_bound_by_the_target),
		CASE(root_at_limit_zero),
		CASE(root_uid_of_the_sender),
		CASE(root_setuid_keeps_the_old_record),
		CASE(root_effective_uid_is_not_charged),
	};

	self = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--after-exec"))
		return after_exec();
	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
