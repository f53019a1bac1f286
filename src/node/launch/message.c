/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "node/launch/launch.h"

/* Messages between daemon, launcher and slots: a text and a few descriptors, never blocking long.
 */

struct err *launch_send(int fd, const char *text, size_t len, const int *fds, unsigned n_fds)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int) * LAUNCH_FDS_MAX)];
	} ctl = { 0 };
	struct iovec iov = { (void *)(uintptr_t)text, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds) {
		m.msg_control = &ctl;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		ctl.head.cmsg_level = SOL_SOCKET;
		ctl.head.cmsg_type = SCM_RIGHTS;
		ctl.head.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(&ctl.head), fds, sizeof(int) * n_fds);
	}
	for (;;) {
		if (sendmsg(fd, &m, MSG_NOSIGNAL) >= 0)
			return NULL;
		if (errno != EINTR)
			return err_sys(errno, "send a launcher message");
	}
}

struct err *launch_send_json(int fd, const struct json *v, const int *fds, unsigned n_fds)
{
	autobuf text = { 0 };

	json_write(v, &text);
	if (text.len > LAUNCH_MSG_MAX)
		return err_new(ERR_TOO_LARGE, "send a launcher message of %zu bytes", text.len);
	return launch_send(fd, buf_head(&text), text.len, fds, n_fds);
}

static void take_descriptors(struct msghdr *m, struct launch_msg *ret)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		unsigned n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (unsigned i = 0; i < n && ret->n_fds < LAUNCH_FDS_MAX; i++)
			memcpy(&ret->fds[ret->n_fds++], CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
	}
}

struct err *launch_recv(int fd, struct launch_msg *ret, bool *ret_again)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int) * LAUNCH_FDS_MAX)];
	} ctl;
	struct iovec iov = { ret->text, LAUNCH_MSG_MAX };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof(ctl)
	};
	ssize_t n;

	*ret_again = false;
	ret->n_fds = 0;
	do
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		*ret_again = true;
		return NULL;
	}
	if (n < 0 && errno == ECONNRESET)
		n = 0; /* it ended with something of ours unread: an end all the same */
	else if (n >= 0)
		take_descriptors(&m, ret);
	if (n < 0)
		return err_sys(errno, "receive a launcher message");
	ret->len = (size_t)n;
	ret->text[n] = '\0';
	return NULL;
}

void launch_msg_close(struct launch_msg *m)
{
	for (unsigned i = 0; i < m->n_fds; i++)
		if (m->fds[i] >= 0)
			(void)close(m->fds[i]);
	m->n_fds = 0;
}
