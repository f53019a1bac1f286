/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>

#include "api/crd/custom.h"
#include "api/meta.h"
#include "api/schema_priv.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * Validation by the table: types, required members, allowed values, ranges, unique keys, in the
 * words of a kube-apiserver that validates a custom resource.
 */
enum {
	SHORT_LIST = 8, /* whose elements are compared in pairs */
};

struct walk {
	struct causes *causes;
	bool structural; /* otherwise decoding has checked the formats */
	bool lax; /* in metadata, and in the status of a built-in kind: nothing is required */
};

#define QUANTITY_PATTERN                                                                    \
	"^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?" \
	"(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"

static const char *const type_names[TYPE_KIND_MAX_] = {
	[TYPE_STRING] = "string",    [TYPE_BOOL] = "boolean",  [TYPE_INT32] = "integer",
	[TYPE_INT64] = "integer",    [TYPE_NUMBER] = "number", [TYPE_INT_OR_STRING] = "integer",
	[TYPE_QUANTITY] = "integer", [TYPE_TIME] = "string",   [TYPE_MICRO_TIME] = "string",
	[TYPE_BYTES] = "string",     [TYPE_OBJECT] = "object", [TYPE_MAP] = "object",
	[TYPE_LIST] = "array",       [TYPE_ANY] = "any",
};

static bool type_fits(const struct json *v, const struct type *t)
{
	enum json_type have = json_type(v);

	switch (t->kind) {
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
		/* Null is what Go writes for nothing; decoding leaves only what a kind shows so. */
		return have == JSON_STR || (have == JSON_NULL && !t->structural);
	case TYPE_STRING:
	case TYPE_BYTES:
		return have == JSON_STR;
	case TYPE_BOOL:
		return have == JSON_BOOL;
	case TYPE_INT32:
	case TYPE_INT64:
		return have == JSON_INT || (have == JSON_REAL && json_int(v, 0) == json_int(v, 1));
	case TYPE_NUMBER:
		return have == JSON_INT || have == JSON_REAL;
	case TYPE_INT_OR_STRING:
		return have == JSON_INT || have == JSON_STR;
	case TYPE_QUANTITY:
		return have == JSON_INT || have == JSON_STR || have == JSON_REAL;
	case TYPE_OBJECT:
	case TYPE_MAP:
		return have == JSON_OBJ;
	case TYPE_LIST:
		return have == JSON_ARR || (have == JSON_NULL && !t->structural);
	case TYPE_ANY:
	case TYPE_KIND_MAX_:
		return true;
	}
	return true;
}

static void bad_type(struct walk *w, const struct path *at, const struct json *v, const char *want)
{
	autofree char *path = path_text(at);
	const char *have = json_type_name(json_type(v));

	causes_add(w->causes, CAUSE_TYPE, path,
		   "Invalid value: \"%s\": %s%sin body must be of type %s: \"%s\"", have, path,
		   *path ? " " : "", want, have);
}

static void bad_value(struct walk *w, const struct path *at, const struct json *v, const char *fmt,
		      ...) printf_like(4, 5);
static void bad_value(struct walk *w, const struct path *at, const struct json *v, const char *fmt,
		      ...)
{
	autofree char *path = path_text(at);
	autobuf text = { 0 };
	va_list ap;

	buf_printf(&text, "%s in body ", path);
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	causes_invalid(w->causes, path, v, buf_str(&text));
}

static void check_int(struct walk *w, const struct json *v, const struct type *t,
		      const struct path *at)
{
	int64_t i = json_int(v, 0);

	if (json_int(v, 0) != json_int(v, 1) ||
	    (t->kind == TYPE_INT32 && (i < INT32_MIN || i > INT32_MAX)))
		bad_value(w, at, v, "must be of type %s",
			  t->kind == TYPE_INT32 ? "int32" : "int64");
	else if (t->min && i < *t->min)
		bad_value(w, at, v, "should be greater than or equal to %" PRId64, *t->min);
	else if (t->max && i > *t->max)
		bad_value(w, at, v, "should be less than or equal to %" PRId64, *t->max);
}

static void check_string(struct walk *w, const struct json *v, const struct type *t,
			 const struct path *at)
{
	const char *s = json_str(v), *bad;
	autofree char *path = NULL;

	if (t->values && !str_in(s, t->values)) {
		path = path_text(at);
		causes_unsupported(w->causes, path, s, t->values);
	} else if (t->max && (int64_t)json_str_len(v) > *t->max) {
		path = path_text(at);
		causes_add(w->causes, CAUSE_TOO_LONG, path,
			   "Too long: may not be more than %" PRId64 " bytes", *t->max);
	} else if (t->min && (int64_t)json_str_len(v) < *t->min) {
		bad_value(w, at, v, "should be at least %" PRId64 " chars long", *t->min);
	} else if (t->check) {
		bad = t->check(v);
		if (bad && t->pattern)
			bad_value(w, at, v, "should match '%s'", t->pattern);
		else if (bad)
			bad_value(w, at, v, "%s", bad);
	}
}

static void bad_format(struct walk *w, const struct path *at, const struct json *v,
		       const char *want)
{
	autofree char *path = path_text(at);

	causes_add(w->causes, CAUSE_TYPE, path,
		   "Invalid value: \"%.64s\": %s in body must be of type %s: \"%.64s\"",
		   json_str(v), path, want, json_str(v));
}

static void check_time(struct walk *w, const struct json *v, const struct path *at)
{
	struct err *e;
	usec when;

	e = clock_parse(json_str(v), &when);
	if (e)
		bad_format(w, at, v, "date-time");
	err_free(e);
}

static void check_bytes(struct walk *w, const struct json *v, const struct path *at)
{
	struct err *e;
	void *raw = NULL;
	size_t len;

	e = base64_decode(json_str(v), false, &raw, &len);
	if (e)
		bad_format(w, at, v, "byte");
	err_free(e);
	free(raw);
}

/* What is in the tree at one place, and what was there in the settled object. */
struct here {
	const struct json *v, *was;
};

static void check(struct walk *w, struct here here, const struct type *t, const struct path *at);

/* Metadata has rules of its own, in meta_validate(). */
static bool is_lax(const struct field *f, bool structural)
{
	return !strcmp(f->name, "metadata") || (!structural && !strcmp(f->name, "status"));
}

static void check_object(struct walk *w, struct here here, const struct type *t,
			 const struct path *at)
{
	struct json_iter was = { .of = here.was };
	const struct json *v = here.v;

	for (const struct field *f = t->fields; f->name; f++) {
		struct path in = { .up = at, .name = f->name };
		autofree char *path = NULL;

		if (!(f->flags & FIELD_REQUIRED) || w->lax || json_get(v, f->name))
			continue;
		path = path_text(&in);
		causes_required(w->causes, path, NULL);
	}
	json_each(it, v) {
		const struct json *there = json_follow(&was, &it);
		const struct field *f = json_same(it.val, there) ? NULL : schema_field(t, it.key);
		struct path in = { .up = at, .name = it.key };
		bool lax = w->lax;

		if (!f)
			continue; /* unknown members are pruned elsewhere */
		w->lax |= !at->up && is_lax(f, w->structural);
		check(w, (struct here){ it.val, there }, f->type, &in);
		w->lax = lax;
	}
}

/* An element's identity in its list: the element itself in a set, its keys in a map. */
static char *identity(const struct json *v, const struct type *list)
{
	autobuf out = { 0 };
	size_t i;

	if (list->list == LIST_SET)
		return json_to_text(v);
	buf_add_char(&out, '{');
	for (i = 0; i < ARRAY_LEN(list->merge_keys) && list->merge_keys[i]; i++) {
		const struct json *key = json_get(v, list->merge_keys[i]);

		if (!key)
			continue;
		buf_printf(&out, "%s\"%s\":", out.len > 1 ? "," : "", list->merge_keys[i]);
		json_write(key, &out);
	}
	buf_add_char(&out, '}');
	return buf_steal(&out, NULL);
}

static bool may_be_twins(const struct json *a, const struct json *b, const struct type *list)
{
	if (list->list == LIST_SET)
		return json_equal(a, b);
	for (size_t i = 0; i < ARRAY_LEN(list->merge_keys) && list->merge_keys[i]; i++)
		if (!json_equal(json_get(a, list->merge_keys[i]), json_get(b, list->merge_keys[i])))
			return false;
	return true;
}

/* Nearly all lists are short and without twins, and need no texts to prove it. */
static bool plainly_unique(const struct json *v, const struct type *list)
{
	if (json_len(v) > SHORT_LIST)
		return false;
	json_each(a, v) {
		struct json_iter b = a;

		while (json_next(&b))
			if (may_be_twins(a.val, b.val, list))
				return false;
	}
	return true;
}

static void check_unique(struct walk *w, const struct json *v, const struct type *t,
			 const struct path *at)
{
	autoptr(map) seen = NULL;
	size_t i = 0;

	if (plainly_unique(v, t))
		return;
	seen = map_new(NULL);
	json_each(it, v) {
		struct path here = { .up = at, .index = i++ };
		autofree char *id = identity(it.val, t), *path = NULL;

		if (map_has(seen, id)) {
			path = path_text(&here);
			causes_duplicate(w->causes, path, id);
		}
		map_put(seen, id, seen);
	}
}

static void check_list(struct walk *w, struct here here, const struct type *t,
		       const struct path *at)
{
	struct json_iter was = { .of = here.was };
	const struct json *v = here.v;
	size_t i = 0;

	if (t->max && (int64_t)json_len(v) > *t->max) {
		autofree char *path = path_text(at);

		causes_add(w->causes, CAUSE_INVALID, path,
			   "Too many: %zu: must have at most %" PRId64 " items", json_len(v),
			   *t->max);
	}
	if (t->min && (int64_t)json_len(v) < *t->min)
		bad_value(w, at, v, "should have at least %" PRId64 " items", *t->min);
	if (w->structural && !w->lax && t->list != LIST_ATOMIC && json_len(v) > 1)
		check_unique(w, v, t, at);
	json_each(it, v) {
		struct path in = { .up = at, .index = i++ };

		check(w, (struct here){ it.val, json_follow(&was, &it) }, t->elem, &in);
	}
}

static void check_map(struct walk *w, struct here here, const struct type *t, const struct path *at)
{
	struct json_iter was = { .of = here.was };

	json_each(it, here.v) {
		struct path in = { .up = at, .name = it.key };

		check(w, (struct here){ it.val, json_follow(&was, &it) }, t->elem, &in);
	}
}

static void check(struct walk *w, struct here here, const struct type *t, const struct path *at)
{
	const struct json *v = here.v;

	if (json_same(v, here.was))
		return;
	if (t->form == FORM_OR_BOOL && json_is(v, JSON_BOOL))
		return;
	if (!type_fits(v, t)) {
		bad_type(w, at, v, type_names[t->kind]);
		return;
	}
	switch (t->kind) {
	case TYPE_STRING:
		check_string(w, v, t, at);
		break;
	case TYPE_INT32:
	case TYPE_INT64:
		check_int(w, v, t, at);
		break;
	case TYPE_QUANTITY:
		if (w->structural && !quantity_valid(v))
			bad_value(w, at, v, "should match '%s'", QUANTITY_PATTERN);
		break;
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
		if (w->structural)
			check_time(w, v, at);
		break;
	case TYPE_BYTES:
		if (w->structural)
			check_bytes(w, v, at);
		break;
	case TYPE_OBJECT:
		check_object(w, here, t, at);
		break;
	case TYPE_MAP:
		check_map(w, here, t, at);
		break;
	case TYPE_LIST:
		check_list(w, here, t, at);
		break;
	case TYPE_BOOL:
	case TYPE_NUMBER:
	case TYPE_INT_OR_STRING:
	case TYPE_ANY:
	case TYPE_KIND_MAX_:
		break;
	}
}

void schema_validate(const struct json *v, const struct type *t, const struct json *was,
		     struct causes *c)
{
	struct path root = { .name = "" };
	struct walk w = { .causes = c, .structural = t->structural };

	if (t->custom) {
		custom_validate(v, t->custom, was, c);
		return;
	}
	check(&w, (struct here){ v, was }, t, &root);
}
