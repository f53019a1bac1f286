/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/view.h"

/* A SandboxWarmPool (docs/reference/agent-sandbox.md §5). */
struct pool_view {
	const char *template; /* "": none */
	int64_t replicas;
	int64_t generation;
	bool recreate; /* stale members are replaced */
	bool deleting;
};
extern const struct view_type pool_view_type;
const struct pool_view *pool_view(const struct object *o);
