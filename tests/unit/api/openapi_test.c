/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"

#include "api_test.h"
#include "kinds.h"

static struct json *path_item(struct json_doc *d, const char *path)
{
	return json_get(json_get(json_root(d), "paths"), path);
}

static struct json *schema(struct json_doc *d, const char *name)
{
	return json_get(json_at_path(json_root(d), "components.schemas"), name);
}

static bool has_parameter(const struct json *op, const char *name)
{
	json_each(it, json_get(op, "parameters"))
		if (str_eq(json_get_str(it.val, "name"), name))
			return true;
	return false;
}

/* kubectl from 1.27 on looks for exactly this before it lets the server validate. */
TEST(openapi_writes_offer_field_validation)
{
	static const char *const methods[] = { "put", "patch" };
	autoptr(json_doc) d = openapi_v3(test_kinds(), "agents.x-k8s.io", "v1beta1");
	struct json *one = path_item(
		d, "/apis/agents.x-k8s.io/v1beta1/namespaces/{namespace}/sandboxes/{name}");

	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		struct json *op = json_get(one, methods[i]);

		is_true(has_parameter(op, "fieldValidation"));
		is_true(has_parameter(op, "dryRun"));
		is_true(has_parameter(op, "fieldManager"));
		eq_json(json_get(op, "x-kubernetes-group-version-kind"),
			"{'group':'agents.x-k8s.io','version':'v1beta1','kind':'Sandbox'}");
	}
	eq_str(json_get_str(json_get(one, "delete"), "x-kubernetes-action"), "delete");
	is_true(path_item(d, "/apis/agents.x-k8s.io/v1beta1/sandboxes") != NULL);
	is_true(path_item(d,
			  "/apis/agents.x-k8s.io/v1beta1/namespaces/{namespace}/sandboxes/{name}/"
			  "scale") == NULL);
}

TEST(openapi_strategic_merge_is_for_built_in_kinds)
{
	autoptr(json_doc) core = openapi_v3(test_kinds(), "", "v1");
	autoptr(json_doc) agents = openapi_v3(test_kinds(), "agents.x-k8s.io", "v1beta1");
	struct json *pod = path_item(core, "/api/v1/namespaces/{namespace}/pods/{name}");
	struct json *sandbox = path_item(
		agents, "/apis/agents.x-k8s.io/v1beta1/namespaces/{namespace}/sandboxes/{name}");

	is_true(json_get(json_at_path(pod, "patch.requestBody.content"),
			 "application/strategic-merge-patch+json") != NULL);
	is_true(json_get(json_at_path(sandbox, "patch.requestBody.content"),
			 "application/strategic-merge-patch+json") == NULL);
}

static void check_refs(const struct json *v, const struct json *schemas)
{
	static const char prefix[] = "#/components/schemas/";
	const char *ref = json_get_str(v, "$ref");

	if (ref) {
		is_true(str_starts(ref, prefix));
		is_true(json_get(schemas, ref + strlen(prefix)) != NULL);
	}
	if (json_is(v, JSON_OBJ) || json_is(v, JSON_ARR))
		json_each(it, v)
			check_refs(it.val, schemas);
}

TEST(openapi_documents_hold_every_type_they_refer_to)
{
	autoptr(json_doc) index = openapi_v3_index(test_kinds());
	size_t n;
	const struct kind *const *all = kinds_all(test_kinds(), &n);

	is_true(json_len(json_get(json_root(index), "paths")) >= 8);
	for (size_t i = 0; i < n; i++) {
		autoptr(json_doc) d = openapi_v3(test_kinds(), all[i]->group, all[i]->version);

		check_refs(json_root(d), json_at_path(json_root(d), "components.schemas"));
	}
}

TEST(openapi_types_carry_merge_keys_and_kinds)
{
	autoptr(json_doc) d = openapi_v3(test_kinds(), "", "v1");
	struct json *spec = schema(d, "io.k8s.api.core.v1.PodSpec");
	struct json *containers = json_at_path(spec, "properties.containers");

	eq_str(json_get_str(containers, "x-kubernetes-patch-merge-key"), "name");
	eq_str(json_get_str(containers, "x-kubernetes-list-type"), "map");
	eq_json(json_get(containers, "x-kubernetes-list-map-keys"), "['name']");
	eq_json(json_get(spec, "required"), "['containers']");
	eq_json(json_get(schema(d, "io.k8s.api.core.v1.Pod"), "x-kubernetes-group-version-kind"),
		"[{'group':'','version':'v1','kind':'Pod'}]");
}

/* As a kube-apiserver publishes them, and kubectl explain shows. */
TEST(openapi_types_carry_the_values_of_enumerations)
{
	autoptr(json_doc) d = openapi_v3(test_kinds(), "", "v1");
	const struct json *types = json_at_path(json_root(d), "components.schemas");
	const struct json *port = json_get(types, "io.k8s.api.core.v1.ContainerPort");
	const struct json *claim = json_get(types, "io.k8s.api.core.v1.PersistentVolumeClaimSpec");

	eq_json(json_at_path(port, "properties.protocol.enum"), "['SCTP','TCP','UDP']");
	eq_json(json_at_path(claim, "properties.accessModes.items.enum"),
		"['ReadOnlyMany','ReadWriteMany','ReadWriteOnce','ReadWriteOncePod']");
}

TEST(crd_is_structural_and_has_both_rules)
{
	autoptr(json_doc) d = openapi_crd(kind_named("Sandbox"));
	struct json *v = json_at_path(json_root(d), "spec.versions.0");
	struct json *s = json_at_path(v, "schema.openAPIV3Schema");

	eq_str(json_str(json_at_path(json_root(d), "metadata.name")), "sandboxes.agents.x-k8s.io");
	eq_int(json_len(json_at_path(json_root(d), "spec.versions")), 1);
	eq_json(json_get(v, "subresources"), "{'status':{}}");
	eq_json(json_at_path(s, "properties.metadata"), "{'type':'object'}");
	eq_int(json_len(json_get(s, "x-kubernetes-validations")), 1);
	eq_str(json_str(json_at_path(s, "properties.spec.x-kubernetes-validations.0.message")),
	       "volumeClaimTemplates is immutable");
	eq_str(json_str(json_at_path(v, "additionalPrinterColumns.0.jsonPath")),
	       ".status.conditions[?(@.type=='Ready')].status");
	eq_json(json_at_path(s, "properties.spec.properties.podTemplate.properties.spec.properties."
				"containers.items.properties.ports.x-kubernetes-list-map-keys"),
		"['containerPort','protocol']");
}

TEST(crd_of_a_pool_scales)
{
	autoptr(json_doc) d = openapi_crd(kind_named("SandboxWarmPool"));
	autoptr(json_doc) t = openapi_crd(kind_named("SandboxTemplate"));

	eq_json(json_at_path(json_root(d), "spec.versions.0.subresources"),
		"{'status':{},'scale':{'specReplicasPath':'.spec.replicas','statusReplicasPath':"
		"'.status.replicas','labelSelectorPath':'.status.selector'}}");
	eq_json(json_at_path(json_root(d), "spec.names.shortNames"), "['swp']");
	is_true(json_at_path(json_root(t), "spec.versions.0.subresources") == NULL);
	is_true(json_at_path(json_root(t), "spec.versions.0.additionalPrinterColumns") == NULL);
}

static bool preserves_unknown(const struct json *v)
{
	if (json_get(v, "x-kubernetes-preserve-unknown-fields"))
		return true;
	if (json_is(v, JSON_OBJ) || json_is(v, JSON_ARR))
		json_each(it, v)
			if (preserves_unknown(it.val))
				return true;
	return false;
}

TEST(crds_prune_everywhere)
{
	size_t n;
	const struct kind *const *all = kinds_all(test_kinds(), &n);

	for (size_t i = 0; i < n; i++) {
		autoptr(json_doc) d = NULL;

		if (!(all[i]->flags & KIND_CRD) || all[i]->storage)
			continue;
		d = openapi_crd(all[i]);
		is_false(preserves_unknown(json_root(d)));
	}
}
