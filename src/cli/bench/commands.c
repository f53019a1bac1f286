/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in one sandbox by several clients at a time, each on a connection of its own: answered
 * when they are over, or streamed as events. Beside them what `crun exec` needs for the same.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "loop/loop.h"

enum {
	STALL_MS = 60000,
	PEER_RUNS = 100,
};
static const char sandbox_name[] = "commands";

struct crowd;

struct member {
	struct crowd *of;
	struct lane lane;
	struct call call;
	double begin;
	bool first; /* line of the answer that is under way */
};

/* Clients that each send their next command when the last one is answered. */
struct crowd {
	struct bench *b;
	struct row *row, *first_row; /* first_row NULL: one-shot */
	struct member *members;
	unsigned n_members;
	size_t n, n_started, n_over;
	bool done;
};

static void next_command(struct member *m)
{
	struct crowd *g = m->of;

	g->n_started++;
	m->first = true;
	m->begin = (double)clock_mono();
	call_start(&m->call, &m->lane,
		   &(struct ask){ .method = "POST",
				  .path = "/execute",
				  .body = "{\"command\":\"/bin/true\"}",
				  .accept = g->first_row ? "text/event-stream" : NULL,
				  .sandbox = sandbox_name,
				  .ns = g->b->ns });
}

static void on_line(struct call *call, const char *text unused, size_t len unused)
{
	struct member *m = container_of(call, struct member, call);

	if (m->first)
		samples_add(&m->of->first_row->us, (double)clock_mono() - m->begin);
	m->first = false;
}

static void on_answer(struct call *call)
{
	struct member *m = container_of(call, struct member, call);
	struct crowd *g = m->of;

	if (call_ok(call))
		samples_add(&g->row->us, (double)clock_mono() - m->begin);
	else
		g->row->n_failed++;
	g->done = ++g->n_over == g->n;
	if (g->n_started < g->n)
		next_command(m);
}

static struct err *crowd_run(struct crowd *g)
{
	struct usage was = { 0 }, now = { 0 };
	double begin, took;
	struct err *e;

	g->members = xnew_n(struct member, g->n_members);
	for (unsigned i = 0; i < g->n_members; i++) {
		struct member *m = &g->members[i];

		m->of = g;
		m->call.done = on_answer;
		m->call.line = g->first_row ? on_line : NULL;
		lane_init(&m->lane, &g->b->router);
	}
	host_usage(g->b, &was);
	begin = (double)clock_mono();
	for (unsigned i = 0; i < g->n_members && g->n_started < g->n; i++)
		next_command(&g->members[i]);
	e = bench_until(g->b, &g->done, STALL_MS);
	took = (double)clock_mono() - begin;
	host_usage(g->b, &now);
	row_figure(g->row, "clients", g->n_members);
	row_figure(g->row, "commands_per_s", (double)g->row->us.n / took * 1e6);
	row_usage(g->row, &was, &now, g->n);
	usage_done(&was);
	usage_done(&now);
	for (unsigned i = 0; i < g->n_members; i++) {
		call_done(&g->members[i].call);
		lane_done(&g->members[i].lane);
	}
	free(g->members);
	return e;
}

static struct row *crowd_row(struct bench *b, const char *doing, unsigned clients, const char *what)
{
	autofree char *name = xasprintf("%s clients=%u", doing, clients);

	return bench_row(b, "commands", name, "exec", what);
}

static struct err *one_shot(struct bench *b, unsigned clients, struct row **ret)
{
	struct crowd g = { .b = b, .n_members = clients };

	g.n = MAX((size_t)settings_int(b->settings, "runs"), (size_t)clients);
	g.row = crowd_row(b, "exec", clients, "/bin/true, POST /execute to its answer");
	*ret = g.row;
	return crowd_run(&g);
}

static struct err *streamed(struct bench *b, unsigned clients)
{
	struct crowd g = { .b = b, .n_members = clients };

	g.n = MAX((size_t)settings_int(b->settings, "runs"), (size_t)clients);
	g.row = crowd_row(b, "stream", clients, "/bin/true, POST /execute to its last event");
	g.first_row = crowd_row(b, "first event", clients, "the same, to its first event");
	return crowd_run(&g);
}

/* crun is left out where it is not installed, and that is said. */
static void beside_crun(struct bench *b, struct row *ours)
{
	static const char *const which[] = { "all", "crun", NULL };
	unsigned n = (unsigned)MIN(settings_int(b->settings, "runs"), (int64_t)PEER_RUNS);
	autoptr(json_doc) all = NULL;
	autoptr(err) e = program_measure(b, "peers", n, which, &all);
	const struct json *crun = e ? NULL : json_get(json_root(all), "crun");
	const char *why = e ? err_text(e) : json_get_str(crun, "missing");

	if (why || !json_get(crun, "exec_us")) {
		(void)fprintf(stderr, "cay: bench: crun exec is left out: %s\n",
			      str_or(why, "it was not measured"));
		return;
	}
	row_peer(bench_row(b, "commands", "crun exec", NULL, "crun itself, behind the same walls"),
		 json_get(crun, "exec_us"), ours);
}

struct err *scenario_commands(struct bench *b)
{
	struct row *alone = NULL, *row = NULL;
	unsigned clients[LIST_MAX];
	size_t n = 0;
	struct err *e = bench_list(b, "exec-clients", clients, LIST_MAX, &n);

	if (!e && !*b->router.addr)
		e = err_new(ERR_INVALID, "--router is empty: it leads to the commands");
	if (!e)
		e = world_sandbox(b, sandbox_name, NULL);
	for (size_t i = 0; !e && i < n; i++) {
		e = one_shot(b, clients[i], &row);
		alone = alone ? alone : row;
		if (!e)
			e = streamed(b, clients[i]);
	}
	if (e)
		return e;
	beside_crun(b, alone);
	return world_empty(b);
}
