/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "server/admit/roles_priv.h"

/*
 * The roles and bindings that exist from the start: those of Kubernetes, by the same names, as far
 * as they are about what is served here, and more for view, edit and admin with the kinds of Agent
 * Sandbox and of cay.dev. Lists are words with spaces between them; "core" is the group without a
 * name.
 */
#define READ   "get list watch"
#define CHANGE "create delete deletecollection patch update"
#define ALL    CHANGE " " READ
#define AGENTS GROUP_AGENTS " " GROUP_EXTENSIONS

#define AGENT_KINDS "sandboxes sandboxclaims sandboxtemplates sandboxwarmpools"
#define SCALES      "sandboxes/scale sandboxwarmpools/scale"
#define STATUSES    "sandboxes/status sandboxclaims/status sandboxwarmpools/status"

/* The kinds of cay.dev: those that people work with, and those that say who may do what. */
#define WORK_KINDS "sessions attachments triggers"
#define RULE_KINDS "agents approvals budgets credentials teampolicies"
#define READ_KINDS "ledgers" /* what Cay alone writes */
#define CAY_STATUSES                                                         \
	"agents/status sessions/status attachments/status approvals/status " \
	"budgets/status credentials/status triggers/status teampolicies/status"

#define TO(role) "rbac.authorization.k8s.io/aggregate-to-" role

const struct role_row roles_first[] = {
	{ "cluster-admin" },
	{ "admin", .gathers = TO("admin") },
	{ "edit", .labels = TO("admin"), .gathers = TO("edit") },
	{ "view", .labels = TO("edit"), .gathers = TO("view") },
	{ "system:aggregate-to-admin", .labels = TO("admin") },
	{ "system:aggregate-to-edit", .labels = TO("edit") },
	{ "system:aggregate-to-view", .labels = TO("view") },
	{ "agent-sandbox:aggregate-to-edit", .labels = TO("edit") },
	{ "agent-sandbox:aggregate-to-view", .labels = TO("view") },
	{ "cay:aggregate-to-admin", .labels = TO("admin") },
	{ "cay:aggregate-to-edit", .labels = TO("edit") },
	{ "cay:aggregate-to-view", .labels = TO("view") },
	{ "system:aggregated-metrics-reader", .labels = TO("view") },
	{ "system:auth-delegator" },
	{ "system:basic-user" },
	{ "system:discovery" },
	{ "system:monitoring" },
	{ "system:public-info-viewer" },
	{ "system:service-account-issuer-discovery" },
	{ 0 },
};

const struct rule_row rules_first[] = {
	{ "cluster-admin", "*", "*", "*" },
	{ "cluster-admin", .urls = "*", .verbs = "*" },

	{ "system:aggregate-to-admin", "authorization.k8s.io", "localsubjectaccessreviews",
	  "create" },
	{ "system:aggregate-to-admin", "rbac.authorization.k8s.io", "rolebindings roles", ALL },

	{ "system:aggregate-to-edit", "core",
	  "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", READ },
	{ "system:aggregate-to-edit", "core", "serviceaccounts", "impersonate" },
	{ "system:aggregate-to-edit", "core",
	  "pods pods/attach pods/exec pods/portforward pods/proxy", CHANGE },
	{ "system:aggregate-to-edit", "core", "pods/eviction", "create" },
	{ "system:aggregate-to-edit", "core",
	  "configmaps persistentvolumeclaims secrets serviceaccounts services services/proxy",
	  CHANGE },
	{ "system:aggregate-to-edit", "core", "serviceaccounts/token", "create" },
	{ "system:aggregate-to-edit", "core events.k8s.io", "events", CHANGE },
	{ "system:aggregate-to-edit", "apps",
	  "deployments deployments/scale replicasets replicasets/scale", CHANGE },
	{ "system:aggregate-to-edit", "networking.k8s.io", "ingresses networkpolicies", CHANGE },
	{ "system:aggregate-to-edit", "coordination.k8s.io", "leases", ALL },

	{ "system:aggregate-to-view", "core",
	  "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
	  "serviceaccounts services services/status",
	  READ },
	{ "system:aggregate-to-view", "core", "namespaces/status pods/log pods/status", READ },
	{ "system:aggregate-to-view", "core", "limitranges resourcequotas resourcequotas/status",
	  READ },
	{ "system:aggregate-to-view", "core", "namespaces", READ },
	{ "system:aggregate-to-view", "core events.k8s.io", "events", READ },
	{ "system:aggregate-to-view", "apps",
	  "deployments deployments/scale deployments/status replicasets replicasets/scale "
	  "replicasets/status",
	  READ },
	{ "system:aggregate-to-view", "discovery.k8s.io", "endpointslices", READ },
	{ "system:aggregate-to-view", "networking.k8s.io",
	  "ingresses ingresses/status networkpolicies", READ },

	{ "agent-sandbox:aggregate-to-edit", AGENTS, AGENT_KINDS " " SCALES, CHANGE },
	{ "agent-sandbox:aggregate-to-view", AGENTS, AGENT_KINDS " " SCALES " " STATUSES, READ },
	{ "agent-sandbox:aggregate-to-view", "gateway.networking.k8s.io",
	  "gateways gateways/status", READ },
	{ "cay:aggregate-to-admin", GROUP_CAY, RULE_KINDS, CHANGE },
	{ "cay:aggregate-to-admin", GROUP_CAY, "agents", "verify" },
	{ "cay:aggregate-to-admin", GROUP_CAY, "approvals", "approve" },
	{ "cay:aggregate-to-admin", GROUP_CAY, "approvals/status", "patch update" },
	{ "cay:aggregate-to-edit", GROUP_CAY, WORK_KINDS, CHANGE },
	{ "cay:aggregate-to-view", GROUP_CAY,
	  WORK_KINDS " " RULE_KINDS " " READ_KINDS " " CAY_STATUSES, READ },
	{ "system:aggregated-metrics-reader", "metrics.k8s.io", "pods nodes", READ },

	{ "system:auth-delegator", "authentication.k8s.io", "tokenreviews", "create" },
	{ "system:auth-delegator", "authorization.k8s.io", "subjectaccessreviews", "create" },
	{ "system:basic-user", "authorization.k8s.io",
	  "selfsubjectaccessreviews selfsubjectrulesreviews", "create" },
	{ "system:basic-user", "authentication.k8s.io", "selfsubjectreviews", "create" },
	{ "system:discovery", .verbs = "get",
	  .urls = "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version "
		  "/version/" },
	{ "system:monitoring", .verbs = "get",
	  .urls = "/healthz /healthz/* /livez /livez/* /metrics /readyz /readyz/*" },
	{ "system:public-info-viewer", .verbs = "get",
	  .urls = "/healthz /livez /readyz /version /version/" },
	{ "system:service-account-issuer-discovery", .verbs = "get",
	  .urls = "/.well-known/openid-configuration /.well-known/openid-configuration/ "
		  "/openid/v1/jwks /openid/v1/jwks/" },
	{ 0 },
};

/* Named like their roles. */
const struct binding_row bindings_first[] = {
	{ "cluster-admin", "system:masters" },
	{ "system:basic-user", "system:authenticated" },
	{ "system:discovery", "system:authenticated" },
	{ "system:monitoring", "system:monitoring" },
	{ "system:public-info-viewer", "system:authenticated system:unauthenticated" },
	{ "system:service-account-issuer-discovery", "system:serviceaccounts" },
	{ 0 },
};
