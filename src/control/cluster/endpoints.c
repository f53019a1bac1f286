/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/service.h"
#include "api/view.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "json/json.h"

/*
 * The EndpointSlices of Services that select Pods. A key is a Service; it is due a moment after a
 * change, because a Pod that starts or ends changes several times within that moment.
 *
 * Which Services a Pod belongs to must not cost a look at all of them for every change of a Pod, so
 * each is listed under one of the labels it asks for. The Services of Sandboxes have no slices
 * unless asked for (docs/decisions/0055): nobody on this machine needs them, and a claim would
 * write a sixth to a quarter more.
 */
enum endpoints_write {
	ENDPOINTS_WRITE_CREATE,
	ENDPOINTS_WRITE_UPDATE,
	ENDPOINTS_WRITE_DELETE,
	ENDPOINTS_WRITE_OLD, /* of the older kind */
	ENDPOINTS_WRITE_MAX_,
};
_Static_assert(ENDPOINTS_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

enum {
	LATER_MS = 10,
};

struct endpoints {
	struct cluster *cl;
	struct map
		*by_label; /* NS/KEY=VALUE → struct map, owned: name → struct object, a reference */
};

static void service_unref(void *o)
{
	object_unref(o);
}

static void services_free(void *m)
{
	map_free(m);
}

struct endpoints *endpoints_new(struct cluster *cl)
{
	struct endpoints *x = xnew(struct endpoints);

	x->cl = cl;
	x->by_label = map_new(services_free);
	return x;
}

void endpoints_free(struct endpoints *x)
{
	if (!x)
		return;
	map_free(x->by_label);
	free(x);
}

/* Who is concerned */

static bool is_ours(const struct endpoints *x, const struct object *service)
{
	const struct json *spec = service ? object_spec(service) : NULL;

	if (!service || object_deleting(service) || service_is_external(spec) ||
	    !json_len(json_get(spec, "selector")))
		return false;
	return x->cl->c->opt.sandbox_slices || owner_view_of(service).type != OWNER_SANDBOX;
}

/* The first label that it asks for; malloc'd. */
static char *listed_under(const struct object *service)
{
	json_each(it, json_get(object_spec(service), "selector"))
		return xasprintf("%s/%s=%s", service->ns, it.key, str_or(json_str(it.val), ""));
	return NULL;
}

static void unlist(struct endpoints *x, const struct object *service)
{
	autofree char *key = listed_under(service);
	struct map *same = key ? map_get(x->by_label, key) : NULL;

	if (!same)
		return;
	(void)map_del(same, service->name);
	if (!map_len(same))
		(void)map_del(x->by_label, key);
}

static void list(struct endpoints *x, struct object *service)
{
	autofree char *key = listed_under(service);
	struct map *same = map_get(x->by_label, key);

	if (!same) {
		same = map_new(service_unref);
		map_put(x->by_label, key, same);
	}
	map_put(same, service->name, object_ref(service));
}

static void wake(const struct endpoints *x, const char *ns, const char *name)
{
	item_wake_later(x->cl->c->chores, &(struct key){ CONTROL_ENDPOINTS, ns, name }, LATER_MS);
}

static void wake_services_of(const struct endpoints *x, const struct object *pod)
{
	const struct json *labels = json_at_path(pod->root, "metadata.labels");

	json_each(it, labels) {
		autofree char *key =
			xasprintf("%s/%s=%s", pod->ns, it.key, str_or(json_str(it.val), ""));

		map_each(s, map_get(x->by_label, key)) {
			const struct object *service = s.value;

			if (service_selects(json_get(object_spec(service), "selector"), labels))
				wake(x, service->ns, service->name);
		}
	}
}

static bool same(const struct object *a, const struct object *b, const char *path)
{
	return json_equal(json_at_path(a->root, path), json_at_path(b->root, path));
}

static bool is_ready(const struct object *pod)
{
	return conditions_true(json_get(object_status(pod), "conditions"), "Ready");
}

/* Whether anything changed that slices show. */
static bool pod_differs(const struct object *was, const struct object *now)
{
	return !was || !now || is_ready(was) != is_ready(now) ||
	       object_deleting(was) != object_deleting(now) || !same(was, now, "status.podIPs") ||
	       !same(was, now, "status.phase") || !same(was, now, "metadata.labels");
}

static void service_changed(struct endpoints *x, struct object *was, struct object *now)
{
	if (is_ours(x, was))
		unlist(x, was);
	if (!is_ours(x, now))
		return;
	list(x, now);
	wake(x, now->ns, now->name);
}

/* Somebody else may change or delete what we have made. */
static void slice_changed(const struct endpoints *x, const struct object *was,
			  const struct object *now)
{
	const struct object *o = now ? now : was;
	const char *name = object_label(o, LABEL_SERVICE_NAME);

	if (name && str_eq(object_label(o, LABEL_MANAGED_BY), SLICES_MANAGER))
		wake(x, o->ns, name);
}

void endpoints_changed(struct endpoints *x, struct object *was, struct object *now)
{
	const struct object *o = now ? now : was;

	if (o->kind == x->cl->c->kinds.service) {
		service_changed(x, was, now);
	} else if (o->kind == x->cl->slice) {
		slice_changed(x, was, now);
	} else if (o->kind == x->cl->c->kinds.pod && map_len(x->by_label) &&
		   pod_differs(was, now)) {
		if (was)
			wake_services_of(x, was);
		if (now)
			wake_services_of(x, now);
	}
}

/* A pass */

struct found {
	const struct object *service;
	struct object **pods; /* borrowed */
	size_t n_pods, space;
	struct map *slices; /* name → struct object, a reference */
};

static bool on_pod(void *arg, struct object *pod)
{
	struct found *f = arg;

	if (!service_selects(json_get(object_spec(f->service), "selector"),
			     json_at_path(pod->root, "metadata.labels")) ||
	    pod_phase_over(json_get_str(object_status(pod), "phase")))
		return true;
	if (f->n_pods == f->space) {
		f->space = f->space ? f->space * 2 : 16;
		f->pods = xrealloc(f->pods, f->space * sizeof(struct object *));
	}
	f->pods[f->n_pods++] = pod;
	return true;
}

static bool on_slice(void *arg, struct object *slice)
{
	struct found *f = arg;

	if (str_eq(object_label(slice, LABEL_SERVICE_NAME), f->service->name) &&
	    str_eq(object_label(slice, LABEL_MANAGED_BY), SLICES_MANAGER))
		map_put(f->slices, slice->name, object_ref(slice));
	return true;
}

static bool is_as_wanted(const struct object *have, const struct json *want)
{
	static const char *const parts[] = { "metadata.labels", "metadata.ownerReferences",
					     "addressType",     "endpoints",
					     "ports",           "subsets" };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const struct json *a = json_at_path(have->root, parts[i]);
		const struct json *b = json_at_path(want, parts[i]);

		if (!json_equal(a, b) && (json_len(a) || json_len(b)))
			return false;
	}
	return true;
}

static struct json_doc *alone(const struct json *slice, const struct object *over)
{
	struct json_doc *d = json_doc_new();

	json_set_root(d, json_copy(d, slice));
	if (over)
		draft_guard(d, json_need_obj(d, json_root(d), "metadata"), over);
	return d;
}

static void write_slice(struct pass *p, const struct found *f, const struct json *want)
{
	const struct cluster *cl = p->own;
	const char *name = json_get_str(json_get(want, "metadata"), "name");
	autoptr(object) have = map_take(f->slices, name);
	struct write w = { .name = have ? ENDPOINTS_WRITE_UPDATE : ENDPOINTS_WRITE_CREATE,
			   .to = { .kind = cl->slice, .ns = f->service->ns, .name = name },
			   .what = "write an EndpointSlice",
			   .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };

	if (!have)
		pass_create(p, &w, alone(want, NULL));
	else if (!is_as_wanted(have, want))
		pass_update(p, &w, alone(want, have));
}

/* One that somebody wrote is left alone. */
static void write_old(struct pass *p, const struct object *service, struct json_doc *doc)
{
	const struct cluster *cl = p->own;
	autoptr(json_doc) want = doc;
	autoptr(object) have =
		client_get(p->c->client, cl->old_endpoints, service->ns, service->name);
	const struct write w = {
		.name = ENDPOINTS_WRITE_OLD,
		.to = { .kind = cl->old_endpoints, .ns = service->ns, .name = service->name },
		.what = "write Endpoints",
		.flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK
	};

	if (!have)
		pass_create(p, &w, take(want));
	else if (str_eq(object_label(have, LABEL_ENDPOINTS_BY), ENDPOINTS_MANAGER) &&
		 !is_as_wanted(have, json_root(want)))
		pass_update(p, &w, alone(json_root(want), have));
}

static void delete_slice(struct pass *p, const struct object *slice)
{
	const struct write w = { .name = ENDPOINTS_WRITE_DELETE,
				 .to = ref_of(slice),
				 .what = "delete an EndpointSlice",
				 .flags = WRITE_QUIET | WRITE_GONE_OK };

	pass_delete_uid(p, &w, slice->uid);
}

struct again endpoints_reconcile(struct pass *p)
{
	const struct cluster *cl = p->own;
	struct client *client = p->c->client;
	autoptr(object) service = client_get(client, p->c->kinds.service, p->key->ns, p->key->name);
	autoptr(json_doc) want = NULL;
	autofree struct object **pods = NULL;
	autoptr(map) slices = NULL;
	struct err *e = pass_take_error(p);
	struct found f = { .service = service };

	if (e)
		return again_retry(e);
	if (!is_ours(cl->endpoints, service))
		return again_never(); /* slices go with their Service, by garbage collection */
	slices = f.slices = map_new(service_unref);
	client_each(client, p->c->kinds.pod, service->ns, on_pod, &f);
	client_each(client, cl->slice, service->ns, on_slice, &f);
	pods = f.pods;
	want = slices_build(&(struct slices_of){ service, pods, f.n_pods });
	json_each(it, json_root(want))
		write_slice(p, &f, it.val);
	map_each(it, slices)
		delete_slice(p, it.value);
	write_old(p, service, subsets_build(service, json_root(want)));
	return again_never();
}
