/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/reserved.h"

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

bool reserved_holds(uint32_t net, unsigned prefix)
{
	for (size_t i = 0; i < n_reserved_nets; i++) {
		const struct reserved_net *r = &reserved_nets[i];

		if (prefix >= r->prefix && !((net ^ r->net) >> (32 - r->prefix)))
			return true;
	}
	return false;
}
