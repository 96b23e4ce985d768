/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The launcher's side of the hand-over socket: descriptors for those whose paths lead nowhere. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "emu/cmd/cmd.h"
#include "emu/cmd/run.h"
#include "emu/world/handover.h"

void handover_open(struct handover *h)
{
	char path[WORLD_PATH_MAX];
	struct sockaddr_un sa;
	socklen_t len;

	h->peers = 0;
	world_path(path, world->uid, world->name);
	len = handover_address(&sa, path);
	h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (h->listener < 0)
		return;
	if (!bind(h->listener, (struct sockaddr *)&sa, len) && !listen(h->listener, HANDOVER_PEERS))
		return;
	close(h->listener);
	h->listener = -1;
}

static void drop_peer(struct handover *h, int i)
{
	close(h->peer[i]);
	memmove(h->peer + i, h->peer + i + 1, (h->peers - i - 1) * sizeof(*h->peer));
	h->peers--;
}

void handover_close(struct handover *h)
{
	while (h->peers)
		drop_peer(h, 0);
	if (h->listener >= 0)
		close(h->listener);
	h->listener = -1;
}

int handover_poll(const struct handover *h, struct pollfd *fds)
{
	int n = 0;

	if (h->listener >= 0)
		fds[n++] = (struct pollfd){ h->listener, POLLIN, 0 };
	for (int i = 0; i < h->peers; i++)
		fds[n++] = (struct pollfd){ h->peer[i], POLLIN, 0 };
	return n;
}

/* The abstract name is open to everybody on this host, the world is not. */
static bool same_user(int peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return !getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &cred, &len) && cred.uid == world->uid;
}

/* Whoever connects and keeps silent makes room for later ones. */
static void accept_peers(struct handover *h)
{
	int fd;

	while ((fd = accept4(h->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		if (!same_user(fd)) {
			close(fd);
			continue;
		}
		if (h->peers == HANDOVER_PEERS)
			drop_peer(h, 0);
		h->peer[h->peers++] = fd;
	}
}

/*
 * The world is opened anew: our own descriptor carries the lock that says that the launcher lives,
 * and a copy of it in another process would go on saying so.
 */
static int open_what(char what, int world_fd)
{
	char self[40];

	switch (what) {
	case HANDOVER_WORLD:
		snprintf(self, sizeof(self), "/proc/self/fd/%d", world_fd);
		return open(self, O_RDWR | O_CLOEXEC);
	case HANDOVER_PRELOAD:
		return open(world->preload_path, O_RDONLY | O_CLOEXEC);
	}
	return -1;
}

static void send_descriptor(int peer, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	sendmsg(peer, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* True when we are done with @peer: answered, gone, or talking nonsense. */
static bool answer(int peer, int world_fd)
{
	char what;
	ssize_t n = recv(peer, &what, 1, MSG_DONTWAIT);
	int fd;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	fd = n == 1 ? open_what(what, world_fd) : -1;
	if (fd >= 0) {
		send_descriptor(peer, fd);
		close(fd);
	}
	return true;
}

void handover_serve(struct handover *h, int world_fd)
{
	if (h->listener < 0)
		return;
	accept_peers(h);
	for (int i = h->peers - 1; i >= 0; i--)
		if (answer(h->peer[i], world_fd))
			drop_peer(h, i);
}
