/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How numbers, names and refusals are shown to people and to programs. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>

#include "emu/cmd/cmd.h"

#define KB_PER_PAGE 4

const char *cmd_printable(char *out, size_t size, const char *s, size_t n)
{
	size_t used = 0;

	for (size_t i = 0; i < n && s[i] && used + 5 <= size; i++) {
		unsigned char c = s[i];

		/* Bytes of UTF-8 pass; what could steer a terminal does not. */
		if (c >= 0x20 && c != 0x7f)
			out[used++] = c;
		else
			used += snprintf(out + used, size - used, "\\x%02x", c);
	}
	out[used] = '\0';
	return out;
}

json_t *cmd_json_text(const char *s, size_t n)
{
	json_t *v = json_stringn(s, strnlen(s, n));
	char *ascii;
	size_t used = 0;

	if (v)
		return v;
	/* Not UTF-8: names are bytes, so each odd one is spelled. */
	ascii = malloc(4 * n + 1);
	if (!ascii)
		return NULL;
	for (size_t i = 0; i < n && s[i]; i++) {
		unsigned char c = s[i];

		used += sprintf(ascii + used, c >= 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
	}
	ascii[used] = '\0';
	v = json_string(ascii);
	free(ascii);
	return v;
}

void cmd_json_number(json_t *v, const char *key, int64_t n)
{
	json_object_set_new(v, key, json_integer(n));
}

int cmd_json_print(json_t *v)
{
	int ret = v ? json_dumpf(v, stdout, JSON_INDENT(2)) : -1;

	json_decref(v);
	if (ret)
		return cmd_error("no JSON: %s", v ? strerror(errno) : "out of memory");
	putchar('\n');
	return cmd_flush();
}

const char *cmd_limit_text(char *buf, size_t size, uint64_t limit)
{
	if (limit == RLIM_INF)
		snprintf(buf, size, "unlimited");
	else
		snprintf(buf, size, "%" PRIu64, limit);
	return buf;
}

int64_t cmd_kb(int64_t pages)
{
	int64_t kb;

	return __builtin_mul_overflow(pages, KB_PER_PAGE, &kb) ? INT64_MAX : kb;
}

bool cmd_queue_named(const struct mqueue_inode *q)
{
	return slot_live(q) && !READ_ONCE(q->unlinked);
}

/* An amount of a limit with its unit, where a bare number would not say what it counts. */
static const char *amount(char *buf, size_t size, uint32_t type, int64_t v)
{
	if (type == UCOUNT_RLIMIT_MEMLOCK)
		snprintf(buf, size, "%" PRId64 " kB", cmd_kb(v));
	else
		snprintf(buf, size, "%" PRId64 "%s", v,
			 type == UCOUNT_RLIMIT_MSGQUEUE ? " bytes" : "");
	return buf;
}

static const char *type_name(uint32_t type)
{
	return type < UCOUNT_RLIMIT_COUNTS ? rlimit_name(type) : "unknown";
}

static const char *unit_name(uint32_t type)
{
	static const char *const unit[UCOUNT_RLIMIT_COUNTS] = {
		[UCOUNT_RLIMIT_NPROC] = "tasks",
		[UCOUNT_RLIMIT_MSGQUEUE] = "bytes",
		[UCOUNT_RLIMIT_SIGPENDING] = "signals",
		[UCOUNT_RLIMIT_MEMLOCK] = "pages",
	};

	return type < UCOUNT_RLIMIT_COUNTS ? unit[type] : "unknown";
}

static const char *errno_name(int err)
{
	const char *name = strerrorname_np(err);

	return name ? name : "unknown error";
}

/* Whose limit it was: mlock is counted per address space, everything else per record. */
static void print_whose(FILE *out, const struct refusal *r)
{
	if (r->type == UCOUNT_RLIMIT_MEMLOCK)
		fprintf(out, "of a process ");
	fprintf(out, "of uid %u", r->uid);
	if (r->ns)
		fprintf(out, " in user namespace %u", r->ns);
	if (r->level)
		fprintf(out, ", level %d", r->level);
}

static void print_times(FILE *out, const struct refusal_record *rec)
{
	int64_t n = atomic64_read(&rec->count);

	fprintf(out, ", %" PRId64 " time%s", n, n == 1 ? "" : "s");
}

bool cmd_is_uncovered(const struct refusal_record *rec)
{
	return !rec->first.err;
}

static void print_uncovered(FILE *out, const struct refusal_record *rec)
{
	char why[100], program[80];

	fprintf(out, "%s: %s: cannot be entered, only counted",
		cmd_printable(program, sizeof(program), rec->comm, sizeof(rec->comm)),
		cmd_printable(why, sizeof(why), rec->call, sizeof(rec->call)));
	print_times(out, rec);
}

static void print_refusal(FILE *out, const struct refusal_record *rec)
{
	const struct refusal *r = &rec->first;
	char call[100], comm[80], limit[40], use[40], asked[40];

	cmd_printable(call, sizeof(call), rec->call, sizeof(rec->call));
	cmd_printable(comm, sizeof(comm), rec->comm, sizeof(rec->comm));
	fprintf(out, "%s: %s: %s limit %s ", call, errno_name(r->err), type_name(r->type),
		amount(limit, sizeof(limit), r->type, r->limit));
	print_whose(out, r);
	fprintf(out, " reached (%s in use, %s asked)", amount(use, sizeof(use), r->type, r->use),
		amount(asked, sizeof(asked), r->type, r->asked));
	print_times(out, rec);
	fprintf(out, ", first by %s[%d]", comm, r->pid);
}

void cmd_refusal_text(FILE *out, const struct refusal_record *rec)
{
	if (cmd_is_uncovered(rec))
		print_uncovered(out, rec);
	else
		print_refusal(out, rec);
}

static json_t *refusal_json(const struct refusal_record *rec)
{
	const struct refusal *r = &rec->first;
	json_t *v = json_object();

	json_object_set_new(v, "call", cmd_json_text(rec->call, sizeof(rec->call)));
	json_object_set_new(v, "errno", json_string(errno_name(r->err)));
	json_object_set_new(v, "limit", json_string(type_name(r->type)));
	json_object_set_new(v, "unit", json_string(unit_name(r->type)));
	cmd_json_number(v, "level", r->level);
	cmd_json_number(v, "namespace", r->ns);
	cmd_json_number(v, "uid", r->uid);
	cmd_json_number(v, "use", r->use);
	cmd_json_number(v, "limit_value", r->limit);
	cmd_json_number(v, "asked", r->asked);
	cmd_json_number(v, "count", atomic64_read(&rec->count));
	cmd_json_number(v, "first_pid", r->pid);
	json_object_set_new(v, "first_comm", cmd_json_text(rec->comm, sizeof(rec->comm)));
	return v;
}

static json_t *uncovered_json(const struct refusal_record *rec)
{
	json_t *v = json_object();

	json_object_set_new(v, "program", cmd_json_text(rec->comm, sizeof(rec->comm)));
	json_object_set_new(v, "why", cmd_json_text(rec->call, sizeof(rec->call)));
	cmd_json_number(v, "count", atomic64_read(&rec->count));
	return v;
}

json_t *cmd_refusals_json(void)
{
	json_t *list = json_array();
	struct refusal_record *rec;

	for_each_refusal(i, rec)
		if (slot_live(rec) && !cmd_is_uncovered(rec))
			json_array_append_new(list, refusal_json(rec));
	return list;
}

json_t *cmd_uncovered_json(void)
{
	json_t *list = json_array();
	struct refusal_record *rec;

	for_each_refusal(i, rec)
		if (slot_live(rec) && cmd_is_uncovered(rec))
			json_array_append_new(list, uncovered_json(rec));
	return list;
}
