/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What the passes write. */
enum reset_write {
	RESET_WRITE_POD, /* the deletion of what the Sandbox has, as are the next two */
	RESET_WRITE_SERVICE,
	RESET_WRITE_PVC,
	RESET_WRITE_RELEASE, /* the patch that drops the finalizer: the Sandbox is gone */
	RESET_WRITE_MAX_,
};

/* Everything that a decision depends on. */
struct reset_seen {
	bool claimed;        /* a claim controls it, or did until it was deleted */
	bool claim_lives;    /* and has not ended */
	bool pool, template; /* exist, and are not being deleted */
	bool resets;         /* the template still says so */
	int64_t desired;     /* members, according to the pool */
	int64_t members;     /* that it has, and waits for instead of making others */
	unsigned held;       /* finalizers of others */
	bool foreground;     /* one more: garbage collection deletes its dependents */
	bool named;          /* a session or attachment names it */
	bool strange;        /* something of its names is not its own */
	unsigned left;       /* of its own Pods, Services and volumes, those that still exist */
};

enum reset_step {
	RESET_STEP_WIPE,    /* delete what is left, and wait for the end of it */
	RESET_STEP_RETURN,  /* drop the finalizer, and make a member of its name */
	RESET_STEP_RELEASE, /* drop the finalizer: it is deleted as any other */
};
struct reset_plan {
	enum reset_step step;
	const char *why; /* of a release, static */
};
struct reset_plan reset_decide(const struct reset_seen *s);
