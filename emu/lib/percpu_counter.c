/* SPDX-License-Identifier: GPL-2.0-or-later */
/* percpu_counter: what does not belong into the header. */
#include <errno.h>

#include <kpemu/percpu_counter.h>

#include "emu/lib/percpu.h"

/* Where the area names the owner of the counter's unit. */
static int64_t *owner_of(const struct percpu_counter *c)
{
	const struct percpu_area *area = percpu_ptr_area(&c->counters);

	return &percpu_owners(area)[percpu_ptr_off(&c->counters) / PERCPU_UNIT];
}

static void init_one(struct percpu_counter *c, struct percpu_area *area, int64_t amount, long off)
{
	int64_t *owner;

	atomic64_set(&c->count, amount);
	percpu_ptr_set(&c->counters, area, off);
	owner = owner_of(c);
	WRITE_ONCE(*owner, (char *)c - (char *)owner);
}

int percpu_counter_init_many(struct percpu_counter *c, struct percpu_area *area, int64_t amount,
			     unsigned int n)
{
	long off;

	if (!c || !area || !n)
		return -EINVAL;
	for (unsigned int i = 0; i < n; i++)
		if (percpu_counter_initialized(&c[i]))
			return -EINVAL;
	off = percpu_alloc(area, n * sizeof(int32_t), sizeof(int32_t));
	if (off < 0)
		return off;
	for (unsigned int i = 0; i < n; i++)
		init_one(&c[i], area, amount, off + i * sizeof(int32_t));
	return 0;
}

static void destroy_one(struct percpu_counter *c)
{
	struct percpu_area *area = percpu_ptr_area(&c->counters);
	long off = percpu_ptr_off(&c->counters);

	WRITE_ONCE(*owner_of(c), 0);
	percpu_ptr_clear(&c->counters);
	percpu_free(area, off, sizeof(int32_t));
}

void percpu_counter_destroy_many(struct percpu_counter *c, unsigned int n)
{
	for (unsigned int i = 0; c && i < n; i++)
		if (percpu_counter_initialized(&c[i]))
			destroy_one(&c[i]);
}

int64_t percpu_counter_sum(const struct percpu_counter *c)
{
	int64_t cpus = percpu_sum32(&c->counters);

	return percpu_counter_read(c) + cpus;
}

void percpu_counter_sync(struct percpu_counter *c)
{
	int32_t here = percpu_take32(&c->counters);

	if (here)
		atomic64_add_return(here, &c->count);
}

void percpu_counter_set(struct percpu_counter *c, int64_t amount)
{
	const struct percpu_area *area = percpu_ptr_area(&c->counters);

	for (unsigned int cpu = 0; cpu < area->nr_cpus; cpu++)
		percpu_xchg32(&c->counters, cpu, 0);
	atomic64_set(&c->count, amount);
}

/* The most that @batch lets the online CPUs keep to themselves. */
static int64_t unknown(const struct percpu_counter *c, int32_t batch)
{
	return (int64_t)batch * READ_ONCE(percpu_ptr_area(&c->counters)->nr_online);
}

static int sign(int64_t v)
{
	return (v > 0) - (v < 0);
}

int __percpu_counter_compare(const struct percpu_counter *c, int64_t rhs, int32_t batch)
{
	int64_t rough = percpu_counter_read(c) - rhs;

	if (batch > 0 && (rough < 0 ? -rough : rough) > unknown(c, batch))
		return sign(rough);
	return sign(percpu_counter_sum(c) - rhs);
}

/* Does @v keep @limit, seen in the direction of @amount? */
static bool keeps(int64_t v, int64_t limit, int64_t amount)
{
	return amount > 0 ? v <= limit : v >= limit;
}

/*
 * May @amount be added to @count and what is on the CPUs? The CPUs are asked only if the answer
 * depends on them.
 */
static bool may_add(const struct percpu_counter *c, int64_t count, int64_t limit, int64_t amount,
		    int64_t slack)
{
	int64_t v = count + amount;

	if (amount < 0)
		slack = -slack;
	if (!keeps(v - slack, limit, amount))
		return false;
	if (keeps(v + slack, limit, amount))
		return true;
	return keeps(v + percpu_sum32(&c->counters), limit, amount);
}

bool __percpu_counter_limited_add(struct percpu_counter *c, int64_t limit, int64_t amount,
				  int32_t batch)
{
	int64_t count = percpu_counter_read(c), slack;

	if (!amount || batch < 1)
		return !amount;
	slack = unknown(c, batch);
	if (keeps(count + (amount > 0 ? slack : -slack), limit, amount) &&
	    percpu_add_within32(&c->counters, amount, batch))
		return true;
	count = percpu_counter_read(c);
	do {
		if (!may_add(c, count, limit, amount, slack))
			return false;
	} while (!try_cmpxchg(&c->count.counter, &count, count + amount));
	percpu_counter_sync(c);
	return true;
}

void percpu_counter_cpu_dead(struct percpu_area *area, unsigned int cpu)
{
	int64_t *owners = percpu_owners(area);

	for (unsigned int u = 0; u < area->run / PERCPU_UNIT; u++) {
		int64_t where = READ_ONCE(owners[u]);
		struct percpu_counter *c = percpu_away(&owners[u], where);
		int32_t left;

		if (!where)
			continue;
		left = percpu_xchg32(&c->counters, cpu, 0);
		if (left)
			atomic64_add_return(left, &c->count);
	}
}
