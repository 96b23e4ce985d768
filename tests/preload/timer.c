/* SPDX-License-Identifier: GPL-2.0-or-later */
/* POSIX timers: each costs one pending signal until it is deleted, whatever it is for. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "tests/preload/children.h"

/* Started with a limit of three, by a user alone in its account. */
#define ALL 3
#define MANY 8

#define CLOCK CLOCK_MONOTONIC

static int make(timer_t *id)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };

	return timer_create(CLOCK, &ev, id);
}

/* How many more there can be; they are gone afterwards. */
static int timers_left(void)
{
	timer_t id[MANY];
	int n = 0, err;

	while (n < MANY && !make(&id[n]))
		n++;
	err = errno;
	for (int i = 0; i < n; i++)
		if (timer_delete(id[i]))
			die("timer_delete");
	if (n < MANY && err != EAGAIN)
		check_err("refused", EAGAIN, err);
	return n;
}

#define check_left(name, gone) check_eq(name, ALL - (gone), timers_left())

static void block(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void expire(timer_t id)
{
	struct itimerspec at = { .it_value.tv_nsec = 1 };
	struct itimerspec left;

	if (timer_settime(id, 0, &at, NULL))
		die("timer_settime");
	if (!until(!timer_gettime(id, &left) && !left.it_value.tv_sec && !left.it_value.tv_nsec))
		die("timer");
	pause_ms(5);
}

static bool is_pending(int sig)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, sig);
}

/* --- what costs --- */

static void exactly_the_limit(void)
{
	timer_t id[ALL], more;

	for (int i = 0; i < ALL; i++)
		check_eq("below", 0, make(&id[i]));
	more = (timer_t)77;
	check_err("at_the_limit", EAGAIN, err_of(make(&more)));
	check_eq("no_number", 77, (long)more);
	check_eq("delete", 0, timer_delete(id[1]));
	check_left("one_again", 2);
	check_eq("delete", 0, timer_delete(id[0]));
	check_eq("delete", 0, timer_delete(id[2]));
	check_left("all_again", 0);
}

static void whatever_it_notifies_by(void)
{
	struct sigevent none = { .sigev_notify = SIGEV_NONE };
	struct sigevent thread = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
	timer_t id[ALL];

	thread._sigev_un._tid = gettid();
	check_eq("none", 0, timer_create(CLOCK_REALTIME, &none, &id[0]));
	check_left("none_costs", 1);
	check_eq("default", 0, timer_create(CLOCK_THREAD_CPUTIME_ID, NULL, &id[1]));
	check_left("default_costs", 2);
	check_eq("thread", 0, timer_create(CLOCK_PROCESS_CPUTIME_ID, &thread, &id[2]));
	check_left("thread_costs", 3);
	check_err("none_refused", EAGAIN, err_of(timer_create(CLOCK, &none, &id[0])));
	check_err("default_refused", EAGAIN, err_of(timer_create(CLOCK, NULL, &id[0])));
	check_err("thread_refused", EAGAIN, err_of(timer_create(CLOCK, &thread, &id[0])));
}

static int called;

static void call(union sigval v)
{
	__atomic_store_n(&called, v.sival_int, __ATOMIC_RELAXED);
}

static void by_function(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD, .sigev_value.sival_int = 5 };
	timer_t id[ALL + 1];

	ev.sigev_notify_function = call;
	for (int i = 0; i < ALL; i++)
		check_eq("create", 0, timer_create(CLOCK, &ev, &id[i]));
	check_err("refused", EAGAIN, err_of(timer_create(CLOCK, &ev, &id[ALL])));
	expire(id[0]);
	check_eq("called", true, until(__atomic_load_n(&called, __ATOMIC_RELAXED) == 5));
	for (int i = 0; i < ALL; i++)
		check_eq("delete", 0, timer_delete(id[i]));
	check_left("given_back", 0);
}

static void of_a_thread_s(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD, .sigev_value.sival_int = 6 };
	timer_t id, of;

	ev.sigev_notify_function = call;
	check_eq("create", 0, timer_create(CLOCK, &ev, &id));
	check_eq("signal", 0, make(&of));
	check_left("both", 2);
	check_eq("delete", 0, timer_delete(id));
	check_left("the_other", 1);
	check_eq("delete", 0, timer_delete(of));
	check_left("none", 0);
}

static void *make_one(void *arg)
{
	return (void *)(long)make(arg);
}

static void made_by_a_thread(void)
{
	pthread_t thread;
	void *ret;
	timer_t id;

	pthread_create(&thread, NULL, make_one, &id);
	pthread_join(thread, &ret);
	check_eq("create", 0, (long)ret);
	check_left("outlives_it", 1);
	check_eq("delete", 0, timer_delete(id));
	check_left("by_another", 0);
}

/* --- the order of errors --- */

#define BAD_CLOCK 10 /* a hole in the kernel's table */

static void order_of_errors(void)
{
	struct sigevent no_signal = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = 65 };
	struct sigevent odd = { .sigev_notify = 77, .sigev_signo = SIGUSR1 };
	struct sigevent no_thread = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	timer_t id[ALL], more;

	check_err("bad_clock", EINVAL, err_of(timer_create(BAD_CLOCK, NULL, &more)));
	check_err("clock_without", EOPNOTSUPP,
		  err_of(timer_create(CLOCK_MONOTONIC_RAW, NULL, &more)));
	check_err("bad_signal", EINVAL, err_of(timer_create(CLOCK, &no_signal, &more)));
	check_err("bad_notify", EINVAL, err_of(timer_create(CLOCK, &odd, &more)));
	check_err("bad_thread", EINVAL, err_of(timer_create(CLOCK, &no_thread, &more)));
	check_err("bad_id", EINVAL, err_of(timer_delete((timer_t)12345)));
	check_left("cost_nothing", 0);
	for (int i = 0; i < ALL; i++)
		make(&id[i]);
	check_err("clock_before_limit", EINVAL, err_of(timer_create(BAD_CLOCK, NULL, &more)));
	check_err("clock_without_before", EOPNOTSUPP,
		  err_of(timer_create(CLOCK_MONOTONIC_RAW, &no_signal, &more)));
	check_err("limit_before_signal", EAGAIN, err_of(timer_create(CLOCK, &no_signal, &more)));
	check_err("limit_before_notify", EAGAIN, err_of(timer_create(CLOCK, &odd, &more)));
	check_err("bad_id_at_limit", EINVAL, err_of(timer_delete((timer_t)12345)));
	check_err("limit", EAGAIN, err_of(make(&more)));
}

static void errno_is_kept(void)
{
	timer_t id;

	errno = 42;
	check_eq("create", 0, make(&id));
	check_eq("after_create", 42, errno);
	check_eq("delete", 0, timer_delete(id));
	check_eq("after_delete", 42, errno);
}

static void by_number(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	int id[ALL], more;
	timer_t other;

	check_eq("create", 0, syscall(SYS_timer_create, CLOCK, &ev, &id[0]));
	check_left("costs", 1);
	check_eq("default", 0, syscall(SYS_timer_create, CLOCK, NULL, &id[1]));
	ev.sigev_notify = SIGEV_THREAD; /* to the kernel as SIGEV_SIGNAL */
	check_eq("thread", 0, syscall(SYS_timer_create, CLOCK, &ev, &id[2]));
	check_err("refused", EAGAIN, err_of(syscall(SYS_timer_create, CLOCK, &ev, &more)));
	check_err("bad_clock", EINVAL, err_of(syscall(SYS_timer_create, BAD_CLOCK, &ev, &more)));
	check_err("bad_event", EFAULT,
		  err_of(syscall(SYS_timer_create, BAD_CLOCK, (void *)8, &more)));
	check_err("refused_first", EAGAIN, err_of(syscall(SYS_timer_create, CLOCK, &ev, NULL)));
	check_eq("delete", 0, syscall(SYS_timer_delete, id[0]));
	check_err("twice", EINVAL, err_of(syscall(SYS_timer_delete, id[0])));
	check_err("no_number", EFAULT, err_of(syscall(SYS_timer_create, CLOCK, &ev, NULL)));
	check_err("bad_number", EFAULT, err_of(syscall(SYS_timer_create, CLOCK, &ev, (void *)8)));
	check_left("one", 2);
	check_eq("deleted_by_name", 0, timer_delete((timer_t)(long)id[1]));
	check_eq("delete", 0, syscall(SYS_timer_delete, id[2]));
	check_eq("made_by_name", 0, make(&other));
	check_eq("deleted_by_number", 0, syscall(SYS_timer_delete, (int)(long)other));
	check_left("all", 0);
}

/* --- expiry, and the end --- */

static void expiry_adds_nothing(void)
{
	timer_t id;

	block(SIGUSR1);
	check_eq("create", 0, make(&id));
	expire(id);
	check_eq("waits", true, is_pending(SIGUSR1));
	check_left("as_before", 1);
}

/* Deleted with its signal waiting: the unit stays with the signal, whatever becomes of that. */
static void deleted_while_its_signal_waits(void)
{
	struct timespec zero = { 0 };
	sigset_t set;
	timer_t id;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	block(SIGUSR1);
	check_eq("create", 0, make(&id));
	expire(id);
	check_eq("delete", 0, timer_delete(id));
	check_left("stays", 1);
	sigtimedwait(&set, NULL, &zero);
	check_eq("gone", false, is_pending(SIGUSR1));
	check_left("given_back", 0);
}

static void fork_passes_none_on(void)
{
	timer_t id;
	int status;
	pid_t pid;

	check_eq("create", 0, make(&id));
	pid = fork();
	if (!pid) {
		check_err("not_the_child_s", EINVAL, err_of(timer_delete(id)));
		check_left("child", 1);
		_exit(make(&id) || make(&id) || failures);
	}
	waitpid(pid, &status, 0);
	check_eq("child", 0, status);
	check_left("those_of_the_child_are_gone", 1);
}

static void zombie_holds_none(void)
{
	siginfo_t info;
	timer_t id;
	pid_t pid = fork();

	if (!pid) {
		make(&id);
		make(&id);
		_exit(0);
	}
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	check_left("zombie", 0);
	waitpid(pid, NULL, 0);
	check_left("reaped", 0);
}

static void killed_child(void)
{
	int ready[2];
	timer_t id;
	char byte;
	pid_t pid;

	if (pipe(ready))
		die("pipe");
	pid = fork();
	if (!pid) {
		make(&id);
		make(&id);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	check_eq("ready", 1, read(ready[0], &byte, 1));
	check_left("alive", 2);
	kill_child(pid);
	check_left("killed", 0);
}

static char *self;

static void exec_ends_them(void)
{
	timer_t id;

	make(&id);
	make(&id);
	check_left("before", 2);
	execl(self, self, "--left", NULL);
	die("execl");
}

static void lowered_limit(void)
{
	struct rlimit none = { 0, ALL };
	timer_t id, more;

	check_eq("create", 0, make(&id));
	check_eq("setrlimit", 0, setrlimit(RLIMIT_SIGPENDING, &none));
	check_err("refused", EAGAIN, err_of(make(&more)));
	check_eq("delete", 0, timer_delete(id));
	check_err("at_zero", EAGAIN, err_of(make(&more)));
}

/* --- many at once --- */

static void *make_and_delete(void *arg)
{
	timer_t id;
	(void)arg;

	for (int i = 0; i < 500; i++)
		if (!make(&id) && timer_delete(id))
			return (void *)1;
	return NULL;
}

static void threads_at_once(void)
{
	pthread_t thread[4];
	void *ret;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, make_and_delete, NULL);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &ret);
		check_eq("thread", 0, (long)ret);
	}
	check_left("all_given_back", 0);
}

#define CASE(name) { #name, name }
static const struct test_case test[] = {
	CASE(exactly_the_limit),
	CASE(whatever_it_notifies_by),
	CASE(by_function),
	CASE(of_a_thread_s),
	CASE(made_by_a_thread),
	CASE(order_of_errors),
	CASE(errno_is_kept),
	CASE(by_number),
	CASE(expiry_adds_nothing),
	CASE(deleted_while_its_signal_waits),
	CASE(fork_passes_none_on),
	CASE(zombie_holds_none),
	CASE(killed_child),
	CASE(exec_ends_them),
	CASE(lowered_limit),
	CASE(threads_at_once),
};

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc == 2 && !strcmp(argv[1], "--left")) {
		check_left("after_exec", 0);
		return failures != 0;
	}
	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
