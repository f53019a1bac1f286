/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/mem.h"
#include "guest/execute/ws_priv.h"
#include "guest/runtime/reply.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/http_server.h"

enum {
	PING_MS =
		30 * 1000, /* a peer that is no longer there is noticed by what it does not take */
	STALL_MS = 60 * 1000,  /* nor may one who is take nothing for longer */
	LINGER_MS = 10 * 1000, /* for the peer's answer to our close */
	WS_MAX = 256,          /* connections */
};

#define PROTOCOL "v5.channel.k8s.io"

struct ws {
	struct conn *conn;
	const struct ws_events *ev; /* NULL: nobody owns it any more; it goes with its connection */
	void *arg;
	struct ws_reader reader;
	struct timer *timer;
	bool paused;
	bool closing; /* our close is sent */
	bool cut;     /* nothing more is read */
};

static unsigned n_open;

static void destroy(struct ws *w)
{
	n_open--;
	conn_free(w->conn);
	timer_free(w->timer);
	ws_reader_done(&w->reader);
	free(w);
}

static void write_frame(struct ws *w, enum ws_opcode opcode, const char *data, size_t len)
{
	autobuf head = { 0 };

	ws_put_head(&head, opcode, len);
	conn_write(w->conn, buf_head(&head), head.len);
	conn_write(w->conn, data, len);
}

void ws_send(struct ws *w, enum ws_channel channel, const char *data, size_t len)
{
	char first = (char)channel;
	autobuf head = { 0 };

	if (w->closing)
		return;
	ws_put_head(&head, WS_BINARY, len + 1);
	buf_add_char(&head, first);
	conn_write(w->conn, buf_head(&head), head.len);
	conn_write(w->conn, data, len);
}

bool ws_full(const struct ws *w)
{
	return conn_full(w->conn);
}

void ws_pause(struct ws *w, bool paused)
{
	if (w->paused == paused)
		return;
	w->paused = paused;
	conn_pause(w->conn, paused);
}

static void send_close(struct ws *w, unsigned code, const char *reason)
{
	autobuf data = { 0 };

	if (w->closing)
		return;
	w->closing = true;
	if (code) {
		buf_add_char(&data, (char)(code >> 8));
		buf_add_char(&data, (char)code);
		buf_add(&data, reason, MIN(strlen(reason), (size_t)WS_CONTROL_MAX - 2));
	}
	write_frame(w, WS_CLOSE, buf_head(&data), data.len);
}

void ws_end(struct ws *w, unsigned code, const char *reason)
{
	w->ev = NULL;
	send_close(w, code, reason);
	ws_pause(w, false);
	timer_set(w->timer, LINGER_MS);
}

/* The owner hears once that it has lost w. */
static void disown(struct ws *w)
{
	const struct ws_events *ev = take(w->ev);

	if (ev)
		ev->gone(w->arg);
}

/* The peer broke the rules or said goodbye: it is told so, and that was all. */
static void part(struct ws *w, unsigned code, const char *reason)
{
	send_close(w, code, reason);
	w->cut = true;
	conn_close_after_flush(w->conn);
	disown(w);
}

static void on_event(struct ws *w, const struct ws_event *v)
{
	switch (v->opcode) {
	case WS_PING:
		if (!w->closing)
			write_frame(w, WS_PONG, v->data.p, v->data.len);
		break;
	case WS_CLOSE:
		part(w, v->code, "");
		break;
	case WS_TEXT:
		part(w, WS_UNSUPPORTED, "messages are binary, and their first byte is the channel");
		break;
	case WS_BINARY:
		if (!v->data.len)
			part(w, WS_POLICY, "a message begins with its channel");
		else if (w->ev)
			w->ev->message(w->arg, (unsigned char)v->data.p[0], v->data.p + 1,
				       v->data.len - 1);
		break;
	case WS_CONTINUATION:
	case WS_PONG:
		break;
	}
}

static void on_data(void *arg, struct buf *in)
{
	struct ws *w = arg;
	enum ws_next next = WS_EVENT;
	struct ws_event v;

	while (!w->cut && !w->paused && next == WS_EVENT) {
		next = ws_read(&w->reader, in, &v);
		if (next == WS_EVENT)
			on_event(w, &v);
		else if (next == WS_BAD)
			part(w, v.code, "bad frame");
	}
}

static void on_eof(void *arg)
{
	disown(arg);
	destroy(arg);
}

static void on_drained(void *arg)
{
	struct ws *w = arg;

	if (w->ev)
		w->ev->drained(w->arg);
}

static void on_closed(void *arg, unused const struct err *e)
{
	disown(arg);
	destroy(arg);
}

static void on_timer(void *arg)
{
	struct ws *w = arg;

	if (w->closing) {
		disown(w);
		destroy(w);
		return;
	}
	write_frame(w, WS_PING, "", 0);
	timer_set(w->timer, PING_MS);
}

static bool wanted(struct http_request *r)
{
	const struct http_headers *h = http_request_headers(r);

	return http_headers_has_token(h, "Connection", "upgrade") &&
	       http_headers_has_token(h, "Upgrade", "websocket");
}

bool ws_check(struct http_request *r)
{
	struct http_headers h = { 0 };
	char accept[32];

	if (wanted(r) && str_eq(http_request_header(r, "Sec-WebSocket-Version"), "13")) {
		if (n_open >= WS_MAX) {
			rest_error(r, 503, "UNAVAILABLE", "%d WebSockets are open", WS_MAX);
			return false;
		}
		if (ws_accept_key(http_request_header(r, "Sec-WebSocket-Key"), accept))
			return true;
		rest_error(r, 400, "INVALID_ARGUMENT",
			   "Sec-WebSocket-Key: sixteen bytes in base64");
		return false;
	}
	http_headers_add(&h, "Upgrade", "websocket");
	http_headers_add(&h, "Sec-WebSocket-Version", "13");
	http_respond(r, 426, &h,
		     (struct http_body){ "text/plain", "use WebSocket, version 13\n", 26 });
	http_headers_done(&h);
	return false;
}

static struct conn *upgrade(struct http_request *r)
{
	struct http_headers h = { 0 };
	struct conn *conn = NULL;
	char accept[32];

	if (!ws_accept_key(http_request_header(r, "Sec-WebSocket-Key"), accept))
		return NULL; /* ws_check() has seen that it is one */
	http_headers_add(&h, "Connection", "Upgrade");
	http_headers_add(&h, "Upgrade", "websocket");
	http_headers_add(&h, "Sec-WebSocket-Accept", accept);
	if (http_headers_has_token(http_request_headers(r), "Sec-WebSocket-Protocol", PROTOCOL))
		http_headers_add(&h, "Sec-WebSocket-Protocol", PROTOCOL);
	http_respond_upgrade(r, &h, &conn);
	http_headers_done(&h);
	return conn;
}

struct ws *ws_accept(struct http_request *r, const struct ws_events *ev, void *arg)
{
	static const struct conn_events events = { on_data, on_eof, on_drained, on_closed };
	struct loop *loop = http_request_loop(r);
	struct conn *conn = upgrade(r);
	struct ws *w;

	if (!conn)
		return NULL;
	n_open++;
	w = xnew(struct ws);
	*w = (struct ws){ .conn = conn, .ev = ev, .arg = arg };
	w->timer = timer_new(loop, on_timer, w);
	timer_set(w->timer, PING_MS);
	conn_set_events(conn, &events, w);
	conn_set_stall_ms(conn, STALL_MS);
	return w;
}
