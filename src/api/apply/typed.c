/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apply/typed.h"

#include <stdlib.h>
#include <string.h>

#include "api/apply/typed_priv.h"
#include "api/schema_priv.h"
#include "base/arena.h"
#include "base/str.h"

/*
 * What all walks share: how a type looks to server-side apply, and the members of an object or the
 * elements of a list in the order of their path elements, so that two can be walked side by side.
 */

static enum shape shape_by_value(const struct json *v)
{
	return json_is(v, JSON_OBJ) ? SHAPE_MAP : SHAPE_LEAF; /* lists without a type are atomic */
}

enum shape shape_of(const struct type *t, const struct json *v)
{
	bool none = !v || json_is(v, JSON_NULL);

	if (!t || t->kind == TYPE_ANY)
		return shape_by_value(v);
	switch (t->kind) {
	case TYPE_OBJECT:
	case TYPE_MAP:
		return !t->atomic && (none || json_is(v, JSON_OBJ)) ? SHAPE_MAP : SHAPE_LEAF;
	case TYPE_LIST:
		return t->list != LIST_ATOMIC && (none || json_is(v, JSON_ARR)) ? SHAPE_LIST
										: SHAPE_LEAF;
	default:
		return SHAPE_LEAF;
	}
}

enum shape shape_of_both(const struct type *t, const struct json *a, const struct json *b)
{
	enum shape x = shape_of(t, a), y = shape_of(t, b);

	if (is_blank(a) && is_blank(b))
		return SHAPE_LEAF; /* that keeps null and empty apart */
	if (!a || json_is(a, JSON_NULL))
		return y;
	return !b || json_is(b, JSON_NULL) || x == y ? x : SHAPE_LEAF;
}

bool is_blank(const struct json *v)
{
	if (!v || json_is(v, JSON_NULL))
		return true;
	return (json_is(v, JSON_OBJ) || json_is(v, JSON_ARR)) && !json_len(v);
}

const struct type *member_type(const struct type *t, const char *name)
{
	const struct field *f;

	if (!t || t->kind == TYPE_ANY)
		return NULL;
	if (t->kind == TYPE_MAP)
		return t->elem;
	f = schema_field(t, name);
	return f ? f->type : NULL;
}

bool is_declared(const struct type *t, const char *name)
{
	return t && t->kind == TYPE_OBJECT && schema_field(t, name);
}

/* Keys of list elements */

/* An element without a key counts as having its default. */
static const struct json *key_default(struct fields_mem *mem, const struct type *elem,
				      const char *name)
{
	const struct field *f = schema_field(elem, name);

	return f && f->fallback ? schema_fallback(mem->doc, f) : NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct elem_part *)a)->name, ((const struct elem_part *)b)->name);
}

static const char *key_elem(struct fields_mem *mem, const struct type *list,
			    const struct json *item, struct elem *ret)
{
	struct elem_part *parts;
	size_t n = 0;

	if (json_is(item, JSON_NULL))
		return "associative list with keys may not have a null element";
	if (!json_is(item, JSON_OBJ))
		return "associative list with keys may not have non-map elements";
	parts = arena_new_n(mem->arena, struct elem_part, ARRAY_LEN(list->merge_keys));
	for (size_t i = 0; i < ARRAY_LEN(list->merge_keys) && list->merge_keys[i]; i++) {
		const char *name = list->merge_keys[i];
		const struct json *v = json_get(item, name);

		if (!v)
			v = key_default(mem, list->elem, name);
		if (v && (json_is(v, JSON_OBJ) || json_is(v, JSON_ARR)))
			return "associative list with keys has a key that is no scalar";
		if (v)
			parts[n++] = (struct elem_part){ name, v };
	}
	if (!n)
		return "associative list with keys has an element that omits all key fields";
	qsort(parts, n, sizeof(*parts), compare_names);
	*ret = (struct elem){ .type = ELEM_KEY, .parts = parts, .n_parts = n };
	return NULL;
}

const char *item_elem(struct fields_mem *mem, const struct type *list, const struct json *item,
		      struct elem *ret)
{
	struct elem_part *part;

	if (list->list == LIST_MAP)
		return key_elem(mem, list, item, ret);
	if (json_is(item, JSON_OBJ))
		return "associative list without keys has an element that's a map type";
	if (json_is(item, JSON_ARR))
		return "not supported: associative list with lists as elements";
	if (json_is(item, JSON_NULL))
		return "associative list without keys has an element that's an explicit null";
	part = arena_new_of(mem->arena, struct elem_part);
	part->val = item;
	*ret = (struct elem){ .type = ELEM_VALUE, .parts = part, .n_parts = 1 };
	return NULL;
}

/* Entries */

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = elem_compare(&x->elem, &y->elem);

	return c ? c : (x->at > y->at) - (x->at < y->at);
}

struct entries entries_of(struct fields_mem *mem, const struct type *t, const struct json *v)
{
	struct entries e = { 0 };
	bool is_list = json_is(v, JSON_ARR);
	size_t at = 0;

	if (!json_len(v))
		return e;
	e.list = arena_new_n(mem->arena, struct entry, json_len(v));
	json_each(it, v) {
		struct entry *to = &e.list[e.n];

		*to = (struct entry){ .val = it.val, .at = at++ };
		if (!is_list)
			to->elem = elem_field(it.key);
		else if (item_elem(mem, t, it.val, &to->elem))
			continue;
		e.n++;
	}
	if (e.n > 1)
		qsort(e.list, e.n, sizeof(*e.list), compare_entries);
	for (size_t i = e.n; i-- > 0;)
		e.list[i].same = i + 1 < e.n && !elem_compare(&e.list[i].elem, &e.list[i + 1].elem)
					 ? e.list[i + 1].same + 1
					 : 1;
	return e;
}

static int compare_to_elem(const void *key, const void *entry)
{
	return elem_compare(key, &((const struct entry *)entry)->elem);
}

const struct entry *entries_find(const struct entries *e, const struct elem *elem)
{
	const struct entry *at =
		e->n ? bsearch(elem, e->list, e->n, sizeof(*e->list), compare_to_elem) : NULL;

	while (at && at > e->list && !elem_compare(&at[-1].elem, elem))
		at--;
	return at;
}

/* The fields of a tree */

static const struct fields *fields_of(struct fields_mem *mem, const struct json *v,
				      const struct type *t)
{
	struct entries all = entries_of(mem, t, v);
	bool is_list = json_is(v, JSON_ARR);
	struct fields *s = arena_new_of(mem->arena, struct fields);

	for (size_t i = 0; i < all.n; i += all.list[i].same) {
		const struct entry *e = &all.list[i];
		const struct type *et = is_list ? t->elem : member_type(t, e->elem.name);
		struct fields_node n = { .elem = e->elem };
		bool leaf = shape_of(et, e->val) == SHAPE_LEAF;

		/* A null or empty member of an object is a field; an empty list is not. */
		n.member = is_list || leaf || json_is(e->val, JSON_NULL) ||
			   (json_is(e->val, JSON_OBJ) && !json_len(e->val)) ||
			   !is_declared(t, e->elem.name);
		if (!leaf && e->same == 1)
			n.sub = fields_of(mem, e->val, et);
		fields_add(mem, s, &n);
	}
	return s;
}

const struct fields *typed_fields(struct fields_mem *mem, const struct json *v,
				  const struct type *t)
{
	return fields_of(mem, v, t);
}

const struct fields *typed_named(struct fields_mem *mem, const struct fields *s,
				 const struct type *t)
{
	struct fields *out;

	if (!s || !s->n)
		return s;
	out = arena_new_of(mem->arena, struct fields);
	for (size_t i = 0; i < s->n; i++) {
		struct fields_node n = s->nodes[i];
		const struct type *below = NULL;

		if (n.elem.type == ELEM_FIELD) {
			n.member |= n.sub && is_declared(t, n.elem.name);
			below = member_type(t, n.elem.name);
		} else if (n.elem.type == ELEM_KEY && t && t->kind == TYPE_LIST) {
			below = t->elem;
		}
		n.sub = typed_named(mem, n.sub, below);
		fields_add(mem, out, &n);
	}
	return out;
}

/* A new object */

static struct json *zero_of(struct json_doc *d, const struct field *f)
{
	if (f->type->kind == TYPE_OBJECT && !(f->flags & FIELD_POINTER))
		return typed_zero(d, f->type);
	if (f->flags & FIELD_OMITEMPTY)
		return NULL;
	switch (f->type->kind) {
	case TYPE_STRING:
		return json_new_str(d, "");
	case TYPE_BOOL:
		return json_new_bool(d, false);
	case TYPE_INT32:
	case TYPE_INT64:
	case TYPE_NUMBER:
		return json_new_int(d, 0);
	default:
		return json_new_null(d);
	}
}

struct json *typed_zero(struct json_doc *d, const struct type *t)
{
	struct json *o = json_obj(d);

	if (t->structural)
		return o;
	for (const struct field *f = t->fields; f && f->name; f++) {
		struct json *v = zero_of(d, f);

		if (v)
			json_add(d, o, f->name, v);
	}
	return o;
}
