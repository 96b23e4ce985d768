/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --userns and --sysctl: the namespaces that the program starts in, and what bounds them. */
#include <stdlib.h>
#include <string.h>

#include <kpemu/nsproxy.h>

#include "emu/cmd/cmd.h"
#include "emu/cmd/run.h"

/* sysctl(8) separates by dots, and so do we; the model has the path below /proc/sys. */
static int find_key(const char *key, size_t len)
{
	char path[64];

	if (len >= sizeof(path))
		return -1;
	memcpy(path, key, len);
	path[len] = '\0';
	for (char *c = path; *c; c++)
		if (*c == '.')
			*c = '/';
	return sysctl_find(path);
}

int run_sysctl_option(struct run_options *options, const char *arg)
{
	const char *value = strchr(arg, '=');
	int id = value ? find_key(arg, value - arg) : -1;
	uint64_t v;

	if (!value)
		return cmd_error("--sysctl %s: KEY=VALUE is wanted", arg);
	if (id < 0)
		return cmd_error("--sysctl %s: unknown key; user.max_user_namespaces and the other "
				 "names in /proc/sys/user, fs.mqueue.queues_max and the other names in "
				 "/proc/sys/fs/mqueue are emulated", arg);
	if (!cmd_number(value + 1, INT32_MAX, &v))
		return cmd_error("--sysctl %s: not a number from 0 to %d", arg, INT32_MAX);
	options->set_sysctl[id] = true;
	options->sysctl[id] = v;
	return 0;
}

/* As whoever makes a namespace does: ids are called there what they were called before. */
static void map_all(struct task_struct *t)
{
	struct user_namespace *ns = user_ns_of(t->cred.user_ns);

	for (int gid = 0; gid < 2; gid++) {
		struct uid_gid_map *map = gid ? &ns->gid_map : &ns->uid_map;

		map->extent[0] = (struct uid_gid_extent){ 0, 0, UINT32_MAX };
		smp_store_release(&map->nr_extents, 1);
	}
}

static int nest(struct task_struct *t)
{
	struct refusal why = { 0 };
	int err = enter_new_user_ns(t, &why);

	if (!err)
		map_all(t);
	return err;
}

int run_namespaces(const struct run_options *options, struct task_struct *t)
{
	struct cred was = t->cred;

	for (int id = 0; id < NR_SYSCTLS; id++) {
		char path[64];

		if (!options->set_sysctl[id] || !sysctl_set(t, id, options->sysctl[id]))
			continue;
		sysctl_path(path, id);
		return cmd_error("--sysctl: %lld is out of range for /proc/sys/%s",
				 (long long)options->sysctl[id], path);
	}
	for (uint32_t i = 0; i < options->userns; i++)
		if (nest(t))
			return cmd_error("--userns %u: user.max_user_namespaces leaves no room", options->userns);
	/* Not as the maker, but as somebody who was put there: capabilities are what they were. */
	was.user_ns = t->cred.user_ns;
	t->cred = was;
	return 0;
}
