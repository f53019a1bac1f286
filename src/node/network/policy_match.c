/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "node/network/policy_priv.h"

/* What policies select by: labels and blocks of addresses. */

static bool has_value(const struct json *values, const char *value)
{
	json_each(it, values)
		if (value && str_eq(json_str(it.val), value))
			return true;
	return false;
}

static bool expression_holds(const struct json *e, const struct json *labels, bool otherwise)
{
	const char *op = json_get_str(e, "operator");
	const char *value = json_get_str(labels, str_or(json_get_str(e, "key"), ""));

	if (str_eq(op, "In"))
		return has_value(json_get(e, "values"), value);
	if (str_eq(op, "NotIn"))
		return !has_value(json_get(e, "values"), value);
	if (str_eq(op, "Exists"))
		return value;
	if (str_eq(op, "DoesNotExist"))
		return !value;
	return otherwise;
}

bool policy_selects(const struct json *selector, const struct json *labels, bool otherwise)
{
	json_each(it, json_get(selector, "matchLabels"))
		if (!str_eq(json_str(it.val), json_get_str(labels, it.key)))
			return false;
	json_each(it, json_get(selector, "matchExpressions"))
		if (!expression_holds(it.val, labels, otherwise))
			return false;
	return true;
}

bool policy_read_cidr(const char *text, uint32_t *ret_net, unsigned *ret_prefix)
{
	const char *slash = text ? strchr(text, '/') : NULL;
	char addr[INET_ADDRSTRLEN];
	struct in_addr in;
	uint64_t prefix;
	struct err *e;

	if (!slash || (size_t)(slash - text) >= sizeof(addr))
		return false;
	memcpy(addr, text, (size_t)(slash - text));
	addr[slash - text] = 0;
	if (inet_pton(AF_INET, addr, &in) != 1)
		return false;
	e = parse_uint(slash + 1, 32, &prefix);
	if (e) {
		err_free(e);
		return false;
	}
	*ret_prefix = (unsigned)prefix;
	*ret_net = prefix ? ntohl(in.s_addr) & 0xffffffffu << (32 - prefix) : 0;
	return true;
}

static uint32_t last_of(uint32_t net, unsigned prefix)
{
	return prefix < 32 ? net | 0xffffffffu >> prefix : net;
}

void policy_ranges_add(struct policy_ranges *r, struct arena *a, uint32_t from, uint32_t to)
{
	if (r->n == r->cap) {
		struct policy_range *list;

		r->cap = r->cap ? 2 * r->cap : 4;
		list = arena_alloc(a, r->cap * sizeof(*list));
		if (r->n)
			memcpy(list, r->list, r->n * sizeof(*list));
		r->list = list;
	}
	r->list[r->n++] = (struct policy_range){ from, to };
}

static int by_start(const void *a, const void *b)
{
	const struct policy_range *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

void policy_ranges_merge(struct policy_ranges *r)
{
	size_t n = 0;

	if (!r->n)
		return;
	qsort(r->list, r->n, sizeof(*r->list), by_start);
	for (size_t i = 1; i < r->n; i++) {
		struct policy_range *last = &r->list[n];

		if (r->list[i].from <= last->to || r->list[i].from == last->to + 1) {
			if (r->list[i].to > last->to)
				last->to = r->list[i].to;
		} else {
			r->list[++n] = r->list[i];
		}
	}
	r->n = n + 1;
}

bool policy_ranges_hold(const struct policy_range *list, size_t n, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].from <= from && to <= list[i].to)
			return true;
	return false;
}

/* An exception that cannot be read, or is of IPv6, takes the whole block with it: it allows too
 * little rather than too much. */
bool policy_block(struct policy_ranges *ret, struct arena *a, const struct json *block)
{
	struct policy_ranges cut = { 0 };
	const char *cidr = json_get_str(block, "cidr");
	uint64_t at, end;
	uint32_t net;
	unsigned prefix;

	if (cidr && strchr(cidr, ':'))
		return true;
	if (!policy_read_cidr(cidr, &net, &prefix))
		return false;
	at = net;
	end = last_of(net, prefix);
	json_each(it, json_get(block, "except")) {
		if (!policy_read_cidr(json_str(it.val), &net, &prefix))
			return false;
		policy_ranges_add(&cut, a, net, last_of(net, prefix));
	}
	policy_ranges_merge(&cut);
	for (size_t i = 0; i < cut.n && at <= end; i++) {
		if (cut.list[i].to < at)
			continue;
		if (cut.list[i].from > end)
			break;
		if (cut.list[i].from > at)
			policy_ranges_add(ret, a, (uint32_t)at, cut.list[i].from - 1);
		at = (uint64_t)cut.list[i].to + 1;
	}
	if (at <= end)
		policy_ranges_add(ret, a, (uint32_t)at, (uint32_t)end);
	return true;
}
