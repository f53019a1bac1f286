/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/str.h"
#include "client/access.h"
#include "identity/grant.h"
#include "json/json.h"
#include "server/auth/auth_priv.h"
#include "tls/tls.h"

/*
 * Tokens of sessions of the web page. Their claim cay.dev/page has the groups of whoever asked for
 * the link, and so the record of their credential: when that is taken back, so is the session. One
 * more group says that it is a session, which is what keeps one from making another.
 */
static bool has_group(const struct access_target *who, const char *prefix)
{
	for (size_t i = 0; who->groups && who->groups[i]; i++)
		if (str_starts(who->groups[i], prefix))
			return true;
	return false;
}

const char *page_refusal(const struct access_target *who)
{
	if (who->by)
		return "a link to the page is for whoever asks, and not for a user in whose name "
		       "they ask: ask without impersonation";
	if (has_group(who, PAGE_GROUP))
		return "a session of the page makes no other; `cay ui` makes a new link";
	if (str_starts(who->user, AGENT_USER) || has_group(who, AGENT_KEY_GROUP))
		return "an agent gets no link to the page: log in there with its token itself";
	if (has_group(who, IDENTITY_GRANT_GROUP))
		return "a narrowed token gets no link to the page: log in there with the token "
		       "itself";
	if (who->account_ns || str_starts(who->user, "system:serviceaccount:"))
		return "a service account gets no link to the page: log in there with its token "
		       "itself";
	return NULL;
}

struct err *page_token_sign(const char *key, const struct access_target *who, int64_t expires,
			    char **ret)
{
	int64_t now = clock_wall() / 1000000;
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *list;
	autofree char *text = NULL;
	char id[37];

	random_uuid(id);
	json_push_str(d, json_need_arr(d, o, "aud"), TOKEN_ISSUER);
	json_set_int(d, o, "exp", expires);
	json_set_int(d, o, "iat", now);
	json_set_str(d, o, "iss", TOKEN_ISSUER);
	json_set_str(d, o, "jti", id);
	json_set_int(d, o, "nbf", now);
	json_set_str(d, o, "sub", who->user);
	list = json_need_arr(d, json_need_obj(d, o, TOKEN_PAGE), "groups");
	for (size_t i = 0; who->groups && who->groups[i]; i++)
		if (!str_eq(who->groups[i], "system:authenticated"))
			json_push_str(d, list, who->groups[i]);
	text = json_to_text(o);
	return tls_token_sign(key, text, ret);
}

static bool well_formed(const struct json *claims)
{
	const struct json *page = json_get(claims, TOKEN_PAGE), *groups = json_get(page, "groups");

	if (json_len(page) != 1 || !json_is(groups, JSON_ARR) ||
	    str_empty(json_get_str(claims, "sub")) || str_empty(json_get_str(claims, "jti")) ||
	    json_get(claims, TOKEN_USER) || json_get(claims, "kubernetes.io"))
		return false;
	json_each(it, groups)
		if (str_empty(json_str(it.val)) || str_starts(json_str(it.val), PAGE_GROUP))
			return false;
	return true;
}

struct err *page_token_user(struct arena *a, const struct json *claims, struct user *ret)
{
	const struct json *list = json_get(json_get(claims, TOKEN_PAGE), "groups");
	const char **groups;
	size_t n = 0;

	if (!well_formed(claims))
		return err_new(ERR_UNAUTHENTICATED, "check token: it is no session of the page");
	groups = arena_new_n(a, const char *, json_len(list) + 3);
	json_each(it, list)
		groups[n++] = arena_strdup(a, json_str(it.val));
	groups[n++] = arena_printf(a, PAGE_GROUP "%s", json_get_str(claims, "jti"));
	groups[n] = "system:authenticated";
	*ret = (struct user){ .name = arena_strdup(a, json_get_str(claims, "sub")),
			      .uid = "",
			      .groups = groups,
			      .expires = json_get_int(claims, "exp", 0) };
	return NULL;
}
