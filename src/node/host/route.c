/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/route.h"

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/mem.h"

enum {
	MESSAGE_MAX = 4096,
};

static bool is_unicast(const void *answer, int left)
{
	const struct nlmsghdr *h = answer;
	const struct rtmsg *m;

	if (!mnl_nlmsg_ok(h, left) || h->nlmsg_type != RTM_NEWROUTE)
		return false; /* an error: there is no route */
	m = mnl_nlmsg_get_payload(h);
	return m->rtm_type == RTN_UNICAST;
}

bool route_leads_away(const struct ip *to)
{
	_Alignas(8) char room[MESSAGE_MAX];
	autoclose fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	size_t skip = ip_is4(to) ? IP4_BITS / 8 : 0, len = sizeof(to->octet) - skip;
	struct nlmsghdr *h = mnl_nlmsg_put_header(room);
	struct rtmsg *m;
	ssize_t n;

	h->nlmsg_type = RTM_GETROUTE;
	h->nlmsg_flags = NLM_F_REQUEST;
	m = mnl_nlmsg_put_extra_header(h, sizeof(*m));
	m->rtm_family = ip_is4(to) ? AF_INET : AF_INET6;
	m->rtm_dst_len = (uint8_t)(8 * len);
	mnl_attr_put(h, RTA_DST, len, to->octet + skip);
	if (fd < 0 || send(fd, h, h->nlmsg_len, 0) < 0)
		return false;
	n = recv(fd, room, sizeof(room), MSG_DONTWAIT); /* the kernel answers within send() */
	return n > 0 && is_unicast(room, (int)n);
}
