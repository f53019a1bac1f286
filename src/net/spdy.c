/* SPDX-License-Identifier: Apache-2.0 */
#include "net/spdy.h"

#include <assert.h>

#include "base/buf.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/spdy_headers_priv.h"
#include "net/websocket.h"

/*
 * Frames, all with a head of eight bytes:
 *
 *   control: 1 | version 3 (15 bits) | type (16) || flags (8) | length (24) || payload
 *   data:    0 | stream id (31 bits)             || flags (8) | length (24) || payload
 *
 * Data is passed on as it comes; a control frame is gathered first. The bytes travel over a
 * connection or inside the messages of a WebSocket, whose boundaries mean nothing here.
 */
enum {
	HEAD_LEN = 8,
	STREAMS_MAX = 64,
	CONTROL_MAX = 64 * 1024,
	FRAME_MAX = 1024 * 1024,
	ID_MASK = 0x7fffffff,
	FLAG_FIN = 1,
	FLAG_UNIDIRECTIONAL = 2,
};

enum frame_type {
	SYN_STREAM = 1,
	SYN_REPLY = 2,
	RST_STREAM = 3,
	PING = 6,
	GOAWAY = 7,
	HEADERS = 8,
};

enum rst_status {
	RST_PROTOCOL_ERROR = 1,
	RST_REFUSED_STREAM = 3,
};

struct spdy_stream {
	uint32_t id; /* 0: free slot */
	bool local_end, remote_end;
};

struct spdy {
	struct conn *conn; /* one of these two carries us */
	struct websocket *ws;
	struct spdy_events ev;
	void *arg;
	unsigned refs; /* the owner, callbacks under way */
	struct deferred kick;
	struct spdy_zip *zip;
	struct spdy_stream streams[STREAMS_MAX];
	uint32_t last_id;
	struct buf in;      /* over a WebSocket: bytes not used yet */
	struct buf control; /* the control frame being gathered, without its head */
	unsigned char head[HEAD_LEN];
	bool in_frame;
	size_t frame_left;
	bool freed, paused, closing;
};

static uint32_t get_u32(const void *p)
{
	const unsigned char *b = p;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void put_u32(unsigned char *to, uint32_t v)
{
	to[0] = (unsigned char)(v >> 24);
	to[1] = (unsigned char)(v >> 16);
	to[2] = (unsigned char)(v >> 8);
	to[3] = (unsigned char)v;
}

static void spdy_unref(struct spdy *s)
{
	if (--s->refs)
		return;
	spdy_zip_free(s->zip);
	buf_done(&s->in);
	buf_done(&s->control);
	free(s);
}

static void link_write(struct spdy *s, const struct buf *b)
{
	if (s->ws)
		websocket_send(s->ws, true, buf_head(b), b->len);
	else
		conn_write(s->conn, buf_head(b), b->len);
}

static void link_close(struct spdy *s)
{
	if (s->ws)
		websocket_close(s->ws, 1000, NULL);
	else
		conn_close_after_flush(s->conn);
}

static void put_head(struct buf *b, uint32_t first, unsigned flags, size_t len)
{
	unsigned char head[HEAD_LEN];

	put_u32(head, first);
	put_u32(head + 4, (uint32_t)(flags << 24) | (uint32_t)len);
	buf_add(b, head, sizeof(head));
}

static void send_control(struct spdy *s, enum frame_type type, const void *p, size_t len)
{
	autobuf b = { 0 };

	put_head(&b, 0x80030000u | type, 0, len);
	buf_add(&b, p, len);
	link_write(s, &b);
}

static void send_two_words(struct spdy *s, enum frame_type type, uint32_t a, uint32_t b)
{
	unsigned char payload[8];

	put_u32(payload, a);
	put_u32(payload + 4, b);
	send_control(s, type, payload, sizeof(payload));
}

static void send_data(struct spdy *s, uint32_t id, unsigned flags, struct span data)
{
	autobuf b = { 0 };

	put_head(&b, id, flags, data.len);
	if (data.len)
		buf_add(&b, data.p, data.len);
	link_write(s, &b);
}

static void session_end(struct spdy *s, uint32_t status)
{
	if (s->closing)
		return;
	s->closing = true;
	send_two_words(s, GOAWAY, s->last_id, status);
	link_close(s);
}

static struct spdy_stream *stream_find(struct spdy *s, uint32_t id)
{
	for (size_t i = 0; i < STREAMS_MAX; i++)
		if (s->streams[i].id == id)
			return &s->streams[i];
	return NULL;
}

static void stream_settle(struct spdy_stream *st)
{
	if (st->local_end && st->remote_end)
		*st = (struct spdy_stream){ 0 };
}

static void stream_remote_end(struct spdy *s, uint32_t id)
{
	struct spdy_stream *st = stream_find(s, id);

	if (!st || st->remote_end)
		return;
	st->remote_end = true;
	stream_settle(st);
	s->ev.ended(s->arg, id);
}

static void send_reply(struct spdy *s, uint32_t id)
{
	autobuf b = { 0 };

	put_u32((unsigned char *)buf_reserve(&b, 4), id);
	buf_wrote(&b, 4);
	spdy_zip_write_empty(s->zip, &b);
	send_control(s, SYN_REPLY, buf_head(&b), b.len);
}

/* id (32), associated id (32), priority and slot (16), headers. */
static bool on_syn_stream(struct spdy *s, unsigned flags)
{
	const char *p = buf_head(&s->control);
	struct http_headers h = { 0 };
	struct spdy_stream *st;
	uint32_t id;

	if (s->control.len < 10 || !spdy_zip_read(s->zip, p + 10, s->control.len - 10, &h)) {
		http_headers_done(&h);
		return false;
	}
	id = get_u32(p) & ID_MASK;
	st = stream_find(s, 0);
	if (!(id & 1) || id <= s->last_id) {
		send_two_words(s, RST_STREAM, id, RST_PROTOCOL_ERROR);
	} else if (!st) {
		s->last_id = id;
		send_two_words(s, RST_STREAM, id, RST_REFUSED_STREAM);
	} else {
		s->last_id = id;
		*st = (struct spdy_stream){ .id = id, .local_end = flags & FLAG_UNIDIRECTIONAL };
		if (!st->local_end)
			send_reply(s, id);
		s->ev.opened(s->arg, id, &h);
		if (!s->freed && (flags & FLAG_FIN))
			stream_remote_end(s, id);
	}
	http_headers_done(&h);
	return true;
}

static bool on_rst_stream(struct spdy *s)
{
	struct spdy_stream *st;
	uint32_t id;

	if (s->control.len < 8)
		return false;
	id = get_u32(buf_head(&s->control)) & ID_MASK;
	st = id ? stream_find(s, id) : NULL;
	if (st) {
		*st = (struct spdy_stream){ 0 };
		s->ev.reset(s->arg, id);
	}
	return true;
}

/* id (32), headers: nobody wants them, but the context does. */
static bool on_headers(struct spdy *s)
{
	struct http_headers h = { 0 };
	bool ok = s->control.len >= 4 &&
		  spdy_zip_read(s->zip, buf_head(&s->control) + 4, s->control.len - 4, &h);

	http_headers_done(&h);
	return ok;
}

static bool on_ping(struct spdy *s)
{
	if (s->control.len != 4)
		return false;
	/* A peer that does not read would not see the answer; it only would fill our memory. */
	if ((get_u32(buf_head(&s->control)) & 1) && !spdy_full(s))
		send_control(s, PING, buf_head(&s->control), 4);
	return true;
}

/* False: the session cannot go on. */
static bool on_control(struct spdy *s)
{
	switch ((enum frame_type)(get_u32(s->head) & 0xffff)) {
	case SYN_STREAM:
		return on_syn_stream(s, s->head[4]);
	case RST_STREAM:
		return on_rst_stream(s);
	case PING:
		return on_ping(s);
	case SYN_REPLY:
	case HEADERS:
		return on_headers(s);
	case GOAWAY:
		return true; /* the client will close when its streams are done */
	}
	return true; /* settings, windows: not used by these clients */
}

static bool is_control(const struct spdy *s)
{
	return s->head[0] & 0x80;
}

/* Reads a frame's head. False: not there yet, or refused. */
static bool frame_begin(struct spdy *s, struct buf *in)
{
	size_t len;

	if (in->len < HEAD_LEN)
		return false;
	memcpy(s->head, buf_head(in), HEAD_LEN);
	len = get_u32(s->head + 4) & 0xffffff;
	if (is_control(s) && spdy_full(s) && (get_u32(s->head) & 0xffff) == SYN_STREAM)
		return false; /* an answer is due to it: wait until there is room */
	if ((is_control(s) && (get_u32(s->head) >> 16) != 0x8003) ||
	    len > (size_t)(is_control(s) ? CONTROL_MAX : FRAME_MAX)) {
		session_end(s, RST_PROTOCOL_ERROR);
		return false;
	}
	buf_eat(in, HEAD_LEN);
	s->in_frame = true;
	s->frame_left = len;
	return true;
}

static void frame_data(struct spdy *s, struct buf *in, size_t len)
{
	uint32_t id = get_u32(s->head) & ID_MASK;
	struct spdy_stream *st = id ? stream_find(s, id) : NULL;

	/* Without a stream: it was reset meanwhile. */
	if (len && st && !st->remote_end)
		s->ev.data(s->arg, id, buf_head(in), len);
	if (!s->freed)
		buf_eat(in, len);
}

static void frame_end(struct spdy *s)
{
	s->in_frame = false;
	if (!is_control(s)) {
		if (s->head[4] & FLAG_FIN)
			stream_remote_end(s, get_u32(s->head) & ID_MASK);
		return;
	}
	if (!on_control(s) && !s->freed)
		session_end(s, RST_PROTOCOL_ERROR);
	buf_clear(&s->control);
}

/* One frame, or what there is of it. False: nothing more can be done now. */
static bool step(struct spdy *s, struct buf *in)
{
	size_t len;

	if (!s->in_frame && !frame_begin(s, in))
		return false;
	len = MIN(s->frame_left, in->len);
	s->frame_left -= len;
	if (!is_control(s)) {
		frame_data(s, in, len);
	} else if (len) {
		buf_add(&s->control, buf_head(in), len);
		buf_eat(in, len);
	}
	if (s->frame_left)
		return len > 0;
	if (!s->freed)
		frame_end(s);
	return true;
}

static void run(struct spdy *s)
{
	s->refs++;
	while (!s->freed && !s->paused && !s->closing && step(s, s->ws ? &s->in : conn_in(s->conn)))
		;
	spdy_unref(s);
}

static void kicked(void *arg)
{
	run(arg);
}

static void on_drained(void *arg)
{
	struct spdy *s = arg;

	s->refs++;
	if (s->ev.drained)
		s->ev.drained(s->arg);
	if (!s->freed)
		run(s);
	spdy_unref(s);
}

static void on_conn_data(void *arg, unused struct buf *in)
{
	run(arg);
}

static void on_conn_closed(void *arg, unused const struct err *e)
{
	struct spdy *s = arg;

	s->ev.closed(s->arg);
}

static void on_ws_message(void *arg, unused bool binary, const char *data, size_t len)
{
	struct spdy *s = arg;

	buf_add(&s->in, data, len);
	run(s);
}

static void on_ws_closed(void *arg, unused uint16_t code)
{
	struct spdy *s = arg;

	s->ev.closed(s->arg);
}

static struct spdy *session_new(struct loop *l, const struct spdy_events *ev, void *arg)
{
	struct spdy *s = xnew(struct spdy);

	s->refs = 1;
	s->ev = *ev;
	s->arg = arg;
	s->zip = spdy_zip_new();
	deferred_init(&s->kick, l, kicked, s);
	return s;
}

struct spdy *spdy_new(struct conn *c, const struct spdy_events *ev, void *arg)
{
	static const struct conn_events events = {
		.data = on_conn_data,
		.drained = on_drained,
		.closed = on_conn_closed,
	};
	struct spdy *s = session_new(conn_loop(c), ev, arg);

	s->conn = c;
	conn_set_events(c, &events, s);
	return s;
}

struct spdy *spdy_new_websocket(struct websocket *w, const struct spdy_events *ev, void *arg)
{
	static const struct websocket_events events = {
		.message = on_ws_message,
		.drained = on_drained,
		.closed = on_ws_closed,
	};
	struct spdy *s = session_new(websocket_loop(w), ev, arg);

	s->ws = w;
	websocket_set_events(w, &events, s);
	return s;
}

void spdy_write(struct spdy *s, uint32_t id, const void *p, size_t len)
{
	struct spdy_stream *st = id ? stream_find(s, id) : NULL;
	const char *at = p;

	if (!st || st->local_end || s->closing)
		return;
	while (len) {
		size_t piece = MIN(len, (size_t)FRAME_MAX);

		send_data(s, id, 0, (struct span){ at, piece });
		at += piece;
		len -= piece;
	}
}

void spdy_end(struct spdy *s, uint32_t id)
{
	struct spdy_stream *st = id ? stream_find(s, id) : NULL;

	if (!st || st->local_end || s->closing)
		return;
	send_data(s, id, FLAG_FIN, (struct span){ NULL, 0 });
	st->local_end = true;
	stream_settle(st);
}

bool spdy_full(const struct spdy *s)
{
	return s->ws ? websocket_full(s->ws) : conn_full(s->conn);
}

void spdy_pause(struct spdy *s, bool paused)
{
	s->paused = paused;
	if (!s->ws) {
		conn_pause(s->conn, paused);
		return;
	}
	websocket_pause(s->ws, paused);
	if (!paused && s->in.len) /* we hold the rest of a message: nobody will offer it again */
		deferred_call(&s->kick);
}

void spdy_close(struct spdy *s)
{
	session_end(s, 0);
}

void spdy_free(struct spdy *s)
{
	if (!s)
		return;
	assert(!s->freed);
	s->freed = true;
	deferred_cancel(&s->kick);
	websocket_free(s->ws);
	conn_free(s->conn);
	spdy_unref(s);
}
