/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kinds_priv.h"
#include "api/schema_agents_priv.h"
#include "api/view_claim.h"
#include "api/view_pool.h"
#include "api/view_sandbox.h"
#include "api/view_template.h"

/* The agent kinds: v1beta1, which is stored, and v1alpha1, which is converted (convert_agents.c).
 */

/* The rules of validate_sandbox(), in CEL. */
static const struct kind_rule sandbox_rules[] = {
	{ "properties.spec",
	  "has(self.volumeClaimTemplates) == has(oldSelf.volumeClaimTemplates) && "
	  "(!has(self.volumeClaimTemplates) || self.volumeClaimTemplates == "
	  "oldSelf.volumeClaimTemplates)",
	  "volumeClaimTemplates is immutable", false },
	{ "",
	  "!has(self.spec.service) || !self.spec.service || size(self.metadata.name) <= 63 "
	  "|| (oldSelf.hasValue() && has(oldSelf.value().spec.service) && "
	  "oldSelf.value().spec.service)",
	  "metadata.name must be no more than 63 characters when spec.service is true", true },
	{ 0 },
};

const struct kind kind_sandbox = {
	IN_GROUP(GROUP_AGENTS, "v1beta1"),
	NAMES("Sandbox", "sandboxes", "sandbox"),
	.short_names = { "sandbox" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION | KIND_CRD,
	.type = &type_sandbox,
	.columns = columns_sandbox,
	.validate = validate_sandbox,
	.validate_notes = validate_notes,
	.rules = sandbox_rules,
	.view = &sandbox_view_type,
	.pod_template = "podTemplate",
	.help = "Sandbox is an isolated, stateful, singleton environment with a stable identity.",
};

const struct kind kind_sandbox_v1alpha1 = {
	IN_GROUP(GROUP_AGENTS, "v1alpha1"),
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
	.help = "Sandbox is an isolated, stateful, singleton environment with a stable identity.",
};

const struct kind kind_sandbox_template = {
	IN_GROUP(GROUP_EXTENSIONS, "v1beta1"),
	NAMES("SandboxTemplate", "sandboxtemplates", "sandboxtemplate"),
	.short_names = { "sandboxtemplate" },
	.flags = KIND_NAMESPACED | KIND_GENERATION | KIND_CRD,
	.type = &type_sandbox_template,
	.columns = columns_plain,
	.validate_notes = validate_notes,
	.view = &template_view_type,
	.pod_template = "podTemplate",
	.help = "SandboxTemplate is a reusable description of Sandboxes, from which pools and claims create them.",
};

const struct kind kind_sandbox_template_v1alpha1 = {
	IN_GROUP(GROUP_EXTENSIONS, "v1alpha1"),
	NAMES("SandboxTemplate", "sandboxtemplates", "sandboxtemplate"),
	.short_names = { "sandboxtemplate" },
	.flags = KIND_NAMESPACED | KIND_GENERATION | KIND_DEPRECATED | KIND_CRD,
	.type = &type_sandbox_template_v1alpha1,
	.columns = columns_plain,
	.storage = &kind_sandbox_template,
	.to_storage = convert_template_to_v1beta1,
	.from_storage = convert_template_to_v1alpha1,
	.help = "SandboxTemplate is a reusable description of Sandboxes, from which pools and claims create them.",
};

const struct kind kind_sandbox_claim = {
	IN_GROUP(GROUP_EXTENSIONS, "v1beta1"),
	NAMES("SandboxClaim", "sandboxclaims", "sandboxclaim"),
	.short_names = { "sandboxclaim" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION | KIND_CRD,
	.type = &type_sandbox_claim,
	.columns = columns_sandbox_claim,
	.validate_notes = validate_notes,
	.view = &claim_view_type,
	.help = "SandboxClaim is a request for a Sandbox, served from a warm pool when one has a Sandbox ready.",
};

const struct kind kind_sandbox_claim_v1alpha1 = {
	IN_GROUP(GROUP_EXTENSIONS, "v1alpha1"),
	NAMES("SandboxClaim", "sandboxclaims", "sandboxclaim"),
	.short_names = { "sandboxclaim" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_GENERATION | KIND_DEPRECATED | KIND_CRD,
	.type = &type_sandbox_claim_v1alpha1,
	.columns = columns_plain,
	.storage = &kind_sandbox_claim,
	.to_storage = convert_claim_to_v1beta1,
	.from_storage = convert_claim_to_v1alpha1,
	.help = "SandboxClaim is a request for a Sandbox, served from a warm pool when one has a Sandbox ready.",
};

const struct kind kind_sandbox_warm_pool = {
	IN_GROUP(GROUP_EXTENSIONS, "v1beta1"),
	NAMES("SandboxWarmPool", "sandboxwarmpools", "sandboxwarmpool"),
	.short_names = { "swp" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_SCALE | KIND_GENERATION | KIND_CRD,
	.type = &type_sandbox_warm_pool,
	.columns = columns_sandbox_warm_pool,
	.view = &pool_view_type,
	.help = "SandboxWarmPool keeps a number of Sandboxes running so that claims need not wait for one to start.",
};

const struct kind kind_sandbox_warm_pool_v1alpha1 = {
	IN_GROUP(GROUP_EXTENSIONS, "v1alpha1"),
	NAMES("SandboxWarmPool", "sandboxwarmpools", "sandboxwarmpool"),
	.short_names = { "swp" },
	.flags = KIND_NAMESPACED | KIND_STATUS | KIND_SCALE | KIND_GENERATION | KIND_DEPRECATED |
		 KIND_CRD,
	.type = &type_sandbox_warm_pool_v1alpha1,
	.columns = columns_sandbox_warm_pool,
	.storage = &kind_sandbox_warm_pool,
	.to_storage = convert_pool_to_v1beta1,
	.from_storage = convert_pool_to_v1alpha1,
	.help = "SandboxWarmPool keeps a number of Sandboxes running so that claims need not wait for one to start.",
};
