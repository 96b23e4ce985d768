/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads of an attached process: their slot from start to end. */
#ifndef PRELOAD_THREAD_H
#define PRELOAD_THREAD_H

/* thread_adopt - a thread without a task: one that libc made for itself gets a slot. */
void thread_adopt(void);

/* last_task_out - the process ends: remove a world whose launcher is gone if nobody else is in. */
void last_task_out(void);

#endif
