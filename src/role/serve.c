/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay serve`: the server, the node, the controllers and the router in one process, started in this
 * order and stopped in reverse.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/registry.h"
#include "audit/audit.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "cli/cli.h"
#include "client/access.h"
#include "client/client.h"
#include "control/control.h"
#include "crypto/crypto.h"
#include "gate/gate.h"
#include "loop/loop.h"
#include "loop/trim.h"
#include "mcp/mcp.h"
#include "node/host/rights.h"
#include "node/node.h"
#include "role/audit_priv.h"
#include "role/early_priv.h"
#include "role/first_priv.h"
#include "role/log_settings_priv.h"
#include "role/machine_priv.h"
#include "role/role.h"
#include "role/serve_priv.h"
#include "role/tracing_priv.h"
#include "router/node_ports/node_ports.h"
#include "router/router.h"
#include "server/server.h"
#include "store/store.h"
#include "trace/trace.h"

enum {
	TRIM_LOOK_MS = 5000,
	STOP_MORE_MS = 30 * 1000, /* after the grace of sandboxes, for the rest */
};

static void serve_done(struct serve *s)
{
	s->stopping = true;
	machine_done(&s->machine);
	trim_free(s->trim);
	node_ports_free(s->node_ports);
	front_free(s->front);
	serve_stop_oversight(s);
	serve_stop_page(s);
	serve_stop_outlet(s);
	serve_stop_identity(s);
	serve_stop_hooks(s);
	serve_stop_mcp(s);
	if (s->server)
		server_set_access(s->server, NULL); /* ends the tunnels to the router too */
	if (s->server)
		server_set_wake(s->server, NULL, NULL);
	router_free(take(s->router));
	serve_stop_gate(s);
	control_free(s->control);
	node_free(s->node);
	client_free(s->oversight_client);
	client_free(s->outlet_client);
	client_free(s->hooks_client);
	client_free(s->mcp_client);
	client_free(s->router_client);
	client_free(s->control_client);
	client_free(s->gate_client);
	client_free(s->node_client);
	server_free(s->server);
	tracing_free(s->tracing);
	audit_free(s->audit);
	free(s->audit_path);
	ed25519_free(s->audit_key);
	kinds_free(s->kinds);
	signal_watch_free(s->term); /* until now a signal does not cut the end short */
	signal_watch_free(s->intr);
	signal_watch_free(s->usr1);
	(void)signal(SIGTERM, SIG_IGN); /* nor the exit status of one that is as good as over */
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGUSR1, SIG_IGN);
	loop_free(s->loop);
	free(s->launcher);
	free(s->init);
	free(s->node_name);
}

static struct err *start_server(struct serve *s)
{
	const char *sans[] = { settings_text(s->settings, "tls-san"), NULL };
	struct server_spec spec = {
		.kinds = s->kinds,
		.data_dir = settings_text(s->settings, "data-dir"),
		.listen = settings_text(s->settings, "listen"),
		.node_name = s->node_name,
		.sans = sans,
		.grants = settings_text(s->settings, "service-account-grants"),
		.service_cidr = settings_text(s->settings, "service-cidr"),
		.store_reserve = (uint64_t)settings_int(s->settings, "store-reserve") << 20,
		.watch_history = (size_t)settings_int(s->settings, "watch-history"),
		.max_conns = s->budget.api,
		.new_store = settings_bool(s->settings, "new-store"),
		.new_keys = settings_bool(s->settings, "new-keys"),
		.accept_damaged_log = settings_bool(s->settings, "accept-damaged-log"),
	};
	char **classes = NULL;
	struct err *e = node_runtime_names(settings_text(s->settings, "runtimes"), &classes);

	spec.runtime_classes = (const char *const *)classes;
	if (!e)
		e = server_open(s->loop, &spec, &s->server);
	for (size_t i = 0; classes && classes[i]; i++)
		free(classes[i]);
	free(classes);
	if (e)
		return e;
	s->node_client = server_client(s->server, "system:cay:node");
	s->control_client = server_client(s->server, "system:cay:controller");
	s->router_client = server_client(s->server, "system:cay:router");
	s->mcp_client = server_client(s->server, "system:cay:mcp");
	s->gate_client = server_client(s->server, "system:cay:gate");
	s->hooks_client = server_client(s->server, "system:cay:hooks");
	s->outlet_client = server_client(s->server, "system:cay:outlet");
	s->oversight_client = server_client(s->server, "system:cay:oversight");
	return NULL;
}

static void write_metrics(void *arg, struct buf *b)
{
	const struct serve *s = arg;
	struct router_stats router = { 0 };
	struct node_ports_stats ports = { 0 };
	struct mcp_stats mcp = { 0 };

	if (s->node)
		node_metrics(s->node, b);
	if (s->control)
		control_metrics(s->control, b);
	if (s->gate)
		gate_metrics(s->gate, b);
	if (s->router) {
		router_stats(s->router, &router);
		router_write_metrics(s->router, b);
	}
	metrics_counter(
		b, "cay_router_refused_total",
		"Requests that the router refused by Host, by who asked or by what they showed.",
		router.refused);
	metrics_gauge(b, "cay_router_tls_passing",
		      "Connections through the port that passes TLS on.", router.passing);
	if (s->node_ports)
		node_ports_stats(s->node_ports, &ports);
	metrics_counter(b, "cay_node_ports_accepted_total", "Connections to node ports.",
			ports.accepted);
	metrics_counter(
		b, "cay_node_ports_refused_total",
		"Connections to node ports that were refused by who connected, or because no "
		"Pod is ready.",
		ports.refused);
	if (s->mcp)
		mcp_stats(s->mcp, &mcp);
	metrics_counter(b, "cay_mcp_calls_total", "Calls of tools over MCP.", mcp.calls);
	metrics_counter(b, "cay_mcp_failed_total", "Calls of tools over MCP that failed.",
			mcp.failed);
	metrics_gauge(b, "cay_mcp_sessions", "Sessions over MCP.", mcp.sessions);
	serve_hooks_metrics(s, b);
	serve_identity_metrics(s, b);
	serve_outlet_metrics(s, b);
	audit_metrics(s->audit, b);
	tracer_metrics(tracing_tracer(s->tracing), b);
}

static struct budget_spec read_budget(const struct settings *s)
{
	return (struct budget_spec){
		.memory_reserve = settings_int(s, "host-memory-reserve"),
		.pids_reserve = settings_int(s, "host-pids-reserve"),
		.memory = settings_int(s, "sandboxes-memory"),
		.default_memory = settings_int(s, "default-memory"),
		.pod_pids = settings_int(s, "pod-pids"),
		.max_pods = settings_int(s, "max-pods"),
		.max_containers = settings_int(s, "max-containers"),
		.overcommit = settings_int(s, "overcommit"),
	};
}

/* Control knows whether claims come in, the node does the launching. */
static void pace_changed(void *arg, bool yield)
{
	struct serve *s = arg;

	if (s->node)
		node_set_pace(s->node, yield);
}

/* Only the router knows what it has sent into a sandbox and got no answer to. */
static bool awaited(void *arg, const char *ns, const char *sandbox)
{
	const struct serve *s = arg;

	return s->router && router_awaits(s->router, ns, sandbox);
}

/* A Sandbox that sleeps has no Pod; the one that it will have is named as it is. */
static bool wake_pod(void *arg, const char *ns, const char *pod)
{
	struct serve *s = arg;

	return s->control && control_wake(s->control, ns, pod, "stream");
}

/* Nothing that is made from now on would have limits: a new start has groups again. */
static void groups_lost(void *arg)
{
	struct serve *s = arg;

	s->groups_lost = true;
	loop_stop(s->loop);
}

static struct err *start_roles(struct serve *s)
{
	struct node_spec node = {
		.data_dir = settings_text(s->settings, "data-dir"),
		.node_name = s->node_name,
		.launcher = s->launcher,
		.without_features = settings_text(s->settings, "without-features"),
		.init = s->init,
		.runtimes = settings_text(s->settings, "runtimes"),
		.netns_pool = (unsigned)settings_int(s->settings, "network-pool"),
		.store_id = store_id(server_store(s->server)),
		.store_is_new = server_store_is_new(s->server),
		.open_to_local_users = settings_bool(s->settings, "open-to-local-users"),
		.no_egress = str_eq(settings_text(s->settings, "egress"), "none"),
		.outlet = serve_wants_outlet(s),
		.policy_may_open = settings_text(s->settings, "policy-may-open"),
		.domain = settings_text(s->settings, "cluster-domain"),
		.resolv_conf = settings_text(s->settings, "resolv-conf"),
		.disk_pool = settings_text(s->settings, "disk-pool"),
		.disk_pool_size = settings_int(s->settings, "disk-pool-size"),
		.sandbox_disk = settings_int(s->settings, "sandbox-disk"),
		.log_max = settings_int(s->settings, "log-max-size"),
		.host_paths = settings_text(s->settings, "host-path"),
		.allow_unenforced_disk = settings_bool(s->settings, "allow-unenforced-disk-limits"),
		.tokens = server_token_issuer(s->server),
		.pull_images = settings_bool(s->settings, "pull-images"),
		.shutdown_ms = (uint64_t)settings_int(s->settings, "shutdown-grace"),
		.shutdown_critical_ms =
			(uint64_t)settings_int(s->settings, "shutdown-grace-critical"),
		.pressure_interval_s = settings_int(s->settings, "pressure-interval"),
		.usage_interval_s = settings_int(s->settings, "usage-interval"),
		.budget = read_budget(s->settings),
		.give_up_fd = s->give_up_fd,
		.groups_lost = groups_lost,
		.groups_lost_arg = s,
	};
	struct control_options control = {
		.cluster_domain = settings_text(s->settings, "cluster-domain"),
		.pool_rest_ms = (uint64_t)settings_int(s->settings, "sandbox-warm-pool-rest"),
		.cluster_services = true,
		.agents = true,
		.root_ca = server_ca_cert(s->server),
		.sandbox_slices = settings_bool(s->settings, "sandbox-endpoint-slices"),
		.pace_changed = pace_changed,
		.pace_arg = s,
		.awaited = awaited,
		.awaited_arg = s,
		.tracer = tracing_tracer(s->tracing),
	};
	struct reach_judge judge;
	struct err *e;

	serve_start_gate(s);
	judge = serve_judge(s);
	node.reach = &judge;
	e = node_start(s->loop, s->node_client, &node, &s->node);
	if (e)
		return e;
	control.access = node_access(s->node);
	server_set_access(s->server, control.access);
	access_set_audit(control.access, s->audit);
	server_add_metrics(s->server, write_metrics, s);
	e = control_start(s->loop, s->control_client, &control, &s->control);
	if (e)
		return err_wrap(e, "start controllers");
	server_set_wake(s->server, wake_pod, s);
	serve_connect_gate(s);
	return serve_start_router(s);
}

static void node_stopped(void *arg)
{
	loop_stop(((struct serve *)arg)->loop);
}

/* A service manager waits as long as sandboxes are given, and for what comes after that. */
static void tell_ending(const struct serve *s)
{
	int64_t grace_ms = settings_int(s->settings, "shutdown-grace");
	autofree char *text =
		xasprintf("EXTEND_TIMEOUT_USEC=%lld\nSTATUS=ending, with the sandboxes",
			  (long long)(grace_ms + STOP_MORE_MS) * 1000);

	notify_send(&s->notify, text);
}

static void stop_node(void *arg, bool sandboxes_too)
{
	struct serve *s = arg;

	if (sandboxes_too)
		tell_ending(s);
	node_stop(s->node, sandboxes_too, node_stopped, s);
}

/* SIGUSR1 is what `cay stop --sandboxes` sends. A machine that is shut down sends SIGTERM like
 * everybody else, but it would take the sandboxes with it in the middle of their work. */
static void on_signal(void *arg, int signum)
{
	struct serve *s = arg;

	log_info("stopping", KV("signal", signum));
	notify_send(&s->notify, "STOPPING=1\nSTATUS=ending");
	if (s->stopping) { /* the second time */
		loop_stop(s->loop);
		return;
	}
	s->stopping = true;
	if (signum == SIGUSR1 || settings_bool(s->settings, "stop-sandboxes"))
		stop_node(s, true);
	else
		machine_ask(&s->machine, s->loop, stop_node, s);
}

/* The loop learns of those that came during the start in its first turn. */
static void watch_signals(struct serve *s)
{
	s->term = signal_watch_new(s->loop, SIGTERM, on_signal, s);
	s->intr = signal_watch_new(s->loop, SIGINT, on_signal, s);
	s->usr1 = signal_watch_new(s->loop, SIGUSR1, on_signal, s);
	early_signals_raise();
}

static void greet(const struct serve *s)
{
	const char *dir = settings_text(s->settings, "data-dir");

	if (settings_bool(s->settings, "open-to-local-users"))
		log_warn(
			"EVERY USER OF THIS MACHINE CAN ENTER EVERY SANDBOX, going on because "
			"--open-to-local-users was given; leave it out and use --router-group or tokens");
	log_info("serving", KV("api", server_address(s->server)),
		 KV("router", router_address(s->router)), KV("dataDir", dir),
		 KV("node", s->node_name), KV("version", CAY_VERSION));
	if (*router_tls_address(s->router))
		log_info("router serves TLS", KV("address", router_tls_address(s->router)));
	if (*router_sni_address(s->router))
		log_info("router passes TLS on", KV("address", router_sni_address(s->router)));
	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr,
			      "\nTry:  kubectl --kubeconfig %s/admin.kubeconfig get nodes\n\n",
			      dir);
}

/* Connections to API and router wait in their queues from here on, and admin.kubeconfig is there.
 */
static void tell_ready(const struct serve *s)
{
	autofree char *text = xasprintf("READY=1\nSTATUS=serving, API at %s, router at %s",
					server_address(s->server), router_address(s->router));

	notify_send(&s->notify, text);
}

static struct err *check_shutdown(const struct settings *s)
{
	if (settings_int(s, "shutdown-grace-critical") <= settings_int(s, "shutdown-grace"))
		return NULL;
	return err_new(
		ERR_INVALID, "--shutdown-grace-critical %s must not exceed --shutdown-grace %s",
		settings_text(s, "shutdown-grace-critical"), settings_text(s, "shutdown-grace"));
}

static struct err *start_audit(struct serve *s)
{
	autofree char *path = xasprintf("%s/audit.log", settings_text(s->settings, "data-dir"));
	struct err *e = audit_key_open(settings_text(s->settings, "data-dir"), &s->audit_key);

	if (e)
		return err_wrap(e, "open the key of the audit log");
	e = audit_start(s->loop, s->settings, &(struct audit_place){ path, s->audit_key },
			&s->audit, &s->audit_path);

	if (s->audit)
		server_set_audit(s->server, s->audit);
	return e;
}

static struct err *serve_start(struct serve *s)
{
	struct err *e = check_shutdown(s->settings);

	if (!e)
		e = rights_check(); /* before anything of ours is on the host */
	if (!e && rights_sysctl_read_only())
		log_warn("/proc/sys is read-only, going on with sandboxes that have no way out; "
			 "start the container with --privileged");
	if (!e)
		e = serve_find_programs(s);
	if (!e)
		e = loop_new(&s->loop);
	if (e)
		return e;
	s->kinds = kinds_new();
	e = early_signals_note(&s->give_up_fd);
	if (!e)
		e = serve_find_node_name(s);
	if (!e)
		e = start_server(s);
	if (!e)
		e = start_audit(s);
	if (!e)
		e = tracing_start(s->loop, s->settings, &s->tracing);
	if (!e)
		server_set_tracer(s->server, tracing_tracer(s->tracing));
	if (!e)
		e = start_roles(s);
	if (!e) {
		serve_start_mcp(s);
		serve_start_hooks(s);
		e = serve_start_identity(s);
		if (!e)
			e = serve_start_outlet(s);
		if (!e)
			serve_start_oversight(s);
		serve_start_page(s);
	}
	if (!e)
		e = server_listen(s->server);
	if (!e)
		e = server_write_kubeconfig(s->server);
	if (e)
		return e;
	s->trim = trim_new(s->loop, TRIM_LOOK_MS);
	watch_signals(s);
	greet(s);
	tell_ready(s);
	return NULL;
}

static int serve_as_first_process(void)
{
	int code = 0;
	struct err *e = first_process_serve(&code);

	return e ? cli_fail(err_wrap(e, "serve")) : code;
}

int serve_run(const struct command *c unused, const struct settings *settings)
{
	struct serve s = { .settings = settings };
	struct err *e;

	if (getpid() == 1)
		return serve_as_first_process();
	list_init(&s.tunnels);
	log_setup_from(settings);
	notify_init(&s.notify);
	(void)umask(077);
	s.budget = descriptors_budget();
	e = serve_start(&s);
	if (!e)
		loop_run(s.loop);
	if (!e && s.groups_lost)
		e = err_new(ERR_UNAVAILABLE,
			    "the scope of the sandboxes was stopped, and they with it; start "
			    "again to go on");
	serve_done(&s);
	if (err_is(e, ERR_CANCELED)) {
		log_info("ended during the start", KV("err", e));
		err_free(take(e));
	}
	return e ? cli_fail(err_wrap(e, "serve")) : EXIT_OK;
}
