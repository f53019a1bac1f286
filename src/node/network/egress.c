/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netconf.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "loop/jobs.h"
#include "loop/loop.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "node/host/reserved.h"

/*
 * A message about a route or about forwarding only wakes us; what decides is what a job finds then.
 *
 *   message ── a pause, as they come in crowds ──> find and note (job) ── the same: switch on (job)
 *                                     other links: load the filter ── egress_ready() ──> switch on
 */
enum {
	PAUSE_MS = 50,
	RECEIVE = 16 * 1024,
	BUDGET = 64, /* messages a turn */
};

struct egress {
	struct egress_spec spec;
	struct uplinks claimed;
	int fd;
	struct watch *watch;
	struct timer *timer;
	struct jobs jobs;
	bool busy, again;
	bool told; /* that there is no way out */
};

struct look {
	struct egress *g;
	struct uplinks found, claimed;
	struct err *e;
};

static bool same(const struct uplinks *a, const struct uplinks *b)
{
	bool eq = a->n == b->n;

	for (unsigned n = 0; n < a->n && eq; n++)
		eq = uplinks_have(b, a->name[n]);
	return eq;
}

/* A link of an earlier run may go while we look: then there is nothing to set. */
static struct err *set_link(struct netlink *nl, unsigned ifindex, bool on)
{
	struct err *e;

	netlink_set_forwarding(nl, ifindex, on);
	e = netlink_commit(nl);
	if (!e || err_errno(e) != ENODEV)
		return e;
	err_free(e);
	return NULL;
}

struct err *egress_set_links(const struct instance *i, struct netlink *nl, bool on)
{
	struct if_nameindex *list = if_nameindex();
	struct err *e = NULL;
	unsigned place;

	for (struct if_nameindex *l = list; l && l->if_index && !e; l++)
		if (instance_owns_ifname(i, l->if_name, &place))
			e = set_link(nl, l->if_index, on);
	if (list)
		if_freenameindex(list);
	return e;
}

static struct err *find(const struct instance *i, struct uplinks *ret_found,
			struct uplinks *ret_claimed)
{
	autoptr(netlink) nl = NULL;
	struct err *e = netlink_open(&nl);

	if (!e)
		e = uplinks_find(nl, ret_found);
	return e ? e : uplinks_claim(i, ret_found, ret_claimed);
}

static void tell_if_none(struct egress *g, const struct uplinks *found)
{
	if (!found->n && !g->told)
		log_warn("this host has no route to the Internet, going on; sandboxes have a way "
			 "out when there is one");
	g->told = !found->n;
}

static void look_work(void *arg)
{
	struct look *k = arg;
	autoptr(netlink) nl = NULL;

	k->e = find(k->g->spec.instance, &k->found, &k->claimed);
	if (!k->e)
		k->e = netlink_open(&nl);
	/* Whoever switches the whole host off switches every link off with it. One that goes
	 * meanwhile needs nothing. */
	if (!k->e)
		err_free(egress_set_links(k->g->spec.instance, nl, true));
}

static void switch_work(void *arg)
{
	struct look *k = arg;

	k->e = uplinks_switch_on(&k->claimed);
}

static void start_look(struct egress *g);

static void end(struct look *k)
{
	struct egress *g = k->g;

	if (k->e)
		log_warn("the way out of sandboxes could not be set up, going on without; it is "
			 "tried again when a route changes",
			 KV("err", k->e));
	err_free(k->e);
	free(k);
	g->busy = false;
	if (g->again)
		start_look(g);
}

static void switch_done(void *arg)
{
	end(arg);
}

static void start_switch(struct egress *g)
{
	struct look *k = xnew(struct look);

	k->g = g;
	k->claimed = g->claimed;
	jobs_run(&g->jobs, switch_work, switch_done, k);
}

static void look_done(void *arg)
{
	struct look *k = arg;
	struct egress *g = k->g;
	bool other = !same(&k->claimed, &g->claimed);

	if (k->e) {
		end(k);
		return;
	}
	tell_if_none(g, &k->found);
	g->claimed = k->claimed;
	free(k);
	if (other)
		g->spec.load(g->spec.arg, &g->claimed);
	else
		start_switch(g);
}

/* One at a time, from the finding to the switching. */
static void start_look(struct egress *g)
{
	struct look *k;

	g->again = g->busy;
	if (g->busy)
		return;
	g->busy = true;
	k = xnew(struct look);
	k->g = g;
	jobs_run(&g->jobs, look_work, look_done, k);
}

void egress_ready(struct egress *g)
{
	start_switch(g);
}

static void on_pause_over(void *arg)
{
	start_look(arg);
}

/* The routes to sandboxes come and go all the time. */
static bool route_matters(const struct nlmsghdr *h)
{
	const struct rtmsg *m = mnl_nlmsg_get_payload(h);
	const struct nlattr *a;
	struct ip dst = ip_from4(0);

	mnl_attr_for_each(a, h, sizeof(*m)) if (mnl_attr_get_type(a) == RTA_DST &&
						mnl_attr_validate(a, MNL_TYPE_U32) >= 0) dst =
		ip_from4(ntohl(mnl_attr_get_u32(a)));
	return m->rtm_family == AF_INET && m->rtm_table == RT_TABLE_MAIN &&
	       !reserved_holds_ip(&dst, m->rtm_dst_len);
}

/* So do their links, and each brings settings with it. */
static bool setting_matters(const struct egress *g, const struct nlmsghdr *h)
{
	const struct nlattr *a;
	int index = 0;
	bool forwarding = false;

	mnl_attr_for_each(a, h, sizeof(struct netconfmsg))
	{
		if (mnl_attr_get_type(a) == NETCONFA_IFINDEX &&
		    mnl_attr_validate(a, MNL_TYPE_U32) >= 0)
			index = (int)mnl_attr_get_u32(a);
		forwarding |= mnl_attr_get_type(a) == NETCONFA_FORWARDING;
	}
	if (index == NETCONFA_IFINDEX_ALL)
		return forwarding;
	for (unsigned n = 0; n < g->claimed.n; n++)
		if (forwarding && (unsigned)index == if_nametoindex(g->claimed.name[n]))
			return true;
	return false;
}

static bool matters(const struct egress *g, const struct nlmsghdr *h)
{
	if (h->nlmsg_type == RTM_NEWROUTE || h->nlmsg_type == RTM_DELROUTE)
		return route_matters(h);
	return h->nlmsg_type == RTM_NEWNETCONF && setting_matters(g, h);
}

static void on_message(void *arg, unused unsigned ready)
{
	_Alignas(8) char room[RECEIVE];
	struct egress *g = arg;
	bool changed = false;

	for (int i = 0; i < BUDGET; i++) {
		const struct nlmsghdr *h = (const void *)room;
		ssize_t n = recv(g->fd, room, sizeof(room), MSG_DONTWAIT);
		int left = (int)n;

		changed |= n < 0 && errno == ENOBUFS; /* one that matters may be lost */
		if (n <= 0)
			break;
		for (; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left))
			changed |= matters(g, h);
	}
	if (changed && !timer_armed(g->timer))
		timer_set(g->timer, PAUSE_MS);
}

static struct err *subscribe(struct egress *g)
{
	static const int groups[] = { RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV4_NETCONF };
	const struct sockaddr_nl any = { .nl_family = AF_NETLINK };
	bool good;

	g->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	good = g->fd >= 0 && !bind(g->fd, (const struct sockaddr *)&any, sizeof(any));
	for (size_t i = 0; i < ARRAY_LEN(groups) && good; i++)
		good = !setsockopt(g->fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i],
				   sizeof(groups[i]));
	return good ? NULL : err_sys(errno, "follow changes of routes");
}

struct err *egress_open(const struct egress_spec *spec, struct egress **ret)
{
	autoptr(egress) g = xnew(struct egress);
	struct uplinks found = { 0 };
	struct err *e;

	g->spec = *spec;
	g->fd = -1;
	g->busy = true; /* until egress_ready() */
	jobs_init(&g->jobs, spec->loop, NULL, NULL);
	g->timer = timer_new(spec->loop, on_pause_over, g);
	e = subscribe(g); /* first: what changes right after is told */
	if (!e)
		e = find(spec->instance, &found, &g->claimed);
	if (!e)
		e = egress_set_links(spec->instance, spec->nl, true);
	if (e)
		return e;
	tell_if_none(g, &found);
	g->watch = watch_new(spec->loop, g->fd, on_message, g);
	watch_want(g->watch, WATCH_READ);
	*ret = take(g);
	return NULL;
}

const struct uplinks *egress_uplinks(const struct egress *g)
{
	return &g->claimed;
}

void egress_free(struct egress *g)
{
	if (!g)
		return;
	watch_free(g->watch);
	jobs_wait(&g->jobs);
	timer_free(g->timer);
	if (g->fd >= 0)
		(void)close(g->fd);
	free(g);
}
