/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Taking a world down: one remover at a time, found again after a death half way. */
#include <errno.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/shm.h>
#include <kpemu/teardown.h>
#include <kpemu/world.h>

#include "emu/lib/rawsys.h"

int world_remove_file(int fd, const char *path)
{
	struct stat open_file, named;
	long ret;

	ret = sys_call(__NR_fstat, fd, &open_file);
	if (!ret)
		ret = sys_call(__NR_newfstatat, AT_FDCWD, path, &named, AT_SYMLINK_NOFOLLOW);
	if (ret)
		return ret;
	if (open_file.st_dev != named.st_dev || open_file.st_ino != named.st_ino)
		return -ESTALE;
	return sys_call(__NR_unlinkat, AT_FDCWD, path, 0);
}

/* From here on nobody attaches. A remover that died before us has left the mark already. */
static void mark_ending(void)
{
	uint32_t state = READ_ONCE(world->state);

	while (state != WORLD_ENDING && !try_cmpxchg(&world->state, &state, WORLD_ENDING))
		;
}

bool world_in_use(int tgid)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (task_counted(t) && (!tgid || READ_ONCE(t->tgid) != tgid) && !task_dead(t))
			return true;
	return false;
}

int world_remove(int fd, int tgid)
{
	char path[WORLD_PATH_MAX];
	long ret;

	ret = sys_call(__NR_flock, fd, LOCK_EX | LOCK_NB);
	if (ret)
		return ret;
	reap_dead(-1);
	if (world_in_use(tgid)) {
		sys_call(__NR_flock, fd, LOCK_UN);
		return -EBUSY;
	}
	mark_ending();
	mqueue_destroy_all(current);
	shm_destroy_all(current);
	world_path(path, world->uid, world->name);
	return world_remove_file(fd, path);
}

/* No descriptor of the world is kept: open it again, and see that it is not a later one. */
static int open_mapped(void)
{
	char path[WORLD_PATH_MAX];
	uint64_t id = 0;
	int fd;

	world_path(path, world->uid, world->name);
	fd = sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd;
	sys_call(__NR_pread64, fd, &id, sizeof(id), WORLD_HEADER_OFFSET + offsetof(struct world_header, id));
	if (id == world->id)
		return fd;
	sys_close(fd);
	return -ENOENT;
}

int world_teardown(void)
{
	int fd = open_mapped(), ret;

	if (fd < 0)
		return fd;
	ret = world_remove(fd, READ_ONCE(current->tgid));
	sys_close(fd);
	return ret;
}
