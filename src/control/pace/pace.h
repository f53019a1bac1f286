/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "base/mem.h"

struct buf;
struct loop;

/*
 * Whether launches should yield to claims at the moment.
 */
struct pace;

enum {
	PACE_QUIET_MS = 100, /* so long after a claim others are expected */
};

/* On the monotonic clock; 0: never. */
struct pace_seen {
	usec now;
	usec claimed_at; /* the last claim came */
	usec low_at;     /* the last claim came that met a pool which runs low */
};

bool pace_decide(const struct pace_seen *s);       /* true: yield */
usec pace_stands_until(const struct pace_seen *s); /* without further claims; 0: for ever */

/* changed(arg, yield) is told of every change; NULL: nobody listens. It is not told of the
 * beginning, when nothing yields. */
struct pace *pace_new(struct loop *l, void (*changed)(void *arg, bool yield), void *arg);
void pace_free(struct pace *p);
AUTOPTR(pace)

void pace_claim(struct pace *p, bool low); /* a claim came; low: its pool runs low */
void pace_metrics(const struct pace *p, struct buf *b);
