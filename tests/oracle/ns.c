// SPDX-License-Identifier: GPL-2.0-or-later
#include "common.h"
#include <sys/inotify.h>
#define RT SIGRTMIN
static void S(rlim_t n) { struct rlimit l; getrlimit(RLIMIT_SIGPENDING, &l); rlim(RLIMIT_SIGPENDING, n, l.rlim_max); }
static void nsq(void *a) { block_all(); newuser(0, 0); fillq(getpid(), RT, *(int *)a); }
static void n03(void) { drop(U); block_all(); S(20); int k = 5; struct peer p = peer_start(nsq, &k); fillq(getpid(), RT, 2); res("ns child queued 5, I queued 2: SigQ(child)=%s ", sigq(p.pid)); res("SigQ(me)=%s", sigq(0)); peer_reap(&p); sigset_t s; sigemptyset(&s); sigaddset(&s, SIGCHLD); struct timespec z = {0,0}; sigtimedwait(&s, 0, &z); res(" after child reaped %s", sigq(0)); }
static void n04(void) { drop(U); block_all(); S(3); newuser(0, 0); fillq(getpid(), RT, 9); res("at ns limit: kill(USR1)=%s ", rc(kill(getpid(), SIGUSR1))); res("SigQ=%s ", sigq(0)); sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR1); siginfo_t i; struct timespec z = {0,0}; sigtimedwait(&s, &i, &z); res("info=%s", i.si_pid == getpid() ? "kept" : "lost"); }
static void n06(void) { drop(U); block_all(); S(4); newuser(0, 0); S(10); res("nested newuser=%s ", rc(newuser(0, 0))); S(20); int n = fillq(getpid(), RT, 30); int e = errno; res("level2 (maxes 10 then 4): accepted=%d ", n); res("then %s ", en(e)); res("SigQ=%s", sigq(0)); }
static void unsh(void *a) { *(int *)a = unshare(CLONE_NEWUSER) ? errno : 0; }
static void n11(void) { drop(U); newuser(0, 0); wr("/proc/sys/user/max_user_namespaces", "0"); res("max_user=0: unshare=%s ", rc(unshare(CLONE_NEWUSER))); pid_t p = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); if (!p) _exit(0); res("clone=%s ", p < 0 ? en(errno) : "ok"); const char *f[] = { "uts", "ipc", "net", "mnt", "pid", "cgroup", "time" }; int fl[] = { CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, 0x02000000, 0x80 }; for (int i = 0; i < 7; i++) { char path[80]; snprintf(path, 80, "/proc/sys/user/max_%s_namespaces", f[i]); wr(path, "0"); res("%s=", f[i]); res("%s ", rc(unshare(fl[i]))); } }
static void n12(void) { drop(U); newuser(0, 0); wr("/proc/sys/user/max_uts_namespaces", "1"); res("uts 1st=%s ", rc(unshare(CLONE_NEWUTS))); res("2nd(1st still held until replaced)=%s ", rc(unshare(CLONE_NEWUTS))); res("3rd=%s", rc(unshare(CLONE_NEWUTS))); }
static void *thr(void *a) { pause(); return a; }
static void n13(void) { drop(U); pthread_t t; pthread_create(&t, 0, thr, 0); res("multithreaded unshare(NEWUSER)=%s ", rc(unshare(CLONE_NEWUSER))); pid_t p = syscall(SYS_clone, CLONE_NEWUSER | CLONE_FS | SIGCHLD, 0, 0, 0, 0); if (!p) _exit(0); res("clone(NEWUSER|FS)=%s ", p < 0 ? en(errno) : "ok"); p = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); if (!p) _exit(0); res("clone(NEWUSER)=%s", p < 0 ? en(errno) : "ok"); }
static void n15(void) { drop(U); res("unshare no map=%s ", rc(unshare(CLONE_NEWUSER))); res("nested without mapping=%s", rc(unshare(CLONE_NEWUSER))); }
static void n16(void) { res("chroot=%s ", rc(chroot("/tmp"))); res("unshare in chroot=%s", rc(unshare(CLONE_NEWUSER))); }
static void nsonly(void *a) { (void)a; newuser(0, 0); }
static void n18(void) { /* root creates ns with a range; two kuids inside */
	block_all(); S(10); int a[2], b[2]; pipe(a); pipe(b); pid_t c = fork(); char x;
	if (!c) { block_all(); unshare(CLONE_NEWUSER); write(b[1], "r", 1); read(a[0], &x, 1); setresgid(1, 1, 1); setresuid(1, 1, 1); prctl(PR_SET_DUMPABLE, 1); fillq(getpid(), RT, 2); write(b[1], "r", 1); read(a[0], &x, 1); setresuid(2, 2, 2); _exit(0); }
	read(b[0], &x, 1); char f[64], m[64]; snprintf(f, 64, "/proc/%d/uid_map", c); snprintf(m, 64, "0 %u 10\n", (unsigned)U); res("map=%s ", rc(wr(f, m))); snprintf(f, 64, "/proc/%d/gid_map", c); wr(f, m); int before = atoi(sigq(0)); write(a[1], "g", 1); read(b[0], &x, 1); res("ns uid1 queued 2: SigQ(it)=%s ", sigq(c)); res("root(owner) count delta=%d ", atoi(sigq(0)) - before);
	pid_t d = fork(); if (!d) { drop(U + 1); _exit(atoi(sigq(0))); } int st; waitpid(d, &st, 0); res("init-ns process with same kuid sees %d", WEXITSTATUS(st)); write(a[1], "g", 1); waitpid(c, 0, 0); }
static void n20(void) { drop(U); block_all(); S(5); struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 }; newuser(0, 0); S(20); int i, e = 0; timer_t t; for (i = 0; i < 20; i++) if (timer_create(CLOCK_MONOTONIC, &ev, &t)) { e = errno; break; } res("ns creation 5, soft 20: timers=%d ", i); res("%s", en(e)); }
static void n23(void) { res("init max_user_namespaces=%s ", rd("/proc/sys/user/max_user_namespaces")); res("threads-max=%s ", rd("/proc/sys/kernel/threads-max")); struct rlimit l; getrlimit(RLIMIT_NPROC, &l); res("NPROC=%ld/", (long)l.rlim_cur); res("%ld ", (long)l.rlim_max); getrlimit(RLIMIT_SIGPENDING, &l); res("SIGPENDING=%ld ", (long)l.rlim_cur); getrlimit(RLIMIT_MSGQUEUE, &l); res("MSGQUEUE=%ld ", (long)l.rlim_cur); getrlimit(RLIMIT_MEMLOCK, &l); res("MEMLOCK=%ld ", (long)l.rlim_cur); res("CapEff=%s", status(0, "CapEff")); }
static void race(int nested, int limit)
{
	int pf[2]; pipe(pf); char c; long tot = 0; int d = 0; pid_t w[8];
	struct peer t = { 0 }; int k0 = 0; (void)k0;
	drop(U); block_all(); S(limit);
	int tg[2]; pipe(tg);
	for (int i = 0; i < 8; i++) if (!(w[i] = fork())) {
		block_all(); if (nested) { newuser(0, 0); S(96364); }
		char x; read(tg[0], &x, 1);
		int n = fillq(getpid(), RT, limit * 2); write(pf[1], &n, sizeof n); for (;;) pause();
	}
	usleep(100000); write(tg[1], "gggggggg", 8);
	while (d < 8) { int n; if (read(pf[0], &n, sizeof n) != sizeof n) break; tot += n; d++; }
	res("8 procs race, limit %d: ", limit); res("accepted total=%ld ", tot); res("my SigQ=%s", sigq(0));
	for (int i = 0; i < 8; i++) kill(w[i], 9);
	(void)c; (void)t;
}
static void n27(void) { drop(U); newuser(0, 0); res("max_inotify_instances=%s ", rd("/proc/sys/user/max_inotify_instances")); wr("/proc/sys/user/max_inotify_instances", "1"); wr("/proc/sys/user/max_inotify_watches", "1"); int f = inotify_init(); res("1st=%s ", rc(f)); res("2nd=%s ", rc(inotify_init())); res("watch1=%s ", rc(inotify_add_watch(f, "/tmp", IN_OPEN))); res("watch2=%s", rc(inotify_add_watch(f, "/", IN_OPEN))); }
static void n28(void) { drop(U); block_all(); S(4); newuser(0, 0); S(3); res("ns soft 3 then nested: %s ", rc(newuser(0, 0))); S(20); int n = fillq(getpid(), RT, 9); res("accepted=%d (min of 3,4)", n); }
static void n29(void) { drop(U); block_all(); S(6); int k = 3; struct peer p = peer_start(nsq, &k); int ok = 0; ok = fillq(p.pid, RT, 20); int e = errno; res("child ns 3 queued; parent->child more=%d ", ok); res("%s; ", en(e)); res("parent->self=%s ", rc(sq(getpid(), RT))); res("SigQ me=%s ", sigq(0)); kill(p.pid, 9); waitpid(p.pid, 0, 0); sigset_t s; sigemptyset(&s); sigaddset(&s, SIGCHLD); struct timespec z = {0,0}; sigtimedwait(&s, 0, &z); res("after kill+reap %s", sigq(0)); }
static void n31(void) { drop(U); block_all(); S(5); newuser(0, 0); struct rlimit l = { 2, 5 }; (void)l; int k = 4; struct peer p = peer_start(nsq, &k); res("grandchild queued (ask 4): %s ", sigq(p.pid)); res("child(ns1)=%s ", sigq(0)); int n = fillq(getpid(), RT, 9); int e = errno; res("child more=%d ", n); res("%s", en(e)); kill(p.pid, 9); close(p.go); }
static const struct tcase cases[] = { {"ns-sig-parent-sees-child",n03},{"ns-sig-std-override",n04}, {"ns-sig-nested-two",n06}, {"ns-max-zero",n11},{"ns-uts-replace",n12},{"ns-multithread",n13}, {"ns-unmapped",n15},{"ns-chroot",n16}, {"ns-timer",n20}, {"init-defaults",n23}, {"ns-inotify",n27},{"ns-sig-nested-inner-smaller",n28},{"ns-sig-mixed",n29}, {"ns-sig-three-levels",n31},
};
MAIN(140000)
