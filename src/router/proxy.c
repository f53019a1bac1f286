/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/log.h"
#include "base/parse.h"
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
	struct list hold_link;
	bool held;
	struct list link;    /* in router.tunnels */
	struct timer *timer; /* the end of a hold, or the next try */
	usec started, deadline, hold_until, retry_until;
	int64_t body_len;  /* < 0: chunked */
	struct buf replay; /* what was sent of the body before a peer accepted it */
	bool prepared, streaming, body_ended, no_replay;
	char *upgrade; /* the protocol asked for; NULL: none */
	bool answered;
	int status;
	uint64_t bytes_out;
	struct pump *pump;
};

static void look(struct proxy *p);

/* The only record of who went in, and how it ended. */
static void record(const struct proxy *p)
{
	enum log_level level = p->r->spec.no_access_log ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;

	log_at_(level, "request", KV("sandbox", p->route.id), KV("namespace", p->route.ns),
		KV("port", p->route.port),
		KV("method", p->req ? http_request_method(p->req) : "tunnel"),
		KV("path", p->req ? http_request_path(p->req) : ""),
		KV("peer", p->req ? http_request_peer(p->req) : ""), KV("status", p->status),
		KV("bytes", p->bytes_out), KV("took_ms", (clock_mono() - p->started) / 1000));
}

static void unhold(struct proxy *p)
{
	if (p->held)
		router_unhold(p->r, &p->route, &p->hold_link);
	p->held = false;
}

static void proxy_free(struct proxy *p)
{
	unhold(p);
	list_del(&p->link);
	if (p->x)
		http_exchange_cancel(p->x);
	timer_free(p->timer);
	pump_free(p->pump);
	buf_done(&p->replay);
	free(p->upgrade);
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

static void on_timer(void *arg)
{
	look(arg);
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

static void on_body_data(void *owner, struct http_request *req, const char *data, size_t len)
{
	struct proxy *p = owner;

	keep_for_replay(p, data, len);
	if (!p->x)
		return; /* it was answered already: nobody wants the rest */
	http_exchange_write(p->x, data, len);
	if (http_exchange_full(p->x))
		http_request_pause(req, true);
}

static void on_body_end(void *owner, unused struct http_request *req)
{
	struct proxy *p = owner;

	p->body_ended = true;
	if (p->x)
		http_exchange_end_body(p->x);
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
		http_exchange_end_body(p->x);
	http_request_pause(p->req, http_exchange_full(p->x));
}

static void on_tunnel_done(void *arg)
{
	struct proxy *p = arg;

	p->pump = NULL;
	p->r->stats.tunnels--;
	record(p);
	proxy_free(p);
}

void proxy_cut(struct list *tunnel)
{
	struct proxy *p = list_item(tunnel, struct proxy, link);

	p->r->stats.tunnels--;
	proxy_free(p);
}

/* After 101 both connections are ours, and bytes flow between them. */
static void become_tunnel(struct proxy *p, struct http_headers *h)
{
	struct http_exchange *x = take(p->x);
	struct conn *down = NULL, *up;

	http_headers_del_hop_by_hop(h);
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
	list_add_tail(&p->r->tunnels, &p->link);
	p->pump = pump_start(down, up, on_tunnel_done, p);
}

static int64_t length_of(const struct http_headers *h)
{
	const char *text = http_headers_get(h, "Content-Length");
	int64_t len = -1;

	if (text && !http_headers_get(h, "Transfer-Encoding"))
		err_free(parse_int(text, 0, INT64_MAX,
				   &len)); /* else the body ends with the stream */
	return len;
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
	length = length_of(h);
	http_headers_del_hop_by_hop(h);
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

static void on_end(void *arg)
{
	struct proxy *p = arg;

	p->x = NULL;
	http_respond_end(p->req);
}

/*
 * A refused connection may mean that the port is still opening. True when we try again. After any
 * other failure somebody may already have the request, so it is not sent again.
 */
static bool try_again(struct proxy *p, const struct err *e)
{
	usec now = clock_mono();

	if (err_errno(e) != ECONNREFUSED || (p->streaming && p->no_replay))
		return false;
	if (!p->retry_until) {
		autoptr(object) sb =
			client_get(p->r->client, p->r->sandboxes, p->route.ns, p->route.id);
		bool young = target_young(sb, clock_wall());

		p->retry_until = now + (young ? RETRY_YOUNG_MS : RETRY_OLD_MS) * 1000ll;
	}
	if (now >= MIN(p->retry_until, p->deadline))
		return false;
	if (p->streaming)
		http_request_pause(p->req, true);
	arm(p, RETRY_MS);
	return true;
}

static void on_failed(void *arg, const struct err *e)
{
	struct proxy *p = arg;

	p->x = NULL;
	log_debug("request into the sandbox failed", KV("sandbox", p->route.id), KV("err", e));
	if (p->answered)
		http_respond_abort(p->req);
	else if (try_again(p, e))
		return;
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
		fail(p, p->retry_until ? ROUTER_REFUSED : ROUTER_NOT_READY);
		return;
	}
	if (!p->prepared)
		forward_headers(h, http_request_peer(p->req), p->upgrade);
	p->prepared = true;
	http_headers_set(h, "Host", addr);
	p->x = http_exchange_start(
		p->r->pool,
		&(struct http_exchange_spec){ .addr = addr,
					      .method = http_request_method(p->req),
					      .target = http_request_target(p->req),
					      .headers = h,
					      .body_len = p->body_len,
					      .connect_ms = MIN(left_ms, (uint64_t)CONNECT_MS),
					      .head_ms = left_ms },
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
	if (!router_hold(p->r, &p->route, &p->hold_link)) {
		fail(p, ROUTER_CROWDED);
		return;
	}
	p->held = true;
	arm(p, ms_until(p->hold_until));
}

/* Finds out where the request goes now, and sends it there. */
static void look(struct proxy *p)
{
	autoptr(object) sb = client_get(p->r->client, p->r->sandboxes, p->route.ns, p->route.id);
	struct target t;

	unhold(p);
	if (p->timer)
		timer_clear(p->timer);
	target_find(sb, &p->route, p->r->spec.allow_loopback, &t);
	if (t.state == TARGET_UNKNOWN && !p->r->synced)
		t.state = TARGET_STARTING; /* the watch has not told us everything yet */
	switch (t.state) {
	case TARGET_READY:
		connect_to(p, t.addr);
		break;
	case TARGET_STARTING:
		hold(p, &t);
		break;
	case TARGET_UNKNOWN:
	case TARGET_DOWN:
	case TARGET_STATE_MAX_:
		fail(p, failure_of_sandbox(sb, &p->route));
		break;
	}
}

void proxy_look_again(struct proxy *p)
{
	look(p);
}

struct proxy *proxy_of_hold(struct list *link)
{
	return list_item(link, struct proxy, hold_link);
}

static uint64_t timeout_ms(const struct router *r, const struct route *route)
{
	unsigned given = r->spec.proxy_timeout_ms;
	uint64_t most = given ? given : MAX_TIMEOUT_MS;

	if (!route->timeout_ms)
		return given ? given : DEFAULT_TIMEOUT_MS;
	return MIN(route->timeout_ms, most);
}

void proxy_start(struct router *r, struct http_request *req, const struct route *route)
{
	struct proxy *p = xnew(struct proxy);
	struct http_headers *h = http_request_headers(req);

	p->r = r;
	p->req = req;
	p->route = *route;
	list_init(&p->hold_link);
	list_init(&p->link);
	p->started = clock_mono();
	p->deadline = p->started + (usec)timeout_ms(r, route) * 1000;
	p->body_len = http_request_body_len(req);
	if (http_headers_has_token(h, "Connection", "upgrade"))
		p->upgrade = xstrdup(http_headers_get(h, "Upgrade"));
	r->stats.active++;
	http_request_set_owner(req, p, on_ended);
	look(p);
}
