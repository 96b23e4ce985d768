/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System V shared memory: whose a segment is, and locking it. */
#include <sys/ipc.h>
#include <sys/shm.h>

#include <kpemu/shm.h>

#include "emu/lib/uaccess.h"
#include "preload/hook.h"

long hook_shmget(key_t key, size_t size, int flags)
{
	long id = sys_call(__NR_shmget, key, size, flags);
	uint64_t mask;

	if (id < 0 || !(key == IPC_PRIVATE || flags & IPC_CREAT))
		return id;
	block_signals(&mask);
	shm_made(current, id, flags);
	restore_signals(&mask);
	return id;
}

static long stat_segment(int id, int cmd, struct shmid_ds *buf)
{
	long ret = sys_call(__NR_shmctl, id, cmd, buf);

	if (!ret && cmd == IPC_STAT)
		shm_owner(current, id, &buf->shm_perm);
	return ret;
}

long hook_shmctl(int id, int cmd, struct shmid_ds *buf)
{
	struct refusal why;
	uint64_t mask;
	long ret;

	if (cmd != SHM_LOCK && cmd != SHM_UNLOCK && cmd != IPC_RMID)
		return stat_segment(id, cmd, buf);
	block_signals(&mask);
	ret = shm_ctl(current, id, cmd, &why);
	restore_signals(&mask);
	refusal_log(&why, "shmctl");
	return ret;
}
