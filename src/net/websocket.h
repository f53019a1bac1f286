/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

struct conn;
struct http_pool;
struct http_request;
struct loop;

/*
 * WebSocket (RFC 6455) over wslay, either side of it. Messages are delivered whole (fragments
 * joined, up to max_message).
 */
struct websocket;

struct websocket_events {
	void (*message)(void *arg, bool binary, const char *data, size_t len);
	void (*drained)(void *arg); /* may be NULL */
	/* The peer closed or the connection died (1006). Free it now or later. */
	void (*closed)(void *arg, uint16_t code);
};

/* True if the request asks for an upgrade to WebSocket. */
bool websocket_wanted(struct http_request *r);
/*
 * Answers 101, choosing the first of protocols (NULL-terminated, in our order of preference) that
 * the client offers; or answers 400 and returns NULL if none matches. If protocols is NULL, there
 * is no sub-protocol. *ret_protocol is one of protocols.
 */
struct websocket *websocket_accept(struct http_request *r, const char *const *protocols,
				   size_t max_message, const char **ret_protocol);

/*
 * The client side: a handshake on a connection of the pool, idle or new. It ends with exactly one
 * of the events, and is freed then.
 */
struct websocket_dial;
struct websocket_dial_spec {
	const char *addr, *target;
	const struct http_headers
		*headers; /* the caller's, with Host; those of the handshake are added */
	const char *const *protocols; /* NULL-terminated, preferred ones first */
	size_t max_message;
	uint64_t connect_ms, head_ms; /* 0: no limit */
};
struct websocket_dial_events {
	/* Call websocket_set_events() at once. protocol is one of those offered. */
	void (*opened)(void *arg, struct websocket *w, const char *protocol);
	/* Another answer than 101. Of its body there are 64 KiB at most. */
	void (*refused)(void *arg, int status, struct span body);
	/* There was no answer, or (ERR_MALFORMED) it does not belong to our handshake. */
	void (*failed)(void *arg, const struct err *e);
};
struct websocket_dial *websocket_dial(struct http_pool *p, const struct websocket_dial_spec *spec,
				      const struct websocket_dial_events *ev, void *arg);
void websocket_dial_cancel(struct websocket_dial *d); /* no events follow */

void websocket_set_events(struct websocket *w, const struct websocket_events *ev, void *arg);
void websocket_send(struct websocket *w, bool binary, const void *p, size_t len);
struct loop *websocket_loop(struct websocket *w);
bool websocket_full(const struct websocket *w);
void websocket_pause(struct websocket *w, bool paused);
void websocket_close(struct websocket *w, uint16_t code, const char *reason); /* closed() follows */
void websocket_free(struct websocket *w);
AUTOPTR(websocket)
