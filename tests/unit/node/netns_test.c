/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/in6.h>
#include <linux/netlink.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "node/host/netlink.h"
#include "node/host/reserved.h"
#include "node/launch/launch_priv.h"
#include "test.h"

/*
 * What a sandbox can leave behind in its network, and whether it is found. A network namespace
 * of the test's own plays the host.
 */
enum {
	LOOK_MS = 10,
	LOOKS = 1000,
	/* The kernel reports what was done to a network a moment later. That nothing is reported
	 * can only be seen by waiting; longer than the rows take in which something is. */
	REST_MS = 50,
};

struct rig {
	struct launcher l;
	int outside; /* where the test came from */
	int ns;
};

static void enter(int ns)
{
	is_true(!setns(ns, CLONE_NEWNET));
}

static int own_ns(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	is_true(fd >= 0);
	return fd;
}

/* Looks until the answer is the one that is expected; the last one counts. */
static struct err *look_until(struct rig *r, bool as_new)
{
	struct err *e = netns_check(&r->l, r->ns);

	for (unsigned n = 0; n < LOOKS && as_new != !e; n++) {
		err_free(e);
		(void)poll(NULL, 0, LOOK_MS);
		e = netns_check(&r->l, r->ns);
	}
	return e;
}

static bool open_rig_with(struct rig *r, bool egress)
{
	const struct message_net spec = { .name = "caytest1",
					  .addr = "100.64.0.7",
					  .gateway = "100.64.0.1",
					  .addr6 = "fdca:7000::7",
					  .gateway6 = "fdca:7000::1",
					  .egress = egress };
	struct ip gw, gw6;

	if (geteuid() != 0) {
		skip_because("needs root: it makes network namespaces");
		return false;
	}
	*r = (struct rig){ .l = { .proc = -1 }, .outside = own_ns() };
	is_true(!unshare(CLONE_NEWNET));
	r->l.host_ns = own_ns();
	works(netlink_open(&r->l.nl));
	is_true(ip_parse(spec.gateway, &gw) && ip_parse(spec.gateway6, &gw6));
	netlink_set_up(r->l.nl, 1);
	netlink_add_addr(r->l.nl, 1, &gw);
	netlink_add_addr(r->l.nl, 1, &gw6);
	works(netlink_commit(r->l.nl));
	works(netns_make(&r->l, &spec, &r->ns));
	works(look_until(r, true)); /* the sockets that it was made with are freed late */
	return true;
}

static bool open_rig(struct rig *r)
{
	return open_rig_with(r, true);
}

static void close_rig(struct rig *r)
{
	netlink_free(r->l.nl);
	enter(r->outside);
	(void)close(r->outside);
	(void)close(r->ns);
	(void)close(r->l.host_ns);
	(void)close(r->l.proc);
}

static int open_socket(int family, int type, int protocol)
{
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	is_true(fd >= 0);
	return fd;
}

static struct sockaddr_in at(const char *ip, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr = { inet_addr(ip) } };
}

/* False: it was refused on the way. */
static bool send_to_addr(uint32_t addr)
{
	int fd = open_socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(9),
				 .sin_addr = { htonl(addr) } };
	ssize_t n = sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a));

	(void)close(fd);
	return n == 1;
}

static bool send_to(const char *ip)
{
	return send_to_addr(ntohl(inet_addr(ip)));
}

/* What a host that is no sandbox could send too, as root. */
static bool send_from(const char *source, const char *ip)
{
	int fd = open_socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in from = at(source, 0), to = at(ip, 9);
	bool sent;

	is_true(!setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &(int){ 1 }, sizeof(int)));
	is_true(!bind(fd, (struct sockaddr *)&from, sizeof(from)));
	sent = sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) == 1;
	(void)close(fd);
	return sent;
}

static struct ip in_net(uint32_t first, uint8_t last)
{
	return (struct ip){ .octet = { (uint8_t)(first >> 24), (uint8_t)(first >> 16),
				       (uint8_t)(first >> 8), (uint8_t)first, [15] = last } };
}

static struct sockaddr_in6 at6(const struct ip *ip, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	memcpy(&a.sin6_addr, ip->octet, sizeof(ip->octet));
	return a;
}

/* header: eight bytes in front of that of UDP, set by this option; NULL: none. */
static bool send_to_ip6(const struct ip *ip, const uint8_t *header, int option)
{
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);
	struct sockaddr_in6 a = at6(ip, 9);
	bool sent;

	if (header)
		is_true(!setsockopt(fd, IPPROTO_IPV6, option, header, 8));
	sent = sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1;
	(void)close(fd);
	return sent;
}

static bool send_from6(const char *source, const struct ip *ip)
{
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);
	struct sockaddr_in6 from, to = at6(ip, 9);
	struct ip parsed;
	bool sent;

	is_true(ip_parse(source, &parsed));
	from = at6(&parsed, 0);
	is_true(!setsockopt(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &(int){ 1 }, sizeof(int)));
	is_true(!bind(fd, (struct sockaddr *)&from, sizeof(from)));
	sent = sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) == 1;
	(void)close(fd);
	return sent;
}

static void use_the_way_out_of_ipv6(void)
{
	struct ip to = in_net(0x2d000000, 2);

	is_true(send_to_ip6(&to, NULL, 0));
}

static void nothing(void)
{
}

static void use_loopback(void)
{
	is_true(send_to("127.0.0.1"));
}

static void use_the_way_out(void)
{
	is_true(send_to("192.0.9.1"));
}

/* The filter drops it before any link sees it. */
static void be_filtered(void)
{
	is_true(!send_to("10.1.2.3"));
}

static void use_ipv6(void)
{
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);
	struct sockaddr_in6 a = { .sin6_family = AF_INET6,
				  .sin6_port = htons(9),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	is_true(sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1);
	(void)close(fd);
}

/* One end is left in TIME_WAIT, which belongs to no socket. */
static void connect_and_close(void)
{
	int listener = open_socket(AF_INET, SOCK_STREAM, 0), fd, peer;
	struct sockaddr_in a = at("127.0.0.1", 80);

	is_true(!bind(listener, (struct sockaddr *)&a, sizeof(a)) && !listen(listener, 1));
	fd = open_socket(AF_INET, SOCK_STREAM, 0);
	is_true(!connect(fd, (struct sockaddr *)&a, sizeof(a)));
	peer = accept(listener, NULL, NULL);
	(void)close(fd);
	(void)close(peer);
	(void)close(listener);
}

/* Labels live for some seconds after their socket. */
static void take_a_flow_label(void)
{
	struct in6_flowlabel_req req = { .flr_action = IPV6_FL_A_GET,
					 .flr_share = IPV6_FL_S_ANY,
					 .flr_flags = IPV6_FL_F_CREATE,
					 .flr_linger = 60 };
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);

	req.flr_dst.s6_addr[15] = 1;
	is_true(!setsockopt(fd, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &req, sizeof(req)));
	(void)close(fd);
}

static void join_a_group(void)
{
	int fd = open_socket(AF_INET, SOCK_DGRAM, 0);
	struct ip_mreqn m = { .imr_multiaddr = { inet_addr("239.1.2.3") }, .imr_ifindex = 2 };

	is_true(!setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
	(void)close(fd);
}

static void join_a_group_of_ipv6(void)
{
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);
	struct ipv6_mreq m = { .ipv6mr_interface = 1 };

	is_true(inet_pton(AF_INET6, "ff05::1234", &m.ipv6mr_multiaddr) == 1);
	is_true(!setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &m, sizeof(m)));
	(void)close(fd);
}

/* Nothing of these is left: no packet went anywhere, and names go with their sockets. */
static void listen_and_close(void)
{
	int fd = open_socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in a = at("0.0.0.0", 80);

	is_true(!bind(fd, (struct sockaddr *)&a, sizeof(a)) && !listen(fd, 1));
	(void)close(fd);
}

static void bind_a_name(void)
{
	int fd = open_socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "\0name" };

	is_true(!bind(fd, (struct sockaddr *)&a, sizeof(a)) && !listen(fd, 1));
	(void)close(fd);
}

static void ask_about_links(void)
{
	struct netlink *nl = NULL;

	works(netlink_open(&nl));
	is_true(netlink_index(nl, "eth0"));
	netlink_free(nl);
}

TEST(a_batch_of_thousands_is_answered_whole_and_tells_the_first_refusal)
{
	enum {
		CHANGES = 5000,
		NOBODY = 99999,
	};
	struct rig r;

	if (!open_rig(&r))
		return;
	for (unsigned i = 0; i < CHANGES; i++)
		netlink_set_forwarding(r.l.nl, 1, i % 2);
	works(netlink_commit(r.l.nl));
	netlink_set_forwarding(r.l.nl, NOBODY, true);
	for (unsigned i = 0; i < CHANGES; i++)
		netlink_set_forwarding(r.l.nl, 1, i % 2);
	fails(netlink_commit(r.l.nl), ERR_SYS);
	works(netlink_commit(r.l.nl)); /* nothing is left to be sent or answered */
	netlink_set_forwarding(r.l.nl, 1, false);
	works(netlink_commit(r.l.nl));
	close_rig(&r);
}

TEST(a_network_that_anything_went_through_is_not_as_new)
{
	static const struct {
		void (*act)(void);
		bool as_new;
	} rows[] = {
		{ nothing, true },
		{ use_loopback, false },
		{ use_the_way_out, false },
		{ be_filtered, false },
		{ use_ipv6, false },
		{ use_the_way_out_of_ipv6, false },
		{ connect_and_close, false },
		{ take_a_flow_label, false },
		{ join_a_group, false },
		{ join_a_group_of_ipv6, false },
		{ listen_and_close, true },
		{ bind_a_name, true },
		{ ask_about_links, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rig r;

		if (!open_rig(&r))
			return;
		enter(r.ns);
		rows[i].act();
		enter(r.l.host_ns);
		if (rows[i].as_new) {
			(void)poll(NULL, 0, REST_MS);
			works(look_until(&r, true)); /* once its sockets are freed */
		} else {
			fails(look_until(&r, false), ERR_CONFLICT);
		}
		close_rig(&r);
	}
}

TEST(a_network_that_the_host_sent_something_to_is_not_as_new)
{
	struct rig r;

	if (!open_rig(&r))
		return;
	is_true(send_to("100.64.0.7"));
	fails(netns_check(&r.l, r.ns), ERR_CONFLICT);
	close_rig(&r);
}

/* The test is in another network by then, as somebody is who was handed the descriptor. */
TEST(a_network_whose_socket_is_held_elsewhere_is_not_as_new)
{
	static const struct {
		int family, type, protocol;
	} rows[] = {
		{ AF_UNIX, SOCK_STREAM, 0 },
		{ AF_UNIX, SOCK_DGRAM, 0 },
		{ AF_INET, SOCK_STREAM, 0 },
		{ AF_INET, SOCK_STREAM, IPPROTO_MPTCP },
		{ AF_INET, SOCK_DGRAM, 0 },
		{ AF_INET, SOCK_DGRAM, IPPROTO_ICMP },
		{ AF_INET6, SOCK_STREAM, 0 },
		{ AF_INET6, SOCK_DGRAM, 0 },
		{ AF_NETLINK, SOCK_RAW, NETLINK_ROUTE },
	};
	struct rig r;

	if (!open_rig(&r))
		return;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd;

		enter(r.ns);
		fd = socket(rows[i].family, rows[i].type | SOCK_CLOEXEC, rows[i].protocol);
		enter(r.l.host_ns);
		if (fd < 0 && rows[i].protocol == IPPROTO_MPTCP)
			continue; /* not every kernel has it */
		is_true(fd >= 0);
		fails(netns_check(&r.l, r.ns), ERR_CONFLICT);
		(void)close(fd);
		works(look_until(&r, true)); /* some are freed a moment later */
	}
	close_rig(&r);
}

TEST(without_egress_the_filter_inside_lets_nothing_out)
{
	struct ip public6 = in_net(0x2d000000, 2);
	struct rig r;

	if (!open_rig_with(&r, false))
		return;
	enter(r.ns);
	is_true(!send_to("192.0.9.1"));
	is_true(!send_to("10.1.2.3"));
	is_true(send_to("127.0.0.1"));
	is_true(!send_to_ip6(&public6, NULL, 0));
	use_ipv6();
	enter(r.l.host_ns);
	close_rig(&r);
}

static void set_peers(struct rig *r, const char *out, const char *in)
{
	works(netns_peers(&r->l, r->ns, &(struct message_peers){ "caytest1", out, in }));
	enter(r->ns);
}

TEST(the_filter_inside_is_open_for_peers_and_for_no_others)
{
	struct rig r;

	if (!open_rig(&r))
		return;
	set_peers(&r, "100.64.0.9,10.1.2.0-10.1.2.7,fdca:7abc:de00::9", "100.64.0.20");
	is_true(send_to("100.64.0.9"));
	is_true(!send_to("100.64.0.8"));
	is_true(!send_to("100.64.0.10"));
	is_true(send_to("10.1.2.7"));
	is_true(!send_to("10.1.2.8"));
	is_true(send_to("100.64.0.20")); /* an answer, as far as a filter without state can tell */
	enter(r.l.host_ns);
	set_peers(&r, "100.64.0.10,224.0.0.0-255.255.255.255", "");
	is_true(!send_to("100.64.0.9"));
	is_true(!send_to("100.64.0.20"));
	is_true(send_to("100.64.0.10"));
	enter(r.l.host_ns);
	set_peers(&r, "", "");
	is_true(!send_to("100.64.0.10"));
	is_true(!send_to("10.1.2.7"));
	enter(r.l.host_ns);
	close_rig(&r);
}

TEST(lists_of_peers_may_overlap)
{
	struct rig r;

	if (!open_rig(&r))
		return;
	set_peers(&r, "100.64.0.9,100.64.0.7-100.64.0.10,100.64.0.9,fdca:7abc:de00::9,100.64.0.12",
		  "100.64.0.20,100.64.0.20");
	is_true(send_to("100.64.0.10"));
	is_true(!send_to("100.64.0.11"));
	is_true(send_to("100.64.0.12"));
	is_true(send_to("100.64.0.20"));
	enter(r.l.host_ns);
	close_rig(&r);
}

TEST(a_list_of_peers_that_cannot_be_read_changes_nothing)
{
	static const char *const lists[] = { "100.64.0.9-", "nonsense", "100.64.0.9-100.64.0.8",
					     "100.64.0.9-fdca::1", "0.0.0.0/0" };
	struct rig r;

	if (!open_rig(&r))
		return;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		fails(netns_peers(&r.l, r.ns, &(struct message_peers){ "caytest1", lists[i], "" }),
		      ERR_MALFORMED);
	enter(r.ns);
	is_true(!send_to("100.64.0.9"));
	enter(r.l.host_ns);
	close_rig(&r);
}

TEST(a_route_leads_to_the_internet_unless_all_of_it_is_reserved)
{
	static const struct {
		const char *net;
		unsigned prefix;
		bool reserved;
	} rows[] = {
		{ "0.0.0.0", 0, false },
		{ "10.0.0.0", 8, true },
		{ "10.1.2.3", 32, true },
		{ "8.0.0.0", 6, false },
		{ "11.0.0.0", 8, false },
		{ "100.64.0.0", 10, true },
		{ "100.0.0.0", 8, false },
		{ "192.0.2.0", 24, true },
		{ "192.0.3.0", 24, false },
		{ "203.0.113.0", 24, false },
		{ "169.254.0.0", 16, true },
		{ "224.0.0.0", 4, true },
		{ "128.0.0.0", 1, false },
		{ "172.31.255.1", 32, true },
		{ "172.32.0.0", 16, false },
		{ "::", 0, false },
		{ "::", 3, true },
		{ "2000::", 3, false },
		{ "fd00:ec2::254", 128, true },
		{ "fe80::", 64, true },
		{ "ff00::", 8, true },
		{ "64:ff9b::", 96, true },
		{ "2001:db8::", 32, true },
		{ "2001:db9::", 32, false },
		{ "2001::", 16, false },
		{ "2001::", 32, true },
		{ "2001:200::", 32, false },
		{ "2002:a00:1::", 48, true },
		{ "2003::", 16, false },
		{ "3fff::", 20, true },
		{ "3fff:1000::", 20, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ip net;

		is_true(ip_parse(rows[i].net, &net));
		is_true(reserved_holds_ip(&net, rows[i].prefix) == rows[i].reserved);
	}
}

TEST(the_filter_inside_stops_what_is_reserved_and_nothing_beside_it)
{
	struct rig r;

	if (!open_rig(&r))
		return;
	enter(r.ns);
	for (size_t i = 0; i < n_reserved_nets; i++) {
		uint32_t first = reserved_nets[i].net;
		uint32_t behind = first + (1u << (32 - reserved_nets[i].prefix));

		if (first >> 24 != 127) { /* that is the loopback, where all may go */
			is_true(!send_to_addr(first + !first)); /* 0.0.0.0 means oneself */
			is_true(!send_to_addr(behind - 1));
			is_true(!first || send_to_addr(first - 1));
		}
		is_true(!behind || send_to_addr(behind));
	}
	enter(r.l.host_ns);
	close_rig(&r);
}

TEST(the_filter_inside_stops_what_is_reserved_of_ipv6_and_nothing_beside_it)
{
	struct rig r;

	if (!open_rig(&r))
		return;
	enter(r.ns);
	for (size_t i = 0; i < n_reserved6_nets; i++) {
		uint32_t first = reserved6_nets[i].net;
		uint32_t behind = first + (1u << (32 - reserved6_nets[i].prefix));
		struct ip at[] = { in_net(first, 2), in_net(behind - 1, 2), in_net(first - 1, 2),
				   in_net(behind, 2) };

		is_true(reserved_holds_ip(&at[0], 128) && reserved_holds_ip(&at[1], 128));
		for (size_t k = 0; k < ARRAY_LEN(at); k++)
			is_true(send_to_ip6(&at[k], NULL, 0) != reserved_holds_ip(&at[k], 128));
	}
	enter(r.l.host_ns);
	close_rig(&r);
}

/* Headers that come before that of the transport protocol could hide it from the filter. */
TEST(the_filter_inside_stops_ipv6_with_other_headers)
{
	static const uint8_t padding[8] = { 0, 0, 1, 4 };
	struct ip to = in_net(0x2d000000, 2);
	struct rig r;

	if (!open_rig(&r))
		return;
	enter(r.ns);
	is_true(send_to_ip6(&to, NULL, 0));
	is_true(!send_to_ip6(&to, padding, IPV6_DSTOPTS));
	is_true(!send_to_ip6(&to, padding, IPV6_HOPOPTS));
	enter(r.l.host_ns);
	close_rig(&r);
}

TEST(the_filter_inside_stops_a_foreign_source_of_either_family)
{
	struct ip to = in_net(0x2d000000, 2);
	struct rig r;

	if (!open_rig(&r))
		return;
	enter(r.ns);
	is_true(send_from("100.64.0.7", "192.0.9.1"));
	is_true(!send_from("100.64.0.8", "192.0.9.1"));
	is_true(send_from6("fdca:7000::7", &to));
	is_true(!send_from6("fdca:7000::8", &to));
	is_true(!send_from6("2d00::7", &to));
	enter(r.l.host_ns);
	close_rig(&r);
}
