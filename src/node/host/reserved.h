/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ip.h"

/*
 * The addresses that are no part of the public Internet: private networks, this host, the metadata
 * addresses of clouds, multicast, and of IPv6 what leads to addresses of IPv4. No sandbox reaches
 * any of them, and both packet filters, that of the host and that of each sandbox, are made from
 * these tables.
 */
struct reserved_net {
	uint32_t net; /* in the host's byte order; of IPv6 the first 32 bits, which are enough */
	unsigned prefix;
};
extern const struct reserved_net reserved_nets[];
extern const size_t n_reserved_nets;
extern const struct reserved_net reserved6_nets[];
extern const size_t n_reserved6_nets;
/* Whether all addresses of a network of IPv4 (in the host's byte order) are among them. */
bool reserved_holds(uint32_t net, unsigned prefix);
/* Of either family; the prefix is as the family counts. */
bool reserved_holds_ip(const struct ip *net, unsigned prefix);
