/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dispositions and handlers. Every handler of the program is installed as one function of ours, so
 * that the model sees a signal leave its queue. What the kernel has installed is the truth; the
 * table here only says whose handler ours stands for.
 */
#include <setjmp.h>
#include <string.h>
#include <ucontext.h>

#include "emu/lib/uaccess.h"
#include "preload/hook.h"
#include "preload/signal.h"

struct handler {
	void (*fn)(int, siginfo_t *, void *);
	int flags; /* as the program gave them */
	uint64_t mask;
};

/* Made for the first handler: with it, the library's data would not fit one page. */
static struct handler *handlers;
static struct process_lock handlers_lock;

/* Whose the table is: a vfork child runs in the same memory, but has its own dispositions. */
static uint32_t owner, owner_mm;

static uint64_t interrupting; /* by siginterrupt(): what signal(2) installs does not restart calls */

__thread int signals_deferred __attribute__((tls_model("initial-exec"), visibility("hidden")));
__thread int signal_put_aside __attribute__((tls_model("initial-exec")));

/*
 * Signals that came while they were deferred. The kernel may deliver several at one point, each
 * into the first instruction of the one before it; the last of them to run is the one that
 * interrupted the program.
 */
#define ASIDE 4
static __thread struct {
	char info[ASIDE][INFO_LENGTH];
	uint64_t mask; /* of the code that was interrupted */
	gregset_t gregs;
} aside __attribute__((tls_model("initial-exec")));

static uint64_t mask_of(const void *set)
{
	uint64_t mask;

	memcpy(&mask, set, sizeof(mask));
	return mask;
}

static bool table_is_ours(void)
{
	struct task_struct *leader = task_leader(current);
	uint32_t me = task_ref(leader), mm = READ_ONCE(leader->mm);

	if (likely(owner == me))
		return true;
	if (owner_mm == mm)
		return false;
	owner = me;
	owner_mm = mm;
	return true;
}

void signals_in_child(void)
{
	owner_mm = 0;
}

bool signal_arrives(siginfo_t *info)
{
	struct task_struct *t = task_here();
	bool real = true;

	if (t) {
		defer_signals();
		real = signal_received(t, info);
		allow_signals();
	}
	return real;
}

/* --- masks, in the processes where they matter --- */

static uint64_t mask_now(void)
{
	uint64_t mask = 0;

	sys_call(__NR_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return mask;
}

static bool masks_matter(void)
{
	return current && unlikely(signal_mask_matters(task_leader(current)));
}

static void set_mask(uint64_t mask)
{
	sys_call(__NR_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

/*
 * The model's mask of this thread is to be @mask. What it blocks is blocked from here on; what it
 * does not block, the caller's next step unblocks.
 */
static void mask_becomes(uint64_t mask)
{
	struct task_struct *leader = task_leader(current);

	defer_signals();
	sys_call(__NR_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof(mask));
	signal_mask_begin(leader);
	signal_mask_end(current, leader, mask);
	allow_signals();
}

/* What the next step, which leaves a handler or jumps, makes of the mask. */
static void mask_will_be(uint64_t mask)
{
	if (!current)
		return;
	signal_mask_will_be(current, mask);
	__asm__ volatile("" : : : "memory");
	if (masks_matter())
		mask_becomes(mask);
}

static void mask_unknown(void)
{
	if (current)
		signal_mask_unknown(current);
	__asm__ volatile("" : : : "memory");
}

void mask_changed(void)
{
	if (masks_matter())
		mask_becomes(mask_now());
}

void last_mask(void)
{
	mask_becomes(~0ull);
}

/* --- handlers --- */

/* What the model has made of the signal of a frame. The kernel leaves these bytes 0. */
enum {
	FRAME_NEW,
	FRAME_REAL,
	FRAME_NOTHING
};
static int *frame_state(siginfo_t *info)
{
	return (int *)((char *)info + sizeof(*info)) - 1;
}

static void frame_arrives(siginfo_t *info)
{
	if (*frame_state(info) == FRAME_NEW)
		*frame_state(info) = signal_arrives(info) ? FRAME_REAL : FRAME_NOTHING;
}

/* In trampoline.S. */
void trampoline(int sig, siginfo_t *info, void *context);
extern const char trampoline_begun[];
void signal_delivered(int sig, siginfo_t *info, void *context);

static bool has_not_begun(const greg_t *regs)
{
	return regs[REG_RIP] == (greg_t)trampoline || regs[REG_RIP] == (greg_t)trampoline_begun;
}

/* The thread is in the middle of signal_call(), or elsewhere on the way into @call or out of it. */
static void complete_interrupted(struct signal_call *call, greg_t *regs)
{
	uintptr_t at = regs[REG_RIP];

	if (at == (uintptr_t)signal_called)
		call->ret = regs[REG_RAX];
	complete_signal_call(call);
	if (at >= (uintptr_t)signal_call && at < (uintptr_t)signal_called &&
	    call->ret != SIGNAL_CALL_OPEN)
		regs[REG_RIP] = (greg_t)signal_call_made;
}

/*
 * Frames below, whose functions have not begun, never will if the handler jumps away: their signals
 * have left the queue now.
 */
static void frames_arrive(siginfo_t *info, ucontext_t *context)
{
	for (;;) {
		greg_t *regs = context->uc_mcontext.gregs;

		frame_arrives(info);
		if (likely(!has_not_begun(regs)))
			break;
		info = (siginfo_t *)regs[REG_RSI];
		context = (ucontext_t *)regs[REG_RDX];
	}
	if (signal_call_now && signals_deferred == 1)
		complete_interrupted(signal_call_now, context->uc_mcontext.gregs);
}

static void run_handler(int sig, siginfo_t *info, void *context)
{
	bool real = *frame_state(info) == FRAME_REAL;

	*frame_state(info) = FRAME_NEW;
	if (real)
		READ_ONCE(handlers[sig].fn)(sig, info, context);
}

static void deliver(int sig, siginfo_t *info, ucontext_t *context)
{
	struct signal_call *interrupted = signal_call_now;
	int saved = errno;

	mask_unknown();
	frames_arrive(info, context);
	signal_call_ends();
	allow_signals();
	mask_changed();
	errno = saved;
	run_handler(sig, info, context);
	signal_call_now = interrupted;
	mask_will_be(mask_of(&context->uc_sigmask));
}

/* The instruction that raised it would raise it again. */
static bool is_synchronous(const siginfo_t *info)
{
	switch (info->si_signo) {
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGFPE:
	case SIGTRAP:
	case SIGSYS:
		return info->si_code > 0;
	}
	return false;
}

static void put_aside(siginfo_t *info, ucontext_t *context)
{
	aside.mask = mask_of(&context->uc_sigmask);
	memcpy(aside.gregs, context->uc_mcontext.gregs, sizeof(aside.gregs));
	/* Until allow_signals() nothing else comes, but for what has been delivered already. */
	memset(&context->uc_sigmask, 0xff, sizeof(aside.mask));
	if (signal_put_aside < ASIDE)
		memcpy(aside.info[signal_put_aside++], info, INFO_LENGTH);
	else
		sys_call(__NR_rt_tgsigqueueinfo, sys_call(__NR_getpid), sys_call(__NR_gettid),
			 info->si_signo, info);
}

/* Signals are deferred; they were before, if it is not for us alone. */
void signal_delivered(int sig, siginfo_t *info, void *context)
{
	if (likely(signals_deferred == 1) || is_synchronous(info)) {
		deliver(sig, info, context);
	} else {
		put_aside(info, context);
		signals_deferred--;
	}
}

/* While the handler of @info runs, the functions of the @n frames below have not begun. */
static uint64_t mask_during(uint64_t mask, const siginfo_t *info, int n)
{
	for (int i = 0; i <= n; i++) {
		int sig = info[i].si_signo;

		mask |= handlers[sig].mask;
		if (!(handlers[sig].flags & SA_NODEFER))
			mask |= sig_bit(sig);
	}
	return mask;
}

void run_put_aside(void)
{
	struct signal_call *interrupted = signal_call_now;
	int n = signal_put_aside, saved = errno;
	uint64_t before = aside.mask;
	siginfo_t info[ASIDE];
	ucontext_t context;

	memset(info, 0, sizeof(info));
	memset(&context, 0, sizeof(context));
	memcpy(&context.uc_sigmask, &before, sizeof(before));
	memcpy(context.uc_mcontext.gregs, aside.gregs, sizeof(aside.gregs));
	for (int i = 0; i < n; i++)
		memcpy(&info[i], aside.info[i], INFO_LENGTH);
	signal_put_aside = 0;
	for (int i = 0; i < n; i++)
		frame_arrives(&info[i]);
	if (interrupted)
		end_signal_call(interrupted);
	for (int i = 0; i < n; i++) {
		uint64_t during = mask_during(before, &info[i], n - 1 - i);

		mask_will_be(during);
		set_mask(during);
		run_handler(info[i].si_signo, &info[i], &context);
	}
	signal_call_now = interrupted;
	before = mask_of(&context.uc_sigmask);
	mask_will_be(before);
	set_mask(before);
	errno = saved;
}

static bool is_function(const struct sigaction *act)
{
	return act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN;
}

/* Of the signals that do nothing by default (signal(7)). */
static bool does_nothing(int sig, const struct sigaction *act)
{
	if (act->sa_handler == SIG_IGN)
		return true;
	return act->sa_handler == SIG_DFL &&
	       (sig == SIGCHLD || sig == SIGCONT || sig == SIGURG || sig == SIGWINCH);
}

static bool have_handlers(void)
{
	long p;

	if (handlers)
		return true;
	p = sys_call(__NR_mmap, 0, (KPEMU_NSIG + 1) * sizeof(*handlers), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (SYS_ERR(p))
		return false;
	handlers = (struct handler *)p;
	return true;
}

/*
 * What is installed for @act, which the table then knows as the program's. Without memory for the
 * table the program's own is: what it receives is then found missing at the next look.
 */
static void stand_in(int sig, struct sigaction *act)
{
	if (!is_function(act) || !have_handlers())
		return;
	WRITE_ONCE(handlers[sig].fn, act->sa_sigaction);
	handlers[sig].flags = act->sa_flags;
	handlers[sig].mask = mask_of(&act->sa_mask);
	act->sa_sigaction = trampoline;
	act->sa_flags |= SA_SIGINFO;
}

static void show_own(struct sigaction *old, const struct handler *was)
{
	if (old->sa_sigaction != trampoline)
		return;
	old->sa_sigaction = was->fn;
	if (!(was->flags & SA_SIGINFO))
		old->sa_flags &= ~SA_SIGINFO;
}

static struct handler handler_of(int sig)
{
	return handlers ? handlers[sig] : (struct handler){ 0 };
}

static int change_action(int sig, struct sigaction *act, struct sigaction *old)
{
	struct task_struct *leader = task_leader(current);
	bool ignored = act->sa_handler == SIG_IGN, flush = does_nothing(sig, act);
	struct handler was = handler_of(sig);
	int ret;

	signal_ignore_begin(leader, sig);
	stand_in(sig, act);
	ret = next_sigaction(sig, act, old);
	if (ret) {
		if (handlers)
			handlers[sig] = was;
		ignored = READ_ONCE(leader->sig_ignored) & sig_bit(sig);
		flush = false;
	}
	signal_ignore_end(leader, sig, ignored, flush);
	return ret;
}

int hook_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction new, prev;
	struct handler was;
	int ret;

	if (sig < 1 || sig > KPEMU_NSIG)
		return next_sigaction(sig, act, old);
	if (act)
		new = *act;
	defer_signals();
	process_lock(&handlers_lock);
	was = handler_of(sig);
	if (act && table_is_ours())
		ret = change_action(sig, &new, &prev);
	else
		ret = next_sigaction(sig, act ? &new : NULL, &prev);
	process_unlock(&handlers_lock);
	allow_signals();
	if (!ret && old) {
		*old = prev;
		show_own(old, &was);
	}
	return ret;
}

/* What rt_sigaction(2) takes; libc's restorer does for everybody. */
struct kernel_sigaction {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};
#define SA_RESTORER_FLAG 0x04000000ul

long hook_sys_rt_sigaction(int sig, const void *uact, void *uold, size_t size)
{
	struct kernel_sigaction k;
	struct sigaction act, old;
	int ret;

	if (size != sizeof(k.mask))
		return -EINVAL;
	if (uact && copy_from_user(&k, uact, sizeof(k)))
		return -EFAULT;
	memset(&act, 0, sizeof(act));
	if (uact) {
		act.sa_sigaction = (void (*)(int, siginfo_t *, void *))k.handler;
		act.sa_flags = k.flags & ~SA_RESTORER_FLAG;
		memcpy(&act.sa_mask, &k.mask, sizeof(k.mask));
	}
	ret = hook_sigaction(sig, uact ? &act : NULL, &old);
	if (ret)
		return -errno;
	if (!uold)
		return 0;
	k = (struct kernel_sigaction){ (void *)old.sa_sigaction, old.sa_flags, NULL,
				       mask_of(&old.sa_mask) };
	return copy_to_user(uold, &k, sizeof(k)) ? -EFAULT : 0;
}

static sighandler_t install(int sig, sighandler_t handler, int flags, bool mask_itself)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags }, old;

	if (handler == SIG_ERR || sig < 1 || sig > KPEMU_NSIG) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (mask_itself)
		sigaddset(&act.sa_mask, sig);
	return hook_sigaction(sig, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

sighandler_t hook_signal(int sig, sighandler_t handler)
{
	bool restart = sig < 1 || sig > KPEMU_NSIG || !(READ_ONCE(interrupting) & sig_bit(sig));

	return install(sig, handler, restart ? SA_RESTART : 0, true);
}

#define SA_INTERRUPT_FLAG 0x20000000 /* what sysv_signal(3) sets; the kernel knows it no longer */

sighandler_t hook_sysv_signal(int sig, sighandler_t handler)
{
	return install(sig, handler, SA_RESETHAND | SA_NODEFER | SA_INTERRUPT_FLAG, false);
}

int hook_siginterrupt(int sig, int on)
{
	struct sigaction act;

	if (hook_sigaction(sig, NULL, &act) < 0)
		return -1;
	if (on)
		fetch_or(&interrupting, sig_bit(sig));
	else
		fetch_andnot(&interrupting, sig_bit(sig));
	act.sa_flags = on ? act.sa_flags & ~SA_RESTART : act.sa_flags | SA_RESTART;
	return hook_sigaction(sig, &act, NULL);
}

int hook_sigignore(int sig)
{
	struct sigaction act = { .sa_handler = SIG_IGN };

	return hook_sigaction(sig, &act, NULL);
}

sighandler_t hook_sigset(int sig, sighandler_t handler)
{
	struct sigaction act = { .sa_handler = handler }, old;
	sigset_t set, before;

	sigemptyset(&set);
	if (handler == SIG_ERR || sigaddset(&set, sig) < 0) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (hook_sigprocmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &set, &before) < 0)
		return SIG_ERR;
	if (hook_sigaction(sig, handler == SIG_HOLD ? NULL : &act, &old) < 0)
		return SIG_ERR;
	return sigismember(&before, sig) ? SIG_HOLD : old.sa_handler;
}

/* --- calls that change the mask --- */

/*
 * Nobody sends between the last moment of the old mask and the first of the new one. In between all
 * signals are blocked; those that came before are run with the new one.
 */
static uint64_t mask_change(int how, uint64_t set)
{
	struct task_struct *leader = task_leader(current);
	uint64_t before, after;

	defer_signals();
	signal_mask_begin(leader);
	block_signals(&before);
	if (signal_put_aside)
		before = aside.mask;
	after = how == SIG_SETMASK ? set : how == SIG_BLOCK ? before | set : before & ~set;
	signal_mask_end(current, leader, after);
	if (signal_put_aside)
		aside.mask = after;
	else
		restore_signals(&after);
	allow_signals();
	return before;
}

static bool changes_mask(int how, const void *set)
{
	return masks_matter() && set &&
	       (how == SIG_BLOCK || how == SIG_UNBLOCK || how == SIG_SETMASK);
}

/* @wait runs with the mask at @set (NULL = the present one) and then has the present one again. */
#define WITH_MASK(set, wait)                                \
	({                                                  \
		bool matters = masks_matter() && (set);     \
		uint64_t before = matters ? mask_now() : 0; \
		__typeof__(wait) ret_;                      \
                                                            \
		if (matters)                                \
			mask_becomes(mask_of(set));         \
		else                                        \
			mask_unknown();                     \
		ret_ = (wait);                              \
		if (matters) {                              \
			mask_becomes(before);               \
			set_mask(before);                   \
		} else {                                    \
			mask_changed();                     \
		}                                           \
		ret_;                                       \
	})

static int change_set(int how, const sigset_t *set, sigset_t *old,
		      __typeof__(sigprocmask) *next)
{
	uint64_t before;
	int ret;

	if (!changes_mask(how, set)) {
		mask_unknown();
		ret = next(how, set, old);
		mask_changed();
		return ret;
	}
	before = mask_change(how, mask_of(set) & ~INTERNAL_SIGNALS);
	if (old) {
		sigemptyset(old);
		memcpy(old, &before, sizeof(before));
	}
	return 0;
}

int hook_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return change_set(how, set, old, next_sigprocmask);
}

int hook_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return change_set(how, set, old, next_pthread_sigmask);
}

long hook_sys_rt_sigprocmask(int how, const void *set, void *old, size_t size)
{
	uint64_t mask;

	if (size != sizeof(mask) || !changes_mask(how, set)) {
		long ret;

		mask_unknown();
		ret = sys_call(__NR_rt_sigprocmask, how, set, old, size);

		mask_changed();
		return ret;
	}
	if (copy_from_user(&mask, set, sizeof(mask)))
		return -EFAULT;
	mask = mask_change(how, mask);
	return old && copy_to_user(old, &mask, sizeof(mask)) ? -EFAULT : 0;
}

static int change_one(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	if (sigaddset(&set, sig) < 0)
		return -1;
	return hook_sigprocmask(how, &set, NULL);
}

int hook_sighold(int sig)
{
	return change_one(SIG_BLOCK, sig);
}

int hook_sigrelse(int sig)
{
	return change_one(SIG_UNBLOCK, sig);
}

/* The masks of 4.2BSD: an int. */
static int change_bsd(int how, int mask)
{
	sigset_t set, old;

	sigemptyset(&set);
	memcpy(&set, &mask, sizeof(mask));
	if (hook_sigprocmask(how, &set, &old) < 0)
		return -1;
	return (int)mask_of(&old);
}

int hook_sigblock(int mask)
{
	return change_bsd(SIG_BLOCK, mask);
}

int hook_sigsetmask(int mask)
{
	return change_bsd(SIG_SETMASK, mask);
}

int hook_sigsuspend(const sigset_t *set)
{
	return WITH_MASK(set, next_sigsuspend(set));
}

int hook___sigpause(int sig_or_mask, int is_sig)
{
	uint64_t mask = (unsigned int)sig_or_mask;
	sigset_t set;

	sigemptyset(&set);
	if (is_sig) {
		mask = mask_now();
		memcpy(&set, &mask, sizeof(mask));
		if (sigdelset(&set, sig_or_mask) < 0)
			return -1;
	} else {
		memcpy(&set, &mask, sizeof(mask));
	}
	return hook_sigsuspend(&set);
}

/* The header gives one of the two names to the other, so both are given here. */
#define SIGPAUSE(function, symbol, is_sig)                      \
	EXPORT int function(int arg) __asm__(symbol);           \
	EXPORT int function(int arg)                            \
	{                                                       \
		static int (*next)(int);                        \
                                                                \
		if (task_here())                                \
			return hook___sigpause(arg, is_sig);    \
		if (!next)                                      \
			next = (int (*)(int))find_next(symbol); \
		return next(arg);                               \
	}
SIGPAUSE(sigpause_bsd, "sigpause", 0)
SIGPAUSE(sigpause_xpg, "__xpg_sigpause", 1)

int hook_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *set)
{
	return WITH_MASK(set, next_ppoll(fds, n, timeout, set));
}

int hook_pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
		 const sigset_t *set)
{
	return WITH_MASK(set, next_pselect(n, r, w, e, timeout, set));
}

int hook_epoll_pwait(int fd, struct epoll_event *events, int n, int timeout, const sigset_t *set)
{
	return WITH_MASK(set, next_epoll_pwait(fd, events, n, timeout, set));
}

int hook_epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *timeout,
		      const sigset_t *set)
{
	return WITH_MASK(set, next_epoll_pwait2(fd, events, n, timeout, set));
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		       const sigset_t *set, size_t size);
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		       const sigset_t *set, size_t size)
{
	if (size / sizeof(*fds) < n)
		__chk_fail();
	if (!task_here())
		return ((__typeof__(ppoll) *)find_next("ppoll"))(fds, n, timeout, set);
	return hook_ppoll(fds, n, timeout, set);
}

/* --- jumps out of handlers --- */

/*
 * The stack pointer that a jump_buf holds, which libc keeps rotated by 17 bits and combined with a
 * secret of the thread's (PTR_MANGLE).
 */
static uintptr_t jump_target(const struct __jmp_buf_tag *env)
{
	uintptr_t secret, sp = env->__jmpbuf[6];

	__asm__("mov %%fs:0x30, %0" : "=r"(secret));
	return (sp >> 17 | sp << 47) ^ secret;
}

static bool jumps_past(const struct __jmp_buf_tag *env, const void *frame)
{
	return jump_target(env) > (uintptr_t)frame;
}

/* Of handlers that we know, none is inside a call any more when it jumps. The mask may change. */
static void before_jump(const struct __jmp_buf_tag *env)
{
	if (!current)
		return;
	if (signal_call_now && jumps_past(env, signal_call_now))
		end_signal_call(signal_call_now);
	if (env->__mask_was_saved)
		mask_will_be(mask_of(&env->__saved_mask));
}

#define JUMP(name, real)                                                 \
	EXPORT void name(struct __jmp_buf_tag env[1], int val)           \
	{                                                                \
		static __typeof__(name) *next __attribute__((noreturn)); \
                                                                         \
		before_jump(env);                                        \
		if (current)                                             \
			next_##real(env, val);                           \
		if (!next)                                               \
			next = (__typeof__(next))find_next(#name);       \
		next(env, val);                                          \
		__builtin_unreachable();                                 \
	}
JUMP(siglongjmp, siglongjmp)
JUMP(longjmp, siglongjmp)
JUMP(_longjmp, siglongjmp)
JUMP(__longjmp_chk, __longjmp_chk)
