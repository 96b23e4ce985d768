/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the model alone takes to charge a signal and to release it, with no call into the kernel: the
 * median of many short samples, in ns. usage: model
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <kpemu/sched.h>
#include <kpemu/signal.h>
#include <kpemu/ucount.h>
#include <kpemu/world.h>

#define SAMPLES 501
#define TIMES   4000

static int is_only_task(void)
{
	struct rlim rlim[UCOUNT_RLIMIT_COUNTS];
	struct task_struct *t;
	struct cred cred;

	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		rlim[i] = (struct rlim){ 100000, 100000 };
	cred_init(&cred, 1000, 1000);
	if (world_map_private() || !(t = task_first(&cred, rlim)))
		return 0;
	current = t;
	return task_born(t, task_ref(t), getpid(), getpid());
}

static void charge_and_release(int sig)
{
	siginfo_t info = { .si_signo = sig, .si_code = SI_QUEUE, .si_pid = current->tgid };
	struct refusal why;
	int mark, how;

	how = send_signal(current, PENDING_SHARED, sig, SI_USER, &mark, &why);
	sent_signal(current, PENDING_SHARED, sig, how, false);
	info.si_errno = mark;
	signal_received(current, &info);
}

static double sample(int sig)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < TIMES; i++)
		charge_and_release(sig);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / TIMES;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void tell(const char *name, int sig)
{
	static double ns[SAMPLES];

	for (int i = 0; i < SAMPLES; i++)
		ns[i] = sample(sig);
	qsort(ns, SAMPLES, sizeof(*ns), by_size);
	printf("%s %.1f %.1f %.1f\n", name, ns[SAMPLES / 2], ns[SAMPLES / 4], ns[SAMPLES * 3 / 4]);
}

int main(void)
{
	if (!is_only_task()) {
		fputs("model: no world\n", stderr);
		return 1;
	}
	tell("standard", SIGUSR1);
	tell("real-time", SIGRTMIN);
	return derive_sigpending(ucounts_of(current->ucounts)) != 0;
}
