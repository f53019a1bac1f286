/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/firewall.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <nftables/libnftables.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/host/firewall_delta.h"
#include "node/host/instance.h"
#include "node/host/reserved.h"

/*
 * One nftables table for an instance, loaded at its start. Links are matched by the instance's name
 * prefix and a packet's source is checked against the routes (each sandbox has one to its link), so
 * nothing changes here when Pods come and go, unless a NetworkPolicy says something about them.
 *
 * From a sandbox: answers to what the host asked, questions to the node's name server, connections
 * to the outlet (port 80, and only to a socket with the daemon's mark: another web server of the
 * host may listen on all addresses), and the public Internet unless egress is off. Not: anything
 * else of the host, other sandboxes, private networks, the metadata addresses; and of IPv6 nothing
 * with headers between its own and that of the transport protocol. Into a sandbox: this daemon
 * alone, whose packets carry the instance's mark. The kernel itself answers for sockets that are
 * gone (RST) and reports errors (ICMP) without one. By an uplink that was switched on for
 * sandboxes, nobody else's packets are forwarded.
 *
 * With policies (network/policy_text.c), what goes out and the answers to it, and what is asked of
 * the name server, must also pass the rules of the sandbox, packet by packet: nothing is let
 * through because it is part of a connection. They come last, so there they only take away. What
 * they open is in the chain between, for packets from one sandbox to another. What a sandbox sends
 * to itself through a Service (network/service_text.c) is its own affair.
 *
 * Sandboxes of agents are limited to places (network/limits.c), by a chain of its own that comes
 * before all of this and only takes away.
 *
 * Each sandbox has a filter of its own as well (launch/netns_filter.c): neither relies on the
 * other.
 */
enum {
	ANSWER_MAX = 4096,
};

static const char spoof[] = "	chain spoof {\n"
			    "		type filter hook prerouting priority -310; policy accept;\n"
			    "		iifname $links fib saddr . iif oif missing counter drop\n"
			    "	}\n";
static const char to_host[] =
	"	chain to_host {\n"
	"		type filter hook input priority -10; policy accept;\n"
	"		iifname $links ip daddr $gateway udp dport 53 goto names\n"
	"		iifname $links ip daddr $gateway tcp dport 53 goto names\n"
	"		iifname $links ip daddr $gateway tcp dport 80 jump outlet\n"
	"		iifname $links ct state established,related accept\n"
	"		iifname $links counter drop\n"
	"		iifname != \"lo\" ip daddr $gateway counter drop\n"
	"		iifname != \"lo\" ip6 daddr $gateway6 counter drop\n"
	"	}\n";
/* Takes a kernel with nft_socket. */
static const char outlet[] = "	chain outlet {\n"
			     "		socket mark $daemon accept\n"
			     "	}\n";
static const char no_outlet[] = "	chain outlet {\n"
				"	}\n";
static const char names[] = "	chain names {\n"
			    "		accept\n"
			    "	}\n";
static const char names_by_policy[] = "	chain names {\n"
				      "		ip saddr vmap @policies\n"
				      "		ip6 saddr vmap @policies6\n"
				      "		counter drop\n"
				      "	}\n";
static const char through[] =
	"	chain through {\n"
	"		type filter hook forward priority -10; policy accept;\n"
	"		iifname $links jump from_sandbox\n"
	"		oifname $links ct state established,related jump to_sandbox\n"
	"		oifname $links counter drop\n"
	"	}\n";
static const char answers[] = "	chain to_sandbox {\n"
			      "		accept\n"
			      "	}\n";
static const char answers_by_policy[] = "	chain to_sandbox {\n"
					"		jump opened_answers\n"
					"		ip daddr vmap @policies\n"
					"		ip6 daddr vmap @policies6\n"
					"	}\n";
static const char to_internet[] =
	"	chain from_sandbox {\n"
	"		jump to_itself\n"
	"		oifname \"cay*\" counter drop\n"
	"		ip6 nexthdr != { tcp, udp, ipv6-icmp } counter drop\n"
	"		ip6 daddr $reserved6 counter drop\n"
	"		ip daddr $reserved counter drop\n"
	"	}\n";
static const char to_internet_by_policy[] =
	"	chain from_sandbox {\n"
	"		ip6 nexthdr != { tcp, udp, ipv6-icmp } counter drop\n"
	"		jump to_itself\n"
	"		oifname $links goto between\n"
	"		oifname \"cay*\" counter drop\n"
	"		jump opened\n"
	"		ip daddr $reserved counter drop\n"
	"		ip6 daddr $reserved6 counter drop\n"
	"		ip saddr vmap @policies\n"
	"		ip6 saddr vmap @policies6\n"
	"		counter drop\n"
	"	}\n";
/* Whoever is not in the set "free" reaches what "leases" and "anywhere" say and nothing else; that
 * is asked before all other rules, and opens nothing that they shut. Of a connection, what its
 * sender may reach counts. What others know nothing of, as untracked packets, matches nothing. */
/* Whichever name server a limited sandbox asks, the one that answers is ours: it knows the places,
 * and makes the leases. One that is itself a place is reached. */
static const char limits[] =
	"	chain limited_names {\n"
	"		type nat hook prerouting priority -101; policy accept;\n"
	"		iifname != $links accept\n"
	"		ip saddr . ip daddr . meta l4proto . th dport @leases accept\n"
	"		ip saddr @limited udp dport 53 dnat ip to $gateway\n"
	"		ip saddr @limited tcp dport 53 dnat ip to $gateway\n"
	"	}\n"
	"	chain limits {\n"
	"		type filter hook forward priority -11; policy accept;\n"
	"		jump to_itself\n"
	"		iifname $links ip saddr != @free goto to_places\n"
	"		iifname $links ip6 saddr != @free6 goto to_places\n"
	"		oifname $links ip daddr != @free goto to_places\n"
	"		oifname $links ip6 daddr != @free6 goto to_places\n"
	"	}\n"
	"	chain to_places {\n"
	"		oifname $links meta l4proto { icmp, ipv6-icmp } ct state related accept\n"
	"		ct original ip saddr @free accept\n"
	"		ct original ip6 saddr @free6 accept\n"
	"		ct direction original ip saddr . ip daddr . meta l4proto . th dport @leases accept\n"
	"		ct direction reply ip daddr . ip saddr . meta l4proto . th sport @leases accept\n"
	"		ct direction original ip6 saddr . ip6 daddr . meta l4proto . th dport @leases6 "
	"accept\n"
	"		ct direction reply ip6 daddr . ip6 saddr . meta l4proto . th sport @leases6 "
	"accept\n"
	"		ct direction original ip daddr != $reserved ip saddr . meta l4proto . th dport "
	"@anywhere accept\n"
	"		ct direction reply ip saddr != $reserved ip daddr . meta l4proto . th sport "
	"@anywhere accept\n"
	"		ct direction original ip6 daddr != $reserved6 ip6 saddr . meta l4proto . th dport "
	"@anywhere6 accept\n"
	"		ct direction reply ip6 saddr != $reserved6 ip6 daddr . meta l4proto . th sport "
	"@anywhere6 accept\n"
	"		ip saddr @limited meta l4proto tcp counter reject with tcp reset\n"
	"		ip6 saddr @limited6 meta l4proto tcp counter reject with tcp reset\n"
	"		counter drop\n"
	"	}\n";
static const char no_services[] = "	chain to_itself {\n"
				  "	}\n";
static const char to_nowhere[] = "	chain from_sandbox {\n"
				 "		counter drop\n"
				 "	}\n";
/* By their numbers: somebody may give a link another name. */
static const char strangers[] =
	"	chain strangers {\n"
	"		type filter hook forward priority -10; policy accept;\n"
	"		meta nfproto . iif $uplinks oifname != \"cay*\" counter drop\n"
	"	}\n";
static const char from_host[] =
	"	chain from_host {\n"
	"		type filter hook output priority -10; policy accept;\n"
	"		oifname $links meta mark $daemon accept\n"
	"		oifname $links tcp flags & rst == rst accept\n"
	"		oifname $links meta l4proto { icmp, ipv6-icmp } ct state related accept\n"
	"		oifname $links counter reject with icmpx type admin-prohibited\n"
	"	}\n";
/* Sandboxes speak from ports that the host's own programs do not use: they can neither take all
 * ports to a destination away from it, nor get what is meant for a service of the host. */
static const char hide[] =
	"	chain hide {\n"
	"		type nat hook postrouting priority 100; policy accept;\n"
	"		ip saddr $pool oifname != \"cay*\" oifname != \"lo\" meta l4proto { tcp, udp } "
	"masquerade to :61000-65535 fully-random\n"
	"		ip saddr $pool oifname != \"cay*\" oifname != \"lo\" masquerade\n"
	"		ip6 saddr $pool6 oifname != \"cay*\" oifname != \"lo\" meta l4proto { tcp, udp } "
	"masquerade to :61000-65535 fully-random\n"
	"		ip6 saddr $pool6 oifname != \"cay*\" oifname != \"lo\" masquerade\n"
	"	}\n";

/*
 * One context for as long as the process lives, made at its start: libnftables waits for its socket
 * with select(), which ends the process if that has a number above 1023. The first to use it is the
 * start of the node, and after that one job at a time, so that it needs no lock.
 */
static struct nft_ctx *context(void)
{
	static struct nft_ctx *ctx;

	if (ctx)
		return ctx;
	ctx = nft_ctx_new(NFT_CTX_DEFAULT);
	if (!ctx)
		return NULL;
	(void)nft_ctx_buffer_error(ctx);
	(void)nft_ctx_buffer_output(ctx);
	nft_ctx_output_set_flags(ctx, NFT_CTX_OUTPUT_STATELESS);
	return ctx;
}

/* ret_text NULL: what it prints does not matter. */
static struct err *run(const char *commands, char **ret_text)
{
	struct nft_ctx *ctx = context();
	const char *said, *wrong;
	int r;

	if (!ctx)
		return err_new(ERR_INTERNAL, "libnftables returned no context");
	r = nft_run_cmd_from_buffer(ctx, commands);
	/* Both are read in any case, which empties them for the next time. */
	said = nft_ctx_get_output_buffer(ctx);
	wrong = nft_ctx_get_error_buffer(ctx);
	if (r)
		return err_new(ERR_SYS, "change packet filter: %.*s",
			       (int)strcspn(str_or(wrong, ""), "\n"), str_or(wrong, ""));
	if (ret_text)
		*ret_text = xstrdup(said);
	return NULL;
}

static void define_reserved(struct buf *text)
{
	buf_add_str(text, "redefine reserved = {");
	for (size_t i = 0; i < n_reserved_nets; i++) {
		uint32_t net = reserved_nets[i].net;

		buf_printf(text, "%s %u.%u.%u.%u/%u", i ? "," : "", net >> 24, net >> 16 & 0xff,
			   net >> 8 & 0xff, net & 0xff, reserved_nets[i].prefix);
	}
	buf_add_str(text, " }\nredefine reserved6 = {");
	for (size_t i = 0; i < n_reserved6_nets; i++)
		buf_printf(text, "%s %x:%x::/%u", i ? "," : "", reserved6_nets[i].net >> 16,
			   reserved6_nets[i].net & 0xffff, reserved6_nets[i].prefix);
	buf_add_str(text, " }\n");
}

static void define_ip6(struct buf *text, const struct instance *i)
{
	struct ip ip[3] = { instance_ip6(i, 0), instance_ip6(i, POOL_GATEWAY),
			    instance_ip6(i, POOL_STAND_IN) };
	char pool[IP_TEXT_MAX], gateway[IP_TEXT_MAX], stand_in[IP_TEXT_MAX];

	ip_text(&ip[0], pool);
	ip_text(&ip[1], gateway);
	ip_text(&ip[2], stand_in);
	buf_printf(text,
		   "redefine pool6 = %s/%d\nredefine gateway6 = %s\nredefine stand_in6 = %s\n",
		   pool, POOL6_PREFIX, gateway, stand_in);
}

static void define_uplinks(struct buf *text, const struct uplinks *u)
{
	buf_add_str(text, "redefine uplinks = {");
	for (unsigned n = 0; n < u->n; n++)
		buf_printf(text, "%s %s . %u", n ? "," : "", u->at[n].ip6 ? "ipv6" : "ipv4",
			   u->at[n].ifindex);
	buf_add_str(text, " }\n");
}

static const char *way_out(const struct firewall_rules *r, bool policies)
{
	if (!r->egress)
		return to_nowhere;
	return policies ? to_internet_by_policy : to_internet;
}

static void define_names(struct buf *text, const struct instance *i)
{
	char links[16], pool[16], gateway[16], stand_in[16];

	instance_ifprefix(i, links);
	instance_addr_text(i, 0, pool);
	instance_addr_text(i, POOL_GATEWAY, gateway);
	instance_addr_text(i, POOL_STAND_IN, stand_in);
	buf_printf(text,
		   "redefine links = \"%s*\"\nredefine pool = %s/%d\nredefine gateway = %s\n"
		   "redefine stand_in = %s\nredefine daemon = %#x\n",
		   links, pool, POOL_PREFIX, gateway, stand_in, instance_mark(i));
}

/* The new table replaces the old one in one transaction. */
struct err *firewall_load(const struct instance *i, const struct firewall_rules *r)
{
	autofree char *table = instance_table(i);
	autobuf text = { 0 };
	bool policies = r->policies && wall_stands("network-policy");
	const struct {
		bool wanted;
		const char *rules;
	} parts[] = {
		{ true, r->services ? r->services->data : no_services },
		{ policies, policies ? r->policies->data : "" },
		{ r->limits, r->limits ? r->limits->data : "" },
		{ r->limits, limits },
		{ wall_stands("filter-spoof"), spoof },
		{ wall_stands("filter-to-host"), policies ? names_by_policy : names },
		{ wall_stands("filter-to-host"), r->outlet ? outlet : no_outlet },
		{ wall_stands("filter-to-host"), to_host },
		{ wall_stands("filter-through"), policies ? answers_by_policy : answers },
		{ wall_stands("filter-through"), way_out(r, policies) },
		{ wall_stands("filter-through"), through },
		{ r->uplinks.n && wall_stands("filter-strangers"), strangers },
		{ !r->open && wall_stands("filter-output"), from_host },
		{ true, hide },
	};

	define_names(&text, i);
	define_ip6(&text, i);
	define_reserved(&text);
	if (r->uplinks.n)
		define_uplinks(&text, &r->uplinks);
	buf_printf(&text, "add table %s\ndelete table %s\ntable %s {\n", table, table, table);
	for (size_t n = 0; n < ARRAY_LEN(parts); n++)
		if (parts[n].wanted)
			buf_add_str(&text, parts[n].rules);
	buf_add_str(&text, "}\n");
	return run(buf_str(&text), NULL);
}

/* Both have them, or neither has. */
static bool alike(const struct bytes *a, const struct bytes *b)
{
	return !a == !b;
}

static void add_elements(struct buf *text, const struct firewall_rules *r)
{
	if (r->policies)
		buf_add_str(text, r->policies->data);
	if (r->limits)
		buf_add_str(text, r->limits->data);
}

struct err *firewall_change(const struct instance *i, const struct firewall_rules *was,
			    const struct firewall_rules *now)
{
	autofree char *table = instance_table(i);
	struct firewall_rules same = *was;
	autobuf text = { 0 }, before = { 0 }, after = { 0 };
	bool differs;

	same.policies = now->policies;
	same.policies_number = now->policies_number;
	same.limits = now->limits;
	same.limits_number = now->limits_number;
	/* Whatever else may differ; if only the gaps between members do, the table is loaded. */
	/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
	differs = memcmp(&same, now, sizeof(same)) != 0;
	if (differs || !alike(was->policies, now->policies) || !alike(was->limits, now->limits) ||
	    (now->policies && !wall_stands("network-policy")))
		return err_new(ERR_UNSUPPORTED, "more than elements of sets and maps differ");
	add_elements(&before, was);
	add_elements(&after, now);
	define_names(&text, i);
	if (!firewall_delta(table, buf_str(&before), buf_str(&after), &text))
		return err_new(ERR_UNSUPPORTED, "the rules differ in kind");
	return run(buf_str(&text), NULL);
}

struct err *firewall_remove(const struct instance *i)
{
	autofree char *table = instance_table(i);
	autofree char *text = xasprintf("add table %s\ndelete table %s\n", table, table);

	return run(text, NULL);
}

void firewall_text(const struct instance *i, char **ret)
{
	autofree char *table = instance_table(i);
	autofree char *command = xasprintf("list table %s\n", table);

	*ret = NULL;
	err_free(run(command, ret)); /* it says that there is none */
}

static uint32_t read_generation(const void *answer, int left)
{
	uint32_t found = 0;

	for (const struct nlmsghdr *h = answer; mnl_nlmsg_ok(h, left);
	     h = mnl_nlmsg_next(h, &left)) {
		const struct nlattr *a;

		if (h->nlmsg_type != (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWGEN))
			continue;
		mnl_attr_for_each(
			a, h, sizeof(struct nfgenmsg)) if (mnl_attr_get_type(a) == NFTA_GEN_ID &&
							   mnl_attr_validate(a, MNL_TYPE_U32) >= 0)
			found = ntohl(mnl_attr_get_u32(a));
	}
	return found;
}

uint32_t firewall_generation(void)
{
	_Alignas(8) char room[ANSWER_MAX];
	autoclose fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct nlmsghdr *h = mnl_nlmsg_put_header(room);
	struct nfgenmsg *g;
	ssize_t n;

	h->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN;
	h->nlmsg_flags = NLM_F_REQUEST;
	g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	g->nfgen_family = AF_UNSPEC;
	g->version = NFNETLINK_V0;
	if (fd < 0 || send(fd, h, h->nlmsg_len, 0) < 0)
		return 0;
	n = recv(fd, room, sizeof(room), MSG_DONTWAIT); /* the kernel answers within send() */
	return n > 0 ? read_generation(room, (int)n) : 0;
}

bool firewall_present(const struct instance *i)
{
	autofree char *text = NULL;

	firewall_text(i, &text);
	return text;
}

/* Not the context of this process, whose socket is in another network. */
bool firewall_try(bool with_outlet)
{
	autofree char *text = xasprintf("define daemon = 1\ntable inet try {\n%s}\n",
					with_outlet ? outlet : no_outlet);
	struct nft_ctx *ctx = nft_ctx_new(NFT_CTX_DEFAULT);
	bool taken;

	if (!ctx)
		return false;
	(void)nft_ctx_buffer_error(ctx);
	taken = !nft_run_cmd_from_buffer(ctx, text);
	nft_ctx_free(ctx);
	return taken;
}

/* In the lines of a listing: "table ip filter {", "chain FORWARD {", "... hook forward ...; policy
 * drop;". */
char *firewall_forward_policy(void)
{
	autofree char *text = NULL;
	const char *table = "", *chain = "";
	char *save = NULL;

	err_free(run("list chains\n", &text)); /* without a packet filter nothing drops */
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		line += strspn(line, " \t");
		if (str_starts(line, "table "))
			table = line + strlen("table ");
		else if (str_starts(line, "chain "))
			chain = line + strlen("chain ");
		else if (strstr(line, "hook forward") && strstr(line, "policy drop"))
			return xasprintf("%.*s %.*s", (int)strcspn(table, "{") - 1, table,
					 (int)strcspn(chain, " {"), chain);
	}
	return NULL;
}
