/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/names.h"

#include <string.h>
#include <strings.h>

#include "api/meta.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/registry.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/ip.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "node/host/instance.h"

enum {
	LABELS_MAX = 8, /* of a name of ours, without the domain */
	TTL = 5,
};

struct name {
	const char *label[LABELS_MAX];
	size_t n;
};

struct search {
	const struct names *n;
	struct arena *arena;
	const char *service, *ns;    /* NULL: Pods of any */
	const struct json *ports;    /* of the Service, if places of ports are asked for */
	const char *port, *protocol; /* which of them; NULL: all */
	const struct json *selector; /* NULL: any Pod */
	const char *hostname;        /* NULL: any */
	const char *subdomain;
	const char *name, *ip; /* of the Pod; NULL: any */
	bool no_v4, no_v6;     /* the Service has not this family */
	bool unready;          /* Pods that are not ready count too */
	bool exists;           /* something matches, ready or not */
	struct dns_answer *answer;
	const struct object *found; /* borrowed */
};

static bool is_over(const struct object *pod)
{
	return pod_phase_over(json_get_str(object_status(pod), "phase"));
}

static bool has_ip(const struct json *ips, const char *ip)
{
	json_each(it, ips)
		if (str_eq(json_get_str(it.val, "ip"), ip))
			return true;
	return false;
}

static bool matches(const struct search *s, const struct object *pod)
{
	const struct json *spec = object_spec(pod);
	const char *hostname = json_get_str(spec, "hostname");

	if (s->selector &&
	    !service_selects(s->selector, json_at_path(pod->root, "metadata.labels")))
		return false;
	if (s->hostname && (!str_eq(s->hostname, hostname) ||
			    !str_eq(s->subdomain, json_get_str(spec, "subdomain"))))
		return false;
	if (s->name && !str_eq(s->name, pod->name))
		return false;
	return !s->ip || has_ip(json_get(object_status(pod), "podIPs"), s->ip);
}

static bool is_asked_for(const struct search *s, const struct json *port)
{
	const char *protocol = str_or(json_get_str(port, "protocol"), "TCP");

	return (!s->port || str_eq(s->port, json_get_str(port, "name"))) &&
	       (!s->protocol || !strcasecmp(s->protocol, protocol));
}

static void add_place(struct search *s, const char *host, int64_t port)
{
	struct dns_answer *a = s->answer;

	if (a->n_places == DNS_ADDRS_MAX || port <= 0 || port > UINT16_MAX)
		return;
	a->places[a->n_places++] =
		(struct dns_place){ arena_printf(s->arena, "%s%s%s.%s.svc.%s.", host ? host : "",
						 host ? "." : "", s->service, s->ns, s->n->domain),
				    (uint16_t)port };
}

/* Addresses as labels: dots and colons are written as dashes. */
static char *dashes(const char *ip, struct arena *a)
{
	char *text = arena_strdup(a, ip);

	for (char *p = text; *p; p++)
		if (*p == '.' || *p == ':')
			*p = '-';
	return text;
}

/* False: it is no address of a family that counts. */
static bool add_address(struct search *s, const char *text)
{
	struct dns_answer *a = s->answer;
	struct ip ip;

	if (!text || !ip_parse(text, &ip) || (ip_is4(&ip) ? s->no_v4 : s->no_v6))
		return false;
	if (a->n_addrs < DNS_ADDRS_MAX)
		a->addrs[a->n_addrs++] = ip;
	return true;
}

static void add_pod(struct search *s, const struct object *pod)
{
	const struct json *spec = object_spec(pod), *ips = json_get(object_status(pod), "podIPs");
	const char *host = str_eq(json_get_str(spec, "subdomain"), s->service)
				   ? json_get_str(spec, "hostname")
				   : NULL;

	s->found = pod;
	json_each(it, ips) {
		const char *ip = json_get_str(it.val, "ip");

		if (s->ip && !str_eq(s->ip, ip))
			continue;
		if (!add_address(s, ip))
			continue;
		json_each(port, s->ports)
			if (is_asked_for(s, port.val))
				add_place(s, str_empty(host) ? dashes(ip, s->arena) : host,
					  service_target_port(port.val, spec));
	}
}

static bool on_pod(void *arg, struct object *pod)
{
	struct search *s = arg;

	if (!json_len(json_get(object_status(pod), "podIPs")) || is_over(pod) || !matches(s, pod))
		return true;
	s->exists = true;
	if (s->unready || (!object_deleting(pod) &&
			   conditions_true(json_get(object_status(pod), "conditions"), "Ready")))
		add_pod(s, pod);
	return s->answer->n_addrs < DNS_ADDRS_MAX;
}

struct held_search {
	struct search *s;
	const char *ns;
};

static void on_held(void *arg, struct object *pod)
{
	const struct held_search *h = arg;

	if (!h->ns || str_eq(pod->ns, h->ns))
		(void)on_pod(h->s, pod);
}

/* A Sandbox that sleeps has the names of the Pod that it would have: whoever uses them wakes it. */
static void search(struct search *s, const char *ns)
{
	struct client *c = s->n->client;
	struct held_search held = { s, ns };

	client_each(c, kinds_need(client_kinds(c), "v1", "Pod"), ns, on_pod, s);
	if (s->n->held)
		s->n->held(s->n->arg, on_held, &held);
}

/* Endpoints that somebody has written down for a Service that selects no Pods. */
static void add_endpoint(struct search *s, const struct json *slice, const struct json *endpoint)
{
	const char *ip = json_str(json_at_path(endpoint, "addresses.0"));
	const char *host = json_get_str(endpoint, "hostname");

	if (!ip || (s->hostname && !str_eq(s->hostname, host)) || (s->ip && !str_eq(s->ip, ip)))
		return;
	s->exists = true;
	if ((!s->unready && !json_bool(json_at_path(endpoint, "conditions.ready"), true)) ||
	    !add_address(s, ip))
		return;
	json_each(port, s->ports ? json_get(slice, "ports") : NULL)
		if (is_asked_for(s, port.val))
			add_place(s, str_empty(host) ? dashes(ip, s->arena) : host,
				  json_get_int(port.val, "port", 0));
}

static bool on_slice(void *arg, struct object *slice)
{
	struct search *s = arg;

	if (str_eq(object_label(slice, LABEL_SERVICE_NAME), s->service))
		json_each(it, json_get(slice->root, "endpoints"))
			add_endpoint(s, slice->root, it.val);
	return s->answer->n_addrs < DNS_ADDRS_MAX;
}

static void search_slices(struct search *s)
{
	struct client *c = s->n->client;

	client_each(c, kinds_need(client_kinds(c), "discovery.k8s.io/v1", "EndpointSlice"), s->ns,
		    on_slice, s);
}

static void wipe(struct dns_answer *a, enum dns_code code)
{
	a->n_addrs = a->n_places = 0;
	a->code = code;
}

/* "10-1-2-3" */
static const char *dashed_ip(const char *label, struct arena *a)
{
	static const char marks[] = { '.', ':' };
	struct ip ip;

	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		char *text = arena_strdup(a, label);

		for (char *p = text; *p; p++)
			if (*p == '-')
				*p = marks[i];
		if (ip_parse(text, &ip))
			return text;
	}
	return NULL;
}

static bool has_family(const struct json *spec, const char *family)
{
	const struct json *list = json_get(spec, "ipFamilies");

	json_each(it, list)
		if (str_eq(json_str(it.val), family))
			return true;
	return !json_len(list);
}

/* The addresses of the Service itself, and its own ports. False: it has none. */
static bool add_own(struct search *s, const struct json *spec)
{
	size_t n = s->answer->n_addrs;

	json_each(it, json_get(spec, "clusterIPs"))
		(void)add_address(s, json_str(it.val));
	if (s->answer->n_addrs == n)
		return false;
	json_each(port, s->ports)
		if (is_asked_for(s, port.val))
			add_place(s, NULL, json_get_int(port.val, "port", 0));
	return true;
}

static bool has_port(const struct search *s)
{
	json_each(port, s->ports)
		if (is_asked_for(s, port.val))
			return true;
	return false;
}

static void answer_external(const struct names *n, const char *target, struct arena *a,
			    struct dns_answer *ret);

/* SERVICE.NS.svc, with the name of a Pod or _PORT._PROTOCOL in front of it or not. */
static void answer_service(const struct names *n, const struct name *q, struct arena *a,
			   struct dns_answer *ret)
{
	const char *svc = q->label[q->n - 3], *ns = q->label[q->n - 2];
	autoptr(object) o = client_get(
		n->client, kinds_need(client_kinds(n->client), "v1", "Service"), ns, svc);
	const struct json *spec = o ? object_spec(o) : NULL;
	struct search s = { .n = n,
			    .arena = a,
			    .service = svc,
			    .ns = ns,
			    .ports = json_get(spec, "ports"),
			    .selector = json_get(spec, "selector"),
			    .subdomain = svc,
			    .no_v4 = !has_family(spec, "IPv4"),
			    .no_v6 = !has_family(spec, "IPv6"),
			    .unready = json_get_bool(spec, "publishNotReadyAddresses", false),
			    .answer = ret };

	wipe(ret, DNS_NXDOMAIN);
	if (!o)
		return;
	if (service_is_external(spec)) {
		if (q->n == 3)
			answer_external(n, json_get_str(spec, "externalName"), a, ret);
		return;
	}
	if (q->n == 4) {
		s.ip = dashed_ip(q->label[0], a);
		s.hostname = s.ip ? NULL : q->label[0];
	} else if (q->n == 5) {
		s.port = q->label[0] + 1;
		s.protocol = q->label[1] + 1;
		if (*q->label[0] != '_' || *q->label[1] != '_' || !has_port(&s))
			return;
	}
	if (q->n == 4 || !add_own(&s, spec)) {
		if (json_len(s.selector))
			search(&s, ns);
		else
			search_slices(&s);
	}
	ret->code = q->n != 4 || s.exists ? DNS_NOERROR : DNS_NXDOMAIN;
	if (q->n == 5)
		ret->n_addrs = 0;
}

static void answer_pod(const struct names *n, const struct name *q, struct arena *a,
		       struct dns_answer *ret)
{
	struct search s = { .n = n, .arena = a, .unready = true, .answer = ret };

	s.ip = dashed_ip(q->label[0], a);
	s.name = s.ip ? NULL : q->label[0];
	search(&s, q->label[1]);
	ret->code = s.exists ? DNS_NOERROR : DNS_NXDOMAIN;
}

static void answer_below(const struct names *n, const struct name *q, struct arena *a,
			 struct dns_answer *ret)
{
	const char *last = q->n ? q->label[q->n - 1] : NULL;
	bool svc = str_eq(last, "svc"), pod = str_eq(last, "pod");

	ret->code = DNS_NXDOMAIN;
	if (!last || ((svc || pod) && q->n <= 2))
		ret->code = DNS_NOERROR; /* there are names below it */
	else if (svc && q->n <= 5)
		answer_service(n, q, a, ret);
	else if (pod && q->n == 3)
		answer_pod(n, q, a, ret);
}

/* The part of the name before the domain, without the dot between them; NULL: it is not below. */
static char *below(const char *name, const char *domain, struct arena *a)
{
	size_t len = strlen(name), tail = strlen(domain);

	if (len < tail + 1 || name[len - 1] != '.' ||
	    strncasecmp(name + len - 1 - tail, domain, tail))
		return NULL;
	if (len == tail + 1)
		return arena_strdup(a, "");
	if (name[len - 2 - tail] != '.')
		return NULL;
	return arena_strndup(a, name, len - 2 - tail);
}

/* False: more labels than any name of ours has. */
static bool split(char *text, struct name *ret)
{
	char *save = NULL;

	ret->n = 0;
	for (char *l = strtok_r(text, ".", &save); l; l = strtok_r(NULL, ".", &save)) {
		if (ret->n == LABELS_MAX)
			return false;
		ret->label[ret->n++] = l;
	}
	return true;
}

/* A name of somebody else's. If it is one of ours, what it stands for is told as well: the
 * libraries of sandboxes do not ask again. One that leads to another of its sort is not followed.
 */
static void answer_external(const struct names *n, const char *target, struct arena *a,
			    struct dns_answer *ret)
{
	bool dot = target && *target && target[strlen(target) - 1] == '.';
	char *full = arena_printf(a, "%s%s", str_or(target, ""), dot ? "" : ".");
	char *text = below(full, n->domain, a);
	struct dns_answer other = { 0 };
	struct name name;

	if (text && split(text, &name) && name.n == 3 && str_eq(name.label[2], "svc")) {
		answer_service(n, &name, a, &other);
		if (other.target)
			other.n_addrs = 0;
	}
	memcpy(ret->addrs, other.addrs, sizeof(ret->addrs));
	ret->n_addrs = other.n_addrs;
	ret->target = full;
	ret->target_type = DNS_CNAME;
	ret->code = DNS_NOERROR;
}

/* "4.3.2.1.in-addr.arpa." */
static bool reverse4(const char *full, struct arena *a, struct ip *ret)
{
	char *text = below(full, "in-addr.arpa", a);
	struct name name;

	if (!text || !split(text, &name) || name.n != 4)
		return false;
	return ip_parse(arena_printf(a, "%s.%s.%s.%s", name.label[3], name.label[2], name.label[1],
				     name.label[0]),
			ret);
}

/* "1.0.….d.f.ip6.arpa.", a digit for each label. */
static bool reverse6(const char *full, struct arena *a, struct ip *ret)
{
	enum {
		DIGITS = 2 * sizeof(ret->octet)
	};
	static const char digits[] = "0123456789abcdef";
	const char *text = below(full, "ip6.arpa", a);

	if (!text || strlen(text) != 2 * DIGITS - 1)
		return false;
	*ret = (struct ip){ 0 };
	for (size_t i = 0; i < DIGITS; i++) {
		const char *at = strchr(digits, text[2 * i] | 0x20);

		if (!at || !*at || (i && text[2 * i - 1] != '.'))
			return false;
		ret->octet[sizeof(ret->octet) - 1 - i / 2] |=
			(uint8_t)((at - digits) << (i % 2 ? 4 : 0));
	}
	return true;
}

static bool answer_reverse(const struct names *n, const struct dns_query *q, struct arena *a,
			   struct dns_answer *ret)
{
	struct search s = { .n = n, .arena = a, .unready = true, .answer = ret };
	char ip4[16];
	struct ip addr;
	unsigned place;

	if (!(reverse4(q->name, a, &addr) || reverse6(q->name, a, &addr)) ||
	    !instance_ip_place(n->instance, &addr, &place))
		return false;
	instance_addr_text(n->instance, place, ip4);
	s.ip = ip4;
	search(&s, NULL);
	wipe(ret, s.found ? DNS_NOERROR : DNS_NXDOMAIN);
	if (!s.found || q->type != DNS_PTR)
		return true;
	ret->target = arena_printf(a, "%s.%s.pod.%s.", dashes(s.ip, a), s.found->ns, n->domain);
	ret->target_type = DNS_PTR;
	return true;
}

bool names_internal(const struct names *n, const struct dns_query *q, struct arena *a,
		    struct dns_answer *ret)
{
	const char *text = below(q->name, "cay.internal", a);
	bool known = n->outlet && text && str_eq(text, "outlet");

	if (!text)
		return false;
	*ret = (struct dns_answer){ .authoritative = true,
				    .ttl = TTL,
				    .code = known ? DNS_NOERROR : DNS_NXDOMAIN };
	if (known)
		ret->addrs[ret->n_addrs++] = instance_ip4(n->instance, POOL_GATEWAY);
	return true;
}

bool names_answer(const struct names *n, const struct dns_query *q, struct arena *a,
		  struct dns_answer *ret)
{
	char *text = below(q->name, n->domain, a);
	struct name name;

	*ret = (struct dns_answer){ .authoritative = true, .ttl = TTL };
	if (!text)
		return names_internal(n, q, a, ret) || answer_reverse(n, q, a, ret);
	if (strchr(text, '\\') || !split(text, &name))
		ret->code = DNS_NXDOMAIN; /* no object has such a name */
	else
		answer_below(n, &name, a, ret);
	return true;
}
