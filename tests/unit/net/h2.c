/* SPDX-License-Identifier: Apache-2.0 */
#include "h2.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

static struct h2_stream *find(struct h2 *c, int32_t id)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->streams[i].id == id)
			return &c->streams[i];
	return NULL;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_header(unused nghttp2_session *session, const nghttp2_frame *frame,
		     const uint8_t *name, unused size_t name_len, const uint8_t *value,
		     unused size_t value_len, unused uint8_t flags, void *arg)
{
	struct h2_stream *st = find(arg, frame->hd.stream_id);
	bool trailer = frame->headers.cat == NGHTTP2_HCAT_HEADERS;

	if (!st)
		return 0;
	if (str_eq((const char *)name, ":status"))
		(void)sscanf((const char *)value, "%d", &st->status);
	else
		http_headers_add(trailer ? &st->trailers : &st->headers, (const char *)name,
				 (const char *)value);
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static int on_chunk(nghttp2_session *session, unused uint8_t flags, int32_t id, const uint8_t *p,
		    size_t len, void *arg)
{
	struct h2 *c = arg;
	struct h2_stream *st = find(c, id);

	if (st)
		buf_add(&st->body, p, len);
	if (!c->deaf)
		(void)nghttp2_session_consume(session, id, len);
	return 0;
}

static int on_frame(unused nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2 *c = arg;
	struct h2_stream *st = find(c, frame->hd.stream_id);

	if (frame->hd.type == NGHTTP2_GOAWAY)
		c->goaway = (int)frame->goaway.error_code;
	if (st && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
	    (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS))
		st->ended = true;
	return 0;
}

static int on_close(unused nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct h2_stream *st = find(arg, id);

	if (st) {
		st->closed = true;
		st->code = code;
	}
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 prescribes the parameters. */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *p, size_t len,
			 uint32_t *flags, nghttp2_data_source *source, unused void *arg)
{
	struct h2_stream *st = source->ptr;
	size_t n = MIN(len, st->out.len);
	const nghttp2_nv sum = { (uint8_t *)"x-sum", (uint8_t *)st->sum, 5,
				 st->sum ? strlen(st->sum) : 0, 0 };

	if (!n && st->endless) {
		st->waits = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (n)
		memcpy(p, st->out.p, n);
	st->out.p += n;
	st->out.len -= n;
	if (st->out.len || st->endless)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (st->sum) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		(void)nghttp2_submit_trailer(session, id, &sum, 1);
	}
	return (ssize_t)n;
}

void h2_init(struct h2 *c, struct site *s)
{
	nghttp2_session_callbacks *cb;
	nghttp2_option *o;
	nghttp2_settings_entry window = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 65535 };

	if (c->window)
		window.value = c->window;
	c->s = s;
	c->fd = s->fd;
	c->goaway = -1;
	(void)nghttp2_session_callbacks_new(&cb);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_chunk);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	(void)nghttp2_option_new(&o);
	nghttp2_option_set_no_auto_window_update(o, 1);
	(void)nghttp2_session_client_new2(&c->session, cb, c, o);
	nghttp2_option_del(o);
	nghttp2_session_callbacks_del(cb);
	(void)nghttp2_submit_settings(c->session, 0, &window, 1);
}

void h2_done(struct h2 *c)
{
	for (size_t i = 0; i < c->n; i++) {
		http_headers_done(&c->streams[i].headers);
		http_headers_done(&c->streams[i].trailers);
		buf_done(&c->streams[i].body);
	}
	nghttp2_session_del(c->session);
}

void h2_turn(struct h2 *c)
{
	const uint8_t *p;
	char some[16384];
	ssize_t n;

	while ((n = nghttp2_session_mem_send(c->session, &p)) > 0)
		rig_send(c->s->l, c->fd, p, (size_t)n);
	loop_turn(c->s->l, 5);
	while (!c->eof && (n = read(c->fd, some, sizeof(some))) >= 0) {
		c->eof = n == 0;
		(void)nghttp2_session_mem_recv(c->session, (const uint8_t *)some, (size_t)n);
	}
	if (n < 0 && errno != EAGAIN)
		c->eof = true;
}

static nghttp2_nv nv(const char *name, const char *value)
{
	return (nghttp2_nv){ (uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0 };
}

struct h2_stream *h2_ask(struct h2 *c, const struct h2_ask *ask)
{
	struct h2_stream *st = &c->streams[c->n++];
	const nghttp2_data_provider body = { .source.ptr = st, .read_callback = read_body };
	nghttp2_nv head[32] = { nv(":method", ask->method ? ask->method : "GET"),
				nv(":scheme", "http"), nv(":path", ask->path),
				nv(":authority", "a.example") };
	size_t n = 4;

	is_true(c->n <= H2_STREAMS);
	for (size_t i = 0; ask->headers && ask->headers[i]; i += 2)
		head[n++] = nv(ask->headers[i], ask->headers[i + 1]);
	*st = (struct h2_stream){ .endless = ask->endless, .sum = ask->sum };
	if (ask->body)
		st->out = (struct span){ ask->body,
					 ask->body_len ? ask->body_len : strlen(ask->body) };
	st->id = nghttp2_submit_request(c->session, NULL, head, n,
					ask->body || ask->endless ? &body : NULL, NULL);
	is_true(st->id > 0);
	return st;
}

struct h2_stream *h2_get(struct h2 *c, const char *path)
{
	return h2_ask(c, &(struct h2_ask){ .path = path });
}

void h2_more(struct h2 *c, struct h2_stream *st, const char *text, bool last)
{
	st->out = SPAN(text);
	st->endless = !last;
	if (st->waits)
		(void)nghttp2_session_resume_data(c->session, st->id);
	st->waits = false;
}

void h2_put(struct buf *b, const struct h2_frame *f)
{
	const size_t len = f->payload.len;
	const unsigned char head[9] = {
		(unsigned char)(len >> 16),
		(unsigned char)(len >> 8),
		(unsigned char)len,
		(unsigned char)f->type,
		(unsigned char)f->flags,
		(unsigned char)(f->stream >> 24),
		(unsigned char)(f->stream >> 16),
		(unsigned char)(f->stream >> 8),
		(unsigned char)f->stream,
	};

	buf_add(b, head, sizeof(head));
	if (len)
		buf_add(b, f->payload.p, len);
}

void h2_put_greeting(struct buf *b)
{
	buf_add_str(b, NGHTTP2_CLIENT_MAGIC);
	h2_put(b, &(struct h2_frame){ .type = H2_SETTINGS });
}

static void put_length(struct buf *b, size_t len)
{
	if (len < 127) {
		buf_add_char(b, (char)len);
		return;
	}
	buf_add_char(b, 127);
	for (len -= 127; len >= 128; len /= 128)
		buf_add_char(b, (char)(len % 128 + 128));
	buf_add_char(b, (char)len);
}

void h2_put_field(struct buf *b, const char *name, const char *value)
{
	buf_add_char(b, 0);
	put_length(b, strlen(name));
	buf_add_str(b, name);
	put_length(b, strlen(value));
	buf_add_str(b, value);
}

static uint32_t number(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;

	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static int read_status(nghttp2_hd_inflater *hd, const char *p, size_t len)
{
	int status = 0, flags = 0;
	nghttp2_nv field;
	ssize_t n;

	while (len &&
	       (n = nghttp2_hd_inflate_hd2(hd, &field, &flags, (const uint8_t *)p, len, 1)) > 0) {
		p += n;
		len -= (size_t)n;
		if ((flags & NGHTTP2_HD_INFLATE_EMIT) && str_eq((char *)field.name, ":status"))
			(void)sscanf((char *)field.value, "%d", &status);
	}
	(void)nghttp2_hd_inflate_end_headers(hd);
	return status;
}

static void read_frame(struct h2_verdict *v, nghttp2_hd_inflater *hd, const char *p, size_t len)
{
	if (p[3] == H2_HEADERS && !v->status)
		v->status = read_status(hd, p + 9, len);
	if (p[3] == H2_RST_STREAM && v->reset < 0)
		v->reset = (int)number(p + 9);
	if (p[3] == H2_GOAWAY)
		v->goaway = (int)number(p + 13);
}

static struct h2_verdict say(struct site *s, struct buf *b, bool to_end)
{
	struct h2_verdict v = { 0, -1, -1 };
	usec end = clock_mono() + 10 * 1000000;
	autobuf in = { 0 };
	nghttp2_hd_inflater *hd;
	ssize_t n = 1;

	(void)nghttp2_hd_inflate_new(&hd);
	rig_send(s->l, s->fd, buf_head(b), b->len);
	while (n != 0 && (to_end || (!v.status && v.reset < 0)) && clock_mono() < end) {
		n = read(s->fd, buf_reserve(&in, 65536), 65536);
		if (n < 0 && errno != EAGAIN)
			break;
		if (n < 0)
			loop_turn(s->l, 5);
		buf_wrote(&in, n > 0 ? (size_t)n : 0);
		while (in.len >= 9 && in.len >= 9 + (number(buf_head(&in)) >> 8)) {
			size_t len = number(buf_head(&in)) >> 8;

			read_frame(&v, hd, buf_head(&in), len);
			buf_eat(&in, 9 + len);
		}
	}
	nghttp2_hd_inflate_del(hd);
	is_true(clock_mono() < end);
	return v;
}

struct h2_verdict h2_say(struct site *s, struct buf *b)
{
	return say(s, b, false);
}

struct h2_verdict h2_say_to_end(struct site *s, struct buf *b)
{
	return say(s, b, true);
}
