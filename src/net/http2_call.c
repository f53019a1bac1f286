/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http2_call.h"

#include <nghttp2/nghttp2.h>

#include "base/str.h"
#include "net/conn.h"

/*
 * nghttp2 reads and writes the frames; a conn carries them. Its callbacks only note what they see:
 * the owner is told after nghttp2 has returned, so that the call may be freed there.
 *
 * What nghttp2 queues in answer to the peer (acknowledgements of SETTINGS and PING) is no longer
 * than what the peer sent, which is limited.
 */
enum {
	IN_MAX = 64 * 1024, /* bytes from the peer, frames and all */
	HEADERS_MAX = 16 * 1024,
	N_HEADERS_MAX = 64,
	REQUEST_HEADERS_MAX = 16,
};

struct http2_call {
	struct conn *conn;
	nghttp2_session *session;
	struct http2_call_events ev;
	void *arg;
	int32_t stream;
	const char *body;
	size_t body_len;
	size_t in_len, headers_len;
	struct http2_answer answer;
	bool closed; /* the stream has ended, for this reason: */
	uint32_t code;
	bool told;
	struct err *err;
};

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_header(unused nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *n,
		     nghttp2_rcbuf *v, unused uint8_t flags, void *arg)
{
	struct http2_call *c = arg;
	nghttp2_vec name = nghttp2_rcbuf_get_buf(n), value = nghttp2_rcbuf_get_buf(v);

	c->headers_len += name.len + value.len;
	if (c->headers_len > HEADERS_MAX || c->answer.headers.n >= N_HEADERS_MAX) {
		c->err = err_new(ERR_TOO_LARGE, "the answer has too many headers");
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (frame->hd.stream_id != c->stream)
		return 0;
	/* Both end with a NUL, by nghttp2's promise, and have none inside. */
	if (!str_eq((const char *)name.base, ":status")) {
		http_headers_add(&c->answer.headers, (const char *)name.base,
				 (const char *)value.base);
		return 0;
	}
	c->answer.status =
		0; /* the one after an interim answer counts; three digits, by its promise */
	for (const uint8_t *d = value.base; *d; d++)
		c->answer.status = c->answer.status * 10 + (*d - '0');
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_chunk(unused nghttp2_session *session, unused uint8_t flags, int32_t stream,
		    const uint8_t *p, size_t len, void *arg)
{
	struct http2_call *c = arg;

	if (stream == c->stream)
		buf_add(&c->answer.body, p, len); /* within IN_MAX */
	return 0;
}

static int on_close(unused nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
	struct http2_call *c = arg;

	if (stream == c->stream) {
		c->closed = true;
		c->code = code;
	}
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static ssize_t read_body(unused nghttp2_session *session, unused int32_t stream, uint8_t *p,
			 size_t len, uint32_t *flags, unused nghttp2_data_source *source, void *arg)
{
	struct http2_call *c = arg;
	size_t n = MIN(len, c->body_len);

	memcpy(p, c->body, n);
	c->body += n;
	c->body_len -= n;
	if (!c->body_len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static struct err *session_err(const char *doing, int code)
{
	return err_new(ERR_MALFORMED, "%s: %s", doing, nghttp2_strerror(code));
}

/* Passes on what nghttp2 has to say. */
static struct err *send_frames(struct http2_call *c)
{
	const uint8_t *p;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(c->session, &p)) > 0)
		conn_write(c->conn, p, (size_t)n);
	return n < 0 ? session_err("write HTTP/2", (int)n) : NULL;
}

static struct err *receive(struct http2_call *c, struct buf *in)
{
	ssize_t n;

	c->in_len += in->len;
	if (c->in_len > IN_MAX)
		return err_new(ERR_TOO_LARGE, "the answer is longer than %d bytes", IN_MAX);
	n = nghttp2_session_mem_recv(c->session, (const uint8_t *)buf_head(in), in->len);
	buf_eat(in, in->len);
	if (c->err)
		return take(c->err);
	return n < 0 ? session_err("read HTTP/2", (int)n) : NULL;
}

/* The last act of whoever calls it: the owner may free the call. Takes e over. */
static void fail(struct http2_call *c, struct err *e)
{
	if (c->told) {
		err_free(e);
		return;
	}
	c->told = true;
	err_free(c->err);
	c->err = e;
	c->ev.failed(c->arg, e);
}

static void on_data(void *arg, struct buf *in)
{
	struct http2_call *c = arg;
	struct err *e;

	if (c->told) {
		buf_clear(in);
		return;
	}
	e = receive(c, in);
	if (!e)
		e = send_frames(c);
	if (!e && !c->closed)
		return;
	if (!e && c->code == NGHTTP2_NO_ERROR) {
		c->told = true;
		c->ev.done(c->arg, &c->answer);
		return;
	}
	fail(c, e ? e
		  : err_new(ERR_UNAVAILABLE, "the server ended the stream: %s",
			    nghttp2_http2_strerror(c->code)));
}

static void on_closed(void *arg, const struct err *e)
{
	struct http2_call *c = arg;

	if (c->err)
		fail(c, take(c->err));
	else
		fail(c, e ? err_copy(e)
			  : err_new(ERR_UNAVAILABLE, "the server closed the connection"));
}

static nghttp2_session *make_session(struct http2_call *c)
{
	nghttp2_session_callbacks *cb;
	nghttp2_session *s;

	if (nghttp2_session_callbacks_new(&cb) != 0)
		abort(); /* out of memory */
	nghttp2_session_callbacks_set_on_header_callback2(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	if (nghttp2_session_client_new(&s, cb, c) != 0)
		abort(); /* out of memory */
	nghttp2_session_callbacks_del(cb);
	return s;
}

static nghttp2_nv nv(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)name,
			     .value = (uint8_t *)value,
			     .namelen = strlen(name),
			     .valuelen = strlen(value) };
}

static struct err *submit(struct http2_call *c, const struct http2_call_spec *spec)
{
	/* A peer that may index nothing cannot make one byte stand for a long header. */
	static const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0 },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX },
	};
	const nghttp2_data_provider body = { .read_callback = read_body };
	nghttp2_nv head[REQUEST_HEADERS_MAX] = { nv(":method", "POST"), nv(":scheme", "http"),
						 nv(":path", spec->path),
						 nv(":authority", spec->authority) };
	size_t n = 4;
	int r = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings,
					ARRAY_LEN(settings));

	for (size_t i = 0; spec->headers && i < spec->headers->n && n < ARRAY_LEN(head); i++)
		head[n++] = nv(spec->headers->list[i].name, spec->headers->list[i].value);
	if (!r)
		r = c->stream = nghttp2_submit_request(c->session, NULL, head, n, &body, NULL);
	return r < 0 ? session_err("write HTTP/2", r) : send_frames(c);
}

struct http2_call *http2_call_start(struct loop *l, struct stream *s,
				    const struct http2_call_spec *spec,
				    const struct http2_call_events *ev, void *arg)
{
	static const struct conn_events events = { .data = on_data, .closed = on_closed };
	struct http2_call *c = xnew(struct http2_call);

	c->ev = *ev;
	c->arg = arg;
	c->body = spec->body;
	c->body_len = spec->body_len;
	c->conn = conn_new(l, s, &events, c);
	c->session = make_session(c);
	c->err = submit(c, spec);
	if (c->err)
		conn_close_after_flush(c->conn); /* and then it is told */
	return c;
}

void http2_call_free(struct http2_call *c)
{
	if (!c)
		return;
	nghttp2_session_del(c->session);
	conn_free(c->conn);
	http_headers_done(&c->answer.headers);
	buf_done(&c->answer.body);
	err_free(c->err);
	free(c);
}
