/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http2_priv.h"

/*
 * nghttp2 for one connection: it reads and writes the frames and checks them. Its callbacks note
 * what they see; http2_conn.c tells the handlers afterwards.
 *
 * What a peer can do as often as it likes costs it: frames that bring nothing are taken from one
 * bucket and streams that it makes us reset from another. Who has emptied one is sent away. nghttp2
 * itself limits the rest: streams at once, CONTINUATION frames, entries of SETTINGS and
 * acknowledgements that nobody reads. Frames of an unknown type it passes over.
 */
enum {
	RESETS_BURST = 400, /* three times as many as it can have at once */
	RESETS_PER_S = 40,
};

/* Ends the connection when nghttp2 has returned. */
static int doom(struct http2_conn *c, uint32_t code)
{
	c->doom = code;
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int spend(struct http2_conn *c, bool reset)
{
	if (reset ? http2_bucket_take(&c->resets, RESETS_BURST, RESETS_PER_S)
		  : http2_bucket_take(&c->chatter, HTTP2_CHATTER_BURST, HTTP2_CHATTER_PER_S))
		return 0;
	return doom(c, NGHTTP2_ENHANCE_YOUR_CALM);
}

static struct http2_stream *find(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_frame(unused nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	struct http2_conn *c = arg;

	if (c->greeted && hd->type != NGHTTP2_CONTINUATION)
		c->head_by = 0;
	c->reset_frame = hd->type == NGHTTP2_RST_STREAM;
	if (c->reset_frame)
		return spend(c, true);
	/* DATA is paid back by what it brings. */
	return hd->type == NGHTTP2_HEADERS ? 0 : spend(c, false);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct http2_conn *c = arg;
	int32_t id = frame->hd.stream_id;

	c->head_by = http2_in_ms(c->link.server->spec.limits.head_ms);
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	/* A peer that reads no answers gets no more work done. */
	if (c->unsent >= HTTP2_UNSENT_MAX)
		return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id,
						 NGHTTP2_REFUSED_STREAM);
	return nghttp2_session_set_stream_user_data(session, id, http2_stream_new(c, id));
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *n,
		     nghttp2_rcbuf *v, unused uint8_t flags, void *arg)
{
	struct http2_stream *st = find(session, frame->hd.stream_id);
	bool trailer = frame->headers.cat != NGHTTP2_HCAT_REQUEST;

	/* Both end with a NUL, by nghttp2's promise, and have none inside. */
	if (!st || http2_stream_header(st, trailer, (const char *)nghttp2_rcbuf_get_buf(n).base,
				       (const char *)nghttp2_rcbuf_get_buf(v).base))
		return 0;
	return doom(arg, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* nghttp2 would leave such a header out, and whoever sent it would believe it was read. */
/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
			     unused nghttp2_rcbuf *n, unused nghttp2_rcbuf *v, unused uint8_t flags,
			     unused void *arg)
{
	struct http2_stream *st = find(session, frame->hd.stream_id);

	if (st)
		st->refused = 400;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct http2_conn *c = arg;
	struct http2_stream *st = find(session, frame->hd.stream_id);

	c->head_by = 0;
	if (!c->greeted)
		c->idle_by = http2_in_ms(c->link.server->spec.limits.idle_ms);
	c->greeted = true;
	if (!st || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	st->head_done = true;
	st->fin = st->fin || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
	http2_conn_ready(st);
	return 0;
}

/* A stream that nghttp2 refuses is none, and nobody hears of its end. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame,
			    unused int lib_error_code, void *arg)
{
	struct http2_conn *c = arg;

	c->head_by = 0;
	return find(session, frame->hd.stream_id) ? 0 : spend(c, true);
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_chunk(nghttp2_session *session, unused uint8_t flags, int32_t id, const uint8_t *p,
		    size_t len, void *arg)
{
	struct http2_stream *st = find(session, id);

	http2_chatter_earn(&((struct http2_conn *)arg)->chatter, 1);
	if (st)
		http2_stream_data(st, p, len);
	else
		(void)nghttp2_session_consume(session, id, len);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct http2_conn *c = arg;
	struct http2_stream *st = find(session, id);

	if (st) {
		st->closed = true;
		http2_conn_ready(st);
	}
	/* A peer that makes us reset its streams pays like one that resets them itself. */
	if (code != NGHTTP2_NO_ERROR && !c->reset_frame && !(st && st->reset))
		(void)spend(c, true); /* nghttp2 may be sending: settle() looks */
	return 0;
}

/* What we have answered we do not go on reading. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, unused void *arg)
{
	struct http2_stream *st = find(session, frame->hd.stream_id);

	if (st && !st->fin && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
	    (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS))
		http2_stream_linger(st);
	return 0;
}

/* An answer whose headers are too large for a frame. */
static int on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame,
			     unused int lib_error_code, unused void *arg)
{
	if (frame->hd.type == NGHTTP2_HEADERS && find(session, frame->hd.stream_id))
		return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
						 NGHTTP2_INTERNAL_ERROR);
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_send_data(unused nghttp2_session *session, unused nghttp2_frame *frame,
			const uint8_t *head, size_t len, nghttp2_data_source *source, void *arg)
{
	struct http2_conn *c = arg;
	struct http2_stream *st = source->ptr;

	conn_write(c->link.conn, head, HTTP2_FRAME_HEAD_LEN);
	if (len)
		conn_write(c->link.conn, buf_head(&st->out), len);
	http2_answer_sent(st, len);
	http2_chatter_earn(&c->chatter, HTTP2_CHATTER_PER_DATA);
	return 0;
}

static nghttp2_session_callbacks *make_callbacks(void)
{
	nghttp2_session_callbacks *cb;

	if (nghttp2_session_callbacks_new(&cb) != 0)
		abort(); /* out of memory */
	nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(cb, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback2(cb, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_sent);
	nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
	return cb;
}

nghttp2_session *http2_session_new(struct http2_conn *c)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, HTTP2_STREAMS_MAX },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_WINDOW },
		{ NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, HTTP2_TABLE_SIZE },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
		  (uint32_t)c->link.server->spec.limits.max_head },
	};
	nghttp2_session_callbacks *cb = make_callbacks();
	nghttp2_option *o = http2_options();
	nghttp2_session *s;

	if (nghttp2_session_server_new2(&s, cb, c, o) != 0 ||
	    nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) != 0 ||
	    nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0, HTTP2_CONN_WINDOW) != 0)
		abort(); /* out of memory */
	nghttp2_option_del(o);
	nghttp2_session_callbacks_del(cb);
	return s;
}
