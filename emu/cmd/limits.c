/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --rlimit: four limits go to the model, all others to the kernel. */
#include <string.h>

#include "emu/cmd/cmd.h"
#include "emu/cmd/run.h"

/* As in prlimit(1). */
static const struct limit_name {
	const char *name;
	int resource;
} limit_names[] = {
	{ "as", RLIMIT_AS },
	{ "core", RLIMIT_CORE },
	{ "cpu", RLIMIT_CPU },
	{ "data", RLIMIT_DATA },
	{ "fsize", RLIMIT_FSIZE },
	{ "locks", RLIMIT_LOCKS },
	{ "memlock", RLIMIT_MEMLOCK },
	{ "msgqueue", RLIMIT_MSGQUEUE },
	{ "nice", RLIMIT_NICE },
	{ "nofile", RLIMIT_NOFILE },
	{ "nproc", RLIMIT_NPROC },
	{ "rss", RLIMIT_RSS },
	{ "rtprio", RLIMIT_RTPRIO },
	{ "rttime", RLIMIT_RTTIME },
	{ "sigpending", RLIMIT_SIGPENDING },
	{ "stack", RLIMIT_STACK },
};
#define NR_LIMITS (sizeof(limit_names) / sizeof(*limit_names))

const char *run_limit_name(int resource)
{
	for (size_t i = 0; i < NR_LIMITS; i++)
		if (limit_names[i].resource == resource)
			return limit_names[i].name;
	return "?";
}

/* The limit that @arg begins with, up to '='; NULL after a message. */
static const struct limit_name *find_limit(const char *arg)
{
	char valid[160] = "";
	size_t len = strcspn(arg, "=");

	for (size_t i = 0; i < NR_LIMITS; i++) {
		if (strlen(limit_names[i].name) == len && !strncmp(arg, limit_names[i].name, len))
			return &limit_names[i];
		strcat(valid, i ? ", " : "");
		strcat(valid, limit_names[i].name);
	}
	cmd_error("--rlimit %s: unknown limit: it is one of %s", arg, valid);
	return NULL;
}

/* "unlimited" or a number that does not mean it. */
static bool parse_value(const char *s, uint64_t *value)
{
	*value = RLIM_INF;
	return !strcmp(s, "unlimited") || cmd_number(s, RLIM_INF - 1, value);
}

static int parse_pair(const char *arg, const char *text, struct rlim *r)
{
	char soft[32];
	size_t len = strcspn(text, ":");
	const char *hard = text[len] ? text + len + 1 : soft;

	snprintf(soft, sizeof(soft), "%.*s", (int)len, text);
	if (len >= sizeof(soft) || !parse_value(soft, &r->cur) || !parse_value(hard, &r->max))
		return cmd_error("--rlimit %s: SOFT and HARD are numbers below 2^64 - 1 or "
				 "'unlimited'",
				 arg);
	if (r->cur > r->max)
		return cmd_error("--rlimit %s: the soft limit is above the hard one", arg);
	return 0;
}

int run_limit_option(struct run_options *options, const char *arg)
{
	const struct limit_name *limit = find_limit(arg);
	const char *text = strchr(arg, '=');
	struct rlim r;
	int type, ret;

	if (!limit)
		return CMD_ERROR;
	if (!text)
		return cmd_error("--rlimit %s: a value is missing: NAME=SOFT[:HARD]", arg);
	ret = parse_pair(arg, text + 1, &r);
	if (ret)
		return ret;
	type = rlimit_type_of(limit->resource);
	if (type >= 0) {
		options->set_rlim[type] = true;
		options->rlim[type] = r;
	} else {
		options->real[limit->resource] =
			(struct real_limit){ true, { .rlim_cur = r.cur, .rlim_max = r.max } };
	}
	return 0;
}

void run_limit_defaults(struct run_options *options)
{
	for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
		int type = rlimit_type_of(resource);
		struct rlimit own;

		if (type < 0 || options->set_rlim[type])
			continue;
		getrlimit(resource, &own);
		options->rlim[type] = (struct rlim){ own.rlim_cur, own.rlim_max };
	}
}
