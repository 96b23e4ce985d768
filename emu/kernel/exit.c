/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ends: releasing tasks, finding the dead, finishing what they left half done. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kpemu/mlock.h>
#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"

#define TICK_NS 10000000ull	/* of /proc/PID/stat field 22: USER_HZ is 100 */
#define ENTER_MAX_NS 10000000000ull /* longer does nobody take to enter the world */
#define REUSE_MIN_NS 1000000000ull /* a pid does not come round again within a second */

struct task_stat {
	char state;
	uint64_t start_ns; /* rounded down to TICK_NS */
};

/* Fields 3 and 22 of the task's stat file. 0 or -errno; -ENOENT also when /proc is not there. */
static int read_stat(int tgid, int pid, struct task_stat *st)
{
	char buf[512], *p;
	int fd, field;
	long n;

	snprintf(buf, sizeof(buf), "/proc/%d/task/%d/stat", tgid, pid);
	fd = sys_open(buf, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	n = sys_read(fd, buf, sizeof(buf) - 1);
	sys_close(fd);
	if (n <= 0)
		return n ? n : -ESRCH;
	buf[n] = 0;
	p = strrchr(buf, ')');
	if (!p || !p[1])
		return -EINVAL;
	st->state = p[2];
	for (field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return -EINVAL;
	st->start_ns = strtoull(p, NULL, 10) * TICK_NS;
	return 0;
}

static bool no_such_task(int tgid, int pid)
{
	long r = pid == tgid ? sys_call(__NR_kill, pid, 0) : sys_call(__NR_tgkill, tgid, pid, 0);

	return r == -ESRCH;
}

/* Another task under the same number started later than ours was seen running. */
static bool is_reused(const struct task_struct *t, const struct task_stat *st)
{
	return st->start_ns > READ_ONCE(t->born_ns);
}

static bool is_inner(const struct task_struct *t)
{
	return (READ_ONCE(t->flags) & (PF_PIDNS | PF_PIDNS_INIT)) == PF_PIDNS;
}

/*
 * A pid namespace ends with its first task. The numbers inside mean nothing here, but that one's
 * does, and everybody inside descends from it.
 */
static bool inner_gone(struct task_struct *t)
{
	while (t && is_inner(t))
		t = task_get(READ_ONCE(t->parent));
	return !t || !(READ_ONCE(t->flags) & PF_PIDNS);
}

bool task_gone(struct task_struct *t)
{
	int pid = READ_ONCE(t->pid), tgid = READ_ONCE(t->tgid);
	uint64_t born = READ_ONCE(t->born_ns);
	struct task_stat st;

	if (!pid || (current && (READ_ONCE(current->flags) & PF_PIDNS)))
		return false;
	if (is_inner(t))
		return inner_gone(t);
	if (no_such_task(tgid, pid))
		return true;
	if (born == UINT64_MAX || boottime_ns() - born < REUSE_MIN_NS)
		return false;
	return !read_stat(tgid, pid, &st) && is_reused(t, &st);
}

bool task_dead(struct task_struct *t)
{
	int pid = READ_ONCE(t->pid), tgid = READ_ONCE(t->tgid);
	struct task_stat st;

	if (!pid || t == current)
		return false;
	if (task_gone(t))
		return true;
	return !read_stat(tgid, pid, &st) && (st.state == 'Z' || st.state == 'X');
}

/* A task that is itself still being made acts through its maker, so it owns nothing alive. */
bool task_owner_alive(uint32_t ref)
{
	struct task_struct *t = task_get(ref);

	return t && (t == current || (READ_ONCE(t->pid) && !task_dead(t)));
}

bool world_lock(struct world_lock *lock, uint32_t me)
{
	struct timespec pause = { .tv_nsec = 50000 };
	uint64_t owner = 0;

	for (int n = 0; !try_cmpxchg(&lock->owner, &owner, (uint64_t)me); n++) {
		if (!task_owner_alive(owner) && cmpxchg(&lock->owner, owner, (uint64_t)me) == owner)
			return true;
		owner = 0;
		if (n > 100)
			sys_call(__NR_nanosleep, &pause, 0);
	}
	return false;
}

void world_unlock(struct world_lock *lock)
{
	smp_store_release(&lock->owner, 0);
}

/*
 * Become the releaser of a slot: of a live one, of one that a dead owner left behind, or of one
 * that we are making ourselves. Returns the word found; SLOT_FREE in it means that we are not.
 */
static uint64_t claim(uint64_t *slot, uint32_t me)
{
	uint64_t w = READ_ONCE(*slot);

	for (;;) {
		switch (slot_state(w)) {
		case SLOT_NEW:
		case SLOT_RELEASING:
			if (slot_owner(w) != me && task_owner_alive(slot_owner(w)))
				return 0;
			break;
		case SLOT_FREE:
			return 0;
		}
		if (try_cmpxchg(slot, &w, slot_word(SLOT_RELEASING, slot_gen(w), me)))
			return w;
	}
}

static bool mm_in_use(uint32_t mm)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (READ_ONCE(t->mm) == mm && slot_state(READ_ONCE(t->slot)) != SLOT_FREE)
			return true;
	return false;
}

static void exit_mm(struct task_struct *t, uint32_t me)
{
	uint32_t idx = READ_ONCE(t->mm);
	struct mm_struct *mm = idx ? table_slot(TABLE_MM, idx - 1) : NULL;
	uint64_t w;

	if (!mm)
		return;
	/* Read before the search: if the mm is freed and reused meanwhile, the swap fails. */
	w = READ_ONCE(mm->slot);
	WRITE_ONCE(t->mm, 0);
	smp_mb();
	if ((READ_ONCE(mm->flags) & MM_SHARED) && mm_in_use(idx))
		return;
	if (slot_state(w) == SLOT_LIVE &&
	    cmpxchg(&mm->slot, w, slot_word(SLOT_RELEASING, slot_gen(w), me)) == w)
		mm_free(mm);
}

static void uncharge_nproc(struct task_struct *t, struct task_struct *me)
{
	struct ucounts *uc;
	uint32_t idx;

	/* Another thread of its process may be moving the charge to another record. */
	while ((uc = ucounts_of(idx = READ_ONCE(t->ucounts)))) {
		ucounts_begin(me, uc, UCOUNT_RLIMIT_NPROC);
		if (cmpxchg(&t->ucounts, idx, 0) == idx)
			dec_rlimit_ucounts(uc, UCOUNT_RLIMIT_NPROC, 1);
		ucounts_end(me);
	}
}

static bool settle_word(uint64_t *word)
{
	if (READ_ONCE(*word) && ucounts_recover(READ_ONCE(*word)))
		return false;
	WRITE_ONCE(*word, 0);
	return true;
}

static bool inside_update(const struct task_struct *t)
{
	return READ_ONCE(t->updating) || READ_ONCE(t->moving);
}

/* The counters that @t died inside of are put right before the words that name them go. */
static bool settle_update(struct task_struct *t)
{
	return t == current || !inside_update(t) ||
	       (settle_word(&t->updating) && settle_word(&t->moving));
}

void release_task(struct task_struct *t)
{
	struct task_struct *me = current ? current : t;
	uint64_t was = claim(&t->slot, task_ref(me));

	if (!was)
		return;
	if (!settle_update(t)) {
		/* A stopped task is inside the same update: leave the slot to a later look. */
		smp_store_release(&t->slot, slot_word(SLOT_LIVE, slot_gen(was), 0));
		return;
	}
	exit_itimers(t);
	signal_flush(t);
	uncharge_nproc(t, me);
	exit_mm(t, task_ref(me));
	WRITE_ONCE(t->pid, 0);
	WRITE_ONCE(t->tgid, 0);
	WRITE_ONCE(t->group_leader, 0);
	WRITE_ONCE(t->alloc_ns, 0);
	table_free(TABLE_TASK, t);
}

/* Inside a pid namespace the kernel is not asked: who has been waited for is gone. */
static bool waited_for(struct task_struct *t)
{
	if (READ_ONCE(current->flags) & PF_PIDNS)
		return is_inner(t) && task_get(t->parent) == task_leader(current);
	return task_gone(t);
}

void release_group(int tgid)
{
	struct task_struct *leader = find_task_by_vpid(tgid), *t;

	if (leader && !waited_for(leader))
		return;
	for_each_task(i, t)
		if (t != leader && READ_ONCE(t->tgid) == tgid && waited_for(t))
			release_task(t);
	if (leader)
		release_task(leader);
}

void exit_thread(struct task_struct *t)
{
	if (READ_ONCE(t->pid) != READ_ONCE(t->tgid))
		release_task(t);
}

/*
 * A slot made by nobody that has one yet: a task about to enter the world. It takes microseconds,
 * unless it was killed; a slot without a time has just been claimed.
 */
static bool is_entering(const struct task_struct *t, uint64_t w)
{
	uint64_t since = READ_ONCE(t->alloc_ns);

	return slot_state(w) == SLOT_NEW && !slot_owner(w) &&
	       (!since || boottime_ns() - since < ENTER_MAX_NS);
}

/* What a task that will take no more steps has left: its own slot, or one it was working on. */
static bool is_left_behind(struct task_struct *t)
{
	uint64_t w = READ_ONCE(t->slot);

	switch (slot_state(w)) {
	case SLOT_LIVE:
	case SLOT_OBSERVER:
		return task_gone(t);
	case SLOT_NEW:
	case SLOT_RELEASING:
		return !is_entering(t, w) && !task_owner_alive(slot_owner(w));
	}
	return false;
}

static bool concerns(const struct task_struct *t, int64_t record)
{
	return record < 0 || ucounts_related(READ_ONCE(t->ucounts), record + 1) || inside_update(t);
}

static void free_lost_mms(void)
{
	uint32_t me = current ? task_ref(current) : 0;
	struct mm_struct *mm;

	for_each_mm(i, mm) {
		uint64_t w = READ_ONCE(mm->slot);
		bool busy = slot_state(w) == SLOT_FREE ||
			    (slot_state(w) != SLOT_LIVE && task_owner_alive(slot_owner(w)));

		if (busy || mm_in_use(i + 1))
			continue;
		if (cmpxchg(&mm->slot, w, slot_word(SLOT_RELEASING, slot_gen(w), me)) == w)
			mm_free(mm);
	}
}

int reap_dead(int64_t record)
{
	struct task_struct *t;
	int n = 0;

	for_each_task(i, t) {
		if (t == current || !concerns(t, record))
			continue;
		if (is_left_behind(t)) {
			release_task(t);
			n += !slot_state(READ_ONCE(t->slot));
		} else if (inside_update(t) && task_dead(t)) {
			settle_update(t); /* a zombie: its unit stays until it is reaped */
		}
	}
	if (n)
		fetch_add(&world->counts.reaped_dead.counter, n);
	if (record < 0)
		free_lost_mms();
	return n + reap_timers(record);
}

unsigned int nr_threads(struct task_struct *t)
{
	int tgid = READ_ONCE(t->tgid);
	unsigned int n = 0;

	for_each_task(i, t)
		n += slot_state(READ_ONCE(t->slot)) == SLOT_LIVE && READ_ONCE(t->tgid) == tgid;
	return n;
}

bool world_has_tasks(void)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (task_counted(t))
			return true;
	return false;
}

/* The thread that execs takes its leader's place, with its own credentials. */
static struct task_struct *take_leader_place(struct task_struct *t)
{
	struct task_struct *leader = task_leader(t);

	if (leader == t)
		return t;
	cred_take(leader, t);
	WRITE_ONCE(leader->flags, t->flags);
	return leader;
}

/* Nobody else can be using it, and nothing has been locked in it: it is as good as new. */
static bool mm_is_unused(struct task_struct *t)
{
	struct mm_struct *mm = task_mm(t);

	return mm && !mm->flags && !mm->dir[0] && !mm->def_flags &&
	       !atomic64_read(&mm->locked_vm);
}

/* exec_mmap() for the model. False: the world is full. */
static bool new_mm(struct task_struct *t)
{
	struct mm_struct *mm;

	if (mm_is_unused(t))
		return true;
	mm = mm_alloc(task_ref(t));
	if (!mm)
		return false;
	exit_mm(t, task_ref(t));
	WRITE_ONCE(t->mm, table_index(TABLE_MM, mm) + 1);
	smp_store_release(&mm->slot, slot_word(SLOT_LIVE, slot_gen(mm->slot), 0));
	return true;
}

/*
 * By their group: a thread that had not come to run has no number yet. Threads share the address
 * space, and whoever never shared his needs no look at all the tasks.
 */
static void release_other_threads(struct task_struct *self)
{
	struct mm_struct *mm = task_mm(self);
	struct task_struct *other;
	uint32_t group = task_ref(self);

	if (mm && !(READ_ONCE(mm->flags) & MM_SHARED))
		return;
	for_each_task(i, other)
		if (other != self && READ_ONCE(other->group_leader) == group &&
		    slot_state(READ_ONCE(other->slot)) != SLOT_FREE)
			release_task(other);
}

struct task_struct *begin_new_exec(struct task_struct *t)
{
	struct task_struct *self = take_leader_place(t);

	current = self;
	signal_exec(self, t);
	release_other_threads(self);
	if (!new_mm(self))
		return NULL;
	fetch_andnot(&self->flags, (uint32_t)PF_FORKNOEXEC);
	cred_exec(self);
	return self;
}
