/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_asks.h"

#include "node/host/instance.h"
#include "node/network/policy_priv.h"

static bool in_ports(const struct policy_ports *l, size_t n, const struct policy_packet *packet)
{
	for (size_t i = 0; i < n; i++)
		if (l[i].protocol == packet->protocol && l[i].from <= packet->port &&
		    packet->port <= l[i].to)
			return true;
	return false;
}

static bool rule_allows(const struct policy_rule *r, const struct policy_packet *packet)
{
	return policy_ranges_hold(r->ranges, r->n_ranges, &packet->to, &packet->to) &&
	       (!r->ports || in_ports(r->ports, r->n_ports, packet));
}

static bool group_allows(const struct policy_group *g, const struct policy_packet *packet)
{
	for (size_t i = 0; i < g->n; i++)
		for (size_t k = 0; k < g->policies[i]->n_rules; k++)
			if (rule_allows(&g->policies[i]->rules[k], packet))
				return true;
	return false;
}

static bool pass_allows(const struct policy_pass *pass, size_t peer, size_t listener,
			const struct policy_packet *packet)
{
	if (!policy_pods_have(&pass->peers, peer))
		return false;
	if (pass->any_port || in_ports(pass->ports, pass->n_ports, packet))
		return true;
	for (size_t i = 0; i < pass->n_named; i++)
		if (policy_pods_have(&pass->named[i].at, listener) &&
		    in_ports(&pass->named[i].port, 1, packet))
			return true;
	return false;
}

static bool side_allows(const struct policy_plan *p, enum policy_direction d,
			const struct policy_pod *end[POLICY_DIRECTION_MAX_],
			const struct policy_packet *packet)
{
	const struct policy_pod *peer = end[d == POLICY_OUT ? POLICY_IN : POLICY_OUT];
	long group = end[d]->group[d];
	const struct policy_group *g = group < 0 ? NULL : &p->groups[d].list[group];

	for (size_t i = 0; g && i < g->n; i++) {
		const struct policy_side *side = &g->policies[i]->side[d];

		for (size_t k = 0; k < side->n_passes; k++)
			if (pass_allows(&side->passes[k], (size_t)(peer - p->pods),
					(size_t)(end[POLICY_IN] - p->pods), packet))
				return true;
	}
	return false;
}

bool policy_allows(const struct policy_plan *p, const struct policy_packet *packet)
{
	const struct policy_pod *end[POLICY_DIRECTION_MAX_] = { NULL };
	unsigned place;

	if (instance_ip_place(p->instance, &packet->from, &place))
		end[POLICY_OUT] = policy_pod_at(p, place);
	if (instance_ip_place(p->instance, &packet->to, &place) && place >= POOL_FIRST) {
		end[POLICY_IN] = policy_pod_at(p, place);
		return p->opens && end[POLICY_OUT] && end[POLICY_IN] &&
		       side_allows(p, POLICY_OUT, end, packet) &&
		       side_allows(p, POLICY_IN, end, packet);
	}
	if (policy_may_open(p->may_open, &packet->to))
		return end[POLICY_OUT] && end[POLICY_OUT]->group[POLICY_OUT] >= 0 &&
		       group_allows(&p->groups[POLICY_OUT].list[end[POLICY_OUT]->group[POLICY_OUT]],
				    packet);
	if (!p->narrows)
		return true;
	if (!end[POLICY_OUT] || end[POLICY_OUT]->free)
		return end[POLICY_OUT];
	return group_allows(&p->groups[POLICY_OUT].list[end[POLICY_OUT]->group[POLICY_OUT]],
			    packet);
}
