/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/log.h"
#include "base/map.h"
#include "base/share.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/pump.h"
#include "net/stream.h"
#include "router/callers/callers.h"
#include "router/node_ports/node_ports_priv.h"
#include "router/router.h"

/*
 * A connection is accepted, its caller is looked up, a Pod is picked, and from then on bytes go
 * back and forth with back-pressure until both directions have ended.
 *
 * Connections are limited, and tenants share them: what a namespace may have is as much as nobody
 * has. Pods decide how long a connection lasts, so what waits for a Pod has a deadline.
 *
 * Each is recorded once, when it has ended or is refused. Of callers who may not go in, there is
 * one record in a second, with their number: anybody could fill the log.
 */
enum {
	BATCH = 16,        /* accepted in a turn */
	REST_MS = 100,     /* without descriptors, polling would spin */
	CLIENTS_MAX = 256, /* whose Pod a port remembers */
	FORBIDDEN_US = 1000 * 1000,
};

struct sticky {
	usec until;
	char target[64];
};

/* A connection from its acceptance to its end. */
struct passage {
	struct list link;
	struct node_port *port;
	int fd, up;          /* until they are pumped; up: to the Pod */
	struct watch *watch; /* of up, while it is connecting */
	struct timer *late;
	struct pump *pump;

	/* For the record. */
	struct router_caller caller;
	bool known; /* the caller has been looked up */
	usec began;
	uint64_t bytes[2]; /* from the client, from the Pod */
	char from[64];
	char *pod; /* NULL: none was picked */
};

static bool has_room(const struct node_port *p)
{
	return share_has_room(p->share->n_conns, p->all->stats.conns, p->all->spec.max_conns);
}

/* why: NULL if it ended by itself. */
static void record(const struct passage *p, const char *why)
{
	const struct node_port *port = p->port;
	char who[64] = "";

	if (p->caller.local)
		(void)snprintf(who, sizeof(who), ROUTER_LOCAL, p->caller.uid);
	audit_write(port->all->spec.audit,
		    &(struct audit_record){ .user = who,
					    .from = p->from,
					    .verb = "connect",
					    .resource = "services",
					    .sub = "nodeport",
					    .ns = port->ns,
					    .name = port->service,
					    .pod = p->pod,
					    .port = port->number,
					    .note = why,
					    .received = p->bytes[0],
					    .sent = p->bytes[1],
					    .took = clock_mono() - p->began });
}

static void record_forbidden(const struct passage *p)
{
	struct node_ports *n = p->port->all;
	autofree char *why = NULL;

	if (n->forbidden_at && p->began - n->forbidden_at < FORBIDDEN_US) {
		n->unrecorded++;
		return;
	}
	why = n->unrecorded ? xasprintf("forbidden, as %llu others were since the last record",
					(unsigned long long)n->unrecorded)
			    : xstrdup("forbidden");
	n->forbidden_at = p->began;
	n->unrecorded = 0;
	record(p, why);
}

static void passage_end(struct passage *p)
{
	struct node_ports *n = p->port->all;

	list_del(&p->link);
	pump_free(p->pump);
	watch_free(p->watch);
	timer_free(p->late);
	if (p->fd >= 0)
		(void)close(p->fd);
	if (p->up >= 0)
		(void)close(p->up);
	p->port->share->n_conns--;
	n->stats.conns--;
	free(p->pod);
	free(p);
}

static void on_pumped(void *arg)
{
	struct passage *p = arg;
	struct node_ports *n = p->port->all;

	p->pump = NULL; /* it is being freed */
	record(p, NULL);
	passage_end(p);
	node_ports_poll(n);
}

static void client_of(int fd, char ret[128])
{
	struct err *e = net_peer_addr(fd, ret, 128);
	char *port = e ? NULL : strrchr(ret, ':');

	if (port)
		*port = '\0';
	else
		ret[0] = '\0';
	err_free(e);
}

static bool find_target(struct node_port *p, int fd, struct picked *ret)
{
	struct pick_from from = { p->all->client, p->ns, p->service, p->name, NULL };
	usec now = clock_mono();
	struct sticky *s;
	char client[128];

	if (!p->sticky_s)
		return node_port_pick(&from, ret);
	client_of(fd, client);
	s = map_get(p->clients, client);
	if (s && s->until > now)
		from.keep = s->target;
	if (!node_port_pick(&from, ret))
		return false;
	if (!s && map_len(p->clients) >= CLIENTS_MAX)
		return true; /* the first ones stay with their Pods */
	s = xnew(struct sticky);
	s->until = now + (usec)p->sticky_s * 1000000;
	(void)snprintf(s->target, sizeof(s->target), "%s", ret->addr);
	map_put(p->clients, client, s);
	return true;
}

static void refuse(struct passage *p, const char *why)
{
	p->port->all->stats.refused++;
	record(p, why);
	passage_end(p);
}

static void passage_fail(struct passage *p)
{
	struct node_ports *n = p->port->all;

	refuse(p, "the Pod does not answer");
	node_ports_poll(n);
}

static void on_late(void *arg)
{
	passage_fail(arg);
}

static void on_connected(void *arg, unused unsigned ready)
{
	static const struct conn_events none;
	struct passage *p = arg;
	struct node_ports *n = p->port->all;
	socklen_t len = sizeof(int);
	struct conn *down, *up;
	int problem = 0;

	if (getsockopt(p->up, SOL_SOCKET, SO_ERROR, &problem, &len) < 0 || problem) {
		passage_fail(p);
		return;
	}
	watch_free(take(p->watch));
	timer_free(take(p->late));
	down = conn_new(n->loop, stream_plain(take_fd(p->fd)), &none, NULL);
	up = conn_new(n->loop, stream_plain(take_fd(p->up)), &none, NULL);
	p->pump = pump_start(down, up, on_pumped, p);
	pump_count(p->pump, p->bytes);
	pump_set_half_open_ms(p->pump, n->spec.half_open_ms);
}

/* NULL, or why it cannot be led anywhere. */
static const char *lead_on(struct passage *p)
{
	struct node_ports *n = p->port->all;
	struct picked target;
	struct err *e;

	if (!find_target(p->port, p->fd, &target))
		return "no Pod is ready";
	p->pod = xstrdup(target.pod);
	e = net_connect_marked(target.addr, n->spec.mark, &p->up);
	if (e) {
		log_debug("node port leads nowhere", KV("port", p->port->number), KV("err", e));
		err_free(e);
		return "the Pod cannot be reached";
	}
	p->watch = watch_new(n->loop, p->up, on_connected, p);
	watch_want(p->watch, WATCH_WRITE);
	p->late = timer_new(n->loop, on_late, p);
	timer_set(p->late, n->spec.connect_ms);
	return NULL;
}

/* Whether it may go in is decided here, and nowhere else. */
static void enter(struct passage *p)
{
	struct node_ports *n = p->port->all;
	const char *why;

	list_del(&p->link);
	p->known = callers_find(n->callers, p->fd, &p->caller);
	list_add_tail(p->known ? &n->passing : &n->waiting, &p->link);
	if (!p->known)
		return;
	if (n->spec.enter && !n->spec.enter(n->spec.arg, &p->caller)) {
		n->stats.refused++;
		record_forbidden(p);
		passage_end(p);
		return;
	}
	why = lead_on(p);
	if (why)
		refuse(p, why);
}

void node_ports_learned(void *arg)
{
	struct node_ports *n = arg;
	LIST_HEAD(now);

	while (!list_empty(&n->waiting)) {
		struct list *link = n->waiting.next;

		list_del(link);
		list_add_tail(&now, link);
	}
	while (!list_empty(&now))
		enter(list_first(&now, struct passage, link));
	node_ports_poll(n);
}

void node_port_accept(void *arg, unused unsigned ready)
{
	struct door *d = arg;
	struct node_ports *n = d->port->all;

	for (int i = 0; i < BATCH && has_room(d->port); i++) {
		int fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct passage *p;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM)
				timer_set(n->rest, REST_MS);
			break;
		}
		p = xnew(struct passage);
		p->port = d->port;
		p->fd = fd;
		p->up = -1;
		p->began = clock_mono();
		err_free(net_peer_addr(fd, p->from, sizeof(p->from))); /* it may have left */
		list_add_tail(&n->waiting, &p->link);
		n->stats.conns++;
		p->port->share->n_conns++;
		n->stats.accepted++;
		callers_accepted(n->callers, fd);
		enter(p);
	}
	node_ports_poll(n);
}

void node_ports_poll(struct node_ports *n)
{
	map_each(it, n->ports) {
		struct node_port *p = it.value;
		bool accept = has_room(p) && !timer_armed(n->rest);

		for (size_t i = 0; i < ARRAY_LEN(p->doors); i++)
			if (p->doors[i].watch)
				watch_want(p->doors[i].watch, accept ? WATCH_READ : 0);
	}
}

void node_ports_rested(void *arg)
{
	node_ports_poll(arg);
}

static void cut(struct list *passages, const struct node_port *port)
{
	struct passage *p, *next;

	list_each_safe(p, next, passages, link) {
		if (p->port != port)
			continue;
		if (p->known)
			record(p, "the port was closed");
		passage_end(p);
	}
}

void node_port_cut(struct node_port *p)
{
	cut(&p->all->waiting, p);
	cut(&p->all->passing, p);
}
