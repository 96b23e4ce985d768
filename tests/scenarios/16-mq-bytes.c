// SPDX-License-Identifier: GPL-2.0-or-later
/* 16: mq_open EMFILE although only a few fds are open: bytes, not descriptors
 * (StackOverflow 32757046, posix_ipc 21/42, containers/qm 873).
 * limits: msgqueue=819200. default-size queues (10 x 8192), then 1-message queues.
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

int main(void)
{
	char nm[64];
	int n = 0, e = 0, small = 0;
	struct mq_attr d = { .mq_maxmsg = 10, .mq_msgsize = 8192 };
	struct mq_attr o = { .mq_maxmsg = 1, .mq_msgsize = 8192 };
	for (; n < 64; n++) {
		snprintf(nm, sizeof nm, "/kp16-%d-%d", getpid(), n);
		if (mq_open(nm, O_CREAT | O_EXCL | O_RDWR, 0600, &d) == (mqd_t)-1) { e = errno; break; }
	}
	int fd = open("/dev/null", O_RDONLY);
	int fde = fd < 0 ? errno : 0;
	for (; small < 64; small++) {
		snprintf(nm, sizeof nm, "/kp16s-%d-%d", getpid(), small);
		if (mq_open(nm, O_CREAT | O_EXCL | O_RDWR, 0600, &o) == (mqd_t)-1) break;
	}
	for (int i = 0; i < 64; i++) {
		snprintf(nm, sizeof nm, "/kp16-%d-%d", getpid(), i); mq_unlink(nm);
		snprintf(nm, sizeof nm, "/kp16s-%d-%d", getpid(), i); mq_unlink(nm);
	}
	printf("16 queues=%d err=%s plain_open=%s then_small=%d\n", n, en(e), en(fde), small);
	return 0;
}
