/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/str.h"

/* The rules of Endpoints and NetworkPolicies. */

/* Endpoints */
static void check_subset(const struct json *subset, const struct path *p, const char *list,
			 struct causes *c)
{
	size_t i = 0;

	json_each(it, json_get(subset, list)) {
		const struct path *at = AT(IN(p, list), i++);
		const char *ip = str_or(json_get_str(it.val, "ip"), "");

		check_ip(c, ip, IN(at, "ip"));
		check_text(c, at, it.val, "hostname", meta_bad_dns_label);
		check_text(c, at, it.val, "nodeName", meta_bad_dns_subdomain);
		if (!is_ip(ip))
			bad_text(c, IN(at, "ip"), ip, "must be a valid IP address");
		else
			check_endpoint_ip(c, ip, IN(at, "ip"));
	}
}

static void check_endpoint_ports(struct causes *c, const struct json *ports, const struct path *p)
{
	size_t i = 0;

	json_each(it, ports) {
		const struct path *at = AT(p, i++);

		if (json_len(ports) > 1)
			(void)need_text(c, at, it.val, "name");
		check_text(c, at, it.val, "name", meta_bad_dns_label);
		check_port_number(c, at, it.val, "port");
		check_supported(c, at, it.val, "protocol", protocol_values);
		if (json_get(it.val, "appProtocol"))
			check_qualified(c, json_get_str(it.val, "appProtocol"),
					IN(at, "appProtocol"));
	}
}

void validate_endpoints(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *subsets = json_get(obj, "subsets");
	size_t i = 0;

	if (old && json_equal(subsets, json_get(old, "subsets")))
		return;
	json_each(it, subsets) {
		const struct path *p = AT(IN(NULL, "subsets"), i++);

		if (!json_len(json_get(it.val, "addresses")) &&
		    !json_len(json_get(it.val, "notReadyAddresses")))
			bad_required(c, p, "must specify `addresses` or `notReadyAddresses`");
		check_subset(it.val, p, "addresses", c);
		check_subset(it.val, p, "notReadyAddresses", c);
		check_endpoint_ports(c, json_get(it.val, "ports"), IN(p, "ports"));
	}
}

/* NetworkPolicy */
static void check_block(struct causes *c, const struct json *block, const struct path *p)
{
	const char *cidr = need_text(c, p, block, "cidr");
	size_t i = 0, faults = c->n;

	if (cidr)
		check_cidr(c, cidr, IN(p, "cidr"));
	if (!cidr || c->n != faults)
		return;
	json_each(it, json_get(block, "except")) {
		const struct path *at = AT(IN(p, "except"), i++);
		const char *s = str_or(json_str(it.val), "");

		faults = c->n;
		check_cidr(c, s, at);
		if (c->n == faults && !is_strictly_in(s, cidr))
			bad_text(c, at, s, "must be a strict subset of `cidr`");
	}
}

static void check_peer(const struct json *peer, const struct path *p, struct causes *c)
{
	const struct json *block = json_get(peer, "ipBlock");
	const struct json *pods = json_get(peer, "podSelector");
	const struct json *spaces = json_get(peer, "namespaceSelector");

	check_selector(c, IN(p, "podSelector"), pods);
	check_selector(c, IN(p, "namespaceSelector"), spaces);
	if (block)
		check_block(c, block, IN(p, "ipBlock"));
	if (!block && !pods && !spaces)
		bad_required(c, p, "must specify a peer");
	else if (block && (pods || spaces))
		bad_forbidden(c, p, "may not specify both ipBlock and another peer");
}

static void check_policy_port(struct causes *c, const struct json *port, const struct path *p)
{
	static const char *const protocols[] = { "TCP", "UDP", "SCTP", NULL };
	const struct json *number = json_get(port, "port"), *end = json_get(port, "endPort");

	if (json_get(port, "protocol"))
		check_supported(c, p, port, "protocol", protocols);
	if (json_str(number) && end)
		bad_invalid(c, IN(p, "endPort"), end,
			    "may not be specified when `port` is non-numeric");
	if (number)
		check_port_or_name(c, p, port, "port");
	if (!number && end)
		bad_invalid(c, IN(p, "endPort"), end,
			    "may not be specified when `port` is not specified");
	if (!end || !number || json_str(number))
		return;
	if (json_int(end, 0) < json_int(number, 0))
		bad_invalid(c, IN(p, "endPort"), number, "must be greater than or equal to `port`");
	check_port_number(c, p, port, "endPort");
}

static void check_rules(const struct json *spec, const char *name, const char *peers,
			struct causes *c)
{
	const struct path *p = IN(IN(NULL, "spec"), name);
	size_t i = 0, k;

	json_each(it, json_get(spec, name)) {
		const struct path *rule = AT(p, i++);

		k = 0;
		json_each(port, json_get(it.val, "ports"))
			check_policy_port(c, port.val, AT(IN(rule, "ports"), k++));
		k = 0;
		json_each(peer, json_get(it.val, peers))
			check_peer(peer.val, AT(IN(rule, peers), k++), c);
	}
}

void validate_network_policy(const struct json *obj, unused const struct json *old,
			     struct causes *c)
{
	static const char *const types[] = { "Ingress", "Egress", NULL };
	const struct json *spec = json_get(obj, "spec"), *list = json_get(spec, "policyTypes");
	const struct path *p = IN(NULL, "spec");
	size_t i = 0;

	check_selector(c, IN(p, "podSelector"), json_get(spec, "podSelector"));
	check_rules(spec, "ingress", "from", c);
	check_rules(spec, "egress", "to", c);
	if (json_len(list) > 2) {
		bad_invalid(c, IN(p, "policyTypes"), list,
			    "may not specify more than two policyTypes");
		return;
	}
	json_each(it, list) {
		const struct path *at = AT(IN(p, "policyTypes"), i++);

		if (!str_in(str_or(json_str(it.val), ""), types))
			bad_unsupported(c, at, json_str(it.val), types);
	}
}
