/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How many Pods each ReplicaSet of a Deployment should have next: pure functions of what there is.
 */
struct rollout_set {
	int64_t want;      /* its spec.replicas */
	int64_t have;      /* Pods that it has, those that are ending included */
	int64_t available; /* of them, those that have been ready for long enough */
};

struct rollout_seen {
	int64_t replicas;       /* of the Deployment */
	int64_t surge, missing; /* deployment_bounds() */
	bool recreate, paused;
	const struct rollout_set *sets; /* from the oldest template to the newest */
	size_t n;
	size_t newest; /* the one with the template as it is now, which may have been used before */
};

/* want[i] becomes the spec.replicas of sets[i]. */
void rollout_decide(const struct rollout_seen *seen, int64_t *want);
