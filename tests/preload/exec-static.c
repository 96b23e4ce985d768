/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Linked statically, so that no library can be loaded into it: starts what its arguments say. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc > 1) {
		execv(argv[1], argv + 1);
		perror(argv[1]);
		return 1;
	}
	printf("static %d\n", (int)getuid());
	return 42;
}
