/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/file.h"
#include "base/wall.h"
#include "node/host/netlink.h"
#include "node/launch/launch_priv.h"

/*
 * A network namespace for one Pod, made by the launcher, which enters it for a moment:
 *
 *   host: route addr/32 dev cayXXXXXn   <── veth ──>   eth0 addr/32, default via gw: sandbox
 *
 * There is no bridge and no ARP: both ends know each other's link address from the start. The
 * namespace lives as long as something holds it; the veth and the route end with it.
 */
enum {
	PROC_NETWORKS = 16, /* set up or checked through one proc */
};

static const uint8_t host_mac[6] = { 0x02, 0xca, 0x79, 0, 0, 1 };

static void mac_of(uint32_t addr, uint8_t ret[6])
{
	ret[0] = 0x02;
	ret[1] = 0xca;
	memcpy(ret + 2, &addr, 4);
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

/* lo is 1 in a new namespace. Root in a sandbox owns no network namespace: what it could not do
 * (low ports, ping) is allowed here; IPv6 stays on lo. */
static struct err *configure_inside(struct launcher *l, struct netlink *nl, uint32_t addr,
				    uint32_t gw)
{
	unsigned eth0 = netlink_index(nl, "eth0");
	struct netlink_route out = { .via = gw, .ifindex = eth0 };
	struct err *e;

	netlink_set_up(nl, 1, true);
	netlink_set_up(nl, eth0, false);
	netlink_add_addr(nl, eth0, addr, 32);
	netlink_add_neigh(nl, eth0, gw, host_mac);
	netlink_add_route(nl, &out);
	e = netlink_commit(nl);
	if (!e)
		e = set(l, "ipv4/ip_unprivileged_port_start", "0");
	if (!e)
		e = set(l, "ipv4/ping_group_range", "0 2147483647");
	return e;
}

struct link {
	const char *name; /* on the host's side */
	uint32_t addr, gw;
	bool egress;
};

/* A link with IPv6 would have a route among those of all the others, which the kernel goes through
 * one by one. */
static struct err *configure_host(struct launcher *l, const struct link *k)
{
	unsigned index = netlink_index(l->nl, k->name);
	struct netlink_route to = { .dst = k->addr, .prefix = 32, .src = k->gw, .ifindex = index };
	char name[64];
	uint8_t mac[6];
	struct err *e;

	(void)snprintf(name, sizeof(name), "ipv6/conf/%s/disable_ipv6", k->name);
	err_free(set(l, name, "1")); /* a kernel without IPv6 has nothing to switch off */
	mac_of(k->addr, mac);
	netlink_set_up_forwarding(l->nl, index, k->egress); /* whatever the default for new links */
	netlink_add_neigh(l->nl, index, k->addr, mac);
	netlink_add_route(l->nl, &to);
	e = netlink_commit(l->nl);
	return e ? err_wrap(e, "configure link %s", k->name) : NULL;
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
	err_free(set(l, "ipv6/conf/default/disable_ipv6", "1"));
	mac_of(k->addr, mac);
	netlink_add_veth(l->nl, &veth);
	e = netlink_commit(l->nl);
	if (e)
		return err_wrap(e, "create link %s", k->name);
	e = netlink_open(&inside);
	if (!e)
		e = configure_inside(l, inside, k->addr, k->gw);
	if (!e && wall_stands("filter-inner"))
		e = netns_filter(k->addr, k->gw, k->egress);
	if (e)
		return err_wrap(e, "configure link %s", k->name);
	*ret = take_fd(ns);
	return NULL;
}

struct err *netns_make(struct launcher *l, const struct message_net *spec, int *ret)
{
	struct in_addr addr, gw;
	struct link k = { .name = spec->name, .egress = spec->egress };
	autoclose ns = -1;
	struct err *e;

	if (inet_pton(AF_INET, spec->addr, &addr) != 1 ||
	    inet_pton(AF_INET, spec->gateway, &gw) != 1)
		return err_new(ERR_MALFORMED, "\"%s\" or \"%s\" is not an IPv4 address", spec->addr,
			       spec->gateway);
	k.addr = addr.s_addr;
	k.gw = gw.s_addr;
	e = netns_renew_proc(l);
	if (e)
		return e;
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(errno, "create a network namespace");
	e = make_inside(l, &k, &ns);
	if (setns(l->host_ns, CLONE_NEWNET) < 0)
		_exit(1); /* never serve from the wrong network */
	if (!e)
		e = configure_host(l, &k);
	if (e)
		return e;
	*ret = take_fd(ns);
	return NULL;
}
