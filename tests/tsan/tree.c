/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counter trees under ThreadSanitizer: additions, sums and an activation, all at once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kpemu/percpu_counter_tree.h>

#define ROUNDS  20
#define ADDERS  3
#define ADDS    5000
#define CPUS    64
#define MEMBERS 4

static struct percpu_counter_tree c[MEMBERS];
static int stop;

static void *nodes_alloc(void *arg, size_t size)
{
	void *p = aligned_alloc(64, size);

	(void)arg;
	return p ? memset(p, 0, size) : NULL;
}

static void nodes_free(void *arg, void *p, size_t size)
{
	(void)arg, (void)size;
	free(p);
}

static void *adder(void *arg)
{
	for (int i = 0; i < ADDS; i++) {
		percpu_set_cpu(((long)arg + i) % CPUS);
		for (int k = 0; k < MEMBERS; k++)
			percpu_counter_tree_add(&c[k], i % 50 - 20);
	}
	return NULL;
}

static void *reader(void *arg)
{
	long sum = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		for (int k = 0; k < MEMBERS; k++)
			sum += percpu_counter_tree_precise_sum(&c[k]) -
			       percpu_counter_tree_approximate_sum(&c[k]) +
			       percpu_counter_tree_precise_compare(&c[k], &c[0]);
	return arg ? (void *)sum : NULL;
}

/* One activation amid additions: is the sum of all counters right? */
static int one_round(const struct percpu_counter_tree_memory *memory)
{
	struct percpu_counter_tree_shape shape;
	pthread_t thread[ADDERS], looking;
	long expected = 0, owned = 0;
	int ok = 1;

	percpu_counter_tree_shape_parse(&shape, CPUS, "4,4,4");
	if (percpu_counter_tree_init_many_lazy(c, MEMBERS, 8, &shape))
		return 0;
	__atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
	pthread_create(&looking, NULL, reader, NULL);
	for (long i = 0; i < ADDERS; i++)
		pthread_create(&thread[i], NULL, adder, (void *)(i * 17));
	for (; owned < ADDS; owned++) {
		if (owned == ADDS / 2)
			ok &= !percpu_counter_tree_activate_many(c, MEMBERS, memory);
		percpu_counter_tree_add_owner(&c[0], 1);
	}
	for (int i = 0; i < ADDERS; i++)
		pthread_join(thread[i], NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(looking, NULL);
	for (int i = 0; i < ADDS; i++)
		expected += ADDERS * (i % 50 - 20);
	for (int k = 0; k < MEMBERS; k++)
		ok &= percpu_counter_tree_precise_sum(&c[k]) == expected + (k ? 0 : owned);
	percpu_counter_tree_destroy_many(c, MEMBERS, memory);
	return ok;
}

int main(void)
{
	struct percpu_counter_tree_memory memory = { percpu_area_new(CPUS, 64, PERCPU_ATOMIC),
						     nodes_alloc, nodes_free, NULL };
	int passed = 0;

	for (int i = 0; memory.area && i < ROUNDS; i++)
		passed += one_round(&memory);
	printf("%d passed, %d failed\n", passed, ROUNDS - passed);
	return passed != ROUNDS;
}
