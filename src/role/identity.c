/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sandboxes are: requests from inside them come from the node, the gate decides, the server's
 * key signs, and its port shows others how to check that.
 */
#include "base/metrics.h"
#include "base/str.h"
#include "cli/cli.h"
#include "node/node.h"
#include "role/serve_priv.h"
#include "server/server.h"
#include "workload/workload.h"

/* The address is known when the server listens, and nobody asks before that. */
static const char *issuer(void *arg)
{
	struct serve *s = arg;

	if (!s->issuer)
		s->issuer = xasprintf("https://%s/identity", server_address(s->server));
	return s->issuer;
}

static bool is_own(void *arg, const char *audience)
{
	const struct serve *s = arg;

	return server_is_audience(s->server, audience);
}

static struct err *sign(void *arg, const char *claims, char **ret)
{
	struct serve *s = arg;

	return server_sign_for_others(s->server, claims, ret);
}

static const char *keys(void *arg)
{
	const struct serve *s = arg;

	return server_token_keys(s->server);
}

static void visit(void *arg, struct http_request *req, const struct node_caller *who)
{
	const struct serve *s = arg;

	workload_visit(s->workload, req,
		       &(struct workload_caller){ .ns = who->ns,
						  .pod = who->pod,
						  .pod_uid = who->pod_uid,
						  .attachment = who->attachment });
}

static void publish(void *arg, struct http_request *req, const struct access_target *who unused)
{
	const struct serve *s = arg;

	workload_publish(s->workload, req);
}

/* What an issuer may be, by OpenID Connect Discovery: others add a path to it. */
static struct err *read_issuer(struct serve *s)
{
	const char *url = settings_text(s->settings, "identity-issuer");

	if (!url)
		return NULL;
	if (!str_starts(url, "https://") || !url[strlen("https://")] || str_ends(url, "/") ||
	    strpbrk(url, "?# \"\\"))
		return err_new(ERR_INVALID,
			       "--identity-issuer %s: not an https:// URL without a query and "
			       "without a slash at its end",
			       url);
	s->issuer = xstrdup(url);
	return NULL;
}

struct err *serve_start_identity(struct serve *s)
{
	const char *domain = settings_text(s->settings, "identity-domain");
	const struct workload_spec spec = {
		.client = s->gate_client,
		.gate = s->gate,
		.audit = s->audit,
		.domain = domain ? domain : settings_text(s->settings, "cluster-domain"),
		.issuer = issuer,
		.is_own = is_own,
		.sign = sign,
		.keys = keys,
		.arg = s,
	};
	struct err *e = read_issuer(s);

	if (e)
		return e;
	e = workload_new(&spec, &s->workload);
	if (e)
		return err_wrap(e, "--identity-domain");
	node_set_inside(s->node, visit, s);
	server_add_endpoint(s->server, &(struct server_endpoint){ .path = WORKLOAD_PATH,
								  .visit = publish,
								  .arg = s,
								  .open = true });
	return NULL;
}

void serve_stop_identity(struct serve *s)
{
	if (s->workload) {
		server_del_endpoint(s->server, WORKLOAD_PATH);
		node_set_inside(s->node, NULL, NULL);
	}
	workload_free(take(s->workload));
	free(take(s->issuer));
}

void serve_identity_metrics(const struct serve *s, struct buf *b)
{
	struct workload_stats n = { 0 };

	if (s->workload)
		workload_stats(s->workload, &n);
	metrics_counter(b, "cay_identity_tokens_total", "Tokens that sandboxes were given.",
			n.issued);
	metrics_counter(b, "cay_identity_refused_total",
			"Requests from inside sandboxes that were refused.", n.refused);
}
