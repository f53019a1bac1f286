/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/policy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "node/host/reserved.h"
#include "node/network/policy_priv.h"

/*
 * Policies are compiled one by one, then each Pod is matched with those of its namespace; Pods that
 * the same policies select share a group.
 *
 * Two Pods of a cluster are part of the daemon here, and selectors find them under the names that
 * they have there: the name server as k8s-app=kube-dns in kube-system, which is its address and
 * port 53, and the router as app=sandbox-router in agent-sandbox-system, which always comes in.
 */
enum {
	COST_MAX = 4096,        /* rules and addresses of one policy */
	COST_TOTAL = 64 * 1024, /* of all */
	DNS = 53,
};

static const struct stand_in {
	const char *ns, *key, *value;
} name_server = { "kube-system", "k8s-app", "kube-dns" },
  router = { "agent-sandbox-system", "app", "sandbox-router" };

struct compile {
	struct arena *a;
	const struct policy_world *w;
	struct map *namespaces; /* name → labels */
	struct json_doc *doc;   /* for the labels of stand-ins */
	size_t cost;            /* of all policies so far */
	struct policy *p;
	struct policy **selecting; /* room for those of one Pod */
};

/* -- selecting ------------------------------------------------------------------------------- */

static const struct json *labels_of(struct compile *c, const char *ns)
{
	struct json *labels = map_get(c->namespaces, ns);

	if (!labels) { /* every namespace has this one */
		labels = json_obj(c->doc);
		json_set_str(c->doc, labels, "kubernetes.io/metadata.name", ns);
		map_put(c->namespaces, ns, labels);
	}
	return labels;
}

static bool selects_stand_in(struct compile *c, const struct json *peer, const struct stand_in *s)
{
	const struct json *spaces = json_get(peer, "namespaceSelector");
	struct json *labels = json_obj(c->doc);

	json_set_str(c->doc, labels, s->key, s->value);
	if (spaces ? !policy_selects(spaces, labels_of(c, s->ns), false)
		   : !str_eq(s->ns, c->p->object->ns))
		return false;
	return policy_selects(json_get(peer, "podSelector"), labels, false);
}

/* Any Pod of its own namespace, and so not only what is part of the daemon. */
static bool selects_neighbours(struct compile *c, const struct json *peer)
{
	const struct json *spaces = json_get(peer, "namespaceSelector");
	const struct json *pods = json_get(peer, "podSelector");

	if (json_len(json_get(pods, "matchLabels")) || json_len(json_get(pods, "matchExpressions")))
		return false;
	return !spaces || policy_selects(spaces, labels_of(c, c->p->object->ns), false);
}

/* -- rules ----------------------------------------------------------------------------------- */

static void notice(struct compile *c, const char *direction, size_t rule, const char *what)
{
	if (!c->p->notice)
		c->p->notice = arena_printf(c->a, "spec.%s[%zu]: %s", direction, rule, what);
}

static uint8_t protocol_of(const struct json *port)
{
	const char *name = str_or(json_get_str(port, "protocol"), "TCP");

	return str_eq(name, "TCP")    ? IPPROTO_TCP
	       : str_eq(name, "UDP")  ? IPPROTO_UDP
	       : str_eq(name, "SCTP") ? IPPROTO_SCTP
				      : 0;
}

/* A port by name is one of the Pod at the other end: only the name server has some that matter. */
static bool read_port(const struct json *port, bool to_name_server, struct policy_ports *ret)
{
	const struct json *v = json_get(port, "port");
	uint8_t protocol = protocol_of(port);
	int64_t from = json_int(v, 0), to = json_get_int(port, "endPort", from);

	if (!v || json_is(v, JSON_NULL)) {
		*ret = (struct policy_ports){ protocol, 0, 0xffff };
		return protocol && !json_get_int(port, "endPort", 0);
	}
	if (json_str(v)) {
		*ret = (struct policy_ports){ protocol, DNS, DNS };
		return to_name_server &&
		       ((protocol == IPPROTO_UDP && str_eq(json_str(v), "dns")) ||
			(protocol == IPPROTO_TCP && str_eq(json_str(v), "dns-tcp")));
	}
	if (!protocol || from < 1 || to < from || to > 0xffff)
		return false;
	*ret = (struct policy_ports){ protocol, (uint16_t)from, (uint16_t)to };
	return true;
}

static void add_rule(struct compile *c, const struct policy_ranges *to, const struct json *ports,
		     bool to_name_server)
{
	struct policy_rule r = { .ranges = to->list, .n_ranges = to->n };

	if (!to->n)
		return;
	if (json_len(ports)) {
		r.ports = arena_alloc(c->a, json_len(ports) * sizeof(*r.ports));
		json_each(it, ports)
			if (read_port(it.val, to_name_server, &r.ports[r.n_ports]))
				r.n_ports++;
		if (!r.n_ports)
			return;
	}
	c->p->rules[c->p->n_rules++] = r;
}

static void add_peer(struct compile *c, const struct json *peer, size_t rule,
		     struct policy_ranges *blocks, struct policy_ranges *names)
{
	static const char private[] =
		"private and reserved addresses cannot be opened, so this has no effect";
	static const char pods[] = "sandboxes cannot reach each other, so this has no effect";
	const struct json *block = json_get(peer, "ipBlock");
	uint32_t net;
	unsigned prefix;

	if (block) {
		if (!policy_block(blocks, c->a, block))
			notice(c, "egress", rule, "a block of addresses cannot be read");
		if (policy_read_cidr(json_get_str(block, "cidr"), &net, &prefix) &&
		    reserved_holds(net, prefix) &&
		    !policy_ranges_hold(blocks->list, blocks->n, c->w->gateway, c->w->gateway))
			notice(c, "egress", rule, private);
		return;
	}
	if (selects_stand_in(c, peer, &name_server))
		policy_ranges_add(names, c->a, c->w->gateway, c->w->gateway);
	else
		notice(c, "egress", rule, pods);
	if (selects_neighbours(c, peer))
		notice(c, "egress", rule, pods);
}

/* One rule for what is given by addresses, and one for the name server, whose ports have names. */
static void compile_rule(struct compile *c, const struct json *rule, size_t n)
{
	const struct json *peers = json_get(rule, "to"), *ports = json_get(rule, "ports");
	struct policy_ranges blocks = { 0 }, names = { 0 };

	if (!json_len(peers)) {
		policy_ranges_add(&blocks, c->a, 0, 0xffffffffu);
		policy_ranges_add(&names, c->a, c->w->gateway, c->w->gateway);
	}
	json_each(it, peers)
		add_peer(c, it.val, n, &blocks, &names);
	policy_ranges_merge(&blocks);
	policy_ranges_merge(&names);
	add_rule(c, &blocks, ports, false);
	add_rule(c, &names, ports, true);
}

static void look_at_ingress(struct compile *c, const struct json *rules)
{
	static const char nobody[] =
		"nobody but the node's router and probes reaches a sandbox, so this has no effect";
	size_t n = 0;

	json_each(it, rules) {
		const struct json *peers = json_get(it.val, "from");

		if (!json_len(peers))
			notice(c, "ingress", n, nobody);
		json_each(peer, peers)
			if (json_get(peer.val, "ipBlock") || selects_neighbours(c, peer.val) ||
			    !selects_stand_in(c, peer.val, &router))
				notice(c, "ingress", n, nobody);
		n++;
	}
}

/* -- policies -------------------------------------------------------------------------------- */

static bool has_type(const struct json *spec, const char *type, bool otherwise)
{
	const struct json *types = json_get(spec, "policyTypes");

	if (!json_len(types))
		return otherwise;
	json_each(it, types)
		if (str_eq(json_str(it.val), type))
			return true;
	return false;
}

/* Everything that is not reserved anyway, and the name server, by any port. */
static bool opens_all(const struct policy_rule *r, uint32_t gateway)
{
	uint64_t at = 0;

	if (r->ports || !policy_ranges_hold(r->ranges, r->n_ranges, gateway, gateway))
		return false;
	for (size_t i = 0; i < n_reserved_nets; i++) { /* they are in order */
		const struct reserved_net *n = &reserved_nets[i];

		if (n->net > at &&
		    !policy_ranges_hold(r->ranges, r->n_ranges, (uint32_t)at, n->net - 1))
			return false;
		at = (uint64_t)n->net + (1ull << (32 - n->prefix));
	}
	return at > 0xffffffffu ||
	       policy_ranges_hold(r->ranges, r->n_ranges, (uint32_t)at, 0xffffffffu);
}

static size_t cost_of(const struct policy *p)
{
	size_t cost = 1;

	for (size_t i = 0; i < p->n_rules; i++)
		cost += p->rules[i].n_ranges * (p->rules[i].ports ? p->rules[i].n_ports : 1);
	return cost;
}

static void compile_egress(struct compile *c, const struct json *rules)
{
	struct policy *p = c->p;
	size_t n = 0, cost;

	p->egress = p->narrows = true;
	p->rules = arena_alloc(c->a, 2 * (json_len(rules) + 1) * sizeof(*p->rules));
	json_each(it, rules)
		compile_rule(c, it.val, n++);
	for (size_t i = 0; i < p->n_rules; i++)
		p->narrows &= !opens_all(&p->rules[i], c->w->gateway);
	cost = cost_of(p);
	if (cost <= COST_MAX && c->cost + cost <= COST_TOTAL) {
		c->cost += cost;
		return;
	}
	p->n_rules = 0;
	p->narrows = p->unenforceable = true;
	p->notice = "it has too many addresses and ports to be enforced, so nothing goes out of "
		    "the Pods that it selects";
}

static void compile_policies(struct compile *c, struct policy_plan *plan)
{
	for (size_t i = 0; i < c->w->n_policies; i++) {
		const struct json *spec = object_spec(c->w->policies[i]);
		bool egress = json_len(json_get(spec, "egress"));

		c->p = &plan->policies[plan->n_policies++];
		c->p->object = c->w->policies[i];
		if (has_type(spec, "Ingress", true))
			look_at_ingress(c, json_get(spec, "ingress"));
		if (has_type(spec, "Egress", egress))
			compile_egress(c, json_get(spec, "egress"));
		plan->narrows |= c->p->narrows;
	}
}

/* -- Pods ------------------------------------------------------------------------------------ */

bool policy_pod_addr(const struct object *pod, uint32_t *ret)
{
	const struct json *status = object_status(pod);
	const char *ip = json_get_str(status, "podIP"), *phase = json_get_str(status, "phase");
	struct in_addr addr;

	if (!ip || str_eq(phase, "Succeeded") || str_eq(phase, "Failed") ||
	    inet_pton(AF_INET, ip, &addr) != 1)
		return false;
	*ret = ntohl(addr.s_addr);
	return true;
}

/* key: the places of the policies that select it. */
static size_t group_of(struct compile *c, struct policy_plan *plan, struct map *groups,
		       struct policy **list, size_t n)
{
	struct policy_group *g;
	autobuf key = { 0 };

	for (size_t i = 0; i < n; i++)
		buf_printf(&key, "%zu,", (size_t)(list[i] - plan->policies));
	g = map_get(groups, buf_str(&key));
	if (!g) {
		g = &plan->groups[plan->n_groups++];
		g->policies = arena_alloc(c->a, n * sizeof(struct policy *));
		memcpy(g->policies, list, n * sizeof(struct policy *));
		g->n = n;
		map_put(groups, buf_str(&key), g);
	}
	return (size_t)(g - plan->groups);
}

static int by_addr(const void *a, const void *b)
{
	const struct policy_pod *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Two Pods that claim one address: nobody knows whose packets these are. */
static void settle_pods(struct policy_plan *plan)
{
	size_t n = 0;

	qsort(plan->pods, plan->n_pods, sizeof(*plan->pods), by_addr);
	for (size_t i = 0; i < plan->n_pods;) {
		size_t k = i + 1;

		while (k < plan->n_pods && plan->pods[k].addr == plan->pods[i].addr)
			k++;
		if (k == i + 1)
			plan->pods[n++] = plan->pods[i];
		i = k;
	}
	plan->n_pods = n;
}

static void match_pod(struct compile *c, struct policy_plan *plan, struct map *first,
		      struct map *groups, const struct object *o)
{
	struct policy_pod *pod = &plan->pods[plan->n_pods];
	const struct json *labels = json_at_path(o->root, "metadata.labels");
	struct policy **list = c->selecting;
	size_t n = 0;

	if (!policy_pod_addr(o, &pod->addr) ||
	    !str_eq(json_get_str(object_spec(o), "nodeName"), c->w->node))
		return;
	plan->n_pods++;
	for (struct policy *p = map_get(first, o->ns); p; p = p->next)
		if (policy_selects(json_get(object_spec(p->object), "podSelector"), labels, true)) {
			list[n++] = p;
			pod->free |= !p->narrows; /* what one allows, none of the others takes */
		}
	pod->free |= !n;
	if (!pod->free)
		pod->group = group_of(c, plan, groups, list, n);
}

static void match_pods(struct compile *c, struct policy_plan *plan)
{
	autoptr(map) first = map_new(NULL);
	autoptr(map) groups = map_new(NULL);

	for (size_t i = plan->n_policies; i--;) {
		struct policy *p = &plan->policies[i];

		if (!p->egress)
			continue;
		p->next = map_get(first, p->object->ns);
		map_put(first, p->object->ns, p);
	}
	for (size_t i = 0; i < c->w->n_pods; i++)
		match_pod(c, plan, first, groups, c->w->pods[i]);
	settle_pods(plan);
}

struct policy_plan *policy_plan_new(struct arena *a, const struct policy_world *w)
{
	autoptr(map) namespaces = map_new(NULL);
	autoptr(json_doc) doc = json_doc_new();
	struct compile c = { .a = a, .w = w, .namespaces = namespaces, .doc = doc };
	struct policy_plan *plan = arena_alloc(a, sizeof(*plan));

	for (size_t i = 0; i < w->n_namespaces; i++) {
		struct json *labels = json_at_path(w->namespaces[i]->root, "metadata.labels");

		if (labels)
			map_put(namespaces, w->namespaces[i]->name, labels);
	}
	plan->policies = arena_alloc(a, (w->n_policies + 1) * sizeof(*plan->policies));
	compile_policies(&c, plan);
	if (!plan->narrows)
		return plan;
	c.selecting = arena_alloc(a, (w->n_policies + 1) * sizeof(struct policy *));
	plan->pods = arena_alloc(a, (w->n_pods + 1) * sizeof(*plan->pods));
	plan->groups = arena_alloc(a, (w->n_pods + 1) * sizeof(*plan->groups));
	match_pods(&c, plan);
	return plan;
}

static bool rule_allows(const struct policy_rule *r, const struct policy_packet *packet)
{
	if (!policy_ranges_hold(r->ranges, r->n_ranges, packet->to, packet->to))
		return false;
	for (size_t i = 0; i < r->n_ports; i++)
		if (r->ports[i].protocol == packet->protocol && r->ports[i].from <= packet->port &&
		    packet->port <= r->ports[i].to)
			return true;
	return !r->ports;
}

bool policy_allows(const struct policy_plan *p, const struct policy_packet *packet)
{
	const struct policy_pod key = { .addr = packet->from };
	const struct policy_pod *pod =
		p->n_pods ? bsearch(&key, p->pods, p->n_pods, sizeof(key), by_addr) : NULL;
	const struct policy_group *g;

	if (!p->narrows || !pod || pod->free)
		return !p->narrows || pod;
	g = &p->groups[pod->group];
	for (size_t i = 0; i < g->n; i++)
		for (size_t k = 0; k < g->policies[i]->n_rules; k++)
			if (rule_allows(&g->policies[i]->rules[k], packet))
				return true;
	return false;
}
