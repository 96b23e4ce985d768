/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The world's table of distinct refusals. */
#include <string.h>
#include <sys/prctl.h>

#include <kpemu/refusal.h>
#include <kpemu/sched.h>

#include "emu/lib/rawsys.h"

static bool same_kind(const struct refusal_record *rec, const struct refusal *r, const char *call,
		      const char *comm)
{
	const struct refusal *f = &rec->first;

	return slot_state(READ_ONCE(rec->slot)) == SLOT_LIVE && f->err == r->err &&
	       f->type == r->type && f->level == r->level && f->ns == r->ns && f->uid == r->uid &&
	       f->limit == r->limit && !strncmp(rec->call, call, sizeof(rec->call) - 1) &&
	       (r->err || !strncmp(rec->comm, comm, sizeof(rec->comm) - 1));
}

static void copy_text(char *to, const char *from, size_t size)
{
	size_t n = strnlen(from, size - 1);

	memcpy(to, from, n);
	to[n] = 0;
}

static void log_kind(const struct refusal *r, const char *call, const char *comm)
{
	struct refusal_record *rec;

	for (uint32_t i = 0; (rec = table_slot(TABLE_REFUSAL, i)); i++) {
		if (!same_kind(rec, r, call, comm))
			continue;
		atomic64_inc(&rec->count);
		return;
	}
	/* Two tasks may both add the first of a kind: then the kind has two lines, no count is lost. */
	rec = table_alloc(TABLE_REFUSAL, current ? task_ref(current) : 0);
	if (!rec) {
		fetch_add(&world->refusals_lost, 1);
		return;
	}
	rec->first = *r;
	copy_text(rec->call, call, sizeof(rec->call));
	copy_text(rec->comm, comm, sizeof(rec->comm));
	atomic64_set(&rec->count, 1);
	smp_store_release(&rec->slot, slot_word(SLOT_LIVE, slot_gen(rec->slot), 0));
}

void refusal_log(const struct refusal *r, const char *call)
{
	char comm[16] = "";

	if (!r->err)
		return;
	sys_call(__NR_prctl, PR_GET_NAME, comm, 0, 0, 0);
	log_kind(r, call, comm);
}

void uncovered_log(const char *why, const char *path)
{
	struct refusal none = { 0 };
	const char *base = strrchr(path, '/');

	atomic64_inc(&world->counts.uncovered);
	log_kind(&none, why, base ? base + 1 : path);
}
