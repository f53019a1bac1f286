/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "node/pod/pod_priv.h"

/*
 * Ephemeral containers (kubectl debug): started in a Pod that runs, with its network, IPC and host
 * name, and never twice. They come after the Pod was admitted, so that what this node supports, and
 * whether there is room for one more, is asked when they start.
 */
enum {
	RETRY_S = 10,
};

static void refuse(struct container *c, const char *text)
{
	if (!str_eq(c->message, text))
		pod_event(c->pod, true, "Failed", "Error: %s", text);
	container_wait(c, WAIT_CONFIG, text);
	container_hold_back(c, RETRY_S);
}

bool ephemeral_admit(struct container *c)
{
	autofree char *bad = NULL, *text = NULL;

	if (!c->view->ephemeral || c->counted)
		return true;
	bad = container_unsupported(object_spec(c->pod->obj), c->view->name);
	if (bad) {
		text = xasprintf("this node does not support %s", bad);
		refuse(c, text);
		return false;
	}
	if (!pod_room_one_more(c->pod)) {
		refuse(c, "this node has as many containers as it may (--max-containers)");
		return false;
	}
	c->counted = true;
	if (c->view->target)
		pod_event(c->pod, true, "TargetNotShared",
			  "Container %s does not see the processes of %s: every container has "
			  "processes of its own",
			  c->view->name, c->view->target);
	return true;
}

/* The state file is gone, after a restart of the machine for example. */
void ephemeral_started_before(struct container *c)
{
	if (!c->view->ephemeral || c->state != CONTAINER_WAITING || c->log ||
	    str_empty(json_get_str(container_status_was(c), "containerID")))
		return;
	c->end.code = 137;
	c->end.reason = xstrdup("ContainerStatusUnknown");
	c->end.message = xstrdup("it ended while the node was away");
	c->end.finished = pods_wall(c->pod->pods);
	container_enter(c, CONTAINER_ENDED);
}
