/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include "net/conn.h"
#include "net/stream.h"
#include "rig.h"
#include "site.h"
#include "test.h"

static void on_drain(void *owner)
{
	((struct site *)owner)->n_drained++;
}

TEST(a_request_is_answered_and_the_connection_kept)
{
	struct site s;
	autofree char *first = NULL, *second = NULL;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /hello?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
	first = rig_read(s.l, s.fd, "hello\n");
	is_true(strstr(first, "HTTP/1.1 200 OK\r\n") == first);
	is_true(strstr(first, "Content-Length: 6\r\n") &&
		strstr(first, "Content-Type: text/plain\r\n"));
	is_true(strstr(first, "\r\nDate: ") && !strstr(first, "Connection:"));
	rig_send_str(s.l, s.fd, "GET /query?a=b&c HTTP/1.1\r\nHost: a\r\n\r\n");
	second = rig_read(s.l, s.fd, "a=b&c\n");
	eq_int(s.n_heads, 2);
	eq_int(s.n_ended, 2);
	eq_int(http_server_conns(s.server), 1);
	site_done(&s);
}

/* Heads that could be framed in two ways, or parsed differently by two programs. */
TEST(ambiguous_heads_are_rejected)
{
	static const struct {
		const char *head;
		int status;
	} rows[] = {
		{ "GET /hello HTTP/1.1\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\nHost: a\n\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\nX: 1\rY: 2\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\nX y: 1\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\n Host: a\r\n\r\n", 400 },
		{ " GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
		{ "GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
		{ "GET /hello  HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
		{ "GET /hello\r\nHost: a\r\n\r\n", 400 },
		{ "GET hello HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
		{ "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
		{ "GET /hello#x HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
		{ "GET ftp://a/hello HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
		{ "GET /hello HTTP/2.0\r\nHost: a\r\n\r\n", 505 },
		{ "GET /hello HTTP/0.9\r\nHost: a\r\n\r\n", 505 },
		{ "GET /hello HTTP/1.2\r\nHost: a\r\n\r\n", 400 },
		{ "NONSENSE /hello HTTP/1.1\r\nHost: a\r\n\r\n", 501 },
		{ "get /hello HTTP/1.1\r\nHost: a\r\n\r\n", 501 },
		{ "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501 },
		{ "\x16\x03\x01\x02\r\n\r\n", 400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", 400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", 400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nx", 400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\nx", 400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\nx", 400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\nx", 400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nx",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: "
		  "chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", 400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0b"
		  "chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 1\r\n\r\nx",
		  417 },
		/* Chunks that parsers disagree on. */
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n 1\r\nx\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;\nx\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		  "11111111111111111\r\nx\r\n0\r\n\r\n",
		  400 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct site s;
		autofree char *answer = NULL;

		site_init(&s, NULL);
		rig_send_str(s.l, s.fd, rows[i].head);
		answer = rig_read(s.l, s.fd, "\r\n\r\n");
		if (site_status(answer) != rows[i].status || strstr(answer, "hello\n"))
			fail_msg("row %zu \"%s\" answered \"%s\"", i, rows[i].head, answer);
		is_true(strstr(answer, "Content-Type: text/plain") &&
			strstr(answer, "Connection: close"));
		site_done(&s);
	}
}

TEST(unusual_but_unambiguous_heads_are_served)
{
	static const char *const heads[] = {
		"\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /hello HTTP/1.1\r\nhOST:a\r\nX:\r\nY: \t z \t\r\n\r\n",
		"GET /hello HTTP/1.0\r\n\r\n",
		"GET http://b:80/hello HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /hello HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 0\r\n\r\n",
		"GET /hello HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
		"DELETE /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxx",
	};

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct site s;

		site_init(&s, NULL);
		rig_send_str(s.l, s.fd, heads[i]);
		site_expect(&s, "hello\n");
		site_done(&s);
	}
}

TEST(a_target_with_a_host_overrides_the_header)
{
	struct site s;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET http://real/host HTTP/1.1\r\nHost: other\r\n\r\n");
	site_expect(&s, "real\n");
	site_done(&s);
}

TEST(heads_may_come_a_byte_at_a_time)
{
	static const char text[] =
		"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n";
	struct site s;

	site_init(&s, NULL);
	for (size_t i = 0; i + 1 < sizeof(text); i++)
		rig_send(s.l, s.fd, &text[i], 1);
	site_expect(&s, "abcde");
	site_done(&s);
}

TEST(pipelined_requests_are_answered_in_order)
{
	struct site s;

	site_init(&s, NULL);
	rig_send_str(
		s.l, s.fd,
		"GET /query?1 HTTP/1.1\r\nHost: a\r\n\r\nGET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbodyGET /query?3 HTTP/1.1\r\nHost: "
		"a\r\n\r\n");
	site_expect(&s, "1\n");
	until(s.l, s.held);
	rig_settle(s.l);
	eq_int(s.n_heads, 2); /* the third is not read before the second is answered */
	http_respond_text(s.held, 200, "held");
	site_expect(&s, "held\n");
	until(s.l, s.n_heads == 4);
	site_done(&s);
}

TEST(a_request_to_close_is_obeyed)
{
	static const struct {
		const char *head;
		const char *line; /* in the answer */
		bool closes;
	} rows[] = {
		{ "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		  "Connection: close\r\n", true },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n",
		  "Connection: close\r\n", true },
		{ "GET /hello HTTP/1.0\r\nHost: a\r\n\r\n", "Connection: close\r\n", true },
		{ "GET /hello HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
		  "Connection: keep-alive\r\n", false },
		{ "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "hello", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct site s;
		autofree char *answer = NULL;

		site_init(&s, NULL);
		rig_send_str(s.l, s.fd, rows[i].head);
		answer = rig_read(s.l, s.fd, "hello\n");
		is_true(strstr(answer, rows[i].line) != NULL);
		if (rows[i].closes)
			is_true(rig_at_end(s.l, s.fd));
		else
			eq_int(http_server_conns(s.server), 1);
		site_done(&s);
	}
}

TEST(a_connection_of_one_request_ends_with_it)
{
	const struct http_limits one = { .one_request = true };
	autofree char *answer = NULL;
	struct site s;

	site_init(&s, &one);
	rig_send_str(s.l, s.fd,
		     "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"
		     "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	answer = rig_read(s.l, s.fd, "hello\n");
	is_true(strstr(answer, "Connection: close\r\n") != NULL);
	is_true(rig_at_end(s.l, s.fd));
	eq_int(s.n_heads, 1);
	site_done(&s);
}

TEST(head_requests_get_no_body)
{
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, NULL);
	rig_send_str(
		s.l, s.fd,
		"HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n");
	answer = rig_read(s.l, s.fd, "204 No Content\r\n");
	is_true(strstr(answer, "Content-Length: 6\r\n") != NULL);
	is_false(strstr(answer, "hello"));
	is_false(strstr(strstr(answer, "204"), "Content-Length"));
	site_done(&s);
}

TEST(permission_to_send_a_body_is_given_only_if_it_is_wanted)
{
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, NULL);
	rig_send_str(
		s.l, s.fd,
		"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	site_expect(&s, "HTTP/1.1 100 Continue\r\n\r\n");
	rig_send_str(s.l, s.fd, "abc");
	site_expect(&s, "abc");
	rig_send_str(
		s.l, s.fd,
		"POST /hello HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	answer = rig_read(s.l, s.fd,
			  NULL); /* the body may or may not follow, so the connection is closed */
	is_true(site_status(answer) == 200 && strstr(answer, "Connection: close"));
	site_done(&s);
}

TEST(a_peer_that_leaves_ends_its_request)
{
	struct site s;
	struct http_request *r;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	r = http_request_ref(s.held);
	(void)shutdown(s.fd, SHUT_RDWR);
	until(s.l, s.n_ended == 1);
	http_respond_text(r, 200, "to nobody"); /* harmless */
	http_respond_start(r, 200, NULL, -1);
	http_respond_write(r, "x", 1);
	http_respond_end(r);
	is_true(http_request_conn_stream(r) == NULL);
	eq_str(http_request_path(r), "/hold");
	rig_settle(s.l);
	eq_int(s.n_ended, 1);
	http_request_unref(r);
	eq_int(http_server_conns(s.server), 0);
	site_done(&s);
}

TEST(a_peer_that_leaves_in_the_middle_of_its_body_ends_its_request)
{
	struct site s;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
	until(s.l, s.n_heads == 1);
	(void)shutdown(s.fd, SHUT_RDWR);
	until(s.l, s.n_ended == 1);
	site_done(&s);
}

TEST(a_half_closing_peer_still_gets_a_prompt_answer)
{
	struct site s;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	(void)shutdown(s.fd, SHUT_WR);
	site_expect(&s, "hello\n");
	is_true(rig_at_end(s.l, s.fd));
	site_done(&s);
}

TEST(answers_come_in_chunks)
{
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	http_respond_start(s.held, 200, NULL, -1);
	http_respond_write(s.held, "0123456789abcdef", 16);
	http_respond_write(s.held, "", 0); /* would be read as the end */
	http_respond_write(s.held, "x", 1);
	http_respond_end(s.held);
	answer = rig_read(s.l, s.fd, "\r\n0\r\n\r\n");
	is_true(strstr(answer, "Transfer-Encoding: chunked\r\n") != NULL);
	is_true(strstr(answer, "\r\n\r\n10\r\n0123456789abcdef\r\n1\r\nx\r\n0\r\n\r\n") != NULL);
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "hello\n");
	site_done(&s);
}

TEST(an_old_client_gets_an_answer_that_ends_with_the_connection)
{
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	until(s.l, s.held);
	http_respond_start(s.held, 200, NULL, -1);
	http_respond_write(s.held, "plain", 5);
	http_respond_end(s.held);
	answer = rig_read(s.l, s.fd, NULL);
	is_true(strstr(answer, "Connection: close\r\n") && strstr(answer, "\r\n\r\nplain"));
	is_false(strstr(answer, "chunked"));
	site_done(&s);
}

TEST(an_answer_cannot_be_longer_or_shorter_than_it_said)
{
	struct site s;
	autofree char *answer = NULL, *torn = NULL;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	http_respond_start(s.held, 200, NULL, 3);
	http_respond_write(s.held, "abcdef", 6);
	http_respond_end(s.held);
	answer = rig_read(s.l, s.fd, "abc");
	until(s.l, s.n_ended == 1);

	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	http_respond_start(s.held, 200, NULL, 3);
	http_respond_write(s.held, "ab", 2);
	http_respond_end(s.held);
	torn = rig_read(s.l, s.fd, NULL);
	is_false(strstr(torn, "abc"));
	eq_int(s.n_ended, 2);
	site_done(&s);
}

TEST(headers_cannot_be_forged_through_values)
{
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, NULL);
	http_headers_add(&s.extra, "X-Good", "yes");
	http_headers_add(&s.extra, "X-Bad", "1\r\nX-Forged: 1");
	http_headers_add(&s.extra, "X-Worse\r\nX-Forged", "1");
	http_headers_add(&s.extra, "Content-Length", "999");
	http_headers_add(&s.extra, "Transfer-Encoding", "chunked");
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	answer = rig_read(s.l, s.fd, "hello\n");
	is_true(strstr(answer, "X-Good: yes\r\n") != NULL);
	is_false(strstr(answer, "X-Forged") || strstr(answer, "999") || strstr(answer, "chunked"));
	site_done(&s);
}

TEST(a_body_streams_with_pauses)
{
	struct site s;

	site_init(&s, NULL);
	s.pause_pieces = true;
	rig_send_str(s.l, s.fd,
		     "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.streamed.len);
	rig_settle(s.l);
	eq_str(buf_str(&s.streamed), "abc");
	http_request_pause(s.held, false);
	until(s.l, s.streamed.len == 6);
	eq_int(s.n_body_ends, 0);
	http_request_pause(s.held, false);
	until(s.l, s.n_body_ends == 1);
	eq_str(buf_str(&s.streamed), "abcdef");
	http_respond_text(s.held, 200, "took it");
	site_expect(&s, "hello\n");
	site_done(&s);
}

TEST(a_body_paused_until_the_input_is_full_continues)
{
	struct site s;
	size_t total = 1024 * 1024, sent = 0;
	char *big = xcalloc(1, total);

	site_init(&s, NULL);
	s.pause_pieces = true;
	rig_send_str(s.l, s.fd,
		     "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n");
	for (int i = 0; i < 300; i++) {
		ssize_t n = send(s.fd, big, total - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		sent += n > 0 ? (size_t)n : 0;
		loop_turn(s.l, 0);
	}
	s.pause_pieces = false;
	http_request_pause(s.held, false);
	rig_send(s.l, s.fd, big, total - sent);
	until(s.l, s.n_body_ends == 1);
	eq_int(s.streamed.len, total);
	free(big);
	site_done(&s);
}

TEST(an_answer_may_begin_before_the_body_ends)
{
	struct site s;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
	until(s.l, s.streamed.len == 3);
	http_respond_start(s.held, 200, NULL, -1);
	http_respond_write(s.held, "early", 5);
	site_expect(&s, "early");
	rig_send_str(s.l, s.fd, "def");
	until(s.l, s.n_body_ends == 1);
	http_respond_end(s.held);
	site_expect(&s, "0\r\n\r\n");
	site_done(&s);
}

TEST(the_rest_of_an_unread_body_is_skipped)
{
	struct site s;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd,
		     "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nGET /hold ");
	site_expect(&s, "hello\n");
	eq_int(s.n_ended, 1);
	rig_send_str(s.l, s.fd, "0123456789GET /query?next HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "next\n");
	eq_int(s.n_heads, 2);
	site_done(&s);
}

TEST(a_long_unread_body_costs_the_connection)
{
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd,
		     "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\nxx");
	answer = rig_read(s.l, s.fd, NULL);
	is_true(strstr(answer, "hello\n") && strstr(answer, "Connection: close\r\n"));
	site_done(&s);
}

TEST(a_slow_reader_slows_the_producer)
{
	struct site s;
	size_t piece = 64 * 1024, sent = 0;
	char *big = xcalloc(1, piece);

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	http_respond_on_drain(s.held, on_drain);
	http_respond_start(s.held, 200, NULL, 64 * 1024 * 1024);
	for (; !http_respond_full(s.held); sent += piece) {
		http_respond_write(s.held, big, piece);
		loop_turn(s.l, 0);
		is_true(sent < 64 * 1024 * 1024);
	}
	eq_int(s.n_drained, 0);
	while (!s.n_drained)
		(void)rig_read_n(s.l, s.fd, big, piece);
	is_false(http_respond_full(s.held));
	free(big);
	site_done(&s);
}

TEST(a_peer_that_never_reads_gets_no_more_work_done)
{
	struct site s;
	char *body = xmalloc(600 * 1024);
	int n = 0;

	memset(body, 'q', 600 * 1024);
	site_init(&s, NULL);
	while (n < 5000) {
		static const char ask[] = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n";

		if (send(s.fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		n++;
		loop_turn(s.l, 0);
		if (s.held)
			http_respond(s.held, 200, NULL,
				     (struct http_body){ "text/plain", body, 600 * 1024 });
		loop_turn(s.l, 0);
	}
	is_true(s.n_heads < 100);
	free(body);
	site_done(&s);
}

static void up_data(void *arg, struct buf *in)
{
	struct site *s = arg;

	buf_add(&s->streamed, buf_head(in), in->len);
	buf_eat(in, in->len);
}

static void up_closed(void *arg, unused const struct err *e)
{
	conn_free(take(((struct site *)arg)->upgraded));
}

TEST(an_upgrade_hands_the_connection_over)
{
	static const struct conn_events ev = { .data = up_data, .closed = up_closed };
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, NULL);
	rig_send_str(
		s.l, s.fd,
		"POST /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: test\r\nContent-Length: "
		"0\r\n\r\nraw");
	until(s.l, s.upgraded);
	conn_set_events(s.upgraded, &ev, &s);
	until(s.l, s.streamed.len == 3);
	conn_write(s.upgraded, "back", 4);
	answer = rig_read(s.l, s.fd, "back");
	is_true(strstr(answer, "HTTP/1.1 101 Switching Protocols\r\n") == answer);
	is_true(strstr(answer, "Connection: Upgrade\r\nUpgrade: test\r\n") != NULL);
	eq_int(http_server_conns(s.server), 0);
	eq_int(s.n_ended, 0);
	rig_settle(s.l);
	site_done(&s);
}

TEST(stopping_closes_idle_connections_and_lets_busy_ones_finish)
{
	struct site s;
	int busy, refused;
	autofree char *answer = NULL;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "hello\n");
	busy = rig_connect(s.addr);
	rig_send_str(s.l, busy, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	http_server_stop_accepting(s.server);
	is_true(rig_at_end(s.l, s.fd));
	refused = rig_connect(s.addr);
	is_true(rig_at_end(s.l, refused));
	http_respond_text(s.held, 200, "last");
	answer = rig_read(s.l, busy, NULL);
	is_true(strstr(answer, "Connection: close\r\n") && strstr(answer, "last\n"));
	(void)close(busy);
	(void)close(refused);
	site_done(&s);
}

TEST(freeing_the_server_ends_its_requests)
{
	struct site s;

	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	http_server_free(take(s.server));
	eq_int(s.n_ended, 1);
	is_true(rig_at_end(s.l, s.fd));
	site_done(&s);
}

TEST(an_adopted_connection_is_served)
{
	struct site s;
	int fds[2];
	autofree char *answer = NULL;

	site_init(&s, NULL);
	rig_pair(fds);
	http_server_adopt(s.server, stream_plain(fds[0]), "local");
	rig_send_str(s.l, fds[1], "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	answer = rig_read(s.l, fds[1], "hello\n");
	eq_int(site_status(answer), 200);
	(void)close(fds[1]);
	site_done(&s);
}
