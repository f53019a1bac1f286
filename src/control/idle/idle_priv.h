/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/object.h"
#include "api/view_sandbox.h"
#include "base/clock.h"
#include "control/idle/idle.h"
#include "control/pass/context.h"

struct map;

enum idle_action {
	IDLE_ACTION_FREEZE,
	IDLE_ACTION_SUSPEND,
	IDLE_ACTION_DELETE,
	IDLE_ACTION_MAX_,
};

/* When requests wake a suspended Sandbox. */
enum idle_wakes {
	IDLE_WAKES_ITS_OWN, /* if idleness suspended it */
	IDLE_WAKES_ANY,     /* whoever suspended it */
	IDLE_WAKES_NONE,
	IDLE_WAKES_MAX_,
};

/* policy.c */
struct idle_policy {
	uint64_t after_ms; /* 0: never */
	enum idle_action action;
	enum idle_wakes wakes;
	/* The first value that makes no sense; key NULL: there is none. Good as long as the objects
	 * are. */
	struct idle_bad {
		const char *key, *value, *allowed;
		const char *kind; /* of the object that has it */
		const char *name;
	} bad;
};
/* From the most particular to the most general; NULL ones are passed over. */
enum {
	IDLE_LEVELS = 4,
};
struct idle_policy idle_policy_of(const struct object *const levels[IDLE_LEVELS]);
bool idle_has_policy(const struct object *o);
/* The objects that a Sandbox gets its policy from; references, put with idle_levels_done(). */
void idle_levels(struct context *c, const struct object *sandbox, struct object *ret[IDLE_LEVELS]);
void idle_levels_done(struct object *levels[IDLE_LEVELS]);
const char *idle_action_name(enum idle_action a);

/* decide.c */
enum idle_sleep {
	IDLE_AWAKE,
	IDLE_FROZEN,
	IDLE_SUSPENDED, /* by idleness */
	IDLE_SLEEP_MAX_,
};

struct idle_seen {
	bool lives;     /* it is not being deleted, and belongs to no pool */
	bool suspended; /* its mode says so */
	bool marked;    /* by cay.dev/asleep-since */
	bool ready;     /* it is, and there is a node that could tell how it is used */
	bool known;     /* the node tells: */
	bool frozen;
	usec idle_us;        /* since it was last used */
	bool awaited;        /* a request into it has not been answered */
	bool refused;        /* it cannot be frozen, and that will not change */
	enum idle_sleep was; /* as its status says */
	const struct idle_policy *policy;
};

enum idle_step {
	IDLE_STEP_NONE,
	IDLE_STEP_FREEZE,
	IDLE_STEP_THAW, /* it has no policy any more */
	IDLE_STEP_SUSPEND,
	IDLE_STEP_DELETE,
	IDLE_STEP_UNMARK, /* somebody set its mode to Running */
};

struct idle_plan {
	enum idle_step step;
	uint64_t look_ms;    /* until the next look; 0: when something changes */
	enum idle_sleep now; /* for its status, before the step */
};
struct idle_plan idle_decide(const struct idle_seen *seen);

/* What is remembered of a Sandbox that has a policy or sleeps; nothing of it is needed after a
 * crash. */
struct nap {
	char *uid;
	enum idle_sleep is;
	char *told;         /* the last warning */
	bool refused;       /* see struct idle_seen */
	usec waking_since;  /* clock_mono(); 0: it is not being woken from its suspension */
	const char *waking; /* by what; static */
};

/* metrics.c */
enum {
	IDLE_CAUSES_MAX = 16,
	IDLE_BUCKETS = 10,
};
struct idle_counts {
	uint64_t sleeps[IDLE_SLEEP_MAX_], deleted;
	struct {
		enum idle_sleep from;
		const char *cause; /* static */
		uint64_t n;
	} wakes[IDLE_CAUSES_MAX];
	size_t n_wakes;
	struct idle_took {
		uint64_t in[IDLE_BUCKETS], n;
		usec sum;
	} took[IDLE_SLEEP_MAX_];
};
void idle_count_wake(struct idle_counts *c, enum idle_sleep from, const char *cause, usec took);

struct idle {
	struct context *c;
	struct map *naps; /* "ns/name" → struct nap, owned */
	struct idle_counts counts;
};
struct nap *idle_nap(struct idle *i, const struct object *sandbox); /* made if needed */
struct nap *idle_find_nap(const struct idle *i, const char *ns, const char *name);
void idle_drop_nap(struct idle *i, const char *ns, const char *name);
/* An Event about the Sandbox. type: "Normal" or "Warning". */
void idle_tell(struct idle *i, const struct object *sandbox, const char *type, const char *reason,
	       const char *note);
/* wake.c: it is Ready again, if it was being woken. */
void idle_woke(struct idle *i, const struct object *sandbox, struct nap *nap);
