/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode_priv.h"
#include "api/meta.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"

/*
 * The tree that Go would write after reading the text into a struct. The walk goes down the table
 * and the tree side by side, so its depth is the table's. Most objects are fine as they are: one is
 * rebuilt only from the first member that must change.
 */

/* What an object or a list keeps, once something in it must change. */
struct member {
	const char *key; /* NULL in a list */
	const struct field *field;
	struct json *val; /* NULL: it was given, but nothing of it is kept */
};
struct kept {
	struct member *list;
	size_t n;
};

/* The first n of v were fine. */
static void kept_begin(struct kept *k, const struct json *v, const struct type *t, size_t n)
{
	if (k->list)
		return;
	k->list = xnew_n(struct member, json_len(v) + 1);
	json_each(it, v) {
		if (k->n == n)
			return;
		k->list[k->n++] = (struct member){
			.key = it.key,
			.field = t->kind == TYPE_OBJECT ? schema_field(t, it.key) : NULL,
			.val = it.val,
		};
	}
}

static void kept_end(struct kept *k, struct json_doc *d, struct json *v)
{
	if (!k->list)
		return;
	json_clear(v);
	for (size_t i = 0; i < k->n; i++) {
		if (!k->list[i].val)
			continue;
		if (k->list[i].key)
			json_add(d, v, k->list[i].key, k->list[i].val);
		else
			json_push(d, v, k->list[i].val);
	}
	free(k->list);
}

static void mismatch(struct decode_walk *w, const struct place *at, const char *value,
		     const struct type *t)
{
	if (!w->first)
		w->first = go_mismatch(at, value, t);
}

/* What Go's reader calls a value of this type. */
static const char *go_value(const struct json *v)
{
	static const char *const names[JSON_TYPE_MAX_] = {
		[JSON_NONE] = "null",  [JSON_NULL] = "null",   [JSON_BOOL] = "bool",
		[JSON_INT] = "number", [JSON_REAL] = "number", [JSON_STR] = "string",
		[JSON_ARR] = "array",  [JSON_OBJ] = "object",
	};

	return names[json_type(v)];
}

static bool fits_int(const struct json *v, enum type_kind kind)
{
	int64_t i = json_int(v, 0);

	if (!json_is(v, JSON_INT) || i != json_int(v, 1))
		return false;
	return kind == TYPE_INT64 || (i >= INT32_MIN && i <= INT32_MAX);
}

static void check_int(struct decode_walk *w, const struct json *v, const struct type *t,
		      const struct place *at)
{
	autofree char *text = NULL, *value = NULL;

	if (fits_int(v, t->kind))
		return;
	if (json_is(v, JSON_INT) || json_is(v, JSON_REAL)) {
		text = json_to_text(v);
		value = xasprintf("number %s", text);
	}
	mismatch(w, at, value ? value : go_value(v), t);
}

/* Go has a type of its own for it, which reads a string or an int32; any other value ends the walk.
 */
static struct err *check_int_or_string(const struct json *v, const struct place *at)
{
	struct decode_walk w = { 0 };

	if (!json_is(v, JSON_STR))
		check_int(&w, v, &type_int32, at);
	return w.first;
}

/* The usual forms: "500m", "1", "512Mi". Fewer than four digits cannot be shortened. */
static bool is_short_quantity(const struct json *v)
{
	const char *s = json_str(v);
	size_t n = s ? strspn(s, "0123456789") : 0;

	if (!n || n > 3 || *s == '0')
		return false;
	s += n;
	if (!*s)
		return true;
	return strchr("kMGTP", *s) ? !s[1] || (*s != 'k' && s[1] == 'i' && !s[2])
				   : *s == 'm' && !s[1];
}

static struct err *settle_quantity(struct decode_walk *w, struct json **v)
{
	struct json *canonical;

	if (is_short_quantity(*v))
		return NULL;
	canonical = quantity_canonical(w->d, *v);
	if (!canonical)
		return err_new(ERR_MALFORMED, "quantities must match the regular expression "
					      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
	if (!str_eq(json_str(canonical), json_str(*v)))
		*v = canonical;
	return NULL;
}

/* Go reads these with a layout that has six digits behind the seconds. */
static bool has_micros(const char *text)
{
	const char *dot = strchr(text, '.');

	return dot && strspn(dot + 1, "0123456789") == 6;
}

static struct err *settle_time(struct decode_walk *w, struct json **v, const struct type *t,
			       const struct place *at)
{
	bool micro = t->kind == TYPE_MICRO_TIME;
	char text[CLOCK_TEXT_MAX];
	struct err *e;
	usec when;

	if (!json_is(*v, JSON_STR))
		return go_mismatch(at, go_value(*v), &type_string);
	e = micro && !has_micros(json_str(*v)) ? err_new(ERR_MALFORMED, "no microseconds")
					       : clock_parse(json_str(*v), &when);
	if (e) {
		err_free(e);
		return go_bad_time(json_str(*v), micro);
	}
	(micro ? clock_format_micro : clock_format)(when, text);
	if (!str_eq(text, json_str(*v)))
		*v = json_new_str(w->d, text);
	return NULL;
}

static void check_bytes(struct decode_walk *w, const struct json *v, const struct type *t,
			const struct place *at)
{
	long bad;

	if (!json_is(v, JSON_STR)) {
		mismatch(w, at, go_value(v), t);
		return;
	}
	bad = go_base64_error(json_str(v), json_str_len(v));
	if (bad >= 0 && !w->first)
		w->first = err_new(ERR_MALFORMED, "illegal base64 data at input byte %ld", bad);
}

/* What null stands for in a list or a map. */
static struct json *zero_of(struct json_doc *d, const struct type *t)
{
	switch (t->kind) {
	case TYPE_STRING:
	case TYPE_BYTES:
		return json_new_str(d, "");
	case TYPE_QUANTITY:
		return json_new_str(d, "0");
	case TYPE_BOOL:
		return json_new_bool(d, false);
	case TYPE_INT32:
	case TYPE_INT64:
	case TYPE_NUMBER:
	case TYPE_INT_OR_STRING:
		return json_new_int(d, 0);
	case TYPE_OBJECT:
		return json_obj(d);
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
	case TYPE_MAP:
	case TYPE_LIST:
	case TYPE_ANY:
	case TYPE_KIND_MAX_:
		break;
	}
	return json_new_null(d);
}

/* What Go's omitempty leaves out. A struct is never empty. */
static bool is_omitted(const struct field *f, const struct json *v)
{
	if (f->flags & FIELD_POINTER || !(f->flags & FIELD_OMITEMPTY))
		return false;
	switch (json_type(v)) {
	case JSON_STR:
		return !json_str_len(v);
	case JSON_INT:
		return json_int(v, 1) == 0 && f->type->kind != TYPE_INT_OR_STRING;
	case JSON_BOOL:
		return !json_bool(v, true);
	case JSON_ARR:
		return !json_len(v);
	case JSON_OBJ:
		return f->type->kind == TYPE_MAP && !json_len(v);
	case JSON_NONE:
	case JSON_NULL:
	case JSON_REAL:
	case JSON_TYPE_MAX_:
		break;
	}
	return false;
}

/* A null leaves an earlier plain value as it was, but removes a pointer, a list or a map. */
static bool null_takes_away(const struct field *f)
{
	return f->flags & FIELD_POINTER || f->type->kind == TYPE_LIST || f->type->kind == TYPE_MAP;
}

static struct member *kept_find(const struct kept *k, const struct field *f)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->list[i].field == f)
			return &k->list[i];
	return NULL;
}

static void merge_map(struct json_doc *d, struct json *into, struct json *from)
{
	struct decode_walk silent = { .d = d, .duplicates = true };

	json_each(it, from)
		json_add(d, into, it.key, json_copy(d, it.val));
	decode_settle_duplicates(&silent, into, NULL, false);
}

/* A value of the wrong type is reported at the end; until then it is still in the tree. */
static bool merges(const struct type *t, const struct json *had, const struct json *next)
{
	return (t->kind == TYPE_OBJECT || t->kind == TYPE_MAP) && json_is(had, JSON_OBJ) &&
	       json_is(next, JSON_OBJ);
}

/* Structs and maps that are given twice are merged: Go reads both into the same one. */
static void merge(struct json_doc *d, struct json *into, struct json *from, const struct type *t)
{
	if (t->kind == TYPE_MAP) {
		merge_map(d, into, from);
		return;
	}
	json_each(it, from) {
		const struct type *of = schema_field(t, it.key)->type;
		struct json *have = json_get(into, it.key);

		if (merges(of, have, it.val))
			merge(d, have, it.val, of);
		else
			(void)json_set(d, into, it.key, json_copy(d, it.val));
	}
}

/* Adds next to what was given before under the same name; had is NULL when there was nothing. */
static void keep(struct decode_walk *w, struct kept *k, struct member *had, struct member next)
{
	const struct type *t = next.field->type;

	if (!had)
		k->list[k->n++] = next;
	else if (merges(t, had->val, next.val))
		merge(w->d, had->val, next.val, t);
	else
		had->val = next.val;
}

/* *v becomes NULL where the result has no such member. */
static struct err *settle_member(struct decode_walk *w, struct json **v, const struct place *at)
{
	const struct field *f = at->field;
	struct err *e;

	if (json_is(*v, JSON_NULL)) {
		if (f->type->kind != TYPE_ANY)
			*v = NULL;
		return NULL;
	}
	e = decode_typed(w, v, f->type, at);
	if (!e && is_omitted(f, *v))
		*v = NULL;
	return e;
}

static struct err *settle_object(struct decode_walk *w, struct json *v, const struct type *t,
				 const struct place *at)
{
	struct json_iter was = { .of = at->was };
	struct kept kept = { 0 };
	struct err *e = NULL;
	size_t i = 0;

	if (w->duplicates)
		kept_begin(&kept, v, t, 0);
	json_each(it, v) {
		const struct json *there = json_follow(&was, &it);
		const bool fine = json_same(it.val, there) && !kept.list;
		const struct field *f = fine ? NULL : schema_field(t, it.key);
		struct place here = { { &at->path, it.key }, at, f, t, there };
		struct member *had = f && w->duplicates ? kept_find(&kept, f) : NULL;
		struct json *val = it.val;

		i++;
		if (fine)
			continue;
		if (!f || had)
			decode_report(w, f ? "duplicate" : "unknown", at, it.key);
		if (f)
			e = settle_member(w, &val, &here);
		if (e)
			break;
		if (!f || val != it.val)
			kept_begin(&kept, v, t, i - 1);
		if (kept.list && f && (!had || !json_is(it.val, JSON_NULL) || null_takes_away(f)))
			keep(w, &kept, had, (struct member){ f->name, f, val });
	}
	kept_end(&kept, w->d, v);
	return e;
}

/* A list or a map. */
static struct err *settle_elements(struct decode_walk *w, struct json *v, const struct type *t,
				   const struct place *at)
{
	struct json_iter was = { .of = at->was };
	struct kept kept = { 0 };
	struct err *e = NULL;
	size_t i = 0;

	if (w->duplicates && t->kind == TYPE_MAP)
		decode_settle_duplicates(w, v, at, false);
	json_each(it, v) {
		struct place here = {
			{ &at->path, it.key, i }, at, NULL, NULL, json_follow(&was, &it)
		};
		struct json *val = it.val;

		if (json_is(val, JSON_NULL))
			val = zero_of(w->d, t->elem);
		else
			e = decode_typed(w, &val, t->elem, &here);
		if (e)
			break;
		if (val != it.val)
			kept_begin(&kept, v, t, i);
		if (kept.list)
			kept.list[kept.n++] = (struct member){ it.key, NULL, val };
		i++;
	}
	kept_end(&kept, w->d, v);
	return e;
}

static struct err *settle_container(struct decode_walk *w, struct json *v, const struct type *t,
				    const struct place *at)
{
	if (!json_is(v, t->kind == TYPE_LIST ? JSON_ARR : JSON_OBJ)) {
		mismatch(w, at, go_value(v), t);
		return NULL;
	}
	if (json_same(v, at->was))
		return NULL;
	(void)json_own(w->d, v);
	return t->kind == TYPE_OBJECT ? settle_object(w, v, t, at) : settle_elements(w, v, t, at);
}

struct err *decode_typed(struct decode_walk *w, struct json **v, const struct type *t,
			 const struct place *at)
{
	switch (t->kind) {
	case TYPE_STRING:
		if (!json_is(*v, JSON_STR))
			mismatch(w, at, go_value(*v), t);
		return NULL;
	case TYPE_BOOL:
		if (!json_is(*v, JSON_BOOL))
			mismatch(w, at, go_value(*v), t);
		return NULL;
	case TYPE_INT32:
	case TYPE_INT64:
		check_int(w, *v, t, at);
		return NULL;
	case TYPE_NUMBER:
		if (!json_is(*v, JSON_INT) && !json_is(*v, JSON_REAL))
			mismatch(w, at, go_value(*v), t);
		return NULL;
	case TYPE_INT_OR_STRING:
		return check_int_or_string(*v, at);
	case TYPE_QUANTITY:
		return settle_quantity(w, v);
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
		return settle_time(w, v, t, at);
	case TYPE_BYTES:
		check_bytes(w, *v, t, at);
		return NULL;
	case TYPE_OBJECT:
		if (t->form == FORM_OR_BOOL && json_is(*v, JSON_BOOL))
			return NULL;
		return settle_container(w, *v, t, at);
	case TYPE_MAP:
	case TYPE_LIST:
		return settle_container(w, *v, t, at);
	case TYPE_ANY:
	case TYPE_KIND_MAX_:
		break;
	}
	return NULL;
}
