/* SPDX-License-Identifier: GPL-2.0-or-later */
/* percpu_counter: each rule against a plain reference, bounds of the error, hotplug, bad arguments. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <kpemu/percpu_counter.h>

#include "tests/unit/chance.h"

TestSuite(percpu_counter, .timeout = 60);

static const unsigned int cpu_counts[] = { 1, 2, 3, 7, 16, 17, 64, 384, 1000, 1024 };
#define NR_COUNTS (sizeof(cpu_counts) / sizeof(cpu_counts[0]))

static int64_t rnd_within(int64_t n)
{
	return (int64_t)rnd(2 * n + 1) - n;
}

static struct percpu_area *area;

/* Emulated CPUs, and a counter at @amount among them. */
static void start(struct percpu_counter *c, unsigned int cpus, int64_t amount)
{
	area = percpu_area_new(cpus, 64, PERCPU_ATOMIC);
	cr_assert_not_null(area);
	memset(c, 0, sizeof(*c));
	cr_assert_eq(percpu_counter_init(c, area, amount), 0);
	percpu_set_cpu(0);
}

static void stop(struct percpu_counter *c)
{
	percpu_counter_destroy(c);
	cr_assert_eq(percpu_used(area), 0);
	percpu_area_delete(area);
}

static int64_t lag(const struct percpu_counter *c)
{
	return llabs(percpu_counter_read(c) - percpu_counter_sum(c));
}

/* --- the reference: kernel/rss.md 1, word by word --- */

struct plain {
	int64_t count;
	int64_t slot[PERCPU_MAX_CPUS];
	int online;
	int cpus;
};

static void plain_add_batch(struct plain *r, int cpu, int64_t amount, int64_t batch)
{
	int64_t v = r->slot[cpu] + amount;

	if (v >= batch || v <= -batch) {
		r->count += v;
		r->slot[cpu] = 0;
	} else {
		r->slot[cpu] = v;
	}
}

static int64_t plain_sum(const struct plain *r)
{
	int64_t sum = r->count;

	for (int cpu = 0; cpu < r->cpus; cpu++)
		sum += r->slot[cpu];
	return sum;
}

static bool plain_limited_add(struct plain *r, int cpu, int64_t limit, int64_t amount,
			      int64_t batch)
{
	int64_t unknown = batch * r->online, x;
	bool good = false;

	if (amount == 0)
		return true;
	if (llabs(r->slot[cpu] + amount) <= batch &&
	    ((amount > 0 && r->count + unknown <= limit) ||
	     (amount < 0 && r->count - unknown >= limit))) {
		r->slot[cpu] += amount;
		return true;
	}
	x = r->count + amount;
	if (amount > 0) {
		if (x - unknown > limit)
			return false;
		if (x + unknown <= limit)
			good = true;
	} else {
		if (x + unknown < limit)
			return false;
		if (x - unknown >= limit)
			good = true;
	}
	if (!good) {
		x = plain_sum(r) + amount;
		if (amount > 0 ? x > limit : x < limit)
			return false;
	}
	r->count += r->slot[cpu] + amount;
	r->slot[cpu] = 0;
	return true;
}

/* Slots can be put into any state, because nobody else is here. */
static void put(struct percpu_counter *c, const struct plain *r)
{
	percpu_counter_set(c, r->count);
	for (int cpu = 0; cpu < r->cpus; cpu++)
		percpu_xchg32(&c->counters, cpu, r->slot[cpu]);
}

static void agree(const struct percpu_counter *c, const struct plain *r)
{
	cr_assert_eq(percpu_counter_read(c), r->count);
	for (int cpu = 0; cpu < r->cpus; cpu++)
		cr_assert_eq(percpu_read32(&c->counters, cpu), r->slot[cpu]);
	cr_assert_eq(percpu_counter_sum(c), plain_sum(r));
}

/* --- making and ending --- */

Test(percpu_counter, init_and_destroy)
{
	struct percpu_counter c;

	start(&c, 4, -7);
	cr_assert(percpu_counter_initialized(&c));
	cr_assert_eq(percpu_counter_read(&c), -7);
	cr_assert_eq(percpu_counter_sum(&c), -7);
	cr_assert_eq(percpu_counter_init(&c, area, 5), -EINVAL, "twice");
	cr_assert_eq(percpu_counter_sum(&c), -7);
	percpu_counter_destroy(&c);
	cr_assert_not(percpu_counter_initialized(&c));
	percpu_counter_destroy(&c);
	percpu_counter_destroy(NULL);
	cr_assert_eq(percpu_counter_init(&c, area, 5), 0, "again");
	stop(&c);
}

Test(percpu_counter, init_many_takes_one_allocation)
{
	struct percpu_counter c[17] = { 0 }, before[17];

	area = percpu_area_new(3, 64, PERCPU_ATOMIC);
	cr_assert_eq(percpu_counter_init_many(c, area, 9, 0), -EINVAL);
	cr_assert_eq(percpu_counter_init_many(NULL, area, 9, 4), -EINVAL);
	cr_assert_eq(percpu_counter_init_many(c, NULL, 9, 4), -EINVAL);
	cr_assert_eq(percpu_counter_init_many(c, area, 9, 17), -ENOMEM);
	percpu_fail_nth(area, 2);
	cr_assert_eq(percpu_counter_init_many(c, area, 9, 4), 0);
	cr_assert_eq(percpu_used(area), 16);
	memcpy(before, c, sizeof(c));
	cr_assert_eq(percpu_counter_init(&c[4], area, 9), -ENOMEM);
	cr_assert_eq(percpu_counter_init_many(&c[3], area, 1, 2), -EINVAL, "one of them twice");
	cr_assert_eq(memcmp(before, c, sizeof(c)), 0);
	for (int i = 0; i < 4; i++)
		percpu_counter_add_local(&c[i], i);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(percpu_counter_sum(&c[i]), 9 + i);
	percpu_counter_destroy_many(c, 5);
	cr_assert_eq(percpu_used(area), 0);
	percpu_counter_destroy_many(NULL, 5);
}

Test(percpu_counter, nth_allocation_fails)
{
	struct percpu_counter c[10];

	for (unsigned int n = 1; n <= 10; n++) {
		unsigned int made = 0;

		area = percpu_area_new(2, 64, PERCPU_ATOMIC);
		memset(c, 0, sizeof(c));
		percpu_fail_nth(area, n);
		while (made < 10 && !percpu_counter_init(&c[made], area, 1))
			made++;
		cr_assert_eq(made, n - 1);
		percpu_counter_destroy_many(c, 10);
		cr_assert_eq(percpu_used(area), 0);
		percpu_area_delete(area);
	}
}

/* --- adding --- */

Test(percpu_counter, batch_follows_the_cpus)
{
	struct percpu_counter c;

	for (unsigned int i = 0; i < NR_COUNTS; i++) {
		int twice = 2 * cpu_counts[i];

		start(&c, cpu_counts[i], 0);
		cr_assert_eq(percpu_counter_batch(area), twice > 32 ? twice : 32);
		cr_assert_eq(percpu_counter_batch_of(&c), percpu_counter_batch(area));
		stop(&c);
	}
}

Test(percpu_counter, bad_batches_change_nothing)
{
	static const int32_t bad[] = { 0, -1, -32, INT32_MIN };
	struct plain r = { .count = 5, .slot = { 3, -4 }, .online = 2, .cpus = 2 };
	struct percpu_counter c;

	start(&c, 2, 0);
	put(&c, &r);
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(percpu_counter_add_batch(&c, 100, bad[i]), -EINVAL);
		cr_assert_eq(percpu_counter_add_batch(&c, -1, bad[i]), -EINVAL);
		cr_assert_not(__percpu_counter_limited_add(&c, 1000, 1, bad[i]));
		cr_assert_not(__percpu_counter_limited_add(&c, -1000, -1, bad[i]));
		cr_assert_eq(__percpu_counter_compare(&c, 4, bad[i]), 0);
		cr_assert_eq(__percpu_counter_compare(&c, 5, bad[i]), -1);
		cr_assert_eq(__percpu_counter_compare(&c, 3, bad[i]), 1);
	}
	agree(&c, &r);
	stop(&c);
}

Test(percpu_counter, add_as_the_rule_says)
{
	static struct plain r;
	struct percpu_counter c;

	for (unsigned int i = 0; i < NR_COUNTS; i++) {
		r = (struct plain){ .count = 3, .online = cpu_counts[i], .cpus = cpu_counts[i] };
		start(&c, cpu_counts[i], 3);
		for (int round = 0; round < 3000; round++) {
			int64_t amount = rnd_within(rnd(4) ? 40 : 100000);
			int32_t batch = rnd(4) ? percpu_counter_batch(area) : 1 + (int)rnd(60);
			int cpu = rnd(cpu_counts[i]);

			percpu_set_cpu(cpu);
			if (batch == percpu_counter_batch(area))
				percpu_counter_add(&c, amount);
			else
				percpu_counter_add_batch(&c, amount, batch);
			plain_add_batch(&r, cpu, amount, batch);
		}
		agree(&c, &r);
		stop(&c);
	}
}

Test(percpu_counter, forms_of_add)
{
	struct percpu_counter c;

	start(&c, 1, 0);
	percpu_counter_inc(&c);
	percpu_counter_add(&c, 20);
	percpu_counter_sub(&c, 4);
	percpu_counter_dec(&c);
	cr_assert_eq(percpu_counter_read(&c), 0);
	cr_assert_eq(percpu_counter_sum(&c), 16);
	percpu_counter_add_local(&c, 1000000000);
	cr_assert_eq(percpu_counter_read(&c), 0);
	percpu_counter_sub_local(&c, 16);
	cr_assert_eq(percpu_counter_sum(&c), 1000000000);
	percpu_counter_sync(&c);
	cr_assert_eq(percpu_counter_read(&c), 1000000000);
	percpu_counter_sync(&c);
	cr_assert_eq(percpu_counter_read(&c), 1000000000);
	percpu_counter_add(&c, 31);
	cr_assert_eq(percpu_counter_read(&c), 1000000000);
	percpu_counter_inc(&c);
	cr_assert_eq(percpu_counter_read(&c), 1000000032);
	stop(&c);
}

Test(percpu_counter, sync_moves_this_cpu_only)
{
	struct percpu_counter c;

	start(&c, 3, 0);
	for (int cpu = 0; cpu < 3; cpu++) {
		percpu_set_cpu(cpu);
		percpu_counter_add(&c, 1 << cpu);
	}
	percpu_set_cpu(1);
	percpu_counter_sync(&c);
	cr_assert_eq(percpu_counter_read(&c), 2);
	cr_assert_eq(percpu_counter_sum(&c), 7);
	stop(&c);
}

Test(percpu_counter, set_forgets_the_cpus)
{
	struct percpu_counter c;

	start(&c, 384, 0);
	for (int cpu = 0; cpu < 384; cpu++) {
		percpu_set_cpu(cpu);
		percpu_counter_add(&c, cpu);
	}
	percpu_counter_set(&c, -5);
	cr_assert_eq(percpu_counter_read(&c), -5);
	cr_assert_eq(percpu_counter_sum(&c), -5);
	stop(&c);
}

Test(percpu_counter, positive_forms_stop_at_zero)
{
	struct percpu_counter c;

	start(&c, 2, -3);
	cr_assert_eq(percpu_counter_read_positive(&c), 0);
	cr_assert_eq(percpu_counter_sum_positive(&c), 0);
	percpu_counter_add(&c, 10);
	cr_assert_eq(percpu_counter_read_positive(&c), 0);
	cr_assert_eq(percpu_counter_sum_positive(&c), 7);
	percpu_counter_sync(&c);
	cr_assert_eq(percpu_counter_read_positive(&c), 7);
	stop(&c);
}

/* --- the bound of the error --- */

/* Random walks stay within it, and a CPU after the other filled up reaches all of it. */
static void add_alone_stays_within(unsigned int cpus)
{
	struct percpu_counter c;
	int64_t bound, batch;

	start(&c, cpus, 0);
	batch = percpu_counter_batch(area);
	bound = cpus * (batch - 1);
	for (int i = 0; i < 5000; i++) {
		percpu_set_cpu(rnd(cpus));
		percpu_counter_add(&c, rnd_within(batch / 2) + 1);
		if (i % 50 == 0)
			cr_assert_leq(lag(&c), bound);
	}
	for (int dir = -1; dir <= 1; dir += 2) {
		percpu_counter_set(&c, 0);
		for (unsigned int cpu = 0; cpu < cpus; cpu++) {
			percpu_set_cpu(cpu);
			for (int i = 0; i < batch - 1; i++)
				percpu_counter_add(&c, dir);
		}
		cr_assert_eq(lag(&c), bound);
		cr_assert_eq(percpu_counter_sum(&c), dir * bound);
	}
	stop(&c);
}

Test(percpu_counter, lag_with_add_alone)
{
	for (unsigned int i = 0; i < NR_COUNTS; i++)
		add_alone_stays_within(cpu_counts[i]);
	for (unsigned int i = 0; i < 20; i++)
		add_alone_stays_within(1 + rnd(1024));
}

static void limited_add_stays_within(unsigned int cpus)
{
	struct percpu_counter c;
	int64_t bound, batch;

	start(&c, cpus, 0);
	batch = percpu_counter_batch(area);
	bound = cpus * batch;
	for (int i = 0; i < 5000; i++) {
		percpu_set_cpu(rnd(cpus));
		if (rnd(2))
			percpu_counter_add(&c, rnd_within(batch));
		else
			percpu_counter_limited_add(&c, 2 * bound, 1 + rnd(batch));
		if (i % 50 == 0)
			cr_assert_leq(lag(&c), bound);
	}
	percpu_counter_set(&c, 0);
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		percpu_set_cpu(cpu);
		cr_assert(percpu_counter_limited_add(&c, 2 * bound, batch));
	}
	cr_assert_eq(lag(&c), bound, "exactly the batch on each CPU");
	stop(&c);
}

Test(percpu_counter, lag_once_limited_add_is_used)
{
	for (unsigned int i = 0; i < NR_COUNTS; i++)
		limited_add_stays_within(cpu_counts[i]);
}

Test(percpu_counter, lag_is_of_the_older_batch_while_it_shrinks)
{
	struct percpu_counter c;
	int64_t older;

	start(&c, 1000, 0);
	older = percpu_counter_batch(area);
	for (unsigned int cpu = 0; cpu < 100; cpu++) {
		percpu_set_cpu(cpu);
		percpu_counter_add(&c, older - 1);
	}
	for (unsigned int cpu = 100; cpu < 1000; cpu++)
		cr_assert_eq(percpu_cpu_down(area, cpu), 0);
	cr_assert_eq(percpu_counter_batch(area), 200);
	cr_assert_eq(lag(&c), 100 * (older - 1), "above 100 * 199");
	for (unsigned int cpu = 0; cpu < 100; cpu++) {
		percpu_set_cpu(cpu);
		percpu_counter_inc(&c); /* the first add sees the new batch */
	}
	cr_assert_eq(lag(&c), 0);
	cr_assert_eq(percpu_counter_read(&c), 100 * older);
	stop(&c);
}

/* --- hotplug --- */

Test(percpu_counter, cpu_down_folds_all_counters)
{
	struct percpu_counter c[3] = { 0 }, other;

	start(&other, 5, 0);
	cr_assert_eq(percpu_counter_init_many(c, area, 100, 3), 0);
	percpu_counter_destroy(&c[1]); /* its entry must be gone, too */
	for (int cpu = 0; cpu < 5; cpu++) {
		percpu_set_cpu(cpu);
		percpu_counter_add(&c[0], 10 + cpu);
		percpu_counter_sub(&c[2], 10 + cpu);
		percpu_counter_add(&other, 1);
	}
	cr_assert_eq(percpu_cpu_down(area, 3), 0);
	cr_assert_eq(percpu_counter_read(&c[0]), 113);
	cr_assert_eq(percpu_counter_read(&c[2]), 87);
	cr_assert_eq(percpu_counter_read(&other), 1);
	cr_assert_eq(percpu_read32(&c[0].counters, 3), 0);
	cr_assert_eq(percpu_counter_sum(&c[0]), 160);
	cr_assert_eq(percpu_counter_sum(&c[2]), 40);

	percpu_set_cpu(3); /* counts on CPU 4 now */
	percpu_counter_add(&c[0], 1);
	cr_assert_eq(percpu_read32(&c[0].counters, 3), 0);
	cr_assert_eq(percpu_read32(&c[0].counters, 4), 15);
	cr_assert_eq(percpu_cpu_up(area, 3), 0);
	percpu_counter_add(&c[0], 1);
	cr_assert_eq(percpu_read32(&c[0].counters, 3), 1);
	cr_assert_eq(percpu_counter_sum(&c[0]), 162);
	percpu_counter_destroy_many(c, 3);
	stop(&other);
}

static void *adds_on_all_cpus(void *counter)
{
	for (int i = 0; i < 300000; i++) {
		percpu_set_cpu(i % 16);
		percpu_counter_inc(counter);
	}
	return NULL;
}

Test(percpu_counter, cpus_go_and_come_while_others_add)
{
	struct percpu_counter c;
	pthread_t threads[2];

	start(&c, 16, 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, adds_on_all_cpus, &c), 0);
	for (int i = 0; i < 20000; i++) {
		unsigned int cpu = rnd(16);

		if (percpu_cpu_down(area, cpu))
			percpu_cpu_up(area, cpu);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(percpu_counter_sum(&c), 600000);
	stop(&c);
}

/* --- comparing --- */

Test(percpu_counter, compare_is_exact)
{
	static const int32_t batches[] = { 1, 4, 32 };
	struct percpu_counter c;

	for (unsigned int cpus = 1; cpus <= 4; cpus++) {
		start(&c, cpus, 0);
		for (int round = 0; round < 3000; round++) {
			int64_t sum = 0, rhs;
			int32_t batch = batches[round % 3];

			percpu_counter_set(&c, rnd_within(50));
			for (unsigned int cpu = 0; cpu < cpus; cpu++)
				percpu_xchg32(&c.counters, cpu, rnd_within(batch));
			sum = percpu_counter_sum(&c);
			rhs = sum + (rnd(4) ? rnd_within(100) : 0);
			cr_assert_eq(__percpu_counter_compare(&c, rhs, batch),
				     (sum > rhs) - (sum < rhs));
		}
		stop(&c);
	}
}

Test(percpu_counter, compare_does_not_sum_what_is_far)
{
	struct percpu_counter c;

	start(&c, 2, 0);
	percpu_xchg32(&c.counters, 0, 1000); /* more than can be: only a sum sees it */
	cr_assert_eq(percpu_counter_compare(&c, 65), -1);
	cr_assert_eq(percpu_counter_compare(&c, 64), 1);
	cr_assert_eq(percpu_counter_compare(&c, -65), 1);
	stop(&c);
}

/* --- limited_add --- */

/* All small states, limits and amounts: the answer, and what it leaves. */
static void limited_add_with(unsigned int cpus, int32_t batch, int64_t others)
{
	static struct plain r, was;
	struct percpu_counter c;

	start(&c, cpus, 0);
	r = (struct plain){ .online = cpus, .cpus = cpus };
	for (r.count = -3; r.count <= 3; r.count++)
		for (int64_t here = -batch; here <= batch; here++)
			for (int64_t limit = -14; limit <= 14; limit++)
				for (int64_t amount = -9; amount <= 9; amount++) {
					bool want;

					for (unsigned int cpu = 1; cpu < cpus; cpu++)
						r.slot[cpu] = others;
					r.slot[0] = here;
					put(&c, &r);
					was = r;
					want = plain_limited_add(&r, 0, limit, amount, batch);
					cr_assert_eq(__percpu_counter_limited_add(&c, limit, amount,
										  batch),
						     want);
					agree(&c, &r);
					r = was;
				}
	stop(&c);
}

Test(percpu_counter, limited_add_decision_table)
{
	for (unsigned int cpus = 1; cpus <= 3; cpus++)
		for (int32_t batch = 1; batch <= 3; batch++)
			/* also what was left by a larger batch, which only a sum sees */
			for (int64_t others = -batch - 3; others <= batch + 3;
			     others += 1 + cpus / 3)
				limited_add_with(cpus, batch, others);
}

Test(percpu_counter, limited_add_random_as_the_rule_says)
{
	static struct plain r;
	struct percpu_counter c;

	for (unsigned int i = 0; i < NR_COUNTS; i++) {
		int64_t batch, limit;

		r = (struct plain){ .online = cpu_counts[i], .cpus = cpu_counts[i] };
		start(&c, cpu_counts[i], 0);
		batch = percpu_counter_batch(area);
		limit = 3 * batch * cpu_counts[i];
		for (int round = 0; round < 2000; round++) {
			int cpu = rnd(cpu_counts[i]);
			int64_t amount = rnd_within(rnd(8) ? batch + 5 : limit);
			int64_t bound = amount > 0 ? limit : -limit;

			percpu_set_cpu(cpu);
			cr_assert_eq(percpu_counter_limited_add(&c, bound, amount),
				     plain_limited_add(&r, cpu, bound, amount, batch));
		}
		agree(&c, &r);
		stop(&c);
	}
}

Test(percpu_counter, limited_add_without_limits)
{
	struct percpu_counter c;

	start(&c, 2, 0);
	cr_assert(percpu_counter_limited_add(&c, INT64_MAX, 1l << 40));
	cr_assert(percpu_counter_limited_add(&c, INT64_MIN, -(1l << 40)));
	cr_assert(percpu_counter_limited_add(&c, INT64_MAX, 1));
	cr_assert(percpu_counter_limited_add(&c, INT64_MIN, -1));
	cr_assert(percpu_counter_limited_add(&c, -1, 0), "nothing is always right");
	cr_assert_not(percpu_counter_limited_add(&c, INT64_MIN, 1));
	cr_assert_not(percpu_counter_limited_add(&c, INT64_MAX, -1));
	cr_assert_eq(percpu_counter_sum(&c), 0);
	stop(&c);
}

Test(percpu_counter, limited_add_counts_online_cpus)
{
	struct percpu_counter c;

	start(&c, 64, 0);
	for (unsigned int cpu = 2; cpu < 64; cpu++)
		cr_assert_eq(percpu_cpu_down(area, cpu), 0);
	cr_assert(percpu_counter_limited_add(&c, 64, 32), "2 * 32 may be unknown");
	cr_assert_eq(percpu_counter_read(&c), 0);
	percpu_set_cpu(1);
	cr_assert(percpu_counter_limited_add(&c, 63, 31), "one less: it has to sum");
	cr_assert_eq(percpu_counter_read(&c), 31);
	cr_assert_not(percpu_counter_limited_add(&c, 63, 1));
	cr_assert_eq(percpu_counter_sum(&c), 63);
	stop(&c);
}

/* --- in rseq mode --- */

Test(percpu_counter, machine_cpus)
{
	struct percpu_counter c = { 0 };
	unsigned int cpus = percpu_machine_cpus();
	cpu_set_t here;

	area = percpu_area_new(cpus, 64, PERCPU_RSEQ);
	if (!area)
		cr_skip("this process has no registered rseq area");
	cr_assert_eq(percpu_counter_init(&c, area, 0), 0);
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	cr_assert_eq(sched_setaffinity(0, sizeof(here), &here), 0);
	for (int i = 0; i < 100; i++)
		percpu_counter_inc(&c);
	cr_assert_eq(percpu_counter_read(&c),
		     100 / percpu_counter_batch(area) * percpu_counter_batch(area));
	cr_assert_eq(percpu_counter_sum(&c), 100);
	percpu_counter_sync(&c);
	cr_assert_eq(percpu_counter_read(&c), 100);
	cr_assert(percpu_counter_limited_add(&c, 10000, 7));
	cr_assert_eq(percpu_counter_read(&c), 100);
	cr_assert(percpu_counter_limited_add(&c, 108, 1));
	cr_assert_eq(percpu_counter_read(&c), 108);
	cr_assert_not(percpu_counter_limited_add(&c, 108, 1));
	percpu_set_cpu(0); /* no slot: all goes to the count, and limits are kept */
	percpu_counter_inc(&c);
	cr_assert_eq(percpu_counter_read(&c), 109);
	cr_assert(percpu_counter_limited_add(&c, 10000, 1));
	cr_assert_eq(percpu_counter_read(&c), 110);
	percpu_counter_destroy(&c);
	cr_assert_eq(percpu_used(area), 0);
}
