/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `atomic`: every counter is one word. */
#include "emu/kernel/ucount.h"

/*
 * What Linux does. A charge adds to a word at each level, and is judged by the sum that its own
 * addition made; too much is taken off again. The line of the word goes to every CPU that charges,
 * and where many namespaces have one creator, to all of them: that is what the other algorithms
 * are about. This one is what they are compared with. (kernel/ucounts.md 1.4)
 */

static const struct level_ops levels = { word_charge, word_uncharge };

static bool charge(struct ucounts *uc, enum rlimit_type type, long v, uint64_t rlimit, bool keep,
		   struct refusal *why)
{
	return charge_levels(uc, type, v, rlimit, keep, why, &levels);
}

static void uncharge(struct ucounts *uc, enum rlimit_type type, long v)
{
	uncharge_levels(uc, NULL, type, v, &levels);
}

const struct ucounts_ops ucounts_atomic = {
	.name = "atomic",
	.about = "one word for each counter, as Linux has it",
	.charge = charge,
	.uncharge = uncharge,
	.read = word_read,
	.set = word_set,
};
