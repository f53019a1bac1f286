/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/agents.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/proxy_name.h"
#include "api/registry.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "json/json.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/streams/proxy_priv.h"

/*
 * Which port of which Pod a proxy leads to: [SCHEME:]NAME[:PORT] of a Pod, or of a Service, whose
 * endpoints are Pods. Anybody may write any address into an Endpoints object: what counts is the
 * Pod that it names, in the same namespace, and only if the address is that Pod's.
 */

struct asked {
	bool https;
	const char *name, *port; /* port "": none given */
};

static struct err *bad_request(const struct call *c)
{
	return err_new(ERR_MALFORMED, "invalid %s request \"%s\"", c->route.kind->singular,
		       c->route.name);
}

static struct err *read_name(struct call *c, struct asked *ret)
{
	struct proxy_name n;

	if (!proxy_name_read(c->route.name, &n))
		return bad_request(c);
	ret->https = span_eq(n.scheme, "https");
	ret->name = arena_strndup(c->arena, n.name.p, n.name.len);
	ret->port = str_or(arena_strndup(c->arena, n.port.p, n.port.len), "");
	return NULL;
}

static bool is_number(const char *text, int64_t *ret)
{
	struct err *e = parse_int(text, 1, UINT16_MAX, ret);

	err_free(e);
	return !e;
}

/* Pods */

static int64_t first_port(const struct object *pod, bool https)
{
	json_each(it, json_get(object_spec(pod), "containers")) {
		const struct json *port = json_at(json_get(it.val, "ports"), 0);

		if (port)
			return json_get_int(port, "containerPort", 0);
	}
	return https ? 443 : 80;
}

static struct err *to_pod(const struct streams *ps, struct call *c, const struct object *pod,
			  int64_t port, struct proxy_target *ret)
{
	const char *ip = json_get_str(object_status(pod), "podIP");

	if (str_empty(ip))
		return err_new(ERR_MALFORMED, "address not allowed");
	if (!ps->access)
		return err_new(ERR_UNAVAILABLE, "reach pod %s: no node runs it", pod->name);
	ret->pod = arena_strdup(c->arena, pod->name);
	ret->port = (uint16_t)port;
	ret->addr = arena_printf(c->arena, strchr(ip, ':') ? "[%s]:%lld" : "%s:%lld", ip,
				 (long long)port);
	return NULL;
}

static struct err *find_pod(const struct streams *ps, struct call *c, const struct asked *a,
			    struct proxy_target *ret)
{
	const struct objects *os = ps->objects;
	const struct object *pod = objects_find(os, os->pod, c->route.ns, a->name);
	int64_t port = 0;

	ret->asleep = a->name;
	if (!pod)
		return err_absent(os->pod, a->name);
	if (!*a->port)
		port = first_port(pod, a->https);
	else if (!is_number(a->port, &port))
		return bad_request(c);
	return to_pod(ps, c, pod, port, ret);
}

/* Services */

static struct err *no_endpoints(const char *name)
{
	return err_new(ERR_UNAVAILABLE, "no endpoints available for service \"%s\"", name);
}

/* The Service's port: by number, or else by name, which is "" if none is given. NULL: none. */
static const struct json *find_port(const struct json *spec, const char *asked, bool *ret_number)
{
	int64_t number = 0;

	*ret_number = is_number(asked, &number);
	json_each(it, json_get(spec, "ports"))
		if (*ret_number ? json_get_int(it.val, "port", 0) == number
				: str_eq(str_or(json_get_str(it.val, "name"), ""), asked))
			return it.val;
	return NULL;
}

static bool is_ready(const struct object *pod)
{
	return !object_deleting(pod) &&
	       conditions_true(json_get(object_status(pod), "conditions"), "Ready");
}

/* The Service of a Sandbox may have no Endpoints, and needs none: it has one Pod at most. */
static const struct object *sandbox_pod(const struct streams *ps, const struct object *service,
					const char **ret_name)
{
	const struct objects *os = ps->objects;
	const struct json *owner = object_controller(service);
	const struct object *pod;

	if (!str_eq(json_get_str(owner, "kind"), "Sandbox") ||
	    !str_starts(str_or(json_get_str(owner, "apiVersion"), ""), GROUP_AGENTS "/"))
		return NULL;
	*ret_name = json_get_str(owner, "name");
	pod = objects_find(os, os->pod, service->ns, *ret_name);
	return pod && is_ready(pod) &&
			       service_selects(json_get(object_spec(service), "selector"),
					       json_at_path(pod->root, "metadata.labels"))
		       ? pod
		       : NULL;
}

static const struct object *pod_at(const struct streams *ps, const char *ns,
				   const struct json *address)
{
	const struct json *ref = json_get(address, "targetRef");
	const char *name = json_get_str(ref, "name"), *ip = json_get_str(address, "ip");
	const struct object *pod;

	if (!str_eq(json_get_str(ref, "kind"), "Pod") || str_empty(name) || str_empty(ip))
		return NULL;
	pod = objects_find(ps->objects, ps->objects->pod, ns, name);
	if (!pod)
		return NULL;
	json_each(it, json_get(object_status(pod), "podIPs"))
		if (str_eq(json_get_str(it.val, "ip"), ip))
			return pod;
	return NULL;
}

/* Each endpoint has the same chance. */
struct picking {
	const struct object *pod;
	int64_t port;
	uint64_t n;
};

static void pick_of_subset(const struct streams *ps, const char *ns, const struct json *subset,
			   const char *port_name, struct picking *p)
{
	int64_t port = 0;

	json_each(it, json_get(subset, "ports"))
		if (str_eq(str_or(json_get_str(it.val, "name"), ""), port_name))
			port = json_get_int(it.val, "port", 0);
	json_each(it, port > 0 && port <= UINT16_MAX ? json_get(subset, "addresses") : NULL) {
		const struct object *pod = pod_at(ps, ns, it.val);

		if (pod && random_u64() % ++p->n == 0) {
			p->pod = pod;
			p->port = port;
		}
	}
}

static struct picking pick(const struct streams *ps, const struct object *service,
			   const char *port_name)
{
	const struct kind *k = kinds_need(ps->objects->kinds, "v1", "Endpoints");
	const struct object *o = objects_find(ps->objects, k, service->ns, service->name);
	struct picking p = { 0 };

	json_each(it, o ? json_get(o->root, "subsets") : NULL)
		pick_of_subset(ps, service->ns, it.val, port_name, &p);
	return p;
}

static struct err *find_endpoint(const struct streams *ps, struct call *c, const struct asked *a,
				 struct proxy_target *ret)
{
	const struct objects *os = ps->objects;
	const struct object *service = objects_find(os, os->service, c->route.ns, a->name);
	const struct json *port;
	struct picking to;
	bool number;

	if (!service)
		return err_absent(os->service, a->name);
	port = find_port(object_spec(service), a->port, &number);
	if (!port && number)
		return err_new(ERR_UNAVAILABLE, "no service port %s found for service \"%s\"",
			       a->port, a->name);
	if (!port)
		return no_endpoints(c->route.name);
	to.pod = sandbox_pod(ps, service, &ret->asleep);
	if (to.pod)
		to.port = service_target_port(port, object_spec(to.pod));
	else
		to = pick(ps, service, str_or(json_get_str(port, "name"), ""));
	if (ret->asleep)
		ret->asleep = arena_strdup(c->arena, ret->asleep);
	return to.pod && to.port ? to_pod(ps, c, to.pod, to.port, ret) : no_endpoints(a->name);
}

struct err *proxy_find(const struct streams *ps, struct call *c, struct proxy_target *ret)
{
	struct asked a;
	struct err *e = read_name(c, &a);

	*ret = (struct proxy_target){ 0 };
	if (e)
		return e;
	ret->https = a.https;
	return c->route.kind == ps->objects->pod ? find_pod(ps, c, &a, ret)
						 : find_endpoint(ps, c, &a, ret);
}
