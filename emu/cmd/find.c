/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which world: the files in /dev/shm, whose they are, and how a command looks into one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>

#include "emu/cmd/cmd.h"
#include "emu/lib/rawsys.h"

#define LOCK_TRIES    20
#define LOCK_PAUSE_NS 500000

unsigned int cmd_uid(void)
{
	return sys_call(__NR_geteuid);
}

int cmd_pid(void)
{
	return sys_call(__NR_getpid);
}

void cmd_block_signals(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	/* Faults are ours: a damaged world ends with a message. */
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigprocmask(SIG_BLOCK, &all, old);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(struct cmd_names *names, const char *name)
{
	char **more = realloc(names->name, (names->n + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	names->name = more;
	more[names->n] = strdup(name);
	if (!more[names->n])
		return -ENOMEM;
	names->n++;
	return 0;
}

int cmd_names_read(struct cmd_names *names, const char *path, unsigned int uid)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	char begin[32];
	size_t len;
	int ret = 0;

	*names = (struct cmd_names){ 0 };
	if (!dir)
		return -errno;
	len = snprintf(begin, sizeof(begin), WORLD_PREFIX "%u.", uid);
	while (!ret && (d = readdir(dir)))
		if (!strncmp(d->d_name, begin, len))
			ret = add_name(names, d->d_name + len);
	closedir(dir);
	if (ret)
		cmd_names_free(names);
	else if (names->n)
		qsort(names->name, names->n, sizeof(*names->name), by_name);
	return ret;
}

void cmd_names_free(struct cmd_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->name[i]);
	free(names->name);
	*names = (struct cmd_names){ 0 };
}

int cmd_file_open(const char *path)
{
	struct stat st;
	int fd, err = 0;

	/* The directory is everybody's: what has our name may be a link, a FIFO, another user's. */
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		err = errno;
	if (fd < 0 ? fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) : fstat(fd, &st))
		err = errno;
	else if (st.st_uid != cmd_uid())
		err = EPERM;
	else if (!S_ISREG(st.st_mode))
		err = ENOTSUP;
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return -err;
}

const char *cmd_file_error(int err)
{
	switch (-err) {
	case EPERM:
		return "belongs to another user";
	case ENOTSUP:
		return "is not a regular file";
	case ENOEXEC:
		return "is not a world, or damaged";
	case EPROTO:
		return "was made by another version of kpemu";
	case ENOENT:
		return "does not exist";
	}
	return strerror(-err);
}

int cmd_file_lock(int fd)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return 0;
		/* Refused even a share: a launcher, or a remover. Else somebody is only testing. */
		if (flock(fd, LOCK_SH | LOCK_NB))
			break;
		flock(fd, LOCK_UN);
		nanosleep(&pause, NULL);
	}
	return -EWOULDBLOCK;
}

/* What the handler says: made beforehand, because it may be called anywhere. */
static char damaged[WORLD_NAME_MAX + 80];
static sigjmp_buf *lost_page;

static void on_lost_page(int sig)
{
	ssize_t n;

	(void)sig;
	if (lost_page)
		siglongjmp(*lost_page, 1);
	n = write(STDERR_FILENO, damaged, strlen(damaged));
	(void)n;
	_exit(CMD_ERROR);
}

void cmd_catch_damage(sigjmp_buf *env)
{
	lost_page = env;
}

void cmd_guard(const char *name)
{
	struct sigaction sa = { .sa_handler = on_lost_page };

	snprintf(damaged, sizeof(damaged), "kpemu: world %s was damaged while being read\n", name);
	sigaction(SIGBUS, &sa, NULL);
}

/* A copy of a world would answer for tasks and queues that are another's. */
static bool is_under_own_name(const char *name)
{
	return world->uid == cmd_uid() && !strcmp(world->name, name);
}

int cmd_attach(int fd, const char *name)
{
	sigset_t old;
	int ret;

	cmd_guard(name);
	ret = world_map(fd);
	if (ret)
		return ret;
	if (!is_under_own_name(name)) {
		world_unmap();
		return -ENOEXEC;
	}
	cmd_block_signals(&old);
	current = task_observer(cmd_pid());
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (current)
		return 0;
	world_unmap();
	return -ENOMEM;
}

void cmd_detach(void)
{
	sigset_t old;

	cmd_block_signals(&old);
	if (current)
		release_task(current);
	current = NULL;
	world_unmap();
	sigprocmask(SIG_SETMASK, &old, NULL);
}

void cmd_reap(void)
{
	sigset_t old;

	cmd_block_signals(&old);
	reap_dead(-1);
	sigprocmask(SIG_SETMASK, &old, NULL);
	/* This one may wait for a task that is stopped while it holds the lock: ^C must work. */
	mqueue_reap_unlinked(current);
}

/* Ours, and a world at least at first sight: neither a stranger's file nor leftover rubbish. */
static bool is_candidate(const char *name)
{
	char path[WORLD_PATH_MAX];
	uint64_t magic = 0;
	int fd;

	if (!world_name_valid(name))
		return false;
	world_path(path, cmd_uid(), name);
	fd = cmd_file_open(path);
	if (fd < 0)
		return false;
	if (pread(fd, &magic, sizeof(magic), WORLD_HEADER_OFFSET) != sizeof(magic))
		magic = 0;
	close(fd);
	return magic == WORLD_MAGIC;
}

/* "several worlds: a, b, c; ..." */
static int complain_several(const struct cmd_names *names)
{
	char list[512] = "";
	size_t used = 0;

	for (size_t i = 0; i < names->n && used < sizeof(list); i++)
		if (is_candidate(names->name[i]))
			used += snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
					 names->name[i]);
	return cmd_error("several worlds: %s%s; choose one with --world NAME", list,
			 used < sizeof(list) ? "" : "...");
}

/* The only world there is, into @name. */
static int find_only(char *name)
{
	struct cmd_names names;
	size_t found = 0;
	int ret = cmd_names_read(&names, WORLD_DIR, cmd_uid());

	if (ret)
		return cmd_error(WORLD_DIR ": %s", strerror(-ret));
	for (size_t i = 0; i < names.n; i++)
		if (is_candidate(names.name[i]) && !found++)
			strcpy(name, names.name[i]);
	if (!found)
		ret = cmd_error("there is no world of uid %u", cmd_uid());
	else if (found > 1)
		ret = complain_several(&names);
	cmd_names_free(&names);
	return ret;
}

int cmd_world_enter(const char *name, int *fd)
{
	char path[WORLD_PATH_MAX], only[WORLD_NAME_MAX + 1];
	int ret;

	if (!name) {
		ret = find_only(only);
		if (ret)
			return ret;
		name = only;
	}
	world_path(path, cmd_uid(), name);
	*fd = cmd_file_open(path);
	if (*fd < 0)
		return cmd_error("world %s %s", name, cmd_file_error(*fd));
	ret = cmd_attach(*fd, name);
	if (!ret)
		return 0;
	close(*fd);
	if (ret == -ENOMEM)
		return cmd_error("world %s: no room left in " WORLD_DIR, name);
	return cmd_error("world %s %s", name, cmd_file_error(ret));
}
