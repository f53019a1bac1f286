/* SPDX-License-Identifier: Apache-2.0 */
#include "net/websocket.h"

#include <sys/socket.h>
#include <unistd.h>

#include "net/http_server.h"
#include "net/stream.h"
#include "rig.h"
#include "test.h"

/* A server that accepts WebSockets, and one client that writes bytes. */
struct talk {
	struct loop *l;
	struct http_server *server;
	int fd;
	struct websocket *w;
	const char *const *protocols;
	const char *protocol;
	struct buf got; /* messages, each preceded by "t:" or "b:" and followed by "|" */
	int n_messages, n_drained, closed;
	bool pause, free_in_message, greet;
};

static void on_message(void *arg, bool binary, const char *data, size_t len)
{
	struct talk *t = arg;

	t->n_messages++;
	buf_add_str(&t->got, binary ? "b:" : "t:");
	buf_add(&t->got, data, len);
	buf_add_char(&t->got, '|');
	if (t->pause)
		websocket_pause(t->w, true);
	if (t->free_in_message)
		websocket_free(take(t->w));
}

static void on_drained(void *arg)
{
	((struct talk *)arg)->n_drained++;
}

static void on_closed(void *arg, uint16_t code)
{
	struct talk *t = arg;

	t->closed = code;
	websocket_free(take(t->w));
}

static void on_head(void *arg, struct http_request *r)
{
	static const struct websocket_events events = { on_message, on_drained, on_closed };
	struct talk *t = arg;

	t->w = websocket_accept(r, t->protocols, 1000, &t->protocol);
	if (t->w)
		websocket_set_events(t->w, &events, t);
	if (t->w && t->greet) {
		websocket_send(t->w, true, "one", 3);
		websocket_send(t->w, false, "two", 3);
		websocket_send(t->w, true, "", 0);
	}
}

static void talk_begin(struct talk *t, const char *const *protocols, const int fds[2])
{
	static const struct http_handler handler = { on_head };
	struct http_server_spec spec = { .handler = &handler, .arg = t };

	*t = (struct talk){ .l = rig_loop(), .protocols = protocols };
	works(http_server_start(t->l, -1, &spec, &t->server));
	t->fd = fds[1];
	http_server_adopt(t->server, stream_plain(fds[0]), "test");
}

static void talk_init(struct talk *t, const char *const *protocols)
{
	int fds[2];

	rig_pair(fds);
	talk_begin(t, protocols, fds);
}

static void talk_done(struct talk *t)
{
	websocket_free(t->w);
	http_server_free(t->server);
	(void)close(t->fd);
	buf_done(&t->got);
	rig_settle(t->l);
	loop_free(t->l);
}

#define HANDSHAKE                                                                                \
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static void shake(struct talk *t)
{
	autofree char *answer = NULL;

	rig_send_str(t->l, t->fd, HANDSHAKE "\r\n");
	answer = rig_read(t->l, t->fd, "\r\n\r\n");
	is_true(strstr(answer, "HTTP/1.1 101 ") == answer);
	is_true(strstr(answer, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") != NULL);
	until(t->l, t->w);
}

/* A masked frame as a client sends it; first is FIN, RSV and opcode. */
static void put_frame(struct buf *b, unsigned first, const char *p, size_t len)
{
	static const unsigned char mask[4] = { 1, 2, 3, 4 };

	buf_add_char(b, (char)first);
	if (len < 126) {
		buf_add_char(b, (char)(0x80 | len));
	} else {
		buf_add_char(b, (char)(0x80 | 126));
		buf_add_char(b, (char)(len >> 8));
		buf_add_char(b, (char)len);
	}
	buf_add(b, mask, 4);
	for (size_t i = 0; i < len; i++)
		buf_add_char(b, (char)(p[i] ^ mask[i % 4]));
}

static void say(struct talk *t, unsigned first, const char *text)
{
	autobuf b = { 0 };

	put_frame(&b, first, text, strlen(text));
	rig_send(t->l, t->fd, buf_head(&b), b.len);
}

/* The server's next frame: its first byte, and its payload in ret, NUL-terminated. */
static unsigned hear(struct talk *t, char *ret, size_t size)
{
	unsigned char head[2];
	size_t len;

	eq_int(rig_read_n(t->l, t->fd, (char *)head, 2), 2);
	len = head[1];
	is_true(len < 126 && len < size);
	eq_int(rig_read_n(t->l, t->fd, ret, len), len);
	ret[len] = '\0';
	return head[0];
}

static unsigned code_of(const char *payload)
{
	return (unsigned)(unsigned char)payload[0] << 8 | (unsigned char)payload[1];
}

TEST(messages_go_both_ways)
{
	struct talk t;
	char text[200];

	talk_init(&t, NULL);
	shake(&t);
	say(&t, 0x81, "hello");
	say(&t, 0x82, "bytes");
	say(&t, 0x81, "");
	until(t.l, t.n_messages == 3);
	eq_str(buf_str(&t.got), "t:hello|b:bytes|t:|");
	websocket_send(t.w, true, "back", 4);
	websocket_send(t.w, false, "text", 4);
	eq_int(hear(&t, text, sizeof(text)), 0x82);
	eq_str(text, "back");
	eq_int(hear(&t, text, sizeof(text)), 0x81);
	eq_str(text, "text");
	talk_done(&t);
}

TEST(bytes_after_the_handshake_are_not_lost)
{
	struct talk t;
	autobuf b = { 0 };

	talk_init(&t, NULL);
	buf_add_str(&b, HANDSHAKE "\r\n");
	put_frame(&b, 0x81, "eager", 5);
	rig_send(t.l, t.fd, buf_head(&b), b.len);
	until(t.l, t.n_messages == 1);
	eq_str(buf_str(&t.got), "t:eager|");
	talk_done(&t);
}

TEST(fragments_are_joined_with_pings_between)
{
	struct talk t;
	char text[200];

	talk_init(&t, NULL);
	shake(&t);
	say(&t, 0x01, "one ");
	say(&t, 0x89, "ping");
	say(&t, 0x00, "two ");
	say(&t, 0x80, "three");
	until(t.l, t.n_messages == 1);
	eq_str(buf_str(&t.got), "t:one two three|");
	eq_int(hear(&t, text, sizeof(text)), 0x8a);
	eq_str(text, "ping");
	talk_done(&t);
}

TEST(frames_come_a_byte_at_a_time)
{
	struct talk t;
	autobuf b = { 0 };
	char big[400];

	memset(big, 'x', sizeof(big));
	talk_init(&t, NULL);
	shake(&t);
	put_frame(&b, 0x82, big, sizeof(big));
	for (size_t i = 0; i < b.len; i++)
		rig_send(t.l, t.fd, buf_head(&b) + i, 1);
	until(t.l, t.n_messages == 1);
	eq_int(t.got.len, sizeof(big) + 3);
	talk_done(&t);
}

TEST(a_violation_ends_the_connection)
{
	static const struct {
		const char *bytes;
		size_t len;
		unsigned code;
	} rows[] = {
		{ "\x81\x05hello", 7, 1002 },        /* not masked */
		{ "\xc1\x80\0\0\0\0", 6, 1002 },     /* reserved bit */
		{ "\x83\x80\0\0\0\0", 6, 1002 },     /* unknown opcode */
		{ "\x80\x80\0\0\0\0", 6, 1002 },     /* continues nothing */
		{ "\x09\x80\0\0\0\0", 6, 1002 },     /* fragmented ping */
		{ "\x81\x81\0\0\0\0\xff", 7, 1007 }, /* not UTF-8 */
		{ "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 14, 1002 },
		{ "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 14, 1009 },
		{ "\x82\xfe\x03\xe9\0\0\0\0", 8, 1009 }, /* 1001 bytes */
		{ "\x88\x81\0\0\0\0x", 7,
		  0 }, /* half a status code counts as a close without one */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct talk t;
		char text[200] = { 0 };

		talk_init(&t, NULL);
		shake(&t);
		rig_send(t.l, t.fd, rows[i].bytes, rows[i].len);
		eq_int(hear(&t, text, sizeof(text)), 0x88);
		if (code_of(text) != rows[i].code)
			fail_msg("row %zu: %u", i, code_of(text));
		is_true(rig_at_end(t.l, t.fd));
		(void)shutdown(t.fd, SHUT_WR);
		until(t.l, t.closed);
		eq_int(t.n_messages, 0);
		talk_done(&t);
	}
}

TEST(a_close_by_the_peer_is_answered)
{
	struct talk t;
	char text[200];

	talk_init(&t, NULL);
	shake(&t);
	say(&t, 0x88,
	    "\x03\xe8"
	    "bye");
	eq_int(hear(&t, text, sizeof(text)), 0x88);
	eq_int(code_of(text), 1000);
	is_true(rig_at_end(t.l, t.fd));
	(void)shutdown(t.fd, SHUT_WR);
	until(t.l, t.closed == 1000);
	talk_done(&t);
}

TEST(our_close_waits_for_the_answer)
{
	struct talk t;
	char text[200];

	talk_init(&t, NULL);
	shake(&t);
	websocket_close(t.w, 1001, "going away");
	websocket_send(t.w, true, "too late", 8);
	eq_int(hear(&t, text, sizeof(text)), 0x88);
	eq_int(code_of(text), 1001);
	eq_str(text + 2, "going away");
	is_true(rig_at_end(t.l,
			   t.fd)); /* the connection's end comes at once, the answer still counts */
	say(&t, 0x82, "not wanted any more");
	say(&t, 0x88, "\x03\xe9");
	(void)shutdown(t.fd, SHUT_WR);
	until(t.l, t.closed == 1001);
	eq_int(t.n_messages, 0);
	talk_done(&t);
}

/* In packets, as a TLS stream would make records: a client may look for one message in each. */
TEST(each_message_leaves_alone)
{
	static const char *const beginnings[] = { "HTTP/1.1 101 ", "\x82\x03one", "\x81\x03two",
						  "\x82" };
	struct talk t;
	char got[1000];
	int fds[2];

	eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	talk_begin(&t, NULL, fds);
	t.greet = true;
	rig_send_str(t.l, t.fd, HANDSHAKE "\r\n");
	until(t.l, t.w);
	loop_turn(t.l, 0);
	for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
		is_true(read(t.fd, got, sizeof(got)) > 0);
		eq_int(memcmp(got, beginnings[i], strlen(beginnings[i])), 0);
	}
	eq_int(read(t.fd, got, sizeof(got)), -1);
	talk_done(&t);
}

TEST(a_peer_that_just_leaves_is_1006)
{
	struct talk t;

	talk_init(&t, NULL);
	shake(&t);
	(void)shutdown(t.fd, SHUT_RDWR);
	until(t.l, t.closed == 1006);
	talk_done(&t);
}

TEST(a_pause_delays_the_next_message)
{
	struct talk t;
	autobuf b = { 0 };

	talk_init(&t, NULL);
	shake(&t);
	t.pause = true;
	put_frame(&b, 0x81, "1", 1);
	put_frame(&b, 0x81, "2", 1);
	rig_send(t.l, t.fd, buf_head(&b), b.len);
	until(t.l, t.n_messages == 1);
	rig_settle(t.l);
	eq_int(t.n_messages, 1);
	websocket_pause(t.w, false);
	until(t.l, t.n_messages == 2);
	talk_done(&t);
}

TEST(a_websocket_may_be_freed_in_a_message)
{
	struct talk t;
	autobuf b = { 0 };

	talk_init(&t, NULL);
	shake(&t);
	t.free_in_message = true;
	put_frame(&b, 0x81, "1", 1);
	put_frame(&b, 0x81, "2", 1);
	rig_send(t.l, t.fd, buf_head(&b), b.len);
	until(t.l, t.n_messages == 1);
	rig_settle(t.l);
	eq_int(t.n_messages, 1);
	talk_done(&t);
}

TEST(a_peer_that_pings_and_never_reads_is_not_read)
{
	struct talk t;
	autobuf b = { 0 };
	char pad[125];
	size_t sent = 0;

	memset(pad, 'p', sizeof(pad));
	talk_init(&t, NULL);
	shake(&t);
	while (b.len < 64 * 1024)
		put_frame(&b, 0x89, pad, sizeof(pad));
	for (int i = 0; i < 2000; i++) {
		ssize_t n = send(t.fd, buf_head(&b), b.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		sent += n > 0 ? (size_t)n : 0;
		loop_turn(t.l, 0);
	}
	is_true(sent < 4 * 1024 * 1024);
	talk_done(&t);
}

TEST(the_first_protocol_of_ours_that_the_client_offers_is_chosen)
{
	static const char *const ours[] = { "v5.channel.k8s.io", "v4.channel.k8s.io", NULL };
	struct talk t;
	autofree char *answer = NULL;

	talk_init(&t, ours);
	rig_send_str(t.l, t.fd,
		     HANDSHAKE "Sec-WebSocket-Protocol: x, v4.channel.k8s.io\r\n"
			       "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n");
	answer = rig_read(t.l, t.fd, "\r\n\r\n");
	is_true(strstr(answer, "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n") != NULL);
	eq_str(t.protocol, "v5.channel.k8s.io");
	talk_done(&t);
}

TEST(unacceptable_handshakes_are_400)
{
	static const char *const heads[] = {
		HANDSHAKE "\r\n", /* no protocol offered */
		HANDSHAKE "Sec-WebSocket-Protocol: other\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: "
		"ours\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
		"13\r\nSec-WebSocket-Key: short\r\nSec-WebSocket-Protocol: ours\r\n\r\n",
	};
	static const char *const ours[] = { "ours", NULL };

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct talk t;
		autofree char *answer = NULL;

		talk_init(&t, ours);
		rig_send_str(t.l, t.fd, heads[i]);
		answer = rig_read(t.l, t.fd, "\r\n\r\n");
		is_true(strstr(answer, "HTTP/1.1 400 ") == answer);
		is_true(t.w == NULL);
		talk_done(&t);
	}
}
