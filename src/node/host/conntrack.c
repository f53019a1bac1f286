/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/conntrack.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/mem.h"
#include "node/host/instance.h"

/*
 * A flow has two tuples: that of its first packet, and that of its answers. Where it was led
 * elsewhere, the source of the answers is another than the destination of the first packet:
 *
 *   original  100.64.0.9:4000 → 10.96.0.7:53        answers  100.64.0.5:5353 → 100.64.0.9:4000
 *
 * The kernel is asked for those whose destination was translated (one that cannot select lists
 * all), and each that is to go is deleted by its first tuple and its id, so that another that has
 * taken its place meanwhile stays.
 */
enum {
	ROOM = 32 * 1024, /* a part of a listing is no longer */
	QUESTION = 1024,
};

struct forgetting {
	const struct instance *instance;
	const struct bytes *ways;
	int fd; /* for deletions, while the listing goes on with another */
	struct err *e;
};

int conntrack_way_cmp(const void *a, const void *b)
{
	const struct conntrack_way *x = a, *y = b;
	int r = ip_cmp(&x->to, &y->to);

	if (!r)
		r = (int)x->to_port - (int)y->to_port;
	if (!r)
		r = ip_cmp(&x->end, &y->end);
	return r ? r : (int)x->end_port - (int)y->end_port;
}

/* NULL: it has none. */
static const struct nlattr *inside(const struct nlattr *nest, uint16_t type)
{
	const struct nlattr *a;

	if (!nest)
		return NULL;
	mnl_attr_for_each_nested(a, nest)
	{
		if (mnl_attr_get_type(a) == type)
			return a;
	}
	return NULL;
}

static const struct nlattr *of_message(const struct nlmsghdr *h, uint16_t type)
{
	const struct nlattr *a;

	mnl_attr_for_each(a, h, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(a) == type)
			return a;
	}
	return NULL;
}

static bool read_ip(const struct nlattr *nest, uint16_t v4, uint16_t v6, struct ip *ret)
{
	const struct nlattr *a = inside(nest, v4);

	if (a && mnl_attr_get_payload_len(a) == sizeof(uint32_t)) {
		*ret = ip_from4(ntohl(mnl_attr_get_u32(a)));
		return true;
	}
	a = inside(nest, v6);
	if (!a || mnl_attr_get_payload_len(a) != sizeof(*ret))
		return false;
	memcpy(ret, mnl_attr_get_payload(a), sizeof(*ret));
	return true;
}

static bool read_port(const struct nlattr *nest, uint16_t type, uint16_t *ret)
{
	const struct nlattr *a = inside(nest, type);

	if (!a || mnl_attr_validate(a, MNL_TYPE_U16) < 0)
		return false;
	*ret = ntohs(mnl_attr_get_u16(a));
	return true;
}

/* False: it is no flow of UDP. */
static bool read_way(const struct nlmsghdr *h, struct conntrack_way *ret)
{
	const struct nlattr *first = of_message(h, CTA_TUPLE_ORIG);
	const struct nlattr *answer = of_message(h, CTA_TUPLE_REPLY);
	const struct nlattr *ports = inside(first, CTA_TUPLE_PROTO);
	const struct nlattr *protocol = inside(ports, CTA_PROTO_NUM);

	*ret = (struct conntrack_way){ 0 };
	return protocol && mnl_attr_validate(protocol, MNL_TYPE_U8) >= 0 &&
	       mnl_attr_get_u8(protocol) == IPPROTO_UDP &&
	       read_ip(inside(first, CTA_TUPLE_IP), CTA_IP_V4_DST, CTA_IP_V6_DST, &ret->to) &&
	       read_ip(inside(answer, CTA_TUPLE_IP), CTA_IP_V4_SRC, CTA_IP_V6_SRC, &ret->end) &&
	       read_port(ports, CTA_PROTO_DST_PORT, &ret->to_port) &&
	       read_port(inside(answer, CTA_TUPLE_PROTO), CTA_PROTO_SRC_PORT, &ret->end_port);
}

static bool is_to_go(const struct forgetting *f, const struct nlmsghdr *h)
{
	const struct nlattr *status = of_message(h, CTA_STATUS);
	struct conntrack_way way;
	unsigned place;

	if (!status || mnl_attr_validate(status, MNL_TYPE_U32) < 0 ||
	    !(ntohl(mnl_attr_get_u32(status)) & IPS_DST_NAT))
		return false;
	if (!read_way(h, &way) || !instance_ip_place(f->instance, &way.end, &place))
		return false;
	return !f->ways || !bsearch(&way, f->ways->data, f->ways->len / sizeof(way), sizeof(way),
				    conntrack_way_cmp);
}

static struct nlmsghdr *question(void *room, uint16_t type, uint16_t flags, uint8_t family)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(room);
	struct nfgenmsg *g;

	h->nlmsg_type = (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type);
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	g->nfgen_family = family;
	g->version = NFNETLINK_V0;
	return h;
}

static void copy(struct nlmsghdr *to, const struct nlattr *a)
{
	if (a)
		mnl_attr_put(to, a->nla_type, mnl_attr_get_payload_len(a), mnl_attr_get_payload(a));
}

/* One that has ended by itself is fine. */
static struct err *forget(const struct forgetting *f, const struct nlmsghdr *flow)
{
	static const uint16_t parts[] = { CTA_TUPLE_ORIG, CTA_ZONE, CTA_ID };
	const struct nfgenmsg *g = mnl_nlmsg_get_payload(flow);
	_Alignas(8) char room[QUESTION];
	struct nlmsghdr *h = question(room, IPCTNL_MSG_CT_DELETE, NLM_F_ACK, g->nfgen_family);
	const struct nlmsgerr *answer;
	ssize_t n;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		copy(h, of_message(flow, parts[i]));
	if (send(f->fd, h, h->nlmsg_len, 0) < 0)
		return err_sys(errno, "have a flow forgotten");
	n = recv(f->fd, room, sizeof(room), 0);
	h = (void *)room;
	if (n < 0)
		return err_sys(errno, "have a flow forgotten");
	if (!mnl_nlmsg_ok(h, (int)n) || h->nlmsg_type != NLMSG_ERROR)
		return err_new(ERR_SYS, "the kernel does not say whether it forgot a flow");
	answer = mnl_nlmsg_get_payload(h);
	return !answer->error || answer->error == -ENOENT
		       ? NULL
		       : err_sys(-answer->error, "have a flow forgotten");
}

/* False: it was the last part, or something is wrong. */
static bool read_part(struct forgetting *f, const void *room, int left)
{
	for (const struct nlmsghdr *h = room; mnl_nlmsg_ok(h, left) && !f->e;
	     h = mnl_nlmsg_next(h, &left)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return false;
		if (h->nlmsg_type == NLMSG_ERROR)
			f->e = err_sys(-((const struct nlmsgerr *)mnl_nlmsg_get_payload(h))->error,
				       "list flows");
		else if (h->nlmsg_type >> 8 == NFNL_SUBSYS_CTNETLINK && is_to_go(f, h))
			f->e = forget(f, h);
	}
	return !f->e;
}

static struct err *go_through(struct forgetting *f, int fd)
{
	autofree char *room = xmalloc(ROOM);
	struct nlmsghdr *h = question(room, IPCTNL_MSG_CT_GET, NLM_F_DUMP, AF_UNSPEC);
	ssize_t n;

	mnl_attr_put_u32(h, CTA_STATUS, htonl(IPS_DST_NAT));
	mnl_attr_put_u32(h, CTA_STATUS_MASK, htonl(IPS_DST_NAT));
	if (send(fd, h, h->nlmsg_len, 0) < 0)
		return err_sys(errno, "list flows");
	do {
		n = recv(fd, room, ROOM, 0);
		if (n < 0)
			return err_sys(errno, "list flows");
	} while (read_part(f, room, (int)n));
	return f->e;
}

struct err *conntrack_keep(const struct instance *i, const struct bytes *ways)
{
	autoclose list = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	autoclose changes = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct forgetting f = { .instance = i, .ways = ways, .fd = changes };

	if (list < 0 || changes < 0)
		return err_sys(errno, "open a netlink socket");
	return go_through(&f, list);
}
