/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What kpemu run says when the program has ended. */
#include <inttypes.h>

#include <kpemu/mqueue.h>

#include "emu/cmd/cmd.h"
#include "emu/cmd/run.h"

static void print_count(FILE *out, const atomic64_t *count, const char *one, const char *many)
{
	int64_t n = atomic64_read(count);

	if (n)
		fprintf(out, "kpemu: %" PRId64 " %s\n", n, n == 1 ? one : many);
}

static void print_leaks(FILE *out)
{
	char name[4 * MQ_NAME_MAX + 8];
	struct mqueue_inode *q;

	for_each_mqueue(i, q)
		if (cmd_queue_named(q))
			fprintf(out,
				"kpemu: queue /%s of uid %u was left behind (%" PRIu64
				" bytes charged); it is removed\n",
				cmd_printable(name, sizeof(name), q->name, MQ_NAME_MAX), q->uid,
				q->bytes);
}

void report_print(FILE *out, bool ended)
{
	const struct world_counts *c = &world->counts;

	cmd_refusals_text(out, "kpemu: ");
	print_count(
		out, &c->host_collisions,
		"call was allowed by the emulated limits and refused by the host: see kpemu doctor",
		"calls were allowed by the emulated limits and refused by the host: see kpemu "
		"doctor");
	print_count(out, &c->mq_clamped,
		    "queue is smaller in the host than the program asked: see kpemu doctor",
		    "queues are smaller in the host than the program asked: see kpemu doctor");
	if (ended)
		print_leaks(out);
	else
		fprintf(out,
			"kpemu: programs still run in world %s; the last one, the next kpemu run "
			"or kpemu gc removes it\n",
			world->name);
}
