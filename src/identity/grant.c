/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/grant.h"

#include "api/meta.h"
#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"

/*
 * Grants are read strictly, in contrast to what is stored: a stored object has passed validation,
 * a grant comes from whoever holds the token.
 */
enum {
	LIST_MAX = 64,
	PORT_MAX = 65535,
};
#define TIME_MAX (INT64_C(1) << 53)

void identity_grant_all(struct identity_grant *ret)
{
	*ret = (struct identity_grant){ .ns = "" };
	capabilities_read_ceiling(NULL, NULL, &ret->capabilities);
}

/* Reading */

static struct err *bad(const char *member, const char *what)
{
	return err_new(ERR_INVALID, "%s: must be %s", member, what);
}

static struct err *check_list(const struct json *list, const char *member)
{
	if (!json_is(list, JSON_ARR) || json_len(list) > LIST_MAX)
		return bad(member, "a list of at most 64 members");
	return NULL;
}

static struct err *check_texts(const struct json *list, const char *member)
{
	struct err *e = check_list(list, member);

	if (e)
		return e;
	json_each(it, list)
		if (str_empty(json_str(it.val)))
			return bad(member, "a list of texts that are not empty");
	return NULL;
}

static struct err *check_rights(const struct json *list, const char *member)
{
	struct err *e = check_texts(list, member);

	if (e)
		return e;
	json_each(it, list)
		if (right_named(json_str(it.val)) == RIGHT_MAX_)
			return bad(member, "a list of exec, read, write, ports and lifecycle");
	return NULL;
}

static struct err *check_ports(const struct json *list, const char *member)
{
	struct err *e = check_list(list, member);

	if (e)
		return e;
	json_each(it, list) {
		int64_t port = json_is(it.val, JSON_INT) ? json_int(it.val, 0) : 0;

		if (port < 1 || port > PORT_MAX)
			return bad(member, "a list of numbers from 1 to 65535");
	}
	return NULL;
}

static struct err *check_host(const struct json *v, const char *member)
{
	return str_empty(json_str(v)) ? bad(member, "a text that is not empty") : NULL;
}

static struct err *check_sandbox(const struct json *v, const char *member)
{
	if (!json_str(v) || (*json_str(v) && meta_bad_dns_subdomain(json_str(v))))
		return bad(member, "the name of a sandbox, or empty");
	return NULL;
}

static struct err *check_ns(const struct json *v, const char *member)
{
	if (!json_str(v) || meta_bad_dns_label(json_str(v)))
		return bad(member, "the name of a namespace");
	return NULL;
}

static struct err *check_time(const struct json *v, const char *member)
{
	int64_t when = json_is(v, JSON_INT) ? json_int(v, 0) : 0;

	return when < 1 || when > TIME_MAX ? bad(member, "a time in seconds since 1970") : NULL;
}

struct member {
	const char *name;
	struct err *(*check)(const struct json *v, const char *member);
};

/* Every member of obj is one of the table, or `more`. */
static struct err *check_members(const struct json *obj, const struct member *table,
				 const char *more)
{
	struct err *e = NULL;

	json_each(it, obj) {
		const struct member *m = table;

		while (m->name && !str_eq(m->name, it.key))
			m++;
		if (m->name)
			e = m->check(it.val, m->name);
		else if (!str_eq(it.key, more))
			e = err_new(ERR_INVALID, "%s: a grant has no such member", it.key);
		if (e)
			return e;
	}
	return NULL;
}

static struct err *check_egress(const struct json *list, const char *member)
{
	static const struct member table[] = {
		{ "host", check_host },
		{ "ports", check_ports },
		{ "methods", check_texts },
		{ "paths", check_texts },
		{ 0 },
	};
	struct err *e = check_list(list, member);

	if (e)
		return e;
	json_each(it, list) {
		if (!json_get(it.val, "host"))
			return bad(member, "a list of objects with a host");
		e = check_members(it.val, table, NULL);
		if (e)
			return err_wrap(e, "%s", member);
	}
	return NULL;
}

struct err *identity_grant_read(const struct json *tree, const char *more, struct arena *a,
				struct identity_grant *ret)
{
	static const struct member table[] = {
		{ "rights", check_rights },
		{ "egress", check_egress },
		{ "tools", check_texts },
		{ "credentials", check_texts },
		{ "sandbox", check_sandbox },
		{ "exp", check_time },
		{ 0 },
	};
	struct err *e;

	if (!json_is(tree, JSON_OBJ))
		return bad("a grant", "an object");
	e = check_members(tree, table, more);
	if (e)
		return e;
	*ret = (struct identity_grant){ .ns = "",
					.sandbox = json_get_str(tree, "sandbox"),
					.expires = json_get_int(tree, "exp", 0) };
	capabilities_read_ceiling(tree, a, &ret->capabilities);
	return NULL;
}

/* Writing */

static bool is_open(const char *const *patterns)
{
	return str_in("*", patterns);
}

struct json *identity_grant_write(const struct identity_grant *g, struct json_doc *d)
{
	struct json *ret = capabilities_write(&g->capabilities, d);

	(void)json_del(ret, "runtimeClasses");
	(void)json_del(ret, "maxSandboxes");
	if (g->capabilities.rights == RIGHTS_ALL)
		(void)json_del(ret, "rights");
	if (is_open(g->capabilities.tools))
		(void)json_del(ret, "tools");
	if (is_open(g->capabilities.credentials))
		(void)json_del(ret, "credentials");
	json_set_str(d, ret, "sandbox", g->sandbox);
	if (g->expires)
		json_set_int(d, ret, "exp", g->expires);
	return ret;
}

/* Comparing */

static const char *meet_sandboxes(const struct identity_grant *x, const struct identity_grant *y)
{
	bool apart = *x->ns && *y->ns && !str_eq(x->ns, y->ns);

	if (!x->sandbox && !y->sandbox)
		return NULL;
	if (apart || (x->sandbox && y->sandbox && !str_eq(x->sandbox, y->sandbox)))
		return "";
	return x->sandbox ? x->sandbox : y->sandbox;
}

void identity_grant_meet(const struct identity_grant *x, const struct identity_grant *y,
			 struct arena *a, struct identity_grant *ret)
{
	struct identity_grant both = {
		.ns = *x->ns ? x->ns : y->ns,
		.sandbox = meet_sandboxes(x, y),
		.expires = x->expires && y->expires ? MIN(x->expires, y->expires)
						    : MAX(x->expires, y->expires),
	};

	capabilities_meet(&x->capabilities, &y->capabilities, a, &both.capabilities);
	*ret = both;
}

bool identity_grant_contains(const struct identity_grant *outer, const struct identity_grant *inner)
{
	bool place =
		!outer->sandbox ||
		(inner->sandbox && (!*inner->sandbox || str_eq(outer->sandbox, inner->sandbox)));
	bool time = !outer->expires || (inner->expires && inner->expires <= outer->expires);

	return place && time &&
	       capabilities_contain(&outer->capabilities, &inner->capabilities, NULL, NULL);
}

bool identity_grant_limits_network(const struct identity_grant *g)
{
	return !g->capabilities.all_egress || !is_open(g->capabilities.credentials);
}

bool identity_grant_narrows(const struct identity_grant *g)
{
	return g->capabilities.rights != RIGHTS_ALL || g->sandbox ||
	       !is_open(g->capabilities.tools) || identity_grant_limits_network(g);
}

/* As a group */

const char *identity_grant_group(const struct identity_grant *g, struct arena *a)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *tree = identity_grant_write(g, d);
	autofree char *text = NULL;

	json_set_str(d, tree, "namespace", *g->ns ? g->ns : NULL);
	text = json_to_text(tree);
	return arena_printf(a, IDENTITY_GRANT_GROUP "%s", text);
}

static struct err *read_group(const char *text, struct arena *a, struct json_doc *d,
			      struct identity_grant *ret)
{
	struct json_doc *own = NULL;
	const struct json *tree, *ns;
	struct err *e = json_parse(text, strlen(text), NULL, &own);

	if (e)
		return err_recode(e, ERR_INVALID);
	tree = json_move(d, own, json_root(own));
	ns = json_get(tree, "namespace");
	e = ns ? check_ns(ns, "namespace") : NULL;
	if (!e)
		e = identity_grant_read(tree, "namespace", a, ret);
	if (!e)
		ret->ns = str_or(json_str(ns), "");
	return e;
}

struct err *identity_grant_of(const char *const *groups, struct arena *a, struct json_doc *d,
			      struct identity_grant *ret)
{
	struct identity_grant all;
	struct err *e = NULL;

	identity_grant_all(&all);
	for (size_t i = 0; groups[i] && !e; i++) {
		struct identity_grant one = { .ns = "" }, both;

		if (!str_starts(groups[i], IDENTITY_GRANT_GROUP))
			continue;
		e = read_group(groups[i] + strlen(IDENTITY_GRANT_GROUP), a, d, &one);
		if (e)
			break;
		identity_grant_meet(&all, &one, a, &both);
		all = both;
	}
	if (!e)
		*ret = all;
	return e;
}
