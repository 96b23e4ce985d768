/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Message queues: charges, the order of errors, permissions, the last close, deaths half way. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kpemu/mqueue.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

#include "tests/unit/one_task.h"

static struct task_struct *me;
static struct ucounts *uc;
static struct refusal why;

static void one_task(void)
{
	me = make_one_task(UCOUNT_RLIMIT_MSGQUEUE, RLIM_INF);
	/* The real queues are named after the world: one of its own for each test process. */
	snprintf(world->name, sizeof(world->name), "unit-%d", (int)getpid());
	world->uid = getuid();
	world->host_mq_msg_max = 10;
	world->host_mq_msgsize_max = 8192;
	uc = alloc_ucounts(INIT_USER_NS, 1000);
	umask(022);
}

static void no_queues(void)
{
	mqueue_destroy_all(me);
}

TestSuite(mqueue, .timeout = 60, .init = one_task, .fini = no_queues);

static long open_queue(const char *name, int oflag, long maxmsg, long msgsize)
{
	struct mq_attr a = { .mq_maxmsg = maxmsg, .mq_msgsize = msgsize };

	why.err = 0;
	return do_mq_open(me, name, oflag, 0644, maxmsg ? &a : NULL, &why);
}

static long create(const char *name, long maxmsg, long msgsize)
{
	return open_queue(name, O_CREAT | O_EXCL | O_RDWR, maxmsg, msgsize);
}

static long bytes(void)
{
	return counted(uc, UCOUNT_RLIMIT_MSGQUEUE);
}

static struct mqueue_inode *queue(const char *name)
{
	struct mqueue_inode *q;

	for_each_mqueue(i, q)
		if (slot_state(q->slot) == SLOT_LIVE && !strcmp(q->name, name))
			return q;
	return NULL;
}

static bool is_real(const struct mqueue_inode *q)
{
	char name[256];
	mqd_t fd;

	mqueue_real_name(name, q);
	fd = mq_open(name, O_RDONLY);
	if (fd >= 0)
		mq_close(fd);
	return fd >= 0;
}

Test(mqueue, create_charges_messages_and_their_overhead)
{
	cr_assert_geq(create("a", 1, 1), 0);
	cr_assert_eq(bytes(), 1 + 96);
	cr_assert_geq(create("b", 0, 0), 0, "no attributes: the default");
	cr_assert_eq(bytes(), 97 + 10 * (8192 + 96));
	cr_assert_eq(queue("b")->maxmsg, 10);
	cr_assert_eq(queue("b")->msgsize, 8192);
}

Test(mqueue, create_exactly_at_the_limit_is_allowed_one_byte_less_is_not)
{
	me->rlim[UCOUNT_RLIMIT_MSGQUEUE].cur = 97;
	cr_assert_geq(create("a", 1, 1), 0);
	cr_assert_eq(create("b", 1, 1), -EMFILE);
	cr_assert_eq(why.err, EMFILE);
	cr_assert_eq(why.use, 97);
	cr_assert_eq(why.limit, 97);
	cr_assert_eq(why.asked, 97);
	cr_assert_eq(why.uid, 1000u);
	cr_assert_eq(bytes(), 97);
	cr_assert_null(queue("b"));
	cr_assert_eq(atomic64_read(&uc->refused[UCOUNT_RLIMIT_MSGQUEUE]), 1);
	cr_assert_eq(do_mq_unlink(me, "a"), 0);
	cr_assert_eq(bytes(), 97, "still open");
	me->rlim[UCOUNT_RLIMIT_MSGQUEUE].cur = 96;
	cr_assert_eq(create("b", 1, 1), -EMFILE);
}

Test(mqueue, create_root_is_not_exempt)
{
	cred_init(&me->cred, 0, 0);
	me->rlim[UCOUNT_RLIMIT_MSGQUEUE].cur = 0;
	cr_assert_eq(create("a", 1, 1), -EMFILE);
}

Test(mqueue, open_errors_in_the_kernels_order)
{
	char longest[MQ_NAME_MAX + 2];

	me->rlim[UCOUNT_RLIMIT_MSGQUEUE].cur = 0;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	cr_assert_eq(create("", 99, 1), -ENOENT);
	cr_assert_eq(create("a/b", 99, 1), -EACCES);
	cr_assert_eq(create(".", 99, 1), -EACCES);
	cr_assert_eq(create(longest, 99, 1), -ENAMETOOLONG);
	cr_assert_eq(open_queue("none", O_RDWR, 99, 1), -ENOENT);
	cr_assert_eq(create("a", 11, 1), -EINVAL, "attributes before the limit");
	cr_assert_eq(create("a", -1, 1), -EINVAL);
	cr_assert_eq(create("a", 1, 8193), -EINVAL);
	cr_assert_eq(create("a", 1, 1), -EMFILE);
	cr_assert_eq(do_mq_unlink(me, "none"), -ENOENT);
	cr_assert_eq(do_mq_unlink(me, "a/b"), -EACCES);
}

Test(mqueue, create_hard_bounds_with_sys_resource)
{
	cred_init(&me->cred, 0, 0);
	cr_assert_eq(create("a", MQ_HARD_MSGMAX + 1, 1), -EINVAL);
	cr_assert_geq(create("b", 100, 1), 0);
	cr_assert_eq(queue("b")->maxmsg, 100);
	cr_assert_eq(queue("b")->clamped, 1u, "the host's is smaller");
	cr_assert_eq(bytes(), 0, "uid 0 pays, not uid 1000");
}

Test(mqueue, getattr_shows_the_models_sizes)
{
	struct mq_attr a;
	long fd;

	cred_init(&me->cred, 0, 0);
	fd = create("a", 100, 20);
	cr_assert_geq(fd, 0);
	cr_assert_eq(do_mq_getsetattr(fd, NULL, &a), 0);
	cr_assert_eq(a.mq_maxmsg, 100);
	cr_assert_eq(a.mq_msgsize, 20);
}

Test(mqueue, open_existing_costs_nothing)
{
	cr_assert_geq(create("a", 1, 1), 0);
	me->rlim[UCOUNT_RLIMIT_MSGQUEUE].cur = 0;
	cr_assert_geq(open_queue("a", O_RDONLY, 0, 0), 0);
	cr_assert_geq(open_queue("a", O_CREAT | O_RDWR, 0, 0), 0);
	cr_assert_eq(create("a", 1, 1), -EEXIST);
	cr_assert_eq(open_queue("a", O_RDWR | O_WRONLY, 0, 0), -EINVAL);
	cr_assert_eq(bytes(), 97);
}

Test(mqueue, create_descriptor_table_full_is_the_first_error)
{
	struct rlimit was, few = { 3, 0 };

	getrlimit(RLIMIT_NOFILE, &was);
	few.rlim_max = was.rlim_max;
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			cr_skip_test("descriptor %d is not open here", fd);
	setrlimit(RLIMIT_NOFILE, &few);
	me->rlim[UCOUNT_RLIMIT_MSGQUEUE].cur = 0;
	cr_expect_eq(create("a", 1, 1), -EMFILE);
	cr_expect_eq(why.err, 0, "that is not the queue limit");
	cr_expect_eq(open_queue("none", O_RDWR, 0, 0), -EMFILE);
	setrlimit(RLIMIT_NOFILE, &was);
}

Test(mqueue, permission_is_the_models)
{
	cr_assert_geq(create("a", 1, 1), 0);
	cr_assert_eq(queue("a")->mode, 0644u, "umask applied");
	cred_init(&me->cred, 2000, 2000);
	cr_assert_geq(open_queue("a", O_RDONLY, 0, 0), 0);
	cr_assert_eq(open_queue("a", O_RDWR, 0, 0), -EACCES);
	cr_assert_eq(do_mq_unlink(me, "a"), -EPERM, "the directory is sticky");
	me->cred.fsgid = 1000;
	cr_assert_eq(open_queue("a", O_WRONLY, 0, 0), -EACCES, "the group may read");
	me->cred.cap_effective = 1ull << CAP_DAC_OVERRIDE;
	cr_assert_geq(open_queue("a", O_WRONLY, 0, 0), 0);
	cr_assert_eq(do_mq_unlink(me, "a"), -EPERM);
	me->cred.cap_effective = 1ull << CAP_FOWNER;
	cr_assert_eq(do_mq_unlink(me, "a"), 0);
}

Test(mqueue, mode_and_owner_change_by_the_models_ids)
{
	struct mqueue_inode *q;

	cr_assert_geq(create("a", 1, 1), 0);
	q = queue("a");
	cr_assert_eq(mqueue_chmod(me, q, 0600), 0);
	cr_assert_eq(q->mode, 0600u);
	cr_assert_eq(mqueue_chown(me, q, 2000, -1), -EPERM);
	cr_assert_eq(mqueue_chown(me, q, -1, -1), 0);
	me->cred.cap_effective = 1ull << CAP_CHOWN;
	cr_assert_eq(mqueue_chown(me, q, 2000, 3000), 0);
	cr_assert_eq(mqueue_chmod(me, q, 0644), -EPERM);
	me->cred.cap_effective = 0;
	cr_assert_eq(open_queue("a", O_RDONLY, 0, 0), -EACCES);
}

Test(mqueue, unlinked_queue_is_charged_until_its_last_close)
{
	long fd = create("a", 1, 1);
	int copy = dup(fd);
	struct mqueue_inode *q = queue("a");

	cr_assert_eq(do_mq_unlink(me, "a"), 0);
	cr_assert_eq(world->mq_unlinked, 1u);
	close(fd);
	mqueue_reap_unlinked(me);
	cr_assert_eq(bytes(), 97, "a copy is open");
	cr_assert_geq(create("a", 1, 1), 0, "the name is free at once");
	cr_assert_eq(bytes(), 2 * 97);
	close(copy);
	mqueue_reap_unlinked(me);
	cr_assert_eq(bytes(), 97);
	cr_assert_eq(slot_state(q->slot), SLOT_FREE);
	cr_assert_eq(world->mq_unlinked, 0u);
}

Test(mqueue, create_at_the_limit_looks_for_closed_queues_first)
{
	long fd = create("a", 1, 1);

	me->rlim[UCOUNT_RLIMIT_MSGQUEUE].cur = 97;
	do_mq_unlink(me, "a");
	close(fd);
	cr_assert_geq(create("b", 1, 1), 0);
	cr_assert_eq(bytes(), 97);
}

Test(mqueue, real_name_is_unique_and_fits)
{
	struct mqueue_inode q = { .serial = 7 };
	char name[256];

	strcpy(q.name, "jobs");
	mqueue_real_name(name, &q);
	cr_assert_not_null(strstr(name, ".0.7.jobs"));
	memset(q.name, 'x', MQ_NAME_MAX);
	mqueue_real_name(name, &q);
	cr_assert_leq(strlen(name), 255);
}

static pid_t dead_child(void)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	return pid;
}

/* A queue that its maker or destroyer left half way, whatever it had done until then. */
static void left_half_way(enum slot_state state)
{
	pid_t pid = dead_child();
	struct mqueue_inode *q;
	struct task_struct *t;
	struct refusal r;
	int err;

	t = copy_process(me, SIGCHLD, &err, &r);
	cr_assert(task_born(t, task_ref(t), pid, pid));
	cr_assert_geq(create("a", 1, 1), 0);
	q = queue("a");
	q->slot = slot_word(state, slot_gen(q->slot), task_ref(t));
	mqueue_reap_unlinked(me);
	cr_assert_eq(slot_state(q->slot), state, "its owner lives");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	mqueue_reap_unlinked(me);
	cr_assert_eq(slot_state(q->slot), SLOT_FREE);
	cr_assert_eq(bytes(), 0);
	cr_assert_geq(create("a", 1, 1), 0);
}

Test(mqueue, half_made_queue_of_the_dead_is_destroyed)
{
	left_half_way(SLOT_NEW);
}

Test(mqueue, half_destroyed_queue_of_the_dead_is_destroyed)
{
	left_half_way(SLOT_RELEASING);
}

Test(mqueue, lock_of_a_dead_holder_is_taken_over)
{
	pid_t pid = dead_child();
	struct task_struct *t;
	struct refusal r;
	int err;

	t = copy_process(me, SIGCHLD, &err, &r);
	cr_assert(task_born(t, task_ref(t), pid, pid));
	world->mq_lock.owner = task_ref(t);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_assert_geq(create("a", 1, 1), 0);
	cr_assert_eq(world->mq_lock.owner, 0u);
}

Test(mqueue, destroy_all_leaves_no_real_queue)
{
	struct mqueue_inode copy;

	cr_assert_geq(create("a", 1, 1), 0);
	cr_assert_geq(create("b", 1, 1), 0);
	copy = *queue("b");
	cr_assert(is_real(&copy));
	cr_assert_eq(mqueue_destroy_all(me), 2u);
	cr_assert_not(is_real(&copy));
	cr_assert_eq(bytes(), 0);
}
