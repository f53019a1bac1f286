/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schema.h"

#include <assert.h>

#include "api/crd/custom.h"
#include "api/schema_priv.h"
#include "base/buf.h"
#include "base/str.h"

/*
 * Paths, fields and defaulting. The walk goes down the table and the tree side by side, so its
 * depth is the table's, whatever a peer sends.
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

const struct type *type_in_full(const struct type *t)
{
	return t->custom ? custom_as_type(t->custom) : t;
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

static void fill(struct json_doc *d, struct json *v, const struct type *t, const struct json *was,
		 bool structural);

/* In a Go struct an empty text is no default that anybody sees; in a custom resource it is one. */
static bool is_omitted(const struct field *f)
{
	return (f->flags & FIELD_OMITEMPTY) && !strcmp(f->fallback, "\"\"");
}

static void default_object(struct json_doc *d, struct json *v, const struct type *t,
			   const struct json *was, bool structural)
{
	struct json_iter old = { .of = was };

	for (const struct field *f = t->fields; f->name; f++)
		if (f->fallback && (structural || !is_omitted(f)) && !json_get(v, f->name))
			json_set(d, v, f->name, schema_fallback(d, f));
	json_each(it, v) {
		const struct json *there = json_follow(&old, &it);
		const struct field *f = json_same(it.val, there) ? NULL : schema_field(t, it.key);

		if (f)
			fill(d, it.val, f->type, there, structural);
	}
}

static void fill(struct json_doc *d, struct json *v, const struct type *t, const struct json *was,
		 bool structural)
{
	struct json_iter old = { .of = was };

	if (json_same(v, was))
		return;
	(void)json_own(d, v);
	if (t->kind == TYPE_OBJECT && json_is(v, JSON_OBJ)) {
		default_object(d, v, t, was, structural);
		return;
	}
	if ((t->kind != TYPE_LIST || !json_is(v, JSON_ARR)) &&
	    (t->kind != TYPE_MAP || !json_is(v, JSON_OBJ)))
		return;
	if (t->elem->kind != TYPE_OBJECT && t->elem->kind != TYPE_LIST)
		return;
	json_each(it, v)
		fill(d, it.val, t->elem, json_follow(&old, &it), structural);
}

void schema_default(struct json_doc *d, struct json *v, const struct type *t,
		    const struct json *was)
{
	if (!t->custom)
		fill(d, v, t, was, t->structural);
	else if (!json_same(v, was))
		custom_default(d, v, t->custom);
}
