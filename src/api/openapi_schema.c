/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/custom.h"
#include "api/openapi_priv.h"
#include "api/schema_builtin_priv.h"
#include "api/schema_priv.h"
#include "base/str.h"

/* Types as JSON schemas. */

#define QUANTITY_PATTERN                                                                    \
	"^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?" \
	"(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"

static const struct {
	const char *type, *format;
} scalars[TYPE_KIND_MAX_] = {
	[TYPE_STRING] = { "string", NULL },      [TYPE_BOOL] = { "boolean", NULL },
	[TYPE_INT32] = { "integer", "int32" },   [TYPE_INT64] = { "integer", "int64" },
	[TYPE_NUMBER] = { "number", "double" },  [TYPE_INT_OR_STRING] = { NULL, "int-or-string" },
	[TYPE_TIME] = { "string", "date-time" }, [TYPE_MICRO_TIME] = { "string", "date-time" },
	[TYPE_BYTES] = { "string", "byte" },     [TYPE_OBJECT] = { "object", NULL },
	[TYPE_MAP] = { "object", NULL },         [TYPE_LIST] = { "array", NULL },
	[TYPE_ANY] = { "object", NULL },
};

static struct json *any_of(struct json_doc *d, const char *a, const char *b)
{
	struct json *list = json_arr(d), *one = json_obj(d), *two = json_obj(d);

	json_set_str(d, one, "type", a);
	json_set_str(d, two, "type", b);
	json_push(d, list, one);
	json_push(d, list, two);
	return list;
}

static void write_limits(struct json_doc *d, struct json *s, const struct type *t)
{
	bool text = t->kind == TYPE_STRING, list = t->kind == TYPE_LIST;

	if (t->min)
		json_set_int(d, s, text ? "minLength" : list ? "minItems" : "minimum", *t->min);
	if (t->max)
		json_set_int(d, s, text ? "maxLength" : list ? "maxItems" : "maximum", *t->max);
	json_set_str(d, s, "pattern", t->pattern);
	for (size_t i = 0; t->values && t->values[i]; i++)
		json_push_str(d, json_need_arr(d, s, "enum"), t->values[i]);
}

/* A value that may be a number or a string. */
static void write_mixed(const struct openapi_writer *w, struct json *s, const struct type *t)
{
	struct json_doc *d = w->d;

	if (!w->structural) {
		json_set_str(d, s, "format", scalars[t->kind].format);
		json_set(d, s, "oneOf",
			 t->kind == TYPE_QUANTITY ? any_of(d, "string", "number")
						  : any_of(d, "integer", "string"));
		return;
	}
	json_set(d, s, "anyOf", any_of(d, "integer", "string"));
	if (t->kind == TYPE_QUANTITY)
		json_set_str(d, s, "pattern", QUANTITY_PATTERN);
	json_set_bool(d, s, "x-kubernetes-int-or-string", true);
}

/* Where a type is used: a reference when it has a name, itself otherwise. */
static struct json *use(const struct openapi_writer *w, const struct type *t)
{
	struct json *s, *ref, *all;

	if (w->structural || !t->name)
		return openapi_type(w, t);
	w->seen(w->arg, t);
	s = json_obj(w->d);
	ref = json_obj(w->d);
	all = json_arr(w->d);
	json_set(w->d, ref, "$ref", json_new_strf(w->d, "#/components/schemas/%s", t->name));
	json_push(w->d, all, ref);
	json_set(w->d, s, "allOf", all);
	return s;
}

static void write_list(const struct openapi_writer *w, struct json *s, const struct type *t)
{
	static const char *const kinds[] = {
		[LIST_ATOMIC] = "atomic", [LIST_SET] = "set", [LIST_MAP] = "map"
	};
	struct json_doc *d = w->d;

	json_set(d, s, "items", use(w, t->elem));
	if (t->list == LIST_MAP)
		for (size_t i = 0; i < ARRAY_LEN(t->merge_keys) && t->merge_keys[i]; i++)
			json_push_str(d, json_need_arr(d, s, "x-kubernetes-list-map-keys"),
				      t->merge_keys[i]);
	json_set_str(d, s, "x-kubernetes-list-type", kinds[t->list]);
	if (w->structural || !t->patch_key)
		return;
	json_set_str(d, s, "x-kubernetes-patch-strategy", "merge");
	if (*t->patch_key)
		json_set_str(d, s, "x-kubernetes-patch-merge-key", t->patch_key);
}

/* The API server defines a custom resource's metadata: a schema may only say that it is an object.
 */
static bool is_opaque(const struct openapi_writer *w, const struct type *t)
{
	return w->structural && t == &type_meta_object_meta;
}

/* An enumeration, or a list of one. Like upstream's, the schema of a CRD has none. */
static void write_values(const struct openapi_writer *w, struct json *p, const struct field *f)
{
	struct json *s = f->type->kind == TYPE_LIST ? json_get(p, "items") : p;

	if (w->structural)
		return;
	for (size_t i = 0; f->values && f->values[i]; i++)
		json_push_str(w->d, json_need_arr(w->d, s, "enum"), f->values[i]);
}

static void write_fields(const struct openapi_writer *w, struct json *s, const struct type *t)
{
	struct json_doc *d = w->d;
	struct json *props = json_set(d, s, "properties", json_obj(d));

	for (const struct field *f = t->fields; f->name; f++) {
		struct json *p = use(w, f->type);

		if (!is_opaque(w, f->type))
			json_set_str(d, p, "description", f->help);
		if (f->fallback)
			json_set(d, p, "default", schema_fallback(d, f));
		write_values(w, p, f);
		json_set(d, props, f->name, p);
		if (f->flags & FIELD_REQUIRED)
			json_push_str(d, json_need_arr(d, s, "required"), f->name);
	}
}

/* What a definition says, and what every object has. */
static struct json *custom_type(const struct openapi_writer *w, const struct type *t)
{
	struct json *s = json_copy(w->d, custom_schema(t->custom));
	struct json *props = json_need_obj(w->d, s, "properties");

	for (const struct field *f = t->fields; f->name; f++)
		json_set(w->d, props, f->name, use(w, f->type));
	return s;
}

struct json *openapi_type(const struct openapi_writer *w, const struct type *t)
{
	struct json *s;

	if (t->custom)
		return custom_type(w, t);
	s = json_obj(w->d);

	json_set_str(w->d, s, "description", t->help);
	if (t->kind == TYPE_QUANTITY || t->kind == TYPE_INT_OR_STRING) {
		write_mixed(w, s, t);
		return s;
	}
	json_set_str(w->d, s, "type", scalars[t->kind].type);
	json_set_str(w->d, s, "format", scalars[t->kind].format);
	write_limits(w->d, s, t);
	if (t->atomic)
		json_set_str(w->d, s, "x-kubernetes-map-type", "atomic");
	if (t->kind == TYPE_OBJECT && !is_opaque(w, t))
		write_fields(w, s, t);
	else if (t->kind == TYPE_MAP)
		json_set(w->d, s, "additionalProperties", use(w, t->elem));
	else if (t->kind == TYPE_LIST)
		write_list(w, s, t);
	return s;
}

struct json *openapi_structural(struct json_doc *d, const struct type *t)
{
	const struct openapi_writer w = { .d = d, .structural = true };

	return openapi_type(&w, t);
}
