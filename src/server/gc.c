/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/bytes.h"
#include "base/log.h"
#include "server/server_priv.h"

/*
 * Garbage collection by owner references. An index follows every change: uid → the object that has
 * it, and the keys of those that name it as an owner. Objects that a change may concern are queued
 * and looked at in a deferred call:
 *
 *   - an object whose owners are all gone (or never were) is deleted; if only some are gone, those
 *     references go
 *   - an object that is being deleted in the foreground goes when no dependent blocks it any more,
 *     and its dependents are deleted now; one that it blocks itself is not waited for
 *   - one that is being deleted as an orphan maker first leaves its dependents without its
 * reference
 */
#define FOREGROUND "foregroundDeletion"
#define ORPHAN     "orphan"
enum {
	BUDGET = 256, /* objects looked at in one turn */
	PAUSE_MS = 1000,
	RING_MAX = 1000, /* owners above an object; a longer ring of them is not seen */
};

struct gc_node {
	char *key;        /* of the object with this uid; NULL: it does not exist */
	struct map *deps; /* keys of dependents → gc_node (unused value); NULL: none */
};

struct gc_item {
	struct list link;
	char key[];
};

struct gc {
	struct server *s;
	struct map *nodes;  /* uid → struct gc_node, owned */
	struct map *queued; /* key → struct gc_item, in queue */
	struct list queue;
	struct timer *more; /* the rest of a long queue, in the next turn */
	bool paused;        /* the store takes no writes: the rest has time */
	struct deferred run;
};

static void node_free(void *value)
{
	struct gc_node *n = value;

	free(n->key);
	map_free(n->deps);
	free(n);
}

static struct gc_node *node_need(struct gc *g, const char *uid)
{
	struct gc_node *n = map_get(g->nodes, uid);

	if (!n) {
		n = xnew(struct gc_node);
		map_put(g->nodes, uid, n);
	}
	return n;
}

static void node_tidy(struct gc *g, const char *uid, struct gc_node *n)
{
	if (!n->key && (!n->deps || !map_len(n->deps)))
		(void)map_del(g->nodes, uid);
}

static const struct json *owners_of(const struct object *o)
{
	return json_get(json_get(o->root, "metadata"), "ownerReferences");
}

static bool has_finalizer(const struct object *o, const char *name)
{
	json_each(it, json_get(json_get(o->root, "metadata"), "finalizers"))
		if (str_eq(json_str(it.val), name))
			return true;
	return false;
}

static bool works_off(const struct object *o)
{
	return object_deleting(o) && (has_finalizer(o, FOREGROUND) || has_finalizer(o, ORPHAN));
}

/* The queue */

static void gc_run(void *arg);

static void enqueue(struct gc *g, const char *key)
{
	struct gc_item *it;

	if (map_has(g->queued, key))
		return;
	it = xcalloc(1, sizeof(*it) + strlen(key) + 1);
	memcpy(it->key, key, strlen(key) + 1);
	list_add_tail(&g->queue, &it->link);
	map_put(g->queued, key, it);
	if (!timer_armed(g->more))
		deferred_call(&g->run);
}

/* The index */

static void link_owners(struct gc *g, const struct object *o, const char *key)
{
	json_each(it, owners_of(o)) {
		const char *uid = json_get_str(it.val, "uid");
		struct gc_node *n;

		if (str_empty(uid))
			continue;
		n = node_need(g, uid);
		if (!n->deps)
			n->deps = map_new(NULL);
		map_put(n->deps, key, n);
	}
}

static void unlink_owners(struct gc *g, const struct object *o, const char *key)
{
	json_each(it, owners_of(o)) {
		const char *uid = json_get_str(it.val, "uid");
		struct gc_node *n = uid ? map_get(g->nodes, uid) : NULL;

		if (!n || !n->deps)
			continue;
		(void)map_del(n->deps, key);
		if (n->key)
			enqueue(g, n->key); /* it may wait for this */
		node_tidy(g, uid, n);
	}
}

static void note_alive(struct gc *g, const char *uid, const char *key)
{
	struct gc_node *n = node_need(g, uid);

	free(n->key);
	n->key = xstrdup(key);
}

static void note_gone(struct gc *g, const struct object *o)
{
	struct gc_node *n = map_get(g->nodes, o->uid);

	if (!n)
		return;
	free(n->key);
	n->key = NULL;
	if (n->deps)
		map_each(it, n->deps)
			enqueue(g, it.key);
	node_tidy(g, o->uid, n);
}

void gc_note(struct gc *g, const struct object *o, const char *key)
{
	note_alive(g, o->uid, key);
	link_owners(g, o, key);
	if (json_len(owners_of(o)) || works_off(o))
		enqueue(g, key);
}

/* An object of a kind that is not served is left alone, and so is what it owns. */
static void note_opaque(struct gc *g, const struct store_entry *en)
{
	autoptr(json_doc) d = NULL;
	const char *uid;

	err_free(
		json_parse(en->value->data, en->value->len, NULL, &d)); /* not JSON: owns nothing */
	uid = json_str(json_at_path(json_root(d), "metadata.uid"));
	if (!str_empty(uid))
		note_alive(g, uid, en->key);
}

void gc_changed(struct gc *g, const struct store_event *ev)
{
	const struct object *now = ev->entry->tag, *was = ev->prev ? ev->prev->tag : NULL;
	const char *key = ev->entry->key;

	if (!g)
		return;
	if (ev->type == STORE_DELETED) {
		assert(was);
		unlink_owners(g, was, key);
		note_gone(g, now);
		return;
	}
	if (!was)
		note_alive(g, now->uid, key);
	if (!was || !json_equal(owners_of(was), owners_of(now))) {
		if (was)
			unlink_owners(g, was, key);
		link_owners(g, now, key);
		if (json_len(owners_of(now)))
			enqueue(g, key);
	}
	if (works_off(now))
		enqueue(g, key);
}

/* What is done about an object */

static struct op op_on(struct gc *g, const struct object *o)
{
	return (struct op){ .s = g->s,
			    .user = "system:cay:gc",
			    .kind = o->kind,
			    .ns = o->ns,
			    .name = o->name,
			    .sub = "" };
}

static void report(struct gc *g, struct err *e, const struct object *o, const char *what)
{
	autofree char *key = key_of(o->kind, o->ns, o->name);

	if (err_is(e, ERR_UNAVAILABLE)) {
		g->paused = true;
		timer_set(g->more, PAUSE_MS);
		enqueue(g, key);
	} else if (e && !err_is(e, ERR_NOT_FOUND))
		log_warn("garbage collection cannot go on with an object, skipping it",
			 KV("what", what), KV("kind", o->kind->kind), KV("namespace", o->ns),
			 KV("name", o->name), KV("err", e));
	err_free(e);
}

static void delete_object(struct gc *g, const struct object *o, const char *policy)
{
	struct delete_options options = { .uid = o->uid, .propagation = policy, .grace_s = -1 };
	autoop op = op_on(g, o);

	report(g, op_delete(&op, &options), o, "delete");
}

static void drop_finalizer(struct gc *g, struct object *o, const char *name)
{
	struct json_doc *d = object_edit(o);
	struct json *meta = json_get(json_root(d), "metadata");
	struct json *list = json_get(meta, "finalizers");
	autoop op = op_on(g, o);

	for (size_t i = json_len(list); i-- > 0;)
		if (str_eq(json_str(json_at(list, i)), name))
			json_remove(list, i);
	if (!json_len(list))
		(void)json_del(meta, "finalizers");
	report(g, op_store(&op, o, d), o, "finish");
}

/* keep() says which owner references stay. */
static void drop_owners(struct gc *g, struct object *o,
			bool (*keep)(struct gc *g, const struct object *o, const struct json *ref,
				     const char *uid),
			const char *uid)
{
	struct json_doc *d = object_edit(o);
	struct json *meta = json_get(json_root(d), "metadata");
	struct json *list = json_get(meta, "ownerReferences");
	autoop op = op_on(g, o);

	for (size_t i = json_len(list); i-- > 0;)
		if (!keep(g, o, json_at(list, i), uid))
			json_remove(list, i);
	if (!json_len(list))
		(void)json_del(meta, "ownerReferences");
	report(g, op_store(&op, o, d), o, "release");
}

static struct store_entry *owner_entry(struct gc *g, const struct json *ref)
{
	const char *uid = json_get_str(ref, "uid");
	struct gc_node *n = uid ? map_get(g->nodes, uid) : NULL;

	return n && n->key ? store_get(g->s->store, n->key) : NULL;
}

/* NULL: gone, or in another namespace, which counts as gone; or of a kind that is not served. */
static struct object *owner_of(struct gc *g, const struct object *o, const struct json *ref)
{
	struct store_entry *en = owner_entry(g, ref);
	struct object *owner = en ? en->tag : NULL;

	if (owner && *owner->ns && !str_eq(owner->ns, o->ns))
		return NULL;
	return owner;
}

static bool owner_is_opaque(struct gc *g, const struct json *ref)
{
	const struct store_entry *en = owner_entry(g, ref);

	return en && !en->tag;
}

static bool keep_existing(struct gc *g, const struct object *o, const struct json *ref,
			  const char *uid unused)
{
	return owner_of(g, o, ref) || owner_is_opaque(g, ref);
}

static bool keep_others(struct gc *g unused, const struct object *o unused, const struct json *ref,
			const char *uid)
{
	return !str_eq(json_get_str(ref, "uid"), uid);
}

static void look_at_owners(struct gc *g, struct object *o)
{
	size_t solid = 0, waiting = 0, gone = 0;
	struct gc_node *n;

	json_each(it, owners_of(o)) {
		const struct object *owner = owner_of(g, o, it.val);

		if (owner_is_opaque(g, it.val))
			solid++;
		else if (!owner)
			gone++;
		else if (object_deleting(owner) && has_finalizer(owner, FOREGROUND))
			waiting++;
		else
			solid++;
	}
	if (solid && gone) {
		drop_owners(g, o, keep_existing, NULL);
	} else if (!solid && waiting) {
		n = map_get(g->nodes, o->uid);
		delete_object(g, o, n && n->deps && map_len(n->deps) ? "Foreground" : "Background");
	} else if (!solid && gone) {
		delete_object(g, o,
			      has_finalizer(o, ORPHAN)       ? "Orphan"
			      : has_finalizer(o, FOREGROUND) ? "Foreground"
							     : "Background");
	}
}

/* The dependents of o at this moment, as references; what is done to them changes the index. */
static struct object **dependents(struct gc *g, const struct object *o, size_t *ret_n)
{
	struct gc_node *node = map_get(g->nodes, o->uid);
	struct object **list;
	size_t n = 0;

	*ret_n = 0;
	if (!node || !node->deps || !map_len(node->deps))
		return NULL;
	list = xnew_n(struct object *, map_len(node->deps));
	map_each(it, node->deps) {
		struct store_entry *en = store_get(g->s->store, it.key);

		if (en && en->tag)
			list[n++] = object_ref(en->tag);
	}
	*ret_n = n;
	return list;
}

static bool blocks(const struct object *dep, const char *uid)
{
	json_each(it, owners_of(dep))
		if (str_eq(json_get_str(it.val, "uid"), uid))
			return json_get_bool(it.val, "blockOwnerDeletion", false);
	return false;
}

static void add_waiting_owners(struct gc *g, const struct object *o, const struct object **list,
			       size_t *n, struct map *seen)
{
	json_each(it, owners_of(o)) {
		const struct object *owner = owner_of(g, o, it.val);

		if (!owner || *n == RING_MAX || map_has(seen, owner->uid) ||
		    !object_deleting(owner) || !has_finalizer(owner, FOREGROUND) ||
		    !json_get_bool(it.val, "blockOwnerDeletion", false))
			continue;
		map_put(seen, owner->uid, seen);
		list[(*n)++] = owner;
	}
}

/* The uids of all that wait for o to go: its owners, theirs, and so on. */
static struct map *waiting_for(struct gc *g, const struct object *o)
{
	autofree const struct object **list = xnew_n(const struct object *, RING_MAX);
	struct map *seen = map_new(NULL);
	size_t n = 0;

	add_waiting_owners(g, o, list, &n, seen);
	for (size_t i = 0; i < n; i++)
		add_waiting_owners(g, list[i], list, &n, seen);
	return seen;
}

static void delete_in_foreground(struct gc *g, struct object *o)
{
	size_t n, blocking = 0;
	struct object **deps = dependents(g, o, &n);
	struct map *above = n && json_len(owners_of(o)) ? waiting_for(g, o) : map_new(NULL);

	for (size_t i = 0; i < n; i++) {
		blocking += blocks(deps[i], o->uid) && !map_has(above, deps[i]->uid);
		if (!object_deleting(deps[i]))
			look_at_owners(g, deps[i]);
		object_unref(deps[i]);
	}
	free(deps);
	map_free(above);
	if (!blocking)
		drop_finalizer(g, o, FOREGROUND);
}

static void make_orphans(struct gc *g, struct object *o)
{
	size_t n;
	struct object **deps = dependents(g, o, &n);

	for (size_t i = 0; i < n; i++) {
		drop_owners(g, deps[i], keep_others, o->uid);
		object_unref(deps[i]);
	}
	free(deps);
	drop_finalizer(g, o, ORPHAN);
}

static void look_at(struct gc *g, const char *key)
{
	struct store_entry *en = store_get(g->s->store, key);
	autoptr(object) o = en ? object_ref(en->tag) : NULL;

	if (!o)
		return;
	if (object_deleting(o) && has_finalizer(o, ORPHAN))
		make_orphans(g, o);
	else if (object_deleting(o) && has_finalizer(o, FOREGROUND))
		delete_in_foreground(g, o);
	else if (!object_deleting(o) && json_len(owners_of(o)))
		look_at_owners(g, o);
}

static void gc_work(void *arg)
{
	struct gc *g = arg;
	struct gc_item *it;

	g->paused = false;
	for (int i = 0; i < BUDGET && !list_empty(&g->queue) && !g->paused; i++) {
		it = list_first(&g->queue, struct gc_item, link);
		list_del(&it->link);
		(void)map_take(g->queued, it->key);
		look_at(g, it->key);
		free(it);
	}
	if (!list_empty(&g->queue))
		timer_set(g->more, g->paused ? PAUSE_MS : 0);
}

static void gc_run(void *arg)
{
	struct gc *g = arg;

	gc_work(g);
	deferred_cancel(&g->run); /* what was queued meanwhile was seen, or waits for the timer */
}

struct gc *gc_new(struct server *s)
{
	struct gc *g = xnew(struct gc);
	struct store_entry *en = NULL;

	g->s = s;
	g->nodes = map_new(node_free);
	g->queued = map_new(NULL);
	list_init(&g->queue);
	g->more = timer_new(s->loop, gc_work, g);
	deferred_init(&g->run, s->loop, gc_run, g);
	while ((en = store_next(s->store, "", en ? en->key : NULL))) {
		if (en->tag)
			gc_note(g, en->tag, en->key);
		else
			note_opaque(g, en);
	}
	return g;
}

void gc_free(struct gc *g)
{
	struct gc_item *it, *next;

	if (!g)
		return;
	list_each_safe(it, next, &g->queue, link)
		free(it);
	timer_free(g->more);
	map_free(g->queued);
	map_free(g->nodes);
	deferred_cancel(&g->run);
	free(g);
}
