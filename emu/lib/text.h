/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The few string operations of paths that every new program runs. */
#ifndef EMU_LIB_TEXT_H
#define EMU_LIB_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * libc has all of them, and elsewhere we use them. But each of its functions lies on another page,
 * the first touch of a page is a fault, and between fork and main() there are some twenty
 * microseconds of them to save for each. Inlined, these lie where the caller does.
 */

static inline size_t text_len(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

/* Does @s begin with @prefix? */
static inline bool text_starts(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return false;
	return true;
}

static inline bool text_equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* Are the @n bytes at @s the whole of @other? */
static inline bool text_is(const char *s, size_t n, const char *other)
{
	for (size_t i = 0; i < n; i++)
		if (!other[i] || s[i] != other[i])
			return false;
	return !other[n];
}

/* Append @s, or the decimal @v, at @p; returns the new end, where a 0 has been put. */
static inline char *text_put(char *p, const char *s)
{
	while (*s)
		*p++ = *s++;
	*p = 0;
	return p;
}

static inline char *text_put_number(char *p, uint64_t v)
{
	char digits[20];
	int n = 0;

	do {
		digits[n++] = '0' + v % 10;
		v /= 10;
	} while (v);
	while (n)
		*p++ = digits[--n];
	*p = 0;
	return p;
}

#endif
