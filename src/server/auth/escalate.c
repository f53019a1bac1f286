/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "api/rbac.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/wall.h"
#include "json/json.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * Nobody gives away more than they have: whoever writes a role holds all of its rights, or the verb
 * "escalate" on roles; whoever writes a binding holds all rights of its role, or the verb "bind" on
 * that role. What an aggregated role will gather is not known, so it takes all rights there are.
 * The rights that count are those of stored roles: what the settings grant cannot be passed on.
 */

/* The rules of the user, as a list. */
struct held {
	const struct json **list;
	size_t n, room;
};

static void hold(void *arg, const struct json *rule)
{
	struct held *h = arg;

	if (h->n == h->room) {
		h->room = MAX(2 * h->room, (size_t)32);
		h->list = xrealloc(h->list, h->room * sizeof(const struct json *));
	}
	h->list[h->n++] = rule;
}

/* NULL: the user holds all of rules; else what is lacking, malloc'd. */
static char *lacking(const struct authoriser *by, const struct user *u, const char *ns,
		     const struct json *rules)
{
	struct held h = { 0 };
	char *missing = NULL;

	rbac_each(by->rbac, u, ns, hold, &h);
	(void)rules_cover(h.list, h.n, rules, &missing);
	free(h.list);
	return missing;
}

static struct err *confirm(const struct authoriser *by, const struct role_write *w,
			   const struct json *rules)
{
	autofree char *missing = lacking(by, w->user, w->ns, rules);
	autobuf why = { 0 };

	if (!missing)
		return NULL;
	buf_printf(&why, "user \"%s\" (groups=[", w->user->name);
	for (size_t i = 0; w->user->groups[i]; i++)
		buf_printf(&why, "%s\"%s\"", i ? " " : "", w->user->groups[i]);
	buf_printf(&why, "]) is attempting to grant RBAC permissions not currently held:\n%s",
		   missing);
	return err_forbidden(w->kind, json_get_str(json_get(w->obj, "metadata"), "name"),
			     buf_str(&why));
}

static bool may(const struct authoriser *by, const struct role_write *w, const char *verb,
		const char *plural, const char *name)
{
	const struct act a = { .resource = true,
			       .verb = verb,
			       .group = GROUP_RBAC,
			       .plural = plural,
			       .sub = "",
			       .ns = w->ns,
			       .name = name,
			       .path = "" };

	return rbac_allows(by->rbac, w->user, &a, NULL);
}

static bool holds_everything(const struct authoriser *by, const struct role_write *w)
{
	static const char all[] =
		"[{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],\"verbs\":[\"*\"]},"
		"{\"nonResourceURLs\":[\"*\"],\"verbs\":[\"*\"]}]";
	autoptr(json_doc) d = NULL;
	autofree char *missing = NULL;
	struct err *e = json_parse(all, strlen(all), NULL, &d);

	if (e) {
		err_free(e);
		return false;
	}
	missing = lacking(by, w->user, w->ns, json_root(d));
	return !missing;
}

static struct err *check_role(const struct authoriser *by, const struct role_write *w)
{
	struct err *e;

	if (may(by, w, "escalate", w->kind->plural, w->name))
		return NULL;
	e = confirm(by, w, json_get(w->obj, "rules"));
	if (e || (!json_get(w->obj, "aggregationRule") && !json_get(w->old, "aggregationRule")))
		return e;
	if (holds_everything(by, w))
		return NULL;
	return err_forbidden(w->kind, json_get_str(json_get(w->obj, "metadata"), "name"),
			     "must have cluster-admin privileges to use the aggregationRule");
}

static struct err *check_binding(const struct authoriser *by, const struct objects *os,
				 const struct role_write *w)
{
	const struct json *ref = json_get(w->obj, "roleRef"), *rules;
	const char *name = str_or(json_get_str(ref, "name"), "");
	const struct kind *k =
		str_eq(json_get_str(ref, "kind"), "Role") ? os->role : os->cluster_role;

	if (may(by, w, "bind", k->plural, name))
		return NULL;
	if (!objects_find(os, k, w->ns, name))
		return err_absent(w->kind, name); /* Kubernetes, too, blames the binding */
	rules = rbac_rules_of(by->rbac, ref, w->ns);
	return confirm(by, w, rules);
}

/* Metadata without what the garbage collector changes. */
static bool same_metadata(const struct json *a, const struct json *b)
{
	static const char *const ignored[] = { "ownerReferences", "finalizers", "managedFields",
					       "resourceVersion", NULL };

	json_each(it, a)
		if (!str_in(it.key, ignored) && !json_equal(it.val, json_get(b, it.key)))
			return false;
	return true;
}

/* Whoever may only let an object go gives nothing away. */
static bool gives_nothing(const struct json *obj, const struct json *old)
{
	const struct json *meta = json_get(obj, "metadata"), *was = json_get(old, "metadata");

	if (!old)
		return false;
	json_each(it, obj)
		if (!str_eq(it.key, "metadata") && !json_equal(it.val, json_get(old, it.key)))
			return false;
	return json_len(obj) == json_len(old) && same_metadata(meta, was) &&
	       same_metadata(was, meta);
}

struct err *escalation_check(const struct authoriser *by, const struct objects *os,
			     const struct role_write *w)
{
	const struct kind *k = w->kind;

	if (!str_eq(k->group, GROUP_RBAC) || str_in("system:masters", w->user->groups) ||
	    gives_nothing(w->obj, w->old) || !wall_stands("escalation"))
		return NULL;
	if (k == os->role || k == os->cluster_role)
		return check_role(by, w);
	return check_binding(by, os, w);
}
