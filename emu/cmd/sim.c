/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu sim: counters on machines that are not at hand. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/cmd/cmd.h"
#include "emu/sim/sim.h"

static int finish(const struct cmd *cmd, int err)
{
	return err ? cmd_error("%s: %s", cmd->name, strerror(-err)) : cmd_flush();
}

/* --- sim memory --- */

static const struct cmd_option no_options[] = { { 0 } };

static int run_memory(const struct cmd *cmd, int argc, char **argv)
{
	int first, ret = cmd_parse(cmd, argc, argv, NULL, &first);

	return ret ? ret : finish(cmd, sim_memory(stdout));
}

static const struct cmd sim_memory_cmd = {
	.name = "sim memory",
	.usage = "",
	.summary =
		"print what RSS and ucounts counters take in the kernel, in bytes, by number of CPUs",
	.options = no_options,
	.run = run_memory,
};

/* --- sim drift --- */

struct drift_options {
	struct sim_drift_options sim;
	uint64_t nr_cpus;
	const char *arity; /* NULL: from the table */
};

static int number(const char *name, const char *arg, uint64_t min, uint64_t max, uint64_t *out)
{
	if (cmd_number(arg, max, out) && *out >= min)
		return 0;
	return cmd_error("--%s %s: not a number from %llu to %llu", name, arg,
			 (unsigned long long)min, (unsigned long long)max);
}

static int apply_cpus(void *options, const char *arg)
{
	return number("cpus", arg, 1, PERCPU_COUNTER_TREE_CPUS_MAX,
		      &((struct drift_options *)options)->nr_cpus);
}

static int apply_step(void *options, const char *arg)
{
	uint64_t v = 0;
	int ret = number("step", arg, 1, SIM_PAGES_MAX, &v);

	((struct drift_options *)options)->sim.step = v;
	return ret;
}

static int apply_pages(void *options, const char *arg)
{
	uint64_t v = 0;
	int ret = number("pages", arg, 1, SIM_PAGES_MAX, &v);

	((struct drift_options *)options)->sim.pages = v;
	return ret;
}

static int apply_steps(void *options, const char *arg)
{
	return number("steps", arg, 1, SIM_STEPS_MAX,
		      &((struct drift_options *)options)->sim.steps);
}

static int apply_seed(void *options, const char *arg)
{
	return number("seed", arg, 0, UINT64_MAX, &((struct drift_options *)options)->sim.seed);
}

static int apply_arity(void *options, const char *arg)
{
	((struct drift_options *)options)->arity = arg;
	return 0;
}

static const struct cmd_option drift_options[] = {
	{ "cpus", 0, "N", "emulated CPUs, 1 to 1024; 384 without this option", apply_cpus },
	{ "step", 0, "PAGES", "pages that one step populates on its CPU; 16", apply_step },
	{ "pages", 0, "PAGES", "how many are populated before all are unmapped; 65536",
	  apply_pages },
	{ "steps", 0, "N", "how many steps; 1250000", apply_steps },
	{ "seed", 0, "N", "of the random choice of CPUs; 1", apply_seed },
	{ "arity", 0, "LIST",
	  "fan-outs of the tree from the CPUs to the root, powers of two whose product is the "
	  "number of CPUs rounded up to one: 8,8,8",
	  apply_arity },
	{ 0 }
};

static int arity_error(const char *arity, uint64_t nr_cpus)
{
	uint64_t product = 1;

	while (product < nr_cpus)
		product *= 2;
	if (product == 1)
		return cmd_error("--arity %s: with one CPU there is no tree", arity);
	return cmd_error("--arity %s: not powers of two from 2, with commas between, whose product "
			 "is %llu, for %llu CPUs",
			 arity, (unsigned long long)product, (unsigned long long)nr_cpus);
}

static int run_drift(const struct cmd *cmd, int argc, char **argv)
{
	struct drift_options o = {
		.nr_cpus = 384,
		.sim = { .step = 16, .pages = 65536, .steps = 1250000, .seed = 1 }
	};
	struct sim_drift d;
	int first, err, ret = cmd_parse(cmd, argc, argv, &o, &first);

	if (ret)
		return ret;
	err = o.arity ? percpu_counter_tree_shape_parse(&o.sim.shape, o.nr_cpus, o.arity) :
			percpu_counter_tree_shape_init(&o.sim.shape, o.nr_cpus);
	if (err)
		return arity_error(o.arity, o.nr_cpus);
	err = sim_drift(&o.sim, &d);
	if (err == -EIO)
		return cmd_error("sim drift: a precise sum is wrong; this is a bug of kpemu");
	if (!err)
		sim_drift_print(stdout, &o.sim, &d);
	return finish(cmd, err);
}

static const struct cmd sim_drift_cmd = {
	.name = "sim drift",
	.usage = "",
	.summary = "print how far approximate RSS is off when a thread hops over many CPUs",
	.options = drift_options,
	.run = run_drift,
};

/* --- sim activation --- */

struct activation_options {
	uint64_t nr_cpus, adds, rounds;
};

/* A tree for fewer CPUs than there are would leave some threads without a byte. */
static int apply_activation_cpus(void *options, const char *arg)
{
	return number("cpus", arg, percpu_machine_cpus(), PERCPU_COUNTER_TREE_CPUS_MAX,
		      &((struct activation_options *)options)->nr_cpus);
}

static int apply_adds(void *options, const char *arg)
{
	return number("adds", arg, 1, SIM_PAGES_MAX, &((struct activation_options *)options)->adds);
}

static int apply_rounds(void *options, const char *arg)
{
	return number("rounds", arg, 1, SIM_ROUNDS_MAX,
		      &((struct activation_options *)options)->rounds);
}

static const struct cmd_option activation_options[] = {
	{ "cpus", 0, "N", "what the tree is for, this machine's CPUs to 1024; 384",
	  apply_activation_cpus },
	{ "adds", 0, "N", "additions of each thread in each round; 1000000", apply_adds },
	{ "rounds", 0, "N", "how many rounds the medians are of, 1 to 99; 9", apply_rounds },
	{ 0 }
};

static int run_activation(const struct cmd *cmd, int argc, char **argv)
{
	struct activation_options o = { .nr_cpus = 384, .adds = 1000000, .rounds = 9 };
	struct sim_activation_options sim;
	struct sim_activation a;
	int first, err, ret;

	if (percpu_machine_cpus() > o.nr_cpus)
		o.nr_cpus = percpu_machine_cpus();
	ret = cmd_parse(cmd, argc, argv, &o, &first);
	if (ret)
		return ret;
	sim = (struct sim_activation_options){ o.nr_cpus, o.adds, o.rounds };
	err = sim_activation(&sim, &a);
	if (!err)
		sim_activation_print(stdout, &sim, &a);
	return finish(cmd, err);
}

static const struct cmd sim_activation_cmd = {
	.name = "sim activation",
	.usage = "",
	.summary = "measure counters that get their tree with the second thread, before and after",
	.options = activation_options,
	.run = run_activation,
};

/* --- sim explore --- */

#define EXPLORE_BAD_USE 2 /* 1 says that a violation was found */
#define EXPLORE_ARGS    12

struct explore_options {
	char text[EXPLORE_ARGS][64];
	char *argv[EXPLORE_ARGS + 3]; /* of kpemu-explore: its name, the test, KEY=VALUE */
	int n;
	bool list;
	char *replay; /* may be long */
};

static int pass_on(struct explore_options *o, const char *key, const char *value)
{
	if (o->n == EXPLORE_ARGS)
		return cmd_error("sim explore: too many options");
	snprintf(o->text[o->n], sizeof(o->text[0]), "%s=%s", key, value);
	o->argv[2 + o->n] = o->text[o->n];
	o->n++;
	return 0;
}

static int pass_number(void *options, const char *key, const char *arg, uint64_t min, uint64_t max)
{
	uint64_t v;
	int ret = number(key, arg, min, max, &v);

	return ret ? ret : pass_on(options, key, arg);
}

static int apply_explore_cpus(void *options, const char *arg)
{
	return pass_number(options, "cpus", arg, 1, 4);
}

static int apply_ops(void *options, const char *arg)
{
	return pass_number(options, "ops", arg, 1, 4);
}

static int apply_limit(void *options, const char *arg)
{
	return pass_number(options, "limit", arg, 1, UINT64_MAX);
}

static int apply_explore_seed(void *options, const char *arg)
{
	return pass_number(options, "seed", arg, 0, UINT64_MAX);
}

static int apply_tso(void *options, const char *arg)
{
	(void)arg;
	return pass_on(options, "tso", "1");
}

static int apply_outcomes(void *options, const char *arg)
{
	(void)arg;
	return pass_on(options, "outcomes", "1");
}

static int apply_mode(void *options, const char *arg)
{
	static const char *const modes[] = { "complete", "plain", "bound", "pct", "random" };

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(arg, modes[i]))
			return pass_on(options, "mode", arg);
	return cmd_error("--mode %s: it is one of complete, plain, bound, pct, random", arg);
}

static int apply_replay(void *options, const char *arg)
{
	struct explore_options *o = options;

	free(o->replay);
	if (asprintf(&o->replay, "replay=%s", arg) < 0)
		return cmd_error("sim explore: %s", strerror(ENOMEM));
	return 0;
}

static int apply_list(void *options, const char *arg)
{
	(void)arg;
	((struct explore_options *)options)->list = true;
	return 0;
}

static const struct cmd_option explore_options[] = {
	{ "list", 0, NULL, "name the tests", apply_list },
	{ "cpus", 0, "N", "virtual CPUs; 2, or the fewest that the test is for", apply_explore_cpus },
	{ "ops", 0, "N", "operations of each, 1 to 4; 3 on 2 CPUs, 2 on 3, 1 on 4", apply_ops },
	{ "tso", 0, NULL, "give each CPU a store buffer, as x86 has", apply_tso },
	{ "replay", 0, "SEED", "show the interleaving that a violation was printed with",
	  apply_replay },
	{ "mode", 0, "MODE",
	  "complete: each order that matters; plain: each order; bound: few preemptions; pct, "
	  "random: by chance. Without it complete, and the last three where that takes too long",
	  apply_mode },
	{ "limit", 0, "N", "interleavings after which that is so; 5000000", apply_limit },
	{ "seed", 0, "N", "of pct and random; 1", apply_explore_seed },
	{ "outcomes", 0, NULL, "count the distinct memories at the end", apply_outcomes },
	{ 0 }
};

/* Options may stand before and after the test. */
static int parse_explore(const struct cmd *cmd, int argc, char **argv, struct explore_options *o)
{
	int first, ret = cmd_parse(cmd, argc, argv, o, &first);

	if (ret || first == argc)
		return ret;
	argc -= first;
	argv += first;
	o->argv[1] = argv[0];
	ret = cmd_parse(cmd, argc, argv, o, &first);
	if (!ret && first < argc)
		return cmd_error("%s: unexpected operand %s", cmd->name, argv[first]);
	return ret;
}

static int run_explore(const struct cmd *cmd, int argc, char **argv)
{
	struct explore_options o = { .argv = { (char *)"kpemu-explore" } };
	int ret = parse_explore(cmd, argc, argv, &o);
	char path[PATH_MAX];

	if (ret == CMD_HELP_SHOWN)
		return ret;
	if (!ret && o.list)
		o.argv[1] = (char *)"list";
	else if (!ret && !o.argv[1])
		ret = cmd_error("sim explore: which test? kpemu sim explore --list names them");
	if (ret)
		return EXPLORE_BAD_USE;
	if (o.replay)
		o.argv[2 + o.n] = o.replay;
	if (cmd_explorer_find(path, sizeof(path)))
		cmd_error("sim explore: kpemu-explore is not where this kpemu looks for it, beside "
			  "itself or in ../libexec");
	else if (execv(path, o.argv))
		cmd_error("%s: %s", path, strerror(errno));
	free(o.replay);
	return EXPLORE_BAD_USE;
}

static const struct cmd sim_explore_cmd = {
	.name = "sim explore",
	.usage = "TEST",
	.summary = "run kpemu's own code under every schedule that matters; 1: one violates what holds",
	.options = explore_options,
	.takes_program = true,
	.run = run_explore,
};

/* --- which one --- */

static const struct cmd *const parts[] = { &sim_memory_cmd, &sim_drift_cmd, &sim_activation_cmd,
					   &sim_explore_cmd, NULL };
#define PART_NAMES "memory, drift, activation, explore"

static const struct cmd *find_part(const char *word)
{
	for (const struct cmd *const *part = parts; *part; part++)
		if (!strcmp((*part)->name + strlen("sim "), word))
			return *part;
	return NULL;
}

static int run_sim(const struct cmd *cmd, int argc, char **argv)
{
	const struct cmd *part = argc > 1 ? find_part(argv[1]) : NULL;
	int first, ret;

	if (part)
		return part->run(part, argc - 1, argv + 1);
	ret = cmd_parse(cmd, argc, argv, NULL, &first);
	if (ret)
		return ret;
	if (first < argc)
		return cmd_error("sim: unknown simulation %s: it is one of " PART_NAMES,
				 argv[first]);
	return cmd_error("sim: which simulation? It is one of " PART_NAMES);
}

const struct cmd cmd_sim = {
	.name = "sim",
	.usage = "",
	.summary = "simulate counters on machines with other numbers of CPUs",
	.options = no_options,
	.takes_program = true,
	.run = run_sim,
	.parts = parts,
};
