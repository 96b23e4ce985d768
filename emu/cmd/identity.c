/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --uid, --gid, --cap-drop: who the program believes to be when it starts. */
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "emu/cmd/cmd.h"
#include "emu/cmd/run.h"
#include "emu/lib/rawsys.h"

int run_cap_option(struct run_options *options, const char *arg)
{
	char name[32];
	size_t len;
	int cap;

	for (const char *p = arg;; p += len + 1) {
		len = strcspn(p, ",");
		snprintf(name, sizeof(name), "%.*s", (int)len, p);
		cap = len < sizeof(name) ? cap_from_name(name) : -1;
		if (cap < 0)
			return cmd_error("--cap-drop %s: '%.*s' is no capability: see "
					 "capabilities(7)",
					 arg, (int)len, p);
		options->cap_drop |= 1ull << cap;
		if (!p[len])
			return 0;
	}
}

static void own_ids(struct cred *cred)
{
	uid_t uid, euid, suid;
	gid_t gid, egid, sgid;

	getresuid(&uid, &euid, &suid);
	getresgid(&gid, &egid, &sgid);
	cred->uid = uid;
	cred->euid = euid;
	cred->suid = suid;
	cred->gid = gid;
	cred->egid = egid;
	cred->sgid = sgid;
	/* Asked for an impossible id, they say the present one and change nothing. */
	cred->fsuid = setfsuid(-1);
	cred->fsgid = setfsgid(-1);
}

static void own_groups(struct cred *cred)
{
	int n = getgroups(0, NULL);
	gid_t *list = calloc(n > 0 ? n : 1, sizeof(*list));

	n = list ? getgroups(n, list) : 0;
	if (n > CRED_NGROUPS_MAX) {
		cmd_warn("%d supplementary groups: the program gets the first %d", n,
			 CRED_NGROUPS_MAX);
		n = CRED_NGROUPS_MAX;
	}
	for (int i = 0; i < n; i++)
		cred->groups[i] = list[i];
	cred->ngroups = n > 0 ? n : 0;
	free(list);
}

static void own_caps(struct cred *cred)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	sys_call(__NR_capget, &hdr, data);
	cred->cap_effective = data[0].effective | (uint64_t)data[1].effective << 32;
	cred->cap_permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	cred->cap_inheritable = data[0].inheritable | (uint64_t)data[1].inheritable << 32;
	cred->cap_bset = cred->cap_ambient = 0;
	for (int cap = 0; CAP_FULL_SET >> cap & 1; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > 0)
			cred->cap_bset |= 1ull << cap;
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) > 0)
			cred->cap_ambient |= 1ull << cap;
	}
}

static void own_securebits(struct cred *cred)
{
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);

	cred->securebits = bits > 0 ? bits : 0;
}

static void drop_caps(struct cred *cred, uint64_t drop)
{
	cred->cap_effective &= CAP_FULL_SET & ~drop;
	cred->cap_permitted &= CAP_FULL_SET & ~drop;
	cred->cap_inheritable &= CAP_FULL_SET & ~drop;
	cred->cap_ambient &= CAP_FULL_SET & ~drop;
	cred->cap_bset &= CAP_FULL_SET & ~drop;
}

void run_credentials(const struct run_options *options, struct cred *cred)
{
	cred_init(cred, options->set_uid ? options->uid : getuid(), getgid());
	if (!options->set_uid) {
		own_ids(cred);
		own_groups(cred);
		own_caps(cred);
		own_securebits(cred);
	}
	if (options->set_gid)
		cred->gid = cred->egid = cred->sgid = cred->fsgid = options->gid;
	drop_caps(cred, options->cap_drop);
}
