/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "server/auth/auth.h"
#include "server/call/call.h"

/*
 * Who may do what, as one table of grants that is read by one function, in the terms of RBAC (group
 * of users, verbs, resources or paths), so that stored roles can take its place.
 */
enum scope {
	SCOPE_ALL,    /* everything */
	SCOPE_PATH,   /* a page of the server, and what is below it */
	SCOPE_OWN_NS, /* namespaced objects in the service account's own namespace; their status
		       * is read-only: controllers and nodes write it, and the router acts on it */
	SCOPE_OWN_NAMESPACE_OBJECT,
};

struct grant {
	const char *group; /* of users */
	enum scope scope;
	unsigned verbs;
	const char *path;
};

#define ALL_VERBS  (B(VERB_MAX_) - 1)
#define READ_VERBS (B(VERB_GET) | B(VERB_LIST))

static const struct grant grants[] = {
	{ "system:masters", SCOPE_ALL, ALL_VERBS, NULL },
	{ "system:unauthenticated", SCOPE_PATH, READ_VERBS, "/healthz" },
	{ "system:unauthenticated", SCOPE_PATH, READ_VERBS, "/livez" },
	{ "system:unauthenticated", SCOPE_PATH, READ_VERBS, "/readyz" },
	{ "system:unauthenticated", SCOPE_PATH, READ_VERBS, "/version" },
	{ "system:authenticated", SCOPE_PATH, READ_VERBS, "/healthz" },
	{ "system:authenticated", SCOPE_PATH, READ_VERBS, "/livez" },
	{ "system:authenticated", SCOPE_PATH, READ_VERBS, "/readyz" },
	{ "system:authenticated", SCOPE_PATH, READ_VERBS, "/version" },
	{ "system:authenticated", SCOPE_PATH, READ_VERBS, "/api" },
	{ "system:authenticated", SCOPE_PATH, READ_VERBS, "/apis" },
	{ "system:authenticated", SCOPE_PATH, READ_VERBS, "/openapi" },
	{ "system:serviceaccounts", SCOPE_OWN_NS, ALL_VERBS, NULL },
	{ "system:serviceaccounts", SCOPE_OWN_NAMESPACE_OBJECT, B(VERB_GET), NULL },
};

static bool below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return str_starts(path, top) && (path[len] == '\0' || path[len] == '/');
}

static bool grant_covers(const struct grant *g, const struct call *c)
{
	const struct route *r = &c->route;

	switch (g->scope) {
	case SCOPE_ALL:
		return true;
	case SCOPE_PATH:
		return !r->resource && below(r->path, g->path);
	case SCOPE_OWN_NS:
		return r->resource && *r->ns && str_eq(r->ns, c->user.sa_ns) &&
		       (!str_eq(r->sub, "status") || (B(r->verb) & READ_VERBS));
	case SCOPE_OWN_NAMESPACE_OBJECT:
		return r->resource && !*r->group && !*r->ns && !*r->sub &&
		       str_eq(r->plural, "namespaces") && str_eq(r->name, c->user.sa_ns);
	}
	return false;
}

static struct err *refusal(const struct call *c)
{
	const struct route *r = &c->route;
	autobuf b = { 0 };

	if (!r->resource) {
		buf_printf(&b, "User \"%s\" cannot %s path \"%s\"", c->user.name,
			   verb_name(VERB_GET), r->path);
		return err_new(ERR_FORBIDDEN, "forbidden: %s", buf_str(&b));
	}
	buf_add_str(&b, r->plural);
	if (*r->group)
		buf_printf(&b, ".%s", r->group);
	if (*r->name)
		buf_printf(&b, " \"%s\"", r->name);
	buf_printf(
		&b, " is forbidden: User \"%s\" cannot %s resource \"%s%s%s\" in API group \"%s\"",
		c->user.name, verb_name(r->verb), r->plural, *r->sub ? "/" : "", r->sub, r->group);
	if (*r->ns)
		buf_printf(&b, " in the namespace \"%s\"", r->ns);
	else
		buf_add_str(&b, " at the cluster scope");
	return err_new(ERR_FORBIDDEN, "%s", buf_str(&b));
}

struct err *authorise(const struct call *c)
{
	for (size_t i = 0; i < ARRAY_LEN(grants); i++) {
		const struct grant *g = &grants[i];

		if ((g->verbs & B(c->route.verb)) && str_in(g->group, c->user.groups) &&
		    grant_covers(g, c))
			return NULL;
	}
	return refusal(c);
}
