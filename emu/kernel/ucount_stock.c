/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `stock`: each CPU has units that are paid for. */
#include "emu/kernel/ucount.h"

/*
 * A CPU that charges gets a stock of 1 to 64 units, which the counter has from then on, and spends
 * it and fills it again on a line of its own; so what is used is never more than the counter says,
 * and that never more than the ceiling, which is no higher than the limit of any charge that is
 * accepted on a CPU. What another CPU releases goes back half by half.
 *
 * Near the limit stocks shrink to one unit, and when the counter is at the ceiling they are all
 * taken in before anything is refused: then the counter is what is used, and every charge is a
 * compare-and-swap on it, as with `atomic`, until there is room for two units for each CPU again.
 * So this is as exact as `atomic`, and spread over the CPUs with so little room: 768 on 384 CPUs.
 * Less cannot be: if each may accept one on its own, 384 are accepted.
 * (kernel/algorithms.md; kpemu/split_counter.h has the construction)
 */

const struct ucounts_ops ucounts_stock = {
	.name = "stock",
	.about = "units on each CPU that are paid for, taken in before a refusal",
	.per_cpu = true,
	.split = ucounts_cpu_split,
	.charge = split_levels_charge,
	.uncharge = split_levels_uncharge,
	.read = split_level_read,
	.set = split_level_set,
	.held = split_level_held,
};
