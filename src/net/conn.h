/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

struct loop;
struct stream;

/*
 * A connection: a stream on a loop with a buffer in each direction and back-pressure. Reading stops
 * by itself while the input buffer is full (64 KiB) or the owner has paused it; the owner is told
 * when the output has drained below the low mark, a quarter of the high mark (256 KiB, see
 * conn_full()).
 *
 * All callbacks come from the loop, never from inside one of these functions. conn_free() is
 * allowed in any callback, as its last act.
 */
struct conn;

struct conn_events {
	/*
	 * There are new bytes in `in`: consume what you can use. The rest is offered again together
	 * with the next bytes.
	 */
	void (*data)(void *arg, struct buf *in);
	/* The peer has ended its direction; writing still works. NULL: close after a flush. */
	void (*eof)(void *arg);
	/* The output fell below the low mark after conn_full(). May be NULL. */
	void (*drained)(void *arg);
	/*
	 * The connection is dead (e is NULL if both ends closed cleanly). The connection keeps e.
	 * Free it now or later.
	 */
	void (*closed)(void *arg, const struct err *e);
};

/* At most this much unread input is held. */
enum {
	CONN_IN_MAX = 64 * 1024,
};

/* Takes ownership of s. */
struct conn *conn_new(struct loop *l, struct stream *s, const struct conn_events *ev, void *arg);
void conn_free(struct conn *c); /* closes at once and drops unsent output */
AUTOPTR(conn)
/*
 * Changes the owner, for upgrades. The new owner is told of unread input and of an end that was
 * seen.
 */
void conn_set_events(struct conn *c, const struct conn_events *ev, void *arg);

/* Buffered: what is written in a turn is sent at its end, or as soon as there are 64 KiB of it. */
void conn_write(struct conn *c, const void *p, size_t len);
/* What was written before this and what comes after it never share a TLS record. */
void conn_cut(struct conn *c);
bool conn_full(const struct conn *c); /* above the high mark: stop producing until drained */
void conn_set_high(struct conn *c, size_t high); /* another high mark; 0: the default */
size_t conn_unsent(const struct conn *c);
void conn_pause(struct conn *c, bool paused); /* no data callbacks while paused */
void conn_end(struct conn *c);                /* half-closes after the buffered output */
/*
 * Calls closed() afterwards. Input is dropped in the meantime; the peer has a second after the
 * flush to end too.
 */
void conn_close_after_flush(struct conn *c);
/* How long its stream has worked in another thread so far, in handshakes: nothing that the peer
 * could have done meanwhile would count. */
usec conn_worked(const struct conn *c);

/* closed() with ERR_TIMEOUT after ms in which no byte moved; 0: never. */
void conn_set_idle_ms(struct conn *c, uint64_t ms);
/* closed() with ERR_TIMEOUT if output is waiting and none of it could be sent for ms; 0: never. */
void conn_set_stall_ms(struct conn *c, uint64_t ms);
/* closed() with ERR_TIMEOUT after ms, whatever moves until then; 0: never. */
void conn_set_answer_ms(struct conn *c, uint64_t ms);
usec conn_moved(const struct conn *c); /* when a byte last moved in either direction */
struct buf *conn_in(struct conn *c);   /* unread input, for a new owner */
void conn_ate(struct conn *c); /* call this after consuming a full input outside of data() */
struct stream *conn_stream(struct conn *c);
struct loop *conn_loop(struct conn *c);
