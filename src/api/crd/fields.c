/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/crd_priv.h"
#include "api/kind_priv.h"
#include "api/schema_builtin_priv.h"

/*
 * apiextensions.k8s.io/v1: the fields of a CustomResourceDefinition. A schema contains schemas, so
 * its type refers to itself; how deep one is nested is limited like any body (DECODE_DEPTH_MAX).
 */
#define NAME(n)    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1." n
#define LIST_OF(t) { TYPE_LIST, .elem = &(t) }
#define MAP_OF(t)  { TYPE_MAP, .elem = &(t) }
#define PTR        (FIELD_POINTER | FIELD_OMITEMPTY)
#define OMIT       FIELD_OMITEMPTY
#define NEED       FIELD_REQUIRED

static const struct type schema, schema_or_bool;
static const struct type schema_list = LIST_OF(schema), schema_map = MAP_OF(schema);
static const struct type any_list = LIST_OF(type_any), any_map = MAP_OF(type_any);

static const struct field rule_fields[] = {
	{ "fieldPath", &type_string, OMIT },
	{ "message", &type_string, OMIT, NULL, "What a violation is reported with" },
	{ "messageExpression", &type_string, OMIT },
	{ "optionalOldSelf", &type_bool, PTR },
	{ "reason", &type_string, PTR },
	{ "rule", &type_string, NEED, NULL, "An expression in CEL" },
	{ 0 },
};
static const struct type rule = { TYPE_OBJECT, NAME("ValidationRule"), rule_fields };
static const struct type rule_list = { TYPE_LIST, .elem = &rule, .list = LIST_MAP,
				       .merge_keys = { "rule" }, .patch_key = "rule" };

static const struct field docs_fields[] = {
	{ "description", &type_string, OMIT },
	{ "url", &type_string, OMIT },
	{ 0 },
};
static const struct type docs = { TYPE_OBJECT, NAME("ExternalDocumentation"), docs_fields };

static const struct field schema_fields[] = {
	{ "$ref", &type_string, PTR },
	{ "$schema", &type_string, OMIT },
	{ "additionalItems", &schema_or_bool, PTR },
	{ "additionalProperties", &schema_or_bool, PTR },
	{ "allOf", &schema_list, OMIT },
	{ "anyOf", &schema_list, OMIT },
	{ "default", &type_any, PTR },
	{ "definitions", &schema_map, OMIT },
	{ "dependencies", &any_map, OMIT },
	{ "description", &type_string, OMIT },
	{ "enum", &any_list, OMIT },
	{ "example", &type_any, PTR },
	{ "exclusiveMaximum", &type_bool, OMIT },
	{ "exclusiveMinimum", &type_bool, OMIT },
	{ "externalDocs", &docs, PTR },
	{ "format", &type_string, OMIT },
	{ "id", &type_string, OMIT },
	{ "items", &schema, PTR },
	{ "maxItems", &type_int64, PTR },
	{ "maxLength", &type_int64, PTR },
	{ "maxProperties", &type_int64, PTR },
	{ "maximum", &type_number, PTR },
	{ "minItems", &type_int64, PTR },
	{ "minLength", &type_int64, PTR },
	{ "minProperties", &type_int64, PTR },
	{ "minimum", &type_number, PTR },
	{ "multipleOf", &type_number, PTR },
	{ "not", &schema, PTR },
	{ "nullable", &type_bool, OMIT },
	{ "oneOf", &schema_list, OMIT },
	{ "pattern", &type_string, OMIT },
	{ "patternProperties", &schema_map, OMIT },
	{ "properties", &schema_map, OMIT },
	{ "required", &type_string_list, OMIT },
	{ "title", &type_string, OMIT },
	{ "type", &type_string, OMIT },
	{ "uniqueItems", &type_bool, OMIT },
	{ "x-kubernetes-embedded-resource", &type_bool, OMIT },
	{ "x-kubernetes-int-or-string", &type_bool, OMIT },
	{ "x-kubernetes-list-map-keys", &type_string_list, OMIT },
	{ "x-kubernetes-list-type", &type_string, PTR },
	{ "x-kubernetes-map-type", &type_string, PTR },
	{ "x-kubernetes-preserve-unknown-fields", &type_bool, PTR },
	{ "x-kubernetes-validations", &rule_list, OMIT },
	{ 0 },
};
static const struct type schema = { TYPE_OBJECT, NAME("JSONSchemaProps"), schema_fields };
static const struct type schema_or_bool = { TYPE_OBJECT, NAME("JSONSchemaProps"), schema_fields,
					    .or_bool = true };

static const struct field validation_fields[] = {
	{ "openAPIV3Schema", &schema, PTR, NULL, "The structural schema of objects" },
	{ 0 },
};
static const struct type validation = { TYPE_OBJECT, NAME("CustomResourceValidation"),
					validation_fields };

static const struct field no_fields[] = { { 0 } };
static const struct type sub_status = { TYPE_OBJECT, NAME("CustomResourceSubresourceStatus"),
					no_fields };
static const struct field scale_fields[] = {
	{ "labelSelectorPath", &type_string, PTR },
	{ "specReplicasPath", &type_string, NEED },
	{ "statusReplicasPath", &type_string, NEED },
	{ 0 },
};
static const struct type sub_scale = { TYPE_OBJECT, NAME("CustomResourceSubresourceScale"),
				       scale_fields };
static const struct field subresources_fields[] = {
	{ "scale", &sub_scale, PTR, NULL, "Where replicas and selector are" },
	{ "status", &sub_status, PTR, NULL, "Set: there is a /status of its own" },
	{ 0 },
};
static const struct type subresources = { TYPE_OBJECT, NAME("CustomResourceSubresources"),
					  subresources_fields };

static const struct field column_fields[] = {
	{ "description", &type_string, OMIT },
	{ "format", &type_string, OMIT },
	{ "jsonPath", &type_string, NEED },
	{ "name", &type_string, NEED },
	{ "priority", &type_int32, OMIT },
	{ "type", &type_string, NEED },
	{ 0 },
};
static const struct type column = { TYPE_OBJECT, NAME("CustomResourceColumnDefinition"),
				    column_fields };
static const struct type column_list = LIST_OF(column);

static const struct field selectable_fields[] = { { "jsonPath", &type_string, NEED }, { 0 } };
static const struct type selectable = { TYPE_OBJECT, NAME("SelectableField"), selectable_fields };
static const struct type selectable_list = LIST_OF(selectable);

static const struct field version_fields[] = {
	{ "additionalPrinterColumns", &column_list, OMIT, NULL, "What kubectl get shows" },
	{ "deprecated", &type_bool, OMIT },
	{ "deprecationWarning", &type_string, PTR },
	{ "name", &type_string, NEED, NULL, "v1, v2beta1" },
	{ "schema", &validation, PTR },
	{ "selectableFields", &selectable_list, OMIT, NULL, "What a fieldSelector may name" },
	{ "served", &type_bool, NEED, NULL, "Whether there is a path for it" },
	{ "storage", &type_bool, NEED, NULL, "Whether objects are stored as it; of one version" },
	{ "subresources", &subresources, PTR },
	{ 0 },
};
static const struct type version = { TYPE_OBJECT, NAME("CustomResourceDefinitionVersion"),
				     version_fields };
static const struct type version_list = LIST_OF(version);

static const struct field service_fields[] = {
	{ "name", &type_string, NEED },
	{ "namespace", &type_string, NEED },
	{ "path", &type_string, PTR },
	{ "port", &type_int32, PTR },
	{ 0 },
};
static const struct type service = { TYPE_OBJECT, NAME("ServiceReference"), service_fields };
static const struct field client_fields[] = {
	{ "caBundle", &type_bytes, OMIT },
	{ "service", &service, PTR },
	{ "url", &type_string, PTR },
	{ 0 },
};
static const struct type webhook_client = { TYPE_OBJECT, NAME("WebhookClientConfig"),
					    client_fields };
static const struct field webhook_fields[] = {
	{ "clientConfig", &webhook_client, PTR },
	{ "conversionReviewVersions", &type_string_list, 0 },
	{ 0 },
};
static const struct type webhook = { TYPE_OBJECT, NAME("WebhookConversion"), webhook_fields };
static const struct field conversion_fields[] = {
	{ "strategy", &type_string, NEED, NULL, "None: only apiVersion is changed" },
	{ "webhook", &webhook, PTR },
	{ 0 },
};
static const struct type conversion = { TYPE_OBJECT, NAME("CustomResourceConversion"),
					conversion_fields };

static const struct field names_fields[] = {
	{ "categories", &type_string_list, OMIT },
	{ "kind", &type_string, NEED },
	{ "listKind", &type_string, OMIT },
	{ "plural", &type_string, NEED },
	{ "shortNames", &type_string_list, OMIT },
	{ "singular", &type_string, OMIT },
	{ 0 },
};
static const struct type names = { TYPE_OBJECT, NAME("CustomResourceDefinitionNames"),
				   names_fields };

static const struct field spec_fields[] = {
	{ "conversion", &conversion, PTR },
	{ "group", &type_string, NEED },
	{ "names", &names, NEED },
	{ "preserveUnknownFields", &type_bool, OMIT },
	{ "scope", &type_string, NEED, NULL, "Namespaced or Cluster" },
	{ "versions", &version_list, NEED },
	{ 0 },
};
static const struct type spec = { TYPE_OBJECT, NAME("CustomResourceDefinitionSpec"), spec_fields };

static const struct field condition_fields[] = {
	{ "lastTransitionTime", &type_time, OMIT },
	{ "message", &type_string, OMIT },
	{ "observedGeneration", &type_int64, OMIT },
	{ "reason", &type_string, OMIT },
	{ "status", &type_string, NEED },
	{ "type", &type_string, NEED },
	{ 0 },
};
static const struct type condition = { TYPE_OBJECT, NAME("CustomResourceDefinitionCondition"),
				       condition_fields };
static const struct type condition_list = { TYPE_LIST, .elem = &condition, .list = LIST_MAP,
					    .merge_keys = { "type" } };
static const struct field status_fields[] = {
	{ "acceptedNames", &names, 0, NULL, "The names in use; spec may ask for others" },
	{ "conditions", &condition_list, 0 },
	{ "observedGeneration", &type_int64, OMIT },
	{ "storedVersions", &type_string_list, 0, NULL, "Versions that objects may be stored as" },
	{ 0 },
};
static const struct type status = { TYPE_OBJECT, NAME("CustomResourceDefinitionStatus"),
				    status_fields };

static const struct field crd_fields[] = {
	{ "apiVersion", &type_string, OMIT, .embed = "TypeMeta" },
	{ "kind", &type_string, OMIT, .embed = "TypeMeta" },
	{ "metadata", &type_meta_object_meta, OMIT, .embed = "ObjectMeta" },
	{ "spec", &spec, NEED, NULL, "The kind that is wanted" },
	{ "status", &status, OMIT, NULL, "Whether it is served" },
	{ 0 },
};
const struct type type_crd = { TYPE_OBJECT, NAME("CustomResourceDefinition"), crd_fields };

/* What every custom resource has, whatever its schema says. */
const struct field custom_fields[] = {
	{ "apiVersion", &type_string, 0 },
	{ "kind", &type_string, 0 },
	{ "metadata", &type_meta_object_meta, 0 },
	{ 0 },
};
