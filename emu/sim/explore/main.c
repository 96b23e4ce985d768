/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu-explore: what `kpemu sim explore` runs. Arguments are TEST or list, then KEY=VALUE. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "emu/sim/explore/engine.h"

enum {
	HOLDS = 0,
	VIOLATED = 1,
	BAD_USE = 2,
	INTERRUPTED = 130
};

/* Interleavings before a complete search is given up, unless told otherwise. */
#define LIMIT 5000000
/* Of the searches that are not complete: shares of the limit. */
#define BOUND_SHARE 2
#define PCT_SHARE   10
#define BOUNDS      4
#define BOUND_NONE  1000000
/* Of the search for a failure with fewer operations. */
#define FEWER_LIMIT 100000

extern const struct explore_test *const __start_explore_tests[];
extern const struct explore_test *const __stop_explore_tests[];

static struct {
	const char *replay, *mode;
	uint64_t cpus, ops, limit, seed;
	bool tso, outcomes;
} opt = { .mode = "", .limit = LIMIT, .seed = 1 };

static double started;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* --- which test --- */

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct explore_test *const *)a)->name,
		      (*(const struct explore_test *const *)b)->name);
}

static int list(void)
{
	size_t n = __stop_explore_tests - __start_explore_tests;
	const struct explore_test **t = malloc(n * sizeof(*t));

	if (!t)
		return BAD_USE;
	memcpy(t, __start_explore_tests, n * sizeof(*t));
	qsort(t, n, sizeof(*t), by_name);
	for (size_t i = 0; i < n; i++)
		printf("%-26s %s\n", t[i]->name, t[i]->about);
	free(t);
	return HOLDS;
}

static const struct explore_test *find_test(const char *name)
{
	for (const struct explore_test *const *t = __start_explore_tests; t < __stop_explore_tests;
	     t++)
		if (!strcmp((*t)->name, name))
			return *t;
	return NULL;
}

static int complain(const char *fmt, const char *what)
{
	fputs("kpemu: sim explore: ", stderr);
	for (; *fmt; fmt++)
		if (*fmt == '@')
			for (const char *s = what; *s; s++)
				fputc((unsigned char)*s < ' ' || *s == 127 ? '?' : *s, stderr);
		else
			fputc(*fmt, stderr);
	fputc('\n', stderr);
	return BAD_USE;
}

static bool parse(const char *arg)
{
	const char *value = strchr(arg, '=');
	size_t n = value ? (size_t)(value++ - arg) : 0;

	if (!value)
		return false;
	if (!strncmp(arg, "cpus=", n + 1))
		opt.cpus = strtoull(value, NULL, 10);
	else if (!strncmp(arg, "ops=", n + 1))
		opt.ops = strtoull(value, NULL, 10);
	else if (!strncmp(arg, "limit=", n + 1))
		opt.limit = strtoull(value, NULL, 10);
	else if (!strncmp(arg, "seed=", n + 1))
		opt.seed = strtoull(value, NULL, 10);
	else if (!strncmp(arg, "tso=", n + 1))
		opt.tso = *value == '1';
	else if (!strncmp(arg, "outcomes=", n + 1))
		opt.outcomes = *value == '1';
	else if (!strncmp(arg, "mode=", n + 1))
		opt.mode = value;
	else if (!strncmp(arg, "replay=", n + 1))
		opt.replay = value;
	else
		return false;
	return true;
}

/* --- distinct ends, to compare one search with another --- */

#define OUTCOMES_MAX 65536

static uint64_t outcome[OUTCOMES_MAX];
static unsigned int nr_outcomes;
static uint64_t all_outcomes; /* does not depend on their order */

void explore_note_end(void)
{
	uint64_t h;
	unsigned int i;

	if (!opt.outcomes)
		return;
	h = memory_hash() | 1;
	for (i = h % OUTCOMES_MAX; outcome[i] && outcome[i] != h; i = (i + 1) % OUTCOMES_MAX)
		;
	if (outcome[i] || nr_outcomes == OUTCOMES_MAX - 1)
		return;
	outcome[i] = h;
	nr_outcomes++;
	all_outcomes += h * 0x9e3779b97f4a7c15ull;
}

/* --- progress --- */

static void on_interrupt(int sig)
{
	(void)sig;
	eng.interrupted = 1;
}

static bool shows_progress;
static double shown;

static void progress(const char *what)
{
	double t;

	if (!shows_progress || eng.schedules % 256)
		return;
	t = now();
	if (t - started < 2 || t - shown < 0.5)
		return;
	shown = t;
	fprintf(stderr, "\r%s: %s, %llu interleavings, %.0f s ", eng.test->name, what,
		(unsigned long long)eng.schedules, t - started);
	fflush(stderr);
}

static void progress_end(void)
{
	if (shown > 0)
		fprintf(stderr, "\r%*s\r", 78, "");
	shown = 0;
}

/* --- searches --- */

enum result {
	ALL,
	SOME,
	FOUND,
	STOPPED
};

static enum result search(const char *what, uint64_t limit)
{
	uint64_t runs = 0;

	for (;;) {
		vcpu_run();
		if (eng.verdict == FAILED)
			return FOUND;
		if (eng.watched_grew) { /* the order of more writes matters: once more */
			eng.watched_grew = false;
			eng.schedules = eng.redundant = eng.unfair = runs = 0;
			search_restart(eng.mode);
			continue;
		}
		eng.redundant += eng.verdict == REDUNDANT;
		eng.unfair += eng.verdict == UNFAIR;
		eng.schedules += eng.verdict == HELD;
		runs += eng.verdict != REDUNDANT;
		progress(what);
		if (eng.interrupted)
			return STOPPED;
		if (!search_next())
			return ALL;
		if (runs >= limit)
			return SOME;
	}
}

static bool waits_bounded; /* interleavings were left because they were unfair */

static void report(const char *what, const char *how, double since)
{
	double s = now() - since;

	progress_end();
	printf("  %s: %llu interleavings", what, (unsigned long long)eng.schedules);
	if (eng.redundant)
		printf(" (and %llu given up as redundant)", (unsigned long long)eng.redundant);
	if (eng.unfair)
		printf(" (and %llu left after %u waits of a CPU)", (unsigned long long)eng.unfair,
		       WAITED_MAX);
	printf(", up to %u steps, %.2f s, %.0f per minute%s\n", eng.deepest, s,
	       s > 0 ? eng.schedules / s * 60 : 0, how);
	if (opt.outcomes)
		printf("  outcomes: %u, %016llx\n", nr_outcomes, (unsigned long long)all_outcomes);
	eng.schedules = eng.redundant = 0;
	if (eng.unfair)
		waits_bounded = true;
	eng.unfair = 0;
}

static enum result search_complete(void)
{
	double since = now();
	enum result r;

	search_restart(MODE_DPOR);
	r = search("complete", opt.limit);
	report("complete search",
	       r == ALL   ? ", complete" :
	       r == FOUND ? "" :
			    ", not complete",
	       since);
	return r;
}

static enum result search_bounds(unsigned int from, unsigned int to, uint64_t limit)
{
	enum result r = ALL;

	for (eng.bound = from; eng.bound <= to && r == ALL; eng.bound++) {
		double since = now();
		char what[64];

		snprintf(what, sizeof(what), "at most %u preemptions", eng.bound);
		if (eng.bound == BOUND_NONE)
			strcpy(what, "no reduction");
		search_restart(MODE_BOUND);
		r = search(what, limit);
		report(what,
		       r == ALL   ? ", all of these" :
		       r == FOUND ? "" :
				    ", not complete",
		       since);
	}
	return r;
}

static enum result search_some(enum mode mode, const char *what, uint64_t limit)
{
	double since = now();
	enum result r;
	char seed[64];

	eng.rng = (opt.seed + 1) * 0x9e3779b97f4a7c15ull;
	search_restart(mode);
	r = search(what, limit);
	snprintf(seed, sizeof(seed), ", seed %llu", (unsigned long long)opt.seed);
	report(what, seed, since);
	return r;
}

/* What is left when there is too much for a complete search. */
static enum result search_rest(void)
{
	enum result r = search_bounds(0, BOUNDS, opt.limit / BOUND_SHARE);

	if (r == ALL || r == SOME)
		r = search_some(MODE_PCT, "PCT", opt.limit / PCT_SHARE);
	if (r == SOME)
		r = search_some(MODE_RANDOM, "random", opt.limit / PCT_SHARE);
	return r;
}

static enum result search_as_told(void)
{
	enum result r;

	if (!strcmp(opt.mode, "plain"))
		return search_bounds(BOUND_NONE, BOUND_NONE, opt.limit);
	if (!strcmp(opt.mode, "bound")) {
		r = search_bounds(0, BOUNDS, opt.limit);
		return r == ALL ? SOME : r;
	}
	if (!strcmp(opt.mode, "pct"))
		return search_some(MODE_PCT, "PCT", opt.limit);
	if (!strcmp(opt.mode, "random"))
		return search_some(MODE_RANDOM, "random", opt.limit);
	r = search_complete();
	return r == SOME && !*opt.mode ? search_rest() : r;
}

/* --- what is said at the end --- */

static void run_again(void)
{
	eng.record = true;
	trace_reset();
	search_restart(MODE_REPLAY);
	vcpu_run();
}

static void print_run(void)
{
	trace_print(stdout);
	printf("replay: kpemu sim explore %s --cpus %u --ops %u%s --replay ", eng.test->name,
	       eng.cpus, eng.ops, eng.tso ? " --tso" : "");
	seed_print(stdout);
	putchar('\n');
}

/* Do fewer operations fail too? Then they tell as much with fewer steps. */
static void fewer_operations(void)
{
	unsigned int all = eng.ops;

	for (eng.ops = 1; eng.ops < all; eng.ops++) {
		search_restart(MODE_DPOR);
		if (search("fewer operations", FEWER_LIMIT) == FOUND)
			return;
	}
	search_restart(MODE_REPLAY);
	vcpu_run();
}

static int conclude(enum result r)
{
	const char *name = eng.test->name;

	switch (r) {
	case FOUND:
		printf("%s: VIOLATED: %s\n", name, eng.why);
		search_keep();
		fewer_operations();
		search_shrink();
		progress_end();
		run_again();
		print_run();
		if (eng.test->finds)
			printf("%s: that is what this test shows: %s\n", name, eng.test->finds);
		return VIOLATED;
	case STOPPED:
		printf("%s: interrupted; no violation so far\n", name);
		return INTERRUPTED;
	case ALL:
		printf("%s: holds in every interleaving", name);
		if (waits_bounded)
			printf(" with up to %u waits of each CPU", WAITED_MAX);
		putchar('\n');
		return HOLDS;
	default:
		printf("%s: holds in all that were explored; that is not every interleaving\n",
		       name);
		return HOLDS;
	}
}

static int replay(void)
{
	if (!seed_parse(opt.replay))
		return complain("--replay @: not a seed", opt.replay);
	run_again();
	if (eng.replay_wrong || eng.replay_n > eng.depth)
		return complain("--replay @: no interleaving of this test with these options",
				opt.replay);
	print_run();
	return eng.verdict == FAILED ? VIOLATED : HOLDS;
}

static int choose_size(const struct explore_test *t)
{
	unsigned int min = t->cpus_min ? t->cpus_min : 2;
	unsigned int max = t->cpus_max ? t->cpus_max : EXPLORE_CPUS_MAX;
	char text[64];

	eng.cpus = opt.cpus ? opt.cpus : min;
	if (eng.cpus < min || eng.cpus > max) {
		snprintf(text, sizeof(text), "%u: this test is for %u to %u CPUs", eng.cpus, min,
			 max);
		return complain("--cpus @", text);
	}
	eng.ops = opt.ops ? opt.ops : eng.cpus <= 2 ? 3 : eng.cpus == 3 ? 2 : 1;
	eng.threads = eng.cpus + t->helpers;
	eng.tso = opt.tso;
	return 0;
}

int main(int argc, char **argv)
{
	const struct explore_test *t;
	struct sigaction sa = { .sa_handler = on_interrupt };
	int ret;

	if (argc > 1 && !strcmp(argv[1], "list"))
		return list();
	for (int i = 2; i < argc; i++)
		if (!parse(argv[i]))
			return complain("bad argument @", argv[i]);
	t = argc > 1 ? find_test(argv[1]) : NULL;
	if (!t)
		return complain("no test @; kpemu sim explore --list names them",
				argc > 1 ? argv[1] : "");
	ret = choose_size(t);
	if (ret)
		return ret;
	eng.test = t;
	started = now();
	shows_progress = isatty(STDERR_FILENO);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	memory_init();
	vcpu_init();
	if (!vcpu_setup())
		return complain("setup: @", eng.why);
	memory_snapshot();
	if (opt.replay)
		return replay();
	printf("%s: %u CPUs, %u operations each, %s\n", t->name, eng.cpus, eng.ops,
	       eng.tso ? "store buffers (TSO)" : "sequential consistency");
	return conclude(search_as_told());
}
