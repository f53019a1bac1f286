/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "node/host/instance.h"
#include "node/network/protocol.h"
#include "node/network/service.h"

/*
 * A plan in the language of nft, for the table of the instance (host/firewall.c):
 *
 *   map services        address, protocol and port of a Service → its chain
 *   chain service0      to any of its Pods, or to the one that the sandbox's address means
 *   set unserved        addresses, protocols and ports that no Pod is ready for: refused
 *   set itself          each address of a Pod behind a Service twice, as source and destination
 *
 * Names end in 6 for IPv6.
 *
 * TCP is refused by a reset: an ICMP error that comes while connect() is still sending is lost.
 *
 * What was led back to the sandbox that sent it passes, and gets the source address of the
 * stand-in. With its own, the sandbox would drop it, or answer itself directly, and nobody would
 * translate the answer.
 */
static const char *const family_name[] = { "ip", "ip6" };
static const char *const address_type[] = { "ipv4_addr", "ipv6_addr" };
static const char *const suffix[] = { "", "6" };
enum {
	FAMILIES = 2,
};

static bool is_of(const struct service_port *s, int family)
{
	return ip_is4(&s->ip) == !family;
}

static void add_key(struct buf *b, const struct service_port *s, bool more)
{
	char ip[IP_TEXT_MAX];

	ip_text(&s->ip, ip);
	buf_printf(b, "%s%s . %s . %u", more ? ", " : "		elements = { ", ip,
		   protocol_filter_name(s->protocol), s->port);
}

static void add_chain(struct buf *b, const struct service_port *s, size_t number)
{
	const char *family = family_name[!ip_is4(&s->ip)];
	char ip[IP_TEXT_MAX];

	buf_printf(b, "	chain service%zu {\n		meta l4proto %s dnat %s addr . port to ",
		   number, protocol_filter_name(s->protocol), family);
	if (s->sticky)
		buf_printf(b, "jhash %s saddr mod %zu seed 0xca7 map {", family, s->n_ends);
	else
		buf_printf(b, "numgen random mod %zu map {", s->n_ends);
	for (size_t i = 0; i < s->n_ends; i++) {
		ip_text(&s->ends[i].ip, ip);
		buf_printf(b, "%s %zu : %s . %u", i ? "," : "", i, ip, s->ends[i].port);
	}
	buf_add_str(b, " }\n	}\n");
}

static void add_map(struct buf *b, const struct service_plan *p, int family)
{
	size_t n = 0;

	buf_printf(
		b,
		"	map services%s {\n		type %s . inet_proto . inet_service : verdict\n",
		suffix[family], address_type[family]);
	for (size_t i = 0; i < p->n_ports; i++) {
		const struct service_port *s = &p->ports[i];

		if (!is_of(s, family) || !s->n_ends)
			continue;
		add_key(b, s, n++);
		buf_printf(b, " : goto service%zu", i);
	}
	buf_add_str(b, n ? " }\n	}\n" : "	}\n");
}

static void add_unserved(struct buf *b, const struct service_plan *p, int family)
{
	size_t n = 0;

	buf_printf(b, "	set unserved%s {\n		type %s . inet_proto . inet_service\n",
		   suffix[family], address_type[family]);
	for (size_t i = 0; i < p->n_ports; i++)
		if (is_of(&p->ports[i], family) && !p->ports[i].n_ends)
			add_key(b, &p->ports[i], n++);
	buf_add_str(b, n ? " }\n	}\n" : "	}\n");
}

static void add_itself(struct buf *b, const struct service_plan *p, int family)
{
	bool *known = xnew_n(bool, POOL_SIZE);
	char ip[IP_TEXT_MAX];
	size_t n = 0;

	buf_printf(b, "	set itself%s {\n		type %s . %s\n", suffix[family],
		   address_type[family], address_type[family]);
	for (size_t i = 0; i < p->n_ports; i++) {
		const struct service_port *s = &p->ports[i];

		for (size_t k = 0; is_of(s, family) && k < s->n_ends; k++) {
			if (known[s->ends[k].place])
				continue;
			known[s->ends[k].place] = true;
			ip_text(&s->ends[k].ip, ip);
			buf_printf(b, "%s%s . %s", n++ ? ", " : "		elements = { ", ip,
				   ip);
		}
	}
	buf_add_str(b, n ? " }\n	}\n" : "	}\n");
	free(known);
}

static const char with_itself[] =
	"	chain to_itself {\n"
	"		ip saddr . ip daddr @itself accept\n"
	"		ip6 saddr . ip6 daddr @itself6 accept\n"
	"	}\n"
	"	chain from_itself {\n"
	"		type nat hook postrouting priority 100; policy accept;\n"
	"		oifname $links ip saddr . ip daddr @itself snat ip to $stand_in\n"
	"		oifname $links ip6 saddr . ip6 daddr @itself6 snat ip6 to $stand_in6\n"
	"	}\n";

static void add_hook(struct buf *b, const char *name, const char *hook, const char *from)
{
	buf_printf(b, "	chain %s {\n		type nat hook %s priority -100; policy accept;\n",
		   name, hook);
	for (int f = 0; f < FAMILIES; f++)
		buf_printf(b, "		%s%s daddr . meta l4proto . th dport vmap @services%s\n",
			   from, family_name[f], suffix[f]);
	buf_add_str(b, "	}\n");
}

static void add_refusals(struct buf *b, int family)
{
	static const char *const ways[] = { "meta l4proto tcp counter reject with tcp reset",
					    "counter reject with icmpx type port-unreachable" };

	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		buf_printf(b,
			   "		iifname $links %s daddr . meta l4proto . th dport "
			   "@unserved%s %s\n",
			   family_name[family], suffix[family], ways[i]);
}

static const char refuse[] =
	"	chain no_service {\n"
	"		type filter hook prerouting priority -105; policy accept;\n";

void service_text(const struct service_plan *p, bool host, struct buf *out)
{
	if (!p->n_ports)
		return;
	for (size_t i = 0; i < p->n_ports; i++)
		if (p->ports[i].n_ends)
			add_chain(out, &p->ports[i], i);
	for (int f = 0; f < FAMILIES; f++) {
		add_map(out, p, f);
		add_unserved(out, p, f);
		add_itself(out, p, f);
	}
	buf_add_str(out, with_itself);
	add_hook(out, "to_services", "prerouting", "iifname $links ");
	if (host)
		add_hook(out, "host_to_services", "output", "");
	buf_add_str(out, refuse);
	for (int f = 0; f < FAMILIES; f++)
		add_refusals(out, f);
	buf_add_str(out, "	}\n");
}
