// SPDX-License-Identifier: GPL-2.0-or-later
/* 18: three different limits, two errnos: RLIMIT_NOFILE and RLIMIT_MSGQUEUE both
 * give EMFILE, fs.mqueue.queues_max gives ENOSPC (containers/qm 874).
 * limits: msgqueue=819200. uses its own user+ipc namespace for queues_max.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <mqueue.h>

static __attribute__((unused)) const char *en(int e)
{
	switch (e) {
	case 0: return "ok";
	case EAGAIN: return "EAGAIN";
	case ENOMEM: return "ENOMEM";
	case EMFILE: return "EMFILE";
	case EPERM: return "EPERM";
	case ENOSPC: return "ENOSPC";
	case EINVAL: return "EINVAL";
	case ENOSYS: return "ENOSYS";
	case EEXIST: return "EEXIST";
	case EACCES: return "EACCES";
	default: return strerror(e);
	}
}

static void soft(int r, rlim_t v)
{
	struct rlimit l;
	getrlimit(r, &l);
	l.rlim_cur = v;
	if (setrlimit(r, &l))
		perror("setrlimit");
}

/* new user namespace, caller's uid mapped to root inside */
static int new_userns(int extra)
{
	char b[64];
	int u = geteuid(), g = getegid(), fd;
	if (unshare(CLONE_NEWUSER | extra))
		return -1;
	if ((fd = open("/proc/self/setgroups", O_WRONLY)) >= 0) {
		if (write(fd, "deny", 4) < 0) perror("setgroups");
		close(fd);
	}
	snprintf(b, sizeof b, "0 %d 1", u);
	fd = open("/proc/self/uid_map", O_WRONLY);
	if (fd < 0 || write(fd, b, strlen(b)) < 0)
		return -1;
	close(fd);
	snprintf(b, sizeof b, "0 %d 1", g);
	fd = open("/proc/self/gid_map", O_WRONLY);
	if (fd < 0 || write(fd, b, strlen(b)) < 0)
		return -1;
	close(fd);
	return 0;
}

static int mk(const char *t, int i)
{
	char nm[64];
	struct mq_attr a = { .mq_maxmsg = 1, .mq_msgsize = 64 };
	snprintf(nm, sizeof nm, "/kp18%s-%d-%d", t, getpid(), i);
	mqd_t q = mq_open(nm, O_CREAT | O_EXCL | O_RDWR, 0600, &a);
	return q == (mqd_t)-1 ? errno : 0;
}
int main(void)
{
	int e_fd, e_by, e_q = 0, n = 0;
	struct mq_attr big = { .mq_maxmsg = 10, .mq_msgsize = 8192 };
	char nm[64];
	if (new_userns(CLONE_NEWIPC)) { printf("18 unshare %s\n", en(errno)); return 1; }
	soft(RLIMIT_NOFILE, 3);
	e_fd = mk("f", 0);
	soft(RLIMIT_NOFILE, 256);
	soft(RLIMIT_MSGQUEUE, 1000);
	snprintf(nm, sizeof nm, "/kp18b-%d", getpid());
	e_by = mq_open(nm, O_CREAT | O_EXCL | O_RDWR, 0600, &big) == (mqd_t)-1 ? errno : 0;
	soft(RLIMIT_MSGQUEUE, 819200);
	int fd = open("/proc/sys/fs/mqueue/queues_max", O_WRONLY);
	int we = fd < 0 || write(fd, "4", 1) != 1 ? errno : 0;
	while (n < 16 && !(e_q = mk("q", n)))
		n++;
	printf("18 nofile=%s bytes=%s queues_max_write=%s queues=%d err=%s\n",
	       en(e_fd), en(e_by), en(we), n, en(e_q));
	return 0;
}
