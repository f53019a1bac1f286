/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/list.h"
#include "client/access.h"
#include "loop/loop.h"
#include "server/call/call.h"
#include "server/objects/objects.h"
#include "server/streams/streams.h"

/*
 * The streams of Pods on a loop: the real handlers behind a real HTTP server, one client that
 * speaks bytes (HTTP, WebSocket, SPDY), and a node whose programs are:
 *
 *   say CODE SIGNAL   writes "out" to stdout and "err" to stderr, then ends so
 *   cat               stdout is stdin
 *   flood N           N bytes 'x', held back by pauses
 *   stuck             takes input but says it is full until node_drain()
 *   size              writes each size of its terminal
 *   hang              nothing, until it is canceled
 *
 * Logs are "one\ntwo\n" and then, when followed, nothing. Port 7 is cat, port 9 refuses.
 */
struct node {
	struct list runs;
	struct loop *l;
	size_t n_started, n_canceled, n_paused, written;
	struct access_log_spec log; /* the last one asked for */
	struct err *refuse;         /* what every start answers; owned */
	bool torn;                  /* logs break after their first bytes */
	bool silent;                /* logs break before them */
	char container[64], user[64];
};

struct pod_rig {
	struct loop *l;
	struct objects objects;
	struct calls calls;
	struct streams pods;
	struct http_server *http;
	struct node node;
	int fd;
	struct buf in; /* from the server, unread */
	z_stream zip;
};

void pod_rig_init(struct pod_rig *r);
void pod_rig_done(struct pod_rig *r);
void pod_rig_hang_up(struct pod_rig *r); /* the client leaves */
int pod_rig_another(struct pod_rig *r);  /* a second client speaks; the first one's descriptor */
void node_drain(struct pod_rig *r);

/* "GET /log?x=y" of the Pod `web`, or "GET web2/log"; headers end each with CRLF. */
void pod_ask(struct pod_rig *r, const char *what, const char *headers);
char *read_head(struct pod_rig *r);                   /* up to the empty line; malloc'd */
char *read_to(struct pod_rig *r, const char *needle); /* all of it; NULL: the end. malloc'd */
size_t read_bytes(struct pod_rig *r, char *ret, size_t len); /* less only at the end */

/* WebSocket: protocol NULL names none. Fails the test unless the answer is 101. */
void ws_open(struct pod_rig *r, const char *what, const char *protocol);
void ws_send(struct pod_rig *r, const void *p, size_t len);
unsigned ws_next(struct pod_rig *r, struct buf *ret); /* the opcode; ret is the payload */
/* The next message is for this channel and says this. */
void ws_expect(struct pod_rig *r, char channel, const char *text);
void ws_expect_close(struct pod_rig *r, unsigned code);

/* SPDY, on the connection or in buffers that travel otherwise. */
void spdy_open(struct pod_rig *r, const char *what, const char *protocols);
void spdy_put_stream(struct pod_rig *r, struct buf *b, uint32_t id, const char *type,
		     const char *request); /* request NULL: exec; else "PORT ID" */
void spdy_put_data(struct buf *b, uint32_t id, bool end, const char *text);
void spdy_put_reset(struct buf *b, uint32_t id);
void send_buf(struct pod_rig *r, struct buf *b); /* and empties it */
/* The next data frame from the server; replies before it are skipped. */
uint32_t spdy_next(struct pod_rig *r, struct buf *ret, bool *ret_end);
void spdy_expect(struct pod_rig *r, uint32_t id, const char *text, bool end);
