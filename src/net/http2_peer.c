/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/map.h"
#include "base/str.h"
#include "net/conn.h"
#include "net/http2_peer_priv.h"

/*
 * A connection to a server of HTTP/2, and the exchanges on it. Requests are sent when the server
 * has greeted, because only then it is known how many it takes. The callbacks of the session only
 * note what they see; peer_step() then tells the exchanges and sends what they and nghttp2 have to
 * say, so nobody's callback ever runs inside of nghttp2.
 */
enum {
	OUT_HIGH = 64 * 1024, /* little is in line before the frames of other streams */
	IDLE_PEERS_MAX = 256,
	/*
	 * Bytes that nghttp2 passes over and tells nobody of: of frames of no known type, and what
	 * was under way on streams that we have reset, which is no more than the window.
	 */
	UNKNOWN_MAX = 2 * HTTP2_PEER_STREAMS_MAX * HTTP2_PEER_WINDOW,
};

/* Those of one address. */
struct http2_peers {
	struct list list; /* struct http2_peer.link */
};

static void peer_unref(struct http2_peer *p)
{
	if (--p->refs)
		return;
	nghttp2_session_del(p->session);
	err_free(p->doom);
	free(p->addr);
	free(p);
}

static void set_idle(struct http2_peer *p, bool idle)
{
	if (!list_empty(&p->idle))
		p->pool->n_idle_peers--;
	list_del(&p->idle);
	if (p->pool && idle) {
		list_add_tail(&p->pool->idle_peers, &p->idle);
		p->pool->n_idle_peers++;
	}
	if (p->conn)
		conn_set_idle_ms(p->conn, idle ? p->limits.idle_ms : 0);
}

void http2_peer_leave(struct http2_peer *p)
{
	struct http2_peers *all;

	if (!p->pool)
		return;
	set_idle(p, false);
	all = map_get(p->pool->peers, p->addr);
	list_del(&p->link);
	if (all && list_empty(&all->list))
		(void)map_del(p->pool->peers, p->addr);
	p->pool = NULL;
}

static void peer_close(struct http2_peer *p)
{
	if (p->over)
		return;
	p->over = true;
	http2_peer_leave(p);
	http_dial_stop(&p->dial);
	conn_free(take(p->conn));
	deferred_cancel(&p->kick);
	peer_unref(p);
}

/* Takes e over. */
static void peer_fail(struct http2_peer *p, struct err *e)
{
	p->refs++;
	peer_close(p);
	while (!list_empty(&p->exchanges))
		http2_exchange_lost(list_first(&p->exchanges, struct http2_exchange, on), e);
	err_free(e);
	peer_unref(p);
}

void http2_peer_ready(struct http2_exchange *x)
{
	struct http2_peer *p = x->peer;

	if (list_empty(&x->ready))
		list_add_tail(&p->ready, &x->ready);
	if (!p->stepping && !p->over)
		deferred_call(&p->kick);
}

static size_t most_streams(const struct http2_peer *p)
{
	uint32_t theirs = nghttp2_session_get_remote_settings(
		p->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	return p->greeted ? MIN((size_t)theirs, (size_t)HTTP2_PEER_STREAMS_MAX)
			  : HTTP2_PEER_STREAMS_MAX;
}

/* The server has said how many requests it takes: those beyond go elsewhere. */
static void send_requests(struct http2_peer *p)
{
	struct http2_exchange *x, *tmp;
	size_t most = most_streams(p), n = 0;

	list_each_safe(x, tmp, &p->exchanges, on) {
		if (n++ >= most)
			http2_exchange_move(x);
		else if (!x->id)
			http2_exchange_submit(x);
	}
}

static bool flush(struct http2_peer *p)
{
	const uint8_t *data;
	ssize_t n = 0;

	while (!conn_full(p->conn) && (n = nghttp2_session_mem_send(p->session, &data)) > 0)
		conn_write(p->conn, data, (size_t)n);
	return n >= 0;
}

/* True if the connection goes on. */
static bool settle(struct http2_peer *p)
{
	bool sent = flush(p);

	if (p->doom)
		peer_fail(p, take(p->doom));
	else if (!sent || (!nghttp2_session_want_read(p->session) &&
			   !nghttp2_session_want_write(p->session)))
		peer_fail(p, err_new(ERR_MALFORMED, "%s has ended HTTP/2 or does not speak it",
				     p->addr));
	else if (!p->n && (!p->pool || !p->pool->max_per_addr))
		peer_close(p);
	return !p->over;
}

static void peer_step(struct http2_peer *p)
{
	if (p->stepping || !p->conn)
		return;
	p->refs++;
	p->stepping = true;
	while (!p->over) {
		struct http2_exchange *x;

		if (list_empty(&p->ready) && !settle(p))
			break;
		if (list_empty(&p->ready))
			break;
		x = list_first(&p->ready, struct http2_exchange, ready);
		list_del(&x->ready);
		http2_exchange_step(x);
	}
	p->stepping = false;
	peer_unref(p);
}

static void kicked(void *arg)
{
	peer_step(arg);
}

static void on_data(void *arg, struct buf *in)
{
	struct http2_peer *p = arg;
	bool greeted = p->greeted;
	ssize_t n;

	p->unknown += in->len;
	n = nghttp2_session_mem_recv(p->session, (const uint8_t *)buf_head(in), in->len);
	buf_eat(in, in->len);
	if (p->unknown > UNKNOWN_MAX) {
		peer_fail(p, err_new(ERR_TOO_LARGE, "%s sends frames of no known type", p->addr));
		return;
	}
	if (n < 0) {
		peer_fail(p, p->doom ? take(p->doom)
				     : err_new(ERR_MALFORMED, "read answer from %s: %s", p->addr,
					       nghttp2_strerror((int)n)));
		return;
	}
	if (!greeted && p->greeted && !most_streams(p)) {
		peer_fail(p, err_new(ERR_UNAVAILABLE, "%s takes no requests", p->addr));
		return;
	}
	if (!greeted && p->greeted)
		send_requests(p);
	peer_step(p);
}

static void on_eof(void *arg)
{
	struct http2_peer *p = arg;

	peer_fail(p, err_new(ERR_UNAVAILABLE, "%s closed the connection", p->addr));
}

static void on_drained(void *arg)
{
	peer_step(arg);
}

static void on_closed(void *arg, const struct err *e)
{
	struct http2_peer *p = arg;

	peer_fail(p, e ? err_wrap(err_recode(err_copy(e), ERR_UNAVAILABLE), "exchange with %s",
				  p->addr)
		       : err_new(ERR_UNAVAILABLE, "the connection to %s was closed", p->addr));
}

static void on_connected(void *owner, struct stream *s, const struct err *e)
{
	static const struct conn_events events = { on_data, on_eof, on_drained, on_closed };
	struct http2_peer *p = owner;

	if (!s) {
		peer_fail(p, err_copy(e));
		return;
	}
	p->conn = conn_new(p->dial.with.loop, s, &events, p);
	conn_set_high(p->conn, OUT_HIGH);
	peer_step(p); /* our greeting */
}

static struct http2_peers *peers_of(struct http_pool *p, const char *addr)
{
	struct http2_peers *all = map_get(p->peers, addr);

	if (all)
		return all;
	all = xnew(struct http2_peers);
	list_init(&all->list);
	map_put(p->peers, addr, all);
	return all;
}

static struct err *peer_new(struct http_pool *pool, const char *addr, struct http2_peer **ret)
{
	struct http2_peer *p = xnew(struct http2_peer);
	struct err *e;

	p->refs = 1;
	p->pool = pool;
	p->limits = pool->limits;
	p->addr = xstrdup(addr);
	list_init(&p->idle);
	list_init(&p->exchanges);
	list_init(&p->ready);
	list_add_tail(&peers_of(pool, addr)->list, &p->link);
	deferred_init(&p->kick, pool->loop, kicked, p);
	http_dial_init(&p->dial, &pool->dialer, p->addr, on_connected, p);
	p->session = http2_peer_session(p);
	e = http_dial_start(&p->dial);
	if (e)
		peer_close(p);
	else
		*ret = p;
	return e;
}

struct err *http2_peer_get(struct http_pool *pool, const char *addr, struct http2_peer **ret)
{
	struct http2_peers *all = map_get(pool->peers, addr);
	struct http2_peer *p;

	if (!all)
		return peer_new(pool, addr, ret);
	list_each(p, &all->list, link) {
		if (p->n >= most_streams(p))
			continue;
		*ret = p;
		return NULL;
	}
	return peer_new(pool, addr, ret);
}

void http2_peer_add(struct http2_peer *p, struct http2_exchange *x)
{
	set_idle(p, false);
	list_add_tail(&p->exchanges, &x->on);
	p->n++;
	x->peer = p;
	http2_chatter_earn(&p->chatter, 2 * HTTP2_CHATTER_PER_DATA);
	if (p->greeted)
		http2_exchange_submit(x);
}

void http2_peer_del(struct http2_exchange *x)
{
	struct http2_peer *p = take(x->peer);

	if (!p)
		return;
	list_del(&x->on);
	list_del(&x->ready);
	p->n--;
	if (x->id) {
		(void)nghttp2_session_set_stream_user_data(p->session, x->id, NULL);
		(void)nghttp2_session_consume(p->session, x->id, x->in.len);
	}
	if (x->id && !x->closed)
		(void)nghttp2_submit_rst_stream(p->session, NGHTTP2_FLAG_NONE, x->id,
						x->fin ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
	if (p->over)
		return;
	if (!p->n) {
		set_idle(p, true);
		if (p->pool && p->pool->n_idle_peers > IDLE_PEERS_MAX)
			peer_close(list_first(&p->pool->idle_peers, struct http2_peer, idle));
	}
	deferred_call(&p->kick);
}

void http2_peers_init(struct http_pool *p)
{
	p->peers = map_new(free);
	list_init(&p->idle_peers);
}

void http2_peers_forget(struct http_pool *p)
{
	while (!list_empty(&p->idle_peers))
		peer_close(list_first(&p->idle_peers, struct http2_peer, idle));
	map_each(it, p->peers) {
		struct http2_peers *all = it.value;

		while (!list_empty(&all->list)) {
			struct http2_peer *peer = list_first(&all->list, struct http2_peer, link);

			list_del(&peer->link);
			peer->pool = NULL;
		}
	}
	map_free(p->peers);
}
