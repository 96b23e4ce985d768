// SPDX-License-Identifier: GPL-2.0-or-later
#include "common.h"
#define RT (SIGRTMIN)
#define LIM(n) rlim(RLIMIT_SIGPENDING, n, n)
static siginfo_t waitinfo(int sig)
{
	sigset_t s; siginfo_t i; struct timespec z = { 0, 0 };
	memset(&i, 0, sizeof i);
	sigemptyset(&s); sigaddset(&s, sig);
	i.si_signo = sigtimedwait(&s, &i, &z);
	return i;
}
static void show(siginfo_t i) { { res("[signo=%s", i.si_signo < 0 ? "none" : "yes"); res(" code=%d", i.si_code); res(" pid=%s", i.si_pid == getpid() ? "self" : i.si_pid ? "other" : "0"); res(" uid=%s] ", i.si_uid == getuid() ? "self" : i.si_uid ? "other" : "0"); } }
static void prep(int lim) { LIM(lim); drop(U); block_all(); }

static void s04(void) { prep(2); fillq(getpid(), RT, 9); res("kill(USR1)=%s ", rc(kill(getpid(), SIGUSR1))); res("SigQ=%s ", sigq(0)); show(waitinfo(SIGUSR1)); res("SigQ=%s", sigq(0)); }
static void s05(void) { prep(2); fillq(getpid(), RT, 9); res("sigqueue(USR1)=%s ", rc(sq(getpid(), SIGUSR1))); res("SigQ=%s ", sigq(0)); show(waitinfo(SIGUSR1)); }
static void s06(void) { prep(9); { res("kill x3 USR1: %s", rc(kill(getpid(), SIGUSR1))); res(" %s", rc(kill(getpid(), SIGUSR1))); res(" %s ", rc(sq(getpid(), SIGUSR1))); } res("SigQ=%s", sigq(0)); }
static void s07(void) { prep(9); for (int i = 0; i < 3; i++) kill(getpid(), RT); res("kill x3 RT SigQ=%s", sigq(0)); }
static void s08(void) { prep(9); fillq(getpid(), RT, 4); res("%s ", sigq(0)); for (int i = 0; i < 4; i++) { waitinfo(RT); res("%s ", sigq(0)); } }
static void s09(void) { LIM(9); drop(U); signal(RT, SIG_IGN); fillq(getpid(), RT, 3); res("ign-unblocked=%s ", sigq(0)); block1(RT); fillq(getpid(), RT, 3); res("ign-blocked=%s ", sigq(0)); signal(RT, SIG_IGN); res("after-sigaction-IGN=%s", sigq(0)); }
static void s10(void) { prep(2); fillq(getpid(), RT, 9); res("tgkill(RT+1)=%s ", rc(syscall(SYS_tgkill, getpid(), gettid(), RT + 1))); res("raise(RT+1)=%s ", en(raise(RT + 1) ? errno : 0)); res("pthread_kill(RT+1)=%s ", en(pthread_kill(pthread_self(), RT + 1))); res("SigQ=%s ", sigq(0)); show(waitinfo(RT + 1)); }
static long rtqi(pid_t p, int sig, int code) { siginfo_t i; memset(&i, 0, sizeof i); i.si_signo = sig; i.si_code = code; i.si_pid = getpid(); i.si_uid = getuid(); return syscall(SYS_rt_sigqueueinfo, p, sig, &i); }
static void s12(void) { prep(2); fillq(getpid(), RT, 9); res("SI_USER=%s ", rc(rtqi(getpid(), RT + 1, SI_USER))); show(waitinfo(RT + 1)); res("SI_QUEUE=%s ", rc(rtqi(getpid(), RT + 2, SI_QUEUE))); res("code5=%s ", rc(rtqi(getpid(), RT + 2, 5))); res("USR1/code5=%s ", rc(rtqi(getpid(), SIGUSR1, 5))); res("SigQ=%s", sigq(0)); }
static void nop(void *a) { (void)a; }
static void blockfn(void *a) { (void)a; block_all(); }
static void tgt2(void *a) { (void)a; block_all(); rlim(RLIMIT_SIGPENDING, 2, 2); }
static void tgtdrop(void *a) { (void)a; LIM(2); drop(U); block_all(); }
static void s15(void) { struct peer p = peer_start(tgtdrop, 0); int n = fillq(p.pid, RT, 9); { res("root->unpriv accepted=%d", n); res(" then %s", en(errno)); res(" target=%s", sigq(p.pid)); } kill(p.pid, SIGKILL); waitpid(p.pid, 0, 0); }
static void s16(void) { block_all(); rlim(RLIMIT_SIGPENDING, 0, 100); { res("root limit0 sigqueue=%s", rc(sq(getpid(), RT))); res(" kill(RT)=%s", rc(kill(getpid(), RT))); } }
static void q3(void *a) { (void)a; block_all(); fillq(getpid(), RT, 3); }
static void lim7(void *a) { (void)a; rlim(RLIMIT_SIGPENDING, 7, 7); q3(0); }
static void s20(void) { LIM(9); drop(U); block_all(); fillq(getpid(), RT, 5); rlim(RLIMIT_SIGPENDING, 2, 9); { res("SigQ=%s", sigq(0)); res(" sigqueue=%s ", rc(sq(getpid(), RT))); } for (int i = 0; i < 4; i++) waitinfo(RT); { res("after 4 dequeues %s", sigq(0)); res(" sigqueue=%s", rc(sq(getpid(), RT))); res(" SigQ=%s", sigq(0)); } }
static void s21(void) { prep(3); timer_t t[9]; int i, e = 0; struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 }; for (i = 0; i < 9; i++) if (timer_create(CLOCK_MONOTONIC, &ev, &t[i])) { e = errno; break; } { res("timer_create accepted=%d", i); res(" then %s", en(e)); res(" SigQ=%s ", sigq(0)); } timer_delete(t[0]); res("after delete %s", sigq(0)); }
static void s22(void) { prep(3); timer_t t; struct sigevent ev = { .sigev_notify = SIGEV_NONE }; res("SIGEV_NONE timer_create=%s ", rc(timer_create(CLOCK_MONOTONIC, &ev, &t))); res("SigQ=%s", sigq(0)); }
static void s24(void) { prep(9); fillq(getpid(), RT, 3); timer_t t; struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = RT }; timer_create(CLOCK_MONOTONIC, &ev, &t); res("before-exec %s after-exec ", sigq(0)); fflush(stdout); printf("sig-exec-keeps-pending: %s", out_buf); fflush(stdout); char *a[] = { "sh", "-c", "while read k v; do [ \"$k\" = SigQ: ] && echo \"$v\"; done < /proc/self/status", 0 }; execv("/bin/sh", a); }
static void q3exit(void) { block_all(); fillq(getpid(), RT, 3); _exit(0); }
static void own_a(void *a) { (void)a; drop(U); }
static void s27(void) { block_all(); LIM(9); struct peer p = peer_start(own_a, 0); setresuid(U, 0, 0); int n = fillq(getpid(), RT, 2); { res("as ruid=A queued %d", n); res(": A-peer=%s", sigq(p.pid)); res(" self=%s ", sigq(0)); } setresuid(U + 1, U + 1, U + 1); { res("after setresuid(B): A-peer=%s", sigq(p.pid)); res(" self=%s ", sigq(0)); } waitinfo(RT); { res("after 1 dequeue: A-peer=%s", sigq(p.pid)); res(" self=%s", sigq(0)); } kill(p.pid, SIGKILL); }
static void s29(void) { prep(0); struct itimerval it = { { 0, 0 }, { 0, 1000 } }; setitimer(ITIMER_REAL, &it, 0); usleep(20000); res("SIGALRM at limit 0: SigQ=%s ", sigq(0)); siginfo_t i = waitinfo(SIGALRM); res("code=%s", i.si_code == SI_KERNEL ? "SI_KERNEL" : "other"); }
static void tgtB(void *a) { (void)a; LIM(0); drop(U + 1); block_all(); }
static void s30(void) { struct peer p = peer_start(tgtB, 0); LIM(0); drop(U); block_all(); res("ESRCH=%s ", rc(sq(0x3fffff, RT))); res("sig65=%s ", rc(syscall(SYS_rt_sigqueueinfo, getpid(), 65, &(siginfo_t){ .si_signo = 65, .si_code = SI_QUEUE }))); res("sig0=%s ", rc(sq(getpid(), 0))); { res("other-uid-at-limit=%s", rc(sq(p.pid, RT))); res(" SigQ=%s", sigq(0)); } kill(p.pid, SIGKILL); close(p.go); }
static void *thr(void *a) { (void)a; for (;;) pause(); return 0; }
static void s32(void) { LIM(RLIM_INFINITY); drop(U); block_all(); res("SigQ=%s", sigq(0)); }
static void s33(void) { prep(9); kill(getpid(), SIGTSTP); res("TSTP pending %s ", sigq(0)); kill(getpid(), SIGCONT); res("then CONT %s", sigq(0)); }
static void s35(void) { setresuid(U, U + 1, U + 1); prctl(PR_SET_DUMPABLE, 1); block_all(); struct rlimit l; getrlimit(RLIMIT_SIGPENDING, &l); fillq(getpid(), RT, 2); res("ruid=A euid=B own SigQ count=%d", atoi(sigq(0))); }
static void s36(void) { prep(9); kill(getpid(), SIGUSR1); pthread_kill(pthread_self(), SIGUSR1); res("process+thread pending USR1 SigQ=%s", sigq(0)); }
static void s37(void) { LIM(5); drop(U); block1(RT); fillq(getpid(), RT, 5); sigset_t s; sigemptyset(&s); sigaddset(&s, RT); signal(RT, SIG_IGN); sigprocmask(SIG_UNBLOCK, &s, 0); res("IGN then unblock %s", sigq(0)); }
static void h(int s) { (void)s; }
static void s38(void) { LIM(5); drop(U); struct sigaction sa = { .sa_handler = h }; sigaction(RT, &sa, 0); block1(RT); fillq(getpid(), RT, 5); sigset_t s; sigemptyset(&s); sigaddset(&s, RT); sigprocmask(SIG_UNBLOCK, &s, 0); res("handler delivery releases: %s", sigq(0)); }
static void s39(void) { /* pending signals keep the (ns,uid) record alive after the last task of that uid left it */
	block_all(); LIM(9); int a[2], b[2]; pipe(a); pipe(b); char x; pid_t m = fork();
	if (!m) { block_all(); setresuid(U, 0, 0); fillq(getpid(), RT, 2); setresuid(U + 1, U + 1, U + 1); write(b[1], "r", 1); read(a[0], &x, 1); waitinfo(RT); waitinfo(RT); write(b[1], "r", 1); read(a[0], &x, 1); _exit(0); }
	read(b[0], &x, 1); usleep(50000);
	for (int k = 0; k < 2; k++) { pid_t c = fork(); if (!c) { drop(U); _exit(atoi(sigq(0))); } int st; waitpid(c, &st, 0); res(k ? "after its dequeue a new A process sees %d" : "all A tasks left; a new A process sees %d ", WEXITSTATUS(st)); write(a[1], "g", 1); if (!k) read(b[0], &x, 1); }
	waitpid(m, 0, 0); }
static void s40(void) { LIM(3); drop(U); block1(RT); pid_t c = fork(); if (!c) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); } res("queue 3 to child=%d ", fillq(c, RT, 9)); res("SigQ=%s ", sigq(0)); kill(c, SIGKILL); siginfo_t si; waitid(P_PID, c, &si, WEXITED | WNOWAIT); res("killed unreaped=%s ", sigq(0)); waitpid(c, 0, 0); res("reaped=%s", sigq(0)); }
static void *selfq(void *a) { (void)a; union sigval v = {0}; pthread_sigqueue(pthread_self(), RT, v); pthread_sigqueue(pthread_self(), RT, v); return 0; }
static void s41(void) { prep(9); pthread_t t; pthread_create(&t, 0, selfq, 0); pthread_join(t, 0); int i; for (i = 0; i < 100 && atoi(sigq(0)); i++) usleep(1000); res("thread with 2 private pending exited: SigQ=%s", sigq(0)); }
static const struct tcase cases[] = { {"sig-kill-std-over",s04},{"sig-sigqueue-std-over",s05},{"sig-std-coalesce",s06},{"sig-kill-rt-queues",s07},{"sig-dequeue-releases",s08},{"sig-ignored",s09},{"sig-tgkill-rt-over",s10}, {"sig-rtsigqueueinfo-codes",s12}, {"sig-root-to-unpriv",s15},{"sig-root-limit0",s16}, {"sig-lower-limit",s20},{"sig-timer-create",s21},{"sig-timer-sigev-none",s22}, {"sig-exec-keeps-pending",s24}, {"sig-setuid-keeps-old",s27}, {"sig-kernel-override",s29},{"sig-error-order",s30}, {"sig-unlimited",s32},{"sig-stop-cont-flush",s33}, {"sig-keyed-by-ruid",s35},{"sig-proc-and-thread",s36},{"sig-ign-unblock",s37},{"sig-handler-releases",s38}, {"sig-kill-target",s40},{"sig-thread-exit",s41},
};
MAIN(100000)
