/* SPDX-License-Identifier: Apache-2.0 */
#include "api/service.h"

#include "api/pod.h"
#include "base/str.h"
#include "json/json.h"

static bool is_type(const struct json *spec, const char *type)
{
	return str_eq(json_get_str(spec, "type"), type);
}

bool service_is_external(const struct json *spec)
{
	return is_type(spec, "ExternalName");
}

bool service_is_headless(const struct json *spec)
{
	const struct json *ips = json_get(spec, "clusterIPs");

	return json_len(ips) == 1 && str_eq(json_str(json_at(ips, 0)), "None");
}

bool service_has_node_ports(const struct json *spec)
{
	return is_type(spec, "NodePort") || is_type(spec, "LoadBalancer");
}

bool service_is_reachable_from_outside(const struct json *spec)
{
	return service_has_node_ports(spec) ||
	       (is_type(spec, "ClusterIP") && json_len(json_get(spec, "externalIPs")));
}

bool service_has_health_port(const struct json *spec)
{
	return is_type(spec, "LoadBalancer") &&
	       str_eq(json_get_str(spec, "externalTrafficPolicy"), "Local");
}

bool service_selects(const struct json *selector, const struct json *labels)
{
	if (!json_is(selector, JSON_OBJ) || !json_len(selector))
		return false;
	json_each(it, selector)
		if (!str_eq(json_str(it.val), json_get_str(labels, it.key)))
			return false;
	return true;
}

static const struct json *named_port(const struct json *containers, bool init, const char *name,
				     const char *protocol)
{
	json_each(c, containers) {
		if (init && !pod_is_sidecar(c.val))
			continue;
		json_each(p, json_get(c.val, "ports"))
			if (str_eq(json_get_str(p.val, "name"), name) &&
			    str_eq(str_or(json_get_str(p.val, "protocol"), "TCP"), protocol))
				return p.val;
	}
	return NULL;
}

int64_t service_target_port(const struct json *port, const struct json *pod_spec)
{
	const struct json *target = json_get(port, "targetPort"), *found;
	const char *protocol = str_or(json_get_str(port, "protocol"), "TCP");

	if (!json_str(target))
		return json_int(target, json_get_int(port, "port", 0));
	found = named_port(json_get(pod_spec, "containers"), false, json_str(target), protocol);
	if (!found)
		found = named_port(json_get(pod_spec, "initContainers"), true, json_str(target),
				   protocol);
	return json_get_int(found, "containerPort", 0);
}
