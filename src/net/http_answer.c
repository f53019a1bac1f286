/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include "net/http_server_priv.h"
#include "net/stream.h"

/*
 * What handlers ask of a request, and how they answer it. The server alone decides on framing and
 * on closing: headers from the handler that would contradict it are left out.
 */
enum {
	HEAD_USUAL = 512, /* what most heads of answers fit in */
};

static const char continue_text[] = "HTTP/1.1 100 Continue\r\n\r\n";

const char *http_request_method(const struct http_request *r)
{
	return r->head.method;
}

const char *http_request_target(const struct http_request *r)
{
	return r->head.target;
}

const char *http_request_path(const struct http_request *r)
{
	return r->path;
}

const char *http_request_query(const struct http_request *r)
{
	return r->query;
}

struct http_headers *http_request_headers(struct http_request *r)
{
	return &r->head.headers;
}

const char *http_request_header(struct http_request *r, const char *name)
{
	return http_headers_get(&r->head.headers, name);
}

const char *http_request_peer(const struct http_request *r)
{
	return r->peer;
}

int64_t http_request_body_len(const struct http_request *r)
{
	return r->head.chunked ? -1 : (int64_t)r->head.length;
}

struct stream *http_request_conn_stream(struct http_request *r)
{
	return r->hc ? conn_stream(r->hc->conn) : NULL;
}

struct loop *http_request_loop(struct http_request *r)
{
	return r->loop;
}

void http_request_set_owner(struct http_request *r, void *owner, void (*ended)(void *owner))
{
	r->owner = owner;
	r->ended = ended;
}

/* The handler wants the body: a client that waits for permission to send it is given that now. */
static void body_choose(struct http_request *r, enum http_body_mode mode)
{
	struct conn *c = r->hc->conn;

	r->mode = mode;
	if (r->head.expects_continue && !r->body_done && !conn_in(c)->len)
		conn_write(c, continue_text, sizeof(continue_text) - 1);
	r->head.expects_continue = false;
	http_conn_kick(r->hc);
}

void http_request_buffer(struct http_request *r, size_t max_body,
			 void (*body)(void *owner, struct http_request *r, const char *data,
				      size_t len))
{
	if (!r->hc || r->answer != HTTP_ANSWER_NONE)
		return;
	r->max_body = max_body ? max_body : r->hc->server->spec.limits.max_body;
	r->body = body;
	if (r->head.length > r->max_body)
		http_respond_text(r, 413, http_reason(413));
	else
		body_choose(r, HTTP_BODY_BUFFER);
}

void http_request_stream(struct http_request *r, const struct http_body_events *ev)
{
	if (!r->hc || r->answer == HTTP_ANSWER_DONE)
		return;
	r->body_ev = *ev;
	body_choose(r, HTTP_BODY_STREAM);
}

void http_request_pause(struct http_request *r, bool paused)
{
	r->paused = paused;
	if (!paused && r->hc)
		http_conn_kick(r->hc);
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
	buf_printf(b, "HTTP/1.1 %d %s\r\n", status, http_reason(status));
	if (!h || !http_headers_get(h, "Date"))
		put_header(b, "Date", http_server_date(s));
}

static bool status_has_no_body(int status)
{
	return status < 200 || status == 204 || status == 304;
}

/*
 * The rest of the body would have to be read before the next request. True if that is impossible or
 * expensive.
 */
static bool body_in_the_way(const struct http_request *r)
{
	return !r->body_done && (r->head.expects_continue || r->body_left > 256 * 1024);
}

static void put_framing(struct buf *b, struct http_request *r, int status, int64_t length)
{
	if (status_has_no_body(status)) {
		r->no_body = true;
	} else if (length >= 0) {
		buf_printf(b, "Content-Length: %lld\r\n", (long long)length);
	} else if (!r->head.http10) {
		buf_add_str(b, "Transfer-Encoding: chunked\r\n");
		r->chunked = true;
	} else {
		r->close = true;
	}
	r->answer_left = length;
	if (r->close || r->hc->server->stopping)
		buf_add_str(b, "Connection: close\r\n");
	else if (r->head.http10)
		buf_add_str(b, "Connection: keep-alive\r\n");
}

static void answer_start(struct http_request *r, int status, const struct http_headers *h,
			 const char *type, int64_t length)
{
	autobuf b = { 0 };

	(void)buf_reserve(&b, HEAD_USUAL);
	if ((h && http_headers_has_token(h, "Connection", "close")) || body_in_the_way(r))
		r->close = true;
	put_start(&b, r->hc->server, status, h);
	put_headers(&b, h, false);
	if (type)
		put_header(&b, "Content-Type", type);
	put_framing(&b, r, status, length);
	buf_add(&b, "\r\n", 2);
	conn_write(r->hc->conn, buf_head(&b), b.len);
	r->answer = HTTP_ANSWER_STARTED;
}

void http_respond_start(struct http_request *r, int status, const struct http_headers *h,
			int64_t length)
{
	if (r->hc && r->answer == HTTP_ANSWER_NONE)
		answer_start(r, status, h, NULL, length);
}

void http_respond_write(struct http_request *r, const void *p, size_t len)
{
	char size[24];

	if (!r->hc || r->answer != HTTP_ANSWER_STARTED || r->no_body)
		return;
	if (r->answer_left >= 0) {
		len = (size_t)MIN((uint64_t)len, (uint64_t)r->answer_left);
		r->answer_left -= (int64_t)len;
	}
	if (!len)
		return;
	if (r->chunked) {
		int n = snprintf(size, sizeof(size), "%zx\r\n", len);

		conn_write(r->hc->conn, size, (size_t)n);
	}
	conn_write(r->hc->conn, p, len);
	if (r->chunked)
		conn_write(r->hc->conn, "\r\n", 2);
}

bool http_respond_full(const struct http_request *r)
{
	return r->hc && conn_full(r->hc->conn);
}

void http_respond_on_drain(struct http_request *r, void (*drained)(void *owner))
{
	r->drained = drained;
}

void http_respond_end(struct http_request *r)
{
	if (!r->hc || r->answer != HTTP_ANSWER_STARTED)
		return;
	if (r->answer_left > 0 && !r->no_body) {
		http_respond_abort(r); /* shorter than announced */
		return;
	}
	if (r->chunked && !r->no_body)
		conn_write(r->hc->conn, "0\r\n\r\n", 5);
	r->answer = HTTP_ANSWER_DONE;
	http_conn_kick(r->hc);
}

void http_respond_abort(struct http_request *r)
{
	struct linger reset = { .l_onoff = 1 };

	if (!r->hc || r->answer == HTTP_ANSWER_DONE)
		return;
	/*
	 * Without a reset, the peer could not tell a torn body from a complete one if it lasts
	 * until the connection closes.
	 */
	if (r->answer == HTTP_ANSWER_STARTED && r->answer_left < 0 && !r->chunked)
		(void)setsockopt(conn_stream(r->hc->conn)->fd, SOL_SOCKET, SO_LINGER, &reset,
				 sizeof(reset));
	r->hc->cut = true;
	http_conn_kick(r->hc);
}

void http_respond(struct http_request *r, int status, const struct http_headers *h,
		  struct http_body body)
{
	if (!r->hc || r->answer != HTTP_ANSWER_NONE)
		return;
	answer_start(r, status, h, body.type, (int64_t)body.len);
	http_respond_write(r, body.data, body.len);
	http_respond_end(r);
}

void http_respond_text(struct http_request *r, int status, const char *text)
{
	autofree char *line = xasprintf("%s\n", text);

	http_respond(r, status, NULL,
		     (struct http_body){ "text/plain; charset=utf-8", line, strlen(line) });
}

static void nothing_data(unused void *arg, unused struct buf *in)
{
}

static void nothing_closed(unused void *arg, unused const struct err *e)
{
}

void http_respond_upgrade(struct http_request *r, const struct http_headers *h, struct conn **ret)
{
	static const struct conn_events nothing = { .data = nothing_data,
						    .closed = nothing_closed };
	autobuf b = { 0 };

	*ret = NULL;
	if (!r->hc || r->answer != HTTP_ANSWER_NONE)
		return;
	put_start(&b, r->hc->server, 101, h);
	put_headers(&b, h, true);
	buf_add(&b, "\r\n", 2);
	conn_write(r->hc->conn, buf_head(&b), b.len);
	r->answer = HTTP_ANSWER_DONE;
	*ret = http_conn_detach(r->hc);
	conn_set_events(*ret, &nothing, NULL);
	conn_set_stall_ms(*ret, 0);
	conn_set_high(*ret, 0);
}

void http_answer_refuse(struct http_conn *hc, int status)
{
	autobuf b = { 0 };
	const char *reason = http_reason(status);

	put_start(&b, hc->server, status, NULL);
	buf_printf(
		&b,
		"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
		strlen(reason) + 1, reason);
	conn_write(hc->conn, buf_head(&b), b.len);
}
