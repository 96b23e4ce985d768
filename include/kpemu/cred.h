/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Credentials: the ids, groups and capabilities that the model believes in. */
#ifndef KPEMU_CRED_H
#define KPEMU_CRED_H

#include <stdbool.h>
#include <stdint.h>

#define CRED_NGROUPS_MAX 128 /* supplementary groups a task can hold; more is -ENOMEM */

struct cred {
	uint32_t uid, euid, suid, fsuid;
	uint32_t gid, egid, sgid, fsgid;
	uint32_t user_ns;
	uint32_t securebits;
	uint64_t cap_inheritable, cap_permitted, cap_effective, cap_bset, cap_ambient;
	uint32_t ngroups;
	uint32_t groups[CRED_NGROUPS_MAX];
	uint32_t pad;
};

struct task_struct;
struct refusal;

/* CAP_FULL_SET - the capabilities that a kernel of this vintage knows (0 .. CAP_CHECKPOINT_RESTORE). */
#define CAP_FULL_SET ((1ull << 41) - 1)

/* cred_init - all four ids of each kind @uid and @gid, no groups; every capability for uid 0. */
void cred_init(struct cred *cred, uint32_t uid, uint32_t gid);

/* cap_from_name - number of "sys_resource" or "CAP_SYS_RESOURCE", any case; -1 if unknown. */
int cap_from_name(const char *name);

/* capable - does @t hold @cap, effective in the initial user namespace? */
bool capable(const struct task_struct *t, int cap);

/*
 * ns_capable - does @t hold @cap over the user namespace @n: effective in it or in one above, or
 * as the owner of it, or of one above it, in the parent? (security/commoncap.c, cap_capable())
 */
bool ns_capable(const struct task_struct *t, uint32_t n, int cap);

/* capable_wrt - @cap over the caller's own namespace, for a file of @uid and @gid that have names in it. */
bool capable_wrt(const struct task_struct *t, uint32_t uid, uint32_t gid, int cap);

/* in_group_p - is @gid the task's fsgid or one of its groups? (kernel/groups.c) */
bool in_group_p(const struct cred *cred, uint32_t gid);

/*
 * The set*id family, kernel/sys.c rules; (uint32_t)-1 leaves an id as it is. Ids are names in
 * the caller's user namespace; what is stored are those of the initial one. All return 0, -EPERM,
 * or -EINVAL for an id that means nobody, or setuid and setgid of -1 (nothing is then changed). A changed real uid moves the
 * NPROC charge to the new record without a check; leaving uid 0 drops capabilities
 * (capabilities(7), unless securebits say otherwise). -EAGAIN only when no record can be made for
 * the new uid. @t is the calling thread's task, or another of its process, as libc's functions
 * change them all; one caller at a time for one @t. Callers block signals.
 */
long sys_setresuid(struct task_struct *t, uint32_t ruid, uint32_t euid, uint32_t suid);
long sys_setreuid(struct task_struct *t, uint32_t ruid, uint32_t euid);
long sys_setuid(struct task_struct *t, uint32_t uid);
long sys_setresgid(struct task_struct *t, uint32_t rgid, uint32_t egid, uint32_t sgid);
long sys_setregid(struct task_struct *t, uint32_t rgid, uint32_t egid);
long sys_setgid(struct task_struct *t, uint32_t gid);

/* sys_setfsuid, sys_setfsgid - return the previous id, changed or not, as the kernel does. */
long sys_setfsuid(struct task_struct *t, uint32_t uid);
long sys_setfsgid(struct task_struct *t, uint32_t gid);

/*
 * sys_setgroups - 0, -EPERM (no CAP_SETGID), -EINVAL (n > 65536), -ENOMEM (n > CRED_NGROUPS_MAX),
 * -EFAULT (@list is the program's pointer, and cannot be read).
 */
long sys_setgroups(struct task_struct *t, long n, const uint32_t *list);

/* cred_copy_groups - @t, another thread of its process, gets the groups that @from has set. */
void cred_copy_groups(struct task_struct *t, const struct task_struct *from);

/*
 * sys_capget, sys_capset - @hdr and @data as in capget(2), versions 1 to 3. capget works for any
 * task of the world (-ESRCH outside it, see the caller), capset for the calling thread only.
 */
long sys_capget(struct task_struct *t, void *hdr, void *data);
long sys_capset(struct task_struct *t, void *hdr, const void *data);

/*
 * cap_prctl - the prctl(2) options that read or change capabilities and securebits.
 * *@handled says whether @option is one of them; the answer is then the prctl's.
 */
long cap_prctl(struct task_struct *t, int option, unsigned long a2, unsigned long a3,
	       unsigned long a4, unsigned long a5, bool *handled);

/* cred_take - @to gets the credentials of @from, and its NPROC charge follows. */
void cred_take(struct task_struct *to, const struct task_struct *from);

/*
 * cred_enter_user_ns - @t is in user namespace @n from here on, with every capability there, and
 * its NPROC charge goes to its record in it, unjudged. 0 or -ENOMEM. (kernel/ucounts.md 4.4, 6.3)
 */
long cred_enter_user_ns(struct task_struct *t, uint32_t n);

/*
 * exec_nproc_check - the first thing an exec looks at: -EAGAIN if a set*id call has brought @t over
 * NPROC and it still is, with *@why filled; else 0, and that is forgotten. Callers block signals.
 * (4.5)
 */
int exec_nproc_check(struct task_struct *t, struct refusal *why);

/* cred_exec - what a successful exec does to @t's capabilities and ids (no set-id file). */
void cred_exec(struct task_struct *t);

#endif
