/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/str.h"
#include "net/http.h"
#include "router/router_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * The first line is Host, the second the target, the third a Set-Cookie, the fourth a Location.
 * What is understood names a sandbox cleanly, and an answer from there sets no cookie of the
 * router's.
 */
static char *line(struct span *rest)
{
	struct span one = rest->p ? span_cut(*rest, '\n', rest) : (struct span){ "", 0 };

	return xstrndup(one.p, one.len);
}

static void check_answer(const struct route *r, const char *cookie, const char *location)
{
	struct http_headers h = { 0 };

	http_headers_add(&h, "Set-Cookie", cookie);
	http_headers_add(&h, "Location", location);
	answer_headers(&h, &(struct answer){ r, "/s", "10.0.0.1:80", false });
	for (size_t i = 0; r->way != ROUTER_BY_HEADER && i < h.n; i++)
		if (!strncasecmp(h.list[i].value, "cay-door=", 9) &&
		    str_eq_nocase(h.list[i].name, "Set-Cookie"))
			abort();
	http_headers_done(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	struct span rest = { (const char *)data, len };
	autofree char *host = line(&rest), *target = line(&rest), *cookie = line(&rest),
		      *location = line(&rest);
	const struct http_headers none = { 0 };
	struct route r;
	size_t at;

	if (way_read(&(struct way_ask){ .domain = "sandbox.localhost",
					.prefix = "/s",
					.host = host,
					.target = target,
					.headers = &none },
		     &r, &at))
		return 0;
	if (at > strlen(target) || r.way == ROUTER_BY_HEADER || !r.port || !*r.id || !*r.ns ||
	    r.id[strspn(r.id, fine)] || r.ns[strspn(r.ns, fine)])
		abort();
	check_answer(&r, cookie, location);
	return 0;
}
