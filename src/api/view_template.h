/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/view.h"

/* What a claim may add to the template's environment or volumes. */
enum template_policy {
	TEMPLATE_DISALLOWED,
	TEMPLATE_ALLOWED,   /* may add */
	TEMPLATE_OVERRIDES, /* may add and replace */
};

/* A SandboxTemplate (docs/reference/agent-sandbox.md §4). */
struct template_view {
	struct blueprint_view blueprint;
	const struct json *network_policy; /* custom rules; NULL: the defaults */
	const char *ref_hash;              /* its label; NULL: none */
	enum template_policy env_policy, volume_policy;
	bool managed; /* we create its NetworkPolicy */
	bool resets;  /* its Sandboxes are wiped and put back after a claim */
	bool deleting;
};
extern const struct view_type template_view_type;
const struct template_view *template_view(const struct object *o);
