/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct json_doc;
struct object;

struct template_plan {
	bool label;                   /* its own label is missing or wrong */
	bool create, replace, remove; /* of its NetworkPolicy */
	bool refused;                 /* a policy that is not ours has its name */
};
struct template_plan template_decide(const struct object *template, const struct object *policy);
struct json_doc *policy_build(const struct object *template, const char *name);
