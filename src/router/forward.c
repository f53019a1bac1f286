/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "net/http.h"
#include "router/router_priv.h"

/*
 * The headers that a sandbox sees: those the client sent, without what was meant for us, and with
 * who asked.
 */

/* "1.2.3.4:567" and "[::1]:567" without the port and brackets. */
static void ip_of_peer(const char *peer, char ret[64])
{
	const char *colon = strrchr(peer, ':');
	size_t len = colon ? (size_t)(colon - peer) : strlen(peer);

	if (len >= 2 && peer[0] == '[' && peer[len - 1] == ']') {
		peer++;
		len -= 2;
	}
	(void)snprintf(ret, 64, "%.*s", (int)MIN(len, (size_t)63), peer);
}

void forward_headers(struct http_headers *h, const char *peer, const char *upgrade)
{
	static const char *const ours[] = { "Authorization",     "Expect",
					    "Content-Length",    "Forwarded",
					    "X-Forwarded-For",   "X-Forwarded-Host",
					    "X-Forwarded-Proto", NULL };
	autofree char *host = xstrdup(http_headers_get(h, "Host"));
	char ip[64];

	http_headers_del_hop_by_hop(h);
	for (size_t i = 0; ours[i]; i++)
		http_headers_del(h, ours[i]);
	ip_of_peer(peer, ip);
	http_headers_add(h, "X-Forwarded-For", ip);
	if (host)
		http_headers_add(h, "X-Forwarded-Host", host);
	http_headers_add(h, "X-Forwarded-Proto", "http");
	if (upgrade) {
		http_headers_del(h, "Origin");
		http_headers_add(h, "Connection", "Upgrade");
		http_headers_add(h, "Upgrade", upgrade);
	}
}
