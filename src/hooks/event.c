/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/jsonpath.h"
#include "base/parse.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "hooks/proof.h"
#include "json/json.h"

/* What an event says about itself: whether it is wanted, and which session it belongs to. */
enum {
	SESSION_HASH_LEN = 20, /* digits: eighty bits */
};

char *event_at(const struct json *event, const char *path)
{
	const struct json *v = jsonpath_get(event, path);

	switch (json_type(v)) {
	case JSON_STR:
		return xstrdup(json_str(v));
	case JSON_BOOL:
	case JSON_INT:
	case JSON_REAL:
		return json_to_text(v);
	case JSON_NONE:
	case JSON_NULL:
	case JSON_ARR:
	case JSON_OBJ:
	case JSON_TYPE_MAX_:
		break;
	}
	return NULL;
}

static bool passes(const struct json *filter, const struct json *event)
{
	autofree char *text = event_at(event, json_get_str(filter, "path"));

	json_each(it, json_get(filter, "values"))
		if (text && str_eq(json_str(it.val), text))
			return true;
	return false;
}

bool event_passes(const struct json *filters, const struct json *event, const char **ret_path)
{
	json_each(it, filters)
		if (!passes(it.val, event)) {
			*ret_path = str_or(json_get_str(it.val, "path"), "");
			return false;
		}
	return true;
}

/* Each part with its length, so that none can pass for two. */
static void add_part(struct sha256 *h, const char *text)
{
	char head[24];

	(void)snprintf(head, sizeof(head), "%zu:", strlen(text));
	sha256_add(h, head, strlen(head));
	sha256_add(h, text, strlen(text));
}

void event_session_name(const struct event_session *s, char ret[HOOK_SESSION_LEN + 1])
{
	enum {
		NAME_MAX_LEN = HOOK_SESSION_LEN - 1 - SESSION_HASH_LEN,
	};
	autoptr(sha256) h = sha256_new();
	unsigned char hash[SHA256_LEN];
	size_t len = MIN(strlen(s->trigger), (size_t)NAME_MAX_LEN);

	add_part(h, s->ns);
	add_part(h, s->trigger);
	add_part(h, s->agent);
	add_part(h, s->key);
	sha256_end(h, hash);
	for (size_t i = 0; i < len; i++) /* names of sandboxes have no dots */
		ret[i] = s->trigger[i] == '.' ? '-' : s->trigger[i];
	ret[len] = '-';
	hex_encode(hash, SESSION_HASH_LEN / 2, ret + len + 1);
}
