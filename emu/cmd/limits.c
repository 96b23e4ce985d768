/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --rlimit: four limits go to the model, all others to the kernel. */
#include <string.h>

#include "emu/cmd/cmd.h"
#include "emu/cmd/run.h"

/* As in prlimit(1). */
static const struct limit_name {
	const char *name;
	int resource;
	const char *unit;
} limit_names[] = {
	{ "as", RLIMIT_AS, "bytes" },
	{ "core", RLIMIT_CORE, "bytes" },
	{ "cpu", RLIMIT_CPU, "seconds" },
	{ "data", RLIMIT_DATA, "bytes" },
	{ "fsize", RLIMIT_FSIZE, "bytes" },
	{ "locks", RLIMIT_LOCKS, "locks" },
	{ "memlock", RLIMIT_MEMLOCK, "bytes" },
	{ "msgqueue", RLIMIT_MSGQUEUE, "bytes" },
	{ "nice", RLIMIT_NICE, "levels" },
	{ "nofile", RLIMIT_NOFILE, "descriptors" },
	{ "nproc", RLIMIT_NPROC, "tasks" },
	{ "rss", RLIMIT_RSS, "bytes" },
	{ "rtprio", RLIMIT_RTPRIO, "levels" },
	{ "rttime", RLIMIT_RTTIME, "microseconds" },
	{ "sigpending", RLIMIT_SIGPENDING, "signals" },
	{ "stack", RLIMIT_STACK, "bytes" },
};
#define NR_LIMITS (sizeof(limit_names) / sizeof(*limit_names))

static const char *limit_name(int resource)
{
	for (size_t i = 0; i < NR_LIMITS; i++)
		if (limit_names[i].resource == resource)
			return limit_names[i].name;
	return "?";
}

/* As --rlimit has it: SOFT, or SOFT:HARD. */
static void limit_text(char *buf, size_t size, const struct rlimit *rl)
{
	size_t used = strlen(cmd_limit_text(buf, size, rl->rlim_cur));

	if (rl->rlim_max == rl->rlim_cur)
		return;
	buf[used++] = ':';
	cmd_limit_text(buf + used, size - used, rl->rlim_max);
}

int run_limit_refused(const struct run_options *options, int resource, int err)
{
	const struct rlimit *want = &options->real[resource].value;
	char value[64], most[64], why[100] = "";
	struct rlimit own;

	limit_text(value, sizeof(value), want);
	if (!getrlimit(resource, &own) && own.rlim_max < want->rlim_max)
		snprintf(why, sizeof(why), ": the host's hard limit is %s",
			 cmd_limit_text(most, sizeof(most), own.rlim_max));
	return cmd_error("--rlimit %s: cannot be set to %s: %s%s", limit_name(resource), value,
			 strerror(err), why);
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

/* "unlimited" or a number that does not mean it, in the @len bytes at @s. */
static bool parse_value(const char *s, size_t len, uint64_t *value)
{
	char text[32];

	*value = RLIM_INF;
	if (len >= sizeof(text))
		return false;
	memcpy(text, s, len);
	text[len] = '\0';
	return !strcmp(text, "unlimited") || cmd_number(text, RLIM_INF - 1, value);
}

static int complain_value(const char *arg, const struct limit_name *limit, const char *s,
			  size_t len)
{
	return cmd_error("--rlimit %s: '%.*s' is no limit: it is a number of %s below 2^64 - 1, "
			 "without a suffix, or 'unlimited'",
			 arg, (int)len, s, limit->unit);
}

static int parse_pair(const char *arg, const struct limit_name *limit, struct rlim *r)
{
	const char *soft = strchr(arg, '=') + 1;
	size_t len = strcspn(soft, ":");
	const char *hard = soft[len] ? soft + len + 1 : NULL;

	if (!parse_value(soft, len, &r->cur))
		return complain_value(arg, limit, soft, len);
	r->max = r->cur;
	if (hard && !parse_value(hard, strlen(hard), &r->max))
		return complain_value(arg, limit, hard, strlen(hard));
	if (r->cur > r->max)
		return cmd_error("--rlimit %s: the soft limit is above the hard one", arg);
	return 0;
}

int run_limit_option(struct run_options *options, const char *arg)
{
	const struct limit_name *limit = find_limit(arg);
	struct rlim r;
	int type, ret;

	if (!limit)
		return CMD_ERROR;
	if (!strchr(arg, '='))
		return cmd_error("--rlimit %s: a value is missing: NAME=SOFT[:HARD]", arg);
	ret = parse_pair(arg, limit, &r);
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
