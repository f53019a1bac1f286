/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/unix_diag.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "node/inside/inside_priv.h"

/*
 * Whether a process holds the other end of a connection:
 *
 *   our socket → the number of the one at the other end (sock_diag) → is it in /proc/PID/fd?
 *
 * The kernel answers about the sockets of one network namespace. That of a connection is the
 * namespace of whoever connected, which may be a sandbox's or that of a view.
 */
enum {
	FDS_MAX = 1024, /* descriptors that are looked at: a sandbox decides how many there are */
	ANSWER_MAX = 1024,
};

struct question {
	struct nlmsghdr head;
	struct unix_diag_req req;
};

static int netlink_beside(int fd)
{
	autoclose own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	autoclose other = ioctl(fd, SIOCGSKNS);
	int netlink;

	if (own < 0 || other < 0 || setns(other, CLONE_NEWNET) < 0)
		return -1;
	netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (setns(own, CLONE_NEWNET) < 0)
		abort(); /* nothing of the daemon may go on in a network of a sandbox */
	return netlink;
}

static bool question_about(int fd, struct question *ret)
{
	struct stat st;
	uint64_t cookie;
	socklen_t len = sizeof(cookie);

	if (fstat(fd, &st) < 0 || getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0)
		return false;
	*ret = (struct question){
		.head = { .nlmsg_len = sizeof(*ret),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.req = { .sdiag_family = AF_UNIX,
			 .udiag_states = ~0u,
			 .udiag_ino = (uint32_t)st.st_ino,
			 .udiag_show = UDIAG_SHOW_PEER,
			 .udiag_cookie = { (uint32_t)cookie, (uint32_t)(cookie >> 32) } },
	};
	return true;
}

/* 0: nobody holds it any more. */
static uint32_t peer_in(const struct nlmsghdr *h)
{
	const struct nlattr *a;

	mnl_attr_for_each(a, h, sizeof(struct unix_diag_msg))
	{
		if (mnl_attr_get_type(a) == UNIX_DIAG_PEER && !mnl_attr_validate(a, MNL_TYPE_U32))
			return mnl_attr_get_u32(a);
	}
	return 0;
}

/* The number of the socket at the other end; 0: unknown. The kernel answers within send(). */
static uint32_t peer_of(int fd)
{
	_Alignas(NLMSG_ALIGNTO) char room[ANSWER_MAX];
	const struct nlmsghdr *h = (const void *)room;
	autoclose netlink = netlink_beside(fd);
	struct question q;
	ssize_t n;

	if (netlink < 0 || !question_about(fd, &q) || send(netlink, &q, sizeof(q), 0) < 0)
		return 0;
	n = recv(netlink, room, sizeof(room), MSG_DONTWAIT);
	if (!mnl_nlmsg_ok(h, (int)n) || h->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return 0;
	return peer_in(h);
}

static bool is_link_to(int dir, const char *name, const char *to)
{
	char text[64];
	ssize_t n = readlinkat(dir, name, text, sizeof(text));

	return n > 0 && span_eq((struct span){ text, (size_t)n }, to);
}

static bool has_socket(pid_t pid, uint32_t number)
{
	autofree char *path = xasprintf("/proc/%d/fd", (int)pid);
	autofree char *to = xasprintf("socket:[%u]", number);
	const struct dirent *d;
	DIR *dir = opendir(path);
	bool found = false;

	for (unsigned n = 0; dir && !found && n < FDS_MAX && (d = readdir(dir)); n++)
		found = is_link_to(dirfd(dir), d->d_name, to);
	if (dir)
		(void)closedir(dir);
	return found;
}

bool holds_other_end(pid_t pid, int fd)
{
	uint32_t number = peer_of(fd);

	return number && has_socket(pid, number);
}
