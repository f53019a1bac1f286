/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "loop/loop.h"
#include "loop/queue.h"
#include "node/host/instance.h"
#include "node/host/trash.h"
#include "node/volume/volume_priv.h"

/*
 * PersistentVolumeClaims: each is bound at once to a directory of its own, which the first Pod that
 * mounts it makes. The directory is removed when the deletion of the object is durable and no Pod
 * uses the directory any more, whether the object was deleted in this run of the daemon or in an
 * earlier one.
 */
enum pvc_phase {
	PVC_THERE,
	PVC_DELETED, /* its object is gone */
	PVC_SYNCING, /* waits until the deletion is durable */
	PVC_UNUSED,  /* the deletion is durable: the directory goes after its last Pod */
};

struct pvc {
	struct volumes *volumes;
	char *ns, *name, *uid; /* ns, name: NULL if it was deleted in an earlier run */
	enum pvc_phase phase;
	struct client_write bind, sync;
};

static void pvc_free(void *arg)
{
	struct pvc *c = arg;

	client_cancel(&c->bind);
	client_cancel(&c->sync);
	free(c->ns);
	free(c->name);
	free(c->uid);
	free(c);
}

char *pvc_dir(const struct volumes *v, const char *uid)
{
	return xasprintf("%s/%s/%s", v->spec.data_dir, instance_dir_name(INSTANCE_VOLUMES), uid);
}

struct object *pvc_of(struct volumes *v, const char *ns, const struct pod_volume_view *volume)
{
	return str_empty(volume->pvc) ? NULL : client_get(v->spec.client, v->pvc, ns, volume->pvc);
}

const char **volumes_pvc_uids(struct volumes *v, const struct pod_view *p, struct arena *a)
{
	const char **list = arena_new_n(a, const char *, p->n_volumes + 1);
	size_t n = 0;

	for (size_t i = 0; i < p->n_volumes; i++) {
		autoptr(object) pvc = pvc_of(v, p->ns, &p->volumes[i]);

		if (pvc)
			list[n++] = arena_strdup(a, pvc->uid);
	}
	return list;
}

static void on_bound(unused struct client_write *w, struct err *e, unused struct object *obj)
{
	if (e && !err_is(e, ERR_NOT_FOUND) && !err_is(e, ERR_CONFLICT))
		log_warn("PersistentVolumeClaim stays unbound until it changes", KV("err", e));
	err_free(e);
}

static bool is_bound(const struct object *o)
{
	return str_eq(json_get_str(object_status(o), "phase"), "Bound");
}

static void pvc_bind(struct pvc *c, const struct object *o)
{
	struct volumes *v = c->volumes;
	const struct client_ref ref = {
		.kind = v->pvc, .ns = c->ns, .name = c->name, .sub = "status"
	};
	const struct json *spec = object_spec(o);
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *status;

	json_set_root(d, root);
	json_set_str(d, json_need_obj(d, root, "metadata"), "uid", c->uid);
	status = json_need_obj(d, root, "status");
	json_set_str(d, status, "phase", "Bound");
	json_set(d, status, "accessModes", json_copy(d, json_get(spec, "accessModes")));
	json_set(d, json_need_obj(d, status, "capacity"), "storage",
		 json_copy(d, json_at_path(spec, "resources.requests.storage")));
	client_cancel(&c->bind);
	c->bind.done = on_bound;
	client_patch(v->spec.client, &ref, PATCH_MERGE, d, &c->bind);
}

static void on_durable(struct client_write *w, struct err *e, unused struct object *obj)
{
	struct pvc *c = container_of(w, struct pvc, sync);

	err_free(e);
	c->phase = PVC_UNUSED;
	(void)queue_add(c->volumes->queue, c->uid);
}

static struct again pvc_pass(void *arg, struct queue_item *it)
{
	struct volumes *v = arg;
	struct pvc *c = map_get(v->pvcs, it->key);
	autoptr(object) o = NULL;

	if (!c)
		return again_never();
	switch (c->phase) {
	case PVC_THERE:
		o = client_get(v->spec.client, v->pvc, c->ns, c->name);
		if (o && str_eq(o->uid, c->uid) && !is_bound(o))
			pvc_bind(c, o);
		break;
	case PVC_DELETED:
		c->phase = PVC_SYNCING;
		c->sync.done = on_durable;
		client_sync(v->spec.client, &c->sync);
		break;
	case PVC_SYNCING:
		break;
	case PVC_UNUSED:
		if (v->spec.in_use(v->spec.arg, c->uid))
			break; /* volumes_sweep() follows */
		trash_remove(v->spec.jobs, pvc_dir(v, c->uid));
		(void)map_del(v->pvcs, c->uid);
		break;
	}
	return again_never();
}

void volumes_sweep(struct volumes *v)
{
	map_each(it, v->pvcs)
		if (((struct pvc *)it.value)->phase == PVC_UNUSED)
			(void)queue_add(v->queue, it.key);
}

static struct pvc *pvc_new(struct volumes *v, const char *uid, enum pvc_phase phase)
{
	struct pvc *c = xnew(struct pvc);

	*c = (struct pvc){ .volumes = v, .uid = xstrdup(uid), .phase = phase };
	map_put(v->pvcs, uid, c);
	return c;
}

static void pvc_changed(void *arg, struct object *was, struct object *now)
{
	struct volumes *v = arg;
	struct object *o = now ? now : was;
	struct pvc *c = map_get(v->pvcs, o->uid);

	if (!c && now) {
		c = pvc_new(v, now->uid, PVC_THERE);
		c->ns = xstrdup(now->ns);
		c->name = xstrdup(now->name);
		v->spec.changed(v->spec.arg);
	}
	if (c && !now)
		c->phase = PVC_DELETED;
	if (c && (!now || !is_bound(now)))
		(void)queue_add(v->queue, o->uid);
}

/* Removes what an earlier run could not. */
static void pvcs_known(void *arg)
{
	struct volumes *v = arg;
	autofree char *path =
		xasprintf("%s/%s", v->spec.data_dir, instance_dir_name(INSTANCE_VOLUMES));
	DIR *d = opendir(path);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.' && !map_has(v->pvcs, de->d_name))
			(void)pvc_new(v, de->d_name, PVC_UNUSED);
	if (d)
		(void)closedir(d);
	volumes_sweep(v);
}

void pvcs_start(struct volumes *v)
{
	static const struct client_watch_events events = { .changed = pvc_changed,
							   .synced = pvcs_known };
	const struct client_watch_spec watch = { .kind = v->pvc };
	const struct queue_spec queue = { .loop = v->spec.loop, .run = pvc_pass, .arg = v };

	v->pvcs = map_new(pvc_free);
	v->queue = queue_new(&queue);
	queue_open(v->queue);
	v->watch_pvcs = client_watch(v->spec.client, &watch, &events, v);
}

/* From here on it is not known whether a PVC is in use: nothing is removed any more. */
void pvcs_stop(struct volumes *v)
{
	client_watch_free(take(v->watch_pvcs));
	map_free(take(v->pvcs));
	queue_free(take(v->queue));
}
