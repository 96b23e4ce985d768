/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the programs of benchmarks do when something is not as they need it. */
#ifndef TESTS_BENCH_CHECK_H
#define TESTS_BENCH_CHECK_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s failed\n", program_invocation_short_name, what);
	exit(1);
}

#endif
