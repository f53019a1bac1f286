/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/schema_agents_priv.h"
#include "api/schema_builtin_priv.h"
#include "base/str.h"

/*
 * The agent kinds, as docs/reference/agent-sandbox.md describes them. Pod, PVC and NetworkPolicy
 * parts are Kubernetes' own tables, so they accept what a cluster accepts.
 */
#define AGENTS     "io.x-k8s.agents.v1beta1."
#define EXTENSIONS "io.x-k8s.agents.extensions.v1beta1."
/* Names of v1alpha1, for the types that differ there. */
#define ALPHA            "io.x-k8s.agents.v1alpha1."
#define ALPHA_EXTENSIONS "io.x-k8s.agents.extensions.v1alpha1."

static const int64_t zero = 0, one = 1;

/* Shared parts */
static const struct field pod_metadata_fields[] = {
	{ "labels", &type_string_map, 0, NULL, "Labels put on the Pod" },
	{ "annotations", &type_string_map, 0, NULL, "Annotations put on the Pod" },
	{ 0 },
};
static const struct type pod_metadata = { TYPE_OBJECT, AGENTS "PodMetadata", pod_metadata_fields };

static const struct field pod_template_fields[] = {
	{ "metadata", &pod_metadata, 0, NULL, "Labels and annotations of the Pod" },
	{ "spec", &type_core_pod_spec, FIELD_REQUIRED, NULL, "What runs: a Kubernetes PodSpec" },
	{ 0 },
};
static const struct type pod_template = { TYPE_OBJECT, AGENTS "PodTemplate", pod_template_fields };

static const struct field vct_metadata_fields[] = {
	{ "name", &type_string, 0, NULL, "Volume name in the Pod; the claim is <name>-<sandbox>" },
	{ "labels", &type_string_map, 0, NULL, "Labels put on the claim" },
	{ "annotations", &type_string_map, 0, NULL, "Annotations put on the claim" },
	{ 0 },
};
static const struct type vct_metadata = { TYPE_OBJECT, AGENTS "EmbeddedObjectMetadata",
					  vct_metadata_fields };

static const struct field vct_fields[] = {
	{ "metadata", &vct_metadata, 0, NULL, "Name, labels and annotations of the claim" },
	{ "spec", &type_core_persistent_volume_claim_spec, FIELD_REQUIRED, NULL,
	  "A Kubernetes PersistentVolumeClaimSpec" },
	{ 0 },
};
static const struct type vct = { TYPE_OBJECT, AGENTS "PersistentVolumeClaimTemplate", vct_fields };
static const struct type vct_list = { TYPE_LIST, .elem = &vct };

static const int64_t max_type = 316, max_reason = 1024, max_message = 32768;
static const char *const condition_states[] = { "True", "False", "Unknown", NULL };

static const char *check_reason(const struct json *v)
{
	const char *s = json_str(v);
	size_t len = strlen(s);

	if (!isalpha((unsigned char)s[0]) || s[len - 1] == ',' || s[len - 1] == ':')
		return "is no reason";
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_,:", s[i]))
			return "is no reason";
	return NULL;
}

static const struct type condition_type = { TYPE_STRING, .max = &max_type };
static const struct type condition_status = { TYPE_STRING, .values = condition_states };
const struct type type_observed_generation = { TYPE_INT64, .min = &zero };
static const struct type condition_reason = {
	TYPE_STRING,           .pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
	.check = check_reason, .min = &one,
	.max = &max_reason,
};
static const struct type condition_message = { TYPE_STRING, .max = &max_message };
static const struct field condition_fields[] = {
	{ "type", &condition_type, FIELD_REQUIRED, NULL, "What the condition is about" },
	{ "status", &condition_status, FIELD_REQUIRED, NULL, "True, False or Unknown" },
	{ "observedGeneration", &type_observed_generation, 0, NULL,
	  "Generation it was computed for" },
	{ "lastTransitionTime", &type_time, FIELD_REQUIRED, NULL, "When status last changed" },
	{ "reason", &condition_reason, FIELD_REQUIRED, NULL, "One word for programs" },
	{ "message", &condition_message, FIELD_REQUIRED, NULL, "A sentence for people" },
	{ 0 },
};
static const struct type condition = { TYPE_OBJECT, AGENTS "Condition", condition_fields };
const struct type type_conditions = { TYPE_LIST, .elem = &condition, .list = LIST_MAP,
				      .merge_keys = { "type" }, .patch_key = "type" };

#define BLUEPRINT                                                                                \
	{ "podTemplate", &pod_template, FIELD_REQUIRED, NULL, "The Pod that runs the sandbox" }, \
		{ "volumeClaimTemplates", &vct_list, 0, NULL,                                    \
		  "Volumes that live as long as the "                                            \
		  "sandbox" },                                                                   \
		{ "service", &type_bool, 0, NULL, "Whether the sandbox has a headless Service" }

/* Sandbox */
static const char *const shutdown_policies[] = { "Delete", "Retain", NULL };
static const char *const operating_modes[] = { "Running", "Suspended", NULL };
static const struct type shutdown_policy = { TYPE_STRING, .values = shutdown_policies };
static const struct type operating_mode = { TYPE_STRING, .values = operating_modes };

static const struct field sandbox_spec_fields[] = {
	BLUEPRINT,
	{ "shutdownTime", &type_time, 0, NULL, "When the sandbox expires; never when unset" },
	{ "shutdownPolicy", &shutdown_policy, 0, "\"Retain\"",
	  "Whether the object stays when it expires: Delete or Retain" },
	{ "operatingMode", &operating_mode, 0, "\"Running\"", "Running or Suspended" },
	{ 0 },
};
static const struct type sandbox_spec = { TYPE_OBJECT, AGENTS "SandboxSpec", sandbox_spec_fields };

static const struct field sandbox_status_fields[] = {
	{ "conditions", &type_conditions, 0, NULL, "Ready, Suspended, PodScheduled, Finished" },
	{ "selector", &type_string, 0, NULL, "Labels of the sandbox's Pod" },
	{ "service", &type_string, 0, NULL, "Name of the sandbox's Service" },
	{ "serviceFQDN", &type_string, 0, NULL, "DNS name of the sandbox's Service" },
	{ "podIPs", &type_string_list, 0, NULL, "Addresses of the sandbox's Pod" },
	{ "nodeName", &type_string, 0, NULL, "Node that runs the sandbox's Pod" },
	{ 0 },
};
static const struct type sandbox_status = { TYPE_OBJECT, AGENTS "SandboxStatus",
					    sandbox_status_fields };

static const struct field sandbox_fields[] = {
	OBJECT_HEAD,
	{ "spec", &sandbox_spec, FIELD_REQUIRED, NULL, "What is wanted" },
	{ "status", &sandbox_status, 0, NULL, "What is" },
	{ 0 },
};
const struct type type_sandbox = { TYPE_OBJECT, AGENTS "Sandbox", sandbox_fields,
				   .structural = true };

/* Sandbox v1alpha1: a number of replicas where v1beta1 has a mode. */
static const struct type replicas_0_to_1 = { TYPE_INT32, .min = &zero, .max = &one };
static const struct type count = { TYPE_INT32, .min = &zero };

static const struct field sandbox_v1alpha1_spec_fields[] = {
	BLUEPRINT,
	{ "shutdownTime", &type_time, 0, NULL, "When the sandbox expires; never when unset" },
	{ "shutdownPolicy", &shutdown_policy, 0, "\"Retain\"",
	  "Whether the object stays when it expires: Delete or Retain" },
	{ "replicas", &replicas_0_to_1, 0, "1", "1 runs the sandbox, 0 suspends it" },
	{ 0 },
};
static const struct type sandbox_v1alpha1_spec = { TYPE_OBJECT, ALPHA "SandboxSpec",
						   sandbox_v1alpha1_spec_fields };

static const struct field sandbox_v1alpha1_status_fields[] = {
	{ "conditions", &type_conditions, 0, NULL, "Ready, Suspended, PodScheduled, Finished" },
	{ "selector", &type_string, 0, NULL, "Labels of the sandbox's Pod" },
	{ "service", &type_string, 0, NULL, "Name of the sandbox's Service" },
	{ "serviceFQDN", &type_string, 0, NULL, "DNS name of the sandbox's Service" },
	{ "podIPs", &type_string_list, 0, NULL, "Addresses of the sandbox's Pod" },
	{ "replicas", &count, 0, NULL, "1 unless the sandbox is suspended" },
	{ 0 },
};
static const struct type sandbox_v1alpha1_status = { TYPE_OBJECT, ALPHA "SandboxStatus",
						     sandbox_v1alpha1_status_fields };

static const struct field sandbox_v1alpha1_fields[] = {
	OBJECT_HEAD,
	{ "spec", &sandbox_v1alpha1_spec, FIELD_REQUIRED, NULL, "What is wanted" },
	{ "status", &sandbox_v1alpha1_status, 0, NULL, "What is" },
	{ 0 },
};
const struct type type_sandbox_v1alpha1 = { TYPE_OBJECT, ALPHA "Sandbox", sandbox_v1alpha1_fields,
					    .structural = true };

/* SandboxTemplate */
static const struct type ingress_rules = { TYPE_LIST,
					   .elem = &type_networking_network_policy_ingress_rule };
static const struct type egress_rules = { TYPE_LIST,
					  .elem = &type_networking_network_policy_egress_rule };
static const struct field network_policy_fields[] = {
	{ "ingress", &ingress_rules, 0, NULL, "Who may connect to the sandbox; [] is nobody" },
	{ "egress", &egress_rules, 0, NULL, "Where the sandbox may connect to; [] is nowhere" },
	{ 0 },
};
static const struct type network_policy = { TYPE_OBJECT, EXTENSIONS "NetworkPolicySpec",
					    network_policy_fields };

static const char *const managements[] = { "Managed", "Unmanaged", NULL };
static const char *const injections[] = { "Allowed", "Overrides", "Disallowed", NULL };
static const struct type management = { TYPE_STRING, .values = managements };
static const struct type injection = { TYPE_STRING, .values = injections };

#define TEMPLATE_SPEC                                                        \
	BLUEPRINT,                                                           \
		{ "networkPolicy", &network_policy, 0, NULL,                 \
		  "Rules in place of the secure default" },                  \
		{ "networkPolicyManagement", &management, 0, "\"Managed\"",  \
		  "Managed, or Unmanaged: no NetworkPolicy is made" },       \
		{ "envVarsInjectionPolicy", &injection, 0, "\"Disallowed\"", \
		  "Whether a claim may set environment variables" }

static const struct field template_spec_fields[] = {
	TEMPLATE_SPEC,
	{ "volumeClaimTemplatesPolicy", &injection, 0, "\"Disallowed\"",
	  "Whether a claim may bring volumes" },
	{ 0 },
};
static const struct type template_spec = { TYPE_OBJECT, EXTENSIONS "SandboxTemplateSpec",
					   template_spec_fields };

static const struct field template_fields[] = {
	OBJECT_HEAD,
	{ "spec", &template_spec, FIELD_REQUIRED, NULL, "What sandboxes made from it look like" },
	{ 0 },
};
const struct type type_sandbox_template = { TYPE_OBJECT, EXTENSIONS "SandboxTemplate",
					    template_fields, .structural = true };

/* v1alpha1: the policy about volumes is an annotation. */
static const struct field template_v1alpha1_spec_fields[] = {
	TEMPLATE_SPEC,
	{ 0 },
};
static const struct type template_v1alpha1_spec = { TYPE_OBJECT,
						    ALPHA_EXTENSIONS "SandboxTemplateSpec",
						    template_v1alpha1_spec_fields };

static const struct field template_v1alpha1_fields[] = {
	OBJECT_HEAD,
	{ "spec", &template_v1alpha1_spec, FIELD_REQUIRED, NULL,
	  "What sandboxes made from it look like" },
	{ 0 },
};
const struct type type_sandbox_template_v1alpha1 = { TYPE_OBJECT,
						     ALPHA_EXTENSIONS "SandboxTemplate",
						     template_v1alpha1_fields, .structural = true };

/* SandboxWarmPool */
static const struct field template_ref_fields[] = {
	{ "name", &type_string, FIELD_REQUIRED, NULL, "A SandboxTemplate in this namespace" },
	{ 0 },
};
static const struct type template_ref = { TYPE_OBJECT, EXTENSIONS "SandboxTemplateRef",
					  template_ref_fields };

static const char *const strategies[] = { "Recreate", "OnReplenish", NULL };
static const struct type strategy_type = { TYPE_STRING, .values = strategies };
static const struct field update_strategy_fields[] = {
	{ "type", &strategy_type, 0, "\"OnReplenish\"",
	  "Recreate replaces stale members, OnReplenish only fills up with new ones" },
	{ 0 },
};
static const struct type update_strategy = { TYPE_OBJECT,
					     EXTENSIONS "SandboxWarmPoolUpdateStrategy",
					     update_strategy_fields };

static const struct field pool_spec_fields[] = {
	{ "replicas", &count, 0, "1", "How many sandboxes are kept ready" },
	{ "sandboxTemplateRef", &template_ref, FIELD_REQUIRED, NULL, "What they are made from" },
	{ "updateStrategy", &update_strategy, 0, NULL, "What a change of the template does" },
	{ 0 },
};
static const struct type pool_spec = { TYPE_OBJECT, EXTENSIONS "SandboxWarmPoolSpec",
				       pool_spec_fields };

static const struct type plain_int32 = { TYPE_INT32 };
static const struct field pool_status_fields[] = {
	{ "replicas", &plain_int32, 0, NULL, "Members now" },
	{ "readyReplicas", &plain_int32, 0, NULL, "Members that are ready" },
	{ "selector", &type_string, 0, NULL, "Labels of the members" },
	{ "observedGeneration", &type_observed_generation, 0, NULL, "Generation last acted on" },
	{ 0 },
};
static const struct type pool_status = { TYPE_OBJECT, EXTENSIONS "SandboxWarmPoolStatus",
					 pool_status_fields };

static const struct field pool_fields[] = {
	OBJECT_HEAD,
	{ "spec", &pool_spec, FIELD_REQUIRED, NULL, "What is wanted" },
	{ "status", &pool_status, 0, NULL, "What is" },
	{ 0 },
};
const struct type type_sandbox_warm_pool = { TYPE_OBJECT, EXTENSIONS "SandboxWarmPool", pool_fields,
					     .structural = true };

/* v1alpha1: replicas must be given, and nothing tells which generation was acted on. */
static const struct field pool_v1alpha1_spec_fields[] = {
	{ "replicas", &count, FIELD_REQUIRED, NULL, "How many sandboxes are kept ready" },
	{ "sandboxTemplateRef", &template_ref, FIELD_REQUIRED, NULL, "What they are made from" },
	{ "updateStrategy", &update_strategy, 0, NULL, "What a change of the template does" },
	{ 0 },
};
static const struct type pool_v1alpha1_spec = { TYPE_OBJECT, ALPHA_EXTENSIONS "SandboxWarmPoolSpec",
						pool_v1alpha1_spec_fields };

static const struct field pool_v1alpha1_status_fields[] = {
	{ "replicas", &plain_int32, 0, NULL, "Members now" },
	{ "readyReplicas", &plain_int32, 0, NULL, "Members that are ready" },
	{ "selector", &type_string, 0, NULL, "Labels of the members" },
	{ 0 },
};
static const struct type pool_v1alpha1_status = { TYPE_OBJECT,
						  ALPHA_EXTENSIONS "SandboxWarmPoolStatus",
						  pool_v1alpha1_status_fields };

static const struct field pool_v1alpha1_fields[] = {
	OBJECT_HEAD,
	{ "spec", &pool_v1alpha1_spec, FIELD_REQUIRED, NULL, "What is wanted" },
	{ "status", &pool_v1alpha1_status, 0, NULL, "What is" },
	{ 0 },
};
const struct type type_sandbox_warm_pool_v1alpha1 = { TYPE_OBJECT,
						      ALPHA_EXTENSIONS "SandboxWarmPool",
						      pool_v1alpha1_fields, .structural = true };

/* SandboxClaim */
static const struct field pool_ref_fields[] = {
	{ "name", &type_string, FIELD_REQUIRED, NULL, "A SandboxWarmPool in this namespace" },
	{ 0 },
};
static const struct type pool_ref = { TYPE_OBJECT, EXTENSIONS "SandboxWarmPoolRef",
				      pool_ref_fields };

static const char *const claim_policies[] = { "Delete", "DeleteForeground", "Retain", NULL };
static const struct type claim_policy = { TYPE_STRING, .values = claim_policies };
static const struct field lifecycle_fields[] = {
	{ "shutdownTime", &type_time, 0, NULL, "When the claim expires" },
	{ "ttlSecondsAfterFinished", &count, 0, NULL,
	  "Seconds after the sandbox finished, when the claim expires" },
	{ "shutdownPolicy", &claim_policy, 0, "\"Retain\"",
	  "What goes when it expires: Retain keeps the claim" },
	{ 0 },
};
static const struct type lifecycle = { TYPE_OBJECT, EXTENSIONS "Lifecycle", lifecycle_fields };

static const struct field claim_env_fields[] = {
	{ "name", &type_string, FIELD_REQUIRED, NULL, "Name of the variable" },
	{ "value", &type_string, FIELD_REQUIRED, NULL, "Value of the variable" },
	{ "containerName", &type_string, 0, NULL, "Which container; the first when unset" },
	{ 0 },
};
static const struct type claim_env = { TYPE_OBJECT, EXTENSIONS "EnvVar", claim_env_fields };
static const struct type claim_env_list = { TYPE_LIST, .elem = &claim_env };

static const struct field claim_spec_fields[] = {
	{ "warmPoolRef", &pool_ref, FIELD_REQUIRED, NULL, "The pool that gives the sandbox" },
	{ "lifecycle", &lifecycle, 0, NULL, "When the claim expires; never when unset" },
	{ "additionalPodMetadata", &pod_metadata, 0, NULL, "More labels and annotations" },
	{ "env", &claim_env_list, 0, NULL, "Environment variables; needs a cold start" },
	{ "volumeClaimTemplates", &vct_list, 0, NULL, "Volumes; needs a cold start" },
	{ 0 },
};
static const struct type claim_spec = { TYPE_OBJECT, EXTENSIONS "SandboxClaimSpec",
					claim_spec_fields };

static const struct field claim_sandbox_fields[] = {
	{ "name", &type_string, 0, NULL, "Name of the sandbox" },
	{ "podIPs", &type_string_list, 0, NULL, "Addresses of the sandbox" },
	{ 0 },
};
static const struct type claim_sandbox = { TYPE_OBJECT, EXTENSIONS "SandboxStatus",
					   claim_sandbox_fields };

static const struct field claim_status_fields[] = {
	{ "conditions", &type_conditions, 0, NULL, "Ready and Finished" },
	{ "sandbox", &claim_sandbox, 0, NULL, "The sandbox that the claim got" },
	{ 0 },
};
static const struct type claim_status = { TYPE_OBJECT, EXTENSIONS "SandboxClaimStatus",
					  claim_status_fields };

static const struct field claim_fields[] = {
	OBJECT_HEAD,
	{ "spec", &claim_spec, FIELD_REQUIRED, NULL, "What is wanted" },
	{ "status", &claim_status, 0, NULL, "What is" },
	{ 0 },
};
const struct type type_sandbox_claim = { TYPE_OBJECT, EXTENSIONS "SandboxClaim", claim_fields,
					 .structural = true };

/* v1alpha1: a template, and how to use pools of it, where v1beta1 names a pool. */
static const struct field claim_v1alpha1_spec_fields[] = {
	{ "sandboxTemplateRef", &template_ref, FIELD_REQUIRED, NULL,
	  "What the sandbox is made from" },
	{ "warmpool", &type_string, 0, "\"default\"", "none, default, or the name of a pool" },
	{ "lifecycle", &lifecycle, 0, NULL, "When the claim expires; never when unset" },
	{ "additionalPodMetadata", &pod_metadata, 0, NULL, "More labels and annotations" },
	{ "env", &claim_env_list, 0, NULL, "Environment variables; needs a cold start" },
	{ 0 },
};
static const struct type claim_v1alpha1_spec = { TYPE_OBJECT, ALPHA_EXTENSIONS "SandboxClaimSpec",
						 claim_v1alpha1_spec_fields };

static const struct field claim_v1alpha1_fields[] = {
	OBJECT_HEAD,
	{ "spec", &claim_v1alpha1_spec, FIELD_REQUIRED, NULL, "What is wanted" },
	{ "status", &claim_status, 0, NULL, "What is" },
	{ 0 },
};
const struct type type_sandbox_claim_v1alpha1 = { TYPE_OBJECT, ALPHA_EXTENSIONS "SandboxClaim",
						  claim_v1alpha1_fields, .structural = true };
