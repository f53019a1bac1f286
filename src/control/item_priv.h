/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "loop/queue.h"

/*
 * What the controllers keep in the work queue that they share: keys "kind/namespace/name", and for
 * each of them what came of the writes that its last pass started.
 */
enum control_kind {
	CONTROL_SANDBOX,
	CONTROL_TEMPLATE,
	CONTROL_POOL,
	CONTROL_CLAIM,
	CONTROL_GC, /* its names are uids */
	CONTROL_NAMESPACE,
	CONTROL_EVENT_EXPIRY, /* one key without a name */
	CONTROL_KIND_MAX_,
};

struct key {
	enum control_kind kind;
	const char *ns, *name;
};

/* The writes of a pass are told apart by their purpose; one that failed rests in the next pass. */
enum slot {
	SLOT_SELF, /* the object's own metadata */
	SLOT_STATUS,
	SLOT_PVC,
	SLOT_POD,
	SLOT_SERVICE,
	SLOT_CHILD, /* the Sandbox of a claim, the members of a pool, the policy of a template */
	SLOT_REMOVE,
	SLOT_MAX_,
};

struct outcome {
	struct err *e; /* of the first write that failed */
	unsigned n_ok, n_failed;
};

struct item {
	struct queue_item q;
	struct key key;
	char *ns; /* the key's; its name is in the same block */
	struct outcome outcomes[SLOT_MAX_];
};

/* A pass for the object, whether it exists or not. */
void item_wake(struct queue *q, enum control_kind kind, const char *ns, const char *name);

/* For struct queue_spec. */
void item_init(void *arg, struct queue_item *it);
void item_done(void *arg, struct queue_item *it);
void item_slowed(void *arg, const struct queue_item *it, const struct err *e);
