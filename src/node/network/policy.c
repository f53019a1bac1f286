/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/policy.h"

#include <netinet/in.h>
#include <string.h>

#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "node/host/instance.h"
#include "node/host/reserved.h"
#include "node/network/policy_priv.h"
#include "node/network/protocol.h"

/*
 * Policies are compiled one by one; then policy_pods.c finds the Pods that each selects, and those
 * at the other end.
 *
 * The name server is a Pod of its own in a cluster and a part of the daemon here. Selectors find it
 * under the name that it has there, as k8s-app=kube-dns in kube-system: its addresses and port 53.
 * So is the router, app=sandbox-router in agent-sandbox-system, which always comes in.
 */
enum {
	COST_MAX = 4096, /* rules and addresses of one policy */
	DNS = 53,
};

static const struct stand_in {
	const char *ns, *key, *value;
} name_server = { "kube-system", "k8s-app", "kube-dns" },
  router = { "agent-sandbox-system", "app", "sandbox-router" };

/* Selecting */

const struct json *policy_labels_of(struct policy_compile *c, const char *ns)
{
	struct json *labels = map_get(c->namespaces, ns);

	if (!labels) { /* every namespace has this one */
		labels = json_obj(c->doc);
		json_set_str(c->doc, labels, "kubernetes.io/metadata.name", ns);
		map_put(c->namespaces, ns, labels);
	}
	return labels;
}

static bool selects_stand_in(struct policy_compile *c, const struct json *peer,
			     const struct stand_in *s)
{
	const struct json *spaces = json_get(peer, "namespaceSelector");
	struct json *labels = json_obj(c->doc);

	json_set_str(c->doc, labels, s->key, s->value);
	if (spaces ? !label_selector_matches(spaces, policy_labels_of(c, s->ns), false)
		   : !str_eq(s->ns, c->p->object->ns))
		return false;
	return label_selector_matches(json_get(peer, "podSelector"), labels, false);
}

/* Rules */

void policy_notice(struct policy_compile *c, enum policy_direction d, size_t rule, const char *what)
{
	if (!c->p->notice)
		c->p->notice = arena_printf(c->a, "spec.%s[%zu]: %s",
					    d == POLICY_OUT ? "egress" : "ingress", rule, what);
}

uint8_t policy_protocol(const struct json *port)
{
	return protocol_number(json_get_str(port, "protocol"));
}

bool policy_port(const struct json *port, struct policy_ports *ret)
{
	const struct json *v = json_get(port, "port");
	uint8_t protocol = policy_protocol(port);
	int64_t from = json_int(v, 0), to = json_get_int(port, "endPort", from);

	if (!v || json_is(v, JSON_NULL)) {
		*ret = (struct policy_ports){ protocol, 0, 0xffff };
		return protocol && !json_get_int(port, "endPort", 0);
	}
	if (json_str(v) || !protocol || from < 1 || to < from || to > 0xffff)
		return false;
	*ret = (struct policy_ports){ protocol, (uint16_t)from, (uint16_t)to };
	return true;
}

/* The names that its ports have in a cluster. */
static bool port_of_name_server(const struct json *port, struct policy_ports *ret)
{
	const char *name = json_str(json_get(port, "port"));
	uint8_t protocol = policy_protocol(port);

	if (!name)
		return policy_port(port, ret);
	*ret = (struct policy_ports){ protocol, DNS, DNS };
	return (protocol == IPPROTO_UDP && str_eq(name, "dns")) ||
	       (protocol == IPPROTO_TCP && str_eq(name, "dns-tcp"));
}

static void add_rule(struct policy_compile *c, const struct policy_ranges *to,
		     const struct json *ports,
		     bool (*read_port)(const struct json *port, struct policy_ports *ret))
{
	struct policy_rule r = { .ranges = to->list, .n_ranges = to->n };

	if (!to->n)
		return;
	if (json_len(ports)) {
		r.ports = arena_alloc(c->a, json_len(ports) * sizeof(*r.ports));
		json_each(it, ports)
			if (read_port(it.val, &r.ports[r.n_ports]))
				r.n_ports++;
		if (!r.n_ports)
			return;
	}
	c->p->rules[c->p->n_rules++] = r;
}

static void add_name_server(struct policy_compile *c, struct policy_ranges *to)
{
	for (size_t i = 0; i < ARRAY_LEN(c->gateway); i++)
		policy_ranges_add(to, c->a, &c->gateway[i], &c->gateway[i]);
}

static bool holds_name_server(const struct policy_compile *c, const struct policy_range *list,
			      size_t n)
{
	return policy_ranges_hold(list, n, &c->gateway[0], &c->gateway[0]);
}

static void add_block(struct policy_compile *c, const struct json *block, size_t rule,
		      struct policy_ranges *blocks)
{
	static const char private[] =
		"private addresses are opened only as far as --policy-may-open says, so this has no "
		"effect";
	const char *cidr = json_get_str(block, "cidr");
	struct policy_range r;

	if (!policy_block(blocks, c->a, block))
		policy_notice(c, POLICY_OUT, rule, "a block of addresses cannot be read");
	else if (ip_parse_block(cidr, &r.from, &r.to) && !policy_has_public(&r.from, &r.to) &&
		 !holds_name_server(c, &r, 1) && !policy_may_open_part(c->w->may_open, &r))
		policy_notice(c, POLICY_OUT, rule, private);
}

static void add_pass(struct policy_compile *c, enum policy_direction d, const struct json *rule,
		     size_t n)
{
	struct policy_side *side = &c->p->side[d];
	const struct json *ports = json_get(rule, "ports");
	struct policy_pass pass = { .rule = rule, .index = n, .any_port = !json_len(ports) };

	pass.ports = arena_alloc(c->a, (json_len(ports) + 1) * sizeof(*pass.ports));
	json_each(it, ports)
		if (policy_port(it.val, &pass.ports[pass.n_ports]))
			pass.n_ports++;
	side->passes[side->n_passes++] = pass;
}

/* One rule for what is given by addresses, one for the name server, whose ports have names, and one
 * for sandboxes. */
static void compile_out(struct policy_compile *c, const struct json *rule, size_t n)
{
	const struct json *peers = json_get(rule, "to"), *ports = json_get(rule, "ports");
	struct policy_ranges blocks = { 0 }, names = { 0 };
	bool sandboxes = !json_len(peers);

	if (!json_len(peers)) {
		policy_ranges_add_all(&blocks, c->a);
		add_name_server(c, &names);
	}
	json_each(it, peers) {
		const struct json *block = json_get(it.val, "ipBlock");

		if (block)
			add_block(c, block, n, &blocks);
		else if (selects_stand_in(c, it.val, &name_server))
			add_name_server(c, &names);
		sandboxes |= !block;
	}
	if (holds_name_server(c, blocks.list, blocks.n))
		add_name_server(c, &blocks);
	policy_ranges_merge(&blocks);
	policy_ranges_merge(&names);
	add_rule(c, &blocks, ports, policy_port);
	add_rule(c, &names, ports, port_of_name_server);
	if (sandboxes)
		add_pass(c, POLICY_OUT, rule, n);
}

static void compile_in(struct policy_compile *c, const struct json *rule, size_t n)
{
	static const char outside[] =
		"only the node and other sandboxes reach a sandbox, so a block of addresses has no "
		"effect";
	const struct json *peers = json_get(rule, "from");
	bool sandboxes = !json_len(peers);

	json_each(it, peers) {
		if (json_get(it.val, "ipBlock"))
			policy_notice(c, POLICY_IN, n, outside);
		else
			sandboxes = true;
		c->looks |= !json_get(it.val, "ipBlock") && !selects_stand_in(c, it.val, &router);
	}
	if (sandboxes)
		add_pass(c, POLICY_IN, rule, n);
}

/* Policies */

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

/* Everything that is public, and the name server, by any port. */
static bool opens_all(const struct policy_compile *c, const struct policy_rule *r)
{
	static const struct ip from6 = { { 0x20 } };
	struct ip to6, from, to;
	uint64_t at = 0;

	memset(&to6, 0xff, sizeof(to6));
	to6.octet[0] = 0x3f;
	if (r->ports || !holds_name_server(c, r->ranges, r->n_ranges) ||
	    !policy_ranges_hold(r->ranges, r->n_ranges, &from6, &to6))
		return false;
	for (size_t i = 0; i < n_reserved_nets; i++) { /* they are in order */
		const struct reserved_net *n = &reserved_nets[i];

		from = ip_from4((uint32_t)at);
		to = ip_from4(n->net - 1);
		if (n->net > at && !policy_ranges_hold(r->ranges, r->n_ranges, &from, &to))
			return false;
		at = (uint64_t)n->net + (1ull << (32 - n->prefix));
	}
	from = ip_from4((uint32_t)at);
	to = ip_from4(0xffffffffu);
	return at > 0xffffffffu || policy_ranges_hold(r->ranges, r->n_ranges, &from, &to);
}

size_t policy_cost(const struct policy *p)
{
	size_t cost = 1;

	for (size_t i = 0; i < p->n_rules; i++)
		cost += p->rules[i].n_ranges * (p->rules[i].ports ? p->rules[i].n_ports : 1);
	for (int d = 0; d < POLICY_DIRECTION_MAX_; d++)
		for (size_t i = 0; i < p->side[d].n_passes; i++)
			cost += 1 + p->side[d].passes[i].n_ports;
	return cost;
}

static void compile_side(struct policy_compile *c, enum policy_direction d,
			 const struct json *rules)
{
	struct policy_side *side = &c->p->side[d];
	size_t n = 0;

	side->decides = true;
	side->passes = arena_alloc(c->a, (json_len(rules) + 1) * sizeof(*side->passes));
	json_each(it, rules) {
		if (d == POLICY_OUT)
			compile_out(c, it.val, n++);
		else
			compile_in(c, it.val, n++);
	}
}

static void compile_egress(struct policy_compile *c, const struct json *rules)
{
	struct policy *p = c->p;

	p->narrows = true;
	p->rules = arena_alloc(c->a, 2 * (json_len(rules) + 1) * sizeof(*p->rules));
	compile_side(c, POLICY_OUT, rules);
	for (size_t i = 0; i < p->n_rules; i++)
		p->narrows &= !opens_all(c, &p->rules[i]);
}

void policy_shut(struct policy *p, const char *notice)
{
	p->n_rules = p->side[POLICY_OUT].n_passes = p->side[POLICY_IN].n_passes = 0;
	p->narrows = p->side[POLICY_OUT].decides;
	p->unenforceable = true;
	p->notice = notice;
}

static bool opens_block(const struct policy_compile *c, const struct policy *p)
{
	for (size_t i = 0; i < p->n_rules; i++)
		for (size_t k = 0; k < p->rules[i].n_ranges; k++)
			if (policy_may_open_part(c->w->may_open, &p->rules[i].ranges[k]))
				return true;
	return false;
}

static void compile_policies(struct policy_compile *c, struct policy_plan *plan)
{
	bool passes[POLICY_DIRECTION_MAX_] = { false };

	for (size_t i = 0; i < c->w->n_policies; i++) {
		const struct object *o = c->w->policies[i];
		const struct json *spec = object_spec(o);
		autofree char *key = xasprintf("policy %s/%s", o->ns, o->name);

		c->p = &plan->policies[plan->n_policies++];
		c->p->object = o;
		c->p->number = policy_number(c->w->numbers, key);
		if (has_type(spec, "Ingress", true))
			compile_side(c, POLICY_IN, json_get(spec, "ingress"));
		if (has_type(spec, "Egress", json_len(json_get(spec, "egress"))))
			compile_egress(c, json_get(spec, "egress"));
		if (policy_cost(c->p) > COST_MAX)
			policy_shut(c->p, "it has too many addresses and ports to be enforced, so "
					  "nothing passes by it");
		plan->narrows |= c->p->narrows;
		plan->opens_blocks |= opens_block(c, c->p);
		for (int d = 0; d < POLICY_DIRECTION_MAX_; d++)
			passes[d] |= c->p->side[d].n_passes;
	}
	plan->opens = passes[POLICY_OUT] && passes[POLICY_IN];
	plan->looks = plan->narrows || plan->opens_blocks || passes[POLICY_OUT] || c->looks;
}

struct policy_plan *policy_plan_new(struct arena *a, const struct policy_world *w)
{
	autoptr(map) namespaces = map_new(NULL);
	autoptr(json_doc) doc = json_doc_new();
	struct policy_compile c = { .a = a,
				    .w = w,
				    .namespaces = namespaces,
				    .doc = doc,
				    .gateway = { instance_ip4(w->instance, POOL_GATEWAY),
						 instance_ip6(w->instance, POOL_GATEWAY) } };
	struct policy_plan *plan = arena_alloc(a, sizeof(*plan));

	for (size_t i = 0; i < w->n_namespaces; i++) {
		struct json *labels = json_at_path(w->namespaces[i]->root, "metadata.labels");

		if (labels)
			map_put(namespaces, w->namespaces[i]->name, labels);
	}
	plan->instance = w->instance;
	plan->may_open = w->may_open;
	plan->policies = arena_alloc(a, (w->n_policies + 1) * sizeof(*plan->policies));
	compile_policies(&c, plan);
	policy_match_pods(&c, plan);
	policy_numbers_turn(w->numbers);
	return plan;
}
