/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counter trees: their forms, the carry from a node to the next, sums, and activation. */
#include <errno.h>

#include <kpemu/percpu_counter_tree.h>

/* --- forms --- */

/*
 * Fan-outs by order, from the bytes up, each as log2. Orders 1, 4, 6, 9 and 10 are the published
 * rows, flat at 8 CPUs is said elsewhere; the others continue them: up to 16 CPUs one node, up to
 * 256 nodes of 16 below the root.
 */
static const uint8_t fanout_table[][3] = {
	[1] = { 1 },    [2] = { 2 },    [3] = { 3 },    [4] = { 4 },       [5] = { 4, 1 },
	[6] = { 4, 2 }, [7] = { 4, 3 }, [8] = { 4, 4 }, [9] = { 3, 3, 3 }, [10] = { 3, 3, 4 },
};

static unsigned int order_of(unsigned int nr_cpus)
{
	unsigned int order = 0;

	while (1u << order < nr_cpus)
		order++;
	return order;
}

static bool cpus_valid(unsigned int nr_cpus)
{
	return nr_cpus >= 1 && nr_cpus <= PERCPU_COUNTER_TREE_CPUS_MAX;
}

static void shape_add(struct percpu_counter_tree_shape *shape, unsigned int fanout_order)
{
	shape->fanout_order[shape->nr_fanouts++] = fanout_order;
	shape->order += fanout_order;
}

int percpu_counter_tree_shape_init(struct percpu_counter_tree_shape *shape, unsigned int nr_cpus)
{
	struct percpu_counter_tree_shape s = { .nr_cpus = nr_cpus };
	const uint8_t *fanout;

	if (!cpus_valid(nr_cpus))
		return -EINVAL;
	fanout = fanout_table[order_of(nr_cpus)];
	for (int i = 0; i < 3 && fanout[i]; i++)
		shape_add(&s, fanout[i]);
	*shape = s;
	return 0;
}

/* A fan-out at *@p, which is moved behind it: its log2, or 0 if there is no valid one. */
static unsigned int parse_fanout(const char **p)
{
	unsigned int v = 0;

	for (; **p >= '0' && **p <= '9' && v <= PERCPU_COUNTER_TREE_CPUS_MAX; ++*p)
		v = v * 10 + (**p - '0');
	return v && !(v & (v - 1)) ? order_of(v) : 0;
}

int percpu_counter_tree_shape_parse(struct percpu_counter_tree_shape *shape, unsigned int nr_cpus,
				    const char *arity)
{
	struct percpu_counter_tree_shape s = { .nr_cpus = nr_cpus };
	unsigned int fanout, order;

	if (!cpus_valid(nr_cpus))
		return -EINVAL;
	order = order_of(nr_cpus);
	do {
		fanout = parse_fanout(&arity);
		if (!fanout || s.order + fanout > order)
			return -EINVAL;
		shape_add(&s, fanout);
	} while (*arity++ == ',');
	if (arity[-1] || s.order != order)
		return -EINVAL;
	*shape = s;
	return 0;
}

unsigned int percpu_counter_tree_shape_nodes(const struct percpu_counter_tree_shape *shape)
{
	unsigned int order = shape->order, nodes = 0;

	for (int i = 0; i < shape->nr_fanouts; i++) {
		order -= shape->fanout_order[i];
		nodes += 1u << order;
	}
	return nodes;
}
