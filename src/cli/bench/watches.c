/* SPDX-License-Identifier: Apache-2.0 */
/* Many watches of one collection: what an idle one costs, and how soon all have seen a write. */
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "json/json.h"
#include "loop/loop.h"

enum {
	ROUNDS_MAX = 50,
	EVENT_MS = 60000,
	SETTLE_MS = 2000, /* until memory that only the opening needed is given back */
};

struct crowd;

struct watcher {
	struct crowd *crowd;
	struct lane lane;
	struct call call;
};

struct crowd {
	struct bench *b;
	struct watcher *all;
	unsigned n;
	char *path;
	unsigned n_seen; /* events of this round */
	bool all_seen;
};

static void on_event(struct call *call, const char *text unused, size_t len unused)
{
	struct crowd *c = container_of(call, struct watcher, call)->crowd;

	c->all_seen = ++c->n_seen == c->n;
}

/* From the version of the collection as it is now, so that a watch begins with nothing. */
static struct err *crowd_path(struct crowd *c)
{
	autofree char *path = xasprintf("/api/v1/namespaces/%s/configmaps?limit=1", c->b->ns);
	autoptr(json_doc) list = NULL;
	struct err *e = world_ask(c->b, &(struct ask){ .method = "GET", .path = path }, &list);

	if (!e)
		c->path = xasprintf(
			"/api/v1/namespaces/%s/configmaps?watch=true&timeoutSeconds=3600"
			"&resourceVersion=%s",
			c->b->ns,
			str_or(json_str(json_at_path(json_root(list), "metadata.resourceVersion")),
			       "0"));
	return e;
}

/* One after the other: a server may take only so many handshakes at a time. */
static struct err *crowd_open(struct crowd *c)
{
	struct err *e = NULL;

	for (unsigned i = 0; !e && i < c->n; i++) {
		struct watcher *w = &c->all[i];
		usec deadline = clock_mono() + (usec)EVENT_MS * 1000;

		w->crowd = c;
		w->call.line = on_event;
		lane_init(&w->lane, &c->b->api);
		call_start(&w->call, &w->lane, &(struct ask){ .method = "GET", .path = c->path });
		while (!w->call.status && !w->call.over && !c->b->stopped &&
		       clock_mono() < deadline)
			(void)loop_turn(c->b->loop, 100); /* ended by what we wait for */
		if (w->call.status != 200)
			e = err_wrap(call_error(&w->call), "watch %u", i);
		bench_say(c->b, "opening watches: %u of %u", i + 1, c->n);
	}
	return e;
}

static void crowd_close(struct crowd *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		call_done(&c->all[i].call);
		if (c->all[i].lane.pool)
			lane_done(&c->all[i].lane);
	}
	free(c->all);
	free(c->path);
}

/* A write, and the time until every watch has told of it. */
static struct err *one_round(struct crowd *c, unsigned i, struct row *row)
{
	autofree char *path = xasprintf("/api/v1/namespaces/%s/configmaps", c->b->ns);
	autofree char *body =
		xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
			  "\"name\":\"seen-%u\"},\"data\":{\"key\":\"value\"}}",
			  i);
	double begin = (double)clock_mono();
	struct err *e;

	c->n_seen = 0;
	c->all_seen = false;
	e = world_ask(c->b, &(struct ask){ .method = "POST", .path = path, .body = body }, NULL);
	if (!e)
		e = bench_until(c->b, &c->all_seen, EVENT_MS);
	if (!e)
		samples_add(&row->us, (double)clock_mono() - begin);
	return e;
}

struct err *scenario_watches(struct bench *b)
{
	struct crowd c = { .b = b, .n = (unsigned)settings_int(b->settings, "watches") };
	unsigned rounds = MIN((unsigned)settings_int(b->settings, "runs"), (unsigned)ROUNDS_MAX);
	struct row *row = bench_row(b, "watches", "fan-out", "tls+fdatasync",
				    "a create, until the last of the watches has told of it");
	struct usage was = { 0 }, now = { 0 }, end = { 0 };
	struct err *e;

	c.all = xnew_n(struct watcher, c.n);
	e = crowd_path(&c);
	host_usage(b, &was);
	if (!e)
		e = crowd_open(&c);
	if (!e)
		e = bench_pause(b, SETTLE_MS);
	host_usage(b, &now);
	for (unsigned i = 0; !e && i < rounds; i++)
		e = one_round(&c, i, row);
	host_usage(b, &end);
	row_figure(row, "watches", c.n);
	if (was.known && now.known)
		row_figure(row, "kib_per_idle_watch", (now.rss - was.rss) / 1024 / c.n);
	row_usage(row, &now, &end, rounds);
	usage_done(&was);
	usage_done(&now);
	usage_done(&end);
	crowd_close(&c);
	return e;
}
