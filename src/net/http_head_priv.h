/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/http.h"

/* Request heads, parsed strictly, and the chunked bodies that follow them. No I/O. */
enum http_scan {
	HTTP_SCAN_MORE,
	HTTP_SCAN_DONE,
	HTTP_SCAN_BAD,
	HTTP_SCAN_MAX_,
};

/*
 * Looks for the empty line that ends a head in p[0..len), continuing at *pos where the last call
 * stopped. Bare CR or LF, folded lines and control characters are rejected: programs disagree on
 * what they mean.
 */
enum http_scan http_head_scan(const char *p, size_t len, size_t *pos, size_t *ret_len);

struct http_head {
	char *method, *target;
	struct http_headers headers, trailers;
	bool http10, keep_alive, upgrade, expects_continue;
	bool chunked;
	uint64_t length; /* of the body, unless chunked */

	/*
	 * Set by the caller before http_head_feed(). False: the bytes were consumed, but stop for
	 * now.
	 */
	bool (*sink)(void *arg, const char *data, size_t len);
	void *sink_arg;

	/* The parser's own state. */
	llhttp_t parser;
	struct buf name, value;
	size_t max_headers, extra; /* extra: bytes of chunk extensions and trailers so far */
	int status;
	bool complete, body_done;
};

/*
 * p[0..len) is a head that http_head_scan() found. Returns 0, or the status with which to reject
 * it. h must not move.
 */
int http_head_parse(struct http_head *h, const char *p, size_t len, size_t max_headers);
void http_head_done(struct http_head *h);
/*
 * The same checks for a head that came as HTTP/2: method, target and headers are filled in, with a
 * Host. Returns 0, or the status with which to reject it.
 */
int http_head_check_http2(struct http_head *h);

/*
 * Feeds the next bytes of a chunked body. *ret_done says whether it ended, *ret_used where. False
 * if it is malformed.
 */
bool http_head_feed(struct http_head *h, const char *p, size_t len, size_t *ret_used,
		    bool *ret_done);
