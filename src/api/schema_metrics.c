/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schema_builtin_priv.h"
#include "api/schema_metrics_priv.h"

/* metrics.k8s.io/v1beta1, which is not part of the Kubernetes API's own definitions. */
#define METRICS "io.k8s.metrics.pkg.apis.metrics.v1beta1."
#define HEAD                                                                                  \
	{ "apiVersion", &type_string, 0, NULL, "Version of the schema" },                     \
		{ "kind", &type_string, 0, NULL, "What it is" },                              \
		{ "metadata", &type_meta_object_meta, 0, NULL, "Whose usage it is", 1 },      \
		{ "timestamp", &type_time, FIELD_REQUIRED, NULL, "When it was measured", 2 }, \
		{ "window", &type_duration, FIELD_REQUIRED, NULL, "Of which time cpu is the mean", 3 }

/* Of both kinds: all but the first two fields, in their order. */
static const unsigned char numbers[] = { 2, 3, 4, 5, FIELDS_END };

static const struct type quantities = { TYPE_MAP, .elem = &type_quantity };

static const struct field container_fields[] = {
	{ "name", &type_string, FIELD_REQUIRED, NULL, "Name of the container", 1 },
	{ "usage", &quantities, FIELD_REQUIRED, NULL,
	  "cpu and memory now, and what it has used since the start of its Pod", 2 },
	{ 0 },
};
static const unsigned char container_numbers[] = { 0, 1, FIELDS_END };
static const struct type container = { TYPE_OBJECT, METRICS "ContainerMetrics", container_fields,
				       .by_number = container_numbers };
static const struct type containers = { TYPE_LIST, .elem = &container };

static const struct field pod_fields[] = {
	HEAD,
	{ "containers", &containers, FIELD_REQUIRED, NULL, "Those that run and were measured", 4 },
	{ 0 },
};
const struct type type_pod_metrics = { TYPE_OBJECT, METRICS "PodMetrics", pod_fields,
				       .by_number = numbers };

static const struct field node_fields[] = {
	HEAD,
	{ "usage", &quantities, FIELD_REQUIRED, NULL, "cpu and memory of the whole machine", 4 },
	{ 0 },
};
const struct type type_node_metrics = { TYPE_OBJECT, METRICS "NodeMetrics", node_fields,
					.by_number = numbers };
