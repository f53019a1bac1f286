/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct loop;
struct stream;

/*
 * A connection: a stream on a loop with buffers at both ends and back-pressure. Reading stops by
 * itself while the input buffer is full (64 KiB) or the owner paused it; the owner is told when the
 * output has drained below the low mark (64 KiB; the high mark is 256 KiB, see conn_full()).
 *
 * All callbacks come from the loop, never from inside a call of these functions. conn_free() is
 * allowed in any callback, as its last act.
 */
struct conn;

struct conn_events {
	/* New bytes are in `in`: eat what you can use. What stays comes again with the next. */
	void (*data)(void *arg, struct buf *in);
	/* The peer ended its sending; writing still works. NULL: close after flush. */
	void (*eof)(void *arg);
	/* Output fell below the low mark after conn_full(). May be NULL. */
	void (*drained)(void *arg);
	/*
	 * The connection is dead (e NULL: both ends closed cleanly). e stays the connection's.
	 * Free it now or later.
	 */
	void (*closed)(void *arg, const struct err *e);
};

/* So much unread input is held at most. */
enum {
	CONN_IN_MAX = 64 * 1024,
};

/* Takes s over. */
struct conn *conn_new(struct loop *l, struct stream *s, const struct conn_events *ev, void *arg);
void conn_free(struct conn *c); /* closes at once, dropping unsent output */
AUTOPTR(conn)
/* Who owns it now, for upgrades. Unread input and an end that was seen are told to the new owner.
 */
void conn_set_events(struct conn *c, const struct conn_events *ev, void *arg);

/* Buffered: what a turn wrote leaves together at its end, or when 64 KiB have come together. */
void conn_write(struct conn *c, const void *p, size_t len);
bool conn_full(const struct conn *c); /* above the high mark: stop producing until drained */
size_t conn_unsent(const struct conn *c);
void conn_pause(struct conn *c, bool paused); /* no data callbacks while paused */
void conn_end(struct conn *c);                /* half-close after what is buffered */
/* Then closed(). Input is dropped meanwhile; the peer has a second after the flush to end too. */
void conn_close_after_flush(struct conn *c);
/* closed() with ERR_TIMEOUT after ms without any byte moving; 0: never. */
void conn_set_idle_ms(struct conn *c, uint64_t ms);
/* closed() with ERR_TIMEOUT when output waits and none of it could be sent for ms; 0: never. */
void conn_set_stall_ms(struct conn *c, uint64_t ms);
struct buf *conn_in(struct conn *c); /* unread input, for whoever takes over */
void conn_ate(struct conn *c);       /* of a full input, outside of data(): there is room again */
struct stream *conn_stream(struct conn *c);
struct loop *conn_loop(struct conn *c);
