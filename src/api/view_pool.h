/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/view.h"

/* When a pool makes a member in the place of one that a claim has taken. */
enum pool_refill {
	POOL_REFILL_ON,
	POOL_REFILL_OFF,      /* it makes no members at all */
	POOL_REFILL_RETURNED, /* not if the claim's will be returned */
};

/* A SandboxWarmPool (docs/reference/agent-sandbox.md §5). */
struct pool_view {
	const char *template; /* "": none */
	int64_t replicas;
	int64_t generation;
	enum pool_refill refill;
	bool recreate; /* stale members are replaced */
	bool deleting;
};
extern const struct view_type pool_view_type;
const struct pool_view *pool_view(const struct object *o);
