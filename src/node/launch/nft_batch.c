/* SPDX-License-Identifier: Apache-2.0 */
#include "node/launch/nft_batch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

enum {
	ANSWER_MAX = 8192,
};

static struct nfgenmsg *begin(struct nft_batch *b, uint16_t type, uint16_t flags, uint8_t family)
{
	struct nfgenmsg *g;

	b->h = mnl_nlmsg_put_header(b->room);
	b->h->nlmsg_type = type;
	b->h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	b->h->nlmsg_seq = ++b->seq;
	g = mnl_nlmsg_put_extra_header(b->h, sizeof(*g));
	g->nfgen_family = family;
	g->version = NFNETLINK_V0;
	return g;
}

static void border(struct nft_batch *b, uint16_t type)
{
	begin(b, type, 0, AF_UNSPEC)->res_id = htons(NFNL_SUBSYS_NFTABLES);
	nft_message_end(b);
}

void nft_begin(struct nft_batch *b, void *room)
{
	*b = (struct nft_batch){ .room = room };
	border(b, NFNL_MSG_BATCH_BEGIN);
}

struct nlmsghdr *nft_message(struct nft_batch *b, uint16_t type, uint16_t flags)
{
	(void)begin(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, NFPROTO_INET);
	return b->h;
}

void nft_message_end(struct nft_batch *b)
{
	buf_add(&b->out, b->h, b->h->nlmsg_len);
}

void nft_put_element(struct nlmsghdr *h, const void *key, size_t len, bool end)
{
	struct nlattr *elem = mnl_attr_nest_start(h, NFTA_LIST_ELEM);
	struct nlattr *nest = mnl_attr_nest_start(h, NFTA_SET_ELEM_KEY);

	mnl_attr_put(h, NFTA_DATA_VALUE, len, key);
	mnl_attr_nest_end(h, nest);
	if (end)
		mnl_attr_put_u32(h, NFTA_SET_ELEM_FLAGS, htonl(NFT_SET_ELEM_INTERVAL_END));
	mnl_attr_nest_end(h, elem);
}

/* The kernel has answered before send() returns: with a refusal, or with the acknowledgements that
 * were asked for. */
static struct err *read_answer(struct mnl_socket *s, const char *doing)
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
				return err_sys(-a->error, "%s", doing);
			acknowledged = true;
		}
	}
	return acknowledged ? NULL : err_new(ERR_SYS, "%s: no answer from the kernel", doing);
}

struct err *nft_commit(struct nft_batch *b, const char *doing)
{
	struct mnl_socket *s = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	struct err *e;

	border(b, NFNL_MSG_BATCH_END);
	if (!s)
		e = err_sys(errno, "open a netlink socket");
	else if (mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0 ||
		 mnl_socket_sendto(s, buf_head(&b->out), b->out.len) < 0)
		e = err_sys(errno, "%s", doing);
	else
		e = read_answer(s, doing);
	if (s)
		(void)mnl_socket_close(s);
	buf_done(&b->out);
	return e;
}
