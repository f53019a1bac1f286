/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/mem.h"
#include "client/client.h"
#include "loop/queue.h"
#include "node/disk/disk.h"
#include "node/disk/trash.h"
#include "node/volume/volume_priv.h"

/*
 * The end of the directories of volumes. One belongs to the PersistentVolumes that have its name as
 * their handle, and to the PersistentVolumeClaim with this uid, which may not have its volume yet.
 * It is removed when none of them is left, that is durable, and no Pod uses it any more, whether
 * the objects were deleted in this run of the daemon or in an earlier one. If it is on its way into
 * the disk pool, the removal waits until it is there.
 */
enum dir_phase {
	DIR_LEFT,    /* its last object is gone */
	DIR_SYNCING, /* waits until that is durable */
	DIR_UNUSED,  /* it goes after its last Pod */
};

struct dir {
	struct volumes *volumes;
	char *name;
	enum dir_phase phase;
	struct client_write sync;
};

static void dir_free(void *arg)
{
	struct dir *d = arg;

	client_cancel(&d->sync);
	free(d->name);
	free(d);
}

static bool is_owned(const struct volumes *v, const char *name)
{
	return map_has(v->pvcs, name) || map_has(v->handles, name);
}

static void dir_add(struct volumes *v, const char *name, enum dir_phase phase)
{
	struct dir *d;

	if (is_owned(v, name) || map_has(v->dirs, name))
		return;
	d = xnew(struct dir);
	*d = (struct dir){ .volumes = v, .name = xstrdup(name), .phase = phase };
	map_put(v->dirs, name, d);
	(void)queue_add(v->dir_queue, name);
}

void dir_left(struct volumes *v, const char *name)
{
	dir_add(v, name, DIR_LEFT);
}

void dir_moved(struct volumes *v, const char *name)
{
	if (v->dirs && map_has(v->dirs, name))
		(void)queue_add(v->dir_queue, name);
}

static void on_durable(struct client_write *w, struct err *e, unused struct object *obj)
{
	struct dir *d = container_of(w, struct dir, sync);

	err_free(e);
	d->phase = DIR_UNUSED;
	(void)queue_add(d->volumes->dir_queue, d->name);
}

static struct again dir_pass(void *arg, struct queue_item *it)
{
	struct volumes *v = arg;
	struct dir *d = map_get(v->dirs, it->key);

	if (!d)
		return again_never();
	if (is_owned(v, d->name)) {
		(void)map_del(v->dirs, d->name);
		return again_never();
	}
	switch (d->phase) {
	case DIR_LEFT:
		d->phase = DIR_SYNCING;
		d->sync.done = on_durable;
		client_sync(v->spec.client, &d->sync);
		break;
	case DIR_SYNCING:
		break;
	case DIR_UNUSED:
		if (v->spec.in_use(v->spec.arg, d->name))
			break; /* volumes_sweep() follows */
		if (map_has(v->moves, d->name))
			break; /* dir_moved() follows */
		trash_remove_disk(v->spec.jobs, v->spec.disk, INSTANCE_VOLUMES, d->name);
		(void)map_del(v->dirs, d->name);
		break;
	}
	return again_never();
}

static void note_dir(void *arg, const char *name)
{
	dir_add(arg, name, DIR_UNUSED);
}

void dirs_known(struct volumes *v)
{
	diskpool_each(v->spec.disk, INSTANCE_VOLUMES, note_dir, v);
}

void dirs_sweep(struct volumes *v)
{
	map_each(it, v->dirs)
		if (((struct dir *)it.value)->phase == DIR_UNUSED)
			(void)queue_add(v->dir_queue, it.key);
}

void dirs_start(struct volumes *v)
{
	const struct queue_spec queue = { .loop = v->spec.loop, .run = dir_pass, .arg = v };

	diskpool_drop_steps(v->spec.disk);
	v->dirs = map_new(dir_free);
	v->dir_queue = queue_new(&queue);
	queue_open(v->dir_queue);
}

/* From here on it is not known whether a directory is in use: nothing is removed any more. */
void dirs_stop(struct volumes *v)
{
	map_free(take(v->dirs));
	queue_free(take(v->dir_queue));
}
