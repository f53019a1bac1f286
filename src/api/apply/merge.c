/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/apply/typed_priv.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

/*
 * The merge of what is applied into what is there, and trees without some of their fields.
 *
 * In a list with keys, elements that are applied are in the order in which they are applied, and
 * the others stay where they are between them; where the two orders contradict each other, the
 * applied one wins.
 */
struct merger {
	struct fields_mem *mem;
	struct json_doc *d;
};

static struct json *merge(struct merger *m, const struct json *live, const struct json *patch,
			  const struct type *t);

/* Objects */

static struct json *merge_map(struct merger *m, const struct json *live, const struct json *patch,
			      const struct type *t)
{
	struct entries old = entries_of(m->mem, t, live), new = entries_of(m->mem, t, patch);
	struct json *out = json_obj(m->d);

	json_each(it, live) {
		struct elem e = elem_field(it.key);
		const struct entry *p = entries_find(&new, &e);

		json_add(m->d, out, it.key,
			 merge(m, it.val, p ? p->val : NULL, member_type(t, it.key)));
	}
	json_each(it, patch) {
		struct elem e = elem_field(it.key);

		if (!entries_find(&old, &e))
			json_add(m->d, out, it.key, merge(m, NULL, it.val, member_type(t, it.key)));
	}
	return out;
}

/* Lists */

/* The elements of a list in their order, and by key. */
struct side {
	const struct json **vals;
	struct elem *elems;
	size_t n, at;
	struct entries by_key;
};

static struct side side_of(struct merger *m, const struct json *list, const struct type *t)
{
	struct side s = { .by_key = entries_of(m->mem, t, list) };

	if (!json_len(list))
		return s;
	s.vals = arena_new_n(m->mem->arena, const struct json *, json_len(list));
	s.elems = arena_new_n(m->mem->arena, struct elem, json_len(list));
	json_each(it, list) {
		if (item_elem(m->mem, t, it.val, &s.elems[s.n]))
			continue;
		s.vals[s.n++] = it.val;
	}
	return s;
}

/* NULL: none, or several, which are not merged. */
static const struct json *only(const struct side *s, const struct elem *e)
{
	const struct entry *at = entries_find(&s->by_key, e);

	return at && at->same == 1 ? at->val : NULL;
}

struct list_merge {
	struct merger *m;
	const struct type *t;
	struct side old, new;
	bool *taken;        /* of the new ones: already in the result */
	size_t next_shared; /* the first new one, not yet taken, that is also old */
	struct json *out;
};

static bool has(const struct side *s, const struct elem *e)
{
	return entries_find(&s->by_key, e) != NULL;
}

static void skip_to_shared(struct list_merge *l)
{
	while (l->next_shared < l->new.n && !has(&l->old, &l->new.elems[l->next_shared]))
		l->next_shared++;
}

static void take_new(struct list_merge *l)
{
	size_t i = l->new.at++;
	const struct elem *e = &l->new.elems[i];

	l->taken[i] = true;
	json_push(l->m->d, l->out, merge(l->m, only(&l->old, e), l->new.vals[i], l->t->elem));
	if (i == l->next_shared) {
		l->next_shared++;
		skip_to_shared(l);
	}
}

static bool was_taken(const struct list_merge *l, const struct elem *e)
{
	const struct entry *at = entries_find(&l->new.by_key, e);

	return at && l->taken[at->at];
}

/* One element of the old list or of the new one. */
static void list_step(struct list_merge *l)
{
	const struct elem *x = l->old.at < l->old.n ? &l->old.elems[l->old.at] : NULL;
	const struct elem *y = l->new.at < l->new.n ? &l->new.elems[l->new.at] : NULL;

	if (x && y && !elem_compare(x, y)) {
		l->old.at++;
		take_new(l);
	} else if (x && !has(&l->new, x)) {
		json_push(l->m->d, l->out, merge(l->m, l->old.vals[l->old.at++], NULL, l->t->elem));
	} else if (x && (was_taken(l, x) ||
			 (y && l->next_shared < l->new.n &&elem_compare(
							x, &l->new.elems[l->next_shared])))) {
		l->old.at++; /* it has its place in the new order */
	} else if (y) {
		take_new(l);
	} else {
		l->old.at++; /* cannot be: what is shared and not taken is still to come */
	}
}

static struct json *merge_list(struct merger *m, const struct json *live, const struct json *patch,
			       const struct type *t)
{
	struct list_merge l = {
		.m = m,
		.t = t,
		.old = side_of(m, live, t),
		.new = side_of(m, patch, t),
		.out = json_arr(m->d),
	};

	l.taken = arena_new_n(m->mem->arena, bool, l.new.n + 1);
	skip_to_shared(&l);
	while (l.old.at < l.old.n || l.new.at < l.new.n)
		list_step(&l);
	return l.out;
}

/* Recurses as deeply as the trees are nested, which the decode stage limits. */
static struct json *merge(struct merger *m, const struct json *live, const struct json *patch,
			  const struct type *t)
{
	if (!patch || !live)
		return json_copy(m->d, patch ? patch : live);
	switch (shape_of_both(t, live, patch)) {
	case SHAPE_MAP:
		return merge_map(m, live, patch, t);
	case SHAPE_LIST:
		return merge_list(m, live, patch, t);
	case SHAPE_LEAF:
		break;
	}
	return json_copy(m->d, patch);
}

struct json *typed_merge(struct fields_mem *mem, struct json_doc *d, const struct json *live,
			 const struct json *patch, const struct type *t)
{
	struct merger m = { mem, d };

	return merge(&m, live, patch, t);
}

/* Removing */

static void keep(struct merger *m, struct json *out, const char *key, struct json *val)
{
	if (key)
		json_add(m->d, out, key, val ? val : json_new_null(m->d));
	else if (val)
		json_push(m->d, out, val);
}

static struct json *without(struct merger *m, const struct json *v, const struct fields *gone,
			    const struct type *t)
{
	bool is_list = json_is(v, JSON_ARR);
	struct json *out;

	if (fields_empty(gone))
		return json_copy(m->d, v);
	if (shape_of(t, v) == SHAPE_LEAF) /* something in what has one owner */
		return json_is(v, JSON_OBJ) || is_list ? NULL : json_copy(m->d, v);
	out = is_list ? json_arr(m->d) : json_obj(m->d);
	json_each(it, v) {
		struct elem e = elem_field(it.key);
		const struct fields_node *n;

		if (is_list && item_elem(m->mem, t, it.val, &e))
			continue;
		n = fields_find(gone, &e);
		if (n && n->member)
			continue;
		keep(m, out, it.key,
		     without(m, it.val, n ? n->sub : NULL,
			     is_list ? t->elem : member_type(t, it.key)));
	}
	return json_len(out) ? out : NULL;
}

struct json *typed_settle(struct json_doc *d, const struct json *v, const struct json *patch)
{
	struct json *out;

	if (!json_is(v, JSON_OBJ) && !json_is(v, JSON_ARR))
		return json_copy(d, v);
	out = json_is(v, JSON_OBJ) ? json_obj(d) : json_arr(d);
	json_each(it, v) {
		const struct json *asked = it.key ? json_get(patch, it.key) : NULL;

		if (!it.key)
			json_push(d, out, typed_settle(d, it.val, NULL));
		else if (!json_is(it.val, JSON_NULL) || json_is(asked, JSON_NULL))
			json_add(d, out, it.key, typed_settle(d, it.val, asked));
	}
	return out;
}

struct json *typed_remove(struct fields_mem *mem, struct json_doc *d, const struct json *v,
			  const struct fields *gone, const struct type *t)
{
	struct merger m = { mem, d };

	return without(&m, v, gone, t);
}
