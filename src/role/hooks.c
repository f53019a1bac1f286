/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks on the port of the API server, which asks nobody who comes there: a signature is what they
 * show.
 */
#include "hooks/hooks.h"

#include "api/cay/cay.h"
#include "audit/audit.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/str.h"
#include "control/control.h"
#include "node/node.h"
#include "role/serve_priv.h"
#include "server/server.h"

/* One for each delivery: at its end, or when it is turned away. */
static void record(void *arg, const struct hooks_record *r)
{
	const struct serve *s = arg;
	bool known = r->status != 401;
	autofree char *user = known ? xasprintf("cay:trigger:%s:%s", r->ns, r->name) : NULL;
	autofree char *note =
		xasprintf("%s%s%s%s%s", r->outcome, r->id ? " " : "", str_or(r->id, ""),
			  r->message ? ": " : "", str_or(r->message, ""));

	audit_write(s->audit, &(struct audit_record){ .user = user ? user : "system:anonymous",
						      .from = r->from,
						      .verb = "create",
						      .group = GROUP_CAY,
						      .resource = "triggers",
						      .sub = "deliveries",
						      .ns = r->ns,
						      .name = r->name,
						      .status = r->status,
						      .note = note });
}

static bool wake(void *arg, const char *ns, const char *sandbox)
{
	struct serve *s = arg;

	return s->control && control_wake(s->control, ns, sandbox, "hook");
}

static void visit(void *arg, struct http_request *req, const struct access_target *who unused)
{
	const struct serve *s = arg;

	hooks_visit(s->hooks, req);
}

void serve_start_hooks(struct serve *s)
{
	s->hooks = hooks_new(s->loop, &(struct hooks_spec){ .client = s->hooks_client,
							    .access = node_access(s->node),
							    .wake = wake,
							    .record = record,
							    .arg = s });
	server_add_endpoint(s->server,
			    &(struct server_endpoint){
				    .path = HOOKS_PATH, .visit = visit, .arg = s, .open = true });
}

void serve_stop_hooks(struct serve *s)
{
	if (!s->hooks)
		return;
	server_del_endpoint(s->server, HOOKS_PATH);
	hooks_free(take(s->hooks));
}

void serve_hooks_metrics(const struct serve *s, struct buf *b)
{
	struct hooks_stats n = { 0 };

	if (s->hooks)
		hooks_stats(s->hooks, &n);
	metrics_counter(b, "cay_hooks_accepted_total", "Deliveries of triggers that were taken.",
			n.accepted);
	metrics_counter(b, "cay_hooks_filtered_total", "Deliveries that nobody wanted.",
			n.filtered);
	metrics_counter(b, "cay_hooks_repeated_total", "Deliveries that had come before.",
			n.repeated);
	metrics_counter(b, "cay_hooks_limited_total", "Deliveries that were too many.", n.limited);
	metrics_counter(b, "cay_hooks_refused_total",
			"Requests to hooks that were not signed, or not well-formed.", n.refused);
	metrics_gauge(b, "cay_hooks_pending", "Deliveries that are not over yet.", n.pending);
}
