/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first command in a sandbox that sleeps, through the router, beside the same one in a sandbox
 * that is awake. Several sandboxes fall asleep at the same time, because that takes a while.
 */
#include <stdio.h>

#include "api/agents.h"
#include "api/meta.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "json/json.h"

enum {
	SLEEPERS = 8,
	ANSWER_MS = 60000,
	ASLEEP_MS = 60000,
	LOOK_MS = 50,
	SUSPENDED_MAX = 16, /* each starts a Pod */
};
#define SANDBOX "/apis/" API_SANDBOX "/namespaces/%s/sandboxes/wake-%d"

struct wake {
	struct bench *b;
	struct lane lane;
	bool suspended; /* otherwise frozen */
	struct row *asleep, *awake;
};

static struct err *run_one(struct wake *w, int i, struct row *row)
{
	autofree char *name = xasprintf("wake-%d", i);
	struct call c = { 0 };
	double begin = (double)clock_mono();
	struct err *e;

	exec_start(w->b, &c, &w->lane, name);
	e = bench_until(w->b, &c.over, ANSWER_MS);
	if (!e && row && call_ok(&c))
		samples_add(&row->us, (double)clock_mono() - begin);
	else if (!e && row)
		row->n_failed++;
	call_done(&c);
	return e;
}

static struct err *set_policy(struct wake *w, int i)
{
	autofree char *path = xasprintf(SANDBOX, w->b->ns, i);
	autofree char *body = xasprintf("{\"metadata\":{\"annotations\":{\"" KEY_IDLE_AFTER
					"\":\"1s\",\"" KEY_IDLE_ACTION "\":\"%s\"}}}",
					w->suspended ? "Suspend" : "Freeze");

	return world_ask(w->b,
			 &(struct ask){ .method = "PATCH",
					.path = path,
					.body = body,
					.type = "application/merge-patch+json" },
			 NULL);
}

/* What is suspended has no Pod any more, and is not Ready. */
static bool sleeps(const struct json *sandbox, bool suspended)
{
	const struct json *list = json_at_path(sandbox, "status.conditions");

	return conditions_true(list, "Asleep") &&
	       (!suspended || conditions_true(list, "Suspended"));
}

static struct err *until_asleep(struct wake *w, int i)
{
	autofree char *path = xasprintf(SANDBOX, w->b->ns, i);
	usec deadline = clock_mono() + (usec)ASLEEP_MS * 1000;
	bool asleep = false;
	struct err *e = NULL;

	while (!e && !asleep) {
		autoptr(json_doc) now = NULL;

		e = world_ask(w->b, &(struct ask){ .method = "GET", .path = path }, &now);
		asleep = !e && sleeps(json_root(now), w->suspended);
		if (!e && !asleep && clock_mono() > deadline)
			return err_new(ERR_TIMEOUT,
				       "Sandbox wake-%d did not sleep within %d s; does the server "
				       "run it (cay serve)?",
				       i, ASLEEP_MS / 1000);
		if (!e && !asleep)
			e = bench_pause(w->b, LOOK_MS);
	}
	return e;
}

static struct err *one_round(struct wake *w)
{
	struct err *e = NULL;

	for (int i = 0; !e && i < SLEEPERS; i++)
		e = until_asleep(w, i);
	for (int i = 0; !e && i < SLEEPERS; i++) {
		e = run_one(w, i, w->asleep);
		if (!e)
			e = run_one(w, i, w->awake);
	}
	/* Its status follows a moment later: the next round must not take it for asleep. */
	return e ? e : bench_pause(w->b, 500);
}

static struct err *measure(struct wake *w, size_t n)
{
	struct err *e = NULL;

	for (int i = 0; !e && i < SLEEPERS; i++)
		e = set_policy(w, i);
	for (size_t done = 0; !e && done < n; done += SLEEPERS)
		e = one_round(w);
	return e;
}

struct err *scenario_wake(struct bench *b)
{
	size_t n = (size_t)settings_int(b->settings, "runs");
	struct wake w = { .b = b };
	struct err *e = NULL;

	if (!*b->router.addr) {
		(void)fprintf(stderr, "cay: bench: wake: left out, because --router is empty\n");
		return NULL;
	}
	w.awake =
		bench_row(b, "wake", "wake awake", "exec",
			  "/bin/true in a sandbox that is awake, POST /execute through the router");
	w.asleep = bench_row(b, "wake", "wake frozen", "exec", "the same in one that is frozen");
	lane_init(&w.lane, &b->router);
	for (int i = 0; !e && i < SLEEPERS; i++) {
		autofree char *name = xasprintf("wake-%d", i);

		e = world_sandbox(b, name, NULL);
	}
	if (!e)
		e = measure(&w, n);
	w.suspended = true;
	w.asleep = bench_row(b, "wake", "wake suspended", NULL,
			     "the same in one that was suspended, until its Pod is Ready again");
	if (!e)
		e = measure(&w, MIN(n, (size_t)SUSPENDED_MAX));
	lane_done(&w.lane);
	return e ? e : world_empty(b);
}
