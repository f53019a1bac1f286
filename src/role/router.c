/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay router`: the router alone, over HTTPS against a Kubernetes cluster. Somebody's controllers
 * keep the status of Sandboxes there, and kubelets run their Pods; we need nothing but the status.
 *
 *   ports bound → Sandboxes listed → ready → SIGTERM → draining → over
 */
#include <signal.h>

#include "api/agents.h"
#include "api/registry.h"
#include "audit/audit.h"
#include "base/buf.h"
#include "base/log.h"
#include "cli/cli.h"
#include "client/client.h"
#include "loop/loop.h"
#include "role/audit_priv.h"
#include "role/descriptors_priv.h"
#include "role/log_settings_priv.h"
#include "role/probes_priv.h"
#include "role/role.h"
#include "role/router_priv.h"

enum {
	DRAIN_LOOK_MS = 50,
};

/* A running `cay router`. */
struct cluster_router {
	struct loop *loop;
	struct client *client;
	struct client_watch *watch;
	struct router *router;
	struct reviews *reviews;
	struct probes *probes;
	struct audit *audit; /* NULL: there is no record */
	char *audit_path;
	struct router_config config;
	struct timer *sync_limit; /* NULL: everything has been listed */
	struct timer *drain;      /* looks whether all is over; NULL: not asked to stop yet */
	usec drain_until;
	struct err *failed;
};

static const char *trouble(void *arg)
{
	const struct cluster_router *c = arg;

	if (c->drain)
		return "draining";
	return c->sync_limit ? "the Sandboxes have not been listed yet" : NULL;
}

static void write_metrics(void *arg, struct buf *b)
{
	const struct cluster_router *c = arg;
	struct reviews_stats st;

	buf_printf(b,
		   "# HELP sandbox_router_build_info What this is.\n"
		   "# TYPE sandbox_router_build_info gauge\n"
		   "sandbox_router_build_info{version=\"%s\"} 1\n",
		   CAY_VERSION);
	router_write_metrics(c->router, b);
	audit_metrics(c->audit, b);
	reviews_stats(c->reviews, &st);
	buf_printf(b,
		   "# HELP cay_router_reviews_total Questions to the API server about callers.\n"
		   "# TYPE cay_router_reviews_total counter\n"
		   "cay_router_reviews_total{answer=\"asked\"} %llu\n"
		   "cay_router_reviews_total{answer=\"remembered\"} %llu\n",
		   (unsigned long long)st.asked, (unsigned long long)st.remembered);
}

static void on_synced(void *arg)
{
	struct cluster_router *c = arg;

	timer_free(take(c->sync_limit));
	log_info("ready", KV("address", router_address(c->router)));
}

static void on_changed(unused void *arg, unused struct object *was, unused struct object *now)
{
}

static void on_sync_late(void *arg)
{
	struct cluster_router *c = arg;

	c->failed = err_new(ERR_TIMEOUT,
			    "the API server did not list the Sandboxes within %u ms: check that "
			    "it can be reached, that the CRDs are installed and that this account "
			    "may list and watch sandboxes." GROUP_AGENTS,
			    c->config.sync_ms);
	loop_stop(c->loop);
}

static void on_drain_look(void *arg)
{
	struct cluster_router *c = arg;

	if (router_idle(c->router) || clock_mono() >= c->drain_until)
		loop_stop(c->loop);
	else
		timer_set(c->drain, DRAIN_LOOK_MS);
}

/* The second time, it is over at once. */
static void on_signal(void *arg, int signum)
{
	struct cluster_router *c = arg;

	if (c->drain) {
		loop_stop(c->loop);
		return;
	}
	log_info("draining", KV("signal", signum), KV("limit_ms", c->config.shutdown_ms));
	c->drain_until = clock_mono() + (usec)c->config.shutdown_ms * 1000;
	c->drain = timer_new(c->loop, on_drain_look, c);
	timer_set(c->drain, DRAIN_LOOK_MS);
	router_drain(c->router);
}

static void watch_sandboxes(struct cluster_router *c, struct kinds *kinds)
{
	static const struct client_watch_events events = { on_changed, on_synced };
	const struct client_watch_spec spec = {
		.kind = kinds_need(kinds, API_SANDBOX, "Sandbox"),
		.ns = c->config.router.ns,
	};

	c->sync_limit = timer_new(c->loop, on_sync_late, c);
	timer_set(c->sync_limit, c->config.sync_ms);
	c->watch = client_watch(c->client, &spec, &events, c);
}

static struct err *start(struct cluster_router *c, const struct settings *settings,
			 struct kinds *kinds)
{
	struct probes_spec probes = { c->config.metrics, c->config.probes, write_metrics, trouble,
				      c };
	struct err *e =
		cli_connect(c->loop, settings_text(settings, "kubeconfig"), kinds, &c->client);

	if (!e)
		e = audit_start(c->loop, settings, &(struct audit_place){ .path = "-" }, &c->audit,
				&c->audit_path);
	if (e)
		return e;
	c->config.router.audit = c->audit;
	c->config.router.max_conns = descriptors_budget().router;
	c->reviews = reviews_new(c->loop, c->client, &c->config.reviews);
	e = router_start(c->loop, c->client, &c->config.router, &c->router);
	if (e)
		return e;
	reviews_guard(c->reviews, c->router);
	watch_sandboxes(c, kinds);
	return probes_start(c->loop, &probes, &c->probes);
}

static void finish(struct cluster_router *c)
{
	probes_free(c->probes);
	router_free(c->router);
	reviews_free(c->reviews);
	client_watch_free(c->watch);
	timer_free(c->sync_limit);
	timer_free(c->drain);
	client_free(c->client);
	audit_free(c->audit);
	free(c->audit_path);
	router_config_done(&c->config);
}

int router_run(const struct command *cmd unused, const struct settings *settings)
{
	autoptr(loop) l = NULL;
	autoptr(kinds) kinds = kinds_new();
	struct cluster_router c = { 0 };
	struct err *e;

	log_setup_from(settings);
	e = router_config_read(settings, &c.config);
	if (!e)
		e = loop_new(&l);
	c.loop = l;
	if (!e)
		e = start(&c, settings, kinds);
	if (!e) {
		struct signal_watch *term = signal_watch_new(l, SIGTERM, on_signal, &c);
		struct signal_watch *intr = signal_watch_new(l, SIGINT, on_signal, &c);

		log_info("routing", KV("version", CAY_VERSION),
			 KV("address", router_address(c.router)),
			 KV("authz_mode", settings_text(settings, "authz-mode")));
		loop_run(l);
		signal_watch_free(term);
		signal_watch_free(intr);
		e = take(c.failed);
	}
	finish(&c);
	return e ? cli_fail(err_wrap(e, "router")) : EXIT_OK;
}
