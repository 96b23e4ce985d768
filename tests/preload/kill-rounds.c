/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A tree that is busy with everything that is accounted, until it is killed or two seconds are over. */
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 2
#define PAGES 8

/* Whoever is not killed ends by itself: also those that nobody finds any more. */
static void live_for_a_while(void)
{
	alarm(SECONDS);
}

/* A queue that is left open, left behind, or neither. */
static void use_queues(int n)
{
	struct mq_attr small = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	char name[64];
	mqd_t q;

	snprintf(name, sizeof(name), "/kill-rounds-%d-%d", (int)getpid(), n);
	q = mq_open(name, O_CREAT | O_RDWR, 0600, &small);
	if (q == (mqd_t)-1)
		return;
	if (n % 3)
		mq_unlink(name);
	if (n % 2)
		mq_close(q);
}

static void use_memory(void)
{
	static char *memory;

	if (!memory)
		memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mlock(memory, (1 + rand() % PAGES) * 4096);
	munlock(memory, 4096);
}

/* A child ends at once, stays, or leaves a child of its own in another session. */
static void use_tasks(int n)
{
	pid_t pid = fork();

	if (pid > 0) {
		if (n % 3 == 0)
			waitpid(pid, NULL, 0);
		return;
	}
	if (pid < 0)
		return;
	live_for_a_while();
	if (n % 3 == 1)
		for (int i = 0;; i++)
			use_queues(i), use_memory(), usleep(1000);
	if (n % 3 == 2 && fork() == 0) {
		setsid();
		live_for_a_while();
		pause();
	}
	_exit(0);
}

int main(void)
{
	srand(time(NULL) ^ getpid());
	live_for_a_while();
	for (int n = 0;; n++) {
		use_tasks(n);
		use_queues(n);
		use_memory();
		usleep(500);
	}
}
