/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/crd_priv.h"
#include "base/mem.h"
#include "base/str.h"

/*
 * How lists and maps of a schema are merged: x-kubernetes-list-type, -list-map-keys and -map-type,
 * in the words of a kube-apiserver.
 */
static bool list_has(const struct json *list, const char *text)
{
	json_each(it, list)
		if (str_eq(json_str(it.val), text))
			return true;
	return false;
}

static void check_key(const struct json *s, const char *key, const struct path *at,
		      struct causes *c)
{
	static const char *const scalars[] = { "string", "integer", "number", "boolean", NULL };
	const struct json *item = json_get(s, "items");
	const struct json *p = json_get(json_get(item, "properties"), key);
	const char *type = json_get_str(p, "type");
	struct path items = { .up = at, .name = "items" };
	struct path props = { .up = &items, .name = "properties" };
	struct path prop = { .up = &props, .name = key, .key = true };

	if (!p) {
		structural_invalid(c, at, "x-kubernetes-list-map-keys", s,
				   "entries must all be names of item properties");
		return;
	}
	if (!str_in(str_or(type, ""), scalars))
		structural_invalid(
			c, &prop, "type", item,
			"must be a scalar type if parent array's x-kubernetes-list-type is map");
	if (!json_get(p, "default") && !list_has(json_get(item, "required"), key))
		structural_require(
			c, &prop, "default",
			"this property is in x-kubernetes-list-map-keys, so it must have a default "
			"or be a required property");
	if (structural_is_true(p, "nullable"))
		structural_forbid(
			c, &prop, "nullable",
			"this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
}

static void check_keys(const struct json *s, const struct path *at, struct causes *c)
{
	const struct json *keys = json_get(s, "x-kubernetes-list-map-keys");
	const struct json *item = json_get(s, "items");
	struct path items = { .up = at, .name = "items" };
	size_t i = 0;

	if (!json_len(keys))
		structural_require(c, at, "x-kubernetes-list-map-keys",
				   "must not be empty if x-kubernetes-list-type is map");
	if (!item) {
		structural_require(c, at, "items",
				   "must have a schema if x-kubernetes-list-type is map");
		return;
	}
	if (!str_eq(json_get_str(item, "type"), "object"))
		structural_invalid(
			c, &items, "type", item,
			"must be object if parent array's x-kubernetes-list-type is map");
	json_each(it, keys) {
		const char *key = str_or(json_str(it.val), "");

		check_key(s, key, at, c);
		for (size_t k = 0; k < i; k++)
			if (json_equal(json_at(keys, k), it.val))
				structural_invalid(c, at, "x-kubernetes-list-map-keys", s,
						   "must not contain duplicate entries");
		i++;
	}
}

static void check_set(const struct json *s, const struct path *at, struct causes *c)
{
	static const char must[] =
		"must be atomic as item of a list with x-kubernetes-list-type=set";
	const struct json *item = json_get(s, "items");
	const char *type = json_get_str(item, "type");
	const char *list = json_get_str(item, "x-kubernetes-list-type");
	const char *map = json_get_str(item, "x-kubernetes-map-type");
	struct path items = { .up = at, .name = "items" };

	if (str_eq(type, "array") && list && !str_eq(list, "atomic"))
		structural_invalid(c, &items, "x-kubernetes-list-type", item, must);
	if (str_eq(type, "object") && !str_eq(map, "atomic"))
		structural_invalid(c, &items, "x-kubernetes-map-type", item, must);
}

/* An extension that only makes sense with one type. */
static void check_type_for(const struct json *s, const char *extension, const char *type,
			   const struct path *at, struct causes *c)
{
	autofree char *must = xasprintf("must be %s if %s is specified", type, extension);

	if (!json_get(s, extension) || str_eq(json_get_str(s, "type"), type))
		return;
	if (str_empty(json_get_str(s, "type")))
		structural_require(c, at, "type", must);
	else
		structural_invalid(c, at, "type", s, must);
}

void structural_choice(const struct json *s, const char *name, const char *const *values,
		       const struct path *up, struct causes *c)
{
	const char *v = json_get_str(s, name);
	struct path at = { .up = up, .name = name };
	autofree char *path = path_text(&at);

	if (v && !str_in(v, values))
		causes_unsupported(c, path, v, values);
}

void structural_merge_types(const struct json *s, const struct path *at, struct causes *c)
{
	static const char *const maps[] = { "atomic", "granular", NULL };
	static const char *const lists[] = { "atomic", "set", "map", NULL };
	const char *list = json_get_str(s, "x-kubernetes-list-type");
	struct path items = { .up = at, .name = "items" };

	check_type_for(s, "x-kubernetes-map-type", "object", at, c);
	structural_choice(s, "x-kubernetes-map-type", maps, at, c);
	check_type_for(s, "x-kubernetes-list-type", "array", at, c);
	structural_choice(s, "x-kubernetes-list-type", lists, at, c);
	if (json_len(json_get(s, "x-kubernetes-list-map-keys")) && !list)
		structural_require(c, at, "x-kubernetes-list-type",
				   "must be map if x-kubernetes-list-map-keys is non-empty");
	else if (json_len(json_get(s, "x-kubernetes-list-map-keys")) && !str_eq(list, "map"))
		structural_invalid(c, at, "x-kubernetes-list-type", s,
				   "must be map if x-kubernetes-list-map-keys is non-empty");
	if (str_eq(list, "map"))
		check_keys(s, at, c);
	if (str_eq(list, "set"))
		check_set(s, at, c);
	if ((str_eq(list, "map") || str_eq(list, "set")) &&
	    structural_is_true(json_get(s, "items"), "nullable"))
		wrong(c, CAUSE_FORBIDDEN, &(struct path){ .up = &items, .name = "nullable" },
		      "Forbidden: cannot be nullable when x-kubernetes-list-type is %s", list);
}
