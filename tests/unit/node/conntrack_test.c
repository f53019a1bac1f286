/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/conntrack.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <nftables/libnftables.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "test.h"

/*
 * In a network of the test's own, datagrams are led from one address to another, first to one port,
 * later to the next. Where they arrive then tells whether the kernel has forgotten the flow.
 */
enum {
	BEFORE = 5353,
	AFTER = 5354,
	ARRIVE_MS = 10 * 1000,
	N_FLOWS = 3,
};

static const struct instance instance = { .id = "abcde", .pool = 100u << 24 | 64 << 16 };

struct flow {
	const char *to, *end;
	int from, at[2]; /* the ports BEFORE and AFTER of end */
};

struct net {
	int outside;
	struct flow flow[N_FLOWS];
};

static struct sockaddr_in6 address(const char *text, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct ip ip;

	is_true(ip_parse(text, &ip));
	memcpy(&a.sin6_addr, &ip, sizeof(ip));
	return a;
}

/* IPv4 in its mapped form. */
static int open_at(const char *text, uint16_t port)
{
	struct sockaddr_in6 a = address(text, port);
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	is_true(fd >= 0);
	is_true(!bind(fd, (const struct sockaddr *)&a, sizeof(a)));
	return fd;
}

static void lead_to(const struct net *n, unsigned port)
{
	struct nft_ctx *ctx = nft_ctx_new(NFT_CTX_DEFAULT);
	char text[1024] = "add table inet t\ndelete table inet t\ntable inet t {\n"
			  "chain c {\ntype nat hook output priority -100;\n";
	size_t len = strlen(text);

	for (size_t i = 0; i < N_FLOWS; i++) {
		const char *family = strchr(n->flow[i].to, ':') ? "ip6" : "ip";

		len += (size_t)snprintf(text + len, sizeof(text) - len,
					strchr(n->flow[i].to, ':')
						? "%s daddr %s udp dport 53 dnat %s to [%s]:%u\n"
						: "%s daddr %s udp dport 53 dnat %s to %s:%u\n",
					family, n->flow[i].to, family, n->flow[i].end, port);
	}
	(void)snprintf(text + len, sizeof(text) - len, "}\n}\n");
	is_true(ctx);
	eq_int(nft_run_cmd_from_buffer(ctx, text), 0);
	nft_ctx_free(ctx);
}

/* Which of the ports a datagram of the flow reaches. */
static unsigned arrives(const struct flow *f)
{
	struct sockaddr_in6 to = address(f->to, 53);
	struct pollfd at[] = { { f->at[0], POLLIN, 0 }, { f->at[1], POLLIN, 0 } };
	char byte = 'x';

	eq_int(sendto(f->from, &byte, 1, 0, (const struct sockaddr *)&to, sizeof(to)), 1);
	eq_int(poll(at, 2, ARRIVE_MS), 1);
	eq_int(recv(at[at[1].revents != 0].fd, &byte, 1, 0), 1);
	return at[1].revents ? AFTER : BEFORE;
}

static void add_address(struct netlink *nl, const char *text)
{
	struct ip ip;

	is_true(ip_parse(text, &ip));
	netlink_add_addr(nl, 1, &ip);
}

/* Each flow has begun, and would go elsewhere if it began now. */
static bool open_net(struct net *n)
{
	static const char *const ways[N_FLOWS][2] = { { "10.96.0.7", "100.64.0.5" },
						      { "fd00:10:96::7", "fdca:7abc:de00::5" },
						      { "10.96.0.8", "192.0.2.5" } };
	struct netlink *nl = NULL;

	if (geteuid() != 0) {
		skip_because("needs root: it makes a network namespace");
		return false;
	}
	n->outside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	is_true(n->outside >= 0 && !unshare(CLONE_NEWNET));
	works(netlink_open(&nl));
	netlink_set_up(nl, 1);
	for (size_t i = 0; i < N_FLOWS; i++)
		for (size_t k = 0; k < 2; k++)
			add_address(nl, ways[i][k]);
	works(netlink_commit(nl));
	netlink_free(nl);
	for (size_t i = 0; i < N_FLOWS; i++)
		n->flow[i] = (struct flow){ ways[i][0],
					    ways[i][1],
					    open_at(ways[i][0], 0),
					    { open_at(ways[i][1], BEFORE),
					      open_at(ways[i][1], AFTER) } };
	lead_to(n, BEFORE);
	for (size_t i = 0; i < N_FLOWS; i++)
		eq_int(arrives(&n->flow[i]), BEFORE);
	lead_to(n, AFTER);
	return true;
}

static void close_net(struct net *n)
{
	for (size_t i = 0; i < N_FLOWS; i++) {
		(void)close(n->flow[i].from);
		(void)close(n->flow[i].at[0]);
		(void)close(n->flow[i].at[1]);
	}
	is_true(!setns(n->outside, CLONE_NEWNET));
	(void)close(n->outside);
}

static struct bytes *way_of(const struct flow *f, uint16_t port)
{
	struct conntrack_way way = { .to_port = 53, .end_port = port };

	is_true(ip_parse(f->to, &way.to) && ip_parse(f->end, &way.end));
	return bytes_new(&way, sizeof(way));
}

TEST(flows_that_are_led_elsewhere_now_are_forgotten_and_no_others)
{
	autoptr(bytes) kept = NULL;
	autoptr(bytes) other = NULL;
	struct net n;

	if (!open_net(&n))
		return;
	kept = way_of(&n.flow[0], BEFORE);
	works(conntrack_keep(&instance, kept));
	eq_int(arrives(&n.flow[0]), BEFORE);
	eq_int(arrives(&n.flow[1]), AFTER);
	eq_int(arrives(&n.flow[2]), BEFORE); /* it leads to no sandbox */
	other = way_of(&n.flow[0], AFTER);
	works(conntrack_keep(&instance, other));
	eq_int(arrives(&n.flow[0]), AFTER);
	eq_int(arrives(&n.flow[2]), BEFORE);
	works(conntrack_keep(&instance, NULL));
	lead_to(&n, BEFORE);
	eq_int(arrives(&n.flow[1]), BEFORE);
	close_net(&n);
}
