/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared helpers for the native oracle programs (own code). */
#ifndef ORACLE_COMMON_H
#define ORACLE_COMMON_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <dirent.h>

/* A case must never signal more than the one process it means: a failed fork leaves -1 in a pid. */
static inline int kill_one(pid_t pid, int sig)
{
	if (pid <= 0) { errno = ESRCH; return -1; }
	return kill(pid, sig);
}
#define kill(pid, sig) kill_one(pid, sig)

static char out_buf[4096];
static int out_len;
static uid_t U;                 /* uid private to the running case; U+1..U+4 also free */

static void res(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	out_len += vsnprintf(out_buf + out_len, sizeof out_buf - out_len, fmt, ap);
	va_end(ap);
}
static const char *en(int e)
{
	static char b[8][16]; static int k;
	const char *n = e ? strerrorname_np(e) : "ok";
	k = (k + 1) & 7;
	snprintf(b[k], 16, "%s", n ? n : "E?");
	return b[k];
}
/* result of a libc-style call: "ok" or errno name */
static const char *rc(long r) { return r == -1 ? en(errno) : "ok"; }

static void drop(uid_t u)
{
	if (setresgid(u, u, u) || setresuid(u, u, u)) res("drop-failed(%s) ", en(errno));
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}
static void rlim(int r, rlim_t s, rlim_t h)
{
	struct rlimit l = { s, h };
	if (setrlimit(r, &l)) res("setrlimit(%d)=%s ", r, en(errno));
}
/* field of /proc/<pid>/status, value with leading blanks removed */
static const char *status(pid_t pid, const char *key)
{
	static char v[4][128]; static int k;
	char path[64], line[512]; FILE *f; size_t n = strlen(key);
	k = (k + 1) & 3; strcpy(v[k], "?");
	if (pid) snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	else strcpy(path, "/proc/self/status");
	f = fopen(path, "r"); if (!f) return v[k];
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, key, n) && line[n] == ':') {
			char *p = line + n + 1; p += strspn(p, " \t");
			p[strcspn(p, "\n")] = 0; snprintf(v[k], 128, "%s", p); break;
		}
	fclose(f); return v[k];
}
static const char *sigq(pid_t p) { return status(p, "SigQ"); }
static int wr(const char *path, const char *s)
{
	int fd = open(path, O_WRONLY), r, e;
	if (fd < 0) return -1;
	r = write(fd, s, strlen(s)); e = errno; close(fd); errno = e;
	return r < 0 ? -1 : 0;
}
static const char *rd(const char *path)
{
	static char b[8][256]; static int k; int fd = open(path, O_RDONLY), n;
	k = (k + 1) & 7; b[k][0] = 0;
	if (fd < 0) { snprintf(b[k], 256, "open:%s", en(errno)); return b[k]; }
	n = read(fd, b[k], 255); close(fd); if (n < 0) n = 0; b[k][n] = 0;
	b[k][strcspn(b[k], "\n")] = 0; return b[k];
}
/* unshare user ns and map own ids 1:1 as in_uid -> current euid */
static int newuser(int extra, unsigned in_uid)
{
	char m[64]; uid_t e = geteuid(); gid_t g = getegid();
	if (unshare(CLONE_NEWUSER | extra)) return -1;
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	wr("/proc/self/setgroups", "deny");
	snprintf(m, sizeof m, "%u %u 1\n", in_uid, (unsigned)e);
	if (wr("/proc/self/uid_map", m)) return -1;
	snprintf(m, sizeof m, "%u %u 1\n", in_uid, (unsigned)g);
	if (wr("/proc/self/gid_map", m)) return -1;
	return 0;
}
static void block_all(void) { sigset_t s; sigfillset(&s); sigprocmask(SIG_BLOCK, &s, 0); }
static void block1(int sig) { sigset_t s; sigemptyset(&s); sigaddset(&s, sig); sigprocmask(SIG_BLOCK, &s, 0); }
static int sq(pid_t p, int sig) { union sigval v = { .sival_int = 7 }; return sigqueue(p, sig, v); }
/* number of successful sigqueue() of sig to p, until the first failure (max n); errno kept */
static int fillq(pid_t p, int sig, int n) { int i; for (i = 0; i < n; i++) if (sq(p, sig)) break; return i; }

/* a helper child which runs fn(arg) then blocks until released; used for "other process" set-ups */
struct peer { pid_t pid; int go, done; };
static struct peer peer_start(void (*fn)(void *), void *arg)
{
	int a[2], b[2]; struct peer p; char c;
	if (pipe(a) || pipe(b)) { res("pipe "); }
	p.pid = fork();
	if (p.pid == 0) {
		close(a[1]); close(b[0]);
		fn(arg);
		write(b[1], "r", 1);
		while (read(a[0], &c, 1) > 0) { if (c == 'x') break; }
		_exit(0);
	}
	close(a[0]); close(b[1]); p.go = a[1]; p.done = b[0];
	if (p.pid > 0 && read(p.done, &c, 1) != 1) res("peer-died ");
	return p;
}
static void peer_release(struct peer *p) { write(p->go, "x", 1); }
static void peer_reap(struct peer *p) { peer_release(p); waitpid(p->pid, 0, 0); close(p->go); close(p->done); }

/* kill and reap what a case left behind: only processes of the case's own ten uids */
static void sweep(uid_t lo)
{
	for (int round = 0; round < 50; round++) {
		DIR *d = opendir("/proc"); struct dirent *e; int live = 0;
		while (d && (e = readdir(d))) {
			int pid = atoi(e->d_name); unsigned u;
			if (pid <= 0) continue;
			if (sscanf(status(pid, "Uid"), "%u", &u) == 1 && u >= lo && u < lo + 10) { kill(pid, SIGKILL); live++; }
		}
		if (d) closedir(d);
		while (waitpid(-1, 0, WNOHANG) > 0) ;
		if (!live) return;
		usleep(20000);
	}
}
struct tcase { const char *id; void (*fn)(void); };
static int run_cases(const struct tcase *t, int n, uid_t base, int argc, char **argv)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int i = 0; i < n; i++) {
		int want = argc < 2;
		for (int a = 1; a < argc; a++) if (!strcmp(argv[a], t[i].id)) want = 1;
		if (!want) continue;
		fflush(stdout);
		pid_t p = fork();
		if (p == 0) {
			alarm(20);
			signal(SIGPIPE, SIG_IGN);
			U = base + 10 * i;
			out_len = 0; out_buf[0] = 0;
			t[i].fn();
			while (out_len > 0 && out_buf[out_len - 1] == ' ') out_buf[--out_len] = 0;
			printf("%s: %s\n", t[i].id, out_buf);
			fflush(stdout);
			_exit(0);
		}
		int st; waitpid(p, &st, 0);
		if (WIFSIGNALED(st)) printf("%s: KILLED-BY-SIGNAL-%d\n", t[i].id, WTERMSIG(st));
		sweep(base + 10 * i);
	}
	return 0;
}
#define MAIN(base) int main(int c, char **v) { return run_cases(cases, sizeof cases / sizeof *cases, base, c, v); }
#endif
