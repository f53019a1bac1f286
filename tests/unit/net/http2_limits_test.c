/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "h2.h"
#include "net/http_server.h"
#include "test.h"

/* What a peer can make long, slow, numerous or wrong in HTTP/2, and where the server stops it. */
static void put_head(struct buf *head, const char *path)
{
	h2_put_field(head, ":method", "GET");
	h2_put_field(head, ":scheme", "http");
	h2_put_field(head, ":path", path);
	h2_put_field(head, ":authority", "a");
}

static void put_headers(struct buf *b, unsigned stream, int flags, const struct buf *head)
{
	h2_put(b, &(struct h2_frame){ H2_HEADERS, flags, stream, { buf_head(head), head->len } });
}

TEST(a_malformed_head_is_answered_400_or_resets_the_stream)
{
	static const struct {
		const char *fields[12];
		int status, reset;
	} rows[] = {
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a" },
		  200 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    "host", "A" },
		  200 },
		/* Two hosts, or none. */
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    "host", "b" },
		  400 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello" }, 0, 1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a b" },
		  0,
		  1 },
		/* Pseudo-headers: twice, missing, late, unknown. */
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":path", "/none",
		    ":authority", "a" },
		  0,
		  1 },
		{ { ":method", "GET", ":scheme", "http", ":authority", "a" }, 0, 1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", "x", "y", ":authority",
		    "a" },
		  0,
		  1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    ":status", "200" },
		  0,
		  1 },
		/* Targets. */
		{ { ":method", "GET", ":scheme", "http", ":path", "hello", ":authority", "a" },
		  0,
		  1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "*", ":authority", "a" }, 0, 1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/a#b", ":authority", "a" },
		  400 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/a\xc3\xa4", ":authority", "a" },
		  400 },
		{ { ":method", "GET", ":scheme", "http", ":path", "http://b/hello", ":authority",
		    "a" },
		  0,
		  1 },
		/* Methods. */
		{ { ":method", "CONNECT", ":authority", "a" }, 501 },
		{ { ":method", "NOPE", ":scheme", "http", ":path", "/hello", ":authority", "a" },
		  501 },
		/* Names and values. */
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    "X-Up", "y" },
		  0,
		  1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    "x y", "z" },
		  400 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a", "x",
		    "a\r\nb: c" },
		  400 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a", "x",
		    "\x7f" },
		  400 },
		/* What belongs to a connection. */
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    "connection", "close" },
		  0,
		  1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    "transfer-encoding", "chunked" },
		  0,
		  1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a", "te",
		    "gzip" },
		  0,
		  1 },
		/* Lengths: of a body that is not there, and no number. */
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    "content-length", "3" },
		  0,
		  1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    "content-length", "x" },
		  0,
		  1 },
		{ { ":method", "GET", ":scheme", "http", ":path", "/hello", ":authority", "a",
		    "expect", "else" },
		  417 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf b = { 0 }, head = { 0 };
		struct h2_verdict v;
		struct site s;

		site_init(&s, NULL);
		for (size_t j = 0; rows[i].fields[j]; j += 2)
			h2_put_field(&head, rows[i].fields[j], rows[i].fields[j + 1]);
		h2_put_greeting(&b);
		put_headers(&b, 1, H2_END_HEADERS | H2_END_STREAM, &head);
		v = h2_say(&s, &b);
		if (v.status != rows[i].status || (rows[i].reset && v.reset != rows[i].reset))
			fail_msg("row %zu: status %d, reset %d, goaway %d", i, v.status, v.reset,
				 v.goaway);
		eq_int(s.n_heads, v.status == 200);
		site_done(&s);
	}
}

/* The handler has the request by then. */
TEST(a_body_that_is_not_as_long_as_announced_resets_the_stream)
{
	static const char *const bodies[] = { "ab", "abcd" };

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		autobuf b = { 0 }, head = { 0 };
		struct h2_verdict v;
		struct site s;

		site_init(&s, NULL);
		put_head(&head, "/echo");
		h2_put_field(&head, "content-length", "3");
		h2_put_greeting(&b);
		put_headers(&b, 1, H2_END_HEADERS, &head);
		h2_put(&b, &(struct h2_frame){ H2_DATA, H2_END_STREAM, 1, SPAN(bodies[i]) });
		v = h2_say(&s, &b);
		eq_int(v.reset, NGHTTP2_PROTOCOL_ERROR);
		eq_int(s.n_ended, s.n_heads);
		site_done(&s);
	}
}

TEST(heads_over_the_limits_are_431_in_http2_too)
{
	struct http_limits limits = { .max_head = 300, .max_headers = 3 };
	char large[200];

	memset(large, 'x', sizeof(large));
	large[sizeof(large) - 1] = '\0';
	for (int i = 0; i < 3; i++) {
		autobuf b = { 0 }, head = { 0 };
		struct site s;

		site_init(&s, &limits);
		put_head(&head, "/hello");
		if (i == 1)
			h2_put_field(&head, "x", large);
		for (int j = 0; i == 2 && j < 4; j++)
			h2_put_field(&head, "x", "y");
		h2_put_greeting(&b);
		put_headers(&b, 1, H2_END_HEADERS | H2_END_STREAM, &head);
		eq_int(h2_say(&s, &b).status, i ? 431 : 200);
		eq_int(s.n_heads, i ? 0 : 1);
		site_done(&s);
	}
}

/* One byte stands for 4000 once they are in the table. */
TEST(a_head_that_swells_ends_the_connection)
{
	autobuf b = { 0 }, head = { 0 };
	char large[3900];
	struct site s;
	struct h2_verdict v;

	memset(large, 'x', sizeof(large));
	large[sizeof(large) - 1] = '\0';
	site_init(&s, NULL);
	put_head(&head, "/hello");
	h2_put_field(&head, "x", large);
	buf_head(&head)[head.len - 3902 - 3] = 0x40; /* put it into the table */
	for (int i = 0; i < 1000; i++)
		buf_add_char(&head, (char)(0x80 | 62));
	h2_put_greeting(&b);
	put_headers(&b, 1, H2_END_HEADERS | H2_END_STREAM, &head);
	v = h2_say(&s, &b);
	eq_int(v.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	eq_int(s.n_heads, 0);
	site_done(&s);
}

TEST(trailers_count_as_headers)
{
	autobuf b = { 0 }, head = { 0 }, trailers = { 0 };
	struct site s;

	site_init(&s, NULL);
	put_head(&head, "/echo");
	for (int i = 0; i < 101; i++)
		h2_put_field(&trailers, "x", "y");
	h2_put_greeting(&b);
	put_headers(&b, 1, H2_END_HEADERS, &head);
	put_headers(&b, 1, H2_END_HEADERS | H2_END_STREAM, &trailers);
	eq_int(h2_say(&s, &b).status, 431);
	site_done(&s);
}

TEST(bodies_over_the_limit_are_413_in_http2_too)
{
	char body[1001];

	memset(body, 'x', sizeof(body));
	for (int announced = 0; announced < 2; announced++) {
		autobuf b = { 0 }, head = { 0 };
		struct site s;

		site_init(&s, NULL);
		put_head(&head, "/echo");
		if (announced)
			h2_put_field(&head, "content-length", "1001");
		h2_put_greeting(&b);
		put_headers(&b, 1, H2_END_HEADERS, &head);
		h2_put(&b, &(struct h2_frame){ H2_DATA, H2_END_STREAM, 1, { body, sizeof(body) } });
		eq_int(h2_say(&s, &b).status, 413);
		site_done(&s);
	}
}

/* Before the peer has acknowledged the limit, its stream is refused; afterwards it knew. */
TEST(streams_have_a_limit)
{
	autobuf b = { 0 }, head = { 0 };
	struct site s;
	struct h2_verdict v;

	site_init(&s, NULL);
	put_head(&head, "/hold");
	h2_put_greeting(&b);
	for (unsigned i = 0; i < 129; i++)
		put_headers(&b, 2 * i + 1, H2_END_HEADERS | H2_END_STREAM, &head);
	v = h2_say(&s, &b);
	eq_int(v.reset, NGHTTP2_REFUSED_STREAM);
	eq_int(s.n_heads, 128);
	buf_clear(&b);
	h2_put(&b, &(struct h2_frame){ H2_SETTINGS, 1, 0, { 0 } });
	put_headers(&b, 2 * 129 + 1, H2_END_HEADERS | H2_END_STREAM, &head);
	v = h2_say(&s, &b);
	eq_int(v.goaway, NGHTTP2_PROTOCOL_ERROR);
	until(s.l, s.n_ended == 128);
	site_done(&s);
}

TEST(frames_that_bring_nothing_are_counted)
{
	static const char update[] = { 0, 0, 0, 1 }, priority[] = { 0, 0, 0, 0, 1 };
	static const struct h2_frame rows[] = {
		{ H2_SETTINGS, 0, 0, { 0 } },
		{ H2_PING, 0, 0, { "12345678", 8 } },
		{ H2_PING, 1, 0, { "12345678", 8 } },
		{ H2_PRIORITY, 0, 1, { priority, sizeof(priority) } },
		{ H2_WINDOW_UPDATE, 0, 0, { update, sizeof(update) } },
		{ H2_DATA, 0, 1, { 0 } },
		{ H2_DATA, 8, 1, { "\5\0\0\0\0\0", 6 } }, /* nothing but padding */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf b = { 0 }, head = { 0 };
		struct site s;

		site_init(&s, NULL);
		put_head(&head, "/stream");
		h2_put_greeting(&b);
		put_headers(&b, 1, H2_END_HEADERS, &head);
		for (int j = 0; j < 3000; j++)
			h2_put(&b, &rows[i]);
		if (h2_say(&s, &b).goaway != NGHTTP2_ENHANCE_YOUR_CALM)
			fail_msg("row %zu passes", i);
		until(s.l, s.n_ended == s.n_heads);
		site_done(&s);
	}
}

TEST(frames_that_bring_something_are_not_counted)
{
	struct site s;
	autobuf b = { 0 }, head = { 0 };

	site_init(&s, NULL);
	put_head(&head, "/stream");
	h2_put_greeting(&b);
	put_headers(&b, 1, H2_END_HEADERS, &head);
	for (int i = 0; i < 10000; i++)
		h2_put(&b, &(struct h2_frame){ H2_DATA, 0, 1, SPAN("x") });
	rig_send(s.l, s.fd, buf_head(&b), b.len);
	until(s.l, s.streamed.len == 10000);
	site_done(&s);
}

TEST(streams_that_are_refused_are_counted)
{
	autobuf b = { 0 }, head = { 0 };
	struct site s;

	site_init(&s, NULL);
	put_head(&head, "/hold");
	h2_put_greeting(&b);
	for (unsigned i = 1; i < 1200; i += 2)
		put_headers(&b, i, H2_END_HEADERS | H2_END_STREAM, &head);
	eq_int(h2_say_to_end(&s, &b).goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	site_done(&s);
}

/* By resetting them, and by making us reset them. */
TEST(streams_that_are_begun_and_reset_are_counted)
{
	static const char cancel[] = { 0, 0, 0, 8 }, none[] = { 0, 0, 0, 0 };
	static const char too_wide[] = { 0x7f, -1, -1, -1 };
	static const struct h2_frame rows[] = {
		{ H2_RST_STREAM, 0, 0, { cancel, sizeof(cancel) } },
		{ H2_RST_STREAM, 0, 0, { none, sizeof(none) } },
		{ H2_WINDOW_UPDATE, 0, 0, { too_wide, sizeof(too_wide) } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf b = { 0 }, head = { 0 };
		struct h2_frame f = rows[i];
		struct site s;

		site_init(&s, NULL);
		put_head(&head, "/hold");
		h2_put_greeting(&b);
		for (f.stream = 1; f.stream < 1200; f.stream += 2) {
			put_headers(&b, f.stream, H2_END_HEADERS | H2_END_STREAM, &head);
			h2_put(&b, &f);
			rig_send(s.l, s.fd, buf_head(&b), b.len);
			buf_clear(&b);
		}
		if (h2_say_to_end(&s, &b).goaway != NGHTTP2_ENHANCE_YOUR_CALM)
			fail_msg("row %zu passes", i);
		is_true(s.n_heads < 600);
		until(s.l, s.n_ended == s.n_heads);
		site_done(&s);
	}
}

TEST(a_head_in_endless_pieces_ends_the_connection)
{
	autobuf b = { 0 }, head = { 0 };
	struct site s;

	site_init(&s, NULL);
	put_head(&head, "/hello");
	h2_put_greeting(&b);
	put_headers(&b, 1, H2_END_STREAM, &head);
	for (int i = 0; i < 20; i++)
		h2_put(&b, &(struct h2_frame){ H2_CONTINUATION, 0, 1, { 0 } });
	eq_int(h2_say(&s, &b).goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	eq_int(s.n_heads, 0);
	site_done(&s);
}

TEST(acknowledgements_that_nobody_reads_end_the_connection)
{
	autobuf b = { 0 };
	struct site s;
	int small = 1;

	site_init(&s, NULL);
	(void)setsockopt(s.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	h2_put_greeting(&b);
	for (int i = 0; i < 1900; i++) /* not enough to count as chatter */
		h2_put(&b, &(struct h2_frame){ H2_PING, 0, 0, { "12345678", 8 } });
	for (int i = 0; i < 40 && http_server_conns(s.server); i++) {
		(void)send(s.fd, buf_head(&b), b.len, MSG_NOSIGNAL);
		loop_turn(s.l, 0);
	}
	until(s.l, !http_server_conns(s.server) || rig_at_end(s.l, s.fd));
	site_done(&s);
}

static int count_status(const struct h2 *c, int status)
{
	int n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += c->streams[i].status == status;
	return n;
}

/* Only bodies that handlers want whole are held without a window. */
TEST(bodies_that_are_held_have_a_limit_per_connection)
{
	enum {
		BODY = 3 * 1024 * 1024 - 1,
		N = 8,
	};
	autofree char *body = xmalloc(BODY);
	struct h2 *c = xnew(struct h2);
	struct site s;

	memset(body, 'x', BODY);
	site_init(&s, NULL);
	h2_init(c, &s);
	for (int i = 0; i < N; i++)
		h2_ask(c, &(struct h2_ask){ .method = "POST",
					    .path = "/whole",
					    .body = body,
					    .body_len = BODY,
					    .endless = true });
	h2_until(c, count_status(c, 503) >= 2);
	eq_int(s.n_ended, count_status(c, 503));
	h2_done(c);
	free(c);
	site_done(&s);
}

TEST(a_peer_that_reads_no_answers_gets_no_more)
{
	enum {
		BIG = 1024 * 1024,
	};
	autofree char *big = xmalloc(BIG);
	struct h2 *c = xnew(struct h2);
	struct site s;
	int n_refused = 0;

	memset(big, 'x', BIG);
	site_init(&s, NULL);
	s.big = big;
	s.big_len = BIG;
	c->deaf = true;
	h2_init(c, &s);
	for (int i = 0; i < 10; i++) {
		struct h2_stream *st = h2_get(c, "/big");

		h2_until(c, st->status || st->closed);
		n_refused += st->closed && st->code == NGHTTP2_REFUSED_STREAM;
	}
	eq_int(n_refused, 10 - 5); /* 4 MiB, and what the first window took */
	h2_done(c);
	free(c);
	site_done(&s);
}

TEST(a_slow_head_ends_the_connection)
{
	struct http_limits limits = { .head_ms = 40 };

	for (int greeted = 0; greeted < 2; greeted++) {
		autobuf b = { 0 }, head = { 0 };
		struct site s;

		site_init(&s, &limits);
		put_head(&head, "/hello");
		if (greeted) {
			h2_put_greeting(&b);
			put_headers(&b, 1, H2_END_STREAM, &head);
		} else {
			buf_add_str(&b, NGHTTP2_CLIENT_MAGIC);
		}
		eq_int(h2_say(&s, &b).goaway, NGHTTP2_ENHANCE_YOUR_CALM);
		site_done(&s);
	}
}

TEST(an_idle_http2_connection_times_out)
{
	struct http_limits limits = { .idle_ms = 40 };

	for (int asked = 0; asked < 2; asked++) {
		struct h2 *c = xnew(struct h2);
		struct site s;

		site_init(&s, &limits);
		h2_init(c, &s);
		if (asked) {
			const struct h2_stream *st = h2_get(c, "/hello");

			h2_until(c, st->closed);
		}
		h2_until(c, c->eof);
		eq_int(c->goaway, NGHTTP2_NO_ERROR);
		h2_done(c);
		free(c);
		site_done(&s);
	}
}

TEST(a_stuck_body_times_out_in_http2_too)
{
	struct http_limits limits = { .idle_ms = 40 };
	struct h2 *c = xnew(struct h2);
	struct h2_stream *held, *st;
	struct site s;

	site_init(&s, &limits);
	h2_init(c, &s);
	held = h2_get(c, "/hold");
	st = h2_ask(c, &(struct h2_ask){ .method = "POST", .path = "/echo", .endless = true });
	h2_until(c, st->closed);
	eq_int(st->status, 408);
	is_false(held->closed); /* a long answer is not idleness */
	h2_done(c);
	free(c);
	site_done(&s);
}

TEST(an_answer_that_nobody_reads_times_out)
{
	struct http_limits limits = { .idle_ms = 40 };
	struct h2 *c = xnew(struct h2);
	struct h2_stream *held, *st;
	char big[100 * 1024];
	struct site s;

	memset(big, 'x', sizeof(big));
	site_init(&s, &limits);
	s.big = big;
	s.big_len = sizeof(big);
	c->deaf = true;
	h2_init(c, &s);
	held = h2_get(c, "/hold");
	st = h2_get(c, "/big");
	h2_until(c, st->closed);
	is_false(st->ended);
	is_false(held->closed);
	h2_done(c);
	free(c);
	site_done(&s);
}

TEST(an_idle_http2_connection_makes_space)
{
	struct http_limits limits = { .max_conns = 1 };
	struct h2 *c = xnew(struct h2);
	const struct h2_stream *st;
	autofree char *answer = NULL;
	struct site s;
	int second;

	site_init(&s, &limits);
	h2_init(c, &s);
	st = h2_get(c, "/hello");
	h2_until(c, st->closed);
	st = h2_get(c, "/hold");
	h2_until(c, s.held);
	second = rig_connect(s.addr);
	rig_send_str(s.l, second, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	rig_settle(s.l);
	eq_int(s.n_heads, 2); /* it is busy: the newcomer waits */
	http_respond_text(s.held, 200, "done");
	h2_until(c, st->closed);
	answer = rig_read(s.l, second, "hello\n");
	is_true(rig_at_end(s.l, s.fd));
	(void)close(second);
	h2_done(c);
	free(c);
	site_done(&s);
}
