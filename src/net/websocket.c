/* SPDX-License-Identifier: Apache-2.0 */
#include "net/websocket.h"

#include <assert.h>
#include <wslay/wslay.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/random.h"
#include "crypto/crypto.h"
#include "net/conn.h"
#include "net/http_server.h"
#include "net/websocket_priv.h"

/*
 * wslay joins fragments, checks text and answers pings and closes; it is fed one frame at a time.
 * We look at the header of each frame ourselves, because wslay accepts frames of either side, where
 * a server must reject unmasked ones and a client masked ones, and because a pause or a full output
 * can stop the reading only between frames.
 */
enum {
	/*
	 * How long to wait for the peer's answer to our close. It may be slow to read what comes
	 * before that: a program whose output goes to a pager stands still while somebody reads.
	 */
	CLOSE_WAIT_MS = 10 * 60 * 1000,
	KEY_TEXT_LEN = 24,
};

struct websocket {
	struct conn *conn;
	wslay_event_context_ptr ctx;
	struct websocket_events ev;
	void *arg;
	unsigned refs; /* the owner's and that of a run in progress */
	uint64_t max_message, frame_left;
	bool client; /* we mask, and the peer does not */
	bool freed, paused;
	bool closing; /* no more messages: we asked for the end, or the peer broke the rules */
	bool ended;   /* the connection has been told to close */
};

static void websocket_unref(struct websocket *w)
{
	if (--w->refs)
		return;
	wslay_event_context_free(w->ctx);
	free(w);
}

/* Writes everything that wslay has to send to the connection's buffer. */
static void flush(struct websocket *w)
{
	if (!w->freed && wslay_event_send(w->ctx) < 0)
		conn_close_after_flush(w->conn);
}

/*
 * There are clients that wait for the socket to be readable before each message (Python's
 * kubernetes up to 34): they would not see a second one that came with the first in one TLS record,
 * because OpenSSL has taken it from the socket already.
 */
static ssize_t on_send(unused wslay_event_context_ptr ctx, const uint8_t *p, size_t len, int flags,
		       void *arg)
{
	struct websocket *w = arg;

	conn_write(w->conn, p, len);
	if (!w->client && !(flags & WSLAY_MSG_MORE))
		conn_cut(w->conn);
	return (ssize_t)len;
}

static void refuse(struct websocket *w, uint16_t code)
{
	w->closing = true;
	(void)wslay_event_queue_close(w->ctx, code, NULL, 0);
	wslay_event_shutdown_read(w->ctx);
}

/*
 * Reads the header of the frame at the beginning of `in`. False if it is not complete yet, or
 * rejected.
 */
static bool frame_begin(struct websocket *w, const struct buf *in)
{
	const unsigned char *p = (const unsigned char *)buf_head(in);
	unsigned n_ext, short_len, n_mask = w->client ? 0 : 4;
	uint64_t len = 0;

	if (in->len < 2)
		return false;
	short_len = p[1] & 0x7f;
	/*
	 * Masked on the wrong side, or a fragmented or long control frame: wslay would not say why
	 * it closes.
	 */
	if (!(p[1] & 0x80) != w->client || ((p[0] & 0x08) && (!(p[0] & 0x80) || short_len > 125))) {
		refuse(w, WSLAY_CODE_PROTOCOL_ERROR);
		return false;
	}
	n_ext = short_len == 126 ? 2 : short_len == 127 ? 8 : 0;
	if (in->len < 2 + n_ext + n_mask)
		return false;
	for (unsigned i = 0; i < n_ext; i++)
		len = len << 8 | p[2 + i];
	if (!n_ext)
		len = short_len;
	if (len > w->max_message) {
		refuse(w, len >> 63 ? WSLAY_CODE_PROTOCOL_ERROR : WSLAY_CODE_MESSAGE_TOO_BIG);
		return false;
	}
	w->frame_left = 2 + n_ext + n_mask + len;
	return true;
}

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *to, size_t len, unused int flags,
		       void *arg)
{
	struct websocket *w = arg;
	struct buf *in = w->freed ? NULL : conn_in(w->conn);
	bool held = !in || !in->len;

	/*
	 * A ping costs us a pong: a peer that sends and never reads must not fill our memory with
	 * them.
	 */
	if (!held && !w->frame_left)
		held = w->paused || conn_full(w->conn) || !frame_begin(w, in);
	if (held) {
		wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	len = MIN(len, in->len);
	len = (size_t)MIN((uint64_t)len, w->frame_left);
	memcpy(to, buf_head(in), len);
	buf_eat(in, len);
	w->frame_left -= len;
	return (ssize_t)len;
}

static void on_message(unused wslay_event_context_ptr ctx,
		       const struct wslay_event_on_msg_recv_arg *m, void *arg)
{
	struct websocket *w = arg;

	if (w->freed || w->closing || wslay_is_ctrl_frame(m->opcode))
		return;
	w->ev.message(w->arg, m->opcode == WSLAY_BINARY_FRAME,
		      m->msg_length ? (const char *)m->msg : "", m->msg_length);
}

static void run(struct websocket *w)
{
	int r;

	w->refs++;
	r = wslay_event_recv(w->ctx);
	flush(w);
	if (!w->freed && !w->ended && (r < 0 || !wslay_event_want_read(w->ctx))) {
		w->ended = true;
		conn_close_after_flush(w->conn);
	}
	websocket_unref(w);
}

static void on_data(void *arg, unused struct buf *in)
{
	run(arg);
}

static void on_drained(void *arg)
{
	struct websocket *w = arg;

	w->refs++;
	if (w->ev.drained)
		w->ev.drained(w->arg);
	if (!w->freed)
		run(w);
	websocket_unref(w);
}

static void on_closed(void *arg, unused const struct err *e)
{
	struct websocket *w = arg;

	w->ev.closed(w->arg, wslay_event_get_status_code_received(w->ctx));
}

static const struct conn_events conn_events = { .data = on_data,
						.drained = on_drained,
						.closed = on_closed };

/* Masks that nobody could foresee: a proxy in between must not take what is sent for a request. */
static int on_mask(unused wslay_event_context_ptr ctx, uint8_t *to, size_t len, unused void *arg)
{
	random_bytes(to, len);
	return 0;
}

struct websocket *websocket_new(struct conn *c, size_t max_message, bool client)
{
	static const struct wslay_event_callbacks callbacks = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.genmask_callback = on_mask,
		.on_msg_recv_callback = on_message,
	};
	struct websocket *w = xnew(struct websocket);
	int r;

	w->refs = 1;
	w->conn = c;
	w->client = client;
	w->max_message = MAX(max_message, (size_t)125); /* control frames may always be this long */
	r = client ? wslay_event_context_client_init(&w->ctx, &callbacks, w)
		   : wslay_event_context_server_init(&w->ctx, &callbacks, w);
	if (r != 0)
		abort(); /* out of memory */
	wslay_event_config_set_max_recv_msg_length(w->ctx, w->max_message);
	conn_set_events(c, &conn_events, w);
	conn_cut(c); /* from the head of the answer to the handshake */
	return w;
}

bool websocket_wanted(struct http_request *r)
{
	const struct http_headers *h = http_request_headers(r);

	return http_headers_has_token(h, "Connection", "upgrade") &&
	       http_headers_has_token(h, "Upgrade", "websocket");
}

char *websocket_accept_key(const char *key)
{
	autofree char *text = xasprintf("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
	unsigned char hash[20];

	sha1(text, strlen(text), hash);
	return base64_encode(hash, sizeof(hash), false);
}

static const char *choose_protocol(const struct http_headers *h, const char *const *protocols)
{
	for (size_t i = 0; protocols && protocols[i]; i++)
		if (http_headers_has_token(h, "Sec-WebSocket-Protocol", protocols[i]))
			return protocols[i];
	return NULL;
}

static const char *handshake_fault(struct http_request *r)
{
	const char *key = http_request_header(r, "Sec-WebSocket-Key");

	if (!websocket_wanted(r) || !str_eq(http_request_method(r), "GET"))
		return "the request is not a WebSocket handshake";
	if (!str_eq(http_request_header(r, "Sec-WebSocket-Version"), "13"))
		return "Sec-WebSocket-Version must be 13";
	if (!key || strlen(key) != KEY_TEXT_LEN)
		return "Sec-WebSocket-Key must be 16 bytes in base64";
	return NULL;
}

static struct websocket *answer(struct http_request *r, const char *protocol, size_t max_message)
{
	autofree char *proof = websocket_accept_key(http_request_header(r, "Sec-WebSocket-Key"));
	struct http_headers h = { 0 };
	struct websocket *w = NULL;
	struct conn *c;

	http_headers_add(&h, "Upgrade", "websocket");
	http_headers_add(&h, "Connection", "Upgrade");
	http_headers_add(&h, "Sec-WebSocket-Accept", proof);
	if (protocol)
		http_headers_add(&h, "Sec-WebSocket-Protocol", protocol);
	http_respond_upgrade(r, &h, &c);
	http_headers_done(&h);
	if (c)
		w = websocket_new(c, max_message, false);
	return w;
}

struct websocket *websocket_accept(struct http_request *r, const char *const *protocols,
				   size_t max_message, const char **ret_protocol)
{
	const char *fault = handshake_fault(r);
	const char *protocol = choose_protocol(http_request_headers(r), protocols);
	struct websocket *w;

	if (!fault && protocols && !protocol)
		fault = "none of the offered sub-protocols is supported";
	if (fault) {
		http_respond_text(r, 400, fault);
		return NULL;
	}
	w = answer(r, protocol, max_message);
	if (w && ret_protocol)
		*ret_protocol = protocol;
	return w;
}

void websocket_set_events(struct websocket *w, const struct websocket_events *ev, void *arg)
{
	w->ev = *ev;
	w->arg = arg;
}

void websocket_send(struct websocket *w, bool binary, const void *p, size_t len)
{
	struct wslay_event_msg m = {
		.opcode = binary ? WSLAY_BINARY_FRAME : WSLAY_TEXT_FRAME,
		.msg = p,
		.msg_length = len,
	};

	(void)wslay_event_queue_msg(w->ctx, &m); /* rejected after a close: nobody would read it */
	flush(w);
}

bool websocket_full(const struct websocket *w)
{
	return conn_full(w->conn);
}

struct loop *websocket_loop(struct websocket *w)
{
	return conn_loop(w->conn);
}

void websocket_pause(struct websocket *w, bool paused)
{
	w->paused = paused;
	conn_pause(w->conn, paused);
}

void websocket_close(struct websocket *w, uint16_t code, const char *reason)
{
	size_t len = reason ? MIN(strlen(reason), (size_t)123) : 0;

	if (w->closing)
		return;
	w->closing = true;
	while (len && !utf8_valid(reason, len))
		len--; /* do not cut a character in two */
	(void)wslay_event_queue_close(w->ctx, code, (const uint8_t *)reason, len);
	flush(w);
	if (!w->client)
		conn_end(w->conn); /* some clients wait for the end of the connection itself */
	w->paused = false;
	conn_pause(w->conn, false);
	conn_set_idle_ms(w->conn, CLOSE_WAIT_MS);
}

void websocket_free(struct websocket *w)
{
	if (!w)
		return;
	assert(!w->freed);
	w->freed = true;
	conn_free(w->conn);
	websocket_unref(w);
}
