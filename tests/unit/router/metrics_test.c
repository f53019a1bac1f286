/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"
#include "rig.h"
#include "router/router_priv.h"

/* What is counted, how often is tried, and how much may be sent. The numbers are those of
 * docs/reference/dataplane.md §6.5. */
#define TO(name) "X-Sandbox-ID: " name "\r\nX-Sandbox-Port: %u\r\n"

static struct err *refuse(unused void *arg, unused const struct router_ask *ask,
			  unused struct list **ret_wait)
{
	return err_new(ERR_FORBIDDEN, "forbidden");
}

TEST(requests_are_counted_by_labels_that_peers_cannot_make_up)
{
	struct rig g = { 0 };

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	free(rig_ask(&g, "GET /", TO("box"), g.port));
	free(rig_ask(&g, "PROPFIND /", TO("box"), g.port));
	free(rig_ask(&g, "GET /", "%s", ""));
	router_set_policy(g.router, refuse, NULL);
	free(rig_ask(&g, "GET /", "X-Sandbox-ID: box\r\nX-Sandbox-Namespace: made-up\r\n"));
	is_true(rig_counted(&g, "sandbox_router_requests_total{method=\"GET\",code=\"201\","
				"sandbox_namespace=\"default\"} 1\n"));
	is_true(rig_counted(&g,
			    "{method=\"OTHER\",code=\"201\",sandbox_namespace=\"default\"} 1\n"));
	is_true(rig_counted(&g, "{method=\"GET\",code=\"400\",sandbox_namespace=\"-\"} 1\n"));
	is_true(rig_counted(&g, "{method=\"GET\",code=\"403\",sandbox_namespace=\"-\"} 1\n"));
	is_true(rig_counted(&g, "authz_decisions_total{sandbox_namespace=\"default\","
				"decision=\"allow\"} 2\n"));
	is_true(rig_counted(&g, "{sandbox_namespace=\"-\",decision=\"deny\"} 1\n"));
	is_true(rig_counted(&g, "sandbox_router_request_duration_seconds_count 4\n"));
	is_true(rig_counted(&g, "sandbox_router_inflight_requests 0\n"));
	rig_stop(&g);
}

static const struct router_spec retrying = {
	.has_retry = true,
	.retry = { .max = 3, .first_ms = 1, .last_ms = 2 },
};

TEST(dataplane_127_and_130_tries_are_limited)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, &retrying);
	rig_ready(&g, "box", "127.0.0.3"); /* nobody listens there */
	a = rig_ask(&g, "GET /", TO("box"), g.port);
	eq_int(rig_status(a), 502);
	is_true(rig_counted(&g, "upstream_retries_total{sandbox_namespace=\"default\"} 3\n"));
	is_true(rig_counted(&g, "{sandbox_namespace=\"default\",reason=\"dial\"} 4\n"));
	rig_stop(&g);
}

TEST(dataplane_128_no_tries_when_told_so)
{
	const struct router_spec once = { .has_retry = true };
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, &once);
	rig_ready(&g, "box", "127.0.0.3");
	a = rig_ask(&g, "GET /", TO("box"), g.port);
	eq_int(rig_status(a), 502);
	is_true(rig_counted(&g, "{sandbox_namespace=\"default\",reason=\"dial\"} 1\n"));
	rig_stop(&g);
}

TEST(a_body_over_the_limit_is_413)
{
	const struct router_spec small = { .max_body = 10 };
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL, *c = NULL;

	rig_start(&g, &small);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "POST /", TO("box") "Content-Length: 11\r\n\r\n12345678901", g.port);
	eq_int(rig_status(a), 413);
	eq_int(g.n_requests, 0);
	b = rig_ask(&g, "POST /", TO("box") "Content-Length: 10\r\n\r\n1234567890", g.port);
	eq_int(rig_status(b), 201);
	c = rig_ask(&g, "POST /b",
		    TO("box") "Transfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\nghijkl\r\n"
			      "0\r\n\r\n",
		    g.port);
	eq_int(rig_status(c), 413);
	rig_stop(&g);
}

TEST(a_head_must_come_in_time_whatever_is_asked_for)
{
	const struct router_spec hasty = { .head_timeout_ms = 30 };
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, &hasty);
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "GET /wait", TO("box") "X-Sandbox-Timeout: 60\r\n", g.port);
	eq_int(rig_status(a), 504);
	is_true(rig_counted(&g, "{sandbox_namespace=\"default\",reason=\"timeout\"} 1\n"));
	rig_stop(&g);
}

TEST(dataplane_166_draining_lets_requests_end)
{
	struct rig g = { 0 };
	autofree char *a = NULL;
	int fd, late = -1;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(&g, fd, "GET /wait HTTP/1.1\r\nHost: f\r\n" TO("box") "\r\n", g.port);
	until(g.l, g.waiting);
	router_drain(g.router);
	is_false(router_idle(g.router));
	late = rig_connect(&g);
	http_respond_text(g.waiting, 200, "done");
	a = rig_read(&g, fd, NULL); /* the connection is closed after it */
	eq_int(rig_status(a), 200);
	until(g.l, router_idle(g.router));
	(void)close(late);
	(void)close(fd);
	rig_stop(&g);
}

static int connect_to(const char *addr)
{
	int fd;

	works(net_connect(addr, &fd));
	return fd;
}

TEST(draining_lets_those_end_who_came_by_other_ports)
{
	const struct router_spec spec = { .domain = "sandbox.localhost",
					  .sni_listen = "127.0.0.1:0" };
	struct rig g = { 0 };
	struct router_stats st;
	autofree char *a = NULL, *none = NULL;
	int fd, tls, late, late_tls;

	rig_start(&g, &spec);
	works(router_listen_too(g.router, "127.0.0.3:0"));
	rig_ready(&g, "box", "127.0.0.2");
	fd = connect_to(g.router->gateway.address);
	rig_send(&g, fd, "GET /wait HTTP/1.1\r\nHost: f\r\n" TO("box") "\r\n", g.port);
	until(g.l, g.waiting);
	tls = connect_to(router_sni_address(g.router));
	until(g.l, (router_stats(g.router, &st), st.passing == 1));
	router_drain(g.router);
	late = connect_to(g.router->gateway.address);
	late_tls = connect_to(router_sni_address(g.router));
	rig_send(&g, late, "GET /healthz HTTP/1.1\r\nHost: f\r\nConnection: close\r\n\r\n");
	none = rig_read(&g, late, NULL);
	eq_str(none, "");
	is_false(router_idle(g.router));
	http_respond_text(g.waiting, 200, "done");
	a = rig_read(&g, fd, NULL);
	eq_int(rig_status(a), 200);
	(void)close(fd);
	until(g.l, !http_server_conns(g.router->gateway.server));
	is_false(router_idle(g.router)); /* the other one is still there, and no third */
	router_stats(g.router, &st);
	eq_int(st.passing, 1);
	(void)close(tls);
	until(g.l, router_idle(g.router));
	(void)close(late);
	(void)close(late_tls);
	rig_stop(&g);
}
