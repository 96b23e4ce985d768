/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu ps: the tasks of a world as the model sees them. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <kpemu/mlock.h>
#include <kpemu/sched.h>

#include "emu/cmd/cmd.h"

/* One task as it is printed. */
struct row {
	int pid, tgid, ppid;
	uint32_t uid, euid, gid;
	unsigned int threads;
	unsigned long locked_kb;
	uint64_t nproc;
	char comm[64];
};

/* An orphan's parent is process 1, as getppid() says; the first task's is the launcher. */
static int parent_pid(const struct task_struct *t)
{
	uint32_t ref = READ_ONCE(t->parent);
	const struct task_struct *parent = task_get(ref);
	int pid = parent ? READ_ONCE(parent->pid) : ref ? 0 : world->launcher_pid;

	return pid ? pid : 1;
}

/* Names are the program's to choose: whatever could steer a terminal is spelled. */
static void read_comm(const struct row *r, char *comm, size_t size)
{
	char path[64], raw[20];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", r->tgid, r->pid);
	f = fopen(path, "re");
	n = f ? fread(raw, 1, sizeof(raw) - 1, f) : 0;
	if (f)
		fclose(f);
	if (n && raw[n - 1] == '\n')
		n--;
	raw[n] = '\0';
	cmd_printable(comm, size, n ? raw : "?", n ? n : 1);
}

static void make_row(struct row *r, struct task_struct *t)
{
	*r = (struct row){
		.pid = READ_ONCE(t->pid),
		.tgid = READ_ONCE(t->tgid),
		.ppid = parent_pid(t),
		.uid = t->cred.uid,
		.euid = t->cred.euid,
		.gid = t->cred.gid,
		.threads = nr_threads(t),
		.locked_kb = mm_locked_kb(t),
		.nproc = rlimit(t, UCOUNT_RLIMIT_NPROC),
	};
	read_comm(r, r->comm, sizeof(r->comm));
}

static void print_row(const struct row *r)
{
	char nproc[24];

	printf("%7d %7d %7d %7u %7u %7u %7u %10lu %11s %s\n", r->pid, r->tgid, r->ppid, r->uid,
	       r->euid, r->gid, r->threads, r->locked_kb,
	       cmd_limit_text(nproc, sizeof(nproc), r->nproc), r->comm);
}

static json_t *limit_json(uint64_t limit)
{
	return limit == RLIM_INF ? json_null() : json_integer(limit);
}

static json_t *row_json(const struct row *r)
{
	json_t *v = json_object();

	cmd_json_number(v, "pid", r->pid);
	cmd_json_number(v, "tgid", r->tgid);
	cmd_json_number(v, "ppid", r->ppid);
	cmd_json_number(v, "uid", r->uid);
	cmd_json_number(v, "euid", r->euid);
	cmd_json_number(v, "gid", r->gid);
	cmd_json_number(v, "threads", r->threads);
	cmd_json_number(v, "locked_kb", r->locked_kb);
	json_object_set_new(v, "nproc_limit", limit_json(r->nproc));
	json_object_set_new(v, "comm", cmd_json_text(r->comm, sizeof(r->comm)));
	return v;
}

/* A task that has a pid: one that is only being made is counted, but has nothing to show. */
static bool shown(struct task_struct *t, bool threads)
{
	return slot_live(t) && READ_ONCE(t->pid) > 0 &&
	       (threads || READ_ONCE(t->pid) == READ_ONCE(t->tgid));
}

static int print_json(bool threads)
{
	json_t *list = json_array();
	struct task_struct *t;
	struct row r;

	for_each_task(i, t) {
		if (!shown(t, threads))
			continue;
		make_row(&r, t);
		json_array_append_new(list, row_json(&r));
	}
	return cmd_json_print(list);
}

static int print_text(bool threads)
{
	struct task_struct *t;
	struct row r;

	printf("%7s %7s %7s %7s %7s %7s %7s %10s %11s %s\n", "PID", "TGID", "PPID", "UID", "EUID",
	       "GID", "THREADS", "LOCKED(kB)", "NPROC-LIMIT", "COMM");
	for_each_task(i, t) {
		if (!shown(t, threads))
			continue;
		make_row(&r, t);
		print_row(&r);
	}
	return cmd_flush();
}

static int run_ps(const struct cmd *cmd, int argc, char **argv)
{
	struct cmd_look look = { 0 };
	int first, fd, ret = cmd_parse(cmd, argc, argv, &look, &first);

	if (!ret)
		ret = cmd_world_enter(look.world_name, &fd);
	if (ret)
		return ret;
	cmd_reap();
	ret = look.json ? print_json(look.threads) : print_text(look.threads);
	cmd_detach();
	close(fd);
	return ret;
}

static const struct cmd_option ps_options[] = {
	{ "threads", 'T', NULL, "one line per thread", cmd_look_threads },
	{ CMD_OPTION_WORLD },
	{ CMD_OPTION_JSON },
	{ 0 },
};

const struct cmd cmd_ps = {
	.name = "ps",
	.usage = "",
	.summary = "print the processes of a world, or with -T their threads",
	.options = ps_options,
	.run = run_ps,
};
