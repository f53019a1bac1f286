/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one way in which the bench makes objects: a number of clients, each with a connection, that
 * post a claim (or a Sandbox), wait for the event that says Ready on the watch that all of them
 * share, and perhaps delete it. Every scenario is this with other numbers.
 */
#include <stdio.h>
#include <time.h>

#include "api/agents.h"
#include "api/meta.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "loop/loop.h"

enum {
	STALL_MS = 60000, /* without any progress the rest of a load has failed */
	CUTS_MAX = 50,    /* of the watch in one row */
	CLIENTS_MAX = 2048,
};

struct engine;

struct client {
	struct engine *g;
	struct lane lane;
	struct call call;
	struct lane router; /* to run a command */
	struct call command;
	char *name;    /* of the object; NULL: idle */
	char *sandbox; /* that it has got */
	double begin;
	bool answered, ready;
};

struct engine {
	struct bench *b;
	struct load *spec;
	struct row *row;
	struct client **clients;
	size_t n_clients, n_started, n_over;
	double begin, end;
	usec progress;
	usec looked; /* for what keeps it from progress */
	struct timer *pace;
	bool done;
};

static double now_us(void)
{
	return (double)clock_mono();
}

static char *path_of(const struct bench *b, const struct load *spec, const char *name)
{
	return xasprintf("/apis/%s/namespaces/%s/%s%s%s", spec->pool ? API_EXTENSIONS : API_SANDBOX,
			 b->ns, spec->pool ? "sandboxclaims" : "sandboxes", name ? "/" : "",
			 name ? name : "");
}

static char *body_of(const struct engine *g, const char *name)
{
	if (g->spec->pool)
		return xasprintf(
			"{\"apiVersion\":\"%s\",\"kind\":\"SandboxClaim\",\"metadata\":{\"name\":\"%s\"},"
			"\"spec\":{\"warmPoolRef\":{\"name\":\"%s\"}}}",
			API_EXTENSIONS, name, g->spec->pool);
	return xasprintf(
		"{\"apiVersion\":\"%s\",\"kind\":\"Sandbox\",\"metadata\":{\"name\":\"%s\"},\"spec\":{\"podTemplate\":{"
		"\"spec\":{\"containers\":[{\"name\":\"main\",\"image\":\"%s\",\"command\":[\"sleep\",\"infinity\"]}]}}}}",
		API_SANDBOX, name, settings_text(g->b->settings, "image"));
}

static void client_over(struct client *c);

static void client_failed(struct client *c, const char *doing)
{
	struct row *row = c->g->row;
	autoptr(err) e = call_error(&c->call);

	if (!row->n_failed++)
		(void)fprintf(stderr,
			      "cay: bench: %s: %s %s: %s; further failures are counted only\n",
			      row->name, doing, c->name, err_text(e));
	client_over(c);
}

static void on_deleted(struct call *call)
{
	struct client *c = container_of(call, struct client, call);

	if (!call_ok(call)) {
		client_failed(c, "delete");
		return;
	}
	client_over(c);
}

static void client_delete(struct client *c)
{
	autofree char *path = NULL;

	c->g->end = now_us();
	if (!c->g->spec->deletes) {
		client_over(c);
		return;
	}
	path = path_of(c->g->b, c->g->spec, c->name);
	c->call.done = on_deleted;
	call_start(&c->call, &c->lane, &(struct ask){ .method = "DELETE", .path = path });
}

static void on_command(struct call *call)
{
	struct client *c = container_of(call, struct client, command);

	if (call_ok(call))
		samples_add(&c->g->row->us, now_us() - c->begin);
	else
		c->g->row->n_failed++;
	client_delete(c);
}

/* The POST is answered and the event has come, in either order. */
static void client_ready(struct client *c)
{
	c->command.done = on_command;
	if (c->g->spec->command)
		exec_command(c->g->b, &c->command, &c->router, c->sandbox, c->g->spec->command);
	else
		client_delete(c);
}

static void on_answer(struct call *call)
{
	struct client *c = container_of(call, struct client, call);

	c->answered = true;
	if (!call_ok(call))
		client_failed(c, "create");
	else if (c->ready)
		client_ready(c);
}

static void client_start(struct client *c)
{
	struct engine *g = c->g;
	autofree char *body = NULL;
	autofree char *path = path_of(g->b, g->spec, NULL);

	c->name = xasprintf("%s-%zu", g->spec->prefix, g->n_started++);
	c->answered = c->ready = false;
	body = body_of(g, c->name);
	map_put(g->b->waits, c->name, c);
	if (g->spec->new_connections)
		lane_close(&c->lane);
	c->call.done = on_answer;
	c->begin = now_us();
	call_start(&c->call, &c->lane,
		   &(struct ask){ .method = "POST", .path = path, .body = body });
}

static void client_over(struct client *c)
{
	struct engine *g = c->g;

	(void)map_del(g->b->waits, c->name);
	free(take(c->name));
	g->progress = clock_mono();
	if (g->spec->deletes)
		g->end = now_us();
	g->done = ++g->n_over == g->spec->n;
	if (g->spec->rate <= 0 && g->n_started < g->spec->n)
		client_start(c);
}

/* The watch that all clients share */

static void note_object(struct bench *b, const struct json *obj)
{
	struct client *c =
		map_get(b->waits, str_or(json_str(json_at_path(obj, "metadata.name")), ""));
	const struct json *status = json_get(obj, "status");
	const char *sandbox;

	if (!c || c->ready || !conditions_true(json_get(status, "conditions"), "Ready"))
		return;
	c->ready = true;
	if (!c->g->spec->command)
		samples_add(&c->g->row->us, now_us() - c->begin);
	c->g->progress = clock_mono();
	sandbox = json_str(json_at_path(status, "sandbox.name"));
	if (c->g->spec->pool && !(sandbox && str_starts(sandbox, c->g->spec->pool)))
		c->g->spec->n_cold++;
	free(c->sandbox);
	c->sandbox = xstrdup(str_or(sandbox, c->name));
	free(c->g->spec->sandbox);
	c->g->spec->sandbox = xstrdup(sandbox);
	if (c->answered)
		client_ready(c);
}

static void on_event(struct call *call, const char *text, size_t len)
{
	struct bench *b = container_of(call, struct bench, watch);
	autoptr(json_doc) doc = NULL;
	autoptr(err) e = NULL;

	if (!memmem(text, len, "\"True\"", 6))
		return; /* no condition holds: not worth a parse, which would slow the clients */
	e = json_parse(text, len, NULL, &doc);
	if (e)
		(void)fprintf(stderr, "cay: bench: watch: %s\n", err_text(e));
	else
		note_object(b, json_get(json_root(doc), "object"));
}

static struct err *watch_start(struct bench *b, const struct load *spec)
{
	autofree char *path = path_of(b, spec, NULL);
	autofree char *watch = xasprintf("%s?watch=true&timeoutSeconds=86400", path);
	usec deadline = clock_mono() + (usec)STALL_MS * 1000;
	struct err *e = NULL;

	if (str_eq(b->watched, path) && !b->watch.over)
		return NULL;
	call_done(&b->watch);
	free(b->watched);
	b->watched = take(path);
	b->watch = (struct call){ .line = on_event };
	lane_close(&b->watch_lane);
	call_start(&b->watch, &b->watch_lane, &(struct ask){ .method = "GET", .path = watch });
	while (!e && !b->watch.status && !b->watch.over && clock_mono() < deadline)
		e = bench_pause(b, 10);
	if (!e && b->watch.status != 200)
		e = err_wrap(call_error(&b->watch), "watch %s", b->watched);
	return e;
}

/* An API server may end any watch, and ends those that it finds slow. A new one begins with all
 * objects as they are, so no Ready is missed; those of the time between are seen late. */
static struct err *watch_again(struct engine *g)
{
	if (++g->row->n_cuts > CUTS_MAX)
		return err_new(ERR_UNAVAILABLE, "the server ended the watch %d times", CUTS_MAX);
	return watch_start(g->b, g->spec);
}

/* A load */

static struct client *add_client(struct engine *g)
{
	struct client *c = xnew(struct client);

	c->g = g;
	lane_init(&c->lane, &g->b->api);
	lane_init(&c->router, &g->b->router);
	g->clients[g->n_clients++] = c;
	return c;
}

static struct client *idle_client(struct engine *g)
{
	for (size_t i = 0; i < g->n_clients; i++)
		if (!g->clients[i]->name)
			return g->clients[i];
	return g->n_clients < CLIENTS_MAX ? add_client(g) : NULL;
}

static void on_pace(void *arg)
{
	struct engine *g = arg;
	double due = (now_us() - g->begin) / 1e6 * g->spec->rate + 1;
	struct client *c;

	while (g->n_started < g->spec->n && (double)g->n_started < due &&
	       (c = idle_client(g)) != NULL)
		client_start(c);
	if (g->n_started < g->spec->n)
		timer_set(g->pace, 1);
}

/* Every connection is open before the clock starts. */
static struct err *open_lanes(struct engine *g)
{
	struct err *e = NULL;

	for (size_t i = 0; i < g->n_clients; i++)
		call_start(&g->clients[i]->call, &g->clients[i]->lane,
			   &(struct ask){ .method = "GET", .path = "/version" });
	for (size_t i = 0; !e && i < g->n_clients; i++) {
		e = bench_until(g->b, &g->clients[i]->call.over, STALL_MS);
		if (!e && !call_ok(&g->clients[i]->call))
			e = err_wrap(call_error(&g->clients[i]->call), "open a connection");
	}
	return e;
}

static void engine_done(struct engine *g)
{
	for (size_t i = 0; i < g->n_clients; i++) {
		struct client *c = g->clients[i];

		if (c->name)
			(void)map_del(g->b->waits, c->name);
		call_done(&c->call);
		call_done(&c->command);
		lane_done(&c->lane);
		lane_done(&c->router);
		free(c->name);
		free(c->sandbox);
		free(c);
	}
	free(g->clients);
	timer_free(g->pace);
}

/* What ends a load before its time. */
static struct err *engine_trouble(struct engine *g)
{
	if (g->b->stopped)
		return err_new(ERR_UNAVAILABLE, "interrupted");
	if (g->b->watch.over)
		return watch_again(g);
	if (clock_mono() < MAX(g->progress, g->looked) + (usec)TROUBLE_MS * 1000)
		return NULL;
	g->looked = clock_mono();
	return world_trouble(g->b);
}

static struct err *engine_run(struct engine *g)
{
	struct err *e = NULL;

	if (g->spec->beside)
		beside_into(g->spec->beside, g->spec->during);
	g->begin = g->end = now_us();
	g->progress = clock_mono();
	if (g->spec->rate > 0)
		on_pace(g);
	for (size_t i = 0; g->spec->rate <= 0 && i < g->n_clients && g->n_started < g->spec->n; i++)
		client_start(g->clients[i]);
	while (!e && !g->done && clock_mono() < g->progress + (usec)STALL_MS * 1000) {
		(void)loop_turn(g->b->loop, 100); /* ended by the event that we wait for */
		e = engine_trouble(g);
	}
	if (!e && !g->done) {
		(void)fprintf(stderr,
			      "cay: bench: %s: no progress within %d s; the rest has failed\n",
			      g->row->name, STALL_MS / 1000);
		g->row->n_failed += g->spec->n - g->n_over;
	}
	if (g->spec->beside)
		beside_into(g->spec->beside, NULL);
	g->spec->wall_us = g->end - g->begin;
	return e;
}

struct err *load_run(struct bench *b, struct load *spec, struct row *row)
{
	struct engine g = { .b = b, .spec = spec, .row = row };
	size_t n = MIN((size_t)MAX(spec->clients, 1u), (size_t)CLIENTS_MAX);
	struct err *e = watch_start(b, spec);

	if (e)
		return e;
	g.clients = xnew_n(struct client *, CLIENTS_MAX);
	g.pace = timer_new(b->loop, on_pace, &g);
	for (size_t i = 0; i < n; i++)
		(void)add_client(&g);
	e = spec->new_connections ? NULL : open_lanes(&g);
	if (!e)
		e = engine_run(&g);
	engine_done(&g);
	return err_wrap(e, "%s", row->name);
}

double load_own_cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

struct err *load_measure(struct bench *b, struct load *spec, struct row *row, const char *rate)
{
	struct usage was = { 0 }, now = { 0 };
	double own;
	struct err *e;

	host_usage(b, &was);
	own = load_own_cpu_us();
	e = load_run(b, spec, row);
	/* A bench that needs a core for itself measures itself. */
	row_figure(row, "bench_cpu_us",
		   (load_own_cpu_us() - own) / (double)MAX(spec->n, (size_t)1));
	host_usage(b, &now);
	row_figure(row, "clients", spec->clients);
	row_figure(row, "wall_us", spec->wall_us);
	if (spec->wall_us > 0)
		row_figure(row, rate, (double)row->us.n / spec->wall_us * 1e6);
	if (spec->pool)
		row_figure(row, "cold_claims", (double)spec->n_cold);
	row_usage(row, &was, &now, spec->n);
	usage_done(&was);
	usage_done(&now);
	free(take(spec->sandbox));
	return e;
}
