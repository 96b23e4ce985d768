/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Children end unseen, again and again; between the rounds somebody else lets the pids come round. */
#include <sys/syscall.h>

#include "tests/preload/children.h"

/*
 * usage: reuse            a line is read in each round, before the accounts are looked at
 *        reuse --spin N   N children one after the other
 */
#define UNSEEN 10

/* As a program that makes its own system calls. */
static long unseen_wait(void)
{
	long ret;

	__asm__ volatile("xor %%r10d, %%r10d; syscall"
			 : "=a"(ret)
			 : "a"(SYS_wait4), "D"(-1), "S"(NULL), "d"(0)
			 : "rcx", "r10", "r11", "memory");
	return ret;
}

static int spin(int n)
{
	while (n--) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			return 1;
	}
	return 0;
}

static void unseen_ends(void)
{
	for (int i = 0; i < UNSEEN; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (pid < 0)
			die("fork");
	}
	for (int i = 0; i < UNSEEN; i++)
		if (unseen_wait() < 0)
			die("wait");
	verdict(true, "unseen", "%s", "");
}

int main(int argc, char **argv)
{
	int all = nproc_limit() - 1;
	char line[64];

	if (argc > 2 && !strcmp(argv[1], "--spin"))
		return spin(atoi(argv[2]));
	setvbuf(stdin, NULL, _IONBF, 0);
	for (;;) {
		unseen_ends();
		if (!fgets(line, sizeof(line), stdin))
			return failures != 0;
		check_eq("left", all, forks_left());
	}
}
