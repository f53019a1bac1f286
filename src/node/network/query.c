/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"
#include "loop/loop.h"
#include "node/network/resolver_priv.h"

/*
 * A question on its way to the host's name servers and back, by the transport by which it was
 * asked. Each try has a socket of its own, so that the kernel chooses a random port and lets
 * through only what comes from that server, and an id of its own. Whatever else arrives there is
 * ignored.
 */
enum {
	TRY_MS = 2500,
	TRIES = 4, /* over all servers */
	ANSWER_MAX = 65535,
};

static bool by_tcp(const struct query *y)
{
	return y->from.peer || y->from.tcp;
}

static void close_try(struct query *y)
{
	watch_free(take(y->watch));
	if (y->fd >= 0)
		(void)close(take_fd(y->fd));
	buf_clear(&y->in);
}

void query_free(struct query *y)
{
	struct resolver *r = y->r;

	close_try(y);
	narrow_free(y->narrow);
	timer_free(y->timer);
	list_del(&y->on);
	r->n_queries--;
	r->askers[y->from.place].queries--;
	buf_done(&y->in);
	free(y);
}

static void next_try(struct query *y);

void query_give_up(struct query *y)
{
	resolver_refuse(y->r, &y->from, y->wire + 2, &y->q, DNS_SERVFAIL);
	query_free(y);
}

/* True: that was it, and y is gone. */
static bool take_answer(struct query *y, uint8_t *wire, size_t len)
{
	if (!dns_answers(wire, len, y->wire + 2, &y->q, y->id))
		return false;
	if (y->narrow) {
		close_try(y);
		narrow_answer(y, wire, len);
		return true;
	}
	dns_set_id(wire, y->q.id);
	resolver_reply(y->r, &y->from, wire, len);
	query_free(y);
	return true;
}

static void on_udp(struct query *y)
{
	static uint8_t room[ANSWER_MAX];
	ssize_t n = recv(y->fd, room, sizeof(room), MSG_DONTWAIT);

	if (n >= 0)
		(void)take_answer(y, room, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		next_try(y); /* nobody listens there */
}

static bool send_rest(struct query *y)
{
	size_t all = 2 + y->len;
	ssize_t n = send(y->fd, y->wire + y->sent, all - y->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	y->sent += (size_t)n;
	if (y->sent == all)
		watch_want(y->watch, WATCH_READ);
	return true;
}

/* False: it ended before the answer was whole, or with another answer. */
static bool read_more(struct query *y, bool *ret_done)
{
	char *room = buf_reserve(&y->in, 4096);
	ssize_t n = recv(y->fd, room, 4096, MSG_DONTWAIT);
	size_t len;
	uint8_t *p;

	*ret_done = false;
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	buf_wrote(&y->in, (size_t)n);
	p = (uint8_t *)buf_head(&y->in);
	if (y->in.len < 2)
		return true;
	len = (size_t)p[0] << 8 | p[1];
	if (y->in.len < 2 + len)
		return true;
	*ret_done = take_answer(y, p + 2, len);
	return *ret_done;
}

static void on_tcp(struct query *y)
{
	bool done = false;
	bool good = y->sent < 2 + y->len ? send_rest(y) : read_more(y, &done);

	if (!good && !done)
		next_try(y);
}

static void on_ready(void *arg, unused unsigned ready)
{
	struct query *y = arg;

	if (by_tcp(y))
		on_tcp(y);
	else
		on_udp(y);
}

static void on_late(void *arg)
{
	struct query *y = arg;

	if (y->narrow && narrow_waits(y->narrow))
		query_give_up(y);
	else
		next_try(y);
}

static bool open_try(struct query *y, const struct sockaddr_storage *to)
{
	bool tcp = by_tcp(y);
	socklen_t len =
		to->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

	y->fd = socket(to->ss_family,
		       (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (y->fd < 0 ||
	    (connect(y->fd, (const struct sockaddr *)to, len) < 0 && errno != EINPROGRESS))
		return false;
	y->id = (uint16_t)random_u64();
	y->sent = 0;
	dns_set_id(y->wire + 2, y->id);
	y->watch = watch_new(y->r->spec.loop, y->fd, on_ready, y);
	watch_want(y->watch, tcp ? WATCH_WRITE : WATCH_READ);
	return tcp || send(y->fd, y->wire + 2, y->len, MSG_DONTWAIT) == (ssize_t)y->len;
}

static void next_try(struct query *y)
{
	const struct resolv_conf *host = resolver_host(y->r);
	bool open = false;

	while (!open && y->tries < TRIES && host->n_servers) {
		close_try(y);
		open = open_try(y, &host->servers[y->tries++ % host->n_servers]);
	}
	if (open)
		timer_set(y->timer, TRY_MS);
	else
		query_give_up(y);
}

/*
 * A few sandboxes could hold all there are until they are given up. So the oldest of whoever has
 * most makes room for one who has fewer. False: nobody has more than this asker would have.
 */
static bool make_room(struct resolver *r, const struct asker *a)
{
	struct query *y, *oldest = NULL;
	unsigned most = a->queries + 1u;

	list_each(y, &r->queries, on) {
		unsigned n = r->askers[y->from.place].queries;

		if (n <= most)
			continue;
		most = n;
		oldest = y;
	}
	if (oldest)
		query_give_up(oldest);
	return oldest;
}

struct query *query_new(struct resolver *r, const struct query_from *from, const uint8_t *wire,
			size_t len, const struct dns_query *q)
{
	struct asker *a = &r->askers[from->place];
	struct query *y;

	if (a->queries == QUERIES_EACH_MAX || (r->n_queries == QUERIES_MAX && !make_room(r, a)))
		return NULL;
	y = xnew(struct query);
	y->r = r;
	y->from = *from;
	y->q = *q;
	y->wire[0] = (uint8_t)(len >> 8);
	y->wire[1] = (uint8_t)len;
	memcpy(y->wire + 2, wire, len);
	y->len = len;
	y->fd = -1;
	y->timer = timer_new(r->spec.loop, on_late, y);
	list_add_tail(&r->queries, &y->on);
	r->n_queries++;
	a->queries++;
	return y;
}

void query_pass(struct query *y)
{
	y->r->forwarded++;
	next_try(y);
}

void queries_drop(struct resolver *r, const void *asker)
{
	struct query *y, *next;

	list_each_safe(y, next, &r->queries, on)
		if (!asker || y->from.peer == asker || y->from.lookup == asker)
			query_free(y);
}
