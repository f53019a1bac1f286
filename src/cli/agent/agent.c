/* SPDX-License-Identifier: Apache-2.0 */
/* `cay agent`: who acts here. Agents are made with `cay apply`, because they are more than flags.
 */
#include "cli/agent/agent_priv.h"

const struct setting agent_settings[] = {
	LIST_SETTING,
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

static struct err *list(struct remote *r, const struct settings *s)
{
	return cay_list(r, s, &kind_agents);
}

static struct err *show(struct remote *r, const struct settings *s)
{
	return cay_show(r, s, &kind_agents, settings_arg(s, 1));
}

static struct err *remove_it(struct remote *r, const struct settings *s)
{
	return cay_remove(r, s, &kind_agents, settings_arg(s, 1));
}

int agent_cmd(const struct command *c, const struct settings *s)
{
	static const struct verb verbs[] = {
		{ "ls", 0, 0, list },
		{ "show", 1, 1, show },
		{ "rm", 1, 1, remove_it },
		{ 0 },
	};

	return verbs_run(c, s, verbs);
}
