/* SPDX-License-Identifier: Apache-2.0 */
#include "json/yaml_tree.h"

#include <ctype.h>
#include <stdlib.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * libyaml composes each document into nodes, which are copied into a JSON tree. An alias becomes a
 * copy of what it refers to, so values and bytes are limited: otherwise a few lines of nested
 * anchors, or many aliases of one long text, could expand to gigabytes.
 */
#define MAX_VALUES 200000
#define MAX_DEPTH  100
#define MAX_TEXT   (16u << 20) /* bytes of all scalars */

struct builder {
	yaml_document_t *y;
	struct json_doc *doc;
	unsigned n_values;
	size_t n_text;
};

static struct err *build(struct builder *b, yaml_node_t *n, unsigned depth, struct json **ret);

static struct err *bad(const yaml_node_t *n, const char *what)
{
	return err_new(ERR_MALFORMED, "read YAML: line %zu: %s", n->start_mark.line + 1, what);
}

static bool looks_like_number(const char *s)
{
	bool digit = false;

	for (const char *p = s; *p; p++) {
		if (!strchr("0123456789+-.eE", *p))
			return false;
		digit |= isdigit((unsigned char)*p) != 0;
	}
	return digit;
}

/* An unquoted scalar, by the core schema. */
static struct json *plain(struct json_doc *d, const char *s)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
	static const char *const trues[] = { "true", "True", "TRUE", NULL };
	static const char *const falses[] = { "false", "False", "FALSE", NULL };
	autoptr(err) e = NULL;
	int64_t i;
	char *end;
	double r;

	if (str_in(s, nulls))
		return json_new_null(d);
	if (str_in(s, trues) || str_in(s, falses))
		return json_new_bool(d, str_in(s, trues));
	if (!looks_like_number(s))
		return json_new_str(d, s);
	e = parse_int(*s == '+' ? s + 1 : s, INT64_MIN, INT64_MAX, &i);
	if (!e)
		return json_new_int(d, i);
	r = strtod(s, &end);
	return *end ? json_new_str(d, s) : json_new_real(d, r);
}

static struct err *build_map(struct builder *b, yaml_node_t *n, unsigned depth, struct json **ret)
{
	autoptr(map) seen = map_new_borrowing(NULL);
	struct json *obj = json_obj(b->doc);

	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top;
	     p++) {
		yaml_node_t *key = yaml_document_get_node(b->y, p->key);
		struct json *val = NULL;
		const char *name;
		struct err *e;

		if (key->type != YAML_SCALAR_NODE)
			return bad(key, "a key must be a scalar");
		name = (const char *)key->data.scalar.value;
		if (map_has(seen, name))
			return bad(key, "this key appears twice");
		map_put(seen, name, b);
		e = build(b, yaml_document_get_node(b->y, p->value), depth, &val);
		if (e)
			return e;
		json_add(b->doc, obj, name, val);
	}
	*ret = obj;
	return NULL;
}

static struct err *build_list(struct builder *b, yaml_node_t *n, unsigned depth, struct json **ret)
{
	struct json *arr = json_arr(b->doc);

	for (yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top;
	     i++) {
		struct json *val = NULL;
		struct err *e = build(b, yaml_document_get_node(b->y, *i), depth, &val);

		if (e)
			return e;
		json_push(b->doc, arr, val);
	}
	*ret = arr;
	return NULL;
}

static struct err *build(struct builder *b, yaml_node_t *n, unsigned depth, struct json **ret)
{
	if (n->type == YAML_SCALAR_NODE && (b->n_text += n->data.scalar.length) > MAX_TEXT)
		return err_new(ERR_TOO_LARGE, "read YAML: line %zu: more than %u bytes of text",
			       n->start_mark.line + 1, MAX_TEXT);
	if (depth > MAX_DEPTH || ++b->n_values > MAX_VALUES)
		return err_new(ERR_TOO_LARGE,
			       "read YAML: line %zu: more than %d levels or %d values",
			       n->start_mark.line + 1, MAX_DEPTH, MAX_VALUES);
	switch (n->type) {
	case YAML_SCALAR_NODE:
		if (n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
			*ret = plain(b->doc, (const char *)n->data.scalar.value);
		else
			*ret = json_new_strn(b->doc, (const char *)n->data.scalar.value,
					     n->data.scalar.length);
		return NULL;
	case YAML_SEQUENCE_NODE:
		return build_list(b, n, depth + 1, ret);
	case YAML_MAPPING_NODE:
		return build_map(b, n, depth + 1, ret);
	case YAML_NO_NODE:
		break;
	}
	*ret = json_new_null(b->doc);
	return NULL;
}

static struct err *next_document(yaml_parser_t *p, struct json_doc *into, struct json **ret,
				 bool *ret_more)
{
	yaml_document_t y;
	struct builder b = { .y = &y, .doc = into };
	yaml_node_t *root;
	struct err *e = NULL;

	if (!yaml_parser_load(p, &y))
		return err_new(ERR_MALFORMED, "read YAML: line %zu: %s", p->problem_mark.line + 1,
			       p->problem ? p->problem : "it cannot be parsed");
	root = yaml_document_get_root_node(&y);
	*ret_more = root != NULL;
	if (root)
		e = build(&b, root, 0, ret);
	yaml_document_delete(&y);
	return e;
}

struct err *yaml_parse_all(const char *text, size_t len, struct json_doc **ret)
{
	autoptr(json_doc) doc = json_doc_new();
	struct json *list = json_arr(doc);
	yaml_parser_t p;
	bool more = true;
	struct err *e = NULL;

	yaml_parser_initialize(&p);
	yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
	while (more && !e) {
		struct json *v = NULL;

		e = next_document(&p, doc, &v, &more);
		if (!e && more && !json_is(v, JSON_NULL))
			json_push(doc, list, v);
	}
	yaml_parser_delete(&p);
	if (e)
		return e;
	json_set_root(doc, list);
	*ret = take(doc);
	return NULL;
}

struct err *yaml_parse_one(const char *text, size_t len, struct json_doc **ret)
{
	autoptr(json_doc) all = NULL;
	struct json_doc *doc;
	struct err *e = yaml_parse_all(text, len, &all);

	if (e)
		return e;
	if (json_len(json_root(all)) != 1)
		return err_new(ERR_MALFORMED, "read YAML: expected one document, found %zu",
			       json_len(json_root(all)));
	doc = json_doc_new();
	json_set_root(doc, json_copy(doc, json_at(json_root(all), 0)));
	*ret = doc;
	return NULL;
}

static bool needs_quotes(const char *s)
{
	autoptr(json_doc) d = json_doc_new();

	if (!*s || strpbrk(s, ":#{}[],&*!|>'\"%@`\n\t\\") || isspace((unsigned char)*s) ||
	    strchr("-?=", *s))
		return true;
	return isspace((unsigned char)s[strlen(s) - 1]) || !json_is(plain(d, s), JSON_STR) ||
	       str_eq_nocase(s, "yes") || str_eq_nocase(s, "no") || str_eq_nocase(s, "on") ||
	       str_eq_nocase(s, "off") || str_eq_nocase(s, "y") || str_eq_nocase(s, "n");
}

static void write_scalar(const struct json *v, struct buf *out)
{
	if (json_is(v, JSON_STR) && !needs_quotes(json_str(v)))
		buf_add_str(out, json_str(v));
	else
		json_write(v, out); /* JSON scalars are valid YAML */
}

static void indent(struct buf *out, unsigned n)
{
	while (n--)
		buf_add_str(out, "  ");
}

static void write_value(const struct json *v, unsigned depth, bool in_list, struct buf *out)
{
	bool first = true;

	if (!json_is(v, JSON_OBJ) && !json_is(v, JSON_ARR)) {
		write_scalar(v, out);
		buf_add_char(out, '\n');
		return;
	}
	if (json_len(v) == 0) {
		buf_add_str(out, json_is(v, JSON_OBJ) ? "{}\n" : "[]\n");
		return;
	}
	json_each(it, v) {
		bool nested = json_len(it.val) > 0;

		if (!(first && in_list))
			indent(out, depth);
		first = false;
		if (it.key) {
			autoptr(json_doc) d = json_doc_new();

			write_scalar(json_new_str(d, it.key), out);
			buf_add_str(out, nested ? ":\n" : ": ");
			write_value(it.val, json_is(it.val, JSON_ARR) ? depth : depth + 1, false,
				    out);
		} else {
			buf_add_str(out, "- ");
			write_value(it.val, depth + 1, true, out);
		}
	}
}

void yaml_write(const struct json *v, struct buf *out)
{
	write_value(v, 0, false, out);
}
