/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/log.h"
#include "base/str.h"
#include "client/client.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/pump.h"
#include "router/router_priv.h"

/*
 * One request on its way into a sandbox:
 *
 *   look → (starting) hold → look      the sandbox changed
 *     |  → (ready) exchange → answer   bytes stream both ways, each side slowing the other
 *     |         | refused → wait 50 ms → look
 *     |         | 101 → tunnel
 *     +→ 502, and why (failure.c)
 *
 * The request is the HTTP server's; ended() tells that it is over, whatever the reason, and frees
 * the proxy. A tunnel has left the server and ends with its pump.
 */
enum {
	CONNECT_MS = 5000,
	RETRY_MS = 50,
	RETRY_YOUNG_MS = 2000,
	RETRY_OLD_MS = 250,
	REPLAY_MAX = 512 * 1024, /* more than an exchange takes before it is connected */
	TUNNEL_IDLE_MS = 3600 * 1000,
	TUNNELS_MAX = 8192,
};
#define DEFAULT_TIMEOUT_MS (180 * 1000u)
#define MAX_TIMEOUT_MS     (3600 * 1000u)
static const char no_upgrade[] = "Backend attempted a WebSocket upgrade over HTTP. "
				 "Connect using the WebSocket protocol instead.";

struct proxy {
	struct router *r;
	struct http_request *req; /* NULL: a tunnel */
	struct http_exchange *x;  /* NULL: not connected, or over */
	struct route route;
	char *who;     /* went in, for the record and for reviews; NULL: nobody asks */
	char addr[64]; /* of the sandbox, once it was found */
	struct waiter waiter;
	struct list link; /* in router.requests, or in router.tunnels */
	struct list on_stays;
	struct timer *timer; /* the end of a hold, or the next try */
	usec started, deadline, hold_until, retry_until;
	int64_t body_len;  /* < 0: chunked */
	struct buf replay; /* what was sent of the body before a peer accepted it */
	bool prepared, streaming, body_ended, no_replay;
	char *upgrade; /* the protocol asked for; NULL: none */
	bool grpc;
	struct http_headers grpc_status; /* of an answer that is nothing else */
	bool answered;
	int status;
	unsigned n_retries;
	uint64_t bytes_in, bytes_out;
	struct pump *pump;
};

static void look(struct proxy *p);

static usec age(const struct proxy *p)
{
	return clock_mono() - p->started;
}

/* The HTTP server may have answered in our stead, for a body that it could not read. */
static void record(const struct proxy *p)
{
	record_request(
		p->r, p->req,
		&(struct record){ .route = &p->route,
				  .entered = true,
				  .who = p->who,
				  .status = p->status ? p->status : http_request_status(p->req),
				  .bytes = p->bytes_out,
				  .took = age(p) });
}

static void unhold(struct proxy *p)
{
	router_unhold(p->r, &p->route, &p->waiter);
}

static void proxy_free(struct proxy *p)
{
	unhold(p);
	list_del(&p->link);
	list_del(&p->on_stays);
	if (p->x)
		http_exchange_cancel(p->x);
	timer_free(p->timer);
	pump_free(p->pump);
	buf_done(&p->replay);
	http_headers_done(&p->grpc_status);
	free(p->upgrade);
	free(p->who);
	free(p);
}

static void on_ended(void *owner)
{
	struct proxy *p = owner;

	record(p);
	p->r->stats.active--;
	proxy_free(p);
}

/* Sends an answer of our own. The proxy may be gone afterwards. */
static void fail(struct proxy *p, enum router_failure why)
{
	unhold(p);
	p->status = failure_status(why);
	p->answered = true;
	p->r->stats.failed++;
	failure_answer(p->req, why, p->route.id);
}

static uint64_t ms_until(usec when)
{
	usec left = when - clock_mono();

	return left > 0 ? (uint64_t)(left + 999) / 1000 : 0;
}

/* The time of a call is over: it covers all of the answer. */
static void expire(struct proxy *p)
{
	http_exchange_cancel(take(p->x));
	if (p->answered)
		grpc_end(p->req, 504, "the time of the call is over");
	else
		fail(p, ROUTER_SILENT);
}

static void on_timer(void *arg)
{
	struct proxy *p = arg;

	if (p->x)
		expire(p);
	else
		look(p);
}

static void arm(struct proxy *p, uint64_t ms)
{
	if (!p->timer)
		p->timer = timer_new(p->r->loop, on_timer, p);
	timer_set(p->timer, ms);
}

static void on_drained_up(void *arg)
{
	struct proxy *p = arg;

	http_request_pause(p->req, false);
}

static void on_drained_down(void *owner)
{
	struct proxy *p = owner;

	if (p->x)
		http_exchange_pause(p->x, false);
}

/* Until a connection is made, what was sent may have to be sent again to the next one. */
static void keep_for_replay(struct proxy *p, const char *data, size_t len)
{
	if (p->no_replay)
		return;
	if (p->replay.len + len <= REPLAY_MAX) {
		buf_add(&p->replay, data, len);
		return;
	}
	buf_done(&p->replay);
	p->replay = (struct buf){ 0 };
	p->no_replay = true;
}

static bool too_large(const struct proxy *p, uint64_t body)
{
	return p->r->spec.max_body && body > p->r->spec.max_body;
}

/* The body is larger than the limit. The sandbox must not take what it got for all of it. */
static void fail_too_large(struct proxy *p)
{
	if (p->x)
		http_exchange_cancel(take(p->x));
	if (p->answered) {
		http_respond_abort(p->req);
		return;
	}
	unhold(p);
	if (p->timer)
		timer_clear(p->timer);
	p->status = 413;
	p->answered = true;
	router_answer(p->req, 413, "The body of the request has more than %llu bytes.",
		      (unsigned long long)p->r->spec.max_body);
}

static void on_body_data(void *owner, struct http_request *req, const char *data, size_t len)
{
	struct proxy *p = owner;

	p->bytes_in += len;
	if (too_large(p, p->bytes_in) && (p->x || !p->answered)) {
		fail_too_large(p);
		return;
	}
	keep_for_replay(p, data, len);
	if (!p->x)
		return; /* it was answered already: nobody wants the rest */
	http_exchange_write(p->x, data, len);
	if (http_exchange_full(p->x))
		http_request_pause(req, true);
}

static void end_body(struct proxy *p)
{
	struct http_headers trailers = { 0 };

	forward_trailers(http_request_trailers(p->req), &trailers);
	http_exchange_end_body(p->x, &trailers);
	http_headers_done(&trailers);
}

static void on_body_end(void *owner, unused struct http_request *req)
{
	struct proxy *p = owner;

	p->body_ended = true;
	if (p->x)
		end_body(p);
}

static void send_body(struct proxy *p)
{
	static const struct http_body_events events = { on_body_data, on_body_end };

	if (!p->body_len)
		return;
	if (!p->streaming) {
		p->streaming = true;
		http_request_stream(p->req, &events);
		return;
	}
	if (p->replay.len)
		http_exchange_write(p->x, buf_head(&p->replay), p->replay.len);
	if (p->body_ended)
		end_body(p);
	http_request_pause(p->req, http_exchange_full(p->x));
}

void proxy_cut(struct list *tunnel)
{
	struct proxy *p = list_item(tunnel, struct proxy, link);

	p->r->stats.tunnels--;
	record_tunnel_end(p->r, &p->route, age(p));
	proxy_free(p);
}

/* What let it in is gone. */
static void evict(struct proxy *p)
{
	static const char why[] = "forbidden: what let this request in is no longer there";

	if (!p->req) {
		proxy_cut(&p->link);
		return;
	}
	if (p->answered && !p->x)
		return; /* nothing goes in or comes out any more */
	if (p->x)
		http_exchange_cancel(take(p->x));
	if (p->answered) {
		http_respond_abort(p->req);
		return;
	}
	unhold(p);
	if (p->timer)
		timer_clear(p->timer);
	p->status = 403;
	p->answered = true;
	router_answer(p->req, 403, "%s", why);
}

/* Each is taken from the list of those that are left: the end of one may end others. */
void router_review(struct router *r, bool (*stays)(void *arg, const struct router_stay *s),
		   void *arg)
{
	struct router_stay s;
	struct proxy *p;
	LIST_HEAD(left);

	list_take_all(&r->stays, &left);
	while (!list_empty(&left)) {
		p = list_first(&left, struct proxy, on_stays);
		list_del(&p->on_stays);
		list_add_tail(&r->stays, &p->on_stays);
		s = (struct router_stay){ p->who, p->route.ns, p->route.id, p->route.port };
		if (!stays(arg, &s))
			evict(p);
	}
}

static void on_tunnel_done(void *arg)
{
	struct proxy *p = arg;

	p->pump = NULL;
	proxy_cut(&p->link);
}

/* After 101 both connections are ours, and bytes flow between them. */
static void become_tunnel(struct proxy *p, struct http_headers *h)
{
	struct http_exchange *x = take(p->x);
	struct conn *down = NULL, *up;

	http_headers_del_hop_by_hop(h);
	answer_headers(h,
		       &(struct answer){ &p->route, p->r->prefix, p->addr, p->r->spec.no_rewrite });
	http_headers_set(h, "Connection", "Upgrade");
	http_headers_set(h, "Upgrade", p->upgrade);
	p->status = 101;
	p->answered = true;
	http_respond_upgrade(p->req, h, &down);
	if (!down) { /* the client has just left */
		http_exchange_cancel(x);
		return;
	}
	up = http_exchange_take_conn(x);
	record(p);
	p->req = NULL;
	p->r->stats.active--;
	p->r->stats.tunnels++;
	conn_set_idle_ms(down, TUNNEL_IDLE_MS);
	conn_set_idle_ms(up, TUNNEL_IDLE_MS);
	list_del(&p->link);
	list_add_tail(&p->r->tunnels, &p->link);
	p->pump = pump_start(down, up, on_tunnel_done, p);
}

static void on_head(void *arg, int status, struct http_headers *h)
{
	struct proxy *p = arg;
	int64_t length;

	p->no_replay = true;
	buf_clear(&p->replay);
	if (status == 101 && p->upgrade && p->r->stats.tunnels < TUNNELS_MAX) {
		become_tunnel(p, h);
		return;
	}
	if (status == 101) {
		http_exchange_cancel(take(p->x));
		p->status = p->upgrade ? 503 : 502;
		p->answered = true;
		router_answer(p->req, p->status, "%s",
			      p->upgrade ? "Too many open tunnels." : no_upgrade);
		return;
	}
	length = p->grpc ? -1 : http_headers_length(h); /* trailers follow */
	http_headers_del_hop_by_hop(h);
	answer_headers(h,
		       &(struct answer){ &p->route, p->r->prefix, p->addr, p->r->spec.no_rewrite });
	if (p->grpc)
		grpc_take_status(h, &p->grpc_status);
	p->status = status;
	p->answered = true;
	http_respond_on_drain(p->req, on_drained_down);
	http_respond_start(p->req, status, h, length);
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct proxy *p = arg;

	p->bytes_out += len;
	http_respond_write(p->req, data, len);
	if (http_respond_full(p->req))
		http_exchange_pause(p->x, true);
}

static void on_end(void *arg, struct http_headers *trailers)
{
	struct proxy *p = arg;

	p->x = NULL;
	http_headers_del_hop_by_hop(trailers);
	if (trailers->n || p->grpc)
		http_respond_trailers(p->req, trailers->n ? trailers : &p->grpc_status);
	http_respond_end(p->req);
}

/*
 * A refused connection may mean that the port is still opening. After any other failure somebody
 * may already have the request, so it is not sent again.
 */
static bool may_try_again(struct proxy *p, const struct err *e)
{
	usec now = clock_mono();

	if (err_errno(e) != ECONNREFUSED || (p->streaming && p->no_replay))
		return false;
	if (p->r->spec.has_retry)
		return p->n_retries < p->r->spec.retry.max && now < p->deadline;
	if (!p->retry_until) {
		autoptr(object) sb =
			client_get(p->r->client, p->r->sandboxes, p->route.ns, p->route.id);
		bool young = target_young(sb, clock_wall());

		p->retry_until = now + (young ? RETRY_YOUNG_MS : RETRY_OLD_MS) * 1000ll;
	}
	return now < MIN(p->retry_until, p->deadline);
}

static void try_again(struct proxy *p)
{
	const struct router_spec *spec = &p->r->spec;
	unsigned doubled = MIN(p->n_retries, 20u);
	uint64_t wait_ms = RETRY_MS;

	if (spec->has_retry)
		wait_ms = MIN((uint64_t)spec->retry.first_ms << doubled,
			      (uint64_t)spec->retry.last_ms);
	p->n_retries++;
	metrics_count(p->r->metrics, METRIC_RETRIES, p->route.ns, NULL);
	if (p->streaming)
		http_request_pause(p->req, true);
	arm(p, wait_ms);
}

static void on_failed(void *arg, const struct err *e)
{
	struct proxy *p = arg;

	p->x = NULL;
	metrics_count(p->r->metrics, METRIC_ERRORS, p->route.ns, failure_reason(e));
	log_debug("request into the sandbox failed", KV("sandbox", p->route.id), KV("err", e));
	if (p->answered && p->grpc)
		grpc_end(p->req, 502, "the connection into the sandbox broke");
	else if (p->answered)
		http_respond_abort(p->req);
	else if (may_try_again(p, e))
		try_again(p);
	else
		fail(p, failure_of_error(e));
}

static const struct http_exchange_events exchange_events = {
	.head = on_head,
	.data = on_data,
	.end = on_end,
	.drained = on_drained_up,
	.failed = on_failed,
};

static void connect_to(struct proxy *p, const char *addr)
{
	struct http_headers *h = http_request_headers(p->req);
	uint64_t left_ms = ms_until(p->deadline);

	if (!left_ms) {
		fail(p, p->n_retries ? ROUTER_REFUSED : ROUTER_NOT_READY);
		return;
	}
	if (p->r->spec.head_timeout_ms)
		left_ms = MIN(left_ms, (uint64_t)p->r->spec.head_timeout_ms);
	if (!p->prepared)
		forward_headers(h, &(struct forward){ &p->route, p->r->prefix,
						      http_request_peer(p->req), p->upgrade });
	p->prepared = true;
	(void)snprintf(p->addr, sizeof(p->addr), "%s", addr);
	http_headers_set(h, "Host", addr);
	if (p->grpc) {
		grpc_set_timeout(h, left_ms);
		arm(p, left_ms);
	}
	p->x = http_exchange_start(
		p->r->pool,
		&(struct http_exchange_spec){ .version = p->grpc ? 2 : 1,
					      .addr = addr,
					      .method = http_request_method(p->req),
					      .target = http_request_target(p->req),
					      .headers = h,
					      .body_len = p->body_len,
					      .connect_ms = MIN(left_ms, (uint64_t)CONNECT_MS),
					      .head_ms = p->grpc ? 0 : left_ms },
		&exchange_events, p);
	send_body(p);
}

/* The sandbox is starting: waits until it changes. */
static void hold(struct proxy *p, const struct target *t)
{
	usec now = clock_mono();

	if (!p->hold_until)
		p->hold_until = MIN(p->deadline, p->started + (usec)p->r->spec.hold_ms * 1000);
	if (now >= p->hold_until) {
		if (*t->addr)
			connect_to(p, t->addr); /* it is not Ready, but it has an address */
		else
			fail(p, ROUTER_NOT_READY);
		return;
	}
	if (!router_hold(p->r, &p->route, &p->waiter)) {
		fail(p, ROUTER_CROWDED);
		return;
	}
	arm(p, ms_until(p->hold_until));
}

/* Finds out where the request goes now, and sends it there. */
static void look(struct proxy *p)
{
	struct target t;
	autoptr(object) sb = router_find(p->r, &p->route, &t);

	unhold(p);
	if (p->timer)
		timer_clear(p->timer);
	switch (t.state) {
	case TARGET_READY:
		connect_to(p, t.addr);
		break;
	case TARGET_STARTING:
		hold(p, &t);
		break;
	case TARGET_DOWN:
	case TARGET_UNKNOWN:
	case TARGET_STATE_MAX_:
		fail(p, failure_of_sandbox(sb, &p->route));
		break;
	}
}

bool proxy_awaits(struct list *request, const char *ns, const char *sandbox)
{
	const struct proxy *p = list_item(request, struct proxy, link);

	return !p->answered && str_eq(p->route.id, sandbox) && str_eq(p->route.ns, ns);
}

static void look_again(struct waiter *w)
{
	look(container_of(w, struct proxy, waiter));
}

static uint64_t timeout_ms(const struct router *r, const struct route *route)
{
	unsigned given = r->spec.proxy_timeout_ms;
	uint64_t most = given ? given : MAX_TIMEOUT_MS;

	if (!route->timeout_ms)
		return given ? given : DEFAULT_TIMEOUT_MS;
	return MIN(route->timeout_ms, most);
}

/*
 * The protocol to change to; malloc'd, NULL: none. Nobody looks into a tunnel: in one of HTTP/2
 * there could be any number of requests, and for other paths than a pass permits.
 */
static char *upgrade_of(const struct http_headers *h, const struct route *route)
{
	const char *to = http_headers_get(h, "Upgrade");

	if (!to || !http_headers_has_token(h, "Connection", "upgrade"))
		return NULL;
	if (http_headers_has_token(h, "Upgrade", "h2c") ||
	    (route->by_pass && !str_eq_nocase(to, "websocket")))
		return NULL;
	return xstrdup(to);
}

void proxy_start(struct router *r, struct http_request *req, const struct route *route,
		 const char *who)
{
	struct http_headers *h = http_request_headers(req);
	uint64_t limit_ms = timeout_ms(r, route);
	usec budget = (usec)limit_ms * 1000;
	bool grpc = grpc_is_call(req);
	const char *bad = grpc ? grpc_timeout(h, &budget) : NULL;
	struct record rec = { .route = route, .entered = true, .who = who };
	struct proxy *p;

	if (bad || r->stats.active >= r->spec.max_conns) {
		rec.status = bad ? 400 : 503;
		record_request(r, req, &rec);
		router_answer(req, rec.status, "%s",
			      bad ? bad : "Too many requests are under way.");
		return;
	}
	p = xnew(struct proxy);
	p->r = r;
	p->req = req;
	p->route = *route;
	p->who = r->spec.audit || route->review ? xstrdup(who) : NULL;
	list_init(&p->on_stays);
	if (route->review)
		list_add_tail(&r->stays, &p->on_stays);
	p->waiter.look = look_again;
	list_init(&p->link);
	p->started = clock_mono();
	p->deadline = p->started + MIN(budget, (usec)limit_ms * 1000);
	p->grpc = grpc;
	if (grpc)
		http_request_be_patient(req);
	p->body_len = http_request_body_len(req);
	p->upgrade = upgrade_of(h, route);
	list_add_tail(&r->requests, &p->link);
	r->stats.active++;
	http_request_set_owner(req, p, on_ended);
	if (p->body_len > 0 && too_large(p, (uint64_t)p->body_len))
		fail_too_large(p);
	else
		look(p);
}
