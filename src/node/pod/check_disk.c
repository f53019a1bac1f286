/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wall.h"
#include "node/disk/disk.h"
#include "node/pod/pod_priv.h"

/*
 * Disk space limits. Where the pool cannot keep one it is refused, because a Pod that asks for a
 * limit is not safe without it, unless the operator has allowed that.
 */
static char *refuse(const struct diskpool *d, char *path)
{
	autofree char *at = path;

	return xasprintf("%s: nothing enforces disk space limits here (%s); see `cay doctor`, or "
			 "start with --allow-unenforced-disk-limits",
			 at, diskpool_trouble(d));
}

static char *check_volume(const struct diskpool *d, const struct pod_volume_view *v, size_t i)
{
	if (v->type == POD_VOLUME_EMPTY_DIR && v->size && !v->memory)
		return refuse(d, xasprintf("spec.volumes[%zu].emptyDir.sizeLimit", i));
	if (v->type == POD_VOLUME_PVC)
		return refuse(d, xasprintf("spec.volumes[%zu].persistentVolumeClaim", i));
	return NULL;
}

static char *check_container(const struct diskpool *d, const struct pod_view *p, size_t i)
{
	const struct pod_container_view *c = &p->containers[i];

	if (!pod_container_quantity(c, "limits.ephemeral-storage"))
		return NULL;
	return refuse(d, xasprintf("spec.%s[%zu].resources.limits.ephemeral-storage",
				   c->init ? "initContainers" : "containers",
				   c->init ? i : i - p->n_init));
}

char *pod_disk_unsupported(const struct diskpool *d, const struct pod_view *p)
{
	char *bad = NULL;

	if (!diskpool_refuses_limits(d) || !wall_stands("disk-refusal"))
		return NULL;
	for (size_t i = 0; i < p->n_volumes && !bad; i++)
		bad = check_volume(d, &p->volumes[i], i);
	for (size_t i = 0; i < p->n_containers && !bad; i++)
		bad = check_container(d, p, i);
	return bad;
}
