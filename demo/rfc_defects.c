/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rfc_defects: what programs meet with two counter designs as posted, and with both repaired. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kpemu/nsproxy.h>
#include <kpemu/percpu_counter.h>
#include <kpemu/sched.h>
#include <kpemu/ucount.h>

/*
 * Each case is an ordinary program (this one, with --play) that runs under `kpemu run` with the
 * posted algorithm and with the repaired one, and says in one line what it met. What a program
 * cannot bring about is done in the model, in a world of the process's own. The numbers are those
 * of kernel/ucounts.md 9. The exit status is 0 if the posted algorithms are as wrong as they
 * should be, and the repaired ones right.
 */

#define PATIENCE 30 /* seconds until a program that hangs is killed */
#define RT       (SIGRTMIN + 5)
#define UID      1000

static const char *self; /* path of this program */
static char kpemu[4096];

static void die(const char *what)
{
	fprintf(stderr, "rfc_defects: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* --- what the programs do --- */

/* A queue of one byte, 97 by the kernel's count, without a name. */
static bool open_queue(int n)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	char name[64];
	mqd_t mq;

	snprintf(name, sizeof(name), "/rfc_defects.%d.%d", getpid(), n);
	mq = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
	if (mq != (mqd_t)-1)
		return !mq_unlink(name);
	if (errno != EMFILE)
		die("mq_open");
	return false;
}

static void block(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* How many of @n signals to oneself are accepted. They stay pending. */
static int send(int sig, int n)
{
	int done = 0;

	block(sig);
	for (int i = 0; i < n; i++) {
		if (!sigqueue(getpid(), sig, (union sigval){ .sival_int = i }))
			done++;
		else if (errno != EAGAIN)
			die("sigqueue");
	}
	return done;
}

static int receive(int sig, int n)
{
	const struct timespec now = { 0 };
	sigset_t set;
	int done = 0;

	sigemptyset(&set);
	sigaddset(&set, sig);
	while (done < n && sigtimedwait(&set, NULL, &now) == sig)
		done++;
	return done;
}

static void set_soft(int resource, rlim_t soft)
{
	struct rlimit l;

	if (getrlimit(resource, &l))
		die("getrlimit");
	l.rlim_cur = soft;
	if (setrlimit(resource, &l))
		die("setrlimit");
}

static void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
}

/* Into a user namespace with the same ids. */
static void enter_namespace(void)
{
	char map[64];

	snprintf(map, sizeof(map), "%d %d 1", UID, UID);
	if (unshare(CLONE_NEWUSER))
		die("unshare");
	put_file("/proc/self/setgroups", "deny");
	put_file("/proc/self/uid_map", map);
	put_file("/proc/self/gid_map", map);
}

/* SigQ of /proc/self/status: signals that count as pending. */
static long pending(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long n = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SigQ: %ld", &n) == 1)
			break;
	if (!f || n < 0)
		die("/proc/self/status");
	fclose(f);
	return n;
}

/* Column @name of the line of @uid in namespace @ns, which stand in the first two. */
static long shown(const char *name, int ns, unsigned int uid)
{
	FILE *f = fopen("/proc/kpemu/ucounts", "r");
	char line[1024], *word, *rest;
	int column = -1, i;
	long v[2] = { -1, -1 }, found = 0;

	while (f && fgets(line, sizeof(line), f)) {
		bool header = column < 0;

		for (i = 0, word = strtok_r(line, " \n", &rest); word;
		     i++, word = strtok_r(NULL, " \n", &rest)) {
			if (header && !strcmp(word, name))
				column = i;
			else if (!header && i < 2)
				v[i] = strtol(word, NULL, 10);
			else if (!header && i == column && v[0] == ns && v[1] == (long)uid)
				found = strtol(word, NULL, 10);
		}
	}
	if (!f || column < 0)
		die("/proc/kpemu/ucounts");
	fclose(f);
	return found;
}

/* The counter @type of a record: none is shown to be below 0, but `kpemu check` tells. */
static long counter(const char *type, int ns, unsigned int uid)
{
	char command[4200], line[256], name[32];
	long v, counted, at;
	unsigned int u;
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", type, strcmp(type, "memlock") ? "" : "_kb");
	v = shown(name, ns, uid) / (strcmp(type, "memlock") ? 1 : 4);
	if (v)
		return v;
	snprintf(command, sizeof(command), "'%s' check", kpemu);
	f = popen(command, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, type, strlen(type)) &&
		    sscanf(line + strlen(type), " of uid %u in namespace %ld: the counter says %ld",
			   &u, &at, &counted) == 3 &&
		    u == uid && at == ns)
			v = counted;
	if (!f || WEXITSTATUS(pclose(f)) > 1)
		die("kpemu check");
	return v;
}

/* A segment of @pages, which goes with the caller. */
static int segment(int pages)
{
	int id = shmget(IPC_PRIVATE, pages * 4096ul, IPC_CREAT | 0600);

	if (id < 0)
		die("shmget");
	if (shmat(id, NULL, 0) == (void *)-1)
		perror("rfc_defects: shmat");
	shmctl(id, IPC_RMID, NULL);
	return id;
}

static void play_unlimited(void)
{
	int id = segment(1), refused = 0;

	refused += !open_queue(0);
	refused += !send(RT, 1);
	refused += shmctl(id, SHM_LOCK, NULL) != 0;
	printf("%d", refused);
}

static void play_queues(void)
{
	int done = 0;

	if (!open_queue(0))
		die("mq_open");
	for (int i = 1; i <= 40; i++)
		done += open_queue(i);
	printf("%d", done);
}

/* Tasks, as many as there may be, which end with the pipe. */
static void play_tasks(void)
{
	int leash[2], n = 1;
	pid_t pid;
	char c;

	if (pipe(leash))
		die("pipe");
	enter_namespace();
	set_soft(RLIMIT_NPROC, 20);
	while (n < 50 && (pid = fork()) >= 0) {
		if (!pid) {
			close(leash[1]);
			_exit(read(leash[0], &c, 1) != 0);
		}
		n++;
	}
	close(leash[1]);
	while (wait(NULL) > 0)
		;
	printf("%d", n);
}

static void play_container(void)
{
	if (send(RT, 50) != 50)
		die("sigqueue");
	enter_namespace();
	set_soft(RLIMIT_SIGPENDING, 10);
	printf("%d", send(RT + 1, 10));
}

static void play_segment(void)
{
	int id = segment(8);
	long locked, unlocked;

	if (shmctl(id, SHM_LOCK, NULL))
		die("SHM_LOCK");
	locked = counter("memlock", 0, 0);
	shmctl(id, SHM_UNLOCK, NULL);
	unlocked = counter("memlock", 0, 0);
	printf("%ld, %ld", locked, unlocked);
}

/* A child in a namespace of its own has one pending, and takes it at @go's end. */
static void child_with_a_signal(int ready, int go)
{
	char c = 0;

	enter_namespace();
	if (send(RT, 1) != 1 || write(ready, &c, 1) != 1 || read(go, &c, 1) < 0)
		_exit(1);
	if (receive(RT, 1) != 1 || write(ready, &c, 1) != 1)
		_exit(1);
	pause();
}

static void play_parent(void)
{
	int ready[2], go[2];
	long sent, taken;
	pid_t pid;
	char c;

	if (pipe(ready) || pipe(go) || (pid = fork()) < 0)
		die("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		close(go[1]);
		child_with_a_signal(ready[1], go[0]);
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		die("child");
	sent = pending();
	close(go[1]);
	if (read(ready[0], &c, 1) != 1)
		die("child");
	taken = pending();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("%ld, %ld", sent, taken);
}

static void play_creation_limit(void)
{
	enter_namespace();
	set_soft(RLIMIT_SIGPENDING, 50);
	printf("%d", send(RT, 100));
}

static void play_two_levels(void)
{
	enter_namespace();
	enter_namespace();
	if (send(RT, 60) != 60 || receive(RT, 60) != 60)
		die("sigqueue");
	printf("%ld, %ld, %ld", counter("sigpending", 2, UID), counter("sigpending", 1, UID),
	       counter("sigpending", 0, UID));
}

static void play_refused_stock(void)
{
	enter_namespace();
	set_soft(RLIMIT_SIGPENDING, 50);
	enter_namespace();
	if (send(RT, 1) != 1)
		die("sigqueue");
	printf("%ld", counter("sigpending", 1, UID));
}

static void play_over_limit(void)
{
	enter_namespace();
	set_soft(RLIMIT_SIGPENDING, 3);
	if (send(RT, 8) != 3)
		die("sigqueue");
	printf("%ld", pending());
}

static void play_infinity(void)
{
	enter_namespace();
	if (send(RT, 3) != 3)
		die("sigqueue");
	printf("%ld", pending());
}

/* --- what is done in the model --- */

/* A world of the caller's own, and the caller a task of it. */
static void enter_model(const char *alg)
{
	struct rlim rlim[UCOUNT_RLIMIT_COUNTS];
	struct cred cred;

	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		rlim[i] = (struct rlim){ RLIM_INF, RLIM_INF };
	if (world_map_private())
		die("world");
	world->ucounts_alg = ucounts_alg_of(alg);
	world->nr_cpus = 2;
	cred_init(&cred, UID, UID);
	current = task_first(&cred, rlim);
	if (!current || !task_born(current, task_ref(current), getpid(), getpid()))
		die("task");
}

static bool charge(struct ucounts *uc, long bytes, long limit)
{
	struct refusal why;
	uint32_t record = 0;

	return ucounts_charge(current, uc, UCOUNT_RLIMIT_MSGQUEUE, &record, bytes, limit, false,
			      &why);
}

static void model_queues(const char *alg)
{
	struct ucounts *uc;
	int done = 0;

	enter_model(alg);
	uc = alloc_ucounts(INIT_USER_NS, UID);
	if (!charge(uc, 97, 97))
		die("charge");
	for (int i = 0; i < 2000; i++)
		done += charge(uc, 97, 97);
	printf("%d", done);
}

/* A second look before a refusal, as sigqueue has it here and not in the kernel, is not taken. */
static void model_over_limit(const char *alg)
{
	struct ns_change change;
	struct refusal why;
	struct ucounts *uc;
	uint32_t record;

	enter_model(alg);
	if (unshare_begin(current, CLONE_NEWUSER, false, &change, &why) ||
	    unshare_end(current, &change, true))
		die("unshare");
	uc = alloc_ucounts(current->cred.user_ns, UID);
	for (int i = 0; i < 8; i++)
		if (ucounts_charge(current, uc, UCOUNT_RLIMIT_SIGPENDING, &record, 1, 3, false,
				   &why) != (i < 3))
			die("charge");
	printf("%ld", get_rlimit_value(uc, UCOUNT_RLIMIT_SIGPENDING));
}

/* The third of a record's counters finds no memory; repaired: all four are made at once. */
static void model_record(const char *alg)
{
	struct percpu_counter c[UCOUNT_RLIMIT_COUNTS] = { 0 };
	struct percpu_area *area;
	size_t used;
	bool made;

	enter_model(alg);
	if (ucounts_ops()->init) {
		area = table_slot(TABLE_PERCPU_PAGE, 0);
		used = percpu_used(area);
		percpu_fail_nth(area, 3);
		made = alloc_ucounts(INIT_USER_NS, UID + 1);
	} else {
		area = percpu_area_new(2, 4096, PERCPU_ATOMIC);
		used = percpu_used(area);
		percpu_fail_nth(area, 1);
		made = !percpu_counter_init_many(c, area, 0, UCOUNT_RLIMIT_COUNTS);
	}
	if (made)
		die("record");
	printf("%zu", percpu_used(area) - used);
}

/* --- cases --- */

static const struct rfc_case {
	const char *number, *what;
	bool cache; /* cache-rfc against cache; else percpu-rfc against percpu */
	const char *options; /* of kpemu run */
	void (*play)(void);
	void (*model)(const char *alg);
	const char *wrong, *right;
} cases[] = {
	{ "9.1.1", "refused of 3 calls without a limit (mq_open, sigqueue, SHM_LOCK)", false,
	  "--uid 1000 --gid 1000 --rlimit msgqueue=unlimited --rlimit sigpending=unlimited "
	  "--rlimit memlock=unlimited",
	  play_unlimited, NULL, "3", "0" },
	{ "9.1.2", "mq_open at limit 97, full: how many of 40 succeed, and of 2000 in the model",
	  false, "--uid 1000 --gid 1000 --rlimit msgqueue=97", play_queues, model_queues,
	  "20, 1000", "0, 0" },
	{ "9.1.3", "tasks in a namespace that may have 3, with a soft limit of 20", false,
	  "--uid 1000 --gid 1000 --rlimit nproc=3:20", play_tasks, NULL, "20", "3" },
	{ "9.1.4", "signals of 10 that limit 10 admits in a container whose owner has 50 pending",
	  false, "--uid 1000 --gid 1000 --rlimit sigpending=60", play_container, NULL, "0", "10" },
	{ "9.1.5", "pages counted of a segment of 8, locked over the limit and unlocked", false,
	  "--uid 0 --gid 0 --rlimit memlock=16384", play_segment, NULL, "0, -8", "8, 0" },
	{ "9.1.7", "bytes of each CPU lost when a record's third counter cannot be made", false,
	  NULL, NULL, model_record, "4", "0" },
	{ "9.2", "SigQ of a parent whose child has one pending in its namespace, and took it", true,
	  "--uid 1000 --gid 1000 --rlimit sigpending=100", play_parent, NULL, "16, 16", "1, 0" },
	{ "9.2.1", "signals in a namespace that may have 4, with a soft limit of 50", true,
	  "--uid 1000 --gid 1000 --rlimit sigpending=4:50", play_creation_limit, NULL, "50", "4" },
	{ "9.2.2", "60 signals sent and received two namespaces down: what leaf, middle, top count",
	  true, "--uid 1000 --gid 1000 --rlimit sigpending=1000", play_two_levels, NULL,
	  "0, -32, 64", "0, 0, 0" },
	{ "9.2.3", "what a level that refuses a stock of 16 counts after one signal", true,
	  "--uid 1000 --gid 1000 --rlimit sigpending=4:1000", play_refused_stock, NULL, "17", "1" },
	{ "9.2.4",
	  "at limit 3, after 3 signals and 5 refused: SigQ (each asked twice), and the leaf in the model",
	  true, "--uid 1000 --gid 1000 --rlimit sigpending=100", play_over_limit, model_over_limit,
	  "13, 8", "3, 3" },
	{ "9.2.5", "SigQ without a limit after 3 signals", true,
	  "--uid 1000 --gid 1000 --rlimit sigpending=unlimited", play_infinity, NULL, "6", "3" },
};
#define NR_CASES (sizeof(cases) / sizeof(cases[0]))

static const struct rfc_case *case_of(const char *number)
{
	for (size_t i = 0; i < NR_CASES; i++)
		if (!strcmp(cases[i].number, number))
			return &cases[i];
	errno = EINVAL;
	die(number);
	return NULL;
}

/* --play NUMBER: the program. */
static int play(const char *number)
{
	alarm(PATIENCE);
	case_of(number)->play();
	return fflush(stdout) ? 1 : 0;
}

static void exec_under_kpemu(const struct rfc_case *c, const char *alg)
{
	char options[256], *argv[32] = { kpemu, "run", "--quiet", "--ucounts", (char *)alg }, *rest;
	int n = 5;

	snprintf(options, sizeof(options), "%s", c->options);
	for (char *w = strtok_r(options, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		argv[n++] = w;
	argv[n++] = "--";
	argv[n++] = (char *)self;
	argv[n++] = "--play";
	argv[n++] = (char *)c->number;
	execv(kpemu, argv);
	die(kpemu);
}

/* What a child writes, to be added to @text. False: it has failed. */
static bool collect(char *text, size_t size, const struct rfc_case *c, const char *alg, bool model)
{
	size_t n = strlen(text);
	int fd[2], status;
	ssize_t got;
	pid_t pid;

	fflush(stdout);
	if (pipe(fd) || (pid = fork()) < 0)
		die("fork");
	if (!pid) {
		dup2(fd[1], 1);
		close(fd[0]);
		close(fd[1]);
		if (!model)
			exec_under_kpemu(c, alg);
		alarm(PATIENCE);
		c->model(alg);
		exit(0);
	}
	close(fd[1]);
	while (n + 1 < size && (got = read(fd[0], text + n, size - 1 - n)) > 0)
		n += got;
	text[n] = 0;
	close(fd[0]);
	return waitpid(pid, &status, 0) == pid && !status;
}

static bool outcome(char *text, size_t size, const struct rfc_case *c, const char *alg)
{
	bool done = true;

	text[0] = 0;
	if (c->play)
		done = collect(text, size, c, alg, false);
	if (c->play && c->model)
		strncat(text, ", ", size - 1 - strlen(text));
	if (c->model)
		done &= collect(text, size, c, alg, true);
	return done;
}

static bool show(const struct rfc_case *c)
{
	const char *posted = c->cache ? "cache-rfc" : "percpu-rfc";
	const char *repaired = c->cache ? "cache" : "percpu";
	char wrong[128], right[128];
	bool good;

	good = outcome(wrong, sizeof(wrong), c, posted);
	good &= outcome(right, sizeof(right), c, repaired);
	printf("%s %s: %s %s; %s %s", c->number, c->what, posted, wrong, repaired, right);
	good = good && !strcmp(wrong, c->wrong) && !strcmp(right, c->right);
	if (!good)
		printf(" (should be %s and %s)", c->wrong, c->right);
	putchar('\n');
	return good;
}

/* kpemu is beside the directory that this program is in. */
static void find_kpemu(void)
{
	static char path[3072];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (n < 0)
		die("/proc/self/exe");
	self = path;
	slash = strrchr(path, '/');
	snprintf(kpemu, sizeof(kpemu), "%.*s/../kpemu", (int)(slash - path), path);
}

int main(int argc, char **argv)
{
	bool good = true;

	find_kpemu();
	if (argc == 3 && !strcmp(argv[1], "--play"))
		return play(argv[2]);
	if (argc > 1) {
		fprintf(stderr, "usage: rfc_defects\n");
		return 2;
	}
	for (size_t i = 0; i < NR_CASES; i++)
		good &= show(&cases[i]);
	return !good;
}
