/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/schema.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"

/* These travel in the envelope, and not at all in what is inside an object. */
static inline bool is_type_meta(const char *name)
{
	return str_eq(name, "apiVersion") || str_eq(name, "kind");
}

/* What a value is in, so that a type that contains itself comes to an end. */
struct full_in {
	const struct field *fields;
	const struct full_in *up;
};

static inline bool full_is_in(const struct full_in *in, const struct field *fields)
{
	while (in && in->fields != fields)
		in = in->up;
	return in;
}

static inline const struct field *full_fields_of(const struct type *t)
{
	while (t->elem)
		t = t->elem;
	return t->fields;
}

static inline struct json *full_value(struct json_doc *d, const struct type *t, unsigned *n,
				      const struct full_in *in);

static inline struct json *full_members(struct json_doc *d, const struct type *t, unsigned *n,
					const struct full_in *up)
{
	const struct full_in in = { t->fields, up };
	bool again = full_is_in(up, t->fields);
	struct json *v = json_obj(d);

	for (const struct field *f = t->fields; f->name; f++)
		if ((f->pb || !is_type_meta(f->name)) &&
		    !(again && full_fields_of(f->type) == t->fields))
			json_add(d, v, f->name, full_value(d, f->type, n, &in));
	return v;
}

static inline struct json *full_texts(struct json_doc *d, unsigned *n)
{
	struct json *v = json_arr(d);

	json_push(d, v, json_new_strf(d, "text-%u", ++*n));
	json_push(d, v, json_new_strf(d, "text-%u", ++*n));
	return v;
}

/* A value of type t in which everything that the table has is there, and no two texts are alike. */
static inline struct json *full_value(struct json_doc *d, const struct type *t, unsigned *n,
				      const struct full_in *in)
{
	struct json *v = NULL;

	++*n;
	if (t->form == FORM_DURATION)
		return json_new_strf(d, "%u.250s", *n);
	if (t->form == FORM_OR_BOOL && *n % 3)
		return json_new_bool(d, *n % 2);
	if (t->form == FORM_OR_TEXTS)
		return *n % 2 ? full_texts(d, n) : full_members(d, t->elem, n, in);
	switch (t->kind) {
	case TYPE_STRING:
		return json_new_strf(d, "text-%u-\xc3\xa4", *n);
	case TYPE_BOOL:
		return json_new_bool(d, true);
	case TYPE_INT32:
		return json_new_int(d, *n % 2 ? INT32_MIN + (int64_t)*n : (int64_t)*n);
	case TYPE_INT64:
		return json_new_int(d, *n % 2 ? INT64_MAX - (int64_t)*n : -(int64_t)*n);
	case TYPE_NUMBER:
		return json_new_real(d, *n + 0.5);
	case TYPE_INT_OR_STRING:
		return *n % 2 ? json_new_int(d, *n) : json_new_strf(d, "port-%u", *n);
	case TYPE_QUANTITY:
		return json_new_strf(d, "%um", *n * 2 + 1);
	case TYPE_TIME:
		return json_new_strf(d, "2026-01-02T03:%02u:%02uZ", *n / 60 % 60, *n % 60);
	case TYPE_MICRO_TIME:
		return json_new_strf(d, "2026-01-02T03:04:05.%06uZ", *n);
	case TYPE_BYTES:
		return json_new_str(d, "AP9hYgo=");
	case TYPE_ANY:
		v = json_obj(d);
		json_set_int(d, v, "f:any", *n);
		return v;
	case TYPE_OBJECT:
		return full_members(d, t, n, in);
	case TYPE_MAP:
		v = json_obj(d);
		json_add(d, v, "z/last", full_value(d, t->elem, n, in));
		json_add(d, v, "a.first", full_value(d, t->elem, n, in));
		return v;
	case TYPE_LIST:
		v = json_arr(d);
		json_push(d, v, full_value(d, t->elem, n, in));
		json_push(d, v, full_value(d, t->elem, n, in));
		return v;
	case TYPE_KIND_MAX_:
		break;
	}
	return v;
}

static inline struct json_doc *full_object(const struct type *t, const char *api_version,
					   const char *kind)
{
	struct json_doc *d = json_doc_new();
	unsigned n = 0;

	json_set_root(d, full_value(d, t, &n, NULL));
	json_set_str(d, json_root(d), "apiVersion", api_version);
	json_set_str(d, json_root(d), "kind", kind);
	return d;
}
