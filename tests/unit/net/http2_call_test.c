/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http2_call.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"
#include "rig.h"
#include "test.h"

/* The far end speaks frames by hand, so that it can also speak them wrongly. */
enum {
	DATA = 0,
	HEADERS = 1,
	RST_STREAM = 3,
	SETTINGS = 4,
	PING = 6,
	NO_SUCH = 0x42, /* frames of an unknown type are passed over */
	GOAWAY = 7,
	END_STREAM = 1,
	END_HEADERS = 4,
};

struct side {
	struct loop *l;
	int peer;
	struct http2_call *call;
	int n_done, n_failed, status;
	enum err_code code;
	char *trailer, *body;
};

static void on_done(void *arg, const struct http2_answer *a)
{
	struct side *s = arg;
	struct buf body = a->body;

	s->n_done++;
	s->status = a->status;
	s->trailer = xstrdup(http_headers_get(&a->headers, "grpc-status"));
	s->body = xstrndup(body.len ? buf_head(&body) : "", body.len);
	http2_call_free(take(s->call)); /* its last act */
}

static void on_failed(void *arg, const struct err *e)
{
	struct side *s = arg;

	s->n_failed++;
	s->code = err_code(e);
	http2_call_free(take(s->call));
}

static void side_init(struct side *s)
{
	static const struct http2_call_events events = { .done = on_done, .failed = on_failed };
	const struct http2_call_spec spec = {
		.authority = "peer:1", .path = "/x", .body = "hello", .body_len = 5
	};
	char greeting[24];
	int fd[2];

	*s = (struct side){ .l = rig_loop() };
	rig_pair(fd);
	s->peer = fd[1];
	s->call = http2_call_start(s->l, stream_plain(fd[0]), &spec, &events, s);
	eq_int(rig_read_n(s->l, s->peer, greeting, sizeof(greeting)), sizeof(greeting));
	is_true(!memcmp(greeting, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", sizeof(greeting)));
}

static void side_done(struct side *s)
{
	http2_call_free(s->call);
	(void)close(s->peer);
	free(s->trailer);
	free(s->body);
	loop_free(s->l);
}

static void put_frame(struct buf *b, int type, int flags, unsigned stream, struct span payload)
{
	const unsigned char head[9] = { (unsigned char)(payload.len >> 16),
					(unsigned char)(payload.len >> 8),
					(unsigned char)payload.len,
					(unsigned char)type,
					(unsigned char)flags,
					0,
					0,
					0,
					(unsigned char)stream };

	buf_add(b, head, sizeof(head));
	if (payload.len)
		buf_add(b, payload.p, payload.len);
}

static void put_header(struct buf *b, const char *name, const char *value)
{
	buf_add_char(b, 0); /* a literal that is not indexed, with a name of its own */
	buf_add_char(b, (char)strlen(name));
	buf_add_str(b, name);
	buf_add_char(b, (char)strlen(value));
	buf_add_str(b, value);
}

/* SETTINGS, and a head with status 200 (entry 8 of the static table). */
static void put_greeting(struct buf *b, struct buf *head)
{
	put_frame(b, SETTINGS, 0, 0, (struct span){ 0 });
	buf_add_char(head, (char)0x88);
}

static void send_all(struct side *s, struct buf *b)
{
	rig_send(s->l, s->peer, buf_head(b), b->len);
}

TEST(an_answer_has_headers_a_body_and_trailers)
{
	autobuf b = { 0 }, head = { 0 }, trailers = { 0 };
	struct side s;

	side_init(&s);
	put_greeting(&b, &head);
	put_header(&head, "content-type", "application/grpc");
	put_header(&trailers, "grpc-status", "0");
	put_frame(&b, HEADERS, END_HEADERS, 1, (struct span){ buf_head(&head), head.len });
	put_frame(&b, DATA, 0, 1, SPAN("good "));
	put_frame(&b, DATA, 0, 1, SPAN("day"));
	put_frame(&b, HEADERS, END_HEADERS | END_STREAM, 1,
		  (struct span){ buf_head(&trailers), trailers.len });
	send_all(&s, &b);
	until(s.l, s.n_done);
	eq_int(s.status, 200);
	eq_str(s.trailer, "0");
	eq_str(s.body, "good day");
	side_done(&s);
}

TEST(an_answer_that_is_torn_or_no_http2_fails_the_call)
{
	static const unsigned char reset[4] = { 0, 0, 0, 2 }, goaway[8] = { 0 };
	const struct {
		const char *text;
		int type; /* of the frame; < 0: the text is all */
		struct span payload;
	} rows[] = {
		{ "HTTP/1.1 400 Bad Request\r\n\r\n", -1, { 0 } },
		{ "", -1, { 0 } },
		{ NULL, RST_STREAM, { (const char *)reset, sizeof(reset) } },
		{ NULL, GOAWAY, { (const char *)goaway, sizeof(goaway) } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf b = { 0 }, head = { 0 };
		struct side s;

		side_init(&s);
		if (rows[i].text) {
			buf_add_str(&b, rows[i].text);
		} else {
			put_greeting(&b, &head);
			put_frame(&b, rows[i].type, 0, rows[i].type == RST_STREAM, rows[i].payload);
		}
		if (b.len)
			send_all(&s, &b);
		(void)shutdown(s.peer, SHUT_WR);
		until(s.l, s.n_failed);
		eq_int(s.n_done, 0);
		side_done(&s);
	}
}

/* Whether we have to answer (PING) or not. */
TEST(a_peer_that_never_stops_is_cut_off)
{
	static const int types[] = { NO_SUCH, PING };

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		autobuf b = { 0 }, head = { 0 };
		struct side s;

		side_init(&s);
		put_greeting(&b, &head);
		while (b.len < 80 * 1024)
			put_frame(&b, types[i], 0, 0, SPAN("12345678"));
		(void)send(s.peer, buf_head(&b), b.len, MSG_NOSIGNAL);
		until(s.l, s.n_failed);
		if (types[i] == NO_SUCH)
			eq_int(s.code, ERR_TOO_LARGE);
		side_done(&s);
	}
}

TEST(an_answer_with_too_many_headers_fails_the_call)
{
	autobuf b = { 0 }, head = { 0 };
	struct side s;

	side_init(&s);
	put_greeting(&b, &head);
	for (size_t i = 0; i < 100; i++)
		put_header(&head, "a", "b");
	put_frame(&b, HEADERS, END_HEADERS, 1, (struct span){ buf_head(&head), head.len });
	send_all(&s, &b);
	until(s.l, s.n_failed);
	eq_int(s.code, ERR_TOO_LARGE);
	side_done(&s);
}
