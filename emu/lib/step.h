/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Test builds only: how a driver arms the kill. */
#ifndef EMU_LIB_STEP_H
#define EMU_LIB_STEP_H

/* Steps left before this process kills itself; 0 = not armed. Inherited by fork, lost by exec. */
extern long kill_at;

/* In a test build prctl(PR_KILL_AT, n) arms the caller, and KPEMU_KILL_AT=n a new program. */
#define PR_KILL_AT 0x6b706b61

#endif
