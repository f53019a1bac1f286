/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"
#include "net/http_client.h"

struct watch;

/*
 * The client's files: http_client.c has what both versions of HTTP share, http_pool.c the
 * connections that wait for exchanges, http1_exchange.c an exchange of HTTP/1.1. HTTP/2 is in
 * http2_exchange.c, http2_peer.c and http2_peer_session.c.
 */

/* How new connections are made. */
struct http_dialer {
	struct loop *loop;
	uint32_t mark;                             /* of their packets; 0: none */
	struct stream *(*wrap)(void *arg, int fd); /* NULL: plain */
	void *wrap_arg;
};

/* A connection that is being made; embedded in its owner, who sets no field but owner. */
struct http_dial {
	struct http_dialer with;
	int fd; /* < 0: none */
	struct watch *watch;
	const char *addr; /* the owner's */
	/* s is the owner's; NULL: e says why, and stays the dial's. */
	void (*done)(void *owner, struct stream *s, const struct err *e);
	void *owner;
};
void http_dial_init(struct http_dial *d, const struct http_dialer *with, const char *addr,
		    void (*done)(void *owner, struct stream *s, const struct err *e), void *owner);
must_use struct err *http_dial_start(struct http_dial *d);
void http_dial_stop(struct http_dial *d);

struct http_pool {
	struct loop *loop;
	struct http_limits limits;
	struct http_dialer dialer;
	struct map *addrs;     /* address → struct pool_addr, owned */
	struct list idle;      /* struct pool_idle.link, longest idle first */
	struct list exchanges; /* struct http_exchange.link */
	size_t n_idle, max_per_addr;
	struct map *peers;      /* address → struct http2_peers, owned */
	struct list idle_peers; /* struct http2_peer.idle, longest idle first */
	size_t n_idle_peers;
};

struct conn *http_pool_take(struct http_pool *p, const char *addr); /* NULL if none is idle */
/* Takes ownership of c. */
void http_pool_put(struct http_pool *p, const char *addr, struct conn *c);

/* What the version of HTTP does for an exchange; see http_client.h. */
struct http_exchange_ops {
	void (*write)(struct http_exchange *x, const void *p, size_t len);
	bool (*full)(const struct http_exchange *x);
	void (*end_body)(struct http_exchange *x, const struct http_headers *trailers);
	void (*pause)(struct http_exchange *x, bool paused);
	struct conn *(*take_conn)(struct http_exchange *x); /* NULL: this version never can */
	void (*cancel)(struct http_exchange *x);
};

/* Begins what the versions have. */
struct http_exchange {
	const struct http_exchange_ops *ops;
	struct http_pool *pool; /* NULL: it was freed before us */
	struct list link;       /* in its exchanges */
	struct http_limits limits;
	struct http_exchange_events ev;
	void *arg;
};

/* bad is reported later; NULL: none. Both take it over. */
struct http_exchange *http1_exchange_start(struct http_pool *p,
					   const struct http_exchange_spec *spec,
					   const struct http_exchange_events *ev, void *arg,
					   struct err *bad);
struct http_exchange *http2_exchange_start(struct http_pool *p,
					   const struct http_exchange_spec *spec,
					   const struct http_exchange_events *ev, void *arg,
					   struct err *bad);
void http_exchange_init(struct http_exchange *x, struct http_pool *p,
			const struct http_exchange_ops *ops, const struct http_exchange_events *ev,
			void *arg);

void http2_peers_init(struct http_pool *p);
void http2_peers_forget(struct http_pool *p); /* the pool is freed; exchanges go on */
bool http_repeatable(const char *method);     /* nothing is changed if it is done twice */
