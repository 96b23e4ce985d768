/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chance that is the same in each run. */
#ifndef TESTS_UNIT_CHANCE_H
#define TESTS_UNIT_CHANCE_H

#include <stdint.h>

static uint64_t seed = 1;

/* rnd - 0 .. @n - 1. */
static inline uint32_t rnd(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

#endif
