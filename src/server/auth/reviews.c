/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode.h"
#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"
#include "server/auth/auth_priv.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * Whose token it is (TokenReview), and what somebody may do (SubjectAccessReview): for programs
 * that let others in by this server's word, such as a router of its own. Nothing is stored. Only
 * administrators may ask: authorise() lets nobody else reach kinds without a namespace.
 */
#define ISSUER "https://kubernetes.default.svc"

static void answer_token(struct tokens *t, struct call *c, struct json_doc *d)
{
	struct json *root = json_root(d), *status, *user;
	const struct json *spec = json_get(root, "spec"), *wanted = json_get(spec, "audiences");
	const char *token = json_get_str(spec, "token");
	struct user u = { 0 };
	autoptr(err) e = NULL;
	bool for_us = !json_len(wanted);

	json_each(it, wanted)
		for_us = for_us || str_eq(json_str(it.val), ISSUER);
	e = token_check(t, c, token ? token : "", &u);
	(void)json_del(root, "status");
	status = json_need_obj(d, root, "status");
	if (e || !for_us) {
		json_set_bool(d, status, "authenticated", false);
		json_set_str(d, status, "error", "the token is not valid for this server");
		return;
	}
	json_set_bool(d, status, "authenticated", true);
	if (wanted)
		json_push_str(d, json_need_arr(d, status, "audiences"), ISSUER);
	user = json_need_obj(d, status, "user");
	json_set_str(d, user, "username", u.name);
	json_set_str(d, user, "uid", u.uid);
	for (size_t i = 0; u.groups[i]; i++)
		json_push_str(d, json_need_arr(d, user, "groups"), u.groups[i]);
}

/* The namespace of the service account that a user is, if it exists; NULL: it is none. */
static const char *account_ns(const struct objects *os, struct call *c, const char *user)
{
	struct span rest = SPAN(user), ns;
	const char *text;

	if (!str_starts(user, "system:serviceaccount:"))
		return NULL;
	(void)span_cut(rest, ':', &rest);
	(void)span_cut(rest, ':', &rest);
	ns = span_cut(rest, ':', &rest);
	if (!ns.len || !rest.len)
		return NULL;
	text = arena_strndup(c->arena, ns.p, ns.len);
	return objects_find(os, os->service_account, text, rest.p) ? text : NULL;
}

static struct user user_of(const struct objects *os, struct call *c, const struct json *spec)
{
	const struct json *groups = json_get(spec, "groups");
	const char **list = arena_new_n(c->arena, const char *, json_len(groups) + 1);
	const char *name = json_get_str(spec, "user");
	size_t n = 0;

	json_each(it, groups)
		if (json_str(it.val))
			list[n++] = json_str(it.val);
	name = name ? name : "";
	return (struct user){
		.name = name, .uid = "", .groups = list, .sa_ns = account_ns(os, c, name)
	};
}

static const char *text_of(const struct json *obj, const char *key)
{
	const char *text = json_get_str(obj, key);

	return text ? text : "";
}

/* False: it is nothing that anybody but an administrator may do. */
static bool route_of(const struct json *spec, struct route *ret)
{
	const struct json *at = json_get(spec, "resourceAttributes");
	const struct json *page = json_get(spec, "nonResourceAttributes");
	const char *verb = text_of(at ? at : page, "verb");

	*ret = (struct route){ .resource = at,
			       .group = text_of(at, "group"),
			       .version = text_of(at, "version"),
			       .plural = text_of(at, "resource"),
			       .sub = text_of(at, "subresource"),
			       .ns = text_of(at, "namespace"),
			       .name = text_of(at, "name"),
			       .path = text_of(page, "path") };
	for (ret->verb = 0; ret->verb < VERB_MAX_; ret->verb++)
		if (str_eq(verb_name(ret->verb), verb))
			return true;
	ret->verb = VERB_MAX_;
	return false;
}

static void answer_access(const struct review_desk *desk, struct call *c, struct json_doc *d)
{
	struct json *root = json_root(d), *status;
	struct call asked = { .arena = c->arena };
	autoptr(err) refusal = NULL;

	asked.user = user_of(desk->tokens->objects, c, json_get(root, "spec"));
	if (!route_of(json_get(root, "spec"), &asked.route) &&
	    !str_in("system:masters", asked.user.groups))
		refusal = err_new(ERR_FORBIDDEN, "there is no such verb");
	else
		refusal = authorise(desk->grants, &asked);
	(void)json_del(root, "status");
	status = json_need_obj(d, root, "status");
	json_set_bool(d, status, "allowed", !refusal);
	if (refusal)
		json_set_str(d, status, "reason", err_text(refusal));
}

enum review review_of(const struct route *r)
{
	if (!r->resource || !str_eq(r->version, "v1"))
		return REVIEW_NONE;
	if (str_eq(r->group, "authentication.k8s.io") && str_eq(r->plural, "tokenreviews"))
		return REVIEW_TOKEN;
	if (str_eq(r->group, "authorization.k8s.io") && str_eq(r->plural, "subjectaccessreviews"))
		return REVIEW_ACCESS;
	return REVIEW_NONE;
}

struct err *review_check(const struct route *r)
{
	if (*r->ns || *r->name)
		return err_no_resource();
	return r->verb == VERB_CREATE ? NULL : err_no_method();
}

void review_answer(const struct review_desk *desk, struct call *c)
{
	bool token = review_of(&c->route) == REVIEW_TOKEN;
	autoptr(json_doc) d = NULL;
	struct err *e = body_tree(c, token ? body_token_review : body_access_review, &d);

	if (e) {
		call_fail(c, e);
		return;
	}
	json_set_str(d, json_root(d), "kind", token ? "TokenReview" : "SubjectAccessReview");
	json_set_str(d, json_root(d), "apiVersion",
		     token ? "authentication.k8s.io/v1" : "authorization.k8s.io/v1");
	if (token)
		answer_token(desk->tokens, c, d);
	else
		answer_access(desk, c, d);
	call_reply_tree(c, STATUS_CREATED, take(d), token ? body_token_review : body_access_review);
}
