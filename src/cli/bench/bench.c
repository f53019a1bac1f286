/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay bench`: figures of a running server next to the floors of this machine, all measured in one
 * run and related to each other as ratios. Figures are never printed without their conditions.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "loop/loop.h"

enum {
	FLOOR_RUNS = 200,
};

static const char *const formats[] = { "text", "json", NULL };

const struct setting bench_settings[] = {
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE",
	  "Server to measure (by default the one in $KUBECONFIG or ~/.kube/config)" },
	{ "only", SETTING_TEXT, NULL, "NAME,...",
	  "Scenarios to run (by default all); claim: growth, cells, loops, sustained, burst, cold, exec; node: growth, cold, runtimes, policy, import; exec: commands, files; api: writes, lists, watches; gate: doors, crowd; tti, wake and router: themselves" },
	{ "router", SETTING_TEXT, "127.0.0.1:8080", "ADDR:PORT",
	  "Its router; if empty, no commands are run in sandboxes" },
	{ "server-pid", SETTING_TEXT, NULL, "PID,...",
	  "Processes whose CPU time and memory are reported: cay serve or cay controller (by default the cay that listens where the kubeconfig says, if it is on this machine)" },
	{ "runs", SETTING_INT, "500", "N", "How many times each scenario is run", .min = 1,
	  .max = 1000000 },
	{ "pool", SETTING_INT, "120", "N", "Number of members of a warm pool that refills",
	  .min = 1, .max = 100000 },
	{ "rate", SETTING_INT, "100", "N", "Claims per second while a pool refills", .min = 1,
	  .max = 100000 },
	{ "clients", SETTING_TEXT, "1,8,64", "N,...", "Clients of the closed loops" },
	{ "exec-clients", SETTING_TEXT, "1,16,64", "N,...",
	  "Clients that run commands in one sandbox" },
	{ "api-clients", SETTING_TEXT, "1,16,64", "N,...", "Clients that create objects" },
	{ "objects", SETTING_INT, "10000", "N", "Objects to list", .min = 1, .max = 1000000 },
	{ "watches", SETTING_INT, "1000", "N", "Watches of one collection", .min = 1,
	  .max = 100000 },
	{ "agents", SETTING_INT, "1000", "N", "Agents of the crowd", .min = 4, .max = 100000 },
	{ "agent-sessions", SETTING_INT, "10000", "N",
	  "Sessions of the crowd, with an attachment each", .min = 4, .max = 1000000 },
	{ "file-mb", SETTING_INT, "64", "MB", "Size of the file that is sent and fetched", .min = 1,
	  .max = 2000 },
	{ "members", SETTING_INT, "1000", "N", "Members of the pool for sustained claims", .min = 1,
	  .max = 100000 },
	{ "bursts", SETTING_TEXT, "100,300", "N,...", "Claims of a burst" },
	{ "sizes", SETTING_TEXT, "100,1000,2000", "N,...", "Numbers of idle sandboxes for growth" },
	{ "import-mb", SETTING_INT, "128", "MB", "Size of the image that is imported", .min = 1,
	  .max = 10000 },
	{ "image", SETTING_TEXT, "host", "NAME", "Image of the sandboxes" },
	{ "floor-dir", SETTING_TEXT, "/var/tmp", "DIR",
	  "Where to measure the floor of fdatasync; choose the disk of the data directory" },
	{ "output", SETTING_CHOICE, "text", "FORMAT", "Output format: text or json (short: -o)",
	  .choices = formats },
	{ 0 },
};

const struct scenario bench_scenarios[] = {
	{ "router", "requests through the router, beside nginx and HAProxy", SUITE_ROUTER,
	  scenario_router },
	{ "growth", "memory of idle sandboxes, and a claim beside them", SUITE_CLAIM | SUITE_NODE,
	  scenario_growth },
	{ "cells", "a warm claim with and without refill and deletion", SUITE_CLAIM,
	  scenario_cells },
	{ "loops", "clients that claim and delete without a pause", SUITE_CLAIM, scenario_loops },
	{ "sustained", "claims as fast as they are answered, without refill", SUITE_CLAIM,
	  scenario_sustained },
	{ "burst", "many claims at a time, with a command beside them", SUITE_CLAIM,
	  scenario_burst },
	{ "cold", "Sandboxes without a pool", SUITE_CLAIM | SUITE_NODE, scenario_cold },
	{ "exec", "a command in a sandbox, and the first one after a claim", SUITE_CLAIM,
	  scenario_exec },
	{ "runtimes", "start, command and removal by runtime class, beside other programs",
	  SUITE_NODE, scenario_runtimes },
	{ "wake", "the first command in a sandbox that sleeps", SUITE_WAKE, scenario_wake },
	{ "policy", "from a NetworkPolicy to its effect", SUITE_NODE, scenario_policy },
	{ "import", "an image archive, beside skopeo and umoci", SUITE_NODE, scenario_import },
	{ "commands", "commands by many clients, one-shot and streamed, beside crun exec",
	  SUITE_EXEC, scenario_commands },
	{ "files", "a file into a sandbox and out of it, beside cp", SUITE_EXEC, scenario_files },
	{ "tti", "a claim to the output of its first command: in turn, staggered, in a burst",
	  SUITE_TTI, scenario_tti },
	{ "writes", "objects that are created by many clients", SUITE_API, scenario_writes },
	{ "lists", "lists of many objects, and reads beside them", SUITE_API, scenario_lists },
	{ "watches", "memory of watches, and a write that all of them see", SUITE_API,
	  scenario_watches },
	{ "doors", "into a sandbox by a user and by an agent, in turn", SUITE_GATE,
	  scenario_doors },
	{ "crowd", "the same beside many agents, their memory, and what a change of one costs",
	  SUITE_GATE, scenario_crowd },
	{ 0 },
};

struct err *bench_until(struct bench *b, const bool *done, uint64_t timeout_ms)
{
	usec deadline = clock_mono() + (usec)timeout_ms * 1000;

	while (!*done) {
		(void)loop_turn(b->loop, 100); /* ended by the event that we wait for */
		if (b->stopped)
			return err_new(ERR_UNAVAILABLE, "interrupted");
		if (!*done && clock_mono() > deadline)
			return err_new(ERR_TIMEOUT, "no answer within %llu s",
				       (unsigned long long)timeout_ms / 1000);
	}
	return NULL;
}

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

struct err *bench_pause(struct bench *b, unsigned ms)
{
	bool over = false;
	struct timer *t = timer_new(b->loop, set_true, &over);
	struct err *e;

	timer_set(t, ms);
	e = bench_until(b, &over, ms + 60000);
	timer_free(t);
	return e;
}

struct row *bench_row(struct bench *b, const char *scenario, const char *name, const char *floor,
		      const char *what)
{
	struct row *r = xnew(struct row);

	assert(b->n_rows < ARRAY_LEN(b->rows));
	if (!isatty(STDERR_FILENO))
		(void)fprintf(stderr, "cay: bench: %s\n",
			      name); /* on a terminal bench_say() tells more */
	r->scenario = scenario;
	r->name = xstrdup(name);
	r->floor = floor;
	r->what = xstrdup(what);
	b->rows[b->n_rows++] = r;
	return r;
}

void row_figure(struct row *r, const char *key, double value)
{
	assert(r->n_figures < ARRAY_LEN(r->figures));
	r->figures[r->n_figures++] = (struct figure){ key, value };
}

void row_peer(struct row *r, const struct json *us, struct row *ours)
{
	double we, they;

	json_each(it, us)
		samples_add(&r->us, json_real(it.val, 0));
	if (ours && samples_quantile(&r->us, 0.5, &they) && samples_quantile(&ours->us, 0.5, &we))
		row_figure(r, "cay_to_this", we / they);
}

static void row_free(struct row *r)
{
	free((void *)r->name);
	free((void *)r->what);
	samples_done(&r->us);
	json_doc_free(r->writes);
	free(r);
}

/* On a terminal one line that is overwritten; otherwise one line for each thing that begins. */
void bench_say(const struct bench *b unused, const char *fmt, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO))
		return;
	va_start(ap, fmt);
	(void)fputs("\r\033[K", stderr);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
}

static bool wanted(const struct bench *b, const struct scenario *s)
{
	const char *only = settings_text(b->settings, "only");
	struct span rest = SPAN(only ? only : ""), one;

	if (!(s->suites & b->suite))
		return false;
	if (!only)
		return true;
	do {
		one = span_trim(span_cut(rest, ',', &rest));
		if (span_eq(one, s->name))
			return true;
	} while (rest.p);
	return false;
}

struct err *bench_list(struct bench *b, const char *setting, unsigned *ret, size_t max,
		       size_t *ret_n)
{
	struct span rest = SPAN(settings_text(b->settings, setting)), one;

	*ret_n = 0;
	do {
		autofree char *text = NULL;
		autoptr(err) bad = NULL;
		int64_t v = 0;

		one = span_trim(span_cut(rest, ',', &rest));
		text = xstrndup(one.p, one.len);
		bad = parse_int(text, 1, 2000, &v);
		if (bad || *ret_n == max)
			return err_new(
				ERR_INVALID,
				"--%s: \"%s\": give at most %zu numbers from 1 to 2000, as in %s",
				setting, text, max, "1,8,64");
		ret[(*ret_n)++] = (unsigned)v;
	} while (rest.p);
	return NULL;
}

static struct err *check_lists(struct bench *b)
{
	static const char *const lists[] = { "clients", "bursts", "sizes", "exec-clients",
					     "api-clients" };
	struct err *e = NULL;
	unsigned v[LIST_MAX];
	size_t n;

	for (size_t i = 0; !e && i < ARRAY_LEN(lists); i++)
		e = bench_list(b, lists[i], v, LIST_MAX, &n);
	return e;
}

static struct err *check_only(const struct bench *b)
{
	const char *only = settings_text(b->settings, "only");
	struct span rest = SPAN(only ? only : ""), one;

	while (only && rest.p) {
		const struct scenario *s = bench_scenarios;

		one = span_trim(span_cut(rest, ',', &rest));
		while (s->name && !(span_eq(one, s->name) && (s->suites & b->suite)))
			s++;
		if (!s->name)
			return err_new(
				ERR_INVALID,
				"--only: there is no scenario \"%.*s\" here; cay bench --help names them",
				(int)one.len, one.p);
	}
	return NULL;
}

static struct err *run_scenarios(struct bench *b)
{
	struct err *e = world_open(b);

	for (const struct scenario *s = bench_scenarios; !e && s->name; s++)
		if (wanted(b, s))
			e = err_wrap(s->run(b), "%s", s->name);
	world_close(b);
	return e;
}

static struct err *run_all(struct bench *b)
{
	bool scenarios = b->suite != SUITE_FLOOR;
	struct err *e = check_only(b);

	if (!e)
		e = check_lists(b);
	if (!e && b->suite == SUITE_ROUTER)
		return scenario_router(b);
	if (!e && scenarios)
		e = api_open(b->loop, settings_text(b->settings, "kubeconfig"), &b->api);
	if (e)
		return e;
	e = program_measure(b, "floor", FLOOR_RUNS, NULL, &b->floor);
	if (e && scenarios && !err_is(e, ERR_INVALID)) {
		(void)fprintf(stderr, "cay: bench: no floors, so no ratios: %s\n",
			      err_text(e)); /* the rest is still useful */
		err_free(take(e));
	}
	if (e || !scenarios)
		return e;
	b->router = (struct api){ .loop = b->loop,
				  .addr = xstrdup(settings_text(b->settings, "router")),
				  .host = xstrdup(settings_text(b->settings, "router")) };
	lane_init(&b->lane, &b->api);
	lane_init(&b->watch_lane, &b->api);
	b->waits = map_new(NULL);
	e = host_find_servers(b);
	return e ? e : run_scenarios(b);
}

static bool any_failed(const struct bench *b)
{
	for (size_t i = 0; i < b->n_rows; i++)
		if (b->rows[i]->n_failed)
			return true;
	return false;
}

static void bench_done(struct bench *b)
{
	call_done(&b->watch);
	lane_done(&b->lane);
	lane_done(&b->watch_lane);
	api_done(&b->api);
	api_done(&b->router);
	for (size_t i = 0; i < b->n_rows; i++)
		row_free(b->rows[i]);
	map_free(b->waits);
	json_doc_free(b->floor);
	signal_watch_free(b->intr);
	signal_watch_free(b->term);
	loop_free(b->loop);
	free(b->watched);
	free(b->ns);
}

static void on_signal(void *arg, int signum unused)
{
	((struct bench *)arg)->stopped = true;
}

/* False: there is none of that name. */
static bool suite_of(const char *name, enum suite *ret)
{
	static const struct {
		const char *name;
		enum suite suite;
	} suites[] = {
		{ "claim", SUITE_CLAIM }, { "node", SUITE_NODE }, { "exec", SUITE_EXEC },
		{ "tti", SUITE_TTI },     { "wake", SUITE_WAKE }, { "router", SUITE_ROUTER },
		{ "api", SUITE_API },     { "gate", SUITE_GATE }, { "floor", SUITE_FLOOR },
	};

	for (size_t i = 0; i < ARRAY_LEN(suites); i++) {
		if (!str_eq(name, suites[i].name))
			continue;
		*ret = suites[i].suite;
		return true;
	}
	return false;
}

/* A client of the bench is a connection. */
static void allow_many_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r); /* what needs more than there is will say so */
	}
}

int bench_run(const struct command *c, const struct settings *s)
{
	struct bench b = { .settings = s };
	autoptr(json_doc) report = NULL;
	struct err *e;
	int code;

	if (!suite_of(str_or(settings_arg(s, 0), "claim"), &b.suite) || settings_n_args(s) > 1)
		return cli_fail(err_new(ERR_INVALID, "usage: cay bench %s", c->usage));
	(void)getloadavg(&b.load_before, 1);
	allow_many_files();
	e = loop_new(&b.loop);
	if (e)
		return cli_fail(err_wrap(e, "bench"));
	b.intr = signal_watch_new(b.loop, SIGINT, on_signal, &b);
	b.term = signal_watch_new(b.loop, SIGTERM, on_signal, &b);
	e = run_all(&b);
	bench_say(&b, "%s", "");
	report = report_build(&b);
	if (b.n_rows || b.floor) {
		if (str_eq(settings_text(s, "output"), "json"))
			cli_print(json_root(report), "json");
		else
			report_print(json_root(report));
	}
	code = e ? cli_fail(err_wrap(e, "bench")) : any_failed(&b) ? EXIT_FAILED : EXIT_OK;
	bench_done(&b);
	return code;
}
