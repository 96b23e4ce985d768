/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu run: options, the world, and over to the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kpemu/percpu.h>
#include <kpemu/teardown.h>
#include <kpemu/ucount.h>

#include "emu/cmd/cmd.h"
#include "emu/cmd/run.h"

#define ID_MAX       (UINT32_MAX - 1) /* the highest says "no id" */
#define CREATE_TRIES 100

static int set_rlimit(void *options, const char *arg)
{
	return run_limit_option(options, arg);
}

static int parse_id(const char *option, const char *arg, bool *set, uint32_t *id)
{
	uint64_t v;

	if (!cmd_number(arg, ID_MAX, &v))
		return cmd_error("%s %s: not a number from 0 to %u", option, arg, ID_MAX);
	*set = true;
	*id = v;
	return 0;
}

static int set_uid(void *options, const char *arg)
{
	struct run_options *o = options;

	return parse_id("--uid", arg, &o->set_uid, &o->uid);
}

static int set_gid(void *options, const char *arg)
{
	struct run_options *o = options;

	return parse_id("--gid", arg, &o->set_gid, &o->gid);
}

static int set_cap_drop(void *options, const char *arg)
{
	return run_cap_option(options, arg);
}

static int set_userns(void *options, const char *arg)
{
	uint64_t v;

	if (!cmd_number(arg, USER_NS_LEVELS, &v))
		return cmd_error("--userns %s: not a number from 0 to %d", arg, USER_NS_LEVELS);
	((struct run_options *)options)->userns = v;
	return 0;
}

static int set_sysctl(void *options, const char *arg)
{
	return run_sysctl_option(options, arg);
}

/* "atomic, percpu, ..." */
static const char *alg_names(char *buf, size_t size)
{
	size_t n = 0;

	for (int i = 0; i < NR_UCOUNTS_ALGS && n < size; i++)
		n += snprintf(buf + n, size - n, "%s%s", i ? ", " : "", ucounts_ops_of(i)->name);
	return buf;
}

static int set_ucounts(void *options, const char *arg)
{
	struct run_options *o = options;
	char names[128];
	int alg = ucounts_alg_of(arg);

	if (alg < 0)
		return cmd_error("--ucounts %s: not one of %s", arg,
				 alg_names(names, sizeof(names)));
	o->set_ucounts_alg = true;
	o->ucounts_alg = alg;
	return 0;
}

static const struct kernel {
	const char *name;
	enum ucounts_alg ucounts_alg;
} kernels[] = {
	{ "v23", UCOUNTS_PERCPU }, /* the default */
	{ "6.18", UCOUNTS_ATOMIC },
	{ "6.1", UCOUNTS_ATOMIC },
};

static int set_kernel(void *options, const char *arg)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		if (!strcmp(arg, kernels[i].name)) {
			((struct run_options *)options)->kernel_alg = kernels[i].ucounts_alg;
			return 0;
		}
	return cmd_error("--kernel %s: not one of 6.18, 6.1, v23", arg);
}

static int set_quiet(void *options, const char *arg)
{
	(void)arg;
	((struct run_options *)options)->quiet = true;
	return 0;
}

static int set_strict(void *options, const char *arg)
{
	(void)arg;
	((struct run_options *)options)->strict = true;
	return 0;
}

static int set_world(void *options, const char *arg)
{
	struct cmd_look look;
	int ret = cmd_look_world(&look, arg);

	if (!ret)
		((struct run_options *)options)->world_name = look.world_name;
	return ret;
}

/* What to execute. 0, or the exit status after a message, as env(1) has them. */
static int find_program(struct launch *l)
{
	int err = cmd_program_find(l->argv[0], l->path, sizeof(l->path));

	if (!err)
		return 0;
	cmd_error("%s: %s", *l->argv[0] ? l->argv[0] : "''", strerror(-err));
	return err == -ENOENT ? CMD_NOT_FOUND : CMD_CANNOT_EXEC;
}

static int check_kind(struct launch *l)
{
	l->kind = exec_kind(AT_FDCWD, l->path);
	if (l->kind == EXEC_ENTERED || l->kind == EXEC_UNKNOWN)
		return 0;
	if (l->options->strict)
		return cmd_error("%s is %s: it cannot be entered", l->path,
				 exec_kind_name(l->kind));
	cmd_warn("%s is %s: it cannot be entered, only counted", l->path, exec_kind_name(l->kind));
	return 0;
}

static int find_preload(char *buf, size_t size)
{
	switch (cmd_preload_find(buf, size)) {
	case 0:
		return 0;
	case -ENOENT:
		return cmd_error("the preload library is neither beside kpemu nor in ../lib");
	case -ENAMETOOLONG:
		return cmd_error("the path of the preload library is too long");
	default:
		return cmd_error("the path of the preload library has a blank, ':' or '$'");
	}
}

/* Why a world of this name cannot be made: somebody has it. */
static int complain_exists(const char *name)
{
	char path[WORLD_PATH_MAX];
	int fd, pid = 0;

	world_path(path, cmd_uid(), name);
	fd = cmd_file_open(path);
	if (fd < 0)
		return -cmd_error("--world %s: %s %s", name, path, cmd_file_error(fd));
	if (world_launcher_alive(fd) && !cmd_world_peek(fd, name, &pid))
		cmd_error("--world %s: that world exists, its launcher is process %d", name, pid);
	else
		cmd_error("--world %s: that world exists, programs still run in it", name);
	close(fd);
	return -CMD_ERROR;
}

static int complain_create(int err, const char *name)
{
	switch (-err) {
	case EEXIST:
		return complain_exists(name);
	case ENOENT:
		return -cmd_error("no world can be made: " WORLD_DIR " is missing");
	case ENOMEM:
	case ENOSPC:
		return -cmd_error("no world can be made: " WORLD_DIR
				  " is full or too small, or ulimit -v is");
	case EFBIG:
		return -cmd_error("no world can be made: ulimit -f is too small");
	}
	return -cmd_error("no world can be made in " WORLD_DIR ": %s", strerror(-err));
}

/*
 * Until the new file has its lock, another kpemu that removes rubbish may take it for such. Then it
 * holds the lock (-EAGAIN), or the file has lost its name.
 */
static int create_once(const char *name)
{
	int fd = world_create(name, cmd_uid());
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && st.st_nlink))
		return fd;
	world_unmap();
	close(fd);
	return -EAGAIN;
}

/* A name of our own is the pid and a letter; where pids come round, another letter. */
int run_create_world(const struct run_options *options)
{
	char name[WORLD_NAME_MAX + 1];
	char letter = 'a';
	int fd = -EAGAIN;

	for (int i = 0; i < CREATE_TRIES; i++) {
		if (options->world_name)
			strcpy(name, options->world_name);
		else
			snprintf(name, sizeof(name), "%d%c", cmd_pid(), letter);
		fd = create_once(name);
		if (fd == -EEXIST && !options->world_name && letter < 'z')
			letter++;
		else if (fd != -EAGAIN)
			break;
	}
	return fd < 0 ? complain_create(fd, name) : fd;
}

static void fill_header(const struct run_options *options, const char *preload)
{
	world->launcher_pid = cmd_pid();
	world->host_mq_msg_max = cmd_sysctl("/proc/sys/fs/mqueue/msg_max", 10);
	world->host_mq_msgsize_max = cmd_sysctl("/proc/sys/fs/mqueue/msgsize_max", 8192);
	strcpy(world->preload_path, preload);
	world->nr_cpus = percpu_machine_cpus();
	world->ucounts_alg = options->set_ucounts_alg ? options->ucounts_alg : options->kernel_alg;
	libc_find_offsets(&world->libc);
	world_sign_life();
}

static void warn_of_drift(const struct run_options *options)
{
	if (!options->quiet && ucounts_ops()->drifts)
		cmd_warn("--ucounts %s is defective by design: its limits and counters are those "
			 "of the posted code",
			 ucounts_ops()->name);
}

/* The launcher's slot and the program's task. 0, or an exit status after a message. */
static int populate(struct launch *l)
{
	struct cred cred;
	int ret;

	run_credentials(l->options, &cred);
	current = task_observer(cmd_pid());
	if (current)
		l->task = task_first(&cred, l->options->rlim);
	if (!l->task)
		return -complain_create(-ENOMEM, world->name);
	ret = run_namespaces(l->options, l->task);
	if (ret)
		return ret;
	if (l->kind != EXEC_ENTERED && l->kind != EXEC_UNKNOWN)
		uncovered_log(exec_kind_name(l->kind), l->path);
	smp_store_release(&world->state, WORLD_RUNNING);
	return 0;
}

static int run_in_world(struct launch *l, const char *preload)
{
	char path[WORLD_PATH_MAX];
	int ret;

	l->world_fd = run_create_world(l->options);
	if (l->world_fd < 0)
		return -l->world_fd;
	cmd_guard(world->name);
	fill_header(l->options, preload);
	warn_of_drift(l->options);
	ret = populate(l);
	if (!ret)
		return launcher_run(l);
	world_path(path, world->uid, world->name);
	world_remove_file(l->world_fd, path);
	return ret;
}

/* A world inside a world: the program would be told two stories. A stale variable is replaced. */
static int check_outside(void)
{
	char name[WORLD_NAME_MAX + 1];
	int fd = cmd_world_here(name);

	if (fd < 0)
		return 0;
	close(fd);
	return cmd_error("run: this is already inside world %s, as KPEMU_WORLD says", name);
}

static int run_run(const struct cmd *cmd, int argc, char **argv)
{
	struct run_options options = { .kernel_alg = kernels[0].ucounts_alg };
	struct launch l = { .options = &options };
	char preload[sizeof(world->preload_path)];
	int first, ret = cmd_parse(cmd, argc, argv, &options, &first);

	if (ret)
		return ret;
	l.argv = argv + first;
	if (!l.argv[0])
		return cmd_error("run: which program? usage: kpemu run [options] %s", cmd->usage);
	ret = check_outside();
	if (!ret)
		ret = find_program(&l);
	if (!ret)
		ret = check_kind(&l);
	if (!ret)
		ret = find_preload(preload, sizeof(preload));
	if (ret)
		return ret;
	run_limit_defaults(&options);
	if (!options.quiet && !cmd_uid())
		cmd_warn("running as real root: set*id calls are emulated, so file access stays "
			 "root's");
	cmd_block_signals(&l.mask);
	cmd_gc_quiet();
	return run_in_world(&l, preload);
}

static const struct cmd_option run_options[] = {
	{ "rlimit", 0, "NAME=SOFT[:HARD]",
	  "set a limit: 'unlimited' or a number in the unit of setrlimit(2); nproc, msgqueue, "
	  "memlock and sigpending are emulated, all others are set for real",
	  set_rlimit },
	{ "uid", 0, "UID", "start as UID, without groups, with capabilities only if 0", set_uid },
	{ "gid", 0, "GID", "start with group GID", set_gid },
	{ "cap-drop", 0, "CAP[,CAP]", "start without these capabilities", set_cap_drop },
	{ "userns", 0, "N", "start inside N nested user namespaces, with the same ids",
	  set_userns },
	{ "sysctl", 0, "KEY=VALUE", "set user.max_... or fs.mqueue... of the initial namespaces",
	  set_sysctl },
	{ "ucounts", 0, "ALG",
	  "how counters are kept: atomic, percpu, cache or stock; or with the defects of a posted "
	  "design, percpu-rfc or cache-rfc",
	  set_ucounts },
	{ "kernel", 0, "VERSION", "the algorithms of 6.18 or 6.1, or of v23, the default",
	  set_kernel },
	{ "quiet", 0, NULL, "no summary of refusals on stderr", set_quiet },
	{ "strict", 0, NULL, "a PROG that cannot be entered is an error", set_strict },
	{ "world", 0, "NAME", "name the world, so that others can look at it", set_world },
	{ 0 },
};

const struct cmd cmd_run = {
	.name = "run",
	.usage = "[--] PROG [ARGS]",
	.summary = "run a program under emulated limits",
	.options = run_options,
	.takes_program = true,
	.run = run_run,
};
