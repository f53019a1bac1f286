/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "net/http.h"

struct conn;
struct loop;
struct stream;

/*
 * The client side of HTTP, for proxying: exchanges that stream in both directions, and a pool of
 * connections per address. In HTTP/1.1 a connection has one exchange at a time; in HTTP/2, which is
 * spoken without negotiation, up to 64. Requests to Kubernetes API servers go through client/
 * (libcurl) instead.
 *
 * The peer may be hostile: whatever it can make grow or do has a limit.
 */
struct http_pool;
struct http_exchange;

struct http_pool *http_pool_new(struct loop *l, const struct http_limits *limits,
				size_t max_idle_per_addr);
void http_pool_set_mark(struct http_pool *p, uint32_t mark); /* of new connections (SO_MARK) */
/* What turns the descriptor of a new connection, which it takes over, into a stream: TLS, say. */
void http_pool_set_wrap(struct http_pool *p, struct stream *(*wrap)(void *arg, int fd), void *arg);
void http_pool_free(struct http_pool *p);
AUTOPTR(http_pool)

struct http_exchange_events {
	/*
	 * The head of the answer. Except for 101, heads with a 1xx status are skipped. After 101
	 * call http_exchange_take_conn().
	 */
	void (*head)(void *arg, int status, struct http_headers *h);
	void (*data)(void *arg, const char *data, size_t len);
	/* Complete; the exchange and its trailers are freed when this returns. */
	void (*end)(void *arg, struct http_headers *trailers);
	void (*drained)(void *arg); /* more of the request body may be written; may be NULL */
	/*
	 * Could not connect (ERR_UNAVAILABLE), timed out (ERR_TIMEOUT), or the answer is torn or
	 * malformed. The exchange is freed when this returns.
	 */
	void (*failed)(void *arg, const struct err *e);
};

struct http_exchange_spec {
	int version;      /* 2: HTTP/2; otherwise HTTP/1.1 */
	const char *addr; /* "10.0.0.1:8888" */
	/* Not NULL: a connection that somebody has made, for this exchange of HTTP/1.1 alone. It is
	 * taken over, and addr only names the peer. */
	struct stream *stream;
	const char *method, *target;
	const struct http_headers *headers; /* the caller includes Host */
	int64_t body_len;                   /* 0: none, < 0: chunked */
	/*
	 * 0: no limit. connect_ms: until the request can be sent; in HTTP/2 the server has greeted
	 * then. head_ms: from the end of the request to the head of the answer.
	 */
	uint64_t connect_ms, head_ms;
};

/*
 * If a reused connection turns out to be dead before any byte of the answer, or the peer says that
 * it has not looked at the request, the exchange is tried once more on another connection, unless
 * part of a body has been sent.
 */
struct http_exchange *http_exchange_start(struct http_pool *p,
					  const struct http_exchange_spec *spec,
					  const struct http_exchange_events *ev, void *arg);
void http_exchange_write(struct http_exchange *x, const void *p, size_t len);
bool http_exchange_full(const struct http_exchange *x);
/* trailers may be NULL; they are left out where no body is announced or its length was. */
void http_exchange_end_body(struct http_exchange *x, const struct http_headers *trailers);
void http_exchange_pause(struct http_exchange *x, bool paused); /* back-pressure on the answer */
struct conn *http_exchange_take_conn(struct http_exchange *x);  /* after 101; frees the exchange */
/* There are no further callbacks. HTTP/2: the peer is told, and the connection stays. */
void http_exchange_cancel(struct http_exchange *x);
