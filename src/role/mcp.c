/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MCP on the port of the API server: the server knows who asks and what they may do, mcp/ what they
 * ask for.
 */
#include "mcp/mcp.h"

#include "audit/audit.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/access.h"
#include "gate/gate.h"
#include "node/node.h"
#include "role/serve_priv.h"
#include "server/server.h"

#define PATH "/mcp"

/* Writes, by what was decided about them. Commands are recorded where they enter a Pod, if they are
 * let that far. */
static void record(const struct serve *s, const struct access_target *who,
		   const struct mcp_act *act, const struct err *e)
{
	bool enters = act->sub;
	bool writes = str_eq(act->verb, "create") || str_eq(act->verb, "delete");

	if (enters ? !e : !writes)
		return;
	audit_write(s->audit, &(struct audit_record){ .user = who->user,
						      .from = who->from,
						      .verb = act->verb,
						      .group = act->group,
						      .resource = act->plural,
						      .sub = act->sub,
						      .ns = act->ns,
						      .name = act->name,
						      .note = e ? err_text(e) : "by MCP" });
}

static struct err *may(void *arg, const struct access_target *who, const struct mcp_act *act)
{
	struct serve *s = arg;
	struct err *e = server_user_may(s->server, who,
					&(struct server_act){ .verb = act->verb,
							      .group = act->group,
							      .plural = act->plural,
							      .ns = act->ns,
							      .name = act->name,
							      .sub = act->sub });

	if (!e && act->pool)
		e = server_may_claim(s->server, who, act->ns, act->pool);
	record(s, who, act, e);
	return e;
}

static struct err *may_use(void *arg, const struct access_target *who, const char *tool)
{
	return gate_may_use(((struct serve *)arg)->gate, who->user, tool);
}

static bool attached(void *arg, const struct access_target *who, const char *ns,
		     const char *sandbox)
{
	return gate_attached(((struct serve *)arg)->gate, who->user, ns, sandbox);
}

static void each_attached(void *arg, const struct access_target *who, const char *ns,
			  void (*fn)(void *fn_arg, const char *sandbox), void *fn_arg)
{
	gate_each_attached(((struct serve *)arg)->gate, who->user, ns, fn, fn_arg);
}

static bool minds_path(void *arg, const struct access_target *who, const char *ns,
		       const struct access_deed *deed)
{
	const struct deed d = { .argv = deed->argv, .path = deed->path, .tool = deed->tool };

	return gate_minds_path(((struct serve *)arg)->gate, who->user, ns, &d);
}

static void ask(void *arg, const struct access_ask *what, struct access_question *q)
{
	gate_ask(((struct serve *)arg)->gate, what, q);
}

static void cancel(void *arg, struct access_question *q)
{
	gate_cancel(((struct serve *)arg)->gate, q);
}

static const struct mcp_agents agents = {
	.may_use = may_use,
	.attached = attached,
	.each_attached = each_attached,
	.minds_path = minds_path,
	.ask = ask,
	.cancel = cancel,
};

static void visit(void *arg, struct http_request *req, const struct access_target *who)
{
	struct serve *s = arg;

	mcp_visit(s->mcp, req, who);
}

void serve_start_mcp(struct serve *s)
{
	s->mcp = mcp_new(s->loop, &(struct mcp_spec){ .client = s->mcp_client,
						      .access = node_access(s->node),
						      .version = CAY_VERSION,
						      .may = may,
						      .agents = &agents,
						      .arg = s });
	server_add_endpoint(s->server,
			    &(struct server_endpoint){ .path = PATH, .visit = visit, .arg = s });
}

void serve_stop_mcp(struct serve *s)
{
	if (!s->mcp)
		return;
	server_del_endpoint(s->server, PATH);
	mcp_free(take(s->mcp));
}
