/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/str.h"
#include "json/json_priv.h"

/* Reading a tree. Nothing here writes, so that several threads may read at the same time. */

enum json_type json_type(const struct json *v)
{
	/* By type and subtype. */
	static const unsigned char types[YYJSON_TYPE_MASK + YYJSON_SUBTYPE_MASK + 1] = {
		[YYJSON_TYPE_NULL] = JSON_NULL,
		[YYJSON_TYPE_BOOL | YYJSON_SUBTYPE_FALSE] = JSON_BOOL,
		[YYJSON_TYPE_BOOL | YYJSON_SUBTYPE_TRUE] = JSON_BOOL,
		[YYJSON_TYPE_NUM | YYJSON_SUBTYPE_UINT] = JSON_INT,
		[YYJSON_TYPE_NUM | YYJSON_SUBTYPE_SINT] = JSON_INT,
		[YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL] = JSON_REAL,
		[YYJSON_TYPE_STR] = JSON_STR,
		[YYJSON_TYPE_STR | YYJSON_SUBTYPE_NOESC] = JSON_STR,
		[YYJSON_TYPE_ARR] = JSON_ARR,
		[YYJSON_TYPE_OBJ] = JSON_OBJ,
	};

	return v ? types[val_of(v)->tag & (YYJSON_TYPE_MASK | YYJSON_SUBTYPE_MASK)] : JSON_NONE;
}

const char *json_type_name(enum json_type t)
{
	static const char *const names[JSON_TYPE_MAX_] = {
		[JSON_NONE] = "nothing", [JSON_NULL] = "null",   [JSON_BOOL] = "boolean",
		[JSON_INT] = "integer",  [JSON_REAL] = "number", [JSON_STR] = "string",
		[JSON_ARR] = "array",    [JSON_OBJ] = "object",
	};

	return names[t];
}

bool json_is(const struct json *v, enum json_type t)
{
	return json_type(v) == t;
}

/* The most frequent of all calls. */
struct json *json_get(const struct json *obj, const char *key)
{
	size_t len = strlen(key), n;
	yyjson_mut_val *at;

	if (!yyjson_mut_is_obj(val_of(obj)))
		return NULL;
	at = val_of(obj)->uni.ptr;
	for (n = unsafe_yyjson_get_len(val_of(obj)); n--;) {
		at = at->next->next;
		if (unsafe_yyjson_get_len(at) == len && !memcmp(at->uni.str, key, len))
			return json_of(at->next);
	}
	return NULL;
}

struct json *json_at(const struct json *arr, size_t i)
{
	return json_of(yyjson_mut_arr_get(val_of(arr), i));
}

/* One step along a path: a name in an object, a number in a list. */
static yyjson_mut_val *step(yyjson_mut_val *v, struct span name)
{
	size_t i = 0;

	if (!yyjson_mut_is_arr(v))
		return yyjson_mut_obj_getn(v, name.p, name.len);
	if (!name.len || name.len > 9)
		return NULL;
	for (size_t k = 0; k < name.len; k++) {
		if (name.p[k] < '0' || name.p[k] > '9')
			return NULL;
		i = i * 10 + (size_t)(name.p[k] - '0');
	}
	return yyjson_mut_arr_get(v, i);
}

struct json *json_at_path(const struct json *v, const char *path)
{
	yyjson_mut_val *at = val_of(v);
	struct span rest = SPAN(path);

	while (at && rest.p) {
		struct span name = span_cut(rest, '.', &rest);

		at = step(at, name);
	}
	return json_of(at);
}

size_t json_len(const struct json *v)
{
	return yyjson_mut_is_ctn(val_of(v)) ? yyjson_mut_get_len(val_of(v)) : 0;
}

const char *json_str(const struct json *v)
{
	return yyjson_mut_get_str(val_of(v));
}

size_t json_str_len(const struct json *v)
{
	return yyjson_mut_is_str(val_of(v)) ? yyjson_mut_get_len(val_of(v)) : 0;
}

int64_t json_int(const struct json *v, int64_t otherwise)
{
	yyjson_mut_val *n = val_of(v);
	double r;

	if (yyjson_mut_is_uint(n)) {
		uint64_t u = yyjson_mut_get_uint(n);

		return u <= INT64_MAX ? (int64_t)u : otherwise;
	}
	if (yyjson_mut_is_int(n))
		return yyjson_mut_get_sint(n);
	if (!yyjson_mut_is_real(n))
		return otherwise;
	r = yyjson_mut_get_real(n);
	if (r < -0x1p63 || r >= 0x1p63 || trunc(r) != r)
		return otherwise;
	return (int64_t)r;
}

double json_real(const struct json *v, double otherwise)
{
	return yyjson_mut_is_num(val_of(v)) ? yyjson_mut_get_num(val_of(v)) : otherwise;
}

bool json_bool(const struct json *v, bool otherwise)
{
	return yyjson_mut_is_bool(val_of(v)) ? yyjson_mut_get_bool(val_of(v)) : otherwise;
}

const char *json_get_str(const struct json *obj, const char *key)
{
	return json_str(json_get(obj, key));
}

int64_t json_get_int(const struct json *obj, const char *key, int64_t otherwise)
{
	return json_int(json_get(obj, key), otherwise);
}

bool json_get_bool(const struct json *obj, const char *key, bool otherwise)
{
	return json_bool(json_get(obj, key), otherwise);
}

/* The owner of a ring points at its last element or key, so the first step is like any other. */
bool json_next(struct json_iter *it)
{
	yyjson_mut_val *of = val_of(it->of), *at = it->pos;

	if (!at) {
		it->n = json_len(it->of);
		at = it->n ? of->uni.ptr : NULL;
	}
	if (it->i >= it->n)
		return false;
	it->i++;
	at = at->next;
	if (unsafe_yyjson_get_type(of) == YYJSON_TYPE_OBJ) {
		at = at->next;
		it->key = at->uni.str;
		it->val = json_of(at->next);
	} else {
		it->val = json_of(at);
	}
	it->pos = at;
	return true;
}
