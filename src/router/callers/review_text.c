/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "json/json.h"
#include "router/callers/reviews_priv.h"

/*
 * TokenReview and SubjectAccessReview as documents. Only what is plainly said counts as a yes.
 */
struct json_doc *review_token(const char *token, const char *const *audiences)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *spec;

	json_set_root(d, root);
	spec = json_need_obj(d, root, "spec");
	json_set_str(d, spec, "token", token);
	for (size_t i = 0; audiences && audiences[i]; i++)
		json_push_str(d, json_need_arr(d, spec, "audiences"), audiences[i]);
	return d;
}

/* A server that knows nothing of audiences would leave them out of its answer. */
static bool for_us(const struct json *status, const char *const *audiences)
{
	if (!audiences || !audiences[0])
		return true;
	json_each(it, json_get(status, "audiences"))
		if (str_in(json_str(it.val), audiences))
			return true;
	return false;
}

struct json_doc *review_read_token(const struct json *review, const char *const *audiences)
{
	const struct json *status = json_get(review, "status"), *user = json_get(status, "user");
	struct json_doc *d;

	if (!json_get_bool(status, "authenticated", false) || !for_us(status, audiences) ||
	    str_empty(json_get_str(user, "username")))
		return NULL;
	d = json_doc_new();
	json_set_root(d, json_copy(d, user));
	return d;
}

static struct json_doc *access_to(const struct review_object *what, struct json **ret_spec)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *at;

	json_set_root(d, root);
	*ret_spec = json_need_obj(d, root, "spec");
	at = json_need_obj(d, *ret_spec, "resourceAttributes");
	json_set_str(d, at, "namespace", what->ns);
	json_set_str(d, at, "verb", "create");
	json_set_str(d, at, "group", "");
	json_set_str(d, at, "version", "v1");
	json_set_str(d, at, "resource", "pods");
	json_set_str(d, at, "subresource", "exec");
	json_set_str(d, at, "name", what->pod);
	return d;
}

struct json_doc *review_access(const struct json *user, const struct review_object *what)
{
	static const char *const same[] = { "uid", "groups", "extra" };
	struct json *spec;
	struct json_doc *d = access_to(what, &spec);

	json_set_str(d, spec, "user", json_get_str(user, "username"));
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		if (json_get(user, same[i]))
			(void)json_set(d, spec, same[i], json_copy(d, json_get(user, same[i])));
	return d;
}

struct json_doc *review_access_named(const char *user, const char *const *groups,
				     const struct review_object *what)
{
	struct json *spec, *list;
	struct json_doc *d = access_to(what, &spec);

	json_set_str(d, spec, "user", user);
	list = json_need_arr(d, spec, "groups");
	for (size_t i = 0; groups[i]; i++)
		json_push_str(d, list, groups[i]);
	json_push_str(d, list, "system:authenticated");
	return d;
}

bool review_read_access(const struct json *review)
{
	const struct json *status = json_get(review, "status");

	return json_get_bool(status, "allowed", false) && !json_get_bool(status, "denied", false);
}
