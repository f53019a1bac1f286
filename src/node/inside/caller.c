/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "node/host/cgroup.h"
#include "node/host/features.h"
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

/* An error means that the process is gone: its number is not tried then. */
static int hold_peer(int fd)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);

	return getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0 ? -1 : pidfd;
}

static int hold(const struct features *fs, int fd, pid_t pid)
{
	if (features_have(fs, FEATURE_PEER_PIDFD))
		return hold_peer(fd);
	return features_have(fs, FEATURE_UNIX_DIAG) ? hold_by_number(fd, pid) : -1;
}

char *caller_group(const struct inside_spec *spec, int fd)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);
	autoclose pidfd = -1;
	autofree char *group = NULL;
	struct pollfd ended;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0)
		return NULL;
	pidfd = hold(spec->features, fd, peer.pid);
	if (pidfd < 0)
		return NULL;
	group = cgroup_of(spec->cgroups, peer.pid);
	ended = (struct pollfd){ .fd = pidfd, .events = POLLIN };
	return poll(&ended, 1, 0) == 0 ? take(group) : NULL;
}
