/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/service.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/ip.h"
#include "base/log.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/admit/ranges.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * IPAddresses and the ServiceCIDR of this server. An address is in use while an IPAddress of its
 * name is stored: Services have one for each of theirs, which comes and goes within the write of
 * the Service and so in the same commit, and others may keep one for themselves. What a crash or an
 * older version left behind is put in order at the start.
 */
#define LABEL_FAMILY  "ipaddress.kubernetes.io/ip-family"
#define LABEL_MANAGER "ipaddress.kubernetes.io/managed-by"
#define MANAGER       "ipallocator.k8s.io"

enum {
	IPS_MAX = SERVICE_FAMILIES_MAX,
};

/* The addresses of a Service, in the form that names IPAddresses. */
struct held {
	char ip[IPS_MAX][IP_TEXT_MAX];
	size_t n;
};

static struct held held_by(const struct json *service)
{
	const struct json *spec = json_get(service, "spec");
	struct held h = { 0 };
	struct ip ip;

	json_each(it, service_is_external(spec) ? NULL : json_get(spec, "clusterIPs"))
		if (h.n < IPS_MAX && json_str(it.val) && ip_parse(json_str(it.val), &ip))
			ip_text(&ip, h.ip[h.n++]);
	return h;
}

static bool has(const struct held *h, const char *ip)
{
	for (size_t i = 0; i < h->n; i++)
		if (str_eq(h->ip[i], ip))
			return true;
	return false;
}

/* The name that an IPAddress has for its owner, if that is a Service; NULL: it is not. */
static const struct json *service_ref(const struct object *address)
{
	const struct json *ref = json_at_path(address->root, "spec.parentRef");

	return str_empty(json_get_str(ref, "group")) &&
			       str_eq(json_get_str(ref, "resource"), "services")
		       ? ref
		       : NULL;
}

/* The Service that has the address now. */
static const struct object *holder(const struct objects *os, const struct object *address)
{
	const struct json *ref = service_ref(address);
	const struct object *service =
		ref ? objects_find(os, os->service, str_or(json_get_str(ref, "namespace"), ""),
				   str_or(json_get_str(ref, "name"), ""))
		    : NULL;
	struct held h = held_by(service ? service->root : NULL);

	return has(&h, address->name) ? service : NULL;
}

struct err *address_may_go(const struct op *op, const struct object *o)
{
	const struct objects *os = op->admit->objects;
	const struct object *service = o->kind == os->ip_address ? holder(os, o) : NULL;
	autofree char *why = NULL;

	if (!service)
		return NULL;
	why = xasprintf("it is the address of the Service %s/%s, and goes with that", service->ns,
			service->name);
	return err_forbidden(op->kind, o->name, why);
}

/* What Services have */

static void add(struct admit *a, const struct object *service, const char *ip)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *labels, *ref;
	struct err *e;

	json_set_root(d, root);
	labels = json_need_obj(d, json_need_obj(d, root, "metadata"), "labels");
	json_set_str(d, labels, LABEL_FAMILY, strchr(ip, ':') ? "IPv6" : "IPv4");
	json_set_str(d, labels, LABEL_MANAGER, MANAGER);
	ref = json_need_obj(d, json_need_obj(d, root, "spec"), "parentRef");
	json_set_str(d, ref, "resource", "services");
	json_set_str(d, ref, "namespace", service->ns);
	json_set_str(d, ref, "name", service->name);
	e = op_need(a, a->objects->ip_address, "", ip, d);
	if (!e)
		return;
	log_warn("the address of a Service is not recorded until the next start", KV("ip", ip),
		 KV("namespace", service->ns), KV("service", service->name), KV("err", e));
	err_free(e);
	ranges_note_ip(a->ranges, ip, true); /* it has it all the same */
}

static void end(struct admit *a, const char *ip)
{
	const struct delete_options w = { .grace_s = -1 };
	autoop op = { .admit = a,
		      .user = "system:cay:server",
		      .kind = a->objects->ip_address,
		      .ns = "",
		      .name = ip,
		      .sub = "" };
	struct err *e = op_delete(&op, &w);

	if (e)
		log_warn("an address that nobody has is kept until the next start", KV("ip", ip),
			 KV("err", e));
	err_free(e);
}

/* The IPAddress may be somebody's who asked for it by name; a Service never gets such an address.
 */
static void drop(struct admit *a, const struct object *service, const char *ip)
{
	const struct object *address = objects_find(a->objects, a->objects->ip_address, "", ip);
	const struct json *ref = address ? service_ref(address) : NULL;

	if (!address)
		ranges_note_ip(a->ranges, ip, false); /* it was not recorded */
	else if (str_eq(json_get_str(ref, "namespace"), service->ns) &&
		 str_eq(json_get_str(ref, "name"), service->name))
		end(a, ip);
}

static void service_changed(struct admit *a, const struct object *old, const struct object *now)
{
	struct held was = held_by(old ? old->root : NULL), is = held_by(now ? now->root : NULL);

	ranges_note_ports(a->ranges, old ? old->root : NULL, now ? now->root : NULL);
	for (size_t i = 0; old && i < was.n; i++)
		if (!has(&is, was.ip[i]))
			drop(a, old, was.ip[i]);
	for (size_t i = 0; now && i < is.n; i++)
		if (!has(&was, is.ip[i]))
			add(a, now, is.ip[i]);
}

void addresses_note(const struct op *op, const struct object *old, const struct object *now)
{
	const struct kind *k = kind_storage(op->kind);

	if (k->flags & KIND_ADDRESSES)
		service_changed(op->admit, old, now);
	else if (k == op->admit->objects->ip_address)
		ranges_note_ip(op->admit->ranges, now ? now->name : old->name, now);
}

/* The start */

/* Calls fn for each object of the kind; it may write. */
static void each(struct admit *a, const struct kind *k,
		 void (*fn)(struct admit *a, const struct object *o))
{
	const struct objects *os = a->objects;
	struct store_entry *en = NULL;
	autofree char *after = NULL;
	autobuf prefix = { 0 };

	key_prefix(&prefix, k, NULL);
	while ((en = store_next(os->store, buf_str(&prefix), after))) {
		autoptr(object) o = objects_of_entry(os, en);

		free(after);
		after = xstrdup(en->key);
		if (o)
			fn(a, o);
	}
}

/* Of a Service that no longer has it. Whoever else made it may have reasons of his own. */
static bool is_left_over(const struct objects *os, const struct object *address)
{
	const struct json *labels = json_at_path(address->root, "metadata.labels");

	return str_eq(json_get_str(labels, LABEL_MANAGER), MANAGER) && service_ref(address) &&
	       !holder(os, address);
}

static void address_known(struct admit *a, const struct object *address)
{
	ranges_note_ip(a->ranges, address->name, true);
	if (is_left_over(a->objects, address))
		end(a, address->name);
}

static void service_known(struct admit *a, const struct object *service)
{
	struct held h = held_by(service->root);

	ranges_note_ports(a->ranges, NULL, service->root);
	for (size_t i = 0; i < h.n; i++)
		add(a, service, h.ip[i]);
}

static void set_blocks(struct json_doc *d, const struct ranges *r)
{
	struct json *list =
		json_set(d, json_need_obj(d, json_root(d), "spec"), "cidrs", json_arr(d));

	for (size_t i = 0; i < r->n_ip; i++) {
		char text[IP_TEXT_MAX];
		struct ip from, to;

		if (!ip_parse_block(r->ip[i].text, &from, &to))
			continue; /* ranges_init() has read it */
		ip_text(&from, text);
		json_push(d, list, json_new_strf(d, "%s%s", text, strchr(r->ip[i].text, '/')));
	}
}

/* The blocks as they are set now: they may have been others before. */
static struct err *show_blocks(struct admit *a)
{
	static const struct condition ready = { .type = "Ready",
						.status = "True",
						.message = "Kubernetes Service CIDR is ready" };
	const struct kind *k = a->objects->service_cidr;
	struct json_doc *d = json_doc_new();
	autoop op = { .admit = a, .user = "system:cay:server", .kind = k, .ns = "", .sub = "" };
	autoptr(object) old = NULL;
	struct err *e;

	json_set_root(d, json_obj(d));
	set_blocks(d, a->ranges);
	e = op_need(a, k, "", SERVICE_CIDR_NAME, d);
	if (e)
		return e;
	old = object_ref(objects_find(a->objects, k, "", SERVICE_CIDR_NAME));
	d = object_edit(old);
	set_blocks(d, a->ranges);
	conditions_upsert(d,
			  json_need_arr(d, json_need_obj(d, json_root(d), "status"), "conditions"),
			  &ready, clock_wall());
	return op_store(&op, old, d);
}

void addresses_bootstrap(struct admit *a)
{
	struct err *e;

	each(a, a->objects->ip_address, address_known);
	each(a, a->objects->service, service_known);
	e = show_blocks(a);
	if (e)
		log_warn("the ServiceCIDR does not show the blocks of this server", KV("err", e));
	err_free(e);
}
