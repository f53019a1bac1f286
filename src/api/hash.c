/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/meta.h"
#include "base/buf.h"
#include "base/str.h"

/* Hashes that become label values: FNV-1a of 32 bits, of a name or of a tree in canonical form. */

static uint32_t fnv1a(const void *p, size_t len)
{
	const unsigned char *at = p;
	uint32_t h = 0x811c9dc5;

	for (size_t i = 0; i < len; i++)
		h = (h ^ at[i]) * 0x01000193;
	return h;
}

static void hash_text(const void *p, size_t len, char ret[9])
{
	(void)snprintf(ret, 9, "%08" PRIx32, fnv1a(p, len));
}

void name_hash(const char *s, char ret[9])
{
	hash_text(s, strlen(s), ret);
}

struct member {
	const char *key;
	const struct json *val;
};

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct member *)a)->key, ((const struct member *)b)->key);
}

static void write_canonical(const struct json *v, struct buf *out);

static void write_members(const struct json *obj, struct buf *out)
{
	autofree struct member *row = xnew_n(struct member, json_len(obj) + 1);
	size_t n = 0;

	json_each(it, obj)
		row[n++] = (struct member){ it.key, it.val };
	qsort(row, n, sizeof(*row), by_key);
	buf_add_char(out, '{');
	for (size_t i = 0; i < n; i++) {
		/* Member names are separated by a NUL, which none of them contains. */
		buf_add(out, row[i].key, strlen(row[i].key) + 1);
		write_canonical(row[i].val, out);
	}
	buf_add_char(out, '}');
}

/* Whole numbers are written as integers, so that 1 and 1.0 agree. */
static void write_canonical(const struct json *v, struct buf *out)
{
	int64_t i;

	switch (json_type(v)) {
	case JSON_OBJ:
		write_members(v, out);
		return;
	case JSON_ARR:
		buf_add_char(out, '[');
		json_each(it, v)
			write_canonical(it.val, out);
		buf_add_char(out, ']');
		return;
	case JSON_REAL:
		i = json_int(v, INT64_MIN);
		if (i != INT64_MIN) {
			buf_printf(out, "%" PRId64 ",", i);
			return;
		}
		break;
	case JSON_NONE:
	case JSON_NULL:
	case JSON_BOOL:
	case JSON_INT:
	case JSON_STR:
	case JSON_TYPE_MAX_:
		break;
	}
	json_write(v, out);
	buf_add_char(out, ',');
}

void name_hash_json(const struct json *v, char ret[9])
{
	autobuf text = { 0 };

	write_canonical(v, &text);
	hash_text(buf_str(&text), text.len, ret);
}
