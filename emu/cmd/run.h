/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the options of `kpemu run` to the launcher: what is started, as whom, under which limits. */
#ifndef EMU_CMD_RUN_H
#define EMU_CMD_RUN_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

#include <kpemu/cred.h>
#include <kpemu/exec.h>
#include <kpemu/sched.h>
#include <kpemu/sysctl.h>
#include <kpemu/ucount.h>

struct real_limit {
	bool set;
	struct rlimit value;
};

struct run_options {
	const char *world_name; /* NULL: one is made up */
	bool quiet, strict;
	bool set_uid, set_gid;
	uint32_t uid, gid;
	uint64_t cap_drop;
	bool set_rlim[UCOUNT_RLIMIT_COUNTS];
	struct rlim rlim[UCOUNT_RLIMIT_COUNTS]; /* for the model */
	uint32_t userns; /* nested user namespaces to start in */
	bool set_sysctl[NR_SYSCTLS];
	int64_t sysctl[NR_SYSCTLS];
	bool set_ucounts_alg;
	enum ucounts_alg ucounts_alg, kernel_alg; /* the second if no --ucounts says another */
	struct real_limit real[RLIM_NLIMITS]; /* for the kernel, in the program's process */
};

struct launch {
	const struct run_options *options;
	char **argv; /* the program's */
	char path[PATH_MAX]; /* what is executed */
	enum exec_kind kind;
	int world_fd; /* holds the world's life sign */
	struct task_struct *task;
	sigset_t mask; /* the caller's, for the program */
};

/* run_limit_option - one --rlimit NAME=SOFT[:HARD]. 0 or CMD_ERROR after a message. */
int run_limit_option(struct run_options *options, const char *arg);

/* run_limit_defaults - what no option said is the caller's own. */
void run_limit_defaults(struct run_options *options);

/* run_limit_refused - the host said @err to the limit RLIMIT_* number @resource. CMD_ERROR. */
int run_limit_refused(const struct run_options *options, int resource, int err);

/* run_cap_option - one --cap-drop CAP[,CAP]. 0 or CMD_ERROR after a message. */
int run_cap_option(struct run_options *options, const char *arg);

/* run_sysctl_option - one --sysctl KEY=VALUE. 0 or CMD_ERROR after a message. */
int run_sysctl_option(struct run_options *options, const char *arg);

/*
 * run_namespaces - before the program's task @t starts: the sysctls of the initial namespaces, then
 * the namespaces that it starts in. 0 or CMD_ERROR after a message.
 */
int run_namespaces(const struct run_options *options, struct task_struct *t);

/* run_credentials - the identity at start: the caller's own, changed as the options say. */
void run_credentials(const struct run_options *options, struct cred *cred);

/* run_create_world - make and map the world. A descriptor, or -CMD_ERROR after a message. */
int run_create_world(const struct run_options *options);

/*
 * launcher_run - start the program as @l->task and see it to its end.
 *
 * The world is mapped and complete before; afterwards it is removed, or left to those who still
 * live in it. Callers have blocked signals. Returns the exit status; does not return when the
 * program died of a signal: then so does the launcher.
 */
int launcher_run(struct launch *l);

/*
 * report_print - what a person must know after the run, one line each. @ended: nobody lives in the
 * world any more, so that its queues are leaks. Before the world goes.
 */
void report_print(FILE *out, bool ended);

/* The socket at which a process that cannot reach the world's path asks for it. */
#define HANDOVER_PEERS 16
struct handover {
	int listener; /* -1: none */
	int peer[HANDOVER_PEERS]; /* connected, and have not asked yet; oldest first */
	int peers;
};
struct pollfd;

/* handover_open - listen. Without it the world works, but not for processes in a chroot. */
void handover_open(struct handover *h);
void handover_close(struct handover *h);

/* handover_poll - what to wait for, into @fds of 1 + HANDOVER_PEERS. Returns how many. */
int handover_poll(const struct handover *h, struct pollfd *fds);

/* handover_serve - answer whoever can be answered without waiting. @world_fd is only reopened. */
void handover_serve(struct handover *h, int world_fd);

#endif
