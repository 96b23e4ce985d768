/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Credentials: who may become whom, what that does to capabilities, and where NPROC is charged. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/securebits.h>
#include <string.h>

#include <kpemu/cred.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"
#include "emu/lib/uaccess.h"

/*
 * Only the threads of its process write a task's credentials, but other tasks read them, without a
 * lock. A change is therefore a series of single stores that first takes away what the new
 * credentials do not have and last gives what the old ones had not: at no point is the task more
 * than it was or will be, and at every point effective <= permitted and ambient <= permitted &
 * inheritable.
 */

#define NO_ID               ((uint32_t)-1) /* "leave it as it is"; nobody has this number */
#define ROOT_ID             0u /* of the initial user namespace */
#define NGROUPS_MAX_LINUX   65536
#define CAP_VALID_NUMBER(n) ((n) <= CAP_CHECKPOINT_RESTORE)
#define CAP_BIT(n)          (1ull << (n))

/* What a file system looks at: these follow the file-system uid (setfsuid(2)). */
#define CAP_FS_SET                                                                       \
	(CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_DAC_READ_SEARCH) | \
	 CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_LINUX_IMMUTABLE) |      \
	 CAP_BIT(CAP_MKNOD) | CAP_BIT(CAP_MAC_OVERRIDE))

/* Restrictions that programs put on themselves, in Linux 6.14 and newer; not in older headers. */
#define SECBITS_UNPRIVILEGED (1u << 8 | 1u << 10)
#define SECBITS              (SECURE_ALL_BITS | SECBITS_UNPRIVILEGED)
#define SECBITS_LOCKS        (SECBITS << 1)
#define SECBITS_PRIVILEGED   (~(SECBITS_UNPRIVILEGED | SECBITS_UNPRIVILEGED << 1))

struct ids {
	uint32_t r, e, s, fs;
};

struct caps {
	uint64_t inheritable, permitted, effective, bset, ambient;
};

void cred_init(struct cred *cred, uint32_t uid, uint32_t gid)
{
	memset(cred, 0, sizeof(*cred));
	cred->uid = cred->euid = cred->suid = cred->fsuid = uid;
	cred->gid = cred->egid = cred->sgid = cred->fsgid = gid;
	cred->user_ns = INIT_USER_NS;
	cred->cap_bset = CAP_FULL_SET;
	if (uid == ROOT_ID)
		cred->cap_permitted = cred->cap_effective = CAP_FULL_SET;
}

/* An array of arrays: an array of pointers would be relocated at every start of a program. */
static const char cap_names[][19] = {
	[CAP_CHOWN] = "chown",
	[CAP_DAC_OVERRIDE] = "dac_override",
	[CAP_DAC_READ_SEARCH] = "dac_read_search",
	[CAP_FOWNER] = "fowner",
	[CAP_FSETID] = "fsetid",
	[CAP_KILL] = "kill",
	[CAP_SETGID] = "setgid",
	[CAP_SETUID] = "setuid",
	[CAP_SETPCAP] = "setpcap",
	[CAP_LINUX_IMMUTABLE] = "linux_immutable",
	[CAP_NET_BIND_SERVICE] = "net_bind_service",
	[CAP_NET_BROADCAST] = "net_broadcast",
	[CAP_NET_ADMIN] = "net_admin",
	[CAP_NET_RAW] = "net_raw",
	[CAP_IPC_LOCK] = "ipc_lock",
	[CAP_IPC_OWNER] = "ipc_owner",
	[CAP_SYS_MODULE] = "sys_module",
	[CAP_SYS_RAWIO] = "sys_rawio",
	[CAP_SYS_CHROOT] = "sys_chroot",
	[CAP_SYS_PTRACE] = "sys_ptrace",
	[CAP_SYS_PACCT] = "sys_pacct",
	[CAP_SYS_ADMIN] = "sys_admin",
	[CAP_SYS_BOOT] = "sys_boot",
	[CAP_SYS_NICE] = "sys_nice",
	[CAP_SYS_RESOURCE] = "sys_resource",
	[CAP_SYS_TIME] = "sys_time",
	[CAP_SYS_TTY_CONFIG] = "sys_tty_config",
	[CAP_MKNOD] = "mknod",
	[CAP_LEASE] = "lease",
	[CAP_AUDIT_WRITE] = "audit_write",
	[CAP_AUDIT_CONTROL] = "audit_control",
	[CAP_SETFCAP] = "setfcap",
	[CAP_MAC_OVERRIDE] = "mac_override",
	[CAP_MAC_ADMIN] = "mac_admin",
	[CAP_SYSLOG] = "syslog",
	[CAP_WAKE_ALARM] = "wake_alarm",
	[CAP_BLOCK_SUSPEND] = "block_suspend",
	[CAP_AUDIT_READ] = "audit_read",
	[CAP_PERFMON] = "perfmon",
	[CAP_BPF] = "bpf",
	[CAP_CHECKPOINT_RESTORE] = "checkpoint_restore",
};
static_assert(sizeof(cap_names) / sizeof(cap_names[0]) == 41, "one name for each of CAP_FULL_SET");

/* ASCII only: the names must not depend on the program's locale. */
static bool has_prefix(const char *s, const char *prefix)
{
	for (; *prefix; s++, prefix++)
		if ((*s >= 'A' && *s <= 'Z' ? *s + ('a' - 'A') : *s) != *prefix)
			return false;
	return true;
}

int cap_from_name(const char *name)
{
	if (has_prefix(name, "cap_"))
		name += 4;
	for (int i = 0; CAP_VALID_NUMBER(i); i++)
		if (has_prefix(name, cap_names[i]) && !name[strlen(cap_names[i])])
			return i;
	return -1;
}

/* Over its own user namespace. */
static bool own_capable(const struct task_struct *t, int cap)
{
	return READ_ONCE(t->cred.cap_effective) & CAP_BIT(cap);
}

bool capable(const struct task_struct *t, int cap)
{
	return READ_ONCE(t->cred.user_ns) == INIT_USER_NS && own_capable(t, cap);
}

bool ns_capable(const struct task_struct *t, uint32_t n, int cap)
{
	uint32_t mine = READ_ONCE(t->cred.user_ns), level = user_ns_level(mine);

	while (n != mine) {
		struct user_namespace *ns = user_ns_of(n);

		if (!ns || user_ns_level(n) <= level || user_ns_level(ns->parent) >= user_ns_level(n))
			return false;
		if (ns->parent == mine && ns->owner == READ_ONCE(t->cred.euid))
			return true;
		n = ns->parent;
	}
	return own_capable(t, cap);
}

bool capable_wrt(const struct task_struct *t, uint32_t uid, uint32_t gid, int cap)
{
	uint32_t n = READ_ONCE(t->cred.user_ns);

	return own_capable(t, cap) && from_kuid(n, uid) != INVALID_ID &&
	       from_kgid(n, gid) != INVALID_ID;
}

bool in_group_p(const struct cred *cred, uint32_t gid)
{
	uint32_t n = smp_load_acquire(&cred->ngroups);

	if (gid == READ_ONCE(cred->fsgid))
		return true;
	for (uint32_t i = 0; i < n && i < CRED_NGROUPS_MAX; i++)
		if (READ_ONCE(cred->groups[i]) == gid)
			return true;
	return false;
}

/* Stores in program order, and only of what changes. */
#define put(p, v)                                    \
	do {                                         \
		if (*(p) != (v))                     \
			smp_store_release((p), (v)); \
	} while (0)

static struct caps get_caps(const struct cred *c)
{
	return (struct caps){
		.inheritable = READ_ONCE(c->cap_inheritable),
		.permitted = READ_ONCE(c->cap_permitted),
		.effective = READ_ONCE(c->cap_effective),
		.bset = READ_ONCE(c->cap_bset),
		.ambient = READ_ONCE(c->cap_ambient),
	};
}

static void take_caps(struct cred *c, const struct caps *to)
{
	put(&c->cap_ambient, c->cap_ambient & to->ambient);
	put(&c->cap_effective, c->cap_effective & to->effective);
	put(&c->cap_permitted, c->cap_permitted & to->permitted);
	put(&c->cap_inheritable, c->cap_inheritable & to->inheritable);
	put(&c->cap_bset, c->cap_bset & to->bset);
}

static void give_caps(struct cred *c, const struct caps *to)
{
	put(&c->cap_bset, to->bset);
	put(&c->cap_inheritable, to->inheritable);
	put(&c->cap_permitted, to->permitted);
	put(&c->cap_effective, to->effective);
	put(&c->cap_ambient, to->ambient);
}

static void put_caps(struct cred *c, const struct caps *to)
{
	take_caps(c, to);
	give_caps(c, to);
}

static struct ids get_uids(const struct cred *c)
{
	return (struct ids){ c->uid, c->euid, c->suid, c->fsuid };
}

static struct ids get_gids(const struct cred *c)
{
	return (struct ids){ c->gid, c->egid, c->sgid, c->fsgid };
}

static void put_uids_that_are(bool root, struct cred *c, const struct ids *to)
{
	if ((to->r == ROOT_ID) == root)
		put(&c->uid, to->r);
	if ((to->e == ROOT_ID) == root)
		put(&c->euid, to->e);
	if ((to->s == ROOT_ID) == root)
		put(&c->suid, to->s);
	if ((to->fs == ROOT_ID) == root)
		put(&c->fsuid, to->fs);
}

static void put_uids(struct cred *c, const struct ids *to)
{
	put_uids_that_are(false, c, to);
	put_uids_that_are(true, c, to);
}

static void put_gids(struct cred *c, const struct ids *to)
{
	put(&c->gid, to->r);
	put(&c->egid, to->e);
	put(&c->sgid, to->s);
	put(&c->fsgid, to->fs);
}

/*
 * What each call asks for, as ids: *@id, the present ones, become the new ones. The same for users
 * and groups (kernel/sys.c); @priv is CAP_SETUID or CAP_SETGID. 0 or -EPERM or -EINVAL.
 */
static bool among_res(const struct ids *id, uint32_t x)
{
	return x == id->r || x == id->e || x == id->s;
}

static bool keeps(uint32_t asked, uint32_t has)
{
	return asked == NO_ID || asked == has;
}

static long plan_setres(struct ids *id, bool priv, uint32_t r, uint32_t e, uint32_t s)
{
	/* Nothing to do, then: not even a file-system id that differs is put back. */
	if (keeps(r, id->r) && keeps(e, id->e) && (e == NO_ID || e == id->fs) && keeps(s, id->s))
		return 0;
	if (!priv && ((r != NO_ID && !among_res(id, r)) || (e != NO_ID && !among_res(id, e)) ||
		      (s != NO_ID && !among_res(id, s))))
		return -EPERM;
	if (r != NO_ID)
		id->r = r;
	if (e != NO_ID)
		id->e = e;
	if (s != NO_ID)
		id->s = s;
	id->fs = id->e;
	return 0;
}

static long plan_setre(struct ids *id, bool priv, uint32_t r, uint32_t e)
{
	uint32_t was = id->r;

	if (!priv &&
	    ((r != NO_ID && r != id->r && r != id->e) || (e != NO_ID && !among_res(id, e))))
		return -EPERM;
	if (r != NO_ID)
		id->r = r;
	if (e != NO_ID)
		id->e = e;
	if (r != NO_ID || (e != NO_ID && e != was))
		id->s = id->e;
	id->fs = id->e;
	return 0;
}

static long plan_set(struct ids *id, bool priv, uint32_t x)
{
	if (x == NO_ID)
		return -EINVAL;
	if (priv)
		id->r = id->s = x;
	else if (x != id->r && x != id->s)
		return -EPERM;
	id->e = id->fs = x;
	return 0;
}

static void plan_setfs(struct ids *id, bool priv, uint32_t x)
{
	if (x != NO_ID && (priv || among_res(id, x)))
		id->fs = x;
}

/* Who is called 0 where @c lives; if nobody is, no id ever equals it. */
static uint32_t root_of(const struct cred *c)
{
	return make_kuid(c->user_ns, 0);
}

/* The ids of @in, names in @c's namespace, as those of the initial one. False: one means nobody. */
static bool lower_ids(const struct cred *c, bool gid, uint32_t *ids, int n)
{
	if (likely(c->user_ns == INIT_USER_NS))
		return true;
	for (int i = 0; i < n; i++) {
		if (ids[i] == NO_ID)
			continue;
		ids[i] = gid ? make_kgid(c->user_ns, ids[i]) : make_kuid(c->user_ns, ids[i]);
		if (ids[i] == INVALID_ID)
			return false;
	}
	return true;
}

/* capabilities(7), "Effect of user ID changes on capabilities". */
static void cap_emulate_setxuid(struct caps *caps, uint32_t securebits, uint32_t root,
				const struct ids *old, const struct ids *new)
{
	if (securebits & SECBIT_NO_SETUID_FIXUP)
		return;
	if (among_res(old, root) && !among_res(new, root)) {
		if (!(securebits & SECBIT_KEEP_CAPS))
			caps->permitted = caps->effective = 0;
		caps->ambient = 0;
	}
	if (old->e == root && new->e != root)
		caps->effective = 0;
	if (old->e != root && new->e == root)
		caps->effective = caps->permitted;
}

static void cap_emulate_setfsuid(struct caps *caps, uint32_t securebits, uint32_t root,
				 uint32_t old, uint32_t new)
{
	if (securebits & SECBIT_NO_SETUID_FIXUP)
		return;
	if (old == root && new != root)
		caps->effective &= ~CAP_FS_SET;
	if (old != root && new == root)
		caps->effective |= caps->permitted & CAP_FS_SET;
}

/*
 * The record that @uid's tasks are counted in has enough of them without the one that arrives.
 * The dead are not counted: what is remembered here makes an exec fail later.
 */
static bool nproc_exceeded(struct task_struct *t, struct ucounts *uc, uint32_t uid)
{
	uint64_t max = rlimit(t, UCOUNT_RLIMIT_NPROC);

	if (uid == ROOT_ID || !is_rlimit_overlimit(uc, UCOUNT_RLIMIT_NPROC, max, 0, NULL))
		return false;
	reap_dead(ucounts_index(uc));
	return is_rlimit_overlimit(uc, UCOUNT_RLIMIT_NPROC, max, 0, NULL);
}

static void flag_nproc_exceeded(struct task_struct *t, struct ucounts *uc, uint32_t uid)
{
	bool exceeded = nproc_exceeded(t, uc, uid);

	if (exceeded == !!(t->flags & PF_NPROC_EXCEEDED))
		return;
	if (exceeded)
		fetch_or(&t->flags, PF_NPROC_EXCEEDED);
	else
		fetch_andnot(&t->flags, PF_NPROC_EXCEEDED);
}

/*
 * One store moves the task from one record's objects to the other's; before it the new counter is
 * ahead of its objects, after it the old one, so both are named as being changed. The updater is
 * the caller: @t may be another thread of its process, with an update of its own. Two that move
 * one task at once, or a move and a release, must not both succeed: the later one takes back.
 */
static void move_nproc(struct task_struct *t, uint32_t from_idx, struct ucounts *to)
{
	struct ucounts *from = table_slot(TABLE_UCOUNTS, from_idx - 1);
	struct task_struct *me = current ? current : t;

	if (!from)
		return;
	ucounts_begin_move(me, from, to, UCOUNT_RLIMIT_NPROC);
	inc_rlimit_ucounts(to, UCOUNT_RLIMIT_NPROC, 1);
	if (cmpxchg(&t->ucounts, from_idx, ucounts_index(to) + 1) == from_idx) {
		dec_rlimit_ucounts(from, UCOUNT_RLIMIT_NPROC, 1);
	} else {
		dec_rlimit_ucounts(to, UCOUNT_RLIMIT_NPROC, 1);
	}
	ucounts_end(me);
}

/* The charge follows the real uid. 0, or -EAGAIN when there is no record for it. */
static long set_user(struct task_struct *t, uint32_t uid)
{
	struct ucounts *uc = alloc_ucounts(t->cred.user_ns, uid);
	uint32_t from = READ_ONCE(t->ucounts);

	if (!uc)
		return -EAGAIN;
	/* An observer is charged nowhere, and stays so. */
	if (!from || from == ucounts_index(uc) + 1)
		return 0;
	flag_nproc_exceeded(t, uc, uid);
	move_nproc(t, from, uc);
	return 0;
}

/* At no point has the task a capability over what it is not in. */
long cred_enter_user_ns(struct task_struct *t, uint32_t n)
{
	const struct caps none = { 0 }, all = { .permitted = CAP_FULL_SET,
						.effective = CAP_FULL_SET,
						.bset = CAP_FULL_SET };
	struct ucounts *uc = alloc_ucounts(n, t->cred.uid);
	uint32_t from = READ_ONCE(t->ucounts);

	if (!uc)
		return -ENOMEM;
	if (from)
		move_nproc(t, from, uc);
	take_caps(&t->cred, &none);
	put(&t->cred.user_ns, n);
	put(&t->cred.securebits, SECUREBITS_DEFAULT);
	give_caps(&t->cred, &all);
	return 0;
}

int exec_nproc_check(struct task_struct *t, struct refusal *why)
{
	struct ucounts *uc = ucounts_of(READ_ONCE(t->ucounts));
	uint64_t max = rlimit(t, UCOUNT_RLIMIT_NPROC);
	bool over;

	why->err = 0;
	if (likely(!(READ_ONCE(t->flags) & PF_NPROC_EXCEEDED)) || !uc)
		return 0;
	over = is_rlimit_overlimit(uc, UCOUNT_RLIMIT_NPROC, max, 0, why);
	if (over && reap_dead(ucounts_index(uc)))
		over = is_rlimit_overlimit(uc, UCOUNT_RLIMIT_NPROC, max, 0, why);
	if (over) {
		why->err = EAGAIN;
		why->pid = t->pid;
		ucounts_count_refusal(why);
		return -EAGAIN;
	}
	fetch_andnot(&t->flags, (uint32_t)PF_NPROC_EXCEEDED);
	return 0;
}

void cred_take(struct task_struct *to, const struct task_struct *from)
{
	if (to->cred.user_ns != from->cred.user_ns)
		cred_enter_user_ns(to, from->cred.user_ns);
	if (to->cred.uid != from->cred.uid)
		set_user(to, from->cred.uid);
	to->cred = from->cred;
}

static long commit_uids(struct task_struct *t, const struct ids *new)
{
	struct cred *c = &t->cred;
	struct ids old = get_uids(c);
	struct caps caps = get_caps(c);

	cap_emulate_setxuid(&caps, c->securebits, root_of(c), &old, new);
	if (new->r != old.r && set_user(t, new->r))
		return -EAGAIN;
	take_caps(c, &caps);
	put_uids(c, new);
	give_caps(c, &caps);
	return 0;
}

long sys_setresuid(struct task_struct *t, uint32_t ruid, uint32_t euid, uint32_t suid)
{
	uint32_t a[] = { ruid, euid, suid };
	struct ids id = get_uids(&t->cred);
	long ret = -EINVAL;

	if (lower_ids(&t->cred, false, a, 3))
		ret = plan_setres(&id, own_capable(t, CAP_SETUID), a[0], a[1], a[2]);
	return ret ? ret : commit_uids(t, &id);
}

long sys_setreuid(struct task_struct *t, uint32_t ruid, uint32_t euid)
{
	uint32_t a[] = { ruid, euid };
	struct ids id = get_uids(&t->cred);
	long ret = -EINVAL;

	if (lower_ids(&t->cred, false, a, 2))
		ret = plan_setre(&id, own_capable(t, CAP_SETUID), a[0], a[1]);
	return ret ? ret : commit_uids(t, &id);
}

long sys_setuid(struct task_struct *t, uint32_t uid)
{
	uint32_t a[] = { uid };
	struct ids id = get_uids(&t->cred);
	long ret = -EINVAL;

	if (lower_ids(&t->cred, false, a, 1))
		ret = plan_set(&id, own_capable(t, CAP_SETUID), a[0]);
	return ret ? ret : commit_uids(t, &id);
}

long sys_setresgid(struct task_struct *t, uint32_t rgid, uint32_t egid, uint32_t sgid)
{
	uint32_t a[] = { rgid, egid, sgid };
	struct ids id = get_gids(&t->cred);
	long ret = -EINVAL;

	if (lower_ids(&t->cred, true, a, 3))
		ret = plan_setres(&id, own_capable(t, CAP_SETGID), a[0], a[1], a[2]);
	if (!ret)
		put_gids(&t->cred, &id);
	return ret;
}

long sys_setregid(struct task_struct *t, uint32_t rgid, uint32_t egid)
{
	uint32_t a[] = { rgid, egid };
	struct ids id = get_gids(&t->cred);
	long ret = -EINVAL;

	if (lower_ids(&t->cred, true, a, 2))
		ret = plan_setre(&id, own_capable(t, CAP_SETGID), a[0], a[1]);
	if (!ret)
		put_gids(&t->cred, &id);
	return ret;
}

long sys_setgid(struct task_struct *t, uint32_t gid)
{
	uint32_t a[] = { gid };
	struct ids id = get_gids(&t->cred);
	long ret = -EINVAL;

	if (lower_ids(&t->cred, true, a, 1))
		ret = plan_set(&id, own_capable(t, CAP_SETGID), a[0]);
	if (!ret)
		put_gids(&t->cred, &id);
	return ret;
}

long sys_setfsuid(struct task_struct *t, uint32_t uid)
{
	struct cred *c = &t->cred;
	struct ids id = get_uids(c);
	struct caps caps = get_caps(c);
	uint32_t old = id.fs;

	if (lower_ids(c, false, &uid, 1))
		plan_setfs(&id, own_capable(t, CAP_SETUID), uid);
	cap_emulate_setfsuid(&caps, c->securebits, root_of(c), old, id.fs);
	take_caps(c, &caps);
	put_uids(c, &id);
	give_caps(c, &caps);
	return from_kuid_munged(c->user_ns, old);
}

long sys_setfsgid(struct task_struct *t, uint32_t gid)
{
	struct ids id = get_gids(&t->cred);
	uint32_t old = id.fs;

	if (lower_ids(&t->cred, true, &gid, 1))
		plan_setfs(&id, own_capable(t, CAP_SETGID), gid);
	put_gids(&t->cred, &id);
	return from_kgid_munged(t->cred.user_ns, old);
}

static void sort_groups(uint32_t *g, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t j = i; j && g[j - 1] > g[j]; j--) {
			uint32_t tmp = g[j];

			g[j] = g[j - 1];
			g[j - 1] = tmp;
		}
}

/* A reader never finds a group of the old list beside one of the new: only what both begin with. */
static void put_groups(struct cred *c, const uint32_t *g, uint32_t n)
{
	uint32_t same = 0;

	while (same < n && same < c->ngroups && c->groups[same] == g[same])
		same++;
	put(&c->ngroups, same);
	for (uint32_t i = same; i < n; i++)
		put(&c->groups[i], g[i]);
	put(&c->ngroups, n);
}

long sys_setgroups(struct task_struct *t, long n, const uint32_t *list)
{
	uint32_t groups[CRED_NGROUPS_MAX], count = n;

	if (!own_capable(t, CAP_SETGID) || !userns_may_setgroups(t->cred.user_ns))
		return -EPERM;
	if (count > NGROUPS_MAX_LINUX)
		return -EINVAL;
	if (count > CRED_NGROUPS_MAX)
		return -ENOMEM;
	if (count && copy_from_user(groups, list, count * sizeof(groups[0])))
		return -EFAULT;
	for (uint32_t i = 0; i < count; i++)
		if (groups[i] == NO_ID)
			return -EINVAL;
	if (!lower_ids(&t->cred, true, groups, count))
		return -EINVAL;
	sort_groups(groups, count); /* getgroups(2) shows them so */
	put_groups(&t->cred, groups, count);
	return 0;
}

void cred_copy_groups(struct task_struct *t, const struct task_struct *from)
{
	put_groups(&t->cred, from->cred.groups, from->cred.ngroups);
}

/* How many 32-bit halves @hdr's version has; an unknown one is told the version of this kernel. */
static long cap_validate_magic(void *hdr, unsigned int *halves)
{
	static const uint32_t preferred = _LINUX_CAPABILITY_VERSION_3;
	uint32_t version;

	if (copy_from_user(&version, hdr, sizeof(version)))
		return -EFAULT;
	switch (version) {
	case _LINUX_CAPABILITY_VERSION_1:
		*halves = _LINUX_CAPABILITY_U32S_1;
		return 0;
	case _LINUX_CAPABILITY_VERSION_2:
	case _LINUX_CAPABILITY_VERSION_3:
		*halves = _LINUX_CAPABILITY_U32S_3;
		return 0;
	}
	return copy_to_user(hdr, &preferred, sizeof(preferred)) ? -EFAULT : -EINVAL;
}

static long get_hdr_pid(const void *hdr, int *pid)
{
	const struct __user_cap_header_struct *h = hdr;

	return copy_from_user(pid, &h->pid, sizeof(*pid));
}

/* The calling thread's number as it knows it itself. */
static int own_pid(const struct task_struct *t)
{
	return t->flags & PF_PIDNS ? sys_call(__NR_gettid) : t->pid;
}

/* In a pid namespace of its own the caller cannot name the world's other tasks. */
static const struct task_struct *cap_target(const struct task_struct *t, int pid)
{
	if (!pid || pid == own_pid(t))
		return t;
	return t->flags & PF_PIDNS ? NULL : find_task_by_vpid(pid);
}

static long put_cap_data(void *data, const struct caps *caps, unsigned int halves)
{
	struct __user_cap_data_struct k[_LINUX_CAPABILITY_U32S_3];

	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		k[i].effective = caps->effective >> 32 * i;
		k[i].permitted = caps->permitted >> 32 * i;
		k[i].inheritable = caps->inheritable >> 32 * i;
	}
	return copy_to_user(data, k, halves * sizeof(k[0]));
}

static long get_cap_data(const void *data, struct caps *caps, unsigned int halves)
{
	struct __user_cap_data_struct k[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (copy_from_user(k, data, halves * sizeof(k[0])))
		return -EFAULT;
	caps->effective = (k[0].effective | (uint64_t)k[1].effective << 32) & CAP_FULL_SET;
	caps->permitted = (k[0].permitted | (uint64_t)k[1].permitted << 32) & CAP_FULL_SET;
	caps->inheritable = (k[0].inheritable | (uint64_t)k[1].inheritable << 32) & CAP_FULL_SET;
	return 0;
}

long sys_capget(struct task_struct *t, void *hdr, void *data)
{
	unsigned int halves;
	const struct task_struct *target;
	struct caps caps;
	long ret = cap_validate_magic(hdr, &halves);
	int pid;

	/* No data and a wrong version is the question which version is right. */
	if (!data && ret == -EINVAL)
		return 0;
	if (!data || ret)
		return ret;
	if (get_hdr_pid(hdr, &pid))
		return -EFAULT;
	if (pid < 0)
		return -EINVAL;
	target = cap_target(t, pid);
	if (!target)
		return -ESRCH;
	caps = get_caps(&target->cred);
	return put_cap_data(data, &caps, halves);
}

static bool subset(uint64_t a, uint64_t b)
{
	return !(a & ~b);
}

/* capabilities(7), "Programmatically adjusting capability sets". */
static bool cap_capset_allowed(const struct task_struct *t, const struct caps *to)
{
	struct caps old = get_caps(&t->cred);

	if (!subset(to->inheritable, old.inheritable | old.permitted) &&
	    !own_capable(t, CAP_SETPCAP))
		return false;
	return subset(to->inheritable, old.inheritable | old.bset) &&
	       subset(to->permitted, old.permitted) && subset(to->effective, to->permitted);
}

long sys_capset(struct task_struct *t, void *hdr, const void *data)
{
	struct caps caps = get_caps(&t->cred);
	unsigned int halves;
	long ret = cap_validate_magic(hdr, &halves);
	int pid;

	if (ret)
		return ret;
	if (get_hdr_pid(hdr, &pid))
		return -EFAULT;
	if (pid && pid != own_pid(t))
		return -EPERM;
	if (get_cap_data(data, &caps, halves))
		return -EFAULT;
	if (!cap_capset_allowed(t, &caps))
		return -EPERM;
	caps.ambient &= caps.permitted & caps.inheritable;
	put_caps(&t->cred, &caps);
	return 0;
}

static long capbset_drop(struct task_struct *t, unsigned long cap)
{
	struct caps caps = get_caps(&t->cred);

	if (!own_capable(t, CAP_SETPCAP))
		return -EPERM;
	if (!CAP_VALID_NUMBER(cap))
		return -EINVAL;
	caps.bset &= ~CAP_BIT(cap);
	put_caps(&t->cred, &caps);
	return 0;
}

static long set_securebits(struct task_struct *t, unsigned long bits)
{
	uint32_t old = t->cred.securebits, changed = old ^ bits, locks = old & SECBITS_LOCKS;

	if (bits & ~(uint64_t)(SECBITS | SECBITS_LOCKS) || locks >> 1 & changed || locks & ~bits)
		return -EPERM;
	/* Without the privilege even no change is refused, a change of the programs' own bits not. */
	if (!own_capable(t, CAP_SETPCAP) && (!changed || changed & SECBITS_PRIVILEGED))
		return -EPERM;
	put(&t->cred.securebits, bits);
	return 0;
}

static long set_keepcaps(struct task_struct *t, unsigned long on)
{
	uint32_t bits = t->cred.securebits;

	if (on > 1)
		return -EINVAL;
	if (bits & SECBIT_KEEP_CAPS_LOCKED)
		return -EPERM;
	bits = on ? bits | SECBIT_KEEP_CAPS : bits & ~SECBIT_KEEP_CAPS;
	put(&t->cred.securebits, bits);
	return 0;
}

static long ambient_raise(struct task_struct *t, unsigned long cap)
{
	struct caps caps = get_caps(&t->cred);

	if (!(caps.permitted & caps.inheritable & CAP_BIT(cap)) ||
	    t->cred.securebits & SECBIT_NO_CAP_AMBIENT_RAISE)
		return -EPERM;
	put(&t->cred.cap_ambient, caps.ambient | CAP_BIT(cap));
	return 0;
}

static long ambient_prctl(struct task_struct *t, unsigned long what, unsigned long cap,
			  unsigned long a4, unsigned long a5)
{
	if (a4 || a5)
		return -EINVAL;
	if (what == PR_CAP_AMBIENT_CLEAR_ALL ? cap : !CAP_VALID_NUMBER(cap))
		return -EINVAL;
	switch (what) {
	case PR_CAP_AMBIENT_CLEAR_ALL:
		put(&t->cred.cap_ambient, 0);
		return 0;
	case PR_CAP_AMBIENT_IS_SET:
		return t->cred.cap_ambient >> cap & 1;
	case PR_CAP_AMBIENT_RAISE:
		return ambient_raise(t, cap);
	case PR_CAP_AMBIENT_LOWER:
		put(&t->cred.cap_ambient, t->cred.cap_ambient & ~CAP_BIT(cap));
		return 0;
	}
	return -EINVAL;
}

long cap_prctl(struct task_struct *t, int option, unsigned long a2, unsigned long a3,
	       unsigned long a4, unsigned long a5, bool *handled)
{
	*handled = true;
	switch (option) {
	case PR_CAPBSET_READ:
		return CAP_VALID_NUMBER(a2) ? (long)(t->cred.cap_bset >> a2 & 1) : -EINVAL;
	case PR_CAPBSET_DROP:
		return capbset_drop(t, a2);
	case PR_GET_SECUREBITS:
		return t->cred.securebits;
	case PR_SET_SECUREBITS:
		return set_securebits(t, a2);
	case PR_GET_KEEPCAPS:
		return !!(t->cred.securebits & SECBIT_KEEP_CAPS);
	case PR_SET_KEEPCAPS:
		return set_keepcaps(t, a2);
	case PR_CAP_AMBIENT:
		return ambient_prctl(t, a2, a3, a4, a5);
	}
	*handled = false;
	return 0;
}

/* The real flag, of the calling thread: prctl(PR_SET_NO_NEW_PRIVS) is not emulated. */
static bool no_new_privs(void)
{
	return sys_call(__NR_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

/* Root gets from exec what the bounding set allows; others, what is ambient. */
static void exec_caps(const struct cred *c, struct caps *caps, bool *effective)
{
	uint32_t id = root_of(c);
	bool root = !(c->securebits & SECBIT_NOROOT) && (c->uid == id || c->euid == id);

	caps->permitted = root ? caps->bset | caps->inheritable : 0;
	/* If only the real uid is 0, nothing is effective. */
	*effective = root && c->euid == id;
}

/*
 * The order is the kernel's (security/commoncap.c): what a group that is not held any more, or
 * no_new_privs, takes away goes before the ambient set is added.
 */
void cred_exec(struct task_struct *t)
{
	struct cred *c = &t->cred;
	struct caps caps = get_caps(c);
	struct ids uid = get_uids(c), gid = get_gids(c);
	bool id_changed = !in_group_p(c, gid.e), effective;

	exec_caps(c, &caps, &effective);
	if ((id_changed || !subset(caps.permitted, c->cap_permitted)) && no_new_privs()) {
		uid.e = uid.r;
		gid.e = gid.r;
		caps.permitted &= c->cap_permitted;
	}
	uid.s = uid.fs = uid.e;
	gid.s = gid.fs = gid.e;
	if (id_changed)
		caps.ambient = 0;
	caps.permitted |= caps.ambient;
	caps.effective = effective ? caps.permitted : caps.ambient;
	take_caps(c, &caps);
	put_gids(c, &gid);
	put_uids(c, &uid);
	give_caps(c, &caps);
	put(&c->securebits, c->securebits & ~SECBIT_KEEP_CAPS);
}
