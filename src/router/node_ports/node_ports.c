/* SPDX-License-Identifier: Apache-2.0 */
#include "router/node_ports/node_ports.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "api/event.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/service.h"
#include "base/map.h"
#include "base/share.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/stream.h"
#include "router/callers/callers.h"
#include "router/node_ports/node_ports_priv.h"

/*
 * A change of a Service that has node ports, or had some, brings a look at all of them in the next
 * turn: sockets of ports that nobody has any more are closed together with their connections, and
 * those that are new are opened. One that cannot be opened is told of by an Event and tried again.
 *
 * Ports are limited, and tenants share them like their connections (conns.c).
 */
enum {
	PORTS_MAX = 256, /* two sockets each */
	CONNS_MAX_ = 1024,
	CONNECT_MS = 10 * 1000,
	HALF_OPEN_MS = 60 * 1000,
	RETRY_MS = 10 * 1000,
	AFFINITY_S = 10800,
};

static const char *const addresses[NODE_PORT_DOORS] = { "127.0.0.1", "[::1]" };

enum followed {
	SERVICES,
	SLICES,
	PODS,
	FOLLOWED_MAX_,
};

_Static_assert((int)FOLLOWED_MAX_ == NODE_PORT_WATCHES, "each kind has its watch");

/* A look at all Services, and what is to be told of them after it. */
struct look {
	struct node_ports *n;
	uint64_t round;
	struct list news;
	size_t n_crowded;
};

struct news {
	struct list on;
	struct object *service;
	char *text;
};

/* Takes text over. */
static void note(struct look *l, struct object *service, char *text)
{
	struct news *it = xnew(struct news);

	it->service = object_ref(service);
	it->text = text;
	list_add_tail(&l->news, &it->on);
}

static void tell(struct node_ports *n, const struct object *service, const char *text)
{
	const struct node_event event = { .about = service,
					  .warning = true,
					  .reason = "NodePortNotOpen",
					  .message = text,
					  .node = n->spec.node_name,
					  .now = clock_wall() };

	client_create(
		n->client,
		&(struct client_ref){ .kind = kinds_need(client_kinds(n->client), "v1", "Event"),
				      .ns = service->ns },
		node_event_doc(&event), NULL);
}

static void tell_all(struct look *l)
{
	struct news *it, *next;

	list_each_safe(it, next, &l->news, on) {
		tell(l->n, it->service, it->text);
		object_unref(it->service);
		free(it->text);
		free(it);
	}
}

static struct share *share_of(struct node_ports *n, const char *ns)
{
	return map_get(n->shares, ns);
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

static void port_free(void *arg)
{
	struct node_port *p = arg;

	node_port_cut(p);
	port_close(p);
	if (!--p->share->n_ports)
		(void)map_del(p->all->shares, p->ns);
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
	p->share = share_of(n, service->ns);
	if (!p->share) {
		p->share = xnew(struct share);
		map_put(n->shares, service->ns, p->share);
	}
	p->share->n_ports++;
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
			d->watch = watch_new(p->all->loop, d->fd, node_port_accept, d);
	}
	if (e)
		port_close(p);
	p->open = !e;
	return e;
}

static void try_to_open(struct look *l, struct node_port *p, struct object *service)
{
	struct err *e = port_open(p);

	if (!e) {
		p->told = false;
		return;
	}
	timer_set(p->all->refresh, RETRY_MS);
	if (!p->told)
		note(l, service,
		     xasprintf("node port %u of this machine cannot be used; it is tried again: %s",
			       p->number, err_text(e)));
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

/* Once for each Service: told has the uids of those that know. */
static void note_once(struct look *l, struct object *service, struct map *told, char *text)
{
	if (map_has(told, service->uid)) {
		free(text);
		return;
	}
	map_put(told, service->uid, l->n);
	note(l, service, text);
}

static void turn_away(struct look *l, struct object *service, unsigned number)
{
	struct node_ports *n = l->n;

	l->n_crowded++;
	note_once(
		l, service, n->crowded,
		xasprintf("node port %u is not opened before there is room: this machine opens %zu "
			  "at most, and for a namespace not more than are still free",
			  number, n->spec.max_ports));
}

static bool has_room_for_port(struct node_ports *n, const char *ns)
{
	const struct share *s = share_of(n, ns);

	return share_has_room(s ? s->n_ports : 0, map_len(n->ports), n->spec.max_ports);
}

static void want_port(struct look *l, struct object *service, const struct json *port)
{
	struct node_ports *n = l->n;
	int64_t number = json_get_int(port, "nodePort", 0);
	const char *name = str_or(json_get_str(port, "name"), "");
	struct node_port *p;
	char key[16];

	if (number < NODE_PORT_FIRST || number > NODE_PORT_LAST)
		return;
	if (!str_eq(str_or(json_get_str(port, "protocol"), "TCP"), "TCP")) {
		note_once(l, service, n->unserved,
			  xstrdup("node ports of TCP alone are opened on this machine"));
		return;
	}
	(void)snprintf(key, sizeof(key), "%u", (unsigned)number);
	p = map_get(n->ports, key);
	if (p && (!str_eq(p->uid, service->uid) || !str_eq(p->name, name))) {
		(void)map_del(n->ports, key);
		p = NULL;
	}
	if (!p && !has_room_for_port(n, service->ns)) {
		turn_away(l, service, (unsigned)number);
		return;
	}
	if (!p) {
		p = port_new(n, (unsigned)number, service, name);
		map_put(n->ports, key, p);
	}
	p->round = l->round;
	p->sticky_s = sticky_of(object_spec(service));
	if (!p->open)
		try_to_open(l, p, service);
}

static bool on_service(void *arg, struct object *service)
{
	const struct json *spec = object_spec(service);
	struct look *l = arg;
	size_t before = l->n_crowded;

	json_each(it, service_has_node_ports(spec) ? json_get(spec, "ports") : NULL)
		want_port(l, service, it.val);
	if (l->n_crowded == before)
		(void)map_del(l->n->crowded, service->uid);
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
	struct look l = { .n = n, .round = ++n->round };
	size_t n_ports;

	list_init(&l.news);
	client_each(n->client, kind_of(n, SERVICES), NULL, on_service, &l);
	tell_all(&l);
	n_ports = map_len(n->ports);
	map_each(it, n->ports)
		if (((struct node_port *)it.value)->round != l.round)
			(void)map_del(n->ports, it.key);
	if (l.n_crowded && map_len(n->ports) < n_ports)
		timer_set(n->refresh, 0); /* for those who found no room before */
	node_ports_poll(n);
}

static void on_service_changed(void *arg, struct object *was, struct object *now)
{
	struct node_ports *n = arg;

	if (was && !now) {
		(void)map_del(n->unserved, was->uid);
		(void)map_del(n->crowded, was->uid);
	}
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
	if (!n->spec.max_ports)
		n->spec.max_ports = PORTS_MAX;
	if (!n->spec.connect_ms)
		n->spec.connect_ms = CONNECT_MS;
	if (!n->spec.half_open_ms)
		n->spec.half_open_ms = HALF_OPEN_MS;
	list_init(&n->waiting);
	list_init(&n->passing);
	n->ports = map_new(port_free);
	n->shares = map_new(free);
	n->unserved = map_new(NULL);
	n->crowded = map_new(NULL);
	n->refresh = timer_new(l, on_refresh, n);
	n->rest = timer_new(l, node_ports_rested, n);
	e = callers_new(l, spec->has_group ? &spec->group : NULL, node_ports_learned, n,
			&n->callers);
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
	map_free(n->shares);
	map_free(n->unserved);
	map_free(n->crowded);
	callers_free(n->callers);
	timer_free(n->refresh);
	timer_free(n->rest);
	free(n);
}
