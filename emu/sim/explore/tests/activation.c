/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lazy activation of one counter: the example of docs/explorer.md. */
#include "emu/sim/explore/explore.h"

static struct percpu_counter_tree rss EXPLORE_STATE;
static struct percpu_area *area EXPLORE_STATE;

static void setup(void)
{
	struct percpu_counter_tree_shape shape;

	area = explore_area(explore_cpus(), PERCPU_RSEQ);
	percpu_counter_tree_shape_init(&shape, explore_cpus());
	percpu_counter_tree_init_lazy(&rss, 2, &shape);
}

static void thread(unsigned int cpu)
{
	if (!cpu)
		percpu_counter_tree_activate(&rss, explore_tree_memory(area));
	for (unsigned int i = 0; i < explore_ops(); i++)
		(cpu == 1 ? percpu_counter_tree_add_owner : percpu_counter_tree_add)(&rss, 1);
}

static void check(void)
{
	explore_equal(percpu_counter_tree_precise_sum(&rss), explore_cpus() * explore_ops());
	percpu_counter_tree_destroy(&rss, explore_tree_memory(area));
}

EXPLORE_TEST(activation) = {
	.name = "lazy-activation-any",
	.about = "one CPU activates and adds, the owner and others add: no update is lost",
	.setup = setup,
	.thread = thread,
	.check = check,
};
