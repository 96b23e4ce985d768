/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lazy counters: what they cost others than the owner, and when a second thread comes and goes. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "emu/sim/sim.h"

#define BATCH       32 /* RSS_STAT_BATCH_SIZE */
#define COUNTERS    4 /* of an mm */
#define MEMBERS_MAX 4 /* threads at once */
#define REPEATS     1000 /* precise sums, or switches, in one measurement */
#define AREA_RUN    64

enum go {
	WAIT,
	GO,
	LEAVE,
};

struct bench {
	struct percpu_counter_tree c[COUNTERS]; /* a line each */
	struct percpu_counter_tree_memory memory;
	size_t node_bytes;
	struct percpu_counter_tree_shape shape;
	unsigned int adds;
	enum go go;
};

/* CPU time of this thread, in nanoseconds: what others do on the machine does not count. */
static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, unsigned int n)
{
	qsort(v, n, sizeof(*v), compare_doubles);
	return v[n / 2];
}

/* --- remote updaters --- */

struct member {
	struct bench *b;
	unsigned int nr;
	pthread_t thread;
	double ns; /* of one addition */
};

/*
 * Put this thread on the @nr-th of the CPUs that it may use, and begin again after the last: two
 * that share a CPU cannot contend.
 */
static void spread(unsigned int nr)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	nr %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || nr--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

/* As who unmaps pages of another process. */
static void *remote_updater(void *arg)
{
	struct member *m = arg;
	enum go go;
	double start;

	spread(m->nr);
	while ((go = smp_load_acquire(&m->b->go)) == WAIT)
		sched_yield();
	if (go == LEAVE)
		return NULL;
	start = cpu_now();
	for (unsigned int i = 0; i < m->b->adds; i++)
		percpu_counter_tree_add(&m->b->c[0], -1);
	m->ns = (cpu_now() - start) / m->b->adds;
	return NULL;
}

/* @n updaters at once: the mean of what an addition takes each, or -errno. */
static double remote_adds(struct bench *b, unsigned int n)
{
	struct member m[MEMBERS_MAX];
	unsigned int made;
	double ns = 0;
	int err = 0;

	b->go = WAIT;
	for (made = 0; made < n && !err; made += !err) {
		m[made] = (struct member){ .b = b, .nr = made };
		err = pthread_create(&m[made].thread, NULL, remote_updater, &m[made]);
	}
	smp_store_release(&b->go, err ? LEAVE : GO);
	for (unsigned int i = 0; i < made; i++) {
		pthread_join(m[i].thread, NULL);
		ns += m[i].ns / n;
	}
	return err ? -err : ns;
}

/* --- the owner, and the threads that it makes --- */

static double owner_adds(struct bench *b)
{
	double start = cpu_now();

	for (unsigned int i = 0; i < b->adds; i++)
		percpu_counter_tree_add_owner(&b->c[1], 1);
	return (cpu_now() - start) / b->adds;
}

static double precise_sums(struct bench *b)
{
	double start = cpu_now();
	volatile long sum;

	for (int i = 0; i < REPEATS; i++)
		sum = percpu_counter_tree_precise_sum(&b->c[1]);
	(void)sum;
	return (cpu_now() - start) / REPEATS;
}

static void make_lazy(struct bench *b)
{
	percpu_counter_tree_init_many_lazy(b->c, COUNTERS, BATCH, &b->shape);
}

static int activate(struct bench *b)
{
	return percpu_counter_tree_activate_many(b->c, COUNTERS, &b->memory);
}

static void destroy(struct bench *b)
{
	percpu_counter_tree_destroy_many(b->c, COUNTERS, &b->memory);
}

/* The counters of a new process, and its first second thread. */
static double first_thread(struct bench *b, int *err)
{
	double start;

	make_lazy(b);
	start = cpu_now();
	*err = activate(b);
	return cpu_now() - start;
}

static double later_threads(struct bench *b)
{
	double start = cpu_now();

	for (int i = 0; i < REPEATS; i++)
		activate(b);
	return (cpu_now() - start) / REPEATS;
}

/* What each later one would cost if the tree were given back in between. */
static double made_anew(struct bench *b, int *err)
{
	double start = cpu_now();

	for (int i = 0; i < REPEATS && !*err; i++) {
		destroy(b);
		make_lazy(b);
		*err = activate(b);
	}
	return (cpu_now() - start) / REPEATS;
}

/* --- all of it --- */

/* The samples of one kind of measurement. */
typedef double samples[SIM_ROUNDS_MAX];

struct all_samples {
	samples before[SIM_UPDATERS], after[SIM_UPDATERS];
	samples owner_before, owner_after, sum_before, sum_after;
	samples first, later, anew;
};

static const unsigned int updaters[SIM_UPDATERS] = { 1, 2, 4 };

/* All updaters on the counters as they are now. 0 or -errno. */
static int remote_round(struct bench *b, samples *v, unsigned int i)
{
	for (int u = 0; u < SIM_UPDATERS; u++) {
		v[u][i] = remote_adds(b, updaters[u]);
		if (v[u][i] < 0)
			return v[u][i];
	}
	return 0;
}

/* One of each, before and after in turn, so that a disturbance meets both. */
static int one_round(struct bench *b, struct all_samples *s, unsigned int i)
{
	int err;

	make_lazy(b);
	err = remote_round(b, s->before, i);
	if (err)
		return err;
	s->owner_before[i] = owner_adds(b);
	s->sum_before[i] = precise_sums(b);
	s->first[i] = first_thread(b, &err);
	if (err)
		return err;
	s->later[i] = later_threads(b);
	err = remote_round(b, s->after, i);
	s->owner_after[i] = owner_adds(b);
	s->sum_after[i] = precise_sums(b);
	s->anew[i] = made_anew(b, &err);
	return err;
}

static void medians(struct sim_activation *a, struct all_samples *s, unsigned int n)
{
	for (int u = 0; u < SIM_UPDATERS; u++) {
		a->updaters[u] = updaters[u];
		a->remote_before[u] = median(s->before[u], n);
		a->remote_after[u] = median(s->after[u], n);
	}
	a->owner_before = median(s->owner_before, n);
	a->owner_after = median(s->owner_after, n);
	a->sum_before = median(s->sum_before, n);
	a->sum_after = median(s->sum_after, n);
	a->first_thread = median(s->first, n);
	a->later_thread = median(s->later, n);
	a->made_anew = median(s->anew, n);
}

/* The tree's size and error, while there is one. */
static void note_tree(struct bench *b, struct sim_activation *a)
{
	unsigned long under = 0;

	a->tree_bytes = percpu_used(b->memory.area) * b->shape.nr_cpus + b->node_bytes;
	a->bound = 0;
	percpu_counter_tree_approximate_accuracy_range(&b->c[0], &under, &a->bound);
}

static int run(struct bench *b, const struct sim_activation_options *o, struct sim_activation *a)
{
	struct all_samples *s = malloc(sizeof(*s));
	int err = s ? 0 : -ENOMEM;

	for (unsigned int i = 0; !err && i < o->rounds; i++) {
		err = one_round(b, s, i);
		note_tree(b, a);
		destroy(b);
	}
	if (!err)
		medians(a, s, o->rounds);
	free(s);
	return err;
}

int sim_activation(const struct sim_activation_options *o, struct sim_activation *a)
{
	struct bench *b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
	int err;

	if (!b)
		return -ENOMEM;
	*b = (struct bench){ .adds = o->adds };
	err = percpu_counter_tree_shape_init(&b->shape, o->nr_cpus);
	if (!err && (o->nr_cpus < percpu_machine_cpus() || o->rounds > SIM_ROUNDS_MAX))
		err = -EINVAL;
	a->rseq = true;
	if (!err &&
	    sim_tree_memory(&b->memory, &b->node_bytes, o->nr_cpus, AREA_RUN, PERCPU_RSEQ)) {
		a->rseq = false;
		err = sim_tree_memory(&b->memory, &b->node_bytes, o->nr_cpus, AREA_RUN,
				      PERCPU_ATOMIC);
	}
	if (!err) {
		err = run(b, o, a);
		sim_tree_memory_free(&b->memory);
	}
	free(b);
	return err;
}

void sim_activation_print(FILE *out, const struct sim_activation_options *o,
			  const struct sim_activation *a)
{
	fprintf(out,
		"# Measured here: %u CPU%s; the tree is one for %u; additions by %s. Medians of %u, in\n"
		"# nanoseconds of CPU time.\n"
		"# One addition of each of several threads that are not the owner, all at once:\n"
		"updaters,before_activation,after_activation\n",
		percpu_machine_cpus(), percpu_machine_cpus() == 1 ? "" : "s", o->nr_cpus,
		a->rseq ? "critical sections" : "atomics", o->rounds);
	for (int u = 0; u < SIM_UPDATERS; u++)
		fprintf(out, "%u,%.2f,%.2f\n", a->updaters[u], a->remote_before[u],
			a->remote_after[u]);
	fprintf(out,
		"\n# A process before it has had a second thread, and after that one has gone: the tree\n"
		"# stays. Its four counters' bytes; how far off in MiB each approximate sum can be.\n"
		"process,owner_add,precise_sum,tree_bytes,bound_mib\n"
		"single-threaded,%.2f,%.1f,0,0.0\n"
		"single-threaded again,%.2f,%.1f,%zu,%.1f\n",
		a->owner_before, a->sum_before, a->owner_after, a->sum_after, a->tree_bytes,
		a->bound / 256.0);
	fprintf(out,
		"\n# What the counters add to making a second thread: the first time, cold; each later time;\n"
		"# each time if the tree were given back meanwhile, without the wait for remote\n"
		"# updaters that this would need.\n"
		"second_thread,activation\n"
		"first,%.0f\n"
		"later,%.1f\n"
		"if given back,%.0f\n",
		a->first_thread, a->later_thread, a->made_anew);
}
