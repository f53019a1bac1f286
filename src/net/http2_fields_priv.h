/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/http.h"

/* What both sides of HTTP/2 need: headers for nghttp2, and a measure of what a peer may cost. */

/* Names are in lower case, in memory of their own; values stay the caller's. */
struct http2_fields {
	nghttp2_nv *list;
	size_t n, cap;
	struct buf names;
};

/* Space for h and up to six more, which fields_add() adds. h may be NULL. */
void http2_fields_init(struct http2_fields *f, const struct http_headers *h);
void http2_fields_done(struct http2_fields *f);
void http2_fields_add(struct http2_fields *f, const char *name, const char *value);
/*
 * All of h that a stream may carry: framing is up to us, and connections are no concern of a
 * stream.
 */
void http2_fields_add_all(struct http2_fields *f, const struct http_headers *h);

/* So many at once, and so many more per second. */
struct http2_bucket {
	unsigned left;
	usec at;
};
/* False: it is empty. */
bool http2_bucket_take(struct http2_bucket *b, unsigned burst, unsigned per_s);

/* What a peer may do for nothing: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA. */
enum {
	HTTP2_CHATTER_BURST = 2000,
	HTTP2_CHATTER_PER_S = 200,
	HTTP2_CHATTER_PER_DATA = 4, /* a peer has reason to open windows when we send */
};
static inline void http2_chatter_earn(struct http2_bucket *b, unsigned n)
{
	b->left = MIN(b->left + n, (unsigned)HTTP2_CHATTER_BURST);
}

nghttp2_option *http2_options(void); /* the same limits on either side */
enum {
	HTTP2_TABLE_SIZE = 4096, /* of the compression of headers, either direction */
	HTTP2_FIELD_COST = 32,   /* of a header beside its bytes, as the protocol counts */
	HTTP2_FRAME_HEAD_LEN = 9,
};
