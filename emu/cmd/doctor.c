/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kpemu doctor: what this host allows, and what kpemu does where it does not. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mntent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <kpemu/user_namespace.h>

#include "emu/cmd/cmd.h"

#ifndef PAGEMAP_SCAN
#define PAGEMAP_SCAN _IOC(_IOC_READ | _IOC_WRITE, 'f', 16, 96)
#endif
#define TMPFS_MAGIC     0x01021994
#define MQUEUE_MAGIC    0x19800202
#define PROC_MAGIC      0x9fa0
#define WORLD_MIN_BYTES (1024 * 1024) /* what a small program's world takes, generously */
#define VALUE_COLUMN    21
#define WHY_COLUMN      23

enum verdict {
	GOOD,
	FALLS_BACK, /* something else serves */
	FATAL, /* kpemu run does not work */
};

struct fact {
	enum verdict verdict;
	char value[600];
};

static void set(struct fact *f, enum verdict verdict, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void set(struct fact *f, enum verdict verdict, const char *fmt, ...)
{
	va_list ap;

	f->verdict = verdict;
	va_start(ap, fmt);
	vsnprintf(f->value, sizeof(f->value), fmt, ap);
	va_end(ap);
}

static void kernel(struct fact *f)
{
	struct utsname u;

	uname(&u);
	set(f, strcmp(u.machine, "x86_64") ? FATAL : GOOD, "%s %s", u.release, u.machine);
}

static void perf(struct fact *f)
{
	int64_t v = cmd_sysctl("/proc/sys/kernel/perf_event_paranoid", INT64_MAX);

	if (v == INT64_MAX)
		set(f, FALLS_BACK, "not readable");
	else
		set(f, v <= 2 || !cmd_uid() ? GOOD : FALLS_BACK, "%" PRId64, v);
}

/* Any answer but "no such ioctl" to a nonsensical request says that it is there. */
static void pagemap_scan(struct fact *f)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		set(f, FALLS_BACK, "no pagemap: %s", strerror(errno));
		return;
	}
	if (ioctl(fd, PAGEMAP_SCAN, NULL) && errno == ENOTTY)
		set(f, FALLS_BACK, "missing");
	else
		set(f, GOOD, "available");
	close(fd);
}

/* glibc 2.35; a 0 says that it could not register, or was told not to. */
extern const unsigned int __rseq_size __attribute__((weak));

static void rseq(struct fact *f)
{
	if (&__rseq_size && __rseq_size)
		set(f, GOOD, "registered by libc, %u bytes", __rseq_size);
	else
		set(f, FALLS_BACK, "not registered by libc");
}

static void shm(struct fact *f)
{
	uint64_t size, avail;
	struct statfs fs;

	if (statfs(WORLD_DIR, &fs)) {
		set(f, FATAL, "%s", strerror(errno));
		return;
	}
	size = (uint64_t)fs.f_blocks * fs.f_bsize / 1024;
	avail = (uint64_t)fs.f_bavail * fs.f_bsize / 1024;
	if (fs.f_type != TMPFS_MAGIC)
		set(f, FALLS_BACK, "not a tmpfs: worlds are written to a disk");
	else if (access(WORLD_DIR, W_OK))
		set(f, FATAL, "not writable");
	else if (!fs.f_blocks)
		set(f, GOOD, "no limit on its size");
	else
		set(f, avail * 1024 < WORLD_MIN_BYTES ? FATAL : GOOD,
		    "%" PRIu64 " kB, %" PRIu64 " kB free", size, avail);
}

static void ceilings(struct fact *f)
{
	static const int resources[] = { RLIMIT_NPROC, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE,
					 RLIMIT_MEMLOCK };
	bool unlimited = true;
	size_t used = 0;

	f->value[0] = '\0';
	for (size_t i = 0; i < sizeof(resources) / sizeof(*resources); i++) {
		struct rlimit rl;
		char text[24];

		getrlimit(resources[i], &rl);
		unlimited &= rl.rlim_max == RLIM_INFINITY;
		used += snprintf(f->value + used, sizeof(f->value) - used, "%s%s=%s", i ? ", " : "",
				 rlimit_name(rlimit_type_of(resources[i])),
				 cmd_limit_text(text, sizeof(text), rl.rlim_max));
	}
	f->verdict = unlimited ? GOOD : FALLS_BACK;
}

static void mqueue(struct fact *f)
{
	struct statfs fs;
	int64_t queues = cmd_sysctl("/proc/sys/fs/mqueue/queues_max", -1);

	if (queues < 0) {
		set(f, FALLS_BACK, "not readable");
		return;
	}
	set(f, FALLS_BACK,
	    "msg_max=%" PRId64 ", msgsize_max=%" PRId64 ", queues_max=%" PRId64 ", %s",
	    cmd_sysctl("/proc/sys/fs/mqueue/msg_max", 10),
	    cmd_sysctl("/proc/sys/fs/mqueue/msgsize_max", 8192), queues,
	    !statfs("/dev/mqueue", &fs) && fs.f_type == MQUEUE_MAGIC ? "mounted" : "not mounted");
}

/* The hidepid option of /proc, as its mount says; NULL: none, or 0. */
static const char *hidepid(void)
{
	static char text[32];
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *m;
	char *opt;

	text[0] = '\0';
	while (f && (m = getmntent(f))) {
		if (strcmp(m->mnt_dir, "/proc"))
			continue;
		opt = hasmntopt(m, "hidepid");
		snprintf(text, sizeof(text), "%.*s", opt ? (int)strcspn(opt, ",") : 0,
			 opt ? opt : "");
	}
	if (f)
		endmntent(f);
	return *text && strcmp(text, "hidepid=0") && strcmp(text, "hidepid=off") ? text : NULL;
}

static void proc(struct fact *f)
{
	const char *hidden;
	struct statfs fs;

	if (statfs("/proc", &fs) || fs.f_type != PROC_MAGIC) {
		set(f, FATAL, "not mounted");
		return;
	}
	hidden = hidepid();
	set(f, hidden ? FALLS_BACK : GOOD, "mounted%s%s", hidden ? ", " : "", hidden ? hidden : "");
}

static void userns(struct fact *f)
{
	int64_t max = cmd_sysctl("/proc/sys/user/max_user_namespaces", 0);
	bool unprivileged =
		cmd_sysctl("/proc/sys/kernel/unprivileged_userns_clone", 1) &&
		!cmd_sysctl("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0);

	if (max <= 0)
		set(f, FALLS_BACK, "none");
	else
		set(f, unprivileged ? GOOD : FALLS_BACK, "%" PRId64 "%s", max,
		    unprivileged ? "" : ", for root only");
}

static void preload(struct fact *f)
{
	char path[sizeof(world->preload_path)];

	switch (cmd_preload_find(path, sizeof(path))) {
	case 0:
		set(f, GOOD, "%s", path);
		break;
	case -ENOENT:
		set(f, FATAL, "missing");
		break;
	default:
		set(f, FATAL, "its path is too long, or has a blank, ':' or '$'");
	}
}

/* @falls_back is printed unless the fact is good. */
static const struct question {
	const char *name, *key, *falls_back;
	void (*ask)(struct fact *f);
} questions[] = {
	{ "kernel", "kernel", "kpemu is written for x86_64", kernel },
	{ "perf_event_paranoid", "perf_event_paranoid",
	  "page faults are not reported by perf; walks of pagemap serve alone", perf },
	{ "PAGEMAP_SCAN", "pagemap_scan", "pagemap is read page by page", pagemap_scan },
	{ "rseq", "rseq", "counters are atomic adds instead of restartable sequences", rseq },
	{ "/dev/shm", "dev_shm", "kpemu run needs it: a tmpfs with about 1 MB free", shm },
	{ "hard limits", "hard_limits",
	  "emulated limits may be higher, but the host refuses beyond these, and the call counts as "
	  "a host collision; kpemu run raises the program's real soft limits to these, so that the "
	  "emulated limit bites first",
	  ceilings },
	{ "mqueue", "mqueue",
	  "queues beyond these bounds are smaller in the host (counted as clamped); where it is not "
	  "mounted, kpemu gc sees only queues of worlds that are still there",
	  mqueue },
	{ "/proc", "proc",
	  "not mounted: kpemu run needs it; hidepid: only processes of the same user are seen",
	  proc },
	{ "user namespaces", "user_namespaces",
	  "emulated user namespaces need no real ones; tests against the kernel are skipped",
	  userns },
	{ "preload library", "preload_library",
	  "kpemu run needs it beside the executable or in ../lib", preload },
};
#define NR_QUESTIONS (sizeof(questions) / sizeof(*questions))

static const char *const verdict_name[] = {
	[GOOD] = "ok",
	[FALLS_BACK] = "falls back",
	[FATAL] = "fatal",
};

static void print_fact(const struct question *q, const struct fact *f)
{
	char value[sizeof(f->value) * 4], why[400];

	printf("%-*s", VALUE_COLUMN, q->name);
	cmd_wrap(VALUE_COLUMN, cmd_printable(value, sizeof(value), f->value, sizeof(f->value)));
	if (f->verdict == GOOD)
		return;
	snprintf(why, sizeof(why), "%s%s", f->verdict == FATAL ? "FATAL: " : "", q->falls_back);
	printf("%*s", WHY_COLUMN, "");
	cmd_wrap(WHY_COLUMN, why);
}

static json_t *fact_json(const struct question *q, const struct fact *f)
{
	json_t *v = json_pack("{s:o, s:s}", "value", cmd_json_text(f->value, sizeof(f->value)),
			      "verdict", verdict_name[f->verdict]);

	if (f->verdict != GOOD)
		json_object_set_new(v, "falls_back", json_string(q->falls_back));
	return v;
}

static int doctor_json(void *options, const char *arg)
{
	(void)arg;
	*(bool *)options = true;
	return 0;
}

static int run_doctor(const struct cmd *cmd, int argc, char **argv)
{
	bool json = false, fatal = false;
	int first, ret = cmd_parse(cmd, argc, argv, &json, &first);
	json_t *all = NULL;

	if (ret)
		return ret;
	if (json)
		all = json_object();
	for (size_t i = 0; i < NR_QUESTIONS; i++) {
		struct fact f;

		questions[i].ask(&f);
		fatal |= f.verdict == FATAL;
		if (json)
			json_object_set_new(all, questions[i].key, fact_json(&questions[i], &f));
		else
			print_fact(&questions[i], &f);
	}
	ret = json ? cmd_json_print(all) : cmd_flush();
	return ret ? ret : fatal ? CMD_DIFFERS : CMD_OK;
}

static const struct cmd_option doctor_options[] = {
	{ "json", 0, NULL, "print JSON", doctor_json },
	{ 0 },
};

const struct cmd cmd_doctor = {
	.name = "doctor",
	.usage = "",
	.summary = "print what this host allows and what falls back",
	.options = doctor_options,
	.run = run_doctor,
};
