/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pending signals: sending, leaving, and agreeing with the kernel about what waits. */
#include <kpemu/signal.h>
