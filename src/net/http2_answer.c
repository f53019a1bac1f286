/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http2_priv.h"

/*
 * Answers of HTTP/2. What a handler writes waits in `out` until nghttp2 asks for it, which it does
 * when the windows of the peer have room.
 */
enum {
	OUT_HIGH = 256 * 1024,
};

static struct http2_stream *stream_of(const struct http_request *r)
{
	return container_of(r, struct http2_stream, r);
}

static size_t high_of(const struct http2_stream *st)
{
	size_t high = st->c->link.server->spec.limits.max_out;

	return high ? high : OUT_HIGH;
}

static void answer_allow(struct http_request *r)
{
	struct http2_stream *st = stream_of(r);
	const nghttp2_nv nv = { (uint8_t *)":status", (uint8_t *)"100", 7, 3,
				NGHTTP2_NV_FLAG_NONE };

	(void)nghttp2_submit_headers(st->c->session, NGHTTP2_FLAG_NONE, st->id, NULL, &nv, 1, NULL);
}

static void answer_kick(struct http_request *r)
{
	struct http2_stream *st = stream_of(r);

	st->moved_in = true; /* its time begins when it is wanted */
	http2_conn_ready(st);
}

/* Called by nghttp2 when it has something to send for st. */
/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static ssize_t read_answer(nghttp2_session *session, int32_t id, unused uint8_t *p, size_t len,
			   uint32_t *flags, nghttp2_data_source *source, unused void *arg)
{
	struct http2_stream *st = source->ptr;
	bool done = st->r.answer == HTTP_ANSWER_DONE;
	struct http2_fields f;

	if (st->reset || (!st->out.len && !done)) {
		st->waits = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	len = MIN(len, st->out.len);
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (!done || len < st->out.len)
		return (ssize_t)len;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (!st->r.trailers.n)
		return (ssize_t)len;
	http2_fields_init(&f, &st->r.trailers);
	http2_fields_add_all(&f, &st->r.trailers);
	if (f.n && nghttp2_submit_trailer(session, id, f.list, f.n) == 0)
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	http2_fields_done(&f);
	return (ssize_t)len;
}

void http2_answer_sent(struct http2_stream *st, size_t len)
{
	buf_eat(&st->out, len);
	if (!st->out.len)
		buf_done(&st->out);
	st->c->unsent -= len;
	st->moved_out = true;
	if (!st->was_full || st->out.len > high_of(st) / 4)
		return;
	st->was_full = false;
	st->drained = true;
	http2_conn_ready(st);
}

static void answer_start(struct http_request *r, const struct http_answer_head *a)
{
	struct http2_stream *st = stream_of(r);
	nghttp2_data_provider body = { .source.ptr = st, .read_callback = read_answer };
	bool bare = r->no_body || a->length == 0;
	char status[16], length[24];
	struct http2_fields f;

	(void)snprintf(status, sizeof(status), "%d", a->status);
	(void)snprintf(length, sizeof(length), "%lld", (long long)a->length);
	http2_fields_init(&f, a->headers);
	http2_fields_add(&f, ":status", status);
	if (!a->headers || !http_headers_get(a->headers, "Date"))
		http2_fields_add(&f, "date", http_server_date(st->c->link.server));
	http2_fields_add_all(&f, a->headers);
	if (a->type)
		http2_fields_add(&f, "content-type", a->type);
	if (a->length >= 0 && !http_status_has_no_body(a->status))
		http2_fields_add(&f, "content-length", length);
	if (nghttp2_submit_response(st->c->session, st->id, f.list, f.n, bare ? NULL : &body) != 0)
		http2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
	http2_fields_done(&f);
	http2_conn_ready(st);
}

static void answer_resume(struct http2_stream *st)
{
	if (st->waits)
		(void)nghttp2_session_resume_data(st->c->session, st->id);
	st->waits = false;
	http2_conn_ready(st);
}

static bool answer_full(const struct http_request *r)
{
	const struct http2_stream *st = stream_of(r);

	return st->out.len >= high_of(st) || (st->out.len && st->c->unsent >= HTTP2_UNSENT_MAX);
}

static void answer_write(struct http_request *r, const void *p, size_t len)
{
	struct http2_stream *st = stream_of(r);

	if (st->reset)
		return;
	if (!st->out.len)
		st->moved_out = true;
	buf_add(&st->out, p, len);
	st->c->unsent += len;
	if (answer_full(r))
		st->was_full = true;
	answer_resume(st);
}

static void answer_end(struct http_request *r)
{
	answer_resume(stream_of(r));
}

static void answer_abort(struct http_request *r)
{
	http2_stream_reset(stream_of(r), NGHTTP2_INTERNAL_ERROR);
}

static struct stream *answer_stream(struct http_request *r)
{
	return conn_stream(stream_of(r)->c->link.conn);
}

const struct http_request_ops http2_request_ops = {
	.version = 2,
	.allow = answer_allow,
	.kick = answer_kick,
	.start = answer_start,
	.write = answer_write,
	.full = answer_full,
	.end = answer_end,
	.abort = answer_abort,
	.stream = answer_stream,
};
