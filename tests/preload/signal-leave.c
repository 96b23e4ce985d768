/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every way in which a pending signal leaves, and what the program sees of itself meanwhile. */
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "tests/preload/signals.h"

/* sigset() and its kin are what old programs call. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

sighandler_t bsd_signal(int sig, sighandler_t handler);
sighandler_t ssignal(int sig, sighandler_t handler);
int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int __xpg_sigpause(int sig);

/* Flags that libc adds, the second of which recent kernels drop. */
#define LIBC_FLAGS (0x04000000 | SA_INTERRUPT)

/*
 * What handlers change is volatile: libc declares kill(), raise() and sigqueue() as functions that
 * call nothing back.
 */
static volatile sig_atomic_t counted; /* by count() */

static void count(int sig)
{
	(void)sig;
	counted++;
}

static void count_too(int sig)
{
	(void)sig;
	counted += 100;
}

/* --- handlers --- */

static void handler_releases(void)
{
	struct sigaction plain = { .sa_handler = count };

	block_ours();
	install(RT);
	sigaction(SIGUSR1, &plain, NULL);
	sigaction(RT + 1, &plain, NULL);
	fill_queue(getpid(), RT, 3);
	fill_queue(getpid(), RT + 1, 3);
	kill(getpid(), SIGUSR1);
	raise(SIGUSR1);
	check_sigq("waiting", LIMIT);
	unblock(RT);
	check_eq("three", 3, recorded);
	for (int i = 0; i < 3; i++)
		check_eq("in_order", i + 1, record_of[i].si_value.sival_int);
	check_own("info", &record_of[0], RT, SI_QUEUE);
	check_sigq("three_less", LIMIT - 3);
	unblock(RT + 1);
	check_eq("three_without_info", 3, counted);
	check_sigq("two", 2);
	unblock(SIGUSR1);
	check_eq("both", 5, counted);
	check_sigq("none", 0);
	check_eq("room", LIMIT, fill_queue(getpid(), RT + 2, MOST));
}

/* Unblocking lets in private signals before shared ones, low numbers before high. */
static volatile sig_atomic_t order[8], ordered;

static void note_order(int sig)
{
	order[ordered++ % 8] = sig;
}

static void order_of_delivery(void)
{
	struct sigaction act = { .sa_handler = note_order };
	sigset_t all;

	/* A handler that blocks all others runs to its end before the next one begins. */
	sigfillset(&act.sa_mask);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGUSR2, &act, NULL);
	sigaction(RT, &act, NULL);
	sigaction(RT + 1, &act, NULL);
	kill(getpid(), RT + 1);
	kill(getpid(), RT);
	kill(getpid(), SIGUSR1);
	raise(SIGUSR2);
	check_sigq("four", 4);
	sigemptyset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	check_eq("four_came", 4, ordered);
	check_eq("private", SIGUSR2, order[0]);
	check_eq("lowest", SIGUSR1, order[1]);
	check_eq("rt", RT, order[2]);
	check_eq("rt_last", RT + 1, order[3]);
	check_sigq("none", 0);
}

static void check_action(const char *name, int sig, void *handler, int flags, int masked)
{
	struct sigaction act;
	bool same;

	if (sigaction(sig, NULL, &act))
		die("sigaction");
	same = (flags & SA_SIGINFO) ? (void *)act.sa_sigaction == handler :
				      (void *)act.sa_handler == handler;
	verdict(same && (act.sa_flags & ~LIBC_FLAGS) == flags &&
			(!masked || sigismember(&act.sa_mask, masked)),
		name, "handler %p want %p, flags %x want %x", (void *)act.sa_handler, handler,
		act.sa_flags, flags);
}

struct kernel_sigaction {
	void *handler;
	unsigned long flags;
	void *restorer;
	unsigned long mask;
};

static int raw_sigaction(int sig, const struct kernel_sigaction *act, struct kernel_sigaction *old)
{
	return err_of(syscall(SYS_rt_sigaction, sig, act, old, KERNEL_SIGSET));
}

static void program_gets_its_own_back(void)
{
	struct sigaction act = { .sa_sigaction = record, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction plain = { .sa_handler = count, .sa_flags = SA_NODEFER }, old;
	struct kernel_sigaction raw;

	act.sa_mask = set_of(SIGUSR2);
	check_action("default", SIGUSR1, SIG_DFL, 0, 0);
	check_err("set", 0, err_of(sigaction(SIGUSR1, &act, NULL)));
	check_action("with_info", SIGUSR1, record, SA_SIGINFO | SA_RESTART, SIGUSR2);
	check_err("replace", 0, err_of(__sigaction(SIGUSR1, &plain, &old)));
	check_eq("old_handler", true, old.sa_sigaction == record);
	check_eq("old_flags", SA_SIGINFO | SA_RESTART, old.sa_flags & ~LIBC_FLAGS);
	check_eq("old_mask", true, sigismember(&old.sa_mask, SIGUSR2));
	check_eq("old_mask_only", false, sigismember(&old.sa_mask, SIGUSR1));
	check_action("plain", SIGUSR1, count, SA_NODEFER, 0);
	check_err("syscall", 0, raw_sigaction(SIGUSR1, NULL, &raw));
	check_eq("raw_handler", true, raw.handler == (void *)count);
	check_err("put_back", 0, err_of(sigaction(SIGUSR1, &old, NULL)));
	check_action("as_it_was", SIGUSR1, record, SA_SIGINFO | SA_RESTART, SIGUSR2);
	signal(SIGUSR1, SIG_IGN);
	check_eq("signal_returns_it", true, signal(SIGUSR1, SIG_DFL) == SIG_IGN);

	check_err("kill", EINVAL, err_of(sigaction(SIGKILL, &act, NULL)));
	check_err("stop", EINVAL, err_of(sigaction(SIGSTOP, &act, NULL)));
	check_err("kill_may_be_asked", 0, err_of(sigaction(SIGKILL, NULL, &old)));
	check_eq("kill_is_default", true, old.sa_handler == SIG_DFL);
	check_err("of_libc", EINVAL, err_of(sigaction(32, &act, NULL)));
	check_err("too_high", EINVAL, err_of(sigaction(65, &act, NULL)));
	check_err("zero", EINVAL, err_of(sigaction(0, &act, NULL)));
	check_err("negative", EINVAL, err_of(sigaction(-1, NULL, &old)));
}

/* A program may install handlers by the system call; here with the way back that libc uses. */
static void installed_by_syscall(void)
{
	struct kernel_sigaction act, old;

	install(RT);
	check_err("query", 0, raw_sigaction(RT, NULL, &act));
	check_eq("libc_s_handler", true, act.handler == (void *)record);
	check_err("install", 0, raw_sigaction(SIGUSR1, &act, &old));
	check_eq("was_default", true, old.handler == (void *)SIG_DFL);
	check_action("seen_by_libc", SIGUSR1, record, SA_SIGINFO, 0);
	raise(SIGUSR1);
	check_eq("ran", 1, recorded);
	check_own("info", &record_of[0], SIGUSR1, SI_TKILL);
	block(SIGUSR1);
	raise(SIGUSR1);
	check_sigq("one", 1);
	act.handler = (void *)SIG_IGN;
	check_err("ignore", 0, raw_sigaction(SIGUSR1, &act, &old));
	check_eq("was_record", true, old.handler == (void *)record);
	check_sigq("flushed", 0);
	check_err("size", EINVAL, err_of(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &old, 4)));
	check_err("address", EFAULT, err_of(syscall(SYS_rt_sigaction, SIGUSR1, 8, NULL, 8)));
	check_err("kill", EINVAL, raw_sigaction(SIGKILL, &act, NULL));
}

/* The action of the child and of the thread are the process's. */
static void *thread_installs(void *arg)
{
	install(SIGUSR2);
	return arg;
}

static void handlers_of_child_and_thread(void)
{
	pthread_t thread;
	pid_t pid;
	int status;

	install(SIGUSR1);
	pid = fork();
	if (!pid) {
		check_action("inherited", SIGUSR1, record, SA_SIGINFO, 0);
		kill(getpid(), SIGUSR1);
		check_eq("runs_in_the_child", 1, recorded);
		check_info("info_in_the_child", &record_of[0], SIGUSR1, SI_USER, getpid(),
			   getuid());
		signal(SIGUSR1, SIG_IGN);
		_exit(failures != 0);
	}
	waitpid(pid, &status, 0);
	check_eq("child", 0, status);
	check_action("not_the_child_s", SIGUSR1, record, SA_SIGINFO, 0);
	pthread_create(&thread, NULL, thread_installs, NULL);
	pthread_join(thread, NULL);
	check_action("by_a_thread", SIGUSR2, record, SA_SIGINFO, 0);
	raise(SIGUSR2);
	check_eq("ran", 1, recorded);
}

static void reset_hand(void)
{
	install_with(SIGUSR1, record, SA_RESETHAND);
	install_with(SIGURG, record, SA_RESETHAND);
	check_action("installed", SIGUSR1, record, SA_SIGINFO | (int)SA_RESETHAND, 0);
	raise(SIGUSR1);
	check_eq("once", 1, recorded);
	check_eq("default_again", true, signal(SIGUSR1, SIG_DFL) == SIG_DFL);
	block(SIGURG);
	kill(getpid(), SIGURG);
	raise(SIGURG);
	check_sigq("two", 2);
	/* The second is ignored by default then. */
	unblock(SIGURG);
	check_eq("one_of_two", 2, recorded);
	check_sigq("none", 0);
}

static volatile sig_atomic_t depth, deepest;

static void descend(int sig, siginfo_t *info, void *context)
{
	(void)context;
	depth++;
	if (depth > deepest)
		deepest = depth;
	if (info->si_value.sival_int > 1)
		send_value(getpid(), sig, info->si_value.sival_int - 1);
	depth--;
}

static void no_defer(void)
{
	install_with(RT, descend, SA_NODEFER);
	send_value(getpid(), RT, 5);
	check_eq("nested_in_itself", 5, deepest);
	check_sigq("none", 0);
	deepest = 0;
	install_with(RT, descend, 0);
	send_value(getpid(), RT, 5);
	check_eq("deferred", 1, deepest);
	check_sigq("none_again", 0);
}

static volatile bool blocked_inside[3];
static volatile int sigq_inside;

static void look(int sig)
{
	(void)sig;
	blocked_inside[0] = is_blocked(RT);
	blocked_inside[1] = is_blocked(RT + 1);
	blocked_inside[2] = is_blocked(RT + 2);
	sigq_inside = sigq();
}

static void mask_in_the_handler(void)
{
	struct sigaction act = { .sa_handler = look, .sa_mask = set_of(RT + 1) };

	sigaction(RT, &act, NULL);
	block(RT + 2);
	send_value(getpid(), RT, 0);
	check_eq("itself", true, blocked_inside[0]);
	check_eq("sa_mask", true, blocked_inside[1]);
	check_eq("as_before", true, blocked_inside[2]);
	check_eq("released_before_it_runs", 0, sigq_inside);
	check_eq("itself_after", false, is_blocked(RT));
	check_eq("sa_mask_after", false, is_blocked(RT + 1));
	check_eq("as_before_after", true, is_blocked(RT + 2));
	act.sa_flags = SA_NODEFER;
	sigaction(RT, &act, NULL);
	send_value(getpid(), RT, 0);
	check_eq("nodefer", false, blocked_inside[0]);
	check_eq("nodefer_sa_mask", true, blocked_inside[1]);
}

static void change_context(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)info;
	check_eq("mask_before", true, sigismember(&uc->uc_sigmask, SIGUSR2));
	check_eq("mask_without", false, sigismember(&uc->uc_sigmask, sig));
	sigaddset(&uc->uc_sigmask, RT + 3);
	sigdelset(&uc->uc_sigmask, SIGUSR2);
	recorded++;
}

/* What a handler writes into its context is in force when it has returned. */
static void context_of_the_handler(void)
{
	install_with(RT, change_context, 0);
	block(SIGUSR2);
	send_value(getpid(), RT, 0);
	check_eq("ran", 1, recorded);
	check_eq("added", true, is_blocked(RT + 3));
	check_eq("removed", false, is_blocked(SIGUSR2));
	check_sigq("none", 0);
}

static char *stack_bottom;

static void note_stack(int sig)
{
	char here;
	stack_t now;

	(void)sig;
	sigaltstack(NULL, &now);
	counted = &here >= stack_bottom && &here < stack_bottom + 64 * 1024 &&
		  (now.ss_flags & SS_ONSTACK);
}

static void alternate_stack(void)
{
	struct sigaction act = { .sa_handler = note_stack, .sa_flags = SA_ONSTACK };
	stack_t st = { .ss_size = 64 * 1024 };

	st.ss_sp = stack_bottom = malloc(st.ss_size);
	sigaltstack(&st, NULL);
	sigaction(SIGUSR1, &act, NULL);
	raise(SIGUSR1);
	check_eq("on_it", 1, counted);
	check_action("flags", SIGUSR1, note_stack, SA_ONSTACK, 0);
	act.sa_flags = 0;
	sigaction(SIGUSR1, &act, NULL);
	raise(SIGUSR1);
	check_eq("not_on_it", 0, counted);
}

static void send_another(int sig)
{
	if (sig == RT)
		send_value(getpid(), RT + 1, 0);
	else if (sig == RT + 1)
		raise(SIGUSR1);
	counted++;
	errno = EXDEV;
}

static void nested_handlers(void)
{
	signal(RT, send_another);
	signal(RT + 1, send_another);
	signal(SIGUSR1, send_another);
	errno = ENOTTY;
	send_value(getpid(), RT, 0);
	check_eq("all_three", 3, counted);
	check_err("what_handlers_leave_in_errno", EXDEV, errno);
	check_sigq("none", 0);
}

/* The mask that sigsetjmp saved is back after the jump, and what was delivered is released. */
static sigjmp_buf back;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static void jump_out(void)
{
	signal(RT, jump);
	signal(SIGUSR1, jump);
	for (volatile int i = 0; i < 50; i++) {
		if (!sigsetjmp(back, 1)) {
			if (i % 2)
				raise(SIGUSR1);
			else
				send_value(getpid(), RT, i);
			check_eq("not_reached", 0, 1);
		}
		check_eq("mask", false, is_blocked(RT) || is_blocked(SIGUSR1));
	}
	check_sigq("none", 0);
	/* Without a saved mask the signal stays blocked. */
	if (!sigsetjmp(back, 0))
		send_value(getpid(), RT, 0);
	check_eq("stays_blocked", true, is_blocked(RT));
	check_sigq("none_again", 0);
	check_eq("room", LIMIT, fill_queue(getpid(), RT, MOST));
}

static void disturb(struct helper *h)
{
	line_say(&h->from, 1);
	while (!kill(getppid(), SIGUSR1))
		;
}

/*
 * What a call has taken has left the queue, though the handler that came with it jumps away. One
 * always stays, so that nobody can tell from an empty queue.
 */
static void jump_out_of_receipt(void)
{
	static int jumps, rounds, waiting;
	struct timespec now = { 0 };
	struct signalfd_siginfo ssi;
	sigset_t set = set_of(RT);
	static struct helper h;
	static int fd;

	set_limit(MOST);
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	block(RT);
	send_value(getpid(), RT, 0);
	block(SIGUSR1);
	signal(SIGUSR1, jump);
	h = helper_start(disturb);
	line_hear(&h.from);
	jumps += sigsetjmp(back, 1);
	unblock(SIGUSR1);
	while (jumps < 80 && rounds++ < 100000) {
		send_value(getpid(), RT, rounds);
		if (rounds % 2)
			sigtimedwait(&set, NULL, &now);
		else if (read(fd, &ssi, sizeof(ssi)) < 0)
			check_eq("there_is_one", 0, errno);
	}
	block(SIGUSR1);
	helper_kill(&h);
	waiting = sigq() - is_pending(SIGUSR1);
	check_eq("as_the_kernel_says", take_all(RT), waiting);
	check_sigq("the_other", is_pending(SIGUSR1));
}

static pid_t forked;

static void fork_here(int sig)
{
	(void)sig;
	forked = fork();
}

/* A handler forks: both come back from it, into the call that it has interrupted. */
static void fork_in_the_middle(void)
{
	struct sigaction act = { .sa_handler = fork_here };
	struct itimerval soon = { .it_value = { 0, 20000 } };
	sigset_t set = set_of(RT);
	struct signalfd_siginfo ssi;
	int fd = signalfd(-1, &set, 0), err, status;

	block(RT);
	sigaction(SIGALRM, &act, NULL);
	for (int i = 0; i < 2; i++) {
		setitimer(ITIMER_REAL, &soon, NULL);
		err = err_of(i ? read(fd, &ssi, sizeof(ssi)) : sigwaitinfo(&set, NULL));
		if (!forked)
			_exit(err != EINTR || send_value(getpid(), RT, 7) ||
			      take(RT).si_value.sival_int != 7 || sigq() != 0);
		check_err("interrupted", EINTR, err);
		waitpid(forked, &status, 0);
		check_eq("child", 0, status);
	}
	check_sigq("none", 0);
}

static void errno_and_restart(void)
{
	struct sigaction act = { .sa_handler = count };
	struct itimerval soon = { .it_value = { 0, 20000 } };
	struct line l = line_open();
	char byte;
	pid_t pid;

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	check_err("interrupted", EINTR, err_of(read(l.fd[0], &byte, 1)));
	check_eq("ran", 1, counted);
	check_err("siginterrupt", 0, siginterrupt(SIGALRM, 0));
	check_action("restarts", SIGALRM, count, SA_RESTART, 0);
	pid = fork();
	if (!pid) {
		pause_ms(60);
		_exit(write(l.fd[1], "x", 1) != 1);
	}
	setitimer(ITIMER_REAL, &soon, NULL);
	check_eq("restarted", 1, read(l.fd[0], &byte, 1));
	check_eq("ran_again", 2, counted);
	waitpid(pid, NULL, 0);
	check_err("siginterrupt_on", 0, siginterrupt(SIGALRM, 1));
	setitimer(ITIMER_REAL, &soon, NULL);
	check_err("interrupted_again", EINTR, err_of(read(l.fd[0], &byte, 1)));
	check_err("pause", EINTR, ({
			  setitimer(ITIMER_REAL, &soon, NULL);
			  err_of(pause());
		  }));
	check_sigq("none", 0);
}

static void faults_have_handlers(void)
{
	install_with(SIGFPE, record, SA_RESETHAND);
	raise(SIGFPE);
	check_eq("raised", 1, recorded);
	check_own("info", &record_of[0], SIGFPE, SI_TKILL);
	volatile char *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	signal(SIGSEGV, jump);
	if (!sigsetjmp(back, 1))
		*closed = 1;
	check_eq("came_back", false, is_blocked(SIGSEGV));
	signal(SIGPIPE, count);
	counted = 0;
	int fd[2];

	if (pipe(fd))
		die("pipe");
	close(fd[0]);
	check_err("broken_pipe", EPIPE, err_of(write(fd[1], "", 1)));
	check_eq("sigpipe", 1, counted);
	check_sigq("none", 0);
}

/* --- the old ways to install a handler --- */

static void signal_and_its_kin(void)
{
	check_eq("first", true, signal(SIGUSR1, count) == SIG_DFL);
	check_action("signal", SIGUSR1, count, SA_RESTART, 0);
	check_eq("bsd_signal", true, bsd_signal(SIGUSR1, count_too) == count);
	check_action("bsd_signal_flags", SIGUSR1, count_too, SA_RESTART, 0);
	check_eq("ssignal", true, ssignal(SIGUSR1, count) == count_too);
	raise(SIGUSR1);
	raise(SIGUSR1);
	check_eq("stays", 2, counted);
	check_eq("sysv_signal", true, sysv_signal(SIGUSR1, count_too) == count);
	check_action("sysv_flags", SIGUSR1, count_too, (int)(SA_ONESHOT | SA_NOMASK), 0);
	raise(SIGUSR1);
	check_eq("sysv_ran", 102, counted);
	check_eq("sysv_once", true, signal(SIGUSR1, SIG_DFL) == SIG_DFL);
	check_eq("bad", true, signal(SIGKILL, count) == SIG_ERR);
	check_err("errno", EINVAL, errno);
	check_eq("bad_sysv", true, sysv_signal(65, count) == SIG_ERR);
}

static void sigset_and_its_kin(void)
{
	check_eq("sigset", true, sigset(SIGUSR1, count) == SIG_DFL);
	check_eq("hold", true, sigset(SIGUSR1, SIG_HOLD) == count);
	check_eq("held", true, is_blocked(SIGUSR1));
	raise(SIGUSR1);
	kill(getpid(), SIGUSR1);
	check_sigq("two", 2);
	check_err("sigrelse", 0, err_of(sigrelse(SIGUSR1)));
	check_eq("both", 2, counted);
	check_sigq("none", 0);
	check_err("sighold", 0, err_of(sighold(RT)));
	check_eq("blocked", true, is_blocked(RT));
	check_eq("was_held", true, sigset(RT, count) == SIG_HOLD);
	check_eq("sigset_unblocks", false, is_blocked(RT));
	sighold(RT);
	fill_queue(getpid(), RT, 3);
	check_sigq("three", 3);
	check_err("sigignore", 0, err_of(sigignore(RT)));
	check_sigq("flushed", 0);
	check_action("ignored", RT, SIG_IGN, 0, 0);
	check_err("bad", EINVAL, err_of(sighold(65)));
	check_err("bad_relse", EINVAL, err_of(sigrelse(0)));
	check_err("bad_ignore", EINVAL, err_of(sigignore(SIGKILL)));
}

static void sigpause_waits(void)
{
	signal(SIGUSR1, count);
	block(SIGUSR1);
	block(SIGUSR2);
	kill(getpid(), SIGUSR1);
	check_sigq("one", 1);
	check_err("xpg", EINTR, err_of(__xpg_sigpause(SIGUSR1)));
	check_eq("ran", 1, counted);
	check_sigq("none", 0);
	check_eq("blocked_again", true, is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
}

static void bsd_masks(void)
{
	int bit = 1 << (SIGUSR1 - 1), old = sigblock(bit);

	check_eq("was_open", 0, old & bit);
	kill(getpid(), SIGUSR1);
	check_sigq("one", 1);
	signal(SIGUSR1, count);
	check_eq("mask", bit, sigsetmask(old) & bit);
	check_eq("ran", 1, counted);
	check_sigq("none", 0);
}

/* --- the sigwait family --- */

static void waiting_calls(void)
{
	sigset_t set = set_of(RT);
	siginfo_t info;
	int sig = 0;

	block_ours();
	sigaddset(&set, SIGUSR1);
	send_value(getpid(), RT, 7);
	kill(getpid(), SIGUSR1);
	check_sigq("two", 2);
	check_err("sigwait", 0, sigwait(&set, &sig));
	check_eq("lowest", SIGUSR1, sig);
	check_sigq("one", 1);
	check_eq("sigwaitinfo", RT, sigwaitinfo(&set, &info));
	check_own("info", &info, RT, SI_QUEUE);
	check_eq("value", 7, info.si_value.sival_int);
	check_sigq("none", 0);
	send_value(getpid(), RT, 0);
	check_eq("without_info", RT, sigwaitinfo(&set, NULL));
	check_sigq("none_without_info", 0);
	send_value(getpid(), RT, 0);
	check_eq("endless", RT, sigtimedwait(&set, NULL, NULL));
	check_sigq("none_endless", 0);
	check_err("timeout", EAGAIN, err_of(sigtimedwait(&set, &info, &(struct timespec){ 0 })));
	check_err("bad_timeout", EINVAL,
		  err_of(sigtimedwait(&set, &info, &(struct timespec){ 0, -1 })));
	check_err("syscall_size", EINVAL,
		  err_of(syscall(SYS_rt_sigtimedwait, &set, &info, NULL, 4)));
	check_err("bad_set", EFAULT,
		  err_of(syscall(SYS_rt_sigtimedwait, 8, &info, NULL, KERNEL_SIGSET)));
}

/* libc makes SI_USER of SI_TKILL there, and nowhere else. */
static void tkill_code(void)
{
	sigset_t set = set_of(RT);
	siginfo_t info;

	block_ours();
	raise(RT);
	check_eq("sigtimedwait", RT, sigtimedwait(&set, &info, &(struct timespec){ 0 }));
	check_own("code", &info, RT, SI_USER);
	raise(RT);
	check_eq("sigwaitinfo", RT, sigwaitinfo(&set, &info));
	check_own("code_again", &info, RT, SI_USER);
	raise(RT);
	info = take_raw(RT);
	check_own("code_raw", &info, RT, SI_TKILL);
	raise(RT);
	install(RT);
	unblock(RT);
	check_own("code_in_handler", &record_of[0], RT, SI_TKILL);
	check_sigq("none", 0);
}

static void waiting_is_interrupted(void)
{
	struct itimerval soon = { .it_value = { 0, 20000 } };
	sigset_t set = set_of(RT);
	siginfo_t info;

	block_ours();
	signal(SIGALRM, count);
	setitimer(ITIMER_REAL, &soon, NULL);
	check_err("sigwaitinfo", EINTR, err_of(sigwaitinfo(&set, &info)));
	setitimer(ITIMER_REAL, &soon, NULL);
	check_err("sigtimedwait", EINTR,
		  err_of(sigtimedwait(&set, &info, &(struct timespec){ 5, 0 })));
	check_eq("ran", 2, counted);
	check_sigq("none", 0);
}

/* The signal comes while somebody waits for it. */
static void woken_while_waiting(void)
{
	sigset_t set = set_of(RT);
	siginfo_t info;
	pid_t parent = getpid(), pid;

	block_ours();
	for (int i = 0; i < 10; i++) {
		pid = fork();
		if (!pid) {
			pause_ms(5);
			_exit(send_value(parent, RT, i));
		}
		check_eq("sigwaitinfo", RT, sigwaitinfo(&set, &info));
		check_info("info", &info, RT, SI_QUEUE, pid, getuid());
		check_eq("value", i, info.si_value.sival_int);
		waitpid(pid, NULL, 0);
	}
	check_sigq("none", 0);
}

/* --- signalfd --- */

static void check_ssi(const char *name, const struct signalfd_siginfo *got, int sig, int code)
{
	verdict((int)got->ssi_signo == sig && got->ssi_code == code &&
			(int)got->ssi_pid == getpid() && got->ssi_uid == getuid(),
		name, "want signal %d code %d pid %d uid %u, got %u %d %u %u", sig, code, getpid(),
		getuid(), got->ssi_signo, got->ssi_code, got->ssi_pid, got->ssi_uid);
}

static void signalfd_read(void)
{
	struct signalfd_siginfo got[4];
	sigset_t set = set_of(RT);
	int fd;

	block_ours();
	sigaddset(&set, SIGUSR1);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	check_err("empty", EAGAIN, err_of(read(fd, got, sizeof(got))));
	send_value(getpid(), RT, 5);
	raise(RT);
	kill(getpid(), SIGUSR1);
	check_sigq("three", 3);
	check_eq("one", sizeof(got[0]), read(fd, got, sizeof(got[0])));
	check_ssi("private_first", &got[0], RT, SI_TKILL);
	check_sigq("two", 2);
	check_eq("the_rest", 2 * sizeof(got[0]), read(fd, got, sizeof(got)));
	check_ssi("shared", &got[0], SIGUSR1, SI_USER);
	check_ssi("rt", &got[1], RT, SI_QUEUE);
	check_eq("value", 5, got[1].ssi_int);
	check_sigq("none", 0);
	check_err("short", EINVAL, err_of(read(fd, got, 100)));
	send_value(getpid(), RT, 0);
	check_eq("syscall_read", sizeof(got[0]), syscall(SYS_read, fd, got, sizeof(got)));
	check_ssi("syscall_info", &got[0], RT, SI_QUEUE);
	check_sigq("none_by_syscall", 0);
	close(fd);
}

static void signalfd_readv(void)
{
	struct signalfd_siginfo got[4];
	sigset_t set = set_of(RT);
	struct iovec iov[2] = { { &got[0], sizeof(got[0]) }, { &got[1], 3 * sizeof(got[0]) } };
	int fd;

	block_ours();
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	fill_queue(getpid(), RT, 5);
	check_eq("four", sizeof(got), readv(fd, iov, 2));
	for (int i = 0; i < 4; i++) {
		check_ssi("info", &got[i], RT, SI_QUEUE);
		check_eq("value", i + 1, got[i].ssi_int);
	}
	check_sigq("one", 1);
	check_eq("last", sizeof(got[0]), syscall(SYS_readv, fd, iov, 2));
	check_eq("last_value", 5, got[0].ssi_int);
	check_sigq("none", 0);
	close(fd);
}

static void signalfd_copies(void)
{
	struct signalfd_siginfo got;
	sigset_t set = set_of(RT);
	int fd[4];

	block_ours();
	fd[0] = syscall(SYS_signalfd4, -1, &set, KERNEL_SIGSET, SFD_NONBLOCK);
	fd[1] = dup(fd[0]);
	fd[2] = fcntl(fd[0], F_DUPFD_CLOEXEC, 50);
	fd[3] = dup2(fd[0], 60);
	fill_queue(getpid(), RT, 4);
	close(fd[0]);
	for (int i = 1; i < 4; i++) {
		check_eq("read", sizeof(got), read(fd[i], &got, sizeof(got)));
		check_ssi("info", &got, RT, SI_QUEUE);
		check_eq("value", i, got.ssi_int);
		check_sigq("less", 4 - i);
	}
	check_eq("taken", 4, take(RT).si_value.sival_int);

	/* The number is used again, for something else. */
	for (int i = 1; i < 4; i++)
		close(fd[i]);
	struct line l = line_open();

	check_eq("ends_of_a_pipe", true, dup2(l.fd[0], 60) == 60);
	line_say(&l, 1);
	check_eq("plain_read", 4, read(60, &got, sizeof(got)));
	check_sigq("none", 0);
}

/* It shows the signals of whoever reads. */
static void signalfd_of_a_child(void)
{
	struct signalfd_siginfo got;
	sigset_t set = set_of(RT);
	pid_t pid;
	int fd, status;

	block_ours();
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	send_value(getpid(), RT, 1);
	pid = fork();
	if (!pid) {
		check_err("not_the_parent_s", EAGAIN, err_of(read(fd, &got, sizeof(got))));
		send_value(getpid(), RT, 2);
		check_sigq("two", 2);
		check_eq("own", sizeof(got), read(fd, &got, sizeof(got)));
		check_ssi("info", &got, RT, SI_QUEUE);
		check_eq("value", 2, got.ssi_int);
		check_sigq("one", 1);
		_exit(failures != 0);
	}
	waitpid(pid, &status, 0);
	check_eq("child", 0, status);
	check_eq("read", sizeof(got), read(fd, &got, sizeof(got)));
	check_eq("parent_s", 1, got.ssi_int);
	check_sigq("none", 0);
	close(fd);
}

static void signalfd_changes_its_mask(void)
{
	struct signalfd_siginfo got;
	sigset_t set = set_of(RT);
	struct pollfd p;
	int fd;

	block_ours();
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	p = (struct pollfd){ .fd = fd, .events = POLLIN };
	send_value(getpid(), RT + 1, 1);
	check_eq("not_asked_for", 0, poll(&p, 1, 0));
	set = set_of(RT + 1);
	check_eq("same_descriptor", fd, signalfd(fd, &set, 0));
	check_eq("poll", 1, poll(&p, 1, 0));
	check_eq("read", sizeof(got), read(fd, &got, sizeof(got)));
	check_ssi("info", &got, RT + 1, SI_QUEUE);
	check_sigq("none", 0);
	check_err("no_signalfd", EINVAL, err_of(signalfd(0, &set, 0)));
	check_err("closed", EBADF, err_of(signalfd(999, &set, 0)));
	check_err("flags", EINVAL, err_of(signalfd(-1, &set, 4711)));
	close(fd);
}

/* --- calls that change the mask while they wait --- */

static sigset_t without(int sig)
{
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	sigdelset(&set, sig);
	return set;
}

static int wait_sigsuspend(const sigset_t *mask, int ms)
{
	(void)ms;
	return err_of(sigsuspend(mask));
}

static int wait_syscall_sigsuspend(const sigset_t *mask, int ms)
{
	(void)ms;
	return err_of(syscall(SYS_rt_sigsuspend, mask, KERNEL_SIGSET));
}

static int wait_ppoll(const sigset_t *mask, int ms)
{
	return err_of(ppoll(NULL, 0, &(struct timespec){ 0, ms * 1000000l }, mask));
}

static int wait_pselect(const sigset_t *mask, int ms)
{
	return err_of(pselect(0, NULL, NULL, NULL, &(struct timespec){ 0, ms * 1000000l }, mask));
}

static int wait_epoll_pwait(const sigset_t *mask, int ms)
{
	struct epoll_event event;
	int fd = epoll_create1(0), err = err_of(epoll_pwait(fd, &event, 1, ms, mask));

	close(fd);
	return err;
}

static int wait_epoll_pwait2(const sigset_t *mask, int ms)
{
	struct timespec t = { 0, ms * 1000000l };
	struct epoll_event event;
	int fd = epoll_create1(0), err = err_of(epoll_pwait2(fd, &event, 1, &t, mask));

	close(fd);
	return err;
}

static int wait_syscall_ppoll(const sigset_t *mask, int ms)
{
	struct timespec t = { 0, ms * 1000000l };

	return err_of(syscall(SYS_ppoll, NULL, 0, &t, mask, KERNEL_SIGSET));
}

static int wait_syscall_pselect(const sigset_t *mask, int ms)
{
	struct timespec t = { 0, ms * 1000000l };
	struct {
		const sigset_t *mask;
		size_t size;
	} sixth = { mask, KERNEL_SIGSET };

	return err_of(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &t, &sixth));
}

static int wait_syscall_epoll_pwait(const sigset_t *mask, int ms)
{
	struct epoll_event event;
	int fd = epoll_create1(0), err;

	err = err_of(syscall(SYS_epoll_pwait, fd, &event, 1, ms, mask, KERNEL_SIGSET));
	close(fd);
	return err;
}

static void check_waiting(int (*wait_with)(const sigset_t *mask, int ms), bool timed)
{
	sigset_t mask;

	block_ours();
	install(RT);
	install(SIGUSR1);
	send_value(getpid(), RT, 1);
	raise(SIGUSR1);
	check_sigq("two", 2);
	mask = without(RT);
	check_err("interrupted", EINTR, wait_with(&mask, 900));
	check_eq("ran", 1, recorded);
	check_own("info", &record_of[0], RT, SI_QUEUE);
	check_eq("blocked_again", true, is_blocked(RT));
	check_sigq("one", 1);
	mask = without(SIGUSR1);
	check_err("interrupted_again", EINTR, wait_with(&mask, 900));
	check_own("info_again", &record_of[1], SIGUSR1, SI_TKILL);
	check_sigq("none", 0);
	if (!timed)
		return;
	/* One that is ignored is dropped as soon as it is let in. */
	signal(RT, SIG_IGN);
	fill_queue(getpid(), RT, 3);
	check_sigq("ignored_and_blocked", 3);
	mask = without(RT);
	wait_with(&mask, 20);
	check_sigq("dropped", 0);
	fill_queue(getpid(), RT, 3);
	check_sigq("blocked_again_and_kept", 3);
	check_err("no_mask", 0, wait_with(NULL, 1));
	check_sigq("still_kept", 3);
}

static void in_sigsuspend(void)
{
	check_waiting(wait_sigsuspend, false);
}

static void in_syscall_sigsuspend(void)
{
	check_waiting(wait_syscall_sigsuspend, false);
}

static void in_ppoll(void)
{
	check_waiting(wait_ppoll, true);
}

static void in_pselect(void)
{
	check_waiting(wait_pselect, true);
}

static void in_epoll_pwait(void)
{
	check_waiting(wait_epoll_pwait, true);
}

static void in_epoll_pwait2(void)
{
	check_waiting(wait_epoll_pwait2, true);
}

static void in_syscall_ppoll(void)
{
	check_waiting(wait_syscall_ppoll, true);
}

static void in_syscall_pselect(void)
{
	check_waiting(wait_syscall_pselect, true);
}

static void in_syscall_epoll_pwait(void)
{
	check_waiting(wait_syscall_epoll_pwait, true);
}

/* --- being ignored --- */

static struct line from_thread, to_thread;

static void *thread_holds(void *arg)
{
	line_say(&from_thread, gettid());
	line_hear(&to_thread);
	return arg;
}

static void ignoring_flushes(void)
{
	pthread_t thread;

	block_ours();
	/* Before there is another thread that could take them. */
	block(SIGURG);
	block(SIGWINCH);
	from_thread = line_open();
	to_thread = line_open();
	pthread_create(&thread, NULL, thread_holds, NULL);
	line_hear(&from_thread);
	fill_queue(getpid(), RT, 2);
	raise(RT);
	pthread_kill(thread, RT);
	pthread_kill(thread, RT);
	raise(RT + 1);
	check_sigq("six", 6);
	signal(RT, SIG_IGN);
	check_sigq("all_of_it_are_gone", 1);
	raise(RT);
	check_sigq("blocked_ones_still_queue", 2);
	signal(RT, count);
	unblock(RT);
	check_eq("delivered", 1, counted);
	check_sigq("one", 1);
	/* The default of most is to end the process: that flushes nothing. */
	block(RT);
	raise(RT);
	signal(RT, SIG_DFL);
	check_sigq("default_keeps", 2);
	/* That of a few is to be ignored. */
	install(SIGURG);
	raise(SIGURG);
	kill(getpid(), SIGURG);
	raise(SIGWINCH);
	check_sigq("five", 5);
	signal(SIGURG, SIG_DFL);
	check_sigq("default_ignores", 3);
	signal(SIGWINCH, SIG_DFL);
	check_sigq("not_changed_but_flushed", 2);
	line_say(&to_thread, 1);
	pthread_join(thread, NULL);
}

static void unblocking_drops_the_ignored(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t empty;

	block_ours();
	sigaction(RT, &ignore, NULL);
	fill_queue(getpid(), RT, 5);
	raise(RT);
	check_sigq("six", 6);
	unblock(RT);
	check_sigq("none", 0);
	block(RT);
	fill_queue(getpid(), RT, 2);
	sigemptyset(&empty);
	pthread_sigmask(SIG_SETMASK, &empty, NULL);
	check_sigq("none_by_setmask", 0);
	block(RT);
	fill_queue(getpid(), RT, 2);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &empty, NULL, KERNEL_SIGSET);
	check_sigq("none_by_syscall", 0);
	/* A handler again: what comes from now on is delivered. */
	block(RT);
	signal(RT, count);
	fill_queue(getpid(), RT, 2);
	unblock(RT);
	check_eq("delivered", 2, counted);
	check_sigq("end", 0);
}

static void ignored_survives_exec_and_spawn(void)
{
	char *argv[] = { (char *)"sh", (char *)"-c",
			 (char *)"while read k v; do case $k in SigBlk:|SigIgn:) echo 0x$v;; esac; "
				 "done </proc/self/status",
			 NULL };
	posix_spawnattr_t attr;
	sigset_t some = set_of(SIGUSR1), empty;
	unsigned long long blocked = 0, ignored = 0;
	char text[256] = "";
	int fd[2], status;
	posix_spawn_file_actions_t actions;
	pid_t pid;

	if (pipe(fd))
		die("pipe");
	sigemptyset(&empty);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	install(RT);
	block(RT);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attr, &some);
	posix_spawnattr_setsigmask(&attr, &empty);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd[1], 1);
	check_err("spawn", 0, posix_spawn(&pid, "/bin/sh", &actions, &attr, argv, environ));
	waitpid(pid, &status, 0);
	check_eq("text", true, read(fd[0], text, sizeof(text) - 1) > 0);
	check_eq("two_sets", 2, sscanf(text, "%llx %llx", &blocked, &ignored));
	check_eq("blocked", 0, blocked);
	check_eq("default_as_asked", 0, ignored >> (SIGUSR1 - 1) & 1);
	check_eq("still_ignored", 1, ignored >> (SIGUSR2 - 1) & 1);
	check_action("own", SIGUSR1, SIG_IGN, SA_RESTART, 0);
	send_value(getpid(), RT, 1);
	unblock(RT);
	check_eq("own_handler", 1, recorded);
	check_sigq("none", 0);
}

/* The child of vfork shares the memory, but not the actions and not the mask. */
static void vfork_child_has_its_own(void)
{
	pid_t pid;
	int status;

	block(SIGUSR2);
	install(RT);
	signal(SIGUSR1, count);
	signal(RT + 1, SIG_IGN);
	pid = vfork();
	if (!pid) {
		struct sigaction act = { .sa_handler = SIG_DFL };

		signal(RT, SIG_IGN);
		signal(RT + 1, SIG_DFL);
		sigaction(SIGUSR1, &act, NULL);
		sigaction(SIGUSR2, &act, NULL);
		block(RT);
		unblock(SIGUSR2);
		execl("/bin/sh", "sh", "-c", "exit 3", NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	check_eq("child", 3 << 8, status);
	check_action("rt", RT, record, SA_SIGINFO, 0);
	check_action("legacy", SIGUSR1, count, SA_RESTART, 0);
	check_action("ignored", RT + 1, SIG_IGN, SA_RESTART, 0);
	check_eq("mask", true, is_blocked(SIGUSR2) && !is_blocked(RT));
	send_value(getpid(), RT, 5);
	raise(SIGUSR1);
	send_value(getpid(), RT + 1, 5);
	check_eq("ran", 1, recorded);
	check_eq("value", 5, record_of[0].si_value.sival_int);
	check_eq("legacy_ran", 1, counted);
	check_sigq("none", 0);

	/* A handler that the child installs is not the parent's either. */
	pid = vfork();
	if (!pid) {
		signal(SIGUSR1, count_too);
		kill(getpid(), SIGUSR1);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	check_eq("ran_in_the_child", 101, counted);
	raise(SIGUSR1);
	check_eq("parent_s_own", 102, counted);
}

static void default_ends_the_process(void)
{
	struct {
		int sig;
		bool ends;
	} end[] = { { SIGUSR1, true }, { RT, true }, { SIGURG, false }, { SIGTERM, true } };

	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			block_ours();
			install(end[i].sig);
			fill_queue(getpid(), RT + 1, 3);
			signal(end[i].sig, SIG_DFL);
			unblock(end[i].sig);
			raise(end[i].sig);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		check_eq("status", end[i].ends ? end[i].sig : 0, status);
		check_sigq("none", 0);
	}
}

/* --- threads --- */

static void wait_in_sigwaitinfo(void)
{
	sigset_t set = set_of(RT);
	siginfo_t info;

	sigwaitinfo(&set, &info);
}

static void wait_in_sigtimedwait(void)
{
	sigset_t set = set_of(RT);
	siginfo_t info;

	sigtimedwait(&set, &info, &(struct timespec){ 60, 0 });
}

static void wait_in_sigwait(void)
{
	sigset_t set = set_of(RT);
	int sig;

	sigwait(&set, &sig);
}

static void wait_in_sigsuspend(void)
{
	sigset_t mask = without(SIGUSR2);

	sigsuspend(&mask);
}

static void wait_in_ppoll(void)
{
	ppoll(NULL, 0, NULL, NULL);
}

static void wait_in_pause(void)
{
	pause();
}

static void (*waits_in_call)(void);

static void *thread_waits(void *arg)
{
	line_say(&from_thread, gettid());
	waits_in_call();
	return arg;
}

static void cancelled_while_waiting(void)
{
	void (*call[])(void) = { wait_in_sigwaitinfo, wait_in_sigtimedwait, wait_in_sigwait,
				 wait_in_sigsuspend,  wait_in_ppoll,        wait_in_pause };

	block_ours();
	from_thread = line_open();
	for (int i = 0; i < 6; i++) {
		pthread_t thread;
		void *result = NULL;

		waits_in_call = call[i];
		pthread_create(&thread, NULL, thread_waits, NULL);
		line_hear(&from_thread);
		pause_ms(20);
		check_err("cancel", 0, pthread_cancel(thread));
		check_err("join", 0, pthread_join(thread, &result));
		verdict(result == PTHREAD_CANCELED, "cancelled", "call %d", i);
	}
	check_sigq("none", 0);
	check_eq("room", LIMIT, fill_queue(getpid(), RT, MOST));
}

static void *thread_ends(void *arg)
{
	pthread_kill(pthread_self(), RT);
	pthread_sigqueue(pthread_self(), RT, (union sigval){ 0 });
	pthread_kill(pthread_self(), SIGUSR1);
	line_say(&from_thread, sigq());
	if (arg == (void *)1)
		pthread_exit(NULL);
	if (arg == (void *)2)
		syscall(SYS_exit, 0);
	if (arg == (void *)3)
		pause();
	return arg;
}

static void thread_exit_releases(void)
{
	block_ours();
	from_thread = line_open();
	for (long way = 0; way < 4; way++) {
		pthread_t thread;

		pthread_create(&thread, NULL, thread_ends, (void *)way);
		check_eq("three", 3, line_hear(&from_thread));
		if (way == 3)
			pthread_cancel(thread);
		pthread_join(thread, NULL);
		check_sigq_soon("none", 0);
	}
}

/* A handler interrupts one thread again and again while another one forks. */
static volatile bool enough;

static void *thread_is_interrupted(void *arg)
{
	volatile unsigned long work = 0;

	while (!enough) {
		raise(RT);
		pthread_kill(pthread_self(), SIGUSR1);
		for (int i = 0; i < 100; i++)
			work += i;
	}
	return arg;
}

static void fork_while_handlers_run(void)
{
	pthread_t thread;
	int status, bad = 0;

	signal(RT, count);
	signal(SIGUSR1, count);
	pthread_create(&thread, NULL, thread_is_interrupted, NULL);
	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();

		if (!pid) {
			int before = counted;

			raise(RT);
			raise(SIGUSR1);
			_exit(counted != before + 2);
		}
		waitpid(pid, &status, 0);
		bad += status != 0;
	}
	enough = true;
	pthread_join(thread, NULL);
	check_eq("bad_children", 0, bad);
	check_eq("handlers_ran", true, counted > 0);
	check_sigq("none", 0);
}

/* One thread sends to another that handles; nothing gets lost or stays. */
static void *thread_computes(void *arg)
{
	line_say(&from_thread, 1);
	while (!enough)
		sched_yield();
	return arg;
}

static void threads_storm(void)
{
	pthread_t thread[2];
	int sent = 0;

	from_thread = line_open();
	install(RT);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, thread_computes, NULL);
	line_hear(&from_thread);
	line_hear(&from_thread);
	block(RT);
	for (int i = 0; i < 2000; i++)
		sent += !pthread_kill(thread[0], RT);
	check_eq("all_came", true, until(recorded == sent));
	enough = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	check_eq("as_many_as_sent", sent, recorded);
	check_sigq("none", 0);
}

/* --- many --- */

/* The handlers of the two signals interrupt each other. */
static int got_rt;

static void count_rt(int sig)
{
	(void)sig;
	__atomic_add_fetch(&got_rt, 1, __ATOMIC_RELAXED);
}

#define STORM 50
struct storm {
	int sent, got; /* by all, real-time signals that were not refused */
	int ready, done;
	pid_t pid[STORM];
};

static void storm_child(struct storm *s, int me)
{
	unsigned int seed = me * 2654435761u;

	__atomic_add_fetch(&s->ready, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&s->ready, __ATOMIC_SEQ_CST) < STORM + 1)
		pause_ms(1);
	for (int i = 0; i < 200; i++) {
		pid_t to = s->pid[(seed >> 16) % STORM];

		seed = seed * 1103515245 + 12345;
		switch (seed >> 28 & 3) {
		case 0:
			kill(to, SIGUSR1);
			break;
		case 1:
			send_value(to, SIGUSR2, i);
			break;
		default:
			if (!send_value(to, RT + (i & 1), i))
				__atomic_add_fetch(&s->sent, 1, __ATOMIC_SEQ_CST);
		}
	}
	__atomic_add_fetch(&s->done, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&s->done, __ATOMIC_SEQ_CST) < STORM)
		pause_ms(1);
	/* What was sent has been delivered with the next return from the kernel. */
	getppid();
	pause_ms(1);
	__atomic_add_fetch(&s->got, __atomic_load_n(&got_rt, __ATOMIC_RELAXED), __ATOMIC_SEQ_CST);
	_exit(0);
}

static void processes_storm(void)
{
	struct storm *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, bad = 0;

	if (s == MAP_FAILED)
		die("mmap");
	set_limit(MOST);
	signal(SIGUSR1, count);
	signal(SIGUSR2, count);
	signal(RT, count_rt);
	signal(RT + 1, count_rt);
	for (int i = 0; i < STORM; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (!pid)
			storm_child(s, i);
		s->pid[i] = pid;
	}
	/* All numbers are known: nobody sends to 0. */
	__atomic_add_fetch(&s->ready, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < STORM; i++) {
		waitpid(s->pid[i], &status, 0);
		bad += status != 0;
	}
	check_eq("bad_children", 0, bad);
	check_eq("each_came_once", s->sent, s->got);
	check_eq("some_were_sent", true, s->sent > 0);
	check_sigq("none", 0);
}

/* The loop of will-it-scale's signal1. */
static void raise_loop(void)
{
	install(SIGUSR1);
	for (int i = 0; i < 20000; i++)
		raise(SIGUSR1);
	check_eq("handled", 20000, recorded);
	check_sigq("none", 0);
}

static void queue_loop(void)
{
	int bad = 0;

	block_ours();
	for (int i = 0; i < 10000; i++) {
		bad += send_value(getpid(), RT, i) != 0;
		bad += take(RT).si_value.sival_int != i;
	}
	check_eq("bad", 0, bad);
	check_sigq("none", 0);
	check_eq("room", LIMIT, fill_queue(getpid(), RT, MOST));
}

#define CASE(name)          \
	{                   \
#name, name \
	}

int main(int argc, char **argv)
{
	static const struct test_case test[] = {
		CASE(handler_releases),
		CASE(order_of_delivery),
		CASE(program_gets_its_own_back),
		CASE(installed_by_syscall),
		CASE(handlers_of_child_and_thread),
		CASE(reset_hand),
		CASE(no_defer),
		CASE(mask_in_the_handler),
		CASE(context_of_the_handler),
		CASE(alternate_stack),
		CASE(nested_handlers),
		CASE(jump_out),
		CASE(jump_out_of_receipt),
		CASE(fork_in_the_middle),
		CASE(errno_and_restart),
		CASE(faults_have_handlers),
		CASE(signal_and_its_kin),
		CASE(sigset_and_its_kin),
		CASE(sigpause_waits),
		CASE(bsd_masks),
		CASE(waiting_calls),
		CASE(tkill_code),
		CASE(waiting_is_interrupted),
		CASE(woken_while_waiting),
		CASE(signalfd_read),
		CASE(signalfd_readv),
		CASE(signalfd_copies),
		CASE(signalfd_of_a_child),
		CASE(signalfd_changes_its_mask),
		CASE(in_sigsuspend),
		CASE(in_syscall_sigsuspend),
		CASE(in_ppoll),
		CASE(in_pselect),
		CASE(in_epoll_pwait),
		CASE(in_epoll_pwait2),
		CASE(in_syscall_ppoll),
		CASE(in_syscall_pselect),
		CASE(in_syscall_epoll_pwait),
		CASE(ignoring_flushes),
		CASE(unblocking_drops_the_ignored),
		CASE(ignored_survives_exec_and_spawn),
		CASE(vfork_child_has_its_own),
		CASE(default_ends_the_process),
		CASE(cancelled_while_waiting),
		CASE(thread_exit_releases),
		CASE(fork_while_handlers_run),
		CASE(threads_storm),
		CASE(processes_storm),
		CASE(raise_loop),
		CASE(queue_loop),
	};

	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
