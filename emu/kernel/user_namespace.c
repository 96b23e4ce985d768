/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User namespaces: the chain of records, the meaning of ids, creation, and what is written to maps. */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include <kpemu/sched.h>
#include <kpemu/ucount.h>
#include <kpemu/user_namespace.h>

#define TEXT_MAX 4096 /* what is written to a map is shorter than a page */
#define SETGROUPS_TEXT_MAX 8

long userns_rlimit_max(uint32_t n, enum rlimit_type type)
{
	struct user_namespace *ns = n == INIT_USER_NS ? NULL : user_ns_of(n);
	uint64_t max = ns ? READ_ONCE(ns->rlimit_max[type]) : LONG_MAX;

	return max < LONG_MAX ? max : LONG_MAX;
}

/* A torn world may lead anywhere, but never in circles: levels only go up. */
struct ucounts *user_ns_nested_ucounts(uint32_t n)
{
	struct user_namespace *ns = n == INIT_USER_NS ? NULL : user_ns_of(n);
	struct ucounts *uc = ns ? ucounts_of(READ_ONCE(ns->ucounts)) : NULL;

	return uc && user_ns_level(READ_ONCE(uc->ns)) < READ_ONCE(ns->level) ? uc : NULL;
}

/* --- ids --- */

static struct uid_gid_map *map_of(struct user_namespace *ns, bool gid)
{
	return gid ? &ns->gid_map : &ns->uid_map;
}

static uint32_t nr_extents(const struct uid_gid_map *map)
{
	uint32_t n = smp_load_acquire(&map->nr_extents);

	return n < USER_NS_EXTENTS ? n : USER_NS_EXTENTS;
}

/* As the kernel: extents lie apart, so the first that has it is the only one. */
static uint32_t map_range_down(uint32_t n, bool gid, uint32_t id, uint32_t count)
{
	struct user_namespace *ns = user_ns_of(n);
	const struct uid_gid_map *map;

	if (n == INIT_USER_NS)
		return id;
	if (!ns)
		return INVALID_ID;
	map = map_of(ns, gid);
	for (uint32_t i = 0; i < nr_extents(map); i++) {
		const struct uid_gid_extent *e = &map->extent[i];

		if (id - e->first < e->count && count <= e->count - (id - e->first))
			return e->lower_first + (id - e->first);
	}
	return INVALID_ID;
}

uint32_t map_id_down(uint32_t n, bool gid, uint32_t id)
{
	return map_range_down(n, gid, id, 1);
}

uint32_t map_id_up(uint32_t n, bool gid, uint32_t id)
{
	struct user_namespace *ns = user_ns_of(n);
	const struct uid_gid_map *map;

	if (n == INIT_USER_NS || !ns)
		return n == INIT_USER_NS ? id : INVALID_ID;
	map = map_of(ns, gid);
	for (uint32_t i = 0; i < nr_extents(map); i++) {
		const struct uid_gid_extent *e = &map->extent[i];

		if (id - e->lower_first < e->count)
			return e->first + (id - e->lower_first);
	}
	return INVALID_ID;
}

bool userns_may_setgroups(uint32_t n)
{
	struct user_namespace *ns = user_ns_of(n);

	if (n == INIT_USER_NS)
		return true;
	return ns && nr_extents(&ns->gid_map) && READ_ONCE(ns->flags) & USERNS_SETGROUPS_ALLOWED;
}

/* --- creation --- */

/* What the creator's soft limits were is what its namespace may cost others, for good. */
static void take_limits(struct user_namespace *ns, struct task_struct *t)
{
	bool global_root = t->cred.uid == 0 && t->cred.user_ns == INIT_USER_NS;

	for (int i = 0; i < UCOUNT_RLIMIT_COUNTS; i++)
		ns->rlimit_max[i] = rlimit(t, i);
	if (global_root)
		ns->rlimit_max[UCOUNT_RLIMIT_NPROC] = RLIM_INF;
	for (int i = 0; i < UCOUNT_COUNTS; i++)
		ns->ucount_max[i] = INT_MAX + 1u;
}

static uint32_t first_flags(struct task_struct *t)
{
	struct user_namespace *parent = user_ns_of(t->cred.user_ns);
	uint32_t flags = 0;

	if (t->cred.user_ns == INIT_USER_NS || READ_ONCE(parent->flags) & USERNS_SETGROUPS_ALLOWED)
		flags |= USERNS_SETGROUPS_ALLOWED;
	if (t->cred.cap_effective & 1ull << CAP_SETFCAP)
		flags |= USERNS_PARENT_SETFCAP;
	return flags;
}

/* Records of an earlier namespace with this number are empty; their history is not the new one's. */
static void forget_history(uint32_t n)
{
	struct ucounts *uc;

	for_each_ucounts(i, uc)
		if (READ_ONCE(uc->ns) == n)
			ucounts_forget_history(uc);
}

static struct user_namespace *alloc_user_ns(struct task_struct *t)
{
	uint32_t me = task_ref(current ? current : t);
	struct user_namespace *ns = table_alloc(TABLE_USER_NS, me);

	if (!ns && ns_reap())
		ns = table_alloc(TABLE_USER_NS, me);
	return ns;
}

static int check_creator(const struct task_struct *t)
{
	uint32_t n = t->cred.user_ns;

	if (READ_ONCE(task_leader((struct task_struct *)t)->flags) & PF_CHROOTED)
		return -EPERM;
	if (from_kuid(n, t->cred.euid) == INVALID_ID || from_kgid(n, t->cred.egid) == INVALID_ID)
		return -EPERM;
	return 0;
}

int create_user_ns(struct task_struct *t, uint32_t *number, struct refusal *why)
{
	uint32_t parent = t->cred.user_ns;
	struct user_namespace *ns;
	struct ucounts *uc;
	int err;

	if (user_ns_level(parent) >= USER_NS_LEVELS)
		return -ENOSPC;
	uc = inc_ucount(parent, t->cred.euid, UCOUNT_USER_NAMESPACES, 1, why);
	if (!uc)
		return -ENOSPC;
	err = check_creator(t);
	if (err)
		return err;
	ns = alloc_user_ns(t);
	if (!ns)
		return -ENOMEM;
	ns->parent = parent;
	ns->level = user_ns_level(parent) + 1;
	ns->owner = t->cred.euid;
	ns->group = t->cred.egid;
	ns->flags = first_flags(t);
	ns->uid_map.nr_extents = ns->gid_map.nr_extents = 0;
	take_limits(ns, t);
	ns->serial = fetch_add(&world->ns_serial, 1) + 1;
	*number = table_index(TABLE_USER_NS, ns);
	forget_history(*number);
	WRITE_ONCE(ns->ucounts, ucounts_index(uc) + 1);
	smp_store_release(&ns->slot, slot_word(SLOT_LIVE, slot_gen(ns->slot), 0));
	return 0;
}

/* --- maps --- */

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A decimal, octal or hexadecimal number before a blank or the end, as simple_strtoul() reads it. */
static bool parse_number(const char **s, uint32_t *v)
{
	const char *p = *s;
	unsigned int base = 10, digit;
	bool any = false;

	while (is_space(*p) && *p != '\n')
		p++;
	if (*p == '0')
		base = (p[1] | 0x20) == 'x' ? 16 : 8;
	if (base == 16)
		p += 2;
	for (*v = 0;; p++, any = true) {
		if (*p >= '0' && *p <= '9')
			digit = *p - '0';
		else if ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'f')
			digit = (*p | 0x20) - 'a' + 10;
		else
			break;
		if (digit >= base)
			break;
		*v = *v * base + digit;
	}
	*s = p;
	return any && (!*p || is_space(*p));
}

/* One line; *@s moves to the next, or to the end of the text. */
static bool parse_line(const char **s, struct uid_gid_extent *e)
{
	const char *p = *s;

	if (!parse_number(&p, &e->first) || !is_space(*p) || !parse_number(&p, &e->lower_first) ||
	    !is_space(*p) || !parse_number(&p, &e->count))
		return false;
	while (is_space(*p) && *p != '\n')
		p++;
	if (*p && *p != '\n')
		return false;
	*s = *p ? p + 1 : p;
	return e->first != INVALID_ID && e->lower_first != INVALID_ID &&
	       e->first + e->count > e->first && e->lower_first + e->count > e->lower_first;
}

static bool overlap(const struct uid_gid_extent *a, const struct uid_gid_extent *b)
{
	return (a->first <= b->first + b->count - 1 && b->first <= a->first + a->count - 1) ||
	       (a->lower_first <= b->lower_first + b->count - 1 &&
		b->lower_first <= a->lower_first + a->count - 1);
}

static long parse_map(const char *s, struct uid_gid_map *map)
{
	map->nr_extents = 0;
	while (*s) {
		struct uid_gid_extent e;

		if (!parse_line(&s, &e))
			return -EINVAL;
		for (uint32_t i = 0; i < map->nr_extents; i++)
			if (overlap(&map->extent[i], &e))
				return -EINVAL;
		if (map->nr_extents == USER_NS_EXTENTS)
			return -ENOMEM;
		map->extent[map->nr_extents++] = e;
	}
	return map->nr_extents ? 0 : -EINVAL;
}

/* Files with capabilities of the parent's root are safe from whoever could not give them any. */
static bool verify_root_map(const struct task_struct *t, uint32_t n, const struct uid_gid_map *map)
{
	const struct user_namespace *ns = user_ns_of(n);

	for (uint32_t i = 0; i < map->nr_extents; i++) {
		if (map->extent[i].lower_first != 0)
			continue;
		return t->cred.user_ns == n ? READ_ONCE(ns->flags) & USERNS_PARENT_SETFCAP :
					      ns_capable(t, ns->parent, CAP_SETFCAP);
	}
	return true;
}

/* The line that everybody may write: oneself. */
static bool maps_itself(const struct task_struct *t, uint32_t n, bool gid,
			const struct uid_gid_map *map)
{
	const struct user_namespace *ns = user_ns_of(n);
	uint32_t id = map->extent[0].lower_first;

	if (map->nr_extents != 1 || map->extent[0].count != 1 || ns->owner != t->cred.euid)
		return false;
	if (!gid)
		return make_kuid(ns->parent, id) == t->cred.euid;
	return !(READ_ONCE(ns->flags) & USERNS_SETGROUPS_ALLOWED) &&
	       make_kgid(ns->parent, id) == t->cred.egid;
}

static bool new_idmap_permitted(const struct task_struct *t, uint32_t n, bool gid,
				const struct uid_gid_map *map)
{
	if (!gid && !verify_root_map(t, n, map))
		return false;
	return maps_itself(t, n, gid, map) ||
	       ns_capable(t, user_ns_of(n)->parent, gid ? CAP_SETGID : CAP_SETUID);
}

/* The ids on the right are the parent's names; what is kept are those of the initial namespace. */
static bool lower_map(uint32_t parent, bool gid, struct uid_gid_map *map)
{
	for (uint32_t i = 0; i < map->nr_extents; i++) {
		struct uid_gid_extent *e = &map->extent[i];

		e->lower_first = map_range_down(parent, gid, e->lower_first, e->count);
		if (e->lower_first == INVALID_ID)
			return false;
	}
	return true;
}

static long write_map(struct task_struct *t, uint32_t n, bool gid, const char *text)
{
	struct user_namespace *ns = user_ns_of(n);
	struct uid_gid_map *map = map_of(ns, gid), new;
	long ret;

	if (nr_extents(map) || !ns_capable(t, n, CAP_SYS_ADMIN))
		return -EPERM;
	ret = parse_map(text, &new);
	if (ret)
		return ret;
	if (!new_idmap_permitted(t, n, gid, &new) || !lower_map(ns->parent, gid, &new))
		return -EPERM;
	memcpy(map->extent, new.extent, new.nr_extents * sizeof(new.extent[0]));
	smp_store_release(&map->nr_extents, new.nr_extents);
	return 0;
}

static bool is_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(text, word, n))
		return false;
	for (text += n; is_space(*text); text++)
		;
	return !*text;
}

static long write_setgroups(uint32_t number, const char *text)
{
	struct user_namespace *ns = user_ns_of(number);
	uint32_t flags = READ_ONCE(ns->flags);

	if (is_word(text, "allow"))
		return flags & USERNS_SETGROUPS_ALLOWED ? 0 : -EPERM;
	if (!is_word(text, "deny"))
		return -EINVAL;
	if (number == INIT_USER_NS || nr_extents(&ns->gid_map))
		return -EPERM;
	fetch_andnot(&ns->flags, (uint32_t)USERNS_SETGROUPS_ALLOWED);
	return 0;
}

/* Of somebody else's map only the parent's tasks, and its own, may write anything. */
static bool is_near(const struct task_struct *t, uint32_t n)
{
	return n != INIT_USER_NS &&
	       (t->cred.user_ns == n || t->cred.user_ns == user_ns_of(n)->parent);
}

long map_write(struct task_struct *t, uint32_t number, enum map_file file, const char *text,
	       size_t n, uint64_t pos)
{
	struct user_namespace *ns = user_ns_of(number);
	char copy[TEXT_MAX];
	long ret;

	if (!ns || (file != MAP_SETGROUPS && !is_near(t, number)))
		return -EPERM;
	if (pos || n >= (file == MAP_SETGROUPS ? SETGROUPS_TEXT_MAX : TEXT_MAX))
		return -EINVAL;
	memcpy(copy, text, n);
	copy[n] = '\0';
	ns_lock(t);
	if (file == MAP_SETGROUPS)
		ret = write_setgroups(number, copy);
	else
		ret = write_map(t, number, file == MAP_GID, copy);
	ns_unlock();
	return ret ? ret : (long)n;
}
