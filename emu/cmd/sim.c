/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu sim: counters on machines that are not at hand. */
#include <errno.h>
#include <string.h>

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

/* --- which one --- */

static const struct cmd *const parts[] = { &sim_memory_cmd, &sim_drift_cmd, &sim_activation_cmd,
					   NULL };
#define PART_NAMES "memory, drift, activation"

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
