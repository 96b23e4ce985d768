/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Handlers that must wait while the model is being changed. */
#ifndef PRELOAD_SIGNAL_H
#define PRELOAD_SIGNAL_H

#include <kpemu/signal.h>

/*
 * Between defer_signals() and allow_signals() no handler of the program runs in this thread, at the
 * price of two additions: the trampoline that all handlers are called through puts a signal aside
 * that comes meanwhile, and lets no further one in; allow_signals() calls its handler. May be
 * nested. Nothing that waits, and no call that a handler shall interrupt, may be between them.
 */
extern __thread int signals_deferred __attribute__((tls_model("initial-exec")));
extern __thread int signal_put_aside __attribute__((tls_model("initial-exec")));
void run_put_aside(void);

static inline void defer_signals(void)
{
	signals_deferred++;
	__asm__ volatile("" : : : "memory");
}

static inline void allow_signals(void)
{
	__asm__ volatile("" : : : "memory");
	if (!--signals_deferred && unlikely(signal_put_aside))
		run_put_aside();
}

/* signal_arrives - signal_received() for the calling thread, with signals deferred. */
bool signal_arrives(siginfo_t *info);

/*
 * While a thread waits for a signal, the place where the kernel will put it; si_signo is 0 until it
 * has. A handler that comes just then may jump away, and the signal has left its queue all the
 * same. awaited_arrives() is signal_arrives() for it, if that has not been done yet.
 */
extern __thread siginfo_t *signal_awaited __attribute__((tls_model("initial-exec")));
bool awaited_arrives(siginfo_t *info);

/* A signal on its way: the model's view of it, and the call that really sends it. */
struct send {
	struct task_struct *t;
	enum sig_queue q;
	int sig, code;
	pid_t tgid, tid; /* as the caller names the target */
	const siginfo_t *info; /* the program's; NULL: the kernel makes one */
	long nr, a[4];
	int how; /* enum send_result */
	int done; /* the real call has been made */
	struct send *outer;
};

/* The sends that this thread is in the middle of, the innermost first: they lie on its stack. */
extern __thread struct send *sends __attribute__((tls_model("initial-exec")));

long send_call(long nr, long a0, long a1, long a2, long a3, int *done);
extern const char send_called[];

/* A handler jumps away, past the innermost send: nobody will end it. */
void send_abandoned(void);

/*
 * signals_in_child - after a fork: the sends and waits that the parent was in the middle of, if a
 * handler forked, are none of the child's; the copy of the table of handlers is.
 */
void signals_in_child(void);

/* last_mask - the calling thread, of a process where masks matter, ends with everything blocked. */
void last_mask(void);

/* The numbers that the calling thread has in its own pid namespace. */
pid_t own_tgid(void);
pid_t own_tid(void);

#endif
