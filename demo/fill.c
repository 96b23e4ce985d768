/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fill: take one more of something until it is refused, and say how many and with which errno. */
#include <errno.h>
#include <mqueue.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENOUGH 1000 /* without a limit fill ends here, before it hurts the machine */
#define PAGE   4096

/* Children wait for the end of this pipe, which comes when their parent closes it. */
static int leash[2];

/* All of these take number @n: 0 or the errno. What is taken is held until fill ends. */
static int take_process(int n)
{
	pid_t pid;
	char c;

	if (!n && pipe(leash))
		return errno;
	pid = fork();
	if (pid)
		return pid < 0 ? errno : 0;
	close(leash[1]);
	_exit(read(leash[0], &c, 1) != 0);
}

static void *idle(void *unused)
{
	pause();
	return unused;
}

static int take_thread(int n)
{
	pthread_t thread;

	(void)n;
	return pthread_create(&thread, NULL, idle, NULL);
}

/* A queue without a name lives as long as its descriptor. */
static int take_queue(int n)
{
	struct mq_attr attr = { .mq_maxmsg = 10, .mq_msgsize = 1024 };
	char name[40];
	mqd_t mq;

	snprintf(name, sizeof(name), "/fill.%d.%d", getpid(), n);
	mq = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
	if (mq == (mqd_t)-1)
		return errno;
	mq_unlink(name);
	return 0;
}

static int take_page(int n)
{
	static char *memory;

	if (!n) {
		memory = mmap(NULL, ENOUGH * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			return errno;
	}
	return mlock(memory + n * PAGE, PAGE) ? errno : 0;
}

static const struct thing {
	const char *limit, *name;
	int (*take)(int n);
} things[] = {
	{ "nproc", "processes", take_process },
	{ "threads", "threads", take_thread },
	{ "msgqueue", "queues of 10 messages of 1 KiB", take_queue },
	{ "memlock", "locked pages", take_page },
};
#define NR_THINGS (sizeof(things) / sizeof(*things))

static void fill(const struct thing *thing)
{
	int n, err = 0;

	for (n = 0; n < ENOUGH; n++) {
		err = thing->take(n);
		if (err)
			break;
	}
	if (err)
		printf("%d %s, then %s (%s)\n", n, thing->name, strerrorname_np(err),
		       strerror(err));
	else
		printf("%d %s, and no refusal\n", n, thing->name);
	fflush(stdout);
	if (leash[1])
		close(leash[1]);
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < NR_THINGS; i++)
		if (!strcmp(argv[1], things[i].limit)) {
			fill(&things[i]);
			return 0;
		}
	fputs("usage: fill nproc|threads|msgqueue|memlock\n", stderr);
	return 2;
}
