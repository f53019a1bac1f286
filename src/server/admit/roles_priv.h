/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* roles_table.c: what exists from the start. Each list ends with a NULL name. */
struct role_row {
	const char *name;
	const char *labels;  /* with the value "true" */
	const char *gathers; /* it has the rules of all ClusterRoles with this label */
};
struct rule_row {
	const char *role;
	const char *groups, *resources, *verbs;
	const char *urls; /* instead of groups and resources */
};
struct binding_row {
	const char *name;   /* and that of its ClusterRole */
	const char *groups; /* of users */
};
extern const struct role_row roles_first[];
extern const struct rule_row rules_first[];
extern const struct binding_row bindings_first[];
