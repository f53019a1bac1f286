/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/names.h"

#include <arpa/inet.h>
#include <string.h>

#include "api/meta.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/arena.h"
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
	const struct json *selector; /* NULL: any Pod */
	const char *hostname;        /* NULL: any */
	const char *subdomain;
	const char *name, *ip; /* of the Pod; NULL: any */
	bool unready;          /* Pods that are not ready count too */
	bool exists;           /* a Pod matches, ready or not */
	struct dns_answer *answer;
	const struct object *found; /* borrowed */
};

static bool selects(const struct json *selector, const struct json *labels)
{
	if (!json_len(selector))
		return false;
	json_each(it, selector)
		if (!str_eq(json_str(it.val), json_get_str(labels, it.key)))
			return false;
	return true;
}

static bool is_over(const struct object *pod)
{
	const char *phase = json_get_str(object_status(pod), "phase");

	return str_eq(phase, "Succeeded") || str_eq(phase, "Failed");
}

static bool matches(const struct search *s, const struct object *pod)
{
	const struct json *spec = object_spec(pod);
	const char *hostname = json_get_str(spec, "hostname");

	if (s->selector && !selects(s->selector, json_at_path(pod->root, "metadata.labels")))
		return false;
	if (s->hostname && (!str_eq(s->hostname, hostname) ||
			    !str_eq(s->subdomain, json_get_str(spec, "subdomain"))))
		return false;
	if (s->name && !str_eq(s->name, pod->name))
		return false;
	return !s->ip || str_eq(s->ip, json_get_str(object_status(pod), "podIP"));
}

static bool on_pod(void *arg, struct object *pod)
{
	struct search *s = arg;
	const char *ip = json_get_str(object_status(pod), "podIP");
	struct in_addr addr;

	if (!ip || is_over(pod) || !matches(s, pod) || inet_pton(AF_INET, ip, &addr) != 1)
		return true;
	s->exists = true;
	if (s->unready || (!object_deleting(pod) &&
			   conditions_true(json_get(object_status(pod), "conditions"), "Ready"))) {
		s->found = pod;
		s->answer->addrs[s->answer->n_addrs++] = addr.s_addr;
	}
	return s->answer->n_addrs < DNS_ADDRS_MAX;
}

static void search(const struct names *n, const char *ns, struct search *s)
{
	client_each(n->client, kinds_need(client_kinds(n->client), "v1", "Pod"), ns, on_pod, s);
}

static void wipe(struct dns_answer *a, enum dns_code code)
{
	a->n_addrs = 0;
	a->code = code;
}

/* "10-1-2-3" */
static const char *dashed_ip(const char *label, struct arena *a)
{
	char *text = arena_strdup(a, label);
	struct in_addr addr;

	for (char *p = text; *p; p++)
		if (*p == '-')
			*p = '.';
	return inet_pton(AF_INET, text, &addr) == 1 ? text : NULL;
}

static void answer_service(const struct names *n, const struct name *q, struct arena *a,
			   struct dns_answer *ret)
{
	const char *svc = q->label[q->n - 3], *ns = q->label[q->n - 2];
	autoptr(object) o = client_get(
		n->client, kinds_need(client_kinds(n->client), "v1", "Service"), ns, svc);
	const struct json *spec = o ? object_spec(o) : NULL;
	const char *ip = json_get_str(spec, "clusterIP");
	struct search s = { .selector = json_get(spec, "selector"), .answer = ret };
	struct in_addr addr;

	wipe(ret, DNS_NXDOMAIN);
	if (!o)
		return;
	if (str_eq(json_get_str(spec, "type"), "ExternalName")) {
		ret->target = arena_strdup(a, str_or(json_get_str(spec, "externalName"), "."));
		ret->target_type = DNS_CNAME;
		ret->code = DNS_NOERROR;
		return;
	}
	if (q->n == 3 && ip && inet_pton(AF_INET, ip, &addr) == 1) {
		ret->addrs[ret->n_addrs++] = addr.s_addr;
		ret->code = DNS_NOERROR;
		return;
	}
	if (q->n == 4) {
		s.ip = dashed_ip(q->label[0], a);
		s.hostname = s.ip ? NULL : q->label[0];
		s.subdomain = svc;
	}
	s.unready = json_get_bool(spec, "publishNotReadyAddresses", false);
	if (json_len(s.selector))
		search(n, ns, &s);
	ret->code = q->n == 3 || s.exists ? DNS_NOERROR : DNS_NXDOMAIN;
}

static void answer_pod(const struct names *n, const struct name *q, struct arena *a,
		       struct dns_answer *ret)
{
	struct search s = { .unready = true, .answer = ret };

	s.ip = dashed_ip(q->label[0], a);
	s.name = s.ip ? NULL : q->label[0];
	search(n, q->label[1], &s);
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
	else if (svc && q->n <= 4)
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

static bool answer_reverse(const struct names *n, const struct dns_query *q, struct arena *a,
			   struct dns_answer *ret)
{
	char *text = below(q->name, "in-addr.arpa", a);
	struct search s = { .unready = true, .answer = ret };
	struct name name;
	unsigned place;
	char *dashed;

	if (!text || !split(text, &name) || name.n != 4)
		return false;
	s.ip = arena_printf(a, "%s.%s.%s.%s", name.label[3], name.label[2], name.label[1],
			    name.label[0]);
	if (!instance_addr_place(n->instance, s.ip, &place))
		return false;
	search(n, NULL, &s);
	wipe(ret, s.found ? DNS_NOERROR : DNS_NXDOMAIN);
	if (!s.found || q->type != DNS_PTR)
		return true;
	dashed = arena_strdup(a, s.ip);
	for (char *p = dashed; *p; p++)
		if (*p == '.')
			*p = '-';
	ret->target = arena_printf(a, "%s.%s.pod.%s.", dashed, s.found->ns, n->domain);
	ret->target_type = DNS_PTR;
	return true;
}

bool names_answer(const struct names *n, const struct dns_query *q, struct arena *a,
		  struct dns_answer *ret)
{
	char *text = below(q->name, n->domain, a);
	struct name name;

	*ret = (struct dns_answer){ .authoritative = true, .ttl = TTL };
	if (!text)
		return answer_reverse(n, q, a, ret);
	if (strchr(text, '\\') || !split(text, &name))
		ret->code = DNS_NXDOMAIN; /* no object has such a name */
	else
		answer_below(n, &name, a, ret);
	if (q->type != DNS_A && q->type != DNS_ANY)
		ret->n_addrs = 0;
	return true;
}
