/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asking the launcher for a descriptor where a path does not lead any more (chroot, mounts). */
#ifndef EMU_WORLD_HANDOVER_H
#define EMU_WORLD_HANDOVER_H

#include <sys/socket.h>
#include <sys/un.h>

/* One byte from the client; the answer carries one descriptor by SCM_RIGHTS. */
#define HANDOVER_WORLD 'w'
#define HANDOVER_PRELOAD 'l'

/*
 * handover_address - the abstract address (SOCK_SEQPACKET) of the launcher of the world whose file
 * is @path: its last component. Abstract names know no mounts and no root directory. Returns the
 * length for bind() and connect().
 */
socklen_t handover_address(struct sockaddr_un *sa, const char *path);

/*
 * handover_request - ask the launcher of world @path for @what.
 * Returns a close-on-exec descriptor or -errno: -ECONNREFUSED when the launcher is gone, -EPROTO
 * for an answer without a descriptor, -EPERM when another user listens there. Waits at most a second. Async-signal-safe.
 */
int handover_request(const char *path, char what);

#endif
