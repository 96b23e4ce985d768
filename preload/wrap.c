/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The exported wrappers, made from the table, and what syscall(3) does by number. */

#include "preload/hook.h"

/*
 * Not attached, a wrapper is libc's own function: the first call finds it. The recursion guard is
 * not here but in the build: no object of this library may call a wrapped name (check-layers), and
 * libc never calls itself through a wrapper.
 */
#define PASS_THROUGH(name, type, proto, args)                                                      \
	static type(*next) proto;                                                                  \
	if (!next)                                                                                 \
		next = (type(*) proto)find_next(#name);                                            \
	return next args

#define SYS(name, type, proto, args)                                                               \
	type name proto;                                                                           \
	EXPORT type name proto                                                                     \
	{                                                                                          \
		if (unlikely(!task_here())) {                                                      \
			PASS_THROUGH(name, type, proto, args);                                     \
		}                                                                                  \
		return (type)errno_ret(hook_##name args);                                          \
	}
#define FUN(name, type, proto, args)                                                               \
	type name proto;                                                                           \
	EXPORT type name proto                                                                     \
	{                                                                                          \
		if (unlikely(!task_here())) {                                                      \
			PASS_THROUGH(name, type, proto, args);                                     \
		}                                                                                  \
		return hook_##name args;                                                           \
	}
#define HAND(name)
#define ALIAS(name, target)
#define CALL(number, call)
#define LEFT(name, reason)
#include "preload/names.def"
#undef SYS
#undef FUN
#undef CALL

#define SYS(name, type, proto, args)
#define FUN(name, type, proto, args)

/*
 * Bit n set: the kernel's call n is emulated. syscall.S looks here first; clone numbers never
 * come further than that.
 */
#define CALL(number, call) | (__NR_##number / 64 == WORD ? 1ull << __NR_##number % 64 : 0)
const uint64_t emulated_calls[8] __attribute__((visibility("hidden"))) = {
#define WORD 0
	0
#include "preload/names.def"
	,
#undef WORD
#define WORD 1
	0
#include "preload/names.def"
	,
#undef WORD
#define WORD 2
	0
#include "preload/names.def"
	,
#undef WORD
#define WORD 3
	0
#include "preload/names.def"
	,
#undef WORD
#define WORD 4
	0
#include "preload/names.def"
	,
#undef WORD
#define WORD 5
	0
#include "preload/names.def"
	,
#undef WORD
#define WORD 6
	0
#include "preload/names.def"
	,
#undef WORD
#define WORD 7
	0
#include "preload/names.def"
};
#undef CALL

#define CLONE (-ENOSYS) /* handled in syscall.S */

static long emulated_syscall(long nr, long a1, long a2, long a3, long a4, long a5, long a6)
{
	switch (nr) {
#define CALL(number, call)                                                                         \
	case __NR_##number:                                                                        \
		return (long)(call);
#include "preload/names.def"
	}
	return sys_call(nr, a1, a2, a3, a4, a5, a6);
}

/* syscall_c - syscall(3) for the numbers in emulated_calls, jumped to from syscall.S. */
long syscall_c(long nr, long a1, long a2, long a3, long a4, long a5, long a6);
long syscall_c(long nr, long a1, long a2, long a3, long a4, long a5, long a6)
{
	if (!task_here())
		return errno_ret(sys_call(nr, a1, a2, a3, a4, a5, a6));
	return errno_ret(emulated_syscall(nr, a1, a2, a3, a4, a5, a6));
}

/* syscall_error - errno and -1 for a raw answer; called from syscall.S. */
long syscall_error(long r);
long syscall_error(long r)
{
	return errno_ret(r);
}
