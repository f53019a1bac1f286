/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "identity/grant.h"
#include "json/json.h"
#include "server/auth/auth.h"
#include "server/auth/auth_priv.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * Questions that are posted and answered, and of which nothing is stored: whose token it is, who I
 * am, what somebody may do. Who may ask them is a right like any other: everybody about themselves
 * (system:basic-user), and about others whoever was given it (system:auth-delegator).
 */
static const struct review_kind {
	struct kind kind; /* as far as errors name it */
	bool namespaced;
	const struct type *const *type; /* of the body */
} reviews[REVIEW_MAX_] = {
	[REVIEW_TOKEN] = { { .group = AUTHN_GROUP,
			     .plural = "tokenreviews",
			     .kind = "TokenReview" },
			   false,
			   &body_token_review },
	[REVIEW_SELF] = { { .group = AUTHN_GROUP,
			    .plural = "selfsubjectreviews",
			    .kind = "SelfSubjectReview" },
			  false,
			  &body_self_review },
	[REVIEW_ACCESS] = { { .group = AUTHZ_GROUP,
			      .plural = "subjectaccessreviews",
			      .kind = "SubjectAccessReview" },
			    false,
			    &body_access_review },
	[REVIEW_LOCAL_ACCESS] = { { .group = AUTHZ_GROUP,
				    .plural = "localsubjectaccessreviews",
				    .kind = "LocalSubjectAccessReview" },
				  true,
				  &body_access_review },
	[REVIEW_SELF_ACCESS] = { { .group = AUTHZ_GROUP,
				   .plural = "selfsubjectaccessreviews",
				   .kind = "SelfSubjectAccessReview" },
				 false,
				 &body_self_access_review },
	[REVIEW_SELF_RULES] = { { .group = AUTHZ_GROUP,
				  .plural = "selfsubjectrulesreviews",
				  .kind = "SelfSubjectRulesReview" },
				false,
				&body_self_rules_review },
};

enum review review_of(const struct route *r)
{
	if (!r->resource || !str_eq(r->version, "v1"))
		return REVIEW_NONE;
	for (unsigned i = REVIEW_NONE + 1; i < REVIEW_MAX_; i++)
		if (str_eq(reviews[i].kind.group, r->group) &&
		    str_eq(reviews[i].kind.plural, r->plural))
			return i;
	return REVIEW_NONE;
}

struct err *review_check(const struct route *r)
{
	if (*r->name || !*r->ns == reviews[review_of(r)].namespaced)
		return err_no_resource();
	return r->verb == VERB_CREATE ? NULL : err_no_method();
}

/* Users */

static void show_extra(struct json_doc *d, struct json *to, const struct user *u)
{
	for (size_t i = 0; i < u->n_extra; i++)
		json_push_str(d, json_need_arr(d, json_need_obj(d, to, "extra"), u->extra[i].key),
			      u->extra[i].value);
}

static void show_user(struct json_doc *d, struct json *to, const struct user *u)
{
	json_set_str(d, to, "username", u->name);
	if (!str_empty(u->uid))
		json_set_str(d, to, "uid", u->uid);
	for (size_t i = 0; u->groups[i]; i++)
		if (!group_is_bond(u->groups[i])) /* nobody is to build on it */
			json_push_str(d, json_need_arr(d, to, "groups"), u->groups[i]);
	show_extra(d, to, u);
}

static void answer_token(const struct review_desk *desk, struct call *c, struct json_doc *d)
{
	struct json *root = json_root(d), *status = json_get(root, "status");
	const struct json *spec = json_get(root, "spec"), *wanted = json_get(spec, "audiences");
	const char *token = json_get_str(spec, "token");
	struct token_owner owner = { 0 };
	autoptr(err) e = token_check(desk->tokens, c, token ? token : "",
				     json_len(wanted) ? wanted : NULL, &owner);

	if (e) {
		json_set_bool(d, status, "authenticated", false);
		json_set_str(d, status, "error", "the token is not valid for this server");
		return;
	}
	json_set_bool(d, status, "authenticated", true);
	for (size_t i = 0; owner.audiences[i]; i++)
		json_push_str(d, json_need_arr(d, status, "audiences"), owner.audiences[i]);
	show_user(d, json_need_obj(d, status, "user"), &owner.user);
}

static void answer_self(struct call *c, struct json_doc *d)
{
	struct json *root = json_root(d);
	char when[CLOCK_TEXT_MAX];

	clock_format(clock_wall(), when);
	json_set_str(d, json_need_obj(d, root, "metadata"), "creationTimestamp", when);
	show_user(d, json_need_obj(d, json_get(root, "status"), "userInfo"), &c->user);
}

/* The namespace of the service account that a user is, if it exists; NULL: it is none. */
static const char *account_ns(const struct objects *os, struct call *c, const char *user)
{
	const char *ns, *name;

	if (!account_split(c->arena, user, &ns, &name))
		return NULL;
	return objects_find(os, os->service_account, ns, name) ? ns : NULL;
}

/* Whoever asks about the user of a narrowed token, as a TokenReview has shown it, is told what that
 * token leaves. */
static struct user user_of(const struct objects *os, struct call *c, const struct json *spec)
{
	const struct json *groups = json_get(spec, "groups");
	const struct json *grants = json_get(json_get(spec, "extra"), GRANT_EXTRA);
	const char **list =
		arena_new_n(c->arena, const char *, json_len(groups) + json_len(grants) + 1);
	const char *name = json_get_str(spec, "user");
	size_t n = 0;

	json_each(it, groups)
		if (json_str(it.val))
			list[n++] = json_str(it.val);
	json_each(it, grants)
		list[n++] = arena_printf(c->arena, IDENTITY_GRANT_GROUP "%s",
					 str_or(json_str(it.val), ""));
	name = name ? name : "";
	return (struct user){
		.name = name, .uid = "", .groups = list, .sa_ns = account_ns(os, c, name)
	};
}

/* Rights */

static const char *text_of(const struct json *obj, const char *key)
{
	const char *text = json_get_str(obj, key);

	return text ? text : "";
}

static struct act act_of(const struct json *spec)
{
	const struct json *at = json_get(spec, "resourceAttributes");
	const struct json *page = json_get(spec, "nonResourceAttributes");

	return (struct act){ .resource = at,
			     .verb = text_of(at ? at : page, "verb"),
			     .group = text_of(at, "group"),
			     .plural = text_of(at, "resource"),
			     .sub = text_of(at, "subresource"),
			     .ns = text_of(at, "namespace"),
			     .name = text_of(at, "name"),
			     .path = text_of(page, "path") };
}

static void check_attributes(struct call *c, const struct json *spec)
{
	const struct json *at = json_get(spec, "resourceAttributes");
	const struct json *page = json_get(spec, "nonResourceAttributes");

	if (at && page)
		causes_invalid(&c->causes, "spec.nonResourceAttributes", page,
			       "cannot be specified in combination with resourceAttributes");
	if (!at && !page)
		causes_add(&c->causes, CAUSE_INVALID, "spec.resourceAttributes",
			   "Invalid value: null: exactly one of nonResourceAttributes or "
			   "resourceAttributes must be specified");
}

static void check_local(struct call *c, const struct json *spec)
{
	const struct json *at = json_get(spec, "resourceAttributes");

	if (at && !str_eq(text_of(at, "namespace"), c->route.ns))
		causes_invalid_str(&c->causes, "spec.resourceAttributes.namespace",
				   text_of(at, "namespace"), "must match metadata.namespace");
	if (json_get(spec, "nonResourceAttributes"))
		causes_invalid(&c->causes, "spec.nonResourceAttributes",
			       json_get(spec, "nonResourceAttributes"),
			       "disallowed on this kind of request");
}

static struct err *check_access(struct call *c, enum review which, const struct json *root)
{
	const struct json *spec = json_get(root, "spec");

	check_attributes(c, spec);
	if (which != REVIEW_SELF_ACCESS && str_empty(text_of(spec, "user")) &&
	    !json_len(json_get(spec, "groups")))
		causes_invalid_str(&c->causes, "spec.user", "",
				   "at least one of user or group must be specified");
	if (which == REVIEW_LOCAL_ACCESS)
		check_local(c, spec);
	return c->causes.n ? err_invalid(&reviews[which].kind, "", &c->causes) : NULL;
}

/* Why, as far as a stored role has to do with it. */
static void explain(const struct review_desk *desk, const struct user *u, const struct act *a,
		    struct buf *out)
{
	struct rbac_reason why;

	if (!narrow_allows(desk->by->objects, u, a, out) || str_in("system:masters", u->groups))
		return;
	if (rbac_allows(desk->by->rbac, u, a, &why))
		rbac_explain(&why, out);
	else
		rbac_complain(desk->by->rbac, u, a->ns, out);
}

static struct err *answer_access(const struct review_desk *desk, struct call *c, enum review which,
				 struct json_doc *d)
{
	struct json *root = json_root(d), *status = json_get(root, "status");
	const struct json *spec = json_get(root, "spec");
	const struct act a = act_of(spec);
	autoptr(err) refusal = NULL;
	struct err *e = check_access(c, which, root);
	struct user u;
	autobuf why = { 0 };

	if (e)
		return e;
	u = which == REVIEW_SELF_ACCESS ? c->user : user_of(desk->tokens->objects, c, spec);
	refusal = user_may(desk->by, &u, &a);
	json_set_bool(d, status, "allowed", !refusal);
	explain(desk, &u, &a, &why);
	if (why.len)
		json_set_str(d, status, "reason", buf_str(&why));
	return NULL;
}

/* SelfSubjectRulesReview */

struct listing {
	struct json_doc *d;
	struct json *resources, *pages;
};

static void list_rule(void *arg, const struct json *rule)
{
	struct listing *l = arg;
	bool page = json_len(json_get(rule, "nonResourceURLs"));

	json_push(l->d, page ? l->pages : l->resources, json_copy(l->d, rule));
}

/* What the settings grant cannot be told as rules, so the list is then not complete. */
static struct err *answer_rules(const struct review_desk *desk, struct call *c, struct json_doc *d)
{
	struct json *root = json_root(d), *status = json_get(root, "status");
	const char *ns = text_of(json_get(root, "spec"), "namespace");
	struct listing l = { .d = d };

	if (str_empty(ns))
		return err_new(ERR_MALFORMED, "no namespace on request");
	l.resources = json_set(d, status, "resourceRules", json_arr(d));
	l.pages = json_set(d, status, "nonResourceRules", json_arr(d));
	json_set_bool(d, status, "incomplete", grants_any(&desk->by->grants, &c->user));
	rbac_each(desk->by->rbac, &c->user, ns, list_rule, &l);
	(void)json_set(d, root, "spec", json_obj(d));
	return NULL;
}

static struct err *answer(const struct review_desk *desk, struct call *c, enum review which,
			  struct json_doc *d)
{
	switch (which) {
	case REVIEW_TOKEN:
		answer_token(desk, c, d);
		return NULL;
	case REVIEW_SELF:
		answer_self(c, d);
		return NULL;
	case REVIEW_SELF_RULES:
		return answer_rules(desk, c, d);
	case REVIEW_ACCESS:
	case REVIEW_LOCAL_ACCESS:
	case REVIEW_SELF_ACCESS:
		return answer_access(desk, c, which, d);
	case REVIEW_NONE:
	case REVIEW_MAX_:
		break;
	}
	return err_no_resource();
}

void review_answer(const struct review_desk *desk, struct call *c)
{
	enum review which = review_of(&c->route);
	const struct review_kind *k = &reviews[which];
	autoptr(json_doc) d = NULL;
	struct json *root;
	struct err *e = body_tree(c, *k->type, NULL, &d);

	if (e) {
		call_fail(c, e);
		return;
	}
	root = json_root(d);
	json_set_str(d, root, "kind", k->kind.kind);
	json_set(d, root, "apiVersion", json_new_strf(d, "%s/v1", k->kind.group));
	(void)json_set(d, root, "status", json_obj(d));
	e = answer(desk, c, which, d);
	if (e) {
		c->route.kind = &k->kind;
		call_fail(c, e);
		return;
	}
	call_reply_tree(c, STATUS_CREATED, take(d), *k->type);
}
