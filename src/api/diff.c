/* SPDX-License-Identifier: Apache-2.0 */
#include "api/diff.h"

#include "api/meta.h"
#include "base/str.h"

/*
 * The difference between what is and what should be. A pass that finds none writes nothing; every
 * other pass writes only what differs.
 */

bool semantic_empty(const struct json *v)
{
	switch (json_type(v)) {
	case JSON_NONE:
	case JSON_NULL:
		return true;
	case JSON_STR:
		return !json_str_len(v);
	case JSON_ARR:
		return !json_len(v);
	case JSON_OBJ:
		return !json_len(v);
	case JSON_BOOL:
	case JSON_INT:
	case JSON_REAL:
	case JSON_TYPE_MAX_:
		break;
	}
	return false;
}

static bool covers(const struct json *a, const struct json *b, bool quantities);

static bool equal(const struct json *a, const struct json *b, bool quantities)
{
	if (semantic_empty(a) || semantic_empty(b))
		return semantic_empty(a) && semantic_empty(b);
	if (json_is(a, JSON_OBJ) && json_is(b, JSON_OBJ))
		return covers(a, b, quantities) && covers(b, a, quantities);
	if (json_is(a, JSON_ARR) && json_is(b, JSON_ARR)) {
		if (json_len(a) != json_len(b))
			return false;
		for (size_t i = 0; i < json_len(a); i++)
			if (!equal(json_at(a, i), json_at(b, i), quantities))
				return false;
		return true;
	}
	return json_equal(a, b) || (quantities && quantity_equal(a, b));
}

/* Every member of a has the same meaning in b. */
static bool covers(const struct json *a, const struct json *b, bool quantities)
{
	json_each(it, a) {
		bool q = quantities || str_eq(it.key, "requests") || str_eq(it.key, "limits") ||
			 str_eq(it.key, "sizeLimit");

		if (!equal(it.val, json_get(b, it.key), q))
			return false;
	}
	return true;
}

bool semantic_equal(const struct json *a, const struct json *b)
{
	return equal(a, b, false);
}

struct json *diff_merge(struct json_doc *d, const struct json *have, const struct json *want)
{
	struct json *patch = json_obj(d);

	json_each(it, want) {
		const struct json *old = json_get(have, it.key);
		struct json *sub;

		if (semantic_equal(old, it.val))
			continue;
		if (json_is(old, JSON_OBJ) && json_is(it.val, JSON_OBJ))
			sub = diff_merge(d, old, it.val);
		else
			sub = json_copy(d, it.val);
		json_set(d, patch, it.key, sub);
	}
	json_each(it, have)
		if (!json_get(want, it.key) && !semantic_empty(it.val))
			json_set(d, patch, it.key, json_new_null(d));
	return json_len(patch) ? patch : NULL;
}

struct json *diff_strings(struct json_doc *d, const struct json *have, const struct json *want)
{
	struct json *patch = json_obj(d);

	json_each(it, want)
		if (!str_eq(json_get_str(have, it.key), json_str(it.val)))
			json_set(d, patch, it.key, json_copy(d, it.val));
	json_each(it, have)
		if (!json_get(want, it.key))
			json_set(d, patch, it.key, json_new_null(d));
	return json_len(patch) ? patch : NULL;
}
