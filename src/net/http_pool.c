/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/http_client_priv.h"

/*
 * Idle connections. Each address has a stack of them with the most recently used on top, because
 * that one is most likely to be alive. All of them are also in one list by age, so that the oldest
 * is closed when there are too many. An address whose last connection was taken stays known, since
 * it comes back soon, until there are many.
 */
enum {
	IDLE_MAX = 2048,
	ADDRS_MAX = 4096,
};

struct pool_addr {
	struct list idle; /* struct pool_idle.addr_link */
	size_t n;
};

struct pool_idle {
	struct http_pool *pool;
	struct pool_addr *addr;
	struct conn *conn;
	struct list link, addr_link;
};

/* Removes it from both lists; the caller owns the connection. */
static struct conn *idle_remove(struct pool_idle *i)
{
	struct conn *c = i->conn;

	list_del(&i->link);
	list_del(&i->addr_link);
	i->pool->n_idle--;
	i->addr->n--;
	free(i);
	return c;
}

/* Whatever happens on an idle connection, it cannot be used any more. */
static void on_data(void *arg, unused struct buf *in)
{
	conn_free(idle_remove(arg));
}

static void on_eof(void *arg)
{
	conn_free(idle_remove(arg));
}

static void on_closed(void *arg, unused const struct err *e)
{
	conn_free(idle_remove(arg));
}

static const struct conn_events idle_events = { .data = on_data,
						.eof = on_eof,
						.closed = on_closed };

struct http_pool *http_pool_new(struct loop *l, const struct http_limits *limits,
				size_t max_idle_per_addr)
{
	struct http_pool *p = xnew(struct http_pool);

	p->loop = p->dialer.loop = l;
	if (limits)
		p->limits = *limits;
	http_limits_fill(&p->limits);
	p->addrs = map_new(free);
	p->max_per_addr = max_idle_per_addr;
	list_init(&p->idle);
	list_init(&p->exchanges);
	http2_peers_init(p);
	return p;
}

void http_pool_set_mark(struct http_pool *p, uint32_t mark)
{
	p->dialer.mark = mark;
}

void http_pool_set_wrap(struct http_pool *p, struct stream *(*wrap)(void *arg, int fd), void *arg)
{
	p->dialer.wrap = wrap;
	p->dialer.wrap_arg = arg;
}

void http_pool_free(struct http_pool *p)
{
	struct http_exchange *x, *tmp;

	if (!p)
		return;
	list_each_safe(x, tmp, &p->exchanges, link) {
		list_del(&x->link);
		x->pool = NULL;
	}
	http2_peers_forget(p);
	while (!list_empty(&p->idle))
		conn_free(idle_remove(list_first(&p->idle, struct pool_idle, link)));
	map_free(p->addrs);
	free(p);
}

struct conn *http_pool_take(struct http_pool *p, const char *addr)
{
	struct pool_addr *a = map_get(p->addrs, addr);
	struct conn *c;

	if (!a || !a->n)
		return NULL;
	c = idle_remove(list_first(&a->idle, struct pool_idle, addr_link));
	conn_set_idle_ms(c, 0);
	return c;
}

/* At most IDLE_MAX of them have connections. */
static void forget_unused(struct http_pool *p)
{
	map_each(it, p->addrs) {
		const struct pool_addr *a = it.value;

		if (!a->n)
			(void)map_del(p->addrs, it.key);
	}
}

static struct pool_addr *addr_of(struct http_pool *p, const char *addr)
{
	struct pool_addr *a = map_get(p->addrs, addr);

	if (a)
		return a;
	if (map_len(p->addrs) >= ADDRS_MAX)
		forget_unused(p);
	a = xnew(struct pool_addr);
	list_init(&a->idle);
	map_put(p->addrs, addr, a);
	return a;
}

void http_pool_put(struct http_pool *p, const char *addr, struct conn *c)
{
	struct pool_addr *a = addr_of(p, addr);
	struct pool_idle *i;

	if (a->n >= p->max_per_addr) {
		conn_free(c);
		return;
	}
	if (p->n_idle >= MIN((size_t)IDLE_MAX, p->limits.max_conns))
		conn_free(idle_remove(list_first(&p->idle, struct pool_idle, link)));
	i = xnew(struct pool_idle);
	i->pool = p;
	i->addr = a;
	i->conn = c;
	list_add_tail(&p->idle, &i->link);
	list_add_head(&a->idle, &i->addr_link);
	a->n++;
	p->n_idle++;
	conn_set_events(c, &idle_events, i);
	conn_set_idle_ms(c, p->limits.idle_ms);
}
