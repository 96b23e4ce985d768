/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The emulated files under /proc/sys: user/max_... of a user namespace, fs/mqueue/... of an ipc one. */
#ifndef KPEMU_SYSCTL_H
#define KPEMU_SYSCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task_struct;

/* enum ucount_type, then enum mq_sysctl. */
#define NR_SYSCTLS 17

/* sysctl_find - the number of "user/max_..." or "fs/mqueue/..."; -1 if it is not emulated. */
int sysctl_find(const char *name);

/* sysctl_path - the name of number @id, as sysctl_find() takes it, into @buf of 64 bytes. */
void sysctl_path(char *buf, unsigned int id);

/* sysctl_read - the value that @t sees: that of the namespace it is in. */
int32_t sysctl_read(const struct task_struct *t, unsigned int id);

/*
 * sysctl_may_write - may @t open it for writing (else -EACCES)? user/max_... takes CAP_SYS_RESOURCE
 * in the user namespace, fs/mqueue/... the effective id that is root in the one that owns the ipc
 * namespace. (kernel/ucounts.md 7)
 */
bool sysctl_may_write(const struct task_struct *t, unsigned int id);

/* sysctl_write - @n bytes written at position @pos: @n or -EINVAL (no number, out of range). */
long sysctl_write(struct task_struct *t, unsigned int id, const char *text, size_t n, uint64_t pos);

/* sysctl_set - the value of @t's namespaces, asked nobody: 0 or -EINVAL (out of range). */
int sysctl_set(struct task_struct *t, unsigned int id, int64_t value);

#endif
