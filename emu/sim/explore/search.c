/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Exploration that is not complete, replay, and how a failing interleaving is made short. */
#include <string.h>

#include "emu/sim/explore/engine.h"

#define SHRINK_RUNS 50000 /* interleavings that are tried for each number of preemptions */

static uint64_t random64(void)
{
	eng.rng ^= eng.rng << 13;
	eng.rng ^= eng.rng >> 7;
	eng.rng ^= eng.rng << 17;
	return eng.rng;
}

/* Whoever ran goes on as long as it can; store buffers are left alone until nobody else can. */
static int go_on(mask_t enabled)
{
	if (eng.running != MAIN && enabled >> eng.running & 1)
		return eng.running;
	return __builtin_ctz(enabled);
}

/* --- at most so many preemptions --- */

static int choose_bounded(mask_t enabled)
{
	struct node *n = &nodes[eng.depth];
	const struct node *last = n - 1;

	if (eng.depth < eng.nr_nodes)
		return n->chosen;
	n->before = eng.running;
	n->before_goes_on = n->before != MAIN && enabled >> n->before & 1;
	n->preemptions = 0;
	if (eng.depth)
		n->preemptions =
			last->preemptions + (last->before_goes_on && last->chosen != last->before);
	n->chosen = go_on(enabled);
	n->todo = enabled & ~(1 << n->chosen);
	if (n->before_goes_on && n->preemptions >= eng.bound)
		n->todo = 0;
	eng.nr_nodes++;
	return n->chosen;
}

static bool next_bounded(void)
{
	for (; eng.nr_nodes; eng.nr_nodes--) {
		struct node *n = &nodes[eng.nr_nodes - 1];

		if (!n->todo)
			continue;
		n->chosen = __builtin_ctz(n->todo);
		n->todo &= n->todo - 1;
		return true;
	}
	return false;
}

/* --- at random --- */

static int choose_random(mask_t enabled)
{
	unsigned int nth = random64() % __builtin_popcount(enabled);

	while (nth--)
		enabled &= enabled - 1;
	return __builtin_ctz(enabled);
}

/*
 * PCT: who has the highest priority runs; at a few random steps it gets the lowest. (Burckhardt,
 * Kothari, Musuvathi, Nagarakatte: A Randomized Scheduler with Probabilistic Guarantees of Finding
 * Bugs, 2010)
 */
static void pct_begin(void)
{
	for (int i = 0; i < IDS_MAX; i++)
		eng.priority[i] = 100 + random64() % 100000;
	for (int i = 0; i < 3; i++)
		eng.change[i] = random64() % (eng.deepest + 1);
}

static int pct_highest(mask_t enabled)
{
	int best = __builtin_ctz(enabled);

	for (; enabled; enabled &= enabled - 1)
		if (eng.priority[__builtin_ctz(enabled)] > eng.priority[best])
			best = __builtin_ctz(enabled);
	return best;
}

static int choose_pct(mask_t enabled)
{
	int id;

	if (!eng.depth)
		pct_begin();
	id = pct_highest(enabled);
	for (int i = 0; i < 3; i++)
		if (eng.change[i] == eng.depth)
			eng.priority[id] = i;
	return pct_highest(enabled);
}

/* --- as it was --- */

static int choose_replay(mask_t enabled)
{
	int id;

	if (eng.depth >= eng.replay_n)
		return go_on(enabled);
	id = eng.replay[eng.depth];
	if (enabled >> id & 1)
		return id;
	eng.replay_wrong = true;
	return go_on(enabled);
}

int search_choose(mask_t enabled)
{
	switch (eng.mode) {
	case MODE_BOUND:
		return choose_bounded(enabled);
	case MODE_RANDOM:
		return choose_random(enabled);
	case MODE_PCT:
		return choose_pct(enabled);
	default:
		return choose_replay(enabled);
	}
}

bool search_next(void)
{
	switch (eng.mode) {
	case MODE_DPOR:
		return dpor_next();
	case MODE_BOUND:
		return next_bounded();
	default:
		return eng.mode != MODE_REPLAY;
	}
}

void search_restart(enum mode mode)
{
	eng.mode = mode;
	eng.nr_nodes = 0;
}

/* --- shrinking --- */

void search_keep(void)
{
	memcpy(eng.replay, eng.schedule, eng.schedule_n * sizeof(*eng.replay));
	eng.replay_n = eng.schedule_n;
}

static bool replay_fails(void)
{
	search_restart(MODE_REPLAY);
	vcpu_run();
	return eng.verdict == FAILED;
}

/* The first failure with at most @bound preemptions, if one turns up in time. */
static bool fails_within(unsigned int bound)
{
	unsigned int runs = 0;

	eng.bound = bound;
	search_restart(MODE_BOUND);
	do {
		vcpu_run();
		if (eng.verdict == FAILED)
			return true;
	} while (++runs < SHRINK_RUNS && !eng.interrupted && search_next());
	return false;
}

static unsigned int switches(void)
{
	unsigned int n = 0;

	for (unsigned int i = 1; i < eng.replay_n; i++)
		n += eng.replay[i] != eng.replay[i - 1];
	return n;
}

/* Of a failing schedule only as much as is needed: the rest follows by itself. */
static void cut_tail(void)
{
	unsigned int all = eng.replay_n;

	for (eng.replay_n = 0; eng.replay_n < all; eng.replay_n++)
		if (replay_fails())
			return;
}

void search_shrink(void)
{
	unsigned int before;

	search_keep();
	before = switches();
	for (unsigned int bound = 0; bound < before && bound <= 4; bound++) {
		if (!fails_within(bound))
			continue;
		search_keep();
		break;
	}
	cut_tail();
}
