/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/object.h"
#include "base/log.h"
#include "base/wall.h"
#include "client/client.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/pump.h"
#include "net/stream.h"
#include "router/callers/callers.h"
#include "router/router_priv.h"

/*
 * A port that passes TLS on without looking inside: the name that a client asks for in its first
 * message says which sandbox it wants, and all bytes, that message included, go there and back. The
 * sandbox has the certificate.
 *
 *   accept → who is it → first message → (starting: wait) → connect → pump
 *
 * Nobody can show a token here, so who has connected decides, as for node ports. Whoever is turned
 * away is told so in a TLS alert.
 */
enum {
	BATCH = 16,
	REST_MS = 100, /* without descriptors, polling would spin */
	HELLO_MS = 10 * 1000,
	CONNECT_MS = 10 * 1000,
	IDLE_MS = 3600 * 1000,
	HALF_OPEN_MS = 60 * 1000,
	ALL_MAX = 1024,
	EACH_MAX = 128, /* of one sandbox */
};

enum alert {
	ALERT_ACCESS_DENIED = 49,
	ALERT_DECODE_ERROR = 50,
	ALERT_INTERNAL_ERROR = 80,
	ALERT_MISSING_EXTENSION = 109,
	ALERT_UNRECOGNIZED_NAME = 112,
};

struct sni_port {
	struct router *r;
	int fd;
	struct watch *watch;
	struct timer *rest;
	struct list waiting, passing; /* struct transit.on */
	size_t n, max;
};

struct transit {
	struct list on;
	struct sni_port *s;
	struct route route; /* once it is known; its id "" before */
	struct router_caller caller;
	struct waiter waiter;
	bool waited;       /* once it has, the time until it is late runs */
	struct conn *down; /* NULL: pumped */
	int up;            /* until it is pumped */
	struct watch *watch;
	struct timer *late;
	struct pump *pump;
};

/* The only place that decides what is polled for: a full house accepts nobody. */
static void poll_port(struct sni_port *s)
{
	if (s->watch)
		watch_want(s->watch, s->n < s->max && !timer_armed(s->rest) ? WATCH_READ : 0);
}

static void transit_free(struct transit *t)
{
	struct sni_port *s = t->s;

	list_del(&t->on);
	router_unhold(s->r, &t->route, &t->waiter);
	pump_free(t->pump);
	conn_free(t->down);
	watch_free(t->watch);
	timer_free(t->late);
	if (t->up >= 0)
		(void)close(t->up);
	free(t);
	s->n--;
	s->r->stats.passing--;
	poll_port(s);
}

static void on_closed(void *arg, unused const struct err *e)
{
	transit_free(arg);
}

static void on_ignored(unused void *arg, struct buf *in)
{
	buf_eat(in, in->len);
}

static void turn_away(struct transit *t, enum alert why)
{
	static const struct conn_events leaving = { on_ignored, NULL, NULL, on_closed };
	const unsigned char alert[] = { 21, 3, 3, 0, 2, 2, (unsigned char)why };

	t->s->r->stats.refused++;
	router_unhold(t->s->r, &t->route, &t->waiter);
	timer_clear(t->late);
	watch_free(take(t->watch));
	conn_pause(t->down, false);
	conn_set_events(t->down, &leaving, t);
	conn_write(t->down, alert, sizeof(alert));
	conn_close_after_flush(t->down);
}

static void on_late(void *arg)
{
	turn_away(arg, ALERT_INTERNAL_ERROR);
}

static void on_pumped(void *arg)
{
	struct transit *t = arg;

	t->pump = NULL; /* it is being freed */
	transit_free(t);
}

static void on_connected(void *arg, unused unsigned ready)
{
	static const struct conn_events none;
	struct transit *t = arg;
	socklen_t len = sizeof(int);
	struct conn *up;
	int problem = 0;

	if (getsockopt(t->up, SOL_SOCKET, SO_ERROR, &problem, &len) < 0 || problem) {
		turn_away(t, ALERT_INTERNAL_ERROR);
		return;
	}
	record_passed(t->s->r, &t->route, &t->caller, conn_stream(t->down)->fd);
	watch_free(take(t->watch));
	timer_free(take(t->late));
	up = conn_new(t->s->r->loop, stream_plain(take_fd(t->up)), &none, NULL);
	conn_set_idle_ms(up, IDLE_MS);
	conn_set_idle_ms(t->down, IDLE_MS);
	conn_pause(t->down, false);
	t->pump = pump_start(take(t->down), up, on_pumped, t);
	pump_set_half_open_ms(t->pump, HALF_OPEN_MS);
}

static size_t n_of(const struct sni_port *s, const struct route *to)
{
	const struct transit *t;
	size_t n = 0;

	list_each(t, &s->passing, on)
		n += str_eq(t->route.id, to->id) && str_eq(t->route.ns, to->ns);
	return n;
}

static void connect_to(struct transit *t, const char *addr)
{
	struct router *r = t->s->r;
	struct err *e = net_connect_marked(addr, r->spec.mark, &t->up);

	if (e) {
		log_debug("TLS is not passed on", KV("sandbox", t->route.id), KV("err", e));
		err_free(e);
		turn_away(t, ALERT_INTERNAL_ERROR);
		return;
	}
	conn_pause(t->down, true);
	t->watch = watch_new(r->loop, t->up, on_connected, t);
	watch_want(t->watch, WATCH_WRITE);
	timer_set(t->late, CONNECT_MS);
}

/* The sandbox is starting: waits until it changes. */
static void hold(struct transit *t)
{
	struct router *r = t->s->r;

	if (!router_hold(r, &t->route, &t->waiter)) {
		turn_away(t, ALERT_INTERNAL_ERROR);
		return;
	}
	conn_pause(t->down, true);
	if (!t->waited)
		timer_set(t->late, r->spec.hold_ms);
	t->waited = true;
}

static void look(struct transit *t)
{
	struct router *r = t->s->r;
	struct target target;
	autoptr(object) sandbox = router_find(r, &t->route, &target);

	router_unhold(r, &t->route, &t->waiter);
	switch (target.state) {
	case TARGET_READY:
		connect_to(t, target.addr);
		break;
	case TARGET_STARTING:
		hold(t);
		break;
	case TARGET_DOWN:
		turn_away(t, ALERT_INTERNAL_ERROR);
		break;
	case TARGET_UNKNOWN:
	case TARGET_STATE_MAX_:
		turn_away(t, ALERT_UNRECOGNIZED_NAME);
		break;
	}
}

static void look_again(struct waiter *w)
{
	look(container_of(w, struct transit, waiter));
}

static void lead_on(struct transit *t, const char *name)
{
	struct route route;
	const char *bad;

	if (!way_host(t->s->r->domain, name, &route, &bad) || bad) {
		turn_away(t, ALERT_UNRECOGNIZED_NAME);
		return;
	}
	if (n_of(t->s, &route) >= EACH_MAX) {
		turn_away(t, ALERT_INTERNAL_ERROR);
		return;
	}
	t->route = route;
	look(t);
}

static void on_hello(void *arg, struct buf *in)
{
	struct transit *t = arg;
	char name[256];

	switch (hello_read(buf_head(in), in->len, name)) {
	case HELLO_MORE:
		break;
	case HELLO_NAMED:
		lead_on(t, name);
		break;
	case HELLO_NAMELESS:
		turn_away(t, ALERT_MISSING_EXTENSION);
		break;
	case HELLO_BAD:
		turn_away(t, ALERT_DECODE_ERROR);
		break;
	}
}

/* While it is being connected, the pump learns of it. */
static void on_eof(void *arg)
{
	struct transit *t = arg;

	if (t->up < 0)
		turn_away(t, ALERT_DECODE_ERROR);
}

/* Whether it may go in is decided here, and nowhere else. */
static void enter(struct transit *t)
{
	static const struct conn_events events = { on_hello, on_eof, NULL, on_closed };
	struct router *r = t->s->r;
	struct router_caller caller = { 0 };

	list_del(&t->on);
	if (r->callers && !callers_find(r->callers, conn_stream(t->down)->fd, &caller)) {
		list_add_tail(&t->s->waiting, &t->on);
		return;
	}
	list_add_tail(&t->s->passing, &t->on);
	t->caller = caller;
	if (r->sni_enter && !r->sni_enter(r->sni_arg, &caller) && wall_stands("sni-uid")) {
		if (t->s->n > t->s->max / 2) { /* telling takes a place for a while */
			r->stats.refused++;
			transit_free(t);
			return;
		}
		turn_away(t, ALERT_ACCESS_DENIED);
	} else {
		conn_set_events(t->down, &events, t);
	}
	conn_pause(t->down, false);
}

void sni_port_learned(struct sni_port *s)
{
	LIST_HEAD(now);

	while (!list_empty(&s->waiting)) {
		struct list *link = s->waiting.next;

		list_del(link);
		list_add_tail(&now, link);
	}
	while (!list_empty(&now))
		enter(list_first(&now, struct transit, on));
}

static void take_in(struct sni_port *s, int fd)
{
	static const struct conn_events waiting = { on_ignored, NULL, NULL, on_closed };
	struct transit *t = xnew(struct transit);

	t->s = s;
	t->up = -1;
	t->waiter.look = look_again;
	s->n++;
	s->r->stats.passing++;
	list_add_tail(&s->waiting, &t->on);
	if (s->r->callers)
		callers_accepted(s->r->callers, fd);
	t->down = conn_new(s->r->loop, stream_plain(fd), &waiting, t);
	conn_pause(t->down, true);
	t->late = timer_new(s->r->loop, on_late, t);
	timer_set(t->late, HELLO_MS);
	enter(t);
}

static void on_ready(void *arg, unused unsigned ready)
{
	struct sni_port *s = arg;

	for (int i = 0; i < BATCH && s->n < s->max; i++) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM)
				timer_set(s->rest, REST_MS);
			break;
		}
		take_in(s, fd);
	}
	poll_port(s);
}

static void on_rested(void *arg)
{
	poll_port(arg);
}

struct err *sni_port_start(struct router *r, const char *addr, struct sni_port **ret)
{
	struct sni_port *s = xnew(struct sni_port);
	struct err *e;

	s->r = r;
	s->max = MAX(MIN(r->spec.max_conns / 8, (size_t)ALL_MAX), (size_t)1);
	list_init(&s->waiting);
	list_init(&s->passing);
	e = net_listen(addr, &s->fd);
	if (e) {
		free(s);
		return e;
	}
	s->rest = timer_new(r->loop, on_rested, s);
	s->watch = watch_new(r->loop, s->fd, on_ready, s);
	e = net_local_addr(s->fd, r->sni_address, sizeof(r->sni_address));
	if (!e && r->callers)
		e = callers_check(r->callers, s->fd);
	if (e) {
		sni_port_free(s);
		return e;
	}
	poll_port(s);
	*ret = s;
	return NULL;
}

void sni_port_stop(struct sni_port *s)
{
	watch_free(take(s->watch));
	if (s->fd >= 0)
		(void)close(take_fd(s->fd));
}

void sni_port_free(struct sni_port *s)
{
	if (!s)
		return;
	sni_port_stop(s);
	while (!list_empty(&s->waiting))
		transit_free(list_first(&s->waiting, struct transit, on));
	while (!list_empty(&s->passing))
		transit_free(list_first(&s->passing, struct transit, on));
	timer_free(s->rest);
	free(s);
}
