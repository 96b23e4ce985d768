/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Many processes and threads at once against one limit: never above it, and exact afterwards. */
#include <mqueue.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/preload/children.h"

/*
 * usage: concurrency CASE [TIMES]   the verdicts, "over", and then it waits for the end of input
 * Alone in its account, under a limit of 60 tasks, 20 queues of 97 bytes and 64 KiB of locked memory.
 */
#define LIMIT 60
#define QUEUES 20
#define FORKERS 32
#define PAGE 4096

/* Shared by all processes of a case. */
static struct {
	atomic_int go;	  /* the start of the race */
	atomic_int alive; /* children that run now ... */
	atomic_int most;  /* ... and at most */
	atomic_int made;
	atomic_int wrong; /* answers that cannot be */
} *all;

static int times = 1; /* how often the lengthy parts are repeated */

static void new_shared(void)
{
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		die("mmap");
}

static void raise_most(int n)
{
	int most = atomic_load(&all->most);

	while (n > most && !atomic_compare_exchange_weak(&all->most, &most, n))
		;
}

static void born(void)
{
	raise_most(atomic_fetch_add(&all->alive, 1) + 1);
}

static void wait_for_go(void)
{
	while (!atomic_load(&all->go))
		sched_yield();
}

/* race - @n processes start @fn at once; false if one of them cannot be made or ends badly. */
static bool race(int n, void (*fn)(int))
{
	pid_t pid[CHILDREN_MAX];
	bool good = true;
	int status;

	for (int i = 0; i < n; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			wait_for_go();
			fn(i);
			_exit(0);
		}
		good &= pid[i] > 0;
	}
	atomic_store(&all->go, 1);
	for (int i = 0; i < n; i++)
		good &= waitpid(pid[i], &status, 0) == pid[i] && status == 0;
	return good;
}

static bool refused(int err)
{
	if (err != EAGAIN)
		atomic_fetch_add(&all->wrong, 1);
	return true;
}

/* --- forks --- */

/* Children that stay: when everybody has been refused, exactly the limit is in use. */
static void fork_and_keep(int i)
{
	pid_t pid[LIMIT];
	int n = 0, refusals = 0;

	(void)i;
	while (refusals < 20 && n < LIMIT) {
		pid[n] = fork();
		if (!pid[n]) {
			born();
			for (;;)
				pause();
		}
		if (pid[n] > 0)
			n++;
		else
			refusals += refused(errno);
	}
	atomic_fetch_add(&all->made, n);
	/* All have been refused twenty times: then they let go, together. */
	while (atomic_load(&all->go) < FORKERS + 1)
		if (atomic_load(&all->go) == 1 + i)
			atomic_fetch_add(&all->go, 1);
		else
			pause_ms(1);
	drain(pid, n);
}

static void forkers_fill_the_limit(void)
{
	for (int round = 0; round < 3 * times; round++) {
		new_shared();
		verdict(race(FORKERS, fork_and_keep), "forkers", "one of them failed");
		check_eq("made", LIMIT - 1 - FORKERS, atomic_load(&all->made));
		verdict(atomic_load(&all->most) <= LIMIT - 1 - FORKERS, "at_most", "%d at once",
			atomic_load(&all->most));
		check_eq("wrong", 0, atomic_load(&all->wrong));
		check_eq("left", CHILDREN_MAX, forks_left_err(&(int){ 0 }));
	}
}

/* Fork, end and reap without pause, most of the time at the limit. */
static void fork_and_reap(int i)
{
	int done = 0;

	(void)i;
	while (done < 40 * times) {
		pid_t pid = fork();

		if (!pid) {
			born();
			atomic_fetch_sub(&all->alive, 1);
			_exit(5);
		}
		if (pid > 0) {
			int status = 0;

			if (waitpid(pid, &status, 0) != pid || status != 5 << 8)
				atomic_fetch_add(&all->wrong, 1);
			done++;
		} else {
			refused(errno);
			sched_yield();
		}
	}
}

static void forkers_and_reapers(void)
{
	pid_t held[CHILDREN_MAX];
	int n = 0;

	/* 32 forkers and room for 7 children of theirs. */
	while (n < LIMIT - 1 - FORKERS - 7)
		held[n++] = hold_child();
	new_shared();
	verdict(race(FORKERS, fork_and_reap), "forkers", "one of them failed");
	verdict(atomic_load(&all->most) <= 7, "at_most", "%d at once", atomic_load(&all->most));
	check_eq("wrong", 0, atomic_load(&all->wrong));
	check_eq("left", LIMIT - 1 - n, forks_left());
	drain(held, n);
}

/* --- threads --- */

static void *thread_nothing(void *arg)
{
	return arg;
}

static void *churn(void *arg)
{
	for (int i = 0; i < 30 * times; i++) {
		pthread_t thread;
		int err = pthread_create(&thread, NULL, thread_nothing, NULL);
		pid_t pid;

		if (!err)
			pthread_join(thread, NULL);
		else
			refused(err);
		pid = fork();
		if (!pid)
			_exit(0);
		if (pid > 0)
			waitpid(pid, NULL, 0);
		else
			refused(errno);
	}
	return arg;
}

static void threads_fork_and_make_threads(void)
{
	pthread_t thread[16];
	int left;

	new_shared();
	for (int i = 0; i < 16; i++)
		if (pthread_create(&thread[i], NULL, churn, NULL))
			die("pthread_create");
	for (int i = 0; i < 16; i++)
		pthread_join(thread[i], NULL);
	check_eq("wrong", 0, atomic_load(&all->wrong));
	until((left = forks_left_err(&(int){ 0 })) == CHILDREN_MAX);
	check_eq("left", CHILDREN_MAX, left);
}

/* --- deaths --- */

/* A victim forks, makes threads and, unless @kinds is 2, queues, until it is killed. */
static void live_dangerously(unsigned int kinds)
{
	for (unsigned int i = 0;; i++) {
		char name[32];
		pthread_t thread;
		mqd_t q;

		snprintf(name, sizeof(name), "/storm-%d", i % 4);
		switch (i % kinds) {
		case 0:
			if (!fork())
				_exit(0);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
			break;
		case 1:
			if (!pthread_create(&thread, NULL, thread_nothing, NULL))
				pthread_join(thread, NULL);
			break;
		default:
			q = mq_open(name, O_RDWR | O_CREAT, 0600,
				    &(struct mq_attr){ .mq_maxmsg = 1, .mq_msgsize = 1 });
			mq_unlink(name);
			if (q >= 0)
				mq_close(q);
		}
	}
}

static int queues_left(void)
{
	mqd_t q[QUEUES + 1];
	int n = 0;

	for (; n <= QUEUES; n++) {
		char name[32];

		snprintf(name, sizeof(name), "/left-%d", n);
		q[n] = mq_open(name, O_RDWR | O_CREAT, 0600,
			       &(struct mq_attr){ .mq_maxmsg = 1, .mq_msgsize = 1 });
		if (q[n] < 0)
			break;
		mq_unlink(name);
	}
	for (int i = 0; i < n; i++)
		mq_close(q[i]);
	return n;
}

#define VICTIMS 10

static void storm_of_sigkill(void)
{
	int left, storm = 200 * times;
	char name[32];

	srand(1);
	for (int round = 0; round < storm; round++) {
		pid_t pid[VICTIMS];

		for (int i = 0; i < VICTIMS; i++) {
			pid[i] = fork();
			if (!pid[i])
				live_dangerously(3);
		}
		usleep(rand() % 4000);
		for (int i = 0; i < VICTIMS; i++)
			if (pid[i] > 0)
				kill(pid[i], SIGKILL);
		for (int i = 0; i < VICTIMS; i++)
			if (pid[i] > 0)
				waitpid(pid[i], NULL, 0);
	}
	/* Orphans end at once, and their reaper needs a moment. */
	until((left = forks_left_err(&(int){ 0 })) == CHILDREN_MAX);
	check_eq("left", CHILDREN_MAX, left);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "/storm-%d", i);
		mq_unlink(name);
	}
	check_eq("queues_left", QUEUES, queues_left());
}

/* --- stops --- */

/*
 * Victims are stopped wherever they are. Nobody else waits for them: every fork of the others ends
 * soon, also when it meets the limit and looks for the dead. Only who uses queues may have to wait
 * until a victim that did so goes on: they all share one lock.
 */
static void stopped(unsigned int kinds)
{
	long long longest = 0;
	int left, wrong = 0;

	srand(2);
	for (int round = 0; round < 12 * times; round++) {
		pid_t pid[VICTIMS];

		for (int i = 0; i < VICTIMS; i++) {
			pid[i] = fork();
			if (!pid[i])
				live_dangerously(kinds);
		}
		usleep(rand() % 3000);
		for (int i = 0; i < VICTIMS; i++)
			kill(pid[i], SIGSTOP);
		for (int i = 0; i < 3; i++) {
			long long start = now_ms();
			int err;

			forks_left_err(&err);
			wrong += err && err != EAGAIN;
			if (kinds == 2)
				wrong += queues_left() != QUEUES;
			if (now_ms() - start > longest)
				longest = now_ms() - start;
		}
		for (int i = 0; i < VICTIMS; i++)
			kill(pid[i], round % 2 ? SIGCONT : SIGKILL);
		usleep(rand() % 1000);
		for (int i = 0; i < VICTIMS; i++)
			kill_child(pid[i]);
	}
	verdict(longest < 3000, "nobody_waits", "one call took %lld ms", longest);
	check_eq("wrong", 0, wrong);
	until((left = forks_left_err(&(int){ 0 })) == CHILDREN_MAX);
	check_eq("left", CHILDREN_MAX, left);
	for (int i = 0; i < 4; i++) {
		char name[32];

		snprintf(name, sizeof(name), "/storm-%d", i);
		mq_unlink(name);
	}
	check_eq("queues_left", QUEUES, queues_left());
}

static void stopped_anywhere(void)
{
	stopped(2);
}

static void stopped_over_queues(void)
{
	stopped(3);
}

/* --- queues and locked memory --- */

static void open_and_unlink(int i)
{
	for (int k = 0; k < 100 * times; k++) {
		char name[32];
		mqd_t q;

		snprintf(name, sizeof(name), "/race-%d", (i + k) % 5);
		q = mq_open(name, O_RDWR | O_CREAT, 0600,
			    &(struct mq_attr){ .mq_maxmsg = 1, .mq_msgsize = 1 });
		if (q < 0 && errno != EMFILE)
			atomic_fetch_add(&all->wrong, 1);
		if (mq_unlink(name) && errno != ENOENT)
			atomic_fetch_add(&all->wrong, 1);
		if (q >= 0)
			mq_close(q);
	}
}

static void queues_of_many(void)
{
	new_shared();
	verdict(race(16, open_and_unlink), "openers", "one of them failed");
	check_eq("wrong", 0, atomic_load(&all->wrong));
	check_eq("left", QUEUES, queues_left());
}

static char *memory;

static void *lock_and_unlock(void *arg)
{
	long i = (long)arg;

	for (int k = 0; k < 400 * times; k++) {
		char *at = memory + (i * 3 + k) % 24 * PAGE;

		if (mlock(at, 2 * PAGE) && errno != ENOMEM)
			atomic_fetch_add(&all->wrong, 1);
		if (munlock(at, 2 * PAGE))
			atomic_fetch_add(&all->wrong, 1);
	}
	return NULL;
}

static int locked_kb(void)
{
	char line[128];
	int kb = -1;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %d kB", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

static void locks_of_many_threads(void)
{
	pthread_t thread[8];
	int n = 0;

	new_shared();
	memory = mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (long i = 0; i < 8; i++)
		if (pthread_create(&thread[i], NULL, lock_and_unlock, (void *)i))
			die("pthread_create");
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	check_eq("wrong", 0, atomic_load(&all->wrong));
	check_eq("locked", 0, locked_kb());
	while (n < 32 && !mlock(memory + n * PAGE, PAGE))
		n++;
	check_eq("left", 16, n);
}

static const struct test_case test[] = {
	{ "forkers_fill_the_limit", forkers_fill_the_limit },
	{ "forkers_and_reapers", forkers_and_reapers },
	{ "threads_fork_and_make_threads", threads_fork_and_make_threads },
	{ "storm_of_sigkill", storm_of_sigkill },
	{ "stopped_anywhere", stopped_anywhere },
	{ "stopped_over_queues", stopped_over_queues },
	{ "queues_of_many", queues_of_many },
	{ "locks_of_many_threads", locks_of_many_threads },
};

int main(int argc, char **argv)
{
	char byte;
	int ret;

	if (argc > 2)
		times = atoi(argv[2]);
	ret = run_case(test, sizeof(test) / sizeof(*test), argc, argv);
	if (argc > 1 && !strcmp(argv[1], "--list"))
		return ret;
	puts("over");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return ret;
}
