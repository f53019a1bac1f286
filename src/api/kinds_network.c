/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kinds_priv.h"
#include "api/schema_builtin_priv.h"
#include "api/service.h"

/*
 * Kinds of networking.k8s.io. Ingresses and their classes are kept for whoever acts on them:
 * nothing here does. The other two show what Services have of the server
 * (server/admit/addresses.c).
 */
static const char *const service_cidrs_kept[] = { SERVICE_CIDR_NAME, NULL };

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

const struct kind kind_ip_address = {
	IN_GROUP("networking.k8s.io", "v1"),
	NAMES("IPAddress", "ipaddresses", "ipaddress"),
	.short_names = { "ip" },
	.flags = KIND_OWN_NAMES,
	.type = &type_networking_ip_address,
	.columns = columns_ip_address,
	.validate = validate_ip_address,
	.help = "IPAddress records who has an address: a Service, or whoever it is kept for.",
};

const struct kind kind_service_cidr = {
	IN_GROUP("networking.k8s.io", "v1"),
	NAMES("ServiceCIDR", "servicecidrs", "servicecidr"),
	.flags = KIND_STATUS,
	.type = &type_networking_service_cidr,
	.columns = columns_service_cidr,
	.validate = validate_service_cidr,
	.forbid_create = forbid_create_service_cidr,
	.forbid_update = forbid_update_service_cidr,
	.kept = service_cidrs_kept,
	.kept_why = SERVICE_CIDR_FIXED,
	.help = "ServiceCIDR shows the blocks that Services get their addresses from.",
};
