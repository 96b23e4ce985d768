/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Credentials: ids, capabilities, groups, exec, the NPROC charge; and walks beside the kernel. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kpemu/cred.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"
#include "tests/unit/unit_world.h"

#define CAP(n) (1ull << CAP_##n)
#define KEEP   ((uint32_t)-1)
#define NPROC  UCOUNT_RLIMIT_NPROC
/* The capabilities that follow the file-system uid. */
#define FS_CAPS                                                                              \
	(CAP(CHOWN) | CAP(DAC_OVERRIDE) | CAP(DAC_READ_SEARCH) | CAP(FOWNER) | CAP(FSETID) | \
	 CAP(LINUX_IMMUTABLE) | CAP(MKNOD) | CAP(MAC_OVERRIDE))

static struct rlim no_limits[UCOUNT_RLIMIT_COUNTS];

static void setup(void)
{
	unit_world();
	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		no_limits[i] = (struct rlim){ RLIM_INF, RLIM_INF };
}

TestSuite(cred, .init = setup, .timeout = 60);

/* This process as a task of the model, and as `current`. */
static struct task_struct *task_of(uint32_t uid, uint32_t gid)
{
	struct task_struct *t;
	struct cred cred;

	cred_init(&cred, uid, gid);
	t = task_first(&cred, no_limits);
	cr_assert_not_null(t);
	cr_assert(task_born(t, task_ref(t), getpid(), getpid()));
	current = t;
	return t;
}

static void set_uids(struct task_struct *t, uint32_t r, uint32_t e, uint32_t s, uint32_t fs)
{
	t->cred.uid = r;
	t->cred.euid = e;
	t->cred.suid = s;
	t->cred.fsuid = fs;
}

static void set_gids(struct task_struct *t, uint32_t r, uint32_t e, uint32_t s, uint32_t fs)
{
	t->cred.gid = r;
	t->cred.egid = e;
	t->cred.sgid = s;
	t->cred.fsgid = fs;
}

static void set_caps(struct task_struct *t, uint64_t caps)
{
	t->cred.cap_permitted = t->cred.cap_effective = caps;
}

#define assert_uids(t, r, e, s, fs)                            \
	do {                                                   \
		cr_assert_eq((t)->cred.uid, (uint32_t)(r));    \
		cr_assert_eq((t)->cred.euid, (uint32_t)(e));   \
		cr_assert_eq((t)->cred.suid, (uint32_t)(s));   \
		cr_assert_eq((t)->cred.fsuid, (uint32_t)(fs)); \
	} while (0)

#define assert_gids(t, r, e, s, fs)                            \
	do {                                                   \
		cr_assert_eq((t)->cred.gid, (uint32_t)(r));    \
		cr_assert_eq((t)->cred.egid, (uint32_t)(e));   \
		cr_assert_eq((t)->cred.sgid, (uint32_t)(s));   \
		cr_assert_eq((t)->cred.fsgid, (uint32_t)(fs)); \
	} while (0)

/* @call answers @err and changes nothing of the task @t. */
#define assert_refused(t, err, call)                                                              \
	do {                                                                                      \
		struct task_struct before = *(t);                                                 \
		cr_assert_eq((call), (err));                                                      \
		cr_assert_eq(memcmp(&before, (t), sizeof(before)), 0, #call " changed the task"); \
	} while (0)

static long count(uint32_t uid)
{
	struct ucounts *uc = alloc_ucounts(INIT_USER_NS, uid);
	long n = get_rlimit_value(uc, NPROC);

	cr_assert_eq(ucounts_derive(uc, NPROC), n, "counter and objects differ");
	return n;
}

/* Tasks that exist for the counter only. */
static void add_tasks(uint32_t uid, long n)
{
	struct ucounts *uc = alloc_ucounts(INIT_USER_NS, uid);

	ucounts_begin(current, uc, NPROC);
	inc_rlimit_ucounts(uc, NPROC, n);
	ucounts_end(current);
}

/* An address that no program can read or write. */
static void *bad_address(void)
{
	return mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

Test(cred, init_gives_root_every_capability)
{
	struct cred c;

	memset(&c, 0xff, sizeof(c));
	cred_init(&c, 0, 7);
	cr_assert_eq(c.uid | c.euid | c.suid | c.fsuid, 0);
	cr_assert(c.gid == 7 && c.egid == 7 && c.sgid == 7 && c.fsgid == 7);
	cr_assert_eq(c.cap_permitted, CAP_FULL_SET);
	cr_assert_eq(c.cap_effective, CAP_FULL_SET);
	cr_assert_eq(c.cap_bset, CAP_FULL_SET);
	cr_assert_eq(c.cap_inheritable | c.cap_ambient, 0);
	cr_assert_eq(c.securebits | c.ngroups | c.user_ns, 0);
}

Test(cred, init_gives_others_none)
{
	struct cred c;

	cred_init(&c, 1000, 0);
	cr_assert(c.uid == 1000 && c.euid == 1000 && c.suid == 1000 && c.fsuid == 1000);
	cr_assert_eq(c.cap_permitted | c.cap_effective | c.cap_inheritable | c.cap_ambient, 0);
	cr_assert_eq(c.cap_bset, CAP_FULL_SET);
}

Test(cred, cap_from_name_knows_all)
{
	static const struct {
		const char *name;
		int cap;
	} names[] = {
		{ "chown", CAP_CHOWN },
		{ "CAP_CHOWN", CAP_CHOWN },
		{ "Cap_Chown", CAP_CHOWN },
		{ "dac_override", CAP_DAC_OVERRIDE },
		{ "dac_read_search", CAP_DAC_READ_SEARCH },
		{ "fowner", CAP_FOWNER },
		{ "fsetid", CAP_FSETID },
		{ "kill", CAP_KILL },
		{ "setgid", CAP_SETGID },
		{ "setuid", CAP_SETUID },
		{ "setpcap", CAP_SETPCAP },
		{ "linux_immutable", CAP_LINUX_IMMUTABLE },
		{ "net_bind_service", CAP_NET_BIND_SERVICE },
		{ "net_broadcast", CAP_NET_BROADCAST },
		{ "net_admin", CAP_NET_ADMIN },
		{ "net_raw", CAP_NET_RAW },
		{ "ipc_lock", CAP_IPC_LOCK },
		{ "ipc_owner", CAP_IPC_OWNER },
		{ "sys_module", CAP_SYS_MODULE },
		{ "sys_rawio", CAP_SYS_RAWIO },
		{ "sys_chroot", CAP_SYS_CHROOT },
		{ "sys_ptrace", CAP_SYS_PTRACE },
		{ "sys_pacct", CAP_SYS_PACCT },
		{ "sys_admin", CAP_SYS_ADMIN },
		{ "sys_boot", CAP_SYS_BOOT },
		{ "sys_nice", CAP_SYS_NICE },
		{ "SYS_RESOURCE", CAP_SYS_RESOURCE },
		{ "cap_sys_resource", CAP_SYS_RESOURCE },
		{ "sys_time", CAP_SYS_TIME },
		{ "sys_tty_config", CAP_SYS_TTY_CONFIG },
		{ "mknod", CAP_MKNOD },
		{ "lease", CAP_LEASE },
		{ "audit_write", CAP_AUDIT_WRITE },
		{ "audit_control", CAP_AUDIT_CONTROL },
		{ "setfcap", CAP_SETFCAP },
		{ "mac_override", CAP_MAC_OVERRIDE },
		{ "mac_admin", CAP_MAC_ADMIN },
		{ "syslog", CAP_SYSLOG },
		{ "wake_alarm", CAP_WAKE_ALARM },
		{ "block_suspend", CAP_BLOCK_SUSPEND },
		{ "audit_read", CAP_AUDIT_READ },
		{ "perfmon", CAP_PERFMON },
		{ "bpf", CAP_BPF },
		{ "CAP_Checkpoint_RESTORE", CAP_CHECKPOINT_RESTORE },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_assert_eq(cap_from_name(names[i].name), names[i].cap, "%s", names[i].name);
}

Test(cred, cap_from_name_refuses_others)
{
	static const char *const names[] = {
		"",
		"cap",
		"cap_",
		"sys",
		"sys_",
		"sys_resource ",
		"sys_resources",
		"cap_cap_kill",
		"sysresource",
		"sys-resource",
		"kil",
		"7",
		"all",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_assert_eq(cap_from_name(names[i]), -1, "'%s'", names[i]);
}

Test(cred, capable_is_by_the_effective_set)
{
	struct task_struct *t = task_of(1000, 1000);

	t->cred.cap_permitted = CAP(KILL) | CAP(SETUID);
	t->cred.cap_effective = CAP(KILL);
	cr_assert(capable(t, CAP_KILL));
	cr_assert_not(capable(t, CAP_SETUID));
	t->cred.user_ns = 1;
	cr_assert_not(capable(t, CAP_KILL), "of another namespace");
}

Test(cred, in_group_p_looks_at_fsgid_and_groups)
{
	struct cred c;

	cred_init(&c, 1000, 5);
	c.fsgid = 6;
	c.groups[0] = 7;
	c.groups[1] = 8;
	c.ngroups = 1;
	cr_assert(in_group_p(&c, 6));
	cr_assert(in_group_p(&c, 7));
	cr_assert_not(in_group_p(&c, 5), "the gid itself does not count");
	cr_assert_not(in_group_p(&c, 8), "beyond the last group");
	c.ngroups = UINT32_MAX; /* torn: no read beyond the table */
	cr_assert_not(in_group_p(&c, 9));
}

Test(cred, setresuid_with_the_capability_sets_any)
{
	struct task_struct *t = task_of(0, 0);

	cr_assert_eq(sys_setresuid(t, KEEP, 1001, 1002), 0);
	assert_uids(t, 0, 1001, 1002, 1001);
	set_caps(t, CAP(SETUID));
	cr_assert_eq(sys_setresuid(t, 5, 6, 7), 0);
	assert_uids(t, 5, 6, 7, 6);
}

Test(cred, setresuid_without_it_permutes_its_own)
{
	struct task_struct *t = task_of(1, 1);

	set_uids(t, 1, 2, 3, 2);
	cr_assert_eq(sys_setresuid(t, 3, 1, 2), 0);
	assert_uids(t, 3, 1, 2, 1);
	cr_assert_eq(sys_setresuid(t, KEEP, KEEP, 1), 0);
	assert_uids(t, 3, 1, 1, 1);
}

Test(cred, setresuid_to_a_stranger_is_refused)
{
	struct task_struct *t = task_of(1, 1);

	set_uids(t, 1, 2, 3, 4);
	assert_refused(t, -EPERM, sys_setresuid(t, 4, KEEP, KEEP));
	assert_refused(t, -EPERM, sys_setresuid(t, KEEP, 4, KEEP));
	assert_refused(t, -EPERM, sys_setresuid(t, KEEP, KEEP, 4));
	assert_refused(t, -EPERM, sys_setresuid(t, 2, 1, 0));
	t->cred.cap_permitted = CAP_FULL_SET;
	assert_refused(t, -EPERM, sys_setresuid(t, 4, 4, 4));
	cr_assert_eq(count(1), 1);
}

Test(cred, setresuid_without_a_change_leaves_fsuid)
{
	struct task_struct *t = task_of(1, 1);

	set_uids(t, 1, 2, 3, 1);
	assert_refused(t, 0, sys_setresuid(t, KEEP, KEEP, KEEP));
	assert_refused(t, 0, sys_setresuid(t, 1, KEEP, 3));
	/* The effective uid named, though the same, puts it back. */
	cr_assert_eq(sys_setresuid(t, KEEP, 2, KEEP), 0);
	assert_uids(t, 1, 2, 3, 2);
}

Test(cred, setreuid_saves_the_new_effective_uid)
{
	static const struct {
		uint32_t old[3], ruid, euid, new[3];
	} cases[] = {
		{ { 1, 2, 3 }, KEEP, KEEP, { 1, 2, 3 } },
		{ { 1, 2, 3 }, 2, KEEP, { 2, 2, 2 } }, /* real uid named: saved */
		{ { 1, 2, 3 }, 1, KEEP, { 1, 2, 2 } }, /* even if it is the same */
		{ { 1, 2, 3 }, KEEP, 1, { 1, 1, 3 } }, /* to the real uid: not saved */
		{ { 1, 2, 3 }, KEEP, 2, { 1, 2, 2 } }, /* to another: saved, even if the same */
		{ { 1, 2, 3 }, KEEP, 3, { 1, 3, 3 } },
		{ { 1, 2, 3 }, 2, 1, { 2, 1, 1 } }, /* the classic swap */
		{ { 1, 2, 3 }, 1, 1, { 1, 1, 1 } },
	};
	struct task_struct *t = task_of(1, 1);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint32_t *old = cases[i].old, *new = cases[i].new;

		cr_assert_eq(sys_setreuid(t, 1, KEEP), 0);
		set_uids(t, old[0], old[1], old[2], 1);
		cr_assert_eq(sys_setreuid(t, cases[i].ruid, cases[i].euid), 0, "case %zu", i);
		cr_expect(t->cred.uid == new[0] && t->cred.euid == new[1] && t->cred.suid == new[2],
			  "case %zu: %u %u %u", i, t->cred.uid, t->cred.euid, t->cred.suid);
		cr_expect_eq(t->cred.fsuid, t->cred.euid, "case %zu", i);
		set_uids(t, t->cred.uid, 1, 1, 1);
	}
}

Test(cred, setreuid_to_a_stranger_is_refused)
{
	struct task_struct *t = task_of(1, 1);

	set_uids(t, 1, 2, 3, 4);
	assert_refused(t, -EPERM, sys_setreuid(t, 3, KEEP)); /* the saved uid cannot become real */
	assert_refused(t, -EPERM, sys_setreuid(t, 4, KEEP));
	assert_refused(t, -EPERM, sys_setreuid(t, KEEP, 4));
	assert_refused(t, -EPERM, sys_setreuid(t, 2, 0));
	t->cred.cap_effective = CAP(SETUID);
	cr_assert_eq(sys_setreuid(t, 3, 4), 0);
	assert_uids(t, 3, 4, 4, 4);
}

Test(cred, setuid_with_the_capability_sets_all)
{
	struct task_struct *t = task_of(1, 1);

	set_uids(t, 1, 2, 3, 4);
	t->cred.cap_effective = CAP(SETUID);
	cr_assert_eq(sys_setuid(t, 5), 0);
	assert_uids(t, 5, 5, 5, 5);
}

Test(cred, setuid_without_it_sets_the_effective_uid)
{
	struct task_struct *t = task_of(1, 1);

	set_uids(t, 1, 2, 3, 4);
	cr_assert_eq(sys_setuid(t, 1), 0);
	assert_uids(t, 1, 1, 3, 1);
	cr_assert_eq(sys_setuid(t, 3), 0);
	assert_uids(t, 1, 3, 3, 3);
	set_uids(t, 1, 2, 3, 4);
	assert_refused(t, -EPERM, sys_setuid(t, 2)); /* the effective uid is not asked */
	assert_refused(t, -EPERM, sys_setuid(t, 4));
	assert_refused(t, -EPERM, sys_setuid(t, 0));
}

Test(cred, setuid_to_no_id_is_invalid)
{
	struct task_struct *t = task_of(0, 0);

	assert_refused(t, -EINVAL, sys_setuid(t, KEEP));
	assert_refused(t, -EINVAL, sys_setgid(t, KEEP));
}

Test(cred, setfsuid_returns_the_previous)
{
	struct task_struct *t = task_of(1, 1);

	set_uids(t, 1, 2, 3, 4);
	assert_refused(t, 4, sys_setfsuid(t, KEEP));
	assert_refused(t, 4, sys_setfsuid(t, 5));
	assert_refused(t, 4, sys_setfsuid(t, 0));
	cr_assert_eq(sys_setfsuid(t, 3), 4);
	cr_assert_eq(sys_setfsuid(t, 2), 3);
	cr_assert_eq(sys_setfsuid(t, 1), 2);
	assert_uids(t, 1, 2, 3, 1);
	t->cred.cap_effective = CAP(SETUID);
	cr_assert_eq(sys_setfsuid(t, 77), 1);
	assert_uids(t, 1, 2, 3, 77);
}

Test(cred, setfsuid_takes_and_gives_file_system_capabilities)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.cap_permitted = CAP_FULL_SET & ~CAP(MKNOD);
	t->cred.cap_effective = CAP_FULL_SET & ~(CAP(MKNOD) | CAP(KILL));
	cr_assert_eq(sys_setfsuid(t, 1000), 0);
	cr_assert_eq(t->cred.cap_effective, CAP_FULL_SET & ~(FS_CAPS | CAP(KILL)));
	cr_assert_eq(t->cred.cap_permitted, CAP_FULL_SET & ~CAP(MKNOD));
	/* Between two others nothing happens. */
	cr_assert_eq(sys_setfsuid(t, 1001), 1000);
	cr_assert_eq(t->cred.cap_effective, CAP_FULL_SET & ~(FS_CAPS | CAP(KILL)));
	/* Back: what is permitted, and only of the file system's. */
	cr_assert_eq(sys_setfsuid(t, 0), 1001);
	cr_assert_eq(t->cred.cap_effective, CAP_FULL_SET & ~(CAP(MKNOD) | CAP(KILL)));
}

Test(cred, setfsuid_without_fixup_leaves_capabilities)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.securebits = SECBIT_NO_SETUID_FIXUP;
	cr_assert_eq(sys_setfsuid(t, 1000), 0);
	cr_assert_eq(t->cred.cap_effective, CAP_FULL_SET);
	t->cred.cap_effective = CAP(SETUID);
	cr_assert_eq(sys_setfsuid(t, 0), 1000);
	cr_assert_eq(t->cred.cap_effective, CAP(SETUID));
}

Test(cred, setresuid_puts_back_fsuid_without_its_capabilities)
{
	struct task_struct *t = task_of(0, 0);

	cr_assert_eq(sys_setfsuid(t, 1000), 0);
	cr_assert_eq(sys_setresuid(t, KEEP, 0, KEEP), 0);
	assert_uids(t, 0, 0, 0, 0);
	cr_assert_eq(t->cred.cap_effective, CAP_FULL_SET & ~FS_CAPS);
}

Test(cred, gid_calls_follow_the_same_rules)
{
	struct task_struct *t = task_of(1000, 1);

	set_gids(t, 1, 2, 3, 4);
	assert_refused(t, -EPERM, sys_setresgid(t, 4, KEEP, KEEP));
	assert_refused(t, -EPERM, sys_setregid(t, 3, KEEP));
	assert_refused(t, -EPERM, sys_setgid(t, 2));
	assert_refused(t, 4, sys_setfsgid(t, 5));
	assert_refused(t, 0, sys_setresgid(t, 1, KEEP, 3));
	cr_assert_eq(sys_setresgid(t, 3, 1, 2), 0);
	assert_gids(t, 3, 1, 2, 1);
	cr_assert_eq(sys_setregid(t, 1, 3), 0);
	assert_gids(t, 1, 3, 3, 3);
	cr_assert_eq(sys_setregid(t, KEEP, 1), 0);
	assert_gids(t, 1, 1, 3, 1);
	cr_assert_eq(sys_setgid(t, 3), 0);
	assert_gids(t, 1, 3, 3, 3);
	cr_assert_eq(sys_setfsgid(t, 1), 3);
	assert_gids(t, 1, 3, 3, 1);
	t->cred.cap_effective = CAP(SETUID);
	assert_refused(t, -EPERM, sys_setgid(t, 9));
	t->cred.cap_effective = CAP(SETGID);
	cr_assert_eq(sys_setgid(t, 9), 0);
	assert_gids(t, 9, 9, 9, 9);
}

Test(cred, gid_calls_leave_capabilities_and_charge)
{
	struct task_struct *t = task_of(0, 0);

	cr_assert_eq(sys_setgid(t, 1000), 0);
	cr_assert_eq(sys_setfsgid(t, 1001), 1000);
	cr_assert_eq(t->cred.cap_effective, CAP_FULL_SET);
	cr_assert_eq(count(0), 1);
	cr_assert_eq(count(1000), 0);
}

Test(cred, leaving_root_drops_capabilities)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.cap_inheritable = t->cred.cap_ambient = CAP(KILL);
	cr_assert_eq(sys_setuid(t, 1000), 0);
	cr_assert_eq(t->cred.cap_permitted | t->cred.cap_effective | t->cred.cap_ambient, 0);
	cr_assert_eq(t->cred.cap_inheritable, CAP(KILL));
	cr_assert_eq(t->cred.cap_bset, CAP_FULL_SET);
	cr_assert_not(capable(t, CAP_IPC_LOCK));
}

Test(cred, a_root_id_that_stays_keeps_the_permitted_set)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.cap_inheritable = t->cred.cap_ambient = CAP(KILL);
	cr_assert_eq(sys_setresuid(t, 1000, 1000, 0), 0);
	cr_assert_eq(t->cred.cap_effective, 0);
	cr_assert_eq(t->cred.cap_permitted, CAP_FULL_SET);
	cr_assert_eq(t->cred.cap_ambient, CAP(KILL));
	/* The way back is through the saved uid. */
	cr_assert_eq(sys_setresuid(t, KEEP, 0, KEEP), 0);
	cr_assert_eq(t->cred.cap_effective, CAP_FULL_SET);
}

Test(cred, keepcaps_saves_the_permitted_set_only)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.cap_inheritable = t->cred.cap_ambient = CAP(KILL);
	t->cred.securebits = SECBIT_KEEP_CAPS;
	cr_assert_eq(sys_setuid(t, 1000), 0);
	cr_assert_eq(t->cred.cap_permitted, CAP_FULL_SET);
	cr_assert_eq(t->cred.cap_effective, 0);
	cr_assert_eq(t->cred.cap_ambient, 0, "ambient goes nevertheless");
}

Test(cred, no_setuid_fixup_keeps_everything)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.cap_inheritable = t->cred.cap_ambient = CAP(KILL);
	t->cred.securebits = SECBIT_NO_SETUID_FIXUP;
	cr_assert_eq(sys_setuid(t, 1000), 0);
	cr_assert_eq(t->cred.cap_permitted, CAP_FULL_SET);
	cr_assert_eq(t->cred.cap_effective, CAP_FULL_SET);
	cr_assert_eq(t->cred.cap_ambient, CAP(KILL));
}

Test(cred, becoming_root_makes_the_permitted_effective)
{
	struct task_struct *t = task_of(1000, 1000);

	t->cred.cap_permitted = CAP(KILL) | CAP(SETUID);
	t->cred.cap_effective = CAP(SETUID);
	cr_assert_eq(sys_setresuid(t, KEEP, 0, KEEP), 0);
	cr_assert_eq(t->cred.cap_effective, CAP(KILL) | CAP(SETUID));
	cr_assert_eq(t->cred.cap_permitted, CAP(KILL) | CAP(SETUID));
}

Test(cred, real_uid_change_moves_the_charge)
{
	struct task_struct *t = task_of(0, 0);
	struct ucounts *uc = alloc_ucounts(INIT_USER_NS, 1000);

	cr_assert_eq(count(0), 1);
	cr_assert_eq(sys_setuid(t, 1000), 0);
	cr_assert_eq(count(0), 0);
	cr_assert_eq(count(1000), 1);
	cr_assert_eq(t->ucounts, ucounts_index(uc) + 1);
	cr_assert_eq(t->updating, 0);
	cr_assert_eq(atomic64_read(&uc->peak[NPROC]), 1);
}

Test(cred, charge_moves_there_and_back)
{
	struct task_struct *t = task_of(1, 1);

	set_uids(t, 1, 2, 3, 2);
	cr_assert_eq(sys_setreuid(t, 2, 1), 0);
	cr_assert_eq(count(1), 0);
	cr_assert_eq(count(2), 1);
	cr_assert_eq(sys_setreuid(t, 1, 2), 0);
	cr_assert_eq(count(1), 1);
	cr_assert_eq(count(2), 0);
	cr_assert_eq(sys_setresuid(t, 2, KEEP, 3), -EPERM); /* 3 is nobody's any more */
	cr_assert_eq(sys_setresuid(t, 2, KEEP, KEEP), 0);
	cr_assert_eq(count(2), 1);
	cr_assert_eq(count(1) + count(3), 0);
}

#define MOVES 300000

static uint32_t moving;

static void *move_about(void *task)
{
	struct task_struct *t = task, *me = task_adopt(t, getpid(), getpid());

	current = me;
	WRITE_ONCE(moving, 1);
	for (int i = 0; me && i < MOVES; i++)
		sys_setresuid(t, i & 1 ? 1 : 2, KEEP, KEEP);
	return me;
}

/* What libc's setuid() in two threads of a process at once does to each of its threads. */
Test(cred, charge_moved_by_two_at_once_is_moved_once)
{
	struct task_struct *t = task_of(1, 1);
	pthread_t thread;
	void *other;

	set_uids(t, 1, 1, 2, 1);
	t->cred.cap_permitted = t->cred.cap_effective = CAP(SETUID);
	cr_assert_eq(pthread_create(&thread, NULL, move_about, t), 0);
	while (!READ_ONCE(moving))
		cpu_relax();
	for (int i = 0; i < MOVES; i++)
		cr_assert_eq(sys_setresuid(t, i & 1 ? 2 : 1, KEEP, KEEP), 0);
	pthread_join(thread, &other);
	cr_assert_not_null(other);
	cr_assert_eq(count(1) + count(2), 2, "the task and the other thread's");
}

Test(cred, other_uid_changes_do_not_move_it)
{
	struct task_struct *t = task_of(0, 0);

	t->flags |= PF_NPROC_EXCEEDED;
	cr_assert_eq(sys_setresuid(t, KEEP, 1000, 1001), 0);
	cr_assert_eq(sys_setfsuid(t, 0), 1000);
	cr_assert_eq(sys_setreuid(t, 0, 1001), 0);
	cr_assert_eq(count(0), 1);
	cr_assert_eq(count(1000) + count(1001), 0);
	cr_assert(t->flags & PF_NPROC_EXCEEDED, "the record is the same: the flag is not touched");
}

Test(cred, an_observer_stays_uncharged)
{
	struct task_struct *t = task_observer(getpid());

	cr_assert_not_null(t);
	current = t;
	cred_init(&t->cred, 0, 0);
	cr_assert_eq(sys_setuid(t, 1000), 0);
	assert_uids(t, 1000, 1000, 1000, 1000);
	cr_assert_eq(t->ucounts, 0);
	cr_assert_eq(count(1000), 0);
}

Test(cred, nproc_limit_never_refuses_a_change)
{
	struct task_struct *t = task_of(0, 0);

	t->rlim[NPROC].cur = 0;
	add_tasks(1000, 3);
	cr_assert_eq(sys_setuid(t, 1000), 0);
	cr_assert_eq(get_rlimit_value(alloc_ucounts(INIT_USER_NS, 1000), NPROC), 4);
	cr_assert(t->flags & PF_NPROC_EXCEEDED);
}

/* The flag after root with @flags and limit @limit has become @uid, which has @others tasks. */
static bool exceeded_after(uint32_t uid, uint64_t limit, long others, uint32_t flags)
{
	struct task_struct *t = task_of(0, 0);

	t->rlim[NPROC].cur = limit;
	t->flags |= flags;
	add_tasks(uid, others);
	cr_assert_eq(sys_setuid(t, uid), 0);
	return t->flags & PF_NPROC_EXCEEDED;
}

Test(cred, nproc_exceeded_counts_without_the_mover)
{
	cr_assert_not(exceeded_after(1000, 2, 2, 0));
	cr_assert(exceeded_after(1001, 2, 3, 0));
	cr_assert_not(exceeded_after(1002, 0, 0, 0));
	cr_assert(exceeded_after(1003, 0, 1, 0));
	cr_assert_not(exceeded_after(1004, RLIM_INF, 5, 0));
}

Test(cred, nproc_exceeded_is_cleared_below_the_limit)
{
	cr_assert_not(exceeded_after(1000, 2, 2, PF_NPROC_EXCEEDED));
	cr_assert(exceeded_after(1001, 2, 3, PF_NPROC_EXCEEDED));
}

Test(cred, nproc_exceeded_is_not_lifted_by_capabilities)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.securebits = SECBIT_NO_SETUID_FIXUP;
	t->rlim[NPROC].cur = 1;
	add_tasks(1000, 2);
	cr_assert_eq(sys_setuid(t, 1000), 0);
	cr_assert(capable(t, CAP_SYS_RESOURCE));
	cr_assert(t->flags & PF_NPROC_EXCEEDED);
}

Test(cred, nproc_exceeded_never_for_real_uid_0)
{
	struct task_struct *t = task_of(1000, 1000);

	t->rlim[NPROC].cur = 1;
	t->flags |= PF_NPROC_EXCEEDED;
	t->cred.cap_permitted = t->cred.cap_effective = CAP(SETUID);
	add_tasks(0, 9);
	cr_assert_eq(sys_setresuid(t, 0, 1000, 1000), 0);
	cr_assert_not(t->flags & PF_NPROC_EXCEEDED);
}

Test(cred, nproc_exceeded_is_by_the_leaders_limit)
{
	struct task_struct *leader = task_of(0, 0), *t;

	t = task_adopt(leader, getpid(), getpid());
	cr_assert_not_null(t);
	t->cred = leader->cred;
	t->group_leader = task_ref(leader);
	t->tgid = getppid();
	t->rlim[NPROC].cur = RLIM_INF;
	leader->rlim[NPROC].cur = 1;
	current = t;
	add_tasks(1000, 2);
	cr_assert_eq(sys_setuid(t, 1000), 0);
	cr_assert(t->flags & PF_NPROC_EXCEEDED);
	cr_assert_not(leader->flags & PF_NPROC_EXCEEDED);
	assert_uids(leader, 0, 0, 0, 0);
}

Test(cred, nproc_exceeded_does_not_count_the_dead)
{
	struct task_struct *t = task_of(0, 0), *other;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	cr_assert_gt(pid, 0);
	other = task_adopt(t, pid, pid);
	cr_assert_not_null(other);
	cr_assert_eq(sys_setuid(other, 1000), 0);
	cr_assert_eq(count(1000), 1);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	t->rlim[NPROC].cur = 0;
	cr_assert_eq(sys_setuid(t, 1000), 0);
	cr_assert_not(t->flags & PF_NPROC_EXCEEDED);
	cr_assert_eq(count(1000), 1);
}

Test(cred, without_a_record_nothing_changes)
{
	struct task_struct *t = task_of(0, 0);

	t->flags |= PF_NPROC_EXCEEDED;
	for (uint32_t uid = 100000; alloc_ucounts(INIT_USER_NS, uid); uid++)
		;
	assert_refused(t, -EAGAIN, sys_setuid(t, 99999));
	assert_refused(t, -EAGAIN, sys_setreuid(t, 99999, 5));
	assert_refused(t, -EAGAIN, sys_setresuid(t, 99999, 5, 6));
	cr_assert_eq(count(0), 1);
	/* The effective uid needs no record; a known one can still be become. */
	cr_assert_eq(sys_setresuid(t, KEEP, 99999, KEEP), 0);
	cr_assert_eq(sys_setresuid(t, KEEP, 0, KEEP), 0);
	cr_assert_eq(sys_setuid(t, 100000), 0);
	cr_assert_eq(count(100000), 1);
}

Test(cred, setgroups_checks_in_order)
{
	struct task_struct *t = task_of(1000, 1000);
	static uint32_t list[CRED_NGROUPS_MAX + 1];

	assert_refused(t, -EPERM, sys_setgroups(t, -1, NULL));
	assert_refused(t, -EPERM, sys_setgroups(t, 0, NULL));
	t->cred.cap_effective = CAP(SETGID);
	assert_refused(t, -EINVAL, sys_setgroups(t, -1, list));
	assert_refused(t, -EINVAL, sys_setgroups(t, 65537, NULL));
	assert_refused(t, -ENOMEM, sys_setgroups(t, 65536, NULL));
	assert_refused(t, -ENOMEM, sys_setgroups(t, CRED_NGROUPS_MAX + 1, list));
	assert_refused(t, -EFAULT, sys_setgroups(t, 1, NULL));
	assert_refused(t, -EFAULT, sys_setgroups(t, 1, bad_address()));
	list[1] = KEEP;
	assert_refused(t, -EINVAL, sys_setgroups(t, 2, list));
}

Test(cred, setgroups_sorts)
{
	struct task_struct *t = task_of(0, 0);
	uint32_t list[] = { 30, 10, 20, 10 };
	uint32_t many[CRED_NGROUPS_MAX];

	cr_assert_eq(sys_setgroups(t, 4, list), 0);
	cr_assert_eq(t->cred.ngroups, 4);
	cr_assert_eq(memcmp(t->cred.groups, (uint32_t[]){ 10, 10, 20, 30 }, sizeof(list)), 0);
	cr_assert_eq(list[0], 30, "the program's list is its own");
	cr_assert(in_group_p(&t->cred, 20));
	list[0] = 10;
	list[1] = 15;
	cr_assert_eq(sys_setgroups(t, 2, list), 0);
	cr_assert_eq(t->cred.ngroups, 2);
	cr_assert_eq(t->cred.groups[0], 10);
	cr_assert_eq(t->cred.groups[1], 15);
	cr_assert_not(in_group_p(&t->cred, 20));
	for (int i = 0; i < CRED_NGROUPS_MAX; i++)
		many[i] = CRED_NGROUPS_MAX - i;
	cr_assert_eq(sys_setgroups(t, CRED_NGROUPS_MAX, many), 0);
	cr_assert_eq(t->cred.ngroups, CRED_NGROUPS_MAX);
	cr_assert_eq(t->cred.groups[CRED_NGROUPS_MAX - 1], CRED_NGROUPS_MAX);
	cr_assert_eq(sys_setgroups(t, 0, NULL), 0);
	cr_assert_eq(t->cred.ngroups, 0);
}

static long capget(struct task_struct *t, uint32_t version, int pid, void *data)
{
	struct __user_cap_header_struct hdr = { version, pid };

	return sys_capget(t, &hdr, data);
}

static long capset(struct task_struct *t, uint64_t e, uint64_t p, uint64_t i)
{
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = {
		{ e, p, i },
		{ e >> 32, p >> 32, i >> 32 },
	};

	return sys_capset(t, &hdr, data);
}

Test(cred, capget_gives_both_halves)
{
	struct task_struct *t = task_of(0, 0);
	struct __user_cap_data_struct d[2];

	t->cred.cap_effective = CAP(KILL) | CAP(BPF);
	t->cred.cap_inheritable = CAP(CHOWN) | CAP(PERFMON);
	cr_assert_eq(capget(t, _LINUX_CAPABILITY_VERSION_3, 0, d), 0);
	cr_assert_eq(d[0].effective, 1u << CAP_KILL);
	cr_assert_eq(d[1].effective, 1u << (CAP_BPF - 32));
	cr_assert_eq(d[0].permitted, UINT32_MAX);
	cr_assert_eq(d[1].permitted, 0x1ff);
	cr_assert_eq(d[0].inheritable, 1u << CAP_CHOWN);
	cr_assert_eq(d[1].inheritable, 1u << (CAP_PERFMON - 32));
	memset(d, 0, sizeof(d));
	cr_assert_eq(capget(t, _LINUX_CAPABILITY_VERSION_2, getpid(), d), 0);
	cr_assert_eq(d[1].permitted, 0x1ff);
}

Test(cred, capget_version_1_has_one_half)
{
	struct task_struct *t = task_of(0, 0);
	struct __user_cap_data_struct d[2];

	memset(d, 0x55, sizeof(d));
	cr_assert_eq(capget(t, _LINUX_CAPABILITY_VERSION_1, 0, d), 0);
	cr_assert_eq(d[0].permitted, UINT32_MAX);
	cr_assert_eq(d[1].permitted, 0x55555555);
}

Test(cred, capget_of_a_wrong_version_tells_the_right_one)
{
	struct task_struct *t = task_of(1000, 1000);
	struct __user_cap_header_struct hdr = { 0x12345678, -5 };
	struct __user_cap_data_struct d[2];

	cr_assert_eq(sys_capget(t, &hdr, d), -EINVAL);
	cr_assert_eq(hdr.version, _LINUX_CAPABILITY_VERSION_3);
	hdr.version = 0;
	cr_assert_eq(sys_capget(t, &hdr, NULL), 0, "a question for the version");
	cr_assert_eq(hdr.version, _LINUX_CAPABILITY_VERSION_3);
	cr_assert_eq(sys_capget(t, &hdr, NULL), 0, "without data nothing else is looked at");
	cr_assert_eq(sys_capget(t, &hdr, d), -EINVAL, "negative pid");
	cr_assert_eq(hdr.pid, -5);
}

Test(cred, capget_of_bad_addresses)
{
	struct task_struct *t = task_of(0, 0);
	struct __user_cap_data_struct d[2];
	void *bad = bad_address();

	cr_assert_eq(sys_capget(t, NULL, d), -EFAULT);
	cr_assert_eq(sys_capget(t, NULL, NULL), -EFAULT);
	cr_assert_eq(sys_capget(t, bad, d), -EFAULT);
	cr_assert_eq(capget(t, _LINUX_CAPABILITY_VERSION_3, 0, bad), -EFAULT);
	assert_refused(t, -EFAULT, sys_capset(t, NULL, d));
	assert_refused(t, -EFAULT, sys_capset(t, bad, d));
}

Test(cred, capget_of_another_task)
{
	struct task_struct *t = task_of(1000, 1000), *other;
	struct __user_cap_data_struct d[2];
	pid_t pid = getppid();

	cr_assert_eq(capget(t, _LINUX_CAPABILITY_VERSION_3, pid, d), -ESRCH);
	other = task_adopt(t, pid, pid);
	cr_assert_not_null(other);
	other->cred.cap_permitted = CAP(KILL);
	cr_assert_eq(capget(t, _LINUX_CAPABILITY_VERSION_3, pid, d), 0);
	cr_assert_eq(d[0].permitted, 1u << CAP_KILL);
	/* In a pid namespace of its own the caller means somebody else by that number. */
	t->flags |= PF_PIDNS;
	cr_assert_eq(capget(t, _LINUX_CAPABILITY_VERSION_3, pid, d), -ESRCH);
	cr_assert_eq(capget(t, _LINUX_CAPABILITY_VERSION_3, getpid(), d), 0);
}

Test(cred, capset_lowers_and_raises_within_permitted)
{
	struct task_struct *t = task_of(0, 0);

	cr_assert_eq(capset(t, CAP(KILL), CAP(KILL) | CAP(BPF), 0), 0);
	cr_assert_eq(t->cred.cap_effective, CAP(KILL));
	cr_assert_eq(t->cred.cap_permitted, CAP(KILL) | CAP(BPF));
	cr_assert_eq(capset(t, CAP(BPF), CAP(BPF), CAP(BPF)), 0);
	cr_assert_eq(t->cred.cap_effective, CAP(BPF));
	cr_assert_eq(t->cred.cap_inheritable, CAP(BPF));
	assert_refused(t, -EPERM, capset(t, CAP(BPF), CAP(BPF) | CAP(KILL), 0));
	assert_refused(t, -EPERM, capset(t, CAP(BPF), 0, 0));
	cr_assert_eq(capset(t, 0, 0, 0), 0);
	assert_refused(t, -EPERM, capset(t, 0, CAP(BPF), 0));
}

Test(cred, capset_ignores_unknown_bits)
{
	struct task_struct *t = task_of(0, 0);

	cr_assert_eq(capset(t, ~0ull, ~0ull, 0), 0);
	cr_assert_eq(t->cred.cap_permitted, CAP_FULL_SET);
}

Test(cred, capset_inheritable_needs_permitted_or_setpcap)
{
	struct task_struct *t = task_of(1000, 1000);

	set_caps(t, CAP(KILL));
	assert_refused(t, -EPERM, capset(t, 0, CAP(KILL), CAP(BPF)));
	cr_assert_eq(capset(t, 0, CAP(KILL), CAP(KILL)), 0);
	/* What is inheritable already stays, permitted or not. */
	cr_assert_eq(capset(t, 0, 0, CAP(KILL)), 0);
	set_caps(t, CAP(SETPCAP));
	cr_assert_eq(capset(t, CAP(SETPCAP), CAP(SETPCAP), CAP(BPF)), 0);
	cr_assert_eq(t->cred.cap_inheritable, CAP(BPF));
}

Test(cred, capset_inheritable_is_bounded)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.cap_bset = CAP_FULL_SET & ~CAP(BPF);
	assert_refused(t, -EPERM, capset(t, CAP_FULL_SET, CAP_FULL_SET, CAP(BPF)));
	t->cred.cap_inheritable = CAP(BPF);
	cr_assert_eq(capset(t, CAP_FULL_SET, CAP_FULL_SET, CAP(BPF)), 0);
}

Test(cred, capset_takes_ambient_along)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.cap_inheritable = t->cred.cap_ambient = CAP(KILL) | CAP(BPF) | CAP(CHOWN);
	cr_assert_eq(capset(t, 0, CAP(KILL) | CAP(BPF), CAP(KILL) | CAP(CHOWN)), 0);
	cr_assert_eq(t->cred.cap_ambient, CAP(KILL));
}

Test(cred, capset_is_for_the_caller_only)
{
	struct task_struct *t = task_of(0, 0);
	struct __user_cap_data_struct d[2] = { { 0 } };
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, getppid() };

	assert_refused(t, -EPERM, sys_capset(t, &hdr, d));
	hdr.pid = -1;
	assert_refused(t, -EPERM, sys_capset(t, &hdr, NULL));
	hdr.pid = getpid();
	assert_refused(t, -EFAULT, sys_capset(t, &hdr, NULL));
	hdr.version = 1;
	assert_refused(t, -EINVAL, sys_capset(t, &hdr, NULL));
	cr_assert_eq(hdr.version, _LINUX_CAPABILITY_VERSION_3);
	cr_assert_eq(sys_capset(t, &hdr, d), 0);
	cr_assert_eq(t->cred.cap_permitted, 0);
}

Test(cred, capset_version_1_clears_the_upper_half)
{
	struct task_struct *t = task_of(0, 0);
	struct __user_cap_data_struct d = { 0, UINT32_MAX, 0 };
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_1, 0 };

	cr_assert_eq(sys_capset(t, &hdr, &d), 0);
	cr_assert_eq(t->cred.cap_permitted, UINT32_MAX);
}

static long prctl5(struct task_struct *t, int option, unsigned long a2, unsigned long a3,
		   unsigned long a4, unsigned long a5)
{
	bool handled = false;
	long ret = cap_prctl(t, option, a2, a3, a4, a5, &handled);

	cr_assert(handled, "option %d", option);
	return ret;
}
#define prctl2(t, option, a2) prctl5(t, option, a2, 0, 0, 0)
#define ambient(t, what, cap) prctl5(t, PR_CAP_AMBIENT, PR_CAP_AMBIENT_##what, cap, 0, 0)

Test(cred, prctl_leaves_other_options_alone)
{
	static const int options[] = { PR_SET_NO_NEW_PRIVS,
				       PR_GET_NO_NEW_PRIVS,
				       PR_SET_NAME,
				       PR_SET_DUMPABLE,
				       PR_SET_PDEATHSIG,
				       0,
				       -1 };
	struct task_struct *t = task_of(0, 0);
	bool handled;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		handled = true;
		assert_refused(t, 0, cap_prctl(t, options[i], 1, 0, 0, 0, &handled));
		cr_assert_not(handled, "option %d", options[i]);
	}
}

Test(cred, capbset_drop_is_for_good)
{
	struct task_struct *t = task_of(0, 0);

	cr_assert_eq(prctl2(t, PR_CAPBSET_READ, CAP_KILL), 1);
	cr_assert_eq(prctl2(t, PR_CAPBSET_DROP, CAP_KILL), 0);
	cr_assert_eq(prctl2(t, PR_CAPBSET_READ, CAP_KILL), 0);
	cr_assert_eq(t->cred.cap_bset, CAP_FULL_SET & ~CAP(KILL));
	cr_assert_eq(t->cred.cap_permitted, CAP_FULL_SET);
	cr_assert_eq(prctl2(t, PR_CAPBSET_READ, 41), -EINVAL);
	cr_assert_eq(prctl2(t, PR_CAPBSET_READ, -1), -EINVAL);
	assert_refused(t, -EINVAL, prctl2(t, PR_CAPBSET_DROP, 41));
	t->cred.cap_effective = CAP_FULL_SET & ~CAP(SETPCAP);
	assert_refused(t, -EPERM, prctl2(t, PR_CAPBSET_DROP, CAP_BPF));
	assert_refused(t, -EPERM, prctl2(t, PR_CAPBSET_DROP, 41));
}

Test(cred, keepcaps_is_a_securebit)
{
	struct task_struct *t = task_of(1000, 1000);

	cr_assert_eq(prctl2(t, PR_GET_KEEPCAPS, 0), 0);
	assert_refused(t, -EINVAL, prctl2(t, PR_SET_KEEPCAPS, 2));
	cr_assert_eq(prctl2(t, PR_SET_KEEPCAPS, 1), 0);
	cr_assert_eq(prctl2(t, PR_GET_KEEPCAPS, 0), 1);
	cr_assert_eq(prctl2(t, PR_GET_SECUREBITS, 0), SECBIT_KEEP_CAPS);
	cr_assert_eq(prctl2(t, PR_SET_KEEPCAPS, 0), 0);
	cr_assert_eq(prctl2(t, PR_GET_SECUREBITS, 0), 0);
	t->cred.securebits = SECBIT_KEEP_CAPS_LOCKED;
	assert_refused(t, -EPERM, prctl2(t, PR_SET_KEEPCAPS, 1));
	assert_refused(t, -EPERM, prctl2(t, PR_SET_KEEPCAPS, 0));
}

Test(cred, securebits_need_setpcap)
{
	struct task_struct *t = task_of(0, 0);

	cr_assert_eq(prctl2(t, PR_SET_SECUREBITS, SECBIT_NOROOT), 0);
	cr_assert_eq(prctl2(t, PR_GET_SECUREBITS, 0), SECBIT_NOROOT);
	t->cred.cap_effective &= ~CAP(SETPCAP);
	assert_refused(t, -EPERM, prctl2(t, PR_SET_SECUREBITS, 0));
	assert_refused(t, -EPERM, prctl2(t, PR_SET_SECUREBITS, SECBIT_NOROOT));
	/* Bits 8 to 11 are a program's own affair. */
	cr_assert_eq(prctl2(t, PR_SET_SECUREBITS, SECBIT_NOROOT | 0x100), 0);
	cr_assert_eq(prctl2(t, PR_SET_SECUREBITS, SECBIT_NOROOT | 0xf00), 0);
	assert_refused(t, -EPERM, prctl2(t, PR_SET_SECUREBITS, SECBIT_NOROOT | 0xa00));
}

Test(cred, securebits_locks_hold)
{
	struct task_struct *t = task_of(0, 0);
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED;

	cr_assert_eq(prctl2(t, PR_SET_SECUREBITS, bits), 0);
	assert_refused(t, -EPERM, prctl2(t, PR_SET_SECUREBITS, SECBIT_NOROOT_LOCKED));
	assert_refused(t, -EPERM, prctl2(t, PR_SET_SECUREBITS, SECBIT_NOROOT));
	assert_refused(t, -EPERM, prctl2(t, PR_SET_SECUREBITS, bits | 1 << 12));
	assert_refused(t, -EPERM, prctl2(t, PR_SET_SECUREBITS, bits | 1ul << 32));
	cr_assert_eq(prctl2(t, PR_SET_SECUREBITS, bits | SECBIT_KEEP_CAPS), 0);
}

Test(cred, ambient_needs_permitted_and_inheritable)
{
	struct task_struct *t = task_of(1000, 1000);

	t->cred.cap_permitted = CAP(KILL) | CAP(BPF);
	t->cred.cap_inheritable = CAP(KILL) | CAP(CHOWN);
	assert_refused(t, -EPERM, ambient(t, RAISE, CAP_BPF));
	assert_refused(t, -EPERM, ambient(t, RAISE, CAP_CHOWN));
	cr_assert_eq(ambient(t, IS_SET, CAP_KILL), 0);
	cr_assert_eq(ambient(t, RAISE, CAP_KILL), 0);
	cr_assert_eq(ambient(t, IS_SET, CAP_KILL), 1);
	cr_assert_eq(t->cred.cap_ambient, CAP(KILL));
	cr_assert_eq(ambient(t, LOWER, CAP_BPF), 0);
	cr_assert_eq(ambient(t, LOWER, CAP_KILL), 0);
	cr_assert_eq(t->cred.cap_ambient, 0);
	t->cred.securebits = SECBIT_NO_CAP_AMBIENT_RAISE;
	assert_refused(t, -EPERM, ambient(t, RAISE, CAP_KILL));
}

Test(cred, ambient_clear_all)
{
	struct task_struct *t = task_of(1000, 1000);

	t->cred.cap_ambient = CAP(KILL) | CAP(BPF);
	assert_refused(t, -EINVAL, ambient(t, CLEAR_ALL, 1));
	cr_assert_eq(ambient(t, CLEAR_ALL, 0), 0);
	cr_assert_eq(t->cred.cap_ambient, 0);
}

Test(cred, ambient_arguments_are_checked)
{
	struct task_struct *t = task_of(0, 0);

	assert_refused(t, -EINVAL, ambient(t, RAISE, 41));
	assert_refused(t, -EINVAL, ambient(t, IS_SET, -1));
	assert_refused(t, -EINVAL, prctl5(t, PR_CAP_AMBIENT, 0, 0, 0, 0));
	assert_refused(t, -EINVAL, prctl5(t, PR_CAP_AMBIENT, 5, 0, 0, 0));
	assert_refused(t, -EINVAL, prctl5(t, PR_CAP_AMBIENT, 1ul << 32 | 1, 0, 0, 0));
	for (int what = PR_CAP_AMBIENT_IS_SET; what <= PR_CAP_AMBIENT_CLEAR_ALL; what++) {
		assert_refused(t, -EINVAL, prctl5(t, PR_CAP_AMBIENT, what, 0, 1, 0));
		assert_refused(t, -EINVAL, prctl5(t, PR_CAP_AMBIENT, what, 0, 0, 1));
	}
}

/* A test process may be under no_new_privs: exec can then give nothing new. */
static bool no_new_privs(void)
{
	return sys_call(__NR_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

Test(cred, exec_gives_root_the_bounding_set)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.cap_bset = CAP(KILL) | CAP(BPF);
	t->cred.cap_permitted = CAP(KILL) | CAP(BPF) | CAP(CHOWN) | CAP(SETUID);
	t->cred.cap_effective = 0;
	t->cred.cap_inheritable = CAP(CHOWN);
	cred_exec(t);
	cr_assert_eq(t->cred.cap_permitted, CAP(KILL) | CAP(BPF) | CAP(CHOWN));
	cr_assert_eq(t->cred.cap_effective, t->cred.cap_permitted);
	cr_assert_eq(t->cred.cap_inheritable, CAP(CHOWN));
}

Test(cred, exec_gives_root_back_what_it_dropped)
{
	struct task_struct *t = task_of(0, 0);

	if (no_new_privs())
		cr_skip_test("no_new_privs is set");
	t->cred.cap_permitted = t->cred.cap_effective = 0;
	cred_exec(t);
	cr_assert_eq(t->cred.cap_permitted, CAP_FULL_SET);
	cr_assert_eq(t->cred.cap_effective, CAP_FULL_SET);
}

Test(cred, exec_with_no_new_privs_gives_nothing_new)
{
	struct task_struct *t = task_of(0, 0);

	cr_assert_eq(sys_call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	set_uids(t, 1000, 0, 0, 0);
	t->cred.cap_permitted = t->cred.cap_effective = CAP(KILL);
	cred_exec(t);
	cr_assert_eq(t->cred.cap_permitted, CAP(KILL));
	assert_uids(t, 1000, 1000, 1000, 1000);
}

Test(cred, exec_with_only_the_real_uid_root_gives_no_effective)
{
	struct task_struct *t = task_of(0, 0);

	set_uids(t, 0, 1000, 1000, 1000);
	cred_exec(t);
	cr_assert_eq(t->cred.cap_permitted, CAP_FULL_SET);
	cr_assert_eq(t->cred.cap_effective, 0);
}

Test(cred, exec_leaves_others_only_ambient)
{
	struct task_struct *t = task_of(1000, 1000);

	set_caps(t, CAP(KILL) | CAP(BPF));
	t->cred.cap_inheritable = CAP(KILL) | CAP(CHOWN);
	t->cred.cap_ambient = CAP(KILL);
	cred_exec(t);
	cr_assert_eq(t->cred.cap_permitted, CAP(KILL));
	cr_assert_eq(t->cred.cap_effective, CAP(KILL));
	cr_assert_eq(t->cred.cap_inheritable, CAP(KILL) | CAP(CHOWN));
	cr_assert_eq(t->cred.cap_ambient, CAP(KILL));
	t->cred.cap_ambient = 0;
	cred_exec(t);
	cr_assert_eq(t->cred.cap_permitted | t->cred.cap_effective, 0);
}

Test(cred, exec_with_noroot_treats_root_as_others)
{
	struct task_struct *t = task_of(0, 0);

	t->cred.securebits = SECBIT_NOROOT;
	t->cred.cap_inheritable = t->cred.cap_ambient = CAP(KILL);
	cred_exec(t);
	cr_assert_eq(t->cred.cap_permitted, CAP(KILL));
	cr_assert_eq(t->cred.cap_effective, CAP(KILL));
}

Test(cred, exec_sets_saved_and_file_system_ids)
{
	struct task_struct *t = task_of(1, 1);

	set_uids(t, 1, 2, 3, 4);
	set_gids(t, 5, 6, 7, 6);
	t->cred.securebits = SECBIT_KEEP_CAPS | SECBIT_NO_SETUID_FIXUP;
	cred_exec(t);
	assert_uids(t, 1, 2, 2, 2);
	assert_gids(t, 5, 6, 6, 6);
	cr_assert_eq(t->cred.securebits, SECBIT_NO_SETUID_FIXUP, "keepcaps ends at exec");
	cr_assert_eq(count(1), 1);
}

Test(cred, exec_in_a_foreign_group_clears_ambient)
{
	struct task_struct *t = task_of(1, 1);

	set_gids(t, 5, 6, 7, 8);
	t->cred.cap_permitted = t->cred.cap_inheritable = t->cred.cap_ambient = CAP(KILL);
	cred_exec(t);
	cr_assert_eq(t->cred.cap_permitted | t->cred.cap_ambient, 0);
	set_gids(t, 5, 6, 7, 8);
	t->cred.groups[0] = 6;
	t->cred.ngroups = 1;
	t->cred.cap_permitted = t->cred.cap_inheritable = t->cred.cap_ambient = CAP(KILL);
	cred_exec(t);
	cr_assert_eq(t->cred.cap_permitted, CAP(KILL));
}

/*
 * Beside the kernel: forked children make the same random calls to it and to the model, and
 * compare every answer and all that can be read back. Where the caller may do nothing, both refuse.
 */
static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 16) % n;
}

static uint64_t some_caps(uint64_t of)
{
	uint64_t mask = ((uint64_t)rnd(1u << 31) << 31 ^ rnd(1u << 31)) | CAP(SETUID);

	switch (rnd(4)) {
	case 0:
		return of;
	case 1:
		return of & (mask | CAP(SETGID) | CAP(SETPCAP));
	case 2:
		return of & ~CAP(KILL);
	}
	return CAP(KILL) | CAP(CHOWN);
}

static uint32_t some_id(const struct cred *c)
{
	const uint32_t ids[] = { 0,      1000,    1001,    1002,   0,       KEEP,
				 c->uid, c->euid, c->suid, c->gid, c->egid, c->sgid };

	return ids[rnd(sizeof(ids) / sizeof(ids[0]))];
}

static uint64_t real_ambient(void)
{
	uint64_t set = 0;

	for (int i = 0; i <= CAP_CHECKPOINT_RESTORE; i++)
		if (sys_call(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0) == 1)
			set |= 1ull << i;
	return set;
}

static uint64_t real_bset(void)
{
	uint64_t set = 0;

	for (int i = 0; i <= CAP_CHECKPOINT_RESTORE; i++)
		if (sys_call(__NR_prctl, PR_CAPBSET_READ, i, 0, 0, 0) == 1)
			set |= 1ull << i;
	return set;
}

static bool read_real(struct cred *c)
{
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];
	long n;

	memset(c, 0, sizeof(*c));
	sys_call(__NR_getresuid, &c->uid, &c->euid, &c->suid);
	sys_call(__NR_getresgid, &c->gid, &c->egid, &c->sgid);
	c->fsuid = sys_call(__NR_setfsuid, -1);
	c->fsgid = sys_call(__NR_setfsgid, -1);
	n = sys_call(__NR_getgroups, CRED_NGROUPS_MAX, c->groups);
	if (n < 0 || sys_call(__NR_capget, &hdr, d))
		return false;
	c->ngroups = n;
	c->cap_effective = d[0].effective | (uint64_t)d[1].effective << 32;
	c->cap_permitted = d[0].permitted | (uint64_t)d[1].permitted << 32;
	c->cap_inheritable = d[0].inheritable | (uint64_t)d[1].inheritable << 32;
	c->cap_bset = real_bset();
	c->cap_ambient = real_ambient();
	c->securebits = sys_call(__NR_prctl, PR_GET_SECUREBITS, 0, 0, 0, 0);
	return true;
}

static bool same_cred(const struct cred *a, const struct cred *b)
{
	return !memcmp(a, b, offsetof(struct cred, groups)) &&
	       !memcmp(a->groups, b->groups, a->ngroups * sizeof(a->groups[0]));
}

static bool same_prctl(struct task_struct *t, int option, unsigned long a2, unsigned long a3)
{
	unsigned long a4 = !rnd(20), a5 = !rnd(20);
	bool handled;
	long model = cap_prctl(t, option, a2, a3, a4, a5, &handled);

	return handled && sys_call(__NR_prctl, option, a2, a3, a4, a5) == model;
}

static bool same_capset(struct task_struct *t)
{
	static const uint32_t versions[] = { _LINUX_CAPABILITY_VERSION_3,
					     _LINUX_CAPABILITY_VERSION_3,
					     _LINUX_CAPABILITY_VERSION_3,
					     _LINUX_CAPABILITY_VERSION_1, 7 };
	struct __user_cap_header_struct hdr = { versions[rnd(5)], rnd(3) ? 0 : getpid() }, h2 = hdr;
	uint64_t p = some_caps(t->cred.cap_permitted), e = some_caps(p);
	uint64_t i = some_caps(rnd(2) ? p : CAP_FULL_SET);
	struct __user_cap_data_struct d[2] = { { e, p, i }, { e >> 32, p >> 32, i >> 32 } };

	return sys_call(__NR_capset, &hdr, d) == sys_capset(t, &h2, d) &&
	       !memcmp(&hdr, &h2, sizeof(hdr));
}

static bool same_setgroups(struct task_struct *t)
{
	uint32_t list[5];
	int n = rnd(6);

	for (int i = 0; i < n; i++)
		list[i] = rnd(40) ? rnd(5) + 1000 : KEEP;
	return sys_call(__NR_setgroups, n, list) == sys_setgroups(t, n, list);
}

static bool same_change(struct task_struct *t)
{
	uint32_t a = some_id(&t->cred), b = some_id(&t->cred), c = some_id(&t->cred);
	unsigned long bits = rnd(3) ? 1ul << rnd(13) : rnd(1 << 13);

	switch (rnd(18)) {
	case 0:
	case 1:
		return sys_call(__NR_setresuid, a, b, c) == sys_setresuid(t, a, b, c);
	case 2:
		return sys_call(__NR_setreuid, a, b) == sys_setreuid(t, a, b);
	case 3:
		return sys_call(__NR_setuid, a) == sys_setuid(t, a);
	case 4:
	case 5:
		return sys_call(__NR_setfsuid, a) == sys_setfsuid(t, a);
	case 6:
		return sys_call(__NR_setresgid, a, b, c) == sys_setresgid(t, a, b, c);
	case 7:
		return sys_call(__NR_setregid, a, b) == sys_setregid(t, a, b);
	case 8:
		return sys_call(__NR_setgid, a) == sys_setgid(t, a);
	case 9:
		return sys_call(__NR_setfsgid, a) == sys_setfsgid(t, a);
	case 10:
		return same_setgroups(t);
	case 11:
	case 12:
		return same_capset(t);
	case 13:
		return same_prctl(t, PR_CAPBSET_DROP, rnd(43), 0);
	case 14:
		return same_prctl(t, PR_SET_KEEPCAPS, rnd(3), 0);
	case 15:
		return same_prctl(t, PR_SET_SECUREBITS, rnd(2) ? bits : bits ^ t->cred.securebits,
				  0);
	default:
		return same_prctl(t, PR_CAP_AMBIENT, rnd(6), rnd(4) ? rnd(12) : rnd(42));
	}
}

/* In a child: 0 if the walk and its end were the same in both. */
static int walk(struct task_struct *t, int steps)
{
	struct cred real;

	for (int i = 0; i < steps; i++) {
		if (!same_change(t))
			return 1;
		if (!read_real(&real) || !same_cred(&real, &t->cred))
			return 2;
		if (t->ucounts != ucounts_index(alloc_ucounts(INIT_USER_NS, real.uid)) + 1)
			return 3;
	}
	return 0;
}

static const char *walk_impossible(void)
{
	unsigned int major = 0, minor = 0, from, to, n;
	struct cred real;
	struct utsname u;
	FILE *f = fopen("/proc/self/uid_map", "r");
	bool whole = f && fscanf(f, "%u %u %u", &from, &to, &n) == 3 && !from && !to && n == KEEP;

	if (f)
		fclose(f);
	if (!whole)
		return "ids are mapped: the kernel refuses others";
	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2 ||
	    major * 1000 + minor < 6016)
		return "the kernel is older than 6.16: its rules differ";
	if (!read_real(&real))
		return "more groups than the model holds, or capget(2) is forbidden";
	return NULL;
}

static struct task_struct *walker(void)
{
	struct task_struct *t;
	struct cred real;

	cr_assert(read_real(&real));
	t = task_first(&real, no_limits);
	cr_assert_not_null(t);
	cr_assert(task_born(t, task_ref(t), getpid(), getpid()));
	current = t;
	return t;
}

Test(cred, kernel_agrees_on_random_changes)
{
	const char *why = walk_impossible();
	struct task_struct *t;
	int status;

	if (why)
		cr_skip_test("%s", why);
	t = walker();
	for (int i = 1; i <= 200; i++) {
		pid_t pid = fork();

		if (!pid) {
			seed = i * 0x9e3779b97f4a7c15ull;
			t->pid = t->tgid = sys_call(__NR_getpid);
			_exit(walk(t, 60));
		}
		cr_assert_gt(pid, 0);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(status, 0, "seed %d: status %#x (1 answer, 2 state, 3 record)", i,
			     status);
	}
}

/* The ids and sets that /proc/self/status shows, in its order. */
struct shown {
	uint32_t id[8];
	uint64_t cap[5];
};

static struct shown shown_of(const struct cred *c)
{
	return (struct shown){
		{ c->uid, c->euid, c->suid, c->fsuid, c->gid, c->egid, c->sgid, c->fsgid },
		{ c->cap_inheritable, c->cap_permitted, c->cap_effective, c->cap_bset,
		  c->cap_ambient },
	};
}

/* A start that chance rarely finds: ambient capabilities, kept when the ids change. */
static bool same_start(struct task_struct *t)
{
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	if (rnd(3) == 0)
		sys_call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (rnd(4) == 0)
		return true;
	sys_capget(t, &hdr, d);
	for (int i = 0; i < 2; i++)
		d[i].inheritable = d[i].permitted;
	if (sys_call(__NR_capset, &hdr, d) != sys_capset(t, &hdr, d))
		return false;
	for (int cap = 0; cap <= CAP_CHECKPOINT_RESTORE; cap += 3)
		if (!same_prctl(t, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap))
			return false;
	return same_prctl(t, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | rnd(2), 0);
}

/* In a child: the same changes in both, then what the model says of an exec, then the exec. */
static void walk_and_exec(struct task_struct *t, int out)
{
	static char *argv[] = { "grep", "-E", "^(Uid|Gid|Cap)", "/proc/self/status", NULL };
	static char *envp[] = { NULL };
	struct shown model;

	t->pid = t->tgid = sys_call(__NR_getpid);
	if (!same_start(t) || walk(t, rnd(12)))
		_exit(1);
	cred_exec(t);
	model = shown_of(&t->cred);
	if (write(out, &model, sizeof(model)) != sizeof(model))
		_exit(2);
	dup2(out, 1);
	execve("/bin/grep", argv, envp);
	_exit(3);
}

static bool parse_shown(FILE *f, struct shown *s)
{
	unsigned long long cap;
	char line[128];

	memset(s, 0, sizeof(*s));
	for (int i = 0; i < 2; i++)
		if (!fgets(line, sizeof(line), f) ||
		    sscanf(line, "%*s %u %u %u %u", &s->id[4 * i], &s->id[4 * i + 1],
			   &s->id[4 * i + 2], &s->id[4 * i + 3]) != 4)
			return false;
	for (int i = 0; i < 5; i++) {
		if (!fgets(line, sizeof(line), f) || sscanf(line, "%*s %llx", &cap) != 1)
			return false;
		s->cap[i] = cap;
	}
	return true;
}

Test(cred, kernel_agrees_on_exec)
{
	const char *why = walk_impossible();
	struct task_struct *t;

	if (why)
		cr_skip_test("%s", why);
	if (access("/bin/grep", X_OK))
		cr_skip_test("no /bin/grep");
	t = walker();
	for (int i = 1; i <= 200; i++) {
		struct shown model, real;
		int fd[2], status;
		pid_t pid;
		FILE *f;

		cr_assert_eq(pipe(fd), 0);
		pid = fork();
		if (!pid) {
			seed = i * 0x9e3779b97f4a7c15ull;
			walk_and_exec(t, fd[1]);
		}
		cr_assert_gt(pid, 0);
		close(fd[1]);
		f = fdopen(fd[0], "r");
		cr_assert_eq(fread(&model, sizeof(model), 1, f), 1);
		cr_assert(parse_shown(f, &real), "seed %d", i);
		fclose(f);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(status, 0);
		cr_assert_eq(memcmp(model.id, real.id, sizeof(real.id)), 0, "seed %d: ids", i);
		for (int c = 0; c < 5; c++)
			cr_assert_eq(model.cap[c], real.cap[c],
				     "seed %d: set %d: model %llx, kernel %llx", i, c,
				     (unsigned long long)model.cap[c],
				     (unsigned long long)real.cap[c]);
	}
}
