/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct buf;
struct loop;

/*
 * A connected socket that carries frames, on a loop. It knows nothing about the frames but where
 * each ends, which the owner tells it.
 *
 * Output that is added in a turn leaves together at its end. The owner should stop adding while
 * framed_full() says so (256 KiB); the output may still grow, so answers need no room. Input is
 * read 64 KiB at a time and held only as long as a frame is incomplete or the connection is
 * paused; the owner limits it by refusing frames that are too long.
 *
 * All callbacks come from the loop, never from inside a call of these functions. framed_free() is
 * allowed in each of them.
 */
struct framed;

struct framed_events {
	/*
	 * Takes the frame at the beginning of p[0..len) and sets *ret_used to its length; leaves it
	 * 0 when the frame is not complete yet. An error closes the connection. The bytes stay
	 * where they are until this returns, even if the connection is freed here; what it returns
	 * does not matter then.
	 */
	struct err *(*frame)(void *arg, const char *p, size_t len, size_t *ret_used);
	/* The output has fallen below the low mark (64 KiB) after framed_full(). May be NULL. */
	void (*drained)(void *arg);
	/*
	 * The peer has closed (ERR_UNAVAILABLE), the socket failed, or frame() returned this error,
	 * which becomes the callee's. Nothing else is called afterwards; free the connection now or
	 * later.
	 */
	void (*closed)(void *arg, struct err *e);
};

/* Takes fd over. */
struct framed *framed_new(struct loop *l, int fd, const struct framed_events *ev, void *arg);
void framed_free(struct framed *f); /* closes at once and drops what was not sent */
AUTOPTR(framed)

struct buf *framed_out(struct framed *f); /* add frames here, then call framed_kick() */
void framed_kick(struct framed *f);       /* sends at the end of this turn */
bool framed_full(struct framed *f);       /* true: wait for drained() */
/* While it is paused nothing is read and no frame() is called, not even for what was read before.
 */
void framed_pause(struct framed *f, bool paused);
