/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/wall.h"
#include "net/http_server.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"
#include "server/objects/objects.h"

/*
 * A request in the name of another user: Impersonate-User, -Group, -Uid and -Extra-*. Each of them
 * is a right of its own, to "impersonate" that user, group, account, uid or value, and all of them
 * must be held. From then on the request has the rights of the other user and no others; what it
 * logs names both. A token that was used is not forgotten: what is limited by its end stays so.
 */
#define PREFIX  "impersonate-"
#define ACCOUNT "system:serviceaccount:"

struct wish {
	struct call *call;
	const struct authoriser *by;
	struct user as;
	const char **groups;
	size_t n_groups;
	struct user_extra *extra;
	size_t n_extra;
};

static struct err *may(const struct wish *w, struct act a)
{
	a.resource = true;
	a.verb = "impersonate";
	a.path = "";
	a.group = a.group ? a.group : "";
	a.sub = a.sub ? a.sub : "";
	a.ns = a.ns ? a.ns : "";
	if (!wall_stands("impersonation"))
		return NULL;
	return user_may(w->by, &w->call->user, &a);
}

bool account_split(struct arena *a, const char *user, const char **ret_ns, const char **ret_name)
{
	struct span ns, name;

	if (!str_starts(user, ACCOUNT))
		return false;
	ns = span_cut(SPAN(user + strlen(ACCOUNT)), ':', &name);
	if (!ns.len || !name.len || memchr(name.p, ':', name.len))
		return false;
	*ret_ns = arena_strndup(a, ns.p, ns.len);
	*ret_name = arena_strndup(a, name.p, name.len);
	return true;
}

static void add_group(struct wish *w, const char *group)
{
	if (!str_in(group, w->groups))
		w->groups[w->n_groups++] = group;
}

static struct err *wish_user(struct wish *w, const char *name)
{
	struct arena *a = w->call->arena;
	const char *ns, *account;

	w->as.name = arena_strdup(a, name);
	if (!account_split(a, name, &ns, &account))
		return may(w, (struct act){ .plural = "users", .name = name });
	w->as.sa_ns = ns; /* until it is known whether there is one */
	return may(w, (struct act){ .plural = "serviceaccounts", .ns = ns, .name = account });
}

static struct err *wish_group(struct wish *w, const char *name)
{
	add_group(w, arena_strdup(w->call->arena, name));
	return may(w, (struct act){ .plural = "groups", .name = name });
}

static struct err *wish_uid(struct wish *w, const char *uid)
{
	w->as.uid = arena_strdup(w->call->arena, uid);
	return may(w, (struct act){ .group = AUTHN_GROUP, .plural = "uids", .name = uid });
}

/* Keys are in lower case, and may be percent-encoded. */
static struct err *wish_extra(struct wish *w, const char *key, const char *value)
{
	struct arena *a = w->call->arena;
	autofree char *decoded = NULL;
	size_t len;
	char *lower;
	struct err *e = url_decode(key, strlen(key), false, &decoded, &len);

	if (e)
		return err_wrap(e, "read the header Impersonate-Extra-%s", key);
	lower = arena_strdup(a, decoded);
	for (char *p = lower; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	w->extra[w->n_extra++] = (struct user_extra){ lower, arena_strdup(a, value) };
	return may(w, (struct act){ .group = AUTHN_GROUP,
				    .plural = "userextras",
				    .sub = lower,
				    .name = value });
}

/* What follows the prefix, or NULL. */
static const char *after(const char *name, const char *prefix)
{
	struct span start = { name, MIN(strlen(name), strlen(prefix)) };

	return span_eq_nocase(start, prefix) ? name + strlen(prefix) : NULL;
}

static struct err *read_header(struct wish *w, const char *what, const char *value)
{
	const char *key = after(what, "extra-");

	if (str_eq_nocase(what, "user"))
		return w->as.name ? NULL : wish_user(w, value); /* the first one counts */
	if (str_eq_nocase(what, "group"))
		return wish_group(w, value);
	if (str_eq_nocase(what, "uid"))
		return w->as.uid ? NULL : wish_uid(w, value);
	if (key)
		return wish_extra(w, key, value);
	return err_new(ERR_FORBIDDEN,
		       "User \"%s\" cannot impersonate: there is no header Impersonate-%s",
		       w->call->user.name, what);
}

/* Groups that were not named follow from the user, except that whoever is known is known. */
static void complete(struct wish *w, bool groups_named)
{
	bool nobody = str_eq(w->as.name, "system:anonymous");

	if (w->as.sa_ns && !groups_named) {
		add_group(w, "system:serviceaccounts");
		add_group(w,
			  arena_printf(w->call->arena, "system:serviceaccounts:%s", w->as.sa_ns));
	}
	if (nobody)
		add_group(w, "system:unauthenticated");
	else if (!str_in("system:unauthenticated", w->groups))
		add_group(w, "system:authenticated");
	w->as.uid = w->as.uid ? w->as.uid : "";
	w->as.groups = w->groups;
	w->as.extra = w->extra;
	w->as.n_extra = w->n_extra;
}

/* An account that does not exist has no grants. */
static void forget_absent(struct wish *w, const struct objects *os)
{
	const char *name = strrchr(w->as.name, ':');

	if (w->as.sa_ns && !objects_find(os, os->service_account, w->as.sa_ns, name + 1))
		w->as.sa_ns = NULL;
}

static void become(struct wish *w)
{
	struct user *was = &w->call->user;

	w->as.by = was->name;
	w->as.expires = was->expires;
	for (size_t i = 0; was->groups[i]; i++) /* what binds the token binds what it is used for */
		if (group_is_bond(was->groups[i]))
			add_group(w, was->groups[i]);
	w->as.pod_uid = was->pod_uid;
	log_info("request in the name of another user", KV("user", w->as.name),
		 KV("impersonator", was->name), KV("method", w->call->method),
		 KV("path", http_request_path(w->call->req)));
	*was = w->as;
}

struct err *impersonate(const struct authoriser *by, const struct objects *os, struct call *c)
{
	const struct http_headers *h = http_request_headers(c->req);
	struct wish w = { .call = c, .by = by };
	struct err *e = NULL;
	size_t n_groups = 0;
	bool any = false;

	for (size_t i = 0; i < h->n && !any; i++)
		any = after(h->list[i].name, PREFIX);
	if (!any)
		return NULL;
	while (c->user.groups[n_groups])
		n_groups++;
	w.groups = arena_new_n(c->arena, const char *, n_groups + h->n + 5);
	w.extra = arena_new_n(c->arena, struct user_extra, h->n);
	for (size_t i = 0; i < h->n && !e; i++) {
		const char *what = after(h->list[i].name, PREFIX);

		if (what)
			e = read_header(&w, what, h->list[i].value);
	}
	if (e)
		return e;
	if (str_empty(w.as.name))
		return err_new(ERR_MALFORMED,
			       "requested to impersonate a group, uid or extra "
			       "without impersonating a user: send Impersonate-User");
	complete(&w, w.n_groups);
	forget_absent(&w, os);
	become(&w);
	return NULL;
}
