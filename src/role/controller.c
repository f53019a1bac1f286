/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay controller`: the controllers alone, over HTTPS against a Kubernetes cluster.
 */
#include <poll.h>
#include <signal.h>

#include "api/cay/cay.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "client/client.h"
#include "control/control.h"
#include "loop/loop.h"
#include "net/http_client.h"
#include "role/log_settings_priv.h"
#include "role/probes_priv.h"
#include "role/role.h"
#include "role/tracing_priv.h"
#include "trace/trace.h"

const struct setting controller_settings[] = {
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE",
	  "Cluster to serve (by default the one in $KUBECONFIG or ~/.kube/config)" },
	{ "cluster-domain", SETTING_TEXT, "cluster.local", "NAME",
	  "Domain to use in status.serviceFQDN" },
	{ "sandbox-warm-pool-max-batch-size", SETTING_INT, "300", "N",
	  "Most sandboxes that a pool creates or deletes in one pass", .min = 1, .max = 100000 },
	{ "sandbox-warm-pool-readiness-grace-period", SETTING_DURATION, "5m", "TIME",
	  "How long a pool member may take to become ready before it is replaced" },
	{ "sandbox-warm-pool-rest", SETTING_DURATION, "25ms", "TIME",
	  "How long a pool waits after a claim before it refills, so that claims go first" },
	{ "disable-sandbox-events", SETTING_BOOL, "false", NULL,
	  "Do not write Events about Sandboxes" },
	{ "disable-claim-events", SETTING_BOOL, "false", NULL,
	  "Do not write Events about SandboxClaims" },
	{ "metrics-bind-address", SETTING_TEXT, "0", "[ADDR]:PORT",
	  "Address that shows /metrics; '' or 0: none" },
	{ "health-probe-bind-address", SETTING_TEXT, "0", "[ADDR]:PORT",
	  "Address that shows /healthz and /readyz; '' or 0: none" },
	TRACING_SETTINGS,
	LOG_SETTINGS,
	{ 0 },
};

enum {
	CONTROLLER_STOP_MS = 2000,
	ASK_TRIES = 30,
	ASK_PAUSE_MS = 1000,
};

/* A running `cay controller`. */
struct controller {
	struct loop *loop;
	struct control *control;
	struct probes *probes;
	struct tracing *tracing;
	struct timer *deadline; /* of a clean stop; NULL: not asked to stop yet */
};

static void controller_finished(void *arg)
{
	loop_stop(((struct controller *)arg)->loop);
}

/* The second time, or if the API server does not answer, it is over at once. */
static void controller_stop(void *arg, int signum)
{
	struct controller *c = arg;

	log_info("stopping", KV("signal", signum));
	if (c->deadline) {
		loop_stop(c->loop);
		return;
	}
	c->deadline = timer_new(c->loop, controller_finished, c);
	timer_set(c->deadline, CONTROLLER_STOP_MS);
	control_finish(c->control, controller_finished, c);
}

/* Whether the cluster has the kinds of cay.dev. */
static struct err *ask_for_agents(const char *kubeconfig, bool *ret)
{
	struct cli_server server = { 0 };
	struct http_headers h = { 0 };
	autofree char *target = NULL;
	autobuf answer = { 0 };
	int status = 0;
	struct err *e = cli_server_find(kubeconfig, &server);

	if (!e) {
		target = xasprintf("%s/apis/" API_CAY, server.prefix);
		http_headers_add(&h, "Host", server.host);
		if (server.authorization)
			http_headers_add(&h, "Authorization", server.authorization);
		e = cli_exchange(&(struct cli_request){ .addr = server.addr,
							.method = "GET",
							.target = target,
							.headers = &h,
							.body = &(const struct buf){ 0 },
							.wrap = cli_server_wrap,
							.wrap_arg = &server },
				 &status, &answer);
	}
	if (!e && status != 200 && status != 404)
		e = err_new(ERR_UNAVAILABLE, "the API server answers %d", status);
	*ret = status == 200;
	http_headers_done(&h);
	cli_server_done(&server);
	return e;
}

/* Without their CRDs their watches would hold up all controllers. An API server that starts at the
 * same time as we do gets half a minute. */
static bool has_agents(const char *kubeconfig)
{
	struct err *e = NULL;
	bool has = false;

	for (unsigned i = 0; i < ASK_TRIES; i++) {
		err_free(take(e));
		e = ask_for_agents(kubeconfig, &has);
		if (!e)
			break;
		(void)poll(NULL, 0, ASK_PAUSE_MS);
	}
	if (e)
		log_warn("cannot tell whether the cluster has the kinds of cay.dev; their "
			 "controllers stay off",
			 KV("err", e));
	else if (!has)
		log_info("the cluster lacks the kinds of cay.dev, so their controllers stay off; "
			 "apply `cay manifests` and start again");
	err_free(e);
	return has;
}

static struct err *controller_start(const struct settings *settings, struct loop *l,
				    struct client *client, struct tracer *tracer,
				    struct control **ret)
{
	struct control_options o = {
		.cluster_domain = settings_text(settings, "cluster-domain"),
		.pool_max_batch =
			(unsigned)settings_int(settings, "sandbox-warm-pool-max-batch-size"),
		.pool_rest_ms = (uint64_t)settings_int(settings, "sandbox-warm-pool-rest"),
		.pool_grace_ms = (uint64_t)settings_int(settings,
							"sandbox-warm-pool-readiness-grace-period"),
		.no_sandbox_events = settings_bool(settings, "disable-sandbox-events"),
		.no_claim_events = settings_bool(settings, "disable-claim-events"),
		.agents = has_agents(settings_text(settings, "kubeconfig")),
		.tracer = tracer,
	};

	return control_start(l, client, &o, ret);
}

static void write_metrics(void *arg, struct buf *b)
{
	const struct controller *c = arg;

	control_metrics(c->control, b);
	tracer_metrics(tracing_tracer(c->tracing), b);
}

static const char *trouble(void *arg)
{
	return control_synced(((struct controller *)arg)->control)
		       ? NULL
		       : "the API server has not told yet what there is";
}

static struct err *start_probes(struct controller *c, const struct settings *settings)
{
	autofree char *metrics = NULL, *health = NULL;
	struct err *e = address_setting(settings, "metrics-bind-address", &metrics);

	if (!e)
		e = address_setting(settings, "health-probe-bind-address", &health);
	if (e)
		return e;
	return probes_start(c->loop,
			    &(struct probes_spec){ metrics, health, write_metrics, trouble, c },
			    &c->probes);
}

int controller_run(const struct command *c unused, const struct settings *settings)
{
	autoptr(loop) l = NULL;
	autoptr(kinds) kinds = kinds_new();
	struct client *client = NULL;
	struct controller it = { 0 };
	struct err *e;

	log_setup_from(settings);
	e = loop_new(&l);
	it.loop = l;
	if (!e)
		e = cli_connect(l, settings_text(settings, "kubeconfig"), kinds, &client);
	if (!e)
		e = tracing_start(l, settings, &it.tracing);
	if (!e)
		e = controller_start(settings, l, client, tracing_tracer(it.tracing), &it.control);
	if (!e)
		e = start_probes(&it, settings);
	if (!e) {
		struct signal_watch *term = signal_watch_new(l, SIGTERM, controller_stop, &it);
		struct signal_watch *intr = signal_watch_new(l, SIGINT, controller_stop, &it);

		log_info("controlling", KV("version", CAY_VERSION));
		loop_run(l);
		signal_watch_free(term);
		signal_watch_free(intr);
		timer_free(it.deadline);
	}
	probes_free(it.probes);
	control_free(it.control);
	client_free(client);
	tracing_free(it.tracing);
	return e ? cli_fail(err_wrap(e, "controller")) : EXIT_OK;
}
