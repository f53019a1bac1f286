/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/quota.h"
#include "base/clock.h"

struct json;
struct kind;

/* measure.c: how much of what a quota names ("requests.cpu", "count/secrets") an object uses. */
enum measure_what {
	MEASURE_COUNT, /* one for each object of a resource */
	MEASURE_PODS,  /* one for each Pod that is not over */
	MEASURE_REQUESTS,
	MEASURE_LIMITS,
	MEASURE_NODE_PORTS,
	MEASURE_LOAD_BALANCERS,
	MEASURE_CLAIMS,  /* of a StorageClass */
	MEASURE_STORAGE, /* of a StorageClass, or of any */
	MEASURE_NOTHING, /* nobody uses it */
};

struct measure {
	enum measure_what what;
	const char *resource; /* of the objects: "pods", "sandboxes.agents.x-k8s.io" */
	const char *of;       /* the resource of a Pod, or a StorageClass; NULL: any */
	bool must;            /* each container has to say how much it needs */
};

struct measure measure_of(const char *name); /* borrows name */
void measure_done(struct measure *m);
bool measure_covers(const struct measure *m, const struct kind *k);
/* obj is of a kind that it covers. as_of: Pods that should have been gone by then do not count. */
struct quantity measure_use(const struct measure *m, const struct json *obj, usec as_of);
/* Until when a Pod that is being deleted counts; INT64_MAX: until it is gone. */
usec measure_until(const struct json *pod);

/* scope.c: whether a quota with this spec is about an object of that resource. */
bool scope_matches(const struct json *spec, const char *resource, const struct json *obj);
bool pod_has_deadline(const struct json *pod);
