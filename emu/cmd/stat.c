/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu stat: a world at one glance: records, queues, counts, refusals. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "emu/cmd/cmd.h"
#include "emu/ipc/mqueue.h"
#include "emu/kernel/sched.h"
#include "emu/kernel/ucount.h"
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
	const char *name, *text;
	size_t offset; /* in struct world_counts */
} counts[] = {
#define COUNT(field, text) { #field, text, offsetof(struct world_counts, field) }
	COUNT(uncovered, "programs that could not be entered"),
	COUNT(adopted, "tasks found running without a slot"),
	COUNT(host_collisions, "calls that the model allowed and the host refused"),
	COUNT(mq_clamped, "queues smaller in the host than in the model"),
	COUNT(recoveries, "counters recomputed after a death inside an update"),
	COUNT(reaped_dead, "dead tasks released by somebody else's look"),
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
	printf("world %s: %s, %" PRIu64 " s old, tasks: %u\n", world->name, launcher,
	       age_seconds(), count_tasks());
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
	return json_pack("{s:o, s:i, s:i, s:b, s:I, s:i}",
			 "name", cmd_json_text(world->name, WORLD_NAME_MAX),
			 "uid", (int)world->uid, "launcher_pid", world->launcher_pid,
			 "launcher_alive", alive, "age_seconds", (json_int_t)age_seconds(),
			 "tasks", (int)count_tasks());
}

static json_t *record_json(struct ucounts *uc)
{
	json_t *rec = json_pack("{s:I, s:I}", "namespace", (json_int_t)uc->ns, "uid",
				(json_int_t)uc->uid);

	for (size_t c = 0; c < NR_COLUMNS; c++) {
		enum rlimit_type type = columns[c];

		json_object_set_new(rec, rlimit_name(type),
				    json_pack("{s:I, s:I, s:I}", "use",
					      (json_int_t)get_rlimit_value(uc, type), "peak",
					      (json_int_t)atomic64_read(&uc->peak[type]), "refused",
					      (json_int_t)atomic64_read(&uc->refused[type])));
	}
	return rec;
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
	return json_pack("{s:o, s:I, s:I, s:i, s:I, s:I, s:I, s:b, s:b}",
			 "name", cmd_json_text(q->name, MQ_NAME_MAX),
			 "uid", (json_int_t)q->uid, "gid", (json_int_t)q->gid,
			 "mode", (int)(q->mode & 07777), "maxmsg", (json_int_t)q->maxmsg,
			 "msgsize", (json_int_t)q->msgsize, "bytes", (json_int_t)q->bytes,
			 "unlinked", q->unlinked != 0, "clamped", q->clamped != 0);
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
		json_object_set_new(v, counts[i].name, json_integer(count_value(&counts[i])));
	json_object_set_new(v, "refusals_lost", json_integer(world->refusals_lost));
	return v;
}

static int print_json(bool alive)
{
	return cmd_json_print(json_pack("{s:o, s:o, s:o, s:o, s:o}", "world", world_json(alive),
					"records", records_json(), "queues", queues_json(),
					"counts", counts_json(), "refusals", cmd_refusals_json()));
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
	CMD_OPTION_WORLD,
	CMD_OPTION_JSON,
	{ 0 },
};

const struct cmd cmd_stat = {
	.name = "stat",
	.usage = "",
	.summary = "print what a world holds: records, queues, refusals",
	.options = stat_options,
	.run = run_stat,
};
