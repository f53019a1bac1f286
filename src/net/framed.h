/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct buf;
struct loop;

/*
 * A connected socket that carries frames, on a loop. All it knows about frames is where each one
 * ends, which the owner tells it.
 *
 * Output that is added in a turn is sent at its end. The owner should stop adding while
 * framed_full() returns true (256 KiB); the output may still grow, so an answer always fits. Input
 * is read 64 KiB at a time and held only while a frame is incomplete or the connection is paused;
 * the owner limits it by rejecting frames that are too long. A turn of the loop passes on 128
 * frames of a connection at most.
 *
 * All callbacks come from the loop, never from inside one of these functions. framed_free() is
 * allowed in each of them.
 */
struct framed;

struct framed_events {
	/*
	 * Consumes the frame at the beginning of p[0..len) and sets *ret_used to its length; leaves
	 * it 0 if the frame is not complete yet. An error closes the connection. The bytes stay
	 * valid until this returns, even if the connection is freed here; the return value does not
	 * matter then.
	 */
	struct err *(*frame)(void *arg, const char *p, size_t len, size_t *ret_used);
	/* The output fell below the low mark (64 KiB) after framed_full(). May be NULL. */
	void (*drained)(void *arg);
	/*
	 * The peer closed the connection (ERR_UNAVAILABLE), the socket failed, or frame() returned
	 * this error. The callee owns e. Nothing else is called afterwards; free the connection now
	 * or later.
	 */
	void (*closed)(void *arg, struct err *e);
};

/* Takes ownership of fd. */
struct framed *framed_new(struct loop *l, int fd, const struct framed_events *ev, void *arg);
void framed_free(struct framed *f); /* closes at once and drops unsent output */
AUTOPTR(framed)

struct buf *framed_out(struct framed *f); /* add frames here, then call framed_kick() */
void framed_kick(struct framed *f);       /* sends at the end of this turn */
/* Sends what the socket takes now, for an owner whose next words must not overtake these. */
void framed_flush(struct framed *f);
bool framed_full(struct framed *f); /* true: wait for drained() */
/*
 * While the connection is paused, nothing is read and frame() is not called, not even for what was
 * read before.
 */
void framed_pause(struct framed *f, bool paused);
