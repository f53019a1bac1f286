/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/str.h"
#include "json/json_priv.h"

/*
 * Equality. Objects from one source usually have their members in the same order and are compared
 * side by side. Other objects are sorted first: looking up each of many members would let a peer
 * keep us busy.
 */

static bool numbers_equal(yyjson_mut_val *a, yyjson_mut_val *b)
{
	bool a_real = yyjson_mut_is_real(a), b_real = yyjson_mut_is_real(b);

	if (a_real || b_real)
		return yyjson_mut_get_num(a) == yyjson_mut_get_num(b);
	if (yyjson_mut_is_sint(a) && yyjson_mut_get_sint(a) < 0)
		return yyjson_mut_is_sint(b) && yyjson_mut_get_sint(a) == yyjson_mut_get_sint(b);
	if (yyjson_mut_is_sint(b) && yyjson_mut_get_sint(b) < 0)
		return false;
	return yyjson_mut_get_uint(a) == yyjson_mut_get_uint(b);
}

static bool strings_equal(const struct json *a, const struct json *b)
{
	size_t len = json_str_len(a);

	return len == json_str_len(b) && !memcmp(json_str(a), json_str(b), len);
}

static bool lists_equal(const struct json *a, const struct json *b)
{
	struct json_iter at_b = { .of = b };

	json_each(at_a, a)
		if (!json_next(&at_b) || !json_equal(at_a.val, at_b.val))
			return false;
	return true;
}

static bool same_order(const struct json *a, const struct json *b)
{
	struct json_iter at_b = { .of = b };

	json_each(at_a, a)
		if (!json_next(&at_b) || strcmp(at_a.key, at_b.key) != 0)
			return false;
	return true;
}

struct entry {
	const char *key;
	const struct json *val;
};

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

static struct entry *sorted_entries(const struct json *obj)
{
	struct entry *row = xnew_n(struct entry, json_len(obj));
	size_t n = 0;

	json_each(it, obj)
		row[n++] = (struct entry){ it.key, it.val };
	qsort(row, n, sizeof(*row), by_key);
	return row;
}

static bool objects_equal(const struct json *a, const struct json *b)
{
	autofree struct entry *row_a = NULL, *row_b = NULL;

	if (same_order(a, b))
		return lists_equal(a, b);
	row_a = sorted_entries(a);
	row_b = sorted_entries(b);
	for (size_t i = 0; i < json_len(a); i++)
		if (strcmp(row_a[i].key, row_b[i].key) != 0 ||
		    !json_equal(row_a[i].val, row_b[i].val))
			return false;
	return true;
}

bool json_equal(const struct json *a, const struct json *b)
{
	if (a == b || !a || !b)
		return a == b;
	if (yyjson_mut_is_num(val_of(a)) && yyjson_mut_is_num(val_of(b)))
		return numbers_equal(val_of(a), val_of(b));
	if (json_same(a, b))
		return true;
	if (json_type(a) != json_type(b) || json_len(a) != json_len(b))
		return false;
	switch (json_type(a)) {
	case JSON_BOOL:
		return json_bool(a, false) == json_bool(b, false);
	case JSON_STR:
		return strings_equal(a, b);
	case JSON_ARR:
		return lists_equal(a, b);
	case JSON_OBJ:
		return objects_equal(a, b);
	case JSON_NONE:
	case JSON_NULL:
	case JSON_INT:
	case JSON_REAL:
	case JSON_TYPE_MAX_:
		break;
	}
	return true;
}
