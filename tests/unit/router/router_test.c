/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"
#include "rig.h"

/* The numbers are those of docs/reference/dataplane.md §6.4–6.6 and of docs/reference/cases.md (U).
 */
#define TO_BOX "X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"
#define NO_BOX "{\"detail\":\"Could not connect to the backend sandbox: box\",\"code\":\""

static bool has(const char *text, const char *part)
{
	bool there = strstr(text, part);

	if (!there)
		print_error("\"%s\" is not in: %s\n", part, text);
	return there;
}

TEST(dataplane_124_healthz_needs_no_headers)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, NULL);
	a = rig_ask(&g, "GET /healthz", "%s", "");
	eq_int(rig_status(a), 200);
	is_true(has(a, "{\"status\":\"ok\"}"));
	rig_stop(&g);
}

TEST(dataplane_95_and_125_errors_are_json)
{
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL;

	rig_start(&g, NULL);
	a = rig_ask(&g, "GET /", "%s", "");
	eq_int(rig_status(a), 400);
	is_true(has(a, "Content-Type: application/json\r\n"));
	is_true(has(a, "\r\n\r\n{\"detail\":\"X-Sandbox-ID header is required.\"}\n"));
	b = rig_ask(&g, "GET /", "X-Sandbox-ID: box\r\nX-Sandbox-Port: 0\r\n");
	is_true(has(b, "{\"detail\":\"Invalid port format.\"}\n"));
	eq_int(g.n_requests, 0);
	rig_stop(&g);
}

TEST(dataplane_111_a_request_goes_there_and_back)
{
	struct rig g = { 0 };
	autofree char *a = NULL, *host = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "GET /echo?a=1&b=2", TO_BOX "Origin: o\r\n", g.port);
	eq_int(rig_status(a), 201);
	host = xasprintf("Host: 127.0.0.2:%u\n", g.port);
	is_true(has(a, host)); /* 117 */
	is_true(has(a, "GET /echo?a=1&b=2\n"));
	is_true(has(a, "X-Sandbox-ID: box\n"));
	is_true(has(a, "X-From: upstream\r\n"));
	is_true(has(a, "Origin: o\n")); /* 123 */
	rig_stop(&g);
}

TEST(dataplane_109_paths_arrive_as_they_were_sent)
{
	static const char *const paths[] = { "/a%2Fb?q=1", "/%2e%2e/x", "//x//y",
					     "/x?",        "/?a=%",     "/a;b=c/./d?x=/../y" };
	struct rig g = { 0 };

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		autofree char *head = xasprintf("GET %s", paths[i]);
		autofree char *line = xasprintf("GET %s\n", paths[i]);
		autofree char *a = rig_ask(&g, head, TO_BOX, g.port);

		is_true(has(a, line));
	}
	rig_stop(&g);
}

TEST(dataplane_112_every_method_is_forwarded)
{
	static const char *const methods[] = { "GET",   "POST",    "PUT",      "DELETE",
					       "PATCH", "OPTIONS", "PROPFIND", "REPORT" };
	struct rig g = { 0 };
	autofree char *h = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		autofree char *head = xasprintf("%s /m", methods[i]);
		autofree char *line = xasprintf("%s /m\n", methods[i]);
		autofree char *a = rig_ask(&g, head, TO_BOX "Content-Length: 0\r\n", g.port);

		eq_int(rig_status(a), 201);
		is_true(has(a, line));
	}
	h = rig_ask(&g, "HEAD /m", TO_BOX, g.port);
	eq_int(rig_status(h), 201);
	is_true(has(h, "Content-Length: "));
	is_true(str_ends(h, "\r\n\r\n"));
	rig_stop(&g);
}

TEST(dataplane_113_bodies_arrive_whole)
{
	struct rig g = { 0 };
	autofree char *body = xmalloc(56 * 1024 + 1), *a = NULL, *b = NULL;

	memset(body, 'x', 56 * 1024);
	body[56 * 1024] = 0;
	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "POST /b", TO_BOX "Content-Length: %zu\r\n\r\n%s", g.port, strlen(body),
		    body);
	is_true(strstr(a, body));
	b = rig_ask(&g, "POST /b",
		    TO_BOX "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
		    g.port);
	is_true(str_ends(b, "\n\nabcdef"));
	rig_stop(&g);
}

TEST(a_client_that_waits_for_100_gets_it)
{
	struct rig g = { 0 };
	autofree char *go = NULL, *a = NULL;
	int fd;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(&g, fd,
		 "POST /b HTTP/1.1\r\nHost: f\r\nConnection: close\r\nExpect: 100-continue\r\n"
		 "Content-Length: 3\r\n" TO_BOX "\r\n",
		 g.port);
	go = rig_read(&g, fd, "100 Continue\r\n\r\n");
	rig_send(&g, fd, "abc");
	a = rig_read(&g, fd, NULL);
	is_true(str_ends(a, "\n\nabc"));
	is_false(strstr(a, "Expect"));
	(void)close(fd);
	rig_stop(&g);
}

TEST(dataplane_114_nothing_listens)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.3");
	a = rig_ask(&g, "GET /", TO_BOX, 1);
	eq_int(rig_status(a), 502);
	is_true(has(a, NO_BOX "PortRefused\""));
	rig_stop(&g);
}

TEST(an_unknown_sandbox_is_502)
{
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL, *c = NULL, *d = NULL;

	rig_start(&g, NULL);
	a = rig_ask(&g, "GET /", TO_BOX, g.port);
	eq_int(rig_status(a), 502);
	is_true(has(a, NO_BOX "SandboxNotFound\""));
	is_true(has(a, "X-Sandbox-Error: SandboxNotFound\r\n"));
	rig_ready(&g, "box", "127.0.0.2");
	b = rig_ask(&g, "GET /", TO_BOX "X-Sandbox-Namespace: other\r\n", g.port);
	eq_int(rig_status(b), 502);
	c = rig_ask(&g, "GET /", TO_BOX "X-Sandbox-UID: other\r\n", g.port);
	eq_int(rig_status(c), 502);
	is_true(has(c, NO_BOX "SandboxReplaced\""));
	d = rig_ask(&g, "GET /", TO_BOX "X-Sandbox-UID: uid-box\r\n", g.port);
	eq_int(rig_status(d), 201);
	rig_stop(&g);
}

TEST(the_pod_ip_header_opens_no_other_address)
{
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL;

	rig_start(&g, NULL);
	rig_sandbox(&g, "box",
		    "{\"status\":{\"podIPs\":[\"127.0.0.3\",\"127.0.0.2\"],\"conditions\":"
		    "[{\"type\":\"Ready\",\"status\":\"True\"}]}}");
	a = rig_ask(&g, "GET /", TO_BOX "X-Sandbox-Pod-IP: 127.0.0.2\r\n", g.port);
	eq_int(rig_status(a), 201); /* 92 */
	rig_ready(&g, "box", "127.0.0.3");
	b = rig_ask(&g, "GET /", TO_BOX "X-Sandbox-Pod-IP: 127.0.0.2\r\n", g.port);
	eq_int(rig_status(b), 502);
	eq_int(g.n_requests, 1);
	rig_stop(&g);
}

TEST(dataplane_115_a_silent_backend_is_504)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "GET /wait", TO_BOX "X-Sandbox-Timeout: 0.3\r\n", g.port);
	eq_int(rig_status(a), 504);
	is_true(has(a, "{\"detail\":\"Timed out waiting for the backend sandbox: box\","
		       "\"code\":\"NoAnswer\","));
	until(g.l, !g.waiting); /* and the backend is told */
	rig_stop(&g);
}

TEST(dataplane_122_the_proxy_timeout_is_the_most)
{
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL;

	rig_start(&g, &(struct router_spec){ .proxy_timeout_ms = 200 });
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "GET /wait", TO_BOX, g.port);
	eq_int(rig_status(a), 504);
	b = rig_ask(&g, "GET /wait", TO_BOX "X-Sandbox-Timeout: 500\r\n", g.port);
	eq_int(rig_status(b), 504);
	rig_stop(&g);
}

TEST(dataplane_116_and_118_what_is_ours_stays_outside)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "GET /",
		    TO_BOX
		    "Authorization: Bearer s3cret\r\nTE: trailers\r\nKeep-Alive: 5\r\n"
		    "Proxy-Authorization: p\r\nX-Hop: h\r\nConnection: X-Hop\r\n"
		    "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.czNj, p2\r\n"
		    "X-Request-ID: r1\r\n",
		    g.port);
	is_false(strstr(a, "s3cret"));
	is_false(strstr(a, "czNj"));
	is_true(has(a, "Sec-WebSocket-Protocol: p2\n"));
	is_false(strstr(a, "X-Hop: h"));
	is_false(strstr(a, "TE: "));
	is_false(strstr(a, "Keep-Alive: 5"));
	is_false(strstr(a, "Proxy-"));
	is_true(has(a, "X-Request-ID: r1\n"));
	rig_stop(&g);
}

TEST(dataplane_119_forwarded_headers_are_ours)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "GET /",
		    TO_BOX "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: evil\r\n"
			   "Forwarded: for=6.6.6.6\r\n",
		    g.port);
	is_false(strstr(a, "6.6.6.6"));
	is_false(strstr(a, "evil"));
	is_true(has(a, "X-Forwarded-For: 127.0.0.1\n"));
	is_true(has(a, "X-Forwarded-Host: front.example\n"));
	is_true(has(a, "X-Forwarded-Proto: http\n"));
	rig_stop(&g);
}

TEST(dataplane_120_121_123_and_U45_a_tunnel_carries_both_ways_and_outlives_the_timeout)
{
	struct rig g = { 0 };
	struct router_stats s;
	autofree char *a = NULL, *b = NULL, *end = NULL;
	usec until_then;
	int fd;

	rig_start(&g, &(struct router_spec){ .proxy_timeout_ms = 200 });
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(&g, fd,
		 "GET /upgrade HTTP/1.1\r\nHost: f\r\nConnection: keep-alive, Upgrade\r\n"
		 "Upgrade: websocket\r\nOrigin: http://evil\r\n" TO_BOX "\r\nearly ",
		 g.port);
	a = rig_read(&g, fd, "early ");
	eq_int(rig_status(a), 101);
	is_true(has(a, "Upgrade: websocket\r\n"));
	is_true(has(a, "X-Origin: no\r\n"));
	is_true(has(a, "hello early "));
	router_stats(g.router, &s);
	eq_int(s.tunnels, 1);
	until_then = clock_mono() + 400 * 1000;
	until(g.l, clock_mono() > until_then);
	rig_send(&g, fd, "late");
	b = rig_read(&g, fd, "late");
	(void)shutdown(fd, SHUT_WR); /* half-close is passed on and comes back */
	end = rig_read(&g, fd, NULL);
	eq_str(end, "");
	(void)close(fd);
	until(g.l, (router_stats(g.router, &s), s.tunnels == 0));
	rig_stop(&g);
}

TEST(a_refused_upgrade_is_an_ordinary_answer)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "GET /plain", TO_BOX "Connection: upgrade\r\nUpgrade: websocket\r\n",
		    g.port);
	eq_int(rig_status(a), 201);
	rig_stop(&g);
}

static int accept_one(struct rig *g, int listener)
{
	int fd = -1;

	until(g->l, (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
	return fd;
}

static uint16_t port_of(int fd)
{
	char addr[64];

	works(net_local_addr(fd, addr, sizeof(addr)));
	return (uint16_t)strtoul(strrchr(addr, ':') + 1, NULL, 10);
}

/* A request to an upstream that answers with these bytes and closes; the whole answer. */
static char *ask_raw_upstream(struct rig *g, const char *answer)
{
	int listener = rig_listen("127.0.0.2:0"), up, down = rig_connect(g);
	autofree char *head = NULL;
	char *got;

	rig_send(g, down, "GET / HTTP/1.1\r\nHost: f\r\nConnection: close\r\n" TO_BOX "\r\n",
		 port_of(listener));
	up = accept_one(g, listener);
	head = rig_read(g, up, "\r\n\r\n");
	rig_send(g, up, "%s", answer);
	(void)close(up);
	got = rig_read(g, down, NULL);
	(void)close(down);
	(void)close(listener);
	return got;
}

TEST(dataplane_134_101_to_a_plain_request_is_502)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	a = ask_raw_upstream(&g, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
				 "Connection: Upgrade\r\n\r\n");
	eq_int(rig_status(a), 502);
	is_true(has(a, "Backend attempted a WebSocket upgrade over HTTP."));
	rig_stop(&g);
}

TEST(broken_upstreams_are_502_and_torn_answers_are_torn)
{
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL, *c = NULL, *d = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	a = ask_raw_upstream(&g, "rubbish\r\n\r\n");
	eq_int(rig_status(a), 502);
	b = ask_raw_upstream(&g, "");
	eq_int(rig_status(b), 502);
	c = ask_raw_upstream(&g,
			     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	eq_int(rig_status(c), 200);
	is_false(strstr(c, "0\r\n\r\n")); /* the peer must notice */
	d = ask_raw_upstream(
		&g, "HTTP/1.0 200 OK\r\nConnection: X-Secret\r\nX-Secret: s\r\n\r\nuntil the end");
	is_true(has(d, "until the end"));
	is_true(has(d, "0\r\n\r\n"));
	is_false(strstr(d, "X-Secret")); /* 118, the other way */
	rig_stop(&g);
}

TEST(U41_a_starting_sandbox_is_waited_for)
{
	struct rig g = { 0 };
	struct router_stats s;
	autofree char *a = NULL;
	int fd;

	rig_start(&g, NULL);
	rig_sandbox(&g, "box", "{}");
	fd = rig_connect(&g);
	rig_send(&g, fd,
		 "POST /x HTTP/1.1\r\nHost: f\r\nConnection: close\r\nX-Sandbox-Timeout: 60\r\n"
		 "Content-Length: 4\r\n" TO_BOX "\r\nbody",
		 g.port);
	until(g.l, (router_stats(g.router, &s), s.held == 1));
	rig_sandbox(&g, "box", "{\"status\":{}}"); /* a change, but not the one */
	rig_settle(&g);
	router_stats(g.router, &s);
	eq_int(s.held, 1);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_read(&g, fd, NULL);
	eq_int(rig_status(a), 201);
	is_true(str_ends(a, "\n\nbody"));
	router_stats(g.router, &s);
	eq_int(s.held, 0);
	(void)close(fd);
	rig_stop(&g);
}

TEST(a_wait_ends_with_its_time_its_sandbox_or_its_client)
{
	struct rig g = { 0 };
	struct router_stats s;
	autofree char *a = NULL, *b = NULL, *c = NULL;
	int fd;

	rig_start(&g, &(struct router_spec){ .hold_ms = 200 });
	rig_sandbox(&g, "box", "{}");
	a = rig_ask(&g, "GET /", TO_BOX, g.port);
	eq_int(rig_status(a), 504);
	is_true(has(a, "\"code\":\"SandboxStarting\""));
	rig_sandbox(&g, "box", "{\"spec\":{\"operatingMode\":\"Suspended\"}}");
	b = rig_ask(&g, "GET /", TO_BOX, g.port);
	eq_int(rig_status(b), 502); /* nobody is starting it */
	is_true(has(b, NO_BOX "SandboxSuspended\""));
	rig_sandbox(&g, "box", "{}");
	fd = rig_connect(&g);
	rig_send(&g, fd, "GET / HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", g.port);
	until(g.l, (router_stats(g.router, &s), s.held == 1));
	rig_delete(&g, "box");
	c = rig_read(&g, fd, NO_BOX "SandboxNotFound\"");
	eq_int(rig_status(c), 502);
	rig_sandbox(&g, "box", "{}");
	rig_send(&g, fd, "GET / HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", g.port);
	until(g.l, (router_stats(g.router, &s), s.held == 1));
	(void)close(fd);
	until(g.l, (router_stats(g.router, &s), s.held == 0 && s.active == 0));
	rig_stop(&g);
}

TEST(a_request_before_the_first_list_waits_for_it)
{
	struct rig g = { .late = true };
	struct router_stats s;
	autofree char *a = NULL, *b = NULL;
	int fd, other;

	rig_start(&g, NULL);
	fd = rig_connect(&g);
	other = rig_connect(&g);
	rig_send(&g, fd, "GET / HTTP/1.1\r\nHost: f\r\nConnection: close\r\n" TO_BOX "\r\n",
		 g.port);
	rig_send(&g, other,
		 "GET / HTTP/1.1\r\nHost: f\r\nConnection: close\r\nX-Sandbox-ID: none\r\n\r\n");
	until(g.l, (router_stats(g.router, &s), s.held == 2));
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_read(&g, fd, NULL);
	eq_int(rig_status(a), 201);
	router_stats(g.router, &s);
	eq_int(s.held, 1);
	rig_synced(&g);
	b = rig_read(&g, other, NULL);
	eq_int(rig_status(b), 502); /* now we know */
	(void)close(fd);
	(void)close(other);
	rig_stop(&g);
}

TEST(too_many_waiting_are_told_to_come_again)
{
	struct rig g = { 0 };
	struct router_stats s;
	int fds[512];
	autofree char *a = NULL;

	rig_start(&g, NULL);
	rig_sandbox(&g, "box", "{}");
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = rig_connect(&g);
		rig_send(&g, fds[i], "GET / HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", g.port);
	}
	until(g.l, (router_stats(g.router, &s), s.held == ARRAY_LEN(fds)));
	a = rig_ask(&g, "GET /", TO_BOX, g.port);
	eq_int(rig_status(a), 503);
	is_true(has(a, "Retry-After: 1\r\n"));
	rig_ready(&g, "box", "127.0.0.2");
	until(g.l, g.n_requests == ARRAY_LEN(fds)); /* none is lost */
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
	rig_stop(&g);
}

TEST(dataplane_130_a_port_that_opens_late_is_reached)
{
	struct rig g = { 0 };
	autofree char *head = NULL, *a = NULL;
	int listener = rig_listen("127.0.0.2:0"), down, up;
	uint16_t port = port_of(listener);
	usec then = clock_mono() + 300 * 1000;
	autofree char *addr = xasprintf("127.0.0.2:%u", port);

	(void)close(listener);
	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	down = rig_connect(&g);
	rig_send(&g, down,
		 "POST / HTTP/1.1\r\nHost: f\r\nConnection: close\r\nContent-Length: 4\r\n" TO_BOX
		 "\r\nbody",
		 port);
	until(g.l, clock_mono() > then);
	listener = rig_listen(addr);
	up = accept_one(&g, listener);
	head = rig_read(&g, up, "body");
	rig_send(&g, up, "HTTP/1.1 204 No Content\r\n\r\n");
	a = rig_read(&g, down, NULL);
	eq_int(rig_status(a), 204);
	(void)close(up);
	(void)close(down);
	(void)close(listener);
	rig_stop(&g);
}

TEST(dataplane_126_a_request_that_was_taken_is_not_sent_twice)
{
	struct rig g = { 0 };
	autofree char *head = NULL, *a = NULL;
	int listener = rig_listen("127.0.0.2:0"), down, up;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	down = rig_connect(&g);
	rig_send(&g, down,
		 "POST / HTTP/1.1\r\nHost: f\r\nConnection: close\r\nContent-Length: 4\r\n" TO_BOX
		 "\r\nbody",
		 port_of(listener));
	up = accept_one(&g, listener);
	head = rig_read(&g, up, "body");
	(void)close(up);
	a = rig_read(&g, down, NULL);
	eq_int(rig_status(a), 502);
	eq_int(accept4(listener, NULL, NULL, SOCK_NONBLOCK), -1);
	(void)close(down);
	(void)close(listener);
	rig_stop(&g);
}

TEST(U47_a_replaced_pod_is_reached_at_its_new_address)
{
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "GET /", TO_BOX, g.port);
	eq_int(rig_status(a), 201);
	rig_ready(&g, "box", "127.0.0.3");
	rig_ready(&g, "box", "127.0.0.2");
	b = rig_ask(&g, "GET /", TO_BOX, g.port);
	eq_int(rig_status(b), 201);
	rig_stop(&g);
}

TEST(events_are_passed_on_as_they_come)
{
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL;
	int fd;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(&g, fd, "GET /wait HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", g.port);
	until(g.l, g.waiting);
	http_respond_start(g.waiting, 200, NULL, -1);
	http_respond_write(g.waiting, "data: 1\n\n", 9);
	a = rig_read(&g, fd, "data: 1\n\n");
	http_respond_write(g.waiting, "data: 2\n\n", 9);
	b = rig_read(&g, fd, "data: 2\n\n");
	(void)close(fd);
	until(g.l, !g.waiting); /* a client that leaves ends it upstream */
	rig_stop(&g);
}

/* More than the sockets on the way may hold: tcp_rmem allows each 32 MiB on some hosts. */
#define MUCH ((size_t)96 << 20)

TEST(a_slow_reader_slows_the_sandbox)
{
	struct rig g = { 0 };
	autofree char *piece = xcalloc(1, 65536), *all = NULL;
	size_t sent = 0, got = 0, total = MUCH;
	int fd;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(&g, fd, "GET /wait HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", g.port);
	until(g.l, g.waiting);
	http_respond_start(g.waiting, 200, NULL, (int64_t)total);
	for (int idle = 0; sent < total && idle < 100;) {
		if (http_respond_full(g.waiting)) {
			idle++;
		} else {
			http_respond_write(g.waiting, piece, 65536);
			sent += 65536;
			idle = 0;
		}
		loop_turn(g.l, 1);
	}
	is_true(sent < total); /* it stopped, with megabytes in kernels and our marks */
	while (got < total) {
		ssize_t n = recv(fd, piece, 65536, 0);

		got += n > 0 ? (size_t)n : 0;
		while (sent < total && g.waiting && !http_respond_full(g.waiting)) {
			size_t len = MIN((size_t)65536, total - sent);

			memset(piece, 0, 65536);
			http_respond_write(g.waiting, piece, len);
			sent += len;
			if (sent == total)
				http_respond_end(g.waiting);
		}
		loop_turn(g.l, 0);
	}
	(void)close(fd);
	rig_stop(&g);
}

TEST(a_slow_sandbox_slows_the_client)
{
	struct rig g = { 0 };
	autofree char *piece = xcalloc(1, 65536);
	size_t sent = 0, total = MUCH;
	usec end = clock_mono() + 60 * 1000000;
	bool resumed = false;
	int fd, idle = 0;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(&g, fd, "POST /wait HTTP/1.1\r\nHost: f\r\nContent-Length: %zu\r\n" TO_BOX "\r\n",
		 total, g.port);
	until(g.l, g.waiting);
	http_request_pause(g.waiting, true);
	while (sent < total && clock_mono() < end) {
		ssize_t n = send(fd, piece, MIN((size_t)65536, total - sent), MSG_NOSIGNAL);

		sent += n > 0 ? (size_t)n : 0;
		idle = n > 0 ? 0 : idle + 1;
		if (idle > 100 && !resumed) {
			is_true(sent < total);
			resumed = true;
			http_request_pause(g.waiting, false);
		}
		loop_turn(g.l, n > 0 ? 0 : 1);
	}
	is_true(resumed);
	until(g.l, g.body_ended);
	eq_int(g.body.len, total);
	(void)close(fd);
	rig_stop(&g);
}

static struct err *refuse(void *arg, const struct router_ask *ask, unused struct list **ret_wait)
{
	eq_str(ask->ns, "default");
	eq_str(ask->sandbox, "box");
	return err_new(*(enum err_code *)arg, "user \"x\" may not");
}

TEST(dataplane_143_and_144_a_policy_decides_first)
{
	static const struct {
		enum err_code code;
		int status;
		const char *body;
	} rows[] = { { ERR_UNAUTHENTICATED, 401, "{\"detail\":\"user \\\"x\\\" may not\"}\n" },
		     { ERR_FORBIDDEN, 403, "{\"detail\":\"user \\\"x\\\" may not\"}\n" },
		     { ERR_INTERNAL, 500, "An internal error occurred in the proxy." } };
	struct rig g = { 0 };

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum err_code code = rows[i].code;
		autofree char *a = NULL;

		router_set_policy(g.router, refuse, &code);
		a = rig_ask(&g, "GET /", TO_BOX, g.port);
		eq_int(rig_status(a), rows[i].status);
		is_true(has(a, rows[i].body)); /* the policy's own words, unless they are for us */
	}
	eq_int(g.n_requests, 0);
	rig_stop(&g);
}

TEST(refusals_do_not_flood_the_log)
{
	enum err_code code = ERR_UNAUTHENTICATED;
	int log = memfd_create("log", MFD_CLOEXEC), old = dup(STDERR_FILENO), n_lines = 0;
	usec begin = clock_mono();
	struct router_stats st;
	struct rig g = { 0 };
	char text[65536] = "";

	rig_start(&g, NULL);
	router_set_policy(g.router, refuse, &code);
	is_true(dup2(log, STDERR_FILENO) >= 0);
	for (int i = 0; i < 200; i++)
		free(rig_ask(&g, "GET /", TO_BOX, g.port));
	is_true(dup2(old, STDERR_FILENO) >= 0);
	is_true(pread(log, text, sizeof(text) - 1, 0) > 0);
	for (const char *p = text; (p = strstr(p, "refused")); p++)
		n_lines++;
	is_true(n_lines >= 1 && n_lines <= 1 + (clock_mono() - begin) / 1000000);
	router_stats(g.router, &st);
	eq_int(st.refused, 200);
	(void)close(old);
	(void)close(log);
	rig_stop(&g);
}

TEST(dataplane_167_a_busy_port_is_an_error)
{
	struct rig g = { 0 };
	struct router *second = NULL;

	rig_start(&g, NULL);
	fails(router_start(g.l, g.client,
			   &(struct router_spec){ .listen = router_address(g.router) }, &second),
	      ERR_SYS);
	fails(router_listen_too(g.router, router_address(g.router)), ERR_SYS);
	rig_stop(&g);
}

TEST(many_requests_share_a_few_connections)
{
	struct rig g = { 0 };
	int fd;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	for (int i = 0; i < 50; i++) {
		autofree char *a = NULL;

		rig_send(&g, fd, "GET /x HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", g.port);
		a = rig_read(&g, fd, "\n\n");
		eq_int(rig_status(a), 201);
	}
	eq_int(http_server_conns(g.server), 1);
	(void)close(fd);
	rig_stop(&g);
}
