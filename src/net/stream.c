/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/str.h"

/*
 * Plain streams, and sockets on literal addresses. A pipe or a terminal is a plain stream too,
 * except that its sending direction can be ended only by closing it.
 */
struct plain {
	struct stream stream;
	bool socket;
};

/* An address as bytes, with their length. */
struct net_addr {
	struct sockaddr_storage ss;
	socklen_t len;
};

static struct plain *plain_of(struct stream *s)
{
	return container_of(s, struct plain, stream);
}

static ssize_t plain_failed(const char *what, struct err **ret_err)
{
	if (errno == EAGAIN || errno == EINTR)
		return STREAM_AGAIN;
	*ret_err = err_sys(errno, "%s", what);
	return STREAM_FAILED;
}

static ssize_t plain_read(struct stream *s, void *p, size_t len, struct err **ret_err)
{
	ssize_t n = read(s->fd, p, len);

	if (n > 0)
		return n;
	if (n == 0)
		return STREAM_EOF;
	if (errno == EIO && !plain_of(s)->socket)
		return STREAM_EOF; /* a terminal whose last user has left */
	return plain_failed("read from connection", ret_err);
}

static ssize_t plain_write(struct stream *s, const void *p, size_t len, struct err **ret_err)
{
	ssize_t n;

	if (plain_of(s)->socket)
		n = send(s->fd, p, len, MSG_NOSIGNAL);
	else
		n = write(s->fd, p, len);
	if (n >= 0)
		return n;
	return plain_failed("write to connection", ret_err);
}

static bool plain_shutdown(struct stream *s)
{
	if (plain_of(s)->socket)
		(void)shutdown(s->fd, SHUT_WR); /* fails with ENOTCONN if the peer has gone */
	return true;
}

static unsigned plain_wants(unused const struct stream *s)
{
	return 0;
}

static bool plain_pending(unused const struct stream *s)
{
	return false;
}

static void plain_free(struct stream *s)
{
	(void)close(s->fd);
	free(plain_of(s));
}

static const struct stream_ops plain_ops = {
	.read = plain_read,
	.write = plain_write,
	.shutdown = plain_shutdown,
	.wants = plain_wants,
	.pending = plain_pending,
	.free = plain_free,
};

struct stream *stream_plain(int fd)
{
	struct plain *p = xnew(struct plain);
	int type;
	socklen_t len = sizeof(type);

	p->stream.ops = &plain_ops;
	p->stream.fd = fd;
	p->socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0;
	return &p->stream;
}

void stream_free(struct stream *s)
{
	if (s)
		s->ops->free(s);
}

static struct err *parse_unix(const char *path, struct net_addr *ret)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&ret->ss;
	size_t len = strlen(path);

	if (!len || len >= sizeof(un->sun_path))
		return err_new(ERR_INVALID, "socket path %s is empty or longer than %zu bytes",
			       path, sizeof(un->sun_path) - 1);
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path, len + 1);
	ret->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	return NULL;
}

static struct err *parse_inet(const char *host, uint16_t port, struct net_addr *ret)
{
	struct sockaddr_in *in4 = (struct sockaddr_in *)&ret->ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ret->ss;

	if (inet_pton(AF_INET, host, &in4->sin_addr) == 1) {
		in4->sin_family = AF_INET;
		in4->sin_port = htons(port);
		ret->len = sizeof(*in4);
		return NULL;
	}
	if (inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		ret->len = sizeof(*in6);
		return NULL;
	}
	return err_new(ERR_INVALID, "%s is not a literal IP address", host);
}

static struct err *parse_addr(const char *addr, struct net_addr *ret)
{
	const char *colon = strrchr(addr, ':');
	char host[INET6_ADDRSTRLEN + 2];
	uint64_t port;
	size_t len;
	struct err *e;

	memset(ret, 0, sizeof(*ret));
	if (str_starts(addr, "unix:"))
		return parse_unix(addr + strlen("unix:"), ret);
	if (!colon)
		return err_new(ERR_INVALID, "address %s has no port", addr);
	e = parse_uint(colon + 1, UINT16_MAX, &port);
	if (e)
		return err_recode(err_wrap(e, "read port of %s", addr), ERR_INVALID);

	len = (size_t)(colon - addr);
	if (len >= 2 && addr[0] == '[' && colon[-1] == ']') {
		addr++;
		len -= 2;
	} else if (memchr(addr, ':', len)) {
		return err_new(ERR_INVALID,
			       "address %s has more than one colon; put IPv6 in brackets", addr);
	}
	if (len >= sizeof(host))
		return err_new(ERR_INVALID, "%s does not begin with a literal IP address", addr);
	memcpy(host, addr, len);
	host[len] = '\0';
	return parse_inet(host, (uint16_t)port, ret);
}

static int socket_for(const struct net_addr *a)
{
	int one = 1;
	int fd = socket(a->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && a->ss.ss_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* A socket file on which nobody answers was left behind by a process that died. */
static bool unix_stale(const struct net_addr *a)
{
	autoclose fd = socket_for(a);

	if (a->ss.ss_family != AF_UNIX || fd < 0)
		return false;
	if (connect(fd, (const struct sockaddr *)&a->ss, a->len) == 0 || errno != ECONNREFUSED)
		return false;
	return unlink(((const struct sockaddr_un *)&a->ss)->sun_path) == 0;
}

static int bind_addr(int fd, const struct net_addr *a)
{
	int r = bind(fd, (const struct sockaddr *)&a->ss, a->len);

	if (r < 0 && errno == EADDRINUSE && unix_stale(a))
		r = bind(fd, (const struct sockaddr *)&a->ss, a->len);
	return r;
}

struct err *net_listen(const char *addr, int *ret_fd)
{
	autoclose fd = -1;
	struct net_addr a;
	int one = 1;
	struct err *e;

	e = parse_addr(addr, &a);
	if (e)
		return e;
	fd = socket_for(&a);
	if (fd < 0)
		return err_sys(errno, "open socket for %s", addr);
	if (a.ss.ss_family != AF_UNIX)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind_addr(fd, &a) < 0)
		return err_sys(errno, "bind to %s", addr);
	if (listen(fd, SOMAXCONN) < 0)
		return err_sys(errno, "listen on %s", addr);
	*ret_fd = take_fd(fd);
	return NULL;
}

struct err *net_connect_marked(const char *addr, uint32_t mark, int *ret_fd)
{
	autoclose fd = -1;
	struct net_addr a;
	struct err *e;

	e = parse_addr(addr, &a);
	if (e)
		return e;
	fd = socket_for(&a);
	if (fd < 0)
		return err_sys(errno, "open socket for %s", addr);
	if (mark && setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0)
		return err_sys(errno, "mark the connection to %s", addr);
	if (connect(fd, (const struct sockaddr *)&a.ss, a.len) < 0 && errno != EINPROGRESS)
		return err_recode(err_sys(errno, "connect to %s", addr), ERR_UNAVAILABLE);
	*ret_fd = take_fd(fd);
	return NULL;
}

struct err *net_connect(const char *addr, int *ret_fd)
{
	return net_connect_marked(addr, 0, ret_fd);
}

static struct err *print_addr(const struct net_addr *a, char *ret, size_t size)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)&a->ss;
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)&a->ss;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->ss;
	char text[INET6_ADDRSTRLEN];
	int n;

	if (a->ss.ss_family == AF_UNIX) {
		bool named = a->len > offsetof(struct sockaddr_un, sun_path);

		n = snprintf(ret, size, "unix:%.*s", (int)sizeof(un->sun_path),
			     named ? un->sun_path : "");
	} else if (a->ss.ss_family == AF_INET) {
		inet_ntop(AF_INET, &in4->sin_addr, text, sizeof(text));
		n = snprintf(ret, size, "%s:%u", text, ntohs(in4->sin_port));
	} else if (a->ss.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
		n = snprintf(ret, size, "[%s]:%u", text, ntohs(in6->sin6_port));
	} else {
		return err_new(ERR_UNSUPPORTED, "address family %d is not supported",
			       a->ss.ss_family);
	}
	if (n < 0 || (size_t)n >= size)
		return err_new(ERR_TOO_LARGE, "the address does not fit into %zu bytes", size);
	return NULL;
}

struct err *net_local_addr(int fd, char *ret, size_t size)
{
	struct net_addr a = { .len = sizeof(a.ss) };

	if (getsockname(fd, (struct sockaddr *)&a.ss, &a.len) < 0)
		return err_sys(errno, "get local address");
	return print_addr(&a, ret, size);
}

struct err *net_peer_addr(int fd, char *ret, size_t size)
{
	struct net_addr a = { .len = sizeof(a.ss) };

	if (getpeername(fd, (struct sockaddr *)&a.ss, &a.len) < 0)
		return err_sys(errno, "get peer address");
	return print_addr(&a, ret, size);
}
