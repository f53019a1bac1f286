/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"
#include "server/auth/rbac_priv.h"
#include "server/call/route.h"

/*
 * The rules of one role in a form that is quick to ask: lists of words that point into the stored
 * object, and the usual verbs as bits, so that most rules are passed over by one comparison.
 */
static const char *const *words(struct arena *a, const struct json *list, bool *ret_all)
{
	const char **ret = arena_new_n(a, const char *, json_len(list) + 1);
	size_t n = 0;

	json_each(it, list) {
		const char *text = json_str(it.val);

		if (!text)
			continue;
		if (ret_all && str_eq(text, "*"))
			*ret_all = true;
		ret[n++] = text;
	}
	return ret;
}

unsigned verb_bits(const char *verb)
{
	for (unsigned v = 0; v < VERB_MAX_; v++)
		if (str_eq(verb_name(v), verb))
			return B(v);
	return B(VERB_MAX_); /* one of the others */
}

static void compile(struct arena *a, const struct json *rule, struct rule *ret)
{
	bool all_verbs = false;

	ret->json = rule;
	ret->verbs = words(a, json_get(rule, "verbs"), &all_verbs);
	ret->groups = words(a, json_get(rule, "apiGroups"), &ret->all_groups);
	ret->resources = words(a, json_get(rule, "resources"), &ret->all_resources);
	ret->names = words(a, json_get(rule, "resourceNames"), NULL);
	ret->urls = words(a, json_get(rule, "nonResourceURLs"), NULL);
	ret->all_verbs = all_verbs;
	for (size_t i = 0; ret->verbs[i]; i++)
		ret->bits |= verb_bits(ret->verbs[i]);
	if (all_verbs)
		ret->bits = ~0U;
}

void rules_compile(struct arena *a, const struct json *list, struct rules *ret)
{
	ret->list = arena_new_n(a, struct rule, json_len(list));
	ret->n = 0;
	json_each(it, list)
		compile(a, it.val, &ret->list[ret->n++]);
}

/* A rule names a resource, or a subresource of one or of all: "pods", "pods/exec", or with "*" in
 * the place of "pods". */
static bool resource_matches(const char *rule, const struct act *a)
{
	size_t len = strlen(a->plural);

	if (!*a->sub)
		return str_eq(rule, a->plural);
	if (rule[0] == '*' && rule[1] == '/')
		return str_eq(rule + 2, a->sub);
	return !strncmp(rule, a->plural, len) && rule[len] == '/' && str_eq(rule + len + 1, a->sub);
}

static bool resources_match(const struct rule *r, const struct act *a)
{
	if (r->all_resources)
		return true;
	for (size_t i = 0; r->resources[i]; i++)
		if (resource_matches(r->resources[i], a))
			return true;
	return false;
}

static bool url_matches(const char *rule, const char *path)
{
	size_t len = strlen(rule);

	if (str_eq(rule, path))
		return true;
	if (!len || rule[len - 1] != '*')
		return false;
	while (len && rule[len - 1] == '*')
		len--;
	return !strncmp(path, rule, len);
}

static bool urls_match(const struct rule *r, const char *path)
{
	for (size_t i = 0; r->urls[i]; i++)
		if (url_matches(r->urls[i], path))
			return true;
	return false;
}

static bool allows(const struct rule *r, const struct act *a, unsigned bits)
{
	if (!(r->bits & bits))
		return false;
	if (bits == B(VERB_MAX_) && !r->all_verbs && !str_in(a->verb, r->verbs))
		return false;
	if (!a->resource)
		return urls_match(r, a->path);
	return (r->all_groups || str_in(a->group, r->groups)) && resources_match(r, a) &&
	       (!r->names[0] || str_in(a->name, r->names));
}

bool rules_allow(const struct rules *rules, const struct act *a, unsigned bits)
{
	for (size_t i = 0; i < rules->n; i++)
		if (allows(&rules->list[i], a, bits))
			return true;
	return false;
}
