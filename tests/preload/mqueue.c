/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Message queues: charges up to the last close, names and errors, attributes, permissions. */
#include <fcntl.h>
#include <grp.h>
#include <mqueue.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/preload/children.h"

/*
 * Started with a limit of three queues of one message of one byte, by a user alone in its account;
 * the cases whose names begin with root_ as uid 0, each of their users with that limit.
 */
#define ONE 97 /* bytes: a message of 1, its header 48 and its tree node 48 */
#define ALL 3
#define A 61235
#define B 61236
#define G 61237

mqd_t __mq_open_2(const char *name, int oflag);

static struct mq_attr small = { .mq_maxmsg = 1, .mq_msgsize = 1 };

/* Names of this process, so that those of several runs do not meet. */
static const char *name(const char *what)
{
	static char buf[4][300];
	static int n;
	char *s = buf[n++ % 4];

	snprintf(s, 300, "/kpt-%d-%s", getpid(), what);
	return s;
}

static mqd_t make(const char *path)
{
	return mq_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, &small);
}

static mqd_t make_or_die(const char *path)
{
	mqd_t q = make(path);

	if (q < 0)
		die("mq_open");
	return q;
}

/* How many more there can be; they are gone afterwards. */
static int queues_left(void)
{
	char path[8][32];
	mqd_t q[8];
	int n = 0, err;

	for (; n < 8; n++) {
		snprintf(path[n], sizeof(path[n]), "/kpt-left-%d-%d", getpid(), n);
		q[n] = make(path[n]);
		if (q[n] < 0)
			break;
	}
	err = errno;
	for (int i = 0; i < n; i++) {
		mq_close(q[i]);
		mq_unlink(path[i]);
	}
	if (n < 8 && err != EMFILE)
		check_err("refused", EMFILE, err);
	return n;
}

#define check_left(name, gone) check_eq(name, ALL - (gone), queues_left())
#define check_left_soon(name, gone)                                                                \
	({                                                                                         \
		int left_;                                                                         \
		until((left_ = queues_left()) == ALL - (gone));                                    \
		check_eq(name, ALL - (gone), left_);                                               \
	})

/* --- charges --- */

static void exactly_the_limit(void)
{
	check_left("left", 0);
	for (int i = 0; i <= ALL; i++) {
		setrlimit(RLIMIT_MSGQUEUE, &(struct rlimit){ i * ONE, ALL * ONE });
		check_eq("limit", i, queues_left());
		setrlimit(RLIMIT_MSGQUEUE, &(struct rlimit){ i * ONE + ONE - 1, ALL * ONE + ONE });
		check_eq("one_byte_less", i, queues_left());
	}
}

/* 291 bytes: two messages of 49 bytes each cost 290, of 50 bytes 292. */
static void charge_is_of_the_attributes(void)
{
	struct mq_attr two = { .mq_maxmsg = 2, .mq_msgsize = 49 };
	mqd_t q = mq_open(name("q"), O_RDWR | O_CREAT, 0600, &two);

	check_eq("two_of_49", true, q >= 0);
	check_left("nothing_left", ALL);
	mq_close(q);
	mq_unlink(name("q"));
	two.mq_msgsize = 50;
	check_err("two_of_50", EMFILE, err_of(mq_open(name("q"), O_RDWR | O_CREAT, 0600, &two)));
	check_err("default", EMFILE, err_of(mq_open(name("q"), O_RDWR | O_CREAT, 0600, NULL)));
	check_left("left", 0);
}

static void default_attributes(void)
{
	struct mq_attr got = { 0 };
	mqd_t q;

	setrlimit(RLIMIT_MSGQUEUE, &(struct rlimit){ 82879, 82880 });
	check_err("one_byte_less", EMFILE, err_of(mq_open(name("q"), O_RDWR | O_CREAT, 0600, NULL)));
	setrlimit(RLIMIT_MSGQUEUE, &(struct rlimit){ 82880, 82880 });
	q = mq_open(name("q"), O_RDWR | O_CREAT, 0600, NULL);
	check_err("getattr", 0, err_of(mq_getattr(q, &got)));
	check_eq("maxmsg", 10, got.mq_maxmsg);
	check_eq("msgsize", 8192, got.mq_msgsize);
	mq_unlink(name("q"));
}

static void closed_queue_counts(void)
{
	mqd_t q = make_or_die(name("q"));

	check_left("open", 1);
	mq_close(q);
	check_left("closed", 1);
	check_err("unlink", 0, err_of(mq_unlink(name("q"))));
	check_left("unlinked", 0);
}

static void unlinked_queue_counts_until_closed(void)
{
	mqd_t q = make_or_die(name("q"));

	check_err("unlink", 0, err_of(mq_unlink(name("q"))));
	check_left("unlinked", 1);
	check_err("send", 0, err_of(mq_send(q, "x", 1, 0)));
	check_err("close", 0, err_of(mq_close(q)));
	check_left("closed", 0);
}

static void dup_holds_it(void)
{
	mqd_t q = make_or_die(name("q")), two = dup(q), three = fcntl(q, F_DUPFD_CLOEXEC, 100);

	mq_unlink(name("q"));
	mq_close(q);
	check_left("dup", 1);
	check_err("usable", 0, err_of(mq_send(two, "x", 1, 0)));
	close(two);
	check_left("fcntl", 1);
	close(three);
	check_left("closed", 0);
}

static void second_open_holds_it(void)
{
	mqd_t q = make_or_die(name("q")), two = mq_open(name("q"), O_RDONLY);

	mq_unlink(name("q"));
	mq_close(q);
	check_left("second", 1);
	mq_close(two);
	check_left("closed", 0);
}

/* A child holds the queue; the parent has neither name nor descriptor of it any more. */
static pid_t held_by_child(struct line *end)
{
	mqd_t q = make_or_die(name("q"));
	pid_t pid = fork();

	if (!pid) {
		line_hear(end);
		_exit(0);
	}
	mq_unlink(name("q"));
	mq_close(q);
	return pid;
}

static void fork_holds_it(void)
{
	struct line end = line_open();
	pid_t pid = held_by_child(&end);

	check_left("child", 1);
	line_say(&end, 0);
	waitpid(pid, NULL, 0);
	check_left("gone", 0);
}

static void sigkilled_holder(void)
{
	struct line end = line_open();
	pid_t pid = held_by_child(&end);

	check_left("child", 1);
	kill_child(pid);
	check_left("killed", 0);
}

/* The kernel closes what a zombie had. */
static void zombie_holds_nothing(void)
{
	struct line end = line_open();
	pid_t pid = held_by_child(&end);
	siginfo_t info;

	kill(pid, SIGKILL);
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	check_left("zombie", 0);
	waitpid(pid, NULL, 0);
}

static void exec_holds_it(bool keep)
{
	mqd_t q = make_or_die(name("q"));
	struct line end = line_open(), l = line_open();
	char said[16];
	pid_t pid;

	if (keep)
		fcntl(q, F_SETFD, 0);
	else
		check_eq("close_on_exec", FD_CLOEXEC, fcntl(q, F_GETFD));
	pid = fork();
	if (!pid) {
		dup2(end.fd[0], 0);
		dup2(l.fd[1], 1);
		close(end.fd[1]);
		close(l.fd[1]);
		execl("/bin/sh", "sh", "-c", "echo; read x", NULL);
		_exit(1);
	}
	check_eq("started", true, read_within(l.fd[0], said, 1, 5000));
	mq_unlink(name("q"));
	mq_close(q);
	check_left("exec", keep);
	kill_child(pid);
	check_left("killed", 0);
}

static void passed_over_exec(void)
{
	exec_holds_it(true);
}

static void closed_by_exec(void)
{
	exec_holds_it(false);
}

static void in_a_socket(void)
{
	mqd_t q = make_or_die(name("q"));
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int s[2], got;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		die("socketpair");
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &q, sizeof(int));
	if (sendmsg(s[0], &msg, 0) != 1)
		die("sendmsg");
	mq_unlink(name("q"));
	mq_close(q);
	check_left("on_its_way", 1);
	if (recvmsg(s[1], &msg, 0) != 1)
		die("recvmsg");
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	check_left("received", 1);
	check_err("usable", 0, err_of(mq_send(got, "x", 1, 0)));
	close(got);
	check_left("closed", 0);
}

static void left_by_a_child(void)
{
	pid_t parent = getpid(), pid = fork();
	char path[64];

	snprintf(path, sizeof(path), "/kpt-%d-left", parent);
	if (!pid)
		_exit(make(path) < 0);
	waitpid(pid, NULL, 0);
	check_left("persists", 1);
	check_err("unlink", 0, err_of(mq_unlink(path)));
	check_left("unlinked", 0);
}

static void existing_costs_nothing(void)
{
	mqd_t q[ALL], again;
	char path[ALL][32];

	for (int i = 0; i < ALL; i++) {
		snprintf(path[i], sizeof(path[i]), "/kpt-%d-%d", getpid(), i);
		q[i] = make_or_die(path[i]);
	}
	again = mq_open(path[0], O_RDWR | O_CREAT, 0600, NULL);
	check_eq("create_existing", true, again >= 0);
	check_err("exclusive", EEXIST, err_of(make(path[0])));
	setrlimit(RLIMIT_MSGQUEUE, &(struct rlimit){ 0, ALL * ONE });
	check_eq("at_limit_zero", true, mq_open(path[1], O_RDONLY) >= 0);
	setrlimit(RLIMIT_MSGQUEUE, &(struct rlimit){ ALL * ONE, ALL * ONE });
	for (int i = 0; i < ALL; i++)
		mq_unlink(path[i]);
	mq_close(q[1]);
	mq_close(q[2]);
	check_left("one_closed", 2);
	closefrom(3);
	check_left("all_closed", 0);
}

static void same_name_again(void)
{
	mqd_t q = make_or_die(name("q")), two;

	mq_unlink(name("q"));
	check_err("gone", ENOENT, err_of(mq_open(name("q"), O_RDWR)));
	check_err("gone_twice", ENOENT, err_of(mq_unlink(name("q"))));
	two = make_or_die(name("q"));
	check_left("both", 2);
	mq_send(q, "1", 1, 0);
	check_err("another_queue", EAGAIN, ({
			  struct mq_attr nonblock = { .mq_flags = O_NONBLOCK };
			  char c;

			  mq_setattr(two, &nonblock, NULL);
			  err_of(mq_receive(two, &c, 1, NULL));
		  }));
	mq_close(q);
	check_left("first_closed", 1);
	mq_unlink(name("q"));
	mq_close(two);
	check_left("left", 0);
}

static void refused_opens_leak_nothing(void)
{
	struct mq_attr bad = { .mq_maxmsg = 11, .mq_msgsize = 1 };
	mqd_t q = make_or_die(name("q"));

	for (int i = 0; i < 100; i++) {
		if (mq_open(name("other"), O_RDWR | O_CREAT, 0600, NULL) >= 0 || errno != EMFILE)
			die("over the limit");
		if (mq_open(name("other"), O_RDWR | O_CREAT, 0600, &bad) >= 0 || errno != EINVAL)
			die("bad attributes");
		if (mq_open(name("other"), O_RDWR) >= 0 || errno != ENOENT)
			die("missing");
		if (make(name("q")) >= 0 || errno != EEXIST)
			die("existing");
	}
	check_left("left", 1);
	check_eq("descriptors", q + 1, dup(0));
	mq_unlink(name("q"));
}

static void lowered_limit(void)
{
	mqd_t q = make_or_die(name("q")), two = make_or_die(name("r"));

	setrlimit(RLIMIT_MSGQUEUE, &(struct rlimit){ ONE, ALL * ONE });
	check_eq("none_now", 0, queues_left());
	mq_unlink(name("q"));
	mq_close(q);
	check_eq("still_none", 0, queues_left());
	mq_unlink(name("r"));
	mq_close(two);
	check_eq("one", 1, queues_left());
}

/* --- names, flags, attributes --- */

static void names(void)
{
	char longest[258] = "/", too_long[300] = "/";
	mqd_t q;

	memset(longest + 1, 'n', 255);
	snprintf(longest + 1, 16, "kpt-%d", getpid());
	longest[strlen(longest)] = '-';
	memset(too_long + 1, 'n', 256);
	check_err("no_slash", EINVAL, err_of(mq_open("kpt", O_RDWR | O_CREAT, 0600, &small)));
	check_err("empty", EINVAL, err_of(mq_open("", O_RDWR | O_CREAT, 0600, &small)));
	check_err("slash", ENOENT, err_of(mq_open("/", O_RDWR | O_CREAT, 0600, &small)));
	check_err("dot", EACCES, err_of(mq_open("/.", O_RDWR | O_CREAT, 0600, &small)));
	check_err("dots", EACCES, err_of(mq_open("/..", O_RDWR | O_CREAT, 0600, &small)));
	check_err("two", EACCES, err_of(mq_open("/a/b", O_RDWR | O_CREAT, 0600, &small)));
	check_err("long", ENAMETOOLONG, err_of(mq_open(too_long, O_RDWR | O_CREAT, 0600, &small)));
	q = mq_open(longest, O_RDWR | O_CREAT | O_EXCL, 0600, &small);
	check_eq("longest", true, q >= 0);
	check_err("longest_exists", EEXIST, err_of(make(longest)));
	check_err("longest_unlink", 0, err_of(mq_unlink(longest)));
	mq_close(q);
	check_err("unlink_no_slash", EINVAL, err_of(mq_unlink("kpt")));
	check_err("unlink_slash", ENOENT, err_of(mq_unlink("/")));
	check_err("unlink_two", EACCES, err_of(mq_unlink("/a/b")));
	check_err("unlink_long", ENAMETOOLONG, err_of(mq_unlink(too_long)));
	check_err("unlink_missing", ENOENT, err_of(mq_unlink(name("none"))));
	check_left("left", 0);
}

static void flags(void)
{
	mqd_t q;

	check_err("missing", ENOENT, err_of(mq_open(name("q"), O_RDWR)));
	q = make_or_die(name("q"));
	check_err("both_modes", EINVAL, err_of(mq_open(name("q"), O_RDWR | O_WRONLY)));
	mq_close(q);
	q = mq_open(name("q"), O_RDONLY | O_NONBLOCK);
	check_err("send_on_read_only", EBADF, err_of(mq_send(q, "x", 1, 0)));
	check_err("receive_on_empty", EAGAIN, err_of(mq_receive(q, (char[1]){ 0 }, 1, NULL)));
	mq_close(q);
	q = mq_open(name("q"), O_WRONLY);
	check_err("receive_on_write_only", EBADF, err_of(mq_receive(q, (char[1]){ 0 }, 1, NULL)));
	mq_close(q);
	q = __mq_open_2(name("q"), O_RDWR);
	check_eq("__mq_open_2", true, q >= 0);
	mq_close(q);
	mq_unlink(name("q"));
	check_err("close_twice", EBADF, err_of(mq_close(q)));
	check_err("getattr_of_closed", EBADF, err_of(mq_getattr(q, &small)));
	check_err("getattr_of_another_file", EBADF, err_of(mq_getattr(0, &small)));
}

static void bad_attributes(void)
{
	static const struct mq_attr bad[] = {
		{ .mq_maxmsg = 0, .mq_msgsize = 1 },  { .mq_maxmsg = 1, .mq_msgsize = 0 },
		{ .mq_maxmsg = -1, .mq_msgsize = 1 }, { .mq_maxmsg = 1, .mq_msgsize = -1 },
		{ .mq_maxmsg = 11, .mq_msgsize = 1 }, { .mq_maxmsg = 1, .mq_msgsize = 8193 },
	};

	for (int i = 0; i < 6; i++)
		check_err("attributes", EINVAL,
			  err_of(mq_open(name("q"), O_RDWR | O_CREAT, 0600, &bad[i])));
	check_left("left", 0);
}

static void attributes_are_told(void)
{
	struct mq_attr two = { .mq_maxmsg = 2, .mq_msgsize = 3, .mq_curmsgs = 77 }, got, old;
	mqd_t q = mq_open(name("q"), O_RDWR | O_CREAT | O_NONBLOCK, 0600, &two);

	check_err("getattr", 0, err_of(mq_getattr(q, &got)));
	check_eq("maxmsg", 2, got.mq_maxmsg);
	check_eq("msgsize", 3, got.mq_msgsize);
	check_eq("curmsgs", 0, got.mq_curmsgs);
	check_eq("flags", O_NONBLOCK, got.mq_flags);
	check_err("send", 0, err_of(mq_send(q, "abc", 3, 5)));
	check_err("too_long", EMSGSIZE, err_of(mq_send(q, "abcd", 4, 5)));
	check_err("priority", EINVAL, err_of(mq_send(q, "abc", 3, 32768)));
	check_err("second", 0, err_of(mq_send(q, "b", 1, 9)));
	check_err("full", EAGAIN, err_of(mq_send(q, "c", 1, 9)));
	check_err("setattr", 0, err_of(mq_setattr(q, &(struct mq_attr){ 0 }, &old)));
	check_eq("old_flags", O_NONBLOCK, old.mq_flags);
	check_eq("old_maxmsg", 2, old.mq_maxmsg);
	check_eq("old_curmsgs", 2, old.mq_curmsgs);
	mq_getattr(q, &got);
	check_eq("new_flags", 0, got.mq_flags);
	check_err("bad_flags", EINVAL, err_of(mq_setattr(q, &(struct mq_attr){ .mq_flags = 1 }, NULL)));
	mq_unlink(name("q"));
}

static void messages_between_processes(void)
{
	struct mq_attr three = { .mq_maxmsg = 2, .mq_msgsize = 8 };
	mqd_t q = mq_open(name("q"), O_RDWR | O_CREAT, 0600, &three);
	char path[64], text[8] = "";
	struct pollfd p = { .fd = q, .events = POLLIN };
	unsigned int prio;
	pid_t pid;

	snprintf(path, sizeof(path), "%s", name("q"));
	check_eq("nothing_yet", 0, poll(&p, 1, 0));
	pid = fork();
	if (!pid) {
		mqd_t other = mq_open(path, O_WRONLY);

		_exit(mq_send(other, "low", 4, 1) || mq_send(other, "high", 5, 2));
	}
	waitpid(pid, NULL, 0);
	check_eq("poll", 1, poll(&p, 1, 5000));
	check_eq("first", 5, mq_receive(q, text, 8, &prio));
	check_eq("priority", 2, prio);
	check_eq("text", 0, strcmp(text, "high"));
	check_eq("second", 4, mq_receive(q, text, 8, &prio));
	check_err("timeout", ETIMEDOUT,
		  err_of(mq_timedreceive(q, text, 8, &prio, &(struct timespec){ 1, 0 })));
	mq_unlink(name("q"));
}

static volatile sig_atomic_t notified;

static void on_notify(int sig)
{
	notified = sig;
}

static void notification(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	mqd_t q = make_or_die(name("q"));

	signal(SIGUSR1, on_notify);
	check_err("notify", 0, err_of(mq_notify(q, &ev)));
	check_err("busy", EBUSY, err_of(mq_notify(q, &ev)));
	mq_send(q, "x", 1, 0);
	check_eq("signal", SIGUSR1, (until(notified), notified));
	mq_unlink(name("q"));
}

static void by_number(void)
{
	mqd_t q = syscall(SYS_mq_open, name("q") + 1, O_RDWR | O_CREAT, 0600, &small);
	struct mq_attr got = { 0 };

	check_eq("open", true, q >= 0);
	check_left("left", 1);
	check_err("library_sees_it", EEXIST, err_of(make(name("q"))));
	check_err("getsetattr", 0, err_of(syscall(SYS_mq_getsetattr, q, NULL, &got)));
	check_eq("maxmsg", 1, got.mq_maxmsg);
	check_err("send", 0, err_of(syscall(SYS_mq_timedsend, q, "x", 1, 0, NULL)));
	check_err("unlink", 0, err_of(syscall(SYS_mq_unlink, name("q") + 1)));
	check_err("empty", ENOENT, err_of(syscall(SYS_mq_open, "", O_RDWR | O_CREAT, 0600, &small)));
	mq_close(q);
	check_left("gone", 0);
}

static void no_descriptor_left(void)
{
	int n = dup(0);

	close(n);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ n, n });
	check_err("open", EMFILE, err_of(make(name("q"))));
	check_err("not_made", ENOENT, err_of(mq_unlink(name("q"))));
}

static void unreadable_memory_is_efault(void)
{
	void *volatile bad = (void *)8;
	mqd_t q;

	check_err("number_name", EFAULT, err_of(syscall(SYS_mq_open, bad, O_RDWR)));
	check_err("number_unlink", EFAULT, err_of(syscall(SYS_mq_unlink, bad)));
	check_err("attributes", EFAULT, err_of(mq_open(name("q"), O_RDWR | O_CREAT, 0600, bad)));
	q = make_or_die(name("q"));
	check_err("getattr", EFAULT, err_of(mq_getattr(q, bad)));
	mq_unlink(name("q"));
}

/* --- owner and mode --- */

static void check_stat(const char *what, mqd_t q, mode_t mode, nlink_t links)
{
	struct stat st;

	if (fstat(q, &st))
		die("fstat");
	verdict(st.st_uid == geteuid() && st.st_gid == getegid(), what, "owner %d %d", st.st_uid,
		st.st_gid);
	verdict(st.st_mode == (S_IFREG | mode), what, "mode %o", st.st_mode);
	check_eq(what, 80, st.st_size);
	check_eq(what, links, st.st_nlink);
}

static void fstat_tells_owner_and_mode(void)
{
	mqd_t q, two;

	umask(022);
	q = mq_open(name("q"), O_RDWR | O_CREAT, 0666, &small);
	check_stat("umask", q, 0644, 1);
	umask(0);
	two = mq_open(name("r"), O_RDWR | O_CREAT, 0642, &small);
	check_stat("no_umask", two, 0642, 1);
	mq_unlink(name("q"));
	check_stat("unlinked", q, 0644, 0);
	mq_unlink(name("r"));
}

/* The mode binds the owner too. */
static void mode_of_the_owner(void)
{
	mqd_t q;

	umask(0);
	q = mq_open(name("q"), O_RDWR | O_CREAT, 0200, &small);
	check_eq("creator_gets_both", true, q >= 0);
	check_err("read", EACCES, err_of(mq_open(name("q"), O_RDONLY)));
	check_err("both", EACCES, err_of(mq_open(name("q"), O_RDWR)));
	check_eq("write", true, mq_open(name("q"), O_WRONLY) >= 0);
	mq_unlink(name("q"));
	mq_open(name("r"), O_RDWR | O_CREAT, 0000, &small);
	check_err("nothing_read", EACCES, err_of(mq_open(name("r"), O_RDONLY)));
	check_err("nothing_write", EACCES, err_of(mq_open(name("r"), O_WRONLY)));
	check_err("unlink", 0, err_of(mq_unlink(name("r"))));
}

/* --- as uid 0, with users of its own --- */

static char root_path[64];

/* as_user - what @fn says as uid and gid @uid, in the supplementary group @group unless 0. */
static int as_user(int uid, int group, int (*fn)(void))
{
	struct line l = line_open();
	pid_t pid = fork();
	gid_t list = group;
	int said;

	if (!pid) {
		if (setgroups(group != 0, &list) || setgid(uid) || setuid(uid))
			_exit(1);
		line_say(&l, fn());
		_exit(0);
	}
	said = line_hear(&l);
	waitpid(pid, NULL, 0);
	close(l.fd[0]);
	close(l.fd[1]);
	return said;
}

static mode_t made_mode;

static int makes(void)
{
	umask(0);
	return err_of(mq_open(root_path, O_RDWR | O_CREAT | O_EXCL, made_mode, &small));
}

static int reads(void)
{
	return err_of(mq_open(root_path, O_RDONLY));
}

static int writes(void)
{
	return err_of(mq_open(root_path, O_WRONLY));
}

static int reads_and_writes(void)
{
	return err_of(mq_open(root_path, O_RDWR));
}

static int unlinks(void)
{
	return err_of(mq_unlink(root_path));
}

static void made_by_a(mode_t mode)
{
	made_mode = mode;
	snprintf(root_path, sizeof(root_path), "%s", name("root"));
	check_err("made", 0, as_user(A, 0, makes));
}

static void root_private_queue(void)
{
	made_by_a(0600);
	check_err("owner", 0, as_user(A, 0, reads_and_writes));
	check_err("other_reads", EACCES, as_user(B, 0, reads));
	check_err("other_writes", EACCES, as_user(B, 0, writes));
	check_err("group_member_reads", EACCES, as_user(B, A, reads));
	check_err("other_unlinks", EACCES, as_user(B, 0, unlinks));
	check_err("other_makes", EEXIST, as_user(B, 0, makes));
	check_err("root_opens", 0, reads_and_writes());
	check_eq("charged", 2, as_user(A, 0, queues_left));
	closefrom(3);
	check_err("root_unlinks", 0, unlinks());
	check_eq("owner_s_charge_freed", 3, as_user(A, 0, queues_left));
}

static void root_group_and_other_modes(void)
{
	made_by_a(0642);
	check_err("group_reads", 0, as_user(B, A, reads));
	check_err("group_writes", EACCES, as_user(B, A, writes));
	check_err("other_writes", 0, as_user(B, 0, writes));
	check_err("other_reads", EACCES, as_user(B, 0, reads));
	check_err("unlink", 0, as_user(A, 0, unlinks));
}

static void root_public_queue_is_sticky(void)
{
	made_by_a(0666);
	check_err("other_opens", 0, as_user(B, 0, reads_and_writes));
	check_err("other_unlinks", EACCES, as_user(B, 0, unlinks));
	check_err("unlink", 0, as_user(A, 0, unlinks));
}

static void root_creator_pays(void)
{
	mqd_t q;

	made_by_a(0666);
	q = mq_open(root_path, O_RDWR);
	check_err("unlink", 0, as_user(A, 0, unlinks));
	check_eq("while_root_holds_it", 2, as_user(A, 0, queues_left));
	check_eq("other_pays_nothing", 3, as_user(B, 0, queues_left));
	mq_close(q);
	check_eq("closed", 3, as_user(A, 0, queues_left));
}

static int makes_and_unlinks(void)
{
	mqd_t q = make(root_path);
	struct stat st;

	if (q < 0 || fstat(q, &st) || mq_unlink(root_path))
		return -1;
	return st.st_uid == B && st.st_gid == B;
}

static void root_real_uid_pays(void)
{
	struct line l = line_open(), end = line_open();
	pid_t pid;

	snprintf(root_path, sizeof(root_path), "%s", name("root"));
	pid = fork();
	if (!pid) {
		if (setresgid(B, B, B) || setresuid(A, B, 0))
			_exit(1);
		line_say(&l, makes_and_unlinks());
		line_hear(&end);
		_exit(0);
	}
	check_eq("owner_is_the_effective_uid", 1, line_hear(&l));
	check_eq("real_uid_pays", 2, as_user(A, 0, queues_left));
	check_eq("effective_uid_does_not", 3, as_user(B, 0, queues_left));
	line_say(&end, 0);
	waitpid(pid, NULL, 0);
	check_eq("closed", 3, as_user(A, 0, queues_left));
}

static void root_is_not_exempt(void)
{
	check_eq("left", ALL, queues_left());
}

static void root_file_capabilities(void)
{
	made_by_a(0600);
	check_err("seteuid", 0, err_of(seteuid(B)));
	check_err("without", EACCES, reads());
	check_err("unlink_without", EACCES, unlinks());
	check_err("back", 0, err_of(seteuid(0)));
	check_err("with", 0, reads());
	check_err("unlink_with", 0, unlinks());
}

/* Programs undo the umask so. */
static void root_fchmod_opens_it_to_others(void)
{
	mqd_t q;

	umask(077);
	snprintf(root_path, sizeof(root_path), "%s", name("root"));
	q = mq_open(root_path, O_RDWR | O_CREAT, 0666, &small);
	check_err("closed_to_others", EACCES, as_user(B, 0, reads));
	check_err("fchmod", 0, err_of(fchmod(q, 0644)));
	check_err("reads", 0, as_user(B, 0, reads));
	check_err("writes", EACCES, as_user(B, 0, writes));
	mq_unlink(root_path);
}

/* Only in a world, where uid 0 has CAP_SYS_RESOURCE whatever the host allows; no limit of bytes. */
static void clamped_queue_shows_what_was_asked(void)
{
	struct mq_attr big = { .mq_maxmsg = 1000, .mq_msgsize = 100000 }, got;
	struct mq_attr most = { .mq_maxmsg = 65536, .mq_msgsize = 1 };
	struct mq_attr more = { .mq_maxmsg = 65537, .mq_msgsize = 1 };
	mqd_t q = mq_open(name("q"), O_RDWR | O_CREAT, 0600, &big), other;

	check_err("getattr", 0, err_of(mq_getattr(q, &got)));
	check_eq("maxmsg", 1000, got.mq_maxmsg);
	check_eq("msgsize", 100000, got.mq_msgsize);
	check_err("setattr", 0, err_of(mq_setattr(q, &(struct mq_attr){ 0 }, &got)));
	check_eq("setattr_maxmsg", 1000, got.mq_maxmsg);
	check_err("send", 0, err_of(mq_send(q, "x", 1, 0)));
	other = mq_open(name("q"), O_RDONLY);
	mq_getattr(other, &got);
	check_eq("opened_again", 100000, got.mq_msgsize);
	check_eq("curmsgs", 1, got.mq_curmsgs);
	check_eq("most", true, mq_open(name("r"), O_RDWR | O_CREAT, 0600, &most) >= 0);
	check_err("more", EINVAL, err_of(mq_open(name("s"), O_RDWR | O_CREAT, 0600, &more)));
	mq_unlink(name("q"));
	mq_unlink(name("r"));
}

/* --- what the script asks for --- */

/* Native: is there a real queue under any of the numbers that a world of one user gives? */
static int probe(const char *world, const char *queue)
{
	char path[300];
	int found = 0;

	for (int serial = 1; serial <= 5000; serial++) {
		mqd_t q;

		snprintf(path, sizeof(path), "/kpemu.%d.%s.0.%d.%s", geteuid(), world, serial, queue);
		q = mq_open(path, O_RDONLY);
		found += q >= 0 || errno != ENOENT;
		if (q >= 0)
			mq_close(q);
	}
	printf("%d\n", found);
	return 0;
}

/* Leave two queues, one of them without a name but open, and wait for the end of input. */
static int leave(void)
{
	struct mq_attr two = { .mq_maxmsg = 2, .mq_msgsize = 10 };
	char byte;

	if (mq_open("/kpt-named", O_RDWR | O_CREAT, 0640, &two) < 0 ||
	    mq_open("/kpt-nameless", O_RDWR | O_CREAT, 0600, &small) < 0 ||
	    mq_unlink("/kpt-nameless"))
		return 1;
	puts("left");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}

#define CASE(name) { #name, name }
static const struct test_case test[] = {
	CASE(exactly_the_limit),
	CASE(charge_is_of_the_attributes),
	CASE(default_attributes),
	CASE(closed_queue_counts),
	CASE(unlinked_queue_counts_until_closed),
	CASE(dup_holds_it),
	CASE(second_open_holds_it),
	CASE(fork_holds_it),
	CASE(sigkilled_holder),
	CASE(zombie_holds_nothing),
	CASE(passed_over_exec),
	CASE(closed_by_exec),
	CASE(in_a_socket),
	CASE(left_by_a_child),
	CASE(existing_costs_nothing),
	CASE(same_name_again),
	CASE(refused_opens_leak_nothing),
	CASE(lowered_limit),
	CASE(names),
	CASE(flags),
	CASE(bad_attributes),
	CASE(attributes_are_told),
	CASE(messages_between_processes),
	CASE(notification),
	CASE(by_number),
	CASE(no_descriptor_left),
	CASE(unreadable_memory_is_efault),
	CASE(fstat_tells_owner_and_mode),
	CASE(mode_of_the_owner),
	CASE(root_private_queue),
	CASE(root_group_and_other_modes),
	CASE(root_public_queue_is_sticky),
	CASE(root_creator_pays),
	CASE(root_real_uid_pays),
	CASE(root_is_not_exempt),
	CASE(root_file_capabilities),
	CASE(root_fchmod_opens_it_to_others),
	CASE(clamped_queue_shows_what_was_asked),
};

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--probe"))
		return probe(argv[2], argv[3]);
	if (argc == 2 && !strcmp(argv[1], "--leave"))
		return leave();
	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
