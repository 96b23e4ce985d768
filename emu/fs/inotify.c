/* SPDX-License-Identifier: GPL-2.0-or-later */
/* inotify: an instance is an object like a namespace, its watches are a number in it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <kpemu/inotify.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/lib/rawsys.h"

/* Lines of fdinfo that are watches: "inotify wd:1 ino:..."; 0 where it cannot be read. */
static uint32_t count_watches(int tgid, int fd)
{
	static const char start[] = "inotify wd:";
	size_t matched = 0; /* how much of @start the line begins with so far; -1: another line */
	uint32_t watches = 0;
	char buf[1024];
	long n;
	int in;

	snprintf(buf, sizeof(buf), "/proc/%d/fdinfo/%d", tgid, fd);
	in = sys_open(buf, O_RDONLY | O_CLOEXEC, 0);
	if (in < 0)
		return 0;
	while ((n = sys_read(in, buf, sizeof(buf))) > 0)
		for (long i = 0; i < n; i++) {
			if (buf[i] == '\n')
				matched = 0;
			else if (matched != (size_t)-1 && buf[i] == start[matched])
				matched++;
			else
				matched = -1;
			if (matched == sizeof(start) - 1) {
				watches++;
				matched = -1;
			}
		}
	sys_close(in);
	return watches;
}

static void recount_others(const struct ns_common *but)
{
	struct ns_common *ns;

	for_each_ns(i, ns)
		if (ns != but && slot_state(READ_ONCE(ns->slot)) == SLOT_LIVE &&
		    READ_ONCE(ns->type) == UCOUNT_INOTIFY_INSTANCES)
			WRITE_ONCE(ns->watches, count_watches(ns->tgid, ns->fd));
}

static struct ns_common *find_instance(const struct task_struct *t, int fd)
{
	struct ns_common *ns;

	for_each_ns(i, ns)
		if (slot_state(READ_ONCE(ns->slot)) == SLOT_LIVE &&
		    READ_ONCE(ns->type) == UCOUNT_INOTIFY_INSTANCES && ns->tgid == t->tgid &&
		    ns->fd == fd)
			return ns;
	return NULL;
}

static int make_instance(struct task_struct *t, int fd, struct refusal *why)
{
	struct ns_common *ns = find_instance(t, fd);
	struct ucounts *uc;

	if (ns)
		ns_release(ns); /* that one was closed, and this has its number */
	uc = inc_ucount(t->cred.user_ns, t->cred.euid, UCOUNT_INOTIFY_INSTANCES, 1, why);
	if (!uc) {
		why->err = why->err ? EMFILE : 0;
		return -EMFILE;
	}
	ns = table_alloc(TABLE_NS, task_ref(t));
	if (!ns)
		return -EMFILE;
	ns->type = UCOUNT_INOTIFY_INSTANCES;
	ns->user_ns = t->cred.user_ns;
	ns->tgid = t->tgid;
	ns->fd = fd;
	ns->serial = ns->watches = ns->opened = 0;
	WRITE_ONCE(ns->ucounts, ucounts_index(uc) + 1);
	smp_store_release(&ns->slot, slot_word(SLOT_LIVE, slot_gen(ns->slot), 0));
	return 0;
}

int inotify_instance(struct task_struct *t, int fd, struct refusal *why)
{
	int err;

	ns_lock(t);
	err = make_instance(t, fd, why);
	ns_unlock();
	return err;
}

static int add_watch(struct task_struct *t, struct ns_common *ns, struct refusal *why)
{
	uint32_t now = count_watches(t->tgid, ns->fd), had = ns->watches;
	struct ucounts *uc = ucounts_of(ns->ucounts);

	if (now <= had) {
		WRITE_ONCE(ns->watches, now);
		return 0;
	}
	/* The number that others have may be too high. */
	if (!uc)
		return -ENOSPC;
	if (inc_ucount(uc->ns, uc->uid, UCOUNT_INOTIFY_WATCHES, now - had, why)) {
		WRITE_ONCE(ns->watches, now);
		return 0;
	}
	recount_others(ns);
	if (!inc_ucount(uc->ns, uc->uid, UCOUNT_INOTIFY_WATCHES, now - had, why))
		return -ENOSPC;
	WRITE_ONCE(ns->watches, now);
	return 0;
}

int inotify_watch(struct task_struct *t, int fd, struct refusal *why)
{
	struct ns_common *ns;
	int err = 0;

	ns_lock(t);
	ns = find_instance(t, fd);
	if (ns)
		err = add_watch(t, ns, why);
	ns_unlock();
	return err;
}
