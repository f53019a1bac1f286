/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The IPv4 addresses that are no part of the public Internet: private networks, this host, the
 * metadata address of clouds, multicast. No sandbox reaches any of them, and both packet filters,
 * that of the host and that of each sandbox, are made from this table.
 */
struct reserved_net {
	uint32_t net; /* in the host's byte order */
	unsigned prefix;
};
extern const struct reserved_net reserved_nets[];
extern const size_t n_reserved_nets;
/* Whether all addresses of a network (in the host's byte order) are among them. */
bool reserved_holds(uint32_t net, unsigned prefix);
