// SPDX-License-Identifier: GPL-2.0-or-later
/* 25: BPF maps: before 5.11 EPERM from RLIMIT_MEMLOCK, now charged to the memory
 * cgroup and the limit does not matter (libbpf 369, goebpf 45, redbpf 146).
 * start as root, memlock=4096.
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
#include <linux/bpf.h>
#include <sys/syscall.h>

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
	union bpf_attr a;
	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_ARRAY;
	a.key_size = 4;
	a.value_size = 4096;
	a.max_entries = 256;	/* 1 MiB */
	int fd = syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a);
	int e = fd < 0 ? errno : 0;
	fflush(stdout);
	pid_t c = fork();
	if (!c) {
		if (setresgid(47125, 47125, 47125) || setresuid(47125, 47125, 47125)) _exit(1);
		int f = syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a);
		printf("25 root_map1M=%s user_map1M=%s\n", en(e), f < 0 ? en(errno) : "ok");
		fflush(stdout);
		_exit(0);
	}
	waitpid(c, NULL, 0);
	return 0;
}
