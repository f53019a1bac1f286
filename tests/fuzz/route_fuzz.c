/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "net/http.h"
#include "router/route/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * Reads the input as lines of headers. What is accepted must be safe to use in a host name, a log
 * line and an answer.
 */
static void add_line(struct http_headers *h, struct span line)
{
	struct span value, name = span_cut(line, ':', &value);
	autofree char *n = xstrndup(name.p, name.len);
	autofree char *v = xstrndup(value.p ? value.p : "", value.p ? value.len : 0);

	if (h->n < 32)
		http_headers_add(h, n, v);
}

static void check(const struct route *r)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

	if (!*r->id || !*r->ns || r->id[strspn(r->id, fine)] || r->ns[strspn(r->ns, fine)] ||
	    !r->port || r->timeout_ms > 24 * 3600 * 1000)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct http_headers h = { 0 };
	struct span rest = { (const char *)data, len };
	struct route r;

	while (rest.p && rest.len) {
		struct span line = span_cut(rest, '\n', &rest);

		add_line(&h, line);
	}
	if (!route_parse(&h, len % 2, &r))
		check(&r);
	http_headers_done(&h);
	return 0;
}
