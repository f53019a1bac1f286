/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/agent/chain.h"

struct object;

/*
 * Isolation by trust: whether a sandbox of this RuntimeClass ("": native) is behind a wall that is
 * right for the agent. If not, the sentence that says why, malloc'd; NULL: it is. policy may be
 * NULL.
 */
char *wall_refuses(const struct agent_view *agent, const struct capabilities *caps,
		   const struct team_policy_view *policy, const char *class);
#define WALL_REASON "RuntimeClassNotAllowed" /* of a condition that says so */

/* The RuntimeClass of a Sandbox or SandboxTemplate; "": native. */
const char *wall_class(const struct object *o);
