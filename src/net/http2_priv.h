/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <nghttp2/nghttp2.h>

#include "net/http2_fields_priv.h"
#include "net/http_server_priv.h"

/*
 * HTTP/2: http2_conn.c has the connection, http2_session.c what nghttp2 does for it, http2_stream.c
 * one request on it, http2_answer.c its answer.
 */
enum {
	HTTP2_STREAMS_MAX = 128,
	HTTP2_WINDOW = 128 * 1024, /* of a stream: bytes of a body that nobody has asked for */
	HTTP2_CONN_WINDOW = 1024 * 1024,   /* of all its streams together */
	HTTP2_HELD_MAX = 16 * 1024 * 1024, /* bytes of bodies for handlers that want them whole */
	HTTP2_UNSENT_MAX =
		4 * 1024 * 1024, /* bytes of answers, beyond which there are no new ones */
};

struct http2_conn {
	struct http_link link;
	nghttp2_session *session;
	struct list streams; /* struct http2_stream.link */
	struct list ready;   /* struct http2_stream.ready: something is to be told */
	size_t n_streams;
	size_t held;   /* bytes of request bodies, unread or buffered */
	size_t unsent; /* bytes of answers that have no frame yet */
	unsigned refs; /* the server's and those of running callbacks */
	struct deferred kick;
	bool stepping;
	bool closing;     /* the last frames are being flushed; there are no streams any more */
	bool greeted;     /* the peer's SETTINGS have arrived */
	bool reset_frame; /* the frame that is being read resets a stream */
	uint32_t doom;    /* the error code with which a callback wants the connection to end */
	struct http2_bucket chatter, resets;
	struct timer *timer;
	usec armed_for;
	usec head_by, idle_by, scan_at, linger_at; /* 0: not now */
};

struct http2_stream {
	struct http_request r; /* comes first: http_request_unref() frees both */
	struct http2_conn *c;  /* NULL: closed */
	struct list link, ready;
	int32_t id;
	int refused; /* the status with which the head is to be rejected */
	size_t head_len, n_fields;
	char *authority;
	bool head_done, begun; /* the head is complete; has been looked at */
	bool fin;              /* the peer has ended its direction */
	bool closed;           /* by nghttp2 */
	bool reset;            /* by us, because a handler or a limit wanted it */
	bool waits;            /* nghttp2 asked for more of the answer when there was none */
	bool was_full, drained;
	bool moved_in, moved_out; /* since the last look of the timer */
	usec linger_by;           /* it was answered before its end; 0: it was not */
	struct buf in, out;
};

struct http2_stream *http2_stream_new(struct http2_conn *c, int32_t id);
/* False: this is an attack. */
bool http2_stream_header(struct http2_stream *st, bool trailer, const char *name,
			 const char *value);
void http2_stream_data(struct http2_stream *st, const void *p, size_t len);
/* Tells the handler whatever there is to tell. The stream may be gone afterwards. */
void http2_stream_step(struct http2_stream *st);
/* Neither direction may stand still for ever. Tells nobody; that is left to a step. */
void http2_stream_look(struct http2_stream *st);
/* Its answer is sent, and the peer has not ended its direction yet. */
void http2_stream_linger(struct http2_stream *st);
/* Enough: it is closed, unless its time has not come. Returns when it will; 0: it does not linger.
 */
usec http2_stream_linger_on(struct http2_stream *st, usec now);
void http2_stream_reset(struct http2_stream *st, uint32_t code);
/* At once: the owner of its request is told. */
void http2_stream_free(struct http2_stream *st);

extern const struct http_request_ops http2_request_ops;
void http2_answer_sent(struct http2_stream *st, size_t len); /* that much of st->out */

/* Its callbacks touch c alone, and its streams. */
nghttp2_session *http2_session_new(struct http2_conn *c);

/* Has st looked at later in this turn. */
void http2_conn_ready(struct http2_stream *st);
void http2_conn_count(struct http2_conn *c, bool added); /* there is a stream more or fewer */

static inline usec http2_in_ms(uint64_t ms)
{
	return clock_mono() + (usec)ms * 1000;
}
