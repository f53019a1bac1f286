/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain requests to the API, by clients with a connection each: a client sends its next request
 * when the last is answered. Nothing here knows of sandboxes, so any API server can be measured.
 */
#include <stdio.h>

#include "base/mem.h"
#include "cli/bench/bench_priv.h"
#include "loop/loop.h"

enum {
	STALL_MS = 60000,
};

struct engine;

struct client {
	struct engine *g;
	struct lane lane;
	struct call call;
	double begin;
};

struct engine {
	struct bench *b;
	const struct requests *spec;
	struct row *row;
	struct client *clients;
	size_t n_started, n_over;
	usec progress;
	bool done;
};

static void send_next(struct client *c)
{
	struct engine *g = c->g;
	autofree char *path = NULL;
	autofree char *body = NULL;
	size_t i = g->n_started++;

	path = g->spec->path(g->b, g->spec, i);
	body = g->spec->body ? g->spec->body(g->b, g->spec, i) : NULL;
	c->begin = (double)clock_mono();
	call_start(&c->call, &c->lane,
		   &(struct ask){ .method = g->spec->method,
				  .path = path,
				  .body = body,
				  .accept = g->spec->accept });
}

static void on_answer(struct call *call)
{
	struct client *c = container_of(call, struct client, call);
	struct engine *g = c->g;

	g->progress = clock_mono();
	if (call_ok(call)) {
		samples_add(&g->row->us, (double)clock_mono() - c->begin);
	} else if (!g->row->n_failed++) {
		autoptr(err) e = call_error(call);

		(void)fprintf(stderr, "cay: bench: %s: %s; further failures are counted only\n",
			      g->row->name, err_text(e));
	}
	g->done = ++g->n_over == g->spec->n;
	if (g->n_started < g->spec->n)
		send_next(c);
}

/* Every connection is open before the clock starts. */
static struct err *open_lanes(struct engine *g)
{
	struct err *e = NULL;

	for (unsigned i = 0; i < g->spec->clients; i++) {
		g->clients[i].g = g;
		lane_init(&g->clients[i].lane, &g->b->api);
		call_start(&g->clients[i].call, &g->clients[i].lane,
			   &(struct ask){ .method = "GET", .path = "/version" });
	}
	for (unsigned i = 0; !e && i < g->spec->clients; i++) {
		e = bench_until(g->b, &g->clients[i].call.over, STALL_MS);
		if (!e && !call_ok(&g->clients[i].call))
			e = err_wrap(call_error(&g->clients[i].call), "open a connection");
	}
	return e;
}

static struct err *engine_run(struct engine *g)
{
	g->progress = clock_mono();
	for (unsigned i = 0; i < g->spec->clients && g->n_started < g->spec->n; i++) {
		g->clients[i].call.done = on_answer;
		send_next(&g->clients[i]);
	}
	while (!g->done) {
		(void)loop_turn(g->b->loop, 100); /* ended by the event that we wait for */
		if (g->b->stopped)
			return err_new(ERR_UNAVAILABLE, "interrupted");
		if (clock_mono() > g->progress + (usec)STALL_MS * 1000)
			return err_new(ERR_TIMEOUT, "no answer within %d s", STALL_MS / 1000);
	}
	return NULL;
}

struct err *requests_run(struct bench *b, const struct requests *spec, struct row *row)
{
	struct engine g = { .b = b, .spec = spec, .row = row };
	struct usage was = { 0 }, now = { 0 };
	double begin, wall, own;
	struct err *e;

	g.clients = xnew_n(struct client, spec->clients);
	e = open_lanes(&g);
	host_usage(b, &was);
	own = load_own_cpu_us();
	begin = (double)clock_mono();
	if (!e)
		e = engine_run(&g);
	wall = (double)clock_mono() - begin;
	row_figure(row, "bench_cpu_us", (load_own_cpu_us() - own) / (double)MAX(spec->n, 1u));
	host_usage(b, &now);
	row_figure(row, "clients", spec->clients);
	if (wall > 0)
		row_figure(row, "requests_per_s", (double)row->us.n / wall * 1e6);
	row_usage(row, &was, &now, spec->n);
	if (now.known)
		row_figure(row, "server_rss_mib", now.rss / (1 << 20));
	usage_done(&was);
	usage_done(&now);
	for (unsigned i = 0; i < spec->clients; i++) {
		call_done(&g.clients[i].call);
		if (g.clients[i].lane.pool)
			lane_done(&g.clients[i].lane);
	}
	free(g.clients);
	return err_wrap(e, "%s", row->name);
}
