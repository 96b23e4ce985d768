// SPDX-License-Identifier: GPL-2.0-or-later
/* 23: io_uring ENOMEM: rings and registered buffers are charged per uid
 * (liburing 93, 365, 157, 498, 1408).
 * limits: memlock=65536. raw syscalls, no liburing.
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
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

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

static int setup(unsigned n)
{
	struct io_uring_params p;
	memset(&p, 0, sizeof p);
	return syscall(SYS_io_uring_setup, n, &p);
}
int main(void)
{
	int fd[64], n = 0, e = 0;
	fd[0] = setup(8);
	if (fd[0] < 0) { printf("23 setup=%s\n", en(errno)); return 0; }
	char *b;
	if (posix_memalign((void **)&b, 4096, 64 * 4096)) return 2;
	memset(b, 1, 64 * 4096);
	struct iovec v = { b, 20 * 4096 };
	int r20 = syscall(SYS_io_uring_register, fd[0], 0 /* BUFFERS */, &v, 1) ? errno : 0;
	v.iov_len = 8 * 4096;
	int r8 = syscall(SYS_io_uring_register, fd[0], 0, &v, 1) ? errno : 0;
	fflush(stdout);
	/* an unrelated process of the same uid */
	pid_t c = fork();
	if (!c) {
		int f = setup(8);
		int se = f < 0 ? errno : 0;
		struct iovec w = { b, 12 * 4096 };
		int re = f < 0 ? -1 : syscall(SYS_io_uring_register, f, 0, &w, 1) ? errno : 0;
		printf("23 A reg20p=%s reg8p=%s B setup=%s reg12p=%s\n", en(r20), en(r8), en(se), re < 0 ? "-" : en(re));
		fflush(stdout);
		_exit(0);
	}
	waitpid(c, NULL, 0);
	close(fd[0]);
	usleep(300000);
	while (n < 64 && (fd[n] = setup(8)) >= 0)
		n++;
	e = n < 64 ? errno : 0;
	printf("23 rings8=%d err=%s\n", n, en(e));
	return 0;
}
