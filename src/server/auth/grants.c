/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/meta.h"
#include "api/rbac.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "server/auth/auth_priv.h"
#include "server/auth/rbac_priv.h"
#include "server/call/call.h"

/*
 * Which service account has which role in its own namespace. It is a setting of the server and not
 * an object, and grows with the rank of the role. These roles are older than the stored ones, and
 * not the same: they are about every kind in the namespace, except that they reach neither roles
 * nor bindings. What they lack can be given by bindings.
 */
enum {
	GRANTS_MAX = 1024,
};

static const char *const role_names[ROLE_MAX_] = {
	[ROLE_NONE] = "none",
	[ROLE_VIEW] = "view",
	[ROLE_EDIT] = "edit",
	[ROLE_ADMIN] = "admin",
};

static enum role role_named(struct span name)
{
	unsigned i = ROLE_VIEW;

	while (i < ROLE_MAX_ && !span_eq(name, role_names[i]))
		i++;
	return i;
}

/* Why no account can have this name: a pattern would be taken for a name that nobody has. NULL: one
 * can. */
static const char *check_account(struct span ns, struct span name)
{
	autofree char *a = xstrndup(ns.p, ns.len), *b = xstrndup(name.p, name.len);

	if (memchr(a, '*', ns.len) || memchr(b, '*', name.len))
		return "there are no patterns";
	if (meta_bad_dns_label(a))
		return "the namespace is not one that can exist";
	return meta_bad_dns_subdomain(b) ? "the account is not one that can exist" : NULL;
}

static struct err *grant_read(struct grants *g, struct span text)
{
	struct span role, rest, account = span_cut(text, '=', &role);
	struct span ns = span_cut(account, '/', &rest);
	autofree char *key = xstrndup(account.p, account.len);
	enum role r = role.p ? role_named(role) : ROLE_MAX_;
	const char *bad;

	if (r == ROLE_MAX_ || !ns.len || !rest.len || memchr(rest.p, '/', rest.len))
		return err_new(ERR_INVALID,
			       "read the grant \"%.*s\": it must be NAMESPACE/ACCOUNT=ROLE, where "
			       "ROLE is view, edit or admin",
			       (int)text.len, text.p);
	bad = check_account(ns, rest);
	if (bad)
		return err_new(ERR_INVALID,
			       "read the grant \"%.*s\" of --service-account-grants: %s; name each "
			       "account, as in default/agent=view",
			       (int)text.len, text.p, bad);
	if (map_has(g->roles, key))
		return err_new(ERR_INVALID, "read the grants: %s is named twice", key);
	if (map_len(g->roles) >= GRANTS_MAX)
		return err_new(ERR_INVALID, "read the grants: there are more than %d", GRANTS_MAX);
	map_put(g->roles, key, (void *)(uintptr_t)r);
	return NULL;
}

struct err *grants_read(struct grants *g, const char *text)
{
	struct span rest = SPAN(text ? text : "");
	struct err *e = NULL;

	g->roles = map_new(NULL);
	while (!e && rest.p) {
		struct span one = span_trim(span_cut(rest, ',', &rest));

		if (one.len)
			e = grant_read(g, one);
	}
	return e;
}

static enum role grants_role(const struct grants *g, const struct user *u)
{
	autofree char *key = NULL;
	const char *name;

	if (!u->sa_ns)
		return ROLE_NONE;
	name = strrchr(u->name, ':');
	key = xasprintf("%s/%s", u->sa_ns, name + 1);
	return (enum role)(uintptr_t)map_get(g->roles, key);
}

bool grants_any(const struct grants *g, const struct user *u)
{
	return grants_role(g, u) != ROLE_NONE;
}

#define ALL_VERBS  (B(VERB_MAX_) - 1)
#define READ_VERBS (B(VERB_GET) | B(VERB_LIST))

/* What a role may do with namespaced objects. Their status is read-only for all: controllers and
 * nodes write it, and the router acts on it. */
struct grant_rule {
	enum role role; /* and those of higher rank */
	const char *sub;
	unsigned verbs; /* B(VERB_…) */
	bool secrets;   /* Secrets too */
};
static const struct grant_rule rules[] = {
	{ ROLE_VIEW, "", READ_VERBS | B(VERB_WATCH) },
	{ ROLE_VIEW, "status", B(VERB_GET) },
	{ ROLE_VIEW, "scale", B(VERB_GET) },
	{ ROLE_VIEW, "log", B(VERB_GET) },
	{ ROLE_EDIT, "", ALL_VERBS, .secrets = true },
	{ ROLE_EDIT, "scale", ALL_VERBS },
	{ ROLE_EDIT, "exec", ALL_VERBS },
	{ ROLE_EDIT, "attach", ALL_VERBS },
	{ ROLE_EDIT, "portforward", ALL_VERBS },
	{ ROLE_EDIT, "proxy", ALL_VERBS },
	{ ROLE_EDIT, "resize", ALL_VERBS },
	{ ROLE_EDIT, "ephemeralcontainers", ALL_VERBS },
	{ ROLE_EDIT, "eviction", ALL_VERBS },
	{ ROLE_ADMIN, "token", B(VERB_CREATE) },
};

/* Of Namespaces, an account sees its own. */
static bool is_own_namespace(const struct user *u, const struct act *a)
{
	return str_eq(a->verb, "get") && !*a->sub && str_eq(a->name, u->sa_ns);
}

/* What bounds the namespace is for others to change. */
static bool sets_limits(const struct act *a)
{
	return !*a->group &&
	       (str_eq(a->plural, "resourcequotas") || str_eq(a->plural, "limitranges"));
}

bool grants_allow(const struct grants *g, const struct user *u, const struct act *a)
{
	bool secret = !*a->group && str_eq(a->plural, "secrets");
	enum role role = a->resource ? grants_role(g, u) : ROLE_NONE;
	unsigned bits;

	if (role == ROLE_NONE || str_eq(a->group, GROUP_RBAC))
		return false;
	if (!*a->group && str_eq(a->plural, "namespaces"))
		return is_own_namespace(u, a);
	if (!str_eq(a->ns, u->sa_ns))
		return false;
	bits = verb_bits(a->verb) & (sets_limits(a) ? READ_VERBS | B(VERB_WATCH) : ALL_VERBS);
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (role >= rules[i].role && str_eq(rules[i].sub, a->sub) &&
		    (rules[i].verbs & bits) && (!secret || rules[i].secrets))
			return true;
	return false;
}

void grants_done(struct grants *g)
{
	map_free(take(g->roles));
}
