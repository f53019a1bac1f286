/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/map.h"
#include "base/str.h"
#include "base/wall.h"
#include "gate/gate_priv.h"

/* What MCP asks about agents before a tool goes anywhere: which it has, and which sandboxes. */
struct err *gate_may_use(struct gate *g, const char *user, const char *tool)
{
	struct agent_name who;
	const struct standing *s;
	struct err *e;

	if (!agent_name_read(user, &who) || !wall_stands("agent-tools"))
		return NULL;
	s = standing_of(g, who.ns, who.name);
	e = agent_missing(who.name, who.ns, s);
	if (!e && !standing_has_tool(s, tool))
		e = tool_missing(who.name, tool);
	agent_name_done(&who);
	return e;
}

bool gate_attached(struct gate *g, const char *user, const char *ns, const char *sandbox)
{
	struct agent_name who;
	bool yes;

	if (!agent_name_read(user, &who))
		return false;
	yes = str_eq(who.ns, ns) && agent_attached(g, ns, sandbox, who.name);
	agent_name_done(&who);
	return yes;
}

void gate_each_attached(struct gate *g, const char *user, const char *ns,
			void (*fn)(void *arg, const char *sandbox), void *arg)
{
	size_t len = strlen(ns);
	struct agent_name who;

	if (!agent_name_read(user, &who))
		return;
	map_each(it, g->attachments)
		if (str_eq(who.ns, ns) && !strncmp(it.key, ns, len) && it.key[len] == '/' &&
		    agent_attached(g, ns, it.key + len + 1, who.name))
			fn(arg, it.key + len + 1);
	agent_name_done(&who);
}

bool gate_minds_path(struct gate *g, const char *user, const char *ns, const struct deed *d)
{
	const struct standing *s;
	struct agent_name who;
	bool minds;

	if (!agent_name_read(user, &who))
		return false;
	s = standing_of(g, ns, who.name);
	minds = s && str_eq(who.ns, ns) && standing_minds_path(s, d);
	agent_name_done(&who);
	return minds;
}
