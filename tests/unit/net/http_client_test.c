/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include "net/conn.h"
#include "net/stream.h"
#include "rig.h"
#include "test.h"

/* A pool, one exchange, and a server that is the test itself: it accepts and writes bytes. */
struct deal {
	struct loop *l;
	struct http_pool *pool;
	int listen_fd;
	char addr[64];
	struct http_exchange *x;
	int status, n_data, n_end, n_failed, n_drained;
	enum err_code why;
	struct buf body;
	char *header; /* X-Test in the answer */
	bool pause_data, cancel_in_data, take;
	struct conn *taken;
};

static void on_head(void *arg, int status, struct http_headers *h)
{
	struct deal *d = arg;

	d->status = status;
	free(d->header);
	d->header = xstrdup(http_headers_get(h, "X-Test"));
	if (d->take)
		d->taken = http_exchange_take_conn(take(d->x));
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct deal *d = arg;

	d->n_data++;
	buf_add(&d->body, data, len);
	if (d->pause_data)
		http_exchange_pause(d->x, true);
	if (d->cancel_in_data)
		http_exchange_cancel(take(d->x));
}

static void on_end(void *arg, unused struct http_headers *trailers)
{
	struct deal *d = arg;

	d->n_end++;
	d->x = NULL;
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

static const struct http_exchange_events events = { on_head, on_data, on_end, on_drained,
						    on_failed };

static void deal_init(struct deal *d)
{
	*d = (struct deal){ .l = rig_loop() };
	works(net_listen("127.0.0.1:0", &d->listen_fd));
	works(net_local_addr(d->listen_fd, d->addr, sizeof(d->addr)));
	d->pool = http_pool_new(d->l, NULL, 2);
}

static void deal_done(struct deal *d)
{
	if (d->x)
		http_exchange_cancel(d->x);
	conn_free(d->taken);
	http_pool_free(d->pool);
	if (d->listen_fd >= 0)
		(void)close(d->listen_fd);
	buf_done(&d->body);
	free(d->header);
	rig_settle(d->l);
	loop_free(d->l);
}

static void start_over(struct deal *d, struct stream *s, const char *method, int64_t body_len)
{
	struct http_headers h = { 0 };
	struct http_exchange_spec spec = { .addr = d->addr,
					   .stream = s,
					   .method = method,
					   .target = "/x?y",
					   .headers = &h,
					   .body_len = body_len };

	http_headers_add(&h, "Host", "there");
	http_headers_add(&h, "Content-Length", "777");
	http_headers_add(&h, "X-Bad", "a\r\nb");
	d->x = http_exchange_start(d->pool, &spec, &events, d);
	http_headers_done(&h);
}

static void start(struct deal *d, const char *method, int64_t body_len)
{
	start_over(d, NULL, method, body_len);
}

static int accepted(struct deal *d)
{
	int fd = -1;

	until(d->l, (fd = accept4(d->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
	return fd;
}

static void serves(struct deal *d, int fd, const char *answer)
{
	autofree char *request = rig_read(d->l, fd, "\r\n\r\n");

	is_true(strstr(request, " /x?y HTTP/1.1\r\nHost: there\r\n") != NULL);
	is_false(strstr(request, "777") || strstr(request, "X-Bad"));
	rig_send_str(d->l, fd, answer);
}

TEST(an_exchange_brings_an_answer)
{
	static const struct {
		const char *method, *answer, *body;
		int status;
		bool close; /* the server closes the connection */
	} rows[] = {
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Test: t\r\n\r\nhello", "hello",
		  200, false },
		{ "GET",
		  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Test: t\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
		  "hello", 200, false },
		{ "GET", "HTTP/1.1 200 OK\r\nX-Test: t\r\n\r\nuntil the end", "until the end", 200,
		  true },
		{ "GET", "HTTP/1.0 404 Not Found\r\nX-Test: t\r\n\r\nx", "x", 404, true },
		{ "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Test: t\r\n\r\n", "", 200,
		  false },
		{ "GET", "HTTP/1.1 204 No Content\r\nX-Test: t\r\n\r\n", "", 204, false },
		{ "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nX-Test: t\r\n\r\n", "",
		  304, false },
		{ "GET",
		  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-Test: no\r\n\r\n"
		  "HTTP/1.1 200 OK\r\nX-Test: t\r\nContent-Length: 1\r\n\r\nz",
		  "z", 200, false },
		{ "POST", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nX-Test: t\r\n\r\n", "", 201,
		  false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct deal d;
		int fd;

		deal_init(&d);
		start(&d, rows[i].method, 0);
		fd = accepted(&d);
		serves(&d, fd, rows[i].answer);
		if (rows[i].close)
			(void)shutdown(fd, SHUT_WR);
		until(d.l, d.n_end || d.n_failed);
		eq_int(d.n_failed, 0);
		eq_int(d.status, rows[i].status);
		eq_str(d.header, "t");
		eq_str(buf_str(&d.body), rows[i].body);
		(void)close(fd);
		deal_done(&d);
	}
}

TEST(bad_answers_fail)
{
	static const struct {
		const char *answer;
		enum err_code why;
	} rows[] = {
		{ "", ERR_UNAVAILABLE },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", ERR_UNAVAILABLE },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello",
		  ERR_UNAVAILABLE },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		  ERR_MALFORMED },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		  ERR_MALFORMED },
		{ "SMTP ready\r\n", ERR_MALFORMED },
		{ "HTTP/1.1 99999 OK\r\n\r\n", ERR_MALFORMED },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct deal d;
		int fd;

		deal_init(&d);
		start(&d, "GET", 0);
		fd = accepted(&d);
		serves(&d, fd, rows[i].answer);
		(void)shutdown(fd, SHUT_WR);
		until(d.l, d.n_end || d.n_failed);
		eq_int(d.n_failed, 1);
		eq_int(d.why, rows[i].why);
		(void)close(fd);
		deal_done(&d);
	}
}

TEST(an_endless_head_fails)
{
	struct deal d;
	char line[1024];
	int fd;

	deal_init(&d);
	start(&d, "GET", 0);
	fd = accepted(&d);
	serves(&d, fd, "HTTP/1.1 200 OK\r\n");
	memset(line, 'x', sizeof(line));
	memcpy(line, "X: ", 3);
	memcpy(line + sizeof(line) - 2, "\r\n", 2);
	for (int i = 0; i < 200 && !d.n_failed; i++)
		rig_send(d.l, fd, line, sizeof(line));
	until(d.l, d.n_failed == 1);
	eq_int(d.why, ERR_TOO_LARGE);
	(void)close(fd);
	deal_done(&d);
}

TEST(connections_are_used_again)
{
	struct deal d;
	int fd;

	deal_init(&d);
	start(&d, "GET", 0);
	fd = accepted(&d);
	for (int i = 1; i <= 3; i++) {
		serves(&d, fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		until(d.l, d.n_end == i);
		start(&d, "GET", 0);
	}
	eq_int(accept(d.listen_fd, NULL, NULL), -1);
	(void)close(fd);
	deal_done(&d);
}

TEST(a_connection_that_was_given_is_for_one_exchange)
{
	struct deal d;
	char byte;
	int ends[2], fd;

	deal_init(&d);
	eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	start_over(&d, stream_plain(ends[1]), "GET", 0);
	serves(&d, ends[0], "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	until(d.l, d.n_end == 1);
	until(d.l, recv(ends[0], &byte, 1, 0) == 0); /* closed, and not kept for the next */
	start(&d, "GET", 0);
	fd = accepted(&d);
	serves(&d, fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	until(d.l, d.n_end == 2);
	(void)close(fd);
	(void)close(ends[0]);
	deal_done(&d);
}

TEST(a_connection_with_strange_bytes_is_not_used_again)
{
	struct deal d;
	int fd, second;

	deal_init(&d);
	start(&d, "GET", 0);
	fd = accepted(&d);
	serves(&d, fd,
	       "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nX-Test: forged\r\n\r\n");
	until(d.l, d.n_end == 1);
	start(&d, "GET", 0);
	second = accepted(&d);
	(void)close(fd);
	(void)close(second);
	deal_done(&d);
}

TEST(a_stale_connection_is_replaced_once)
{
	struct deal d;
	int fd, second;

	deal_init(&d);
	start(&d, "GET", 0);
	fd = accepted(&d);
	serves(&d, fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	until(d.l, d.n_end == 1);
	start(&d, "GET", 0); /* reused before its end is noticed */
	(void)close(fd);
	second = accepted(&d);
	serves(&d, second, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	until(d.l, d.n_end == 2);
	eq_int(d.n_failed, 0);
	(void)close(second);
	deal_done(&d);
}

TEST(a_request_that_changes_something_is_not_repeated)
{
	static const struct {
		const char *method, *body;
	} rows[] = { { "POST", "abc" }, { "POST", "" }, { "DELETE", "" } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].body);
		struct deal d;
		int fd;

		deal_init(&d);
		start(&d, "GET", 0);
		fd = accepted(&d);
		serves(&d, fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		until(d.l, d.n_end == 1);
		start(&d, rows[i].method, (int64_t)len);
		http_exchange_write(d.x, rows[i].body, len);
		http_exchange_end_body(d.x, NULL);
		(void)close(fd);
		until(d.l, d.n_failed == 1);
		eq_int(d.why, ERR_UNAVAILABLE);
		deal_done(&d);
	}
}

TEST(bodies_stream_out)
{
	struct deal d;
	autofree char *request = NULL, *chunked = NULL;
	int fd;

	deal_init(&d);
	start(&d, "PUT", 6);
	http_exchange_write(d.x, "abc", 3); /* before the connection is established */
	fd = accepted(&d);
	rig_settle(d.l);
	http_exchange_write(d.x, "defTOO LONG", 11);
	http_exchange_end_body(d.x, NULL);
	request = rig_read(d.l, fd, "abcdef");
	is_true(strstr(request, "Content-Length: 6\r\n") != NULL);
	rig_send_str(d.l, fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	until(d.l, d.n_end == 1);

	start(&d, "PUT", -1);
	http_exchange_write(d.x, "abc", 3);
	http_exchange_write(d.x, "", 0);
	http_exchange_end_body(d.x, NULL);
	chunked = rig_read(d.l, fd, "0\r\n\r\n");
	is_true(strstr(chunked, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n") != NULL);
	(void)close(fd);
	deal_done(&d);
}

TEST(a_slow_server_slows_the_sender)
{
	struct deal d;
	size_t piece = 64 * 1024;
	char *big = xcalloc(1, piece);
	int fd;

	deal_init(&d);
	start(&d, "PUT", 64 * 1024 * 1024);
	fd = accepted(&d);
	rig_settle(d.l);
	for (int i = 0; !http_exchange_full(d.x); i++) {
		http_exchange_write(d.x, big, piece);
		loop_turn(d.l, 0);
		is_true(i < 1000);
	}
	while (!d.n_drained)
		(void)rig_read_n(d.l, fd, big, piece);
	free(big);
	(void)close(fd);
	deal_done(&d);
}

TEST(a_pause_delays_the_answer_and_its_end)
{
	struct deal d;
	int fd;

	deal_init(&d);
	d.pause_data = true;
	start(&d, "GET", 0);
	fd = accepted(&d);
	serves(&d, fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast");
	until(d.l, d.n_data == 1);
	rig_settle(d.l);
	eq_int(d.n_end, 0);
	d.pause_data = false;
	http_exchange_pause(d.x, false);
	until(d.l, d.n_end == 1);

	d.pause_data = true;
	start(&d, "GET", 0);
	serves(&d, fd,
	       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
	until(d.l, d.n_data == 2);
	rig_settle(d.l);
	eq_int(d.n_data, 2);
	http_exchange_pause(d.x, false);
	until(d.l, d.n_data == 3);
	http_exchange_pause(d.x, false);
	until(d.l, d.n_end == 2);
	eq_str(buf_str(&d.body), "lastab");
	(void)close(fd);
	deal_done(&d);
}

TEST(an_answer_continues_after_a_pause_without_buffered_input)
{
	static const char *const heads[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab",
		"HTTP/1.1 200 OK\r\n\r\nab",
	};
	static const char *const tails[] = { "cd", "cd\r\n0\r\n\r\n", "cd" };

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct deal d;
		int fd;

		deal_init(&d);
		d.pause_data = true;
		start(&d, "GET", 0);
		fd = accepted(&d);
		serves(&d, fd, heads[i]);
		until(d.l, d.n_data == 1);
		d.pause_data = false;
		http_exchange_pause(d.x, false);
		rig_settle(d.l);
		http_exchange_pause(d.x, true);
		http_exchange_pause(d.x, false);
		rig_send_str(d.l, fd, tails[i]);
		(void)shutdown(fd, SHUT_WR);
		until(d.l, d.n_end == 1);
		eq_str(buf_str(&d.body), "abcd");
		(void)close(fd);
		deal_done(&d);
	}
}

TEST(a_cancelled_exchange_calls_nobody)
{
	struct deal d;
	int fd;

	deal_init(&d);
	start(&d, "GET", 0);
	http_exchange_cancel(take(d.x));
	rig_settle(d.l);

	d.cancel_in_data = true;
	start(&d, "GET", 0);
	fd = accepted(&d);
	(void)close(fd); /* of the first */
	fd = accepted(&d);
	serves(&d, fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
	until(d.l, !d.x);
	is_true(rig_at_end(d.l, fd));
	eq_int(d.n_end + d.n_failed, 0);
	(void)close(fd);
	deal_done(&d);
}

TEST(nobody_there_is_unavailable)
{
	struct deal d;

	deal_init(&d);
	(void)close(take_fd(d.listen_fd));
	start(&d, "GET", 0);
	until(d.l, d.n_failed == 1);
	eq_int(d.why, ERR_UNAVAILABLE);
	deal_done(&d);
}

TEST(silence_after_the_request_times_out)
{
	struct deal d;
	struct http_headers h = { 0 };
	struct http_exchange_spec spec = {
		.method = "GET", .target = "/x?y", .headers = &h, .head_ms = 30
	};
	int fd;

	deal_init(&d);
	spec.addr = d.addr;
	d.x = http_exchange_start(d.pool, &spec, &events, &d);
	fd = accepted(&d);
	until(d.l, d.n_failed == 1);
	eq_int(d.why, ERR_TIMEOUT);
	(void)close(fd);
	deal_done(&d);
}

TEST(targets_cannot_smuggle)
{
	static const char *const bad[] = { "", "/a b", "/a\r\nX: y", "/a\x7f" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct deal d;
		struct http_exchange_spec spec = { .method = "GET", .target = bad[i] };

		deal_init(&d);
		spec.addr = d.addr;
		d.x = http_exchange_start(d.pool, &spec, &events, &d);
		eq_int(d.n_failed, 0); /* never from inside the call */
		until(d.l, d.n_failed == 1);
		eq_int(d.why, ERR_INVALID);
		deal_done(&d);
	}
}

TEST(an_upgraded_connection_is_handed_over)
{
	struct deal d;
	int fd;

	deal_init(&d);
	d.take = true;
	start(&d, "GET", 0);
	fd = accepted(&d);
	serves(&d, fd,
	       "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\nfirst bytes");
	until(d.l, d.taken);
	eq_int(d.status, 101);
	until(d.l, conn_in(d.taken)->len == 11);
	eq_int(d.n_end + d.n_failed, 0);
	(void)close(fd);
	deal_done(&d);
}

TEST(an_upgrade_that_nobody_takes_is_closed)
{
	struct deal d;
	int fd;

	deal_init(&d);
	start(&d, "GET", 0);
	fd = accepted(&d);
	serves(&d, fd,
	       "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n");
	until(d.l, d.n_end == 1);
	is_true(rig_at_end(d.l, fd));
	(void)close(fd);
	deal_done(&d);
}
