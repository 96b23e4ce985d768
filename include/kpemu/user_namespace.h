/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User and ipc namespaces: whose maxima bound which charges. */
#ifndef KPEMU_USER_NAMESPACE_H
#define KPEMU_USER_NAMESPACE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

enum {
	INIT_USER_NS = 0, /* number of the world's initial user namespace */
	INIT_IPC_NS = 0,
};

enum rlimit_type {
	UCOUNT_RLIMIT_NPROC,
	UCOUNT_RLIMIT_MSGQUEUE,
	UCOUNT_RLIMIT_SIGPENDING,
	UCOUNT_RLIMIT_MEMLOCK,
	UCOUNT_RLIMIT_COUNTS,
};

/* rlimit_name - "nproc", "msgqueue", "sigpending", "memlock": the words of --rlimit and reports. */
const char *rlimit_name(enum rlimit_type type);

/* rlimit_type_of - the type of RLIMIT_* number @resource; -1 if the model does not keep it. */
int rlimit_type_of(unsigned int resource);

#endif
