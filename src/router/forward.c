/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "base/wall.h"
#include "net/http.h"
#include "net/http_proxy.h"
#include "router/router_priv.h"

/*
 * The headers that a sandbox sees: those the client sent, without what was meant for us or claims
 * to come from a proxy like us, and with who asked.
 */
static const char *const ours[] = { "Authorization", "Expect",         "Content-Length",
				    "Forwarded",     "HTTP2-Settings", NULL };

static void strip(struct http_headers *h)
{
	for (size_t i = 0; ours[i]; i++)
		http_headers_del(h, ours[i]);
	http_headers_drop_bearer_protocols(h);
	if (wall_stands("identity-headers"))
		http_headers_drop(h, http_identities);
}

void forward_headers(struct http_headers *h, const struct forward *f)
{
	autofree char *host = xstrdup(http_headers_get(h, "Host"));
	char ip[PEER_IP_MAX];

	http_headers_del_hop_by_hop(h);
	strip(h);
	http_peer_ip(f->peer, ip);
	http_headers_add(h, "X-Forwarded-For", ip);
	if (host)
		http_headers_add(h, "X-Forwarded-Host", host);
	http_headers_add(h, "X-Forwarded-Proto", f->route->secure ? "https" : "http");
	if (f->route->way == ROUTER_BY_PATH) {
		autofree char *base = way_base(f->prefix, f->route);

		http_headers_add(h, "X-Forwarded-Prefix", base);
	}
	if (f->upgrade) {
		http_headers_del(h, "Origin");
		http_headers_add(h, "Connection", "Upgrade");
		http_headers_add(h, "Upgrade", f->upgrade);
	}
}

void forward_trailers(const struct http_headers *from, struct http_headers *ret)
{
	/* What routes, frames or identifies a request has to be in its head. */
	static const char *const heads[] = { "Authorization",
					     "Cookie",
					     "Expect",
					     "Forwarded",
					     "Host",
					     "Max-Forwards",
					     "Content-Type",
					     "Content-Length",
					     "Content-Range",
					     "Content-Encoding",
					     NULL };

	for (size_t i = 0; i < from->n; i++)
		if (strncasecmp(from->list[i].name, "X-Sandbox-", 10) != 0)
			http_headers_add(ret, from->list[i].name, from->list[i].value);
	http_headers_drop(ret, http_identities);
	http_headers_del_hop_by_hop(ret);
	for (size_t i = 0; heads[i]; i++)
		http_headers_del(ret, heads[i]);
}
