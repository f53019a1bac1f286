/* SPDX-License-Identifier: Apache-2.0 */
#include "router/callers/callers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "loop/jobs.h"
#include "loop/loop.h"

/* It has a field of this name. */
#pragma push_macro("unused")
#undef unused
#include <linux/inet_diag.h>
#pragma pop_macro("unused")

/*
 * A connection within this machine has both of its sockets here, and the kernel knows who made
 * each. We ask it for the socket whose addresses are those of our own, exchanged (sock_diag), as
 * soon as a connection is accepted.
 *
 * The answer counts only if that socket was established, has not received our end of the stream,
 * and has an inode: the kernel says uid 0 of one that was closed or is still being opened. (In
 * FIN_WAIT the caller has sent all that it will send, or has left; only the inode tells.) And our
 * own end must still be connected afterwards. As long as it is, no other connection can have the
 * same addresses, so the socket that was found is its other end and not one that took over the port
 * of a caller who has left.
 */
enum {
	ANSWER_MAX = 8192,
	KNOWN_MAX = 1024,
	KNOWN_US = 30 * 1000 * 1000, /* so long a group may be changed without effect */
	GROUPS_MAX = 65536,          /* the kernel's own limit */
	PASSWD_MAX = 64 * 1024,
};

struct known {
	uid_t uid;
	bool member;
	usec until;
};

struct callers {
	int netlink;
	struct router_caller *of; /* by descriptor; written anew when one is accepted */
	size_t n_of;
	uid_t self;
	bool has_group;
	gid_t group;
	struct known known[KNOWN_MAX];
	size_t n_known;
	bool looking; /* one at a time */
	struct jobs jobs;
	void (*learned)(void *arg);
	void *arg;
};

struct lookup {
	struct callers *callers;
	uid_t uid;
	gid_t group;
	bool member;
};

/* The group database may be anywhere (NSS), so this is a job. */
static void look_up(void *arg)
{
	struct lookup *k = arg;
	autofree char *room = xmalloc(PASSWD_MAX);
	struct passwd pw, *found = NULL;
	autofree gid_t *groups = NULL;
	int n = GROUPS_MAX;

	if (getpwuid_r(k->uid, &pw, room, PASSWD_MAX, &found) || !found)
		return;
	groups = xcalloc(GROUPS_MAX, sizeof(*groups));
	if (getgrouplist(pw.pw_name, pw.pw_gid, groups, &n) < 0)
		return;
	for (int i = 0; i < n && !k->member; i++)
		k->member = groups[i] == k->group;
}

static void looked_up(void *arg)
{
	struct lookup *k = arg;
	struct callers *c = k->callers;

	if (c->n_known == KNOWN_MAX)
		c->n_known = 0;
	c->known[c->n_known++] = (struct known){ k->uid, k->member, clock_mono() + KNOWN_US };
	c->looking = false;
	free(k);
	if (c->learned)
		c->learned(c->arg);
}

static const struct known *find_known(const struct callers *c, uid_t uid)
{
	usec now = clock_mono();

	for (size_t i = c->n_known; i-- > 0;)
		if (c->known[i].uid == uid)
			return c->known[i].until > now ? &c->known[i] : NULL;
	return NULL;
}

static void start_lookup(struct callers *c, uid_t uid)
{
	struct lookup *k;

	if (c->looking)
		return;
	c->looking = true;
	k = xnew(struct lookup);
	*k = (struct lookup){ .callers = c, .uid = uid, .group = c->group };
	jobs_run(&c->jobs, look_up, looked_up, k);
}

struct err *callers_new(struct loop *l, const gid_t *group, void (*learned)(void *arg), void *arg,
			struct callers **ret)
{
	struct callers *c;
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return err_sys(errno, "open a netlink socket");
	c = xnew(struct callers);
	c->netlink = fd;
	c->self = geteuid();
	c->has_group = group;
	c->group = group ? *group : 0;
	c->learned = learned;
	c->arg = arg;
	jobs_init(&c->jobs, l, NULL, NULL);
	*ret = c;
	return NULL;
}

void callers_free(struct callers *c)
{
	if (!c)
		return;
	c->learned = NULL;
	jobs_wait(&c->jobs);
	(void)close(c->netlink);
	free(c->of);
	free(c);
}

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 req;
};

/* The kernel answers before send() returns. */
static bool ask(int netlink, const struct question *q, struct inet_diag_msg *ret)
{
	_Alignas(NLMSG_ALIGNTO) char room[ANSWER_MAX];
	const struct nlmsghdr *h = (const void *)room;
	ssize_t n;

	while (recv(netlink, room, sizeof(room), MSG_DONTWAIT) > 0)
		; /* nothing of an earlier question is left, or it would count for this one */
	if (send(netlink, q, sizeof(*q), 0) < 0)
		return false;
	n = recv(netlink, room, sizeof(room), MSG_DONTWAIT);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(*ret)) || h->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	memcpy(ret, NLMSG_DATA(h), sizeof(*ret));
	return true;
}

static void put_addr(const struct sockaddr_in6 *a, bool v4, __be32 ret[4], __be16 *ret_port)
{
	const struct sockaddr_in *in4 = (const void *)a;

	*ret_port = a->sin6_port; /* at the same place in both */
	if (a->sin6_family == AF_INET)
		memcpy(ret, &in4->sin_addr, 4);
	else if (v4)
		memcpy(ret, &a->sin6_addr.s6_addr[12], 4);
	else
		memcpy(ret, &a->sin6_addr, 16);
}

/* For the socket that has the address src and is connected to dst. */
static bool question_of(const struct sockaddr_in6 *src, const struct sockaddr_in6 *dst,
			struct question *ret)
{
	bool v4 = src->sin6_family == AF_INET ||
		  (src->sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&src->sin6_addr));

	if (src->sin6_family != AF_INET && src->sin6_family != AF_INET6)
		return false;
	*ret = (struct question){
		.head = { .nlmsg_len = sizeof(*ret),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.req = { .sdiag_family = v4 ? AF_INET : AF_INET6,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = ~0u,
			 .id = { .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } },
	};
	put_addr(src, v4, ret->req.id.idiag_src, &ret->req.id.idiag_sport);
	put_addr(dst, v4, ret->req.id.idiag_dst, &ret->req.id.idiag_dport);
	return true;
}

static bool connected(int fd)
{
	struct sockaddr_in6 a;
	socklen_t len = sizeof(a);

	return getpeername(fd, (struct sockaddr *)&a, &len) == 0;
}

static bool is_held(const struct inet_diag_msg *m)
{
	bool open = m->idiag_state == TCP_ESTABLISHED || m->idiag_state == TCP_FIN_WAIT1 ||
		    m->idiag_state == TCP_FIN_WAIT2;

	return open && m->idiag_inode;
}

bool caller_uid(int netlink, int fd, uid_t *ret)
{
	struct sockaddr_in6 own = { 0 }, peer = { 0 };
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
	struct inet_diag_msg m;
	struct question q;

	if (getsockname(fd, (struct sockaddr *)&own, &own_len) < 0 ||
	    getpeername(fd, (struct sockaddr *)&peer, &peer_len) < 0)
		return false;
	if (!question_of(&peer, &own, &q) || !ask(netlink, &q, &m))
		return false;
	if (!is_held(&m) || !connected(fd))
		return false;
	*ret = m.idiag_uid;
	return true;
}

/* A question whose answer is known: our own listening socket. */
struct err *callers_check(struct callers *c, int listen_fd)
{
	struct sockaddr_in6 own = { 0 }, none;
	socklen_t len = sizeof(own);
	struct inet_diag_msg m;
	struct question q;

	if (getsockname(listen_fd, (struct sockaddr *)&own, &len) < 0)
		return err_sys(errno, "get local address");
	none = (struct sockaddr_in6){ .sin6_family = own.sin6_family };
	if (question_of(&own, &none, &q) && ask(c->netlink, &q, &m) && m.idiag_state == TCP_LISTEN)
		return NULL;
	return err_new(ERR_UNSUPPORTED,
		       "the kernel does not tell who owns a socket; load its module tcp_diag");
}

/* Nobody yet. */
static struct router_caller *entry(struct callers *c, int fd)
{
	size_t n;

	if ((size_t)fd >= c->n_of) {
		n = MAX((size_t)fd + 1, 2 * c->n_of);
		c->of = xrealloc(c->of, n * sizeof(*c->of));
		memset(c->of + c->n_of, 0, (n - c->n_of) * sizeof(*c->of));
		c->n_of = n;
	}
	c->of[fd] = (struct router_caller){ 0 };
	return &c->of[fd];
}

void callers_accepted(struct callers *c, int fd)
{
	struct router_caller *who = entry(c, fd);

	who->local = caller_uid(c->netlink, fd, &who->uid);
	who->trusted = who->local && (!who->uid || who->uid == c->self);
}

void callers_adopted(struct callers *c, int fd, uint64_t ticket)
{
	entry(c, fd)->ticket = ticket;
}

bool callers_find(struct callers *c, int fd, struct router_caller *ret)
{
	const struct known *k;

	*ret = (struct router_caller){ 0 };
	if (fd < 0 || (size_t)fd >= c->n_of)
		return true;
	*ret = c->of[fd];
	if (ret->trusted || !ret->local || !c->has_group)
		return true;
	k = find_known(c, ret->uid);
	if (k)
		ret->trusted = k->member;
	else
		start_lookup(c, ret->uid);
	return k;
}
