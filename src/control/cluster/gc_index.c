/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/gc_index_priv.h"

/*
 * A node stays for as long as its object is known or another names it as an owner. Since each node
 * remembers the owners it was linked to, taking it out never depends on what its object says last.
 */
struct gc_index {
	struct map *nodes; /* uid → struct gc_node, owned */
	void (*touched)(void *arg, const struct gc_node *n);
	void *arg;
};

static void node_forget_object(struct gc_node *n)
{
	kind_unref(take(n->kind));
	n->name = NULL;
	free(take(n->ns));
}

static void node_name(struct gc_node *n, const char *ns, const char *name)
{
	size_t ns_size = strlen(ns) + 1, name_size = strlen(name) + 1;

	n->ns = xmalloc(ns_size + name_size);
	n->name = n->ns + ns_size;
	memcpy(n->ns, ns, ns_size);
	memcpy(n->name, name, name_size);
}

static void node_free(void *value)
{
	struct gc_node *n = value;

	node_forget_object(n);
	map_free(n->deps);
	free(n->owners);
	free(n);
}

struct gc_index *gc_index_new(void (*touched)(void *arg, const struct gc_node *n), void *arg)
{
	struct gc_index *ix = xnew(struct gc_index);

	ix->nodes = map_new_borrowing(node_free);
	ix->touched = touched;
	ix->arg = arg;
	return ix;
}

void gc_index_free(struct gc_index *ix)
{
	if (!ix)
		return;
	map_free(ix->nodes);
	free(ix);
}

const struct gc_node *gc_index_get(const struct gc_index *ix, const char *uid)
{
	return map_get(ix->nodes, uid);
}

static struct gc_node *node_need(struct gc_index *ix, const char *uid)
{
	struct gc_node *n = map_get(ix->nodes, uid);
	size_t len = strlen(uid) + 1;

	if (!n) {
		n = xcalloc(1, sizeof(*n) + len);
		memcpy(n->uid, uid, len);
		map_put(ix->nodes, n->uid, n);
	}
	return n;
}

static void node_tidy(struct gc_index *ix, struct gc_node *n)
{
	if (!n->kind && (!n->deps || !map_len(n->deps)))
		(void)map_del(ix->nodes, n->uid);
}

static void touch(struct gc_index *ix, const struct gc_node *n)
{
	if (n->kind)
		ix->touched(ix->arg, n);
}

static void link_owners(struct gc_index *ix, struct gc_node *n, const struct json *refs)
{
	n->owners = xnew_n(struct gc_node *, json_len(refs) + 1);
	json_each(it, refs) {
		const char *uid = json_get_str(it.val, "uid");
		struct gc_node *owner;

		if (str_empty(uid))
			continue;
		owner = node_need(ix, uid);
		if (!owner->deps)
			owner->deps = map_new_borrowing(NULL);
		if (map_has(owner->deps, n->uid))
			continue; /* named twice */
		map_put(owner->deps, n->uid, n);
		n->owners[n->n_owners++] = owner;
	}
}

/* Leaves n itself in place, even when it was its own owner. */
static void unlink_owners(struct gc_index *ix, struct gc_node *n, bool tell)
{
	for (size_t i = 0; i < n->n_owners; i++) {
		struct gc_node *owner = n->owners[i];

		(void)map_del(owner->deps, n->uid);
		if (tell)
			touch(ix, owner);
		if (owner != n)
			node_tidy(ix, owner);
	}
	free(take(n->owners));
	n->n_owners = 0;
}

void gc_index_put(struct gc_index *ix, const struct object *o)
{
	const struct json *refs = json_get(json_get(o->root, "metadata"), "ownerReferences");
	struct gc_node *n = node_need(ix, o->uid);

	if (!n->kind) {
		n->kind = kind_ref(o->kind);
		node_name(n, o->ns, o->name);
	}
	unlink_owners(ix, n, true);
	if (json_len(refs))
		link_owners(ix, n, refs);
}

void gc_index_del(struct gc_index *ix, const char *uid)
{
	struct gc_node *n = map_get(ix->nodes, uid);

	if (!n)
		return;
	node_forget_object(n);
	unlink_owners(ix, n, true);
	map_each(it, n->deps)
		touch(ix, it.value);
	node_tidy(ix, n);
}

/* First all links, then the nodes: a node of the kind may be the owner of another. */
void gc_index_drop_kind(struct gc_index *ix, const struct kind *k)
{
	autofree struct gc_node **list = xnew_n(struct gc_node *, map_len(ix->nodes) + 1);
	size_t n = 0;

	map_each(it, ix->nodes) {
		struct gc_node *node = it.value;

		if (node->kind == k)
			list[n++] = node;
	}
	for (size_t i = 0; i < n; i++)
		unlink_owners(ix, list[i], false);
	for (size_t i = 0; i < n; i++) {
		node_forget_object(list[i]);
		node_tidy(ix, list[i]);
	}
}

void gc_index_doubt(struct gc_index *ix)
{
	map_each(it, ix->nodes) {
		const struct gc_node *owner = it.value;

		if (owner->kind)
			continue;
		map_each(dep, owner->deps)
			touch(ix, dep.value);
	}
}
