/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/object.h"
#include "base/clock.h"
#include "json/json.h"

/*
 * The pure half of the SandboxWarmPool controller.
 */
struct pool_seen {
	int64_t desired;
	uint64_t active, ready, terminating, unschedulable;
	bool template_found;
	uint64_t grace_left_ms; /* until the first member runs out of time to become Ready; 0: none
				 */
	uint64_t max_batch, burst, recheck_ms;
	uint64_t rest_left_ms; /* claims are being served: creates wait this long */
};
struct pool_plan {
	uint64_t create, remove;
	bool stalled; /* no progress until something outside changes */
	uint64_t again_ms;
};
struct pool_plan pool_decide(const struct pool_seen *seen);

/* What becomes of a member that this pool owns. */
enum fate {
	FATE_TERMINATING,
	FATE_STALE, /* goes, because the template is another now */
	FATE_ACTIVE,
	FATE_YOUNG, /* active and not Ready, with time left */
	FATE_STUCK, /* goes, because it had its time */
	FATE_HELD,  /* past its time, but another would fare no better */
};
struct member_seen {
	bool deleting, stale, ready;
	usec age;
	uint64_t grace_ms;
	const struct object *pod; /* looked up for those past their time; NULL: none */
};
enum fate member_fate(const struct member_seen *m, bool recreate);

/* The Sandbox that a pool makes (reference/api.md §5.3). */
struct json_doc *member_build(const struct object *pool, const struct object *template,
			      const char *blueprint_hash, const char *pod_hash);
struct json_doc *pool_status(const struct object *pool, uint64_t active, uint64_t ready);

#define SETTLE_MS \
	10000 /* nobody is given up sooner after we first saw it, whatever the clocks say */
#define GRACE_SLACK_MS  2000
#define STATUS_EVERY_MS 100  /* a pool that is claimed from all the time reports now and then */
#define PENDING_MAX     1000 /* members not Ready; more are made as these become so */
#define REST_LOW        4    /* a pool with a quarter of its members or less does not rest */
#define REST_MAX        4    /* times pool_rest_ms: the longest rest */
