/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "node/access/session_priv.h"

/* The ways into a Pod that access.h names, found by the session's kind. */

static void do_write(void *s, const void *p, size_t len)
{
	((struct session_head *)s)->kind->write(s, p, len);
}

static bool do_full(void *s)
{
	return ((struct session_head *)s)->kind->full(s);
}

static void do_end_input(void *s)
{
	((struct session_head *)s)->kind->end_input(s);
}

static void do_resize(void *s, uint16_t cols, uint16_t rows)
{
	((struct session_head *)s)->kind->resize(s, cols, rows);
}

static void do_pause(void *s, bool paused)
{
	((struct session_head *)s)->kind->pause(s, paused);
}

static void do_cancel(void *s)
{
	((struct session_head *)s)->kind->cancel(s);
}

struct err *session_target(struct node *n, const struct access_target *to, struct container **ret)
{
	struct pod *p = node_find_pod(n, to->ns, to->pod);
	const char *name;

	if (!p || p->gone)
		return err_new(ERR_NOT_FOUND, "pods \"%s\" not found", to->pod);
	name = str_or(to->container,
		      object_annotation(p->obj, "kubectl.kubernetes.io/default-container"));
	*ret = NULL;
	if (!str_empty(name))
		*ret = pod_container(p, name);
	else if (p->n_containers > p->n_init)
		*ret = &p->containers[p->n_init];
	if (!*ret)
		return err_new(ERR_NOT_FOUND, "container %s is not valid for pod %s",
			       str_or(name, ""), to->pod);
	return NULL;
}

struct access *node_access_new(struct node *n)
{
	static const struct access_ops ops = {
		.exec = session_exec,
		.logs = session_logs,
		.dial = session_dial,
		.write = do_write,
		.full = do_full,
		.end_input = do_end_input,
		.resize = do_resize,
		.pause = do_pause,
		.cancel = do_cancel,
	};

	return access_new(&ops, n);
}
