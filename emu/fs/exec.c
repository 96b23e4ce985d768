/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What execve(2) will make of a file, and the environment that carries the world across it. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <kpemu/exec.h>
#include <kpemu/sched.h>
#include <kpemu/world.h>

#include "emu/lib/rawsys.h"
#include "emu/lib/text.h"

#define HEAD          256 /* BINPRM_BUF_SIZE: what the kernel looks at before it chooses a format */
#define SCRIPT_LEVELS 5 /* "#!" lines that the kernel follows; one more is ELOOP */
#define PHDRS_AT_ONCE 3 /* the first three lie in the head, the loader among them as a rule */
#define PHDRS_MAX     (65536 / sizeof(Elf64_Phdr)) /* a longer table is ENOEXEC */

static const char *const kind_name[] = {
	[EXEC_ENTERED] = "dynamic",
	[EXEC_UNKNOWN] = "not readable",
	[EXEC_STATIC] = "static",
	[EXEC_FOREIGN] = "of another architecture or C library",
	[EXEC_SETID] = "set-user-ID or privileged",
};

const char *exec_kind_name(enum exec_kind kind)
{
	return (unsigned int)kind < sizeof(kind_name) / sizeof(*kind_name) ? kind_name[kind] : "?";
}

/* The program to look at, open: its first bytes, zero-filled as the kernel's own buffer is. */
struct image {
	int fd;
	bool is_loader; /* by its name */
	size_t len; /* bytes read into head */
	char head[HEAD] __attribute__((aligned(8)));
};

static long image_read(const struct image *im, void *buf, size_t n, uint64_t pos)
{
	if (pos < im->len && n <= im->len - pos) {
		memcpy(buf, im->head + pos, n);
		return n;
	}
	return sys_call(__NR_pread64, im->fd, buf, n, pos);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/* Never blocks (a FIFO) and never makes a terminal ours. */
static int image_open(struct image *im, int dirfd, const char *path)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	char self[32];

	if (!*path && dirfd >= 0) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", dirfd);
		path = self;
	}
	im->fd = sys_call(__NR_openat, dirfd, path, flags, 0);
	im->len = 0;
	im->is_loader = starts_with(base_name(path), "ld-linux-x86-64.so");
	return im->fd;
}

/* A set-group-ID bit without execution by the group never was a privilege. */
static bool image_privileged(const struct image *im, mode_t mode)
{
	if (mode & S_ISUID || (mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
		return true;
	return sys_call(__NR_fgetxattr, im->fd, "security.capability", NULL, 0) > 0;
}

/* musl tries to load what it is given, finds symbols missing, and the program ends with 127. */
static enum exec_kind interp_kind(const struct image *im, const Elf64_Phdr *ph)
{
	char interp[HEAD] = "";
	size_t n = ph->p_filesz < sizeof(interp) ? ph->p_filesz : sizeof(interp) - 1;

	if (image_read(im, interp, n, ph->p_offset) != (long)n)
		return EXEC_UNKNOWN;
	return starts_with(base_name(interp), "ld-musl-") ? EXEC_FOREIGN : EXEC_ENTERED;
}

static enum exec_kind phdr_kind(const struct image *im, const Elf64_Ehdr *eh)
{
	Elf64_Phdr ph[PHDRS_AT_ONCE];

	for (unsigned int i = 0; i < eh->e_phnum; i += PHDRS_AT_ONCE) {
		unsigned int n = eh->e_phnum - i < PHDRS_AT_ONCE ? eh->e_phnum - i : PHDRS_AT_ONCE;
		long len = n * sizeof(*ph);

		if (image_read(im, ph, len, eh->e_phoff + i * sizeof(*ph)) != len)
			return EXEC_UNKNOWN;
		for (unsigned int j = 0; j < n; j++)
			if (ph[j].p_type == PT_INTERP)
				return interp_kind(im, &ph[j]);
	}
	return im->is_loader && eh->e_type == ET_DYN ? EXEC_ENTERED : EXEC_STATIC;
}

static enum exec_kind elf_kind(const struct image *im)
{
	const Elf64_Ehdr *eh = (const void *)im->head;

	/* e_machine lies at the same place in both classes. */
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB ||
	    eh->e_machine != EM_X86_64)
		return EXEC_FOREIGN;
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return EXEC_UNKNOWN;
	if (eh->e_phentsize != sizeof(Elf64_Phdr) || !eh->e_phnum || eh->e_phnum > PHDRS_MAX)
		return EXEC_UNKNOWN;
	return phdr_kind(im, eh);
}

/* The kind of an ELF file; EXEC_UNKNOWN with *@script set if it starts with "#!". */
static enum exec_kind image_kind(struct image *im, bool *script)
{
	struct stat st;
	long n;

	*script = false;
	if (sys_call(__NR_fstat, im->fd, &st) || !S_ISREG(st.st_mode))
		return EXEC_UNKNOWN;
	memset(im->head, 0, sizeof(im->head));
	n = image_read(im, im->head, sizeof(im->head), 0);
	if (n < 2)
		return EXEC_UNKNOWN;
	im->len = n;
	*script = im->head[0] == '#' && im->head[1] == '!';
	if (*script || memcmp(im->head, ELFMAG, SELFMAG))
		return EXEC_UNKNOWN;
	if (image_privileged(im, st.st_mode))
		return EXEC_SETID;
	return elf_kind(im);
}

/*
 * The interpreter of the "#!" line in @head, to @interp of HEAD bytes (fs/binfmt_script.c): blanks
 * are skipped, a blank, the line's end or a zero byte ends the name. A name that runs to the end
 * of the buffer may be cut short: then nothing is executed. Returns false for that and for none.
 */
static bool script_interp(const char *head, char *interp)
{
	const char *name = head + 2;
	size_t room, len;

	while (name < head + HEAD && (*name == ' ' || *name == '\t'))
		name++;
	room = head + HEAD - name;
	for (len = 0; len < room && name[len] && !strchr(" \t\n", name[len]); len++)
		;
	if (!len || len == room)
		return false;
	memcpy(interp, name, len);
	interp[len] = '\0';
	return true;
}

/*
 * Looking takes six system calls, and programs start the same few programs again and again. Any
 * change of content, mode or capabilities changes ctime. A half written entry fails its check.
 */
static uint64_t known_check(const struct known_program *k)
{
	return (k->dev * 0x9e3779b97f4a7c15ull ^ k->ino) * 0xff51afd7ed558ccdull ^ k->ctime_ns ^ 1;
}

static struct known_program *known_entry(const struct known_program *k)
{
	return &world->known[k->ino % WORLD_KNOWN_PROGRAMS];
}

static bool is_known(const struct known_program *k)
{
	const struct known_program *e = known_entry(k);

	return READ_ONCE(e->dev) == k->dev && READ_ONCE(e->ino) == k->ino &&
	       READ_ONCE(e->ctime_ns) == k->ctime_ns && READ_ONCE(e->check) == k->check;
}

static void make_known(const struct known_program *k)
{
	struct known_program *e = known_entry(k);

	WRITE_ONCE(e->check, 0);
	WRITE_ONCE(e->dev, k->dev);
	WRITE_ONCE(e->ino, k->ino);
	WRITE_ONCE(e->ctime_ns, k->ctime_ns);
	smp_store_release(&e->check, k->check);
}

static bool identify(int dirfd, const char *path, struct known_program *k)
{
	struct stat st;

	if (!world || sys_call(__NR_newfstatat, dirfd, path, &st, 0))
		return false;
	k->dev = st.st_dev;
	k->ino = st.st_ino;
	k->ctime_ns = st.st_ctim.tv_sec * 1000000000ull + st.st_ctim.tv_nsec;
	k->check = known_check(k);
	return true;
}

/* *@direct: the file itself decided, not the interpreter that it names. */
static enum exec_kind look_at(int dirfd, const char *path, bool *direct)
{
	char interp[HEAD];
	struct image im;

	for (int level = 0; path && level <= SCRIPT_LEVELS; level++) {
		enum exec_kind kind;
		bool script;

		if (image_open(&im, dirfd, path) < 0)
			return EXEC_UNKNOWN;
		kind = image_kind(&im, &script);
		sys_close(im.fd);
		*direct = level == 0;
		if (!script)
			return kind;
		if (!script_interp(im.head, interp))
			return EXEC_UNKNOWN;
		path = interp;
		dirfd = AT_FDCWD;
	}
	return EXEC_UNKNOWN;
}

enum exec_kind exec_kind(int dirfd, const char *path)
{
	struct known_program before, after;
	bool direct = false, can_know = path && identify(dirfd, path, &before);
	enum exec_kind kind;

	if (can_know && is_known(&before))
		return EXEC_ENTERED;
	kind = look_at(dirfd, path, &direct);
	if (can_know && direct && kind == EXEC_ENTERED && identify(dirfd, path, &after) &&
	    after.check == before.check)
		make_known(&after);
	return kind;
}

#define PRELOAD_KEY "LD_PRELOAD="
#define WORLD_KEY   "KPEMU_WORLD="
#define TASK_KEY    "KPEMU_TASK="
static_assert(sizeof(((struct exec_env *)0)->world) >= sizeof(WORLD_KEY) + WORLD_PATH_MAX, "");
static_assert(sizeof(((struct exec_env *)0)->task) >= sizeof(TASK_KEY) + 2 * 10 + 2, "");

size_t exec_env_count(char *const *envp)
{
	size_t n = 0;

	while (envp && envp[n])
		n++;
	return n;
}

static bool is_separator(char c)
{
	return c == ' ' || c == ':';
}

/* The next name of an LD_PRELOAD list as ld.so splits it; its length, 0 at the end. */
static size_t next_name(const char **list)
{
	size_t n = 0;

	while (is_separator(**list))
		++*list;
	while ((*list)[n] && !is_separator((*list)[n]))
		n++;
	return n;
}

static bool is_name(const char *name, size_t len, const char *path)
{
	return path && len && text_is(name, len, path);
}

/* A descriptor lasts for one exec: the one in an old list was handed over for an earlier exec. */
static bool is_descriptor(const char *name, size_t len)
{
	const char *prefix = "/proc/self/fd/";
	size_t n = text_len(prefix);

	if (len <= n || !text_starts(name, prefix))
		return false;
	while (n < len && name[n] >= '0' && name[n] <= '9')
		n++;
	return n == len;
}

/* Is the name that of our library: @preload, the launcher's path of it, or a descriptor? */
static bool is_ours(const char *name, size_t len, const char *preload)
{
	if (is_name(name, len, preload) || is_descriptor(name, len))
		return true;
	return len < sizeof(world->preload_path) && is_name(name, len, world->preload_path);
}

/* Does @list already say what it must: @preload is in it, and no other name of ours? */
static bool list_right(const char *list, const char *preload)
{
	bool found = !preload;
	size_t len;

	for (; (len = next_name(&list)); list += len) {
		if (is_name(list, len, preload))
			found = true;
		else if (is_ours(list, len, preload))
			return false;
	}
	return found;
}

/* Append @len bytes of @name to the list at the end of @buf; false if there is no room. */
static bool list_add(char *buf, size_t size, size_t *end, const char *name, size_t len)
{
	bool first = *end == (sizeof(PRELOAD_KEY) - 1);

	if (*end + !first + len >= size)
		return false;
	if (!first)
		buf[(*end)++] = ':';
	memcpy(buf + *end, name, len);
	*end += len;
	buf[*end] = '\0';
	return true;
}

/* "LD_PRELOAD=" with @preload and the names of @list that are not ours, into the scratch. */
static int list_make(struct exec_env *scratch, const char *list, const char *preload)
{
	char *buf = scratch->preload;
	size_t end = (sizeof(PRELOAD_KEY) - 1), len;

	text_put(buf, PRELOAD_KEY);
	if (preload && !list_add(buf, sizeof(scratch->preload), &end, preload, text_len(preload)))
		return -E2BIG;
	for (; (len = next_name(&list)); list += len)
		if (!is_ours(list, len, preload) &&
		    !list_add(buf, sizeof(scratch->preload), &end, list, len))
			return -E2BIG;
	return 0;
}

/* The index of the entry that ld.so obeys, -1 if there is none; *@several if there are others. */
static long find_preload(char *const *envp, bool *several)
{
	long found = -1;

	*several = false;
	for (long i = 0; envp && envp[i]; i++) {
		if (!text_starts(envp[i], PRELOAD_KEY))
			continue;
		*several = found >= 0;
		found = i;
	}
	return found;
}

/* What becomes of the LD_PRELOAD entry @old (NULL = there is none): *@entry, NULL = drop it. */
static int preload_entry(struct exec_env *scratch, char *old, bool several, const char *preload,
			 char **entry)
{
	const char *list = old ? old + (sizeof(PRELOAD_KEY) - 1) : "";
	int err;

	*entry = old;
	if (list_right(list, preload))
		return 0;
	err = list_make(scratch, list, preload);
	/* An entry that is empty now still hides the ones before it. */
	*entry = scratch->preload[(sizeof(PRELOAD_KEY) - 1)] || several ? scratch->preload : NULL;
	return err;
}

/* Is @entry a @key entry? Then the first takes the value *@ours, and any further one goes. */
static bool replace(const char *key, char **ours, char **entry)
{
	if (!text_starts(*entry, key))
		return false;
	if (!*ours || !text_equal(*entry, *ours))
		*entry = *ours;
	*ours = NULL;
	return true;
}

int exec_env(struct exec_env *scratch, char *const *envp, char **out, const struct task_struct *t,
	     const char *preload)
{
	char *ours[] = { scratch->world, scratch->task };
	char *entry, *p;
	bool several;
	long at = find_preload(envp, &several);
	int err = preload_entry(scratch, at < 0 ? NULL : envp[at], several, preload, &entry);

	if (err)
		return err;
	world_path(text_put(scratch->world, WORLD_KEY), world->uid, world->name);
	p = text_put_number(text_put(scratch->task, TASK_KEY), table_index(TABLE_TASK, t));
	text_put_number(text_put(p, ":"), slot_gen(READ_ONCE(t->slot)));
	for (long i = 0; envp && envp[i]; i++) {
		char *e = i == at ? entry : envp[i];

		if (e && !replace(WORLD_KEY, &ours[0], &e))
			replace(TASK_KEY, &ours[1], &e);
		if (e)
			*out++ = e;
	}
	if (at < 0 && entry)
		*out++ = entry;
	for (int i = 0; i < 2; i++)
		if (ours[i])
			*out++ = ours[i];
	*out = NULL;
	return 0;
}

/* A decimal number up to @max that ends at @end; NULL if there is none, else what follows @end. */
static const char *parse_number(const char *s, uint32_t max, char end, uint32_t *value)
{
	uint64_t v = 0;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (*p - '0');
		if (v > max)
			return NULL;
	}
	if (p == s || *p != end || (*s == '0' && p != s + 1))
		return NULL;
	*value = v;
	return p + 1;
}

bool exec_parse_task(const char *value, uint32_t *idx, uint32_t *gen)
{
	uint32_t i, g;

	value = parse_number(value, WORLD_TASKS - 1, ':', &i);
	if (!value || !parse_number(value, 0xffffff, '\0', &g))
		return false;
	*idx = i;
	*gen = g;
	return true;
}
