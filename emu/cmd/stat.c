/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu stat: a world at one glance: records, queues, counts, refusals. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <kpemu/mlock.h>
#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/cmd/cmd.h"
#include "emu/lib/rawsys.h"

/* In the order in which they are shown; @key is the one in JSON. */
static const struct stat_limit {
	enum rlimit_type type;
	const char *key;
} limits[] = {
	{ UCOUNT_RLIMIT_NPROC, "nproc" },
	{ UCOUNT_RLIMIT_SIGPENDING, "sigpending" },
	{ UCOUNT_RLIMIT_MSGQUEUE, "msgqueue" },
	{ UCOUNT_RLIMIT_MEMLOCK, "memlock_kb" },
};
#define NR_LIMITS (sizeof(limits) / sizeof(*limits))

static const struct world_count {
	const char *name;
	size_t offset; /* in struct world_counts */
	const char *one, *many; /* NULL: the text says it elsewhere */
} counts[] = {
#define COUNT(field) #field, offsetof(struct world_counts, field)
	{ COUNT(uncovered), NULL, NULL },
	{ COUNT(adopted), "running task found that no emulated call had made",
	  "running tasks found that no emulated call had made" },
	{ COUNT(host_collisions), "call that the emulation allowed and the host refused",
	  "calls that the emulation allowed and the host refused" },
	{ COUNT(mq_clamped), "queue smaller in the host than the program asked",
	  "queues smaller in the host than the program asked" },
	{ COUNT(recoveries), "counter recomputed after a death inside an update",
	  "counters recomputed after a death inside an update" },
	{ COUNT(reaped_dead), "dead task found and released by another process",
	  "dead tasks found and released by other processes" },
#undef COUNT
};
#define NR_COUNTS (sizeof(counts) / sizeof(*counts))

/* What a record says of one limit. */
struct account {
	int64_t use, refused;
	int64_t peak, most; /* the highest use is between the two */
};

static struct account read_account(struct ucounts *uc, enum rlimit_type type)
{
	long most, peak = ucounts_peak(uc, type, &most);

	return (struct account){
		.use = cmd_amount(type, get_rlimit_value(uc, type)),
		.refused = atomic64_read(&uc->refused[type]),
		.peak = cmd_amount(type, peak),
		.most = cmd_amount(type, most),
	};
}

/* An account that holds nothing and never did says nothing. */
static bool has_history(const struct account *a)
{
	return a->use || a->peak || a->refused;
}

/* mlock is counted for each address space, and stands in no record. */
struct mlocked {
	unsigned int processes;
	int64_t kb;
};

static struct mlocked read_mlocked(void)
{
	struct mlocked sum = { 0 };
	struct mm_struct *mm;

	for_each_mm(i, mm) {
		int64_t pages = atomic64_read(&mm->locked_vm);

		if (!slot_live(mm) || pages <= 0)
			continue;
		sum.processes++;
		if (__builtin_add_overflow(sum.kb, cmd_kb(pages), &sum.kb))
			sum.kb = INT64_MAX;
	}
	return sum;
}

static int64_t count_value(const struct world_count *c)
{
	return atomic64_read((const atomic64_t *)((const char *)&world->counts + c->offset));
}

static unsigned int count_tasks(void)
{
	struct task_struct *t;
	unsigned int n = 0;

	for_each_task(i, t)
		n += task_counted(t);
	return n;
}

static uint64_t age_seconds(void)
{
	uint64_t now = boottime_ns(), born = world->created_ns;

	return now > born ? (now - born) / 1000000000 : 0;
}

static void print_world(bool alive)
{
	char launcher[40] = "orphaned";

	if (alive)
		snprintf(launcher, sizeof(launcher), "launcher %d alive", world->launcher_pid);
	printf("world %s: %s, %" PRIu64 " s old, tasks: %u, counters: %s\n", world->name, launcher,
	       age_seconds(), count_tasks(), ucounts_ops()->name);
}

/* "7", or "7-71" where the counter could not be looked at all the time. */
static const char *peak_text(char *buf, size_t size, const struct account *a)
{
	int n = snprintf(buf, size, "%" PRId64, a->peak);

	if (a->most > a->peak)
		snprintf(buf + n, size - n, "-%" PRId64, a->most);
	return buf;
}

static void print_record(struct ucounts *uc)
{
	char peak[48];

	for (size_t i = 0; i < NR_LIMITS; i++) {
		struct account a = read_account(uc, limits[i].type);

		if (has_history(&a))
			printf("%4u %10u  %-10s %-7s %12" PRId64 " %12s %9" PRId64 "\n", uc->ns,
			       uc->uid, rlimit_name(limits[i].type), cmd_unit(limits[i].type),
			       a.use, peak_text(peak, sizeof(peak), &a), a.refused);
	}
}

static void print_mlocked(void)
{
	struct mlocked sum = read_mlocked();

	printf("mlock is counted for each process, not for each uid (see kpemu ps): %" PRId64
	       " kB in %u process%s\n",
	       sum.kb, sum.processes, sum.processes == 1 ? "" : "es");
}

static void print_records(void)
{
	struct ucounts *uc;

	printf("\n%4s %10s  %-10s %-7s %12s %12s %9s\n", "NS", "UID", "LIMIT", "UNIT", "USE",
	       "PEAK", "REFUSED");
	for_each_ucounts(i, uc)
		if (slot_live(uc))
			print_record(uc);
	print_mlocked();
}

static const char *max_text(char *buf, size_t size, uint32_t n, enum rlimit_type type)
{
	long max = userns_rlimit_max(n, type);

	if (max == LONG_MAX)
		return "unlimited";
	snprintf(buf, size, "%ld", max);
	return buf;
}

/* What a namespace lets through to the records above it; MEMLOCK in bytes, against pages. */
static void print_user_namespaces(void)
{
	struct user_namespace *ns;
	bool any = false;

	for_each_user_ns(n, ns) {
		if (!n || !slot_live(ns))
			continue;
		if (!any)
			printf("\n%4s %6s %10s %12s %12s %12s %12s\n", "NS", "PARENT", "OWNER",
			       "MAX-NPROC", "SIGPENDING", "MSGQUEUE", "MEMLOCK");
		any = true;
		printf("%4u %6u %10u", n, ns->parent, ns->owner);
		for (size_t i = 0; i < NR_LIMITS; i++) {
			char buf[24];

			printf(" %12s", max_text(buf, sizeof(buf), n, limits[i].type));
		}
		printf("\n");
	}
}

static void print_queues(void)
{
	struct mqueue_inode *q;
	bool any = false;

	for_each_mqueue(i, q) {
		if (!slot_live(q))
			continue;
		if (!any)
			printf("\n%10s %5s %7s %8s %10s  QUEUE\n", "OWNER", "MODE", "MAXMSG",
			       "MSGSIZE", "BYTES");
		any = true;
		printf("%10u  %04o %7" PRId64 " %8" PRId64 " %10" PRIu64 "  ", q->uid,
		       q->mode & 07777, q->maxmsg, q->msgsize, q->bytes);
		cmd_say("/%.*s%s", MQ_NAME_MAX, q->name, q->unlinked ? " (unlinked)" : "");
	}
}

static void print_counts(void)
{
	bool any = false;

	for (size_t i = 0; i < NR_COUNTS; i++) {
		int64_t n = counts[i].one ? count_value(&counts[i]) : 0;

		if (n)
			printf("%s%" PRId64 " %s\n", any ? "" : "\n", n,
			       n == 1 ? counts[i].one : counts[i].many);
		any |= n != 0;
	}
}

/* After an empty line, if there are any. */
static void print_refusals(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	cmd_refusals_text(out, "");
	fclose(out);
	if (text && *text)
		printf("\n%s", text);
	free(text);
}

static json_t *world_json(bool alive)
{
	json_t *v = json_object();

	json_object_set_new(v, "name", cmd_json_text(world->name, WORLD_NAME_MAX));
	cmd_json_number(v, "uid", world->uid);
	cmd_json_number(v, "launcher_pid", world->launcher_pid);
	json_object_set_new(v, "launcher_alive", json_boolean(alive));
	cmd_json_number(v, "age_seconds", age_seconds());
	cmd_json_number(v, "tasks", count_tasks());
	json_object_set_new(v, "ucounts", json_string(ucounts_ops()->name));
	return v;
}

static json_t *account_json(const struct account *a)
{
	json_t *v = json_object();

	cmd_json_number(v, "use", a->use);
	cmd_json_number(v, "peak", a->peak);
	cmd_json_number(v, "peak_most", a->most);
	cmd_json_number(v, "refused", a->refused);
	return v;
}

/* NULL: a record without history. */
static json_t *record_json(struct ucounts *uc)
{
	json_t *v = json_object();
	bool any = false;

	cmd_json_number(v, "namespace", uc->ns);
	cmd_json_number(v, "uid", uc->uid);
	for (size_t i = 0; i < NR_LIMITS; i++) {
		struct account a = read_account(uc, limits[i].type);

		any |= has_history(&a);
		json_object_set_new(v, limits[i].key, account_json(&a));
	}
	if (any)
		return v;
	json_decref(v);
	return NULL;
}

static json_t *records_json(void)
{
	json_t *list = json_array();
	struct ucounts *uc;

	for_each_ucounts(i, uc)
		if (slot_live(uc))
			json_array_append_new(list, record_json(uc));
	return list;
}

static json_t *user_namespaces_json(void)
{
	json_t *list = json_array();
	struct user_namespace *ns;

	for_each_user_ns(n, ns) {
		json_t *v;

		if (!n || !slot_live(ns))
			continue;
		v = json_object();
		cmd_json_number(v, "number", n);
		cmd_json_number(v, "parent", ns->parent);
		cmd_json_number(v, "level", ns->level);
		cmd_json_number(v, "owner", ns->owner);
		for (size_t i = 0; i < NR_LIMITS; i++) {
			long max = userns_rlimit_max(n, limits[i].type);

			json_object_set_new(v, rlimit_name(limits[i].type),
					    max == LONG_MAX ? json_null() : json_integer(max));
		}
		json_array_append_new(list, v);
	}
	return list;
}

static json_t *mlocked_json(void)
{
	struct mlocked sum = read_mlocked();
	json_t *v = json_object();

	cmd_json_number(v, "processes", sum.processes);
	cmd_json_number(v, "locked_kb", sum.kb);
	return v;
}

static json_t *queue_json(const struct mqueue_inode *q)
{
	json_t *v = json_object();

	json_object_set_new(v, "name", cmd_json_text(q->name, MQ_NAME_MAX));
	cmd_json_number(v, "uid", q->uid);
	cmd_json_number(v, "gid", q->gid);
	cmd_json_number(v, "mode", q->mode & 07777);
	cmd_json_number(v, "maxmsg", q->maxmsg);
	cmd_json_number(v, "msgsize", q->msgsize);
	cmd_json_number(v, "bytes", q->bytes);
	json_object_set_new(v, "unlinked", json_boolean(q->unlinked));
	json_object_set_new(v, "clamped", json_boolean(q->clamped));
	return v;
}

static json_t *queues_json(void)
{
	json_t *list = json_array();
	struct mqueue_inode *q;

	for_each_mqueue(i, q)
		if (slot_live(q))
			json_array_append_new(list, queue_json(q));
	return list;
}

static json_t *counts_json(void)
{
	json_t *v = json_object();

	for (size_t i = 0; i < NR_COUNTS; i++)
		cmd_json_number(v, counts[i].name, count_value(&counts[i]));
	cmd_json_number(v, "refusals_lost", world->refusals_lost);
	return v;
}

static int print_json(bool alive)
{
	json_t *v = json_object();

	json_object_set_new(v, "world", world_json(alive));
	json_object_set_new(v, "records", records_json());
	json_object_set_new(v, "mlock", mlocked_json());
	json_object_set_new(v, "user_namespaces", user_namespaces_json());
	json_object_set_new(v, "queues", queues_json());
	json_object_set_new(v, "counts", counts_json());
	json_object_set_new(v, "refusals", cmd_refusals_json());
	json_object_set_new(v, "uncovered", cmd_uncovered_json());
	return cmd_json_print(v);
}

static int print_text(bool alive)
{
	print_world(alive);
	print_records();
	print_user_namespaces();
	print_queues();
	print_counts();
	print_refusals();
	return cmd_flush();
}

static int run_stat(const struct cmd *cmd, int argc, char **argv)
{
	struct cmd_look look = { 0 };
	int first, fd, ret = cmd_parse(cmd, argc, argv, &look, &first);
	bool alive;

	if (!ret)
		ret = cmd_world_enter(look.world_name, &fd);
	if (ret)
		return ret;
	cmd_reap();
	alive = world_launcher_alive(fd);
	ret = look.json ? print_json(alive) : print_text(alive);
	cmd_detach();
	close(fd);
	return ret;
}

static const struct cmd_option stat_options[] = {
	{ CMD_OPTION_WORLD },
	{ CMD_OPTION_JSON },
	{ 0 },
};

const struct cmd cmd_stat = {
	.name = "stat",
	.usage = "",
	.summary = "print what a world holds: records, queues, refusals",
	.options = stat_options,
	.run = run_stat,
};
