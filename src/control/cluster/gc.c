/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/cluster/gc_index_priv.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"

/*
 * Garbage collection by owner references. A key is the uid of an object that a change may concern:
 *
 *   - an object whose owners are all gone (or never existed) is deleted; if only some are gone,
 *     the references to those are removed
 *   - an object that is being deleted in the foreground is removed when no dependent blocks it any
 *     more; its dependents are deleted at once, and one that it blocks itself is not waited for
 *   - an object that is being deleted with policy Orphan is removed after its dependents no longer
 *     refer to it
 *
 * An owner of a kind that is not served cannot be looked up: as in Kubernetes, it counts as
 * existing.
 */
enum {
	BUDGET = 256,    /* dependents that one pass releases */
	RING_MAX = 1000, /* owners above an object; a longer cycle of them is not detected */
};

enum gc_write {
	GC_WRITE_DELETE,
	GC_WRITE_RELEASE, /* the patch that drops owners or a finalizer of the object itself */
	GC_WRITE_ORPHAN,  /* the patch that drops the object from a dependent's owners */
	GC_WRITE_MAX_,
};
_Static_assert(GC_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

struct gc {
	struct cluster *cl;
	struct gc_index *index;
};

static const struct json *owners_of(const struct object *o)
{
	return json_get(json_get(o->root, "metadata"), "ownerReferences");
}

bool object_has_finalizer(const struct object *o, const char *name)
{
	json_each(it, json_get(json_get(o->root, "metadata"), "finalizers"))
		if (str_eq(json_str(it.val), name))
			return true;
	return false;
}

static bool deletes_in_foreground(const struct object *o)
{
	return object_deleting(o) && object_has_finalizer(o, FINALIZER_FOREGROUND);
}

static bool leaves_orphans(const struct object *o)
{
	return object_deleting(o) && object_has_finalizer(o, FINALIZER_ORPHAN);
}

/* Changes */

static void touched(void *arg, const struct gc_node *n)
{
	struct gc *g = arg;

	item_wake(g->cl->c->chores, CONTROL_GC, n->ns, n->uid);
}

struct gc *gc_new(struct cluster *cl)
{
	struct gc *g = xnew(struct gc);

	g->cl = cl;
	g->index = gc_index_new(touched, g);
	return g;
}

void gc_free(struct gc *g)
{
	if (!g)
		return;
	gc_index_free(g->index);
	free(g);
}

void gc_changed(struct gc *g, const struct object *was, const struct object *now)
{
	bool wake = false;

	if (!now) {
		gc_index_del(g->index, was->uid);
		return;
	}
	if (!was || !json_equal(owners_of(was), owners_of(now))) {
		gc_index_put(g->index, now);
		wake = json_len(owners_of(now));
	}
	if (wake || deletes_in_foreground(now) || leaves_orphans(now))
		item_wake(g->cl->c->chores, CONTROL_GC, now->ns, now->uid);
}

void gc_kind_known(struct gc *g)
{
	gc_index_doubt(g->index);
}

void gc_kind_gone(struct gc *g, const struct kind *k)
{
	gc_index_drop_kind(g->index, k);
}

/* Look-ups */

/* A new reference; NULL when it is gone, which the index may not know yet. */
static struct object *object_of(const struct gc *g, const struct gc_node *n)
{
	struct object *o =
		n && n->kind ? client_get(g->cl->c->client, n->kind, n->ns, n->name) : NULL;

	if (o && !str_eq(o->uid, n->uid)) {
		object_unref(o);
		return NULL;
	}
	return o;
}

struct dependents gc_dependents(const struct gc *g, const struct object *owner,
				const struct kind *kind)
{
	const struct gc_node *node = gc_index_get(g->index, owner->uid);
	struct map *deps = node ? node->deps : NULL;
	struct dependents d = { .list = xnew_n(struct object *, (deps ? map_len(deps) : 0) + 1) };

	map_each(it, deps) {
		struct object *o = object_of(g, it.value);

		if (o && o->kind == kind && object_controlled_by(o, owner->uid) &&
		    str_eq(o->ns, owner->ns))
			d.list[d.n++] = o;
		else
			object_unref(o);
	}
	return d;
}

void dependents_done(struct dependents *d)
{
	for (size_t i = 0; i < d->n; i++)
		object_unref(d->list[i]);
	free(d->list);
}

/* A new reference; NULL: gone, or in another namespace (which counts as gone), or not known. */
static struct object *owner_of(const struct gc *g, const struct object *o, const struct json *ref)
{
	const char *uid = json_get_str(ref, "uid");
	struct object *owner = uid ? object_of(g, gc_index_get(g->index, uid)) : NULL;

	if (owner && *owner->ns && !str_eq(owner->ns, o->ns)) {
		object_unref(owner);
		return NULL;
	}
	return owner;
}

/* Whether the owner may exist without our knowing it. */
static bool owner_is_hidden(const struct gc *g, const struct json *ref)
{
	const char *uid = json_get_str(ref, "uid"), *version = json_get_str(ref, "apiVersion");
	const char *slash = version ? strchr(version, '/') : NULL;
	const struct gc_node *n = uid ? gc_index_get(g->index, uid) : NULL;
	const struct kind *k;
	char group[256];

	if (n && n->kind)
		return false; /* it is known, even if it does not count */
	api_version_group(version, group, sizeof(group));
	k = kinds_by_name(client_kinds(g->cl->c->client), group,
			  str_or(slash ? slash + 1 : version, ""),
			  str_or(json_get_str(ref, "kind"), ""));
	return !k || !cluster_knows(g->cl, kind_storage(k));
}

/* Writes */

static struct write write_on(const struct object *o, enum gc_write name, const char *what)
{
	return (struct write){
		.name = name, .to = ref_of(o), .what = what, .flags = WRITE_GONE_OK
	};
}

static void delete_object(struct pass *p, const struct object *o, const char *policy)
{
	const struct client_delete_spec spec = { .uid = o->uid,
						 .propagation = policy,
						 .grace_s = -1 };
	autofree char *what = xasprintf("delete %s %s", o->kind->kind, o->name);
	struct write w = write_on(o, GC_WRITE_DELETE, what);

	w.flags |= WRITE_QUIET;
	pass_delete(p, &w, &spec);
}

/* What one of the lists in an object's metadata shall keep. */
struct keeping {
	const struct gc *g;
	const struct object *o;
	const char *list;
	bool (*keep)(const struct keeping *k, const struct json *element);
	const char *text; /* for keep() */
};

/* A merge patch of the list, good for this state of the object only. */
static struct json_doc *list_patch(const struct keeping *k)
{
	const struct json *meta = json_get(k->o->root, "metadata");
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *to, *list = json_arr(d);

	json_set_root(d, root);
	to = json_need_obj(d, root, "metadata");
	draft_guard(d, to, k->o);
	json_each(it, json_get(meta, k->list))
		if (k->keep(k, it.val))
			json_push(d, list, json_copy(d, it.val));
	(void)json_set(d, to, k->list, json_len(list) ? list : json_new_null(d));
	return d;
}

static bool keep_other_finalizers(const struct keeping *k, const struct json *name)
{
	return !str_eq(json_str(name), k->text);
}

struct json_doc *finalizer_patch(const struct object *o, const char *name)
{
	const struct keeping keeping = {
		.o = o, .list = "finalizers", .keep = keep_other_finalizers, .text = name
	};

	return list_patch(&keeping);
}

static void drop_finalizer(struct pass *p, const struct object *o, const char *name)
{
	autofree char *what = xasprintf("finish %s %s", o->kind->kind, o->name);
	struct write w = write_on(o, GC_WRITE_RELEASE, what);

	w.flags |= WRITE_QUIET;
	pass_patch(p, &w, finalizer_patch(o, name));
}

static bool keep_other_owners(const struct keeping *k, const struct json *ref)
{
	return !str_eq(json_get_str(ref, "uid"), k->text);
}

static bool keep_solid_owners(const struct keeping *k, const struct json *ref)
{
	autoptr(object) owner = owner_of(k->g, k->o, ref);

	return owner ? !deletes_in_foreground(owner) : owner_is_hidden(k->g, ref);
}

/* An object that has an owner left */

struct owners {
	size_t solid, waiting, gone; /* waiting: being deleted in the foreground */
};

static struct owners owners_count(const struct gc *g, const struct object *o)
{
	struct owners n = { 0 };

	json_each(it, owners_of(o)) {
		autoptr(object) owner = owner_of(g, o, it.val);

		if (owner && deletes_in_foreground(owner))
			n.waiting++;
		else if (owner || owner_is_hidden(g, it.val))
			n.solid++;
		else
			n.gone++;
	}
	return n;
}

static void drop_lost_owners(struct pass *p, const struct gc *g, const struct object *o)
{
	const struct keeping keeping = {
		.g = g, .o = o, .list = "ownerReferences", .keep = keep_solid_owners
	};
	autofree char *what = xasprintf("release %s %s", o->kind->kind, o->name);
	struct write w = write_on(o, GC_WRITE_RELEASE, what);

	w.flags |= WRITE_QUIET;
	pass_patch(p, &w, list_patch(&keeping));
}

static void look_at_owners(struct pass *p, const struct gc *g, const struct object *o)
{
	const struct owners n = owners_count(g, o);
	const struct gc_node *node = gc_index_get(g->index, o->uid);

	if (n.solid && (n.gone || n.waiting))
		drop_lost_owners(p, g, o);
	else if (!n.solid && n.waiting)
		delete_object(p, o,
			      node->deps && map_len(node->deps) ? "Foreground" : "Background");
	else if (!n.solid && n.gone)
		delete_object(p, o,
			      object_has_finalizer(o, FINALIZER_ORPHAN)       ? "Orphan"
			      : object_has_finalizer(o, FINALIZER_FOREGROUND) ? "Foreground"
									      : "Background");
}

/* An object that is being deleted in the foreground */

static bool blocks(const struct object *dep, const char *uid)
{
	json_each(it, owners_of(dep))
		if (str_eq(json_get_str(it.val, "uid"), uid))
			return json_get_bool(it.val, "blockOwnerDeletion", false);
	return false;
}

/* What is found above an object: uids in map, objects in list, each once. */
struct above {
	struct map *uids;
	struct object **list;
	size_t n;
};

static void add_waiting_owners(const struct gc *g, const struct object *o, struct above *a)
{
	json_each(it, owners_of(o)) {
		autoptr(object) owner = owner_of(g, o, it.val);

		if (!owner || a->n == RING_MAX || map_has(a->uids, owner->uid) ||
		    !deletes_in_foreground(owner) ||
		    !json_get_bool(it.val, "blockOwnerDeletion", false))
			continue;
		map_put(a->uids, owner->uid, a);
		a->list[a->n++] = take(owner);
	}
}

/* The uids of everything that waits for o to be removed: its owners, theirs, and so on. */
static struct map *waiting_for(const struct gc *g, const struct object *o)
{
	struct above a = { .uids = map_new(NULL) };

	if (!json_len(owners_of(o)))
		return a.uids;
	a.list = xnew_n(struct object *, RING_MAX);
	add_waiting_owners(g, o, &a);
	for (size_t i = 0; i < a.n; i++)
		add_waiting_owners(g, a.list[i], &a);
	for (size_t i = 0; i < a.n; i++)
		object_unref(a.list[i]);
	free(a.list);
	return a.uids;
}

static void delete_in_foreground(struct pass *p, const struct gc *g, const struct object *o)
{
	const struct gc_node *node = gc_index_get(g->index, o->uid);
	autoptr(map) above = waiting_for(g, o);
	size_t n_blocking = 0;

	map_each(it, node->deps) {
		autoptr(object) dep = object_of(g, it.value);

		if (!dep)
			continue;
		n_blocking += blocks(dep, o->uid) && !map_has(above, dep->uid);
		if (!object_deleting(dep))
			touched((void *)g, it.value);
	}
	if (!n_blocking)
		drop_finalizer(p, o, FINALIZER_FOREGROUND);
}

/* An object that is being deleted and leaves its dependents behind */

/* The dependents at this moment, as references: releasing them changes the index. */
static size_t some_dependents(const struct gc *g, const struct object *o, struct object **ret)
{
	const struct gc_node *node = gc_index_get(g->index, o->uid);
	size_t n = 0;

	map_each(it, node->deps) {
		struct object *dep = n < BUDGET ? object_of(g, it.value) : NULL;

		if (dep)
			ret[n++] = dep;
	}
	return n;
}

static void make_orphan(struct pass *p, const struct object *dep, const char *uid)
{
	const struct keeping keeping = {
		.o = dep, .list = "ownerReferences", .keep = keep_other_owners, .text = uid
	};
	autofree char *what = xasprintf("release %s %s", dep->kind->kind, dep->name);
	const struct write w = write_on(dep, GC_WRITE_ORPHAN, what);

	pass_patch(p, &w, list_patch(&keeping));
}

/* The end of the writes wakes the key; the finalizer is removed when no dependent is left. */
static void make_orphans(struct pass *p, const struct gc *g, const struct object *o)
{
	autofree struct object **deps = xnew_n(struct object *, BUDGET);
	size_t n = some_dependents(g, o, deps);

	for (size_t i = 0; i < n; i++) {
		make_orphan(p, deps[i], o->uid);
		object_unref(deps[i]);
	}
	if (!n)
		drop_finalizer(p, o, FINALIZER_ORPHAN);
}

struct again gc_reconcile(struct pass *p)
{
	const struct cluster *cl = p->own;
	const struct gc *g = cl->gc;
	autoptr(object) o = object_of(g, gc_index_get(g->index, p->key->name));
	struct err *e = pass_take_error(p);

	if (!o) {
		err_free(e);
		return again_never();
	}
	if (e)
		return again_retry(e);
	if (leaves_orphans(o))
		make_orphans(p, g, o);
	else if (deletes_in_foreground(o))
		delete_in_foreground(p, g, o);
	else if (!object_deleting(o) && json_len(owners_of(o)))
		look_at_owners(p, g, o);
	return again_never();
}
