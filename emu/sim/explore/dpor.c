/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Complete exploration with partial-order reduction: source sets and sleep sets (Abdulla, Aronis,
 * Jonsson, Sagonas: Optimal Dynamic Partial Order Reduction, POPL 2014, algorithm 1).
 *
 * Steps that touch the same bytes, one of them writing, are in conflict; the order of all others
 * does not matter. Vector clocks say which steps of an interleaving happen before which. Two steps
 * in conflict with nothing in between that orders them are a race: another interleaving has them
 * the other way round, and a thread that begins one is put on the list of the node before the
 * first. A thread whose step has been explored sleeps in the siblings until something in conflict
 * with that step is done.
 *
 * What is particular here: a step may be disabled until another one is taken (a wait for a change,
 * a locked operation with a full store buffer). Such a pair is in conflict, but cannot be turned
 * round; then the only thread to begin with is one that cannot take a step, and it is left out.
 * And a thread that is killed never takes the step that its death is in conflict with; that race is
 * looked at when the interleaving has ended.
 */
#include <string.h>

#include "emu/sim/explore/engine.h"

struct node nodes[STEPS_MAX + 1];

bool accesses_conflict(const struct access *a, int a_id, const struct access *b, int b_id)
{
	if (!a->write && !b->write)
		return false;
	if (a->addr >= b->addr + b->size || b->addr >= a->addr + a->size)
		return false;
	return (!a->own || b_id == a_id + FLUSHER) && (!b->own || a_id == b_id + FLUSHER);
}

static bool conflict(const struct access *a, unsigned int a_n, int a_id, const struct access *b,
		     unsigned int b_n, int b_id)
{
	for (unsigned int i = 0; i < a_n; i++)
		for (unsigned int j = 0; j < b_n; j++)
			if (accesses_conflict(&a[i], a_id, &b[j], b_id))
				return true;
	return false;
}

void clock_join(uint16_t *clock, const uint16_t *other)
{
	for (int i = 0; i < IDS_MAX; i++)
		if (clock[i] < other[i])
			clock[i] = other[i];
}

/* --- who sleeps --- */

static void footprint_of(struct footprint *f, const struct event *e)
{
	f->all = e->forced || e->n > FOOTPRINT_MAX;
	f->n = f->all ? 0 : e->n;
	memcpy(f->a, &pool[e->first], f->n * sizeof(*f->a));
}

/* Threads that slept before step @e, or have been tried instead of it, and sleep on after it. */
static void sleep_on(struct node *next, const struct node *n, const struct event *e)
{
	mask_t candidates = (n->sleep | n->done) & ~(1 << e->id);

	next->sleep = 0;
	if (e->forced)
		return;
	for (; candidates; candidates &= candidates - 1) {
		int id = __builtin_ctz(candidates);
		const struct footprint *f = &n->slept[id];

		if (f->all || conflict(f->a, f->n, id, &pool[e->first], e->n, e->id))
			continue;
		next->sleep |= 1 << id;
		next->slept[id] = *f;
	}
}

int dpor_choose(mask_t enabled)
{
	struct node *n = &nodes[eng.depth];
	mask_t awake;

	if (eng.depth < eng.nr_nodes)
		return n->chosen;
	n->enabled = enabled;
	n->done = n->sleep = 0;
	if (eng.depth)
		sleep_on(n, n - 1, &events[eng.depth - 1]);
	awake = enabled & ~n->sleep;
	if (!awake)
		return MAIN;
	n->chosen = eng.running != MAIN && awake >> eng.running & 1 ? eng.running :
								      __builtin_ctz(awake);
	n->todo = 1 << n->chosen;
	eng.nr_nodes++;
	return n->chosen;
}

/* --- races --- */

/*
 * Threads that can begin what follows step @i without happening after it, step @e at the present
 * depth included. @clock: what happens before @e, but for step @i.
 */
static mask_t beginners(unsigned int i, const struct event *e, const uint16_t *clock)
{
	const struct event *before = &events[i];
	uint16_t first[IDS_MAX];
	mask_t seen = 0, can = 0;

	memset(first, 0xff, sizeof(first));
	for (unsigned int k = i + 1; k <= eng.depth; k++) {
		const struct event *at = k < eng.depth ? &events[k] : e;
		const uint16_t *c = k < eng.depth ? at->clock : clock;
		bool begins = !(seen >> at->id & 1);

		if (k < eng.depth && c[before->id] >= before->seq)
			continue;
		for (int id = 0; begins && id < IDS_MAX; id++)
			begins = id == at->id || c[id] < first[id];
		if (begins)
			can |= 1 << at->id;
		if (!(seen >> at->id & 1))
			first[at->id] = at->seq;
		seen |= 1 << at->id;
	}
	return can;
}

static void race(unsigned int i, const struct event *e, const uint16_t *clock)
{
	struct node *n = &nodes[i];
	mask_t can;

	if (events[i].forced)
		return;
	can = beginners(i, e, clock) & n->enabled;
	if (!can || can & (n->todo | n->done | n->sleep))
		return;
	n->todo |= can >> e->id & 1 ? 1 << e->id : can & -can;
}

void dpor_never(int id, unsigned int i, const uint16_t *clock)
{
	struct event e = { .id = id, .seq = clock[id] + 1 };

	race(i, &e, clock);
}

void dpor_step(struct event *e)
{
	uint16_t clock[IDS_MAX];

	e->seq = e->clock[e->id] + 1;
	memcpy(clock, e->clock, sizeof(clock));
	for (unsigned int i = eng.depth; i-- > 0;) {
		const struct event *other = &events[i];

		if (clock[other->id] >= other->seq)
			continue;
		if (e->forced) {
			clock_join(clock, other->clock);
			continue;
		}
		if (!conflict(&pool[e->first], e->n, e->id, &pool[other->first], other->n,
			      other->id))
			continue;
		race(i, e, clock);
		clock_join(clock, other->clock);
	}
	memcpy(e->clock, clock, sizeof(clock));
	e->clock[e->id] = e->seq;
	footprint_of(&nodes[eng.depth].slept[e->id], e);
}

bool dpor_next(void)
{
	while (eng.nr_nodes) {
		struct node *n = &nodes[eng.nr_nodes - 1];
		mask_t left;

		n->done |= 1 << n->chosen;
		left = n->todo & ~(n->done | n->sleep);
		if (left) {
			n->chosen = __builtin_ctz(left);
			return true;
		}
		eng.nr_nodes--;
	}
	return false;
}
