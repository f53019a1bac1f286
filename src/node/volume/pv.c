/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/object.h"
#include "api/storage.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "loop/queue.h"
#include "node/volume/volume_priv.h"

/*
 * PersistentVolumes: those that are made for claims, and those that somebody made by hand. A pass
 * says in the status what became of the claim that one is bound to, and reclaims what is released:
 * with the policy Delete the object goes, and its directory after it; otherwise it stays with its
 * data until its claimRef is cleared, or somebody deletes it. One that is being deleted is held as
 * long as it is bound.
 */
struct pv {
	struct volumes *volumes;
	char *name;
	struct client_write write;
};

static void pv_free(void *arg)
{
	struct pv *p = arg;

	client_cancel(&p->write);
	free(p->name);
	free(p);
}

static void on_written(unused struct client_write *w, struct err *e, unused struct object *obj)
{
	if (e && !err_is(e, ERR_NOT_FOUND) && !err_is(e, ERR_CONFLICT) && !err_is(e, ERR_EXISTS))
		log_warn("PersistentVolume stays as it is until it changes", KV("err", e));
	err_free(e);
}

struct object *pv_get(struct volumes *v, const char *name)
{
	return str_empty(name) ? NULL : client_get(v->spec.client, v->pv, NULL, name);
}

struct object *pv_of(struct volumes *v, const struct object *pvc)
{
	autoptr(object) pv = pv_get(v, json_get_str(object_spec(pvc), "volumeName"));

	return pv && pv_is_of(pv, pvc) ? take(pv) : NULL;
}

/* NULL: it is up to the claim, which has not been bound yet. */
static const char *phase_of(struct volumes *v, const struct object *o)
{
	const struct json *ref = json_get(object_spec(o), "claimRef");
	const char *uid = json_get_str(ref, "uid"), *name = json_get_str(ref, "name");
	autoptr(object) claim = NULL;
	const char *volume;

	if (str_empty(uid) || str_empty(name))
		return "Available";
	claim = client_get(v->spec.client, v->pvc, json_get_str(ref, "namespace"), name);
	if (!claim || !str_eq(claim->uid, uid))
		return "Released";
	volume = json_get_str(object_spec(claim), "volumeName");
	if (str_empty(volume))
		return NULL;
	return str_eq(volume, o->name) ? "Bound" : "Released";
}

static struct json *patch_of(struct json_doc *d, const struct object *o)
{
	struct json *root = json_obj(d);

	json_set_root(d, root);
	json_set_str(d, json_need_obj(d, root, "metadata"), "uid", o->uid);
	return root;
}

static void set_phase(struct json_doc *d, struct json *root, const char *phase)
{
	struct json *status = json_need_obj(d, root, "status");
	char now[CLOCK_TEXT_MAX];

	clock_format(clock_wall(), now);
	json_set_str(d, status, "phase", phase);
	json_set_str(d, status, "lastPhaseTransitionTime", now);
}

static void pv_patch(struct pv *p, const char *sub, struct json_doc *d)
{
	const struct client_ref ref = { .kind = p->volumes->pv, .name = p->name, .sub = sub };

	client_cancel(&p->write);
	p->write.done = on_written;
	client_patch(p->volumes->spec.client, &ref, PATCH_MERGE, d, &p->write);
}

/* Nothing if the finalizer has gone and another holds it. */
static void let_go(struct pv *p, const struct object *o)
{
	const struct json *was = json_at_path(o->root, "metadata.finalizers");
	struct json_doc *d = json_doc_new();
	struct json *meta = json_need_obj(d, patch_of(d, o), "metadata");
	struct json *list = json_set(d, meta, "finalizers", json_arr(d));

	json_each(it, was)
		if (!str_eq(json_str(it.val), FINALIZER_PV))
			json_push(d, list, json_copy(d, it.val));
	if (json_len(list) < json_len(was))
		pv_patch(p, NULL, d);
	else
		json_doc_free(d);
}

static void reclaim(struct pv *p, const struct object *o)
{
	const struct client_ref ref = { .kind = p->volumes->pv, .name = p->name };
	const struct client_delete_spec spec = { .uid = o->uid, .grace_s = -1 };

	client_cancel(&p->write);
	p->write.done = on_written;
	client_delete(p->volumes->spec.client, &ref, &spec, &p->write);
}

/* What is to become of a volume whose claim is gone. */
enum reclaim {
	RECLAIM_RETAIN,
	RECLAIM_DELETE,
	RECLAIM_IMPOSSIBLE, /* nobody here can do what its policy asks for */
};

static enum reclaim reclaim_of(const struct object *o)
{
	const char *policy = json_get_str(object_spec(o), "persistentVolumeReclaimPolicy");

	if (str_eq(policy, "Retain"))
		return RECLAIM_RETAIN;
	return str_eq(policy, "Delete") && storage_handle(o->root) ? RECLAIM_DELETE
								   : RECLAIM_IMPOSSIBLE;
}

static void report(struct pv *p, const struct object *o, const char *phase, const char *message)
{
	struct json_doc *d;

	if (!phase || str_eq(json_get_str(object_status(o), "phase"), phase))
		return;
	d = json_doc_new();
	set_phase(d, patch_of(d, o), phase);
	json_set(d, json_get(json_root(d), "status"), "message",
		 message ? json_new_str(d, message) : json_new_null(d));
	pv_patch(p, "status", d);
}

static void released(struct pv *p, const struct object *o)
{
	switch (reclaim_of(o)) {
	case RECLAIM_RETAIN:
		report(p, o, "Released", NULL);
		break;
	case RECLAIM_DELETE:
		reclaim(p, o);
		break;
	case RECLAIM_IMPOSSIBLE:
		report(p, o, "Failed",
		       "this node deletes volumes of its own driver and recycles none: set "
		       "spec.persistentVolumeReclaimPolicy to Retain");
		break;
	}
}

static struct again pv_pass(void *arg, struct queue_item *it)
{
	struct volumes *v = arg;
	struct pv *p = map_get(v->pvs, it->key);
	autoptr(object) o = p ? pv_get(v, p->name) : NULL;
	const char *phase = o ? phase_of(v, o) : NULL;

	if (!o)
		return again_never();
	if (!object_deleting(o) && str_eq(phase, "Released"))
		released(p, o);
	else if (!object_deleting(o))
		report(p, o, phase, NULL);
	else if (!str_eq(phase, "Bound"))
		let_go(p, o);
	return again_never();
}

void pv_look(struct volumes *v, const char *name)
{
	if (!str_empty(name) && v->pvs && map_has(v->pvs, name))
		(void)queue_add(v->pv_queue, name);
}

/* Making and giving away */

static void set_ref(struct json_doc *d, struct json *spec, const struct object *pvc)
{
	struct json *ref = json_need_obj(d, spec, "claimRef");

	json_set_str(d, ref, "apiVersion", "v1");
	json_set_str(d, ref, "kind", "PersistentVolumeClaim");
	json_set_str(d, ref, "namespace", pvc->ns);
	json_set_str(d, ref, "name", pvc->name);
	json_set_str(d, ref, "uid", pvc->uid);
}

static void set_affinity(struct json_doc *d, struct json *spec, const char *node)
{
	struct json *required =
		json_need_obj(d, json_need_obj(d, spec, "nodeAffinity"), "required");
	struct json *term = json_obj(d), *e = json_obj(d);

	json_set_str(d, e, "key", "kubernetes.io/hostname");
	json_set_str(d, e, "operator", "In");
	json_push_str(d, json_need_arr(d, e, "values"), node);
	json_push(d, json_need_arr(d, term, "matchExpressions"), e);
	json_push(d, json_need_arr(d, required, "nodeSelectorTerms"), term);
}

static struct json_doc *pv_doc(const struct volumes *v, const struct object *pvc,
			       const char *class_name, const struct object *class)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *spec, *csi;
	const struct json *want = object_spec(pvc);
	const char *policy = class ? json_get_str(class->root, "reclaimPolicy") : NULL;

	json_set_root(d, root);
	json_set(d, json_need_obj(d, root, "metadata"), "name",
		 json_new_strf(d, "pvc-%s", pvc->uid));
	json_set_str(d, json_need_obj(d, json_get(root, "metadata"), "annotations"),
		     STORAGE_PROVISIONED_BY, STORAGE_PROVISIONER);
	spec = json_need_obj(d, root, "spec");
	json_set(d, json_need_obj(d, spec, "capacity"), "storage",
		 json_copy(d, json_at_path(want, "resources.requests.storage")));
	json_set(d, spec, "accessModes", json_copy(d, json_get(want, "accessModes")));
	json_set_str(d, spec, "persistentVolumeReclaimPolicy", str_or(policy, "Delete"));
	json_set_str(d, spec, "volumeMode", "Filesystem");
	if (!str_empty(class_name))
		json_set_str(d, spec, "storageClassName", class_name);
	csi = json_need_obj(d, spec, "csi");
	json_set_str(d, csi, "driver", STORAGE_DRIVER);
	json_set_str(d, csi, "volumeHandle", pvc->uid);
	set_ref(d, spec, pvc);
	set_affinity(d, spec, v->spec.node_name);
	return d;
}

void pv_make(struct volumes *v, const struct object *pvc, const char *class_name,
	     const struct object *class, struct client_write *w)
{
	const struct client_ref ref = { .kind = v->pv };

	client_cancel(w);
	w->done = on_written;
	client_create(v->spec.client, &ref, pv_doc(v, pvc, class_name, class), w);
}

void pv_give(struct volumes *v, const struct object *o, const struct object *pvc)
{
	struct pv *p = map_get(v->pvs, o->name);
	struct json_doc *d;
	struct json *root;

	if (!p || pv_is_of(o, pvc))
		return;
	d = json_doc_new();
	root = patch_of(d, o);
	json_set(d, json_get(root, "metadata"), "resourceVersion",
		 json_copy(d, json_at_path(o->root, "metadata.resourceVersion")));
	if (!json_get(object_spec(o), "claimRef"))
		json_set_str(d, json_need_obj(d, json_get(root, "metadata"), "annotations"),
			     STORAGE_BOUND_BY_US, "yes");
	set_ref(d, json_need_obj(d, root, "spec"), pvc);
	pv_patch(p, NULL, d);
}

void pv_resize(struct volumes *v, const struct object *o, const struct json *size)
{
	struct pv *p = map_get(v->pvs, o->name);
	struct json_doc *d = json_doc_new();
	struct json *root = patch_of(d, o), *spec = json_need_obj(d, root, "spec");

	json_set(d, json_need_obj(d, spec, "capacity"), "storage", json_copy(d, size));
	if (p)
		pv_patch(p, NULL, d);
	else
		json_doc_free(d);
}

/* Following */

static void count_handle(struct volumes *v, const struct object *o, int by)
{
	const char *handle = storage_handle(o->root);
	uintptr_t n;

	if (!handle)
		return;
	n = (uintptr_t)map_get(v->handles, handle) + (uintptr_t)by;
	if (n)
		map_put(v->handles, handle, (void *)n);
	else
		(void)map_take(v->handles, handle);
	if (!n)
		dir_left(v, handle);
}

static const char *claim_uid(const struct object *o)
{
	return str_or(o ? json_str(json_at_path(object_spec(o), "claimRef.uid")) : NULL, "");
}

/* So that a claim finds its volume, or one that is free, without looking at all of them. */
static void index_claim(struct volumes *v, const char *name, const struct object *was,
			const struct object *now)
{
	const char *old = claim_uid(was), *uid = claim_uid(now);

	if (*old && !str_eq(old, uid) && str_eq(map_get(v->given_pvs, old), name))
		(void)map_del(v->given_pvs, old);
	if (now && *uid)
		map_put(v->given_pvs, uid, xstrdup(name));
	if (now && !*uid)
		map_put(v->free_pvs, name, v);
	else
		(void)map_del(v->free_pvs, name);
}

static void pv_added(struct volumes *v, const struct object *o)
{
	struct pv *p = xnew(struct pv);

	*p = (struct pv){ .volumes = v, .name = xstrdup(o->name) };
	map_put(v->pvs, o->name, p);
	count_handle(v, o, 1);
}

static void pv_changed(void *arg, struct object *was, struct object *now)
{
	struct volumes *v = arg;

	if (now) {
		if (!was)
			pv_added(v, now);
		index_claim(v, now->name, was, now);
		(void)queue_add(v->pv_queue, now->name);
		pvcs_volume_changed(v, now, false);
	} else if (was) {
		index_claim(v, was->name, was, NULL);
		count_handle(v, was, -1);
		(void)map_del(v->pvs, was->name);
		pvcs_volume_changed(v, was, true);
	}
}

void pvs_start(struct volumes *v)
{
	static const struct client_watch_events events = { .changed = pv_changed,
							   .synced = volumes_known };
	const struct client_watch_spec watch = { .kind = v->pv };
	const struct queue_spec queue = { .loop = v->spec.loop, .run = pv_pass, .arg = v };

	v->pvs = map_new(pv_free);
	v->handles = map_new(NULL);
	v->free_pvs = map_new(NULL);
	v->given_pvs = map_new(free);
	v->pv_queue = queue_new(&queue);
	v->watch_pvs = client_watch(v->spec.client, &watch, &events, v);
}

void pvs_stop(struct volumes *v)
{
	client_watch_free(take(v->watch_pvs));
	map_free(take(v->pvs));
	map_free(take(v->handles));
	map_free(take(v->free_pvs));
	map_free(take(v->given_pvs));
	queue_free(take(v->pv_queue));
}
