/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "json/json.h"

/*
 * Rules of roles, compared with each other: whoever makes a role or binds one must hold every right
 * in it, and a role that exists from the start must have at least the rights it began with.
 */
#define GROUP_RBAC "rbac.authorization.k8s.io"

/*
 * Whether held (n rules) together give all that wanted (a list of rules) gives, as Kubernetes
 * decides it: every right of wanted by one of them alone. ret_missing (may be NULL) becomes what is
 * lacking, a line each, malloc'd. Rules with so many combinations that comparing them would take
 * long count as lacking.
 */
bool rules_cover(const struct json *const *held, size_t n, const struct json *wanted,
		 char **ret_missing);
