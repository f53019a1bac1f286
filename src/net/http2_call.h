/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "net/http.h"

struct loop;
struct stream;

/*
 * One POST over HTTP/2 without negotiation, on a connection of its own, as gRPC makes a unary call:
 * a small body out; headers, a small body and trailers in.
 *
 * The peer may be hostile: everything that it sends counts against one limit of bytes, and so does
 * every header after decompression. How long it may take is up to the owner.
 */
struct http2_call;

struct http2_answer {
	int status;
	struct http_headers headers; /* trailers too, in the order of arrival */
	struct buf body;
};

struct http2_call_events {
	/* The answer is complete. Free the call now or later; the answer is the call's. */
	void (*done)(void *arg, const struct http2_answer *a);
	/* There will be none. e is the call's. */
	void (*failed)(void *arg, const struct err *e);
};

struct http2_call_spec {
	const char *authority, *path;
	const struct http_headers *headers; /* beside the pseudo-headers; names in lower case */
	const void *body;                   /* borrowed until the call is freed */
	size_t body_len;
};

/* Takes ownership of s. Callbacks come from the loop, one of them and once. */
struct http2_call *http2_call_start(struct loop *l, struct stream *s,
				    const struct http2_call_spec *spec,
				    const struct http2_call_events *ev, void *arg);
void http2_call_free(struct http2_call *c); /* closes the connection */
AUTOPTR(http2_call)
