/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "net/http2_priv.h"

/*
 * One request of an HTTP/2 connection. nghttp2's callbacks only fill in fields and buffers;
 * http2_stream_step() tells the handler of them afterwards, so that it may do what it wants there.
 *
 * The window of a stream opens by what a handler has taken, so a body that nobody reads stops its
 * own sender and no other.
 *
 * A stream that is answered before its end lingers: its window stays as it is, and the peer has a
 * moment to read the answer and stop by itself. Some clients (curl 7.88) throw away an answer that
 * is unread when a reset comes, even one without an error.
 */
enum {
	LINGER_MS = 1000,
	BOMB = 4, /* times the limit of a head: whoever sends that much does so on purpose */
	PIECE_MAX = 64 * 1024,
};

static const struct http_limits *limits_of(const struct http2_stream *st)
{
	return &st->c->link.server->spec.limits;
}

struct http2_stream *http2_stream_new(struct http2_conn *c, int32_t id)
{
	struct http2_stream *st = xnew(struct http2_stream);

	http_request_init(&st->r, &http2_request_ops, &c->link);
	http_request_ref(&st->r); /* the stream outlives its request */
	st->c = c;
	st->id = id;
	st->moved_in = st->moved_out = true;
	list_init(&st->ready);
	list_add_tail(&c->streams, &st->link);
	http2_conn_count(c, true);
	return st;
}

/* The rest of the body is not wanted any more: it goes, and makes room. */
static void drop_input(struct http2_stream *st)
{
	st->c->held -= st->in.len + st->r.buffered.len;
	(void)nghttp2_session_consume(st->c->session, st->id, st->in.len);
	buf_done(&st->in);
}

static void drop_output(struct http2_stream *st)
{
	st->c->unsent -= st->out.len;
	buf_done(&st->out);
}

static void request_end(struct http2_stream *st)
{
	if (!st->r.ops)
		return;
	drop_input(st);
	http_request_end(&st->r, true);
}

void http2_stream_free(struct http2_stream *st)
{
	struct http2_conn *c = st->c;

	list_del(&st->link);
	list_del(&st->ready);
	request_end(st); /* c lives on: whoever calls this holds it */
	drop_output(st);
	st->c = NULL;
	free(take(st->authority));
	http2_conn_count(c, false);
	http_request_unref(&st->r);
}

static char **pseudo_of(struct http2_stream *st, const char *name)
{
	if (str_eq(name, ":method"))
		return &st->r.head.method;
	if (str_eq(name, ":path"))
		return &st->r.head.target;
	if (str_eq(name, ":authority"))
		return &st->authority;
	return NULL; /* nothing depends on the scheme */
}

bool http2_stream_header(struct http2_stream *st, bool trailer, const char *name, const char *value)
{
	size_t max = limits_of(st)->max_head;
	char **to;

	st->head_len += strlen(name) + strlen(value) + HTTP2_FIELD_COST;
	if (name[0] != ':')
		st->n_fields++;
	if (st->head_len > max || st->n_fields > limits_of(st)->max_headers)
		st->refused = 431;
	if (st->refused)
		return st->head_len <= BOMB * max;
	if (name[0] != ':') {
		http_headers_add(trailer ? &st->r.head.trailers : &st->r.head.headers, name, value);
		return true;
	}
	to = pseudo_of(st, name);
	if (to) {
		free(*to);
		*to = xstrdup(value);
	}
	return true;
}

/* A browser may send its cookies in several headers, which HTTP/1.1 forbids. */
static void join_cookies(struct http_headers *h)
{
	autobuf all = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++) {
		if (!str_eq(h->list[i].name, "cookie"))
			continue;
		if (n++)
			buf_add_str(&all, "; ");
		buf_add_str(&all, h->list[i].value);
	}
	if (n > 1)
		http_headers_set(h, "cookie", buf_str(&all));
}

/* Makes st->r.head what HTTP/1.1 would have made of it. Returns 0 or a status, like its parser. */
static int read_head(struct http2_stream *st)
{
	struct http_head *h = &st->r.head;
	const char *host = http_headers_get(&h->headers, "host");
	int status;

	if (st->refused || !h->method)
		return st->refused ? st->refused : 400;
	if (str_eq(h->method, "CONNECT"))
		return 501; /* it has no path */
	if (st->authority && host && !str_eq_nocase(st->authority, host))
		return 400;
	if (st->authority && !host)
		http_headers_add(&h->headers, "host", st->authority);
	join_cookies(&h->headers);
	status = http_head_check_http2(h);
	if (!status)
		h->chunked = (!st->fin || st->in.len) &&
			     !http_headers_get(&h->headers, "content-length");
	return status;
}

static void body_failed(struct http2_stream *st, int status)
{
	if (st->r.answer == HTTP_ANSWER_NONE)
		http_respond_text(&st->r, status, http_reason(status));
	else
		http_respond_abort(&st->r);
}

static void begin(struct http2_stream *st)
{
	const struct http_server_spec *spec = &st->c->link.server->spec;
	int status = read_head(st);

	st->begun = true;
	st->r.no_body = st->r.head.method && str_eq(st->r.head.method, "HEAD");
	if (status) {
		body_failed(st, status);
		http_link_refused(&st->c->link, status);
		return;
	}
	http_request_from_head(&st->r);
	spec->handler->head(spec->arg, &st->r);
}

void http2_stream_data(struct http2_stream *st, const void *p, size_t len)
{
	st->moved_in = true;
	if (!st->r.ops) { /* for the other streams; this one has sent enough */
		(void)nghttp2_session_consume_connection(st->c->session, len);
		return;
	}
	buf_add(&st->in, p, len); /* within HTTP2_WINDOW */
	st->c->held += len;
	http2_conn_ready(st);
}

static void body_buffer(struct http2_stream *st, size_t len)
{
	struct http_request *r = &st->r;
	bool alone = st->c->held == st->in.len + r->buffered.len;

	if (len > r->max_body - r->buffered.len) {
		body_failed(st, 413);
	} else if (!alone && st->c->held > HTTP2_HELD_MAX) {
		body_failed(st, 503);
	} else {
		buf_add(&r->buffered, buf_head(&st->in), len);
		st->c->held += len;
	}
}

static void body_pass(struct http2_stream *st)
{
	struct http_request *r = &st->r;
	size_t len = MIN(st->in.len, (size_t)PIECE_MAX);

	if (r->mode == HTTP_BODY_STREAM)
		r->body_ev.data(r->owner, r, buf_head(&st->in), len);
	else
		body_buffer(st, len);
	if (!st->c || !r->ops)
		return;
	(void)nghttp2_session_consume(st->c->session, st->id, len);
	st->c->held -= len;
	buf_eat(&st->in, len);
	if (!st->in.len)
		buf_done(&st->in);
}

static void tell_drained(struct http2_stream *st)
{
	st->drained = false;
	if (st->r.drained && st->r.answer == HTTP_ANSWER_STARTED)
		st->r.drained(st->r.owner);
}

/* True if something was done and the stream should be looked at again. */
static bool step_once(struct http2_stream *st)
{
	struct http_request *r = &st->r;

	if (st->closed) {
		http2_stream_free(st);
		return false;
	}
	if (!r->ops)
		return false;
	if (st->reset || r->answer == HTTP_ANSWER_DONE) {
		request_end(st);
		return false;
	}
	if (!st->begun) {
		if (!st->head_done)
			return false;
		begin(st);
	} else if (st->drained) {
		tell_drained(st);
	} else if (r->mode == HTTP_BODY_UNSET || r->paused || r->body_told) {
		return false;
	} else if (st->refused) {
		body_failed(st, st->refused); /* for its trailers */
	} else if (st->in.len) {
		body_pass(st);
	} else if (st->fin) {
		r->body_done = true;
		http_request_tell_end(r);
	} else {
		return false;
	}
	return true;
}

void http2_stream_step(struct http2_stream *st)
{
	http_request_ref(&st->r);
	while (st->c && step_once(st))
		;
	http_request_unref(&st->r);
}

void http2_stream_linger(struct http2_stream *st)
{
	st->linger_by = http2_in_ms(LINGER_MS);
	st->c->linger_at = st->c->linger_at ? st->c->linger_at : st->linger_by;
}

usec http2_stream_linger_on(struct http2_stream *st, usec now)
{
	if (st->linger_by && st->linger_by <= now) {
		st->linger_by = 0;
		(void)nghttp2_submit_rst_stream(st->c->session, NGHTTP2_FLAG_NONE, st->id,
						NGHTTP2_NO_ERROR);
	}
	return st->linger_by;
}

void http2_stream_reset(struct http2_stream *st, uint32_t code)
{
	st->reset = true;
	drop_output(st);
	(void)nghttp2_submit_rst_stream(st->c->session, NGHTTP2_FLAG_NONE, st->id, code);
	http2_conn_ready(st);
}

void http2_stream_look(struct http2_stream *st)
{
	const struct http_request *r = &st->r;
	bool wants_body = r->ops && st->begun && !st->fin && r->mode != HTTP_BODY_UNSET &&
			  !r->paused && !r->patient && r->answer != HTTP_ANSWER_DONE;

	if (st->out.len && !st->moved_out)
		http2_stream_reset(st, NGHTTP2_CANCEL);
	else if (wants_body && !st->moved_in)
		body_failed(st, 408);
	st->moved_in = st->moved_out = false;
}
