/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Started as uid 0: /proc/PID/status and limits by every way to open, read and ask about them. */
#ifdef __OPTIMIZE__
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 2
#endif
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "tests/preload/children.h"

#define A 61235
#define B 61236

/* Those that a fortified program calls; whether this one is fortified depends on the flags. */
int __open_2(const char *path, int oflag);
int __open64_2(const char *path, int oflag);
int __openat_2(int dirfd, const char *path, int oflag);
int __openat64_2(int dirfd, const char *path, int oflag);
int __open(const char *path, int oflag, ...);
int __open64(const char *path, int oflag, ...);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t buflen);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t buflen);
off_t __lseek(int fd, off_t offset, int whence);
ssize_t __pread64(int fd, void *buf, size_t n, off64_t offset);

static char *self;

/* --- what a text says --- */

#define TEXT 8192

static int read_all(int fd, char *text)
{
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, text + n, TEXT - 1 - n)) > 0)
		n += got;
	text[n] = 0;
	return got < 0 ? -1 : (int)n;
}

/* The real and the saved uid of a status text, as "r s"; "?" if there is none. */
static const char *uids(const char *text)
{
	static char said[64];
	const char *at = text ? strstr(text, "\nUid:") : NULL;
	unsigned int r, e, s;

	if (!at || sscanf(at, "\nUid: %u %u %u", &r, &e, &s) != 3)
		return "?";
	snprintf(said, sizeof(said), "%u %u", r, s);
	return said;
}

static const char *processes(const char *text)
{
	static char said[64];
	const char *at = text ? strstr(text, "\nMax processes") : NULL;
	unsigned int soft, hard;

	if (!at || sscanf(at, "\nMax processes %u %u", &soft, &hard) != 2)
		return "?";
	snprintf(said, sizeof(said), "%u %u", soft, hard);
	return said;
}

static bool check_text(const char *name, const char *want, const char *got)
{
	return verdict(!strcmp(want, got), name, "want '%s', got '%s'", want, got);
}

/* A descriptor of a status file: says the uids, whatever is done with it in the end. */
static void check_uids(const char *name, const char *want, int fd)
{
	char text[TEXT];

	if (fd < 0) {
		verdict(false, name, "%s", strerror(errno));
		return;
	}
	check_text(name, want, read_all(fd, text) < 0 ? strerror(errno) : uids(text));
	close(fd);
}

static void become_a(void)
{
	if (setresuid(A, A, 0))
		die("setresuid");
}

static void become_root(void)
{
	if (seteuid(0) || setresuid(0, 0, 0))
		die("setresuid");
}

#define AS_A "61235 0" /* what uids() says then */
#define AS_ROOT "0 0"

/* --- ways to open --- */

#define STATUS "/proc/self/status"

static void by_open(void)
{
	int dir = open("/proc/self", O_RDONLY | O_DIRECTORY), path = open("/proc", O_PATH);

	become_a();
	check_uids("open", AS_A, open(STATUS, O_RDONLY));
	check_uids("open64", AS_A, open64(STATUS, O_RDONLY));
	check_uids("__open", AS_A, __open(STATUS, O_RDONLY));
	check_uids("__open64", AS_A, __open64(STATUS, O_RDONLY));
	check_uids("__open_2", AS_A, __open_2(STATUS, O_RDONLY));
	check_uids("__open64_2", AS_A, __open64_2(STATUS, O_RDONLY));
	check_uids("openat", AS_A, openat(AT_FDCWD, STATUS, O_RDONLY));
	check_uids("openat_dir", AS_A, openat(dir, "status", O_RDONLY));
	check_uids("openat_path", AS_A, openat(path, "self/status", O_RDONLY));
	check_uids("openat_ignored", AS_A, openat(-5, STATUS, O_RDONLY));
	check_uids("openat64", AS_A, openat64(dir, "status", O_RDONLY));
	check_uids("__openat_2", AS_A, __openat_2(dir, "status", O_RDONLY));
	check_uids("__openat64_2", AS_A, __openat64_2(path, "self/status", O_RDONLY));
	check_uids("number_open", AS_A, syscall(SYS_open, STATUS, O_RDONLY));
	check_uids("number_openat", AS_A, syscall(SYS_openat, dir, "status", O_RDONLY));
	check_uids("flags", AS_A, open(STATUS, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY));
	check_uids("nonblock", AS_A, open(STATUS, O_RDONLY | O_NONBLOCK | O_LARGEFILE));
}

static void check_stream(const char *name, const char *want, FILE *f)
{
	char text[TEXT];
	size_t n;

	if (!f) {
		verdict(false, name, "%s", strerror(errno));
		return;
	}
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	check_text(name, want, uids(text));
	fclose(f);
}

static void by_stream(void)
{
	FILE *f, *again;
	char line[256], *got = NULL;

	become_a();
	check_stream("fopen", AS_A, fopen(STATUS, "r"));
	check_stream("fopen64", AS_A, fopen64(STATUS, "r"));
	check_stream("fopen_flags", AS_A, fopen(STATUS, "rbe"));
	f = fopen("/dev/null", "r");
	again = freopen(STATUS, "r", f);
	check_eq("freopen_same", true, again == f);
	check_stream("freopen", AS_A, again);
	check_stream("freopen64", AS_A, freopen64(STATUS, "r", fopen("/dev/null", "r")));
	f = freopen(STATUS, "r", stdin);
	check_eq("stdin_number", 0, f ? fileno(f) : -1);
	check_stream("stdin", AS_A, f);
	f = fopen(STATUS, "r");
	while ((got = fgets(line, sizeof(line), f)) && strncmp(line, "Uid:", 4))
		;
	check_text("fgets", "Uid:\t61235\t61235\t0\t61235\n", got ? got : "?");
	fclose(f);
	check_stream("fdopen", AS_A, fdopen(open(STATUS, O_RDONLY), "r"));
}

static pid_t of_thread;

static void *in_thread(void *arg)
{
	char path[64];

	(void)arg;
	of_thread = gettid();
	if (syscall(SYS_setresuid, -1, 0, -1) || syscall(SYS_setresuid, B, B, 0))
		die("setresuid");
	check_uids("thread_self", "61236 0", open("/proc/thread-self/status", O_RDONLY));
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", gettid());
	check_uids("own_task", "61236 0", open(path, O_RDONLY));
	check_uids("self_is_the_process", AS_A, open(STATUS, O_RDONLY));
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", getpid(), getpid());
	check_uids("task_of_leader", AS_A, open(path, O_RDONLY));
	snprintf(path, sizeof(path), "/proc/%d/status", gettid());
	check_uids("thread_as_process", "61236 0", open(path, O_RDONLY));
	return NULL;
}

static void by_path(void)
{
	char path[128];
	pthread_t thread;
	int cwd = open(".", O_PATH);

	become_a();
	snprintf(path, sizeof(path), "/proc/%d/status", getpid());
	check_uids("pid", AS_A, open(path, O_RDONLY));
	check_uids("thread_self_leader", AS_A, open("/proc/thread-self/status", O_RDONLY));
	check_uids("slashes", AS_A, open("//proc///self/./status", O_RDONLY));
	check_uids("dots", AS_A, open("/proc/self/../self/status", O_RDONLY));
	check_uids("from_elsewhere", AS_A, open("/usr/../proc/self/status", O_RDONLY));
	if (chdir("/proc/self"))
		die("chdir");
	check_uids("relative", AS_A, open("status", O_RDONLY));
	check_uids("relative_dot", AS_A, open("./status", O_RDONLY));
	check_uids("relative_up", AS_A, open("../self/status", O_RDONLY));
	if (chdir("/proc"))
		die("chdir");
	check_uids("relative_proc", AS_A, open("self/status", O_RDONLY));
	if (fchdir(cwd))
		die("fchdir");
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
}

/* What is refused or missing is so as ever. */
static void refused_opens(void)
{
	char path[64];

	become_a();
	check_err("slash_behind", ENOTDIR, err_of(open("/proc/self/status/", O_RDONLY)));
	check_err("longer_name", ENOENT, err_of(open("/proc/self/statusx", O_RDONLY)));
	check_err("directory", ENOTDIR, err_of(open(STATUS, O_RDONLY | O_DIRECTORY)));
	check_err("exclusive", EEXIST, err_of(open(STATUS, O_RDONLY | O_CREAT | O_EXCL, 0600)));
	check_err("leading_zero", ENOENT, err_of(open("/proc/01/status", O_RDONLY)));
	check_err("no_such_pid", ENOENT, err_of(open("/proc/4194305/status", O_RDONLY)));
	check_err("bad_directory", EBADF, err_of(openat(-5, "status", O_RDONLY)));
	check_err("empty", ENOENT, err_of(open("", O_RDONLY)));
	check_err("fopen", ENOENT, fopen("/proc/self/statusx", "r") ? 0 : errno);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", getpid(), getppid());
	check_err("foreign_task", ENOENT, err_of(open(path, O_RDONLY)));
}

/* Programs count on the lowest free number, and on close-on-exec where they asked for it. */
static void numbers_and_flags(void)
{
	int low = dup(0), fd;

	close(low);
	fd = open(STATUS, O_RDONLY);
	check_eq("lowest", low, fd);
	check_eq("no_cloexec", 0, fcntl(fd, F_GETFD));
	check_err("write", EBADF, err_of(write(fd, "x", 1)));
	close(fd);
	fd = open(STATUS, O_RDONLY | O_CLOEXEC);
	check_eq("lowest_cloexec", low, fd);
	check_eq("cloexec", FD_CLOEXEC, fcntl(fd, F_GETFD));
	close(fd);
	check_eq("nothing_left", low, dup(0));
}

/* --- reading --- */

static void small_reads_make_the_same_text(void)
{
	char whole[TEXT], text[TEXT];
	int fd = open("/proc/self/limits", O_RDONLY), n = 0, size;

	size = read_all(fd, whole);
	close(fd);
	fd = open("/proc/self/limits", O_RDONLY);
	while (n < TEXT - 1 && read(fd, text + n, 1) == 1)
		n++;
	check_eq("bytes", size, n);
	check_eq("same", 0, memcmp(whole, text, size));
	check_eq("end", 0, read(fd, text, 10));
	close(fd);
	check_text("numbers", "20 30", processes(whole));
}

/* Once begun, a text does not change under the reader. */
static void half_read_text_is_stable(void)
{
	char text[TEXT];
	int fd = open(STATUS, O_RDONLY);

	if (read(fd, text, 6) != 6)
		die("read");
	become_a();
	read_all(fd, text + 6);
	check_text("half", AS_ROOT, uids(text));
	close(fd);
}

#define REFRESHED(name, again)                                                                     \
	do {                                                                                       \
		memset(text, 0, sizeof(text));                                                     \
		again;                                                                             \
		check_text(name, want, uids(text));                                                \
	} while (0)

static void refreshed_from_the_start(void)
{
	char text[TEXT];
	const char *want = AS_ROOT;
	int fd = open(STATUS, O_RDONLY), two = dup(fd);

	read_all(fd, text);
	check_text("first", want, uids(text));
	become_a();
	want = AS_A;
	REFRESHED("lseek", (lseek(fd, 0, SEEK_SET), read_all(fd, text)));
	become_root();
	want = AS_ROOT;
	REFRESHED("lseek64", (lseek64(fd, 0, SEEK_SET), read_all(fd, text)));
	become_a();
	want = AS_A;
	REFRESHED("__lseek", (__lseek(fd, 0, SEEK_SET), read_all(fd, text)));
	become_root();
	want = AS_ROOT;
	REFRESHED("number_lseek", (syscall(SYS_lseek, fd, 0, SEEK_SET), read_all(fd, text)));
	become_a();
	want = AS_A;
	REFRESHED("pread", (void)!pread(fd, text, TEXT - 1, 0));
	become_root();
	want = AS_ROOT;
	REFRESHED("pread64", (void)!pread64(fd, text, TEXT - 1, 0));
	become_a();
	want = AS_A;
	REFRESHED("__pread64", (void)!__pread64(fd, text, TEXT - 1, 0));
	become_root();
	want = AS_ROOT;
	REFRESHED("__pread_chk", (void)!__pread_chk(fd, text, TEXT - 1, 0, TEXT));
	become_a();
	want = AS_A;
	REFRESHED("__pread64_chk", (void)!__pread64_chk(fd, text, TEXT - 1, 0, TEXT));
	become_root();
	want = AS_ROOT;
	REFRESHED("number_pread", syscall(SYS_pread64, fd, text, TEXT - 1, 0));
	become_a();
	want = AS_A;
	REFRESHED("dup", (lseek(two, 0, SEEK_SET), read_all(two, text)));
	REFRESHED("dup_moves_the_first", (lseek(two, 0, SEEK_SET), read_all(fd, text)));
}

static void rewound_stream_is_refreshed(void)
{
	FILE *f = fopen(STATUS, "r");
	char text[TEXT] = "";

	while (fgets(text, sizeof(text), f))
		;
	become_a();
	rewind(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	check_text("rewind", AS_A, uids(text));
	fclose(f);
}

/* A descriptor goes on telling about the process it was opened for, in whosever hands. */
static void inherited_by_fork(void)
{
	int fd = open(STATUS, O_RDONLY);
	struct line l = line_open();
	char text[TEXT];
	pid_t pid;

	read_all(fd, text);
	pid = fork();
	if (!pid) {
		line_hear(&l);
		lseek(fd, 0, SEEK_SET);
		read_all(fd, text);
		check_text("child", AS_A, uids(text));
		_exit(failures);
	}
	become_a();
	line_say(&l, 0);
	waitpid(pid, NULL, 0);
	lseek(fd, 0, SEEK_SET);
	read_all(fd, text);
	check_text("parent", AS_A, uids(text));
}

/* 7: a status file of the parent, which became A after it was opened. */
static int inherited(void)
{
	char text[TEXT];

	lseek(7, 0, SEEK_SET);
	read_all(7, text);
	check_text("program", AS_A, uids(text));
	return failures;
}

static void inherited_by_exec(void)
{
	int fd = open(STATUS, O_RDONLY), status;
	char text[TEXT];
	pid_t pid;

	read_all(fd, text);
	dup2(fd, 7);
	become_a();
	pid = fork();
	if (!pid) {
		execl(self, self, "--inherited", NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	check_eq("status", 0, status);
}

/* --- other tasks --- */

static void of_parent_and_child(void)
{
	struct line l = line_open(), end = line_open();
	char path[64];
	pid_t pid = fork();

	if (!pid) {
		if (setresuid(B, B, 0))
			_exit(1);
		line_say(&l, 0);
		line_hear(&end);
		snprintf(path, sizeof(path), "/proc/%d/status", getppid());
		check_uids("parent", AS_A, open(path, O_RDONLY));
		_exit(failures);
	}
	line_hear(&l);
	become_a();
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	check_uids("child", "61236 0", open(path, O_RDONLY));
	check_stream("child_stream", "61236 0", fopen(path, "r"));
	line_say(&end, 0);
	waitpid(pid, NULL, 0);
	check_err("reaped_child", ENOENT, err_of(open(path, O_RDONLY)));
}

static void of_a_zombie(void)
{
	char path[64], text[TEXT];
	pid_t pid;
	int fd;

	become_a();
	pid = zombie_child();
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY);
	read_all(fd, text);
	check_text("uids", AS_A, uids(text));
	verdict(strstr(text, "State:\tZ") != NULL, "state", "not a zombie");
	close(fd);
	waitpid(pid, NULL, 0);
}

static void limits_of_a_child(void)
{
	char path[64], text[TEXT];
	pid_t pid = hold_child();
	int fd;

	prlimit(pid, RLIMIT_NPROC, &(struct rlimit){ 11, 12 }, NULL);
	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	fd = open(path, O_RDONLY);
	read_all(fd, text);
	check_text("child", "11 12", processes(text));
	close(fd);
	fd = open("/proc/self/limits", O_RDONLY);
	read_all(fd, text);
	check_text("own", "20 30", processes(text));
	close(fd);
	kill_child(pid);
}

/* --- owners --- */

static void check_owner(const char *name, int want, uid_t uid, gid_t gid)
{
	verdict(uid == (uid_t)want && gid == (gid_t)want, name, "want %d, got %d %d", want, uid,
		gid);
}

/* One after the other: the order of arguments is nobody's promise. */
#define OWNER(name, want, call, st, prefix)                                                        \
	do {                                                                                       \
		memset(&st, 0xff, sizeof(st));                                                     \
		check_err(name "_call", 0, err_of(call));                                          \
		check_owner(name, want, st.prefix##_uid, st.prefix##_gid);                         \
	} while (0)

/* As a program started by A: one that changes its ids itself is not dumpable, and root's. */
static int owners(void)
{
	int dir = open("/proc/self", O_PATH);
	struct stat st;
	struct stat64 st64;
	struct statx stx;

	OWNER("stat", A, stat(STATUS, &st), st, st);
	check_eq("stat_mode", S_IFREG | 0444, st.st_mode);
	check_eq("stat_size", 0, st.st_size);
	OWNER("lstat", A, lstat("/proc/self/limits", &st), st, st);
	OWNER("stat64", A, stat64(STATUS, &st64), st64, st);
	OWNER("lstat64", A, lstat64(STATUS, &st64), st64, st);
	OWNER("fstatat", A, fstatat(dir, "status", &st, 0), st, st);
	OWNER("fstatat64", A, fstatat64(AT_FDCWD, STATUS, &st64, 0), st64, st);
	OWNER("statx", A, statx(dir, "status", 0, STATX_BASIC_STATS, &stx), stx, stx);
	OWNER("number_stat", A, syscall(SYS_stat, STATUS, &st), st, st);
	OWNER("number_fstatat", A, syscall(SYS_newfstatat, dir, "status", &st, 0), st, st);
	OWNER("directory", A, stat("/proc/self", &st), st, st);
	OWNER("directory_fd", A, fstat(dir, &st), st, st);
	OWNER("directory_empty_path", A, fstatat(dir, "", &st, AT_EMPTY_PATH), st, st);
	OWNER("other_file", A, stat("/proc/self/cmdline", &st), st, st);
	OWNER("no_task", 0, stat("/proc/stat", &st), st, st);
	OWNER("behind_a_link", 0, stat("/proc/self/root/usr", &st), st, st);
	return failures;
}

static void owners_of_a_program(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (setgid(A) || setresuid(A, A, A))
			_exit(1);
		execl(self, self, "--owners", NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	check_eq("status", 0, status);
}

static void access_by_every_call(void)
{
	int dir = open("/proc/self", O_PATH);

	check_err("access", 0, err_of(access(STATUS, R_OK)));
	check_err("access_there", 0, err_of(access("/proc/self/limits", F_OK)));
	check_err("access_execute", EACCES, err_of(access(STATUS, X_OK)));
	check_err("faccessat", 0, err_of(faccessat(dir, "status", R_OK, 0)));
	check_err("faccessat_effective", 0, err_of(faccessat(dir, "limits", R_OK, AT_EACCESS)));
	check_err("euidaccess", 0, err_of(euidaccess(STATUS, R_OK)));
	check_err("missing", ENOENT, err_of(access("/proc/self/statusx", F_OK)));
	check_err("stat_missing", ENOENT, err_of(stat("/proc/self/statusx", &(struct stat){ 0 })));
}

/* --- files that only a world has --- */

#define UCOUNTS "/proc/kpemu/ucounts"
#define EVENTS  "/proc/kpemu/events"

static bool is_ucounts(int fd)
{
	char text[TEXT];
	bool good = fd >= 0 && read_all(fd, text) > 0 &&
		    !strncmp(text, "  ns        uid      nproc", 26);

	close(fd);
	return good;
}

static void world_files(void)
{
	int proc = open("/proc", O_PATH);
	struct stat st, real;
	struct statx stx;
	char byte;
	FILE *f;
	int fd;

	check_eq("open", true, is_ucounts(open(UCOUNTS, O_RDONLY)));
	check_eq("open64", true, is_ucounts(open64(UCOUNTS, O_RDONLY | O_CLOEXEC)));
	check_eq("__open_2", true, is_ucounts(__open_2(UCOUNTS, O_RDONLY)));
	check_eq("openat", true, is_ucounts(openat(proc, "kpemu/ucounts", O_RDONLY)));
	check_eq("number", true, is_ucounts(syscall(SYS_openat, proc, "kpemu/ucounts", O_RDONLY)));
	check_eq("create", true, is_ucounts(open(UCOUNTS, O_RDONLY | O_CREAT, 0600)));
	f = fopen(UCOUNTS, "r");
	check_eq("fopen", true, f && is_ucounts(dup(fileno(f))));
	fclose(f);
	f = freopen(UCOUNTS, "r", fopen("/dev/null", "r"));
	check_eq("freopen", true, f && is_ucounts(dup(fileno(f))));
	fclose(f);

	check_err("write", EACCES, err_of(open(UCOUNTS, O_WRONLY)));
	check_err("read_and_write", EACCES, err_of(open(EVENTS, O_RDWR)));
	check_err("create_and_write", EACCES,
		  err_of(open(EVENTS, O_WRONLY | O_CREAT | O_TRUNC, 0600)));
	check_err("exclusive", EEXIST, err_of(open(EVENTS, O_RDONLY | O_CREAT | O_EXCL, 0600)));
	check_err("as_directory", ENOTDIR, err_of(open(EVENTS, O_RDONLY | O_DIRECTORY)));
	check_err("new", EACCES, err_of(open("/proc/kpemu/new", O_RDONLY | O_CREAT, 0600)));
	check_err("new_to_write", EACCES,
		  err_of(open("/proc/kpemu/new", O_WRONLY | O_CREAT, 0600)));
	check_err("missing", ENOENT, err_of(open("/proc/kpemu/new", O_RDONLY)));
	check_err("missing_to_write", ENOENT, err_of(open("/proc/kpemu/new", O_WRONLY)));
	check_err("fopen_to_write", EACCES, fopen(EVENTS, "w") ? 0 : errno);
	check_err("fopen_to_append", EACCES, fopen(EVENTS, "a") ? 0 : errno);
	fd = open(EVENTS, O_RDONLY);
	check_err("written_to", EBADF, err_of(write(fd, "x", 1)));
	check_eq("read", 1, pread(fd, &byte, 1, 0));
	check_eq("text", 'l', byte);

	stat("/proc", &real);
	check_eq("stat", 0, stat(EVENTS, &st));
	check_eq("mode", S_IFREG | 0444, st.st_mode);
	check_eq("owner", 0, st.st_uid | st.st_gid | st.st_size);
	check_eq("device", real.st_dev, st.st_dev);
	check_eq("lstat", 0, lstat(UCOUNTS, &st));
	check_eq("fstatat", 0, fstatat(proc, "kpemu/events", &st, 0));
	check_eq("statx", 0, statx(AT_FDCWD, UCOUNTS, 0, STATX_BASIC_STATS, &stx));
	check_eq("statx_mode", S_IFREG | 0444, stx.stx_mode);
	check_eq("statx_device", real.st_dev, makedev(stx.stx_dev_major, stx.stx_dev_minor));
	check_eq("directory", 0, stat("/proc/kpemu", &st));
	check_eq("directory_mode", S_IFDIR | 0555, st.st_mode);
	check_err("stat_missing", ENOENT, err_of(stat("/proc/kpemu/new", &st)));
	check_err("statx_missing", ENOENT, err_of(statx(AT_FDCWD, "/proc/kpemu/new", 0, 0, &stx)));
}

/* The number of tasks of uid 0 as the file at @fd says it, read again from its start. */
static long world_tasks(int fd)
{
	char text[TEXT], *line;
	unsigned int ns, uid;
	long n;

	lseek(fd, 0, SEEK_SET);
	if (read_all(fd, text) < 0)
		return -1;
	for (line = strchr(text, '\n'); line; line = strchr(line + 1, '\n'))
		if (sscanf(line, "%u %u %ld", &ns, &uid, &n) == 3 && !ns && !uid)
			return n;
	return -1;
}

static void world_files_are_refreshed(void)
{
	int fd = open(UCOUNTS, O_RDONLY);
	pid_t pid;

	check_eq("one", 1, world_tasks(fd));
	pid = hold_child();
	check_eq("two", 2, world_tasks(fd));
	kill(pid, SIGKILL);
	waitid(P_PID, pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	check_eq("zombie", 2, world_tasks(fd));
	waitpid(pid, NULL, 0);
	check_eq("one_again", 1, world_tasks(fd));
}

static const struct test_case test[] = {
	{ "by_open", by_open },
	{ "by_stream", by_stream },
	{ "by_path", by_path },
	{ "refused_opens", refused_opens },
	{ "numbers_and_flags", numbers_and_flags },
	{ "small_reads_make_the_same_text", small_reads_make_the_same_text },
	{ "half_read_text_is_stable", half_read_text_is_stable },
	{ "refreshed_from_the_start", refreshed_from_the_start },
	{ "rewound_stream_is_refreshed", rewound_stream_is_refreshed },
	{ "inherited_by_fork", inherited_by_fork },
	{ "inherited_by_exec", inherited_by_exec },
	{ "of_parent_and_child", of_parent_and_child },
	{ "of_a_zombie", of_a_zombie },
	{ "limits_of_a_child", limits_of_a_child },
	{ "owners_of_a_program", owners_of_a_program },
	{ "access_by_every_call", access_by_every_call },
	{ "world_files", world_files },
	{ "world_files_are_refreshed", world_files_are_refreshed },
};

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--inherited"))
		return inherited();
	if (argc > 1 && !strcmp(argv[1], "--owners"))
		return owners();
	return run_case(test, sizeof(test) / sizeof(*test), argc, argv);
}
