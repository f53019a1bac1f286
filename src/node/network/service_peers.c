/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "node/host/instance.h"
#include "node/network/policy.h"
#include "node/network/service.h"

/*
 * The filter inside a sandbox sees the address of the Service, not that of the Pod: it must know
 * those through which the sandbox reaches anything that its policies let it reach. A Service
 * without Pods counts as well, so that it is refused by the host and not met with silence.
 */
enum {
	PEERS_MAX = 200, /* beyond this, those in between are in the list too */
	OWN_MAX = 32,    /* addresses of Services that a Pod is behind, in its list */
	FAMILIES = 2,
};

struct span_of {
	struct ip from, to;
	size_t n;
};

static bool reaches(const struct service_port *s, const struct policy_plan *p, long group)
{
	for (size_t i = 0; i < s->n_places; i++)
		if (policy_reaches(p, POLICY_OUT, group, s->places[i]))
			return true;
	return !s->n_places;
}

/* One of the ports at its address does. They follow each other in the plan. */
static size_t next_address(const struct service_plan *s, const struct policy_plan *p, long group,
			   size_t i, const struct ip **ret)
{
	const struct ip *ip = &s->ports[i].ip;

	*ret = NULL;
	for (; i < s->n_ports && !ip_cmp(&s->ports[i].ip, ip); i++)
		if (!*ret && reaches(&s->ports[i], p, group))
			*ret = ip;
	return i;
}

static void add(struct buf *out, const struct ip *from, const struct ip *to)
{
	char text[IP_TEXT_MAX];

	ip_text(from, text);
	buf_printf(out, "%s%s", out->len ? "," : "", text);
	if (!ip_cmp(from, to))
		return;
	ip_text(to, text);
	buf_printf(out, "-%s", text);
}

void service_peers(const struct service_plan *s, const struct policy_plan *p, long group,
		   struct buf *out)
{
	struct span_of all[FAMILIES] = { 0 };
	const struct ip *ip;

	for (size_t i = 0; i < s->n_ports;) {
		struct span_of *a = &all[ip_is4(&s->ports[i].ip)];

		i = next_address(s, p, group, i, &ip);
		if (!ip)
			continue;
		if (!a->n || ip_cmp(ip, &a->from) < 0)
			a->from = *ip;
		if (!a->n || ip_cmp(ip, &a->to) > 0)
			a->to = *ip;
		a->n++;
	}
	for (int f = 0; f < FAMILIES; f++)
		if (all[f].n > PEERS_MAX)
			add(out, &all[f].from, &all[f].to);
	for (size_t i = 0; i < s->n_ports;) {
		bool many = all[ip_is4(&s->ports[i].ip)].n > PEERS_MAX;

		i = next_address(s, p, group, i, &ip);
		if (ip && !many)
			add(out, ip, ip);
	}
}

struct own {
	struct buf text;
	const struct ip *last; /* ports at the same address follow each other */
	size_t n;
};

static void add_own(struct own *o, const struct ip *service)
{
	if (o->n == OWN_MAX || (o->last && !ip_cmp(o->last, service)))
		return;
	add(&o->text, service, service);
	o->last = service;
	o->n++;
}

char **service_own(const struct service_plan *s, struct arena *a)
{
	struct own *own = xnew_n(struct own, POOL_SIZE);
	char **ret = arena_alloc(a, POOL_SIZE * sizeof(*ret));

	for (size_t i = 0; i < s->n_ports; i++)
		for (size_t k = 0; k < s->ports[i].n_places; k++)
			add_own(&own[s->ports[i].places[k]], &s->ports[i].ip);
	for (size_t place = 0; place < POOL_SIZE; place++) {
		ret[place] = own[place].n ? arena_strdup(a, buf_str(&own[place].text)) : NULL;
		buf_done(&own[place].text);
	}
	free(own);
	return ret;
}
