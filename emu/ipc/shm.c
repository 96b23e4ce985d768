/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System V shared memory: SHM_LOCK, which is counted for each user. */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include <kpemu/sched.h>
#include <kpemu/shm.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"

#ifndef SHM_HUGETLB
#define SHM_HUGETLB 04000
#endif

#define MEMLOCK    UCOUNT_RLIMIT_MEMLOCK
#define PAGE_SHIFT 12

/* All changes of the table are made under ns_lock(): what a dead holder left is finished by the next. */

static bool is_live(const struct shmid_kernel *shp)
{
	return slot_state(READ_ONCE(shp->slot)) == SLOT_LIVE;
}

static struct shmid_kernel *find(int id)
{
	struct shmid_kernel *shp;

	for_each_shm(i, shp)
		if (is_live(shp) && shp->id == id)
			return shp;
	return NULL;
}

static void uncharge(struct task_struct *t, struct shmid_kernel *shp)
{
	ucounts_uncharge(t, MEMLOCK, &shp->ucounts, shp->pages);
}

static void release(struct task_struct *t, struct shmid_kernel *shp)
{
	uncharge(t, shp);
	WRITE_ONCE(shp->id, -1);
	table_free(TABLE_SHM, shp);
}

static bool is_gone(int id)
{
	struct shmid_ds ds;
	long ret = sys_call(__NR_shmctl, id, IPC_STAT, &ds);

	return ret == -EINVAL || ret == -EIDRM;
}

static int reap(struct task_struct *t)
{
	struct shmid_kernel *shp;
	int n = 0;

	ns_reap();
	for_each_shm(i, shp) {
		bool left = slot_state(READ_ONCE(shp->slot)) == SLOT_NEW;

		if (!left && !is_live(shp))
			continue;
		if (!left && ipc_ns_gone(shp->ipc_ns))
			sys_call(__NR_shmctl, shp->id, IPC_RMID, NULL);
		if (!left && !is_gone(shp->id))
			continue;
		release(t, shp);
		n++;
	}
	return n;
}

void shm_destroy_all(struct task_struct *t)
{
	struct shmid_kernel *shp;

	if (!table_high_water(TABLE_SHM))
		return;
	ns_lock(t);
	for_each_shm(i, shp)
		if (is_live(shp) && shp->ipc_ns)
			sys_call(__NR_shmctl, shp->id, IPC_RMID, NULL);
	ns_unlock();
}

int shm_reap(struct task_struct *t)
{
	int n;

	if (!table_high_water(TABLE_SHM))
		return 0;
	ns_lock(t);
	n = reap(t);
	ns_unlock();
	return n;
}

static void add(struct task_struct *t, int id, int flags)
{
	struct ns_common *ns = table_slot(TABLE_NS, READ_ONCE(t->ns[NS_IPC]));
	struct shmid_kernel *shp = find(id);

	if (shp)
		release(t, shp); /* of an earlier segment: numbers come round */
	shp = table_alloc(TABLE_SHM, task_ref(t));
	if (!shp && reap(t))
		shp = table_alloc(TABLE_SHM, task_ref(t));
	if (!shp)
		return;
	shp->id = id;
	shp->uid = shp->cuid = t->cred.euid;
	shp->gid = shp->cgid = t->cred.egid;
	shp->hugetlb = !!(flags & SHM_HUGETLB);
	shp->ipc_user_ns = ns ? ns->user_ns : INIT_USER_NS;
	shp->ipc_ns = ns ? ns->serial : 0;
	shp->pages = 0;
	WRITE_ONCE(shp->ucounts, 0);
	smp_store_release(&shp->slot, slot_word(SLOT_LIVE, slot_gen(shp->slot), 0));
}

/* New: made by this process, and nobody has attached it yet. */
void shm_made(struct task_struct *t, int id, int flags)
{
	struct shmid_ds ds;
	bool exclusive = flags & IPC_EXCL;

	if (sys_call(__NR_shmctl, id, IPC_STAT, &ds) || ds.shm_cpid != sys_call(__NR_getpid) ||
	    ds.shm_nattch || ds.shm_atime)
		return;
	ns_lock(t);
	if (exclusive || !find(id))
		add(t, id, flags);
	ns_unlock();
}

void shm_owner(const struct task_struct *t, int id, struct ipc_perm *perm)
{
	const struct shmid_kernel *shp = find(id);
	uint32_t n = t->cred.user_ns;

	if (!shp)
		return;
	perm->uid = from_kuid_munged(n, shp->uid);
	perm->gid = from_kgid_munged(n, shp->gid);
	perm->cuid = from_kuid_munged(n, shp->cuid);
	perm->cgid = from_kgid_munged(n, shp->cgid);
}

static bool is_owner(const struct task_struct *t, const struct shmid_kernel *shp)
{
	return t->cred.euid == shp->uid || t->cred.euid == shp->cuid;
}

static uint64_t limit_pages(struct task_struct *t)
{
	uint64_t limit = rlimit(t, MEMLOCK);

	return limit == RLIM_INF ? limit : limit >> PAGE_SHIFT;
}

/* With CAP_IPC_LOCK the charge is kept, over the limit too. */
static int charge(struct task_struct *t, struct shmid_kernel *shp, struct refusal *why)
{
	struct ucounts *uc = alloc_ucounts(t->cred.user_ns, t->cred.uid);
	bool charged;

	if (!uc)
		return -ENOMEM;
	charged = ucounts_charge(t, uc, MEMLOCK, &shp->ucounts, shp->pages, limit_pages(t),
				 capable(t, CAP_IPC_LOCK), why);
	why->err = charged ? 0 : ENOMEM;
	why->pid = t->pid;
	return -why->err;
}

static long lock(struct task_struct *t, struct shmid_kernel *shp, uint64_t size, struct refusal *why)
{
	int err;

	if (shp->hugetlb || READ_ONCE(shp->ucounts))
		return 0;
	WRITE_ONCE(shp->pages, (size + (1ul << PAGE_SHIFT) - 1) >> PAGE_SHIFT);
	err = charge(t, shp, why);
	if (err && reap(t))
		err = charge(t, shp, why);
	ucounts_count_refusal(why);
	return err;
}

static long lock_or_unlock(struct task_struct *t, struct shmid_kernel *shp, int cmd, uint64_t size,
			   struct refusal *why)
{
	long ret = 0;

	if (!ns_capable(t, shp->ipc_user_ns, CAP_IPC_LOCK)) {
		if (!is_owner(t, shp) || (cmd == SHM_LOCK && !rlimit(t, MEMLOCK)))
			return -EPERM;
	}
	if (cmd == SHM_LOCK)
		ret = lock(t, shp, size, why);
	else
		uncharge(t, shp);
	if (!ret)
		sys_call(__NR_shmctl, shp->id, cmd, NULL);
	return ret;
}

static long remove_id(struct task_struct *t, struct shmid_kernel *shp)
{
	long ret;

	if (!is_owner(t, shp) && !ns_capable(t, shp->ipc_user_ns, CAP_SYS_ADMIN))
		return -EPERM;
	ret = sys_call(__NR_shmctl, shp->id, IPC_RMID, NULL);
	if (!ret && is_gone(shp->id))
		release(t, shp);
	return ret;
}

long shm_ctl(struct task_struct *t, int id, int cmd, struct refusal *why)
{
	struct shmid_kernel *shp;
	struct shmid_ds ds = { 0 };
	long ret = sys_call(__NR_shmctl, id, IPC_STAT, &ds);

	why->err = 0;
	if (ret)
		return sys_call(__NR_shmctl, id, cmd, NULL);
	ns_lock(t);
	shp = find(id);
	if (!shp && cmd != IPC_RMID) {
		add(t, id, 0); /* somebody's outside, or one that found the table full */
		shp = find(id);
	}
	if (!shp)
		ret = sys_call(__NR_shmctl, id, cmd, NULL);
	else if (cmd == IPC_RMID)
		ret = remove_id(t, shp);
	else
		ret = lock_or_unlock(t, shp, cmd, ds.shm_segsz, why);
	ns_unlock();
	return ret;
}

long derive_memlock(const struct ucounts *uc)
{
	struct shmid_kernel *shp;
	long n = 0;

	for_each_shm(i, shp)
		if (ucounts_covers(uc, READ_ONCE(shp->ucounts)))
			n += READ_ONCE(shp->pages);
	return n;
}
