/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User namespaces: the chain of records, and the meaning of ids. */
#include <kpemu/ucount.h>
#include <kpemu/user_namespace.h>

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
