/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "api/crd/crd_priv.h"
#include "api/crd/custom.h"
#include "base/buf.h"
#include "base/regex.h"
#include "base/str.h"

/*
 * Is a schema structural? In the words and at the paths of a kube-apiserver. Every field has a type
 * outside of allOf, anyOf, oneOf and not; these may only restrict values of fields that exist.
 */
enum level {
	LEVEL_ROOT,
	LEVEL_ITEM,
	LEVEL_FIELD,
};

/* Where a check is: what is around the schema. */
struct scope {
	enum level level;
	bool meta;              /* inside metadata, apiVersion or kind of a resource */
	const char *no_default; /* why there may be no default; NULL: there may */
};

void wrong(struct causes *c, enum cause_reason why, const struct path *at, const char *fmt, ...)
{
	autofree char *path = path_text(at);
	autobuf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	causes_add(c, why, path, "%s", buf_str(&text));
}

void wrong_value(struct causes *c, const struct path *at, const struct json *v, const char *detail)
{
	autofree char *path = path_text(at);

	causes_invalid(c, path, v, detail);
}

void wrong_text(struct causes *c, const struct path *at, const char *v, const char *detail)
{
	autofree char *path = path_text(at);

	causes_invalid_str(c, path, v, detail);
}

void structural_forbid(struct causes *c, const struct path *up, const char *name,
		       const char *detail)
{
	struct path at = { .up = up, .name = name };

	wrong(c, CAUSE_FORBIDDEN, &at, "Forbidden: %s", detail);
}

void structural_require(struct causes *c, const struct path *up, const char *name,
			const char *detail)
{
	struct path at = { .up = up, .name = name };

	wrong(c, CAUSE_REQUIRED, &at, "Required value: %s", detail);
}

void structural_invalid(struct causes *c, const struct path *up, const char *name,
			const struct json *of, const char *detail)
{
	struct path at = { .up = up, .name = name };
	const struct json *v = json_get(of, name);

	if (v || str_starts(name, "x-")) /* absent ones are null there, and empty elsewhere */
		wrong_value(c, &at, v, detail);
	else
		wrong_text(c, &at, "", detail);
}

bool structural_is_true(const struct json *s, const char *name)
{
	return json_get_bool(s, name, false);
}

static void check_pattern(const struct json *s, const struct path *up, struct causes *c)
{
	const char *pattern = json_get_str(s, "pattern");
	autoptr(regex) r = NULL;
	struct path at = { .up = up, .name = "pattern" };
	autofree char *text = NULL;
	struct err *e;

	if (str_empty(pattern))
		return;
	e = regex_new(pattern, &r);
	if (e) {
		text = xasprintf("must be a valid regular expression, but isn't: error parsing "
				 "regexp: %s",
				 err_text(e));
		wrong_text(c, &at, pattern, text);
	}
	err_free(e);
}

/* Alternatives */

/* anyOf: integer or string, the one place where alternatives may have types. */
static bool is_int_or_string(const struct json *any_of)
{
	return json_len(any_of) == 2 && json_len(json_at(any_of, 0)) == 1 &&
	       json_len(json_at(any_of, 1)) == 1 &&
	       str_eq(json_get_str(json_at(any_of, 0), "type"), "integer") &&
	       str_eq(json_get_str(json_at(any_of, 1), "type"), "string");
}

static void check_nested(const struct json *s, const struct json *real, const struct path *at,
			 const struct path *real_at, struct causes *c);

/* real is the schema that the alternatives are about. */
static void check_alternatives(const struct json *s, const struct json *real, const struct path *at,
			       const struct path *real_at, struct causes *c)
{
	static const char *const lists[] = { "anyOf", "allOf", "oneOf" };
	struct path not_at = { .up = at, .name = "not" };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		const struct json *list = json_get(s, lists[i]);
		struct path list_at = { .up = at, .name = lists[i] };
		size_t n = 0;

		if (i == 0 && structural_is_true(real, "x-kubernetes-int-or-string") &&
		    is_int_or_string(list))
			continue;
		json_each(it, list) {
			struct path in = { .up = &list_at, .index = n++ };

			check_nested(it.val, real, &in, real_at, c);
		}
	}
	if (json_get(s, "not"))
		check_nested(json_get(s, "not"), real, &not_at, real_at, c);
}

static void check_forbidden(const struct json *s, const struct path *at, struct causes *c)
{
	static const struct {
		const char *name, *must;
		bool flag; /* false is as good as absent */
	} rows[] = {
		{ "type", "must be empty to be structural", false },
		{ "additionalProperties", "must be undefined to be structural", false },
		{ "default", "must be undefined to be structural", false },
		{ "title", "must be empty to be structural", false },
		{ "description", "must be empty to be structural", false },
		{ "nullable", "must be false to be structural", true },
		{ "x-kubernetes-preserve-unknown-fields", "must be false to be structural", true },
		{ "x-kubernetes-embedded-resource", "must be false to be structural", true },
		{ "x-kubernetes-int-or-string", "must be false to be structural", true },
		{ "x-kubernetes-list-map-keys", "must be empty to be structural", false },
		{ "x-kubernetes-list-type", "must be undefined to be structural", false },
		{ "x-kubernetes-map-type", "must be undefined to be structural", false },
		{ "x-kubernetes-validations", "must be empty to be structural", false },
	};
	struct path props = { .up = at, .name = "properties" };
	struct path meta = { .up = &props, .name = "metadata", .key = true };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (json_get(s, rows[i].name) &&
		    (!rows[i].flag || structural_is_true(s, rows[i].name)))
			structural_forbid(c, at, rows[i].name, rows[i].must);
	if (json_get(json_get(s, "properties"), "metadata"))
		wrong(c, CAUSE_FORBIDDEN, &meta,
		      "Forbidden: must not be specified in a nested context");
}

static void missing(const struct path *real_at, const struct path *at, struct causes *c)
{
	autofree char *where = path_text(at);

	wrong(c, CAUSE_REQUIRED, real_at, "Required value: because it is defined in %s", where);
}

/* A schema under allOf and the like, at `at`, about what real describes, which is NULL where it
 * describes nothing. Like Kubernetes, we insist that it does only at the root: real_at is NULL
 * elsewhere. */
static void check_nested(const struct json *s, const struct json *real, const struct path *at,
			 const struct path *real_at, struct causes *c)
{
	struct path items = { .up = at, .name = "items" };
	struct path real_items = { .up = real_at, .name = "items" };
	struct path props = { .up = at, .name = "properties" };
	struct path real_props = { .up = real_at, .name = "properties" };

	if (!real && real_at) {
		missing(real_at, at, c);
		return;
	}
	check_forbidden(s, at, c);
	check_pattern(s, at, c);
	check_alternatives(s, real, at, real_at, c);
	if (json_get(s, "items"))
		check_nested(json_get(s, "items"), json_get(real, "items"), &items,
			     real_at ? &real_items : NULL, c);
	json_each(it, json_get(s, "properties")) {
		struct path in = { .up = &props, .name = it.key, .key = true };
		struct path real_in = { .up = &real_props, .name = it.key, .key = true };

		check_nested(it.val, json_get(json_get(real, "properties"), it.key), &in,
			     real_at ? &real_in : NULL, c);
	}
}

/* One schema by itself */

static void check_unsupported(const struct json *s, const struct scope *in, const struct path *at,
			      struct causes *c)
{
	static const char *const types[] = { "array",  "boolean", "integer", "number",
					     "object", "string",  NULL };
	static const char *const never[] = { "id",          "additionalItems", "patternProperties",
					     "definitions", "dependencies",    "$ref" };
	const char *type = json_get_str(s, "type");

	if (!str_empty(type))
		structural_choice(s, "type", types, at, c);
	if (str_eq(type, "null"))
		structural_forbid(c, at, "type",
				  "type cannot be set to null, use nullable as an alternative");
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (json_get(s, never[i])) {
			autofree char *text = xasprintf("%s is not supported", never[i]);

			structural_forbid(c, at, never[i], text);
		}
	if (structural_is_true(s, "uniqueItems"))
		structural_forbid(
			c, at, "uniqueItems",
			"uniqueItems cannot be set to true since the runtime complexity becomes "
			"quadratic");
	if (json_get(s, "default") && in->no_default) {
		autofree char *text = xasprintf("must not be set %s", in->no_default);

		structural_forbid(c, at, "default", text);
	}
	if (in->meta && structural_is_true(s, "x-kubernetes-embedded-resource"))
		structural_forbid(c, at, "x-kubernetes-embedded-resource",
				  "must not be used inside of resource meta");
	if (json_get(s, "x-kubernetes-preserve-unknown-fields") &&
	    !structural_is_true(s, "x-kubernetes-preserve-unknown-fields"))
		structural_invalid(c, at, "x-kubernetes-preserve-unknown-fields", s,
				   "must be true or undefined");
}

static void check_type(const struct json *s, enum level level, const struct path *at,
		       struct causes *c)
{
	static const char *const empty[] = {
		[LEVEL_ROOT] = "must not be empty at the root",
		[LEVEL_ITEM] = "must not be empty for specified array items",
		[LEVEL_FIELD] = "must not be empty for specified object fields",
	};
	const char *type = json_get_str(s, "type");
	bool none = str_empty(type);

	if (structural_is_true(s, "x-kubernetes-embedded-resource") && !str_eq(type, "object")) {
		static const char must[] =
			"must be object if x-kubernetes-embedded-resource is true";

		if (none)
			structural_require(c, at, "type", must);
		else
			structural_invalid(c, at, "type", s, must);
	} else if (none && !structural_is_true(s, "x-kubernetes-int-or-string") &&
		   !structural_is_true(s, "x-kubernetes-preserve-unknown-fields")) {
		structural_require(c, at, "type", empty[level]);
	}
	if (level == LEVEL_ROOT && !none && !str_eq(type, "object"))
		structural_invalid(c, at, "type", s, "must be object at the root");
	if (str_eq(type, "array") && !json_get(s, "items"))
		structural_require(c, at, "items", "must be specified");
}

static void check_extensions(const struct json *s, enum level level, const struct path *at,
			     struct causes *c)
{
	static const char not_mixed[] = "must be false if x-kubernetes-int-or-string is true";
	bool embedded = structural_is_true(s, "x-kubernetes-embedded-resource");
	const struct json *additional = json_get(s, "additionalProperties");

	if (structural_is_true(s, "x-kubernetes-int-or-string")) {
		if (structural_is_true(s, "x-kubernetes-preserve-unknown-fields"))
			structural_invalid(c, at, "x-kubernetes-preserve-unknown-fields", s,
					   not_mixed);
		if (embedded)
			structural_invalid(c, at, "x-kubernetes-embedded-resource", s, not_mixed);
	}
	if (additional && level == LEVEL_ROOT)
		structural_forbid(c, at, "additionalProperties", "must not be used at the root");
	if (additional && embedded)
		structural_forbid(c, at, "additionalProperties",
				  "must not be used if x-kubernetes-embedded-resource is set");
	if (additional && json_len(json_get(s, "properties")) && !json_bool(additional, false))
		structural_forbid(c, at, "additionalProperties",
				  "additionalProperties and properties are mutual exclusive");
	if (embedded && !structural_is_true(s, "x-kubernetes-preserve-unknown-fields") &&
	    !json_len(json_get(s, "properties")))
		structural_require(
			c, at, "properties",
			"must not be empty if x-kubernetes-embedded-resource is true without "
			"x-kubernetes-preserve-unknown-fields");
}

/* metadata of a resource is known: a schema may restrict names only. */
static void check_metadata(const struct json *meta, bool root, const struct path *at,
			   struct causes *c)
{
	static const char *const harmless[] = { "type", "description", "properties", NULL };
	bool odd = false;

	if (!str_eq(json_get_str(meta, "type"), "object"))
		structural_invalid(c, at, "type", meta, "must be object");
	if (!root)
		return;
	json_each(it, meta)
		odd |= !str_in(it.key, harmless);
	json_each(it, json_get(meta, "properties"))
		odd |= !str_eq(it.key, "name") && !str_eq(it.key, "generateName");
	if (odd)
		wrong(c, CAUSE_FORBIDDEN, at,
		      "Forbidden: must not specify anything other than name and generateName, but "
		      "metadata is implicitly specified");
}

static void check_resource(const struct json *s, const struct scope *in, const struct path *at,
			   struct causes *c)
{
	static const char *const texts[] = { "kind", "apiVersion" };
	const struct json *props = json_get(s, "properties");
	struct path props_at = { .up = at, .name = "properties" };

	if (in->level != LEVEL_ROOT && !structural_is_true(s, "x-kubernetes-embedded-resource"))
		return;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const struct json *p = json_get(props, texts[i]);
		struct path p_at = { .up = &props_at, .name = texts[i], .key = true };

		if (p && !str_eq(json_get_str(p, "type"), "string"))
			structural_invalid(c, &p_at, "type", p, "must be string");
	}
	if (json_get(props, "metadata"))
		check_metadata(json_get(props, "metadata"), in->level == LEVEL_ROOT,
			       &(struct path){ .up = &props_at, .name = "metadata", .key = true },
			       c);
}

static void check_rules(const struct json *s, const struct path *up, struct causes *c)
{
	struct path list = { .up = up, .name = "x-kubernetes-validations" };
	size_t i = 0;

	json_each(it, json_get(s, "x-kubernetes-validations")) {
		struct path at = { .up = &list, .index = i++ };

		if (str_empty(json_get_str(it.val, "rule")))
			structural_require(c, &at, "rule", "rule is not specified");
		else if (json_get(it.val, "message") &&
			 strchr(json_get_str(it.val, "message"), '\n'))
			structural_invalid(c, &at, "message", it.val,
					   "must not contain line breaks");
	}
}

static void check_schema(const struct json *s, struct scope in, const struct path *at,
			 struct causes *c);

static void check_properties(const struct json *s, const struct scope *in, const struct path *at,
			     struct causes *c)
{
	static const char *const meta[] = { "metadata", "kind", "apiVersion", NULL };
	bool root = in->level == LEVEL_ROOT;
	struct path props = { .up = at, .name = "properties" };

	json_each(it, json_get(s, "properties")) {
		struct path p = { .up = &props, .name = it.key, .key = true };
		struct scope inner = { .level = LEVEL_FIELD,
				       .meta = in->meta,
				       .no_default = in->no_default };
		autofree char *why = xasprintf("in top-level %s", it.key);

		if ((root || structural_is_true(s, "x-kubernetes-embedded-resource")) &&
		    str_in(it.key, meta)) {
			inner.meta = true;
			inner.no_default = root ? why : in->no_default;
		}
		check_schema(it.val, inner, &p, c);
	}
}

static void check_schema(const struct json *s, struct scope in, const struct path *at,
			 struct causes *c)
{
	const struct json *additional = json_get(s, "additionalProperties");
	struct path inner = { .up = at, .name = "additionalProperties" };
	struct path items = { .up = at, .name = "items" };
	struct scope as_field = in, as_item = in;

	as_field.level = LEVEL_FIELD;
	if (in.meta)
		as_field.no_default = "inside additionalProperties applying to object metadata";
	as_item.level = LEVEL_ITEM;
	check_type(s, in.level, at, c);
	check_unsupported(s, &in, at, c);
	check_extensions(s, in.level, at, c);
	structural_merge_types(s, at, c);
	check_resource(s, &in, at, c);
	check_pattern(s, at, c);
	check_rules(s, at, c);
	check_alternatives(s, s, at, in.level == LEVEL_ROOT ? at : NULL, c);
	check_properties(s, &in, at, c);
	if (json_is(additional, JSON_OBJ))
		check_schema(additional, as_field, &inner, c);
	if (json_get(s, "items"))
		check_schema(json_get(s, "items"), as_item, &items, c);
}

/* Defaults are what they are defaults of. */

static void check_default(const struct json *s, const struct path *up, size_t *steps,
			  struct causes *c)
{
	const struct json *v = json_get(s, "default");
	struct path at = { .up = up, .name = "default" };
	autoptr(custom) own = NULL;
	autofree char *path = NULL;
	struct err *e;

	if (!v)
		return;
	e = custom_new(s, &own);
	if (e) {
		err_free(e); /* it is reported where it is wrong */
		return;
	}
	path = path_text(&at);
	if (!custom_is_pruned(v, own))
		wrong_value(c, &at, v, "must not have unknown fields");
	else if (!json_is(v, JSON_NULL) || !structural_is_true(s, "nullable"))
		custom_validate_at(v, own, &(struct custom_at){ path, steps }, c);
}

static void check_defaults(const struct json *s, const struct path *at, size_t *steps,
			   struct causes *c)
{
	struct path props = { .up = at, .name = "properties" };
	struct path items = { .up = at, .name = "items" };
	struct path additional = { .up = at, .name = "additionalProperties" };

	check_default(s, at, steps, c);
	json_each(it, json_get(s, "properties")) {
		struct path p = { .up = &props, .name = it.key, .key = true };

		check_defaults(it.val, &p, steps, c);
	}
	if (json_get(s, "items"))
		check_defaults(json_get(s, "items"), &items, steps, c);
	if (json_is(json_get(s, "additionalProperties"), JSON_OBJ))
		check_defaults(json_get(s, "additionalProperties"), &additional, steps, c);
}

/* With a status subresource the schema of status is used by itself, so that nothing at the root may
 * be about both. */
static void check_root(const struct json *s, const struct path *at, struct causes *c)
{
	static const char *const allowed[] = { "description",
					       "type",
					       "format",
					       "title",
					       "maximum",
					       "exclusiveMaximum",
					       "minimum",
					       "exclusiveMinimum",
					       "maxLength",
					       "minLength",
					       "pattern",
					       "maxItems",
					       "minItems",
					       "uniqueItems",
					       "multipleOf",
					       "required",
					       "items",
					       "properties",
					       "externalDocs",
					       "example",
					       "x-kubernetes-preserve-unknown-fields",
					       "x-kubernetes-validations",
					       NULL };

	json_each(it, s) {
		if (str_in(it.key, allowed) || json_is(it.val, JSON_NULL))
			continue;
		wrong_value(
			c, at, s,
			"only [Description Type Format Title Maximum ExclusiveMaximum Minimum "
			"ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems "
			"UniqueItems MultipleOf Required Items Properties ExternalDocs Example "
			"XPreserveUnknownFields XValidations] fields are allowed at the root of "
			"the schema if the status subresource is enabled");
		return;
	}
}

void structural_validate(const struct json *schema, bool status, const struct path *at,
			 struct causes *c)
{
	size_t before = c->n, steps = CUSTOM_STEPS_MAX;
	autoptr(custom) whole = NULL;
	struct err *e = custom_new(schema, &whole);

	/* What is too large is not looked at any further; a pattern is reported where it is. */
	if (err_is(e, ERR_TOO_LARGE))
		wrong(c, CAUSE_INVALID, at, "Invalid value: \"\": %s", err_text(e));
	err_free(e);
	if (c->n > before)
		return;
	if (status)
		check_root(schema, at, c);
	if (structural_is_true(schema, "nullable"))
		structural_forbid(c, at, "nullable", "nullable cannot be true at the root");
	check_schema(schema, (struct scope){ .level = LEVEL_ROOT }, at, c);
	if (c->n == before)
		check_defaults(schema, at, &steps, c);
}
