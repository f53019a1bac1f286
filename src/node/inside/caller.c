/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "node/host/cgroup.h"
#include "node/inside/inside_priv.h"

/*
 * Who is at the other end of a socket. The kernel noted the process when it connected; its control
 * group, which nothing in a sandbox can change, says where it is. A process number may be somebody
 * else's by now, so the process is held first and must still be alive after its group was read.
 */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/*
 * Kernels before 6.5 tell only the number of the process that connected. That process may have
 * handed the connection on and ended, even before we accepted it, and the number may belong to a
 * process of another agent now. Such a process does not hold the connection, so whoever has the
 * number must.
 */
static int hold_by_number(int fd, pid_t pid)
{
	autoclose pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	return pidfd >= 0 && holds_other_end(pid, fd) ? take_fd(pidfd) : -1;
}

/* Any other error than that of an old kernel means that the process is gone: its number is not
 * tried then. */
static int hold_peer(int fd, pid_t pid)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		return pidfd;
	return errno == ENOPROTOOPT ? hold_by_number(fd, pid) : -1;
}

char *caller_group(const struct cgroups *c, int fd)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);
	autoclose pidfd = -1;
	autofree char *group = NULL;
	struct pollfd ended;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0)
		return NULL;
	pidfd = hold_peer(fd, peer.pid);
	if (pidfd < 0)
		return NULL;
	group = cgroup_of(c, peer.pid);
	ended = (struct pollfd){ .fd = pidfd, .events = POLLIN };
	return poll(&ended, 1, 0) == 0 ? take(group) : NULL;
}
