/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apply/fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"

/*
 * The algebra of sets of fields. Both operands are sorted, so each operation is one walk over the
 * two side by side; what only one of them has is shared with the result, not copied.
 */

void fields_mem_init(struct fields_mem *mem)
{
	*mem = (struct fields_mem){ arena_new(), json_doc_new() };
}

void fields_mem_done(struct fields_mem *mem)
{
	arena_free(mem->arena);
	json_doc_free(mem->doc);
}

/* Order */

static int order_of(const struct json *v)
{
	static const int orders[JSON_TYPE_MAX_] = {
		[JSON_INT] = 0, [JSON_REAL] = 0, [JSON_STR] = 1,  [JSON_BOOL] = 2,
		[JSON_ARR] = 3, [JSON_OBJ] = 4,  [JSON_NULL] = 5,
	};

	return orders[json_type(v)];
}

static int compare_numbers(const struct json *a, const struct json *b)
{
	double x = json_real(a, 0), y = json_real(b, 0);
	int64_t i = json_int(a, 0), k = json_int(b, 0);

	if (json_is(a, JSON_INT) && json_is(b, JSON_INT) && i != k)
		return i < k ? -1 : 1;
	return (x > y) - (x < y);
}

static int compare_values(const struct json *a, const struct json *b)
{
	int order = order_of(a) - order_of(b);

	if (order)
		return order;
	if (json_is(a, JSON_STR))
		return strcmp(json_str(a), json_str(b));
	if (json_is(a, JSON_BOOL))
		return (int)json_bool(a, false) - (int)json_bool(b, false);
	return json_is(a, JSON_INT) || json_is(a, JSON_REAL) ? compare_numbers(a, b) : 0;
}

static int compare_parts(const struct elem *a, const struct elem *b)
{
	for (size_t i = 0; i < a->n_parts && i < b->n_parts; i++) {
		const struct elem_part *x = &a->parts[i], *y = &b->parts[i];
		int c = x->name && y->name ? strcmp(x->name, y->name) : 0;

		if (!c)
			c = compare_values(x->val, y->val);
		if (c)
			return c;
	}
	return (a->n_parts > b->n_parts) - (a->n_parts < b->n_parts);
}

int elem_compare(const struct elem *a, const struct elem *b)
{
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	switch (a->type) {
	case ELEM_FIELD:
		return a->name == b->name ? 0 : strcmp(a->name, b->name);
	case ELEM_KEY:
	case ELEM_VALUE:
		return compare_parts(a, b);
	case ELEM_INDEX:
	case ELEM_TYPE_MAX_:
		break;
	}
	return (a->index > b->index) - (a->index < b->index);
}

struct elem elem_field(const char *name)
{
	return (struct elem){ .type = ELEM_FIELD, .name = name };
}

/* Building */

void fields_add(struct fields_mem *mem, struct fields *s, const struct fields_node *n)
{
	if (!n->member && fields_empty(n->sub))
		return;
	if (s->n == s->cap) {
		struct fields_node *more;

		s->cap = s->cap ? s->cap * 2 : 4;
		more = arena_new_n(mem->arena, struct fields_node, s->cap);
		if (s->n)
			memcpy(more, s->nodes, s->n * sizeof(*more));
		s->nodes = more;
	}
	s->nodes[s->n] = *n;
	if (fields_empty(n->sub))
		s->nodes[s->n].sub = NULL;
	s->n++;
}

static int compare_nodes(const void *a, const void *b)
{
	return elem_compare(&((const struct fields_node *)a)->elem,
			    &((const struct fields_node *)b)->elem);
}

void fields_seal(struct fields *s)
{
	for (size_t i = 1; i < s->n; i++)
		if (compare_nodes(&s->nodes[i - 1], &s->nodes[i]) > 0) {
			qsort(s->nodes, s->n, sizeof(*s->nodes), compare_nodes);
			return;
		}
}

/* Asking */

bool fields_empty(const struct fields *s)
{
	return !s || !s->n;
}

const struct fields_node *fields_find(const struct fields *s, const struct elem *e)
{
	const struct fields_node key = { .elem = *e };

	return fields_empty(s) ? NULL
			       : bsearch(&key, s->nodes, s->n, sizeof(*s->nodes), compare_nodes);
}

bool fields_equal(const struct fields *s, const struct fields *t)
{
	if (fields_empty(s) || fields_empty(t))
		return fields_empty(s) && fields_empty(t);
	if (s == t)
		return true;
	if (s->n != t->n)
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (compare_nodes(&s->nodes[i], &t->nodes[i]) ||
		    s->nodes[i].member != t->nodes[i].member ||
		    !fields_equal(s->nodes[i].sub, t->nodes[i].sub))
			return false;
	return true;
}

/* Combining */

/* What becomes of a place that both sets have, or only the first. y is NULL where the second has
 * nothing. */
typedef const struct fields *combine(struct fields_mem *mem, const struct fields *s,
				     const struct fields *t);

/* Calls the operation below the nodes that both have. */
static struct fields_node join(struct fields_mem *mem, const struct fields_node *x,
			       const struct fields_node *y, combine *op)
{
	struct fields_node n = *x;

	n.sub = op(mem, x->sub, y->sub);
	return n;
}

static struct fields *seal_or_null(struct fields *s)
{
	return s->n ? s : NULL; /* made in order */
}

const struct fields *fields_union(struct fields_mem *mem, const struct fields *s,
				  const struct fields *t)
{
	struct fields *out;
	size_t i = 0, k = 0;

	if (fields_empty(s) || fields_empty(t))
		return fields_empty(s) ? t : s;
	if (s == t)
		return s;
	out = arena_new_of(mem->arena, struct fields);
	while (i < s->n || k < t->n) {
		int c = i == s->n ? 1 : k == t->n ? -1 : compare_nodes(&s->nodes[i], &t->nodes[k]);
		struct fields_node n = c <= 0 ? s->nodes[i] : t->nodes[k];

		if (!c) {
			n = join(mem, &s->nodes[i], &t->nodes[k], fields_union);
			n.member |= t->nodes[k].member;
		}
		fields_add(mem, out, &n);
		i += c <= 0;
		k += c >= 0;
	}
	return out;
}

const struct fields *fields_intersection(struct fields_mem *mem, const struct fields *s,
					 const struct fields *t)
{
	struct fields *out;
	size_t i = 0, k = 0;

	if (fields_empty(s) || fields_empty(t))
		return NULL;
	out = arena_new_of(mem->arena, struct fields);
	while (i < s->n && k < t->n) {
		int c = compare_nodes(&s->nodes[i], &t->nodes[k]);

		if (!c) {
			struct fields_node n =
				join(mem, &s->nodes[i], &t->nodes[k], fields_intersection);

			n.member &= t->nodes[k].member;
			fields_add(mem, out, &n);
		}
		i += c <= 0;
		k += c >= 0;
	}
	return seal_or_null(out);
}

const struct fields *fields_difference(struct fields_mem *mem, const struct fields *s,
				       const struct fields *t)
{
	struct fields *out;
	size_t k = 0;

	if (fields_empty(s) || fields_empty(t))
		return fields_empty(s) ? NULL : s;
	out = arena_new_of(mem->arena, struct fields);
	for (size_t i = 0; i < s->n; i++) {
		struct fields_node n = s->nodes[i];

		while (k < t->n && compare_nodes(&t->nodes[k], &n) < 0)
			k++;
		if (k < t->n && !compare_nodes(&t->nodes[k], &n)) {
			n = join(mem, &n, &t->nodes[k], fields_difference);
			n.member &= !t->nodes[k].member;
		}
		fields_add(mem, out, &n);
	}
	return seal_or_null(out);
}

const struct fields *fields_without(struct fields_mem *mem, const struct fields *s,
				    const char *name)
{
	const struct elem e = elem_field(name);
	const struct fields_node *gone = fields_find(s, &e);
	struct fields *out;

	if (!gone)
		return s;
	out = arena_new_of(mem->arena, struct fields);
	for (size_t i = 0; i < s->n; i++)
		if (&s->nodes[i] != gone)
			fields_add(mem, out, &s->nodes[i]);
	return seal_or_null(out);
}

const struct fields *fields_only(struct fields_mem *mem, const struct fields *s, const char *name)
{
	const struct elem e = elem_field(name);
	const struct fields_node *kept = fields_find(s, &e);
	struct fields *out;

	if (!kept)
		return NULL;
	out = arena_new_of(mem->arena, struct fields);
	fields_add(mem, out, kept);
	return out;
}
