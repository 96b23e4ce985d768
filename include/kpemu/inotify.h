/* SPDX-License-Identifier: GPL-2.0-or-later */
/* inotify instances and watches, as far as they are counted. */
#ifndef KPEMU_INOTIFY_H
#define KPEMU_INOTIFY_H

#include <kpemu/nsproxy.h>

/*
 * inotify_instance - descriptor @fd of @t's process is a new instance: 0, or -EMFILE with *@why
 * filled, if max_inotify_instances of some level has no room for it. It is given back when the
 * descriptor is found closed in the process that made it, before the next refusal: copies of it
 * elsewhere are not looked for. (kernel/ucounts.md 6.2)
 */
int inotify_instance(struct task_struct *t, int fd, struct refusal *why);

/*
 * inotify_watch - a watch has been added to @fd: 0, or -ENOSPC with *@why filled. How many an
 * instance has is what the kernel says, so that what was removed unseen is no charge.
 */
int inotify_watch(struct task_struct *t, int fd, struct refusal *why);

#endif
