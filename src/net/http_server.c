/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_server.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/http_server_priv.h"
#include "net/stream.h"

/*
 * Accepting. At max_conns, and when the process has no descriptors left, a connection on which
 * nothing happens is closed: one that has never sent a byte if there is any, else the one that has
 * been idle longest. If all are busy, new ones wait in the kernel's queue until one ends.
 */
enum {
	ACCEPT_BUDGET = 16,
	RETRY_MS = 100,
	SILENT_LOOK = 64, /* at so many idle connections, to find a silent one */
};

/* TLS has its handshake before the first request, so we ask the kernel. */
static bool is_silent(const struct http_link *k)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(conn_stream(k->conn)->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return false;
	return len > offsetof(struct tcp_info, tcpi_bytes_received) && !info.tcpi_bytes_received;
}

static void close_quietest(struct http_server *s)
{
	struct http_link *k, *quietest = list_first(&s->idle, struct http_link, idle);
	int looked = 0;

	list_each(k, &s->idle, idle) {
		if (is_silent(k)) {
			quietest = k;
			break;
		}
		if (++looked == SILENT_LOOK)
			break;
	}
	quietest->ops->close(quietest);
}

/* The only place that decides whether we poll for new connections. */
static void server_poll(struct http_server *s)
{
	bool space = s->n_conns < s->spec.limits.max_conns || !list_empty(&s->idle);

	if (s->watch)
		watch_want(s->watch, space && !timer_armed(s->retry) ? WATCH_READ : 0);
}

static void server_retry(void *arg)
{
	server_poll(arg);
}

/* "1.2.3.4:" of "1.2.3.4:567" */
static size_t host_len(const char *peer)
{
	const char *colon = strrchr(peer, ':');

	return colon ? (size_t)(colon - peer) + 1 : strlen(peer);
}

/* A walk over all: servers with this limit have few connections. */
static bool peer_is_full(const struct http_server *s, const char *peer)
{
	size_t limit = s->spec.limits.max_conns_per_peer, len = host_len(peer), n = 0;
	const struct http_link *k;

	if (!limit)
		return false;
	list_each(k, &s->conns, all)
		n += host_len(k->peer) == len && !memcmp(k->peer, peer, len);
	return n >= limit;
}

static void server_take(struct http_server *s, int fd)
{
	char peer[sizeof(((struct http_link *)0)->peer)] = "unknown";
	struct stream *stream;

	err_free(net_peer_addr(fd, peer, sizeof(peer))); /* fails if the peer has left already */
	if (peer_is_full(s, peer)) {
		(void)close(fd);
		return;
	}
	stream = s->spec.wrap ? s->spec.wrap(s->spec.wrap_arg, fd) : stream_plain(fd);
	if (!stream)
		return;
	if (s->n_conns >= s->spec.limits.max_conns)
		close_quietest(s);
	http_conn_new(s, stream, peer);
}

static void server_ready(void *arg, unused unsigned ready)
{
	struct http_server *s = arg;

	for (int i = 0; i < ACCEPT_BUDGET; i++) {
		int fd;

		if (s->n_conns >= s->spec.limits.max_conns && list_empty(&s->idle))
			break;
		fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			/* Out of descriptors or memory: polling would spin. */
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM) {
				if (!list_empty(&s->idle))
					close_quietest(s);
				timer_set(s->retry, RETRY_MS);
			}
			break;
		}
		server_take(s, fd);
	}
	server_poll(s);
}

struct err *http_server_start(struct loop *l, int listen_fd, const struct http_server_spec *spec,
			      struct http_server **ret)
{
	struct http_server *s = xnew(struct http_server);

	s->loop = l;
	s->spec = *spec;
	http_limits_fill(&s->spec.limits);
	s->fd = listen_fd;
	list_init(&s->conns);
	list_init(&s->idle);
	s->retry = timer_new(l, server_retry, s);
	if (s->fd >= 0) {
		s->watch = watch_new(l, listen_fd, server_ready, s);
		server_poll(s);
	}
	*ret = s;
	return NULL;
}

void http_server_adopt(struct http_server *s, struct stream *stream, const char *peer)
{
	http_conn_new(s, stream, peer);
}

void http_server_stop_accepting(struct http_server *s)
{
	struct http_link *k, *tmp;

	s->stopping = true;
	watch_free(take(s->watch));
	if (s->fd >= 0)
		(void)close(take_fd(s->fd));
	list_each_safe(k, tmp, &s->conns, all)
		k->ops->stop(k);
}

size_t http_server_conns(const struct http_server *s)
{
	return s->n_conns;
}

void http_link_init(struct http_link *k, struct http_server *s, struct conn *c, const char *peer)
{
	k->server = s;
	k->conn = c;
	(void)snprintf(k->peer, sizeof(k->peer), "%s", peer);
	s->n_conns++;
	list_add_tail(&s->conns, &k->all);
	list_add_tail(&s->idle, &k->idle);
}

void http_link_forget(struct http_link *k)
{
	struct http_server *s = take(k->server);

	list_del(&k->all);
	list_del(&k->idle);
	s->n_conns--;
	server_poll(s);
}

void http_link_set_idle(struct http_link *k, bool idle)
{
	struct http_server *s = k->server;

	list_del(&k->idle);
	if (!idle)
		return;
	list_add_tail(&s->idle, &k->idle);
	if (s->n_conns >= s->spec.limits.max_conns)
		server_poll(s); /* it can make space for one that waits */
}

void http_link_refused(struct http_link *k, int status)
{
	const struct http_server_spec *spec = &k->server->spec;

	if (spec->handler->refused)
		spec->handler->refused(spec->arg, k->peer, status);
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	http_server_stop_accepting(s);
	while (!list_empty(&s->conns)) {
		struct http_link *k = list_first(&s->conns, struct http_link, all);

		k->ops->close(k);
	}
	timer_free(s->retry);
	free(s);
}

/* Formatted once a second. */
const char *http_server_date(struct http_server *s)
{
	usec now = clock_wall() / 1000000;
	time_t t = (time_t)now;
	struct tm tm;

	if (now == s->date_at)
		return s->date;
	s->date_at = now;
	if (!gmtime_r(&t, &tm) ||
	    !strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm))
		s->date[0] = '\0';
	return s->date;
}
