/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where files are: the preload library, the program that PATH means, sysctls. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/cmd/cmd.h"

#define PRELOAD_NAME "libkpemu-preload.so"
#define DEFAULT_PATH "/bin:/usr/bin" /* of execvp(3) when PATH is not set */

/* Where the library may be, from the directory of the executable: built, installed, Debian. */
static const char *const preload_places[] = { "", "../lib/", "../lib/x86_64-linux-gnu/" };

static ssize_t executable_dir(char *buf, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", buf, size - 1);

	if (n <= 0)
		return -1;
	buf[n] = '\0';
	n = strrchr(buf, '/') - buf + 1;
	buf[n] = '\0';
	return n;
}

/* LD_PRELOAD separates by blanks and colons and expands '$': such a path cannot be said. */
static int check_preload(const char *path, size_t size)
{
	if (strlen(path) >= size)
		return -ENAMETOOLONG;
	return path[strcspn(path, " \t\n:$")] ? -EINVAL : 0;
}

int cmd_preload_find(char *buf, size_t size)
{
	char dir[PATH_MAX], path[2 * PATH_MAX], real[PATH_MAX];
	int ret;

	if (executable_dir(dir, sizeof(dir)) < 0)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(preload_places) / sizeof(*preload_places); i++) {
		snprintf(path, sizeof(path), "%s%s" PRELOAD_NAME, dir, preload_places[i]);
		if (!realpath(path, real) || access(real, R_OK))
			continue;
		ret = check_preload(real, size);
		if (!ret)
			strcpy(buf, real);
		return ret;
	}
	return -ENOENT;
}

int cmd_explorer_find(char *buf, size_t size)
{
	static const char *const places[] = { "", "../libexec/" };
	char dir[PATH_MAX];

	if (executable_dir(dir, sizeof(dir)) < 0)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if ((size_t)snprintf(buf, size, "%s%skpemu-explore", dir, places[i]) < size &&
		    !access(buf, X_OK))
			return 0;
	return -ENOENT;
}

/* Can @path be executed? 0, -ENOENT, -EACCES or another -errno. */
static int executable(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS))
		return -EACCES;
	return 0;
}

/* As in execvp(3): a directory that cannot be searched or read does not end the search. */
static int search_path(const char *path, const char *prog, char *buf, size_t size)
{
	int found = -ENOENT, ret;

	for (const char *p = path;; p++) {
		size_t len = strcspn(p, ":");

		ret = snprintf(buf, size, "%.*s%s%s", (int)len, p, len ? "/" : "", prog);
		ret = (size_t)ret >= size ? -ENAMETOOLONG : executable(buf);
		if (!ret)
			return 0;
		if (ret == -EACCES)
			found = ret;
		p += len;
		if (!*p)
			return found;
	}
}

int cmd_program_find(const char *prog, char *buf, size_t size)
{
	const char *path = getenv("PATH");

	if (!*prog)
		return -ENOENT;
	if (!strchr(prog, '/'))
		return search_path(path ? path : DEFAULT_PATH, prog, buf, size);
	if (strlen(prog) >= size)
		return -ENAMETOOLONG;
	strcpy(buf, prog);
	return executable(buf);
}

int64_t cmd_sysctl(const char *path, int64_t missing)
{
	FILE *f = fopen(path, "re");
	long long v;

	if (!f)
		return missing;
	if (fscanf(f, "%lld", &v) != 1)
		v = missing;
	fclose(f);
	return v;
}
