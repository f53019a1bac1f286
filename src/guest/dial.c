/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/session_priv.h"
#include "loop/loop.h"

/*
 * A stream to a port inside. Programs listen on 127.0.0.1, on ::1 or on both; the first is tried
 * first, as every port-forward does.
 */
enum {
	DIAL_MS = 10 * 1000,
};

static int connect_start(int family, uint16_t port)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to = { 0 };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len;

	if (fd < 0)
		return -1;
	if (family == AF_INET) {
		to.v4 = (struct sockaddr_in){ .sin_family = AF_INET,
					      .sin_port = htons(port),
					      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		len = sizeof(to.v4);
	} else {
		to.v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					       .sin6_port = htons(port),
					       .sin6_addr = IN6ADDR_LOOPBACK_INIT };
		len = sizeof(to.v6);
	}
	if (connect(fd, &to.sa, len) < 0 && errno != EINPROGRESS) {
		int errnum = errno;

		(void)close(fd);
		errno = errnum;
		return -1;
	}
	return fd;
}

static void refuse(struct session *s, int errnum)
{
	autoptr(err) e = err_sys(errnum, "dial port %u", s->port);
	struct link *l = s->link;

	wire_put_failed(link_out(l), s->id, errnum, err_text(e));
	session_free(s);
	link_kick(l);
}

/* The socket waits in the input side until it is connected. False: it is all over. */
static bool try_family(struct session *s, int family, int *ret_errnum)
{
	int fd = connect_start(family, s->port);

	if (fd < 0) {
		*ret_errnum = errno;
		return false;
	}
	s->family = family;
	s->connecting = true;
	session_set_in(s, fd);
	return true;
}

static void on_late(void *arg)
{
	struct session *s = arg;

	if (s->connecting)
		refuse(s, ETIMEDOUT);
}

void dial_open(struct link *l, uint32_t id, uint16_t port)
{
	struct guest *g = link_guest(l);
	struct session *s;
	int errnum = EAGAIN;

	g->n_dials++;
	s = session_new(l, id);
	s->dial = true;
	s->port = port;
	if (g->n_dials > GUEST_DIALS_MAX ||
	    (!try_family(s, AF_INET, &errnum) && !try_family(s, AF_INET6, &errnum))) {
		refuse(s, errnum);
		return;
	}
	s->timer = timer_new(g->loop, on_late, s);
	timer_set(s->timer, DIAL_MS);
	session_settle(s);
}

static void in_drop(struct session *s)
{
	watch_free(take(s->in_watch));
	(void)close(take_fd(s->in));
}

void dial_connected(struct session *s)
{
	int errnum = 0, copy;
	socklen_t len = sizeof(errnum);

	(void)getsockopt(s->in, SOL_SOCKET, SO_ERROR, &errnum, &len);
	s->connecting = false;
	if (errnum) {
		in_drop(s);
		if (s->family != AF_INET || !try_family(s, AF_INET6, &errnum)) {
			refuse(s, errnum);
			return;
		}
		session_settle(s);
		return;
	}
	copy = fcntl(s->in, F_DUPFD_CLOEXEC, 3);
	if (copy < 0) {
		refuse(s, errno);
		return;
	}
	session_set_out(s, 0, copy, WIRE_STDOUT);
	wire_put_u32s(link_out(s->link), WIRE_STARTED_OK, s->id, &(uint32_t){ 0 }, 1);
	session_flush(s);
}
