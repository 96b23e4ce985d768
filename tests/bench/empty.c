// SPDX-License-Identifier: GPL-2.0-or-later
/* A preload library that does nothing: what loading any library at all costs. */

int kpemu_bench_empty(void);

__attribute__((visibility("default"))) int kpemu_bench_empty(void)
{
	return 0;
}
