/* SPDX-License-Identifier: Apache-2.0 */
#include "api/service.h"

#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/admit/ranges.h"
#include "server/admit/service_priv.h"

/*
 * What a Service has of the server: addresses, families and node ports. The steps are those of a
 * kube-apiserver, in its order, so that what clients leave out, repeat or take back means the same:
 * values that were allocated before are filled in, the two ways to write an address are made to
 * agree, families are inferred, what is missing is allocated, and what the type no longer has is
 * dropped. Whatever is taken here is given back at the end: storing the Service takes it for good
 * (addresses_note()), and nothing comes in between.
 */

const char *service_text_at(const struct json *list, size_t i)
{
	return str_or(json_str(json_at(list, i)), "");
}

static bool same_texts(const struct json *a, const struct json *b)
{
	if (json_len(a) != json_len(b))
		return false;
	for (size_t i = 0; i < json_len(a); i++)
		if (!str_eq(service_text_at(a, i), service_text_at(b, i)))
			return false;
	return true;
}

static bool same(const struct draft *s, const char *member)
{
	return same_texts(json_get(s->spec, member), json_get(s->was, member));
}

static bool same_text(const struct draft *s, const char *member)
{
	return str_eq(str_or(json_get_str(s->spec, member), ""),
		      str_or(json_get_str(s->was, member), ""));
}

static size_t len(const struct draft *s, const char *member)
{
	return json_len(json_get(s->spec, member));
}

static bool policy_is(const struct draft *s, const char *policy)
{
	return str_eq(json_get_str(s->spec, "ipFamilyPolicy"), policy);
}

static const char *type_of(const struct json *spec)
{
	return str_or(json_get_str(spec, "type"), "");
}

/* No address, and Pods are chosen by nobody: the endpoints may be of any family. */
static bool is_by_hand(const struct draft *s)
{
	return str_eq(json_get_str(s->spec, "clusterIP"), "None") && !len(s, "selector");
}

void service_invalid(struct draft *s, const char *field, const char *member, const char *why)
{
	causes_invalid(&s->op->causes, field, json_get(s->spec, member), why);
}

bool service_ports_have(const struct json *ports, int64_t node_port)
{
	json_each(it, ports)
		if (json_get_int(it.val, "nodePort", 0) == node_port)
			return true;
	return false;
}

/* A port keeps the node port that the one of its name had, unless another one has it now. */
static void keep_node_ports(struct draft *s)
{
	const struct json *was = json_get(s->was, "ports"), *now = json_get(s->spec, "ports");

	json_each(it, now) {
		int64_t had = 0;

		if (json_get_int(it.val, "nodePort", 0))
			continue;
		json_each(old, was)
			if (str_eq(str_or(json_get_str(old.val, "name"), ""),
				   str_or(json_get_str(it.val, "name"), "")))
				had = json_get_int(old.val, "nodePort", 0);
		if (had && !service_ports_have(now, had))
			json_set_int(s->d, it.val, "nodePort", had);
	}
}

bool service_has_own_ports(const struct json *spec)
{
	return str_eq(type_of(spec), "NodePort") ||
	       (str_eq(type_of(spec), "LoadBalancer") &&
		json_get_bool(spec, "allocateLoadBalancerNodePorts", true));
}

static void keep_allocated(struct draft *s)
{
	const char *ip = json_get_str(s->was, "clusterIP");

	if (!service_is_external(s->was) && !service_is_external(s->spec)) {
		if (str_empty(json_get_str(s->spec, "clusterIP")) && !str_empty(ip))
			json_set_str(s->d, s->spec, "clusterIP", ip);
		if (!len(s, "clusterIPs") && json_get(s->was, "clusterIPs"))
			json_set(s->d, s->spec, "clusterIPs",
				 json_copy(s->d, json_get(s->was, "clusterIPs")));
	}
	if (service_has_own_ports(s->was) && service_has_own_ports(s->spec))
		keep_node_ports(s);
	if (service_has_health_port(s->was) && service_has_health_port(s->spec) &&
	    !json_get_int(s->spec, "healthCheckNodePort", 0))
		json_set(s->d, s->spec, "healthCheckNodePort",
			 json_copy(s->d, json_get(s->was, "healthCheckNodePort")));
}

static void set_one(struct draft *s, const char *member, const char *text)
{
	json_push_str(s->d, json_set(s->d, s->spec, member, json_arr(s->d)), text);
}

/* clusterIP and the first of clusterIPs are the same thing, and old clients know only one. */
static void agree(struct draft *s)
{
	const char *ip = str_or(json_get_str(s->spec, "clusterIP"), "");

	if (!s->was) {
		if (*ip && !len(s, "clusterIPs"))
			set_one(s, "clusterIPs", ip);
		return;
	}
	if (same_text(s, "clusterIP") && !len(s, "clusterIPs") && json_get(s->was, "clusterIPs"))
		json_set(s->d, s->spec, "clusterIPs",
			 json_copy(s->d, json_get(s->was, "clusterIPs")));
	if (same_text(s, "clusterIP") || !same(s, "clusterIPs"))
		return;
	if (*ip)
		set_one(s, "clusterIPs", ip);
	else
		(void)json_del(s->spec, "clusterIPs");
}

/* A Service that prefers two families is not given a second one, nor does it lose it, because the
 * server's ranges have changed. */
static bool is_left_alone(const struct draft *s)
{
	const char *was = json_get_str(s->was, "ipFamilyPolicy");

	return s->was && policy_is(s, "PreferDualStack") && same_text(s, "type") &&
	       (!was || str_eq(was, "PreferDualStack")) && same(s, "clusterIPs") &&
	       same(s, "ipFamilies");
}

static void default_policy(struct draft *s)
{
	const char *was = json_get_str(s->was, "ipFamilyPolicy");

	if (json_get(s->spec, "ipFamilyPolicy"))
		return;
	json_set_str(s->d, s->spec, "ipFamilyPolicy",
		     was             ? was
		     : is_by_hand(s) ? "RequireDualStack"
				     : "SingleStack");
}

static void cut_to_one(struct draft *s, const char *member)
{
	const struct json *list = json_get(s->spec, member);
	autofree char *first = xstrdup(service_text_at(list, 0));

	if (same(s, member) && json_len(list) > 1)
		set_one(s, member, first);
}

static bool fewer(const struct draft *s, const char *member)
{
	return len(s, member) && len(s, member) < json_len(json_get(s->was, member));
}

/* Giving up the second family needs to be said. */
static void give_up_family(struct draft *s)
{
	if (policy_is(s, "SingleStack")) {
		cut_to_one(s, "clusterIPs");
		cut_to_one(s, "ipFamilies");
		return;
	}
	if (fewer(s, "clusterIPs"))
		service_invalid(s, "spec.ipFamilyPolicy", "ipFamilyPolicy",
				"must be 'SingleStack' to release the secondary cluster IP");
	if (fewer(s, "ipFamilies"))
		service_invalid(s, "spec.ipFamilyPolicy", "ipFamilyPolicy",
				"must be 'SingleStack' to release the secondary IP family");
}

static void check_single(struct draft *s)
{
	if (!policy_is(s, "SingleStack"))
		return;
	if (len(s, "clusterIPs") == 2)
		service_invalid(
			s, "spec.ipFamilyPolicy", "ipFamilyPolicy",
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs "
			"are specified");
	if (len(s, "ipFamilies") == 2)
		service_invalid(
			s, "spec.ipFamilyPolicy", "ipFamilyPolicy",
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families "
			"are specified");
}

static bool is_v6(const char *ip)
{
	return strchr(ip, ':');
}

static const char *family_name(bool v6)
{
	return v6 ? "IPv6" : "IPv4";
}

static void add_family(struct draft *s, bool v6)
{
	json_push_str(s->d, json_need_arr(s->d, s->spec, "ipFamilies"), family_name(v6));
}

static void infer_families(struct draft *s)
{
	const struct json *ips = json_get(s->spec, "clusterIPs");

	for (size_t i = 0; i < json_len(ips) && !str_eq(service_text_at(ips, i), "None"); i++) {
		bool v6 = is_v6(service_text_at(ips, i));
		autofree char *field = xasprintf("spec.clusterIPs[%zu]", i);
		autofree char *why =
			xasprintf("%s is not configured on this cluster", family_name(v6));

		if (i < len(s, "ipFamilies"))
			continue;
		if (ranges_of(s->ranges, v6))
			add_family(s, v6);
		else
			service_invalid(s, field, "clusterIPs", why);
	}
}

static bool first_family_is_v6(const struct draft *s)
{
	return str_eq(service_text_at(json_get(s->spec, "ipFamilies"), 0), "IPv6");
}

static void check_configured(struct draft *s)
{
	const struct json *list = json_get(s->spec, "ipFamilies");

	if (policy_is(s, "RequireDualStack") && s->ranges->n_ip < 2)
		service_invalid(s, "spec.ipFamilyPolicy", "ipFamilyPolicy",
				"this cluster is not configured for dual-stack services");
	for (size_t i = 0; i < json_len(list); i++) {
		autofree char *field = xasprintf("spec.ipFamilies[%zu]", i);

		if (!ranges_of(s->ranges, str_eq(service_text_at(list, i), "IPv6")))
			causes_invalid_str(&s->op->causes, field, service_text_at(list, i),
					   "not configured on this cluster");
	}
}

static void settle_families(struct draft *s)
{
	struct causes *c = &s->op->causes;
	bool by_hand;

	if (service_is_external(s->spec) || is_left_alone(s))
		return;
	default_policy(s);
	service_check_addresses(s->spec, s->was, c);
	if (c->n)
		return;
	if (s->was)
		give_up_family(s);
	check_single(s);
	infer_families(s);
	if (c->n)
		return;
	by_hand = is_by_hand(s);
	if (!by_hand)
		check_configured(s);
	if (c->n)
		return;
	if (!len(s, "ipFamilies"))
		add_family(s, s->ranges->ip[0].v6);
	if (!policy_is(s, "SingleStack") && len(s, "ipFamilies") == 1 &&
	    (by_hand || s->ranges->n_ip == 2))
		add_family(s, !first_family_is_v6(s));
}

static void drop_if_same(struct draft *s, const char *member)
{
	if (json_equal(json_get(s->spec, member), json_get(s->was, member)))
		(void)json_del(s->spec, member);
}

static void drop_node_ports(struct draft *s)
{
	json_each(it, json_get(s->spec, "ports")) {
		int64_t port = json_get_int(it.val, "nodePort", 0);

		if (port && !service_ports_have(json_get(s->was, "ports"), port))
			return; /* a new one: validation refuses it */
	}
	json_each(it, json_get(s->spec, "ports"))
		(void)json_del(it.val, "nodePort");
}

/* Only what nobody has changed in the same write: that is for validation to refuse. */
static void drop_by_type(struct draft *s)
{
	bool balanced = str_eq(type_of(s->spec), "LoadBalancer");

	if (service_is_external(s->spec) && !service_is_external(s->was)) {
		if (same(s, "clusterIPs") && same_text(s, "clusterIP")) {
			(void)json_del(s->spec, "clusterIP");
			(void)json_del(s->spec, "clusterIPs");
		}
		drop_if_same(s, "ipFamilies");
		drop_if_same(s, "ipFamilyPolicy");
	}
	if (service_has_node_ports(s->was) && !service_has_node_ports(s->spec))
		drop_node_ports(s);
	if (service_has_health_port(s->was) && !service_has_health_port(s->spec))
		drop_if_same(s, "healthCheckNodePort");
	if (str_eq(type_of(s->was), "LoadBalancer") && !balanced) {
		drop_if_same(s, "allocateLoadBalancerNodePorts");
		drop_if_same(s, "loadBalancerClass");
		json_set(s->d, json_need_obj(s->d, json_root(s->d), "status"), "loadBalancer",
			 json_obj(s->d));
	}
	if (service_is_reachable_from_outside(s->was) &&
	    !service_is_reachable_from_outside(s->spec))
		drop_if_same(s, "externalTrafficPolicy");
}

struct err *service_settle(struct op *op, struct json_doc *d, const struct json *old)
{
	struct json *root = json_root(d);
	struct draft s = { .op = op,
			   .d = d,
			   .spec = json_get(root, "spec"),
			   .was = json_get(old, "spec"),
			   .ranges = op->admit->ranges,
			   .name = str_or(json_get_str(json_get(root, "metadata"), "name"), "") };
	struct err *e = NULL;

	if (!json_is(s.spec, JSON_OBJ) || str_eq(op->sub, "status"))
		return NULL;
	if (len(&s, "ports") > PORTS_MAX) {
		causes_add(&op->causes, CAUSE_INVALID, "spec.ports",
			   "Too many: %zu: must have at most %d items", len(&s, "ports"),
			   PORTS_MAX);
		return NULL;
	}
	if (s.was)
		keep_allocated(&s);
	agree(&s);
	settle_families(&s);
	if (!op->causes.n)
		e = service_take_ips(&s);
	if (!e && !op->causes.n)
		e = service_take_ports(&s);
	if (!e && !op->causes.n && s.was)
		drop_by_type(&s);
	service_give_back(&s);
	return e;
}
