/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "base/buf.h"
#include "base/str.h"
#include "json/json_priv.h"

/*
 * Documents, and changes to their trees. Every string that enters a tree is made valid UTF-8
 * without U+0000, so that everything we build can be written, and can be read again by our own
 * parser.
 */

static void *count_malloc(void *ctx, size_t len)
{
	*(size_t *)ctx += len;
	return xmalloc(len);
}

static void *count_realloc(void *ctx, void *p, size_t old_len, size_t len)
{
	*(size_t *)ctx += len - old_len;
	return xrealloc(p, len);
}

static void count_free(unused void *ctx, void *p)
{
	free(p);
}

struct json_doc *json_doc_new(void)
{
	struct json_doc *d = xnew(struct json_doc);
	const yyjson_alc alloc = { count_malloc, count_realloc, count_free, &d->mem };

	d->refs = 1;
	d->pool = yyjson_mut_doc_new(&alloc);
	return d;
}

struct json_doc *json_doc_from(yyjson_doc *read)
{
	struct json_doc *d = xnew(struct json_doc);
	const yyjson_alc alloc = { count_malloc, count_realloc, count_free, &d->mem };

	d->refs = 1;
	d->pool = yyjson_doc_mut_copy(read, &alloc);
	assert(d->pool);
	d->root = yyjson_mut_doc_get_root(d->pool);
	return d;
}

void json_doc_free(struct json_doc *d)
{
	if (!d || --d->refs)
		return;
	for (size_t i = 0; i < d->n_keeps; i++)
		json_doc_free(d->keeps[i]);
	if (d->pool) {
		yyjson_mut_doc_free(d->pool);
		free(d->keeps);
	}
	free(d);
}

struct json *json_root(const struct json_doc *d)
{
	return d ? json_of(d->root) : NULL;
}

void json_set_root(struct json_doc *d, struct json *v)
{
	d->root = val_of(v);
}

size_t json_doc_mem(const struct json_doc *d)
{
	size_t mem = d ? sizeof(*d) + d->mem : 0;

	for (size_t i = 0; d && i < d->n_keeps; i++)
		mem += json_doc_mem(d->keeps[i]);
	return mem;
}

struct json *json_obj(struct json_doc *d)
{
	return json_of(yyjson_mut_obj(d->pool));
}

struct json *json_arr(struct json_doc *d)
{
	return json_of(yyjson_mut_arr(d->pool));
}

struct json *json_new_null(struct json_doc *d)
{
	return json_of(yyjson_mut_null(d->pool));
}

struct json *json_new_bool(struct json_doc *d, bool b)
{
	return json_of(yyjson_mut_bool(d->pool, b));
}

struct json *json_new_int(struct json_doc *d, int64_t i)
{
	return json_of(yyjson_mut_sint(d->pool, i));
}

/* JSON cannot express infinity: write null, as JavaScript does. */
struct json *json_new_real(struct json_doc *d, double r)
{
	return isfinite(r) ? json_of(yyjson_mut_real(d->pool, r)) : json_new_null(d);
}

static yyjson_mut_val *new_repaired(struct json_doc *d, const char *s, size_t len)
{
	autobuf fixed = { 0 };

	for (size_t at = 0; at < len;) {
		size_t good = utf8_prefix(s + at, len - at);

		good = strnlen(s + at, good);
		buf_add(&fixed, s + at, good);
		at += good;
		if (at < len) {
			buf_add_str(&fixed, "\xef\xbf\xbd");
			at++;
		}
	}
	return yyjson_mut_strncpy(d->pool, buf_str(&fixed), fixed.len);
}

static yyjson_mut_val *new_text(struct json_doc *d, const char *s, size_t len)
{
	if (utf8_valid(s, len) && !memchr(s, 0, len))
		return yyjson_mut_strncpy(d->pool, s, len);
	return new_repaired(d, s, len);
}

struct json *json_new_strn(struct json_doc *d, const char *s, size_t len)
{
	return s ? json_of(new_text(d, s, len)) : json_new_null(d);
}

struct json *json_new_str(struct json_doc *d, const char *s)
{
	return json_new_strn(d, s, s ? strlen(s) : 0);
}

struct json *json_new_strf(struct json_doc *d, const char *fmt, ...)
{
	autobuf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	return json_new_strn(d, buf_str(&text), text.len);
}

/* The key of a member. In the ring, its value follows it. */
static yyjson_mut_val *find_key(const struct json *obj, const char *name)
{
	size_t len = strlen(name), n = yyjson_mut_obj_size(val_of(obj));
	yyjson_mut_val *key;

	if (!n)
		return NULL;
	key = val_of(obj)->uni.ptr;
	for (size_t i = 0; i < n; i++) {
		key = key->next->next;
		if (yyjson_mut_equals_strn(key, name, len))
			return key;
	}
	return NULL;
}

struct json *json_set(struct json_doc *d, struct json *obj, const char *key, struct json *val)
{
	yyjson_mut_val *at;

	assert(json_is(obj, JSON_OBJ));
	json_own(d, obj);
	if (!val) {
		json_del(obj, key);
		return NULL;
	}
	at = find_key(obj, key);
	if (at && at->next != val_of(val)) {
		val_of(val)->next = at->next->next;
		at->next = val_of(val);
	} else if (!at) {
		yyjson_mut_obj_add(val_of(obj), new_text(d, key, strlen(key)), val_of(val));
	}
	return val;
}

void json_add(struct json_doc *d, struct json *obj, const char *key, struct json *val)
{
	bool done;

	json_own(d, obj);
	done = yyjson_mut_obj_add(val_of(obj), new_text(d, key, strlen(key)), val_of(val));
	assert(done); /* not an object, or no value */
}

void json_set_str(struct json_doc *d, struct json *obj, const char *key, const char *s)
{
	json_set(d, obj, key, s ? json_new_str(d, s) : NULL);
}

void json_set_int(struct json_doc *d, struct json *obj, const char *key, int64_t i)
{
	json_set(d, obj, key, json_new_int(d, i));
}

void json_set_bool(struct json_doc *d, struct json *obj, const char *key, bool b)
{
	json_set(d, obj, key, json_new_bool(d, b));
}

static bool is_owned(const struct json *v)
{
	return !(val_of(v)->tag & MARKS);
}

bool json_del(struct json *obj, const char *key)
{
	assert(!obj || is_owned(obj));
	return obj && yyjson_mut_obj_remove_keyn(val_of(obj), key, strlen(key));
}

struct json *json_need_obj(struct json_doc *d, struct json *obj, const char *key)
{
	struct json *v = json_get(json_own(d, obj), key);

	return json_is(v, JSON_OBJ) ? json_own(d, v) : json_set(d, obj, key, json_obj(d));
}

struct json *json_need_arr(struct json_doc *d, struct json *obj, const char *key)
{
	struct json *v = json_get(json_own(d, obj), key);

	return json_is(v, JSON_ARR) ? json_own(d, v) : json_set(d, obj, key, json_arr(d));
}

void json_push(struct json_doc *d, struct json *arr, struct json *val)
{
	bool done = yyjson_mut_arr_append(val_of(json_own(d, arr)), val_of(val));

	assert(done); /* fails if it is not a list or there is no value */
}

void json_push_str(struct json_doc *d, struct json *arr, const char *s)
{
	json_push(d, arr, json_new_str(d, s));
}

void json_insert(struct json_doc *d, struct json *arr, size_t i, struct json *val)
{
	bool done = yyjson_mut_arr_insert(val_of(json_own(d, arr)), val_of(val), i);

	assert(done); /* fails if i is beyond the end or it is not a list */
}

void json_remove(struct json *arr, size_t i)
{
	assert(!arr || is_owned(arr));
	(void)yyjson_mut_arr_remove(val_of(arr), i); /* beyond the end there is nothing to remove */
}

void json_clear(struct json *v)
{
	assert(!(val_of(v)->tag & FROZEN));
	val_of(v)->tag &= ~(uint64_t)LENT;
	if (json_is(v, JSON_OBJ))
		yyjson_mut_obj_clear(val_of(v));
	else
		yyjson_mut_arr_clear(val_of(v));
}
