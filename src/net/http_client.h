/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "net/http.h"

struct conn;
struct loop;

/*
 * The client side of HTTP/1.1 for proxying: one exchange at a time on a connection, streaming both
 * ways, a small pool of idle connections per address. Requests to kube-apiservers go through
 * client/ (libcurl) instead.
 */
struct http_pool;
struct http_exchange;

struct http_pool *http_pool_new(struct loop *l, const struct http_limits *limits,
				size_t max_idle_per_addr);
void http_pool_forget(struct http_pool *p, const char *addr); /* drops idle connections to it */
void http_pool_free(struct http_pool *p);
AUTOPTR(http_pool)

struct http_exchange_events {
	/* The head of the answer (1xx but 101 are swallowed). For 101 call
	 * http_exchange_take_conn(). */
	void (*head)(void *arg, int status, struct http_headers *h);
	void (*data)(void *arg, const char *data, size_t len);
	void (*end)(void *arg);     /* complete; the exchange is freed when this returns */
	void (*drained)(void *arg); /* request body may go on; may be NULL */
	/* Could not connect (ERR_UNAVAILABLE), timed out (ERR_TIMEOUT), torn or malformed. Freed
	 * when this returns. */
	void (*failed)(void *arg, const struct err *e);
};

struct http_exchange_spec {
	const char *addr; /* "10.0.0.1:8888" */
	const char *method, *target;
	const struct http_headers *headers; /* Host included by the caller */
	int64_t body_len;                   /* 0: none, < 0: chunked */
	uint64_t connect_ms, head_ms;       /* 0: no limit */
};

/* A connection that turns out dead before any byte of an answer is replaced once by a fresh one if
 * no body was sent yet. */
struct http_exchange *http_exchange_start(struct http_pool *p,
					  const struct http_exchange_spec *spec,
					  const struct http_exchange_events *ev, void *arg);
void http_exchange_write(struct http_exchange *x, const void *p, size_t len);
bool http_exchange_full(const struct http_exchange *x);
void http_exchange_end_body(struct http_exchange *x);
void http_exchange_pause(struct http_exchange *x, bool paused); /* back-pressure on the answer */
struct conn *http_exchange_take_conn(struct http_exchange *x);  /* after 101; frees the exchange */
void http_exchange_cancel(struct http_exchange *x);             /* no further callback */
