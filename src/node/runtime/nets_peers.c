/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "node/host/instance.h"
#include "node/runtime/native_priv.h"

/*
 * What policies and Services open in the packet filters of networks (launch/netns_peers.c). It is
 * said by address, before or after the network is there, and told to the launcher when both are so.
 * Nothing is told to a network that is as it was made.
 *
 * Whoever takes a network at an address that is reserved for him is not reached by others until the
 * reservation ends: their packets are dropped, and come again, instead of being refused by somebody
 * who is still starting.
 *
 * A network from before the daemon's start may have anything in its filter. It stays until all
 * policies are known, or connections would end that they allow.
 */
struct peers {
	char *out, *in;
};

static void peers_free(void *arg)
{
	struct peers *p = arg;

	free(p->out);
	free(p->in);
	free(p);
}

void nets_peers_init(struct native *n)
{
	n->nets.peers = map_new(peers_free);
	list_init(&n->nets.peers_due);
}

void nets_peers_done(struct native *n)
{
	map_free(n->nets.peers);
}

static void is_due(struct net *net)
{
	net->peers_asked = false;
	if (list_empty(&net->peers_on))
		list_add_tail(&net->native->nets.peers_due, &net->peers_on);
}

void net_peers_taken(struct net *net)
{
	const struct nets *all = &net->native->nets;

	if (!map_has(all->peers, net->face.ip) && (!all->peers_known || net->confined))
		return;
	is_due(net);
	nets_fill(net->native);
}

void native_set_peers(struct runtime *r, const char *ip, const char *out, const char *in)
{
	struct native *n = r->ctx;
	struct peers *p = xnew(struct peers);
	struct net *net;
	unsigned place;

	p->out = xstrdup(out);
	p->in = xstrdup(in);
	if (*out || *in) {
		map_put(n->nets.peers, ip, p);
	} else {
		(void)map_del(n->nets.peers, ip);
		peers_free(p);
	}
	if (!instance_addr_place(n->spec.instance, ip, &place))
		return;
	net = nets_find(n, B(NET_IN_USE), place);
	if (!net)
		return;
	is_due(net);
	nets_fill(n);
}

void native_peers_known(struct runtime *r)
{
	struct native *n = r->ctx;
	struct net *net;

	if (n->nets.peers_known)
		return;
	n->nets.peers_known = true;
	list_each(net, &n->nets.in[NET_IN_USE], on)
		if (!net->confined)
			is_due(net);
	nets_fill(n);
}

bool nets_peers_next(struct native *n)
{
	static const struct peers none = { (char *)(uintptr_t)"", (char *)(uintptr_t)"" };
	const struct peers *p;
	struct net *net;
	char name[16];

	if (list_empty(&n->nets.peers_due))
		return false;
	net = list_first(&n->nets.peers_due, struct net, peers_on);
	list_del(&net->peers_on);
	p = map_get(n->nets.peers, net->face.ip);
	if (!p)
		p = &none;
	net->opened |= p != &none;
	net->peers_asked = true;
	instance_ifname(n->spec.instance, net->place, name);
	launcher_ask(&n->launchers[LAUNCHER_NETS],
		     &(struct message){ .type = MESSAGE_NET_PEERS,
					.peers = { name, p->out, net->shut ? "" : p->in },
					.fds = { net->fd },
					.n_fds = 1 });
	return true;
}

void nets_peered(struct native *n, const char *name)
{
	struct net *net = nets_find_named(n, B(NET_IN_USE), name);

	if (net)
		net->peers_asked = false;
}

/* One that an older program made has no sets, and is shut. */
void nets_not_peered(struct native *n, const struct message_refused *r)
{
	nets_peered(n, r->name);
	log_warn("cannot update a sandbox's own packet filter, keeping its old rules; the host's "
		 "filter is up to date",
		 KV("link", r->name), KV("err", r->text));
}

void nets_peers_launcher_lost(struct native *n)
{
	struct net *net;

	list_each(net, &n->nets.in[NET_IN_USE], on)
		if (net->peers_asked)
			is_due(net);
}
