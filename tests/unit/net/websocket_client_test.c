/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "net/http_client.h"
#include "net/stream.h"
#include "net/websocket.h"
#include "net/websocket_priv.h"
#include "rig.h"
#include "test.h"

/* A client, and a server that is the test itself: it accepts and writes bytes. */
static const char *const protocols[] = { "v5", "v4", NULL };

struct call {
	struct loop *l;
	struct http_pool *pool;
	int listen_fd, fd;
	char addr[64];
	struct websocket_dial *dial;
	struct websocket *w;
	const char *protocol;
	char *key; /* that the client sent */
	struct buf got;
	int n_messages, status, n_failed, closed;
	enum err_code why;
};

static void on_message(void *arg, bool binary, const char *data, size_t len)
{
	struct call *c = arg;

	c->n_messages++;
	buf_add_str(&c->got, binary ? "b:" : "t:");
	buf_add(&c->got, data, len);
	buf_add_char(&c->got, '|');
}

static void on_closed(void *arg, uint16_t code)
{
	((struct call *)arg)->closed = code;
}

static void on_opened(void *arg, struct websocket *w, const char *protocol)
{
	static const struct websocket_events events = { .message = on_message,
							.closed = on_closed };
	struct call *c = arg;

	c->dial = NULL;
	c->w = w;
	c->protocol = protocol;
	websocket_set_events(w, &events, c);
}

static void on_refused(void *arg, int status, struct span body)
{
	struct call *c = arg;

	c->dial = NULL;
	c->status = status;
	buf_add(&c->got, body.p, body.len);
}

static void on_failed(void *arg, const struct err *e)
{
	struct call *c = arg;

	c->dial = NULL;
	c->n_failed++;
	c->why = err_code(e);
}

static char *header_of(const char *head, const char *name)
{
	const char *p = strstr(head, name);

	is_true(p != NULL);
	p += strlen(name);
	return xstrndup(p, strcspn(p, "\r"));
}

/* Up to the point where the server has read the handshake. */
static void call_init(struct call *c)
{
	static const struct websocket_dial_events events = { on_opened, on_refused, on_failed };
	autofree char *head = NULL, *offered = NULL;

	*c = (struct call){ .l = rig_loop(), .fd = -1 };
	c->pool = http_pool_new(c->l, NULL, 2);
	works(net_listen("127.0.0.1:0", &c->listen_fd));
	works(net_local_addr(c->listen_fd, c->addr, sizeof(c->addr)));
	c->dial = websocket_dial(c->pool,
				 &(struct websocket_dial_spec){ .addr = c->addr,
								.target = "/x",
								.protocols = protocols,
								.max_message = 1000 },
				 &events, c);
	until(c->l, (c->fd = accept4(c->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
	head = rig_read(c->l, c->fd, "\r\n\r\n");
	is_true(strstr(head, "GET /x HTTP/1.1\r\n") == head);
	offered = header_of(head, "Sec-WebSocket-Protocol: ");
	eq_str(offered, "v5, v4");
	c->key = header_of(head, "Sec-WebSocket-Key: ");
}

static void call_done(struct call *c)
{
	websocket_dial_cancel(c->dial);
	websocket_free(c->w);
	http_pool_free(c->pool);
	(void)close(c->fd);
	(void)close(c->listen_fd);
	buf_done(&c->got);
	free(c->key);
	rig_settle(c->l);
	loop_free(c->l);
}

/* key NULL: the right one; rest: more headers, each with its end of line. */
static void answer(struct call *c, const char *key, const char *rest)
{
	autofree char *proof = websocket_accept_key(key ? key : c->key);
	autofree char *text = xasprintf("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
					"Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s\r\n",
					proof, rest);

	rig_send_str(c->l, c->fd, text);
}

static void open_call(struct call *c)
{
	call_init(c);
	answer(c, NULL, "Sec-WebSocket-Protocol: v4\r\n");
	until(c->l, c->w);
	eq_str(c->protocol, "v4");
}

TEST(a_client_masks_and_reads_what_is_not_masked)
{
	struct call c;
	unsigned char frame[6 + 5];

	open_call(&c);
	websocket_send(c.w, true, "hello", 5);
	eq_int(rig_read_n(c.l, c.fd, (char *)frame, sizeof(frame)), sizeof(frame));
	eq_int(frame[0], 0x82);
	eq_int(frame[1], 0x80 | 5);
	for (int i = 0; i < 5; i++)
		eq_int(frame[6 + i] ^ frame[2 + i % 4], "hello"[i]);
	rig_send(c.l, c.fd, "\x82\x02hi\x81\x03you", 9);
	until(c.l, c.n_messages == 2);
	eq_str(buf_str(&c.got), "b:hi|t:you|");
	call_done(&c);
}

TEST(no_two_frames_of_a_client_have_the_same_mask)
{
	struct call c;
	char frames[2][6 + 4];

	open_call(&c);
	websocket_send(c.w, true, "same", 4);
	websocket_send(c.w, true, "same", 4);
	eq_int(rig_read_n(c.l, c.fd, (char *)frames, sizeof(frames)), sizeof(frames));
	is_true(memcmp(frames[0] + 2, frames[1] + 2, 4) != 0);
	call_done(&c);
}

TEST(a_masked_frame_from_a_server_ends_the_connection)
{
	struct call c;

	unsigned char bye[8];

	open_call(&c);
	rig_send(c.l, c.fd, "\x82\x82\x01\x02\x03\x04hi", 8);
	eq_int(rig_read_n(c.l, c.fd, (char *)bye, sizeof(bye)), sizeof(bye));
	eq_int(bye[0], 0x88);
	eq_int((bye[6] ^ bye[2]) << 8 | (bye[7] ^ bye[3]), 1002);
	until(c.l, c.closed);
	eq_int(c.n_messages, 0);
	call_done(&c);
}

TEST(a_message_above_the_limit_ends_the_connection)
{
	struct call c;

	open_call(&c);
	rig_send(c.l, c.fd, "\x82\x7e\x03\xe9", 4); /* 1001 bytes */
	until(c.l, c.closed);
	eq_int(c.n_messages, 0);
	call_done(&c);
}

TEST(an_answer_to_another_key_is_refused)
{
	struct call c;

	call_init(&c);
	answer(&c, "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol: v4\r\n");
	until(c.l, c.n_failed);
	eq_int(c.why, ERR_MALFORMED);
	call_done(&c);
}

TEST(an_answer_must_choose_what_was_offered)
{
	static const char *const rows[] = {
		"", "Sec-WebSocket-Protocol: v3\r\n",
		"Sec-WebSocket-Protocol: v4\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct call c;

		call_init(&c);
		answer(&c, NULL, rows[i]);
		until(c.l, c.n_failed);
		eq_int(c.why, ERR_MALFORMED);
		call_done(&c);
	}
}

TEST(a_refusal_comes_with_its_text)
{
	struct call c;

	call_init(&c);
	rig_send_str(c.l, c.fd, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
	until(c.l, c.status);
	eq_int(c.status, 403);
	eq_str(buf_str(&c.got), "no");
	call_done(&c);
}

TEST(a_handshake_can_be_cancelled)
{
	struct call c;

	call_init(&c);
	websocket_dial_cancel(take(c.dial));
	is_true(rig_at_end(c.l, c.fd));
	eq_int(c.n_failed, 0);
	call_done(&c);
}
