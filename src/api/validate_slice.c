/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/str.h"

/* The rules of EndpointSlices. */
enum {
	MAX_ENDPOINTS = 1000,
	MAX_ADDRESSES = 100,
	MAX_PORTS = 20000,
	MAX_HINTS = 8,
};

static const char *bad_domain(const char *s)
{
	size_t len = strlen(s);
	autofree char *name = xstrndup(s, len && s[len - 1] == '.' ? len - 1 : len);

	if (meta_bad_dns_subdomain(name))
		return meta_bad_dns_subdomain(name);
	return strchr(name, '.')
		       ? NULL
		       : "should be a domain with at least two segments separated by dots";
}

static void check_address(struct causes *c, const char *s, const char *type, const struct path *at,
			  const struct path *list)
{
	size_t faults = c->n;

	if (str_eq(type, "FQDN")) {
		if (!*s)
			bad_required(c, at, NULL);
		else if (bad_domain(s))
			bad_text(c, at, s, bad_domain(s));
		return;
	}
	if (!str_eq(type, "IPv4") && !str_eq(type, "IPv6"))
		return;
	check_ip(c, s, at);
	if (c->n != faults)
		return;
	if (str_eq(type, "IPv6") != (strchr(s, ':') != NULL))
		bad_text(c, list, s,
			 str_eq(type, "IPv4") ? "must be an IPv4 address"
					      : "must be an IPv6 address");
	check_endpoint_ip(c, s, at);
}

static void check_hint_names(struct causes *c, const struct json *list,
			     const char *(*bad)(const char *s), const struct path *p)
{
	autoptr(map) seen = json_len(list) ? map_new(NULL) : NULL;
	size_t i = 0;

	if (json_len(list) > MAX_HINTS) {
		bad_too_many(c, p, json_len(list), MAX_HINTS);
		return;
	}
	json_each(it, list) {
		const char *name = str_or(json_get_str(it.val, "name"), "");
		const struct path *at = IN(AT(p, i++), "name");

		if (map_has(seen, name))
			bad_duplicate(c, at, name);
		map_put(seen, name, seen);
		if (bad(name))
			bad_text(c, at, name, bad(name));
	}
}

static void check_endpoint(struct causes *c, const struct json *endpoint, const char *type,
			   const struct path *p)
{
	const struct json *list = json_get(endpoint, "addresses");
	const struct json *hints = json_get(endpoint, "hints");
	const struct path *addresses = IN(p, "addresses");
	size_t i = 0;

	if (!json_len(list))
		bad_required(c, addresses, "must contain at least 1 address");
	else if (json_len(list) > MAX_ADDRESSES)
		bad_too_many(c, addresses, json_len(list), MAX_ADDRESSES);
	json_each(it, list)
		check_address(c, str_or(json_str(it.val), ""), type, AT(addresses, i++), addresses);
	check_text(c, p, endpoint, "nodeName", meta_bad_dns_subdomain);
	check_text(c, p, endpoint, "hostname", meta_bad_dns_label);
	check_hint_names(c, json_get(hints, "forZones"), meta_bad_label_value,
			 IN(IN(p, "hints"), "forZones"));
	check_hint_names(c, json_get(hints, "forNodes"), meta_bad_dns_subdomain,
			 IN(IN(p, "hints"), "forNodes"));
}

static void check_slice_ports(struct causes *c, const struct json *ports)
{
	const struct path *p = IN(NULL, "ports");
	autoptr(map) names = json_len(ports) > 1 ? map_new(NULL) : NULL;
	size_t i = 0;

	if (json_len(ports) > MAX_PORTS) {
		bad_too_many(c, p, json_len(ports), MAX_PORTS);
		return;
	}
	json_each(it, ports) {
		const struct path *at = AT(p, i++);
		const char *name = str_or(json_get_str(it.val, "name"), "");

		check_text(c, at, it.val, "name", meta_bad_dns_label);
		if (names && map_has(names, name))
			bad_duplicate(c, IN(at, "name"), name);
		if (names)
			map_put(names, name, names);
		check_supported(c, at, it.val, "protocol", protocol_values);
		if (json_get(it.val, "appProtocol"))
			check_qualified(c, json_get_str(it.val, "appProtocol"),
					IN(at, "appProtocol"));
	}
}

void validate_endpoint_slice(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const types[] = { "FQDN", "IPv4", "IPv6", NULL };
	const struct json *endpoints = json_get(obj, "endpoints");
	const struct path root = { .name = "" }, *p = IN(NULL, "endpoints");
	size_t i = 0;

	if (need_text(c, &root, obj, "addressType"))
		check_values(c, &root, obj, "addressType", types);
	check_slice_ports(c, json_get(obj, "ports"));
	if (json_len(endpoints) > MAX_ENDPOINTS)
		bad_too_many(c, p, json_len(endpoints), MAX_ENDPOINTS);
	else if (!old || !json_equal(endpoints, json_get(old, "endpoints")))
		json_each(it, endpoints)
			check_endpoint(c, it.val, json_get_str(obj, "addressType"), AT(p, i++));
	if (old && !json_equal(json_get(obj, "addressType"), json_get(old, "addressType")))
		causes_invalid(c, "addressType", json_get(obj, "addressType"),
			       "field is immutable");
}

void warn_endpoint_slice(const struct json *obj, unused const struct json *old,
			 void (*say)(void *arg, const char *text), void *arg)
{
	if (str_eq(json_get_str(obj, "addressType"), "FQDN"))
		say(arg, "spec.addressType: FQDN endpoints are deprecated");
}
