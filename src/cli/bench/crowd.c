/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many agents, in chains of three parents, with many sessions that have an attachment each: what
 * they cost in memory, how long they take to make, and whether a decision notices them. The
 * attachments lead to a few sandboxes, so that one is measured that hundreds or thousands share,
 * beside one that nobody else is attached to.
 */
#include <stdio.h>

#include "api/meta.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/doors_priv.h"
#include "cli/cli.h"

enum {
	LEVELS = 4, /* of a chain: an agent and three parents */
	HALLS = 4,  /* sandboxes that the attachments lead to */
	MAKERS = 16,
	SETTLE_MS = 2000, /* until memory that only the making needed is given back */
	POLL_MS = 250,
	STUCK_MS = 120000,
};

static size_t n_agents(const struct bench *b)
{
	return (size_t)settings_int(b->settings, "agents");
}

static size_t n_sessions(const struct bench *b)
{
	return (size_t)settings_int(b->settings, "agent-sessions");
}

/* Bodies */

static char *path_of(struct bench *b, const struct requests *r, size_t i unused)
{
	return callers_path(b, r->prefix);
}

/* Level by level: a parent is there long before its child. */
static char *agent_body(struct bench *b unused, const struct requests *r, size_t i)
{
	size_t level = r->n / LEVELS;
	bool child = i >= level && i < level * LEVELS;
	autofree char *name = xasprintf("crowd-%zu", i);
	autofree char *parent =
		child ? xasprintf("\"parent\":\"crowd-%zu\",", i - level) : xstrdup("");
	autofree char *spec =
		xasprintf("{%s\"sandbox\":{\"mode\":\"UserChooses\"},"
			  "\"capabilities\":{\"rights\":[\"exec\",\"read\",\"write\"]}}",
			  parent);

	return callers_body(r->prefix, name, spec);
}

static char *session_body(struct bench *b, const struct requests *r, size_t i)
{
	autofree char *name = xasprintf("crowd-%zu", i);
	autofree char *spec =
		xasprintf("{\"agent\":\"crowd-%zu\",\"sandbox\":\"none\"}", i % n_agents(b));

	return callers_body(r->prefix, name, spec);
}

static char *attachment_body(struct bench *b unused, const struct requests *r, size_t i)
{
	autofree char *name = xasprintf("crowd-%zu", i);
	autofree char *spec =
		xasprintf("{\"session\":\"crowd-%zu\",\"sandbox\":\"hall-%zu\"}", i, i % HALLS);

	return callers_body(r->prefix, name, spec);
}

/* What their controllers have to say of each before it counts as made. */
static bool agent_made(const struct json *o)
{
	return json_get(json_get(o, "status"), "observedGeneration");
}

static bool session_made(const struct json *o)
{
	return json_get(json_get(o, "status"), "phase");
}

static bool attachment_made(const struct json *o)
{
	return conditions_true(json_at_path(o, "status.conditions"), "Ready");
}

static const struct stage {
	const char *kind, *name, *what;
	size_t (*n)(const struct bench *b);
	char *(*body)(struct bench *b, const struct requests *r, size_t i);
	bool (*made)(const struct json *o);
} stages[] = {
	{ "Agent", "crowd of agents", "creates Agents, in chains of three parents", n_agents,
	  agent_body, agent_made },
	{ "Session", "crowd of sessions", "creates Sessions, as many for each agent", n_sessions,
	  session_body, session_made },
	{ "Attachment", "crowd of attachments", "creates an Attachment for each session",
	  n_sessions, attachment_body, attachment_made },
};

/* Making them */

static struct err *count_made(struct bench *b, const struct stage *s, size_t *ret)
{
	autofree char *path = callers_path(b, s->kind);
	autoptr(json_doc) list = NULL;
	struct err *e = world_ask(b, &(struct ask){ .method = "GET", .path = path }, &list);

	*ret = 0;
	if (e)
		return e;
	json_each(it, json_get(json_root(list), "items"))
		*ret += s->made(it.val);
	return NULL;
}

static struct err *until_made(struct bench *b, const struct stage *s)
{
	usec changed = clock_mono();
	size_t n = 0, was = 0;
	struct err *e = count_made(b, s, &n);

	while (!e && n < s->n(b)) {
		if (n != was)
			changed = clock_mono();
		was = n;
		if (clock_mono() > changed + (usec)STUCK_MS * 1000)
			return err_new(ERR_TIMEOUT, "%s: only %zu of %zu are complete after %d s",
				       s->name, n, s->n(b), STUCK_MS / 1000);
		bench_say(b, "%s: %zu of %zu are complete", s->name, n, s->n(b));
		e = bench_pause(b, POLL_MS);
		if (!e)
			e = count_made(b, s, &n);
	}
	return e;
}

static struct err *make_stage(struct bench *b, const struct stage *s)
{
	struct requests r = { .method = "POST",
			      .prefix = s->kind,
			      .clients =
				      MIN((unsigned)MAKERS, (unsigned)(s->n(b) / (4 * LEVELS) + 1)),
			      .n = s->n(b),
			      .path = path_of,
			      .body = s->body };
	struct row *row = bench_row(b, "crowd", s->name, "tls+fdatasync", s->what);
	struct usage was = { 0 }, now = { 0 };
	double begin = (double)clock_mono();
	struct err *e;

	host_usage(b, &was);
	e = requests_run(b, &r, row);
	if (!e && row->n_failed)
		e = err_new(ERR_UNAVAILABLE, "%zu of %zu were not made", row->n_failed, r.n);
	if (!e)
		e = until_made(b, s);
	row_figure(row, "complete_us", (double)clock_mono() - begin);
	if (!e)
		e = bench_pause(b, SETTLE_MS);
	host_usage(b, &now);
	if (was.known && now.known)
		row_figure(row, "kib_each", (now.rss - was.rss) / 1024 / (double)r.n);
	usage_done(&was);
	usage_done(&now);
	return e;
}

static struct err *make_all(struct bench *b)
{
	struct err *e = NULL;

	for (size_t i = 0; !e && i < HALLS; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "hall-%zu", i);
		e = world_sandbox(b, name, NULL);
	}
	for (size_t i = 0; !e && i < ARRAY_LEN(stages); i++)
		e = make_stage(b, &stages[i]);
	return e;
}

/* Changes */

/* Somebody who changes an agent that has nothing to do with the one that is measured. */
struct change {
	struct bench *b;
	struct row *row;
	unsigned n;
};

static struct err *change_one(void *arg)
{
	struct change *c = arg;
	autofree char *all = callers_path(c->b, "Agent");
	autofree char *path = xasprintf("%s/crowd-0", all);
	autofree char *body =
		xasprintf("{\"spec\":{\"sandbox\":{\"retain\":\"%us\"}}}", 3600 + c->n++ % 2);
	double begin = (double)clock_mono();
	struct err *e = world_ask(c->b,
				  &(struct ask){ .method = "PATCH",
						 .path = path,
						 .body = body,
						 .type = "application/merge-patch+json" },
				  NULL);

	if (!e)
		samples_add(&c->row->us, (double)clock_mono() - begin);
	return e;
}

static struct err *measure_changes(struct bench *b, struct callers *c)
{
	static const enum door doors[] = { DOOR_EXEC, DOOR_REVIEW };
	struct change change = { .b = b };
	struct err *e = NULL;

	change.row = bench_row(b, "crowd", "change of an agent", "tls+fdatasync",
			       "a patch of an agent that has nothing to do with what is measured");
	for (size_t i = 0; !e && i < ARRAY_LEN(doors); i++) {
		struct side sides[2] = {
			{ .who = &c->agent },
			{ .who = &c->agent, .before = change_one, .arg = &change },
		};

		sides[0].row = door_row(b, "crowd", doors[i], "by an agent, no change");
		sides[1].row = door_row(b, "crowd", doors[i], "by an agent, after a change");
		e = doors_in_turn(b, c, c->name, doors[i], sides);
	}
	return e;
}

struct err *scenario_crowd(struct bench *b)
{
	autofree char *beside = xasprintf(", beside %zu agents", n_agents(b));
	autofree char *among = xasprintf(", among %zu attachments", n_sessions(b) / HALLS);
	struct callers c = { 0 };
	struct err *e = callers_open(b, "visitor", &c);

	if (!e)
		e = make_all(b);
	if (!e)
		e = doors_measure(b, &c, c.name, "crowd", beside);
	if (!e)
		e = callers_attach(b, &c, "hall-0");
	if (!e)
		e = doors_measure(b, &c, "hall-0", "crowd", among);
	if (!e)
		e = measure_changes(b, &c);
	callers_close(&c);
	return e ? e : world_empty(b);
}
