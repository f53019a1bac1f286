/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/apply/fields.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"

/* Sets of fields as text: FieldsV1 in and out, and paths for people. */

/* Reading */

struct reader {
	struct fields_mem *mem;
	size_t n_nodes;
};

static struct err *unreadable(const char *text, const char *why)
{
	return err_new(ERR_INVALID, "read fieldsV1: \"%.80s\": %s", text, why);
}

static bool is_scalar(const struct json *v)
{
	return v && !json_is(v, JSON_OBJ) && !json_is(v, JSON_ARR);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct elem_part *)a)->name, ((const struct elem_part *)b)->name);
}

static struct err *read_parts(struct reader *r, const char *text, const struct json *v,
			      struct elem *ret)
{
	struct elem_part *parts;
	size_t n = 0;

	if (!json_is(v, JSON_OBJ) || !json_len(v))
		return unreadable(text, "a key must be an object with members");
	if (json_len(v) > FIELDS_PARTS_MAX)
		return unreadable(text, "a key has more than 8 members");
	parts = arena_new_n(r->mem->arena, struct elem_part, json_len(v));
	json_each(it, v) {
		if (!is_scalar(it.val))
			return unreadable(text, "the members of a key must be scalars");
		parts[n++] = (struct elem_part){ it.key, it.val };
	}
	qsort(parts, n, sizeof(*parts), compare_names);
	*ret = (struct elem){ .type = ELEM_KEY, .parts = parts, .n_parts = n };
	return NULL;
}

static struct err *read_json(struct reader *r, const char *text, struct elem *ret)
{
	const struct json_limits limits = { .max_len = FIELDS_TEXT_MAX, .max_depth = 4 };
	autoptr(json_doc) parsed = NULL;
	struct elem_part *part;
	struct json *v;
	struct err *e = json_parse(text + 2, strlen(text + 2), &limits, &parsed);

	if (e) {
		err_free(e);
		return unreadable(text, "what follows the colon must be short JSON");
	}
	v = json_copy(r->mem->doc, json_root(parsed));
	if (*text == 'k')
		return read_parts(r, text, v, ret);
	if (!is_scalar(v))
		return unreadable(text, "a value must be a scalar");
	part = arena_new_of(r->mem->arena, struct elem_part);
	part->val = v;
	*ret = (struct elem){ .type = ELEM_VALUE, .parts = part, .n_parts = 1 };
	return NULL;
}

/* *ret_known is false for types that a later version may have. */
static struct err *read_elem(struct reader *r, const char *text, struct elem *ret, bool *ret_known)
{
	int64_t i;
	struct err *e;

	*ret_known = true;
	if (strlen(text) < 2 || text[1] != ':')
		return unreadable(text, "an element begins with f:, k:, v: or i:");
	switch (*text) {
	case 'f':
		*ret = elem_field(text + 2);
		return NULL;
	case 'k':
	case 'v':
		return read_json(r, text, ret);
	case 'i':
		e = parse_int(text + 2, INT32_MIN, INT32_MAX, &i);
		if (e) {
			err_free(e);
			return unreadable(text, "what follows i: must be a number");
		}
		*ret = (struct elem){ .type = ELEM_INDEX, .index = i };
		return NULL;
	default:
		*ret_known = false;
		return NULL;
	}
}

static struct err *read_set(struct reader *r, const struct json *v, const struct fields **ret);

/* Recurses as deeply as the text is nested, which the parser limits. */
static struct err *read_member(struct reader *r, struct fields *into, const char *text,
			       const struct json *v)
{
	struct fields_node n = { 0 };
	bool known;
	struct err *e = read_elem(r, text, &n.elem, &known);

	if (e || !known)
		return e;
	if (++r->n_nodes > FIELDS_NODES_MAX)
		return err_new(ERR_TOO_LARGE, "read fieldsV1: more than %d elements",
			       FIELDS_NODES_MAX);
	e = read_set(r, v, &n.sub);
	if (e)
		return e;
	n.member = fields_empty(n.sub) || json_get(v, ".");
	fields_add(r->mem, into, &n);
	return NULL;
}

/* The same element twice, in two spellings of a key, is one. */
static const struct fields *without_twins(struct fields_mem *mem, const struct fields *s)
{
	bool twins = false;

	for (size_t i = 1; i < s->n; i++)
		twins |= !elem_compare(&s->nodes[i - 1].elem, &s->nodes[i].elem);
	if (!twins)
		return s;
	struct fields *out = arena_new_of(mem->arena, struct fields);

	for (size_t i = 0; i < s->n; i++) {
		struct fields_node *last = out->n ? &out->nodes[out->n - 1] : NULL;

		if (!last || elem_compare(&last->elem, &s->nodes[i].elem)) {
			fields_add(mem, out, &s->nodes[i]);
			continue;
		}
		last->member |= s->nodes[i].member;
		last->sub = fields_union(mem, last->sub, s->nodes[i].sub);
	}
	return out;
}

static struct err *read_set(struct reader *r, const struct json *v, const struct fields **ret)
{
	struct fields *s = arena_new_of(r->mem->arena, struct fields);

	if (!json_is(v, JSON_OBJ))
		return err_new(ERR_INVALID, "read fieldsV1: an element must be an object");
	json_each(it, v) {
		struct err *e = str_eq(it.key, ".") ? NULL : read_member(r, s, it.key, it.val);

		if (e)
			return e;
	}
	fields_seal(s);
	*ret = without_twins(r->mem, s);
	return NULL;
}

struct err *fields_parse(struct fields_mem *mem, const struct json *v, const struct fields **ret)
{
	struct reader r = { .mem = mem };

	return read_set(&r, v, ret);
}

/* Writing */

static void write_key(const struct elem *e, struct buf *out)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);

	for (size_t i = 0; i < e->n_parts; i++)
		json_add(d, o, e->parts[i].name, json_copy(d, e->parts[i].val));
	json_write(o, out);
}

static void write_elem(const struct elem *e, struct buf *out)
{
	static const char letters[ELEM_TYPE_MAX_] = {
		[ELEM_FIELD] = 'f',
		[ELEM_KEY] = 'k',
		[ELEM_VALUE] = 'v',
		[ELEM_INDEX] = 'i',
	};

	buf_add_char(out, letters[e->type]);
	buf_add_char(out, ':');
	switch (e->type) {
	case ELEM_FIELD:
		buf_add_str(out, e->name);
		return;
	case ELEM_KEY:
		write_key(e, out);
		return;
	case ELEM_VALUE:
		json_write(e->parts[0].val, out);
		return;
	case ELEM_INDEX:
	case ELEM_TYPE_MAX_:
		break;
	}
	buf_printf(out, "%lld", (long long)e->index);
}

static struct json *print(struct json_doc *d, const struct fields *s, bool self)
{
	struct json *o = json_obj(d);
	autobuf key = { 0 };

	if (self && !fields_empty(s))
		json_add(d, o, ".", json_obj(d));
	for (size_t i = 0; s && i < s->n; i++) {
		const struct fields_node *n = &s->nodes[i];

		buf_clear(&key);
		write_elem(&n->elem, &key);
		json_add(d, o, buf_str(&key), print(d, n->sub, n->member));
	}
	return o;
}

struct json *fields_print(struct json_doc *d, const struct fields *s)
{
	return print(d, s, false);
}

bool fields_meet(const struct fields *s, const struct json *v)
{
	autobuf key = { 0 };

	for (size_t i = 0; s && i < s->n; i++) {
		const struct fields_node *n = &s->nodes[i];
		const struct json *there;

		buf_clear(&key);
		write_elem(&n->elem, &key);
		there = json_get(v, buf_str(&key));
		if (!there)
			continue;
		if (n->member && (!json_len(there) || json_get(there, ".")))
			return true;
		if (fields_meet(n->sub, there))
			return true;
	}
	return false;
}

/* Paths */

void elem_path(const struct elem *e, struct buf *out)
{
	switch (e->type) {
	case ELEM_FIELD:
		buf_printf(out, ".%s", e->name);
		return;
	case ELEM_KEY:
		buf_add_char(out, '[');
		for (size_t i = 0; i < e->n_parts; i++) {
			buf_printf(out, "%s%s=", i ? "," : "", e->parts[i].name);
			json_write(e->parts[i].val, out);
		}
		buf_add_char(out, ']');
		return;
	case ELEM_VALUE:
		buf_add_str(out, "[=");
		json_write(e->parts[0].val, out);
		buf_add_char(out, ']');
		return;
	case ELEM_INDEX:
	case ELEM_TYPE_MAX_:
		break;
	}
	buf_printf(out, "[%lld]", (long long)e->index);
}

struct path_walk {
	struct buf at;
	void (*fn)(void *arg, const char *path);
	void *arg;
};

/* First the members of a set, then what is below them, as Kubernetes lists them. */
static void walk(struct path_walk *w, const struct fields *s)
{
	size_t len = w->at.len;

	for (size_t i = 0; s && i < s->n; i++) {
		if (!s->nodes[i].member)
			continue;
		elem_path(&s->nodes[i].elem, &w->at);
		w->fn(w->arg, buf_str(&w->at));
		w->at.len = len;
	}
	for (size_t i = 0; s && i < s->n; i++) {
		if (!s->nodes[i].sub)
			continue;
		elem_path(&s->nodes[i].elem, &w->at);
		walk(w, s->nodes[i].sub);
		w->at.len = len;
	}
}

void fields_each(const struct fields *s, void (*fn)(void *arg, const char *path), void *arg)
{
	struct path_walk w = { .fn = fn, .arg = arg };

	walk(&w, s);
	buf_done(&w.at);
}
