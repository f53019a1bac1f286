/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "net/conn.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/pump.h"
#include "net/stream.h"
#include "server/call/call.h"
#include "server/streams/proxy_priv.h"
#include "tls/tls.h"

/*
 * pods/NAME/proxy and services/NAME/proxy: the request goes on to a port of a Pod, through the node
 * as a forwarded port does, and its answer comes back. Both stream, and a side that is full holds
 * the other back. The Pod may be hostile: its head is limited and must come in time, and an answer
 * that breaks off is cut, never ended as if complete.
 *
 * The request stays the call's; its left() tells that it is over. After 101 there is no request any
 * more, and a pump connects the two.
 */
enum {
	HEAD_MS = 180 * 1000,
	TUNNEL_IDLE_MS = 3600 * 1000,
};

struct proxy {
	struct pod_stream stream;
	struct streams *streams;
	struct call *call;
	struct proxy_target to;
	struct pod_pipe *pipe;
	struct http_exchange *x; /* NULL: over */
	struct pump *pump;
	char *upgrade; /* the protocol asked for; NULL: none */
	char *host;    /* by which the client calls us */
	bool answered;
};

static void proxy_free(struct proxy *p)
{
	pod_stream_del(&p->stream);
	if (p->call->left_arg == p) {
		p->call->left = NULL;
		p->call->left_arg = NULL;
	}
	if (p->x)
		http_exchange_cancel(p->x);
	pump_free(p->pump);
	pod_pipe_free(p->pipe);
	call_unref(p->call);
	free(p->upgrade);
	free(p->host);
	free(p);
}

static void on_left(void *arg)
{
	proxy_free(arg);
}

/* The rights are gone, or the node is: an answer that has begun is torn. */
static void proxy_cut(struct pod_stream *s)
{
	struct proxy *p = container_of(s, struct proxy, stream);
	autoptr(call) c = call_ref(p->call);
	bool answered = p->answered;

	proxy_free(p);
	if (!c->req)
		return;
	if (answered)
		http_respond_abort(c->req);
	else
		call_fail(c, err_new(ERR_UNAVAILABLE, "the pod cannot be reached any more"));
}

/* Answers with an error, which it takes over; p is gone. */
static void proxy_fail(struct proxy *p, struct err *e)
{
	autoptr(call) c = call_ref(p->call);

	proxy_free(p);
	call_fail(c, e);
}

/* The request's body */

static struct proxy *of_call(void *owner)
{
	return ((struct call *)owner)->left_arg;
}

static void on_body_data(void *owner, struct http_request *req, const char *data, size_t len)
{
	struct proxy *p = of_call(owner);

	if (!p || !p->x)
		return; /* it was answered already: nobody wants the rest */
	http_exchange_write(p->x, data, len);
	if (http_exchange_full(p->x))
		http_request_pause(req, true);
}

static void on_body_end(void *owner, unused struct http_request *req)
{
	struct proxy *p = of_call(owner);

	if (p && p->x)
		http_exchange_end_body(p->x, NULL);
}

static void on_drained_up(void *arg)
{
	struct proxy *p = arg;

	if (p->call->req)
		http_request_pause(p->call->req, false);
}

/* The answer */

static void on_drained_down(void *owner)
{
	struct proxy *p = of_call(owner);

	if (p && p->x)
		http_exchange_pause(p->x, false);
}

static void on_tunnel_done(void *arg)
{
	struct proxy *p = arg;

	p->pump = NULL;
	proxy_free(p);
}

static void become_tunnel(struct proxy *p, struct http_headers *h)
{
	struct http_exchange *x = take(p->x);
	struct conn *down = NULL, *up;

	http_headers_set(h, "Connection", "Upgrade");
	http_headers_set(h, "Upgrade", p->upgrade);
	p->answered = true;
	upgrade_plain(p->call, h, &down);
	if (!down) { /* the client has just left, or speaks HTTP/2, which is answered */
		http_exchange_cancel(x);
		return;
	}
	p->call->left = NULL;
	up = http_exchange_take_conn(x);
	conn_set_idle_ms(down, TUNNEL_IDLE_MS);
	conn_set_idle_ms(up, TUNNEL_IDLE_MS);
	p->pump = pump_start(down, up, on_tunnel_done, p);
}

static void on_head(void *arg, int status, struct http_headers *h)
{
	struct proxy *p = arg;
	struct http_request *req = p->call->req;
	int64_t length = http_headers_length(h);

	if (status == STATUS_SWITCHING && !p->upgrade) {
		http_exchange_cancel(take(p->x));
		proxy_fail(p, err_new(ERR_UNAVAILABLE,
				      "error trying to reach service: it changes the protocol, "
				      "which nobody asked for"));
		return;
	}
	proxy_answer_headers(h, &(struct proxy_answer){ p->call->route.base, p->to.addr, p->host });
	p->call->status = status;
	if (status == STATUS_SWITCHING) {
		become_tunnel(p, h);
		return;
	}
	p->answered = true;
	http_respond_on_drain(req, on_drained_down);
	http_respond_start(req, status, h, length);
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct proxy *p = arg;
	struct http_request *req = p->call->req;

	http_respond_write(req, data, len);
	if (http_respond_full(req))
		http_exchange_pause(p->x, true);
}

static void on_end(void *arg, unused struct http_headers *trailers)
{
	struct proxy *p = arg;

	p->x = NULL;
	http_respond_end(p->call->req);
}

static void on_failed(void *arg, const struct err *e)
{
	struct proxy *p = arg;
	const struct err *why = pod_pipe_error(p->pipe); /* the port is closed, say */

	p->x = NULL;
	if (p->answered)
		http_respond_abort(p->call->req);
	else
		proxy_fail(p, err_new(ERR_UNAVAILABLE, "error trying to reach service: %s",
				      err_text(why ? why : e)));
}

static const struct http_exchange_events exchange_events = {
	.head = on_head,
	.data = on_data,
	.end = on_end,
	.drained = on_drained_up,
	.failed = on_failed,
};

/* The beginning */

/* Whoever calls trusts the API server to reach the Pod; nobody could say what its certificate
 * should be. */
static struct err *wrap(struct streams *ps, bool https, int fd, struct stream **ret)
{
	struct err *e = NULL;

	if (https && !ps->proxy_tls)
		e = tls_client_ctx(&(struct tls_client_spec){ .insecure = true }, &ps->proxy_tls);
	if (e) {
		(void)close(fd);
		return e;
	}
	*ret = https ? tls_connect(ps->proxy_tls, fd, NULL) : stream_plain(fd);
	return NULL;
}

static struct err *dial(struct proxy *p, struct stream **ret)
{
	const struct call *c = p->call;
	const struct access_dial_spec spec = {
		.to = { .ns = c->route.ns,
			.pod = p->to.pod,
			.user = c->user.name,
			.from = c->from,
			.groups = c->user.groups,
			.account_ns = c->user.sa_ns },
		.port = p->to.port,
		.sub = "proxy",
	};
	int fd = -1;
	struct err *e = pod_stream_add(&p->stream, p->streams, p->call);

	if (!e)
		e = pod_pipe_open(p->streams, &spec, &p->pipe, &fd);
	return e ? e : wrap(p->streams, p->to.https, fd, ret);
}

static void send(struct proxy *p, struct stream *s)
{
	static const struct http_body_events body_events = { on_body_data, on_body_end };
	struct call *c = p->call;
	struct http_headers *h = http_request_headers(c->req);
	int64_t body_len = http_request_body_len(c->req);
	autofree char *target = xasprintf("%s%s%s%s", *c->route.rest ? "" : "/", c->route.rest,
					  *c->query ? "?" : "", c->query);

	if (!p->streams->proxy_pool)
		p->streams->proxy_pool = http_pool_new(p->streams->loop, NULL, 0);
	proxy_request_headers(h, c, p->upgrade);
	c->left = on_left;
	c->left_arg = p;
	p->x = http_exchange_start(p->streams->proxy_pool,
				   &(struct http_exchange_spec){ .version = 1,
								 .addr = p->to.addr,
								 .stream = s,
								 .method = c->method,
								 .target = target,
								 .headers = h,
								 .body_len = body_len,
								 .head_ms = HEAD_MS },
				   &exchange_events, p);
	if (body_len)
		http_request_stream(c->req, &body_events);
}

/* The protocol to change to; malloc'd, NULL: none. In a tunnel of HTTP/2 there could be anything.
 */
static char *upgrade_of(const struct http_headers *h)
{
	const char *to = http_headers_get(h, "Upgrade");

	if (!to || !http_headers_has_token(h, "Connection", "upgrade") ||
	    http_headers_has_token(h, "Upgrade", "h2c"))
		return NULL;
	return xstrdup(to);
}

/* Links of a page that is shown without the slash at its end would lead elsewhere. */
static bool redirect(struct call *c)
{
	autofree char *to = xasprintf("%s/%s%s", c->route.base, *c->query ? "?" : "", c->query);
	struct http_headers h = { 0 };

	if (*c->route.rest || (!str_eq(c->method, "GET") && !str_eq(c->method, "HEAD")))
		return false;
	http_headers_add(&h, "Location", to);
	c->status = STATUS_MOVED;
	http_respond(c->req, STATUS_MOVED, &h, (struct http_body){ 0 });
	http_headers_done(&h);
	return true;
}

void streams_proxy(struct streams *ps, struct call *c)
{
	struct stream *s = NULL;
	struct proxy_target to;
	struct proxy *p;
	struct err *e = proxy_find(ps, c, &to);

	if (to.asleep && streams_wake_pod(ps, c, to.asleep, streams_proxy)) {
		err_free(e);
		return;
	}
	if (e) {
		call_fail(c, e);
		return;
	}
	p = xnew(struct proxy);
	p->stream.cut = proxy_cut;
	p->streams = ps;
	p->call = call_ref(c);
	p->to = to;
	p->upgrade = upgrade_of(http_request_headers(c->req));
	p->host = xstrdup(http_request_header(c->req, "Host"));
	if (!p->upgrade && redirect(c)) {
		proxy_free(p);
		return;
	}
	e = dial(p, &s);
	if (e)
		proxy_fail(p, err_is(e, ERR_EXHAUSTED) || err_is(e, ERR_FORBIDDEN)
				      ? e
				      : err_recode(err_wrap(e, "error trying to reach service"),
						   ERR_UNAVAILABLE));
	else
		send(p, s);
}
