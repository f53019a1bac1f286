/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>

#include "base/buf.h"
#include "node/network/policy.h"

/*
 * A plan in the language of nft, for the table of the instance (host/firewall.c):
 *
 *   map policies   address of a sandbox → accept, or its group
 *   chain group0   its policies one after the other, and what none of them allows is refused
 *   chain policy0  what it allows, by the first packet of a connection
 *
 * Both directions of a connection are asked, each packet of it, by what its first packet was: so
 * one that is no longer allowed ends. A sandbox that sends on it is told so by a reset.
 */

static void add_addr(struct buf *b, uint32_t addr)
{
	buf_printf(b, "%u.%u.%u.%u", addr >> 24, addr >> 16 & 0xff, addr >> 8 & 0xff, addr & 0xff);
}

static void add_ranges(struct buf *b, const struct policy_rule *r)
{
	if (r->n_ranges == 1 && !r->ranges[0].from && r->ranges[0].to == 0xffffffffu)
		return;
	buf_add_str(b, "ct original ip daddr { ");
	for (size_t i = 0; i < r->n_ranges; i++) {
		if (i)
			buf_add_str(b, ", ");
		add_addr(b, r->ranges[i].from);
		if (r->ranges[i].to == r->ranges[i].from)
			continue;
		buf_add_char(b, '-');
		add_addr(b, r->ranges[i].to);
	}
	buf_add_str(b, " } ");
}

static void add_ports(struct buf *b, const struct policy_ports *p)
{
	buf_printf(b, "meta l4proto %u ", p->protocol);
	if (p->from || p->to != 0xffff)
		buf_printf(b, "ct original proto-dst %u-%u ", p->from, p->to);
}

static void add_rule(struct buf *b, const struct policy_rule *r)
{
	for (size_t i = 0; i < (r->ports ? r->n_ports : 1); i++) {
		buf_add_str(b, "		");
		add_ranges(b, r);
		if (r->ports)
			add_ports(b, &r->ports[i]);
		buf_add_str(b, "accept\n");
	}
}

static void add_policies(struct buf *b, const struct policy_plan *p)
{
	for (size_t i = 0; i < p->n_policies; i++) {
		const struct policy *policy = &p->policies[i];

		if (!policy->egress || !policy->narrows)
			continue;
		buf_printf(b, "	chain policy%zu {\n", i);
		for (size_t k = 0; k < policy->n_rules; k++)
			add_rule(b, &policy->rules[k]);
		buf_add_str(b, "	}\n");
	}
}

static void add_groups(struct buf *b, const struct policy_plan *p)
{
	for (size_t i = 0; i < p->n_groups; i++) {
		buf_printf(b,
			   "	chain group%zu {\n"
			   "		oifname $links meta l4proto icmp ct state related accept\n",
			   i);
		for (size_t k = 0; k < p->groups[i].n; k++)
			buf_printf(b, "		jump policy%zu\n",
				   (size_t)(p->groups[i].policies[k] - p->policies));
		buf_add_str(
			b,
			"		iifname $links meta l4proto tcp counter reject with tcp reset\n"
			"		counter drop\n"
			"	}\n");
	}
}

static void add_pods(struct buf *b, const struct policy_plan *p)
{
	buf_add_str(b, "	map policies {\n		type ipv4_addr : verdict\n");
	if (p->n_pods)
		buf_add_str(b, "		elements = {");
	for (size_t i = 0; i < p->n_pods; i++) {
		buf_add_str(b, i ? ", " : " ");
		add_addr(b, p->pods[i].addr);
		if (p->pods[i].free)
			buf_add_str(b, " : accept");
		else
			buf_printf(b, " : goto group%zu", p->pods[i].group);
	}
	buf_add_str(b, p->n_pods ? " }\n	}\n" : "	}\n");
}

void policy_text(const struct policy_plan *p, struct buf *out)
{
	if (!p->narrows)
		return;
	add_policies(out, p);
	add_groups(out, p);
	add_pods(out, p);
}
