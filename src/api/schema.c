/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schema.h"

#include <assert.h>

#include "api/schema_priv.h"
#include "base/buf.h"
#include "base/str.h"

/*
 * Pruning and defaulting. The walk goes down the table and the tree side by side, so its depth is
 * the table's, whatever a peer sends.
 */

static void add_path(const struct path *p, struct buf *out)
{
	if (p->up)
		add_path(p->up, out);
	if (!p->name)
		buf_printf(out, "[%zu]", p->index);
	else if (p->key)
		buf_printf(out, "[%s]", p->name);
	else if (*p->name)
		buf_printf(out, "%s%s", out->len ? "." : "", p->name);
}

char *path_text(const struct path *p)
{
	autobuf out = { 0 };

	add_path(p, &out);
	return buf_steal(&out, NULL);
}

const struct field *schema_field(const struct type *t, const char *name)
{
	if (!t || !t->fields)
		return NULL;
	for (const struct field *f = t->fields; f->name; f++)
		if (f->name[0] == name[0] && !strcmp(f->name, name))
			return f;
	return NULL;
}

static void prune(struct json_doc *d, struct json *v, const struct type *t, const struct path *at,
		  struct causes *unknown);

static void tell_unknown(const struct path *up, const char *name, struct causes *unknown)
{
	struct path at = { .up = up, .name = name };
	autofree char *text = NULL;

	if (!unknown)
		return;
	text = path_text(&at);
	causes_add(unknown, CAUSE_UNKNOWN, text, "unknown field \"%s\"", text);
}

/* Keeps the members the table knows. A table has few, so this stays cheap for any number sent. */
static void keep_known(struct json_doc *d, struct json *v, const struct type *t)
{
	struct member {
		const struct field *field;
		struct json *val;
	};
	autofree struct member *kept = xnew_n(struct member, json_len(v) + 1);
	size_t n = 0;

	json_each(it, v) {
		const struct field *f = schema_field(t, it.key);

		if (f && (!json_is(it.val, JSON_NULL) || f->type->kind == TYPE_ANY))
			kept[n++] = (struct member){ f, it.val };
	}
	json_clear(v);
	for (size_t i = 0; i < n; i++)
		json_set(d, v, kept[i].field->name, kept[i].val);
}

static void prune_object(struct json_doc *d, struct json *v, const struct type *t,
			 const struct path *at, struct causes *unknown)
{
	bool odd = false;

	json_each(it, v) {
		const struct field *f = schema_field(t, it.key);
		struct path here = { .up = at, .name = it.key };

		if (!f) {
			tell_unknown(at, it.key, unknown);
			odd = true;
		} else if (json_is(it.val, JSON_NULL)) {
			odd |= f->type->kind != TYPE_ANY; /* null says: not given */
		} else {
			prune(d, it.val, f->type, &here, unknown);
		}
	}
	if (odd)
		keep_known(d, v, t);
}

static void prune(struct json_doc *d, struct json *v, const struct type *t, const struct path *at,
		  struct causes *unknown)
{
	size_t i = 0;

	if (t->kind == TYPE_OBJECT && json_is(v, JSON_OBJ)) {
		prune_object(d, v, t, at, unknown);
		return;
	}
	if ((t->kind != TYPE_LIST || !json_is(v, JSON_ARR)) &&
	    (t->kind != TYPE_MAP || !json_is(v, JSON_OBJ)))
		return;
	if (t->elem->kind != TYPE_OBJECT && t->elem->kind != TYPE_LIST && t->elem->kind != TYPE_MAP)
		return;
	json_each(it, v) {
		struct path here = { .up = at, .name = it.key, .index = i++ };

		prune(d, it.val, t->elem, &here, unknown);
	}
}

void schema_prune(struct json_doc *d, struct json *v, const struct type *t, struct causes *unknown)
{
	struct path root = { .name = "" };

	prune(d, v, t, &root, unknown);
}

/* Most defaults are plain words; anything else goes through the parser. */
struct json *schema_fallback(struct json_doc *d, const struct field *f)
{
	const char *text = f->fallback;
	autoptr(json_doc) parsed = NULL;
	size_t len = strlen(text);
	struct err *e;

	if (len >= 2 && text[0] == '"' && !memchr(text, '\\', len))
		return json_new_strn(d, text + 1, len - 2);
	e = json_parse(text, len, NULL, &parsed);
	assert(!e); /* the tables are ours */
	return json_copy(d, json_root(parsed));
}

static void default_object(struct json_doc *d, struct json *v, const struct type *t)
{
	for (const struct field *f = t->fields; f->name; f++)
		if (f->fallback && !json_get(v, f->name))
			json_set(d, v, f->name, schema_fallback(d, f));
	json_each(it, v) {
		const struct field *f = schema_field(t, it.key);

		if (f)
			schema_default(d, it.val, f->type);
	}
}

void schema_default(struct json_doc *d, struct json *v, const struct type *t)
{
	if (t->kind == TYPE_OBJECT && json_is(v, JSON_OBJ)) {
		default_object(d, v, t);
		return;
	}
	if ((t->kind != TYPE_LIST || !json_is(v, JSON_ARR)) &&
	    (t->kind != TYPE_MAP || !json_is(v, JSON_OBJ)))
		return;
	if (t->elem->kind != TYPE_OBJECT && t->elem->kind != TYPE_LIST)
		return;
	json_each(it, v)
		schema_default(d, it.val, t->elem);
}
