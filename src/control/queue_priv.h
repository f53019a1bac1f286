/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

struct loop;

/*
 * The work queue that the controllers share: keys, each at most once, in the order they came.
 *
 * A key runs alone, and never while writes that it started are under way: what happens meanwhile
 * marks it, and it runs again when the last of them has ended. Everything that is queued in a turn
 * of the loop runs in that turn, unless it is so much that the loop's other work would starve.
 */
enum control_kind {
	CONTROL_SANDBOX,
	CONTROL_TEMPLATE,
	CONTROL_POOL,
	CONTROL_CLAIM,
	CONTROL_KIND_MAX_,
};

struct key {
	enum control_kind kind;
	const char *ns, *name;
};

/* What a pass says about the next one of its key. */
struct again {
	enum {
		AGAIN_NEVER, /* until something changes */
		AGAIN_AFTER,
		AGAIN_RETRY, /* after a pause that doubles each time */
		AGAIN_WAIT,  /* writes were started; their end runs the key */
	} how;
	uint64_t ms;
	struct err *e; /* AGAIN_RETRY: why */
};
struct again again_never(void);
struct again again_after(uint64_t ms);
struct again again_retry(struct err *e); /* takes e over */
struct again again_wait(void);

/* The writes of a pass are told apart by what they are for; one that failed rests in the next pass.
 */
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

/* A key while it is queued, waits for its time, or has writes under way. */
struct item {
	struct key key;
	char *ns, *name; /* the key's */
	char *id;        /* "kind/ns/name" */
	struct list link;
	bool queued, running, dirty;
	unsigned n_writes;
	unsigned n_failures; /* passes in a row that asked for a retry */
	unsigned n_passes;   /* in this epoch: since the queue was last empty */
	unsigned epoch;
	usec due;
	size_t heap_at; /* from 1; 0: not waiting */
	struct outcome outcomes[SLOT_MAX_];
};

#define BACKOFF_MIN_MS 5
#define BACKOFF_MAX_MS (1000 * 1000)

struct queue;
typedef struct again (*queue_run)(void *arg, struct item *it);

struct queue *queue_new(struct loop *l, queue_run run,
			void *arg); /* holds everything until opened */
void queue_free(struct queue *q);
void queue_open(struct queue *q);
void queue_add(struct queue *q, enum control_kind kind, const char *ns, const char *name);

/* A write of the key has begun, and has ended. wake: the key runs once no other is under way. */
void queue_write_begin(struct queue *q, struct item *it);
void queue_write_end(struct queue *q, struct item *it, bool wake);

uint64_t queue_backoff_ms(unsigned n_failures); /* 5 ms for the first, then twice as long each */
/* For tests: what waits is due ms earlier. */
void queue_step(struct queue *q, uint64_t ms);
size_t queue_len(const struct queue *q); /* keys it knows of, in whatever state */
