/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A tree of processes that fork, open queues and lock memory for some milliseconds, or until killed. */
#include <mqueue.h>
#include <pthread.h>
#include <sys/mman.h>

#include "tests/preload/children.h"

/* usage: storm MILLISECONDS */
#define WORKERS 4
#define PAGE 4096

static long long end;

static void *nothing(void *arg)
{
	return arg;
}

static void forks(bool orphan)
{
	pid_t pid = fork();

	if (!pid) {
		if (orphan && !fork())
			pause_ms(5);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

/* Sometimes the queue is left behind, open or not. */
static void queues(int i)
{
	struct mq_attr small = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	static const char *const name[] = { "/a", "/b", "/c", "/d" };
	mqd_t q = mq_open(name[i % 4], O_RDWR | O_CREAT, 0600, &small);

	if (i % 5)
		mq_unlink(name[i % 4]);
	if (q >= 0 && i % 7)
		mq_close(q);
}

static void threads(void)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, nothing, NULL))
		pthread_join(thread, NULL);
}

static void work(int n)
{
	char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = n; now_ms() < end; i++) {
		switch (i % 4) {
		case 0:
			forks(i % 8 == 0);
			break;
		case 1:
			queues(i / 4);
			break;
		case 2:
			threads();
			break;
		default:
			mlock(p + i / 4 % 8 * PAGE, PAGE);
			munlock(p + (i / 4 + 4) % 8 * PAGE, PAGE);
		}
	}
	closefrom(3);
	_exit(0);
}

int main(int argc, char **argv)
{
	pid_t pid[WORKERS];

	end = now_ms() + (argc > 1 ? atoi(argv[1]) : 100);
	for (int i = 0; i < WORKERS; i++) {
		pid[i] = fork();
		if (!pid[i])
			work(i);
	}
	for (int i = 0; i < WORKERS; i++)
		if (pid[i] > 0)
			waitpid(pid[i], NULL, 0);
	return 0;
}
