/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "api/object.h"
#include "api/storage.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "base/wall.h"
#include "loop/jobs.h"
#include "loop/queue.h"
#include "node/disk/disk.h"
#include "node/volume/pvc_priv.h"

/* What is done to the directories of claims and takes time: moving, cloning, growing. */

/* A longer job on behalf of a PVC, which may be gone when it ends. */
struct chore {
	struct volumes *volumes;
	char *uid;
	char *dir;  /* what it works on */
	char *from; /* the directory that a clone is made of */
	int64_t size;
	struct err *err;
};

static struct chore *chore_new(struct volumes *v, const struct object *o, const char *dir)
{
	struct chore *c = xnew(struct chore);

	*c = (struct chore){
		.volumes = v, .uid = xstrdup(o->uid), .dir = xstrdup(dir), .size = pvc_size(o)
	};
	return c;
}

static void chore_free(struct chore *c)
{
	err_free(c->err);
	free(c->uid);
	free(c->dir);
	free(c->from);
	free(c);
}

/* The claim of a job that has ended, and its object, a new reference; NULL: it has gone. */
static struct pvc *chore_claim(const struct chore *c, struct object **ret)
{
	struct volumes *v = c->volumes;
	struct pvc *pvc = v->pvcs ? map_get(v->pvcs, c->uid) : NULL;
	autoptr(object) o = NULL;

	if (!pvc)
		return NULL;
	o = client_get(v->spec.client, v->pvc, pvc->ns, pvc->name);
	if (!o || !str_eq(o->uid, c->uid))
		return NULL;
	*ret = take(o);
	return pvc;
}

static void move_work(void *arg)
{
	struct chore *c = arg;

	c->err = diskpool_move(c->volumes->spec.disk, INSTANCE_VOLUMES, c->dir, c->size);
}

static void move_done(void *arg)
{
	struct chore *c = arg;
	struct volumes *v = c->volumes;
	autoptr(object) o = NULL;

	if (c->err)
		log_warn("volume stays where it was, trying again when a Pod wants it",
			 KV("uid", c->uid), KV("err", c->err));
	(void)map_del(v->moves, c->dir);
	dir_moved(v, c->dir);
	/* After a failure, Pods try again at their own pace. */
	if (!c->err && chore_claim(c, &o))
		v->spec.changed(v->spec.arg, o);
	chore_free(c);
}

struct err *pvc_moves(struct volumes *v, const struct object *o, const struct object *pv)
{
	const char *dir = storage_handle(pv->root);
	autofree char *old = diskpool_old_dir(v->spec.disk, INSTANCE_VOLUMES);
	autofree char *path = xasprintf("%s/%s", str_or(old, ""), str_or(dir, ""));

	if (!old || !dir || !file_exists(AT_FDCWD, path))
		return NULL;
	if (!map_has(v->moves, dir)) {
		if (v->spec.in_use(v->spec.arg, dir))
			return NULL; /* until its last Pod ends */
		map_put(v->moves, dir, v);
		jobs_run(v->spec.jobs, move_work, move_done, chore_new(v, o, dir));
	}
	return err_new(ERR_UNAVAILABLE,
		       "persistentvolumeclaim \"%s\" is being moved into the disk pool", o->name);
}

static void clone_work(void *arg)
{
	struct chore *c = arg;

	c->err = diskpool_clone(c->volumes->spec.disk, c->from, c->dir,
				wall_stands("disk-volume") ? c->size : 0);
}

static void clone_done(void *arg)
{
	struct chore *c = arg;
	struct volumes *v = c->volumes;
	autoptr(object) o = NULL;
	struct pvc *pvc = chore_claim(c, &o);

	(void)map_del(v->moves, c->dir);
	dir_moved(v, c->dir);
	if (pvc && c->err) {
		pvc_trouble(pvc, o, "ProvisioningFailed", err_text(c->err));
	} else if (pvc) {
		pvc->cloned = true;
		(void)queue_add(v->queue, c->uid);
	}
	chore_free(c);
}

/* NULL: it can be cloned from *ret, a new reference to a volume. Else why not, malloc'd. */
static char *clone_source(struct volumes *v, const struct object *o, struct object **ret)
{
	const char *name = pvc_source(o);
	autoptr(object) from = client_get(v->spec.client, v->pvc, o->ns, name);
	autoptr(object) pv = NULL;

	if (!from || object_deleting(from))
		return xasprintf("its data source, persistentvolumeclaim \"%s\", is not there",
				 name);
	pv = pvc_is_bound(from) ? pv_of(v, from) : NULL;
	if (!pv || !storage_handle(pv->root))
		return xasprintf("its data source, persistentvolumeclaim \"%s\", is not bound",
				 name);
	if (pvc_size(o) < pvc_size(from))
		return xasprintf("spec.resources.requests.storage: %lld bytes are less than the "
				 "%lld of its data source",
				 (long long)pvc_size(o), (long long)pvc_size(from));
	*ret = take(pv);
	return NULL;
}

bool pvc_clone(struct pvc *c, struct object *o)
{
	struct volumes *v = c->volumes;
	autoptr(object) from = NULL;
	autofree char *why = NULL;
	struct chore *job;

	if (map_has(v->moves, c->uid))
		return false;
	why = clone_source(v, o, &from);
	if (!from) {
		pvc_trouble(c, o, "ProvisioningFailed", why);
		return true;
	}
	map_put(v->moves, c->uid, v);
	job = chore_new(v, o, o->uid);
	job->from = xstrdup(storage_handle(from->root));
	jobs_run(v->spec.jobs, clone_work, clone_done, job);
	return false;
}

static void grow_work(void *arg)
{
	struct chore *c = arg;

	if (wall_stands("disk-volume"))
		c->err = diskpool_limit(c->volumes->spec.disk, INSTANCE_VOLUMES, c->dir, c->size);
}

/* The new size is reported when it is true: first by the volume, then by the claim. */
static void grow_done(void *arg)
{
	struct chore *c = arg;
	struct volumes *v = c->volumes;
	autoptr(object) o = NULL;
	autoptr(object) pv = NULL;
	autoptr(object) now = NULL;
	struct pvc *pvc = chore_claim(c, &o);

	if (c->err)
		log_warn("volume keeps its size until its claim changes", KV("uid", c->uid),
			 KV("err", c->err));
	else if (pvc && pvc_size(o) == c->size)
		pv = pv_of(v, o);
	if (pv)
		pv_resize(v, pv, json_at_path(object_spec(o), "resources.requests.storage"));
	now = pv ? pv_of(v, o) : NULL;
	if (now && pv_size(now) == c->size)
		pvc_bind(pvc, o, now);
	chore_free(c);
}

void pvc_grow(struct pvc *c, const struct object *o, const struct object *pv)
{
	struct volumes *v = c->volumes;

	if (storage_handle(pv->root))
		jobs_run(v->spec.jobs, grow_work, grow_done,
			 chore_new(v, o, storage_handle(pv->root)));
}
