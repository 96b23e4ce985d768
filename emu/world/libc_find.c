/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The launcher's part of libc.h: finding the offsets. */
#include <dlfcn.h>
#include <elf.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <string.h>

#include <kpemu/libc.h>

/* Does the note at @note, which ends before @end, hold a build-id of the usual length? */
static bool is_build_id(const ElfW(Nhdr) * note)
{
	return note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
	       note->n_descsz == LIBC_BUILD_ID && !memcmp(note + 1, "GNU", 4);
}

static const char *build_id_in(const char *note, const char *end)
{
	while (note + sizeof(ElfW(Nhdr)) < end) {
		const ElfW(Nhdr) *n = (const void *)note;

		if (is_build_id(n))
			return (const char *)(n + 1) + 4;
		note += sizeof(*n) + ((n->n_namesz + 3) & ~3u) + ((n->n_descsz + 3) & ~3u);
	}
	return NULL;
}

static const char *find_build_id(const char *base)
{
	const ElfW(Ehdr) *ehdr = (const void *)base;
	const ElfW(Phdr) *phdr = (const void *)(base + ehdr->e_phoff);
	const char *id = NULL;

	for (int i = 0; i < ehdr->e_phnum && !id; i++)
		if (phdr[i].p_type == PT_NOTE)
			id = build_id_in(base + phdr[i].p_vaddr,
					 base + phdr[i].p_vaddr + phdr[i].p_memsz);
	return id;
}

/* The offset of a symbol of libc itself, whatever else defines the name; 0 = not to be had. */
static uint32_t offset_of(void *handle, const char *name, const struct dl_find_object *libc)
{
	char *p = dlsym(handle, name);

	if (p < (char *)libc->dlfo_map_start || p >= (char *)libc->dlfo_map_end)
		return 0;
	return p - (char *)libc->dlfo_map_start;
}

void libc_find_offsets(struct libc_offsets *o)
{
	struct dl_find_object libc;
	void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	const char *id;

	if (!handle || _dl_find_object((void *)gnu_get_libc_version, &libc))
		return;
	id = find_build_id(libc.dlfo_map_start);
	if (!id)
		return;
	o->id_offset = id - (const char *)libc.dlfo_map_start;
	memcpy(o->build_id, id, LIBC_BUILD_ID);
	o->valid = 1;
#define X(name)                                                                                    \
	o->function[REAL_##name] = offset_of(handle, #name, &libc);                                \
	o->valid &= o->function[REAL_##name] != 0;
	REAL_FUNCTIONS(X)
#undef X
}
