/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include "net/http_server_priv.h"
#include "net/stream.h"

/*
 * Answers of HTTP/1.1. The server alone decides on framing and on closing: headers from the handler
 * that would contradict it are left out.
 */
enum {
	HEAD_USUAL = 512, /* what most heads of answers fit in */
};

static const char continue_text[] = "HTTP/1.1 100 Continue\r\n\r\n";

static void answer_allow(struct http_request *r)
{
	struct conn *c = r->hc->link.conn;

	if (!conn_in(c)->len)
		conn_write(c, continue_text, sizeof(continue_text) - 1);
}

static void answer_kick(struct http_request *r)
{
	http_conn_kick(r->hc);
}

static struct stream *answer_stream(struct http_request *r)
{
	return conn_stream(r->hc->link.conn);
}

/* Framing is up to the server; only an upgrade may bring its own Connection. */
static bool header_passes(const struct http_header *h, bool upgrade)
{
	static const char *const own[] = { "connection", "keep-alive", "transfer-encoding",
					   "content-length", NULL };

	for (size_t i = 0; own[i] && !upgrade; i++)
		if (str_eq_nocase(h->name, own[i]))
			return false;
	return http_header_valid(h);
}

static void put_header(struct buf *b, const char *name, const char *value)
{
	buf_add_str(b, name);
	buf_add(b, ": ", 2);
	buf_add_str(b, value);
	buf_add(b, "\r\n", 2);
}

static void put_headers(struct buf *b, const struct http_headers *h, bool upgrade)
{
	for (size_t i = 0; h && i < h->n; i++)
		if (header_passes(&h->list[i], upgrade))
			put_header(b, h->list[i].name, h->list[i].value);
}

static void put_start(struct buf *b, struct http_server *s, int status,
		      const struct http_headers *h)
{
	buf_add(b, "HTTP/1.1 ", 9);
	buf_add_uint(b, (uint64_t)status);
	buf_add_char(b, ' ');
	buf_add_str(b, http_reason(status));
	buf_add(b, "\r\n", 2);
	if (!h || !http_headers_get(h, "Date"))
		put_header(b, "Date", http_server_date(s));
}

/*
 * The rest of the body would have to be read before the next request. True if that is impossible or
 * expensive.
 */
static bool body_in_the_way(const struct http_request *r)
{
	return !r->body_done && (r->head.expects_continue || r->body_left > 256 * 1024);
}

static void put_framing(struct buf *b, struct http_request *r, const struct http_answer_head *a)
{
	if (http_status_has_no_body(a->status)) {
		;
	} else if (a->length >= 0) {
		buf_add_str(b, "Content-Length: ");
		buf_add_uint(b, (uint64_t)a->length);
		buf_add(b, "\r\n", 2);
	} else if (!r->head.http10) {
		buf_add_str(b, "Transfer-Encoding: chunked\r\n");
		r->chunked = true;
	} else {
		r->close = true;
	}
	if (r->close || r->hc->link.server->stopping)
		buf_add_str(b, "Connection: close\r\n");
	else if (r->head.http10)
		buf_add_str(b, "Connection: keep-alive\r\n");
}

static void answer_start(struct http_request *r, const struct http_answer_head *a)
{
	const struct http_headers *h = a->headers;
	autobuf b = { 0 };

	(void)buf_reserve(&b, HEAD_USUAL);
	if ((h && http_headers_has_token(h, "Connection", "close")) || body_in_the_way(r))
		r->close = true;
	put_start(&b, r->hc->link.server, a->status, h);
	put_headers(&b, h, false);
	if (a->type)
		put_header(&b, "Content-Type", a->type);
	put_framing(&b, r, a);
	buf_add(&b, "\r\n", 2);
	conn_write(r->hc->link.conn, buf_head(&b), b.len);
}

static void answer_write(struct http_request *r, const void *p, size_t len)
{
	struct conn *c = r->hc->link.conn;
	char size[24];

	if (r->chunked) {
		int n = snprintf(size, sizeof(size), "%zx\r\n", len);

		conn_write(c, size, (size_t)n);
	}
	conn_write(c, p, len);
	if (r->chunked)
		conn_write(c, "\r\n", 2);
}

static bool answer_full(const struct http_request *r)
{
	return conn_full(r->hc->link.conn);
}

/* Trailers can be sent only after chunks, and only to a client that says it reads them. */
static void answer_end(struct http_request *r)
{
	autobuf b = { 0 };

	if (r->chunked && !r->no_body) {
		buf_add_str(&b, "0\r\n");
		if (http_headers_has_token(&r->head.headers, "TE", "trailers"))
			put_headers(&b, &r->trailers, false);
		buf_add_str(&b, "\r\n");
		conn_write(r->hc->link.conn, buf_head(&b), b.len);
	}
	http_conn_kick(r->hc);
}

static void answer_abort(struct http_request *r)
{
	struct linger reset = { .l_onoff = 1 };

	/*
	 * Without a reset, the peer could not tell a torn body from a complete one if it lasts
	 * until the connection closes.
	 */
	if (r->answer == HTTP_ANSWER_STARTED && r->answer_left < 0 && !r->chunked)
		(void)setsockopt(conn_stream(r->hc->link.conn)->fd, SOL_SOCKET, SO_LINGER, &reset,
				 sizeof(reset));
	r->hc->cut = true;
	http_conn_kick(r->hc);
}

static void nothing_data(unused void *arg, unused struct buf *in)
{
}

static void nothing_closed(unused void *arg, unused const struct err *e)
{
}

static struct conn *answer_upgrade(struct http_request *r, const struct http_headers *h)
{
	static const struct conn_events nothing = { .data = nothing_data,
						    .closed = nothing_closed };
	autobuf b = { 0 };
	struct conn *c;

	put_start(&b, r->hc->link.server, 101, h);
	put_headers(&b, h, true);
	buf_add(&b, "\r\n", 2);
	conn_write(r->hc->link.conn, buf_head(&b), b.len);
	r->answer = HTTP_ANSWER_DONE;
	c = http_conn_detach(r->hc);
	conn_set_events(c, &nothing, NULL);
	conn_set_stall_ms(c, 0);
	conn_set_high(c, 0);
	return c;
}

const struct http_request_ops http1_request_ops = {
	.version = 1,
	.allow = answer_allow,
	.kick = answer_kick,
	.start = answer_start,
	.write = answer_write,
	.full = answer_full,
	.end = answer_end,
	.abort = answer_abort,
	.upgrade = answer_upgrade,
	.stream = answer_stream,
};

void http_answer_refuse(struct http_conn *hc, int status)
{
	autobuf b = { 0 };
	const char *reason = http_reason(status);

	put_start(&b, hc->link.server, status, NULL);
	buf_printf(
		&b,
		"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
		strlen(reason) + 1, reason);
	conn_write(hc->link.conn, buf_head(&b), b.len);
}
