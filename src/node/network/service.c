/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/service.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/object.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "node/host/conntrack.h"
#include "node/host/instance.h"
#include "node/network/protocol.h"

/*
 * Slices are looked up by the Service that they name, and Pods by their names. An endpoint counts
 * only if it is a Pod of the Service's namespace with an address of this instance.
 */
struct slice_list {
	const struct object *slice;
	struct slice_list *next;
};

struct planner {
	struct arena *arena;
	const struct service_world *w;
	struct map *slices; /* NS/SERVICE → struct slice_list, in the arena */
	struct map *pods;   /* NS/NAME → struct object, borrowed */
	struct service_plan *plan;
};

static const char *key_of(struct arena *a, const char *ns, const char *name)
{
	return arena_printf(a, "%s/%s", ns, name);
}

static void index_objects(struct planner *p)
{
	for (size_t i = 0; i < p->w->n_slices; i++) {
		struct object *o = p->w->slices[i];
		const char *service = object_label(o, LABEL_SERVICE_NAME);
		struct slice_list *l = arena_alloc(p->arena, sizeof(*l));
		const char *key = service ? key_of(p->arena, o->ns, service) : NULL;

		if (!key)
			continue;
		*l = (struct slice_list){ o, map_get(p->slices, key) };
		map_put(p->slices, key, l);
	}
	for (size_t i = 0; i < p->w->n_pods; i++) {
		struct object *o = p->w->pods[i];

		map_put(p->pods, key_of(p->arena, o->ns, o->name), o);
	}
}

struct wanted {
	const struct object *service;
	const char *name, *protocol; /* of its port */
	bool v6;
};

/* False: it is none that counts. */
static bool read_endpoint(struct planner *p, const struct wanted *q, const struct json *endpoint,
			  struct service_end *ret)
{
	const char *name = service_endpoint_pod(endpoint);
	const char *ip = json_str(json_at_path(endpoint, "addresses.0"));
	const struct object *pod =
		name ? map_get(p->pods, key_of(p->arena, q->service->ns, name)) : NULL;

	return ip && ip_parse(ip, &ret->ip) && ip_is4(&ret->ip) != q->v6 &&
	       service_endpoint_is_real(endpoint, q->service->ns, pod) &&
	       instance_ip_place(p->w->instance, &ret->ip, &ret->place) && ret->place >= POOL_FIRST;
}

static void add_end(struct planner *p, struct service_port *port, const struct service_end *end,
		    bool ready)
{
	if (port->n_places == SERVICE_ENDS_MAX) {
		p->plan->left_out++;
		return;
	}
	port->places[port->n_places++] = end->place;
	if (ready)
		port->ends[port->n_ends++] = *end;
}

static void find_ends(struct planner *p, const struct wanted *q, struct service_port *port)
{
	const struct slice_list *l =
		map_get(p->slices, key_of(p->arena, q->service->ns, q->service->name));

	port->ends = arena_alloc(p->arena, SERVICE_ENDS_MAX * sizeof(*port->ends));
	port->places = arena_alloc(p->arena, SERVICE_ENDS_MAX * sizeof(*port->places));
	for (; l; l = l->next) {
		const struct json *slice = l->slice->root;
		int64_t number = service_slice_port(slice, q->name, q->protocol);

		json_each(it, number > 0 && number <= UINT16_MAX ? json_get(slice, "endpoints")
								 : NULL) {
			struct service_end end = { .port = (uint16_t)number };

			if (read_endpoint(p, q, it.val, &end))
				add_end(p, port, &end,
					json_bool(json_at_path(it.val, "conditions.ready"), true));
		}
	}
}

static void add_port(struct planner *p, const struct object *service, const struct ip *ip,
		     const struct json *port)
{
	struct wanted q = { .service = service,
			    .name = str_or(json_get_str(port, "name"), ""),
			    .protocol = str_or(json_get_str(port, "protocol"), "TCP"),
			    .v6 = !ip_is4(ip) };
	uint8_t protocol = protocol_number(q.protocol);
	struct service_port *s = &p->plan->ports[p->plan->n_ports];

	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return;
	if (p->plan->n_ports == SERVICE_PORTS_MAX) {
		p->plan->left_out++;
		return;
	}
	*s = (struct service_port){
		.ip = *ip,
		.protocol = protocol,
		.port = (uint16_t)json_get_int(port, "port", 0),
		.sticky = str_eq(json_get_str(object_spec(service), "sessionAffinity"), "ClientIP"),
	};
	find_ends(p, &q, s);
	p->plan->n_ports++;
}

static void add_service(struct planner *p, const struct object *service)
{
	const struct json *spec = object_spec(service);
	struct ip ip;

	if (service_is_external(spec) || service_is_headless(spec))
		return;
	json_each(at, json_get(spec, "clusterIPs"))
		if (json_str(at.val) && ip_parse(json_str(at.val), &ip))
			json_each(port, json_get(spec, "ports"))
				add_port(p, service, &ip, port.val);
}

struct service_plan *service_plan_new(struct arena *a, const struct service_world *w)
{
	struct planner p = { .arena = a,
			     .w = w,
			     .slices = map_new(NULL),
			     .pods = map_new(NULL),
			     .plan = arena_alloc(a, sizeof(struct service_plan)) };

	*p.plan = (struct service_plan){ 0 };
	p.plan->ports = arena_alloc(a, SERVICE_PORTS_MAX * sizeof(*p.plan->ports));
	index_objects(&p);
	for (size_t i = 0; i < w->n_services; i++)
		add_service(&p, w->services[i]);
	map_free(p.slices);
	map_free(p.pods);
	return p.plan;
}

struct bytes *service_ways(const struct service_plan *p)
{
	autobuf ways = { 0 };

	for (size_t i = 0; i < p->n_ports; i++) {
		const struct service_port *s = &p->ports[i];

		for (size_t k = 0; s->protocol == IPPROTO_UDP && k < s->n_ends; k++) {
			const struct conntrack_way way = { .to = s->ip,
							   .to_port = s->port,
							   .end = s->ends[k].ip,
							   .end_port = s->ends[k].port };

			buf_add(&ways, &way, sizeof(way));
		}
	}
	if (!ways.len)
		return NULL;
	qsort(ways.data, ways.len / sizeof(struct conntrack_way), sizeof(struct conntrack_way),
	      conntrack_way_cmp);
	return bytes_from_buf(&ways);
}
