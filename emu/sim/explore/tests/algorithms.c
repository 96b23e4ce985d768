/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The counter algorithms of ucounts on one level and on two, where two namespaces have one creator. */
#include <limits.h>
#include <stdlib.h>

#include <kpemu/percpu.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "emu/sim/explore/explore.h"
#include "emu/sim/explore/tests/monitor.h"

#define PENDING UCOUNT_RLIMIT_SIGPENDING

/* Records, and their numbers as counters: of the creator, and of a user in each of two namespaces. */
enum {
	CREATOR,
	A,
	B,
	RECORDS,
};

static struct ucounts *record[RECORDS];

/*
 * A scene: 'c', 'a' and 'b' charge to these records and 'C', 'A' and 'B' release; 'x' charges to A
 * whatever the limits. @prepare has CPU and operation, and how often.
 */
struct scene {
	const char *alg, *prepare, *program[EXPLORE_CPUS_MAX];
	long limit[RECORDS]; /* of who charges there directly */
	long max[RECORDS]; /* of the namespaces A and B; both 0: there are none */
	bool tasks; /* are counted, not signals */
};
static const struct scene *scene;

static void limits_of(unsigned int at, long *limit)
{
	for (unsigned int i = 0; i < RECORDS; i++)
		limit[i] = MONITOR_ABSENT;
	limit[CREATOR] = scene->max[at];
	limit[at] = scene->limit[at];
}

static unsigned int record_of(char what)
{
	switch (what) {
	case 'c':
	case 'C':
		return CREATOR;
	case 'b':
	case 'B':
		return B;
	default:
		return A;
	}
}

static bool operate(char what)
{
	enum rlimit_type type = scene->tasks ? UCOUNT_RLIMIT_NPROC : PENDING;
	struct ucounts *uc = record[record_of(what)];

	if (what < 'a') {
		dec_rlimit_ucounts(uc, type, 1);
		return true;
	}
	return charge_rlimit_ucounts(uc, type, 1, scene->limit[record_of(what)], what == 'x', NULL);
}

static void watch(struct ucounts *uc)
{
	struct split s;

	if (ucounts_ops()->split && ucounts_ops()->split(&s, uc, NULL, PENDING))
		monitor_split(&s);
	else
		monitor_word(&uc->rlimit[PENDING].counter);
}

/* "0c3 1a": three times on CPU 0, once on CPU 1. */
static void prepare(const char *p)
{
	while (*p) {
		int cpu = *p++ - '0', n = 0;
		char what = *p++;

		for (; *p >= '0' && *p <= '9'; p++)
			n = 10 * n + *p - '0';
		percpu_set_cpu(cpu);
		for (int i = 0; i < (n ? n : 1); i++)
			explore_check(operate(what));
		while (*p == ' ')
			p++;
	}
}

static void make_records(void)
{
	record[CREATOR] = alloc_ucounts(INIT_USER_NS, 1000);
	for (unsigned int i = A; i < RECORDS && scene->max[A]; i++)
		record[i] = alloc_ucounts(explore_user_ns(record[CREATOR], scene->max[i]), 1000);
}

static void scene_setup(const struct scene *of)
{
	int alg = ucounts_alg_of(of->alg);

	if (alg < 0)
		explore_fail("no algorithm %s in this build", of->alg);
	scene = of;
	explore_world();
	world->ucounts_alg = alg;
	world->nr_cpus = explore_cpus();
	make_records();
	prepare(scene->prepare);
	for (unsigned int i = 0; i < RECORDS && record[i]; i++)
		watch(record[i]);
}

static void run(unsigned int cpu)
{
	const char *p = scene->program[cpu];

	for (unsigned int i = 0; i < explore_ops() && p && p[i]; i++) {
		long limit[RECORDS];

		limits_of(record_of(p[i]), limit);
		monitor_begin(cpu, p[i] < 'a' ? -1 : 1, p[i] == 'x', limit);
		monitor_end(cpu, operate(p[i]));
	}
}

static void scene_check(void)
{
	monitor_check();
	for (unsigned int i = 0; i < RECORDS && record[i]; i++)
		explore_equal(get_rlimit_value(record[i], PENDING), monitor_use(i));
}

#define SCENE(ident, title, what, ...) \
	SCENE_OF(ident, title, what, run, scene_check, monitor_step, 0, __VA_ARGS__)

/* --- one level --- */

#define FLAT "charges and releases at one level, near the limit"

SCENE(flat_atomic, "ucounts-flat-atomic", FLAT,
      { .alg = "atomic", .prepare = "0c3", .program = { "cCc", "ccC", "cc" }, .limit = { 5 } });
SCENE(flat_percpu, "ucounts-flat-percpu", FLAT,
      { .alg = "percpu", .prepare = "0c34 1c31", .program = { "cC", "cc", "cc" }, .limit = { 67 } });
SCENE(flat_stock, "ucounts-flat-stock", FLAT,
      { .alg = "stock", .prepare = "0c3 1c1", .program = { "cCc", "ccC", "cc" }, .limit = { 6 } });

#define LAST "two charges of the last unit: no slot is open, and there is no room to open one"

SCENE(last_percpu, "ucounts-last-percpu", LAST,
      { .alg = "percpu", .prepare = "0c2", .program = { "cCc", "ccC", "cC" }, .limit = { 3 } });
SCENE(last_stock, "ucounts-last-stock", LAST,
      { .alg = "stock", .prepare = "0c2", .program = { "cCc", "ccC", "cC" }, .limit = { 3 } });

/* --- two namespaces of one creator: A has the low limit, B the high one --- */

#define SIBLINGS "namespaces with a low and with a high limit against one creator's record"

SCENE(siblings_atomic, "ucounts-siblings-atomic", SIBLINGS,
      { .alg = "atomic",
	.prepare = "0a 1b",
	.program = { "aaA", "bcB", "xA" },
	.limit = { 9, 9, 9 },
	.max = { 9, 3, 6 } });
SCENE(siblings_percpu, "ucounts-siblings-percpu", SIBLINGS,
      { .alg = "percpu",
	.prepare = "0a2 1b3",
	.program = { "a", "b", "a" },
	.limit = { 999, 999, 999 },
	.max = { 999, 6, 70 } });
SCENE(siblings_cache, "ucounts-siblings-cache", SIBLINGS,
      { .alg = "cache",
	.prepare = "0a4",
	.program = { "a", "b", "c" },
	.limit = { 9, 9, 9 },
	.max = { 9, 5, 9 } });
SCENE(siblings_stock, "ucounts-siblings-stock", SIBLINGS,
      { .alg = "stock",
	.prepare = "0a4",
	.program = { "a", "b", "c" },
	.limit = { 9, 9, 9 },
	.max = { 9, 5, 9 } });

SCENE(opened_percpu, "ucounts-opened-percpu",
      "B finds room to open slots, while A adds where none was open",
      { .alg = "percpu",
	.prepare = "0a2",
	.program = { "a", "bb", "a" },
	.limit = { 9999, 9999, 9999 },
	.max = { 9999, 3, 9999 } });

/* --- P8: lines --- */

/* Per operation in steady state, the accesses to the line of the creator's counter. */
static void line_thread(unsigned int cpu, unsigned int want)
{
	const void *line = want ? (void *)&record[CREATOR]->rlimit[PENDING] :
				  (void *)&record[CREATOR]->split[UCOUNT_SPLIT_SIGPENDING];
	const char *p = scene->program[cpu];
	unsigned int before;

	operate(p[0]);
	operate(p[1]);
	before = explore_steps(line, want ? 8 : 64);
	for (unsigned int i = 0; i < explore_ops(); i++)
		operate(p[i % 2]);
	explore_equal(explore_steps(line, want ? 8 : 64) - before, want * explore_ops());
}

static void line_of_none(unsigned int cpu)
{
	line_thread(cpu, 0);
}

static void line_of_each(unsigned int cpu)
{
	line_thread(cpu, 1);
}

#define LINE "with room, an operation takes no step in the line of the creator's counter"
#define LINE_SCENE(ident, title, what, thread, ...) \
	SCENE_OF(ident, title, what, thread, NULL, NULL, 0, __VA_ARGS__)

LINE_SCENE(line_atomic, "ucounts-line-atomic", "one step in it for each operation", line_of_each,
	   { .alg = "atomic",
	     .prepare = "",
	     .program = { "aA", "bB", "bB" },
	     .limit = { 999, 999, 999 },
	     .max = { 999, 999, 999 } });
LINE_SCENE(line_percpu, "ucounts-line-percpu", LINE, line_of_none,
	   { .alg = "percpu",
	     .prepare = "0a4 0A4 1b1",
	     .program = { "aA", "bB", "bB" },
	     .limit = { 999, 999, 999 },
	     .max = { 999, 999, 999 } });
LINE_SCENE(line_cache, "ucounts-line-cache", LINE, line_of_none,
	   { .alg = "cache",
	     .prepare = "0a4 0A4 1b1",
	     .program = { "aA", "bB", "aA" },
	     .limit = { 999, 999, 999 },
	     .max = { 999, 999, 999 } });
LINE_SCENE(line_stock, "ucounts-line-stock", LINE, line_of_none,
	   { .alg = "stock",
	     .prepare = "0a4 0A4 1b1 1B1",
	     .program = { "aA", "bB", "bB" },
	     .limit = { 999, 999, 999 },
	     .max = { 999, 999, 999 } });

/* --- deaths: what is charged are signals --- */

static void charge_signal(unsigned int cpu)
{
	char what = scene->program[cpu][0];
	unsigned int at = record_of(what);
	long limit[RECORDS];

	limits_of(at, limit);
	monitor_begin(cpu, 1, false, limit);
	monitor_end(cpu, ucounts_charge(explore_task(cpu), record[at], PENDING,
					&explore_signal[cpu], 1, scene->limit[at], false, NULL));
}

static void death_thread(unsigned int cpu)
{
	if (cpu == explore_cpus())
		explore_kill(0);
	else
		charge_signal(cpu);
}

static void reap_thread(unsigned int cpu)
{
	if (cpu == explore_cpus())
		explore_kill(0);
	else if (cpu == 1)
		reap_dead(-1);
	else
		charge_signal(cpu);
}

static void death_check(void)
{
	reap_dead(-1);
	for (unsigned int i = 0; i < RECORDS && record[i]; i++) {
		explore_equal(record[i]->gate[PENDING], 0);
		explore_equal(monitor_use(i), ucounts_derive(record[i], PENDING));
		explore_equal(get_rlimit_value(record[i], PENDING), monitor_use(i));
	}
}

#define DEATH "a death at any step of a charge of two levels: then counters are objects"
#define DEATH_SCENE(ident, title, what, ...) \
	SCENE_OF(ident, title, what, death_thread, death_check, monitor_step, 1, __VA_ARGS__)
#define REAP "the same, while another CPU looks for the dead"
#define REAP_SCENE(ident, title, what, ...) \
	SCENE_OF(ident, title, what, reap_thread, death_check, NULL, 1, __VA_ARGS__)

#define DEATH_PERCPU                                                                         \
	{                                                                                    \
		.alg = "percpu", .prepare = "0a2 0A2 1b2 1B2", .program = { "a", "b", "a" }, \
		.limit = { 999, 999, 999 }, .max = { 999, 70, 99 },                          \
	}
#define DEATH_CACHE                                                                 \
	{                                                                           \
		.alg = "cache", .prepare = "0a3 0A3", .program = { "a", "b", "c" }, \
		.limit = { 9, 9, 9 }, .max = { 9, 4, 9 },                           \
	}
#define DEATH_STOCK                                                                 \
	{                                                                           \
		.alg = "stock", .prepare = "0a3 0A3", .program = { "a", "b", "c" }, \
		.limit = { 9, 9, 9 }, .max = { 9, 4, 9 },                           \
	}

DEATH_SCENE(death_percpu, "ucounts-death-percpu", DEATH, DEATH_PERCPU);
DEATH_SCENE(death_cache, "ucounts-death-cache", DEATH, DEATH_CACHE);
DEATH_SCENE(death_stock, "ucounts-death-stock", DEATH, DEATH_STOCK);
REAP_SCENE(reap_percpu, "ucounts-reap-percpu", REAP, DEATH_PERCPU);
REAP_SCENE(reap_cache, "ucounts-reap-cache", REAP, DEATH_CACHE);
REAP_SCENE(reap_stock, "ucounts-reap-stock", REAP, DEATH_STOCK);

/* --- the number of a namespace is used again --- */

static struct ucounts *other; /* the next creator's record */

static void reuse_setup(void)
{
	static const struct scene reuse = {
		.alg = "cache",
		.prepare = "0a3 0A3 0a1 0A1",
		.limit = { 99, 99, 99 },
		.max = { 99, 99, 99 },
	};

	scene_setup(&reuse);
	other = alloc_ucounts(INIT_USER_NS, 2000);
}

/* As emu/kernel/nsproxy.c frees a namespace; the next one gets its number, and is charged to. */
static void reuse_namespace(void)
{
	uint32_t n = record[A]->ns;
	struct user_namespace *ns = user_ns_of(n);

	ucounts_ops()->forget_ns(record[CREATOR], n);
	WRITE_ONCE(ns->ucounts, 0);
	table_free(TABLE_USER_NS, ns);
	explore_equal(explore_user_ns(other, 99), n);
	for (unsigned int i = 0; i < 3; i++)
		explore_check(operate('a'));
}

static void reuse_thread(unsigned int cpu)
{
	if (!cpu)
		reuse_namespace();
	for (unsigned int i = 0; cpu && i < explore_ops(); i++)
		explore_check(operate("bcB"[i]));
}

static void reuse_check(void)
{
	unsigned int ops = (explore_cpus() - 1) * (explore_ops() > 2 ? 1 : explore_ops());

	explore_equal(get_rlimit_value(other, PENDING), 3);
	explore_equal(get_rlimit_value(record[CREATOR], PENDING), ops);
	ucounts_cache.set(other, PENDING, 3);
	ucounts_cache.set(record[CREATOR], PENDING, ops);
	explore_equal(ucounts_cache.held(other, PENDING), 0);
	explore_equal(ucounts_cache.held(record[CREATOR], PENDING), 0);
}

EXPLORE_TEST(reuse) = {
	.name = "ucounts-reuse-cache",
	.about = "a namespace's number is another creator's while the first one's record is charged",
	.cpus_min = 2,
	.cpus_max = 3,
	.setup = reuse_setup,
	.thread = reuse_thread,
	.check = reuse_check,
};

/* --- as posted: what each CPU has been granted must be there, and within the limits --- */

static long granted[EXPLORE_CPUS_MAX][RECORDS] EXPLORE_STATE; /* at each level */

static void rfc_setup(const struct scene *of)
{
	scene_setup(of);
	if (ucounts_alg_of(of->alg) == UCOUNTS_PERCPU_RFC)
		explore_world_percpu();
	for (const char *p = of->prepare; *p; p++)
		if (*p >= 'a')
			granted[0][record_of(*p)] += atoi(p + 1) ? atoi(p + 1) : 1;
}

static void rfc_thread(unsigned int cpu)
{
	const char *p = scene->program[cpu];

	for (unsigned int i = 0; i < explore_ops() && p[i]; i++)
		if (operate(p[i]))
			granted[cpu][record_of(p[i])] += p[i] < 'a' ? -1 : 1;
}

static long all_granted(unsigned int at)
{
	long n = 0;

	for (unsigned int cpu = 0; cpu < explore_cpus(); cpu++)
		n += granted[cpu][at];
	return n;
}

/* Stocks are counted above and used by nobody. */
static void rfc_check(void)
{
	enum rlimit_type type = scene->tasks ? UCOUNT_RLIMIT_NPROC : PENDING;
	long sum, stocks = 0;
	struct user_namespace *ns;

	for (unsigned int i = RECORDS; i-- > 0;) {
		if (!record[i])
			continue;
		sum = all_granted(i) + (i ? 0 : all_granted(A) + all_granted(B));
		ns = user_ns_of(record[i]->ns);
		stocks += i ? (long)ns->stock : 0;
		explore_equal(ucounts_ops()->read(record[i], type) - (i ? 0 : stocks), sum);
		explore_check(sum <= scene->limit[i]);
	}
}

#define RFC_SCENE(ident, title, what, why, ...)                \
	static const struct scene ident##_scene = __VA_ARGS__; \
	static void ident##_setup(void)                        \
	{                                                      \
		rfc_setup(&ident##_scene);                     \
	}                                                      \
	EXPLORE_TEST(ident) = { .name = title,                 \
				.about = what "; to be found", \
				.cpus_min = 2,                 \
				.cpus_max = 2,                 \
				.setup = ident##_setup,        \
				.thread = rfc_thread,          \
				.check = rfc_check,            \
				.finds = why }

RFC_SCENE(rfc_overshoot, "rfc-overshoot-percpu", "percpu-rfc: two charges for the last place",
	  "percpu_counter_limited_add() reads the count, and adds to its CPU later",
	  { .alg = "percpu-rfc", .prepare = "0c31 1c32", .program = { "c", "c" }, .limit = { 64 } });
RFC_SCENE(rfc_lost, "rfc-lost-units-percpu", "percpu-rfc: tasks of a namespace that may have three",
	  "where there is no room nothing is added, and the task is accepted nevertheless",
	  { .alg = "percpu-rfc",
	    .prepare = "0a3",
	    .program = { "aA", "aA" },
	    .limit = { 99, 99, 99 },
	    .max = { 99, 3, 99 },
	    .tasks = true });
RFC_SCENE(rfc_cache, "rfc-lost-units-cache", "cache-rfc: signals up to a namespace's maximum",
	  "the leaf is charged from the stock and by the walk, and taken back once",
	  { .alg = "cache-rfc",
	    .prepare = "0a1",
	    .program = { "aa", "aA" },
	    .limit = { 99, 2, 99 },
	    .max = { 99, 3, 99 } });
