/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What kind of program a file is, and the environment that exec hands to it. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <kpemu/exec.h>
#include <kpemu/sched.h>
#include <kpemu/world.h>

#include "tests/unit/unit_world.h"

#define LIBRARY "/opt/kpemu/libkpemu-preload.so"

static char dir[] = "/tmp/kpemu-unit-XXXXXX";

static void enter_world(void)
{
	unit_world();
	world->uid = 1000;
	strcpy(world->name, "test");
	strcpy(world->preload_path, LIBRARY);
	current = task_adopt(NULL, getpid(), getpid());
	cr_assert_not_null(current);
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chdir(dir), 0);
}

static void leave_world(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	cr_expect_eq(system(command), 0);
}

TestSuite(exec, .init = enter_world, .fini = leave_world, .timeout = 30);

static void write_file(const char *name, const void *data, size_t n)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	cr_assert_geq(fd, 0, "%s", name);
	cr_assert_eq(write(fd, data, n), (ssize_t)n);
	close(fd);
}

static enum exec_kind kind_of(const char *path)
{
	return exec_kind(AT_FDCWD, path);
}

static enum exec_kind kind_of_text(const char *text, size_t n)
{
	write_file("text", text, n);
	return kind_of("./text");
}

/* A 64-bit x86 ELF file with room for 12 program headers; none of them set. */
struct elf_file {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[12];
	char interp[64];
};

static struct elf_file elf_file(void)
{
	struct elf_file f = {
		.eh = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT },
			.e_type = ET_EXEC,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phoff = offsetof(struct elf_file, ph),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 12,
		},
	};

	for (int i = 0; i < 12; i++)
		f.ph[i].p_type = PT_LOAD;
	return f;
}

static void set_interp(struct elf_file *f, int i, const char *interp)
{
	strcpy(f->interp, interp);
	f->ph[i].p_type = PT_INTERP;
	f->ph[i].p_offset = offsetof(struct elf_file, interp);
	f->ph[i].p_filesz = strlen(interp) + 1;
}

static enum exec_kind kind_of_elf(const struct elf_file *f)
{
	write_file("elf", f, sizeof(*f));
	return kind_of("./elf");
}

Test(exec, kind_of_real_programs)
{
	int fd = open("/bin/true", O_RDONLY | O_CLOEXEC), path_fd = open("/bin/true", O_PATH);
	int dir_fd = open("/bin", O_RDONLY | O_DIRECTORY);

	cr_expect_eq(kind_of("/bin/true"), EXEC_ENTERED);
	cr_expect_eq(kind_of("/proc/self/exe"), EXEC_ENTERED);
	cr_expect_eq(exec_kind(fd, ""), EXEC_ENTERED);
	cr_expect_eq(exec_kind(path_fd, ""), EXEC_ENTERED);
	cr_expect_eq(exec_kind(dir_fd, "true"), EXEC_ENTERED);
	cr_expect_eq(exec_kind(-1, "/bin/true"), EXEC_ENTERED);
	/* The loader run as a program preloads what it is told to. */
	cr_expect_eq(kind_of("/lib64/ld-linux-x86-64.so.2"), EXEC_ENTERED);
}

Test(exec, kind_of_what_is_no_program)
{
	cr_assert_eq(mkfifo("fifo", 0755), 0);
	cr_assert_eq(symlink("loop", "loop"), 0);
	write_file("empty", "", 0);
	cr_expect_eq(kind_of("./missing"), EXEC_UNKNOWN);
	cr_expect_eq(kind_of(""), EXEC_UNKNOWN);
	cr_expect_eq(kind_of(NULL), EXEC_UNKNOWN);
	cr_expect_eq(kind_of("/"), EXEC_UNKNOWN);
	cr_expect_eq(kind_of("/dev/null"), EXEC_UNKNOWN);
	cr_expect_eq(kind_of("./fifo"), EXEC_UNKNOWN);
	cr_expect_eq(kind_of("./loop"), EXEC_UNKNOWN);
	cr_expect_eq(kind_of("./empty"), EXEC_UNKNOWN);
	cr_expect_eq(kind_of_text("#", 1), EXEC_UNKNOWN);
	cr_expect_eq(kind_of_text("echo hello\n", 11), EXEC_UNKNOWN);
	cr_expect_eq(exec_kind(-1, "true"), EXEC_UNKNOWN);
	cr_expect_eq(exec_kind(1000, ""), EXEC_UNKNOWN);
}

Test(exec, kind_leaves_no_descriptor_open)
{
	int before = open("/dev/null", O_RDONLY), after;

	close(before);
	kind_of("/bin/true");
	kind_of_text("#!/bin/sh\n", 10);
	kind_of_text("no program", 10);
	kind_of_text("#! \n", 4);
	after = open("/dev/null", O_RDONLY);
	cr_expect_eq(after, before);
}

Test(exec, kind_of_elf_files)
{
	struct elf_file f = elf_file();

	cr_expect_eq(kind_of_elf(&f), EXEC_STATIC);
	f.eh.e_type = ET_DYN; /* static-pie */
	cr_expect_eq(kind_of_elf(&f), EXEC_STATIC);
	for (int i = 0; i < 12; i++) {
		f = elf_file();
		set_interp(&f, i, "/lib64/ld-linux-x86-64.so.2");
		cr_expect_eq(kind_of_elf(&f), EXEC_ENTERED, "program header %d", i);
		f.eh.e_phnum = i; /* the one with the loader is behind the last */
		cr_expect_eq(kind_of_elf(&f), i ? EXEC_STATIC : EXEC_UNKNOWN);
	}
	set_interp(&f, 0, "/lib/ld-musl-x86_64.so.1");
	f.eh.e_phnum = 12;
	cr_expect_eq(kind_of_elf(&f), EXEC_FOREIGN);
}

Test(exec, kind_of_foreign_elf_files)
{
	struct elf_file f = elf_file();

	set_interp(&f, 1, "/lib/ld-linux.so.2");
	f.eh.e_ident[EI_CLASS] = ELFCLASS32;
	cr_expect_eq(kind_of_elf(&f), EXEC_FOREIGN, "x32");
	f.eh.e_machine = EM_386;
	cr_expect_eq(kind_of_elf(&f), EXEC_FOREIGN);
	f.eh.e_ident[EI_CLASS] = ELFCLASS64;
	f.eh.e_machine = EM_AARCH64;
	cr_expect_eq(kind_of_elf(&f), EXEC_FOREIGN);
	f.eh.e_ident[EI_DATA] = ELFDATA2MSB;
	cr_expect_eq(kind_of_elf(&f), EXEC_FOREIGN);
}

Test(exec, kind_of_broken_elf_files)
{
	struct elf_file good = elf_file(), f;

	set_interp(&good, 11, "/lib64/ld-linux-x86-64.so.2");
	f = good, f.eh.e_type = ET_REL;
	cr_expect_eq(kind_of_elf(&f), EXEC_UNKNOWN);
	f = good, f.eh.e_phentsize = 32;
	cr_expect_eq(kind_of_elf(&f), EXEC_UNKNOWN);
	f = good, f.eh.e_phnum = 0;
	cr_expect_eq(kind_of_elf(&f), EXEC_UNKNOWN);
	f = good, f.eh.e_phnum = 0xffff;
	cr_expect_eq(kind_of_elf(&f), EXEC_UNKNOWN);
	f = good, f.eh.e_phoff = 1 << 20;
	cr_expect_eq(kind_of_elf(&f), EXEC_UNKNOWN);
	f = good, f.eh.e_phoff = UINT64_MAX - 100;
	cr_expect_eq(kind_of_elf(&f), EXEC_UNKNOWN);
	f = good, f.ph[11].p_offset = 1 << 20;
	cr_expect_eq(kind_of_elf(&f), EXEC_UNKNOWN);
	write_file("cut", &good, sizeof(good.eh) + 3 * sizeof(good.ph[0]));
	cr_expect_eq(kind_of("./cut"), EXEC_UNKNOWN);
	write_file("cut", &good, SELFMAG);
	cr_expect_neq(kind_of("./cut"), EXEC_ENTERED);
}

Test(exec, kind_of_scripts)
{
	struct elf_file f = elf_file();
	char line[300];

	write_file("static", &f, sizeof(f));
#define KIND(text) kind_of_text(text, sizeof(text) - 1)
	cr_expect_eq(KIND("#!/bin/sh\nexit\n"), EXEC_ENTERED);
	cr_expect_eq(KIND("#! \t /bin/sh -e \nexit\n"), EXEC_ENTERED);
	cr_expect_eq(KIND("#!/bin/sh\t-e"), EXEC_ENTERED);
	cr_expect_eq(KIND("#!/bin/sh"), EXEC_ENTERED);
	cr_expect_eq(KIND("#!/bin/sh\0junk\n"), EXEC_ENTERED);
	cr_expect_eq(KIND("#!static\n"), EXEC_STATIC);
	cr_expect_eq(KIND("#!./static"), EXEC_STATIC);
	cr_expect_eq(KIND("#!"), EXEC_UNKNOWN);
	cr_expect_eq(KIND("#!\n/bin/sh\n"), EXEC_UNKNOWN);
	cr_expect_eq(KIND("#! \t\n"), EXEC_UNKNOWN);
	cr_expect_eq(KIND("#!/bin/sh\r\n"), EXEC_UNKNOWN);
	cr_expect_eq(KIND("#!/missing\n"), EXEC_UNKNOWN);
	cr_expect_eq(KIND("#!text\n"), EXEC_UNKNOWN); /* itself */
#undef KIND
	/* A name that may not be all in the kernel's 256 bytes is refused, one that just is is not. */
	memset(line, '/', sizeof(line));
	memcpy(line, "#!", 2);
	memcpy(line + 255 - 7, "bin/sh \n", 8);
	cr_expect_eq(kind_of_text(line, 256), EXEC_ENTERED);
	memcpy(line + 256 - 7, "/bin/sh \n", 9);
	cr_expect_eq(kind_of_text(line, 258), EXEC_UNKNOWN);
}

/* Runs it as well: what is not entered for its depth is what the kernel refuses. */
Test(exec, kind_follows_as_many_scripts_as_the_kernel)
{
	char name[16] = "/bin/true", text[32], command[48];

	for (int level = 1; level <= 8; level++) {
		int n = snprintf(text, sizeof(text), "#!%s\n", name), runs;

		snprintf(name, sizeof(name), "./script%d", level);
		write_file(name, text, n);
		snprintf(command, sizeof(command), "%s 2>/dev/null", name);
		runs = !system(command);
		cr_expect_eq(kind_of(name), runs ? EXEC_ENTERED : EXEC_UNKNOWN, "%d levels", level);
	}
}

static void copy_true(const char *name, mode_t mode)
{
	char command[64];

	snprintf(command, sizeof(command), "cp /bin/true %s", name);
	cr_assert_eq(system(command), 0);
	cr_assert_eq(chmod(name, mode), 0);
}

Test(exec, kind_of_set_id_programs)
{
	static const char script[] = "#!./copy\n";

	copy_true("copy", 0755);
	cr_expect_eq(kind_of("./copy"), EXEC_ENTERED);
	copy_true("copy", 04755);
	cr_expect_eq(kind_of("./copy"), EXEC_SETID);
	/* The script's own bits are nothing, those of its interpreter count. */
	cr_expect_eq(kind_of_text(script, sizeof(script) - 1), EXEC_SETID);
	copy_true("copy", 0755);
	cr_expect_eq(kind_of_text(script, sizeof(script) - 1), EXEC_ENTERED);
	cr_assert_eq(chmod("text", 06755), 0);
	cr_expect_eq(kind_of("./text"), EXEC_ENTERED);
	copy_true("copy", 02755);
	cr_expect_eq(kind_of("./copy"), EXEC_SETID);
	copy_true("copy", 02745);
	cr_expect_eq(kind_of("./copy"), EXEC_ENTERED);
}

Test(exec, kind_of_file_with_capabilities)
{
	/* struct vfs_cap_data, version 2: CAP_CHOWN permitted and effective. */
	static const uint32_t caps[5] = { 0x02000001, 1, 0, 0, 0 };

	copy_true("copy", 0755);
	if (setxattr("copy", "security.capability", caps, sizeof(caps), 0)) {
		leave_world(); /* a skip does not */
		cr_skip_test("file capabilities cannot be set here");
	}
	cr_expect_eq(kind_of("./copy"), EXEC_SETID);
}

Test(exec, kind_of_unreadable_program)
{
	copy_true("copy", 0111);
	if (!access("copy", R_OK)) {
		leave_world();
		cr_skip_test("root reads every file");
	}
	cr_expect_eq(kind_of("./copy"), EXEC_UNKNOWN);
}

Test(exec, kind_names)
{
	for (int k = EXEC_ENTERED; k <= EXEC_SETID; k++)
		cr_expect(*exec_kind_name(k) && strcmp(exec_kind_name(k), "?"), "%d", k);
	cr_expect_str_eq(exec_kind_name(99), "?");
}

static struct exec_env scratch;
static char *out[64];

/* exec_env() of @envp into out. */
static int make_env(char **envp, const char *preload)
{
	memset(out, 0xff, sizeof(out));
	return exec_env(&scratch, envp, out, current, preload);
}

static int has_entry(const char *entry)
{
	int n = 0;

	for (int i = 0; out[i]; i++)
		n += !strcmp(out[i], entry);
	return n;
}

static const char *task_entry(void)
{
	static char entry[48];

	snprintf(entry, sizeof(entry), "KPEMU_TASK=%u:%u", table_index(TABLE_TASK, current),
		 slot_gen(current->slot));
	return entry;
}

#define WORLD_ENTRY "KPEMU_WORLD=/dev/shm/kpemu.1000.test"

Test(exec, env_of_nothing)
{
	cr_expect_eq(exec_env_count(NULL), 0);
	cr_expect_eq(exec_env_count((char *[]){ NULL }), 0);
	cr_expect_eq(exec_env_count((char *[]){ "A=1", "B", NULL }), 2);
	cr_expect_eq(make_env(NULL, LIBRARY), 0);
	cr_expect_eq(exec_env_count(out), 3);
	cr_expect_eq(make_env((char *[]){ NULL }, LIBRARY), 0);
	cr_expect_eq(exec_env_count(out), 3);
	cr_expect(has_entry("LD_PRELOAD=" LIBRARY));
	cr_expect(has_entry(WORLD_ENTRY));
	cr_expect(has_entry(task_entry()));
	cr_expect_eq(make_env(NULL, NULL), 0);
	cr_expect_eq(exec_env_count(out), 2);
}

Test(exec, env_keeps_the_programs_own)
{
	char *envp[] = { "A=1",           "",    "LD_PRELOAD_X=1", "B",
			 "KPEMU_TASKS=1", "A=2", "LD_PRELOAD",     NULL };

	cr_expect_eq(make_env(envp, LIBRARY), 0);
	for (int i = 0; envp[i]; i++)
		cr_expect_eq(out[i], envp[i], "%s", envp[i]);
	cr_expect_eq(exec_env_count(out), exec_env_count(envp) + 3);
}

Test(exec, env_that_is_right_is_handed_on)
{
	char *envp[] = {
		"A=1", "LD_PRELOAD=" LIBRARY ":/lib/own.so", WORLD_ENTRY, NULL, "B=1", NULL
	};

	envp[3] = (char *)task_entry();
	cr_expect_eq(make_env(envp, LIBRARY), 0);
	for (int i = 0; i < 6; i++)
		cr_expect_eq(out[i], envp[i], "entry %d", i);
}

Test(exec, env_stale_entries_are_put_right)
{
	char *envp[] = { "KPEMU_TASK=1:2",
			 "KPEMU_WORLD=/dev/shm/kpemu.0.old",
			 "KPEMU_TASK=3:4",
			 "KPEMU_WORLD=",
			 "A=1",
			 NULL };

	cr_expect_eq(make_env(envp, LIBRARY), 0);
	cr_expect_str_eq(out[0], task_entry());
	cr_expect_str_eq(out[1], WORLD_ENTRY);
	cr_expect_eq(out[2], envp[4]);
	cr_expect_str_eq(out[3], "LD_PRELOAD=" LIBRARY);
	cr_expect_null(out[4]);
}

Test(exec, env_preload_lists)
{
	static const struct {
		char *own, *want;
	} cases[] = {
		{ "LD_PRELOAD=", "LD_PRELOAD=" LIBRARY },
		{ "LD_PRELOAD= : ", "LD_PRELOAD=" LIBRARY },
		{ "LD_PRELOAD=a.so", "LD_PRELOAD=" LIBRARY ":a.so" },
		{ "LD_PRELOAD=a.so b.so:c.so", "LD_PRELOAD=" LIBRARY ":a.so:b.so:c.so" },
		{ "LD_PRELOAD=a.so:" LIBRARY, "LD_PRELOAD=a.so:" LIBRARY },
		{ "LD_PRELOAD=a.so " LIBRARY " b.so", "LD_PRELOAD=a.so " LIBRARY " b.so" },
		{ "LD_PRELOAD=" LIBRARY ".1", "LD_PRELOAD=" LIBRARY ":" LIBRARY ".1" },
		{ "LD_PRELOAD=/x" LIBRARY, "LD_PRELOAD=" LIBRARY ":/x" LIBRARY },
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		cr_expect_eq(make_env((char *[]){ cases[i].own, NULL }, LIBRARY), 0);
		cr_expect_str_eq(out[0], cases[i].want);
		cr_expect_eq(out[0] == cases[i].own, !strcmp(cases[i].own, cases[i].want));
		cr_expect_eq(exec_env_count(out), 3);
	}
}

/* Where the library is reached by another path, the usual one would not resolve. */
Test(exec, env_preload_by_another_path)
{
	char *envp[] = { "LD_PRELOAD=a.so:" LIBRARY ":b.so", NULL };
	char *again[] = { "LD_PRELOAD=/proc/self/fd/9:a.so:/proc/self/fd/x:/proc/self/fd/", NULL };

	cr_expect_eq(make_env(envp, "/proc/self/fd/9"), 0);
	cr_expect_str_eq(out[0], "LD_PRELOAD=/proc/self/fd/9:a.so:b.so");
	/* A descriptor does not last: the next exec has another one, or the path again. */
	cr_expect_eq(make_env(again, "/proc/self/fd/9"), 0);
	cr_expect_eq(out[0], again[0]);
	cr_expect_eq(make_env(again, "/proc/self/fd/12"), 0);
	cr_expect_str_eq(out[0], "LD_PRELOAD=/proc/self/fd/12:a.so:/proc/self/fd/x:/proc/self/fd/");
	cr_expect_eq(make_env(again, LIBRARY), 0);
	cr_expect_str_eq(out[0], "LD_PRELOAD=" LIBRARY ":a.so:/proc/self/fd/x:/proc/self/fd/");
}

Test(exec, env_without_our_library)
{
	static const struct {
		char *own, *want;
	} cases[] = {
		{ "LD_PRELOAD=" LIBRARY, NULL },
		{ "LD_PRELOAD=" LIBRARY ":a.so", "LD_PRELOAD=a.so" },
		{ "LD_PRELOAD=a.so b.so", "LD_PRELOAD=a.so b.so" },
		{ "LD_PRELOAD=", "LD_PRELOAD=" },
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		cr_expect_eq(make_env((char *[]){ cases[i].own, "A=1", NULL }, NULL), 0);
		if (cases[i].want)
			cr_expect_str_eq(out[0], cases[i].want);
		else
			cr_expect_str_eq(out[0], "A=1");
		cr_expect_eq(exec_env_count(out), cases[i].want ? 4 : 3);
	}
}

/* ld.so obeys the last entry, getenv(3) finds the first: both see what they would have seen. */
Test(exec, env_several_preload_entries)
{
	char *envp[] = {
		"LD_PRELOAD=a.so", "A=1", "LD_PRELOAD=b.so", "LD_PRELOAD=c.so", "B=1", NULL
	};
	char *emptied[] = { "LD_PRELOAD=a.so", "LD_PRELOAD=" LIBRARY, NULL };

	cr_expect_eq(make_env(envp, LIBRARY), 0);
	for (int i = 0; i < 5; i++)
		if (i != 3)
			cr_expect_eq(out[i], envp[i]);
	cr_expect_str_eq(out[3], "LD_PRELOAD=" LIBRARY ":c.so");
	/* Dropping the last would bring the one before it into force. */
	cr_expect_eq(make_env(emptied, NULL), 0);
	cr_expect_eq(out[0], emptied[0]);
	cr_expect_str_eq(out[1], "LD_PRELOAD=");
}

/* The order of the entries is ld.so's own doing: ask it. */
Test(exec, env_last_preload_entry_is_the_one_in_force)
{
	char *envp[] = { "LD_PRELOAD=/missing-1.so", "LD_PRELOAD=/missing-2.so", NULL };
	char text[1024] = "";
	int fds[2], status;
	pid_t pid;

	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], 2);
		execve("/bin/true", (char *[]){ "true", NULL }, envp);
		_exit(1);
	}
	close(fds[1]);
	cr_assert_geq(read(fds[0], text, sizeof(text) - 1), 0);
	waitpid(pid, &status, 0);
	cr_expect_eq(status, 0);
	cr_expect(strstr(text, "missing-2") && !strstr(text, "missing-1"), "%s", text);
}

Test(exec, env_too_long)
{
	char entry[1200] = "LD_PRELOAD=", *envp[] = { entry, NULL };
	size_t key = strlen(entry), room = sizeof(scratch.preload) - 1 - key - strlen(LIBRARY ":");

	memset(entry + key, 'x', room);
	cr_expect_eq(make_env(envp, LIBRARY), 0);
	cr_expect_eq(strlen(out[0]), sizeof(scratch.preload) - 1);
	entry[key + room] = 'x';
	cr_expect_eq(make_env(envp, LIBRARY), -E2BIG);
	/* What needs no copy has no bound. */
	cr_expect_eq(make_env(envp, NULL), 0);
	cr_expect_eq(out[0], entry);
	memset(entry + key, 'x', sizeof(entry) - key - 1);
	memcpy(entry + key, LIBRARY ":", strlen(LIBRARY ":"));
	cr_expect_eq(make_env(envp, LIBRARY), 0);
	cr_expect_eq(out[0], entry);
}

Test(exec, parse_task_takes_what_env_makes)
{
	uint32_t idx = 77, gen = 77;

	cr_assert_eq(make_env(NULL, NULL), 0);
	cr_expect(exec_parse_task(strchr(scratch.task, '=') + 1, &idx, &gen));
	cr_expect_eq(idx, table_index(TABLE_TASK, current));
	cr_expect_eq(gen, slot_gen(current->slot));
	cr_expect(exec_parse_task("0:0", &idx, &gen) && idx == 0 && gen == 0);
	cr_expect(exec_parse_task("16383:16777215", &idx, &gen));
	cr_expect(idx == 16383 && gen == 0xffffff);
}

Test(exec, parse_task_refuses_anything_else)
{
	static const char *const bad[] = { "",
					   ":",
					   "1",
					   "1:",
					   ":1",
					   "1:2:",
					   "1:2:3",
					   "1:2 ",
					   " 1:2",
					   "1: 2",
					   "+1:2",
					   "-1:2",
					   "1:-2",
					   "01:2",
					   "1:02",
					   "00:1",
					   "0x1:2",
					   "1:2x",
					   "a:b",
					   "16384:1",
					   "1:16777216",
					   "4294967297:1",
					   "1:4294967297",
					   "18446744073709551617:1",
					   "1;2",
					   "1:2\n" };
	uint32_t idx = 77, gen = 78;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_expect_not(exec_parse_task(bad[i], &idx, &gen), "\"%s\"", bad[i]);
	cr_expect(idx == 77 && gen == 78);
}
