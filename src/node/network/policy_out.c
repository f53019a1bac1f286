/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>

#include "node/host/reserved.h"
#include "node/network/policy_priv.h"

/*
 * What policy_text() says in the language of nft, about one TCP connection to an address outside,
 * for those who connect on behalf of a sandbox. It looks at nothing that a plan has borrowed.
 */
static bool rule_has_port(const struct policy_rule *r, uint16_t port)
{
	for (size_t i = 0; i < r->n_ports; i++)
		if (r->ports[i].protocol == IPPROTO_TCP && port >= r->ports[i].from &&
		    port <= r->ports[i].to)
			return true;
	return !r->ports;
}

static bool group_allows(const struct policy_group *g, const struct ip *to, uint16_t port)
{
	for (size_t i = 0; i < g->n; i++)
		for (size_t k = 0; k < g->policies[i]->n_rules; k++) {
			const struct policy_rule *r = &g->policies[i]->rules[k];

			if (policy_ranges_hold(r->ranges, r->n_ranges, to, to) &&
			    rule_has_port(r, port))
				return true;
		}
	return false;
}

bool policy_lets_out(const struct policy_plan *p, unsigned place, const struct ip *to,
		     uint16_t port)
{
	bool reserved = reserved_holds_ip(to, ip_is4(to) ? 32 : 128);
	const struct policy_pod *pod = policy_pod_at(p, place);
	long group = pod ? pod->group[POLICY_OUT] : POLICY_NO_GROUP;

	if (!p->narrows && !p->opens && !p->opens_blocks)
		return !reserved; /* there are no rules */
	if (!pod)
		return false; /* nobody knows whose address it is */
	if (reserved)
		return group >= 0 && policy_may_open(p->may_open, to) &&
		       group_allows(&p->groups[POLICY_OUT].list[group], to, port);
	return pod->free ||
	       (group >= 0 && group_allows(&p->groups[POLICY_OUT].list[group], to, port));
}
