/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/firewall_delta.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"

/*
 * Both texts are of our own making, one block after the other:
 *
 *	set NAME {              map NAME {                       chain NAME {
 *		type T                  type T : verdict                 RULE
 *		elements = { A, B . C } elements = { A : goto X }        …
 *	}                       }                                }
 *
 * What the new one has is made, then chains whose rules differ are written anew, then elements are
 * exchanged, and last goes what the old one alone has. The order is what the kernel demands, which
 * removes nothing that something else still names.
 */
enum kind {
	SET,
	MAP,
	CHAIN,
	KIND_MAX_,
};
static const char *const kind_names[KIND_MAX_] = { "set", "map", "chain" };

struct block {
	enum kind kind;
	const char *name;
	const char *type; /* of a set or map; of a base chain its first line; or NULL */
	char **items;     /* elements or rules */
	size_t n;
	const struct block *other; /* of the same name, in the other text */
};

struct text {
	struct arena *a;
	struct block *list;
	size_t n, cap;
};

struct delta {
	const char *table;
	struct text was, now;
	struct buf *out;
};

/* Reading */

static void add_item(struct text *t, struct block *b, char *item)
{
	if (!(b->n & (b->n - 1))) { /* full at every power of two */
		char **more = arena_new_n(t->a, char *, b->n ? 2 * b->n : 1);

		if (b->n)
			memcpy(more, b->items, b->n * sizeof(*more));
		b->items = more;
	}
	b->items[b->n++] = item;
}

static void add_elements(struct text *t, struct block *b, char *list)
{
	char *end = strrchr(list, '}');

	if (end)
		*end = '\0';
	for (char *e = list, *next; e; e = next) {
		next = strstr(e, ", ");
		if (next) {
			*next = '\0';
			next += 2;
		}
		e += strspn(e, " ");
		for (size_t len = strlen(e); len && e[len - 1] == ' ';)
			e[--len] = '\0';
		add_item(t, b, e);
	}
}

static struct block *begin_block(struct text *t, char *line)
{
	char *name = strchr(line, ' ');
	struct block *b;

	if (!name || !str_starts(strrchr(line, ' '), " {"))
		return NULL;
	if (t->n == t->cap) {
		struct block *more = arena_new_n(t->a, struct block, t->cap ? 2 * t->cap : 64);

		if (t->n)
			memcpy(more, t->list, t->n * sizeof(*more));
		t->list = more;
		t->cap = t->cap ? 2 * t->cap : 64;
	}
	*strrchr(line, ' ') = '\0';
	*name++ = '\0';
	b = &t->list[t->n++];
	*b = (struct block){ .kind = KIND_MAX_, .name = name };
	for (int k = 0; k < KIND_MAX_; k++)
		if (str_eq(line, kind_names[k]))
			b->kind = (enum kind)k;
	return b->kind == KIND_MAX_ ? NULL : b;
}

static void add_line(struct text *t, struct block *b, char *line)
{
	static const char elements[] = "elements = {";

	if (str_starts(line, "type ") && !b->type)
		b->type = line;
	else if (b->kind != CHAIN && str_starts(line, elements))
		add_elements(t, b, line + strlen(elements));
	else
		add_item(t, b, line);
}

/* False: it is not written as we write it. */
static bool read_text(struct text *t, const char *text)
{
	char *copy = arena_strdup(t->a, text), *rest = NULL;
	struct block *b = NULL;

	for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		line += strspn(line, "\t");
		if (b && str_eq(line, "}"))
			b = NULL;
		else if (b)
			add_line(t, b, line);
		else if (!(b = begin_block(t, line)))
			return false;
	}
	return !b;
}

static bool same_type(const struct block *a, const struct block *b)
{
	return (!a->type && !b->type) || str_eq(a->type, b->type);
}

/* False: one and the same name stands for different things. */
static bool pair_up(struct delta *d)
{
	autoptr(map) was = map_new(NULL);

	for (size_t i = 0; i < d->was.n; i++) {
		autofree char *key =
			xasprintf("%s %s", kind_names[d->was.list[i].kind], d->was.list[i].name);

		map_put(was, key, &d->was.list[i]);
	}
	for (size_t i = 0; i < d->now.n; i++) {
		struct block *b = &d->now.list[i], *other;
		autofree char *key = xasprintf("%s %s", kind_names[b->kind], b->name);

		other = map_get(was, key);
		if (!other)
			continue;
		if (!same_type(b, other))
			return false;
		b->other = other;
		other->other = b;
	}
	return true;
}

/* Writing */

static void make(struct delta *d, const struct block *b)
{
	buf_printf(d->out, "add %s %s %s", kind_names[b->kind], d->table, b->name);
	if (b->type)
		buf_printf(d->out, " { %s; }", b->type);
	buf_add_char(d->out, '\n');
}

static bool same_items(const struct block *a, const struct block *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; i < a->n && same; i++)
		same = str_eq(a->items[i], b->items[i]);
	return same;
}

static void write_rules(struct delta *d, const struct block *b)
{
	if (b->other && same_items(b, b->other))
		return;
	if (b->other)
		buf_printf(d->out, "flush chain %s %s\n", d->table, b->name);
	for (size_t i = 0; i < b->n; i++)
		buf_printf(d->out, "add rule %s %s %s\n", d->table, b->name, b->items[i]);
}

/* Elements that b has and the other one has not, or has with another value; by_key: only their
 * keys are written. */
static void write_elements(struct delta *d, const struct block *b, const char *verb, bool by_key)
{
	autoptr(map) there = map_new_borrowing(NULL);
	size_t n = 0;

	for (size_t i = 0; b->other && i < b->other->n; i++)
		map_put(there, b->other->items[i], b->other->items[i]);
	for (size_t i = 0; i < b->n; i++) {
		const char *value = by_key ? strstr(b->items[i], " : ") : NULL;
		size_t len = value ? (size_t)(value - b->items[i]) : strlen(b->items[i]);

		if (map_has(there, b->items[i]))
			continue;
		if (!n++)
			buf_printf(d->out, "%s element %s %s { ", verb, d->table, b->name);
		else
			buf_add_str(d->out, ", ");
		buf_add(d->out, b->items[i], len);
	}
	if (n)
		buf_add_str(d->out, " }\n");
}

static void each_gone(struct delta *d, enum kind kind, const char *verb)
{
	for (size_t i = 0; i < d->was.n; i++)
		if (d->was.list[i].kind == kind && !d->was.list[i].other)
			buf_printf(d->out, "%s %s %s %s\n", verb, kind_names[kind], d->table,
				   d->was.list[i].name);
}

static void write_all(struct delta *d)
{
	for (size_t i = 0; i < d->now.n; i++)
		if (!d->now.list[i].other)
			make(d, &d->now.list[i]);
	for (size_t i = 0; i < d->now.n; i++)
		if (d->now.list[i].kind == CHAIN)
			write_rules(d, &d->now.list[i]);
	for (size_t i = 0; i < d->was.n; i++)
		if (d->was.list[i].kind != CHAIN && d->was.list[i].other)
			write_elements(d, &d->was.list[i], "delete", true);
	for (size_t i = 0; i < d->now.n; i++)
		if (d->now.list[i].kind != CHAIN)
			write_elements(d, &d->now.list[i], "add", false);
	each_gone(d, CHAIN, "flush");
	each_gone(d, MAP, "delete");
	each_gone(d, CHAIN, "delete");
	each_gone(d, SET, "delete");
}

bool firewall_delta(const char *table, const char *was, const char *now, struct buf *out)
{
	autoptr(arena) a = arena_new();
	struct delta d = { .table = table, .was = { .a = a }, .now = { .a = a }, .out = out };

	if (!read_text(&d.was, was) || !read_text(&d.now, now) || !pair_up(&d))
		return false;
	write_all(&d);
	return true;
}
