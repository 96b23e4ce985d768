/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Making, entering and releasing namespaces of all kinds. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>

#include <kpemu/nsproxy.h>
#include <kpemu/proc.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#define CLONE_KINDS                                                                          \
	(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWCGROUP |        \
	 CLONE_NEWNET | CLONE_NEWTIME)

static const struct {
	uint32_t flag, type;
} kinds[NR_NS_KINDS] = {
	[NS_MNT] = { CLONE_NEWNS, UCOUNT_MNT_NAMESPACES },
	[NS_UTS] = { CLONE_NEWUTS, UCOUNT_UTS_NAMESPACES },
	[NS_IPC] = { CLONE_NEWIPC, UCOUNT_IPC_NAMESPACES },
	[NS_PID] = { CLONE_NEWPID, UCOUNT_PID_NAMESPACES },
	[NS_CGROUP] = { CLONE_NEWCGROUP, UCOUNT_CGROUP_NAMESPACES },
	[NS_NET] = { CLONE_NEWNET, UCOUNT_NET_NAMESPACES },
	[NS_TIME] = { CLONE_NEWTIME, UCOUNT_TIME_NAMESPACES },
};

void ns_lock(struct task_struct *t)
{
	world_lock(&world->ns_lock, task_ref(current ? current : t));
}

void ns_unlock(void)
{
	world_unlock(&world->ns_lock);
}

/* --- counting: the objects are few, and looked at under the lock --- */

static bool in_table(uint64_t w)
{
	return slot_state(w) == SLOT_LIVE;
}

long ucount_value(const struct ucounts *uc, enum ucount_type type)
{
	struct user_namespace *user;
	struct ns_common *ns;
	long n = 0;

	if (type == UCOUNT_USER_NAMESPACES) {
		for_each_user_ns(i, user)
			n += in_table(READ_ONCE(user->slot)) &&
			     ucounts_covers(uc, READ_ONCE(user->ucounts));
		return n;
	}
	for_each_ns(i, ns) {
		if (!in_table(READ_ONCE(ns->slot)) || !ucounts_covers(uc, READ_ONCE(ns->ucounts)))
			continue;
		if (type == UCOUNT_INOTIFY_WATCHES)
			n += READ_ONCE(ns->watches);
		else
			n += READ_ONCE(ns->type) == type;
	}
	return n;
}

/* --- how long they live --- */

static bool has_tasks(uint32_t user_ns)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (slot_state(READ_ONCE(t->slot)) != SLOT_FREE &&
		    READ_ONCE(t->cred.user_ns) == user_ns)
			return true;
	return false;
}

static bool has_children(uint32_t user_ns)
{
	struct user_namespace *child;
	struct ns_common *ns;

	for_each_user_ns(i, child)
		if (i && in_table(READ_ONCE(child->slot)) && child->parent == user_ns)
			return true;
	for_each_ns(i, ns)
		if (i && in_table(READ_ONCE(ns->slot)) && ns->user_ns == user_ns)
			return true;
	return false;
}

/* Also while somebody is inside an update of one of its records: he may just be charging it. */
static bool has_charges(uint32_t user_ns)
{
	struct task_struct *t;
	struct ucounts *uc;

	for_each_ucounts(i, uc)
		for (int type = 0; READ_ONCE(uc->ns) == user_ns && type < UCOUNT_RLIMIT_COUNTS; type++)
			if (get_rlimit_value(uc, type))
				return true;
	for_each_task(i, t) {
		uint64_t word[] = { READ_ONCE(t->updating), READ_ONCE(t->moving) };

		for (int j = 0; j < 2; j++) {
			uc = word[j] ? table_slot(TABLE_UCOUNTS, (uint32_t)word[j]) : NULL;
			if (uc && READ_ONCE(uc->ns) == user_ns)
				return true;
		}
	}
	return false;
}

/*
 * Nobody is in a namespace that has just been made; its maker, who may look for others to release
 * while he makes the next, is its owner until he has entered it.
 */
static void set_maker(uint64_t *slot, uint32_t maker)
{
	smp_store_release(slot, slot_word(SLOT_LIVE, slot_gen(READ_ONCE(*slot)), maker));
}

static bool is_made_here(uint64_t w)
{
	return current && slot_owner(w) == task_ref(current);
}

static bool user_ns_in_use(uint32_t n, struct user_namespace *ns)
{
	return is_made_here(READ_ONCE(ns->slot)) || has_tasks(n) || has_children(n) || has_charges(n) ||
	       (READ_ONCE(ns->flags) & USERNS_OPENED && proc_ns_is_open(PROC_NS_USER, n, ns->serial));
}

static void free_user_ns(uint32_t n, struct user_namespace *ns)
{
	struct ucounts *creator = ucounts_of(READ_ONCE(ns->ucounts));

	if (creator && ucounts_ops()->forget_ns)
		ucounts_ops()->forget_ns(creator, n);
	WRITE_ONCE(ns->ucounts, 0);
	table_free(TABLE_USER_NS, ns);
}

static bool release_user_ns(uint32_t n, struct user_namespace *ns)
{
	uint64_t w = READ_ONCE(ns->slot);

	if (slot_state(w) == SLOT_FREE)
		return false;
	if (slot_state(w) == SLOT_LIVE && user_ns_in_use(n, ns))
		return false;
	/* Whoever was making or releasing it has lost the lock to us by dying. */
	free_user_ns(n, ns);
	return true;
}

static bool is_member(const struct task_struct *t, uint32_t number)
{
	for (int kind = 0; kind < NR_NS_KINDS; kind++)
		if (READ_ONCE(t->ns[kind]) == number)
			return true;
	return false;
}

/* A zombie has left them all, but not its user namespace. */
static bool has_members(uint32_t number)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (slot_state(READ_ONCE(t->slot)) != SLOT_FREE && is_member(t, number) && !task_dead(t))
			return true;
	return false;
}

static bool is_instance(const struct ns_common *ns)
{
	return READ_ONCE(ns->type) == UCOUNT_INOTIFY_INSTANCES;
}

void ns_release(struct ns_common *ns)
{
	WRITE_ONCE(ns->ucounts, 0);
	table_free(TABLE_NS, ns);
}

static bool release_ns(uint32_t n, struct ns_common *ns)
{
	uint64_t w = READ_ONCE(ns->slot);

	if (slot_state(w) == SLOT_FREE)
		return false;
	if (slot_state(w) == SLOT_LIVE && is_made_here(w))
		return false;
	if (slot_state(w) == SLOT_LIVE &&
	    (is_instance(ns) ? proc_fd_is_inotify(ns->tgid, ns->fd) : has_members(n)))
		return false;
	if (slot_state(w) == SLOT_LIVE && READ_ONCE(ns->opened) &&
	    proc_ns_is_open(PROC_NS_IPC, n, ns->serial))
		return false;
	ns_release(ns);
	return true;
}

int ns_reap(void)
{
	struct user_namespace *user;
	struct ns_common *ns;
	int n = 0, before;

	reap_dead(-1);
	do {
		before = n;
		for_each_ns(i, ns)
			n += i && release_ns(i, ns);
		for_each_user_ns(i, user)
			n += i && release_user_ns(i, user);
	} while (n != before);
	return n;
}

bool ipc_ns_gone(uint64_t serial)
{
	struct ns_common *ns;

	if (!serial)
		return false;
	for_each_ns(i, ns)
		if (slot_state(READ_ONCE(ns->slot)) == SLOT_LIVE && READ_ONCE(ns->serial) == serial)
			return false;
	return true;
}

/* --- making --- */

int check_clone_flags(uint64_t flags)
{
	if ((flags & (CLONE_NEWUSER | CLONE_FS)) == (CLONE_NEWUSER | CLONE_FS))
		return -EINVAL;
	if ((flags & (CLONE_NEWUSER | CLONE_THREAD)) == (CLONE_NEWUSER | CLONE_THREAD))
		return -EINVAL;
	if ((flags & (CLONE_NEWIPC | CLONE_SYSVSEM)) == (CLONE_NEWIPC | CLONE_SYSVSEM))
		return -EINVAL;
	return 0;
}

static void fill_ns(struct ns_common *ns, struct task_struct *t, enum ucount_type type,
		    uint32_t user_ns, struct ucounts *uc)
{
	ns->serial = fetch_add(&world->ns_serial, 1) + 1;
	ns->type = type;
	ns->user_ns = user_ns;
	ns->maker = t->cred.fsuid;
	memset(ns->mq, 0, sizeof(ns->mq));
	ns->tgid = ns->fd = ns->watches = ns->opened = 0;
	WRITE_ONCE(ns->ucounts, ucounts_index(uc) + 1);
	smp_store_release(&ns->slot, slot_word(SLOT_LIVE, slot_gen(ns->slot), 0));
}

static int make_ns(struct task_struct *t, enum ucount_type type, uint32_t user_ns, uint32_t *number,
		   struct refusal *why)
{
	struct ucounts *uc = inc_ucount(user_ns, t->cred.euid, type, 1, why);
	struct ns_common *ns;

	if (!uc)
		return -ENOSPC;
	ns = table_alloc(TABLE_NS, task_ref(current ? current : t));
	if (!ns)
		return -ENOMEM;
	fill_ns(ns, t, type, user_ns, uc);
	*number = table_index(TABLE_NS, ns);
	return 0;
}

static void drop_made(const struct ns_change *c)
{
	for (int kind = 0; kind < NR_NS_KINDS; kind++)
		if (c->made >> kind & 1)
			ns_release(table_slot(TABLE_NS, c->ns[kind]));
	if (c->user)
		free_user_ns(c->user_ns, user_ns_of(c->user_ns));
}

static uint64_t *ns_slot(uint32_t number)
{
	return &((struct ns_common *)table_slot(TABLE_NS, number))->slot;
}

static int make_kinds(struct task_struct *t, uint64_t flags, uint32_t user_ns, struct ns_change *c,
		      struct refusal *why)
{
	for (int kind = 0; kind < NR_NS_KINDS; kind++) {
		int err;

		if (!(flags & kinds[kind].flag))
			continue;
		err = make_ns(t, kinds[kind].type, user_ns, &c->ns[kind], why);
		if (err)
			return err;
		c->made |= 1u << kind;
		set_maker(ns_slot(c->ns[kind]), task_ref(current ? current : t));
	}
	return 0;
}

static void enter_made(struct task_struct *t, const struct ns_change *c)
{
	for (int kind = 0; kind < NR_NS_KINDS; kind++) {
		if (!(c->made >> kind & 1))
			continue;
		WRITE_ONCE(t->ns[kind], c->ns[kind]);
		set_maker(ns_slot(c->ns[kind]), 0);
	}
	if (c->user)
		set_maker(&user_ns_of(c->user_ns)->slot, 0);
}

int copy_namespaces(struct task_struct *t, uint64_t flags, struct refusal *why)
{
	struct ns_change c = { 0 };
	int err;

	flags &= CLONE_KINDS & ~(uint64_t)CLONE_NEWTIME;
	if (!flags)
		return 0;
	if (!ns_capable(t, t->cred.user_ns, CAP_SYS_ADMIN))
		return -EPERM;
	ns_lock(t);
	err = make_kinds(t, flags, t->cred.user_ns, &c, why);
	if (err)
		drop_made(&c);
	else
		enter_made(t, &c);
	ns_unlock();
	return err;
}

#define UNSHARE_FLAGS                                                                            \
	(CLONE_THREAD | CLONE_FS | CLONE_SIGHAND | CLONE_VM | CLONE_FILES | CLONE_SYSVSEM |      \
	 CLONE_NEWUSER | CLONE_KINDS)

/* A new user namespace takes the process from those it shares things with. */
static uint64_t implied(uint64_t flags)
{
	if (flags & CLONE_NEWUSER)
		flags |= CLONE_THREAD | CLONE_FS;
	if (flags & CLONE_VM)
		flags |= CLONE_SIGHAND;
	if (flags & CLONE_SIGHAND)
		flags |= CLONE_THREAD;
	return flags;
}

static int make_all(struct task_struct *t, uint64_t flags, struct ns_change *c, struct refusal *why)
{
	uint32_t user_ns = t->cred.user_ns;
	int err;

	if (flags & CLONE_NEWUSER) {
		err = create_user_ns(t, &c->user_ns, why);
		if (err)
			return err;
		c->user = true;
		user_ns = c->user_ns;
		set_maker(&user_ns_of(user_ns)->slot, task_ref(current ? current : t));
	}
	if (!(flags & CLONE_KINDS))
		return 0;
	/* Who makes a user namespace has every capability in it. */
	if (!c->user && !ns_capable(t, user_ns, CAP_SYS_ADMIN))
		return -EPERM;
	return make_kinds(t, flags, user_ns, c, why);
}

int unshare_begin(struct task_struct *t, uint64_t flags, bool threads, struct ns_change *c,
		  struct refusal *why)
{
	int err;

	why->err = 0;
	*c = (struct ns_change){ 0 };
	if (flags & ~(uint64_t)UNSHARE_FLAGS || (implied(flags) & CLONE_THREAD && threads))
		return -EINVAL;
	ns_lock(t);
	err = make_all(t, flags, c, why);
	if (!err)
		return 0;
	drop_made(c);
	ns_unlock();
	return err;
}

int unshare_end(struct task_struct *t, const struct ns_change *c, bool commit)
{
	int err = 0;

	if (commit && c->user)
		err = cred_enter_user_ns(t, c->user_ns);
	if (commit && !err)
		enter_made(t, c);
	else
		drop_made(c);
	ns_unlock();
	return err;
}

int enter_new_user_ns(struct task_struct *t, struct refusal *why)
{
	uint32_t n;
	int err;

	ns_lock(t);
	err = create_user_ns(t, &n, why);
	if (!err)
		err = cred_enter_user_ns(t, n);
	ns_unlock();
	return err;
}

static int may_enter(struct task_struct *t, uint32_t number, uint64_t serial, bool threads)
{
	struct user_namespace *ns = user_ns_of(number);

	if (!ns || slot_state(READ_ONCE(ns->slot)) != SLOT_LIVE || ns->serial != serial)
		return -EINVAL;
	if (t->cred.user_ns == number || threads)
		return -EINVAL;
	return ns_capable(t, number, CAP_SYS_ADMIN) ? 0 : -EPERM;
}

int enter_user_ns(struct task_struct *t, uint32_t number, uint64_t serial, bool threads)
{
	int err;

	ns_lock(t);
	err = may_enter(t, number, serial, threads);
	if (!err)
		err = cred_enter_user_ns(t, number);
	ns_unlock();
	return err;
}

static int may_enter_ipc(struct task_struct *t, uint32_t number, uint64_t serial)
{
	struct ns_common *ns = table_slot(TABLE_NS, number);

	if (!ns || slot_state(READ_ONCE(ns->slot)) != SLOT_LIVE || ns->serial != serial ||
	    (number && ns->type != UCOUNT_IPC_NAMESPACES))
		return -EINVAL;
	if (!ns_capable(t, ns->user_ns, CAP_SYS_ADMIN) ||
	    !ns_capable(t, t->cred.user_ns, CAP_SYS_ADMIN))
		return -EPERM;
	return 0;
}

int enter_ipc_ns(struct task_struct *t, uint32_t number, uint64_t serial)
{
	int err;

	ns_lock(t);
	err = may_enter_ipc(t, number, serial);
	if (!err)
		WRITE_ONCE(t->ns[NS_IPC], number);
	ns_unlock();
	return err;
}
