/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/str.h"
#include "node/launch/plan.h"
#include "node/pod/pod_priv.h"
#include "node/runtime/handlers.h"

/*
 * From spec.runtimeClassName to what runs a Pod: the class is an object, its handler a row of the
 * node's table, and that names a program, which may be missing.
 */
static struct err *handler_of(const struct pod *p, struct arena *a, const char **ret)
{
	const struct pods *ps = p->pods;
	const char *class = p->view->runtime_class;
	autoptr(object) o = NULL;

	*ret = "native";
	if (!*class)
		return NULL;
	o = client_get(ps->client, ps->kind_class, NULL, class);
	if (!o)
		return err_new(ERR_UNAVAILABLE, "there is no such object any more");
	*ret = arena_strdup(a, str_or(json_get_str(o->root, "handler"), "native"));
	return NULL;
}

struct err *pod_runtime_find(const struct pod *p, struct arena *a, struct plan_oci *ret)
{
	const char *handler;
	struct err *e = handler_of(p, a, &handler);

	if (!e)
		e = handlers_find(p->pods->handlers, handler, pods_now(p->pods), a, ret);
	return err_wrap(e, "RuntimeClass \"%s\"", p->view->runtime_class);
}

/* Those that run side by side. */
static size_t n_together(const struct pod *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_containers; i++)
		n += !p->containers[i]->view->init || p->containers[i]->view->sidecar;
	return n;
}

const char *pod_runtime_lacks(const struct pod *p)
{
	autoptr(arena) a = arena_new();
	const char *handler;
	struct err *e = handler_of(p, a, &handler);
	const char *lacks = e ? NULL : handlers_lacks(p->pods->handlers, handler, n_together(p));

	err_free(e);
	return lacks;
}
