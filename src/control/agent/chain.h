/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/agent_chain.h"
#include "api/cay/capability.h"

struct arena;
struct context;
struct object;
struct team_policy_view;

/*
 * An agent, its parents and its team's policy, and what all of them together leave it. Where the
 * chain is broken nothing is left: a parent that cannot be asked has not agreed.
 */
struct chain {
	struct object *agents[AGENT_PARENTS_MAX + 1]; /* the agent itself first */
	size_t n;
	struct object *policy; /* NULL: the team has none */
	enum chain_fault fault;
	const char *missing; /* with CHAIN_NO_PARENT: its name, borrowed from its child */
	struct arena *arena;
	struct capabilities caps; /* borrowed from all of the above */
};

/* ret must be zero before, and be passed to chain_done() in any case. False: no such agent; the
 * policy is there nevertheless. */
bool chain_load(struct context *c, const char *ns, const char *agent, struct chain *ret);
void chain_done(struct chain *ch);
const struct agent_view *chain_agent(const struct chain *ch);        /* NULL: none */
const struct team_policy_view *chain_policy(const struct chain *ch); /* NULL: none */

/* What n agents, each the child of the next, and a policy (NULL: none) leave the first. */
void chain_meet(const struct agent_view *const *agents, size_t n,
		const struct team_policy_view *policy, struct arena *a, struct capabilities *ret);
/* Nothing at all. */
void chain_nothing(struct capabilities *ret);
