/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apply/typed_priv.h"
#include "base/arena.h"

/*
 * How two trees of a type differ. The members of both are walked side by side; what the two share
 * in memory is not looked into, so that the comparison of an object with its next state costs as
 * much as the change was large.
 */
struct differ {
	struct fields_mem *mem;
	struct fields *added, *modified, *removed; /* of the object or list that is being walked */
};

static struct differ below(struct fields_mem *mem)
{
	return (struct differ){
		.mem = mem,
		.added = arena_new_of(mem->arena, struct fields),
		.modified = arena_new_of(mem->arena, struct fields),
		.removed = arena_new_of(mem->arena, struct fields),
	};
}

static void put(struct differ *d, struct fields *into, const struct elem *e, bool member,
		const struct fields *sub)
{
	fields_add(d->mem, into, &(struct fields_node){ .elem = *e, .member = member, .sub = sub });
}

static void walk(struct differ *d, const struct json *was, const struct json *next,
		 const struct type *t);

/* One place. was or next may be NULL. */
static void compare_at(struct differ *d, const struct elem *e, const struct json *const v[2],
		       const struct type *t)
{
	const struct json *was = v[0], *next = v[1];
	bool leaf = shape_of_both(t, was, next) == SHAPE_LEAF;
	struct differ sub;

	if (was && next && (json_same(was, next) || (leaf && json_equal(was, next))))
		return;
	if (leaf) {
		put(d, !was ? d->added : !next ? d->removed : d->modified, e, true, NULL);
		return;
	}
	sub = below(d->mem);
	walk(&sub, was, next, t);
	put(d, d->added, e, !was, sub.added);
	put(d, d->removed, e, !next, sub.removed);
	put(d, d->modified, e, false, sub.modified);
}

static bool equal_runs(const struct entry *x, const struct entry *y)
{
	if (x->same != y->same)
		return false;
	for (size_t i = 0; i < x->same; i++)
		if (!json_equal(x[i].val, y[i].val))
			return false;
	return true;
}

/* List elements with the same key are compared as a whole. x or y may be NULL. */
static void compare_runs(struct differ *d, const struct entry *x, const struct entry *y,
			 const struct type *t)
{
	size_t n = x ? x->same : 0, m = y ? y->same : 0;
	const struct elem *e = x ? &x->elem : &y->elem;

	if (n <= 1 && m <= 1) {
		const struct json *const v[2] = { x ? x->val : NULL, y ? y->val : NULL };

		compare_at(d, e, v, t);
	} else if (n >= 2 && m >= 2) {
		if (!equal_runs(x, y))
			put(d, d->modified, e, true, NULL);
	} else if (n >= 2) {
		put(d, d->removed, e, true, NULL);
		if (y)
			put(d, d->added, e, true, typed_fields(d->mem, y->val, t));
	} else {
		put(d, d->added, e, true, NULL);
		if (x)
			put(d, d->removed, e, true, typed_fields(d->mem, x->val, t));
	}
}

static void walk_sorted(struct differ *d, const struct entries *x, const struct entries *y,
			const struct type *t)
{
	size_t i = 0, k = 0;

	while (i < x->n || k < y->n) {
		int c = i == x->n   ? 1
			: k == y->n ? -1
				    : elem_compare(&x->list[i].elem, &y->list[k].elem);
		const struct elem *e = c <= 0 ? &x->list[i].elem : &y->list[k].elem;
		const struct type *below =
			e->type == ELEM_FIELD ? member_type(t, e->name) : t->elem;

		compare_runs(d, c <= 0 ? &x->list[i] : NULL, c >= 0 ? &y->list[k] : NULL, below);
		i += c <= 0 ? x->list[i].same : 0;
		k += c >= 0 ? y->list[k].same : 0;
	}
}

static void walk(struct differ *d, const struct json *was, const struct json *next,
		 const struct type *t)
{
	struct entries x = entries_of(d->mem, t, was), y = entries_of(d->mem, t, next);

	walk_sorted(d, &x, &y, t);
}

struct comparison typed_compare(struct fields_mem *mem, const struct json *was,
				const struct json *next, const struct type *t)
{
	struct differ d = below(mem);

	walk(&d, was, next, t);
	return (struct comparison){ d.added, d.modified, d.removed };
}
