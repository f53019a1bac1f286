/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/buf.h"

/*
 * A batch is sent in datagrams of several messages, each answered with an acknowledgement that
 * carries its sequence number.
 */
enum {
	MESSAGE_MAX = 1024,
	RECEIVE = 32 * 1024,
	PIECE = 64, /* messages of a datagram: the answers to a few hundred overflow the socket */
};

struct netlink {
	struct mnl_socket *sock;
	struct buf batch;
	unsigned seq;
	char *room; /* RECEIVE bytes */
};

struct err *netlink_open(struct netlink **ret)
{
	autoptr(netlink) n = xnew(struct netlink);

	n->sock = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!n->sock || mnl_socket_bind(n->sock, 0, MNL_SOCKET_AUTOPID) < 0)
		return err_sys(errno, "open a netlink socket");
	n->room = xmalloc(RECEIVE);
	*ret = take(n);
	return NULL;
}

void netlink_free(struct netlink *n)
{
	if (!n)
		return;
	if (n->sock)
		(void)mnl_socket_close(n->sock);
	buf_done(&n->batch);
	free(n->room);
	free(n);
}

static struct nlmsghdr *begin(char *at, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(at);

	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	return h;
}

static void add(struct netlink *n, struct nlmsghdr *h)
{
	h->nlmsg_seq = ++n->seq;
	buf_add(&n->batch, h, h->nlmsg_len);
}

/* The kernel would make one for each processor, and each has a directory of files in sysfs. */
static void one_queue(struct nlmsghdr *h)
{
	mnl_attr_put_u32(h, IFLA_NUM_TX_QUEUES, 1);
	mnl_attr_put_u32(h, IFLA_NUM_RX_QUEUES, 1);
}

void netlink_add_veth(struct netlink *n, const struct netlink_veth *v)
{
	_Alignas(8) char room[MESSAGE_MAX];
	struct nlmsghdr *h = begin(room, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	struct ifinfomsg *i = mnl_nlmsg_put_extra_header(h, sizeof(*i)), *p;
	struct nlattr *info, *data, *peer;

	i->ifi_flags = 0; /* netlink_set_up() follows, once its IPv6 address is switched off */
	mnl_attr_put_strz(h, IFLA_IFNAME, v->name);
	mnl_attr_put(h, IFLA_ADDRESS, 6, v->mac);
	one_queue(h);
	info = mnl_attr_nest_start(h, IFLA_LINKINFO);
	mnl_attr_put_strz(h, IFLA_INFO_KIND, "veth");
	data = mnl_attr_nest_start(h, IFLA_INFO_DATA);
	peer = mnl_attr_nest_start(h, VETH_INFO_PEER);
	p = mnl_nlmsg_put_extra_header(h, sizeof(*p));
	p->ifi_flags = 0;
	mnl_attr_put_strz(h, IFLA_IFNAME, v->peer_name);
	mnl_attr_put(h, IFLA_ADDRESS, 6, v->peer_mac);
	one_queue(h);
	mnl_attr_put_u32(h, IFLA_NET_NS_FD, (uint32_t)v->peer_ns);
	mnl_attr_nest_end(h, peer);
	mnl_attr_nest_end(h, data);
	mnl_attr_nest_end(h, info);
	add(n, h);
}

/* flags: beside IFF_UP. */
static void put_up(struct netlink *n, unsigned ifindex, unsigned flags)
{
	_Alignas(8) char room[MESSAGE_MAX];
	struct nlmsghdr *h = begin(room, RTM_NEWLINK, 0);
	struct ifinfomsg *i = mnl_nlmsg_put_extra_header(h, sizeof(*i));

	i->ifi_index = (int)ifindex;
	i->ifi_flags = i->ifi_change = IFF_UP | flags;
	add(n, h);
}

static void put_forwarding(struct nlmsghdr *h, bool on)
{
	struct nlattr *inet = mnl_attr_nest_start(h, AF_INET);
	struct nlattr *conf = mnl_attr_nest_start(h, IFLA_INET_CONF);

	mnl_attr_put_u32(h, IPV4_DEVCONF_FORWARDING, on);
	mnl_attr_nest_end(h, conf);
	mnl_attr_nest_end(h, inet);
}

static void put_no_own_address(struct nlmsghdr *h)
{
	struct nlattr *inet6 = mnl_attr_nest_start(h, AF_INET6);

	mnl_attr_put_u8(h, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
	mnl_attr_nest_end(h, inet6);
}

enum manner {
	MANNER_USUAL,
	MANNER_QUIET,
	MANNER_DORMANT,
};

/* forward NULL: the link forwards as new ones do. */
static void put_settings(struct netlink *n, unsigned ifindex, enum manner manner,
			 const bool *forward)
{
	_Alignas(8) char room[MESSAGE_MAX];
	struct nlmsghdr *h = begin(room, RTM_NEWLINK, 0);
	struct ifinfomsg *i = mnl_nlmsg_put_extra_header(h, sizeof(*i));
	struct nlattr *spec;

	i->ifi_index = (int)ifindex;
	if (manner == MANNER_DORMANT) {
		mnl_attr_put_u8(h, IFLA_LINKMODE, IF_LINK_MODE_DORMANT); /* from now on */
		mnl_attr_put_u8(h, IFLA_OPERSTATE, IF_OPER_DORMANT);     /* and at once */
	}
	spec = mnl_attr_nest_start(h, IFLA_AF_SPEC);
	if (manner != MANNER_USUAL)
		put_no_own_address(h);
	if (forward)
		put_forwarding(h, *forward);
	mnl_attr_nest_end(h, spec);
	add(n, h);
}

void netlink_set_up(struct netlink *n, unsigned ifindex)
{
	put_up(n, ifindex, 0);
}

/* The settings are in a message of their own: the kernel would bring the link up first. */
void netlink_set_up_quiet(struct netlink *n, unsigned ifindex)
{
	put_settings(n, ifindex, MANNER_QUIET, NULL);
	put_up(n, ifindex, IFF_NOARP);
}

void netlink_set_up_dormant(struct netlink *n, unsigned ifindex, bool forward)
{
	put_settings(n, ifindex, MANNER_DORMANT, &forward);
	put_up(n, ifindex, IFF_NOARP);
}

void netlink_set_forwarding(struct netlink *n, unsigned ifindex, bool on)
{
	put_settings(n, ifindex, MANNER_USUAL, &on);
}

static uint8_t family_of(const struct ip *a)
{
	return ip_is4(a) ? AF_INET : AF_INET6;
}

static uint8_t bits_of(const struct ip *a)
{
	return (uint8_t)(8 * sizeof(a->octet) - (ip_is4(a) ? IP4_BITS : 0));
}

static void put_ip(struct nlmsghdr *h, uint16_t type, const struct ip *a)
{
	size_t len = bits_of(a) / 8;

	mnl_attr_put(h, type, len, a->octet + sizeof(a->octet) - len);
}

static struct ip get_ip(const struct nlattr *a)
{
	struct ip got = { 0 };
	uint32_t v4;

	if (mnl_attr_get_payload_len(a) == sizeof(got.octet)) {
		memcpy(got.octet, mnl_attr_get_payload(a), sizeof(got.octet));
	} else if (mnl_attr_get_payload_len(a) == sizeof(v4)) {
		memcpy(&v4, mnl_attr_get_payload(a), sizeof(v4));
		got = ip_from4(ntohl(v4));
	}
	return got;
}

static bool is_set(const struct ip *a)
{
	static const struct ip none;

	return ip_cmp(a, &none);
}

static void change_addr(struct netlink *n, uint16_t type, unsigned ifindex, const struct ip *addr)
{
	_Alignas(8) char room[MESSAGE_MAX];
	uint16_t flags = type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_REPLACE : 0;
	struct nlmsghdr *h = begin(room, type, flags);
	struct ifaddrmsg *a = mnl_nlmsg_put_extra_header(h, sizeof(*a));

	a->ifa_family = family_of(addr);
	a->ifa_prefixlen = bits_of(addr);
	a->ifa_index = ifindex;
	if (!ip_is4(addr))
		a->ifa_flags = IFA_F_NODAD; /* nobody else can have it */
	put_ip(h, IFA_LOCAL, addr);
	put_ip(h, IFA_ADDRESS, addr);
	add(n, h);
}

void netlink_add_addr(struct netlink *n, unsigned ifindex, const struct ip *addr)
{
	change_addr(n, RTM_NEWADDR, ifindex, addr);
}

void netlink_del_addr(struct netlink *n, unsigned ifindex, const struct ip *addr)
{
	change_addr(n, RTM_DELADDR, ifindex, addr);
}

void netlink_add_neigh(struct netlink *n, unsigned ifindex, const struct ip *addr,
		       const uint8_t *mac)
{
	_Alignas(8) char room[MESSAGE_MAX];
	struct nlmsghdr *h = begin(room, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE);
	struct ndmsg *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));

	m->ndm_family = family_of(addr);
	m->ndm_state = NUD_PERMANENT;
	m->ndm_ifindex = (int)ifindex;
	put_ip(h, NDA_DST, addr);
	mnl_attr_put(h, NDA_LLADDR, 6, mac);
	add(n, h);
}

static void change_route(struct netlink *n, uint16_t type, const struct netlink_route *r)
{
	_Alignas(8) char room[MESSAGE_MAX];
	uint16_t flags = type == RTM_NEWROUTE ? NLM_F_CREATE | NLM_F_REPLACE : 0;
	struct nlmsghdr *h = begin(room, type, flags);
	struct rtmsg *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));
	bool via = is_set(&r->via);

	m->rtm_family = family_of(&r->dst);
	m->rtm_dst_len = r->prefix;
	m->rtm_table = r->table ? r->table : RT_TABLE_MAIN;
	m->rtm_protocol = RTPROT_STATIC;
	m->rtm_type = r->unreachable ? RTN_UNREACHABLE : RTN_UNICAST;
	m->rtm_scope = via || r->unreachable ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
	if (via)
		m->rtm_flags = RTNH_F_ONLINK;
	if (r->prefix)
		put_ip(h, RTA_DST, &r->dst);
	if (via)
		put_ip(h, RTA_GATEWAY, &r->via);
	if (is_set(&r->src))
		put_ip(h, RTA_PREFSRC, &r->src);
	if (r->ifindex)
		mnl_attr_put_u32(h, RTA_OIF, r->ifindex);
	if (r->metric)
		mnl_attr_put_u32(h, RTA_PRIORITY, r->metric);
	add(n, h);
}

void netlink_add_route(struct netlink *n, const struct netlink_route *r)
{
	change_route(n, RTM_NEWROUTE, r);
}

void netlink_del_route(struct netlink *n, const struct netlink_route *r)
{
	change_route(n, RTM_DELROUTE, r);
}

/* How many messages of the datagram are answers, and the first refusal among them. */
static unsigned count_answers(const char *p, int len, int *first)
{
	const struct nlmsghdr *h = (const void *)p;
	unsigned n = 0;

	for (; mnl_nlmsg_ok(h, len); h = mnl_nlmsg_next(h, &len)) {
		const struct nlmsgerr *a = mnl_nlmsg_get_payload(h);

		if (h->nlmsg_type != NLMSG_ERROR)
			continue;
		n++;
		if (a->error && !*first)
			*first = -a->error;
	}
	return n;
}

/* One datagram of n_messages; the first refusal, or 0. */
static int talk(struct netlink *n, const char *p, size_t size, unsigned n_messages)
{
	unsigned left = n_messages;
	int first = 0;

	if (mnl_socket_sendto(n->sock, p, size) < 0)
		return errno;
	while (left && !first) {
		ssize_t len = mnl_socket_recvfrom(n->sock, n->room, RECEIVE);
		unsigned got;

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0) {
			first = errno;
			break;
		}
		got = count_answers(n->room, (int)len, &first);
		left -= MIN(got, left);
	}
	/* After a refusal the later answers still come; they must not be taken for another batch's.
	 */
	while (left) {
		ssize_t len = recv(mnl_socket_get_fd(n->sock), n->room, RECEIVE, MSG_DONTWAIT);

		if (len <= 0)
			break;
		left -= MIN(count_answers(n->room, (int)len, &(int){ 1 }), left);
	}
	return first;
}

/* The bytes of the next messages, as many as one datagram may have. */
static size_t next_piece(const char *p, size_t len, unsigned *ret_n)
{
	size_t at = 0;

	for (*ret_n = 0; at < len && *ret_n < PIECE; ++*ret_n)
		at += ((const struct nlmsghdr *)(const void *)(p + at))->nlmsg_len;
	return at;
}

struct err *netlink_commit(struct netlink *n)
{
	size_t at = 0;
	int first = 0;

	while (at < n->batch.len) {
		const char *p = buf_head(&n->batch) + at;
		unsigned n_messages;
		size_t len = next_piece(p, n->batch.len - at, &n_messages);
		int refused = talk(n, p, len, n_messages);

		first = first ? first : refused;
		at += len;
	}
	buf_clear(&n->batch);
	return first ? err_sys(first, "change network settings") : NULL;
}

unsigned netlink_index(struct netlink *n, const char *name)
{
	struct ifreq r = { 0 };

	(void)snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	if (ioctl(mnl_socket_get_fd(n->sock), SIOCGIFINDEX, &r) < 0)
		return 0;
	return (unsigned)r.ifr_ifindex;
}

struct dump {
	void (*fn)(void *arg, const struct netlink_route *r);
	void *arg;
};

/* Each of the ways has its own link and gateway. */
static void tell_each_way(const struct dump *d, struct netlink_route *r, const struct nlattr *ways)
{
	const struct rtnexthop *way = mnl_attr_get_payload(ways);
	int left = mnl_attr_get_payload_len(ways);

	while (RTNH_OK(way, left)) {
		int len = way->rtnh_len - (int)RTNH_LENGTH(0);
		const char *at = (const char *)way;
		const struct nlattr *a = (const void *)(at + RTNH_LENGTH(0));

		r->via = (struct ip){ 0 };
		r->ifindex = (unsigned)way->rtnh_ifindex;
		for (; mnl_attr_ok(a, len); len -= MNL_ALIGN(a->nla_len), a = mnl_attr_next(a))
			if (mnl_attr_get_type(a) == RTA_GATEWAY)
				r->via = get_ip(a);
		d->fn(d->arg, r);
		left -= RTNH_ALIGN(way->rtnh_len);
		way = (const void *)(at + RTNH_ALIGN(way->rtnh_len));
	}
}

static int on_route(const struct nlmsghdr *h, void *data)
{
	const struct rtmsg *m = mnl_nlmsg_get_payload(h);
	struct netlink_route r = { .prefix = m->rtm_dst_len,
				   .unreachable = m->rtm_type == RTN_UNREACHABLE,
				   .table = m->rtm_table };
	const struct nlattr *a, *ways = NULL;
	struct dump *d = data;

	if (m->rtm_family == AF_INET)
		r.dst = ip_from4(0);
	mnl_attr_for_each(a, h, sizeof(*m))
	{
		if (mnl_attr_get_type(a) == RTA_DST)
			r.dst = get_ip(a);
		if (mnl_attr_get_type(a) == RTA_OIF)
			r.ifindex = mnl_attr_get_u32(a);
		if (mnl_attr_get_type(a) == RTA_GATEWAY)
			r.via = get_ip(a);
		if (mnl_attr_get_type(a) == RTA_MULTIPATH)
			ways = a;
	}
	if (ways)
		tell_each_way(d, &r, ways);
	else
		d->fn(d->arg, &r);
	return MNL_CB_OK;
}

static struct err *each_route_of(struct netlink *n, uint8_t family, struct dump *d)
{
	_Alignas(8) char room[MESSAGE_MAX];
	struct nlmsghdr *h = mnl_nlmsg_put_header(room);
	struct rtmsg *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));
	int r = 1;

	h->nlmsg_type = RTM_GETROUTE;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	h->nlmsg_seq = ++n->seq;
	m->rtm_family = family;
	if (mnl_socket_sendto(n->sock, h, h->nlmsg_len) < 0)
		return err_sys(errno, "list routes");
	while (r > 0) {
		ssize_t len = mnl_socket_recvfrom(n->sock, n->room, RECEIVE);

		if (len < 0)
			return err_sys(errno, "list routes");
		r = mnl_cb_run(n->room, (size_t)len, h->nlmsg_seq, mnl_socket_get_portid(n->sock),
			       on_route, d);
	}
	return r < 0 ? err_sys(errno, "list routes") : NULL;
}

struct err *netlink_each_route(struct netlink *n,
			       void (*fn)(void *arg, const struct netlink_route *r), void *arg)
{
	struct dump d = { fn, arg };
	struct err *e = each_route_of(n, AF_INET, &d);

	return e ? e : each_route_of(n, AF_INET6, &d);
}
