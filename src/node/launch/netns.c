/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/host/netlink.h"
#include "node/launch/launch_priv.h"

/*
 * A network namespace for one Pod, made by the launcher, which enters it for a moment:
 *
 *   host: route addr/32 dev cayXXXXXn   <── veth ──>   eth0 addr/32, default via gw: sandbox
 *
 * and the same once more with addr/128, unless the host has no IPv6. There is no bridge, no ARP and
 * no neighbour discovery: both ends know each other's link address from the start, and neither has
 * an address of IPv6 that it gave itself. The namespace lives as long as something holds it; the
 * veth and the routes end with it.
 */
enum {
	PROC_NETWORKS = 16, /* set up or checked through one proc */
};

static const uint8_t host_mac[6] = { 0x02, 0xca, 0x79, 0, 0, 1 };

static void mac_of(const struct ip *addr, uint8_t ret[6])
{
	ret[0] = 0x02;
	ret[1] = 0xca;
	memcpy(ret + 2, addr->octet + IP4_BITS / 8, 4);
}

/*
 * Each namespace has settings of its own under the same names, and in one proc all of these are in
 * the same hash chains, for as long as the namespaces live: with a thousand of them, the lookups
 * would take longer than everything else together. So a new proc is taken now and then.
 */
struct err *netns_renew_proc(struct launcher *l)
{
	autoclose fs = -1;

	if (l->proc >= 0 && l->n_proc++ < PROC_NETWORKS)
		return NULL;
	if (l->proc >= 0)
		(void)close(take_fd(l->proc));
	l->n_proc = 1;
	fs = fsopen("proc", FSOPEN_CLOEXEC);
	if (fs >= 0 && !fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		l->proc = fsmount(fs, FSMOUNT_CLOEXEC,
				  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	return l->proc < 0 ? err_sys(errno, "mount a proc for networks") : NULL;
}

/* Of the namespace that we are in. */
static struct err *set(const struct launcher *l, const char *name, const char *value)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "sys/net/%s", name);
	return file_write(l->proc, path, value);
}

struct link {
	const char *name;        /* on the host's side */
	struct netns_pair ip[2]; /* of IPv4, and of IPv6 */
	unsigned n_ip;
	bool egress;
};

/* lo is 1 in a new namespace. Root in a sandbox owns no network namespace: what it could not do
 * (low ports, ping) is allowed here. */
static struct err *configure_inside(struct launcher *l, struct netlink *nl, const struct link *k)
{
	unsigned eth0 = netlink_index(nl, "eth0");
	struct err *e;

	netlink_set_up(nl, 1);
	netlink_set_up_quiet(nl, eth0);
	for (unsigned n = 0; n < k->n_ip; n++) {
		const struct netns_pair *p = &k->ip[n];
		struct netlink_route out = { .via = p->gw, .ifindex = eth0 };

		if (ip_is4(&p->gw))
			out.dst = ip_from4(0);
		netlink_add_addr(nl, eth0, &p->addr);
		netlink_add_neigh(nl, eth0, &p->gw, host_mac);
		netlink_add_route(nl, &out);
	}
	e = netlink_commit(nl);
	if (!e)
		e = set(l, "ipv4/ip_unprivileged_port_start", "0");
	if (!e)
		e = set(l, "ipv4/ping_group_range", "0 2147483647");
	return e;
}

/*
 * The switch for the whole host is not ours to touch: where a kernel has none for a single link, it
 * forwards IPv6 for sandboxes if it does so for everybody.
 */
static void forward_ip6(struct launcher *l, const struct link *k)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "ipv6/conf/%s/force_forwarding", k->name);
	err_free(set(l, name, k->egress ? "1" : "0"));
}

static struct err *configure_host(struct launcher *l, const struct link *k, unsigned n_ip)
{
	unsigned index = netlink_index(l->nl, k->name);
	uint8_t mac[6];
	struct err *e;

	mac_of(&k->ip[0].addr, mac);
	netlink_set_up_dormant(l->nl, index, k->egress); /* whatever the default for new links */
	for (unsigned n = 0; n < n_ip; n++) {
		const struct netns_pair *p = &k->ip[n];
		struct netlink_route to = { .dst = p->addr,
					    .prefix = ip_is4(&p->addr) ? 32 : 128,
					    .src = p->gw,
					    .ifindex = index };

		netlink_add_neigh(l->nl, index, &p->addr, mac);
		netlink_add_route(l->nl, &to);
	}
	e = netlink_commit(l->nl);
	if (e)
		return err_wrap(e, "configure link %s", k->name);
	if (n_ip > 1)
		forward_ip6(l, k);
	return NULL;
}

static struct err *make_inside(struct launcher *l, const struct link *k, int *ret)
{
	autoclose ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	autoptr(netlink) inside = NULL;
	uint8_t mac[6];
	struct netlink_veth veth = { .name = k->name,
				     .peer_name = "eth0",
				     .peer_ns = ns,
				     .mac = host_mac,
				     .peer_mac = mac };
	struct err *e;

	if (ns < 0)
		return err_sys(errno, "open the network namespace");
	/* For eth0, before there is one: it never has what would have to be taken away again. A
	 * kernel without IPv6 has nothing to switch off. */
	if (k->n_ip > 1)
		err_free(set(l, "ipv6/conf/default/accept_ra", "0"));
	else
		err_free(set(l, "ipv6/conf/default/disable_ipv6", "1"));
	mac_of(&k->ip[0].addr, mac);
	netlink_add_veth(l->nl, &veth);
	e = netlink_commit(l->nl);
	if (e)
		return err_wrap(e, "create link %s", k->name);
	e = netlink_open(&inside);
	if (!e)
		e = configure_inside(l, inside, k);
	if (!e && wall_stands("filter-inner"))
		e = netns_filter(k->ip, k->n_ip, k->egress);
	if (e)
		return err_wrap(e, "configure link %s", k->name);
	*ret = take_fd(ns);
	return NULL;
}

static struct err *read_spec(const struct message_net *spec, struct link *ret)
{
	*ret = (struct link){ .name = spec->name, .egress = spec->egress, .n_ip = 1 };
	if (!ip_parse(spec->addr, &ret->ip[0].addr) || !ip_is4(&ret->ip[0].addr) ||
	    !ip_parse(spec->gateway, &ret->ip[0].gw) || !ip_is4(&ret->ip[0].gw))
		return err_new(ERR_MALFORMED, "\"%s\" or \"%s\" is not an IPv4 address", spec->addr,
			       spec->gateway);
	if (str_empty(spec->addr6))
		return NULL;
	if (!ip_parse(spec->addr6, &ret->ip[1].addr) || ip_is4(&ret->ip[1].addr) ||
	    !ip_parse(spec->gateway6, &ret->ip[1].gw) || ip_is4(&ret->ip[1].gw))
		return err_new(ERR_MALFORMED, "\"%s\" or \"%s\" is not an IPv6 address",
			       spec->addr6, spec->gateway6);
	ret->n_ip = 2;
	return NULL;
}

struct err *netns_make(struct launcher *l, const struct message_net *spec, int *ret)
{
	autoclose ns = -1;
	struct link k;
	struct err *e = read_spec(spec, &k);

	if (!e)
		e = netns_renew_proc(l);
	if (e)
		return e;
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(errno, "create a network namespace");
	e = make_inside(l, &k, &ns);
	if (setns(l->host_ns, CLONE_NEWNET) < 0)
		_exit(1); /* never serve from the wrong network */
	if (!e)
		e = configure_host(l, &k, k.n_ip);
	if (e && ns >= 0 && k.n_ip > 1) {
		err_free(e); /* somebody may have switched IPv6 off since we started */
		e = configure_host(l, &k, 1);
	}
	if (e)
		return e;
	*ret = take_fd(ns);
	return NULL;
}
