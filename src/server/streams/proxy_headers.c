/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "net/http.h"
#include "net/http_proxy.h"
#include "net/http_server.h"
#include "server/call/call.h"
#include "server/streams/proxy_priv.h"

/*
 * Headers between a client and a Pod. The Pod must not see what the client showed to us, nor be
 * told who asks by anybody else. The client, which may be a browser, finds all Pods under one
 * origin, that of the API: a Pod gets no cookies there, and its pages no origin.
 */
static const char *const ours[] = { "Authorization", "Cookie",         "Expect", "Content-Length",
				    "Forwarded",     "HTTP2-Settings", NULL };
static const char *const origin_wide[] = {
	"Set-Cookie", "Service-Worker-Allowed",    "Clear-Site-Data",
	"Alt-Svc",    "Strict-Transport-Security", "NEL",
	"Report-To",  "Reporting-Endpoints",       "WWW-Authenticate",
	"Accept-CH",  "Origin-Agent-Cluster",      NULL
};

static void drop(struct http_headers *h, const char *const names[])
{
	for (size_t i = 0; names[i]; i++)
		http_headers_del(h, names[i]);
}

void proxy_request_headers(struct http_headers *h, const struct call *c, const char *upgrade)
{
	autofree char *host = xstrdup(http_headers_get(h, "Host"));
	autofree char *uri = xasprintf("%s%s", c->route.base, c->route.rest);
	char ip[PEER_IP_MAX];

	http_headers_del_hop_by_hop(h);
	http_headers_drop(h, http_identities);
	http_headers_drop_bearer_protocols(h);
	drop(h, ours);
	if (host) /* whatever the client calls hop-by-hop */
		http_headers_set(h, "Host", host);
	http_peer_ip(c->from, ip);
	http_headers_add(h, "X-Forwarded-For", ip);
	http_headers_add(h, "X-Forwarded-Uri", uri);
	if (host)
		http_headers_add(h, "X-Forwarded-Host", host);
	http_headers_add(h, "X-Forwarded-Proto", "https");
	if (!upgrade)
		return;
	http_headers_add(h, "Connection", "Upgrade");
	http_headers_add(h, "Upgrade", upgrade);
}

/* Path and what follows of a URL of the Pod's own; NULL: it is relative, or of something else. */
static const char *own_path(const char *url, const struct proxy_answer *a)
{
	const char *const hosts[] = { a->addr, a->host };
	const char *rest = NULL;

	if (url[0] == '/' && url[1] != '/')
		return url;
	if (strncasecmp(url, "http://", 7) == 0)
		rest = url + 7;
	else if (strncasecmp(url, "https://", 8) == 0)
		rest = url + 8;
	for (size_t i = 0; rest && i < ARRAY_LEN(hosts); i++) {
		size_t len = hosts[i] ? strlen(hosts[i]) : 0;

		if (!len || strncasecmp(rest, hosts[i], len) != 0)
			continue;
		if (!rest[len])
			return "/";
		if (rest[len] == '/')
			return rest + len;
	}
	return NULL;
}

static bool is_below(const char *path, const char *base)
{
	size_t len = strlen(base);

	return strncmp(path, base, len) == 0 && (!path[len] || path[len] == '/');
}

static void lead_back(struct http_headers *h, const struct proxy_answer *a)
{
	const char *url = http_headers_get(h, "Location");
	const char *path = url ? own_path(url, a) : NULL;
	autofree char *to = NULL;

	if (!path)
		return;
	to = xasprintf("%s%s", is_below(path, a->base) ? "" : a->base, path);
	http_headers_set(h, "Location", to);
}

void proxy_answer_headers(struct http_headers *h, const struct proxy_answer *a)
{
	http_headers_del_hop_by_hop(h);
	drop(h, origin_wide);
	lead_back(h, a);
	http_headers_add(h, "Content-Security-Policy", http_page_policy);
}
