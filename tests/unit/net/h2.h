/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "net/http.h"
#include "rig.h"
#include "site.h"

/*
 * A client of HTTP/2 for a site. It speaks through nghttp2, or by hand, so that it can also say
 * what nghttp2 would not.
 */
enum {
	H2_STREAMS = 200,
};

struct h2_stream {
	int32_t id;
	int status;
	struct http_headers headers, trailers;
	struct buf body;
	bool closed, ended; /* ended: the answer is complete */
	uint32_t code;
	struct span out; /* the rest of the request's body */
	const char *sum; /* a trailer of the request; NULL: none */
	bool endless;    /* the body goes on when there is more */
	bool waits;
};

struct h2 {
	struct site *s;
	int fd;
	nghttp2_session *session;
	struct h2_stream streams[H2_STREAMS];
	size_t n;
	int goaway; /* its code; < 0: none */
	bool eof;
	bool deaf; /* opens no windows for answers */
	uint32_t window;
};

void h2_init(struct h2 *c, struct site *s); /* on s->fd */
void h2_done(struct h2 *c);
void h2_turn(struct h2 *c); /* sends, lets the loop turn and reads */
#define h2_until(c, cond)                                                 \
	do {                                                              \
		usec until_end_ = clock_mono() + 10 * 1000000;            \
		while (!(cond)) {                                         \
			if (clock_mono() > until_end_)                    \
				fail_msg("waited in vain for %s", #cond); \
			h2_turn(c);                                       \
		}                                                         \
	} while (0)

struct h2_ask {
	const char *method; /* NULL: GET */
	const char *path;
	const char *const *headers; /* name, value, ..., NULL */
	const char *body;           /* NULL: none */
	size_t body_len;            /* 0: that of the string */
	const char *sum;
	bool endless;
};
struct h2_stream *h2_ask(struct h2 *c, const struct h2_ask *ask);
struct h2_stream *h2_get(struct h2 *c, const char *path);
void h2_more(struct h2 *c, struct h2_stream *st, const char *text, bool last);

/* By hand. */
enum {
	H2_DATA = 0,
	H2_HEADERS = 1,
	H2_PRIORITY = 2,
	H2_RST_STREAM = 3,
	H2_SETTINGS = 4,
	H2_PING = 6,
	H2_GOAWAY = 7,
	H2_WINDOW_UPDATE = 8,
	H2_CONTINUATION = 9,
	H2_END_STREAM = 1,
	H2_END_HEADERS = 4,
};

struct h2_frame {
	int type, flags;
	unsigned stream;
	struct span payload;
};
void h2_put(struct buf *b, const struct h2_frame *f);
void h2_put_greeting(struct buf *b);
void h2_put_field(struct buf *b, const char *name, const char *value); /* not indexed */
struct h2_verdict {
	int status;        /* of the first answer; 0: none */
	int reset, goaway; /* codes; < 0: none */
};
/* Sends b and reads until a stream is answered or reset, or the connection ends. */
struct h2_verdict h2_say(struct site *s, struct buf *b);
struct h2_verdict h2_say_to_end(struct site *s, struct buf *b); /* only the latter */
