/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The emulated sysctls: whose they are, who may write them, and what is a value. */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/sysctl.h>

#include "emu/lib/rawsys.h"

static_assert(NR_SYSCTLS == UCOUNT_COUNTS + NR_MQ_SYSCTLS, "all of them");

/* Arrays of arrays: pointers would be relocated at every start of a program. */
static const char ucount_names[UCOUNT_COUNTS][20] = {
	[UCOUNT_USER_NAMESPACES] = "user_namespaces",
	[UCOUNT_PID_NAMESPACES] = "pid_namespaces",
	[UCOUNT_UTS_NAMESPACES] = "uts_namespaces",
	[UCOUNT_IPC_NAMESPACES] = "ipc_namespaces",
	[UCOUNT_NET_NAMESPACES] = "net_namespaces",
	[UCOUNT_MNT_NAMESPACES] = "mnt_namespaces",
	[UCOUNT_CGROUP_NAMESPACES] = "cgroup_namespaces",
	[UCOUNT_TIME_NAMESPACES] = "time_namespaces",
	[UCOUNT_INOTIFY_INSTANCES] = "inotify_instances",
	[UCOUNT_INOTIFY_WATCHES] = "inotify_watches",
	[UCOUNT_FANOTIFY_GROUPS] = "fanotify_groups",
	[UCOUNT_FANOTIFY_MARKS] = "fanotify_marks",
};

static const struct {
	char name[16];
	int32_t initial, min, max;
} mq_sysctls[NR_MQ_SYSCTLS] = {
	[MQ_QUEUES_MAX] = { "queues_max", 256, INT32_MIN, INT32_MAX },
	[MQ_MSG_MAX] = { "msg_max", 10, 1, MQ_HARD_MSGMAX },
	[MQ_MSGSIZE_MAX] = { "msgsize_max", 8192, 128, MQ_HARD_MSGSIZEMAX },
	[MQ_MSG_DEFAULT] = { "msg_default", 10, 1, MQ_HARD_MSGMAX },
	[MQ_MSGSIZE_DEFAULT] = { "msgsize_default", 8192, 128, MQ_HARD_MSGSIZEMAX },
};

const char *ucount_name(unsigned int type)
{
	return type < UCOUNT_COUNTS ? ucount_names[type] : NULL;
}

int sysctl_find(const char *name)
{
	if (!strncmp(name, "user/max_", 9))
		for (int i = 0; i < UCOUNT_COUNTS; i++)
			if (!strcmp(name + 9, ucount_names[i]))
				return i;
	if (!strncmp(name, "fs/mqueue/", 10))
		for (int i = 0; i < NR_MQ_SYSCTLS; i++)
			if (!strcmp(name + 10, mq_sysctls[i].name))
				return UCOUNT_COUNTS + i;
	return -1;
}

void sysctl_path(char *buf, unsigned int id)
{
	if (id < UCOUNT_COUNTS)
		snprintf(buf, 64, "user/max_%s", ucount_names[id]);
	else
		snprintf(buf, 64, "fs/mqueue/%s", mq_sysctls[id - UCOUNT_COUNTS].name);
}

/* The host's own; INT32_MAX if it has no such file. */
static int32_t host_value(const char *path)
{
	char text[24];
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	long n, v;

	if (fd < 0)
		return INT32_MAX;
	n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	v = strtol(text, NULL, 10);
	return v < 0 || v > INT32_MAX ? INT32_MAX : v;
}

/*
 * As the host has it. That it allows no user namespaces does not matter to those that it never sees:
 * then the value is the one that kernels start with.
 */
static int32_t host_ucount_max(enum ucount_type type)
{
	char path[64] = "/proc/sys/";
	int32_t v;

	sysctl_path(path + strlen(path), type);
	v = host_value(path);
	if (!v && (type == UCOUNT_USER_NAMESPACES || type == UCOUNT_IPC_NAMESPACES))
		v = host_value("/proc/sys/kernel/threads-max") / 2;
	return v;
}

int32_t ucount_max(uint32_t n, enum ucount_type type)
{
	struct user_namespace *ns = user_ns_of(n);
	uint32_t v = ns ? READ_ONCE(ns->ucount_max[type]) : 0;

	return v ? (int32_t)(v - 1) : host_ucount_max(type);
}

/* Of the ipc namespace; a task's number is good as long as the task is there. */
static struct ns_common *ipc_ns(const struct task_struct *t)
{
	return table_slot(TABLE_NS, READ_ONCE(t->ns[NS_IPC]));
}

int32_t mq_sysctl_value(const struct task_struct *t, enum mq_sysctl which)
{
	struct ns_common *ns = ipc_ns(t);
	uint32_t v = ns ? READ_ONCE(ns->mq[which]) : 0;

	return v ? (int32_t)(v - 1) : mq_sysctls[which].initial;
}

int32_t sysctl_read(const struct task_struct *t, unsigned int id)
{
	return id < UCOUNT_COUNTS ? ucount_max(t->cred.user_ns, id) :
				    mq_sysctl_value(t, id - UCOUNT_COUNTS);
}

bool sysctl_may_write(const struct task_struct *t, unsigned int id)
{
	struct ns_common *ns = ipc_ns(t);
	uint32_t root;

	if (id < UCOUNT_COUNTS)
		return ns_capable(t, t->cred.user_ns, CAP_SYS_RESOURCE);
	root = make_kuid(ns ? ns->user_ns : INIT_USER_NS, 0);
	return t->cred.euid == (root == INVALID_ID ? 0 : root);
}

int sysctl_set(struct task_struct *t, unsigned int id, int64_t value)
{
	unsigned int which = id - UCOUNT_COUNTS;

	if (id < UCOUNT_COUNTS) {
		if (value < 0 || value > INT32_MAX)
			return -EINVAL;
		WRITE_ONCE(user_ns_of(t->cred.user_ns)->ucount_max[id], (uint32_t)value + 1);
		return 0;
	}
	if (value < mq_sysctls[which].min || value > mq_sysctls[which].max)
		return -EINVAL;
	WRITE_ONCE(ipc_ns(t)->mq[which], (uint32_t)value + 1);
	return 0;
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

long sysctl_write(struct task_struct *t, unsigned int id, const char *text, size_t n, uint64_t pos)
{
	char copy[32], *end;
	size_t skip = 0, len;
	long value;
	int err;

	/* Writing on behind the number is nothing (kernel.sysctl_writes_strict). */
	if (pos || !n)
		return n;
	while (skip < n && is_space(text[skip]))
		skip++;
	len = n - skip < sizeof(copy) - 1 ? n - skip : sizeof(copy) - 1;
	memcpy(copy, text + skip, len);
	copy[len] = '\0';
	errno = 0;
	if (!len || copy[0] == '+')
		return -EINVAL;
	value = strtol(copy, &end, 0);
	if (end == copy || errno || (*end && !is_space(*end)))
		return -EINVAL;
	err = sysctl_set(t, id, value);
	return err ? err : (long)n;
}
