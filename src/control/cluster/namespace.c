/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "base/log.h"
#include "base/mem.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/context.h"

/*
 * Namespaces: the service account that each has, and their end. First everything in a namespace is
 * deleted; once nothing is left, its finalizer is taken away (PUT …/finalize), and with that the
 * server removes the namespace unless other finalizers hold it. A key is a namespace's name.
 */
enum {
	BUDGET = 256,    /* objects that one pass deletes */
	AGAIN_MS = 1000, /* a deletion that something holds up is looked at again this often */
};

enum namespace_write {
	NAMESPACE_WRITE_ACCOUNT, /* the default service account */
	NAMESPACE_WRITE_EMPTY,   /* the deletion of an object in it */
	NAMESPACE_WRITE_FINALIZE,
	NAMESPACE_WRITE_MAX_,
};
_Static_assert(NAMESPACE_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

static bool terminating(const struct cluster *cl, const char *name)
{
	autoptr(object) ns = client_get(cl->c->client, cl->namespace, NULL, name);

	return ns && object_deleting(ns);
}

/* Of other objects only deletions matter: of the last object in a namespace that is being deleted,
 * or of an account that must exist. */
void namespaces_changed(struct cluster *cl, const struct object *was, const struct object *now)
{
	const struct object *o = now ? now : was;

	if (o->kind == cl->namespace && now)
		item_wake(cl->c->chores, CONTROL_NAMESPACE, "", o->name);
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
	bool any;
};

static bool add_object(void *arg, struct object *o)
{
	struct contents *in = arg;

	in->any = true;
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

/* True when nothing is left. */
static bool empty(struct pass *p, const struct cluster *cl, const char *ns)
{
	autofree struct contents *in = xnew(struct contents);

	in->client = p->c->client;
	in->ns = ns;
	cluster_each_namespaced(cl, add_kind, in);
	for (size_t i = 0; i < in->n; i++) {
		struct object *o = in->list[i];
		const struct client_delete_spec spec = { .uid = o->uid,
							 .propagation = "Background",
							 .grace_s = -1 };
		const struct write w = { .name = NAMESPACE_WRITE_EMPTY,
					 .to = ref_of(o),
					 .what = "empty the namespace",
					 .flags = WRITE_GONE_OK };

		pass_delete(p, &w, &spec);
		object_unref(o);
	}
	return !in->any;
}

static void finalize(struct pass *p, const struct object *ns)
{
	const struct write w = { .name = NAMESPACE_WRITE_FINALIZE,
				 .to = { .kind = ns->kind, .name = ns->name, .sub = "finalize" },
				 .what = "finalize",
				 .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d;

	if (!json_len(json_get(object_spec(ns), "finalizers")))
		return; /* done; other finalizers hold it */
	log_info("namespace is empty, finishing its deletion", KV("namespace", ns->name));
	d = object_edit(ns);
	(void)json_del(json_need_obj(d, json_root(d), "spec"), "finalizers");
	pass_update(p, &w, d);
}

struct again namespace_reconcile(struct pass *p)
{
	const struct cluster *cl = p->own;
	autoptr(object) ns = client_get(p->c->client, cl->namespace, NULL, p->key->name);
	struct err *e = pass_take_error(p);

	if (!ns) {
		err_free(e);
		return again_never();
	}
	if (e)
		return again_retry(e);
	if (!object_deleting(ns)) {
		need_account(p, cl, ns->name);
		return again_never();
	}
	if (!empty(p, cl, ns->name))
		return again_after(AGAIN_MS);
	finalize(p, ns);
	return again_never(); /* its next change brings us back */
}
