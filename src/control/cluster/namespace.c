/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"

/*
 * Namespaces: the service account and the root CA that each has, and their end. First everything in
 * a namespace is deleted; once nothing is left, its finalizer is taken away (PUT …/finalize), and
 * with that the server removes the namespace unless other finalizers hold it. A key is a
 * namespace's name.
 */
enum {
	BUDGET = 256,    /* objects that one pass deletes */
	AGAIN_MS = 1000, /* a deletion that something holds up is looked at again this often */
};

enum namespace_write {
	NAMESPACE_WRITE_ACCOUNT, /* the default service account */
	NAMESPACE_WRITE_ROOT_CA, /* the ConfigMap with it */
	NAMESPACE_WRITE_EMPTY,   /* the deletion of an object in it */
	NAMESPACE_WRITE_FINALIZE,
	NAMESPACE_WRITE_STATUS,
	NAMESPACE_WRITE_MAX_,
};
_Static_assert(NAMESPACE_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

static bool terminating(const struct cluster *cl, const char *name)
{
	autoptr(object) ns = client_get(cl->c->client, cl->namespace, NULL, name);

	return ns && object_deleting(ns);
}

/* Of other objects only deletions matter: of the last object in a namespace that is being deleted,
 * or of an account that must exist. The ConfigMap of the root CA must also stay as it is. */
void namespaces_changed(struct cluster *cl, const struct object *was, const struct object *now)
{
	const struct object *o = now ? now : was;

	if (o->kind == cl->namespace && now)
		item_wake(cl->c->chores, CONTROL_NAMESPACE, "", o->name);
	else if (was && root_ca_is(cl, o))
		item_wake(cl->c->chores, CONTROL_NAMESPACE, "", o->ns);
	else if (!now && *o->ns && (o->kind == cl->service_account || terminating(cl, o->ns)))
		item_wake(cl->c->chores, CONTROL_NAMESPACE, "", o->ns);
}

static void need_account(struct pass *p, const struct cluster *cl, const char *ns)
{
	autoptr(object) account = client_get(p->c->client, cl->service_account, ns, "default");
	const struct write w = { .name = NAMESPACE_WRITE_ACCOUNT,
				 .to = { .kind = cl->service_account, .ns = ns },
				 .what = "create the default service account",
				 .flags = WRITE_QUIET };
	struct json_doc *d;

	if (account)
		return;
	d = json_doc_new();
	json_set_root(d, json_obj(d));
	json_set_str(d, json_need_obj(d, json_root(d), "metadata"), "name", "default");
	pass_create(p, &w, d);
}

/* What is in a namespace: some objects to delete, and whether there are any at all. */
struct contents {
	struct client *client;
	const char *ns;
	struct object *list[BUDGET]; /* references to those that are not being deleted yet */
	size_t n;
	struct tree *kinds, *finalizers; /* PLURAL.GROUP and name → how many, as a pointer */
};

static void count_one(struct tree *t, const char *key)
{
	tree_put(t, key, (void *)((uintptr_t)tree_get(t, key) + 1));
}

static bool add_object(void *arg, struct object *o)
{
	struct contents *in = arg;

	char resource[256];

	(void)snprintf(resource, sizeof(resource), "%s.%s", o->kind->plural, o->kind->group);
	count_one(in->kinds, resource);
	json_each(it, json_get(json_get(o->root, "metadata"), "finalizers"))
		count_one(in->finalizers, str_or(json_str(it.val), ""));
	if (!object_deleting(o))
		in->list[in->n++] = object_ref(o);
	return in->n < BUDGET;
}

static bool add_kind(void *arg, const struct kind *k)
{
	struct contents *in = arg;

	client_each(in->client, k, in->ns, add_object, in);
	return in->n < BUDGET;
}

static void look(struct contents *in, struct pass *p, const struct cluster *cl, const char *ns)
{
	in->client = p->c->client;
	in->ns = ns;
	in->kinds = tree_new(NULL);
	in->finalizers = tree_new(NULL);
	cluster_each_namespaced(cl, add_kind, in);
}

static void contents_free(struct contents *in)
{
	if (!in)
		return;
	for (size_t i = 0; i < in->n; i++)
		object_unref(in->list[i]);
	tree_free(in->kinds);
	tree_free(in->finalizers);
	free(in);
}
AUTOPTR(contents)

static void empty(struct pass *p, const struct contents *in)
{
	for (size_t i = 0; i < in->n; i++) {
		const struct object *o = in->list[i];
		const struct client_delete_spec spec = { .uid = o->uid,
							 .propagation = "Background",
							 .grace_s = -1 };
		const struct write w = { .name = NAMESPACE_WRITE_EMPTY,
					 .to = ref_of(o),
					 .what = "empty the namespace",
					 .flags = WRITE_GONE_OK };

		pass_delete(p, &w, &spec);
	}
}

/* "configmaps. has 2 resource instances, …", as Kubernetes says it; malloc'd */
static char *describe(const char *before, const struct tree *t, const char *between)
{
	struct buf b = { 0 };
	const char *key = NULL, *from = "";
	void *n;

	buf_add_str(&b, before);
	while ((n = tree_seek(t, from, *from, &key))) {
		buf_printf(&b, "%s%s %s %zu resource instances", *from ? ", " : "", key, between,
			   (size_t)(uintptr_t)n);
		from = key;
	}
	return buf_steal(&b, NULL);
}

/* Why the namespace has not ended, in the words of Kubernetes. e: why something in it could not be
 * deleted; NULL: everything is being deleted. */
static void report(struct pass *p, const struct object *ns, const struct contents *in,
		   const struct err *e)
{
	autofree char *remain = describe("Some resources are remaining: ", in->kinds, "has");
	autofree char *held = describe(
		"Some content in the namespace has finalizers remaining: ", in->finalizers, "in");
	autofree char *failed = xasprintf("Failed to delete all resource types, %zu remaining: %s",
					  tree_len(in->kinds), e ? err_text(e) : "");
	bool any = tree_len(in->kinds), finalizers = tree_len(in->finalizers);
	const struct {
		bool is;
		const char *type, *reason, *message;
	} rows[] = {
		{ false, "NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered",
		  "All resources successfully discovered" },
		{ false, "NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions",
		  "All legacy kube types successfully parsed" },
		{ e != NULL, "NamespaceDeletionContentFailure",
		  e ? "ContentDeletionFailed" : "ContentDeleted",
		  e ? failed : "All content successfully deleted, may be waiting on finalization" },
		{ any, "NamespaceContentRemaining", any ? "SomeResourcesRemain" : "ContentRemoved",
		  any ? remain : "All content successfully removed" },
		{ finalizers, "NamespaceFinalizersRemaining",
		  finalizers ? "SomeFinalizersRemain" : "ContentHasNoFinalizers",
		  finalizers ? held : "All content-preserving finalizers finished" },
	};
	autoptr(json_doc) d = draft_status(ns);
	struct json *list = json_get(json_root(d), "conditions");
	struct write w = { .name = NAMESPACE_WRITE_STATUS,
			   .to = ref_of(ns),
			   .what = "report why the namespace has not ended",
			   .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *patch;

	if (!list)
		list = json_set(d, json_root(d), "conditions", json_arr(d));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		conditions_upsert(d, list,
				  &(struct condition){ .type = rows[i].type,
						       .status = rows[i].is ? "True" : "False",
						       .reason = rows[i].reason,
						       .message = rows[i].message },
				  p->now);
	patch = draft_status_patch(ns, json_root(d));
	w.to.sub = "status";
	if (patch)
		pass_patch(p, &w, patch);
}

/* The finalizers in spec but ours: whoever added one takes it away by PUT …/finalize too. */
static void keep_others(struct json_doc *d, struct json *spec)
{
	struct json *list = json_arr(d);

	json_each(it, json_get(spec, "finalizers"))
		if (!str_eq(json_str(it.val), FINALIZER_NAMESPACE))
			json_push(d, list, json_copy(d, it.val));
	if (json_len(list))
		(void)json_set(d, spec, "finalizers", list);
	else
		(void)json_del(spec, "finalizers");
}

static bool has_ours(const struct object *ns)
{
	json_each(it, json_get(object_spec(ns), "finalizers"))
		if (str_eq(json_str(it.val), FINALIZER_NAMESPACE))
			return true;
	return false;
}

static void finalize(struct pass *p, const struct object *ns)
{
	const struct write w = { .name = NAMESPACE_WRITE_FINALIZE,
				 .to = { .kind = ns->kind, .name = ns->name, .sub = "finalize" },
				 .what = "finalize",
				 .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d;

	if (!has_ours(ns))
		return; /* done; other finalizers hold it */
	log_info("namespace is empty, finishing its deletion", KV("namespace", ns->name));
	d = object_edit(ns);
	keep_others(d, json_need_obj(d, json_root(d), "spec"));
	pass_update(p, &w, d);
}

static struct again end(struct pass *p, const struct cluster *cl, const struct object *ns)
{
	autoptr(contents) in = xnew(struct contents);
	const struct err *failed = p->out[NAMESPACE_WRITE_EMPTY].e;
	struct err *e;

	look(in, p, cl, ns->name);
	if (failed)
		report(p, ns, in, failed);
	e = pass_take_error(p);
	if (e)
		return again_retry(e);
	empty(p, in);
	if (in->n)
		return again_wait(); /* for these; then we look again */
	if (tree_len(in->kinds)) {
		report(p, ns, in, NULL);
		return again_after(AGAIN_MS);
	}
	finalize(p, ns);
	return again_never(); /* its next change brings us back */
}

struct again namespace_reconcile(struct pass *p)
{
	const struct cluster *cl = p->own;
	autoptr(object) ns = client_get(p->c->client, cl->namespace, NULL, p->key->name);
	struct err *e;

	if (!ns)
		return again_never();
	if (object_deleting(ns))
		return end(p, cl, ns);
	e = pass_take_error(p);
	if (e)
		return again_retry(e);
	need_account(p, cl, ns->name);
	root_ca_need(p, cl, ns->name, NAMESPACE_WRITE_ROOT_CA);
	return again_never();
}
