/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "loop/queue.h"

/*
 * The items of the work queue that the controllers share. Keys are "kind/namespace/name"; an item
 * also holds the outcomes of the writes that the key's last pass started.
 */
enum control_kind {
	CONTROL_SANDBOX,
	CONTROL_TEMPLATE,
	CONTROL_POOL,
	CONTROL_CLAIM,
	CONTROL_RESET, /* of a Sandbox whose claim has ended */
	CONTROL_GC,    /* its names are uids */
	CONTROL_NAMESPACE,
	CONTROL_PVC,
	CONTROL_DEFINITION, /* the end of a CustomResourceDefinition */
	CONTROL_ENDPOINTS,  /* of a Service */
	CONTROL_REPLICA_SET,
	CONTROL_DEPLOYMENT,
	CONTROL_EVENT_EXPIRY, /* one key without a name, as is the next */
	CONTROL_EVENTS,
	CONTROL_IDLE, /* of a Sandbox */
	CONTROL_AGENT,
	CONTROL_SESSION,
	CONTROL_ATTACHMENT,
	CONTROL_APPROVAL,
	CONTROL_BUDGET,
	CONTROL_LEDGER, /* one key for each namespace, without a name */
	CONTROL_KIND_MAX_,
};

struct key {
	enum control_kind kind;
	const char *ns, *name;
};

/* Each controller has an enum of the writes that its passes make, with at most so many names. What
 * came of a write is kept under its name until the next pass. */
#define WRITES_MAX 9

struct outcome {
	struct err *e; /* of the first write that failed */
	unsigned n_ok, n_failed;
};

struct item {
	struct queue_item q;
	struct key key;
	char *ns;                            /* the key's; its name is in the same block */
	struct outcome outcomes[WRITES_MAX]; /* by the name of the write */
	usec quiet_since;                    /* since when a report is put off; 0: none is */
};

/* Queues a pass for the object, whether or not it exists. */
void item_wake(struct queue *q, enum control_kind kind, const char *ns, const char *name);

/* The same once ms have gone by, unless there is a pass before. */
void item_wake_later(struct queue *q, const struct key *key, uint64_t ms);

/* For struct queue_spec. */
void item_init(void *arg, struct queue_item *it);
void item_done(void *arg, struct queue_item *it);
void item_slowed(void *arg, const struct queue_item *it, const struct err *e);
