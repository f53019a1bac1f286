/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>

#include "api/pools.h"
#include "base/buf.h"
#include "node/host/reserved.h"
#include "node/launch/launch_priv.h"
#include "node/launch/nft_batch.h"

/*
 * The packet filter inside a sandbox's network namespace. It says once more what the host's says
 * (host/firewall.c), so that a sandbox stays shut in while the host's table is gone. The namespace
 * belongs to the host's user namespace: nobody inside can read or change it. In the words of nft:
 *
 *   table inet cay {
 *     chain out {                                    chain in {
 *       type filter hook output priority -10;          type filter hook input priority -10;
 *       oif lo accept                                  iif lo accept
 *       meta nfproto != ipv4 goto out6                 meta nfproto != ipv4 goto in6
 *       ip saddr != ADDR drop                          ip saddr GATEWAY accept
 *       ip daddr GATEWAY tcp, not a first SYN accept   ip saddr RESERVED drop
 *       ip daddr GATEWAY udp dport 53 accept           tcp, a first SYN drop
 *       ip daddr GATEWAY tcp dport 53 accept
 *       ip daddr GATEWAY tcp dport 80 accept
 *       ip daddr RESERVED drop
 *     }                                              }
 *     chain out6 {                                   chain in6 {
 *       ip6 saddr != ADDR drop                         ip6 saddr GATEWAY accept
 *       ip6 nexthdr not tcp, udp or icmpv6 drop        ip6 nexthdr not tcp, udp or icmpv6 drop
 *       ip6 daddr GATEWAY tcp, not a first SYN accept  icmpv6 type packet-too-big accept
 *       ip6 daddr RESERVED drop                        ip6 saddr RESERVED drop
 *                                                      tcp, a first SYN drop
 *     }                                              }
 *   }
 *
 * What policies open comes before RESERVED. The sets peers_out and peers_in, and those of the same
 * names with a 6, are empty until netns_peers.c fills them:
 *
 *       ip daddr @peers_out accept                     ip saddr @peers_in accept
 *       ip daddr @peers_in, no first SYN accept        ip saddr @peers_out, no first SYN accept
 *       ip daddr SANDBOXES tcp reject with tcp reset
 *
 * The last one ends connections that a policy allowed before.
 *
 * Without egress, a plain "drop" takes the place of the last rules of all chains and there is no
 * port 80; without IPv6, "drop" takes that of "goto".
 *
 * It keeps no state: to the host go only segments that cannot open a connection, questions to its
 * name server, and requests to its outlet. So nothing may be in the way of the header of the
 * transport protocol: what has another header before it, a fragment among them, could pass as
 * neither this nor that. Fragments that a sandbox sends are made behind the filter, and the host
 * puts them together again.
 */
enum {
	RULE_MAX = 2048,
	LOOPBACK = 1, /* its index in every namespace */
	SADDR = 12,   /* offsets in the headers of IPv4, IPv6 and TCP */
	DADDR = 16,
	NEXT6 = 6,
	SADDR6 = 8,
	DADDR6 = 24,
	TCP_FLAGS = 13,
	ICMP6_TOO_BIG = 2,
	DPORT = 2,  /* of UDP too */
	NAMES = 53, /* ports of the gateway */
	OUTLET = 80,
	PRIORITY = -10,
	TYPE_IPADDR = 7, /* how nft shows the keys of a set: as addresses of IPv4, or of IPv6 */
	TYPE_IP6ADDR = 8,
	TYPE_INTEGER = 4,
};

static const char table[] = "cay", reserved[] = "reserved";

/* A batch, and the rule that is being written. */
struct filter {
	struct nft_batch batch;
	const char *chain;
	_Alignas(8) char room[RULE_MAX];
	struct nlmsghdr *h;
	struct nlattr *exprs, *expr, *data;
};

/* What follows is about this one, until message_end(). */
static void message(struct filter *f, uint16_t type, uint16_t flags)
{
	f->h = nft_message(&f->batch, type, flags);
}

static void message_end(struct filter *f)
{
	nft_message_end(&f->batch);
}

static void put_table(struct filter *f)
{
	message(f, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_ACK);
	mnl_attr_put_strz(f->h, NFTA_TABLE_NAME, table);
	message_end(f);
}

static void put_hook(struct filter *f, uint32_t hook)
{
	struct nlattr *nest = mnl_attr_nest_start(f->h, NFTA_CHAIN_HOOK);

	mnl_attr_put_u32(f->h, NFTA_HOOK_HOOKNUM, htonl(hook));
	mnl_attr_put_u32(f->h, NFTA_HOOK_PRIORITY, htonl((uint32_t)PRIORITY));
	mnl_attr_nest_end(f->h, nest);
	mnl_attr_put_u32(f->h, NFTA_CHAIN_POLICY, htonl(NF_ACCEPT));
	mnl_attr_put_strz(f->h, NFTA_CHAIN_TYPE, "filter");
}

/* hook NF_INET_NUMHOOKS: one that another chain goes to. */
static void put_chain(struct filter *f, const char *name, uint32_t hook)
{
	f->chain = name;
	message(f, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	mnl_attr_put_strz(f->h, NFTA_CHAIN_TABLE, table);
	mnl_attr_put_strz(f->h, NFTA_CHAIN_NAME, name);
	if (hook != NF_INET_NUMHOOKS)
		put_hook(f, hook);
	message_end(f);
}

/* The key of a set of networks: the family, in the first byte as a register has it, and the first
 * 32 bits of an address. The kernel gives every such set 16 KiB, so one must do for both. */
struct net_key {
	uint8_t family, zero[3];
	uint32_t first; /* in network byte order */
};

static void put_networks(struct filter *f, uint8_t family, const struct reserved_net *r, size_t n)
{
	struct nlattr *list;

	message(f, NFT_MSG_NEWSETELEM, NLM_F_CREATE);
	mnl_attr_put_strz(f->h, NFTA_SET_ELEM_LIST_TABLE, table);
	mnl_attr_put_strz(f->h, NFTA_SET_ELEM_LIST_SET, reserved);
	list = mnl_attr_nest_start(f->h, NFTA_SET_ELEM_LIST_ELEMENTS);
	for (size_t i = 0; i < n; i++) {
		struct net_key from = { family, .first = htonl(r[i].net) };
		struct net_key behind = { family,
					  .first = htonl(r[i].net + (1u << (32 - r[i].prefix))) };

		if (!behind.first) /* it reaches to the end of all addresses */
			behind.family++;
		nft_put_element(f->h, &from, sizeof(from), false);
		nft_put_element(f->h, &behind, sizeof(behind), true);
	}
	mnl_attr_nest_end(f->h, list);
	message_end(f);
}

static void put_reserved(struct filter *f, bool ip6)
{
	message(f, NFT_MSG_NEWSET, NLM_F_CREATE);
	mnl_attr_put_strz(f->h, NFTA_SET_TABLE, table);
	mnl_attr_put_strz(f->h, NFTA_SET_NAME, reserved);
	mnl_attr_put_u32(f->h, NFTA_SET_FLAGS, htonl(NFT_SET_INTERVAL | NFT_SET_CONSTANT));
	mnl_attr_put_u32(f->h, NFTA_SET_KEY_TYPE, htonl(TYPE_INTEGER));
	mnl_attr_put_u32(f->h, NFTA_SET_KEY_LEN, htonl(sizeof(struct net_key)));
	mnl_attr_put_u32(f->h, NFTA_SET_ID, htonl(f->batch.seq));
	message_end(f);
	put_networks(f, NFPROTO_IPV4, reserved_nets, n_reserved_nets);
	if (ip6)
		put_networks(f, NFPROTO_IPV6, reserved6_nets, n_reserved6_nets);
}

/* A rule is what stands between rule() and verdict(); each condition must hold. */
static void rule(struct filter *f)
{
	message(f, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	mnl_attr_put_strz(f->h, NFTA_RULE_TABLE, table);
	mnl_attr_put_strz(f->h, NFTA_RULE_CHAIN, f->chain);
	f->exprs = mnl_attr_nest_start(f->h, NFTA_RULE_EXPRESSIONS);
}

static void expr(struct filter *f, const char *name)
{
	f->expr = mnl_attr_nest_start(f->h, NFTA_LIST_ELEM);
	mnl_attr_put_strz(f->h, NFTA_EXPR_NAME, name);
	f->data = mnl_attr_nest_start(f->h, NFTA_EXPR_DATA);
}

static void expr_end(struct filter *f)
{
	mnl_attr_nest_end(f->h, f->data);
	mnl_attr_nest_end(f->h, f->expr);
}

static void put_value(struct filter *f, uint16_t type, const void *value, size_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(f->h, type);

	mnl_attr_put(f->h, NFTA_DATA_VALUE, len, value);
	mnl_attr_nest_end(f->h, nest);
}

static void load_meta(struct filter *f, uint32_t key)
{
	expr(f, "meta");
	mnl_attr_put_u32(f->h, NFTA_META_KEY, htonl(key));
	mnl_attr_put_u32(f->h, NFTA_META_DREG, htonl(NFT_REG_1));
	expr_end(f);
}

static void load_packet_into(struct filter *f, uint32_t reg, uint32_t base, uint32_t offset,
			     uint32_t len)
{
	expr(f, "payload");
	mnl_attr_put_u32(f->h, NFTA_PAYLOAD_DREG, htonl(reg));
	mnl_attr_put_u32(f->h, NFTA_PAYLOAD_BASE, htonl(base));
	mnl_attr_put_u32(f->h, NFTA_PAYLOAD_OFFSET, htonl(offset));
	mnl_attr_put_u32(f->h, NFTA_PAYLOAD_LEN, htonl(len));
	expr_end(f);
}

static void load_packet(struct filter *f, uint32_t base, uint32_t offset, uint32_t len)
{
	load_packet_into(f, NFT_REG_1, base, offset, len);
}

static void mask(struct filter *f, const void *with, size_t len)
{
	static const char zeros[4];

	expr(f, "bitwise");
	mnl_attr_put_u32(f->h, NFTA_BITWISE_SREG, htonl(NFT_REG_1));
	mnl_attr_put_u32(f->h, NFTA_BITWISE_DREG, htonl(NFT_REG_1));
	mnl_attr_put_u32(f->h, NFTA_BITWISE_LEN, htonl((uint32_t)len));
	put_value(f, NFTA_BITWISE_MASK, with, len);
	put_value(f, NFTA_BITWISE_XOR, zeros, len);
	expr_end(f);
}

static void compare(struct filter *f, uint32_t op, const void *with, size_t len)
{
	expr(f, "cmp");
	mnl_attr_put_u32(f->h, NFTA_CMP_SREG, htonl(NFT_REG_1));
	mnl_attr_put_u32(f->h, NFTA_CMP_OP, htonl(op));
	put_value(f, NFTA_CMP_DATA, with, len);
	expr_end(f);
}

/* to: the chain to go to, or NULL. */
static void end_rule(struct filter *f, uint32_t code, const char *to)
{
	struct nlattr *data, *nest;

	expr(f, "immediate");
	mnl_attr_put_u32(f->h, NFTA_IMMEDIATE_DREG, htonl(NFT_REG_VERDICT));
	data = mnl_attr_nest_start(f->h, NFTA_IMMEDIATE_DATA);
	nest = mnl_attr_nest_start(f->h, NFTA_DATA_VERDICT);
	mnl_attr_put_u32(f->h, NFTA_VERDICT_CODE, htonl(code));
	if (to)
		mnl_attr_put_strz(f->h, NFTA_VERDICT_CHAIN, to);
	mnl_attr_nest_end(f->h, nest);
	mnl_attr_nest_end(f->h, data);
	expr_end(f);
	mnl_attr_nest_end(f->h, f->exprs);
	message_end(f);
}

static void verdict(struct filter *f, uint32_t code)
{
	end_rule(f, code, NULL);
}

static void if_address(struct filter *f, bool source, uint32_t op, const struct ip *addr)
{
	size_t before = ip_is4(addr) ? IP4_BITS / 8 : 0, len = sizeof(addr->octet) - before;

	load_packet(f, NFT_PAYLOAD_NETWORK_HEADER,
		    before ? (source ? SADDR : DADDR) : (source ? SADDR6 : DADDR6), (uint32_t)len);
	compare(f, op, addr->octet + before, len);
}

/* op NFT_CMP_EQ: a segment that opens a connection; NFT_CMP_NEQ: any other. */
static void if_first_segment(struct filter *f, uint32_t op)
{
	static const uint8_t tcp = IPPROTO_TCP, syn_ack = TH_SYN | TH_ACK, syn = TH_SYN;

	load_meta(f, NFT_META_L4PROTO);
	compare(f, NFT_CMP_EQ, &tcp, 1);
	load_packet(f, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS, 1);
	mask(f, &syn_ack, 1);
	compare(f, op, &syn, 1);
}

static void if_service(struct filter *f, const struct ip *gw, uint8_t protocol, uint8_t number)
{
	const uint8_t port[2] = { 0, number };

	if_address(f, false, NFT_CMP_EQ, gw);
	load_meta(f, NFT_META_L4PROTO);
	compare(f, NFT_CMP_EQ, &protocol, 1);
	load_packet(f, NFT_PAYLOAD_TRANSPORT_HEADER, DPORT, sizeof(port));
	compare(f, NFT_CMP_EQ, port, sizeof(port));
}

/* What is only inside is free. */
static void begin_chain(struct filter *f, uint32_t interface, const char *for_ip6)
{
	static const uint32_t lo = LOOPBACK;
	static const uint8_t ipv4 = NFPROTO_IPV4;

	rule(f);
	load_meta(f, interface);
	compare(f, NFT_CMP_EQ, &lo, sizeof(lo));
	verdict(f, NF_ACCEPT);
	rule(f);
	load_meta(f, NFT_META_NFPROTO);
	compare(f, NFT_CMP_NEQ, &ipv4, sizeof(ipv4));
	end_rule(f, for_ip6 ? (uint32_t)NFT_GOTO : NF_DROP, for_ip6);
}

static void drop_reserved(struct filter *f, bool source, bool v4)
{
	rule(f);
	load_meta(f, NFT_META_NFPROTO);
	load_packet_into(f, NFT_REG32_01, NFT_PAYLOAD_NETWORK_HEADER,
			 v4 ? (source ? SADDR : DADDR) : (source ? SADDR6 : DADDR6), 4);
	expr(f, "lookup");
	mnl_attr_put_strz(f->h, NFTA_LOOKUP_SET, reserved);
	mnl_attr_put_u32(f->h, NFTA_LOOKUP_SREG, htonl(NFT_REG_1));
	expr_end(f);
	verdict(f, NF_DROP);
}

/* A packet of IPv6 whose transport header does not come first. */
static void drop_other_headers(struct filter *f)
{
	static const uint8_t known[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6 };

	rule(f);
	load_packet(f, NFT_PAYLOAD_NETWORK_HEADER, NEXT6, 1);
	for (size_t i = 0; i < sizeof(known); i++)
		compare(f, NFT_CMP_NEQ, &known[i], 1);
	verdict(f, NF_DROP);
}

/* Or a path that takes no large packets would take none at all, whoever is on it. */
static void accept_too_big(struct filter *f)
{
	static const uint8_t icmp = IPPROTO_ICMPV6, type = ICMP6_TOO_BIG;

	rule(f);
	load_meta(f, NFT_META_L4PROTO);
	compare(f, NFT_CMP_EQ, &icmp, 1);
	load_packet(f, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1);
	compare(f, NFT_CMP_EQ, &type, 1);
	verdict(f, NF_ACCEPT);
}

static void drop_all(struct filter *f)
{
	rule(f);
	verdict(f, NF_DROP);
}

/* What policies open */

static void put_peer_set(struct filter *f, const char *name, bool v4)
{
	message(f, NFT_MSG_NEWSET, NLM_F_CREATE);
	mnl_attr_put_strz(f->h, NFTA_SET_TABLE, table);
	mnl_attr_put_strz(f->h, NFTA_SET_NAME, name);
	mnl_attr_put_u32(f->h, NFTA_SET_FLAGS, htonl(NFT_SET_INTERVAL));
	mnl_attr_put_u32(f->h, NFTA_SET_KEY_TYPE, htonl(v4 ? TYPE_IPADDR : TYPE_IP6ADDR));
	mnl_attr_put_u32(f->h, NFTA_SET_KEY_LEN, htonl(v4 ? 4 : 16));
	mnl_attr_put_u32(f->h, NFTA_SET_ID, htonl(f->batch.seq));
	message_end(f);
}

static void put_peer_sets(struct filter *f)
{
	put_peer_set(f, "peers_out", true);
	put_peer_set(f, "peers_in", true);
	put_peer_set(f, "peers_out6", false);
	put_peer_set(f, "peers_in6", false);
}

/* source: its source is looked for in the set, otherwise its destination. */
static void if_peer(struct filter *f, const char *set, const char *set6, bool source, bool v4)
{
	static const uint32_t at[2][2] = { { DADDR6, SADDR6 }, { DADDR, SADDR } };

	load_packet(f, NFT_PAYLOAD_NETWORK_HEADER, at[v4][source], v4 ? 4 : 16);
	expr(f, "lookup");
	mnl_attr_put_strz(f->h, NFTA_LOOKUP_SET, v4 ? set : set6);
	mnl_attr_put_u32(f->h, NFTA_LOOKUP_SREG, htonl(NFT_REG_1));
	expr_end(f);
}

/* Answers of those whom it may only reach, and to those who may only reach it. */
static void accept_answers(struct filter *f, const char *set, const char *set6, bool source,
			   bool v4)
{
	static const uint8_t tcp = IPPROTO_TCP;

	rule(f);
	if_peer(f, set, set6, source, v4);
	if_first_segment(f, NFT_CMP_NEQ);
	verdict(f, NF_ACCEPT);
	rule(f);
	if_peer(f, set, set6, source, v4);
	load_meta(f, NFT_META_L4PROTO);
	compare(f, NFT_CMP_NEQ, &tcp, 1);
	verdict(f, NF_ACCEPT);
}

/* To the addresses of sandboxes. */
static void reset_former_peers(struct filter *f, bool v4)
{
	static const uint8_t tcp = IPPROTO_TCP;
	const uint32_t head = htonl(v4 ? SANDBOX_NET4_HEAD : SANDBOX_NET6_HEAD);
	const uint32_t bits = htonl(~0u << (32 - (v4 ? SANDBOX_NET4_PREFIX : SANDBOX_NET6_PREFIX)));

	rule(f);
	load_packet(f, NFT_PAYLOAD_NETWORK_HEADER, v4 ? DADDR : DADDR6, sizeof(head));
	mask(f, &bits, sizeof(bits));
	compare(f, NFT_CMP_EQ, &head, sizeof(head));
	load_meta(f, NFT_META_L4PROTO);
	compare(f, NFT_CMP_EQ, &tcp, 1);
	expr(f, "reject");
	mnl_attr_put_u32(f->h, NFTA_REJECT_TYPE, htonl(NFT_REJECT_TCP_RST));
	expr_end(f);
	mnl_attr_nest_end(f->h, f->exprs);
	message_end(f);
}

static void put_peers_out(struct filter *f, bool v4)
{
	rule(f);
	if_peer(f, "peers_out", "peers_out6", false, v4);
	verdict(f, NF_ACCEPT);
	accept_answers(f, "peers_in", "peers_in6", false, v4);
	reset_former_peers(f, v4);
}

static void put_peers_in(struct filter *f, bool v4)
{
	rule(f);
	if_peer(f, "peers_in", "peers_in6", true, v4);
	verdict(f, NF_ACCEPT);
	accept_answers(f, "peers_out", "peers_out6", true, v4);
}

/* The chains */

/* The name server, and the outlet. */
static void accept_services(struct filter *f, const struct ip *gw, bool egress)
{
	static const struct {
		uint8_t protocol, port;
	} services[] = { { IPPROTO_UDP, NAMES }, { IPPROTO_TCP, NAMES }, { IPPROTO_TCP, OUTLET } };

	for (size_t i = 0; i < ARRAY_LEN(services) - !egress; i++) {
		rule(f);
		if_service(f, gw, services[i].protocol, services[i].port);
		verdict(f, NF_ACCEPT);
	}
}

static void put_out(struct filter *f, const struct netns_pair *p, bool egress)
{
	rule(f);
	if_address(f, true, NFT_CMP_NEQ, &p->addr);
	verdict(f, NF_DROP);
	if (!ip_is4(&p->addr))
		drop_other_headers(f);
	rule(f);
	if_address(f, false, NFT_CMP_EQ, &p->gw);
	if_first_segment(f, NFT_CMP_NEQ);
	verdict(f, NF_ACCEPT);
	if (ip_is4(&p->addr))
		accept_services(f, &p->gw, egress);
	if (egress)
		put_peers_out(f, ip_is4(&p->addr));
	if (egress)
		drop_reserved(f, false, ip_is4(&p->addr));
	else
		drop_all(f);
}

static void put_in(struct filter *f, const struct netns_pair *p, bool egress)
{
	rule(f);
	if_address(f, true, NFT_CMP_EQ, &p->gw);
	verdict(f, NF_ACCEPT);
	if (!egress) {
		drop_all(f);
		return;
	}
	if (!ip_is4(&p->addr)) {
		drop_other_headers(f);
		accept_too_big(f);
	}
	put_peers_in(f, ip_is4(&p->addr));
	drop_reserved(f, true, ip_is4(&p->addr));
	rule(f);
	if_first_segment(f, NFT_CMP_EQ);
	verdict(f, NF_DROP);
}

static void put_chains(struct filter *f, const struct netns_pair *pairs, bool ip6, bool egress)
{
	if (egress)
		put_reserved(f, ip6);
	if (ip6) {
		put_chain(f, "out6", NF_INET_NUMHOOKS);
		put_out(f, &pairs[1], egress);
		put_chain(f, "in6", NF_INET_NUMHOOKS);
		put_in(f, &pairs[1], egress);
	}
	put_chain(f, "out", NF_INET_LOCAL_OUT);
	begin_chain(f, NFT_META_OIF, ip6 ? "out6" : NULL);
	put_out(f, &pairs[0], egress);
	put_chain(f, "in", NF_INET_LOCAL_IN);
	begin_chain(f, NFT_META_IIF, ip6 ? "in6" : NULL);
	put_in(f, &pairs[0], egress);
}

struct err *netns_filter(const struct netns_pair *pairs, unsigned n_pairs, bool egress)
{
	struct filter f = { 0 };

	nft_begin(&f.batch, f.room);
	put_table(&f);
	put_peer_sets(&f);
	put_chains(&f, pairs, n_pairs > 1, egress);
	return nft_commit(&f.batch, "load the filter of a sandbox");
}
