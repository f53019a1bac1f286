/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/str.h"
#include "node/launch/plan.h"
#include "node/pod/pod.h"
#include "node/pod/pod_priv.h"

/*
 * Seats in the tasks of containers. An OCI runtime makes the namespaces of its containers itself,
 * and may have a kernel of its own in them: nothing can be added to them from outside. There,
 * whoever shares the sandbox's files is served by the container's own guest; other views are
 * refused.
 */
struct err *container_seat(struct container *c, const struct runtime_seat *spec,
			   struct runtime_seat_wait *w, const char **ret_id)
{
	static const char *const names[RUNTIME_VIEW_MAX_] = {
		[RUNTIME_VIEW_SHARED] = "Shared",
		[RUNTIME_VIEW_READ_ONLY] = "ReadOnly",
		[RUNTIME_VIEW_SCRATCH] = "Scratch",
	};
	const struct pods *ps = c->pod->pods;
	autoptr(arena) a = arena_new();
	struct plan_oci oci = { 0 };
	struct runtime_seat seat = *spec;
	struct err *e;

	if (!c->task)
		return err_new(ERR_UNAVAILABLE, "container %s is not running", c->view->name);
	e = pod_runtime_find(c->pod, a, &oci);
	if (e)
		return e;
	if (!oci.program && ps->rt->seat) {
		seat.disk = pod_container_quantity(c->view, "limits.ephemeral-storage") / 1000;
		return ps->rt->seat(c->task, &seat, w, ret_id);
	}
	if (spec->view == RUNTIME_VIEW_SHARED) {
		*ret_id = c->log;
		return NULL;
	}
	return err_new(ERR_UNSUPPORTED,
		       "runtime %s cannot show a sandbox's files with the view %s; only the "
		       "native runtime can",
		       oci.program ? c->pod->view->runtime_class : ps->rt->name, names[spec->view]);
}

void pods_seats_end(struct pods *ps, const char *key)
{
	if (ps->rt->seats_end)
		ps->rt->seats_end(ps->rt_ctx, key);
}

void pods_seats_keep(struct pods *ps, bool (*keep)(void *arg, const char *key), void *arg)
{
	if (ps->rt->seats_keep)
		ps->rt->seats_keep(ps->rt_ctx, keep, arg);
}
