/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How numbers, names and refusals are shown to people and to programs. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <kpemu/exec.h>
#include <kpemu/mqueue.h>
#include <kpemu/sched.h>

#include "emu/cmd/cmd.h"

#define KB_PER_PAGE     4
#define COLUMNS         80 /* where there is no terminal that knows */
#define COLUMNS_MIN     40
#define COLUMNS_MAX     100 /* longer lines are hard to read */
#define UNCOVERED_SHOWN 10

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

static unsigned int columns(void)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || w.ws_col < COLUMNS_MIN)
		return COLUMNS;
	return w.ws_col < COLUMNS_MAX ? w.ws_col : COLUMNS_MAX;
}

void cmd_wrap(unsigned int indent, const char *text)
{
	size_t room = columns() - indent, used = 0;

	for (size_t len; *text; text += len) {
		text += strspn(text, " ");
		len = strcspn(text, " ");
		if (used && used + 1 + len > room) {
			printf("\n%*s", (int)indent, "");
			used = 0;
		}
		used += printf("%s%.*s", used ? " " : "", (int)len, text);
	}
	putchar('\n');
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

/* The limits in reports: text and JSON have one unit for each. */
static const struct limit_unit {
	const char *one, *many;
	bool shown; /* where a bare number would not say what it counts */
} units[UCOUNT_RLIMIT_COUNTS] = {
	[UCOUNT_RLIMIT_NPROC] = { "task", "tasks", false },
	[UCOUNT_RLIMIT_MSGQUEUE] = { "byte", "bytes", true },
	[UCOUNT_RLIMIT_SIGPENDING] = { "signal", "signals", false },
	[UCOUNT_RLIMIT_MEMLOCK] = { "kB", "kB", true },
};

const char *cmd_unit(uint32_t type)
{
	return type < UCOUNT_RLIMIT_COUNTS ? units[type].many : "unknown";
}

int64_t cmd_amount(uint32_t type, int64_t v)
{
	return type == UCOUNT_RLIMIT_MEMLOCK ? cmd_kb(v) : v;
}

static const char *amount(char *buf, size_t size, uint32_t type, int64_t v)
{
	int64_t n = cmd_amount(type, v);

	if (type < UCOUNT_RLIMIT_COUNTS && units[type].shown)
		snprintf(buf, size, "%" PRId64 " %s", n,
			 n == 1 ? units[type].one : units[type].many);
	else
		snprintf(buf, size, "%" PRId64, n);
	return buf;
}

static const char *type_name(uint32_t type)
{
	return rlimit_name(type);
}

static const char *errno_name(int err)
{
	const char *name = strerrorname_np(err);

	return name ? name : "unknown error";
}

/* Whose limit it was: mlock is counted per address space, SHM_LOCK and all else per record. */
static void print_whose(FILE *out, const struct refusal *r, const char *call)
{
	if (r->type == UCOUNT_RLIMIT_MEMLOCK && strcmp(call, "shmctl"))
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

	fprintf(out, ", %" PRId64 " time%s", n, plural(n));
}

/* An entry of the table that is a program, not a refusal? */
static bool is_uncovered(const struct refusal_record *rec)
{
	return !rec->first.err;
}

static void print_refusal(FILE *out, const struct refusal_record *rec)
{
	const struct refusal *r = &rec->first;
	char call[100], comm[80], limit[40], use[40], asked[40];

	cmd_printable(call, sizeof(call), rec->call, sizeof(rec->call));
	cmd_printable(comm, sizeof(comm), rec->comm, sizeof(rec->comm));
	fprintf(out, "%s: %s: %s limit %s ", call, errno_name(r->err), type_name(r->type),
		amount(limit, sizeof(limit), r->type, r->limit));
	print_whose(out, r, call);
	fprintf(out, " reached (%s in use, %s asked)", amount(use, sizeof(use), r->type, r->use),
		amount(asked, sizeof(asked), r->type, r->asked));
	print_times(out, rec);
	fprintf(out, ", first by %s[%d]", comm, r->pid);
}

/* Why, in full: the record has room for the beginning only. */
static const char *uncovered_why(char *buf, size_t size, const struct refusal_record *rec)
{
	for (int kind = EXEC_STATIC; kind <= EXEC_SETID; kind++)
		if (!strncmp(rec->call, exec_kind_name(kind), sizeof(rec->call) - 1))
			return exec_kind_name(kind);
	return cmd_printable(buf, size, rec->call, sizeof(rec->call));
}

/* "busybox (static), 2 times"; a name as long as the record holds may have been longer. */
static void print_uncovered(FILE *out, const struct refusal_record *rec)
{
	char why[100], program[80];
	bool cut = strnlen(rec->comm, sizeof(rec->comm)) >= sizeof(rec->comm) - 1;

	fprintf(out, "%s%s (%s)",
		cmd_printable(program, sizeof(program), rec->comm, sizeof(rec->comm)),
		cut ? "..." : "", uncovered_why(why, sizeof(why), rec));
	print_times(out, rec);
}

/* All of them in one line. */
static void print_all_uncovered(FILE *out, const char *begin)
{
	struct refusal_record *rec;
	unsigned int n = 0, shown = 0;

	for_each_refusal(i, rec)
		n += slot_live(rec) && is_uncovered(rec);
	if (!n)
		return;
	fprintf(out, "%s%u program%s could not be entered: ", begin, n, plural(n));
	for_each_refusal(i, rec) {
		if (!slot_live(rec) || !is_uncovered(rec) || shown == UNCOVERED_SHOWN)
			continue;
		if (shown++)
			fputs("; ", out);
		print_uncovered(out, rec);
	}
	if (n > shown)
		fprintf(out, "; and %u more", n - shown);
	fputc('\n', out);
}

void cmd_refusals_text(FILE *out, const char *begin)
{
	struct refusal_record *rec;
	uint32_t lost = world->refusals_lost;

	for_each_refusal(i, rec) {
		if (!slot_live(rec) || is_uncovered(rec))
			continue;
		fputs(begin, out);
		print_refusal(out, rec);
		fputc('\n', out);
	}
	print_all_uncovered(out, begin);
	if (lost)
		fprintf(out, "%s%u more refusal%s of further kinds\n", begin, lost, plural(lost));
}

static json_t *refusal_json(const struct refusal_record *rec)
{
	const struct refusal *r = &rec->first;
	json_t *v = json_object();

	json_object_set_new(v, "call", cmd_json_text(rec->call, sizeof(rec->call)));
	json_object_set_new(v, "errno", json_string(errno_name(r->err)));
	json_object_set_new(v, "limit", json_string(type_name(r->type)));
	json_object_set_new(v, "unit", json_string(cmd_unit(r->type)));
	cmd_json_number(v, "level", r->level);
	cmd_json_number(v, "namespace", r->ns);
	cmd_json_number(v, "uid", r->uid);
	cmd_json_number(v, "use", cmd_amount(r->type, r->use));
	cmd_json_number(v, "limit_value", cmd_amount(r->type, r->limit));
	cmd_json_number(v, "asked", cmd_amount(r->type, r->asked));
	cmd_json_number(v, "count", atomic64_read(&rec->count));
	cmd_json_number(v, "first_pid", r->pid);
	json_object_set_new(v, "first_comm", cmd_json_text(rec->comm, sizeof(rec->comm)));
	return v;
}

static json_t *uncovered_json(const struct refusal_record *rec)
{
	json_t *v = json_object();
	char buf[100];
	const char *why = uncovered_why(buf, sizeof(buf), rec);

	json_object_set_new(v, "program", cmd_json_text(rec->comm, sizeof(rec->comm)));
	json_object_set_new(v, "why", cmd_json_text(why, strlen(why)));
	cmd_json_number(v, "count", atomic64_read(&rec->count));
	return v;
}

json_t *cmd_refusals_json(void)
{
	json_t *list = json_array();
	struct refusal_record *rec;

	for_each_refusal(i, rec)
		if (slot_live(rec) && !is_uncovered(rec))
			json_array_append_new(list, refusal_json(rec));
	return list;
}

json_t *cmd_uncovered_json(void)
{
	json_t *list = json_array();
	struct refusal_record *rec;

	for_each_refusal(i, rec)
		if (slot_live(rec) && is_uncovered(rec))
			json_array_append_new(list, uncovered_json(rec));
	return list;
}
