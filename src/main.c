/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From argv to a role. This is the only file that knows every role: it assembles the server, the
 * controllers, the node and the router for `cay serve`, runs the controllers alone for `cay
 * controller`, and leaves everything else to cli/.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/agents.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/wall.h"
#include "cli/cli.h"
#include "client/access.h"
#include "client/client.h"
#include "control/control.h"
#include "loop/loop.h"
#include "loop/trim.h"
#include "net/http_server.h"
#include "node/image/image.h"
#include "node/node.h"
#include "router/router.h"
#include "server/server.h"
#include "store/store.h"

static const char *const log_levels[] = { "debug", "info", "warn", "error", NULL };
static const char *const log_formats[] = { "text", "json", NULL };

#define LOG_SETTINGS                                                  \
	{ "log-level",                                                \
	  SETTING_CHOICE,                                             \
	  "info",                                                     \
	  "LEVEL",                                                    \
	  "Least severe messages to log: debug, info, warn or error", \
	  .choices = log_levels },                                    \
		{ "log-format",                                       \
		  SETTING_CHOICE,                                     \
		  "text",                                             \
		  "FORMAT",                                           \
		  "Format of the log: text or json",                  \
		  .choices = log_formats },                           \
		{ "config", SETTING_TEXT, NULL, "FILE", "YAML file to read settings from" }

static const struct setting serve_settings[] = {
	{ "data-dir", SETTING_TEXT, "/var/lib/cay", "DIR", "Directory for all state" },
	{ "listen", SETTING_ADDRESS, "127.0.0.1:6443", "ADDR:PORT",
	  "Address to serve the Kubernetes API on, with TLS" },
	{ "router-listen", SETTING_ADDRESS, "127.0.0.1:8080", "ADDR:PORT",
	  "Address to accept HTTP requests to sandboxes on" },
	{ "node-name", SETTING_TEXT, NULL, "NAME",
	  "Name of this machine's Node object (by default the host name)" },
	{ "init", SETTING_TEXT, NULL, "FILE",
	  "Path of cay-init (by default next to this program or in ../libexec/cay)" },
	{ "network-pool", SETTING_INT, "16", "N",
	  "Number of network namespaces to keep ready for new sandboxes", .min = 1, .max = 1024 },
	{ "disk-pool", SETTING_TEXT, NULL, "DIR",
	  "Where sandboxes write: a directory on a btrfs, or `none` for plain directories without limits (by default a btrfs in DATA-DIR/pool.img)" },
	{ "disk-pool-size", SETTING_SIZE, "0", "SIZE",
	  "Size of a new DATA-DIR/pool.img; 0: half of the free space, at most 64Gi",
	  .max = INT64_C(1) << 50 },
	{ "sandbox-disk", SETTING_SIZE, "10Gi", "SIZE",
	  "What a container's layer, or an emptyDir, may hold if its Pod does not say",
	  .min = 16 << 20, .max = INT64_C(1) << 50 },
	{ "log-max-size", SETTING_SIZE, "20Mi", "SIZE",
	  "What a container's log may hold; beyond it, the older half goes", .min = 64 << 10,
	  .max = INT64_C(1) << 40 },
	{ "allow-unenforced-disk-limits", SETTING_BOOL, "false", NULL,
	  "Run Pods with disk space limits where nothing enforces them, instead of refusing them" },
	{ "host-memory-reserve", SETTING_SIZE, NULL, "SIZE",
	  "Memory that sandboxes leave to the host (by default 512Mi or a tenth, whichever is more)",
	  .min = 1 << 20, .max = INT64_C(1) << 50 },
	{ "host-pids-reserve", SETTING_INT, NULL, "N",
	  "Processes and threads that sandboxes leave to the host (by default 2048 or a tenth)",
	  .min = 64, .max = 4194304 },
	{ "default-memory", SETTING_SIZE, NULL, "SIZE",
	  "Memory limit of a container that names none (by default 4Gi or half of what sandboxes may use)",
	  .min = 1 << 20, .max = INT64_C(1) << 50 },
	{ "pod-pids", SETTING_INT, "1024", "N",
	  "Processes and threads of a Pod, in equal parts for its containers", .min = 16,
	  .max = 4194304 },
	{ "max-pods", SETTING_INT, "2000", "N", "Most Pods that run at a time", .min = 1,
	  .max = 16000 },
	{ "max-containers", SETTING_INT, NULL, "N",
	  "Most containers that run at a time (by default twice --max-pods)", .min = 1,
	  .max = 32000 },
	{ "overcommit", SETTING_INT, "1000", "N",
	  "How many times over the memory and CPUs of the machine may be requested by Pods",
	  .min = 1, .max = 100000 },
	{ "cluster-domain", SETTING_TEXT, "cluster.local", "NAME",
	  "Domain to use in status.serviceFQDN" },
	{ "sandbox-warm-pool-rest", SETTING_DURATION, "25ms", "TIME",
	  "How long a pool waits after a claim before it refills, so that claims go first" },
	{ "tls-san", SETTING_TEXT, NULL, "NAME",
	  "Additional name or address to put into the server's certificate" },
	{ "service-account-grants", SETTING_TEXT, NULL, "NS/NAME=ROLE,...",
	  "Rights of service accounts, each in its own namespace: view, edit or admin; others have none" },
	{ "store-reserve", SETTING_INT, "32", "MIB",
	  "Disk space to keep for deletions on a full disk, in MiB; 0 keeps none", .min = 0,
	  .max = 4096 },
	{ "watch-history", SETTING_SIZE, "8Mi", "SIZE",
	  "Memory for past states of objects; a watch that falls further behind must list again",
	  .min = 64 << 10, .max = INT64_C(1) << 40 },
	{ "new-store", SETTING_BOOL, "false", NULL,
	  "Begin without objects if the store of this data directory is missing" },
	{ "new-keys", SETTING_BOOL, "false", NULL,
	  "Create the CA and the signing key again if they are missing" },
	{ "accept-damaged-log", SETTING_BOOL, "false", NULL,
	  "Start although the store's log is damaged, and lose the commits after the damage" },
	{ "router-access-log", SETTING_BOOL, "false", NULL,
	  "Log every request through the router" },
	{ "router-host", SETTING_TEXT, NULL, "NAME,...",
	  "More names that requests to the router may have in Host; * allows all" },
	{ "router-group", SETTING_TEXT, NULL, "GROUP",
	  "Group whose members may use the router as root does: no token needed" },
	{ "open-to-local-users", SETTING_BOOL, "false", NULL,
	  "Let every user of this machine into every sandbox: no token, no packet filter" },
	{ "stop-sandboxes", SETTING_BOOL, "false", NULL,
	  "Stop all sandboxes on SIGTERM instead of leaving them running" },
	LOG_SETTINGS,
	{ 0 },
};

static const struct setting controller_settings[] = {
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
	LOG_SETTINGS,
	{ 0 },
};

static const struct setting no_settings[] = { { 0 } };

static void setup_log(const struct settings *s)
{
	enum log_level level = LOG_LEVEL_INFO;

	for (size_t i = 0; log_levels[i]; i++)
		if (str_eq(log_levels[i], settings_text(s, "log-level")))
			level = (enum log_level)i;
	log_setup(level, str_eq(settings_text(s, "log-format"), "json") ? LOG_FORMAT_JSON
									: LOG_FORMAT_TEXT);
}

/*
 * Connections that API and router may have, so that no crowd of them takes the descriptors that the
 * store, images, launchers and guests need: half of all is for these.
 */
struct budget {
	size_t api, router; /* 0: as many as these allow by themselves */
};

enum {
	API_CONNS_MAX = 4096,
	ROUTER_CONNS_MAX = 16384,
	TRIM_LOOK_MS = 5000,
};

/* The soft limit is for programs that use select(); sandboxes get limits of their own. */
static struct budget make_budget(void)
{
	struct rlimit r;
	size_t all;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return (struct budget){ 0 };
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		(void)getrlimit(RLIMIT_NOFILE, &r);
	if (!wall_stands("connection-budget"))
		return (struct budget){ 0 };
	all = (size_t)MIN(r.rlim_cur, (rlim_t)1 << 20);
	log_debug("descriptors", KV("limit", (uint64_t)all));
	return (struct budget){
		.api = MAX(MIN(all / 4, (size_t)API_CONNS_MAX), (size_t)1),
		.router = MAX(MIN(all / 8, (size_t)ROUTER_CONNS_MAX), (size_t)1), /* two each */
	};
}

/*
 * One running `cay serve`, in the order in which its parts are started; they are stopped in
 * reverse.
 */
struct serve {
	const struct settings *settings;
	char *launcher, *init, *node_name;
	struct loop *loop;
	struct kinds *kinds;
	struct server *server;
	struct client *node_client, *control_client, *router_client;
	struct node *node;
	struct control *control;
	struct router *router;
	struct trim *trim;
	const struct kind *sandboxes;
	struct signal_watch *term, *intr;
	bool stopping;
	struct budget budget;
};

static void serve_done(struct serve *s)
{
	s->stopping = true;
	trim_free(s->trim);
	router_free(s->router);
	control_free(s->control);
	if (s->server)
		server_set_access(s->server, NULL);
	node_free(s->node);
	client_free(s->router_client);
	client_free(s->control_client);
	client_free(s->node_client);
	server_free(s->server);
	kinds_free(s->kinds);
	signal_watch_free(s->term); /* until now a signal does not cut the end short */
	signal_watch_free(s->intr);
	(void)signal(SIGTERM, SIG_IGN); /* nor the exit status of one that is as good as over */
	(void)signal(SIGINT, SIG_IGN);
	loop_free(s->loop);
	free(s->launcher);
	free(s->init);
	free(s->node_name);
}

/* A program that is installed with this one. NULL: there is none. */
static char *find_program(const char *self, const char *name)
{
	static const char *const places[] = { "", "../libexec/cay/" };
	int dir = (int)(strrchr(self, '/') + 1 - self);

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		autofree char *path = xasprintf("%.*s%s%s", dir, self, places[i], name);

		if (access(path, X_OK) == 0)
			return take(path);
	}
	return NULL;
}

static struct err *find_programs(struct serve *s)
{
	const char *given = settings_text(s->settings, "init");
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len < 0)
		return err_sys(errno, "read /proc/self/exe");
	self[len] = '\0';
	s->launcher = find_program(self, "cay-launch");
	if (!s->launcher)
		return err_new(ERR_NOT_FOUND,
			       "there is no executable cay-launch next to or in "
			       "../libexec/cay of %s",
			       self);
	if (!given)
		s->init = find_program(self, "cay-init");
	else if (access(given, X_OK) == 0)
		s->init = xstrdup(given);
	if (!s->init)
		return err_new(
			ERR_NOT_FOUND, "there is no executable cay-init %s %s; name it with --init",
			given ? "at" : "next to or in ../libexec/cay of", given ? given : self);
	return NULL;
}

/* Linux takes host names that are no names of objects: what they must not hold becomes a dash. */
static char *name_after_host(void)
{
	char host[HOST_NAME_MAX + 1] = "cay";

	(void)gethostname(host, sizeof(host) - 1); /* on failure, "cay" is used */
	for (char *p = host; *p; p++)
		*p = isalnum((unsigned char)*p) || *p == '.' ? (char)tolower((unsigned char)*p)
							     : '-';
	return xstrdup(meta_bad_dns_subdomain(host) ? "cay" : host);
}

static struct err *find_node_name(struct serve *s)
{
	const char *given = settings_text(s->settings, "node-name");
	const char *bad = given ? meta_bad_dns_subdomain(given) : NULL;

	if (bad)
		return err_new(ERR_INVALID, "--node-name %s: %s", given, bad);
	s->node_name = given ? xstrdup(given) : name_after_host();
	return NULL;
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
		.store_reserve = (uint64_t)settings_int(s->settings, "store-reserve") << 20,
		.watch_history = (size_t)settings_int(s->settings, "watch-history"),
		.max_conns = s->budget.api,
		.new_store = settings_bool(s->settings, "new-store"),
		.new_keys = settings_bool(s->settings, "new-keys"),
		.accept_damaged_log = settings_bool(s->settings, "accept-damaged-log"),
	};
	struct err *e = server_open(s->loop, &spec, &s->server);

	if (e)
		return e;
	s->node_client = server_client(s->server, "system:cay:node");
	s->control_client = server_client(s->server, "system:cay:controller");
	s->router_client = server_client(s->server, "system:cay:router");
	return NULL;
}

/* The same in words that say what to do. */
static struct err *explain_refusal(struct err *e, const char *ns)
{
	bool known = err_is(e, ERR_FORBIDDEN);

	if (!known && !err_is(e, ERR_UNAUTHENTICATED))
		return e;
	err_free(e);
	if (known)
		return err_new(ERR_FORBIDDEN,
			       "forbidden: the token may not create pods/exec for this sandbox in "
			       "namespace %s",
			       ns);
	return err_new(
		ERR_UNAUTHENTICATED,
		"unauthenticated: ask as root or as a member of the group that "
		"--router-group names, or send Authorization: Bearer TOKEN with a token that "
		"may create pods/exec in namespace %s",
		ns);
}

/* Who may use the router: whoever could read our keys anyway, and whoever may exec. */
static struct err *may_enter(void *arg, const struct router_ask *ask)
{
	struct serve *s = arg;
	autoptr(object) sandbox = NULL;
	struct err *e;

	if (ask->caller.trusted || !wall_stands("router-uid"))
		return NULL;
	if (ask->caller.local && settings_bool(s->settings, "open-to-local-users"))
		return NULL;
	sandbox = client_get(s->router_client, s->sandboxes, ask->ns, ask->sandbox);
	e = server_may_exec(s->server, http_request_header(ask->request, "Authorization"), ask->ns,
			    sandbox ? sandbox_view(sandbox)->pod_name : ask->sandbox);
	return explain_refusal(e, ask->ns);
}

static struct err *find_group(const char *text, gid_t *ret)
{
	const struct group *g = getgrnam(text);
	autoptr(err) bad = NULL;
	int64_t id = 0;

	if (!g)
		bad = parse_int(text, 0, UINT32_MAX - 1, &id);
	if (bad)
		return err_new(ERR_INVALID, "--router-group: there is no group named %s", text);
	*ret = g ? g->gr_gid : (gid_t)id;
	return NULL;
}

/* Names of this machine, and those that were given. NULL: any will do. */
static char **router_hosts(const struct serve *s)
{
	const char *given = settings_text(s->settings, "router-host");
	const char *san = settings_text(s->settings, "tls-san");
	char own[HOST_NAME_MAX + 1] = "localhost";
	struct span rest = SPAN(given ? given : ""), name;
	char **list = xnew_n(char *, 4 + rest.len);
	size_t n = 0;

	(void)gethostname(own, sizeof(own) - 1);
	list[n++] = xstrdup("localhost");
	list[n++] = xstrdup(own);
	if (san)
		list[n++] = xstrdup(san);
	while (rest.len) {
		name = span_trim(span_cut(rest, ',', &rest));
		if (name.len)
			list[n++] = xstrndup(name.p, name.len);
	}
	return list;
}

static struct err *start_router(struct serve *s)
{
	const char *group = settings_text(s->settings, "router-group");
	struct router_spec spec = {
		.listen = settings_text(s->settings, "router-listen"),
		.max_conns = s->budget.router,
		.no_access_log = !settings_bool(s->settings, "router-access-log"),
		.mark = node_mark(s->node),
		.tell_callers = true,
		.has_group = group,
	};
	char **hosts = router_hosts(s);
	struct err *e = group ? find_group(group, &spec.group) : NULL;

	spec.hosts = str_in("*", (const char *const *)hosts) ? NULL : (const char *const *)hosts;
	s->sandboxes = kinds_need(s->kinds, API_SANDBOX, "Sandbox");
	if (!e)
		e = router_start(s->loop, s->router_client, &spec, &s->router);
	if (!e)
		router_set_policy(s->router, may_enter, s);
	for (size_t i = 0; hosts[i]; i++)
		free(hosts[i]);
	free(hosts);
	return e;
}

static void write_metrics(void *arg, struct buf *b)
{
	const struct serve *s = arg;
	struct router_stats router = { 0 };

	if (s->node)
		node_metrics(s->node, b);
	if (s->control)
		control_metrics(s->control, b);
	if (s->router)
		router_stats(s->router, &router);
	metrics_counter(b, "cay_router_refused_total",
			"Requests that the router refused by Host or by who asked.",
			router.refused);
}

static struct budget_spec read_budget(const struct settings *s)
{
	return (struct budget_spec){
		.memory_reserve = settings_int(s, "host-memory-reserve"),
		.pids_reserve = settings_int(s, "host-pids-reserve"),
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

static struct err *start_roles(struct serve *s)
{
	struct node_spec node = {
		.data_dir = settings_text(s->settings, "data-dir"),
		.node_name = s->node_name,
		.launcher = s->launcher,
		.init = s->init,
		.netns_pool = (unsigned)settings_int(s->settings, "network-pool"),
		.store_id = store_id(server_store(s->server)),
		.store_is_new = server_store_is_new(s->server),
		.open_to_local_users = settings_bool(s->settings, "open-to-local-users"),
		.disk_pool = settings_text(s->settings, "disk-pool"),
		.disk_pool_size = settings_int(s->settings, "disk-pool-size"),
		.sandbox_disk = settings_int(s->settings, "sandbox-disk"),
		.log_max = settings_int(s->settings, "log-max-size"),
		.allow_unenforced_disk = settings_bool(s->settings, "allow-unenforced-disk-limits"),
		.budget = read_budget(s->settings),
	};
	struct control_options control = {
		.cluster_domain = settings_text(s->settings, "cluster-domain"),
		.pool_rest_ms = (uint64_t)settings_int(s->settings, "sandbox-warm-pool-rest"),
		.cluster_services = true,
		.pace_changed = pace_changed,
		.pace_arg = s,
	};
	struct err *e = node_start(s->loop, s->node_client, &node, &s->node);

	if (e)
		return e;
	server_set_access(s->server, node_access(s->node));
	server_add_metrics(s->server, write_metrics, s);
	e = control_start(s->loop, s->control_client, &control, &s->control);
	if (e)
		return err_wrap(e, "start controllers");
	return start_router(s);
}

static void node_stopped(void *arg)
{
	loop_stop(((struct serve *)arg)->loop);
}

static void on_signal(void *arg, int signum)
{
	struct serve *s = arg;

	log_info("stopping", KV("signal", signum));
	if (s->stopping || !s->node) { /* the second time, or in the middle of a start */
		s->stopping = true;
		loop_stop(s->loop);
		return;
	}
	s->stopping = true;
	node_stop(s->node, settings_bool(s->settings, "stop-sandboxes"), node_stopped, s);
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
	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr,
			      "\nTry:  kubectl --kubeconfig %s/admin.kubeconfig get nodes\n\n",
			      dir);
}

static struct err *serve_start(struct serve *s)
{
	struct err *e = find_programs(s);

	if (!e)
		e = loop_new(&s->loop);
	if (e)
		return e;
	s->term = signal_watch_new(s->loop, SIGTERM, on_signal, s);
	s->intr = signal_watch_new(s->loop, SIGINT, on_signal, s);
	s->kinds = kinds_new();
	e = find_node_name(s);
	if (!e)
		e = start_server(s);
	if (!e)
		e = start_roles(s);
	if (!e)
		e = server_listen(s->server);
	if (!e)
		e = server_write_kubeconfig(s->server);
	if (e)
		return e;
	s->trim = trim_new(s->loop, TRIM_LOOK_MS);
	greet(s);
	return NULL;
}

static int serve_run(const struct command *c unused, const struct settings *settings)
{
	struct serve s = { .settings = settings };
	struct err *e;

	setup_log(settings);
	(void)umask(077);
	s.budget = make_budget();
	e = serve_start(&s);
	if (!e && !s.stopping)
		loop_run(s.loop);
	serve_done(&s);
	return e ? cli_fail(err_wrap(e, "serve")) : EXIT_OK;
}

enum {
	CONTROLLER_STOP_MS = 2000,
};

/* A running `cay controller`. */
struct controller {
	struct loop *loop;
	struct control *control;
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

static struct err *controller_start(const struct settings *settings, struct loop *l,
				    struct client *client, struct control **ret)
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
	};

	return control_start(l, client, &o, ret);
}

static int controller_run(const struct command *c unused, const struct settings *settings)
{
	autoptr(loop) l = NULL;
	autoptr(kinds) kinds = kinds_new();
	struct client *client = NULL;
	struct controller it = { 0 };
	struct err *e;

	setup_log(settings);
	e = loop_new(&l);
	it.loop = l;
	if (!e)
		e = cli_connect(l, settings_text(settings, "kubeconfig"), kinds, &client);
	if (!e)
		e = controller_start(settings, l, client, &it.control);
	if (!e) {
		struct signal_watch *term = signal_watch_new(l, SIGTERM, controller_stop, &it);
		struct signal_watch *intr = signal_watch_new(l, SIGINT, controller_stop, &it);

		log_info("controlling", KV("version", CAY_VERSION));
		loop_run(l);
		signal_watch_free(term);
		signal_watch_free(intr);
		timer_free(it.deadline);
	}
	control_free(it.control);
	client_free(client);
	return e ? cli_fail(err_wrap(e, "controller")) : EXIT_OK;
}

static struct err *list_images(const char *data_dir, struct json_doc **ret)
{
	struct json_doc *d = json_doc_new();
	struct json *list = json_arr(d);
	struct image_info *images = NULL;
	size_t n = 0;
	struct err *e = image_list(data_dir, &images, &n);

	for (size_t i = 0; !e && i < n; i++) {
		struct json *o = json_obj(d);

		json_set_str(d, o, "name", images[i].name);
		json_set_str(d, o, "digest", images[i].digest);
		json_set_str(d, o, "source", images[i].source);
		json_set_int(d, o, "size", images[i].size);
		json_push(d, list, o);
	}
	image_list_free(images, n);
	json_set_root(d, list);
	if (e)
		json_doc_free(d);
	else
		*ret = d;
	return e;
}

/* arg is a list, which grows by one object per row. */
static void add_object(void *arg, const char *key unused, struct bytes *value)
{
	struct json_doc *objects = arg;
	autoptr(json_doc) doc = NULL;
	autoptr(err) e = json_parse(value->data, value->len, NULL, &doc);

	if (!e)
		json_push(objects, json_root(objects), json_copy(objects, json_root(doc)));
}

/* Uses the objects as of the last commit, whether or not a server is running on the directory. */
static struct err *census(const char *data_dir, struct json_doc **ret, size_t *ret_orphans)
{
	autoptr(json_doc) objects = json_doc_new();
	autofree char *path = xasprintf("%s/store.db", data_dir);
	struct err *e;

	json_set_root(objects, json_arr(objects));
	if (access(path, R_OK) < 0)
		return err_sys(errno, "open %s (--data-dir names the instance)", path);
	e = store_peek(path, "pods/", add_object, objects);
	if (!e)
		e = store_peek(path, "persistentvolumeclaims/", add_object, objects);
	return e ? e : node_census(data_dir, json_root(objects), ret, ret_orphans);
}

static int man_run(const struct command *c unused, const struct settings *settings unused);

static const struct command commands[] = {
	{ "serve", "[flags]", "Run the whole system on this machine",
	  "State is kept under --data-dir; the first start creates a certificate authority and DIR/admin.kubeconfig. SIGTERM stops\n"
	  "the daemon but leaves the sandboxes running; the next start finds them again.",
	  serve_settings, serve_run },
	{ "controller", "[flags]", "Run the controllers alone, against a Kubernetes cluster",
	  "Prepare the cluster with `cay manifests | kubectl apply -f -`.", controller_settings,
	  controller_run },
	{ "manifests", "[flags]",
	  "Print the CRDs and access rights that `cay controller` needs in a cluster", NULL,
	  manifests_settings, manifests_run },
	{ "image", "ls | tag FROM TO | import PATH NAME | rm NAME",
	  "Manage the images in a data directory",
	  "The image `host` is this machine's /usr, read-only; `pause` is empty and idles. `import` takes a root file system as\n"
	  "a directory or a tar archive. `tag` gives a local image another name, so that a manifest that names a registry works\n"
	  "without one.",
	  image_settings, image_run },
	{ "census", "[flags]", "List what exists on this host, and for which object",
	  "The exit status is 1 if something has no living owner.", census_settings, census_run },
	{ "doctor", "[flags]", "Say what this host lacks, and what to do about it",
	  "Works with and without a server. The exit status is 1 if `cay serve` would not work here; a warning tells what works less.",
	  doctor_settings, doctor_run },
	{ "bench", "claim | floor [flags]",
	  "Measure claims, bursts, cold starts, exec and memory, next to this machine's floors",
	  "`claim` runs scenarios against the server that the kubeconfig names, in a namespace that is removed in the end, also after ^C.\n"
	  "`floor` measures the machine alone. A ratio like (2.1x) divides by a floor of the same run: a TLS round trip and an fdatasync for\n"
	  "a claim, a bare launch for a cold start. Percentiles that so few runs do not have are left out. Scenarios, in this order:\n"
	  "  growth     memory of idle sandboxes, and a claim beside them\n"
	  "  cells      a warm claim with and without refill and deletion: latency, CPU time of the server's loop, writes\n"
	  "  loops      clients that claim and delete without a pause: cycles per second\n"
	  "  sustained  claims as fast as they are answered, without refill: claims per second\n"
	  "  burst      many claims at a time on open and on new connections, with a command beside them\n"
	  "  cold       Sandboxes without a pool, beside bwrap and crun where they are installed\n"
	  "  exec       a command in a sandbox, and the first one after a claim\n"
	  "The exit status is 1 if anything failed. On a cluster give --server-pid of cay controller and --router=''.",
	  bench_settings, bench_run },
	{ "version", "[flags]", "Print the version", NULL, version_settings, version_run },
	{ "man", "", "Print the man page", NULL, no_settings, man_run, .hidden = true },
	{ 0 },
};

static int man_run(const struct command *c unused, const struct settings *settings unused)
{
	autobuf out = { 0 };

	man_write(commands, &out);
	cli_write(&out);
	return EXIT_OK;
}

int main(int argc, char **argv)
{
	(void)signal(SIGPIPE, SIG_IGN); /* writing to a peer that has left returns EPIPE */
	cli_node = (struct cli_node_ops){
		.image_tag = image_tag,
		.image_import = image_import,
		.image_remove = image_remove,
		.image_list = list_images,
		.census = census,
		.doctor = node_doctor,
	};
	return cli_main(commands, argc, argv);
}
