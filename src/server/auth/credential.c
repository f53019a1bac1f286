/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/object.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/wall.h"
#include "identity/grant.h"
#include "json/json.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"
#include "server/objects/objects.h"
#include "tls/tls.h"

/*
 * Credentials that can be taken back: "cay:key:ID:UID" is a group of their user, where the Secret
 * cay-user-ID in kube-system with that uid is the record. Because it travels with the other groups,
 * whoever asks about a user later, for a stream or a tunnel, learns of the end too.
 */
const char *credential_group(struct arena *a, const struct object *record)
{
	return arena_printf(a, CREDENTIAL_GROUP "%s:%s", record->name + strlen(CREDENTIAL_PREFIX),
			    record->uid);
}

static bool is_there(const struct objects *os, const char *key)
{
	struct span uid, id = span_cut(SPAN(key), ':', &uid);
	char name[CREDENTIAL_NAME_MAX];
	const struct object *o;
	int len = snprintf(name, sizeof(name), CREDENTIAL_PREFIX "%.*s", (int)id.len, id.p);

	if (!uid.p || len < 0 || (size_t)len >= sizeof(name))
		return false;
	o = objects_find(os, os->secret, "kube-system", name);
	return o && str_eq(o->uid, uid.p);
}

bool group_is_bond(const char *group)
{
	return str_starts(group, CREDENTIAL_GROUP) || str_starts(group, AGENT_KEY_GROUP) ||
	       str_starts(group, IDENTITY_GRANT_GROUP) || str_starts(group, PAGE_GROUP);
}

struct err *credential_check(const struct objects *os, const char *const *groups)
{
	struct err *e;

	for (size_t i = 0; groups[i]; i++) {
		if (str_starts(groups[i], CREDENTIAL_GROUP) &&
		    !is_there(os, groups[i] + strlen(CREDENTIAL_GROUP)) &&
		    wall_stands("credential-end"))
			return err_new(ERR_UNAUTHENTICATED,
				       "the credential of this user was taken back");
		e = agent_key_check(os, groups[i]);
		if (e)
			return e;
	}
	return NULL;
}

struct err *token_for_user(const char *key, const char *name, const char *const *groups,
			   int64_t ttl_s, char **ret)
{
	int64_t now = clock_wall() / 1000000;
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *list;
	autofree char *text = NULL;

	json_push_str(d, json_need_arr(d, o, "aud"), TOKEN_ISSUER);
	json_set_int(d, o, "exp", now + ttl_s);
	json_set_int(d, o, "iat", now);
	json_set_str(d, o, "iss", TOKEN_ISSUER);
	json_set_int(d, o, "nbf", now);
	json_set_str(d, o, "sub", name);
	list = json_need_arr(d, json_need_obj(d, o, TOKEN_USER), "groups");
	for (size_t i = 0; groups[i]; i++)
		json_push_str(d, list, groups[i]);
	text = json_to_text(o);
	return tls_token_sign(key, text, ret);
}

void credential_user(struct arena *a, const struct json *claims, struct user *ret)
{
	const struct json *list = json_get(json_get(claims, TOKEN_USER), "groups");
	const char **groups = arena_new_n(a, const char *, json_len(list) + 2);
	size_t n = 0;

	json_each(it, list)
		groups[n++] = arena_strdup(a, str_or(json_str(it.val), ""));
	groups[n] = "system:authenticated";
	*ret = (struct user){ .name = arena_strdup(a, str_or(json_get_str(claims, "sub"), "")),
			      .uid = "",
			      .groups = groups,
			      .expires = json_get_int(claims, "exp", 0) };
}
