/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server_priv.h"

/*
 * Namespaces as far as the server knows them: which always exist, and which take new objects. What
 * becomes of a namespace afterwards is for its controller (control/namespace.c).
 */
static struct err *need(struct server *s, const struct kind *k, const char *ns, const char *name)
{
	autoop op = {
		.s = s, .user = "system:cay:server", .kind = k, .ns = ns, .name = name, .sub = ""
	};
	struct json_doc *d;
	struct err *e;

	if (find_object(s, k, ns, name))
		return NULL;
	d = json_doc_new();
	json_set_root(d, json_obj(d));
	e = op_decode(&op, &(struct decode_input){ .media = DECODE_TREE, .tree = d }, &d);
	return e ? e : op_create(&op, d);
}

static bool terminating(const struct server *s, const char *name)
{
	const struct object *ns = find_object(s, s->kinds.namespace, "", name);

	return ns && object_deleting(ns);
}

struct err *namespace_open(const struct server *s, const struct kind *k, const char *ns,
			   const char *name)
{
	autofree char *why = NULL;

	if (!(k->flags & KIND_NAMESPACED))
		return NULL;
	if (!find_object(s, s->kinds.namespace, "", ns))
		return err_absent(s->kinds.namespace, ns);
	if (!terminating(s, ns))
		return NULL;
	why = xasprintf(
		"unable to create new content in namespace %s because it is being terminated", ns);
	return err_forbidden(k, name, why);
}

struct err *namespaces_bootstrap(struct server *s)
{
	static const char *const names[] = { "default", "kube-system", "agent-sandbox-system" };
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		e = need(s, s->kinds.namespace, "", names[i]);
		if (e)
			return err_wrap(e, "create namespace %s", names[i]);
		if (terminating(s, names[i]))
			continue;
		e = need(s, s->kinds.service_account, names[i], "default");
		if (e)
			return err_wrap(e, "create service account %s/default", names[i]);
	}
	return NULL;
}
