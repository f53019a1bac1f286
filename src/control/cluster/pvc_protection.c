/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/context.h"
#include "json/json.h"

/*
 * A PersistentVolumeClaim that a Pod uses is not removed under it. The server gives every claim a
 * finalizer; it is taken away here once the claim is being deleted and no Pod that has not ended
 * names it. How many Pods name a claim is kept as they come and go. A key is a claim.
 */
enum pvc_write {
	PVC_WRITE_RELEASE,
	PVC_WRITE_MAX_,
};
_Static_assert(PVC_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

struct pvc_protection {
	struct cluster *cl;
	struct map *users; /* NS/CLAIM → number of Pods, as a pointer */
};

struct pvc_protection *pvc_protection_new(struct cluster *cl)
{
	struct pvc_protection *x = xnew(struct pvc_protection);

	x->cl = cl;
	x->users = map_new(NULL);
	return x;
}

void pvc_protection_free(struct pvc_protection *x)
{
	if (!x)
		return;
	map_free(x->users);
	free(x);
}

static void count(struct pvc_protection *x, const struct object *pod, const char *claim, bool more)
{
	autofree char *key = xasprintf("%s/%s", pod->ns, claim);
	uintptr_t n = (uintptr_t)map_get(x->users, key);

	if (more) {
		map_put(x->users, key, (void *)(n + 1));
	} else if (n > 1) {
		map_put(x->users, key, (void *)(n - 1));
	} else {
		(void)map_take(x->users, key);
		item_wake(x->cl->c->chores, CONTROL_PVC, pod->ns, claim);
	}
}

static void count_all(struct pvc_protection *x, const struct object *pod, bool more)
{
	json_each(it, json_get(object_spec(pod), "volumes")) {
		const struct json *source = json_get(it.val, "persistentVolumeClaim");
		const char *claim = json_get_str(source, "claimName");
		autofree char *own =
			xasprintf("%s-%s", pod->name, str_or(json_get_str(it.val, "name"), ""));

		if (json_get(it.val, "ephemeral")) /* a claim of its own, named after both */
			claim = own;
		if (claim)
			count(x, pod, claim, more);
	}
}

static bool uses(const struct object *pod)
{
	return pod && !pod_phase_over(json_get_str(json_get(pod->root, "status"), "phase"));
}

void pvc_protection_changed(struct pvc_protection *x, const struct object *was,
			    const struct object *now)
{
	const struct context_kinds *k = &x->cl->c->kinds;
	const struct object *o = now ? now : was;

	if (o->kind == k->pvc && now && object_deleting(now))
		item_wake(x->cl->c->chores, CONTROL_PVC, o->ns, o->name);
	if (o->kind != k->pod || uses(was) == uses(now))
		return; /* a Pod's volumes never change */
	count_all(x, o, uses(now));
}

struct again pvc_protection_reconcile(struct pass *p)
{
	const struct cluster *cl = p->own;
	autoptr(object) pvc = client_get(p->c->client, p->c->kinds.pvc, p->key->ns, p->key->name);
	autofree char *key = xasprintf("%s/%s", p->key->ns, p->key->name);
	struct err *e = pass_take_error(p);
	struct write w;

	if (e)
		return again_retry(e);
	if (!pvc || !object_deleting(pvc) || !object_has_finalizer(pvc, FINALIZER_PVC) ||
	    map_has(cl->pvc_protection->users, key))
		return again_never(); /* the end of its last Pod brings us back */
	w = (struct write){ .name = PVC_WRITE_RELEASE,
			    .to = ref_of(pvc),
			    .what = "release the claim",
			    .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };
	pass_patch(p, &w, finalizer_patch(pvc, FINALIZER_PVC));
	return again_never();
}
