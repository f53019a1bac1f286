/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/reserved.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/mem.h"

#define NET(a, b, c, prefix) { (uint32_t)(a) << 24 | (b) << 16 | (c) << 8, (prefix) }

const struct reserved_net reserved_nets[] = {
	NET(0, 0, 0, 8),
	NET(10, 0, 0, 8),
	NET(100, 64, 0, 10),
	NET(127, 0, 0, 8),
	{ 168u << 24 | 63 << 16 | 129 << 8 | 16, 32 }, /* where Azure tells a machine its secrets */
	NET(169, 254, 0, 16),
	NET(172, 16, 0, 12),
	NET(192, 0, 0, 24), /* some clouds have their metadata here */
	NET(192, 0, 2, 24),
	NET(192, 88, 99, 24),
	NET(192, 168, 0, 16),
	NET(198, 18, 0, 15),
	NET(224, 0, 0, 3), /* multicast, and what nobody may use */
};
const size_t n_reserved_nets = ARRAY_LEN(reserved_nets);

/* All but 2000::/3, and of that what is no ordinary address: among the protocols of 2001::/23 is
 * Teredo, and 2002::/16 is 6to4, both of which lead to any address of IPv4. */
const struct reserved_net reserved6_nets[] = {
	{ 0, 3 },           { 0x40000000, 2 },  { 0x80000000, 1 },  { 0x20010000, 23 },
	{ 0x20010db8, 32 }, { 0x20020000, 16 }, { 0x3fff0000, 20 },
};
const size_t n_reserved6_nets = ARRAY_LEN(reserved6_nets);

static bool holds(const struct reserved_net *r, size_t n, uint32_t first, unsigned prefix)
{
	for (size_t i = 0; i < n; i++)
		if (prefix >= r[i].prefix && !((first ^ r[i].net) >> (32 - r[i].prefix)))
			return true;
	return false;
}

bool reserved_holds(uint32_t net, unsigned prefix)
{
	return holds(reserved_nets, n_reserved_nets, net, prefix);
}

bool reserved_holds_ip(const struct ip *net, unsigned prefix)
{
	uint32_t first;

	if (ip_is4(net))
		return reserved_holds(ip_to4(net), prefix);
	memcpy(&first, net->octet, sizeof(first));
	return holds(reserved6_nets, n_reserved6_nets, ntohl(first), prefix);
}
