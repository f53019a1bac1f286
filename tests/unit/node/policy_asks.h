/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/network/policy.h"

struct policy_packet { /* the first of a connection */
	struct ip from, to;
	uint8_t protocol;
	uint16_t port;
};

/* Whether a plan lets the packet pass. The node never asks: it hands the plan to the packet filter,
 * whose rules test_policy_table.py tries with real packets. */
bool policy_allows(const struct policy_plan *p, const struct policy_packet *packet);
