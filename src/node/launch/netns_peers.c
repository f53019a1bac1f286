/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/ip.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/launch/launch_priv.h"

/*
 * Whom a sandbox may reach among the addresses that its packet filter keeps from it otherwise, and
 * who may reach it: elements of the sets that netns_filter.c made. One transaction empties all four
 * and fills them anew, so there is no moment in between.
 */
enum {
	RANGES_MAX = 512,         /* of one list */
	RANGE_SIZE = 64,          /* bytes that one of IPv6 takes, at most */
	MESSAGE_ROOM = 60 * 1024, /* an attribute has less than 64 KiB */
	ANSWER_MAX = 8192,
	V4_AT = IP4_BITS / 8,
};

_Static_assert(RANGES_MAX *RANGE_SIZE < MESSAGE_ROOM, "a list of peers fits into a message");

static const char *const sets[] = { "peers_out", "peers_out6", "peers_in", "peers_in6" };

struct range {
	struct ip from, to;
};

struct ranges {
	struct range list[RANGES_MAX];
	size_t n;
};

/* -- reading --------------------------------------------------------------------------------- */

static bool read_range(char *text, struct range *ret)
{
	char *dash = strchr(text, '-');

	if (dash)
		*dash = '\0';
	return ip_parse(text, &ret->from) && ip_parse(dash ? dash + 1 : text, &ret->to) &&
	       ip_is4(&ret->from) == ip_is4(&ret->to) && ip_cmp(&ret->from, &ret->to) <= 0;
}

/* "A-B,C", or nothing. */
static struct err *read_list(const char *text, struct ranges *ret)
{
	autofree char *copy = xstrdup(text);
	char *rest = NULL;

	ret->n = 0;
	for (char *t = strtok_r(copy, ",", &rest); t; t = strtok_r(NULL, ",", &rest)) {
		if (ret->n == RANGES_MAX)
			return err_new(ERR_TOO_LARGE, "a list of peers has more than %d ranges",
				       RANGES_MAX);
		if (!read_range(t, &ret->list[ret->n++]))
			return err_new(ERR_MALFORMED, "a list of peers is not one of addresses");
	}
	return NULL;
}

/* -- writing --------------------------------------------------------------------------------- */

struct batch {
	struct buf out;
	uint32_t seq;
	char *room;
};

static struct nlmsghdr *message(struct batch *b, uint16_t type, uint16_t flags)
{
	bool border = type == NFNL_MSG_BATCH_BEGIN || type == NFNL_MSG_BATCH_END;
	struct nlmsghdr *h = mnl_nlmsg_put_header(b->room);
	struct nfgenmsg *g;

	h->nlmsg_type = border ? type : (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type);
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	h->nlmsg_seq = ++b->seq;
	g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	g->nfgen_family = border ? AF_UNSPEC : NFPROTO_INET;
	g->version = NFNETLINK_V0;
	g->res_id = border ? htons(NFNL_SUBSYS_NFTABLES) : 0;
	return h;
}

static void message_end(struct batch *b, const struct nlmsghdr *h)
{
	buf_add(&b->out, h, h->nlmsg_len);
}

static struct nlmsghdr *elements(struct batch *b, uint16_t type, uint16_t flags, const char *set)
{
	struct nlmsghdr *h = message(b, type, flags);

	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, "cay");
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, set);
	return h;
}

static void put_element(struct nlmsghdr *h, const struct ip *key, bool v4, bool end)
{
	struct nlattr *elem = mnl_attr_nest_start(h, NFTA_LIST_ELEM);
	struct nlattr *nest = mnl_attr_nest_start(h, NFTA_SET_ELEM_KEY);

	mnl_attr_put(h, NFTA_DATA_VALUE, sizeof(*key) - (v4 ? V4_AT : 0),
		     key->octet + (v4 ? V4_AT : 0));
	mnl_attr_nest_end(h, nest);
	if (end)
		mnl_attr_put_u32(h, NFTA_SET_ELEM_FLAGS, htonl(NFT_SET_ELEM_INTERVAL_END));
	mnl_attr_nest_end(h, elem);
}

/* A range ends with the address behind it, unless there is none. */
static void put_range(struct nlmsghdr *h, const struct range *r)
{
	bool v4 = ip_is4(&r->from);
	struct ip behind = r->to;

	put_element(h, &r->from, v4, false);
	if (ip_next(&behind) && ip_is4(&behind) == v4)
		put_element(h, &behind, v4, true);
}

static void put_set(struct batch *b, const char *set, const struct ranges *r, bool v4)
{
	struct nlmsghdr *h = elements(b, NFT_MSG_DELSETELEM, NLM_F_ACK, set); /* all of them */
	struct nlattr *list;
	size_t n = 0;

	message_end(b, h);
	h = elements(b, NFT_MSG_NEWSETELEM, NLM_F_CREATE, set);
	list = mnl_attr_nest_start(h, NFTA_SET_ELEM_LIST_ELEMENTS);
	for (size_t i = 0; i < r->n; i++) {
		if (ip_is4(&r->list[i].from) != v4)
			continue;
		put_range(h, &r->list[i]);
		n++;
	}
	mnl_attr_nest_end(h, list);
	if (n)
		message_end(b, h);
}

static void put_all(struct batch *b, const struct ranges *out, const struct ranges *in)
{
	message_end(b, message(b, NFNL_MSG_BATCH_BEGIN, 0));
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		put_set(b, sets[i], i < 2 ? out : in, i % 2 == 0);
	message_end(b, message(b, NFNL_MSG_BATCH_END, 0));
}

/* -- changing -------------------------------------------------------------------------------- */

/* The kernel has answered before send() returns: with a refusal, or with the acknowledgements that
 * were asked for. */
static struct err *read_answer(struct mnl_socket *s)
{
	_Alignas(8) char room[ANSWER_MAX];
	bool acknowledged = false;
	ssize_t n;

	while ((n = recv(mnl_socket_get_fd(s), room, sizeof(room), MSG_DONTWAIT)) > 0) {
		const struct nlmsghdr *h = (const void *)room;
		int left = (int)n;

		for (; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left)) {
			const struct nlmsgerr *a = mnl_nlmsg_get_payload(h);

			if (h->nlmsg_type != NLMSG_ERROR)
				continue;
			if (a->error)
				return err_sys(-a->error, "change the peers of a sandbox");
			acknowledged = true;
		}
	}
	return acknowledged ? NULL
			    : err_new(ERR_SYS,
				      "change the peers of a sandbox: no answer from the kernel");
}

static struct err *change(const struct ranges *out, const struct ranges *in)
{
	autofree char *room = xmalloc(2 * MESSAGE_ROOM);
	struct batch b = { .room = room };
	struct mnl_socket *s = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	struct err *e;

	if (!s)
		return err_sys(errno, "open a netlink socket");
	put_all(&b, out, in);
	if (mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(s, buf_head(&b.out), b.out.len) < 0)
		e = err_sys(errno, "change the peers of a sandbox");
	else
		e = read_answer(s);
	(void)mnl_socket_close(s);
	buf_done(&b.out);
	return e;
}

struct err *netns_peers(struct launcher *l, int ns, const struct message_peers *spec)
{
	static struct ranges out, in;
	struct err *e = read_list(spec->out, &out);

	if (!e)
		e = read_list(spec->in, &in);
	if (e || !wall_stands("filter-inner"))
		return e;
	if (setns(ns, CLONE_NEWNET) < 0)
		return err_sys(errno, "enter a network namespace");
	e = change(&out, &in);
	if (setns(l->host_ns, CLONE_NEWNET) < 0)
		_exit(1); /* never serve from the wrong network */
	return e;
}
