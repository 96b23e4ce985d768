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

/* The numbers that the calling thread has in its own pid namespace. */
pid_t own_tgid(void);
pid_t own_tid(void);

#endif
