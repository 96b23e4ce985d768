// SPDX-License-Identifier: GPL-2.0-or-later
/* 07: LimitNPROC + PrivateUsers (systemd 22494, kernel bugzilla 215596), 5.15.12
 * failed this with EAGAIN at exec; a fixed kernel runs it.
 * start as root: set nproc=4 while still root, unshare user ns, become uid 47107, exec.
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

#define UID 47107
int main(void)
{
	int up[2], dn[2];
	char c;
	if (pipe(up) || pipe(dn)) return 2;
	pid_t b = fork();
	if (!b) {
		char *av[] = { "true", NULL }, *ev[] = { NULL };
		soft(RLIMIT_NPROC, 4);
		if (unshare(CLONE_NEWUSER)) _exit(40);
		if (write(up[1], "x", 1) != 1 || read(dn[0], &c, 1) != 1) _exit(41);
		if (setresgid(UID, UID, UID)) _exit(42);
		if (setresuid(UID, UID, UID)) _exit(errno == EAGAIN ? 43 : 44);
		execve("/bin/true", av, ev);
		_exit(errno == EAGAIN ? 11 : 12);
	}
	char p[64], m[64];
	int fd, st;
	if (read(up[0], &c, 1) != 1) return 2;
	snprintf(m, sizeof m, "0 0 1\n%d %d 1\n", UID, UID);
	for (int i = 0; i < 2; i++) {
		snprintf(p, sizeof p, "/proc/%d/%s", b, i ? "gid_map" : "uid_map");
		fd = open(p, O_WRONLY);
		if (fd < 0 || write(fd, m, strlen(m)) < 0) perror(p);
		close(fd);
	}
	if (write(dn[1], "x", 1) != 1) return 2;
	waitpid(b, &st, 0);
	int x = WEXITSTATUS(st);
	printf("07 exec=%s\n", x == 0 ? "ok" : x == 11 ? "EAGAIN" : x == 43 ? "setuid-EAGAIN" : "other");
	return 0;
}
