/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

struct conn;
struct websocket;

/*
 * The server side of SPDY/3.1 as Kubernetes clients use it for exec, attach and port-forward:
 * streams are opened by the client, there is no flow control, PING is echoed, and there is one zlib
 * context per direction. Details: docs/reference/dataplane.md §3.5.3. Limits: 64 streams, 64 KiB of
 * headers per stream, 1 MiB per frame.
 */
struct spdy;

struct spdy_events {
	/* A new stream, which has been answered with SYN_REPLY. Header names are in lower case. */
	void (*opened)(void *arg, uint32_t id, const struct http_headers *h);
	void (*data)(void *arg, uint32_t id, const char *data, size_t len);
	void (*ended)(void *arg, uint32_t id); /* the client half-closed it */
	void (*reset)(void *arg, uint32_t id);
	void (*drained)(void *arg);
	void (*closed)(void *arg); /* the session is over; free it now or later */
};

/* Takes ownership of c. */
struct spdy *spdy_new(struct conn *c, const struct spdy_events *ev, void *arg);
/*
 * The same inside the binary messages of a WebSocket, as port-forward sends it. Takes ownership of
 * w, whose messages must be limited to what a session may hold in memory, 1 MiB or less.
 */
struct spdy *spdy_new_websocket(struct websocket *w, const struct spdy_events *ev, void *arg);
/* Writing to or ending a stream that no longer exists is harmless: the client may have reset it. */
void spdy_write(struct spdy *s, uint32_t id, const void *p, size_t len);
void spdy_end(struct spdy *s, uint32_t id); /* sends FIN */
bool spdy_full(const struct spdy *s);
void spdy_pause(struct spdy *s, bool paused);
void spdy_close(struct spdy *s); /* GOAWAY, flush, then closed() */
void spdy_free(struct spdy *s);
AUTOPTR(spdy)
