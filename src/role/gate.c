/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of `cay serve`: what the API server and the ways into Pods ask about agents.
 */
#include "gate/gate.h"

#include "base/str.h"
#include "node/node.h"
#include "role/serve_priv.h"
#include "server/server.h"

static enum server_word opinion(void *arg, const char *user, const struct server_act *act,
				struct err **ret_why)
{
	static const enum server_word words[] = {
		[GATE_SILENT] = SERVER_SILENT,
		[GATE_YES] = SERVER_YES,
		[GATE_NO] = SERVER_NO,
	};
	const struct gate_act asked = { .verb = act->verb,
					.group = str_or(act->group, ""),
					.plural = str_or(act->plural, ""),
					.ns = str_or(act->ns, ""),
					.name = str_or(act->name, ""),
					.sub = str_or(act->sub, "") };

	return words[gate_may(arg, user, &asked, ret_why)];
}

void serve_start_gate(struct serve *s)
{
	s->gate = gate_new(&(struct gate_spec){
		.loop = s->loop, .client = s->gate_client, .access = node_access(s->node) });
	server_set_opinion(s->server, opinion, s->gate);
}

void serve_stop_gate(struct serve *s)
{
	if (s->server)
		server_set_opinion(s->server, NULL, NULL);
	gate_free(take(s->gate));
}
