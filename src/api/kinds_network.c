/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kinds_priv.h"
#include "api/schema_builtin_priv.h"

/* The kinds of networking.k8s.io that are kept for whoever acts on them: nothing here does. */

const struct kind kind_ingress = {
	IN_GROUP("networking.k8s.io", "v1"),
	NAMES("Ingress", "ingresses", "ingress"),
	.short_names = { "ing" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION,
	.type = &type_networking_ingress,
	.columns = columns_ingress,
	.defaults = defaults_ingress,
	.validate = validate_ingress,
	.validate_status = validate_ingress_status,
	.warn = warn_ingress,
	.help = "Ingress describes how requests from outside are led to Services, by host and path.",
};

const struct kind kind_ingress_class = {
	IN_GROUP("networking.k8s.io", "v1"),
	NAMES("IngressClass", "ingressclasses", "ingressclass"),
	.flags = KIND_GENERATION,
	.type = &type_networking_ingress_class,
	.columns = columns_ingress_class,
	.defaults = defaults_ingress_class,
	.validate = validate_ingress_class,
	.help = "IngressClass names a controller that acts on Ingresses.",
};
