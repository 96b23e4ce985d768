/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What exec and posix_spawn share. */
#ifndef PRELOAD_EXEC_H
#define PRELOAD_EXEC_H

#include <stddef.h>

/* A descriptor handed to a program that cannot reach the library by its path; fd -1 = none. */
struct exec_handover {
	int fd;
	char path[32];
};

/*
 * exec_prepare - look at the program @path (from @dirfd) that is about to be started.
 * Returns the path of the library for its LD_PRELOAD, NULL if it is to do without; notes a program
 * that cannot be entered. If the start fails, exec_failed() takes the descriptor back.
 */
const char *exec_prepare(struct exec_handover *h, int dirfd, const char *path);
void exec_failed(struct exec_handover *h);

/* path_dirs - PATH, or libc's default. */
const char *path_dirs(void);

/*
 * path_next - the first directory of @dirs joined with @file into @buf ("" if it does not fit);
 * returns the rest of @dirs, NULL at the end.
 */
const char *path_next(const char *dirs, const char *file, char *buf, size_t size);

#endif
