/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "rig.h"
#include "site.h"
#include "test.h"

/* What a peer can make long, slow or numerous, and where the server stops it. */
TEST(bodies_over_the_limit_are_413)
{
	static const char *const heads[] = {
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n",
	};
	char body[1001];

	memset(body, 'x', sizeof(body));
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct site s;
		autofree char *answer = NULL;

		site_init(&s, NULL);
		rig_send_str(s.l, s.fd, heads[i]);
		rig_send(s.l, s.fd, body, sizeof(body));
		answer = rig_read(s.l, s.fd, "\r\n\r\nContent Too Large\n");
		eq_int(site_status(answer), 413);
		until(s.l, s.n_ended == 1);
		site_done(&s);
	}
}

TEST(a_body_at_the_limit_passes)
{
	struct site s;
	char body[1000];

	memset(body, 'x', sizeof(body));
	body[999] = '!';
	site_init(&s, NULL);
	rig_send_str(s.l, s.fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
	rig_send(s.l, s.fd, body, sizeof(body));
	site_expect(&s, "x!");
	site_done(&s);
}

TEST(heads_over_the_limits_are_431)
{
	struct http_limits limits = { .max_head = 200, .max_headers = 3 };
	char longer[300], endless[300];
	const char *const heads[] = {
		"GET /hello HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 1\r\nC: 1\r\n\r\n",
		longer,
		endless,
	};

	(void)snprintf(longer, sizeof(longer), "GET /hello?%0201d HTTP/1.1\r\nHost: a\r\n\r\n", 1);
	(void)snprintf(endless, sizeof(endless), "GET /hello?%0201d", 1);
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct site s;
		autofree char *answer = NULL;

		site_init(&s, &limits);
		rig_send_str(s.l, s.fd, heads[i]);
		answer = rig_read(s.l, s.fd, NULL);
		eq_int(site_status(answer), 431);
		site_done(&s);
	}
}

TEST(a_head_at_the_default_limit_passes)
{
	struct site s;
	size_t len = 64 * 1024;
	char *head = xmalloc(len + 1);
	int n = snprintf(head, len, "GET /hello HTTP/1.1\r\nHost: a\r\nX: ");

	memset(head + n, 'x', len - (size_t)n);
	memcpy(head + len - 4, "\r\n\r\n", 5);
	site_init(&s, NULL);
	rig_send(s.l, s.fd, head, len);
	site_expect(&s, "hello\n");
	free(head);
	site_done(&s);
}

TEST(endless_chunk_extensions_and_trailers_are_rejected)
{
	static const char *const starts[] = { "1;", "0\r\nX: " };

	for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
		struct site s;
		autofree char *answer = NULL;
		char junk[1000];

		memset(junk, 'x', sizeof(junk));
		site_init(&s, NULL);
		rig_send_str(
			s.l, s.fd,
			"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
		rig_send_str(s.l, s.fd, starts[i]);
		for (int j = 0; j < 20; j++)
			rig_send(s.l, s.fd, junk, sizeof(junk));
		answer = rig_read(s.l, s.fd, "\r\n");
		eq_int(site_status(answer), 400);
		site_done(&s);
	}
}

TEST(a_slow_head_times_out)
{
	struct http_limits limits = { .head_ms = 40 };
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hel");
	answer = rig_read(s.l, s.fd, NULL);
	eq_int(site_status(answer), 408);
	site_done(&s);

	site_init(&s, &limits);
	is_true(rig_at_end(s.l, s.fd)); /* it sent no byte, so it gets none */
	site_done(&s);
}

TEST(a_busy_loop_does_not_count_as_a_slow_head)
{
	static const char head[] = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
	struct http_limits limits = { .head_ms = 40 };
	struct site s;

	site_init(&s, &limits);
	until(s.l, http_server_conns(s.server) == 1);
	eq_int(send(s.fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
	(void)poll(NULL, 0, 80); /* as if others kept the loop from this connection */
	site_expect(&s, "hello\n");
	site_done(&s);
}

/* A stream whose handshake waits for a thread until it is let on. */
struct shaking {
	struct stream stream;
	struct stream *plain;
	bool works;
	void (*woken)(void *arg);
	void *woken_arg;
};

static struct shaking *shaking_of(const struct stream *s)
{
	return container_of(s, struct shaking, stream);
}

static ssize_t shaking_read(struct stream *s, void *p, size_t len, struct err **ret_err)
{
	struct shaking *k = shaking_of(s);

	return k->works ? STREAM_AGAIN : k->plain->ops->read(k->plain, p, len, ret_err);
}

static ssize_t shaking_write(struct stream *s, const void *p, size_t len, struct err **ret_err)
{
	struct shaking *k = shaking_of(s);

	return k->works ? STREAM_AGAIN : k->plain->ops->write(k->plain, p, len, ret_err);
}

static bool shaking_shutdown(struct stream *s)
{
	return shaking_of(s)->plain->ops->shutdown(shaking_of(s)->plain);
}

static void shaking_attach(struct stream *s, struct loop *l unused, void (*woken)(void *arg),
			   void *arg)
{
	shaking_of(s)->woken = woken;
	shaking_of(s)->woken_arg = arg;
}

static unsigned shaking_wants(const struct stream *s)
{
	return shaking_of(s)->works ? STREAM_WORKS : 0;
}

static bool shaking_pending(const struct stream *s unused)
{
	return false;
}

static void shaking_free(struct stream *s)
{
	stream_free(take(shaking_of(s)->plain));
}

static struct stream *shake(void *arg, int fd)
{
	static const struct stream_ops ops = { .read = shaking_read,
					       .write = shaking_write,
					       .shutdown = shaking_shutdown,
					       .attach = shaking_attach,
					       .wants = shaking_wants,
					       .pending = shaking_pending,
					       .free = shaking_free };
	struct shaking *k = arg;

	k->plain = stream_plain(fd);
	k->stream = (struct stream){ &ops, fd };
	return &k->stream;
}

/* The loop turns for so long. */
static void pass_time(struct loop *l, unsigned ms)
{
	usec end = clock_mono() + ms * 1000;

	until(l, clock_mono() > end);
}

TEST(a_handshake_that_waits_for_a_thread_takes_none_of_the_heads_time)
{
	struct http_limits limits = { .head_ms = 40 };
	struct shaking k = { .works = true };
	struct site s;

	site_init_wrapped(&s, &limits, shake, &k);
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, k.woken);
	pass_time(s.l, 100);
	eq_int(http_server_conns(s.server), 1);
	k.works = false;
	k.woken(k.woken_arg);
	site_expect(&s, "hello\n");
	site_done(&s);
}

TEST(after_a_handshake_that_waited_the_peer_has_the_time_that_was_left)
{
	struct http_limits limits = { .head_ms = 600 };
	struct shaking k = { .works = true };
	struct site s;

	site_init_wrapped(&s, &limits, shake, &k);
	until(s.l, k.woken);
	pass_time(s.l, 540);
	k.works = false;
	k.woken(k.woken_arg);
	pass_time(s.l, 180);
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "hello\n");
	site_done(&s);
}

TEST(a_handshake_gives_a_silent_peer_no_more_time_than_it_took)
{
	struct http_limits limits = { .head_ms = 40 };
	struct shaking k = { .works = true };
	struct site s;

	site_init_wrapped(&s, &limits, shake, &k);
	until(s.l, k.woken);
	pass_time(s.l, 100);
	k.works = false;
	k.woken(k.woken_arg);
	until(s.l, !http_server_conns(s.server));
	site_done(&s);
}

TEST(a_slow_head_behind_a_request_times_out_too)
{
	struct http_limits limits = { .head_ms = 40 };
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "hello\n");
	rig_send_str(s.l, s.fd, "GET /hel");
	answer = rig_read(s.l, s.fd, NULL);
	eq_int(site_status(answer), 408);
	site_done(&s);
}

TEST(bytes_do_not_buy_a_head_more_time)
{
	struct http_limits limits = { .head_ms = 60 };
	struct site s;

	site_init(&s, &limits);
	until(s.l, http_server_conns(s.server) == 1);
	until(s.l, send(s.fd, "x", 1, MSG_NOSIGNAL) < 0 || !http_server_conns(s.server));
	site_done(&s);
}

TEST(an_idle_connection_times_out)
{
	struct http_limits limits = { .idle_ms = 40 };
	struct site s;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "hello\n");
	is_true(rig_at_end(s.l, s.fd));
	site_done(&s);
}

TEST(a_stuck_body_times_out)
{
	struct http_limits limits = { .idle_ms = 40 };
	struct site s;
	autofree char *answer = NULL;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
	answer = rig_read(s.l, s.fd, NULL);
	eq_int(site_status(answer), 408);
	eq_int(s.n_ended, 1);
	site_done(&s);
}

TEST(a_long_answer_is_not_idleness)
{
	struct http_limits limits = { .idle_ms = 20 };
	struct site s;
	usec end;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	end = clock_mono() + 80 * 1000;
	until(s.l, clock_mono() > end);
	eq_int(s.n_ended, 0);
	http_respond_text(s.held, 200, "at last");
	site_expect(&s, "at last\n");
	site_done(&s);
}

TEST(one_peer_has_no_more_connections_than_its_share)
{
	struct http_limits limits = { .max_conns_per_peer = 2 };
	struct site s;
	int second, third;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "hello\n");
	second = rig_connect(s.addr);
	rig_send_str(s.l, second, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	third = rig_connect(s.addr);
	is_true(rig_at_end(s.l, third));
	eq_int(http_server_conns(s.server), 2);
	(void)close(third);
	(void)close(second);
	until(s.l, http_server_conns(s.server) == 1);
	third = rig_connect(s.addr);
	until(s.l, http_server_conns(s.server) == 2);
	(void)close(third);
	site_done(&s);
}

TEST(the_longest_idle_connection_makes_space)
{
	struct http_limits limits = { .max_conns = 2 };
	struct site s;
	int second, third;
	autofree char *answer = NULL;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "hello\n");
	second = rig_connect(s.addr);
	rig_send_str(s.l, second, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	third = rig_connect(s.addr);
	rig_send_str(s.l, third, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	answer = rig_read(s.l, third, "hello\n");
	is_true(rig_at_end(s.l, s.fd));
	eq_int(http_server_conns(s.server), 2);
	(void)close(second);
	(void)close(third);
	site_done(&s);
}

TEST(a_connection_without_a_request_makes_space_too)
{
	struct http_limits limits = { .max_conns = 1 };
	struct site s;
	int second;
	autofree char *answer = NULL;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hel");
	until(s.l, http_server_conns(s.server) == 1);
	rig_settle(s.l);
	second = rig_connect(s.addr);
	rig_send_str(s.l, second, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	answer = rig_read(s.l, second, "hello\n");
	is_true(strstr(answer, "hello\n") != NULL);
	(void)close(second);
	site_done(&s);
}

TEST(a_silent_connection_makes_space_before_one_that_has_begun)
{
	struct http_limits limits = { .max_conns = 2 };
	struct site s;
	int silent, third;
	autofree char *answer = NULL;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hel");
	until(s.l, http_server_conns(s.server) == 1);
	silent = rig_connect(s.addr);
	until(s.l, http_server_conns(s.server) == 2);
	third = rig_connect(s.addr);
	rig_send_str(s.l, third, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	answer = rig_read(s.l, third, "hello\n");
	is_true(rig_at_end(s.l, silent));
	rig_send_str(s.l, s.fd, "lo HTTP/1.1\r\nHost: a\r\n\r\n");
	site_expect(&s, "hello\n");
	(void)close(silent);
	(void)close(third);
	site_done(&s);
}

TEST(a_connection_that_becomes_idle_makes_space_for_one_that_waits)
{
	struct http_limits limits = { .max_conns = 1 };
	struct site s;
	int second;
	autofree char *answer = NULL;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	until(s.l, s.held);
	second = rig_connect(s.addr);
	rig_send_str(s.l, second, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	rig_settle(s.l);
	http_respond_text(s.held, 200, "done");
	answer = rig_read(s.l, second, "hello\n");
	is_true(strstr(answer, "hello\n") != NULL);
	(void)close(second);
	site_done(&s);
}

TEST(busy_connections_make_newcomers_wait)
{
	struct http_limits limits = { .max_conns = 1 };
	struct site s;
	int second;
	autofree char *answer = NULL;

	site_init(&s, &limits);
	rig_send_str(s.l, s.fd, "GET /hold HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	until(s.l, s.held);
	second = rig_connect(s.addr);
	rig_send_str(s.l, second, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	rig_settle(s.l);
	eq_int(s.n_heads, 1);
	http_respond_text(s.held, 200, "done");
	site_expect(&s, "done\n");
	(void)shutdown(s.fd, SHUT_RDWR);
	answer = rig_read(s.l, second, "hello\n");
	is_true(strstr(answer, "hello\n") != NULL);
	(void)close(second);
	site_done(&s);
}
