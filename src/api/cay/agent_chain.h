/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/agent.h"

struct object;

/*
 * An agent and its parents, one above the other. Everybody who asks what an agent may do, or who is
 * above it, follows them here, so that all agree on where a chain ends and when it is broken.
 */
enum chain_fault {
	CHAIN_WHOLE,
	CHAIN_NO_PARENT, /* one of them does not exist, or not even the agent */
	CHAIN_LOOP,      /* one is above itself */
	CHAIN_TOO_LONG,  /* more than AGENT_PARENTS_MAX parents */
	CHAIN_FAULT_MAX_,
};

struct agent_chain {
	struct object *agents[AGENT_PARENTS_MAX + 1]; /* the agent itself first; as found */
	size_t n;
	enum chain_fault fault;
	const char
		*broken_at; /* the name that could not be followed, borrowed; NULL: CHAIN_WHOLE */
	bool deleting;      /* one of them is being deleted, which is no fault by itself */
};

/*
 * Follows an agent to its last parent. find() returns the agent of a name, or NULL, and is asked
 * once about each; whether that is a reference is between it and whoever drops the agents.
 */
void agent_chain_follow(const char *agent, struct object *(*find)(void *arg, const char *name),
			void *arg, struct agent_chain *ret);
/* How far above the agent that name is: 0 is the agent itself; a parent that does not exist has its
 * place too. False: it is not in the chain. */
bool agent_chain_has(const struct agent_chain *c, const char *name, size_t *ret_above);
