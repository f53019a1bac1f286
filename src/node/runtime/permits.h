/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "base/list.h"
#include "loop/loop.h"

/*
 * How much is launched and removed at a time. Whatever keeps a processor busy outside this process
 * holds a permit while it does: a slot or a network that is being made, a task until its command
 * runs, a removal. There are enough of them to keep all processors busy, and while launches yield
 * (native_set_pace()) so few that one is left for the loop.
 *
 * A permit that is held too long (PERMIT_MS) no longer counts: whoever hangs keeps nobody else
 * from being launched.
 */
enum {
	PERMIT_MS = 2000,
};

struct permits;

struct permit { /* embedded in whoever holds it; all zeroes at first */
	struct list on;
	struct permits *of; /* NULL: it is not held */
	usec since;
};

struct permits {
	struct list held; /* struct permit, oldest first */
	unsigned n, full, yield;
	bool yields, unlimited;
	struct timer *late;
	struct deferred again;
	void (*freed)(void *arg);
	void *arg;
};

/* freed() comes from the loop, after permits were given back or there are more of them. */
void permits_init(struct permits *p, struct loop *l, void (*freed)(void *arg), void *arg);
void permits_done(struct permits *p); /* whoever holds one may still give it back */

/* How many may be taken now. urgent: for somebody who waits; yielding does not concern them. */
unsigned permits_left(const struct permits *p, bool urgent);
void permit_take(struct permits *p, struct permit *t); /* the caller has looked, or cannot wait */
void permit_put(struct permit *t);                     /* if it is held */

void permits_yield(struct permits *p, bool yield);
void permits_lift(struct permits *p); /* everything may go at once from now on: it is the end */
