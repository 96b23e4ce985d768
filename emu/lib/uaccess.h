/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The program's memory, which may not be there: -EFAULT instead of a signal, as from the kernel. */
#ifndef EMU_LIB_UACCESS_H
#define EMU_LIB_UACCESS_H

#include <stddef.h>

/*
 * copy_from_user, copy_to_user - 0 or -EFAULT; a copy may then have been done in part. The kernel
 * copies (two system calls); where a filter forbids that, only a null pointer is found out.
 * Async-signal-safe.
 */
long copy_from_user(void *to, const void *from, size_t n);
long copy_to_user(void *to, const void *from, size_t n);

#endif
