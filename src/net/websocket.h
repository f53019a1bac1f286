/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

struct conn;
struct http_request;
struct loop;

/*
 * The server side of WebSocket (RFC 6455) over wslay. Messages are delivered whole (fragments
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
void websocket_set_events(struct websocket *w, const struct websocket_events *ev, void *arg);
void websocket_send(struct websocket *w, bool binary, const void *p, size_t len);
struct loop *websocket_loop(struct websocket *w);
bool websocket_full(const struct websocket *w);
void websocket_pause(struct websocket *w, bool paused);
void websocket_close(struct websocket *w, uint16_t code, const char *reason); /* closed() follows */
void websocket_free(struct websocket *w);
AUTOPTR(websocket)
