/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "h2.h"
#include "net/http2_peer_priv.h"
#include "net/http_client.h"
#include "net/stream.h"
#include "rig.h"
#include "site.h"
#include "test.h"

/* Exchanges of HTTP/2 with a site, or with a server that is the test itself and speaks by hand. */
enum {
	DEALS = 80
};

struct deal {
	struct http_exchange *x;
	int status, n_data, n_end, n_failed, n_drained;
	enum err_code why;
	struct buf body;
	char *sum; /* X-Sum in the trailers */
	bool pause_data;
};

struct side {
	struct loop *l;
	struct http_pool *pool;
	char addr[64];
	int listen_fd, fd;
	struct deal deals[DEALS];
};

static void on_head(void *arg, int status, unused struct http_headers *h)
{
	((struct deal *)arg)->status = status;
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct deal *d = arg;

	d->n_data++;
	buf_add(&d->body, data, len);
	if (d->pause_data)
		http_exchange_pause(d->x, true);
}

static void on_end(void *arg, struct http_headers *trailers)
{
	struct deal *d = arg;

	d->n_end++;
	d->x = NULL;
	d->sum = xstrdup(http_headers_get(trailers, "X-Sum"));
}

static void on_drained(void *arg)
{
	((struct deal *)arg)->n_drained++;
}

static void on_failed(void *arg, const struct err *e)
{
	struct deal *d = arg;

	d->n_failed++;
	d->why = err_code(e);
	d->x = NULL;
}

static struct deal *start(struct side *s, const char *method, const char *path, int64_t body_len)
{
	static const struct http_exchange_events events = { on_head, on_data, on_end, on_drained,
							    on_failed };
	struct http_headers h = { 0 };
	struct http_exchange_spec spec = { .version = 2,
					   .addr = s->addr,
					   .method = method,
					   .target = path,
					   .headers = &h,
					   .body_len = body_len };
	struct deal *d = s->deals;

	while (d->x || d->n_end || d->n_failed)
		d++;
	http_headers_add(&h, "Host", "there");
	http_headers_add(&h, "X-Bad", "a\r\nb");
	http_headers_add(&h, "Connection", "close");
	d->x = http_exchange_start(s->pool, &spec, &events, d);
	http_headers_done(&h);
	return d;
}

static void side_of_site(struct side *s, struct site *site, const struct http_limits *limits)
{
	site_init(site, limits);
	*s = (struct side){ .l = site->l, .listen_fd = -1, .fd = -1 };
	memcpy(s->addr, site->addr, sizeof(s->addr));
	s->pool = http_pool_new(s->l, NULL, 2);
}

static void side_by_hand(struct side *s)
{
	*s = (struct side){ .l = rig_loop(), .fd = -1 };
	works(net_listen("127.0.0.1:0", &s->listen_fd));
	works(net_local_addr(s->listen_fd, s->addr, sizeof(s->addr)));
	s->pool = http_pool_new(s->l, NULL, 2);
}

static void side_forget(struct side *s)
{
	for (struct deal *d = s->deals; d < s->deals + DEALS; d++) {
		if (d->x)
			http_exchange_cancel(d->x);
		buf_done(&d->body);
		free(d->sum);
	}
	http_pool_free(s->pool);
	if (s->fd >= 0)
		(void)close(s->fd);
}

static void side_done(struct side *s)
{
	side_forget(s);
	(void)close(s->listen_fd);
	rig_settle(s->l);
	loop_free(s->l);
}

static void side_done_with(struct side *s, struct site *site)
{
	side_forget(s);
	site_done(site);
}

static void accept_one(struct side *s)
{
	if (s->fd >= 0)
		(void)close(s->fd);
	s->fd = -1;
	until(s->l, (s->fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
}

static void say(struct side *s, int type, int flags, unsigned stream, struct span payload)
{
	autobuf b = { 0 };

	h2_put(&b, &(struct h2_frame){ type, flags, stream, payload });
	rig_send(s->l, s->fd, buf_head(&b), b.len);
}

/* Lets the client connect and greets it. */
static void greet(struct side *s, struct span settings)
{
	accept_one(s);
	say(s, H2_SETTINGS, 0, 0, settings);
}

static void say_head(struct side *s, unsigned stream, int flags)
{
	static const char ok[] = { (char)0x88 }; /* :status 200, of the static table */

	say(s, H2_HEADERS, H2_END_HEADERS | flags, stream, (struct span){ ok, sizeof(ok) });
}

/* True if the client says a frame of this type and stream, before or after others. */
static struct span hears(struct side *s, struct buf *in, int type, unsigned stream)
{
	usec end = clock_mono() + 10 * 1000000;

	while (clock_mono() < end) {
		char *room = buf_reserve(in, 65536);
		ssize_t n = recv(s->fd, room, 65536, 0);
		const unsigned char *p;

		if (n > 0)
			buf_wrote(in, (size_t)n);
		p = (const unsigned char *)buf_head(in);
		for (size_t i = memcmp(p, "PRI ", 4) ? 0 : 24; i + 9 <= in->len;) {
			size_t len = (size_t)p[i] << 16 | (size_t)p[i + 1] << 8 | p[i + 2];
			unsigned id = (unsigned)p[i + 5] << 24 | (unsigned)p[i + 6] << 16 |
				      (unsigned)p[i + 7] << 8 | p[i + 8];

			if (i + 9 + len > in->len)
				break;
			if (p[i + 3] == type && id == stream)
				return (struct span){ (const char *)p + i + 9, len };
			i += 9 + len;
		}
		loop_turn(s->l, 5);
	}
	fail_msg("no frame of type %d on stream %u", type, stream);
	return (struct span){ 0 };
}

TEST(h2_an_exchange_brings_a_body_there_and_an_answer_with_trailers_back)
{
	struct site site;
	struct side s;
	struct http_headers sum = { 0 };
	struct deal *d, *e, *f;

	side_of_site(&s, &site, NULL);
	d = start(&s, "GET", "/trailers", 0);
	until(s.l, d->n_end);
	eq_int(d->status, 200);
	eq_str(buf_str(&d->body), "body");
	eq_str(d->sum, "42");
	e = start(&s, "POST", "/stream", -1);
	http_exchange_write(e->x, "to ", 3); /* before there is a stream */
	until(s.l, site.held);
	http_exchange_write(e->x, "there", 5);
	http_headers_add(&sum, "X-Sum", "9");
	http_exchange_end_body(e->x, &sum);
	http_headers_done(&sum);
	until(s.l, site.n_body_ends);
	eq_str(buf_str(&site.streamed), "to there");
	eq_str(site.trailer, "9");
	http_respond_text(site.held, 200, "done");
	until(s.l, e->n_end);
	f = start(&s, "PUT", "/version", 4);
	http_exchange_write(f->x, "abcdTOO LONG", 12);
	http_exchange_end_body(f->x, NULL);
	until(s.l, f->n_end);
	eq_str(buf_str(&f->body), "version 2 length 4\n");
	eq_int(http_server_conns(site.server), 2); /* the site's own client, and ours */
	side_done_with(&s, &site);
}

TEST(h2_many_exchanges_share_a_connection_up_to_its_limit)
{
	struct site site;
	struct side s;
	struct deal *d = NULL;

	side_of_site(&s, &site, NULL);
	for (int i = 0; i < 64; i++)
		d = start(&s, "GET", "/hold", 0);
	until(s.l, site.n_heads == 64);
	eq_int(http_server_conns(site.server), 2);
	d = start(&s, "GET", "/hello", 0); /* there is no room for it there */
	until(s.l, d->n_end);
	eq_int(http_server_conns(site.server), 3);
	http_exchange_cancel(take(s.deals[0].x));
	until(s.l, site.n_ended == 2); /* with that of /hello */
	side_done_with(&s, &site);
}

TEST(h2_a_paused_answer_stops_its_sender_and_nobody_else)
{
	size_t big_len = 3 * 1024 * 1024;
	autofree char *big = xcalloc(1, big_len);
	struct site site;
	struct side s;
	struct deal *d, *e;

	side_of_site(&s, &site, NULL);
	site.big = big;
	site.big_len = big_len;
	d = start(&s, "GET", "/big", 0);
	d->pause_data = true;
	until(s.l, d->n_data == 1);
	rig_settle(s.l);
	e = start(&s, "GET", "/hello", 0);
	until(s.l, e->n_end);
	rig_settle(s.l);
	eq_int(d->n_data, 1);
	is_true(d->body.len <= 128 * 1024);
	d->pause_data = false;
	http_exchange_pause(d->x, false);
	until(s.l, d->n_end);
	eq_int(d->body.len, big_len);
	side_done_with(&s, &site);
}

TEST(h2_a_slow_server_slows_the_sender)
{
	autofree char *piece = xcalloc(1, 64 * 1024);
	struct site site;
	struct side s;
	struct deal *d;

	side_of_site(&s, &site, NULL);
	site.pause_pieces = true;
	d = start(&s, "POST", "/stream", -1);
	for (int i = 0; !http_exchange_full(d->x); i++) {
		http_exchange_write(d->x, piece, 64 * 1024);
		rig_settle(s.l);
		is_true(i < 100);
	}
	eq_int(d->n_drained, 0);
	site.pause_pieces = false;
	http_request_pause(site.held, false);
	until(s.l, d->n_drained);
	side_done_with(&s, &site);
}

TEST(h2_a_cancelled_exchange_resets_its_stream_alone)
{
	autobuf in = { 0 };
	struct span code;
	struct side s;
	struct deal *d, *e;

	side_by_hand(&s);
	d = start(&s, "POST", "/a", -1);
	e = start(&s, "GET", "/b", 0);
	greet(&s, (struct span){ 0 });
	(void)hears(&s, &in, H2_HEADERS, 3);
	http_exchange_write(d->x, "lost", 4);
	http_exchange_cancel(take(d->x));
	code = hears(&s, &in, H2_RST_STREAM, 1);
	eq_int(code.p[3], 8); /* CANCEL */
	say_head(&s, 3, H2_END_STREAM);
	until(s.l, e->n_end);
	eq_int(d->n_failed + d->n_end, 0);
	side_done(&s);
}

TEST(h2_a_server_may_take_fewer_streams_or_none)
{
	static const char one[] = { 0, 3, 0, 0, 0, 1 }, none[] = { 0, 3, 0, 0, 0, 0 };
	autobuf in = { 0 };
	struct side s;
	struct deal *d, *e;
	int first;

	side_by_hand(&s);
	d = start(&s, "GET", "/a", 0);
	e = start(&s, "GET", "/b", 0);
	greet(&s, (struct span){ one, sizeof(one) });
	(void)hears(&s, &in, H2_HEADERS, 1);
	first = take_fd(s.fd);
	greet(&s, (struct span){ none, sizeof(none) }); /* the second one looks elsewhere */
	until(s.l, e->n_failed);
	eq_int(e->why, ERR_UNAVAILABLE);
	(void)close(s.fd);
	s.fd = first;
	say_head(&s, 1, H2_END_STREAM);
	until(s.l, d->n_end);
	side_done(&s);
}

TEST(h2_what_a_server_has_not_looked_at_is_sent_again)
{
	static const char refused[] = { 0, 0, 0, 7 }, goaway[8] = { 0 };
	const struct {
		int type;
		struct span payload;
		const char *body;
		bool again;
	} rows[] = {
		{ H2_RST_STREAM, { refused, sizeof(refused) }, NULL, true },
		{ H2_GOAWAY, { goaway, sizeof(goaway) }, NULL, true },
		{ H2_RST_STREAM, { refused, sizeof(refused) }, "sent", false },
		{ H2_GOAWAY, { goaway, sizeof(goaway) }, "sent", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf in = { 0 }, more = { 0 };
		bool reset = rows[i].type == H2_RST_STREAM;
		struct side s;
		struct deal *d;

		side_by_hand(&s);
		d = start(&s, "POST", "/a", rows[i].body ? -1 : 0);
		if (rows[i].body)
			http_exchange_write(d->x, rows[i].body, strlen(rows[i].body));
		greet(&s, (struct span){ 0 });
		(void)hears(&s, &in, rows[i].body ? H2_DATA : H2_HEADERS, 1);
		say(&s, rows[i].type, 0, reset, rows[i].payload);
		if (rows[i].again && !reset)
			greet(&s, (struct span){ 0 });
		if (rows[i].again) {
			(void)hears(&s, reset ? &in : &more, H2_HEADERS, reset ? 3 : 1);
			say_head(&s, reset ? 3 : 1, H2_END_STREAM);
		}
		until(s.l, d->n_end || d->n_failed);
		eq_int(d->n_end, rows[i].again);
		side_done(&s);
	}
}

TEST(h2_a_request_that_changes_something_is_not_repeated)
{
	autobuf in = { 0 };
	struct side s;
	struct deal *d;

	side_by_hand(&s);
	d = start(&s, "GET", "/a", 0);
	greet(&s, (struct span){ 0 });
	(void)hears(&s, &in, H2_HEADERS, 1);
	say_head(&s, 1, H2_END_STREAM);
	until(s.l, d->n_end);
	d = start(&s, "POST", "/b", 0);
	(void)hears(&s, &in, H2_HEADERS, 3);
	(void)close(take_fd(s.fd));
	until(s.l, d->n_failed);
	eq_int(d->why, ERR_UNAVAILABLE);
	side_done(&s);
}

TEST(h2_a_connection_without_stream_ids_is_left)
{
	autobuf in = { 0 }, more = { 0 };
	struct http2_peer *p;
	struct side s;
	struct deal *last, *next;
	int first;

	side_by_hand(&s);
	last = start(&s, "GET", "/a", 0);
	greet(&s, (struct span){ 0 });
	(void)hears(&s, &in, H2_HEADERS, 1);
	say_head(&s, 1, H2_END_STREAM);
	until(s.l, last->n_end);
	p = list_first(&s.pool->idle_peers, struct http2_peer, idle);
	eq_int(nghttp2_session_set_next_stream_id(p->session, INT32_MAX), 0);
	last = start(&s, "GET", "/last", 0);
	next = start(&s, "POST", "/next", 0);
	(void)hears(&s, &in, H2_HEADERS, INT32_MAX);
	first = take_fd(s.fd);
	greet(&s, (struct span){ 0 });
	(void)hears(&s, &more, H2_HEADERS, 1);
	say_head(&s, 1, H2_END_STREAM);
	until(s.l, next->n_end);
	(void)close(s.fd);
	s.fd = first;
	say_head(&s, INT32_MAX, H2_END_STREAM); /* those that are there go on */
	until(s.l, last->n_end);
	side_done(&s);
}

TEST(h2_a_stale_connection_is_replaced_once)
{
	autobuf in = { 0 }, more = { 0 };
	struct side s;
	struct deal *d;

	side_by_hand(&s);
	d = start(&s, "GET", "/a", 0);
	greet(&s, (struct span){ 0 });
	(void)hears(&s, &in, H2_HEADERS, 1);
	say_head(&s, 1, H2_END_STREAM);
	until(s.l, d->n_end);
	d = start(&s, "GET", "/b", 0); /* before its end is noticed */
	greet(&s, (struct span){ 0 }); /* which this closes */
	(void)hears(&s, &more, H2_HEADERS, 1);
	say_head(&s, 1, H2_END_STREAM);
	until(s.l, d->n_end);
	side_done(&s);
}

TEST(h2_a_complete_answer_outlives_its_connection)
{
	autobuf in = { 0 };
	struct side s;
	struct deal *d;

	side_by_hand(&s);
	d = start(&s, "GET", "/a", 0);
	d->pause_data = true;
	greet(&s, (struct span){ 0 });
	(void)hears(&s, &in, H2_HEADERS, 1);
	say_head(&s, 1, 0);
	say(&s, H2_DATA, 0, 1, SPAN("abc"));
	until(s.l, d->n_data);
	say(&s, H2_DATA, H2_END_STREAM, 1, SPAN("def"));
	rig_settle(s.l);
	(void)close(take_fd(s.fd));
	rig_settle(s.l);
	eq_int(d->n_failed + d->n_end, 0);
	d->pause_data = false;
	http_exchange_pause(d->x, false);
	until(s.l, d->n_end);
	eq_str(buf_str(&d->body), "abcdef");
	side_done(&s);
}

TEST(h2_torn_answers_and_other_protocols_fail)
{
	static const char reset[] = { 0, 0, 0, 2 };
	static const struct {
		const char *text; /* instead of frames */
		bool head;
		int type; /* < 0: the connection ends */
		enum err_code why;
	} rows[] = {
		{ "HTTP/1.1 400 Bad Request\r\n\r\n", false, -1, ERR_MALFORMED },
		{ "", false, -1, ERR_UNAVAILABLE },
		{ NULL, false, H2_RST_STREAM, ERR_UNAVAILABLE },
		{ NULL, true, H2_RST_STREAM, ERR_UNAVAILABLE },
		{ NULL, true, -1, ERR_UNAVAILABLE },
		{ NULL, true, 5, ERR_MALFORMED }, /* a push, which is not allowed */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf in = { 0 };
		struct side s;
		struct deal *d;

		side_by_hand(&s);
		d = start(&s, "GET", "/a", 0);
		if (rows[i].text) {
			accept_one(&s);
			rig_send_str(s.l, s.fd, rows[i].text);
		} else {
			greet(&s, (struct span){ 0 });
			(void)hears(&s, &in, H2_HEADERS, 1);
		}
		if (rows[i].head)
			say_head(&s, 1, 0);
		if (rows[i].type < 0)
			(void)shutdown(s.fd, SHUT_WR);
		else
			say(&s, rows[i].type, H2_END_HEADERS, 1,
			    (struct span){ reset, sizeof(reset) });
		until(s.l, d->n_failed);
		eq_int(d->why, rows[i].why);
		eq_int(d->n_end, 0);
		side_done(&s);
	}
}

/* More than anybody needs of what costs the sender nothing. */
TEST(h2_a_server_that_floods_is_left)
{
	static const char zeros[4096];
	static const struct {
		int type;
		unsigned stream;
		struct span payload;
	} rows[] = {
		{ H2_PING, 0, { "12345678", 8 } },
		{ H2_SETTINGS, 0, { "", 0 } },
		{ H2_DATA, 1, { "", 0 } },
		{ H2_WINDOW_UPDATE, 0, { "\0\0\0\1", 4 } },
		{ H2_PRIORITY, 1, { "\0\0\0\0\1", 5 } },
		{ 0x42, 0, { zeros, sizeof(zeros) } }, /* of no known type */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf in = { 0 }, flood = { 0 };
		struct side s;
		struct deal *d;

		side_by_hand(&s);
		d = start(&s, "GET", "/a", 0);
		greet(&s, (struct span){ 0 });
		(void)hears(&s, &in, H2_HEADERS, 1);
		say_head(&s, 1, 0);
		for (int n = 0; n < 100; n++)
			h2_put(&flood, &(struct h2_frame){ rows[i].type, 0, rows[i].stream,
							   rows[i].payload });
		for (int n = 0; n < 1000 && !d->n_failed; n++) {
			char sink[4096];

			rig_send(s.l, s.fd, buf_head(&flood), flood.len);
			while (recv(s.fd, sink, sizeof(sink), 0) > 0)
				;
		}
		until(s.l, d->n_failed);
		side_done(&s);
	}
}

TEST(h2_heads_without_end_fail)
{
	autobuf many = { 0 }, interim = { 0 }, long_one = { 0 };
	char line[120];
	const struct buf *rows[] = { &many, &long_one, &interim };

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	buf_add_char(&many, (char)0x88);
	buf_add_char(&long_one, (char)0x88);
	for (int i = 0; i < 120; i++)
		h2_put_field(&many, "a", "b");
	for (int i = 0; i < 90; i++)
		h2_put_field(&long_one, "a", line);
	h2_put_field(&interim, ":status", "103");
	h2_put_field(&interim, "a", line);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf in = { 0 };
		struct side s;
		struct deal *d;

		side_by_hand(&s);
		d = start(&s, "GET", "/a", 0);
		greet(&s, (struct span){ 0 });
		(void)hears(&s, &in, H2_HEADERS, 1);
		for (int n = 0; n < 1000 && !d->n_failed; n++) {
			say(&s, H2_HEADERS, H2_END_HEADERS, 1,
			    (struct span){ buf_head(rows[i]), rows[i]->len });
			if (rows[i] != &interim)
				break;
		}
		if (rows[i] == &long_one) { /* it has a place, but its trailers have none */
			is_true(!d->n_failed);
			for (int n = 0; n < 10; n++)
				say(&s, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1,
				    (struct span){ buf_head(&long_one) + 1, long_one.len - 1 });
		}
		until(s.l, d->n_failed);
		eq_int(d->why, ERR_TOO_LARGE);
		side_done(&s);
	}
}

TEST(h2_continuations_without_end_fail)
{
	autobuf in = { 0 };
	struct side s;
	struct deal *d;

	side_by_hand(&s);
	d = start(&s, "GET", "/a", 0);
	greet(&s, (struct span){ 0 });
	(void)hears(&s, &in, H2_HEADERS, 1);
	say(&s, H2_HEADERS, 0, 1, SPAN("\x88"));
	for (int i = 0; i < 20 && !d->n_failed; i++)
		say(&s, H2_CONTINUATION, 0, 1, (struct span){ "", 0 });
	until(s.l, d->n_failed);
	side_done(&s);
}

TEST(h2_silence_has_an_end)
{
	struct http_exchange_spec spec = {
		.version = 2, .method = "GET", .target = "/a", .connect_ms = 30, .head_ms = 30
	};
	static const struct http_exchange_events events = { on_head, on_data, on_end, on_drained,
							    on_failed };

	for (int greets = 0; greets < 2; greets++) {
		struct side s;
		struct deal *d;

		side_by_hand(&s);
		d = s.deals;
		spec.addr = s.addr;
		spec.connect_ms = greets ? 0 : 30;
		d->x = http_exchange_start(s.pool, &spec, &events, d);
		accept_one(&s);
		if (greets)
			say(&s, H2_SETTINGS, 0, 0, (struct span){ 0 });
		until(s.l, d->n_failed);
		is_true(d->why == ERR_TIMEOUT || !greets);
		side_done(&s);
	}
}

TEST(h2_nobody_there_fails_later)
{
	struct side s;
	struct deal *d;

	side_by_hand(&s);
	(void)close(s.listen_fd);
	d = start(&s, "GET", "/a", 0);
	eq_int(d->n_failed, 0);
	until(s.l, d->n_failed);
	eq_int(d->why, ERR_UNAVAILABLE);
	d = start(&s, "GET", "/a b", 0);
	eq_int(d->n_failed, 0);
	until(s.l, d->n_failed);
	eq_int(d->why, ERR_INVALID);
	side_done(&s);
}

TEST(h2_exchanges_outlive_their_pool)
{
	autobuf in = { 0 };
	struct side s;
	struct deal *d;

	side_by_hand(&s);
	d = start(&s, "GET", "/a", 0);
	greet(&s, (struct span){ 0 });
	(void)hears(&s, &in, H2_HEADERS, 1);
	http_pool_free(take(s.pool));
	say_head(&s, 1, H2_END_STREAM);
	until(s.l, d->n_end);
	side_done(&s);
}

/* A server may have sent as much as the windows allow before it hears that nobody wants it. */
TEST(h2_what_was_under_way_to_cancelled_exchanges_harms_nobody)
{
	enum {
		STREAMS = 60,
		PIECE = 16 * 1024,
	};
	autofree char *piece = xcalloc(1, PIECE);
	autobuf in = { 0 };
	struct side s;
	struct deal *last;

	side_by_hand(&s);
	for (int i = 0; i < STREAMS; i++)
		(void)start(&s, "GET", "/a", 0);
	last = start(&s, "GET", "/b", 0);
	greet(&s, (struct span){ 0 });
	(void)hears(&s, &in, H2_HEADERS, 2 * STREAMS + 1);
	for (int i = 0; i < STREAMS; i++)
		http_exchange_cancel(take(s.deals[i].x));
	(void)hears(&s, &in, H2_RST_STREAM, 2 * STREAMS - 1);
	for (unsigned i = 0; i < STREAMS * 4; i++)
		say(&s, H2_DATA, 0, 2 * (i % STREAMS) + 1, (struct span){ piece, PIECE });
	say_head(&s, 2 * STREAMS + 1, H2_END_STREAM);
	until(s.l, last->n_end || last->n_failed);
	eq_int(last->n_end, 1);
	side_done(&s);
}
