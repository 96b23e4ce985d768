/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Why a call was refused: which limit, at which level, whose record, how much. */
#ifndef KPEMU_REFUSAL_H
#define KPEMU_REFUSAL_H

#include <stdint.h>

#include <kpemu/world.h>

/* Filled by every function that may refuse; err == 0 means that nothing was refused. */
struct refusal {
	int32_t err;	/* the positive errno of the call */
	uint32_t type;	/* enum rlimit_type */
	int32_t level;	/* 0: the task's own record, 1: its namespace's creator, ... */
	uint32_t ns;	/* of the record that was full */
	uint32_t uid;	/* of the record that was full (kuid) */
	int32_t pid;	/* who asked */
	int64_t use;	/* in the limit's unit, without what was asked */
	int64_t limit;	/* in the same unit */
	int64_t asked;
};

struct refusal_record {
	uint64_t slot;
	struct refusal first; /* the first of its kind, whole */
	char call[24];	      /* "fork", "mq_open"; of an uncovered program: why */
	char comm[16];	      /* of the first refused task; the uncovered program */
	atomic64_t count;
	uint64_t pad[3];
};
static_assert(sizeof(struct refusal_record) == WORLD_REFUSAL_SIZE, "ABI");

/*
 * refusal_log - note @r, made by @call, in the world's table of distinct refusals.
 *
 * Distinct is (call, errno, limit, record, level): repeats only count. A full table counts the
 * loss. Never fails, async-signal-safe, @r->err == 0 is ignored.
 */
void refusal_log(const struct refusal *r, const char *call);

/*
 * uncovered_log - note a program that is started but cannot be entered, and why ("static"). It
 * stands in the same table: err 0, @why as the call, the program's last path component as comm.
 * Counted in world->counts.uncovered each time. Never fails, async-signal-safe.
 */
void uncovered_log(const char *why, const char *path);

#endif
