/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct json;
struct json_doc;
struct object;

/* What becomes of its NetworkPolicy. */
enum policy_step {
	POLICY_NONE,
	POLICY_CREATE,
	POLICY_REPLACE,
	POLICY_REMOVE,
	POLICY_REFUSE, /* somebody else's policy has its name */
};
struct template_plan {
	bool label; /* its own label is missing or wrong */
	enum policy_step policy;
};
struct template_plan template_decide(const struct object *template, const struct object *policy);
/* The NetworkPolicy spec that the template asks for (docs/reference/agent-sandbox.md §4.3). */
struct json *policy_spec(struct json_doc *d, const struct object *template);
struct json_doc *policy_build(const struct object *template, const char *name);
