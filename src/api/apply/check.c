/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apply/typed_priv.h"
#include "api/schema_priv.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

/* Whether a tree can be applied: the first thing in it that cannot, in Kubernetes' words. */
struct place {
	const struct place *up;
	struct elem elem;
};

static void write_place(const struct place *p, struct buf *out)
{
	if (!p->up)
		return;
	write_place(p->up, out);
	elem_path(&p->elem, out);
}

static struct err *wrong(const struct place *p, const char *what)
{
	autobuf b = { 0 };

	write_place(p, &b);
	return b.len ? err_new(ERR_INVALID, "%s: %s", buf_str(&b), what)
		     : err_new(ERR_INVALID, "%s", what);
}

static struct err *unexpected(const struct place *p, const char *want, const struct json *v)
{
	autofree char *text = json_to_text(v), *what = NULL;

	what = xasprintf("expected %s, got %.200s", want, text);
	return wrong(p, what);
}

static struct err *check(struct fields_mem *mem, const struct json *v, const struct type *t,
			 const struct place *p);

static struct err *check_map(struct fields_mem *mem, const struct json *v, const struct type *t,
			     const struct place *p)
{
	json_each(it, v) {
		struct place at = { p, elem_field(it.key) };
		struct err *e;

		if (t->kind == TYPE_OBJECT && t->fields && !t->open && !schema_field(t, it.key))
			return wrong(&at, "field not declared in schema");
		e = check(mem, it.val, member_type(t, it.key), &at);
		if (e)
			return e;
	}
	return NULL;
}

static struct err *check_twins(struct fields_mem *mem, const struct json *v, const struct type *t,
			       const struct place *p)
{
	struct entries all = entries_of(mem, t, v);

	for (size_t i = 0; i < all.n; i++)
		if (all.list[i].same > 1) {
			autobuf b = { 0 };

			buf_add_str(&b, "duplicate entries for key ");
			elem_path(&all.list[i].elem, &b);
			return wrong(p, buf_str(&b));
		}
	return NULL;
}

static struct err *check_list(struct fields_mem *mem, const struct json *v, const struct type *t,
			      const struct place *p)
{
	int64_t i = 0;

	json_each(it, v) {
		struct place at = { p, { .type = ELEM_INDEX, .index = i } };
		const char *why =
			t->list == LIST_ATOMIC ? NULL : item_elem(mem, t, it.val, &at.elem);
		struct err *e;

		if (why) {
			autofree char *text = xasprintf("element %lld: %s", (long long)i, why);

			return wrong(p, text);
		}
		e = check(mem, it.val, t->elem, &at);
		if (e)
			return e;
		i++;
	}
	return t->list == LIST_ATOMIC ? NULL : check_twins(mem, v, t, p);
}

static struct err *check_scalar(const struct json *v, const struct type *t, const struct place *p)
{
	bool number = json_is(v, JSON_INT) || json_is(v, JSON_REAL);

	switch (t->kind) {
	case TYPE_STRING:
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
	case TYPE_BYTES:
		return json_is(v, JSON_STR) ? NULL : unexpected(p, "string", v);
	case TYPE_BOOL:
		return json_is(v, JSON_BOOL) ? NULL : unexpected(p, "boolean", v);
	case TYPE_INT32:
	case TYPE_INT64:
	case TYPE_NUMBER:
		return number ? NULL : unexpected(p, "numeric (int or float)", v);
	default:
		return json_is(v, JSON_OBJ) || json_is(v, JSON_ARR) ? unexpected(p, "any scalar", v)
								    : NULL;
	}
}

/* Recurses as deeply as the type, and below values without one not at all. */
static struct err *check(struct fields_mem *mem, const struct json *v, const struct type *t,
			 const struct place *p)
{
	if (!t || t->kind == TYPE_ANY || json_is(v, JSON_NULL))
		return NULL;
	if (t->kind == TYPE_OBJECT || t->kind == TYPE_MAP)
		return json_is(v, JSON_OBJ) ? check_map(mem, v, t, p) : unexpected(p, "map", v);
	if (t->kind == TYPE_LIST)
		return json_is(v, JSON_ARR) ? check_list(mem, v, t, p) : unexpected(p, "list", v);
	return check_scalar(v, t, p);
}

struct err *typed_check(struct fields_mem *mem, const struct json *v, const struct type *t)
{
	return check(mem, v, t, &(struct place){ 0 });
}
