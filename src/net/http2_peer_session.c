/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "net/conn.h"
#include "net/http2_peer_priv.h"

/*
 * nghttp2 for a connection to a server. Its callbacks note what they see; http2_peer.c tells the
 * exchanges afterwards.
 *
 * The server may be hostile. Frames that bring nothing are taken from a bucket, which our own
 * frames and its data fill again; whoever has emptied it is left. nghttp2 itself limits the rest.
 */
static struct http2_exchange *find(nghttp2_session *session, int32_t id)
{
	return id ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

static int doom(struct http2_peer *p, enum err_code code, const char *why)
{
	if (!p->doom)
		p->doom = err_new(code, "%s %s", p->addr, why);
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* The head of an answer is limited by its bytes; DATA is paid back by what it brings. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	struct http2_peer *p = arg;

	p->unknown = 0;
	/* nghttp2 lets a server push that never acknowledges our settings. */
	if (hd->type == NGHTTP2_PUSH_PROMISE)
		return doom(p, ERR_MALFORMED, "pushes, which it was told not to do");
	if (hd->type == NGHTTP2_HEADERS && find(session, hd->stream_id))
		return 0;
	if (http2_bucket_take(&p->chatter, HTTP2_CHATTER_BURST, HTTP2_CHATTER_PER_S))
		return 0;
	return doom(p, ERR_TOO_LARGE, "sends too many frames that bring nothing");
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *n,
		     nghttp2_rcbuf *v, unused uint8_t flags, void *arg)
{
	struct http2_exchange *x = find(session, frame->hd.stream_id);

	/* Both end with a NUL, by nghttp2's promise, and have none inside. */
	if (!x || http2_exchange_header(x, (const char *)nghttp2_rcbuf_get_buf(n).base,
					(const char *)nghttp2_rcbuf_get_buf(v).base))
		return 0;
	return doom(arg, ERR_TOO_LARGE, "sends heads without end");
}

static void head_arrived(struct http2_exchange *x)
{
	if (x->head_done)
		return; /* these were trailers */
	if (x->status >= 200)
		x->head_done = true;
	else
		http_headers_done(&x->headers); /* the real answer follows */
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct http2_peer *p = arg;
	struct http2_exchange *x = find(session, frame->hd.stream_id);

	if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
		p->greeted = true;
	if (frame->hd.type == NGHTTP2_GOAWAY)
		http2_peer_leave(p);
	if (!x || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS)
		head_arrived(x);
	x->fin = x->fin || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
	http2_peer_ready(x);
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_chunk(nghttp2_session *session, unused uint8_t flags, int32_t id, const uint8_t *data,
		    size_t len, void *arg)
{
	struct http2_exchange *x = find(session, id);

	http2_chatter_earn(&((struct http2_peer *)arg)->chatter, 1);
	if (!x) {
		(void)nghttp2_session_consume(session, id, len);
		return 0;
	}
	buf_add(&x->in, data, len); /* within HTTP2_PEER_WINDOW */
	http2_peer_ready(x);
	return 0;
}

static void stream_closed(struct http2_exchange *x, uint32_t code)
{
	x->closed = true;
	x->code = code;
	http2_peer_ready(x);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, unused void *arg)
{
	struct http2_exchange *x = find(session, id);

	if (x)
		stream_closed(x, code);
	return 0;
}

/* A request that never became a stream: nghttp2 does not tell of its end. */
static int on_frame_not_sent(unused nghttp2_session *session, const nghttp2_frame *frame,
			     int lib_error_code, void *arg)
{
	struct http2_peer *p = arg;
	struct http2_exchange *x;

	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	list_each(x, &p->exchanges, on)
		if (x->id == frame->hd.stream_id)
			stream_closed(x, lib_error_code == NGHTTP2_ERR_START_STREAM_NOT_ALLOWED
						 ? NGHTTP2_REFUSED_STREAM
						 : NGHTTP2_INTERNAL_ERROR);
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
			size_t len, unused nghttp2_data_source *source, void *arg)
{
	struct http2_peer *p = arg;
	struct http2_exchange *x = find(session, frame->hd.stream_id);

	conn_write(p->conn, head, HTTP2_FRAME_HEAD_LEN);
	if (len)
		conn_write(p->conn, buf_head(&x->out), len);
	http2_exchange_sent(x, len);
	http2_chatter_earn(&p->chatter, HTTP2_CHATTER_PER_DATA);
	return 0;
}

static nghttp2_session_callbacks *make_callbacks(void)
{
	nghttp2_session_callbacks *cb;

	if (nghttp2_session_callbacks_new(&cb) != 0)
		abort(); /* out of memory */
	nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
	nghttp2_session_callbacks_set_on_header_callback2(cb, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_sent);
	nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
	return cb;
}

nghttp2_session *http2_peer_session(struct http2_peer *p)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_PEER_WINDOW },
		{ NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, HTTP2_TABLE_SIZE },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)p->limits.max_head },
	};
	nghttp2_session_callbacks *cb = make_callbacks();
	nghttp2_option *o = http2_options();
	nghttp2_session *s;

	if (nghttp2_session_client_new2(&s, cb, p, o) != 0 ||
	    nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) != 0 ||
	    nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0,
						  HTTP2_PEER_STREAMS_MAX * HTTP2_PEER_WINDOW) != 0)
		abort(); /* out of memory */
	nghttp2_option_del(o);
	nghttp2_session_callbacks_del(cb);
	return s;
}
