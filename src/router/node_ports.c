/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/event.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/service.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/pump.h"
#include "net/stream.h"
#include "router/router_priv.h"

/*
 * A change of a Service that has node ports, or had some, brings a look at all of them in the next
 * turn: sockets of ports that nobody has any more are closed together with their connections, and
 * those that are new are opened. One that cannot be opened is told of by an Event and tried again.
 *
 * A connection is accepted, its caller is looked up, a Pod is picked, and from then on bytes go
 * back and forth with back-pressure until both directions have ended.
 */
enum {
	PORTS_MAX = 256, /* two sockets each */
	CONNS_MAX_ = 1024,
	BATCH = 16, /* accepted in a turn */
	RETRY_MS = 10 * 1000,
	REST_MS = 100,     /* without descriptors, polling would spin */
	CLIENTS_MAX = 256, /* whose Pod a port remembers */
	AFFINITY_S = 10800,
};

static const char *const addresses[] = { "127.0.0.1", "[::1]" };

enum followed {
	SERVICES,
	SLICES,
	PODS,
	FOLLOWED_MAX_,
};

struct node_ports {
	struct loop *loop;
	struct client *client;
	struct node_ports_spec spec;
	struct callers *callers;
	struct client_watch *watch[FOLLOWED_MAX_];
	struct map *unserved; /* uids of Services that were told of a port that is not TCP */
	struct map *ports;    /* number → struct node_port, owned */
	struct list waiting, passing; /* struct passage.link */
	struct timer *refresh, *rest;
	struct node_ports_stats stats;
	uint64_t round; /* of looks at the Services */
	bool full;      /* more ports than we serve */
};

struct door {
	struct node_port *port;
	int fd;
	struct watch *watch;
};

struct node_port {
	struct node_ports *all;
	unsigned number;
	char *ns, *service, *name, *uid; /* of the Service's port; name "" for one without */
	int64_t sticky_s;                /* a client stays with its Pod so long; 0: it does not */
	struct door doors[ARRAY_LEN(addresses)];
	struct map *clients; /* address → struct sticky, owned */
	bool open, told;
	uint64_t round; /* of the look that found it last */
};

struct sticky {
	usec until;
	char target[64];
};

/* A connection from its acceptance to its end. */
struct passage {
	struct list link;
	struct node_port *port;
	int fd; /* until it is pumped */
	struct pump *pump;
};

/* -- connections ------------------------------------------------------------------------------ */

static void poll_all(struct node_ports *n);

static void passage_end(struct passage *p)
{
	struct node_ports *n = p->port->all;

	list_del(&p->link);
	pump_free(p->pump);
	if (p->fd >= 0)
		(void)close(p->fd);
	free(p);
	n->stats.conns--;
}

static void on_pumped(void *arg)
{
	struct passage *p = arg;
	struct node_ports *n = p->port->all;

	p->pump = NULL; /* it is being freed */
	passage_end(p);
	poll_all(n);
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

static bool find_target(struct node_port *p, int fd, char ret[64])
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
	(void)snprintf(s->target, sizeof(s->target), "%s", ret);
	map_put(p->clients, client, s);
	return true;
}

/* False: it cannot be led anywhere. */
static bool lead_on(struct passage *p)
{
	static const struct conn_events none;
	struct node_ports *n = p->port->all;
	struct conn *down, *up;
	char target[64];
	struct err *e;
	int fd = -1;

	if (!find_target(p->port, p->fd, target))
		return false;
	e = net_connect_marked(target, n->spec.mark, &fd);
	if (e) {
		log_debug("node port leads nowhere", KV("port", p->port->number), KV("err", e));
		err_free(e);
		return false;
	}
	down = conn_new(n->loop, stream_plain(take_fd(p->fd)), &none, NULL);
	up = conn_new(n->loop, stream_plain(fd), &none, NULL);
	p->pump = pump_start(down, up, on_pumped, p);
	return true;
}

/* Whether it may go in is decided here, and nowhere else. */
static void enter(struct passage *p)
{
	struct node_ports *n = p->port->all;
	struct router_caller caller;

	list_del(&p->link);
	if (!callers_find(n->callers, p->fd, &caller)) {
		list_add_tail(&n->waiting, &p->link);
		return;
	}
	list_add_tail(&n->passing, &p->link);
	if ((n->spec.enter && !n->spec.enter(n->spec.arg, &caller)) || !lead_on(p)) {
		n->stats.refused++;
		passage_end(p);
	}
}

static void on_learned(void *arg)
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
	poll_all(n);
}

static void on_ready(void *arg, unused unsigned ready)
{
	struct door *d = arg;
	struct node_ports *n = d->port->all;

	for (int i = 0; i < BATCH && n->stats.conns < n->spec.max_conns; i++) {
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
		list_add_tail(&n->waiting, &p->link);
		n->stats.conns++;
		n->stats.accepted++;
		callers_accepted(n->callers, fd);
		enter(p);
	}
	poll_all(n);
}

/* The only place that decides what is polled for: a full house accepts nobody. */
static void poll_all(struct node_ports *n)
{
	bool accept = n->stats.conns < n->spec.max_conns && !timer_armed(n->rest);

	map_each(it, n->ports) {
		struct node_port *p = it.value;

		for (size_t i = 0; i < ARRAY_LEN(p->doors); i++)
			if (p->doors[i].watch)
				watch_want(p->doors[i].watch, accept ? WATCH_READ : 0);
	}
}

static void on_rested(void *arg)
{
	poll_all(arg);
}

/* -- ports ------------------------------------------------------------------------------------ */

static void tell(struct node_ports *n, const struct object *service, const char *reason,
		 const char *message)
{
	const struct node_event event = { .about = service,
					  .warning = true,
					  .reason = reason,
					  .message = message,
					  .node = n->spec.node_name,
					  .now = clock_wall() };

	client_create(
		n->client,
		&(struct client_ref){ .kind = kinds_need(client_kinds(n->client), "v1", "Event"),
				      .ns = service->ns },
		node_event_doc(&event), NULL);
}

static void port_close(struct node_port *p)
{
	for (size_t i = 0; i < ARRAY_LEN(p->doors); i++) {
		watch_free(take(p->doors[i].watch));
		if (p->doors[i].fd >= 0)
			(void)close(take_fd(p->doors[i].fd));
	}
	p->open = false;
}

static void cut(struct list *passages, const struct node_port *port)
{
	struct passage *p, *next;

	list_each_safe(p, next, passages, link)
		if (p->port == port)
			passage_end(p);
}

static void port_free(void *arg)
{
	struct node_port *p = arg;

	cut(&p->all->waiting, p);
	cut(&p->all->passing, p);
	port_close(p);
	map_free(p->clients);
	free(p->ns);
	free(p->service);
	free(p->name);
	free(p->uid);
	free(p);
}

static struct node_port *port_new(struct node_ports *n, unsigned number,
				  const struct object *service, const char *name)
{
	struct node_port *p = xnew(struct node_port);

	p->all = n;
	p->number = number;
	p->ns = xstrdup(service->ns);
	p->service = xstrdup(service->name);
	p->uid = xstrdup(service->uid);
	p->name = xstrdup(name);
	p->clients = map_new(free);
	for (size_t i = 0; i < ARRAY_LEN(p->doors); i++)
		p->doors[i] = (struct door){ .port = p, .fd = -1 };
	return p;
}

/* A machine without IPv6 has one address less. */
static bool is_absent(const struct err *e, size_t address)
{
	return address && (err_errno(e) == EADDRNOTAVAIL || err_errno(e) == EAFNOSUPPORT);
}

static struct err *port_open(struct node_port *p)
{
	struct err *e = NULL;
	char addr[64];

	for (size_t i = 0; i < ARRAY_LEN(p->doors) && !e; i++) {
		struct door *d = &p->doors[i];

		(void)snprintf(addr, sizeof(addr), "%s:%u", addresses[i], p->number);
		e = net_listen(addr, &d->fd);
		if (is_absent(e, i)) {
			err_free(e);
			e = NULL;
		}
		if (d->fd >= 0)
			d->watch = watch_new(p->all->loop, d->fd, on_ready, d);
	}
	if (e)
		port_close(p);
	p->open = !e;
	return e;
}

static void try_to_open(struct node_port *p, const struct object *service)
{
	struct err *e = port_open(p);
	autofree char *text = NULL;

	if (!e) {
		p->told = false;
		return;
	}
	timer_set(p->all->refresh, RETRY_MS);
	text = xasprintf("node port %u of this machine cannot be used; it is tried again: %s",
			 p->number, err_text(e));
	if (!p->told)
		tell(p->all, service, "NodePortNotOpen", text);
	p->told = true;
	err_free(e);
}

static int64_t sticky_of(const struct json *spec)
{
	if (!str_eq(json_get_str(spec, "sessionAffinity"), "ClientIP"))
		return 0;
	return json_int(json_at_path(spec, "sessionAffinityConfig.clientIP.timeoutSeconds"),
			AFFINITY_S);
}

static void tell_unserved(struct node_ports *n, const struct object *service)
{
	if (map_has(n->unserved, service->uid))
		return;
	map_put(n->unserved, service->uid, n);
	tell(n, service, "NodePortNotOpen", "node ports of TCP alone are opened on this machine");
}

struct look {
	struct node_ports *n;
	uint64_t round;
};

static void want_port(struct look *l, const struct object *service, const struct json *port)
{
	struct node_ports *n = l->n;
	int64_t number = json_get_int(port, "nodePort", 0);
	const char *name = str_or(json_get_str(port, "name"), "");
	struct node_port *p;
	char key[16];

	if (number < NODE_PORT_FIRST || number > NODE_PORT_LAST)
		return;
	if (!str_eq(str_or(json_get_str(port, "protocol"), "TCP"), "TCP")) {
		tell_unserved(n, service);
		return;
	}
	(void)snprintf(key, sizeof(key), "%u", (unsigned)number);
	p = map_get(n->ports, key);
	if (p && (!str_eq(p->uid, service->uid) || !str_eq(p->name, name))) {
		(void)map_del(n->ports, key);
		p = NULL;
	}
	if (!p && map_len(n->ports) >= PORTS_MAX) {
		if (!n->full)
			tell(n, service, "NodePortNotOpen",
			     "more node ports are asked for than this machine opens (256)");
		n->full = true;
		return;
	}
	if (!p) {
		p = port_new(n, (unsigned)number, service, name);
		map_put(n->ports, key, p);
	}
	p->round = l->round;
	p->sticky_s = sticky_of(object_spec(service));
	if (!p->open)
		try_to_open(p, service);
}

static bool on_service(void *arg, struct object *service)
{
	const struct json *spec = object_spec(service);

	json_each(it, service_has_node_ports(spec) ? json_get(spec, "ports") : NULL)
		want_port(arg, service, it.val);
	return true;
}

static const struct {
	const char *version, *kind;
} kinds[FOLLOWED_MAX_] = {
	[SERVICES] = { "v1", "Service" },
	[SLICES] = { "discovery.k8s.io/v1", "EndpointSlice" },
	[PODS] = { "v1", "Pod" },
};

static const struct kind *kind_of(const struct node_ports *n, enum followed which)
{
	return kinds_need(client_kinds(n->client), kinds[which].version, kinds[which].kind);
}

static void on_refresh(void *arg)
{
	struct node_ports *n = arg;
	struct look l = { n, ++n->round };

	client_each(n->client, kind_of(n, SERVICES), NULL, on_service, &l);
	map_each(it, n->ports)
		if (((struct node_port *)it.value)->round != l.round)
			(void)map_del(n->ports, it.key);
	if (map_len(n->ports) < PORTS_MAX)
		n->full = false;
	poll_all(n);
}

static void on_service_changed(void *arg, struct object *was, struct object *now)
{
	struct node_ports *n = arg;

	if (was && !now)
		(void)map_del(n->unserved, was->uid);
	if ((was && service_has_node_ports(object_spec(was))) ||
	    (now && service_has_node_ports(object_spec(now))))
		timer_set(n->refresh, 0);
}

/* What is read from the cache must be followed; each connection looks anew. */
static void ignore_change(unused void *arg, unused struct object *was, unused struct object *now)
{
}

struct err *node_ports_start(struct loop *l, struct client *c, const struct node_ports_spec *spec,
			     struct node_ports **ret)
{
	static const struct client_watch_events events[FOLLOWED_MAX_] = {
		[SERVICES] = { .changed = on_service_changed },
		[SLICES] = { .changed = ignore_change },
		[PODS] = { .changed = ignore_change },
	};
	autoptr(node_ports) n = xnew(struct node_ports);
	struct err *e;

	n->loop = l;
	n->client = c;
	n->spec = *spec;
	if (!n->spec.max_conns || n->spec.max_conns > CONNS_MAX_)
		n->spec.max_conns = CONNS_MAX_;
	list_init(&n->waiting);
	list_init(&n->passing);
	n->ports = map_new(port_free);
	n->unserved = map_new(NULL);
	n->refresh = timer_new(l, on_refresh, n);
	n->rest = timer_new(l, on_rested, n);
	e = callers_new(l, spec->has_group ? &spec->group : NULL, on_learned, n, &n->callers);
	if (e)
		return e;
	for (size_t i = 0; i < FOLLOWED_MAX_; i++)
		n->watch[i] = client_watch(c, &(struct client_watch_spec){ .kind = kind_of(n, i) },
					   &events[i], n);
	*ret = take(n);
	return NULL;
}

void node_ports_stats(const struct node_ports *n, struct node_ports_stats *ret)
{
	*ret = n->stats;
	ret->ports = map_len(n->ports);
}

void node_ports_free(struct node_ports *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < FOLLOWED_MAX_; i++)
		client_watch_free(n->watch[i]);
	map_free(n->ports); /* with their connections */
	map_free(n->unserved);
	callers_free(n->callers);
	timer_free(n->refresh);
	timer_free(n->rest);
	free(n);
}
