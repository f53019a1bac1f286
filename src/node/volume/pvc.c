/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "api/meta.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "base/wall.h"
#include "client/client.h"
#include "loop/jobs.h"
#include "loop/loop.h"
#include "loop/queue.h"
#include "node/disk/disk.h"
#include "node/disk/trash.h"
#include "node/volume/volume_priv.h"

/*
 * PersistentVolumeClaims: each is bound at once to a directory of its own, which the first Pod that
 * mounts it makes. The directory is removed when the deletion of the object is durable and no Pod
 * uses the directory any more, whether the object was deleted in this run of the daemon or in an
 * earlier one. If it is on its way into the disk pool, the removal waits until it is there.
 *
 * One with a data source is a clone of another's directory, and bound when it has been made.
 */
enum {
	CLONE_RETRY_MS = 2000, /* its source may have come */
};

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
	char *trouble; /* why it could not be cloned; NULL: it has not failed */
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
	free(c->trouble);
	free(c);
}

char *pvc_dir(const struct volumes *v, const char *uid)
{
	return diskpool_path(v->spec.disk, INSTANCE_VOLUMES, uid);
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

/* A longer job on behalf of a PVC, which may be gone when it ends. */
struct chore {
	struct volumes *volumes;
	char *uid;
	char *from; /* the uid of the source of a clone */
	int64_t size;
	struct err *err;
};

static struct chore *chore_new(struct volumes *v, const struct object *o)
{
	struct chore *c = xnew(struct chore);

	*c = (struct chore){ .volumes = v, .uid = xstrdup(o->uid), .size = pvc_size(o) };
	return c;
}

static void chore_free(struct chore *c)
{
	err_free(c->err);
	free(c->uid);
	free(c->from);
	free(c);
}

static void move_work(void *arg)
{
	struct chore *c = arg;

	c->err = diskpool_move(c->volumes->spec.disk, INSTANCE_VOLUMES, c->uid, c->size);
}

static void move_done(void *arg)
{
	struct chore *c = arg;
	struct volumes *v = c->volumes;
	const struct pvc *pvc = v->pvcs ? map_get(v->pvcs, c->uid) : NULL;
	autoptr(object) o = NULL;

	if (c->err)
		log_warn("volume stays where it was, trying again when a Pod wants it",
			 KV("uid", c->uid), KV("err", c->err));
	(void)map_del(v->moves, c->uid);
	if (pvc && pvc->phase == PVC_UNUSED)
		(void)queue_add(v->queue, c->uid); /* it was deleted meanwhile */
	if (!c->err && pvc && pvc->name) /* after a failure, Pods try again at their own pace */
		o = client_get(v->spec.client, v->pvc, pvc->ns, pvc->name);
	if (o)
		v->spec.changed(v->spec.arg, o);
	chore_free(c);
}

struct err *pvc_moves(struct volumes *v, const struct object *o)
{
	autofree char *old = diskpool_old_dir(v->spec.disk, INSTANCE_VOLUMES);
	autofree char *path = xasprintf("%s/%s", str_or(old, ""), o->uid);

	if (!old || !file_exists(AT_FDCWD, path))
		return NULL;
	if (!map_has(v->moves, o->uid)) {
		if (v->spec.in_use(v->spec.arg, o->uid))
			return NULL; /* until its last Pod ends */
		map_put(v->moves, o->uid, v);
		jobs_run(v->spec.jobs, move_work, move_done, chore_new(v, o));
	}
	return err_new(ERR_UNAVAILABLE,
		       "persistentvolumeclaim \"%s\" is being moved into the disk pool", o->name);
}

/* The name of the PVC that it is to be a clone of; NULL: it begins empty. */
static const char *source_name(const struct object *o)
{
	const struct json *spec = object_spec(o);
	const struct json *source = json_get(spec, "dataSource");

	return json_get_str(source ? source : json_get(spec, "dataSourceRef"), "name");
}

struct err *pvc_cloned(struct volumes *v, const struct object *o)
{
	const struct pvc *c = v->pvcs ? map_get(v->pvcs, o->uid) : NULL;

	if (is_bound(o) || !source_name(o))
		return NULL;
	if (c && c->trouble)
		return err_new(ERR_UNAVAILABLE, "persistentvolumeclaim \"%s\" is not bound: %s",
			       o->name, c->trouble);
	return err_new(ERR_UNAVAILABLE, "persistentvolumeclaim \"%s\" is being cloned from \"%s\"",
		       o->name, source_name(o));
}

static void clone_work(void *arg)
{
	struct chore *c = arg;

	c->err = diskpool_clone(c->volumes->spec.disk, c->from, c->uid,
				wall_stands("disk-volume") ? c->size : 0);
}

static void clone_done(void *arg)
{
	struct chore *c = arg;
	struct volumes *v = c->volumes;
	struct pvc *pvc = v->pvcs ? map_get(v->pvcs, c->uid) : NULL;
	autoptr(object) o = NULL;

	(void)map_del(v->moves, c->uid);
	if (pvc && pvc->phase == PVC_UNUSED)
		(void)queue_add(v->queue, c->uid); /* it was deleted meanwhile */
	if (pvc && pvc->phase == PVC_THERE)
		o = client_get(v->spec.client, v->pvc, pvc->ns, pvc->name);
	if (pvc && o && str_eq(o->uid, c->uid)) {
		free(pvc->trouble);
		pvc->trouble = c->err ? xstrdup(err_text(c->err)) : NULL;
		if (!c->err)
			pvc_bind(pvc, o);
		v->spec.changed(v->spec.arg, o);
	}
	chore_free(c);
}

/* NULL: it can be cloned from *ret, a new reference. Else why not, malloc'd. */
static char *clone_source(struct volumes *v, const struct object *o, struct object **ret)
{
	const char *name = source_name(o);
	autoptr(object) from = client_get(v->spec.client, v->pvc, o->ns, name);

	if (!from || object_deleting(from))
		return xasprintf("its data source, persistentvolumeclaim \"%s\", is not there",
				 name);
	if (!is_bound(from))
		return xasprintf("its data source, persistentvolumeclaim \"%s\", is not bound",
				 name);
	if (pvc_size(o) < pvc_size(from))
		return xasprintf("spec.resources.requests.storage: %lld bytes are less than the "
				 "%lld of its data source",
				 (long long)pvc_size(o), (long long)pvc_size(from));
	*ret = take(from);
	return NULL;
}

/* True: come back later. */
static bool pvc_clone(struct pvc *c, const struct object *o)
{
	struct volumes *v = c->volumes;
	autoptr(object) from = NULL;
	autofree char *why = NULL;
	struct chore *job;

	if (map_has(v->moves, c->uid))
		return false;
	why = clone_source(v, o, &from);
	if (!from) {
		bool news = !str_eq(c->trouble, why);

		free(c->trouble);
		c->trouble = take(why);
		if (news)
			v->spec.changed(v->spec.arg, o);
		return true;
	}
	map_put(v->moves, c->uid, v);
	job = chore_new(v, o);
	job->from = xstrdup(from->uid);
	jobs_run(v->spec.jobs, clone_work, clone_done, job);
	return false;
}

static void grow_work(void *arg)
{
	struct chore *c = arg;

	if (wall_stands("disk-volume"))
		c->err = diskpool_limit(c->volumes->spec.disk, INSTANCE_VOLUMES, c->uid, c->size);
}

/* The new size is reported when it is true. */
static void grow_done(void *arg)
{
	struct chore *c = arg;
	struct volumes *v = c->volumes;
	struct pvc *pvc = v->pvcs ? map_get(v->pvcs, c->uid) : NULL;
	autoptr(object) o = NULL;

	if (pvc && pvc->phase == PVC_THERE)
		o = client_get(v->spec.client, v->pvc, pvc->ns, pvc->name);
	if (c->err)
		log_warn("volume keeps its size until its claim changes", KV("uid", c->uid),
			 KV("err", c->err));
	else if (o && str_eq(o->uid, c->uid) && pvc_size(o) == c->size)
		pvc_bind(pvc, o);
	chore_free(c);
}

/* Whether its size is not the one that its status tells. */
static bool has_grown(const struct object *o)
{
	const struct json *now = json_at_path(object_spec(o), "resources.requests.storage");

	return !quantity_equal(json_at_path(object_status(o), "capacity.storage"), now);
}

/* True: come back later. */
static bool pvc_check(struct pvc *c)
{
	struct volumes *v = c->volumes;
	autoptr(object) o = client_get(v->spec.client, v->pvc, c->ns, c->name);

	if (!o || !str_eq(o->uid, c->uid))
		return false;
	if (!is_bound(o) && source_name(o))
		return pvc_clone(c, o);
	if (!is_bound(o))
		pvc_bind(c, o);
	else if (has_grown(o))
		jobs_run(v->spec.jobs, grow_work, grow_done, chore_new(v, o));
	err_free(pvc_moves(v, o)); /* nobody waits for it yet */
	return false;
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

	if (!c)
		return again_never();
	switch (c->phase) {
	case PVC_THERE:
		if (pvc_check(c))
			return again_after(CLONE_RETRY_MS);
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
		if (map_has(v->moves, c->uid))
			break; /* move_done() follows */
		trash_remove_disk(v->spec.jobs, v->spec.disk, INSTANCE_VOLUMES, c->uid);
		(void)map_del(v->pvcs, c->uid);
		break;
	}
	return again_never();
}

void volumes_sweep(struct volumes *v)
{
	autofree char *old = diskpool_old_dir(v->spec.disk, INSTANCE_VOLUMES);

	map_each(it, v->pvcs)
		if (old || ((struct pvc *)it.value)->phase == PVC_UNUSED)
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
		v->spec.changed(v->spec.arg, now);
	}
	if (c && !now)
		c->phase = PVC_DELETED;
	if (c && (!now || !is_bound(now) || has_grown(now)))
		(void)queue_add(v->queue, o->uid);
}

static void note_dir(void *arg, const char *uid)
{
	struct volumes *v = arg;

	if (!map_has(v->pvcs, uid))
		(void)pvc_new(v, uid, PVC_UNUSED);
}

/* Removes what an earlier run could not. */
static void pvcs_known(void *arg)
{
	struct volumes *v = arg;

	diskpool_each(v->spec.disk, INSTANCE_VOLUMES, note_dir, v);
	volumes_sweep(v);
}

void pvcs_start(struct volumes *v)
{
	static const struct client_watch_events events = { .changed = pvc_changed,
							   .synced = pvcs_known };
	const struct client_watch_spec watch = { .kind = v->pvc };
	const struct queue_spec queue = { .loop = v->spec.loop, .run = pvc_pass, .arg = v };

	diskpool_drop_steps(v->spec.disk);
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
