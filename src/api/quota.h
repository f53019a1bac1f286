/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/quantity.h"

struct causes;
struct json;
struct path;

/* What limits the use of a namespace: ResourceQuotas, LimitRanges, PriorityClasses. */

bool resource_is_native(const char *name); /* it needs no domain in front, or has Kubernetes' */
/* A resource of somebody's own, such as example.com/gpu. */
bool resource_is_extended(const char *name);
enum {
	RESOURCE_NAMES_MAX = 256, /* in one map: names are looked for one by one */
};
/* False: the list or map has more, which is reported at p. */
bool resource_number_check(const struct json *list, const struct path *p, struct causes *c);
/* There may be more of it in limits than there is. */
bool resource_overcommits(const char *name);
/* False: it is none, which is reported. */
bool resource_name_check(const char *name, const struct path *p, struct causes *c);

/* The classes that exist from the start. */
struct system_class {
	const char *name; /* NULL ends the list */
	int64_t value;
	const char *description;
};
extern const struct system_class system_classes[];

enum {
	PRIORITY_USER_MAX = 1000000000,
};

/*
 * How much of a resource ("cpu") a Pod requests, or is limited to, as a scheduler counts it: all
 * containers together, or the most that an init container needs with the sidecars before it. False:
 * no container says.
 */
enum pod_amount {
	POD_REQUESTS,
	POD_LIMITS,
};
enum {
	POD_AMOUNT_STATUS = 1,   /* what its containers still have of before a resize counts too */
	POD_AMOUNT_OVERHEAD = 2, /* what its RuntimeClass needs counts too */
};
bool pod_amount(const struct json *pod, enum pod_amount which, const char *name, unsigned flags,
		struct quantity *ret);
/* It says how much all of its containers may use together. */
bool pod_has_amounts(const struct json *pod);
