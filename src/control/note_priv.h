/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "control/index_priv.h"

struct map;

/*
 * What the claim controller remembers of a claim between passes, by uid. A crash loses it and
 * nothing but the exactness of two time stamps.
 */
struct note {
	usec first_seen;
	usec ready_at;      /* when we wrote the first Ready; 0: not yet, or before our time */
	char *reserved;     /* the member that our patch was sent for; NULL: none */
	unsigned conflicts; /* how many members in a row went to somebody else */
	struct waiter waiter;
};

struct notes;

struct notes *notes_new(void);
void notes_free(struct notes *n);
struct note *notes_need(struct notes *n, const struct object *claim, usec now);
struct note *notes_get(struct notes *n, const char *uid); /* NULL: none */
void notes_forget(struct notes *n, const char *uid);
