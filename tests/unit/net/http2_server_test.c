/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "h2.h"
#include "net/conn.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "test.h"

/* HTTP/2 behind the same handlers as HTTP/1.1, with a client that is nghttp2's. */
struct pair {
	struct site s;
	struct h2 c;
};

static void pair_init(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	site_init(&p->s, NULL);
	h2_init(&p->c, &p->s);
}

static void pair_done(struct pair *p)
{
	h2_done(&p->c);
	site_done(&p->s);
}

static void answers(struct h2 *c, struct h2_stream *st, int status, const char *body)
{
	h2_until(c, st->closed);
	eq_int(st->status, status);
	eq_str(buf_str(&st->body), body);
	is_true(st->ended);
}

TEST(a_client_that_begins_with_the_preface_speaks_http2)
{
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	st = h2_get(&p.c, "/version?x=1");
	answers(&p.c, st, 200, "version 2 length 0\n");
	eq_str(http_headers_get(&st->headers, "content-type"), "text/plain; charset=utf-8");
	eq_str(http_headers_get(&st->headers, "content-length"), "19");
	is_true(http_headers_get(&st->headers, "date") != NULL);
	eq_int(p.s.n_ended, 1);
	eq_int(http_server_conns(p.s.server), 1);
	pair_done(&p);
}

TEST(a_preface_in_pieces_is_one)
{
	struct site s;
	autobuf b = { 0 }, head = { 0 };

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "PRI * HT");
	rig_settle(s.l);
	buf_add_str(&b, "TP/2.0\r\n\r\nSM\r\n\r\n");
	h2_put(&b, &(struct h2_frame){ .type = H2_SETTINGS });
	h2_put_field(&head, ":method", "GET");
	h2_put_field(&head, ":scheme", "http");
	h2_put_field(&head, ":path", "/hello");
	h2_put_field(&head, "host", "a");
	h2_put(&b, &(struct h2_frame){ H2_HEADERS,
				       H2_END_HEADERS | H2_END_STREAM,
				       1,
				       { buf_head(&head), head.len } });
	eq_int(h2_say(&s, &b).status, 200);
	site_done(&s);
}

TEST(a_server_that_is_not_asked_for_http2_speaks_http1_alone)
{
	static const struct http_handler nobody = { NULL };
	const struct http_server_spec spec = { .handler = &nobody };
	autoptr(http_server) server = NULL;
	struct loop *l = rig_loop();
	autofree char *answer = NULL;
	int fd[2];

	works(http_server_start(l, -1, &spec, &server));
	rig_pair(fd);
	http_server_adopt(server, stream_plain(fd[0]), "test");
	rig_send_str(l, fd[1], NGHTTP2_CLIENT_MAGIC);
	answer = rig_read(l, fd[1], NULL);
	is_true(site_status(answer) >= 400);
	http_server_free(take(server));
	(void)close(fd[1]);
	rig_settle(l);
	loop_free(l);
}

TEST(requests_side_by_side_are_answered_in_any_order)
{
	struct pair p;
	struct h2_stream *held, *quick;
	struct http_request *r;

	pair_init(&p);
	held = h2_get(&p.c, "/hold");
	h2_until(&p.c, p.s.held);
	r = p.s.held;
	quick = h2_get(&p.c, "/hello");
	answers(&p.c, quick, 200, "hello\n");
	is_false(held->closed);
	http_respond_text(r, 404, "no");
	answers(&p.c, held, 404, "no\n");
	pair_done(&p);
}

TEST(the_authority_is_the_host)
{
	struct pair p;

	pair_init(&p);
	answers(&p.c, h2_get(&p.c, "/host"), 200, "a.example\n");
	pair_done(&p);
}

TEST(cookies_are_joined_as_http1_has_them)
{
	static const char *const headers[] = { "cookie", "a=1", "x", "y", "cookie", "b=2", NULL };
	struct pair p;

	pair_init(&p);
	answers(&p.c, h2_ask(&p.c, &(struct h2_ask){ .path = "/cookie", .headers = headers }), 200,
		"a=1; b=2\n");
	pair_done(&p);
}

TEST(bodies_come_whole_or_in_pieces)
{
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	st = h2_ask(&p.c, &(struct h2_ask){ .method = "POST", .path = "/echo", .body = "ab" });
	answers(&p.c, st, 200, "ab");
	st = h2_ask(&p.c, &(struct h2_ask){ .method = "POST", .path = "/stream", .endless = true });
	h2_until(&p.c, p.s.held);
	h2_more(&p.c, st, "one ", false);
	h2_until(&p.c, p.s.streamed.len == 4);
	eq_int(p.s.n_body_ends, 0);
	st->sum = "17";
	h2_more(&p.c, st, "two", true);
	h2_until(&p.c, p.s.n_body_ends);
	eq_str(buf_str(&p.s.streamed), "one two");
	eq_str(p.s.trailer, "17");
	/* The end of a body is not the end of the request. */
	eq_int(p.s.n_ended, 1);
	http_respond_text(p.s.held, 200, "thanks");
	answers(&p.c, st, 200, "thanks\n");
	pair_done(&p);
}

TEST(an_unknown_length_is_told_as_such)
{
	static const char *const length[] = { "content-length", "2", NULL };
	struct pair p;

	pair_init(&p);
	answers(&p.c, h2_ask(&p.c, &(struct h2_ask){ .path = "/version", .endless = true }), 200,
		"version 2 length -1\n");
	answers(&p.c,
		h2_ask(&p.c,
		       &(struct h2_ask){ .path = "/version", .headers = length, .body = "ab" }),
		200, "version 2 length 2\n");
	/* Its head and its end arrive together. */
	answers(&p.c,
		h2_ask(&p.c,
		       &(struct h2_ask){ .path = "/version", .method = "POST", .body = "ab" }),
		200, "version 2 length -1\n");
	pair_done(&p);
}

TEST(an_answer_has_trailers)
{
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	st = h2_get(&p.c, "/trailers");
	answers(&p.c, st, 200, "body");
	eq_str(http_headers_get(&st->trailers, "x-sum"), "42");
	eq_int(st->trailers.n, 1);
	pair_done(&p);
}

TEST(http1_has_trailers_for_those_who_ask)
{
	struct site s;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
	site_expect(&s, "4\r\nbody\r\n0\r\nX-Sum: 42\r\n\r\n");
	rig_send_str(s.l, s.fd, "GET /trailers HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "4\r\nbody\r\n0\r\n\r\n");
	rig_send_str(s.l, s.fd,
		     "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "2\r\nab\r\n0\r\nx-sum: 17\r\n\r\n");
	until(s.l, s.n_body_ends);
	eq_str(s.trailer, "17");
	http_respond_text(s.held, 200, "ok");
	site_done(&s);
}

TEST(head_requests_and_empty_answers_have_no_body)
{
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	st = h2_ask(&p.c, &(struct h2_ask){ .method = "HEAD", .path = "/hello" });
	answers(&p.c, st, 200, "");
	eq_str(http_headers_get(&st->headers, "content-length"), "6");
	st = h2_get(&p.c, "/none");
	answers(&p.c, st, 204, "");
	is_true(!http_headers_get(&st->headers, "content-length"));
	pair_done(&p);
}

TEST(headers_of_a_handler_that_concern_a_connection_are_left_out)
{
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	http_headers_add(&p.s.extra, "Connection", "close");
	http_headers_add(&p.s.extra, "Transfer-Encoding", "chunked");
	http_headers_add(&p.s.extra, "Content-Length", "99");
	http_headers_add(&p.s.extra, "X-Bad", "a\r\nb: c");
	http_headers_add(&p.s.extra, "X-Good", "Yes");
	st = h2_get(&p.c, "/hello");
	answers(&p.c, st, 200, "hello\n");
	eq_str(http_headers_get(&st->headers, "x-good"), "Yes");
	eq_str(http_headers_get(&st->headers, "content-length"), "6");
	eq_int(st->headers.n, 4); /* those, a date and a type */
	pair_done(&p);
}

TEST(an_upgrade_is_not_implemented)
{
	struct pair p;

	pair_init(&p);
	answers(&p.c, h2_get(&p.c, "/upgrade"), 501, "Not Implemented\n");
	is_true(!p.s.upgraded);
	eq_int(p.s.n_ended, 1);
	pair_done(&p);
}

TEST(a_client_that_waits_for_permission_gets_it)
{
	static const char *const headers[] = { "expect", "100-continue", NULL };
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	st = h2_ask(&p.c, &(struct h2_ask){ .method = "POST",
					    .path = "/echo",
					    .headers = headers,
					    .endless = true });
	h2_until(&p.c, st->status == 100);
	h2_more(&p.c, st, "now", true);
	answers(&p.c, st, 200, "now");
	pair_done(&p);
}

TEST(a_body_that_is_not_read_stops_its_sender_and_no_other)
{
	enum {
		LEN = 1024 * 1024,
	};
	autofree char *body = xmalloc(LEN);
	struct pair p;
	struct h2_stream *st;
	struct http_request *r;
	struct h2_ask ask = { .method = "POST", .path = "/stream", .body = body, .body_len = LEN };

	memset(body, 'x', LEN);
	pair_init(&p);
	p.s.pause_pieces = true;
	st = h2_ask(&p.c, &ask);
	h2_until(&p.c, p.s.held && p.s.streamed.len);
	r = p.s.held;
	for (int i = 0; i < 50; i++)
		h2_turn(&p.c);
	/* What is not sent is more than what the window of a stream and the first piece allow. */
	is_true(st->out.len > LEN / 2);
	answers(&p.c,
		h2_ask(&p.c, &(struct h2_ask){ .method = "POST", .path = "/echo", .body = "ab" }),
		200, "ab");
	p.s.pause_pieces = false;
	http_request_pause(r, false);
	h2_until(&p.c, p.s.n_body_ends);
	eq_int(p.s.streamed.len, LEN);
	http_respond_text(r, 200, "ok");
	answers(&p.c, st, 200, "ok\n");
	pair_done(&p);
}

static void count_drained(void *owner)
{
	((struct site *)owner)->n_drained++;
}

TEST(an_answer_that_is_not_read_is_full_and_stops_no_other)
{
	char piece[16384];
	struct pair p;
	struct h2_stream *slow;
	struct http_request *r;
	size_t wrote = 0;

	memset(piece, 'y', sizeof(piece));
	pair_init(&p);
	p.c.deaf = true;
	slow = h2_get(&p.c, "/hold");
	h2_until(&p.c, p.s.held);
	r = p.s.held;
	http_respond_on_drain(r, count_drained);
	http_respond_start(r, 200, NULL, -1);
	while (!http_respond_full(r) && wrote < 10 * 1024 * 1024) {
		http_respond_write(r, piece, sizeof(piece));
		wrote += sizeof(piece);
	}
	eq_int(wrote, 256 * 1024);
	for (int i = 0; i < 20; i++)
		h2_turn(&p.c);
	eq_int(slow->body.len, 65535); /* the window that every client has */
	eq_int(p.s.n_drained, 0);
	/* An answer of no bytes needs no window. */
	answers(&p.c, h2_get(&p.c, "/none"), 204, "");
	(void)nghttp2_session_set_local_window_size(p.c.session, 0, 0, 1 << 20);
	answers(&p.c, h2_get(&p.c, "/hello"), 200, "hello\n");
	(void)nghttp2_session_set_local_window_size(p.c.session, 0, slow->id, 1 << 20);
	h2_until(&p.c, p.s.n_drained == 1);
	http_respond_end(r);
	h2_until(&p.c, slow->closed);
	eq_int(slow->body.len, wrote);
	pair_done(&p);
}

TEST(a_reset_by_the_peer_ends_the_request)
{
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	st = h2_get(&p.c, "/hold");
	h2_until(&p.c, p.s.held);
	(void)nghttp2_submit_rst_stream(p.c.session, 0, st->id, NGHTTP2_CANCEL);
	h2_until(&p.c, p.s.n_ended == 1);
	answers(&p.c, h2_get(&p.c, "/hello"), 200, "hello\n");
	pair_done(&p);
}

TEST(a_peer_that_leaves_ends_all_its_requests)
{
	struct pair p;

	pair_init(&p);
	h2_get(&p.c, "/hold");
	h2_get(&p.c, "/hold");
	h2_until(&p.c, p.s.n_heads == 2);
	(void)shutdown(p.s.fd, SHUT_RDWR);
	until(p.s.l, p.s.n_ended == 2);
	until(p.s.l, !http_server_conns(p.s.server));
	pair_done(&p);
}

TEST(an_aborted_answer_resets_its_stream_alone)
{
	struct pair p;
	struct h2_stream *st, *other;
	struct http_request *first;

	pair_init(&p);
	other = h2_get(&p.c, "/hold");
	h2_until(&p.c, p.s.held);
	first = p.s.held;
	st = h2_get(&p.c, "/hold");
	h2_until(&p.c, p.s.held != first);
	http_respond_start(p.s.held, 200, NULL, -1);
	http_respond_write(p.s.held, "torn", 4);
	http_respond_abort(p.s.held);
	h2_until(&p.c, st->closed);
	is_false(st->ended);
	eq_int(st->code, NGHTTP2_INTERNAL_ERROR);
	eq_int(p.s.n_ended, 1);
	http_respond_text(first, 200, "whole");
	answers(&p.c, other, 200, "whole\n");
	pair_done(&p);
}

TEST(a_body_that_an_answer_did_not_wait_for_is_not_read_on)
{
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	st = h2_ask(&p.c, &(struct h2_ask){ .method = "POST", .path = "/hello", .endless = true });
	answers(&p.c, st, 200, "hello\n");
	eq_int(st->code, NGHTTP2_NO_ERROR);
	pair_done(&p);
}

TEST(an_early_answer_can_be_read_before_its_stream_is_closed)
{
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	st = h2_ask(&p.c, &(struct h2_ask){ .method = "POST", .path = "/hello", .endless = true });
	h2_until(&p.c, st->ended);
	is_false(st->closed);
	h2_more(&p.c, st, "the rest", true);
	h2_until(&p.c, st->closed);
	answers(&p.c, st, 200, "hello\n");
	eq_int(st->code, NGHTTP2_NO_ERROR);
	pair_done(&p);
}

TEST(what_follows_an_early_answer_takes_no_window_from_others)
{
	static char much[64 * 1024];
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	memset(much, 'x', sizeof(much) - 1);
	for (int i = 0; i < 40; i++) { /* more than the window of the connection */
		st = h2_ask(&p.c, &(struct h2_ask){
					  .method = "POST", .path = "/hello", .endless = true });
		h2_until(&p.c, st->ended);
		h2_more(&p.c, st, much, true);
		h2_until(&p.c, st->closed);
		eq_int(st->out.len, 0);
		answers(&p.c, st, 200, "hello\n");
	}
	pair_done(&p);
}

TEST(stopping_lets_current_requests_end)
{
	struct pair p;
	struct h2_stream *st;

	pair_init(&p);
	st = h2_get(&p.c, "/hold");
	h2_until(&p.c, p.s.held);
	http_server_stop_accepting(p.s.server);
	h2_until(&p.c, p.c.goaway == NGHTTP2_NO_ERROR);
	is_false(p.c.eof);
	http_respond_text(p.s.held, 200, "last");
	answers(&p.c, st, 200, "last\n");
	h2_until(&p.c, p.c.eof);
	(void)close(p.s.fd);
	p.s.fd = -1;
	until(p.s.l, !http_server_conns(p.s.server));
	pair_done(&p);
}

TEST(a_server_may_be_freed_while_requests_are_open)
{
	struct pair p;

	pair_init(&p);
	h2_get(&p.c, "/hold");
	h2_get(&p.c, "/stream");
	h2_until(&p.c, p.s.n_heads == 2);
	http_server_free(take(p.s.server));
	eq_int(p.s.n_ended, 2);
	pair_done(&p);
}

TEST(an_answer_with_headers_that_fit_no_frame_is_reset)
{
	autofree char *large = xmalloc(70 * 1024);
	struct pair p;
	struct h2_stream *st;

	memset(large, 'z', 70 * 1024);
	large[70 * 1024 - 1] = '\0';
	pair_init(&p);
	http_headers_add(&p.s.extra, "X-Large", large);
	st = h2_get(&p.c, "/hello");
	h2_until(&p.c, st->closed);
	eq_int(st->code, NGHTTP2_INTERNAL_ERROR);
	pair_done(&p);
}
