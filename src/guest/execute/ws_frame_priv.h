/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/*
 * Frames of WebSocket (RFC 6455) as a server reads and writes them, strictly: those of a client are
 * masked, lengths are as short as they can be, and what is reserved is not used.
 */
enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

enum ws_code { /* why a connection is closed */
	WS_NORMAL = 1000,
	WS_PROTOCOL = 1002,
	WS_UNSUPPORTED = 1003,
	WS_INVALID = 1007,
	WS_POLICY = 1008,
	WS_TOO_BIG = 1009,
	WS_INTERNAL = 1011,
};

enum {
	WS_MESSAGE_MAX = 1024 * 1024,
	WS_CONTROL_MAX = 125,
};

struct ws_reader {
	struct buf message;          /* as far as it has come, over all its fragments */
	struct buf control;          /* what a control frame carries */
	enum ws_opcode opcode, kind; /* of the frame, and of the message that it belongs to */
	bool in_frame, in_message, fin;
	uint64_t left; /* of the frame */
	uint8_t mask[4];
	unsigned at; /* in the mask */
};

struct ws_event {
	enum ws_opcode opcode; /* never WS_CONTINUATION */
	struct span data;      /* until the next call */
	unsigned code;         /* of WS_CLOSE, 0: the peer gave none; or what is wrong */
};

enum ws_next {
	WS_MORE,  /* everything was used, and nothing is complete */
	WS_EVENT, /* *ret is a message or a control frame */
	WS_BAD,   /* ret->code says what is wrong with it */
};

/* Uses up what it can of in. */
enum ws_next ws_read(struct ws_reader *r, struct buf *in, struct ws_event *ret);
void ws_reader_done(struct ws_reader *r);
/* What precedes len bytes of a frame that is a message by itself. */
void ws_put_head(struct buf *out, enum ws_opcode opcode, size_t len);
/* Sec-WebSocket-Accept for a key. False: that is none. */
bool ws_accept_key(const char *key, char ret[32]);
