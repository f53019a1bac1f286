/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/custom.h"
#include "api/decode_priv.h"
#include "api/schema_builtin_priv.h"
#include "base/map.h"
#include "base/str.h"

/*
 * A custom resource as its API server reads it: the last of members that appear twice stays,
 * metadata is read like any built-in type, and members that are null or not in the schema are
 * pruned. Values of wrong types stay, for validation to report.
 */
void decode_report(struct decode_walk *w, const char *what, const struct place *up,
		   const char *name)
{
	struct path at = { .up = up ? &up->path : NULL, .name = name };
	autofree char *text = NULL;

	if (!w->reports)
		return;
	text = path_text(&at);
	causes_add(w->reports, CAUSE_UNKNOWN, text, "%s field \"%s\"", what, text);
}

/* The last value of a name takes the place of the first. */
static void settle_one(struct decode_walk *w, struct json *obj, const struct place *at)
{
	struct pair {
		const char *key;
		struct json *val;
	};
	autofree struct pair *pairs = xnew_n(struct pair, json_len(obj) + 1);
	autoptr(map) seen = map_new(NULL);
	size_t n = 0;

	json_each(it, obj) {
		struct pair *had = map_get(seen, it.key);

		if (had) {
			decode_report(w, "duplicate", at, it.key);
			had->val = it.val;
			continue;
		}
		pairs[n] = (struct pair){ it.key, it.val };
		map_put(seen, it.key, &pairs[n++]);
	}
	if (n == json_len(obj))
		return;
	json_clear(obj);
	for (size_t i = 0; i < n; i++)
		json_add(w->d, obj, pairs[i].key, pairs[i].val);
}

void decode_settle_duplicates(struct decode_walk *w, struct json *v, const struct place *at,
			      bool deep)
{
	size_t i = 0;

	if (json_is(v, JSON_OBJ))
		settle_one(w, v, at);
	if (!deep)
		return;
	json_each(it, v) {
		struct place here = { .path = { &at->path, it.key, i++ }, .up = at };

		decode_settle_duplicates(w, it.val, &here, true);
	}
}

static void prune(struct decode_walk *w, struct json *v, const struct type *t,
		  const struct place *at);

/* Keeps the members that the table knows, unless they are null. */
static void keep_known(struct json_doc *d, struct json *v, const struct type *t)
{
	struct pair {
		const char *key;
		struct json *val;
	};
	autofree struct pair *kept = xnew_n(struct pair, json_len(v) + 1);
	size_t n = 0;

	json_each(it, v) {
		const struct field *f = t->kind == TYPE_OBJECT ? schema_field(t, it.key) : NULL;
		const struct type *of = f ? f->type : t->elem;

		if (of && (!json_is(it.val, JSON_NULL) || of->kind == TYPE_ANY))
			kept[n++] = (struct pair){ it.key, it.val };
	}
	json_clear(v);
	for (size_t i = 0; i < n; i++)
		json_add(d, v, kept[i].key, kept[i].val);
}

static void prune_object(struct decode_walk *w, struct json *v, const struct type *t,
			 const struct place *at)
{
	struct json_iter was = { .of = at->was };
	bool odd = false;

	json_each(it, v) {
		const struct json *there = json_follow(&was, &it);
		const bool fine = json_same(it.val, there);
		const struct field *f =
			t->kind == TYPE_OBJECT && !fine ? schema_field(t, it.key) : NULL;
		const struct type *of = f ? f->type : t->elem;
		struct place here = { .path = { &at->path, it.key }, .up = at, .was = there };

		if (fine)
			continue;
		if (!of) {
			decode_report(w, "unknown", at, it.key);
			odd = true;
		} else if (json_is(it.val, JSON_NULL)) {
			odd |= of->kind != TYPE_ANY; /* null means not given */
		} else {
			prune(w, it.val, of, &here);
		}
	}
	if (odd)
		keep_known(w->d, v, t);
}

static void prune(struct decode_walk *w, struct json *v, const struct type *t,
		  const struct place *at)
{
	struct json_iter was = { .of = at->was };
	size_t i = 0;

	if (t == &type_meta_object_meta)
		return; /* already read as a built-in type */
	if (t->custom) {
		custom_prune(w, v, t->custom, at);
		return;
	}
	if (json_same(v, at->was))
		return;
	(void)json_own(w->d, v);
	if ((t->kind == TYPE_OBJECT || t->kind == TYPE_MAP) && json_is(v, JSON_OBJ)) {
		prune_object(w, v, t, at);
		return;
	}
	if (t->kind != TYPE_LIST || !json_is(v, JSON_ARR) || t->elem->kind < TYPE_OBJECT)
		return;
	json_each(it, v) {
		struct place here = { .path = { &at->path, NULL, i++ },
				      .up = at,
				      .was = json_follow(&was, &it) };

		prune(w, it.val, t->elem, &here);
	}
}

static int by_message(const void *a, const void *b)
{
	return strcmp(((const struct cause *)a)->field, ((const struct cause *)b)->field);
}

/* Pruning reports in order of path. */
static void prune_and_report(struct decode_walk *w, struct json *root, const struct type *t,
			     const struct place *at)
{
	struct causes unknown = { 0 };
	struct decode_walk own = { .d = w->d, .reports = w->reports ? &unknown : NULL };

	prune(&own, root, t, at);
	if (unknown.n)
		qsort(unknown.list, unknown.n, sizeof(*unknown.list), by_message);
	for (size_t i = 0; i < unknown.n; i++)
		causes_add(w->reports, CAUSE_UNKNOWN, unknown.list[i].field, "%s",
			   unknown.list[i].message);
	causes_done(&unknown);
}

struct err *decode_loose(struct decode_walk *w, struct json *root, const struct type *t)
{
	struct place at = { .path = { .name = "" }, .was = w->was };
	struct place meta_at = { .path = { &at.path, "metadata" },
				 .up = &at,
				 .was = json_get(w->was, "metadata") };
	struct json *meta, *was;
	struct err *e = NULL;

	if (!json_is(root, JSON_OBJ))
		return NULL;
	if (w->duplicates)
		decode_settle_duplicates(w, root, &at, true);
	w->duplicates = false;
	was = meta = json_get(root, "metadata");
	if (meta && !json_is(meta, JSON_NULL))
		e = decode_typed(w, &meta, &type_meta_object_meta, &meta_at);
	if (e || w->first)
		return e;
	if (meta != was)
		(void)json_set(w->d, root, "metadata", meta);
	prune_and_report(w, root, t, &at);
	return NULL;
}
