/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits: reading and setting the four that the model keeps, and who may. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/resource.h>

#include <kpemu/sched.h>

const char *rlimit_name(enum rlimit_type type)
{
	switch (type) {
	case UCOUNT_RLIMIT_NPROC:
		return "nproc";
	case UCOUNT_RLIMIT_MSGQUEUE:
		return "msgqueue";
	case UCOUNT_RLIMIT_SIGPENDING:
		return "sigpending";
	case UCOUNT_RLIMIT_MEMLOCK:
		return "memlock";
	default: {
		const char *name = ucount_name(type - REFUSAL_UCOUNT(0));

		return name ? name : "unknown"; /* a number read from a torn world */
	}
	}
}

int rlimit_type_of(unsigned int resource)
{
	switch (resource) {
	case RLIMIT_NPROC:
		return UCOUNT_RLIMIT_NPROC;
	case RLIMIT_MSGQUEUE:
		return UCOUNT_RLIMIT_MSGQUEUE;
	case RLIMIT_SIGPENDING:
		return UCOUNT_RLIMIT_SIGPENDING;
	case RLIMIT_MEMLOCK:
		return UCOUNT_RLIMIT_MEMLOCK;
	default:
		return -1;
	}
}

/* The two numbers may be of different times: a soft limit read above the hard one is held down. */
static struct rlim read_rlim(const struct rlim *r)
{
	struct rlim v = { .max = smp_load_acquire(&r->max), .cur = smp_load_acquire(&r->cur) };

	if (v.cur > v.max)
		v.cur = v.max;
	return v;
}

/*
 * The kernel has a lock here. We store the two numbers in the order that never has the soft limit
 * above the hard one, so that a death in between does no harm either. Of racing setters, the one
 * that looks last sees what both have left, and puts that in order.
 */
static void write_rlim(struct rlim *r, const struct rlim *was, const struct rlim *to)
{
	uint64_t cur, max;

	if (to->max >= was->max)
		smp_store_release(&r->max, to->max);
	smp_store_release(&r->cur, to->cur);
	if (to->max < was->max)
		smp_store_release(&r->max, to->max);
	smp_mb();
	cur = READ_ONCE(r->cur);
	max = READ_ONCE(r->max);
	if (cur > max)
		cmpxchg(&r->cur, cur, max);
}

long do_prlimit(struct task_struct *caller, struct task_struct *t, enum rlimit_type type,
		const struct rlim *new, struct rlim *old)
{
	struct rlim *r = &task_leader(t)->rlim[type], was;

	if (new && new->cur > new->max)
		return -EINVAL;
	was = read_rlim(r);
	if (new && new->max > was.max && !capable(caller, CAP_SYS_RESOURCE))
		return -EPERM;
	if (new)
		write_rlim(r, &was, new);
	if (old)
		*old = was;
	return 0;
}

/* Only the task itself is let through unseen: its fellow threads are judged as strangers are. */
long check_prlimit_permission(struct task_struct *caller, struct task_struct *t)
{
	const struct cred *me = &caller->cred, *it = &t->cred;

	if (caller == t)
		return 0;
	if (READ_ONCE(it->uid) == me->uid && READ_ONCE(it->euid) == me->uid &&
	    READ_ONCE(it->suid) == me->uid && READ_ONCE(it->gid) == me->gid &&
	    READ_ONCE(it->egid) == me->gid && READ_ONCE(it->sgid) == me->gid)
		return 0;
	return ns_capable(caller, READ_ONCE(t->cred.user_ns), CAP_SYS_RESOURCE) ? 0 : -EPERM;
}
