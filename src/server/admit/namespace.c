/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/kind.h"
#include "api/object.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * Namespaces as far as the server knows them: which always exist, and which accept new objects. The
 * rest is up to their controller (control/cluster/namespace.c).
 */
struct err *op_need(struct admit *a, const struct kind *k, const char *ns, const char *name,
		    struct json_doc *doc)
{
	autoptr(json_doc) d = doc;
	autoop op = { .admit = a,
		      .user = "system:cay:server",
		      .kind = k,
		      .ns = ns,
		      .name = name,
		      .sub = "" };
	struct json_doc *decoded;
	struct err *e;

	if (objects_find(a->objects, k, ns, name))
		return NULL;
	e = op_decode(&op, &(struct decode_input){ .media = DECODE_TREE, .tree = take(d) },
		      &decoded);
	return e ? e : op_create(&op, decoded);
}

static struct err *need(struct admit *a, const struct kind *k, const char *ns, const char *name)
{
	struct json_doc *d = json_doc_new();

	json_set_root(d, json_obj(d));
	return op_need(a, k, ns, name, d);
}

static bool terminating(const struct objects *os, const char *name)
{
	const struct object *ns = objects_find(os, os->namespace, "", name);

	return ns && object_deleting(ns);
}

struct err *namespace_open(struct op *op, const struct json_doc *d)
{
	const char *name = json_get_str(json_get(json_root(d), "metadata"), "name");
	const struct objects *os = op->admit->objects;
	autofree char *why = NULL;

	if (!(op->kind->flags & KIND_NAMESPACED))
		return NULL;
	if (!objects_find(os, os->namespace, "", op->ns))
		return err_absent(os->namespace, op->ns);
	if (!terminating(os, op->ns))
		return NULL;
	why = xasprintf(
		"unable to create new content in namespace %s because it is being terminated",
		op->ns);
	causes_add(&op->causes, CAUSE_TERMINATING, "metadata.namespace",
		   "namespace %s is being terminated", op->ns);
	return err_forbidden(op->kind, name, why);
}

struct err *namespaces_bootstrap(struct admit *a)
{
	static const char *const names[] = { "default", "kube-system", SYSTEM_NAMESPACE };
	const struct objects *os = a->objects;
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		e = need(a, os->namespace, "", names[i]);
		if (e)
			return err_wrap(e, "create namespace %s", names[i]);
		if (terminating(os, names[i]))
			continue;
		e = need(a, os->service_account, names[i], "default");
		if (e)
			return err_wrap(e, "create service account %s/default", names[i]);
	}
	return NULL;
}
