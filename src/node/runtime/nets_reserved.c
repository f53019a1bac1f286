/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/mem.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/runtime/native_priv.h"

/*
 * Addresses that are kept for somebody who has no network now and will ask for just this one. The
 * number of such an address stays taken: by the network that has it, and by the reservation alone
 * before and after that.
 */
enum {
	ANY_STATE = (1 << NET_STATE_MAX_) - 1,
};

void nets_reserved_init(struct native *n)
{
	char bell[16];

	n->nets.reserved = xnew_n(bool, POOL_SIZE);
	instance_addr_text(n->spec.instance, POOL_BELL, bell);
	(void)native_net_reserve(n, bell, true); /* a smaller pool has none */
}

void nets_reserved_done(struct native *n)
{
	free(n->nets.reserved);
}

bool nets_reserved(const struct native *n, unsigned place)
{
	return n->nets.reserved[place];
}

bool nets_place_take(struct native *n, unsigned place, const char *ip)
{
	if (map_take(n->nets.held, ip))
		return true;
	if (nets_reserved(n, place))
		return !nets_find(n, ANY_STATE, place);
	return numbers_reserve(n->addresses, place);
}

void nets_place_put(struct native *n, unsigned place)
{
	if (!nets_reserved(n, place))
		numbers_put(n->addresses, place);
}

/* Others reach it now, and whoever waited for its address takes any. */
static void net_open(struct net *net)
{
	net_line_up(net);
	if (!net->shut)
		return;
	net->shut = false;
	if (net->state == NET_IN_USE)
		net_peers_taken(net);
}

/* What is made for anybody cannot be reserved any more: it may be given away in a moment. */
bool native_net_reserve(void *ctx, const char *ip, bool on)
{
	struct native *n = ctx;
	struct net *net;
	unsigned place;

	if (!instance_addr_place(n->spec.instance, ip, &place))
		return false;
	if (nets_reserved(n, place) == on)
		return true;
	net = nets_find(n, ANY_STATE, place);
	if (on && net && net->state != NET_IN_USE && net->state != NET_PUT)
		return false;
	if (on && !net && !map_take(n->nets.held, ip) && !numbers_reserve(n->addresses, place))
		return false;
	n->nets.reserved[place] = on;
	if (!on && !net)
		nets_place_put(n, place);
	if (!on && net)
		net_open(net);
	return true;
}
