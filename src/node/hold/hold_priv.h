/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "loop/jobs.h"
#include "node/hold/hold.h"
#include "node/host/instance.h"

struct bell;
struct client_watch;
struct hold_record;
struct kind;
struct map;

struct hold {
	char *uid, *ns, *name; /* of the Sandbox */
	unsigned place;
	usec since;   /* wall clock */
	bool awaited; /* packets to it wake it, or it is on its way */
	bool taken;   /* its Pod has the address, and is not Ready yet */
	usec taken_at;
	usec told;             /* clock_mono(): of the last packet that was told of */
	struct object *as_pod; /* made when it is asked for */
};

struct holds {
	struct holds_spec spec;
	const struct kind *kind_sandbox, *kind_pod, *kind_event;
	struct map *all;            /* uid → struct hold, owned */
	struct hold *at[POOL_SIZE]; /* by place */
	struct client_watch *watch;
	struct bell *bell;
	struct timer *late; /* for those that are taken and do not get Ready */

	/* save.c */
	char *path;
	struct jobs jobs;
	uint64_t version, saved; /* of what is in memory, and of what is on the disk */
	struct list waiting;     /* struct holds_wait */
	struct saving {
		bool runs;
		uint64_t version;
		char *text;
		size_t len;
		struct err *e;
	} saving;
};

/* save.c */
void holds_load(struct holds *h, bool (*add)(struct holds *h, const struct hold_record *r));
void holds_save(struct holds *h); /* soon */

/* as_pod.c: what the policies need to know of the Pod that a Sandbox would have. */
struct object *hold_as_pod(const struct holds *h, const struct hold *o,
			   const struct object *sandbox);
