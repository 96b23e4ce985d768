/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attachment: finding the world and the own task again, and the real functions. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <kpemu/exec.h>
#include <kpemu/teardown.h>

#include "emu/lib/step.h"
#include "emu/lib/text.h"
#include "emu/world/handover.h"
#include "preload/hook.h"
#include "preload/thread.h"

#define X(name) __typeof__(name) *next_##name;
REAL_FUNCTIONS(X)
#undef X

/* 0 = not tried, 1 = being tried or done. Owner: the first thread of the process. */
static int tried;

void *find_next(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		__builtin_trap();
	return p;
}

/* Not constants: those lie on a page that a new program has not touched yet. */
static char world_key[] = "KPEMU_WORLD", task_key[] = "KPEMU_TASK", preload_key[] = "LD_PRELOAD";

static const char *env_value(const char *key)
{
	size_t n = text_len(key);

	for (char *const *e = exec_environ(); *e; e++)
		if (text_starts(*e, key) && (*e)[n] == '=')
			return *e + n + 1;
	return NULL;
}

/* Is ours the only library preloaded? Another may define some of the names, and comes before libc. */
static bool alone(void)
{
	const char *preload = env_value(preload_key);

	while (preload && *preload && *preload != ':' && *preload != ' ')
		preload++;
	return preload && !*preload;
}

static void find_real_functions(void)
{
	char *libc = alone() ? libc_base(&world->libc) : NULL;

#define X(name)                                                                                    \
	next_##name = libc ? (void *)(libc + world->libc.function[REAL_##name]) : find_next(#name);
	REAL_FUNCTIONS(X)
#undef X
}

/* By its path, else from the launcher: after chroot or under a private /dev/shm the path is gone. */
static int open_world(const char *path)
{
	int fd = sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0), ret = -ENOENT;

	if (fd >= 0) {
		ret = world_map(fd);
		sys_close(fd);
	}
	if (!ret)
		return 0;
	fd = handover_request(path, HANDOVER_WORLD);
	if (fd < 0)
		return fd;
	ret = world_map(fd);
	sys_close(fd);
	return ret;
}

/* The slot that the maker of this program named, if it really is ours. */
static struct task_struct *named_task(int pid)
{
	const char *v = env_value(task_key);
	struct task_struct *t;
	uint32_t idx, gen;
	uint64_t w;

	if (!v || !exec_parse_task(v, &idx, &gen))
		return NULL;
	t = table_slot(TABLE_TASK, idx);
	if (!t)
		return NULL;
	w = READ_ONCE(t->slot);
	if (slot_gen(w) != gen)
		return NULL;
	if (pid == 1)
		return t; /* its number is the maker's to tell */
	if (slot_state(w) == SLOT_NEW)
		task_born(t, slot_ref(idx, w), pid, pid);
	return slot_state(READ_ONCE(t->slot)) == SLOT_LIVE && t->tgid == pid ? t : NULL;
}

static struct task_struct *find_task(int pid)
{
	struct task_struct *t = named_task(pid);

	if (t)
		return t;
	t = find_task_by_vpid(pid);
	if (t && !task_gone(t))
		return t;
	return task_adopt(find_task_by_vpid(sys_call(__NR_getppid)), pid, pid);
}

/* A world that has ended is no reason to complain; one that is there and cannot be entered is. */
static void complain(const char *path, int err)
{
	char comm[16] = "", line[256];
	int n;

	if (err == -ENOENT || err == -ECONNREFUSED)
		return;
	sys_call(__NR_prctl, PR_GET_NAME, comm, 0, 0, 0);
	n = snprintf(line, sizeof(line), "kpemu: %s: cannot enter %s: %s: no limit is emulated here\n",
		     comm, path, strerrordesc_np(-err));
	sys_call(__NR_write, 2, line, n < (int)sizeof(line) ? n : (int)sizeof(line) - 1);
}

static void attach_process(void)
{
	const char *path = env_value(world_key);
	int pid = sys_call(__NR_getpid), err;

#ifdef KPEMU_KILL_STEPS
	if (getenv("KPEMU_KILL_AT"))
		kill_at = atol(getenv("KPEMU_KILL_AT"));
#endif
	if (!path)
		return;
	err = open_world(path);
	if (err) {
		complain(path, err);
		return;
	}
	if (READ_ONCE(world->state) == WORLD_ENDING) {
		world_unmap();
		return;
	}
	find_real_functions();
	current = find_task(pid);
	if (current)
		current = begin_new_exec(current);
	if (!current) {
		world_unmap();
		return;
	}
}

struct task_struct *attach(void)
{
	int saved = errno;
	uint64_t old;

	if (!tried) {
		tried = 1;
		block_signals(&old);
		attach_process();
		restore_signals(&old);
	} else if (world) {
		thread_adopt();
	}
	errno = saved;
	return current;
}

/* Before main() there are no handlers whose signals would have to wait. */
__attribute__((constructor(101))) static void preload_init(void)
{
	if (tried)
		return;
	tried = 1;
	attach_process();
}

void last_task_out(void)
{
	uint64_t old;

	/* As a rule the launcher does it; if it was killed, whoever leaves last. */
	if (!current || !world_launcher_ended())
		return;
	block_signals(&old);
	world_teardown();
	restore_signals(&old);
}

__attribute__((destructor)) static void preload_fini(void)
{
	last_task_out();
}
