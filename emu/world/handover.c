/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client's side of the launcher's hand-over socket. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>

#include "emu/lib/rawsys.h"
#include "emu/world/handover.h"

socklen_t handover_address(struct sockaddr_un *sa, const char *path)
{
	const char *name = strrchr(path, '/');
	size_t n;

	name = name ? name + 1 : path;
	n = strnlen(name, sizeof(sa->sun_path) - 1);
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path + 1, name, n);
	return offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

static int receive_descriptor(int s)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	struct cmsghdr *c;
	long n = sys_call(__NR_recvmsg, s, &msg, MSG_CMSG_CLOEXEC);
	int fd;

	if (SYS_ERR(n))
		return n;
	c = CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Anybody may listen at an abstract address; only our own user's answer is to be trusted. */
static int check_peer(int s)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	long ret = sys_call(__NR_getsockopt, s, SOL_SOCKET, SO_PEERCRED, &cred, &len);

	if (ret)
		return ret;
	return cred.uid == (uid_t)sys_call(__NR_geteuid) ? 0 : -EPERM;
}

int handover_request(const char *path, char what)
{
	struct timeval wait = { .tv_sec = 1 };
	struct sockaddr_un sa;
	socklen_t len = handover_address(&sa, path);
	int s = sys_call(__NR_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	long ret;

	if (s < 0)
		return s;
	sys_call(__NR_setsockopt, s, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	sys_call(__NR_setsockopt, s, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	ret = sys_call(__NR_connect, s, &sa, len);
	if (!ret)
		ret = check_peer(s);
	if (!ret)
		ret = sys_call(__NR_sendto, s, &what, 1, MSG_NOSIGNAL, 0, 0);
	if (ret >= 0)
		ret = receive_descriptor(s);
	sys_close(s);
	return ret;
}
