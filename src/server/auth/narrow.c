/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/object.h"
#include "api/view_sandbox.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/wall.h"
#include "identity/grant.h"
#include "json/json.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"
#include "server/objects/objects.h"

/*
 * What a narrowed token leaves of its user's rights at the API: the one table that says which right
 * an act takes. What is not in it is refused to every narrowed token, whatever it leaves.
 */
static const char *const none[] = { "", NULL };
static const char *const streams[] = { "exec", "attach", NULL };
static const char *const files[] = { "files", NULL }; /* through tools; no path leads there */
static const char *const forward[] = { "portforward", NULL };
static const char *const proxy[] = { "proxy", NULL };
static const char *const shown[] = { "", "log", "status", "scale", NULL };
static const char *const to_open[] = { "get", "create", NULL };
static const char *const to_get[] = { "get", NULL };
static const char *const to_pass[] = { "get", "create", "update", "patch", "delete", NULL };
static const char *const to_read[] = { "get", "list", "watch", NULL };
static const char *const to_change[] = { "create", "update", "patch", "delete", NULL };
static const char *const to_ask[] = { "create", NULL };

/* About oneself, which takes no right. */
#define RIGHT_NONE RIGHT_MAX_

static const struct need {
	const char *group, *plural; /* NULL: any */
	const char *const *subs, *const *verbs;
	enum right right;
} needs[] = {
	{ "", "pods", streams, to_open, RIGHT_EXEC },
	{ "", "pods", files, to_get, RIGHT_READ },
	{ "", "pods", files, to_ask, RIGHT_WRITE },
	{ "", "pods", forward, to_open, RIGHT_PORTS },
	{ "", "pods", proxy, to_pass, RIGHT_PORTS },
	{ "", "services", proxy, to_pass, RIGHT_PORTS },
	{ GROUP_AGENTS, "sandboxes", none, to_change, RIGHT_LIFECYCLE },
	{ GROUP_EXTENSIONS, "sandboxclaims", none, to_change, RIGHT_LIFECYCLE },
	{ GROUP_CAY, "sessions", none, to_change, RIGHT_LIFECYCLE },
	{ GROUP_CAY, "attachments", none, to_change, RIGHT_LIFECYCLE },
	{ AUTHN_GROUP, "selfsubjectreviews", none, to_ask, RIGHT_NONE },
	{ AUTHZ_GROUP, "selfsubjectaccessreviews", none, to_ask, RIGHT_NONE },
	{ NULL, NULL, shown, to_read, RIGHT_READ },
};

static const struct need *need_of(const struct act *a)
{
	for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
		const struct need *n = &needs[i];

		if ((!n->plural || (str_eq(n->group, a->group) && str_eq(n->plural, a->plural))) &&
		    str_in(a->sub, n->subs) && str_in(a->verb, n->verbs))
			return n;
	}
	return NULL;
}

/* Pages without which a client cannot say what it wants. */
static bool is_discovery(const struct act *a)
{
	static const char *const pages[] = { "/api",     "/apis",  "/openapi", "/version",
					     "/healthz", "/livez", "/readyz",  NULL };

	for (size_t i = 0; pages[i]; i++) {
		size_t len = strlen(pages[i]);

		if (!strncmp(a->path, pages[i], len) && (!a->path[len] || a->path[len] == '/'))
			return str_eq(a->verb, "get");
	}
	return false;
}

static bool is(const struct act *a, const char *group, const char *plural, const char *name)
{
	return str_eq(a->group, group) && str_eq(a->plural, plural) && str_eq(a->name, name);
}

static bool is_attachment(const struct objects *os, const struct act *a, const char *sandbox)
{
	const struct object *o;

	if (!is(a, GROUP_CAY, "attachments", a->name) || !*a->name)
		return false;
	o = objects_find(os, os->attachment, a->ns, a->name);
	return o && str_eq(json_get_str(object_spec(o), "sandbox"), sandbox);
}

/* The sandbox itself, its Pod, its Service, the claim that has it, and what attaches it. */
static bool is_about(const struct objects *os, const struct identity_grant *g, const struct act *a)
{
	const struct object *o;
	const struct sandbox_view *v;

	if (!*g->sandbox || !*g->ns || !str_eq(a->ns, g->ns) || !*a->name)
		return false;
	if (is(a, GROUP_AGENTS, "sandboxes", g->sandbox) || is_attachment(os, a, g->sandbox))
		return true;
	o = objects_find(os, os->sandbox, g->ns, g->sandbox);
	if (!o)
		return false;
	v = sandbox_view(o);
	return is(a, "", "pods", v->pod_name) || is(a, "", "services", g->sandbox) ||
	       (v->owner.type == OWNER_CLAIM &&
		is(a, GROUP_EXTENSIONS, "sandboxclaims", v->owner.name));
}

static bool leaves(const struct objects *os, const struct identity_grant *g, const struct act *a)
{
	const struct need *n;
	bool enters;

	if (!a->resource)
		return is_discovery(a);
	n = need_of(a);
	if (!n)
		return false;
	if (n->right == RIGHT_NONE)
		return true;
	enters = n->right != RIGHT_READ;
	/* Nothing here limits what a sandbox connects to, so whoever must not go there stays out.
	 */
	if (enters && identity_grant_limits_network(g))
		return false;
	return (g->capabilities.rights & 1U << n->right) && (!g->sandbox || is_about(os, g, a));
}

static bool has_grant(const struct user *u)
{
	for (size_t i = 0; u->groups[i]; i++)
		if (str_starts(u->groups[i], IDENTITY_GRANT_GROUP))
			return true;
	return false;
}

static void describe(const struct identity_grant *g, struct buf *why)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *tree = identity_grant_write(g, d);

	(void)json_del(tree, "exp");
	buf_add_str(why, "the token is narrowed to ");
	json_write(tree, why);
}

bool narrow_allows(const struct objects *os, const struct user *u, const struct act *a,
		   struct buf *why)
{
	autoptr(arena) arena = NULL;
	autoptr(json_doc) d = NULL;
	struct identity_grant g;
	autoptr(err) e = NULL;

	if (!has_grant(u))
		return true;
	arena = arena_new();
	d = json_doc_new();
	e = identity_grant_of(u->groups, arena, d, &g);
	if (!e && leaves(os, &g, a))
		return true;
	if (e)
		buf_add_str(why, "the token is narrowed to nothing that is understood");
	else
		describe(&g, why);
	return !wall_stands("narrowed-token");
}
