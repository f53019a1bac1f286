/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/auth/rbac.h"

struct arena;
struct json;

/* rules.c: the rules of a role, compiled. Texts belong to the object that they were read from. */
struct rule {
	unsigned bits; /* B(VERB_…); B(VERB_MAX_): others too, which are in verbs */
	bool all_verbs, all_groups, all_resources;
	const char *const *verbs, *const *groups, *const *resources, *const *names, *const *urls;
	const struct json *json;
};
struct rules {
	struct rule *list;
	size_t n;
};
void rules_compile(struct arena *a, const struct json *list, struct rules *ret);
unsigned verb_bits(const char *verb);
bool rules_allow(const struct rules *rules, const struct act *a, unsigned bits);
