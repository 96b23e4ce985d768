/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu stat: a world at one glance: records, queues, counts, refusals. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/cmd/cmd.h"
#include "emu/lib/rawsys.h"

/* In the order of the columns. */
static const enum rlimit_type columns[] = {
	UCOUNT_RLIMIT_NPROC,
	UCOUNT_RLIMIT_SIGPENDING,
	UCOUNT_RLIMIT_MSGQUEUE,
	UCOUNT_RLIMIT_MEMLOCK,
};
#define NR_COLUMNS (sizeof(columns) / sizeof(*columns))

static const struct world_count {
	const char *name;
	size_t offset; /* in struct world_counts */
	const char *text;
} counts[] = {
#define COUNT(field) #field, offsetof(struct world_counts, field)
	{ COUNT(uncovered), "programs that could not be entered" },
	{ COUNT(adopted), "tasks found running without a slot" },
	{ COUNT(host_collisions), "calls that the model allowed and the host refused" },
	{ COUNT(mq_clamped), "queues smaller in the host than in the model" },
	{ COUNT(recoveries), "counters recomputed after a death inside an update" },
	{ COUNT(reaped_dead), "dead tasks released by somebody else's look" },
#undef COUNT
};
#define NR_COUNTS (sizeof(counts) / sizeof(*counts))

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

/* A record that holds nothing and never did says nothing. */
static bool has_history(const struct ucounts *uc)
{
	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		if (atomic64_read(&uc->rlimit[i]) || atomic64_read(&uc->peak[i]) ||
		    atomic64_read(&uc->refused[i]))
			return true;
	return false;
}

static void print_world(bool alive)
{
	char launcher[40] = "orphaned";

	if (alive)
		snprintf(launcher, sizeof(launcher), "launcher %d alive", world->launcher_pid);
	printf("world %s: %s, %" PRIu64 " s old, tasks: %u\n", world->name, launcher, age_seconds(),
	       count_tasks());
}

static void print_column(const struct ucounts *uc, enum rlimit_type type)
{
	int64_t use = get_rlimit_value((struct ucounts *)uc, type);
	int64_t peak = atomic64_read(&uc->peak[type]);
	char cell[80];

	if (type == UCOUNT_RLIMIT_MEMLOCK) {
		use = cmd_kb(use);
		peak = cmd_kb(peak);
	}
	snprintf(cell, sizeof(cell), "%" PRId64 " %" PRId64 " %" PRId64, use, peak,
		 atomic64_read(&uc->refused[type]));
	printf(" %20s", cell);
}

static void print_records(void)
{
	struct ucounts *uc;

	printf("\nEach limit as use, peak, refused; MEMLOCK in kB.\n%4s %10s", "NS", "UID");
	printf(" %20s %20s %20s %20s\n", "NPROC", "SIGPENDING", "MSGQUEUE", "MEMLOCK");
	for_each_ucounts(i, uc) {
		if (!slot_live(uc) || !has_history(uc))
			continue;
		printf("%4u %10u", uc->ns, uc->uid);
		for (size_t c = 0; c < NR_COLUMNS; c++)
			print_column(uc, columns[c]);
		putchar('\n');
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
		int64_t n = count_value(&counts[i]);

		if (n)
			printf("%s%8" PRId64 " %s\n", any ? "" : "\n", n, counts[i].text);
		any |= n != 0;
	}
}

static void print_refusals(void)
{
	struct refusal_record *rec;
	bool any = false;

	for_each_refusal(i, rec) {
		if (!slot_live(rec))
			continue;
		if (!any)
			putchar('\n');
		any = true;
		cmd_refusal_text(stdout, rec);
		putchar('\n');
	}
	if (world->refusals_lost)
		printf("%u refusals of further kinds\n", world->refusals_lost);
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
	return v;
}

static json_t *column_json(struct ucounts *uc, enum rlimit_type type)
{
	json_t *v = json_object();

	cmd_json_number(v, "use", get_rlimit_value(uc, type));
	cmd_json_number(v, "peak", atomic64_read(&uc->peak[type]));
	cmd_json_number(v, "refused", atomic64_read(&uc->refused[type]));
	return v;
}

static json_t *record_json(struct ucounts *uc)
{
	json_t *v = json_object();

	cmd_json_number(v, "namespace", uc->ns);
	cmd_json_number(v, "uid", uc->uid);
	for (size_t c = 0; c < NR_COLUMNS; c++)
		json_object_set_new(v, rlimit_name(columns[c]), column_json(uc, columns[c]));
	return v;
}

static json_t *records_json(void)
{
	json_t *list = json_array();
	struct ucounts *uc;

	for_each_ucounts(i, uc)
		if (slot_live(uc) && has_history(uc))
			json_array_append_new(list, record_json(uc));
	return list;
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
