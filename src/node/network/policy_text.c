/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>

#include "base/buf.h"
#include "node/host/instance.h"
#include "node/network/policy_priv.h"

/*
 * A plan in the language of nft, for the table of the instance (host/firewall.c). To addresses
 * outside:
 *
 *   map policies    address of a sandbox → accept, or its group
 *   chain group0    its policies one after the other, and what none of them allows is refused
 *   chain policy0   what it allows, by the first packet of a connection
 *   chain opened    map openers → its group, for private addresses that policies may open
 *
 * Between sandboxes the same twice, in two chains of which both have to accept:
 *
 *   chain between   map senders → chain senders0 → chain to0, with sets to0_0 of who receives
 *   chain into      map receivers → chain receivers0 → chain from0, with sets of who sends
 *
 * Names end in 6 for IPv6. Both directions of a connection are asked, each packet of it, by what
 * its first packet was: so one that is no longer allowed ends. A sandbox that sends on it is told
 * so by a reset. The receiver is the one that answers (ct reply): a Service has another address.
 */
static const char *const family_name[] = { "ip", "ip6" };
static const char *const address_type[] = { "ipv4_addr", "ipv6_addr" };
static const char *const suffix[] = { "", "6" };
enum {
	FAMILIES = 2,
};

static const struct {
	const char *rule, *group, *peer;
} words[POLICY_DIRECTION_MAX_] = {
	[POLICY_OUT] = { "to", "senders", "reply" },
	[POLICY_IN] = { "from", "receivers", "original" },
};

static void add_ip(struct buf *b, const struct ip *a)
{
	char text[IP_TEXT_MAX];

	ip_text(a, text);
	buf_add_str(b, text);
}

static void add_pod(struct buf *b, const struct policy_plan *p, size_t pod, int family)
{
	struct ip a = family ? instance_ip6(p->instance, p->pods[pod].place)
			     : instance_ip4(p->instance, p->pods[pod].place);

	add_ip(b, &a);
}

static void add_ports(struct buf *b, const struct policy_ports *p)
{
	buf_printf(b, "meta l4proto %u ", p->protocol);
	if (p->from || p->to != 0xffff)
		buf_printf(b, "ct reply proto-src %u-%u ", p->from, p->to);
}

/* To addresses outside */

static bool is_all_of_ipv4(const struct policy_range *r)
{
	const struct ip first = ip_from4(0), last = ip_from4(0xffffffffu);

	return !ip_cmp(&r->from, &first) && !ip_cmp(&r->to, &last);
}

/* False: it has none of this family. */
static bool add_ranges(struct buf *b, const struct policy_rule *r, int family)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_ranges; i++) {
		const struct policy_range *range = &r->ranges[i];

		if (ip_is4(&range->from) != !family)
			continue;
		if (is_all_of_ipv4(range)) {
			buf_add_str(b, "meta nfproto ipv4 ");
			return true;
		}
		if (!n++)
			buf_printf(b, "ct reply %s saddr { ", family_name[family]);
		else
			buf_add_str(b, ", ");
		add_ip(b, &range->from);
		if (!ip_cmp(&range->from, &range->to))
			continue;
		buf_add_char(b, '-');
		add_ip(b, &range->to);
	}
	if (n)
		buf_add_str(b, " } ");
	return n;
}

static void add_rule(struct buf *b, const struct policy_rule *r)
{
	for (int family = 0; family < FAMILIES; family++)
		for (size_t i = 0; i < (r->ports ? r->n_ports : 1); i++) {
			autobuf match = { 0 };

			if (!add_ranges(&match, r, family))
				continue;
			buf_printf(b, "		%s", buf_str(&match));
			if (r->ports)
				add_ports(b, &r->ports[i]);
			buf_add_str(b, "accept\n");
		}
}

static void add_policies(struct buf *b, const struct policy_plan *p)
{
	for (size_t i = 0; i < p->n_policies; i++) {
		const struct policy *policy = &p->policies[i];

		if (!policy->selects || !policy->n_rules)
			continue;
		buf_printf(b, "	chain policy%u {\n", policy->number);
		for (size_t k = 0; k < policy->n_rules; k++)
			add_rule(b, &policy->rules[k]);
		buf_add_str(b, "	}\n");
	}
}

static void add_groups(struct buf *b, const struct policy_plan *p)
{
	for (size_t i = 0; i < p->groups[POLICY_OUT].n; i++) {
		const struct policy_group *g = &p->groups[POLICY_OUT].list[i];

		if (!g->narrows && !g->n_opened)
			continue;
		buf_printf(b,
			   "	chain group%u {\n"
			   "		oifname $links meta l4proto { icmp, ipv6-icmp } ct state "
			   "related accept\n",
			   g->number);
		for (size_t k = 0; k < g->n; k++)
			if (g->policies[k]->n_rules)
				buf_printf(b, "		jump policy%u\n", g->policies[k]->number);
		buf_add_str(
			b,
			"		iifname $links meta l4proto tcp counter reject with tcp reset\n"
			"		counter drop\n"
			"	}\n");
	}
}

static void add_pods(struct buf *b, const struct policy_plan *p, int family)
{
	buf_printf(b, "	map policies%s {\n		type %s : verdict\n", suffix[family],
		   address_type[family]);
	if (p->n_pods)
		buf_add_str(b, "		elements = {");
	for (size_t i = 0; i < p->n_pods; i++) {
		buf_add_str(b, i ? ", " : " ");
		add_pod(b, p, i, family);
		if (p->pods[i].free)
			buf_add_str(b, " : accept");
		else
			buf_printf(b, " : goto group%u",
				   p->groups[POLICY_OUT].list[p->pods[i].group[POLICY_OUT]].number);
	}
	buf_add_str(b, p->n_pods ? " }\n	}\n" : "	}\n");
}

/* Who reaches private addresses; what of these nobody opens is dropped with all that is reserved.
 */
static void add_openers(struct buf *b, const struct policy_plan *p, int family)
{
	size_t n = 0;

	buf_printf(b, "	map openers%s {\n		type %s : verdict\n", suffix[family],
		   address_type[family]);
	for (size_t i = 0; i < p->n_pods; i++) {
		long group = p->pods[i].group[POLICY_OUT];

		if (group < 0 || !p->groups[POLICY_OUT].list[group].n_opened)
			continue;
		buf_add_str(b, n++ ? ", " : "		elements = { ");
		add_pod(b, p, i, family);
		buf_printf(b, " : goto group%u", p->groups[POLICY_OUT].list[group].number);
	}
	buf_add_str(b, n ? " }\n	}\n" : "	}\n");
}

static void add_opened_rule(struct buf *b, const struct policy_plan *p, int family, bool answers)
{
	const struct policy_rule all = {
		.ranges = (struct policy_range *)(uintptr_t)p->may_open->list,
		.n_ranges = p->may_open->n
	};
	const char *name = family_name[family];
	autobuf match = { 0 };

	if (!add_ranges(&match, &all, family))
		return;
	buf_printf(b, "		%s%s %s vmap @openers%s\n", buf_str(&match), name,
		   answers ? "daddr" : "saddr", suffix[family]);
	if (answers) /* or they would be taken for those of a public address */
		buf_printf(b, "		%scounter drop\n", buf_str(&match));
}

static void add_opened(struct buf *b, const struct policy_plan *p)
{
	static const char *const chains[] = { "opened", "opened_answers" };

	for (int family = 0; family < FAMILIES && p->opens_blocks; family++)
		add_openers(b, p, family);
	for (int i = 0; i < 2; i++) {
		buf_printf(b, "	chain %s {\n", chains[i]);
		for (int family = 0; family < FAMILIES && p->opens_blocks; family++)
			add_opened_rule(b, p, family, i);
		buf_add_str(b, "	}\n");
	}
}

/* Between sandboxes */

static void add_set(struct buf *b, const struct policy_plan *p, const char *name,
		    const struct policy_pods *pods)
{
	for (int family = 0; family < FAMILIES; family++) {
		buf_printf(b, "	set %s%s {\n		type %s\n", name, family ? "_6" : "",
			   address_type[family]);
		for (size_t i = 0; i < pods->n; i++) {
			buf_add_str(b, i ? ", " : "		elements = { ");
			add_pod(b, p, pods->list[i], family);
		}
		buf_add_str(b, pods->n ? " }\n	}\n" : "	}\n");
	}
}

/* What it matches by: the peer, the listener of a port with a name, or both. NULL: by neither. */
struct match {
	const char *end[2];               /* of the connection: "original" or "reply" */
	const char *set[2];               /* NULL: any */
	const struct policy_ports *ports; /* NULL: any */
};

static void add_match(struct buf *b, const struct match *m)
{
	bool any = !m->set[0] && !m->set[1];

	for (int family = 0; family < (any ? 1 : FAMILIES); family++) {
		buf_add_str(b, "		");
		for (int i = 0; i < 2; i++)
			if (m->set[i])
				buf_printf(b, "ct %s %s saddr @%s%s ", m->end[i],
					   family_name[family], m->set[i], family ? "_6" : "");
		if (m->ports)
			add_ports(b, m->ports);
		buf_add_str(b, "accept\n");
	}
}

/* The sets of a policy go before the chain that names them. */
static void add_pass(struct buf sets_rules[2], const struct policy_plan *p,
		     const struct policy_pass *pass, const char *name, enum policy_direction d)
{
	struct buf *sets = &sets_rules[0], *rules = &sets_rules[1];
	struct match m = { .end = { words[d].peer, "reply" } };

	if (!pass->peers.all) {
		add_set(sets, p, name, &pass->peers);
		m.set[0] = name;
	}
	if (pass->any_port)
		add_match(rules, &m);
	for (size_t i = 0; i < pass->n_ports; i++) {
		m.ports = &pass->ports[i];
		add_match(rules, &m);
	}
	for (size_t i = 0; i < pass->n_named; i++) {
		char at[64];

		(void)snprintf(at, sizeof(at), "%s_p%u_%u", name, pass->named[i].port.protocol,
			       pass->named[i].port.from);
		add_set(sets, p, at, &pass->named[i].at);
		m.set[1] = at;
		m.ports = &pass->named[i].port;
		add_match(rules, &m);
	}
}

static void add_policy(struct buf *b, const struct policy_plan *p, const struct policy *policy,
		       enum policy_direction d)
{
	const struct policy_side *side = &policy->side[d];
	struct buf parts[2] = { { 0 }, { 0 } };

	for (size_t k = 0; k < side->n_passes; k++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "%s%u_%zu", words[d].rule, policy->number, k);
		add_pass(parts, p, &side->passes[k], name, d);
	}
	buf_printf(b, "%s	chain %s%u {\n%s	}\n", buf_str(&parts[0]), words[d].rule,
		   policy->number, buf_str(&parts[1]));
	buf_done(&parts[0]);
	buf_done(&parts[1]);
}

static void add_passes(struct buf *b, const struct policy_plan *p, enum policy_direction d)
{
	for (size_t i = 0; i < p->n_policies; i++)
		if (p->policies[i].selects && p->policies[i].side[d].n_passes)
			add_policy(b, p, &p->policies[i], d);
	for (size_t i = 0; i < p->groups[d].n; i++) {
		const struct policy_group *g = &p->groups[d].list[i];

		buf_printf(b, "	chain %s%u {\n", words[d].group, g->number);
		for (size_t k = 0; k < g->n; k++)
			if (g->policies[k]->side[d].n_passes)
				buf_printf(b, "		jump %s%u\n", words[d].rule,
					   g->policies[k]->number);
		buf_add_str(b, "		meta l4proto tcp counter reject with tcp reset\n"
			       "		counter drop\n"
			       "	}\n");
	}
}

static void add_ends(struct buf *b, const struct policy_plan *p, enum policy_direction d,
		     int family)
{
	size_t n = 0;

	buf_printf(b, "	map %s%s {\n		type %s : verdict\n", words[d].group,
		   suffix[family], address_type[family]);
	for (size_t i = 0; i < p->n_pods; i++) {
		if (p->pods[i].group[d] < 0)
			continue;
		buf_add_str(b, n++ ? ", " : "		elements = { ");
		add_pod(b, p, i, family);
		buf_printf(b, " : goto %s%u", words[d].group,
			   p->groups[d].list[p->pods[i].group[d]].number);
	}
	buf_add_str(b, n ? " }\n	}\n" : "	}\n");
}

static const char shut_between[] = "	chain between {\n"
				   "		counter drop\n"
				   "	}\n";
static const char open_between[] =
	"	chain between {\n"
	"		meta l4proto { icmp, ipv6-icmp } ct state related accept\n"
	"		ct original ip saddr vmap @senders\n"
	"		ct original ip6 saddr vmap @senders6\n"
	"		meta l4proto tcp counter reject with tcp reset\n"
	"		counter drop\n"
	"	}\n"
	"	chain into {\n"
	"		type filter hook forward priority -9; policy accept;\n"
	"		iifname $links oifname $links jump to_receiver\n"
	"	}\n"
	"	chain to_receiver {\n"
	"		jump to_itself\n"
	"		meta l4proto { icmp, ipv6-icmp } ct state related accept\n"
	"		ct reply ip saddr vmap @receivers\n"
	"		ct reply ip6 saddr vmap @receivers6\n"
	"		meta l4proto tcp counter reject with tcp reset\n"
	"		counter drop\n"
	"	}\n";

void policy_text(const struct policy_plan *p, struct buf *out)
{
	if (!p->narrows && !p->opens && !p->opens_blocks)
		return;
	add_policies(out, p);
	add_groups(out, p);
	for (int family = 0; family < FAMILIES; family++)
		add_pods(out, p, family);
	add_opened(out, p);
	for (int d = 0; d < POLICY_DIRECTION_MAX_ && p->opens; d++) {
		add_passes(out, p, d);
		for (int family = 0; family < FAMILIES; family++)
			add_ends(out, p, d, family);
	}
	buf_add_str(out, p->opens ? open_between : shut_between);
}

/* For the filters inside sandboxes */

static void add_peer_range(struct buf *b, const struct ip *from, const struct ip *to)
{
	if (b->len)
		buf_add_char(b, ',');
	add_ip(b, from);
	if (!ip_cmp(from, to))
		return;
	buf_add_char(b, '-');
	add_ip(b, to);
}

static void add_places(struct buf *b, const struct policy_plan *p, unsigned from, unsigned to)
{
	const struct ip first[] = { instance_ip4(p->instance, from),
				    instance_ip6(p->instance, from) };
	const struct ip last[] = { instance_ip4(p->instance, to), instance_ip6(p->instance, to) };

	for (int family = 0; family < FAMILIES; family++)
		add_peer_range(b, &first[family], &last[family]);
}

static bool group_reaches(const struct policy_group *g, enum policy_direction d, size_t pod)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct policy_side *side = &g->policies[i]->side[d];

		for (size_t k = 0; k < side->n_passes; k++)
			if (policy_pods_have(&side->passes[k].peers, pod))
				return true;
	}
	return false;
}

bool policy_reaches(const struct policy_plan *p, enum policy_direction d, long group,
		    unsigned place)
{
	size_t from = 0, to = p->opens ? p->n_pods : 0;

	while (from < to) {
		size_t at = from + (to - from) / 2;

		if (p->pods[at].place == place)
			return group_reaches(&p->groups[d].list[group], d, at);
		if (p->pods[at].place < place)
			from = at + 1;
		else
			to = at;
	}
	return false;
}

/* Beyond this, those in between are in the list as well: it says which addresses there are to
 * think of, and the filter of the host which of them. */
enum {
	PEER_RANGES_MAX = 256,
};

static void add_sandboxes(struct buf *b, const struct policy_plan *p, enum policy_direction d,
			  const struct policy_group *g)
{
	unsigned from = 0, to = 0;
	size_t n = 0;

	for (size_t i = 0; p->opens && i < p->n_pods; i++) {
		unsigned place = p->pods[i].place;

		if (!group_reaches(g, d, i))
			continue;
		if (from && place != to + 1 && n < PEER_RANGES_MAX - 1) {
			add_places(b, p, from, to);
			n++;
			from = 0;
		}
		from = from ? from : place;
		to = place;
	}
	if (from)
		add_places(b, p, from, to);
}

void policy_peers(const struct policy_plan *p, enum policy_direction d, long group, struct buf *out)
{
	const struct policy_group *g = &p->groups[d].list[group];
	bool many = g->n_opened > PEER_RANGES_MAX;

	add_sandboxes(out, p, d, g);
	for (size_t i = 0; i < g->n_opened && !many; i++)
		add_peer_range(out, &g->opened[i].from, &g->opened[i].to);
	for (size_t i = 0; i < p->may_open->n && many; i++)
		add_peer_range(out, &p->may_open->list[i].from, &p->may_open->list[i].to);
}
