/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Route netlink, as much as the node needs: links, addresses, routes and neighbours of one network
 * namespace (that of the thread that opened the socket). Changes are collected and sent as one
 * batch. IPv4 addresses are in network order.
 */
struct netlink;

must_use struct err *netlink_open(struct netlink **ret);
void netlink_free(struct netlink *n);
AUTOPTR(netlink)

struct netlink_veth {
	const char *name;      /* here */
	const char *peer_name; /* there */
	int peer_ns;
	const uint8_t *mac, *peer_mac;
};
void netlink_add_veth(struct netlink *n, const struct netlink_veth *v);
/* ipv6: it may give itself a link-local address. */
void netlink_set_up(struct netlink *n, unsigned ifindex, bool ipv6);
/* Whether the host passes on IPv4 packets that come in by it; up: without an IPv6 address too. */
void netlink_set_forwarding(struct netlink *n, unsigned ifindex, bool on);
void netlink_set_up_forwarding(struct netlink *n, unsigned ifindex, bool on);
void netlink_add_addr(struct netlink *n, unsigned ifindex, uint32_t addr, uint8_t prefix);
void netlink_del_addr(struct netlink *n, unsigned ifindex, uint32_t addr, uint8_t prefix);
void netlink_add_neigh(struct netlink *n, unsigned ifindex, uint32_t addr, const uint8_t *mac);

enum {
	NETLINK_MAIN = 254, /* the table of routes that an administrator sees */
};
struct netlink_route {
	uint32_t dst;
	uint8_t prefix; /* 0: the default route */
	uint32_t via, src;
	unsigned ifindex;
	bool unreachable;
	uint8_t table; /* when it is listed; 0: one without a small number */
};
void netlink_add_route(struct netlink *n, const struct netlink_route *r);
void netlink_del_route(struct netlink *n, const struct netlink_route *r);
/* Sends what was collected; the first refusal is the error, the rest is still done. */
must_use struct err *netlink_commit(struct netlink *n);

unsigned netlink_index(struct netlink *n, const char *name); /* 0: none */
/* Every IPv4 route and address: fn(dst, prefix). */
must_use struct err *netlink_each_route(struct netlink *n,
					void (*fn)(void *arg, const struct netlink_route *r),
					void *arg);
