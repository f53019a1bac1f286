/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/kind_priv.h"

/*
 * What the files that describe built-in kinds share: the words of a description, and the kinds that
 * the list in kinds.c takes from the other files.
 */
#define CORE           .group = "", .version = "v1", .api_version = "v1"
#define IN_GROUP(g, v) .group = (g), .version = (v), .api_version = g "/" v
#define NAMES(k, plural_, s) \
	.kind = (k), .list_kind = k "List", .plural = (plural_), .singular = (s)

/* kinds_network.c */
extern const struct kind kind_ingress, kind_ingress_class, kind_ip_address, kind_service_cidr;

/* kinds_agents.c */
extern const struct kind kind_sandbox, kind_sandbox_v1alpha1, kind_sandbox_template,
	kind_sandbox_template_v1alpha1, kind_sandbox_claim, kind_sandbox_claim_v1alpha1,
	kind_sandbox_warm_pool, kind_sandbox_warm_pool_v1alpha1;
