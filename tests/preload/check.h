/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Verdicts of test programs, in the words that tests/run-all reads, and what several of them need. */
#ifndef TESTS_PRELOAD_CHECK_H
#define TESTS_PRELOAD_CHECK_H

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Verdicts that were not good; the exit status of the program says whether there were any. */
static int failures;

/* One write a line: lines of several processes do not mix, and nothing is left in a buffer. */
__attribute__((format(printf, 3, 4))) static inline bool verdict(bool good, const char *name,
								 const char *fmt, ...)
{
	char why[400], text[600];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (good)
		n = snprintf(text, sizeof(text), "ok %s\n", name);
	else
		n = snprintf(text, sizeof(text), "FAIL %s: %s\n", name, why);
	if (write(STDOUT_FILENO, text, n) != n)
		_exit(99);
	failures += !good;
	return good;
}

/* check_eq - two numbers. */
#define check_eq(name, want, got)                                                                  \
	({                                                                                         \
		long long want_ = (want), got_ = (got);                                            \
		verdict(want_ == got_, name, "want %lld, got %lld", want_, got_);                  \
	})

/* check_err - two errno values, 0 for success. */
#define check_err(name, want, got)                                                                 \
	({                                                                                         \
		int want_ = (want), got_ = (got);                                                  \
		verdict(want_ == got_, name, "want %s, got %s", err_name(want_), err_name(got_));  \
	})

static inline const char *err_name(int err)
{
	const char *name = err ? strerrorname_np(err) : "success";

	return name ? name : "?";
}

/* err_of - the errno of a call that says -1, else 0. */
#define err_of(call) ((long)(call) == -1 ? errno : 0)

/* die - the test itself cannot go on. */
__attribute__((noreturn)) static inline void die(const char *what)
{
	verdict(false, what, "%s", strerror(errno));
	_exit(1);
}

static inline void pause_ms(long ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static inline long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

/* read_within - @n bytes from @fd within @ms; false when they do not come. */
static inline bool read_within(int fd, void *buf, size_t n, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char *at = buf;

	while (n) {
		ssize_t got = poll(&p, 1, ms);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		got = read(fd, at, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		n -= got;
	}
	return true;
}

/* until - evaluate @condition again and again, five seconds long; its last value. */
#define until(condition)                                                                           \
	({                                                                                         \
		long long end_ = now_ms() + 5000;                                                  \
		bool done_;                                                                        \
		while (!(done_ = (condition)) && now_ms() < end_)                                  \
			pause_ms(5);                                                               \
		done_;                                                                             \
	})

/* A program of many cases runs one of them in each process. */
struct test_case {
	const char *name;
	void (*run)(void);
};

/* run_case - what main() does: --list prints the names, a name runs that case. */
static inline int run_case(const struct test_case *test, size_t n, int argc, char **argv)
{
	for (size_t i = 0; i < n && argc > 1; i++) {
		if (!strcmp(argv[1], "--list"))
			puts(test[i].name);
		if (strcmp(argv[1], test[i].name))
			continue;
		test[i].run();
		return failures != 0;
	}
	return argc > 1 && !strcmp(argv[1], "--list") ? 0 : 2;
}

#endif
