/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/mem.h"

struct buf;
struct index;
struct object;

/* What the controllers count. */
struct tally;
struct tally *tally_new(void);
void tally_free(struct tally *t);
AUTOPTR(tally)

/*
 * What is to be counted once a write has worked. It keeps nothing of the objects.
 */
struct tally_mark;
/* The claim adopts the member of a pool, or creates a Sandbox from the template. */
struct tally_mark *tally_adopted(const struct object *claim, const struct object *member);
struct tally_mark *tally_created(const struct object *claim, const struct object *template);
/* The claim becomes Ready for the first time. sandbox may be NULL. */
struct tally_mark *tally_first_ready(const struct object *claim, const struct object *sandbox,
				     usec first_seen);
void tally_count(struct tally *t, const struct tally_mark *m, usec now);
void tally_mark_free(struct tally_mark *m);
AUTOPTR(tally_mark)

void tally_write(const struct tally *t, struct buf *b);

/* gauges.c: the Sandboxes, one after the other, and then the lines. */
struct gauges;
struct gauges *gauges_new(void);
void gauges_sandbox(struct gauges *g, const struct object *sandbox);
void gauges_write(const struct gauges *g, const struct index *ix, struct buf *b);
void gauges_free(struct gauges *g);
AUTOPTR(gauges)
