/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Identity: the model's ids and capabilities instead of the real ones, which never change. */
#include <grp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "emu/lib/step.h"
#include "emu/lib/uaccess.h"
#include "preload/hook.h"

/* What an id of `current` is called in its user namespace. */
#define MY_UID(field) from_kuid_munged(current->cred.user_ns, READ_ONCE(current->cred.field))
#define MY_GID(field) from_kgid_munged(current->cred.user_ns, READ_ONCE(current->cred.field))

#define ID_GETTER(name, id)                                                                        \
	long hook_##name(void)                                                                     \
	{                                                                                          \
		return id;                                                                         \
	}
ID_GETTER(getuid, MY_UID(uid))
ID_GETTER(geteuid, MY_UID(euid))
ID_GETTER(getgid, MY_GID(gid))
ID_GETTER(getegid, MY_GID(egid))

static long put_ids(uint32_t *r, uint32_t *e, uint32_t *s, uint32_t rid, uint32_t eid,
		    uint32_t sid)
{
	if (copy_to_user(r, &rid, sizeof(rid)) || copy_to_user(e, &eid, sizeof(eid)))
		return -EFAULT;
	return copy_to_user(s, &sid, sizeof(sid));
}

long hook_getresuid(uid_t *ruid, uid_t *euid, uid_t *suid)
{
	return put_ids(ruid, euid, suid, MY_UID(uid), MY_UID(euid), MY_UID(suid));
}

long hook_getresgid(gid_t *rgid, gid_t *egid, gid_t *sgid)
{
	return put_ids(rgid, egid, sgid, MY_GID(gid), MY_GID(egid), MY_GID(sgid));
}

long hook_getgroups(int size, gid_t *list)
{
	int n = current->cred.ngroups;

	if (size < 0 || (size && size < n))
		return -EINVAL;
	for (int i = 0; size && i < n; i++) {
		gid_t gid = MY_GID(groups[i]);

		if (copy_to_user(&list[i], &gid, sizeof(gid)))
			return -EFAULT;
	}
	return n;
}

EXPORT int __getgroups_chk(int size, gid_t *list, size_t listlen);
EXPORT int __getgroups_chk(int size, gid_t *list, size_t listlen)
{
	if (size >= 0 && size * sizeof(gid_t) > listlen)
		__chk_fail();
	if (!task_here())
		return errno_ret(sys_call(__NR_getgroups, size, list));
	return errno_ret(hook_getgroups(size, list));
}

int hook_group_member(gid_t gid)
{
	const struct cred *c = &current->cred;

	for (uint32_t i = 0; i < c->ngroups; i++)
		if (MY_GID(groups[i]) == gid)
			return 1;
	return 0;
}

/*
 * The system calls change the calling thread, libc's functions every thread of the process: the
 * threads share their ids unless somebody went past libc, so each gets the same call. libc lets
 * one such call in at a time, and so do we.
 */
typedef long cred_call(struct task_struct *t, const uint32_t *a);

static struct process_lock setxid_lock;

static long one_thread(cred_call *call, const uint32_t *a)
{
	uint64_t mask;
	long ret;

	block_signals(&mask);
	process_lock(&setxid_lock);
	ret = call(current, a);
	process_unlock(&setxid_lock);
	restore_signals(&mask);
	return ret;
}

/* Also one that is being made: it has its credentials already. */
static bool is_other_thread(const struct task_struct *t)
{
	unsigned int state = slot_state(READ_ONCE(t->slot));

	return t != current && (state == SLOT_LIVE || state == SLOT_NEW) &&
	       READ_ONCE(t->group_leader) == READ_ONCE(current->group_leader);
}

static long all_threads(cred_call *call, const uint32_t *a)
{
	struct task_struct *t;
	uint64_t mask;
	long ret;

	block_signals(&mask);
	process_lock(&setxid_lock);
	ret = call(current, a);
	if (ret >= 0)
		for_each_task(i, t)
			if (is_other_thread(t))
				call(t, a);
	process_unlock(&setxid_lock);
	restore_signals(&mask);
	return ret;
}

#define CRED_CALL(name, nargs, ...)                                                                \
	static long call_##name(struct task_struct *t, const uint32_t *a)                          \
	{                                                                                          \
		return sys_##name(t, __VA_ARGS__);                                                 \
	}
CRED_CALL(setuid, 1, a[0])
CRED_CALL(setreuid, 2, a[0], a[1])
CRED_CALL(setresuid, 3, a[0], a[1], a[2])
CRED_CALL(setgid, 1, a[0])
CRED_CALL(setregid, 2, a[0], a[1])
CRED_CALL(setresgid, 3, a[0], a[1], a[2])
CRED_CALL(setfsuid, 1, a[0])
CRED_CALL(setfsgid, 1, a[0])

#define IDS(...) ((const uint32_t[]){ __VA_ARGS__ })

long hook_setuid(uid_t uid)
{
	return all_threads(call_setuid, IDS(uid));
}

long hook_seteuid(uid_t euid)
{
	return euid == (uid_t)-1 ? -EINVAL : all_threads(call_setresuid, IDS(-1, euid, -1));
}

long hook_setreuid(uid_t ruid, uid_t euid)
{
	return all_threads(call_setreuid, IDS(ruid, euid));
}

long hook_setresuid(uid_t ruid, uid_t euid, uid_t suid)
{
	return all_threads(call_setresuid, IDS(ruid, euid, suid));
}

long hook_setgid(gid_t gid)
{
	return all_threads(call_setgid, IDS(gid));
}

long hook_setegid(gid_t egid)
{
	return egid == (gid_t)-1 ? -EINVAL : all_threads(call_setresgid, IDS(-1, egid, -1));
}

long hook_setregid(gid_t rgid, gid_t egid)
{
	return all_threads(call_setregid, IDS(rgid, egid));
}

long hook_setresgid(gid_t rgid, gid_t egid, gid_t sgid)
{
	return all_threads(call_setresgid, IDS(rgid, egid, sgid));
}

/* These two change the calling thread only, in libc too. */
long hook_setfsuid(uid_t uid)
{
	return one_thread(call_setfsuid, IDS(uid));
}

long hook_setfsgid(gid_t gid)
{
	return one_thread(call_setfsgid, IDS(gid));
}

long hook_sys_setuid(uid_t uid)
{
	return one_thread(call_setuid, IDS(uid));
}

long hook_sys_setreuid(uid_t ruid, uid_t euid)
{
	return one_thread(call_setreuid, IDS(ruid, euid));
}

long hook_sys_setresuid(uid_t ruid, uid_t euid, uid_t suid)
{
	return one_thread(call_setresuid, IDS(ruid, euid, suid));
}

long hook_sys_setgid(gid_t gid)
{
	return one_thread(call_setgid, IDS(gid));
}

long hook_sys_setregid(gid_t rgid, gid_t egid)
{
	return one_thread(call_setregid, IDS(rgid, egid));
}

long hook_sys_setresgid(gid_t rgid, gid_t egid, gid_t sgid)
{
	return one_thread(call_setresgid, IDS(rgid, egid, sgid));
}

static long set_groups(long n, const gid_t *list, bool others)
{
	struct task_struct *t;
	uint64_t mask;
	long ret;

	block_signals(&mask);
	process_lock(&setxid_lock);
	ret = sys_setgroups(current, n, list);
	if (!ret && others)
		for_each_task(i, t)
			if (is_other_thread(t))
				cred_copy_groups(t, current);
	process_unlock(&setxid_lock);
	restore_signals(&mask);
	return ret;
}

long hook_setgroups(size_t n, const gid_t *list)
{
	return set_groups(n > INT32_MAX ? INT32_MAX : n, list, true);
}

long hook_sys_setgroups(long n, const gid_t *list)
{
	return set_groups((int)n, list, false);
}

/* libc's sets the groups inside: ask it for the list, and set it here. */
int hook_initgroups(const char *user, gid_t group)
{
	gid_t list[CRED_NGROUPS_MAX];
	int n = CRED_NGROUPS_MAX;

	if (next_getgrouplist(user, group, list, &n) < 0)
		n = CRED_NGROUPS_MAX;
	return errno_ret(hook_setgroups(n, list));
}

long hook_capget(void *header, void *data)
{
	long ret = sys_capget(current, header, data);

	return ret == -ESRCH ? sys_call(__NR_capget, header, data) : ret;
}

long hook_capset(void *header, const void *data)
{
	uint64_t mask;
	long ret;

	block_signals(&mask);
	ret = sys_capset(current, header, data);
	restore_signals(&mask);
	return ret;
}

long hook_prctl(int option, unsigned long a2, unsigned long a3, unsigned long a4, unsigned long a5)
{
	bool handled;
	long ret;

#ifdef KPEMU_KILL_STEPS
	if (option == PR_KILL_AT) {
		kill_at = a2;
		return 0;
	}
#endif
	ret = cap_prctl(current, option, a2, a3, a4, a5, &handled);
	return handled ? ret : sys_call(__NR_prctl, option, a2, a3, a4, a5);
}

EXPORT int prctl(int option, ...)
{
	unsigned long a[4];
	va_list ap;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (!task_here())
		return errno_ret(sys_call(__NR_prctl, option, a[0], a[1], a[2], a[3]));
	return errno_ret(hook_prctl(option, a[0], a[1], a[2], a[3]));
}

unsigned long hook_getauxval(unsigned long type)
{
	switch (type) {
	case AT_UID:
		return MY_UID(uid);
	case AT_EUID:
		return MY_UID(euid);
	case AT_GID:
		return MY_GID(gid);
	case AT_EGID:
		return MY_GID(egid);
	}
	return next_getauxval(type);
}
