/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "api/schema_agents_priv.h"
#include "api/schema_builtin_priv.h"

/* The kinds, one after the other. */
#define CORE           .group = "", .version = "v1", .api_version = "v1"
#define IN_GROUP(g, v) .group = (g), .version = (v), .api_version = g "/" v
#define NAMES(k, plural_, s) \
	.kind = (k), .list_kind = k "List", .plural = (plural_), .singular = (s)
#define AGENTS     "agents.x-k8s.io"
#define EXTENSIONS "extensions.agents.x-k8s.io"

const struct kind kind_namespace = {
	CORE,
	NAMES("Namespace", "namespaces", "namespace"),
	.short_names = { "ns" },
	.flags = KIND_STATUS,
	.type = &type_core_namespace,
	.columns = columns_namespace,
	.validate = validate_namespace,
	.complete = complete_namespace,
	.help = "A space of names",
};

const struct kind kind_pod = {
	CORE,
	NAMES("Pod", "pods", "pod"),
	.short_names = { "po" },
	.categories = { "all" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION,
	.type = &type_core_pod,
	.columns = columns_pod,
	.validate = validate_pod,
	.complete = complete_pod,
	.help = "Containers that run together on a node",
};

const struct kind kind_service = {
	CORE,
	NAMES("Service", "services", "service"),
	.short_names = { "svc" },
	.categories = { "all" },
	.flags = KIND_NAMESPACED | KIND_STATUS,
	.type = &type_core_service,
	.columns = columns_service,
	.validate = validate_service,
	.complete = complete_service,
	.help = "A name for the Pods that a selector finds",
};

const struct kind kind_persistent_volume_claim = {
	CORE,
	NAMES("PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim"),
	.short_names = { "pvc" },
	.flags = KIND_NAMESPACED | KIND_STATUS,
	.type = &type_core_persistent_volume_claim,
	.columns = columns_persistent_volume_claim,
	.validate = validate_persistent_volume_claim,
	.complete = complete_persistent_volume_claim,
	.help = "A volume that outlives Pods",
};

const struct kind kind_secret = {
	CORE,
	NAMES("Secret", "secrets", "secret"),
	.flags = KIND_NAMESPACED,
	.type = &type_core_secret,
	.columns = columns_secret,
	.validate = validate_secret,
	.complete = complete_secret,
	.help = "Bytes that are not shown",
};

const struct kind kind_config_map = {
	CORE,
	NAMES("ConfigMap", "configmaps", "configmap"),
	.short_names = { "cm" },
	.flags = KIND_NAMESPACED,
	.type = &type_core_config_map,
	.columns = columns_config_map,
	.validate = validate_config_map,
	.help = "Configuration for Pods",
};

const struct kind kind_service_account = {
	CORE,
	NAMES("ServiceAccount", "serviceaccounts", "serviceaccount"),
	.short_names = { "sa" },
	.flags = KIND_NAMESPACED,
	.type = &type_core_service_account,
	.columns = columns_service_account,
	.help = "An identity for programs",
};

const struct kind kind_event = {
	CORE,
	NAMES("Event", "events", "event"),
	.short_names = { "ev" },
	.flags = KIND_NAMESPACED,
	.type = &type_core_event,
	.columns = columns_event,
	.validate = validate_event,
	.help = "Something that happened to an object",
};

const struct kind kind_node = {
	CORE,
	NAMES("Node", "nodes", "node"),
	.short_names = { "no" },
	.flags = KIND_STATUS,
	.type = &type_core_node,
	.columns = columns_node,
	.help = "A machine that runs Pods",
};

const struct kind kind_endpoint_slice = {
	IN_GROUP("discovery.k8s.io", "v1"),
	NAMES("EndpointSlice", "endpointslices", "endpointslice"),
	.flags = KIND_NAMESPACED | KIND_GENERATION,
	.type = &type_discovery_endpoint_slice,
	.columns = columns_endpoint_slice,
	.validate = validate_endpoint_slice,
	.complete = complete_endpoint_slice,
	.help = "Addresses behind a Service",
};

const struct kind kind_network_policy = {
	IN_GROUP("networking.k8s.io", "v1"),
	NAMES("NetworkPolicy", "networkpolicies", "networkpolicy"),
	.short_names = { "netpol" },
	.flags = KIND_NAMESPACED | KIND_GENERATION,
	.type = &type_networking_network_policy,
	.columns = columns_network_policy,
	.validate = validate_network_policy,
	.complete = complete_network_policy,
	.help = "Who may talk to whom",
};

const struct kind kind_lease = {
	IN_GROUP("coordination.k8s.io", "v1"),
	NAMES("Lease", "leases", "lease"),
	.flags = KIND_NAMESPACED,
	.type = &type_coordination_lease,
	.columns = columns_lease,
	.validate = validate_lease,
	.help = "Who leads, until when",
};

const struct kind kind_events_event = {
	IN_GROUP("events.k8s.io", "v1"),
	NAMES("Event", "events", "event"),
	.short_names = { "ev" },
	.flags = KIND_NAMESPACED,
	.type = &type_events_event,
	.columns = columns_event,
	.storage = &kind_event,
	.to_storage = convert_event_to_core,
	.from_storage = convert_event_from_core,
	.help = "Something that happened to an object",
};

const struct kind kind_sandbox = {
	IN_GROUP(AGENTS, "v1beta1"),
	NAMES("Sandbox", "sandboxes", "sandbox"),
	.short_names = { "sandbox" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION | KIND_CRD,
	.type = &type_sandbox,
	.columns = columns_sandbox,
	.validate = validate_sandbox,
	.help = "An isolated, stateful, singleton environment with a stable name",
};

const struct kind kind_sandbox_v1alpha1 = {
	IN_GROUP(AGENTS, "v1alpha1"),
	NAMES("Sandbox", "sandboxes", "sandbox"),
	.short_names = { "sandbox" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_SCALE | KIND_GENERATION | KIND_DEPRECATED |
		 KIND_CRD,
	.type = &type_sandbox_v1alpha1,
	.columns = columns_plain,
	.storage = &kind_sandbox,
	.to_storage = convert_sandbox_to_v1beta1,
	.from_storage = convert_sandbox_to_v1alpha1,
	.validate = validate_sandbox_name,
	.help = "An isolated, stateful, singleton environment with a stable name",
};

const struct kind kind_sandbox_template = {
	IN_GROUP(EXTENSIONS, "v1beta1"),
	NAMES("SandboxTemplate", "sandboxtemplates", "sandboxtemplate"),
	.short_names = { "sandboxtemplate" },
	.flags = KIND_NAMESPACED | KIND_GENERATION | KIND_CRD,
	.type = &type_sandbox_template,
	.columns = columns_plain,
	.help = "What sandboxes of a pool look like",
};

const struct kind kind_sandbox_claim = {
	IN_GROUP(EXTENSIONS, "v1beta1"),
	NAMES("SandboxClaim", "sandboxclaims", "sandboxclaim"),
	.short_names = { "sandboxclaim" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION | KIND_CRD,
	.type = &type_sandbox_claim,
	.columns = columns_sandbox_claim,
	.help = "A wish for a sandbox, warm from a pool when there is one",
};

const struct kind kind_sandbox_warm_pool = {
	IN_GROUP(EXTENSIONS, "v1beta1"),
	NAMES("SandboxWarmPool", "sandboxwarmpools", "sandboxwarmpool"),
	.short_names = { "swp" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_SCALE | KIND_GENERATION | KIND_CRD,
	.type = &type_sandbox_warm_pool,
	.columns = columns_sandbox_warm_pool,
	.help = "Sandboxes that are ready before they are asked for",
};
