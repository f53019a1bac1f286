/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct wire_frame;

/*
 * A guest as the node sees it: what it may send next on one connection, given what the node has
 * sent. Code in the sandbox may have taken the guest over, so every frame is checked here before
 * anybody acts on it: the order of frames, which streams are open, credit and output against the
 * window, and every value inside. A frame that passes can be decoded, and its values are in range.
 *
 * The node opens one stream on a connection, WIRE_NODE_STREAM. The functions below the struct are
 * told what the node sends; the caller sends it.
 */
#define WIRE_NODE_STREAM 1

enum wire_stream {
	WIRE_STREAM_NONE,
	WIRE_STREAM_OPENING, /* EXEC, DIAL or ATTACH was sent and not answered */
	WIRE_STREAM_OPEN,
	WIRE_STREAM_HALF, /* the peer of a dialled port has sent everything */
	WIRE_STREAM_OVER,
	WIRE_STREAM_MAX_,
};

struct wire_peer {
	bool greeted;        /* READY came */
	bool starting;       /* START was sent and not answered */
	bool exited;         /* the command's EXITED came */
	unsigned asked;      /* STATUS frames that were not answered */
	bool tells_busy;     /* it may be asked for BUSY */
	unsigned busy_asked; /* such questions that were not answered */
	enum wire_stream stream;
	bool dial;
	uint32_t credit; /* bytes of input that the guest accepts now, WIRE_WINDOW at most */
	uint32_t window; /* bytes of output that it may still send */
};

/* All zeroes is a new connection, after HELLO. */
void wire_peer_start(struct wire_peer *p);
void wire_peer_status(struct wire_peer *p);
void wire_peer_ask_busy(struct wire_peer *p); /* only if it tells_busy */
void wire_peer_open(struct wire_peer *p, bool dial);
void wire_peer_input(struct wire_peer *p, uint32_t len);  /* at most p->credit */
void wire_peer_grant(struct wire_peer *p, uint32_t more); /* what has come and was passed on */

/* ERR_MALFORMED, with a text that says what was wrong: the connection must be closed. */
must_use struct err *wire_peer_check(struct wire_peer *p, const struct wire_frame *f);
