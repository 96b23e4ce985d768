/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of a world: who may remove it, and what goes with it. */
#ifndef KPEMU_TEARDOWN_H
#define KPEMU_TEARDOWN_H

#include <stdbool.h>

/*
 * world_remove_file - unlink @path if it still names the file open at @fd.
 *
 * The caller holds the file's exclusive lock through @fd. Everybody who removes or makes a world
 * does, so the name cannot go to another world between the look and the unlink. Returns 0,
 * -ENOENT (no such name here: gone, or another mount), -ESTALE (another file has the name) or
 * another -errno. Async-signal-safe.
 */
int world_remove_file(int fd, const char *path);

/*
 * world_in_use - can any task of the mapped world still take a step? Zombies hold their charges,
 * but once there are only zombies nobody is left to be limited by them, and an init that is slow
 * to reap, or never does, shall not keep a world. Tasks of process @tgid (0: none) do not count.
 */
bool world_in_use(int tgid);

/*
 * world_remove - if nobody needs the mapped world any more, remove it.
 *
 * @fd: the world, open by the caller's own open(). Takes the exclusive lock (the launcher has it
 * already), releases the dead, marks the world as ending, unlinks its real queues, then its file;
 * the lock stays with @fd. A remover that died half way is taken over from. @tgid: a process that
 * does not count as living, because it is the caller and ends; 0: none. Returns 0: removed;
 * -EBUSY: tasks live, the lock is given up; -EWOULDBLOCK: the launcher lives, or another remover
 * is at it; or what world_remove_file() says (the queues are gone then). Callers are attached and
 * block signals; async-signal-safe.
 */
int world_remove(int fd, int tgid);

/*
 * world_teardown - remove the mapped world if the calling process, which is ending, is the last
 * one in it and the launcher is gone. As world_remove(); -ENOENT also when the path leads to
 * another world by now, or nowhere: `kpemu gc` sees to it.
 */
int world_teardown(void);

#endif
