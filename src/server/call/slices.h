/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "base/list.h"

struct call;
struct loop;
struct timer;

/*
 * Long answers in slices: all of them together take a fraction of a millisecond of a turn, in
 * rotation, so that a short request beside them waits for one slice and not for a whole list.
 */
struct slices {
	struct timer *timer;
	struct list ready; /* struct slice */
};
void slices_init(struct slices *ss, struct loop *l);
void slices_done(struct slices *ss);

/* One answer, embedded in its owner. */
struct slice {
	struct call *call; /* whose answer it is; outlives the slice */
	struct list link;  /* of slices->ready while there is something to do */
	/* Produces until `until` at most. True: there is more, and the peer takes it. May free the
	 * slice when it returns false. */
	bool (*run)(struct slice *s, usec until);
};
void slice_init(struct slice *s, struct call *c, bool (*run)(struct slice *s, usec until));
void slice_wake(struct slices *ss, struct slice *s); /* changes nothing while it is ready */
void slice_cancel(struct slice *s);                  /* before its owner is freed */
