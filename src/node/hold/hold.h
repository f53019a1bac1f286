/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mem.h"

struct client;
struct instance;
struct loop;
struct object;
struct runtime;

/*
 * Addresses that belong to Sandboxes which have no Pod at the moment, because they are suspended or
 * because their Pod is being replaced. Such an address is given to nobody else, and the next Pod of
 * that Sandbox has it again.
 *
 * Who holds which address is known to the node alone, by the uid of the Sandbox: nothing that API
 * users write takes an address. On the loop's thread.
 */
struct holds;

struct holds_spec {
	struct loop *loop;
	struct client *client;
	struct runtime *runtime;
	const struct instance *instance;
	const char *node_name; /* outlives it */
	unsigned max;          /* addresses; 0: half of the pool. Then the oldest hold is let go */
	void (*changed)(void *arg); /* holds_each() has another answer now */
	/* A packet came for a Sandbox that idleness suspended. Not more than a few times a second.
	 */
	void (*knocked)(void *arg, const char *ns, const char *sandbox);
	void *arg;
};

/* Reads what an earlier run wrote down and reserves it: before the loop turns for the first time
 * after the runtime was opened. */
struct holds *holds_open(const struct holds_spec *spec);
void holds_start(struct holds *h); /* follows Sandboxes; what belongs to none any more is let go */
void holds_free(struct holds *h);  /* writes down what is not yet; turns the loop */
AUTOPTR(holds)

/* For Pods. All of these accept NULL for h, and then do nothing. */

/* The Pod is deleted: from now on its address is held if it has a Sandbox that lives. Before its
 * network is put. */
bool holds_keep(struct holds *h, const struct object *pod, const char *ip);
/* The same for one that was deleted before the daemon started, by its state file. */
struct holds_left {
	const char *ns, *pod, *sandbox, *sandbox_uid, *ip; /* each may be NULL */
};
void holds_keep_left(struct holds *h, const struct holds_left *l);
/* The address that is held for this Pod; NULL: none. Good until the loop turns. */
const char *holds_address(struct holds *h, const struct object *pod);
/* Whether the address is held for anybody but this Pod. */
bool holds_for_other(struct holds *h, const struct object *pod, const char *ip);
/* The Pod has a network, new or found again. */
void holds_taken(struct holds *h, const struct object *pod, const char *ip);
/* Its status says so, and that it is Ready: the hold is over, and others reach it. Without that it
 * is over after half a minute. */
void holds_ready(struct holds *h, const struct object *pod);

/* Somebody who waits until all that is held now is on the disk, or could not be written; embedded
 * in whoever waits, who may take it off the list. */
struct holds_wait {
	struct list on;
	void (*saved)(struct holds_wait *w);
	uint64_t version; /* ours */
};
bool holds_await(struct holds *h, struct holds_wait *w); /* false: it is so already */

/* Of each Sandbox that holds an address, the Pod that it would have: borrowed until the loop turns.
 */
void holds_each(struct holds *h, void (*fn)(void *arg, struct object *pod), void *arg);
