/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/kinds_priv.h"
#include "api/crd/crd.h"
#include "api/kinds_priv.h"
#include "api/rbac.h"
#include "api/schema_builtin_priv.h"
#include "api/schema_gateway_priv.h"
#include "api/schema_metrics_priv.h"

/* The built-in kinds, one after the other, as constant descriptions; kinds_agents.c has those of
 * agents, cay/kinds.c those of cay.dev. */
static const char *const namespace_subresources[] = { "finalize", NULL };
static const char *const namespaces_kept[] = { "default", "kube-system", NULL };
static const char *const pod_subresources[] = { "log",         "exec",   "attach",
						"portforward", "resize", "ephemeralcontainers",
						"eviction",    "proxy",  NULL };
static const char *const service_subresources[] = { "proxy", NULL };
static const struct kind_part pod_parts[] = {
	{ "resize", apply_pod_resize, validate_pod_resize },
	{ "ephemeralcontainers", apply_pod_ephemeral, validate_pod_ephemeral },
	{ 0 },
};
static const char *const priority_classes_kept[] = { "system-cluster-critical",
						     "system-node-critical", NULL };
static const char *const service_account_subresources[] = { "token", NULL };

/* The fields that Kubernetes lets selectors name. */
#define SAME(path) { path, path }

static const struct selectable namespace_fields[] = { SAME("status.phase"), { 0 } };
static const struct selectable pod_fields[] = {
	SAME("spec.nodeName"),
	SAME("spec.restartPolicy"),
	SAME("spec.schedulerName"),
	SAME("spec.serviceAccountName"),
	SAME("spec.hostNetwork"),
	SAME("status.phase"),
	SAME("status.podIP"),
	SAME("status.nominatedNodeName"),
	{ 0 },
};
static const struct selectable service_fields[] = { SAME("spec.clusterIP"),
						    SAME("spec.type"),
						    { 0 } };
static const struct selectable secret_fields[] = { SAME("type"), { 0 } };
static const struct selectable node_fields[] = { SAME("spec.unschedulable"), { 0 } };
static const struct selectable event_fields[] = {
	SAME("involvedObject.kind"),
	SAME("involvedObject.namespace"),
	SAME("involvedObject.name"),
	SAME("involvedObject.uid"),
	SAME("involvedObject.apiVersion"),
	SAME("involvedObject.resourceVersion"),
	SAME("involvedObject.fieldPath"),
	SAME("reason"),
	SAME("reportingComponent"),
	{ "source", "source.component" },
	SAME("type"),
	{ 0 },
};
static const struct selectable events_event_fields[] = {
	{ "regarding.kind", "involvedObject.kind" },
	{ "regarding.namespace", "involvedObject.namespace" },
	{ "regarding.name", "involvedObject.name" },
	{ "regarding.uid", "involvedObject.uid" },
	{ "regarding.apiVersion", "involvedObject.apiVersion" },
	{ "regarding.resourceVersion", "involvedObject.resourceVersion" },
	{ "regarding.fieldPath", "involvedObject.fieldPath" },
	{ "reportingController", "reportingComponent" },
	SAME("reason"),
	SAME("type"),
	{ 0 },
};

static const struct kind namespace = {
	CORE,
	NAMES("Namespace", "namespaces", "namespace"),
	.short_names = { "ns" },
	.flags = KIND_STATUS | KIND_CONTENTS | KIND_LABEL_NAMES,
	.type = &type_core_namespace,
	.columns = columns_namespace,
	.validate = validate_namespace,
	.defaults = defaults_namespace,
	.subresources = namespace_subresources,
	.selectable = namespace_fields,
	.kept = namespaces_kept,
	.prepare_create = prepare_create_namespace,
	.prepare_update = prepare_update_namespace,
	.prepare_delete = prepare_delete_namespace,
	.help = "Namespace provides a scope for names: names of objects are unique within one.",
};

static const struct kind pod = {
	CORE,
	NAMES("Pod", "pods", "pod"),
	.short_names = { "po" },
	.categories = { "all" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION | KIND_SHOW_DELETED,
	.type = &type_core_pod,
	.columns = columns_pod,
	.validate = validate_pod,
	.defaults = defaults_pod,
	.subresources = pod_subresources,
	.parts = pod_parts,
	.selectable = pod_fields,
	.prepare_create = prepare_create_pod,
	.prepare_update = prepare_update_pod,
	.validate_status = validate_pod_status,
	.grace = grace_pod,
	.help = "Pod is a group of containers that run together on one node.",
};

static const struct kind service = {
	CORE,
	NAMES("Service", "services", "service"),
	.short_names = { "svc" },
	.categories = { "all" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_SHOW_DELETED | KIND_ADDRESSES |
		 KIND_LABEL_NAMES | KIND_PUT_CREATES,
	.type = &type_core_service,
	.subresources = service_subresources,
	.columns = columns_service,
	.validate = validate_service,
	.validate_status = validate_service_status,
	.warn = warn_service,
	.defaults = defaults_service,
	.selectable = service_fields,
	.help = "Service gives a set of Pods, chosen by a selector, a stable name and address.",
};

static const struct kind persistent_volume_claim = {
	CORE,
	NAMES("PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim"),
	.short_names = { "pvc" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_SHOW_DELETED,
	.type = &type_core_persistent_volume_claim,
	.columns = columns_persistent_volume_claim,
	.validate = validate_persistent_volume_claim,
	.defaults = defaults_persistent_volume_claim,
	.prepare_create = prepare_create_persistent_volume_claim,
	.forbid_update = forbid_update_persistent_volume_claim,
	.help = "PersistentVolumeClaim is a request for storage that outlives the Pods that use it.",
};

static const struct kind persistent_volume = {
	CORE,
	NAMES("PersistentVolume", "persistentvolumes", "persistentvolume"),
	.short_names = { "pv" },
	.flags = KIND_STATUS | KIND_SHOW_DELETED,
	.type = &type_core_persistent_volume,
	.columns = columns_persistent_volume,
	.validate = validate_persistent_volume,
	.defaults = defaults_persistent_volume,
	.prepare_create = prepare_create_persistent_volume,
	.help = "PersistentVolume is a piece of storage that a PersistentVolumeClaim can be bound to.",
};

static const struct kind storage_class = {
	IN_GROUP("storage.k8s.io", "v1"),
	NAMES("StorageClass", "storageclasses", "storageclass"),
	.short_names = { "sc" },
	.flags = KIND_SHOW_DELETED,
	.type = &type_storage_storage_class,
	.columns = columns_storage_class,
	.validate = validate_storage_class,
	.defaults = defaults_storage_class,
	.help = "StorageClass describes how volumes are made for the claims that name it.",
};

static const struct kind secret = {
	CORE,
	NAMES("Secret", "secrets", "secret"),
	.flags = KIND_NAMESPACED,
	.type = &type_core_secret,
	.columns = columns_secret,
	.validate = validate_secret,
	.defaults = defaults_secret,
	.selectable = secret_fields,
	.help = "Secret holds confidential data, such as passwords, tokens and keys.",
};

static const struct kind config_map = {
	CORE,
	NAMES("ConfigMap", "configmaps", "configmap"),
	.short_names = { "cm" },
	.flags = KIND_NAMESPACED,
	.type = &type_core_config_map,
	.columns = columns_config_map,
	.validate = validate_config_map,
	.help = "ConfigMap holds configuration data for Pods to consume.",
};

static const struct kind service_account = {
	CORE,
	NAMES("ServiceAccount", "serviceaccounts", "serviceaccount"),
	.short_names = { "sa" },
	.flags = KIND_NAMESPACED | KIND_SHOW_DELETED,
	.type = &type_core_service_account,
	.columns = columns_service_account,
	.subresources = service_account_subresources,
	.help = "ServiceAccount is an identity for processes that run in Pods.",
};

static const struct kind event = {
	CORE,
	NAMES("Event", "events", "event"),
	.short_names = { "ev" },
	.flags = KIND_NAMESPACED | KIND_SELDOM | KIND_PATH_NAMES | KIND_PUT_CREATES,
	.type = &type_core_event,
	.columns = columns_event,
	.defaults = defaults_event,
	.validate = validate_event,
	.selectable = event_fields,
	.help = "Event is a report of something that happened to an object.",
};

static const struct kind node = {
	CORE,
	NAMES("Node", "nodes", "node"),
	.short_names = { "no" },
	.flags = KIND_STATUS | KIND_OWN_STATUS,
	.type = &type_core_node,
	.columns = columns_node,
	.validate = validate_node,
	.defaults = defaults_node,
	.selectable = node_fields,
	.help = "Node is a machine that runs Pods.",
};

static const struct kind endpoint_slice = {
	IN_GROUP("discovery.k8s.io", "v1"),
	NAMES("EndpointSlice", "endpointslices", "endpointslice"),
	.flags = KIND_NAMESPACED | KIND_GENERATION,
	.type = &type_discovery_endpoint_slice,
	.columns = columns_endpoint_slice,
	.validate = validate_endpoint_slice,
	.warn = warn_endpoint_slice,
	.defaults = defaults_endpoint_slice,
	.help = "EndpointSlice lists some of the endpoints that implement a Service.",
};

static const struct kind endpoints = {
	CORE,
	NAMES("Endpoints", "endpoints", "endpoints"),
	.short_names = { "ep" },
	.flags = KIND_NAMESPACED | KIND_DEPRECATED | KIND_PUT_CREATES,
	.deprecation =
		"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
	.type = &type_core_endpoints,
	.columns = columns_endpoints,
	.defaults = defaults_endpoints,
	.validate = validate_endpoints,
	.help = "Endpoints lists all endpoints of a Service: the older kind, of which EndpointSlices took the place.",
};

static const struct kind network_policy = {
	IN_GROUP("networking.k8s.io", "v1"),
	NAMES("NetworkPolicy", "networkpolicies", "networkpolicy"),
	.short_names = { "netpol" },
	.flags = KIND_NAMESPACED | KIND_GENERATION,
	.type = &type_networking_network_policy,
	.columns = columns_network_policy,
	.validate = validate_network_policy,
	.defaults = defaults_network_policy,
	.help = "NetworkPolicy describes which traffic is allowed for a set of Pods.",
};

static const struct kind lease = {
	IN_GROUP("coordination.k8s.io", "v1"),
	NAMES("Lease", "leases", "lease"),
	.flags = KIND_NAMESPACED | KIND_URGENT | KIND_PUT_CREATES | KIND_CONDITIONAL,
	.type = &type_coordination_lease,
	.columns = columns_lease,
	.defaults = defaults_lease,
	.validate = validate_lease,
	.help = "Lease records who holds a lock, such as the leader of an election, and until when.",
};

static const struct kind runtime_class = {
	IN_GROUP("node.k8s.io", "v1"),
	NAMES("RuntimeClass", "runtimeclasses", "runtimeclass"),
	.flags = KIND_PUT_CREATES | KIND_CONDITIONAL,
	.type = &type_node_runtime_class,
	.columns = columns_runtime_class,
	.validate = validate_runtime_class,
	.help = "RuntimeClass names one of the runtimes that can run the containers of a Pod.",
};

static const struct kind resource_quota = {
	CORE,
	NAMES("ResourceQuota", "resourcequotas", "resourcequota"),
	.short_names = { "quota" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_SHOW_DELETED,
	.type = &type_core_resource_quota,
	.columns = columns_resource_quota,
	.defaults = defaults_resource_quota,
	.validate = validate_resource_quota,
	.help = "ResourceQuota says how much all objects of its namespace together may use.",
};

static const struct kind limit_range = {
	CORE,
	NAMES("LimitRange", "limitranges", "limitrange"),
	.short_names = { "limits" },
	.flags = KIND_NAMESPACED,
	.type = &type_core_limit_range,
	.columns = columns_limit_range,
	.defaults = defaults_limit_range,
	.validate = validate_limit_range,
	.help = "LimitRange says how much each object of its namespace may use, and fills in what it leaves open.",
};

static const struct kind priority_class = {
	IN_GROUP("scheduling.k8s.io", "v1"),
	NAMES("PriorityClass", "priorityclasses", "priorityclass"),
	.short_names = { "pc" },
	.flags = KIND_GENERATION,
	.type = &type_scheduling_priority_class,
	.columns = columns_priority_class,
	.defaults = defaults_priority_class,
	.validate = validate_priority_class,
	.kept = priority_classes_kept,
	.kept_why = "this is a system priority class and cannot be deleted",
	.help = "PriorityClass is the priority of the Pods that name it.",
};

#define RBAC IN_GROUP(GROUP_RBAC, "v1")

static const struct kind role = {
	RBAC,
	NAMES("Role", "roles", "role"),
	.flags = KIND_NAMESPACED | KIND_PATH_NAMES | KIND_PUT_CREATES,
	.type = &type_rbac_role,
	.columns = columns_role,
	.defaults = defaults_role,
	.validate = validate_role,
	.help = "Role is a list of rights within a namespace, which RoleBindings give to users.",
};

static const struct kind cluster_role = {
	RBAC,
	NAMES("ClusterRole", "clusterroles", "clusterrole"),
	.flags = KIND_PATH_NAMES | KIND_PUT_CREATES,
	.type = &type_rbac_cluster_role,
	.columns = columns_role,
	.defaults = defaults_role,
	.validate = validate_cluster_role,
	.help = "ClusterRole is a list of rights, which bindings give in one namespace or everywhere.",
};

static const struct kind role_binding = {
	RBAC,
	NAMES("RoleBinding", "rolebindings", "rolebinding"),
	.flags = KIND_NAMESPACED | KIND_PATH_NAMES | KIND_PUT_CREATES,
	.type = &type_rbac_role_binding,
	.columns = columns_binding,
	.defaults = defaults_binding,
	.validate = validate_role_binding,
	.help = "RoleBinding gives the rights of a role to users, groups and accounts in its namespace.",
};

static const struct kind cluster_role_binding = {
	RBAC,
	NAMES("ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding"),
	.flags = KIND_PATH_NAMES | KIND_PUT_CREATES,
	.type = &type_rbac_cluster_role_binding,
	.columns = columns_binding,
	.defaults = defaults_binding,
	.validate = validate_cluster_role_binding,
	.help = "ClusterRoleBinding gives the rights of a ClusterRole to users, groups and accounts everywhere.",
};

static const struct kind gateway = {
	IN_GROUP("gateway.networking.k8s.io", "v1"),
	NAMES("Gateway", "gateways", "gateway"),
	.short_names = { "gtw" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION,
	.type = &type_gateway,
	.columns = columns_gateway,
	.help = "Gateway tells clients under which address requests to sandboxes are accepted.",
};

static const struct kind events_event = {
	IN_GROUP("events.k8s.io", "v1"),
	NAMES("Event", "events", "event"),
	.short_names = { "ev" },
	.flags = KIND_NAMESPACED | KIND_PUT_CREATES,
	.type = &type_events_event,
	.columns = columns_event,
	.storage = &event,
	.to_storage = convert_event_to_core,
	.from_storage = convert_event_from_core,
	.validate = validate_events_event,
	.validate_change = validate_events_event_change,
	.selectable = events_event_fields,
	.help = "Event is a report of something that happened to an object.",
};

static const struct kind pod_metrics = {
	IN_GROUP("metrics.k8s.io", "v1beta1"),
	NAMES("PodMetrics", "pods", ""),
	.flags = KIND_NAMESPACED | KIND_MEASURED,
	.type = &type_pod_metrics,
	.columns = columns_plain,
	.storage = &pod,
	.from_storage = convert_pod_to_metrics,
	.selectable = pod_fields,
	.help = "PodMetrics is what the containers of a Pod use.",
};

static const struct kind node_metrics = {
	IN_GROUP("metrics.k8s.io", "v1beta1"),
	NAMES("NodeMetrics", "nodes", ""),
	.flags = KIND_MEASURED,
	.type = &type_node_metrics,
	.columns = columns_plain,
	.storage = &node,
	.from_storage = convert_node_to_metrics,
	.help = "NodeMetrics is what the machine of a Node uses.",
};

static const struct kind custom_resource_definition = {
	IN_GROUP("apiextensions.k8s.io", "v1"),
	NAMES("CustomResourceDefinition", "customresourcedefinitions", "customresourcedefinition"),
	.short_names = { "crd", "crds" },
	.categories = { "api-extensions" },
	.flags = KIND_STATUS | KIND_GENERATION | KIND_DEFINES,
	.type = &type_apiextensions_custom_resource_definition,
	.columns = columns_crd,
	.defaults = crd_defaults,
	.validate = crd_validate,
	.prepare_delete = crd_prepare_delete,
	.help = "CustomResourceDefinition describes a kind that this server is to serve.",
};

/* Discovery lists them in this order: a short name that two kinds share means the first. */
const struct kind *const kinds_builtin[] = {
	&namespace,
	&pod,
	&service,
	&persistent_volume_claim,
	&persistent_volume,
	&secret,
	&config_map,
	&service_account,
	&event,
	&node,
	&endpoint_slice,
	&endpoints,
	&network_policy,
	&kind_ingress,
	&kind_ingress_class,
	&kind_ip_address,
	&kind_service_cidr,
	&lease,
	&runtime_class,
	&storage_class,
	&kind_deployment,
	&kind_replica_set,
	&resource_quota,
	&limit_range,
	&priority_class,
	&role,
	&cluster_role,
	&role_binding,
	&cluster_role_binding,
	&gateway,
	&events_event,
	&node_metrics,
	&pod_metrics,
	&custom_resource_definition,
	&kind_sandbox,
	&kind_sandbox_v1alpha1,
	&kind_sandbox_template,
	&kind_sandbox_template_v1alpha1,
	&kind_sandbox_claim,
	&kind_sandbox_claim_v1alpha1,
	&kind_sandbox_warm_pool,
	&kind_sandbox_warm_pool_v1alpha1,
	&kind_agent,
	&kind_session,
	&kind_attachment,
	&kind_approval,
	&kind_budget,
	&kind_credential,
	&kind_trigger,
	&kind_team_policy,
	&kind_ledger,
	NULL,
};
