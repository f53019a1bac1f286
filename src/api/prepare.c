/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "api/meta.h"
#include "api/pod.h"
#include "base/str.h"
#include "json/json.h"

/* What the server sets in objects of some kinds, whatever a client has sent. */

void prepare_create_pod(struct json_doc *d, const struct kind_env *env)
{
	struct json *spec = json_need_obj(d, json_root(d), "spec");

	if (env->node_name && str_empty(json_get_str(spec, "nodeName")))
		json_set_str(d, spec, "nodeName", env->node_name);
}

/* Only a Pod that a node runs takes time to stop. */
int64_t grace_pod(const struct json *obj, int64_t asked)
{
	const struct json *spec = json_get(obj, "spec");
	const char *phase = json_get_str(json_get(obj, "status"), "phase");

	if (str_empty(json_get_str(spec, "nodeName")) || pod_phase_over(phase))
		return 0;
	return asked >= 0 ? asked
			  : json_get_int(spec, "terminationGracePeriodSeconds", POD_GRACE_S);
}

void prepare_create_persistent_volume_claim(struct json_doc *d, unused const struct kind_env *env)
{
	struct json *meta = json_need_obj(d, json_root(d), "metadata");
	struct json *list = json_get(meta, "finalizers");

	json_each(it, list)
		if (str_eq(json_str(it.val), FINALIZER_PVC))
			return;
	if (!json_is(list, JSON_ARR))
		list = json_set(d, meta, "finalizers", json_arr(d));
	json_push_str(d, list, FINALIZER_PVC);
}

static void label_namespace(struct json_doc *d)
{
	struct json *meta = json_need_obj(d, json_root(d), "metadata");
	const char *name = json_get_str(meta, "name");

	if (!str_empty(name))
		json_set_str(d, json_need_obj(d, meta, "labels"), "kubernetes.io/metadata.name",
			     name);
}

/* spec holds only the finalizer that the defaults add. */
void prepare_create_namespace(struct json_doc *d, unused const struct kind_env *env)
{
	(void)json_del(json_root(d), "spec");
	label_namespace(d);
}

/* Kubernetes changes spec.finalizers only through /finalize. */
void prepare_update_namespace(struct json_doc *d, const struct json *old)
{
	const struct json *was = json_get(old, "spec");

	if (!json_equal(json_get(json_root(d), "spec"), was))
		(void)json_set(d, json_root(d), "spec", json_copy(d, was));
	label_namespace(d);
}

void prepare_delete_namespace(struct json_doc *d)
{
	json_set_str(d, json_need_obj(d, json_root(d), "status"), "phase", "Terminating");
}
