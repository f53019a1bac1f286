/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/loop.h"
#include "net/http2_fields_priv.h"
#include "net/http_client_priv.h"

/*
 * HTTP/2 as a client: http2_peer.c has a connection, http2_peer_session.c what nghttp2 does for it,
 * http2_exchange.c one exchange on it.
 */
enum {
	HTTP2_PEER_STREAMS_MAX = 64,
	/*
	 * Of a stream: bytes of an answer that nobody has asked for. The window of a connection has
	 * space for all of them, so no reader that is slow stops another.
	 */
	HTTP2_PEER_WINDOW = 64 * 1024,
};

struct http2_peer {
	struct http_pool *pool; /* NULL: there are no new exchanges for it */
	struct list link;       /* among those of its address */
	struct list idle;       /* in the pool's idle_peers */
	char *addr;
	struct http_limits limits;
	struct http_dial dial;
	struct conn *conn; /* NULL: being made, or lost */
	nghttp2_session *session;
	struct list exchanges; /* struct http2_exchange.on */
	struct list ready;     /* struct http2_exchange.ready: something is to be told */
	size_t n;              /* of exchanges */
	unsigned refs;         /* its own and those of running callbacks */
	struct deferred kick;
	bool stepping;
	bool greeted;     /* its SETTINGS have arrived, and requests may be sent */
	bool over;        /* closed; freed when nobody uses it any more */
	struct err *doom; /* why a callback wants the connection to end */
	struct http2_bucket chatter;
	size_t unknown; /* bytes since the last frame of a known type began */
};

struct http2_exchange {
	struct http_exchange base;
	unsigned refs;
	struct http2_peer *peer; /* NULL: none now */
	struct list on, ready;
	int32_t id;      /* of its stream; 0: there is none yet */
	bool reused;     /* the connection was there before */
	bool repeated;   /* it is on its second try */
	bool over;       /* freed, but someone up the stack still holds it */
	struct err *err; /* why it is to fail */
	struct deferred later;
	struct timer *timer;
	uint64_t connect_ms, head_ms;

	char *addr, *method, *target;
	struct http_headers request, request_trailers;
	int64_t body_len, body_left; /* < 0: unknown */
	bool body_ended, body_sent;
	struct buf out;
	bool waits; /* nghttp2 asked for more when there was none */
	bool was_full, drained;

	int status;
	size_t head_len, n_fields;
	struct http_headers headers, trailers;
	bool head_done, head_told, paused;
	bool fin;    /* the answer is complete */
	bool closed; /* by nghttp2, for this reason: */
	uint32_t code;
	struct buf in;
};

/* One that has room, or a new one. */
must_use struct err *http2_peer_get(struct http_pool *p, const char *addr, struct http2_peer **ret);
void http2_peer_add(struct http2_peer *p, struct http2_exchange *x);
void http2_peer_del(struct http2_exchange *x);   /* its stream is reset unless it is over */
void http2_peer_ready(struct http2_exchange *x); /* has x looked at later in this turn */

/* Its callbacks touch p alone, and its exchanges. */
nghttp2_session *http2_peer_session(struct http2_peer *p);
void http2_peer_leave(struct http2_peer *p); /* gets no more exchanges */

/* The connection is ready for its request. */
void http2_exchange_submit(struct http2_exchange *x);
/* Tells the owner whatever there is to tell. */
void http2_exchange_step(struct http2_exchange *x);
/* Its connection has gone. e stays the caller's. */
void http2_exchange_lost(struct http2_exchange *x, const struct err *e);
void http2_exchange_move(struct http2_exchange *x);             /* to another connection */
void http2_exchange_sent(struct http2_exchange *x, size_t len); /* that much of out */
/* False: this is an attack. */
bool http2_exchange_header(struct http2_exchange *x, const char *name, const char *value);
