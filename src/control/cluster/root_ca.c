/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "base/str.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/context.h"

/*
 * The ConfigMap that each namespace has with the CA of the API server's certificate. It is made
 * with the namespace, by the namespace's own pass, and put right whenever somebody changes or
 * deletes it: one write for each of theirs.
 */
#define ROOT_CA     "kube-root-ca.crt"
#define ROOT_CA_KEY "ca.crt"

bool root_ca_is(const struct cluster *cl, const struct object *o)
{
	return o->kind == cl->config_map && str_eq(o->name, ROOT_CA);
}

static bool is_right(const struct object *o, const char *pem)
{
	const struct json *data = json_get(o->root, "data");

	return json_len(data) == 1 && str_eq(json_get_str(data, ROOT_CA_KEY), pem) &&
	       !json_len(json_get(o->root, "binaryData"));
}

static void set_data(struct json_doc *d, const char *pem)
{
	struct json *data = json_obj(d);

	json_set_str(d, data, ROOT_CA_KEY, pem);
	(void)json_set(d, json_root(d), "data", data);
}

static void make(struct pass *p, struct write *w, const char *pem)
{
	struct json_doc *d = json_doc_new();

	json_set_root(d, json_obj(d));
	json_set_str(d, json_need_obj(d, json_root(d), "metadata"), "name", ROOT_CA);
	set_data(d, pem);
	w->what = "create the ConfigMap of the root CA";
	pass_create(p, w, d);
}

/* What was declared immutable can only be deleted; then it is made anew. */
static void put_right(struct pass *p, struct write *w, const struct object *o, const char *pem)
{
	struct json_doc *d;

	w->to = ref_of(o);
	w->what = "put the ConfigMap of the root CA right";
	w->flags |= WRITE_GONE_OK | WRITE_CONFLICT_OK;
	if (json_get_bool(o->root, "immutable", false)) {
		pass_delete_uid(p, w, o->uid);
		return;
	}
	d = object_edit(o);
	(void)json_del(json_root(d), "binaryData");
	set_data(d, pem);
	pass_update(p, w, d);
}

void root_ca_need(struct pass *p, const struct cluster *cl, const char *ns, unsigned write)
{
	autoptr(object) o = client_get(p->c->client, cl->config_map, ns, ROOT_CA);
	const char *pem = p->c->opt.root_ca;
	struct write w = { .name = write,
			   .to = { .kind = cl->config_map, .ns = ns },
			   .flags = WRITE_QUIET };

	if (!pem || (o && (is_right(o, pem) || object_deleting(o))))
		return;
	if (o)
		put_right(p, &w, o, pem);
	else
		make(p, &w, pem);
}
