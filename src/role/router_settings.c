/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of `cay router`. They have the names of upstream's flags, so that its manifests can
 * be used; docs/guide/cluster.md says which of them mean something else here.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/settings.h"
#include "role/audit_priv.h"
#include "role/log_settings_priv.h"
#include "role/probes_priv.h"
#include "role/role.h"
#include "role/router_priv.h"
#include "role/ways_priv.h"

static const char *const authz_modes[] = { "rbac", "tokenreview", "scoped-token", "allow-all",
					   NULL };
static const char *const mtls_modes[] = { "off", "optional", "required", NULL };

#define MS_MAX  (24 * 3600 * 1000ll)
#define RETRIES 100
#define PEM_MAX (1024 * 1024)

const struct setting router_settings[] = {
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE",
	  "Cluster to serve (by default that of $KUBECONFIG, or the one in whose Pod this runs)" },
	{ "http-bind-address", SETTING_TEXT, ":8080", "[ADDR]:PORT",
	  "Address to accept HTTP requests to sandboxes on; '' or 0: none" },
	{ "https-bind-address", SETTING_TEXT, "", "[ADDR]:PORT",
	  "Address to accept HTTPS requests to sandboxes on (by default none)" },
	{ "tls-cert-file", SETTING_TEXT, NULL, "FILE",
	  "Certificate chain for --https-bind-address, read again when it changes" },
	{ "tls-key-file", SETTING_TEXT, NULL, "FILE", "Key of --tls-cert-file" },
	{ "mtls-mode", SETTING_CHOICE, "off", "MODE",
	  "Client certificates: off, optional (one says who asks) or required (requests without one are refused)",
	  .choices = mtls_modes },
	{ "tls-client-ca-file", SETTING_TEXT, NULL, "FILE",
	  "Certificates of those who sign client certificates" },
	{ "metrics-bind-address", SETTING_TEXT, ":9090", "[ADDR]:PORT",
	  "Address that shows /metrics; '' or 0: none" },
	{ "health-probe-bind-address", SETTING_TEXT, ":8081", "[ADDR]:PORT",
	  "Address that shows /healthz and /readyz; '' or 0: none" },
	{ "authz-mode", SETTING_CHOICE, "rbac", "MODE",
	  "Who may enter a sandbox: rbac (who may create pods/exec for its Pod), tokenreview (every user of the cluster), scoped-token (who has a token for it) or allow-all",
	  .choices = authz_modes },
	{ "authz-tokenreview-ttl", SETTING_DURATION, "30s", "TIME",
	  "How long an answer of the API server about a caller is remembered", .max = MS_MAX },
	{ "authz-tokenreview-cache-size", SETTING_INT, "2048", "N",
	  "Answers about callers that are remembered", .min = 1, .max = 1000000 },
	{ "authz-tokenreview-require-token", SETTING_BOOL, "true", NULL,
	  "In mode tokenreview, refuse requests without a token" },
	{ "authz-tokenreview-audiences", SETTING_TEXT, NULL, "NAME,...",
	  "What tokens must have been issued for (by default, the API server)" },
	{ "authz-scoped-token-secret-file", SETTING_TEXT, NULL, "FILE",
	  "File with a secret of 32 bytes or more: tokens that were made with it let into single sandboxes, in every mode" },
	{ "path-routing-prefix", SETTING_TEXT, NULL, "/PREFIX",
	  "Requests for /PREFIX/NAMESPACE/NAME/PORT/... go to that port of that sandbox (by default off)" },
	{ "path-routing-rewrite-responses", SETTING_BOOL, "true", NULL,
	  "Put Location and the paths of cookies in answers under --path-routing-prefix" },
	{ "proxy-timeout", SETTING_DURATION, NULL, "TIME",
	  "How long the head of an answer may take, and the most that X-Sandbox-Timeout may ask for (by default 180s, and one hour)",
	  .max = MS_MAX },
	{ "response-header-timeout", SETTING_DURATION, NULL, "TIME",
	  "The same limit once a sandbox has the whole request, whatever it asks for (by default none)",
	  .max = MS_MAX },
	{ "shutdown-timeout", SETTING_DURATION, "30s", "TIME",
	  "How long requests under way may take after SIGTERM", .max = MS_MAX },
	{ "max-request-body-bytes", SETTING_INT, "0", "N",
	  "Bytes that a request may send; 0: any number", .max = INT64_MAX },
	{ "upstream-max-retries", SETTING_INT, "3", "N",
	  "How often a connection that a sandbox refuses is tried again", .max = RETRIES },
	{ "upstream-retry-initial-delay", SETTING_DURATION, "200ms", "TIME",
	  "How long to wait before the first of these tries; each later one waits twice as long",
	  .max = MS_MAX },
	{ "upstream-retry-max-delay", SETTING_DURATION, "800ms", "TIME", "How long to wait at most",
	  .max = MS_MAX },
	{ "allow-loopback-pod-ip", SETTING_BOOL, "false", NULL,
	  "Sandboxes may have loopback addresses (for tests)" },
	{ "cache-enabled", SETTING_BOOL, "true", NULL,
	  "For upstream's manifests: Sandboxes are always watched" },
	{ "cache-namespace", SETTING_TEXT, NULL, "NAME",
	  "Serve the Sandboxes of this namespace alone (by default all)" },
	{ "cache-sync-timeout", SETTING_DURATION, "60s", "TIME",
	  "How long the first list of Sandboxes may take before the router gives up",
	  .max = MS_MAX },
	{ "cluster-domain", SETTING_TEXT, "cluster.local", "NAME",
	  "For upstream's manifests: sandboxes are found by their addresses, not by DNS",
	  .env = "CLUSTER_DOMAIN" },
	{ "access-log", SETTING_BOOL, "true", NULL, "Log each request at level info" },
	AUDIT_SETTINGS(
		"Where each entry into a sandbox is recorded, a line of JSON for each; - is standard output, which is where it goes by default, none is nowhere"),
	LOG_SETTINGS_ENV("SANDBOX_ROUTER_CONFIG"),
	{ 0 },
};

static struct err *bad(const char *flag, const char *why)
{
	return err_new(ERR_INVALID, "--%s: %s", flag, why);
}

static struct err *read_addresses(const struct settings *s, struct router_config *c)
{
	struct err *e = address_setting(s, "http-bind-address", &c->listen);

	if (!e)
		e = address_setting(s, "https-bind-address", &c->tls_listen);
	if (!e && !*c->listen && !*c->tls_listen)
		e = bad("http-bind-address", "one of it and --https-bind-address must be given");
	if (!e)
		e = address_setting(s, "metrics-bind-address", &c->metrics);
	return e ? e : address_setting(s, "health-probe-bind-address", &c->probes);
}

/* Durations that must not be 0. */
static struct err *check_durations(const struct settings *s)
{
	static const char *const flags[] = { "authz-tokenreview-ttl",
					     "proxy-timeout",
					     "response-header-timeout",
					     "shutdown-timeout",
					     "upstream-retry-initial-delay",
					     "upstream-retry-max-delay",
					     "cache-sync-timeout" };

	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (settings_text(s, flags[i]) && !settings_int(s, flags[i]))
			return bad(flags[i], "it must be more than 0");
	return NULL;
}

/* Upstream's variable: seconds, with fractions; anything else counts as absent. */
static unsigned env_timeout_ms(void)
{
	const char *text = getenv("PROXY_TIMEOUT_SECONDS");
	char *end = NULL;
	double s = text ? strtod(text, &end) : 0;

	if (!text || end == text || *end || !isfinite(s) || s <= 0 || s * 1000 > (double)MS_MAX)
		return 0;
	return MAX((unsigned)(s * 1000), 1u);
}

static unsigned ms(const struct settings *s, const char *flag)
{
	return (unsigned)settings_int(s, flag);
}

static void read_router(const struct settings *s, struct router_config *c)
{
	c->router = (struct router_spec){
		.listen = *c->listen ? c->listen : NULL,
		.tls = { .listen = *c->tls_listen ? c->tls_listen : NULL,
			 .cert_file = c->cert_file,
			 .key_file = c->key_file,
			 .client_ca_pem = c->client_ca_pem },
		.need_certificate = str_eq(settings_text(s, "mtls-mode"), "required"),
		.path_prefix = c->prefix,
		.no_rewrite = !settings_bool(s, "path-routing-rewrite-responses"),
		.scoped_secret = c->secret,
		.proxy_timeout_ms = settings_text(s, "proxy-timeout") ? ms(s, "proxy-timeout")
								      : env_timeout_ms(),
		.head_timeout_ms = ms(s, "response-header-timeout"),
		.ns = c->ns,
		.max_body = (uint64_t)settings_int(s, "max-request-body-bytes"),
		.has_retry = true,
		.retry = { .max = (unsigned)settings_int(s, "upstream-max-retries"),
			   .first_ms = ms(s, "upstream-retry-initial-delay"),
			   .last_ms = ms(s, "upstream-retry-max-delay") },
		.allow_loopback = settings_bool(s, "allow-loopback-pod-ip"),
		.no_access_log = !settings_bool(s, "access-log"),
	};
}

static char **split_names(const char *text)
{
	struct span rest = SPAN(text ? text : ""), name;
	char **list = xnew_n(char *, rest.len + 1);
	size_t n = 0;

	while (rest.len) {
		name = span_trim(span_cut(rest, ',', &rest));
		if (name.len)
			list[n++] = xstrndup(name.p, name.len);
	}
	return list;
}

static enum reviews_mode read_mode(const char *text)
{
	if (str_eq(text, "allow-all"))
		return REVIEWS_ALLOW;
	if (str_eq(text, "scoped-token"))
		return REVIEWS_NOBODY;
	return str_eq(text, "tokenreview") ? REVIEWS_TOKEN : REVIEWS_RBAC;
}

static void read_reviews(const struct settings *s, struct router_config *c)
{
	c->audiences = split_names(settings_text(s, "authz-tokenreview-audiences"));
	c->reviews = (struct reviews_spec){
		.mode = read_mode(settings_text(s, "authz-mode")),
		.audiences = (const char *const *)c->audiences,
		.token_optional = !settings_bool(s, "authz-tokenreview-require-token"),
		.ttl_ms = (uint64_t)settings_int(s, "authz-tokenreview-ttl"),
		.max = (size_t)settings_int(s, "authz-tokenreview-cache-size"),
	};
}

/* A file that a flag names is part of the configuration. Takes e over. */
static struct err *as_invalid(struct err *e)
{
	return e ? err_recode(e, ERR_INVALID) : NULL;
}

static char *copy_of(const struct settings *s, const char *flag)
{
	const char *text = settings_text(s, flag);

	return str_empty(text) ? NULL : xstrdup(text);
}

static struct err *read_tls(const struct settings *s, struct router_config *c)
{
	const char *ca = settings_text(s, "tls-client-ca-file");
	bool mtls = !str_eq(settings_text(s, "mtls-mode"), "off");
	size_t len;

	c->cert_file = copy_of(s, "tls-cert-file");
	c->key_file = copy_of(s, "tls-key-file");
	if (*c->tls_listen && !c->cert_file)
		return bad("tls-cert-file", "--https-bind-address needs it");
	if (*c->tls_listen && !c->key_file)
		return bad("tls-key-file", "--https-bind-address needs it");
	if (mtls && !*c->tls_listen)
		return bad("mtls-mode", "it needs --https-bind-address");
	if (mtls && str_empty(ca))
		return bad("tls-client-ca-file", "--mtls-mode needs it");
	if (!mtls)
		return NULL;
	return as_invalid(err_wrap(file_read(AT_FDCWD, ca, PEM_MAX, &c->client_ca_pem, &len),
				   "--tls-client-ca-file"));
}

static struct err *read_ways(const struct settings *s, struct router_config *c)
{
	const char *secret = settings_text(s, "authz-scoped-token-secret-file");
	struct err *e = NULL;

	c->prefix = copy_of(s, "path-routing-prefix");
	if (c->prefix)
		e = ways_check_prefix("--path-routing-prefix", c->prefix);
	if (!e && !str_empty(secret))
		e = as_invalid(
			ways_read_secret("--authz-scoped-token-secret-file", secret, &c->secret));
	if (!e && !c->secret && str_eq(settings_text(s, "authz-mode"), "scoped-token"))
		e = bad("authz-scoped-token-secret-file", "--authz-mode=scoped-token needs it");
	return e;
}

static struct err *check_rest(const struct settings *s)
{
	if (!settings_bool(s, "cache-enabled"))
		return bad("cache-enabled",
			   "Sandboxes are found by watching them, never by DNS: leave it on");
	if (str_empty(settings_text(s, "cluster-domain")))
		return bad("cluster-domain", "it must not be empty");
	if (settings_int(s, "upstream-retry-max-delay") <
	    settings_int(s, "upstream-retry-initial-delay"))
		return bad("upstream-retry-max-delay",
			   "it must not be less than --upstream-retry-initial-delay");
	return NULL;
}

struct err *router_config_read(const struct settings *s, struct router_config *ret)
{
	struct router_config c = { 0 };
	struct err *e = check_durations(s);

	if (!e)
		e = check_rest(s);
	if (!e)
		e = read_addresses(s, &c);
	if (!e)
		e = read_tls(s, &c);
	if (!e)
		e = read_ways(s, &c);
	if (e) {
		router_config_done(&c);
		return e;
	}
	if (!str_empty(settings_text(s, "cache-namespace")))
		c.ns = xstrdup(settings_text(s, "cache-namespace"));
	read_router(s, &c);
	read_reviews(s, &c);
	c.shutdown_ms = ms(s, "shutdown-timeout");
	c.sync_ms = ms(s, "cache-sync-timeout");
	*ret = c;
	return NULL;
}

void router_config_done(struct router_config *c)
{
	free(c->listen);
	free(c->tls_listen);
	free(c->metrics);
	free(c->probes);
	free(c->ns);
	free(c->cert_file);
	free(c->key_file);
	free(c->client_ca_pem);
	free(c->prefix);
	if (c->secret)
		explicit_bzero(c->secret, strlen(c->secret));
	free(c->secret);
	for (size_t i = 0; c->audiences && c->audiences[i]; i++)
		free(c->audiences[i]);
	free(c->audiences);
	*c = (struct router_config){ 0 };
}
