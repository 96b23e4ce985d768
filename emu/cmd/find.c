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
#include <kpemu/shm.h>
#include <kpemu/sched.h>
#include <kpemu/signal.h>

#include "emu/cmd/cmd.h"
#include "emu/lib/rawsys.h"
#include "emu/world/handover.h"

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
	signal_reconcile_all();
	reap_dead(-1);
	sigprocmask(SIG_SETMASK, &old, NULL);
	/* This one may wait for a task that is stopped while it holds the lock: ^C must work. */
	mqueue_reap_unlinked(current);
	shm_reap(current);
}

int cmd_world_peek(int fd, const char *name, int *launcher)
{
	int ret;

	cmd_guard(name);
	ret = world_map(fd);
	if (ret)
		return ret;
	*launcher = world->launcher_pid;
	if (!is_under_own_name(name))
		ret = -ENOEXEC;
	world_unmap();
	return ret;
}

/* @fd if it is the world @name, of whatever version; else it is closed. */
static int only_world(int fd, const char *name)
{
	int launcher, ret = fd < 0 ? fd : cmd_world_peek(fd, name, &launcher);

	if (!ret || ret == -EPROTO)
		return fd;
	if (fd >= 0)
		close(fd);
	return ret;
}

static int open_world(const char *name)
{
	char path[WORLD_PATH_MAX];

	world_path(path, cmd_uid(), name);
	return cmd_file_open(path);
}

/* The name in the path of a world of ours; false if it is no such path. */
static bool name_in_path(const char *path, char *name)
{
	char begin[WORLD_PATH_MAX];
	size_t len;

	world_path(begin, cmd_uid(), "");
	len = strlen(begin);
	if (strncmp(path, begin, len) || !world_name_valid(path + len))
		return false;
	strcpy(name, path + len);
	return true;
}

int cmd_world_here(char *name)
{
	const char *path = getenv("KPEMU_WORLD");
	int fd;

	if (!path || !name_in_path(path, name))
		return -ENOENT;
	fd = only_world(cmd_file_open(path), name);
	/* In a chroot, or under a private /dev/shm, the launcher is asked, as the library does. */
	return fd < 0 ? only_world(handover_request(path, HANDOVER_WORLD), name) : fd;
}

/* One of the names is our world, not a stranger's file or leftover rubbish. */
struct found_world {
	const char *name;
	bool orphaned;
};

static size_t find_worlds(const struct cmd_names *names, struct found_world *found)
{
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++) {
		const char *name = names->name[i];
		int fd = world_name_valid(name) ? only_world(open_world(name), name) : -1;

		if (fd < 0)
			continue;
		found[n++] = (struct found_world){ name, !world_launcher_alive(fd) };
		close(fd);
	}
	return n;
}

/* "several worlds: a, b (orphaned), c; ..." */
static int complain_several(const struct found_world *found, size_t n)
{
	char list[512] = "";
	size_t used = 0;

	for (size_t i = 0; i < n && used < sizeof(list); i++)
		used += snprintf(list + used, sizeof(list) - used, "%s%s%s", used ? ", " : "",
				 found[i].name, found[i].orphaned ? " (orphaned)" : "");
	return cmd_error("several worlds: %s%s; choose one with --world NAME", list,
			 used < sizeof(list) ? "" : "...");
}

/* The only one of @names that is a world, into @name. */
static int choose_only(const struct cmd_names *names, char *name)
{
	struct found_world *found = calloc(names->n + 1, sizeof(*found));
	size_t n;
	int ret = 0;

	if (!found)
		return cmd_error("out of memory");
	n = find_worlds(names, found);
	if (n == 1)
		strcpy(name, found[0].name);
	else if (n)
		ret = complain_several(found, n);
	else
		ret = cmd_error("there is no world of uid %u", cmd_uid());
	free(found);
	return ret;
}

static int find_only(char *name)
{
	struct cmd_names names;
	int ret = cmd_names_read(&names, WORLD_DIR, cmd_uid());

	if (ret)
		return cmd_error(WORLD_DIR ": %s", strerror(-ret));
	ret = choose_only(&names, name);
	cmd_names_free(&names);
	return ret;
}

int cmd_world_enter(const char *name, int *fd)
{
	char found[WORLD_NAME_MAX + 1];
	int ret;

	*fd = name ? -1 : cmd_world_here(found);
	if (!name && *fd < 0 && find_only(found))
		return CMD_ERROR;
	if (!name)
		name = found;
	if (*fd < 0)
		*fd = open_world(name);
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
