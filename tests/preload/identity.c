/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Started as uid 0 with capabilities: what set*id, setgroups and capset do to ids and capabilities. */
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/preload/children.h"

#define A 61235
#define B 61236
#define KEEP ((uid_t)-1)

/* --- what there is now --- */

static long long status_line(const char *name, int column)
{
	char path[64], line[256], *at;
	long long v = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", gettid());
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		size_t n = strlen(name);

		if (strncmp(line, name, n) || line[n] != ':')
			continue;
		at = line + n + 1;
		for (int i = 0; i < column; i++)
			strtoll(at, &at, 10);
		v = strtoll(at, NULL, !strncmp(name, "Cap", 3) ? 16 : 10);
		break;
	}
	if (f)
		fclose(f);
	return v;
}

/* By call and by file, which must tell the same. */
static void check_uids(const char *name, int ruid, int euid, int suid, int fsuid)
{
	uid_t r, e, s;
	bool same;

	if (getresuid(&r, &e, &s))
		die("getresuid");
	same = getuid() == r && geteuid() == e && status_line("Uid", 0) == r &&
	       status_line("Uid", 1) == e && status_line("Uid", 2) == s;
	verdict(r == (uid_t)ruid && e == (uid_t)euid && s == (uid_t)suid &&
			status_line("Uid", 3) == fsuid,
		name, "want %d %d %d %d, got %d %d %d %lld", ruid, euid, suid, fsuid, r, e, s,
		status_line("Uid", 3));
	verdict(same, name, "the calls and the file differ");
}

static void check_gids(const char *name, int rgid, int egid, int sgid)
{
	gid_t r, e, s;
	bool same;

	if (getresgid(&r, &e, &s))
		die("getresgid");
	same = getgid() == r && getegid() == e && status_line("Gid", 0) == r &&
	       status_line("Gid", 1) == e && status_line("Gid", 2) == s;
	verdict(r == (gid_t)rgid && e == (gid_t)egid && s == (gid_t)sgid, name,
		"want %d %d %d, got %d %d %d", rgid, egid, sgid, r, e, s);
	verdict(same, name, "the calls and the file differ");
}

struct caps {
	unsigned long long effective, permitted, inheritable;
};

static struct caps caps_of(pid_t pid)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, pid };
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d))
		die("capget");
	return (struct caps){
		d[0].effective | (unsigned long long)d[1].effective << 32,
		d[0].permitted | (unsigned long long)d[1].permitted << 32,
		d[0].inheritable | (unsigned long long)d[1].inheritable << 32,
	};
}

static unsigned long long full; /* permitted at the start */

static void check_caps(const char *name, unsigned long long effective, unsigned long long permitted)
{
	struct caps c = caps_of(0);

	verdict(c.effective == effective && c.permitted == permitted, name,
		"want %llx %llx, got %llx %llx", effective, permitted, c.effective, c.permitted);
	verdict(status_line("CapEff", 0) == (long long)effective &&
			status_line("CapPrm", 0) == (long long)permitted,
		name, "the call and the file differ");
}

static int set_caps(struct caps c)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = {
		{ c.effective, c.permitted, c.inheritable },
		{ c.effective >> 32, c.permitted >> 32, c.inheritable >> 32 },
	};

	return syscall(SYS_capset, &h, d);
}

/* --- user ids --- */

static void at_the_start(void)
{
	check_uids("uids", 0, 0, 0, 0);
	verdict(full >> CAP_SETUID & full >> CAP_IPC_LOCK & 1, "permitted", "%llx", full);
	check_caps("caps", full, full);
	check_eq("auxv_uid", 0, getauxval(AT_UID));
	check_eq("auxv_euid", 0, getauxval(AT_EUID));
	check_eq("bounding_set", 1, prctl(PR_CAPBSET_READ, CAP_IPC_LOCK));
}

static void setuid_from_root(void)
{
	check_err("setuid", 0, err_of(setuid(A)));
	check_uids("uids", A, A, A, A);
	check_caps("caps", 0, 0);
	check_err("back", EPERM, err_of(setuid(0)));
	check_err("other", EPERM, err_of(setuid(B)));
	check_err("same", 0, err_of(setuid(A)));
	check_err("seteuid", EPERM, err_of(seteuid(0)));
	check_err("setreuid", EPERM, err_of(setreuid(B, KEEP)));
	check_err("setresuid", EPERM, err_of(setresuid(KEEP, KEEP, 0)));
	check_err("setgid", EPERM, err_of(setgid(B)));
	check_err("setgroups", EPERM, err_of(setgroups(0, NULL)));
	check_uids("uids_kept", A, A, A, A);
}

static void seteuid_back_and_forth(void)
{
	check_err("away", 0, err_of(seteuid(A)));
	check_uids("uids_away", 0, A, 0, A);
	check_caps("caps_away", 0, full);
	check_err("elsewhere", EPERM, err_of(seteuid(B)));
	check_err("back", 0, err_of(seteuid(0)));
	check_uids("uids_back", 0, 0, 0, 0);
	check_caps("caps_back", full, full);
	check_err("minus_one", EINVAL, err_of(seteuid(KEEP)));
}

static void setreuid_saves_the_new_one(void)
{
	check_err("setreuid", 0, err_of(setreuid(A, B)));
	check_uids("uids", A, B, B, B);
	check_caps("caps", 0, 0);
	check_err("swap", 0, err_of(setreuid(B, A)));
	check_uids("uids_swapped", B, A, A, A);
	check_err("nothing", 0, err_of(setreuid(KEEP, KEEP)));
	check_uids("uids_kept", B, A, A, A);
	check_err("gone", EPERM, err_of(setreuid(0, KEEP)));
}

static void saved_uid_leads_back(void)
{
	check_err("setresuid", 0, err_of(setresuid(A, A, 0)));
	check_uids("uids", A, A, 0, A);
	check_caps("caps", 0, full);
	check_err("back", 0, err_of(seteuid(0)));
	check_uids("uids_back", A, 0, 0, 0);
	check_caps("caps_back", full, full);
	check_err("setuid", 0, err_of(setuid(0)));
	check_uids("uids_all", 0, 0, 0, 0);
}

static void setresuid_keeps_minus_one(void)
{
	check_err("real", 0, err_of(setresuid(A, KEEP, KEEP)));
	check_uids("real_uids", A, 0, 0, 0);
	check_caps("real_caps", full, full);
	check_err("saved", 0, err_of(setresuid(KEEP, KEEP, B)));
	check_uids("saved_uids", A, 0, B, 0);
	check_err("effective", 0, err_of(setresuid(KEEP, B, KEEP)));
	check_uids("effective_uids", A, B, B, B);
	check_caps("none_is_zero_now", 0, 0);
}

static void setfsuid_says_the_old_one(void)
{
	check_eq("old", 0, setfsuid(A));
	check_uids("uids", 0, 0, 0, A);
	check_eq("now", A, setfsuid(-1));
	verdict(!(caps_of(0).effective >> CAP_DAC_OVERRIDE & 1), "file_caps", "still there");
	verdict(caps_of(0).effective >> CAP_IPC_LOCK & 1, "other_caps", "gone");
	check_eq("back", A, setfsuid(0));
	check_caps("caps_back", full, full);
	check_err("setuid", 0, err_of(setuid(A)));
	check_eq("not_allowed", A, setfsuid(B));
	check_eq("unchanged", A, setfsuid(-1));
}

/* --- group ids --- */

static void group_ids(void)
{
	check_err("setgid", 0, err_of(setgid(A)));
	check_gids("setgid_gids", A, A, A);
	check_err("setegid", 0, err_of(setegid(B)));
	check_gids("setegid_gids", A, B, A);
	check_err("setregid", 0, err_of(setregid(B, A)));
	check_gids("setregid_gids", B, A, A);
	check_err("setresgid", 0, err_of(setresgid(KEEP, KEEP, B)));
	check_gids("setresgid_gids", B, A, B);
	check_eq("setfsgid", A, setfsgid(B));
	check_caps("caps", full, full);
	check_err("setuid", 0, err_of(setuid(A)));
	check_err("setegid_saved", 0, err_of(setegid(B)));
	check_err("setegid_real", 0, err_of(setegid(B)));
	check_err("setegid_other", EPERM, err_of(setegid(A + 5)));
	check_err("setresgid_other", EPERM, err_of(setresgid(A + 5, KEEP, KEEP)));
}

static void supplementary_groups(void)
{
	gid_t list[4] = { 1, 2, 3 }, got[8] = { 0 };
	volatile int minus_one = -1;

	check_err("setgroups", 0, err_of(setgroups(3, list)));
	check_eq("count", 3, getgroups(0, NULL));
	check_eq("get", 3, getgroups(8, got));
	check_eq("first", 1, got[0]);
	check_eq("last", 3, got[2]);
	check_err("too_small", EINVAL, err_of(getgroups(2, got)));
	check_err("negative", EINVAL, err_of(getgroups(minus_one, got)));
	check_err("too_many", EINVAL, err_of(setgroups(65537, list)));
	check_eq("member", 1, group_member(2));
	check_eq("no_member", 0, group_member(77));
	check_err("number", 0, err_of(syscall(SYS_setgroups, 1, list + 2)));
	check_eq("number_count", 1, syscall(SYS_getgroups, 8, got));
	check_eq("number_get", 3, got[0]);
	check_err("initgroups", 0, err_of(initgroups("root", 4711)));
	check_eq("initgroups_count", true, getgroups(8, got) >= 1 && group_member(4711));
	check_err("none", 0, err_of(setgroups(0, NULL)));
	check_eq("none_count", 0, getgroups(0, NULL));
}

/* --- capabilities --- */

static void keepcaps_keeps_permitted(void)
{
	check_err("prctl", 0, err_of(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)));
	check_eq("get", 1, prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
	check_err("setuid", 0, err_of(setuid(A)));
	check_uids("uids", A, A, A, A);
	check_caps("caps", 0, full);
	check_err("take_one", 0, err_of(set_caps((struct caps){ 1 << CAP_IPC_LOCK, full, 0 })));
	check_caps("caps_taken", 1 << CAP_IPC_LOCK, full);
}

static void no_setuid_fixup_keeps_all(void)
{
	check_err("prctl", 0, err_of(prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0)));
	check_eq("get", SECBIT_NO_SETUID_FIXUP, prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
	check_err("setuid", 0, err_of(setuid(A)));
	check_caps("caps", full, full);
}

static void capset_rules(void)
{
	unsigned long long half = full & 0xffff, lock = 1 << CAP_IPC_LOCK;

	check_err("lower", 0, err_of(set_caps((struct caps){ half & lock, half, 0 })));
	check_caps("lowered", half & lock, half);
	check_err("raise_permitted", EPERM, err_of(set_caps((struct caps){ 0, full, 0 })));
	check_err("beyond_permitted", EPERM, err_of(set_caps((struct caps){ full, half, 0 })));
	check_err("raise_effective", 0, err_of(set_caps((struct caps){ half, half, 0 })));
	check_caps("raised", half, half);
	check_err("drop_all", 0, err_of(set_caps((struct caps){ 0, 0, 0 })));
	check_caps("dropped", 0, 0);
	check_err("setuid_without", EPERM, err_of(setuid(A)));
	check_uids("uids", 0, 0, 0, 0);
}

static void capget_versions(void)
{
	struct __user_cap_header_struct h = { 0, 0 };
	struct __user_cap_data_struct d[2];

	check_err("probe", 0, err_of(syscall(SYS_capget, &h, NULL)));
	check_eq("version", _LINUX_CAPABILITY_VERSION_3, h.version);
	h.version = 4711;
	check_err("unknown", EINVAL, err_of(syscall(SYS_capget, &h, d)));
	h.version = _LINUX_CAPABILITY_VERSION_3;
	h.pid = -1;
	check_err("bad_pid", EINVAL, err_of(syscall(SYS_capget, &h, d)));
	h.pid = getppid();
	h.version = _LINUX_CAPABILITY_VERSION_1;
	check_err("one_word", 0, err_of(syscall(SYS_capget, &h, d)));
}

static void another_task_s_capabilities(void)
{
	struct line l = line_open();
	pid_t pid = fork();
	struct caps c;

	if (!pid) {
		line_say(&l, setuid(A));
		for (;;)
			pause();
	}
	line_hear(&l);
	c = caps_of(pid);
	check_eq("effective", 0, c.effective);
	check_eq("permitted", 0, c.permitted);
	check_caps("own", full, full);
	kill_child(pid);
}

static void bounding_set(void)
{
	check_err("drop", 0, err_of(prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)));
	check_eq("read", 0, prctl(PR_CAPBSET_READ, CAP_IPC_LOCK));
	check_caps("still_held", full, full);
	check_err("bad_number", EINVAL, err_of(prctl(PR_CAPBSET_READ, 99)));
	check_err("setuid", 0, err_of(setuid(A)));
	check_err("drop_without", EPERM, err_of(prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0)));
}

/* --- programs started --- */

static char *self;

/* What a program started by root, or by one who no longer is, finds: three numbers. */
static int show(void)
{
	struct caps c = caps_of(0);

	printf("%u %u %llx %llx\n", getuid(), geteuid(), c.effective, c.permitted);
	return 0;
}

static void shown(const char *name, void (*before)(void), const char *want)
{
	char text[128] = "";
	int out[2];
	pid_t pid;

	if (pipe(out))
		die("pipe");
	pid = fork();
	if (!pid) {
		before();
		dup2(out[1], 1);
		execl(self, self, "--show", NULL);
		_exit(1);
	}
	close(out[1]);
	if (read(out[0], text, sizeof(text) - 1) < 0)
		die("read");
	close(out[0]);
	waitpid(pid, NULL, 0);
	verdict(!strcmp(text, want), name, "want %s, got %s", want, text);
}

static void nothing(void)
{
}

static void leave_root(void)
{
	if (setresuid(A, A, A))
		_exit(1);
}

static void leave_effective(void)
{
	if (seteuid(A))
		_exit(1);
}

static void leave_real(void)
{
	if (setresuid(A, 0, 0))
		_exit(1);
}

static void drop_all(void)
{
	if (set_caps((struct caps){ 0 }))
		_exit(1);
}

/* A real or effective uid 0 is permitted everything at exec; it is in effect for the latter. */
static void exec_rules(void)
{
	char all[64];

	snprintf(all, sizeof(all), "0 0 %llx %llx\n", full, full);
	shown("root", nothing, all);
	shown("root_without", drop_all, all);
	shown("user", leave_root, "61235 61235 0 0\n");
	snprintf(all, sizeof(all), "0 61235 0 %llx\n", full);
	shown("effective_user", leave_effective, all);
	snprintf(all, sizeof(all), "61235 0 %llx %llx\n", full, full);
	shown("effective_root", leave_real, all);
}

static void exec_saves_the_effective_uid(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (setresuid(A, B, 0))
			_exit(1);
		execl(self, self, "--saved", NULL);
	}
	waitpid(pid, &status, 0);
	check_eq("saved", 0, status);
}

static int saved(void)
{
	uid_t r, e, s;

	getresuid(&r, &e, &s);
	return !(r == A && e == B && s == B);
}

/* --- threads --- */

static struct line to_thread, from_thread;

static void *asks(void *arg)
{
	(void)arg;
	line_hear(&to_thread);
	line_say(&from_thread, getuid());
	line_say(&from_thread, status_line("Uid", 0));
	line_say(&from_thread, caps_of(0).effective != 0);
	line_hear(&to_thread);
	return NULL;
}

static void *sets(void *by_number)
{
	if (by_number)
		line_say(&from_thread, syscall(SYS_setuid, A));
	else
		line_say(&from_thread, setuid(A));
	line_say(&from_thread, getuid());
	line_hear(&to_thread);
	return NULL;
}

static pthread_t start_thread(void *(*start)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, start, arg))
		die("pthread_create");
	return thread;
}

static void setuid_is_for_all_threads(void)
{
	pthread_t thread = start_thread(asks, NULL);

	check_err("setuid", 0, err_of(setuid(A)));
	line_say(&to_thread, 0);
	check_eq("uid_of_thread", A, line_hear(&from_thread));
	check_eq("status_of_thread", A, line_hear(&from_thread));
	check_eq("caps_of_thread", 0, line_hear(&from_thread));
	line_say(&to_thread, 0);
	pthread_join(thread, NULL);
}

static void setuid_in_a_thread(void)
{
	pthread_t thread = start_thread(sets, NULL);

	check_eq("setuid", 0, line_hear(&from_thread));
	check_eq("uid_of_thread", A, line_hear(&from_thread));
	check_uids("uids_of_leader", A, A, A, A);
	check_caps("caps_of_leader", 0, 0);
	line_say(&to_thread, 0);
	pthread_join(thread, NULL);
}

static void by_number_one_thread(void)
{
	pthread_t thread = start_thread(sets, "");

	check_eq("setuid", 0, line_hear(&from_thread));
	check_eq("uid_of_thread", A, line_hear(&from_thread));
	check_uids("uids_of_leader", 0, 0, 0, 0);
	check_caps("caps_of_leader", full, full);
	line_say(&to_thread, 0);
	pthread_join(thread, NULL);
}

static void new_thread_inherits(void)
{
	pthread_t thread;

	check_err("setuid", 0, err_of(setuid(B)));
	thread = start_thread(asks, NULL);
	line_say(&to_thread, 0);
	check_eq("uid_of_thread", B, line_hear(&from_thread));
	check_eq("status_of_thread", B, line_hear(&from_thread));
	check_eq("caps_of_thread", 0, line_hear(&from_thread));
	line_say(&to_thread, 0);
	pthread_join(thread, NULL);
}

/* --- what capabilities are for --- */

/* The soft limit is one page. */
static void ipc_lock_goes_with_root(void)
{
	void *p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check_err("mlock_as_root", 0, err_of(mlock(p, 1 << 16)));
	check_eq("locked", 64, status_line("VmLck", 0));
	check_err("munlock", 0, err_of(munlock(p, 1 << 16)));
	check_err("setuid", 0, err_of(setuid(A)));
	check_err("mlock_as_user", ENOMEM, err_of(mlock(p, 1 << 16)));
	check_err("one_page", 0, err_of(mlock(p, 4096)));
	check_eq("locked_page", 4, status_line("VmLck", 0));
}

static void unreadable_memory_is_efault(void)
{
	void *volatile bad = (void *)8;
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };

	check_err("getresuid", EFAULT, err_of(getresuid(bad, bad, bad)));
	check_err("getresgid", EFAULT, err_of(getresgid(bad, bad, bad)));
	check_err("setgroups", EFAULT, err_of(setgroups(2, bad)));
	check_err("setgroups_kept", 0, err_of(setgroups(2, (gid_t[]){ 5, 6 })));
	check_err("getgroups", EFAULT, err_of(getgroups(8, bad)));
	check_err("capget_header", EFAULT, err_of(syscall(SYS_capget, bad, NULL)));
	check_err("capget_data", EFAULT, err_of(syscall(SYS_capget, &h, bad)));
	check_err("capset_data", EFAULT, err_of(syscall(SYS_capset, &h, bad)));
}

static const struct test_case test[] = {
	{ "at_the_start", at_the_start },
	{ "setuid_from_root", setuid_from_root },
	{ "seteuid_back_and_forth", seteuid_back_and_forth },
	{ "setreuid_saves_the_new_one", setreuid_saves_the_new_one },
	{ "saved_uid_leads_back", saved_uid_leads_back },
	{ "setresuid_keeps_minus_one", setresuid_keeps_minus_one },
	{ "setfsuid_says_the_old_one", setfsuid_says_the_old_one },
	{ "group_ids", group_ids },
	{ "supplementary_groups", supplementary_groups },
	{ "keepcaps_keeps_permitted", keepcaps_keeps_permitted },
	{ "no_setuid_fixup_keeps_all", no_setuid_fixup_keeps_all },
	{ "capset_rules", capset_rules },
	{ "capget_versions", capget_versions },
	{ "another_task_s_capabilities", another_task_s_capabilities },
	{ "bounding_set", bounding_set },
	{ "exec_rules", exec_rules },
	{ "exec_saves_the_effective_uid", exec_saves_the_effective_uid },
	{ "setuid_is_for_all_threads", setuid_is_for_all_threads },
	{ "setuid_in_a_thread", setuid_in_a_thread },
	{ "by_number_one_thread", by_number_one_thread },
	{ "new_thread_inherits", new_thread_inherits },
	{ "ipc_lock_goes_with_root", ipc_lock_goes_with_root },
	{ "unreadable_memory_is_efault", unreadable_memory_is_efault },
};

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--show"))
		return show();
	if (argc > 1 && !strcmp(argv[1], "--saved"))
		return saved();
	to_thread = line_open();
	from_thread = line_open();
	full = caps_of(0).permitted;
	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
