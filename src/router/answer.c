/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/str.h"
#include "base/wall.h"
#include "net/http.h"
#include "net/http_proxy.h"
#include "router/router_priv.h"

/*
 * The headers that a client sees of a sandbox's answer. By header they stay as they are: programs
 * read them. By host and path browsers do, for which a sandbox is a site beside others:
 *
 * - It cannot set our cookie, nor one for its siblings (Domain).
 * - A redirection to its own address leads back to where the client found it.
 * - By path all sandboxes share an origin. Pages get one that is nobody's (the sandbox directive of
 *   Content-Security-Policy), and what would speak for the whole origin is left out.
 */
static const char *const origin_wide[] = { "Service-Worker-Allowed", "Clear-Site-Data", "Alt-Svc",
					   "Strict-Transport-Security", NULL };

/* Path and what follows of a URL of the sandbox's own; NULL: it is of something else. */
static const char *own_path(const char *url, const char *addr)
{
	size_t len = strlen(addr);

	if (url[0] == '/' && url[1] != '/')
		return url;
	if (strncasecmp(url, "http://", 7) != 0 || strncmp(url + 7, addr, len) != 0)
		return NULL;
	url += 7 + len;
	if (!*url)
		return "/";
	return *url == '/' ? url : NULL;
}

/* malloc'd; NULL: it stays as it is. */
static char *rewrite_location(const char *url, const struct answer *a, const char *base)
{
	const char *path = own_path(url, a->addr);

	if (!path || (path == url && !*base))
		return NULL;
	/* "//x" of the sandbox's own would be another host. */
	return xasprintf("%s%s%s", base, !*base && path[1] == '/' ? "/." : "", path);
}

static void add_attribute(struct buf *b, struct span attribute, const char *base)
{
	struct span value, name = span_trim(span_cut(attribute, '=', &value));

	if (span_eq_nocase(name, "Domain") && wall_stands("cookie-domain"))
		return;
	buf_add_str(b, "; ");
	if (*base && span_eq_nocase(name, "Path")) {
		value = value.p ? span_trim(value) : SPAN("/");
		buf_printf(b, "Path=%s%.*s", base, (int)value.len, value.p);
		return;
	}
	buf_add(b, attribute.p, attribute.len);
}

/* malloc'd; NULL: it must not be set. */
static char *rewrite_cookie(const char *cookie, const char *base)
{
	struct span rest, pair = span_trim(span_cut(SPAN(cookie), ';', &rest)), value;
	struct span name = span_trim(span_cut(pair, '=', &value));
	autobuf b = { 0 };

	/* A cookie without a name is sent as its value, which may look like one with a name. */
	if (!name.len)
		return NULL;
	for (int secure = 0; secure < 2; secure++)
		if (span_eq_nocase(name, entry_cookie_name(secure)) && wall_stands("cookie-name"))
			return NULL;
	buf_add(&b, pair.p, pair.len);
	while (rest.p)
		add_attribute(&b, span_trim(span_cut(rest, ';', &rest)), base);
	return buf_steal(&b, NULL);
}

static void add_header(struct http_headers *to, const struct http_header *h, const struct answer *a,
		       const char *base)
{
	bool stays = a->route->way == ROUTER_BY_PATH && a->no_rewrite;
	autofree char *value = NULL;

	if (str_eq_nocase(h->name, "Set-Cookie")) {
		value = rewrite_cookie(h->value, base);
		if (!value)
			return;
	} else if (str_eq_nocase(h->name, "Location") && !stays) {
		value = rewrite_location(h->value, a, base);
	}
	http_headers_add(to, h->name, value ? value : h->value);
}

void answer_headers(struct http_headers *h, const struct answer *a)
{
	bool by_path = a->route->way == ROUTER_BY_PATH;
	struct http_headers kept = { 0 };
	autofree char *base = NULL;

	if (a->route->way == ROUTER_BY_HEADER)
		return;
	base = by_path && !a->no_rewrite ? way_base(a->prefix, a->route) : xstrdup("");
	for (size_t i = 0; i < h->n; i++)
		add_header(&kept, &h->list[i], a, base);
	http_headers_done(h);
	*h = kept;
	if (!by_path)
		return;
	for (size_t i = 0; origin_wide[i]; i++)
		http_headers_del(h, origin_wide[i]);
	if (wall_stands("path-origin"))
		http_headers_add(h, "Content-Security-Policy", http_page_policy);
}
