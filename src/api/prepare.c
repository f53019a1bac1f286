/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "api/meta.h"
#include "api/pod.h"
#include "api/storage.h"
#include "base/str.h"
#include "json/json.h"

/* What the server sets in objects of some kinds, whatever a client has sent. */

/* There is one node; a gate keeps a Pod away from it. */
static void bind(struct json_doc *d, struct json *spec, const struct kind_env *env)
{
	if (env->node_name && str_empty(json_get_str(spec, "nodeName")) &&
	    !json_len(json_get(spec, "schedulingGates")))
		json_set_str(d, spec, "nodeName", env->node_name);
}

void prepare_create_pod(struct json_doc *d, const struct kind_env *env)
{
	struct json *spec = json_need_obj(d, json_root(d), "spec");

	bind(d, spec, env);
	if (str_empty(json_get_str(spec, "serviceAccountName")) &&
	    str_empty(json_get_str(spec, "serviceAccount"))) {
		json_set_str(d, spec, "serviceAccountName", "default");
		json_set_str(d, spec, "serviceAccount", "default");
	}
}

/* What its class has given a Pod stays, also when a client sends it without. A Pod goes to the node
 * when its last gate does. */
void prepare_update_pod(struct json_doc *d, const struct json *old, const struct kind_env *env)
{
	static const char *const given[] = { "priority", "preemptionPolicy" };
	const struct json *was = json_get(old, "spec");
	struct json *spec = json_need_obj(d, json_root(d), "spec");

	for (size_t i = 0; i < ARRAY_LEN(given); i++)
		if (json_get(was, given[i]) && !json_get(spec, given[i]))
			json_set(d, spec, given[i], json_copy(d, json_get(was, given[i])));
	if (json_len(json_get(was, "schedulingGates")) && str_empty(json_get_str(was, "nodeName")))
		bind(d, spec, env);
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

static void need_finalizer(struct json_doc *d, const char *name)
{
	struct json *meta = json_need_obj(d, json_root(d), "metadata");
	struct json *list = json_get(meta, "finalizers");

	json_each(it, list)
		if (str_eq(json_str(it.val), name))
			return;
	if (!json_is(list, JSON_ARR))
		list = json_set(d, meta, "finalizers", json_arr(d));
	json_push_str(d, list, name);
}

/* A claim that names no class gets the default one, if there is one; "" is a name. */
void prepare_create_persistent_volume_claim(struct json_doc *d, const struct kind_env *env)
{
	struct json *spec = json_get(json_root(d), "spec");
	const struct json *class = NULL;

	need_finalizer(d, FINALIZER_PVC);
	if (!json_is(spec, JSON_OBJ) || storage_claim_class(json_root(d)))
		return;
	if (!json_get(spec, "storageClassName") && env->storage_class)
		class = env->storage_class(env, NULL);
	if (class)
		json_set_str(d, spec, "storageClassName",
			     json_get_str(json_get(class, "metadata"), "name"));
}

void prepare_create_persistent_volume(struct json_doc *d, unused const struct kind_env *env)
{
	need_finalizer(d, FINALIZER_PV);
}

/* A volume grows only if its class says that it can. */
const char *forbid_update_persistent_volume_claim(const struct json *obj, const struct json *old,
						  const struct kind_env *env)
{
	static const char size[] = "spec.resources.requests.storage";
	const char *class = storage_claim_class(obj);
	int64_t now = 0, was = 0;

	err_free(quantity_parse_milli(json_at_path(obj, size), &now)); /* valid, or none */
	err_free(quantity_parse_milli(json_at_path(old, size), &was));
	if (now <= was)
		return NULL;
	if (!str_eq(json_str(json_at_path(old, "status.phase")), "Bound"))
		return "Only bound persistent volume claims can be expanded";
	if (!str_empty(class) && str_eq(class, storage_claim_class(old)) && env->storage_class &&
	    json_get_bool(env->storage_class(env, class), "allowVolumeExpansion", false))
		return NULL;
	return "only dynamically provisioned pvc can be resized and the storageclass that "
	       "provisions the pvc must support resize";
}

void label_namespace(struct json_doc *d)
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
void prepare_update_namespace(struct json_doc *d, const struct json *old,
			      unused const struct kind_env *env)
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
