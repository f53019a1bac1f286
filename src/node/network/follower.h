/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

struct client;
struct client_watch;
struct loop;
struct object;
struct timer;

/*
 * Follows several kinds of objects, from which something is computed anew when any of them changes.
 * Changes come in crowds, so that one only sets a short timer; and the computing takes at most a
 * tenth of the loop's time, however long it takes. On the loop's thread.
 */
enum {
	FOLLOWER_KINDS_MAX = 3,
};
struct follower_kind {
	const char *version, *kind;
	/* Calls follower_look_soon() if it matters. It may be called from within follower_init().
	 * NULL: it never does. */
	void (*changed)(void *arg, struct object *was, struct object *now);
};
struct follower_spec {
	struct loop *loop;
	struct client *client;
	const struct follower_kind *kinds; /* outlives it */
	size_t n_kinds;
	void (*look)(void *arg); /* not before all objects are known and the loop has turned */
	void *arg;
};
struct follower {
	struct follower_spec spec;
	struct follower_watch {
		struct follower *follower;
		const struct follower_kind *kind;
		struct client_watch *watch;
	} watches[FOLLOWER_KINDS_MAX];
	size_t n_synced;
	struct timer *timer;
	usec rest_until;
};

void follower_init(struct follower *f, const struct follower_spec *spec);
void follower_done(struct follower *f);
bool follower_synced(const struct follower *f); /* all objects are known */
void follower_look_soon(struct follower *f);

/* The objects of a kind as they are now, good until the loop turns. */
struct follower_objects {
	struct object **list; /* borrowed; the list itself is malloc'd */
	size_t n, cap;
};
void follower_list(const struct follower *f, struct follower_objects ret[]); /* one for each kind */
void follower_objects_done(struct follower_objects *o);
