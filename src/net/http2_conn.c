/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "net/http2_priv.h"

/*
 * One HTTP/2 connection. The callbacks of its session only note what they see. conn_step() then
 * tells the handlers and sends what they and nghttp2 have to say, so no handler ever runs inside of
 * nghttp2.
 */
enum {
	OUT_HIGH = 64 * 1024, /* little is in line before the answers of other streams */
};

static void conn_step(struct http2_conn *c);

static void conn_unref(struct http2_conn *c)
{
	if (--c->refs)
		return;
	nghttp2_session_del(c->session);
	free(c);
}

static struct http2_conn *conn_of(struct http_link *k)
{
	return container_of(k, struct http2_conn, link);
}

static const struct http_limits *limits_of(const struct http2_conn *c)
{
	return &c->link.server->spec.limits;
}

static usec earlier(usec a, usec b)
{
	return !a || (b && b < a) ? b : a;
}

/* The timer may fire early, never late: if the deadline has moved, it is set again then. */
static void arm(struct http2_conn *c)
{
	usec at = earlier(earlier(c->head_by, c->idle_by), earlier(c->scan_at, c->linger_at)), now;

	if (!at || c->closing || (timer_armed(c->timer) && c->armed_for <= at))
		return;
	now = clock_mono();
	c->armed_for = at;
	timer_set(c->timer, at > now ? (uint64_t)(at - now) / 1000 + 1 : 1);
}

void http2_conn_count(struct http2_conn *c, bool added)
{
	if (added)
		c->n_streams++;
	else
		c->n_streams--;
	if (!c->link.server)
		return;
	if (added && c->n_streams == 1) {
		http_link_set_idle(&c->link, false);
		c->idle_by = 0;
		c->scan_at = http2_in_ms(limits_of(c)->idle_ms);
	} else if (!c->n_streams) {
		http_link_set_idle(&c->link, true);
		c->idle_by = http2_in_ms(limits_of(c)->idle_ms);
		c->scan_at = 0;
	}
}

void http2_conn_ready(struct http2_stream *st)
{
	struct http2_conn *c = st->c;

	if (list_empty(&st->ready))
		list_add_tail(&c->ready, &st->ready);
	if (!c->stepping)
		deferred_call(&c->kick);
}

static void end_streams(struct http2_conn *c)
{
	while (!list_empty(&c->streams))
		http2_stream_free(list_first(&c->streams, struct http2_stream, link));
}

static void link_close(struct http_link *k)
{
	struct http2_conn *c = conn_of(k);

	if (!c->link.server)
		return;
	conn_free(take(c->link.conn));
	deferred_cancel(&c->kick);
	timer_free(take(c->timer));
	http_link_forget(&c->link);
	end_streams(c);
	conn_unref(c); /* the server's */
}

/* Sends what is still to be sent, and closes the connection after that. */
static void conn_finish(struct http2_conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	c->refs++;
	end_streams(c);
	if (c->link.conn) {
		http_link_set_idle(&c->link, false);
		timer_clear(c->timer);
		conn_close_after_flush(c->link.conn);
	}
	conn_unref(c);
}

static bool flush(struct http2_conn *c)
{
	const uint8_t *p;
	ssize_t n = 0;

	while (!conn_full(c->link.conn) && (n = nghttp2_session_mem_send(c->session, &p)) > 0)
		conn_write(c->link.conn, p, (size_t)n);
	return n >= 0;
}

static void conn_fail(struct http2_conn *c, uint32_t code)
{
	(void)nghttp2_session_terminate_session(c->session, code);
	(void)flush(c);
	conn_finish(c);
}

static void settle(struct http2_conn *c)
{
	if (!flush(c) || c->doom)
		conn_fail(c, c->doom ? c->doom : NGHTTP2_INTERNAL_ERROR);
	else if (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session))
		conn_finish(c); /* there is nothing more to say and nothing to hear */
}

static void conn_step(struct http2_conn *c)
{
	if (c->stepping || c->closing)
		return;
	c->refs++;
	c->stepping = true;
	while (c->link.conn) {
		struct http2_stream *st;

		if (list_empty(&c->ready))
			settle(c);
		if (list_empty(&c->ready))
			break;
		st = list_first(&c->ready, struct http2_stream, ready);
		list_del(&st->ready);
		http2_stream_step(st);
	}
	c->stepping = false;
	if (c->link.conn)
		arm(c);
	conn_unref(c);
}

static void kicked(void *arg)
{
	conn_step(arg);
}

static void on_data(void *arg, struct buf *in)
{
	struct http2_conn *c = arg;
	ssize_t n = nghttp2_session_mem_recv(c->session, (const uint8_t *)buf_head(in), in->len);

	buf_eat(in, in->len);
	c->reset_frame = false;
	if (n == NGHTTP2_ERR_FLOODED || n == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS)
		conn_fail(c, NGHTTP2_ENHANCE_YOUR_CALM);
	else if (n < 0)
		conn_fail(c, c->doom ? c->doom : NGHTTP2_PROTOCOL_ERROR);
	else
		conn_step(c);
}

/* As in HTTP/1.1, nothing else shows that the other end of a long watch has left. */
static void on_eof(void *arg)
{
	link_close(&((struct http2_conn *)arg)->link);
}

static void on_drained(void *arg)
{
	conn_step(arg);
}

static void on_closed(void *arg, unused const struct err *e)
{
	link_close(&((struct http2_conn *)arg)->link);
}

static void look_at_streams(struct http2_conn *c)
{
	struct http2_stream *st;

	c->scan_at = http2_in_ms(limits_of(c)->idle_ms);
	list_each(st, &c->streams, link)
		http2_stream_look(st);
}

static void end_lingering(struct http2_conn *c, usec now)
{
	struct http2_stream *st;

	c->linger_at = 0;
	list_each(st, &c->streams, link)
		c->linger_at = earlier(c->linger_at, http2_stream_linger_on(st, now));
}

static void on_timer(void *arg)
{
	struct http2_conn *c = arg;
	usec now = clock_mono();

	if (c->head_by && c->head_by <= now) {
		conn_fail(c, NGHTTP2_ENHANCE_YOUR_CALM);
		return;
	}
	if (c->idle_by && c->idle_by <= now) {
		conn_fail(c, NGHTTP2_NO_ERROR);
		return;
	}
	if (c->scan_at && c->scan_at <= now)
		look_at_streams(c);
	if (c->linger_at && c->linger_at <= now)
		end_lingering(c, now);
	conn_step(c);
}

static void link_stop(struct http_link *k)
{
	struct http2_conn *c = conn_of(k);

	if (c->closing)
		return;
	(void)nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
				    nghttp2_session_get_last_proc_stream_id(c->session),
				    NGHTTP2_NO_ERROR, NULL, 0);
	deferred_call(&c->kick);
}

static void adopt(struct http_server *s, struct conn *conn, const char *peer)
{
	static const struct conn_events events = { on_data, on_eof, on_drained, on_closed };
	static const struct http_link_ops ops = { link_close, link_stop };
	struct http2_conn *c = xnew(struct http2_conn);

	c->refs = 1;
	c->link.ops = &ops;
	http_link_init(&c->link, s, conn, peer);
	list_init(&c->streams);
	list_init(&c->ready);
	c->timer = timer_new(s->loop, on_timer, c);
	deferred_init(&c->kick, s->loop, kicked, c);
	c->session = http2_session_new(c);
	c->head_by = http2_in_ms(limits_of(c)->head_ms);
	conn_set_events(conn, &events, c);
	conn_set_high(conn, OUT_HIGH);
	deferred_call(&c->kick);
}

const struct http2_protocol http2_protocol = { .adopt = adopt };
