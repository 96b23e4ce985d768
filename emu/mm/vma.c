/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading the maps, smaps and status files of /proc/thread-self without libc. */
#include <errno.h>
#include <string.h>

#include "emu/lib/rawsys.h"
#include "emu/mm/vma.h"

/* thread-self: once the first thread has left, /proc/self has no mappings although we do. */
#define MAPS_PATH   "/proc/thread-self/maps"
#define SMAPS_PATH  "/proc/thread-self/smaps"
#define STATUS_PATH "/proc/thread-self/status"

#define LINE_MAX_KEPT 192 /* bytes kept of a line: more than addresses and flags need */

struct reader {
	int fd;
	int at, n; /* in buf */
	char buf[1024];
};

/* The next line without its newline, cut to what fits. 1, 0 at the end, or -errno. */
static int read_line(struct reader *r, char line[LINE_MAX_KEPT])
{
	int len = 0;

	for (;;) {
		if (r->at == r->n) {
			long n = sys_read(r->fd, r->buf, sizeof(r->buf));

			if (n == -EINTR)
				continue;
			if (n <= 0)
				return n ? n : len ? -EIO : 0;
			r->at = 0;
			r->n = n;
		}
		if (r->buf[r->at++] == '\n')
			break;
		if (len < LINE_MAX_KEPT - 1)
			line[len++] = r->buf[r->at - 1];
	}
	line[len] = 0;
	return 1;
}

static const char *parse_hex(const char *p, uint64_t *value)
{
	*value = 0;
	for (;; p++) {
		if (*p >= '0' && *p <= '9')
			*value = *value << 4 | (*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			*value = *value << 4 | (*p - 'a' + 10);
		else
			return p;
	}
}

/* "7f12ab000000-7f12ab021000 rw-p ..."; every other line starts with a capital letter. */
static bool parse_header(const char *line, struct vma *vma)
{
	uint64_t start, end;
	const char *p = parse_hex(line, &start);

	if (p == line || *p != '-')
		return false;
	p = parse_hex(p + 1, &end);
	if (*p != ' ' || strlen(p) < 5)
		return false;
	vma->start = start;
	vma->end = end;
	vma->read = p[1] == 'r';
	vma->write = p[2] == 'w';
	vma->exec = p[3] == 'x';
	vma->shared = p[4] != 'p';
	vma->locked = vma->special = false;
	return true;
}

/* mm/mlock.c, mlock_fixup(): VM_SPECIAL, huge pages and droppable memory are passed over. */
static bool is_special_flag(const char *flag)
{
	static const char special[][3] = { "io", "de", "pf", "mm", "ht", "dp" };

	for (unsigned int i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if (!memcmp(flag, special[i], 2))
			return true;
	return false;
}

/* "VmFlags: rd wr mr mw me lo ac " */
static bool parse_flags(const char *line, struct vma *vma)
{
	static const char name[] = "VmFlags:";
	const char *p = line + sizeof(name) - 1;

	if (strncmp(line, name, sizeof(name) - 1))
		return false;
	for (; *p; p++) {
		if (p[-1] != ' ' || !p[1])
			continue;
		vma->locked |= !memcmp(p, "lo", 2);
		vma->special |= is_special_flag(p);
	}
	return true;
}

int vma_walk(bool flags, int (*fn)(const struct vma *vma, void *arg), void *arg)
{
	struct reader r = { .fd = sys_open(flags ? SMAPS_PATH : MAPS_PATH, O_RDONLY | O_CLOEXEC,
					   0) };
	char line[LINE_MAX_KEPT];
	struct vma vma = { 0 };
	int n = 0, err;

	if (r.fd < 0)
		return r.fd;
	while ((err = read_line(&r, line)) > 0) {
		if (flags ? parse_header(line, &vma) || !parse_flags(line, &vma) :
			    !parse_header(line, &vma))
			continue;
		n++;
		if (fn(&vma, arg))
			break;
	}
	sys_close(r.fd);
	if (err < 0)
		return err;
	return n ? n : -ENODATA;
}

int64_t host_locked_vm(void)
{
	static const char name[] = "VmLck:";
	struct reader r = { .fd = sys_open(STATUS_PATH, O_RDONLY | O_CLOEXEC, 0) };
	char line[LINE_MAX_KEPT];
	int64_t kb = -1;
	int err;

	if (r.fd < 0)
		return r.fd;
	while ((err = read_line(&r, line)) > 0) {
		if (strncmp(line, name, sizeof(name) - 1))
			continue;
		kb = 0;
		for (const char *p = line + sizeof(name) - 1; *p; p++)
			if (*p >= '0' && *p <= '9')
				kb = kb * 10 + (*p - '0');
		break;
	}
	sys_close(r.fd);
	return kb >= 0 ? kb / 4 : err ? err : -ENODATA;
}
