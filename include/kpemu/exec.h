/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an exec must know and hand over: can the new program be entered, and how does it know. */
#ifndef KPEMU_EXEC_H
#define KPEMU_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task_struct;

enum exec_kind {
	EXEC_ENTERED, /* dynamic, 64-bit, not set-id: the preload library will run in it */
	EXEC_UNKNOWN, /* cannot be read or does not exist: the kernel will tell */
	EXEC_STATIC, /* no dynamic loader */
	EXEC_FOREIGN, /* another ELF class or machine, or musl, where a library for glibc is fatal */
	EXEC_SETID, /* set-user-ID, set-group-ID or file capabilities */
};

/*
 * exec_kind - look at the program that execve(@path) from @dirfd would start, through as many
 * levels of "#!" as the kernel follows. An empty @path is the file open at @dirfd (fexecve).
 *
 * The mode bits alone say set-id: nosuid mounts and no_new_privs are not looked at. The dynamic
 * loader run as a program is EXEC_ENTERED: it obeys LD_PRELOAD. Opens, reads and closes; no
 * allocation; async-signal-safe.
 */
enum exec_kind exec_kind(int dirfd, const char *path);

/* exec_kind_name - "static", "set-user-ID or privileged" and so on, after "is": for warnings. */
const char *exec_kind_name(enum exec_kind kind);

/* Scratch for exec_env(): lives on the caller's stack until the exec. */
struct exec_env {
	char preload[1024];
	char world[128];
	char task[48];
};
#define EXEC_ENV_EXTRA 4 /* entries that exec_env() may add to the program's, with the final NULL */

/* exec_env_count - entries of @envp without the NULL; 0 if @envp is NULL, as for execve(2). */
size_t exec_env_count(char *const *envp);

/*
 * exec_env - the environment that task @t hands to a new program: @envp with LD_PRELOAD (ours
 * first, the program's own kept), KPEMU_WORLD and KPEMU_TASK put right. @out has room for
 * exec_env_count(envp) + EXEC_ENV_EXTRA pointers. @preload: path of the library as the new program
 * will find it; NULL leaves ours out (a program that cannot load it).
 *
 * Of several LD_PRELOAD entries ld.so obeys the last: that one is put right, the others stay. A
 * list that names @preload anywhere is left as it is; the launcher's path of the library and any
 * /proc/self/fd/N (left from an earlier handover) are taken out where they are not the one asked
 * for. Entries that are right are handed on, not copied.
 *
 * 0, or -E2BIG if the program's own LD_PRELOAD is too long for the scratch (@out is then
 * undefined). Async-signal-safe; stores nothing but @scratch and @out.
 */
int exec_env(struct exec_env *scratch, char *const *envp, char **out, const struct task_struct *t,
	     const char *preload);

/*
 * exec_parse_task - read @value, the text after "KPEMU_TASK=", as exec_env() writes it:
 * INDEX:GENERATION in decimal, no sign, blank or leading zero, both within what a slot can have.
 * False if it is anything else; *@idx and *@gen are then unchanged. Async-signal-safe.
 */
bool exec_parse_task(const char *value, uint32_t *idx, uint32_t *gen);

#endif
