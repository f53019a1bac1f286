/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/agents.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "router/router.h"

/*
 * The objects by which clients find the router, as upstream's manifests have them:
 *
 *   Service sandbox-router-svc   in agent-sandbox-system, where the Python client and kubectl look
 *   Pod sandbox-router           which that Service selects: no node runs it, it stands for us
 *   EndpointSlice                in every namespace with a pool, where the Go client looks
 *   Gateway external-http-gateway in default: its status has the address whose port 80 is ours,
 *                                 as that of every Gateway that nobody else gives an address
 *
 * A pass makes what is missing, and anew what leads to another machine than this one; a change of
 * any of them, and of a pool, leads to the next pass. Who forwards a port of the Pod, under its
 * name in any of these namespaces, is led to the router (access_door).
 */
enum {
	AGAIN_MS = 1000,
	SOON_MS = 20,
};
#define GATEWAY_NAMESPACE "default" /* where the published clients look if nobody tells them */
#define LABELS \
	"\"labels\":{\"app\":\"sandbox-router\",\"app.kubernetes.io/name\":\"sandbox-router\"}"

struct front {
	struct client *client;
	char *node_name, *address;
	char *gateway; /* NULL: no port 80 is ours */
	const struct kind *pods, *services, *slices, *pools, *gateways;
	struct client_watch *watches[5];
	unsigned n_synced;
	struct deferred look;
	struct timer *again;
	struct client_write write; /* one at a time: its end looks again */
	bool writing;
	char *ns;           /* that it writes to */
	struct map *failed; /* namespaces whose slice could not be made, until the next try */
};

/* The texts are our own, and so are the names in them: no character needs an escape. */
static struct json_doc *doc_of(const char *text)
{
	struct json_doc *d = NULL;
	struct err *e = json_parse(text, strlen(text), NULL, &d);

	assert(!e);
	return d;
}

static void on_written(struct client_write *w, struct err *e, unused struct object *obj)
{
	struct front *f = container_of(w, struct front, write);

	f->writing = false;
	if (e && !err_is(e, ERR_EXISTS)) {
		log_debug("cannot write what leads clients to the router, trying again",
			  KV("namespace", f->ns), KV("err", e));
		map_put(f->failed, f->ns, xstrdup(""));
		timer_set(f->again, AGAIN_MS);
		deferred_call(&f->look); /* other namespaces go on */
	} else {
		timer_set(f->again, SOON_MS); /* not at once: a write may have changed nothing */
	}
	err_free(e);
}

/* There is one write at a time. */
static void begin(struct front *f, const char *ns)
{
	free(f->ns);
	f->ns = xstrdup(ns);
	f->writing = true;
}

static void replace(struct front *f, const struct kind *k, const struct object *o)
{
	static const struct client_delete_spec at_once = { .grace_s = 0 };

	begin(f, o->ns);
	client_delete(f->client, &(struct client_ref){ .kind = k, .ns = o->ns, .name = o->name },
		      &at_once, &f->write);
}

static void create(struct front *f, const struct kind *k, const char *ns, const char *text)
{
	begin(f, ns);
	client_create(f->client, &(struct client_ref){ .kind = k, .ns = ns }, doc_of(text),
		      &f->write);
}

/* True: something is being written. */
static bool need_service(struct front *f)
{
	static const char text[] =
		"{\"metadata\":{\"name\":\"" ROUTER_SERVICE "\"," LABELS "},"
		"\"spec\":{\"selector\":{\"app\":\"sandbox-router\"},\"ports\":[{\"name\":\"http\","
		"\"port\":8080,\"targetPort\":\"proxy\",\"protocol\":\"TCP\"}]}}";
	autoptr(object) o = client_get(f->client, f->services, SYSTEM_NAMESPACE, ROUTER_SERVICE);
	const struct json *selector = o ? json_get(object_spec(o), "selector") : NULL;

	if (o && object_deleting(o))
		return false; /* until its finalizers are gone */
	if (o && json_len(selector) == 1 && str_eq(json_get_str(selector, "app"), ROUTER_POD))
		return false;
	if (o) /* it leads elsewhere */
		replace(f, f->services, o);
	else
		create(f, f->services, SYSTEM_NAMESPACE, text);
	return true;
}

static void report_pod(struct front *f)
{
	autofree char *text = NULL;
	char now[CLOCK_TEXT_MAX];

	clock_format(clock_wall(), now);
	text = xasprintf(
		"{\"status\":{\"phase\":\"Running\",\"startTime\":\"%s\",\"conditions\":["
		"{\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":\"%s\"}],"
		"\"containerStatuses\":[{\"name\":\"router\",\"image\":\"cay\",\"imageID\":\"\","
		"\"ready\":true,\"started\":true,\"restartCount\":0,"
		"\"state\":{\"running\":{\"startedAt\":\"%s\"}}}]}}",
		now, now, now);
	begin(f, SYSTEM_NAMESPACE);
	client_patch(f->client,
		     &(struct client_ref){ .kind = f->pods,
					   .ns = SYSTEM_NAMESPACE,
					   .name = ROUTER_POD,
					   .sub = "status" },
		     PATCH_MERGE, doc_of(text), &f->write);
}

static bool need_pod(struct front *f)
{
	autoptr(object) o = client_get(f->client, f->pods, SYSTEM_NAMESPACE, ROUTER_POD);
	autofree char *text = NULL;

	if (o && object_deleting(o) &&
	    !json_int(json_at_path(o->root, "metadata.deletionGracePeriodSeconds"), 1))
		return false; /* until its finalizers are gone */
	/* Nobody else would let it go. */
	if (o && (object_deleting(o) ||
		  !str_eq(json_get_str(object_spec(o), "nodeName"), f->node_name))) {
		replace(f, f->pods, o);
		return true;
	}
	if (o && str_eq(json_get_str(object_status(o), "phase"), "Running"))
		return false;
	if (o) {
		report_pod(f);
		return true;
	}
	text = xasprintf(
		"{\"metadata\":{\"name\":\"" ROUTER_POD "\"," LABELS ","
		"\"annotations\":{\"" ANNOTATION_MIRROR "\":\"cay\"}},"
		"\"spec\":{\"nodeName\":\"%s\",\"enableServiceLinks\":false,\"containers\":[{"
		"\"name\":\"router\",\"image\":\"cay\",\"ports\":[{\"name\":\"proxy\","
		"\"containerPort\":%d,\"protocol\":\"TCP\"}]}]}}",
		f->node_name, ROUTER_POD_PORT);
	create(f, f->pods, SYSTEM_NAMESPACE, text);
	return true;
}

static bool leads_here(const struct front *f, const struct object *slice)
{
	const struct json *first = json_at(json_get(slice->root, "endpoints"), 0);

	return str_eq(json_str(json_at(json_get(first, "addresses"), 0)), f->address) &&
	       str_eq(json_get_str(first, "nodeName"), f->node_name);
}

static bool need_slice(struct front *f, const char *ns)
{
	autoptr(object) o = client_get(f->client, f->slices, ns, ROUTER_SERVICE);
	autofree char *text = NULL;

	if (o && (leads_here(f, o) || object_deleting(o)))
		return false;
	if (o) {
		replace(f, f->slices, o);
		return true;
	}
	text = xasprintf("{\"metadata\":{\"name\":\"" ROUTER_SERVICE "\",\"labels\":{"
			 "\"kubernetes.io/service-name\":\"" ROUTER_SERVICE "\","
			 "\"endpointslice.kubernetes.io/managed-by\":\"router.cay.dev\"}},"
			 "\"addressType\":\"IPv4\",\"endpoints\":[{\"addresses\":[\"%s\"],"
			 "\"conditions\":{\"ready\":true},\"nodeName\":\"%s\","
			 "\"targetRef\":{\"kind\":\"Pod\",\"name\":\"" ROUTER_POD
			 "\",\"namespace\":\"%s\"}}],"
			 "\"ports\":[{\"name\":\"http\",\"port\":%d,\"protocol\":\"TCP\"}]}",
			 f->address, f->node_name, SYSTEM_NAMESPACE, ROUTER_POD_PORT);
	create(f, f->slices, ns, text);
	return true;
}

#define PROGRAMMED "Programmed"
#define LEADS_HERE "port 80 leads to the router"

/* Without an address of ours its status names none: clients would wait for what nobody serves. */
static void report_gateway(struct front *f, const struct object *o)
{
	autofree char *addresses =
		f->gateway ? xasprintf("[{\"type\":\"IPAddress\",\"value\":\"%s\"}]", f->gateway)
			   : xstrdup("null");
	autofree char *text = NULL;
	char now[CLOCK_TEXT_MAX];

	clock_format(clock_wall(), now);
	text = xasprintf("{\"status\":{\"addresses\":%s,\"conditions\":[{\"type\":\"" PROGRAMMED
			 "\","
			 "\"status\":\"%s\",\"reason\":\"%s\",\"message\":\"%s\","
			 "\"lastTransitionTime\":\"%s\"}]}}",
			 addresses, f->gateway ? "True" : "False",
			 f->gateway ? "Programmed" : "AddressNotAssigned",
			 f->gateway ? LEADS_HERE
				    : "--gateway-listen gives the router an address with port 80",
			 now);
	begin(f, o->ns);
	client_patch(f->client,
		     &(struct client_ref){
			     .kind = f->gateways, .ns = o->ns, .name = o->name, .sub = "status" },
		     PATCH_MERGE, doc_of(text), &f->write);
}

/* Its spec is whatever somebody wants it to be: only the status leads anywhere. */
static bool need_gateway(struct front *f)
{
	static const char text[] =
		"{\"metadata\":{\"name\":\"" ROUTER_GATEWAY "\"," LABELS "},"
		"\"spec\":{\"gatewayClassName\":\"cay\",\"listeners\":[{\"name\":\"http\","
		"\"port\":80,\"protocol\":\"HTTP\"}]}}";
	autoptr(object) o = client_get(f->client, f->gateways, GATEWAY_NAMESPACE, ROUTER_GATEWAY);

	if (o || !f->gateway)
		return false;
	create(f, f->gateways, GATEWAY_NAMESPACE, text);
	return true;
}

static bool has_port_80(const struct object *gateway)
{
	json_each(it, json_get(object_spec(gateway), "listeners"))
		if (json_get_int(it.val, "port", 0) == 80 &&
		    str_eq(json_get_str(it.val, "protocol"), "HTTP"))
			return true;
	return false;
}

/* What is missing is made outside of the list: nothing may be written from within. */
struct missing {
	struct front *f;
	char *ns;               /* owned */
	struct object *gateway; /* a reference */
};

/* One that is ours, because we have given it an address, or to which nobody has given any. */
static bool note_gateway(void *arg, struct object *o)
{
	struct missing *m = arg;
	const struct json *status = object_status(o);
	const struct json *first = json_at(json_get(status, "addresses"), 0);
	const struct json *said = conditions_get(json_get(status, "conditions"), PROGRAMMED);
	bool ours = (str_eq(o->name, ROUTER_GATEWAY) && str_eq(o->ns, GATEWAY_NAMESPACE)) ||
		    str_eq(json_get_str(said, "message"), LEADS_HERE);

	if (object_deleting(o) || map_has(m->f->failed, o->ns))
		return true;
	if (ours ? !str_eq(json_get_str(first, "value"), m->f->gateway)
		 : !first && m->f->gateway && has_port_80(o))
		m->gateway = object_ref(o);
	return !m->gateway;
}

static bool need_gateways(struct front *f)
{
	struct missing m = { .f = f };
	autoptr(object) found = NULL;

	client_each(f->client, f->gateways, NULL, note_gateway, &m);
	found = m.gateway;
	if (found)
		report_gateway(f, found);
	return found;
}

static bool note_missing(void *arg, struct object *pool)
{
	struct missing *m = arg;
	autoptr(object) slice = client_get(m->f->client, m->f->slices, pool->ns, ROUTER_SERVICE);

	if ((!slice || !(leads_here(m->f, slice) || object_deleting(slice))) &&
	    !object_deleting(pool) && !map_has(m->f->failed, pool->ns))
		m->ns = xstrdup(pool->ns);
	return !m->ns;
}

static void on_look(void *arg)
{
	struct front *f = arg;
	struct missing m = { .f = f };

	if (f->writing || f->n_synced < ARRAY_LEN(f->watches))
		return;
	if (!map_has(f->failed, SYSTEM_NAMESPACE) &&
	    (need_service(f) || need_pod(f) || need_slice(f, SYSTEM_NAMESPACE)))
		return;
	if (!map_has(f->failed, GATEWAY_NAMESPACE) && need_gateway(f))
		return;
	if (need_gateways(f))
		return;
	client_each(f->client, f->pools, NULL, note_missing, &m);
	if (m.ns)
		(void)need_slice(f, m.ns);
	free(m.ns);
}

static void on_again(void *arg)
{
	struct front *f = arg;

	map_free(f->failed);
	f->failed = map_new(free);
	on_look(f);
}

static void on_synced(void *arg)
{
	struct front *f = arg;

	f->n_synced++;
	deferred_call(&f->look);
}

static void on_any(void *arg, unused struct object *was, unused struct object *now)
{
	deferred_call(&((struct front *)arg)->look);
}

static void on_own(void *arg, struct object *was, struct object *now)
{
	const struct object *o = now ? now : was;

	if (str_eq(o->name, ROUTER_SERVICE) || str_eq(o->name, ROUTER_POD))
		deferred_call(&((struct front *)arg)->look);
}

struct front *front_new(struct loop *l, struct client *c, const struct front_spec *spec)
{
	static const struct client_watch_events any_events = { on_any, on_synced };
	static const struct client_watch_events own_events = { on_own, on_synced };
	struct front *f = xnew(struct front);
	struct kinds *kinds = client_kinds(c);

	f->client = c;
	f->node_name = xstrdup(spec->node_name);
	f->address = xstrdup(spec->address);
	f->gateway = xstrdup(spec->gateway);
	f->pods = kinds_need(kinds, "v1", "Pod");
	f->services = kinds_need(kinds, "v1", "Service");
	f->slices = kinds_need(kinds, "discovery.k8s.io/v1", "EndpointSlice");
	f->pools = kinds_need(kinds, API_EXTENSIONS, "SandboxWarmPool");
	f->gateways = kinds_need(kinds, "gateway.networking.k8s.io/v1", "Gateway");
	f->failed = map_new(free);
	f->write.done = on_written;
	f->again = timer_new(l, on_again, f);
	deferred_init(&f->look, l, on_look, f);
	f->watches[0] = client_watch(
		c, &(struct client_watch_spec){ .kind = f->services, .ns = SYSTEM_NAMESPACE },
		&own_events, f);
	f->watches[1] = client_watch(
		c, &(struct client_watch_spec){ .kind = f->pods, .ns = SYSTEM_NAMESPACE },
		&own_events, f);
	f->watches[2] =
		client_watch(c, &(struct client_watch_spec){ .kind = f->slices }, &own_events, f);
	f->watches[3] =
		client_watch(c, &(struct client_watch_spec){ .kind = f->pools }, &any_events, f);
	f->watches[4] =
		client_watch(c, &(struct client_watch_spec){ .kind = f->gateways }, &any_events, f);
	return f;
}

void front_free(struct front *f)
{
	if (!f)
		return;
	client_cancel(&f->write);
	for (size_t i = 0; i < ARRAY_LEN(f->watches); i++)
		client_watch_free(f->watches[i]);
	deferred_cancel(&f->look);
	timer_free(f->again);
	map_free(f->failed);
	free(f->ns);
	free(f->node_name);
	free(f->address);
	free(f->gateway);
	free(f);
}
