/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "net/http_server_priv.h"
#include "net/stream.h"

/*
 * One connection of the server, from request to request. http_conn_step() does everything that the
 * available input allows. New bytes, the end of an answer and a handler's choice all lead there;
 * callers outside of a loop callback get there by a deferred call. The next head is not read before
 * the current request is answered, so pipelined requests are answered in order and one peer cannot
 * pile up work.
 */
enum {
	SKIP_MAX = 256 * 1024, /* if more of a body is unread, the connection is closed */
};

static const unsigned http_next[HTTP_CONN_STATE_MAX_] = {
	[HTTP_CONN_IDLE] = B(HTTP_CONN_HEAD) | B(HTTP_CONN_REQUEST) | B(HTTP_CONN_CLOSING),
	[HTTP_CONN_HEAD] = B(HTTP_CONN_REQUEST) | B(HTTP_CONN_CLOSING),
	[HTTP_CONN_REQUEST] = B(HTTP_CONN_IDLE) | B(HTTP_CONN_SKIP) | B(HTTP_CONN_CLOSING),
	[HTTP_CONN_SKIP] = B(HTTP_CONN_IDLE) | B(HTTP_CONN_CLOSING),
	[HTTP_CONN_CLOSING] = 0,
};

static void http_conn_step(struct http_conn *hc);

static void hc_unref(struct http_conn *hc)
{
	if (!--hc->refs)
		free(hc);
}

static const struct http_limits *limits_of(const struct http_conn *hc)
{
	return &hc->link.server->spec.limits;
}

/* The timer may fire early, never late: if the deadline has moved, it is set again then. */
static void set_deadline(struct http_conn *hc, uint64_t ms)
{
	hc->overdue = false;
	hc->worked = hc->link.conn ? conn_worked(hc->link.conn) : 0;
	hc->deadline = ms ? clock_mono() + (usec)ms * 1000 : 0;
	if (!ms || (timer_armed(hc->timer) && hc->armed_for <= hc->deadline))
		return;
	hc->armed_for = hc->deadline;
	timer_set(hc->timer, ms);
}

static void http_conn_enter(struct http_conn *hc, enum http_conn_state next)
{
	assert(http_next[hc->state] & B(next));
	http_link_set_idle(&hc->link, next == HTTP_CONN_IDLE);
	hc->state = next;
	switch (next) {
	case HTTP_CONN_IDLE:
		set_deadline(hc, limits_of(hc)->idle_ms);
		break;
	case HTTP_CONN_HEAD:
	case HTTP_CONN_SKIP:
		set_deadline(hc, limits_of(hc)->head_ms);
		break;
	case HTTP_CONN_REQUEST:
		set_deadline(hc, hc->req->body_done ? 0 : limits_of(hc)->idle_ms);
		break;
	case HTTP_CONN_CLOSING:
		set_deadline(hc, 0);
		conn_close_after_flush(hc->link.conn);
		break;
	case HTTP_CONN_STATE_MAX_:
		break;
	}
}

static void request_end(struct http_request *r, bool tell)
{
	r->hc = NULL;
	http_request_end(r, tell);
}

static void conn_forget(struct http_conn *hc)
{
	deferred_cancel(&hc->kick);
	timer_free(take(hc->timer));
	http_link_forget(&hc->link);
	hc_unref(hc);
}

void http_conn_close(struct http_conn *hc)
{
	struct http_request *r = take(hc->req);

	if (!hc->link.server)
		return;
	hc->refs++;
	conn_free(take(hc->link.conn));
	conn_forget(hc);
	if (r)
		request_end(r, true);
	hc_unref(hc);
}

struct conn *http_conn_detach(struct http_conn *hc)
{
	struct conn *c = take(hc->link.conn);
	struct http_request *r = take(hc->req);

	conn_forget(hc);
	request_end(r, false);
	return c;
}

/*
 * A request that cannot be read to its end is answered if that is still possible; otherwise the
 * connection is cut.
 */
static void body_failed(struct http_conn *hc, int status)
{
	struct http_request *r = hc->req;

	if (hc->state != HTTP_CONN_REQUEST || r->answer != HTTP_ANSWER_NONE) {
		hc->cut = true;
		return;
	}
	r->close = true;
	http_respond_text(r, status, http_reason(status));
}

static bool body_take(void *arg, const char *data, size_t len)
{
	struct http_request *r = arg;
	struct http_conn *hc = r->hc;

	hc->progress = true;
	if (hc->state == HTTP_CONN_SKIP) {
		r->skipped += len;
		hc->cut = r->skipped > SKIP_MAX;
		return !hc->cut;
	}
	if (r->mode == HTTP_BODY_STREAM) {
		r->body_ev.data(r->owner, r, data, len);
	} else if (len > r->max_body - r->buffered.len) {
		body_failed(hc, 413);
	} else {
		buf_add(&r->buffered, data, len);
	}
	return r->hc && !r->paused && r->answer != HTTP_ANSWER_DONE && !hc->cut;
}

/* Reads body from the input. True if some of it was consumed. */
static bool body_read(struct http_conn *hc)
{
	struct http_request *r = hc->req;
	struct buf *in = conn_in(hc->link.conn);
	size_t used = 0;

	if (!in->len)
		return false;
	http_request_ref(r);
	if (r->head.chunked) {
		r->head.sink = body_take;
		r->head.sink_arg = r;
		if (!http_head_feed(&r->head, buf_head(in), in->len, &used, &r->body_done) && r->hc)
			body_failed(hc, 400);
	} else {
		used = (size_t)MIN((uint64_t)in->len, r->body_left);
		r->body_left -= used;
		r->body_done = !r->body_left;
		(void)body_take(r, buf_head(in), used);
	}
	if (r->hc)
		buf_eat(conn_in(hc->link.conn), used);
	http_request_unref(r);
	return true;
}

static struct http_request *request_new(struct http_conn *hc)
{
	struct http_request *r = xnew(struct http_request);

	http_request_init(r, &http1_request_ops, &hc->link);
	r->hc = hc;
	return r;
}

static void refuse(struct http_conn *hc, int status)
{
	http_answer_refuse(hc, status);
	http_link_refused(&hc->link, status);
	http_conn_enter(hc, HTTP_CONN_CLOSING);
}

static void request_begin(struct http_conn *hc, struct buf *in, size_t head_len)
{
	struct http_request *r = request_new(hc);
	int status = http_head_parse(&r->head, buf_head(in), head_len, limits_of(hc)->max_headers);

	buf_eat(in, head_len);
	hc->scanned = 0;
	if (status) {
		http_request_unref(r);
		refuse(hc, status);
		return;
	}
	http_request_from_head(r);
	r->body_left = r->head.length;
	r->close = !r->head.keep_alive || limits_of(hc)->one_request;
	hc->req = r;
	http_conn_enter(hc, HTTP_CONN_REQUEST);
	hc->link.server->spec.handler->head(hc->link.server->spec.arg, r);
}

/*
 * Whether the first bytes of a connection are those of HTTP/2: where versions are negotiated, that
 * decides; otherwise the client has to know, and begins with a head that no HTTP/1.1 request has.
 */
static enum http_scan scan_version(struct http_conn *hc, const struct buf *in)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	const struct stream *s = conn_stream(hc->link.conn);
	size_t len = MIN(in->len, sizeof(preface) - 1);

	if (s->ops->protocol)
		return str_eq(s->ops->protocol(s), "h2") ? HTTP_SCAN_DONE : HTTP_SCAN_BAD;
	if (memcmp(buf_head(in), preface, len) != 0)
		return HTTP_SCAN_BAD;
	return len == sizeof(preface) - 1 ? HTTP_SCAN_DONE : HTTP_SCAN_MORE;
}

/* True if the connection is or may be one of HTTP/2. */
static bool leave_to_http2(struct http_conn *hc, const struct buf *in)
{
	struct http_server *s = hc->link.server;
	enum http_scan found;
	struct conn *c;

	if (hc->known || !s->spec.http2)
		return false;
	found = scan_version(hc, in);
	hc->known = found == HTTP_SCAN_BAD;
	if (found == HTTP_SCAN_DONE) {
		c = take(hc->link.conn);
		conn_forget(hc);
		s->spec.http2->adopt(s, c, hc->link.peer);
	}
	return !hc->known;
}

/* True if a head was found, valid or not. */
static bool head_read(struct http_conn *hc)
{
	struct buf *in = conn_in(hc->link.conn);
	size_t max = limits_of(hc)->max_head, head_len = 0;

	if (in->len && leave_to_http2(hc, in))
		return false;
	if (conn_full(hc->link.conn))
		return false; /* a peer that reads no answers gets no more work done */
	while (!hc->scanned && in->len >= 2 && !memcmp(buf_head(in), "\r\n", 2))
		buf_eat(in, 2); /* some clients send an empty line after a body */
	if (!in->len)
		return false;
	switch (http_head_scan(buf_head(in), in->len, &hc->scanned, &head_len)) {
	case HTTP_SCAN_MORE:
		if (in->len >= max) {
			refuse(hc, 431);
			break;
		}
		if (hc->state == HTTP_CONN_IDLE)
			http_conn_enter(hc, HTTP_CONN_HEAD);
		return false;
	case HTTP_SCAN_DONE:
		if (head_len <= max)
			request_begin(hc, in, head_len);
		else
			refuse(hc, 431);
		break;
	case HTTP_SCAN_BAD:
	case HTTP_SCAN_MAX_:
		refuse(hc, 400);
		break;
	}
	return true;
}

static void request_finish(struct http_conn *hc)
{
	struct http_request *r = hc->req;
	bool close = r->close || hc->link.server->stopping;

	if (!close && !r->body_done) {
		void (*ended)(void *owner) = take(r->ended);

		http_conn_enter(hc, HTTP_CONN_SKIP);
		if (ended)
			ended(r->owner);
		return;
	}
	hc->req = NULL;
	http_conn_enter(hc, close ? HTTP_CONN_CLOSING : HTTP_CONN_IDLE);
	request_end(r, true);
}

static bool request_serve(struct http_conn *hc)
{
	struct http_request *r = hc->req;

	assert(r);
	if (r->answer == HTTP_ANSWER_DONE) {
		request_finish(hc);
		return true;
	}
	if (r->mode == HTTP_BODY_UNSET || r->paused)
		return false;
	if (!r->body_done)
		return body_read(hc);
	if (r->body_told)
		return false;
	http_request_tell_end(r);
	return true;
}

static bool request_skip(struct http_conn *hc)
{
	assert(hc->req);
	if (!hc->req->body_done)
		return body_read(hc);
	http_conn_enter(hc, HTTP_CONN_IDLE);
	request_end(take(hc->req), false);
	return true;
}

/* True if something was done and the connection should be looked at again. */
static bool step_once(struct http_conn *hc)
{
	if (hc->cut) {
		http_conn_close(hc);
		return false;
	}
	switch (hc->state) {
	case HTTP_CONN_IDLE:
	case HTTP_CONN_HEAD:
		return head_read(hc);
	case HTTP_CONN_REQUEST:
		return request_serve(hc);
	case HTTP_CONN_SKIP:
		return request_skip(hc);
	case HTTP_CONN_CLOSING:
	case HTTP_CONN_STATE_MAX_:
		break;
	}
	return false;
}

static void http_conn_step(struct http_conn *hc)
{
	if (hc->stepping)
		return;
	hc->refs++;
	hc->stepping = true;
	while (hc->link.conn && step_once(hc))
		;
	hc->stepping = false;
	hc_unref(hc);
}

static void kicked(void *arg)
{
	struct http_conn *hc = arg;
	bool full = conn_in(hc->link.conn)->len >= CONN_IN_MAX;

	hc->refs++;
	http_conn_step(hc);
	if (full && hc->link.conn)
		conn_ate(hc->link.conn); /* a full input had stopped the reading */
	hc_unref(hc);
}

void http_conn_kick(struct http_conn *hc)
{
	if (!hc->stepping)
		deferred_call(&hc->kick);
}

static void on_data(void *arg, unused struct buf *in)
{
	http_conn_step(arg);
}

/*
 * A peer that ends its direction during a request counts as gone, as with most servers: nothing
 * else shows that the other end of a long watch has left.
 */
static void on_eof(void *arg)
{
	struct http_conn *hc = arg;

	hc->refs++;
	http_conn_step(hc);
	if (hc->link.conn && hc->state == HTTP_CONN_REQUEST)
		http_conn_close(hc);
	else if (hc->link.conn && hc->state != HTTP_CONN_CLOSING)
		http_conn_enter(hc, HTTP_CONN_CLOSING);
	hc_unref(hc);
}

static void on_drained(void *arg)
{
	struct http_conn *hc = arg;
	struct http_request *r = hc->req;

	hc->refs++;
	if (r && r->drained && r->answer == HTTP_ANSWER_STARTED)
		r->drained(r->owner);
	http_conn_step(hc);
	hc_unref(hc);
}

static void on_closed(void *arg, unused const struct err *e)
{
	http_conn_close(arg);
}

static const struct conn_events conn_events = {
	.data = on_data,
	.eof = on_eof,
	.drained = on_drained,
	.closed = on_closed,
};

/* A handler that holds the body back is not the peer's fault. */
static bool waits_for_peer(const struct http_conn *hc)
{
	const struct http_request *r = hc->req;

	if (hc->state != HTTP_CONN_REQUEST)
		return true;
	return !r->body_done && !r->paused && r->mode != HTTP_BODY_UNSET && !hc->progress;
}

static void rearm(struct http_conn *hc, usec now)
{
	hc->armed_for = hc->deadline;
	timer_set(hc->timer, (uint64_t)(hc->deadline - now) / 1000 + 1);
}

/*
 * Only the peer's own time counts. A handshake waits for a thread, and with a hundred of them on a
 * slow processor for seconds; what the peer has sent meanwhile, the loop reads only after its
 * timers.
 */
static bool deserves_time(struct http_conn *hc, usec now)
{
	usec worked = conn_worked(hc->link.conn);

	hc->deadline += worked - hc->worked;
	hc->worked = worked;
	if (now < hc->deadline)
		return true;
	if (hc->overdue)
		return false;
	hc->overdue = true;
	hc->deadline = now;
	return true;
}

static void on_timer(void *arg)
{
	struct http_conn *hc = arg;
	usec now = clock_mono();

	if (!hc->deadline)
		return;
	if (now < hc->deadline || deserves_time(hc, now)) {
		rearm(hc, now);
		return;
	}
	if (!waits_for_peer(hc)) {
		hc->progress = false;
		set_deadline(hc, hc->req->body_done ? 0 : limits_of(hc)->idle_ms);
		return;
	}
	if (hc->state == HTTP_CONN_HEAD && conn_in(hc->link.conn)->len) {
		refuse(hc, 408);
	} else if (hc->state == HTTP_CONN_REQUEST) {
		body_failed(hc, 408);
		http_conn_step(hc);
	} else {
		http_conn_close(hc);
	}
}

static void link_close(struct http_link *k)
{
	http_conn_close(container_of(k, struct http_conn, link));
}

static void link_stop(struct http_link *k)
{
	if (!list_empty(&k->idle))
		link_close(k);
}

void http_conn_new(struct http_server *s, struct stream *stream, const char *peer)
{
	static const struct http_link_ops ops = { link_close, link_stop };
	struct http_conn *hc = xnew(struct http_conn);

	hc->link.ops = &ops;
	hc->refs = 1;
	/*
	 * A new connection has the time for a head in which to send its first byte. But to the
	 * server it counts as idle: it may have to make space for others.
	 */
	hc->state = HTTP_CONN_HEAD;
	http_link_init(&hc->link, s, conn_new(s->loop, stream, &conn_events, hc), peer);
	conn_set_stall_ms(hc->link.conn, s->spec.limits.idle_ms);
	conn_set_high(hc->link.conn, s->spec.limits.max_out);
	hc->timer = timer_new(s->loop, on_timer, hc);
	deferred_init(&hc->kick, s->loop, kicked, hc);
	set_deadline(hc, s->spec.limits.head_ms);
}
