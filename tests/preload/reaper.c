/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs a program natively and reaps its orphans at once, which the init of a container may not. */
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status, result = 127;
	pid_t pid, ended;

	if (argc < 2 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		return 2;
	pid = fork();
	if (!pid) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	while ((ended = wait(&status)) > 0)
		if (ended == pid)
			result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return result;
}
