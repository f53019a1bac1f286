/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/schema.h"
#include "api/schema_builtin_priv.h"

/* The whole objects of the agent kinds. */
extern const struct type type_sandbox, type_sandbox_v1alpha1, type_sandbox_template,
	type_sandbox_template_v1alpha1, type_sandbox_claim, type_sandbox_claim_v1alpha1,
	type_sandbox_warm_pool, type_sandbox_warm_pool_v1alpha1;

/* What the kinds of cay.dev have in common with them. */
extern const struct type type_conditions, type_observed_generation;

/* apiVersion, kind and metadata of every kind. */
#define OBJECT_HEAD                                                               \
	{ "apiVersion", &type_string, 0, NULL, "Group and version of the kind" }, \
		{ "kind", &type_string, 0, NULL, "Name of the kind" },            \
		{ "metadata", &type_meta_object_meta, 0, NULL,                    \
		  "Name, namespace, labels, annotations, owners" }
