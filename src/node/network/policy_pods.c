/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/object.h"
#include "api/pod.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "node/host/instance.h"
#include "node/network/policy_priv.h"
#include "node/network/protocol.h"

/*
 * The Pods of this node: each is matched with the policies of its namespace, once for each
 * direction, and Pods that the same policies select share a group. Then every rule that lets
 * something pass between sandboxes learns who is at the other end, and what a port's name means
 * there.
 */
enum {
	COST_TOTAL = 64 * 1024,      /* rules and addresses of all policies */
	POD_COST_TOTAL = 256 * 1024, /* Pods in all rules together */
};

bool policy_pod_ip(const struct object *pod, struct ip *ret)
{
	const struct json *status = object_status(pod);
	const char *ip = json_get_str(status, "podIP");

	return ip && !pod_phase_over(json_get_str(status, "phase")) && ip_parse(ip, ret);
}

/* The Pods themselves */

static int by_place(const void *a, const void *b)
{
	const struct policy_pod *x = a, *y = b;

	return (x->place > y->place) - (x->place < y->place);
}

/* Two Pods that claim one address: nobody knows whose packets these are. */
static void settle_pods(struct policy_plan *plan)
{
	size_t n = 0;

	qsort(plan->pods, plan->n_pods, sizeof(*plan->pods), by_place);
	for (size_t i = 0; i < plan->n_pods;) {
		size_t k = i + 1;

		while (k < plan->n_pods && plan->pods[k].place == plan->pods[i].place)
			k++;
		if (k == i + 1)
			plan->pods[n++] = plan->pods[i];
		i = k;
	}
	plan->n_pods = n;
}

static void collect_pods(struct policy_compile *c, struct policy_plan *plan)
{
	plan->pods = arena_alloc(c->a, (c->w->n_pods + 1) * sizeof(*plan->pods));
	for (size_t i = 0; i < c->w->n_pods; i++) {
		const struct object *o = c->w->pods[i];
		struct policy_pod pod = { .object = o,
					  .group = { POLICY_NO_GROUP, POLICY_NO_GROUP } };
		struct ip ip;

		if (policy_pod_ip(o, &ip) && instance_ip_place(c->w->instance, &ip, &pod.place) &&
		    pod.place >= POOL_FIRST &&
		    str_eq(json_get_str(object_spec(o), "nodeName"), c->w->node))
			plan->pods[plan->n_pods++] = pod;
	}
	settle_pods(plan);
}

const struct policy_pod *policy_pod_at(const struct policy_plan *p, unsigned place)
{
	const struct policy_pod key = { .place = place };

	return p->n_pods ? bsearch(&key, p->pods, p->n_pods, sizeof(key), by_place) : NULL;
}

/* Groups */

struct grouping {
	struct policy_compile *c;
	struct policy_plan *plan;
	enum policy_direction d;
	struct map *first;    /* namespace → its first policy that decides */
	struct map *groups;   /* key → struct policy_group */
	struct policy **list; /* room for those that select one Pod */
};

/* What one allows, none of the others takes. */
static void describe(struct policy_compile *c, struct policy_group *group, enum policy_direction d)
{
	struct policy_ranges opened = { 0 };

	group->narrows = true;
	for (size_t i = 0; i < group->n; i++)
		group->narrows &= group->policies[i]->narrows;
	if (d == POLICY_OUT)
		policy_opened(&opened, c->a, c->w->may_open, group);
	group->opened = opened.list;
	group->n_opened = opened.n;
}

/* key: the numbers of the policies that select it. */
static long group_of(struct grouping *g, size_t n)
{
	struct policy_groups *groups = &g->plan->groups[g->d];
	struct policy_group *group;
	autobuf key = { 0 };

	buf_printf(&key, "group %d", g->d);
	for (size_t i = 0; i < n; i++)
		buf_printf(&key, " %u", g->list[i]->number);
	group = map_get(g->groups, buf_str(&key));
	if (!group) {
		group = &groups->list[groups->n++];
		group->number = policy_number(g->c->w->numbers, buf_str(&key));
		group->policies = arena_alloc(g->c->a, n * sizeof(struct policy *));
		memcpy(group->policies, g->list, n * sizeof(struct policy *));
		group->n = n;
		map_put(g->groups, buf_str(&key), group);
	}
	return group - groups->list;
}

static void match_pod(struct grouping *g, struct policy_pod *pod)
{
	const struct object *o = pod->object;
	const struct json *labels = json_at_path(o->root, "metadata.labels");
	size_t n = 0;

	for (struct policy *p = map_get(g->first, o->ns); p; p = p->side[g->d].next)
		if (label_selector_matches(json_get(object_spec(p->object), "podSelector"), labels,
					   true)) {
			g->list[n++] = p;
			p->selects = true;
		}
	if (n)
		pod->group[g->d] = group_of(g, n);
}

static void match_direction(struct policy_compile *c, struct policy_plan *plan,
			    enum policy_direction d)
{
	autoptr(map) first = map_new(NULL);
	autoptr(map) groups = map_new(NULL);
	struct grouping g = { c, plan, d, first, groups, NULL };

	g.list = arena_alloc(c->a, (plan->n_policies + 1) * sizeof(*g.list));
	plan->groups[d].list = arena_alloc(c->a, (plan->n_pods + 1) * sizeof(struct policy_group));
	for (size_t i = plan->n_policies; i--;) {
		struct policy *p = &plan->policies[i];

		if (!p->side[d].decides)
			continue;
		p->side[d].next = map_get(first, p->object->ns);
		map_put(first, p->object->ns, p);
	}
	for (size_t i = 0; i < plan->n_pods; i++)
		match_pod(&g, &plan->pods[i]);
}

/* The other end */

static bool peer_selects(struct policy_compile *c, const struct json *peer,
			 const struct object *pod)
{
	const struct json *spaces = json_get(peer, "namespaceSelector");

	if (json_get(peer, "ipBlock"))
		return false; /* those are addresses outside */
	if (spaces ? !label_selector_matches(spaces, policy_labels_of(c, pod->ns), false)
		   : !str_eq(pod->ns, c->p->object->ns))
		return false;
	return label_selector_matches(json_get(peer, "podSelector"),
				      json_at_path(pod->root, "metadata.labels"), false);
}

static bool rule_selects(struct policy_compile *c, const struct json *peers,
			 const struct object *pod)
{
	json_each(it, peers)
		if (peer_selects(c, it.val, pod))
			return true;
	return false;
}

static void find_peers(struct policy_compile *c, const struct policy_plan *plan,
		       struct policy_pass *pass, enum policy_direction d)
{
	const struct json *peers = json_get(pass->rule, d == POLICY_OUT ? "to" : "from");
	struct policy_pods *l = &pass->peers;

	l->all = !json_len(peers);
	if (l->all)
		return;
	l->list = arena_alloc(c->a, (plan->n_pods + 1) * sizeof(*l->list));
	for (size_t i = 0; i < plan->n_pods; i++)
		if (rule_selects(c, peers, plan->pods[i].object))
			l->list[l->n++] = i;
	c->p->pod_cost += l->n;
}

bool policy_pods_have(const struct policy_pods *l, size_t pod)
{
	size_t from = 0, to = l->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (l->list[mid] == pod)
			return true;
		if (l->list[mid] < pod)
			from = mid + 1;
		else
			to = mid;
	}
	return l->all;
}

/* 0: it has no port of that name. */
static uint16_t port_named(const struct object *pod, const char *name, uint8_t protocol)
{
	const char *text = protocol_name(protocol);

	return text ? (uint16_t)pod_named_port(object_spec(pod), name, text) : 0;
}

static void note_named(struct policy_compile *c, const struct policy_plan *plan,
		       struct policy_pass *pass, const struct policy_ports *port, size_t pod)
{
	struct policy_named *named = NULL;

	for (size_t i = 0; i < pass->n_named && !named; i++)
		if (pass->named[i].port.protocol == port->protocol &&
		    pass->named[i].port.from == port->from)
			named = &pass->named[i];
	if (!named) {
		struct policy_named *more =
			arena_new_n(c->a, struct policy_named, pass->n_named + 1);

		if (pass->n_named)
			memcpy(more, pass->named, pass->n_named * sizeof(*more));
		pass->named = more;
		named = &pass->named[pass->n_named++];
		named->port = *port;
		named->at.list = arena_alloc(c->a, plan->n_pods * sizeof(*named->at.list));
	}
	if (!named->at.n || named->at.list[named->at.n - 1] != pod)
		named->at.list[named->at.n++] = pod;
	c->p->pod_cost++;
}

/* Who listens: the other end of what goes out, the selected Pods themselves of what comes in. */
static bool listens(const struct policy_compile *c, const struct policy_plan *plan,
		    const struct policy_pass *pass, enum policy_direction d, size_t pod)
{
	long in = plan->pods[pod].group[POLICY_IN];
	const struct policy_group *g = in < 0 ? NULL : &plan->groups[POLICY_IN].list[in];

	if (d == POLICY_OUT)
		return policy_pods_have(&pass->peers, pod);
	for (size_t i = 0; g && i < g->n; i++)
		if (g->policies[i] == c->p)
			return true;
	return false;
}

static void find_named(struct policy_compile *c, const struct policy_plan *plan,
		       struct policy_pass *pass, enum policy_direction d)
{
	json_each(it, json_get(pass->rule, "ports")) {
		const char *name = json_str(json_get(it.val, "port"));
		struct policy_ports port = { .protocol = policy_protocol(it.val) };

		for (size_t i = 0; name && port.protocol && i < plan->n_pods; i++) {
			if (!listens(c, plan, pass, d, i))
				continue;
			port.from = port.to = port_named(plan->pods[i].object, name, port.protocol);
			if (port.from)
				note_named(c, plan, pass, &port, i);
		}
	}
}

static bool shuts_a_peer(const struct policy_plan *plan, const struct policy_pass *pass,
			 enum policy_direction d)
{
	enum policy_direction other = d == POLICY_OUT ? POLICY_IN : POLICY_OUT;

	for (size_t i = 0; i < pass->peers.n; i++)
		if (plan->pods[pass->peers.list[i]].group[other] < 0)
			return true;
	return false;
}

static void find_other_ends(struct policy_compile *c, struct policy_plan *plan,
			    enum policy_direction d)
{
	static const char *const one_sided[] = {
		[POLICY_OUT] = "some of the Pods that it selects are not open for it, as no policy "
			       "with the type Ingress selects them: both sides need one",
		[POLICY_IN] = "some of the Pods that it selects do not reach it, as no policy with "
			      "the type Egress selects them: both sides need one",
	};
	struct policy_side *side = &c->p->side[d];

	for (size_t i = 0; i < side->n_passes; i++) {
		find_peers(c, plan, &side->passes[i], d);
		find_named(c, plan, &side->passes[i], d);
		if (shuts_a_peer(plan, &side->passes[i], d))
			policy_notice(c, d, side->passes[i].index, one_sided[d]);
	}
}

static bool finds_any(const struct policy_plan *plan, enum policy_direction d)
{
	for (size_t i = 0; i < plan->n_policies; i++)
		for (size_t k = 0; k < plan->policies[i].side[d].n_passes; k++) {
			const struct policy_pods *l = &plan->policies[i].side[d].passes[k].peers;

			if (l->all || l->n)
				return true;
		}
	return false;
}

static size_t pod_cost(const struct policy *p)
{
	return p->pod_cost;
}

/* After the last policy was shut. */
static void settle_groups(struct policy_compile *c, struct policy_plan *plan)
{
	for (int d = 0; d < POLICY_DIRECTION_MAX_; d++)
		for (size_t i = 0; i < plan->groups[d].n; i++)
			describe(c, &plan->groups[d].list[i], d);
	for (size_t i = 0; i < plan->n_pods; i++) {
		long group = plan->pods[i].group[POLICY_OUT];

		plan->pods[i].free = group < 0 || !plan->groups[POLICY_OUT].list[group].narrows;
	}
	for (size_t i = 0; i < plan->n_policies; i++)
		plan->narrows |= plan->policies[i].narrows;
}

void policy_match_pods(struct policy_compile *c, struct policy_plan *plan)
{
	static const struct policy_limit rules = {
		policy_cost, COST_TOTAL,
		"the policies of its namespace have too many addresses and ports for all of them "
		"to be enforced, so nothing passes by this one"
	};
	static const struct policy_limit ends = {
		pod_cost, POD_COST_TOTAL,
		"the policies of its namespace select too many sandboxes for all of them to be "
		"enforced, so nothing passes by this one"
	};

	if (!plan->looks)
		return;
	collect_pods(c, plan);
	for (int d = 0; d < POLICY_DIRECTION_MAX_; d++)
		match_direction(c, plan, d);
	policy_limit_number(c, plan);
	policy_limit_cost(c, plan, &rules);
	for (size_t i = 0; i < plan->n_policies; i++) {
		c->p = &plan->policies[i];
		for (int d = 0; d < POLICY_DIRECTION_MAX_ && c->p->selects; d++)
			find_other_ends(c, plan, d);
	}
	policy_limit_cost(c, plan, &ends);
	settle_groups(c, plan);
	plan->opens = finds_any(plan, POLICY_OUT) && finds_any(plan, POLICY_IN);
}
