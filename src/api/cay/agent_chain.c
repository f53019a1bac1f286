/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/agent_chain.h"

#include "api/object.h"
#include "base/str.h"

static bool is_among(const struct agent_chain *c, const char *name, size_t *ret)
{
	for (size_t i = 0; i < c->n; i++)
		if (str_eq(c->agents[i]->name, name)) {
			*ret = i;
			return true;
		}
	return false;
}

static enum chain_fault fault_at(const struct agent_chain *c, const char *name)
{
	size_t above;

	if (is_among(c, name, &above))
		return CHAIN_LOOP;
	return c->n > AGENT_PARENTS_MAX ? CHAIN_TOO_LONG : CHAIN_WHOLE;
}

void agent_chain_follow(const char *agent, struct object *(*find)(void *arg, const char *name),
			void *arg, struct agent_chain *ret)
{
	struct object *o;

	*ret = (struct agent_chain){ 0 };
	for (const char *name = agent; *name; name = agent_view(o)->parent) {
		ret->fault = fault_at(ret, name);
		o = ret->fault == CHAIN_WHOLE ? find(arg, name) : NULL;
		if (!o) {
			ret->fault = ret->fault == CHAIN_WHOLE ? CHAIN_NO_PARENT : ret->fault;
			ret->broken_at = name;
			return;
		}
		ret->agents[ret->n++] = o;
		ret->deleting |= agent_view(o)->deleting;
	}
}

bool agent_chain_has(const struct agent_chain *c, const char *name, size_t *ret_above)
{
	if (is_among(c, name, ret_above))
		return true;
	if (c->fault != CHAIN_NO_PARENT || !str_eq(c->broken_at, name))
		return false;
	*ret_above = c->n;
	return true;
}
