/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "net/http_client.h"
#include "rig.h"

/* Calls through the router, by the client that it uses itself. U44 is in docs/reference/cases.md.
 */
struct call {
	struct http_exchange *x;
	int status, n_end, n_failed, n_data;
	struct buf body;
	struct http_headers head, trailers;
	bool pause;
};

struct ask {
	const char *path;           /* NULL: /wait */
	const char *type;           /* NULL: application/grpc */
	const char *const *headers; /* name, value, ..., NULL */
	bool bodiless;
	const char *method; /* NULL: POST */
};

static void copy(struct http_headers *to, const struct http_headers *from)
{
	for (size_t i = 0; i < from->n; i++)
		http_headers_add(to, from->list[i].name, from->list[i].value);
}

static void on_head(void *arg, int status, struct http_headers *h)
{
	struct call *c = arg;

	c->status = status;
	copy(&c->head, h);
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct call *c = arg;

	c->n_data++;
	buf_add(&c->body, data, len);
	if (c->pause)
		http_exchange_pause(c->x, true);
}

static void on_end(void *arg, struct http_headers *trailers)
{
	struct call *c = arg;

	c->x = NULL;
	c->n_end++;
	copy(&c->trailers, trailers);
}

static void on_failed(void *arg, const struct err *e)
{
	struct call *c = arg;

	(void)e;
	c->x = NULL;
	c->n_failed++;
}

static void call_start(struct rig *g, struct http_pool *pool, const struct ask *ask, struct call *c)
{
	static const struct http_exchange_events events = {
		.head = on_head, .data = on_data, .end = on_end, .failed = on_failed
	};
	struct http_headers h = { 0 };
	struct http_exchange_spec spec = { .version = 2,
					   .addr = router_address(g->router),
					   .method = ask->method ? ask->method : "POST",
					   .target = ask->path ? ask->path : "/wait",
					   .headers = &h,
					   .body_len = ask->bodiless ? 0 : -1 };
	char port[8];

	*c = (struct call){ 0 };
	(void)snprintf(port, sizeof(port), "%u", g->port);
	http_headers_add(&h, "Host", "127.0.0.1");
	http_headers_add(&h, "Content-Type", ask->type ? ask->type : "application/grpc");
	http_headers_add(&h, "X-Sandbox-Port", port);
	for (size_t i = 0; ask->headers && ask->headers[i]; i += 2)
		http_headers_add(&h, ask->headers[i], ask->headers[i + 1]);
	c->x = http_exchange_start(pool, &spec, &events, c);
	http_headers_done(&h);
}

static void call_done(struct call *c)
{
	if (c->x)
		http_exchange_cancel(c->x);
	buf_done(&c->body);
	http_headers_done(&c->head);
	http_headers_done(&c->trailers);
}

static const char *const to_box[] = { "X-Sandbox-ID", "box", NULL };

static const char *status_of(struct call *c)
{
	return http_headers_get(&c->trailers, "grpc-status");
}

static void answer(struct rig *g, const char *body, const char *status)
{
	struct http_headers h = { 0 }, t = { 0 };

	http_headers_add(&h, "Content-Type", "application/grpc");
	http_headers_add(&t, "grpc-status", status);
	http_respond_start(g->waiting, 200, &h, -1);
	http_respond_write(g->waiting, body, strlen(body));
	http_respond_trailers(g->waiting, &t);
	http_respond_end(g->waiting);
	http_headers_done(&h);
	http_headers_done(&t);
}

struct scene {
	struct rig g;
	struct http_pool *pool;
	struct call c;
};

static void scene_start(struct scene *s, const struct router_spec *spec)
{
	*s = (struct scene){ 0 };
	rig_start(&s->g, spec);
	rig_ready(&s->g, "box", "127.0.0.2");
	s->pool = http_pool_new(s->g.l, NULL, 1);
}

static void scene_stop(struct scene *s)
{
	call_done(&s->c);
	http_pool_free(s->pool);
	rig_stop(&s->g);
}

TEST(U44_a_call_streams_both_ways_and_its_status_is_a_trailer)
{
	struct scene s;

	scene_start(&s, NULL);
	call_start(&s.g, s.pool, &(struct ask){ .headers = to_box }, &s.c);
	http_exchange_write(s.c.x, "one ", 4);
	until(s.g.l, s.g.waiting && s.g.body.len == 4);
	eq_int(s.g.version, 2);
	eq_str(http_request_header(s.g.waiting, "te"), "trailers");
	http_respond_start(s.g.waiting, 200, NULL, -1);
	http_respond_write(s.g.waiting, "first", 5);
	until(s.g.l, s.c.body.len == 5); /* before the request has ended */
	is_false(s.g.body_ended);
	http_exchange_write(s.c.x, "two", 3);
	http_exchange_end_body(s.c.x, NULL);
	until(s.g.l, s.g.body_ended);
	eq_str(buf_str(&s.g.body), "one two");
	answer(&s.g, " last", "5");
	until(s.g.l, s.c.n_end);
	eq_int(s.c.status, 200);
	eq_str(buf_str(&s.c.body), "first last");
	eq_str(status_of(&s.c), "5");
	scene_stop(&s);
}

TEST(U44_an_answer_of_a_status_alone_ends_with_trailers)
{
	struct http_headers h = { 0 };
	struct scene s;

	http_headers_add(&h, "Content-Type", "application/grpc");
	http_headers_add(&h, "grpc-status", "12");
	http_headers_add(&h, "grpc-message", "no");
	scene_start(&s, NULL);
	call_start(&s.g, s.pool, &(struct ask){ .headers = to_box }, &s.c);
	until(s.g.l, s.g.waiting);
	http_respond(s.g.waiting, 200, &h, (struct http_body){ 0 });
	until(s.g.l, s.c.n_end);
	is_true(!http_headers_get(&s.c.head, "grpc-status"));
	eq_str(status_of(&s.c), "12");
	eq_str(http_headers_get(&s.c.trailers, "grpc-message"), "no");
	http_headers_done(&h);
	scene_stop(&s);
}

static struct err *deny(void *arg, unused const struct router_ask *ask,
			unused struct list **ret_wait)
{
	return err_new(*(enum err_code *)arg, "denied: 100%% sure");
}

static void fails_with(struct scene *s, const char *const *headers, const char *code)
{
	call_start(&s->g, s->pool, &(struct ask){ .headers = headers }, &s->c);
	until(s->g.l, s->c.n_end || s->c.n_failed);
	eq_int(s->c.status, 200);
	eq_str(http_headers_get(&s->c.head, "content-type"), "application/grpc");
	eq_str(status_of(&s->c), code);
	is_true(http_headers_get(&s->c.trailers, "grpc-message") != NULL);
	eq_int(s->c.body.len, 0);
	call_done(&s->c);
}

TEST(U44_failures_of_the_router_are_told_in_trailers)
{
	static const char *const nobody[] = { NULL };
	static const char *const unknown[] = { "X-Sandbox-ID", "nope", NULL };
	static const char *const closed[] = { "X-Sandbox-ID", "shut", NULL };
	static const char *const twice[] = {
		"X-Sandbox-ID", "box", "grpc-timeout", "1S", "grpc-timeout", "1S", NULL
	};
	static const char *const bad[] = { "5", "S", "123456789S", "1s", "-1S", "1 S", "1SS", "" };
	enum err_code code = ERR_UNAUTHENTICATED;
	struct scene s;

	scene_start(&s, NULL);
	rig_ready(&s.g, "shut", "127.0.0.3");
	fails_with(&s, nobody, "3");
	fails_with(&s, unknown, "14");
	fails_with(&s, closed, "14");
	fails_with(&s, twice, "3");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *const headers[] = { "X-Sandbox-ID", "box", "grpc-timeout", bad[i],
						NULL };

		fails_with(&s, headers, "3");
	}
	is_true(rig_counted(&s.g,
			    "{method=\"POST\",code=\"400\",sandbox_namespace=\"default\"} 9\n"));
	router_set_policy(s.g.router, deny, &code);
	fails_with(&s, to_box, "16");
	code = ERR_FORBIDDEN;
	fails_with(&s, to_box, "7");
	code = ERR_INTERNAL;
	fails_with(&s, to_box, "13");
	eq_int(s.g.n_requests, 0);
	s.c = (struct call){ 0 };
	scene_stop(&s);
}

TEST(U44_the_time_of_a_call_is_the_shorter_one_and_is_passed_on)
{
	static const struct {
		const char *given;
		unsigned limit_ms, least, most;
	} rows[] = {
		{ "20S", 0, 19000, 20000 },
		{ "20S", 10000, 9000, 10000 },
		{ "9M", 0, 170000, 180000 },
		{ NULL, 10000, 9000, 10000 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const headers[] = { "X-Sandbox-ID", "box",
						rows[i].given ? "grpc-timeout" : NULL,
						rows[i].given, NULL };
		const struct router_spec spec = { .proxy_timeout_ms = rows[i].limit_ms };
		struct scene s;
		unsigned sent = 0;

		scene_start(&s, &spec);
		call_start(&s.g, s.pool, &(struct ask){ .headers = headers }, &s.c);
		until(s.g.l, s.g.waiting);
		eq_int(sscanf(s.g.timeout, "%um", &sent), 1);
		is_true(sent >= rows[i].least && sent <= rows[i].most);
		scene_stop(&s);
	}
}

TEST(U44_a_call_whose_time_is_over_ends_with_4_on_both_sides)
{
	static const char *const headers[] = { "X-Sandbox-ID", "box", "grpc-timeout", "60m", NULL };

	for (int begun = 0; begun < 2; begun++) {
		struct scene s;

		scene_start(&s, NULL);
		call_start(&s.g, s.pool, &(struct ask){ .headers = headers }, &s.c);
		until(s.g.l, s.g.waiting);
		if (begun)
			http_respond_start(s.g.waiting, 200, NULL, -1);
		until(s.g.l, s.c.n_end);
		eq_str(status_of(&s.c), "4");
		until(s.g.l, !s.g.waiting); /* the sandbox is told */
		scene_stop(&s);
	}
}

TEST(U44_a_cancelled_call_is_cancelled_in_the_sandbox)
{
	struct scene s;

	scene_start(&s, NULL);
	call_start(&s.g, s.pool, &(struct ask){ .headers = to_box }, &s.c);
	until(s.g.l, s.g.waiting);
	http_exchange_cancel(take(s.c.x));
	until(s.g.l, !s.g.waiting);
	scene_stop(&s);
}

TEST(a_call_that_breaks_off_ends_with_14)
{
	struct scene s;

	scene_start(&s, NULL);
	call_start(&s.g, s.pool, &(struct ask){ .headers = to_box }, &s.c);
	until(s.g.l, s.g.waiting);
	http_respond_start(s.g.waiting, 200, NULL, -1);
	http_respond_write(s.g.waiting, "part", 4);
	until(s.g.l, s.c.body.len == 4);
	http_respond_abort(s.g.waiting);
	until(s.g.l, s.c.n_end);
	eq_str(status_of(&s.c), "14");
	scene_stop(&s);
}

TEST(U44_a_slow_reader_of_a_call_slows_the_sandbox)
{
	autofree char *piece = xcalloc(1, 64 * 1024);
	struct scene s;
	size_t sent = 0;

	scene_start(&s, NULL);
	call_start(&s.g, s.pool, &(struct ask){ .headers = to_box }, &s.c);
	s.c.pause = true;
	until(s.g.l, s.g.waiting);
	http_respond_start(s.g.waiting, 200, NULL, -1);
	for (int quiet = 0; quiet < 20; quiet++) {
		if (!http_respond_full(s.g.waiting)) {
			http_respond_write(s.g.waiting, piece, 64 * 1024);
			sent += 64 * 1024;
			quiet = 0;
		}
		loop_turn(s.g.l, 1);
		is_true(sent < 8 * 1024 * 1024);
	}
	scene_stop(&s);
}

TEST(only_calls_go_by_http2)
{
	static const struct {
		const char *method, *type;
		int version;
	} rows[] = {
		{ "POST", "application/grpc", 2 },  { "POST", "application/grpc+proto", 2 },
		{ "POST", "application/grpcx", 1 }, { "POST", "application/grpc-web", 1 },
		{ "POST", "text/plain", 1 },        { "PUT", "application/grpc", 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scene s;

		scene_start(&s, NULL);
		call_start(&s.g, s.pool,
			   &(struct ask){ .path = "/echo?a=b",
					  .method = rows[i].method,
					  .type = rows[i].type,
					  .headers = to_box },
			   &s.c);
		http_exchange_write(s.c.x, "body", 4);
		http_exchange_end_body(s.c.x, NULL);
		until(s.g.l, s.c.n_end);
		eq_int(s.g.version, rows[i].version);
		eq_int(s.c.status, 201);
		eq_str(buf_str(&s.c.body) + s.c.body.len - 6, "\n\nbody");
		is_true(strstr(buf_str(&s.c.body), " /echo?a=b\n") != NULL);
		is_true(strstr(buf_str(&s.c.body), "127.0.0.2:") != NULL); /* its own Host */
		scene_stop(&s);
	}
}

TEST(a_connection_with_many_requests_takes_no_more_than_its_share)
{
	const struct router_spec spec = { .max_conns = 3 };
	struct call more[4];
	struct scene s;

	scene_start(&s, &spec);
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		call_start(&s.g, s.pool,
			   &(struct ask){ .type = "text/plain",
					  .method = "GET",
					  .headers = to_box,
					  .bodiless = true },
			   &more[i]);
	until(s.g.l, more[3].n_end);
	eq_int(more[3].status, 503);
	is_true(rig_counted(&s.g,
			    "{method=\"GET\",code=\"503\",sandbox_namespace=\"default\"} 1\n"));
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		call_done(&more[i]);
	scene_stop(&s);
}

TEST(trailers_of_an_answer_reach_clients_of_http2)
{
	static const char text[] =
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
		"X-Sum: 42\r\nConnection: close\r\n\r\n";
	struct scene s;
	autofree char *addr = NULL;
	int listener, fd = -1;

	scene_start(&s, NULL);
	addr = xasprintf("127.0.0.3:%u", s.g.port);
	listener = rig_listen(addr);
	rig_ready(&s.g, "box", "127.0.0.3");
	call_start(&s.g, s.pool,
		   &(struct ask){ .type = "text/plain",
				  .method = "GET",
				  .headers = to_box,
				  .bodiless = true },
		   &s.c);
	until(s.g.l, (fd = accept(listener, NULL, NULL)) >= 0);
	(void)!write(fd, text, sizeof(text) - 1);
	until(s.g.l, s.c.n_end || s.c.n_failed);
	eq_str(buf_str(&s.c.body), "x");
	eq_str(http_headers_get(&s.c.trailers, "x-sum"), "42");
	eq_int(s.c.trailers.n, 1);
	(void)close(fd);
	(void)close(listener);
	scene_stop(&s);
}
