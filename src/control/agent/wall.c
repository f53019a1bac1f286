/* SPDX-License-Identifier: Apache-2.0 */
#include "control/agent/wall.h"

#include "api/cay/team.h"
#include "api/object.h"
#include "base/mem.h"
#include "base/str.h"

/*
 * Three are asked for the class of a sandbox, and each can only refuse: what the agent itself says
 * for its state of trust, what its capabilities allow, and, while it is not verified, the weakest
 * wall that its team accepts.
 */
#define NATIVE "native" /* the class of a Pod that names none */

const char *wall_class(const struct object *o)
{
	const struct json *pod = json_get(json_get(object_spec(o), "podTemplate"), "spec");

	return str_or(json_get_str(pod, "runtimeClassName"), "");
}

char *wall_refuses(const struct agent_view *agent, const struct capabilities *caps,
		   const struct team_policy_view *policy, const char *class)
{
	const char *wants = agent->verified ? agent->class_if_verified : agent->class_if_unverified;

	class = str_or(class, NATIVE);
	if (!str_empty(wants) && !str_eq(wants, class))
		return xasprintf("The agent is %s and asks for the runtime class %s; the sandbox "
				 "would have %s",
				 agent->verified ? "verified" : "not verified", wants, class);
	if (!capabilities_list_has(caps->runtime_classes, class))
		return xasprintf("The agent's capabilities do not include the runtime class %s",
				 class);
	if (!agent->verified && policy && !team_policy_strong_enough(policy, class))
		return xasprintf("The runtime class %s is weaker than %s, which the team's policy "
				 "demands for agents that are not verified",
				 class, policy->floor);
	return NULL;
}
