/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rbac.h"

#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"

/*
 * A rule is a product: verbs × groups × resources × names, or verbs × paths. It is taken apart into
 * single rights, unless one held rule covers it as a whole, and each right must be covered by one
 * held rule.
 */
enum {
	RIGHTS_MAX = 16384, /* in the rules of one role; more are not compared */
	WORK_MAX = 1 << 20, /* comparisons with held rules, a tenth of a second */
	MISSING_MAX = 100,  /* that are told */
};

/* A single right; the members that its rule does not have are NULL. */
struct right {
	const char *verb, *group, *resource, *name, *url;
};

static bool has(const struct json *list, const char *text)
{
	json_each(it, list)
		if (str_eq(json_str(it.val), text))
			return true;
	return false;
}

static bool has_or_all(const struct json *list, const char *text)
{
	return has(list, "*") || has(list, text);
}

static bool url_covers(const char *held, const char *url)
{
	size_t len = strlen(held);

	if (str_eq(held, url))
		return true;
	if (!len || held[len - 1] != '*')
		return false;
	while (len && held[len - 1] == '*')
		len--;
	return !strncmp(url, held, len);
}

static bool resource_covered(const struct json *list, const char *resource)
{
	const char *slash = strchr(resource, '/');
	autofree char *any = NULL;

	if (has_or_all(list, resource))
		return true;
	any = slash ? xasprintf("*%s", slash) : NULL;
	return any && has(list, any);
}

static bool covers(const struct json *held, const struct right *r)
{
	const struct json *names = json_get(held, "resourceNames");

	if (!has_or_all(json_get(held, "verbs"), r->verb))
		return false;
	if (r->url) {
		json_each(it, json_get(held, "nonResourceURLs"))
			if (json_str(it.val) && url_covers(json_str(it.val), r->url))
				return true;
		return false;
	}
	return has_or_all(json_get(held, "apiGroups"), r->group) &&
	       resource_covered(json_get(held, "resources"), r->resource) &&
	       (!json_len(names) || (r->name && has(names, r->name)));
}

/* What a comparison looks at and finds. */
struct comparison {
	const struct json *const *held;
	size_t n_held;
	size_t n_rights; /* that were looked at */
	size_t work;     /* comparisons that were made, or were too many to make */
	bool covered;
	bool told;            /* whoever asked wants to know what is missing */
	struct tree *missing; /* the beginning of a line → its verbs, char * */
};

static void quote(struct buf *b, const char *text)
{
	autoptr(json_doc) d = json_doc_new();

	json_write(json_new_str(d, text), b);
}

static void add_member(struct buf *b, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(b, "%s%s:[", b->len > 1 ? ", " : "", name);
	quote(b, value);
	buf_add_char(b, ']');
}

/* Rights that differ in their verb alone share a line; paths have a line for each verb. */
static void tell(struct comparison *c, const struct right *r)
{
	autobuf line = { 0 }, verbs = { 0 };
	const char *had;

	c->covered = false;
	if (!c->told || tree_len(c->missing) >= MISSING_MAX)
		return;
	buf_add_char(&line, '{');
	add_member(&line, "APIGroups", r->group);
	add_member(&line, "Resources", r->resource);
	add_member(&line, "NonResourceURLs", r->url);
	add_member(&line, "ResourceNames", r->name);
	if (r->url) { /* the end keeps the lines apart */
		buf_add_str(&line, ", Verbs:[");
		quote(&line, r->verb);
		buf_add_str(&line, "]}");
		(void)tree_put(c->missing, buf_str(&line), NULL);
		return;
	}
	had = tree_get(c->missing, buf_str(&line));
	if (had)
		buf_printf(&verbs, "%s ", had);
	quote(&verbs, r->verb);
	(void)tree_put(c->missing, buf_str(&line), buf_steal(&verbs, NULL));
}

/* False: it would take too long, whoever asks. */
static bool has_time(struct comparison *c)
{
	c->work = MIN(c->work + c->n_held, (size_t)WORK_MAX + 1);
	return c->work <= WORK_MAX;
}

static void check_right(struct comparison *c, const struct right *r)
{
	c->n_rights++;
	if (!has_time(c)) {
		c->covered = false;
		return;
	}
	for (size_t i = 0; i < c->n_held; i++)
		if (covers(c->held[i], r))
			return;
	tell(c, r);
}

/* The rest of a right of a resource. */
static void check_names(struct comparison *c, struct right *r, const struct json *rule)
{
	const struct json *names = json_get(rule, "resourceNames");

	r->name = NULL;
	if (!json_len(names))
		check_right(c, r);
	json_each(it, names) {
		r->name = json_str(it.val);
		check_right(c, r);
	}
}

static void check_resource(struct comparison *c, struct right *r, const struct json *rule)
{
	json_each(verb, json_get(rule, "verbs")) {
		r->verb = json_str(verb.val);
		check_names(c, r, rule);
	}
}

static void take_apart(struct comparison *c, const struct json *rule)
{
	struct right r = { 0 };

	json_each(group, json_get(rule, "apiGroups")) {
		json_each(resource, json_get(rule, "resources")) {
			r.group = json_str(group.val);
			r.resource = json_str(resource.val);
			check_resource(c, &r, rule);
		}
	}
	r = (struct right){ 0 };
	json_each(url, json_get(rule, "nonResourceURLs")) {
		json_each(verb, json_get(rule, "verbs")) {
			r.url = json_str(url.val);
			r.verb = json_str(verb.val);
			check_right(c, &r);
		}
	}
}

static bool all_covered(const struct json *list, const struct json *held, bool resources)
{
	json_each(it, list)
		if (!(resources ? resource_covered(held, str_or(json_str(it.val), ""))
				: has_or_all(held, json_str(it.val))))
			return false;
	return true;
}

/* One held rule covers the other as a whole: what is usual, and cheap. */
static bool covers_whole(const struct json *held, const struct json *rule)
{
	const struct json *names = json_get(held, "resourceNames");

	if (json_len(json_get(rule, "nonResourceURLs")) || json_len(names))
		return false;
	return all_covered(json_get(rule, "verbs"), json_get(held, "verbs"), false) &&
	       all_covered(json_get(rule, "apiGroups"), json_get(held, "apiGroups"), false) &&
	       all_covered(json_get(rule, "resources"), json_get(held, "resources"), true);
}

/* How many rights it consists of, or more than RIGHTS_MAX. */
static size_t n_rights(const struct json *rule)
{
	static const char *const factors[] = { "verbs", "apiGroups", "resources", "resourceNames",
					       "nonResourceURLs" };
	size_t n = 1;

	for (size_t i = 0; i < ARRAY_LEN(factors); i++) {
		n *= MAX(json_len(json_get(rule, factors[i])), (size_t)1);
		n = MIN(n, (size_t)RIGHTS_MAX + 1);
	}
	return n;
}

static void check_rule(struct comparison *c, const struct json *rule)
{
	bool timely = has_time(c);

	for (size_t i = 0; timely && i < c->n_held; i++)
		if (covers_whole(c->held[i], rule))
			return;
	if (timely && c->n_rights + n_rights(rule) <= RIGHTS_MAX)
		take_apart(c, rule);
	else
		c->covered = false;
	if (c->told && (c->work > WORK_MAX || c->n_rights + n_rights(rule) > RIGHTS_MAX))
		(void)tree_put(c->missing, "{more rights than can be compared; use fewer rules}",
			       NULL);
}

static char *lines(const struct tree *missing)
{
	const char *key = NULL, *last = "", *verbs;
	autobuf b = { 0 };

	for (;; last = key) {
		bool after = key;

		key = NULL;
		verbs = tree_seek(missing, last, after, &key);
		if (!key)
			return buf_steal(&b, NULL);
		buf_printf(&b, "%s%s", b.len ? "\n" : "", key);
		if (verbs)
			buf_printf(&b, ", Verbs:[%s]}", verbs);
	}
}

bool rules_cover(const struct json *const *held, size_t n, const struct json *wanted,
		 char **ret_missing)
{
	autoptr(tree) missing = tree_new(free);
	struct comparison c = {
		.held = held, .n_held = n, .covered = true, .told = ret_missing, .missing = missing
	};

	json_each(it, wanted)
		check_rule(&c, it.val);
	if (ret_missing && !c.covered)
		*ret_missing = lines(missing);
	return c.covered;
}
