/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of the roles and bindings that more than one part of the program knows. */
#define GROUP_RBAC "rbac.authorization.k8s.io"
