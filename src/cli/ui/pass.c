/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/str.h"
#include "cli/ui/ui_priv.h"
#include "net/conn.h"
#include "net/http_client.h"
#include "net/http_proxy.h"
#include "net/http_server.h"
#include "net/pump.h"

/*
 * A request of the page, passed on to the server: its token is replaced by the credentials of the
 * kubeconfig. Both bodies stream, a side that is full holds the other back, and after 101 a pump
 * connects the two.
 *
 * Answers may be the words of a Pod. A browser shows none of them as a page of our origin: without
 * the token there is no answer, and what there is has a policy that gives it no origin.
 */
enum {
	CONNECT_MS = 10 * 1000,
	HEAD_MS = 180 * 1000,
	TUNNEL_IDLE_MS = 3600 * 1000,
};

struct pass {
	struct list on;           /* passes.list */
	struct http_request *req; /* NULL: it has become a tunnel */
	struct http_exchange *x;  /* NULL: over */
	struct pump *pump;
	char *upgrade; /* the protocol asked for; NULL: none */
	bool answered;
};

static void pass_free(void *owner)
{
	struct pass *p = owner;

	list_del(&p->on);
	if (p->x)
		http_exchange_cancel(p->x);
	pump_free(p->pump);
	free(p->upgrade);
	free(p);
}

bool pass_path(const char *path)
{
	static const char *const roots[] = { "/api",   "/apis",   "/version", "/openapi",
					     "/livez", "/readyz", "/cay",     NULL };
	size_t len = path[0] == '/' ? 1 + strcspn(path + 1, "/") : 0;
	autofree char *root = xstrndup(path, len);

	return str_in(root, roots);
}

/* The request's body */

static void on_body_data(void *owner, struct http_request *req, const char *data, size_t len)
{
	struct pass *p = owner;

	if (!p->x)
		return; /* it was answered already: nobody wants the rest */
	http_exchange_write(p->x, data, len);
	if (http_exchange_full(p->x))
		http_request_pause(req, true);
}

static void on_body_end(void *owner, unused struct http_request *req)
{
	struct pass *p = owner;

	if (p->x)
		http_exchange_end_body(p->x, NULL);
}

static void on_drained_up(void *arg)
{
	struct pass *p = arg;

	if (p->req)
		http_request_pause(p->req, false);
}

/* The answer */

static void on_drained_down(void *owner)
{
	struct pass *p = owner;

	if (p->x)
		http_exchange_pause(p->x, false);
}

static void on_tunnel_done(void *arg)
{
	struct pass *p = arg;

	p->pump = NULL;
	pass_free(p);
}

static void become_tunnel(struct pass *p, struct http_headers *h)
{
	struct http_exchange *x = take(p->x);
	struct conn *down = NULL, *up;

	http_headers_set(h, "Connection", "Upgrade");
	http_headers_set(h, "Upgrade", p->upgrade);
	p->answered = true;
	http_respond_upgrade(p->req, h, &down);
	if (!down) { /* the page has just left */
		http_exchange_cancel(x);
		return;
	}
	p->req = NULL;
	up = http_exchange_take_conn(x);
	conn_set_idle_ms(down, TUNNEL_IDLE_MS);
	conn_set_idle_ms(up, TUNNEL_IDLE_MS);
	p->pump = pump_start(down, up, on_tunnel_done, p);
}

/* What would act on our origin, and not on the answer. */
static void guard(struct http_headers *h)
{
	static const char *const origin_wide[] = { "Access-Control-",
						   "Alt-Svc",
						   "Clear-Site-Data",
						   "NEL",
						   "Report-To",
						   "Reporting-Endpoints",
						   "Service-Worker-Allowed",
						   "Set-Cookie",
						   "Strict-Transport-Security",
						   "WWW-Authenticate",
						   NULL };

	http_headers_del_hop_by_hop(h);
	http_headers_drop(h, origin_wide);
	http_headers_set(h, "Content-Security-Policy", http_page_policy);
	http_headers_set(h, "X-Content-Type-Options", "nosniff");
	http_headers_set(h, "Cross-Origin-Resource-Policy", "same-origin");
}

static void on_head(void *arg, int status, struct http_headers *h)
{
	struct pass *p = arg;
	int64_t length = http_headers_length(h);

	guard(h);
	if (status == 101 && p->upgrade) {
		become_tunnel(p, h);
		return;
	}
	p->answered = true;
	if (status == 101) {
		http_exchange_cancel(take(p->x));
		http_respond_text(p->req, 502, "the server changes the protocol unasked");
		return;
	}
	http_respond_on_drain(p->req, on_drained_down);
	http_respond_start(p->req, status, h, length);
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct pass *p = arg;

	http_respond_write(p->req, data, len);
	if (http_respond_full(p->req))
		http_exchange_pause(p->x, true);
}

static void on_end(void *arg, unused struct http_headers *trailers)
{
	struct pass *p = arg;

	p->x = NULL;
	http_respond_end(p->req);
}

static void on_failed(void *arg, const struct err *e)
{
	struct pass *p = arg;
	autofree char *text = NULL;

	p->x = NULL;
	if (p->answered) {
		http_respond_abort(p->req);
		return;
	}
	p->answered = true;
	text = xasprintf("the server cannot be reached: %s", err_text(e));
	http_respond_text(p->req, 502, text);
}

static const struct http_exchange_events events = {
	.head = on_head,
	.data = on_data,
	.end = on_end,
	.drained = on_drained_up,
	.failed = on_failed,
};

/* The beginning */

static char *upgrade_of(const struct http_headers *h)
{
	const char *to = http_headers_get(h, "Upgrade");

	if (!to || !http_headers_has_token(h, "Connection", "upgrade") ||
	    http_headers_has_token(h, "Upgrade", "h2c"))
		return NULL;
	return xstrdup(to);
}

static void request_headers(struct http_headers *h, const struct cli_server *at,
			    const char *upgrade)
{
	static const char *const ours[] = { "Authorization", "Content-Length", "Cookie",
					    "Expect",        "Forwarded",      "HTTP2-Settings",
					    "Origin",        "Referer",        NULL };
	autofree char *origin = NULL;

	http_headers_del_hop_by_hop(h);
	http_headers_drop(h, http_identities);
	http_headers_drop(h, ours);
	http_headers_drop_bearer_protocols(h);
	http_headers_set(h, "Host", at->host);
	if (at->authorization)
		http_headers_set(h, "Authorization", at->authorization);
	if (!upgrade)
		return;
	origin = xasprintf("%s://%s", at->tls ? "https" : "http", at->host);
	http_headers_set(h, "Origin", origin); /* a kube-apiserver wants one */
	http_headers_set(h, "Connection", "Upgrade");
	http_headers_set(h, "Upgrade", upgrade);
}

void pass_start(struct passes *ps, struct http_request *req)
{
	static const struct http_body_events body_events = { on_body_data, on_body_end };
	autofree char *target = xasprintf("%s%s", ps->at->prefix, http_request_target(req));
	struct http_headers *h = http_request_headers(req);
	int64_t body_len = http_request_body_len(req);
	struct pass *p = xnew(struct pass);

	p->req = req;
	p->upgrade = upgrade_of(h);
	list_add_tail(&ps->list, &p->on);
	request_headers(h, ps->at, p->upgrade);
	http_request_set_owner(req, p, pass_free);
	p->x = http_exchange_start(ps->pool,
				   &(struct http_exchange_spec){ .version = 1,
								 .addr = ps->at->addr,
								 .method = http_request_method(req),
								 .target = target,
								 .headers = h,
								 .body_len = body_len,
								 .connect_ms = CONNECT_MS,
								 .head_ms = HEAD_MS },
				   &events, p);
	if (body_len)
		http_request_stream(req, &body_events);
}

void passes_free(struct passes *ps)
{
	struct pass *p, *next;

	list_each_safe(p, next, &ps->list, on) {
		if (p->req)
			http_request_set_owner(p->req, NULL, NULL);
		pass_free(p);
	}
}
