/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apps.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/mem.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/context.h"

/*
 * One watch for each stored kind of the registry, and which controllers each event concerns. As
 * everywhere in this folder, an event only updates an index and queues keys. Nothing runs before
 * every watch has delivered what existed; a kind that is registered later counts as known once its
 * own watch has done so.
 */
struct kind_watch {
	struct list link; /* of cluster->watches */
	struct cluster *cl;
	const struct kind *kind; /* a reference */
	struct client_watch *watch;
	bool synced;
};

bool cluster_synced(const struct cluster *cl)
{
	return cl->started && !cl->n_unsynced;
}

static struct kind_watch *find(const struct cluster *cl, const struct kind *k)
{
	struct kind_watch *w;

	list_each(w, &cl->watches, link)
		if (w->kind == k)
			return w;
	return NULL;
}

bool cluster_knows(const struct cluster *cl, const struct kind *k)
{
	const struct kind_watch *w = find(cl, k);

	return w && w->synced;
}

void cluster_each_namespaced(const struct cluster *cl, bool (*fn)(void *arg, const struct kind *k),
			     void *arg)
{
	struct kind_watch *w;

	list_each(w, &cl->watches, link)
		if ((w->kind->flags & KIND_NAMESPACED) && !fn(arg, w->kind))
			return;
}

static void on_changed(void *arg, struct object *was, struct object *now)
{
	struct kind_watch *w = arg;

	gc_changed(w->cl->gc, was, now);
	namespaces_changed(w->cl, was, now);
	definitions_changed(w->cl, was, now);
	pvc_protection_changed(w->cl->pvc_protection, was, now);
	event_expiry_changed(w->cl->event_expiry, was, now);
	endpoints_changed(w->cl->endpoints, was, now);
	apps_changed(w->cl, was, now);
}

static void open_when_synced(struct cluster *cl)
{
	if (cluster_synced(cl))
		queue_open(cl->c->chores);
}

static void on_synced(void *arg)
{
	struct kind_watch *w = arg;

	w->synced = true;
	w->cl->n_unsynced--;
	if (cluster_synced(w->cl))
		gc_kind_known(w->cl->gc);
	open_when_synced(w->cl);
}

static void follow(struct cluster *cl, const struct kind *k)
{
	static const struct client_watch_events ev = { on_changed, on_synced };
	const struct client_watch_spec spec = { .kind = k };
	struct kind_watch *w;

	if (k->storage)
		return;
	w = xnew(struct kind_watch);
	w->cl = cl;
	w->kind = kind_ref(k);
	cl->n_unsynced++;
	list_add_tail(&cl->watches, &w->link);
	w->watch = client_watch(cl->c->client, &spec, &ev, w);
}

static void unfollow(struct kind_watch *w)
{
	if (!w->synced)
		w->cl->n_unsynced--;
	client_watch_free(w->watch);
	kind_unref(w->kind);
	list_del(&w->link);
	free(w);
}

static void on_kind(void *arg, const struct kind *k, bool added)
{
	struct cluster *cl = arg;
	struct kind_watch *w = find(cl, k);

	if (added)
		follow(cl, k);
	if (added || !w)
		return;
	unfollow(w);
	gc_kind_gone(cl->gc, k);
	open_when_synced(cl);
}

struct cluster *cluster_start(struct context *c)
{
	struct kinds *registry = client_kinds(c->client);
	struct cluster *cl = xnew(struct cluster);
	const struct kind *const *all;
	size_t n;

	cl->c = c;
	list_init(&cl->watches);
	cl->namespace = kinds_need(registry, "v1", "Namespace");
	cl->service_account = kinds_need(registry, "v1", "ServiceAccount");
	cl->config_map = kinds_need(registry, "v1", "ConfigMap");
	cl->event = kinds_need(registry, "v1", "Event");
	cl->old_endpoints = kinds_need(registry, "v1", "Endpoints");
	cl->slice = kinds_need(registry, API_DISCOVERY, "EndpointSlice");
	cl->deployment = kinds_need(registry, API_APPS, "Deployment");
	cl->replica_set = kinds_need(registry, API_APPS, "ReplicaSet");
	cl->definition =
		kinds_need(registry, "apiextensions.k8s.io/v1", "CustomResourceDefinition");
	cl->gc = gc_new(cl);
	cl->event_expiry = event_expiry_new(cl);
	cl->pvc_protection = pvc_protection_new(cl);
	cl->endpoints = endpoints_new(cl);
	all = kinds_all(registry, &n);
	for (size_t i = 0; i < n; i++)
		follow(cl, all[i]);
	cl->started = true;
	cl->registry = (struct kinds_watch){ .changed = on_kind, .arg = cl };
	kinds_watch(registry, &cl->registry);
	open_when_synced(cl);
	return cl;
}

void cluster_free(struct cluster *cl)
{
	struct kind_watch *w, *next;

	if (!cl)
		return;
	kinds_unwatch(&cl->registry);
	list_each_safe(w, next, &cl->watches, link)
		unfollow(w);
	gc_free(cl->gc);
	event_expiry_free(cl->event_expiry);
	pvc_protection_free(cl->pvc_protection);
	endpoints_free(cl->endpoints);
	free(cl);
}
