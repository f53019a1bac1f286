/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/wall.h"
#include "net/http_server.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"

/*
 * Who may do what, as tables that one function reads. They are in the terms of RBAC (group of
 * users, verbs, resources or paths), so that stored roles can take their place.
 *
 * A service account has no rights beyond those of every user, unless the server's settings give it
 * a role (grants.c). A role is valid in the account's own namespace and grows with its rank.
 */
struct path_grant {
	const char *group; /* of users */
	const char *path;  /* a page of the server, and what is below it */
};

#define ALL_VERBS  (B(VERB_MAX_) - 1)
#define READ_VERBS (B(VERB_GET) | B(VERB_LIST))

static const struct path_grant pages[] = {
	{ "system:unauthenticated", "/healthz" }, { "system:unauthenticated", "/livez" },
	{ "system:unauthenticated", "/readyz" },  { "system:unauthenticated", "/version" },
	{ "system:authenticated", "/healthz" },   { "system:authenticated", "/livez" },
	{ "system:authenticated", "/readyz" },    { "system:authenticated", "/version" },
	{ "system:authenticated", "/api" },       { "system:authenticated", "/apis" },
	{ "system:authenticated", "/openapi" },
};

/* What a role may do with namespaced objects. Their status is read-only for all: controllers and
 * nodes write it, and the router acts on it. */
struct rule {
	enum role role; /* and those of higher rank */
	const char *sub;
	unsigned verbs;
	bool secrets; /* Secrets too */
};
static const struct rule rules[] = {
	{ ROLE_VIEW, "", READ_VERBS | B(VERB_WATCH) },
	{ ROLE_VIEW, "status", B(VERB_GET) },
	{ ROLE_VIEW, "scale", B(VERB_GET) },
	{ ROLE_VIEW, "log", B(VERB_GET) },
	{ ROLE_EDIT, "", ALL_VERBS, .secrets = true },
	{ ROLE_EDIT, "scale", ALL_VERBS },
	{ ROLE_EDIT, "exec", ALL_VERBS },
	{ ROLE_EDIT, "attach", ALL_VERBS },
	{ ROLE_EDIT, "portforward", ALL_VERBS },
	{ ROLE_EDIT, "resize", ALL_VERBS },
	{ ROLE_EDIT, "ephemeralcontainers", ALL_VERBS },
	{ ROLE_EDIT, "eviction", ALL_VERBS },
	{ ROLE_ADMIN, "token", B(VERB_CREATE) },
};

static bool below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return str_starts(path, top) && (path[len] == '\0' || path[len] == '/');
}

static bool page_allowed(const struct call *c)
{
	for (size_t i = 0; i < ARRAY_LEN(pages); i++)
		if ((READ_VERBS & B(c->route.verb)) && str_in(pages[i].group, c->user.groups) &&
		    below(c->route.path, pages[i].path))
			return true;
	return false;
}

/* The account's own Namespace, which is not in a namespace itself. */
static bool is_own_namespace(const struct call *c)
{
	const struct route *r = &c->route;

	return r->verb == VERB_GET && !*r->group && !*r->ns && !*r->sub &&
	       str_eq(r->plural, "namespaces") && str_eq(r->name, c->user.sa_ns);
}

static bool role_allows(enum role role, const struct call *c)
{
	const struct route *r = &c->route;
	bool secret = !*r->group && str_eq(r->plural, "secrets");

	if (role == ROLE_NONE)
		return false;
	if (!*r->ns || !str_eq(r->ns, c->user.sa_ns))
		return is_own_namespace(c);
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (role >= rules[i].role && str_eq(rules[i].sub, r->sub) &&
		    (rules[i].verbs & B(r->verb)) && (!secret || rules[i].secrets))
			return true;
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

struct err *refuse_impersonation(const struct call *c)
{
	static const char prefix[] = "Impersonate-";
	const struct http_headers *h = http_request_headers(c->req);

	for (size_t i = 0; i < h->n; i++) {
		struct span start = { h->list[i].name,
				      MIN(strlen(h->list[i].name), sizeof(prefix) - 1) };

		if (span_eq_nocase(start, prefix) && wall_stands("impersonation"))
			return err_new(ERR_FORBIDDEN,
				       "User \"%s\" cannot impersonate: this server does not "
				       "support impersonation; send the request without %s",
				       c->user.name, h->list[i].name);
	}
	return NULL;
}

struct err *authorise(const struct grants *g, const struct call *c)
{
	bool known = str_in("system:authenticated", c->user.groups);

	if (str_in("system:masters", c->user.groups))
		return NULL;
	if (c->route.resource ? role_allows(grants_role(g, &c->user), c) : page_allowed(c))
		return NULL;
	if (known ? wall_stands("account-rights") : wall_stands("anonymous-rights"))
		return refusal(c);
	return NULL;
}
