/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/object.h"
#include "base/clock.h"
#include "control/index/index.h"
#include "control/pass/pass.h"
#include "control/pool/pool.h"
#include "json/json.h"

/*
 * The SandboxWarmPool controller (docs/reference/agent-sandbox.md §5): a pass observes
 * (observe.c), decides (decide.c, pure), acts and reports (pool.c).
 */

/* What the passes write. */
enum pool_write {
	POOL_WRITE_PATCH_MEMBER, /* the patch that labels a member, or makes one of an orphan */
	POOL_WRITE_STATUS,       /* the pool's status */
	POOL_WRITE_CREATE_MEMBER,
	POOL_WRITE_REMOVE_MEMBER,
	POOL_WRITE_MAX_,
};
_Static_assert(POOL_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

/* Observing */

/* A member that changed, or that was not fine the last time. */
struct member_seen {
	struct object *sandbox; /* a reference */
	struct member *member;  /* valid until the first write */
	bool deleting, ready, warm;
	bool taken;       /* a claim is about to own it */
	bool stale;       /* determined only if the pool recreates stale members */
	bool unplaceable; /* no node accepts its Pod; determined once its time is up */
	usec age;
};
/* A Sandbox with the pool's label that has no controller. */
struct orphan_seen {
	struct object *sandbox; /* a reference */
	bool deleting, stale;
};
/* A member that could be removed if there are too many. */
struct spare_seen {
	struct object *sandbox; /* a reference */
	bool ready;
	usec created;
	uint64_t seq;
};

struct pool_seen {
	struct object *pool, *template; /* references; template NULL: missing */
	struct roster *roster;
	struct member_seen *members;
	struct orphan_seen *orphans;
	struct spare_seen *spares; /* all members, if there are more than desired */
	size_t n_members, n_orphans, n_spares;
	uint64_t n_fine; /* further members, Ready and warm */
	int64_t desired;
	bool recreate;
	bool refill_off; /* the pool's annotation says that it makes no members */
	int64_t n_lent;  /* Sandboxes of claims that it waits for instead of making others */

	struct pool_memory memory;
	unsigned n_created, n_not_created; /* by the last pass */
	bool patch_rests, remove_rests;    /* those writes failed in the last pass */
	uint64_t max_batch, recheck_ms;
	uint64_t grace_ms; /* for a member to become Ready */
	uint64_t rest_ms;  /* for a refill to wait after a claim */
	usec now;
};
/* False when there is no such pool. seen must be zero before, and be passed to pool_seen_done() in
 * any case. */
bool pool_observe(struct pass *p, struct pool_seen *seen);
void pool_seen_done(struct pool_seen *seen);
/* Not placed, and any other Pod of the kind would not be either. NULL: no Pod. */
bool pod_unplaceable(const struct object *pod);

/* Deciding */

/* What becomes of a member. */
enum fate {
	FATE_TERMINATING,
	FATE_STALE, /* is removed, because the template has changed */
	FATE_ACTIVE,
	FATE_YOUNG, /* active and not Ready, with time left */
	FATE_STUCK, /* is removed, because its time is up */
	FATE_HELD,  /* its time is up, but another would fare no better */
};
enum fate member_fate(const struct member_seen *m, uint64_t grace_ms, bool recreate);

/* How many to make or remove. */
struct pool_counts {
	int64_t desired;
	int64_t lent; /* come back; they leave less to make */
	uint64_t active, ready, terminating, unschedulable;
	bool template_found, refill_off;
	uint64_t grace_left_ms; /* until the first member's time to become Ready is up; 0: never */
	uint64_t max_batch, burst, recheck_ms;
	uint64_t rest_left_ms; /* claims are being served: creates wait this long */
};
struct pool_scale {
	uint64_t create, remove;
	bool stalled; /* no progress until something outside changes */
	uint64_t again_ms;
};
struct pool_scale pool_scale(const struct pool_counts *c);

struct chosen {
	struct object **v; /* borrowed */
	size_t n, cap;
};
struct pool_plan {
	struct chosen remove, relabel, adopt; /* come first: with any of these the rest waits */
	struct member **fine;                 /* need no attention until they change */
	size_t n_fine;
	uint64_t create;
	struct chosen trim; /* too many */
	struct pool_counts counts;
	struct pool_memory memory; /* for the next pass */
	uint64_t again_ms;         /* 0: when something changes */
	bool spread;               /* again_ms is the same for many pools: vary it */
};
struct pool_plan pool_decide(const struct pool_seen *seen);
void pool_plan_done(struct pool_plan *plan);

/* Building */

/* The guarded patch that labels a member as warm; pool NULL: it stays its owner's. */
struct json_doc *member_patch(const struct object *sandbox, const struct object *pool);
struct json_doc *pool_status(const struct object *pool, uint64_t active, uint64_t ready);

#define SETTLE_MS \
	10000 /* no member is given up sooner after we first saw it, whatever the clocks say */
#define GRACE_SLACK_MS  2000
#define STATUS_AFTER_MS 100  /* what changes meanwhile is one write of the status */
#define PENDING_MAX     1000 /* members not Ready; more are made as these become so */
#define REST_LOW        4    /* a pool with a quarter of its members or less does not rest */
#define REST_MAX        4    /* times pool_rest_ms: the longest rest */
