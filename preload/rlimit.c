/* SPDX-License-Identifier: GPL-2.0-or-later */
/* getrlimit, setrlimit, prlimit, sysconf: the four limits are the model's, the others the host's. */
#include <unistd.h>

#include "emu/lib/uaccess.h"
#include "preload/hook.h"

static long own_prlimit(struct task_struct *t, enum rlimit_type type, const struct rlimit *new,
			struct rlimit *old)
{
	struct rlim n, o;
	long ret;

	if (new && copy_from_user(&n, new, sizeof(n)))
		return -EFAULT;
	ret = t == current ? 0 : check_prlimit_permission(current, t);
	if (!ret)
		ret = do_prlimit(current, t, type, new ? &n : NULL, old ? &o : NULL);
	return !ret && old ? copy_to_user(old, &o, sizeof(o)) : ret;
}
static_assert(sizeof(struct rlim) == sizeof(struct rlimit), "one layout");

long hook_prlimit(pid_t pid, enum __rlimit_resource resource, const struct rlimit *new,
		  struct rlimit *old)
{
	int type = rlimit_type_of(resource);
	struct task_struct *t = pid && type >= 0 ? find_task_by_vpid(pid) : current;

	if (type < 0 || !t)
		return sys_call(__NR_prlimit64, pid, resource, new, old);
	return own_prlimit(t, type, new, old);
}

/* libc's functions are prlimit(2) and take null pointers; the old system calls do not. */
long hook_getrlimit(__rlimit_resource_t resource, struct rlimit *rlim)
{
	return hook_prlimit(0, resource, NULL, rlim);
}

long hook_setrlimit(__rlimit_resource_t resource, const struct rlimit *rlim)
{
	return hook_prlimit(0, resource, rlim, NULL);
}

long hook_sys_getrlimit(unsigned int resource, struct rlimit *rlim)
{
	if (rlimit_type_of(resource) < 0)
		return sys_call(__NR_getrlimit, resource, rlim);
	return rlim ? hook_getrlimit(resource, rlim) : -EFAULT;
}

long hook_sys_setrlimit(unsigned int resource, const struct rlimit *rlim)
{
	if (rlimit_type_of(resource) < 0)
		return sys_call(__NR_setrlimit, resource, rlim);
	return rlim ? hook_setrlimit(resource, rlim) : -EFAULT;
}

static long limit_as_long(enum rlimit_type type)
{
	uint64_t v = rlimit(current, type);

	return v == RLIM_INF ? -1 : (long)v;
}

long hook_sysconf(int name)
{
	switch (name) {
	case _SC_CHILD_MAX:
		return limit_as_long(UCOUNT_RLIMIT_NPROC);
	case _SC_SIGQUEUE_MAX:
		return limit_as_long(UCOUNT_RLIMIT_SIGPENDING);
	}
	return next_sysconf(name);
}
