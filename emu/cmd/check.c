/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu check: do the counters of a world agree with its objects, and the objects with the host? */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <kpemu/mlock.h>
#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/cmd/cmd.h"
#include "emu/lib/rawsys.h"

/*
 * Counters are compared behind closed gates. Objects are looked at while the program changes them:
 * what one look finds odd may only be on its way, so it must be odd in every look.
 */
#define LOOKS         4
#define LOOK_PAUSE_NS 20000000

/* One look: what is odd goes to @out, one line each. */
struct look {
	FILE *out;
	unsigned int odd, counters; /* lines; those that say that a counter is wrong */
	unsigned int records, tasks, queues;
};

#define odd(l, ...) ((l)->odd++, fprintf((l)->out, __VA_ARGS__))

static void check_counter(struct look *l, struct ucounts *uc, enum rlimit_type type)
{
	long counter, objects;
	sigset_t old;
	int err;

	cmd_block_signals(&old);
	err = ucounts_check(uc, type, &counter, &objects);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (err == -EAGAIN)
		odd(l,
		    "recovery pending: %s of uid %u in namespace %u: a living task is inside an "
		    "update\n",
		    rlimit_name(type), uc->uid, uc->ns);
	else if (counter != objects)
		odd(l, "%s of uid %u in namespace %u: the counter says %ld, its objects %ld\n",
		    rlimit_name(type), uc->uid, uc->ns, counter, objects);
	l->counters += !err && counter != objects;
}

static void check_records(struct look *l)
{
	struct ucounts *uc;

	for_each_ucounts(i, uc) {
		if (!slot_live(uc))
			continue;
		l->records++;
		for (int type = 0; type < UCOUNT_RLIMIT_COUNTS; type++)
			check_counter(l, uc, type);
	}
}

static void check_tasks(struct look *l)
{
	struct task_struct *t;

	for_each_task(i, t) {
		struct mm_struct *mm = task_mm(t);

		if (!slot_live(t))
			continue;
		l->tasks++;
		if (mm && !slot_live(mm))
			odd(l, "task %d: its address space is not there\n", t->pid);
	}
}

static bool mm_has_task(uint32_t idx)
{
	struct task_struct *t;

	for_each_task(i, t)
		if (task_counted(t) && READ_ONCE(t->mm) == idx + 1)
			return true;
	return false;
}

static void check_mms(struct look *l)
{
	struct mm_struct *mm;

	for_each_mm(i, mm) {
		int64_t locked = atomic64_read(&mm->locked_vm);

		if (!slot_live(mm))
			continue;
		if (!mm_has_task(i))
			odd(l, "address space %u: belongs to no task\n", i);
		if (locked < 0)
			odd(l, "address space %u: %lld pages locked\n", i, (long long)locked);
	}
}

/* The real queue behind @q: 0, or -errno of opening it. */
static long probe_queue(const struct mqueue_inode *q, struct stat *st)
{
	char name[256];
	long fd;

	mqueue_real_name(name, q);
	fd = sys_call(__NR_mq_open, name + 1, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, NULL);
	if (fd < 0)
		return fd;
	sys_call(__NR_fstat, fd, st);
	sys_close(fd);
	return 0;
}

static void check_queues(struct look *l)
{
	struct mqueue_inode *q;
	struct stat st = { 0 };

	for_each_mqueue(i, q) {
		char name[4 * MQ_NAME_MAX + 8];
		long err;

		if (!slot_live(q))
			continue;
		l->queues++;
		if (!cmd_queue_named(q) || !READ_ONCE(q->ino))
			continue;
		cmd_printable(name, sizeof(name), q->name, MQ_NAME_MAX);
		err = probe_queue(q, &st);
		if (err == -ENOENT)
			odd(l, "queue /%s: its real queue is gone\n", name);
		else if (!err && st.st_ino != q->ino)
			odd(l, "queue /%s: its real queue is another one\n", name);
	}
}

/* All of it once; the text to *@text, which the caller frees. NULL when there is no memory. */
static void look_once(struct look *l, char **text)
{
	size_t size;

	*text = NULL;
	*l = (struct look){ .out = open_memstream(text, &size) };
	if (!l->out)
		return;
	cmd_reap();
	check_records(l);
	check_tasks(l);
	check_mms(l);
	check_queues(l);
	fclose(l->out);
}

static int check_world(void)
{
	const struct timespec pause = { .tv_nsec = LOOK_PAUSE_NS };
	struct look l;
	char *text;
	int ret;

	for (int i = 1;; i++) {
		look_once(&l, &text);
		if (!text)
			return cmd_error("check: out of memory");
		if (!l.odd || i == LOOKS)
			break;
		free(text);
		nanosleep(&pause, NULL);
	}
	fputs(text, stdout);
	if (l.counters && ucounts_ops()->drifts)
		printf("this world counts with %s, whose counters drift by design\n",
		       ucounts_ops()->name);
	if (!l.odd)
		printf("ok: %u record%s, %u task%s, %u queue%s\n", l.records, plural(l.records),
		       l.tasks, plural(l.tasks), l.queues, plural(l.queues));
	free(text);
	ret = cmd_flush();
	return l.odd ? CMD_DIFFERS : ret;
}

static int run_check(const struct cmd *cmd, int argc, char **argv)
{
	struct cmd_look look = { 0 };
	int first, fd, ret = cmd_parse(cmd, argc, argv, &look, &first);

	if (!ret)
		ret = cmd_world_enter(look.world_name, &fd);
	if (ret)
		return ret;
	ret = check_world();
	cmd_detach();
	close(fd);
	return ret;
}

static const struct cmd_option check_options[] = {
	{ CMD_OPTION_WORLD },
	{ 0 },
};

const struct cmd cmd_check = {
	.name = "check",
	.usage = "",
	.summary = "compare counters with objects; exit 1 if they differ",
	.options = check_options,
	.run = run_check,
};
