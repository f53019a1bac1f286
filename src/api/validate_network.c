/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"

/* The rules of EndpointSlices, Endpoints and NetworkPolicies. */

static bool is_ip(const char *s)
{
	struct in6_addr a;

	return inet_pton(AF_INET, s, &a) == 1 || inet_pton(AF_INET6, s, &a) == 1;
}

static const char *bad_ip(const char *s)
{
	return is_ip(s) ? NULL : "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
}

static const char *bad_cidr(const char *s)
{
	static const char bad[] = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
	const char *slash = strchr(s, '/');
	char addr[INET6_ADDRSTRLEN];
	uint64_t bits = 0;
	struct err *e;

	if (!slash || (size_t)(slash - s) >= sizeof(addr))
		return bad;
	memcpy(addr, s, (size_t)(slash - s));
	addr[slash - s] = 0;
	e = parse_uint(slash + 1, strchr(addr, ':') ? 128 : 32, &bits);
	if (e || !is_ip(addr)) {
		err_free(e);
		return bad;
	}
	return NULL;
}

/* EndpointSlice */
enum {
	MAX_ENDPOINTS = 1000,
	MAX_ADDRESSES = 100,
};

static void check_endpoints(const struct json *obj, struct causes *c)
{
	bool by_name = str_eq(json_get_str(obj, "addressType"), "FQDN");
	size_t i = 0, k;

	if (json_len(json_get(obj, "endpoints")) > MAX_ENDPOINTS) {
		causes_add(c, CAUSE_INVALID, "endpoints",
			   "Too many: %zu: must have at most %d items",
			   json_len(json_get(obj, "endpoints")), MAX_ENDPOINTS);
		return;
	}
	json_each(it, json_get(obj, "endpoints")) {
		const struct path *p = IN(AT(IN(NULL, "endpoints"), i++), "addresses");
		const struct json *list = json_get(it.val, "addresses");

		if (!json_len(list))
			bad_required(c, p, "must contain at least 1 address");
		k = 0;
		json_each(at, list) {
			const char *s = json_str(at.val);

			if (k++ < MAX_ADDRESSES && s && !by_name && bad_ip(s))
				bad_text(c, AT(p, k - 1), s, bad_ip(s));
		}
	}
}

void validate_endpoint_slice(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const types[] = { "FQDN", "IPv4", "IPv6", NULL };
	const struct path root = { .name = "" };
	size_t i = 0;

	check_values(c, &root, obj, "addressType", types);
	check_endpoints(obj, c);
	json_each(it, json_get(obj, "ports")) {
		const struct path *at = AT(IN(NULL, "ports"), i++);

		check_values(c, at, it.val, "protocol", protocol_values);
		if (json_get_int(it.val, "port", 0))
			check_port(c, at, it.val, "port");
	}
	if (old && !json_equal(json_get(obj, "addressType"), json_get(old, "addressType")))
		causes_invalid(c, "addressType", json_get(obj, "addressType"),
			       "field is immutable");
}

/* Endpoints */
static void check_subset(const struct json *subset, const struct path *p, const char *list,
			 struct causes *c)
{
	size_t i = 0;

	json_each(it, json_get(subset, list)) {
		const struct path *at = AT(IN(p, list), i++);
		const char *ip = json_get_str(it.val, "ip");

		if (need_text(c, at, it.val, "ip") && bad_ip(ip))
			bad_text(c, IN(at, "ip"), ip, bad_ip(ip));
		check_text(c, at, it.val, "hostname", meta_bad_dns_label);
	}
}

void validate_endpoints(const struct json *obj, unused const struct json *old, struct causes *c)
{
	size_t i = 0;

	json_each(it, json_get(obj, "subsets")) {
		const struct path *p = AT(IN(NULL, "subsets"), i++);
		const struct json *ports = json_get(it.val, "ports");
		size_t k = 0;

		if (!json_len(json_get(it.val, "addresses")) &&
		    !json_len(json_get(it.val, "notReadyAddresses")))
			bad_required(c, p, "must specify `addresses` or `notReadyAddresses`");
		check_subset(it.val, p, "addresses", c);
		check_subset(it.val, p, "notReadyAddresses", c);
		json_each(port, ports) {
			const struct path *at = AT(IN(p, "ports"), k++);

			if (json_len(ports) > 1)
				(void)need_text(c, at, port.val, "name");
			check_text(c, at, port.val, "name", meta_bad_dns_label);
			check_port(c, at, port.val, "port");
			check_values(c, at, port.val, "protocol", protocol_values);
		}
	}
}

/* NetworkPolicy */
static void check_peer(const struct json *peer, const struct path *p, struct causes *c)
{
	const struct json *block = json_get(peer, "ipBlock");
	const struct json *pods = json_get(peer, "podSelector");
	const struct json *spaces = json_get(peer, "namespaceSelector");
	size_t i = 0;

	check_selector(c, IN(p, "podSelector"), pods);
	check_selector(c, IN(p, "namespaceSelector"), spaces);
	if (!block && !pods && !spaces)
		bad_required(c, p, "must specify a peer");
	else if (block && (pods || spaces))
		bad_forbidden(c, p, "may not specify both ipBlock and another peer");
	if (!block)
		return;
	if (need_text(c, IN(p, "ipBlock"), block, "cidr"))
		check_text(c, IN(p, "ipBlock"), block, "cidr", bad_cidr);
	json_each(it, json_get(block, "except")) {
		const struct path *at = AT(IN(IN(p, "ipBlock"), "except"), i++);

		if (json_str(it.val) && bad_cidr(json_str(it.val)))
			bad_text(c, at, json_str(it.val), bad_cidr(json_str(it.val)));
	}
}

static void check_rules(const struct json *spec, const char *name, const char *peers,
			struct causes *c)
{
	static const char *const protocols[] = { "TCP", "UDP", "SCTP", NULL };
	const struct path *p = IN(IN(NULL, "spec"), name);
	size_t i = 0, k;

	json_each(it, json_get(spec, name)) {
		const struct path *rule = AT(p, i++);

		k = 0;
		json_each(port, json_get(it.val, "ports")) {
			const struct path *at = AT(IN(rule, "ports"), k++);

			check_values(c, at, port.val, "protocol", protocols);
			check_port_or_name(c, at, port.val, "port");
			check_port(c, at, port.val, "endPort");
		}
		k = 0;
		json_each(peer, json_get(it.val, peers))
			check_peer(peer.val, AT(IN(rule, peers), k++), c);
	}
}

void validate_network_policy(const struct json *obj, unused const struct json *old,
			     struct causes *c)
{
	static const char *const types[] = { "Ingress", "Egress", NULL };
	const struct json *spec = json_get(obj, "spec");
	const struct path *p = IN(NULL, "spec");
	size_t i = 0;

	check_selector(c, IN(p, "podSelector"), json_get(spec, "podSelector"));
	check_rules(spec, "ingress", "from", c);
	check_rules(spec, "egress", "to", c);
	json_each(it, json_get(spec, "policyTypes")) {
		autofree char *path = path_text(AT(IN(p, "policyTypes"), i++));

		if (json_str(it.val) && !str_in(json_str(it.val), types))
			causes_unsupported(c, path, json_str(it.val), types);
	}
}
