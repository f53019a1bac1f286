/* SPDX-License-Identifier: Apache-2.0 */
#include "json/record.h"

#include <limits.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/macros.h"
#include "json/json.h"

/* Through void *: the tables say what is there, and so how it is aligned. */
static const void *member(const void *record, size_t at)
{
	return (const char *)record + at;
}

static void *member_of(void *record, size_t at)
{
	return (char *)record + at;
}

static struct json *strings(struct json_doc *d, const char *const *list)
{
	struct json *arr = list ? json_arr(d) : NULL;

	for (; list && *list; list++)
		json_push_str(d, arr, *list);
	return arr;
}

static struct json *many(struct json_doc *d, const struct record_field *f, const void *from)
{
	const char *const *items = member(from, f->at);
	const size_t *n = member(from, f->count_at);
	struct json *arr = *n ? json_arr(d) : NULL;

	for (size_t i = 0; i < *n; i++)
		json_push(d, arr, record_write(d, f->of, *items + i * f->size));
	return arr;
}

static struct json *number(struct json_doc *d, int64_t n)
{
	return n ? json_new_int(d, n) : NULL;
}

static struct json *value(struct json_doc *d, const struct record_field *f, const void *from)
{
	const void *at = member(from, f->at);
	const char *text;

	switch (f->type) {
	case RECORD_STR:
		text = *(const char *const *)at;
		return text ? json_new_str(d, text) : NULL;
	case RECORD_STRS:
		return strings(d, *(const char *const *const *)at);
	case RECORD_BOOL:
		return *(const bool *)at ? json_new_bool(d, true) : NULL;
	case RECORD_INT:
		return number(d, *(const int *)at);
	case RECORD_UINT:
		return number(d, *(const unsigned *)at);
	case RECORD_UINT32:
		return number(d, *(const uint32_t *)at);
	case RECORD_INT64:
		return number(d, *(const int64_t *)at);
	case RECORD_OBJECT:
		return record_write(d, f->of, at);
	case RECORD_LIST:
		return many(d, f, from);
	case RECORD_TYPE_MAX_:
		break;
	}
	return NULL;
}

struct json *record_write(struct json_doc *d, const struct record_field *fields, const void *from)
{
	struct json *o = json_obj(d);

	for (const struct record_field *f = fields; f->name; f++) {
		struct json *v = value(d, f, from);

		if (v)
			(void)json_set(d, o, f->name, v);
	}
	return o;
}

static struct err *wrong(const struct record_field *f, const char *want)
{
	return err_new(ERR_MALFORMED, "member \"%s\" is not %s", f->name, want);
}

static struct err *read_strings(const struct record_field *f, const struct json *v, struct arena *a,
				const char ***ret)
{
	const char **list;
	size_t n = 0;

	if (!json_is(v, JSON_ARR))
		return wrong(f, "a list of strings");
	list = arena_new_n(a, const char *, json_len(v) + 1);
	json_each(s, v) {
		if (!json_is(s.val, JSON_STR))
			return wrong(f, "a list of strings");
		list[n++] = arena_strdup(a, json_str(s.val));
	}
	*ret = list;
	return NULL;
}

static struct err *read_many(const struct record_field *f, const struct json *v, struct arena *a,
			     void *to)
{
	size_t n = 0;
	char *items;

	if (!json_is(v, JSON_ARR))
		return wrong(f, "a list");
	items = arena_new_n(a, char, MAX(json_len(v) * f->size, (size_t)1));
	json_each(s, v) {
		struct err *e = record_read(s.val, f->of, a, items + n * f->size);

		if (e)
			return err_wrap(e, "%s[%zu]", f->name, n);
		n++;
	}
	*(void **)member_of(to, f->at) = items;
	*(size_t *)member_of(to, f->count_at) = n;
	return NULL;
}

static struct err *read_number(const struct record_field *f, const struct json *v, void *at)
{
	static const struct {
		int64_t min, max;
	} fits[RECORD_TYPE_MAX_] = {
		[RECORD_INT] = { INT_MIN, INT_MAX },
		[RECORD_UINT] = { 0, UINT_MAX },
		[RECORD_UINT32] = { 0, UINT32_MAX },
		[RECORD_INT64] = { INT64_MIN, INT64_MAX },
	};
	int64_t n = json_int(v, 0);

	if (!json_is(v, JSON_INT) || (n == 0 && json_int(v, 1) != 0))
		return wrong(f, "a whole number");
	if (n < fits[f->type].min || n > fits[f->type].max)
		return wrong(f, "in the range of its type");
	if (f->type == RECORD_INT)
		*(int *)at = (int)n;
	else if (f->type == RECORD_UINT)
		*(unsigned *)at = (unsigned)n;
	else if (f->type == RECORD_UINT32)
		*(uint32_t *)at = (uint32_t)n;
	else
		*(int64_t *)at = n;
	return NULL;
}

static struct err *read_field(const struct record_field *f, const struct json *v, struct arena *a,
			      void *to)
{
	void *at = member_of(to, f->at);
	struct err *e;

	switch (f->type) {
	case RECORD_STR:
		if (!json_is(v, JSON_STR))
			return wrong(f, "a string");
		*(const char **)at = arena_strdup(a, json_str(v));
		return NULL;
	case RECORD_STRS:
		return read_strings(f, v, a, at);
	case RECORD_BOOL:
		if (!json_is(v, JSON_BOOL))
			return wrong(f, "true or false");
		*(bool *)at = json_bool(v, false);
		return NULL;
	case RECORD_INT:
	case RECORD_UINT:
	case RECORD_UINT32:
	case RECORD_INT64:
		return read_number(f, v, at);
	case RECORD_OBJECT:
		e = record_read(v, f->of, a, at);
		return e ? err_wrap(e, "%s", f->name) : NULL;
	case RECORD_LIST:
		return read_many(f, v, a, to);
	case RECORD_TYPE_MAX_:
		break;
	}
	return NULL;
}

static void clear_field(const struct record_field *f, void *to)
{
	static const size_t sizes[RECORD_TYPE_MAX_] = {
		[RECORD_STR] = sizeof(char *),    [RECORD_STRS] = sizeof(char **),
		[RECORD_BOOL] = sizeof(bool),     [RECORD_INT] = sizeof(int),
		[RECORD_UINT] = sizeof(unsigned), [RECORD_UINT32] = sizeof(uint32_t),
		[RECORD_INT64] = sizeof(int64_t), [RECORD_LIST] = sizeof(void *),
	};

	memset(member_of(to, f->at), 0, sizes[f->type]);
	if (f->type == RECORD_LIST)
		*(size_t *)member_of(to, f->count_at) = 0;
	for (const struct record_field *in = f->type == RECORD_OBJECT ? f->of : NULL;
	     in && in->name; in++)
		clear_field(in, member_of(to, f->at));
}

struct err *record_read(const struct json *v, const struct record_field *fields, struct arena *a,
			void *ret)
{
	if (!json_is(v, JSON_OBJ))
		return err_new(ERR_MALFORMED, "the value is not an object");
	for (const struct record_field *f = fields; f->name; f++)
		clear_field(f, ret);
	for (const struct record_field *f = fields; f->name; f++) {
		const struct json *given = json_get(v, f->name);
		struct err *e = given ? read_field(f, given, a, ret) : NULL;

		if (e)
			return e;
	}
	return NULL;
}
