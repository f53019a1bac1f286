/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

struct loop;

/*
 * A queue of keys that want a pass: each key at most once, first come, first served.
 *
 * A key runs alone, and never while operations that it started are under way (queue_hold()): what
 * happens meanwhile marks it, and it runs again when the last of them has ended. Everything that
 * is added in a turn of the loop runs in that turn, unless it takes so long (turn_ms) that the
 * loop's other work would starve; the rest then runs in the next turns.
 *
 * A key is known to the queue as an item, from the moment it is added until it has nothing more to
 * do: it is not ready, waits for no time, holds nothing, and its last pass did not fail. Then the
 * item is freed; adding the key makes a new one.
 */
struct queue;

/* The first member of the user's own item struct. All but the key is the queue's. */
struct queue_item {
	const char *key;
	struct queue *queue;
	struct list on_ready;
	bool queued, running, dirty;
	unsigned n_held;
	unsigned n_failures; /* passes in a row that asked for a retry */
	unsigned n_passes;   /* in this epoch, that is since the queue was last empty */
	unsigned epoch;
	usec due;
	size_t heap_at; /* from 1; 0: waits for no time */
};

/* What a pass says about the next one of its key. Whatever it says, an addition comes sooner. */
struct again {
	enum {
		AGAIN_NEVER, /* until the key is added again */
		AGAIN_AFTER, /* after ms */
		AGAIN_RETRY, /* after a pause that doubles with each failure */
		AGAIN_WAIT,  /* operations were started; their end decides */
	} how;
	uint64_t ms;   /* AGAIN_RETRY: the longest pause; 0: it may get as long as it likes */
	struct err *e; /* AGAIN_RETRY: why */
};
struct again again_never(void);
struct again again_after(uint64_t ms);
struct again again_retry(struct err *e); /* takes e over */
struct again again_wait(void);

struct queue_spec {
	struct loop *loop;
	size_t item_size; /* of the struct that begins with struct queue_item; 0: that alone */
	uint64_t turn_ms; /* what it may take of one turn of the loop; 0: 20 */
	/* One pass. It may add keys, its own included, but not free the queue. */
	struct again (*run)(void *arg, struct queue_item *it);
	/* Fills in the rest of a new item, which is all zero; may be NULL. */
	void (*item_init)(void *arg, struct queue_item *it);
	/* Releases what the rest of the item owns; may be NULL. */
	void (*item_done)(void *arg, struct queue_item *it);
	/* The key has to pause because of e: a pass asked for a retry, or they never end. May be
	 * NULL. */
	void (*slowed)(void *arg, const struct queue_item *it, const struct err *e);
	void *arg;
};

struct queue *queue_new(const struct queue_spec *spec); /* runs nothing until it is opened */
void queue_open(struct queue *q);
/* Frees held items too: the user must make sure that nothing releases them afterwards. */
void queue_free(struct queue *q);
AUTOPTR(queue)

/* A pass later in this turn, or as soon as the key is no longer running or held. */
struct queue_item *queue_add(struct queue *q, const char *key);
/* A pass once ms have gone by, unless there is one before. For what has time: many such additions
 * of a key are one pass. */
void queue_add_later(struct queue *q, const char *key, uint64_t ms);
struct queue_item *queue_find(const struct queue *q, const char *key); /* NULL: not known */
size_t queue_len(const struct queue *q); /* keys that are known, in whatever state */

/*
 * An operation of the key has begun: during a pass of the key, or while it is held already. It has
 * ended; with wake the key gets a pass once no other is under way. The item may be gone after that.
 */
void queue_hold(struct queue_item *it);
void queue_release(struct queue_item *it, bool wake);

uint64_t queue_backoff_ms(unsigned n_failures); /* 5 ms at first, then twice as long each time */
/* For tests: makes whatever waits due ms earlier; and from now on nothing else does. */
void queue_step(struct queue *q, uint64_t ms);
void queue_hold_time(struct queue *q);
