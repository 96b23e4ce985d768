/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A failing interleaving for people: columns per CPU; and for replay: its seed. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/sim/explore/engine.h"

#define LINES_MAX STEPS_MAX
#define TEXT_MAX  120
#define WIDTH_MIN 34 /* of a column */
#define WIDTH     132 /* of all, where that leaves columns wide enough */

static struct line {
	int id;
	const struct seam_site *at;
	char text[TEXT_MAX];
} lines[LINES_MAX];
static unsigned int nr_lines;

void trace_reset(void)
{
	nr_lines = 0;
}

void trace_step(int id, const struct seam_site *at, const char *fmt, ...)
{
	struct line *l = &lines[nr_lines];
	va_list ap;

	if (nr_lines == LINES_MAX)
		return;
	nr_lines++;
	l->id = id;
	l->at = at;
	va_start(ap, fmt);
	vsnprintf(l->text, sizeof(l->text), fmt, ap);
	va_end(ap);
}

static int column_width(void)
{
	int width = WIDTH / (int)eng.threads;

	return width < WIDTH_MIN ? WIDTH_MIN : width > 60 ? 60 : width;
}

static void put(FILE *out, unsigned int number, int id, const char *text)
{
	int width = column_width();

	if (number)
		fprintf(out, "%5u  ", number);
	else
		fprintf(out, "%5s  ", "");
	fprintf(out, "%*s%.*s\n", id * width, "", id + 1 < (int)eng.threads ? width - 1 : TEXT_MAX,
		text);
}

static const char *base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

static void print_header(FILE *out)
{
	fprintf(out, "%5s", "step");
	for (unsigned int id = 0; id < eng.threads; id++) {
		char name[16];

		if (id < eng.cpus)
			snprintf(name, sizeof(name), "CPU %u", id);
		else
			snprintf(name, sizeof(name), "helper %u", id - eng.cpus);
		fprintf(out, "  %-*s", id + 1 < eng.threads ? column_width() - 2 : 0, name);
	}
	fputc('\n', out);
}

void trace_print(FILE *out)
{
	print_header(out);
	for (unsigned int i = 0; i < nr_lines; i++) {
		const struct line *l = &lines[i];
		char where[TEXT_MAX];

		if (l->at->line)
			snprintf(where, sizeof(where), "%s:%d %s", base_name(l->at->file),
				 l->at->line, l->at->func);
		else
			snprintf(where, sizeof(where), "%s", l->at->file);
		put(out, i + 1, l->id, where);
		put(out, 0, l->id, l->text);
	}
	if (eng.verdict == FAILED)
		fprintf(out, "       violated: %s\n", eng.why);
	else
		fprintf(out, "       nothing is violated\n");
}

/* --- seeds --- */

static char letter(int id)
{
	return id < FLUSHER ? 'A' + id : 'a' + id - FLUSHER;
}

void seed_print(FILE *out)
{
	if (!eng.replay_n)
		fputc('0', out);
	for (unsigned int i = 0, n; i < eng.replay_n; i += n) {
		for (n = 1; i + n < eng.replay_n && eng.replay[i + n] == eng.replay[i];)
			n++;
		fputc(letter(eng.replay[i]), out);
		if (n > 1)
			fprintf(out, "%u", n);
	}
}

/* The thread that a letter means; MAIN: none. */
static int id_of(char c)
{
	int id = islower((unsigned char)c) ? c - 'a' : c - 'A';

	if (!isalpha((unsigned char)c) || id >= (int)eng.threads)
		return MAIN;
	return islower((unsigned char)c) ? id + FLUSHER : id;
}

bool seed_parse(const char *text)
{
	eng.replay_n = 0;
	if (!strcmp(text, "0"))
		return true;
	while (*text) {
		int id = id_of(*text++);
		unsigned long n = 1;
		char *end;

		if (id == MAIN)
			return false;
		if (isdigit((unsigned char)*text)) {
			n = strtoul(text, &end, 10);
			text = end;
		}
		if (!n || n > STEPS_MAX - eng.replay_n)
			return false;
		while (n--)
			eng.replay[eng.replay_n++] = id;
	}
	return eng.replay_n > 0;
}
