/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kpemu command: which subcommand, --help, --version. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "emu/cmd/cmd.h"

static const struct cmd *const commands[] = {
	&cmd_run, &cmd_stat, &cmd_ps, &cmd_check, &cmd_gc, &cmd_doctor, &cmd_sim,
};
#define NR_COMMANDS (sizeof(commands) / sizeof(*commands))

static int print_help(void)
{
	puts("usage: kpemu COMMAND [options]\n"
	     "Run programs under emulated Linux accounting, and look at the accounts.\n");
	for (size_t i = 0; i < NR_COMMANDS; i++)
		printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
	puts("\nkpemu COMMAND --help, or kpemu help COMMAND, names the options. Exit status: run: the\n"
	     "program's own; 125: an error of kpemu; 126: the program cannot be executed; 127: it\n"
	     "cannot be found.");
	return cmd_flush();
}

static int print_version(void)
{
	puts("kpemu " KPEMU_VERSION);
	return cmd_flush();
}

static int unknown_command(const char *name)
{
	char names[128] = "";

	for (size_t i = 0; i < NR_COMMANDS; i++) {
		strcat(names, i ? ", " : "");
		strcat(names, commands[i]->name);
	}
	if (!name)
		return cmd_error("which command? It is one of %s, help", names);
	return cmd_error("unknown command %s: it is one of %s", name, names);
}

/*
 * Without this, a world opened under a closed standard error would be written into by the first
 * message. The substitutes close at exec: the program gets what the caller had.
 */
static bool fill_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
			return false;
	return true;
}

static const struct cmd *find_command(const char *name)
{
	for (size_t i = 0; i < NR_COMMANDS; i++)
		if (!strcmp(name, commands[i]->name))
			return commands[i];
	return NULL;
}

/* `kpemu help`, and `kpemu help COMMAND`. */
static int help(const char *name)
{
	const struct cmd *cmd = name ? find_command(name) : NULL;

	if (!name)
		return print_help();
	if (!cmd)
		return unknown_command(name);
	cmd_help(cmd);
	return cmd_flush();
}

static bool is_help(const char *word)
{
	return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int run_command(const struct cmd *cmd, int argc, char **argv)
{
	int ret = cmd->run(cmd, argc, argv);

	return ret == CMD_HELP_SHOWN ? cmd_flush() : ret;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct cmd *cmd;

	if (!fill_standard_fds())
		return CMD_ERROR;
	if (!name)
		return unknown_command(NULL);
	if (is_help(name))
		return help(argv[2]);
	if (!strcmp(name, "--version"))
		return print_version();
	cmd = find_command(name);
	return cmd ? run_command(cmd, argc - 1, argv + 1) : unknown_command(name);
}
