/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * RuntimeClasses: those that the node has by itself exist from the start, as objects that a user
 * may label, and a Pod that names one which does not exist is refused, in the words of the
 * admission plugin of Kubernetes.
 */
struct err *runtime_class_exists(const struct op *op, const struct json_doc *d)
{
	const struct objects *os = op->admit->objects;
	const char *name = json_get_str(json_get(json_root(d), "spec"), "runtimeClassName");
	autofree char *why = NULL;

	if (kind_storage(op->kind) != os->pod || str_empty(name) ||
	    objects_find(os, os->runtime_class, "", name))
		return NULL;
	why = xasprintf("pod rejected: RuntimeClass \"%s\" not found", name);
	return err_forbidden(op->kind, json_get_str(json_get(json_root(d), "metadata"), "name"),
			     why);
}

struct err *runtime_classes_bootstrap(struct admit *a, const char *const *names)
{
	struct err *e = NULL;

	for (; names && *names && !e; names++) {
		struct json_doc *d = json_doc_new();

		json_set_root(d, json_obj(d));
		json_set_str(d, json_root(d), "handler", *names);
		e = op_need(a, a->objects->runtime_class, "", *names, d);
		e = err_wrap(e, "create RuntimeClass %s", *names);
	}
	return e;
}
