/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/str.h"
#include "json/json_priv.h"

/*
 * Parsing. The text is first scanned for what would be dangerous to build: nesting that is too
 * deep, and U+0000, which would end a C string early and let two readers see two different texts.
 * Then yyjson parses it, duplicate members are rejected or reported, and the result is copied into
 * a tree that can be changed.
 */
enum {
	DEFAULT_MAX_LEN = 16 * 1024 * 1024,
	DEFAULT_MAX_DEPTH = 256,
	FEW = 16, /* up to this many names are compared pairwise */
};

static struct err *malformed(const char *text, size_t len, size_t pos, const char *why)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < MIN(pos, len); i++) {
		column = text[i] == '\n' ? 1 : column + 1;
		line += text[i] == '\n';
	}
	return err_new(ERR_MALFORMED, "read JSON at line %zu, column %zu: %s", line, column, why);
}

/*
 * *at is at the quote that opens a string and is left at the one that closes it, or at the end of
 * the text.
 */
static struct err *scan_string(const char *text, size_t len, size_t *at)
{
	size_t i;

	for (i = *at + 1; i < len && text[i] != '"'; i++) {
		if (text[i] != '\\')
			continue;
		if (len - i >= 6 && !memcmp(text + i, "\\u0000", 6))
			return malformed(text, len, i, "U+0000 in a string");
		i++;
	}
	*at = i;
	return NULL;
}

static struct err *scan(const char *text, size_t len, unsigned max_depth)
{
	unsigned depth = 0;
	struct err *e;

	for (size_t i = 0; i < len; i++) {
		switch (text[i]) {
		case '"':
			e = scan_string(text, len, &i);
			if (e)
				return e;
			break;
		case '[':
		case '{':
			if (++depth > max_depth)
				return malformed(text, len, i, "nested too deeply");
			break;
		case ']':
		case '}':
			depth -= depth > 0; /* the parser rejects an unmatched one */
			break;
		default:
			break;
		}
	}
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	const yyjson_val *x = *(yyjson_val *const *)a, *y = *(yyjson_val *const *)b;
	size_t x_len = yyjson_get_len((yyjson_val *)x), y_len = yyjson_get_len((yyjson_val *)y);
	int order = memcmp(yyjson_get_str((yyjson_val *)x), yyjson_get_str((yyjson_val *)y),
			   MIN(x_len, y_len));

	return order ? order : (x_len > y_len) - (x_len < y_len);
}

/* Sorts the names. Returns one that occurs twice, or NULL. */
static const char *twin_of_many(yyjson_val **names, size_t n)
{
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 1; i < n; i++)
		if (!by_name(&names[i - 1], &names[i]))
			return yyjson_get_str(names[i]);
	return NULL;
}

/* Most names differ in length already. */
static bool same_name(yyjson_val *a, yyjson_val *b)
{
	size_t len = yyjson_get_len(a);

	return len == yyjson_get_len(b) && !memcmp(yyjson_get_str(a), yyjson_get_str(b), len);
}

static const char *twin_of_few(yyjson_val **names, size_t n)
{
	for (size_t i = 1; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (same_name(names[j], names[i]))
				return yyjson_get_str(names[i]);
	return NULL;
}

/* The name of a member that occurs twice in obj, or NULL. */
static const char *find_twin(yyjson_val *obj)
{
	size_t n = yyjson_obj_size(obj), i = 0;
	yyjson_obj_iter it = yyjson_obj_iter_with(obj);
	yyjson_val *few[FEW], *name;
	autofree yyjson_val **many = NULL;

	if (n < 2)
		return NULL;
	if (n > FEW)
		many = xnew_n(yyjson_val *, n);
	while ((name = yyjson_obj_iter_next(&it)))
		(many ? many : few)[i++] = name;
	return many ? twin_of_many(many, i) : twin_of_few(few, i);
}

/* yyjson keeps all values of a parsed document in one array, each container before its contents. */
static const char *any_twin(yyjson_doc *doc)
{
	yyjson_val *v = yyjson_doc_get_root(doc);
	size_t n = yyjson_doc_get_val_count(doc);

	for (size_t i = 0; i < n; i++, v++) {
		const char *twin = yyjson_is_obj(v) ? find_twin(v) : NULL;

		if (twin)
			return twin;
	}
	return NULL;
}

static struct err *settle_twins(yyjson_doc *doc, bool *ret_any)
{
	const char *twin = any_twin(doc);

	if (twin && !ret_any)
		return err_new(ERR_MALFORMED, "read JSON: member \"%.100s\" appears twice", twin);
	if (ret_any)
		*ret_any = twin != NULL;
	return NULL;
}

struct err *json_parse(const char *text, size_t len, const struct json_limits *limits,
		       struct json_doc **ret)
{
	size_t max_len = limits && limits->max_len ? limits->max_len : DEFAULT_MAX_LEN;
	unsigned max_depth = limits && limits->max_depth ? limits->max_depth : DEFAULT_MAX_DEPTH;
	yyjson_read_err why;
	yyjson_doc *doc;
	struct err *e;

	if (len > max_len)
		return err_new(ERR_TOO_LARGE, "read JSON: %zu bytes is more than the limit of %zu",
			       len, max_len);
	e = scan(text, len, max_depth);
	if (e)
		return e;
	/*
	 * Without the in-place flag yyjson does not write to the text, whatever its prototype says.
	 */
	doc = yyjson_read_opts((char *)text, len, YYJSON_READ_NOFLAG, NULL, &why);
	if (!doc)
		return malformed(text, len, why.pos, why.msg);
	e = settle_twins(doc, limits ? limits->duplicates : NULL);
	if (!e)
		*ret = json_doc_from(doc);
	yyjson_doc_free(doc);
	return e;
}
