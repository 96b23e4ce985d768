/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Split counters: opened, moved from, joined and read, near their limits and by those who die. */
#include <kpemu/split_counter.h>

#include "emu/sim/explore/explore.h"
#include "emu/sim/explore/tests/monitor.h"

#define SLOTS      3
#define ROUND      12 /* steps of a look and what follows, but for ... */
#define ROUND_SLOT 5 /* those on each slot */

static struct {
	struct split_counter c;
	struct {
		uint64_t word, pad[7];
	} slot[SLOTS];
	unsigned int nr; /* slots that there are */
} t EXPLORE_STATE;

/*
 * What is done: '+' charges one, '2' two, '-' releases one, '_' two, 'k' charges one whatever the
 * limit, 'b' does "++++", 'r' reads, 'j' joins, 'n' makes one slot more; @prepare has the
 * CPU that does it before each.
 */
struct scene {
	int batch; /* 0: stocks of @stock */
	unsigned int stock, slots; /* slots: 0: one for each CPU */
	const char *prepare, *program[EXPLORE_CPUS_MAX];
	long limit[EXPLORE_CPUS_MAX];
	bool more; /* the last slot is not there yet */
};
static const struct scene *scene;

static uint64_t *slot(const struct split *s, unsigned int i)
{
	(void)s;
	return &t.slot[i].word;
}

static unsigned int slots_now(const struct split *s)
{
	(void)s;
	return READ_ONCE(t.nr);
}

static struct split split_of(unsigned int cpu)
{
	unsigned int nr = scene->slots ? scene->slots : explore_cpus();

	return (struct split){
		.c = &t.c,
		.slot = slot,
		.slots = scene->more ? slots_now : NULL,
		.mine = &t.slot[cpu % nr].word,
		.index = cpu % nr,
		.nr = scene->more ? READ_ONCE(t.nr) : nr,
		.batch = scene->batch,
		.stock = scene->stock,
	};
}

static bool charge(unsigned int cpu, char what)
{
	struct split s = split_of(cpu);
	long use;

	return split_charge(&s, what == '2' ? 2 : 1, scene->limit[cpu], what == 'k', &use);
}

static bool others(unsigned int cpu, char what)
{
	struct split s = split_of(cpu);

	switch (what) {
	case '-':
		split_uncharge(&s, 1);
		break;
	case '_':
		split_uncharge(&s, 2);
		break;
	case 'r':
		split_read(&s);
		break;
	case 'j':
		split_join(&s);
		break;
	case 'n':
		xchg(&t.nr, READ_ONCE(t.nr) + 1);
		break;
	}
	return true;
}

static long amount(char what)
{
	return what == '-' ? -1 : what == '_' ? -2 : what == '2' ? 2 : what == '+' || what == 'k';
}

static bool operate(unsigned int cpu, char what)
{
	return amount(what) > 0 ? charge(cpu, what) : others(cpu, what);
}

static void scene_setup(const struct scene *of)
{
	struct split all;
	long sum = 0;

	scene = of;
	t.nr = (scene->slots ? scene->slots : explore_cpus()) - scene->more;
	for (const char *p = scene->prepare; *p; p += 2) {
		explore_check(operate(*p - '0', p[1]));
		sum += amount(p[1]);
	}
	all = split_of(0);
	all.nr += scene->more;
	explore_equal(monitor_use(monitor_split(&all)), sum);
}

/* P6: a step of another operation that ends makes one look again, and looks are O(slots). */
static void check_steps(unsigned int cpu, unsigned int steps)
{
	unsigned int rounds = 2;

	for (unsigned int i = 0; i < explore_cpus(); i++)
		for (const char *p = i == cpu ? NULL : scene->program[i]; p && *p; p++)
			rounds += *p == 'b' ? 4 : 1;
	explore_check(steps <= rounds * (ROUND + ROUND_SLOT * SLOTS));
}

static void scene_run(unsigned int cpu, const char *p, unsigned int n)
{
	for (unsigned int i = 0; i < n && p && p[i]; i++) {
		unsigned int before = explore_steps(NULL, 0);

		if (p[i] == 'b') {
			scene_run(cpu, "++++", 4);
			continue;
		}
		monitor_begin(cpu, amount(p[i]), p[i] == 'k', &scene->limit[cpu]);
		monitor_end(cpu, operate(cpu, p[i]));
		check_steps(cpu, explore_steps(NULL, 0) - before);
	}
}

static void scene_thread(unsigned int cpu)
{
	if (cpu == explore_cpus())
		explore_kill(0);
	else
		scene_run(cpu, scene->program[cpu], explore_ops());
}

static void scene_check(void)
{
	struct split s = split_of(0);
	long use = monitor_use(0);

	monitor_check();
	explore_equal(split_read(&s), use);
	split_join(&s);
	explore_equal(monitor_use(0), use);
	explore_equal(split_read(&s), use);
	explore_equal(split_held(&s), 0);
}

#define SPLIT_SCENE(ident, deaths, title, what, ...) \
	SCENE_OF(ident, title, what, scene_thread, scene_check, monitor_step, deaths, __VA_ARGS__)
#define SCENE(ident, title, what, ...)       SPLIT_SCENE(ident, 0, title, what, __VA_ARGS__)
#define SCENE_DEATH(ident, title, what, ...) SPLIT_SCENE(ident, 1, title, what, __VA_ARGS__)

SCENE(stock_open, "split-stock-open", "slots are opened, and get stocks, up to the limit",
      { .stock = 2, .prepare = "0+0+", .program = { "++", "+-", "+" }, .limit = { 4, 4, 4 } });
SCENE(stock_full, "split-stock-full", "stocks are spent up to the limit, and taken in there",
      { .stock = 2,
	.prepare = "0+0+0+1+",
	.program = { "++-", "+-+", "++" },
	.limit = { 6, 6, 6 } });
SCENE(stock_back, "split-stock-back", "releases: stocks that are full are taken in",
      { .stock = 1,
	.prepare = "0+0+0+1+1+",
	.program = { "--+", "-+-", "--" },
	.limit = { 8, 8, 8 } });
SCENE(stock_mixed, "split-stock-mixed", "a stock under a high limit, and charges with a low one",
      { .stock = 2, .prepare = "1+1+1+", .program = { "++", "++-", "+" }, .limit = { 4, 8, 5 } });
SCENE(stock_keep, "split-stock-keep", "charges that are kept, above the ceiling too",
      { .stock = 1, .prepare = "0+0+0+1+", .program = { "k+", "k-", "+" }, .limit = { 5, 5, 5 } });
SCENE(stock_two, "split-stock-two", "charges and releases of two, which take no slot",
      { .stock = 2, .prepare = "0+0+0+1+", .program = { "2_", "++", "+" }, .limit = { 7, 7, 7 } });
SCENE(stock_again, "split-stock-again", "stocks that have run out are filled again",
      { .stock = 1, .prepare = "0+0+0+1+", .program = { "+-", "+", "+" }, .limit = { 9, 9, 9 } });
SCENE(stock_last, "split-stock-last", "the last stock is smaller, up to the ceiling",
      { .stock = 2, .prepare = "0+0+0+", .program = { "+", "++", "+" }, .limit = { 5, 5, 5 } });
SCENE(stock_shared, "split-stock-shared", "a slot of two threads, one of which has a low limit",
      { .stock = 2, .slots = 1, .prepare = "1+1+1+", .program = { "+", "+" }, .limit = { 3, 8 } });
SCENE(batch_open, "split-batch-open", "slots are opened, and add differences",
      { .batch = 2, .prepare = "0+0+", .program = { "++", "+-", "+" }, .limit = { 7, 7, 7 } });
SCENE(batch_full, "split-batch-full", "differences reach the batch, and the limit",
      { .batch = 2, .prepare = "0+0+0+1+", .program = { "++", "+-", "++" }, .limit = { 7, 7, 7 } });
SCENE(batch_limit, "split-batch-limit", "two charges for the last place, with all in differences",
      { .batch = 2,
	.prepare = "0+0+0+1+0202",
	.program = { "+", "+-", "+" },
	.limit = { 9, 9, 9 } });
SCENE(batch_back, "split-batch-back", "releases: differences reach the batch from above",
      { .batch = 2,
	.prepare = "0+0+0+1+0-1-",
	.program = { "--", "-+", "--" },
	.limit = { 7, 7, 7 } });
SCENE(batch_mixed, "split-batch-mixed",
      "differences under a high limit, and charges with a low one",
      { .batch = 2, .prepare = "1+1+1+", .program = { "++", "+-", "+" }, .limit = { 4, 7, 5 } });
SCENE(batch_shared, "split-batch-shared",
      "a slot of two threads: one takes in what the other has put there",
      { .batch = 2,
	.slots = 1,
	.prepare = "0202020+0-0-",
	.program = { "-", "++" },
	.limit = { 8, 8 } });
SCENE(batch_burst, "split-batch-burst",
      "a slot of two threads: one is about to take the other's in",
      { .batch = 3,
	.slots = 1,
	.prepare = "0202020+0-0-0-",
	.program = { "-", "b++" },
	.limit = { 9, 9 } });
SCENE(batch_again, "split-batch-again", "joined again, with a slot that has not been open since",
      { .batch = 2,
	.prepare = "0+0+1+1j0+0+0+",
	.program = { "j", "+-", "+" },
	.limit = { 12, 12, 12 } });
SCENE(batch_low, "split-batch-low", "a slot of two threads, one of which has a low limit",
      { .batch = 3, .slots = 1, .prepare = "1+1+", .program = { "+", "-" }, .limit = { 2, 8 } });
SCENE(stock_more, "split-stock-more", "a slot appears, and is opened, while others join",
      { .stock = 1,
	.slots = 2,
	.more = true,
	.prepare = "0+0+0+",
	.program = { "+", "n+", "+" },
	.limit = { 4, 5, 5 } });
SCENE(stock_join, "split-stock-join", "who needs all slots closed, who reads, and who charges",
      { .stock = 2, .prepare = "0+0+0+1+", .program = { "jr", "+-", "r" }, .limit = { 6, 6, 6 } });
SCENE(batch_join, "split-batch-join", "the same with differences",
      { .batch = 2, .prepare = "0+0+0+1+", .program = { "jr", "+-", "r" }, .limit = { 8, 8, 8 } });

/* CPU 0 is killed at any step, and others find its work. */
SCENE_DEATH(stock_death, "split-stock-death", "a death at any step of a join, or of a grant",
	    { .stock = 2,
	      .prepare = "0+0+0+1+0+",
	      .program = { "+", "+", "+" },
	      .limit = { 6, 6, 6 } });
SCENE_DEATH(stock_death_open, "split-stock-death-open", "a death while the slots are opened",
	    { .stock = 1, .prepare = "0+0+", .program = { "+", "+" }, .limit = { 4, 4 } });
SCENE_DEATH(
	batch_death, "split-batch-death", "a death at any step of a join, with differences",
	{ .batch = 2, .prepare = "0+0+0+1+", .program = { "+", "+", "+" }, .limit = { 6, 6, 6 } });
SCENE_DEATH(batch_death_back, "split-batch-death-back",
	    "a death while a full difference is taken in",
	    { .batch = 2,
	      .prepare = "0+0+0+1+0-1-0-",
	      .program = { "-", "-", "-" },
	      .limit = { 7, 7, 7 } });
