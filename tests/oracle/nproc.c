// SPDX-License-Identifier: GPL-2.0-or-later
#include "common.h"
#include <spawn.h>
extern char **environ;
static void P(rlim_t n) { struct rlimit l; getrlimit(RLIMIT_NPROC, &l); rlim(RLIMIT_NPROC, n, l.rlim_max); }
static pid_t kids[256]; static int nk;
/* fork sleeping children until failure or max */
static int forkfill(int max) { int i; for (i = 0; i < max; i++) { pid_t p = fork(); if (p < 0) break; if (!p) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); } kids[nk++] = p; } return i; }
static void killall_kids(void) { while (nk) { kill(kids[--nk], SIGKILL); waitpid(kids[nk], 0, 0); } }
static const char *fk(void) { pid_t p = fork(); if (p < 0) return en(errno); if (!p) _exit(0); waitpid(p, 0, 0); return "ok"; }
static void *tsleep(void *a) { (void)a; pause(); return 0; }
static void *tret(void *a) { return a; }
static const char *tc(void) { pthread_t t; int e = pthread_create(&t, 0, tret, 0); if (!e) pthread_join(t, 0); return en(e); }

static void p01(void) { drop(U); P(3); int n = forkfill(9); int e = errno; res("limit3: forks=%d ", n); res("then %s", en(e)); killall_kids(); }
static void p02(void) { drop(U); P(2); pid_t p = fork(); if (!p) _exit(0); siginfo_t si; waitid(P_PID, p, &si, WEXITED | WNOWAIT); res("zombie unreaped: fork=%s ", fk()); waitpid(p, 0, 0); res("reaped: fork=%s", fk()); }
static void p03(void) { drop(U); P(3); pthread_t t[9]; int i, e = 0; for (i = 0; i < 9; i++) if ((e = pthread_create(&t[i], 0, tsleep, 0))) break; res("limit3: threads=%d ", i); res("then %s ", en(e)); res("fork=%s ", fk()); res("Threads=%s", status(0, "Threads")); }
static void p04(void) { drop(U); P(2); int i; for (i = 0; i < 50; i++) { const char *s = tc(); if (strcmp(s, "ok")) { { res("[%d", i); res(":%s] ", s); } usleep(20000); } } res("create+join x50 at limit 2 done"); }
static void p05(void) { P(0); res("root limit0 fork=%s ", fk()); res("thread=%s", tc()); }
static void p06(void) { setresuid(U, 0, 0); P(0); res("ruid=A euid=0 (CAP_SYS_ADMIN) limit0 fork=%s", fk()); }
static void p07(void) { setresuid(U, U + 1, U + 1); P(1); struct peer; res("ruid=A euid=B limit1 fork=%s", fk()); }
static void p09(void) { drop(U); P(0); res("limit0 fork=%s ", fk()); res("thread=%s ", tc()); pid_t p; char *a[] = { "true", 0 }; int e = posix_spawn(&p, "/bin/true", 0, 0, a, environ); res("posix_spawn=%s ", en(e)); p = vfork(); if (p == 0) _exit(0); res("vfork=%s ", p < 0 ? en(errno) : "ok"); struct { unsigned long long f[11]; } ca; memset(&ca, 0, sizeof ca); ca.f[4] = SIGCHLD; long r = syscall(435, &ca, sizeof ca); if (r == 0) _exit(0); res("clone3=%s", r < 0 ? en(errno) : "ok"); }
static void sleepA(void *a) { (void)a; drop(U); }
/* setuid to a uid with k processes already there, limit 2; then exec */
static void setexec(const char *id, int k, int mode)
{
	struct peer pe[8]; for (int i = 0; i < k; i++) pe[i] = peer_start(sleepA, 0);
	int pfd[2]; pipe(pfd);
	pid_t c = fork();
	if (!c) {
		char b[200]; int n = 0; P(2); int r = mode == 6 ? setresuid(U, 0, 0) : setresuid(U, U, U); n += sprintf(b + n, "setresuid=%s ", r ? en(errno) : "ok");
		if (mode == 1) { char x; read(pfd[0], &x, 1); }
		if (mode == 2) { P(50); n += sprintf(b + n, "raised "); }
		if (mode == 3) { P(50); fk(); P(2); n += sprintf(b + n, "fork-ok-clears "); }
		if (mode == 5) { P(50); pid_t g = fork(); if (g) { int s; waitpid(g, &s, 0); _exit(WEXITSTATUS(s)); } P(2); n += sprintf(b + n, "in a child forked after raising, limit 2 again: "); }
		if (mode == 4) { n += sprintf(b + n, "fork=%s ", fk()); }
		char *a[] = { "true", 0 }; int fd = open("/dev/null", O_WRONLY | O_CLOEXEC); (void)fd;
		int ep[2]; (void)ep;
		out_len = 0; res("%s", b);
		dprintf(1, "%s: %d procs of A, limit 2: %sexec=", id, k, out_buf);
		execv("/bin/true", a);
		dprintf(1, "%s ", en(errno)); _exit(1);
	}
	if (mode == 1) { usleep(50000); peer_reap(&pe[0]); peer_reap(&pe[1]); write(pfd[1], "x", 1); }
	int st; waitpid(c, &st, 0); res("%s", WEXITSTATUS(st) == 0 ? "(exec ran)" : "(exec refused)");
	for (int i = (mode == 1) ? 2 : 0; i < k; i++) peer_reap(&pe[i]);
	printf("%s\n", out_buf); fflush(stdout); _exit(0);
}
static void p10(void) { setexec("nproc-setuid-exec-at", 2, 0); }
static void p11(void) { setexec("nproc-setuid-exec-over", 3, 0); }
static void p13(void) { setexec("nproc-setuid-exec-raised", 3, 2); }
static void p14(void) { setexec("nproc-setuid-exec-forkclears", 3, 3); }
static void p14d(void) { setexec("nproc-setuid-exec-caps-kept", 3, 6); }
static void p15(void) { drop(U); P(9); forkfill(3); P(1); pid_t c; res("4 procs, limit lowered to 1, no setuid: "); P(9); c = fork(); if (!c) { P(1); char *a[] = { "true", 0 }; execv("/bin/true", a); _exit(9); } int st; waitpid(c, &st, 0); res("exec=%s", WEXITSTATUS(st) == 0 ? "ok" : "EAGAIN"); killall_kids(); }
static void nsfork(void *a) { (void)a; newuser(0, 0); forkfill(2); }
static void p18(void) { struct rlimit l; getrlimit(RLIMIT_NPROC, &l); P(2); res("root creates ns (uid0,init ns => max INFINITY): unshare=%s ", rc(unshare(CLONE_NEWUSER))); res("uid now overflow=%d ", getuid() == 65534); P(4); int n = forkfill(9); int e = errno; res("soft 4 unmapped: forks=%d ", n); res("%s", n < 9 ? en(e) : "-"); killall_kids(); }
static void p20(void) { drop(U); P(2); for (int i = 0; i < 1; i++) forkfill(1); int bad = 0; for (int i = 0; i < 200; i++) { pid_t p = fork(); if (p == 0) _exit(0); if (p > 0) bad++; } killall_kids(); res("200 failed forks (unexpected ok=%d) then ", bad); res("fork=%s", fk()); }
static void dropB(void *a) { (void)a; drop(U + 1); }
static void p23(void) { drop(U); P(4); forkfill(2); pid_t c = fork(); if (!c) { for (;;) pause(); } pid_t d = fork(); res("at limit: %s ", d < 0 ? en(errno) : "ok"); if (d == 0) _exit(0); kill(c, 9); waitid(P_PID, c, &(siginfo_t){0}, WEXITED | WNOWAIT); res("killed not reaped: %s ", fk()); waitpid(c, 0, 0); res("reaped: %s", fk()); killall_kids(); }
static void p25(void) { struct peer a = peer_start(sleepA, 0); setresuid(U, 0, 0); P(1); res("ruid=A(2 procs) euid=0: fork=%s ", fk()); setresuid(U, U, U); res("after dropping: fork=%s", fk()); kill(a.pid, 9); close(a.go); }
static void p28(void) { drop(U); P(2); char st[16384]; (void)st; pid_t p = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); if (p == 0) { pause(); _exit(0); } res("clone(NEWUSER)=%s ", p < 0 ? en(errno) : "ok"); res("then fork=%s", fk()); kill(p, 9); waitpid(p, 0, 0); res(" after reap=%s", fk()); }
static void p30(void) { /* real-uid change moves the charge */
	int a[2], b[2]; pipe(a); pipe(b); char x; pid_t m = fork();
	if (!m) { setresuid(U, 0, 0); write(b[1], "r", 1); read(a[0], &x, 1); setresuid(U + 1, 0, 0); write(b[1], "r", 1); read(a[0], &x, 1); setresuid(U + 1, U, 0); write(b[1], "r", 1); pause(); }
	read(b[0], &x, 1); pid_t w = fork(); if (!w) { drop(U); P(2); res("A has 2: fork=%s ", fk()); write(a[1], "g", 1); read(b[0], &x, 1); res("mover took ruid B: fork=%s ", fk()); write(a[1], "g", 1); read(b[0], &x, 1); res("mover euid=A ruid=B: fork=%s", fk()); printf("nproc-ruid-change-moves: %s\n", out_buf); fflush(stdout); _exit(0); }
	waitpid(w, 0, 0); kill(m, 9); waitpid(m, 0, 0); _exit(0); }
static void nsstay(void *a) { (void)a; newuser(0, 0); }
static void p31(void) { drop(U); P(4); struct peer p = peer_start(nsstay, 0); char f[64]; snprintf(f, 64, "/proc/%d/ns/user", p.pid); int fd = open(f, O_RDONLY); res("setns=%s ", rc(setns(fd, CLONE_NEWUSER))); P(2); res("leaf now 2 (peer+me), soft 2: fork=%s ", fk()); P(3); res("soft 3: fork=%s ", fk()); P(50); int n = forkfill(9); res("soft 50, creator max 4: forks=%d", n); killall_kids(); kill(p.pid, 9); close(p.go); }
static void p32(void)
{
	int pf[2], go[2]; pid_t g[8]; int k = 0, d = 0; char c;
	drop(U); P(40); pipe(pf); pipe(go);
	for (int w = 0; w < 8; w++) {
		g[w] = fork();
		if (g[w] < 0) { res("setup fork failed"); return; }
		if (!g[w]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			read(go[0], &c, 1);
			for (int i = 0; i < 40; i++) { pid_t q = fork(); if (q == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); } if (q > 0) write(pf[1], "k", 1); }
			write(pf[1], "d", 1); for (;;) pause();
		}
	}
	write(go[1], "gggggggg", 8);
	while (d < 8 && read(pf[0], &c, 1) == 1) { if (c == 'k') k++; else d++; }
	res("8 forkers race to limit 40: total procs %s", 1 + 8 + k > 40 ? "over the limit" : 1 + 8 + k >= 33 ? "33..40" : "below 33");
	if (getenv("ORACLE_VERBOSE")) res(" (%d)", 1 + 8 + k);
	for (int w = 0; w < 8; w++) { kill(g[w], SIGKILL); waitpid(g[w], 0, 0); }
}
static const struct tcase cases[] = {
 {"nproc-limit",p01},{"nproc-zombie",p02},{"nproc-threads",p03},{"nproc-thread-join",p04},{"nproc-root",p05},{"nproc-cap-exempt",p06},{"nproc-keyed-by-ruid",p07}, {"nproc-limit0-all-apis",p09},{"nproc-setuid-exec-at",p10},{"nproc-setuid-exec-over",p11}, {"nproc-setuid-exec-raised",p13},{"nproc-setuid-exec-forkclears",p14}, {"nproc-setuid-exec-caps-kept",p14d},{"nproc-exec-noflag",p15}, {"nproc-userns-by-root",p18}, {"nproc-fail-no-leak",p20}, {"nproc-kill-reap",p23}, {"nproc-euid0-drop",p25}, {"nproc-clone-newuser",p28}, {"nproc-setns-moves",p31}, 
};
MAIN(130000)
