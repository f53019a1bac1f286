/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/cay/visibility.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/proxy_name.h"
#include "api/view.h"
#include "api/view_pool.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/wall.h"
#include "json/json.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * What is Private is its owner's to use, whatever roles others have: nobody else enters the
 * Sandbox or changes it, claims from the template, or starts sessions of the agent. Seeing and
 * deleting go by roles. Who must be able to all the same has the verb "use-private".
 *
 * Agents enter by attachments, which their controller refuses to what is Private.
 */
#define VERB_USE "use-private"

static const struct object *sandbox_of(const struct objects *os, const char *ns, const char *pod)
{
	const struct object *o = objects_find(os, os->pod, ns, pod);
	struct owner_view owner;
	const struct object *sandbox;

	if (!o) /* one that sleeps would be woken, and make a Pod of its own name */
		return objects_find(os, os->sandbox, ns, pod);
	owner = owner_view_of(o);
	if (owner.type != OWNER_SANDBOX)
		return NULL;
	sandbox = objects_find(os, os->sandbox, ns, owner.name);
	return sandbox && str_eq(sandbox->uid, owner.uid) ? sandbox : NULL;
}

/* Streams into a Pod can be opened by a get as well, and a log is read from inside. */
static bool only_reads(const struct act *a)
{
	static const char *const reads[] = { "get", "list", "watch", NULL };
	static const char *const ways_in[] = {
		"exec", "attach", "portforward", "proxy", "log", NULL
	};

	return str_in(a->verb, reads) && !str_in(a->sub, ways_in);
}

/* A kind that has a visibility, by its name in rules; NULL: another. */
static const struct kind *kind_of(const struct objects *os, const struct act *a)
{
	const struct kind *const kinds[] = { os->sandbox, os->sandbox_claim, os->sandbox_template,
					     os->agent };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eq(a->plural, kinds[i]->plural) && str_eq(a->group, kinds[i]->group))
			return kinds[i];
	return NULL;
}

/* What the act uses; NULL: nothing that could be Private. */
static const struct object *used_by(const struct objects *os, const struct act *a)
{
	static const char *const free_to_all[] = { "delete", "deletecollection", VERB_USE, "verify",
						   NULL };
	autofree char *pod = NULL;
	const struct kind *k;

	if (!a->resource || !*a->name || !*a->ns || only_reads(a) || str_in(a->verb, free_to_all))
		return NULL;
	if (!*a->group && str_eq(a->plural, "pods")) {
		pod = str_eq(a->sub, "proxy") ? proxy_name_of(a->name) : xstrdup(a->name);
		return sandbox_of(os, a->ns, pod);
	}
	k = kind_of(os, a);
	return k && k != os->agent ? objects_find(os, k, a->ns, a->name) : NULL;
}

static struct err *use(const struct authoriser *by, const struct user *u, const struct object *o)
{
	const struct act need = { .resource = true,
				  .verb = VERB_USE,
				  .group = o ? o->kind->group : "",
				  .plural = o ? o->kind->plural : "",
				  .sub = "",
				  .ns = o ? o->ns : "",
				  .name = o ? o->name : "",
				  .path = "" };
	autofree char *why = NULL;

	if (!o || !visibility_shuts_out(o, u->name) || !wall_stands("private"))
		return NULL;
	if (str_in("system:masters", u->groups) || rbac_allows(by->rbac, u, &need, NULL))
		return NULL;
	why = xasprintf("it is Private to another user; others need the verb %s on %s", VERB_USE,
			o->kind->plural);
	return err_forbidden(o->kind, o->name, why);
}

struct err *private_check(const struct authoriser *by, const struct user *u, const struct act *a)
{
	return use(by, u, used_by(by->objects, a));
}

struct err *private_check_pod(const struct authoriser *by, const struct user *u, const char *ns,
			      const char *pod)
{
	return use(by, u, sandbox_of(by->objects, ns, pod));
}

bool private_is_open(const struct authoriser *by, const struct user *u, const struct act *a)
{
	const struct kind *k;
	const struct object *o;

	if (!a->resource || !*a->name || *a->sub || !str_eq(a->verb, "get") ||
	    !str_in("system:authenticated", u->groups) || str_in(GROUP_OF_AGENTS, u->groups))
		return false;
	k = kind_of(by->objects, a);
	o = k ? objects_find(by->objects, k, a->ns, a->name) : NULL;
	return o && visibility_of(o) == VISIBILITY_GLOBAL;
}

/* Writes that use what they name */

struct err *private_check_claim(const struct authoriser *by, const struct user *u, const char *ns,
				const char *pool)
{
	const struct objects *os = by->objects;
	const struct object *o = objects_find(os, os->sandbox_pool, ns, str_or(pool, ""));
	const char *template = o ? pool_view(o)->template : "";

	if (!o && str_starts(pool, SHADOW_POOL)) /* a claim of v1alpha1 that names a template */
		template = pool + strlen(SHADOW_POOL);
	return use(by, u, objects_find(os, os->sandbox_template, ns, template));
}

static const char *name_in(const struct json *obj, const char *path)
{
	return str_or(json_str(json_at_path(json_get(obj, "spec"), path)), "");
}

static struct err *use_named(const struct authoriser *by, const struct agent_write *w,
			     const struct kind *k, const char *name)
{
	return use(by, w->user, objects_find(by->objects, k, w->ns, name));
}

/* Whoever attaches, or starts an agent, uses both the agent and the Sandbox that is named. */
static struct err *check_session(const struct authoriser *by, const struct agent_write *w)
{
	struct err *e = use_named(by, w, by->objects->agent, name_in(w->obj, "agent"));

	return e ? e : use_named(by, w, by->objects->sandbox, name_in(w->obj, "sandbox"));
}

static struct err *check_attachment(const struct authoriser *by, const struct agent_write *w)
{
	const struct object *session =
		objects_find(by->objects, by->objects->session, w->ns, name_in(w->obj, "session"));
	const char *agent = session ? name_in(session->root, "agent") : "";
	struct err *e = use_named(by, w, by->objects->agent, agent);

	return e ? e : use_named(by, w, by->objects->sandbox, name_in(w->obj, "sandbox"));
}

static bool says_the_same(const struct agent_write *w)
{
	return w->old && json_equal(json_get(w->obj, "spec"), json_get(w->old, "spec"));
}

struct err *private_write_check(const struct authoriser *by, const struct agent_write *w)
{
	const struct objects *os = by->objects;
	const char *template = name_in(w->obj, "sandboxTemplateRef.name");

	if (says_the_same(w))
		return NULL;
	if (w->kind == os->sandbox_pool &&
	    !str_eq(template, w->old ? name_in(w->old, "sandboxTemplateRef.name") : NULL))
		return use_named(by, w, os->sandbox_template, template);
	if (w->kind == os->session)
		return check_session(by, w);
	if (w->kind == os->attachment)
		return check_attachment(by, w);
	if (w->kind == os->trigger)
		return use_named(by, w, os->agent, name_in(w->obj, "agent"));
	if (w->kind == os->sandbox_claim && !w->old)
		return private_check_claim(by, w->user, w->ns, name_in(w->obj, "warmPoolRef.name"));
	return NULL;
}
