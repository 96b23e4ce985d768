// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A preload library that wraps what the signal operations call, and only passes it on: what any
 * wrapper costs. The rest of kpemu's price is the account.
 */
#include <dlfcn.h>
#include <signal.h>

#define WRAP(name, type, prototype, arguments)                     \
	static type(*next_##name) prototype;                       \
	__attribute__((visibility("default"))) type name prototype \
	{                                                          \
		return next_##name arguments;                      \
	}

WRAP(kill, int, (pid_t pid, int sig), (pid, sig))
WRAP(raise, int, (int sig), (sig))
WRAP(sigqueue, int, (pid_t pid, int sig, const union sigval value), (pid, sig, value))
WRAP(sigaction, int, (int sig, const struct sigaction *act, struct sigaction *old), (sig, act, old))
WRAP(sigtimedwait, int, (const sigset_t *set, siginfo_t *info, const struct timespec *timeout),
     (set, info, timeout))

__attribute__((constructor)) static void find_next(void)
{
	next_kill = dlsym(RTLD_NEXT, "kill");
	next_raise = dlsym(RTLD_NEXT, "raise");
	next_sigqueue = dlsym(RTLD_NEXT, "sigqueue");
	next_sigaction = dlsym(RTLD_NEXT, "sigaction");
	next_sigtimedwait = dlsym(RTLD_NEXT, "sigtimedwait");
}
