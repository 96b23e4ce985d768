/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the subcommands share: errors as values, tables of options, worlds found and looked into. */
#ifndef EMU_CMD_CMD_H
#define EMU_CMD_CMD_H

#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <kpemu/refusal.h>
#include <kpemu/world.h>

#define KPEMU_VERSION "0.1"

/* Exit statuses of kpemu itself, as env(1) has them. */
enum {
	CMD_OK = 0,
	CMD_DIFFERS = 1, /* check: counters and objects differ; doctor: run cannot work here */
	CMD_ERROR = 125,
	CMD_CANNOT_EXEC = 126,
	CMD_NOT_FOUND = 127,
};

/* --- errors --- */

/* cmd_error - one line "kpemu: ..." on stderr, control characters escaped. Returns CMD_ERROR. */
int cmd_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* cmd_warn - the same line, for what is not an error. */
void cmd_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* cmd_say - one line on stdout, its control characters escaped. */
void cmd_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* cmd_flush - were all lines on stdout written? CMD_OK or CMD_ERROR. */
int cmd_flush(void);

/* --- options --- */

/* One option. @apply gets the command's own struct; 0, or the exit status after its message. */
struct cmd_option {
	const char *name;
	char letter; /* 0: none */
	const char *arg; /* what the argument is called in --help; NULL: takes none */
	const char *help;
	int (*apply)(void *options, const char *arg);
};

struct cmd {
	const char *name;
	const char *usage; /* what follows the options on the first line of --help */
	const char *summary;
	const struct cmd_option *options; /* up to one without a name; --help comes by itself */
	bool takes_program; /* operands are PROG ARGS; else there are none */
	int (*run)(const struct cmd *cmd, int argc, char **argv);
	const struct cmd *const *parts; /* what its first word may be, up to NULL; listed in --help */
};

extern const struct cmd cmd_run, cmd_stat, cmd_ps, cmd_check, cmd_gc, cmd_doctor, cmd_sim;

#define CMD_HELP_SHOWN (-1)

/*
 * cmd_parse - apply the options of @cmd to @options, up to the first operand.
 * Returns 0 with *@first = index of the first operand, CMD_ERROR after a message, or
 * CMD_HELP_SHOWN.
 */
int cmd_parse(const struct cmd *cmd, int argc, char **argv, void *options, int *first);

/* cmd_help - what --help of @cmd prints. */
void cmd_help(const struct cmd *cmd);

/* Options of the commands that look into one world. */
struct cmd_look {
	const char *world_name; /* NULL: the one that the command runs in, or the only one */
	bool json, threads;
};
int cmd_look_world(void *options, const char *arg);
int cmd_look_json(void *options, const char *arg);
int cmd_look_threads(void *options, const char *arg);
#define CMD_OPTION_WORLD "world", 0, "NAME", "the world to look at", cmd_look_world
#define CMD_OPTION_JSON  "json", 0, NULL, "print JSON", cmd_look_json

/* cmd_number - an unsigned decimal of at most @max into *@out; false for anything else. */
bool cmd_number(const char *s, uint64_t max, uint64_t *out);

/* --- worlds --- */

/*
 * cmd_uid, cmd_pid - the caller's real effective uid and pid: by raw system call, because the
 * command may itself run inside a world, where the library answers for the kernel.
 */
unsigned int cmd_uid(void);
int cmd_pid(void);

/*
 * cmd_file_open - open a file that may be a world of cmd_uid(), without waiting for anything.
 * A descriptor, -EPERM (another user's), -ENOTSUP (not a regular file) or another -errno.
 */
int cmd_file_open(const char *path);

/* cmd_file_error - what -errno of cmd_file_open() and world_map() says about a file. */
const char *cmd_file_error(int err);

/*
 * cmd_file_lock - the exclusive lock of a world's file, waiting out those who only test it.
 * 0, or -EWOULDBLOCK: somebody holds it, as a living launcher does.
 */
int cmd_file_lock(int fd);

/* What follows "kpemu.UID." in the names in a directory that begin so; sorted. */
struct cmd_names {
	char **name;
	size_t n;
};
int cmd_names_read(struct cmd_names *names, const char *path, unsigned int uid);
void cmd_names_free(struct cmd_names *names);

/* cmd_guard - from now on a world that loses its pages ends the command with one line. */
void cmd_guard(const char *name);

/* cmd_attach - map the world open at @fd, guarded, and become an observer of it. 0 or -errno. */
int cmd_attach(int fd, const char *name);

/* cmd_catch_damage - when the guard strikes, return to *@env instead; NULL: end again. */
void cmd_catch_damage(sigjmp_buf *env);
void cmd_detach(void);

/* cmd_reap - release the dead and the queues that nobody holds, before anything is shown. */
void cmd_reap(void);

/*
 * cmd_world_peek - is the file open at @fd the world @name? 0 and its launcher's pid, -ENOEXEC,
 * -EPROTO (of another version) or another -errno. Nothing stays mapped.
 */
int cmd_world_peek(int fd, const char *name, int *launcher);

/*
 * cmd_world_here - the world that this command runs in, as KPEMU_WORLD says: open, its name in
 * @name of WORLD_NAME_MAX + 1 bytes. A descriptor, or -errno: the variable is missing or stale.
 */
int cmd_world_here(char *name);

/*
 * cmd_world_enter - attach to the world @name; NULL: the one the command runs in, else the only
 * one. 0 and its file at *@fd, or CMD_ERROR after a message.
 */
int cmd_world_enter(const char *name, int *fd);

/* cmd_gc_quiet - remove the caller's dead worlds, without a word. */
void cmd_gc_quiet(void);

/*
 * cmd_block_signals - around calls that change the world, so that ^C never leaves one half done.
 * The mask found goes to *@old.
 */
void cmd_block_signals(sigset_t *old);

/* --- text --- */

/* cmd_printable - @s (at most @n bytes) into @out of @size bytes, what is not printable as \xHH. */
const char *cmd_printable(char *out, size_t size, const char *s, size_t n);

/* cmd_json_text - a JSON string of at most @n bytes, whatever the bytes are. */
json_t *cmd_json_text(const char *s, size_t n);

/* cmd_json_number - set @key of @v to @n. */
void cmd_json_number(json_t *v, const char *key, int64_t n);

/* cmd_json_print - pretty JSON and a newline on stdout; takes @v. Returns an exit status. */
int cmd_json_print(json_t *v);

/* cmd_wrap - @text and a newline on stdout, no line wider than the terminal (or 80 columns).
 * The first line begins where the caller is, at column @indent, and so do the others. */
void cmd_wrap(unsigned int indent, const char *text);

/* plural - what "1 task" has not and "2 tasks" have. */
static inline const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* cmd_limit_text - a limit, "unlimited" or the number. */
const char *cmd_limit_text(char *buf, size_t size, uint64_t limit);

/* cmd_kb - pages as kB. */
int64_t cmd_kb(int64_t pages);

/* cmd_amount - @v of limit @type in the unit of text and JSON, cmd_unit(): memlock is in kB. */
int64_t cmd_amount(uint32_t type, int64_t v);
const char *cmd_unit(uint32_t type);

/*
 * cmd_refusals_text - what the table of refusals holds, each line begun with @begin: "fork: EAGAIN:
 * nproc limit 5 of uid 1000 reached ...", and one line for the programs that could not be entered.
 */
void cmd_refusals_text(FILE *out, const char *begin);

/* cmd_refusals_json, cmd_uncovered_json - the two kinds in that table, as arrays. */
json_t *cmd_refusals_json(void);
json_t *cmd_uncovered_json(void);

#define for_each_refusal(i, rec) for (uint32_t i = 0; ((rec) = table_slot(TABLE_REFUSAL, i)); i++)

/* slot_live - is the slot, whose first bytes are its slot word, in use and complete? */
static inline bool slot_live(const void *slot)
{
	return slot_state(READ_ONCE(*(const uint64_t *)slot)) == SLOT_LIVE;
}

/* Is the queue's name still there, so that it outlives its users? */
struct mqueue_inode;
bool cmd_queue_named(const struct mqueue_inode *q);

/* --- files --- */

/*
 * cmd_preload_find - path of the preload library beside the executable or in its ../lib.
 * 0, -ENOENT, -ENAMETOOLONG, or -EINVAL: the path has a character that LD_PRELOAD splits at.
 */
int cmd_preload_find(char *buf, size_t size);

/* cmd_explorer_find - kpemu-explore, beside the executable or in its ../libexec. 0 or -ENOENT. */
int cmd_explorer_find(char *buf, size_t size);

/*
 * cmd_program_find - what execvp() would start for @prog, into @buf.
 * 0 or -errno: -ENOENT, -EACCES (found, cannot be executed), -ENAMETOOLONG.
 */
int cmd_program_find(const char *prog, char *buf, size_t size);

/* cmd_sysctl - the number in a file under /proc/sys; @missing if it cannot be read. */
int64_t cmd_sysctl(const char *path, int64_t missing);

#endif
