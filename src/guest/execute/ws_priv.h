/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/execute/ws_frame_priv.h"

struct http_request;
struct ws;

/*
 * A connection that carries the streams of a process as v5.channel.k8s.io does: binary messages
 * whose first byte is the channel.
 */
enum ws_channel {
	WS_STDIN = 0,
	WS_STDOUT,
	WS_STDERR,
	WS_STATUS,
	WS_RESIZE,
	WS_NOTICE, /* ours: output that was dropped */
	WS_CLOSE_CHANNEL = 255,
};

struct ws_events {
	/* A message of the client, without its first byte. */
	void (*message)(void *arg, unsigned channel, const char *data, size_t len);
	void (*drained)(void *arg); /* ws_full() no longer holds */
	void (*gone)(void *arg);    /* the client has left, or broke the rules: w is no more */
};

/* True if r asks for a WebSocket. Otherwise it is answered: 426 or 400. */
bool ws_check(struct http_request *r);
/* After ws_check(). NULL: the client has left. */
struct ws *ws_accept(struct http_request *r, const struct ws_events *ev, void *arg);
void ws_send(struct ws *w, enum ws_channel channel, const char *data, size_t len);
bool ws_full(const struct ws *w);
void ws_pause(struct ws *w, bool paused); /* reads nothing from the client */
/* Closes after everything is sent; w is no more for the caller, and gone() is not called. */
void ws_end(struct ws *w, unsigned code, const char *reason);
