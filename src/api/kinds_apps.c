/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apps.h"
#include "api/kind_priv.h"
#include "api/schema_builtin_priv.h"
#include "api/selector.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

/*
 * Deployments and ReplicaSets as constant descriptions, with the columns of `kubectl get`.
 */
#define APPS .group = "apps", .version = "v1", .api_version = API_APPS
#define AGE  { "Age", "date", ".metadata.creationTimestamp", "Time since the object was created" }

static struct json *number(struct json_doc *d, const struct json *obj, const char *path)
{
	return json_new_int(d, json_int(json_at_path(obj, path), 0));
}

static struct json *deployment_ready(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_strf(d, "%lld/%lld",
			     (long long)json_int(json_at_path(obj, "status.readyReplicas"), 0),
			     (long long)json_int(json_at_path(obj, "spec.replicas"), 0));
}

static struct json *updated(struct json_doc *d, const struct json *obj, unused usec now)
{
	return number(d, obj, "status.updatedReplicas");
}

static struct json *available(struct json_doc *d, const struct json *obj, unused usec now)
{
	return number(d, obj, "status.availableReplicas");
}

static struct json *desired(struct json_doc *d, const struct json *obj, unused usec now)
{
	return number(d, obj, "spec.replicas");
}

static struct json *current(struct json_doc *d, const struct json *obj, unused usec now)
{
	return number(d, obj, "status.replicas");
}

static struct json *ready(struct json_doc *d, const struct json *obj, unused usec now)
{
	return number(d, obj, "status.readyReplicas");
}

static struct json *of_containers(struct json_doc *d, const struct json *obj, const char *member)
{
	autobuf out = { 0 };

	json_each(it, json_at_path(obj, "spec.template.spec.containers"))
		buf_printf(&out, "%s%s", out.len ? "," : "",
			   str_or(json_get_str(it.val, member), ""));
	return json_new_str(d, buf_str(&out));
}

static struct json *containers(struct json_doc *d, const struct json *obj, unused usec now)
{
	return of_containers(d, obj, "name");
}

static struct json *images(struct json_doc *d, const struct json *obj, unused usec now)
{
	return of_containers(d, obj, "image");
}

static struct json *selects(struct json_doc *d, const struct json *obj, unused usec now)
{
	autobuf out = { 0 };

	label_selector_text(json_at_path(obj, "spec.selector"), &out);
	return json_new_str(d, buf_str(&out));
}

#define WIDE                                                                                         \
	{                                                                                            \
		"Containers", "string", NULL, "Names of the containers of the template", 1,          \
		containers                                                                           \
	},                                                                                           \
		{ "Images", "string", NULL, "Images of the containers of the template", 1, images }, \
	{                                                                                            \
		"Selector", "string", NULL, "Pods that belong to it", 1, selects                     \
	}

static const struct column columns_deployment[] = {
	{ "Ready", "string", NULL, "Number of Pods that are ready, out of all", 0,
	  deployment_ready },
	{ "Up-to-date", "string", NULL, "Number of Pods with the template as it is now", 0,
	  updated },
	{ "Available", "string", NULL, "Number of Pods that have been ready for long enough", 0,
	  available },
	AGE,
	WIDE,
	{ 0 },
};

static const struct column columns_replica_set[] = {
	{ "Desired", "integer", NULL, "Number of Pods that there should be", 0, desired },
	{ "Current", "integer", NULL, "Number of Pods that there are", 0, current },
	{ "Ready", "integer", NULL, "Number of Pods that are ready", 0, ready },
	AGE,
	WIDE,
	{ 0 },
};

static const struct kind_scale scale = { "spec.replicas", "status.replicas", "spec.selector" };
static const struct selectable replica_set_fields[] = {
	{ "status.replicas", "status.replicas" },
	{ 0 },
};

const struct kind kind_deployment = {
	APPS,
	.kind = "Deployment",
	.list_kind = "DeploymentList",
	.plural = "deployments",
	.singular = "deployment",
	.short_names = { "deploy" },
	.categories = { "all" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_SCALE | KIND_GENERATION,
	.type = &type_apps_deployment,
	.columns = columns_deployment,
	.scale = &scale,
	.pod_template = "template",
	.defaults = defaults_deployment,
	.validate = validate_deployment,
	.help = "Deployment keeps a number of equal Pods running and replaces them when their template changes.",
};

const struct kind kind_replica_set = {
	APPS,
	.kind = "ReplicaSet",
	.list_kind = "ReplicaSetList",
	.plural = "replicasets",
	.singular = "replicaset",
	.short_names = { "rs" },
	.categories = { "all" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_SCALE | KIND_GENERATION,
	.type = &type_apps_replica_set,
	.columns = columns_replica_set,
	.selectable = replica_set_fields,
	.scale = &scale,
	.pod_template = "template",
	.defaults = defaults_replica_set,
	.validate = validate_replica_set,
	.help = "ReplicaSet keeps a number of equal Pods running.",
};
