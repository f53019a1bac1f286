/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/kind_priv.h"
#include "api/openapi.h"
#include "api/schema.h"
#include "base/str.h"

/* Our kinds as CustomResourceDefinitions, for a cluster whose own API server serves them. */

static void add_rules(struct json_doc *d, struct json *schema, const struct kind_rule *rules)
{
	for (const struct kind_rule *rule = rules; rule && rule->rule; rule++) {
		struct json *at = *rule->at ? json_at_path(schema, rule->at) : schema;
		struct json *r = json_obj(d);

		json_set_str(d, r, "rule", rule->rule);
		json_set_str(d, r, "message", rule->message);
		if (rule->on_create)
			json_set_bool(d, r, "optionalOldSelf", true);
		json_push(d, json_need_arr(d, at, "x-kubernetes-validations"), r);
	}
}

static struct json *subresources_of(struct json_doc *d, const struct kind *k)
{
	struct json *subs = json_obj(d), *scale;

	if (k->flags & KIND_STATUS)
		json_set(d, subs, "status", json_obj(d));
	if (k->flags & KIND_SCALE) {
		scale = json_set(d, subs, "scale", json_obj(d));
		json_set_str(d, scale, "specReplicasPath", ".spec.replicas");
		json_set_str(d, scale, "statusReplicasPath", ".status.replicas");
		json_set_str(d, scale, "labelSelectorPath", ".status.selector");
	}
	return json_len(subs) ? subs : NULL;
}

static struct json *columns_of(struct json_doc *d, const struct kind *k)
{
	struct json *list = json_arr(d);

	if (k->columns == columns_plain)
		return NULL; /* what a CRD without columns shows anyway */
	for (const struct column *c = k->columns; c->name; c++) {
		struct json *col = json_obj(d);

		json_set_str(d, col, "name", c->name);
		json_set_str(d, col, "type", c->type);
		json_set_str(d, col, "jsonPath", c->path);
		if (c->priority)
			json_set_int(d, col, "priority", c->priority);
		json_set_str(d, col, "description", c->help);
		json_push(d, list, col);
	}
	return list;
}

struct json *openapi_crd_version(struct json_doc *d, const struct kind *k)
{
	struct json *v = json_obj(d), *schema = openapi_structural(d, k->type);

	json_set_str(d, schema, "description", k->help);
	add_rules(d, schema, k->rules);
	json_set_str(d, v, "name", k->version);
	json_set_bool(d, v, "served", true);
	json_set_bool(d, v, "storage", !k->storage);
	if (k->flags & KIND_DEPRECATED)
		json_set_bool(d, v, "deprecated", true);
	json_set(d, json_need_obj(d, v, "schema"), "openAPIV3Schema", schema);
	json_set(d, v, "subresources", subresources_of(d, k));
	json_set(d, v, "additionalPrinterColumns", columns_of(d, k));
	return v;
}

struct json_doc *openapi_crd(const struct kind *k)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *spec = json_obj(d), *names = json_obj(d);

	assert(k->type->structural && !k->type->custom && !k->storage);
	json_set_root(d, root);
	json_set_str(d, root, "apiVersion", "apiextensions.k8s.io/v1");
	json_set_str(d, root, "kind", "CustomResourceDefinition");
	json_set(d, json_need_obj(d, root, "metadata"), "name",
		 json_new_strf(d, "%s.%s", k->plural, k->group));
	json_set(d, root, "spec", spec);
	json_set_str(d, spec, "group", k->group);
	json_set(d, spec, "names", names);
	json_set_str(d, names, "kind", k->kind);
	json_set_str(d, names, "listKind", k->list_kind);
	json_set_str(d, names, "plural", k->plural);
	json_set_str(d, names, "singular", k->singular);
	for (size_t i = 0; i < ARRAY_LEN(k->short_names) && k->short_names[i]; i++)
		json_push_str(d, json_need_arr(d, names, "shortNames"), k->short_names[i]);
	json_set_str(d, spec, "scope", k->flags & KIND_NAMESPACED ? "Namespaced" : "Cluster");
	json_push(d, json_need_arr(d, spec, "versions"), openapi_crd_version(d, k));
	return d;
}
