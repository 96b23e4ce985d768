/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Handlers that must wait while the model is being changed. */
#ifndef PRELOAD_SIGNAL_H
#define PRELOAD_SIGNAL_H

#include <limits.h>

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

#define INFO_LENGTH 48 /* what the kernel has of a siginfo_t; the rest is 0, and it does not look */

/* signal_arrives - signal_received() for the calling thread, with signals deferred. */
bool signal_arrives(siginfo_t *info);

/*
 * A system call that puts a signal into a queue or takes one out, and what the model is to hear of it.
 * A handler that interrupts it may jump away, change to another stack, or wait for somebody who
 * waits for us. So it is completed before the handler runs: @complete makes it, if it is a send, and
 * tells the model what is in @ret. What cannot be completed, a wait that has taken nothing, is
 * nothing to anybody until the handler returns.
 */
#define SIGNAL_CALL_OPEN LONG_MIN
struct signal_call {
	long ret; /* what the kernel has answered; SIGNAL_CALL_OPEN: nothing yet */
	bool told; /* the model knows */
	void (*complete)(struct signal_call *call); /* signals are deferred */
};

/* The one that the thread is in the middle of; NULL in a handler, which may be in one of its own. */
extern __thread struct signal_call *signal_call_now __attribute__((tls_model("initial-exec")));

static inline void signal_call_begins(struct signal_call *call,
				      void (*complete)(struct signal_call *))
{
	call->ret = SIGNAL_CALL_OPEN;
	call->told = false;
	call->complete = complete;
	WRITE_ONCE(signal_call_now, call);
}

static inline void signal_call_ends(void)
{
	WRITE_ONCE(signal_call_now, NULL);
}

/*
 * signal_call - the system call itself, unless @call has an answer; in trampoline.S. A handler that
 * finds its thread at signal_called comes after the call, and between signal_call and there before
 * it; signal_call_made is where it goes on when the handler has made it.
 */
long signal_call(long nr, long a0, long a1, long a2, long a3, struct signal_call *call);
extern const char signal_called[], signal_call_made[];

/* complete_signal_call - if it is not; signals are deferred. */
void complete_signal_call(struct signal_call *call);

/* end_signal_call - the one that the thread is in is completed and left. */
void end_signal_call(struct signal_call *call);

/* signals_in_child - after a fork: the copy of the table of handlers is the child's. */
void signals_in_child(void);

/* mask_changed - the kernel has changed the calling thread's mask: the model learns it if it must. */
void mask_changed(void);

/* last_mask - the calling thread, of a process where masks matter, ends with everything blocked. */
void last_mask(void);

/* The numbers that the calling thread has in its own pid namespace. */
pid_t own_tgid(void);
pid_t own_tid(void);

#endif
