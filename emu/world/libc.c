/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is this program's libc the one whose functions the launcher found, and where is it? */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stddef.h>

#include <kpemu/libc.h>

char *libc_base(const struct libc_offsets *o)
{
	struct dl_find_object libc;
	char *base;

	/* A function of libc that nobody else defines: its address tells where libc is. */
	if (!o->valid || _dl_find_object((void *)gnu_get_libc_version, &libc))
		return NULL;
	base = libc.dlfo_map_start;
	if (o->id_offset + LIBC_BUILD_ID > (size_t)((char *)libc.dlfo_map_end - base))
		return NULL;
	for (int i = 0; i < LIBC_BUILD_ID; i++)
		if ((uint8_t)base[o->id_offset + i] != o->build_id[i])
			return NULL;
	return base;
}
