/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * A ClusterRole with an aggregationRule has the rules of all ClusterRoles that its selectors
 * choose, in the order of their names, each rule once. They are written into it, as on a cluster,
 * so that the role says what it gives. One such role may choose another: this is repeated until
 * nothing changes, which takes as many passes as they are deep.
 */
enum {
	PASSES_MAX = 8,
	RULES_MAX = 4096, /* in one role */
};

struct gathering {
	const struct object *into;
	struct json_doc *d;
	struct json *rules;
	struct map *seen; /* the text of a rule */
	bool too_many;
};

static bool is_chosen(const struct object *into, const struct object *o)
{
	const struct json *labels = json_at_path(o->root, "metadata.labels");
	const struct json *by = json_get(into->root, "aggregationRule");

	if (str_eq(o->name, into->name))
		return false;
	json_each(it, json_get(by, "clusterRoleSelectors"))
		if (label_selector_matches(it.val, labels, false))
			return true;
	return false;
}

static void gather(struct gathering *g, const struct object *o)
{
	json_each(it, json_get(o->root, "rules")) {
		autofree char *text = json_to_text(it.val);

		if (map_has(g->seen, text))
			continue;
		if (json_len(g->rules) >= RULES_MAX) {
			g->too_many = true;
			return;
		}
		map_put(g->seen, text, g);
		json_push(g->d, g->rules, json_copy(g->d, it.val));
	}
}

/* Calls fn with each ClusterRole; fn must not write. */
static void each_role(const struct objects *os, void (*fn)(void *arg, struct object *o), void *arg)
{
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	key_prefix(&prefix, os->cluster_role, NULL);
	while ((en = store_next(os->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(os, en);

		if (o)
			fn(arg, o);
	}
}

static void gather_if_chosen(void *arg, struct object *o)
{
	struct gathering *g = arg;

	if (is_chosen(g->into, o))
		gather(g, o);
}

static struct err *write_rules(struct admit *a, const struct object *o, const struct json *rules)
{
	autoptr(json_doc) patch = json_doc_new();
	autoop op = { .admit = a,
		      .user = "system:cay:aggregation",
		      .kind = o->kind,
		      .ns = "",
		      .name = o->name,
		      .sub = "" };
	struct json *root = json_obj(patch);

	json_set_root(patch, root);
	json_set(patch, root, "rules", json_copy(patch, rules));
	return op_patch(&op, PATCH_MERGE, root, NULL);
}

/* True: it had other rules. */
static bool aggregate(struct admit *a, struct object *o)
{
	autoptr(json_doc) d = json_doc_new();
	autoptr(map) seen = map_new(NULL);
	struct gathering g = { .into = o, .d = d, .rules = json_arr(d), .seen = seen };
	const struct json *had = json_get(o->root, "rules");
	struct err *e;

	each_role(a->objects, gather_if_chosen, &g);
	if (g.too_many)
		log_warn("an aggregated ClusterRole has as many rules as it can have",
			 KV("clusterrole", o->name), KV("rules", RULES_MAX));
	if (json_equal(had, g.rules) || (!json_len(had) && !json_len(g.rules)))
		return false;
	e = write_rules(a, o, g.rules);
	if (e)
		log_warn("an aggregated ClusterRole keeps its rules", KV("clusterrole", o->name),
			 KV("err", e));
	err_free(e);
	return !e;
}

struct found {
	struct object **list;
	size_t n;
};

static void find_aggregated(void *arg, struct object *o)
{
	struct found *f = arg;

	if (!json_get(o->root, "aggregationRule") || object_deleting(o))
		return;
	f->list = xrealloc(f->list, (f->n + 1) * sizeof(struct object *));
	f->list[f->n++] = object_ref(o);
}

/* True: something has changed. */
static bool pass(struct admit *a)
{
	struct found f = { 0 };
	bool changed = false;

	each_role(a->objects, find_aggregated, &f);
	for (size_t i = 0; i < f.n; i++) {
		changed |= aggregate(a, f.list[i]);
		object_unref(f.list[i]);
	}
	free(f.list);
	return changed;
}

void roles_aggregate(struct admit *a)
{
	for (int i = 0; i < PASSES_MAX; i++)
		if (!pass(a))
			return;
}
