/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "control/idle/idle_priv.h"

/*
 * When a Sandbox falls asleep, and what it does then. Pure.
 *
 * Use that left only counters behind is known to have been at some time between two looks. There
 * are four in the time that the policy gives, so a Sandbox sleeps at most a quarter later than it
 * could, and never earlier.
 */
enum {
	LOOKS = 4,
	LOOK_MIN_MS = 100,
	LOOK_MAX_MS = 60 * 1000,
	UNKNOWN_MS = 500, /* the node is starting, or the Pod is about to go */
};

static uint64_t look_ms(const struct idle_seen *seen)
{
	uint64_t after = seen->policy->after_ms;
	uint64_t idle = seen->idle_us > 0 ? (uint64_t)seen->idle_us / 1000 : 0;
	uint64_t left = after > idle && !seen->awaited ? after - idle : after;

	left = MIN(left, after / LOOKS);
	left = MIN(left, (uint64_t)LOOK_MAX_MS);
	return MAX(left, (uint64_t)LOOK_MIN_MS);
}

static bool is_idle(const struct idle_seen *seen)
{
	return !seen->awaited && seen->idle_us >= (usec)seen->policy->after_ms * 1000;
}

static enum idle_step step_of(const struct idle_seen *seen)
{
	switch (seen->policy->action) {
	case IDLE_ACTION_FREEZE:
		return seen->refused ? IDLE_STEP_NONE : IDLE_STEP_FREEZE;
	case IDLE_ACTION_SUSPEND:
		return IDLE_STEP_SUSPEND;
	case IDLE_ACTION_DELETE:
		return IDLE_STEP_DELETE;
	case IDLE_ACTION_MAX_:
		break;
	}
	return IDLE_STEP_NONE;
}

struct idle_plan idle_decide(const struct idle_seen *seen)
{
	struct idle_plan plan = { .now = IDLE_AWAKE };

	if (!seen->lives)
		return plan;
	if (seen->suspended) {
		plan.now = seen->marked ? IDLE_SUSPENDED : IDLE_AWAKE;
		return plan;
	}
	if (seen->marked) {
		plan.step = IDLE_STEP_UNMARK;
		return plan;
	}
	if (!seen->known && seen->ready) {
		plan.now = seen->was;
		plan.look_ms = UNKNOWN_MS;
	}
	if (!seen->known)
		return plan;
	if (seen->frozen) {
		plan.now = IDLE_FROZEN;
		plan.step = seen->policy->after_ms ? IDLE_STEP_NONE : IDLE_STEP_THAW;
	}
	/* A frozen one goes on to be idle: its policy may ask for more by now. */
	if (!seen->policy->after_ms || (seen->frozen && seen->policy->action == IDLE_ACTION_FREEZE))
		return plan;
	if (is_idle(seen))
		plan.step = step_of(seen);
	plan.look_ms = look_ms(seen);
	return plan;
}
