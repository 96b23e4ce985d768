/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Test builds only: die by SIGKILL at the n-th store to shared memory. */
#ifdef KPEMU_KILL_STEPS

#include <signal.h>

#include <kpemu/atomic.h>

#include "emu/lib/rawsys.h"
#include "emu/lib/step.h"

long kill_at;

void step(void)
{
	if (__builtin_expect(kill_at > 0, 0) && --kill_at == 0)
		sys_call(__NR_kill, sys_call(__NR_getpid), SIGKILL);
}

#else
typedef int step_is_for_test_builds;
#endif
