// SPDX-License-Identifier: GPL-2.0-or-later
/* 22: three counters behind one limit. mlock is per process; SHM_LOCK is per uid
 * (and per user namespace); two processes of one uid.
 * limits: memlock=65536.
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
#include <sys/ipc.h>
#include <sys/shm.h>

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

static int shm(size_t n)
{
	int id = shmget(IPC_PRIVATE, n, IPC_CREAT | 0600);
	int e = 0;
	if (id < 0) return errno;
	if (shmctl(id, SHM_LOCK, NULL)) e = errno;
	if (e) shmctl(id, IPC_RMID, NULL);
	return e ? e : -id - 1;
}
int main(void)
{
	char *p = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int a_ml = mlock(p, 16 * 4096) ? errno : 0;	/* A uses all of 64K */
	int a_id = shm(12 * 4096);			/* and 48K of locked shm */
	int a_sh = a_id < 0 ? 0 : a_id;
	fflush(stdout);
	pid_t c = fork();
	if (!c) {
		char *q = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		int b_ml = mlock(q, 16 * 4096) ? errno : 0;
		int big = shm(8 * 4096), small = shm(4 * 4096);
		printf("22 A mlock64K=%s shm48K=%s  B mlock64K=%s shm32K=%s shm16K=%s\n",
		       en(a_ml), en(a_sh), en(b_ml), big < 0 ? "ok" : en(big), small < 0 ? "ok" : en(small));
		fflush(stdout);
		if (big < 0) shmctl(-big - 1, IPC_RMID, NULL);
		if (small < 0) shmctl(-small - 1, IPC_RMID, NULL);
		_exit(0);
	}
	waitpid(c, NULL, 0);
	if (a_id < 0) shmctl(-a_id - 1, IPC_RMID, NULL);
	return 0;
}
