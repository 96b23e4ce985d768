/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `percpu`: each CPU keeps a difference for itself. */
#include "emu/kernel/ucount.h"

/*
 * The per-CPU ucounts of 2025, with its defects repaired. A CPU adds to a difference of its own, of
 * less than a batch of max(32, 2 * CPUs), and the shared part follows when that is full. So what is
 * used is known to within CPUs * batch only, and the shared part must be that far below the limit
 * for a charge to be accepted on its CPU alone: 64 with two CPUs, 294,912 with 384. Nearer to the
 * limit all is in the shared part, and every charge is exact there.
 *
 * What is repaired: the task's limit is the leaf's alone, and its infinity is one; a refused charge
 * takes back what it added, and nothing else; what is added over a limit is charged and released;
 * and there is no race between a look at the shared part and an addition on the CPU, because a CPU
 * may add only while its slot is open, and the shared part rises by what others have only while all
 * are closed (kpemu/split_counter.h). Bytes of queues and locked pages, never smaller than a batch,
 * are one word. (kernel/ucounts.md 9.1, kernel/algorithms.md)
 */

const struct ucounts_ops ucounts_percpu = {
	.name = "percpu",
	.about = "a difference on each CPU, exact near the limit",
	.per_cpu = true,
	.deferred = true,
	.split = ucounts_cpu_split,
	.charge = split_levels_charge,
	.uncharge = split_levels_uncharge,
	.read = split_level_read,
	.set = split_level_set,
};
