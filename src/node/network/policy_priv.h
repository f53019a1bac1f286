/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/network/policy.h"

struct arena;
struct json;

/* A LabelSelector; an empty one matches everything. An operator that is not known: otherwise. */
bool policy_selects(const struct json *selector, const struct json *labels, bool otherwise);

/* The addresses of an ipBlock, added to ret; those of IPv6 are none. False: it cannot be read. */
struct policy_ranges {
	struct policy_range *list;
	size_t n, cap;
};
bool policy_block(struct policy_ranges *ret, struct arena *a, const struct json *block);
void policy_ranges_add(struct policy_ranges *r, struct arena *a, uint32_t from, uint32_t to);
void policy_ranges_merge(struct policy_ranges *r); /* in order, apart from each other */
bool policy_ranges_hold(const struct policy_range *list, size_t n, uint32_t from, uint32_t to);
bool policy_read_cidr(const char *text, uint32_t *ret_net, unsigned *ret_prefix);
