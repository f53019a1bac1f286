/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "node/disk/disk.h"
#include "node/host/instance.h"
#include "node/pod/pod_priv.h"
#include "node/pod/usage_priv.h"

/*
 * What a Pod has on disk beside the layers and logs of the tasks that run: its emptyDirs, and the
 * logs that are kept of attempts that are over. Which parts those are is known on the loop; a job
 * asks the disk pool about each.
 */
static void add(struct pod_disk *d, enum instance_dir dir, const char *name)
{
	d->parts[d->n++] = (struct disk_part){ dir, name };
}

static void add_log(struct pod_disk *d, const char *task, struct arena *a)
{
	if (task)
		add(d, INSTANCE_SLOTS, arena_printf(a, "%s/%s", task, DISK_SLOT_LOGS));
}

struct pod_disk pod_disk_of(const struct pod *p, struct arena *a)
{
	const struct pod_view *v = p->view;
	struct pod_disk d = { .uid = arena_strdup(a, p->obj->uid) };

	d.parts = arena_new_n(a, struct disk_part, v->n_volumes + 2 * p->n_containers + 1);
	for (size_t i = 0; i < v->n_volumes; i++)
		if (v->volumes[i].type == POD_VOLUME_EMPTY_DIR && !v->volumes[i].memory)
			add(&d, INSTANCE_PODS, arena_printf(a, "%s/%s", d.uid, v->volumes[i].name));
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = p->containers[i];

		add_log(&d, c->prev_log, a);
		if (!c->task)
			add_log(&d, c->log, a);
	}
	return d;
}

void pod_disk_look(const struct diskpool *pool, struct pod_disk *d)
{
	for (size_t i = 0; i < d->n; i++) {
		autofree char *path = diskpool_path(pool, d->parts[i].dir, d->parts[i].name);

		d->used += diskpool_ops(pool)->used(path);
	}
}
