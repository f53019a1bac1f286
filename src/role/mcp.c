/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MCP on the port of the API server: the server knows who asks and what they may do, mcp/ what they
 * ask for.
 */
#include "mcp/mcp.h"

#include "base/mem.h"
#include "client/access.h"
#include "node/node.h"
#include "role/serve_priv.h"
#include "server/server.h"

static struct err *may(void *arg, const struct access_target *who, const struct mcp_act *act)
{
	struct serve *s = arg;

	return server_user_may(s->server, who,
			       &(struct server_act){ .verb = act->verb,
						     .group = act->group,
						     .plural = act->plural,
						     .ns = act->ns,
						     .name = act->name,
						     .sub = act->sub });
}

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
						      .arg = s });
	server_set_endpoint(s->server, &(struct server_endpoint){ "/mcp", visit, s });
}

void serve_stop_mcp(struct serve *s)
{
	if (!s->mcp)
		return;
	server_set_endpoint(s->server, &(struct server_endpoint){ 0 });
	mcp_free(take(s->mcp));
}
