/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/wall.h"
#include "client/client.h"
#include "net/http_proxy.h"
#include "net/http_server.h"
#include "router/callers/pass.h"
#include "router/router_priv.h"

/*
 * What a request shows beside who has connected: a pass, as a bearer token, as the parameter of a
 * signed URL, or as the cookie that such a URL was exchanged for.
 *
 * Browsers send cookies along whoever asks them to. All sandboxes are of one site, so SameSite does
 * not keep one away from another: with a cookie, a request must come from the sandbox's own origin,
 * or be the user going there. Browsers say which only to origins that they trust (https, and names
 * below localhost), so no others have cookies. Requests by path have no cookies at all: sandboxes
 * share an origin there, and each could use those of the others.
 */
enum {
	COOKIES_MAX = 64, /* of ours that are tried: each costs a digest */
};
static const char *const cookie_names[] = { "cay-door", "__Host-cay-door" };

const char *entry_bearer(void)
{
	return "bearer of a signed URL or scoped token";
}

const char *entry_cookie_name(bool secure)
{
	return cookie_names[secure];
}

/*
 * Browsers say so to origins that they trust: https, and names below localhost. To others they say
 * nothing, but no page can have them send our headers there either, without a preflight that nobody
 * answers.
 */
bool entry_by_browser(struct http_request *req)
{
	return http_request_header(req, "Sec-Fetch-Site") && wall_stands("browser-header");
}

/* From now on the request goes to the sandbox with this uid, or nowhere, and as what it is. */
static void bind_to(const struct pass *p, struct http_request *req, struct route *route)
{
	static const char *const overrides[] = { "X-HTTP-Method-Override", "X-HTTP-Method",
						 "X-Method-Override", NULL };

	route->by_pass = true;
	if (*p->methods)
		http_headers_drop(http_request_headers(req), overrides);
	if (!*p->uid || !wall_stands("pass-uid"))
		return;
	route->has_uid = true;
	memcpy(route->uid, p->uid, sizeof(route->uid));
}

static struct err *check(struct router *r, struct http_request *req, struct route *route,
			 const struct pass *p)
{
	autoptr(object) sandbox = client_get(r->client, r->sandboxes, route->ns, route->id);
	const struct pass_use u = { .route = route,
				    .uid = sandbox ? sandbox->uid : NULL,
				    .others_had = sandbox && sandbox_view(sandbox)->resets,
				    .method = http_request_method(req),
				    .path = http_request_path(req),
				    .now = clock_wall() / 1000000 };
	struct err *e = pass_check(p, &u);

	if (!e)
		bind_to(p, req, route);
	return e;
}

static struct err *forged(void)
{
	return err_new(ERR_UNAUTHENTICATED,
		       "unauthenticated: the signed URL or token was not issued here");
}

/* -- bearer -- */

static struct err *scoped(struct router *r, struct http_request *req, struct route *route,
			  const char *text)
{
	const struct tls_seal_key secret = { r->scoped_secret, strlen(r->scoped_secret) };
	struct pass p;

	if (route->has_ip || route->has_uid)
		return err_new(ERR_FORBIDDEN,
			       "forbidden: a scoped token goes neither with X-Sandbox-Pod-IP nor "
			       "with X-Sandbox-UID");
	return pass_open(&secret, PASS_SCOPED, text, &p) ? check(r, req, route, &p) : forged();
}

/* True: the request has a pass in Authorization, and *ret says what is wrong with it. */
static bool by_bearer(struct router *r, struct http_request *req, struct route *route,
		      struct err **ret)
{
	autofree char *text = NULL;
	struct span sent;
	struct pass p;

	if (!http_bearer(http_request_header(req, "Authorization"), &sent))
		return false;
	text = xstrndup(sent.p, sent.len);
	if (r->scoped_secret && pass_is(PASS_SCOPED, text))
		*ret = scoped(r, req, route, text);
	else if (r->pass_key.bytes && pass_is(PASS_URL, text))
		*ret = pass_open(&r->pass_key, PASS_URL, text, &p) ? check(r, req, route, &p)
								   : forged();
	else
		return false;
	return true;
}

/* -- the parameter of a signed URL -- */

/* Takes the parameter out of the target; malloc'd, NULL if there is none. The rest stays as sent.
 */
static char *take_param(struct http_request *req)
{
	struct span rest = SPAN(http_request_query(req)), part, value;
	autofree char *found = NULL;
	autobuf target = { 0 };
	char before = '?';

	buf_add_str(&target, http_request_path(req));
	while (rest.len) {
		part = span_cut(rest, '&', &rest);
		if (span_eq(span_cut(part, '=', &value), ENTRY_PARAM)) {
			free(found);
			found = xstrndup(value.p ? value.p : "", value.len);
			continue;
		}
		buf_add_char(&target, before);
		buf_add(&target, part.p, part.len);
		before = '&';
	}
	if (found)
		http_request_set_target(req, buf_str(&target));
	return take(found);
}

static void own_origin(struct http_request *req, const struct route *route, struct buf *ret)
{
	buf_printf(ret, "%s://%s", route->secure ? "https" : "http",
		   str_or(http_request_header(req, "Host"), ""));
}

/* The same URL without the parameter, and a cookie. It is whole: "//x" would be another host. */
static void redirect(struct router *r, struct http_request *req, const struct route *route,
		     const struct pass *p)
{
	autofree char *sealed = pass_seal(&r->pass_key, PASS_COOKIE, p);
	int64_t left = p->expires - clock_wall() / 1000000;
	struct http_headers h = { 0 };
	autobuf to = { 0 }, cookie = { 0 };

	own_origin(req, route, &to);
	buf_add_str(&to, http_request_target(req));
	buf_printf(&cookie, "%s=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%lld%s",
		   entry_cookie_name(route->secure), sealed, (long long)MAX(left, (int64_t)1),
		   route->secure ? "; Secure" : "");
	http_headers_add(&h, "Location", buf_str(&to));
	http_headers_add(&h, "Set-Cookie", buf_str(&cookie));
	http_headers_add(&h, "Cache-Control", "no-store");
	http_headers_add(&h, "Referrer-Policy", "no-referrer");
	record_request(
		r, req,
		&(struct record){
			.route = route, .entered = true, .status = 303, .who = entry_bearer() });
	http_respond(req, 303, &h, (struct http_body){ 0 });
	http_headers_done(&h);
}

/* Whether browsers say, with each request, which page it comes from. */
static bool cookies_are_safe(const struct router *r, const struct route *route)
{
	return route->way == ROUTER_BY_HOST && (route->secure || str_eq(r->domain, "localhost") ||
						str_ends(r->domain, ".localhost"));
}

static bool can_be_redirected(struct http_request *req, const struct route *route)
{
	const char *method = http_request_method(req);

	return route->way == ROUTER_BY_HOST && (str_eq(method, "GET") || str_eq(method, "HEAD")) &&
	       !http_headers_has_token(http_request_headers(req), "Connection", "upgrade");
}

static enum entry by_param(struct router *r, struct http_request *req, struct route *route,
			   const char *text, struct err **why)
{
	struct pass p;

	*why = r->pass_key.bytes && pass_open(&r->pass_key, PASS_URL, text, &p)
		       ? check(r, req, route, &p)
		       : forged();
	if (*why)
		return ENTRY_REFUSED;
	if (!can_be_redirected(req, route))
		return ENTRY_IN;
	if (!cookies_are_safe(r, route)) {
		*why = err_new(ERR_FORBIDDEN,
			       "forbidden: without TLS a signed URL can be opened below .localhost "
			       "only; use the port of --router-tls-listen");
		return ENTRY_REFUSED;
	}
	redirect(r, req, route, &p);
	return ENTRY_ANSWERED;
}

/* -- cookies -- */

/* Takes ours out of one Cookie header; what they say goes to found, one in a line. malloc'd, NULL
 * if nothing is left. */
static char *take_cookies(const char *header, bool secure, struct buf *found)
{
	struct span rest = SPAN(header), part, value, name;
	autobuf left = { 0 };

	while (rest.len) {
		part = span_trim(span_cut(rest, ';', &rest));
		name = span_trim(span_cut(part, '=', &value));
		if (span_eq(name, cookie_names[0]) || span_eq(name, cookie_names[1])) {
			if (value.p && span_eq(name, entry_cookie_name(secure))) {
				buf_add(found, value.p, value.len);
				buf_add_char(found, '\n');
			}
			continue;
		}
		if (!part.len)
			continue;
		if (left.len)
			buf_add_str(&left, "; ");
		buf_add(&left, part.p, part.len);
	}
	return left.len ? buf_steal(&left, NULL) : NULL;
}

static bool has_cookie_of_ours(const struct http_headers *h)
{
	for (size_t i = 0; i < h->n; i++)
		if (str_eq_nocase(h->list[i].name, "Cookie") &&
		    strstr(h->list[i].value, cookie_names[0]))
			return true; /* the other name contains this one */
	return false;
}

static void strip_cookies(struct http_request *req, bool secure, struct buf *found)
{
	struct http_headers *h = http_request_headers(req), left = { 0 };

	if (!has_cookie_of_ours(h))
		return; /* others stay as they were sent */
	for (size_t i = 0; i < h->n; i++) {
		autofree char *rest = NULL;

		if (!str_eq_nocase(h->list[i].name, "Cookie"))
			continue;
		rest = take_cookies(h->list[i].value, secure, found);
		if (rest)
			http_headers_add(&left, "Cookie", rest);
	}
	http_headers_del(h, "Cookie");
	for (size_t i = 0; i < left.n; i++)
		http_headers_add(h, "Cookie", left.list[i].value);
	http_headers_done(&left);
}

static bool is_safe(const char *method)
{
	return str_eq(method, "GET") || str_eq(method, "HEAD") || str_eq(method, "OPTIONS");
}

static bool is_from(const char *url, const char *origin)
{
	size_t len = strlen(origin);

	return !strncasecmp(url, origin, len) && (!url[len] || url[len] == '/');
}

/* A request with a cookie: does the sandbox itself make it, or the user, or somebody else? */
static bool is_own(struct http_request *req, const struct route *route)
{
	const char *from = http_request_header(req, "Origin");
	const char *site = http_request_header(req, "Sec-Fetch-Site");
	const char *referer = http_request_header(req, "Referer");
	bool harmless = is_safe(http_request_method(req)) &&
			!http_headers_has_token(http_request_headers(req), "Connection", "upgrade");
	autobuf own = { 0 };

	own_origin(req, route, &own);
	if (from && !str_eq_nocase(from, buf_str(&own)))
		return false;
	if (site && !str_eq(site, "same-origin") && !str_eq(site, "none"))
		return harmless && str_eq(http_request_header(req, "Sec-Fetch-Mode"), "navigate") &&
		       str_eq(http_request_header(req, "Sec-Fetch-Dest"), "document");
	if (harmless || from || str_eq(site, "same-origin"))
		return true;
	return referer && is_from(referer, buf_str(&own));
}

/* One of them is enough: a sibling may have planted others beside the good one. */
static struct err *check_cookies(struct router *r, struct http_request *req, struct route *route,
				 const struct buf *found)
{
	struct span rest = { buf_head(found), found->len };
	struct err *e = forged();

	for (int i = 0; i < COOKIES_MAX && rest.len && e; i++) {
		struct span one = span_cut(rest, '\n', &rest);
		autofree char *text = xstrndup(one.p, one.len);
		struct pass p;

		if (!pass_open(&r->pass_key, PASS_COOKIE, text, &p))
			continue;
		err_free(e);
		e = check(r, req, route, &p);
	}
	return e;
}

static enum entry by_cookie(struct router *r, struct http_request *req, struct route *route,
			    const struct buf *found, struct err **why)
{
	struct err *e = check_cookies(r, req, route, found);

	if (e && http_request_header(req, "Authorization")) {
		err_free(e); /* the policy may like that better */
		return ENTRY_ASK;
	}
	if (!e && !is_own(req, route) && wall_stands("cookie-origin"))
		e = err_new(ERR_FORBIDDEN,
			    "forbidden: another page made the browser send this request; with a "
			    "cookie it must come from the sandbox's own pages (Origin, "
			    "Sec-Fetch-Site, Referer)");
	*why = e;
	return e ? ENTRY_REFUSED : ENTRY_IN;
}

enum entry entry_look(struct router *r, struct http_request *req, struct route *route,
		      struct err **why)
{
	autofree char *param = NULL;
	autobuf cookies = { 0 };

	strip_cookies(req, route->secure, &cookies);
	if (route->way != ROUTER_BY_HEADER)
		param = take_param(req);
	if (by_bearer(r, req, route, why))
		return *why ? ENTRY_REFUSED : ENTRY_IN;
	if (param)
		return by_param(r, req, route, param, why);
	if (cookies.len && cookies_are_safe(r, route) && r->pass_key.bytes)
		return by_cookie(r, req, route, &cookies, why);
	return ENTRY_ASK;
}
