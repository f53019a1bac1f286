/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <sched.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/ip.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/launch/launch_priv.h"
#include "node/launch/nft_batch.h"

/*
 * Whom a sandbox may reach among the addresses that its packet filter keeps from it otherwise, and
 * who may reach it: elements of the sets that netns_filter.c made. One transaction empties all four
 * and fills them anew, so there is no moment in between.
 */
enum {
	RANGES_MAX = 900,         /* of one list */
	RANGE_SIZE = 64,          /* bytes that one of IPv6 takes, at most */
	MESSAGE_ROOM = 60 * 1024, /* an attribute has less than 64 KiB */
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

/* Reading */

static bool read_range(char *text, struct range *ret)
{
	char *dash = strchr(text, '-');

	if (dash)
		*dash = '\0';
	return ip_parse(text, &ret->from) && ip_parse(dash ? dash + 1 : text, &ret->to) &&
	       ip_is4(&ret->from) == ip_is4(&ret->to) && ip_cmp(&ret->from, &ret->to) <= 0;
}

static int by_start(const void *a, const void *b)
{
	return ip_cmp(&((const struct range *)a)->from, &((const struct range *)b)->from);
}

/* The kernel refuses ranges that overlap. */
static void merge(struct ranges *r)
{
	size_t n = 0;

	qsort(r->list, r->n, sizeof(r->list[0]), by_start);
	for (size_t i = 0; i < r->n; i++) {
		struct range *last = n ? &r->list[n - 1] : NULL;

		if (!last || ip_cmp(&r->list[i].from, &last->to) > 0)
			r->list[n++] = r->list[i];
		else if (ip_cmp(&r->list[i].to, &last->to) > 0)
			last->to = r->list[i].to;
	}
	r->n = n;
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
	merge(ret);
	return NULL;
}

/* Writing */

static struct nlmsghdr *elements(struct nft_batch *b, uint16_t type, uint16_t flags,
				 const char *set)
{
	struct nlmsghdr *h = nft_message(b, type, flags);

	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, "cay");
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, set);
	return h;
}

static void put_element(struct nlmsghdr *h, const struct ip *key, bool v4, bool end)
{
	nft_put_element(h, key->octet + (v4 ? V4_AT : 0), sizeof(*key) - (v4 ? V4_AT : 0), end);
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

static void put_set(struct nft_batch *b, const char *set, const struct ranges *r, bool v4)
{
	struct nlmsghdr *h;
	struct nlattr *list;
	size_t n = 0;

	(void)elements(b, NFT_MSG_DELSETELEM, NLM_F_ACK, set); /* all of them */
	nft_message_end(b);
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
		nft_message_end(b);
}

static struct err *change(const struct ranges *out, const struct ranges *in)
{
	autofree char *room = xmalloc(2 * MESSAGE_ROOM);
	struct nft_batch b;

	nft_begin(&b, room);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		put_set(&b, sets[i], i < 2 ? out : in, i % 2 == 0);
	return nft_commit(&b, "change the peers of a sandbox");
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
