/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in sandboxes through the router, sent the way the published clients do it: in a sandbox
 * that runs, as the first thing after a claim, and over and over beside another load.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "loop/loop.h"

enum {
	ANSWER_MS = 60000,
	BESIDE_MS = 5, /* between two commands beside a load: they are to notice it, not to be it */
};

void exec_command(struct bench *b, struct call *c, struct lane *l, const char *sandbox,
		  const char *command)
{
	autofree char *body = xasprintf("{\"command\":\"%s\"}", command);

	call_start(c, l,
		   &(struct ask){ .method = "POST",
				  .path = "/execute",
				  .body = body,
				  .sandbox = sandbox,
				  .ns = b->ns });
}

void exec_start(struct bench *b, struct call *c, struct lane *l, const char *sandbox)
{
	exec_command(b, c, l, sandbox, "/bin/true");
}

/* Beside another load */

struct beside {
	struct bench *b;
	struct lane lane;
	struct call call;
	struct timer *timer;
	char *sandbox; /* NULL: there is no router; a GET is sent to the API instead */
	double begin;
	struct samples *into, *now; /* where the next one goes, and the one under way */
	struct err *e;              /* of the first that failed */
	size_t n_failed;
};

static void beside_next(void *arg)
{
	struct beside *s = arg;

	s->begin = (double)clock_mono();
	s->now = s->into;
	if (s->sandbox)
		exec_start(s->b, &s->call, &s->lane, s->sandbox);
	else
		call_start(&s->call, &s->lane,
			   &(struct ask){ .method = "GET", .path = "/version" });
}

static void on_beside(struct call *c)
{
	struct beside *s = container_of(c, struct beside, call);

	if (!call_ok(c) && !s->n_failed++)
		s->e = call_error(c);
	else if (call_ok(c) && s->now)
		samples_add(s->now, (double)clock_mono() - s->begin);
	timer_set(s->timer, BESIDE_MS);
}

struct beside *beside_new(struct bench *b, const char *sandbox)
{
	struct beside *s = xnew(struct beside);

	s->b = b;
	s->sandbox = *b->router.addr ? xstrdup(sandbox) : NULL;
	lane_init(&s->lane, s->sandbox ? &b->router : &b->api);
	s->call.done = on_beside;
	s->timer = timer_new(b->loop, beside_next, s);
	beside_next(s);
	return s;
}

void beside_into(struct beside *s, struct samples *into)
{
	s->into = into;
	if (into && timer_armed(s->timer))
		timer_set(s->timer, 0); /* one at least begins now, however short the load is */
}

struct err *beside_error(const struct beside *s)
{
	const char *router = s->b->router.addr;

	if (!s->e)
		return NULL;
	if (!s->sandbox)
		return err_wrap(err_copy(s->e), "GET /version");
	return err_wrap(err_copy(s->e),
			"run a command through the router at %s (--router names another; if it is "
			"empty, no commands are run)",
			router);
}

size_t beside_free(struct beside *s)
{
	size_t n = s->n_failed;

	call_done(&s->call);
	lane_done(&s->lane);
	timer_free(s->timer);
	err_free(s->e);
	free(s->sandbox);
	free(s);
	return n;
}

/* Rows of their own */

static struct err *run_one(struct bench *b, struct lane *l, const char *sandbox, struct row *row)
{
	struct call c = { 0 };
	double begin = (double)clock_mono();
	struct err *e;

	exec_start(b, &c, l, sandbox);
	e = bench_until(b, &c.over, ANSWER_MS);
	if (!e && row && call_ok(&c))
		samples_add(&row->us, (double)clock_mono() - begin);
	else if (!e && row)
		row->n_failed++;
	call_done(&c);
	return e;
}

struct err *exec_times(struct bench *b, const char *sandbox, size_t n, struct row *row)
{
	struct lane lane;
	struct err *e;

	lane_init(&lane, &b->router);
	e = run_one(b, &lane, sandbox, NULL); /* opens the connection */
	for (size_t i = 0; !e && i < n; i++)
		e = run_one(b, &lane, sandbox, row);
	lane_done(&lane);
	return e;
}

static struct err *exec_row(struct bench *b, size_t n)
{
	struct row *row =
		bench_row(b, "exec", "exec", "exec",
			  "/bin/true in a running sandbox, POST /execute through the router");
	struct row quiet = { .name = "exec" };
	struct load load = { .prefix = "exec", .pool = "exec", .n = 1, .clients = 1 };
	struct err *e = load_run(b, &load, &quiet);

	samples_done(&quiet.us);
	if (!e && !load.sandbox)
		e = err_new(ERR_UNAVAILABLE, "there is no sandbox to run commands in");
	if (!e)
		e = exec_times(b, load.sandbox, n, row);
	free(load.sandbox);
	return e;
}

static struct err *first_row(struct bench *b, size_t n)
{
	struct row *row = bench_row(b, "exec", "first output", "tls+fdatasync+exec",
				    "warm claim, POST to the answer of its first command");
	struct load load = { .prefix = "first",
			     .pool = "exec",
			     .n = n,
			     .clients = 1,
			     .deletes = true,
			     .command = "/bin/true" };
	struct err *e = load_run(b, &load, row);

	row_figure(row, "cold_claims", (double)load.n_cold);
	free(load.sandbox);
	return e;
}

struct err *scenario_exec(struct bench *b)
{
	size_t n = (size_t)settings_int(b->settings, "runs");
	struct err *e;

	if (!*b->router.addr) {
		(void)fprintf(stderr, "cay: bench: exec: left out, because --router is empty\n");
		return NULL;
	}
	e = world_pool(b, "exec", (unsigned)settings_int(b->settings, "pool"));
	if (!e)
		e = exec_row(b, n);
	if (!e)
		e = first_row(b, n);
	return e ? e : world_empty(b);
}
