// SPDX-License-Identifier: GPL-2.0-or-later
/* 42: SHM_LOCK goes through the ucounts tree, io_uring pages go to one flat per-kuid
 * number; both are compared with the caller's own limit. A parent cap of 64K does not
 * stop 22 pages of SHM_LOCK, see 45 for why.
 * limits: memlock=65536:131072 (soft 16 pages, hard 32).
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
#include <sys/ipc.h>
#include <sys/shm.h>
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

static int shmk(int pages)
{
	int id = shmget(IPC_PRIVATE, pages * 4096, IPC_CREAT | 0600), e = 0;
	if (id < 0) return errno;
	if (shmctl(id, SHM_LOCK, NULL)) e = errno;
	shmctl(id, IPC_RMID, NULL);	/* stays until the attach below goes away */
	return e;
}
static int shm_held(int pages)
{
	int id = shmget(IPC_PRIVATE, pages * 4096, IPC_CREAT | 0600), e = 0;
	if (id < 0) return errno;
	shmat(id, NULL, 0);
	if (shmctl(id, SHM_LOCK, NULL)) e = errno;
	shmctl(id, IPC_RMID, NULL);
	return e;
}
static int ring(int pages)
{
	struct io_uring_params p;
	memset(&p, 0, sizeof p);
	int fd = syscall(SYS_io_uring_setup, 8, &p);
	if (fd < 0) return errno;
	char *b;
	if (posix_memalign((void **)&b, 4096, pages * 4096)) return -1;
	memset(b, 1, pages * 4096);
	struct iovec v = { b, pages * 4096 };
	return syscall(SYS_io_uring_register, fd, 0, &v, 1) ? errno : 0;
}
int main(void)
{
	int a1 = ring(8), a2 = shm_held(10);
	fflush(stdout);
	pid_t c = fork();
	if (!c) {
		if (new_userns(0)) { printf("42 unshare %s\n", en(errno)); fflush(stdout); _exit(1); }
		soft(RLIMIT_MEMLOCK, 131072);
		int b1 = ring(12), b2 = shmk(12), b3 = shmk(6);
		printf("42 outside uring8=%s shm10=%s  inside_soft32 uring12=%s shm12=%s shm6=%s\n",
		       en(a1), en(a2), en(b1), en(b2), en(b3));
		fflush(stdout);
		_exit(0);
	}
	waitpid(c, NULL, 0);
	return 0;
}
