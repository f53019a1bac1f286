/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/object.h"
#include "api/registry.h"
#include "api/service.h"
#include "base/ip.h"
#include "base/random.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "router/node_ports/node_ports_priv.h"

/*
 * Any endpoint of the Service's slices that is ready and really is a Pod of its namespace, each
 * with the same chance.
 */
struct picking {
	const struct pick_from *from;
	const struct kind *pods;
	uint64_t n; /* candidates so far */
	bool kept;
	struct picked *ret;
};

static void consider(struct picking *p, const char *ip, int64_t port, const char *pod)
{
	char text[sizeof(p->ret->addr)];

	(void)snprintf(text, sizeof(text), strchr(ip, ':') ? "[%s]:%lld" : "%s:%lld", ip,
		       (long long)port);
	if (p->kept)
		return;
	p->kept = str_eq(p->from->keep, text);
	if (!p->kept && random_u64() % ++p->n != 0)
		return;
	memcpy(p->ret->addr, text, sizeof(text));
	(void)snprintf(p->ret->pod, sizeof(p->ret->pod), "%s", pod);
}

static bool on_slice(void *arg, struct object *slice)
{
	struct picking *p = arg;
	const struct pick_from *f = p->from;
	int64_t port;

	if (!str_eq(object_label(slice, LABEL_SERVICE_NAME), f->service))
		return true;
	port = service_slice_port(slice->root, f->port, "TCP");
	json_each(it, port > 0 && port <= UINT16_MAX ? json_get(slice->root, "endpoints") : NULL) {
		const char *ip = json_str(json_at_path(it.val, "addresses.0"));
		const char *name = service_endpoint_pod(it.val);
		autoptr(object) pod = name ? client_get(f->client, p->pods, f->ns, name) : NULL;
		struct ip parsed;

		if (json_bool(json_at_path(it.val, "conditions.ready"), true) && ip &&
		    ip_parse(ip, &parsed) && service_endpoint_is_real(it.val, f->ns, pod))
			consider(p, ip, port, name);
	}
	return true;
}

bool node_port_pick(const struct pick_from *from, struct picked *ret)
{
	const struct kinds *registry = client_kinds(from->client);
	struct picking p = { .from = from, .pods = kinds_need(registry, "v1", "Pod"), .ret = ret };

	ret->addr[0] = '\0';
	client_each(from->client, kinds_need(registry, "discovery.k8s.io/v1", "EndpointSlice"),
		    from->ns, on_slice, &p);
	return ret->addr[0];
}
