/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/object.h"
#include "api/storage.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "loop/queue.h"
#include "node/disk/disk.h"
#include "node/volume/pvc_priv.h"

/*
 * PersistentVolumeClaims and their binding. A claim gets the PersistentVolume that it names, or the
 * best of those that are free, or one that is made for it if its class is one of this node's: at
 * once, or when the first Pod wants it, as the class says. What is made is an object; the directory
 * is made by the first Pod that mounts it. One with a data source is a clone of another's
 * directory, and bound when that has been made.
 *
 * A claim is bound in three writes at most: the volume, the claim with its status, and the status
 * of the volume. A pass that finds some of them done continues with the next.
 */
enum {
	CLONE_RETRY_MS = 2000, /* its source may have come */
};

static void pvc_free(void *arg)
{
	struct pvc *c = arg;

	client_cancel(&c->bind);
	client_cancel(&c->make);
	free(c->ns);
	free(c->name);
	free(c->uid);
	free(c->trouble);
	free(c);
}

int64_t pvc_size(const struct object *o)
{
	int64_t milli = 0;

	err_free(quantity_parse_milli(json_at_path(object_spec(o), "resources.requests.storage"),
				      &milli));
	return milli / 1000;
}

struct object *pvc_of(struct volumes *v, const char *ns, const struct pod_volume_view *volume)
{
	return str_empty(volume->pvc) ? NULL : client_get(v->spec.client, v->pvc, ns, volume->pvc);
}

const char **volumes_handles(struct volumes *v, const struct pod_view *p, struct arena *a)
{
	const char **list = arena_new_n(a, const char *, p->n_volumes + 1);
	size_t n = 0;

	for (size_t i = 0; i < p->n_volumes; i++) {
		autoptr(object) pvc = pvc_of(v, p->ns, &p->volumes[i]);
		autoptr(object) pv = pvc ? pv_of(v, pvc) : NULL;

		if (pv && storage_handle(pv->root))
			list[n++] = arena_strdup(a, storage_handle(pv->root));
	}
	return list;
}

bool pvc_is_bound(const struct object *o)
{
	return str_eq(json_get_str(object_status(o), "phase"), "Bound");
}

const char *pvc_source(const struct object *o)
{
	const struct json *spec = object_spec(o);
	const struct json *source = json_get(spec, "dataSource");

	return json_get_str(source ? source : json_get(spec, "dataSourceRef"), "name");
}

static const char *volume_name(const struct object *o)
{
	return json_get_str(object_spec(o), "volumeName");
}

static void on_bound(unused struct client_write *w, struct err *e, unused struct object *obj)
{
	if (e && !err_is(e, ERR_NOT_FOUND) && !err_is(e, ERR_CONFLICT))
		log_warn("PersistentVolumeClaim stays unbound until it changes", KV("err", e));
	err_free(e);
}

static void pvc_patch(struct pvc *c, const char *sub, struct json_doc *d)
{
	const struct client_ref ref = {
		.kind = c->volumes->pvc, .ns = c->ns, .name = c->name, .sub = sub
	};

	client_cancel(&c->bind);
	c->bind.done = on_bound;
	client_patch(c->volumes->spec.client, &ref, PATCH_MERGE, d, &c->bind);
}

static struct json *patch_of(struct json_doc *d, const struct pvc *c)
{
	struct json *root = json_obj(d);

	json_set_root(d, root);
	json_set_str(d, json_need_obj(d, root, "metadata"), "uid", c->uid);
	return root;
}

/* What binding writes to the claim beside its status; the second time there is nothing. */
static void set_volume(struct json_doc *d, struct json *root, const struct object *o,
		       const struct object *pv)
{
	struct json *notes = json_need_obj(d, json_get(root, "metadata"), "annotations");
	const char *class = json_get_str(object_spec(pv), "storageClassName");

	json_set_str(d, notes, STORAGE_BIND_COMPLETED, "yes");
	if (str_empty(volume_name(o))) {
		json_set_str(d, notes, STORAGE_BOUND_BY_US, "yes");
		json_set_str(d, json_need_obj(d, root, "spec"), "volumeName", pv->name);
	}
	if (!storage_claim_class(o->root) && !str_empty(class))
		json_set_str(d, json_need_obj(d, root, "spec"), "storageClassName", class);
	if (json_at_path(pv->root, "metadata.annotations") && storage_handle(pv->root) &&
	    str_eq(storage_handle(pv->root), o->uid))
		json_set_str(d, notes, STORAGE_MADE_BY, STORAGE_PROVISIONER);
}

void pvc_bind(struct pvc *c, const struct object *o, const struct object *pv)
{
	struct json_doc *d = json_doc_new();
	struct json *root = patch_of(d, c), *status = json_need_obj(d, root, "status");

	set_volume(d, root, o, pv);
	json_set_str(d, status, "phase", "Bound");
	json_set(d, status, "accessModes", json_copy(d, json_get(object_spec(pv), "accessModes")));
	json_set(d, json_need_obj(d, status, "capacity"), "storage",
		 json_copy(d, json_at_path(object_spec(pv), "capacity.storage")));
	(void)map_del(c->volumes->unbound, c->uid);
	free(take(c->trouble));
	pvc_patch(c, CLIENT_WHOLE, d);
	pv_look(c->volumes, pv->name);
}

void pvc_trouble(struct pvc *c, struct object *o, const char *reason, const char *why)
{
	static const char *const ordinary[] = { "WaitForFirstConsumer", "ExternalProvisioning",
						"FailedBinding", NULL };
	const struct volumes_spec *s = &c->volumes->spec;

	map_put(c->volumes->unbound, c->uid, c);
	if (str_eq(c->trouble, why))
		return;
	free(c->trouble);
	c->trouble = xstrdup(why);
	if (reason)
		s->event(s->arg, o, !str_in(reason, ordinary), reason, why);
	s->changed(s->arg, o);
}

/* Binding */

static void pvc_take(struct pvc *c, const struct object *o, const struct object *pv)
{
	struct volumes *v = c->volumes;
	autoptr(object) now = NULL;

	pv_give(v, pv, o);
	now = pv_get(v, pv->name);
	if (now && pv_is_of(now, o)) /* else its change brings us back */
		pvc_bind(c, o, now);
}

/* For a claim whose class is one of ours, or that was bound before volumes were objects. */
static void pvc_provision(struct pvc *c, const struct object *o, const char *class_name,
			  const struct object *class)
{
	autofree char *name = xasprintf("pvc-%s", o->uid);
	struct volumes *v = c->volumes;
	autoptr(object) pv = pv_get(v, name);

	if (!pv) {
		pv_make(v, o, class_name, class, &c->make);
		pv = pv_get(v, name);
	}
	if (pv && pv_is_of(pv, o))
		pvc_bind(c, o, pv);
}

/* True: come back later. */
static bool provision_by_class(struct pvc *c, struct object *o, const char *name)
{
	autoptr(object) class = class_get(c->volumes, name);
	autofree char *why = NULL;

	if (!class) {
		why = xasprintf("storageclass.storage.k8s.io \"%s\" not found", name);
		pvc_trouble(c, o, "ProvisioningFailed", why);
		return false;
	}
	if (!class_is_ours(class)) {
		why = xasprintf("Waiting for a volume to be created either by the external "
				"provisioner '%s' or manually by the system administrator. If "
				"volume creation is delayed, please verify that the provisioner "
				"is running and correctly registered.",
				str_or(json_get_str(class->root, "provisioner"), ""));
		pvc_trouble(c, o, "ExternalProvisioning", why);
		return false;
	}
	why = class_refuses(class);
	if (why) {
		pvc_trouble(c, o, "ProvisioningFailed", why);
		return false;
	}
	if (pvc_source(o) && !c->cloned)
		return pvc_clone(c, o);
	pvc_provision(c, o, name, class);
	return false;
}

/* It says which volume it wants. */
static void bind_named(struct pvc *c, struct object *o, const char *class)
{
	struct volumes *v = c->volumes;
	autoptr(object) pv = pv_get(v, volume_name(o));
	const char *reason = "FailedBinding";
	autofree char *why = NULL;

	if (!pv)
		why = xasprintf("persistentvolume \"%s\" not found", volume_name(o));
	else
		why = pv_refuses(pv, o, class, &reason);
	if (!why && pv)
		pvc_take(c, o, pv);
	else
		pvc_trouble(c, o, reason, why);
}

/* True: come back later. */
static bool pvc_find(struct pvc *c, struct object *o)
{
	struct volumes *v = c->volumes;
	const char *name = storage_claim_class(o->root);
	autoptr(object) usual = name ? NULL : class_default(v);
	autoptr(object) class = NULL;
	autoptr(object) pv = NULL;
	bool waits;

	name = str_or(usual ? usual->name : name, "");
	if (!str_empty(volume_name(o))) {
		bind_named(c, o, name);
		return false;
	}
	class = class_get(v, name);
	waits = class_waits(class) && !c->wanted;
	pv = pvc_source(o) ? NULL : pv_match(v, o, name, waits);
	if (pv)
		pvc_take(c, o, pv);
	else if (waits)
		pvc_trouble(c, o, "WaitForFirstConsumer",
			    "waiting for first consumer to be created before binding");
	else if (!*name)
		pvc_trouble(c, o, "FailedBinding",
			    "no persistent volumes available for this claim and no storage class "
			    "is set");
	else
		return provision_by_class(c, o, name);
	return false;
}

/* After binding */

static void pvc_lost(struct pvc *c, struct object *o, const char *why)
{
	struct json_doc *d = json_doc_new();
	const struct volumes_spec *s = &c->volumes->spec;

	json_set_str(d, json_need_obj(d, patch_of(d, c), "status"), "phase", "Lost");
	s->event(s->arg, o, true, "ClaimLost", why);
	pvc_patch(c, "status", d);
}

/* Whether it asks for more than it has. */
static bool has_grown(const struct object *o)
{
	const struct json *size = json_at_path(object_status(o), "capacity.storage");
	int64_t milli = 0;

	err_free(quantity_parse_milli(size, &milli));
	return pvc_size(o) > milli / 1000;
}

static void check_bound(struct pvc *c, struct object *o)
{
	struct volumes *v = c->volumes;
	autoptr(object) pv = pv_get(v, volume_name(o));
	autoptr(object) class = NULL;
	const char *name = storage_claim_class(o->root);

	if (str_empty(volume_name(o))) {
		class = name ? class_get(v, name) : class_default(v);
		pvc_provision(c, o, name ? name : class ? class->name : "", class);
	} else if (!pv) {
		pvc_lost(c, o,
			 "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
	} else if (!pv_is_of(pv, o)) {
		pvc_lost(c, o,
			 "Two claims are bound to the same volume, this one is bound incorrectly");
	} else {
		if (has_grown(o))
			pvc_grow(c, o, pv);
		err_free(pvc_moves(v, o, pv)); /* nobody waits for it yet */
	}
}

/* True: come back later. */
static bool pvc_check(struct pvc *c)
{
	struct volumes *v = c->volumes;
	autoptr(object) o = client_get(v->spec.client, v->pvc, c->ns, c->name);

	if (!o || !str_eq(o->uid, c->uid))
		return false;
	if (pvc_is_bound(o)) {
		check_bound(c, o);
		return false;
	}
	return !object_deleting(o) && pvc_find(c, o);
}

static struct again pvc_pass(void *arg, struct queue_item *it)
{
	struct volumes *v = arg;
	struct pvc *c = map_get(v->pvcs, it->key);

	return c && pvc_check(c) ? again_after(CLONE_RETRY_MS) : again_never();
}

struct err *pvc_ready(struct volumes *v, const struct object *o)
{
	struct pvc *c = v->pvcs ? map_get(v->pvcs, o->uid) : NULL;
	autoptr(object) now = NULL;

	if (c && volumes_are_known(v) && !pvc_is_bound(o)) {
		c->wanted = true;
		if (pvc_check(c))
			queue_add_later(v->queue, c->uid, CLONE_RETRY_MS);
	}
	now = client_get(v->spec.client, v->pvc, o->ns, o->name);
	if (now && pvc_is_bound(now))
		return NULL;
	if (c && c->trouble)
		return err_new(ERR_UNAVAILABLE, "persistentvolumeclaim \"%s\" is not bound: %s",
			       o->name, c->trouble);
	if (pvc_source(o))
		return err_new(ERR_UNAVAILABLE,
			       "persistentvolumeclaim \"%s\" is being cloned from \"%s\"", o->name,
			       pvc_source(o));
	return err_new(ERR_UNAVAILABLE, "persistentvolumeclaim \"%s\" is not bound", o->name);
}

struct err *pvc_volume(struct volumes *v, const struct object *pvc, struct object **ret)
{
	autoptr(object) pv = pv_of(v, pvc);

	if (!pv)
		return err_new(ERR_UNAVAILABLE,
			       "persistentvolumeclaim \"%s\" is not bound: its volume \"%s\" is "
			       "not there, or not bound to it",
			       pvc->name, str_or(volume_name(pvc), ""));
	if (!storage_handle(pv->root))
		return err_new(ERR_UNAVAILABLE,
			       "persistentvolume \"%s\": this node mounts no volumes but those of "
			       "spec.csi.driver %s",
			       pv->name, STORAGE_DRIVER);
	if (json_len(json_get(object_spec(pv), "mountOptions")))
		return err_new(ERR_UNAVAILABLE,
			       "persistentvolume \"%s\": spec.mountOptions: this node has none",
			       pv->name);
	*ret = take(pv);
	return NULL;
}

void pvc_tell(struct volumes *v, const char *uid)
{
	const struct pvc *c = map_get(v->pvcs, uid);
	autoptr(object) o = c ? client_get(v->spec.client, v->pvc, c->ns, c->name) : NULL;

	if (o)
		v->spec.changed(v->spec.arg, o);
}

void volumes_sweep(struct volumes *v)
{
	autofree char *old = diskpool_old_dir(v->spec.disk, INSTANCE_VOLUMES);

	dirs_sweep(v);
	once_sweep(v);
	if (old)
		map_each(it, v->pvcs)
			(void)queue_add(v->queue, it.key);
}

/* Following */

void pvcs_wake(struct volumes *v)
{
	map_each(it, v->unbound)
		(void)queue_add(v->queue, it.key);
}

void pvcs_volume_changed(struct volumes *v, const struct object *pv, bool gone)
{
	const char *uid = json_str(json_at_path(object_spec(pv), "claimRef.uid"));
	const char *phase = json_get_str(object_status(pv), "phase");

	if (!str_empty(uid) && map_has(v->pvcs, uid) && (gone || !str_eq(phase, "Bound")))
		(void)queue_add(v->queue, uid);
	else if (!gone && str_eq(phase, "Available"))
		pvcs_wake(v);
}

static bool wants_pass(const struct object *o)
{
	return !pvc_is_bound(o) || has_grown(o) || str_empty(volume_name(o));
}

static void pvc_added(struct volumes *v, const struct object *o)
{
	struct pvc *c = xnew(struct pvc);

	*c = (struct pvc){
		.volumes = v, .ns = xstrdup(o->ns), .name = xstrdup(o->name), .uid = xstrdup(o->uid)
	};
	map_put(v->pvcs, o->uid, c);
}

static void pvc_changed(void *arg, struct object *was, struct object *now)
{
	struct volumes *v = arg;

	if (!now) {
		(void)map_del(v->unbound, was->uid);
		(void)map_del(v->pvcs, was->uid);
		dir_left(v, was->uid);
		pv_look(v, volume_name(was));
		return;
	}
	if (!map_has(v->pvcs, now->uid))
		pvc_added(v, now);
	if (!was || pvc_is_bound(was) != pvc_is_bound(now))
		v->spec.changed(v->spec.arg, now);
	if (wants_pass(now))
		(void)queue_add(v->queue, now->uid);
	if (was && str_empty(volume_name(was)))
		pv_look(v, volume_name(now));
}

static void synced(void *arg)
{
	volumes_known(arg);
}

void pvcs_known(struct volumes *v)
{
	queue_open(v->pv_queue);
	queue_open(v->queue);
	map_each(it, v->pvcs) /* a volume may have gone while nobody looked */
		(void)queue_add(v->queue, it.key);
}

void pvcs_start(struct volumes *v)
{
	static const struct client_watch_events events = { .changed = pvc_changed,
							   .synced = synced };
	const struct client_watch_spec watch = { .kind = v->pvc };
	const struct queue_spec queue = { .loop = v->spec.loop, .run = pvc_pass, .arg = v };

	v->pvcs = map_new(pvc_free);
	v->unbound = map_new(NULL);
	v->queue = queue_new(&queue);
	v->watch_pvcs = client_watch(v->spec.client, &watch, &events, v);
}

void pvcs_stop(struct volumes *v)
{
	client_watch_free(take(v->watch_pvcs));
	map_free(take(v->pvcs));
	map_free(take(v->unbound));
	queue_free(take(v->queue));
}
