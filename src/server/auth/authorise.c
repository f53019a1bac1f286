/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/wall.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"

/*
 * Whether somebody may do something: the stored roles and bindings say so, or a grant of the
 * settings does. Nothing forbids what another allows, except that a narrowed token leaves its user
 * less (narrow.c). A member of system:masters may everything, whatever is stored: who has locked
 * everybody out can let them in again.
 */
static struct err *refusal(const struct user *u, const struct act *a, struct buf *why)
{
	autobuf b = { 0 };

	if (!a->resource) {
		buf_printf(&b, "forbidden: User \"%s\" cannot %s path \"%s\"", u->name, a->verb,
			   a->path);
	} else {
		buf_printf(&b, "%s%s%s", a->plural, *a->group ? "." : "", a->group);
		if (*a->name)
			buf_printf(&b, " \"%s\"", a->name);
		buf_printf(&b,
			   " is forbidden: User \"%s\" cannot %s resource \"%s%s%s\" in API "
			   "group \"%s\"",
			   u->name, a->verb, a->plural, *a->sub ? "/" : "", a->sub, a->group);
		if (*a->ns)
			buf_printf(&b, " in the namespace \"%s\"", a->ns);
		else
			buf_add_str(&b, " at the cluster scope");
	}
	if (why->len)
		buf_printf(&b, ": %s", buf_str(why));
	return err_new(ERR_FORBIDDEN, "%s", buf_str(&b));
}

static enum server_word opinion(const struct authoriser *by, const struct user *u,
				const struct act *a, struct err **ret_why)
{
	const struct server_act act = { .verb = a->verb,
					.group = a->group,
					.plural = a->plural,
					.ns = a->ns,
					.name = a->name,
					.sub = a->sub };

	if (!by->opinion || !a->resource)
		return SERVER_SILENT;
	return by->opinion(by->opinion_arg, u->name, &act, ret_why);
}

struct err *user_may(const struct authoriser *by, const struct user *u, const struct act *a)
{
	bool known = str_in("system:authenticated", u->groups);
	struct err *said = NULL;
	autobuf why = { 0 };

	if (!narrow_allows(by->objects, u, a, &why))
		return refusal(u, a, &why);
	if (str_in("system:masters", u->groups))
		return NULL;
	switch (opinion(by, u, a, &said)) {
	case SERVER_SILENT:
		break;
	case SERVER_YES:
		return NULL;
	case SERVER_NO:
		return said;
	}
	said = private_check(by, u, a);
	if (said)
		return said;
	if (rbac_allows(by->rbac, u, a, NULL) || grants_allow(&by->grants, u, a) ||
	    private_is_open(by, u, a))
		return NULL;
	if (known ? !wall_stands("account-rights") : !wall_stands("anonymous-rights"))
		return NULL;
	rbac_complain(by->rbac, u, a->ns, &why);
	return refusal(u, a, &why);
}

/* A page is asked for with the method in lower case; HEAD counts as what it is a part of. */
static const char *page_verb(const char *method, char ret[16])
{
	size_t i = 0;

	if (str_eq(method, "HEAD"))
		return "get";
	for (; i < 15 && method && method[i]; i++)
		ret[i] = (char)tolower((unsigned char)method[i]);
	ret[i] = '\0';
	return ret;
}

/* OPTIONS, which only a proxy takes, has no verb: whoever may do everything may do that. */
static const char *verb_of(const struct call *c)
{
	return str_eq(c->method, "OPTIONS") ? "" : verb_name(c->route.verb);
}

/* Streams into a Pod are opened by POST or, over WebSocket, by GET, which must not be easier. */
static bool opens_stream(const struct route *r)
{
	static const char *const subs[] = { "exec", "attach", "portforward", NULL };

	return r->verb == VERB_GET && !*r->group && str_eq(r->plural, "pods") &&
	       str_in(r->sub, subs);
}

/* A Namespace is in itself, so that a role in it can be about it. */
static const char *place_of(const struct route *r)
{
	bool namespace = !*r->group && str_eq(r->plural, "namespaces") && *r->name;

	return namespace ? r->name : r->ns;
}

struct err *authorise(const struct authoriser *by, const struct call *c)
{
	const struct route *r = &c->route;
	char verb[16];
	struct act a = { .resource = r->resource,
			 .verb = r->resource ? verb_of(c) : page_verb(c->method, verb),
			 .group = r->group,
			 .plural = r->plural,
			 .sub = r->sub,
			 .ns = place_of(r),
			 .name = r->name,
			 .path = r->path };
	struct err *e = user_may(by, &c->user, &a);

	if (e || !r->resource || !opens_stream(r))
		return e;
	a.verb = verb_name(VERB_CREATE);
	return user_may(by, &c->user, &a);
}
