/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ip.h"

/*
 * Route netlink, as much as the node needs: links, addresses, routes and neighbours of one network
 * namespace (that of the thread that opened the socket). Changes are collected and sent as one
 * batch.
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
void netlink_set_up(struct netlink *n, unsigned ifindex);
/* Up, but it asks nobody for anything: it gives itself no address of IPv6, looks for no neighbours
 * and joins no groups for its addresses. */
void netlink_set_up_quiet(struct netlink *n, unsigned ifindex);
/* The same, and IPv6 never gets it ready for anything but packets: then it has no route for
 * multicasts either, which would be one among those of all other links. forward: whether the host
 * passes on IPv4 packets that come in by it. */
void netlink_set_up_dormant(struct netlink *n, unsigned ifindex, bool forward);
void netlink_set_forwarding(struct netlink *n, unsigned ifindex, bool on);
/* Alone, without a network around it. */
void netlink_add_addr(struct netlink *n, unsigned ifindex, const struct ip *addr);
void netlink_del_addr(struct netlink *n, unsigned ifindex, const struct ip *addr);
void netlink_add_neigh(struct netlink *n, unsigned ifindex, const struct ip *addr,
		       const uint8_t *mac);

enum {
	NETLINK_MAIN = 254, /* the table of routes that an administrator sees */
};
struct netlink_route {
	struct ip dst;      /* says which family it is */
	uint8_t prefix;     /* as the family counts; 0: the default route */
	struct ip via, src; /* all zeros: none */
	unsigned ifindex;
	bool unreachable;
	unsigned metric; /* the route with the smallest counts; 0: what the kernel takes */
	uint8_t table;   /* when it is listed; 0: one without a small number */
};
void netlink_add_route(struct netlink *n, const struct netlink_route *r);
void netlink_del_route(struct netlink *n, const struct netlink_route *r);
/* Sends what was collected; the first refusal is the error, the rest is still done. */
must_use struct err *netlink_commit(struct netlink *n);

unsigned netlink_index(struct netlink *n, const char *name); /* 0: none */
/* Every route and address of both families. One that has several ways is told of once for each. */
must_use struct err *netlink_each_route(struct netlink *n,
					void (*fn)(void *arg, const struct netlink_route *r),
					void *arg);
