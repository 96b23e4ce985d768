// SPDX-License-Identifier: GPL-2.0-or-later
#include "common.h"
static char nm[64];
static const char *name(int i) { snprintf(nm, sizeof nm, "/orc%d_%d_%d", (int)U, (int)getpid(), i); return nm; }
static mqd_t mo(int i, long maxmsg, long msgsize) { struct mq_attr a = { .mq_maxmsg = maxmsg, .mq_msgsize = msgsize }; return mq_open(name(i), O_CREAT | O_EXCL | O_RDWR, 0600, &a); }
static mqd_t md(int i) { return mq_open(name(i), O_CREAT | O_EXCL | O_RDWR, 0600, NULL); }
static void mu(int i) { mq_unlink(name(i)); }
static void M(rlim_t n) { struct rlimit l; getrlimit(RLIMIT_MSGQUEUE, &l); rlim(RLIMIT_MSGQUEUE, n, l.rlim_max); }
/* smallest soft limit with which mq_open(maxmsg,msgsize) works, from an otherwise idle uid */
static long charge(long mm, long ms)
{
	long lo = 0, hi = 819200;
	while (lo < hi) { long mid = (lo + hi) / 2; M(mid); mqd_t d = mo(1, mm, ms); if (d != (mqd_t)-1) { mq_close(d); mu(1); hi = mid; } else lo = mid + 1; }
	return lo;
}
static void q02(void) { drop(U); M(97); res("limit97:%s ", rc(mo(1, 1, 1))); res("second:%s ", rc(mo(2, 1, 1))); mu(1); mu(2); }
static void q03(void) { drop(U); M(96); res("limit96:%s", rc(mo(1, 1, 1))); }
static void q04(void) { drop(U); int i; for (i = 0; i < 40; i++) if (md(i) == (mqd_t)-1) break; { res("default-attr queues=%d", i); res(" then %s (limit 819200)", en(errno)); } struct mq_attr a; mqd_t d = mq_open(name(0), O_RDONLY); mq_getattr(d, &a); { res(" attr=%ld", a.mq_maxmsg); res("/%ld", a.mq_msgsize); } while (i--) mu(i); }
static void q06(void) { drop(U); M(0); { res("limit0 valid=%s", rc(mo(1, 1, 1))); res(" invalid(maxmsg11)=%s", rc(mo(1, 11, 1))); } }
static void mkone(void *a) { (void)a; M(97); mo(1, 1, 1); }
static void q08(void) { drop(U); struct peer p = peer_start(mkone, 0); M(97); res("same uid, peer owns 97: mine=%s ", rc(mo(2, 1, 1))); pid_t pp = p.pid; peer_reap(&p); res("after peer exit(no unlink)=%s ", rc(mo(2, 1, 1))); snprintf(nm, 64, "/orc%d_%d_%d", (int)U, (int)pp, 1); mq_unlink(nm); res("after unlink=%s", rc(mo(2, 1, 1))); mu(2); }
static void q09(void) { M(0); res("root limit0=%s ", rc(mo(1, 1, 1))); M(819200); res("root limit819200=%s", rc(mo(1, 1, 1))); mu(1); }
static void q10(void) { drop(U); mo(1, 1, 1); M(0); res("EEXIST at limit0=%s ", rc(mo(1, 1, 1))); res("open existing at limit0=%s ", rc(mq_open(name(1), O_RDWR))); res("O_CREAT existing=%s", rc(mq_open(name(1), O_RDWR | O_CREAT, 0600, NULL))); mu(1); }
static void q11(void) { drop(U); { res("noslash=%s", rc(mq_open("abc", O_CREAT | O_RDWR, 0600, NULL))); res(" slash2=%s", rc(mq_open("/a/b", O_CREAT | O_RDWR, 0600, NULL))); res(" empty=%s ", rc(mq_open("/", O_CREAT | O_RDWR, 0600, NULL))); } char b[300]; memset(b, 'x', 299); b[0] = '/'; b[299] = 0; res("toolong=%s ", rc(mq_open(b, O_CREAT | O_RDWR, 0600, NULL))); { res("ENOENT=%s", rc(mq_open("/nonexist_zz", O_RDWR))); res(" unlink=%s", rc(mq_unlink("/nonexist_zz"))); } }
static void q12(void) {
	unshare(CLONE_NEWIPC | CLONE_NEWNS); mkdir("/tmp/orc_mq", 0777); system("mount --make-rprivate / 2>/dev/null; mount -t mqueue none /tmp/orc_mq");
	mqd_t d = mo(1, 3, 50); char f[128]; snprintf(f, sizeof f, "/tmp/orc_mq%s", name(1)); res("empty='%s' ", rd(f)); mq_send(d, "hello", 5, 1); mq_send(d, "hi", 2, 2); res("2msgs='%s' ", rd(f));
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 }; res("notify=%s ", rc(mq_notify(d, &ev))); char *p = strdup(rd(f)); char *q = strstr(p, "NOTIFY_PID:"); res("sig='%.*s' pid=%s", (int)(q - p), p, atoi(q + 11) == getpid() ? "self" : "other"); struct stat st; stat(f, &st); res(" st_size=%ld", (long)st.st_size); }
static void q13(void) {
	unshare(CLONE_NEWIPC); { res("defaults msg_max=%s", rd("/proc/sys/fs/mqueue/msg_max")); res(" msgsize_max=%s", rd("/proc/sys/fs/mqueue/msgsize_max")); res(" queues_max=%s", rd("/proc/sys/fs/mqueue/queues_max")); res(" msg_default=%s", rd("/proc/sys/fs/mqueue/msg_default")); res(" msgsize_default=%s ", rd("/proc/sys/fs/mqueue/msgsize_default")); }
	res("set queues_max=2:%s ", rc(wr("/proc/sys/fs/mqueue/queues_max", "2"))); drop(U); mqd_t d1 = mo(1, 1, 1); { res("1=%s", rc(d1)); res(" 2=%s", rc(mo(2, 1, 1))); res(" 3=%s ", rc(mo(3, 1, 1))); } res("3bad=%s ", rc(mo(3, 99, 1))); M(0); res("3 at limit0=%s ", rc(mo(3, 1, 1))); mqd_t d = d1; mu(1); M(500); res("after unlink(still open)=%s ", rc(mo(3, 1, 1))); mq_close(d); res("after close=%s", rc(mo(3, 1, 1))); }
static void q14(void) {
	unshare(CLONE_NEWIPC); { res("msg_max<-65536:%s", rc(wr("/proc/sys/fs/mqueue/msg_max", "65536"))); res(" 65537:%s", rc(wr("/proc/sys/fs/mqueue/msg_max", "65537"))); res(" 0:%s ", rc(wr("/proc/sys/fs/mqueue/msg_max", "0"))); } { res("msgsize_max<-16777216:%s", rc(wr("/proc/sys/fs/mqueue/msgsize_max", "16777216"))); res(" 16777217:%s", rc(wr("/proc/sys/fs/mqueue/msgsize_max", "16777217"))); res(" 127:%s", rc(wr("/proc/sys/fs/mqueue/msgsize_max", "127"))); res(" 128:%s ", rc(wr("/proc/sys/fs/mqueue/msgsize_max", "128"))); } drop(U); { res("unpriv msgsize129=%s", rc(mo(1, 1, 129))); res(" 128=%s ", rc(mo(1, 1, 128))); } res("default attr with msgsize_max128=%s ", rc(md(2))); struct mq_attr a; mqd_t d = mq_open(name(2), O_RDONLY); mq_getattr(d, &a); { res("attr=%ld", a.mq_maxmsg); res("/%ld", a.mq_msgsize); } }
static void q15(void) { /* userns: limit at creation binds the total in the parent */
	drop(U); M(200); res("in init 1st=%s ", rc(mo(1, 1, 1))); res("newuser=%s ", rc(newuser(0, 0))); M(2000); res("in ns, own soft 2000: 2nd=%s ", rc(mo(2, 1, 1))); res("3rd=%s ", rc(mo(3, 1, 1))); mu(2); res("after unlink 3rd=%s (still open fd holds)", rc(mo(3, 1, 1))); mu(1); mu(3); }
static void innsq(void *a) { (void)a; newuser(0, 0); M(819200); mo(1, 1, 1); mo(2, 1, 1); }
static void q16(void) { drop(U); struct peer p = peer_start(innsq, 0); M(97 * 3); { res("child ns holds 2: parent 1st=%s", rc(mo(11, 1, 1))); res(" 2nd=%s", rc(mo(12, 1, 1))); } pid_t pp = p.pid; peer_reap(&p); for (int i = 1; i < 3; i++) { snprintf(nm, 64, "/orc%d_%d_%d", (int)U, (int)pp, i); mq_unlink(nm); } { res(" after unlink 2nd=%s", rc(mo(13, 1, 1))); res(" 3rd=%s", rc(mo(14, 1, 1))); } for (int i = 11; i < 15; i++) mu(i); }
static void ipcns(void *a) { (void)a; newuser(CLONE_NEWIPC, 0); mo(1, 1, 1); mo(2, 1, 1); }
static void q17(void) { drop(U); struct peer p = peer_start(ipcns, 0); M(97); res("queues in child ipcns count: %s ", rc(mo(11, 1, 1))); kill(p.pid, SIGKILL); waitpid(p.pid, 0, 0); int i; for (i = 0; i < 300; i++) { mqd_t d = mo(11, 1, 1); if (d != (mqd_t)-1) break; usleep(10000); } res("after ipcns death freed=%s", i < 300 ? "yes (async)" : "no"); mu(11); }
static void q18(void) { drop(U); M(97); mqd_t d = mo(1, 1, 1); char c = 1; mq_send(d, &c, 1, 0); res("send ok at limit; full send nonblock: "); struct mq_attr a = { .mq_flags = O_NONBLOCK }; mq_setattr(d, &a, 0); res("%s ", rc(mq_send(d, &c, 1, 0))); { res("msg too long=%s", rc(mq_send(d, "ab", 2, 0))); res(" prio32768=%s", rc(mq_send(d, &c, 1, 32768))); res(" prio32767=%s", rc(mq_send(d, &c, 1, 32767))); } mu(1); }
static void q19(void) { setresuid(U, U + 1, U + 1); M(97); res("ruid=A: 1st=%s ", rc(mo(1, 1, 1))); res("2nd=%s", rc(mo(2, 1, 1))); mu(1); }
static void q20(void) { drop(U); mo(1, 1, 1); mo(2, 1, 1); M(97); res("lowered below usage: open=%s ", rc(mo(3, 1, 1))); mqd_t d = mq_open(name(1), O_RDWR); mq_close(d); mu(1); mu(2); for (int i = 3; i < 10; i++) close(i); res("after release=%s", rc(mo(3, 1, 1))); mu(3); }
static void q23(void) { unshare(CLONE_NEWIPC); wr("/proc/sys/fs/mqueue/msg_max", "50000"); drop(U);   res("charge(5000,1)=%ld", charge(5000, 1)); }
static void mkA(void *a) { (void)a; drop(U); M(97); mo(1, 1, 1); }
static void q24(void) { struct peer p = peer_start(mkA, 0); pid_t pp = p.pid; peer_reap(&p); snprintf(nm, 64, "/orc%d_%d_%d", (int)U, (int)pp, 1); char n2[64]; strcpy(n2, nm); pid_t c = fork(); if (!c) { drop(U + 1); out_len = 0; res("other uid: unlink=%s ", rc(mq_unlink(n2))); res("open=%s", rc(mq_open(n2, O_RDWR))); printf("mq-perms: %s", out_buf); fflush(stdout); _exit(0); } waitpid(c, 0, 0); res(" root unlink=%s ", rc(mq_unlink(n2))); printf("%s", out_buf); fflush(stdout); c = fork(); if (!c) { drop(U); M(97); out_len = 0; res("owner's charge freed: open=%s", rc(mo(2, 1, 1))); mu(2); printf("%s\n", out_buf); fflush(stdout); _exit(0); } waitpid(c, 0, 0); _exit(0); }
static const struct tcase cases[] = { {"mq-exact-limit",q02},{"mq-one-byte-under",q03},{"mq-default-attr-count",q04}, {"mq-limit0",q06}, {"mq-persist-after-exit",q08},{"mq-root-no-exemption",q09},{"mq-existing-no-charge",q10},{"mq-names",q11},{"mq-fs-file",q12},{"mq-queues-max",q13},{"mq-sysctl-bounds",q14},{"mq-userns-binds",q15},{"mq-userns-counts-in-parent",q16},{"mq-ipcns-death",q17},{"mq-send",q18},{"mq-keyed-by-ruid",q19},{"mq-lower-limit",q20}, {"mq-many-msgs",q23},{"mq-perms",q24}, 
};
MAIN(110000)
