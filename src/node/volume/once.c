/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "api/storage.h"
#include "base/map.h"
#include "base/str.h"
#include "node/volume/volume_priv.h"

/*
 * ReadWriteOncePod: one Pod at a time. A Pod has such a volume from its preparation to its end;
 * after a restart of the daemon, Pods that have mounted it before come first. Whoever is refused is
 * told when a Pod has gone.
 */
static bool is_for_one(const struct object *pvc)
{
	json_each(it, json_get(object_spec(pvc), "accessModes"))
		if (str_eq(json_str(it.val), "ReadWriteOncePod"))
			return true;
	return false;
}

struct err *once_take(struct volumes *v, const struct volume_pod *p, const struct object *pvc,
		      const struct object *pv)
{
	const char *handle = storage_handle(pv->root), *uid;
	bool mounted = p->mounted && map_has(p->mounted, handle);

	if (!is_for_one(pvc))
		return NULL;
	uid = map_get(v->once, handle);
	if (!mounted && !str_eq(uid, p->view->uid) &&
	    (uid || v->spec.in_use(v->spec.arg, handle))) {
		map_put(v->once_waits, pvc->uid, v);
		return err_new(ERR_UNAVAILABLE,
			       "persistentvolumeclaim \"%s\" is used by another Pod, and its "
			       "access mode is ReadWriteOncePod",
			       pvc->name);
	}
	map_put(v->once, handle, xstrdup(p->view->uid));
	return NULL;
}

void once_forget(struct volumes *v, const char *uid)
{
	for (;;) {
		const char *found = NULL;

		map_each(it, v->once)
			if (!found && str_eq(it.value, uid))
				found = it.key;
		if (!found)
			return;
		(void)map_del(v->once, found);
	}
}

void once_sweep(struct volumes *v)
{
	struct map *waits = v->once_waits;

	if (!map_len(waits))
		return;
	v->once_waits = map_new(NULL);
	map_each(it, waits)
		pvc_tell(v, it.key);
	map_free(waits);
}

void once_open(struct volumes *v)
{
	v->once = map_new(free);
	v->once_waits = map_new(NULL);
}

void once_close(struct volumes *v)
{
	map_free(take(v->once));
	map_free(take(v->once_waits));
}
