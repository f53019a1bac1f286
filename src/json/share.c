/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "json/json_priv.h"

/*
 * Copying, and doing without: what a frozen doc lends costs the borrower one value.
 *
 * A frozen doc is one block of memory:
 *
 *   struct json_doc | its parts | values, each container before its ring | text
 *
 * A large member of its root is not in there but in a part, a frozen doc of its own. The next
 * state of an object usually changes little: it refers to the parts that did not change and has a
 * copy of the rest, so no state keeps the memory of an earlier one, and nothing builds up.
 */
enum {
	PART_MIN = 24, /* values; a smaller member is cheaper to copy */
	SHELF_LEN = 64,
	SHELF_PART_MAX = 16 * 1024, /* bytes; a larger part would be kept too long */
	AHEAD = 8,
	BRANCH_VALS = 128,
	BRANCH_TEXT = 1024,
};

/* Where values and text for a copy come from. */
struct supply {
	yyjson_mut_doc *pool; /* or, if NULL, the rest of a block: */
	yyjson_mut_val *vals;
	char *text;
	unsigned marks; /* of the containers that are made */
};

static yyjson_mut_val *supply_vals(struct supply *s, size_t n)
{
	yyjson_mut_val *v = s->vals;

	if (s->pool)
		return unsafe_yyjson_mut_val(s->pool, n);
	s->vals += n;
	return v;
}

static const char *supply_text(struct supply *s, const char *text, size_t len)
{
	char *at = s->text;

	if (s->pool)
		return unsafe_yyjson_mut_strncpy(s->pool, text, len);
	memcpy(at, text, len);
	at[len] = '\0';
	s->text += len + 1;
	return at;
}

static void copy_to(struct supply *s, yyjson_mut_val *to, const yyjson_mut_val *from);

static void copy_ring(struct supply *s, yyjson_mut_val *to, const yyjson_mut_val *from)
{
	size_t n = ring_len(from), last = n - (yyjson_mut_is_obj((void *)from) ? 2 : 1);
	yyjson_mut_val *ring = supply_vals(s, n), *at = from->uni.ptr;

	at = yyjson_mut_is_obj((void *)from) ? at->next->next : at->next;
	for (size_t i = 0; i < n; i++, at = at->next) {
		copy_to(s, &ring[i], at);
		ring[i].next = &ring[i + 1 < n ? i + 1 : 0];
	}
	to->uni.ptr = &ring[last];
}

/* All but to->next. Recurses as deeply as the tree is nested, which the parser limits. */
static void copy_to(struct supply *s, yyjson_mut_val *to, const yyjson_mut_val *from)
{
	to->tag = from->tag & ~(uint64_t)MARKS;
	to->uni = from->uni;
	if (yyjson_mut_is_str((void *)from))
		to->uni.str = supply_text(s, from->uni.str, unsafe_yyjson_get_len((void *)from));
	if (!yyjson_mut_is_ctn((void *)from))
		return;
	to->tag |= s->marks;
	if (has_ring(from))
		copy_ring(s, to, from);
}

struct json *json_copy(struct json_doc *d, const struct json *v)
{
	struct supply s = { .pool = d->pool };
	yyjson_mut_val *to;

	if (!v)
		return NULL;
	to = supply_vals(&s, 1);
	copy_to(&s, to, val_of(v));
	return json_of(to);
}

/* Lending */

static void keep(struct json_doc *d, struct json_doc *what)
{
	for (size_t i = 0; i < d->n_keeps; i++)
		if (d->keeps[i] == what)
			return;
	what->refs++;
	d->keeps = xrealloc(d->keeps, (d->n_keeps + 1) * sizeof(struct json_doc *));
	d->keeps[d->n_keeps++] = what;
}

/* to becomes what from is, without a copy of anything. All but to->next. */
static void lend_to(yyjson_mut_val *to, const yyjson_mut_val *from)
{
	to->tag = (from->tag & ~(uint64_t)MARKS) | (has_ring(from) ? LENT : 0);
	to->uni = from->uni;
}

struct json *json_lend(struct json_doc *d, struct json_doc *from, const struct json *v)
{
	yyjson_mut_val *to;

	if (!v || from->pool)
		return json_copy(d, v);
	keep(d, from);
	to = unsafe_yyjson_mut_val(d->pool, 1);
	lend_to(to, val_of(v));
	return json_of(to);
}

struct json *json_own(struct json_doc *d, struct json *v)
{
	yyjson_mut_val *to = val_of(v), *ring, *at;
	size_t n, last;

	if (!yyjson_mut_is_ctn(to) || !(to->tag & MARKS))
		return v;
	assert(!(to->tag & FROZEN));
	n = ring_len(to);
	last = n - (yyjson_mut_is_obj(to) ? 2 : 1);
	at = to->uni.ptr;
	at = yyjson_mut_is_obj(to) ? at->next->next : at->next;
	ring = unsafe_yyjson_mut_val(d->pool, n);
	for (size_t i = 0; i < n; i++, at = at->next) {
		lend_to(&ring[i], at);
		ring[i].next = &ring[i + 1 < n ? i + 1 : 0];
	}
	to->uni.ptr = &ring[last];
	to->tag &= ~(uint64_t)LENT;
	return v;
}

struct json *json_own_all(struct json_doc *d, struct json *v)
{
	json_each(it, json_own(d, v))
		json_own_all(d, it.val);
	return v;
}

struct json_doc *json_branch(struct json_doc *from)
{
	struct json_doc *d = json_doc_new();

	/* It ends within the write: better one block too large than several. */
	(void)yyjson_mut_doc_set_val_pool_size(d->pool, BRANCH_VALS);
	(void)yyjson_mut_doc_set_str_pool_size(d->pool, BRANCH_TEXT);
	json_set_root(d, json_own(d, json_lend(d, from, json_root(from))));
	return d;
}

struct json *json_move(struct json_doc *d, struct json_doc *from, struct json *v)
{
	assert(from->pool);
	keep(d, from);
	json_doc_free(from);
	return v;
}

bool json_same(const struct json *a, const struct json *b)
{
	const yyjson_mut_val *x = val_of(a), *y = val_of(b);

	if (!x || !y || (x->tag ^ y->tag) & ~(uint64_t)MARKS)
		return false;
	switch (unsafe_yyjson_get_type((void *)x)) {
	case YYJSON_TYPE_NUM:
	case YYJSON_TYPE_STR:
		return x->uni.u64 == y->uni.u64; /* the number, or where the text is */
	case YYJSON_TYPE_ARR:
	case YYJSON_TYPE_OBJ:
		return !has_ring(x) || x->uni.ptr == y->uni.ptr;
	default:
		return true;
	}
}

static bool same_place(const struct json_iter *a, const struct json_iter *b)
{
	return a->key == b->key || (a->key && b->key && !strcmp(a->key, b->key));
}

/* Looking no further than a few members ahead keeps a walk over many from taking their square. */
struct json *json_follow(struct json_iter *was, const struct json_iter *it)
{
	struct json_iter ahead = *was;

	for (int i = 0; i < AHEAD && json_next(&ahead); i++)
		if (same_place(&ahead, it)) {
			*was = ahead;
			return ahead.val;
		}
	return NULL;
}

/* Freezing */

struct size {
	size_t vals, text;
};

/* What a copy of v takes, besides the value itself. */
static void measure(const yyjson_mut_val *v, struct size *ret)
{
	const yyjson_mut_val *at = v->uni.ptr;
	size_t n;

	if (yyjson_mut_is_str((void *)v))
		ret->text += unsafe_yyjson_get_len((void *)v) + 1;
	if (!has_ring(v))
		return;
	n = ring_len(v);
	ret->vals += n;
	for (; n--; at = at->next)
		measure(at, ret);
}

static struct json_doc *block_new(const struct size *of, size_t n_parts, struct supply *ret)
{
	size_t parts = n_parts * sizeof(struct json_doc *), vals = of->vals * sizeof(*ret->vals);
	struct json_doc *d = xmalloc(sizeof(*d) + parts + vals + of->text);

	*d = (struct json_doc){ .refs = 1, .mem = parts + vals + of->text };
	d->keeps = (struct json_doc **)(d + 1);
	ret->vals = (yyjson_mut_val *)(d->keeps + n_parts);
	ret->text = (char *)(ret->vals + of->vals);
	ret->marks = FROZEN;
	d->root = supply_vals(ret, 1);
	d->root->next = NULL;
	return d;
}

/* The shelf */

struct json_shelf {
	const char *member;
	struct json_doc *parts[SHELF_LEN]; /* references, each where its size says; NULL: none */
};

struct json_shelf *json_shelf_new(const char *member)
{
	struct json_shelf *s = xnew(struct json_shelf);

	s->member = member;
	return s;
}

void json_shelf_free(struct json_shelf *s)
{
	for (size_t i = 0; s && i < SHELF_LEN; i++)
		json_doc_free(s->parts[i]);
	free(s);
}

/* Equal in the order of members too, so that nobody can tell one from the other. */
static bool identical(const yyjson_mut_val *a, const yyjson_mut_val *b)
{
	const yyjson_mut_val *x = a->uni.ptr, *y = b->uni.ptr;
	size_t n;

	if (unsafe_yyjson_get_type((void *)a) != unsafe_yyjson_get_type((void *)b) ||
	    unsafe_yyjson_get_len((void *)a) != unsafe_yyjson_get_len((void *)b))
		return false;
	if (yyjson_mut_is_str((void *)a))
		return !memcmp(a->uni.str, b->uni.str, unsafe_yyjson_get_len((void *)a));
	if (!yyjson_mut_is_ctn((void *)a))
		return unsafe_yyjson_get_subtype((void *)a) ==
			       unsafe_yyjson_get_subtype((void *)b) &&
		       (!yyjson_mut_is_num((void *)a) || a->uni.u64 == b->uni.u64);
	for (n = has_ring(a) ? ring_len(a) : 0; n && identical(x, y); n--) {
		x = x->next;
		y = y->next;
	}
	return !n;
}

/* What becomes of a member of the root. */
struct member {
	const yyjson_mut_val *key, *val;
	struct json_doc *part; /* a reference; NULL: it is copied */
};

static struct json_doc *lent_part(const struct json_doc *d, const yyjson_mut_val *v)
{
	for (size_t i = 0; i < d->n_keeps; i++) {
		struct json_doc *p = d->keeps[i];

		if (!p->pool && json_same(json_of(p->root), json_of((yyjson_mut_val *)v))) {
			p->refs++;
			return p;
		}
		p = lent_part(p, v);
		if (p)
			return p;
	}
	return NULL;
}

static struct json_doc *part_new(const yyjson_mut_val *v, struct size size)
{
	struct supply s = { 0 };
	struct json_doc *d;

	size.vals++;
	d = block_new(&size, 0, &s);
	copy_to(&s, d->root, v);
	return d;
}

/* A part for m, or an equal one that is on the shelf. A new one takes the place of what had its
 * size by chance: those that are used again and again return. */
static struct json_doc *shelf_part(struct json_shelf *shelf, const struct member *m,
				   const struct size *size)
{
	struct json_doc **slot;

	if (!shelf || size->vals * sizeof(*m->val) + size->text > SHELF_PART_MAX ||
	    !yyjson_mut_equals_str((void *)m->key, shelf->member))
		return part_new(m->val, *size);
	slot = &shelf->parts[(size->vals * 31 + size->text) % SHELF_LEN];
	if (!*slot || !identical((*slot)->root, m->val)) {
		json_doc_free(*slot);
		*slot = part_new(m->val, *size);
	}
	(*slot)->refs++;
	return *slot;
}

static void freeze_member(const struct json_doc *d, struct json_shelf *shelf, struct member *m,
			  struct size *rest)
{
	struct size size = { 0 };

	measure(m->key, rest);
	rest->vals += 2;
	if (m->val->tag & LENT)
		m->part = lent_part(d, m->val);
	if (m->part)
		return;
	measure(m->val, &size);
	if (size.vals >= PART_MIN) {
		m->part = shelf_part(shelf, m, &size);
		return;
	}
	rest->vals += size.vals;
	rest->text += size.text;
}

static void put_members(struct json_doc *d, struct supply *s, const struct member *list, size_t n)
{
	yyjson_mut_val *ring = supply_vals(s, 2 * n);

	for (size_t i = 0; i < n; i++) {
		yyjson_mut_val *key = &ring[2 * i], *val = key + 1;

		copy_to(s, key, list[i].key);
		if (list[i].part) {
			d->keeps[d->n_keeps++] = list[i].part;
			lend_to(val, list[i].part->root);
			val->tag = (val->tag & ~(uint64_t)MARKS) | FROZEN;
		} else {
			copy_to(s, val, list[i].val);
		}
		key->next = val;
		val->next = &ring[i + 1 < n ? 2 * i + 2 : 0];
	}
	d->root->uni.ptr = &ring[2 * n - 2];
}

struct json_doc *json_freeze(struct json_doc *doc)
{
	return json_freeze_shelved(doc, NULL);
}

struct json_doc *json_freeze_shelved(struct json_doc *doc, struct json_shelf *shelf)
{
	autoptr(json_doc) d = doc;
	size_t n = has_ring(d->root) ? unsafe_yyjson_get_len(d->root) : 0, n_parts = 0;
	autofree struct member *list = xnew_n(struct member, n + 1);
	struct size size = { .vals = 1 };
	struct supply s = { 0 };
	yyjson_mut_val *key = n ? d->root->uni.ptr : NULL;
	struct json_doc *ret;

	assert(yyjson_mut_is_obj(d->root));
	for (size_t i = 0; i < n; i++) {
		key = key->next->next;
		list[i] = (struct member){ .key = key, .val = key->next };
		freeze_member(d, shelf, &list[i], &size);
		n_parts += list[i].part != NULL;
	}
	ret = block_new(&size, n_parts, &s);
	ret->root->tag = (d->root->tag & ~(uint64_t)MARKS) | FROZEN;
	if (n)
		put_members(ret, &s, list, n);
	return ret;
}
