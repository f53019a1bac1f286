/* SPDX-License-Identifier: Apache-2.0 */
#include "router/callers/callers.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"
#include "rig.h"
#include "router/route/route.h"

/* Who has connected, and whether Host names us. */
enum {
	NOBODY = 65534,
};

/* A connection between two sockets, of which the first was made by another user. */
struct pair {
	int theirs, ours, netlink;
};

static void needs_root(void)
{
	if (geteuid() != 0)
		skip_because("needs root: makes sockets of another user");
}

static int listen_at(const char *addr, char text[64])
{
	int fd;

	works(net_listen(addr, &fd));
	works(net_local_addr(fd, text, 64));
	return fd;
}

static void wait_readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	eq_int(poll(&p, 1, 20000), 1);
}

static void pair_make(struct pair *p, const char *listen, const char *host)
{
	char text[64];
	int fd = listen_at(listen, text);
	autofree char *to = xasprintf("%s:%s", host, strrchr(text, ':') + 1);

	p->netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	is_true(p->netlink >= 0);
	eq_int(seteuid(NOBODY), 0);
	works(net_connect(to, &p->theirs));
	eq_int(seteuid(0), 0);
	wait_readable(fd);
	p->ours = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	is_true(p->ours >= 0);
	(void)close(fd);
}

static void pair_done(const struct pair *p)
{
	if (p->theirs >= 0)
		(void)close(p->theirs);
	(void)close(p->ours);
	(void)close(p->netlink);
}

TEST(the_owner_of_a_connection_is_found_in_every_family)
{
	static const struct {
		const char *listen, *host;
	} rows[] = { { "127.0.0.1:0", "127.0.0.1" },
		     { "127.0.0.1:0", "[::ffff:127.0.0.1]" },
		     { "[::]:0", "127.0.0.1" },
		     { "[::]:0", "[::ffff:127.0.0.1]" },
		     { "[::1]:0", "[::1]" } };

	needs_root();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pair p;
		uid_t uid = 0;

		pair_make(&p, rows[i].listen, rows[i].host);
		is_true(caller_uid(p.netlink, p.ours, &uid));
		eq_int(uid, NOBODY);
		pair_done(&p);
	}
}

/* The kernel says 0 of a socket that nobody holds any more. */
TEST(a_caller_who_has_left_is_nobody_and_not_root)
{
	struct pair p;
	uid_t uid = 1;

	needs_root();
	pair_make(&p, "127.0.0.1:0", "127.0.0.1");
	eq_int(send(p.theirs, "GET", 3, 0), 3);
	(void)close(take_fd(p.theirs));
	wait_readable(p.ours);
	is_false(caller_uid(p.netlink, p.ours, &uid));
	eq_int(uid, 1);
	pair_done(&p);
}

TEST(a_caller_who_has_sent_everything_is_still_known)
{
	struct pair p;
	uid_t uid = 0;

	needs_root();
	pair_make(&p, "127.0.0.1:0", "127.0.0.1");
	eq_int(send(p.theirs, "GET", 3, 0), 3);
	eq_int(shutdown(p.theirs, SHUT_WR), 0);
	wait_readable(p.ours);
	is_true(caller_uid(p.netlink, p.ours, &uid));
	eq_int(uid, NOBODY);
	(void)close(take_fd(p.theirs)); /* the same state, but nobody holds it */
	is_false(caller_uid(p.netlink, p.ours, &uid));
	pair_done(&p);
}

TEST(a_caller_who_has_reset_the_connection_is_nobody)
{
	const struct linger cut = { .l_onoff = 1 };
	struct pair p;
	uid_t uid = 1;

	needs_root();
	pair_make(&p, "127.0.0.1:0", "127.0.0.1");
	eq_int(send(p.theirs, "GET", 3, 0), 3);
	eq_int(setsockopt(p.theirs, SOL_SOCKET, SO_LINGER, &cut, sizeof(cut)), 0);
	(void)close(take_fd(p.theirs));
	wait_readable(p.ours);
	is_false(caller_uid(p.netlink, p.ours, &uid));
	eq_int(uid, 1);
	pair_done(&p);
}

TEST(host_names_us_or_is_refused)
{
	static const char *const hosts[] = { "localhost", "box.example", NULL };
	static const struct {
		const char *host;
		bool served;
	} rows[] = {
		{ "localhost", true },
		{ "LocalHost:8080", true },
		{ "localhost.:8080", true },
		{ "box.example:80", true },
		{ "127.0.0.1:8080", true },
		{ "127.9.9.9", true },
		{ "[::1]:8080", true },
		{ "[::ffff:127.0.0.1]", true },
		{ "evil.example", false },
		{ "localhost.evil.example", false },
		{ "evil.example:localhost", false },
		{ "0.0.0.0:8080", false },
		{ "10.0.0.1", false },
		{ "[fe80::1]", false },
		{ "[::1", false },
		{ "127.1", false },
		{ "0x7f000001", false },
		{ ":8080", false },
		{ ".", false },
		{ "", false },
		{ NULL, false },
	};
	char text[64];
	int fd = listen_at("127.0.0.1:0", text);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (host_served(hosts, rows[i].host, fd) != rows[i].served)
			fail_msg("\"%s\"", rows[i].host);
	(void)close(fd);
	fd = listen_at("0.0.0.0:0", text);
	is_true(host_served(hosts, "0.0.0.0", fd)); /* the address of this very socket */
	(void)close(fd);
}

#define TO_BOX "X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"

static struct err *note(void *arg, const struct router_ask *ask, unused struct list **ret_wait)
{
	*(struct router_caller *)arg = ask->caller;
	return ask->caller.trusted ? NULL : err_new(ERR_UNAUTHENTICATED, "no");
}

static char *ask_as(struct rig *g, uid_t uid, struct router_caller *ret)
{
	char *answer;
	int fd;

	router_set_policy(g->router, note, ret);
	eq_int(seteuid(uid), 0);
	fd = rig_connect(g);
	eq_int(seteuid(0), 0);
	rig_send(g, fd, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" TO_BOX "\r\n",
		 g->port);
	answer = rig_read(g, fd, NULL);
	(void)close(fd);
	return answer;
}

TEST(the_policy_learns_who_asks)
{
	struct router_caller who = { 0 };
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL;

	needs_root();
	rig_start(&g, &(struct router_spec){ .tell_callers = true });
	rig_ready(&g, "box", "127.0.0.2");
	a = ask_as(&g, 0, &who);
	eq_int(rig_status(a), 201);
	is_true(who.local && who.trusted && !who.uid);
	b = ask_as(&g, NOBODY, &who);
	eq_int(rig_status(b), 401);
	is_true(strstr(b, "WWW-Authenticate: Bearer"));
	is_true(who.local && !who.trusted && who.uid == NOBODY);
	eq_int(g.n_requests, 1);
	rig_stop(&g);
}

TEST(members_of_the_group_are_trusted_and_their_requests_wait_for_the_lookup)
{
	static const struct {
		gid_t group;
		int status;
	} rows[] = { { NOBODY, 201 }, { 4711, 401 } };

	needs_root();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct router_spec spec = { .tell_callers = true,
					    .has_group = true,
					    .group = rows[i].group };
		struct router_caller who = { 0 };
		struct rig g = { 0 };

		rig_start(&g, &spec);
		rig_ready(&g, "box", "127.0.0.2");
		for (int n = 0; n < 2; n++) { /* by a job, then from memory */
			autofree char *a = ask_as(&g, NOBODY, &who);

			eq_int(rig_status(a), rows[i].status);
			is_true(who.local && who.uid == NOBODY);
		}
		rig_stop(&g);
	}
}

TEST(a_caller_may_leave_while_it_is_looked_up)
{
	struct router_spec spec = { .tell_callers = true, .has_group = true, .group = NOBODY };
	struct router_caller who = { 0 };
	struct rig g = { 0 };
	int fd;

	needs_root();
	rig_start(&g, &spec);
	rig_ready(&g, "box", "127.0.0.2");
	router_set_policy(g.router, note, &who);
	eq_int(seteuid(NOBODY), 0);
	fd = rig_connect(&g);
	eq_int(seteuid(0), 0);
	rig_send(&g, fd, "GET / HTTP/1.1\r\nHost: x\r\n" TO_BOX "\r\n", g.port);
	(void)close(fd);
	rig_settle(&g);
	rig_stop(&g);
}

TEST(a_foreign_host_is_misdirected_before_anything_else)
{
	static const char *const hosts[] = { "front.example", NULL };
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL, *c = NULL;

	rig_start(&g, &(struct router_spec){ .hosts = hosts });
	rig_ready(&g, "box", "127.0.0.2");
	a = rig_ask(&g, "GET /", TO_BOX, g.port);
	eq_int(rig_status(a), 201);
	b = rig_ask(&g, "GET http://evil.example/", TO_BOX, g.port);
	eq_int(rig_status(b), 421);
	c = rig_ask(&g, "GET /healthz", "%s", "");
	eq_int(rig_status(c), 200);
	eq_int(g.n_requests, 1);
	rig_stop(&g);
}
