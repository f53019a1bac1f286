/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop/loop.h"
#include "node/network/resolver_priv.h"

/*
 * A TCP connection of a sandbox: one question after the other, each with its length in front.
 * Further questions wait in the socket until the answer is written.
 */
enum {
	IDLE_MS = 10 * 1000,
	ACCEPTS = 16, /* a turn */
};

struct peer {
	struct resolver *r;
	struct list on;
	struct query_from from;
	int fd;
	struct watch *watch;
	struct timer *idle;
	struct buf in, out;
	bool busy; /* a question is on its way */
};

static void peer_free(struct peer *p)
{
	struct resolver *r = p->r;

	queries_drop(r, p);
	watch_free(p->watch);
	timer_free(p->idle);
	(void)close(p->fd);
	list_del(&p->on);
	r->n_peers--;
	r->askers[p->from.place].peers--;
	buf_done(&p->in);
	buf_done(&p->out);
	free(p);
}

/* The only place that decides what is polled for. */
static void set_wants(struct peer *p)
{
	watch_want(p->watch, p->out.len ? WATCH_WRITE : p->busy ? 0 : WATCH_READ);
	timer_set(p->idle, IDLE_MS);
}

/* Writes later, from its own callback: whoever answers may be one of its own functions. */
void peer_answer(struct peer *p, const void *wire, size_t len)
{
	const uint8_t head[2] = { (uint8_t)(len >> 8), (uint8_t)len };

	buf_add(&p->out, head, sizeof(head));
	buf_add(&p->out, wire, len);
	p->busy = false;
	set_wants(p);
}

/* False: the connection is to end. */
static bool ask_next(struct peer *p)
{
	const uint8_t *at = (const uint8_t *)buf_head(&p->in);
	size_t len = p->in.len < 2 ? 0 : (size_t)at[0] << 8 | at[1];
	bool good;

	if (p->in.len < 2)
		return true;
	if (len < DNS_HEADER || len > DNS_QUERY_MAX)
		return false;
	if (p->in.len < 2 + len)
		return true;
	p->busy = true;
	good = resolver_ask(p->r, &p->from, at + 2, len);
	buf_eat(&p->in, 2 + len);
	return good;
}

static bool read_some(struct peer *p)
{
	ssize_t n = recv(p->fd, buf_reserve(&p->in, DNS_QUERY_MAX), DNS_QUERY_MAX, MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	buf_wrote(&p->in, (size_t)n);
	return ask_next(p);
}

static bool write_some(struct peer *p)
{
	ssize_t n = send(p->fd, buf_head(&p->out), p->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	buf_eat(&p->out, (size_t)n);
	return p->out.len || ask_next(p); /* the next question may be here already */
}

static void on_ready(void *arg, unused unsigned ready)
{
	struct peer *p = arg;

	if (p->out.len ? write_some(p) : p->busy || read_some(p))
		set_wants(p);
	else
		peer_free(p);
}

static void on_idle(void *arg)
{
	peer_free(arg);
}

static void accept_one(struct resolver *r, int fd, const struct sockaddr_in *from)
{
	unsigned place;
	struct peer *p;

	if (!resolver_is_sandbox(r, from, &place) || r->n_peers == PEERS_MAX ||
	    r->askers[place].peers == PEERS_EACH_MAX) {
		(void)close(fd);
		r->refused++;
		return;
	}
	p = xnew(struct peer);
	p->r = r;
	p->fd = fd;
	p->from = (struct query_from){ .place = place, .addr = *from, .peer = p };
	list_add_tail(&r->peers, &p->on);
	r->n_peers++;
	r->askers[place].peers++;
	p->idle = timer_new(r->spec.loop, on_idle, p);
	p->watch = watch_new(r->spec.loop, fd, on_ready, p);
	set_wants(p);
}

void peers_accept(struct resolver *r)
{
	for (int i = 0; i < ACCEPTS; i++) {
		struct sockaddr_in from = { 0 };
		socklen_t len = sizeof(from);
		int fd = accept4(r->tcp, (struct sockaddr *)&from, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		accept_one(r, fd, &from);
	}
}

void peers_free(struct resolver *r)
{
	while (!list_empty(&r->peers))
		peer_free(list_first(&r->peers, struct peer, on));
}
