/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The emulated files under /proc: which path names one, and its text. */
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <kpemu/mlock.h>
#include <kpemu/proc.h>
#include <kpemu/sched.h>
#include <kpemu/shm.h>
#include <kpemu/signal.h>
#include <kpemu/sysctl.h>
#include <kpemu/ucount.h>
#include <kpemu/world.h>

#include "emu/lib/rawsys.h"
#include "emu/lib/uaccess.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3; hosts with vm.memfd_noexec=2 refuse a memfd without */
#endif

/*
 * A text is the task's real file, read in blocks and passed on line by line; a line whose start is
 * in the file's table is made anew. Lines may be longer than any buffer: only their first
 * LINE_HEAD bytes are ever looked at together.
 */
#define LINE_HEAD 64

struct proc_text {
	struct task_struct *task;
	int in, out; /* the real file, the snapshot */
	long err; /* of the first write that failed, -errno */
	uint64_t pos; /* bytes written to the snapshot */
	size_t at, end; /* the unread part of buf */
	size_t held; /* bytes in held_back */
	char buf[1024];
	char held_back[1024];
};

struct proc_line {
	const char *start; /* of the lines it stands for, with what ends the name */
	void (*show)(struct proc_text *x, const struct proc_line *line);
	unsigned int arg;
};

static void text_flush(struct proc_text *x)
{
	size_t done = 0;

	while (!x->err && done < x->held) {
		long n = sys_call(__NR_pwrite64, x->out, x->held_back + done, x->held - done,
				  x->pos);

		if (n <= 0) {
			x->err = n ? n : -EIO;
			break;
		}
		done += n;
		x->pos += n;
	}
	x->held = 0;
}

static void text_put(struct proc_text *x, const char *s, size_t n)
{
	while (n) {
		size_t room = sizeof(x->held_back) - x->held;
		size_t take = n < room ? n : room;

		memcpy(x->held_back + x->held, s, take);
		x->held += take;
		s += take;
		n -= take;
		if (x->held == sizeof(x->held_back))
			text_flush(x);
	}
}

__attribute__((format(printf, 2, 3))) static void text_printf(struct proc_text *x,
							      const char *format, ...)
{
	char line[256];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (n > 0)
		text_put(x, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

/* The first number of the real line. */
static unsigned long real_number(const struct proc_text *x)
{
	unsigned long v = 0;
	size_t i = x->at;

	while (i < x->end && x->buf[i] != '\n' && (x->buf[i] < '0' || x->buf[i] > '9'))
		i++;
	for (; i < x->end && x->buf[i] >= '0' && x->buf[i] <= '9'; i++)
		v = v * 10 + (x->buf[i] - '0');
	return v;
}

/* Ids are shown as the reader's user namespace calls them. */
static uint32_t reader_ns(void)
{
	return current ? READ_ONCE(current->cred.user_ns) : INIT_USER_NS;
}

static uint32_t shown_id(uint32_t id, bool gid)
{
	return gid ? from_kgid_munged(reader_ns(), id) : from_kuid_munged(reader_ns(), id);
}

/* arg: where in struct cred the real id is; effective, saved and fs id follow it. */
static void show_ids(struct proc_text *x, const struct proc_line *line)
{
	const uint32_t *id = (const void *)((const char *)&x->task->cred + line->arg);
	bool gid = line->arg == offsetof(struct cred, gid);

	text_printf(x, "%s\t%u\t%u\t%u\t%u\n", line->start, shown_id(READ_ONCE(id[0]), gid),
		    shown_id(READ_ONCE(id[1]), gid), shown_id(READ_ONCE(id[2]), gid),
		    shown_id(READ_ONCE(id[3]), gid));
}

/* The kernel puts a blank between the groups and one at the end, whether there are any or not. */
static void show_groups(struct proc_text *x, const struct proc_line *line)
{
	const struct cred *cred = &x->task->cred;
	uint32_t n = READ_ONCE(cred->ngroups);

	text_printf(x, "%s\t", line->start);
	for (uint32_t i = 0; i < n && i < CRED_NGROUPS_MAX; i++)
		text_printf(x, i ? " %u" : "%u", shown_id(READ_ONCE(cred->groups[i]), true));
	text_put(x, " \n", 2);
}

/* arg: where in struct cred the set is. */
static void show_cap(struct proc_text *x, const struct proc_line *line)
{
	const uint64_t *set = (const void *)((const char *)&x->task->cred + line->arg);

	text_printf(x, "%s\t%016llx\n", line->start, (unsigned long long)READ_ONCE(*set));
}

static void show_locked(struct proc_text *x, const struct proc_line *line)
{
	/* What libc mapped and the kernel locked behind our back is known to the owner alone. */
	if (current && current->tgid == x->task->tgid)
		mlock_reconcile(current);
	text_printf(x, "%s\t%8lu kB\n", line->start, mm_locked_kb(x->task));
}

/* Not around all of a text: the caller's mask is a line of it. */
static int reap_with_signals_blocked(void)
{
	uint64_t old;
	int n;

	block_signals(&old);
	n = reap_dead(-1);
	restore_signals(&old);
	return n;
}

static unsigned int nr_new_threads(struct task_struct *t)
{
	uint32_t group = READ_ONCE(t->group_leader);
	unsigned int n = 0;

	for_each_task(i, t)
		n += slot_state(READ_ONCE(t->slot)) == SLOT_NEW && READ_ONCE(t->group_leader) == group;
	return n;
}

/*
 * Looking for the dead costs a look at every task, so it is done only where the model and the
 * kernel differ. They differ rightly while a thread is being made, and for tasks nobody adopted.
 */
static void show_threads(struct proc_text *x, const struct proc_line *line)
{
	unsigned long real = real_number(x);
	unsigned int n = nr_threads(x->task);

	if (n != real && reap_with_signals_blocked() > 0)
		n = nr_threads(x->task);
	/* One that the kernel has made, and that has not come to run yet, has no number here. */
	if (n < real && real <= n + nr_new_threads(x->task))
		n = real;
	text_printf(x, "%s\t%lu\n", line->start, n ? n : real);
}

/*
 * To look what waits costs a look at every task of the record. Where nothing is charged, and the
 * host says that nothing waits for any process of the real user, it is not needed.
 */
static unsigned long pending_signals(struct ucounts *uc, unsigned long real)
{
	uint64_t old;

	if (real || get_rlimit_value(uc, UCOUNT_RLIMIT_SIGPENDING)) {
		block_signals(&old);
		signal_reconcile_record(uc);
		reap_dead(ucounts_index(uc));
		restore_signals(&old);
	}
	return get_rlimit_value(uc, UCOUNT_RLIMIT_SIGPENDING);
}

static void show_sigq(struct proc_text *x, const struct proc_line *line)
{
	struct ucounts *uc = ucounts_of(READ_ONCE(x->task->ucounts));
	unsigned long real = real_number(x);

	text_printf(x, "%s\t%lu/%llu\n", line->start, uc ? pending_signals(uc, real) : real,
		    (unsigned long long)rlimit(x->task, UCOUNT_RLIMIT_SIGPENDING));
}

static const char *limit_text(char *buf, size_t size, uint64_t limit)
{
	if (limit == RLIM_INF)
		return "unlimited";
	snprintf(buf, size, "%llu", (unsigned long long)limit);
	return buf;
}

/* arg: enum rlimit_type. */
static void show_limit(struct proc_text *x, const struct proc_line *line)
{
	static const char *const unit[] = {
		[UCOUNT_RLIMIT_NPROC] = "processes",
		[UCOUNT_RLIMIT_MSGQUEUE] = "bytes",
		[UCOUNT_RLIMIT_SIGPENDING] = "signals",
		[UCOUNT_RLIMIT_MEMLOCK] = "bytes",
	};
	char soft[24], hard[24];
	struct rlim r;

	do_prlimit(x->task, x->task, line->arg, NULL, &r);
	text_printf(x, "%-25s %-20s %-20s %-10s\n", line->start,
		    limit_text(soft, sizeof(soft), r.cur), limit_text(hard, sizeof(hard), r.max),
		    unit[line->arg]);
}

static const struct proc_line status_lines[] = {
	{ "Uid:", show_ids, offsetof(struct cred, uid) },
	{ "Gid:", show_ids, offsetof(struct cred, gid) },
	{ "Groups:", show_groups, 0 },
	{ "VmLck:", show_locked, 0 },
	{ "Threads:", show_threads, 0 },
	{ "SigQ:", show_sigq, 0 },
	{ "CapInh:", show_cap, offsetof(struct cred, cap_inheritable) },
	{ "CapPrm:", show_cap, offsetof(struct cred, cap_permitted) },
	{ "CapEff:", show_cap, offsetof(struct cred, cap_effective) },
	{ "CapBnd:", show_cap, offsetof(struct cred, cap_bset) },
	{ "CapAmb:", show_cap, offsetof(struct cred, cap_ambient) },
	{ NULL, NULL, 0 },
};

static const struct proc_line limits_lines[] = {
	{ "Max processes", show_limit, UCOUNT_RLIMIT_NPROC },
	{ "Max locked memory", show_limit, UCOUNT_RLIMIT_MEMLOCK },
	{ "Max pending signals", show_limit, UCOUNT_RLIMIT_SIGPENDING },
	{ "Max msgqueue size", show_limit, UCOUNT_RLIMIT_MSGQUEUE },
	{ NULL, NULL, 0 },
};

/* --- maps --- */

/* On the right are names in the namespace of the reader, or in the parent of his own. */
static void show_map(struct proc_text *x, bool gid)
{
	uint32_t n = READ_ONCE(x->task->cred.user_ns), lower = reader_ns(), extents;
	struct user_namespace *ns = user_ns_of(n);
	const struct uid_gid_map *map;

	if (n == INIT_USER_NS) {
		text_printf(x, "%10u %10u %10u\n", 0, 0, UINT32_MAX);
		return;
	}
	if (!ns)
		return;
	if (lower == n)
		lower = ns->parent;
	map = gid ? &ns->gid_map : &ns->uid_map;
	extents = smp_load_acquire(&map->nr_extents);
	for (uint32_t i = 0; i < extents && i < USER_NS_EXTENTS; i++) {
		const struct uid_gid_extent *e = &map->extent[i];

		text_printf(x, "%10u %10u %10u\n", e->first,
			    gid ? from_kgid(lower, e->lower_first) : from_kuid(lower, e->lower_first),
			    e->count);
	}
}

static void show_uid_map(struct proc_text *x)
{
	show_map(x, false);
}

static void show_gid_map(struct proc_text *x)
{
	show_map(x, true);
}

static void show_setgroups(struct proc_text *x)
{
	uint32_t n = READ_ONCE(x->task->cred.user_ns);
	struct user_namespace *ns = user_ns_of(n);
	bool allowed = n == INIT_USER_NS ||
		       (ns && READ_ONCE(ns->flags) & USERNS_SETGROUPS_ALLOWED);

	text_printf(x, "%s\n", allowed ? "allow" : "deny");
}

/* --- /proc/kpemu --- */

/* Before a person reads numbers of the world: what waits, and who is dead. */
static void look_again(void)
{
	uint64_t old;

	block_signals(&old);
	signal_reconcile_all();
	reap_dead(-1);
	if (current)
		shm_reap(current);
	restore_signals(&old);
}

/* Tasks, bytes, signals, kB. */
static long long amount(uint32_t type, int64_t v)
{
	return type == UCOUNT_RLIMIT_MEMLOCK ? v * 4 : v;
}

/* The three columns of a limit are as wide as their names, or as most numbers. */
#define NUMBER_WIDTH 10

static int column(char *buf, size_t size, enum rlimit_type type, const char *what)
{
	int n = snprintf(buf, size, "%s%s%s", rlimit_name(type),
			 type == UCOUNT_RLIMIT_MEMLOCK && strcmp(what, "_refused") ? "_kb" : "",
			 what);

	return n < NUMBER_WIDTH ? NUMBER_WIDTH : n;
}

/* @uc NULL: the names. */
static void show_column(struct proc_text *x, struct ucounts *uc, enum rlimit_type type,
			const char *what, long long value)
{
	char name[40];
	int width = column(name, sizeof(name), type, what);

	if (uc)
		text_printf(x, " %*lld", width, value);
	else
		text_printf(x, " %*s", width, name);
}

/* What the counter has taken from its limit and nobody uses, with the algorithms that do so. */
static void show_held(struct proc_text *x, struct ucounts *uc)
{
	static const enum rlimit_type type[] = { UCOUNT_RLIMIT_NPROC, UCOUNT_RLIMIT_SIGPENDING };

	for (int i = 0; i < 2 && ucounts_ops()->held; i++)
		show_column(x, uc, type[i], "_held",
			    uc ? ucounts_ops()->held(uc, type[i]) : 0);
}

static void show_record(struct proc_text *x, struct ucounts *uc)
{
	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++) {
		show_column(x, uc, i, "", uc ? amount(i, get_rlimit_value(uc, i)) : 0);
		show_column(x, uc, i, "_peak", uc ? amount(i, ucounts_peak(uc, i, NULL)) : 0);
		show_column(x, uc, i, "_refused", uc ? atomic64_read(&uc->refused[i]) : 0);
	}
	show_held(x, uc);
	text_put(x, "\n", 1);
}

static void show_ucounts(struct proc_text *x)
{
	struct ucounts *uc;

	text_printf(x, "%4s %10s", "ns", "uid");
	show_record(x, NULL);
	for_each_ucounts(i, uc) {
		if (slot_state(READ_ONCE(uc->slot)) != SLOT_LIVE)
			continue;
		text_printf(x, "%4u %10u", uc->ns, uc->uid);
		show_record(x, uc);
	}
}

/* Names of programs may have anything in them; a line stays a line, and a word a word. */
static const char *printable(char *buf, size_t size, const char *s, size_t n, bool word)
{
	size_t i;

	for (i = 0; i < n && i + 1 < size && s[i]; i++)
		buf[i] = (unsigned char)s[i] < ' ' + word || s[i] == 0x7f ? '?' : s[i];
	buf[i] = '\0';
	return buf;
}

static void show_refusal(struct proc_text *x, const struct refusal_record *rec)
{
	const struct refusal *r = &rec->first;
	const char *err = strerrorname_np(r->err);
	char call[sizeof(rec->call) + 1], comm[sizeof(rec->comm) + 1];

	text_printf(x, "%-10s %5d %4u %10u %12lld %12lld %12lld %-6s %-15s %7d %7lld %s\n",
		    rlimit_name(r->type), r->level, r->ns,
		    r->uid, amount(r->type, r->use), amount(r->type, r->limit),
		    amount(r->type, r->asked), err ? err : "?",
		    printable(call, sizeof(call), rec->call, sizeof(rec->call), true), r->pid,
		    (long long)atomic64_read(&rec->count),
		    printable(comm, sizeof(comm), rec->comm, sizeof(rec->comm), false));
}

static void show_count(struct proc_text *x, const char *name, long long value)
{
	text_printf(x, "%-15s %lld\n", name, value);
}

/* In the same table are programs that could not be entered (err 0): these are only counted here. */
static void show_events(struct proc_text *x)
{
	const struct world_counts *c = &world->counts;
	struct refusal_record *rec;

	text_printf(x, "%-10s %5s %4s %10s %12s %12s %12s %-6s %-15s %7s %7s %s\n", "limit",
		    "level", "ns", "uid", "use", "max", "asked", "errno", "call", "pid", "times",
		    "comm");
	for (uint32_t i = 0; (rec = table_slot(TABLE_REFUSAL, i)); i++)
		if (slot_state(smp_load_acquire(&rec->slot)) == SLOT_LIVE && rec->first.err)
			show_refusal(x, rec);
	text_put(x, "\n", 1);
	show_count(x, "uncovered", atomic64_read(&c->uncovered));
	show_count(x, "adopted", atomic64_read(&c->adopted));
	show_count(x, "host_collisions", atomic64_read(&c->host_collisions));
	show_count(x, "mq_clamped", atomic64_read(&c->mq_clamped));
	show_count(x, "recoveries", atomic64_read(&c->recoveries));
	show_count(x, "reaped_dead", atomic64_read(&c->reaped_dead));
	show_count(x, "refusals_lost", READ_ONCE(world->refusals_lost));
}

/*
 * A file of a task has a table of lines, if some are the real file's, or a function for all of its
 * text; one of the world has a function. Of the others the text is a matter of the target.
 */
static const struct {
	const char *name;
	const struct proc_line *lines;
	void (*show)(struct proc_text *x);
	bool of_world;
} proc_files[NR_PROC_FILES] = {
	[PROC_STATUS] = { "status", status_lines, NULL, false },
	[PROC_LIMITS] = { "limits", limits_lines, NULL, false },
	[PROC_UID_MAP] = { "uid_map", NULL, show_uid_map, false },
	[PROC_GID_MAP] = { "gid_map", NULL, show_gid_map, false },
	[PROC_SETGROUPS] = { "setgroups", NULL, show_setgroups, false },
	[PROC_NS_USER] = { "ns/user", NULL, NULL, false },
	[PROC_NS_IPC] = { "ns/ipc", NULL, NULL, false },
	[PROC_SYSCTL] = { "sys", NULL, NULL, false },
	[PROC_UCOUNTS] = { "ucounts", NULL, show_ucounts, true },
	[PROC_EVENTS] = { "events", NULL, show_events, true },
};

static bool is_world_file(enum proc_file file)
{
	return file < NR_PROC_FILES && proc_files[file].of_world;
}

static bool is_ns_file(enum proc_file file)
{
	return file == PROC_NS_USER || file == PROC_NS_IPC;
}

bool proc_is_written(enum proc_file file)
{
	return file == PROC_UID_MAP || file == PROC_GID_MAP || file == PROC_SETGROUPS ||
	       file == PROC_SYSCTL;
}

static enum proc_file file_named(const char *name, size_t len)
{
	for (int f = PROC_NONE + 1; f < NR_PROC_FILES; f++)
		if (strlen(proc_files[f].name) == len && !memcmp(proc_files[f].name, name, len))
			return f;
	return PROC_NONE;
}

/* Could @last be the last name of such a path? */
static enum proc_file file_ending(const char *last)
{
	if (last[0] == 'u' && !strcmp(last, "user"))
		return PROC_NS_USER;
	if (last[0] == 'i' && !strcmp(last, "ipc"))
		return PROC_NS_IPC;
	return file_named(last, strlen(last));
}

/* Read on behind the unread bytes, which go to the front. Bytes read, 0 at the end, -errno. */
static long text_fill(struct proc_text *x)
{
	long n;

	memmove(x->buf, x->buf + x->at, x->end - x->at);
	x->end -= x->at;
	x->at = 0;
	n = sys_read(x->in, x->buf + x->end, sizeof(x->buf) - x->end);
	if (n > 0)
		x->end += n;
	return n;
}

static char *text_newline(struct proc_text *x)
{
	return memchr(x->buf + x->at, '\n', x->end - x->at);
}

/* See that the start of the next line is in the buffer: bytes there, 0 after the last, -errno. */
static long text_line(struct proc_text *x)
{
	while (x->end - x->at < LINE_HEAD && !text_newline(x)) {
		long n = text_fill(x);

		if (n < 0)
			return n;
		if (!n)
			break;
	}
	return x->end - x->at;
}

/* Pass the rest of the line on, or over it. */
static long text_rest(struct proc_text *x, bool keep)
{
	for (;;) {
		char *nl = text_newline(x);
		size_t n = nl ? (size_t)(nl + 1 - (x->buf + x->at)) : x->end - x->at;
		long more;

		if (keep)
			text_put(x, x->buf + x->at, n);
		x->at += n;
		if (nl)
			return 0;
		more = text_fill(x);
		if (more <= 0)
			return more;
	}
}

/* A name in limits is padded with blanks, one in status ends with its colon. */
static const struct proc_line *text_find(const struct proc_text *x, const struct proc_line *line)
{
	for (; line->start; line++) {
		size_t n = strlen(line->start);

		if (x->end - x->at > n && !memcmp(x->buf + x->at, line->start, n) &&
		    (line->start[n - 1] == ':' || x->buf[x->at + n] == ' '))
			return line;
	}
	return NULL;
}

static long text_copy(struct proc_text *x, const struct proc_line *lines)
{
	long n;

	while ((n = text_line(x)) > 0 && !x->err) {
		const struct proc_line *line = text_find(x, lines);

		if (line)
			line->show(x, line);
		n = text_rest(x, !line);
		if (n < 0)
			return n;
	}
	text_flush(x);
	return n < 0 ? n : x->err;
}

/*
 * The real file of the target. A reader in another pid namespace has numbers that mean nothing
 * here, but it can only ask for its own files, and those have a name without a number.
 */
static int open_real(const struct task_struct *t, const struct proc_target *target)
{
	const char *name = proc_files[target->file].name;
	char path[64];

	if (READ_ONCE(t->flags) & PF_PIDNS)
		snprintf(path, sizeof(path), "/proc/%s/%s",
			 target->tid == target->tgid ? "self" : "thread-self", name);
	else if (target->tid == target->tgid)
		snprintf(path, sizeof(path), "/proc/%d/%s", target->tgid, name);
	else
		snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", target->tgid, target->tid,
			 name);
	return sys_open(path, O_RDONLY | O_CLOEXEC, 0);
}

/*
 * The task that @t means by @pid, a number of the world. The reader stands in for its process
 * while the world does not know the leader. Somebody else's task is looked at closely: its number
 * may belong to a process outside by now, or be one of another pid namespace.
 */
static struct task_struct *find_task(struct task_struct *t, int32_t pid)
{
	struct task_struct *p;

	if (pid == t->pid)
		return t;
	if (pid == t->tgid)
		return task_leader(t);
	if (READ_ONCE(t->flags) & PF_PIDNS)
		return NULL;
	p = find_task_by_vpid(pid);
	if (p && READ_ONCE(p->tgid) != t->tgid && (READ_ONCE(p->flags) & PF_PIDNS || task_gone(p)))
		return NULL;
	return p;
}

/* Is the slot of @t still what it was at @word? If not, the lines may tell of another task. */
static bool same_task(const struct task_struct *t, uint64_t word)
{
	uint64_t now = READ_ONCE(t->slot);

	return slot_state(now) != SLOT_FREE && slot_gen(now) == slot_gen(word);
}

static long make_world_text(enum proc_file file, int fd)
{
	struct proc_text x = { .in = -1, .out = fd };

	look_again();
	proc_files[file].show(&x);
	text_flush(&x);
	return x.err ? x.err : sys_call(__NR_ftruncate, fd, x.pos);
}

static long make_sysctl_text(struct task_struct *t, unsigned int id, int fd)
{
	struct proc_text x = { .in = -1, .out = fd };

	if (id >= NR_SYSCTLS)
		return -ENOENT;
	text_printf(&x, "%d\n", sysctl_read(t, id));
	text_flush(&x);
	return x.err ? x.err : sys_call(__NR_ftruncate, fd, x.pos);
}

/* Replace the content of @fd by the text of @target. 0 or -errno. */
static long make_text(struct task_struct *t, const struct proc_target *target, int fd)
{
	struct proc_text x;
	uint64_t word;
	long err;

	if (is_world_file(target->file))
		return make_world_text(target->file, fd);
	if (is_ns_file(target->file))
		return 0;
	if (target->file == PROC_SYSCTL)
		return make_sysctl_text(t, target->tgid - 1, fd);

	x.task = find_task(t, target->tid);
	if (!x.task || READ_ONCE(x.task->tgid) != target->tgid)
		return -ESRCH;
	word = READ_ONCE(x.task->slot);
	x.out = fd;
	x.err = 0;
	x.pos = x.at = x.end = x.held = 0;
	if (proc_files[target->file].show) {
		proc_files[target->file].show(&x);
		text_flush(&x);
		err = x.err;
	} else {
		x.in = open_real(t, target);
		if (x.in < 0)
			return x.in;
		err = text_copy(&x, proc_files[target->file].lines);
		sys_close(x.in);
	}
	if (!err && !same_task(x.task, word))
		err = -ESRCH;
	return err ? err : sys_call(__NR_ftruncate, fd, x.pos);
}

/*
 * What a snapshot is called: the name of its memfd, which anybody who holds the descriptor can
 * read. The id tells the worlds apart.
 */
#define SNAPSHOT_NAME_MAX 80
#define SNAPSHOT_PREFIX   "kpemu:"
#define MEMFD_LINK        "/memfd:" /* how the kernel shows it ... */
#define DELETED           " (deleted)"

static void snapshot_name(char *buf, const struct proc_target *target)
{
	snprintf(buf, SNAPSHOT_NAME_MAX, SNAPSHOT_PREFIX "%s:%d:%d:%016llx",
		 proc_files[target->file].name, target->tgid, target->tid,
		 (unsigned long long)world->id);
}

/* A positive decimal number at *@s, which moves behind it; 0 if there is none. */
static int32_t parse_pid(const char **s)
{
	const char *p = *s;
	int64_t v = 0;

	if (*p < '1')
		return 0;
	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (*p - '0');
		if (v > INT32_MAX)
			return 0;
	}
	*s = p;
	return v;
}

/* Read a name back; false unless it is one that snapshot_name() makes in this world. */
static bool parse_snapshot_name(const char *name, struct proc_target *target)
{
	const char *s = name + strlen(SNAPSHOT_PREFIX);
	char again[SNAPSHOT_NAME_MAX];
	size_t len;

	if (strncmp(name, SNAPSHOT_PREFIX, strlen(SNAPSHOT_PREFIX)))
		return false;
	len = strcspn(s, ":");
	target->file = file_named(s, len);
	if (target->file == PROC_NONE || !s[len])
		return false;
	s += len + 1;
	target->tgid = parse_pid(&s);
	if (*s++ != ':')
		return false;
	target->tid = parse_pid(&s);
	snapshot_name(again, target);
	return !strcmp(name, again);
}

/* What the kernel calls the file open at @fd; cut where @buf ends. Bytes or -errno. */
static long fd_name(int fd, char *buf, size_t size)
{
	char path[32];
	long n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = sys_call(__NR_readlinkat, AT_FDCWD, path, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

/* Does @fd hold a snapshot of this world? Most descriptors are told apart by one fstat. */
static bool snapshot_target(int fd, struct proc_target *target)
{
	const size_t prefix = strlen(MEMFD_LINK), suffix = strlen(DELETED);
	char name[160];
	struct stat st;
	long n;

	if (sys_call(__NR_fstat, fd, &st) || st.st_nlink || !S_ISREG(st.st_mode))
		return false;
	n = fd_name(fd, name, sizeof(name));
	if (n < (long)(prefix + suffix) || strncmp(name, MEMFD_LINK, prefix) ||
	    strcmp(name + n - suffix, DELETED))
		return false;
	name[n - suffix] = '\0';
	return parse_snapshot_name(name + prefix, target);
}

static int snapshot_create(const struct proc_target *target, int oflag)
{
	unsigned int flags = oflag & O_CLOEXEC ? MFD_CLOEXEC : 0;
	char name[SNAPSHOT_NAME_MAX];
	int fd;

	snapshot_name(name, target);
	fd = sys_call(__NR_memfd_create, name, flags | MFD_NOEXEC_SEAL);
	if (fd == -EINVAL)
		fd = sys_call(__NR_memfd_create, name, flags);
	return fd;
}

static void mark_reader(struct task_struct *t)
{
	if (!(READ_ONCE(t->flags) & PF_PROC_READER))
		fetch_or(&t->flags, PF_PROC_READER);
}

/* Any thread of the process may read on: all of them are told to look closer. */
static void mark_readers(struct task_struct *t)
{
	struct mm_struct *mm = task_mm(t);
	struct task_struct *p;

	mark_reader(t);
	if (!mm || !(READ_ONCE(mm->flags) & MM_SHARED))
		return;
	for_each_task(i, p)
		if (READ_ONCE(p->tgid) == t->tgid)
			mark_reader(p);
}

/* The file behind @fd, opened once more; -errno, without /proc too. */
static int reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return sys_open(path, flags | O_CLOEXEC, 0);
}

/* What the program gets can be used as it asked for, as the real file could. */
static void set_access(int fd, int oflag)
{
	int again = reopen(fd, oflag & O_ACCMODE);

	if (again < 0)
		return;
	sys_call(__NR_dup3, again, fd, oflag & O_CLOEXEC);
	sys_close(again);
}

/* Any thread of the process, and what it starts, may write to it. */
static void mark_writers(struct task_struct *t)
{
	struct task_struct *p;

	for_each_task(i, p)
		if (READ_ONCE(p->tgid) == t->tgid && !(READ_ONCE(p->flags) & PF_PROC_WRITER))
			fetch_or(&p->flags, (uint32_t)PF_PROC_WRITER);
}

/* Mode and owner of the real files, and what their open functions ask for. */
static long may_write(struct task_struct *t, const struct proc_target *target)
{
	struct task_struct *p;
	uint32_t uid;
	bool dead;

	if (!proc_is_written(target->file))
		return -EACCES;
	if (target->file == PROC_SYSCTL)
		return sysctl_may_write(t, target->tgid - 1) ? 0 : -EACCES;
	p = find_task(t, target->tid);
	if (!p)
		return -ESRCH;
	/* The files of who has ended belong to root. */
	dead = task_dead(p);
	uid = dead ? 0 : p->cred.euid;
	if (t->cred.fsuid != uid && !capable_wrt(t, uid, dead ? 0 : p->cred.egid, CAP_DAC_OVERRIDE))
		return -EACCES;
	if (target->file == PROC_SETGROUPS && !ns_capable(t, p->cred.user_ns, CAP_SYS_ADMIN))
		return -EACCES;
	return 0;
}

/* From now on the namespace may be held by a descriptor alone. */
static long mark_opened(struct task_struct *t, const struct proc_target *target)
{
	struct user_namespace *user;
	struct ns_common *ns;
	bool there;

	ns_lock(t);
	if (target->file == PROC_NS_USER) {
		user = user_ns_of(target->tgid);
		there = user && user->serial == (uint64_t)target->tid;
		if (there)
			fetch_or(&user->flags, (uint32_t)USERNS_OPENED);
	} else {
		ns = table_slot(TABLE_NS, target->tgid);
		there = ns && ns->serial == (uint64_t)target->tid;
		if (there)
			WRITE_ONCE(ns->opened, 1);
	}
	ns_unlock();
	return there ? 0 : -ENOENT;
}

/* The snapshot comes first: programs count on getting the lowest free descriptor. */
int proc_open(struct task_struct *t, const struct proc_target *target, int oflag)
{
	bool write = (oflag & O_ACCMODE) != O_RDONLY;
	long err = write ? may_write(t, target) : 0;
	int fd;

	if (err)
		return err;
	fd = snapshot_create(target, oflag);
	if (fd < 0)
		return fd;
	err = 0;
	if (is_ns_file(target->file))
		err = mark_opened(t, target);
	else if ((oflag & O_ACCMODE) != O_WRONLY)
		err = make_text(t, target, fd);
	if (err) {
		sys_close(fd);
		return err;
	}
	set_access(fd, oflag);
	mark_readers(t);
	if (write)
		mark_writers(t);
	return fd;
}

int proc_refresh(struct task_struct *t, int fd)
{
	struct proc_target target;
	long err;
	int rw;

	if (!snapshot_target(fd, &target))
		return 0;
	if ((sys_call(__NR_fcntl, fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
		return 1;
	rw = reopen(fd, O_RDWR);
	if (rw < 0)
		return rw;
	err = make_text(t, &target, rw);
	sys_close(rw);
	return err ? err : 1;
}

/* --- writing --- */

static long write_target(struct task_struct *t, const struct proc_target *target, const char *text,
			 size_t n, uint64_t pos)
{
	struct task_struct *p;

	if (target->file == PROC_SYSCTL)
		return sysctl_write(t, target->tgid - 1, text, n, pos);
	p = find_task(t, target->tid);
	if (!p)
		return -ESRCH;
	return map_write(t, READ_ONCE(p->cred.user_ns),
			 target->file == PROC_UID_MAP ? MAP_UID :
			 target->file == PROC_GID_MAP ? MAP_GID :
							MAP_SETGROUPS,
			 text, n, pos);
}

static bool written_target(int fd, struct proc_target *target)
{
	return snapshot_target(fd, target) && proc_is_written(target->file) &&
	       (sys_call(__NR_fcntl, fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

#define WRITTEN_MAX 4096 /* as much as the files take at a time */

long proc_write(struct task_struct *t, int fd, const void *text, size_t n, int64_t pos)
{
	struct proc_target target;
	char copy[WRITTEN_MAX];
	long ret;

	if (!written_target(fd, &target))
		return -EBADF;
	if (n > sizeof(copy))
		return -EINVAL;
	if (copy_from_user(copy, text, n))
		return -EFAULT;
	ret = write_target(t, &target, copy, n,
			   pos < 0 ? (uint64_t)sys_call(__NR_lseek, fd, 0, SEEK_CUR) : (uint64_t)pos);
	if (ret > 0 && pos < 0)
		sys_call(__NR_lseek, fd, ret, SEEK_CUR);
	return ret;
}

/*
 * libc's own functions write past us: into the memory of the snapshot, which has no content of its
 * own when it is for writing only. What has been dealt with is cut off, and leaves bytes 0.
 */
long proc_flush(struct task_struct *t, int fd)
{
	struct proc_target target;
	char text[WRITTEN_MAX];
	long n, pos = 0, ret;
	int rw;

	if (!written_target(fd, &target) ||
	    (sys_call(__NR_fcntl, fd, F_GETFL) & O_ACCMODE) != O_WRONLY)
		return 0;
	rw = reopen(fd, O_RDWR);
	if (rw < 0)
		return rw;
	n = sys_call(__NR_pread64, rw, text, sizeof(text), 0);
	if (n > 0)
		sys_call(__NR_ftruncate, rw, 0);
	sys_close(rw);
	if (n <= 0)
		return n;
	while (pos < n && !text[pos])
		pos++;
	ret = pos < n ? write_target(t, &target, text + pos, n - pos, pos) : 0;
	return ret < 0 ? ret : 0;
}

/*
 * What a path without detours says: /proc/PID, /proc/PID/task/TID, or the names that the reader
 * has for its own. The numbers are the world's, 0 if the world cannot know the task.
 */
struct proc_path {
	int32_t pid;
	int32_t tid; /* -1: the path is not below a task directory */
	const char *rest; /* behind the directory: empty or from a slash on */
};

/* If @what is the first component of @s, what follows it, else NULL. */
static const char *skip_name(const char *s, const char *what)
{
	size_t n = strlen(what);

	return !strncmp(s, what, n) && (!s[n] || s[n] == '/') ? s + n : NULL;
}

/*
 * The same for a number, without a sign or leading zero, of a task that the reader's /proc calls
 * so. In a pid namespace of its own a reader sees other numbers, and only its own can be told.
 */
static const char *skip_pid(const char *s, const struct task_struct *t, int32_t *pid)
{
	int32_t n = parse_pid(&s);

	if (!n || (*s && *s != '/'))
		return NULL;
	*pid = n;
	if (READ_ONCE(t->flags) & PF_PIDNS)
		*pid = n == sys_call(__NR_getpid) ? t->tgid :
		       n == sys_call(__NR_gettid) ? t->pid :
						    0;
	return s;
}

static bool parse_path(const struct task_struct *t, const char *s, struct proc_path *path)
{
	s = skip_name(s, "/proc");
	if (!s || *s++ != '/')
		return false;
	*path = (struct proc_path){ .pid = t->tgid, .tid = t->pid };
	path->rest = skip_name(s, "thread-self");
	if (path->rest)
		return true;
	path->tid = -1;
	path->rest = skip_name(s, "self");
	if (!path->rest)
		path->rest = skip_pid(s, t, &path->pid);
	if (!path->rest)
		return false;
	s = skip_name(path->rest, "/task");
	if (!s || !*s)
		return true;
	path->rest = skip_pid(s + 1, t, &path->tid);
	return path->rest;
}

static enum proc_file parse_file(const struct task_struct *t, const char *s, struct proc_path *path)
{
	enum proc_file file;

	if (!parse_path(t, s, path) || path->rest[0] != '/')
		return PROC_NONE;
	file = file_named(path->rest + 1, strlen(path->rest + 1));
	return is_world_file(file) || is_ns_file(file) || file == PROC_SYSCTL ? PROC_NONE : file;
}

/* Where the kernel finds @path, as parse_path() reads it; false if nowhere or not by a path. */
static bool real_path(int dirfd, const char *path, char *buf, size_t size)
{
	int fd = *path ? sys_call(__NR_openat, dirfd, path, O_PATH | O_CLOEXEC, 0) : dirfd;
	long n;

	if (fd < 0)
		return false;
	n = fd_name(fd, buf, size);
	if (*path)
		sys_close(fd);
	return n > 0;
}

/* The task whose directory @path is; NULL if it is not of the world. */
static struct task_struct *path_task(struct task_struct *t, const struct proc_path *path)
{
	struct task_struct *p = path->pid ? find_task(t, path->pid) : NULL, *thread;

	if (!p || path->tid < 0)
		return p;
	thread = path->tid ? find_task(t, path->tid) : NULL;
	return thread && READ_ONCE(thread->tgid) == READ_ONCE(p->tgid) ? thread : NULL;
}

#define WORLD_DIR_NAME "kpemu"

/* If the component of @path that ends before @end is the directory's name, how much is before it. */
static long before_world_dir(const char *path, const char *end)
{
	const long len = strlen(WORLD_DIR_NAME);

	while (end > path && end[-1] == '/')
		end--;
	if (end - path < len || memcmp(end - len, WORLD_DIR_NAME, len))
		return -1;
	end -= len;
	return end == path || end[-1] == '/' ? end - path : -1;
}

/* Do the first @len bytes of @path, up to a slash, lead to /proc? */
static bool leads_to_proc(int dirfd, const char *path, long len)
{
	char dir[64] = ".", name[16];

	if (len < 0 || len >= (long)sizeof(dir))
		return false;
	if (len == 6 && !memcmp(path, "/proc/", 6))
		return true;
	if (len)
		memcpy(dir, path, len);
	dir[len ? len : 1] = '\0';
	return real_path(dirfd, dir, name, sizeof(name)) && !strcmp(name, "/proc");
}

/* The kernel can be asked for what is before the directory's name only: it has no such directory. */
enum proc_file proc_world_path(int dirfd, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	enum proc_file file;

	if (!path)
		return PROC_NONE;
	if (slash && slash[1] && leads_to_proc(dirfd, path, before_world_dir(path, slash))) {
		file = file_named(slash + 1, strlen(slash + 1));
		return is_world_file(file) ? file : PROC_NO_FILE;
	}
	if (leads_to_proc(dirfd, path, before_world_dir(path, path + strlen(path))))
		return PROC_DIR;
	return PROC_NONE;
}

bool proc_world_stat(enum proc_file file, struct stat *st)
{
	bool dir = file == PROC_DIR;
	struct timespec now;
	struct stat proc;

	if (!dir && !is_world_file(file))
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	*st = (struct stat){
		.st_dev = sys_call(__NR_newfstatat, AT_FDCWD, "/proc", &proc, 0) ? 0 : proc.st_dev,
		.st_ino = world->id + file,
		.st_mode = dir ? S_IFDIR | 0555 : S_IFREG | 0444,
		.st_nlink = dir ? 2 : 1,
		.st_blksize = 1024,
		.st_atim = now,
		.st_mtim = now,
		.st_ctim = now,
	};
	return true;
}

#define SYSCTL_DIR "/proc/sys/"

static bool starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool sysctl_ending(const char *last)
{
	return (last[0] == 'm' && (starts_with(last, "max_") || starts_with(last, "msg"))) ||
	       (last[0] == 'q' && starts_with(last, "queues_max"));
}

static bool sysctl_target(int dirfd, const char *path, struct proc_target *target)
{
	const size_t dir = strlen(SYSCTL_DIR);
	char name[128];
	int id = -1;

	if (starts_with(path, SYSCTL_DIR))
		id = sysctl_find(path + dir);
	if (id < 0 && real_path(dirfd, path, name, sizeof(name)) && starts_with(name, SYSCTL_DIR))
		id = sysctl_find(name + dir);
	*target = (struct proc_target){ PROC_SYSCTL, id + 1, 1 };
	return id >= 0;
}

/* The directory of a link that leads elsewhere, as parse_path() reads it. */
static bool link_dir(int dirfd, const char *path, const char *last, char *buf, size_t size)
{
	size_t n = last - path;
	char dir[128] = ".";

	if (n >= sizeof(dir))
		return false;
	if (n) {
		memcpy(dir, path, n);
		dir[n] = '\0';
	}
	return real_path(dirfd, dir, buf, size);
}

/* Of a task in an initial namespace the real link is right, as of a zombie, which is in none. */
static bool ns_target(struct task_struct *t, int dirfd, const char *path, const char *last,
		      enum proc_file file, struct proc_target *target)
{
	struct proc_path parsed;
	struct task_struct *p;
	char name[128];
	uint32_t n;

	if (table_high_water(file == PROC_NS_USER ? TABLE_USER_NS : TABLE_NS) < 2)
		return false;
	if (!parse_path(t, path, &parsed) || strncmp(parsed.rest, "/ns/", 4) ||
	    parsed.rest + 4 != last) {
		if (!link_dir(dirfd, path, last, name, sizeof(name)) ||
		    !parse_path(t, name, &parsed) || strcmp(parsed.rest, "/ns"))
			return false;
	}
	p = path_task(t, &parsed);
	if (!p)
		return false;
	n = file == PROC_NS_USER ? READ_ONCE(p->cred.user_ns) : READ_ONCE(p->ns[NS_IPC]);
	if (!n || (file != PROC_NS_USER && task_dead(p)))
		return false;
	*target = (struct proc_target){ file, n,
					file == PROC_NS_USER ?
						user_ns_of(n)->serial :
						((struct ns_common *)table_slot(TABLE_NS, n))->serial };
	return true;
}

/* Inode numbers above those that kernels have given so far; the serial tells them apart. */
#define NS_INO_BASE 0xf1000000u

long proc_readlink(struct task_struct *t, int dirfd, const char *path, char *buf, size_t size)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *last = slash ? slash + 1 : path;
	struct proc_target target;
	enum proc_file file;
	char text[40];
	size_t n;

	if (!last || !is_ns_file(file = file_ending(last)) ||
	    !ns_target(t, dirfd, path, last, file, &target))
		return 0;
	n = snprintf(text, sizeof(text), "%s:[%u]", last, NS_INO_BASE + (uint32_t)target.tid);
	if (n > size)
		n = size;
	return copy_to_user(buf, text, n) ? -EFAULT : (long)n;
}

enum proc_file proc_ns_target(int fd, uint32_t *number, uint64_t *serial)
{
	struct proc_target target;

	if (!snapshot_target(fd, &target) || !is_ns_file(target.file))
		return PROC_NONE;
	*number = target.tgid;
	*serial = target.tid;
	return target.file;
}

/* What descriptor @fd of process @tgid is called. Bytes or -errno. */
static long other_fd_name(int tgid, const char *fd, char *buf, size_t size)
{
	char path[64];
	long n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%s", tgid, fd);
	n = sys_call(__NR_readlinkat, AT_FDCWD, path, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

struct linux_dirent64 {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/* Does any descriptor of process @tgid have a name that begins so? */
static bool has_fd(int tgid, const char *prefix)
{
	char dir[40], name[160], buf[2048] __attribute__((aligned(8)));
	bool found = false;
	long n;
	int fd;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", tgid);
	fd = sys_open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	while (!found && (n = sys_call(__NR_getdents64, fd, buf, sizeof(buf))) > 0)
		for (long at = 0; !found && at < n;) {
			struct linux_dirent64 *d = (void *)(buf + at);

			at += d->reclen;
			found = other_fd_name(tgid, d->name, name, sizeof(name)) > 0 &&
				starts_with(name, prefix);
		}
	sys_close(fd);
	return found;
}

bool proc_ns_is_open(enum proc_file file, uint32_t number, uint64_t serial)
{
	const struct proc_target target = { file, number, serial };
	char name[SNAPSHOT_NAME_MAX + 16] = MEMFD_LINK;
	struct task_struct *t;

	snapshot_name(name + strlen(MEMFD_LINK), &target);
	for_each_task(i, t)
		if (slot_state(READ_ONCE(t->slot)) == SLOT_LIVE &&
		    READ_ONCE(t->pid) == READ_ONCE(t->tgid) && has_fd(READ_ONCE(t->pid), name))
			return true;
	return false;
}

bool proc_fd_is_inotify(int tgid, int fd)
{
	char number[12], name[40];

	snprintf(number, sizeof(number), "%d", fd);
	return other_fd_name(tgid, number, name, sizeof(name)) > 0 &&
	       !strcmp(name, "anon_inode:inotify");
}

/*
 * A path without detours is read as it is. What becomes of any other is left to the kernel, which
 * alone knows where links and ".." lead; it is asked for no more than a name like ours.
 */
bool proc_resolve(struct task_struct *t, int dirfd, const char *path, struct proc_target *target)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *last = slash ? slash + 1 : path;
	struct proc_path parsed;
	struct task_struct *p;
	enum proc_file file;
	char name[128];

	if (!t || !last)
		return false;
	if (sysctl_ending(last))
		return sysctl_target(dirfd, path, target);
	if (!(file = file_ending(last)) || file == PROC_SYSCTL)
		return false;
	if (is_ns_file(file))
		return ns_target(t, dirfd, path, last, file, target);
	if (is_world_file(file)) {
		*target = (struct proc_target){ file, 1, 1 };
		return proc_world_path(dirfd, path) == file;
	}
	target->file = parse_file(t, path, &parsed);
	if (!target->file && real_path(dirfd, path, name, sizeof(name)))
		target->file = parse_file(t, name, &parsed);
	p = target->file ? path_task(t, &parsed) : NULL;
	if (!p)
		return false;
	target->tgid = READ_ONCE(p->tgid);
	target->tid = parsed.tid < 0 ? parsed.pid : parsed.tid;
	return true;
}

struct task_struct *proc_task_dir(struct task_struct *t, int dirfd, const char *path)
{
	struct proc_path parsed;
	char name[128];
	struct stat st;

	if (!t || !path || sys_call(__NR_newfstatat, dirfd, path, &st, AT_EMPTY_PATH))
		return NULL;
	if (!proc_maybe(st.st_blksize) || !real_path(dirfd, path, name, sizeof(name)))
		return NULL;
	return parse_path(t, name, &parsed) ? path_task(t, &parsed) : NULL;
}
