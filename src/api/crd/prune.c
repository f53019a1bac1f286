/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/custom_priv.h"
#include "api/decode_priv.h"
#include "base/map.h"
#include "base/str.h"

/*
 * Pruning and defaulting: an object gets what its schema says and keeps what its schema knows.
 */
static const char *const meta_names[] = { "apiVersion", "kind", "metadata", NULL };

static const struct node *schema_of(const struct node *n, const char *key)
{
	const struct node *p = n ? node_property(n, key) : NULL;

	return p ? p : n ? n->additional : NULL;
}

/* Is this member kept? Where null is not allowed, it means "not given". */
static bool is_kept(const struct node *n, const char *key, const struct json *v, bool resource)
{
	const struct node *p;

	if (resource && str_in(key, meta_names))
		return true;
	p = schema_of(n, key);
	if (p)
		return p->nullable || !json_is(v, JSON_NULL);
	return n && (n->preserve || n->any_additional);
}

static void keep_members(struct json_doc *d, struct json *v, const struct node *n, bool resource)
{
	struct pair {
		const char *key;
		struct json *val;
	};
	autofree struct pair *kept = xnew_n(struct pair, json_len(v) + 1);
	size_t len = 0;

	json_each(it, v)
		if (is_kept(n, it.key, it.val, resource))
			kept[len++] = (struct pair){ it.key, it.val };
	json_clear(v);
	for (size_t i = 0; i < len; i++)
		json_add(d, v, kept[i].key, kept[i].val);
}

static void prune(struct decode_walk *w, struct json *v, const struct node *n,
		  const struct place *at);

/* n NULL: nothing in it is known. */
static void prune_object(struct decode_walk *w, struct json *v, const struct node *n,
			 const struct place *at)
{
	bool resource = n && (n->embedded || !at->up), odd = false;

	json_each(it, v) {
		struct place here = { .path = { &at->path, it.key }, .up = at };
		const struct node *p = schema_of(n, it.key);

		if (resource && str_in(it.key, meta_names))
			continue;
		if (!is_kept(n, it.key, it.val, resource)) {
			odd = true;
			if (!p)
				decode_report(w, "unknown", at, it.key);
			continue;
		}
		if (p)
			prune(w, it.val, p, &here);
		else if (n && !n->preserve)
			prune(w, it.val, NULL, &here); /* additionalProperties: true */
	}
	if (odd)
		keep_members(w->d, v, n, resource);
}

static void prune(struct decode_walk *w, struct json *v, const struct node *n,
		  const struct place *at)
{
	size_t i = 0;

	if (json_is(v, JSON_OBJ)) {
		prune_object(w, v, n, at);
		return;
	}
	if (!json_is(v, JSON_ARR) || (n && n->preserve && !n->items))
		return;
	json_each(it, v) {
		struct place here = { .path = { &at->path, NULL, i++ }, .up = at };

		prune(w, it.val, n ? n->items : NULL, &here);
	}
}

void custom_prune(struct decode_walk *w, struct json *v, const struct custom *c,
		  const struct place *at)
{
	(void)json_own_all(w->d, v);
	prune(w, v, c->root, at);
}

bool custom_is_pruned(const struct json *v, const struct custom *c)
{
	autoptr(json_doc) d = json_doc_new();
	struct place root = { .path = { .name = "" } },
		     at = { .path = { &root.path, "default" }, .up = &root };
	struct decode_walk w = { .d = d };
	struct json *copy = json_copy(d, v);

	prune(&w, copy, c->root, &at);
	return json_equal(copy, v);
}

/* Defaults */

/* The members of v by name, where looking for one after the other would take long: v grows. */
static struct map *index_of(const struct json *v, const struct node *n)
{
	struct map *m;

	if (n->properties.n < 64)
		return NULL;
	m = map_new_borrowing(NULL);
	json_each(it, v)
		map_put(m, it.key, it.val);
	return m;
}

static void fill(struct json_doc *d, struct json *v, const struct node *n)
{
	autoptr(map) index = index_of(v, n);

	for (size_t i = 0; i < n->properties.n; i++) {
		const struct node *p = n->properties.list[i];
		const struct json *have = NULL;

		if (!p->fallback)
			continue;
		have = index ? map_get(index, n->names[i]) : json_get(v, n->names[i]);
		if (!have)
			json_add(d, v, n->names[i], json_copy(d, p->fallback));
		else if (json_is(have, JSON_NULL) && !p->nullable)
			(void)json_set(d, v, n->names[i], json_copy(d, p->fallback));
	}
}

static void apply(struct json_doc *d, struct json *v, const struct node *n)
{
	if (!n || !n->defaults)
		return;
	if (json_is(v, JSON_OBJ)) {
		fill(d, v, n);
		json_each(it, v)
			apply(d, it.val, schema_of(n, it.key));
	} else if (json_is(v, JSON_ARR)) {
		json_each(it, v)
			apply(d, it.val, n->items);
	}
}

void custom_default(struct json_doc *d, struct json *v, const struct custom *c)
{
	if (!c->root->defaults)
		return;
	(void)json_own_all(d, v);
	apply(d, v, c->root);
}
