/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/policies.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/event.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "node/host/instance.h"
#include "node/network/follower.h"
#include "node/network/policy.h"
#include "node/network/service.h"

/*
 * Everything is computed anew from the objects. While Pods make no difference to any policy, they
 * are not looked at as they come and go.
 */
enum {
	UNPLANNED = UINT32_MAX / 2, /* the next rules may name it */
};

enum followed {
	POLICIES,
	PODS,
	NAMESPACES,
	FOLLOWED_MAX_,
};

struct policies {
	struct policies_spec spec;
	struct follower follower;
	bool looks; /* Pods that come and go make a difference */
	struct policy_numbers *numbers;
	struct bytes *rules;
	unsigned number; /* of the rules */
	/* By place: the number of the last rules that named the address, 0: none, or UNPLANNED. */
	unsigned named[POOL_SIZE];
	const struct service_plan *services; /* NULL: none */
	struct arena *arena;                 /* of the plan */
	const struct policy_plan
		*plan;     /* for policies_let_out() alone; NULL: objects are missing */
	struct map *told;  /* uid → what was said about the policy, owned */
	struct map *peers; /* address → struct opened, owned: what was told of it */
};

/* The rules */

/* Once for each text about a policy. */
static void tell(struct policies *p, const struct policy *policy)
{
	const struct object *o = policy->object;
	const struct node_event event = {
		.about = o,
		.warning = true,
		.reason = policy->unenforceable ? "PolicyShut" : "PolicyWithoutEffect",
		.message = policy->notice,
		.node = p->spec.node_name,
		.now = clock_wall(),
	};
	const char *was = map_get(p->told, o->uid);

	if (!policy->notice || (was && !strcmp(was, policy->notice)))
		return;
	map_put(p->told, o->uid, xstrdup(policy->notice));
	client_create(p->spec.client,
		      &(struct client_ref){
			      .kind = kinds_need(client_kinds(p->spec.client), "v1", "Event"),
			      .ns = node_event_ns(o) },
		      node_event_doc(&event), NULL);
}

/* What is opened in the filters of sandboxes */

struct opened {
	char *list[POLICY_DIRECTION_MAX_];
};

static void opened_free(void *arg)
{
	struct opened *o = arg;

	for (int d = 0; d < POLICY_DIRECTION_MAX_; d++)
		free(o->list[d]);
	free(o);
}

static bool opened_same(const struct opened *a, const struct opened *b)
{
	return str_eq(a->list[POLICY_OUT], b->list[POLICY_OUT]) &&
	       str_eq(a->list[POLICY_IN], b->list[POLICY_IN]);
}

/* Pods of a group share their lists: made once for each. */
static char **lists_of(const struct policies *p, struct arena *a, const struct policy_plan *plan,
		       enum policy_direction d)
{
	char **lists = arena_alloc(a, (plan->groups[d].n + 1) * sizeof(*lists));

	for (size_t i = 0; i < plan->groups[d].n; i++) {
		autobuf text = { 0 };

		policy_peers(plan, d, (long)i, &text);
		if (text.len && d == POLICY_OUT && p->services)
			service_peers(p->services, plan, (long)i, &text);
		lists[i] = arena_strdup(a, buf_str(&text));
	}
	return lists;
}

static char *joined(const char *a, const char *b)
{
	return xasprintf("%s%s%s", a, *a && *b ? "," : "", b);
}

/* own: the Services through which it reaches itself; NULL: none. Peers are told to each other in
 * both families, whether the sandbox has both or not. */
static void add_opened(const struct policies *p, struct map *found, unsigned place,
		       const char *const lists[POLICY_DIRECTION_MAX_], const char *own)
{
	const struct ip self[] = { instance_ip4(p->spec.instance, POOL_STAND_IN),
				   instance_ip6(p->spec.instance, POOL_STAND_IN) };
	char text[2][IP_TEXT_MAX], both[2 * IP_TEXT_MAX], ip[16];
	struct opened *o;

	if (!own && !*lists[POLICY_OUT] && !*lists[POLICY_IN])
		return;
	ip_text(&self[0], text[0]);
	ip_text(&self[1], text[1]);
	(void)snprintf(both, sizeof(both), "%s,%s", text[0], text[1]);
	o = xnew(struct opened);
	o->list[POLICY_OUT] = joined(lists[POLICY_OUT], own ? own : "");
	o->list[POLICY_IN] = joined(lists[POLICY_IN], own ? both : "");
	instance_addr_text(p->spec.instance, place, ip);
	map_put(found, ip, o);
}

static struct map *find_opened(struct policies *p, struct arena *a, const struct policy_plan *plan)
{
	char **lists[POLICY_DIRECTION_MAX_] = { lists_of(p, a, plan, POLICY_OUT),
						lists_of(p, a, plan, POLICY_IN) };
	char **own = p->services ? service_own(p->services, a) : NULL;
	struct map *found = map_new(opened_free);

	/* Those of whom policies say something get both lists. */
	for (unsigned place = 0; own && place < POOL_SIZE; place++)
		if (own[place])
			add_opened(p, found, place, (const char *[]){ "", "" }, own[place]);
	for (size_t i = 0; i < plan->n_pods && (plan->opens || plan->opens_blocks); i++) {
		const struct policy_pod *pod = &plan->pods[i];
		const char *its[POLICY_DIRECTION_MAX_];

		for (int d = 0; d < POLICY_DIRECTION_MAX_; d++)
			its[d] = pod->group[d] < 0 ? "" : lists[d][pod->group[d]];
		add_opened(p, found, pod->place, its, own ? own[pod->place] : NULL);
	}
	return found;
}

static void tell_opened(struct policies *p, struct arena *a, const struct policy_plan *plan)
{
	autoptr(map) before = take(p->peers);

	p->peers = find_opened(p, a, plan);
	map_each(it, before)
		if (!map_has(p->peers, it.key))
			p->spec.peers(p->spec.arg, it.key, "", "");
	map_each(it, p->peers) {
		const struct opened *now = it.value, *was = map_get(before, it.key);

		if (!was || !opened_same(now, was))
			p->spec.peers(p->spec.arg, it.key, now->list[POLICY_OUT],
				      now->list[POLICY_IN]);
	}
	p->spec.peers_known(p->spec.arg);
}

/* Those that came since the last plan and are not in this one count as well: they are gone. */
static void note_named(struct policies *p, const struct policy_plan *plan, bool rules)
{
	for (unsigned i = 0; i < POOL_SIZE; i++)
		if (p->named[i] == UNPLANNED)
			p->named[i] = rules ? p->number : 0;
	for (size_t i = 0; i < plan->n_pods && rules; i++)
		p->named[plan->pods[i].place] = p->number;
}

static bool same(const struct bytes *a, const struct bytes *b)
{
	return a == b || (a && b && a->len == b->len && !memcmp(a->data, b->data, a->len));
}

/* False: they are as they were. */
static bool set_rules(struct policies *p, struct buf *text)
{
	autoptr(bytes) now = text->len ? bytes_from_buf(text) : NULL;

	if (p->number && same(now, p->rules))
		return false;
	if (p->number && !now != !p->rules)
		log_info("network policies begin or cease to change what passes",
			 KV("rules", !!now));
	bytes_unref(p->rules);
	p->rules = take(now);
	p->number++;
	return true;
}

/* A list of Pods that is being made, and which places they have. */
struct counted {
	const struct policies *p;
	struct object **list;
	size_t n, cap;
	bool has[POOL_SIZE];
};

static bool place_of(const struct policies *p, const struct object *pod, unsigned *ret)
{
	struct ip ip;

	return policy_pod_ip(pod, &ip) && instance_ip_place(p->spec.instance, &ip, ret);
}

/* A real Pod comes before the one that a Sandbox would have there. */
static void count_held(void *arg, struct object *pod)
{
	struct counted *c = arg;
	unsigned place;

	if (!place_of(c->p, pod, &place) || c->has[place])
		return;
	c->has[place] = true;
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 64;
		c->list = xrealloc(c->list, c->cap * sizeof(*c->list));
	}
	c->list[c->n++] = pod;
}

static void add_held(struct policies *p, struct follower_objects *pods)
{
	struct counted *c = xnew(struct counted);
	unsigned place;

	*c = (struct counted){ p, pods->list, pods->n, pods->cap, { false } };
	for (size_t i = 0; i < pods->n; i++)
		if (place_of(p, pods->list[i], &place))
			c->has[place] = true;
	p->spec.held(p->spec.arg, count_held, c);
	*pods = (struct follower_objects){ c->list, c->n, c->cap };
	free(c);
}

/* say: the first table is made before there is anybody to tell anything. */
static bool plan_rules(struct policies *p, bool say)
{
	struct arena *a = arena_new();
	struct follower_objects all[FOLLOWED_MAX_];
	struct policy_world w = { .node = p->spec.node_name,
				  .instance = p->spec.instance,
				  .may_open = &p->spec.may_open,
				  .numbers = p->numbers };
	struct policy_plan *plan;
	autobuf text = { 0 };
	bool changed;

	follower_list(&p->follower, all);
	if (p->spec.held)
		add_held(p, &all[PODS]);
	w.policies = all[POLICIES].list;
	w.n_policies = all[POLICIES].n;
	w.pods = all[PODS].list;
	w.n_pods = all[PODS].n;
	w.namespaces = all[NAMESPACES].list;
	w.n_namespaces = all[NAMESPACES].n;
	plan = policy_plan_new(a, &w);
	p->looks = plan->looks;
	policy_text(plan, &text);
	changed = set_rules(p, &text);
	note_named(p, plan, p->rules);
	for (size_t i = 0; i < plan->n_policies && say; i++)
		tell(p, &plan->policies[i]);
	if (say)
		tell_opened(p, a, plan);
	for (int i = 0; i < FOLLOWED_MAX_; i++)
		follower_objects_done(&all[i]);
	arena_free(p->arena);
	p->arena = a;
	p->plan = plan;
	return changed;
}

/* A node whose objects are not all there yet: every sandbox is one that nobody knows. */
static void shut_rules(struct policies *p)
{
	static const struct policy_may_open none;
	const struct policy_plan plan = { .narrows = true, .may_open = &none };
	autobuf text = { 0 };

	policy_text(&plan, &text);
	(void)set_rules(p, &text);
}

static void look(void *arg)
{
	struct policies *p = arg;

	if (plan_rules(p, true))
		p->spec.load(p->spec.arg, p->rules, p->number);
}

/* Changes */

static void on_policy(void *arg, struct object *was, struct object *now)
{
	struct policies *p = arg;

	if (was && !now)
		(void)map_del(p->told, was->uid);
	follower_look_soon(&p->follower);
}

static bool pod_matters(const struct object *was, const struct object *now)
{
	struct ip old, new;
	bool had = was && policy_pod_ip(was, &old), has = now && policy_pod_ip(now, &new);

	if (had != has)
		return true;
	return has &&
	       (ip_cmp(&old, &new) || !json_equal(json_at_path(was->root, "metadata.labels"),
						  json_at_path(now->root, "metadata.labels")));
}

static void on_pod(void *arg, struct object *was, struct object *now)
{
	struct policies *p = arg;
	unsigned place;
	struct ip ip;

	if (!p->looks || !pod_matters(was, now))
		return;
	if (now && policy_pod_ip(now, &ip) && instance_ip_place(p->spec.instance, &ip, &place))
		p->named[place] = UNPLANNED;
	follower_look_soon(&p->follower);
}

static void on_namespace(void *arg, unused struct object *was, unused struct object *now)
{
	struct policies *p = arg;

	follower_look_soon(&p->follower);
}

struct policies *policies_new(const struct policies_spec *spec)
{
	static const struct follower_kind kinds[FOLLOWED_MAX_] = {
		[POLICIES] = { "networking.k8s.io/v1", "NetworkPolicy", on_policy },
		[PODS] = { "v1", "Pod", on_pod },
		[NAMESPACES] = { "v1", "Namespace", on_namespace },
	};
	struct policies *p = xnew(struct policies);

	p->spec = *spec;
	p->told = map_new(free);
	p->numbers = policy_numbers_new();
	p->peers = map_new(opened_free);
	follower_init(&p->follower, &(struct follower_spec){ .loop = spec->loop,
							     .client = spec->client,
							     .kinds = kinds,
							     .n_kinds = FOLLOWED_MAX_,
							     .look = look,
							     .arg = p });
	if (follower_synced(&p->follower))
		(void)plan_rules(p, false);
	else
		shut_rules(p);
	return p;
}

struct bytes *policies_rules(const struct policies *p)
{
	return p->rules;
}

unsigned policies_number(const struct policies *p)
{
	return p->number;
}

bool policies_clear(const struct policies *p, unsigned place)
{
	return place >= POOL_SIZE || !p->named[place] ||
	       p->named[place] < p->spec.in_force(p->spec.arg);
}

bool policies_let_out(const struct policies *p, unsigned place, const struct ip *to, uint16_t port)
{
	return p->plan && policy_lets_out(p->plan, place, to, port);
}

void policies_set_services(struct policies *p, const struct service_plan *services)
{
	p->services = services;
	follower_look_soon(&p->follower);
}

void policies_held_changed(struct policies *p)
{
	if (p->looks)
		follower_look_soon(&p->follower);
}

void policies_free(struct policies *p)
{
	if (!p)
		return;
	follower_done(&p->follower);
	arena_free(p->arena);
	map_free(p->told);
	map_free(p->peers);
	policy_numbers_free(p->numbers);
	bytes_unref(p->rules);
	free(p);
}
