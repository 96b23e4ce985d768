/* SPDX-License-Identifier: GPL-2.0-or-later */
/* New tasks: their slot, what they inherit, and the NPROC charge. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <string.h>

#include <kpemu/mlock.h>
#include <kpemu/sched.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"

__thread struct task_struct *current __attribute__((tls_model("initial-exec")));

#define PF_INHERITED                                                                          \
	(PF_NPROC_EXCEEDED | PF_PIDNS | PF_PROC_READER | PF_SIGNALFD | PF_CHROOTED |          \
	 PF_PROC_WRITER | PF_INOTIFY)

static uint32_t *pid_hint(int pid)
{
	return table_slot(TABLE_PID, (uint32_t)pid % WORLD_PIDS);
}

/* Inside a pid namespace of its own a task sees the numbers of its inside only. */
static bool sees_number(const struct task_struct *t)
{
	uint32_t flags = READ_ONCE(t->flags);

	if (!(flags & PF_PIDNS))
		return !current || !(READ_ONCE(current->flags) & PF_PIDNS);
	return (current && (READ_ONCE(current->flags) & PF_PIDNS)) == !(flags & PF_PIDNS_INIT);
}

static bool is_task(const struct task_struct *t, int pid)
{
	return READ_ONCE(t->pid) == pid && slot_state(READ_ONCE(t->slot)) == SLOT_LIVE &&
	       sees_number(t);
}

struct task_struct *find_task_by_vpid(int pid)
{
	struct task_struct *t = table_slot(TABLE_TASK, READ_ONCE(*pid_hint(pid)));

	if (pid <= 0)
		return NULL;
	if (t && is_task(t, pid))
		return t;
	for_each_task(i, t)
		if (is_task(t, pid))
			return t;
	return NULL;
}

/* A slot in SLOT_NEW, or NULL after looking for dead tasks that hold one. */
static struct task_struct *alloc_task(void)
{
	uint32_t owner = current ? task_ref(current) : 0;
	struct task_struct *t = table_alloc(TABLE_TASK, owner);

	if (!t && reap_dead(-1))
		t = table_alloc(TABLE_TASK, owner);
	if (!t)
		return NULL;
	if (table_reserve(TABLE_SIGPENDING, table_index(TABLE_TASK, t) + 1)) {
		table_free(TABLE_TASK, t);
		return NULL;
	}
	/* Somebody may have sent to the task that was here when it was gone already. */
	if (current && unlikely(t->sig_used[PENDING_PRIVATE] | t->sig_used[PENDING_SHARED]))
		signal_flush(t);
	t->alloc_ns = boottime_ns();
	t->born_ns = UINT64_MAX;
	t->flags = 0;
	t->sending = t->sig_mask_known = 0;
	t->sig_ignored = t->sig_blocked = 0;
	t->sig_gate = t->nr_timers = 0;
	memset(t->ns, 0, sizeof(t->ns));
	return t;
}

static bool give_mm(struct task_struct *t)
{
	struct mm_struct *mm = mm_alloc(current ? task_ref(current) : task_ref(t));

	if (!mm)
		return false;
	WRITE_ONCE(t->mm, table_index(TABLE_MM, mm) + 1);
	smp_store_release(&mm->slot, slot_word(SLOT_LIVE, slot_gen(mm->slot), 0));
	return true;
}

static bool copy_mm(struct task_struct *t, struct task_struct *parent, uint64_t flags)
{
	struct mm_struct *mm = task_mm(parent);

	if (!(flags & CLONE_VM) || !mm)
		return give_mm(t);
	if (!(READ_ONCE(mm->flags) & MM_SHARED))
		fetch_or(&mm->flags, MM_SHARED);
	WRITE_ONCE(t->mm, READ_ONCE(parent->mm));
	return true;
}

static void copy_thread_group(struct task_struct *t, struct task_struct *parent, uint64_t flags)
{
	struct task_struct *leader = task_leader(parent);

	if (flags & CLONE_THREAD) {
		t->group_leader = task_ref(leader);
		t->parent = leader->parent;
		return;
	}
	t->group_leader = task_ref(t);
	t->parent = flags & CLONE_PARENT ? leader->parent : task_ref(leader);
	memcpy(t->rlim, leader->rlim, sizeof(t->rlim));
}

/* Of nobody that the world knows: no limit of the model binds it, and it has the overflow ids. */
static void start_thread_group(struct task_struct *t)
{
	t->group_leader = task_ref(t);
	t->parent = 0;
	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		t->rlim[i] = (struct rlim){ RLIM_INF, RLIM_INF };
}

/* The user namespace of the new task, whose credentials are its maker's so far. */
static int copy_user_ns(struct task_struct *t, uint64_t flags, struct refusal *why)
{
	return likely(!(flags & CLONE_NEWUSER)) ? 0 : enter_new_user_ns(t, why);
}

/* The kernel's exemptions: root by real uid, or a capability of the caller. */
static bool nproc_exempt(const struct task_struct *parent, const struct task_struct *t)
{
	return t->cred.uid == 0 || capable(parent, CAP_SYS_RESOURCE) ||
	       capable(parent, CAP_SYS_ADMIN);
}

static int charge_nproc(struct task_struct *t, struct task_struct *parent, struct ucounts *uc,
			struct refusal *why)
{
	bool keep = !parent || nproc_exempt(parent, t);
	uint64_t limit = parent ? rlimit(parent, UCOUNT_RLIMIT_NPROC) : RLIM_INF;

	return ucounts_charge(current ? current : t, uc, UCOUNT_RLIMIT_NPROC, &t->ucounts, 1, limit,
			      keep, why) ?
		       0 :
		       -EAGAIN;
}

static int charge_or_reap(struct task_struct *t, struct task_struct *parent, struct refusal *why)
{
	struct ucounts *uc = alloc_ucounts(t->cred.user_ns, t->cred.uid);
	int err;

	if (!uc)
		return -EAGAIN;
	err = charge_nproc(t, parent, uc, why);
	if (err && reap_dead(ucounts_index(uc)))
		err = charge_nproc(t, parent, uc, why);
	if (!err)
		return 0;
	why->err = -err;
	why->pid = parent->pid;
	ucounts_count_refusal(why);
	return err;
}

struct task_struct *copy_process(struct task_struct *parent, uint64_t clone_flags, int *err,
				 struct refusal *why)
{
	struct task_struct *t = alloc_task();

	*err = -EAGAIN;
	why->err = 0;
	if (!t)
		return NULL;
	t->cred = parent->cred;
	memcpy(t->ns, parent->ns, sizeof(t->ns));
	t->flags = (parent->flags & PF_INHERITED) | PF_FORKNOEXEC;
	signal_fork(t, parent, clone_flags & CLONE_THREAD);
	copy_thread_group(t, parent, clone_flags);
	if (!copy_mm(t, parent, clone_flags)) {
		release_task(t);
		return NULL;
	}
	*err = check_clone_flags(clone_flags);
	if (!*err)
		*err = copy_user_ns(t, clone_flags, why);
	if (!*err)
		*err = charge_or_reap(t, parent, why);
	if (!*err)
		*err = copy_namespaces(t, clone_flags, why);
	if (*err) {
		release_task(t);
		return NULL;
	}
	if (parent->flags & PF_NPROC_EXCEEDED)
		fetch_andnot(&parent->flags, (uint32_t)PF_NPROC_EXCEEDED);
	return t;
}

static uint64_t pid_word(int pid, int tgid)
{
	return (uint64_t)(uint32_t)tgid << 32 | (uint32_t)pid;
}

/*
 * Parent and child both report the birth, and the slot may meanwhile be taken back, even reused:
 * pid and slot word change together, so a late report cannot touch a stranger's slot.
 */
bool task_born(struct task_struct *t, uint32_t ref, int pid, int tgid)
{
	uint64_t w = READ_ONCE(t->slot);

	while (slot_ref(table_index(TABLE_TASK, t), w) == ref && slot_state(w) == SLOT_NEW) {
		if (try_cmpxchg128(&t->slot, w, 0, slot_word(SLOT_LIVE, slot_gen(w), 0),
				   pid_word(pid, tgid)))
			break;
		w = READ_ONCE(t->slot);
	}
	if (slot_ref(table_index(TABLE_TASK, t), w) != ref || READ_ONCE(t->pid) != pid)
		return false;
	/* Left to the maker: a new child has few pages yet, and these would cost it several more. */
	if (current != t) {
		WRITE_ONCE(t->born_ns, boottime_ns());
		WRITE_ONCE(*pid_hint(pid), table_index(TABLE_TASK, t));
	}
	return true;
}

/* The slot of the calling task itself: until it is one, nobody knows whom it belongs to. */
static struct task_struct *own_slot(int pid, int tgid)
{
	struct task_struct *t = alloc_task();
	uint64_t w;

	if (!t)
		return NULL;
	start_thread_group(t);
	w = READ_ONCE(t->slot);
	if (!try_cmpxchg128(&t->slot, w, 0, slot_word(SLOT_OBSERVER, slot_gen(w), 0),
			    pid_word(pid, tgid)))
		return NULL;
	WRITE_ONCE(t->born_ns, boottime_ns());
	return t;
}

struct task_struct *task_observer(int pid)
{
	return own_slot(pid, pid);
}

/* Whom an adopted task takes after: its leader, its parent, or whoever was first in the world. */
static bool adopt_from(struct task_struct *t, struct task_struct *parent)
{
	struct task_struct *leader = t->pid == t->tgid ? NULL : find_task_by_vpid(t->tgid);

	if (leader)
		parent = leader;
	else if (!parent)
		parent = task_get(READ_ONCE(world->init_task));
	t->flags = PF_ADOPTED;
	if (!parent) {
		cred_init(&t->cred, OVERFLOW_ID, OVERFLOW_ID);
		return give_mm(t);
	}
	t->flags |= parent->flags & PF_INHERITED & ~(uint32_t)PF_NPROC_EXCEEDED;
	t->cred = parent->cred;
	memcpy(t->ns, parent->ns, sizeof(t->ns));
	signal_init(t);
	copy_thread_group(t, parent, leader ? CLONE_THREAD : 0);
	return copy_mm(t, parent, leader ? CLONE_VM : 0);
}

struct task_struct *task_adopt(struct task_struct *parent, int pid, int tgid)
{
	struct task_struct *t = own_slot(pid, tgid);
	struct refusal why;

	if (!t)
		return NULL;
	if (!adopt_from(t, parent) || charge_or_reap(t, NULL, &why)) {
		release_task(t);
		return NULL;
	}
	smp_store_release(&t->slot, slot_word(SLOT_LIVE, slot_gen(t->slot), 0));
	WRITE_ONCE(*pid_hint(pid), table_index(TABLE_TASK, t));
	atomic64_inc(&world->counts.adopted);
	return t;
}

struct task_struct *task_first(const struct cred *cred,
			       const struct rlim rlim[UCOUNT_RLIMIT_COUNTS])
{
	struct task_struct *t = alloc_task();
	struct refusal why;

	if (!t)
		return NULL;
	t->cred = *cred;
	t->parent = 0;
	t->group_leader = task_ref(t);
	memcpy(t->rlim, rlim, sizeof(t->rlim));
	if (current) {
		signal_init(current);
		signal_fork(t, current, false);
	}
	if (!give_mm(t) || charge_or_reap(t, NULL, &why)) {
		release_task(t);
		return NULL;
	}
	WRITE_ONCE(world->init_task, task_ref(t));
	return t;
}
