/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options as tables, and errors as one line and an exit status. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "emu/cmd/cmd.h"

#define OPTIONS_MAX 16
#define HELP_CODE   256 /* val of --help; those of the table's options follow */
#define HELP_LETTER 'h'

/* One write to stderr, so that lines of several processes do not mix. */
static void print_line(FILE *out, const char *begin, const char *fmt, va_list ap)
{
	char text[1024], line[4096];

	vsnprintf(text, sizeof(text), fmt, ap);
	fprintf(out, "%s%s\n", begin, cmd_printable(line, sizeof(line), text, sizeof(text)));
}

void cmd_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(stdout, "", fmt, ap);
	va_end(ap);
}

int cmd_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(stderr, "kpemu: ", fmt, ap);
	va_end(ap);
	return CMD_ERROR;
}

void cmd_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(stderr, "kpemu: ", fmt, ap);
	va_end(ap);
}

int cmd_flush(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return CMD_OK;
	return cmd_error("standard output: %s", strerror(errno));
}

/* One line of --help. */
static void print_option(const char *left, const char *help)
{
	printf("  %-28s ", left);
	cmd_wrap(31, help);
}

void cmd_help(const struct cmd *cmd)
{
	char left[40];

	printf("usage: kpemu %s [options]%s%s\n%s\n\n", cmd->name, *cmd->usage ? " " : "",
	       cmd->usage, cmd->summary);
	for (const struct cmd *const *part = cmd->parts; part && *part; part++)
		print_option((*part)->name, (*part)->summary);
	for (const struct cmd_option *o = cmd->options; o->name; o++) {
		char letter[8] = "";

		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		print_option(left, o->help);
	}
	print_option("-h, --help", "print this");
}

/* The tables of getopt_long(), made of ours. A code is the index of the option + HELP_CODE + 1. */
struct getopt_tables {
	struct option longs[OPTIONS_MAX + 2];
	char shorts[2 * OPTIONS_MAX + 4];
};

static void make_tables(const struct cmd *cmd, struct getopt_tables *t)
{
	char *s = t->shorts;
	int n = 0;

	/* '+': what follows the first operand is the program's; ':': we say what is wrong. */
	*s++ = '+';
	*s++ = ':';
	*s++ = HELP_LETTER;
	for (const struct cmd_option *o = cmd->options; o->name && n < OPTIONS_MAX; o++, n++) {
		t->longs[n] = (struct option){ o->name, o->arg ? required_argument : no_argument,
					       NULL, HELP_CODE + 1 + n };
		if (o->letter)
			*s++ = o->letter;
		if (o->letter && o->arg)
			*s++ = ':';
	}
	*s = '\0';
	t->longs[n] = (struct option){ "help", no_argument, NULL, HELP_CODE };
	t->longs[n + 1] = (struct option){ 0 };
}

static const struct cmd_option *find_option(const struct cmd *cmd, int code)
{
	for (const struct cmd_option *o = cmd->options; o->name; o++)
		if (code > HELP_CODE ? o == &cmd->options[code - HELP_CODE - 1] : o->letter == code)
			return o;
	return NULL;
}

static int complain_missing(const struct cmd *cmd, const struct cmd_option *o)
{
	return cmd_error("%s: --%s needs an argument, %s", cmd->name, o->name, o->arg);
}

/*
 * What getopt_long() stumbled over: `optopt` is the code of an option that it knows (an argument is
 * missing, or there is one too many), an unknown letter, or 0 for an unknown or ambiguous word.
 */
static int complain(const struct cmd *cmd, int code, char *const *argv)
{
	const struct cmd_option *o = find_option(cmd, optopt);
	const char *word = argv[optind - 1];

	if (code == ':' && o)
		return complain_missing(cmd, o);
	if (optopt >= HELP_CODE)
		return cmd_error("%s: --%s takes no argument", cmd->name, o ? o->name : "help");
	if (optopt)
		return cmd_error("%s: unknown option -%c; kpemu %s --help names them", cmd->name,
				 optopt, cmd->name);
	return cmd_error("%s: unknown option %s; kpemu %s --help names them", cmd->name, word,
			 cmd->name);
}

/* `kpemu stat NAME` is what one would try first. */
static int complain_operand(const struct cmd *cmd, const char *word)
{
	for (const struct cmd_option *o = cmd->options; o->name; o++)
		if (o->apply == cmd_look_world)
			return cmd_error("%s: unexpected operand %s; --world names a world",
					 cmd->name, word);
	return cmd_error("%s: unexpected operand %s", cmd->name, word);
}

int cmd_parse(const struct cmd *cmd, int argc, char **argv, void *options, int *first)
{
	struct getopt_tables tables;
	const struct cmd_option *o;
	int code, ret;

	make_tables(cmd, &tables);
	opterr = 0;
	optind = 1;
	while ((code = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1) {
		if (code == HELP_CODE || code == HELP_LETTER) {
			cmd_help(cmd);
			return CMD_HELP_SHOWN;
		}
		if (code == '?' || code == ':')
			return complain(cmd, code, argv);
		o = find_option(cmd, code);
		if (o->arg && !*optarg)
			return complain_missing(cmd, o);
		ret = o->apply(options, optarg);
		if (ret)
			return ret;
	}
	if (!cmd->takes_program && optind < argc)
		return complain_operand(cmd, argv[optind]);
	*first = optind;
	return 0;
}

int cmd_look_world(void *options, const char *arg)
{
	if (!world_name_valid(arg))
		return cmd_error("--world %s: not a name of a world (1 to %d letters, digits, "
				 "'-', '_', inner '.')",
				 arg, WORLD_NAME_MAX);
	((struct cmd_look *)options)->world_name = arg;
	return 0;
}

int cmd_look_json(void *options, const char *arg)
{
	(void)arg;
	((struct cmd_look *)options)->json = true;
	return 0;
}

int cmd_look_threads(void *options, const char *arg)
{
	(void)arg;
	((struct cmd_look *)options)->threads = true;
	return 0;
}

bool cmd_number(const char *s, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	char *end;

	/* strtoull() would take blanks and signs. */
	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || v > max)
		return false;
	*out = v;
	return true;
}
