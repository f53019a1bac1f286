/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "base/wall.h"
#include "net/http.h"
#include "router/router_priv.h"

/*
 * The headers that a sandbox sees: those the client sent, without what was meant for us or claims
 * to come from a proxy like us, and with who asked.
 */
static const char *const ours[] = { "Authorization", "Expect",         "Content-Length",
				    "Forwarded",     "HTTP2-Settings", NULL };

/* What servers behind a proxy believe about their users. Names that end with a dash are the
 * beginnings of names. */
static const char *const identities[] = {
	"X-Forwarded-",  "X-Remote-",    "X-Auth-Request-", "X-Authenticated-",
	"X-Webauth-",    "X-SSL-",       "X-Client-Cert",   "X-Original-",
	"X-Rewrite-URL", "X-Real-IP",    "Remote-User",     "Remote-Groups",
	"Remote-Name",   "Remote-Email", "SSL-Client-",     "Cay-",
	"X-Cay-",        NULL,
};

static char plain(char c)
{
	if (c == '_') /* a dash to servers that make variables of headers */
		return '-';
	return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static bool matches(const char *name, const char *pattern)
{
	for (; *pattern; name++, pattern++)
		if (plain(*name) != plain(*pattern))
			return false;
	return !*name || pattern[-1] == '-';
}

static bool matches_any(const char *name, const char *const patterns[])
{
	char first = plain(name[0]);

	for (size_t i = 0; patterns[i]; i++)
		if (plain(patterns[i][0]) == first && matches(name, patterns[i]))
			return true;
	return false;
}

static bool has_any(const struct http_headers *h, const char *const patterns[])
{
	for (size_t i = 0; i < h->n; i++)
		if (matches_any(h->list[i].name, patterns))
			return true;
	return false;
}

void forward_drop(struct http_headers *h, const char *const patterns[])
{
	struct http_headers kept = { 0 };

	if (!has_any(h, patterns))
		return;
	for (size_t i = 0; i < h->n; i++)
		if (!matches_any(h->list[i].name, patterns))
			http_headers_add(&kept, h->list[i].name, h->list[i].value);
	http_headers_done(h);
	*h = kept;
}

static void strip(struct http_headers *h)
{
	for (size_t i = 0; ours[i]; i++)
		http_headers_del(h, ours[i]);
	if (wall_stands("identity-headers"))
		forward_drop(h, identities);
}

/* "1.2.3.4:567" and "[::1]:567" without the port and brackets. */
static void ip_of_peer(const char *peer, char ret[64])
{
	const char *colon = strrchr(peer, ':');
	size_t len = colon ? (size_t)(colon - peer) : strlen(peer);

	if (len >= 2 && peer[0] == '[' && peer[len - 1] == ']') {
		peer++;
		len -= 2;
	}
	len = MIN(len, (size_t)63);
	memcpy(ret, peer, len);
	ret[len] = '\0';
}

void forward_headers(struct http_headers *h, const struct forward *f)
{
	autofree char *host = xstrdup(http_headers_get(h, "Host"));
	char ip[64];

	http_headers_del_hop_by_hop(h);
	strip(h);
	ip_of_peer(f->peer, ip);
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
		if (!matches_any(from->list[i].name, identities) &&
		    strncasecmp(from->list[i].name, "X-Sandbox-", 10) != 0)
			http_headers_add(ret, from->list[i].name, from->list[i].value);
	http_headers_del_hop_by_hop(ret);
	for (size_t i = 0; heads[i]; i++)
		http_headers_del(ret, heads[i]);
}
