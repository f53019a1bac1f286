/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "rig.h"

/* Those who may have to leave. */
#define TO_BOX "X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"

static struct err *lets_everybody_in(void *arg, const struct router_ask *ask,
				     struct list **ret_wait unused)
{
	const bool *reviewed = arg;

	router_ask_is(ask, "eve");
	if (*reviewed)
		router_ask_review(ask);
	return NULL;
}

struct host {
	bool stays;
	int n_asked;
};

static bool stays(void *arg, const struct router_stay *s)
{
	struct host *h = arg;

	eq_str(s->who, "eve");
	eq_str(s->ns, "default");
	eq_str(s->sandbox, "box");
	h->n_asked++;
	return h->stays;
}

static void start(struct rig *g, bool *reviewed)
{
	rig_start(g, NULL);
	router_set_policy(g->router, lets_everybody_in, reviewed);
}

TEST(who_waits_for_an_answer_gets_one)
{
	struct rig g = { 0 };
	struct host h = { .stays = true };
	bool reviewed = true;
	autofree char *a = NULL;
	int fd;

	start(&g, &reviewed);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(&g, fd, "GET /wait HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", g.port);
	until(g.l, g.waiting);
	router_review(g.router, stays, &h);
	is_true(g.waiting);
	h.stays = false;
	router_review(g.router, stays, &h);
	eq_int(h.n_asked, 2);
	a = rig_read(&g, fd, "no longer there");
	eq_int(rig_status(a), 403);
	until(g.l, !g.waiting); /* the sandbox is told */
	(void)close(fd);
	rig_stop(&g);
}

TEST(who_waits_for_a_sandbox_waits_no_longer)
{
	struct rig g = { 0 };
	struct router_stats s;
	struct host h = { 0 };
	bool reviewed = true;
	autofree char *a = NULL;
	int fd;

	start(&g, &reviewed);
	rig_sandbox(&g, "box", "{}");
	fd = rig_connect(&g);
	rig_send(&g, fd, "GET / HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", g.port);
	until(g.l, (router_stats(g.router, &s), s.held == 1));
	router_review(g.router, stays, &h);
	a = rig_read(&g, fd, "no longer there");
	eq_int(rig_status(a), 403);
	rig_ready(&g, "box", "127.0.0.2");
	rig_settle(&g);
	eq_int(g.n_requests, 0);
	(void)close(fd);
	rig_stop(&g);
}

TEST(an_answer_is_cut_and_not_ended)
{
	struct rig g = { 0 };
	struct host h = { 0 };
	bool reviewed = true;
	autofree char *a = NULL, *b = NULL;
	int fd;

	start(&g, &reviewed);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(&g, fd, "GET /wait HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", g.port);
	until(g.l, g.waiting);
	http_respond_start(g.waiting, 200, NULL, -1);
	http_respond_write(g.waiting, "one", 3);
	a = rig_read(&g, fd, "one");
	router_review(g.router, stays, &h);
	b = rig_read(&g, fd, NULL);
	is_true(!strstr(b, "0\r\n\r\n")); /* the last chunk */
	until(g.l, !g.waiting);
	(void)close(fd);
	router_review(g.router, stays, &h);
	eq_int(h.n_asked, 1); /* it is forgotten */
	rig_stop(&g);
}

static void review_tunnels(bool reviewed, int expected)
{
	struct rig g = { 0 };
	struct router_stats s;
	struct host h = { 0 };
	int fds[2];

	start(&g, &reviewed);
	rig_ready(&g, "box", "127.0.0.2");
	for (int i = 0; i < 2; i++) {
		autofree char *head = NULL;

		fds[i] = rig_connect(&g);
		rig_send(&g, fds[i],
			 "GET /upgrade HTTP/1.1\r\nHost: f\r\nConnection: Upgrade\r\n"
			 "Upgrade: websocket\r\n" TO_BOX "\r\n",
			 g.port);
		head = rig_read(&g, fds[i], "hello ");
	}
	router_review(g.router, stays, &h);
	eq_int(h.n_asked, reviewed ? 2 : 0);
	router_stats(g.router, &s);
	eq_int(s.tunnels, expected);
	for (int i = 0; i < 2; i++) {
		autofree char *rest = reviewed ? rig_read(&g, fds[i], NULL) : NULL;

		(void)close(fds[i]);
	}
	rig_stop(&g);
}

TEST(tunnels_end_unless_nobody_reviews_them)
{
	review_tunnels(true, 0);
	review_tunnels(false, 2);
}
