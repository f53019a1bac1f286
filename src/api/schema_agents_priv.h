/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/schema.h"

/* The whole objects of the agent kinds. */
extern const struct type type_sandbox, type_sandbox_v1alpha1, type_sandbox_template,
	type_sandbox_template_v1alpha1, type_sandbox_claim, type_sandbox_claim_v1alpha1,
	type_sandbox_warm_pool, type_sandbox_warm_pool_v1alpha1;
