/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "api/cay/team.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "net/http.h"
#include "net/http_proxy.h"
#include "outlet/outlet_priv.h"
#include "outlet/target.h"

/*
 * Headers on their way out, with the credential, and back, without it.
 *
 * To a browser all hosts behind the outlet are one origin. A page that was of this origin could
 * read each of them with its credential, so requests that tell of a browser are refused, and every
 * answer has an origin that is nobody's.
 */

static const char *header_of(const struct credential_use *u)
{
	return u->object ? credential_view(u->object)->header : "";
}

void headers_to_send(const struct http_headers *from, const struct target *t,
		     const struct credential_use *u, struct http_headers *ret)
{
	/* A pattern for http_headers_drop() would mean more if it ended with a dash. */
	const char *const replaced[] = { header_of(u), NULL };
	autobuf host = { 0 };

	for (size_t i = 0; i < from->n; i++)
		http_headers_add(ret, from->list[i].name, from->list[i].value);
	http_headers_del_hop_by_hop(ret);
	http_headers_del(ret, "Expect");
	http_headers_del(ret, "Referer"); /* it would name the outlet */
	target_authority(t, &host);
	http_headers_set(ret, "Host", buf_str(&host));
	if (!*replaced[0])
		return;
	http_headers_drop(ret, replaced);
	http_headers_del(ret, replaced[0]);
	http_headers_add(ret, replaced[0], u->text);
}

void headers_wipe(struct http_headers *h)
{
	for (size_t i = 0; i < h->n; i++)
		explicit_bzero(h->list[i].value, strlen(h->list[i].value));
	http_headers_done(h);
}

/* A server may show what it was sent, as it was sent or encoded as in a query. */
static bool tells(const char *value, const char *secret, const char *encoded)
{
	return strstr(value, secret) || strstr(value, encoded);
}

static void hide_value(struct http_headers *h, const struct credential_use *u)
{
	autofree char *encoded = url_encode(u->value);
	bool again;

	do {
		again = false;
		for (size_t i = 0; i < h->n && !again; i++)
			if (tells(h->list[i].value, u->value, encoded)) {
				autofree char *name = xstrdup(h->list[i].name);

				http_headers_del(h, name);
				again = true;
			}
	} while (again);
	explicit_bzero(encoded, strlen(encoded));
}

bool headers_is_our_name(struct span host, const char *address)
{
	struct span rest, name = span_cut(host, ':', &rest);

	return (span_eq_nocase(name, "outlet.cay.internal") || span_eq(name, address)) &&
	       (!rest.p || span_eq(rest, "80"));
}

/* Go names the URL that a redirect was at, which is one of the outlet's own, and old versions of
 * npm name their command. */
static bool is_page_elsewhere(const char *referer, const char *address)
{
	bool tls = strncasecmp(referer, "https://", 8) == 0;

	if (tls || strncasecmp(referer, "http://", 7) != 0)
		return tls;
	referer += 7;
	return !headers_is_our_name((struct span){ referer, strcspn(referer, "/?#") }, address);
}

const char *headers_browser_mark(const struct http_headers *h, const char *address)
{
	/* Browsers omit Sec-Fetch-* where there is no TLS, unless they take the name for a safe
	 * one. Sec-Fetch-Mode is not listed: Node.js sends it alone, a browser with the others. */
	static const char *const marks[] = { "Origin",         "Sec-Fetch-Dest",
					     "Sec-Fetch-Site", "Sec-Fetch-User",
					     "Sec-Purpose",    "Upgrade-Insecure-Requests" };
	const char *referer = http_headers_get(h, "Referer");

	for (size_t i = 0; i < ARRAY_LEN(marks); i++)
		if (http_headers_get(h, marks[i]))
			return marks[i];
	return referer && is_page_elsewhere(referer, address) ? "Referer" : NULL;
}

void headers_isolate(struct http_headers *h)
{
	static const char *const origin_wide[] = { "Access-Control-",
						   "Alt-Svc",
						   "Clear-Site-Data",
						   "NEL",
						   "Report-To",
						   "Reporting-Endpoints",
						   "Service-Worker-Allowed",
						   "Strict-Transport-Security",
						   NULL };
	static const struct {
		const char *name, *value;
	} rows[] = {
		{ "Content-Security-Policy",
		  "sandbox; default-src 'none'; base-uri 'none'; form-action 'none'; "
		  "frame-ancestors 'none'" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
	};

	http_headers_drop(h, origin_wide);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		http_headers_set(h, rows[i].name, rows[i].value);
}

void headers_to_answer(struct http_headers *h, const struct target *t,
		       const struct credential_use *u)
{
	const char *location;
	autobuf to = { 0 };

	http_headers_del_hop_by_hop(h);
	if (*header_of(u))
		http_headers_del(h, header_of(u));
	if (u->value)
		hide_value(h, u);
	location = http_headers_get(h, "Location");
	if (location && target_location(t, location, &to))
		http_headers_set(h, "Location", buf_str(&to));
	headers_isolate(h);
}
