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

/* Are these the numbers that the functions above have put there? */
static bool shape_valid(const struct percpu_counter_tree_shape *shape)
{
	unsigned int order = 0;

	if (!cpus_valid(shape->nr_cpus) || shape->nr_fanouts > PERCPU_COUNTER_TREE_FANOUTS_MAX)
		return false;
	for (int i = 0; i < shape->nr_fanouts; i++) {
		if (!shape->fanout_order[i])
			return false;
		order += shape->fanout_order[i];
	}
	return order == shape->order && order == order_of(shape->nr_cpus);
}

/* --- levels --- */

/*
 * A level of nodes on the way from the bytes to the root. In memory the levels follow each other
 * from the root down.
 */
struct level {
	unsigned int order; /* log2 of its nodes */
	unsigned int batch_order; /* log2 of what a node keeps less than */
	unsigned int first; /* index of its first node */
	int nr; /* of the fan-out that leads to it */
};

/* The level of the bytes. */
static struct level level_start(const struct percpu_counter_tree *c)
{
	return (struct level){
		.order = c->shape.order,
		.batch_order = order_of(c->batch),
		.first = percpu_counter_tree_shape_nodes(&c->shape),
		.nr = -1,
	};
}

/* The one above; false if that is the root. */
static bool level_up(const struct percpu_counter_tree *c, struct level *l)
{
	unsigned int fanout = c->shape.fanout_order[++l->nr];

	l->order -= fanout;
	l->batch_order += fanout;
	l->first -= 1u << l->order;
	return l->nr + 1 < c->shape.nr_fanouts;
}

/* The root; NULL while there is no tree, or where none is needed. */
static struct percpu_counter_tree_node *tree_root(const struct percpu_counter_tree *c)
{
	int64_t nodes = smp_load_acquire(&c->nodes);

	if (!nodes || nodes == PERCPU_COUNTER_TREE_PLAIN)
		return NULL;
	return (struct percpu_counter_tree_node *)((char *)c + nodes);
}

/* --- adding --- */

/* What of @v moves up from where less than 2^@batch_order stays. */
static int64_t carry_of(int64_t v, unsigned int batch_order)
{
	int64_t mask = ((int64_t)1 << batch_order) - 1;

	return v < 0 ? -(-v & ~mask) : v & ~mask;
}

/*
 * Add @v to a node; what moves up from it. In one step, because with an addition and a subtraction
 * two CPUs could each take the same carry out, and the node would hold more than it has room for.
 */
static int64_t node_add(atomic64_t *node, int64_t v, unsigned int batch_order)
{
	int64_t old = atomic64_read(node), carry;

	do {
		carry = carry_of(old + v, batch_order);
	} while (!try_cmpxchg(&node->counter, &old, old + v - carry));
	return carry;
}

void percpu_counter_tree_climb(struct percpu_counter_tree *c, long v, long carry)
{
	struct percpu_counter_tree_node *root = tree_root(c);
	unsigned int cpu;
	struct level l;

	/* The bytes are published before the nodes; and a part of the sum is as good as another. */
	if (!root) {
		atomic64_add_return(carry == PERCPU_NO_SLOT ? v : carry, &c->atomic_bias);
		return;
	}
	if (carry == PERCPU_NO_SLOT) {
		atomic64_add_return(v, &root->count[c->index]);
		return;
	}
	/* If the thread has moved since then, another node takes it: any will do. */
	cpu = percpu_this_cpu(percpu_ptr_area(&c->level0));
	l = level_start(c);
	while (level_up(c, &l)) {
		struct percpu_counter_tree_node *n = root + l.first + (cpu & ((1u << l.order) - 1));

		carry = node_add(&n->count[c->index], carry, l.batch_order);
		if (!carry)
			return;
	}
	atomic64_add_return(carry, &root->count[c->index]);
}

/* --- reading --- */

static int64_t biases(const struct percpu_counter_tree *c)
{
	return READ_ONCE(c->bias) + atomic64_read(&c->atomic_bias);
}

static long positive(long v)
{
	return v > 0 ? v : 0;
}

long percpu_counter_tree_approximate_sum(const struct percpu_counter_tree *c)
{
	const struct percpu_counter_tree_node *root = tree_root(c);

	return biases(c) + (root ? atomic64_read(&root->count[c->index]) : 0);
}

long percpu_counter_tree_approximate_sum_positive(const struct percpu_counter_tree *c)
{
	return positive(percpu_counter_tree_approximate_sum(c));
}

long percpu_counter_tree_precise_sum(const struct percpu_counter_tree *c)
{
	const struct percpu_counter_tree_node *root = tree_root(c);
	unsigned int nodes = root ? percpu_counter_tree_shape_nodes(&c->shape) : 0;
	long sum = biases(c);

	if (percpu_ptr_valid(&c->level0))
		sum += percpu_sum8(&c->level0);
	for (unsigned int i = 0; i < nodes; i++)
		sum += atomic64_read(&root[i].count[c->index]);
	return sum;
}

long percpu_counter_tree_precise_sum_positive(const struct percpu_counter_tree *c)
{
	return positive(percpu_counter_tree_precise_sum(c));
}

void percpu_counter_tree_set(struct percpu_counter_tree *c, long v)
{
	int64_t bias = READ_ONCE(c->bias);

	WRITE_ONCE(c->bias, v - (percpu_counter_tree_precise_sum(c) - bias));
}

/* --- comparing --- */

/* The room of bytes and nodes, the same in both directions; 0 with one CPU. */
static long accuracy(const struct percpu_counter_tree *c)
{
	struct level l = level_start(c);
	unsigned int below = l.batch_order;
	long room = (long)c->shape.nr_cpus * (c->batch - 1);

	if (!c->shape.order)
		return 0;
	while (level_up(c, &l)) {
		room += ((1L << l.batch_order) - (1L << below)) << l.order;
		below = l.batch_order;
	}
	return room;
}

void percpu_counter_tree_approximate_accuracy_range(const struct percpu_counter_tree *c,
						    unsigned long *under, unsigned long *over)
{
	*under += accuracy(c);
	*over += accuracy(c);
}

/* The sign of a difference that can be @error more or less. */
static int compare_delta(long delta, long error)
{
	if (delta >= 0)
		return delta > error;
	return -(-delta > error);
}

int percpu_counter_tree_approximate_compare(const struct percpu_counter_tree *a,
					    const struct percpu_counter_tree *b)
{
	return compare_delta(percpu_counter_tree_approximate_sum(a) -
				     percpu_counter_tree_approximate_sum(b),
			     accuracy(a) + accuracy(b));
}

/* For an @a that can be further off than @b: its precise sum first, perhaps it is all one needs. */
static int compare_step_by_step(const struct percpu_counter_tree *a,
				const struct percpu_counter_tree *b)
{
	int ret = percpu_counter_tree_approximate_compare(a, b);
	long sum;

	if (ret)
		return ret;
	sum = percpu_counter_tree_precise_sum(a);
	ret = compare_delta(sum - percpu_counter_tree_approximate_sum(b), accuracy(b));
	return ret ? ret : compare_delta(sum - percpu_counter_tree_precise_sum(b), 0);
}

int percpu_counter_tree_precise_compare(const struct percpu_counter_tree *a,
					const struct percpu_counter_tree *b)
{
	if (accuracy(a) >= accuracy(b))
		return compare_step_by_step(a, b);
	return -compare_step_by_step(b, a);
}

int percpu_counter_tree_approximate_compare_value(const struct percpu_counter_tree *c, long v)
{
	return compare_delta(v - percpu_counter_tree_approximate_sum(c), accuracy(c));
}

int percpu_counter_tree_precise_compare_value(const struct percpu_counter_tree *c, long v)
{
	int ret = percpu_counter_tree_approximate_compare_value(c, v);

	return ret ? ret : compare_delta(v - percpu_counter_tree_precise_sum(c), 0);
}

/* --- making and destroying --- */

int percpu_counter_tree_init_many_lazy(struct percpu_counter_tree *c, unsigned int n,
				       unsigned int batch,
				       const struct percpu_counter_tree_shape *shape)
{
	if (!n || n > PERCPU_COUNTER_TREE_MANY_MAX || batch < 2 ||
	    batch > PERCPU_COUNTER_TREE_BATCH_MAX || batch & (batch - 1) || !shape_valid(shape))
		return -EINVAL;
	for (unsigned int i = 0; i < n; i++)
		c[i] = (struct percpu_counter_tree){ .shape = *shape, .batch = batch, .index = i };
	return 0;
}

/* The parts of a tree. What an activation that was killed has published is used again. */
struct parts {
	struct percpu_counter_tree_node *root;
	long level0; /* offset in the area */
};

static size_t nodes_size(const struct percpu_counter_tree *c)
{
	return percpu_counter_tree_shape_nodes(&c->shape) * sizeof(struct percpu_counter_tree_node);
}

/* The bytes of counters made together lie in as few units as possible, and in one line. */
static long alloc_level0(struct percpu_area *area, unsigned int n)
{
	return percpu_alloc(area, n, 1u << order_of(n));
}

static int alloc_parts(struct parts *p, const struct percpu_counter_tree *c, unsigned int n,
		       const struct percpu_counter_tree_memory *memory)
{
	bool found = percpu_ptr_valid(&c->level0);

	p->level0 = found ? percpu_ptr_off(&c->level0) : alloc_level0(memory->area, n);
	if (p->level0 < 0)
		return -ENOMEM;
	p->root = tree_root(c);
	if (!p->root)
		p->root = memory->alloc(memory->arg, nodes_size(c));
	if (p->root)
		return 0;
	if (!found)
		percpu_free(memory->area, p->level0, n);
	return -ENOMEM;
}

static void publish(struct percpu_counter_tree *c, const struct parts *p, struct percpu_area *area)
{
	if (!percpu_ptr_valid(&c->level0))
		percpu_ptr_set(&c->level0, area, p->level0 + c->index);
	if (!percpu_counter_tree_active(c))
		smp_store_release(&c->nodes, (char *)p->root - (char *)c);
}

/* Are these counters that were made together, and for these CPUs? */
static bool many_valid(const struct percpu_counter_tree *c, unsigned int n,
		       const struct percpu_counter_tree_memory *memory)
{
	if (!n || n > PERCPU_COUNTER_TREE_MANY_MAX || c->shape.nr_cpus != memory->area->nr_cpus)
		return false;
	for (unsigned int i = 0; i < n; i++)
		if (c[i].index != i || c[i].shape.nr_cpus != c->shape.nr_cpus || !c[i].batch)
			return false;
	return true;
}

int percpu_counter_tree_activate_many(struct percpu_counter_tree *c, unsigned int n,
				      const struct percpu_counter_tree_memory *memory)
{
	struct parts p;
	int err;

	if (!many_valid(c, n, memory))
		return -EINVAL;
	if (percpu_counter_tree_active(&c[n - 1]))
		return 0;
	if (!c->shape.order) {
		for (unsigned int i = 0; i < n; i++)
			smp_store_release(&c[i].nodes, (int64_t)PERCPU_COUNTER_TREE_PLAIN);
		return 0;
	}
	err = alloc_parts(&p, c, n, memory);
	if (err)
		return err;
	for (unsigned int i = 0; i < n; i++)
		publish(&c[i], &p, memory->area);
	return 0;
}

int percpu_counter_tree_init_many(struct percpu_counter_tree *c, unsigned int n, unsigned int batch,
				  const struct percpu_counter_tree_shape *shape,
				  const struct percpu_counter_tree_memory *memory)
{
	struct percpu_counter_tree old[PERCPU_COUNTER_TREE_MANY_MAX];
	int err;

	if (!n || n > PERCPU_COUNTER_TREE_MANY_MAX)
		return -EINVAL;
	for (unsigned int i = 0; i < n; i++)
		old[i] = c[i];
	err = percpu_counter_tree_init_many_lazy(c, n, batch, shape);
	if (!err)
		err = percpu_counter_tree_activate_many(c, n, memory);
	for (unsigned int i = 0; err && i < n; i++)
		c[i] = old[i];
	return err;
}

void percpu_counter_tree_destroy_many(struct percpu_counter_tree *c, unsigned int n,
				      const struct percpu_counter_tree_memory *memory)
{
	struct percpu_counter_tree_node *root = tree_root(c);

	if (percpu_ptr_valid(&c->level0))
		percpu_free(memory->area, percpu_ptr_off(&c->level0), n);
	if (root)
		memory->free(memory->arg, root, nodes_size(c));
	for (unsigned int i = 0; i < n; i++)
		c[i] = (struct percpu_counter_tree){ 0 };
}
