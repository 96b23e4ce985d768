/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu gc: remove worlds that nobody lives in, their queues, and files that are no worlds. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/teardown.h>

#include "emu/cmd/cmd.h"

#define MQUEUE_DIR     "/dev/mqueue"
#define MQUEUE_MAGIC   0x19800202
#define BIRTH_PAUSE_NS 10000000

/* One file that may be a world. */
struct candidate {
	const char *name;
	char path[PATH_MAX];
	int fd; /* its exclusive lock is ours */
};

struct gc {
	bool quiet;
	unsigned int removed, failed;
};

/* Somebody else was faster: the file is gone, or its name another world's. */
static bool is_gone(int err)
{
	return err == -ENOENT || err == -ESTALE;
}

static void say_failed(struct gc *gc, const char *path, const char *why)
{
	gc->failed++;
	if (!gc->quiet)
		cmd_error("%s: %s", path, why);
}

static void remove_rubbish(struct gc *gc, struct candidate *c, const char *why)
{
	int err = world_remove_file(c->fd, c->path);

	if (err) {
		if (!is_gone(err))
			say_failed(gc, c->path, strerror(-err));
		return;
	}
	gc->removed++;
	if (!gc->quiet)
		cmd_say("removed %s: it %s", c->path, why);
}

static void print_queues(void)
{
	struct mqueue_inode *q;

	for_each_mqueue(i, q)
		if (cmd_queue_named(q))
			cmd_say("removed queue /%.*s of world %s", MQ_NAME_MAX, q->name,
				world->name);
}

/* The attached world: 0 when it is gone, -EBUSY when somebody lives there. */
static int remove_world(struct gc *gc, struct candidate *c)
{
	sigset_t old;
	int err;

	cmd_block_signals(&old);
	reap_dead(-1);
	if (!gc->quiet && !world_in_use(0))
		print_queues();
	err = world_remove(c->fd, 0);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (err)
		return err;
	gc->removed++;
	if (!gc->quiet)
		cmd_say("removed world %s", c->name);
	return 0;
}

/*
 * A file whose lock is ours, so that no launcher lives: a world, or rubbish. It may lose its pages
 * while we read it; then it is rubbish too.
 */
static void collect_locked(struct gc *gc, struct candidate *c)
{
	sigjmp_buf env;
	int err;

	if (sigsetjmp(env, 1)) {
		cmd_catch_damage(NULL);
		current = NULL;
		world_unmap();
		remove_rubbish(gc, c, "was truncated");
		return;
	}
	cmd_catch_damage(&env);
	err = cmd_attach(c->fd, c->name);
	if (!err) {
		err = remove_world(gc, c);
		if (err && err != -EBUSY && !is_gone(err))
			say_failed(gc, c->path, strerror(-err));
		cmd_detach();
	} else if (err == -ENOEXEC || err == -EPROTO) {
		remove_rubbish(gc, c, cmd_file_error(err));
	} else {
		say_failed(gc, c->path, strerror(-err));
	}
	cmd_catch_damage(NULL);
}

/* An empty file may be a world that has not got its lock yet: that takes it a moment. */
static void let_be_born(int fd)
{
	const struct timespec pause = { .tv_nsec = BIRTH_PAUSE_NS };
	struct stat st;

	if (!fstat(fd, &st) && !st.st_size)
		nanosleep(&pause, NULL);
}

static void collect(struct gc *gc, const char *name)
{
	struct candidate c = { .name = name };

	if ((size_t)snprintf(c.path, sizeof(c.path), WORLD_DIR "/" WORLD_PREFIX "%u.%s", cmd_uid(),
			     name) >= sizeof(c.path))
		return;
	c.fd = cmd_file_open(c.path);
	if (c.fd == -ENOENT)
		return;
	if (c.fd < 0) {
		if (!gc->quiet)
			cmd_warn("%s %s: left alone", c.path, cmd_file_error(c.fd));
		return;
	}
	let_be_born(c.fd);
	if (!cmd_file_lock(c.fd))
		collect_locked(gc, &c);
	close(c.fd);
}

static int collect_worlds(struct gc *gc)
{
	struct cmd_names names;
	int ret = cmd_names_read(&names, WORLD_DIR, cmd_uid());

	if (ret)
		return ret;
	for (size_t i = 0; i < names.n; i++)
		collect(gc, names.name[i]);
	cmd_names_free(&names);
	return 0;
}

void cmd_gc_quiet(void)
{
	struct gc gc = { .quiet = true };

	collect_worlds(&gc);
}

/* The real queues of a world begin with its name; those of "a.b" are left as long as "a" lives. */
static bool has_world(const char *queue, const struct cmd_names *worlds)
{
	for (size_t i = 0; i < worlds->n; i++) {
		size_t len = strlen(worlds->name[i]);

		if (!strncmp(queue, worlds->name[i], len) && queue[len] == '.')
			return true;
	}
	return false;
}

static void collect_queue(struct gc *gc, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), MQUEUE_DIR "/" WORLD_PREFIX "%u.%s", cmd_uid(), name);
	if (lstat(path, &st) || st.st_uid != cmd_uid())
		return;
	if (unlink(path)) {
		say_failed(gc, path, strerror(errno));
		return;
	}
	gc->removed++;
	cmd_say("removed queue %s", path);
}

/* Real queues without a world. Only where the mqueue file system is mounted can they be seen. */
static void collect_queues(struct gc *gc)
{
	struct cmd_names queues, worlds;
	struct statfs fs;

	if (statfs(MQUEUE_DIR, &fs) || fs.f_type != MQUEUE_MAGIC)
		return;
	/* Queues first: whichever is listed had its world, if any, before the worlds were listed. */
	if (cmd_names_read(&queues, MQUEUE_DIR, cmd_uid()))
		return;
	if (!cmd_names_read(&worlds, WORLD_DIR, cmd_uid())) {
		for (size_t i = 0; i < queues.n; i++)
			if (!has_world(queues.name[i], &worlds))
				collect_queue(gc, queues.name[i]);
		cmd_names_free(&worlds);
	}
	cmd_names_free(&queues);
}

static const struct cmd_option gc_options[] = { { 0 } };

static int run_gc(const struct cmd *cmd, int argc, char **argv)
{
	struct gc gc = { 0 };
	int first, ret = cmd_parse(cmd, argc, argv, NULL, &first);

	if (ret)
		return ret;
	ret = collect_worlds(&gc);
	if (ret)
		return cmd_error(WORLD_DIR ": %s", strerror(-ret));
	collect_queues(&gc);
	if (!gc.removed && !gc.failed)
		puts("nothing to remove");
	ret = cmd_flush();
	return gc.failed ? CMD_ERROR : ret;
}

const struct cmd cmd_gc = {
	.name = "gc",
	.usage = "",
	.summary = "remove worlds and queues whose owners are dead",
	.options = gc_options,
	.run = run_gc,
};
