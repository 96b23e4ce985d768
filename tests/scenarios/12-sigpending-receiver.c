// SPDX-License-Identifier: GPL-2.0-or-later
/* 12: the receiver is charged and the receiver's limit decides, not the sender's
 * (senders see EAGAIN with their own ulimit -i huge).
 * limits: sigpending=64; the receiver lowers itself to 4.
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

/* value text of one line of /proc/<pid>/status */
static char *status(pid_t pid, const char *key, char *out, size_t n)
{
	char path[64], line[256];
	size_t k = strlen(key);
	snprintf(path, sizeof path, "/proc/%d/status", pid ? (int)pid : (int)getpid());
	FILE *f = fopen(path, "r");
	snprintf(out, n, "?");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, key, k) && line[k] == ':') {
			char *v = line + k + 1;
			v += strspn(v, " \t");
			v[strcspn(v, "\n")] = 0;
			snprintf(out, n, "%s", v);
		}
	if (f)
		fclose(f);
	return out;
}
static __attribute__((unused)) long status_l(pid_t pid, const char *key)
{
	char b[128];
	return atol(status(pid, key, b, sizeof b));
}

static void soft(int r, rlim_t v)
{
	struct rlimit l;
	getrlimit(r, &l);
	l.rlim_cur = v;
	if (setrlimit(r, &l))
		perror("setrlimit");
}

int main(void)
{
	int fd[2];
	char c, rq[64], sq[64];
	union sigval v = { 0 };
	if (pipe(fd)) return 2;
	pid_t r = fork();
	if (!r) {
		sigset_t s;
		sigemptyset(&s);
		sigaddset(&s, SIGRTMIN);
		sigprocmask(SIG_BLOCK, &s, NULL);
		soft(RLIMIT_SIGPENDING, 4);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(fd[1], "x", 1) != 1) _exit(1);
		for (;;) pause();
	}
	if (r < 0 || read(fd[0], &c, 1) != 1) return 2;
	int n = 0, e = 0;
	while (n < 1000 && !sigqueue(r, SIGRTMIN, v))
		n++;
	e = n < 1000 ? errno : 0;
	status(r, "SigQ", rq, sizeof rq);
	status(0, "SigQ", sq, sizeof sq);
	kill(r, SIGKILL);
	waitpid(r, NULL, 0);
	printf("12 sent=%d err=%s receiver_SigQ=%s sender_SigQ=%s\n", n, en(e), rq, sq);
	return 0;
}
