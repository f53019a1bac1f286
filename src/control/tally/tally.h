/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/mem.h"

struct buf;
struct control_claim;
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
/* The claim becomes Ready for the first time. sandbox may be NULL. began: when it was first seen,
 * by the monotonic clock. */
struct tally_mark *tally_first_ready(const struct object *claim, const struct object *sandbox,
				     usec first_seen, usec began);
void tally_count(struct tally *t, const struct tally_mark *m, usec now);
void tally_mark_free(struct tally_mark *m);
AUTOPTR(tally_mark)

/* A Sandbox whose template resets it was put back into its pool, or deleted instead. */
void tally_reset(struct tally *t, bool returned);

/* recent.c: claims that became Ready lately, the newest first; all of the last minute, if they are
 * not too many. */
struct recent;
struct recent *recent_new(void);
void recent_free(struct recent *r);
void recent_add(struct recent *r, const struct control_claim *c); /* copied */
void recent_each(const struct recent *r, bool (*fn)(void *arg, const struct control_claim *c),
		 void *arg);                  /* until fn returns false */
uint64_t recent_seen(const struct recent *r); /* how many have been added ever */
const struct recent *tally_recent(const struct tally *t);

void tally_write(const struct tally *t, struct buf *b);

/* gauges.c: the Sandboxes, one after the other, and then the lines. */
struct gauges;
struct gauges *gauges_new(void);
void gauges_sandbox(struct gauges *g, const struct object *sandbox);
void gauges_write(const struct gauges *g, const struct index *ix, struct buf *b);
void gauges_free(struct gauges *g);
AUTOPTR(gauges)
