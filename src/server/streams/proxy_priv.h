/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "server/streams/streams_priv.h"

struct http_headers;

/* The files of the proxy to Pods and Services. */

/* Texts live as long as the call. */
struct proxy_target {
	bool https;
	const char *pod;
	uint16_t port;
	const char *addr;   /* "10.1.2.3:80", as the Pod may write it into a Location */
	const char *asleep; /* whose Sandbox may be asleep if this failed: a Pod; NULL: nobody's */
};
/* ERR_NOT_FOUND, ERR_MALFORMED, or ERR_UNAVAILABLE: there is no Pod behind it; asleep is set then
 * too. */
must_use struct err *proxy_find(const struct streams *ps, struct call *c, struct proxy_target *ret);

/* proxy_headers.c. What the Pod sees of a request, changed in place, and the client of the answer.
 */
void proxy_request_headers(struct http_headers *h, const struct call *c, const char *upgrade);
struct proxy_answer {
	const char *base;        /* path in front of the Pod's own */
	const char *addr, *host; /* by which the Pod may call itself */
};
void proxy_answer_headers(struct http_headers *h, const struct proxy_answer *a);
