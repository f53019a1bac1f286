/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/service.h"
#include "api/validate_priv.h"
#include "base/ip.h"
#include "base/map.h"
#include "base/str.h"

/*
 * The rules of Services. Their addresses and ports are allocated before (server/admit/service.c),
 * so what is checked here is the state that would be stored.
 */
enum {
	AFFINITY_MAX_S = 86400,
};

static const char *const families[] = { "IPv4", "IPv6", NULL };

/* Ports */

static void check_ports(const struct json *ports, struct causes *c)
{
	const struct path *p = IN(IN(NULL, "spec"), "ports");
	autoptr(map) names = map_new(NULL);
	size_t i = 0;

	json_each(it, ports) {
		const struct path *at = AT(p, i++);
		const char *name = json_get_str(it.val, "name");

		if (json_len(ports) > 1)
			name = need_text(c, at, it.val, "name");
		check_text(c, at, it.val, "name", meta_bad_dns_label);
		if (!str_empty(name) && map_has(names, name))
			bad_duplicate(c, IN(at, "name"), name);
		if (!str_empty(name))
			map_put(names, name, names);
		check_port_number(c, at, it.val, "port");
		check_supported(c, at, it.val, "protocol", protocol_values);
		check_port_or_name(c, at, it.val, "targetPort");
		if (json_get(it.val, "appProtocol"))
			check_qualified(c, json_get_str(it.val, "appProtocol"),
					IN(at, "appProtocol"));
	}
}

static void twice(struct causes *c, size_t i, const struct json *port, bool node)
{
	autofree char *field = xasprintf("spec.ports[%zu]%s", i, node ? ".nodePort" : "");

	if (node)
		causes_add(c, CAUSE_DUPLICATE, field, "Duplicate value: %lld",
			   (long long)json_get_int(port, "nodePort", 0));
	else
		causes_add(c, CAUSE_DUPLICATE, field,
			   "Duplicate value: {\"Name\":\"\",\"Protocol\":\"%s\",\"AppProtocol\":"
			   "null,\"Port\":%lld,\"TargetPort\":0,\"NodePort\":0}",
			   str_or(json_get_str(port, "protocol"), ""),
			   (long long)json_get_int(port, "port", 0));
}

/* One number of one protocol leads to one place. */
static void check_numbers(const struct json *ports, const char *member, bool node, struct causes *c)
{
	autoptr(map) seen = map_new(NULL);
	size_t i = 0;

	json_each(it, ports) {
		long long number = json_get_int(it.val, member, 0);
		autofree char *key =
			xasprintf("%s/%lld", str_or(json_get_str(it.val, "protocol"), ""), number);

		if ((number || !node) && map_has(seen, key))
			twice(c, i, it.val, node);
		map_put(seen, key, seen);
		i++;
	}
}

static void check_node_ports(const struct json *spec, struct causes *c)
{
	size_t i = 0;

	if (str_eq(json_get_str(spec, "type"), "ClusterIP")) {
		json_each(it, json_get(spec, "ports")) {
			autofree char *field = xasprintf("spec.ports[%zu].nodePort", i++);

			if (json_get_int(it.val, "nodePort", 0))
				causes_forbidden(c, field,
						 "may not be used when `type` is 'ClusterIP'");
		}
	}
	check_numbers(json_get(spec, "ports"), "nodePort", true, c);
	check_numbers(json_get(spec, "ports"), "port", false, c);
}

/* Addresses */

static bool is_ip6(const char *s)
{
	return strchr(str_or(s, ""), ':');
}

static void check_families(const struct json *spec, struct causes *c)
{
	static const char *const policies[] = { "PreferDualStack", "RequireDualStack",
						"SingleStack", NULL };
	const struct json *list = json_get(spec, "ipFamilies");
	const char *policy = json_get_str(spec, "ipFamilyPolicy");

	for (size_t i = 0; i < json_len(list); i++) {
		const char *s = str_or(json_str(json_at(list, i)), "");
		autofree char *field = xasprintf("spec.ipFamilies[%zu]", i);

		if (!str_in(s, families))
			causes_unsupported(c, field, s, families);
		for (size_t k = 0; k < i && k < SERVICE_FAMILIES_MAX; k++)
			if (str_eq(s, json_str(json_at(list, k)))) {
				causes_add(c, CAUSE_DUPLICATE, field, "Duplicate value: \"%s\"", s);
				break;
			}
	}
	if (policy && !str_in(policy, policies))
		causes_unsupported(c, "spec.ipFamilyPolicy", policy, policies);
}

/* False: further checks would only repeat what is wrong. */
static bool check_ips(const struct json *spec, struct causes *c)
{
	const struct json *list = json_get(spec, "clusterIPs");
	bool good = true;

	for (size_t i = 0; i < json_len(list); i++) {
		const char *s = str_or(json_str(json_at(list, i)), "");
		autofree char *field = xasprintf("spec.clusterIPs[%zu]", i);

		if (!i && str_eq(s, "None")) {
			if (json_len(list) > 1) {
				causes_invalid(c, "spec.clusterIPs", list,
					       "'None' must be the first and only value");
				good = false;
			}
		} else {
			size_t faults = c->n;

			check_ip(c, s, AT(IN(IN(NULL, "spec"), "clusterIPs"), i));
			good &= c->n == faults;
		}
	}
	if (json_len(list) > SERVICE_FAMILIES_MAX)
		causes_invalid(c, "spec.clusterIPs", list, "may only hold up to 2 values");
	return good;
}

static void check_match(const struct json *spec, struct causes *c)
{
	const struct json *ips = json_get(spec, "clusterIPs"), *list = json_get(spec, "ipFamilies");

	if (json_len(ips) >= SERVICE_FAMILIES_MAX &&
	    is_ip6(json_str(json_at(ips, 0))) == is_ip6(json_str(json_at(ips, 1))))
		causes_invalid(c, "spec.clusterIPs", ips,
			       "may specify no more than one IP for each IP family");
	for (size_t i = 0; !service_is_headless(spec) && i < MIN(json_len(ips), json_len(list));
	     i++) {
		const char *family = json_str(json_at(list, i)), *ip = json_str(json_at(ips, i));
		autofree char *field = xasprintf("spec.clusterIPs[%zu]", i);
		autofree char *why = xasprintf(
			"expected an %s value as indicated by `ipFamilies[%zu]`", family, i);

		if (str_in(family, families) && str_eq(family, "IPv6") != is_ip6(ip))
			causes_invalid_str(c, field, ip, why);
	}
}

void service_check_addresses(const struct json *spec, unused const struct json *was,
			     struct causes *c)
{
	const struct json *ips = json_get(spec, "clusterIPs");
	const char *ip = json_get_str(spec, "clusterIP");

	if (service_is_external(spec))
		return;
	if (!str_empty(ip) && !json_len(ips))
		causes_required(c, "spec.clusterIPs", NULL);
	else if (!str_empty(ip) && !str_eq(json_str(json_at(ips, 0)), ip))
		causes_invalid(c, "spec.clusterIPs", ips, "first value must match `clusterIP`");
	else if (str_empty(ip) && json_len(ips))
		causes_invalid(c, "spec.clusterIPs", ips,
			       "must be empty when `clusterIP` is not specified");
	check_families(spec, c);
	if (check_ips(spec, c))
		check_match(spec, c);
}

static bool same_at(const struct json *a, const struct json *b, size_t i)
{
	return str_eq(json_str(json_at(a, i)), json_str(json_at(b, i)));
}

/* A second address may come and go; the first stays. member is clusterIPs or ipFamilies. */
static void check_kept(const struct json *spec, const struct json *was, const char *member,
		       struct causes *c)
{
	const struct json *now = json_get(spec, member), *old = json_get(was, member);
	size_t n = json_len(now), n_old = json_len(old);
	bool ips = str_eq(member, "clusterIPs");
	autofree char *first = xasprintf("spec.%s[0]", member);

	for (size_t i = 0; n == n_old && i < n; i++) {
		autofree char *field = xasprintf("spec.%s[%zu]", member, ips ? i : 0);

		if (!same_at(now, old, i))
			causes_invalid(c, field, now, "may not change once set");
	}
	if (n == n_old || !n_old)
		return;
	if (!n)
		causes_invalid(c, first, now,
			       ips ? "primary clusterIP can not be unset"
				   : "primary ipFamily can not be unset");
	else if (!same_at(now, old, 0))
		causes_invalid(c, first, json_get(spec, "clusterIPs"), "may not change once set");
	if (n == 1 && n_old > 1 && !str_eq(json_get_str(spec, "ipFamilyPolicy"), "SingleStack"))
		causes_invalid(
			c, "spec.ipFamilyPolicy", json_get(spec, "ipFamilyPolicy"),
			ips ? "must be set to 'SingleStack' when releasing the secondary clusterIP"
			    : "must be set to 'SingleStack' when releasing the secondary ipFamily");
}

static void check_update(const struct json *spec, const struct json *was, struct causes *c)
{
	bool headless = service_is_headless(spec), before = service_is_headless(was);
	const struct json *class = json_get(spec, "loadBalancerClass");

	if (!service_is_external(spec) && !service_is_external(was) && !(headless && before))
		check_kept(spec, was, "clusterIPs", c);
	if (!service_is_external(spec) && !service_is_external(was) && !headless && !before)
		check_kept(spec, was, "ipFamilies", c);
	if (str_eq(json_get_str(spec, "type"), "LoadBalancer") &&
	    str_eq(json_get_str(was, "type"), "LoadBalancer") &&
	    !json_equal(class, json_get(was, "loadBalancerClass")))
		causes_invalid(c, "spec.loadBalancerClass", class, "may not change once set");
	if (service_has_health_port(spec) && service_has_health_port(was) &&
	    !json_equal(json_get(spec, "healthCheckNodePort"),
			json_get(was, "healthCheckNodePort")))
		causes_forbidden(c, "spec.healthCheckNodePort", "field is immutable");
}

/* Types */

static void check_external(const struct json *spec, struct causes *c)
{
	static const char *const none[] = { "clusterIPs", "ipFamilies", "ipFamilyPolicy" };
	const char *name = json_get_str(spec, "externalName");
	size_t len = name ? strlen(name) : 0;
	autofree char *text =
		xstrndup(str_or(name, ""), len && name[len - 1] == '.' ? len - 1 : len);

	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		autofree char *field = xasprintf("spec.%s", none[i]);

		if (json_get(spec, none[i]) && (i == 2 || json_len(json_get(spec, none[i]))))
			causes_forbidden(c, field, "may not be set for ExternalName services");
	}
	if (!*text)
		causes_required(c, "spec.externalName", NULL);
	else if (meta_bad_dns_subdomain(text))
		causes_invalid_str(c, "spec.externalName", text, meta_bad_dns_subdomain(text));
}

static void check_type(const struct json *spec, struct causes *c)
{
	const char *type = json_get_str(spec, "type");
	bool headless = service_is_headless(spec);

	if (!json_len(json_get(spec, "ports")) && !headless && !service_is_external(spec))
		causes_required(c, "spec.ports", NULL);
	if (headless && service_has_node_ports(spec)) {
		autofree char *why = xasprintf("may not be set to 'None' for %s services", type);

		causes_invalid_str(c, "spec.clusterIPs[0]", "None", why);
	}
	if (service_is_external(spec))
		check_external(spec, c);
}

static void check_affinity(const struct json *spec, struct causes *c)
{
	static const char *const values[] = { "ClientIP", "None", NULL };
	const struct json *timeout =
		json_at_path(spec, "sessionAffinityConfig.clientIP.timeoutSeconds");
	int64_t s = json_int(timeout, 1);

	check_values(c, IN(NULL, "spec"), spec, "sessionAffinity", values);
	if (str_eq(json_get_str(spec, "sessionAffinity"), "ClientIP") &&
	    (s <= 0 || s > AFFINITY_MAX_S))
		causes_invalid(c, "spec.sessionAffinityConfig.clientIP.timeoutSeconds", timeout,
			       "must be greater than 0 and less than 86400");
}

static void check_traffic(const struct json *spec, struct causes *c)
{
	static const char *const places[] = { "Cluster", "Local", NULL };
	static const char *const near[] = { "PreferClose", "PreferSameZone", "PreferSameNode",
					    NULL };
	const char *outside = json_get_str(spec, "externalTrafficPolicy");

	if (!str_empty(outside) && !service_is_reachable_from_outside(spec))
		causes_invalid_str(c, "spec.externalTrafficPolicy", outside,
				   "may only be set for externally-accessible services");
	else
		check_values(c, IN(NULL, "spec"), spec, "externalTrafficPolicy", places);
	if (json_get_int(spec, "healthCheckNodePort", 0) && !service_has_health_port(spec))
		causes_invalid(c, "spec.healthCheckNodePort", json_get(spec, "healthCheckNodePort"),
			       "may only be set when `type` is 'LoadBalancer' and "
			       "`externalTrafficPolicy` is 'Local'");
	if (json_get(spec, "internalTrafficPolicy"))
		check_supported(c, IN(NULL, "spec"), spec, "internalTrafficPolicy", places);
	if (json_get(spec, "trafficDistribution"))
		check_supported(c, IN(NULL, "spec"), spec, "trafficDistribution", near);
}

/* As kube-apiserver: the path begins with a capital, and spaces around a range are fine. */
static void check_source_ranges(const struct json *spec, struct causes *c)
{
	const struct json *list = json_get(spec, "loadBalancerSourceRanges");
	const struct path *p = IN(IN(NULL, "spec"), "LoadBalancerSourceRanges");
	size_t i = 0;

	if (json_len(list) && !str_eq(json_get_str(spec, "type"), "LoadBalancer"))
		bad_forbidden(c, p, "may only be used when `type` is 'LoadBalancer'");
	json_each(it, list) {
		struct span s = span_trim(SPAN(str_or(json_str(it.val), "")));
		autofree char *range = xstrndup(s.p, s.len);

		check_cidr(c, range, AT(p, i++));
	}
}

static void check_load_balancer(const struct json *spec, struct causes *c)
{
	static const char *const members[] = { "allocateLoadBalancerNodePorts",
					       "loadBalancerClass" };
	static const char *const fields[] = { "spec.allocateLoadBalancerNodePorts",
					      "spec.loadBalancerClass" };

	check_source_ranges(spec, c);
	if (str_eq(json_get_str(spec, "type"), "LoadBalancer")) {
		check_text(c, IN(NULL, "spec"), spec, "loadBalancerClass", meta_bad_qualified_name);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (json_get(spec, members[i]))
			causes_forbidden(c, fields[i],
					 "may only be used when `type` is 'LoadBalancer'");
}

void validate_service(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const types[] = { "ClusterIP", "ExternalName", "LoadBalancer",
					     "NodePort", NULL };
	const struct json *spec = json_get(obj, "spec"), *was = json_get(old, "spec");
	size_t i = 0;

	if (!json_is(spec, JSON_OBJ))
		return;
	if (was)
		check_update(spec, was, c);
	check_type(spec, c);
	check_ports(json_get(spec, "ports"), c);
	meta_validate_labels(json_get(spec, "selector"), "spec.selector", c);
	check_affinity(spec, c);
	service_check_addresses(spec, was, c);
	json_each(it, json_get(spec, "externalIPs")) {
		const struct path *at = AT(IN(IN(NULL, "spec"), "externalIPs"), i++);

		size_t faults = c->n;

		check_ip(c, str_or(json_str(it.val), ""), at);
		if (c->n == faults)
			check_endpoint_ip(c, json_str(it.val), at);
	}
	check_values(c, IN(NULL, "spec"), spec, "type", types);
	check_node_ports(spec, c);
	check_load_balancer(spec, c);
	check_traffic(spec, c);
}

void warn_service(const struct json *obj, const struct json *old,
		  void (*say)(void *arg, const char *text), void *arg)
{
	const struct json *spec = json_get(obj, "spec"), *was = json_get(old, "spec");
	const struct json *ips = json_get(spec, "externalIPs");

	if (json_len(ips) && !json_equal(ips, json_get(was, "externalIPs")))
		say(arg, "spec.externalIPs is deprecated and may no longer be implemented in some "
			 "clusters");
	if (str_eq(json_get_str(spec, "trafficDistribution"), "PreferClose") &&
	    !str_eq(json_get_str(was, "trafficDistribution"), "PreferClose"))
		say(arg, "spec.trafficDistribution: \"PreferClose\" is deprecated; use "
			 "\"PreferSameZone\"");
}

/* Status */

static void check_ingress(const struct json *ingress, const struct path *p, struct causes *c)
{
	static const char *const modes[] = { "Proxy", "VIP", NULL };
	const char *ip = json_get_str(ingress, "ip"), *name = json_get_str(ingress, "hostname");

	if (!str_empty(ip))
		check_ip(c, ip, IN(p, "ip"));
	if (json_get(ingress, "ipMode") && str_empty(ip))
		bad_forbidden(c, IN(p, "ipMode"), "may not be specified when `ip` is not set");
	else if (json_get(ingress, "ipMode"))
		check_supported(c, p, ingress, "ipMode", modes);
	if (str_empty(name))
		return;
	check_text(c, p, ingress, "hostname", meta_bad_dns_subdomain);
	if (is_ip(name))
		bad_text(c, IN(p, "hostname"), name, "must be a DNS name, not an IP address");
}

void validate_service_status(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char where[] = "status.loadBalancer.ingress";
	const struct json *list = json_at_path(obj, where);
	const struct path *p = IN(NULL, where);
	size_t i = 0;

	if (!json_len(list) || json_equal(list, json_at_path(old, where)))
		return;
	if (!str_eq(json_get_str(json_get(obj, "spec"), "type"), "LoadBalancer"))
		bad_forbidden(c, p, "may only be used when `spec.type` is 'LoadBalancer'");
	else
		json_each(it, list)
			check_ingress(it.val, AT(p, i++), c);
}
